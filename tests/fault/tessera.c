/* tessera.c: workloads that find the faults planted in alloc/tessera. */
#define WH_ALLOCATOR tessera

#include "fault/fault.h"

#include <string.h>

#include "warpheap/warpheap.h"

WH_FN void wait_for(const uint32_t *stage, uint32_t value) { /* orders nothing */
    for (uint32_t attempt = 0; wh_load_u32_relaxed(stage) != value; attempt++) {
        wh_backoff(attempt);
    }
}

WH_FN void wait_to_see(const uint32_t *stage, uint32_t value) {
    for (uint32_t attempt = 0; wh_load_u32_acquire(stage) != value; attempt++) {
        wh_backoff(attempt);
    }
}

/* Every lane has one block at a time, of one of two sizes, so that slabs change class all the time.
 * It writes the block, and verifies it and its size before the free. No malloc may fail if there
 * are as many chunks as lanes, since each pins one chunk at most, or as many slots, if all are of
 * one size (X1, I6). */
WH_KERNEL(tessera_churn, workload_args, a) {
    const uint64_t i = wh_thread_id();
    uint32_t random = a.seed * 7919u + (uint32_t)i * 104729u + 1u;
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint32_t pick = next(&random), n = pick % 2 == 0 ? a.least : a.most;
        const uint32_t words = pick / 2 % 4 == 0 ? n / 8 : 2; /* all of it, or little */
        uint64_t *p = (uint64_t *)wh_malloc(a.heap, n);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        if (p == NULL) {
            continue;
        }
        for (uint32_t k = 0; k < words; k++) {
            p[k] = (i << 32) + k;
        }
        const uint32_t c = wh_tessera_class_of(n);
        uint32_t wrong = wh_usable_size(a.heap, p) != a.heap.classes[c].slot_size;
        for (uint32_t k = 0; k < words; k++) {
            wrong |= p[k] != (i << 32) + k;
        }
        wh_add_u32_relaxed(&a.found->overlaps, wrong);
        wh_free(a.heap, p);
    }
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

/* Asks for class c, and searches for all: whether the search's answer is that there is none. */
WH_FN uint32_t is_none(const wh_tessera_core *g, uint32_t c) {
    wh_tessera_header *header = wh_tessera_header_(*g);
    const uint64_t number = wh_fetch_add_u64_acq_rel(&header->oom_tickets, 1);
    while (wh_exchange_u32_acquire(&header->search_lock, 1) != 0) {
        wh_backoff(0);
    }
    wh_tessera_search_(g, wh_activemask(), 0, (uint64_t)1 << c);
    wh_store_u32_release(&header->search_lock, 0);
    return wh_load_u64_acquire(&header->oom_answered[c]) > number;
}

/* A cursor has slots of the only chunk, or somebody refills it, or a slab has a free slot: no
 * search answers that there are none (X1). */
WH_KERNEL(tessera_seen, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.most), slots = (1u << g->chunk_log2) / a.most;
    uint64_t *span = &wh_tessera_cursor_at_(*g, 0, c)->span;
    unsigned char *first = NULL;
    uint32_t wrong = 0;
    for (uint32_t k = 0; k < slots; k++) {
        unsigned char *p = (unsigned char *)wh_malloc(a.heap, a.most);
        first = k == 0 ? p : first;
        wrong += k + 1 < slots && is_none(g, c);
    }
    wrong += 1 - is_none(g, c);
    const uint64_t full = wh_load_u64_relaxed(span);
    wh_store_u64_relaxed(span, WH_TESSERA_UNDER_WAY);
    wrong += is_none(g, c);
    wh_store_u64_relaxed(span, full);
    wh_free(a.heap, first + a.most);
    wrong += is_none(g, c);
    for (uint32_t k = 0; k < slots; k++) {
        wh_free(a.heap, k == 1 ? NULL : first + (uint64_t)k * a.most);
    }
    a.found->nulls = wrong;
}

/* The only chunk is in the pool or a slab with free slots, all the time, and takes move it. A
 * second lane searches for all: never does it answer that there is none, although it may miss the
 * chunk at either place (X1). holds = 1: the take claims the chunk and puts it back, and the second
 * lane wants a run. */
