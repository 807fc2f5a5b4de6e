/* tessera.c: workloads that find the faults planted in alloc/tessera. */
#define WH_ALLOCATOR tessera

#include "fault/fault.h"

#include <string.h>

#include "warpheap/warpheap.h"

/* The shard is one of a heap that has been exhausted for a while: takes look at the lists first,
 * without pinning slabs. */
WH_FN wh_tessera_shard *shard_of_empty_pool(const wh_tessera_core *g) {
    wh_tessera_shard *own_shard = wh_tessera_shard_at_(*g, 0);
    wh_add_u32_relaxed(&own_shard->takes_begun, WH_TESSERA_POOL_TURN + 1);
    wh_add_u32_relaxed(&own_shard->takes_done, WH_TESSERA_POOL_TURN + 1);
    wh_store_u32_relaxed(&own_shard->pool_was_empty, 1);
    return own_shard;
}

/* Every lane takes and gives blocks of all sizes up to `most`, most of them of few sizes, so that
 * slabs change class all the time. A block is written by its owner and verified before the free.
 * With one block a lane no malloc may fail if there are as many chunks as lanes, since each pins
 * one chunk at most, or as many slots, if all are of one size (X1, I6). */
WH_KERNEL(tessera_churn, workload_args, a) {
    const uint64_t i = wh_thread_id();
    uint32_t random = a.seed * 7919u + (uint32_t)i * 104729u + 1u;
    uint64_t *held[2] = {NULL, NULL};
    uint32_t words[2] = {0, 0};
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint32_t s = next(&random) % a.holds;
        if (held[s] != NULL) {
            for (uint32_t k = 0; k < words[s]; k++) {
                if (held[s][k] != (i << 32) + ((uint64_t)s << 16) + k) {
                    wh_add_u32_relaxed(&a.found->overlaps, 1);
                }
            }
            wh_free(a.heap, held[s]);
            held[s] = NULL;
        } else {
            const uint32_t pick = next(&random);
            words[s] = a.most / 8;
            if (a.least != a.most) {
                words[s] = pick % 4 == 0 ? 2 + pick / 4 % (words[s] - 2) : words[s] >> pick / 4 % 2;
            }
            held[s] = (uint64_t *)wh_malloc(a.heap, words[s] * 8);
            wh_add_u32_relaxed(&a.found->nulls, held[s] == NULL);
            for (uint32_t k = 0; held[s] != NULL && k < words[s]; k++) {
                held[s][k] = (i << 32) + ((uint64_t)s << 16) + k;
            }
        }
    }
    wh_free(a.heap, held[0]);
    wh_free(a.heap, held[1]);
}

/* Every lane has one block at a time: a run of `holds` chunks, a slot, or a run that is aligned to
 * as much (3 kinds). No malloc may fail (X1): wherever the blocks of the others lie, enough chunks
 * in a row are free. With kinds = 0 all ask for a run, and one fits: no malloc may fail while no
 * other lane has a block, is about to have one or has just had one (X2). */
WH_KERNEL(tessera_runs, workload_args, a) {
    const uint64_t i = wh_thread_id(), run = (uint64_t)a.holds << a.heap.core.chunk_log2;
    const uint32_t kinds = a.kinds != 0 ? a.kinds : 1, enter = 0x10001; /* entries, lanes inside */
    uint32_t random = a.seed * 7919u + (uint32_t)i * 104729u + 1u;
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint32_t pick = next(&random) % kinds;
        const uint64_t words = (pick == 1 ? a.most : run) / 8;
        const uint32_t before = wh_fetch_add_u32_acq_rel(&a.found->inside, enter) + enter;
        uint64_t *p = pick == 2 ? (uint64_t *)wh_aligned_alloc(a.heap, run, run)
                                : (uint64_t *)wh_malloc(a.heap, words * 8);
        const uint32_t after = wh_fetch_add_u32_acq_rel(&a.found->inside, 0);
        const int alone = before == after && (before & 0xffff) == 1;
        const int wrong = p == NULL || (pick == 2 && (uintptr_t)p % run != 0);
        wh_add_u32_relaxed(&a.found->nulls, wrong && (a.kinds != 0 || alone));
        for (uint64_t k = 0; p != NULL && k < words; k += 61) {
            p[k] = (i << 32) + k;
        }
        for (uint64_t k = 0; p != NULL && k < words; k += 61) {
            wh_add_u32_relaxed(&a.found->overlaps, p[k] != (i << 32) + k);
        }
        wh_free(a.heap, p);
        (void)wh_fetch_add_u32_acq_rel(&a.found->inside, (uint32_t)-1);
    }
}

/* One lane takes from the spare span of a cursor as one that has found the span used up does, then
 * asks for blocks of another class until there are none: they must have had its rest (X1). */
WH_KERNEL(tessera_spare, workload_args, a) {
    const uint32_t c = wh_tessera_class_of(a.most);
    wh_tessera_cursor *cursor = wh_tessera_cursor_at_(a.heap.core, 0, c);
    const wh_mask me = wh_activemask();
    uint64_t v = wh_tessera_span(0, 1, 2); /* used up */
    uint32_t attach = 0;
    void **last = NULL; /* the block got last: each starts with the address of the one before */
    void **p = (void **)wh_tessera_spare_(a.heap, cursor, a.heap.classes[c], me,
                                          wh_group_by_u32(me, c), 1, &attach, &v, NULL);
    if (p == NULL) {
        p = (void **)wh_tessera_ask_(wh_tessera_core_of_(a.heap), &a.heap.shards[0], 0, me, 0, c,
                                     attach, v, NULL, a.most);
    }
    const int had_rest = wh_tessera_has_slots_(wh_load_u64_relaxed(&cursor->spare));
    while (p != NULL) {
        *p = last;
        last = p;
        p = (void **)wh_malloc(a.heap, a.least);
    }
    a.found->nulls = !had_rest || wh_tessera_has_slots_(wh_load_u64_relaxed(&cursor->spare));
    while (last != NULL) {
        p = last;
        last = (void **)*p;
        wh_free(a.heap, p);
    }
}

/* Whether a request for class c is told that there is nothing. */
WH_FN uint32_t is_none(const wh_tessera_core *g, uint32_t c) {
    uint64_t number = WH_TESSERA_NO_NUMBER;
    return wh_tessera_none_(g, wh_activemask(), 0, c, 1, 1, &number) == WH_TESSERA_NONE;
}

/* While somebody holds slots of the only chunk in the midst of a take, or a free has made it empty
 * and not put it into the pool yet, nobody may learn that there is nothing: neither who wants a
 * slot, of any class, nor who wants a run (X1). `most`: a class of several words; `least`: of one.
 */
