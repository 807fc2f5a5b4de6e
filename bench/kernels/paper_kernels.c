/* paper_kernels.c: targeted source: see paper_kernels.h. */
#include "bench/kernels/paper_kernels.h"

#ifndef WH_KERNEL_THREADS
#define WH_KERNEL_THREADS WH_BENCH_BLOCK_THREADS
#endif

#include <string.h>

#include "warpheap/detail/alloc/tables.h"
#include "warpheap/warpheap.h"

typedef struct paper_args {
    wh_heap_ref heap;
    wh_paper_call c;
} paper_args;

WH_FN uint64_t mix(uint64_t x) {
    x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
    x = (x ^ x >> 27) * 0x81dadef4bc2dd44du;
    return x ^ x >> 33;
}

/* In kernels that are timed nothing is counted unless it happens: a million adds to one word
 * take longer than what is measured. */
WH_FN void count(uint64_t *counter, int happened) {
    if (happened) {
        wh_add_u64_relaxed(counter, 1);
    }
}

/* --- walks ------------------------------------------------------------------------------
 * Whether an allocator walks is known from the header that warpheap.h has included. */

#if defined(WH_ALLOC_RANDOM_WALK_H)
#define PAPER_WALKS 1
#define PAPER_QUEUE 0

WH_FN wh_page_got get_rw(wh_heap_ref h, wh_mask mask, uint32_t last) {
    (void)mask;
    (void)last;
    return wh_rw_get_page(h, 0, 1);
}

WH_FN wh_page_got get_rw_bm(wh_heap_ref h, wh_mask mask, uint32_t last) {
    (void)mask;
    (void)last;
    return wh_rw_bm_get_page(h, 0, 1);
}

WH_FN wh_page_got get_corw(wh_heap_ref h, wh_mask mask, uint32_t last) {
    (void)last;
    return wh_corw_get_page(h, mask, 1);
}

WH_FN wh_page_got get_crw(wh_heap_ref h, wh_mask mask, uint32_t last) {
    (void)mask;
    return wh_crw_get_page(h, 0, 1, last);
}

WH_FN void *address_of(wh_heap_ref h, uint32_t page) {
    return wh_random_walk_address_(h, page);
}

WH_FN void occupy_word(const paper_args *a, uint64_t k) {
    const uint32_t bits = a->c.occupied[k];
    if (a->heap.words != NULL) {
        wh_or_u64_relaxed(&a->heap.words[k], bits);
        return;
    }
    for (uint64_t b = 0; b < 32 && k * 32 + b < a->heap.pages; b++) {
        wh_store_u32_relaxed(&a->heap.flags[k * 32 + b], bits >> b & 1);
    }
}

#elif defined(WH_ALLOC_PAGE_QUEUE_H)
#define PAPER_WALKS 1
#define PAPER_QUEUE 1

/* Every lane by itself: the paper's queue knows no warps. */
WH_FN wh_page_got get_page_queue(wh_heap_ref h, wh_mask mask, uint32_t last) {
    (void)mask;
    (void)last;
    return wh_page_queue_get_page(h, 1u << wh_lane_id(), 1);
}

WH_FN void *address_of(wh_heap_ref h, uint32_t page) {
    return h.base + ((uint64_t)page << h.page_log2);
}

/* Of a queue that was reset just now. */
WH_FN void occupy_word(const paper_args *a, uint64_t k) {
    if (k == 0) {
        wh_store_u64_relaxed(&a->heap.header->ring.head, a->c.n);
        wh_store_u64_relaxed(&a->heap.header->count, a->heap.pages - a->c.n);
    }
}

#elif defined(WH_ALLOC_RWMALLOC_H)
#define PAPER_WALKS 1
#define PAPER_QUEUE 0

WH_FN wh_page_got get_rwmalloc(wh_heap_ref h, wh_mask mask, uint32_t last) {
    const wh_units_got got = wh_rwmalloc_get_units(h, mask, 1);
    wh_page_got page;
    (void)last;
    page.page = got.unit;
    page.steps = got.steps;
    if (got.unit != WH_RWMALLOC_NONE) {
        wh_store_u32_relaxed(&h.state[got.unit], WH_RWMALLOC_RUN | 1);
    }
    return page;
}

WH_FN void *address_of(wh_heap_ref h, uint32_t unit) {
    return wh_rwmalloc_address_(h, unit);
}

/* Blocks of one unit, as far as the rest of the allocator can tell. */
WH_FN void occupy_word(const paper_args *a, uint64_t k) {
    wh_or_u64_relaxed(&a->heap.words[k], a->c.occupied[k]);
    for (uint32_t bits = a->c.occupied[k]; bits != 0; bits &= bits - 1) {
        wh_store_u32_relaxed(&a->heap.state[k * 32 + wh_ctz32(bits)], WH_RWMALLOC_RUN | 1);
    }
}

#else
#define PAPER_WALKS 0
#define PAPER_QUEUE 0
#endif

#if PAPER_WALKS
WH_KERNEL(k_occupy, paper_args, a) {
    for (uint64_t k = wh_thread_id(); k < a.c.n; k += wh_grid_threads()) {
        occupy_word(&a, k);
    }
}

WH_KERNEL(k_get, paper_args, a) {
    const uint64_t warp = wh_thread_id() / 32, i = warp * a.c.lanes + wh_lane_id();
    const wh_mask mask = a.c.lanes >= 32 ? ~0u : (1u << a.c.lanes) - 1;
    if (warp >= a.c.warps || wh_lane_id() >= a.c.lanes) {
        return;
    }
    const wh_page_got got =
        WH_CAT(get_, WH_ALLOCATOR)(a.heap, mask, a.c.last != NULL ? a.c.last[i] : WH_PAGE_NONE);
    a.c.steps[i] = got.steps;
    if (a.c.last != NULL) {
        a.c.last[i] = got.page;
    }
    a.c.ptrs[i] = got.page != WH_PAGE_NONE ? address_of(a.heap, got.page) : NULL;
    count(&a.c.counts->failed, got.page == WH_PAGE_NONE);
}