WH_KERNEL(tessera_moves, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.most);
    const wh_veb pool = wh_tessera_pool_(*g);
    const uint64_t tag = wh_tessera_header_(*g)->slab_tags[c];
    const uint32_t slots = a.heap.classes[c].slots, n = wh_tessera_words_for(slots);
    uint64_t *words = wh_tessera_words_of_(*g, 0);
    wh_tessera_shard *own = wh_tessera_shard_at_(*g, 0);
    uint32_t *stage = &a.found->inside, *lock = &wh_tessera_header_(*g)->run_lock;
    const int runs = a.holds == 1;
    const wh_mask me = wh_activemask();
    if (wh_thread_id() != 0) {
        for (uint32_t step = 0; step < a.steps; step++) {
            if (!runs) {
                wh_add_u32_relaxed(&a.found->nulls, is_none(g, c));
                continue;
            }
            (void)wh_exchange_u32_acquire(lock, 1);
            const uint64_t got =
                wh_tessera_run_locked_(g, me, wh_mask_leader(me), 0, WH_TESSERA_NO_CLASS, 1, 1, 1);
            wh_store_u32_release(lock, 0);
            wh_add_u32_relaxed(&a.found->nulls, got == 0);
            wh_free(a.heap, got == WH_TESSERA_WAIT ? NULL : (void *)(uintptr_t)got);
        }
        wh_store_u32_relaxed(stage, 1);
        return;
    }
    while (wh_load_u32_relaxed(stage) == 0) {
        wh_tessera_begin_take_(own);
        const uint64_t got = wh_veb_claim_mask(pool, 0, 1);
        if (got != 0 && !runs) {
            wh_store_u64_relaxed(wh_tessera_tag_at_(*g, 0), tag);
            for (uint32_t i = 0; i < n; i++) {
                wh_store_u64_release(&words[i],
                                     wh_tessera_word_of(c) | wh_tessera_all_slots(slots, i));
            }
            wh_store_u32_relaxed(wh_tessera_state_at_(*g, 0), n - 1); /* but for one, if several */
            wh_tessera_add_partial_(*g, c, 0);
        } else if (got != 0) {
            wh_tessera_put_chunks_(*g, own, 0, 1);
        }
        wh_tessera_end_take_(own);
        if (!runs) {
            (void)(n == 1 ? wh_tessera_retire_one_(g, 0, 0, tag) : wh_tessera_emptied_(g, 0, 0));
        }
        wh_backoff(0);
    }
}

/* All slots of the only chunk are taken, and a lane searches for all, again and again. Another one
 * frees a slot, then asks, and looks no more: no search that began before is its answer (X3). */
WH_KERNEL(tessera_answered, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.most), slots = (1u << g->chunk_log2) / a.most;
    const wh_mask me = wh_activemask();
    uint32_t *stage = &a.found->inside;
    if (wh_thread_id() != 0) {
        wait_to_see(stage, 1);
        while (wh_load_u32_relaxed(stage) == 1) {
            (void)is_none(g, c);
        }
        return;
    }
    unsigned char *first = (unsigned char *)wh_malloc(a.heap, a.most);
    for (uint32_t i = 1; i < slots; i++) { /* of the only chunk */
        a.found->nulls += wh_malloc(a.heap, a.most) != first + (uint64_t)i * a.most;
    }
    wh_store_u32_release(stage, 1);
    for (uint32_t step = 0; step < a.steps; step++) {
        wh_tessera_ticket ticket = wh_tessera_no_ticket_(wh_tessera_core_of_(a.heap));
        uint32_t next = WH_TESSERA_NONE;
        wh_free(a.heap, first);
        while (next == WH_TESSERA_NONE) {
            next = wh_tessera_none_(g, me, 0, c, 1, &ticket);
        }
        wh_add_u32_relaxed(&a.found->nulls, next == WH_TESSERA_DONE);
        wh_add_u32_relaxed(&a.found->overlaps, wh_malloc(a.heap, a.most) != first);
    }
    wh_store_u32_relaxed(stage, 2);
    for (uint32_t i = 0; i < slots; i++) {
        wh_free(a.heap, first + (uint64_t)i * a.most);
    }
}

/* A slab of several words is being retired, and so many takers have uncounted words of it: there is
 * no slot to be had (I5). */
WH_KERNEL(tessera_retiring, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.most), slots = (1u << g->chunk_log2) / a.most;
    const uint32_t n = wh_tessera_words_for(slots);
    uint64_t *words = wh_tessera_words_of_(*g, 0);
    uint32_t *state = wh_tessera_state_at_(*g, 0);
    a.found->overlaps += wh_veb_claim_mask(wh_tessera_pool_(*g), 0, 1) != 1 || n < 2;
    *wh_tessera_tag_at_(*g, 0) = wh_tessera_header_(*g)->slab_tags[c];
    for (uint32_t i = 0; i < n; i++) {
        words[i] = wh_tessera_word_of(c) | wh_tessera_all_slots(slots, i);
    }
    for (uint32_t takers = 0; takers < a.steps; takers++) {
        wh_store_u32_relaxed(state, n + WH_TESSERA_RETIRING - takers);
        int owes;
        a.found->overlaps += wh_tessera_take_slots_(g, c, slots, 0, 0, 1, 0, &owes) != 0;
        a.found->lost += owes == 0 || wh_tessera_emptied_(g, 0, 0) != 0;
        a.found->lost += wh_load_u32_relaxed(state) != n + WH_TESSERA_RETIRING - takers;
    }
    for (uint32_t i = 0; i < n; i++) {
        words[i] = 0;
    }
    *state = 0;
    (void)wh_veb_insert_mask(wh_tessera_pool_(*g), 0, 1);
}

