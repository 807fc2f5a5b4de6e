/* alloc/tessera/checked.h: heaps that check what their users do (the option checked), and records
 * of what failed. docs/CHECKED.md is for users. This file may change: it is no part of the API.
 *
 * A checked heap is a layer over the plain one, whose block, here *raw* block, has room for more:
 *
 *   raw block | header 48 | zone, 16 or more | the user's block | zone, 16 to 31 | rest |
 *
 * Zones have one byte over and over. The user's block lies at `front`, 64 or the alignment. A free
 * marks the block, poisons its first bytes (poison_bytes), and puts it in quarantine. Its raw block
 * goes back to the plain heap when those that came later need the room.
 *
 * How calls get here. The handle of a checked heap says that no size is small, and no address
 * inside. So malloc and free, as they are inlined, call wh_tessera_more_ and wh_tessera_free_run_,
 * which look at `tracks`. `plain` in the watch is the handle as it would be. In a user's kernel
 * these do so only with WH_CHECKED (contract.h), and only such kernels get the handle. There a full
 * warp goes on together (mask, a constant): its blocks share atomics. 0: a lane works for itself.
 *
 * header   state: stored by malloc, relaxed, its last store; cas by free; store by who lets the
 *          block go. The rest: stores, relaxed, by malloc, and of a free's site by the lane that
 *          has freed, in place of who allocated. All is in reach of the user's mistakes: nothing is
 *          believed without its check word, which the address and the epoch are part of. `epoch`
 *          changes with each reset
 * slots    the quarantine's ring: 1 + offset of a raw block, or 0; exchange alone
 * tail     slots that have been given: fetch_add, relaxed. head: those below have been emptied, or
 *          their lanes are about to: fetch_add, relaxed, and fetch_max by who is a round ahead. It
 *          may go beyond tail
 * held     raw bytes that are in slots, or on their way in: add, relaxed, before; sub, release,
 *          behind the add to `leaving`
 * leaving  raw bytes on their way out: add, relaxed; sub, release, when the plain heap has them
 * events   blocks that the plain heap has got back: add, release
 *
 * R1       a block is freed by the lane whose cas takes its state from LIVE to FREED, and nobody
 *          else: of frees at once all but one are violations
 * R2       a block that is in a slot is taken out by one exchange, which also empties or refills
 *          the slot: so it is let go once. No block of a number that head has passed stays in its
 *          slot: the lane that passed it, or that has the slot's next number and raises head first,
 *          exchanges the slot behind that. If its exchange comes before the block is put in, the
 *          lane that puts it in sees head (P14), and takes the block back
 * R3       a block counts as held, or leaving, until the plain heap has it: of a full warp all do,
 *          a sync, then lane 0 says so. NULL only after a search of the plain heap during which
 *          nothing came back, and behind which the quarantine is empty (held, leaving, events:
 *          loads, acquire): so it was all the time. What came in meanwhile had been in use
 *
 * P14      header, zones and poison, then the exchange into a slot, acq_rel -> the exchange that
 *          takes the block out, acq_rel: who lets it go sees what the free has written. Likewise
 *          head is raised, then a slot is exchanged -> its next exchange, then head is read (R2).
 *          For a full warp lane 0 raises it: then a sync
 * P15      malloc: header and zones, then a fence -> free: a fence, then the header: the pointer
 *          may have come by a relaxed store, and a block without a header would be called stale
 * P16      alloc/record.h
 *
 * Progress free: wait-free but for the plain heap's part: each turn of its loop passes a slot, down
 *          to its share or to the end. malloc of a full heap: each turn has let blocks go, or waits
 *          for a lane that does, which waits for nobody
 * Cost     malloc: that of the plain heap, and a store for each 8 bytes of header, zones, poison.
 *          free: 8 loads for the header and its place, a load for each 8 bytes of zones, a store
 *          for each 8 of poison, 1 atomic, and of a lane or a warp 2; then about the same for a
 *          block that is let go, with 2 atomics and 4
 * Check    tests/unit/checked.c, tests/fault/checked, tests/stress with checked=1
 */
#ifndef WH_ALLOC_TESSERA_CHECKED_H
#define WH_ALLOC_TESSERA_CHECKED_H

#include "warpheap/detail/alloc/tessera/failures.h"
#include "warpheap/detail/alloc/tessera/guard.h"
#include "warpheap/detail/alloc/tessera/inspect.h"
#include "warpheap/detail/alloc/tessera/slow.h"

#include "warpheap/detail/simt/begin.h"

/* Whether the plain heap has given the raw block out: neither free, nor a cursor's. */
WH_FN_SLOW int wh_tessera_is_out_(const wh_tessera_core *g, uint64_t offset) {
    const uint32_t chunk = (uint32_t)(offset >> g->chunk_log2);
    const uint64_t tag = wh_load_u64_relaxed(wh_tessera_tag_at_(*g, chunk));
    if (wh_tessera_kind(tag) != WH_TESSERA_SLAB) {
        return wh_tessera_kind(tag) == WH_TESSERA_RUN;
    }
    wh_tessera_slab_view view;
    const uint32_t slab = chunk - wh_tessera_tag_at(tag);
    if (!wh_tessera_view_slab_(*g, slab, &view)) {
        return 0;
    }
    const uint64_t size = wh_tessera_header_of_(g)->classes[wh_tessera_tag_class(tag)].slot_size;
    const uint32_t slot = (uint32_t)((offset - ((uint64_t)slab << g->chunk_log2)) / size);
    const uint64_t word =
        wh_load_u64_relaxed(wh_tessera_words_of_(*g, slab) + slot / WH_TESSERA_WORD_SLOTS);
    return !wh_tessera_is_gone(word) && (word >> slot % WH_TESSERA_WORD_SLOTS & 1) == 0 &&
           (slot < view.left || slot >= view.end);
}

