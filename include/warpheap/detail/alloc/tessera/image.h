/* alloc/tessera/image.h: a heap's metadata in a file: which chunks go with it, and how it comes to
 * life in other memory. This file may change: it is no part of the API.
 *
 * All metadata names chunks by their numbers, but for the addresses of the header's core: adopt
 * stores them anew. So a heap can be copied to any address, if its first chunk lies at the same
 * place modulo the largest alignment, which blocks were promised. Both steps want a quiet heap.
 *
 * Check   tests/checkpoint
 */
#ifndef WH_ALLOC_TESSERA_IMAGE_H
#define WH_ALLOC_TESSERA_IMAGE_H

#include "warpheap/detail/alloc/tessera/inspect.h"

#include "warpheap/detail/simt/begin.h"

WH_FN_HOST void wh_tessera_image_of(wh_tessera_ref h, wh_image_shape *s) {
    const wh_tessera_core *g = &h.core;
    s->metadata_bytes = wh_tessera_metadata_(g->n_chunks, g->n_shards, g->chunk_log2);
    s->base = (uint64_t)(uintptr_t)g->base;
    s->chunk_bytes = (uint64_t)1 << g->chunk_log2;
    s->n_chunks = g->n_chunks;
    s->n_shards = g->n_shards;
    s->flags = (uint64_t)g->tracks << 8 | g->reserved;
}

/* The contract's image_plan. */
WH_FN_HOST wh_status wh_tessera_image_plan(wh_tessera_ref *h, wh_plan *plan,
                                           const wh_image_shape *s, unsigned char *memory,
                                           uint64_t bytes, uint32_t n_sms) {
    const int is_known = wh_is_pow2(s->chunk_bytes) && s->chunk_bytes >= 1024 &&
                         s->chunk_bytes <= 16384 && s->n_chunks - 1 < WH_TESSERA_MAX_CHUNKS &&
                         s->n_shards - 1 < WH_TESSERA_MAX_SHARDS && (s->flags & 255) == 0 &&
                         (s->flags >> 8 & ~(uint64_t)WH_TESSERA_COUNTS) == 0;
    const uint32_t chunk_log2 = is_known ? wh_log2_floor(s->chunk_bytes) : 0;
    const uint32_t n_shards = (uint32_t)s->n_shards;
    if (!is_known || s->metadata_bytes != wh_tessera_metadata_(s->n_chunks, n_shards, chunk_log2)) {
        return WH_BAD_ARGUMENT;
    }
    const uint64_t of_chunks = s->n_chunks << chunk_log2;
    const uint64_t end = (uint64_t)(uintptr_t)memory + s->metadata_bytes;
    const uint64_t first = s->metadata_bytes + ((s->base - end) & (WH_TESSERA_MOST_ALIGN - 1));
    plan->min_bytes = s->metadata_bytes + WH_TESSERA_MOST_ALIGN + of_chunks;
    if (first + of_chunks > bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    plan->metadata_bytes = bytes - of_chunks;
    plan->init_items =
        wh_tessera_tree_words_(s->n_chunks, wh_tessera_classes_for_(s->n_chunks, chunk_log2)) +
        s->n_chunks;
    h->core.meta = memory;
    h->core.base = memory + first;
    h->core.tracks = (uint8_t)(s->flags >> 8);
    wh_tessera_plan_core_(&h->core, (uint32_t)s->n_chunks, n_shards, chunk_log2);
    wh_tessera_plan_ref_(h, n_sms);
    return WH_OK;
}

/* Chunks [from, to). */
WH_FN void wh_tessera_mark_(uint64_t *bits, uint32_t from, uint32_t to) {
    while (from < to) {
        const uint32_t past = (from | 63) + 1, end = past < to ? past : to;
        (void)wh_fetch_or_u64_relaxed(&bits[from >> 6], wh_tessera_chunk_mask_(from, end - from));
        from = end;
    }
}

/* The chunks of a slab that live slots lie in. */
WH_FN void wh_tessera_mark_slab_(wh_tessera_core g, const wh_tessera_slab_view *view,
                                 uint64_t *bits) {
    const uint64_t size = wh_tessera_header_(g)->classes[wh_tessera_tag_class(view->tag)].slot_size;
    uint32_t next = view->slab; /* the slab's chunks below it have been looked at */
    for (uint32_t slot = 0; slot < view->slots; slot++) {
        const uint32_t end = view->slab + (uint32_t)(((slot + 1) * size - 1) >> g.chunk_log2) + 1;
        if (end > next && wh_tessera_is_live_(g, view, slot)) {
            const uint32_t first = view->slab + (uint32_t)(slot * size >> g.chunk_log2);
            wh_tessera_mark_(bits, first > next ? first : next, end);
            next = end;
        }
    }
}

/* The contract's live: to bits, which are 0 before. */
WH_FN void wh_tessera_live(wh_tessera_ref h, uint64_t *bits, uint64_t i, uint64_t n) {
    const wh_tessera_core g = *wh_tessera_core_of_(h);
    const uint32_t top = wh_tessera_top_(g);
    for (uint64_t k = i; k < top; k += n) {
        const uint32_t chunk = (uint32_t)k;
        const uint64_t tag = *wh_tessera_tag_at_(g, chunk);
        wh_tessera_slab_view view;
        if (wh_tessera_view_slab_(g, chunk, &view)) {
            wh_tessera_mark_slab_(g, &view, bits);
        } else if (wh_tessera_kind(tag) == WH_TESSERA_RUN) {
            wh_tessera_mark_(bits, chunk, chunk + (uint32_t)(tag >> 32));
        }
    }
}

/* The contract's adopt. In a reserved heap settle says next how much is there (reserve.h). */
WH_FN void wh_tessera_adopt(wh_tessera_ref h, uint64_t i) {
    if (i == 0) {
        wh_tessera_adopt_(h);
    }
}

#include "warpheap/detail/simt/end.h"

#endif