WH_KERNEL(tessera_under_way, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const wh_mask me = wh_activemask();
    const uint32_t c = wh_tessera_class_of(a.most), other = wh_tessera_class_of(a.least);
    const uint64_t taken = wh_tessera_slab_tag(other, 0, a.least);
    const uint64_t several = wh_tessera_slab_tag(c, 0, a.most);
    uint64_t *tag = wh_tessera_tag_at_(*g, 0);
    const uint64_t got = wh_veb_claim_mask(wh_tessera_pool_(*g), 0, 1);
    uint32_t wrong = got != 1 || wh_tessera_tag_slots(several, g->chunk_log2) <= 64;
    wrong += is_none(g, c); /* shut: its tag is FREE */
    *tag = several;
    wrong += is_none(g, c); /* its tag was read before that */
    *tag = taken;
    *wh_tessera_words_of_(*g, 0) = 0;
    (void)wh_tessera_begin_take_(*g, 0);
    wrong += is_none(g, c);
    wh_tessera_end_take_(*g, 0);
    wh_add_u32_relaxed(&wh_tessera_shard_at_(*g, 0)->takes_begun, 1);
    wrong += is_none(g, c);
    wh_store_u32_relaxed(&wh_tessera_header_(*g)->run_lock, 1);
    wrong += wh_tessera_run_locked_(g, me, wh_mask_leader(me), 0, 1, 1, 1) != WH_TESSERA_WAIT;
    wh_store_u32_relaxed(&wh_tessera_header_(*g)->run_lock, 0);
    wh_tessera_end_take_(*g, 0);
    wrong += 1 - is_none(g, c); /* quiet: nothing is left */
    *tag = WH_TESSERA_FREE;
    *wh_tessera_words_of_(*g, 0) = 0;
    (void)wh_veb_insert_mask(wh_tessera_pool_(*g), 0, got);
    a.found->nulls = wrong;
}

/* A taker is in a slab of several words while another lane frees all of it: who leaves last owns it
 * (I5), and what the other lane did to its blocks comes before what the next owner does (P1). */
WH_KERNEL(tessera_late_unpin, workload_args, a) {
    const wh_tessera_core g = *wh_tessera_core_of_(a.heap);
    const uint32_t slots = (1u << g.chunk_log2) / a.most;
    uint32_t *step = &a.found->inside, attempt = 0;
    if (wh_thread_id() == 0) {
        uint64_t *last = NULL; /* each starts with the address of the one before */
        for (uint32_t i = 0; i < slots; i++) {
            uint64_t *p = (uint64_t *)wh_malloc(a.heap, a.most);
            wh_add_u32_relaxed(&a.found->nulls, p == NULL);
            if (p != NULL) {
                *p = (uint64_t)(uintptr_t)last;
                last = p;
            }
        }
        wh_store_u32_relaxed(step, 1);
        while (wh_load_u32_relaxed(step) != 2) {
            wh_backoff(attempt++);
        }
        while (last != NULL) {
            uint64_t *before = (uint64_t *)(uintptr_t)*last;
            wh_free(a.heap, last);
            last = before;
        }
    } else {
        while (wh_load_u32_relaxed(step) != 1) {
            wh_backoff(attempt++);
        }
        while (!wh_tessera_pin_(g, 0)) { /* an old value of the state is EMPTY */
            wh_backoff(attempt++);
        }
        wh_store_u32_relaxed(step, 2);
        while (wh_load_u32_relaxed(wh_tessera_state_at_(g, 0)) !=
               WH_TESSERA_EMPTY + WH_TESSERA_PINNER) {
            wh_backoff(attempt++);
        }
        wh_tessera_unpin_(g, 0, 0, 0);
        uint64_t *p = (uint64_t *)wh_malloc(a.heap, a.most);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL); /* the chunk is in the pool */
        if (p != NULL) {
            *p = 0;
        }
        wh_free(a.heap, p);
    }
}

/* A taker has seen a block of a pack, which then goes back; the next pack in the same chunks has
 * another block in that slot, free, too. Whatever the taker gets must be a free block of this one.
 * Two rounds: the chunk in which that slot is differs in its tag, or the first one does as well. */
WH_KERNEL(tessera_late_pack, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t lane = wh_lane_id(), free_slot = 27;
    for (uint32_t first = 0; first < 2; first++) {
        wh_tessera_pack_view view = {0, 0, 0, 0, 0};
        const unsigned char *seen = NULL; /* the pack */
        for (uint32_t life = 0; life < 2; life++) {
            const uint32_t shift = lane >= 16 || first != 0 ? life : 0;
            const uint32_t granules = 4 + (lane + shift) % 4; /* four classes, 8 lanes each */
            wh_store_u32_relaxed(&a.heap.shards[0].pack_ticket, 0);
            unsigned char *p = (unsigned char *)wh_malloc_lanes(a.heap, ~0u, (size_t)granules * 32);
            const unsigned char *pack =
                (const unsigned char *)(uintptr_t)wh_shfl_u64(~0u, (uint64_t)(uintptr_t)p, 0);
            const uint32_t chunk = (uint32_t)((pack - a.heap.base) >> 10);
            uint32_t wrong = pack == NULL || (life != 0 && pack != seen) ||
                             !wh_tessera_is_pack(*wh_tessera_tag_at_(*g, chunk));
            seen = pack;
            if (lane == free_slot) {
                wh_free(a.heap, p);
            }
            wh_syncwarp(~0u);
            if (lane == 0 && life == 0) {
                view = wh_tessera_view_pack_(*g, chunk, 4);
                wrong |= view.fit == 0;
            } else if (lane == 0) {
                int raced = 0;
                const wh_tessera_grant grant =
                    wh_tessera_claim_block_(*g, 0, chunk, 4, view, &raced);
                const wh_tessera_pack_view now = wh_tessera_view_pack_(*g, chunk, 0);
                wrong |= (uint32_t)raced;
                wrong |= grant.bits == 0 ? WH_TESSERA_FIT_SLOT(now.fit) != free_slot
                                         : now.word != 0 || (view.tag != now.tag) ||
                                               (grant.at & 0xffff) !=
                                                   WH_TESSERA_FIT_START(wh_tessera_pack_fit_(
                                                       *g, chunk, now.tag, 1u << free_slot, 0));
                if (grant.bits != 0) {
                    wh_tessera_give_(*g, 0, chunk, now.tag, 0, grant.bits);
                }
            }
            wh_add_u32_relaxed(&a.found->nulls, wrong);
            wh_syncwarp(~0u);
            wh_free_lanes(a.heap, ~0u, lane == free_slot ? NULL : p);
        }
    }
}

/* Full warps have packs; then lanes free their blocks and take others, one by one, so that packs
 * are used up and have free blocks again all the time. Those of odd lanes stay: in the end many
 * packs have some free blocks, and must be on the partial list (I6). Then those go as well. */
WH_KERNEL(tessera_packs, workload_args, a) {
    const uint32_t lane = wh_lane_id();
    uint32_t random = a.seed * 7919u + (uint32_t)wh_thread_id() * 104729u + 1u;
    uint32_t words = a.least / 8 + next(&random) % ((a.most - a.least) / 8 + 1);
    uint64_t *p = (uint64_t *)wh_malloc_lanes(a.heap, ~0u, words * 8);
    for (uint32_t step = 0; step < a.steps; step++) {
        for (uint32_t k = 0; p != NULL && k < words; k++) {
            p[k] = (wh_thread_id() << 32) + k;
        }
        if (next(&random) % 2 != 0) {
            wh_syncwarp(wh_activemask());
        }
        for (uint32_t k = 0; p != NULL && k < words; k++) {
            if (p[k] != (wh_thread_id() << 32) + k) {
                wh_add_u32_relaxed(&a.found->overlaps, 1);
            }
        }
        wh_free(a.heap, p);
        p = (uint64_t *)wh_malloc(a.heap, words * 8);
    }
    a.kept[wh_thread_id()] = lane % 2 == 0 ? NULL : p;
    wh_free(a.heap, lane % 2 == 0 ? p : NULL);
}

