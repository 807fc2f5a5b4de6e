/* alloc/random_walk: the page allocators of Pham, Yuan, Li, Mou, Tu, Xu and Meng, "Dynamic
 * Buffer Management in Massively Parallel Systems: The Power of Randomness", ACM TOPC
 * 12(1), 2025: no shared queue; every thread looks at pages at random until it meets a
 * free one. docs/papers/random_walk.md: claims, departures, what was measured. It may change.
 *
 *   rw      one used flag a page                                     Algorithm 1
 *   rw-bm   a bitmap: a step looks at 32 pages at once; LockMap      Algorithm 2
 *   corw    the lanes of a warp share what any of them finds         Algorithms 3 and 4
 *   crw     a thread looks beside its last page first                Algorithm 5
 *
 * layout.h says which lane writes what, and has the rules: I1 to I3, X1, P1, P2.
 *
 * getPage is wh_<X>_get_page, which also counts the walk's steps, freePage is
 * wh_<X>_free. Under the contract of wh_malloc a request of 1..page bytes gets a page
 * and a larger one NULL: these are allocators of one size, list.h states it as max_size
 * (the option page_bytes changes it).
 *
 * Out of memory (3.2.3). A walk gives up after S_L steps in a row that all failed: by then
 * fewer than L of the pages are free, with a stated confidence (0.5 % and 99 % unless
 * options say otherwise). So NULL does not mean "none is free": the record has no
 * exact-oom. With the option exact_oom a sweep over all pages follows, and NULL means that at
 * some moment of the call none was free. A step that lost a page to somebody else has seen
 * a free one, so the count of failures starts again.
 *
 * Departures that all have
 *   - The lanes of a warp look at neighbouring places (core/walk_random.h). Each place of each
 *     lane is as random as before, but 32 lanes touch a few sectors in place of 32, when they
 *     get and when they free. In corw, where all lanes are one walk, its 32 words count as one
 *     sample of the out-of-memory test, not as 32: neighbours are often all in use.
 *   - The lanes of a part of a warp that call together (wh_malloc_warp, wh_malloc_lanes) walk, each
 *     for itself, until all of them have ended (wh_walk_on). Others leave when they have a page.
 *
 * Fails   exact NULL does not know of a free whose store is still on its way to the L2, though that
 *         lane has got another page since: frees do not wait for it
 * Progress  lock-free: a walk waits for nobody; a lock is only ever tried. A walk ends,
 *       at a free page or after S_L failures in a row, unless it keeps meeting locked
 *       words or losing races, and then others go on.
 * Cost  rw: one atomic in the first step, then a load a step and an atomic; free a load and
 *       a store. rw-bm and crw: two atomics in the first step, of which one is waited for,
 *       then a load a step and two atomics; free a load and an atomic. corw: a load a lane
 *       and step, two atomics a word that is taken from, a few collectives for each of
 *       these; free a load a lane, an atomic a word, and a dozen collectives.
 * Check tests/bench/walk.c (equations 1 to 6, 11, 14), tests/unit/random_walk.c (lanes that call
 *       together), conform, stress, fault.
 */
#ifndef WH_ALLOC_RANDOM_WALK_H
#define WH_ALLOC_RANDOM_WALK_H

#include "warpheap/detail/alloc/random_walk/layout.h"
#include "warpheap/core/warp_group.h"
#include "warpheap/core/select.h"
#include "warpheap/core/walk_random.h"

#include "warpheap/detail/simt/begin.h"

/* --- addresses ------------------------------------------------------------------------- */

/* The page that starts at p; WH_PAGE_NONE if p is no start of a page. */
WH_FN uint32_t wh_random_walk_page_(wh_random_walk_ref h, const void *p) {
    const uint64_t at = (uint64_t)((const unsigned char *)p - h.base);
    const uint64_t page = at >> h.page_log2;
    return page < h.pages && (at & (((uint64_t)1 << h.page_log2) - 1)) == 0 ? (uint32_t)page
                                                                            : WH_PAGE_NONE;
}

