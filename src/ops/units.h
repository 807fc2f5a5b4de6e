/* units.h: units of work of a join, their order, and blocks that stop and go on. Included by
 * join_kernels.c.
 *
 * P1      units_left[p]: fetch_sub (acq_rel) by a block that has done a unit of part p; who does
 *         the last one gives the part's pages back, which nobody reads any more: a warp after a
 *         wh_syncwarp, or the block after a barrier
 */
#ifndef WHI_OPS_UNITS_H
#define WHI_OPS_UNITS_H

#include "join.h"

/* Rows first..end of the probe table's part, against so many chunks of the build table's. */
typedef struct unit {
    uint64_t number;
    uint32_t part, first, end;
    uint32_t chunk, chunks;
    uint32_t done, phase; /* chunks; 1: rows without a partner are put out */
    uint32_t left;        /* units after it that the block has taken, too */
} unit;

WH_FN uint32_t parts_of(const whi_join *j) {
    return 1u << j->parts_log2;
}

/* Parts of a level. */
WH_FN uint32_t parts_in(const whi_parts *s) {
    return 1u << (s->skip + s->log2);
}

WH_FN const whi_parts *last_level(const whi_join *j, const whi_side *s) {
    return &s->level[j->levels - 1];
}

/* The page that is entry k of all parts' pages. */
WH_FN unsigned char *page_in_order(const whi_parts *s, uint32_t k) {
    return page_of_number(s, s->memory != NULL ? k : s->order[k]);
}

/* Pages of a part, at most, that so many rows in a row are in. */
WH_HD uint32_t pages_of(const whi_join *j, uint32_t rows) {
    return (rows >> j->part_page_log2) + 2;
}

/* Where the pages of a part's rows first.. end - 1 are. All threads. probe.h's C3 */
WH_FN void find_pages(const whi_parts *s, uint32_t p, uint32_t first, uint32_t end, uint64_t *to) {
    const uint32_t from = first >> s->page_log2;
    for (uint32_t k = from + wh_thread_in_block(); k << s->page_log2 < end;
         k += wh_block_threads()) {
        to[k - from] = (uint64_t)(uintptr_t)page_in_order(s, s->first[p] + k);
    }
}

WH_FN uint64_t parts_for(uint32_t n, uint32_t each) {
    return n / each + (n % each != 0);
}

/* Of first[0..n], which grow, the last one of the first n that is no more than `number`, as
 * first[0] is. 32 at a time, as each look waits for the one before. All lanes of a warp. */
WH_FN uint32_t last_up_to(const uint64_t *first, uint32_t n, uint64_t number) {
    uint32_t at = number < n ? (uint32_t)number : n - 1, left = n;
    if (first[at] <= number && number < first[at + 1]) { /* often each has one */
        return at;
    }
    at = 0;
    WH_NO_UNROLL
    while (left > 1) {
        const uint32_t step = (uint32_t)parts_for(left, WH_WARP_SIZE), k = wh_lane_id() * step;
        const int is_up_to = k < left && first[at + (k < left ? k : 0)] <= number;
        const uint32_t last = (wh_popc32(wh_ballot(WH_FULL_WARP, is_up_to)) - 1) * step;
        at += last;
        left = left - last < step ? left - last : step;
    }
    return at;
}

/* --- tiles -------------------------------------------------------------------------------------
 */

/* Rows of the table, or of a part of the level before, that a block lays out at a time. */
typedef struct tile_source {
    uint32_t part, first, n;
} tile_source;

/* How many there are for level `level`. */
WH_FN uint64_t tiles_of(const whi_join *j, const whi_side *s) {
    const whi_parts *from = &s->level[0];
    return j->level == 0
               ? parts_for(WH_PLANT(units_tiles, s->n, s->n >> j->tile_log2 << j->tile_log2),
                           1u << j->tile_log2)
               : from->first_tile[parts_in(from)];
}

/* A few blocks share tiles that follow each other, so that the parts that they split are their own:
 * many blocks would wait for each other's pages, and each one with a part for itself would have
 * pages of all parts under way. This is the k-th tile of the block, or more than there are. */
WH_FN uint64_t tile_of_block(uint64_t tiles, uint32_t k) {
    const uint32_t me = wh_block_id(), blocks = wh_grid_blocks();
    const uint32_t first = me - me % BLOCKS_TOGETHER;
    const uint32_t all = blocks - first < BLOCKS_TOGETHER ? blocks - first : BLOCKS_TOGETHER;
    const uint64_t tile = tiles * first / blocks + (uint64_t)k * all + (me - first);
    return tile < tiles * (first + all) / blocks ? tile : tiles;
}

