/* partition.h: rows into parts by the hash of their key, for one width of keys, as rows.h. A block
 * takes a tile of rows: of the table, or of a part of the level before. It sorts them by part in
 * its shared memory, takes places for them, and writes them there in order, so that lanes that
 * follow each other write places that do. Places are in pages of the heap, which the parts get as
 * they grow (parts.h); or, not paged, in memory where all rows have been counted before.
 *
 * T1      a tile's pages, of the level before, are its block's: read until there is a barrier
 *         after which all rows of the tile have places, and given back then. Tiles are whole pages
 */

/* Row i of a tile, whose pages are in `pages`. */
WH_FN OF(row) OF(row_of_tile)(const whi_parts *s, const sorted_tile *t, uint32_t i) {
    const unsigned char *page = (const unsigned char *)(uintptr_t)t->pages[i >> s->page_log2];
    return OF(row_of_page)(page, s->page_log2, i & ((1u << s->page_log2) - 1));
}

/* Which part of a level a key belongs to, of those that one part of the level before is split into.
 */
WH_FN uint32_t OF(digit_of)(const whi_parts *s, KEY key) {
    return wh_high_u32((uint64_t)(OF(hash)(key) << s->skip) << s->log2);
}

/* The rows of a tile in order of their parts, with counts and start. All threads. */
WH_FN void OF(sort_tile)(const whi_join *j, const whi_side *s, const sorted_tile *t,
                         const tile_source *from) {
    const whi_parts *to = &s->level[j->level];
    const uint32_t me = wh_thread_in_block(), threads = wh_block_threads();
    const uint32_t n = from->n - WH_PLANT(partition_last, 0u, 1u);
    OF(row) r[TILE_EACH(KEY)];               /* asked for before the first one is used */
    uint32_t rank[(TILE_EACH(KEY) + 1) / 2]; /* in its part; two in a word */
    memset(r, 0, sizeof r);
    memset(rank, 0, sizeof rank);
    if (me < 1u << to->log2) {
        t->counts[me] = 0;
    }
    if (me == 0) {
        t->words[TILE_FAILED] = 0;
    }
    if (j->level != 0 && me << s->level[0].page_log2 < n) {
        const uint32_t first =
            s->level[0].first[from->part] + (from->first >> s->level[0].page_log2);
        t->pages[me] = (uint64_t)(uintptr_t)page_in_order(&s->level[0], first + me);
    }
    WH_PLANT(partition_b1_cleared, wh_syncthreads(), (void)0);
    if (j->level == 0) {
        for (uint32_t k = 0; k < TILE_EACH(KEY); k++) {
            if (me + k * threads < n) {
                r[k] = OF(row_of_table)(s, from->first + me + k * threads);
            }
        }
    } else {
        for (uint32_t k = 0; k < TILE_EACH(KEY); k++) {
            if (me + k * threads < n) {
                r[k] = OF(row_of_tile)(&s->level[0], t, me + k * threads);
            }
        }
    }
    for (uint32_t k = 0; k < TILE_EACH(KEY); k++) {
        if (me + k * threads < n) {
            const uint32_t p = OF(digit_of)(to, r[k].key);
            rank[k / 2] |= wh_shared_fetch_add_u32(&t->counts[p], 1) << k % 2 * 16;
        }
    }
    WH_PLANT(partition_b1_counted, wh_syncthreads(), (void)0);
    (void)start_parts(t->sums, t->counts, t->start, 1u << to->log2);
    for (uint32_t k = 0; k < TILE_EACH(KEY); k++) {
        if (me + k * threads < n) {
            const uint32_t p = OF(digit_of)(to, r[k].key);
            const uint32_t at = t->start[p] + (rank[k / 2] >> k % 2 * 16 & 0xffff);
            t->part[at] = (uint16_t)p;
            OF(row_to_page)(t->rows, j->tile_log2, at, r[k]);
        }
    }
}

/* A row of a sorted tile, and its place. */
typedef struct OF(sorted_row) {
    OF(row) row;
    unsigned char *page; /* NULL: it has no place, or has been there before */
    uint32_t in_page;
} OF(sorted_row);

WH_FN OF(sorted_row)
    OF(sorted_row_at)(const whi_join *j, const whi_parts *to, const sorted_tile *t, uint32_t i) {
    const uint32_t p = t->part[i];
    const tile_run run = t->run[p];
    OF(sorted_row) r;
    r.row = OF(row_of_page)(t->rows, j->tile_log2, i);
    r.page = run.page;
    r.in_page = run.first + i;
    if (i >= run.end) { /* few */
        const uint32_t here = t->here[p];
        const int has = WH_PLANT(partition_placed, here != TILE_PLACED, 1) && here != TILE_NOWHERE;
        const uint64_t place = has ? place_of(t, p, i - t->start[p]) : 0;
        r.page = has ? page_of_number(to, (uint32_t)(place >> to->page_log2)) : NULL;
        r.in_page = (uint32_t)place & ((1u << to->page_log2) - 1);
    }
    return r;
}

