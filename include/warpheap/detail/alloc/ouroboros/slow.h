/* alloc/ouroboros/slow.h: the slow path of malloc: rounds in which each group of a warp decides
 * (pages.h, chunks.h), takes, and hands out what it has got. It may change.
 *
 * Progress  A lane waits (a) in a queue or the pool for a lane that has a position, (b) while E > 0
 *       or C > 0 for lanes that fetch, hold or take, (c) at X1 for a lane that holds a parked
 *       chunk, (d) at X2 for lanes that move pages, free one, or take back or claim of a chunk that
 *       is free as a whole, (e) at an open word for the lane that refills it. Each of these is
 *       between two of its own steps. A holder, and a lane that refills, wait for (a) only. A
 *       search is made again because of an event: a free got on, or a chunk has become available.
 *       Nobody passes the end of an open word while it sees the pool empty, or X1 might never see a
 *       word that is not being refilled. Inside a warp, in each round of slow_ all lanes first
 *       finish their takes, then put; a lane that passes the end of an open word refills it at
 *       once.
 */
#ifndef WH_ALLOC_OUROBOROS_SLOW_H
#define WH_ALLOC_OUROBOROS_SLOW_H

#include "warpheap/detail/alloc/ouroboros/oom.h"

#include "warpheap/detail/simt/begin.h"

/* One lane in a round, and what its group does in it. */
typedef struct wh_ouro_round {
    wh_ouro_caller who;
    wh_mask needy;  /* lanes of the group that have no page */
    uint32_t r;     /* how many */
    uint32_t rank;  /* how many of them lie below the caller */
    uint32_t value; /* what the caller has taken: a page's number, or a chunk; or NONE */
    int need;       /* the caller has no page */
    wh_ouro_step s; /* the group's */
} wh_ouro_round;

/* The lane that is the k-th of those in need; the caller if there is none. */
WH_FN uint32_t wh_ouro_needy_lane_(wh_ouro_round t, uint32_t k) {
    return t.needy != 0 ? wh_select64(t.needy, k) : wh_lane_id();
}

WH_FN int wh_ouro_has_taken_(wh_ouro_round t) {
    return t.need && t.s.what == WH_OURO_QUEUE && t.rank < t.s.n;
}

/* Takes of all groups of the warp: a value of the queue, a chunk of the pool, or a parked one. */
WH_FN uint32_t wh_ouro_take_values_(wh_ouro_ref h, wh_ouro_round t) {
    const wh_mask mask = t.who.mask;
    const uint32_t cc = wh_ouro_some_class_(t.who);
    const int takes = wh_ouro_has_taken_(t);
    uint32_t value = WH_CHUNK_NONE;
    if (wh_any(mask, takes)) {
        value = wh_vqueue_take(wh_ouro_queue_(h.variant, h, cc), wh_ouro_queue_chunks_(h), mask,
                               takes, t.s.first + t.rank);
    }
    if (t.need && t.s.what == WH_OURO_FETCH && t.rank < t.s.n) {
        wh_chunk_pool_taken taken;
        taken.first = t.s.first;
        taken.n = t.s.n;
        taken.from = t.s.from;
        value = wh_chunk_pool_get(wh_ouro_pool_(h), wh_ouro_level_(h, cc), taken, t.rank);
        wh_ouro_format_(h, cc, value);
    }
    if (t.need && t.s.what == WH_OURO_PARKED && t.rank == 0) {
        value = (uint32_t)t.s.first;
    }
    wh_syncwarp(mask);
    return value;
}

/* How many lanes in need a FETCH has pages for. */
WH_FN uint32_t wh_ouro_kept_(wh_ouro_ref h, wh_ouro_round t) {
    const uint64_t all = (uint64_t)t.s.n << wh_ouro_pages_log2_(h, wh_ouro_some_class_(t.who));
    return all < t.r ? (uint32_t)all : t.r;
}

