#!/usr/bin/env python3
"""simulated.py: a heap without a GPU: blocks from many threads of the simulated device at the same
time, their contents, a checked heap that finds an overrun, and growth."""
import sys

import warpheap


def lists_of_squares(heap, n):
    """A list of i squares for each i < n, in blocks of the heap; their sums."""
    blocks = heap.malloc([8 * i for i in range(1, n)])  # by n - 1 threads at once
    for i, block in enumerate(blocks, 1):
        heap.write(block, b"".join((k * k).to_bytes(8, "little") for k in range(i)))
    sums = []
    for i, block in enumerate(blocks, 1):
        data = heap.view(block, i, "u8").tobytes()
        sums.append(sum(int.from_bytes(data[8 * k:8 * k + 8], "little") for k in range(i)))
    heap.free(blocks)
    return sums


def main():
    # A seed is an order of the threads: the same one repeats exactly what happened.
    with warpheap.Device("sim", seed=7, policy="random") as device:
        with warpheap.Heap(1 << 20, device) as heap:
            sums = lists_of_squares(heap, 100)
            stats = heap.stats()
            heap.check()
            print(stats)

        with warpheap.Heap(1 << 20, device, options={"checked": 1}) as heap:
            block = heap.malloc(24)
            heap.write(block + 24, b"x")  # one byte behind its end
            heap.free(block)
            found = heap.violations()
            print(found[0]["text"])

        with warpheap.Heap(1 << 20, device, reserve_bytes=64 << 20) as heap:
            heap.growth_start()
            large = heap.malloc(16 << 20)
            print(f"{heap.extent()['mapped'] >> 20} MiB are mapped")

    good = (sums[98] == sum(k * k for k in range(99)) and stats["live_blocks"] == 0
            and found[0]["kind"] == "OVERRUN" and large is not None)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
