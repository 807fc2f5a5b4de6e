#!/usr/bin/env python3
"""cuda_core.py: a kernel that cuda.core compiles (NVRTC) and links with warpheap's device code
(nvJitLink), in milliseconds. The heap is one word. Exit status 77: no cuda.core, or no GPU.
"""
import sys

try:
    import numpy as np
    from cuda.core import (Device, LaunchConfig, Linker, LinkerOptions, ObjectCode, Program,
                           ProgramOptions, launch)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
import warpheap

KERNELS = r"""
#include <warpheap/warpheap_abi.h>
/* Thread i: a list of i % 100 + 1 numbers, their sum, and the list back. */
extern "C" __global__ void sums(wh_abi1_heap heap, unsigned long long *sums, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int *list = (int *)wh_abi1_malloc(heap, (i % 100 + 1) * sizeof(int));
    sums[i] = 0;
    for (int k = 0; list != 0 && k <= i % 100; k++) list[k] = k;
    for (int k = 0; list != 0 && k <= i % 100; k++) sums[i] += list[k];
    wh_abi1_free(heap, list);
}
"""
N = 100000


def build(arch):
    """Machine code for an architecture, "sm_90". No GPU is needed for this."""
    options = ProgramOptions(arch=arch, std="c++17", relocatable_device_code=True,
                             include_path=warpheap.get_include())
    kernels = Program(KERNELS, "c++", options).compile("cubin")
    heap_code = ObjectCode.from_fatbin(warpheap.get_link())
    return Linker(kernels, heap_code, options=LinkerOptions(arch=arch)).link("cubin")


def main():
    try:
        device = Device()
        device.set_current()
    except Exception as error:  # whatever keeps it from its GPU
        print(f"skipped: {error}")
        return 77
    kernel = build(f"sm_{device.arch}").get_kernel("sums")
    stream = device.create_stream()
    out = device.allocate(8 * N, stream=stream)
    with warpheap.Heap(64 << 20, "cuda") as heap:
        config = LaunchConfig(grid=-(-N // 256), block=256)
        launch(stream, config, kernel, np.uint64(heap.handle), int(out.handle), np.int32(N))
        stream.sync()
        stats = heap.stats()
        heap.check()
        from_device = np.zeros(N, np.uint64)
        copy_out(from_device, int(out.handle))
    expected = np.arange(N, dtype=np.uint64) % 100
    good = (from_device == expected * (expected + 1) // 2).all()
    print(f"sums {'right' if good else 'WRONG'}, {stats['live_blocks']} blocks live, "
          f"{stats['failed']} mallocs failed")
    out.close(stream)
    return 0 if good and stats["live_blocks"] == 0 and stats["failed"] == 0 else 1


def copy_out(array, address):
    from cuda.bindings import runtime
    kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
    error, = runtime.cudaMemcpy(array.ctypes.data, address, array.nbytes, kind)
    if error != runtime.cudaError_t.cudaSuccess:
        raise RuntimeError(error)


if __name__ == "__main__":
    sys.exit(main())
