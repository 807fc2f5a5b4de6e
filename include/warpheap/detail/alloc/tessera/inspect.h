/* alloc/tessera/inspect.h: first state, statistics, walk and whole-heap check, on a quiet heap;
 * and how many blocks of a size are left, also while lanes run.
 * This file may change: it is no part of the API.
 */
#ifndef WH_ALLOC_TESSERA_INSPECT_H
#define WH_ALLOC_TESSERA_INSPECT_H

#include "warpheap/detail/alloc/tessera/guard.h"
#include "warpheap/detail/alloc/tessera/steps.h"

#include "warpheap/detail/simt/begin.h"

/* The header of a heap of which all chunks are there, or which settle tells what is. */
WH_FN void wh_tessera_adopt_(wh_tessera_ref h) {
    wh_tessera_header *header = wh_tessera_header_(h.core);
    header->core = h.core;
    header->top = h.core.n_chunks;
    header->home_chunks = h.core.home_chunks;
    header->growth = NULL;
}

WH_FN void wh_tessera_init_header_(wh_tessera_ref h, uint64_t i, uint64_t n) {
    wh_tessera_header *header = wh_tessera_header_(h.core);
    for (uint64_t k = i; k < WH_TESSERA_CLASSES; k += n) {
        const wh_tessera_class none = {0, 0, 0, 0}; /* of no class: malloc loads it, and no more */
        header->classes[k] = none;
        header->slab_tags[k] = 0;
        if (k < h.core.n_small || (h.core.has_large && k < WH_TESSERA_ALL)) {
            const wh_tessera_class cls =
                wh_tessera_make_class((uint32_t)k, h.core.chunk_log2, h.core.max_slab_log2);
            header->classes[k] = cls;
            header->slab_tags[k] = wh_tessera_slab_tag((uint32_t)k, cls.chunks, cls.slot_size);
        }
    }
    for (uint64_t k = i; k < 64; k += n) {
        header->oom_answered[k] = 0;
    }
    if (i == 0) {
        header->oom_classes = 0;
        header->oom_tickets = 0;
        header->run_verdict = 0;
        header->search_lock = 0;
        header->run_lock = 0;
        header->run_next = h.core.reserved != 0 ? h.core.n_chunks - header->top : 0;
        header->run_news = 0;
        header->used = 0;
        header->peak = 0;
        header->mallocs = 0;
        header->oom_found = 0;
        header->growing.lock = 0;
        header->growing.timed_out = 0;
        if (h.core.reserved == 0) { /* else reserve.h keeps what the handle does not know */
            wh_tessera_adopt_(h);
        }
    }
}

/* A chunk below g.begin: of a shard's first span of a class, but for a few. */
WH_FN void wh_tessera_init_first_(wh_tessera_core g, uint32_t chunk) {
    uint32_t end = 0;
    *wh_tessera_tag_at_(g, chunk) = WH_TESSERA_FREE;
    for (uint32_t c = 0; c < g.n_small && chunk >= end; c++) {
        const wh_tessera_class cls = wh_tessera_make_class(c, g.chunk_log2, g.max_slab_log2);
        const wh_tessera_first first = wh_tessera_make_first(g, cls, end);
        end = wh_tessera_first_end(g, first);
        if (chunk >= first.chunk && chunk < end) {
            const uint32_t in = chunk - first.chunk;
            const uint64_t tag = wh_tessera_slab_tag(c, cls.chunks, cls.slot_size);
            *wh_tessera_tag_at_(g, chunk) = wh_tessera_with_shard(tag, in / first.chunks) +
                                            in % cls.chunks * WH_TESSERA_NEXT_TAG;
        }
    }
}

/* Word w of the pool, and of the lists, where first spans lie: chunks that are in none of them; and
 * their slabs, since frees look for these on the lists. */
WH_FN void wh_tessera_init_word_(wh_tessera_core g, uint32_t w) {
    uint64_t taken = 0;
    uint32_t end = 0;
    for (uint32_t c = 0; c < wh_tessera_n_classes(g); c++) {
        uint64_t slabs = 0;
        if (c < g.n_small) {
            const wh_tessera_class cls = wh_tessera_make_class(c, g.chunk_log2, g.max_slab_log2);
            const wh_tessera_first first = wh_tessera_make_first(g, cls, end);
            end = wh_tessera_first_end(g, first);
            const uint32_t from = first.chunk > w * 64 ? first.chunk - w * 64 : 0;
            const uint32_t to = end > w * 64 ? end - w * 64 : 0;
            if (from < 64 && from < to) {
                const uint64_t its = wh_tessera_chunk_mask_(from, (to < 64 ? to : 64) - from);
                taken |= its;
                slabs = its & wh_tessera_multiples_(cls.chunks);
            }
        }
        g.partial_lists[(uint64_t)c * g.list_words + w] = slabs;
    }
    *wh_veb_word(wh_tessera_pool_(g), w) = ~taken;
}