/* The rows of a sorted tile to their places. All threads. */
WH_FN void OF(write_tile)(const whi_join *j, const whi_parts *to, const sorted_tile *t,
                          uint32_t n) {
    const uint32_t threads = wh_block_threads();
    for (uint32_t i = wh_thread_in_block(); i < n; i += WRITES_AHEAD * threads) {
        OF(sorted_row) r[WRITES_AHEAD]; /* all are looked for before the first one is written */
        for (uint32_t k = 0; k < WRITES_AHEAD; k++) {
            const uint32_t at = i + k * threads;
            r[k] = OF(sorted_row_at)(j, to, t, at < n ? at : n - 1);
        }
        for (uint32_t k = 0; k < WRITES_AHEAD; k++) {
            if (i + k * threads < n && r[k].page != NULL) {
                OF(row_to_page)(r[k].page, to->page_log2, r[k].in_page, r[k].row);
            }
        }
    }
}

OPS_KERNEL(count_parts, join_args, a) {
    const whi_join *j = &a.j;
    const whi_side *s = &j->side[j->which];
    const uint64_t threads = wh_grid_threads(), n = s->n - WH_PLANT(partition_count, 0u, s->n != 0);
    uint32_t *counts = (uint32_t *)wh_shared();
    for (uint32_t p = wh_thread_in_block(); p < parts_of(j); p += wh_block_threads()) {
        counts[p] = 0;
    }
    wh_syncthreads();
    for (uint64_t i = wh_thread_id(); i < n; i += ROWS_AHEAD * threads) {
        KEY key[ROWS_AHEAD]; /* asked for before the first one is used */
        for (uint32_t k = 0; k < ROWS_AHEAD; k++) {
            key[k] = i + k * threads < n ? OF(key_at)(s, (uint32_t)(i + k * threads)) : 0;
        }
        for (uint32_t k = 0; k < ROWS_AHEAD; k++) {
            if (i + k * threads < n) {
                const uint64_t p = (uint64_t)OF(hash)(key[k]) << j->parts_log2;
                (void)wh_shared_fetch_add_u32(&counts[wh_high_u32(p)], 1);
            }
        }
    }
    wh_syncthreads();
    for (uint32_t p = wh_thread_in_block(); p < parts_of(j); p += wh_block_threads()) {
        if (counts[p] != 0) {
            wh_add_u32_relaxed(&last_level(j, s)->rows[p], counts[p]);
        }
    }
}

OPS_KERNEL(partition, join_args, a) {
    const whi_join *j = &a.j;
    const whi_side *s = &j->side[j->which];
    const whi_parts *to = &s->level[j->level];
    const sorted_tile t = sorted_at(wh_shared(), most_split(j), tile_rows_bytes(j));
    const uint32_t words = ((1u << to->log2) + 31) / 32, me = wh_block_id();
    const uint64_t tiles = tiles_of(j, s);
    uint32_t *placed = to->placed + (uint64_t)me * words;
    uint32_t k = to->next_tile[me];
    uint64_t tile = tile_of_block(tiles, k);
    const int may = wh_block_broadcast_u64(wh_load_u32_relaxed(&j->state->is_full), 0) == 0;
    int is_full = 0;
    while (may && !is_full && tile < tiles) {
        const tile_source from = source_of(j, s, (uint32_t)tile);
        const uint32_t base = from.part << to->log2;
        OF(sort_tile)(j, s, &t, &from);
        if (to->memory != NULL) {
            place_counted(to, &t, base);
        } else {
            place_tile(&a.heap, to, &t, base, placed);
        }
        OF(write_tile)(j, to, &t, from.n);
        is_full = t.words[TILE_FAILED] != 0;
        for (uint32_t p = wh_thread_in_block(); p / 32 < words; p += wh_block_threads()) {
            const uint32_t here = p < 1u << to->log2 ? t.here[p] : TILE_PLACED;
            const int is_over = WH_PLANT(partition_over, is_full, 1);
            const wh_mask has = wh_ballot(WH_FULL_WARP, is_over && here != TILE_NOWHERE);
            if (p % 32 == 0) {
                placed[p / 32] = WH_PLANT(partition_bits, has, 0);
            }
        }
        if (j->is_paged && j->level != 0 && WH_PLANT(partition_t1_stopped, !is_full, 1)) {
            free_tile(&a.heap, &s->level[0], &from); /* T1 */
        }
        k += WH_PLANT(partition_stay, is_full, 0) ? 0 : 1;
        tile = tile_of_block(tiles, k);
        /* before the next tile's counts, and words */
        WH_PLANT(partition_b1_next, wh_syncthreads(), (void)0);
    }
    if (wh_thread_in_block() == 0) {
        to->next_tile[me] = WH_PLANT(partition_tile, k, 0);
        if (is_full) {
            wh_store_u32_relaxed(&j->state->is_full, 1);
        }
    }
}
