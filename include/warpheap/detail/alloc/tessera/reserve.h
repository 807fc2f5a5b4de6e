/* alloc/tessera/reserve.h: a heap in reserved address space, whose memory grows and shrinks. What
 * the host knows and does: src/host/reserve.c. This file may change: it is no part of the API.
 *
 *   addresses  | fixed | words | unit | unit | ... |
 *
 *   fixed    header, shards, tags, states, pool, lists, present, survey: mapped for all of the
 *            reservation from the start. 29 bytes for each chunk that is reserved, 0.18 %
 *   words    the words of all slabs, 152 bytes a chunk (0.93 %): granules of it are mapped while a
 *            chunk is there whose words lie in them; the first one always, since a look at no hint
 *            loads the first word of all (cursor.h)
 *   unit     what is mapped and given back at once: whole chunks, whole granules of the device
 *   present  the chunks that are there: a tree (core/veb.h) of the pool's shape, so that a reset
 *            can copy it. publish inserts, withdraw removes
 *   survey   a bit for each unit that is there and all free: stored by survey
 *   top      of the header: no chunk from it on is there. home_chunks there: home chunks of each
 *            shard below it. Stored by settle, raised by growth.h. (The core's say what the
 *            reservation has)
 *
 * The steps open, settle, publish, close, survey, withdraw and clean are kernels of the host's.
 * open makes an empty heap, which a reset completes. To extend: map; settle; publish each row of
 * units. To trim: close; survey; withdraw each row; settle; clean; unmap. A reset leaves what is
 * there as it is, and asks the host nothing: it may be part of a captured graph, also of one that
 * is older than an extend or a trim.
 *
 * I9      an absent chunk, one that is reserved and not there, is not in the pool, is no part of a
 *         slab or run, and has the tag ABSENT. On no list is a slab there; when quiet, no hint
 *         leads there. So a free of a pointer into it is a bad free, and nobody reads its words
 * P11     publish: tags, states and words of new chunks (and a sync), present, and settle's top
 *         before it, then the insert into the pool, release (steps.h P3) -> the claim, acquire. So
 *         publish may run beside malloc and free, and does (growth.h): like a free it only adds
 * (oom.h X1). A search that reads an older top has begun before the insert was seen by anybody
 * whose request it answers (P8). The event of put_chunks_ ends older verdicts about runs (P6, X2)
 *
 * withdraw, close, survey and clean want a quiet heap: the host waits for the device.
 *
 * Progress  no step waits
 * Cost    publish, withdraw: what is added or taken. settle: 1 atomic a shard. close, clean: all
 *         cursors; survey: all words of the pool up to the top
 * Check   wh_tessera_check; tests/unit/tessera_reserve.c, tests/fault
 */
#ifndef WH_ALLOC_TESSERA_RESERVE_H
#define WH_ALLOC_TESSERA_RESERVE_H

#include "warpheap/detail/alloc/tessera/slow.h"

#include "warpheap/detail/simt/begin.h"

/* --- layout ------------------------------------------------------------------------------ */

/* Bytes of the fixed part, for n chunks in so many units. */
WH_FN_HOST uint64_t wh_tessera_fixed_(uint64_t n, uint64_t n_units, uint32_t n_shards,
                                      uint32_t chunk_log2) {
    return wh_tessera_pool_offset_(n, n_shards) +
           (wh_tessera_tree_words_(n, wh_tessera_classes_for_(n, chunk_log2)) + wh_veb_words(n) +
            (n_units + 63) / 64) *
               8;
}

/* Where all lies with so many units, which begin at r->units_at. */
WH_FN_HOST void wh_tessera_place_(wh_reserve_plan *r, uint64_t n_units, uint32_t n_shards,
                                  uint32_t chunk_log2) {
    const uint64_t n = n_units * (r->unit_bytes >> chunk_log2);
    const uint64_t words = n * wh_tessera_words_of_chunk(chunk_log2) * 8;
    r->n_units = (uint32_t)n_units;
    r->fixed_bytes = wh_round_up(wh_tessera_fixed_(n, n_units, n_shards, chunk_log2), r->granule);
    r->side_bytes = wh_round_up(words, r->granule);
    r->units_at = wh_round_up(r->fixed_bytes + r->side_bytes, r->unit_bytes);
}

/* Bytes of the largest reservation: max_bytes_ in whole units. r: unit_bytes and granule are known.
 */