/* The only chunk is a slab of two words, then one of three, of which two are all free, and so on.
 * A second lane uncounts a word and counts it again all the time, as a taker that came too late:
 * never does it return a slab that is not empty, and one that is goes back (I5). */
WH_KERNEL(tessera_retagged, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    uint64_t *words = wh_tessera_words_of_(*g, 0);
    uint32_t *stage = &a.found->inside, *state = wh_tessera_state_at_(*g, 0);
    if (wh_thread_id() != 0) {
        while (wh_load_u32_relaxed(stage) == 0) {
            (void)wh_fetch_sub_u32_relaxed(state, 1);
            (void)wh_tessera_emptied_(g, 0, 0);
        }
        return;
    }
    uint32_t wrong = 0;
    for (uint32_t step = 0; step < a.steps && wrong == 0; step++) {
        const uint32_t c = wh_tessera_class_of(step % 2 == 0 ? a.most : a.least);
        const uint32_t slots = a.heap.classes[c].slots, n = wh_tessera_words_for(slots);
        while (wh_veb_claim_mask(wh_tessera_pool_(*g), 0, 1) == 0) {
            wh_backoff(0);
        }
        wh_store_u64_relaxed(wh_tessera_tag_at_(*g, 0), wh_tessera_header_(*g)->slab_tags[c]);
        for (uint32_t i = 0; i < 2; i++) {
            wh_store_u64_release(&words[i], wh_tessera_word_of(c) | wh_tessera_all_slots(slots, i));
            if (i < n - 1) {
                (void)wh_fetch_add_u32_relaxed(state, 1);
            }
        }
        if (n > 2) {
            wh_backoff(0);
            wrong = wh_load_u64_relaxed(words) == 0 || wh_load_u64_relaxed(&words[1]) == 0;
            wh_store_u64_release(&words[2], wh_tessera_word_of(c) | wh_tessera_all_slots(slots, 2));
        }
        (void)wh_tessera_emptied_(g, 0, 0);
    }
    a.found->overlaps += wrong;
    wh_store_u32_relaxed(stage, 1);
}

/* A lane puts the only chunk back into the pool, again and again. As soon as that is counted a
 * second one looks for a run under the lock: it finds the chunk (P6), since its verdict would hold
 * until something else is counted (X2). */
WH_KERNEL(tessera_counted, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const wh_mask me = wh_activemask();
    wh_tessera_shard *own = wh_tessera_shard_at_(*g, 0);
    uint32_t *stage = &a.found->inside, *lock = &wh_tessera_header_(*g)->run_lock;
    for (uint32_t step = 0; step < a.steps; step++) {
        if (wh_thread_id() == 0) {
            a.found->overlaps += wh_veb_claim_mask(wh_tessera_pool_(*g), 0, 1) != 1;
            wh_store_u32_release(stage, 2 * step + 1);
            wh_tessera_put_chunks_(*g, own, 0, 1);
            wait_to_see(stage, 2 * step + 2);
            continue;
        }
        wait_to_see(stage, 2 * step + 1);
        while (wh_load_u32_relaxed(&own->events) != 2 * step + 1) {
            wh_backoff(0);
        }
        (void)wh_exchange_u32_acquire(lock, 1);
        const uint64_t got =
            wh_tessera_run_locked_(g, me, wh_mask_leader(me), 0, WH_TESSERA_NO_CLASS, 1, 1, 1);
        wh_store_u32_release(lock, 0);
        a.found->nulls += got == 0;
        if (got > WH_TESSERA_WAIT) {
            wh_free(a.heap, (void *)(uintptr_t)got);
        } else {
            wh_add_u32_relaxed(&own->events, 1); /* as the free would have */
            while (!wh_veb_contains(wh_tessera_pool_(*g), 0)) {
                wh_backoff(0);
            }
        }
        wh_store_u32_release(stage, 2 * step + 2);
    }
}

/* A lane frees a run of all chunks; another one looks for such a run all the time. The verdict that
 * there is none does not hold for who has freed it (X2). */
