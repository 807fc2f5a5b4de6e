/* shared.h: the record of a node with more references than one warp should work on, and the arrays
 * of nodes' children. Included by kdtree_kernels.c.
 *
 * The references of such a node lie in arrays of block_references each. Warps take chunks of them
 * by number, and work on them in phases; the warp that ends the last chunk of a phase begins the
 * next one. Nobody waits for it: who finds no chunk goes away.
 * S1      ticket: phase, number of chunks, next chunk, in one word. fetch_add acquire of who takes
 *         a chunk; store release by who begins a phase, when the one before has ended: the fields
 *         that it has written come before their readers. A fetch_add whose chunk is not below the
 *         number of chunks has taken nothing, and its caller reads nothing else of the record
 * S2      done: chunks of this phase that have ended; fetch_add acq_rel by who has ended one, after
 *         a wh_syncwarp: what all lanes of all warps did in this phase comes before who ends the
 *         last chunk goes on. Set to 0 by that one, before S1's store
 * S3      holders: tasks that name the record, and warps that have it; fetch_add relaxed by one of
 *         them, fetch_sub acq_rel: the last one gives the record back to the heap after all others
 *         have read it
 * S4      bins, lo, hi: add and fetch_max, relaxed, by all of a phase; read by who ends it (S2).
 *         cursor: fetch_add relaxed: places in the arrays of children, of each one's own
 */
#ifndef WHI_KDTREE_SHARED_H
#define WHI_KDTREE_SHARED_H

#include "leaves.h"
#include "queue.h"

enum { PHASE_GATHER, PHASE_BIN, PHASE_DEAL };

struct whi_kd_shared;

/* A child's references: an array, or, if there are more than shared_references, a record. */
typedef struct kd_child {
    uint32_t *refs;
    struct whi_kd_shared *shared;
    uint32_t n;
} kd_child;

typedef struct kd_children {
    uint32_t first; /* number of the left child; 0: there was no room */
    kd_child child[2];
} kd_children;

typedef struct whi_kd_shared {
    uint64_t ticket;
    uint32_t done;
    uint32_t holders;
    uint32_t cursor[2];
    uint32_t bins[WHI_KD_BIN_WORDS];
    uint32_t lo[3], hi[3]; /* PHASE_GATHER: ordered_bits, of lo inverted */
    uint32_t n_arrays;
    int is_root; /* not a block of the heap */
    int is_cut;  /* the root: its arrays are the leaf's places */
    whi_kd_task task;
    kd_choice choice; /* PHASE_DEAL: and children */
    kd_children children;
} whi_kd_shared;

typedef struct whi_kd_shared kd_shared;

/* Addresses of the arrays, which follow the record. */
WH_HD uint32_t **arrays_of(kd_shared *s) {
    return (uint32_t **)(void *)(s + 1);
}

WH_HD uint32_t parts_of(uint32_t n, uint32_t each) {
    return n / each + (n % each != 0);
}

WH_FN uint32_t *place_of(const whi_kdtree *k, kd_shared *s, uint32_t i) {
    return &arrays_of(s)[i / k->block_references][i % k->block_references];
}

WH_FN uint64_t ticket_of(const whi_kdtree *k, uint32_t phase, uint32_t n) {
    return (uint64_t)phase << 60 | (uint64_t)parts_of(n, k->chunk_references) << 32;
}

WH_FN uint32_t phase_of(uint64_t ticket) {
    return (uint32_t)(ticket >> 60);
}

WH_FN uint32_t chunks_of(uint64_t ticket) {
    return (uint32_t)(ticket >> 32) & 0x0fffffffu;
}

/* --- arrays and records ------------------------------------------------------------------------
 * Lane 0 */

WH_FN uint32_t references_of_array(const whi_kdtree *k, const kd_shared *s, uint32_t i) {
    const uint32_t before = i * k->block_references;
    const uint32_t left = s->task.n - before;
    return left < k->block_references ? left : k->block_references;
}

/* All arrays of a record, or none. */
WH_FN int take_arrays(const wh_heap_ref *heap, kd_warp w, kd_shared *s) {
    s->n_arrays = parts_of(s->task.n, w.k->block_references);
    for (uint32_t i = 0; i < s->n_arrays; i++) {
        uint32_t *p = take_array(heap, w.own, references_of_array(w.k, s, i));
        if (p == NULL) {
            while (i-- > 0) {
                WH_PLANT(shared_arrays_back,
                         untake_array(heap, w.own, arrays_of(s)[i], references_of_array(w.k, s, i)),
                         (void)0);
            }
            return 0;
        }
        arrays_of(s)[i] = p;
    }
    return 1;
}

WH_FN void give_arrays(const wh_heap_ref *heap, kd_shared *s) {
    for (uint32_t i = 0; i < s->n_arrays && !s->is_cut; i++) {
        heap_give(heap, arrays_of(s)[i]);
    }
}