/* Whether a request gets a page. Counts those that are too large. */
WH_FN int wh_random_walk_wants_(wh_random_walk_ref h, size_t n) {
    const int fits = n <= (uint64_t)1 << h.page_log2;
    if (!fits) {
        wh_add_u64_relaxed(&h.header->failed, 1);
    }
    return fits && n != 0;
}

/* The pointer for what getPage found. */
WH_FN void *wh_random_walk_result_(wh_random_walk_ref h, uint32_t page) {
    if (page == WH_PAGE_NONE) {
        wh_add_u64_relaxed(&h.header->failed, 1);
        return NULL;
    }
    return wh_random_walk_address_(h, page);
}

WH_FN void wh_random_walk_bad_free_(wh_random_walk_ref h) {
    wh_add_u64_relaxed(&h.header->bad_frees, 1);
}

/* --- RW: Algorithm 1 --------------------------------------------------------------------- */

/* Departure: Algorithm 1's flag is a counter, odd = used: the free stays a plain store, and a sweep
 * can tell whether anything was freed behind it. freePage loads it first, which finds a double
 * free. getPage makes it odd by fetch_or, which leaves an odd one alone. */

/* A sweep over all flags, from `start` around, for the lanes of mask that sweep. The sum of the
 * flags grows with every get and every free: if it is the same in two passes, nothing happened in
 * between, and all flags were odd at once. Lock-free: each further round is somebody's get or
 * free. */
WH_FN_SLOW uint32_t wh_rw_sweep_(wh_random_walk_ref h, wh_mask mask, int sweeps, uint32_t start) {
    wh_assert_internal(start < h.pages);
    uint32_t page = WH_PAGE_NONE;
    while (wh_walk_on(mask, sweeps)) {
        uint64_t sum[2] = {0, 0};
        const uint32_t passes = WH_PLANT(rw_x1, 2u, 1u); /* X1 */
        for (uint32_t pass = 0; pass < passes; pass++) {
            for (uint32_t i = 0; i < h.pages && wh_walk_on(mask, sweeps); i++) {
                const uint32_t p = i < h.pages - start ? start + i : i - (h.pages - start);
                const uint32_t v = sweeps ? wh_load_u32_relaxed(&h.flags[p]) : 1;
                if (v % 2 == 0 && wh_cas_u32_acquire(&h.flags[p], v, v + 1) == v) { /* P1 */
                    page = p;
                    sweeps = 0;
                }
                sum[pass] += v;
            }
            wh_fence(); /* X1: the second reading of a flag comes after the first one of all */
        }
        sweeps = sweeps && sum[0] != sum[passes - 1];
    }
    return page;
}

/* getPage for the lanes of mask with `wants`, each for itself. */
WH_FN wh_page_got wh_rw_get_page(wh_random_walk_ref h, wh_mask mask, int wants) {
    wh_walk_random random = wh_walk_seed_near();
    wh_page_got got;
    got.page = WH_PAGE_NONE;
    got.steps = 0;
    uint32_t failed = 0;
    for (int walks = wants; wh_walk_on(mask, walks);
         walks = walks && got.page == WH_PAGE_NONE && failed < h.limit) {
        const uint32_t p = wh_walk_near(&random, h.pages);
        /* The first step takes without a look before: with many pages free that is the whole
         * call. */
        const int looks = got.steps != 0;
        got.steps += walks != 0;
        if (walks && looks && wh_load_u32_relaxed(&h.flags[p]) % 2 != 0) {
            failed++;
        } else if (walks) {
            const uint32_t v = WH_PLANT(rw_p1_get, wh_fetch_or_u32_acquire,
                                        wh_fetch_or_u32_relaxed)(&h.flags[p], 1); /* I1, P1 */
            if (v % 2 == 0) {
                got.page = p;
            }
            /* Lost: the page was free a moment ago, which is no evidence of scarcity. */
            failed = looks ? 0 : failed + 1;
        }
    }
    const int sweeps = wants && got.page == WH_PAGE_NONE;
    if (h.exact != 0 && wh_walk_on(mask, sweeps)) {
        const uint32_t page = wh_rw_sweep_(h, mask, sweeps, wh_walk_below(&random, h.pages));
        got.page = sweeps ? page : got.page;
    }
    return got;
}

