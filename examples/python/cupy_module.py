#!/usr/bin/env python3
"""cupy_module.py: a module of CuPy with kernels that allocate, in a heap whose memory is an array
of CuPy, read by CuPy through a view. The module is machine code that cuda.core has linked.
Exit status 77: no CuPy or cuda.core, or no GPU.
"""
import pathlib
import sys
import tempfile

try:
    import cupy
    from cuda.core import Linker, LinkerOptions, ObjectCode, Program, ProgramOptions
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
import warpheap

KERNELS = r"""
#include <warpheap/warpheap_abi.h>
/* Thread i: a row of i + 1 floats. */
extern "C" __global__ void rows(wh_abi1_heap heap, float **rows, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    rows[i] = (float *)wh_abi1_malloc(heap, (i + 1) * sizeof(float));
    for (int k = 0; rows[i] != 0 && k <= i; k++) rows[i][k] = i;
}
extern "C" __global__ void give_back(wh_abi1_heap heap, float **rows, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) wh_abi1_free(heap, rows[i]);
}
"""
N = 1000


def build(arch):
    """Machine code for an architecture, "sm_90". No GPU is needed for this."""
    options = ProgramOptions(arch=arch, std="c++17", relocatable_device_code=True,
                             include_path=warpheap.get_include())
    kernels = Program(KERNELS, "c++", options).compile("cubin")
    heap_code = ObjectCode.from_fatbin(warpheap.get_link())
    return Linker(kernels, heap_code, options=LinkerOptions(arch=arch)).link("cubin")


def main():
    try:
        arch = f"sm_{cupy.cuda.Device().compute_capability}"
    except Exception as error:  # whatever keeps CuPy from its GPU
        print(f"skipped: {error}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "rows.cubin")
        path.write_bytes(build(arch).code)
        module = cupy.RawModule(path=str(path))
        rows_kernel, give_back = (module.get_function(name) for name in ("rows", "give_back"))
    rows = cupy.zeros(N, cupy.uint64)
    blocks = -(-N // 256)
    memory = cupy.empty(32 << 20, cupy.uint8)
    with warpheap.Heap(None, "cuda", memory=memory) as heap:
        handle = cupy.uint64(heap.handle)
        rows_kernel((blocks,), (256,), (handle, rows, cupy.int32(N)))
        addresses = rows.get()
        # A view shows a block to CuPy where it is, without a copy.
        sums = [float(cupy.asarray(heap.view(int(p), i + 1, "f4")).sum())
                for i, p in enumerate(addresses[:100])]
        live = heap.stats()["live_blocks"]
        give_back((blocks,), (256,), (handle, rows, cupy.int32(N)))
        left = heap.stats()["live_blocks"]
        heap.check()
    good = sums == [i * (i + 1) for i in range(100)]
    print(f"{live} rows, sums {'right' if good else 'WRONG'}, {left} blocks left")
    return 0 if good and live == N and left == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