/* --- bytes ---------------------------------------------------------------------------------- */

/* This byte, eight times. */
WH_FN uint64_t wh_tessera_eight_(uint32_t byte) {
    return byte * (~(uint64_t)0 / 255);
}
/* Of the word at `at`, the bytes of [from, to). */
WH_FN uint64_t wh_tessera_bytes_of_(uint64_t at, uint64_t from, uint64_t to) {
    const uint64_t below = from > at ? wh_ones_from_u64((uint32_t)(from - at) * 8) : ~(uint64_t)0;
    return to - at >= 8 ? below : below & ~wh_ones_from_u64((uint32_t)(to - at) * 8);
}

/* The first of bytes [from, to) of a raw block that is another one; `to`: none is. */
WH_FN_SLOW uint64_t wh_tessera_unlike_(const unsigned char *raw, uint64_t from, uint64_t to,
                                       uint32_t byte) {
    const uint64_t *words = (const uint64_t *)(const void *)raw;
    const uint64_t all = wh_tessera_eight_(byte);
    WH_NO_UNROLL
    for (uint64_t at = from & ~(uint64_t)7; at < to; at += 8) {
        const uint64_t wrong =
            (wh_load_u64_relaxed(&words[at / 8]) ^ all) & wh_tessera_bytes_of_(at, from, to);
        if (wrong != 0) {
            return at + wh_ctz64(wrong) / 8;
        }
    }
    return to;
}

/* Words from `from` to `to`, both multiples of 8. */
WH_FN_SLOW void wh_tessera_fill_(unsigned char *raw, uint64_t from, uint64_t to, uint32_t byte) {
    uint64_t *words = (uint64_t *)(void *)raw;
    const uint64_t all = wh_tessera_eight_(byte);
    WH_NO_UNROLL
    for (uint64_t at = from; at < to; at += 8) {
        wh_store_u64_relaxed(&words[at / 8], all);
    }
}

/* The end of the poison of a block in [front, end) of the raw one. */
WH_FN uint64_t wh_tessera_poison_end_(const wh_tessera_core *g, uint64_t front, uint64_t end) {
    const uint64_t most = g->watch->poison_bytes;
    return end - front > most ? front + most : (end + 7) & ~(uint64_t)7;
}

WH_FN uint64_t wh_tessera_zone_start_(uint64_t front) {
    return front - WH_TESSERA_HEADER > WH_TESSERA_ZONE_LOOK ? front - WH_TESSERA_ZONE_LOOK
                                                            : WH_TESSERA_HEADER;
}

/* --- records -------------------------------------------------------------------------------- */

/* What a violation is about. */
typedef struct wh_tessera_event {
    uint64_t address, bytes;
    int64_t offset;
    wh_site site, allocated, freed;
    uint32_t kind;
    uint32_t by_host; /* the host asked for the look: no lane's call */
} wh_tessera_event;

WH_FN void wh_tessera_put_record_(wh_record *r, const wh_tessera_event *e, uint64_t number) {
    r->number = number;
    r->kind = e->kind;
    r->block = e->by_host ? 0 : wh_block_id();
    r->thread = e->by_host ? WH_UNKNOWN : wh_thread_id();
    r->address = e->address;
    r->bytes = e->bytes;
    r->offset = e->offset;
    wh_record_put_site_(&r->site, e->site);
    wh_record_put_site_(&r->allocated, e->allocated);
    wh_record_put_site_(&r->freed, e->freed);
    r->free_bytes = r->largest_free = r->class_bytes = r->class_partial = 0;
}

/* Notes a violation; the option may say that it ends the kernel. */
WH_FN_SLOW void wh_tessera_violation_(const wh_tessera_core *g, wh_tessera_event e) {
    const wh_tessera_watch *w = g->watch;
    uint64_t number;
    wh_record_row *row = wh_record_begin_(w->violations, e.kind, &number);
    if (row != NULL) {
        wh_tessera_put_record_(&row->record, &e, number);
        wh_record_end_(row, number);
    }
    if (w->traps && !e.by_host) {
        wh_trap("a violation of a checked heap: wh_heap_violations has its record");
    }
}

WH_FN wh_tessera_event wh_tessera_event_of_(const wh_tessera_core *g, const wh_tessera_raw *raw,
                                            uint32_t kind, wh_site site) {
    wh_tessera_event e;
    e.kind = kind;
    e.address = (uint64_t)(uintptr_t)(g->base + raw->offset + raw->front);
    e.bytes = raw->size;
    e.offset = 0;
    e.site = site;
    e.allocated = raw->allocated;
    e.freed = raw->freed;
    e.by_host = 0;
    return e;
}