/* FETCH: page i of the new chunks for the lane of rank i. CHUNKS: what is left of them goes into
 * the queue; fetched: so many E counts. All lanes of the mask call. */
WH_FN void *wh_ouro_hand_out_(wh_ouro_ref h, wh_ouro_round t, uint32_t fetched) {
    const wh_mask mask = t.who.mask;
    const uint32_t cc = wh_ouro_some_class_(t.who), pages_log2 = wh_ouro_pages_log2_(h, cc);
    const int fetches = t.s.what == WH_OURO_FETCH, leads = wh_ouro_leads_(t.who) && fetches;
    const uint32_t keep = fetches ? wh_ouro_kept_(h, t) : 0;
    const int served = fetches && t.need && t.rank < keep;
    const uint32_t which = served ? t.rank >> pages_log2 : 0;
    const uint32_t chunk = wh_shfl_u32(mask, t.value, wh_ouro_needy_lane_(t, which));
    if (WH_OURO_BY_CHUNK(h.variant)) {
        wh_ouro_fetched f;
        f.last = wh_shfl_u32(mask, t.value, wh_ouro_needy_lane_(t, fetches ? t.s.n - 1 : 0));
        f.left = leads ? (uint32_t)(((uint64_t)t.s.n << pages_log2) - keep) : 0;
        f.chunks = fetched;
        f.kept = keep;
        wh_ouro_publish_(h, mask, leads, cc, f);
    }
    return served ? wh_ouro_page_(h, cc, chunk, t.rank & ((1u << pages_log2) - 1)) : NULL;
}

/* Chunks that go back after lanes have claimed of them, before they claim the bits: others wait for
 * that. again: of a lane with such a chunk. All lanes of the mask call. */
WH_FN void wh_ouro_put_back_(wh_ouro_ref h, wh_ouro_round t, int again) {
    const wh_mask mask = t.who.mask;
    const uint32_t c = t.who.c;
    const int parked = t.s.what == WH_OURO_PARKED;
    if (!WH_OURO_BY_CHUNK(h.variant)) {
        if (again) {
            wh_ouro_park_(h, c, t.value);
        }
        return;
    }
    if (wh_any(mask, again && !parked)) {
        wh_ouro_enqueue_chunks_(h, mask, again && !parked, c, t.value, 1);
    }
    if (wh_any(mask, again && parked)) {
        wh_ouro_enqueue_chunks_(h, mask, again && parked, c, t.value, 0);
    }
}

/* Pages of chunks from the queue or the tree: of one for the group, or of one for each lane. All
 * lanes of the mask call; counted: R counts the group's pages. */
WH_FN void *wh_ouro_of_chunks_(wh_ouro_ref h, wh_ouro_round t, uint32_t counted) {
    const wh_mask mask = t.who.mask;
    const uint32_t c = t.who.c;
    const int parked = t.s.what == WH_OURO_PARKED;
    const int chunks = (t.s.what == WH_OURO_QUEUE && WH_OURO_BY_CHUNK(h.variant)) || parked;
    const int one = t.s.n == 1;
    const int holds = chunks && t.need && t.rank < t.s.n;
    void *p = NULL;
    wh_ouro_claim claim = wh_ouro_no_claim_();
    if (holds) {
        claim = wh_ouro_claim_pages_(h, c, t.value, one ? t.r : 1);
    }
    wh_ouro_add_full_(h, mask, claim.was_full, c, 0);
    const uint32_t first = wh_ouro_needy_lane_(t, 0);
    const uint32_t theirs = wh_shfl_u32(mask, t.value, first);
    const uint32_t claimed = wh_shfl_u32(mask, claim.got, first);
    const uint32_t begin = wh_shfl_u32(mask, claim.start, first);
    const int again = holds && claim.left != 0;
    wh_ouro_put_back_(h, t, again);
    if (holds && parked) {
        wh_ouro_unpark_(h, c);
    } else if (holds && !again) {
        wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), 0, 1, 0);
    }
    const int served = chunks && t.need && (one ? t.rank < claimed : holds);
    const wh_mask done = wh_ballot(mask, served) & t.who.lanes;
    wh_syncwarp(mask);
    if (served) {
        const uint32_t of = one ? theirs : t.value;
        const uint32_t page = wh_ouro_claim_bit_(h, c, of, one ? begin + t.rank : claim.start);
        p = wh_ouro_page_(h, c, of, page);
    }
    if (wh_ouro_leads_(t.who) && done != 0 && counted) {
        wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), 0, 0, wh_popc32(done));
    }
    return p;
}

