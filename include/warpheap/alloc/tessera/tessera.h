/* alloc/tessera: a general heap. docs/TESSERA.md explains it with figures; layout.h has
 * the structures, the size classes and the packed words; inspect.h looks inside.
 *
 * Terms
 *   chunk    16 KiB; memory changes hands between classes and runs by the chunk
 *   pool     set of free chunks (core/veb.h)
 *   slab     2^order chunks in a row, aligned, split into slots of one class
 *   slot     what malloc returns for up to one chunk
 *   word     64 bits: the free slots of (a part of) a slab. 1 = free
 *   span     slabs in a row whose slots a cursor hands out in order
 *   cursor   per class and set of SMs: two words {first chunk, slots, position}, a span
 *            and a spare one
 *   list     per class: the slabs that have free slots in their words (core/veb.h)
 *   run      chunks in a row, for a request of more than one chunk
 *   pack     up to 16 chunks in a row that a full warp has cut into blocks of the different
 *            sizes its lanes wanted; else like a slab of one word, a slot each
 *
 * The idea  A slot of a fresh slab is handed out by the position of a cursor alone: one
 * fetch_add returns the place and the number together, nothing else is touched. Every
 * cursor has a span from the start, in the front of the heap (layout.h). Whoever passes
 * its end attaches the next one; meanwhile the others take from the spare span, so that
 * they seldom wait. A freed slot is a bit in its slab's word. A slab all of whose slots
 * are free goes back to the pool. Slots of slabs that do not get that far are found
 * through the lists once the pool has nothing for a class. Lanes of a full warp that want
 * different sizes of more than a 16th of a chunk would each have to wait for a cursor: they
 * have chunks cut for them instead, and wait for nobody.
 *
 * Fields and who writes them (all device scope)
 *   span, spare
 *            malloc: fetch_add of the position, acquire. The crosser (C1): store release.
 *            detach: cas to CLOSED. reopen: cas from CLOSED (span: to UNDER_WAY; spare: to
 *            VACANT)
 *   word     free, and whoever gives slots back: fetch_or acq_rel. A taker: cas acq_rel, in a slab
 *            of several words fetch_and acq_rel between enter and leave (I5). Set to 0, or in
 *            the pool to all ones (I2), by the owner of a whole slab.
 *   state    of a slab of several words: how many words are not full, and how many takers are at
 *            work. SHUT: none, or the chunk is no slab of several words. The free that makes a word
 *            full: sub. A taker: cas, then add. The owner of a claimed chunk: store (P7)
 *   tag      class, order, slot size of a slab, on each of its chunks: stored by the
 *            owner of a claimed chunk before P2 publishes it
 *   pool     claimed by mask, inserted by the owner of a whole slab or run
 *   list     where searches look first (I6): by or, acquire; takers take slabs off by and
 *   no_places, held, dry, scarce, place, tries, reuse, packs, no_packs, told
 *            hints, relaxed: full warps found no slabs; chunks of the spans of a set's
 *            cursors, first spans apart; the pool had no span; the set's own words of it
 *            had none; which of these is next; how often lists were preferred; slabs with free
 *            slots, a word for every eighth warp; where the next pack may be; how many more not
 *            to ask for; what had been freed when NULL was returned
 *   run_lock exchange acquire, by a lane whose warp may close cursors for a run, or set a
 *            verdict of runs; store release. run_news: relaxed, how often that has been done
 *   begun, done   per set, bracket whatever takes memory: from the pool, a list, a pack. attached:
 *            spans published, per set. events, frees: memory has become available in the pool
 *            or in a slab, per set
 *   asked    requests that wanted to know whether there is anything: fetch_add acq_rel, which
 *            gives each its number. wanted: a hint, of which classes: or, relaxed, before that;
 *            who has search_lock: and
 *   search_lock   exchange acquire, by a lane whose warp searches for all; store release. Others
 *            look at it, relaxed, and take nothing meanwhile
 *   verdict  per class, the events and frees at which a full search found nothing; answered: the
 *            requests (below that number) that have been asked before it began; those who do
 *            not want a block of a pack have verdicts of their own. Stored, release, by who has
 *            search_lock
 *   used, peak
 *            with track_peak: malloc adds after it has its blocks, free subtracts after it
 *            has given them back, relaxed; peak: fetch_max of what the adds made of used. So
 *            peak is the most that used has been, and used counts each block from malloc to
 *            the return of its free
 *
 * Invariants
 *   I1  a slot is in exactly one hand: a caller's, a cursor's (position <= slot), a 1 in
 *       its word, or with the whole slab in the pool or in transit
 *   I2  a chunk in the pool belongs to nobody: its words past the first are zero; its
 *       first is zero, or all ones if it last was the first of a slab of one word; its state is
 *       SHUT; its tag is not of a slab of several words, so that a double free finds no slab
 *   I3  the tag of a chunk does not change while any of its slots is in a caller's hand.
 *       So free may trust it, whatever order its load has
 *   I4  slab of one word: nobody takes from a word that is all ones. So whoever makes it so
 *       owns the slab and returns it, without another atomic. The bits past the last slot
 *       go with slot 0: they are free and taken together. So all ones is all free whatever
 *       class a taker believes the slab to be of, and in a fresh slab no bit is there to take
 *   I5  slab of several words: whose atomic makes its state SHUT (all words full, no takers)
 *       owns the slab and returns it, without another atomic. A taker enters by a cas from a
 *       state that is not SHUT, so from then on nobody changes it. A word counts as not full
 *       when its taker leaves, as full when its free has counted it: so without takers no more
 *       words count as full than are. SHUT is the same for all classes, as a taker may enter
 *       with the tag of an earlier life
 *   I6  when quiet, a slab with a word that is not zero nor I4's full is listed, a pack on a list
 *       of its own: by the free that made it non-zero, or the taker that took the slab off the
 *       list. Before that a search may miss it, though the free has returned, but not X1's
 *   I7  done = begun when quiet
 *   I8  held = the chunks of what the set's cursors have in them, when quiet
 *   I9  pack: its slots are its blocks in the order of their addresses, without a gap; the tags
 *       of its chunks say where they start, all before the first malloc of it returns, and then
 *       stay (I3). Its word is like one of a slab of as many slots (I4, T1)
 *
 *   C1  crosser: the add that passes the last slot of a span, from at or before it. One
 *       per published span, since positions only grow; it alone stores the word's next
 *       value. Positions do not overflow: who finds one MOST_OVER past the end adds to neither
 *       word of the cursor until that one has changed (wh_tessera_is_over_)
 *
 *   T1  claim, then validate: a taker of a one-word slab reads the tag again after its
 *       cas. What it holds pins the slab (I3). If the slab has meanwhile been another
 *       class's, it gives back the bits it took, which may be some of those past the last slot;
 *       slot 0 is not to be had meanwhile. It sees the new tag, since a bit that it took from a
 *       word that was 0 when the tag was stored has been freed since (P1). A taker of a pack's
 *       block then looks again where that slot's block lies, and whether it is large enough
 *   X1  exact out-of-memory: NULL only if one warp, which has search_lock, has seen, in this
 *       order, that (1) begun = done, for takes of all classes, since a taker of any may hold
 *       a slot of this one for a while (T1) or keep a slab from going back (I5); (2) every
 *       cursor was used up or has been closed; (3) no word of a slab of the class had a free
 *       slot, nor a pack a free block of the class's largest request, if that is more than a
 *       16th of a chunk and the caller takes blocks of packs, and (4) the pool was empty on its
 *       lowest level; and then begun and attached are the same as before and no cursor is
 *       between two spans. Without a take, what is available in (3) and (4) only grows or moves
 *       from a slab to the pool, so what was there after (2) would have been seen. A slab on that
 *       move counts as free: full and not in the pool, or SHUT. A span that is claimed without a
 *       bracket leaves its cursor between two spans meanwhile, which (2) and the last look
 *       see
 *   X2  a verdict holds while no events come: every free that has returned has counted one
 *   X3  a verdict holds for all who had asked before its search began, whatever has been freed
 *       since: at one moment of their calls there was nothing for them. A search looks at the
 *       classes of all who had asked, so one answers all who wait
 *
 * Ordering pairs
 *   P1  free: fetch_or on the word, release -> the word's taker (cas), or the lane that
 *       made it full (fetch_or), acquire; several words: through the state, acq_rel
 *   P2  span published: store release -> malloc: fetch_add acquire
 *   P3  slab or run returned: pool insert -> claim (core/veb.h P1), also by way of a claim that
 *       is put back. With P1 and P2: what the old owner of a slot wrote happens before the
 *       new owner's use.
 *   P4  begun is raised before the take: by its release, or because whether and where to
 *       take depends on what the add returned, or by the release that publishes a span, behind
 *       which the rest of a claim is put back; done after it, release -> a search that saw the
 *       take's effect sees begun
 *   P5  list: what level 0 has is there before the levels above are told (core/veb.h P2)
 *   P6  what has become available is there before the event that tells of it is counted: the
 *       word's fetch_or and the pool's insert are acquire, so the add comes after them. A
 *       verdict that knows the event (X2) has searched with it, since it reads events first. A lane
 *       that counts for others of its warp does so between two syncs with them: behind their
 *       fetch_or, and before they return
 *   P7  a slab's tag is there before bits of it that nobody has freed may be taken (store release
 *       of the word), or takers be let in (a fence before its state loses SHUT) -> the taker's
 *       atomic on either, acquire, before it reads the tag (T1, I5)
 *   P8  a request gets its number behind the caller's last free (and those of the lanes that it
 *       asks with: a sync), acq_rel -> the search reads asked by an atomic, acq_rel, before it
 *       looks at anything: what a request with a lower number has freed, it sees. Its verdict,
 *       store release -> who asks, acquire
 *
 * Progress  malloc: one fetch_add on the fast path. A lane waits only for the crossers of
 *       its cursor (which wait for nobody: their search of the pool is bounded; a lane of a part of
 *       a warp may wait for one of its own warp, as lanes that have parted go on independently
 *       on sm_70 and later), and while a warp searches for all (X1), for that. The search waits for
 *       takes under way, which end by themselves, a bounded number of times, so it ends: with
 *       verdicts, or since there was something, or since a take came in between. New takes do not
 *       begin meanwhile, but for those that had looked at the lock before. So a lane that asks is
 *       told NULL by the search after the one under way, or finds something, or others have taken
 *       something. Lists, pool: lock-free. A run: its warp searches the pool
 *       without the lock, again only if another take got part of the row it had found.
 *       While one warp has the lock the others look at it; it waits for nobody. A pack: a bounded
 *       number of claims. A block of one: again only if its word has changed under the taker.
 * Cost  malloc: 1 atomic per group of lanes with one class, if the whole warp calls, else 1
 *       a lane; 1 more while the span of the
 *       cursor has no slots; about ten more for the crosser. A full warp of one class of
 *       2^k >= 512 bytes takes a slab of its own from the pool: 2 atomics, never waits.
 *       Lanes of a full warp that want different sizes of 1 to 8 KiB (in chunks of 16) get a pack:
 *       2 atomics for all of them, and never wait.
 *       free: 1 load and 1 atomic per group of lanes with one word (likewise), 1 more by the
 *       group that makes the word full; and up to two that nobody waits for.
 *       Run: 4 tries at places from the back of the heap, else a search of the lowest level
 *       of the pool, a word a lane.
 *       NULL: a look at all tags and words of slabs of the class by the lanes of the warp
 *       together; then one warp looks at all there is for all, unless a verdict holds.
 * Check tests/conform, tests/stress, tests/unit/tessera_layout.c, tessera_warps.c (C1: no
 *       word overflows; full warps; late takers), tessera_packs.c (I9, X1 of packs),
 *       tessera_full.c (what NULL costs: X3, progress),
 *       tests/fault/tessera.c (I1, I4 to I6, T1, X1 to X3, P1, P2, P4, P7 of words);
 *       wh_tessera_check (I1 to I9). P3 and P5 are core/veb.h's. No test finds P6, P8 and P7 of
 *       states when they are broken on purpose.
 */
#ifndef WH_ALLOC_TESSERA_H
#define WH_ALLOC_TESSERA_H

#include "warpheap/alloc/contract.h"
#include "warpheap/alloc/tessera/layout.h"
#include "warpheap/core/group.h"
#include "warpheap/core/sizeclass.h"
#include "warpheap/core/veb.h"

/* --- small steps ----------------------------------------------------------------- */

/* Brackets a take from the pool: P4. Returns a number that grows with each. */
WH_FN uint32_t wh_tessera_begin_(wh_tessera_core g, uint32_t set) {
    return wh_fetch_add_u32_relaxed(&wh_tessera_set_at_(g, set)->begun, 1);
}
WH_FN void wh_tessera_end_(wh_tessera_core g, uint32_t set) {
    wh_add_u32_release(&wh_tessera_set_at_(g, set)->done, 1);
}

WH_FN void wh_tessera_bad_free_(wh_tessera_core g, uint32_t set, uint32_t n) {
    wh_add_u64_relaxed(&wh_tessera_set_at_(g, set)->bad_frees, n);
}

/* Whether a set may have members: the top word of its tree. An insert under way may not have
 * got there yet. */
WH_FN int wh_tessera_any_(wh_veb t) {
    return wh_load_u64_acquire(wh_veb_word(t, wh_veb_words(t.n) - 1)) != 0;
}

/* Whether a set has members: all of level 0. All lanes of mask, eight words each at a time. What
 * they find they tell the levels above, since claims and puts that do not may have hidden it from
 * searches. */
WH_FN int wh_tessera_holds_(wh_veb t, wh_mask_t mask) {
    const uint64_t n = (t.n + 63) >> 6;
    const uint32_t rank = wh_mask_rank(mask), lanes = wh_popc32(mask);
    WH_NO_UNROLL
    for (uint64_t first = 0; first < n; first += 8 * lanes) {
        uint64_t seen = 0;
        for (uint32_t k = 0; k < 8; k++) {
            const uint64_t w = first + k * lanes + rank;
            seen |= wh_load_u64_relaxed(wh_veb_word(t, w < n ? w : n - 1));
        }
        if (wh_any(mask, seen != 0)) {
            for (uint32_t k = 0; k < 8 && seen != 0; k++) {
                const uint64_t w = first + k * lanes + rank;
                if (w < n && wh_load_u64_relaxed(wh_veb_word(t, w)) != 0) {
                    wh_veb_filled(t, w);
                }
            }
            return 1;
        }
    }
    wh_fence();
    return 0;
}

/* n chunks from `chunk`, or 2^order, as a mask of a word of the pool. */
WH_HD uint64_t wh_tessera_n_chunks_(uint32_t chunk, uint32_t n) {
    return ~wh_ones_from_u64(n) << (chunk & 63);
}
WH_HD uint64_t wh_tessera_chunks_(uint32_t chunk, uint32_t order) {
    return wh_tessera_n_chunks_(chunk, 1u << order);
}

/* P3, X2 */
WH_FN void wh_tessera_put_chunks_(wh_tessera_core g, uint32_t set, uint32_t chunk, uint32_t n) {
    (void)wh_veb_insert_mask(wh_tessera_pool_(g), chunk >> 6, wh_tessera_n_chunks_(chunk, n));
    wh_add_u32_relaxed(&wh_tessera_set_at_(g, set)->events, 1); /* P6 */
}

/* 1 if all n chunks from `chunk`, in one word of the pool, were free and are now the caller's. */
WH_FN int wh_tessera_claim_n_(wh_tessera_core g, uint32_t chunk, uint32_t n) {
    const uint64_t mask = wh_tessera_n_chunks_(chunk, n);
    const uint64_t got = wh_veb_claim_mask(wh_tessera_pool_(g), chunk >> 6, mask);
    if (got != mask && got != 0) {
        wh_veb_put_back(wh_tessera_pool_(g), chunk >> 6, got);
    }
    return got == mask;
}

/* Where a set looks for 2^order chunks the ticket-th time: sets side by side, so that the
 * used part of the heap stays dense and no two sets look at the same place. n_chunks: there
 * is no such place. */
WH_HD uint32_t wh_tessera_place_(uint32_t n_chunks, uint32_t n_sets, uint32_t set, uint32_t ticket,
                                 uint32_t order) {
    const uint32_t rounds = (n_chunks >> order) / n_sets;
    return rounds == 0 ? n_chunks : (ticket % rounds * n_sets + set) << order;
}

/* The bits at which n set ones in a row begin; n > 0. */
WH_HD uint64_t wh_tessera_rows_(uint64_t bits, uint32_t n) {
    WH_NO_UNROLL
    for (; n > 1; n -= n >> 1) {
        bits &= bits >> (n >> 1);
    }
    return bits;
}

/* First bit of the lowest aligned run of 2^order set bits; 64: none. */
WH_HD uint32_t wh_tessera_fit_(uint64_t bits, uint32_t order) {
    uint64_t multiples = 1; /* of 2^order */
    WH_NO_UNROLL
    for (uint32_t length = 32; length >> order != 0; length >>= 1) {
        multiples |= multiples << length;
    }
    WH_NO_UNROLL
    for (uint32_t length = 1; length >> order == 0; length <<= 1) {
        bits &= bits >> length;
    }
    bits &= multiples;
    return bits == 0 ? 64 : wh_ctz64(bits);
}

/* I6. Only who finds the list's word empty tells the levels above: these are one word for 4,096
 * slabs, and a million frees that all tell it take turns. */
WH_FN void wh_tessera_list_slab_(wh_tessera_core g, uint32_t c, uint32_t slab) {
    const wh_veb list = wh_tessera_list_(g, c);
    const uint32_t item = wh_tessera_item(g.n_chunks, slab);
    if (wh_fetch_or_u64_relaxed(wh_veb_word(list, item >> 6), (uint64_t)1 << (item & 63)) == 0) {
        wh_veb_filled(list, item >> 6); /* P5 */
    }
}

/* --- giving back ----------------------------------------------------------------- */

/* I5: the caller's atomic has shut this slab of several words, a chunk, with so many slots: it goes
 * back to the pool. */
WH_FN void wh_tessera_shut_(wh_tessera_core g, uint32_t set, uint32_t slab, uint32_t slots) {
    uint64_t *words = wh_tessera_words_of_(g, slab);
    wh_store_u64_relaxed(wh_tessera_tag_at_(g, slab), WH_TESSERA_FREE); /* I2 */
    WH_NO_UNROLL
    for (uint32_t k = 0; 64 * k < slots; k++) {
        wh_store_u64_relaxed(&words[k], 0); /* I2 */
    }
    wh_tessera_put_chunks_(g, set, slab, 1);
}

/* A taker enters a slab of several words, if that is what is there. 0: it is shut. I5 */
WH_FN int wh_tessera_enter_(wh_tessera_core g, uint32_t slab) {
    uint32_t *at = wh_tessera_state_at_(g, slab);
    uint32_t state = wh_load_u32_relaxed(at);
    while (WH_PLANT(tessera_i5, state != WH_TESSERA_SHUT, 1)) {
        const uint32_t seen = WH_PLANT(tessera_p7_enter, wh_cas_u32_acq_rel, wh_cas_u32_relaxed)(
            at, state, state + WH_TESSERA_TAKER); /* P7 */
        if (seen == state) {
            return 1;
        }
        state = seen;
    }
    return 0;
}