/* Notes a violation if one of bytes [from, to) of a raw block is not `byte`. How many. */
WH_FN_SLOW uint32_t wh_tessera_look_between_(const wh_tessera_core *g, const wh_tessera_raw *raw,
                                             wh_tessera_event e, uint64_t from, uint64_t to,
                                             uint32_t byte) {
    const uint64_t bad = wh_tessera_unlike_(g->base + raw->offset, from, to, byte);
    if (bad == to) {
        return 0;
    }
    e.offset = (int64_t)(bad - raw->front);
    wh_tessera_violation_(g, e);
    return 1;
}

/* Whether zones of a block, or in quarantine the block itself, have been written to: how many such
 * places there are. */
WH_FN_SLOW uint32_t wh_tessera_look_over_(const wh_tessera_core *g, const wh_tessera_raw *raw,
                                          wh_site site, uint32_t by_host) {
    const uint64_t front = raw->front, end = front + raw->size;
    const uint64_t zone = wh_tessera_zone_end_(front, raw->size);
    const int is_live = raw->state == WH_TESSERA_LIVE;
    const uint64_t behind = is_live ? end : (end + 7) & ~(uint64_t)7; /* poison is whole words */
    wh_tessera_event e = wh_tessera_event_of_(g, raw, WH_RECORD_USE_AFTER_FREE, site);
    e.by_host = by_host;
    e.kind = is_live ? (uint32_t)WH_RECORD_UNDERRUN : e.kind;
    uint32_t found = wh_tessera_look_between_(g, raw, e, wh_tessera_zone_start_(front), front,
                                              WH_TESSERA_ZONE_BYTE);
    if (!is_live) {
        found += wh_tessera_look_between_(g, raw, e, front, wh_tessera_poison_end_(g, front, end),
                                          WH_TESSERA_FREED_BYTE);
    }
    e.kind = is_live ? (uint32_t)WH_RECORD_OVERRUN : e.kind;
    return found + wh_tessera_look_between_(g, raw, e, behind, zone, WH_TESSERA_ZONE_BYTE);
}

/* --- back to the plain heap ------------------------------------------------------------------ */

/* A raw block goes back to the plain heap: what wh_tessera_free_ does for a lane alone. */
WH_FN_SLOW void wh_tessera_raw_free_(const wh_tessera_core *g, uint64_t offset) {
    const uint32_t shard = wh_tessera_my_shard_(g->watch->plain);
    const uint32_t chunk = (uint32_t)(offset >> g->chunk_log2);
    const uint64_t tag = wh_load_u64_relaxed(wh_tessera_tag_at_(*g, chunk));
    if (wh_tessera_kind(tag) != WH_TESSERA_SLAB) {
        wh_tessera_free_chunks_(g, shard, offset);
        return;
    }
    const uint32_t c = wh_tessera_tag_class(tag), slab = chunk - wh_tessera_tag_at(tag);
    const uint64_t size = wh_tessera_header_of_(g)->classes[c].slot_size;
    const uint32_t slot = (uint32_t)((offset - ((uint64_t)slab << g->chunk_log2)) / size);
    const uint32_t i = slot / WH_TESSERA_WORD_SLOTS;
    const uint64_t bits = (uint64_t)1 << slot % WH_TESSERA_WORD_SLOTS;
    uint64_t *const at = wh_tessera_words_of_(*g, slab) + i;
    wh_tessera_shard *const own = wh_tessera_shard_at_(*g, shard);
    const uint64_t old = wh_fetch_or_u64_acq_rel(at, bits | wh_tessera_word_of(c)); /* P1, P7, P9 */
    if (!wh_tessera_freed_well_(own, at, tag, old, bits, 0)) {
        return;
    }
    if ((g->tracks & WH_TESSERA_COUNTS) != 0) {
        wh_tessera_count_frees_(g, size);
    }
    if (wh_tessera_is_empty_(*g, tag, i, old, bits)) {
        wh_tessera_freed_(g, shard, slab, tag, i, old, bits);
    } else if (wh_tessera_is_unlisted_(*g, c, slab)) {
        wh_tessera_add_partial_(*g, c, slab);
    }
    wh_tessera_hint_(&own->cursors[c], (slab + i) * 0x9e3779b9u, slab, i);
    if (c >= WH_TESSERA_SMALL) {
        wh_add_u32_relaxed(&own->events, 1); /* X2 */
    }
}

/* --- lanes that go on together --------------------------------------------------------------
 *
 * By shuffles: a vote behind a call may go wrong (simt/cuda.h). */

/* Whom mask stands for: all lanes of a full warp, or 0: the calling one. */
WH_FN uint64_t wh_tessera_sum_(wh_mask mask, uint64_t v) {
    WH_NO_UNROLL
    for (uint32_t d = WH_WARP_SIZE / 2; mask != 0 && d != 0; d /= 2) {
        v += wh_shfl_u64(mask, v, wh_lane_id() ^ d);
    }
    return v;
}
/* The same of the lanes up to the caller. */
WH_FN uint64_t wh_tessera_sum_up_(wh_mask mask, uint64_t v) {
    const uint32_t lane = wh_lane_id();
    WH_NO_UNROLL
    for (uint32_t d = 1; mask != 0 && d < WH_WARP_SIZE; d *= 2) {
        const uint64_t below = wh_shfl_u64(mask, v, (lane - d) & (WH_WARP_SIZE - 1));
        v += lane >= d ? below : 0;
    }
    return v;
}
/* The lanes that say so, a bit each; of a lane alone bit 0. */
WH_FN uint32_t wh_tessera_votes_(wh_mask mask, int pred) {
    uint32_t bits = (uint32_t)(pred != 0) << (mask != 0 ? wh_lane_id() : 0);
    WH_NO_UNROLL
    for (uint32_t d = WH_WARP_SIZE / 2; mask != 0 && d != 0; d /= 2) {
        bits |= wh_shfl_u32(mask, bits, wh_lane_id() ^ d);
    }
    return bits;
}
/* How many of them come before the caller. */
WH_FN uint32_t wh_tessera_before_(wh_mask mask, uint32_t votes) {
    return mask != 0 ? wh_popc32(votes & (((uint32_t)1 << wh_lane_id()) - 1)) : 0;
}
WH_FN int wh_tessera_leads_(wh_mask mask) {
    return mask == 0 || wh_lane_id() == 0;
}
WH_FN uint64_t wh_tessera_from_leader_(wh_mask mask, uint64_t v) {
    return mask != 0 ? wh_shfl_u64(mask, v, 0) : v;
}

