/* units.h: units of work of a join, their order, and blocks that stop and go on. Included by
 * join_kernels.c.
 *
 * P1      units_left[p]: fetch_sub (acq_rel) by a block that has done a unit of part p; who does
 *         the last one gives the part's pages back, which nobody reads any more
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
} unit;

WH_FN uint32_t parts_of(const whi_join *j) {
    return 1u << j->parts_log2;
}

WH_FN uint32_t part_page_bytes(const whi_join *j) {
    return (j->key_bytes + 4) << j->part_page_log2;
}

WH_FN uint32_t tiles_of(const whi_join *j, const whi_side *s) {
    return s->n / j->tile + WH_PLANT(units_tiles, s->n % j->tile != 0, 0);
}

/* Whether it matters which rows have found a partner. They are one unit with all chunks then. */
WH_FN int needs_seen(const whi_join *j) {
    return j->kind != WH_JOIN_INNER && j->kind != WH_JOIN_COUNT;
}

WH_FN uint64_t parts_for(uint32_t n, uint32_t each) {
    return n / each + (n % each != 0);
}

WH_FN uint64_t units_of_part(const whi_join *j, uint32_t p) {
    const uint64_t chunks = parts_for(j->side[0].rows[p], j->chunk);
    const uint64_t ranges = parts_for(j->side[1].rows[p], j->range);
    if (needs_seen(j)) {
        return chunks != 0 || WH_PLANT(units_alone, j->kind != WH_JOIN_SEMI, 0) ? ranges : 0;
    }
    return chunks * ranges;
}

/* Unit `number` of all. */
WH_FN unit unit_of(const whi_join *j, uint64_t number) {
    uint32_t p = 0;
    unit u;
    for (uint32_t step = parts_of(j) / 2; step != 0; step /= 2) { /* first_unit[p] <= number */
        p += j->first_unit[p + step] <= number ? step : 0;
    }
    const uint32_t rows = j->side[1].rows[p];
    const uint64_t k = number - j->first_unit[p], ranges = parts_for(rows, j->range);
    u.number = number;
    u.part = p;
    u.first = (uint32_t)(k % ranges) * j->range;
    u.end = WH_PLANT(units_end, rows - u.first < j->range, 0) ? rows : u.first + j->range;
    u.chunk = WH_PLANT(units_chunk, (uint32_t)(k / ranges), 0);
    u.chunks = WH_PLANT(units_chunks, needs_seen(j), 0)
                   ? (uint32_t)parts_for(j->side[0].rows[p], j->chunk)
                   : 1;
    u.done = u.phase = 0;
    return u;
}

/* The next unit that no block has. All threads of a block. */
WH_FN int take_unit(const whi_join *j, unit *u) {
    uint64_t number = 0;
    if (wh_thread_in_block() == 0) {
        number = wh_fetch_add_u64_relaxed(&j->state->next_unit, 1);
    }
    number = wh_block_broadcast_u64(number, 0);
    if (number >= j->state->units) {
        return 0;
    }
    *u = unit_of(j, number);
    return 1;
}

WH_FN void free_part(wh_heap_ref heap, const whi_side *s, uint32_t p) {
    for (uint32_t k = s->first[p] + wh_thread_in_block(); k < s->first[p + 1];
         k += wh_block_threads()) {
        give_page(heap, s->page[s->order[k]]);
        s->page[s->order[k]] = WH_PLANT(units_p1_gone, NULL, s->page[s->order[k]]);
    }
}

