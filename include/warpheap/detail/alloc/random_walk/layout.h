/* alloc/random_walk/layout.h: what the random-walk page allocators lay out, and the
 * arithmetic of their out-of-memory test. random_walk.h is the place to start. It may change.
 *
 * Fields and who writes them (device scope)
 *   flags   get: fetch_or 1, acquire, or cas even -> odd. free: store odd + 1, release, by
 *           the owner
 *   words   {releases:31, lock:1, used:32}. lock: fetch_or acquire; the holder: add that
 *           sets used bits and clears the lock, relaxed. free: add that clears used bits
 *           and counts, release
 *   hints   any lane, relaxed; never trusted
 * Invariants
 *   I1  a page has one owner: one fetch_or or cas sees its flag even; or its bit is set
 *       under its word's lock
 *   I2  the bits behind the last page are set, always
 *   I3  no lock bit is set when quiet
 *   X1  exact_oom: NULL only if two passes over all flags or words found nothing, and the same sum
 *       of their counts: core/use_word.h X1
 * Ordering pairs
 *   P1  free (release) -> get (acquire) of the same flag, or the same word (core/use_word.h P1);
 *       in corw the lane that acquires and the lane that gets the page differ: a syncwarp
 *       lies in between
 *   P2  lock bit: what a holder does to the word clears the lock with it; so the next
 *       holder's fetch_or, later in the order of the one word, sees it without more
 */
#ifndef WH_ALLOC_RANDOM_WALK_LAYOUT_H
#define WH_ALLOC_RANDOM_WALK_LAYOUT_H

#include "warpheap/detail/alloc/contract.h"
#include "warpheap/detail/alloc/random_walk/options.h"
#include "warpheap/core/use_word.h"

#include "warpheap/detail/simt/begin.h"

#define WH_PAGE_NONE UINT32_MAX

/* Of a use word: {releases:31, lock:1, used:32}. The count may wrap: nothing lies above it. */
#define WH_RANDOM_WALK_LOCK ((uint64_t)1 << 32)
#define WH_RANDOM_WALK_COUNT 33

/* The paper's page (section 5.2.1). list.h gives it as the largest request. */
#define WH_RANDOM_WALK_PAGE 256u

/* The out-of-memory test's L and its false alarms, in millionths (section 3.2.3). */
#ifdef WH_HOSTILE
#define WH_RANDOM_WALK_FREE_PPM 250000u /* gives up early: NULLs at every corner */
#define WH_RANDOM_WALK_ERROR_PPM 100000u
#define WH_RANDOM_WALK_MAX_HINTS 4u
#else
#define WH_RANDOM_WALK_FREE_PPM 5000u
#define WH_RANDOM_WALK_ERROR_PPM 10000u
#define WH_RANDOM_WALK_MAX_HINTS (1u << 20)
#endif

typedef struct wh_random_walk_header {
    uint64_t failed;
    uint64_t bad_frees;
} wh_random_walk_header;

typedef struct wh_random_walk_ref {
    unsigned char *base; /* of page 0 */
    uint32_t *flags;     /* RW: one a page */
    uint64_t *words;     /* the others: use words, 32 pages each, with their LockMap bit */
    uint32_t *hints;     /* CRW: last page of a thread */
    wh_random_walk_header *header;
    uint32_t pages;
    uint32_t n_words;
    uint32_t n_hints; /* power of two */
    uint32_t page_log2;
    uint32_t limit; /* S_L: steps without a free page after which a walk gives up */
    uint32_t exact; /* then sweep before NULL */
} wh_random_walk_ref;

/* What a call of getPage came to. */
typedef struct wh_page_got {
    uint32_t page;  /* WH_PAGE_NONE: out of memory */
    uint32_t steps; /* of the walk: TAS is its mean, WAS the mean of the warps' largest */
} wh_page_got;

/* S_L. A step finds a free page with probability `hit` if a share L of them is free; S is
 * the least number of steps that all fail with at most the probability `error` (the
 * geometric law). The paper approximates it by the normal law, for 99 %:
 * S = 5.411 (1 - hit) / hit; at the default confidence S is not below that either. */
WH_FN_HOST uint32_t wh_random_walk_limit(double free_share, double error, uint32_t bits) {
    double miss = 1, keep = 1;
    uint64_t s = 0;
    for (uint32_t i = 0; i < bits; i++) {
        miss *= 1 - free_share;
    }
    while (keep > error && s < UINT32_MAX) {
        keep *= miss;
        s++;
    }
    if (error > 0.0099 && error < 0.0101 && miss < 1) {
        const double normal = 5.411 * miss / (1 - miss);
        s = (double)s < normal ? (uint64_t)normal + 1 : s;
    }
    if (s < 1) {
        return 1;
    }
    return s > UINT32_MAX ? UINT32_MAX : (uint32_t)s;
}

enum { WH_RANDOM_WALK_FLAGS = 1, WH_RANDOM_WALK_BITMAP = 2, WH_RANDOM_WALK_HINTS = 4 };

WH_FN_HOST uint64_t wh_random_walk_align_(uint64_t bytes) {
    return (bytes + 15) & ~(uint64_t)15;
}

