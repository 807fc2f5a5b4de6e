/* alloc/ouroboros/slow.h: the slow path of malloc. */
#ifndef WH_ALLOC_OUROBOROS_SLOW_H
#define WH_ALLOC_OUROBOROS_SLOW_H

#include "warpheap/detail/alloc/ouroboros/oom.h"

#include "warpheap/detail/simt/begin.h"

/* Serves the lanes of groups that have no page yet. All lanes of mask call; `lanes` is the caller's
 * group, of class c (NO_CLASS: takes no part), p the caller's page if it has one; begun, position,
 * chunk: see finish_. */
WH_FN_SLOW void *wh_ouro_slow_(const wh_ouro_header *header, wh_mask mask, wh_mask lanes,
                               uint32_t c, void *p, uint32_t begun, uint64_t position,
                               uint32_t chunk_begun) {
    const wh_ouro_ref h = header->self;
    const int by_chunk = WH_OURO_BY_CHUNK(h.variant);
    const int in = c != WH_OURO_NO_CLASS;
    const uint32_t leader = wh_mask_leader(lanes);
    const int leads = in && wh_lane_id() == leader;
    const uint32_t cc = in ? c : 0; /* any class, to compute with */
    const uint32_t pages_log2 = wh_ouro_pages_log2_(h, cc);
    const wh_vqueue q = wh_ouro_queue_(h.variant, h, cc);
    uint32_t place = 0;
    if (!by_chunk) {
        p = wh_ouro_finish_(h, mask, c, begun, position, chunk_begun, p);
        place = wh_ouro_my_place_(h, cc);
    }
    int need = in && p == NULL;
    uint32_t idle = 0, tries = 0, counted = 0, duty = 0;
    wh_ouro_looks looks = {0, 0, 0};
    for (uint32_t attempt = 0; wh_any(mask, need || duty != 0); attempt++) {
        const wh_mask needy = wh_ballot(mask, need) & lanes;
        const uint32_t r = wh_popc32(needy), rank = wh_mask_rank(needy);
        wh_ouro_step s = wh_ouro_step_(0, counted);
        if (leads && (r != 0 || duty != 0)) {
            s = by_chunk
                    ? wh_ouro_decide_chunks_(header, c, r, duty, counted, tries, attempt, &idle)
                    : wh_ouro_decide_pages_(header, c, r, counted, place, attempt);
            tries += s.what == WH_OURO_QUEUE ? 2u : tries == 0;
        }
        const int needed = need;
        const uint32_t fetched = duty; /* CHUNKS: E counts them until publish */
        const int waits =
            !wh_any(mask, s.what != WH_OURO_WAIT || s.duty != duty || s.counted != counted);
        counted = s.counted;
        duty = s.what == WH_OURO_FETCH ? 0 : s.duty;
        s.what = wh_shfl_u32(mask, s.what, leader);
        s.n = wh_shfl_u32(mask, s.n, leader);
        s.first = wh_shfl_u64(mask, s.first, leader);
        s.from = wh_shfl_u32(mask, s.from, leader);
        if (waits) {
            wh_backoff(attempt);
            continue;
        }
        wh_syncwarp(mask); /* what the leader acquired with a chunk, for the lane that uses it */

        /* Takes, of all groups of the warp. */
        uint32_t value = WH_CHUNK_NONE;
        const int takes = need && s.what == WH_OURO_QUEUE && rank < s.n;
        if (wh_any(mask, takes)) {
            value = wh_vqueue_take(q, wh_ouro_queue_chunks_(h), mask, takes, s.first + rank);
        }
        const int fetches = s.what == WH_OURO_FETCH;
        if (need && fetches && rank < s.n) {
            wh_chunk_pool_taken t;
            t.first = s.first;
            t.n = s.n;
            t.from = s.from;
            value = wh_chunk_pool_get(wh_ouro_pool_(h), wh_ouro_level_(h, c), t, rank);
            wh_ouro_format_(h, c, value);
        }
        if (need && s.what == WH_OURO_PARKED && rank == 0) {
            value = (uint32_t)s.first;
        }
        wh_syncwarp(mask);

        /* FETCH: page i of the new chunks for the lane of rank i. */
        const uint64_t all = fetches ? (uint64_t)s.n << pages_log2 : 0;
        const uint32_t keep = all < r ? (uint32_t)all : r;
        const uint32_t which = fetches && need && rank < keep ? rank >> pages_log2 : 0;
        const uint32_t from = needy != 0 ? wh_select64(needy, which) : wh_lane_id();
        const uint32_t chunk = wh_shfl_u32(mask, value, from);
        const uint32_t last = fetches && needy != 0 ? wh_select64(needy, s.n - 1) : wh_lane_id();
        const uint32_t last_chunk = wh_shfl_u32(mask, value, last);
        if (wh_any(mask, fetches)) {
            if (fetches && need && rank < keep) {
                p = wh_ouro_page_(h, c, chunk, rank & ((1u << pages_log2) - 1));
                need = 0;
            }
            if (by_chunk) {
                wh_ouro_publish_(h, mask, leads && fetches, c, last_chunk,
                                 leads && fetches ? (uint32_t)(all - keep) : 0, fetched, keep);
            }
        }

        /* Pages from the queue, or an open word. */
        if (takes && !by_chunk) {
            p = h.base + ((uint64_t)value << wh_ouro_page_log2_(h, c));
            need = 0;
        }
        const int opens = s.what == WH_OURO_OPEN;
        if (need && opens) {
            p = wh_ouro_opened_page_(h, c, &s, rank);
            need = p == NULL;
        }
        if (leads && !by_chunk && counted && (fetches || opens)) {
            const uint32_t most = opens ? wh_ouro_opened_(h, c, &s) : keep;
            wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), 0, 0, most < r ? most : r);
        }

        /* Chunks from the queue or the tree: one for the group, or one for each lane. */
        const int chunks = (s.what == WH_OURO_QUEUE && by_chunk) || s.what == WH_OURO_PARKED;
        if (wh_any(mask, chunks)) {
            const int one = s.n == 1;
            const int holds = chunks && need && rank < s.n;
            uint32_t start = 0, left = 0, got = 0, found = 0;
            if (holds) {
                got = wh_ouro_claim_pages_(h, c, value, one ? r : 1, &start, &left, &found);
            }
            wh_ouro_add_full_(h, mask, found != 0, c, 0);
            const uint32_t first_needy = needy != 0 ? wh_mask_leader(needy) : wh_lane_id();
            const uint32_t theirs = wh_shfl_u32(mask, value, first_needy);
            const uint32_t claimed = wh_shfl_u32(mask, got, first_needy);
            const uint32_t begin = wh_shfl_u32(mask, start, first_needy);
            const int parks = holds && s.what == WH_OURO_PARKED;
            const int again = holds && left != 0;
            /* The chunk goes back before the bits are claimed: others wait for it. */
            if (parks && again && !by_chunk) {
                wh_ouro_park_(h, c, value);
            }
            if (by_chunk) {
                if (wh_any(mask, again && !parks)) {
                    wh_ouro_enqueue_chunks_(h.variant, h, mask, again && !parks, c, value, 1);
                }
                if (wh_any(mask, again && parks)) {
                    wh_ouro_enqueue_chunks_(h.variant, h, mask, again && parks, c, value, 0);
                }
            }
            if (parks) {
                wh_ouro_unpark_(h, c);
            }
            if (holds && !again && !parks) {
                wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), 0, 1, 0);
            }
            const int served = chunks && need && (one ? rank < claimed : holds);
            const wh_mask done = wh_ballot(mask, served) & lanes;
            wh_syncwarp(mask);
            if (served) {
                const uint32_t of = one ? theirs : value;
                const uint32_t page = wh_ouro_claim_bit_(h, c, of, one ? begin + rank : start);
                p = wh_ouro_page_(h, c, of, page);
                need = 0;
            }
            if (leads && done != 0 && counted) {
                wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), 0, 0, wh_popc32(done));
            }
        }

        /* Now that no take is outstanding: memory of other classes, or NULL. */
        if (wh_any(mask, s.what == WH_OURO_SEARCH)) {
            uint32_t none = 0;
            if (leads && s.what == WH_OURO_SEARCH &&
                wh_ouro_search_(header, c, attempt, &looks)) { /* X1, X2 */
                wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), 0, 0, r);
                none = 1;
            }
            none = wh_shfl_u32(mask, none, leader);
            need = need && !none;
        }
        if (!wh_any(mask, needed != need || duty != 0)) {
            wh_backoff(attempt); /* nobody got on: what they lack is on its way elsewhere */
        }
    }
    if (in && p == NULL) {
        wh_add_u64_relaxed(&h.header->failed, 1);
    }
    return p;
}

/* PAGES: what the fast path of malloc has left. Arguments as slow_'s. */
WH_FN_SLOW void *wh_ouro_more_(const wh_ouro_header *header, wh_mask mask, wh_mask lanes,
                               uint32_t c, void *p, uint32_t begun, uint64_t position,
                               uint32_t chunk) {
    const int takes = (begun & WH_OURO_TAKES) != 0;
    const int lacks = c != WH_OURO_NO_CLASS && p == NULL && !takes;
    const uint32_t vain = wh_popc32(wh_ballot(mask, lacks) & lanes);
    if (vain != 0 && wh_lane_id() == wh_mask_leader(lanes)) { /* undoes what the take had in vain */
        wh_add_u64_relaxed(wh_ouro_sem_(header->self, c), wh_bulk_semaphore_word(vain, 0, 0));
    }
    if (!wh_any(mask, begun != 0)) { /* nobody has a position in hand */
        p = wh_ouro_from_open_(header, mask, lanes, c);
        if (!wh_any(mask, lacks && p == NULL)) {
            return p;
        }
    }
    return wh_ouro_slow_(header, mask, lanes, c, p, begun, position, chunk);
}

#include "warpheap/detail/simt/end.h"

#endif
