/* ouroboros.c: workloads that find the faults planted in Ouroboros, and the faults. */
#include "fault/churn.h"

/* As class_churn. */
WH_KERNEL(ouro_churn, workload_args, a) {
    const uint64_t i = wh_thread_id();
    uint32_t random = a.seed * 7919u + (uint32_t)i * 104729u + 1u;
    uint64_t *held[2] = {NULL, NULL};
    uint64_t words[2] = {0, 0};
    for (uint32_t step = 0; step <= a.steps + 1; step++) {
        const uint32_t s = step < a.steps ? next(&random) % 2 : step - a.steps;
        if (held[s] != NULL) {
            if (!is_marked(held[s], words[s], (i << 32) + ((uint64_t)s << 16))) {
                wh_add_u32_relaxed(&a.found->overlaps, 1);
            }
            wh_ouro_free_(a.ouro.variant, a.ouro, wh_activemask(), held[s]);
            held[s] = NULL;
        } else if (step < a.steps) {
            words[s] = (uint64_t)2 << next(&random) % 6;
            held[s] =
                (uint64_t *)wh_ouro_malloc_(a.ouro.variant, a.ouro, wh_activemask(), words[s] * 8);
            if (held[s] != NULL) {
                mark(held[s], words[s], (i << 32) + ((uint64_t)s << 16));
            }
        }
    }
}

WH_KERNEL(ouro_never_null, workload_args, a) {
    for (uint32_t step = 0; step < a.steps; step++) {
        void *p = wh_ouro_malloc_(a.ouro.variant, a.ouro, wh_activemask(), 128);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        wh_ouro_free_(a.ouro.variant, a.ouro, wh_activemask(), p);
    }
}

/* One block per lane at a time, of any small class, in a heap with a chunk for each lane: at any
 * moment a chunk is free as a whole for who asks, though often as pages of another class. */
WH_KERNEL(ouro_mixed_never_null, workload_args, a) {
    const uint64_t i = wh_thread_id();
    const uint32_t kinds = 2 + a.seed / 4 % 5; /* the policy goes with the rest */
    uint32_t random = a.seed * 7919u + (uint32_t)i * 104729u + 1u;
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint64_t bytes = (uint64_t)512 >> next(&random) % kinds;
        void *p = wh_ouro_malloc_(a.ouro.variant, a.ouro, wh_activemask(), bytes);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        for (uint32_t wait = next(&random) % 64; wait != 0; wait--) { /* most hold one */
            wh_add_u64_relaxed(&a.data[i], 1);
        }
        wh_ouro_free_(a.ouro.variant, a.ouro, wh_activemask(), p);
    }
}

/* A lane alone: that a chunk is opened is an event (X2), and while one is open, or on its way to an
 * open word, no search may find that there is nothing, neither for its class nor for others (X1,
 * X2). */
WH_KERNEL(ouro_opened, workload_args, a) {
    const wh_ouro_ref h = a.ouro;
    const wh_mask me = wh_activemask();
    const uint32_t c = 1, other = 2, pages = 1u << wh_ouro_pages_log2_(h, c);
    uint64_t *word = wh_ouro_open_(h, c, wh_sm_id() & (wh_ouro_opens_(h, c) - 1)), fronts = 0;
    void *held[8] = {NULL};
    uint32_t n = 0, wrong = 0;
    const wh_ouro_events before = wh_ouro_events_(h);
    held[n++] = wh_ouro_malloc_(h.variant, h, me, 32);
    wrong += wh_ouro_events_(h).whole == before.whole;
    for (; n < h.n_chunks && n < 7; n++) {
        held[n] = wh_ouro_malloc_(h.variant, h, me, 512);
        wrong += held[n] == NULL;
    }
    const uint64_t w = wh_load_u64_relaxed(word);
    wrong += wh_ouro_open_next_(w) != 1; /* 512: not of the open chunk, of which a page is live */
    wrong += wh_ouro_none_(h.header, c) || wh_ouro_none_whole_(h, &fronts);
    wh_store_u64_relaxed(word, wh_ouro_open_word_(wh_ouro_open_chunk_(w), pages + 1));
    wrong += wh_ouro_none_(h.header, c) || wh_ouro_none_whole_(h, &fronts);
    wh_store_u64_relaxed(word, w);
    held[n++ & 7] = wh_ouro_malloc_(h.variant, h, me, 64); /* NULL; looks for a whole chunk */
    wrong += held[(n - 1) & 7] != NULL || !wh_ouro_none_(h.header, other);
    wrong += wh_ouro_open_next_(wh_load_u64_relaxed(word)) != pages; /* closed */
    wrong += *wh_ouro_bits_(h, wh_ouro_open_chunk_(w), 0) != (((uint64_t)1 << pages) - 1) - 1;
    while (n-- > 0) {
        wh_ouro_free_(h.variant, h, me, held[n & 7]);
    }
    a.found->nulls = wrong;
}

