/* alloc/halloc: Halloc of A. V. Adinets and D. Pleiter, "Halloc: A High-Throughput Dynamic Memory
 * Allocator for GPGPU Architectures", GPU Technology Conference 2014, after the description of
 * M. Winter, "Dynamic Memory Management on the GPU" (thesis), section 2.3.6 and figure 2.8.
 * Internal: may change.
 *
 * Memory is slabs, the pages of a table (core/page_table.h): each is free or has blocks of one
 * size. Each size has heads, slabs from which its requests are served: one atomic add for a
 * group of lanes counts their blocks, and a hash says where in the slab's bitmap each looks for
 * them. A head that fills up is replaced before it is full.
 * docs/SURVEY_ALLOCATORS.md: what differs from the original, and why.
 *
 * Terms (the thesis's)
 *   slab   a page of the table: 4 MiB, less in small heaps (the option slab_bytes)
 *   block  a chunk of a slab: up to half of it. Requests above that get whole slabs in a row
 *   busy   a slab whose fill passed busy_percent: its head is replaced by who passes it
 *
 * Fields and who writes them (device scope, relaxed)
 *   heads  of a kind of chunk, by multiprocessor: number of a slab + 1, 0: none; cas, or store. A
 *          hint: the slab may have become another one's
 * Ordering core/page_table.h P1, P2
 * Progress lock-free (core/page_table.h). A replacement looks at no more than LOOK slabs; who finds
 *          nothing searches all of them (alloc/paged.h)
 * Cost     malloc: for a group of lanes with one size two loads and an atomic add; a load and a
 *          fetch_or a lane. free: a load and a fetch_and a lane, an atomic add a group
 * Fails    NULL is not exact: what others have counted on a full slab and take off again may
 *          hide a block that has been freed meanwhile (core/page_table.h)
 * Check    conform, stress, fault, tests/unit/page_table.c
 */
#ifndef WH_ALLOC_HALLOC_H
#define WH_ALLOC_HALLOC_H

#include "warpheap/core/hash.h"
#include "warpheap/detail/alloc/halloc/options.h"
#include "warpheap/detail/alloc/paged.h"

#include "warpheap/detail/simt/begin.h"

#ifdef WH_HOSTILE
#define WH_HALLOC_LEAST 512u /* bytes of a slab in a small heap */
#define WH_HALLOC_SHARE 4u   /* slabs that a head should have */
#else
#define WH_HALLOC_LEAST 4096u
#define WH_HALLOC_SHARE 64u
#endif
#define WH_HALLOC_HEADS_LOG2 4u /* of one size, at most */
#define WH_HALLOC_MOST (4u << 20)
#define WH_HALLOC_SLABS 64u      /* slabs that a heap should have */
#define WH_HALLOC_BUSY 84u       /* percent: thesis, section 2.3.6 */
#define WH_HALLOC_REUSE 60u      /* percent: fuller ones are not chosen as heads */
#define WH_HALLOC_LOOK 64u       /* slabs that a replacement looks at */
#define WH_HALLOC_TRIES 8u       /* heads that a request tries */
#define WH_HALLOC_PRIME 1048583u /* more than the words of any slab, so a factor of none */

typedef struct wh_halloc_ref {
    wh_paged paged;
    uint64_t *heads; /* by kind, 2^heads_log2 each */
    uint32_t heads_log2;
    uint32_t busy_percent;
} wh_halloc_ref;

#define wh_halloc_NAME "halloc"
#define wh_halloc_MAX_ALIGN (1u << 20)
#define wh_halloc_BLOCKS 5
#define wh_halloc_EACH 0
#define wh_halloc_left WH_NO_LEFT

/* --- layout ----------------------------------------------------------------------------------- */

