/* alloc/tessera: a general heap. docs/tessera/README.md explains it with figures. This
 * file has malloc's fast path, free and the rest of the contract. It may change: it is no part of
 * the API.
 *
 * The idea
 *   A *cursor* hands out the slots of fresh slabs: one fetch_add returns the place and the number
 *   of a slot together, and nothing else is touched. Each class has a cursor in each shard. Each
 *   cursor has a span of slabs from the start, in the front of the heap. The lane whose add passes
 *   the end of a span is the refiller: it attaches the next span. Meanwhile the others take from
 *   the spare span.
 *   A freed slot is a bit in the word of its slab. An empty slab goes back to the pool. Free slots
 *   of partial slabs are found through the partial lists, once the pool has nothing for a class.
 *   A full warp that wants large blocks gets chunks of its own: a slab, if all lanes want the same
 *   power of two, or else a pack. It waits for nobody.
 *
 * Files, each of which has the rules of its fields and steps at its head
 *   size_class.h  classes, slabs, spans: how large they are
 *   tag.h         tags, packs, spans, states, words: packed words (I3, I9)
 *   layout.h      structures in memory, and which lane writes which field
 *   steps.h       brackets of takes, claims of chunks, what a slow step found (I2, I7, P3, P4, P6)
 *   slab.h        words and states of slabs; what follows a free (I4 to I6, P1, P5, P7)
 *   spans.h       from the pool to a cursor (C1, I8, P2)
 *   partial.h     partial slabs, other shards' cursors, blocks of packs (T1)
 *   search.h      whether there is anything at all; verdicts (X1 to X3, P8)
 *   slow.h        the slow path of slots
 *   runs.h        requests of more than a chunk
 *   warps.h       chunks for a full warp: its slab, packs, single chunks
 *   inspect.h     first state, statistics, checks; left.h: how many blocks of a size are left
 *
 * I1     a slot is in exactly one hand: a caller's, a cursor's (position <= slot), a 1 in its word,
 *        or with the whole slab in the pool or in transit
 *
 * Progress
 *   A lane waits for three things only, and none of them waits for others without an end.
 *   - For the refillers of its cursor. Their search of the pool is bounded. (A lane of a part of a
 *     warp may wait for one of its own warp: lanes that have parted go on independently on sm_70
 *     and later.)
 *   - For a warp that searches for all before NULL (search.h).
 *   - For a warp that closes cursors for a run (runs.h).
 *   Lists and pool are lock-free.
 * Cost
 *   malloc  1 atomic for each class of a full warp, or each lane of a part of one; 1 more while the
 *           span has no slots; about ten more for the refiller
 *           a full warp's slab or pack: 2 atomics; docs/tessera/warps.md says which warp gets which
 *   free    1 load and 1 atomic for each word (of a full warp), or each lane; 1 more for the group
 *           that makes the word empty; up to two that nobody waits for
 *   NULL    a look at all tags and words of slabs by a warp, unless a verdict holds
 * Check
 *   tests/conform, tests/stress; tests/unit/tessera_*.c, of which each head says what it checks;
 *   tests/fault/tessera.c: what is planted is found; wh_tessera_check: I1 to I9 on a quiet heap
 */
#ifndef WH_ALLOC_TESSERA_H
#define WH_ALLOC_TESSERA_H

#include "warpheap/core/hash.h"
#include "warpheap/detail/alloc/tessera/runs.h"
#include "warpheap/detail/alloc/tessera/slow.h"
#include "warpheap/detail/alloc/tessera/warps.h"

#include "warpheap/detail/simt/begin.h"

/* --- the contract ---------------------------------------------------------------- */

WH_FN uint32_t wh_tessera_my_shard_(wh_tessera_ref h) {
    const uint32_t shard = wh_sm_id() * h.shard_scale >> 16;
    return shard < h.last_shard ? shard : h.last_shard;
}

/* What is neither a slot of a cursor nor to be had from one: full warps whose slab or pack had no
 * place, and runs. rare: it is for this; if its warp wants different sizes, for a block of a pack.
 */