/* A unit is done. All threads of the block that had it. */
WH_FN void end_unit(wh_heap_ref heap, const whi_join *j, const unit *u) {
    uint64_t left = 0;
    if (!j->is_paged) {
        return;
    }
    wh_syncthreads();
    if (wh_thread_in_block() == 0) {
        left = WH_PLANT_ORDER(units_p1_left, wh_fetch_sub_u64, acq_rel)(&j->units_left[u->part],
                                                                        1); /* P1 */
    }
    if (wh_block_broadcast_u64(left, 0) == WH_PLANT(units_p1_last, 1u, 2u)) {
        free_part(heap, &j->side[0], u->part);
        WH_PLANT(units_p1_back, free_part(heap, &j->side[1], u->part), (void)0);
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
    u->phase = j->stops[me].phase;
    wh_syncthreads(); /* all have read it */
    if (t == 0) {
        j->stops[me].is_stopped = WH_PLANT(units_restore_once, 0, 1);
    }
}

/* --- order -------------------------------------------------------------------------------------
 */

/* One block. Paged: of each part rows, and where its pages are in `order`; in any case the units.
 */
WH_KERNEL(order_parts, join_args, a) {
    const whi_join *j = &a.j;
    uint64_t before[3] = {0, 0, 0}; /* pages of both sides, units */
    /* In a join that goes on they are known, and units_left has changed since. P1 */
    const int is_known = WH_PLANT(units_p1_again, j->state->units != 0, 0);
    if (wh_load_u32_relaxed(&j->state->is_full) != 0 || is_known) {
        return;
    }
    for (uint32_t first = 0; first < parts_of(j); first += wh_block_threads()) {
        const uint32_t p = first + wh_thread_in_block();
        uint64_t *const words = (uint64_t *)wh_shared();
        uint64_t all;
        for (uint32_t k = 0; k < 2 && j->is_paged; k++) {
            const whi_side *s = &j->side[k];
            const uint64_t cursor = p < parts_of(j) ? s->cursor[p] : 0;
            const uint32_t number = wh_high_u32(cursor);
            const uint32_t pages = number != 0 ? s->ordinal[number - 1] + 1 : 0;
            const uint64_t up_to = wh_block_scan_u64(words, pages, &all);
            if (p < parts_of(j)) {
                s->rows[p] =
                    number != 0 ? ((pages - 1) << j->part_page_log2) + wh_low_u32(cursor) : 0;
                s->first[p] = (uint32_t)(before[k] + up_to - pages);
            }
            before[k] += all;
            if (wh_thread_in_block() == 0) {
                s->first[parts_of(j)] = (uint32_t)before[k];
            }
        }
        const uint64_t units = p < parts_of(j) ? units_of_part(j, p) : 0;
        const uint64_t up_to = wh_block_scan_u64(words, units, &all);
        if (p < parts_of(j)) {
            j->first_unit[p] = before[2] + up_to - units;
            j->units_left[p] = units;
        }
        before[2] += all;
    }
    if (wh_thread_in_block() == 0) {
        j->first_unit[parts_of(j)] = before[2];
        j->state->units = before[2];
    }
}

WH_KERNEL(order_pages, join_args, a) {
    const whi_join *j = &a.j;
    if (wh_load_u32_relaxed(&j->state->is_full) != 0) {
        return;
    }
    for (uint32_t k = 0; k < 2; k++) {
        const whi_side *s = &j->side[k];
        for (uint64_t i = wh_thread_id(); i < *s->n_pages; i += wh_grid_threads()) {
            s->order[s->first[s->part[i]] + WH_PLANT(units_order_pages, s->ordinal[i], 0u)] =
                (uint32_t)i;
        }
    }
}

/* two-pass: where parts begin, from their rows. One block. */
WH_KERNEL(lay_parts, join_args, a) {
    const whi_join *j = &a.j;
    for (uint32_t k = 0; k < 2; k++) {
        const whi_side *s = &j->side[k];
        uint64_t before = 0, all;
        for (uint32_t first = 0; first < parts_of(j); first += wh_block_threads()) {
            const uint32_t p = first + wh_thread_in_block();
            const uint32_t rows = p < parts_of(j) ? s->rows[p] : 0;
            const uint64_t pages =
                WH_PLANT(units_lay_pages, parts_for(rows, 1u << j->part_page_log2),
                         rows >> j->part_page_log2);
            const uint64_t up_to = wh_block_scan_u64((uint64_t *)wh_shared(), pages, &all);
            if (p < parts_of(j)) {
                s->first[p] = (uint32_t)(before + up_to - pages);
                s->cursor[p] = 0;
            }
            before += all;
        }
    }
}

#endif
