/* core/page_table.h: a table with one entry for each page of a memory. A page is free, or split
 * into chunks of one size, which its first user decides, or a part of a run of pages. The page
 * usage table of ScatterAlloc (Steinberger et al., InPar 2012; Winter's thesis, section 2.3.3);
 * the slabs of Halloc (section 2.3.6) are pages, too. Which page to try is the caller's business.
 *
 * Layout  entry = {releases:26, count:26, kind:12}. kind: FREE, RUN (the first page of one), TAIL
 *         (of a run, or of one that a lane holds), or 1 + a class of wh_quarter_size + 64 times a
 *         tag: chunks of one size and another tag are of another kind. count: of chunks. bits: a
 *         use bit for each 16 bytes of a page, of which its chunks use the first ones; a run has
 *         its length in the first word of its first page.
 * Fields  entries  reserve, claim: cas acquire; reserve_add: reserve's cas if the page is free,
 *                  fetch_add acquire, and what was too much as free by adds; free of chunks: cas
 *                  release, or fetch_add release and a cas, relaxed; set_run: add, relaxed; free
 *                  of a run: cas of the first page, relaxed, then adds, release
 *         bits     take: fetch_or acquire; free: fetch_and release; a run's length: store, relaxed
 * I1      chunks: reserved are no more than the page holds; no more bits are set than chunks are
 *         reserved, and as many when quiet. So who has reserved a chunk finds one, and no use bit
 *         is set in a page that is not split. count is the chunks reserved, and what reserve_add
 *         has counted too much and takes off again, on a page of any kind
 * I2      kind changes only from FREE, by a cas, and to FREE when count has gone to 0, by a cas, or
 *         by the owner of a run. A free with HOLD: to TAIL, and the caller then owns a run of one
 * I3      releases grows (modulo 2^26) with each entry whose count goes down or that becomes free
 * P1      free: fetch_and of the use bit, release -> take: fetch_or of the word, acquire
 * P2      free: syncwarp, cas or fetch_add of the entry, release; of a run: add, release ->
 *         reserve, claim: cas acquire, reserve_add: that or fetch_add acquire, then a syncwarp of
 *         the caller's: what lay on the page in its last life comes before what lies there now
 * X1      exact search: passes over all entries sum the releases. If two in a row find none that
 *         would do, and sum up to the same, by I3 nothing came back between the two readings of
 *         any entry, so at the moment between the passes there was nothing (core/use_word.h X1).
 *         Pages that a claim holds before it meets a page in use and gives them back count as used;
 *         chunks that are reserved, too. Where lanes use reserve_add or free by adds, NULL is not
 *         exact: what is counted too much hides chunks, and a page whose count is 0 is not FREE
 *         until the lane that made it so has said so
 * Lanes   any lane alone; free and the searches: all lanes of a mask together
 * Progress lock-free. A cas fails only if another one succeeded, or an add came; a lane with a
 *         reserved chunk loses a bit only to a lane that takes it. A claim goes upwards: if it
 *         fails it met a page of another that was there first, which fails only further up; the
 *         uppermost succeeds, or has met a page in use. A search repeats only if something came
 *         back or was lost meanwhile
 * Cost    a chunk: a cas for a group of lanes and a fetch_or a lane; free: a fetch_and a lane and a
 *         cas a group. Where many meet at one page, a cas succeeds once per round trip: adds do
 *         not wait for each other. A run: a cas a page; free: an add a page
 * Check   tests/unit/page_table.c, tests/fault/paged.c
 */
#ifndef WH_CORE_PAGE_TABLE_H
#define WH_CORE_PAGE_TABLE_H

#include "warpheap/core/size_class.h"
#include "warpheap/core/warp_group.h"
#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

#define WH_PAGE_FREE 0u
#define WH_PAGE_RUN 62u
#define WH_PAGE_TAIL 63u
#define WH_PAGE_CLASSES 61u /* kinds 1 .. 61 */
#define WH_PAGE_MOST ((1u << 26) - 1)
#define WH_PAGE_KIND_BITS 12u
#define WH_PAGE_RELEASES_AT 38u
#define WH_PAGE_TAGS 64u
#define WH_PAGE_NONE UINT32_MAX
#define WH_PAGE_LOOK 32u /* pages that a search looks at in a step */

