/* alloc/tessera/guard.h: what a block of a checked heap has before it, and how it is found from a
 * pointer. checked.h has the picture and the rules. This file may change: it is no part of the API.
 */
#ifndef WH_ALLOC_TESSERA_GUARD_H
#define WH_ALLOC_TESSERA_GUARD_H

#include "warpheap/core/hash.h"
#include "warpheap/detail/alloc/record.h"
#include "warpheap/detail/alloc/tessera/steps.h"

#include "warpheap/detail/simt/begin.h"

#define WH_TESSERA_HEADER 48u     /* bytes */
#define WH_TESSERA_FRONT 64u      /* ... with the zone before a block */
#define WH_TESSERA_ZONE 16u       /* the least zone behind it */
#define WH_TESSERA_ZONE_LOOK 256u /* of a longer zone before a block as much is looked at */
#define WH_TESSERA_ZONE_BYTE 0xfbu
#define WH_TESSERA_NEW_BYTE 0xcdu   /* in a block that malloc returns */
#define WH_TESSERA_FREED_BYTE 0xddu /* in one that has been freed */

/* The start of a raw block. */
typedef struct wh_tessera_guard {
    uint64_t state;
    uint64_t
        size; /* of the user's block: 40 bits | log2 of `front` 8 | threads of a block - 1: 16 */
    wh_site allocated;
    uint64_t freed;       /* a site; of a live block: which thread allocated it 42 | mark 22 */
    uint64_t check;       /* of size and allocated */
    uint64_t freed_check; /* of freed; with another key for a live block's */
} wh_tessera_guard;
WH_STATIC_ASSERT(sizeof(wh_tessera_guard) == WH_TESSERA_HEADER, "the zone begins behind it");

#define WH_TESSERA_SIZE_BITS 40u
#define WH_TESSERA_THREADS_SHIFT 48u
#define WH_TESSERA_THREAD_BITS 42u

#define WH_TESSERA_LIVE 1u /* states, + a key of the address */
#define WH_TESSERA_FREED 2u
#define WH_TESSERA_LET_GO 3u

WH_FN uint64_t wh_tessera_mix_(uint64_t a, uint64_t b) {
    const uint64_t high = wh_mix64(a + wh_spread64(b));
    return high << 32 | wh_mix64(wh_spread64(a) ^ b);
}
WH_FN uint64_t wh_tessera_key_(const wh_tessera_watch *w, uint64_t offset) {
    return wh_tessera_mix_(offset, wh_load_u64_relaxed(&w->epoch)) & ~(uint64_t)3;
}
/* What a call knows of a raw block. */
typedef struct wh_tessera_raw {
    uint64_t offset; /* from the first chunk on; UINT64_MAX: there is none */
    uint64_t bytes;
    uint64_t key;
    uint64_t state; /* LIVE, FREED, LET_GO; 0: none of them, or the header is damaged */
    uint64_t size;  /* of the user's block; this and the following: 0 if state is */
    uint64_t front;
    wh_site allocated, freed;
} wh_tessera_raw;

WH_FN wh_tessera_guard *wh_tessera_guard_(const wh_tessera_core *g, uint64_t offset) {
    return (wh_tessera_guard *)(void *)(g->base + offset);
}

/* The raw block that the address offset lies in, from the tag of its chunk; the plain heap may have
 * it back. */
WH_FN_SLOW wh_tessera_raw wh_tessera_find_raw_(const wh_tessera_core *g, uint64_t offset) {
    uint64_t chunk = offset >> g->chunk_log2;
    wh_tessera_raw raw;
    raw.offset = UINT64_MAX;
    raw.bytes = raw.key = raw.state = raw.size = raw.front = 0;
    raw.allocated = raw.freed = 0;
    if (chunk >= g->n_chunks) {
        return raw;
    }
    uint64_t tag = wh_load_u64_relaxed(wh_tessera_tag_at_(*g, (uint32_t)chunk));
    WH_NO_UNROLL
    while (tag == WH_TESSERA_INNER && chunk != 0) { /* of a run */
        chunk--;
        tag = wh_load_u64_relaxed(wh_tessera_tag_at_(*g, (uint32_t)chunk));
    }
    if (wh_tessera_kind(tag) == WH_TESSERA_RUN) {
        raw.offset = chunk << g->chunk_log2;
        raw.bytes = tag >> 32 << g->chunk_log2;
    } else if (wh_tessera_kind(tag) == WH_TESSERA_SLAB && wh_tessera_tag_at(tag) <= chunk) {
        const uint64_t size =
            wh_tessera_header_of_(g)->classes[wh_tessera_tag_class(tag)].slot_size;
        const uint64_t slab = (chunk - wh_tessera_tag_at(tag)) << g->chunk_log2;
        const uint64_t slot = size != 0 ? (offset - slab) / size : UINT64_MAX;
        if (slot < wh_tessera_tag_slots(tag, g->chunk_log2)) {
            raw.offset = slab + slot * size;
            raw.bytes = size;
        }
    }
    return raw;
}