/* The pages of a round; counted, fetched: as above. All lanes of the mask call. */
WH_FN void *wh_ouro_serve_(wh_ouro_ref h, wh_ouro_round t, uint32_t counted, uint32_t fetched) {
    const wh_mask mask = t.who.mask;
    const int by_chunk = WH_OURO_BY_CHUNK(h.variant);
    const int fetches = t.s.what == WH_OURO_FETCH, opens = t.s.what == WH_OURO_OPEN;
    const int chunks = (t.s.what == WH_OURO_QUEUE && by_chunk) || t.s.what == WH_OURO_PARKED;
    void *p = NULL;
    if (wh_any(mask, fetches)) {
        p = wh_ouro_hand_out_(h, t, fetched);
    }
    if (!by_chunk) {
        if (wh_ouro_has_taken_(t)) {
            p = wh_ouro_page_at_(h, t.who.c, t.value);
        }
        if (t.need && opens) {
            p = wh_ouro_opened_page_(h, t.who.c, &t.s, t.rank);
        }
        if (wh_ouro_leads_(t.who) && counted && (fetches || opens)) {
            const uint32_t most = opens ? wh_ouro_opened_(h, t.who.c, &t.s) : wh_ouro_kept_(h, t);
            wh_bulk_semaphore_signal(wh_ouro_sem_(h, t.who.c), 0, 0, most < t.r ? most : t.r);
        }
    }
    if (wh_any(mask, chunks)) {
        void *of_chunk = wh_ouro_of_chunks_(h, t, counted);
        p = chunks ? of_chunk : p;
    }
    return p;
}

/* SEARCH, now that no take is outstanding: memory of other classes, or NULL. Whether the group gets
 * NULL. All lanes of the mask call. */
WH_FN int wh_ouro_gives_up_(wh_ouro_ref h, wh_ouro_round t, uint32_t attempt,
                            wh_ouro_looks *looks) {
    uint32_t none = 0;
    if (wh_ouro_leads_(t.who) && t.s.what == WH_OURO_SEARCH &&
        wh_ouro_search_(h.header, t.who.c, attempt, looks)) { /* X1, X2 */
        wh_bulk_semaphore_signal(wh_ouro_sem_(h, t.who.c), 0, 0, t.r);
        none = 1;
    }
    return wh_shfl_u32(t.who.mask, none, wh_mask_leader(t.who.lanes)) != 0;
}

/* What the leader of a group decides; any other lane: nothing. */
WH_FN wh_ouro_step wh_ouro_decide_(const wh_ouro_header *header, wh_ouro_caller who, wh_ouro_turn t,
                                   uint32_t place) {
    if (!wh_ouro_leads_(who) || (t.r == 0 && t.duty == 0)) {
        return wh_ouro_step_(t);
    }
    return WH_OURO_BY_CHUNK(header->self.variant) ? wh_ouro_decide_chunks_(header, who.c, t)
                                                  : wh_ouro_decide_pages_(header, who.c, t, place);
}

/* Serves the lanes of groups that have no page yet. All lanes of the caller's mask call; b: what
 * the fast path has begun, p: the caller's page, if it has one. */