/* --- quarantine ------------------------------------------------------------------------------ */

/* A block leaves: its bytes are compared, and the plain heap has it. */
WH_FN_SLOW void wh_tessera_let_out_(const wh_tessera_core *g, const wh_tessera_raw *raw,
                                    wh_site site) {
    const uint64_t offset = raw->offset;
    if (raw->state == WH_TESSERA_FREED) {
        (void)wh_tessera_look_over_(g, raw, site, 0);
    } else { /* it was, when it came in */
        wh_tessera_event e = wh_tessera_event_of_(g, raw, WH_RECORD_USE_AFTER_FREE, site);
        e.address = (uint64_t)(uintptr_t)(g->base + offset + WH_TESSERA_FRONT);
        e.offset = -(int64_t)WH_TESSERA_FRONT;
        wh_tessera_violation_(g, e);
    }
    wh_store_u64_relaxed(&wh_tessera_guard_(g, offset)->state, raw->key + WH_TESSERA_LET_GO);
    wh_tessera_raw_free_(g, offset);
}

/* Blocks leave quarantine, by lanes that have taken them out of slots (were_held), or that have
 * freed them and do not put them there. entry: 1 + offset; 0: none. Returns its raw bytes. */
WH_FN uint64_t wh_tessera_let_go_(const wh_tessera_core *g, wh_mask mask, uint64_t entry,
                                  wh_site site, int were_held) {
    wh_tessera_watch *w = g->watch;
    wh_tessera_raw raw;
    raw.bytes = 0;
    if (entry != 0) {
        raw = wh_tessera_read_raw_(g, entry - 1);
    }
    const uint64_t bytes = wh_tessera_sum_(mask, raw.bytes);
    const uint32_t n = wh_popc32(wh_tessera_votes_(mask, entry != 0));
    if (n == 0) {
        return 0;
    }
    const int leads = wh_tessera_leads_(mask);
    if (leads) {
        wh_add_u64_relaxed(&w->leaving, bytes); /* R3 */
        if (were_held) {
            wh_add_u64_release(&w->held, 0 - bytes); /* R3 */
        }
    }
    if (entry != 0) {
        wh_tessera_let_out_(g, &raw, site);
    }
    if (mask != 0) {
        wh_syncwarp(mask); /* R3: the plain heap has them */
    }
    if (leads) {
        wh_add_u64_release(&w->events, n);          /* R3 */
        wh_add_u64_release(&w->leaving, 0 - bytes); /* R3 */
    }
    return raw.bytes;
}

WH_FN uint64_t *wh_tessera_quarantine_slot_(wh_tessera_watch *w, uint64_t number) {
    uint64_t *slots = (uint64_t *)(void *)(w + 1);
    return &slots[number & (w->n_entries - 1)];
}

/* How many blocks, `most` or less, are to leave so that `stays` bytes stay: all there are, or as
 * many as that is by their mean size. */
WH_FN uint64_t wh_tessera_too_many_(const wh_tessera_watch *w, uint64_t most, uint64_t stays) {
    const uint64_t held = wh_load_u64_relaxed(&w->held);
    const int64_t n = (int64_t)(wh_load_u64_relaxed(&w->tail) - wh_load_u64_relaxed(&w->head));
    if (n <= 0 || (stays != 0 && held <= stays)) {
        return 0;
    }
    const uint64_t count = stays != 0 ? (held - stays) / (held / (uint64_t)n + 1) + 1 : most;
    return count < most ? count : most;
}

/* Lets the oldest blocks go, for each lane of `bytes` raw bytes together or more, if there are so
 * many that are not on their way; and none once `stays` bytes or less are held. */
WH_FN void wh_tessera_shrink_(const wh_tessera_core *g, wh_mask mask, uint64_t bytes,
                              uint64_t stays, wh_site site) {
    wh_tessera_watch *w = g->watch;
    uint32_t votes;
    WH_NO_UNROLL
    while ((votes = wh_tessera_votes_(mask, bytes != 0)) != 0) {
        uint64_t first = 0, count = 0;
        if (wh_tessera_leads_(mask)) {
            count = wh_tessera_too_many_(w, wh_popc32(votes), stays);
            first = count != 0 ? wh_fetch_add_u64_relaxed(&w->head, count) : 0;
        }
        first = wh_tessera_from_leader_(mask, first);
        count = wh_tessera_from_leader_(mask, count);
        if (count == 0) {
            return;
        }
        if (mask != 0) {
            wh_syncwarp(mask); /* P14 */
        }
        uint64_t entry = 0;
        if (bytes != 0 && wh_tessera_before_(mask, votes) < count) {
            entry = WH_PLANT_ORDER(tessera_p14_oldest, wh_exchange_u64, acq_rel)(
                wh_tessera_quarantine_slot_(w, first + wh_tessera_before_(mask, votes)),
                0); /* R2, P14 */
        }
        const uint64_t gone = wh_tessera_let_go_(g, mask, entry, site, 1);
        bytes -= gone < bytes ? gone : bytes;
    }
}