/* The levels of the list of class c above its words. */
WH_FN void wh_tessera_init_levels_(wh_tessera_core g, uint32_t c) {
    wh_tessera_first first;
    uint32_t end = 0;
    first.chunk = first.chunks = 0;
    for (uint32_t k = 0; k <= c && c < g.n_small; k++) {
        first =
            wh_tessera_make_first(g, wh_tessera_make_class(k, g.chunk_log2, g.max_slab_log2), end);
        end = wh_tessera_first_end(g, first);
    }
    uint32_t size = (g.n_chunks + 63) >> 6, base = 0;
    uint32_t from = first.chunk >> 6, to = first.chunks != 0 ? ((end - 1) >> 6) + 1 : from;
    while (size > 1) { /* of the level below, words [from, to) have members */
        base += size;
        size = (size + 63) >> 6;
        for (uint32_t w = 0; w < size; w++) {
            const uint64_t above = from > w * 64 ? wh_ones_from_u64(from - w * 64) : ~(uint64_t)0;
            const uint64_t below = to > w * 64 ? ~wh_ones_from_u64(to - w * 64) : 0;
            g.partial_lists[(uint64_t)c * g.list_words + base + w] = from < to ? above & below : 0;
        }
        to = from < to ? ((to - 1) >> 6) + 1 : from >> 6;
        from >>= 6;
    }
}

/* What word k of a shard is at first: 0, or the span of a cursor. */
WH_FN uint64_t wh_tessera_init_shard_(wh_tessera_core g, uint32_t shard, uint32_t k) {
    const uint32_t of_cursor = sizeof(wh_tessera_cursor) / 8;
    const uint32_t own = offsetof(wh_tessera_shard, cursors) / 8;
    const uint32_t c = k < own ? g.n_small : (k - own) / of_cursor;
    if (c >= g.n_small || (k - own) % of_cursor != 0) {
        return 0;
    }
    wh_tessera_class cls = wh_tessera_make_class(0, g.chunk_log2, g.max_slab_log2);
    wh_tessera_first first = wh_tessera_make_first(g, cls, 0);
    for (uint32_t below = 1; below <= c; below++) {
        cls = wh_tessera_make_class(below, g.chunk_log2, g.max_slab_log2);
        first = wh_tessera_make_first(g, cls, wh_tessera_first_end(g, first));
    }
    return first.chunks == 0 ? WH_TESSERA_VACANT
                             : wh_tessera_span(first.chunk + shard * first.chunks,
                                               first.chunks / cls.chunks * cls.slots, 0);
}

/* Nothing is in quarantine, and headers from before count no more. Records stay. */
WH_FN void wh_tessera_init_watch_(wh_tessera_watch *w, uint64_t i, uint64_t n) {
    uint64_t *slots = (uint64_t *)(void *)(w + 1);
    for (uint64_t k = i; k < w->n_entries; k += n) {
        slots[k] = 0;
    }
    if (i == 0) {
        w->tail = w->head = w->held = w->leaving = w->events = 0;
        w->epoch = wh_tessera_mix_(w->epoch + 1, wh_time_ns());
    }
}

WH_FN void wh_tessera_init(wh_tessera_ref h, uint64_t i, uint64_t n) {
    const wh_tessera_core g = h.core;
    const uint32_t shard_words = sizeof(wh_tessera_shard) / 8;
    uint64_t *shards = (uint64_t *)(void *)h.shards;
    const uint64_t pool = wh_veb_words(g.n_chunks);
    wh_tessera_init_header_(h, i, n);
    if (g.watch != NULL) {
        wh_tessera_init_watch_(g.watch, i, n);
    }
    for (uint64_t k = i; k < (uint64_t)g.n_shards * shard_words; k += n) {
        shards[k] =
            wh_tessera_init_shard_(g, (uint32_t)(k / shard_words), (uint32_t)(k % shard_words));
    }
    for (uint64_t k = i; k < g.n_chunks; k += n) {
        if (k < g.begin) {
            wh_tessera_init_first_(g, (uint32_t)k);
        } else {
            *wh_tessera_tag_at_(g, (uint32_t)k) =
                wh_tessera_is_there_(g, (uint32_t)k) ? WH_TESSERA_FREE : WH_TESSERA_ABSENT;
        }
        *wh_tessera_state_at_(g, (uint32_t)k) = 0;
    }
    const uint32_t first_words = g.begin >> 6;
    for (uint64_t k = i; k < pool; k += n) {
        if (k < first_words) {
            wh_tessera_init_word_(g, (uint32_t)k);
        } else if (g.reserved != 0) { /* what is there, and summaries of that */
            *wh_veb_word(wh_tessera_pool_(g), k) = *wh_veb_word(wh_tessera_present_(g), k);
        } else { /* above the first spans the summaries say more than there is: searches see to it
                  */
            *wh_veb_word(wh_tessera_pool_(g), k) = wh_veb_initial_word(g.n_chunks, k, 1);
        }
    }
    const uint32_t words = (g.n_chunks + 63) >> 6;
    for (uint64_t k = i; k < (uint64_t)wh_tessera_n_classes(g) * g.list_words; k += n) {
        const uint32_t w = (uint32_t)(k % g.list_words);
        if (w >= first_words && w < words) {
            g.partial_lists[k] = 0;
        }
    }
    for (uint64_t k = i; k < wh_tessera_n_classes(g); k += n) {
        wh_tessera_init_levels_(g, (uint32_t)k);
    }
    /* Less than 2^32, as a heap has less than 2^24 chunks. */
    const uint32_t top = g.reserved != 0 ? wh_tessera_header_(g)->top : g.n_chunks;
    for (uint32_t k = (uint32_t)i; k < top * g.words_of_chunk; k += (uint32_t)n) {
        if (wh_tessera_is_there_(g, k / g.words_of_chunk)) {
            h.words[k] = 0;
        }
    }
}