WH_FN_HOST wh_status wh_halloc_plan(wh_halloc_ref *h, wh_plan *plan, unsigned char *memory,
                                    uint64_t bytes, const void *options, uint32_t n_sms) {
    const wh_halloc_options *o = (const wh_halloc_options *)options;
    uint64_t slab = o->slab_bytes != 0 ? o->slab_bytes : WH_HALLOC_LEAST;
    (void)n_sms;
    while (o->slab_bytes == 0 && slab < WH_HALLOC_MOST && 2 * slab * WH_HALLOC_SLABS <= bytes) {
        slab *= 2;
    }
    if (slab < 512 || slab > 16u << 20 || !wh_is_pow2(slab) || o->busy_percent > 100) {
        return WH_BAD_ARGUMENT;
    }
    wh_paged_shape shape;
    shape.page_log2 = wh_ctz64(slab);
    shape.own_words = 0;
    shape.own_fixed = (uint64_t)WH_PAGE_RUN << WH_HALLOC_HEADS_LOG2;
    h->busy_percent = o->busy_percent != 0 ? (uint32_t)o->busy_percent : WH_HALLOC_BUSY;
    const wh_status s = wh_paged_plan(&h->paged, plan, memory, bytes, shape, &h->heads);
    h->heads_log2 = 0;
    while (h->heads_log2 < WH_HALLOC_HEADS_LOG2 &&
           h->paged.table.n >> h->heads_log2 >= 2 * WH_HALLOC_SHARE) {
        h->heads_log2++;
    }
    return s;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_halloc_layout(void) {
    static const uint64_t parts[] = {
        WH_PAGED_LAYOUT,
#define WH_F_(field) WH_LAYOUT_FIELD(wh_halloc_ref, field),
        sizeof(wh_halloc_ref),
        WH_F_(paged) WH_F_(heads) WH_F_(heads_log2) WH_F_(busy_percent)
#undef WH_F_
        WH_HALLOC_LEAST, WH_HALLOC_MOST, WH_HALLOC_SLABS, WH_HALLOC_HEADS_LOG2,
    };
    return wh_layout_hash("halloc", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

WH_FN void wh_halloc_init(wh_halloc_ref h, uint64_t i, uint64_t n) {
    wh_paged_init(h.paged, i, n);
    for (uint64_t k = i; k < (uint64_t)WH_PAGE_RUN << WH_HALLOC_HEADS_LOG2; k += n) {
        wh_store_u64_relaxed(&h.heads[k], 0);
    }
}

/* --- malloc ----------------------------------------------------------------------------------- */

WH_FN uint64_t *wh_halloc_head_(wh_halloc_ref h, uint32_t kind, uint32_t number) {
    return &h.heads[((uint64_t)kind << h.heads_log2) + number];
}

/* A slab that may become a head of a kind in place of the one before: one of this kind that is not
 * too full, else a free one; NONE: none was seen. Each head has slabs of its own, those with its
 * number modulo the number of heads; the first ones behind the one before, so that who looks at the
 * same time finds the same. */
WH_FN uint32_t wh_halloc_choose_(wh_halloc_ref h, uint32_t kind, uint32_t number, uint32_t before) {
    const wh_page_table t = h.paged.table;
    const uint64_t most = (uint64_t)wh_page_capacity(t.page_log2, kind) * WH_HALLOC_REUSE / 100;
    const uint32_t slabs = (t.n - number - 1) >> h.heads_log2; /* of its own, less one */
    uint32_t at = before != WH_PAGE_NONE ? before >> h.heads_log2
                                         : (uint32_t)((uint64_t)wh_spread32(kind) * slabs >> 32);
    for (uint32_t k = 0; k < WH_HALLOC_LOOK && k <= slabs; k += 8) {
        uint32_t sparse = WH_PAGE_NONE, free = WH_PAGE_NONE;
        WH_UNROLL_8
        for (uint32_t i = 0; i < 8; i++) { /* the loads do not wait for each other */
            at = at < slabs ? at + 1 : 0;
            const uint32_t slab = (at << h.heads_log2) + number;
            const uint64_t entry = wh_load_u64_relaxed(&t.entries[slab]);
            const uint32_t is = wh_page_kind(entry);
            sparse = sparse == WH_PAGE_NONE && is == kind && wh_page_count(entry) <= most ? slab
                                                                                          : sparse;
            free = free == WH_PAGE_NONE && is == WH_PAGE_FREE ? slab : free;
        }
        if (sparse != WH_PAGE_NONE || free != WH_PAGE_NONE) {
            return sparse != WH_PAGE_NONE ? sparse : free;
        }
    }
    return WH_PAGE_NONE;
}

/* Where in the bitmap a group of lanes looks first that found `had` blocks on the slab: one to one
 * for groups of 32, so that they meet at no word as long as nothing is freed there, and else spread
 * over all words by what was freed. */
WH_HD uint32_t wh_halloc_hash_(uint32_t capacity, wh_page_reserved got) {
    const uint32_t words = (capacity + 31) / 32;
    const uint32_t word = (got.had / 32 + wh_spread32(got.releases)) % words;
    return (uint32_t)((uint64_t)word * WH_HALLOC_PRIME % words) * 32 + got.had % 32;
}

/* Up to n blocks of the slab of the multiprocessor's head, or of one that replaces it. */
WH_FN wh_page_found wh_halloc_probe_(wh_halloc_ref h, uint32_t kind, uint32_t n) {
    const wh_page_table t = h.paged.table;
    const uint32_t capacity = wh_page_capacity(t.page_log2, kind);
    const uint32_t busy = (uint32_t)((uint64_t)capacity * h.busy_percent / 100);
    const uint32_t number = wh_sm_id() & ((1u << h.heads_log2) - 1);
    uint64_t *at = wh_halloc_head_(h, kind, number);
    wh_page_found found = {WH_PAGE_NONE, {0, 0, 0, 0}};
    for (uint32_t attempt = 0; attempt < WH_HALLOC_TRIES && found.chunks.n == 0; attempt++) {
        const uint64_t head = wh_load_u64_relaxed(at);
        const uint32_t slab = head != 0 ? (uint32_t)head - 1 : WH_PAGE_NONE;
        if (slab != WH_PAGE_NONE) {
            found.chunks = wh_page_reserve_add(t, slab, kind, n);
            found.page = found.chunks.n != 0 ? slab : WH_PAGE_NONE;
        }
        const uint32_t had = found.chunks.had, has = had + found.chunks.n;
        const int fills = found.chunks.n == 0 || (had < busy && has >= busy);
        if (fills && wh_load_u64_relaxed(at) == head) {
            const uint32_t next = wh_halloc_choose_(h, kind, number, slab);
            if (next != WH_PAGE_NONE) {
                (void)wh_cas_u64_relaxed(at, head, (uint64_t)next + 1);
            }
        }
    }
    found.chunks.had = wh_halloc_hash_(capacity, found.chunks);
    return found;
}

WH_FN void *wh_halloc_get_(wh_halloc_ref h, wh_mask mask, size_t n, size_t align) {
    wh_paged_request r = wh_paged_request_for(h.paged, n, align);
    const uint32_t kind = r.kind;
    for (int some = 1; some && wh_any(mask, wh_paged_asks(r));) {
        const wh_group g = wh_paged_group(mask, r);
        wh_page_found found = {WH_PAGE_NONE, {0, 0, 0, 0}};
        if (wh_paged_asks(r) && wh_group_leads(g)) {
            found = wh_halloc_probe_(h, r.kind, g.n);
        }
        some = wh_paged_share(h.paged, mask, g, found, &r);
    }
    uint32_t opened = WH_PAGE_NONE;
    void *p = wh_paged_rest(h.paged, mask, n, WH_PAGE_NONE, &r, &opened);
    if (opened != WH_PAGE_NONE) { /* a search has made it a slab of this kind */
        const uint32_t number = opened & ((1u << h.heads_log2) - 1);
        wh_store_u64_relaxed(wh_halloc_head_(h, kind, number), (uint64_t)opened + 1);
    }
    return p;
}

WH_FN void *wh_halloc_malloc(wh_halloc_ref h, wh_mask mask, size_t n) {
    return wh_halloc_get_(h, mask, n, 16);
}

WH_FN void *wh_halloc_aligned(wh_halloc_ref h, wh_mask mask, size_t align, size_t n) {
    return wh_halloc_get_(h, mask, n, align);
}

/* --- the rest --------------------------------------------------------------------------------- */

WH_FN void wh_halloc_free(wh_halloc_ref h, wh_mask mask, void *p) {
    (void)wh_paged_free(h.paged, mask, p, 1);
}

WH_FN int wh_halloc_owns(wh_halloc_ref h, const void *p) {
    return wh_paged_owns(h.paged, p);
}

WH_FN uint64_t wh_halloc_usable_size(wh_halloc_ref h, const void *p) {
    return wh_paged_usable_size(h.paged, p);
}

WH_FN void wh_halloc_stats(wh_halloc_ref h, uint64_t i, uint64_t n, wh_stats *s) {
    wh_paged_stats(h.paged, i, n, s);
}

WH_FN void wh_halloc_check(wh_halloc_ref h, uint64_t i, uint64_t n, wh_report *r) {
    wh_paged_check(h.paged, i, n, r);
}

WH_FN void wh_halloc_walk(wh_halloc_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink) {
    wh_paged_walk(h.paged, i, n, sink);
}

#include "warpheap/detail/simt/end.h"

#endif
