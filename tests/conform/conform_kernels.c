/* conform_kernels.c: targeted source: the conformance suite's kernels (conform.h). */
#include "conform.h"

#include <string.h>

#include "warpheap/detail/alloc/tables.h"
#include "warpheap/warpheap.h"

typedef struct conform_args {
    wh_heap_ref heap, other;
    wh_pool_t pool;
    conform_call c;
} conform_args;

WH_STATIC_ASSERT(sizeof(wh_heap_ref) <= sizeof(conform_handle), "room for every handle");
WH_STATIC_ASSERT(sizeof(wh_pool_t) <= sizeof(conform_pool), "room for every pool");

WH_FN void note_error(const conform_call *c, uint32_t error, uint64_t item) {
    if (wh_fetch_add_u64_relaxed(&c->result->errors, 1) == 0) {
        wh_store_u64_relaxed(&c->result->first_error, error);
        wh_store_u64_relaxed(&c->result->first_item, item);
    }
}

/* --- who works on what ------------------------------------------------------------------------ */

/* Lanes that exist in the calling lane's warp. */
WH_FN uint32_t lanes_here(void) {
    const uint32_t first = wh_thread_in_block() - wh_lane_id();
    const uint32_t left = wh_block_threads() - first;
    return left >= 32 ? ~0u : (1u << left) - 1;
}

/* Number of working threads of a block, and the caller's number among those of the
 * grid. A call with no working thread in a block is the host's mistake. */
WH_FN uint64_t workers_per_block(const conform_call *c) {
    const uint32_t threads = wh_block_threads();
    const uint32_t rest = threads % 32;
    return (uint64_t)(threads / 32) * wh_popc32(c->lanes) +
           wh_popc32(c->lanes & ((1u << rest) - 1));
}

WH_FN uint64_t my_number(const conform_call *c) {
    return wh_block_id() * workers_per_block(c) +
           (uint64_t)(wh_thread_in_block() / 32) * wh_popc32(c->lanes) +
           wh_popc32(c->lanes & wh_lanemask_lt());
}

WH_FN int works(const conform_call *c) {
    return (int)(c->lanes >> wh_lane_id() & 1);
}

/* Whether the calling lane sits this round out. */
WH_FN int skips(const conform_call *c, uint32_t round) {
    return c->divergent != 0 && (wh_lane_id() * 7 + round * 3) % 5 < 2;
}

/* Runs the block behind it for every item k of the calling thread. */
#define FOR_MY_ITEMS(c, k)                                                                         \
    for (uint64_t k = my_number(c), stride_ = workers_per_block(c) * wh_grid_blocks(), round_ = 0; \
         k < (c)->n; round_++)                                                                     \
        if (skips(c, (uint32_t)round_)) {                                                          \
            continue;                                                                              \
        } else

/* --- patterns --------------------------------------------------------------------------------- */

WH_FN uint64_t mix(uint64_t x) {
    x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
    x = (x ^ x >> 27) * 0x81dadef4bc2dd44du;
    return x ^ x >> 33;
}

/* Byte i of a block is a function of its key; whole words where possible. */
WH_FN void write_pattern(unsigned char *p, uint64_t key, uint64_t bytes) {
    const uint64_t base = mix(key);
    uint64_t *q = (uint64_t *)(void *)p;
    for (uint64_t i = 0; i < bytes / 8; i++) {
        q[i] = base + i;
    }
    for (uint64_t i = bytes & ~(uint64_t)7; i < bytes; i++) {
        p[i] = (unsigned char)(base + i);
    }
}

WH_FN int pattern_holds(const unsigned char *p, uint64_t key, uint64_t written, uint64_t bytes) {
    const uint64_t base = mix(key);
    const uint64_t *q = (const uint64_t *)(const void *)p;
    const uint64_t words = (written < bytes ? written : bytes) / 8;
    int good = 1;
    for (uint64_t i = 0; i < words; i++) {
        good &= q[i] == base + i;
    }
    for (uint64_t i = words * 8; i < bytes; i++) {
        const uint64_t was = i < (written & ~(uint64_t)7) ? (base + i / 8) >> i % 8 * 8 : base + i;
        good &= p[i] == (unsigned char)was;
    }
    return good;
}