WH_FN void *wh_rw_malloc(wh_random_walk_ref h, wh_mask mask, size_t n) {
    const int wants = wh_random_walk_wants_(h, n);
    const wh_page_got got = wh_rw_get_page(h, mask, wants);
    return wants ? wh_random_walk_result_(h, got.page) : NULL;
}

WH_FN void wh_rw_free(wh_random_walk_ref h, wh_mask mask, void *p) {
    (void)mask;
    if (p == NULL) {
        return;
    }
    const uint32_t page = wh_random_walk_page_(h, p);
    const uint32_t v = page != WH_PAGE_NONE ? wh_load_u32_relaxed(&h.flags[page]) : 0;
    if (v % 2 == 0) {
        wh_random_walk_bad_free_(h);
        return;
    }
    WH_PLANT(rw_p1_free, wh_store_u32_release, wh_store_u32_relaxed)
    (&h.flags[page], v + 1); /* P1 */
}

/* --- RW-BM: Algorithm 2 ------------------------------------------------------------------- */

/* Departure: Algorithm 2's LockMap is a bit in each word of the bitmap, so that one atomic locks a
 * word and reads it, and another one takes the page and unlocks; with locks elsewhere it would be
 * five operations, of which three wait for each other. Algorithm 2 does not release the lock; here
 * a locked word is passed over as Algorithm 3 says. From the second step of a walk on a word that a
 * plain load shows to be full is not locked. The words carry a count of releases as in
 * core/use_word.h. freePage clears its bit by an atomic add: other bits of the word change at the
 * same time, so it cannot be a plain store as the paper says of flags. */

/* Tries to lock a word; what its free bits are, if it is ours, and 0 otherwise. *unsure: it
 * had free pages, but was somebody else's. */
WH_FN uint32_t wh_random_walk_lock_(wh_random_walk_ref h, uint32_t word, int *unsure) {
    wh_assert_internal(word < h.n_words);
    const uint64_t old = WH_PLANT(rw_bm_p1_get, wh_fetch_or_u64_acquire, wh_fetch_or_u64_relaxed)(
        &h.words[word], WH_RANDOM_WALK_LOCK);                                       /* P1, P2 */
    const int lost = WH_PLANT(random_walk_i1, (old & WH_RANDOM_WALK_LOCK) != 0, 0); /* I1 */
    *unsure = lost && wh_use_free(old) != 0;
    if (!lost && wh_use_free(old) == 0) {
        wh_and_u64_relaxed(&h.words[word], ~WH_RANDOM_WALK_LOCK);
    }
    return lost ? 0 : wh_use_free(old);
}

/* Takes the pages of `taken` out of a locked word and unlocks it. */
WH_FN void wh_random_walk_unlock_(wh_random_walk_ref h, uint32_t word, uint32_t taken) {
    wh_assert_expensive((wh_load_u64_relaxed(&h.words[word]) & WH_RANDOM_WALK_LOCK) != 0);
    wh_add_u64_relaxed(&h.words[word], taken - WH_RANDOM_WALK_LOCK); /* P2 */
}

/* Takes the first free page of a word. looks: only if a load has shown that it has one. */
WH_FN uint32_t wh_random_walk_take_(wh_random_walk_ref h, uint32_t word, int looks, int *unsure) {
    *unsure = 0;
    if (looks && wh_use_free(wh_load_u64_relaxed(&h.words[word])) == 0) {
        return WH_PAGE_NONE;
    }
    const uint32_t free = wh_random_walk_lock_(h, word, unsure);
    if (free == 0) {
        return WH_PAGE_NONE;
    }
    wh_random_walk_unlock_(h, word, free & (0u - free));
    return word * WH_USE_BITS + wh_ctz32(free);
}

/* A sweep over all words, from `start` around, for the lanes of mask that sweep: core/use_word.h
 * X1. A free page in a locked word may be the holder's, or not: the round is repeated. */
