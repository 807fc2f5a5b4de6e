/* group_table.h: a block's table of groups, and rows that find no place in it, for one width of
 * keys and one of values, as group_rows.h.
 *
 * S1      keys[k]: key of slot k; 0: it is empty. By cas from 0, and 0 again when what it has is in
 *         a page. So no bits are kept from being a key: key 0 has slot `slots` for itself, and
 *         GROUP_ZERO says whether it is taken
 * S2      what else a slot has changes by atomics alone while rows come in; an empty slot has what
 *         adds nothing: 0, and for least all ones. All orders relaxed: between rows that come in
 *         and what reads the slots there is a barrier
 * S3      while rows come in no slot becomes empty. A row takes the first slot of a few, which its
 *         key's hash says, that has its key or is empty; there is none only if others have all of
 *         these, and that stays so. Hence of a node, which one block reads with one table, all rows
 * of a key are in the table or none is Progress the first row of a node finds its slot empty: each
 * node makes an end of one key at least
 */

/* The slot of a key; SLOT_NONE: it finds none in so many places. S1, S3 */
WH_FN uint32_t OF(find)(const whi_group_shape *s, KEY key, uint32_t hash, uint32_t probes,
                        uint32_t mask) {
    KEY *keys = SHARED(KEY, keys);
    if (WH_PLANT(table_s1_zero, key == 0, 0)) {
        if (wh_shared_load_u32(&WORDS[GROUP_ZERO]) == 0) {
            (void)wh_shared_exchange_u32(&WORDS[GROUP_ZERO], 1);
        }
        return s->slots;
    }
    const uint32_t apart = hash >> 16 | 1; /* odd: all places are others */
    uint32_t at = hash & mask;
    WH_NO_UNROLL
    for (uint32_t k = 0; k < WH_PLANT(table_s3, probes, probes - wh_lane_id() % 2); k++) {
        KEY seen = KEY_OP(load)(&keys[at]);
        if (seen == key) {
            return at;
        }
        if (seen == 0) {
            seen = WH_PLANT(table_s1_cas, KEY_OP(cas)(&keys[at], 0, key),
                            KEY_OP(exchange)(&keys[at], key) & 0);
            if (seen == 0 || seen == key) {
                return at;
            }
        }
        at = (at + apart) & mask;
    }
    return SLOT_NONE;
}

/* A row into its slot. S2 */
WH_FN void OF(absorb)(const whi_group_needs *w, const whi_group_shape *s, uint32_t slot,
                      OF(item) m) {
    if (w->count) {
        (void)wh_shared_fetch_add_u32(&SHARED(uint32_t, counts)[slot], m.count);
    }
    if (w->sum && w->is_float) {
        add_double(&SHARED(uint64_t, sums)[slot], m.sum);
    } else if (w->sum) {
        uint32_t *low = SHARED(uint32_t, sums) + slot;
        add_u64(low, low + s->slots + 2, WH_PLANT(table_sum, m.sum, (uint32_t)m.sum));
    }
    if (WH_PLANT(table_least, w->least, 0) &&
        m.least < VALUE_OP(load)(&SHARED(VALUE, least)[slot])) {
        (void)VALUE_OP(fetch_min)(&SHARED(VALUE, least)[slot], m.least);
    }
    if (w->most && m.most > VALUE_OP(load)(&SHARED(VALUE, most)[slot])) {
        (void)WH_PLANT(table_s2_most, VALUE_OP(fetch_max)(&SHARED(VALUE, most)[slot], m.most),
                       VALUE_OP(exchange)(&SHARED(VALUE, most)[slot], m.most));
    }
}

/* What a slot has; between barriers. */
WH_FN OF(item) OF(item_of_slot)(const whi_group *g, const whi_group_shape *s, uint32_t slot) {
    OF(item) m;
    memset(&m, 0, sizeof m);
    m.key = SHARED(KEY, keys)[slot];
    if (g->needs.count) {
        m.count = SHARED(uint32_t, counts)[slot];
    }
    if (g->needs.sum && g->needs.is_float) {
        m.sum = SHARED(uint64_t, sums)[slot];
    } else if (g->needs.sum) {
        const uint32_t *low = SHARED(uint32_t, sums) + slot;
        m.sum = (uint64_t)low[s->slots + 2] << 32 | low[0];
    }
    if (g->needs.least) {
        m.least = SHARED(VALUE, least)[slot];
    }
    if (g->needs.most) {
        m.most = SHARED(VALUE, most)[slot];
    }
    return m;
}