/* By value. base: a multiple of the page's size. entries: n; bits: n times wh_page_words. */
typedef struct wh_page_table {
    unsigned char *base;
    uint64_t *entries;
    uint32_t *bits;
    uint32_t n;
    uint32_t page_log2; /* 5 .. 28 */
} wh_page_table;

/* --- arithmetic ----------------------------------------------------------------------------- */

WH_HD uint64_t wh_page_entry(uint32_t releases, uint32_t count, uint32_t kind) {
    wh_assert_internal(count <= WH_PAGE_MOST && kind < 1u << WH_PAGE_KIND_BITS);
    return (uint64_t)releases << WH_PAGE_RELEASES_AT | (uint64_t)count << WH_PAGE_KIND_BITS | kind;
}
WH_HD uint32_t wh_page_releases(uint64_t entry) {
    return (uint32_t)(entry >> WH_PAGE_RELEASES_AT);
}
WH_HD uint32_t wh_page_count(uint64_t entry) {
    return (uint32_t)(entry >> WH_PAGE_KIND_BITS) & WH_PAGE_MOST;
}
WH_HD uint32_t wh_page_kind(uint64_t entry) {
    return (uint32_t)entry & ((1u << WH_PAGE_KIND_BITS) - 1);
}

/* The kind of the same chunks under a tag, which is 0 if nothing is said of it. */
WH_HD uint32_t wh_page_tagged(uint32_t kind, uint32_t tag) {
    wh_assert(kind - 1 < WH_PAGE_CLASSES && tag < WH_PAGE_TAGS);
    return kind | tag << 6;
}
WH_HD uint32_t wh_page_tag(uint32_t kind) {
    return kind >> 6;
}

/* Words of use bits that a page has. */
WH_HD uint32_t wh_page_words(uint32_t page_log2) {
    return page_log2 <= 9 ? 1 : 1u << (page_log2 - 9);
}

WH_HD int wh_page_is_split(uint32_t kind) {
    return (kind & 63) - 1 < WH_PAGE_CLASSES;
}

/* Bytes of a chunk, and how many a page has. */
WH_HD uint32_t wh_page_chunk_bytes(uint32_t kind) {
    wh_assert(wh_page_is_split(kind));
    return (uint32_t)wh_quarter_size((kind & 63) - 1);
}
WH_HD uint32_t wh_page_capacity(uint32_t page_log2, uint32_t kind) {
    return (1u << page_log2) / wh_page_chunk_bytes(kind);
}

/* The kind of page on which n bytes are a chunk; WH_PAGE_RUN if they are none: more than half a
 * page, or than the largest class. n >= 1. */
WH_HD uint32_t wh_page_kind_for(uint32_t page_log2, uint64_t n) {
    const uint64_t most = (uint64_t)1 << (page_log2 - 1);
    if (n > most || n > wh_quarter_size(WH_PAGE_CLASSES - 1)) {
        return WH_PAGE_RUN;
    }
    return 1 + wh_quarter_class(n);
}

/* Pages for n bytes; 0: more than there are. */
WH_HD uint32_t wh_page_need(wh_page_table t, uint64_t n) {
    const uint64_t all = (uint64_t)t.n << t.page_log2, page = (uint64_t)1 << t.page_log2;
    return n <= all ? (uint32_t)((n + page - 1) >> t.page_log2) : 0;
}

WH_HD unsigned char *wh_page_address(wh_page_table t, uint32_t page) {
    wh_assert_internal(page < t.n);
    return t.base + ((uint64_t)page << t.page_log2);
}

WH_HD unsigned char *wh_page_chunk(wh_page_table t, uint32_t page, uint32_t kind, uint32_t at) {
    return wh_page_address(t, page) + (uint64_t)at * wh_page_chunk_bytes(kind);
}