WH_KERNEL(tessera_free_kept, workload_args, a) {
    wh_free(a.heap, a.kept[wh_thread_id()]);
}

/* All four slots of the only chunk are taken, and a malloc has been told so. One lane has freed one
 * of them and not put the slab on the partial list yet, another lane a second one, which need not:
 * its malloc may not be told of what was so before (X2). One lane plays both. In a block of a whole
 * warp the others make the second free with it. */
WH_KERNEL(tessera_verdict, workload_args, a) {
    const wh_tessera_core g = *wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.most);
    const int warp = wh_block_threads() == 32, plays = wh_lane_id() == 0;
    void *p[4] = {NULL, NULL, NULL, NULL};
    if (plays) {
        for (uint32_t k = 0; k < 4; k++) {
            p[k] = wh_malloc(a.heap, a.most);
            a.found->nulls += p[k] == NULL;
        }
        a.found->nulls += wh_malloc(a.heap, a.most) != NULL;
        const uint64_t slot = ((uintptr_t)p[3] - (uintptr_t)g.base) / a.most;
        (void)wh_fetch_or_u64_acq_rel(wh_tessera_words_of_(g, 0), (uint64_t)1 << slot);
    }
    if (warp) {
        wh_syncwarp(WH_FULL_WARP);
        wh_free_lanes(a.heap, WH_FULL_WARP, p[2]);
    } else {
        wh_free(a.heap, p[2]);
    }
    if (plays) {
        wh_store_u32_relaxed(wh_tessera_reuse_at_(wh_tessera_shard_at_(g, 0), c),
                             0); /* for another slab */
        p[2] = wh_malloc(a.heap, a.most);
        a.found->nulls += p[2] == NULL;
        const uint64_t tag = wh_load_u64_relaxed(wh_tessera_tag_at_(g, 0));
        wh_tessera_add_partial_(g, wh_tessera_list_of(g, tag), 0);
        for (uint32_t k = 0; k < 3; k++) {
            wh_free(a.heap, p[k]);
        }
    }
}

/* One lane holds all slots of the only chunk but one, and asks for another class, of which there is
 * nothing: its searches answer for all classes. A second lane has the last slot, frees it and asks
 * for one: no search that began before it did may be its answer (X3). */
WH_KERNEL(tessera_answered, workload_args, a) {
    const uint32_t slots = (1u << a.heap.core.chunk_log2) / a.least;
    uint32_t *ready = &a.found->inside, attempt = 0;
    void *kept[8] = {NULL};
    if (wh_thread_id() == 0) {
        for (uint32_t k = 0; k + 1 < slots; k++) {
            kept[k] = wh_malloc(a.heap, a.least);
        }
        wh_store_u32_release(ready, 1);
        while (wh_load_u32_acquire(ready) == 1) {
            wh_add_u32_relaxed(&a.found->nulls, wh_malloc(a.heap, a.most) != NULL);
        }
        for (uint32_t k = 0; k + 1 < slots; k++) {
            wh_free(a.heap, kept[k]);
        }
        return;
    }
    while (wh_load_u32_acquire(ready) == 0) {
        wh_backoff(attempt++);
    }
    for (uint32_t step = 0; step < a.steps; step++) {
        uint32_t *p = (uint32_t *)wh_malloc(a.heap, a.least);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        wh_free(a.heap, p);
    }
    wh_store_u32_release(ready, 2);
}

/* A late taker, who knows the slab as one of a class with more slots, holds a bit past the last
 * slot of its last word: the first slot of that word, which is free, is not to be had meanwhile
 * (T1). One lane plays both. */
WH_KERNEL(tessera_late_slot, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.most), slots = (1u << g->chunk_log2) / a.most;
    const uint32_t word = slots >> 6, step = a.heap.classes[c].slot_size;
    wh_tessera_shard *own_shard = shard_of_empty_pool(g);
    uint64_t *at = wh_tessera_words_of_(*g, 0) + word;
    const uint64_t past = (uint64_t)1 << (slots & 63);
    unsigned char *first = (unsigned char *)wh_malloc(a.heap, a.most);
    for (uint32_t i = 1; i < slots; i++) { /* of the only chunk */
        a.found->nulls += wh_malloc(a.heap, a.most) != first + (uint64_t)i * step;
    }
    wh_free(a.heap, first + (uint64_t)word * 64 * step);
    (void)wh_fetch_and_u64_acq_rel(at, ~past);
    wh_store_u32_relaxed(&own_shard->pool_was_empty, 1);
    a.found->nulls += wh_tessera_take_from_(*g, 0, c, 0, 1, 0).bits != 0;
    a.found->nulls += wh_tessera_take_each_(g, own_shard, 0, c, 1).bits != 0;
    (void)wh_fetch_or_u64_acq_rel(at, past);
    for (uint32_t i = 0; i < slots; i++) {
        wh_free(a.heap, i == word * 64 ? NULL : first + (uint64_t)i * step);
    }
}

/* Only the first slot of the last word of a slab is free. One lane, as such a late taker, takes a
 * bit past the last slot and gives it back, all the time; another one takes the slot, between enter
 * and leave. Never do both have theirs (T1). */
WH_KERNEL(tessera_late_ends, workload_args, a) {
    const wh_tessera_core g = *wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.most), slots = (1u << g.chunk_log2) / a.most;
    const uint32_t word = slots >> 6, step = a.heap.classes[c].slot_size;
    const uint64_t bit = (uint64_t)1 << 63;
    uint64_t *at = wh_tessera_words_of_(g, 0) + word;
    uint32_t *stage = &a.found->inside, attempt = 0; /* 1, or 2 while the former has its bit; 3 */
    if (wh_thread_id() != 0) {
        while (wh_load_u32_acquire(stage) == 0) {
            wh_backoff(attempt++);
        }
        while (wh_load_u32_relaxed(stage) != 3) {
            const wh_tessera_grant grant = wh_tessera_take_from_(g, 0, c, 0, 1, 0);
            wh_add_u32_relaxed(&a.found->overlaps,
                               grant.bits != 0 && wh_load_u32_relaxed(stage) == 2);
            wh_free(a.heap, wh_tessera_granted_slot_(wh_tessera_core_of_(a.heap), a.heap.classes[c],
                                                     grant, 0));
        }
        return;
    }
    unsigned char *first = (unsigned char *)wh_malloc(a.heap, a.most);
    for (uint32_t i = 1; i < slots; i++) { /* of the only chunk */
        a.found->nulls += wh_malloc(a.heap, a.most) != first + (uint64_t)i * step;
    }
    const uint64_t tag = *wh_tessera_tag_at_(g, 0);
    wh_free(a.heap, first + (uint64_t)word * 64 * step);
    wh_store_u32_release(stage, 1);
    for (uint32_t k = 0; k < a.steps; k++) {
        if ((wh_fetch_and_u64_acq_rel(at, ~bit) & bit) != 0) {
            wh_store_u32_relaxed(stage, 2);
            wh_backoff(0);
            wh_store_u32_relaxed(stage, 1);
            wh_tessera_give_(g, 0, 0, tag, word, bit);
        }
    }
    wh_store_u32_relaxed(stage, 3);
    for (uint32_t i = 0; i < slots; i++) {
        wh_free(a.heap, i == word * 64 ? NULL : first + (uint64_t)i * step);
    }
}