WH_FN_SLOW void *wh_tessera_rare_(const wh_tessera_core *g, wh_mask mask, wh_mask lanes,
                                  uint32_t shard, uint32_t c, int rare, void *p, uint64_t n) {
    wh_assert_internal(wh_tessera_in_mask_(mask) && wh_tessera_in_mask_(lanes));
    const int is_run = c == WH_TESSERA_NO_CLASS && n != 0;
    const int needs = p == NULL && c != WH_TESSERA_NO_CLASS && rare;
    const int may = wh_any(mask, needs && wh_tessera_any_(wh_tessera_pool_(*g)));
    if (may && lanes == WH_FULL_WARP && wh_all(lanes, needs)) {
        p = wh_tessera_is_warp_slab_(n, g->max_warp_slab)
                ? wh_tessera_warp_slab_again_(g, shard, c, wh_tessera_warp_slab_log2_((uint32_t)n))
                : wh_tessera_pack_parts_(g, shard, n);
        if (wh_any(lanes, p == NULL) &&
            wh_tessera_order(wh_tessera_header_of_(g)->classes[c]) != 0) {
            p = wh_tessera_gather_slots_(g, shard, c, p);
        }
    } else if (may && mask == WH_FULL_WARP) {
        void *q = wh_tessera_gather_packs_(
            g, shard, needs ? wh_tessera_granules((uint32_t)n, g->chunk_log2) : 0);
        p = p != NULL ? p : q;
    }
    if (wh_any(mask, is_run)) {
        void *q = wh_tessera_run_(g, mask, shard, is_run ? n : 0, 1);
        p = is_run ? q : p;
    }
    return p;
}

/* Whether some lane of a full warp (mask) says so; 0: some lane that is at this place with the
 * caller. Lanes that go where none of them has anything to do find no progress there, so each place
 * that asks is a place of its own (a macro: the simulated device tells them by their lines). */
#define WH_TESSERA_SOME(mask, pred) ((mask) == 0 ? wh_any_here(pred) : wh_any((mask), (pred)))

/* An add to a word of the cursor of class c for r lanes of which the caller leads, if one has slots
 * or is about to (P2, I1): what it returned is now->v, and the caller may have become its refiller.
 * 0: not yet, or the cursor is closed, and the caller STUCK; or its refiller will be long, which
 * the caller has waited for (`attempt`), and it WAITS no more without a look at the list. */
WH_FN uint64_t wh_tessera_add_to_cursor_(wh_tessera_shard *own_shard, uint32_t c, uint32_t r,
                                         uint32_t attempt, wh_tessera_outcome *now) {
    wh_assert_internal(r - 1 < WH_WARP_SIZE && c < WH_TESSERA_NO_CLASS);
    wh_tessera_cursor *cursor = &own_shard->cursors[c];
    const uint32_t which =
        wh_tessera_which_(wh_load_u64_relaxed(&cursor->span), wh_load_u64_relaxed(&cursor->spare));
    uint64_t got = 0;
    if (which < 2) {
        got = wh_fetch_add_u64_acquire(wh_tessera_word_(cursor, which), r * WH_TESSERA_POSITION);
        now->attach = wh_tessera_passes_end_(got, r) ? 1 + which : 0;
        now->v = got;
    } else if (which == WH_TESSERA_BOTH_CLOSED) {
        now->attach = WH_TESSERA_STUCK;
    } else if (attempt >= WH_TESSERA_PATIENCE &&
               wh_load_u32_relaxed(&own_shard->pool_was_empty) != 0) {
        now->attach = WH_TESSERA_WAITS;
    }
    return got;
}

/* For lanes of which some lack a slot of class c and none is a refiller or for rare: whoever needs
 * one waits until a word of the cursor has changed, and adds. Returns when all have one, or some
 * have become refillers, or are STUCK, or look at the list (WAITS): nobody waits while another lane
 * of its warp has something to do, if the two are together. mask: all its lanes call, and return
 * together; of a full warp `lanes` is the caller's group. 0: each lane waits for itself, and stays
 * with those that are here. It makes no calls, on purpose. Where a part of a warp may go around a
 * call, ptxas has the lanes meet behind it by way of one certain barrier register, in all functions
 * the same. A kernel that calls malloc in such a place has lanes wait there: they would be let go
 * when others of the warp use that register in here, and the warp would stay apart from then on
 * (docs/notes/2026-11-25-a-barrier-register.md). */
