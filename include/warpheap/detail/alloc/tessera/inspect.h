/* alloc/tessera/inspect.h: first state, statistics, walk and whole-heap check, on a quiet heap.
 * This file may change: it is no part of the API.
 */
#ifndef WH_ALLOC_TESSERA_INSPECT_H
#define WH_ALLOC_TESSERA_INSPECT_H

#include "warpheap/detail/alloc/tessera/layout.h"

#include "warpheap/detail/simt/begin.h"

WH_FN void wh_tessera_init_chunk_(wh_tessera_core g, uint32_t chunk) {
    wh_assert_internal(chunk < g.n_chunks);
    *wh_tessera_tag_at_(g, chunk) = WH_TESSERA_FREE;
    *wh_tessera_state_at_(g, chunk) = WH_TESSERA_EMPTY;
}

/* The class whose first spans a chunk is in; n_classes for one between those of two classes. */
WH_FN uint32_t wh_tessera_first_class_(wh_tessera_ref h, uint32_t chunk, wh_tessera_first *first) {
    const wh_tessera_core g = h.core;
    uint32_t end = 0;
    wh_assert_internal(chunk < g.begin && g.n_classes != 0);
    for (uint32_t c = 0; c < g.n_classes; c++) {
        *first =
            wh_tessera_make_first(c, g.chunk_log2, h.max_order, wh_tessera_shard_bytes(g), end);
        end = wh_tessera_first_end(*first, g.n_shards);
        if (chunk < end) {
            return chunk >= first->chunk ? c : g.n_classes;
        }
    }
    return g.n_classes;
}

/* A chunk before g.begin: of a shard's first span of a class, but for a few. */
WH_FN void wh_tessera_init_first_(wh_tessera_ref h, uint32_t chunk) {
    wh_assert_internal(chunk < h.core.begin);
    const wh_tessera_core g = h.core;
    wh_tessera_first first;
    const uint32_t c = wh_tessera_first_class_(h, chunk, &first);
    wh_tessera_init_chunk_(g, chunk);
    if (c < g.n_classes) {
        const wh_tessera_class cls =
            wh_tessera_make_class(c, g.chunk_log2, h.max_order, h.span_share);
        const uint32_t shard = (chunk - first.chunk) / (first.slabs << first.order);
        const uint64_t tag = wh_tessera_slab_tag(c, first.order, cls.slot_size);
        *wh_tessera_tag_at_(g, chunk) = wh_tessera_with_shard(tag, shard);
        if (cls.slots > 64) {
            *wh_tessera_state_at_(g, chunk) = wh_tessera_fresh_state(cls.slots);
        }
    }
}

/* What word k of a shard is at first: 0, or the span or the spare one of a cursor. */
WH_FN uint64_t wh_tessera_init_shard_(wh_tessera_ref h, uint32_t shard, uint32_t k) {
    const wh_tessera_core g = h.core;
    const uint32_t cursor_words = sizeof(wh_tessera_cursor) / 8;
    const uint32_t own_shard = sizeof(wh_tessera_shard) / 8 - 64 * cursor_words;
    const uint32_t c = (k - own_shard) / cursor_words, in = (k - own_shard) % cursor_words;
    const int is_spare = in == offsetof(wh_tessera_cursor, spare) / 8;
    if (k < own_shard || c >= g.n_classes || (in != 0 && !is_spare)) {
        return 0;
    }
    wh_tessera_first first;
    uint32_t end = 0;
    for (uint32_t below = 0;; below++) {
        first =
            wh_tessera_make_first(below, g.chunk_log2, h.max_order, wh_tessera_shard_bytes(g), end);
        end = wh_tessera_first_end(first, g.n_shards);
        if (below == c) {
            break;
        }
    }
    const uint32_t slots = wh_tessera_make_class(c, g.chunk_log2, h.max_order, h.span_share).slots;
    const uint32_t before = is_spare ? first.slabs - first.spare : 0;
    const uint32_t slabs = is_spare ? first.spare : first.slabs - first.spare;
    return slabs == 0
               ? WH_TESSERA_VACANT
               : wh_tessera_span(first.chunk + ((shard * first.slabs + before) << first.order),
                                 slots * slabs, 0);
}