/* Whether a page with this entry has a chunk of that kind, or becomes one that has. */
WH_HD int wh_page_would_do(uint64_t entry, uint32_t page_log2, uint32_t kind) {
    const uint32_t is = wh_page_kind(entry);
    return (is == WH_PAGE_FREE || is == kind) &&
           wh_page_count(entry) < wh_page_capacity(page_log2, kind);
}

/* --- chunks --------------------------------------------------------------------------------- */

/* Chunks for a group of lanes: so many of those that it asked for. `had`, releases: what the entry
 * said before; opened: the page was free. */
typedef struct wh_page_reserved {
    uint32_t n;
    uint32_t had;
    uint32_t releases;
    uint32_t opened;
} wh_page_reserved;

/* One step of reserve, from an entry that would do: n is 0 if it has become *seen. */
WH_FN wh_page_reserved wh_page_reserve_from_(wh_page_table t, uint32_t page, uint32_t kind,
                                             uint32_t n, uint64_t *seen) {
    const uint64_t from = *seen;
    const uint32_t had = wh_page_count(from), left = wh_page_capacity(t.page_log2, kind) - had;
    const uint32_t some = WH_PLANT(page_table_i1, left < n, 0) ? left : n; /* I1 */
    const uint64_t to = wh_page_entry(wh_page_releases(from), had + some, kind);
    wh_page_reserved got = {0, had, wh_page_releases(from), 0};
    *seen = WH_PLANT_ORDER(page_table_p2_reserve, wh_cas_u64, acquire)(&t.entries[page], from,
                                                                       to); /* I2, P2 */
    if (*seen == from) {
        got.n = some;
        got.opened = wh_page_kind(from) == WH_PAGE_FREE;
    }
    return got;
}

/* Up to n chunks of a page, which becomes one of this kind if it is free. */
WH_FN wh_page_reserved wh_page_reserve(wh_page_table t, uint32_t page, uint32_t kind, uint32_t n) {
    wh_page_reserved got = {0, 0, 0, 0};
    wh_assert_internal(page < t.n && n != 0);
    uint64_t seen = wh_load_u64_relaxed(&t.entries[page]);
    while (got.n == 0 && wh_page_would_do(seen, t.page_log2, kind)) {
        got = wh_page_reserve_from_(t, page, kind, n, &seen);
    }
    return got;
}

/* Takes n off a page's count, by an add: what it was before. The page becomes free if none are left
 * on it (I2). What the caller did to chunks of it comes before. */
WH_FN uint32_t wh_page_subtract_(wh_page_table t, uint32_t page, uint32_t n) {
    uint64_t *entry = &t.entries[page];
    const uint64_t change = wh_page_entry(1, 0, 0) - wh_page_entry(0, n, 0); /* I3 */
    const uint64_t old =
        WH_PLANT_ORDER(page_table_p2_subtract, wh_fetch_add_u64, release)(entry, change); /* P2 */
    const uint64_t left = old + change;
    wh_assert_internal(wh_page_count(old) >= n);
    if (wh_page_count(left) == 0 && wh_page_is_split(wh_page_kind(left))) {
        /* If it fails somebody has counted chunks, and has this to do when they go. */
        (void)wh_cas_u64_relaxed(entry, left, wh_page_entry(wh_page_releases(left) + 1, 0, 0));
    }
    return wh_page_count(old);
}

/* As wh_page_reserve, by an add; one cas, of any of those that meet, opens a free page. */
WH_FN wh_page_reserved wh_page_reserve_add(wh_page_table t, uint32_t page, uint32_t kind,
                                           uint32_t n) {
    const uint32_t capacity = wh_page_capacity(t.page_log2, kind);
    uint64_t seen = wh_load_u64_relaxed(&t.entries[page]);
    wh_page_reserved got = {0, 0, 0, 0};
    wh_assert_internal(page < t.n && n != 0);
    if (wh_page_kind(seen) == WH_PAGE_FREE && wh_page_would_do(seen, t.page_log2, kind)) {
        got = wh_page_reserve_from_(t, page, kind, n, &seen);
    }
    if (got.n == 0 && wh_page_kind(seen) == kind && wh_page_count(seen) < capacity) {
        const uint64_t old = WH_PLANT_ORDER(page_table_p2_add, wh_fetch_add_u64, acquire)(
            &t.entries[page], wh_page_entry(0, n, 0)); /* P2 */
        got.had = wh_page_count(old);
        got.releases = wh_page_releases(old);
        if (wh_page_kind(old) == kind && got.had < capacity) {
            const uint32_t left = capacity - got.had;
            got.n = left < n && WH_PLANT(page_table_i1_add, 1, 0) ? left : n; /* I1 */
        }
        if (got.n < n) {
            (void)wh_page_subtract_(t, page, n - got.n);
        }
    }
    return got;
}

