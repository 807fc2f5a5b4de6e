#!/usr/bin/env python3
"""warp_lists.py: kernels of NVIDIA Warp that allocate. Warp has no public way to link device code,
so its modules include warpheap's headers, and take some seconds to compile. The handle is a struct,
which lies in an array of Warp. Exit status 77: no Warp 1.19, or no GPU.
"""
import sys

try:
    import warp as wp
    BuildOptions = wp.ModuleBuildOptions
except (ImportError, AttributeError) as error:
    print(f"skipped: {error}")
    sys.exit(77)
import warpheap

# enable_backward: a backward pass would allocate once more.
wp.set_module_options({"enable_backward": False, "extra_build_options": BuildOptions(
    extra_cuda_include_dirs=[warpheap.get_include()],
    extra_cuda_preamble="#include <warpheap/warpheap.h>\n")})
N = 2000


@wp.func_native("""return (wp::uint64)wh_malloc(*(const wh_heap_ref *)heap, bytes);""")
def malloc(heap: wp.uint64, bytes: wp.uint64) -> wp.uint64: ...


@wp.func_native("""wh_free(*(const wh_heap_ref *)heap, (void *)p);""")
def free(heap: wp.uint64, p: wp.uint64): ...


@wp.func_native("""((int *)p)[i] = value;""")
def store(p: wp.uint64, i: int, value: int): ...


@wp.func_native("""return ((const int *)p)[i];""")
def load(p: wp.uint64, i: int) -> int: ...


@wp.kernel
def make_lists(heap: wp.uint64, lists: wp.array(dtype=wp.uint64)):
    """Thread i: a list of i + 1 squares; 0: the heap is full."""
    i = wp.tid()
    p = malloc(heap, wp.uint64(4) * wp.uint64(i + 1))
    if p != wp.uint64(0):
        for k in range(i + 1):
            store(p, k, k * k)
    lists[i] = p


@wp.kernel
def sum_lists(heap: wp.uint64, lists: wp.array(dtype=wp.uint64), sums: wp.array(dtype=int)):
    i = wp.tid()
    p = lists[i]
    if p != wp.uint64(0):
        total = int(0)
        for k in range(i + 1):
            total += load(p, k) % 7
        sums[i] = total
        free(heap, p)


def build(folder, arch):
    """Machine code for an architecture, 90, in a folder. No GPU is needed for this."""
    return wp.compile_aot_module(sys.modules[__name__], arch=arch, module_dir=folder)


def main():
    wp.init()
    if not wp.is_cuda_available():
        print("skipped: there is no GPU")
        return 77
    with wp.ScopedDevice("cuda:0"), warpheap.Heap(64 << 20, "cuda:0") as heap:
        handle = wp.array(list(heap.handle_struct), dtype=wp.uint8)
        lists = wp.zeros(N, dtype=wp.uint64)
        sums = wp.zeros(N, dtype=int)
        wp.launch(make_lists, N, inputs=[handle.ptr, lists])
        wp.synchronize()
        live = heap.stats()["live_blocks"]
        wp.launch(sum_lists, N, inputs=[handle.ptr, lists, sums])
        wp.synchronize()
        left = heap.stats()["live_blocks"]
        heap.check()
        found = sums.numpy().tolist()
    good = found == [sum(k * k % 7 for k in range(i + 1)) for i in range(N)]
    print(f"{live} lists, sums {'right' if good else 'WRONG'}, {left} blocks left")
    return 0 if good and live == N and left == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