WH_FN_HOST uint64_t wh_tessera_max_reserve_(const wh_reserve_plan *r, const wh_tessera_options *o,
                                            uint32_t n_sms, uint32_t chunk_log2) {
    const uint64_t n_units = WH_TESSERA_MAX_CHUNKS / (r->unit_bytes >> chunk_log2);
    wh_reserve_plan most = *r;
    const uint32_t n_shards =
        wh_tessera_n_shards_(n_units * (r->unit_bytes >> chunk_log2), o, n_sms);
    wh_tessera_place_(&most, n_units, n_shards, chunk_log2);
    return most.units_at + (n_units + 1) * r->unit_bytes;
}

/* The unit by default: a 1024th of the addresses, a power of two from one granule to 32. So a heap
 * of many GiB extends in few steps, and the pages that blocks keep stay a small part of it. */
WH_FN_HOST uint64_t wh_tessera_unit_for_(uint64_t granule, uint64_t bytes) {
    const uint64_t part = bytes >> 10, most = 32 * granule;
    const uint64_t unit = part < most ? part : most;
    return unit > granule ? (uint64_t)1 << wh_log2_floor(unit) : granule;
}

/* The contract's reserve_plan: r->granule is given. */
WH_FN_HOST wh_status wh_tessera_reserve_plan(wh_tessera_ref *h, wh_reserve_plan *r,
                                             unsigned char *memory, uint64_t bytes,
                                             const void *options, uint32_t n_sms) {
    const wh_tessera_options *o = (const wh_tessera_options *)options;
    const uint64_t chunk = wh_tessera_chunk_bytes_(o), wanted = o->granule_bytes;
    if (chunk == 0 || (wanted != 0 && !wh_is_pow2(wanted)) || wanted > (uint64_t)1 << 30) {
        return WH_BAD_ARGUMENT;
    }
    const uint32_t chunk_log2 = wh_log2_floor(chunk);
    r->unit_bytes = wanted != 0 ? wanted : wh_tessera_unit_for_(r->granule, bytes);
    r->unit_bytes = r->unit_bytes > r->granule ? r->unit_bytes : r->granule;
    r->unit_bytes = r->unit_bytes > chunk ? r->unit_bytes : chunk;
    const uint64_t of_unit = r->unit_bytes >> chunk_log2, most = WH_TESSERA_MAX_CHUNKS / of_unit;
    r->max_bytes = wh_tessera_max_reserve_(r, o, n_sms, chunk_log2);
    if (bytes > r->max_bytes) {
        return WH_BAD_ARGUMENT;
    }
    r->max_bytes = 0;
    uint64_t units = bytes / r->unit_bytes < most ? bytes / r->unit_bytes : most;
    units = units != 0 ? units : 1;
    uint32_t n_shards = 1;
    for (;;) {
        n_shards = wh_tessera_n_shards_(units * of_unit, o, n_sms);
        wh_tessera_place_(r, units, n_shards, chunk_log2);
        const uint64_t end = r->units_at + units * r->unit_bytes;
        if (end <= bytes || units == 1) {
            break;
        }
        const uint64_t over = (end - bytes) / (2 * r->unit_bytes) + 1;
        units = over < units ? units - over : 1;
    }
    if (r->units_at + units * r->unit_bytes > bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    const uint64_t n = units * of_unit;
    r->side_of_unit = of_unit * wh_tessera_words_of_chunk(chunk_log2) * 8;
    r->init_items = wh_tessera_tree_words_(n, wh_tessera_classes_for_(n, chunk_log2)) + n;
    r->unit_items = of_unit < 64 ? 32 : of_unit / 2; /* a warp for a word of the pool */
    r->parts_of_unit = of_unit < 64 ? 1 : (uint32_t)(of_unit / 64);
    h->core.meta = memory;
    h->core.base = memory + r->units_at;
    h->core.tracks = wh_tessera_tracks_(o);
    h->core.reserved = (uint8_t)(1 + wh_log2_floor(of_unit));
    wh_tessera_plan_core_(&h->core, (uint32_t)n, n_shards, chunk_log2);
    h->core.words = (uint64_t *)(void *)(memory + r->fixed_bytes);
    wh_tessera_plan_ref_(h, n_sms);
    /* Behind the fixed part's trees. */
    r->survey_at = wh_tessera_pool_offset_(n, n_shards) +
                   (wh_tessera_tree_words_(n, wh_tessera_n_classes(h->core)) + wh_veb_words(n)) * 8;
    return WH_OK;
}

/* --- steps -------------------------------------------------------------------------------- */

/* Nothing is there. */
WH_FN void wh_tessera_open_(wh_tessera_ref h, uint64_t i, uint64_t n) {
    const wh_veb present = wh_tessera_present_(h.core);
    for (uint64_t k = i; k < wh_veb_words(present.n); k += n) {
        *wh_veb_word(present, k) = 0;
    }
    if (i == 0) {
        wh_tessera_header *header = wh_tessera_header_(h.core);
        header->core = h.core;
        header->top = header->home_chunks = 0;
        header->growth = NULL;
        header->mapped_bytes = header->metadata_bytes = 0;
    }
}

/* What the host has mapped. By one lane; a shard that has asked for all of its home begins again,
 * if there is more. */
WH_FN void wh_tessera_settle_(wh_tessera_ref h, const wh_reserve_step *step, uint64_t i) {
    wh_tessera_header *header = wh_tessera_header_(h.core);
    const uint32_t top = step->first << wh_tessera_unit_log2_(h.core), n = h.core.n_chunks;
    if (i == 0) {
        wh_assert_internal(top <= n);
        header->top = top;
        header->home_chunks = (top >> 6) / h.core.n_shards << 6;
        header->mapped_bytes = step->mapped_bytes;
        header->metadata_bytes = step->metadata_bytes;
        if (header->run_next < n - top) { /* runs begin below the top */
            header->run_next = n - top;
        }
    }
}

/* What is absent of units that are mapped comes into the pool: a full warp for each word. P11 */
WH_FN void wh_tessera_put_units_(wh_tessera_ref h, const wh_reserve_step *step, uint64_t i,
                                 uint64_t n) {
    const wh_tessera_core g = h.core;
    const wh_tessera_row row = wh_tessera_row_of_units_(g, step);
    const uint32_t end = (row.end + 63) >> 6;
    for (uint32_t w = (row.first >> 6) + (uint32_t)(i / WH_WARP_SIZE); w < end;
         w += (uint32_t)(n / WH_WARP_SIZE)) {
        const uint64_t chunks = wh_tessera_of_row_(row, w);
        const uint64_t absent =
            chunks & ~wh_load_u64_relaxed(wh_veb_word(wh_tessera_present_(g), w));
        wh_syncwarp(WH_FULL_WARP); /* all lanes have looked before one inserts */
        if (absent != 0) {
            wh_tessera_put_word_(g, WH_FULL_WARP, w, absent);
        }
        if (wh_lane_id() == 0 && w + 1 == end) {
            wh_tessera_lower_run_next_(g, w << 6 | wh_ctz64(chunks), wh_popc64(chunks));
        }
    }
}

/* From now on the heap grows while lanes run, or does so no more (growth.h). By one lane. */
WH_FN void wh_tessera_set_growth_(wh_tessera_ref h, const wh_reserve_step *step, uint64_t i) {
    if (i == 0) {
        wh_tessera_header *header = wh_tessera_header_(h.core);
        const uint32_t timed_out = header->growing.timed_out;
        wh_tessera_growth none;
        none.answer = 0;
        none.lock = none.first = none.left = none.rows = none.taken = none.asked = none.count = 0;
        none.padding = 0;
        none.wait_us = step->n;
        none.timed_out = timed_out;
        header->growing = none;
        header->growth = (wh_growth_box *)(void *)step->bits;
    }
}

/* All cursors give up what nobody has used. */
WH_FN void wh_tessera_close_cursors_(wh_tessera_ref h, uint64_t i, uint64_t n) {
    const wh_tessera_core *g = wh_tessera_core_of_(h);
    for (uint64_t k = i; k < (uint64_t)g->n_shards * WH_TESSERA_CLASSES; k += n) {
        (void)wh_tessera_close_(g, (uint32_t)(k / WH_TESSERA_CLASSES), (uint32_t)k);
    }
}

/* Whether all chunks of a unit are in the pool. */
WH_FN int wh_tessera_is_free_unit_(wh_tessera_core g, uint32_t unit) {
    wh_reserve_step step;
    uint32_t all = 1;
    step.first = unit;
    step.n = 1;
    const wh_tessera_row row = wh_tessera_row_of_units_(g, &step);
    for (uint32_t w = row.first >> 6; w << 6 < row.end && all; w++) {
        const uint64_t chunks = wh_tessera_of_row_(row, w);
        all = (~*wh_veb_word(wh_tessera_pool_(g), w) & chunks) == 0;
    }
    return (int)all;
}

WH_FN void wh_tessera_survey_(wh_tessera_ref h, uint64_t *bits, uint64_t i, uint64_t n) {
    const wh_tessera_core g = *wh_tessera_core_of_(h);
    const uint32_t units = g.n_chunks >> wh_tessera_unit_log2_(g);
    const uint32_t top = wh_tessera_top_(g) >> wh_tessera_unit_log2_(g);
    for (uint64_t k = i; k < (units + 63u) / 64; k += n) {
        uint64_t its = 0;
        for (uint32_t unit = (uint32_t)k * 64; unit < top && unit < (k + 1) * 64; unit++) {
            its |= (uint64_t)WH_PLANT(tessera_i9_survey, wh_tessera_is_free_unit_(g, unit), 1)
                   << (unit & 63);
        }
        bits[k] = its;
    }
}

/* Free units leave the pool, and the lists, where a late free may have put them (slab.h I6). I9 */
WH_FN void wh_tessera_take_units_(wh_tessera_ref h, const wh_reserve_step *step, uint64_t i,
                                  uint64_t n) {
    const wh_tessera_core g = h.core;
    const uint32_t n_classes = wh_tessera_n_classes(g), log2 = wh_tessera_unit_log2_(g);
    const wh_tessera_row row = wh_tessera_row_of_units_(g, step);
    const uint32_t from = row.first >> 6, words = ((row.end + 63) >> 6) - from;
    for (uint64_t k = i; k < words; k += n) {
        const uint32_t w = from + (uint32_t)k;
        const uint64_t chunks = wh_tessera_of_row_(row, w);
        const uint64_t got = wh_veb_claim_mask(wh_tessera_pool_(g), w, chunks);
        wh_assert_internal(got == chunks);
        (void)got;
        (void)wh_veb_claim_mask(wh_tessera_present_(g), w, chunks);
    }
    for (uint64_t k = i; k < (uint64_t)words * n_classes; k += n) {
        const uint32_t w = from + (uint32_t)(k / n_classes);
        uint64_t *at = wh_veb_word(wh_tessera_partial_list_(g, (uint32_t)(k % n_classes)), w);
        const uint64_t chunks = wh_tessera_of_row_(row, w);
        if ((wh_load_u64_relaxed(at) & WH_PLANT(tessera_i9_list, chunks, 0)) != 0) {
            (void)wh_fetch_and_u64_relaxed(at, ~chunks);
        }
    }
    for (uint64_t k = i; k < (uint64_t)step->n << log2; k += n) {
        wh_store_u64_relaxed(wh_tessera_tag_at_(g, (step->first << log2) + (uint32_t)k),
                             WH_PLANT(tessera_i9_tag, WH_TESSERA_ABSENT, WH_TESSERA_FREE));
    }
}

/* Hints that lead to absent chunks are none any more. I9 */
WH_FN void wh_tessera_clean_(wh_tessera_ref h, uint64_t i, uint64_t n) {
    const wh_tessera_core g = h.core;
    const uint64_t all = (uint64_t)g.n_shards * WH_TESSERA_CLASSES * WH_TESSERA_HINTS;
    for (uint64_t k = i; k < all; k += n) {
        const uint32_t cursor = (uint32_t)(k / WH_TESSERA_HINTS);
        uint32_t *at =
            &wh_tessera_cursor_at_(g, cursor / WH_TESSERA_CLASSES, cursor % WH_TESSERA_CLASSES)
                 ->hints[k % WH_TESSERA_HINTS];
        const uint32_t hint = wh_load_u32_relaxed(at);
        if (hint != 0 && wh_load_u64_relaxed(wh_tessera_tag_at_(g, (hint - 1) >> 5)) ==
                             WH_PLANT(tessera_i9_hint, WH_TESSERA_ABSENT, UINT64_MAX)) {
            wh_store_u32_relaxed(at, 0);
        }
    }
}

/* The contract's reserve_step, by thread i of n, in full warps. */
WH_FN void wh_tessera_reserve_step(wh_tessera_ref h, const wh_reserve_step *step, uint64_t i,
                                   uint64_t n) {
    switch (step->kind) {
    case WH_RESERVE_OPEN:
        wh_tessera_open_(h, i, n);
        break;
    case WH_RESERVE_SETTLE:
        wh_tessera_settle_(h, step, i);
        break;
    case WH_RESERVE_PUBLISH:
        wh_tessera_put_units_(h, step, i, n);
        break;
    case WH_RESERVE_GROWTH:
        wh_tessera_set_growth_(h, step, i);
        break;
    case WH_RESERVE_CLOSE:
        wh_tessera_close_cursors_(h, i, n);
        break;
    case WH_RESERVE_SURVEY:
        wh_tessera_survey_(h, step->bits, i, n);
        break;
    case WH_RESERVE_WITHDRAW:
        wh_tessera_take_units_(h, step, i, n);
        break;
    default:
        wh_tessera_clean_(h, i, n);
    }
}

#include "warpheap/detail/simt/end.h"

#endif
