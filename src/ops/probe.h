/* probe.h: the rows of a unit of work against a chunk of the build table's part, for one width of
 * keys, as rows.h.
 *
 * A block puts the chunk into chains in its shared memory; each warp takes 32 rows of the probe
 * table at a time, and each lane follows the chain of its row. Where the heap is full, a warp notes
 * where its lanes are and waits for the others; then the block copies its shared memory out, chains
 * and all, so that it can go on from there. Nothing is put out twice, or lost.
 *
 * C1      chains: heads and next, written between barriers, by exchange; then read alone
 * C3      build_pages, probe_pages: where the chunk's, and the unit's pages are: written between
 *         barriers, then read alone; found anew where the block goes on, as pages may have moved
 * C2      seen[k]: rows 32 k.. of the unit that have found a partner: of the warp that takes them
 */

/* Shared memory. */
typedef struct OF(table) {
    KEY *keys;
    uint64_t *build_pages, *probe_pages;
    uint32_t *values, *heads, *seen, *words;
    uint16_t *next;
} OF(table);

WH_FN OF(table) OF(table_here)(const whi_join *j) {
    OF(table) t;
    t.keys = (KEY *)wh_shared();
    t.build_pages = (uint64_t *)(void *)(t.keys + j->chunk); /* chunks are of 8 rows */
    t.probe_pages = t.build_pages + pages_of(j, j->chunk);
    t.values = (uint32_t *)(void *)(t.probe_pages + pages_of(j, j->range));
    t.heads = t.values + j->chunk;
    t.seen = t.heads + (1u << j->heads_log2);
    t.words = t.seen + j->range / 32;
    t.next = (uint16_t *)(void *)(t.words + TABLE_WORDS);
    return t;
}

/* Row i of a part, of whose pages those from row `first` on are in `pages`. C3 */
WH_FN OF(row) OF(row_found)(const whi_parts *s, const uint64_t *pages, uint32_t first, uint32_t i) {
    const uint32_t k = (i >> s->page_log2) - (first >> s->page_log2);
    return OF(row_of_page)((const unsigned char *)(uintptr_t)pages[k], s->page_log2,
                           i & ((1u << s->page_log2) - 1));
}

/* Rows of the build table's part for the chunk, n from `first` on, that are the caller's: those
 * from row i of the chunk on. */
typedef struct OF(rows_ahead) {
    OF(row) row[ROWS_AHEAD];
} OF(rows_ahead);

WH_FN OF(rows_ahead) OF(ask_for_rows)(const whi_parts *s, const OF(table) * t, uint32_t first,
                                      uint32_t n, uint32_t i) {
    OF(rows_ahead) r;
    memset(&r, 0, sizeof r);
    for (uint32_t k = 0; k < ROWS_AHEAD; k++) {
        const uint32_t at = i + k * wh_block_threads();
        if (at < n) {
            r.row[k] = OF(row_found)(s, t->build_pages, first, first + at);
        }
    }
    return r;
}

/* The build table's rows of a unit's chunk into chains. All threads, which have read the last one.
 * C1 */
WH_FN void OF(fill_table)(const whi_join *j, const OF(table) * t, const unit *u, uint32_t chunk) {
    const whi_parts *s = last_level(j, &j->side[0]);
    const uint32_t threads = wh_block_threads(), first = (u->chunk + chunk) * j->chunk;
    const uint32_t rows = s->rows[u->part] != 0 ? s->rows[u->part] - first : 0;
    const uint32_t n = rows < j->chunk ? rows : j->chunk;
    find_pages(s, u->part, WH_PLANT(probe_c3_chunk, first, 0u), first + n, t->build_pages); /* C3 */
    for (uint32_t h = wh_thread_in_block(); h < 1u << j->heads_log2; h += threads) {
        t->heads[h] = CHAIN_END;
    }
    WH_PLANT(probe_c1_cleared, wh_syncthreads(), (void)0);
    WH_NO_UNROLL
    for (uint32_t i = wh_thread_in_block(); i < n; i += ROWS_AHEAD * threads) {
        /* asked for before the first one is used */
        const OF(rows_ahead) r = OF(ask_for_rows)(s, t, first, n, i);
        for (uint32_t k = 0; k < ROWS_AHEAD; k++) {
            const uint32_t at = i + k * threads;
            if (at < n) {
                t->keys[at] = r.row[k].key;
                t->values[at] = r.row[k].value;
                t->next[at] =
                    (uint16_t)wh_shared_exchange_u32(&t->heads[OF(chain_of)(j, r.row[k].key)], at);
            }
        }
    }
    WH_PLANT(probe_c1_filled, wh_syncthreads(), (void)0);
}