/* The slot is empty again; by one lane, between barriers. S1, S2 */
WH_FN void OF(empty_slot)(const whi_group *g, const whi_group_shape *s, uint32_t slot) {
    SHARED(KEY, keys)[slot] = 0;
    if (slot == s->slots) {
        WORDS[GROUP_ZERO] = WH_PLANT(table_s1_zero_out, 0, WORDS[GROUP_ZERO]);
    }
    if (g->needs.count) {
        SHARED(uint32_t, counts)[slot] = 0;
    }
    if (g->needs.sum && g->needs.is_float) {
        SHARED(uint64_t, sums)[slot] = 0;
    } else if (g->needs.sum) {
        uint32_t *low = SHARED(uint32_t, sums) + slot;
        low[0] = 0;
        low[s->slots + 2] = WH_PLANT(table_s2_sum, 0, low[s->slots + 2]);
    }
    if (g->needs.least) {
        VALUE *least = &SHARED(VALUE, least)[slot];
        *least = WH_PLANT(table_s2_least, (VALUE) ~(VALUE)0, *least);
    }
    if (g->needs.most) {
        SHARED(VALUE, most)[slot] = 0;
    }
}

/* All slots are empty. All threads. */
WH_FN void OF(clear_table)(const whi_group *g, const whi_group_shape *s) {
    for (uint32_t k = wh_thread_in_block(); k <= s->slots; k += wh_block_threads()) {
        OF(empty_slot)(g, s, k);
    }
}

WH_FN int OF(is_taken)(const whi_group_shape *s, uint32_t slot) {
    return slot == s->slots ? WORDS[GROUP_ZERO] != 0 : SHARED(KEY, keys)[slot] != 0;
}

/* Adds what another lane's row says to the caller's. */
WH_FN void OF(add_item)(const whi_group_needs *w, OF(item) * m, const OF(item) * other) {
    m->count += other->count;
    m->sum = w->is_float ? add_bits(m->sum, other->sum) : m->sum + other->sum;
    m->least = other->least < m->least ? other->least : m->least;
    m->most = WH_PLANT(table_add_most, other->most > m->most, 0) ? other->most : m->most;
}

/* Rows of a warp into their slots, those that are in one slot first together; whether these were
 * many. If they are not, this costs more than it saves. All lanes. S2 */
WH_FN int OF(absorb_together)(const whi_group_needs *w, const whi_group_shape *s, uint32_t slot,
                              OF(item) m) {
    const wh_mask has = wh_ballot(WH_FULL_WARP, slot != SLOT_NONE);
    const uint32_t leader = has != 0 ? wh_mask_leader(has) : 0;
    const uint32_t theirs = wh_shfl_u32(WH_FULL_WARP, slot, leader);
    const wh_mask same = wh_ballot(WH_FULL_WARP, slot != SLOT_NONE && slot == theirs);
    if (wh_popc32(same) < MANY_LANES) {
        if (slot != SLOT_NONE) {
            OF(absorb)(w, s, slot, m);
        }
        return 0;
    }
    if (WH_PLANT(table_others, slot != SLOT_NONE, 0) && slot != theirs) {
        OF(absorb)(w, s, slot, m);
    }
    if (slot != theirs) {
        memset(&m, 0, sizeof m);
        m.least = WH_PLANT(table_add_least, (VALUE) ~(VALUE)0, 0);
    }
    WH_NO_UNROLL
    for (uint32_t apart = WH_WARP_SIZE / 2; apart != 0; apart /= 2) {
        const uint32_t from = wh_lane_id() ^ apart;
        OF(item) other;
        other.key = m.key;
        other.count = wh_shfl_u32(WH_FULL_WARP, m.count, from);
        other.sum = WH_PLANT(table_add_sum, w->sum, 0) ? wh_shfl_u64(WH_FULL_WARP, m.sum, from) : 0;
        other.least = w->least ? VALUE_SHUFFLE(WH_FULL_WARP, m.least, from) : m.least;
        other.most = w->most ? VALUE_SHUFFLE(WH_FULL_WARP, m.most, from) : m.most;
        OF(add_item)(w, &m, &other);
    }
    if (wh_lane_id() == leader) {
        OF(absorb)(w, s, theirs, m);
    }
    return 1;
}

/* The same; *meets: whether those of the step before were many, which is looked at until they are
 * not. */