WH_FN_SLOW uint32_t wh_random_walk_sweep_(wh_random_walk_ref h, wh_mask mask, int sweeps,
                                          uint32_t start) {
    wh_assert_internal(start < h.n_words);
    uint32_t page = WH_PAGE_NONE;
    while (wh_walk_on(mask, sweeps)) {
        uint64_t sum[2] = {0, 0};
        int unsure = 0;
        const uint32_t passes = WH_PLANT(random_walk_x1, 2u, 1u); /* X1 */
        for (uint32_t pass = 0; pass < passes; pass++) {
            for (uint32_t i = 0; i < h.n_words && wh_walk_on(mask, sweeps); i++) {
                const uint32_t w = i < h.n_words - start ? start + i : i - (h.n_words - start);
                const uint64_t word = sweeps ? wh_load_u64_acquire(&h.words[w]) : UINT32_MAX;
                sum[pass] += word >> WH_RANDOM_WALK_COUNT;
                if (wh_use_free(word) != 0) {
                    unsure = 1;
                    const uint64_t old =
                        wh_fetch_or_u64_acquire(&h.words[w], WH_RANDOM_WALK_LOCK); /* P1, P2 */
                    if ((old & WH_RANDOM_WALK_LOCK) == 0) {                        /* I1 */
                        const uint32_t free = wh_use_free(old);
                        wh_random_walk_unlock_(h, w, free & (0u - free));
                        if (free != 0) {
                            page = w * WH_USE_BITS + wh_ctz32(free);
                            sweeps = 0;
                        }
                    }
                }
            }
        }
        sweeps = sweeps && (unsure || sum[0] != sum[passes - 1]);
    }
    return page;
}

/* What a walk of the lanes of mask with `wants` has got: if that is nothing, and NULL is to be
 * exact, the page that a sweep finds. */
WH_FN uint32_t wh_random_walk_or_sweep_(wh_random_walk_ref h, wh_mask mask, int wants,
                                        uint32_t page, wh_walk_random *random) {
    const int sweeps = wants && page == WH_PAGE_NONE;
    if (h.exact == 0 || !wh_walk_on(mask, sweeps)) {
        return page;
    }
    const uint32_t found = wh_random_walk_sweep_(h, mask, sweeps, wh_walk_below(random, h.n_words));
    return sweeps ? found : page;
}

/* getPage for the lanes of mask with `wants`, each for itself, after `steps` that it has made
 * already. */
WH_FN wh_page_got wh_rw_bm_walk_(wh_random_walk_ref h, wh_mask mask, int wants, uint32_t steps) {
    wh_walk_random random = wh_walk_seed_near();
    wh_page_got got;
    got.page = WH_PAGE_NONE;
    got.steps = steps;
    uint32_t failed = 0;
    for (int walks = wants; wh_walk_on(mask, walks);
         walks = walks && got.page == WH_PAGE_NONE && failed < h.limit) {
        const uint32_t word = wh_walk_near(&random, h.n_words);
        if (walks) {
            int unsure = 0;
            got.page = wh_random_walk_take_(h, word, got.steps != 0, &unsure);
            got.steps++;
            failed = unsure ? 0 : failed + 1;
        }
    }
    got.page = wh_random_walk_or_sweep_(h, mask, wants, got.page, &random);
    return got;
}

WH_FN wh_page_got wh_rw_bm_get_page(wh_random_walk_ref h, wh_mask mask, int wants) {
    return wh_rw_bm_walk_(h, mask, wants, 0);
}

WH_FN void *wh_rw_bm_malloc(wh_random_walk_ref h, wh_mask mask, size_t n) {
    const int wants = wh_random_walk_wants_(h, n);
    const wh_page_got got = wh_rw_bm_get_page(h, mask, wants);
    return wants ? wh_random_walk_result_(h, got.page) : NULL;
}

/* Gives back the pages of `mask` in a word. */
WH_FN void wh_random_walk_release_(wh_random_walk_ref h, uint32_t word, uint32_t mask) {
    const uint64_t change = ((uint64_t)1 << WH_RANDOM_WALK_COUNT) - mask;
    wh_assert_internal(word < h.n_words && mask != 0);
    WH_PLANT(use_p1_release, wh_add_u64_release, wh_add_u64_relaxed)(&h.words[word], change);
} /* P1 */

