/* churn.h: kernels that take blocks and give them back, for allocators of any name. */
#ifndef WH_TESTS_FAULT_CHURN_H
#define WH_TESTS_FAULT_CHURN_H

#include "fault/fault.h"

/* The workload's heap: so many bytes above the least one. */
__attribute__((__unused__)) static wh_status make_above(const workload *w, uint64_t seed,
                                                        wh_heap_options *o, wh_any_options *own,
                                                        wh_heap **heap) {
    (void)seed, (void)own;
    const wh_status s = wh_heap_min_bytes(o, &o->bytes);
    o->bytes += w->bytes;
    return s == WH_OK ? wh_heap_create(heap, o) : s;
}

WH_FN void mark(uint64_t *p, uint64_t words, uint64_t value) {
    for (uint64_t k = 0; k < words; k++) {
        p[k] = value + k;
    }
}

WH_FN int is_marked(const uint64_t *p, uint64_t words, uint64_t value) {
    for (uint64_t k = 0; k < words; k++) {
        if (p[k] != value + k) {
            return 0;
        }
    }
    return 1;
}

/* A macro is one line: its calls of wh_activemask would be one call site. */
WH_FN wh_mask lanes_at_malloc(void) {
    return wh_activemask();
}

WH_FN wh_mask lanes_at_free(void) {
    return wh_activemask();
}

/* The same for other allocators: `spread` sizes, each twice the one before. */
#define OTHER_CHURN(name, ident, heap, spread)                                                \
    WH_KERNEL(name, workload_args, a) {                                                       \
        const uint64_t i = wh_thread_id();                                                    \
        uint32_t random = a.seed * 7919u + (uint32_t)i * 104729u + 1u;                        \
        uint64_t *held[2] = {NULL, NULL};                                                     \
        uint64_t words[2] = {0, 0};                                                           \
        for (uint32_t step = 0; step < a.steps + 2; step++) {                                 \
            const uint32_t s = step < a.steps ? next(&random) % 2 : step - a.steps;           \
            if (held[s] != NULL) {                                                            \
                if (!is_marked(held[s], words[s], (i << 32) + ((uint64_t)s << 16))) {         \
                    wh_add_u32_relaxed(&a.found->overlaps, 1);                                \
                }                                                                             \
                wh_##ident##_free(a.heap, lanes_at_free(), held[s]);                          \
                held[s] = NULL;                                                               \
            } else if (step < a.steps) {                                                      \
                words[s] = (uint64_t)a.least << next(&random) % (spread);                     \
                held[s] =                                                                     \
                    (uint64_t *)wh_##ident##_malloc(a.heap, lanes_at_malloc(), words[s] * 8); \
                if (held[s] != NULL) {                                                        \
                    mark(held[s], words[s], (i << 32) + ((uint64_t)s << 16));                 \
                }                                                                             \
            }                                                                                 \
        }                                                                                     \
    }

/* A block for each lane at any time, by an allocator whose out-of-memory is exact. Most
 * lanes keep eight, so that the other three meet over the three that are left. A second
 * kernel frees what they kept. */
#define KEPT 8u
#define OTHER_NEVER_NULL(name, ident, heap)                                                  \
    WH_KERNEL(name, workload_args, a) {                                                      \
        const uint64_t i = wh_thread_id();                                                   \
        const int keep = i >= 3;                                                             \
        for (uint32_t step = 0; step < (keep ? KEPT : a.steps); step++) {                    \
            void *p = wh_##ident##_malloc(a.heap, lanes_at_malloc(), 64);                    \
            wh_add_u32_relaxed(&a.found->nulls, p == NULL);                                  \
            if (keep) {                                                                      \
                a.data[i * KEPT + step] = (uint64_t)(uintptr_t)p;                            \
            }                                                                                \
            wh_##ident##_free(a.heap, lanes_at_free(), keep ? NULL : p);                     \
        }                                                                                    \
    }                                                                                        \
    WH_KERNEL(name##_end, workload_args, a) {                                                \
        for (uint32_t step = 0; step < KEPT; step++) {                                       \
            void *p = (void *)(uintptr_t)a.data[wh_thread_id() * KEPT + step]; /* 0: none */ \
            wh_##ident##_free(a.heap, lanes_at_free(), p);                                   \
        }                                                                                    \
    }

#endif