WH_FN tile_source source_of(const whi_join *j, const whi_side *s, uint32_t tile) {
    const whi_parts *from = &s->level[0];
    tile_source t = {0, 0, 0};
    uint32_t rows = s->n;
    if (j->level != 0) {
        t.part = last_up_to(from->first_tile, parts_in(from), tile);
        tile -= (uint32_t)from->first_tile[t.part];
        rows = from->rows[t.part];
    }
    t.first = tile << j->tile_log2;
    t.n = rows - t.first < 1u << j->tile_log2 ? rows - t.first : 1u << j->tile_log2;
    return t;
}

/* Pages first..end of `order` go back. The first `threads` threads of a block. */
WH_FN void free_pages(const wh_heap_ref *heap, const whi_parts *s, uint32_t first, uint32_t end,
                      uint32_t threads) {
    for (uint32_t k = first + wh_thread_in_block(); k < end; k += threads) {
        give_page(heap, s->page[s->order[k]]);
        s->page[s->order[k]] = WH_PLANT(units_p1_gone, NULL, s->page[s->order[k]]);
    }
}

/* A tile's pages go back; with the last one those that have no rows. */
WH_FN void free_tile(const wh_heap_ref *heap, const whi_parts *s, const tile_source *t) {
    const uint32_t first = s->first[t->part] + (t->first >> s->page_log2);
    const int is_last = t->first + t->n == s->rows[t->part];
    const uint32_t end = is_last ? s->first[t->part + 1] : first + (t->n >> s->page_log2);
    free_pages(heap, s, first, end, wh_block_threads());
}

/* --- units of work -----------------------------------------------------------------------------
 */

/* Whether it matters which rows have found a partner. They are one unit with all chunks then. */
WH_FN int needs_seen(const whi_join *j) {
    return j->kind != WH_JOIN_INNER && j->kind != WH_JOIN_COUNT;
}

/* The list that rows of a phase go to. */
WH_FN uint32_t list_of(const whi_join *j, uint32_t phase) {
    return phase == 1 && j->kind == WH_JOIN_LEFT ? WH_JOIN_UNMATCHED : WH_JOIN_MATCHED;
}

WH_FN uint32_t rows_of(const whi_join *j, uint32_t side, uint32_t p) {
    return last_level(j, &j->side[side])->rows[p];
}

WH_FN uint64_t units_of_part(const whi_join *j, uint32_t p) {
    const uint64_t chunks = parts_for(rows_of(j, 0, p), j->chunk);
    const uint64_t ranges = parts_for(rows_of(j, 1, p), j->range);
    if (needs_seen(j)) {
        return chunks != 0 || WH_PLANT(units_alone, j->kind != WH_JOIN_SEMI, 0) ? ranges : 0;
    }
    return chunks * ranges;
}

/* Unit `number` of all. All lanes of a warp. */
WH_FN unit unit_of(const whi_join *j, uint64_t number) {
    unit u;
    const uint32_t p = last_up_to(j->first_unit, parts_of(j), number), rows = rows_of(j, 1, p);
    const uint64_t k = number - j->first_unit[p], ranges = parts_for(rows, j->range);
    u.number = number;
    u.part = p;
    u.first = (uint32_t)(k % ranges) * j->range;
    u.end = WH_PLANT(units_end, rows - u.first < j->range, 0) ? rows : u.first + j->range;
    u.chunk = WH_PLANT(units_chunk, (uint32_t)(k / ranges), 0);
    u.chunks = WH_PLANT(units_chunks, needs_seen(j), 0)
                   ? (uint32_t)parts_for(rows_of(j, 0, p), j->chunk)
                   : 1;
    u.done = u.phase = u.left = 0;
    return u;
}

/* The next unit of the block: of those that it has taken, or that no block has. *u: the last one.
 * All threads of a block. */
WH_FN int take_unit(const whi_join *j, unit *u) {
    const uint32_t batch = j->state->batch;
    uint32_t left = u->left;
    uint64_t number = u->number + 1;
    if (left != 0) {
        left--;
    } else {
        if (wh_thread_in_block() == 0) {
            number = wh_fetch_add_u64_relaxed(&j->state->next_unit, batch);
        }
        number = wh_block_broadcast_u64(number, 0);
        left = batch - 1;
    }
    if (number >= j->state->units) {
        return 0;
    }
    *u = unit_of(j, number);
    u->left = left;
    return 1;
}

WH_FN void free_part(const wh_heap_ref *heap, const whi_parts *s, uint32_t p, uint32_t threads) {
    free_pages(heap, s, s->first[p], s->first[p + 1], threads);
}

/* Pages that one warp gives back, while the others go on. */
#define FEW_PAGES_BACK 64u