WH_KERNEL(tessera_verdict, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t n = g->n_chunks;
    const wh_mask me = wh_activemask();
    uint32_t *stage = &a.found->inside, *lock = &wh_tessera_header_(*g)->run_lock;
    uint32_t random = a.seed;
    if (wh_thread_id() != 0) {
        while (wh_load_u32_relaxed(stage) == 0) {
            (void)wh_exchange_u32_acquire(lock, 1);
            const uint64_t got =
                wh_tessera_run_locked_(g, me, wh_mask_leader(me), 0, WH_TESSERA_NO_CLASS, n, n, 1);
            wh_store_u32_release(lock, 0);
            wh_free(a.heap, got > WH_TESSERA_WAIT ? (void *)(uintptr_t)got : NULL);
        }
        return;
    }
    for (uint32_t step = 0; step < a.steps; step++) {
        uint64_t got = 0;
        while (got == 0) {
            got = wh_tessera_take_run_(g, me, wh_mask_leader(me), 0, UINT64_MAX, n, n, 1);
        }
        for (uint32_t k = next(&random) % 512; k > 0; k--) { /* about as long as a look */
            wh_backoff(0);
        }
        wh_free(a.heap, (void *)(uintptr_t)got);
        for (uint32_t k = 0; k < 6; k++) {
            wh_add_u32_relaxed(&a.found->nulls,
                               wh_tessera_no_run_(*g, me, WH_TESSERA_NO_CLASS, n) != 0);
            wh_backoff(k);
        }
    }
    wh_store_u32_relaxed(stage, 1);
}

/* All slots of the last two chunks are taken, and so are the others. A lane frees one, then asks,
 * together with another lane of its warp in blocks of two; nothing tells of that but the number
 * that they get. The other block searches for all: it sees that slot, whichever of its lanes looks
 * there, and does not answer that there is none (P8). */
WH_KERNEL(tessera_asked, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.most), lane = wh_lane_id();
    const uint32_t lanes = wh_block_threads(), all = (1u << lanes) - 1;
    uint32_t *stage = &a.found->inside, *lock = &wh_tessera_header_(*g)->search_lock;
    const int asks = wh_block_id() == 0, leads = lane == 0;
    if (asks && leads) {
        wh_add_u32_relaxed(&a.found->overlaps,
                           ~wh_veb_claim_mask(wh_tessera_pool_(*g), 0, ~(uint64_t)0) != 0);
    }
    void *p[4] = {NULL, NULL, NULL, NULL};
    for (uint32_t k = 0; asks && k < 4; k++) {
        void *q = leads ? wh_malloc(a.heap, a.most) : NULL;
        p[k] = (void *)(uintptr_t)wh_shfl_u64(all, (uint64_t)(uintptr_t)q, 0);
        wh_add_u32_relaxed(&a.found->nulls, p[k] == NULL);
    }
    if (asks && leads) {
        wh_store_u32_relaxed(lock, 1); /* all the time: who asks does not search */
        wh_store_u32_release(stage, 1);
    }
    for (uint32_t attempt = 0; wh_load_u32_acquire(stage) == 0; attempt++) {
        wh_backoff(attempt);
    }
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint32_t asked = 2 * step + 2, k = step % 4;
        if (!asks) {
            wait_for(stage, asked);
            (void)wh_tessera_search_(g, all, 0, (uint64_t)1 << c);
            wh_syncwarp(all);
            if (leads) {
                wh_store_u32_release(stage, asked + 1);
            }
            continue;
        }
        const int frees = lane == step / 4 % lanes;
        wh_tessera_ticket ticket = wh_tessera_no_ticket_(wh_tessera_core_of_(a.heap));
        if (frees) {
            wh_free(a.heap, p[k]);
        }
        (void)wh_tessera_none_(g, all, 0, c, 1, &ticket);
        if (leads) {
            wh_store_u32_relaxed(stage, asked); /* orders nothing */
        }
        wait_to_see(stage, asked + 1);
        const uint32_t found = wh_tessera_none_(g, all, 0, c, 1, &ticket);
        wh_add_u32_relaxed(&a.found->nulls, found == WH_TESSERA_DONE);
        if (frees) {
            wh_add_u32_relaxed(&a.found->overlaps, wh_malloc(a.heap, a.most) != p[k]);
        }
        wh_syncwarp(all);
    }
    if (asks && leads) {
        wh_store_u32_relaxed(lock, 0);
        for (uint32_t k = 0; k < 4; k++) {
            wh_free(a.heap, p[k]);
        }
        (void)wh_veb_insert_mask(wh_tessera_pool_(*g), 0, ~(uint64_t)0);
    }
}

/* A slab without a free slot is on its list, and a search takes it off when a slot is freed:
 * whatever comes first, in the end it is on the list (I6, P9). */
