/* alloc/page_queue: pages of one size in one queue, as simple as a queue can be: the
 * stand-in of Pham et al. (TOPC 2025, sections 3.2 and 5.1) for allocators that are built
 * on queues, against which they hold the random walk. All threads meet in one place: the
 * i-th of N threads that come together waits for i - 1 others, which is what equations 1
 * and 2 count as its steps.
 *
 * A request of 1..page bytes gets a page, a larger one NULL (list.h: max_size;
 * the option page_bytes). It may change.
 *
 * Fields  count  pages in the queue that may be taken, less what takes that found too few
 *                have not given back yet; signed. malloc: fetch_sub, add; free: add. (A cas in
 *                a loop succeeds once per round trip, however many warps try.)
 *         ring, entries: core/ring.h
 * I1      count = tail - head of the ring, when quiet; never more in between
 * P1      ring put (release) -> ring take (acquire), core/ring.h
 * X1      NULL only when tail, which grows at the start of a free, was equal to head, which
 *         grows by the pages that a malloc gets: head was read between two readings of the
 *         same tail, so at that moment every page was out. count alone does not say so, as
 *         what a take gives back may be hidden in it by a free.
 * Lanes   lanes of one call share one fetch_sub and one fetch_add
 * Progress as core/ring.h; a malloc that finds nothing waits for takes that have been
 *         counted but not given their places
 * Cost    malloc: 2 atomics per group, and 1 per lane of pages that have come back; free: 2
 *         per group and 1 per lane
 * Check   tests/conform, tests/stress
 */
#ifndef WH_ALLOC_PAGE_QUEUE_H
#define WH_ALLOC_PAGE_QUEUE_H

#include "warpheap/detail/alloc/contract.h"
#include "warpheap/detail/alloc/random_walk/layout.h"
#include "warpheap/core/warp_group.h"
#include "warpheap/core/ring.h"
#include "warpheap/detail/alloc/page_queue/options.h"

#include "warpheap/detail/simt/begin.h"

typedef struct wh_page_queue_header {
    wh_ring ring;
    uint64_t count;
    uint64_t failed;
    uint64_t bad_frees;
} wh_page_queue_header;

typedef struct wh_page_queue_ref {
    unsigned char *base;
    wh_page_queue_header *header;
    uint32_t *entries;
    uint32_t pages;
    uint32_t capacity; /* of the ring */
    uint32_t page_log2;
} wh_page_queue_ref;

#define wh_page_queue_NAME "page-queue"
#define wh_page_queue_MAX_ALIGN 16u
#define wh_page_queue_BLOCKS 8
#define wh_page_queue_EACH 0
#define wh_page_queue_aligned WH_NO_ALIGNED
#define wh_page_queue_walk WH_NO_WALK /* which pages are out is not recorded */

WH_FN_HOST uint64_t wh_page_queue_capacity_(uint64_t pages) {
    uint64_t n = 1;
    while (n < pages) {
        n *= 2;
    }
    return n;
}

WH_FN_HOST wh_status wh_page_queue_plan(wh_page_queue_ref *h, wh_plan *plan, unsigned char *memory,
                                        uint64_t bytes, const void *options, uint32_t n_sms) {
    const wh_page_queue_options *o = (const wh_page_queue_options *)options;
    const uint64_t page = o->page_bytes != 0 ? o->page_bytes : WH_RANDOM_WALK_PAGE;
    (void)n_sms;
    if (page < 16 || (page & (page - 1)) != 0) {
        return WH_BAD_ARGUMENT;
    }
    plan->min_bytes = page + sizeof(wh_page_queue_header) + 4;
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    /* The ring is a power of two: the pages stop where its next one would not fit. */
    const uint64_t room = bytes - sizeof(wh_page_queue_header);
    const uint64_t most = (uint64_t)1 << 31;
    uint64_t best = 0;
    for (uint64_t capacity = 1; capacity <= most && capacity * 4 < room; capacity *= 2) {
        const uint64_t fit = (room - capacity * 4) / page;
        const uint64_t pages = fit < capacity ? fit : capacity;
        best = pages > best ? pages : best;
    }
    h->base = memory;
    h->pages = (uint32_t)best;
    h->capacity = (uint32_t)wh_page_queue_capacity_(best);
    h->page_log2 = wh_ctz64(page);
    plan->metadata_bytes = bytes - best * page;
    plan->init_items = h->capacity;
    if (memory != NULL) {
        h->header = (wh_page_queue_header *)(void *)(memory + best * page);
        h->entries = (uint32_t *)(void *)(h->header + 1);
    }
    return WH_OK;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_page_queue_layout(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_page_queue_ref, field),
        sizeof(wh_page_queue_ref),
        WH_F_(base) WH_F_(header) WH_F_(entries) WH_F_(pages) WH_F_(capacity) WH_F_(page_log2)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_page_queue_header, field),
        sizeof(wh_page_queue_header),
        WH_F_(ring) WH_F_(count) WH_F_(failed) WH_F_(bad_frees)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_ring, field),
        sizeof(wh_ring),
        WH_F_(head) WH_F_(tail) WH_F_(virgin)