/* The free ones among the 64 chunks of such a word of the pool. */
WH_FN uint64_t wh_tessera_init_gaps_(wh_tessera_ref h, uint32_t word) {
    const wh_tessera_core g = h.core;
    uint64_t taken = 0;
    uint32_t end = 0;
    for (uint32_t c = 0; c < g.n_classes; c++) {
        const wh_tessera_first first =
            wh_tessera_make_first(c, g.chunk_log2, h.max_order, wh_tessera_shard_bytes(g), end);
        end = wh_tessera_first_end(first, g.n_shards);
        const uint32_t from = first.chunk > word * 64 ? first.chunk - word * 64 : 0;
        const uint32_t to = end > word * 64 ? end - word * 64 : 0;
        if (from < 64 && from < to) {
            const uint32_t n = (to < 64 ? to : 64) - from;
            taken |= (~(uint64_t)0 >> (64 - n)) << from;
        }
    }
    return ~taken;
}

WH_FN void wh_tessera_init(wh_tessera_ref h, uint64_t i, uint64_t n) {
    const wh_tessera_core g = h.core;
    const uint32_t shard_words = sizeof(wh_tessera_shard) / 8;
    wh_tessera_header *header = wh_tessera_header_(g);
    uint64_t *shards = (uint64_t *)(void *)h.shards;
    const uint64_t pool = wh_veb_words(g.n_chunks);
    const uint64_t list_words = (uint64_t)wh_tessera_n_lists(g.n_classes) * g.list_words;
    for (uint64_t k = i; k < WH_TESSERA_CLASSES; k += n) {
        const wh_tessera_class none = {0, 0, 0, 0}; /* of no class: malloc loads it, and no more */
        header->classes[k] = none;
        if (k < g.n_classes) {
            const wh_tessera_class cls =
                wh_tessera_make_class((uint32_t)k, g.chunk_log2, h.max_order, h.span_share);
            const uint32_t rounds = (g.n_chunks >> 6) / g.n_shards;
            const uint32_t begin = (g.begin >> 6) / g.n_shards + (g.begin != 0);
            header->classes[k] = cls;
            header->slab_tags[k] =
                wh_tessera_slab_tag((uint32_t)k, wh_tessera_order(cls), cls.slot_size);
            header->starts[k] =
                begin < rounds ? (begin + (uint32_t)k * (rounds - begin) / g.n_classes) * g.n_shards
                               : 0;
        }
        header->oom_verdict[0][k] = header->oom_verdict[1][k] = 0;
        header->oom_answered[0][k] = header->oom_answered[1][k] = 0;
    }
    if (i == 0) {
        header->oom_tickets = 0;
        header->oom_classes = 0;
        header->search_lock = 0;
        header->run_verdict = 0;
        header->run_lock = 0;
        header->run_position = 0;
        header->run_news = 0;
        header->used = 0;
        header->peak = 0;
        header->mallocs = 0;
        header->core = g;
    }
    for (uint64_t k = i; k < (uint64_t)g.n_shards * shard_words; k += n) {
        shards[k] =
            wh_tessera_init_shard_(h, (uint32_t)(k / shard_words), (uint32_t)(k % shard_words));
    }
    for (uint64_t k = i; k < g.begin; k += n) {
        wh_tessera_init_first_(h, (uint32_t)k);
    }
    for (uint64_t k = i + g.begin; k < g.n_chunks; k += n) {
        wh_tessera_init_chunk_(g, (uint32_t)k);
    }
    for (uint64_t k = i; k < pool; k += n) {
        /* Above the first spans, the summaries say more than there is: searches see to it. */
        *wh_veb_word(wh_tessera_pool_(g), k) = k < g.begin >> 6
                                                   ? wh_tessera_init_gaps_(h, (uint32_t)k)
                                                   : wh_veb_initial_word(g.n_chunks, k, 1);
    }
    for (uint64_t k = i; k < list_words; k += n) {
        g.partial_lists[k] = 0;
    }
    const uint32_t words_log2 = wh_tessera_words_log2(g.chunk_log2);
    for (uint64_t k = i; k < (uint64_t)g.n_chunks << words_log2; k += n) {
        h.words[k] = 0;
    }
}