/* Decided from addresses and the caller's bitmap alone, not from what the allocator holds. */
WH_FN int claims(const paper_args *a, const void *p) {
    const uint64_t offset = (uint64_t)(uintptr_t)p - (uint64_t)(uintptr_t)address_of(a->heap, 0);
    const uint64_t page = offset / a->c.page_bytes; /* before the first one: a large number */
    if (offset % a->c.page_bytes != 0 || page >= a->c.pages || !wh_owns(a->heap, p)) {
        return 0;
    }
    const uint32_t bit = 1u << page % 32;
    return (wh_fetch_or_u32_relaxed(&a->c.occupied[page / 32], bit) & bit) == 0;
}

WH_KERNEL(k_claim, paper_args, a) {
    for (uint64_t i = wh_thread_id(); i < a.c.n; i += wh_grid_threads()) {
        count(&a.c.counts->bad, a.c.ptrs[i] != NULL && !claims(&a, a.c.ptrs[i]));
    }
}
#endif

/* --- AD, ACD, P ---------------------------------------------------------------------------- */

WH_FN void stamp_block(const paper_args *a, void *p, uint64_t tag) {
    if (p != NULL && a->c.stamp) {
        *(uint32_t *)p = (uint32_t)tag;
    }
}

WH_FN void check_block(const paper_args *a, const void *p, uint64_t tag) {
    if (p != NULL && a->c.stamp && *(const uint32_t *)p != (uint32_t)tag) {
        wh_add_u64_relaxed(&a->c.counts->bad, 1);
    }
}

WH_KERNEL(k_cycle, paper_args, a) {
    const uint64_t warp = wh_thread_id() / 32, first = warp * a.c.iterations;
    if (warp >= a.c.warps || wh_lane_id() != 0) {
        return;
    }
    for (uint64_t i = first; i < first + a.c.iterations; i++) {
        void *p = wh_malloc_lanes(a.heap, 1u, a.c.size);
        stamp_block(&a, p, i + 1);
        count(&a.c.counts->failed, p == NULL);
        a.c.ptrs[i] = p;
    }
    for (uint64_t i = first; i < first + a.c.iterations; i++) {
        check_block(&a, a.c.ptrs[i], i + 1);
        wh_free_lanes(a.heap, 1u, a.c.ptrs[i]);
    }
}

WH_KERNEL(k_probability, paper_args, a) {
    const uint64_t warp = wh_thread_id() / 32;
    if (warp >= a.c.warps || wh_lane_id() != 0 || (mix(a.c.seed + warp) >> 20 & 3) == 0) {
        return; /* one in four sits this launch out */
    }
    void *p = a.c.ptrs[warp];
    if (p == NULL) {
        p = wh_malloc_lanes(a.heap, 1u, a.c.size);
        stamp_block(&a, p, warp + 1);
        a.c.ptrs[warp] = p;
        count(&a.c.counts->failed, p == NULL);
        wh_add_u64_relaxed(&a.c.counts->mallocs, 1);
    } else {
        check_block(&a, p, warp + 1);
        wh_free_lanes(a.heap, 1u, p);
        a.c.ptrs[warp] = NULL;
        wh_add_u64_relaxed(&a.c.counts->releases, 1);
    }
}

WH_KERNEL(k_at_once, paper_args, a) {
    const uint64_t i = wh_thread_id();
    if (i >= a.c.warps) {
        return;
    }
    void *p = wh_malloc(a.heap, a.c.size);
    count(&a.c.counts->failed, p == NULL);
    wh_free(a.heap, p);
}

/* Equation 2 of Vinkler and Havran, summed up. */
WH_KERNEL(k_usable, paper_args, a) {
    uint64_t blocks = 0, waste = 0;
    for (uint64_t i = wh_thread_id(); i < a.c.n; i += wh_grid_threads()) {
        if (a.c.ptrs[i] != NULL) {
            const uint64_t size = wh_usable_size(a.heap, a.c.ptrs[i]);
            blocks++;
            waste += size > a.c.size
                         ? (uint64_t)((double)(size - a.c.size) / (double)size * 4294967296.0)
                         : 0;
        }
    }
    wh_add_u64_relaxed(&a.c.counts->blocks, blocks);
    wh_add_u64_relaxed(&a.c.counts->waste, waste);
}

WH_KERNEL(k_thin, paper_args, a) {
    for (uint64_t i = a.c.from + wh_thread_id(); i < a.c.n; i += wh_grid_threads()) {
        wh_free(a.heap, a.c.ptrs[i]);
    }
}

/* --- the table ----------------------------------------------------------------------------------
 */

#define LAUNCHER(name)                                                          \
    static wh_status name(const wh_launch *launch, const wh_paper_call *call) { \
        paper_args a;                                                           \
        memcpy(&a.heap, &call->handle, sizeof a.heap);                          \
        a.c = *call;                                                            \
        return k_##name(launch, &a);                                            \
    }
#if PAPER_WALKS
LAUNCHER(occupy)
LAUNCHER(get)
LAUNCHER(claim)
#else
#define occupy NULL
#define get NULL
#define claim NULL
#endif
LAUNCHER(cycle)
LAUNCHER(probability)
LAUNCHER(at_once)
LAUNCHER(usable)
LAUNCHER(thin)

WH_TABLE(wh_paper_kernels) = {WH_OF_(NAME), occupy,  get,    claim, cycle,
                              probability,  at_once, usable, thin,  PAPER_QUEUE};