WH_FN_SLOW wh_tessera_outcome wh_tessera_await_(const wh_tessera_core *g,
                                                wh_tessera_shard *own_shard, wh_mask mask,
                                                wh_mask lanes, uint32_t c, uint64_t v, void *p) {
    wh_assert_internal(mask == 0 || wh_tessera_in_mask_(mask));
    const wh_tessera_class cls =
        wh_tessera_header_of_(g)->classes[c != WH_TESSERA_NO_CLASS ? c : 0];
    unsigned char *base = g->base;
    const uint32_t chunk_bytes = 1u << wh_tessera_class_chunk_log2(cls);
    int need = p == NULL && c != WH_TESSERA_NO_CLASS;
    wh_tessera_outcome now;
    now.p = p;
    now.v = v;
    now.attach = 0;
    if (mask != WH_FULL_WARP) { /* each for itself */
        lanes = (wh_mask)1 << wh_lane_id();
    }
    const uint32_t leader = wh_mask_leader(lanes);
    WH_NO_UNROLL
    for (uint32_t attempt = 0;; attempt++) {
        if (mask != 0) {
            const wh_mask needy = wh_ballot(mask, need) & lanes;
            uint64_t got = 0; /* slots from its position on are the group's */
            if (wh_lane_id() == leader && needy != 0) {
                got = wh_tessera_add_to_cursor_(own_shard, c, wh_popc32(needy), attempt, &now);
            }
            got = wh_shfl_u64(mask, got, leader);
            if (need) {
                now.p = wh_tessera_nth_(base, chunk_bytes, cls, got, wh_mask_rank(needy));
            }
        } else if (need) {
            now.p = wh_tessera_nth_(base, chunk_bytes, cls,
                                    wh_tessera_add_to_cursor_(own_shard, c, 1, attempt, &now), 0);
        }
        need = need && now.p == NULL;
        const int some_leave = WH_TESSERA_SOME(mask, now.attach != 0);
        const int some_need = WH_TESSERA_SOME(mask, need);
        if (some_leave || !some_need) {
            return now;
        }
        wh_backoff(attempt < 2 ? attempt : 2);
    }
}

/* Whether a lane that has come to this may find a slot on the list. */
WH_FN int wh_tessera_looks_(uint32_t attach) {
    return attach == WH_TESSERA_STUCK || attach == WH_TESSERA_WAITS;
}

/* What such a lane has come to when it has looked; served: its group has all it wants. Others keep
 * their attach. */
WH_FN wh_tessera_outcome wh_tessera_looked_(uint32_t attach, uint64_t v, void *p, int served) {
    wh_tessera_outcome now;
    now.p = p;
    now.v = v;
    const uint32_t after = served || attach == WH_TESSERA_WAITS ? 0 : attach | WH_TESSERA_LOOKED;
    now.attach = !wh_tessera_looks_(attach) ? attach : after;
    return now;
}

/* For lanes that may, each for itself: slots of partial slabs, if the pool had nothing the last
 * time. Returns p, and what they have come to then. */
WH_FN_SLOW wh_tessera_outcome wh_tessera_partial_each_(const wh_tessera_core *g,
                                                       wh_tessera_shard *own_shard, uint32_t shard,
                                                       uint32_t c, uint32_t attach, uint64_t v,
                                                       void *p) {
    const int need = wh_tessera_looks_(attach) && p == NULL && c != WH_TESSERA_NO_CLASS;
    const uint32_t of = c != WH_TESSERA_NO_CLASS ? c : 0;
    const wh_tessera_grant grant = wh_tessera_take_each_(g, own_shard, shard, of, (uint32_t)need);
    if (need) {
        p = wh_tessera_granted_slot_(g, wh_tessera_header_of_(g)->classes[c], grant, 0);
    }
    return wh_tessera_looked_(attach, v, p, !need || p != NULL);
}

/* The same for groups of a full warp, `lanes` is the caller's; also if the pool has nothing now. */
WH_FN_SLOW wh_tessera_outcome wh_tessera_partial_groups_(const wh_tessera_core *g,
                                                         wh_tessera_shard *own_shard, wh_mask lanes,
                                                         uint32_t shard, uint32_t c,
                                                         uint32_t attach, uint64_t v, void *p) {
    wh_assert_internal(wh_tessera_in_mask_(lanes));
    const int looks = (wh_ballot(WH_FULL_WARP, wh_tessera_looks_(attach)) & lanes) != 0;
    const int need = looks && p == NULL && c != WH_TESSERA_NO_CLASS;
    const int pool_was_empty = wh_load_u32_relaxed(&own_shard->pool_was_empty) != 0 ||
                               !wh_tessera_any_(wh_tessera_pool_(*g));
    wh_tessera_served served;
    served.p = p;
    served.needy = wh_ballot(WH_FULL_WARP, need) & lanes;
    if (wh_any(WH_FULL_WARP, need && pool_was_empty)) {
        served = wh_tessera_take_groups_(g, own_shard, lanes, shard, c, need, p, 0);
    }
    return wh_tessera_looked_(attach, v, served.p, served.needy == 0);
}