/* One of the chunks that were reserved: its number. start: where to look first; in a page of which
 * nothing has been freed yet, had + rank is free. Every chunk reserved is taken once. */
WH_FN uint32_t wh_page_take(wh_page_table t, uint32_t page, uint32_t kind, uint32_t start) {
    const uint32_t capacity = wh_page_capacity(t.page_log2, kind);
    uint32_t *bits = t.bits + (uint64_t)page * wh_page_words(t.page_log2);
    uint32_t from = start < capacity ? start : start % capacity;
    for (;;) {
        const uint32_t w = from / 32, here = capacity - w * 32;
        const uint32_t exist = here >= 32 ? ~0u : (1u << here) - 1;
        uint32_t free = ~wh_load_u32_relaxed(&bits[w]) & exist;
        while (free != 0) {
            const uint32_t above = free & ~0u << from % 32;
            const uint32_t b = wh_ctz32(above != 0 ? above : free);
            const uint32_t old = WH_PLANT_ORDER(page_table_p1_take, wh_fetch_or_u32,
                                                acquire)(&bits[w], 1u << b); /* P1 */
            if ((old >> b & 1) == 0) {
                return w * 32 + b;
            }
            free = ~old & exist;
        }
        from = here > 32 ? (w + 1) * 32 : 0;
    }
}

/* --- runs ----------------------------------------------------------------------------------- */

/* The word that has a run's length, of its first page. */
WH_HD uint32_t *wh_page_length_(wh_page_table t, uint32_t first) {
    return &t.bits[(uint64_t)first * wh_page_words(t.page_log2)];
}

/* Gives pages back that the caller alone has. */
WH_FN void wh_page_release(wh_page_table t, uint32_t first, uint32_t n) {
    for (uint32_t page = first; page < first + n; page++) {
        const uint64_t change = wh_page_entry(1, 0, 0) - WH_PAGE_TAIL; /* to FREE; I3 */
        WH_PLANT_ORDER(page_table_p2_run, wh_add_u64, release)(&t.entries[page], change); /* P2 */
    }
}

/* n pages from `first` on, upwards (Progress): all or none, which they were. */
WH_FN int wh_page_claim(wh_page_table t, uint32_t first, uint32_t n) {
    wh_assert_internal(n != 0 && first < t.n && n <= t.n - first);
    for (uint32_t page = first; page < first + n; page++) {
        uint64_t seen = wh_load_u64_relaxed(&t.entries[page]);
        while (wh_page_kind(seen) == WH_PAGE_FREE) {
            const uint64_t now = WH_PLANT_ORDER(page_table_p2_claim, wh_cas_u64, acquire)(
                &t.entries[page], seen, seen | WH_PAGE_TAIL); /* I2, P2 */
            if (now == seen) {
                break;
            }
            seen = now;
        }
        if (wh_page_kind(seen) != WH_PAGE_FREE) {
            wh_page_release(t, first, page - first);
            return 0;
        }
    }
    return 1;
}

/* Makes pages that the caller has claimed a run. */
WH_FN void wh_page_set_run(wh_page_table t, uint32_t first, uint32_t n) {
    wh_store_u32_relaxed(wh_page_length_(t, first), n);
    wh_add_u64_relaxed(&t.entries[first], (uint64_t)0 - (WH_PAGE_TAIL - WH_PAGE_RUN));
}