/* It leaves, and has taken the first slot of `opened` words (1 or 0). I5: a free that saw it has
 * left the slab to it. */
WH_FN void wh_tessera_leave_(wh_tessera_core g, uint32_t set, uint32_t slab, uint32_t opened) {
    const uint64_t tag = wh_load_u64_acquire(wh_tessera_tag_at_(g, slab)); /* it stays, till then */
    const uint32_t change = opened * WH_TESSERA_OPEN - WH_TESSERA_TAKER;
    const uint32_t state =
        WH_PLANT(tessera_p1_leave, wh_fetch_add_u32_acq_rel,
                 wh_fetch_add_u32_relaxed)(wh_tessera_state_at_(g, slab), change); /* P1 */
    if (state + change == WH_TESSERA_SHUT) {
        wh_tessera_shut_(g, set, slab, wh_tessera_tag_slots(tag, g.chunk_log2));
    }
}

/* What follows a fetch_or that freed slots of a slab's word: `first` if none of its slots was free
 * before (bits past the last slot do not count: T1), full if all bits are 1 now. The slab goes back
 * to the pool, or is listed. Who is not the first does not wait for the first to list it, since the
 * words are what counts (X1). each, a constant: the lanes of a part of a warp, each for itself. */
WH_FN void wh_tessera_freed_(wh_tessera_core g, uint32_t set, uint32_t slab, uint64_t tag,
                             uint32_t slots, int first, int full, int each) {
    if (full && slots <= 64) { /* I4 */
        wh_tessera_put_chunks_(g, set, slab, wh_tessera_tag_chunks(tag));
        return;
    }
    if (full) {
        const uint32_t state =
            WH_PLANT(tessera_p1_state, wh_fetch_add_u32_acq_rel, wh_fetch_add_u32_relaxed)(
                wh_tessera_state_at_(g, slab), 0 - WH_TESSERA_OPEN); /* P1 */
        if (state - WH_TESSERA_OPEN == WH_TESSERA_SHUT) {            /* I5 */
            wh_tessera_shut_(g, set, slab, slots);
            return;
        }
    }
    if (first) { /* I6 */
        wh_tessera_list_slab_(g, wh_tessera_tag_list(g, tag), slab);
    }
    uint32_t *frees = &wh_tessera_set_at_(g, set)->frees;
    if (!each) {
        WH_PLANT(tessera_x2_free, wh_add_u32_relaxed(frees, 1), (void)0); /* X2, P6 */
    } else { /* once for all who are here */
        const wh_mask_t here = wh_activemask();
        wh_syncwarp(here); /* P6 for what the others have freed */
        if (wh_lane_id() == wh_mask_leader(here)) {
            WH_PLANT(tessera_x2_free, wh_add_u32_relaxed(frees, 1), (void)0); /* X2, P6 */
        }
        wh_syncwarp(here); /* X2: none returns before */
    }
}

/* Gives bits of word i of a slab back: their slots become free. */
WH_FN_SLOW void wh_tessera_give_(wh_tessera_core g, uint32_t set, uint32_t slab, uint64_t tag,
                                 uint32_t i, uint64_t bits) {
    const uint64_t old = wh_fetch_or_u64_acq_rel(&wh_tessera_words_of_(g, slab)[i], bits); /* P1 */
    const uint32_t slots = wh_tessera_tag_slots(tag, g.chunk_log2);
    wh_tessera_freed_(g, set, slab, tag, slots, (old & ~wh_tessera_past_last(slots)) == 0,
                      (old | bits) == wh_tessera_all_free(slots, i), 0);
}

/* --- what a slow step found ------------------------------------------------------ */

typedef struct wh_tessera_take {
    uint64_t at;   /* bits = 0: a span, the slots from its position on; else word index */
    uint64_t bits; /* slots of that word */
    int crosses;   /* C1: the caller has become the crosser of its cursor */
} wh_tessera_take;

#define WH_TESSERA_WAIT ((uint64_t)0)        /* not now */
#define WH_TESSERA_NOTHING UINT64_MAX        /* not that anybody knows of: X1 */
#define WH_TESSERA_PACKED (UINT64_MAX - 1)   /* not on the list: but maybe in packs */
#define WH_TESSERA_PAUSED (UINT64_MAX - 2)   /* not while others search for all: X3 */
#define WH_TESSERA_BLOCK ((uint64_t)1 << 62) /* with bits: | chunk of a pack << 16 | granule */

WH_FN wh_tessera_take wh_tessera_found_(uint64_t at, uint64_t bits) {
    wh_tessera_take take;
    take.at = at;
    take.bits = bits;
    take.crosses = 0;
    return take;
}

WH_FN int wh_tessera_has_slots_(uint64_t span) {
    return wh_tessera_span_position(span) < wh_tessera_span_slots(span);
}

/* Whether an add would find a slot, or make its caller the crosser. */
WH_FN int wh_tessera_is_open_(uint64_t span) {
    return wh_tessera_span_position(span) <= wh_tessera_span_slots(span) &&
           wh_tessera_span_first(span) != WH_TESSERA_CLOSED_CHUNK;
}

/* C1: whether an add of n that returned `span` makes the caller its crosser. */
WH_FN int wh_tessera_crosses_(uint64_t span, uint32_t n) {
    const uint32_t slots = wh_tessera_span_slots(span);
    const uint32_t position = wh_tessera_span_position(span);
    return wh_tessera_is_open_(span) && position + n > slots;
}

/* A cursor of the set's has `span` now instead of `last`. */
WH_FN void wh_tessera_hold_(wh_tessera_core g, uint32_t set, wh_tessera_class row, uint64_t last,
                            uint64_t span) {
    wh_add_u32_relaxed(&wh_tessera_set_at_(g, set)->held,
                       wh_tessera_chunks_of_(row, g.begin, span) -
                           wh_tessera_chunks_of_(row, g.begin, last));
}

/* --- spans from the pool --------------------------------------------------------- */

/* Claims chunks for a span of up to 2^most chunks, at least 2^least, near the place that
 * `ticket` gives: first chunk | chunks << 32; 0 if a bounded search found none.
 * Between begin and end. */
WH_FN_SLOW uint64_t wh_tessera_claim_span_(wh_tessera_ref g, uint32_t set, uint32_t ticket,
                                           uint32_t most, uint32_t least) {
    const wh_veb pool = wh_tessera_pool_(*g);
    const uint32_t place = wh_tessera_place_(g->n_chunks, g->n_sets, set, ticket, most);
    const uint64_t start = place < g->n_chunks ? place : 0;
    uint64_t x = start;
    int wrapped = 0;
    WH_NO_UNROLL
    for (uint32_t words = 0; words < 16;) {
        x = wh_veb_successor(pool, x);
        if (x == WH_VEB_NONE) {
            if (wrapped) {
                wh_veb_settle(pool, 0);
                return 0;
            }
            wh_veb_settle(pool, start);
            wrapped = 1;
            x = 0;
            continue;
        }
        const uint64_t bits = wh_load_u64_relaxed(wh_veb_word(pool, x >> 6));
        uint32_t order = most, at = 64;
        WH_NO_UNROLL
        for (;; order--) {
            at = wh_tessera_fit_(bits, order);
            if (at < 64 || order == least) {
                break;
            }
        }
        if (at == 64) {
            x = ((x >> 6) + 1) << 6;
            words++;
        } else {
            const uint32_t chunk = (uint32_t)(x & ~(uint64_t)63) + at;
            if (wh_tessera_claim_n_(*g, chunk, 1u << order)) {
                return chunk | (uint64_t)1 << (order + 32);
            }
            words++;
        }
    }
    return 0;
}

/* Claimed chunks get the tag of their new slabs, and words of slabs with no slot free: lane `rank`
 * of `n`. */
WH_FN void wh_tessera_dress_(wh_tessera_core g, uint64_t tag, uint32_t first, uint32_t chunks,
                             uint32_t rank, uint32_t n) {
    uint64_t *const tags = wh_tessera_tag_at_(g, first);
    uint64_t *const words = wh_tessera_words_of_(g, first);
    const uint32_t step = wh_tessera_tag_order(tag) + wh_tessera_words_log2(g.chunk_log2);
    const uint32_t slabs = chunks >> wh_tessera_tag_order(tag);
    uint32_t at = rank;
    WH_NO_UNROLL
    for (; at + 3 * n < chunks; at += 4 * n) { /* a lane alone has all 64 */
        for (uint32_t k = 0; k < 4; k++) {
            wh_store_u64_relaxed(&tags[at + k * n], tag);
        }
    }
    WH_NO_UNROLL
    for (; at < chunks; at += n) {
        wh_store_u64_relaxed(&tags[at], tag);
    }
    WH_NO_UNROLL
    for (uint32_t i = rank; i < slabs; i += n) { /* they may be all ones: I2 */
        wh_store_u64_relaxed(&words[i << step], 0);
    }
    if (wh_tessera_tag_slots(tag, g.chunk_log2) > 64) { /* of one chunk each */
        wh_fence();                                     /* P7 */
        WH_NO_UNROLL
        for (uint32_t i = rank; i < chunks; i += n) {
            wh_store_u32_relaxed(wh_tessera_state_at_(g, first + i), /* P7 */
                                 wh_tessera_fresh_state(wh_tessera_tag_slots(tag, g.chunk_log2)));
        }
    }
}

/* For every lane of mask that has claimed chunks for a span (chunks != 0): all lanes dress them,
 * one span after the other. */
WH_FN void wh_tessera_dress_all_(wh_tessera_core g, wh_mask_t mask, uint64_t tag, uint32_t first,
                                 uint32_t chunks) {
    const uint32_t rank = wh_mask_rank(mask), n = wh_popc32(mask);
    const wh_mask_t spans = wh_ballot(mask, chunks != 0);
    WH_NO_UNROLL
    for (wh_mask_t m = spans; m != 0; m &= m - 1) {
        const uint32_t lane = wh_mask_leader(m);
        wh_tessera_dress_(g, wh_shfl_u64(mask, tag, lane), wh_shfl_u32(mask, first, lane),
                          wh_shfl_u32(mask, chunks, lane), rank, n);
    }
    wh_syncwarp(mask);
}

/* For every lane of mask that has claimed chunks for a span of its class: the span; 0 for the
 * others. */
WH_FN uint64_t wh_tessera_make_span_(wh_tessera_ref g, wh_mask_t mask, uint32_t set, uint32_t c,
                                     uint64_t claim) {
    const uint32_t chunks = (uint32_t)(claim >> 32);
    const uint32_t own = chunks != 0 ? c : 0;
    const wh_tessera_header *header = wh_tessera_header_of_(g);
    const wh_tessera_class row = header->classes[own];
    wh_tessera_dress_all_(*g, mask, wh_tessera_with_set(header->slab_tags[own], set),
                          (uint32_t)claim, chunks);
    return chunks == 0
               ? 0
               : wh_tessera_span((uint32_t)claim, row.slots * (chunks >> wh_tessera_order(row)), 0);
}

/* Word 0 or 1 of a cursor: its span or its spare one. */
WH_FN uint64_t *wh_tessera_word_(wh_tessera_cursor *cursor, uint32_t which) {
    return which == 0 ? &cursor->span : &cursor->spare;
}
WH_FN uint64_t *wh_tessera_span_at_(wh_tessera_core g, uint32_t set, uint32_t c, uint32_t which) {
    return wh_tessera_word_(wh_tessera_cursor_at_(g, set, c), which);
}

/* C1, P2: attaches a span to a cursor of the set `own`, of which the caller takes the first r slots
 * itself; or closes. */
WH_FN void wh_tessera_publish_(wh_tessera_set *own, uint32_t c, uint32_t which, uint64_t span,
                               uint32_t r) {
    const uint32_t slots = wh_tessera_span_slots(span);
    wh_add_u32_relaxed(&own->attached, slots != 0); /* X1 */
    wh_store_u32_relaxed(&own->no_places, 0);
    WH_PLANT(tessera_p2_publish, wh_store_u64_release, wh_store_u64_relaxed)
    (wh_tessera_word_(&own->cursors[c], which),
     span + (r < slots ? r : slots) * WH_TESSERA_POSITION);
}

/* The same with a span of some slots. A cursor that was closed comes back with it: the first word,
 * if it is closed, has the span in place of the caller's, which then waits for a crosser; so does
 * the spare one, if that is. other: what the other word was, not long ago. */
WH_FN void wh_tessera_attach_(wh_tessera_set *own, uint32_t c, uint32_t which, uint64_t span,
                              uint32_t r, uint64_t other) {
    wh_tessera_cursor *cursor = &own->cursors[c];
    int opens = 0;
    if (which == 0) {
        wh_tessera_publish_(own, c, 0, span, r); /* first, since others wait for it */
    }
    if (wh_tessera_span_first(other) == WH_TESSERA_CLOSED_CHUNK) {
        uint64_t *at = wh_tessera_word_(cursor, 1 - which);
        other = wh_load_u64_relaxed(at); /* lanes go on adding to it */
        opens = wh_tessera_span_first(other) == WH_TESSERA_CLOSED_CHUNK &&
                wh_cas_u64_acq_rel(at, other,
                                   which == 0 ? WH_TESSERA_VACANT : WH_TESSERA_UNDER_WAY) == other;
    }
    if (which == 1) {
        wh_tessera_publish_(own, c, opens ? 0 : 1, span, r); /* C1 of that one, too */
        if (opens) {
            wh_store_u64_release(&cursor->spare, WH_TESSERA_VACANT);
        }
    }
}

/* --- slots of listed slabs ------------------------------------------------------- */

/* Where the caller's warp notes what slab of class c it took slots of. */
WH_FN uint32_t *wh_tessera_reuse_at_(wh_tessera_core g, uint32_t set, uint32_t c) {
    return &wh_tessera_cursor_at_(g, set, c)
                ->reuse[(uint32_t)(wh_thread_id() >> 5) % WH_TESSERA_REUSES];
}

/* Takes up to r free slots of a slab of several words, one of these: from one word on, another one
 * for each warp, and of a lane alone some bit, so that takers seldom meet. *opened: it has taken
 * the first slot of that word (I5). Between enter and leave. */
WH_FN wh_tessera_take wh_tessera_take_wide_(wh_tessera_core g, uint32_t slab, uint32_t slots,
                                            uint32_t r, uint32_t *opened) {
    wh_tessera_take take = wh_tessera_found_(WH_TESSERA_WAIT, 0);
    uint64_t *words = wh_tessera_words_of_(g, slab);
    const uint32_t n_words = (slots + 63) >> 6;
    const uint32_t own = (uint32_t)wh_thread_id() * 2654435761u;
    uint32_t k = (own >> 16) % n_words;
    WH_NO_UNROLL
    for (uint32_t i = 0; i < n_words && take.bits == 0; i++) {
        const uint64_t mask = wh_tessera_full_word(slots, k);
        uint64_t w = wh_load_u64_relaxed(&words[k]) & mask;
        WH_NO_UNROLL
        while (take.bits == 0 && w != 0) {
            const uint64_t bits = r == 1 ? (uint64_t)1 << wh_select64(w, (own >> 24) % wh_popc64(w))
                                         : wh_lowest_bits(w, r);
            const uint64_t old = WH_PLANT(tessera_p1_wide, wh_fetch_and_u64_acq_rel,
                                          wh_fetch_and_u64_relaxed)(&words[k], ~bits); /* P1 */
            if ((old & bits) != 0) {
                take = wh_tessera_found_((uint64_t)(words + k - wh_tessera_words_of_(g, 0)),
                                         old & bits);
                *opened = old == wh_tessera_all_free(slots, k);
            }
            w = old & mask & ~bits;
        }
        k = k + 1 < n_words ? k + 1 : 0;
    }
    return take;
}

/* Takes up to r free slots of a slab that is or was on the list of class c; `off`: the caller has
 * taken it off, and it is put back if it may have more. */
WH_FN wh_tessera_take wh_tessera_take_from_(wh_tessera_core g, uint32_t set, uint32_t c,
                                            uint32_t slab, uint32_t r, int off) {
    wh_tessera_take take = wh_tessera_found_(WH_TESSERA_WAIT, 0);
    uint64_t *tag_at = wh_tessera_tag_at_(g, slab);
    const uint64_t tag = wh_load_u64_acquire(tag_at);
    if (wh_tessera_kind(tag) != WH_TESSERA_SLAB || wh_tessera_tag_class(tag) != c ||
        (slab & ((1u << wh_tessera_tag_order(tag)) - 1)) != 0) {
        return take; /* listed in an earlier life */
    }
    const uint32_t slots = wh_tessera_tag_slots(tag, g.chunk_log2);
    const uint64_t past = wh_tessera_past_last(slots);
    uint64_t *word = wh_tessera_words_of_(g, slab);
    uint32_t opened = 0;
    int more = 0; /* slots in it, maybe */
    if (slots > 64) {
        if (!wh_tessera_enter_(g, slab)) {
            return take;
        }
        if (wh_load_u64_acquire(tag_at) == tag) { /* of this life */
            take = wh_tessera_take_wide_(g, slab, slots, r, &opened);
            more = take.bits != 0;
        }
    } else {
        const uint64_t mask = wh_tessera_full_word(slots, 0);
        uint64_t w = wh_load_u64_relaxed(word);
        while (take.bits == 0 && WH_PLANT(tessera_i4, w != ~(uint64_t)0, 1)) {     /* I4 */
            const int has_past = WH_PLANT(tessera_t1_past, (w & past) == past, 1); /* T1 */
            const uint64_t bits = wh_lowest_bits(has_past ? w & mask : w & mask & ~(uint64_t)1, r);
            if (bits == 0) {
                break;
            }
            const uint64_t rest = w & ~wh_tessera_with_past(bits, past);
            const uint64_t seen = wh_cas_u64_acq_rel(word, w, rest); /* P1 */
            if (seen == w) {
                take = wh_tessera_found_((uint64_t)(word - wh_tessera_words_of_(g, 0)), bits);
                w = rest;
            } else {
                w = seen;
            }
        }
        more = w != ~(uint64_t)0 && (w & mask) != 0;
    }
    if (off && WH_PLANT(tessera_i6, more, 0)) {
        wh_tessera_list_slab_(g, c, slab); /* I6 */
    }
    if (off && more) { /* where the next taker looks first */
        wh_store_u32_relaxed(wh_tessera_reuse_at_(g, set, c), slab + 1);
    }
    if (slots > 64) {
        wh_tessera_leave_(g, set, slab, opened);
    } else if (take.bits != 0 &&
               WH_PLANT(tessera_t1, wh_load_u64_acquire(tag_at) != tag, 0)) { /* T1 */
        wh_tessera_give_(g, set, slab, wh_load_u64_acquire(tag_at), 0,
                         wh_tessera_with_past(take.bits, past));
        take.bits = 0;
    }
    return take;
}

/* Up to r slots of any listed slab of class c, of which it looks at `most`. Slabs found to have
 * none leave the list. It ends early when a search for all begins (X3). */
