/* ops_data_kernels.c: targeted source (compiled once for each target): see ops_data.h. */
#define WH_KERNEL_THREADS 256

#include "bench/kernels/ops_data.h"

#include <math.h>

#include "warpheap/core/hash.h"
#include "warpheap/detail/alloc/tables.h"
#include "warpheap/simt.h"

#define FOR_ALL(i, n) for (uint64_t i = wh_thread_id(); i < (n); i += wh_grid_threads())
#define FOR_WARPS(i, n) \
    for (uint64_t i = wh_thread_id() / WH_WARP_SIZE; i < (n); i += wh_grid_threads() / WH_WARP_SIZE)
/* After so many draws that are no key, a row takes the nearest one. */
#define MOST_DRAWS 32u

/* --- random numbers ----------------------------------------------------------------------------
 */

/* The number `draw` of row i. */
WH_FN uint64_t random_of(const wh_ops_call *c, uint64_t i, uint32_t draw) {
    const uint64_t place = wh_spread64(c->seed + 1) + (i << 8) + 2 * (uint64_t)draw;
    return (uint64_t)wh_mix64(wh_spread64(place)) << 32 | wh_mix64(wh_spread64(place + 1));
}

/* In 0..1, never 0. */
WH_FN double unit_of(uint64_t random) {
    return ((double)(random >> 11) + 0.5) * 0x1p-53;
}

/* Place i of a random order of 0..n-1: steps that are one to one on as many bits as n - 1 has,
 * until what comes out is below n. */
WH_FN uint64_t dealt(uint64_t i, uint64_t n, uint64_t seed) {
    uint32_t bits = 1;
    while ((uint64_t)1 << bits < n) {
        bits++;
    }
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    do {
        for (uint32_t round = 0; round < 3; round++) {
            i = wh_spread64(i ^ wh_mix64(seed + round)) & mask;
            i ^= i >> (bits + 1) / 2;
        }
    } while (i >= n);
    return i;
}

/* The integral of x^-exponent, and its inverse. */
WH_FN double zipf_area(double exponent, double x) {
    const double rest = 1 - exponent;
    return fabs(rest) < 1e-9 ? log(x) : (pow(x, rest) - 1) / rest;
}

WH_FN double zipf_place(double exponent, double area) {
    const double rest = 1 - exponent;
    return fabs(rest) < 1e-9 ? exp(area) : pow(1 + area * rest, 1 / rest);
}

/* A rank from 1 on. A point below the curve is drawn by its area, and kept if it is in the bar of
 * the rank next to it. */
WH_FN uint64_t zipf(const wh_ops_call *c, uint64_t i) {
    const double e = c->exponent, last = (double)c->keys;
    const double low = zipf_area(e, 1.5) - 1, high = zipf_area(e, last + 0.5);
    const double sure = 2 - zipf_place(e, zipf_area(e, 2.5) - pow(2, -e));
    double rank = 1;
    for (uint32_t draw = 0; draw < MOST_DRAWS; draw++) {
        const double area = high + unit_of(random_of(c, i, draw)) * (low - high);
        const double x = zipf_place(e, area);
        rank = floor(x + 0.5);
        rank = rank < 1 ? 1 : rank;
        rank = rank > last ? last : rank;
        if (rank - x <= sure || area >= zipf_area(e, rank + 0.5) - pow(rank, -e)) {
            break;
        }
    }
    return (uint64_t)rank;
}

/* By Box and Muller. */
WH_FN uint64_t gaussian(const wh_ops_call *c, uint64_t i) {
    const double keys = (double)c->keys;
    double x = keys / 2;
    for (uint32_t draw = 0; draw < MOST_DRAWS; draw++) {
        const double far = sqrt(-2 * log(unit_of(random_of(c, i, 2 * draw))));
        const double turn = 6.283185307179586 * unit_of(random_of(c, i, 2 * draw + 1));
        x = keys / 2 + keys / 8 * far * cos(turn);
        if (x >= 0 && x < keys) {
            return (uint64_t)x;
        }
    }
    return x < 0 ? 0 : c->keys - 1;
}