WH_FN uint64_t key_of(const conform_call *c, uint64_t k) {
    return c->seed + k * 0x9e3779b97f4a7c15u;
}

/* --- single blocks ---------------------------------------------------------------------------- */

/* Checks a new block of at least n bytes; returns how many bytes may be used. */
WH_FN uint64_t check_block(const conform_args *a, const void *p, uint64_t n, uint64_t align,
                           uint64_t item) {
    const conform_call *c = &a->c;
    const uint64_t address = (uint64_t)(uintptr_t)p;
    uint64_t usable = n;
    if (address % (align > 16 ? align : 16) != 0) {
        note_error(c, CONFORM_MISALIGNED, item);
    }
    if ((c->caps & WH_CAP_USABLE_SIZE) != 0) {
        usable = wh_usable_size(a->heap, p);
        if (usable < n) {
            note_error(c, CONFORM_USABLE, item);
            usable = n;
        }
    }
    if ((c->caps & WH_CAP_OWNS) != 0 &&
        !(wh_owns(a->heap, p) && wh_owns(a->heap, (const char *)p + usable - 1))) {
        note_error(c, CONFORM_NOT_OWNED, item);
    }
    if ((c->caps & WH_CAP_OWN_MEMORY) != 0 && (address < c->low || address + usable > c->high)) {
        note_error(c, CONFORM_OUTSIDE, item);
    }
    return usable;
}

WH_FN void check_zero(const conform_args *a, const void *p, uint64_t n, uint64_t item) {
    const unsigned char *q = (const unsigned char *)p;
    int zero = 1;
    for (uint64_t i = 0; i < n; i++) {
        zero &= q[i] == 0;
    }
    if (!zero) {
        note_error(&a->c, CONFORM_NOT_ZERO, item);
    }
}

/* Files the outcome of a request under an item. */
WH_FN void keep_block(const conform_args *a, uint64_t k, void *p, uint64_t n, uint64_t align) {
    const conform_call *c = &a->c;
    c->ptrs[k] = p;
    if (p == NULL) {
        c->usable[k] = 0;
        wh_add_u64_relaxed(&c->result->nulls, n != 0);
    } else {
        if (n == 0) {
            note_error(c, CONFORM_NOT_NULL, k);
        }
        c->usable[k] = check_block(a, p, n, align, k);
        wh_add_u64_relaxed(&c->result->served, 1);
    }
}

/* --- what must give NULL or do nothing -------------------------------------------------------- */

WH_FN void expect_null(const conform_args *a, void *p, uint64_t which) {
    if (p != NULL) {
        note_error(&a->c, CONFORM_NOT_NULL, which);
    }
}