/* Two lanes take and free the only slot that a slab has free, the first of its last word, between
 * enter and leave. Only what has been freed may be counted as freed (X2). */
WH_KERNEL(tessera_nothing, workload_args, a) {
    const wh_tessera_core g = *wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.most), slots = (1u << g.chunk_log2) / a.most;
    const uint32_t last = slots & ~63u, step = a.heap.classes[c].slot_size;
    uint32_t *stage = &a.found->inside, *taken = &a.found->overlaps;
    uint32_t *frees = &wh_tessera_shard_at_(g, 0)->frees, before = 0;
    unsigned char *first = NULL;
    if (wh_thread_id() == 0) {
        first = (unsigned char *)wh_malloc(a.heap, a.most);
        for (uint32_t i = 1; i < slots; i++) { /* of the only chunk */
            a.found->nulls += wh_malloc(a.heap, a.most) != first + (uint64_t)i * step;
        }
        wh_free(a.heap, first + (uint64_t)last * step);
        before = wh_load_u32_relaxed(frees);
        wh_store_u32_release(stage, 1);
    }
    for (uint32_t attempt = 0; wh_load_u32_acquire(stage) == 0; attempt++) {
        wh_backoff(attempt);
    }
    for (uint32_t k = 0; k < a.steps; k++) {
        const wh_tessera_grant grant = wh_tessera_take_from_(g, 0, c, 0, 1, 0);
        wh_add_u32_relaxed(taken, grant.bits != 0);
        wh_free(a.heap,
                wh_tessera_granted_slot_(wh_tessera_core_of_(a.heap), a.heap.classes[c], grant, 0));
    }
    wh_add_u32_release(stage, 1);
    for (uint32_t attempt = 0; first != NULL && wh_load_u32_acquire(stage) != 3; attempt++) {
        wh_backoff(attempt);
    }
    if (first != NULL) {
        const uint32_t freed = wh_load_u32_relaxed(frees) - before;
        wh_store_u32_relaxed(taken, freed != wh_load_u32_relaxed(taken));
        for (uint32_t i = 0; i < slots; i++) {
            wh_free(a.heap, i == last ? NULL : first + (uint64_t)i * step);
        }
    }
}

/* The lanes of a warp free slots of one slab, of which the last is kept. When a lane returns, its
 * slot is free, whoever has freed it. */
WH_KERNEL(tessera_warp, workload_args, a) {
    const wh_tessera_core g = *wh_tessera_core_of_(a.heap);
    const uint32_t lane = wh_lane_id();
    unsigned char *kept = NULL;
    for (uint32_t step = 0; step < a.steps; step++) {
        unsigned char *p = kept == NULL ? (unsigned char *)wh_malloc(a.heap, a.most) : NULL;
        kept = lane == 31 && p != NULL ? p : kept;
        const uint64_t slot = ((uintptr_t)p - (uintptr_t)g.base) / a.most;
        wh_syncwarp(WH_FULL_WARP);
        wh_free_lanes(a.heap, WH_FULL_WARP, p == kept ? NULL : p);
        wh_add_u32_relaxed(&a.found->nulls,
                           kept == NULL &&
                               (wh_load_u64_relaxed(wh_tessera_words_of_(g, 0)) >> slot & 1) == 0);
        wh_syncwarp(WH_FULL_WARP);
    }
    wh_free(a.heap, kept);
}

/* Full warps take slabs of their own, of two classes in turn, in chunks that had been the other's:
 * behind malloc each lane sees the tag, which other lanes may have stored (P2). */
WH_KERNEL(tessera_slabs, workload_args, a) {
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint32_t n = a.most << ((step + (wh_thread_id() >> 5)) & 1);
        void *p = wh_malloc_lanes(a.heap, WH_FULL_WARP, n);
        wh_add_u32_relaxed(&a.found->overlaps, p != NULL && wh_usable_size(a.heap, p) != n);
        wh_free_lanes(a.heap, WH_FULL_WARP, p);
    }
}

/* A chunk becomes a slab of several words, of another class than it was; its owner frees a slot.
 * Who looks for slots of the class that it was finds none: as soon as it may pin, it sees the new
 * tag (P7). With holds = 2 it does not pin, but looks again at the tag (T1). */
WH_KERNEL(tessera_formatted, workload_args, a) {
    const wh_tessera_core g = *wh_tessera_core_of_(a.heap);
    const uint32_t before = wh_tessera_class_of(a.least), after = wh_tessera_class_of(a.most);
    const uint64_t *tags = wh_tessera_header_(g)->slab_tags;
    uint64_t *words = wh_tessera_words_of_(g, 0);
    uint32_t *stage = &a.found->inside;
    const int each = a.holds == 2;
    wh_tessera_shard *own_shard =
        wh_thread_id() != 0 ? shard_of_empty_pool(wh_tessera_core_of_(a.heap)) : NULL;
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint32_t from = 4 * step, word = step % 2;
        if (wh_thread_id() != 0) {
            for (uint32_t attempt = 0; wh_load_u32_acquire(stage) <= from; attempt++) {
                wh_backoff(attempt);
            }
            while (wh_load_u32_relaxed(stage) == from + 1) {
                wh_tessera_grant grant;
                if (each) {
                    wh_tessera_add_partial_(g, before, 0);
                    grant =
                        wh_tessera_take_each_(wh_tessera_core_of_(a.heap), own_shard, 0, before, 1);
                } else {
                    grant = wh_tessera_take_from_(g, 0, before, 0, 1, 0);
                }
                wh_add_u32_relaxed(&a.found->overlaps, grant.bits != 0);
            }
            wh_store_u32_release(stage, from + 3);
            continue;
        }
        wh_add_u32_relaxed(&a.found->overlaps, !wh_tessera_claim_n_(g, 0, 1));
        wh_store_u64_relaxed(wh_tessera_tag_at_(g, 0), tags[before]);
        wh_store_u32_release(stage, from + 1);
        wh_backoff(0);
        wh_tessera_format_(g, tags[after], 0, 1, 0, 1, 0);
        wh_backoff(1);
        (void)wh_fetch_or_u64_acq_rel(&words[word], 1);
        wh_backoff(0);
        wh_store_u32_release(stage, from + 2);
        for (uint32_t attempt = 0; wh_load_u32_acquire(stage) != from + 3; attempt++) {
            wh_backoff(attempt);
        }
        wh_store_u64_relaxed(&words[word], 0);
        wh_store_u64_relaxed(wh_tessera_tag_at_(g, 0), WH_TESSERA_FREE);
        wh_store_u32_relaxed(wh_tessera_state_at_(g, 0), WH_TESSERA_EMPTY);
        wh_tessera_put_chunks_(g, 0, 0, 1);
    }
    if (wh_thread_id() == 0) {
        wh_store_u32_relaxed(stage, 0);
    }
}

/* All slots of the only chunk are taken and freed, of two classes in turn. A second lane takes
 * slots of one of these classes from partial slabs, without pinning: what it gets is a slot of a
 * slab of that class (T1), which stays until it has given it back (I4), and its own (P1). */
