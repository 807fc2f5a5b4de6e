/* alloc/tessera/gauge.h: statistics by the host, from copies of the metadata that it makes while
 * lanes run. Nothing here runs on the device; malloc and free know nothing of it.
 * This file may change: it is no part of the API.
 *
 * The copies are of different moments, and what is on its way between two hands may be counted
 * twice or not at all. Each word is whole, so a tag says of itself how long its slab is; nothing
 * that a copy says is used as an address. On a quiet heap the answer is that of wh_tessera_stats.
 *
 * Cost    copied: the shards; a line of 128 bytes for each 64 chunks (the pool); with
 * WH_GAUGE_BLOCKS also the tags and words, 160 bytes a chunk, of a slice of 4096 chunks from its
 * first chunk in use to its last one, if there is one Check   tests/unit/gauge.c
 */
#ifndef WH_ALLOC_TESSERA_GAUGE_H
#define WH_ALLOC_TESSERA_GAUGE_H

#include "warpheap/detail/alloc/tessera/inspect.h"

#include "warpheap/detail/simt/begin.h"

#define WH_TESSERA_SLICE 4096u /* chunks: their words, and their tags, are less than a look */

/* What has been copied of a heap so far; arrays of the lens's room. */
typedef struct wh_tessera_copy {
    const wh_gauge_lens *lens;
    wh_gauge_sample *sample;
    wh_tessera_ref h;
    wh_tessera_header header;
    uint32_t top;
    uint64_t *spans; /* of a shard: WH_TESSERA_CLASSES */
    uint64_t *used;  /* chunks that are there and not in the pool, a bit each */
    uint64_t *there; /* ... and chunks that are there */
    uint64_t *tags;  /* of a slice */
} wh_tessera_copy;

/* Cuts up the lens's room; 0: there is none. */
WH_FN_HOST int wh_tessera_copy_room_(wh_tessera_copy *c) {
    const uint64_t n_words = ((uint64_t)c->h.core.n_chunks + 63) >> 6;
    const uint64_t spans = (uint64_t)c->h.core.n_shards * WH_TESSERA_CLASSES;
    const uint64_t room = spans + 2 * n_words + WH_TESSERA_SLICE;
    c->spans = (uint64_t *)c->lens->room(c->lens->context, room * 8);
    if (c->spans == NULL) {
        return 0;
    }
    c->used = c->spans + spans;
    c->there = c->used + n_words;
    c->tags = c->there + n_words;
    return 1;
}

/* The header, and what the cursors hold. */
WH_FN_HOST int wh_tessera_copy_shards_(wh_tessera_copy *c) {
    const uint32_t n = c->h.core.n_shards, step = WH_GAUGE_LOOK / sizeof(wh_tessera_shard);
    const wh_tessera_header *header =
        (const wh_tessera_header *)c->lens->look(c->lens->context, c->h.core.meta, sizeof *header);
    if (header == NULL) {
        return 0;
    }
    c->header = *header;
    c->top = header->top < c->h.core.n_chunks ? header->top : c->h.core.n_chunks;
    for (uint32_t from = 0; from < n; from += step) {
        const uint32_t k = n - from < step ? n - from : step;
        const wh_tessera_shard *shards = (const wh_tessera_shard *)c->lens->look(
            c->lens->context, c->h.shards + from, k * sizeof *shards);
        for (uint32_t i = 0; shards != NULL && i < k; i++) {
            c->sample->failed += shards[i].failed;
            c->sample->bad_frees += shards[i].bad_frees;
            for (uint32_t cls = 0; cls < WH_TESSERA_CLASSES; cls++) {
                c->spans[(from + i) * WH_TESSERA_CLASSES + cls] = shards[i].cursors[cls].span;
            }
        }
        if (shards == NULL) {
            return 0;
        }
    }
    return 1;
}

/* Words of a tree, 2^spread places apart, up to that of the last chunk: to `words`. */
WH_FN_HOST int wh_tessera_copy_tree_(wh_tessera_copy *c, const uint64_t *tree, uint32_t spread,
                                     uint64_t *words) {
    const uint32_t n = (c->top + 63) >> 6, step = (uint32_t)(WH_GAUGE_LOOK / 8) >> spread;
    for (uint32_t from = 0; from < n; from += step) {
        const uint32_t k = n - from < step ? n - from : step;
        const uint64_t *its =
            (const uint64_t *)c->lens->look(c->lens->context, tree + ((uint64_t)from << spread),
                                            ((((uint64_t)k - 1) << spread) + 1) * 8);
        for (uint32_t i = 0; its != NULL && i < k; i++) {
            words[from + i] = its[(uint64_t)i << spread];
        }
        if (its == NULL) {
            return 0;
        }
    }
    return 1;
}

/* Which chunks are there, and which of them are in use. */
WH_FN_HOST int wh_tessera_copy_chunks_(wh_tessera_copy *c) {
    const wh_tessera_core *g = &c->h.core;
    const uint64_t *present = g->partial_lists + (uint64_t)wh_tessera_n_classes(*g) * g->list_words;
    uint64_t used = 0;
    if (!wh_tessera_copy_tree_(c, g->pool, WH_TESSERA_POOL_SPREAD, c->used) ||
        (g->reserved != 0 && !wh_tessera_copy_tree_(c, present, 0, c->there))) {
        return 0;
    }
    for (uint32_t w = 0; w < (c->top + 63) >> 6; w++) {
        const uint32_t n = c->top - w * 64;
        const uint64_t all = n < 64 ? ~wh_ones_from_u64(n) : ~(uint64_t)0;
        c->there[w] = g->reserved != 0 ? c->there[w] & all : all;
        c->used[w] = ~c->used[w] & c->there[w];
        used += wh_popc64(c->used[w]);
    }
    c->sample->claimed_bytes = used << g->chunk_log2;
    return 1;
}