/* What was in a slot before. */
WH_FN uint64_t wh_tessera_put_in_(uint64_t *slot, uint64_t entry) {
    return WH_PLANT_ORDER(tessera_p14_keep, wh_exchange_u64, acq_rel)(slot, entry); /* R2, P14 */
}

/* Blocks that lanes have freed (mine). Each lets as much go as it brings too much, as if they came
 * one after the other: lanes that come together do not empty the quarantine. */
WH_FN void wh_tessera_keep_freed_(const wh_tessera_core *g, wh_mask mask, const wh_tessera_raw *raw,
                                  int mine, wh_site site) {
    wh_tessera_watch *w = g->watch;
    const uint64_t most = w->quarantine_bytes, n = w->n_entries;
    const int keeps = mine && raw->bytes <= most;
    (void)wh_tessera_let_go_(g, mask, mine && !keeps ? raw->offset + 1 : 0, site, 0);
    const uint64_t bytes = keeps ? raw->bytes : 0, up = wh_tessera_sum_up_(mask, bytes);
    const uint64_t sum = mask != 0 ? wh_shfl_u64(mask, up, WH_WARP_SIZE - 1) : up;
    const uint32_t votes = wh_tessera_votes_(mask, keeps), count = wh_popc32(votes);
    if (count == 0) {
        return;
    }
    uint64_t held = 0, first = 0;
    if (wh_tessera_leads_(mask)) {
        held = wh_fetch_add_u64_relaxed(&w->held, sum);
        first = wh_fetch_add_u64_relaxed(&w->tail, count);
        const uint64_t last = first + count - 1;
        if (last >= n && (int64_t)(last - n - wh_load_u64_relaxed(&w->head)) >= 0) {
            (void)wh_fetch_max_u64_relaxed(&w->head, last - n + 1); /* R2 */
        }
    }
    held = wh_tessera_from_leader_(mask, held) + up;
    const uint64_t number = wh_tessera_from_leader_(mask, first) + wh_tessera_before_(mask, votes);
    if (mask != 0) {
        wh_syncwarp(mask); /* P14 */
    }
    uint64_t over = held > most ? held - most : 0;
    over = over < bytes ? over : bytes;
    uint64_t out[2] = {0, 0};
    if (keeps) {
        uint64_t *slot = wh_tessera_quarantine_slot_(w, number);
        out[0] = wh_tessera_put_in_(slot, raw->offset + 1);
        out[1] = WH_PLANT(tessera_r2, (int64_t)(wh_load_u64_relaxed(&w->head) - number) > 0, 0)
                     ? wh_tessera_put_in_(slot, 0) /* R2 */
                     : 0;
    }
    WH_NO_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t gone = wh_tessera_let_go_(g, mask, out[i], site, 1);
        over -= gone < over ? gone : over;
    }
    wh_tessera_shrink_(g, mask, over, most, site);
}

/* --- free ------------------------------------------------------------------------------------ */

/* Why p, which is no live block's start, must not be freed. */
WH_FN_SLOW void wh_tessera_bad_pointer_(const wh_tessera_core *g, uint32_t shard, uint64_t offset,
                                        const wh_tessera_raw *raw, wh_site site) {
    const uint64_t heap = (uint64_t)g->n_chunks << g->chunk_log2;
    wh_tessera_event e = wh_tessera_event_of_(g, raw, WH_RECORD_STALE_FREE, site);
    const int is_known = raw->state != 0, is_start = raw->offset + raw->front == offset;
    e.address = (uint64_t)(uintptr_t)(g->base + offset);
    e.offset = is_known ? (int64_t)(offset - raw->offset - raw->front) : 0;
    if (offset >= heap) {
        e.kind = WH_RECORD_FOREIGN_FREE;
    } else if (offset % 16 != 0) {
        e.kind = WH_RECORD_MISALIGNED_FREE;
    } else if (is_known && is_start && raw->state != WH_TESSERA_LIVE) {
        e.kind = WH_RECORD_DOUBLE_FREE;
    } else if (raw->state == WH_TESSERA_LIVE) {
        e.kind = WH_RECORD_INTERIOR_FREE;
    } else if (!is_known && raw->offset != UINT64_MAX && wh_tessera_is_out_(g, raw->offset)) {
        e.kind = WH_RECORD_UNDERRUN; /* up to the header: the block stays where it is */
        e.offset = -(int64_t)WH_TESSERA_FRONT;
    }
    wh_tessera_bad_free_(wh_tessera_shard_at_(*g, shard), 1);
    wh_tessera_violation_(g, e);
}

