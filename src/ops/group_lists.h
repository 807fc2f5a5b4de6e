/* group_lists.h: the paper's form of a group-by, for one width of keys: a list of pages for each
 * group. Included by group_kernels.c: KEY as in group_rows.h.
 *
 * Runs: the table's rows go to lists by 8 bits of their key; then each list's rows to lists of its
 * own by the next 8 bits, and its pages back; a list whose rows agree in all bits is a group. The
 * bits are those of the key times an odd number, from the highest on: one to one, and keys that are
 * near each other come into different lists. A thread appends one row at a time, by chains.h's P1.
 * One block splits a list, since 256 headers for each list at once would not fit a device: the
 * block has 256 headers, and the stack of group_blocks.h.
 *
 * Source: Pham et al., section 6.2 and appendix C. Ours: the odd number; a block a list.
 */

/* Digit `run` of a key, from the highest on. */
WH_FN uint32_t OF(digit_of)(KEY key, uint32_t run) {
    const uint32_t bits = 8 * (uint32_t)sizeof(KEY) - 8 * (run + 1);
    return sizeof(KEY) == 4 ? wh_spread32((uint32_t)key) >> bits & 255
                            : (uint32_t)(wh_spread64(key) >> bits) & 255;
}

/* Row i of a tile, whose key is known, to a place. */
WH_FN void OF(move_row)(const whi_group *g, const whi_group_shape *s, const group_tile *t,
                        uint32_t i, unsigned char *page, uint32_t at) {
    const whi_group_layout *l = &g->layout[GROUP_RAW];
    const unsigned char *values = (const unsigned char *)t->value;
    uint32_t from = i;
    if (t->source == FROM_PAGES) {
        values = page_of_row(s, l, i) + l->value;
        from = in_page(l, i);
    }
    if (g->value_bytes == 4) {
        PAGE_COLUMN(uint32_t, page, l->value)[at] = ((const uint32_t *)(const void *)values)[from];
    } else if (g->value_bytes == 8) {
        PAGE_COLUMN(uint64_t, page, l->value)[at] = ((const uint64_t *)(const void *)values)[from];
    }
}

WH_FN KEY OF(key_of_row)(const whi_group *g, const whi_group_shape *s, const group_tile *t,
                         uint32_t i) {
    const whi_group_layout *l = &g->layout[GROUP_RAW];
    if (t->source == FROM_TABLE) {
        return ((const KEY *)t->key)[i];
    }
    return PAGE_COLUMN(const KEY, page_of_row(s, l, i), l->key)[in_page(l, i)];
}

/* Rows of a tile that have a bit to their lists; bits that are left: there was no memory, and 0 is
 * returned. All threads. group_steps.h's R1 */
WH_FN int OF(move_tile)(const wh_heap_ref *heap, const whi_group *g, const whi_group_shape *s,
                        const group_tile *t, const whi_chains *c) {
    uint32_t *bits = SHARED(uint32_t, bits);
    if (wh_thread_in_block() == 0) {
        WORDS[GROUP_FULL] = 0;
    }
    wh_syncthreads();
    for (uint32_t step = first_step(); step < t->n; step += wh_block_threads()) {
        const uint32_t i = step + wh_lane_id();
        const int has = (bits[step / 32] >> wh_lane_id() & 1) != 0;
        const KEY key = has ? OF(key_of_row)(g, s, t, i) : 0;
        const uint32_t p = OF(digit_of)(key, t->level);
        unsigned char *page = NULL;
        uint32_t at = 0;
        int is_done = !has;
        for (uint32_t round = 0; wh_any(WH_FULL_WARP, !is_done); round++) {
            if (!is_done) {
                is_done = take_place(heap, c, p, &page, &at);
            }
            if (!is_done) {
                wh_backoff(round);
            }
        }
        if (page != NULL) {
            PAGE_COLUMN(KEY, page, g->layout[GROUP_RAW].key)[at] = key;
            OF(move_row)(g, s, t, i, page, at);
        }
        const wh_mask left = wh_ballot(WH_FULL_WARP, has && page == NULL);
        WH_PLANT(lists_bits_read, wh_syncwarp(WH_FULL_WARP), (void)0); /* all have read them */
        if (wh_lane_id() == 0) {
            bits[step / 32] = WH_PLANT(lists_r1_bits, left, bits[step / 32]);
            if (WH_PLANT(lists_r1_full, left != 0, 0)) {
                (void)wh_shared_exchange_u32(&WORDS[GROUP_FULL], 1);
            }
        }
    }
    wh_syncthreads();
    return WORDS[GROUP_FULL] == 0;
}