/* A slab as the inspection sees it. */
typedef struct wh_tessera_slab_view {
    uint64_t tag;
    uint32_t slab;
    uint32_t slots;
    uint32_t left, end; /* slots [left, end) are still with a cursor */
} wh_tessera_slab_view;

/* Whether chunk, which is not in the pool and has this tag, is the first of a slab or a pack. All
 * loads are atomic: left.h looks while lanes run. */
WH_FN int wh_tessera_view_tagged_(wh_tessera_core g, uint32_t chunk, uint64_t tag,
                                  wh_tessera_slab_view *view) {
    const int is_pack = wh_tessera_is_pack(tag) && wh_tessera_pack_at(tag) == 0;
    const int is_slab = wh_tessera_kind(tag) == WH_TESSERA_SLAB &&
                        (chunk & ((1u << wh_tessera_tag_order(tag)) - 1)) == 0;
    if (!is_pack && !is_slab) {
        return 0;
    }
    view->tag = tag;
    view->slab = chunk;
    view->slots = wh_tessera_tag_slots(tag, g.chunk_log2);
    view->left = view->end = 0;
    if (is_pack) {
        return 1;
    }
    const uint32_t c = wh_tessera_tag_class(tag);
    const wh_tessera_cursor *cursor = wh_tessera_cursor_at_(g, wh_tessera_tag_shard(tag), c);
    for (uint32_t k = 0; k < 2; k++) {
        const uint64_t span = wh_load_u64_relaxed(k == 0 ? &cursor->span : &cursor->spare);
        const uint32_t first = wh_tessera_span_first(span), slots = wh_tessera_span_slots(span);
        const uint32_t position = wh_tessera_span_position(span);
        if (slots != 0 && chunk >= first) {
            const uint32_t before = (chunk - first) >> wh_tessera_tag_order(tag);
            if (before < slots / view->slots && position < (before + 1) * view->slots) {
                view->left = position > before * view->slots ? position - before * view->slots : 0;
                view->end = view->slots;
            }
        }
    }
    return 1;
}

/* Whether chunk is the first of a slab or a pack that is in use. */
WH_FN int wh_tessera_view_slab_(wh_tessera_core g, uint32_t chunk, wh_tessera_slab_view *view) {
    return !wh_veb_contains(wh_tessera_pool_(g), chunk) &&
           wh_tessera_view_tagged_(g, chunk, wh_load_u64_relaxed(wh_tessera_tag_at_(g, chunk)),
                                   view);
}

WH_FN int wh_tessera_is_live_(wh_tessera_core g, const wh_tessera_slab_view *view, uint32_t slot) {
    wh_assert_internal(slot < view->slots);
    const uint64_t word = wh_tessera_words_of_(g, view->slab)[slot >> 6];
    return (word >> (slot & 63) & 1) == 0 && !(slot >= view->left && slot < view->end);
}

/* Where a slot begins, in bytes behind the slab's or pack's first one, and its size. */
WH_FN uint64_t wh_tessera_slot_at_(wh_tessera_core g, const wh_tessera_slab_view *view,
                                   uint32_t slot, uint64_t *bytes) {
    wh_assert_internal(slot < view->slots);
    if (wh_tessera_is_pack(view->tag)) {
        const uint32_t granule_log2 = wh_tessera_granule_log2(g.chunk_log2);
        const uint32_t fit = wh_tessera_pack_fit_(g, view->slab, view->tag, 1u << slot, 0);
        *bytes = (uint64_t)WH_TESSERA_FIT_LENGTH(fit) << granule_log2;
        return (uint64_t)WH_TESSERA_FIT_START(fit) << granule_log2;
    }
    *bytes = wh_tessera_tag_size(view->tag);
    return slot * *bytes;
}

