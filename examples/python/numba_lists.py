#!/usr/bin/env python3
"""numba_lists.py: kernels of Numba that build lists and strings of which nobody knows the length
before: the divisors of each number, and a text of them. Exit status 77: no Numba, or no GPU.
"""
import sys

try:
    import numpy as np
    from numba import cuda, int32, uint8, uint64
    from warpheap import numba as wh
except (ImportError, FileNotFoundError) as error:
    print(f"skipped: {error}")
    sys.exit(77)
import warpheap

N = 2000


def make_lists(heap, lists, lengths):
    """Thread i: the divisors of i + 1, in a block that grows."""
    i = cuda.grid(1)
    if i >= lists.size:
        return
    p = uint64(0)
    n = 0
    room = 0
    for d in range(1, i + 2):
        if (i + 1) % d == 0:
            if n == room:
                room = max(2, 2 * room)
                q = wh.realloc(heap, p, 4 * room)  # of address 0: a malloc
                if q == 0:
                    break  # the heap is full: the list ends here, and is whole
                p = q
            wh.store(p, n, d, int32)
            n += 1
    lists[i] = p
    lengths[i] = n


def make_texts(heap, lists, lengths, texts, text_lengths):
    """Thread i: its list as text, "1,2,4,"; the list goes back to the heap."""
    i = cuda.grid(1)
    if i >= lists.size:
        return
    p = wh.malloc(heap, 6 * lengths[i] + 1)
    n = 0
    if p != 0:
        text = wh.array(p, 6 * lengths[i] + 1, uint8)
        for k in range(lengths[i]):
            d = wh.load(lists[i], k, int32)
            digits = 1
            rest = d // 10
            while rest > 0:
                digits += 1
                rest //= 10
            n += digits + 1
            text[n - 1] = 44  # a comma
            for at in range(digits):
                text[n - 2 - at] = 48 + d % 10
                d //= 10
    texts[i] = p
    text_lengths[i] = n
    wh.free(heap, lists[i])
    lists[i] = 0


# What build compiles where there is no GPU, and main runs.
SIGNATURES = {make_lists: "void(uint64, uint64[:], int64[:])",
              make_texts: "void(uint64, uint64[:], int64[:], uint64[:], int64[:])"}


def main():
    if not cuda.is_available():
        print("skipped: there is no GPU")
        return 77
    lists, texts = (cuda.to_device(np.zeros(N, np.uint64)) for _ in range(2))
    lengths, text_lengths = (cuda.to_device(np.zeros(N, np.int64)) for _ in range(2))
    blocks = -(-N // 256)
    with warpheap.Heap(64 << 20, "cuda") as heap:
        handle = np.uint64(heap.handle)
        cuda.jit(make_lists)[blocks, 256](handle, lists, lengths)
        cuda.jit(make_texts)[blocks, 256](handle, lists, lengths, texts, text_lengths)
        cuda.synchronize()
        found = [heap.read(int(p), int(n)).decode() for p, n in
                 zip(texts.copy_to_host(), text_lengths.copy_to_host())]
        stats = heap.stats()
        heap.check()
    expected = ["".join(f"{d}," for d in range(1, i + 1) if i % d == 0) for i in range(1, N + 1)]
    print(f"{found[59]} {stats['live_blocks']} blocks are live, {stats['failed']} mallocs failed")
    return 0 if found == expected and stats["live_blocks"] == N else 1


if __name__ == "__main__":
    sys.exit(main())
