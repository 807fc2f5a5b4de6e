/* alloc/tessera/runs.h: requests of more than a chunk, and alignments: chunks in a row, and NULL
 * for want of them. This file may change: it is no part of the API.
 *
 * run_next  a hint: add, store, relaxed
 * run_lock  exchange acquire, by a lane whose warp may close cursors for a run or set a verdict of
 *           runs; store release. run_news: add, relaxed: how often cursors have been closed
 * run_verdict  store release, by the holder of run_lock
 *
 * Runs lie one behind the other from the back of the heap, across words of the pool; slabs of small
 * classes are taken from the front.
 *
 * X2      a verdict that there is no run of so many chunks, and no free slot of a large class,
 * holds while no chunks and no slots of large classes come back: every free that has returned some
 * has counted an event. It is set under X1 (oom.h), whose step (3) looks at the list of the one
 * class that the request is of, and whose step (4) is a search for the run. So it holds for
 * requests of that class; if the class is NO_CLASS, of no class. A verdict of an alignment of more
 * than a chunk says that no place of that alignment has so many free chunks. It holds for requests
 * of no class that have the alignment or a larger one, and for runs that are so long that such a
 * place lies in each
 *
 * Progress  a warp searches the pool without the lock, again only if another take got part of what
 *         it had found. While one warp has the lock the others look at it; that one waits for
 *         nobody
 * Cost    4 tries behind the last run; then a search of the pool's lowest level, a word a lane. A
 *         heap that grows while lanes run gets more before such a search, if the host has more, a
 *         few times a request; before NULL it searches in any case (growth.h X4)
 */
#ifndef WH_ALLOC_TESSERA_RUNS_H
#define WH_ALLOC_TESSERA_RUNS_H

#include "warpheap/detail/alloc/tessera/oom.h"

#include "warpheap/detail/simt/begin.h"

/* Tags claimed chunks as one run and returns it: lane `rank` of n that share the work. */
WH_FN void *wh_tessera_make_run_(wh_tessera_core g, uint64_t first, uint64_t chunks, uint32_t rank,
                                 uint32_t n) {
    wh_assert_internal(chunks - 1 < g.n_chunks && first + chunks <= g.n_chunks && rank < n);
    uint64_t *tags = wh_tessera_tag_at_(g, (uint32_t)first);
    for (uint32_t i = rank == 0 ? n : rank; i < (uint32_t)chunks; i += n) {
        wh_store_u64_relaxed(&tags[i], WH_TESSERA_INNER); /* so that a free of it is seen */
    }
    if (rank == 0) {
        wh_store_u64_relaxed(tags, chunks << 32 | WH_TESSERA_RUN);
    }
    return g.base + (first << g.chunk_log2);
}

#define WH_TESSERA_OWN_TAGS 16u   /* chunks of a short run, at most */
#define WH_TESSERA_LONG_TAGS 128u /* ... of one that is not long */

/* The same for a full warp whose lanes have claimed runs of so many chunks each (run: the first
 * chunk, or n_chunks: none). Short ones by their own lanes. Others by all lanes, neighbours in one
 * store: the tags of all runs one behind the other, or, as each store of that takes longer, those
 * of long runs in a loop for each. */
WH_FN void wh_tessera_tag_runs_(wh_tessera_core g, uint32_t run, uint32_t chunks) {
    const uint32_t lane = wh_lane_id();
    const uint64_t first = (uint64_t)chunks << 32 | WH_TESSERA_RUN;
    if (chunks <= WH_TESSERA_OWN_TAGS) {
        if (run != g.n_chunks) {
            (void)wh_tessera_make_run_(g, run, chunks, 0, 1);
        }
    } else if (chunks > WH_TESSERA_LONG_TAGS) {
        WH_NO_UNROLL
        for (uint32_t k = 0; k < WH_WARP_SIZE; k++) {
            const uint32_t its = wh_shfl_u32(WH_FULL_WARP, run, k);
            if (its != g.n_chunks) {
                (void)wh_tessera_make_run_(g, its, chunks, lane, WH_WARP_SIZE);
            }
        }
    } else {
        uint32_t of = 0, at = lane; /* this chunk of that lane's run */
        for (uint32_t i = 0; i < chunks; i++) {
            for (uint32_t k = 0; k < 2; k++) { /* at < chunks + 32, chunks > 16 */
                of += at >= chunks;
                at -= at >= chunks ? chunks : 0;
            }
            const uint32_t its = wh_shfl_u32(WH_FULL_WARP, run, of);
            if (its != g.n_chunks) {
                wh_store_u64_relaxed(wh_tessera_tag_at_(g, its + at),
                                     at == 0 ? first : WH_TESSERA_INNER);
            }
            at += WH_WARP_SIZE;
        }
    }
}