WH_KERNEL(tessera_each, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.least);
    uint32_t *stage = &a.found->inside, attempt = 0;
    if (wh_thread_id() != 0) {
        while (wh_load_u32_acquire(stage) == 0) {
            wh_backoff(attempt++);
        }
        while (wh_load_u32_relaxed(stage) == 1) {
            const wh_tessera_grant grant =
                wh_tessera_take_each_(g, wh_tessera_shard_at_(*g, 0), 0, c, 1);
            uint64_t *p = (uint64_t *)wh_tessera_granted_slot_(g, a.heap.classes[c], grant, 0);
            if (p != NULL) {
                const uint64_t tag = wh_load_u64_relaxed(wh_tessera_tag_at_(*g, 0));
                wh_add_u32_relaxed(&a.found->overlaps,
                                   wh_tessera_tag_class(tag) != c ||
                                       wh_veb_contains(wh_tessera_pool_(*g), 0));
                *p = 0;
            }
            wh_free(a.heap, p);
        }
        return;
    }
    wh_tessera_shard *own_shard = shard_of_empty_pool(g);
    wh_store_u32_release(stage, 1);
    for (uint32_t step = 0; step < a.steps; step++) {
        uint64_t *last = NULL; /* each starts with the address of the one before */
        for (uint64_t *p;
             (p = (uint64_t *)wh_malloc(a.heap, step % 2 == 0 ? a.least : a.most)) != NULL;) {
            *p = (uint64_t)(uintptr_t)last;
            last = p;
        }
        wh_store_u32_relaxed(&own_shard->pool_was_empty, 1);
        while (last != NULL) {
            uint64_t *before = (uint64_t *)(uintptr_t)*last;
            wh_free(a.heap, last);
            last = before;
        }
    }
    wh_store_u32_relaxed(stage, 2);
}

/* A slab without a free slot is still on the list, and a taker is about to take it off when one is
 * freed: whatever comes first, if that slot is free in the end, the slab goes on the partial list
 * (I6). */
WH_KERNEL(tessera_not_partial, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.most), slots = (1u << g->chunk_log2) / a.most;
    const wh_veb list = wh_tessera_partial_list_(*g, c);
    uint32_t *stage = &a.found->inside;
    wh_tessera_shard *own_shard =
        wh_thread_id() == 0 ? shard_of_empty_pool(g) : wh_tessera_shard_at_(*g, 0);
    void *first = wh_thread_id() == 0 ? wh_malloc(a.heap, a.most) : NULL;
    for (uint32_t i = 1; wh_thread_id() == 0 && i < slots; i++) {
        (void)wh_malloc(a.heap, a.most);
    }
    for (uint32_t step = 0; step < a.steps; step++) {
        if (wh_thread_id() != 0) {
            for (uint32_t attempt = 0; wh_load_u32_acquire(stage) != 2 * step + 1; attempt++) {
                wh_backoff(attempt);
            }
            const wh_tessera_grant grant = wh_tessera_take_each_(g, own_shard, 0, c, 1);
            wh_free(a.heap, wh_tessera_granted_slot_(g, a.heap.classes[c], grant, 0));
            wh_store_u32_release(stage, 2 * step + 2);
            continue;
        }
        wh_store_u32_relaxed(&own_shard->pool_was_empty, 1);
        for (uint32_t i = 0; i < WH_TESSERA_REUSES; i++) {
            wh_store_u32_relaxed(&own_shard->cursors[c].reuse[i], 0);
        }
        wh_tessera_add_partial_(*g, c, 0);
        wh_store_u32_release(stage, 2 * step + 1);
        wh_backoff(0);
        wh_free(a.heap, first);
        for (uint32_t attempt = 0; wh_load_u32_acquire(stage) != 2 * step + 2; attempt++) {
            wh_backoff(attempt);
        }
        a.found->lost += !wh_veb_contains(list, 0);
        void *again = wh_malloc(a.heap, a.most);
        a.found->nulls += again != first; /* there is no other */
    }
    for (uint32_t i = 0; wh_thread_id() == 0 && i < slots; i++) {
        wh_free(a.heap, (unsigned char *)first + (uint64_t)i * wh_usable_size(a.heap, first));
    }
}

/* A slab of another class, the only chunk, goes back to the pool, again and again. As soon as that
 * is counted a second lane searches for all, and takes nothing: what its verdict says of the time
 * before holds no longer (X2), so it has seen the chunk (P6). */
WH_KERNEL(tessera_counted, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const wh_mask me = wh_activemask();
    const uint32_t c = wh_tessera_class_of(a.most), other = wh_tessera_class_of(a.least);
    const uint32_t *events = &wh_tessera_shard_at_(*g, 0)->events;
    uint32_t *stage = &a.found->inside, *lock = &wh_tessera_header_(*g)->search_lock;
    for (uint32_t step = 0; step < a.steps; step++) {
        if (wh_thread_id() != 0) {
            for (uint32_t attempt = 0; wh_load_u32_acquire(stage) != 2 * step + 1; attempt++) {
                wh_backoff(attempt);
            }
            while (wh_load_u32_relaxed(events) != step + 1) {
                wh_backoff(0);
            }
            (void)wh_exchange_u32_acquire(lock, 1);
            (void)wh_tessera_search_(g, me, 0, c, 0);
            wh_store_u32_release(lock, 0);
            wh_store_u32_release(stage, 2 * step + 2);
            continue;
        }
        a.found->overlaps += !wh_tessera_claim_n_(*g, 0, 1);
        wh_store_u64_relaxed(wh_tessera_tag_at_(*g, 0), wh_tessera_slab_tag(other, 0, a.least));
        wh_store_u32_release(stage, 2 * step + 1);
        wh_tessera_put_chunks_(*g, 0, 0, 1);
        for (uint32_t attempt = 0; wh_load_u32_acquire(stage) != 2 * step + 2; attempt++) {
            wh_backoff(attempt);
        }
        a.found->nulls += (uint32_t)wh_tessera_oom_known_(*g, me, 1, c, 0, WH_TESSERA_NO_NUMBER, 1);
    }
}

/* All slots of two chunks are taken. A lane frees one, then asks, together with another lane of its
 * warp in blocks of two; nothing tells of that but the number that they get. The other block
 * searches for all: it sees that slot, whichever of its lanes looks there, and does not answer that
 * there is none (P8, X3). */