WH_FN uint64_t key_of(const wh_ops_call *c, uint64_t i) {
    switch (c->draw) {
    case WH_OPS_DEALT:
        return dealt(i, c->n, c->seed) % c->keys;
    case WH_OPS_ZIPF:
        return dealt(zipf(c, i) - 1, c->keys, c->seed);
    case WH_OPS_GAUSSIAN:
        return gaussian(c, i);
    default:
        return wh_high_u32((random_of(c, i, 0) >> 32) * c->keys);
    }
}

WH_KERNEL(k_draw, wh_ops_call, c) {
    FOR_ALL(i, c.n) {
        c.key[i] = (uint32_t)key_of(&c, i);
    }
}

WH_KERNEL(k_values, wh_ops_call, c) {
    FOR_ALL(i, c.n) {
        c.value[i] = (uint32_t)random_of(&c, i, MOST_DRAWS);
    }
}

/* --- joins -------------------------------------------------------------------------------------
 */

WH_FN void add_sums(const wh_ops_call *c, wh_ops_sums mine) {
    if (mine.rows != 0 || mine.bad != 0) {
        wh_add_u64_relaxed(&c->sums->rows, mine.rows);
        wh_add_u64_relaxed(&c->sums->sum, mine.sum);
        wh_add_u64_relaxed(&c->sums->bad, mine.bad);
    }
}

WH_FN wh_ops_sums no_sums(void) {
    wh_ops_sums none;
    none.rows = none.sum = none.bad = 0;
    return none;
}

WH_KERNEL(k_tally, wh_ops_call, c) {
    FOR_ALL(r, c.rows[0]) {
        uint64_t *of_key = &c.tally[2 * (uint64_t)c.table[0][r]];
        wh_add_u64_relaxed(&of_key[0], 1);
        wh_add_u64_relaxed(&of_key[1], r);
    }
}

WH_KERNEL(k_expect_join, wh_ops_call, c) {
    wh_ops_sums mine = no_sums();
    FOR_ALL(s, c.rows[1]) {
        const uint64_t key = c.table[1][s];
        const uint64_t pairs = c.tally[2 * key];
        mine.rows += pairs;
        mine.sum += (c.has_build ? c.tally[2 * key + 1] : 0) + pairs * (3 * s + 5 * key);
    }
    add_sums(&c, mine);
}

/* A pair says two rows, both of its key. */
WH_FN void add_pair(const wh_ops_call *c, wh_ops_sums *mine, uint32_t key, uint32_t r, uint32_t s) {
    const int right = s < c->rows[1] && c->table[1][s] == key &&
                      (!c->has_build || (r < c->rows[0] && c->table[0][r] == key));
    mine->rows++;
    mine->sum += (uint64_t)r + 3 * (uint64_t)s + 5 * (uint64_t)key;
    mine->bad += !right;
}

WH_FN uint32_t word_at(const void *column, uint64_t i) {
    return ((const uint32_t *)column)[i];
}

WH_KERNEL(k_pages_join, wh_ops_call, c) {
    wh_ops_sums mine = no_sums();
    FOR_WARPS(p, c.pages.n_pages) {
        const unsigned char *page = c.pages.page[p];
        for (uint32_t i = wh_lane_id(); i < c.pages.rows[p]; i += WH_WARP_SIZE) {
            add_pair(&c, &mine, word_at(page + c.pages.column_at[0], i),
                     c.has_build ? word_at(page + c.pages.column_at[1], i) : 0,
                     word_at(page + c.pages.column_at[2], i));
        }
    }
    add_sums(&c, mine);
}

WH_KERNEL(k_columns_join, wh_ops_call, c) {
    wh_ops_sums mine = no_sums();
    FOR_ALL(i, c.n) {
        add_pair(&c, &mine, word_at(c.column[0], i), c.has_build ? word_at(c.column[1], i) : 0,
                 word_at(c.column[2], i));
    }
    add_sums(&c, mine);
}

/* --- group-bys ---------------------------------------------------------------------------------
 */

WH_FN uint64_t weight_of(uint32_t key) {
    return (uint64_t)wh_mix64(key) << 32 | wh_mix32(key);
}

