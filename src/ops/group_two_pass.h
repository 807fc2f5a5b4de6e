/* group_two_pass.h: the baseline without an allocator, for one width of keys and one of values, as
 * group_rows.h. Everything is counted before it is written: the rows of each part before they go
 * there, and the groups of each part before they go to columns of that size. So the rows are read
 * twice by each of two kernels. Parts are by bits of a hash of the key.
 *
 * A block takes one part after the other, and reads it with a table of its own, in rounds: what
 * finds no slot in one round comes into the table of the next.
 *
 * T1      part_left: a bit for each row of a part that no round has had yet, from the second round
 *         on; a part begins with a word of its own. Words are of the block that has the part, and
 *         of one warp of it: plain
 * T2      by group_table.h's S3 all rows of a key are in the same round, so each key is counted
 *         once, and written once. The first row of a round finds its slot empty: this ends whatever
 *         the keys are. Which keys are in a round may differ between both passes, their number may
 *         not
 *
 * Source: Pham et al., section 6.2, which names it as what pages replace. Ours: the tables.
 */

/* How many rows of each part a tile has. All threads. */
WH_FN void OF(count_rows)(const whi_group *g, const whi_group_shape *s, uint32_t first,
                          uint32_t end) {
    uint32_t *counts = SHARED(uint32_t, counts);
    for (uint32_t p = wh_thread_in_block(); p < s->parts; p += wh_block_threads()) {
        counts[p] = 0;
    }
    wh_syncthreads();
    for (uint32_t i = first + wh_thread_in_block(); i < end; i += wh_block_threads()) {
        const uint32_t p = OF(part_of)(((const KEY *)g->key)[i], 0, g->parts_log2);
        (void)wh_shared_fetch_add_u32(&counts[p], 1);
    }
    wh_syncthreads();
}

/* Rows of all parts, added to part_first. */
OPS_KERNEL(count_parts, group_args, a) {
    const whi_group *g = &a.g;
    const whi_group_shape *s = &g->shape[0];
    const uint32_t *counts = SHARED(const uint32_t, counts);
    for (uint32_t tile = wh_block_id(); tile < tiles_of(g); tile += wh_grid_blocks()) {
        const uint32_t first = tile * g->tile;
        OF(count_rows)(g, s, first, g->n - first < g->tile ? g->n : first + g->tile);
        for (uint32_t p = wh_thread_in_block(); p < s->parts; p += wh_block_threads()) {
            if (counts[p] != 0) {
                wh_add_u32_relaxed(&g->part_first[p], counts[p]);
            }
        }
        wh_syncthreads(); /* before the next tile's counts */
    }
}

/* The table's rows, to their parts. */
OPS_KERNEL(fill_parts, group_args, a) {
    const whi_group *g = &a.g;
    const whi_group_shape *s = &g->shape[0];
    uint32_t *counts = SHARED(uint32_t, counts), *places = SHARED(uint32_t, places);
    for (uint32_t tile = wh_block_id(); tile < tiles_of(g); tile += wh_grid_blocks()) {
        const uint32_t first = tile * g->tile;
        const uint32_t end = g->n - first < g->tile ? g->n : first + g->tile;
        OF(count_rows)(g, s, first, end);
        for (uint32_t p = wh_thread_in_block(); p < s->parts; p += wh_block_threads()) {
            if (counts[p] != 0) {
                places[p] = wh_fetch_add_u32_relaxed(&g->part_next[p], counts[p]);
            }
        }
        wh_syncthreads();
        for (uint32_t i = first + wh_thread_in_block(); i < end; i += wh_block_threads()) {
            const KEY key = ((const KEY *)g->key)[i];
            const uint32_t p = OF(part_of)(key, 0, g->parts_log2);
            const uint32_t at = wh_shared_fetch_add_u32(&places[p], 1);
            ((KEY *)g->part_key)[at] = key;
            if (g->value_bytes != 0) {
                ((VALUE *)g->part_value)[at] = ((const VALUE *)g->value)[i];
            }
        }
        wh_syncthreads(); /* before the next tile's counts */
    }
}

/* Rows of part p that no round has had, into the table: their keys, and in the second pass what
 * they say. How many find no slot. All threads. T1 */