/* A lane alone: who lacks more than is ahead in an open word and on the next chunk gets just that,
 * and leaves the word used up (I6). */
WH_KERNEL(ouro_passes_end, workload_args, a) {
    const wh_ouro_ref h = a.ouro;
    const wh_mask me = wh_activemask();
    const uint32_t c = 2, pages = 1u << wh_ouro_pages_log2_(h, c), place = wh_ouro_my_place_(h, c);
    void *const first = wh_ouro_malloc_(h.variant, h, me, 64); /* opens a chunk */
    const wh_ouro_turn turn = {32, 0, 0, 0, 0, 0};
    wh_ouro_step s = wh_ouro_step_(turn);
    wh_ouro_step_open_(h, c, place, 32, WH_CHUNK_POOL_SEEN, &s);
    uint32_t wrong = first == NULL || s.n != pages - 1 || s.from == WH_CHUNK_NONE;
    wrong += wh_ouro_opened_(h, c, &s) != 2 * pages - 1;
    wrong += wh_ouro_load_open_(h, c, place) != pages;
    for (uint32_t rank = 0; rank < 32 && wrong == 0; rank++) {
        void *const p = wh_ouro_opened_page_(h, c, &s, rank);
        wrong += (p != NULL) != (rank < 2 * pages - 1);
        wh_ouro_free_(h.variant, h, me, p);
    }
    wh_ouro_free_(h.variant, h, me, first);
    a.found->nulls = wrong;
}

/* A lane alone fills the heap with one class, gives all back, and asks for another class: what it
 * was told when the heap was full holds no longer (X2). */
WH_KERNEL(ouro_refill, workload_args, a) {
    uint32_t random = a.seed * 7919u + 1u;
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint64_t bytes = (uint64_t)16 << next(&random) % 6;
        uint64_t n = 0;
        for (; n < UNIVERSE; n++) {
            void *p = wh_ouro_malloc_(a.ouro.variant, a.ouro, wh_activemask(), bytes);
            if (p == NULL) {
                break;
            }
            a.data[n] = (uint64_t)(uintptr_t)p;
        }
        wh_add_u32_relaxed(&a.found->nulls, n == 0);
        while (n-- > 0) {
            wh_ouro_free_(a.ouro.variant, a.ouro, wh_activemask(), (void *)(uintptr_t)a.data[n]);
        }
    }
}

/* --- compaction ------------------------------------------------------------------------------- */

#define KEPT_OUT 8u /* of a.data: where the values begin; before that what compaction reports */

/* Lists all queues into a.data: how many values there are. */
WH_FN uint64_t list_queues(const workload_args *a, uint64_t at) {
    const wh_ouro_ref h = a->ouro;
    for (uint32_t c = 0; c < h.n_classes; c++) {
        const wh_vqueue q = wh_ouro_queue_(h.variant, h, c);
        for (uint64_t p = wh_load_u64_relaxed(q.front); p < wh_load_u64_relaxed(q.back); p++) {
            uint64_t walk = 0;
            uint32_t chunk = WH_CHUNK_NONE;
            const uint32_t *e = NULL;
            for (uint32_t step = 0; e == NULL && step < h.n_chunks; step++) {
                e = wh_vqueue_entry_(q, wh_ouro_queue_chunks_(h), p, &walk, &chunk);
            }
            if (at < UNIVERSE) {
                a->data[at++] = (uint64_t)c << 32 | (e != NULL ? wh_load_u32_relaxed(e) : 0);
            }
        }
    }
    return at;
}

/* One block, which compacts the heap: what stays in the queues must be in the order of before, and
 * queues on chunks must know what has been taken of these. */
WH_FN void compact_and_look(const workload_args *a) {
    wh_compaction *out = (wh_compaction *)(void *)a->data;
    uint64_t before = 0;
    wh_syncthreads();
    if (wh_thread_in_block() == 0) {
        before = list_queues(a, KEPT_OUT);
    }
    wh_syncthreads();
    wh_ouro_compact_queues_(a->ouro, out);
    wh_syncthreads();
    wh_ouro_compact_chunks_(a->ouro, wh_thread_in_block(), wh_block_threads(), out);
    wh_syncthreads();
    if (wh_thread_in_block() == 0) {
        const uint64_t after = list_queues(a, before);
        uint64_t k = KEPT_OUT;
        for (uint64_t n = before; n < after; n++, k++) {
            while (k < before && a->data[k] != a->data[n]) {
                k++;
            }
            wh_add_u32_relaxed(&a->found->lost, k >= before);
        }
        for (uint32_t c = 0; c < a->ouro.n_classes; c++) {
            const wh_vqueue q = wh_ouro_queue_(a->ouro.variant, a->ouro, c);
            const int agrees = q.kind == WH_VQUEUE_ARRAY ||
                               wh_ouro_agrees_(q, wh_ouro_queue_chunks_(a->ouro), *q.front);
            wh_add_u32_relaxed(&a->found->lost, !agrees);
        }
    }
    wh_syncthreads();
}

