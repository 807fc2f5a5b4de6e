/* core/grid_scan.h: what comes before each of n numbers, by a grid of blocks (an exclusive scan).
 *
 *     typedef struct scan_args { const uint32_t *in; uint64_t *sums, n; } scan_args;
 *     WH_FN uint64_t number(const scan_args *a, uint64_t i) { return a->in[i]; }
 *     WH_GRID_SCAN(scan, scan_args, a, a.n, number, a.sums)
 *     ... scan(&launch, &args) ...
 *
 * The numbers are cut into ranges. Three kernels follow each other: the sum of each range, written
 * where what comes before its first number will be; by one block, what comes before each range;
 * what comes before each number. So numbers are read twice, and memory for the sums alone is
 * needed. A scan in one kernel, whose blocks wait for those before them (decoupled look-back),
 * would read the numbers once. It would need words that are zero before, and a lock-free protocol.
 * Three kernels need the order of a stream instead, and cost two more launches.
 *
 * G1      sums[the first of a range]: between kernels the range's sum, then what comes before the
 *         range. Each has one writer in a kernel. In the last kernel the range's block alone reads
 *         and writes it: all threads read it before a barrier of the range's first round (B1 of
 *         core/block.h), behind which one writes
 *
 * Test: tests/unit/grid_scan.c.
 */
#ifndef WH_CORE_GRID_SCAN_H
#define WH_CORE_GRID_SCAN_H

#include "warpheap/core/block.h"

#include "warpheap/detail/simt/begin.h"

#define WH_GRID_SCAN_RANGES 1024u /* at most: so many blocks can be at work */

/* Numbers of a range: a whole number of rounds of a block's threads. */
WH_FN uint64_t wh_grid_scan_range(uint64_t n) {
    const uint64_t round = (uint64_t)wh_block_threads() * WH_GRID_SCAN_RANGES;
    return (n + round - 1) / round * wh_block_threads();
}

/* By one block: of the ranges' sums, what comes before each; sums[n]: of all. */
WH_FN void wh_grid_scan_before(uint64_t *words, uint64_t *sums, uint64_t n) {
    const uint64_t range = wh_grid_scan_range(n);
    uint64_t before = 0, all;
    for (uint64_t first = 0; first < n; first += range * wh_block_threads()) {
        const uint64_t i = first + range * wh_thread_in_block();
        const uint64_t its = i < n ? sums[i] : 0;
        const uint64_t up_to = wh_block_scan_u64(words, its, &all);
        if (i < n) {
            sums[i] = before + up_to - its; /* G1 */
        }
        before += all;
    }
    if (wh_thread_in_block() == 0) {
        sums[n] = before;
    }
}

/* What the macros below call it in the user's file: NVRTC has no uint64_t there. */
typedef uint64_t wh_grid_scan_word;

/* The block's ranges, one after the other: numbers first to end. */
#define WH_GRID_SCAN_FOR_(first, end, n)                                            \
    for (wh_grid_scan_word wh_n = (n), wh_range = wh_grid_scan_range(wh_n),         \
                           first = wh_block_id() * wh_range,                        \
                           end = first + wh_range < wh_n ? first + wh_range : wh_n; \
         first < wh_n; first += wh_grid_blocks() * wh_range,                        \
                           end = first + wh_range < wh_n ? first + wh_range : wh_n)

/* Defines name(launch, args), as WH_KERNEL does: sums[i], for i up to n, becomes the sum, modulo
 * 2^64, of value(&args, k) over all k < i. It starts three kernels: name_ranges and name_each with
 * the blocks of the launch, name_before with one, all on its stream (NVRTC: only these kernels, to
 * be launched in this order: ranges, before, each).
 * n, sums: expressions in a, the kernels' argument; sums is a uint64_t * to n + 1 words of device
 * memory. value: a device function, or a macro, of (const args_t *, uint64_t i); it is called twice
 * for each i < n, by any thread of a full block, and must not depend on sums.
 * Launch: threads a whole number of warps, blocks as many as you like; more than
 * WH_GRID_SCAN_RANGES, or than n / threads, have nothing to do. */
#define WH_GRID_SCAN(name, args_t, a, n, value, sums)                                            \
    WH_KERNEL(name##_ranges, args_t, a) {                                                        \
        WH_SHARED(wh_grid_scan_word, wh_words, WH_BLOCK_SCAN_WORDS);                             \
        WH_GRID_SCAN_FOR_(wh_first, wh_end, n) {                                                 \
            wh_grid_scan_word wh_sum = 0, wh_all;                                                \
            for (wh_grid_scan_word wh_i = wh_first + wh_thread_in_block(); wh_i < wh_end;        \
                 wh_i += wh_block_threads()) {                                                   \
                wh_sum += value(&a, wh_i);                                                       \
            }                                                                                    \
            (void)wh_block_scan_u64(wh_words, wh_sum, &wh_all);                                  \
            if (wh_thread_in_block() == 0) {                                                     \
                (sums)[wh_first] = wh_all; /* G1 */                                              \
            }                                                                                    \
        }                                                                                        \
    }                                                                                            \
    WH_KERNEL(name##_before, args_t, a) {                                                        \
        WH_SHARED(wh_grid_scan_word, wh_words, WH_BLOCK_SCAN_WORDS);                             \
        wh_grid_scan_before(wh_words, (sums), (n));                                              \
    }                                                                                            \
    WH_KERNEL(name##_each, args_t, a) {                                                          \
        WH_SHARED(wh_grid_scan_word, wh_words, WH_BLOCK_SCAN_WORDS);                             \
        WH_GRID_SCAN_FOR_(wh_first, wh_end, n) {                                                 \
            wh_grid_scan_word wh_before = (sums)[wh_first], wh_all;                              \
            for (wh_grid_scan_word wh_round = wh_first; wh_round < wh_end;                       \
                 wh_round += wh_block_threads()) {                                               \
                const wh_grid_scan_word wh_i = wh_round + wh_thread_in_block();                  \
                const wh_grid_scan_word wh_its = wh_i < wh_end ? value(&a, wh_i) : 0;            \
                const wh_grid_scan_word wh_up_to = wh_block_scan_u64(wh_words, wh_its, &wh_all); \
                if (wh_i < wh_end) {                                                             \
                    (sums)[wh_i] = wh_before + wh_up_to - wh_its; /* G1 */                       \
                }                                                                                \
                wh_before += wh_all;                                                             \
            }                                                                                    \
        }                                                                                        \
    }                                                                                            \
    WH_GRID_SCAN_HOST_(name, args_t)

#if WH_HAS_HOST
#define WH_GRID_SCAN_HOST_(name, args_t)                                      \
    WH_FN_HOST wh_status name(const wh_launch *wh_l, const args_t *wh_args) { \
        wh_status wh_s = name##_ranges(wh_l, wh_args);                        \
        if (wh_s == WH_OK) {                                                  \
            wh_launch wh_one = *wh_l;                                         \
            wh_one.blocks = wh_one.blocks_y = wh_one.blocks_z = 1;            \
            wh_s = name##_before(&wh_one, wh_args);                           \
        }                                                                     \
        return wh_s == WH_OK ? name##_each(wh_l, wh_args) : wh_s;             \
    }
#else
#define WH_GRID_SCAN_HOST_(name, args_t)
#endif

#include "warpheap/detail/simt/end.h"

#endif