/* A slab as the inspection sees it. */
typedef struct wh_tessera_slab_view {
    uint64_t tag;
    uint32_t slab;
    uint32_t slots;
    uint32_t left, end; /* slots [left, end) are still with a cursor */
} wh_tessera_slab_view;

/* Of a slab, whose tag is its class's usual one or not: which slots a cursor with this span has. A
 * span has slabs of the usual size, or is one that is smaller. Others of either kind may lie right
 * behind it. */
WH_HD void wh_tessera_view_span_(wh_tessera_slab_view *view, uint64_t span, int is_usual) {
    const uint32_t chunk = view->slab, chunks = wh_tessera_tag_chunks(view->tag);
    const uint32_t first = wh_tessera_span_first(span);
    const uint32_t position = wh_tessera_span_position(span);
    const uint32_t before = chunk >= first ? (chunk - first) / chunks : 0;
    const int in_step = is_usual ? chunk >= first && (chunk - first) % chunks == 0
                                 : chunk == first && wh_tessera_span_slots(span) == view->slots;
    const uint32_t slabs = wh_tessera_span_slots(span) / view->slots;
    view->left = view->end = 0;
    if (in_step && before < slabs && position < (before + 1) * view->slots) {
        view->left = position > before * view->slots ? position - before * view->slots : 0;
        view->end = view->slots;
    }
}

/* Whether chunk is the first of a slab that is in use. (The loads of this and the next few are
 * atomic: the last part of the file looks while lanes run.) */
WH_FN int wh_tessera_view_slab_(wh_tessera_core g, uint32_t chunk, wh_tessera_slab_view *view) {
    const uint64_t tag = wh_load_u64_relaxed(wh_tessera_tag_at_(g, chunk));
    if (wh_veb_contains(wh_tessera_pool_(g), chunk) || wh_tessera_kind(tag) != WH_TESSERA_SLAB ||
        wh_tessera_tag_at(tag) != 0) {
        return 0;
    }
    const uint32_t c = wh_tessera_tag_class(tag);
    const wh_tessera_cursor *cursor = wh_tessera_cursor_at_(g, wh_tessera_tag_shard(tag), c);
    view->tag = tag;
    view->slab = chunk;
    view->slots = wh_tessera_tag_slots(tag, g.chunk_log2);
    const uint64_t span = wh_load_u64_relaxed(&cursor->span);
    const int is_usual =
        tag == wh_tessera_with_shard(wh_load_u64_relaxed(&wh_tessera_header_(g)->slab_tags[c]),
                                     wh_tessera_tag_shard(tag));
    wh_tessera_view_span_(view, span, is_usual);
    return 1;
}

WH_FN int wh_tessera_is_live_(wh_tessera_core g, const wh_tessera_slab_view *view, uint32_t slot) {
    wh_assert_internal(slot < view->slots);
    const uint64_t word = wh_tessera_words_of_(g, view->slab)[slot / WH_TESSERA_WORD_SLOTS];
    return (word >> slot % WH_TESSERA_WORD_SLOTS & 1) == 0 &&
           !(slot >= view->left && slot < view->end);
}

/* Slots of a slab that are in callers' hands. */
WH_FN uint32_t wh_tessera_live_(wh_tessera_core g, const wh_tessera_slab_view *view) {
    const uint64_t *words = wh_tessera_words_of_(g, view->slab);
    uint32_t unused = view->end - view->left;
    for (uint32_t i = 0; i < wh_tessera_words_for(view->slots); i++) {
        unused += wh_popc64(wh_load_u64_relaxed(&words[i]) & wh_tessera_all_slots(view->slots, i));
    }
    return unused < view->slots ? view->slots - unused : 0;
}

/* The same of a checked heap: slots that users have, and how many bytes they have there. */
WH_FN uint32_t wh_tessera_users_in_(const wh_tessera_core *g, const wh_tessera_slab_view *view,
                                    uint64_t *bytes) {
    const uint64_t size =
        wh_tessera_header_of_(g)->classes[wh_tessera_tag_class(view->tag)].slot_size;
    uint32_t live = 0;
    for (uint32_t slot = 0; slot < view->slots; slot++) {
        void *p;
        const uint64_t offset = ((uint64_t)view->slab << g->chunk_log2) + slot * size;
        const uint64_t its =
            wh_tessera_is_live_(*g, view, slot) ? wh_tessera_users_(g, offset, &p) : 0;
        live += its != 0;
        *bytes += its;
    }
    return live;
}

/* Whether malloc could have this chunk for another use: it is in the pool, or in a slab that a
 * cursor holds and that has no live slot. */