WH_FN_SLOW void *wh_ouro_slow_(const wh_ouro_header *header, wh_ouro_caller who, wh_ouro_begun b,
                               void *p) {
    const wh_ouro_ref h = header->self;
    const wh_mask mask = who.mask;
    const uint32_t leader = wh_mask_leader(who.lanes);
    uint32_t place = 0;
    wh_assert((mask >> wh_lane_id() & 1) != 0 && (who.lanes & ~mask) == 0);
    if (!WH_OURO_BY_CHUNK(h.variant)) {
        p = wh_ouro_finish_(h, who, b, p);
        place = wh_ouro_my_place_(h, wh_ouro_some_class_(who));
    }
    wh_ouro_turn turn = {0, 0, 0, 0, 0, 0};
    wh_ouro_looks looks = {0, 0, 0};
    wh_ouro_round t;
    t.who = who;
    t.need = wh_ouro_takes_part_(who) && p == NULL;
    for (; wh_any(mask, t.need || turn.duty != 0); turn.attempt++) {
        t.needy = wh_ballot(mask, t.need) & who.lanes;
        t.rank = wh_mask_rank(t.needy);
        t.r = turn.r = wh_popc32(t.needy);
        t.s = wh_ouro_decide_(header, who, turn, place);
        const uint32_t fetched = turn.duty; /* CHUNKS: E counts them until publish */
        const int waits = !wh_any(mask, t.s.what != WH_OURO_WAIT || t.s.duty != turn.duty ||
                                            t.s.counted != turn.counted);
        turn.tries += t.s.what == WH_OURO_QUEUE ? 2u : turn.tries == 0;
        turn.counted = t.s.counted;
        turn.duty = t.s.what == WH_OURO_FETCH ? 0 : t.s.duty;
        turn.idle = t.s.idle;
        t.s.what = wh_shfl_u32(mask, t.s.what, leader);
        t.s.n = wh_shfl_u32(mask, t.s.n, leader);
        t.s.first = wh_shfl_u64(mask, t.s.first, leader);
        t.s.from = wh_shfl_u32(mask, t.s.from, leader);
        if (waits) {
            wh_backoff(turn.attempt);
            continue;
        }
        wh_syncwarp(mask); /* what the leader acquired with a chunk, for the lane that uses it */
        const int needed = t.need;
        t.value = wh_ouro_take_values_(h, t);
        void *mine = wh_ouro_serve_(h, t, turn.counted, fetched);
        p = t.need && mine != NULL ? mine : p;
        t.need = t.need && mine == NULL;
        if (wh_any(mask, t.s.what == WH_OURO_SEARCH)) {
            const int gives_up = wh_ouro_gives_up_(h, t, turn.attempt, &looks);
            t.need = t.need && !gives_up;
        }
        if (!wh_any(mask, needed != t.need || turn.duty != 0)) {
            wh_backoff(turn.attempt); /* nobody got on: what they lack is on its way elsewhere */
        }
    }
    if (wh_ouro_takes_part_(who) && p == NULL) {
        wh_add_u64_relaxed(&h.header->failed, 1);
    }
    return p;
}

/* PAGES: what the fast path of malloc has left. Arguments as slow_'s. */
WH_FN_SLOW void *wh_ouro_more_(const wh_ouro_header *header, wh_ouro_caller who, wh_ouro_begun b,
                               void *p) {
    const int takes = (b.what & WH_OURO_TAKES) != 0;
    const int lacks = wh_ouro_takes_part_(who) && p == NULL && !takes;
    const uint32_t vain = wh_popc32(wh_ballot(who.mask, lacks) & who.lanes);
    if (vain != 0 && wh_lane_id() == wh_mask_leader(who.lanes)) { /* undoes a take in vain */
        wh_add_u64_relaxed(wh_ouro_sem_(header->self, who.c), wh_bulk_semaphore_word(vain, 0, 0));
    }
    if (!wh_any(who.mask, b.what != 0)) { /* nobody has a position in hand */
        p = wh_ouro_from_open_(header, who);
        if (!wh_any(who.mask, lacks && p == NULL)) {
            return p;
        }
    }
    return wh_ouro_slow_(header, who, b, p);
}

#include "warpheap/detail/simt/end.h"

#endif
