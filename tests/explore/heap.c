/* heap.c: bodies of the default heap: of one to three chunks of 1 KiB, so that it is nearly full.
 * What lanes get and give is a history, which is judged afterwards. */
#include "explore/explore.h"

#define CHUNK 1024u

WH_FN uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

WH_FN history_op *begin(const body_args *a, uint64_t bytes, const void *block) {
    const uint64_t me = wh_thread_id();
    history_op *o = &a->m->history[me][a->m->n_ops[me]++];
    o->bytes = bytes;
    o->address = (uint64_t)(uintptr_t)block;
    o->called = whi_sim_steps();
    return o;
}

WH_FN void *get(const body_args *a, uint64_t bytes) {
    history_op *o = begin(a, bytes, NULL);
    uint64_t *p = (uint64_t *)wh_malloc(a->heap, bytes);
    o->returned = whi_sim_steps();
    o->address = (uint64_t)(uintptr_t)p;
    for (uint64_t k = 0; p != NULL && k < bytes / 8; k += 7) {
        p[k] = wh_thread_id() << 32 | k;
    }
    return p;
}

WH_FN void give(const body_args *a, void *block, uint64_t bytes, uint64_t who) {
    const uint64_t *p = (const uint64_t *)block;
    if (p == NULL) {
        return;
    }
    for (uint64_t k = 0; k < bytes / 8; k += 7) {
        wh_add_u32_relaxed(&a->m->wrong, p[k] != (who << 32 | k));
    }
    history_op *o = begin(a, 0, block);
    wh_free(a->heap, block);
    o->returned = whi_sim_steps();
}

/* One size, of which the heap has four blocks. */
WH_KERNEL(heap_quarters, body_args, a) {
    for (uint32_t step = 0; step < a.steps; step++) {
        void *p = get(&a, CHUNK / 4);
        void *q = get(&a, CHUNK / 4);
        give(&a, p, CHUNK / 4, wh_thread_id());
        give(&a, q, CHUNK / 4, wh_thread_id());
    }
}

/* Two sizes, so that a chunk changes its class; which lane asks for which goes with the seed. */
WH_KERNEL(heap_classes, body_args, a) {
    uint32_t random = a.seed * 7919u + (uint32_t)wh_thread_id() * 104729u + 1u;
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint64_t bytes = (next(&random) + wh_thread_id() + step) % 2 != 0 ? 512 : 64;
        void *p = get(&a, bytes);
        give(&a, p, bytes, wh_thread_id());
    }
}

/* Runs of two chunks, and slots. */
WH_KERNEL(heap_runs, body_args, a) {
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint64_t bytes = (wh_thread_id() + step) % 2 == 0 ? 2 * CHUNK : 64;
        void *p = get(&a, bytes);
        give(&a, p, bytes, wh_thread_id());
    }
}

/* The first lane's block is freed by the next one, which meanwhile had one of the same slab. */
WH_KERNEL(heap_hand_over, body_args, a) {
    const uint64_t n = wh_grid_threads();
    for (uint32_t step = 0; step < a.steps; step++) {
        void *p = get(&a, CHUNK / 2);
        void *other =
            (void *)(uintptr_t)wh_exchange_u64_acq_rel(&a.m->word, (uint64_t)(uintptr_t)p);
        /* Who had it is written behind the block's first word. */
        if (other != NULL) {
            give(&a, other, CHUNK / 2, *(const uint64_t *)other >> 32);
        }
    }
    if (wh_fetch_add_u32_acq_rel(&a.m->done, 1) == n - 1) {
        void *other = (void *)(uintptr_t)wh_exchange_u64_acq_rel(&a.m->word, 0);
        if (other != NULL) {
            give(&a, other, CHUNK / 2, *(const uint64_t *)other >> 32);
        }
    }
}

/* Sizes, and how many blocks a lane has, go with the seed. */
WH_KERNEL(heap_churn, body_args, a) {
    const uint64_t me = wh_thread_id();
    uint32_t random = a.seed * 7919u + (uint32_t)me * 104729u + 1u;
    void *held[2] = {NULL, NULL};
    uint64_t bytes[2] = {0, 0};
    for (uint32_t step = 0; step < a.steps + 2; step++) {
        const uint32_t s = step < a.steps ? next(&random) % 2 : step - a.steps;
        if (held[s] != NULL) {
            give(&a, held[s], bytes[s], me);
            held[s] = NULL;
        } else if (step < a.steps) {
            bytes[s] = (uint64_t)64 << next(&random) % 6; /* up to two chunks */
            held[s] = get(&a, bytes[s]);
        }
    }
}

/* In the end the heap is sound and has no block. What the host's checks do not see, the history
 * does. */
static int history_is_wrong(const body_args *a, uint64_t blocks) {
    history_op all[MOST_LANES * OPS_EACH];
    size_t n = 0, where;
    const wh_tessera_core *g = wh_tessera_core_of_(a->heap);
    const history_heap heap = {(uint64_t)(uintptr_t)g->base,
                               (uint64_t)g->n_chunks << g->chunk_log2,
                               0,
                               (uint64_t)1 << g->chunk_log2,
                               g->n_chunks,
                               blocks};
    for (uint32_t lane = 0; lane < MOST_LANES; lane++) {
        for (uint32_t k = 0; k < a->m->n_ops[lane]; k++) {
            all[n++] = a->m->history[lane][k];
        }
    }
    const history_fault f = history_check(all, n, &heap, &where);
    a->m->units = (uint64_t)f;
    return f != HISTORY_SOUND;
}

static int of_quarters(const body_args *a) {
    return history_is_wrong(a, 4 * (uint64_t)wh_tessera_core_of_(a->heap)->n_chunks);
}

static int of_halves(const body_args *a) {
    return history_is_wrong(a, 2 * (uint64_t)wh_tessera_core_of_(a->heap)->n_chunks);
}

static int of_mixed(const body_args *a) {
    return history_is_wrong(a, 0);
}

/* Of runs a NULL may come of fragments: nothing is said of it but that blocks are apart. */
static int of_runs(const body_args *a) {
    for (uint32_t lane = 0; lane < MOST_LANES; lane++) {
        uint32_t kept = 0;
        for (uint32_t k = 0; k < a->m->n_ops[lane]; k++) {
            const history_op o = a->m->history[lane][k];
            if (o.bytes == 0 || o.address != 0) {
                a->m->history[lane][kept++] = o;
            }
        }
        a->m->n_ops[lane] = kept;
    }
    return history_is_wrong(a, 0);
}

const body heap_bodies[] = {
    {"heap.quarters", heap_quarters, 2, 1, 1, .chunks = 1, .is_wrong = of_quarters},
    {"heap.quarters3", heap_quarters, 3, 1, 1, .chunks = 1, .is_wrong = of_quarters},
    {"heap.classes", heap_classes, 2, 2, 1, .chunks = 1, .seeded = 1, .is_wrong = of_mixed},
    {"heap.classes3", heap_classes, 3, 2, 1, .chunks = 3, .seeded = 1, .is_wrong = of_mixed},
    {"heap.hand_over", heap_hand_over, 2, 2, 1, .chunks = 2, .is_wrong = of_halves},
    {"heap.runs", heap_runs, 2, 2, 1, .chunks = 3, .is_wrong = of_runs},
    {"heap.roomy", heap_classes, 3, 3, 1, .chunks = 8, .seeded = 1, .is_wrong = of_mixed},
    {"heap.churn", heap_churn, 4, 5, 0, .chunks = 4, .seeded = 1, .is_wrong = of_runs},
    {.name = NULL},
};