WH_FN_SLOW wh_tessera_take wh_tessera_take_listed_(wh_tessera_ref g, uint32_t set, uint32_t c,
                                                   uint32_t r, uint32_t most) {
    const wh_veb list = wh_tessera_list_(*g, c);
    const uint32_t *lock = &wh_tessera_header_of_(g)->search_lock;
    uint32_t *reuse_at = wh_tessera_reuse_at_(*g, set, c);
    wh_tessera_take take = wh_tessera_found_(WH_TESSERA_WAIT, 0);
    /* P4; every take starts elsewhere, so that takers seldom meet */
    const uint32_t ticket = wh_tessera_begin_(*g, set);
    const uint32_t reuse = wh_load_u32_relaxed(reuse_at);
    if (reuse != 0) {
        take = wh_tessera_take_from_(*g, set, c, reuse - 1, r, 0);
        if (take.bits == 0) {
            wh_store_u32_relaxed(reuse_at, 0);
        }
    }
    const uint32_t start =
        (uint32_t)((uint64_t)((ticket * 256u + set) * 2654435761u) * g->n_chunks >> 32);
    int wrapped = 0;
    WH_NO_UNROLL
    for (uint64_t x = start; take.bits == 0 && most != 0; x++) {
        const uint32_t locked = wh_load_u32_relaxed(lock); /* on its way meanwhile */
        x = wh_veb_successor(list, x);
        if (locked != 0) {
            break;
        }
        if (x == WH_VEB_NONE || (wrapped && x >= start)) {
            if (wrapped) {
                wh_veb_settle(list, 0);
                break;
            }
            wh_veb_settle(list, start);
            wrapped = 1;
            x = UINT64_MAX; /* from 0 */
        } else {
            most--;
            if (wh_veb_remove(list, x)) {
                take = wh_tessera_take_from_(*g, set, c,
                                             wh_tessera_slab_of(g->n_chunks, (uint32_t)x), r, 1);
            }
        }
    }
    wh_tessera_end_(*g, set);
    return take;
}

/* A slab of class c from wherever the pool has chunks for one, however small: up to r of
 * its slots for the caller, the others listed. */
WH_FN_SLOW wh_tessera_take wh_tessera_take_small_(wh_tessera_ref g, uint32_t set, uint32_t c,
                                                  uint32_t r) {
    const wh_tessera_class row = wh_tessera_header_of_(g)->classes[c];
    wh_tessera_take take = wh_tessera_found_(WH_TESSERA_WAIT, 0);
    const uint32_t ticket = wh_tessera_begin_(*g, set);
    const uint64_t claim = wh_tessera_claim_span_(g, set, ticket, wh_tessera_order(row), 0);
    if (claim != 0) {
        const uint32_t slab = (uint32_t)claim, order = wh_ctz32((uint32_t)(claim >> 32));
        const uint64_t tag = wh_tessera_with_set(wh_tessera_slab_tag(c, order, row.slot_size), set);
        const uint32_t slots = wh_tessera_tag_slots(tag, g->chunk_log2);
        const uint32_t n_words = (slots + 63) >> 6;
        uint64_t *words = wh_tessera_words_of_(*g, slab);
        WH_NO_UNROLL
        for (uint32_t i = 0; i < 1u << order; i++) {
            wh_store_u64_relaxed(wh_tessera_tag_at_(*g, slab + i), tag);
        }
        const uint64_t first = wh_tessera_full_word(slots, 0);
        take = wh_tessera_found_((uint64_t)(words - wh_tessera_words_of_(*g, 0)),
                                 wh_lowest_bits(first, r));
        const uint64_t rest = first & ~take.bits; /* without slot 0 */
        WH_NO_UNROLL
        for (uint32_t k = 0; k < n_words; k++) { /* P3 goes on to the takers of the rest; P7 */
            WH_PLANT(tessera_p7_rest, wh_store_u64_release, wh_store_u64_relaxed)
            (&words[k], k == 0 ? rest : wh_tessera_full_word(slots, k));
        }
        if (n_words > 1) {
            wh_store_u32_release(wh_tessera_state_at_(*g, slab),
                                 WH_TESSERA_SHUT + WH_TESSERA_OPEN); /* word 0; P7 */
        }
        if (rest != 0 || n_words > 1) {
            wh_tessera_list_slab_(*g, c, slab);
        }
    }
    wh_tessera_end_(*g, set);
    return take;
}

/* Up to r slots from the cursor of any set, of this one and then of the nearest that has some. */
WH_FN_SLOW wh_tessera_take wh_tessera_steal_(wh_tessera_ref g, uint32_t set, uint32_t c,
                                             uint32_t r) {
    WH_NO_UNROLL
    for (uint32_t first = 0; first < g->n_sets; first += 8) {
        uint32_t open = 0; /* which words of eight sets' cursors */
        for (uint32_t k = 0; k < 8; k++) {
            const uint32_t s = set + first + k;
            const wh_tessera_cursor *cursor =
                wh_tessera_cursor_at_(*g, s < g->n_sets ? s : s % g->n_sets, c);
            open |= (uint32_t)wh_tessera_has_slots_(wh_load_u64_relaxed(&cursor->span)) << 2 * k;
            open |= (uint32_t)wh_tessera_has_slots_(wh_load_u64_relaxed(&cursor->spare))
                    << (2 * k + 1);
        }
        WH_NO_UNROLL
        for (; open != 0; open &= open - 1) {
            const uint32_t k = wh_ctz32(open), s = (set + first + k / 2) % g->n_sets;
            uint64_t *at = wh_tessera_span_at_(*g, s, c, k & 1);
            const uint64_t span = wh_fetch_add_u64_acquire(at, r * WH_TESSERA_POSITION); /* P2 */
            if (wh_tessera_crosses_(span, r)) { /* C1: there is nothing to attach */
                wh_tessera_hold_(*g, s, wh_tessera_header_of_(g)->classes[c], span, 0);
                wh_store_u64_release(at, WH_TESSERA_CLOSED);
            }
            if (wh_tessera_has_slots_(span)) {
                return wh_tessera_found_(span, 0);
            }
        }
    }
    return wh_tessera_found_(WH_TESSERA_WAIT, 0);
}

/* A slab of a cursor's that the caller owns and that has handed out no slot goes straight back
 * to the pool. 0: it has been a listed slab, and somebody is looking at it. */
WH_FN int wh_tessera_return_fresh_(wh_tessera_core g, uint32_t set, uint32_t slab,
                                   wh_tessera_class row) {
    if (row.slots <= 64) { /* I2: nobody has had a bit of it, nor may a double free now */
        wh_store_u64_relaxed(wh_tessera_words_of_(g, slab), ~(uint64_t)0);
    } else {
        const uint32_t fresh = wh_tessera_fresh_state(row.slots);
        if (wh_cas_u32_acq_rel(wh_tessera_state_at_(g, slab), fresh, WH_TESSERA_SHUT) !=
            fresh) { /* I5 */
            return 0;
        }
        wh_store_u64_relaxed(wh_tessera_tag_at_(g, slab), WH_TESSERA_FREE); /* I2 */
    }
    wh_tessera_put_chunks_(g, set, slab, 1u << wh_tessera_order(row));
    return 1;
}

/* Gives back what `span`, which has been taken from a cursor of class u, has left: all lanes of
 * mask, with the same arguments, a slab each. */
WH_FN_SLOW void wh_tessera_give_span_(wh_tessera_ref g, wh_mask_t mask, uint32_t set, uint32_t u,
                                      uint64_t span) {
    const wh_tessera_class row = wh_tessera_header_of_(g)->classes[u];
    const uint32_t from = wh_tessera_span_position(span), end = wh_tessera_span_slots(span);
    const uint32_t lanes = wh_popc32(mask);
    WH_NO_UNROLL
    for (uint32_t k = from / row.slots + wh_mask_rank(mask); k * row.slots < end; k += lanes) {
        const uint32_t slab = wh_tessera_span_first(span) + (k << wh_tessera_order(row));
        uint32_t slot = k * row.slots < from ? from - k * row.slots : 0;
        if (slot == 0 && wh_tessera_return_fresh_(*g, set, slab, row)) {
            continue;
        }
        WH_NO_UNROLL
        while (slot < row.slots) {
            const uint64_t bits = wh_tessera_full_word(row.slots, slot >> 6);
            wh_tessera_give_(*g, set, slab, wh_load_u64_relaxed(wh_tessera_tag_at_(*g, slab)),
                             slot >> 6, bits & (~(uint64_t)0 << (slot & 63)));
            slot = (slot >> 6) * 64 + 64 - wh_clz64(bits);
        }
    }
    wh_syncwarp(mask);
}

/* Whether a cursor of set s has slots left. */
WH_FN int wh_tessera_has_rest_(wh_tessera_core g, uint32_t s) {
    uint32_t left = 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < g.n_classes; first += 8) {
        for (uint32_t k = 0; k < 8; k++) { /* there are 64 cursors */
            const wh_tessera_cursor *cursor = wh_tessera_cursor_at_(g, s, first + k);
            const uint64_t span = wh_load_u64_relaxed(&cursor->span);
            const uint64_t spare = wh_load_u64_relaxed(&cursor->spare);
            left |= (uint32_t)(wh_tessera_has_slots_(span) ||
                               WH_PLANT(tessera_x1_spare, wh_tessera_has_slots_(spare), 0));
        }
    }
    return left != 0;
}

/* Closes cursors that have slots left and gives these back, so that slabs without a live slot reach
 * the pool: those of the nearest set that has such. 1 if there was one. All lanes of mask, with the
 * same arguments: a set each to look at, then a cursor each to close, then a slab each to give
 * back. */
WH_FN_SLOW int wh_tessera_detach_(wh_tessera_ref g, wh_mask_t mask, uint32_t set) {
    const uint32_t rank = wh_mask_rank(mask), lanes = wh_popc32(mask);
    const int leads = rank == 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < g->n_sets; first += lanes) {
        const uint32_t i = set + first + rank;
        uint32_t s = i < g->n_sets ? i : i - g->n_sets;
        const wh_mask_t has =
            wh_ballot(mask, first + rank < g->n_sets && wh_tessera_has_rest_(*g, s));
        if (has == 0) {
            continue;
        }
        s = wh_shfl_u32(mask, s, wh_mask_leader(has));
        if (leads) {
            (void)wh_tessera_begin_(*g, set);
        }
        wh_syncwarp(mask); /* P4 */
        WH_NO_UNROLL
        for (uint32_t j = 0; j < 2 * g->n_classes; j += lanes) {
            const uint32_t u = (j + rank) >> 1;
            uint64_t span = 0;
            if (u < g->n_classes) {
                uint64_t *at = wh_tessera_span_at_(*g, s, u, (j + rank) & 1);
                span = wh_load_u64_acquire(at);
                if (wh_tessera_has_slots_(span) &&
                    wh_cas_u64_acq_rel(at, span, WH_TESSERA_CLOSED) == span) { /* I1: ours */
                    wh_tessera_hold_(*g, s, wh_tessera_header_of_(g)->classes[u], span, 0);
                } else {
                    span = 0;
                }
            }
            WH_NO_UNROLL
            for (wh_mask_t m = wh_ballot(mask, span != 0); m != 0; m &= m - 1) {
                const uint32_t lane = wh_mask_leader(m);
                wh_tessera_give_span_(g, mask, set, wh_shfl_u32(mask, u, lane),
                                      wh_shfl_u64(mask, span, lane));
            }
        }
        wh_syncwarp(mask);
        if (leads) {
            wh_tessera_end_(*g, set);
        }
        return 1;
    }
    return 0;
}

/* What a taker has seen of a pack: its tag, its word, and where the block is that would do. */
typedef struct wh_tessera_sight {
    uint64_t tag, word;
    uint32_t fit;     /* 0: none, or this is no pack */
    uint32_t lengths; /* of its free blocks, as pack_scan_ tells them */
    int any;          /* a free block, of whatever size */
} wh_tessera_sight;

WH_FN wh_tessera_sight wh_tessera_see_block_(wh_tessera_core g, uint32_t pack, uint32_t least) {
    wh_tessera_sight sight;
    sight.tag = wh_load_u64_acquire(wh_tessera_tag_at_(g, pack));
    sight.word = wh_load_u64_relaxed(wh_tessera_words_of_(g, pack));
    const int is_pack = wh_tessera_is_pack(sight.tag) && wh_tessera_pack_at(sight.tag) == 0;
    const uint32_t slots = wh_tessera_pack_slots(sight.tag);
    sight.fit = sight.lengths = 0;
    sight.any = is_pack && (sight.word & wh_tessera_full_word(slots, 0)) != 0;
    if (is_pack && sight.word != ~(uint64_t)0) { /* I4 */
        const uint64_t past = wh_tessera_past_last(slots);
        const uint32_t has_past = (sight.word & past) == past; /* T1: else not slot 0 */
        const uint64_t free = sight.word & ~past & ((uint64_t)has_past - 2);
        sight.fit =
            wh_tessera_pack_scan_(g, pack, sight.tag, wh_low_u32(free), least, &sight.lengths);
    }
    return sight;
}

/* Takes the block that a taker has seen (fit != 0), of at least `least` granules. WAIT: not there
 * any more; *raced: the word has changed. */
WH_FN wh_tessera_take wh_tessera_claim_block_(wh_tessera_core g, uint32_t set, uint32_t pack,
                                              uint32_t least, wh_tessera_sight sight, int *raced) {
    wh_tessera_take take = wh_tessera_found_(WH_TESSERA_WAIT, 0);
    const uint64_t past = wh_tessera_past_last(wh_tessera_pack_slots(sight.tag));
    const uint64_t bit = (uint64_t)1 << WH_TESSERA_FIT_SLOT(sight.fit);
    const uint64_t taken = wh_tessera_with_past(bit, past);
    *raced =
        WH_PLANT(tessera_p1_block, wh_cas_u64_acq_rel, wh_cas_u64_relaxed)(
            wh_tessera_words_of_(g, pack), sight.word, sight.word & ~taken) != sight.word; /* P1 */
    if (!*raced) {
        /* T1: what it holds pins the pack, so now its tags stay, and say where the block is. */
        const uint64_t now = wh_load_u64_acquire(wh_tessera_tag_at_(g, pack));
        const uint32_t fit =
            now == sight.tag ? wh_tessera_pack_fit_(g, pack, now, wh_low_u32(bit), least) : 0;
        if (WH_PLANT(tessera_t1_pack, fit != 0, 1)) {
            take.at = WH_TESSERA_BLOCK | (uint64_t)pack << 16 |
                      WH_TESSERA_FIT_START(WH_PLANT(tessera_t1_tags, fit, sight.fit));
            take.bits = bit;
        } else {
            wh_tessera_give_(g, set, pack, now, 0, taken);
        }
    }
    return take;
}

/* A free block of at least `least` granules of the pack that is or was at this chunk. */
WH_FN_SLOW wh_tessera_take wh_tessera_take_block_(wh_tessera_ref g, uint32_t set, uint32_t pack,
                                                  uint32_t least) {
    const wh_tessera_core core = *g;
    wh_tessera_take take = wh_tessera_found_(WH_TESSERA_WAIT, 0);
    (void)wh_fetch_add_u32_acq_rel(&wh_tessera_set_at_(core, set)->begun, 1); /* P4 */
    WH_NO_UNROLL
    for (int raced = 1; raced;) { /* by who has taken or freed one */
        const wh_tessera_sight sight = wh_tessera_see_block_(core, pack, least);
        raced = 0;
        if (sight.fit != 0) {
            take = wh_tessera_claim_block_(core, set, pack, least, sight, &raced);
        }
    }
    wh_tessera_end_(core, set);
    return take;
}

#define WH_TESSERA_PACK_ROUNDS 4u

/* For lanes with `least` (0: asks for nothing): a free block of at least so many granules of a
 * listed pack. All lanes of mask look at a listed pack each; whoever asks goes to the one that has
 * the smallest block that will do, since others need larger ones. Packs found to have none leave
 * the list. A look takes long, and one lane after the other would make some. It is no take (P4):
 * NULL needs a moment without any (X1), which lanes that look in vain must not keep away. */
WH_FN_SLOW wh_tessera_take wh_tessera_take_packed_(wh_tessera_ref g, wh_mask_t mask, uint32_t set,
                                                   uint32_t least) {
    const wh_tessera_core core = *g;
    const wh_veb list = wh_tessera_list_(core, core.n_classes);
    const uint32_t takes = wh_load_u32_relaxed(&wh_tessera_set_at_(core, set)->begun);
    wh_tessera_take take = wh_tessera_found_(WH_TESSERA_WAIT, 0);
    WH_NO_UNROLL
    for (uint32_t round = 0;
         round < WH_TESSERA_PACK_ROUNDS && wh_any(mask, least != 0 && take.bits == 0); round++) {
        const uint32_t random =
            ((uint32_t)wh_thread_id() + (takes * WH_TESSERA_PACK_ROUNDS + round) * 65537u) *
            2654435761u;
        uint64_t x = wh_veb_successor(list, (uint64_t)random * core.n_chunks >> 32);
        x = x == WH_VEB_NONE ? wh_veb_successor(list, 0) : x;
        uint32_t pack = core.n_chunks, lengths = 0;
        if (x != WH_VEB_NONE) {
            pack = wh_tessera_slab_of(core.n_chunks, (uint32_t)x);
            const wh_tessera_sight sight = wh_tessera_see_block_(core, pack, 1);
            lengths = sight.lengths;
            if (!sight.any && wh_veb_remove(list, x) &&
                WH_PLANT(tessera_i6_pack, wh_tessera_see_block_(core, pack, 1).any, 0)) { /* I6 */
                wh_tessera_list_slab_(core, core.n_classes, pack);
            }
        }
        uint32_t goes = core.n_chunks; /* to this pack */
        WH_NO_UNROLL
        for (wh_mask_t m = wh_ballot(mask, least != 0 && take.bits == 0); m != 0; m &= m - 1) {
            const uint32_t asks = wh_mask_leader(m), its = wh_shfl_u32(mask, least, asks);
            const uint32_t fits = lengths >> (its - 1);
            const uint32_t best =
                wh_reduce_max_u32(mask, fits != 0 ? (32 - wh_ctz32(fits)) << 5 | wh_lane_id() : 0);
            const uint32_t of = best != 0 ? best & 31 : asks;
            const uint32_t its_pack = wh_shfl_u32(mask, pack, of);
            if (best != 0) {
                goes = wh_lane_id() == asks ? its_pack : goes;
                lengths = wh_lane_id() == of ? 0 : lengths;
            }
        }
        if (goes != core.n_chunks) {
            take = wh_tessera_take_block_(g, set, goes, least);
        }
    }
    return take;
}

/* --- out of memory: X1, X2 ------------------------------------------------------- */

/* X1 (2): whether no cursor has slots left or is between two spans. All lanes of mask, four cursors
 * each at a time. */