WH_KERNEL(edges, conform_args, a) {
    if (!works(&a.c)) {
        return;
    }
    const wh_heap_ref h = a.heap;
    const size_t huge = (size_t)a.c.huge; /* no constant: compilers warn of such sizes */
    expect_null(&a, wh_malloc(h, 0), 0);
    wh_free(h, NULL);
    expect_null(&a, wh_calloc(h, 0, 0), 1);
    expect_null(&a, wh_calloc(h, 0, 100), 2);
    expect_null(&a, wh_calloc(h, 100, 0), 3);
    expect_null(&a, wh_calloc(h, huge, 2), 4); /* the product overflows */
    expect_null(&a, wh_calloc(h, huge / 16 + 2, 16), 5);
    expect_null(&a, wh_calloc(h, (huge >> 32) + 2, (huge >> 32) + 1), 6);
    expect_null(&a, wh_malloc(h, huge), 7);
    expect_null(&a, wh_malloc(h, huge - 14), 8);
    expect_null(&a, wh_malloc(h, huge / 2 + 1), 9);
    if ((a.c.caps & WH_CAP_OWN_MEMORY) != 0) {
        expect_null(&a, wh_malloc(h, a.c.high - a.c.low + 1), 10);
    }
    expect_null(&a, wh_aligned_alloc(h, 0, 16), 11);
    expect_null(&a, wh_aligned_alloc(h, 3, 16), 12);
    expect_null(&a, wh_aligned_alloc(h, 48, 16), 13);
    expect_null(&a, wh_aligned_alloc(h, (size_t)a.c.max_align * 2, 16), 14);
    expect_null(&a, wh_aligned_alloc(h, huge / 2 + 1, 16), 15);
    expect_null(&a, wh_aligned_alloc(h, 16, 0), 16);
    expect_null(&a, wh_aligned_alloc(h, a.c.max_align, 0), 17);
    expect_null(&a, wh_aligned_alloc(h, a.c.max_align, huge), 18);
    expect_null(&a, wh_aligned_alloc(h, a.c.max_align, huge - a.c.max_align), 19);
    if ((a.c.caps & WH_CAP_USABLE_SIZE) != 0) {
        expect_null(&a, wh_realloc(h, NULL, 0), 20);
        expect_null(&a, wh_realloc(h, NULL, huge), 21);
        if (wh_usable_size(h, NULL) != 0 || wh_usable_size(h, a.c.result) != 0) {
            note_error(&a.c, CONFORM_USABLE_OF_NULL, 0);
        }
    }
    if ((a.c.caps & WH_CAP_OWNS) != 0 &&
        (wh_owns(h, NULL) || wh_owns(h, a.c.result) || wh_owns(h, (void *)(uintptr_t)a.c.high) ||
         wh_owns(h, (void *)(uintptr_t)(a.c.low - 1)))) {
        note_error(&a.c, CONFORM_OWNED, 0);
    }
    expect_null(&a, wh_pool_malloc(wh_pool_of(h, 0)), 23);
    expect_null(&a, wh_pool_malloc(wh_pool_of(h, huge)), 24);
    wh_pool_free(wh_pool_of(h, 16), NULL);
    /* malloc_warp of nothing: every lane of the warp together */
    if (a.c.lanes == ~0u && !a.c.divergent) {
        expect_null(&a, wh_malloc_warp(h, lanes_here(), 0), 22);
        expect_null(&a, wh_pool_malloc_warp(wh_pool_of(h, 0), lanes_here()), 25);
        wh_pool_free_warp(wh_pool_of(h, 16), lanes_here(), NULL);
        wh_free_warp(h, lanes_here(), NULL);
    }
}

/* --- items ------------------------------------------------------------------------------------ */

WH_KERNEL(allocate, conform_args, a) {
    if (!works(&a.c)) {
        return;
    }
    FOR_MY_ITEMS(&a.c, i) {
        const uint64_t k = a.c.order[i], n = a.c.sizes[k];
        i += stride_;
        if (a.c.ptrs[k] != NULL) {
            continue;
        }
        void *p = NULL;
        uint64_t align = 16;
        if (a.c.how == CONFORM_CALLOC) { /* two sites: lanes part ways */
            const uint64_t half = n % 2 == 0 ? 2 : 1, part = n % 3 == 0 ? 3 : half;
            p = k % 2 == 0 ? wh_calloc(a.heap, part, n / part) : wh_calloc(a.heap, n / part, part);
            if (p != NULL) {
                check_zero(&a, p, n, k);
            }
        } else if (a.c.how == CONFORM_ALIGNED) {
            align = a.c.aligns[k];
            p = wh_aligned_alloc(a.heap, align, n);
        } else if (k % 3 == 0) {
            p = wh_malloc(a.heap, n);
        } else {
            p = wh_malloc(a.heap, n);
        }
        keep_block(&a, k, p, n, align);
    }
}

/* The converged form: all working lanes go through the same number of rounds. */
WH_KERNEL(allocate_lanes, conform_args, a) {
    if (!works(&a.c)) {
        return;
    }
    const wh_mask all = a.c.lanes & lanes_here();
    const uint64_t stride = workers_per_block(&a.c) * wh_grid_blocks();
    for (uint64_t i = my_number(&a.c);; i += stride) {
        const wh_mask mask = wh_ballot(all, i < a.c.n);
        if (i < a.c.n) {
            const uint64_t k = a.c.order[i];
            keep_block(&a, k, wh_malloc_lanes(a.heap, mask, a.c.sizes[k]), a.c.sizes[k], 16);
        }
        if (mask != all) {
            break;
        }
    }
}

WH_KERNEL(release_lanes, conform_args, a) {
    if (!works(&a.c)) {
        return;
    }
    const wh_mask all = a.c.lanes & lanes_here();
    const uint64_t stride = workers_per_block(&a.c) * wh_grid_blocks();
    for (uint64_t i = my_number(&a.c);; i += stride) {
        const wh_mask mask = wh_ballot(all, i < a.c.n);
        if (i < a.c.n) {
            const uint64_t k = a.c.order[i];
            wh_free_lanes(a.heap, mask, a.c.ptrs[k]);
            a.c.ptrs[k] = NULL;
        }
        if (mask != all) {
            break;
        }
    }
}