/* As churn, with more blocks for each lane, of `kinds` sizes. In turns of 24 steps first most lanes
 * give theirs back, then all do, and each time the block compacts the heap. */
WH_KERNEL(ouro_compact, workload_args, a) {
    const uint64_t i = wh_thread_id();
    uint32_t random = a.seed * 7919u + (uint32_t)i * 104729u + 1u;
    uint64_t *held[4] = {NULL, NULL, NULL, NULL};
    uint64_t words[4] = {0, 0, 0, 0};
    for (uint32_t step = 0; step < a.steps * 24; step++) {
        const uint32_t turn = step % 24, s = turn < 16 ? next(&random) % 4 : turn % 4;
        const int gives = turn >= 20 || (turn >= 16 && i > 7);
        if (held[s] != NULL && (turn < 16 || gives)) {
            if (!is_marked(held[s], words[s], (i << 32) + ((uint64_t)s << 16))) {
                wh_add_u32_relaxed(&a.found->overlaps, 1);
            }
            wh_ouro_free_(a.ouro.variant, a.ouro, wh_activemask(), held[s]);
            held[s] = NULL;
        } else if (turn < 16 && held[s] == NULL) {
            words[s] = (uint64_t)2 << next(&random) % a.kinds;
            held[s] =
                (uint64_t *)wh_ouro_malloc_(a.ouro.variant, a.ouro, wh_activemask(), words[s] * 8);
            if (held[s] != NULL) {
                mark(held[s], words[s], (i << 32) + ((uint64_t)s << 16));
            }
        }
        if (turn == 19 || turn == 23) {
            compact_and_look(&a);
        }
    }
}

/* --- the suite -------------------------------------------------------------------------------- */

/* The least heap has two chunks. */
static wh_status make(const workload *w, uint64_t seed, wh_heap_options *o, wh_any_options *own,
                      wh_heap **heap) {
    set_option(o, own, "open_chunks", seed / 4 % 2 != 0 ? 4 : 0); /* open words: 0 makes it one */
    const wh_status s = wh_heap_min_bytes(o, &o->bytes);
    o->bytes += (w->pieces - 2) * 560;
    return s == WH_OK ? wh_heap_create(heap, o) : s;
}

#define HEAP(variant, chunks, entries)                                                             \
    .allocator = (variant), .make = make, .handle_bytes = sizeof(wh_ouro_ref), .pieces = (chunks), \
    .options = {{"chunk_bytes", 512}, {"queue_entries", (entries)}}

static const workload workloads[] = {
    {"s-p-churn", ouro_churn, NULL, 6, 3, 60, HEAP("ouro-s-p", 6, 8)},
    {"s-c-churn", ouro_churn, NULL, 6, 3, 60, HEAP("ouro-s-c", 6, 8)},
    {"va-c-churn", ouro_churn, NULL, 6, 3, 60, HEAP("ouro-va-c", 8, 8)},
    {"vl-c-churn", ouro_churn, NULL, 6, 3, 60, HEAP("ouro-vl-c", 8, 8)},
    {"s-p-never-null", ouro_never_null, NULL, 4, 4, 24, HEAP("ouro-s-p", 4, 64)},
    {"s-p-open", ouro_never_null, NULL, 8, 1, 24, HEAP("ouro-s-p", 2, 64)},
    {"s-p-opened", ouro_opened, NULL, 1, 1, 0, HEAP("ouro-s-p", 4, 64)},
    {"s-p-passes", ouro_passes_end, NULL, 1, 1, 0, HEAP("ouro-s-p", 4, 64)},
    {"s-p-parked", ouro_never_null, NULL, 12, 1, 60, HEAP("ouro-s-p", 2, 2)},
    {"s-c-never-null", ouro_never_null, NULL, 16, 1, 24, HEAP("ouro-s-c", 4, 8)},
    {"s-p-mixed", ouro_mixed_never_null, NULL, 6, 1, 60, HEAP("ouro-s-p", 5, 64)},
    {"s-p-mixed-parked", ouro_mixed_never_null, NULL, 3, 1, 300, HEAP("ouro-s-p", 2, 16),
     .stint = 100},
    {"s-p-refill", ouro_refill, NULL, 1, 1, 12, HEAP("ouro-s-p", 5, 64)},
    {"s-c-refill", ouro_refill, NULL, 1, 1, 12, HEAP("ouro-s-c", 5, 64)},
    {"s-c-mixed", ouro_mixed_never_null, NULL, 3, 1, 100, HEAP("ouro-s-c", 2, 64)},
    {"s-p-compact", ouro_compact, NULL, 1, 64, 2, HEAP("ouro-s-p", 16, 256), .kinds = 2},
    {"va-p-compact", ouro_compact, NULL, 1, 64, 2, HEAP("ouro-va-p", 20, 8), .kinds = 2},
    {"vl-p-compact", ouro_compact, NULL, 1, 64, 2, HEAP("ouro-vl-p", 20, 8), .kinds = 1},
    {.name = NULL},
};