/* The same for a full warp of one class c. Each lane looks at a slab of its own, and as many of
 * them as it needs take what they have seen for the warp, by one cas each. Again until it has all,
 * but for a few times that it got none: others were faster, or what it saw was used up, and has
 * left the list. If some of it had gone to the pool that is next, at once: after a mass of frees
 * lists are full of such, and to take all of them off would keep the warp too long. A look in vain
 * is no take (P4): X1 needs a moment without any. */
WH_FN_SLOW wh_tessera_outcome wh_tessera_partial_warp_(const wh_tessera_core *g,
                                                       wh_tessera_shard *own_shard, uint32_t shard,
                                                       uint32_t c, uint32_t attach, uint64_t v,
                                                       void *p) {
    const uint32_t lane = wh_lane_id();
    const wh_tessera_core core = *g;
    const wh_tessera_class cls = wh_tessera_header_of_(g)->classes[c];
    const wh_veb pool = wh_tessera_pool_(core);
    const uint32_t n_words = (cls.slots + 63) >> 6;
    uint32_t seed = wh_spread32((uint32_t)wh_thread_id());
    uint32_t misses = wh_any(WH_FULL_WARP, wh_tessera_looks_(attach)) ? 0 : WH_TESSERA_EACH_TRIES;
    WH_NO_UNROLL
    while (misses < WH_TESSERA_EACH_TRIES) {
        const wh_mask needy = wh_ballot(WH_FULL_WARP, p == NULL);
        const uint32_t n = wh_popc32(needy);
        const int may =
            wh_tessera_may_take_partial_(core, c, 0) &&
            (wh_load_u32_relaxed(&own_shard->pool_was_empty) != 0 || !wh_tessera_any_(pool));
        if (n == 0 || !wh_all(WH_FULL_WARP, may)) {
            break;
        }
        seed += WH_TESSERA_FURTHER;
        const wh_tessera_word_view view = wh_tessera_view_word_(core, c, n_words, 0, seed);
        const int first = wh_group_leads(wh_group_by_u32(WH_FULL_WARP, view.slab));
        const uint64_t free =
            first && view.w != 0 ? wh_tessera_choose_(view.w, view.slots, view.at, 64, seed) : 0;
        const uint32_t view_n = wh_popc64(free);
        const uint32_t before = wh_scan_add_warp_u32(view_n) - view_n;
        /* No more than has been counted, though more may be free by then: it would be lost. */
        uint32_t room = view_n;
        if (before + view_n > n) {
            room = before < n ? n - before : 0;
        }
        const int begins = wh_any(WH_FULL_WARP, free != 0);
        if (lane == 0 && begins) {
            (void)wh_tessera_begin_take_(core, shard);
        }
        wh_syncwarp(WH_FULL_WARP); /* P4: the cas of each lane releases */
        wh_tessera_grant grant = wh_tessera_make_grant_(WH_TESSERA_WAIT, 0);
        if (free != 0 && room != 0) {
            uint64_t rest = 0;
            grant = wh_tessera_take_viewed_(core, shard, view, room, seed, &rest);
        } else if (first && !view.any && (!view.gone || lane < WH_TESSERA_EACH_TRIES)) {
            wh_tessera_remove_partial_(core, c, n_words, view);
        }
        if (!wh_any(WH_FULL_WARP, grant.bits != 0)) {
            misses++;
            if (wh_any(WH_FULL_WARP, view.gone)) { /* the pool is next */
                misses = WH_TESSERA_EACH_TRIES;
                if (lane == 0) {
                    wh_store_u32_relaxed(&own_shard->pool_was_empty, 0);
                }
            }
        }
        uint32_t rank = wh_mask_rank(needy); /* among those that have none yet */
        WH_NO_UNROLL
        for (wh_mask m = wh_ballot(WH_FULL_WARP, grant.bits != 0); m != 0; m &= m - 1) {
            const uint32_t of = wh_mask_leader(m);
            wh_tessera_grant its;
            its.at = wh_shfl_u64(WH_FULL_WARP, grant.at, of);
            its.bits = wh_shfl_u64(WH_FULL_WARP, grant.bits, of);
            if (p == NULL) {
                p = wh_tessera_granted_slot_(g, cls, its, rank);
            }
            rank -= wh_popc64(its.bits);
        }
        wh_tessera_end_take_all_(core, shard, begins);
    }
    return wh_tessera_looked_(attach, v, p, wh_all(WH_FULL_WARP, p != NULL));
}

/* What await and refill cannot do, for lanes of which some are refillers that SEEK, for rare, or
 * STUCK: spans for the former, and all there is for the others. Some may still need a slot then.
 * All lanes of mask, or if that is 0 those that are here; `lanes`: of a full warp the caller's
 * group. attach and v as in wh_tessera_outcome; n is the request of a lane that has no p yet. */
