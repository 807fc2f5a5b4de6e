/* alloc/tessera/left.h: how many blocks of a size malloc could give. Exact where only requests of
 * that size follow, on a quiet heap and one lane at a time, but for what the order of events
 * decides: see wh_tessera_left. Any loads are atomic, so it may be asked while lanes run. This file
 * may change: it is no part of the API.
 */
#ifndef WH_ALLOC_TESSERA_LEFT_H
#define WH_ALLOC_TESSERA_LEFT_H

#include "warpheap/detail/alloc/tessera/inspect.h"
#include "warpheap/detail/alloc/tessera/steps.h"

#include "warpheap/detail/simt/begin.h"

/* Which of the 64 chunks of a word of the pool there are. */
WH_FN uint64_t wh_tessera_chunks_there_(wh_tessera_core g, uint32_t word) {
    wh_assert_internal((word << 6) < g.n_chunks);
    const uint32_t n = g.n_chunks - (word << 6);
    return ~wh_ones_from_u64(n);
}

/* Those of these chunks of a word, bit for bit, that belong to what starts at `chunk`. */
WH_FN uint64_t wh_tessera_chunks_with_(uint32_t chunk, uint64_t tag) {
    uint64_t n = 1;
    if (wh_tessera_kind(tag) == WH_TESSERA_RUN) {
        n = tag >> 32;
    } else if (wh_tessera_kind(tag) == WH_TESSERA_SLAB || wh_tessera_is_pack(tag)) {
        n = wh_tessera_tag_chunks(tag);
    }
    return wh_tessera_chunk_mask_(chunk, n < 64 ? (uint32_t)n : 64);
}

/* --- slots ---------------------------------------------------------------------------- */

/* Slots that free chunks of one word of the pool give to the class with this tag: malloc makes
 * slabs of them as large as it can, down to single chunks. */
WH_FN uint64_t wh_tessera_left_in_chunks_(wh_tessera_core g, uint64_t tag, uint64_t chunks) {
    wh_assert_internal(wh_tessera_kind(tag) == WH_TESSERA_SLAB);
    uint64_t slots = 0;
    WH_NO_UNROLL
    for (uint32_t order = wh_tessera_tag_order(tag); chunks != 0; order--) {
        const uint64_t slab = tag - ((uint64_t)(wh_tessera_tag_order(tag) - order) << 8);
        uint64_t firsts = chunks, multiples = 1; /* of 2^order */
        WH_NO_UNROLL
        for (uint32_t length = 32; length >> order != 0; length >>= 1) {
            multiples |= multiples << length;
        }
        WH_NO_UNROLL
        for (uint32_t length = 1; length >> order == 0; length <<= 1) {
            firsts &= firsts >> length;
        }
        firsts &= multiples;
        slots += (uint64_t)wh_popc64(firsts) * wh_tessera_slab_slots(slab, g.chunk_log2);
        WH_NO_UNROLL
        for (uint32_t length = 1; length >> order == 0; length <<= 1) {
            firsts |= firsts << length;
        }
        chunks &= ~firsts;
    }
    return slots;
}

/* Free blocks of a pack that would do for `least` granules; 0: this heap has no packs. */
WH_FN uint32_t wh_tessera_left_in_pack_(wh_tessera_core g, const wh_tessera_slab_view *view,
                                        uint32_t least) {
    wh_assert_internal(wh_tessera_is_pack(view->tag));
    const uint64_t word = wh_load_u64_relaxed(wh_tessera_words_of_(g, view->slab));
    uint32_t blocks = 0;
    WH_NO_UNROLL
    for (uint32_t free = (uint32_t)(word & wh_tessera_slot_bits(view->slots, 0));
         least != 0 && free != 0; free &= free - 1) {
        const uint32_t one = free & (0 - free);
        blocks += wh_tessera_pack_fit_(g, view->slab, view->tag, one, least) != 0;
    }
    return blocks;
}

/* What 64 chunks have for class c: slots of its slabs, free or still with a cursor; blocks of
 * packs; and what the free chunks would give, and slabs that cursors of other classes hold and
 * nobody has a slot of, those of each shard by themselves, since malloc closes the cursors of one
 * shard, and uses up what they had, before those of the next. */