WH_FN int wh_tessera_used_up_(wh_tessera_core g, wh_mask_t mask) {
    const uint32_t n = (uint32_t)g.n_sets << 6;
    const uint32_t rank = wh_mask_rank(mask), lanes = wh_popc32(mask);
    uint32_t left = 0;
    WH_NO_UNROLL
    for (uint32_t first = rank; first < n && left == 0; first += 4 * lanes) {
        for (uint32_t k = 0; k < 8; k++) {
            const uint32_t j = first + k / 2 * lanes < n ? first + k / 2 * lanes : first;
            const wh_tessera_cursor *cursor = wh_tessera_cursor_at_(g, j >> 6, j & 63);
            const uint64_t span =
                wh_load_u64_relaxed((k & 1) == 0 ? &cursor->span : &cursor->spare);
            left |= wh_tessera_span_first(span) != WH_TESSERA_CLOSED_CHUNK &&
                    wh_tessera_span_position(span) != wh_tessera_span_slots(span) &&
                    WH_PLANT(tessera_x1_spare, 1, (k & 1) == 0);
        }
    }
    wh_fence(); /* what is read next is read later */
    return wh_all(mask, left == 0);
}

#define WH_TESSERA_EVENTS 0u   /* in the pool */
#define WH_TESSERA_FREES 1u    /* in the pool or in slabs */
#define WH_TESSERA_ATTACHED 2u /* spans */
#define WH_TESSERA_DONE 3u     /* takes of all kinds, since any of them may hold slots or a */
#define WH_TESSERA_BEGUN 4u    /* ... slab that others look for (T1, I5) */

/* The caller's part of the sum of these over all sets. All lanes of mask. */
WH_FN uint64_t wh_tessera_part_(wh_tessera_core g, wh_mask_t mask, uint32_t what) {
    const uint32_t rank = wh_mask_rank(mask), lanes = wh_popc32(mask);
    uint64_t sum = 0;
    WH_NO_UNROLL
    for (uint32_t i = rank; i < g.n_sets; i += lanes) {
        const wh_tessera_set *set = wh_tessera_set_at_(g, i);
        sum += wh_load_u32_relaxed(what <= WH_TESSERA_FREES      ? &set->events
                                   : what == WH_TESSERA_ATTACHED ? &set->attached
                                   : what == WH_TESSERA_DONE     ? &set->done
                                                                 : &set->begun);
        sum += what == WH_TESSERA_FREES ? wh_load_u32_relaxed(&set->frees) : 0;
    }
    wh_fence();
    return sum;
}

/* The sum of all lanes' parts, 40 bits of it. All lanes of mask. */
WH_FN uint64_t wh_tessera_total_(wh_mask_t mask, uint64_t part) {
    const uint64_t low = wh_reduce_add_u32(mask, wh_low_u32(part) & 0xfffff);
    const uint64_t high = wh_reduce_add_u32(mask, (uint32_t)(part >> 20));
    return ((high << 20) + low) & 0xffffffffff;
}

/* Whether no take is under way: X1 (1). All lanes of mask. */
WH_FN int wh_tessera_is_quiet_(wh_tessera_core g, wh_mask_t mask) {
    const uint64_t done = wh_tessera_total_(mask, wh_tessera_part_(g, mask, WH_TESSERA_DONE));
    return wh_tessera_total_(mask, wh_tessera_part_(g, mask, WH_TESSERA_BEGUN)) == done;
}

/* The or of all lanes' values. All lanes of mask. */
WH_FN uint64_t wh_tessera_or_all_(wh_mask_t mask, uint64_t v) {
    const uint32_t high = wh_reduce_or_u32(mask, wh_high_u32(v));
    return (uint64_t)high << 32 | wh_reduce_or_u32(mask, wh_low_u32(v));
}

/* Whether the slab whose first chunk this is has a free slot; of a pack the longest free block, in
 * granules. All of one that lies between the free that made it full and the pool is free. `word`:
 * its first one. */
WH_FN uint32_t wh_tessera_free_in_(wh_tessera_core g, uint32_t chunk, uint64_t tag, uint64_t word) {
    const uint32_t slots = wh_tessera_tag_slots(tag, g.chunk_log2);
    if (slots <= 64) {
        const uint64_t free = word & wh_tessera_full_word(slots, 0);
        uint32_t lengths = 0;
        if (word == wh_tessera_all_free(slots, 0)) {
            return WH_PLANT(tessera_x1_transit, !wh_veb_contains(wh_tessera_pool_(g), chunk), 0)
                       ? WH_TESSERA_GRANULES
                       : 0;
        }
        if (free == 0 || !wh_tessera_is_pack(tag)) {
            return free != 0;
        }
        (void)wh_tessera_pack_scan_(g, chunk, tag, wh_low_u32(free), 1, &lengths);
        return lengths != 0 ? 32 - wh_clz32(lengths) : 0; /* 0: its tags change meanwhile */
    }
    const uint64_t *words = wh_tessera_words_of_(g, chunk);
    const uint32_t n_words = (slots + 63) >> 6;
    WH_NO_UNROLL
    for (uint32_t first = 1; first < n_words; first += 8) {
        for (uint32_t k = 0; k < 8; k++) {
            word |= wh_load_u64_relaxed(&words[first + k < n_words ? first + k : first]);
        }
    }
    return word != 0;
}

/* What lanes have seen of slabs and packs, the same for all of them. */
typedef struct wh_tessera_seen {
    uint64_t classes; /* a bit for each of which a slab has a free slot */
    uint32_t longest; /* free block of a pack, in granules; 0: none */
    uint32_t pack;    /* ... and its pack */
    int moves;        /* a chunk is in the pool, or on its way there */
    int stopped;      /* they have not seen all: there was enough, or no need */
} wh_tessera_seen;

/* Whether that is something for a lane that asks for slots of class c or, if least is not 0, a
 * block of a pack of so many granules. */
WH_FN int wh_tessera_is_seen_(wh_tessera_seen seen, uint32_t c, uint32_t least) {
    return (seen.classes >> c & 1) != 0 || (least != 0 && seen.longest >= least);
}

/* X1 (3): which of `classes`, a bit each, have a slab with a free slot, or one of several words
 * that has been shut and lies between its free and the pool (its words have been cleared, its tag
 * may have been), and what free blocks packs have. All lanes of mask, eight chunks each at a time,
 * up to `most` from some place on; c, least: what the caller asks for (is_seen_), or NO_CLASS. They
 * stop when they have seen something for each lane that asks, or, if not `locked`, when a search
 * for all has begun (X3). classes = 0: packs only. Slabs of class c that they find are listed,
 * since the free that owes it to the list may be on its way. */
WH_FN_SLOW wh_tessera_seen wh_tessera_look_(wh_tessera_ref g, wh_mask_t mask, uint32_t set,
                                            uint64_t classes, uint32_t c, uint32_t least,
                                            uint32_t most, int locked) {
    const wh_tessera_core core = *g;
    const uint32_t rank = wh_mask_rank(mask), lanes = wh_popc32(mask);
    const uint64_t asked =
        wh_tessera_or_all_(mask, c != WH_TESSERA_NO_CLASS ? (uint64_t)1 << c : 0);
    const int packs = locked || wh_any(mask, least != 0); /* a search answers for all */
    const uint32_t takes =                                /* so every time elsewhere */
        wh_load_u32_relaxed(&wh_tessera_set_at_(core, set)->begun);
    const uint32_t random = ((uint32_t)(wh_thread_id() >> 5) * 256u + takes) * 2654435761u;
    const uint32_t from =
        wh_shfl_u32(mask, (uint32_t)((uint64_t)random * core.n_chunks >> 32), wh_mask_leader(mask));
    const uint32_t *lock = &wh_tessera_header_(core)->search_lock;
    wh_tessera_seen seen;
    uint64_t found = 0; /* by the caller */
    uint32_t longest = 0, pack = 0;
    seen.classes = 0;
    seen.longest = seen.pack = 0;
    seen.moves = seen.stopped = 0;
    WH_NO_UNROLL
    for (uint32_t first = rank; wh_any(mask, first < most); first += 8 * lanes) {
        uint64_t tags[8], words[8]; /* in registers: each loop is unrolled */
        uint32_t fresh = 0, shut = 0;
        for (uint32_t k = 0; k < 8; k++) {
            const uint32_t i = first + k * lanes, at = from + (i < core.n_chunks ? i : 0);
            tags[k] = wh_load_u64_relaxed(
                wh_tessera_tag_at_(core, at < core.n_chunks ? at : at - core.n_chunks));
        }
        for (uint32_t k = 0; k < 8; k++) {
            const uint32_t i = first + k * lanes, at = from + (i < core.n_chunks ? i : 0);
            const uint32_t chunk = at < core.n_chunks ? at : at - core.n_chunks;
            const int is_slab = wh_tessera_kind(tags[k]) == WH_TESSERA_SLAB &&
                                (classes >> wh_tessera_tag_class(tags[k]) & 1) != 0 &&
                                (chunk & ((1u << wh_tessera_tag_order(tags[k])) - 1)) == 0;
            const int is_pack =
                packs && wh_tessera_is_pack(tags[k]) && wh_tessera_pack_at(tags[k]) == 0;
            /* in the pool, or on its way there */
            shut |= i < core.n_chunks && wh_tessera_kind(tags[k]) == WH_TESSERA_FREE;
            tags[k] = i < core.n_chunks && (is_slab || is_pack) ? tags[k] : WH_TESSERA_FREE;
            words[k] = tags[k] != WH_TESSERA_FREE
                           ? wh_load_u64_relaxed(wh_tessera_words_of_(core, chunk))
                           : 0;
        }
        for (uint32_t k = 0; k < 8; k++) {
            const uint32_t at = from + first + k * lanes;
            const uint32_t chunk = at < core.n_chunks ? at : at - core.n_chunks;
            if (tags[k] == WH_TESSERA_FREE) {
                continue;
            }
            const uint32_t free = wh_tessera_free_in_(core, chunk, tags[k], words[k]);
            if (free != 0 && wh_tessera_is_pack(tags[k])) {
                fresh |= free > longest;
                pack = free > longest ? chunk : pack;
                longest = free > longest ? free : longest;
            } else if (free != 0) {
                const uint32_t u = wh_tessera_tag_class(tags[k]);
                fresh = 1;
                found |= (uint64_t)1 << u;
                if ((asked >> u & 1) != 0) {
                    wh_tessera_list_slab_(core, u, chunk);
                }
            }
        }
        uint32_t wide = 0; /* which are slabs of several words */
        for (uint32_t k = 0; k < 8; k++) {
            wide |= (uint32_t)(wh_tessera_tag_slots(tags[k], core.chunk_log2) > 64) << k;
        }
        if (wide != 0) {
            wh_fence(); /* who sees words cleared sees SHUT */
            for (uint32_t k = 0; k < 8; k++) {
                const uint32_t at = from + first + k * lanes;
                const uint32_t chunk = (wide >> k & 1) == 0 ? 0
                                       : at < core.n_chunks ? at
                                                            : at - core.n_chunks;
                const uint32_t state = wh_load_u32_relaxed(wh_tessera_state_at_(core, chunk));
                shut |= (wide >> k & 1) != 0 && state == WH_TESSERA_SHUT;
            }
        }
        seen.moves |= wh_any(mask, WH_PLANT(tessera_x1_shut, shut != 0, 0));
        if (wh_any(mask, fresh != 0)) {
            seen.classes = wh_tessera_or_all_(mask, found);
            seen.longest = wh_reduce_max_u32(mask, longest);
            seen.pack =
                wh_shfl_u32(mask, pack, wh_mask_leader(wh_ballot(mask, longest == seen.longest)));
        }
        seen.stopped =
            (classes != 0 && seen.moves) ||
            wh_all(mask, c == WH_TESSERA_NO_CLASS || wh_tessera_is_seen_(seen, c, least)) ||
            (!locked && wh_any(mask, wh_load_u32_relaxed(lock) != 0));
        if (seen.stopped) {
            break;
        }
    }
    wh_fence();
    return seen;
}

#define WH_TESSERA_NO_NUMBER UINT64_MAX /* of a request that has none yet: no answer is younger */

/* What none_ says; else 2 + a pack that may have a block. */
#define WH_TESSERA_NONE 0u  /* nothing is there: NULL */
#define WH_TESSERA_AGAIN 1u /* maybe something is */

/* Whether a verdict says that there is nothing of class c: one that is younger than the request
 * with this number (X3), or, if that is to be looked at (old), by which nothing has become
 * available since (X2). All lanes of mask; asks: of whom. */
WH_FN int wh_tessera_is_said_(wh_tessera_core g, wh_mask_t mask, int asks, uint32_t c, int packs,
                              uint64_t number, int old) {
    wh_tessera_header *header = wh_tessera_header_(g);
    const uint64_t said = asks && old ? wh_load_u64_acquire(&header->verdict[packs][c]) : 0;
    const int is_younger = asks && wh_load_u64_acquire(&header->answered[packs][c]) > number;
    if (!wh_any(mask, said != 0 && !is_younger)) {
        return is_younger;
    }
    const uint64_t events = wh_tessera_total_(mask, wh_tessera_part_(g, mask, WH_TESSERA_FREES));
    return is_younger || said == events + 1;
}

#define WH_TESSERA_QUIET_TRIES 32u

/* X1, X3: a search for all who have asked, by all lanes of mask; the leader has search_lock. c,
 * least: as in look_. A verdict of each class that is wanted and of which there is nothing, and
 * what they have seen; stopped: they have not seen all, or not at one moment. */
WH_FN_SLOW wh_tessera_seen wh_tessera_search_(wh_tessera_ref g, wh_mask_t mask, uint32_t set,
                                              uint32_t c, uint32_t least) {
    wh_tessera_header *header = wh_tessera_header_(*g);
    const uint32_t lanes = wh_popc32(mask);
    const uint64_t of = wh_tessera_or_all_(mask, c != WH_TESSERA_NO_CLASS ? (uint64_t)1 << c : 0);
    wh_tessera_seen seen;
    seen.classes = 0;
    seen.longest = seen.pack = 0;
    seen.moves = 0;
    seen.stopped = 1;
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < WH_TESSERA_QUIET_TRIES; tries++) {
        uint64_t asked = 0;
        if (wh_lane_id() == wh_mask_leader(mask)) {
            asked = wh_fetch_add_u64_acq_rel(&header->asked, 0); /* P8 */
        }
        asked = wh_shfl_u64(mask, asked, wh_mask_leader(mask));
        wh_syncwarp(mask);
        const uint64_t wanted =
            of | wh_shfl_u64(mask, wh_load_u64_relaxed(&header->wanted), wh_mask_leader(mask));
        const uint64_t events =
            wh_tessera_total_(mask, wh_tessera_part_(*g, mask, WH_TESSERA_FREES));
        const uint64_t done = wh_tessera_part_(*g, mask, WH_TESSERA_DONE);
        const uint64_t begun = wh_tessera_part_(*g, mask, WH_TESSERA_BEGUN);
        const uint64_t attached = wh_tessera_part_(*g, mask, WH_TESSERA_ATTACHED);
        if (WH_PLANT(tessera_x1_quiet, !wh_all(mask, done == begun), 0)) { /* X1 (1) */
            wh_backoff(tries);
            continue;
        }
        if (!wh_tessera_used_up_(*g, mask)) { /* (2) */
            (void)wh_tessera_detach_(g, mask, set);
            break;
        }
        seen = wh_tessera_look_(g, mask, set, wanted, c, least, g->n_chunks, 1); /* (3) */
        seen.classes = WH_PLANT(tessera_x1_words, seen.classes, 0);
        if (seen.stopped || wh_tessera_holds_(wh_tessera_pool_(*g), mask)) { /* (4) */
            seen.stopped = 1;
            break;
        }
        const int same = wh_tessera_part_(*g, mask, WH_TESSERA_BEGUN) == begun &&
                         wh_tessera_part_(*g, mask, WH_TESSERA_ATTACHED) == attached;
        if (WH_PLANT(tessera_x1_same, wh_all(mask, same) && wh_tessera_used_up_(*g, mask), 1)) {
            const uint64_t now = WH_PLANT(tessera_x3, asked, wh_load_u64_relaxed(&header->asked));
            WH_NO_UNROLL
            for (uint32_t u = wh_mask_rank(mask); u < g->n_classes; u += lanes) {
                const uint32_t its = wh_tessera_least_(*g, u);
                for (uint32_t packs = 0; packs < 2; packs++) {
                    if ((wanted >> u & 1) != 0 &&
                        !wh_tessera_is_seen_(seen, u, packs != 0 ? its : 0)) {
                        wh_store_u64_release(&header->verdict[packs][u], events + 1);
                        wh_store_u64_release(&header->answered[packs][u], now); /* P8 */
                    }
                }
            }
            if (wh_lane_id() == wh_mask_leader(mask)) {
                (void)wh_fetch_and_u64_relaxed(&header->wanted, ~wanted);
            }
            seen.stopped = 0;
            break;
        }
        seen.stopped = 1;
    }
    return seen;
}

#define WH_TESSERA_NEAR 1024u        /* chunks to look at for a pack before cursors are closed */
#define WH_TESSERA_FAR (32u * 1024u) /* ... and for all before others have to wait */

/* What is left for those of mask that ask, for class c each (NO_CLASS: asks for nothing): NONE,
 * AGAIN, or 2 + a pack (packs: 1, or 0 if a block of one will not do). *number: the request's, or
 * NO_NUMBER; may_search: or else only what verdicts say. All lanes of mask. */
WH_FN_SLOW uint32_t wh_tessera_none_(wh_tessera_ref g, wh_mask_t mask, uint32_t set, uint32_t c,
                                     int packs, int may_search, uint64_t *number) {
    wh_tessera_header *header = wh_tessera_header_(*g);
    const uint32_t leader = wh_mask_leader(mask);
    const int leads = wh_lane_id() == leader;
    const int said =
        wh_tessera_is_said_(*g, mask, c != WH_TESSERA_NO_CLASS, c, packs, *number, may_search);
    c = said ? WH_TESSERA_NO_CLASS : c;
    const int asks = c != WH_TESSERA_NO_CLASS;
    const uint32_t least = asks && packs ? wh_tessera_least_(*g, c) : 0;
    const uint32_t found = said ? WH_TESSERA_NONE : WH_TESSERA_AGAIN;
    const int is_new = wh_any(mask, asks && *number == WH_TESSERA_NO_NUMBER);
    if (is_new) {
        const uint64_t of = wh_tessera_or_all_(mask, asks ? (uint64_t)1 << c : 0);
        wh_syncwarp(mask); /* P8: what any of them has freed */
        uint64_t next = 0;
        if (leads) {
            (void)wh_fetch_or_u64_relaxed(&header->wanted, of);
            next = wh_fetch_add_u64_acq_rel(&header->asked, 1); /* P8 */
        }
        next = wh_shfl_u64(mask, next, leader);
        *number = asks && *number == WH_TESSERA_NO_NUMBER ? next : *number;
    }
    if (!may_search || !wh_any(mask, asks)) {
        return found;
    }
    wh_tessera_seen seen;
    if (is_new && wh_any(mask, least != 0)) { /* before cursors are closed; soon found */
        seen = wh_tessera_look_(g, mask, set, 0, c, least, WH_TESSERA_NEAR, 0);
        if (wh_any(mask, least != 0 && seen.longest >= least)) {
            return least != 0 && seen.longest >= least ? 2 + seen.pack : found;
        }
    }
    int listed = 0;
    WH_NO_UNROLL
    for (wh_mask_t m = wh_ballot(mask, asks); m != 0;) { /* before all words are looked at */
        const uint32_t its = wh_shfl_u32(mask, c, wh_mask_leader(m));
        listed |= wh_tessera_holds_(wh_tessera_list_(*g, its), mask);
        m &= ~wh_ballot(mask, c == its);
    }
    if (listed || wh_tessera_holds_(wh_tessera_pool_(*g), mask)) {
        return found;
    }
    /* Not while others are at work: who has just got a span would have to get another one. */
    if (wh_tessera_is_quiet_(*g, mask) && wh_tessera_detach_(g, mask, set)) {
        return found;
    }
    /* Side by side with other warps: what is not on a list yet, nor in the packs looked at. */
    const uint32_t most = g->n_chunks < WH_TESSERA_FAR ? g->n_chunks : WH_TESSERA_FAR;
    const uint64_t classes = wh_tessera_or_all_(mask, asks ? (uint64_t)1 << c : 0);
    seen = wh_tessera_look_(g, mask, set, classes, c, least, most, 0);
    if (!seen.stopped) { /* nothing, it seems */
        const int locked = leads && wh_exchange_u32_acquire(&header->search_lock, 1) == 0;
        if (!wh_any(mask, locked)) {
            return found;
        }
        seen = wh_tessera_search_(g, mask, set, c, least);
        wh_syncwarp(mask);
        if (leads) {
            wh_store_u32_release(&header->search_lock, 0);
        }
    }
    const int has_pack = least != 0 && seen.longest >= least && (seen.classes >> c & 1) == 0;
    return !asks                                             ? found
           : has_pack                                        ? 2 + seen.pack
           : seen.stopped || wh_tessera_is_seen_(seen, c, 0) ? WH_TESSERA_AGAIN
                                                             : WH_TESSERA_NONE;
}