WH_FN uint64_t warp_number(void) {
    return wh_block_id() * (uint64_t)((wh_block_threads() + 31) / 32) + wh_thread_in_block() / 32;
}

/* Block k of a warp's, at p: all lanes have the same; each lane's share of its bytes is written, or
 * checked and wiped. */
WH_FN void same_in_all(const conform_call *c, wh_mask mask, uint64_t k, const void *p) {
    if (wh_popc32(wh_match_any_u64(mask, (uint64_t)(uintptr_t)p)) != wh_popc32(mask)) {
        note_error(c, CONFORM_LANES_DIFFER, k);
    }
}
WH_FN void write_shares(const conform_call *c, wh_mask mask, uint64_t k, unsigned char *p,
                        uint64_t n) {
    for (uint64_t i = wh_mask_rank(mask); p != NULL && i < n; i += wh_popc32(mask)) {
        p[i] = (unsigned char)(mix(key_of(c, k)) + i);
    }
}
WH_FN void check_shares(const conform_call *c, wh_mask mask, uint64_t k, unsigned char *p) {
    for (uint64_t i = wh_mask_rank(mask); p != NULL && i < c->sizes[k]; i += wh_popc32(mask)) {
        if (p[i] != (unsigned char)(mix(key_of(c, k)) + i)) {
            note_error(c, CONFORM_CONTENTS, k);
        }
        p[i] = 0;
    }
}

/* Every lane writes its share of the warp's block. */
WH_KERNEL(allocate_warp, conform_args, a) {
    const wh_mask mask = a.c.lanes & lanes_here();
    const uint64_t k = warp_number();
    if (!works(&a.c) || k >= a.c.n) {
        return;
    }
    const uint64_t n = a.c.sizes[k];
    unsigned char *p = (unsigned char *)wh_malloc_warp(a.heap, mask, n);
    same_in_all(&a.c, mask, k, p);
    if (wh_lane_id() == wh_mask_leader(mask)) {
        keep_block(&a, k, p, n, 16);
    }
    write_shares(&a.c, mask, k, p, n);
}

/* A lane checks another one's share just before the warp frees the block. */
WH_KERNEL(release_warp, conform_args, a) {
    const wh_mask mask = a.c.lanes & lanes_here();
    const uint64_t k = (warp_number() + 1) % a.c.n; /* of another warp */
    if (!works(&a.c) || warp_number() >= a.c.n) {
        return;
    }
    unsigned char *p = (unsigned char *)a.c.ptrs[k];
    check_shares(&a.c, mask, k, p);
    wh_free_warp(a.heap, mask, p);
}

WH_KERNEL(fill, conform_args, a) {
    if (!works(&a.c)) {
        return;
    }
    FOR_MY_ITEMS(&a.c, k) {
        if (a.c.ptrs[k] != NULL) {
            write_pattern((unsigned char *)a.c.ptrs[k], key_of(&a.c, k), a.c.usable[k]);
        }
        k += stride_;
    }
}

WH_KERNEL(verify, conform_args, a) {
    if (!works(&a.c)) {
        return;
    }
    FOR_MY_ITEMS(&a.c, i) {
        const uint64_t k = a.c.n - 1 - i; /* not the thread that filled it */
        if (a.c.ptrs[k] != NULL && !pattern_holds((const unsigned char *)a.c.ptrs[k],
                                                  key_of(&a.c, k), a.c.usable[k], a.c.usable[k])) {
            note_error(&a.c, CONFORM_CONTENTS, k);
        }
        i += stride_;
    }
}

WH_KERNEL(release, conform_args, a) {
    if (!works(&a.c)) {
        return;
    }
    FOR_MY_ITEMS(&a.c, i) {
        const uint64_t k = a.c.order[i];
        i += stride_;
        if (a.c.divergent && k % 2 == 0) {
            wh_free(a.heap, a.c.ptrs[k]);
        } else {
            wh_free(a.heap, a.c.ptrs[k]);
        }
        a.c.ptrs[k] = NULL;
    }
}