WH_FN void OF(write_row)(const whi_join *j, void *const *column, uint64_t i, OF(row) probe,
                         uint32_t build) {
    ((KEY *)column[0])[i] = probe.key;
    if (column[1] != NULL) {
        write_value(&j->side[0], column[1], i, build);
    }
    if (column[2] != NULL) {
        write_value(&j->side[1], column[2], i, probe.value);
    }
}

WH_FN void OF(write_in_page)(const whi_join *j, const own_page *o, uint32_t i, OF(row) probe,
                             uint32_t build) {
    void *column[3];
    for (uint32_t c = 0; c < 3; c++) {
        column[c] = j->shape.column_bytes[c] != 0 ? o->page + j->shape.column_at[c] : NULL;
    }
    OF(write_row)(j, column, i, probe, build);
}

/* What a lane has to put out. */
typedef struct OF(pair) {
    int is;
    uint32_t build; /* what goes with the build table's row */
    OF(row) probe;
} OF(pair);

/* Puts a row out for each lane of a warp that has one. Whether the caller's is out, or it has none;
 * else the page is full. All lanes. */
WH_FN int OF(put)(const whi_join *j, own_page *o, OF(pair) row) {
    const int has = row.is;
    const wh_mask mask = wh_ballot(WH_FULL_WARP, has);
    const uint32_t here = j->shape.room - o->fill;
    const uint32_t rank = j->by_thread ? 0 : wh_mask_rank(mask);
    const uint32_t n = j->by_thread ? (uint32_t)has : wh_popc32(mask);
    const int is_out = rank < here;
    if (has && is_out) {
        OF(write_in_page)(j, o, o->fill + rank, row.probe, row.build);
    }
    o->fill += n < here ? n : here;
    return !has || WH_PLANT(probe_put_some, is_out, 1);
}

/* The same, two-pass: where there is room for all. */
WH_FN void OF(put_counted)(const whi_join *j, uint32_t *words, uint64_t base, OF(pair) row) {
    const wh_mask mask = wh_ballot(WH_FULL_WARP, row.is);
    uint32_t at = 0;
    if (mask != 0 && wh_lane_id() == wh_mask_leader(mask)) {
        at = wh_shared_fetch_add_u32(&words[TABLE_ROWS], wh_popc32(mask));
    }
    at = mask != 0 ? wh_shfl_u32(WH_FULL_WARP, at, wh_mask_leader(mask)) : 0;
    if (row.is) {
        OF(write_row)(j, j->out, base + at + wh_mask_rank(mask), row.probe, row.build);
    }
}

/* What a lane does in a unit. */
typedef struct OF(worker) {
    own_page out, other; /* of the list that rows go to now, and of the other one */
    uint32_t list;
    uint32_t step;  /* of its warp: the first row of 32 */
    uint32_t at;    /* in the chain of its row; CHAIN_START, CHAIN_END */
    int is_out;     /* the row that it has put out last has found room */
    uint32_t pairs; /* counted */
    uint64_t base;
} OF(worker);

/* The next entry of the row's chain that has its key, from `at` on. */
WH_FN uint32_t OF(match)(const OF(table) * t, KEY key, uint32_t at) {
    WH_NO_UNROLL
    while (at != CHAIN_END && t->keys[at] != key) {
        at = t->next[at];
    }
    return at;
}

/* The caller's row of the step that begins with row `step`. */
WH_FN OF(row)
    OF(row_of_step)(const whi_join *j, const OF(table) * t, const unit *u, uint32_t step) {
    const uint32_t i = step + wh_lane_id();
    OF(row) r;
    memset(&r, 0, sizeof r);
    return i < u->end ? OF(row_found)(last_level(j, &j->side[1]), t->probe_pages, u->first, i) : r;
}