/* A list whose rows agree in all bits. */
WH_FN void OF(note_list)(const whi_group *g, const whi_group_node *n) {
    const whi_chains c = chains_of_parts(g, GROUP_RAW);
    const uint32_t k = WH_PLANT(lists_number, wh_fetch_add_u32_relaxed(&g->state->n_lists, 1),
                                g->state->n_lists++);
    const uint32_t last = wh_high_u32(n->cursor[GROUP_RAW]) - 1;
    ((KEY *)g->list_key)[k] = PAGE_COLUMN(const KEY, c.page[last], g->layout[GROUP_RAW].key)[0];
    g->list_last[k] = last;
    g->list_last_rows[k] = wh_low_u32(n->cursor[GROUP_RAW]);
    g->list_rows[k] = rows_of_chain(&c, n->cursor[GROUP_RAW]);
}

/* The node is done: its children are lists to split, or groups. All threads. */
WH_FN void OF(push_lists)(const whi_group *g) {
    for (uint32_t p = wh_thread_in_block(); p < 256; p += wh_block_threads()) {
        whi_group_node n;
        if (take_child(g, p, &n)) {
            if (n.level == g->most_levels - WH_PLANT(lists_levels, 0u, 1u)) {
                OF(note_list)(g, &n);
            } else {
                push_node(g, &n);
            }
        }
    }
    set_phase(NODE_TAKE);
}

OPS_KERNEL(lists_of_table, group_args, a) {
    const whi_group *g = &a.g;
    const whi_group_shape *s = &g->shape[0];
    const whi_chains c = chains_of_parts(g, GROUP_RAW);
    int is_full = 0;
    if (!begin_block(g, 0)) {
        return;
    }
    if (g->stage[0][wh_block_id()] == GROUP_FRESH && wh_thread_in_block() == 0) {
        WORDS[GROUP_TILE] = wh_block_id();
        WORDS[GROUP_PHASE] = TABLE_READ;
    }
    wh_syncthreads();
    for (uint32_t phase = phase_now(); phase != PHASE_END && !is_full; phase = phase_now()) {
        const group_tile t = tile_of_table(g, s);
        if (phase == TABLE_READ && WORDS[GROUP_TILE] >= tiles_of(g)) {
            set_phase(PHASE_END);
        } else if (phase == TABLE_READ) {
            mark_rows(s, &t);
            set_phase(TABLE_SPILL);
        } else {
            is_full = !OF(move_tile)(&a.heap, g, s, &t, &c);
            if (!is_full) {
                next_tile(g, t.n);
            }
        }
    }
    end_block(g, 0, is_full);
}

OPS_KERNEL(lists_of_lists, group_args, a) {
    const whi_group *g = &a.g;
    const whi_group_shape *s = &g->shape[1];
    const whi_chains c = chains_of_children(g, GROUP_RAW);
    int is_full = 0;
    if (!begin_block(g, 1)) {
        return;
    }
    if (g->stage[1][wh_block_id()] == GROUP_FRESH && wh_thread_in_block() == 0) {
        WORDS[GROUP_PHASE] = NODE_TAKE;
    }
    wh_syncthreads();
    for (uint32_t phase = phase_now(); phase != PHASE_END && !is_full; phase = phase_now()) {
        if (phase == NODE_TAKE) {
            take_node(g, s);
        } else if (phase == NODE_READ && !read_pages(g, s)) {
            OF(push_lists)(g);
        } else if (phase == NODE_READ) {
            const group_tile t = tile_of_node(g);
            mark_rows(s, &t);
            set_phase(NODE_SPILL);
        } else {
            const group_tile t = tile_of_node(g);
            is_full = !OF(move_tile)(&a.heap, g, s, &t, &c);
            if (!WH_PLANT(lists_r3_stay, is_full, 0)) {
                free_pages(&a.heap, g, s);
            }
        }
    }
    end_block(g, 1, is_full);
}