/* Largest class that a block of so many bytes serves, as malloc sees it. */
WH_FN uint32_t wh_tessera_serves_(wh_tessera_core g, uint64_t bytes) {
    wh_assert_internal(bytes != 0);
    const uint64_t chunk = (uint64_t)1 << g.chunk_log2;
    const uint32_t c = wh_tessera_class_of((uint32_t)(bytes < chunk ? bytes : chunk));
    return wh_tessera_bound(c) > bytes ? c - 1 : c;
}

/* Slots of a slab or pack that nobody has: free, or still with a cursor. Where lanes run both may
 * be said of one. */
WH_FN uint32_t wh_tessera_unused_(wh_tessera_core g, const wh_tessera_slab_view *view) {
    const uint64_t *words = wh_tessera_words_of_(g, view->slab);
    uint32_t unused = view->end - view->left;
    for (uint32_t w = 0; w * 64 < view->slots; w++) {
        unused += wh_popc64(wh_load_u64_relaxed(&words[w]) & wh_tessera_slot_bits(view->slots, w));
    }
    return unused < view->slots ? unused : view->slots;
}

/* Slots of a slab that are in callers' hands. */
WH_FN uint32_t wh_tessera_live_(wh_tessera_core g, const wh_tessera_slab_view *view) {
    return view->slots - wh_tessera_unused_(g, view);
}

/* Whether malloc could have this chunk for another use: it is in the pool, or in a slab that is
 * attached to a cursor and has no live slot. */
WH_FN int wh_tessera_is_spare_(wh_tessera_core g, uint32_t chunk) {
    wh_tessera_slab_view view;
    if (wh_veb_contains(wh_tessera_pool_(g), chunk)) {
        return 1;
    }
    const uint64_t tag = *wh_tessera_tag_at_(g, chunk);
    const uint32_t base = chunk >> wh_tessera_tag_order(tag) << wh_tessera_tag_order(tag);
    return wh_tessera_kind(tag) == WH_TESSERA_SLAB && wh_tessera_view_slab_(g, base, &view) &&
           wh_tessera_live_(g, &view) == 0;
}

/* Bytes of the run of spare chunks that starts at chunk; 0 if another one goes on here. */
WH_FN uint64_t wh_tessera_spare_run_at_(wh_tessera_core g, uint32_t chunk) {
    if (!wh_tessera_is_spare_(g, chunk) || (chunk != 0 && wh_tessera_is_spare_(g, chunk - 1))) {
        return 0;
    }
    uint32_t end = chunk + 1;
    while (end < g.n_chunks) {
        if ((end & 63) == 0 && g.n_chunks - end >= 64 &&
            *wh_veb_word(wh_tessera_pool_(g), end >> 6) == ~(uint64_t)0) {
            end += 64;
        } else if (wh_tessera_is_spare_(g, end)) {
            end++;
        } else {
            break;
        }
    }
    return (uint64_t)(end - chunk) << g.chunk_log2;
}