WH_FN void OF(absorb_warp)(const whi_group_needs *w, const whi_group_shape *s, uint32_t slot,
                           OF(item) m, int *meets) {
    if (*meets) {
        *meets = OF(absorb_together)(w, s, slot, m);
    } else if (slot != SLOT_NONE) {
        OF(absorb)(w, s, slot, m);
    }
}

/* The rows of a tile into the table; bits says which have found no slot, and GROUP_LEFT how many.
 * w: g's needs, or the same as constants. All threads. */
WH_FN void OF(absorb_rows)(const whi_group *g, const whi_group_shape *s, const group_tile *t,
                           uint32_t probes, const whi_group_needs *w) {
    const uint32_t threads = wh_block_threads();
    OF(row) next = OF(row_at)(s, t, first_step() + wh_lane_id(), w);
    OF(row) after = OF(row_at)(s, t, first_step() + wh_lane_id() + threads, w);
    uint32_t n_left = 0;
    int meets = 1;
    WH_NO_UNROLL
    for (uint32_t step = first_step(); step < t->n; step += threads) {
        const uint32_t i = step + wh_lane_id();
        const OF(row) now = next; /* two more are on their way meanwhile */
        next = after;
        after = OF(row_at)(s, t, i + 2 * threads, w);
        uint32_t slot = SLOT_NONE;
        OF(item) m;
        memset(&m, 0, sizeof m);
        if (now.is_there) {
            m = OF(item_at)(g, s, t, i, now, w);
            slot = OF(find)(s, m.key, OF(hash)(m.key, t->level), probes, t->mask);
        }
        const wh_mask left = wh_ballot(WH_FULL_WARP, now.is_there && slot == SLOT_NONE);
        OF(absorb_warp)(w, s, slot, m, &meets);
        n_left += wh_popc32(left);
        if (wh_lane_id() == 0) {
            SHARED(uint32_t, bits)[step / 32] = left;
        }
    }
    if (wh_lane_id() == 0 && n_left != 0) {
        (void)wh_shared_fetch_add_u32(&WORDS[GROUP_LEFT], n_left);
    }
    wh_syncthreads();
}

/* The same for counts and sums of integers, which are asked for most, of rows as the table has
 * them: what is needed of s and t stays in registers. */
WH_FN void OF(absorb_plain)(const whi_group *g, const whi_group_shape *s, const group_tile *t,
                            uint32_t probes, uint32_t source) {
    const whi_group_shape shape = *s;
    const whi_group_layout layout = *t->layout;
    group_tile tile = *t;
    whi_group_needs plain;
    memset(&plain, 0, sizeof plain);
    plain.count = plain.sum = 1;
    tile.source = source;
    tile.kind = GROUP_RAW;
    tile.layout = &layout;
    OF(absorb_rows)(g, &shape, &tile, probes, &plain);
}

WH_FN_SLOW void OF(absorb_table)(const whi_group *g, const whi_group_shape *s,
                                 const group_tile *t) {
    OF(absorb_plain)(g, s, t, g->probes[0], FROM_TABLE);
}

WH_FN_SLOW void OF(absorb_pages)(const whi_group *g, const whi_group_shape *s,
                                 const group_tile *t) {
    OF(absorb_plain)(g, s, t, g->probes[1], FROM_PAGES);
}

/* Bits for all slots that are taken, as of a tile's rows. All threads. */
WH_FN void OF(mark_slots)(const whi_group_shape *s, const group_tile *t) {
    for (uint32_t step = first_step(); step < t->n; step += wh_block_threads()) {
        const uint32_t i = step + wh_lane_id();
        const wh_mask taken = wh_ballot(WH_FULL_WARP, i < t->n && OF(is_taken)(s, i));
        if (wh_lane_id() == 0) {
            SHARED(uint32_t, bits)[step / 32] = taken;
        }
    }
    wh_syncthreads();
}

/* Row i of a tile, which stands for many, to a page of its chain. */
WH_FN void OF(copy_partial)(const whi_group *g, const whi_group_shape *s, const group_tile *t,
                            uint32_t i, unsigned char *page, uint32_t at) {
    if (t->source == FROM_SLOTS) {
        OF(item_to_page)(g, page, at, OF(item_of_slot)(g, s, i));
        WH_PLANT(table_r1_slot, OF(empty_slot)(g, s, i), (void)0);
    } else {
        const whi_group_layout *l = &g->layout[GROUP_PARTIAL];
        OF(item_to_page)
        (g, page, at, OF(item_in_page)(g, page_of_row(s, l, i), in_page(l, i), &g->needs));
    }
}