/* --- the slow path of slots ------------------------------------------------------ */

#define WH_TESSERA_LOOKS 8u /* listed slabs to look at while the pool may have chunks */

/* For r lanes that found the cursor of their class used up. packs: whether to ask for those, too.
 */
WH_FN_SLOW wh_tessera_take wh_tessera_attempt_(wh_tessera_ref g, uint32_t set, uint32_t c,
                                               uint32_t r, int may_reopen, int packs) {
    uint64_t *at = wh_tessera_span_at_(*g, set, c, 0);
    const uint64_t now = wh_load_u64_relaxed(at);
    wh_tessera_take take = wh_tessera_found_(WH_TESSERA_WAIT, 0);
    if (wh_tessera_is_open_(now)) {
        take.at = wh_fetch_add_u64_acquire(at, r * WH_TESSERA_POSITION); /* P2 */
        take.crosses = wh_tessera_crosses_(take.at, r);
        return take;
    }
    const wh_tessera_set *own = wh_tessera_set_at_(*g, set);
    if (wh_load_u32_relaxed(&wh_tessera_header_(*g)->search_lock) != 0) {
        take.at = WH_TESSERA_PAUSED;
        return take;
    }
    if (wh_tessera_span_first(now) != WH_TESSERA_CLOSED_CHUNK) { /* its crosser is at work, */
        if ((wh_load_u32_relaxed(&own->scarce) | wh_load_u32_relaxed(&own->dry)) != 0 &&
            wh_tessera_any_(wh_tessera_list_(*g, c))) { /* and will be for long */
            take = wh_tessera_take_listed_(g, set, c, r, WH_TESSERA_LOOKS);
        }
        return take;
    }
    /* A span first, since lists hold items of slabs that have gone to the pool; but when the pool
     * had none for the set the last time, the list, until it has such items or the pool a span. */
    uint32_t *dry_at = &wh_tessera_set_at_(*g, set)->dry;
    const int dry =
        wh_load_u32_relaxed(dry_at) != 0 &&
        (wh_fetch_add_u32_relaxed(&wh_tessera_cursor_at_(*g, set, c)->tries, 1) & 31) != 0;
    const uint32_t looks = wh_tessera_any_(wh_tessera_pool_(*g)) ? WH_TESSERA_LOOKS : UINT32_MAX;
    if (dry && wh_tessera_any_(wh_tessera_list_(*g, c))) {
        take = wh_tessera_take_listed_(g, set, c, r, looks);
        if (take.bits == 0) {
            wh_store_u32_relaxed(dry_at, 0);
        }
    }
    if (take.bits == 0 && wh_tessera_any_(wh_tessera_pool_(*g)) && may_reopen) {
        take.crosses = wh_cas_u64_acq_rel(at, now, WH_TESSERA_UNDER_WAY) == now;
        return take; /* whoever succeeds is the crosser */
    }
    if (take.bits == 0 && (!dry || looks != UINT32_MAX) &&
        wh_tessera_any_(wh_tessera_list_(*g, c))) {
        take = wh_tessera_take_listed_(g, set, c, r, looks);
    }
    if (take.bits == 0 && wh_tessera_any_(wh_tessera_pool_(*g))) {
        take = wh_tessera_take_small_(g, set, c, r);
    }
    if (take.bits == 0 && packs && wh_tessera_least_(*g, c) != 0) {
        take.at = WH_TESSERA_PACKED;
        return take;
    }
    if (take.bits == 0) {
        take = wh_tessera_steal_(g, set, c, r);
    }
    if (take.bits == 0 && take.at == WH_TESSERA_WAIT) {
        take.at = WH_TESSERA_NOTHING; /* to be asked */
    }
    return take;
}

/* The slot at a position of a span. */
WH_FN unsigned char *wh_tessera_slot_(unsigned char *base, uint32_t chunk_log2,
                                      wh_tessera_class row, uint32_t first, uint32_t position) {
    const uint32_t slab = wh_tessera_divide(position, row.by_slots);
    const uint32_t slot = position - slab * row.slots;
    const uint32_t in_span = (slab << wh_tessera_slab_log2(row)) + slot * row.slot_size;
    return base + wh_mul_wide_u32(first, 1u << chunk_log2) + in_span; /* a span has up to 1 MiB */
}

/* The slot `rank` places behind the position of a span; NULL: it has not so many. */
WH_FN void *wh_tessera_nth_(unsigned char *base, uint32_t chunk_log2, wh_tessera_class row,
                            uint64_t span, uint32_t rank) {
    const uint32_t position = wh_tessera_span_position(span) + rank;
    return position < wh_tessera_span_slots(span)
               ? wh_tessera_slot_(base, chunk_log2, row, wh_tessera_span_first(span), position)
               : NULL;
}

/* The whole of malloc's slow path, for what await cannot do. All lanes of mask call; `lanes`
 * is the caller's group, attach whether it is the crosser of word `which` of its cursor and has
 * used up the span `last` (or none), p the caller's slot if it has one, c = NO_CLASS for lanes that
 * take no part. The groups of a warp go in steps: none waits while another one works. */
WH_FN_SLOW void *wh_tessera_slow_(wh_tessera_ref g, wh_mask_t mask, wh_mask_t lanes, uint32_t set,
                                  uint32_t c, int packs, int attach, uint32_t which, uint64_t last,
                                  void *p) {
    const uint32_t leader = wh_mask_leader(lanes);
    const int leads = wh_lane_id() == leader;
    int need = p == NULL && c != WH_TESSERA_NO_CLASS;
    int may_reopen = 1, may_pack = packs;
    uint64_t number = WH_TESSERA_NO_NUMBER;
    const wh_tessera_class row = wh_tessera_header_(*g)->classes[c != WH_TESSERA_NO_CLASS ? c : 0];
    /* A million lanes that ask a full heap need not look for what others have not found. */
    wh_tessera_set *const own = wh_tessera_set_at_(*g, set);
    const uint32_t freed = wh_load_u32_relaxed(&own->events) + wh_load_u32_relaxed(&own->frees);
    if (wh_any(mask, wh_load_u32_relaxed(&own->told) == 1 + freed) &&
        wh_tessera_is_said_(*g, mask, need && !attach, c, packs, number, 1)) {
        wh_add_u64_relaxed(&own->failed, 1);
        need = 0;
    }
    WH_NO_UNROLL
    for (uint32_t attempt = 0; wh_any(mask, need || attach); attempt++) {
        const wh_mask_t needy = wh_ballot(mask, need) & lanes;
        const uint32_t r = wh_popc32(needy);
        const uint32_t rank = wh_mask_rank(needy);
        wh_tessera_take take = wh_tessera_found_(WH_TESSERA_WAIT, 0);
        uint64_t claim = 0, span = 0;
        if (attach) { /* a span of some size, or the cursor closes */
            const uint32_t ticket = wh_tessera_begin_(*g, set);
            claim = wh_tessera_claim_span_(g, set, ticket, wh_tessera_span_order(row),
                                           wh_tessera_order(row));
        } else if (leads && r != 0) {
            take = wh_tessera_attempt_(g, set, c, r, may_reopen, may_pack);
        }
        if (wh_any(mask, take.at == WH_TESSERA_PACKED)) {
            const int asks = take.at == WH_TESSERA_PACKED;
            const wh_tessera_take taken =
                wh_tessera_take_packed_(g, mask, set, asks ? wh_tessera_least_(*g, c) : 0);
            take = asks ? taken : take;
            may_pack = asks ? taken.bits != 0 : may_pack;
        }
        const int asks = take.at == WH_TESSERA_NOTHING, paused = take.at == WH_TESSERA_PAUSED;
        if (wh_any(mask, asks || paused)) {
            const int may_search = wh_any(mask, asks) && !wh_any(mask, attach);
            const uint32_t found = wh_tessera_none_(
                g, mask, set, asks || paused ? c : WH_TESSERA_NO_CLASS, packs, may_search, &number);
            if (asks || paused) {
                may_pack = packs;
                take.at = found == WH_TESSERA_NONE ? WH_TESSERA_NOTHING : WH_TESSERA_WAIT;
                if (found > WH_TESSERA_AGAIN) {
                    take = wh_tessera_take_block_(g, set, found - 2, wh_tessera_least_(*g, c));
                }
            }
        }
        if (wh_any(mask, attach)) { /* every group that attaches, together */
            span = wh_tessera_make_span_(g, mask, set, c, claim);
            if (attach) {
                wh_store_u32_relaxed(&wh_tessera_set_at_(*g, set)->dry, span == 0);
                wh_tessera_hold_(*g, set, row, last, span);
                if (span != 0) {
                    wh_tessera_attach_(
                        wh_tessera_set_at_(*g, set), c, which, span, r,
                        wh_load_u64_relaxed(wh_tessera_span_at_(*g, set, c, 1 - which)));
                } else {
                    wh_tessera_publish_(wh_tessera_set_at_(*g, set), c, which, WH_TESSERA_CLOSED,
                                        r);
                }
                wh_tessera_end_(*g, set);
                which = 0;
                take.at = span;
                may_reopen = 0;
            }
            attach = 0;
        }
        if (take.crosses) {
            attach = 1;
            last = take.at;
        }
        may_reopen &= take.at != WH_TESSERA_WAIT || attach;
        const int idle = !wh_any(mask, attach || take.at != WH_TESSERA_WAIT);
        take.at = wh_shfl_u64(mask, take.at, leader);
        take.bits = wh_shfl_u64(mask, take.bits, leader);
        if (need && take.bits != 0 && (take.at & WH_TESSERA_BLOCK) != 0) {
            if (rank == 0) {
                p = g->base + ((take.at & ~WH_TESSERA_BLOCK) >> 16 << g->chunk_log2) +
                    ((take.at & 0xffff) << wh_tessera_granule_log2(g->chunk_log2));
                need = 0;
            }
        } else if (need && take.bits != 0) {
            if (rank < wh_popc64(take.bits)) {
                const uint32_t words_log2 = wh_tessera_words_log2(g->chunk_log2);
                const uint32_t in_chunk = (uint32_t)take.at & ((1u << words_log2) - 1);
                const uint32_t slot = in_chunk * 64 + wh_select64(take.bits, rank);
                p = g->base + (take.at >> words_log2 << g->chunk_log2) +
                    (uint64_t)slot * row.slot_size;
                need = 0;
            }
        } else if (need && take.at == WH_TESSERA_NOTHING) {
            wh_add_u64_relaxed(&own->failed, 1);
            wh_store_u32_relaxed(&own->told, 1 + freed);
            need = 0;
        } else if (need && take.at != WH_TESSERA_WAIT) {
            p = wh_tessera_nth_(g->base, g->chunk_log2, row, take.at, rank);
            need = p == NULL;
        }
        if (idle) {
            wh_backoff(attempt);
        }
    }
    return p;
}

#define WH_TESSERA_OWN_TRIES 16u  /* four words of the set's own each */
#define WH_TESSERA_FIRST_TRIES 2u /* ... before words anywhere, while its own are scarce */
#define WH_TESSERA_SCARCE 16u     /* searches that this lasts for, when they had nothing */
#define WH_TESSERA_ANY_TRIES 10u  /* one word each */

/* Some of a claim's chunks were free, but not all. P4 */
WH_FN_SLOW void wh_tessera_put_back_(wh_tessera_ref g, uint32_t set, uint32_t word,
                                     uint64_t chunks) {
    (void)wh_tessera_begin_(*g, set);
    wh_veb_put_back(wh_tessera_pool_(*g), word, chunks);
    wh_add_u32_relaxed(&wh_tessera_set_at_(*g, set)->done, 1); /* behind its fence */
}

/* Claims a span of up to 2^most chunks, at least 2^least, as large as there is, in four words of
 * the pool: `word` and three more, each `stride` further on. What it returns, and P4: as
 * next_span. */
WH_FN uint64_t wh_tessera_span_near_(wh_tessera_ref g, uint32_t set, uint32_t word, uint32_t stride,
                                     uint32_t most, uint32_t least) {
    const wh_veb pool = wh_tessera_pool_(*g);
    const uint32_t n_words = g->n_chunks >> 6;
    const uint32_t word2 = word + 2 * stride;
    uint64_t w0 = word < n_words ? wh_load_u64_relaxed(wh_veb_word(pool, word)) : 0;
    uint64_t w1 =
        word + stride < n_words ? wh_load_u64_relaxed(wh_veb_word(pool, word + stride)) : 0;
    uint64_t w2 = word2 < n_words ? wh_load_u64_relaxed(wh_veb_word(pool, word2)) : 0;
    uint64_t w3 =
        word2 + stride < n_words ? wh_load_u64_relaxed(wh_veb_word(pool, word2 + stride)) : 0;
    WH_NO_UNROLL
    for (uint32_t order = most; (w0 | w1 | w2 | w3) != 0; order--) {
        uint32_t at = 64, k = 0;
        WH_NO_UNROLL
        for (; k < 4; k++) {
            const uint64_t bits = w0;
            at = bits != 0 ? wh_tessera_fit_(bits, order) : 64;
            if (at < 64) {
                break;
            }
            w0 = w1; /* in turn, so that they stay in registers */
            w1 = w2;
            w2 = w3;
            w3 = bits;
        }
        if (at < 64) {
            word += k * stride;
            const uint32_t chunk = word << 6 | at;
            const uint64_t mask = wh_tessera_chunks_(chunk, order);
            const uint64_t got =
                wh_fetch_and_u64_acquire(wh_veb_word(pool, word), ~mask) & mask; /* P3 */
            if (got == mask) {
                return chunk | (uint64_t)1 << (order + 32);
            }
            if (got != 0) {
                wh_tessera_put_back_(g, set, word, got);
            }
            return 0;
        }
        if (order == least) {
            return 0;
        }
    }
    return 0;
}

/* The same in words anywhere that hold something, and their neighbours. */
WH_FN_SLOW uint64_t wh_tessera_any_span_(wh_tessera_ref g, uint32_t set, uint32_t seed,
                                         uint32_t most, uint32_t least) {
    const wh_veb pool = wh_tessera_pool_(*g);
    uint64_t span = 0;
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < WH_TESSERA_ANY_TRIES && span == 0; tries++) {
        const uint64_t word = wh_veb_pick_word(pool, seed + tries);
        if (word < g->n_chunks >> 6) {
            span = wh_tessera_span_near_(g, set, (uint32_t)word, 1, most, least);
            if (span == 0 && wh_load_u64_relaxed(wh_veb_word(pool, word)) == 0) {
                wh_veb_emptied(pool, word); /* a claim that did not tell the levels above */
            }
        }
    }
    return span;
}

/* Claims a span of 2^most chunks or fewer, at least 2^least, for the cursor of (set, class) after
 * `last`, a value of one of its words. Looks at the set's own words of the pool, four at a time:
 * first the last span's, so that a class that does not need much stays in one place; those of the
 * set's other classes start elsewhere. Then at words that hold something, anywhere.
 * Returns first chunk | chunks << 32; 0: nothing. P4: as next_span. */
WH_FN_SLOW uint64_t wh_tessera_seek_span_(wh_tessera_ref g, uint32_t set, uint32_t c, uint64_t last,
                                          uint32_t most) {
    const wh_tessera_class row = wh_tessera_header_of_(g)->classes[c];
    const uint32_t n_words = g->n_chunks >> 6, n_sets = g->n_sets;
    wh_tessera_set *counters = wh_tessera_set_at_(*g, set);
    const uint32_t scarce = wh_load_u32_relaxed(&counters->scarce);
    const uint32_t held = wh_load_u32_relaxed(&counters->held);
    const uint32_t least = wh_tessera_order(row);
    uint32_t word = wh_tessera_header_of_(g)->starts[c] + set;
    if (wh_tessera_span_slots(last) != 0 && wh_tessera_span_first(last) >= g->begin) {
        word = wh_tessera_span_first(last) >> 6;
        word += wh_tessera_span_slots(last) >= row.slots << (WH_TESSERA_MAX_SPAN_LOG2 - least)
                    ? n_sets /* it was all of that one */
                    : 0;
    }
    uint32_t order = most;
    const uint32_t seed = (c << 8 | set) * 64 + held * 65537u;
    const uint32_t elsewhere = scarce != 0 ? WH_TESSERA_FIRST_TRIES : WH_TESSERA_OWN_TRIES;
    uint64_t found = 0;
    uint32_t tries = 0;
    WH_NO_UNROLL
    for (; found == 0 && tries <= WH_TESSERA_OWN_TRIES; tries++) {
        if (tries == elsewhere) {
            found = wh_tessera_any_span_(g, set, seed, most, least);
            continue;
        }
        if (word >= n_words) { /* from the start, or behind the first spans */
            const uint32_t skip = (g->begin >> 6) / n_sets + 1;
            word = set + (set + skip * n_sets < n_words ? skip * n_sets : 0);
        }
        found = wh_tessera_span_near_(g, set, word, n_sets, order,
                                      order > least + 2 ? order - 2 : least);
        word += 4 * n_sets;
        order -= (tries & 1) != 0 && order > least;
    }
    if (tries > elsewhere) {
        wh_store_u32_relaxed(&counters->scarce, scarce != 0 ? scarce - 1 : WH_TESSERA_SCARCE);
    }
    return found;
}

/* What a crosser has claimed for its cursor. */
typedef struct wh_tessera_claim {
    uint64_t span;   /* 0: nothing */
    uint64_t tag;    /* of its slabs */
    uint64_t other;  /* what the other word of the cursor was */
    uint64_t back;   /* chunks of the same word of the pool that are to be put back */
    uint32_t chunks; /* 0: nothing */
} wh_tessera_claim;