WH_KERNEL(tessera_unlisted, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.most), slots = (1u << g->chunk_log2) / a.most;
    const wh_veb list = wh_tessera_partial_list_(*g, c);
    wh_tessera_shard *own = wh_tessera_shard_at_(*g, 0);
    uint32_t *stage = &a.found->inside;
    if (wh_thread_id() != 0) {
        for (uint32_t step = 0; step < a.steps; step++) {
            wait_to_see(stage, 2 * step + 1);
            wh_tessera_remove_partial_(*g, own, c, 1, 0);
            wh_store_u32_release(stage, 2 * step + 2);
        }
        return;
    }
    unsigned char *first = (unsigned char *)wh_malloc(a.heap, a.most);
    for (uint32_t i = 1; i < slots; i++) { /* of the only chunk */
        a.found->nulls += wh_malloc(a.heap, a.most) != first + (uint64_t)i * a.most;
    }
    for (uint32_t step = 0; step < a.steps; step++) {
        wh_tessera_add_partial_(*g, c, 0);
        wh_store_u32_release(stage, 2 * step + 1);
        wh_backoff(0);
        wh_free(a.heap, first);
        wait_to_see(stage, 2 * step + 2);
        a.found->lost += !wh_veb_contains(list, 0);
        const uint64_t slot = wh_fetch_and_u64_acq_rel(wh_tessera_words_of_(*g, 0), ~(uint64_t)1);
        a.found->overlaps += (slot & 1) == 0; /* it is taken again */
    }
    for (uint32_t i = 0; i < slots; i++) {
        wh_free(a.heap, first + (uint64_t)i * a.most);
    }
}

/* The lanes of a warp have all slots of a slab, which has been on its list and is no more. They
 * free them together, and before the slab goes back to the pool another lane takes one, where a
 * hint leads: then it is on the list (I6). */
WH_KERNEL(tessera_hinted, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.most), lane = wh_lane_id();
    uint32_t *stage = &a.found->inside;
    if (wh_block_id() != 0) {
        for (uint32_t step = 0; step < a.steps && lane == 0; step++) {
            wait_to_see(stage, 4 * step + 1);
            int owes;
            const uint64_t bits = wh_tessera_take_slots_(g, c, 32, 0, 0, 1, 0, &owes);
            wh_store_u32_relaxed(stage, 4 * step + 2);
            wait_to_see(stage, 4 * step + 3);
            a.found->lost += bits != 0 && !wh_veb_contains(wh_tessera_partial_list_(*g, c), 0);
            wh_free(a.heap, bits != 0 ? a.heap.base + wh_ctz64(bits) * a.most : NULL);
            wh_store_u32_release(stage, 4 * step + 4);
        }
        return;
    }
    for (uint32_t step = 0; step < a.steps; step++) {
        void *p = wh_malloc_lanes(a.heap, WH_FULL_WARP, a.most);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        if (lane == 0) {
            (void)wh_fetch_or_u64_acq_rel(wh_tessera_words_of_(*g, 0), wh_tessera_word_of(c));
            wh_tessera_remove_partial_(*g, wh_tessera_shard_at_(*g, 0), c, 1, 0);
            wh_store_u32_release(stage, 4 * step + 1);
        }
        wh_syncwarp(WH_FULL_WARP);
        wh_free_lanes(a.heap, WH_FULL_WARP, p);
        if (lane == 0) {
            wait_for(stage, 4 * step + 2);
            wh_store_u32_release(stage, 4 * step + 3);
            wait_to_see(stage, 4 * step + 4);
        }
        wh_syncwarp(WH_FULL_WARP);
    }
    if (lane == 0) {
        wh_store_u32_relaxed(stage, 0);
    }
}

/* Full warps take slots of two classes in turn from cursors, in chunks that had been of the other:
 * behind malloc each lane sees the tag, which another one has acquired (P2). */
WH_KERNEL(tessera_slabs, workload_args, a) {
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint32_t n = ((step + (wh_thread_id() >> 5)) & 1) != 0 ? a.least : a.most;
        void *p = wh_malloc_lanes(a.heap, WH_FULL_WARP, n);
        const uint32_t usable = a.heap.classes[wh_tessera_class_of(n)].slot_size;
        wh_add_u32_relaxed(&a.found->overlaps, p != NULL && wh_usable_size(a.heap, p) != usable);
        wh_free_lanes(a.heap, WH_FULL_WARP, p);
    }
}

/* Block 0 has slots of the only chunk, of two classes in turn, and frees one, which block 1 takes:
 * it sees what slab it is (P7), and block 0 what it has written there (P1). Nothing else orders
 * them. */
WH_KERNEL(tessera_tagged, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    uint32_t *stage = &a.found->inside;
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint32_t n = step % 2 == 0 ? a.least : a.most, c = wh_tessera_class_of(n);
        const uint32_t slots = a.heap.classes[c].slots;
        if (wh_block_id() == 0) {
            void *p[2];
            for (uint32_t k = 0; k < 2; k++) {
                p[k] = wh_malloc(a.heap, n);
                wh_add_u32_relaxed(&a.found->nulls, p[k] == NULL);
                *(uint64_t *)p[k] = step;
            }
            wh_free(a.heap, p[0]);
            wait_for(stage, step + 1);
            wh_free(a.heap, p[1]);
            (void)wh_tessera_close_all_(g, wh_activemask(), 0);
            continue;
        }
        uint64_t bits = 0;
        int owes;
        while (bits == 0) {
            bits = wh_tessera_take_slots_(g, c, slots, 0, 0, 1, 0, &owes);
            wh_backoff(0);
        }
        uint64_t *p = (uint64_t *)(void *)(g->base + wh_ctz64(bits) * n);
        wh_add_u32_relaxed(&a.found->overlaps, wh_usable_size(a.heap, p) != n);
        *p = step;
        wh_free(a.heap, p);
        wh_store_u32_relaxed(stage, step + 1);
    }
}

