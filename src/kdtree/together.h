/* together.h: nodes that several warps work on, in phases: shared.h. The root begins with one more
 * phase, in which its references and its box are gathered from the mesh. Included by
 * kdtree_kernels.c.
 */
#ifndef WHI_KDTREE_TOGETHER_H
#define WHI_KDTREE_TOGETHER_H

#include "alone.h"

/* References first..end of a chunk. */
typedef struct kd_chunk {
    uint32_t first, end;
} kd_chunk;

WH_FN kd_chunk chunk_of(const whi_kdtree *k, const kd_shared *s, uint32_t number) {
    kd_chunk c;
    c.first = number * k->chunk_references + WH_PLANT(together_chunk, 0u, 1u);
    c.end = s->task.n - c.first < k->chunk_references ? s->task.n - WH_PLANT(together_end, 0u, 1u)
                                                      : c.first + k->chunk_references;
    return c;
}

/* --- the root's references and box -------------------------------------------------------------
 */

/* Bits in the order of the numbers, without 0. */
WH_FN uint32_t ordered_bits(float v) {
    const uint32_t bits = bits_of(v);
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

WH_FN float float_of_ordered(uint32_t bits) {
    return wh_kdtree_float_((bits >> 31) != 0 ? bits & 0x7fffffffu : ~bits);
}

WH_FN wh_kdtree_ref mesh_of(const whi_kdtree *k) {
    wh_kdtree_ref r;
    r.nodes = k->nodes;
    r.references = k->references;
    r.frame = &k->state->frame;
    r.vertices = k->mesh.vertices;
    r.triangles = k->mesh.triangles;
    r.n_vertices = k->mesh.n_vertices;
    r.n_triangles = k->mesh.n_triangles;
    return r;
}

/* Widens a box by a triangle. */
WH_FN void add_triangle(const whi_kdtree *k, uint32_t i, uint32_t lo[3], uint32_t hi[3]) {
    for (uint32_t v = 0; v < 3; v++) {
        const uint32_t vertex = k->mesh.triangles[3 * (uint64_t)i + v];
        for (uint32_t c = 0; c < 3; c++) {
            const uint32_t x = ordered_bits(k->mesh.vertices[3 * (uint64_t)vertex + c]);
            lo[c] = ~x > lo[c] ? ~x : lo[c];
            hi[c] = x > hi[c] ? x : hi[c];
        }
    }
}

/* S4. All lanes. */
WH_FN void gather_chunk(const whi_kdtree *k, kd_shared *s, kd_chunk chunk) {
    uint32_t lo[3] = {0, 0, 0}, hi[3] = {0, 0, 0}, skipped = 0;
    for (uint32_t first = chunk.first; first < chunk.end; first += WH_WARP_SIZE) {
        const uint32_t i = first + wh_lane_id();
        const int is_there = i < chunk.end, has = is_there && wh_kdtree_has(mesh_of(k), i);
        const wh_mask mask = wh_ballot(WH_FULL_WARP, has);
        uint32_t at = 0;
        if (is_first_lane()) {
            at = wh_fetch_add_u32_relaxed(&s->cursor[0],
                                          WH_PLANT(together_gather, wh_popc32(mask), 32u));
        }
        at = wh_shfl_u32(WH_FULL_WARP, at, 0);
        if (has) {
            *place_of(k, s, at + wh_mask_rank(mask)) = i;
            add_triangle(k, i, lo, hi);
        }
        skipped += is_there && !has;
    }
    skipped = wh_reduce_add_u32(WH_FULL_WARP, skipped);
    for (uint32_t c = 0; c < 3; c++) {
        lo[c] = WH_PLANT(together_box, wh_reduce_max_u32(WH_FULL_WARP, lo[c]), lo[c]);
        hi[c] = wh_reduce_max_u32(WH_FULL_WARP, hi[c]);
        if (is_first_lane()) {
            wh_fetch_max_u32_relaxed(&s->lo[c], lo[c]);
            wh_fetch_max_u32_relaxed(&s->hi[c], hi[c]);
        }
    }
    if (is_first_lane() && skipped != 0) {
        wh_add_u64_relaxed(&k->state->skipped, WH_PLANT(together_skipped, skipped, 1u));
    }
}

/* The frame, and the root's task. Lane 0. B2 */
WH_FN void frame_root(const whi_kdtree *k, kd_shared *s) {
    wh_kdtree_frame *f = &k->state->frame;
    float largest = 0, longest = 0; /* coordinate, and edge of the box */
    s->task.n = wh_load_u32_relaxed(&s->cursor[0]);
    for (uint32_t c = 0; c < 3; c++) {
        const int has = s->task.n != 0;
        const float lo = has ? float_of_ordered(~wh_load_u32_relaxed(&s->lo[c])) : 0;
        const float hi = has ? float_of_ordered(wh_load_u32_relaxed(&s->hi[c])) : 0;
        largest = fabsf(lo) > largest ? fabsf(lo) : largest;
        largest = fabsf(hi) > largest ? fabsf(hi) : largest;
        longest = hi - lo > longest ? hi - lo : longest;
        f->lo[c] = lo;
        f->hi[c] = hi;
    }
    f->margin = (largest + 3 * longest) / 2097152.0f;
    for (uint32_t c = 0; c < 3; c++) {
        f->lo[c] -= f->margin;
        f->hi[c] += f->margin;
        s->task.box.lo[c] = f->lo[c];
        s->task.box.hi[c] = f->hi[c];
    }
    const float area = half_area(&s->task.box);
    k->state->part_of_root = area > 0 ? 1 / (double)area : 0;
    wh_store_u32_relaxed(&s->cursor[0], WH_PLANT(together_cursor, 0, s->task.n));
}

/* --- phases ------------------------------------------------------------------------------------
 */

/* S4. All lanes. */
WH_FN void bin_chunk(kd_warp w, kd_shared *s, kd_chunk chunk) {
    clear_bins(w.own);
    for (uint32_t i = chunk.first + wh_lane_id(); i < chunk.end; i += WH_WARP_SIZE) {
        count_in_bins(w.own, bins_of_ref(w.k, *place_of(w.k, s, i), &s->task.box));
    }
    WH_PLANT(together_w1_counted, wh_syncwarp(WH_FULL_WARP), (void)0); /* W1 */
    for (uint32_t i = wh_lane_id(); i < WHI_KD_BIN_WORDS; i += WH_WARP_SIZE) {
        if (w.own->bins[i] != 0) {
            wh_add_u32_relaxed(&s->bins[i], w.own->bins[i]);
        }
    }
}

/* S4. All lanes. */
WH_FN void deal_chunk(kd_warp w, kd_shared *s, kd_chunk chunk) {
    const kd_choice c = s->choice;
    const kd_children both = s->children;
    for (uint32_t first = chunk.first; first < chunk.end; first += WH_WARP_SIZE) {
        const uint32_t i = first + wh_lane_id();
        const uint32_t ref = i < chunk.end ? *place_of(w.k, s, i) : 0;
        const uint32_t bins = i < chunk.end ? bins_of_ref(w.k, ref, &s->task.box) : 0;
        wh_mask side[2];
        sides_of(&c, i < chunk.end, bins, side);
        for (uint32_t d = 0; d < 2; d++) {
            uint32_t at = 0;
            if (is_first_lane() && side[d] != 0) {
                at = WH_PLANT(together_s4_cursor,
                              wh_fetch_add_u32_relaxed(&s->cursor[d], wh_popc32(side[d])), first);
            }
            at = wh_shfl_u32(WH_FULL_WARP, at, 0) + wh_mask_rank(side[d]);
            if ((side[d] >> wh_lane_id() & 1) != 0) {
                *child_place(w.k, &both.child[d], at) = ref;
            }
        }
    }
}

WH_FN void work_on_chunk(kd_warp w, kd_shared *s, uint32_t phase, uint32_t number) {
    const kd_chunk chunk = chunk_of(w.k, s, number);
    if (phase == PHASE_GATHER) {
        gather_chunk(w.k, s, chunk);
    } else if (phase == PHASE_BIN) {
        bin_chunk(w, s, chunk);
    } else {
        deal_chunk(w, s, chunk);
    }
}

/* The node becomes a leaf. All lanes. */
WH_FN void make_shared_leaf(const wh_heap_ref *heap, kd_warp w, kd_shared *s, int is_cut) {
    const whi_kd_task t = s->task;
    const uint64_t at = take_references(w.k, t.n);
    for (uint32_t i = wh_lane_id(); i < t.n && !s->is_cut; i += WH_WARP_SIZE) {
        w.k->references[at + i] = *place_of(w.k, s, i);
    }
    WH_PLANT(together_a1_leaf, wh_syncwarp(WH_FULL_WARP), (void)0); /* A1 */
    if (is_first_lane()) {
        write_leaf(w, &t, at, is_cut);
        give_arrays(heap, s);
    }
}

WH_FN void begin_phase(const whi_kdtree *k, kd_shared *s, uint32_t phase) {
    if (is_first_lane()) {
        wh_store_u32_relaxed(&s->done, WH_PLANT(together_s2_zero, 0, 1)); /* S2 */
        const uint64_t ticket = ticket_of(k, phase, s->task.n);
        WH_PLANT_ORDER(together_s1_begin, wh_store_u64, release)(&s->ticket, ticket); /* S1 */
    }
}

/* The root is gathered. All lanes. */
WH_FN void end_gather(const wh_heap_ref *heap, kd_warp w, kd_shared *s) {
    if (is_first_lane()) {
        frame_root(w.k, s);
    }
    WH_PLANT(together_frame, wh_syncwarp(WH_FULL_WARP), (void)0);
    whi_kd_task t = s->task;
    t.refs = arrays_of(s)[0];
    t.shared = NULL;
    if (s->is_cut || t.n == 0) {
        make_shared_leaf(heap, w, s, s->is_cut);
    } else if (t.n <= w.k->shared_references && WH_PLANT(together_arrays, s->n_arrays == 1, 1)) {
        add_task(w, &t);
    } else {
        begin_phase(w.k, s, PHASE_BIN);
    }
}

/* All references are counted. All lanes. */
WH_FN void end_bin(const wh_heap_ref *heap, kd_warp w, kd_shared *s) {
    const whi_kd_task t = s->task;
    kd_choice c = no_choice();
    kd_children both;
    both.first = 0;
    if (may_split(w.k, &t)) {
        for (uint32_t i = wh_lane_id(); i < WHI_KD_BIN_WORDS; i += WH_WARP_SIZE) {
            w.own->bins[i] = wh_load_u32_relaxed(&s->bins[i]);
        }
        c = choose_counted(w.k, w.own, &t.box, t.n);
    }
    if (c.bin != 0) {
        both = take_children(heap, w, &c, t.n);
    }
    if (both.first == 0) {
        make_shared_leaf(heap, w, s, WH_PLANT(together_cut, c.bin != 0, 0));
        return;
    }
    if (is_first_lane()) {
        s->choice = c;
        s->children = both;
    }
    begin_phase(w.k, s, PHASE_DEAL);
}

/* The children have all references. All lanes. */
WH_FN void end_deal(const wh_heap_ref *heap, kd_warp w, kd_shared *s) {
    const whi_kd_task t = s->task;
    const kd_choice c = s->choice;
    const kd_children both = s->children;
    if (is_first_lane()) {
        wh_assert_internal(wh_load_u32_relaxed(&s->cursor[0]) == c.n_left &&
                           wh_load_u32_relaxed(&s->cursor[1]) == c.n_right);
        write_inner(w, &t, &c, both.first);
        WH_PLANT(together_give, give_arrays(heap, s), (void)0);
    }
    add_children(w, &t, &c, &both);
}

WH_FN void end_phase(const wh_heap_ref *heap, kd_warp w, kd_shared *s, uint32_t phase) {
    if (phase == PHASE_GATHER) {
        end_gather(heap, w, s);
    } else if (phase == PHASE_BIN) {
        end_bin(heap, w, s);
    } else {
        end_deal(heap, w, s);
    }
}

/* --- a warp and a record -----------------------------------------------------------------------
 */

/* Calls for help, if there are chunks for which nobody has come. All lanes. S3 */
WH_FN void call_others(kd_warp w, const whi_kd_task *t) {
    kd_shared *s = t->shared;
    uint32_t n = 0;
    if (is_first_lane()) {
        const uint64_t ticket = wh_load_u64_relaxed(&s->ticket);
        const uint32_t first = (uint32_t)ticket, end = chunks_of(ticket);
        const uint32_t left = first < end ? end - first : 0;
        const uint32_t here = wh_load_u32_relaxed(&s->holders); /* each takes one more, or ends */
        n = left > here ? left - here : 0;
    }
    n = wh_shfl_u32(WH_FULL_WARP, n, 0);
    if (n == 0) {
        return;
    }
    const uint32_t most = idle_warps(w.k);
    n = n < most ? n : most;
    if (n != 0) {
        if (is_first_lane()) {
            wh_fetch_add_u32_relaxed(&s->holders, WH_PLANT(together_s3_hold, n, 0u));
        }
        put_tasks(w.k, t, n);
    }
}

/* Chunks of a record, until there are none, or the node is done. All lanes. */
WH_FN_SLOW void work_together(const wh_heap_ref *heap, kd_warp w, const whi_kd_task *t) {
    kd_shared *s = t->shared;
    for (;;) {
        uint64_t ticket = 0;
        uint32_t done = 0;
        call_others(w, t);
        if (is_first_lane()) {
            ticket = WH_PLANT_ORDER(together_s1_take, wh_fetch_add_u64, acquire)(&s->ticket, 1);
        }
        ticket = wh_shfl_u64(WH_FULL_WARP, ticket, 0);
        if ((uint32_t)ticket >= chunks_of(ticket)) {
            break;
        }
        WH_PLANT(together_s1_lanes, wh_syncwarp(WH_FULL_WARP), (void)0); /* S1 */
        work_on_chunk(w, s, phase_of(ticket), (uint32_t)ticket);
        WH_PLANT(together_s2_lanes, wh_syncwarp(WH_FULL_WARP), (void)0); /* S2 */
        if (is_first_lane()) {
            done = WH_PLANT_ORDER(together_s2_done, wh_fetch_add_u32, acq_rel)(&s->done, 1) + 1;
        }
        if (wh_shfl_u32(WH_FULL_WARP, done, 0) == chunks_of(ticket)) {
            wh_syncwarp(WH_FULL_WARP); /* S2 */
            end_phase(heap, w, s, phase_of(ticket));
        }
    }
    wh_syncwarp(WH_FULL_WARP);
    if (is_first_lane()) {
        const uint32_t holders = wh_fetch_sub_u32_acq_rel(&s->holders, 1); /* S3 */
        wh_assert_internal(holders != 0);
        if (holders == 1 && !s->is_root) {
            WH_PLANT(together_s3_last, heap_give(heap, s), (void)0);
        }
    }
}

/* The root's task, on the stack of the warp that calls. All lanes. */
WH_FN_SLOW void start_root(const wh_heap_ref *heap, kd_warp w) {
    kd_shared *s = w.k->root;
    const uint32_t n = (uint32_t)w.k->mesh.n_triangles;
    whi_kd_task t;
    t.refs = NULL;
    t.shared = s;
    t.node = t.depth = t.unused = 0;
    t.n = n;
    for (uint32_t c = 0; c < 3; c++) {
        t.box.lo[c] = t.box.hi[c] = 0;
    }
    begin_bins(s);
    if (is_first_lane()) {
        begin_record(w.k, s, n, PHASE_GATHER);
        s->task = t;
        s->is_cut = !take_arrays(heap, w, s);
        for (uint32_t i = 0; i < s->n_arrays && s->is_cut; i++) {
            arrays_of(s)[i] = w.k->references + (uint64_t)i * w.k->block_references;
        }
        if (n == 0) {
            frame_root(w.k, s);
            write_leaf(w, &t, 0, 0);
        }
    }
    if (n != 0) {
        push_own(w, &t);
    }
}

#endif
