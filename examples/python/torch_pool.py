#!/usr/bin/env python3
"""torch_pool.py: a heap that takes its memory from PyTorch's caching allocator, so that tensors and
the heap share one pool, and torch.cuda.memory_allocated() counts the heap. Exit status 77: no
PyTorch, or no GPU.
"""
import sys

try:
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
import warpheap


def alloc(size, align, stream):
    return torch.cuda.caching_allocator_alloc(size, stream=stream)  # at multiples of 512


def free(address, size, stream):
    torch.cuda.caching_allocator_delete(address)


def main():
    if not torch.cuda.is_available():
        print("skipped: there is no GPU")
        return 77
    before = torch.cuda.memory_allocated()
    with warpheap.Heap(64 << 20, "cuda", source=(alloc, free)) as heap:
        within = torch.cuda.memory_allocated()
        heap.check()
    after = torch.cuda.memory_allocated()
    print(f"PyTorch counts {before}, {within} and {after} bytes")
    return 0 if within >= before + (64 << 20) and after == before else 1


if __name__ == "__main__":
    sys.exit(main())