/* Whether chunks [first, first + n) are all in the pool. */
WH_FN int wh_tessera_are_free_(wh_veb pool, uint64_t first, uint64_t n) {
    wh_assert_internal(n != 0 && first + n <= pool.n);
    WH_NO_UNROLL
    for (uint64_t w = first >> 6; w <= (first + n - 1) >> 6; w++) {
        const uint64_t part = wh_veb_part_(w, first, n);
        if ((wh_load_u64_relaxed(wh_veb_word(pool, w)) & part) != part) {
            return 0;
        }
    }
    return 1;
}

/* The first of `keep` free chunks at the last multiple of align (more than a chunk) that has so
 * many, or NONE: each lane of mask looks at a place at a time. Claims nothing. */
WH_FN_SLOW uint64_t wh_tessera_find_aligned_(const wh_tessera_core *g, wh_mask mask, uint64_t keep,
                                             uint64_t align) {
    wh_assert_internal(wh_tessera_in_mask_(mask) && wh_is_pow2(align) && keep != 0);
    const uint64_t base = (uint64_t)(uintptr_t)g->base;
    const uint32_t step_log2 = wh_log2_floor(align >> g->chunk_log2);
    const uint64_t first = (wh_round_up(base, align) - base) >> g->chunk_log2;
    const uint32_t top = wh_tessera_top_of_all_(*g, mask);
    const uint64_t places = first + keep <= top ? ((top - keep - first) >> step_log2) + 1 : 0;
    const uint32_t lanes = wh_popc32(mask);
    uint64_t found = WH_VEB_NONE;
    WH_NO_UNROLL
    for (uint64_t k = 0; k < places && found == WH_VEB_NONE; k += lanes) {
        const uint64_t place = k + wh_mask_rank(mask);
        const uint64_t at =
            place < places ? first + ((places - 1 - place) << step_log2) : WH_VEB_NONE;
        const wh_mask some = wh_ballot(
            mask, at != WH_VEB_NONE && wh_tessera_are_free_(wh_tessera_pool_(*g), at, keep));
        if (some != 0) {
            found = wh_shfl_u64(mask, at, wh_mask_leader(some));
        }
    }
    wh_fence(); /* as find_run_together: what is read next is read later */
    return found;
}

/* A run in the pool for lane `owner` of mask: chunks in a row, of which some multiple of align (a
 * power of two) starts `keep`; it keeps these. First in words below `end`, then anywhere, at last
 * at the one place of a row that is just long enough. All lanes of mask, with the same arguments;
 * they search together, and the owner claims: an owner that comes too late searches again. Returns
 * the run's address; 0: the pool had no such run. */