/* A unit is done. All threads of the block that had it. */
WH_FN void end_unit(const wh_heap_ref *heap, const whi_join *j, const unit *u) {
    const whi_parts *s[2] = {last_level(j, &j->side[0]), last_level(j, &j->side[1])};
    const uint32_t p = u->part;
    uint32_t threads = wh_block_threads();
    uint64_t left = 0;
    if (!j->is_paged) {
        return;
    }
    wh_syncthreads();
    if (wh_thread_in_block() == 0) {
        left =
            WH_PLANT_ORDER(units_p1_left, wh_fetch_sub_u64, acq_rel)(&j->units_left[p], 1); /* P1 */
    }
    if (s[0]->first[p + 1] - s[0]->first[p] + s[1]->first[p + 1] - s[1]->first[p] <=
        FEW_PAGES_BACK) {
        if (wh_thread_in_block() >= WH_WARP_SIZE) {
            return;
        }
        left = wh_shfl_u64(WH_FULL_WARP, left, 0);
        WH_PLANT(units_p1_warp, wh_syncwarp(WH_FULL_WARP), (void)0); /* P1 */
        threads = WH_WARP_SIZE;
    } else {
        left = wh_block_broadcast_u64(left, 0);
    }
    if (left == WH_PLANT(units_p1_last, 1u, 2u)) {
        free_part(heap, s[0], p, threads);
        WH_PLANT(units_p1_back, free_part(heap, s[1], p, threads), (void)0);
    }
}

/* --- blocks that stop --------------------------------------------------------------------------
 */

WH_FN void save(const whi_join *j, const unit *u, uint32_t step, uint32_t at) {
    const uint32_t me = wh_block_id(), t = wh_thread_in_block();
    const uint32_t *from = (const uint32_t *)wh_shared();
    uint32_t *to = (uint32_t *)(void *)(j->saved + (uint64_t)me * j->saved_bytes);
    uint32_t *lane = j->lanes + ((uint64_t)me * wh_block_threads() + t) * 2;
    wh_syncthreads();
    for (uint32_t k = t; k < WH_PLANT(units_save_all, j->saved_bytes / 4, j->chunk);
         k += wh_block_threads()) {
        to[k] = from[k];
    }
    lane[0] = WH_PLANT(units_save_step, step, u->first + t / WH_WARP_SIZE * WH_WARP_SIZE);
    lane[1] = WH_PLANT(units_save_at, at, CHAIN_START);
    if (t == 0) {
        whi_stop *stop = &j->stops[me];
        stop->unit = u->number;
        stop->left = WH_PLANT(units_save_left, u->left, 0);
        stop->done = WH_PLANT(units_save_done, u->done, 0);
        stop->phase = WH_PLANT(units_save_phase, u->phase, 0);
        stop->is_stopped = 1;
        WH_PLANT(units_save_full, wh_store_u32_relaxed(&j->state->is_full, 1), (void)0);
    }
}

WH_FN void restore(const whi_join *j, unit *u, uint32_t *step, uint32_t *at) {
    const uint32_t me = wh_block_id(), t = wh_thread_in_block();
    const uint32_t *from = (const uint32_t *)(void *)(j->saved + (uint64_t)me * j->saved_bytes);
    const uint32_t *lane = j->lanes + ((uint64_t)me * wh_block_threads() + t) * 2;
    uint32_t *to = (uint32_t *)wh_shared();
    wh_syncthreads();
    for (uint32_t k = t; k < j->saved_bytes / 4; k += wh_block_threads()) {
        to[k] = from[k];
    }
    *step = lane[0];
    *at = lane[1];
    *u = unit_of(j, j->stops[me].unit);
    u->done = j->stops[me].done;
    u->left = j->stops[me].left;
    u->phase = j->stops[me].phase;
    wh_syncthreads(); /* all have read it */
    if (t == 0) {
        j->stops[me].is_stopped = WH_PLANT(units_restore_once, 0, 1);
    }
}

/* --- order -------------------------------------------------------------------------------------
 */

/* Parts that a thread looks at in a round, in a row. */
#define PARTS_AHEAD 4u

/* Rows of a part of a level that is not paged. */
WH_FN uint32_t counted_rows(const whi_join *j, const whi_parts *s, uint32_t p) {
    const whi_parts *next = s + 1;
    uint32_t rows = 0;
    if (j->level + 1 == j->levels) {
        return s->rows[p];
    }
    for (uint32_t k = 0; k < 1u << next->log2; k++) { /* its parts have been counted */
        rows += next->rows[(p << next->log2) + k];
    }
    return rows;
}

/* Rows of parts, and pages that they have. */
typedef struct measured {
    uint32_t rows[PARTS_AHEAD], pages[PARTS_AHEAD];
} measured;

