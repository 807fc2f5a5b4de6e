/* alloc/tessera/checked.h: heaps that check what their users do (the option checked), and records
 * of what failed. docs/CHECKED.md is for users. This file may change: it is no part of the API.
 *
 * A checked heap is a layer over the plain one, whose block, here *raw* block, has room for more:
 *
 *   raw block | header 48 | zone, 16 or more | the user's block | zone, 16 to 31 | rest |
 *
 * Zones have one byte over and over. The user's block lies at `front`, 64 or the alignment. A free
 * marks and poisons the block, and puts it in quarantine. Its raw block goes back to the plain heap
 * when those that came later need the room.
 *
 * How calls get here. The handle of a checked heap says that no size is small, and that no address
 * is inside (max_slot, bytes: 0). So malloc and free, as they are inlined, find nothing to do, and
 * call what they call for runs, wh_tessera_more_ and wh_tessera_free_run_, which look at `tracks`.
 * `plain` in the watch is the handle as it would be. In here each lane works for itself.
 * Where these two are part of a user's kernel they do so only with WH_CHECKED (contract.h), and
 * only such kernels get the handle: others are the same machine code as without this file.
 *
 * header   state: stored by malloc, relaxed, its last store; cas by free; store by who lets the
 *          block go. The rest: stores, relaxed, by malloc, and of a free's site by the lane that
 *          has freed. All is in reach of the user's mistakes: nothing is believed without its check
 *          word, which the address and the epoch are part of. `epoch` changes with each reset
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
 * R3       NULL only after a search of the plain heap behind a moment at which the quarantine held
 *          nothing (held, then leaving: loads, acquire), and during which nothing came back from it
 *
 * P14      header, zones and poison, then the exchange into a slot, acq_rel -> the exchange that
 *          takes the block out, acq_rel: who lets it go sees what the free has written. Likewise
 *          head is raised, then a slot is exchanged -> its next exchange, then head is read (R2)
 * P15      malloc: header and zones, then a fence -> free: a fence, then the header. The pointer
 *          may have come by a relaxed store. A free that does not see the header would call the
 *          block stale
 * P16      alloc/record.h
 *
 * Progress free: wait-free but for the plain heap's part: each turn of its loop passes a slot, down
 *          to its share or to the end. malloc of a full heap: each turn has let blocks go, or waits
 *          for a lane that does, which waits for nobody
 * Cost     malloc: that of the plain heap for one lane, and a store for each 8 bytes. free: 8
 *          loads for the header and its place, a load for each 8 bytes of zones, a store for each 8
 *          bytes of the block, 5 atomics; then about the same for a block that is let go
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
        found += wh_tessera_look_between_(g, raw, e, front, behind, WH_TESSERA_FREED_BYTE);
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

/* A block leaves quarantine, by the lane that has taken it out of a slot (was_held), or one that
 * has freed it and does not put it there. Returns its raw bytes. */
WH_FN_SLOW uint64_t wh_tessera_let_go_(const wh_tessera_core *g, uint64_t offset, wh_site site,
                                       int was_held) {
    wh_tessera_watch *w = g->watch;
    const wh_tessera_raw raw = wh_tessera_read_raw_(g, offset);
    wh_add_u64_relaxed(&w->leaving, raw.bytes); /* R3 */
    if (was_held) {
        wh_add_u64_release(&w->held, 0 - raw.bytes); /* R3 */
    }
    if (raw.state == WH_TESSERA_FREED) {
        (void)wh_tessera_look_over_(g, &raw, site, 0);
    } else { /* it was, when it came in */
        wh_tessera_event e = wh_tessera_event_of_(g, &raw, WH_RECORD_USE_AFTER_FREE, site);
        e.address = (uint64_t)(uintptr_t)(g->base + offset + WH_TESSERA_FRONT);
        e.offset = -(int64_t)WH_TESSERA_FRONT;
        wh_tessera_violation_(g, e);
    }
    wh_store_u64_relaxed(&wh_tessera_guard_(g, offset)->state, raw.key + WH_TESSERA_LET_GO);
    wh_tessera_raw_free_(g, offset);
    wh_add_u64_release(&w->events, 1);              /* R3 */
    wh_add_u64_release(&w->leaving, 0 - raw.bytes); /* R3 */
    return raw.bytes;
}

/* --- quarantine ------------------------------------------------------------------------------ */

WH_FN uint64_t *wh_tessera_quarantine_slot_(wh_tessera_watch *w, uint64_t number) {
    uint64_t *slots = (uint64_t *)(void *)(w + 1);
    return &slots[number & (w->n_entries - 1)];
}

/* Lets the oldest blocks go, of `bytes` raw bytes together or more, if there are so many that are
 * not on their way. */