WH_KERNEL(resize, conform_args, a) {
    if (!works(&a.c)) {
        return;
    }
    FOR_MY_ITEMS(&a.c, i) {
        const uint64_t k = a.c.order[i], n = a.c.sizes2[k], had = a.c.usable[k];
        i += stride_;
        void *old = a.c.ptrs[k];
        unsigned char *p = (unsigned char *)wh_realloc(a.heap, old, n);
        uint64_t kept = had < n ? had : n;
        if (old != NULL && n != 0 && p == NULL) { /* out of memory: the block stays */
            wh_add_u64_relaxed(&a.c.result->nulls, 1);
            p = (unsigned char *)old;
            kept = had;
        } else {
            keep_block(&a, k, p, n, 16);
            if (old != NULL && n <= had && n >= had / 4 && n != 0 && p != old) {
                note_error(&a.c, CONFORM_MOVED, k);
            }
        }
        if (p != NULL) {
            if (!pattern_holds(p, key_of(&a.c, k), had, kept)) {
                note_error(&a.c, CONFORM_CONTENTS, k);
            }
            write_pattern(p, key_of(&a.c, k), a.c.usable[k]);
        }
    }
}

/* --- out of memory ---------------------------------------------------------------------------- */

WH_KERNEL(exhaust, conform_args, a) {
    if (!works(&a.c)) {
        return;
    }
    for (;;) {
        void *p = wh_malloc(a.heap, a.c.min_size);
        if (p == NULL) {
            wh_add_u64_relaxed(&a.c.result->nulls, 1);
            return;
        }
        const uint64_t k = wh_fetch_add_u64_relaxed(&a.c.result->ticket, 1);
        if (k >= a.c.n) {
            note_error(&a.c, CONFORM_TOO_MANY, k);
            return;
        }
        keep_block(&a, k, p, a.c.min_size, 16);
    }
}

/* --- pools ------------------------------------------------------------------------------------ */

/* A block of the pool has wh_pool_size bytes, whatever other calls say of it. */
WH_FN void keep_pool_block(const conform_args *a, uint64_t k, void *p) {
    const conform_call *c = &a->c;
    const uint64_t size = wh_pool_size(a->pool);
    if (size < c->min_size) {
        note_error(c, CONFORM_USABLE, k);
    }
    keep_block(a, k, p, c->min_size, 16);
    if (p != NULL && (c->caps & WH_CAP_USABLE_SIZE) == 0) {
        c->usable[k] = size;
    } else if (p != NULL && c->usable[k] < size) {
        note_error(c, CONFORM_USABLE, k);
    }
}

WH_KERNEL(pool_allocate, conform_args, a) {
    if (!works(&a.c)) {
        return;
    }
    FOR_MY_ITEMS(&a.c, i) {
        const uint64_t k = a.c.order[i], n = a.c.sizes[k];
        i += stride_;
        if (a.c.ptrs[k] != NULL) {
            continue;
        }
        if (n != a.c.min_size) {
            keep_block(&a, k, wh_malloc(a.heap, n), n, 16);
        } else if (k % 3 == 0) {
            const wh_pool_t own = wh_pool_of(a.heap, n);
            keep_pool_block(&a, k, wh_pool_malloc(own));
        } else {
            keep_pool_block(&a, k, wh_pool_malloc(a.pool));
        }
    }
}

WH_KERNEL(pool_release, conform_args, a) {
    if (!works(&a.c)) {
        return;
    }
    FOR_MY_ITEMS(&a.c, i) {
        const uint64_t k = a.c.order[i];
        i += stride_;
        if (a.c.sizes[k] == a.c.min_size && k % 4 != 0) {
            wh_pool_free(a.pool, a.c.ptrs[k]);
        } else {
            wh_free(a.heap, a.c.ptrs[k]);
        }
        a.c.ptrs[k] = NULL;
    }
}

WH_KERNEL(pool_lanes, conform_args, a) {
    if (!works(&a.c)) {
        return;
    }
    const wh_mask all = a.c.lanes & lanes_here();
    const uint64_t stride = workers_per_block(&a.c) * wh_grid_blocks();
    for (uint64_t i = my_number(&a.c);; i += stride) {
        const wh_mask mask = wh_ballot(all, i < a.c.n);
        if (i < a.c.n) {
            keep_pool_block(&a, a.c.order[i], wh_pool_malloc_lanes(a.pool, mask));
        }
        if (mask != all) {
            break;
        }
    }
}