/* The rows of a step against the chunk, r the caller's; 0: a page is full. All lanes of a warp. */
WH_FN int OF(probe_step)(const whi_join *j, probe_mode mode, const OF(table) * t, const unit *u,
                         OF(worker) * w, OF(row) r) {
    const uint32_t i = w->step + wh_lane_id(), word = (w->step - u->first) / 32;
    const int needs = mode == PROBE_SEEN;
    const int is_once = needs && (j->kind == WH_JOIN_SEMI || j->kind == WH_JOIN_ANTI);
    const uint32_t seen = needs ? t->seen[word] : 0; /* C2 */
    const int was_seen = WH_PLANT(probe_once, (seen >> wh_lane_id() & 1) != 0, 0);
    if (i >= u->end || (is_once && was_seen)) {
        w->at = CHAIN_END;
    } else if (WH_PLANT(probe_start, w->at == CHAIN_START, 1)) {
        w->at = t->heads[OF(chain_of)(j, r.key)];
    }
    uint32_t found = WH_PLANT(probe_c2_seen, seen, 0u);
    int is_out = 1;
    w->at = OF(match)(t, r.key, w->at);
    WH_NO_UNROLL
    while (wh_any(WH_FULL_WARP, w->at != CHAIN_END)) {
        const int has = w->at != CHAIN_END;
        OF(pair) row;
        row.is = has;
        row.build = has ? t->values[w->at] : 0;
        row.probe = r;
        if (mode == PROBE_COUNTED && j->is_counting) {
            w->pairs += has ? 1 : 0;
        } else if (mode == PROBE_COUNTED) {
            OF(put_counted)(j, t->words, w->base, row);
        } else if (needs && j->kind == WH_JOIN_ANTI) {
            is_out = 1;
        } else {
            is_out = OF(put)(j, &w->out, row);
        }
        found |= wh_ballot(WH_FULL_WARP, has && WH_PLANT(probe_c2_out, is_out, 1));
        if (!wh_all(WH_FULL_WARP, is_out)) {
            break;
        }
        if (has) {
            w->at = is_once ? CHAIN_END : OF(match)(t, r.key, t->next[w->at]);
        }
    }
    WH_PLANT(probe_c2_read, wh_syncwarp(WH_FULL_WARP), (void)0); /* all have read it */
    if (needs && wh_lane_id() == 0) {
        t->seen[word] = found; /* C2 */
    }
    wh_syncwarp(WH_FULL_WARP);
    w->is_out = is_out;
    if (wh_all(WH_FULL_WARP, is_out)) {
        return 1;
    }
    if (WH_PLANT(probe_again, is_out, 0) && w->at != CHAIN_END) { /* its row is out: not again */
        w->at = is_once ? CHAIN_END : OF(match)(t, r.key, t->next[w->at]);
    }
    return 0;
}

/* Rows of a step that have found no partner; 0: a page is full. */
WH_FN int OF(unmatched_step)(const whi_join *j, const OF(table) * t, const unit *u, OF(worker) * w,
                             OF(row) r) {
    const uint32_t i = w->step + wh_lane_id(), word = (w->step - u->first) / 32;
    const int is_row = WH_PLANT(probe_alone_end, i < u->end, 1);
    const int has = is_row && (t->seen[word] >> wh_lane_id() & 1) == 0;
    OF(pair) row;
    row.is = has;
    row.build = 0;
    row.probe = r;
    const int is_out = OF(put)(j, &w->out, row);
    const wh_mask out = wh_ballot(WH_FULL_WARP, has && WH_PLANT(probe_alone_out, is_out, 1));
    WH_PLANT(probe_c2_alone, wh_syncwarp(WH_FULL_WARP), (void)0);
    if (wh_lane_id() == 0) {
        t->seen[word] |= WH_PLANT(probe_alone_again, out, 0u); /* C2: not again */
    }
    wh_syncwarp(WH_FULL_WARP);
    w->is_out = is_out;
    return wh_all(WH_FULL_WARP, is_out);
}

/* Steps of a warp in a chunk, or a phase, until a page is full; 0: one is. Nothing in it is called:
 * what it works with is to stay in registers. */