WH_FN void wh_tessera_stats(wh_tessera_ref h, uint64_t i, uint64_t n, wh_stats *s) {
    const wh_tessera_core g = h.core;
    uint64_t live = 0, used = 0, largest = 0;
    for (uint64_t k = i; k < g.n_chunks; k += n) {
        const uint32_t chunk = (uint32_t)k;
        const uint64_t tag = *wh_tessera_tag_at_(g, chunk);
        wh_tessera_slab_view view;
        if (wh_tessera_view_slab_(g, chunk, &view)) {
            const int is_pack = wh_tessera_is_pack(tag);
            const uint32_t count = wh_tessera_live_(g, &view);
            live += count;
            if (!is_pack) {
                const uint32_t c = wh_tessera_tag_class(tag);
                used += (uint64_t)count * wh_tessera_tag_size(tag);
                wh_add_u64_relaxed(&s->classes[c].live, count);
                wh_add_u64_relaxed(&s->classes[c].capacity, view.slots);
                if (count < view.slots && wh_tessera_bound(c) > largest) {
                    largest = wh_tessera_bound(c);
                }
            }
            for (uint32_t slot = 0; is_pack && slot < view.slots;
                 slot++) { /* of the class served */
                uint64_t bytes;
                (void)wh_tessera_slot_at_(g, &view, slot, &bytes);
                const uint32_t c = wh_tessera_serves_(g, bytes);
                const int is_live = wh_tessera_is_live_(g, &view, slot);
                used += is_live ? bytes : 0;
                wh_add_u64_relaxed(&s->classes[c].live, (uint64_t)is_live);
                wh_add_u64_relaxed(&s->classes[c].capacity, 1);
                if (!is_live && wh_tessera_least_(g, c) != 0 && wh_tessera_bound(c) > largest) {
                    largest = wh_tessera_bound(c);
                }
            }
        } else if (wh_tessera_kind(tag) == WH_TESSERA_RUN) {
            live++;
            used += tag >> 32 << g.chunk_log2;
        }
        const uint64_t run_bytes = wh_tessera_spare_run_at_(g, chunk);
        largest = run_bytes > largest ? run_bytes : largest;
    }
    wh_add_u64_relaxed(&s->live_blocks, live);
    if ((g.tracks & WH_TESSERA_TRACKS_TOTALS) != 0) { /* what is not live has been given back */
        wh_add_u64_relaxed(&s->frees, 0 - live);
    }
    wh_add_u64_relaxed(&s->used_bytes, used);
    (void)wh_fetch_max_u64_relaxed(&s->largest_free, largest);
    for (uint64_t k = i; k < g.n_shards; k += n) {
        wh_add_u64_relaxed(&s->failed, wh_tessera_shard_at_(g, (uint32_t)k)->failed);
        wh_add_u64_relaxed(&s->bad_frees, wh_tessera_shard_at_(g, (uint32_t)k)->bad_frees);
    }
    for (uint64_t k = i; k < g.n_classes; k += n) {
        s->classes[k].block_bytes = h.classes[k].slot_size;
    }
    if (i == 0) {
        if ((g.tracks & WH_TESSERA_TRACKS_PEAK) != 0) {
            s->peak_bytes = wh_tessera_header_(g)->peak;
        }
        if ((g.tracks & WH_TESSERA_TRACKS_TOTALS) != 0) {
            s->mallocs = wh_tessera_header_(g)->mallocs;
            wh_add_u64_relaxed(&s->frees, s->mallocs - WH_UNKNOWN); /* it was that before */
        }
        s->n_classes = g.n_classes;
    }
}

WH_FN void wh_tessera_walk(wh_tessera_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink) {
    const wh_tessera_core g = h.core;
    for (uint64_t k = i; k < g.n_chunks; k += n) {
        const uint32_t chunk = (uint32_t)k;
        const uint64_t tag = *wh_tessera_tag_at_(g, chunk);
        unsigned char *p = g.base + (k << g.chunk_log2);
        wh_tessera_slab_view view;
        if (wh_tessera_view_slab_(g, chunk, &view)) {
            for (uint32_t slot = 0; slot < view.slots; slot++) {
                if (wh_tessera_is_live_(g, &view, slot)) {
                    uint64_t bytes;
                    const uint64_t at = wh_tessera_slot_at_(g, &view, slot, &bytes);
                    wh_walk_emit(sink, p + at, bytes);
                }
            }
        } else if (wh_tessera_kind(tag) == WH_TESSERA_RUN) {
            wh_walk_emit(sink, p, tag >> 32 << g.chunk_log2);
        }
    }
}