/* Claims a span for word `which` of the cursor of (set, class), row `row`, after `last`, a value of
 * that word. How large: twice as large as that one (the first one with its spare one), or four
 * times what lanes have asked for since it was used up, the spare one at least a quarter of the
 * span; and twice that while the set's cursors hold less than an eighth of its share of the heap;
 * up to twice that again, for a power of two; but as large as the last one if that will last a
 * while, as far as can be seen, and they hold more; but at most half of what the set's cursors may
 * still hold; or smaller, down to a slab, if that is what there is. Where: in the next one of the
 * set's words of the pool, without a look: mostly it is free; if only a part of it is, the largest
 * piece of that, and the rest is to be put back. All that others wait for: what it needs of the
 * heap is loaded at once, and first; core is *g. P4: by the crosser without a bracket: the cursor
 * is between two spans meanwhile, which keeps X1 (2) away. Not so for what is put back after the
 * span has been published. */
WH_FN wh_tessera_claim wh_tessera_next_span_(wh_tessera_ref g, wh_tessera_core core,
                                             wh_tessera_set *own, uint32_t set, uint32_t c,
                                             wh_tessera_class row, uint32_t which, uint64_t last) {
    wh_tessera_claim claim;
    const uint64_t tag = wh_tessera_header_of_(g)->slab_tags[c];
    const uint32_t ticket = wh_fetch_add_u32_relaxed(&own->place, 1);
    const uint64_t span = wh_load_u64_relaxed(&own->cursors[c].span);
    const uint64_t spare = wh_load_u64_relaxed(&own->cursors[c].spare);
    const uint32_t held = wh_load_u32_relaxed(&own->held);
    const uint32_t scarce = wh_load_u32_relaxed(&own->scarce);
    const uint64_t now = which == 0 ? span : spare;
    const uint32_t least = wh_tessera_order(row);
    uint32_t order = wh_tessera_span_order(row);
    uint32_t want = wh_tessera_span_slots(last);
    if (want != 0 || which != 0) {
        const uint32_t asked = wh_tessera_span_position(now) - wh_tessera_span_slots(now);
        const uint32_t times = asked < 8192 ? 4 * asked : 0; /* "less than 0": nobody has */
        const uint32_t part = which != 0 ? wh_tessera_span_slots(span) >> 2 : 0;
        if (which == 0 && wh_tessera_span_first(last) < core.begin) {
            want += wh_tessera_span_slots(spare);
        }
        want = want > times ? want : times;
        want = want > part ? want : part;
        const uint32_t slabs = wh_tessera_divide(want, row.by_slots);
        const uint32_t much = scarce == 0 && held < core.share >> 1;
        /* It would last a few times as long as it takes to fetch the next one. */
        const uint32_t fast = asked < 8192 && 16 * asked > wh_tessera_span_slots(last);
        const uint32_t grows = fast || held < core.share >> 1;
        const uint32_t more = least + 31 - wh_clz32((slabs << grows) + 1) + (fast & much);
        order = more < order ? more : order;
    }
    const uint32_t had = wh_tessera_chunks_of_(row, core.begin, last);
    const uint32_t share = scarce == 0 ? core.share + core.share / 2 : core.share;
    const uint32_t rest = share - (held - had);
    const uint32_t most = rest - 2 < 1u << 30 ? 30 - wh_clz32(rest) : 0; /* else "less than 2" */
    order = order < most ? order : most;
    order = order > least ? order : least;
    uint64_t got = 0;
    claim.back = 0;
    if (core.places != 0) {
        const uint32_t place = wh_tessera_next_place(core, set, ticket, 6);
        const uint64_t mask = wh_tessera_chunks_(0, order);
        const uint64_t bits =
            wh_fetch_and_u64_acquire(wh_veb_word(wh_tessera_pool_(core), place >> 6), ~mask) &
            mask; /* P3 */
        uint32_t at = bits == mask ? 0 : 64, o = order;
        WH_NO_UNROLL
        while (at == 64 && bits != 0 && o > least) { /* as much of it as is in one piece */
            at = wh_tessera_fit_(bits, --o);
        }
        if (at < 64) {
            got = (place + at) | (uint64_t)1 << (o + 32);
            claim.back = bits & ~wh_tessera_chunks_(at, o);
        } else if (bits != 0) {
            wh_tessera_put_back_(g, set, place >> 6, bits);
        }
    }
    if (got == 0) {
        got = wh_tessera_seek_span_(g, set, c, last, order);
    }
    claim.chunks = (uint32_t)(got >> 32);
    claim.tag = wh_tessera_with_set(tag, set);
    claim.other = which == 0 ? spare : span;
    claim.span =
        got == 0 ? 0 : wh_tessera_span((uint32_t)got, row.slots * (claim.chunks >> least), 0);
    if (got != 0) { /* a cursor of the set's has this span now instead of `last` */
        wh_add_u32_relaxed(&own->held, wh_tessera_chunks_of_(row, core.begin, claim.span) - had);
    }
    return claim;
}

/* Adds that a span may have seen past its end before lanes wait for the next one instead of going
 * to the other word: with what all lanes of a device may add at once, below 2^20. */
#ifdef WH_HOSTILE
#define WH_TESSERA_MOST_OVER 40u
#else
#define WH_TESSERA_MOST_OVER (1u << 19)
#endif
WH_FN int wh_tessera_is_over_(uint64_t span) {
    return wh_tessera_span_position(span) >= wh_tessera_span_slots(span) + WH_TESSERA_MOST_OVER &&
           wh_tessera_span_first(span) != WH_TESSERA_CLOSED_CHUNK;
}

/* Which word of a cursor to add to, when they are `span` and `spare`: */
#define WH_TESSERA_BOTH_CLOSED 2u /* neither, and nobody is at work */
#define WH_TESSERA_NOT_YET 3u     /* neither: crossers are at work */
WH_FN uint32_t wh_tessera_which_(uint64_t span, uint64_t spare) {
    if (wh_tessera_is_over_(span) || wh_tessera_is_over_(spare)) {
        return WH_TESSERA_NOT_YET;
    }
    if (wh_tessera_has_slots_(span) || wh_tessera_has_slots_(spare)) {
        return wh_tessera_has_slots_(span) ? 0 : 1;
    }
    if (wh_tessera_is_open_(span) || wh_tessera_is_open_(spare)) {
        return wh_tessera_is_open_(span) ? 0 : 1;
    }
    return wh_tessera_span_first(span) == WH_TESSERA_CLOSED_CHUNK &&
                   wh_tessera_span_first(spare) == WH_TESSERA_CLOSED_CHUNK
               ? WH_TESSERA_BOTH_CLOSED
               : WH_TESSERA_NOT_YET;
}

/* What a lane has come to on its way to a block: p, or NULL; attach and v: what it owes or knows of
 * its cursor. */
typedef struct wh_tessera_asked {
    void *p;
    uint64_t v;
    uint32_t attach;
} wh_tessera_asked;
#define WH_TESSERA_CROSSES 3u /* 1 + the word it is the crosser of, by the add that returned v */
#define WH_TESSERA_RARE 4u    /* it is for rare */
#define WH_TESSERA_SLOTS 8u   /* a block of a pack will not do */
#define WH_TESSERA_STUCK 16u  /* its cursor is closed */
#define WH_TESSERA_ENDS 32u   /* p is all that there is for it */

/* Each crosser among the lanes of mask (attach, v) attaches a span from the pool for its group,
 * `lanes`, of class c, and its lanes that need one get slots of it. Nobody else waits here. Returns
 * attach = STUCK for a crosser that found no span, with what it still owes. own: the set's
 * counters. */
WH_FN wh_tessera_asked wh_tessera_attach_all_(wh_tessera_ref g, wh_tessera_set *own, wh_mask_t mask,
                                              wh_mask_t lanes, uint32_t set, uint32_t c,
                                              uint32_t attach, uint64_t v, void *p) {
    const int need = p == NULL && c != WH_TESSERA_NO_CLASS;
    const wh_mask_t needy = wh_ballot(mask, need) & lanes;
    const wh_tessera_core core = *g; /* what is looked at here, at once */
    const wh_tessera_class row =
        wh_tessera_header_of_(g)->classes[c != WH_TESSERA_NO_CLASS ? c : 0];
    wh_tessera_claim claim;
    claim.span = claim.tag = claim.other = claim.back = 0;
    claim.chunks = 0;
    if (attach != 0) {
        claim = wh_tessera_next_span_(g, core, own, set, c, row, attach - 1, v);
    }
    uint64_t got = claim.span; /* slots from its position on are the group's */
    wh_tessera_dress_all_(core, mask, claim.tag, wh_tessera_span_first(got), claim.chunks);
    if (got != 0) {
        if (claim.back != 0) { /* P4: before the cursor is no longer between two spans */
            wh_add_u32_relaxed(&own->begun, 1);
        }
        wh_tessera_attach_(own, c, attach - 1, got, wh_popc32(needy), claim.other);
        if (claim.back != 0) {
            WH_PLANT(tessera_back,
                     wh_veb_put_back(wh_tessera_pool_(core), wh_tessera_span_first(got) >> 6,
                                     claim.back),
                     (void)0);
            wh_add_u32_relaxed(&own->done, 1); /* behind its fence */
        }
        attach = 0;
    }
    got = wh_shfl_u64(mask, got, wh_mask_leader(lanes));
    if (need) {
        p = wh_tessera_nth_(core.base, core.chunk_log2, row, got, wh_mask_rank(needy));
    }
    wh_tessera_asked now;
    now.p = p;
    now.v = v;
    now.attach = attach != 0 ? attach | WH_TESSERA_STUCK : 0;
    return now;
}

/* Usable bytes of a block in the chunk with this tag, which is no pack; 0 if none starts there. */
WH_FN uint64_t wh_tessera_block_bytes_(uint32_t chunk_log2, const uint64_t *at) {
    const uint64_t tag = wh_load_u64_relaxed(at); /* I3 */
    return wh_tessera_kind(tag) == WH_TESSERA_SLAB  ? wh_tessera_tag_size(tag)
           : wh_tessera_kind(tag) == WH_TESSERA_RUN ? (tag >> 32) << chunk_log2
                                                    : 0;
}

/* --- the peak, where it is asked for --------------------------------------------- */

/* Each lane of mask has been given the block p, or NULL; 0: each that is here. */
WH_FN_SLOW void wh_tessera_count_(wh_tessera_ref g, wh_mask_t mask, const void *p) {
    wh_tessera_header *header = wh_tessera_header_(*g);
    mask = mask != 0 ? mask : wh_activemask();
    wh_syncwarp(mask); /* P2: whose atomic it was has the tag */
    const uint64_t chunk = (uint64_t)((const unsigned char *)p - g->base) >> g->chunk_log2;
    const uint64_t bytes =
        p == NULL ? 0
                  : wh_tessera_block_bytes_(g->chunk_log2, wh_tessera_tag_at_(*g, (uint32_t)chunk));
    const uint64_t low = wh_reduce_add_u32(mask, (uint32_t)bytes & 0xfffff);
    const uint64_t sum = ((uint64_t)wh_reduce_add_u32(mask, (uint32_t)(bytes >> 20)) << 20) + low;
    if (sum != 0 && wh_lane_id() == wh_mask_leader(mask)) {
        const uint64_t now = wh_fetch_add_u64_relaxed(&header->used, sum) + sum;
        if (now > wh_load_u64_relaxed(&header->peak)) {
            (void)wh_fetch_max_u64_relaxed(&header->peak, now);
        }
    }
}

/* Blocks of `bytes` bytes together have been given back. */
WH_FN void wh_tessera_uncount_(wh_tessera_ref g, uint64_t bytes) {
    wh_add_u64_relaxed(&wh_tessera_header_(*g)->used, 0 - bytes);
}

/* --- runs ------------------------------------------------------------------------ */

/* Tags claimed chunks as one run and returns it: lane `rank` of n that share the work. */
WH_FN void *wh_tessera_make_run_(wh_tessera_core g, uint64_t first, uint64_t chunks, uint32_t rank,
                                 uint32_t n) {
    for (uint64_t i = rank; i < chunks; i += n) { /* so that a free of its inside is seen */
        wh_store_u64_relaxed(wh_tessera_tag_at_(g, (uint32_t)(first + i)),
                             i == 0 ? chunks << 32 | WH_TESSERA_RUN : WH_TESSERA_INNER);
    }
    return g.base + (first << g.chunk_log2);
}

/* A run in the pool for lane `owner` of mask: chunks in a row, of which some multiple of align (a
 * power of two) starts `keep`; it keeps these. First in words below `end`, then anywhere. All lanes
 * of mask, with the same arguments; they search together, and the owner claims: who comes too late
 * searches again. Returns the run's address; NOTHING: the pool had no such row. */
WH_FN_SLOW uint64_t wh_tessera_take_run_(wh_tessera_ref g, wh_mask_t mask, uint32_t owner,
                                         uint32_t set, uint64_t end, uint64_t chunks, uint64_t keep,
                                         uint64_t align) {
    const wh_veb pool = wh_tessera_pool_(*g);
    const uint64_t all = ((uint64_t)g->n_chunks + 63) >> 6;
    for (;;) {
        uint64_t first =
            end < all ? wh_veb_find_run_together(pool, mask, chunks, end) : WH_VEB_NONE;
        if (first == WH_VEB_NONE) {
            first = wh_veb_find_run_together(pool, mask, chunks, all);
        }
        if (first == WH_VEB_NONE) {
            return WH_TESSERA_NOTHING;
        }
        uint64_t got = WH_TESSERA_NOTHING;
        if (wh_lane_id() == owner) {
            (void)wh_tessera_begin_(*g, set);
            if (wh_veb_claim_range(pool, first, chunks)) {
                const uint64_t address = (uint64_t)(uintptr_t)g->base + (first << g->chunk_log2);
                const uint64_t start =
                    first + ((wh_round_up(address, align) - address) >> g->chunk_log2);
                if (start > first) {
                    wh_veb_insert_range(pool, first, start - first);
                }
                if (WH_PLANT(tessera_run_rest, start + keep < first + chunks, 0)) { /* I1 */
                    wh_veb_insert_range(pool, start + keep, first + chunks - (start + keep));
                }
                got = (uint64_t)(uintptr_t)wh_tessera_make_run_(*g, start, keep, 0, 1);
            }
            wh_tessera_end_(*g, set);
        }
        got = wh_shfl_u64(mask, got, owner);
        if (got != WH_TESSERA_NOTHING) {
            return got;
        }
    }
}

/* One attempt at a run for lane `owner` under the heap's lock, which it holds: the run's address,
 * NOTHING if there is none (X1), or else WAIT: look again. All lanes of mask, with the same
 * arguments. */
WH_FN_SLOW uint64_t wh_tessera_run_locked_(wh_tessera_ref g, wh_mask_t mask, uint32_t owner,
                                           uint32_t set, uint64_t chunks, uint64_t keep,
                                           uint64_t align) {
    const int owns = wh_lane_id() == owner;
    /* First without disturbing the cursors. */
    uint64_t got = wh_tessera_take_run_(g, mask, owner, set, UINT64_MAX, chunks, keep, align);
    if (got != WH_TESSERA_NOTHING) {
        return got;
    }
    if (wh_tessera_detach_(g, mask, set)) { /* others may find some, too */
        if (owns) {
            wh_add_u32_relaxed(&wh_tessera_header_(*g)->run_news, 1);
        }
        return WH_TESSERA_WAIT;
    }
    const uint64_t events = wh_tessera_total_(mask, wh_tessera_part_(*g, mask, WH_TESSERA_EVENTS));
    const uint64_t done = wh_tessera_part_(*g, mask, WH_TESSERA_DONE);
    const uint64_t begun = wh_tessera_part_(*g, mask, WH_TESSERA_BEGUN);
    const uint64_t attached = wh_tessera_part_(*g, mask, WH_TESSERA_ATTACHED);
    if (!wh_tessera_used_up_(*g, mask)) {
        return WH_TESSERA_WAIT;
    }
    got = wh_tessera_take_run_(g, mask, owner, set, UINT64_MAX, chunks, keep, align);
    if (got != WH_TESSERA_NOTHING) {
        return got;
    }
    const int same = done == begun && wh_tessera_part_(*g, mask, WH_TESSERA_BEGUN) == begun &&
                     wh_tessera_part_(*g, mask, WH_TESSERA_ATTACHED) == attached;
    if (WH_PLANT(tessera_run_same, /* X1 */
                 !wh_all(mask, same) || !wh_tessera_used_up_(*g, mask), 0)) {
        return WH_TESSERA_WAIT;
    }
    const uint64_t known = /* X2 */
        WH_PLANT(tessera_run_events, events,
                 wh_tessera_total_(mask, wh_tessera_part_(*g, mask, WH_TESSERA_EVENTS)));
    if (owns) {
        wh_store_u64_release(&wh_tessera_header_(*g)->run_verdict, known << 24 | chunks);
    }
    return WH_TESSERA_NOTHING;
}

/* Whether a verdict says that there is no run of so many chunks. X2. All lanes of mask; each lane
 * for itself. */
WH_FN int wh_tessera_no_run_(wh_tessera_core g, wh_mask_t mask, uint64_t chunks) {
    const uint64_t verdict = wh_load_u64_acquire(&wh_tessera_header_(g)->run_verdict);
    const int fits = (verdict & 0xffffff) != 0 && chunks >= (verdict & 0xffffff);
    return wh_any(mask, fits) &&
           wh_tessera_total_(mask, wh_tessera_part_(g, mask, WH_TESSERA_EVENTS)) == verdict >> 24 &&
           fits;
}

#define WH_TESSERA_RUN_TRIES 4u

/* Requests of more than a chunk, or for an alignment of more. All lanes of mask call; a lane
 * with n = 0 takes no part. First each group of lanes with one size tries places of its own,
 * from the back of the heap, as many runs in a word of the pool as fit; then the lanes that
 * found them taken search one by one. */