static const fault faults[] = {
    {"ouro_i3", "s-c-churn", EVERYWHERE}, /* a chunk with live pages goes to the pool */
    {"ouro_x1_held", "s-c-never-null", EVERYWHERE},
    {"ouro_x1_parked", "s-p-parked", EVERYWHERE}, /* NULL while a lane holds a parked chunk */
    {"ouro_x2_open", "s-p-mixed", EVERYWHERE},    /* ... or those of other classes are not closed */
    {"ouro_x1_open", "s-p-opened",
     EVERYWHERE}, /* ... or pages are ahead, or on their way to there */
    {"ouro_x2_opened", "s-p-opened", EVERYWHERE}, /* ... or a chunk is opened behind the search */
    {"ouro_i6", "s-p-churn", EVERYWHERE},         /* pages past the end of an open chunk */
    {"ouro_i6_next", "s-p-passes", EVERYWHERE},   /* ... or of the one that is brought next */
    {"ouro_x2_moving", "s-p-mixed-parked",
     EVERYWHERE},                                  /* NULL while another lane moves pages to bits */
    {"ouro_x3", "s-p-mixed", EVERYWHERE},          /* ... or they did so once */
    {"ouro_x2_puts", "s-p-mixed", EVERYWHERE},     /* ... or pages come back behind the search */
    {"ouro_x2_whole", "s-c-mixed", EVERYWHERE},    /* ... or a chunk becomes free behind it */
    {"ouro_x2_verdict", "s-p-refill", EVERYWHERE}, /* ... or by what was so before a free */
    {"ouro_k1", "s-p-compact", EVERYWHERE},        /* a chunk goes back with a live page */
    {"ouro_k1_open", "s-p-compact", EVERYWHERE},  /* ... or pages of it are ahead in an open word */
    {"ouro_k1_count", "s-p-compact", EVERYWHERE}, /* ... or of one that stays more are counted */
    {"ouro_k1_counted", "s-p-compact", EVERYWHERE}, /* ... or is looked at before all are counted */
    {"ouro_k2_done", "vl-p-compact", EVERYWHERE},   /* a queue chunk is not used up */
    {"ouro_k2_order", "vl-p-compact", EVERYWHERE},  /* what stays in a queue changes its order */
    {"ouro_k2_sem", "va-p-compact", EVERYWHERE},    /* ... or what has gone is still counted */
    {"ouro_k3", "s-p-compact", EVERYWHERE},         /* a value is overwritten before it is moved */
    {"bulksem_i1", "s-p-churn", EVERYWHERE},        /* a batch that has come is still expected */
    {"bulksem_i2", "s-p-churn", EVERYWHERE},        /* more is taken than there was */
    {"bulksem_retake", "s-p-churn", EVERYWHERE}, /* what was not got is not waited for any more */
    {"vqueue_p2_link", "va-c-churn", UNDER_TSAN},
    {"ouro_p2_set", "s-c-churn", UNDER_TSAN},
    {"ouro_p2_claim", "s-c-churn", UNDER_TSAN},
    {"ouro_p2_lanes", "s-c-churn", UNDER_TSAN},
    {"ouro_p3_count", "s-c-churn", UNDER_TSAN},
    {"ouro_p3_retire", "s-c-churn", UNDER_TSAN},
    {"ouro_p7_install", "s-p-churn", UNDER_TSAN},
    {"ouro_p7_take", "s-p-churn", UNDER_TSAN},
    {NULL, NULL, EVERYWHERE},
};

const suite fault_ouroboros = {"ouroboros", workloads, faults, 5000000};