/* The tags of a pack in use: 0, or I9. */
WH_FN uint32_t wh_tessera_check_tags_(wh_tessera_core g, const wh_tessera_slab_view *view) {
    const uint32_t chunks = wh_tessera_pack_chunks(view->tag);
    uint32_t slots = 0;
    for (uint32_t k = 0; k < chunks; k++) {
        const uint64_t tag = *wh_tessera_tag_at_(g, view->slab + k);
        const uint32_t starts = wh_high_u32(tag);
        if (tag != wh_tessera_pack_tag(view->slots, slots, k, chunks, starts) ||
            (k == 0 && (starts & 1) == 0) || wh_veb_contains(wh_tessera_pool_(g), view->slab + k)) {
            return 9;
        }
        slots += wh_popc32(starts);
    }
    return slots == view->slots && (view->slab & 63) + chunks <= 64 ? 0 : 9;
}

/* A slab or pack in use: I1, I3 to I6, I9. Returns the number of the first one broken, or 0. */
WH_FN uint32_t wh_tessera_check_slab_(wh_tessera_core g, const wh_tessera_slab_view *view) {
    const int is_pack = wh_tessera_is_pack(view->tag);
    if (is_pack && wh_tessera_check_tags_(g, view) != 0) {
        return 9;
    }
    const uint32_t n_words = (view->slots + 63) >> 6;
    const uint64_t *words = wh_tessera_words_of_(g, view->slab);
    uint32_t state = WH_TESSERA_EMPTY, any = 0;
    for (uint32_t k = 1; !is_pack && k < 1u << wh_tessera_tag_order(view->tag); k++) {
        if (*wh_tessera_tag_at_(g, view->slab + k) != view->tag ||
            wh_veb_contains(wh_tessera_pool_(g), view->slab + k)) {
            return 3;
        }
    }
    for (uint32_t w = 0; w < n_words; w++) {
        const uint64_t slots = wh_tessera_slot_bits(view->slots, w);
        const uint64_t tail = wh_tessera_tail_bits(view->slots, w);
        state += words[w] != WH_TESSERA_ALL_FREE ? WH_TESSERA_USED_WORD : 0;
        any |= (words[w] & slots) != 0;
        if ((words[w] & ~slots) != ((words[w] & 1) != 0 ? tail : 0)) {
            return 1;
        }
        for (uint32_t slot = 64 * w; slot < 64 * (w + 1); slot++) {
            if ((words[w] >> (slot & 63) & 1) != 0 && slot >= view->left && slot < view->end) {
                return 1;
            }
        }
    }
    if (n_words == 1 && words[0] == WH_TESSERA_ALL_FREE) {
        return 4;
    }
    if (n_words > 1 &&
        (*wh_tessera_state_at_(g, view->slab) != state || state == WH_TESSERA_EMPTY)) {
        return 5;
    }
    const wh_veb list = wh_tessera_partial_list_(g, wh_tessera_list_of(g, view->tag));
    const uint32_t item = wh_tessera_item(g.n_chunks, view->slab);
    return any && (!wh_veb_contains(list, item) || !wh_veb_check(list, item >> 6)) ? 6 : 0;
}