WH_FN_SLOW uint64_t wh_tessera_take_run_(const wh_tessera_core *g, wh_mask mask, uint32_t owner,
                                         uint32_t shard, uint64_t end, uint64_t chunks,
                                         uint64_t keep, uint64_t align) {
    wh_assert_internal(wh_tessera_in_mask_(mask) && (mask >> owner & 1) != 0);
    wh_assert_internal(keep != 0 && keep <= chunks && wh_is_pow2(align));
    wh_assert_expensive(wh_tessera_same_(mask, chunks) && wh_tessera_same_(mask, end));
    const wh_veb pool = wh_tessera_pool_(*g);
    wh_tessera_shard *own = wh_tessera_shard_at_(*g, shard);
    for (;;) {
        const uint64_t all = ((uint64_t)wh_tessera_top_of_all_(*g, mask) + 63) >> 6;
        uint64_t first =
            end < all ? wh_veb_find_run_together(pool, mask, chunks, end) : WH_VEB_NONE;
        if (first == WH_VEB_NONE) {
            first = wh_veb_find_run_together(pool, mask, chunks, all);
        }
        uint64_t n = chunks;
        if (first == WH_VEB_NONE && keep < chunks) {
            n = keep;
            first = wh_tessera_find_aligned_(g, mask, keep, align);
        }
        if (first == WH_VEB_NONE) {
            return 0;
        }
        uint64_t got = 0;
        if (wh_lane_id() == owner) {
            wh_tessera_begin_take_(own);
            if (wh_veb_claim_range(pool, first, n)) {
                const uint64_t address = (uint64_t)(uintptr_t)g->base + (first << g->chunk_log2);
                const uint64_t start =
                    first + ((wh_round_up(address, align) - address) >> g->chunk_log2);
                if (start > first) {
                    wh_veb_insert_range(pool, first, start - first);
                }
                if (WH_PLANT(tessera_run_rest, start + keep < first + n, 0)) { /* I1 */
                    wh_veb_insert_range(pool, start + keep, first + n - (start + keep));
                }
                got = (uint64_t)(uintptr_t)wh_tessera_make_run_(*g, start, keep, 0, 1);
            }
            wh_tessera_end_take_(own);
        }
        got = wh_shfl_u64(mask, got, owner);
        if (got != 0) {
            return got;
        }
    }
}

#define WH_TESSERA_WAIT 1u /* no address of a run: look again */

/* What a request is to verdicts: its large class, NO_CLASS, or, of an alignment of more than a
 * chunk, a number in between that grows with the alignment. */
#define WH_TESSERA_ALIGNED (WH_TESSERA_ALL - 1)
WH_HD uint32_t wh_tessera_request_(const wh_tessera_core *g, uint32_t c, uint64_t align) {
    const uint64_t step = align >> g->chunk_log2;
    wh_assert_internal(step <= 1 || c == WH_TESSERA_NO_CLASS);
    return step > 1 ? WH_TESSERA_ALIGNED + wh_log2_floor(step) : c;
}

/* A verdict: X2. */
WH_HD uint64_t wh_tessera_verdict_(uint64_t events, uint32_t c, uint64_t chunks) {
    wh_assert_internal(c < WH_TESSERA_CLASSES && chunks < 1u << 24);
    return events << 31 | (uint64_t)c << 24 | chunks;
}

/* A slot of large class c for lane `owner` of mask, if there is one on the class's list: its
 * address. 0: none. *some: the list had some, which others may have taken. All lanes of mask. */
WH_FN_SLOW uint64_t wh_tessera_listed_(const wh_tessera_core *g, wh_mask mask, uint32_t owner,
                                       uint32_t shard, uint32_t c, int *some) {
    wh_tessera_ask ask;
    uint64_t got = 0;
    *some = c != WH_TESSERA_NO_CLASS && wh_tessera_class_has_(g, mask, shard, c, 0);
    ask.shard = shard;
    ask.c = c;
    ask.n = 1;
    ask.rung = WH_TESSERA_PARTIAL;
    ask.last = 0;
    WH_NO_UNROLL
    for (uint32_t k = 0; k < 2; k++) { /* class_has_ has left a hint */
        ask.seed = k << 31;
        if (*some && got == 0 && wh_lane_id() == owner) {
            const wh_tessera_grant grant = wh_tessera_partial_(g, ask);
            if (grant.bits != 0) {
                got = (uint64_t)(uintptr_t)wh_tessera_granted_(
                    g, wh_tessera_header_of_(g)->classes[c], grant, 0);
            }
        }
    }
    return wh_shfl_u64(mask, got, owner);
}

/* One attempt at a run for lane `owner` under the heap's lock, which it holds: the run's address, 0
 * if there is none (X1), or else WAIT. All lanes of mask, with the same arguments. */