WH_FN_HOST int wh_tessera_copy_has_(const uint64_t *bits, uint32_t chunk) {
    return (bits[chunk >> 6] >> (chunk & 63) & 1) != 0;
}

/* Counts a slab, whose words lie in `words`; n_words: as many may be looked at. */
WH_FN_HOST void wh_tessera_copy_slab_(wh_tessera_copy *c, uint32_t chunk, uint64_t tag,
                                      const uint64_t *words, uint64_t n_words) {
    const uint32_t cls = wh_tessera_tag_class(tag), shard = wh_tessera_tag_shard(tag);
    wh_tessera_slab_view view;
    view.tag = tag;
    view.slab = chunk;
    view.slots = wh_tessera_tag_slots(tag, c->h.core.chunk_log2);
    if (wh_tessera_tag_at(tag) != 0 || cls >= wh_tessera_n_classes(c->h.core) ||
        shard >= c->h.core.n_shards || view.slots == 0 ||
        wh_tessera_words_for(view.slots) > n_words) {
        return;
    }
    wh_tessera_view_span_(&view, c->spans[shard * WH_TESSERA_CLASSES + cls],
                          tag == wh_tessera_with_shard(c->header.slab_tags[cls], shard));
    uint64_t unused = view.end - view.left;
    for (uint32_t i = 0; i < wh_tessera_words_for(view.slots); i++) {
        unused += wh_popc64(words[i] & wh_tessera_all_slots(view.slots, i));
    }
    const uint64_t live = unused < view.slots ? view.slots - unused : 0;
    c->sample->live_blocks += live;
    c->sample->used_bytes += live * c->header.classes[cls].slot_size;
}

/* Chunks [first, end) of a slice, all of which are there. */
WH_FN_HOST int wh_tessera_copy_range_(wh_tessera_copy *c, uint32_t slice, uint32_t first,
                                      uint32_t end) {
    const wh_tessera_core *g = &c->h.core;
    const uint64_t each = g->words_of_chunk;
    const uint64_t *words = (const uint64_t *)c->lens->look(
        c->lens->context, c->h.words + first * each, (end - first) * each * 8);
    for (uint32_t k = first; words != NULL && k < end; k++) {
        const uint64_t tag = c->tags[k - slice];
        if (wh_tessera_kind(tag) == WH_TESSERA_RUN && tag >> 32 <= c->top - k) {
            c->sample->live_blocks++;
            c->sample->used_bytes += tag >> 32 << g->chunk_log2;
        } else if (wh_tessera_kind(tag) == WH_TESSERA_SLAB && wh_tessera_copy_has_(c->used, k)) {
            wh_tessera_copy_slab_(c, k, tag, words + (k - first) * each, (end - k) * each);
        }
    }
    return words != NULL;
}

/* What lives in chunks [slice, end). */
WH_FN_HOST int wh_tessera_copy_slice_(wh_tessera_copy *c, uint32_t slice, uint32_t end) {
    while (slice < end && !wh_tessera_copy_has_(c->used, end - 1)) {
        end--;
    }
    uint32_t k = slice;
    while (k < end && !wh_tessera_copy_has_(c->used, k)) {
        k++;
    }
    if (k == end) {
        return 1;
    }
    const uint32_t n = end - slice;
    const uint64_t *tags =
        (const uint64_t *)c->lens->look(c->lens->context, c->h.tags + slice, (uint64_t)n * 8);
    for (uint32_t i = 0; tags != NULL && i < n; i++) {
        c->tags[i] = tags[i];
    }
    int good = tags != NULL;
    while (good && k < end) {
        uint32_t last = k;
        while (last < end && wh_tessera_copy_has_(c->there, last)) {
            last++;
        }
        good = last == k || wh_tessera_copy_range_(c, slice, k, last);
        k = last + 1;
    }
    return good;
}

/* The contract's gauge. */
WH_FN_HOST int wh_tessera_gauge(wh_tessera_ref h, const wh_gauge_lens *lens, wh_gauge_sample *s) {
    wh_tessera_copy c;
    c.lens = lens;
    c.sample = s;
    c.h = h;
    int good =
        wh_tessera_copy_room_(&c) && wh_tessera_copy_shards_(&c) && wh_tessera_copy_chunks_(&c);
    if (!good) {
        return 0;
    }
    if (lens->depth == WH_GAUGE_BLOCKS) {
        s->live_blocks = s->used_bytes = 0;
        for (uint32_t k = 0; good && k < c.top; k += WH_TESSERA_SLICE) {
            const uint32_t left = c.top - k;
            good = wh_tessera_copy_slice_(&c, k,
                                          k + (left < WH_TESSERA_SLICE ? left : WH_TESSERA_SLICE));
        }
    } else if ((h.core.tracks & WH_TESSERA_TRACKS_PEAK) != 0) {
        s->used_bytes = c.header.used;
    }
    if ((h.core.tracks & WH_TESSERA_TRACKS_PEAK) != 0) {
        s->peak_bytes = c.header.peak;
    }
    if ((h.core.tracks & WH_TESSERA_TRACKS_TOTALS) != 0) {
        s->mallocs = c.header.mallocs;
    }
    return good;
}

#include "warpheap/detail/simt/end.h"

#endif