/* --- free ----------------------------------------------------------------------------------- */

/* What an address is. kind: FREE if it cannot be a live block; at: the chunk's number, or how many
 * pages the run has. Whether the chunk is live says its bit. */
typedef struct wh_page_block {
    uint32_t page;
    uint32_t kind;
    uint32_t at;
} wh_page_block;

WH_FN wh_page_block wh_page_find(wh_page_table t, const void *p) {
    const uint64_t at = (uint64_t)((const unsigned char *)p - t.base);
    const uint32_t inside = (uint32_t)at & ((1u << t.page_log2) - 1);
    wh_page_block b = {WH_PAGE_NONE, WH_PAGE_FREE, 0};
    if (at >> t.page_log2 >= t.n) {
        return b;
    }
    b.page = (uint32_t)(at >> t.page_log2);
    const uint64_t entry = wh_load_u64_relaxed(&t.entries[b.page]);
    const uint32_t kind = wh_page_kind(entry);
    if (kind == WH_PAGE_RUN) {
        b.kind = inside == 0 ? kind : WH_PAGE_FREE;
        b.at = wh_load_u32_relaxed(wh_page_length_(t, b.page));
    } else if (wh_page_is_split(kind)) {
        const uint32_t bytes = wh_page_chunk_bytes(kind);
        b.at = inside / bytes;
        b.kind = b.at * bytes == inside && b.at < wh_page_capacity(t.page_log2, kind)
                     ? kind
                     : WH_PAGE_FREE;
    }
    return b;
}

WH_FN int wh_page_is_live(wh_page_table t, wh_page_block b) {
    const uint32_t *bits = t.bits + (uint64_t)b.page * wh_page_words(t.page_log2);
    return b.kind == WH_PAGE_RUN ||
           (b.kind != WH_PAGE_FREE && (wh_load_u32_relaxed(&bits[b.at / 32]) >> b.at % 32 & 1));
}

/* What a free did to a page. kind: FREE if it did nothing for this lane to tell; n: how many chunks
 * or pages came back; had: how many the page had. */
typedef struct wh_page_freed {
    uint32_t page;
    uint32_t kind;
    uint32_t n;
    uint32_t had;
    int bad; /* the caller's was no live block */
} wh_page_freed;

/* How chunks that come back are counted: by a cas; by adds; by a cas that leaves an empty page with
 * the caller, who may have to say elsewhere that it is none of this kind before it releases it. */
#define WH_PAGE_BY_CAS 0
#define WH_PAGE_BY_ADDS 1
#define WH_PAGE_HOLD 2

/* Gives n chunks back, whose bits are cleared: how many there were before. empty: what the page
 * becomes with its last one. */
WH_FN uint32_t wh_page_give_back_(wh_page_table t, uint32_t page, uint32_t n, uint32_t empty) {
    uint64_t seen = wh_load_u64_relaxed(&t.entries[page]);
    for (;;) {
        const uint32_t had = wh_page_count(seen), left = had - n;
        wh_assert_internal(had >= n && wh_page_is_split(wh_page_kind(seen))); /* I1 */
        const uint32_t kind =
            left == 0 || WH_PLANT(page_table_i2, 0, 1) ? empty : wh_page_kind(seen);
        const uint64_t to = wh_page_entry(wh_page_releases(seen) + 1, left, kind); /* I2, I3 */
        const uint64_t now = WH_PLANT_ORDER(page_table_p2_free, wh_cas_u64,
                                            release)(&t.entries[page], seen, to); /* P2 */
        if (now == seen) {
            return had;
        }
        seen = now;
    }
}

/* Frees a run of n pages: whether it was one. */
WH_FN int wh_page_free_run_(wh_page_table t, uint32_t first, uint32_t n) {
    uint64_t seen = wh_load_u64_relaxed(&t.entries[first]);
    while (wh_page_kind(seen) == WH_PAGE_RUN) { /* one of those that free it twice at once */
        const uint64_t now = wh_cas_u64_relaxed(&t.entries[first], seen, seen | WH_PAGE_TAIL);
        if (now == seen) {
            wh_store_u32_relaxed(wh_page_length_(t, first), 0);
            wh_page_release(t, first, n); /* P2 */
            return 1;
        }
        seen = now;
    }
    return 0;
}