/* The caller's rows of EACH steps that have a bit; rank: 0 of these, UINT32_MAX of others. */
WH_FN void OF(take_rows)(const whi_group_shape *s, const group_tile *t, uint32_t step,
                         int has_value, OF(row) * r, uint32_t *rank) {
    const uint32_t *bits = SHARED(const uint32_t, bits);
    for (uint32_t k = 0; k < EACH; k++) {
        const uint32_t now = step + k * wh_block_threads(), i = now + wh_lane_id();
        const int has = now < t->n && (bits[now / 32] >> wh_lane_id() & 1) != 0;
        r[k].key = has ? OF(key_of)(s, t, i) : 0;
        r[k].value = has && t->kind == GROUP_RAW && has_value ? OF(value_of)(s, t, i) : 0;
        rank[k] = has ? 0 : UINT32_MAX;
    }
}

/* The values of rows that are staged; their keys are before them. */
WH_FN VALUE *OF(staged_values)(const whi_group_shape *s) {
    return (VALUE *)(void *)(SHARED(KEY, stage) + s->staged);
}

/* Of EACH rows a thread of a tile, from `first` on, those that have a bit, in order of their parts:
 * as the table has them, or their numbers. How many. All threads. It is by itself, so that its rows
 * stay in registers until all have come. */
WH_FN_SLOW uint32_t OF(stage_rows)(const whi_group *g, const whi_group_shape *shape,
                                   const group_tile *tile, uint32_t first) {
    const whi_group_shape copy = *shape, *s = &copy;
    const whi_group_layout layout = *tile->layout;
    const tile_places places = places_of(s);
    const uint32_t threads = wh_block_threads(), step = first + first_step();
    const int has_value = g->value_bytes != 0;
    group_tile t = *tile;
    OF(row) r[EACH];
    uint32_t rank[EACH]; /* in its part */
    t.layout = &layout;
    if (t.source == FROM_TABLE) {
        group_tile table = t;
        table.source = FROM_TABLE;
        table.kind = GROUP_RAW;
        OF(take_rows)(s, &table, step, has_value, r, rank);
    } else {
        OF(take_rows)(s, &t, step, has_value, r, rank);
    }
    for (uint32_t k = 0; k < EACH; k++) {
        if (rank[k] == 0) {
            const uint32_t p = OF(part_of)(r[k].key, t.level, t.parts_log2);
            rank[k] = wh_shared_fetch_add_u32(&places.counts[p], 1);
        }
    }
    WH_PLANT(table_b1_counted, wh_syncthreads(), (void)0);
    const uint32_t n = start_parts(places.sums, places.counts, places.start, 1u << t.parts_log2);
    for (uint32_t k = 0; k < EACH; k++) {
        const uint32_t p = OF(part_of)(r[k].key, t.level, t.parts_log2);
        if (rank[k] != UINT32_MAX) {
            const uint32_t at = places.start[p] + rank[k];
            SHARED(KEY, stage)
            [at] = t.kind == GROUP_RAW ? r[k].key : (KEY)(step + k * threads + wh_lane_id());
            if (t.kind == GROUP_RAW && has_value) {
                OF(staged_values)(s)[at] = r[k].value;
            }
        }
    }
    return n; /* place_tile's barrier is before they are read */
}

/* Staged rows to their places: lanes that follow each other write places that do. All threads. */
WH_FN_SLOW void OF(write_staged)(const whi_group *g, const whi_group_shape *shape,
                                 const group_tile *tile, uint32_t n) {
    const whi_group_shape copy = *shape, *s = &copy;
    const whi_group_layout raw = g->layout[GROUP_RAW];
    const tile_places places = places_of(s);
    const uint32_t threads = wh_block_threads();
    const uint32_t level = tile->level, log2 = tile->parts_log2, has_value = g->value_bytes != 0;
    for (uint32_t i = wh_thread_in_block(); i < n; i += WRITES_AHEAD * threads) {
        OF(row) r[WRITES_AHEAD]; /* all are looked for before the first one is written */
        unsigned char *page[WRITES_AHEAD];
        uint32_t at[WRITES_AHEAD];
        for (uint32_t k = 0; k < WRITES_AHEAD; k++) {
            const uint32_t now = i + k * threads, j = now < n ? now : n - 1;
            r[k].key = SHARED(KEY, stage)[j];
            r[k].value = has_value ? OF(staged_values)(s)[j] : 0;
            const uint32_t p = OF(part_of)(r[k].key, level, log2);
            const int has = now < n && places.first[p] != TILE_NOWHERE;
            at[k] = 0;
            page[k] =
                has ? page_of_place(&places, raw.page_log2, p, j - places.start[p], &at[k]) : NULL;
        }
        for (uint32_t k = 0; k < WRITES_AHEAD; k++) {
            if (page[k] != NULL) {
                PAGE_COLUMN(KEY, page[k], raw.key)[at[k]] = r[k].key;
            }
            if (page[k] != NULL && has_value) {
                PAGE_COLUMN(VALUE, page[k], raw.value)[at[k]] = r[k].value;
            }
        }
    }
}