WH_KERNEL(tessera_asked, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.most), lane = wh_lane_id();
    const uint32_t lanes = wh_block_threads(), all = (1u << lanes) - 1;
    uint32_t *stage = &a.found->inside, *lock = &wh_tessera_header_(*g)->search_lock;
    const int asks = wh_block_id() == 0, leads = lane == 0;
    void *p[4] = {NULL, NULL, NULL, NULL};
    for (uint32_t k = 0; asks && k < 4; k++) {
        void *q = leads ? wh_malloc(a.heap, a.most) : NULL;
        p[k] = (void *)(uintptr_t)wh_shfl_u64(all, (uint64_t)(uintptr_t)q, 0);
        wh_add_u32_relaxed(&a.found->nulls, p[k] == NULL);
    }
    if (asks && leads) {
        wh_store_u32_release(stage, 1);
    }
    for (uint32_t attempt = 0; wh_load_u32_acquire(stage) == 0; attempt++) {
        wh_backoff(attempt);
    }
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint32_t asked = 2 * step + 2, k = step % 4;
        if (!asks) {
            for (uint32_t attempt = 0; wh_load_u32_relaxed(stage) != asked; attempt++) {
                wh_backoff(attempt);
            }
            if (leads) {
                (void)wh_exchange_u32_acquire(lock, 1);
            }
            (void)wh_tessera_search_(g, all, 0, c, 0);
            wh_syncwarp(all);
            if (leads) {
                wh_store_u32_release(lock, 0);
                wh_store_u32_release(stage, asked + 1);
            }
            continue;
        }
        const int frees = lane == step / 4 % lanes;
        uint64_t number = WH_TESSERA_NO_NUMBER;
        if (frees) {
            wh_free(a.heap, p[k]);
        }
        (void)wh_tessera_none_(g, all, 0, c, 0, 0, &number);
        if (leads) {
            wh_store_u32_relaxed(stage, asked); /* orders nothing */
        }
        for (uint32_t attempt = 0; wh_load_u32_acquire(stage) != asked + 1; attempt++) {
            wh_backoff(attempt);
        }
        const uint32_t found = wh_tessera_none_(g, all, 0, c, 0, 0, &number);
        wh_add_u32_relaxed(&a.found->nulls, found == WH_TESSERA_NONE);
        if (frees) {
            wh_add_u32_relaxed(&a.found->overlaps, wh_malloc(a.heap, a.most) != p[k]);
        }
        wh_syncwarp(all);
    }
    for (uint32_t k = 0; leads && k < 4; k++) {
        wh_free(a.heap, p[k]);
    }
}

/* A chunk's last owner has written to it (lane 0 of block 1). It becomes a slab that another lane
 * gets slots of (lane 2), by way of the warp of block 0, of which one lane has the chunk from whom
 * it was last, another one makes the slots free: what the former has acquired must have reached the
 * latter (P3). holds = 1: it was a cursor's (lane 1 of block 1), which the warp detaches; 2: the
 * warp gathers chunks, and leaves slots of the last one. Nothing else orders the four. */
WH_KERNEL(tessera_handed, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const wh_veb pool = wh_tessera_pool_(*g);
    const uint32_t c = wh_tessera_class_of(a.most), lane = wh_lane_id();
    const wh_tessera_class cls = a.heap.classes[c];
    const int detaches = a.holds == 1;
    wh_tessera_shard *own_shard = wh_tessera_shard_at_(*g, 0);
    uint32_t *stage = &a.found->inside, attempt = 0; /* | chunk << 8 */
    uint32_t mine = lane < 2 ? lane : 3;
    mine = wh_block_id() == 0 ? 2 : mine;
    if (wh_block_id() != 0 && (lane > 2 || (lane == 1 && !detaches))) {
        return;
    }
    while ((wh_load_u32_relaxed(stage) & 255) != mine) {
        wh_backoff(attempt++);
    }
    const uint32_t chunk = wh_load_u32_relaxed(stage) >> 8;
    if (mine == 0) {
        const uint64_t got = wh_veb_claim_mask(pool, 0, ~(uint64_t)0);
        for (uint64_t m = got; m != 0; m &= m - 1) {
            uint64_t *p = (uint64_t *)(void *)(g->base + ((uint64_t)wh_ctz64(m) << g->chunk_log2));
            for (uint32_t k = 0; k < 1u << g->chunk_log2; k += 16) {
                p[k / 8] = k;
            }
        }
        (void)wh_veb_insert_mask(pool, 0, got);
        wh_store_u32_relaxed(stage, detaches ? 1 : 2);
    } else if (mine == 1) {
        const uint32_t x = wh_ctz64(wh_load_u64_relaxed(wh_veb_word(pool, 0)));
        const uint64_t span = wh_tessera_span(x, cls.slots, 0);
        a.found->overlaps += !wh_tessera_claim_n_(*g, x, 1);
        wh_tessera_format_(*g, wh_tessera_header_of_(g)->slab_tags[c], x, 1, 0, 1, 1);
        wh_tessera_hold_(*g, 0, cls, 0, span);
        wh_tessera_publish_(own_shard, c, 0, span, 1); /* it has the first slot */
        wh_store_u32_relaxed(stage, x << 8 | 2);
        while ((wh_load_u32_relaxed(stage) & 255) != 4) {
            wh_backoff(attempt++);
        }
        wh_free(a.heap, g->base + ((uint64_t)x << g->chunk_log2));
    } else if (mine == 2) {
        wh_syncwarp(WH_FULL_WARP);
        unsigned char *p = NULL;
        uint32_t last = chunk;
        if (detaches) {
            (void)wh_tessera_detach_(g, WH_FULL_WARP, 0);
        } else {
            p = (unsigned char *)wh_tessera_gather_slots_(g, 0, c, NULL);
            const uint32_t at = p != NULL ? (uint32_t)((p - g->base) >> g->chunk_log2) : 0;
            last = wh_shfl_u32(WH_FULL_WARP, at, WH_WARP_SIZE - 1);
            wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        }
        if (lane == (detaches ? 0 : WH_WARP_SIZE - WH_WARP_SIZE % cls.slots)) { /* who gave it */
            wh_store_u32_relaxed(stage, last << 8 | 3);
        }
        while ((wh_load_u32_relaxed(stage) & 255) != 4) {
            wh_backoff(attempt++);
        }
        wh_syncwarp(WH_FULL_WARP);
        wh_free_lanes(a.heap, WH_FULL_WARP, p);
    } else {
        const wh_tessera_grant grant = wh_tessera_take_from_(*g, 0, c, chunk, 1, 0);
        uint64_t *p = (uint64_t *)wh_tessera_granted_slot_(g, cls, grant, 0);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        if (p != NULL) {
            *p = 1;
        }
        wh_free(a.heap, p);
        wh_store_u32_relaxed(stage, 4);
    }
}

/* All memory, in runs of two chunks side by side, of which the last two are free again. */
WH_KERNEL(tessera_fill, workload_args, a) {
    const uint64_t run = (uint64_t)2 << a.heap.core.chunk_log2;
    uint32_t n = 0;
    for (void *p; (p = wh_malloc(a.heap, run)) != NULL;) {
        a.kept[n++] = p;
    }
    for (uint32_t k = 0; k < 2; k++) {
        wh_free(a.heap, a.kept[--n]);
        a.kept[n] = NULL;
    }
}

/* Two warps look for chunks for a pack, of which there are not enough in a row: they get a part of
 * them now and then, and put it back, once. Lanes of as many other warps as chunks are free each
 * have one block at a time, which takes a chunk; none of their mallocs may fail (P4, X1). */
