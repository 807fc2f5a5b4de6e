/* group_steps.h: what blocks do one after the other, for one width of keys and one of values, as
 * group_rows.h. Where a block is, its shared memory says, all of it: so a block that finds no
 * memory copies it out, and goes on from the copy.
 *
 * R1      a block stops in steps that can be done again: rows that have got a place have no bit, or
 *         no slot, any more. Nothing is put out twice, or lost
 * R2      child_cursor, stack: of the block alone; plain, between barriers, but for what
 *         chains.h's P1 does to a cursor
 * R3      rows of a node's children are copies: the pages that they came from go back before the
 *         next ones are read, so the chains never have more rows than the table
 */

/* Rows that a block has at the end of a phase, to the parts' chains: those of a tile that have
 * found no slot, or what the slots have. 0: there was no memory for all. All threads. R1 */
WH_FN int OF(put_out)(const wh_heap_ref *heap, const whi_group *g, const whi_group_shape *s,
                      uint32_t phase) {
    const group_tile t = phase == TABLE_SPILL ? tile_of_table(g, s) : tile_of_slots(g, s);
    const whi_chains c = chains_of_parts(g, t.kind);
    if (phase == TABLE_SPILL && WORDS[GROUP_LEFT] == 0) {
        return 1;
    }
    if (phase != TABLE_SPILL) {
        OF(mark_slots)(s, &t);
    }
    return OF(spill_tile)(heap, g, s, &t, &c);
}

/* One step of a block with the table's rows; 0: the heap is full. All threads. */
WH_FN int OF(table_step)(const wh_heap_ref *heap, const whi_group *g, const whi_group_shape *s,
                         uint32_t phase) {
    const group_tile t = tile_of_table(g, s);
    if (phase == TABLE_READ && WORDS[GROUP_TILE] >= tiles_of(g)) {
        set_phase(TABLE_LAST);
    } else if (phase == TABLE_READ) {
        if (WORDS[GROUP_FEW]) {
            leave_tile(s, &t);
        } else if (g->is_plain) {
            OF(absorb_table)(g, s, &t);
        } else {
            OF(absorb_rows)(g, s, &t, g->probes[0], &g->needs);
        }
        set_phase(TABLE_SPILL);
    } else if (!OF(put_out)(heap, g, s, phase)) {
        return 0;
    } else if (phase == TABLE_SPILL) {
        next_tile(g, t.n);
    } else {
        set_phase(WH_PLANT(steps_last, phase == TABLE_LAST, 1) ? PHASE_END : TABLE_READ);
    }
    return 1;
}

OPS_KERNEL(group_table, group_args, a) {
    const whi_group *g = &a.g;
    const whi_group_shape *s = &g->shape[0];
    int is_full = 0;
    if (!begin_block(g, 0)) {
        return;
    }
    if (g->stage[0][wh_block_id()] == GROUP_FRESH) {
        OF(clear_table)(g, s);
        if (wh_thread_in_block() == 0) {
            WORDS[GROUP_TILE] = wh_block_id();
            WORDS[GROUP_PHASE] = TABLE_READ;
        }
    }
    wh_syncthreads();
    for (uint32_t phase = phase_now(); phase != PHASE_END && !is_full; phase = phase_now()) {
        is_full = !OF(table_step)(&a.heap, g, s, phase);
    }
    end_block(g, 0, is_full);
}

/* --- nodes -------------------------------------------------------------------------------------
 */

WH_FN void OF(write_group)(const whi_group *g, const own_page *o, uint32_t i, OF(item) m) {
    void *column[GROUP_COLUMNS];
    for (uint32_t c = 0; c < GROUP_COLUMNS; c++) {
        column[c] = g->out.column_bytes[c] != 0 ? o->page + g->out.column_at[c] : NULL;
    }
    OF(write_item)(g, column, i, m);
}

/* Puts a group out for each lane of a warp that has one. Whether the caller's is out, or it has
 * none; else the heap is full. All lanes. */
WH_FN int OF(put_group)(const wh_heap_ref *heap, const whi_group *g, own_page *o, int has,
                        OF(item) m) {
    const wh_mask mask = wh_ballot(WH_FULL_WARP, has);
    const uint32_t n = wh_popc32(mask), rank = wh_mask_rank(mask), here = g->list.room - o->fill;
    if (has && rank < here) {
        OF(write_group)(g, o, o->fill + rank, m);
    }
    o->fill += n < here ? n : here;
    if (n + WH_PLANT(steps_put_tie, 0u, 1u) > here) {
        if (!turn_page_warp(heap, &g->list, o)) {
            return !has || WH_PLANT(steps_put_some, rank < here, 0);
        }
        if (has && rank >= here) {
            OF(write_group)(g, o, rank - here, m);
        }
        o->fill = n - here;
    }
    return 1;
}