/* The caller frees the block at `offset` from the first chunk on: 1; or that is none: 0. */
WH_FN_SLOW int wh_tessera_mark_freed_(const wh_tessera_core *g, uint32_t shard, uint64_t offset,
                                      wh_site site, wh_tessera_raw *found) {
    WH_PLANT(tessera_p15_free, wh_fence(), (void)0); /* P15 */
    wh_tessera_raw raw = wh_tessera_read_raw_(g, offset);
    if (raw.state != WH_TESSERA_LIVE || raw.offset + raw.front != offset) {
        wh_tessera_bad_pointer_(g, shard, offset, &raw, site);
        return 0;
    }
    wh_tessera_guard *guard = wh_tessera_guard_(g, raw.offset);
    const uint64_t live = raw.key + WH_TESSERA_LIVE, freed = raw.key + WH_TESSERA_FREED;
    if (WH_PLANT(tessera_r1, wh_cas_u64_relaxed(&guard->state, live, freed) != live,
                 (wh_store_u64_relaxed(&guard->state, freed), 0))) { /* R1 */
        raw.state = WH_TESSERA_FREED;
        wh_tessera_bad_pointer_(g, shard, offset, &raw, site);
        return 0;
    }
    (void)wh_tessera_look_over_(g, &raw, site, 0);
    wh_store_u64_relaxed(&guard->freed, site);
    wh_store_u64_relaxed(&guard->freed_check, wh_tessera_mix_(raw.key, site));
    unsigned char *at = g->base + raw.offset;
    const uint64_t end = raw.front + raw.size;
    wh_tessera_fill_(at, raw.front, wh_tessera_poison_end_(g, raw.front, end),
                     WH_TESSERA_FREED_BYTE);
    /* Whole zones: what was written there has been noted. */
    wh_tessera_fill_(at, wh_tessera_zone_start_(raw.front), raw.front, WH_TESSERA_ZONE_BYTE);
    wh_tessera_fill_(at, (end + 7) & ~(uint64_t)7, wh_tessera_zone_end_(raw.front, raw.size),
                     WH_TESSERA_ZONE_BYTE);
    *found = raw;
    return 1;
}

/* Each lane that has one frees the block at its `offset`. */
WH_FN void wh_tessera_checked_free_by_(const wh_tessera_core *g, wh_mask mask, uint32_t shard,
                                       int has, uint64_t offset, wh_site site) {
    wh_tessera_raw raw;
    raw.bytes = raw.offset = 0;
    int mine = 0;
    if (has) {
        mine = wh_tessera_mark_freed_(g, shard, offset, site, &raw);
    }
    wh_tessera_keep_freed_(g, mask, &raw, mine, site);
}
WH_FN_LINKED_FREE(void, wh_tessera_checked_free_,
                  (const wh_tessera_core *g, uint32_t shard, uint64_t offset, wh_site site)) {
    wh_tessera_checked_free_by_(g, 0, shard, 1, offset, site);
}
WH_FN_LINKED_FREE(void, wh_tessera_checked_free_warp_,
                  (const wh_tessera_core *g, uint32_t shard, int has, uint64_t offset,
                   wh_site site)) {
    wh_tessera_checked_free_by_(g, WH_FULL_WARP, shard, has, offset, site);
}

/* --- malloc ---------------------------------------------------------------------------------- */

/* A call has found none, NULL or LATE: counted, or no more. */
WH_FN void wh_tessera_count_failed_(const wh_tessera_core *g, uint32_t shard, const void *none,
                                    int by) {
    wh_add_u64_relaxed(&wh_tessera_shard_at_(*g, shard)->failed, (uint64_t)(int64_t)by);
    if (none == WH_TESSERA_LATE) {
        wh_add_u32_relaxed(&wh_tessera_header_(*g)->growing.timed_out, (uint32_t)by);
    }
}

/* What lanes ask the plain heap for. */
typedef struct wh_tessera_ask_raw {
    uint64_t size;  /* of a block; 0: none any more */
    uint64_t align; /* of a run */
    uint32_t c;     /* the class, or NO_CLASS */
    wh_group group; /* lanes of one class, with a full warp */
} wh_tessera_ask_raw;

WH_FN wh_tessera_ask_raw wh_tessera_ask_raw_(const wh_tessera_core *g, wh_mask mask, uint64_t n,
                                             uint64_t align) {
    const uint64_t chunk = (uint64_t)1 << g->chunk_log2;
    wh_tessera_ask_raw ask;
    ask.size = align > WH_TESSERA_ZONE && n != 0 && n <= chunk
                   ? (uint64_t)1 << wh_log2_ceil(n) /* a slot lies at a multiple of it */
                   : n;
    ask.align = align <= WH_TESSERA_ZONE ? 1 : align;
    ask.c = WH_TESSERA_NO_CLASS;
    if (n != 0 && ask.size <= chunk) { /* n is more than align */
        ask.c = wh_tessera_class_of((uint32_t)ask.size);
    } else if (align <= WH_TESSERA_ZONE) {
        ask.c = wh_tessera_large_class_(g, ask.size);
    }
    ask.group = mask != 0 ? wh_group_by_u32(mask, ask.c) : wh_group_alone();
    return ask;
}

/* Slots of cursors that are open, for a full warp: as wh_tessera_get_ takes them. *v, *refills: as
 * climb_ wants them. */