WH_FN int wh_tessera_is_spare_(wh_tessera_core g, uint32_t chunk) {
    wh_tessera_slab_view view;
    if (wh_veb_contains(wh_tessera_pool_(g), chunk)) {
        return 1;
    }
    const uint64_t tag = wh_load_u64_relaxed(wh_tessera_tag_at_(g, chunk));
    return wh_tessera_kind(tag) == WH_TESSERA_SLAB && wh_tessera_tag_at(tag) <= chunk &&
           wh_tessera_view_slab_(g, chunk - wh_tessera_tag_at(tag), &view) &&
           wh_tessera_live_(g, &view) == 0;
}

/* Bytes of the run of spare chunks that starts at chunk; 0 if another one goes on here. */
WH_FN uint64_t wh_tessera_spare_run_at_(wh_tessera_core g, uint32_t chunk) {
    if (!wh_tessera_is_spare_(g, chunk) || (chunk != 0 && wh_tessera_is_spare_(g, chunk - 1))) {
        return 0;
    }
    uint32_t end = chunk + 1;
    const uint32_t top = wh_tessera_top_(g);
    while (end < top) {
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

/* By one lane: what is mapped now. The host's figures may be older, in a captured graph; and the
 * header's, of a heap that grows, are those of the last row that a lane has taken. */
WH_FN void wh_tessera_stats_of_reserve_(wh_tessera_core g, wh_stats *s) {
    const wh_tessera_header *header = wh_tessera_header_(g);
    const wh_growth_box *box = header->growth;
    const uint64_t posted = box != NULL ? wh_load_u64_system(&box->posted) : 0;
    if (g.reserved == 0) {
        return;
    }
    s->heap_bytes = header->mapped_bytes;
    s->metadata_bytes = header->metadata_bytes;
    s->timed_out = header->growing.timed_out;
    if (posted != 0) {
        const wh_growth_row *row = &box->rows[(posted - 1) % WH_GROWTH_ROWS];
        s->heap_bytes = wh_load_u64_system(&row->mapped_bytes);
        s->metadata_bytes = wh_load_u64_system(&row->metadata_bytes);
    }
}

/* The numbers of classes in statistics: wh_stats has room for 64. Large ones count as runs. */
WH_FN void wh_tessera_stats(wh_tessera_ref h, uint64_t i, uint64_t n, wh_stats *s) {
    const wh_tessera_core g = *wh_tessera_core_of_(h);
    const int is_checked = (g.tracks & WH_TESSERA_CHECKED) != 0;
    uint64_t live = 0, used = 0, largest = 0;
    const uint32_t top = wh_tessera_top_(g);
    for (uint64_t k = i; k < top; k += n) {
        const uint32_t chunk = (uint32_t)k;
        const uint64_t tag = *wh_tessera_tag_at_(g, chunk);
        wh_tessera_slab_view view;
        if (wh_tessera_view_slab_(g, chunk, &view)) {
            const uint32_t c = wh_tessera_tag_class(tag), count = wh_tessera_live_(g, &view);
            uint64_t bytes = is_checked ? 0 : (uint64_t)count * h.classes[c].slot_size;
            const uint32_t its =
                is_checked ? wh_tessera_users_in_(wh_tessera_core_of_(h), &view, &bytes) : count;
            live += its;
            used += bytes;
            if (c < g.n_small) {
                wh_add_u64_relaxed(&s->classes[c].live, its);
                wh_add_u64_relaxed(&s->classes[c].capacity, view.slots);
            }
            if (count < view.slots && wh_tessera_bound(c) > largest) {
                largest = wh_tessera_bound(c);
            }
        } else if (wh_tessera_kind(tag) == WH_TESSERA_RUN) {
            void *p;
            const uint64_t bytes =
                is_checked ? wh_tessera_users_(wh_tessera_core_of_(h), k << g.chunk_log2, &p)
                           : tag >> 32 << g.chunk_log2;
            live += bytes != 0;
            used += bytes;
        }
        const uint64_t run_bytes = wh_tessera_spare_run_at_(g, chunk);
        largest = run_bytes > largest ? run_bytes : largest;
    }
    if (is_checked) { /* the rest of a block is not the user's */
        const uint64_t own = wh_tessera_raw_bytes_(1, 0);
        largest = largest > own ? largest - own : 0;
    }
    const uint64_t so_far = wh_fetch_add_u64_relaxed(&s->live_blocks, live) + live;
    if ((g.tracks & WH_TESSERA_TRACKS_TOTALS) != 0) {
        /* What is not live has been given back: the least that any lane computes is the last one's.
         * A kernel that died may have left blocks that nobody has counted. */
        const uint64_t mallocs = wh_tessera_header_(g)->mallocs;
        (void)wh_fetch_min_u64_relaxed(&s->frees, mallocs > so_far ? mallocs - so_far : 0);
    }
    wh_add_u64_relaxed(&s->used_bytes, used);
    (void)wh_fetch_max_u64_relaxed(&s->largest_free, largest);
    for (uint64_t k = i; k < g.n_shards; k += n) {
        wh_add_u64_relaxed(&s->failed, wh_tessera_shard_at_(g, (uint32_t)k)->failed);
        wh_add_u64_relaxed(&s->bad_frees, wh_tessera_shard_at_(g, (uint32_t)k)->bad_frees);
    }
    for (uint64_t k = i; k < g.n_small; k += n) {
        s->classes[k].block_bytes = h.classes[k].slot_size;
    }
    if (i == 0) {
        wh_tessera_stats_of_reserve_(g, s);
        if ((g.tracks & WH_TESSERA_TRACKS_PEAK) != 0) {
            s->peak_bytes = wh_tessera_header_(g)->peak;
        }
        if ((g.tracks & WH_TESSERA_TRACKS_TOTALS) != 0) {
            s->mallocs = wh_tessera_header_(g)->mallocs;
        }
        s->n_classes = g.n_small;
    }
}

/* A live block of the plain heap; of a checked one the user's, if he has it still. */
WH_FN void wh_tessera_emit_(const wh_tessera_core *g, wh_walk_sink *sink, uint64_t offset,
                            uint64_t bytes) {
    void *p = g->base + offset;
    if ((g->tracks & WH_TESSERA_CHECKED) != 0) {
        bytes = wh_tessera_users_(g, offset, &p);
    }
    if (bytes != 0) {
        wh_walk_emit(sink, p, bytes);
    }
}

WH_FN void wh_tessera_walk(wh_tessera_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink) {
    const wh_tessera_core g = *wh_tessera_core_of_(h);
    const uint32_t top = wh_tessera_top_(g);
    for (uint64_t k = i; k < top; k += n) {
        const uint32_t chunk = (uint32_t)k;
        const uint64_t tag = *wh_tessera_tag_at_(g, chunk);
        const uint64_t offset = k << g.chunk_log2;
        wh_tessera_slab_view view;
        if (wh_tessera_view_slab_(g, chunk, &view)) {
            const uint64_t bytes = h.classes[wh_tessera_tag_class(tag)].slot_size;
            for (uint32_t slot = 0; slot < view.slots; slot++) {
                if (wh_tessera_is_live_(g, &view, slot)) {
                    wh_tessera_emit_(wh_tessera_core_of_(h), sink, offset + slot * bytes, bytes);
                }
            }
        } else if (wh_tessera_kind(tag) == WH_TESSERA_RUN) {
            wh_tessera_emit_(wh_tessera_core_of_(h), sink, offset, tag >> 32 << g.chunk_log2);
        }
    }
}

/* A slab in use: I1, I3, I5, I6. Returns the number of the first one broken, or 0. */
WH_FN uint32_t wh_tessera_check_slab_(wh_tessera_core g, const wh_tessera_slab_view *view) {
    const uint32_t n_words = wh_tessera_words_for(view->slots), c = wh_tessera_tag_class(view->tag);
    const uint64_t *words = wh_tessera_words_of_(g, view->slab);
    uint32_t used = 0, any = 0;
    for (uint32_t k = 1; k < wh_tessera_tag_chunks(view->tag); k++) {
        if (*wh_tessera_tag_at_(g, view->slab + k) != view->tag + k * WH_TESSERA_NEXT_TAG ||
            wh_veb_contains(wh_tessera_pool_(g), view->slab + k)) {
            return 3;
        }
    }
    for (uint32_t i = 0; i < n_words; i++) {
        const uint64_t all = wh_tessera_all_slots(view->slots, i),
                       free = words[i] & WH_TESSERA_SLOT_BITS;
        used += free != all;
        any |= free != 0;
        if ((words[i] != 0 && wh_tessera_word_class1(words[i]) != c + 1) || (free & ~all) != 0) {
            return 1;
        }
        for (uint32_t k = 0; k < WH_TESSERA_WORD_SLOTS; k++) {
            const uint32_t slot = i * WH_TESSERA_WORD_SLOTS + k;
            if ((free >> k & 1) != 0 && slot >= view->left && slot < view->end) {
                return 1;
            }
        }
    }
    if (used == 0 || (n_words > 1 && *wh_tessera_state_at_(g, view->slab) != n_words - used)) {
        return 5;
    }
    const wh_veb list = wh_tessera_partial_list_(g, c);
    const uint32_t item = view->slab;
    return any && (!wh_veb_contains(list, item) || !wh_veb_check(list, item >> 6)) ? 6 : 0;
}

/* A chunk: absent (I9), in the pool (I2), of a run, or of a slab. */
WH_FN uint32_t wh_tessera_check_chunk_(wh_tessera_core g, uint32_t chunk) {
    const uint64_t tag = *wh_tessera_tag_at_(g, chunk);
    const uint32_t kind = wh_tessera_kind(tag);
    wh_tessera_slab_view view;
    const int is_there = chunk < wh_tessera_top_(g) && wh_tessera_is_there_(g, chunk);
    if (is_there == (tag == WH_TESSERA_ABSENT)) {
        return 9;
    }
    if (!is_there) {
        return wh_veb_contains(wh_tessera_pool_(g), chunk) || *wh_tessera_state_at_(g, chunk) != 0
                   ? 9
                   : 0;
    }
    if (wh_veb_contains(wh_tessera_pool_(g), chunk)) {
        const uint64_t *words = wh_tessera_words_of_(g, chunk);
        int any = 0;
        for (uint32_t w = 0; w < g.words_of_chunk; w++) {
            any |= words[w] != 0 && !wh_tessera_is_gone(words[w]);
        }
        return any || *wh_tessera_state_at_(g, chunk) != 0 || kind == WH_TESSERA_RUN ? 2 : 0;
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
        const uint64_t behind = chunk + (tag >> 32); /* no chunk of a run lies behind its end */
        return behind < g.n_chunks && !wh_veb_contains(wh_tessera_pool_(g), behind) &&
                       wh_tessera_kind(*wh_tessera_tag_at_(g, (uint32_t)behind)) == WH_TESSERA_INNER
                   ? 1
                   : 0;
    }
    if (kind == WH_TESSERA_INNER) { /* behind another chunk of its run */
        const uint32_t before =
            chunk == 0 ? WH_TESSERA_FREE : wh_tessera_kind(*wh_tessera_tag_at_(g, chunk - 1));
        return (before != WH_TESSERA_RUN && before != WH_TESSERA_INNER) ||
                       wh_veb_contains(wh_tessera_pool_(g), chunk - 1)
                   ? 1
                   : 0;
    }
    if (kind == WH_TESSERA_SLAB) { /* inside one */
        const uint32_t at = wh_tessera_tag_at(tag), base = chunk >= at ? chunk - at : 0;
        return *wh_tessera_tag_at_(g, base) + at * WH_TESSERA_NEXT_TAG != tag ||
                       wh_veb_contains(wh_tessera_pool_(g), base)
                   ? 1
                   : 0;
    }
    return 1; /* nobody's */
}

/* I1: what cursor `which` of all still holds is of slabs that know it. So no chunk is there that
 * the pool has, too, or another cursor or a run. *where: the first such chunk. */
WH_FN int wh_tessera_check_cursor_(wh_tessera_core g, uint32_t which, uint32_t *where) {
    const uint32_t shard = which / WH_TESSERA_CLASSES, c = which % WH_TESSERA_CLASSES;
    const wh_tessera_class cls = wh_tessera_header_(g)->classes[c];
    const uint64_t span = wh_tessera_cursor_at_(g, shard, c)->span;
    const uint32_t slots = wh_tessera_span_slots(span), position = wh_tessera_span_position(span);
    *where = wh_tessera_span_first(span);
    if (!wh_tessera_has_slots(span) || wh_tessera_is_closed(span)) {
        return 1;
    }
    if (cls.slots == 0) { /* of no class that the heap has */
        return 0;
    }
    for (uint32_t end = cls.slots < slots ? cls.slots : slots; end <= slots; end += cls.slots) {
        wh_tessera_slab_view view;
        if (position < end &&
            (*where >= wh_tessera_top_(g) || !wh_tessera_view_slab_(g, *where, &view) ||
             view.end == 0 || wh_tessera_tag_class(view.tag) != c ||
             wh_tessera_tag_shard(view.tag) != shard)) {
            return 0;
        }
        *where += cls.chunks;
    }
    return 1;
}

/* I9, of a reserved heap: no list, and no hint, leads to an absent chunk. */
WH_FN void wh_tessera_check_absent_(wh_tessera_core g, uint64_t i, uint64_t n, wh_report *r) {
    const uint32_t words = (g.n_chunks + 63) >> 6;
    const uint64_t hints = (uint64_t)g.n_shards * WH_TESSERA_CLASSES * WH_TESSERA_HINTS;
    for (uint64_t k = i; k < (uint64_t)words * wh_tessera_n_classes(g); k += n) {
        const uint32_t w = (uint32_t)(k % words);
        const wh_veb list = wh_tessera_partial_list_(g, (uint32_t)(k / words));
        if ((*wh_veb_word(list, w) & ~*wh_veb_word(wh_tessera_present_(g), w)) != 0) {
            wh_report_error(r, 9, w);
        }
    }
    for (uint64_t k = i; k < hints; k += n) {
        const uint32_t cursor = (uint32_t)(k / WH_TESSERA_HINTS);
        const uint32_t hint =
            wh_tessera_cursor_at_(g, cursor / WH_TESSERA_CLASSES, cursor % WH_TESSERA_CLASSES)
                ->hints[k % WH_TESSERA_HINTS];
        if (hint != 0 && !wh_tessera_is_there_(g, (hint - 1) >> 5)) {
            wh_report_error(r, 9, (hint - 1) >> 5);
        }
    }
}

WH_FN void wh_tessera_check(wh_tessera_ref h, uint64_t i, uint64_t n, wh_report *r) {
    const wh_tessera_core g = *wh_tessera_core_of_(h);
    const uint64_t pool = wh_veb_words(g.n_chunks);
    for (uint64_t k = i; k < g.n_chunks; k += n) {
        const uint32_t broken = wh_tessera_check_chunk_(g, (uint32_t)k);
        if (broken != 0) {
            wh_report_error(r, broken, k);
        }
    }
    for (uint64_t k = i; k < (uint64_t)g.n_shards * WH_TESSERA_CLASSES; k += n) {
        uint32_t where;
        if (!wh_tessera_check_cursor_(g, (uint32_t)k, &where)) {
            wh_report_error(r, 1, where);
        }
    }
    if (g.reserved != 0) {
        wh_tessera_check_absent_(g, i, n, r);
    }
    for (uint64_t k = i; k < pool + (uint64_t)g.list_words * wh_tessera_n_classes(g); k += n) {
        const wh_veb t = k < pool
                             ? wh_tessera_pool_(g)
                             : wh_tessera_partial_list_(g, (uint32_t)((k - pool) / g.list_words));
        const uint64_t word = k < pool ? k : (k - pool) % g.list_words;
        if (!wh_veb_check(t, word)) {
            wh_report_error(r, 6, k);
        }
    }
    for (uint64_t k = i; k < g.n_shards; k += n) {
        const wh_tessera_shard *shard = wh_tessera_shard_at_(g, (uint32_t)k);
        if (wh_high_u32(shard->takes) != shard->takes_done) {
            wh_report_error(r, 7, k);
        }
    }
}

/* --- how many blocks of a size are left ------------------------------------------------- */

/* What a look at the 64 chunks of a word of the pool finds for class c, or NO_CLASS. */
typedef struct wh_tessera_look {
    uint64_t pool;  /* chunks that are in the pool */
    uint64_t spare; /* chunks of other classes' slabs that cursors hold, without a live slot */
    uint64_t slots; /* of class c, free or still with a cursor */
} wh_tessera_look;

WH_FN wh_tessera_look wh_tessera_look_at_(wh_tessera_core g, uint32_t word, uint32_t c) {
    const uint32_t first = word << 6;
    wh_assert_internal(first < g.n_chunks);
    wh_tessera_look look;
    look.pool = wh_load_u64_relaxed(wh_veb_word(wh_tessera_pool_(g), word));
    look.spare = look.slots = 0;
    const uint64_t there = g.reserved != 0
                               ? wh_load_u64_relaxed(wh_veb_word(wh_tessera_present_(g), word))
                               : ~wh_ones_from_u64(g.n_chunks - first);
    WH_NO_UNROLL
    for (uint64_t rest = there & ~look.pool; rest != 0;) {
        const uint32_t chunk = first | wh_ctz64(rest);
        const uint64_t tag = wh_load_u64_relaxed(wh_tessera_tag_at_(g, chunk));
        wh_tessera_slab_view view;
        uint64_t n = 1;
        int is_spare = 0;
        if (wh_tessera_kind(tag) == WH_TESSERA_RUN) {
            n = tag >> 32;
        } else if (wh_tessera_view_slab_(g, chunk, &view)) {
            const uint32_t live = wh_tessera_live_(g, &view);
            n = wh_tessera_tag_chunks(tag);
            look.slots += wh_tessera_tag_class(tag) == c ? view.slots - live : 0;
            is_spare = wh_tessera_tag_class(tag) != c && live == 0;
        } else if (!wh_tessera_is_slab_of(tag, c)) { /* of a slab from the word before */
            is_spare = wh_tessera_is_spare_(g, chunk);
        }
        const uint64_t room = 64 - (chunk & 63);
        const uint64_t chunks =
            wh_tessera_chunk_mask_(chunk, n - 1 < room ? (uint32_t)n : (uint32_t)room);
        look.spare |= is_spare ? chunks : 0;
        rest &= ~chunks;
    }
    return look;
}

/* Slots that free chunks of one word of the pool give to a small class: malloc makes slabs of them
 * as large as it can, down to single chunks. */
WH_FN uint64_t wh_tessera_left_in_chunks_(wh_tessera_core g, wh_tessera_class cls,
                                          uint64_t chunks) {
    wh_assert_internal(wh_is_pow2(cls.chunks));
    uint64_t slots = 0;
    WH_NO_UNROLL
    for (uint32_t n = cls.chunks; chunks != 0; n >>= 1) {
        const uint32_t in_slab = n == cls.chunks ? cls.slots : (n << g.chunk_log2) / cls.slot_size;
        if (n == 1) {
            return slots + (uint64_t)wh_popc64(chunks) * in_slab;
        }
        WH_NO_UNROLL
        for (uint64_t starts = wh_tessera_runs_of_(chunks, n); starts != 0;
             starts = wh_tessera_runs_of_(chunks, n)) {
            chunks &= ~(~wh_ones_from_u64(n) << wh_ctz64(starts));
            slots += in_slab;
        }
    }
    return slots;
}

/* What requests of more than a chunk get of free chunks: at places side by side, from `top` down to
 * the front of the heap, `step` chunks each and `blocks` blocks; and runs of `keep` chunks. */
typedef struct wh_tessera_places {
    uint32_t c; /* large class, or NO_CLASS: the places are runs themselves */
    uint32_t top, step, blocks, keep;
} wh_tessera_places;

WH_FN wh_tessera_places wh_tessera_places_for_(const wh_tessera_core *ref, uint64_t bytes,
                                               uint32_t keep) {
    const wh_tessera_header *header = wh_tessera_header_of_(ref);
    const uint32_t next = wh_load_u32_relaxed(&header->run_next);
    wh_tessera_places p;
    p.c = wh_tessera_large_class_(ref, bytes);
    p.top = next < ref->n_chunks ? ref->n_chunks - next : 0;
    p.step = p.c != WH_TESSERA_NO_CLASS ? header->classes[p.c].chunks : keep;
    p.blocks = p.c != WH_TESSERA_NO_CLASS ? header->classes[p.c].slots : 1;
    p.keep = keep;
    return p;
}

/* Of chunks [from, to), all free. */
WH_FN uint64_t wh_tessera_left_between_(wh_tessera_places p, uint32_t from, uint32_t to) {
    wh_assert_internal(from < to && p.step != 0 && p.keep != 0);
    const uint32_t most = to < p.top ? to : p.top;
    if (most <= from) {
        return (to - from) / p.keep;
    }
    const uint32_t end = p.top - (p.top - most + p.step - 1) / p.step * p.step;
    if (p.top - most + p.step - 1 >= p.top || end < from + p.step) {
        return (to - from) / p.keep;
    }
    const uint32_t places = (end - from) / p.step;
    return (to - end) / p.keep + (uint64_t)places * p.blocks +
           (end - places * p.step - from) / p.keep;
}

WH_FN uint64_t wh_tessera_spare_word_(wh_tessera_core g, uint32_t word, uint32_t c) {
    const wh_tessera_look look = wh_tessera_look_at_(g, word, c);
    return look.pool | look.spare;
}

/* Of all free chunks in a row that start in a word of the pool; and slots of the class there. */
WH_FN uint64_t wh_tessera_left_from_word_(wh_tessera_core g, wh_tessera_places p, uint32_t word) {
    const uint32_t words = (wh_tessera_top_(g) + 63) >> 6;
    const wh_tessera_look look = wh_tessera_look_at_(g, word, p.c);
    const uint64_t bits = look.pool | look.spare;
    uint64_t left = look.slots, starts = bits & ~(bits << 1);
    if ((starts & 1) != 0 && word != 0) {
        starts &= ~(wh_tessera_spare_word_(g, word - 1, p.c) >> 63);
    }
    WH_NO_UNROLL
    for (; starts != 0; starts &= starts - 1) {
        const uint32_t at = wh_ctz64(starts);
        const uint64_t past = ~(bits >> at);
        uint32_t end = word * 64 + at + (past != 0 ? wh_ctz64(past) : 64);
        WH_NO_UNROLL
        for (uint32_t next = word + 1; end == next * 64 && next < words; next++) {
            const uint64_t more = ~wh_tessera_spare_word_(g, next, p.c);
            end += more != 0 ? wh_ctz64(more) : 64;
        }
        left += wh_tessera_left_between_(p, word * 64 + at, end);
    }
    return left;
}

WH_FN_LINKED(uint64_t, wh_tessera_left_,
             (const wh_tessera_core *g, uint64_t bytes, uint64_t i, uint64_t n)) {
    const uint64_t chunk = (uint64_t)1 << g->chunk_log2;
    const uint64_t keep = (bytes >> g->chunk_log2) + ((bytes & (chunk - 1)) != 0);
    const uint32_t words = (wh_tessera_top_(*g) + 63) >> 6;
    uint64_t left = 0;
    if (bytes == 0 || keep > g->n_chunks) {
        return 0;
    }
    if (bytes > chunk) {
        const wh_tessera_places p = wh_tessera_places_for_(g, bytes, (uint32_t)keep);
        WH_NO_UNROLL
        for (uint64_t w = i; w < words; w += n) {
            left += wh_tessera_left_from_word_(*g, p, (uint32_t)w);
        }
        return left;
    }
    const uint32_t c = wh_tessera_class_of((uint32_t)bytes);
    const wh_tessera_class cls = wh_tessera_header_of_(g)->classes[c];
    WH_NO_UNROLL
    for (uint64_t w = i; w < words; w += n) {
        const wh_tessera_look look = wh_tessera_look_at_(*g, (uint32_t)w, c);
        left += look.slots + wh_tessera_left_in_chunks_(*g, cls, look.pool) +
                wh_tessera_left_in_chunks_(*g, cls, look.spare);
    }
    return left;
}

/* The contract's left. What cursors hold counts: malloc gets it before it says NULL, but after the
 * pool's chunks, so the two make no slab together. Slots of up to a chunk: as many as slabs of the
 * free chunks have that begin at the lowest one. How malloc cuts them depends on who asks: smaller
 * slabs have a few percent less where a slot is no part of a chunk. More than a chunk: slabs of
 * large classes, or runs, at the places that malloc tries first; who finds these taken searches,
 * begins anywhere in a hole, and leaves gaps that are counted here as used. */
WH_FN uint64_t wh_tessera_left(wh_tessera_ref h, uint64_t bytes, uint64_t i, uint64_t n) {
    if ((h.core.tracks & WH_TESSERA_CHECKED) != 0) { /* without what is in quarantine */
        bytes = bytes != 0 ? wh_tessera_raw_bytes_(1, bytes) : 0;
    }
    return wh_tessera_left_(wh_tessera_core_of_(h), bytes, i, n);
}

#include "warpheap/detail/simt/end.h"

#endif
