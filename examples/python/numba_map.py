#!/usr/bin/env python3
"""numba_map.py: a hash map whose nodes kernels of Numba allocate: how often each key comes among
a million, where nobody knows how many keys there are. Exit status 77: no Numba, or no GPU.

A node is three words of 64 bits: key, count, next. A bucket is the address of its first node.
"""
import sys

try:
    import numpy as np
    from numba import cuda, uint64
    from warpheap import numba as wh
except (ImportError, FileNotFoundError) as error:
    print(f"skipped: {error}")
    sys.exit(77)
import warpheap

N = 1 << 20
BUCKETS = 1 << 14


def count_keys(heap, keys, buckets, lost):
    """Each key of the array: a new node, or one more in the count of the one that is there."""
    i = cuda.grid(1)
    if i >= keys.size:
        return
    key = keys[i]
    b = key % buckets.size
    mine = uint64(0)  # a node that has not been used so far
    seen = uint64(0)  # the nodes from here on do not have the key
    head = cuda.atomic.cas(buckets, b, uint64(0), uint64(0))
    while True:
        cuda.threadfence()  # nodes are read after the bucket that leads to them
        p = head
        while p != seen and wh.load(p, 0, uint64) != key:
            p = wh.load(p, 2, uint64)
        if p != seen:
            cuda.atomic.add(wh.array(p, 3, uint64), 1, uint64(1))
            break
        seen = head
        if mine == 0:
            mine = wh.malloc(heap, 24)
            if mine == 0:
                cuda.atomic.add(lost, 0, uint64(1))  # the heap is full
                break
            wh.store(mine, 0, key, uint64)
            wh.store(mine, 1, uint64(1), uint64)
        wh.store(mine, 2, head, uint64)
        cuda.threadfence()  # ... and written before
        now = cuda.atomic.cas(buckets, b, head, mine)
        if now == head:
            mine = uint64(0)
            break
        head = now
    if mine != 0:
        wh.free(heap, mine)


def drain(heap, buckets, counts):
    """Each bucket: its counts to an array by key, its nodes back to the heap."""
    b = cuda.grid(1)
    if b >= buckets.size:
        return
    p = buckets[b]
    while p != 0:
        counts[wh.load(p, 0, uint64)] = wh.load(p, 1, uint64)
        following = wh.load(p, 2, uint64)
        wh.free(heap, p)
        p = following
    buckets[b] = 0


SIGNATURES = {count_keys: "void(uint64, uint64[:], uint64[:], uint64[:])",
              drain: "void(uint64, uint64[:], uint64[:])"}


def main():
    if not cuda.is_available():
        print("skipped: there is no GPU")
        return 77
    keys = np.random.default_rng(1).zipf(1.3, N).astype(np.uint64) % np.uint64(100000)
    buckets, lost = (cuda.to_device(np.zeros(n, np.uint64)) for n in (BUCKETS, 1))
    counts = cuda.to_device(np.zeros(100000, np.uint64))
    with warpheap.Heap(64 << 20, "cuda") as heap:
        handle = np.uint64(heap.handle)
        cuda.jit(count_keys)[-(-N // 256), 256](handle, cuda.to_device(keys), buckets, lost)
        cuda.synchronize()
        nodes = heap.stats()["live_blocks"]
        cuda.jit(drain)[-(-BUCKETS // 256), 256](handle, buckets, counts)
        cuda.synchronize()
        left = heap.stats()["live_blocks"]
        heap.check()
    expected = np.bincount(keys.astype(np.int64), minlength=100000)
    good = (counts.copy_to_host() == expected.astype(np.uint64)).all()
    print(f"{nodes} keys, counts {'right' if good else 'WRONG'}, {left} blocks left")
    return 0 if good and left == 0 and nodes == np.count_nonzero(expected) else 1


if __name__ == "__main__":
    sys.exit(main())