WH_FN int OF(run_steps)(const whi_join *j, probe_mode mode, const OF(table) * t, const unit *u,
                        OF(worker) * w) {
    const uint32_t threads = wh_block_threads();
    OF(row) next[STEPS_AHEAD]; /* asked for before this step's are looked up */
    for (uint32_t k = 0; k < STEPS_AHEAD; k++) {
        next[k] = OF(row_of_step)(j, t, u, w->step + k * threads);
    }
    WH_NO_UNROLL
    while (w->step < u->end) {
        const OF(row) r = next[0];
        for (uint32_t k = 1; k < STEPS_AHEAD; k++) {
            next[k - 1] = next[k];
        }
        next[STEPS_AHEAD - 1] = OF(row_of_step)(j, t, u, w->step + STEPS_AHEAD * threads);
        const int is_done = mode != PROBE_SEEN || u->phase == 0
                                ? OF(probe_step)(j, mode, t, u, w, r)
                                : OF(unmatched_step)(j, t, u, w, r);
        if (!is_done) {
            return 0;
        }
        w->step += threads;
        w->at = CHAIN_START;
    }
    return 1;
}

/* A new page for the warp, or for some of its lanes that need one; 0: the heap is full. All lanes.
 */
WH_FN int OF(turn_page)(const wh_heap_ref *heap, const whi_join *j, OF(worker) * w) {
    const whi_page_list *l = &j->list[w->list];
    if (j->by_thread) {
        return wh_any(WH_FULL_WARP, !w->is_out && turn_page_lane(heap, l, &w->out));
    }
    return turn_page_warp(heap, l, &w->out);
}

/* All steps of a warp in a chunk, or a phase; 0: the heap is full. */
WH_FN int OF(run_warp)(const wh_heap_ref *heap, const whi_join *j, probe_mode mode,
                       const OF(table) * t, const unit *u, OF(worker) * w) {
    WH_NO_UNROLL
    while (!OF(run_steps)(j, mode, t, u, w)) {
        if (mode == PROBE_COUNTED || !OF(turn_page)(heap, j, w)) {
            return 0;
        }
    }
    return 1;
}

/* Rows go to that list from now on. */
WH_FN void OF(turn_to_list)(OF(worker) * w, uint32_t list) {
    if (w->list != list) {
        const own_page o = w->out;
        w->out = w->other;
        w->other = o;
        w->list = list;
    }
}

WH_FN void OF(first_step)(const unit *u, OF(worker) * w) {
    w->step = u->first + wh_thread_in_block() / WH_WARP_SIZE * WH_WARP_SIZE;
    w->at = CHAIN_START;
}

/* All chunks of a unit from u on; 0: the heap is full. All threads. */
WH_FN int OF(run_unit)(const wh_heap_ref *heap, const whi_join *j, probe_mode mode,
                       const OF(table) * t, unit *u, OF(worker) * w) {
    for (;;) {
        const int is_done = OF(run_warp)(heap, j, mode, t, u, w);
        if (!is_done && wh_lane_id() == 0) {
            (void)wh_shared_exchange_u32(&t->words[TABLE_STOPPED], 1);
        }
        WH_PLANT(probe_b1_stopped, wh_syncthreads(), (void)0);
        const uint32_t is_stopped = t->words[TABLE_STOPPED];
        WH_PLANT(probe_b1_known, wh_syncthreads(), (void)0);
        if (is_stopped) {
            return 0;
        }
        if (mode != PROBE_SEEN) {
            return 1;
        }
        if (u->phase == 0 && u->done + WH_PLANT(probe_chunks, 1u, 2u) < u->chunks) {
            u->done++;
            OF(fill_table)(j, t, u, u->done);
        } else if (u->phase == 0 && (j->kind == WH_JOIN_LEFT || j->kind == WH_JOIN_ANTI)) {
            u->phase = 1;
            OF(turn_to_list)(w, list_of(j, 1));
        } else {
            return 1;
        }
        OF(first_step)(u, w);
    }
}