/* All groups of the table, as a node's; 0: the heap is full. All threads. R1 */
WH_FN int OF(put_table)(const wh_heap_ref *heap, const whi_group *g, const whi_group_shape *s,
                        own_page *o) {
    const uint32_t mask = WORDS[GROUP_MASK];
    int is_out = 1;
    if (wh_thread_in_block() == 0) {
        WORDS[GROUP_FULL] = 0;
    }
    wh_syncthreads();
    for (uint32_t step = first_step(); step <= mask + 1 && wh_all(WH_FULL_WARP, is_out);
         step += wh_block_threads()) {
        const uint32_t i = step + wh_lane_id(), slot = i <= mask ? i : s->slots;
        const int has = i <= mask + WH_PLANT(steps_zero, 1u, 0u) && OF(is_taken)(s, slot);
        OF(item) m;
        memset(&m, 0, sizeof m);
        if (has) {
            m = OF(item_of_slot)(g, s, slot);
        }
        is_out = OF(put_group)(heap, g, o, has, m);
        if (has && WH_PLANT(steps_r1_out, is_out, 1)) {
            OF(empty_slot)(g, s, slot);
        }
    }
    if (!is_out) {
        (void)wh_shared_exchange_u32(&WORDS[GROUP_FULL], 1);
    }
    wh_syncthreads();
    return WORDS[GROUP_FULL] == 0;
}

/* The pages of a node that are read into its table. If that helps too seldom, they and all that
 * follow are left, for the children: what the table has is still in the pages. All threads. */
WH_FN void OF(absorb_node)(const whi_group *g, const whi_group_shape *s) {
    const group_tile t = tile_of_node(g);
    if (WORDS[GROUP_FEW] == 0) {
        if (g->is_plain && t.kind == GROUP_RAW) {
            OF(absorb_pages)(g, s, &t);
        } else {
            OF(absorb_rows)(g, s, &t, g->probes[1], &g->needs);
        }
        if (!is_node_few(g, s)) {
            return;
        }
        WH_PLANT(steps_few, OF(clear_table)(g, s), (void)0);
        wh_syncthreads();
    }
    leave_tile(s, &t);
    if (wh_thread_in_block() == 0) {
        WORDS[GROUP_FEW] = 1;
    }
}

/* One step of a block with nodes; 0: the heap is full. All threads. */
WH_FN int OF(node_step)(const wh_heap_ref *heap, const whi_group *g, const whi_group_shape *s,
                        uint32_t phase, own_page *o) {
    const group_tile t = tile_of_node(g);
    if (phase == NODE_TAKE) {
        take_node(g, s);
    } else if (phase == NODE_READ && !read_pages(g, s)) {
        set_phase(NODE_OUT);
    } else if (phase == NODE_READ) {
        OF(absorb_node)(g, s);
        set_phase(NODE_SPILL);
    } else if (phase == NODE_SPILL) {
        const whi_chains c = chains_of_children(g, t.kind);
        if (WORDS[GROUP_LEFT] != 0 && !OF(spill_tile)(heap, g, s, &t, &c)) {
            return WH_PLANT(steps_r3_spill, 0, 1);
        }
        free_pages(heap, g, s);
    } else {
        if (!OF(put_table)(heap, g, s, o)) {
            return 0;
        }
        push_children(g);
    }
    return 1;
}

OPS_KERNEL(group_nodes, group_args, a) {
    const whi_group *g = &a.g;
    const whi_group_shape *s = &g->shape[1];
    own_page o = no_page(&g->list);
    int is_full = 0;
    if (!begin_block(g, 1)) {
        return;
    }
    if (g->stage[1][wh_block_id()] == GROUP_FRESH) {
        OF(clear_table)(g, s);
        if (wh_thread_in_block() == 0) {
            WORDS[GROUP_PHASE] = NODE_TAKE;
        }
    }
    wh_syncthreads();
    for (uint32_t phase = phase_now(); phase != PHASE_END && !is_full; phase = phase_now()) {
        is_full = !OF(node_step)(&a.heap, g, s, phase, &o);
    }
    WH_PLANT(steps_close, close_all(&g->list, &o), (void)0);
    end_block(g, 1, is_full);
}
