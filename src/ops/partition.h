/* partition.h: the rows of a table into parts by the hash of their key, for one width of keys, as
 * rows.h. A block takes a tile of the table: it counts the rows of each part, takes places for
 * them, and copies them there. Places are in pages of the heap, which the parts get as they grow
 * (chains.h); or, `two-pass`, in memory where all rows have been counted before.
 */

WH_FN void OF(count_tile)(const whi_join *j, const whi_side *s, const tile_places *t,
                          uint32_t tile) {
    const uint32_t first = tile * j->tile, threads = wh_block_threads();
    const uint32_t end = s->n - first < j->tile ? s->n : first + j->tile;
    for (uint32_t p = wh_thread_in_block(); p < 1u << j->parts_log2; p += threads) {
        t->counts[p] = 0;
    }
    if (wh_thread_in_block() == 0) {
        t->words[TILE_PAGES] = t->words[TILE_FAILED] = 0;
    }
    wh_syncthreads();
    for (uint32_t i = first + wh_thread_in_block(); i < end; i += ROWS_AHEAD * threads) {
        KEY key[ROWS_AHEAD]; /* asked for before the first one is used */
        for (uint32_t k = 0; k < ROWS_AHEAD; k++) {
            key[k] = i + k * threads < end ? OF(key_at)(s, i + k * threads) : 0;
        }
        for (uint32_t k = 0; k < ROWS_AHEAD; k++) {
            if (i + k * threads < end - WH_PLANT(partition_last, 0u, 1u)) {
                (void)wh_shared_fetch_add_u32(&t->counts[OF(part_of)(j, key[k])], 1);
            }
        }
    }
    wh_syncthreads();
}

/* A row's place in its part. */
WH_FN void OF(copy_row)(const whi_join *j, const whi_side *s, const tile_places *t, OF(row) r) {
    const uint32_t log2 = j->part_page_log2, p = OF(part_of)(j, r.key), seg = t->first[p];
    if (WH_PLANT(partition_placed, seg == TILE_PLACED, 0) || seg == TILE_NOWHERE) {
        return;
    }
    uint32_t at = wh_shared_fetch_add_u32(&t->counts[p], 1);
    unsigned char *page;
    if (s->memory != NULL) {
        at += WH_PLANT(partition_at, (uint32_t)t->at[p], 0u);
        page = s->memory + (uint64_t)(s->first[p] + (at >> log2)) * part_page_bytes(j);
    } else {
        page = page_of_place(t, log2, p, at, &at);
    }
    OF(row_to_page)(page, log2, at & ((1u << log2) - 1), r);
}

WH_FN void OF(copy_tile)(const whi_join *j, const whi_side *s, const tile_places *t,
                         uint32_t tile) {
    const uint32_t first = tile * j->tile, threads = wh_block_threads();
    const uint32_t end = s->n - first < j->tile ? s->n : first + j->tile;
    for (uint32_t i = first + wh_thread_in_block(); i < end; i += ROWS_AHEAD * threads) {
        OF(row) r[ROWS_AHEAD];
        memset(r, 0, sizeof r);
        for (uint32_t k = 0; k < ROWS_AHEAD; k++) {
            if (i + k * threads < end) {
                r[k] = OF(row_of_table)(s, i + k * threads);
            }
        }
        for (uint32_t k = 0; k < ROWS_AHEAD; k++) {
            if (i + k * threads < end) {
                OF(copy_row)(j, s, t, r[k]);
            }
        }
    }
    wh_syncthreads();
}

OPS_KERNEL(count_parts, join_args, a) {
    const whi_join *j = &a.j;
    const whi_side *s = &j->side[j->which];
    const tile_places t = tile_here(j);
    for (uint32_t tile = wh_block_id(); tile < tiles_of(j, s); tile += wh_grid_blocks()) {
        OF(count_tile)(j, s, &t, tile);
        for (uint32_t p = wh_thread_in_block(); p < 1u << j->parts_log2; p += wh_block_threads()) {
            if (t.counts[p] != 0) {
                wh_add_u32_relaxed(&s->rows[p], t.counts[p]);
            }
        }
        wh_syncthreads();
    }
}

OPS_KERNEL(partition, join_args, a) {
    const whi_join *j = &a.j;
    const whi_side *s = &j->side[j->which];
    const tile_places t = tile_here(j);
    const uint32_t words = ((1u << j->parts_log2) + 31) / 32, me = wh_block_id();
    const whi_chains chains = chains_of(j, s);
    uint32_t *placed = s->placed + (uint64_t)me * words;
    uint32_t tile = s->next_tile[me];
    const int may = wh_block_broadcast_u64(wh_load_u32_relaxed(&j->state->is_full), 0) == 0;
    int is_full = 0;
    while (may && !is_full && tile < tiles_of(j, s)) {
        OF(count_tile)(j, s, &t, tile);
        if (s->memory != NULL) {
            place_counted(s, &t, 1u << j->parts_log2);
        } else {
            place_tile(a.heap, &chains, &t, 1u << j->parts_log2, placed);
        }
        OF(copy_tile)(j, s, &t, tile);
        is_full = t.words[TILE_FAILED] != 0;
        for (uint32_t p = wh_thread_in_block(); p / 32 < words; p += wh_block_threads()) {
            const uint32_t seg = p < 1u << j->parts_log2 ? t.first[p] : TILE_PLACED;
            const int is_over = WH_PLANT(partition_over, is_full, 1);
            const wh_mask has = wh_ballot(WH_FULL_WARP, is_over && seg != TILE_NOWHERE);
            if (p % 32 == 0) {
                placed[p / 32] = WH_PLANT(partition_bits, has, 0);
            }
        }
        tile += WH_PLANT(partition_stay, is_full, 0) ? 0 : wh_grid_blocks();
        /* before the next tile's counts, and words */
        WH_PLANT(partition_b1_next, wh_syncthreads(), (void)0);
    }
    if (wh_thread_in_block() == 0) {
        s->next_tile[me] = WH_PLANT(partition_tile, tile, me);
        if (is_full) {
            wh_store_u32_relaxed(&j->state->is_full, 1);
        }
    }
}