WH_FN uint64_t wh_tessera_left_in_word_(const wh_tessera_core *ref, uint32_t c, uint32_t word) {
    wh_assert_internal(c < ref->n_classes);
    const wh_tessera_core g = *ref;
    const uint64_t slab_tag = wh_tessera_header_of_(ref)->slab_tags[c];
    const uint64_t pool = wh_load_u64_relaxed(wh_veb_word(wh_tessera_pool_(g), word));
    uint64_t left = wh_tessera_left_in_chunks_(g, slab_tag, pool);
    uint64_t spare = 0; /* of one shard's cursors */
    uint32_t whose = UINT32_MAX;
    WH_NO_UNROLL
    for (uint64_t rest = wh_tessera_chunks_there_(g, word) & ~pool; rest != 0;) {
        const uint32_t chunk = word << 6 | wh_ctz64(rest);
        const uint64_t tag = wh_load_u64_relaxed(wh_tessera_tag_at_(g, chunk));
        const uint64_t chunks = wh_tessera_chunks_with_(chunk, tag);
        wh_tessera_slab_view view;
        rest &= ~chunks;
        if (!wh_tessera_view_tagged_(g, chunk, tag, &view)) {
            continue;
        }
        if (wh_tessera_is_pack(tag)) {
            left += wh_tessera_left_in_pack_(g, &view, wh_tessera_least_(g, c));
        } else if (wh_tessera_tag_class(tag) == c) {
            left += wh_tessera_unused_(g, &view);
        } else if (wh_tessera_unused_(g, &view) == view.slots) {
            const uint32_t shard = wh_tessera_tag_shard(tag);
            left += shard != whose ? wh_tessera_left_in_chunks_(g, slab_tag, spare) : 0;
            spare = shard != whose ? chunks : spare | chunks;
            whose = shard;
        }
    }
    return left + wh_tessera_left_in_chunks_(g, slab_tag, spare);
}

/* --- runs ----------------------------------------------------------------------------- */

/* Of the 64 chunks of a word of the pool those that are in it, or in slabs that a cursor holds and
 * nobody has a slot of. */
WH_FN uint64_t wh_tessera_spare_word_(wh_tessera_core g, uint32_t word) {
    const uint64_t pool = wh_load_u64_relaxed(wh_veb_word(wh_tessera_pool_(g), word));
    uint64_t spare = pool;
    WH_NO_UNROLL
    for (uint64_t rest = wh_tessera_chunks_there_(g, word) & ~pool; rest != 0;) {
        const uint32_t chunk = word << 6 | wh_ctz64(rest);
        const uint64_t tag = wh_load_u64_relaxed(wh_tessera_tag_at_(g, chunk));
        const uint64_t chunks = wh_tessera_chunks_with_(chunk, tag);
        wh_tessera_slab_view view;
        rest &= ~chunks;
        if (wh_tessera_view_tagged_(g, chunk, tag, &view) && !wh_tessera_is_pack(tag) &&
            wh_tessera_unused_(g, &view) == view.slots) {
            spare |= chunks;
        }
    }
    return spare;
}

/* The places at which run_ tries first: `in_line` side by side, from `first` on every `step`
 * chunks. */
typedef struct wh_tessera_run_places {
    uint32_t first, step, in_line;
    uint32_t n; /* of all */
    uint32_t keep;
} wh_tessera_run_places;

WH_FN wh_tessera_run_places wh_tessera_run_places_(wh_tessera_core g, uint32_t keep) {
    wh_assert_internal(keep != 0);
    const uint32_t words = (keep + 63) >> 6, all = g.n_chunks >> 6;
    const uint32_t rows = (all - (g.begin >> 6)) / words;
    wh_tessera_run_places p;
    p.first = (all - rows * words) << 6;
    p.step = words << 6;
    p.in_line = keep < 64 ? 64 / keep : 1;
    p.n = rows * p.in_line;
    p.keep = keep;
    return p;
}

/* Places that start before chunk x, or (ends) end there or before. */
WH_FN uint32_t wh_tessera_places_before_(wh_tessera_run_places p, uint32_t x, int ends) {
    const uint32_t past = x > p.first ? x - p.first : 0;
    const uint32_t line = past / p.step, in = (past % p.step + (ends ? 0 : p.keep - 1)) / p.keep;
    const uint32_t n = line * p.in_line + (in < p.in_line ? in : p.in_line);
    return n < p.n ? n : p.n;
}