/* A new record's fields but for bins, for a node of n references. */
WH_FN void begin_record(const whi_kdtree *k, kd_shared *s, uint32_t n, uint32_t phase) {
    for (uint32_t c = 0; c < 3; c++) {
        wh_store_u32_relaxed(&s->lo[c], 0);
        wh_store_u32_relaxed(&s->hi[c], 0);
    }
    wh_store_u32_relaxed(&s->cursor[0], 0);
    wh_store_u32_relaxed(&s->cursor[1], 0);
    wh_store_u32_relaxed(&s->done, 0);
    wh_store_u32_relaxed(&s->holders, 1);
    wh_store_u64_relaxed(&s->ticket, ticket_of(k, phase, n));
    s->is_root = phase == PHASE_GATHER;
    s->is_cut = 0;
    s->task.n = n;
}

WH_FN kd_shared *take_record(const wh_heap_ref *heap, kd_warp w, uint32_t n) {
    const uint32_t n_arrays = parts_of(n, w.k->block_references);
    kd_shared *s = (kd_shared *)heap_take(heap, sizeof(kd_shared) + n_arrays * sizeof(uint32_t *));
    if (s == NULL) {
        w.own->tally.failed++;
        return NULL;
    }
    begin_record(w.k, s, n, PHASE_BIN);
    if (!take_arrays(heap, w, s)) {
        WH_PLANT(shared_record_back, heap_give(heap, s), (void)0);
        return NULL;
    }
    return s;
}

/* 0: there is no memory. */
WH_FN int take_child(const wh_heap_ref *heap, kd_warp w, kd_child *c, uint32_t n) {
    c->refs = NULL;
    c->shared = NULL;
    c->n = n;
    if (n > w.k->shared_references) {
        c->shared = take_record(heap, w, n);
        return c->shared != NULL;
    }
    if (n != 0) {
        c->refs = take_array(heap, w.own, n);
    }
    return n == 0 || c->refs != NULL;
}

WH_FN void untake_child(const wh_heap_ref *heap, kd_warp w, kd_child *c) {
    if (c->shared != NULL) {
        for (uint32_t i = 0; i < c->shared->n_arrays; i++) {
            untake_array(heap, w.own, arrays_of(c->shared)[i],
                         references_of_array(w.k, c->shared, i));
        }
        heap_give(heap, c->shared);
    } else if (c->refs != NULL) {
        untake_array(heap, w.own, c->refs, c->n);
    }
}

/* A promise and numbers for both children; 0: there is no room. Lane 0. */
WH_FN uint32_t take_numbers(kd_warp w, uint64_t more) {
    if (!take_promise(w.k, w.own, more)) {
        return 0;
    }
    const uint32_t first = take_nodes(w.k, w.own);
    if (first == 0) {
        w.own->promised += more;
        w.own->next_node -= WH_PLANT(shared_l2_back, 0, 2);
    }
    return first;
}

/* The same for n pairs of children at once, if the warp has as much left of its own. Lane 0. */
WH_FN uint32_t take_own_numbers(kd_own *own, uint32_t n, uint32_t more) {
    if (own->promised < more || own->node_end - own->next_node < 2 * n) {
        return 0;
    }
    own->promised -= more;
    own->next_node += 2 * n;
    return own->next_node - 2 * n;
}

/* Gives them back. Lane 0. */
WH_FN void untake_numbers(kd_warp w, uint64_t more) {
    w.own->promised += more;
    w.own->next_node -= 2;
}

/* Both children's arrays and records, of which one is large. 0: there was no memory for both. Lane
 * 0. */
WH_FN int take_large(const wh_heap_ref *heap, kd_warp w, kd_children *both) {
    if (!take_child(heap, w, &both->child[0], both->child[0].n)) {
        return 0;
    }
    if (!take_child(heap, w, &both->child[1], both->child[1].n)) {
        WH_PLANT(shared_untake, untake_child(heap, w, &both->child[0]), (void)0);
        return 0;
    }
    return 1;
}

/* --- children ----------------------------------------------------------------------------------
 */

/* A new record's bins, before anybody else sees it. All lanes. */
WH_FN void begin_bins(kd_shared *s) {
    for (uint32_t i = wh_lane_id(); i < WHI_KD_BIN_WORDS; i += WH_WARP_SIZE) {
        wh_store_u32_relaxed(&s->bins[i], WH_PLANT(shared_s4_bins, 0, 1));
    }
}