/* Block 1 has written to the chunks of the pool. Block 0 gets one of them by way of a cursor: it
 * has acquired it (P3). Nothing else orders them. */
WH_KERNEL(tessera_claimed, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const wh_veb pool = wh_tessera_pool_(*g);
    uint32_t *stage = &a.found->inside;
    if (wh_block_id() == 0) {
        wait_for(stage, 1);
        uint64_t *p = (uint64_t *)wh_malloc(a.heap, a.most);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        if (p != NULL) {
            *p = 1;
        }
        wh_free(a.heap, p);
        wh_store_u32_relaxed(stage, 2);
        return;
    }
    const uint64_t got = wh_veb_claim_mask(pool, 0, ~(uint64_t)0);
    for (uint64_t m = got; m != 0; m &= m - 1) {
        uint64_t *p = (uint64_t *)(void *)(g->base + ((uint64_t)wh_ctz64(m) << g->chunk_log2));
        for (uint32_t k = 0; k < 1u << g->chunk_log2; k += 16) {
            p[k / 8] = k;
        }
    }
    (void)wh_veb_insert_mask(pool, 0, got);
    wh_store_u32_relaxed(stage, 1);
    wait_for(stage, 2);
}

/* Block 1 has written to the only chunk. A cursor of block 0 has it next, which block 2 closes.
 * Block 3 takes a slot: it comes after block 1 (P1, P2). Nothing else orders them. */
WH_KERNEL(tessera_closed, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.most), slots = (1u << g->chunk_log2) / a.most;
    uint64_t *base = (uint64_t *)(void *)g->base;
    uint32_t *stage = &a.found->inside;
    void *p = NULL;
    uint64_t bits = 0;
    if (wh_block_id() == 1) {
        const uint64_t got = wh_veb_claim_mask(wh_tessera_pool_(*g), 0, 1);
        for (uint32_t k = 0; k < 1u << g->chunk_log2; k += 8) {
            base[k / 8] = got;
        }
        (void)wh_veb_insert_mask(wh_tessera_pool_(*g), 0, got);
        wh_store_u32_relaxed(stage, 1);
    } else if (wh_block_id() == 0) {
        wait_for(stage, 1);
        p = wh_malloc(a.heap, a.most);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        wh_store_u32_relaxed(stage, 2);
    } else if (wh_block_id() == 2) {
        wait_for(stage, 2);
        wh_add_u32_relaxed(&a.found->overlaps, wh_tessera_close_(g, 0, c) != 1);
        wh_store_u32_relaxed(stage, 3);
    } else {
        wait_for(stage, 3);
        int owes;
        bits = wh_tessera_take_slots_(g, c, slots, 0, 0, 1, 0, &owes);
        wh_add_u32_relaxed(&a.found->nulls, bits == 0);
        base[bits != 0 ? wh_ctz64(bits) * a.most / 8 : 0] = 1;
        wh_store_u32_relaxed(stage, 4);
    }
    wait_for(stage, 4);
    wh_free(a.heap, bits != 0 ? g->base + wh_ctz64(bits) * a.most : p);
}

/* Block 0 has freed the last slot of the only slab, and is about to retire it, when block 1 takes a
 * slot, writes to it and gives it back. Whoever has the chunk next (block 2) comes after that, too
 * (P1). Nothing else orders them. */