WH_FN uint32_t wh_tessera_place_at_(wh_tessera_run_places p, uint32_t i) {
    wh_assert_internal(i < p.n);
    return p.first + i / p.in_line * p.step + i % p.in_line * p.keep;
}

/* Runs that malloc gets of chunks [from, to) that are all free: at these places, and from what lies
 * before the first and behind the last of them. (Between two there is less than a run.) */
WH_FN uint32_t wh_tessera_left_between_(wh_tessera_run_places p, uint32_t from, uint32_t to) {
    wh_assert_internal(from < to);
    const uint32_t first = wh_tessera_places_before_(p, from, 0);
    const uint32_t end = wh_tessera_places_before_(p, to, 1);
    if (end <= first) {
        return (to - from) / p.keep;
    }
    const uint32_t before = wh_tessera_place_at_(p, first) - from;
    const uint32_t behind = to - (wh_tessera_place_at_(p, end - 1) + p.keep);
    return before / p.keep + (end - first) + behind / p.keep;
}

/* Of all runs of free chunks that start in a word of the pool. */
WH_FN uint64_t wh_tessera_left_from_word_(wh_tessera_core g, wh_tessera_run_places p,
                                          uint32_t word) {
    const uint32_t words = (g.n_chunks + 63) >> 6;
    const uint64_t bits = wh_tessera_spare_word_(g, word);
    uint64_t left = 0, starts = bits & ~(bits << 1);
    if ((starts & 1) != 0 && word != 0) {
        starts &= ~(wh_tessera_spare_word_(g, word - 1) >> 63);
    }
    WH_NO_UNROLL
    for (; starts != 0; starts &= starts - 1) {
        const uint32_t at = wh_ctz64(starts);
        const uint64_t past = ~(bits >> at);
        uint32_t end = word * 64 + at + (past != 0 ? wh_ctz64(past) : 64);
        WH_NO_UNROLL
        for (uint32_t next = word + 1; end == next * 64 && next < words; next++) {
            const uint64_t more = ~wh_tessera_spare_word_(g, next);
            end += more != 0 ? wh_ctz64(more) : 64;
        }
        left += wh_tessera_left_between_(p, word * 64 + at, end);
    }
    return left;
}

/* --- both ------------------------------------------------------------------------------ */

WH_FN_LINKED(uint64_t, wh_tessera_left_,
             (const wh_tessera_core *g, uint64_t bytes, uint64_t i, uint64_t n)) {
    const uint64_t chunk = (uint64_t)1 << g->chunk_log2;
    const uint64_t keep = (bytes >> g->chunk_log2) + ((bytes & (chunk - 1)) != 0);
    const uint32_t words = (g->n_chunks + 63) >> 6;
    uint64_t left = 0;
    if (bytes == 0 || keep > g->n_chunks) {
        return 0;
    }
    WH_NO_UNROLL
    for (uint64_t w = i; w < words; w += n) {
        left += bytes <= chunk
                    ? wh_tessera_left_in_word_(g, wh_tessera_class_of((uint32_t)bytes), (uint32_t)w)
                    : wh_tessera_left_from_word_(*g, wh_tessera_run_places_(*g, (uint32_t)keep),
                                                 (uint32_t)w);
    }
    return left;
}

/* The contract's left. What cursors hold counts: malloc gets it before it says NULL. For up to 4
 * KiB it is what requests of this size get until NULL, whoever asks. Larger slots are a third or
 * more of a chunk, and how many a free chunk gives depends on how many of them lie side by side
 * when it is taken: here as many as there are now. For more than a chunk: what requests get that
 * find their places free. Those that have to search begin anywhere in a hole, and leave gaps that
 * are counted here as used: up to a fifth more or less. */
WH_FN uint64_t wh_tessera_left(wh_tessera_ref h, uint64_t bytes, uint64_t i, uint64_t n) {
    return wh_tessera_left_(wh_tessera_core_of_(h), bytes, i, n);
}

#include "warpheap/detail/simt/end.h"

#endif