/* take_large, of a warp. All lanes. */
WH_FN_SLOW int take_large_warp(const wh_heap_ref *heap, kd_warp w, kd_children *both) {
    uint64_t at[2] = {0, 0};
    uint32_t has = 0;
    if (is_first_lane()) {
        has = take_large(heap, w, both) ? 1 : 0;
        for (uint32_t i = 0; i < 2 && has; i++) {
            const kd_child *d = &both->child[i];
            at[i] =
                d->shared != NULL ? (uint64_t)(uintptr_t)d->shared : (uint64_t)(uintptr_t)d->refs;
        }
    }
    wh_syncwarp(WH_FULL_WARP);
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t p = wh_shfl_u64(WH_FULL_WARP, at[i], 0);
        kd_child *d = &both->child[i];
        d->shared = d->n > w.k->shared_references ? (kd_shared *)(uintptr_t)p : NULL;
        d->refs = d->shared == NULL ? (uint32_t *)(uintptr_t)p : NULL;
        if (d->shared != NULL) {
            begin_bins(d->shared);
        }
    }
    return wh_shfl_u32(WH_FULL_WARP, has, 0) != 0;
}

/* Both children's arrays, none of which is large: two lanes ask at once, which takes the heap half
 * as long as one that asks twice. 0: there was no memory for both. All lanes. */
WH_FN int take_small(const wh_heap_ref *heap, kd_warp w, kd_children *both) {
    const uint32_t lane = wh_lane_id(), n = lane == 0 ? both->child[0].n : both->child[1].n;
    const int wants = lane < 2 && n != 0;
    uint32_t *p = (uint32_t *)heap_take_each(heap, wants ? array_bytes(n) : 0);
    const uint32_t failed = wh_popc32(wh_ballot(WH_FULL_WARP, wants && p == NULL));
    if (failed != 0) {
        WH_PLANT(shared_untake_small, heap_give_each(heap, p), (void)0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        kd_child *d = &both->child[i];
        d->refs = (uint32_t *)(uintptr_t)wh_shfl_u64(WH_FULL_WARP, (uint64_t)(uintptr_t)p, i);
        if (is_first_lane() && failed == 0 && d->n != 0) {
            count_array(w.own, d->n);
        }
    }
    if (is_first_lane()) {
        w.own->tally.failed += WH_PLANT(shared_failed, failed, 0);
    }
    return failed == 0;
}

/* Room for both children of a node with n references, of nodes, references and arrays; or for
 * nothing. All lanes. */
WH_FN kd_children take_children(const wh_heap_ref *heap, kd_warp w, const kd_choice *c,
                                uint32_t n) {
    const uint64_t more = (uint64_t)c->n_left + c->n_right - n;
    kd_children both;
    memset(&both, 0, sizeof both);
    both.child[0].n = c->n_left;
    both.child[1].n = c->n_right;
    if (is_first_lane()) {
        both.first = take_numbers(w, more);
    }
    both.first = wh_shfl_u32(WH_FULL_WARP, both.first, 0);
    if (both.first == 0) {
        return both;
    }
    const int is_small =
        c->n_left <= w.k->shared_references && c->n_right <= w.k->shared_references;
    if (!(is_small ? take_small(heap, w, &both) : take_large_warp(heap, w, &both))) {
        if (is_first_lane()) {
            untake_numbers(w, more);
        }
        both.first = 0;
    }
    wh_syncwarp(WH_FULL_WARP);
    return both;
}

/* The place of a child's reference. Any lane. */
WH_FN uint32_t *child_place(const whi_kdtree *k, const kd_child *c, uint32_t i) {
    wh_assert_internal(i < c->n);
    return c->shared != NULL ? place_of(k, c->shared, i) : &c->refs[i];
}

/* The task of a child, left (0) or right. All lanes. */
WH_FN whi_kd_task child_task(const whi_kd_task *t, const kd_choice *c, const kd_children *both,
                             uint32_t which) {
    whi_kd_task child;
    const kd_child *const d = both->child;
    child.refs = which == 0 ? d[0].refs : d[1].refs; /* no array that is indexed */
    child.shared = which == 0 ? d[0].shared : d[1].shared;
    child.node = both->first + which;
    child.n = which == 0 ? d[0].n : d[1].n;
    child.depth = t->depth + WH_PLANT(shared_depth, 1u, 0u);
    child.unused = 0;
    child.box = child_box(t->box, c->axis, c->split, (int)which);
    return child;
}

/* Tasks of both children, of which the left one is the first to be done. One that has no references
 * is a leaf at once. The record of a large one has its fields, too. All lanes. */
WH_FN void add_children(kd_warp w, const whi_kd_task *t, const kd_choice *c,
                        const kd_children *both) {
    WH_NO_UNROLL
    for (uint32_t i = 2; i-- > WH_PLANT(shared_child, 0u, 1u);) {
        const whi_kd_task child = child_task(t, c, both, i);
        if (child.n != 0) {
            add_task(w, &child);
        } else if (is_first_lane()) {
            WH_PLANT(shared_empty, write_leaf(w, &child, 0, 0), (void)0);
        }
        if (child.shared != NULL && is_first_lane()) {
            child.shared->task = WH_PLANT(shared_task, child, child.shared->task);
        }
    }
}

#endif