WH_KERNEL(tessera_late_retire, workload_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.most), slots = (1u << g->chunk_log2) / a.most;
    const uint64_t tag = wh_tessera_header_(*g)->slab_tags[c];
    const uint64_t all = wh_tessera_all_slots(slots, 0);
    uint64_t *word = wh_tessera_words_of_(*g, 0), *p = (uint64_t *)(void *)g->base;
    uint32_t *stage = &a.found->inside;
    if (wh_block_id() == 0) {
        wh_add_u32_relaxed(&a.found->overlaps, wh_veb_claim_mask(wh_tessera_pool_(*g), 0, 1) != 1);
        wh_store_u64_relaxed(wh_tessera_tag_at_(*g, 0), tag);
        (void)wh_fetch_or_u64_acq_rel(word, wh_tessera_word_of(c) | all);
        wh_store_u32_relaxed(stage, 1);
        wait_for(stage, 2);
        wh_tessera_retire_one_(g, 0, 0, tag);
        wh_store_u32_relaxed(stage, 3);
        wait_for(stage, 4);
    } else if (wh_block_id() == 1) {
        wait_for(stage, 1);
        int owes;
        const uint64_t bits = wh_tessera_take_slots_(g, c, slots, 0, 0, 1, 0, &owes);
        wh_add_u32_relaxed(&a.found->nulls, bits != 1);
        *p = 1;
        (void)wh_fetch_or_u64_acq_rel(word, bits);
        wh_store_u32_relaxed(stage, 2);
        wait_for(stage, 4);
    } else {
        wait_for(stage, 3);
        const uint64_t got = wh_veb_claim_mask(wh_tessera_pool_(*g), 0, 1);
        wh_add_u32_relaxed(&a.found->nulls, got != 1);
        *p = 2;
        (void)wh_veb_insert_mask(wh_tessera_pool_(*g), 0, 1);
        wh_store_u32_relaxed(stage, 4);
    }
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
    {"tessera-churn", tessera_churn, NULL, 8, 2, 60, 16, 512, 1, .may_fail = 1, HEAP(3, 1024, 1)},
    {"tessera-slots", tessera_churn, NULL, 8, 2, 40, 64, 64, 1,
     HEAP(1, 1024, 1)}, /* 16 slots in the only chunk */
    {"tessera-quarters", tessera_churn, NULL, 2, 2, 300, 256, 256, 1,
     HEAP(1, 1024, 1)}, /* 4: it is often empty */
    {"tessera-chunks", tessera_churn, NULL, 1, 2, 200, 16, 512, 1, HEAP(2, 1024, 1)},
    {"tessera-words", tessera_churn, NULL, 8, 2, 80, 16, 16, 1,
     HEAP(2, 2048, 1)}, /* two words a slab */
    {"tessera-runs", tessera_runs, NULL, 3, 2, 120, 64, 64, 2, .kinds = 3, HEAP(23, 1024, 2)},
    {"tessera-alone", tessera_runs, NULL, 2, 1, 400, 64, 64, 2, HEAP(2, 1024, 1)},
    {"tessera-verdict", tessera_verdict, NULL, 2, 1, 100, 16, 16, 1, HEAP(2, 1024, 1)},
    {"tessera-seen", tessera_seen, NULL, 1, 1, 1, 256, 256, 1, HEAP(1, 1024, 1)},
    {"tessera-moves", tessera_moves, NULL, 2, 1, 40, 256, 256, 0, HEAP(1, 1024, 1)},
    {"tessera-moves-run", tessera_moves, NULL, 2, 1, 40, 256, 256, 1, HEAP(1, 1024, 1)},
    {"tessera-moves-words", tessera_moves, NULL, 2, 1, 40, 16, 16, 0, .weak = WEAK_FORMAL,
     HEAP(1, 2048, 1)},
    {"tessera-answered", tessera_answered, NULL, 2, 1, 60, 256, 256, 1, HEAP(1, 1024, 1)},
    {"tessera-retiring", tessera_retiring, NULL, 1, 1, 8, 16, 16, 1, HEAP(1, 2048, 1)},
    {"tessera-counted", tessera_counted, NULL, 2, 1, 100, 256, 256, 1, HEAP(1, 1024, 1)},
    {"tessera-asked", tessera_asked, NULL, 2, 1, 40, 512, 512, 1, .weak = WEAK_FORMAL,
     HEAP(66, 1024, 1)}, /* two slots a chunk */
    {"tessera-asked-warp", tessera_asked, NULL, 2, 2, 40, 512, 512, 1, .weak = WEAK_FORMAL,
     HEAP(66, 1024, 1)},
    {"tessera-unlisted", tessera_unlisted, NULL, 2, 1, 60, 512, 512, 1, HEAP(1, 1024, 1)},
    {"tessera-unlisted-formal", tessera_unlisted, NULL, 2, 1, 60, 512, 512, 1, .weak = WEAK_FORMAL,
     HEAP(1, 1024, 1)},
    {"tessera-hinted", tessera_hinted, NULL, 2, 32, 10, 32, 32, 1, HEAP(1, 1024, 1)},
    {"tessera-slabs", tessera_slabs, NULL, 4, 32, 12, 16, 32, 1, .weak = WEAK_FORMAL, .may_fail = 1,
     HEAP(3, 1024, 1)},
    {"tessera-tagged", tessera_tagged, NULL, 2, 1, 12, 128, 256, 1, .weak = WEAK_FORMAL,
     HEAP(1, 1024, 1)},
    {"tessera-retagged", tessera_retagged, NULL, 2, 1, 60, 16, 32, 1, HEAP(1, 2048, 1)},
    {"tessera-claimed", tessera_claimed, NULL, 2, 1, 1, 256, 256, 1, .weak = WEAK_NEVER,
     HEAP(64, 1024, 1)},
    {"tessera-closed", tessera_closed, NULL, 4, 1, 1, 256, 256, 1, .weak = WEAK_NEVER,
     HEAP(1, 1024, 1)},
    {"tessera-late-retire", tessera_late_retire, NULL, 3, 1, 1, 256, 256, 1, .weak = WEAK_NEVER,
     HEAP(1, 1024, 1)},
    {.name = NULL},
};