WH_FN_SLOW void *wh_tessera_run_(wh_tessera_ref g, wh_mask_t mask, uint32_t set, uint64_t n,
                                 uint64_t align) {
    wh_tessera_header *header = wh_tessera_header_(*g);
    const uint64_t chunk = (uint64_t)1 << g->chunk_log2;
    const uint64_t keep = (n >> g->chunk_log2) + ((n & (chunk - 1)) != 0);
    const uint64_t extra = align > chunk ? (align >> g->chunk_log2) - 1 : 0;
    const uint64_t chunks = keep + extra;
    void *p = NULL;
    int need = n != 0 && keep <= g->n_chunks && chunks <= g->n_chunks;
    if (wh_tessera_no_run_(*g, mask, need ? chunks : 0)) { /* without disturbing other searches */
        need = 0;
    }
    const wh_group same = wh_group_by_u64(mask, need && extra == 0 ? keep : 0);
    const uint32_t wanted = need ? (uint32_t)keep : 1; /* else keep may be anything */
    const uint32_t in_word = wanted < 64 ? 64u / wanted : 1;
    const uint32_t words = (wanted + 63) >> 6;
    const uint32_t all_words = g->n_chunks >> 6;
    const uint32_t places = (all_words - (g->begin >> 6)) / words;
    if (need && extra == 0 && places != 0) {
        if (wh_group_leads(same)) {
            (void)wh_tessera_begin_(*g, set);
        }
        wh_mask_t left = same.lanes;
        WH_NO_UNROLL
        for (uint32_t tries = 0; tries < WH_TESSERA_RUN_TRIES && left != 0; tries++) {
            uint32_t at = 0;
            if (wh_group_leads(same)) {
                at = wh_fetch_add_u32_acq_rel(&header->run_position, wh_popc32(left));
            }
            at = wh_shfl_u32(same.lanes, at, same.leader) + wh_mask_rank(left);
            if (p == NULL) {
                const uint64_t word = all_words - (uint64_t)(at / in_word % places + 1) * words;
                const uint64_t first = (word << 6) + at % in_word * keep;
                if (wh_veb_claim_range(wh_tessera_pool_(*g), first, keep)) {
                    p = g->base + (first << g->chunk_log2);
                }
            }
            left = wh_ballot(same.lanes, p == NULL);
        }
        WH_NO_UNROLL
        for (uint32_t k = 0; k < same.n; k++) { /* the tags of one run after the other */
            const uint32_t lane = wh_select64(same.lanes, k);
            const uint64_t run = wh_shfl_u64(same.lanes, (uint64_t)(uintptr_t)p, lane);
            if (run != 0) {
                (void)wh_tessera_make_run_(*g,
                                           (run - (uint64_t)(uintptr_t)g->base) >> g->chunk_log2,
                                           keep, same.rank, same.n);
            }
        }
        wh_syncwarp(same.lanes);
        if (wh_group_leads(same)) {
            wh_tessera_end_(*g, set);
        }
    }
    need = need && p == NULL;
    /* The others one by one: in the pool, from some place down, so that searches seldom meet; what
     * is not there only the holder of the lock may ask cursors for, or give up. */
    const uint64_t end =
        ((uint32_t)(wh_thread_id() >> 5) * 2654435761u * (uint64_t)all_words >> 32) + 1;
    uint64_t seen = UINT64_MAX;   /* the verdict when the caller looked at it: none yet */
    uint32_t news = 0, fresh = 1; /* run_news at its last search in the pool */
    WH_NO_UNROLL
    for (uint32_t attempt = 0;; attempt++) {
        const wh_mask_t needy = wh_ballot(mask, need);
        if (needy == 0) {
            break;
        }
        const uint32_t first = wh_mask_leader(needy);
        const int its = wh_lane_id() == first;
        const uint64_t its_chunks = wh_shfl_u64(mask, chunks, first);
        const uint64_t its_keep = wh_shfl_u64(mask, keep, first);
        const uint64_t its_align = wh_shfl_u64(mask, align, first);
        int waits = 0; /* the lock is another lane's, and X2 says no more than before */
        int looks = 0;
        if (its) {
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
            const uint64_t from = wh_shfl_u64(mask, end, first);
            got = wh_tessera_take_run_(g, mask, first, set, from, its_chunks, its_keep, its_align);
            got = got != WH_TESSERA_NOTHING ? got : WH_TESSERA_WAIT;
            waits = 0;
        }
        if (got == WH_TESSERA_WAIT) {
            if (wh_any(mask, waits)) {
                wh_backoff(attempt);
                continue;
            }
            const int no_run = wh_tessera_no_run_(*g, mask, its ? chunks : 0);
            const int locked = its && !no_run && wh_exchange_u32_acquire(&header->run_lock, 1) == 0;
            if (wh_any(mask, locked)) { /* all lanes search for this one */
                got = wh_tessera_run_locked_(g, mask, first, set, its_chunks, its_keep, its_align);
                if (locked) {
                    wh_store_u32_release(&header->run_lock, 0);
                }
            }
            got = no_run ? WH_TESSERA_NOTHING : got;
        }
        if (its) {
            need = got == WH_TESSERA_WAIT;
            p = got != WH_TESSERA_WAIT && got != WH_TESSERA_NOTHING ? (void *)(uintptr_t)got : NULL;
        }
        if (wh_any(mask, its && need)) {
            wh_backoff(attempt);
        }
    }
    if (n != 0 && p == NULL) {
        wh_add_u64_relaxed(&wh_tessera_set_at_(*g, set)->failed, 1);
    }
    return p;
}

/* Frees a run; anything else that gets here is a bad pointer. */
WH_FN_SLOW void wh_tessera_free_run_(wh_tessera_ref g, uint32_t set, uint64_t offset) {
    const uint64_t chunk = offset >> g->chunk_log2;
    if (chunk < g->n_chunks && (offset & (((uint64_t)1 << g->chunk_log2) - 1)) == 0) {
        uint64_t *at = wh_tessera_tag_at_(*g, (uint32_t)chunk);
        const uint64_t tag = wh_load_u64_relaxed(at);
        if (wh_tessera_kind(tag) == WH_TESSERA_RUN &&
            wh_cas_u64_acq_rel(at, tag, WH_TESSERA_FREE) == tag) {       /* one free wins */
            wh_veb_insert_range(wh_tessera_pool_(*g), chunk, tag >> 32); /* P3 */
            wh_add_u32_relaxed(&wh_tessera_set_at_(*g, set)->events, 1); /* X2 */
            if (g->tracks) {
                wh_tessera_uncount_(g, tag >> 32 << g->chunk_log2);
            }
            return;
        }
    }
    wh_tessera_bad_free_(*g, set, 1);
}

/* --- the contract ---------------------------------------------------------------- */

WH_FN uint32_t wh_tessera_my_set_(wh_tessera_t h) {
    const uint32_t set = wh_sm_id() * h.set_scale >> 16;
    return set < h.last_set ? set : h.last_set;
}

/* Whether n is of a class of 2^k bytes whose slab is for a full warp. */
WH_HD int wh_tessera_is_whole_(uint64_t n, uint32_t max_whole) {
    const uint32_t m = (uint32_t)n - 1;
    return n > 256 && n <= max_whole && (m >> (29 - wh_clz32(m)) & 3) == 3;
}

/* Makes chunks that a full warp has claimed its slab: 32 slots of 2^size_log2 bytes, class c. The
 * caller's. */
WH_FN void *wh_tessera_hand_out_(wh_tessera_core g, uint32_t set, uint32_t c, uint32_t size_log2,
                                 uint32_t slab) {
    const uint32_t all = 0xffffffffu, lane = wh_lane_id();
    const uint32_t order = size_log2 + 5 - g.chunk_log2;
    if (lane < 1u << order) { /* at most 32: a class is at most a chunk */
        wh_store_u64_relaxed(wh_tessera_tag_at_(g, slab + lane),
                             wh_tessera_whole_tag(c, order, size_log2, set));
    }
    if (lane == 0) {
        wh_store_u64_relaxed(wh_tessera_words_of_(g, slab), 0);
    }
    wh_syncwarp(all);
    return g.base + ((uint64_t)slab << g.chunk_log2) + ((uint64_t)lane << size_log2);
}

/* A full warp that wants slots of 2^size_log2 bytes, class c, takes a slab of its own, 32 slots,
 * from the next place of its set. NULL for all lanes if that place is taken. Kept short: code that
 * an SM runs for the first time in a kernel comes from memory. */
WH_FN void *wh_tessera_whole_(wh_tessera_core g, uint32_t set, uint32_t c, uint32_t size_log2) {
    const uint32_t all = 0xffffffffu;
    const uint32_t lane = wh_lane_id();
    const uint32_t order = size_log2 + 5 - g.chunk_log2;
    wh_tessera_set *counters = wh_tessera_set_at_(g, set);
    uint32_t slab = g.n_chunks;
    if (lane == 0) {
        const uint32_t ticket = wh_fetch_add_u32_relaxed(&counters->begun, 1); /* P4 */
        const int none = wh_load_u32_hint(&counters->no_places) != 0; /* on its way meanwhile */
        const uint32_t place = wh_tessera_next_place(g, set, ticket, order);
        const uint64_t bits = wh_tessera_chunks_(place, order);
        /* P3, P4. The summary above a word that this empties stays: a search clears it. */
        const uint64_t got =
            none ? 0
                 : wh_fetch_and_u64_acquire(wh_veb_word(wh_tessera_pool_(g), place >> 6), ~bits) &
                       bits;
        if (got == bits) {
            slab = place;
            wh_add_u32_relaxed(&counters->done, 1); /* P4: nothing has become available */
        } else {
            if (got != 0) {
                (void)wh_veb_insert_mask(wh_tessera_pool_(g), place >> 6, got);
            }
            wh_add_u32_release(&counters->done, 1); /* P4 */
        }
    }
    slab = wh_shfl_u32(all, slab, 0);
    return slab == g.n_chunks ? NULL : wh_tessera_hand_out_(g, set, c, size_log2, slab);
}

/* What a claim of chunks in a row has come to. */
typedef struct wh_tessera_try {
    uint32_t place;  /* of the first one */
    uint32_t ticket; /* which gave that place */
    int got;         /* all of them */
    uint64_t back;   /* a part of them, of that word of the pool: to be put back */
} wh_tessera_try;

WH_FN wh_tessera_try wh_tessera_no_try_(wh_tessera_core g) {
    wh_tessera_try now;
    now.place = g.n_chunks;
    now.ticket = 0;
    now.got = 0;
    now.back = 0;
    return now;
}

/* Claims n chunks from `place` on, if they lie in one word of the pool. P3. The summary above a
 * word that this empties stays: a search clears it. P4: between begin and end. */
WH_FN wh_tessera_try wh_tessera_try_place_(wh_tessera_core g, uint32_t place, uint32_t n) {
    wh_tessera_try now = wh_tessera_no_try_(g);
    now.place = place;
    if ((place & 63) + n <= 64) {
        const uint64_t mask = wh_tessera_n_chunks_(place, n);
        now.back =
            wh_fetch_and_u64_acquire(wh_veb_word(wh_tessera_pool_(g), place >> 6), ~mask) & mask;
        now.got = now.back == mask;
    }
    return now;
}

/* After a try: what it got of a row that was not all there. */
WH_FN void wh_tessera_try_back_(wh_tessera_core g, wh_tessera_try now) {
    if (!now.got && now.back != 0) {
        wh_veb_put_back(wh_tessera_pool_(g), now.place >> 6, now.back);
    }
}

#define WH_TESSERA_SEEN_TRIES 4u

/* Where a warp begins to look at words of the pool that are not its set's. */
WH_FN uint32_t wh_tessera_random_(void) {
    return ((uint32_t)(wh_thread_id() >> 5) + 1) * 2654435761u;
}

/* A full warp whose place was taken: some sets run out before the heap does, so its lanes look at a
 * word of the pool each, of whatever set, and it takes a place that one of them has seen. NULL: it
 * has to go to its cursor. */
WH_FN_SLOW void *wh_tessera_whole_again_(wh_tessera_ref g, uint32_t set, uint32_t c, uint64_t n) {
    const wh_tessera_core core = *g;
    const uint32_t all = 0xffffffffu, lane = wh_lane_id();
    const uint32_t size_log2 = 32 - wh_clz32((uint32_t)n - 1);
    const uint32_t order = size_log2 + 5 - core.chunk_log2;
    const uint32_t words = (core.places >> 6) * core.n_sets; /* from the first place on */
    wh_tessera_set *const own = wh_tessera_set_at_(core, set);
    uint32_t random = wh_tessera_random_(), slab = core.n_chunks, begun = 0;
    if (lane == 0) {
        begun = wh_tessera_begin_(core, set); /* P4 */
    }
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < WH_TESSERA_SEEN_TRIES && slab == core.n_chunks; tries++) {
        random = random * 1664525u + 1013904223u;
        /* Words far from each other: warps seldom look at the same. */
        const uint32_t k = (uint32_t)((uint64_t)random * words >> 32) + lane * (words / 32 + 1);
        const uint32_t word = (core.begin >> 6) + k % words;
        const uint64_t bits = wh_load_u64_relaxed(wh_veb_word(wh_tessera_pool_(core), word));
        const uint32_t at = wh_tessera_fit_(bits, order);
        const wh_mask_t seen = wh_ballot(all, at < 64);
        if (seen == 0) {
            continue;
        }
        const uint32_t place = wh_shfl_u32(all, word << 6 | at, wh_mask_leader(seen));
        wh_tessera_try now = wh_tessera_no_try_(core);
        if (lane == 0 && begun != UINT32_MAX) { /* P4: the claim waits for begun */
            now = wh_tessera_try_place_(core, place, 1u << order);
            wh_tessera_try_back_(core, now);
        }
        slab = wh_shfl_u32(all, now.got ? now.place : core.n_chunks, 0);
    }
    if (lane == 0) {
        wh_add_u32_relaxed(&own->done, 1); /* P4: what has become available is so behind a fence */
        if (slab == core.n_chunks) {
            wh_store_u32_relaxed(&own->no_places, 1); /* until a span is attached */
        }
    }
    return slab != core.n_chunks ? wh_tessera_hand_out_(core, set, c, size_log2, slab) : NULL;
}

/* --- packs ------------------------------------------------------------------------ */

#define WH_TESSERA_PACK_LANES 16u /* a group of as many lanes goes to its cursor */
#define WH_TESSERA_PACK_LEAST 16u /* granules that a warp has to want */
#define WH_TESSERA_PACK_TRIES 5u
#define WH_TESSERA_NO_PACKS 8u /* packs not to ask for, when there were none */

/* Claims chunks for a pack where the set puts the next one. */
WH_FN wh_tessera_try wh_tessera_try_ticket_(wh_tessera_core g, wh_tessera_set *own, uint32_t set,
                                            uint32_t chunks) {
    uint32_t ticket = wh_fetch_add_u32_relaxed(&own->packs, chunks);
    uint32_t place = wh_tessera_pack_place(g, set, ticket);
    if ((place & 63) + chunks > 64) { /* the rest of the word stays */
        ticket = wh_fetch_add_u32_relaxed(&own->packs, chunks);
        place = wh_tessera_pack_place(g, set, ticket);
    }
    wh_tessera_try now = wh_tessera_try_place_(g, place, chunks);
    now.ticket = ticket;
    return now;
}

/* Claims chunks for a pack: the first; n_chunks: there are none. All lanes of a full warp. Where
 * the set puts the next one; if that is taken, the lanes look at a word of the set's own each, this
 * one and those behind it, and all packs of the set go on where the first of these has enough; if
 * that is of no use either, they look at words of other sets, and take what one of them has seen.
 * The first try is not part of the loop: what one lane does in a loop, the others do not wait for
 * (the compiler for the GPU lets them go on), and all that follows would be done twice. */
WH_FN uint32_t wh_tessera_claim_pack_(wh_tessera_core g, wh_tessera_set *own, uint32_t set,
                                      uint32_t chunks) {
    const uint32_t all = 0xffffffffu, lane = wh_lane_id();
    wh_tessera_try now = wh_tessera_no_try_(g);
    uint32_t no_packs = 0, begun = 0;
    if (lane == 0) {
        no_packs = wh_load_u32_hint(&own->no_packs); /* on its way meanwhile */
        begun = wh_fetch_add_u32_relaxed(&own->begun, WH_PLANT(tessera_p4, 1, 0)); /* P4 */
        if (no_packs == 0 && begun != UINT32_MAX) { /* P4: the claim waits for begun */
            now = wh_tessera_try_ticket_(g, own, set, chunks);
        }
    }
    uint32_t found = wh_shfl_u32(all, now.got ? now.place : g.n_chunks, 0);
    if (found == g.n_chunks) {
        int is_own = !wh_any(all, no_packs != 0);
        uint32_t random = wh_tessera_random_();
        WH_NO_UNROLL
        for (uint32_t tries = 0; tries < WH_TESSERA_PACK_TRIES && found == g.n_chunks; tries++) {
            wh_tessera_try_back_(g, now);
            now.back = 0;
            is_own &= tries == 0;
            random = random * 1664525u + 1013904223u;
            const uint32_t far = random + (lane << 27); /* of all sets alike, and some row */
            const uint32_t at = wh_shfl_u32(all, now.place, 0) & 63;
            const uint32_t ticket = wh_shfl_u32(all, now.ticket, 0) - at + 64 * lane;
            const uint32_t of = is_own ? set : wh_high_u32(wh_mul_wide_u32(far, g.n_sets));
            const uint32_t row = wh_high_u32(wh_mul_wide_u32(far * 2654435761u, g.places));
            const uint32_t word = wh_tessera_pack_place(g, of, is_own ? ticket : row) >> 6;
            const uint64_t bits = wh_load_u64_relaxed(wh_veb_word(wh_tessera_pool_(g), word));
            const uint32_t from = is_own && lane == 0 ? at : 0; /* what comes back is for later */
            const uint64_t rows = wh_tessera_rows_(bits, chunks) >> from;
            const wh_mask_t seen = wh_ballot(all, rows != 0);
            if (seen == 0) {
                no_packs = is_own ? WH_TESSERA_NO_PACKS + 1 : no_packs;
                continue;
            }
            const uint32_t first = from + (rows != 0 ? wh_ctz64(rows) : 0);
            const uint32_t next =
                wh_shfl_u32(all, (is_own ? ticket : word << 6) + first, wh_mask_leader(seen));
            if (lane == 0 && is_own) {
                (void)wh_fetch_max_u32_relaxed(&own->packs, next);
                now = wh_tessera_try_ticket_(g, own, set, chunks);
            } else if (lane == 0 && begun != UINT32_MAX) { /* P4 */
                now = wh_tessera_try_place_(g, next, chunks);
            }
            found = wh_shfl_u32(all, now.got ? now.place : g.n_chunks, 0);
        }
    }
    if (lane == 0) {
        wh_tessera_try_back_(g, now);
        if (no_packs != 0) {
            wh_store_u32_relaxed(&own->no_packs, no_packs - 1);
        }
        /* P4: what has become available is so behind a fence */
        wh_add_u32_relaxed(&own->done, WH_PLANT(tessera_p4, 1, 0));
    }
    return found;
}

/* Blocks of `need` granules, at most half a chunk, for all lanes of a full warp where that is not
 * 0, in a pack that the warp cuts for them: one behind the other, and the last one gets what is
 * left. NULL for all: they want too little together, or there was no place. Two atomics in a row;
 * waits for nobody. */