WH_FN_SLOW void wh_tessera_shrink_(const wh_tessera_core *g, uint64_t bytes, wh_site site) {
    wh_tessera_watch *w = g->watch;
    WH_NO_UNROLL
    while (bytes != 0 &&
           (int64_t)(wh_load_u64_relaxed(&w->tail) - wh_load_u64_relaxed(&w->head)) > 0) {
        const uint64_t number = wh_fetch_add_u64_relaxed(&w->head, 1);
        const uint64_t entry = WH_PLANT_ORDER(tessera_p14_oldest, wh_exchange_u64, acq_rel)(
            wh_tessera_quarantine_slot_(w, number), 0); /* R2, P14 */
        const uint64_t gone = entry != 0 ? wh_tessera_let_go_(g, entry - 1, site, 1) : 0;
        bytes -= gone < bytes ? gone : bytes;
    }
}

/* What was in a slot before. */
WH_FN uint64_t wh_tessera_put_in_(uint64_t *slot, uint64_t entry) {
    return WH_PLANT_ORDER(tessera_p14_keep, wh_exchange_u64, acq_rel)(slot, entry); /* R2, P14 */
}

/* A block that the lane has freed. It lets as much go as it brings too much: lanes that come
 * together do not empty the quarantine. */
WH_FN void wh_tessera_keep_freed_(const wh_tessera_core *g, const wh_tessera_raw *raw,
                                  wh_site site) {
    wh_tessera_watch *w = g->watch;
    const uint64_t most = w->quarantine_bytes;
    if (raw->bytes > most) {
        (void)wh_tessera_let_go_(g, raw->offset, site, 0);
        return;
    }
    const uint64_t held = wh_fetch_add_u64_relaxed(&w->held, raw->bytes) + raw->bytes;
    const uint64_t number = wh_fetch_add_u64_relaxed(&w->tail, 1), n = w->n_entries;
    uint64_t *slot = wh_tessera_quarantine_slot_(w, number);
    uint64_t over = held > most ? held - most : 0;
    over = over < raw->bytes ? over : raw->bytes;
    if (number >= n && (int64_t)(number - n - wh_load_u64_relaxed(&w->head)) >= 0) {
        (void)wh_fetch_max_u64_relaxed(&w->head, number - n + 1); /* R2 */
    }
    uint64_t out[2];
    out[0] = wh_tessera_put_in_(slot, raw->offset + 1);
    out[1] = WH_PLANT(tessera_r2, (int64_t)(wh_load_u64_relaxed(&w->head) - number) > 0, 0)
                 ? wh_tessera_put_in_(slot, 0) /* R2 */
                 : 0;
    WH_NO_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t gone = out[i] != 0 ? wh_tessera_let_go_(g, out[i] - 1, site, 1) : 0;
        over -= gone < over ? gone : over;
    }
    wh_tessera_shrink_(g, over, site);
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

/* Frees the block at `offset` from the first chunk on, for the calling lane. */
WH_FN_LINKED_FREE(void, wh_tessera_checked_free_,
                  (const wh_tessera_core *g, uint32_t shard, uint64_t offset, wh_site site)) {
    WH_PLANT(tessera_p15_free, wh_fence(), (void)0); /* P15 */
    wh_tessera_raw raw = wh_tessera_read_raw_(g, offset);
    if (raw.state != WH_TESSERA_LIVE || raw.offset + raw.front != offset) {
        wh_tessera_bad_pointer_(g, shard, offset, &raw, site);
        return;
    }
    wh_tessera_guard *guard = wh_tessera_guard_(g, raw.offset);
    const uint64_t live = raw.key + WH_TESSERA_LIVE, freed = raw.key + WH_TESSERA_FREED;
    if (WH_PLANT(tessera_r1, wh_cas_u64_relaxed(&guard->state, live, freed) != live,
                 (wh_store_u64_relaxed(&guard->state, freed), 0))) { /* R1 */
        raw.state = WH_TESSERA_FREED;
        wh_tessera_bad_pointer_(g, shard, offset, &raw, site);
        return;
    }
    (void)wh_tessera_look_over_(g, &raw, site, 0);
    wh_store_u64_relaxed(&guard->freed, site);
    wh_store_u64_relaxed(&guard->freed_check, wh_tessera_mix_(raw.key, site));
    unsigned char *at = g->base + raw.offset;
    const uint64_t end = raw.front + raw.size;
    wh_tessera_fill_(at, raw.front, (end + 7) & ~(uint64_t)7, WH_TESSERA_FREED_BYTE);
    /* Whole zones: what was written there has been noted. */
    wh_tessera_fill_(at, wh_tessera_zone_start_(raw.front), raw.front, WH_TESSERA_ZONE_BYTE);
    wh_tessera_fill_(at, (end + 7) & ~(uint64_t)7, wh_tessera_zone_end_(raw.front, raw.size),
                     WH_TESSERA_ZONE_BYTE);
    wh_tessera_keep_freed_(g, &raw, site);
}