WH_FN_SLOW uint64_t wh_tessera_run_locked_(const wh_tessera_core *g, wh_mask mask, uint32_t owner,
                                           uint32_t shard, uint32_t c, uint64_t chunks,
                                           uint64_t keep, uint64_t align) {
    wh_assert_internal(wh_tessera_in_mask_(mask) && (mask >> owner & 1) != 0);
    wh_assert_expensive(wh_lane_id() != owner ||
                        wh_tessera_is_locked_(&wh_tessera_header_(*g)->run_lock));
    const int owns = wh_lane_id() == owner;
    /* First without disturbing the cursors. */
    uint64_t got = wh_tessera_take_run_(g, mask, owner, shard, UINT64_MAX, chunks, keep, align);
    if (got != 0) {
        return got;
    }
    if (wh_tessera_close_all_(g, mask, shard)) { /* others may find some, too */
        if (owns) {
            wh_add_u32_relaxed(&wh_tessera_header_(*g)->run_news, 1);
        }
        return WH_TESSERA_WAIT;
    }
    const uint64_t events = wh_tessera_total_(mask, wh_tessera_part_(*g, mask, WH_TESSERA_EVENTS));
    const uint64_t done = wh_tessera_part_(*g, mask, WH_TESSERA_TAKES_DONE);
    const uint64_t begun = wh_tessera_part_(*g, mask, WH_TESSERA_TAKES_BEGUN);
    if (!wh_all(mask, done == begun) || !wh_tessera_all_settled_(*g, mask)) {
        return WH_TESSERA_WAIT;
    }
    int some = 0;
    got = wh_tessera_listed_(g, mask, owner, shard, c, &some); /* X2 */
    if (got != 0 || some) {
        return got != 0 ? got : WH_TESSERA_WAIT;
    }
    got = wh_tessera_take_run_(g, mask, owner, shard, UINT64_MAX, chunks, keep, align);
    if (got != 0) {
        return got;
    }
    if (WH_PLANT(tessera_run_same, /* X1 */
                 !wh_all(mask, wh_tessera_part_(*g, mask, WH_TESSERA_TAKES_BEGUN) == begun), 0)) {
        return WH_TESSERA_WAIT;
    }
    const uint64_t known = /* X2 */
        WH_PLANT(tessera_run_events, events,
                 wh_tessera_total_(mask, wh_tessera_part_(*g, mask, WH_TESSERA_EVENTS)));
    if (owns) {
        wh_store_u64_release(&wh_tessera_header_(*g)->run_verdict,
                             wh_tessera_verdict_(known, wh_tessera_request_(g, c, align), keep));
    }
    return 0;
}

/* Whether a verdict says that there is no run of `keep` chunks for a request (request_). X2. All
 * lanes of mask; each lane for itself. */
WH_FN int wh_tessera_no_run_(wh_tessera_core g, wh_mask mask, uint32_t request, uint64_t keep) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    const uint64_t verdict = wh_load_u64_acquire(&wh_tessera_header_(g)->run_verdict);
    const uint32_t of = (uint32_t)(verdict >> 24) & 127;
    uint64_t least = verdict & 0xffffff;
    int fits = least != 0 && (request >= WH_TESSERA_ALL || request == of);
    if (of >= WH_TESSERA_ALL && of != WH_TESSERA_NO_CLASS &&
        (request < of || request == WH_TESSERA_NO_CLASS)) { /* in so many lies such a place */
        least += ((uint64_t)1 << (of - WH_TESSERA_ALIGNED)) - 1;
    }
    fits = fits && keep >= least;
    return wh_any(mask, fits) &&
           (wh_tessera_total_(mask, wh_tessera_part_(g, mask, WH_TESSERA_EVENTS)) ^ verdict >> 31)
                   << 31 ==
               0 &&
           fits;
}

/* The lanes of a group that want runs of `keep` chunks each, `left`, try places behind the last
 * run. Returns the first chunk of the caller's, or n_chunks. */
WH_FN uint32_t wh_tessera_next_runs_(wh_tessera_core g, wh_group group, uint32_t keep) {
    wh_tessera_header *header = wh_tessera_header_(g);
    uint32_t run = g.n_chunks;
    wh_mask left = group.lanes;
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < WH_TESSERA_HOME_TRIES && left != 0; tries++) {
        uint32_t next = 0;
        if (wh_group_leads(group)) {
            next = wh_load_u32_relaxed(&header->run_next);
            if (next < g.n_chunks) {
                next = wh_fetch_add_u32_relaxed(&header->run_next, wh_popc32(left) * keep);
            }
        }
        next = wh_shfl_u32(group.lanes, next, group.leader);
        const uint64_t behind = next + (uint64_t)(wh_mask_rank(left) + 1) * keep;
        if (run == g.n_chunks && behind <= g.n_chunks &&
            wh_veb_claim_range(wh_tessera_pool_(g), g.n_chunks - behind, keep)) {
            run = (uint32_t)(g.n_chunks - behind);
        }
        left = next < g.n_chunks ? wh_ballot(group.lanes, run == g.n_chunks) : 0;
    }
    return run;
}