WH_FN_SLOW wh_tessera_outcome wh_tessera_more_(const wh_tessera_core *g,
                                               wh_tessera_shard *own_shard, wh_mask mask,
                                               wh_mask lanes, uint32_t shard, uint32_t c,
                                               uint32_t attach, uint64_t v, void *p, uint64_t n) {
    wh_assert_internal(mask == 0 || wh_tessera_in_mask_(mask));
    const uint32_t refills = attach & WH_TESSERA_REFILLS;
    if (mask != WH_FULL_WARP) {
        if (mask == 0) {
            const wh_mask here = wh_activemask();
            const int slots = (attach & WH_TESSERA_SLOTS) != 0; /* they search in another way */
            mask = wh_ballot(here, slots);
            mask = slots ? mask : here & ~mask;
        }
        lanes = (wh_mask)1 << wh_lane_id();
    }
    wh_tessera_outcome now;
    now.p = p;
    now.v = v;
    now.attach = 0;
    if (wh_any(mask, refills != 0)) {
        now = wh_tessera_attach_all_(g, own_shard, mask, lanes, shard, c, refills, v, p, 1);
    }
    const uint32_t owes = now.attach;
    if (wh_any(mask, owes != 0 || (attach & WH_TESSERA_STUCK) != 0)) {
        now.p = wh_tessera_slow_(g, mask, lanes, shard, c, (attach & WH_TESSERA_SLOTS) == 0,
                                 owes != 0, owes != 0 ? owes - 1 : 0, now.v, now.p);
        now.attach = WH_TESSERA_ENDS;
    }
    /* Behind what others wait for, since a run may have to wait for them (C1). */
    if (wh_any(mask, (attach & WH_TESSERA_RARE) != 0)) {
        now.p =
            wh_tessera_rare_(g, mask, lanes, shard, c, (attach & WH_TESSERA_RARE) != 0, now.p, n);
    }
    now.attach = c == WH_TESSERA_NO_CLASS ? WH_TESSERA_ENDS : now.attach;
    wh_syncwarp(mask); /* that the warp stays together */
    return now;
}

/* For lanes whose cursor's span had no slot for them, *v is what the add of their group returned:
 * slots of the spare span, but for the refiller's group. *attach, *v: as in wh_tessera_outcome. */
WH_FN void *wh_tessera_spare_(wh_tessera_ref h, wh_tessera_cursor *cursor, wh_tessera_class cls,
                              wh_mask mask, wh_group group, int leads, uint32_t *attach,
                              uint64_t *v, void *p) {
    wh_assert_internal(mask == 0 || wh_tessera_in_mask_(mask));
    const int together = mask == WH_FULL_WARP; /* else same is the caller alone */
    const wh_mask needy = together ? wh_ballot(mask, p == NULL) & group.lanes : p == NULL;
    const uint32_t r = wh_popc32(needy);
    uint64_t got = 0;
    if (leads && r != 0) {
        if (wh_tessera_passes_end_(*v, group.n)) {
            *attach = 1;
        } else if (!wh_tessera_is_over_(*v)) {
            got = WH_PLANT(tessera_p2_spare, wh_fetch_add_u64_acquire, wh_fetch_add_u64_relaxed)(
                &cursor->spare, r * WH_TESSERA_POSITION); /* P2, I1 */
            *attach = wh_tessera_passes_end_(got, r) ? 2 : 0;
            *v = got;
        }
    }
    got = together ? wh_shfl_u64(mask, got, group.leader) : got;
    const uint32_t rank = together ? wh_mask_rank(needy) : 0;
    return p != NULL ? p : wh_tessera_nth_(h.base, h.max_slot, cls, got, rank);
}

/* What malloc does not find at once. Lanes that have what they want come along with the others, so
 * that their warp stays together. A function of its own, though that is another call: what is kept
 * from one turn to the next would else be in memory whenever malloc is called (docs). */