#undef WH_F_
    };
    return wh_layout_hash("page_queue", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

WH_FN void wh_page_queue_init(wh_page_queue_ref h, uint64_t i, uint64_t n) {
    for (uint64_t k = i; k < h.capacity; k += n) {
        wh_store_u32_relaxed(&h.entries[k], 0);
    }
    if (i == 0) {
        wh_store_u64_relaxed(&h.header->ring.head, 0);
        wh_store_u64_relaxed(&h.header->ring.tail, h.pages);
        wh_store_u64_relaxed(&h.header->ring.virgin, h.pages);
        wh_store_u64_relaxed(&h.header->count, h.pages);
        wh_store_u64_relaxed(&h.header->failed, 0);
        wh_store_u64_relaxed(&h.header->bad_frees, 0);
    }
}

/* Takes up to k pages off the count; 0 by X1. */
WH_FN uint32_t wh_page_queue_reserve_(wh_page_queue_ref h, uint32_t k) {
    wh_page_queue_header *q = h.header;
    wh_assert_internal(k != 0 && k <= WH_WARP_SIZE);
    for (uint32_t attempt = 0;; attempt++) {
        if ((int64_t)wh_load_u64_relaxed(&q->count) > 0) {
            const int64_t had = (int64_t)wh_fetch_sub_u64_relaxed(&q->count, k);
            const uint32_t some = had > 0 ? (uint32_t)had : 0;
            const uint32_t got = had >= (int64_t)k ? k : some;
            if (got < k) {
                wh_add_u64_relaxed(&q->count, k - got);
            }
            if (got != 0) {
                return got;
            }
        }
        const uint64_t tail = wh_load_u64_acquire(&q->ring.tail);
        const uint64_t head = wh_load_u64_acquire(&q->ring.head);
        if (WH_PLANT(page_queue_x1, head == tail && wh_load_u64_relaxed(&q->ring.tail) == tail,
                     1)) { /* X1 */
            return 0;
        }
        wh_backoff(attempt);
    }
}

/* Pages for the lanes of mask with `wants`. steps: the caller's position in the order of
 * all takes since the reset, from 1. */
WH_FN wh_page_got wh_page_queue_get_page(wh_page_queue_ref h, wh_mask mask, int wants) {
    const wh_group g = wh_group_by_u32(mask, wants != 0);
    uint32_t n = 0;
    uint64_t first = 0;
    wh_page_got got;
    if (wants && wh_group_leads(g)) {
        n = wh_page_queue_reserve_(h, g.n);
        first = n != 0 ? wh_ring_reserve_take(&h.header->ring, n) : 0;
    }
    n = wh_shfl_u32(mask, n, g.leader);
    first = wh_shfl_u64(mask, first, g.leader);
    got.page = WH_PAGE_NONE;
    got.steps = 0;
    if (wants && g.rank < n) {
        got.page = wh_ring_take_at(&h.header->ring, h.entries, h.capacity, first + g.rank); /* P1 */
        got.steps = (uint32_t)(first + g.rank + 1);
    }
    return got;
}

WH_FN void *wh_page_queue_malloc(wh_page_queue_ref h, wh_mask mask, size_t n) {
    const int wants = n != 0 && n <= (uint64_t)1 << h.page_log2;
    const wh_page_got got = wh_page_queue_get_page(h, mask, wants);
    if (got.page == WH_PAGE_NONE) {
        wh_add_u64_relaxed(&h.header->failed, n != 0);
        return NULL;
    }
    wh_assert_internal(got.page < h.pages);
    return h.base + ((uint64_t)got.page << h.page_log2);
}

WH_FN int wh_page_queue_owns(wh_page_queue_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.base) >> h.page_log2 < h.pages;
}

