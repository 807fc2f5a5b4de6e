#!/usr/bin/env python3
"""nvrtc_headers.py: kernels that include warpheap/warpheap.h, compiled by NVRTC: all calls of the
library, those of warps too, and malloc's fast path inlined. The slow path is linked (WH_LINKED).
The handle is a struct, which lies in device memory here. Exit status 77: no cuda.core, or no GPU.
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
#include <warpheap/warpheap.h>
/* A warp has one block, each lane a word of it; the lowest lane counts those that are right. */
extern "C" __global__ void by_warps(const wh_heap_ref *heap, unsigned *right) {
    unsigned *words = (unsigned *)wh_malloc_warp(*heap, WH_FULL_WARP, 32 * sizeof *words);
    if (words == NULL) return;
    words[threadIdx.x % 32] = threadIdx.x % 32;
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        unsigned sum = 0;
        for (int k = 0; k < 32; k++) sum += words[k];
        if (sum == 31 * 32 / 2) atomicAdd(right, 1);
    }
    __syncwarp();
    wh_free_warp(*heap, WH_FULL_WARP, words);
}
"""
WARPS = 4096


def build(arch):
    """Machine code for an architecture, "sm_90". No GPU is needed for this."""
    options = ProgramOptions(arch=arch, std="c++17", relocatable_device_code=True,
                             include_path=warpheap.get_include(), define_macro=("WH_LINKED", "1"))
    parts = [Program(KERNELS, "c++", options).compile("cubin")]
    parts += [ObjectCode.from_fatbin(file) for file in warpheap.get_links("device")]
    return Linker(*parts, options=LinkerOptions(arch=arch)).link("cubin")


def main():
    from cuda.bindings import runtime
    try:
        device = Device()
        device.set_current()
    except Exception as error:  # whatever keeps it from its GPU
        print(f"skipped: {error}")
        return 77
    kernel = build(f"sm_{device.arch}").get_kernel("by_warps")
    stream = device.create_stream()
    memory = device.allocate(512, stream=stream)  # the handle, and 256 bytes behind it the count
    stream.sync()
    with warpheap.Heap(64 << 20, "cuda") as heap:
        handle = np.frombuffer(heap.handle_struct.ljust(512, b"\0"), np.uint8).copy()
        at = int(memory.handle)
        both = runtime.cudaMemcpyKind.cudaMemcpyDefault
        runtime.cudaMemcpy(at, handle.ctypes.data, 512, both)
        launch(stream, LaunchConfig(grid=WARPS // 8, block=256), kernel, at, at + 256)
        stream.sync()
        right = np.zeros(1, np.uint32)
        runtime.cudaMemcpy(right.ctypes.data, at + 256, 4, both)
        live = heap.stats()["live_blocks"]
        heap.check()
    print(f"{right[0]} of {WARPS} warps right, {live} blocks live")
    memory.close(stream)
    return 0 if right[0] == WARPS and live == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