WH_FN_LINKED(void *, wh_tessera_ask_,
             (const wh_tessera_core *g, wh_tessera_shard *own_shard, wh_mask mask, wh_mask lanes,
              uint32_t shard, uint32_t c, uint32_t attach, uint64_t v, void *p, uint64_t n)) {
    wh_assert_internal(mask == 0 || wh_tessera_in_mask_(mask));
    wh_assert_internal(c < g->n_classes || c == WH_TESSERA_NO_CLASS);
    const uint32_t slots = attach & WH_TESSERA_SLOTS;
    attach &= ~WH_TESSERA_SLOTS;
    while (WH_TESSERA_SOME(mask, (p == NULL && n != 0) || attach != 0)) {
        const wh_tessera_outcome now =
            !WH_TESSERA_SOME(mask, attach != 0)
                ? wh_tessera_await_(g, own_shard, mask, lanes, c, v, p)
            : WH_TESSERA_SOME(mask, wh_tessera_is_refiller_(attach))
                ? (lanes == WH_FULL_WARP && mask == WH_FULL_WARP
                       ? wh_tessera_refill_one_(g, own_shard, shard, c, attach, v, p)
                   : mask == WH_FULL_WARP
                       ? wh_tessera_refill_warp_(g, own_shard, lanes, shard, c, attach, v, p)
                       : wh_tessera_refill_each_(g, own_shard, shard, c, attach, v, p))
            : WH_TESSERA_SOME(mask, wh_tessera_looks_(attach))
                ? (lanes == WH_FULL_WARP && mask == WH_FULL_WARP
                       ? wh_tessera_partial_warp_(g, own_shard, shard, c, attach, v, p)
                   : mask == WH_FULL_WARP
                       ? wh_tessera_partial_groups_(g, own_shard, lanes, shard, c, attach, v, p)
                       : wh_tessera_partial_each_(g, own_shard, shard, c, attach, v, p))
                : wh_tessera_more_(g, own_shard, mask, lanes, shard, c, attach | slots, v, p, n);
        p = now.p;
        v = now.v;
        attach = now.attach;
        if (attach == WH_TESSERA_ENDS) {
            attach = 0;
            n = 0;
            c = WH_TESSERA_NO_CLASS;
        }
    }
    if (g->tracks) {
        wh_tessera_count_mallocs_(g, mask, p);
    }
    return p;
}

/* The lanes of a full warp ask in groups of one class. Those of a part of one each ask for
 * themselves, as they can only tell each other by shuffles (simt/cuda.h), which take longer than
 * the atomics that they would save. Then all of mask go on together, also those that have what they
 * want: a lane that allocates for others may not be left by them (warpheap.h). If mask is 0 those
 * do that happen to be here, where that helps. may_pack: a constant; else the block is a slot, or a
 * run, but in no case one of a pack. */
WH_FN void *wh_tessera_malloc_(wh_tessera_ref h, wh_mask mask, size_t n, int may_pack) {
    const int is_slot = (uint64_t)n >> 32 == 0 && (uint32_t)n - 1 < h.max_slot; /* not so for 0 */
    const uint32_t c = is_slot ? wh_tessera_class_of((uint32_t)n) : WH_TESSERA_NO_CLASS;
    const int together = mask == WH_FULL_WARP;
    const wh_group group = together ? wh_group_by_u32(mask, c) : wh_group_alone();
    const uint32_t shard = wh_tessera_my_shard_(h);
    const int full_warp = may_pack && together && !h.tracks;
    const int warp_slab = together && group.n == 32 && (h.warp_slabs >> c & 1) != 0;
    const wh_tessera_class cls = h.classes[c];
    wh_tessera_shard *const own_shard = wh_tessera_nth_shard_(h.shards, shard);
    uint64_t v = 0;
    void *p = NULL;
    int leads = 0;
    int of_one = 0; /* a full warp of one class that packs serve */
    if (!warp_slab) {
        const int exact = (h.exact >> c & 1) != 0, same_class = group.n == WH_WARP_SIZE;
        int done = 0;
        if (full_warp && (!same_class || exact)) {
            const int packs =
                is_slot && (uint32_t)n <= h.pack_most && (group.n < WH_TESSERA_PACK_LANES || exact);
            const int large = packs && (uint32_t)n > h.pack_above;
            of_one = same_class; /* gets blocks, or none */
            done = of_one;
            if (wh_any(mask, large)) {
                const uint32_t need = packs ? wh_tessera_granules((uint32_t)n, h.chunk_log2) : 0;
                p = wh_tessera_pack_(h.core, h.max_slot, h.tags, h.words, h.words_log2, own_shard,
                                     shard, need, large);
                done = same_class || wh_all(mask, p != NULL); /* n = 0 takes what follows along */
            }
        }
        if (!done) {
            leads = is_slot && p == NULL && wh_group_leads(group);
            if (leads) {
                v = WH_PLANT(tessera_p2_claim, wh_fetch_add_u64_acquire, wh_fetch_add_u64_relaxed)(
                    &own_shard->cursors[c].span, group.n * WH_TESSERA_POSITION); /* P2, I1 */
            }
            void *q =
                wh_tessera_nth_(h.base, h.max_slot, cls,
                                together ? wh_shfl_u64(mask, v, group.leader) : v, group.rank);
            p = p != NULL ? p : q;
        }
    } else {
        p = wh_tessera_warp_slab_(h, own_shard, shard, c, wh_tessera_warp_slab_log2_((uint32_t)n));
    }
    if (WH_TESSERA_SOME(mask, p == NULL || h.tracks)) { /* n = 0, too, which is seldom */
        uint32_t attach = 0;
        if (!warp_slab && !of_one && (!full_warp || wh_any(mask, p == NULL && is_slot))) {
            p = wh_tessera_spare_(h, &own_shard->cursors[c], cls, mask, group, leads, &attach, &v,
                                  p);
        }
        if (WH_TESSERA_SOME(mask, (p == NULL && n != 0) || attach != 0 || h.tracks)) {
            const int packs = full_warp && group.n < WH_TESSERA_PACK_LANES && is_slot &&
                              (uint32_t)n > h.pack_above && (uint32_t)n <= h.pack_most &&
                              p == NULL && attach == 0;
            attach |= warp_slab || of_one || packs || (!is_slot && n != 0) ? WH_TESSERA_RARE : 0;
            attach |= !may_pack ? WH_TESSERA_SLOTS : 0;
            p = wh_tessera_ask_(wh_tessera_core_of_(h), own_shard, mask, group.lanes, shard, c,
                                attach, v, p, n);
        }
    }
    if (mask != 0) { /* P2 reaches the lanes that did not make the atomic themselves */
        WH_PLANT(tessera_p2_lanes, wh_syncwarp(mask), (void)0);
    }
    return p;
}