/* The same in a take, with tags: the caller's run, or NULL. All lanes of the group. */
WH_FN void *wh_tessera_try_runs_(const wh_tessera_core *g, wh_tessera_shard *own, wh_group group,
                                 uint32_t keep) {
    if (wh_group_leads(group)) {
        wh_tessera_begin_take_(own);
    }
    wh_syncwarp(group.lanes); /* P4 */
    const uint32_t run = wh_tessera_next_runs_(*g, group, keep);
    if (group.lanes == WH_FULL_WARP) {
        wh_tessera_tag_runs_(*g, run, keep);
    } else if (run != g->n_chunks) {
        (void)wh_tessera_make_run_(*g, run, keep, 0, 1);
    }
    wh_syncwarp(group.lanes);
    if (wh_group_leads(group)) {
        wh_tessera_end_take_(own);
    }
    return run != g->n_chunks ? g->base + ((uint64_t)run << g->chunk_log2) : NULL;
}

/* The same for each lane that wants a run of `keep` chunks, not 0. All lanes of mask. */
WH_FN void *wh_tessera_try_places_(const wh_tessera_core *g, wh_mask mask, uint32_t shard,
                                   uint64_t keep) {
    const wh_group group = wh_group_by_u64(mask, keep);
    wh_tessera_shard *own = wh_tessera_shard_at_(*g, shard);
    return keep != 0 ? wh_tessera_try_runs_(g, own, group, (uint32_t)keep) : NULL;
}

/* Requests of more than a chunk, or for an alignment of more. c: the large class of a request that
 * has found no slot, which NULL then speaks of, too; or NO_CLASS. All lanes of mask call; a lane
 * with n = 0 takes no part. No run: NULL, or LATE. First each group of lanes with one size tries
 * places behind the last run; then the lanes that found them taken search one by one. */