/* Frees the block of each lane of mask, NULL or any address. how: a constant, WH_PAGE_BY_CAS and so
 * on. With HOLD the lane that gets n == had of a page of chunks owes a wh_page_release of it. */
WH_FN wh_page_freed wh_page_free(wh_page_table t, wh_mask mask, const void *p, int how) {
    const wh_page_block b = wh_page_find(t, p);
    wh_page_freed freed = {b.page, WH_PAGE_FREE, 0, 0, p != NULL};
    int chunk = 0;
    if (b.kind == WH_PAGE_RUN) {
        if (wh_page_free_run_(t, b.page, b.at)) {
            freed.kind = WH_PAGE_RUN;
            freed.n = freed.had = b.at;
            freed.bad = 0;
        }
    } else if (b.kind != WH_PAGE_FREE) {
        uint32_t *bits = t.bits + (uint64_t)b.page * wh_page_words(t.page_log2);
        const uint32_t bit = 1u << b.at % 32;
        chunk = (WH_PLANT_ORDER(page_table_p1_free, wh_fetch_and_u32, release)(&bits[b.at / 32],
                                                                               ~bit) & /* P1 */
                 bit) != 0;
        freed.bad = !chunk;
    }
    if (wh_any(mask, chunk)) {
        const wh_group g = wh_group_by_u32(mask, chunk ? b.page : WH_PAGE_NONE);
        if (WH_PLANT(page_table_p2_lanes, 1, 0)) {
            wh_syncwarp(mask); /* P2: what the other lanes of the group did */
        }
        if (chunk && wh_group_leads(g)) {
            freed.kind = b.kind;
            freed.n = g.n;
            if (how == WH_PAGE_BY_ADDS) {
                freed.had = wh_page_subtract_(t, b.page, g.n);
            } else {
                const uint32_t empty = how == WH_PAGE_HOLD ? WH_PAGE_TAIL : WH_PAGE_FREE;
                freed.had = wh_page_give_back_(t, b.page, g.n, empty);
            }
        }
    }
    return freed;
}

/* --- searches ------------------------------------------------------------------------------- */

/* What a search of all lanes of a mask found: the same in all of them. n: chunks, or pages. */
typedef struct wh_page_found {
    uint32_t page; /* WH_PAGE_NONE: by X1 there is nothing */
    wh_page_reserved chunks;
} wh_page_found;

/* Where a search is. */
typedef struct wh_page_scan {
    uint64_t sum;  /* releases of the entries that the caller has looked at */
    uint32_t word; /* of the last WH_PAGE_LOOK pages: those that would do */
    int lost;      /* somebody was quicker */
} wh_page_scan;

/* Looks at pages from `at` on: which would do. kind: of chunks, or WH_PAGE_RUN: free ones. */
WH_FN void wh_page_look_(wh_page_table t, wh_mask mask, uint32_t at, uint32_t kind,
                         wh_page_scan *scan) {
    const uint32_t lanes = wh_popc32(mask);
    uint32_t word = 0;
    for (uint32_t k = wh_mask_rank(mask); k < WH_PAGE_LOOK; k += lanes) {
        if (k < t.n - at) {
            const uint64_t entry = wh_load_u64_relaxed(&t.entries[at + k]);
            const int good = kind == WH_PAGE_RUN ? wh_page_kind(entry) == WH_PAGE_FREE
                                                 : wh_page_would_do(entry, t.page_log2, kind);
            scan->sum += wh_page_releases(entry);
            word |= good ? 1u << k : 0;
        }
    }
    scan->word = wh_reduce_or_u32(mask, word);
}

/* After a pass that found nothing: whether the pass before it was over all pages, missed none that
 * would do since somebody was quicker, and nothing came back in between (X1). *before: its sum;
 * becomes that of this one. */