WH_FN void *wh_tessera_raw_at_once_(const wh_tessera_core *g, wh_mask mask, uint32_t shard,
                                    const wh_tessera_ask_raw *ask, uint64_t *v, int *refills) {
    const int is_slot = ask->c < g->n_small;
    *v = WH_TESSERA_CLOSED;
    *refills = 0;
    if (is_slot && wh_group_leads(ask->group)) {
        uint64_t *const span = &wh_tessera_cursor_at_(*g, shard, ask->c)->span;
        *v = wh_load_u64_relaxed(span);
        if (wh_tessera_is_open(*v)) {
            *v = wh_fetch_add_u64_acquire(span, ask->group.n * WH_TESSERA_POSITION); /* P2, I1 */
            *refills = wh_tessera_passes_end(*v, ask->group.n);                      /* C1 */
        } else {
            *v = wh_tessera_no_slots(*v);
        }
    }
    *v = wh_shfl_u64(mask, *v, ask->group.leader);
    *refills = (int)wh_shfl_u32(mask, (uint32_t)*refills, ask->group.leader);
    wh_syncwarp(mask); /* P2 */
    return is_slot ? wh_tessera_nth_(g->base, g->chunk_log2,
                                     wh_tessera_header_of_(g)->classes[ask->c], *v, ask->group.rank)
                   : NULL;
}

/* Raw blocks for the lanes that ask; NULL, or LATE. at_once: the first time. */
WH_FN void *wh_tessera_raw_malloc_(const wh_tessera_core *g, wh_mask mask, uint32_t shard,
                                   wh_tessera_ask_raw ask, int at_once) {
    const uint32_t c = ask.size != 0 ? ask.c : WH_TESSERA_NO_CLASS;
    uint64_t v = WH_TESSERA_VACANT;
    int refills = 0;
    void *p = NULL;
    if (mask != 0) {
        if (at_once) {
            p = wh_tessera_raw_at_once_(g, mask, shard, &ask, &v, &refills);
        }
        if (wh_tessera_votes_(mask, p == NULL && c != WH_TESSERA_NO_CLASS) != 0) {
            p = wh_tessera_climb_warp_(g, ask.group.lanes, shard, c, v, refills, p);
        }
    } else {
        p = wh_tessera_climb_each_(g, shard, c, v, 0, NULL);
    }
    const int is_run = p == NULL && ask.size != 0 && (c == WH_TESSERA_NO_CLASS || c >= g->n_small);
    if (wh_tessera_votes_(mask, is_run) != 0) {
        void *q =
            wh_tessera_run_(g, mask != 0 ? mask : (wh_mask)1 << wh_lane_id(), shard,
                            is_run ? c : WH_TESSERA_NO_CLASS, is_run ? ask.size : 0, ask.align);
        p = is_run ? q : p;
    }
    if (ask.size != 0 && wh_tessera_is_none_(p)) { /* the caller counts it */
        wh_tessera_count_failed_(g, shard, p, -1);
    }
    return p;
}

/* The same, after all that is in quarantine has come back. R3 */
WH_FN void *wh_tessera_raw_malloc_or_shrink_(const wh_tessera_core *g, wh_mask mask, uint32_t shard,
                                             wh_tessera_ask_raw ask, wh_site site) {
    wh_tessera_watch *w = g->watch;
    void *p = NULL;
    WH_NO_UNROLL
    for (uint32_t attempt = 0;; attempt++) {
        const uint64_t events = wh_load_u64_acquire(&w->events); /* R3 */
        void *q = wh_tessera_raw_malloc_(g, mask, shard, ask, attempt == 0);
        const uint64_t held = wh_load_u64_acquire(&w->held);       /* R3 */
        const uint64_t leaving = wh_load_u64_acquire(&w->leaving); /* R3 */
        const int is_empty = WH_PLANT(tessera_r3_empty, held == 0 && leaving == 0, 1);
        const int is_same =
            WH_PLANT(tessera_r3_events, wh_load_u64_relaxed(&w->events), events) == events;
        if (ask.size != 0 && (!wh_tessera_is_none_(q) || (is_empty && is_same))) {
            p = q;
            ask.size = 0;
        }
        if (wh_tessera_votes_(mask, ask.size != 0) == 0) {
            return p;
        }
        wh_tessera_shrink_(g, mask, ask.size != 0 ? UINT64_MAX : 0, 0, site);
        wh_backoff(attempt);
    }
}

/* n bytes at a multiple of align, a power of two, for each lane of a full warp (mask), or the
 * calling one; 0: none. */