WH_KERNEL(pool_release_lanes, conform_args, a) {
    if (!works(&a.c)) {
        return;
    }
    const wh_mask all = a.c.lanes & lanes_here();
    const uint64_t stride = workers_per_block(&a.c) * wh_grid_blocks();
    for (uint64_t i = my_number(&a.c);; i += stride) {
        const wh_mask mask = wh_ballot(all, i < a.c.n);
        if (i < a.c.n) {
            wh_pool_free_lanes(a.pool, mask, a.c.ptrs[a.c.order[i]]);
            a.c.ptrs[a.c.order[i]] = NULL;
        }
        if (mask != all) {
            break;
        }
    }
}

WH_KERNEL(pool_warp, conform_args, a) {
    const wh_mask mask = a.c.lanes & lanes_here();
    const uint64_t k = warp_number();
    if (!works(&a.c) || k >= a.c.n) {
        return;
    }
    unsigned char *p = (unsigned char *)wh_pool_malloc_warp(a.pool, mask);
    same_in_all(&a.c, mask, k, p);
    if (wh_lane_id() == wh_mask_leader(mask)) {
        keep_pool_block(&a, k, p);
    }
    write_shares(&a.c, mask, k, p, a.c.sizes[k]);
}

WH_KERNEL(pool_release_warp, conform_args, a) {
    const wh_mask mask = a.c.lanes & lanes_here();
    const uint64_t k = (warp_number() + 1) % a.c.n; /* of another warp */
    if (!works(&a.c) || warp_number() >= a.c.n) {
        return;
    }
    unsigned char *p = (unsigned char *)a.c.ptrs[k];
    check_shares(&a.c, mask, k, p);
    wh_pool_free_warp(a.pool, mask, p);
}

WH_KERNEL(pool_exhaust, conform_args, a) {
    if (!works(&a.c)) {
        return;
    }
    for (;;) {
        void *p = wh_pool_malloc(a.pool);
        if (p == NULL) {
            wh_add_u64_relaxed(&a.c.result->nulls, 1);
            return;
        }
        const uint64_t k = wh_fetch_add_u64_relaxed(&a.c.result->ticket, 1);
        if (k >= a.c.n) {
            note_error(&a.c, CONFORM_TOO_MANY, k);
            return;
        }
        keep_pool_block(&a, k, p);
    }
}

/* --- malloc and free in one kernel ------------------------------------------------------------ */

/* Out of line: see churn_two. */
WH_FN_SLOW void churn_lane(const conform_args *a) {
    if (!works(&a->c)) {
        return;
    }
    uint64_t random = mix(a->c.seed ^ my_number(&a->c) * 0x9e3779b97f4a7c15u);
    void *held[CONFORM_HOLD];
    uint64_t bytes[CONFORM_HOLD], key[CONFORM_HOLD];
    const int disjoint = (a->c.caps & WH_CAP_DISJOINT) != 0; /* else contents mean nothing */
    for (uint32_t i = 0; i < CONFORM_HOLD; i++) {
        held[i] = NULL;
    }
    for (uint32_t step = 0; step < a->c.steps + a->c.hold; step++) {
        random = mix(random + 0x9e3779b97f4a7c15u);
        const uint32_t s =
            step < a->c.steps ? (uint32_t)(random >> 8) % a->c.hold : step - a->c.steps;
        if (skips(&a->c, step) && step < a->c.steps) {
            continue;
        }
        if (held[s] != NULL) {
            if (disjoint &&
                !pattern_holds((const unsigned char *)held[s], key[s], bytes[s], bytes[s])) {
                note_error(&a->c, CONFORM_CONTENTS, my_number(&a->c));
            }
            wh_free(a->heap, held[s]);
            held[s] = NULL;
        } else if (step < a->c.steps) {
            const uint64_t n = a->c.min_size + (random >> 24) % (a->c.max_size - a->c.min_size + 1);
            held[s] = wh_malloc(a->heap, n);
            if (held[s] == NULL) {
                wh_add_u64_relaxed(&a->c.result->nulls, 1);
                if (a->c.strict) {
                    note_error(&a->c, CONFORM_UNEXPECTED_NULL, my_number(&a->c));
                }
                continue;
            }
            wh_add_u64_relaxed(&a->c.result->served, 1);
            bytes[s] = check_block(a, held[s], n, 16, my_number(&a->c));
            key[s] = random;
            if (disjoint) {
                write_pattern((unsigned char *)held[s], key[s], bytes[s]);
            }
        }
    }
}

