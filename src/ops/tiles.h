/* tiles.h: a tile of rows that a block sorts by part in its shared memory, as parts.h and chains.h
 * have it. Included by these. */
#ifndef WHI_OPS_TILES_H
#define WHI_OPS_TILES_H

#include "warpheap/core/block.h"

/* Instead of rows at a place: the tile's rows of that part need none, or have got none. */
#define TILE_PLACED UINT32_MAX
#define TILE_NOWHERE (UINT32_MAX - 1)

/* start[p]: where the rows of part p begin, from counts; returns how many rows there are. sums:
 * WH_BLOCK_SCAN_WORDS of shared memory. All threads, of which there are as many as parts at least.
 */
WH_FN uint32_t start_parts(uint64_t *sums, const uint32_t *counts, uint32_t *start,
                           uint32_t parts) {
    const uint32_t p = wh_thread_in_block(), n = p < parts ? counts[p] : 0;
    uint64_t all;
    const uint64_t up_to = wh_block_scan_u64(sums, n, &all);
    if (p < parts) {
        start[p] = (uint32_t)up_to - n;
    }
    WH_PLANT(tiles_b1_start, wh_syncthreads(), (void)0);
    return (uint32_t)all;
}

#endif