/* freePage of those with a bitmap whose lanes get pages each for itself. */
WH_FN void wh_rw_bm_free(wh_random_walk_ref h, wh_mask mask, void *p) {
    (void)mask;
    if (p == NULL) {
        return;
    }
    const uint32_t page = wh_random_walk_page_(h, p);
    const uint32_t bit = 1u << page % WH_USE_BITS;
    if (page == WH_PAGE_NONE ||
        ((uint32_t)wh_load_u64_relaxed(&h.words[page / WH_USE_BITS]) & bit) == 0) {
        wh_random_walk_bad_free_(h);
        return;
    }
    wh_random_walk_release_(h, page / WH_USE_BITS, bit); /* P1 */
}

/* --- CoRW: Algorithm 3 -------------------------------------------------------------------- */

/* Departure: Algorithm 3 locks the words of all lanes and takes one page of each at a time, also
 * where no lane needs it any more. Here all lanes look, as many lock their words as hold enough
 * pages for those that need one, a word serves as many lanes as it has pages, and one atomic per
 * word takes them. freePage gives the pages of a word back in the same way. */

/* getPage for the lanes of mask with `wants`; all lanes of mask search for them. All end
 * in the same step. */
WH_FN wh_page_got wh_corw_get_page(wh_random_walk_ref h, wh_mask mask, int wants) {
    wh_assert((mask >> wh_lane_id() & 1) != 0);
    wh_walk_random random = wh_walk_seed();
    const uint32_t leader = wh_mask_leader(mask);
    wh_page_got got;
    got.page = WH_PAGE_NONE;
    got.steps = 0;
    wh_mask need = wh_ballot(mask, wants);
    for (uint32_t failed = 0; need != 0 && failed < h.limit;) {
        const uint32_t first = wh_shfl_u32(mask, wh_walk_below(&random, h.n_words), leader);
        const uint32_t word = wh_walk_beside(first, h.n_words);
        uint32_t free = wh_use_free(wh_load_u64_relaxed(&h.words[word]));
        const wh_mask has = wh_ballot(mask, free != 0);
        const uint32_t needed = wh_popc32(need);
        got.steps++;
        /* All look; as many take as it needs. */
        wh_mask takers = 0;
        uint32_t there = 0;
        for (wh_mask left = has; left != 0 && there < needed; left &= left - 1) {
            there += wh_popc32(wh_shfl_u32(mask, free, wh_ctz32(left)));
            takers |= left & (0u - left);
        }
        int unsure = 0;
        const int takes = (takers >> wh_lane_id() & 1) != 0;
        free = takes ? wh_random_walk_lock_(h, word, &unsure) : 0;
        /* The i-th lane that needs a page gets the i-th that was found. */
        const uint32_t mine = (need >> wh_lane_id() & 1) != 0 ? wh_mask_rank(need) : UINT32_MAX;
        uint32_t given = 0, taken = 0;
        for (wh_mask left = wh_ballot(mask, free != 0); left != 0; left &= left - 1) {
            const uint32_t from = wh_ctz32(left);
            const uint32_t bits = wh_shfl_u32(mask, free, from);
            const uint32_t at = wh_shfl_u32(mask, word, from);
            const uint32_t n = wh_popc32(bits);
            const uint32_t rest = needed - given;
            if (mine - given < n) { /* false for those that have one, and those that want none */
                got.page = at * WH_USE_BITS + wh_select32(bits, mine - given + 1);
            }
            if (from == wh_lane_id()) {
                taken = n <= rest ? bits : bits & ((1u << wh_select32(bits, rest + 1)) - 1);
            }
            given += n < rest ? n : rest;
        }
        if (free != 0) {
            wh_random_walk_unlock_(h, word, taken);
        }
        need = wh_ballot(mask, wants && got.page == WH_PAGE_NONE);
        failed = has != 0 ? 0 : failed + 1; /* neighbours: one sample */
    }
    if (WH_PLANT(corw_p1, 1, 0)) {
        wh_syncwarp(mask); /* P1: a lane may use what another one has acquired */
    }
    got.page = wh_random_walk_or_sweep_(h, mask, wants, got.page, &random);
    return got;
}