WH_FN uint32_t OF(read_part)(const whi_group *g, const whi_group_shape *s, uint32_t p, int is_first,
                             uint32_t mask) {
    const uint32_t first = g->part_first[p], n = g->part_first[p + 1] - first;
    const KEY *keys = (const KEY *)g->part_key + first;
    const VALUE *values = (const VALUE *)g->part_value + first;
    uint32_t *left = g->part_left + first / 32 + p;
    int meets = 1;
    if (wh_thread_in_block() == 0) {
        WORDS[GROUP_LEFT] = 0;
    }
    wh_syncthreads();
    WH_NO_UNROLL
    for (uint32_t step = first_step(); step < n; step += wh_block_threads()) {
        const uint32_t i = step + wh_lane_id();
        const int has = i < n && (is_first || (left[step / 32] >> wh_lane_id() & 1) != 0);
        uint32_t slot = SLOT_NONE;
        OF(item) m;
        memset(&m, 0, sizeof m);
        if (has) {
            slot = OF(find)(s, keys[i], OF(hash)(keys[i], 1), g->probes[1], mask);
        }
        const wh_mask none = wh_ballot(WH_FULL_WARP, has && slot == SLOT_NONE);
        if (g->is_writing) {
            if (has) {
                m = OF(item_of)(&g->needs, keys[i], g->value_bytes != 0 ? values[i] : 0);
            }
            OF(absorb_warp)(&g->needs, s, slot, m, &meets);
        }
        wh_syncwarp(WH_FULL_WARP); /* all have read their bit */
        if (wh_lane_id() == 0) {
            left[step / 32] = none; /* T1 */
            if (none != 0) {
                (void)wh_shared_fetch_add_u32(&WORDS[GROUP_LEFT], wh_popc32(none));
            }
        }
    }
    wh_syncthreads();
    const uint32_t n_left = WORDS[GROUP_LEFT];
    wh_syncthreads(); /* all have read it */
    return n_left;
}

/* The table's groups are counted, and in the second pass written behind place `first` of the
 * columns. The table is empty then. All threads. */
WH_FN void OF(empty_table)(const whi_group *g, const whi_group_shape *s, uint32_t first,
                           uint32_t mask) {
    for (uint32_t step = first_step(); step <= mask + 1; step += wh_block_threads()) {
        const uint32_t i = step + wh_lane_id(), slot = i <= mask ? i : s->slots;
        const int has = i <= mask + 1 && OF(is_taken)(s, slot);
        const wh_mask all = wh_ballot(WH_FULL_WARP, has);
        uint32_t at = 0;
        if (wh_lane_id() == 0 && all != 0) {
            at = wh_shared_fetch_add_u32(&WORDS[GROUP_FOUND], wh_popc32(all));
        }
        at = wh_shfl_u32(WH_FULL_WARP, at, 0) + wh_mask_rank(all);
        if (has && g->is_writing) {
            OF(write_item)(g, g->columns, (uint64_t)first + at, OF(item_of_slot)(g, s, slot));
        }
        if (has) {
            OF(empty_slot)(g, s, slot);
        }
    }
    wh_syncthreads();
}

/* All groups of part p. All threads. T2 */
WH_FN void OF(group_part)(const whi_group *g, const whi_group_shape *s, uint32_t p) {
    const uint32_t n = g->part_first[p + 1] - g->part_first[p];
    const uint32_t first = g->is_writing ? g->part_groups[p] : 0;
    const uint32_t mask = slots_for(s, n) - 1;
    uint32_t left = n;
    if (wh_thread_in_block() == 0) {
        WORDS[GROUP_FOUND] = 0;
    }
    for (int is_first = 1; left != 0; is_first = 0) {
        left = OF(read_part)(g, s, p, is_first, mask);
        OF(empty_table)(g, s, first, mask);
    }
    if (wh_thread_in_block() == 0 && !g->is_writing) {
        g->part_groups[p] = WORDS[GROUP_FOUND];
    }
}

/* All groups of all parts. */
OPS_KERNEL(group_counted, group_args, a) {
    const whi_group *g = &a.g;
    const whi_group_shape *s = &g->shape[1];
    OF(clear_table)(g, s);
    wh_syncthreads();
    for (uint32_t p = take_part(g); p < 1u << g->parts_log2; p = take_part(g)) {
        OF(group_part)(g, s, p);
    }
}