WH_KERNEL(churn, conform_args, a) {
    churn_lane(&a);
}

/* The lanes of a warp go through the same calls from two places of the program, so they need not
 * wait for each other, and lanes with different masks are in the same code at the same time. */
WH_KERNEL(churn_two, conform_args, a) {
    if ((mix(wh_lane_id() + a.c.seed) & 1) != 0) {
        wh_backoff(wh_lane_id() & 3);
        churn_lane(&a);
    } else {
        churn_lane(&a);
        wh_backoff(0);
    }
}

/* --- parts of warps --------------------------------------------------------------------------- */

/* What a lane has to say in a turn. All lanes know, so each can check what it hears. */
WH_FN uint32_t says(uint64_t seed, uint32_t lane, uint32_t turn) {
    return (uint32_t)mix(seed + turn * 64 + lane);
}

/* The lanes of mask vote for as many turns as one of them wants; some come late. Out of line:
 * lanes with other masks pass through the same code. */
WH_FN_SLOW void vote(const conform_call *c, wh_mask mask, uint64_t seed) {
    const uint32_t lane = wh_lane_id();
    const uint32_t manner = says(seed, lane, 64);
    for (uint32_t turn = 0; wh_any(mask, turn < (manner & 3)); turn++) {
        const uint32_t mine = says(seed, lane, turn) % 3;
        wh_mask ones = 0, same = 0;
        for (uint32_t l = 0; l < 32; l++) {
            const uint32_t said = says(seed, l, turn) % 3;
            ones |= (wh_mask)(said == 1) << l;
            same |= (wh_mask)(said == mine) << l;
        }
        if ((manner & 4) != 0) {
            wh_backoff(lane & 1);
        }
        const int ballot = wh_ballot(mask, mine == 1) == (ones & mask);
        if ((manner & 8) != 0) {
            wh_backoff(lane & 1);
        }
        const int match = wh_match_any_u32(mask, mine) == (same & mask);
        const uint32_t from = wh_mask_leader(mask);
        const int shuffle =
            wh_shfl_u32(mask, says(seed, lane, turn), from) == says(seed, from, turn);
        if (!ballot || !match || !shuffle) {
            note_error(c, CONFORM_VOTE, lane);
        }
    }
}

/* The lanes of one mask come from several places of the program. Where lanes meet again by
 * themselves after a branch, as they do in a loop, no part of a mask would ever be in `vote` alone.
 */
WH_KERNEL(parts, conform_args, a) {
    const uint32_t lane = wh_lane_id();
    const uint64_t seed = mix(a.c.seed + wh_block_id() * 64 + wh_thread_in_block() / 32);
    for (uint32_t round = 0; round < 32; round++) {
        const uint32_t n_parts = 1 + round / 8;
        const uint32_t mine = says(seed, lane, 65) % n_parts;
        wh_mask mask = 0;
        for (uint32_t l = 0; l < 32; l++) {
            mask |= (wh_mask)(says(seed, l, 65) % n_parts == mine) << l;
        }
        mask &= lanes_here();
        if (round % (mine + 1) == 0) {
            const uint32_t place = says(seed, lane, 66 + round) % 4;
            if (place == 0) {
                vote(&a.c, mask, seed + round * 8192);
            } else if (place == 1) {
                wh_backoff(0);
                vote(&a.c, mask, seed + round * 8192);
            } else if (place == 2) {
                vote(&a.c, mask, seed + round * 8192);
                wh_backoff(0);
            } else {
                wh_backoff(1);
                vote(&a.c, mask, seed + round * 8192);
                wh_backoff(1);
            }
        }
    }
}

/* --- two heaps -------------------------------------------------------------------------------- */

/* Warps take turns: lanes that call together pass the same heap. aligns[k] says which one
 * has item k. */