WH_FN void *wh_corw_malloc(wh_random_walk_ref h, wh_mask mask, size_t n) {
    const int wants = wh_random_walk_wants_(h, n);
    const wh_page_got got = wh_corw_get_page(h, mask, wants);
    return wants ? wh_random_walk_result_(h, got.page) : NULL;
}

/* freePage: the pages that a warp has from one word go back together. */
WH_FN void wh_corw_free(wh_random_walk_ref h, wh_mask mask, void *p) {
    const uint32_t page = p != NULL ? wh_random_walk_page_(h, p) : WH_PAGE_NONE;
    const uint32_t word = page / WH_USE_BITS, bit = 1u << page % WH_USE_BITS;
    const int good =
        page != WH_PAGE_NONE && ((uint32_t)wh_load_u64_relaxed(&h.words[word]) & bit) != 0;
    if (!good && p != NULL) {
        wh_random_walk_bad_free_(h);
    }
    const wh_group g = wh_group_by_u32(mask, good ? word : UINT32_MAX);
    const uint32_t bits = wh_group_or_u32(mask, g, good ? bit : 0);
    wh_syncwarp(mask); /* P1: the writes of all lanes come before the leader's release */
    if (good && wh_group_leads(g)) {
        wh_random_walk_release_(h, word, bits); /* P1 */
    }
}

/* --- CRW: Algorithm 5 --------------------------------------------------------------------- */

/* Departure: Algorithm 5 keeps the last page in a variable of the thread. malloc cannot, so it uses
 * a table of hints indexed by thread number; get_page takes the variable. */

/* getPage for the lanes of mask with `wants`, each for itself, which got page `last` before
 * (WH_PAGE_NONE: none yet). */
WH_FN wh_page_got wh_crw_get_page(wh_random_walk_ref h, wh_mask mask, int wants, uint32_t last) {
    wh_page_got got;
    got.page = WH_PAGE_NONE;
    got.steps = wants && last < h.pages;
    if (got.steps != 0) {
        const uint32_t next = last + 1 < h.pages ? last + 1 : 0;
        int unsure = 0;
        got.page = wh_random_walk_take_(h, next / WH_USE_BITS, 0, &unsure);
    }
    const int walks = wants && got.page == WH_PAGE_NONE;
    if (wh_walk_on(mask, walks)) {
        const wh_page_got walked = wh_rw_bm_walk_(h, mask, walks, got.steps);
        got = walks ? walked : got;
    }
    return got;
}

WH_FN void *wh_crw_malloc(wh_random_walk_ref h, wh_mask mask, size_t n) {
    const int wants = wh_random_walk_wants_(h, n);
    uint32_t *hint = &h.hints[(uint32_t)wh_thread_id() & (h.n_hints - 1)];
    const uint32_t last = wants ? wh_load_u32_relaxed(hint) : WH_PAGE_NONE;
    const wh_page_got got = wh_crw_get_page(h, mask, wants, last);
    if (got.page != WH_PAGE_NONE) {
        wh_store_u32_relaxed(hint, got.page);
    }
    return wants ? wh_random_walk_result_(h, got.page) : NULL;
}

/* --- the rest of the contract --------------------------------------------------------------- */

WH_FN void wh_rw_init(wh_random_walk_ref h, uint64_t i, uint64_t n) {
    if (i == 0) {
        wh_store_u64_relaxed(&h.header->failed, 0);
        wh_store_u64_relaxed(&h.header->bad_frees, 0);
    }
    for (uint64_t k = i; h.flags != NULL && k < h.pages; k += n) {
        wh_store_u32_relaxed(&h.flags[k], 0);
    }
    for (uint64_t k = i; h.words != NULL && k < h.n_words; k += n) {
        wh_store_u64_relaxed(&h.words[k],
                             (uint32_t)~wh_random_walk_exist_(h, (uint32_t)k)); /* I2 */
    }
    for (uint64_t k = i; h.hints != NULL && k < h.n_hints; k += n) {
        wh_store_u32_relaxed(&h.hints[k], WH_PAGE_NONE);
    }
}

WH_FN uint64_t wh_rw_usable_size(wh_random_walk_ref h, const void *p) {
    return wh_random_walk_page_(h, p) != WH_PAGE_NONE ? (uint64_t)1 << h.page_log2 : 0;
}