/* --- malloc ---------------------------------------------------------------------------------- */

/* A raw block for the calling lane; NULL, or LATE. */
WH_FN void *wh_tessera_raw_malloc_(const wh_tessera_core *g, uint32_t shard, uint64_t n,
                                   uint64_t align) {
    const uint64_t chunk = (uint64_t)1 << g->chunk_log2;
    const uint64_t size = align > WH_TESSERA_ZONE && n <= chunk
                              ? (uint64_t)1 << wh_log2_ceil(n) /* a slot lies at a multiple of it */
                              : n;
    uint32_t c = WH_TESSERA_NO_CLASS;
    if (size <= chunk) { /* n is more than align */
        c = wh_tessera_class_of((uint32_t)size);
    } else if (align <= WH_TESSERA_ZONE) {
        c = wh_tessera_large_class_(g, size);
    }
    void *p = wh_tessera_climb_each_(g, shard, c, WH_TESSERA_VACANT, 0, NULL);
    if (p == NULL && (c == WH_TESSERA_NO_CLASS || c >= g->n_small)) {
        p = wh_tessera_run_(g, (wh_mask)1 << wh_lane_id(), shard, c, size,
                            align <= WH_TESSERA_ZONE ? 1 : align);
    }
    if (wh_tessera_is_none_(p)) { /* the caller counts it */
        wh_add_u64_relaxed(&wh_tessera_shard_at_(*g, shard)->failed, ~(uint64_t)0);
    }
    return p;
}

/* The same, after all that is in quarantine has come back. R3 */
WH_FN void *wh_tessera_raw_malloc_or_shrink_(const wh_tessera_core *g, uint32_t shard, uint64_t n,
                                             uint64_t align, wh_site site) {
    wh_tessera_watch *w = g->watch;
    void *p = NULL;
    WH_NO_UNROLL
    for (uint32_t attempt = 0;; attempt++) {
        const uint64_t held = wh_load_u64_acquire(&w->held);       /* R3 */
        const uint64_t leaving = wh_load_u64_acquire(&w->leaving); /* R3 */
        const uint64_t events = wh_load_u64_acquire(&w->events);   /* R3 */
        p = wh_tessera_raw_malloc_(g, shard, n, align);
        if (!wh_tessera_is_none_(p) || (WH_PLANT(tessera_r3_empty, held == 0 && leaving == 0, 1) &&
                                        wh_load_u64_relaxed(&w->events) == events)) {
            return p;
        }
        wh_tessera_shrink_(g, UINT64_MAX, site);
        wh_backoff(attempt);
    }
}

/* n bytes at a multiple of align, a power of two, for the calling lane. */
WH_FN_LINKED(void *, wh_tessera_checked_malloc_,
             (const wh_tessera_core *g, uint32_t shard, uint64_t n, uint64_t align, wh_site site)) {
    const uint64_t total = wh_tessera_raw_bytes_(align, n);
    if (n == 0) {
        return NULL;
    }
    void *p = total != 0 ? wh_tessera_raw_malloc_or_shrink_(g, shard, total, align, site) : NULL;
    if (wh_tessera_is_none_(p)) {
        wh_add_u64_relaxed(&wh_tessera_shard_at_(*g, shard)->failed, 1);
        return wh_tessera_failure_(g, n, site, p);
    }
    if ((g->tracks & WH_TESSERA_COUNTS) != 0) {
        wh_tessera_count_mallocs_(g, (wh_mask)1 << wh_lane_id(), p);
    }
    unsigned char *at = (unsigned char *)p;
    wh_tessera_guard *guard = (wh_tessera_guard *)p;
    const uint64_t front = align > WH_TESSERA_FRONT ? align : WH_TESSERA_FRONT, end = front + n;
    const uint64_t key = wh_tessera_key_(g->watch, (uint64_t)(at - g->base));
    const uint64_t size = n | (uint64_t)wh_log2_floor(front) << 48;
    wh_tessera_fill_(at, wh_tessera_zone_start_(front), front, WH_TESSERA_ZONE_BYTE);
    wh_tessera_fill_(at, front, end & ~(uint64_t)7, WH_TESSERA_NEW_BYTE);
    wh_tessera_fill_(at, end & ~(uint64_t)7, wh_tessera_zone_end_(front, n), WH_TESSERA_ZONE_BYTE);
    wh_store_u64_relaxed(&guard->size, size);
    wh_store_u64_relaxed(&guard->allocated, site);
    wh_store_u64_relaxed(&guard->check, wh_tessera_mix_(size ^ key, site));
    wh_store_u64_relaxed(&guard->state, key + WH_TESSERA_LIVE);
    WH_PLANT(tessera_p15_malloc, wh_fence(), (void)0); /* P15 */
    return at + front;
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
