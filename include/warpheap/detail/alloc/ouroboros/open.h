/* alloc/ouroboros/open.h: PAGES, open words: the pages of a chunk that has been handed out only in
 * part are had by an add to one of them. The papers have none (docs/papers/ouroboros.md).
 * It may change.
 *
 * Fields and who writes them (any lane, device scope)
 *   open     fetch_add acquire of as many pages as a group lacks, by its leader, if `next` was not
 *            past the end; store release by the lane whose add passed the end, when it has brought
 *            a chunk, or found none; cas acq_rel to USED UP by the lane that moves the rest to bits
 *   opened   1 from before the first chunk of the class is opened: store relaxed
 *
 * Invariants
 *   I6  an add to an open word takes the pages from the old `next` on that the chunk has. The one
 *       add that passes the end has the duty to refill the word: at most one chunk is on its way to
 *       a word. The lane that brings the chunk needs a page of it, so a chunk that is opened has a
 *       live page. A group that needs as many pages as a chunk has takes whole chunks, never open
 *       ones
 *
 * Ordering pairs
 *   P7  open word: what the lane wrote that made the chunk one of this class, and what the last
 *       users of its pages did: store release -> add or cas acquire; then a syncwarp hands it on
 *       to the lanes of the group
 */
#ifndef WH_ALLOC_OUROBOROS_OPEN_H
#define WH_ALLOC_OUROBOROS_OPEN_H

#include "warpheap/detail/alloc/ouroboros/park.h"
#include "warpheap/detail/alloc/ouroboros/step.h"

#include "warpheap/detail/simt/begin.h"

/* How many open words a lane loads at once that looks at all of them: each is a round trip. */
#define WH_OURO_AT_ONCE 8u

/* `next` in open word k of class c. */
WH_FN uint32_t wh_ouro_load_open_(wh_ouro_ref h, uint32_t c, uint32_t k) {
    wh_assert_internal(k < wh_ouro_opens_(h, c));
    return wh_ouro_open_next_(wh_load_u64_relaxed(wh_ouro_open_(h, c, k)));
}

/* Whether all open words of class c are used up, and nobody brings a chunk for one. */
WH_FN int wh_ouro_all_used_up_(wh_ouro_ref h, uint32_t c) {
    const uint32_t n = wh_ouro_opens_(h, c), pages = wh_ouro_pages_(h, c);
    uint32_t differs = 0;
    for (uint32_t k = 0; k < n && differs == 0; k += WH_OURO_AT_ONCE) {
        for (uint32_t j = 0; j < WH_OURO_AT_ONCE; j++) {
            differs |= k + j < n ? wh_ouro_load_open_(h, c, k + j) ^ pages : 0;
        }
    }
    return differs == 0;
}

/* PAGES: one of the n open words of class c from word `from` on, cyclically, that has pages ahead;
 * NONE if there is none. *coming: whether one is being refilled. */
WH_FN uint32_t wh_ouro_find_open_(wh_ouro_ref h, uint32_t c, uint32_t from, uint32_t n,
                                  int *coming) {
    const uint32_t all = wh_ouro_opens_(h, c), pages = wh_ouro_pages_(h, c);
    uint32_t found = UINT32_MAX;
    *coming = 0;
    for (uint32_t i = 0; i < n && found == UINT32_MAX; i += WH_OURO_AT_ONCE) {
        uint32_t next[WH_OURO_AT_ONCE];
        for (uint32_t j = 0; j < WH_OURO_AT_ONCE; j++) {
            next[j] = i + j < n ? wh_ouro_load_open_(h, c, (from + i + j) & (all - 1)) : pages;
        }
        for (uint32_t j = 0; j < WH_OURO_AT_ONCE; j++) {
            found = next[j] < pages ? (from + i + j) & (all - 1) : found;
            *coming |= next[j] > pages;
        }
    }
    return found;
}

/* PAGES: moves the pages that are ahead in open word k of class c to the bits of their chunk. */
WH_FN void wh_ouro_close_(wh_ouro_ref h, uint32_t c, uint32_t k) {
    const uint32_t pages = wh_ouro_pages_(h, c);
    uint64_t *word = wh_ouro_open_(h, c, k), *sem = wh_ouro_sem_(h, c);
    uint64_t w = wh_load_u64_relaxed(word);
    if (wh_ouro_open_next_(w) >= pages) {
        return;
    }
    /* As in unqueue_pages_. Both before the pages leave the word (acq_rel): X1, P5. E lets others
     * wait that would search; that no search overlooks the pages is due to `moving` alone. */
    wh_add_u64_relaxed(sem, wh_bulk_semaphore_word(0, 1, 0));
    wh_ouro_begin_moving_(h, c);
    for (uint64_t seen; wh_ouro_open_next_(w) < pages; w = seen) {
        seen = wh_cas_u64_acq_rel(word, w, wh_ouro_used_up_(h, c)); /* P7 */
        if (seen == w) {
            const uint32_t chunk = wh_ouro_open_chunk_(w), next = wh_ouro_open_next_(w);
            for (uint32_t b = next / 64; b * 64 < pages; b++) {
                (void)wh_ouro_set_bits_(h, chunk, b, wh_ouro_range_bits_(b, next, pages));
            }
            wh_ouro_park_pages_(h, c, chunk, pages - next);
            break;
        }
    }
    wh_ouro_end_moving_(h, c); /* P5 */
    wh_fence();                /* X1: parked is raised before E is lowered */
    wh_bulk_semaphore_signal(sem, 0, 1, 0);
}