WH_FN void *wh_tessera_malloc(wh_tessera_ref h, wh_mask mask, size_t n) {
    wh_assert(mask == 0 || wh_tessera_in_mask_(mask));
    return mask == WH_FULL_WARP ? wh_tessera_malloc_(h, WH_FULL_WARP, n, 1) /* it is a constant */
                                : wh_tessera_malloc_(h, mask, n, 1);
}

/* A slot of 2^k bytes lies at a multiple of 2^k, as slabs and chunks do. */
WH_FN void *wh_tessera_aligned(wh_tessera_ref h, wh_mask mask, size_t align, size_t n) {
    wh_assert(wh_tessera_in_mask_(mask));
    wh_assert(wh_is_pow2(align));
    const uint64_t size = n == 0 || n > align ? n : align;
    const int is_slot = size - 1 < h.max_slot;
    const uint64_t slot = is_slot ? (uint64_t)1 << wh_log2_ceil(size) : 0;
    void *p = wh_tessera_malloc_(h, mask, (size_t)slot, 0);
    const int is_run = n != 0 && !is_slot;
    if (wh_any(mask, is_run)) {
        void *q = wh_tessera_run_(wh_tessera_core_of_(h), mask, wh_tessera_my_shard_(h),
                                  is_run ? n : 0, align);
        p = is_run ? q : p;
        if (h.tracks) {
            wh_tessera_count_mallocs_(wh_tessera_core_of_(h), mask, q);
        }
    }
    wh_syncwarp(mask);
    return p;
}

/* together: a constant; all lanes of the warp call, in groups of one word. Else each lane for
 * itself. */