/* The same with what its header says. */
WH_FN_SLOW wh_tessera_raw wh_tessera_read_raw_(const wh_tessera_core *g, uint64_t offset) {
    wh_tessera_raw raw = wh_tessera_find_raw_(g, offset);
    if (raw.offset == UINT64_MAX || raw.bytes < WH_TESSERA_FRONT + WH_TESSERA_ZONE) {
        return raw;
    }
    const wh_tessera_guard *guard = wh_tessera_guard_(g, raw.offset);
    raw.key = wh_tessera_key_(g->watch, raw.offset);
    const uint64_t state = wh_load_u64_relaxed(&guard->state) - raw.key;
    const uint64_t size = wh_load_u64_relaxed(&guard->size);
    const wh_site allocated = wh_load_u64_relaxed(&guard->allocated);
    const wh_site freed = wh_load_u64_relaxed(&guard->freed);
    const uint64_t check = wh_load_u64_relaxed(&guard->check);
    const uint64_t freed_check = wh_load_u64_relaxed(&guard->freed_check);
    if (state - 1 < 3 && check == wh_tessera_mix_(size ^ raw.key, allocated)) {
        raw.state = state;
        raw.size = size & (((uint64_t)1 << WH_TESSERA_SIZE_BITS) - 1);
        raw.front = (uint64_t)1 << (size >> WH_TESSERA_SIZE_BITS & 63);
        raw.allocated = allocated;
        raw.freed =
            state != WH_TESSERA_LIVE && freed_check == wh_tessera_mix_(raw.key, freed) ? freed : 0;
    }
    return raw;
}

/* Where the zone behind a block ends, in the raw block. */
WH_HD uint64_t wh_tessera_zone_end_(uint64_t front, uint64_t size) {
    return front + ((size + 15) & ~(uint64_t)15) + WH_TESSERA_ZONE;
}
/* Raw bytes for a request; 0: more than there can be. */
WH_HD uint64_t wh_tessera_raw_bytes_(uint64_t align, uint64_t n) {
    const uint64_t front = align > WH_TESSERA_FRONT ? align : WH_TESSERA_FRONT;
    return n >> WH_TESSERA_SIZE_BITS == 0 ? wh_tessera_zone_end_(front, n) : 0;
}

/* The user's bytes of the raw block at this offset, 0: he has none, or has freed it. *block: his
 * pointer. */
WH_FN uint64_t wh_tessera_users_(const wh_tessera_core *g, uint64_t offset, void **block) {
    const wh_tessera_raw raw = wh_tessera_read_raw_(g, offset);
    *block = g->base + raw.offset + raw.front;
    return raw.state == WH_TESSERA_LIVE ? raw.size : 0;
}

/* What a header says of the call that allocated: who, and after which mark. */
WH_FN uint64_t wh_tessera_origin_(const wh_tessera_watch *w) {
    return wh_thread_id() | wh_load_u64_relaxed(&w->mark) << WH_TESSERA_THREAD_BITS;
}
WH_FN uint64_t wh_tessera_origin_check_(uint64_t key, uint64_t origin) {
    return wh_tessera_mix_(key + WH_TESSERA_LIVE, origin);
}

/* The user's live block of the raw block at this offset, as a snapshot shows it. 0: he has none, or
 * has freed it. */
WH_FN int wh_tessera_read_block_(const wh_tessera_core *g, uint64_t offset,
                                 wh_snapshot_block *block) {
    const wh_tessera_raw raw = wh_tessera_read_raw_(g, offset);
    if (raw.state != WH_TESSERA_LIVE) {
        return 0;
    }
    const wh_tessera_guard *guard = wh_tessera_guard_(g, offset);
    const uint64_t origin = wh_load_u64_relaxed(&guard->freed);
    const uint64_t threads = (wh_load_u64_relaxed(&guard->size) >> WH_TESSERA_THREADS_SHIFT) + 1;
    const int is_known =
        wh_load_u64_relaxed(&guard->freed_check) == wh_tessera_origin_check_(raw.key, origin);
    const uint64_t thread = origin & (((uint64_t)1 << WH_TESSERA_THREAD_BITS) - 1);
    block->address = (uint64_t)(uintptr_t)(g->base + raw.offset + raw.front);
    block->bytes = raw.size;
    block->taken = raw.bytes;
    block->site = raw.allocated;
    block->thread = is_known ? thread : WH_UNKNOWN;
    block->block = is_known ? thread / threads : WH_UNKNOWN;
    block->mark = is_known ? origin >> WH_TESSERA_THREAD_BITS : WH_UNKNOWN;
    return 1;
}

#include "warpheap/detail/simt/end.h"

#endif
