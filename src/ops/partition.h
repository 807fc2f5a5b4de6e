/* partition.h: the rows of a table into parts by the hash of their key, for one width of keys, as
 * rows.h. A block takes a tile of the table: it counts the rows of each part, takes places for
 * them, and copies them there. Places are in pages of the heap, which the parts get as they grow;
 * or, `two-pass`, in memory where all rows have been counted before.
 *
 * P1      cursor[p]: the page that part p grows in, its number and one more, above the rows that
 *         have a place there. fetch_add (acq_rel) of n takes n places from the old value on, if
 *         that is no more than a page has. Who takes more than are left gets the rest of the page,
 *         and brings the pages for the others: until it stores (release) the cursor of the last of
 *         them, takers see that the page is more than full, take nothing, and look again. What
 *         they have added meanwhile goes with that store. If there is no memory, it stores the
 *         value that it found: nothing has been taken
 * I1      page[k], part[k], ordinal[k]: written by who brought page k, before the release of P1
 * Progress a lane waits only for one that is bringing pages, which waits for nobody: not inside a
 *         loop of its own, but in rounds of its warp, so that it may be a lane of the same warp
 */

/* What a block knows of a tile: of each part, and pages that have been brought. All shared. */
typedef struct OF(tile) {
    uint64_t *at;      /* the first page; two-pass: the first place in the part */
    uint64_t *pages;   /* brought */
    uint32_t *counts;  /* rows of the tile; then, how many have been copied */
    uint32_t *first;   /* from where in the first page << 16 | how many places; or as below */
    uint32_t *brought; /* where in `pages` the part's are */
    uint32_t *words;
} OF(tile);

WH_FN OF(tile) OF(tile_here)(const whi_join *j) {
    const uint32_t parts = 1u << j->parts_log2;
    OF(tile) t;
    t.at = (uint64_t *)wh_shared();
    t.pages = t.at + parts;
    t.counts = (uint32_t *)(void *)(t.pages + (j->tile >> j->part_page_log2) + parts);
    t.first = t.counts + parts;
    t.brought = t.first + parts;
    t.words = t.brought + parts;
    return t;
}

WH_FN void OF(count_tile)(const whi_join *j, const whi_side *s, const OF(tile) * t, uint32_t tile) {
    const uint32_t first = tile * j->tile, threads = wh_block_threads();
    const uint32_t end = s->n - first < j->tile ? s->n : first + j->tile;
    for (uint32_t p = wh_thread_in_block(); p < 1u << j->parts_log2; p += threads) {
        t->counts[p] = 0;
    }
    if (wh_thread_in_block() == 0) {
        t->words[TILE_PAGES] = t->words[TILE_FAILED] = 0;
    }
    wh_syncthreads();
    for (uint32_t i = first + wh_thread_in_block(); i < end; i += threads) {
        (void)wh_shared_fetch_add_u32(&t->counts[OF(part_of)(j, OF(key_at)(s, i))], 1);
    }
    wh_syncthreads();
}

WH_FN void OF(copy_tile)(const whi_join *j, const whi_side *s, const OF(tile) * t, uint32_t tile) {
    const uint32_t first = tile * j->tile, log2 = j->part_page_log2;
    const uint32_t end = s->n - first < j->tile ? s->n : first + j->tile;
    for (uint32_t i = first + wh_thread_in_block(); i < end; i += wh_block_threads()) {
        const OF(row) r = OF(row_of_table)(s, i);
        const uint32_t p = OF(part_of)(j, r.key), seg = t->first[p];
        if (seg == TILE_PLACED || seg == TILE_NOWHERE) {
            continue;
        }
        uint32_t at = wh_shared_fetch_add_u32(&t->counts[p], 1);
        unsigned char *page;
        if (s->memory != NULL) {
            at += (uint32_t)t->at[p];
            page = s->memory + (uint64_t)(s->first[p] + (at >> log2)) * part_page_bytes(j);
        } else if (at < (seg & 0xffff)) {
            page = (unsigned char *)(uintptr_t)t->at[p];
            at += seg >> 16;
        } else {
            at -= seg & 0xffff;
            page = (unsigned char *)(uintptr_t)t->pages[t->brought[p] + (at >> log2)];
        }
        OF(row_to_page)(page, log2, at & ((1u << log2) - 1), r);
    }
    wh_syncthreads();
}

/* Pages that a part wants. */
typedef struct OF(want) {
    uint32_t part, n;
    uint32_t last; /* the part's last page, its number and one more; 0: none */
} OF(want);

/* Brings pages; the number of the last one, and one more. 0: there was no memory for them, and
 * nothing has changed. I1 */
WH_FN uint32_t OF(bring)(wh_heap_ref heap, const whi_join *j, const whi_side *s, uint64_t *pages,
                         OF(want) want) {
    uint32_t got = 0;
    WH_NO_UNROLL
    for (; got < want.n; got++) {
        const unsigned char *page = take_page(heap, part_page_bytes(j));
        if (page == NULL) {
            break;
        }
        pages[got] = (uint64_t)(uintptr_t)page;
    }
    if (got < want.n) {
        WH_NO_UNROLL
        while (got != 0) {
            give_page(heap, (void *)(uintptr_t)pages[--got]);
        }
        return 0;
    }
    const uint32_t first = wh_fetch_add_u32_relaxed(s->n_pages, want.n);
    const uint32_t ordinal = want.last != 0 ? s->ordinal[want.last - 1] + 1 : 0;
    for (uint32_t k = 0; k < want.n; k++) { /* I1 */
        s->page[first + k] = (unsigned char *)(uintptr_t)pages[k];
        s->part[first + k] = want.part;
        s->ordinal[first + k] = ordinal + k;
    }
    return first + want.n;
}