WH_FN_LINKED(void *, wh_tessera_run_,
             (const wh_tessera_core *g, wh_mask mask, uint32_t shard, uint32_t c, uint64_t n,
              uint64_t align)) {
    wh_assert_internal(wh_tessera_in_mask_(mask) && wh_is_pow2(align));
    wh_tessera_header *header = wh_tessera_header_(*g);
    const uint64_t chunk = (uint64_t)1 << g->chunk_log2;
    const uint64_t keep = (n >> g->chunk_log2) + ((n & (chunk - 1)) != 0);
    const uint64_t extra = align > chunk ? (align >> g->chunk_log2) - 1 : 0;
    const uint64_t chunks = keep + extra;
    void *p = NULL;
    const uint32_t request = wh_tessera_request_(g, c, align);
    int need = n != 0 && keep <= g->n_chunks;
    wh_tessera_wish wish = wh_tessera_new_wish_(g);
    if (wh_all(mask, wish.over != 0) && wh_tessera_no_run_(*g, mask, request, need ? keep : 0)) {
        need = 0; /* without disturbing other searches */
    }
    /* After the places behind the last run one by one: in the pool; what is not there only the
     * holder of the lock may ask cursors for, or give up. */
    uint64_t seen = UINT64_MAX;   /* the verdict when the caller looked at it: none yet */
    uint32_t news = 0, fresh = 1; /* run_news at its last search in the pool */
    int tries = 1;                /* all lanes: there may be places behind the last run */
    WH_NO_UNROLL
    for (uint32_t attempt = 0;; attempt++) {
        if (tries) {
            void *its = wh_tessera_try_places_(g, mask, shard, need && extra == 0 ? keep : 0);
            p = its != NULL ? its : p;
            need = need && p == NULL;
            tries = 0;
        }
        const wh_mask needy = wh_ballot(mask, need);
        if (needy == 0) {
            break;
        }
        const uint32_t first = wh_mask_leader(needy);
        const int is_owner = wh_lane_id() == first;
        const uint64_t its_chunks = wh_shfl_u64(mask, chunks, first);
        const uint64_t its_keep = wh_shfl_u64(mask, keep, first);
        const uint64_t its_align = wh_shfl_u64(mask, align, first);
        if (wh_any(mask, is_owner && extra == 0 && wish.grows != 0)) { /* growth comes first */
            tries = wh_tessera_grow_soon_(g, mask, shard, its_chunks, is_owner, &wish);
            continue;
        }
        int waits = 0; /* the lock is another lane's, and X2 says no more than before */
        int looks = 0;
        if (is_owner) {
            const uint64_t verdict = wh_load_u64_relaxed(&header->run_verdict);
            const uint32_t now = wh_load_u32_relaxed(&header->run_news);
            looks = fresh || now != news;
            waits = verdict == seen && wh_load_u32_relaxed(&header->run_lock) != 0;
            seen = verdict;
            news = now;
            fresh = 0;
        }
        uint64_t got = WH_TESSERA_WAIT;
        if (wh_any(mask, looks)) {
            got = wh_tessera_take_run_(g, mask, first, shard, UINT64_MAX, its_chunks, its_keep,
                                       its_align);
            got = got != 0 ? got : WH_TESSERA_WAIT;
            waits = 0;
        }
        if (got == WH_TESSERA_WAIT) {
            if (wh_any(mask, waits)) {
                wh_backoff(attempt);
                continue;
            }
            const int no_run = wh_tessera_no_run_(*g, mask, request, is_owner ? keep : 0);
            const int locked =
                is_owner && !no_run && wh_exchange_u32_acquire(&header->run_lock, 1) == 0;
            if (wh_any(mask, locked)) { /* all lanes search for this one */
                got = wh_tessera_run_locked_(g, mask, first, shard, wh_shfl_u32(mask, c, first),
                                             its_chunks, its_keep, its_align);
                if (locked) {
                    wh_store_u32_release(&header->run_lock, 0);
                }
            }
            got = no_run ? 0 : got;
            const int wishes = is_owner && got == 0 && wish.over == 0;
            if (wh_any(mask, wishes)) {
                const int more = wh_tessera_grow_(g, mask, shard, its_chunks, wishes, &wish);
                fresh = 1;
                if (more || WH_PLANT(tessera_x4_run, 1, 0)) { /* X4: also behind a refusal */
                    got = WH_TESSERA_WAIT;
                }
            }
        }
        if (is_owner) {
            need = got == WH_TESSERA_WAIT;
            p = got != WH_TESSERA_WAIT ? (void *)(uintptr_t)got : NULL;
        }
        if (wh_any(mask, is_owner && need)) {
            wh_backoff(attempt);
        }
    }
    if (n != 0 && p == NULL) {
        p = wh_tessera_failed_(g, shard, 1, wish);
    }
    return p;
}

/* Frees a run; anything else that gets here is a bad pointer. */
WH_FN void wh_tessera_free_chunks_(const wh_tessera_core *g, uint32_t shard, uint64_t offset) {
    const uint64_t chunk = offset >> g->chunk_log2;
    wh_tessera_shard *own = wh_tessera_shard_at_(*g, shard);
    if (chunk < g->n_chunks && (offset & (((uint64_t)1 << g->chunk_log2) - 1)) == 0) {
        uint64_t *at = wh_tessera_tag_at_(*g, (uint32_t)chunk);
        const uint64_t tag = wh_load_u64_relaxed(at);
        if (wh_tessera_kind(tag) == WH_TESSERA_RUN &&
            wh_cas_u64_acq_rel(at, tag, WH_TESSERA_FREE) == tag) {
            const uint64_t chunks = tag >> 32;                        /* one free wins */
            wh_veb_insert_range(wh_tessera_pool_(*g), chunk, chunks); /* P3 */
            wh_add_u32_relaxed(&own->events, 1);                      /* X2, P6 */
            wh_tessera_lower_run_next_(*g, chunk, chunks);
            if ((g->tracks & WH_TESSERA_COUNTS) != 0) {
                wh_tessera_count_frees_(g, chunks << g->chunk_log2);
            }
            return;
        }
    }
    wh_tessera_bad_free_(own, 1);
}

#include "warpheap/detail/simt/end.h"

#endif