WH_FN void wh_tessera_free_(wh_tessera_ref h, int together, void *p) {
    const uint64_t offset = (uint64_t)((unsigned char *)p - h.base);
    const int inside = offset < h.bytes; /* not so for NULL */
    const uint32_t chunk = inside ? (uint32_t)(offset >> h.chunk_log2) : 0;
    const uint64_t tag = wh_load_u64_relaxed(&h.tags[chunk]); /* I3 */
    const uint32_t order = wh_tessera_tag_order(tag);
    uint32_t first = chunk & (~0u << order);
    uint32_t slot = wh_tessera_tag_slot(tag, (uint32_t)offset & ~(~0u << (order + h.chunk_log2)));
    /* else: a run, or no block starts here */
    uint32_t slots = wh_tessera_slab_slots(tag, h.chunk_log2); /* kept: saves registers */
    int is_slot = inside & (wh_tessera_kind(tag) == WH_TESSERA_SLAB) & (slot < slots);
    if (wh_tessera_is_pack(tag)) {
        slots = wh_tessera_pack_slots(tag);
        first = chunk - wh_tessera_pack_at(tag);
        slot = wh_tessera_pack_slot(tag, (uint32_t)offset, h.chunk_log2);
        is_slot = inside & (slot != UINT32_MAX);
    }
    const uint32_t word = is_slot ? (first << h.words_log2) + (slot >> 6) : UINT32_MAX;
    uint64_t bits = (uint64_t)1 << (slot & 63);
    uint32_t twice = 0;
    wh_group group = wh_group_alone();
    if (together) {
        wh_syncwarp(WH_FULL_WARP); /* every lane's last use comes before its leader's release */
        group = wh_group_in_words(WH_FULL_WARP, word, slot, is_slot, &bits, &twice);
    }
    if (is_slot) {
        if (wh_group_leads(group)) {
            const uint32_t slab = word >> h.words_log2;
            const uint64_t tag_again = wh_again_u64(tag); /* above 32 registers fewer warps fit */
            const uint64_t tail = wh_tessera_tail_bits(slots, slot >> 6);
            const uint64_t freed = wh_tessera_with_tail(bits, tail);
            /* P1. A group that frees all slots of a slab has nobody to hear from, and what it says
             * itself goes with the pool's word (P3), if the slab is its own at once (I4): not if
             * one of them was free. */
            uint64_t old = 1;
            if (together && freed == WH_TESSERA_ALL_FREE && slots <= 64) {
                old = wh_cas_u64_relaxed(&h.words[word], 0, WH_TESSERA_ALL_FREE);
            }
            if (old != 0) {
                old = WH_PLANT(tessera_p1_free, wh_fetch_or_u64_acq_rel,
                               wh_fetch_or_u64_relaxed)(&h.words[word], freed);
            }
            const uint32_t shard = wh_tessera_my_shard_(h);
            int any = 1; /* slots that were not free before */
            if ((wh_low_u32(bits & old) | wh_high_u32(bits & old) | twice) != 0) {
                wh_tessera_bad_free_(h.core, shard, twice + wh_popc64(bits & old));
                any = (bits & ~old) != 0;
            }
            if (any) {
                wh_tessera_freed_(h.core, (uint32_t *)(void *)(h.tags + h.core.n_chunks), shard,
                                  slab, tag_again, slots, (old & ~tail) == 0,
                                  (old | freed) == WH_TESSERA_ALL_FREE, !together);
            }
            if (h.tracks) {
                wh_tessera_count_frees_(wh_tessera_core_of_(h), (uint64_t)wh_popc64(bits & ~old) *
                                                                    wh_tessera_tag_size(tag));
            }
        }
    } else if (p != NULL) {
        wh_tessera_free_run_(wh_tessera_core_of_(h), wh_tessera_my_shard_(h), offset);
    }
}

WH_FN void wh_tessera_free(wh_tessera_ref h, wh_mask mask, void *p) {
    wh_assert(mask == 0 || wh_tessera_in_mask_(mask));
    if (mask == WH_FULL_WARP) {
        wh_tessera_free_(h, 1, p);
    } else {
        wh_tessera_free_(h, 0, p);
    }
}

WH_FN uint64_t wh_tessera_usable_size(wh_tessera_ref h, const void *p) {
    const uint64_t offset = (uint64_t)((const unsigned char *)p - h.base);
    if (offset >= h.bytes) {
        return 0;
    }
    const uint32_t chunk = (uint32_t)(offset >> h.chunk_log2);
    const uint64_t tag = wh_load_u64_relaxed(&h.tags[chunk]); /* I3 */
    if (wh_tessera_is_pack(tag)) {
        const uint32_t slot = wh_tessera_pack_slot(tag, (uint32_t)offset, h.chunk_log2);
        const uint32_t pack = chunk - wh_tessera_pack_at(tag);
        const uint32_t fit =
            slot == UINT32_MAX
                ? 0
                : wh_tessera_pack_fit_(h.core, pack, wh_load_u64_relaxed(&h.tags[pack]), 1u << slot,
                                       0);
        return (uint64_t)WH_TESSERA_FIT_LENGTH(fit) << wh_tessera_granule_log2(h.chunk_log2);
    }
    return wh_tessera_block_bytes_(h.chunk_log2, &h.tags[chunk]);
}

WH_FN int wh_tessera_owns(wh_tessera_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.base) < h.bytes;
}

#define wh_tessera_NAME "tessera"
#define wh_tessera_MAX_ALIGN (2u << 20)
#define wh_tessera_BLOCKS 6
#define wh_tessera_EACH 1

#include "warpheap/detail/simt/end.h"

#include "warpheap/detail/alloc/tessera/inspect.h"
#include "warpheap/detail/alloc/tessera/left.h"

#endif