/* The same of rows that stand for many, whose numbers are staged. */
WH_FN void OF(copy_staged)(const whi_group *g, const whi_group_shape *s, const group_tile *t,
                           uint32_t n) {
    const tile_places places = places_of(s);
    WH_NO_UNROLL
    for (uint32_t j = wh_thread_in_block(); j < n; j += wh_block_threads()) {
        const uint32_t i = (uint32_t)SHARED(KEY, stage)[j];
        const uint32_t p = OF(part_of)(OF(key_of)(s, t, i), t->level, t->parts_log2);
        if (places.first[p] != TILE_NOWHERE) {
            uint32_t at;
            unsigned char *page =
                page_of_place(&places, t->layout->page_log2, p, j - places.start[p], &at);
            OF(copy_partial)(g, s, t, i, page, at);
        }
    }
    WH_PLANT(table_b1_copied, wh_syncthreads(), (void)0); /* before pages go back */
}

/* Bits of those rows from `first` on that have got no place. All threads. */
WH_FN void OF(keep_bits)(const whi_group_shape *s, const group_tile *t, uint32_t first,
                         int is_failed) {
    const tile_places places = places_of(s);
    uint32_t *bits = SHARED(uint32_t, bits);
    WH_NO_UNROLL
    for (uint32_t k = 0; k < EACH; k++) {
        const uint32_t now = first + first_step() + k * wh_block_threads();
        wh_mask left = 0;
        if (is_failed && now < t->n) {
            const int has = (bits[now / 32] >> wh_lane_id() & 1) != 0;
            const KEY key = has ? OF(key_of)(s, t, now + wh_lane_id()) : 0;
            const uint32_t p = OF(part_of)(key, t->level, t->parts_log2);
            left = wh_ballot(WH_FULL_WARP, has && places.first[p] == TILE_NOWHERE);
            WH_PLANT(table_bits_read, wh_syncwarp(WH_FULL_WARP), (void)0); /* all have read them */
        }
        if (wh_lane_id() == 0 && now < t->n) {
            bits[now / 32] = WH_PLANT(table_r1_bits, left, bits[now / 32]);
        }
    }
    wh_syncthreads();
}

/* Of EACH rows a thread of a tile, from `first` on, those that have a bit, to the chains of their
 * parts; bits that are left: there was no memory. 0 then. All threads. */
WH_FN int OF(spill_some)(const wh_heap_ref *heap, const whi_group *g, const whi_group_shape *s,
                         const group_tile *t, const whi_chains *c, uint32_t first) {
    const tile_places places = places_of(s);
    begin_places(&places, 1u << t->parts_log2);
    const uint32_t n = OF(stage_rows)(g, s, t, first);
    place_tile(heap, c, &places, 1u << t->parts_log2);
    const int is_failed = places.words[TILE_FAILED] != 0;
    OF(keep_bits)(s, t, first, is_failed); /* reads keys of slots, which are gone then */
    if (t->kind == GROUP_RAW) {
        OF(write_staged)(g, s, t, n);
    } else {
        OF(copy_staged)(g, s, t, n);
    }
    return !is_failed;
}

/* Those of a tile's rows that have a bit, to the chains of their parts; 0: there was no memory for
 * all, and those that are left have their bit. All threads. */
WH_FN int OF(spill_tile)(const wh_heap_ref *heap, const whi_group *g, const whi_group_shape *s,
                         const group_tile *t, const whi_chains *c) {
    int is_done = 1;
    WH_NO_UNROLL
    for (uint32_t first = 0; is_done && first < t->n; first += EACH * wh_block_threads()) {
        is_done = OF(spill_some)(heap, g, s, t, c, first);
    }
    return is_done;
}