/* The block begins a unit of work. */
WH_FN void OF(begin_unit)(const whi_join *j, probe_mode mode, const OF(table) * t, const unit *u,
                          OF(worker) * w) {
    const uint32_t me = wh_thread_in_block();
    for (uint32_t k = me; mode == PROBE_SEEN && k < j->range / 32; k += wh_block_threads()) {
        t->seen[k] = WH_PLANT(probe_c2_begin, 0, t->seen[k]);
    }
    if (me == 0) {
        t->words[TABLE_ROWS] = WH_PLANT(probe_rows, 0, t->words[TABLE_ROWS]);
    }
    find_pages(last_level(j, &j->side[1]), u->part, u->first,
               WH_PLANT(probe_c3_unit, u->end, u->first), t->probe_pages); /* C3 */
    OF(fill_table)(j, t, u, 0);
    OF(first_step)(u, w);
    if (mode == PROBE_SEEN) {
        OF(turn_to_list)(w, list_of(j, 0));
    } else if (mode == PROBE_COUNTED && j->is_writing) {
        const uint64_t n = me == 0 ? j->unit_rows[u->number] : 0;
        const uint64_t base = me == 0 ? wh_fetch_add_u64_relaxed(&j->state->written, n) : 0;
        w->base = wh_block_broadcast_u64(base, 0);
    }
}

/* What a block has counted of a unit. */
WH_FN void OF(end_count)(const whi_join *j, const unit *u, OF(worker) * w) {
    const uint64_t up_to = wh_scan_add_warp_u64(w->pairs);
    const uint64_t pairs = wh_shfl_u64(WH_FULL_WARP, up_to, WH_WARP_SIZE - 1);
    w->pairs = WH_PLANT(probe_pairs, 0, w->pairs);
    if (wh_lane_id() == 0 && pairs != 0) {
        wh_add_u64_relaxed(&j->state->pairs, pairs);
        if (j->unit_rows != NULL) {
            wh_add_u64_relaxed(&j->unit_rows[u->number], pairs);
        }
    }
}

/* Goes on where the block has stopped. */
WH_FN void OF(go_on)(const whi_join *j, const OF(table) * t, unit *u, OF(worker) * w) {
    restore(j, u, &w->step, &w->at);
    find_pages(last_level(j, &j->side[1]), u->part, u->first,
               WH_PLANT(probe_c3_again, u->end, u->first), t->probe_pages); /* C3 */
    OF(turn_to_list)(w, list_of(j, u->phase));
    wh_syncthreads();
    if (wh_thread_in_block() == 0) {
        t->words[TABLE_STOPPED] = WH_PLANT(probe_stopped, 0, 1);
    }
    wh_syncthreads();
}

/* A block that stays, and does unit after unit. mode: a constant. */
WH_FN void OF(do_units)(const wh_heap_ref *heap, const whi_join *j, probe_mode mode) {
    const OF(table) t = OF(table_here)(j);
    OF(worker) w;
    unit u;
    memset(&w, 0, sizeof w);
    memset(&u, 0, sizeof u);
    w.out = w.other = no_page(&j->list[0]);
    const int may = wh_block_broadcast_u64(wh_load_u32_relaxed(&j->state->is_full), 0) == 0;
    int is_again = may && j->stops[wh_block_id()].is_stopped != 0, is_full = 0;
    if (wh_thread_in_block() == 0) {
        t.words[TABLE_STOPPED] = 0;
    }
    while (may && !is_full) {
        if (mode != PROBE_COUNTED && is_again) {
            OF(go_on)(j, &t, &u, &w);
            is_again = 0;
        } else if (take_unit(j, &u)) {
            OF(begin_unit)(j, mode, &t, &u, &w);
        } else {
            break;
        }
        is_full = !OF(run_unit)(heap, j, mode, &t, &u, &w);
        if (mode == PROBE_COUNTED) {
            OF(end_count)(j, &u, &w);
        }
        if (is_full) {
            save(j, &u, w.step, w.at);
        } else {
            end_unit(heap, j, &u);
        }
    }
    if (mode != PROBE_COUNTED) {
        close_all(&j->list[w.list], &w.out);
    }
    if (mode == PROBE_SEEN) {
        WH_PLANT(probe_close, close_all(&j->list[1 - w.list], &w.other), (void)0);
    }
}

OPS_KERNEL(probe_inner, join_args, a) {
    OF(do_units)(&a.heap, &a.j, PROBE_INNER);
}

OPS_KERNEL(probe_seen, join_args, a) {
    OF(do_units)(&a.heap, &a.j, PROBE_SEEN);
}

OPS_KERNEL(probe_counted, join_args, a) {
    OF(do_units)(&a.heap, &a.j, PROBE_COUNTED);
}