WH_FN uint64_t wh_page_queue_usable_size(wh_page_queue_ref h, const void *p) {
    const uint64_t at = (uint64_t)((const unsigned char *)p - h.base);
    const uint64_t page = (uint64_t)1 << h.page_log2;
    return wh_page_queue_owns(h, p) && (at & (page - 1)) == 0 ? page : 0;
}

WH_FN void wh_page_queue_free(wh_page_queue_ref h, wh_mask mask, void *p) {
    const int good = wh_page_queue_usable_size(h, p) != 0;
    const wh_group g = wh_group_by_u32(mask, good != 0);
    uint64_t first = 0;
    if (good && wh_group_leads(g)) {
        first = wh_fetch_add_u64_relaxed(&h.header->ring.tail, g.n);
    }
    first = wh_shfl_u64(mask, first, g.leader);
    if (good) {
        const uint64_t page = (uint64_t)((unsigned char *)p - h.base) >> h.page_log2;
        wh_ring_put_at(h.entries, h.capacity, first + g.rank, (uint32_t)page); /* P1 */
    } else if (p != NULL) {
        wh_add_u64_relaxed(&h.header->bad_frees, 1);
    }
    wh_syncwarp(mask); /* all puts come before the count says so */
    if (good && wh_group_leads(g)) {
        wh_add_u64_relaxed(&h.header->count, g.n); /* I1 */
    }
}

WH_FN void wh_page_queue_stats(wh_page_queue_ref h, uint64_t i, uint64_t n, wh_stats *s) {
    (void)n;
    if (i == 0) {
        const uint64_t left = wh_load_u64_relaxed(&h.header->count);
        s->live_blocks = h.pages - left;
        s->used_bytes = s->live_blocks << h.page_log2;
        s->largest_free = left != 0 ? (uint64_t)1 << h.page_log2 : 0;
        s->failed = wh_load_u64_relaxed(&h.header->failed);
        s->bad_frees = wh_load_u64_relaxed(&h.header->bad_frees);
        s->n_classes = 1;
        s->classes[0].block_bytes = (uint64_t)1 << h.page_log2;
        s->classes[0].live = s->live_blocks;
        s->classes[0].capacity = h.pages;
    }
}

WH_FN void wh_page_queue_check(wh_page_queue_ref h, uint64_t i, uint64_t n, wh_report *r) {
    const wh_ring *ring = &h.header->ring;
    const uint64_t head = wh_load_u64_relaxed(&ring->head);
    const uint64_t tail = wh_load_u64_relaxed(&ring->tail);
    const uint64_t virgin = wh_load_u64_relaxed(&ring->virgin);
    if (i == 0 && tail - head != wh_load_u64_relaxed(&h.header->count)) { /* I1 */
        wh_report_error(r, 1, head);
    }
    for (uint64_t k = head + i; k < tail; k += n) {
        const uint32_t v = wh_load_u32_relaxed(&h.entries[k & (h.capacity - 1)]);
        if (k >= virgin && (v == 0 || v > h.pages)) {
            wh_report_error(r, 1, k);
        }
    }
}

WH_FN uint64_t wh_page_queue_left(wh_page_queue_ref h, uint64_t bytes, uint64_t i, uint64_t n) {
    const int64_t count = (int64_t)wh_load_u64_relaxed(&h.header->count);
    const int fits = bytes != 0 && bytes <= (uint64_t)1 << h.page_log2;
    (void)n;
    return i == 0 && fits && count > 0 ? (uint64_t)count : 0;
}

#include "warpheap/detail/simt/end.h"

#endif