/* Takes places for n rows of part p; 0: somebody is bringing a page. P1 */
WH_FN int OF(take_places)(wh_heap_ref heap, const whi_join *j, const whi_side *s,
                          const OF(tile) * t, uint32_t p, uint32_t n) {
    const uint32_t room = 1u << j->part_page_log2;
    if (wh_low_u32(wh_load_u64_acquire(&s->cursor[p])) > room) {
        return 0;
    }
    const uint64_t old = wh_fetch_add_u64_acq_rel(&s->cursor[p], n); /* P1 */
    const uint32_t fill = wh_low_u32(old), here = n < room - fill ? n : room - fill;
    if (fill > room) {
        return 0;
    }
    OF(want) want;
    want.part = p;
    want.n = (n - here + room - 1) >> j->part_page_log2;
    want.last = wh_high_u32(old);
    t->first[p] = fill << 16 | here;
    t->at[p] = want.last != 0 ? (uint64_t)(uintptr_t)s->page[want.last - 1] : 0;
    if (want.n == 0) {
        return 1;
    }
    t->brought[p] = wh_shared_fetch_add_u32(&t->words[TILE_PAGES], want.n);
    const uint32_t last = OF(bring)(heap, j, s, t->pages + t->brought[p], want);
    if (last == 0) {
        wh_store_u64_release(&s->cursor[p], old); /* P1 */
        t->first[p] = TILE_NOWHERE;
        (void)wh_shared_exchange_u32(&t->words[TILE_FAILED], 1);
        return 1;
    }
    const uint32_t in_last = n - here - ((want.n - 1) << j->part_page_log2);
    wh_store_u64_release(&s->cursor[p], (uint64_t)last << 32 | in_last); /* P1 */
    return 1;
}

/* Places for all rows of a tile. placed: parts whose rows have had theirs in a launch before. */
WH_FN void OF(place_tile)(wh_heap_ref heap, const whi_join *j, const whi_side *s,
                          const OF(tile) * t, const uint32_t *placed) {
    const uint32_t parts = 1u << j->parts_log2;
    for (uint32_t first = 0; first < parts; first += wh_block_threads()) {
        const uint32_t p = first + wh_thread_in_block();
        const uint32_t n = p < parts ? t->counts[p] : 0;
        int is_done = n == 0;
        if (p < parts) {
            t->counts[p] = 0;
            t->first[p] = TILE_PLACED;
        }
        if (n != 0 && s->memory != NULL) {
            t->at[p] = wh_fetch_add_u64_relaxed(&s->cursor[p], n);
            t->first[p] = 0;
            is_done = 1;
        }
        is_done |= n != 0 && (placed[p / 32] >> p % 32 & 1) != 0;
        for (uint32_t round = 0; wh_any(WH_FULL_WARP, !is_done); round++) {
            if (!is_done) {
                is_done = OF(take_places)(heap, j, s, t, p, n);
            }
            if (!is_done) {
                wh_backoff(round);
            }
        }
    }
    wh_syncthreads();
}

OPS_KERNEL(count_parts, join_args, a) {
    const whi_join *j = &a.j;
    const whi_side *s = &j->side[j->which];
    const OF(tile) t = OF(tile_here)(j);
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
    const OF(tile) t = OF(tile_here)(j);
    const uint32_t words = ((1u << j->parts_log2) + 31) / 32, me = wh_block_id();
    uint32_t *placed = s->placed + (uint64_t)me * words;
    uint32_t tile = s->next_tile[me];
    const int may = wh_block_broadcast_u64(wh_load_u32_relaxed(&j->state->is_full), 0) == 0;
    int is_full = 0;
    while (may && !is_full && tile < tiles_of(j, s)) {
        OF(count_tile)(j, s, &t, tile);
        OF(place_tile)(a.heap, j, s, &t, placed);
        OF(copy_tile)(j, s, &t, tile);
        is_full = t.words[TILE_FAILED] != 0;
        for (uint32_t p = wh_thread_in_block(); p / 32 < words; p += wh_block_threads()) {
            const uint32_t seg = p < 1u << j->parts_log2 ? t.first[p] : TILE_PLACED;
            const wh_mask has = wh_ballot(WH_FULL_WARP, is_full && seg != TILE_NOWHERE);
            if (p % 32 == 0) {
                placed[p / 32] = has;
            }
        }
        tile += is_full ? 0 : wh_grid_blocks();
        wh_syncthreads(); /* before the next tile's counts, and words */
    }
    if (wh_thread_in_block() == 0) {
        s->next_tile[me] = tile;
        if (is_full) {
            wh_store_u32_relaxed(&j->state->is_full, 1);
        }
    }
}