/* A chunk: in the pool (I2), of a run, or of a slab. */
WH_FN uint32_t wh_tessera_check_chunk_(wh_tessera_core g, uint32_t chunk) {
    const uint64_t tag = *wh_tessera_tag_at_(g, chunk);
    const int in_pool = wh_veb_contains(wh_tessera_pool_(g), chunk);
    const uint32_t kind = wh_tessera_kind(tag);
    wh_tessera_slab_view view;
    if (in_pool) {
        const uint64_t *words = wh_tessera_words_of_(g, chunk);
        for (uint32_t w = 1; w < 1u << wh_tessera_words_log2(g.chunk_log2); w++) {
            if (words[w] != 0) {
                return 2;
            }
        }
        return *wh_tessera_state_at_(g, chunk) != WH_TESSERA_EMPTY || kind == WH_TESSERA_RUN ||
                       (kind == WH_TESSERA_SLAB && wh_tessera_tag_slots(tag, g.chunk_log2) > 64)
                   ? 2
                   : 0;
    }
    if (wh_tessera_view_slab_(g, chunk, &view)) {
        return wh_tessera_check_slab_(g, &view);
    }
    if (kind == WH_TESSERA_RUN) {
        for (uint64_t k = 1; k < tag >> 32; k++) {
            if (*wh_tessera_tag_at_(g, (uint32_t)(chunk + k)) != WH_TESSERA_INNER ||
                wh_veb_contains(wh_tessera_pool_(g), chunk + k)) {
                return 3;
            }
        }
        return 0;
    }
    if (wh_tessera_is_pack(tag)) { /* inside one */
        const uint32_t at = wh_tessera_pack_at(tag), base = chunk >= at ? chunk - at : 0;
        const uint64_t first = *wh_tessera_tag_at_(g, base);
        return at == 0 || !wh_tessera_is_pack(first) || wh_tessera_pack_at(first) != 0 ||
                       wh_tessera_pack_chunks(first) <= at ||
                       wh_veb_contains(wh_tessera_pool_(g), base)
                   ? 1
                   : 0;
    }
    if (kind == WH_TESSERA_INNER) { /* behind another chunk of its run */
        const uint32_t before = chunk == 0 || wh_tessera_is_pack(*wh_tessera_tag_at_(g, chunk - 1))
                                    ? WH_TESSERA_FREE
                                    : wh_tessera_kind(*wh_tessera_tag_at_(g, chunk - 1));
        return (before != WH_TESSERA_RUN && before != WH_TESSERA_INNER) ||
                       wh_veb_contains(wh_tessera_pool_(g), chunk - 1)
                   ? 1
                   : 0;
    }
    if (kind == WH_TESSERA_SLAB) { /* inside one */
        const uint32_t base = chunk >> wh_tessera_tag_order(tag) << wh_tessera_tag_order(tag);
        return *wh_tessera_tag_at_(g, base) != tag || wh_veb_contains(wh_tessera_pool_(g), base)
                   ? 1
                   : 0;
    }
    return 1; /* nobody's */
}

WH_FN void wh_tessera_check(wh_tessera_ref h, uint64_t i, uint64_t n, wh_report *r) {
    const wh_tessera_core g = h.core;
    const uint64_t pool = wh_veb_words(g.n_chunks);
    const uint64_t tree = wh_veb_words(wh_tessera_items(g.n_chunks));
    for (uint64_t k = i; k < g.n_chunks; k += n) {
        const uint32_t broken = wh_tessera_check_chunk_(g, (uint32_t)k);
        if (broken != 0) {
            wh_report_error(r, broken, k);
        }
    }
    for (uint64_t k = i; k < pool + tree * wh_tessera_n_lists(g.n_classes); k += n) {
        const wh_veb t = k < pool ? wh_tessera_pool_(g)
                                  : wh_tessera_partial_list_(g, (uint32_t)((k - pool) / tree));
        const uint64_t word = k < pool ? k : (k - pool) % tree;
        /* Level 0 of a list may hold items of slabs that have gone, without a summary. */
        if ((k < pool || word >= (t.n + 63) >> 6) && !wh_veb_check(t, word)) {
            wh_report_error(r, 6, k);
        }
    }
    for (uint64_t k = i; k < (uint64_t)g.n_shards << 6; k += n) {
        const wh_tessera_cursor *cursor = wh_tessera_cursor_at_(g, (uint32_t)(k >> 6), k & 63);
        const wh_tessera_shard *shard = wh_tessera_shard_at_(g, (uint32_t)(k >> 6));
        if (shard->takes_begun != shard->takes_done) {
            wh_report_error(r, 7, k);
        }
        uint32_t held = 0;
        for (uint32_t c = 0; (k & 63) == 0 && c < g.n_classes; c++) {
            held += wh_tessera_chunks_of_(h.classes[c], g.begin, (cursor + c)->span) +
                    wh_tessera_chunks_of_(h.classes[c], g.begin, (cursor + c)->spare);
        }
        if ((k & 63) == 0 && shard->held != held) { /* I8 */
            wh_report_error(r, 8, k);
        }
    }
}

#include "warpheap/detail/simt/end.h"

#endif