/* The open word of the caller: few SMs share one, and the warps of one spread over some. */
WH_FN uint32_t wh_ouro_my_place_(wh_ouro_ref h, uint32_t c) {
    return (wh_sm_id() + wh_thread_in_block() / WH_WARP_SIZE * 37u) & (wh_ouro_opens_(h, c) - 1);
}

/* PAGES: opens a chunk that the caller has made one of class c for open word k: pages from `next`
 * on are ahead. */
WH_FN void wh_ouro_install_(wh_ouro_ref h, uint32_t c, uint32_t k, uint32_t chunk, uint32_t next) {
    wh_assert_internal(h.cls[chunk] == c && next != 0 && next <= wh_ouro_pages_(h, c)); /* I6 */
    wh_assert_internal(wh_ouro_load_open_(h, c, k) > wh_ouro_pages_(h, c));             /* I6 */
    wh_store_u64_relaxed(&wh_ouro_class_(h, c)->opened, 1);
    wh_add_u64_relaxed(wh_ouro_full_(h, c), WH_PLANT(ouro_x2_opened, wh_ouro_full_opened_(), 0));
    WH_PLANT(ouro_p7_install, wh_store_u64_release, wh_store_u64_relaxed)
    (wh_ouro_open_(h, c, k), wh_ouro_open_word_(chunk, next)); /* P7 */
}

/* PAGES: brings a chunk for open word k of class c, of which the caller has the first `kept` pages.
 * seen: what it saw in the pool. NONE: the pool had none, and somebody else may try. */
WH_FN_SLOW uint32_t wh_ouro_refill_(const wh_ouro_header *header, uint32_t c, uint32_t seen,
                                    uint32_t k, uint32_t kept) {
    const wh_ouro_ref h = header->self;
    const wh_chunk_pool pool = wh_ouro_pool_(h);
    const uint32_t level = wh_ouro_level_(h, c);
    const wh_chunk_pool_taken t = wh_chunk_pool_take_seen(pool, level, seen);
    if (t.n == 0) {
        wh_store_u64_release(wh_ouro_open_(h, c, k), wh_ouro_used_up_(h, c));
        return WH_CHUNK_NONE;
    }
    const uint32_t chunk = wh_chunk_pool_get(pool, level, t, 0);
    wh_ouro_format_(h, c, chunk);
    wh_ouro_install_(h, c, k, chunk, kept);
    return chunk;
}

/* PAGES: takes up to r pages from those ahead in open word k of class c. Whoever passes the end of
 * the chunk, which is one, brings the next, and has what it lacks of that. seen: in the pool. */
WH_FN void wh_ouro_step_open_(wh_ouro_ref h, uint32_t c, uint32_t k, uint32_t r, uint32_t seen,
                              wh_ouro_step *s) {
    const uint32_t pages = wh_ouro_pages_(h, c);
    wh_assert_internal(r != 0 && r <= WH_WARP_SIZE);
    const uint64_t old = WH_PLANT(ouro_p7_take, wh_fetch_add_u64_acquire,
                                  wh_fetch_add_u64_relaxed)(wh_ouro_open_(h, c, k), r); /* P7 */
    const uint32_t next = wh_ouro_open_next_(old);
    s->first = old;
    s->from = WH_CHUNK_NONE;
    if (next < pages) {
        s->n = WH_PLANT(ouro_i6, r < pages - next, 1) ? r : pages - next;
    }
    if (next <= pages && next + r > pages) { /* I6 */
        const uint32_t rest = r - s->n;
        s->from = wh_ouro_refill_(h.header, c, seen, k,
                                  WH_PLANT(ouro_i6_next, rest < pages, 1) ? rest : pages);
    }
    s->what = s->n != 0 || s->from != WH_CHUNK_NONE ? WH_OURO_OPEN : WH_OURO_WAIT;
}

/* How many lanes a step has pages for, if it was OPEN. */
WH_FN uint32_t wh_ouro_opened_(wh_ouro_ref h, uint32_t c, const wh_ouro_step *s) {
    return s->n + (s->from != WH_CHUNK_NONE ? wh_ouro_pages_(h, c) : 0);
}

/* The page of the lane of this rank in a group whose step was OPEN; NULL: it has none yet. */
WH_FN void *wh_ouro_opened_page_(wh_ouro_ref h, uint32_t c, const wh_ouro_step *s, uint32_t rank) {
    const int old = rank < s->n;
    const uint32_t chunk = old ? wh_ouro_open_chunk_(s->first) : s->from;
    const uint32_t page = old ? wh_ouro_open_next_(s->first) + rank : rank - s->n;
    return rank < wh_ouro_opened_(h, c, s) ? wh_ouro_page_(h, c, chunk, page) : NULL;
}

#include "warpheap/detail/simt/end.h"

#endif