WH_FN int wh_rw_owns(wh_random_walk_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.base) >> h.page_log2 < h.pages;
}

#include "warpheap/detail/simt/end.h"

#include "warpheap/detail/alloc/random_walk/inspect.h"

#include "warpheap/detail/simt/begin.h"

WH_FN_HOST wh_status wh_rw_plan(wh_random_walk_ref *h, wh_plan *plan, unsigned char *memory,
                                uint64_t bytes, const void *options, uint32_t n_sms) {
    (void)n_sms;
    return wh_random_walk_plan_(h, plan, memory, bytes, options, WH_RANDOM_WALK_FLAGS);
}

WH_FN_HOST wh_status wh_rw_bm_plan(wh_random_walk_ref *h, wh_plan *plan, unsigned char *memory,
                                   uint64_t bytes, const void *options, uint32_t n_sms) {
    (void)n_sms;
    return wh_random_walk_plan_(h, plan, memory, bytes, options, WH_RANDOM_WALK_BITMAP);
}

WH_FN_HOST wh_status wh_crw_plan(wh_random_walk_ref *h, wh_plan *plan, unsigned char *memory,
                                 uint64_t bytes, const void *options, uint32_t n_sms) {
    (void)n_sms;
    return wh_random_walk_plan_(h, plan, memory, bytes, options,
                                WH_RANDOM_WALK_BITMAP | WH_RANDOM_WALK_HINTS);
}

typedef wh_random_walk_ref wh_rw_ref;
#define wh_rw_layout wh_random_walk_layout_
#define wh_rw_NAME "rw"
#define wh_rw_MAX_ALIGN 16u
#define wh_rw_BLOCKS 8
#define wh_rw_EACH 2
#define wh_rw_aligned WH_NO_ALIGNED

typedef wh_random_walk_ref wh_rw_bm_ref;
#define wh_rw_bm_layout wh_random_walk_layout_
#define wh_rw_bm_NAME "rw-bm"
#define wh_rw_bm_MAX_ALIGN 16u
#define wh_rw_bm_BLOCKS 8
#define wh_rw_bm_EACH 2
#define wh_rw_bm_init wh_rw_init
#define wh_rw_bm_usable_size wh_rw_usable_size
#define wh_rw_bm_owns wh_rw_owns
#define wh_rw_bm_aligned wh_rw_aligned
#define wh_rw_bm_stats wh_rw_stats
#define wh_rw_bm_check wh_rw_check
#define wh_rw_bm_walk wh_rw_walk
#define wh_rw_bm_left wh_rw_left

typedef wh_random_walk_ref wh_corw_ref;
#define wh_corw_layout wh_random_walk_layout_
#define wh_corw_NAME "corw"
#define wh_corw_MAX_ALIGN 16u
#define wh_corw_BLOCKS 8
#define wh_corw_EACH 0
#define wh_corw_plan wh_rw_bm_plan
#define wh_corw_init wh_rw_init
#define wh_corw_usable_size wh_rw_usable_size
#define wh_corw_owns wh_rw_owns
#define wh_corw_aligned wh_rw_aligned
#define wh_corw_stats wh_rw_stats
#define wh_corw_check wh_rw_check
#define wh_corw_walk wh_rw_walk
#define wh_corw_left wh_rw_left

typedef wh_random_walk_ref wh_crw_ref;
#define wh_crw_layout wh_random_walk_layout_
#define wh_crw_NAME "crw"
#define wh_crw_MAX_ALIGN 16u
#define wh_crw_BLOCKS 8
#define wh_crw_EACH 2
#define wh_crw_free wh_rw_bm_free
#define wh_crw_init wh_rw_init
#define wh_crw_usable_size wh_rw_usable_size
#define wh_crw_owns wh_rw_owns
#define wh_crw_aligned wh_rw_aligned
#define wh_crw_stats wh_rw_stats
#define wh_crw_check wh_rw_check
#define wh_crw_walk wh_rw_walk
#define wh_crw_left wh_rw_left

#include "warpheap/detail/simt/end.h"

#endif