WH_KERNEL(tessera_scattered, workload_args, a) {
    const wh_tessera_core g = *wh_tessera_core_of_(a.heap);
    const uint32_t warp = wh_block_id(), lane = wh_lane_id(), words = 128 - 16 * (warp - 2);
    for (uint32_t step = 0; step < a.steps && warp < 2; step++) {
        wh_tessera_shard *own_shard = wh_tessera_shard_at_(g, 0);
        wh_store_u32_relaxed(&own_shard->skip_packs,
                             0); /* it tries where the shard puts the next one, */
        wh_store_u32_relaxed(&own_shard->pack_ticket, 56); /* which has the two chunks at its end */
        const uint32_t pack = wh_tessera_claim_pack_(g, own_shard, 0, 8);
        wh_add_u32_relaxed(&a.found->overlaps, pack != g.n_chunks);
    }
    for (uint32_t step = 0; step < a.steps && warp >= 2 && lane == 0; step++) {
        uint64_t *p = (uint64_t *)wh_malloc(a.heap, words * 8);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        for (uint32_t k = 0; p != NULL && k < words; k++) {
            p[k] = (uint64_t)warp << 32 | k;
        }
        wh_backoff(0);
        for (uint32_t k = 0; p != NULL && k < words; k++) {
            wh_add_u32_relaxed(&a.found->overlaps, p[k] != ((uint64_t)warp << 32 | k));
        }
        wh_free(a.heap, p);
    }
}

WH_KERNEL(tessera_drain, workload_args, a) {
    for (uint32_t i = 0; i < a.heap.core.n_chunks; i++) {
        wh_free(a.heap, a.kept[i]);
    }
}

static wh_status run_scattered(const wh_launch *launch, const workload_args *a) {
    const wh_launch alone = {launch->device, 1, 1, NULL};
    wh_status s = tessera_fill(&alone, a);
    s = s == WH_OK ? tessera_scattered(launch, a) : s;
    return s == WH_OK ? tessera_drain(&alone, a) : s;
}

/* --- the suite -------------------------------------------------------------------------------- */

/* The least heap of so many chunks, of which each takes more than its size: found by trying. */
static wh_status make(const workload *w, uint64_t seed, wh_heap_options *o, wh_any_options *own,
                      wh_heap **heap) {
    (void)seed, (void)own;
    wh_status s = wh_heap_min_bytes(o, &o->bytes); /* one chunk */
    for (;;) {
        wh_tessera_ref h;
        memset(&h, 0, sizeof h);
        s = s == WH_OK ? wh_heap_create(heap, o) : s;
        s = s == WH_OK ? wh_heap_handle(*heap, &h) : s;
        const uint32_t chunks = h.core.n_chunks;
        if (s != WH_OK || chunks >= w->pieces) {
            return s;
        }
        wh_heap_destroy(*heap);
        *heap = NULL;
        /* Most of the way at once. */
        const uint32_t lacking = w->pieces - chunks;
        o->bytes += lacking > 1 ? (uint64_t)(lacking - 1) * w->options[0].value : 256;
    }
}

#define HEAP(chunks, bytes_of_each, sets)                                         \
    .allocator = "tessera", .make = make, .handle_bytes = sizeof(wh_tessera_ref), \
    .pieces = (chunks), .options = {{"chunk_bytes", (bytes_of_each)}, {"shards", (sets)}}

/* may_fail: what all lanes ask for at once need not fit. */
static const workload workloads[] = {
    {"tessera-churn", tessera_churn, NULL, 8, 2, 60, 16, 512, 2, .may_fail = 1, HEAP(3, 1024, 1)},
    {"tessera-small", tessera_churn, NULL, 12, 2, 40, 16, 64, 2, .may_fail = 1, HEAP(3, 1024, 2)},
    {"tessera-chunks", tessera_churn, NULL, 1, 2, 200, 16, 128, 1, HEAP(2, 1024, 1)},
    {"tessera-slots", tessera_churn, NULL, 8, 2, 40, 64, 64, 1,
     HEAP(1, 1024, 1)}, /* 16 slots in the only chunk */
    {"tessera-quarters", tessera_churn, NULL, 2, 2, 600, 256, 256, 1,
     HEAP(1, 1024, 1)}, /* 4: it is often empty */
    {"tessera-halves", tessera_churn, NULL, 1, 2, 12000, 512, 512, 1, HEAP(1, 1024, 1)},
    {"tessera-spares", tessera_churn, NULL, 64, 2, 30, 512, 512, 1, HEAP(64, 1024, 1)},
    {"tessera-parts", tessera_churn, NULL, 128, 2, 12, 16, 128, 1,
     HEAP(256, 1024, 1)}, /* spans of several slabs */
    {"tessera-spare", tessera_spare, NULL, 1, 1, 1, 256, 512, 1, HEAP(256, 1024, 1)},
    {"tessera-under-way", tessera_under_way, NULL, 1, 1, 1, 512, 16, 1, HEAP(1, 2048, 1)},
    {"tessera-words", tessera_churn, NULL, 8, 2, 80, 16, 16, 1,
     HEAP(2, 2048, 1)}, /* two words a slab */
    {"tessera-turns", tessera_churn, NULL, 8, 2, 200, 16, 512, 1, .may_fail = 1,
     HEAP(4, 1024, 1)}, /* slabs often change class */
    {"tessera-wide-turns", tessera_churn, NULL, 8, 2, 1600, 16, 48, 1, .may_fail = 1,
     HEAP(2, 4096, 1)}, /* such of several words */
    {"tessera-runs", tessera_runs, NULL, 3, 2, 120, 64, 64, 2, .kinds = 3, HEAP(23, 1024, 2)},
    {"tessera-alone", tessera_runs, NULL, 2, 1, 400, 64, 64, 2, HEAP(2, 1024, 1)},
    {"tessera-warp", tessera_warp, NULL, 1, 32, 20, 64, 64, 1,
     HEAP(1, 2048, 1)}, /* a slot for each lane */
    {"tessera-verdict", tessera_verdict, NULL, 1, 1, 1, 256, 256, 1, HEAP(1, 1024, 1)},
    {"tessera-verdict-warp", tessera_verdict, NULL, 1, 32, 1, 256, 256, 1, HEAP(1, 1024, 1)},
    {"tessera-answered", tessera_answered, NULL, 2, 1, 60, 256, 512, 1, HEAP(1, 1024, 1)},
    {"tessera-late-slot", tessera_late_slot, NULL, 1, 1, 1, 512, 512, 1, HEAP(1, 1024, 1)},
    {"tessera-late-unpin", tessera_late_unpin, NULL, 2, 1, 1, 16, 16, 1, HEAP(1, 2048, 1)},
    {"tessera-late-pack", tessera_late_pack, NULL, 1, 32, 1, 16, 128, 1, HEAP(66, 1024, 1)},
    {"tessera-packs", tessera_packs, tessera_free_kept, 16, 32, 4, 128, 512, 1, .may_fail = 1,
     HEAP(66, 1024, 1)},
    {"tessera-scattered", run_scattered, NULL, 6, 32, 200, 16, 64, 1, HEAP(64, 1024, 1)},
    {"tessera-formatted", tessera_formatted, NULL, 2, 1, 40, 16, 32, 1, HEAP(1, 4096, 1)},
    {"tessera-formatted-each", tessera_formatted, NULL, 2, 1, 40, 16, 32, 2, HEAP(1, 4096, 1)},
    {"tessera-each", tessera_each, NULL, 2, 1, 100, 256, 512, 1, HEAP(1, 1024, 1)},
    {"tessera-each-words", tessera_each, NULL, 2, 1, 20, 48, 32, 1, HEAP(1, 4096, 1)},
    {"tessera-not-partial", tessera_not_partial, NULL, 2, 1, 200, 512, 512, 1, HEAP(1, 1024, 1)},
    {"tessera-late-words", tessera_late_slot, NULL, 1, 1, 1, 48, 48, 1, HEAP(1, 4096, 1)},
    {"tessera-late-ends", tessera_late_ends, NULL, 2, 1, 100, 48, 48, 1, HEAP(1, 4096, 1)},
    {"tessera-nothing", tessera_nothing, NULL, 2, 1, 100, 48, 48, 1, HEAP(1, 4096, 1)},
    {"tessera-counted", tessera_counted, NULL, 2, 1, 1000, 256, 512, 1, .stint = 128,
     HEAP(1, 1024, 1)},
    {"tessera-asked", tessera_asked, NULL, 2, 1, 40, 512, 512, 1, .weak = WEAK_FORMAL,
     HEAP(2, 1024, 1)}, /* two slots a chunk */
    {"tessera-asked-warp", tessera_asked, NULL, 2, 2, 40, 512, 512, 1, .weak = WEAK_FORMAL,
     HEAP(2, 1024, 1)},
    {"tessera-detached", tessera_handed, NULL, 2, 32, 1, 256, 256, 1, .weak = WEAK_NEVER,
     HEAP(64, 1024, 1)},
    {"tessera-gathered", tessera_handed, NULL, 2, 32, 1, 160, 160, 2, .weak = WEAK_NEVER,
     HEAP(64, 1024, 1)},
    {"tessera-slabs", tessera_slabs, NULL, 8, 32, 24, 512, 512, 1, .weak = WEAK_FORMAL,
     .may_fail = 1, HEAP(66, 16384, 1)},
    {.name = NULL},
};

