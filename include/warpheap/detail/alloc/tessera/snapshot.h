/* alloc/tessera/snapshot.h: what each chunk of a quiet heap is, and its live blocks, for the host
 * to list (warpheap/snapshot.h). This file may change: it is no part of the API.
 *
 * Check   tests/unit/snapshot.c
 */
#ifndef WH_ALLOC_TESSERA_SNAPSHOT_H
#define WH_ALLOC_TESSERA_SNAPSHOT_H

#include "warpheap/detail/alloc/tessera/inspect.h"

#include "warpheap/detail/simt/begin.h"

/* The piece that begins with a chunk. */
WH_FN void wh_tessera_piece_(const wh_tessera_core *g, uint32_t chunk, wh_snapshot_piece *p) {
    const int is_checked = (g->tracks & WH_TESSERA_CHECKED) != 0;
    wh_tessera_slab_view view;
    p->kind = WH_PIECE_OTHER;
    p->chunks = 1;
    p->slot_bytes = p->slots = p->live = p->kept = p->ready = p->padding = 0;
    if (chunk >= wh_tessera_top_(*g) || !wh_tessera_is_there_(*g, chunk)) {
        p->kind = WH_PIECE_ABSENT;
        return;
    }
    if (wh_veb_contains(wh_tessera_pool_(*g), chunk)) {
        p->kind = WH_PIECE_FREE;
        return;
    }
    const uint64_t tag = wh_load_u64_relaxed(wh_tessera_tag_at_(*g, chunk));
    if (wh_tessera_view_slab_(*g, chunk, &view)) {
        uint64_t bytes = 0;
        const uint32_t out = wh_tessera_live_(*g, &view);
        p->kind = WH_PIECE_SLAB;
        p->chunks = wh_tessera_tag_chunks(tag);
        p->slot_bytes = wh_tessera_header_of_(g)->classes[wh_tessera_tag_class(tag)].slot_size;
        p->slots = view.slots;
        p->live = is_checked ? wh_tessera_users_in_(g, &view, &bytes) : out;
        p->kept = out - p->live;
        p->ready = view.end - view.left;
    } else if (wh_tessera_kind(tag) == WH_TESSERA_RUN) {
        void *block;
        p->kind = WH_PIECE_LARGE;
        p->chunks = wh_high_u32(tag);
        p->live = !is_checked || wh_tessera_users_(g, (uint64_t)chunk << g->chunk_log2, &block);
        p->kept = 1 - p->live;
    } else {
        p->chunks = wh_tessera_kind(tag) == WH_TESSERA_FREE;
    }
}

/* A block that the plain heap has given out, if it is a user's. */
WH_FN void wh_tessera_put_block_(const wh_tessera_core *g, const wh_snapshot_window *w,
                                 uint64_t offset, uint64_t bytes) {
    wh_snapshot_block b;
    b.address = (uint64_t)(uintptr_t)(g->base + offset);
    b.bytes = b.taken = bytes;
    b.site = 0;
    b.thread = b.block = b.mark = WH_UNKNOWN;
    if ((g->tracks & WH_TESSERA_CHECKED) != 0 && !wh_tessera_read_block_(g, offset, &b)) {
        return;
    }
    const uint64_t k = wh_fetch_add_u64_relaxed(w->n_blocks, 1);
    if (k < w->capacity) {
        w->blocks[k] = b;
    }
}

WH_FN void wh_tessera_put_blocks_(const wh_tessera_core *g, const wh_snapshot_window *w,
                                  uint32_t chunk) {
    const uint64_t tag = wh_load_u64_relaxed(wh_tessera_tag_at_(*g, chunk));
    const uint64_t offset = (uint64_t)chunk << g->chunk_log2;
    wh_tessera_slab_view view;
    if (wh_tessera_view_slab_(*g, chunk, &view)) {
        const uint64_t size =
            wh_tessera_header_of_(g)->classes[wh_tessera_tag_class(tag)].slot_size;
        for (uint32_t slot = 0; slot < view.slots; slot++) {
            if (wh_tessera_is_live_(*g, &view, slot)) {
                wh_tessera_put_block_(g, w, offset + slot * size, size);
            }
        }
    } else if (wh_tessera_kind(tag) == WH_TESSERA_RUN) {
        wh_tessera_put_block_(g, w, offset, tag >> 32 << g->chunk_log2);
    }
}

/* The contract's snapshot. */
WH_FN void wh_tessera_snapshot(wh_tessera_ref h, const wh_snapshot_window *w, uint64_t i,
                               uint64_t n) {
    const wh_tessera_core *g = wh_tessera_core_of_(h);
    const uint32_t top = wh_tessera_top_(*g);
    for (uint64_t k = w->from + i; k < w->to; k += n) {
        if (w->pieces != NULL) {
            wh_tessera_piece_(g, (uint32_t)k, &w->pieces[k - w->from]);
        }
        if (w->blocks != NULL && k < top) {
            wh_tessera_put_blocks_(g, w, (uint32_t)k);
        }
    }
}

#include "warpheap/detail/simt/end.h"

#endif
