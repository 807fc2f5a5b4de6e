/* alloc/tessera: a general heap. docs/tessera/README.md explains it with figures. This comment is
 * the protocol that all of its files are parts of; below it, malloc's fast path, free and the rest
 * of the contract.
 *
 * Files
 *   layout.h   the structures, the size classes and the packed words
 *   steps.h    brackets of takes (P4), claims, what follows a free (P1, I4 to I6)
 *   spans.h    spans: from the pool to a cursor (C1, P2)
 *   partial.h  what can be had without a span: partial slabs, others' cursors, blocks of packs (T1)
 *   search.h   whether there is anything at all, verdicts (X1 to X3)
 *   slow.h     the slow path of slots; runs.h: more than a chunk; warps.h: full warps' slabs, packs
 *   inspect.h  looks inside; left.h: how many blocks of a size are left
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
 *   pack     up to 16 chunks in a row that a full warp has cut into blocks of the
 *            sizes its lanes wanted; else like a slab of one word, a slot each
 *
 * The idea  A slot of a fresh slab is handed out by the position of a cursor alone: one
 * fetch_add returns the place and the number together, nothing else is touched. Every
 * cursor has a span from the start, in the front of the heap (layout.h). Whoever passes
 * its end attaches the next one; meanwhile the others take from the spare span, so that
 * they seldom wait. A freed slot is a bit in its slab's word. A slab all of whose slots
 * are free goes back to the pool. Slots of slabs that do not get that far are found
 * through the lists once the pool has nothing for a class. Lanes of a full warp that want
 * different sizes, most of them of more than a 16th of a chunk, would each have to wait for a
 * cursor: they have chunks cut for them instead, and wait for nobody.
 *
 * Fields and who writes them (all device scope)
 *   span, spare
 *            malloc: fetch_add of the position, acquire. The refiller (C1): store release.
 *            detach: cas to CLOSED. reopen: cas from CLOSED (span: to UNDER_WAY; spare: to
 *            VACANT)
 *   word     free, and whoever gives slots back: fetch_or acq_rel. A taker: cas acq_rel, from
 *            neither 0 nor all ones (I4); in a slab of several words also fetch_and acq_rel, from
 *            whatever is there, between enter and leave (I5). Set to 0, or in the pool to all
 *            ones (I2), by the owner of a whole slab.
 *   state    of a slab of several words: how many words are not full, and how many takers are at
 *            work. EMPTY: none, or the chunk is no slab of several words. The free that makes a
 * word full: sub. A taker: cas, then add. The owner of a claimed chunk: store (P7) tag      class,
 * order, slot size of a slab, on each of its chunks: stored by the owner of a claimed chunk before
 * P2 publishes it pool     claimed by mask, inserted by the owner of a whole slab or run list where
 * searches look first (I6): by or, release; takers take slabs off by and skip_home, held,
 * pool_was_empty, home_was_empty, place, rows, tries, reuse, packs, skip_packs, told hints,
 * relaxed: full warps found no slabs; chunks of the spans of a shard's cursors, first spans apart;
 * the pool had no span; the shard's home words of it had none; which of these is next; which part
 * of a row of such, for a wide span; how often lists were preferred; slabs with free slots, eight a
 * class; where the next pack may be; how many more are not for the shard's home words; what had
 * been freed when NULL was returned run_lock exchange acquire, by a lane whose warp may close
 * cursors for a run, or set a verdict of runs; store release. run_news: relaxed, how often that has
 * been done begun, done   per shard, bracket whatever takes memory: from the pool, a list, a pack.
 * attached: spans published, per shard. events, frees: memory has become available in the pool or
 * in a slab, per shard asked    requests that wanted to know whether there is anything: fetch_add
 * acq_rel, which gives each its number. wanted: a hint, of which classes: or, relaxed, before that;
 *            who has search_lock: and
 *   search_lock   exchange acquire, by a lane whose warp searches for all; store release. Others
 *            look at it, relaxed, and take nothing meanwhile
 *   verdict  per class, the events and frees at which a full search found nothing; answered: the
 *            requests (below that number) that have been asked before it began; those who do
 *            not want a block of a pack have verdicts of their own. Stored, release, by who has
 *            search_lock
 *   used, peak, mallocs
 *            with track_peak or track_totals: malloc adds after it has its blocks, free subtracts
 *            after it has given them back, relaxed; peak: fetch_max of what the adds made of used.
 *            So peak is the most that used has been, and used counts each block from malloc to
 *            the return of its free. mallocs: blocks given, with track_totals; what of them is
 *            not live has been freed
 *
 * Invariants
 *   I1  a slot is in exactly one hand: a caller's, a cursor's (position <= slot), a 1 in
 *       its word, or with the whole slab in the pool or in transit
 *   I2  a chunk in the pool belongs to nobody: its words past the first are zero; its
 *       first is zero, or all ones if it last was the first of a slab of one word; its state is
 *       EMPTY; its tag is not of a slab of several words, so that a double free finds no slab
 *   I3  the tag of a chunk does not change while any of its slots is in a caller's hand.
 *       So free may trust it, whatever order its load has
 *   I4  nobody takes from a word that is all ones, but who has pinned its slab (I5). So who makes
 *       the word of a slab of one word so owns the slab and returns it, without another atomic;
 *       and a taker that does not pin does not change which words of a slab of several are
 *       full. The tail bits go with the first slot of their word: they are free and
 *       taken together. So all ones is all free whatever class a taker believes the slab to be
 *       of, and in a fresh slab no bit is there to take
 *   I5  slab of several words: whose atomic makes its state EMPTY (all words full, no takers)
 *       owns the slab and returns it, without another atomic. A taker pins by a cas from a
 *       state that is not EMPTY, so from then on nobody changes it. A word counts as not full
 *       when its taker leaves, as full when its free has counted it: so without takers no more
 *       words count as full than are, and a slot of a word that is not full keeps its slab, so
 *       that takers of such need not pin (T1). EMPTY is the same for all classes, as a taker may
 *       enter with the tag of an earlier life
 *   I6  when quiet, a slab with a word that is not zero nor I4's full goes on the partial list, a
 * pack on a list of its own: by the free that made it non-zero, or the taker that took the slab off
 * the list and looks at its words behind that: the or on the list releases, the remove acquires.
 * Before that a search may miss it, though the free has returned, but not X1's I7  takes_done =
 * takes_begun when quiet I8  held = the chunks of what the shard's cursors have in them, when quiet
 *   I9  pack: its slots are its blocks in the order of their addresses, without a gap; the tags
 *       of its chunks say where they start, all before the first malloc of it returns, and then
 *       stay (I3). Its word is like one of a slab of as many slots (I4, T1)
 *
 *   C1  refiller: the add that passes the last slot of a span, from at or before it. One
 *       per published span, since positions only grow; it alone stores the word's next
 *       value. Positions do not overflow: who finds one MOST_OVER past the end adds to neither
 *       word of the cursor until that one has changed (wh_tessera_is_over_)
 *
 *   T1  claim, then validate: a taker that has not pinned the slab reads the tag again after its
 *       cas. What it holds pins the slab (I3). If the slab has meanwhile been another
 *       class's, it gives back the bits it took, which may be some of those past the last slot;
 *       the first slot of that word is not to be had meanwhile. It sees the new tag, since a bit
 *       that it took from a word that was 0 when the tag was stored has been freed since (P1). A
 *       taker of a pack's block then looks again where that slot's block lies, and whether it is
 *       large enough
 *   X1  exact out-of-memory: NULL only if one warp, which has search_lock, has seen, in this
 *       order, that (1) takes_begun = takes_done, for takes of all classes, since a taker of any
 * may hold a slot of this one for a while (T1) or keep a slab from going back (I5); (2) every
 *       cursor was used up or has been closed; (3) no word of a slab of the class had a free
 *       slot, nor, if the caller takes blocks of packs, a pack a free one that would do for the
 *       class's largest request (fits_: small requests have the short ones, large requests any
 *       that is long enough), and (4) the pool was empty on its lowest level; and then begun and
 *       attached are the same as before and no cursor is between two spans. Without a take, what
 *       is available in (3) and (4) only grows or moves from a slab to the pool, so what was there
 *       after (2) would have been seen. A slab on that move counts as free: full and not in the
 *       pool, or EMPTY. A span that is claimed without a bracket leaves its cursor between two
 *       spans meanwhile, which (2) and the last look see
 *   X2  a verdict holds while no events come: every free that has returned has counted one
 *   X3  a verdict holds for all who had asked before its search began, whatever has been freed
 *       since: at one moment of their calls there was nothing for them. A search looks at the
 *       classes of all who had asked, so one answers all who wait
 *
 * Ordering pairs
 *   P1  free: fetch_or on the word, release -> the word's taker (cas, fetch_and), or the lane that
 *       made it full (fetch_or), acquire; that returns a slab of several words: through the
 *       state, acq_rel
 *   P2  span published: store release -> malloc: fetch_add acquire. What the other lanes of the
 *       refiller's warp have claimed (P3), formatted and begun (P4) comes before: a sync of them
 *   P3  slab or run returned: pool insert -> claim (core/veb.h P1), also by way of a claim that
 *       is put back. With P1 and P2: what the old owner of a slot wrote happens before the
 *       new owner's use. Where another lane than the one that claimed chunks, or took a span from
 *       a cursor, makes slots of them free for all, a sync of the two comes before
 *   P4  begun is raised before the take: by its release (core/veb.h P3), or because whether
 *       and where to take depends on what the add returned, or by the release that publishes a
 *       span, behind which the rest of a claim is put back; done after it, release -> a search
 *       that saw the take's effect sees begun
 *   P5  list: what level 0 has is there before the levels above are told (core/veb.h P2)
 *   P6  what has become available is there before the event that tells of it is counted: the
 *       word's fetch_or and the pool's insert are acquire, so the add comes after them. (Atomics
 *       that have returned are in the L2, where all look. PTX by itself would ask for an add that
 *       releases, a fence in every free: under the simulated device's formal memory this pair does
 *       not hold.) A verdict that knows the event (X2) has searched with it, since it reads events
 *       first. A lane that counts for others of its warp does so between two syncs with them:
 *       behind their fetch_or, and before they return
 *   P7  a slab's tag is there before bits of it that nobody has freed may be taken (store release
 *       of the word), or takers be let in (a fence before its state loses EMPTY) -> the taker's
 *       atomic on either, acquire, before it reads the tag (T1, I5)
 *   P8  a request gets its number behind the caller's last free (and those of the lanes that it
 *       asks with: a sync), acq_rel -> the search reads asked by an atomic, acq_rel, before it
 *       looks at anything (its other lanes: a sync): what a request with a lower number has freed,
 *       it sees. Its verdict, store release -> who asks, acquire
 *
 * Progress  malloc: one fetch_add on the fast path. A lane waits only for the refillers of
 *       its cursor (which wait for nobody: their search of the pool is bounded, and refill_one
 *       comes again only when it has seen free words in one of the shard's rows, which it then
 *       gets unless another take or refiller was faster; a lane of a part of
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
 *       Single chunks (gather): again only if others took what was seen, or something was got.
 *       Partial slabs for a full warp: again only if it got some, but for four looks in vain; for
 *       its groups, if it is of several classes, likewise, but for two.
 * Cost  malloc: 1 atomic per group of lanes with one class, if the whole warp calls, else 1
 *       a lane; 1 more while the span of the
 *       cursor has no slots; about ten more for the refiller. A full warp of one class of
 *       2^k >= 512 bytes takes a slab of its own from the pool: 2 atomics, 2 more for each of up to
 *       three other shards if the place is taken; it never waits.
 *       Lanes of a full warp that want different sizes of 1 to 8 KiB (in chunks of 16) get a pack,
 *       or the same size, if blocks of a pack are hardly longer than slots of the class; and those
 *       that want less, too, if the warp wants 48 KiB or more: 2 atomics for all of
 *       them, and never wait. Where there is no place for such a slab or pack, a look at some
 *       words of the pool; then single chunks, 1 atomic for each of its words that has some.
 *       free: 1 load and 1 atomic per group of lanes with one word (likewise), 1 more by the
 *       group that makes the word empty; and up to two that nobody waits for.
 *       Run: 4 tries at places from the back of the heap, else a search of the lowest level
 *       of the pool, a word a lane.
 *       NULL: a look at all tags and words of slabs of the class by the lanes of the warp
 *       together; then one warp looks at all there is for all, unless a verdict holds.
 * Check tests/conform, tests/stress, tests/unit/tessera_layout.c, tessera_warps.c (C1: no
 *       word overflows; full warps; late takers), tessera_packs.c (I9, X1 of packs),
 *       tessera_spans.c (C1, P2 to P4 of the next span for a full warp of one class),
 *       tessera_gather.c (I2, I6, I7, T1, P4 of single chunks for a full warp),
 *       tessera_partial.c (I1, I6, I7, X3 of partial slabs for a full warp),
 *       tessera_exhausted.c (what NULL costs: X3, progress), tessera_formal.c (I6's pair),
 *       tests/fault/tessera.c (I1, I4 to I6, T1, X1 to X3, P1 to P4, P6 to P8); wh_tessera_check
 *       (I1 to I9). P5 and the rest of P3 are core/veb.h's.
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

/* An add to a word of the cursor of class c for r lanes of which the caller leads, if one has
 * slots or is about to (P2, I1): what it returned is now->v, and the caller may have become
 * its refiller. 0: not yet, or the cursor is closed, and the caller STUCK; or its refiller will be
 * long, which the caller has waited for (`attempt`), and it WAITS no more without a look at the
 * list. */
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
    now.attach = !wh_tessera_looks_(attach)             ? attach
                 : served || attach == WH_TESSERA_WAITS ? 0
                                                        : attach | WH_TESSERA_LOOKED;
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
    wh_assert_internal(c < g->n_classes);
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
        const uint32_t room = before + view_n <= n ? view_n : before < n ? n - before : 0;
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
        uint32_t rank = wh_mask_rank(needy); /* among those who have none yet */
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
 * group. attach and v as in wh_tessera_outcome; n is the request of a lane that has no p yet.
 */
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
WH_FN_SLOW void *wh_tessera_ask_(const wh_tessera_core *g, wh_tessera_shard *own_shard,
                                 wh_mask mask, wh_mask lanes, uint32_t shard, uint32_t c,
                                 uint32_t attach, uint64_t v, void *p, uint64_t n) {
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