static const fault faults[] = {
    {"free_waits", "tessera-warp",
     EVERYWHERE}, /* a lane returns before its leader has freed for it */
    {"tessera_back", "tessera-parts", EVERYWHERE}, /* chunks claimed with a span and not put back */
    {"tessera_i4", "tessera-small", EVERYWHERE},   /* slots out of a slab that its freer owns */
    {"tessera_i4_each", "tessera-each", EVERYWHERE}, /* ... by who has seen it before that */
    {"tessera_i4_each", "tessera-each-words", EVERYWHERE},
    {"tessera_i5", "tessera-wide-turns", EVERYWHERE}, /* a taker enters a slab that has been shut */
    {"tessera_i6", "tessera-small", EVERYWHERE},      /* a slab with free slots that nobody lists */
    {"tessera_i6_each", "tessera-not-partial",
     EVERYWHERE},                                     /* ... once it has been taken off the list */
    {"tessera_i6_pack", "tessera-packs", EVERYWHERE}, /* ... or a pack with free blocks */
    {"tessera_t1", "tessera-turns", EVERYWHERE},      /* no second look at the tag */
    {"tessera_t1_each", "tessera-each", EVERYWHERE},  /* ... of who does not enter */
    {"tessera_t1_each", "tessera-formatted-each", EVERYWHERE},
    {"tessera_t1_pack", "tessera-late-pack", EVERYWHERE}, /* ... of who takes a block of a pack */
    {"tessera_t1_tags", "tessera-late-pack",
     EVERYWHERE}, /* ... or at the tags that say where it is */
    {"tessera_t1_past", "tessera-late-slot",
     EVERYWHERE}, /* slot 0 without the bits that go with it */
    {"tessera_t1_past", "tessera-late-words", EVERYWHERE}, /* ... or the first of another word */
    {"tessera_t1_ends", "tessera-late-ends", EVERYWHERE}, /* ... by who has taken it without them */
    {"tessera_x2_nothing", "tessera-nothing",
     EVERYWHERE}, /* nothing given back, counted as a free */
    {"tessera_p4", "tessera-scattered",
     EVERYWHERE}, /* NULL while a take holds chunks for a moment */
    {"tessera_x1_quiet", "tessera-under-way", EVERYWHERE}, /* ... or without a quiet start */
    {"tessera_x1_same", "tessera-halves", EVERYWHERE},     /* ... or end */
    {"tessera_x1_spare", "tessera-spare", EVERYWHERE},     /* ... or a spare span */
    {"tessera_x1_transit", "tessera-halves", EVERYWHERE}, /* ... or a slab on its way to the pool */
    {"tessera_x1_empty", "tessera-under-way", EVERYWHERE}, /* ... or one that a free has shut */
    {"tessera_x1_words", "tessera-answered", EVERYWHERE}, /* ... or a slot that is not listed yet */
    {"tessera_x2_free", "tessera-verdict", EVERYWHERE},   /* ... or by what was so before a free */
    {"tessera_x2_free", "tessera-verdict-warp", EVERYWHERE},
    {"tessera_p6", "tessera-counted", EVERYWHERE}, /* ... or without what had been counted */
    {"tessera_x3", "tessera-answered",
     EVERYWHERE}, /* ... or by a search that began before the request */
    {"tessera_run_rest", "tessera-runs",
     EVERYWHERE}, /* chunks claimed for an alignment and not put back */
    {"tessera_run_same", "tessera-under-way",
     EVERYWHERE},                                        /* NULL for a run while chunks are moved */
    {"tessera_run_events", "tessera-alone", EVERYWHERE}, /* ... or by what was so before a free */
    {"tessera_p7_rest", "tessera-turns",
     WEAK_MEMORY}, /* slots to take before the slab's tag is there */
    {"tessera_p7_pin", "tessera-wide-turns", WEAK_MEMORY},  /* ... or takers let in */
    {"tessera_p7_state", "tessera-formatted", WEAK_MEMORY}, /* ... or by who tells them so */
    {"tessera_p8_ask", "tessera-asked", WEAK_MEMORY},       /* NULL for who has freed, then asked */
    {"tessera_p8_lanes", "tessera-asked-warp", WEAK_MEMORY}, /* ... or asked with who has */
    {"tessera_p8_search", "tessera-asked-warp",
     WEAK_MEMORY},                                          /* ... by a search that saw that late */
    {"tessera_p8_told", "tessera-asked-warp", WEAK_MEMORY}, /* ... or lanes of it that did */
    {"tessera_p2_lanes", "tessera-slabs", WEAK_MEMORY}, /* a block before its slab's tag is there */
    {"tessera_p1_free", "tessera-churn", UNDER_TSAN},
    {"tessera_p1_state", "tessera-words", UNDER_TSAN},
    {"tessera_p1_unpin", "tessera-late-unpin", UNDER_TSAN},
    {"tessera_p1_wide", "tessera-words", UNDER_TSAN},
    {"tessera_p1_each", "tessera-each", UNDER_TSAN},
    {"tessera_p1_block", "tessera-packs", UNDER_TSAN},
    {"tessera_p2_claim", "tessera-small", UNDER_TSAN},
    {"tessera_p2_publish", "tessera-quarters", UNDER_TSAN},
    {"tessera_p2_spare", "tessera-spares", UNDER_TSAN},
    {"tessera_p2_lanes", "tessera-packs", UNDER_TSAN},
    {"tessera_p3_detached", "tessera-detached",
     UNDER_TSAN}, /* slots of a slab that another lane has got */
    {"tessera_p3_gathered", "tessera-gathered", UNDER_TSAN},
    {NULL, NULL, EVERYWHERE},
};

const suite fault_tessera = {"tessera", workloads, faults, 20000000};
