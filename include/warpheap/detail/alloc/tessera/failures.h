/* alloc/tessera/failures.h: records of mallocs that return NULL (the option failure_records). This
 * file may change: it is no part of the API.
 *
 * Where the option is off, a malloc that fails loads one word more than it would.
 *
 * Cost    of a record: a load for each 64 chunks of the heap, twice; besides alloc/record.h
 * Check   tests/unit/checked.c
 */
#ifndef WH_ALLOC_TESSERA_FAILURES_H
#define WH_ALLOC_TESSERA_FAILURES_H

#include "warpheap/detail/alloc/record.h"
#include "warpheap/detail/alloc/tessera/guard.h"
#include "warpheap/detail/alloc/tessera/runs.h"

#include "warpheap/detail/simt/begin.h"

/* What the ladder and the runs return for no block. */
WH_FN int wh_tessera_is_none_(const void *p) {
    return p == NULL || p == WH_TESSERA_LATE;
}

/* Free chunks, and the most in a row, to a record. Other lanes change them meanwhile. */
WH_FN_SLOW void wh_tessera_look_at_pool_(const wh_tessera_core *g, wh_record *r) {
    const wh_veb pool = wh_tessera_pool_(*g);
    const uint32_t words = (wh_tessera_top_(*g) + 63) >> 6;
    uint64_t n = 0, row = 0, most = 0;
    WH_NO_UNROLL
    for (uint32_t w = 0; w < words; w++) {
        uint64_t bits = wh_load_u64_relaxed(wh_veb_word(pool, w));
        n += wh_popc64(bits);
        if (bits == ~(uint64_t)0) {
            row += 64;
            most = row > most ? row : most;
            continue;
        }
        row += wh_ctz64(~bits); /* the end of a row from the words before */
        most = row > most ? row : most;
        row = wh_clz64(~bits);
        uint64_t length = 0;
        WH_NO_UNROLL
        for (; bits != 0; bits &= bits << 1) {
            length++;
        }
        most = length > most ? length : most;
    }
    r->free_bytes = n << g->chunk_log2;
    r->largest_free = most << g->chunk_log2;
}

/* Slabs that are listed for the class of a block of n bytes, what a checked heap adds included. */
WH_FN_SLOW void wh_tessera_look_at_class_(const wh_tessera_core *g, uint64_t n, wh_record *r) {
    const uint32_t c = n >> g->chunk_log2 == 0 || n == (uint64_t)1 << g->chunk_log2
                           ? wh_tessera_class_of((uint32_t)n)
                           : wh_tessera_large_class_(g, n);
    r->class_bytes = r->class_partial = 0;
    if (c == WH_TESSERA_NO_CLASS) {
        return;
    }
    const wh_veb list = wh_tessera_partial_list_(*g, c);
    const uint32_t words = (wh_tessera_top_(*g) + 63) >> 6;
    uint64_t slabs = 0;
    WH_NO_UNROLL
    for (uint32_t w = 0; w < words; w++) {
        slabs += wh_popc64(wh_load_u64_relaxed(wh_veb_word(list, w)));
    }
    r->class_bytes = wh_tessera_header_of_(g)->classes[c].slot_size;
    r->class_partial = slabs;
}

/* Whether a block of n bytes has more chunks than the heap. */
WH_FN int wh_tessera_is_too_large_(const wh_tessera_core *g, uint64_t n) {
    const uint64_t chunk = (uint64_t)1 << g->chunk_log2;
    return (n >> g->chunk_log2) + ((n & (chunk - 1)) != 0) > g->n_chunks;
}

WH_FN uint32_t wh_tessera_why_(const wh_tessera_core *g, uint64_t n, const void *none) {
    if (wh_tessera_is_too_large_(g, n)) {
        return WH_RECORD_TOO_LARGE;
    }
    if (wh_tessera_header_of_(g)->growth == NULL) {
        return WH_RECORD_OUT_OF_MEMORY;
    }
    return none == WH_TESSERA_LATE ? WH_RECORD_GROWTH_TIMED_OUT : WH_RECORD_GROWTH_REFUSED;
}

/* A call for n bytes is going to return NULL, which this returns: with none, NULL or LATE, it has
 * come back. */
WH_FN_LINKED(void *, wh_tessera_failure_,
             (const wh_tessera_core *g, uint64_t n, wh_site site, const void *none)) {
    if (g->watch == NULL || g->watch->failures == NULL) {
        return NULL;
    }
    uint64_t number;
    const int is_checked = (g->tracks & WH_TESSERA_CHECKED) != 0;
    const uint64_t raw = is_checked ? wh_tessera_raw_bytes_(1, n) : 0;
    const uint64_t takes = raw != 0 ? raw : n;
    const uint32_t kind = wh_tessera_why_(g, takes, none);
    wh_record_row *row = wh_record_begin_(g->watch->failures, kind, &number);
    if (row == NULL) {
        return NULL;
    }
    wh_record *r = &row->record;
    r->number = number;
    r->kind = kind;
    r->block = wh_block_id();
    r->thread = wh_thread_id();
    r->address = 0;
    r->bytes = n;
    r->offset = 0;
    wh_record_put_site_(&r->site, site);
    wh_record_put_site_(&r->allocated, 0);
    wh_record_put_site_(&r->freed, 0);
    wh_tessera_look_at_pool_(g, r);
    wh_tessera_look_at_class_(g, takes, r);
    wh_record_end_(row, number);
    return NULL;
}

#include "warpheap/detail/simt/end.h"

#endif