WH_FN void *wh_tessera_pack_(wh_tessera_core core, uint64_t *tags, uint64_t *words,
                             uint32_t words_log2, wh_tessera_set *own, uint32_t set,
                             uint32_t need) {
    const uint32_t all = 0xffffffffu, lane = wh_lane_id();
    const uint32_t end = wh_scan_add_warp_u32(need); /* with those of the lanes below */
    const uint32_t total = wh_shfl_u32(all, end, WH_WARP_SIZE - 1);
    if (total < WH_TESSERA_PACK_LEAST) {
        return NULL;
    }
    const uint32_t start = end - need;
    const uint32_t chunks = (total + WH_TESSERA_GRANULES - 1) / WH_TESSERA_GRANULES;
    const uint32_t pack = wh_tessera_claim_pack_(core, own, set, chunks);
    /* The first lane in each chunk writes its tag. No chunk is passed over, since no block is
     * longer than half of one. Where blocks start: a sum of different bits, up to and with the lane
     * before the next chunk, less those of the chunks before. */
    const uint32_t chunk = start / WH_TESSERA_GRANULES;
    const uint32_t bit = need != 0 ? 1u << start % WH_TESSERA_GRANULES : 0;
    const uint32_t bits = wh_scan_add_warp_u32(bit);
    const uint32_t before = wh_shfl_u32(all, chunk, (lane - 1) & (WH_WARP_SIZE - 1));
    const wh_mask_t blocks = wh_ballot(all, need != 0);
    const wh_mask_t firsts = wh_ballot(all, lane == 0 || before != chunk);
    const wh_mask_t after = firsts & (0xfffffffeu << lane);
    const uint32_t last = wh_popc32(~after & (after - 1)) - 1; /* before the next first one */
    const uint32_t starts = wh_shfl_u32(all, bits, last) - (bits - bit);
    const uint32_t slots = wh_popc32(blocks);
    if (pack == core.n_chunks) {
        return NULL;
    }
    if ((firsts >> lane & 1) != 0 && chunk < chunks) {
        wh_store_u64_relaxed(&tags[pack + chunk], wh_tessera_pack_tag(slots, wh_mask_rank(blocks),
                                                                      chunk, chunks, starts));
    }
    if (lane == WH_WARP_SIZE - 1 && chunk + 1 < chunks) { /* none starts in the last one */
        wh_store_u64_relaxed(&tags[pack + chunk + 1],
                             wh_tessera_pack_tag(slots, slots, chunk + 1, chunks, 0));
    }
    if (lane == 0) { /* it may be all ones: I2 */
        wh_store_u64_relaxed(&words[(uint64_t)pack << words_log2], 0);
    }
    return need == 0 ? NULL
                     : core.base + ((uint64_t)pack << core.chunk_log2) +
                           (start << wh_tessera_granule_log2(core.chunk_log2));
}

/* What is neither a slot of a cursor nor to be had from one: full warps that want a slab of their
 * own, and runs. */
WH_FN_SLOW void *wh_tessera_rare_(wh_tessera_ref g, wh_mask_t mask, wh_mask_t lanes, uint32_t set,
                                  uint32_t c, void *p, uint64_t n) {
    const int is_run = c == WH_TESSERA_NO_CLASS && n != 0;
    if (p == NULL && lanes == 0xffffffffu && wh_tessera_is_whole_(n, g->max_whole)) {
        p = wh_tessera_whole_again_(g, set, c, n);
    }
    if (wh_any(mask, is_run)) {
        void *q = wh_tessera_run_(g, mask, set, is_run ? n : 0, 1);
        p = is_run ? q : p;
    }
    return p;
}

/* Whether some lane of a full warp (mask) says so; 0: some lane that is at this place with the
 * caller. Lanes that go where none of them has anything to do find no progress there, so each place
 * that asks is a place of its own (a macro: the simulated device tells them by their lines). */
#define WH_TESSERA_SOME(mask, pred) ((mask) == 0 ? wh_any_here(pred) : wh_any((mask), (pred)))

/* An add to a word of the cursor of class c for r lanes of which the caller leads, if one has
 * slots or is about to (P2, I1): what it returned is now->v, and the caller may have become
 * its crosser. 0: not yet, or the cursor is closed, and the caller STUCK. */
WH_FN uint64_t wh_tessera_try_(wh_tessera_set *own, uint32_t c, uint32_t r, wh_tessera_asked *now) {
    wh_tessera_cursor *cursor = &own->cursors[c];
    const uint32_t which =
        wh_tessera_which_(wh_load_u64_relaxed(&cursor->span), wh_load_u64_relaxed(&cursor->spare));
    uint64_t got = 0;
    if (which < 2) {
        got = wh_fetch_add_u64_acquire(wh_tessera_word_(cursor, which), r * WH_TESSERA_POSITION);
        now->attach = wh_tessera_crosses_(got, r) ? 1 + which : 0;
        now->v = got;
    } else if (which == WH_TESSERA_BOTH_CLOSED) {
        now->attach = WH_TESSERA_STUCK;
    }
    return got;
}

/* For lanes of which some lack a slot of class c and none is a crosser or for rare: whoever needs
 * one waits until a word of the cursor has changed, and adds. Returns when all have one, or some
 * have become crossers, or are STUCK: nobody waits while another lane of its warp has something to
 * do, if the two are together. mask: all its lanes call, and return together; of a full warp
 * `lanes` is the caller's group. 0: each lane waits for itself, and stays with those that are here.
 * It makes no calls, on purpose. Where a part of a warp may go around a call, ptxas has the lanes
 * meet behind it by way of one certain barrier register, in all functions the same. A kernel that
 * calls malloc in such a place has lanes wait there: they would be let go when others of the warp
 * use that register in here, and the warp would stay apart from then on (docs/TESSERA.md). */
WH_FN_SLOW wh_tessera_asked wh_tessera_await_(wh_tessera_ref g, wh_tessera_set *own, wh_mask_t mask,
                                              wh_mask_t lanes, uint32_t c, uint64_t v, void *p) {
    const wh_tessera_class row =
        wh_tessera_header_of_(g)->classes[c != WH_TESSERA_NO_CLASS ? c : 0];
    unsigned char *base = g->base;
    const uint32_t chunk_log2 = wh_tessera_row_chunk_log2(row);
    int need = p == NULL && c != WH_TESSERA_NO_CLASS;
    wh_tessera_asked now;
    now.p = p;
    now.v = v;
    now.attach = 0;
    if (mask != 0xffffffffu) { /* each for itself */
        lanes = (wh_mask_t)1 << wh_lane_id();
    }
    const uint32_t leader = wh_mask_leader(lanes);
    WH_NO_UNROLL
    for (uint32_t attempt = 0;; attempt++) {
        if (mask != 0) {
            const wh_mask_t needy = wh_ballot(mask, need) & lanes;
            uint64_t got = 0; /* slots from its position on are the group's */
            if (wh_lane_id() == leader && needy != 0) {
                got = wh_tessera_try_(own, c, wh_popc32(needy), &now);
            }
            got = wh_shfl_u64(mask, got, leader);
            if (need) {
                now.p = wh_tessera_nth_(base, chunk_log2, row, got, wh_mask_rank(needy));
            }
        } else if (need) {
            now.p = wh_tessera_nth_(base, chunk_log2, row, wh_tessera_try_(own, c, 1, &now), 0);
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

/* What await cannot do, for lanes of which some are crossers, for rare, or STUCK: spans for the
 * former, and all there is for the others. Some may still need a slot then. All lanes of mask, or
 * if that is 0 those that are here; `lanes`: of a full warp the caller's group. attach and v as in
 * wh_tessera_asked; n is the request of a lane that has no p yet.
 */
WH_FN_SLOW wh_tessera_asked wh_tessera_more_(wh_tessera_ref g, wh_tessera_set *own, wh_mask_t mask,
                                             wh_mask_t lanes, uint32_t set, uint32_t c,
                                             uint32_t attach, uint64_t v, void *p, uint64_t n) {
    const uint32_t crosses = attach & WH_TESSERA_CROSSES;
    if (mask != 0xffffffffu) {
        if (mask == 0) {
            const wh_mask_t here = wh_activemask();
            const int slots = (attach & WH_TESSERA_SLOTS) != 0; /* they search in another way */
            mask = wh_ballot(here, slots);
            mask = slots ? mask : here & ~mask;
        }
        lanes = (wh_mask_t)1 << wh_lane_id();
    }
    wh_tessera_asked now;
    now.p = p;
    now.v = v;
    now.attach = 0;
    if (wh_any(mask, crosses != 0)) {
        now = wh_tessera_attach_all_(g, own, mask, lanes, set, c, crosses, v, p);
    }
    if (wh_any(mask, ((now.attach | attach) & WH_TESSERA_STUCK) != 0)) {
        const uint32_t owes = now.attach & WH_TESSERA_CROSSES;
        now.p = wh_tessera_slow_(g, mask, lanes, set, c, (attach & WH_TESSERA_SLOTS) == 0,
                                 owes != 0, owes != 0 ? owes - 1 : 0, now.v, now.p);
        now.attach = WH_TESSERA_ENDS;
    }
    /* Behind what others wait for, since a run may have to wait for them (C1). */
    if (wh_any(mask, (attach & WH_TESSERA_RARE) != 0)) {
        now.p = wh_tessera_rare_(g, mask, lanes, set, c, now.p, n);
    }
    now.attach = c == WH_TESSERA_NO_CLASS ? WH_TESSERA_ENDS : now.attach;
    wh_syncwarp(mask); /* that the warp stays together */
    return now;
}

/* For lanes whose cursor's span had no slot for them, *v is what the add of their group returned:
 * slots of the spare span, but for the crosser's group. *attach, *v: as in wh_tessera_asked. */
WH_FN void *wh_tessera_spare_(wh_tessera_t h, wh_tessera_cursor *cursor, wh_tessera_class row,
                              wh_mask_t mask, wh_group same, int leads, uint32_t *attach,
                              uint64_t *v, void *p) {
    const int together = mask == 0xffffffffu; /* else same is the caller alone */
    const wh_mask_t needy = together ? wh_ballot(mask, p == NULL) & same.lanes : p == NULL;
    const uint32_t r = wh_popc32(needy);
    uint64_t got = 0;
    if (leads && r != 0) {
        if (wh_tessera_crosses_(*v, same.n)) {
            *attach = 1;
        } else if (!wh_tessera_is_over_(*v)) {
            got = WH_PLANT(tessera_p2_spare, wh_fetch_add_u64_acquire, wh_fetch_add_u64_relaxed)(
                &cursor->spare, r * WH_TESSERA_POSITION); /* P2, I1 */
            *attach = wh_tessera_crosses_(got, r) ? 2 : 0;
            *v = got;
        }
    }
    got = together ? wh_shfl_u64(mask, got, same.leader) : got;
    const uint32_t rank = together ? wh_mask_rank(needy) : 0;
    return p != NULL ? p : wh_tessera_nth_(h.base, h.chunk_log2, row, got, rank);
}

/* What malloc does not find at once. Lanes that have what they want come along with the others, so
 * that their warp stays together. A function of its own, though that is another call: what is kept
 * from one turn to the next would else be in memory whenever malloc is called (docs). */
WH_FN_SLOW void *wh_tessera_ask_(wh_tessera_ref g, wh_tessera_set *own, wh_mask_t mask,
                                 wh_mask_t lanes, uint32_t set, uint32_t c, uint32_t attach,
                                 uint64_t v, void *p, uint64_t n) {
    const uint32_t slots = attach & WH_TESSERA_SLOTS;
    attach &= ~WH_TESSERA_SLOTS;
    while (WH_TESSERA_SOME(mask, (p == NULL && n != 0) || attach != 0)) {
        const wh_tessera_asked now =
            WH_TESSERA_SOME(mask, attach != 0)
                ? wh_tessera_more_(g, own, mask, lanes, set, c, attach | slots, v, p, n)
                : wh_tessera_await_(g, own, mask, lanes, c, v, p);
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
        wh_tessera_count_(g, mask, p);
    }
    return p;
}

/* The lanes of a full warp ask in groups of one class. Those of a part of one each ask for
 * themselves, as they can only tell each other by shuffles (simt/cuda.h), which take longer than
 * the atomics that they would save. Then all of mask go on together, also those that have what they
 * want: a lane that allocates for others may not be left by them (warpheap.h). If mask is 0 those
 * do that happen to be here, where that helps. may_pack: a constant; else the block is a slot, or a
 * run, but in no case one of a pack. */
WH_FN void *wh_tessera_malloc_(wh_tessera_t h, wh_mask_t mask, size_t n, int may_pack) {
    const int is_slot = (uint64_t)n - 1 < h.max_slot; /* not so for 0 */
    const uint32_t c = is_slot ? wh_tessera_class_of((uint32_t)n) : WH_TESSERA_NO_CLASS;
    const int together = mask == 0xffffffffu;
    const wh_group same = together ? wh_group_by_u32(mask, c) : wh_group_alone();
    const uint32_t set = wh_tessera_my_set_(h);
    const int full_warp = may_pack && together && !h.tracks;
    const int packs = full_warp && (uint32_t)n > h.pack_above && n <= h.max_slot >> 1 &&
                      same.n < WH_TESSERA_PACK_LANES;
    const int leads = is_slot && !packs && wh_group_leads(same);
    const int whole = together && same.n == 32 && wh_tessera_is_whole_(n, h.core.max_whole);
    const wh_tessera_class row = h.classes[is_slot ? c : 0];
    wh_tessera_set *const own = &h.sets[set];
    uint64_t v = 0;
    void *p = NULL;
    if (whole) {
        p = wh_tessera_whole_(h.core, set, c, 32 - wh_clz32((uint32_t)n - 1));
    } else {
        if (leads) {
            v = WH_PLANT(tessera_p2_claim, wh_fetch_add_u64_acquire, wh_fetch_add_u64_relaxed)(
                &own->cursors[c].span, same.n * WH_TESSERA_POSITION); /* P2, I1 */
        }
        p = wh_tessera_nth_(h.base, h.chunk_log2, row,
                            together ? wh_shfl_u64(mask, v, same.leader) : v, same.rank);
    }
    if (WH_TESSERA_SOME(mask, (p == NULL && n != 0) || h.tracks)) {
        uint32_t attach = 0;
        if (full_warp && wh_any(mask, packs)) {
            const uint32_t need = packs ? wh_tessera_granules((uint32_t)n, h.chunk_log2) : 0;
            void *q = wh_tessera_pack_(h.core, h.tags, h.words, h.words_log2, own, set, need);
            p = packs ? q : p;
        }
        if (!whole && (!full_warp || wh_any(mask, p == NULL && !packs && is_slot))) {
            p = wh_tessera_spare_(h, &own->cursors[c], row, mask, same, leads, &attach, &v, p);
        }
        if (WH_TESSERA_SOME(mask, (p == NULL && n != 0) || attach != 0 || h.tracks)) {
            attach |= whole || (!is_slot && n != 0) ? WH_TESSERA_RARE : 0;
            attach |= !may_pack ? WH_TESSERA_SLOTS : 0;
            p = wh_tessera_ask_(wh_tessera_ref_(h), own, mask, same.lanes, set, c, attach, v, p, n);
        }
    }
    if (mask != 0) { /* P2 reaches the lanes that did not make the atomic themselves */
        WH_PLANT(tessera_p2_lanes, wh_syncwarp(mask), (void)0);
    }
    return p;
}

WH_FN void *wh_tessera_malloc(wh_tessera_t h, wh_mask_t mask, size_t n) {
    return mask == 0xffffffffu ? wh_tessera_malloc_(h, 0xffffffffu, n, 1) /* it is a constant */
                               : wh_tessera_malloc_(h, mask, n, 1);
}

/* A slot of 2^k bytes lies at a multiple of 2^k, as slabs and chunks do. */
WH_FN void *wh_tessera_aligned(wh_tessera_t h, wh_mask_t mask, size_t align, size_t n) {
    const uint64_t size = n == 0 || n > align ? n : align;
    const int is_slot = size - 1 < h.max_slot;
    const uint64_t slot = is_slot ? (uint64_t)1 << wh_log2_ceil(size) : 0;
    void *p = wh_tessera_malloc_(h, mask, (size_t)slot, 0);
    const int is_run = n != 0 && !is_slot;
    if (wh_any(mask, is_run)) {
        void *q =
            wh_tessera_run_(wh_tessera_ref_(h), mask, wh_tessera_my_set_(h), is_run ? n : 0, align);
        p = is_run ? q : p;
        if (h.tracks) {
            wh_tessera_count_(wh_tessera_ref_(h), mask, q);
        }
    }
    wh_syncwarp(mask);
    return p;
}

/* together: a constant; all lanes of the warp call, in groups of one word. Else each lane for
 * itself. */
WH_FN void wh_tessera_free_(wh_tessera_t h, int together, void *p) {
    const uint32_t all = 0xffffffffu;
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
    wh_group same = wh_group_alone();
    if (together) {
        wh_syncwarp(all); /* every lane's last use comes before its leader's release */
        same = wh_group_in_words(all, word, slot, is_slot, &bits, &twice);
    }
    if (is_slot) {
        if (wh_group_leads(same)) {
            const uint32_t slab = word >> h.words_log2;
            const uint64_t tag_again = wh_again_u64(tag); /* above 32 registers fewer warps fit */
            const uint64_t past = wh_tessera_past_last(slots);
            const uint64_t freed = wh_tessera_with_past(bits, past);
            /* P1. A group that frees all slots of a slab has nobody to hear from, and what it says
             * itself goes with the pool's word (P3), if the slab is its own at once (I4): not if
             * one of them was free. */
            uint64_t old = 1;
            if (freed == ~(uint64_t)0) { /* so it has up to 32 slots */
                old = wh_cas_u64_relaxed(&h.words[word], 0, ~(uint64_t)0);
            }
            if (old != 0) {
                old = WH_PLANT(tessera_p1_free, wh_fetch_or_u64_acq_rel,
                               wh_fetch_or_u64_relaxed)(&h.words[word], freed);
            }
            const uint32_t set = wh_tessera_my_set_(h);
            const uint64_t all_free = wh_tessera_all_free(slots, slot >> 6);
            int any = 1; /* slots that were not free before */
            if ((wh_low_u32(bits & old) | wh_high_u32(bits & old) | twice) != 0) {
                wh_tessera_bad_free_(h.core, set, twice + wh_popc64(bits & old));
                any = (bits & ~old) != 0;
            }
            if (any) {
                wh_tessera_freed_(h.core, set, slab, tag_again, slots, (old & ~past) == 0,
                                  (all_free & ~(old | freed)) == 0, !together);
            }
            if (h.tracks) {
                wh_tessera_uncount_(wh_tessera_ref_(h),
                                    (uint64_t)wh_popc64(bits & ~old) * wh_tessera_tag_size(tag));
            }
        }
    } else if (p != NULL) {
        wh_tessera_free_run_(wh_tessera_ref_(h), wh_tessera_my_set_(h), offset);
    }
}

WH_FN void wh_tessera_free(wh_tessera_t h, wh_mask_t mask, void *p) {
    if (mask == 0xffffffffu) {
        wh_tessera_free_(h, 1, p);
    } else {
        wh_tessera_free_(h, 0, p);
    }
}

WH_FN uint64_t wh_tessera_usable_size(wh_tessera_t h, const void *p) {
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
                                       1);
        return (uint64_t)WH_TESSERA_FIT_LENGTH(fit) << wh_tessera_granule_log2(h.chunk_log2);
    }
    return wh_tessera_block_bytes_(h.chunk_log2, &h.tags[chunk]);
}

WH_FN int wh_tessera_owns(wh_tessera_t h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.base) < h.bytes;
}

#define wh_tessera_NAME "tessera"
#define wh_tessera_MAX_ALIGN (1u << 20)
#define wh_tessera_BLOCKS 6
#define wh_tessera_EACH 1

#include "warpheap/alloc/tessera/inspect.h"

#endif