/* rows: keys, each of which sets a bit; the sum is linear in rows, so it needs no groups. */
WH_KERNEL(k_expect_group, wh_ops_call, c) {
    wh_ops_sums mine = no_sums();
    FOR_ALL(i, c.n) {
        const uint32_t key = c.key[i], bit = 1u << key % 32;
        const uint64_t value =
            c.value != NULL ? (uint64_t)(int64_t)(int32_t)c.value[i] : (uint64_t)0;
        mine.sum += weight_of(key) * (1 + 3 * value);
        if ((wh_load_u32_relaxed(&c.seen[key / 32]) & bit) == 0) {
            mine.rows += (wh_fetch_or_u32_relaxed(&c.seen[key / 32], bit) & bit) == 0;
        }
    }
    wh_add_u64_relaxed(&c.sums->rows, mine.rows);
    wh_add_u64_relaxed(&c.sums->sum, mine.sum);
}

WH_FN void add_group(const wh_ops_call *c, wh_ops_sums *mine, uint32_t key, uint64_t count,
                     uint64_t sum) {
    mine->rows++;
    mine->sum += weight_of(key) * (count + 3 * sum);
    mine->bad += key >= c->keys || count == 0;
}

WH_FN uint64_t long_at(const void *column, uint64_t i) {
    return ((const uint64_t *)column)[i];
}

WH_KERNEL(k_pages_group, wh_ops_call, c) {
    wh_ops_sums mine = no_sums();
    FOR_WARPS(p, c.pages.n_pages) {
        const unsigned char *page = c.pages.page[p];
        for (uint32_t i = wh_lane_id(); i < c.pages.rows[p]; i += WH_WARP_SIZE) {
            add_group(&c, &mine, word_at(page + c.pages.column_at[0], i),
                      long_at(page + c.pages.column_at[1], i),
                      long_at(page + c.pages.column_at[2], i));
        }
    }
    add_sums(&c, mine);
}

WH_KERNEL(k_columns_group, wh_ops_call, c) {
    wh_ops_sums mine = no_sums();
    FOR_ALL(i, c.n) {
        add_group(&c, &mine, word_at(c.column[0], i), long_at(c.column[1], i),
                  long_at(c.column[2], i));
    }
    add_sums(&c, mine);
}

/* A warp looks at a list: its rows, which are as many as it says, have its key. */
WH_KERNEL(k_lists_group, wh_ops_call, c) {
    const wh_group_lists *l = &c.lists;
    wh_ops_sums mine = no_sums();
    FOR_WARPS(k, l->n_lists) {
        const uint32_t key = word_at(l->key, k);
        uint64_t seen = 0;
        uint32_t rows = l->last_rows[k];
        for (uint32_t page = l->last[k] + 1; page != 0; rows = l->room) {
            const unsigned char *keys = l->page[page - 1] + l->key_at;
            for (uint32_t i = wh_lane_id(); i < rows; i += WH_WARP_SIZE) {
                mine.bad += word_at(keys, i) != key;
            }
            seen += rows;
            page = l->before[(uint64_t)(page - 1) * l->stride];
        }
        if (wh_lane_id() == 0) {
            add_group(&c, &mine, key, seen, 0);
            mine.bad += seen != l->n_rows[k];
        }
    }
    add_sums(&c, mine);
}

/* --- the table ---------------------------------------------------------------------------------
 */

#define LAUNCHER(name)                                                                 \
    static wh_status launch_##name(const wh_launch *launch, const wh_ops_call *call) { \
        return k_##name(launch, call);                                                 \
    }

LAUNCHER(draw)
LAUNCHER(values)
LAUNCHER(tally)
LAUNCHER(expect_join)
LAUNCHER(pages_join)
LAUNCHER(columns_join)
LAUNCHER(expect_group)
LAUNCHER(pages_group)
LAUNCHER(columns_group)
LAUNCHER(lists_group)

WH_TABLE_ONCE(wh_ops_data_kernels) = {launch_draw,         launch_values,      launch_tally,
                                      launch_expect_join,  launch_pages_join,  launch_columns_join,
                                      launch_expect_group, launch_pages_group, launch_columns_group,
                                      launch_lists_group};