WH_KERNEL(two_heaps, conform_args, a) {
    if (!works(&a.c)) {
        return;
    }
    const uint64_t second = warp_number() % 2;
    const wh_heap_ref mine = second ? a.other : a.heap;
    const wh_heap_ref other = second ? a.heap : a.other;
    FOR_MY_ITEMS(&a.c, k) {
        void *p = wh_malloc(mine, a.c.sizes[k]);
        a.c.ptrs[k] = p;
        a.c.aligns[k] = second;
        a.c.usable[k] = p != NULL ? a.c.sizes[k] : 0;
        wh_add_u64_relaxed(&a.c.result->nulls, p == NULL);
        if (p != NULL && (a.c.caps & WH_CAP_OWNS) != 0) {
            if (!wh_owns(mine, p)) {
                note_error(&a.c, CONFORM_NOT_OWNED, k);
            }
            if (wh_owns(other, p)) {
                note_error(&a.c, CONFORM_OWNED, k);
            }
        }
        k += stride_;
    }
}

/* Every warp frees what another one may have allocated, one heap after the other. */
WH_KERNEL(release_two, conform_args, a) {
    if (!works(&a.c)) {
        return;
    }
    FOR_MY_ITEMS(&a.c, k) {
        wh_free(a.heap, a.c.aligns[k] == 0 ? a.c.ptrs[k] : NULL);
        k += stride_;
    }
    wh_syncwarp(a.c.lanes & lanes_here());
    FOR_MY_ITEMS(&a.c, k) {
        wh_free(a.other, a.c.aligns[k] != 0 ? a.c.ptrs[k] : NULL);
        a.c.ptrs[k] = NULL;
        k += stride_;
    }
}

/* Lane 0 alone, and if its warp is whole all lanes together; a warp's answer that differs counts as
 * NULLs. */
WH_KERNEL(left, conform_args, a) {
    const uint64_t alone = wh_thread_id() == 0 ? wh_blocks_left(a.heap, a.c.min_size) : 0;
    if (wh_thread_id() == 0) {
        a.c.result->served = alone;
    }
    if (wh_block_id() == 0 && wh_block_threads() == 32) {
        const uint64_t by_warp = wh_blocks_left_warp(a.heap, WH_FULL_WARP, a.c.min_size);
        if (by_warp != wh_shfl_u64(WH_FULL_WARP, alone, 0)) {
            wh_add_u64_relaxed(&a.c.result->nulls, 1);
        }
    }
}

/* --- the table -------------------------------------------------------------------------------- */

/* clang-format off */
#define KERNELS(X)                                            \
    X(edges) X(allocate) X(allocate_lanes) X(allocate_warp)   \
    X(fill) X(verify)                                         \
    X(release) X(release_lanes) X(release_warp)               \
    X(resize) X(exhaust) X(churn) X(churn_two)                \
    X(pool_allocate) X(pool_lanes) X(pool_warp)               \
    X(pool_exhaust) X(pool_release)                           \
    X(pool_release_lanes) X(pool_release_warp)                \
    X(parts) X(left) X(two_heaps) X(release_two)
/* clang-format on */

#define LAUNCHER(kernel)                                                             \
    static wh_status launch_##kernel(const wh_launch *l, const conform_call *call) { \
        conform_args a;                                                              \
        memcpy(&a.heap, &call->heap, sizeof a.heap);                                 \
        memcpy(&a.other, &call->other, sizeof a.other);                              \
        memcpy(&a.pool, &call->pool, sizeof a.pool);                                 \
        a.c = *call;                                                                 \
        return kernel(l, &a);                                                        \
    }
KERNELS(LAUNCHER)

static wh_status bind(const wh_heap *heap, conform_handle *handle) {
    wh_heap_ref h;
    const wh_status s = wh_heap_handle(heap, &h);
    if (s == WH_OK) {
        memcpy(handle, &h, sizeof h);
    }
    return s;
}

static wh_status bind_pool(const wh_heap *heap, uint64_t bytes, conform_pool *pool) {
    wh_pool_t p;
    const wh_status s = wh_pool_make(heap, bytes, &p);
    if (s == WH_OK) {
        memcpy(pool, &p, sizeof p);
    }
    return s;
}

#define ROW(kernel) launch_##kernel,
WH_TABLE(conform_kernels) = {bind, bind_pool, KERNELS(ROW)};