WH_FN int wh_page_is_settled_(wh_mask mask, wh_page_scan scan, uint32_t round, uint64_t *before) {
    const int same = round > 1 && scan.sum == *before;
    *before = scan.lost ? UINT64_MAX : scan.sum; /* no sum is that large */
    wh_fence(); /* X1: every lane's next reading comes after every lane's last one */
    wh_syncwarp(mask);
    return WH_PLANT(page_table_x1, wh_all(mask, same), round > 0);
}

/* Up to n chunks on the first page from `start` on, or before it, that has some. All lanes of mask
 * pass the same values. */
WH_FN wh_page_found wh_page_search_chunks(wh_page_table t, wh_mask mask, uint32_t kind, uint32_t n,
                                          uint32_t start) {
    wh_page_found found = {WH_PAGE_NONE, {0, 0, 0, 0}};
    uint64_t before = 0;
    for (uint32_t round = start < t.n ? 0 : 1;; round++) {
        wh_page_scan scan = {0, 0, 0};
        for (uint32_t at = round == 0 ? start : 0; at < t.n; at += WH_PAGE_LOOK) {
            wh_page_look_(t, mask, at, kind, &scan);
            for (uint32_t left = scan.word; left != 0; left &= left - 1) {
                const uint32_t leader = wh_mask_leader(mask), page = at + wh_ctz32(left);
                wh_page_reserved got = {0, 0, 0, 0};
                if (wh_lane_id() == leader) {
                    got = wh_page_reserve(t, page, kind, n);
                }
                found.chunks.n = wh_shfl_u32(mask, got.n, leader);
                found.chunks.had = wh_shfl_u32(mask, got.had, leader);
                found.chunks.opened = wh_shfl_u32(mask, got.opened, leader);
                if (found.chunks.n != 0) {
                    found.page = page;
                    return found;
                }
                scan.lost = 1;
            }
        }
        if (wh_page_is_settled_(mask, scan, round, &before)) {
            return found;
        }
    }
}

/* The lowest n free pages in a row among those of a look and `carry` ones before them: where they
 * begin, or NONE. *carry becomes how many are free at the end. */
WH_HD uint32_t wh_page_row_(uint32_t at, uint32_t word, uint32_t n, uint32_t *carry) {
    for (uint32_t k = 0; k < WH_PAGE_LOOK;) {
        const uint32_t rest = word >> k;
        const uint32_t ones = rest == ~0u ? 32 : wh_ctz32(~rest);
        *carry += ones;
        if (*carry >= n) {
            return at + k + ones - *carry;
        }
        k += ones;
        if (k < WH_PAGE_LOOK) {
            *carry = 0;
            k += word >> k != 0 ? wh_ctz32(word >> k) : 32;
        }
    }
    return WH_PAGE_NONE;
}

/* A run of n pages: the first, and the caller's to set; NONE by X1. From `start` on, or anywhere.
 * All lanes of mask pass the same values. */
WH_FN uint32_t wh_page_search_run(wh_page_table t, wh_mask mask, uint32_t n, uint32_t start) {
    const uint32_t leader = wh_mask_leader(mask);
    uint64_t before = 0;
    wh_assert_internal(n != 0);
    for (uint32_t round = start < t.n ? 0 : 1;; round++) {
        wh_page_scan scan = {0, 0, 0};
        uint32_t carry = 0;
        for (uint32_t at = round == 0 ? start : 0; at < t.n; at += WH_PAGE_LOOK) {
            wh_page_look_(t, mask, at, WH_PAGE_RUN, &scan);
            const uint32_t first = wh_page_row_(at, scan.word, n, &carry);
            if (first != WH_PAGE_NONE) {
                uint32_t mine = 0;
                if (wh_lane_id() == leader) {
                    mine = (uint32_t)wh_page_claim(t, first, n);
                }
                if (wh_shfl_u32(mask, mine, leader) != 0) {
                    return first;
                }
                scan.lost = 1;
                carry = 0;
            }
        }
        if (wh_page_is_settled_(mask, scan, round, &before)) {
            return WH_PAGE_NONE;
        }
    }
}

#include "warpheap/detail/simt/end.h"

#endif