static const fault faults[] = {
    {"tessera_run_rest", "tessera-runs",
     EVERYWHERE}, /* chunks claimed for an alignment and not put back */
    {"tessera_run_same", "tessera-moves-run",
     EVERYWHERE}, /* NULL for a run while chunks are moved */
    {"tessera_run_events", "tessera-verdict", EVERYWHERE}, /* ... or by what was so before a free */
    {"tessera_p6", "tessera-counted", EVERYWHERE},  /* ... or without what had been counted */
    {"tessera_i5", "tessera-retiring", EVERYWHERE}, /* slots of a slab that is being retired */
    {"tessera_i6", "tessera-unlisted", EVERYWHERE}, /* a slab with free slots that is not listed */
    {"tessera_i6_free", "tessera-unlisted", EVERYWHERE}, /* ... as its free has not looked */
    {"tessera_i6_late", "tessera-hinted",
     EVERYWHERE}, /* ... as who has made it empty thinks it gone */
    {"tessera_x1_quiet", "tessera-moves", EVERYWHERE},  /* NULL without a quiet start */
    {"tessera_x1_same", "tessera-moves", EVERYWHERE},   /* ... or end */
    {"tessera_x1_settled", "tessera-seen", EVERYWHERE}, /* ... or slots of a cursor */
    {"tessera_x1_words", "tessera-seen", EVERYWHERE},   /* ... or a free slot of a slab */
    {"tessera_x3", "tessera-answered",
     EVERYWHERE}, /* ... or by a search that began before the request */
    {"tessera_p8_ask", "tessera-asked", WEAK_MEMORY},        /* ... for who has freed, then asked */
    {"tessera_p8_lanes", "tessera-asked-warp", WEAK_MEMORY}, /* ... or asked with who has */
    {"tessera_p8_search", "tessera-asked-warp",
     WEAK_MEMORY},                                          /* ... by a search that saw that late */
    {"tessera_p8_told", "tessera-asked-warp", WEAK_MEMORY}, /* ... or lanes of it that did */
    {"tessera_p9_look", "tessera-unlisted-formal",
     WEAK_MEMORY}, /* a slab off its list by who has not seen its free slot */
    {"tessera_p4_words", "tessera-moves-words", WEAK_MEMORY}, /* NULL while a slab is retired */
    {"tessera_p10_count", "tessera-retagged", WEAK_MEMORY}, /* an empty slab that nobody returns */
    {"tessera_i5_tag", "tessera-retagged", EVERYWHERE}, /* ... of one that is by now another's */
    {"tessera_p1_free", "tessera-tagged", WEAK_MEMORY}, /* slots before their slab's tag is there */
    {"tessera_p1_take", "tessera-tagged", WEAK_MEMORY}, /* ... or by who sees it late */
    {"tessera_p2_publish", "tessera-churn", WEAK_MEMORY}, /* ... of a span */
    {"tessera_p2_claim", "tessera-churn", WEAK_MEMORY},   /* ... or by who sees them late */
    {"tessera_p2_soon", "tessera-churn", WEAK_MEMORY},    /* ... or has waited for them */
    {"tessera_p2_lanes", "tessera-slabs", WEAK_MEMORY},   /* ... or for the lanes with it */
    {"tessera_p1_free", "tessera-churn", UNDER_TSAN},
    {"tessera_p1_take", "tessera-slots", UNDER_TSAN},
    {"tessera_p1_retire", "tessera-late-retire", UNDER_TSAN},
    {"tessera_p1_words", "tessera-words", UNDER_TSAN},
    {"tessera_p1_give", "tessera-closed", UNDER_TSAN},
    {"tessera_p2_close", "tessera-closed", UNDER_TSAN},
    {"tessera_p2_soon", "tessera-quarters", UNDER_TSAN},
    {"tessera_p2_look", "tessera-quarters", UNDER_TSAN},
    {"tessera_p2_publish", "tessera-quarters", UNDER_TSAN},
    {"tessera_p2_claim", "tessera-quarters", UNDER_TSAN},
    {"tessera_p3_claim", "tessera-claimed", UNDER_TSAN},
    {NULL, NULL, EVERYWHERE},
};

const suite fault_tessera = {"tessera", workloads, faults, 20000000};