/* Of parts p, p + 1.. */
WH_FN measured measure_parts(const whi_join *j, const whi_parts *s, uint32_t p) {
    const uint32_t n = parts_in(s);
    uint32_t fill[PARTS_AHEAD];
    measured m;
    for (uint32_t k = 0; k < PARTS_AHEAD; k++) {
        const uint64_t cursor = j->is_paged && p + k < n ? s->cursor[p + k] : GROUP_FULL;
        fill[k] = wh_low_u32(cursor);
        m.pages[k] = wh_high_u32(cursor);
        m.rows[k] = 0;
    }
    for (uint32_t k = 0; k < PARTS_AHEAD; k++) {
        m.pages[k] = m.pages[k] != 0 ? s->ordinal[m.pages[k] - 1] + 1 : 0;
        m.rows[k] = (m.pages[k] << s->page_log2) - (GROUP_FULL - fill[k]);
        if (!j->is_paged && p + k < n) {
            m.rows[k] = counted_rows(j, s, p + k);
            m.pages[k] =
                (uint32_t)WH_PLANT(units_lay_pages, parts_for(m.rows[k], 1u << s->page_log2),
                                   m.rows[k] >> s->page_log2);
        }
    }
    return m;
}

/* The sum of v over the threads before the caller, and over all. All threads of a block. */
WH_FN uint64_t sum_before(uint64_t v, uint64_t *all) {
    return wh_block_scan_u64((uint64_t *)wh_shared(), v, all) - v;
}

/* One block. Of each part of a level the rows, where its pages are in `order`, and its tiles. */
WH_KERNEL(order_parts, join_args, a) {
    const whi_join *j = &a.j;
    const whi_parts *s = &j->side[j->which].level[j->level];
    const uint32_t parts = parts_in(s), tile = 1u << j->tile_log2;
    uint64_t before = 0, all; /* tiles << 32 | pages: there are fewer of either than rows */
    if (wh_load_u32_relaxed(&j->state->is_full) != 0) {
        return;
    }
    for (uint32_t first = 0; first < parts; first += PARTS_AHEAD * wh_block_threads()) {
        const uint32_t p = first + PARTS_AHEAD * wh_thread_in_block();
        const measured m = measure_parts(j, s, p);
        uint64_t mine = 0;
        for (uint32_t k = 0; k < PARTS_AHEAD; k++) {
            mine += parts_for(m.rows[k], tile) << 32 | m.pages[k];
        }
        uint64_t at = before + sum_before(mine, &all);
        for (uint32_t k = 0; k < PARTS_AHEAD && p + k < parts; k++) {
            s->rows[p + k] = m.rows[k];
            s->first[p + k] = wh_low_u32(at);
            s->first_tile[p + k] = wh_high_u32(at);
            at += parts_for(m.rows[k], tile) << 32 | m.pages[k];
        }
        before += all;
    }
    if (wh_thread_in_block() == 0) {
        s->first[parts] = wh_low_u32(before);
        s->first_tile[parts] = wh_high_u32(before);
    }
}

WH_KERNEL(order_pages, join_args, a) {
    const whi_join *j = &a.j;
    const whi_parts *s = &j->side[j->which].level[j->level];
    if (wh_load_u32_relaxed(&j->state->is_full) != 0) {
        return;
    }
    for (uint64_t i = wh_thread_id(); i < *s->n_pages; i += wh_grid_threads()) {
        s->order[s->first[s->part[i]] + WH_PLANT(units_order_pages, s->ordinal[i], 0u)] =
            (uint32_t)i;
    }
}

/* Units that a block takes at a time: the more, the more there are, so that blocks are through at
 * about the same time. */
#define BATCHES 16u
#define MOST_BATCH 8u

/* One block. The units of all parts. */
WH_KERNEL(order_units, join_args, a) {
    const whi_join *j = &a.j;
    const uint32_t parts = parts_of(j);
    uint64_t before = 0, all;
    /* In a join that goes on they are known, and units_left has changed since. P1 */
    const int is_known = WH_PLANT(units_p1_again, j->state->units != 0, 0);
    if (wh_load_u32_relaxed(&j->state->is_full) != 0 || is_known) {
        return;
    }
    for (uint32_t first = 0; first < parts; first += PARTS_AHEAD * wh_block_threads()) {
        const uint32_t p = first + PARTS_AHEAD * wh_thread_in_block();
        uint64_t n[PARTS_AHEAD], mine = 0;
        for (uint32_t k = 0; k < PARTS_AHEAD; k++) {
            n[k] = p + k < parts ? units_of_part(j, p + k) : 0;
            mine += n[k];
        }
        uint64_t at = before + sum_before(mine, &all);
        for (uint32_t k = 0; k < PARTS_AHEAD && p + k < parts; k++) {
            j->units_left[p + k] = n[k];
            j->first_unit[p + k] = at;
            at += n[k];
        }
        before += all;
    }
    if (wh_thread_in_block() == 0) {
        const uint64_t batch = before / ((uint64_t)j->blocks * BATCHES);
        j->first_unit[parts] = before;
        j->state->units = before;
        j->state->batch = batch < MOST_BATCH ? (uint32_t)batch + 1 : MOST_BATCH;
    }
}

#endif