WH_FN void *wh_tessera_checked_malloc_by_(const wh_tessera_core *g, wh_mask mask, uint32_t shard,
                                          uint64_t n, uint64_t align, wh_site site) {
    const uint64_t wanted = n != 0 ? wh_tessera_raw_bytes_(align, n) : 0;
    const uint64_t total = wh_tessera_is_too_large_(g, wanted) ? 0 : wanted;
    const wh_tessera_ask_raw ask = wh_tessera_ask_raw_(g, mask, total, align);
    void *p = wh_tessera_raw_malloc_or_shrink_(g, mask, shard, ask, site);
    if (n == 0) {
        return NULL;
    }
    if (wh_tessera_is_none_(p)) {
        wh_tessera_count_failed_(g, shard, p, 1);
        return wh_tessera_failure_(g, n, site, p);
    }
    if ((g->tracks & WH_TESSERA_COUNTS) != 0) {
        wh_tessera_count_mallocs_(g, (wh_mask)1 << wh_lane_id(), p);
    }
    unsigned char *at = (unsigned char *)p;
    wh_tessera_guard *guard = (wh_tessera_guard *)p;
    const uint64_t front = align > WH_TESSERA_FRONT ? align : WH_TESSERA_FRONT, end = front + n;
    const uint64_t key = wh_tessera_key_(g->watch, (uint64_t)(at - g->base));
    const uint64_t origin = wh_tessera_origin_(g->watch);
    const uint64_t size = n | (uint64_t)wh_log2_floor(front) << WH_TESSERA_SIZE_BITS |
                          (uint64_t)(wh_block_threads() - 1) << WH_TESSERA_THREADS_SHIFT;
    wh_tessera_fill_(at, wh_tessera_zone_start_(front), front, WH_TESSERA_ZONE_BYTE);
    wh_tessera_fill_(at, front, wh_tessera_poison_end_(g, front, end & ~(uint64_t)7),
                     WH_TESSERA_NEW_BYTE);
    wh_tessera_fill_(at, end & ~(uint64_t)7, wh_tessera_zone_end_(front, n), WH_TESSERA_ZONE_BYTE);
    wh_store_u64_relaxed(&guard->size, size);
    wh_store_u64_relaxed(&guard->allocated, site);
    wh_store_u64_relaxed(&guard->freed, origin);
    wh_store_u64_relaxed(&guard->freed_check, wh_tessera_origin_check_(key, origin));
    wh_store_u64_relaxed(&guard->check, wh_tessera_mix_(size ^ key, site));
    wh_store_u64_relaxed(&guard->state, key + WH_TESSERA_LIVE);
    WH_PLANT(tessera_p15_malloc, wh_fence(), (void)0); /* P15 */
    return at + front;
}

WH_FN_LINKED(void *, wh_tessera_checked_malloc_,
             (const wh_tessera_core *g, uint32_t shard, uint64_t n, uint64_t align, wh_site site)) {
    return wh_tessera_checked_malloc_by_(g, 0, shard, n, align, site);
}
WH_FN_LINKED(void *, wh_tessera_checked_malloc_warp_,
             (const wh_tessera_core *g, uint32_t shard, uint64_t n, wh_site site)) {
    return wh_tessera_checked_malloc_by_(g, WH_FULL_WARP, shard, n, 1, site);
}

/* --- by the host ----------------------------------------------------------------------------- */

/* Of a block that is out. */
WH_FN uint32_t wh_tessera_check_block_(const wh_tessera_core *g, uint64_t offset,
                                       uint32_t with_leaks) {
    const wh_tessera_raw raw = wh_tessera_read_raw_(g, offset);
    uint32_t found = 0;
    int is_lost = 0;
    wh_tessera_event e = wh_tessera_event_of_(g, &raw, WH_RECORD_LEAK, 0);
    e.by_host = 1;
    if (raw.state == WH_TESSERA_LIVE || raw.state == WH_TESSERA_FREED) {
        found = wh_tessera_look_over_(g, &raw, 0, 1);
        is_lost = with_leaks && raw.state == WH_TESSERA_LIVE;
    } else {
        e.kind = WH_RECORD_UNDERRUN;
        e.address += WH_TESSERA_FRONT;
        e.offset = -(int64_t)WH_TESSERA_FRONT;
        is_lost = 1;
    }
    if (is_lost) {
        wh_tessera_violation_(g, e);
        found++;
    }
    return found;
}

/* The contract's check_blocks. */
WH_FN void wh_tessera_check_blocks(wh_tessera_ref h, uint32_t with_leaks, uint64_t i, uint64_t n,
                                   uint64_t *found) {
    const wh_tessera_core *g = wh_tessera_core_of_(h);
    const uint32_t top = wh_tessera_top_(*g);
    uint64_t mine = 0;
    for (uint64_t k = i; k < top; k += n) {
        const uint64_t tag = wh_load_u64_relaxed(wh_tessera_tag_at_(*g, (uint32_t)k));
        wh_tessera_slab_view view;
        if (wh_tessera_view_slab_(*g, (uint32_t)k, &view)) {
            const uint64_t size = h.classes[wh_tessera_tag_class(tag)].slot_size;
            for (uint32_t slot = 0; slot < view.slots; slot++) {
                if (wh_tessera_is_live_(*g, &view, slot)) {
                    mine +=
                        wh_tessera_check_block_(g, (k << g->chunk_log2) + slot * size, with_leaks);
                }
            }
        } else if (wh_tessera_kind(tag) == WH_TESSERA_RUN) {
            mine += wh_tessera_check_block_(g, k << g->chunk_log2, with_leaks);
        }
    }
    if (mine != 0) {
        wh_add_u64_relaxed(found, mine);
    }
}

/* --- what the inlined calls find ------------------------------------------------------------- */

WH_FN int wh_tessera_checks_(const wh_tessera_core *g) {
    return WH_CHECKED && (g->tracks & WH_TESSERA_CHECKED) != 0;
}

/* Frees what is no slot: a run, or in a checked heap anything. */
WH_FN_LINKED_FREE(void, wh_tessera_free_run_,
                  (const wh_tessera_core *g, uint32_t shard, uint64_t offset)) {
    if (wh_tessera_checks_(g)) {
        wh_tessera_checked_free_(g, shard, offset, 0);
    } else {
        wh_tessera_free_chunks_(g, shard, offset);
    }
}

#include "warpheap/detail/simt/end.h"

#endif