/* Bytes of metadata for that many pages. */
WH_FN_HOST uint64_t wh_random_walk_metadata_(uint32_t parts, uint64_t pages, uint64_t n_hints) {
    const uint64_t words = (pages + WH_USE_BITS - 1) / WH_USE_BITS;
    uint64_t bytes = sizeof(wh_random_walk_header);
    bytes += (parts & WH_RANDOM_WALK_FLAGS) != 0 ? wh_random_walk_align_(pages * 4) : 0;
    bytes += (parts & WH_RANDOM_WALK_BITMAP) != 0 ? wh_random_walk_align_(words * 8) : 0;
    bytes += (parts & WH_RANDOM_WALK_HINTS) != 0 ? wh_random_walk_align_(n_hints * 4) : 0;
    return bytes;
}

/* A hint for each quarter of the pages: more threads than that cannot get pages for long. */
WH_FN_HOST uint32_t wh_random_walk_hints_(uint64_t pages) {
    uint32_t n = 1;
    while (n < WH_RANDOM_WALK_MAX_HINTS && n < pages / 4) {
        n *= 2;
    }
    return n;
}

/* Pages first, metadata behind them. */
WH_FN_HOST wh_status wh_random_walk_plan_(wh_random_walk_ref *h, wh_plan *plan,
                                          unsigned char *memory, uint64_t bytes,
                                          const void *options, uint32_t parts) {
    const wh_random_walk_options *o = (const wh_random_walk_options *)options;
    const uint64_t page = o->page_bytes != 0 ? o->page_bytes : WH_RANDOM_WALK_PAGE;
    const uint64_t free_ppm = o->oom_free_ppm != 0 ? o->oom_free_ppm : WH_RANDOM_WALK_FREE_PPM;
    const uint64_t error_ppm = o->oom_error_ppm != 0 ? o->oom_error_ppm : WH_RANDOM_WALK_ERROR_PPM;
    const double free_share = (double)free_ppm / 1e6, error = (double)error_ppm / 1e6;
    if (page < 16 || (page & (page - 1)) != 0 || free_share >= 1 || error >= 1) {
        return WH_BAD_ARGUMENT;
    }
    plan->min_bytes = page + wh_random_walk_metadata_(parts, 1, 1);
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    uint64_t pages = bytes / page;
    pages = pages < WH_PAGE_NONE ? pages : WH_PAGE_NONE - 1;
    uint32_t n_hints = wh_random_walk_hints_(pages);
    while (pages > 1 && pages * page + wh_random_walk_metadata_(parts, pages, n_hints) > bytes) {
        const uint64_t over =
            pages * page + wh_random_walk_metadata_(parts, pages, n_hints) - bytes;
        const uint64_t less = over / (page + 64); /* a page brings at most that */
        pages -= less > 1 ? less : 1;
        n_hints = wh_random_walk_hints_(pages);
    }
    h->base = memory;
    h->pages = (uint32_t)pages;
    h->n_words = (uint32_t)((pages + WH_USE_BITS - 1) / WH_USE_BITS);
    h->n_hints = n_hints;
    h->page_log2 = wh_ctz64(page);
    h->exact = o->exact_oom != 0;
    h->limit = wh_random_walk_limit(free_share, error,
                                    (parts & WH_RANDOM_WALK_BITMAP) != 0 ? WH_USE_BITS : 1);
    plan->metadata_bytes = bytes - pages * page;
    plan->init_items = (parts & WH_RANDOM_WALK_FLAGS) != 0 ? pages : h->n_words;
    if (memory != NULL) {
        unsigned char *at = memory + pages * page;
        h->header = (wh_random_walk_header *)(void *)at;
        at += sizeof *h->header;
        if ((parts & WH_RANDOM_WALK_FLAGS) != 0) {
            h->flags = (uint32_t *)(void *)at;
            at += wh_random_walk_align_(pages * 4);
        }
        if ((parts & WH_RANDOM_WALK_BITMAP) != 0) {
            h->words = (uint64_t *)(void *)at;
            at += wh_random_walk_align_((uint64_t)h->n_words * 8);
        }
        if ((parts & WH_RANDOM_WALK_HINTS) != 0) {
            h->hints = (uint32_t *)(void *)at;
        }
    }
    return WH_OK;
}

WH_FN void *wh_random_walk_address_(wh_random_walk_ref h, uint32_t page) {
    wh_assert_internal(page < h.pages);
    return h.base + ((uint64_t)page << h.page_log2);
}

/* Pages of word i that exist, and of these the used ones. For RW 32 flags are a word. */
WH_FN uint32_t wh_random_walk_exist_(wh_random_walk_ref h, uint32_t word) {
    const uint32_t left = h.pages - word * WH_USE_BITS;
    return left >= WH_USE_BITS ? ~0u : (1u << left) - 1;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_random_walk_layout_(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_random_walk_ref, field),
        sizeof(wh_random_walk_ref),
        WH_F_(base) WH_F_(flags) WH_F_(words) WH_F_(hints) WH_F_(header) WH_F_(pages) WH_F_(n_words)
        WH_F_(n_hints) WH_F_(page_log2) WH_F_(limit) WH_F_(exact)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_random_walk_header, field),
        sizeof(wh_random_walk_header),
        WH_F_(failed) WH_F_(bad_frees)
#undef WH_F_
        WH_RANDOM_WALK_PAGE, WH_RANDOM_WALK_LOCK, WH_RANDOM_WALK_COUNT, WH_USE_BITS,
    };
    return wh_layout_hash("random_walk", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

#include "warpheap/detail/simt/end.h"

#endif
