#!/usr/bin/env python3
"""python_cupy.py: a heap made from Python, by ctypes, and used in kernels that CuPy compiles at run
time (NVRTC) from the headers alone.

    python_cupy.py <shared library, built for the GPU> <include folder>

The handle is too large for an argument of a CuPy kernel: it lies in device memory, and kernels
get its address. Exit status 77: no CuPy, or no GPU.
"""
import ctypes
import pathlib
import re
import sys

KERNELS = r"""
#include <warpheap/warpheap.h>
extern "C" __global__ void take(const wh_heap_ref *heap, int **lists, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int *list = (int *)wh_malloc(*heap, (i % 100 + 1) * sizeof(int));
    for (int k = 0; list != nullptr && k <= i % 100; k++) list[k] = k;
    lists[i] = list;
}
extern "C" __global__ void give(const wh_heap_ref *heap, int **lists, long long *sums, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int k = 0; lists[i] != nullptr && k <= i % 100; k++) sums[i] += lists[i][k];
    wh_free(*heap, lists[i]);
}
"""
N = 10000


class Options(ctypes.Structure):  # what comes behind these fields stays at its default
    _fields_ = [("struct_bytes", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
                ("allocator", ctypes.c_char_p), ("device", ctypes.c_void_p),
                ("memory", ctypes.c_void_p)]


class Kind(ctypes.Structure):
    _fields_ = [("struct_bytes", ctypes.c_uint64), ("allocator", ctypes.c_char_p),
                ("handle_bytes", ctypes.c_uint64), ("layout", ctypes.c_uint64),
                ("version", ctypes.c_uint32), ("target", ctypes.c_int)]


class Stats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in (
        "struct_bytes", "heap_bytes", "metadata_bytes", "used_bytes", "peak_bytes", "live_blocks",
        "largest_free", "failed", "bad_frees", "mallocs", "frees")] + [
            ("n_classes", ctypes.c_uint32), ("unused", ctypes.c_uint32)]


def main():
    library = ctypes.CDLL(sys.argv[1])
    include = pathlib.Path(sys.argv[2])
    for name in ("wh_status_name", "wh_last_error_text"):
        getattr(library, name).restype = ctypes.c_char_p
    library.wh_heap_handle_bytes.restype = ctypes.c_uint64

    def must(status):
        if status != 0:
            raise SystemExit(f"{library.wh_status_name(status)}: {library.wh_last_error_text()}")

    try:
        import cupy
        if cupy.cuda.runtime.getDeviceCount() == 0:
            raise RuntimeError("no GPU")
    except Exception as e:  # whatever keeps CuPy from its GPU
        print(f"skipped: {e}")
        return 77

    device, heap = ctypes.c_void_p(), ctypes.c_void_p()
    must(library.wh_device_open(ctypes.byref(device), b"cuda", None))
    options = Options(ctypes.sizeof(Options), 64 << 20, None, device, None)
    must(library.wh_heap_create(ctypes.byref(heap), ctypes.byref(options)))
    size = library.wh_heap_handle_bytes(heap)
    text = (include / "warpheap/detail/version.h").read_text()
    major, minor, patch = (int(re.search(rf"WH_VERSION_{part} (\d+)", text)[1])
                           for part in ("MAJOR", "MINOR", "PATCH"))
    handle = ctypes.create_string_buffer(size)
    kind = Kind(ctypes.sizeof(Kind), b"tessera", size, 0, major * 10000 + minor * 100 + patch, 1)
    must(library.wh_heap_copy_handle(heap, ctypes.byref(kind), handle))

    module = cupy.RawModule(code=KERNELS, options=(f"-I{include}", "--std=c++17"))
    on_device = cupy.asarray(bytearray(handle.raw), dtype=cupy.uint8)
    lists = cupy.zeros(N, dtype=cupy.uint64)
    sums = cupy.zeros(N, dtype=cupy.int64)
    blocks = -(-N // 128)
    module.get_function("take")((blocks,), (128,), (on_device, lists, cupy.int32(N)))
    stats = Stats(ctypes.sizeof(Stats))
    must(library.wh_heap_get_stats(heap, ctypes.byref(stats)))
    live, failed = stats.live_blocks, stats.failed
    module.get_function("give")((blocks,), (128,), (on_device, lists, sums, cupy.int32(N)))
    stats.struct_bytes = ctypes.sizeof(Stats)
    must(library.wh_heap_get_stats(heap, ctypes.byref(stats)))
    must(library.wh_heap_check(heap, None))
    expected = sum((i % 100) * (i % 100 + 1) // 2 for i in range(N))
    print(f"{live} blocks, {failed} NULL; sum {int(sums.sum())} of {expected}; "
          f"{stats.live_blocks} live at the end")
    good = live == N and failed == 0 and int(sums.sum()) == expected and stats.live_blocks == 0
    library.wh_heap_destroy(heap)
    library.wh_device_close(device)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
