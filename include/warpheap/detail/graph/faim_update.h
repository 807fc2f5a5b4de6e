/* graph/faim_update.h: the graph class `faim-update`: pages as those of `faim`, but updates one by
 * one, with a lock a vertex, as faimGraph does where a batch is spread over a graph of small
 * degrees. This file may change: it is no part of the API.
 *
 * A warp asks the heap with all of its lanes, while some of them own vertices. That is safe: the
 * heap waits for no lock of a vertex, and lanes that got no lock ask for nothing.
 *
 * Ordering from the owner of a vertex's lock to the next one: the pair of work.h
 * Progress of locks as in work.h; the owner of one waits for the allocator alone
 * Cost     insertion and deletion: O(degree) loads
 * Source   Winter, thesis, 4.2.5: updates by thread and by warp; compaction 4.2.5.2
 * Check    wh_faim_is_sound, wh_graph_check; tests/dgraph, tests/fault/graph
 */
#ifndef WH_GRAPH_FAIM_UPDATE_H
#define WH_GRAPH_FAIM_UPDATE_H

#include "warpheap/detail/graph/faim.h"

#include "warpheap/detail/simt/begin.h"

/* --- a lane for an arc ---------------------------------------------------------------------- */

/* The arc v -> w of each lane, or none (v NONE); all lanes of a full warp. What became of it. */
WH_FN uint32_t wh_faim_insert_arcs(wh_heap_ref heap, wh_faim_vertex *vertices, uint32_t *locks,
                                   uint32_t v, uint32_t w) {
    uint32_t how = WH_GRAPH_NO_CHANGE;
    int pending = v != WH_GRAPH_NONE;
    for (uint32_t attempt = 0; wh_any(WH_FULL_WARP, pending); attempt++) {
        const int mine = pending && wh_graph_try_lock(locks, v);
        int fresh = 0, grows = 0;
        wh_faim_page *page = NULL;
        if (mine) {
            fresh = WH_PLANT(faim_update_i2, !wh_faim_has(&vertices[v], w), 1); /* I2 of faim.h */
            grows = fresh && vertices[v].degree % WH_FAIM_ENTRIES == 0;
        }
        if (wh_any(WH_FULL_WARP, grows)) {
            page = (wh_faim_page *)wh_malloc_lanes(heap, WH_FULL_WARP,
                                                   grows ? sizeof(wh_faim_page) : 0);
        }
        if (mine) {
            if (fresh && (!grows || page != NULL)) {
                wh_faim_append_(&vertices[v], page, w);
                how = WH_GRAPH_APPLIED;
            } else if (fresh) {
                how = WH_GRAPH_REFUSED;
            }
            wh_graph_unlock(locks, v);
            pending = 0;
        } else if (pending) {
            wh_backoff(attempt);
        }
    }
    return how;
}

/* The last entry takes the place of entry `at` of a page. Returns the page that is empty then, and
 * no page of the vertex any more; or NULL. */
WH_FN wh_faim_page *wh_faim_close_(wh_faim_vertex *x, uint32_t *at) {
    const uint32_t last = x->degree - 1;
    *at = x->last->to[last % WH_FAIM_ENTRIES];
    if (last % WH_FAIM_ENTRIES != 0) {
        x->degree = last;
        return NULL;
    }
    wh_faim_page *page = x->first;
    WH_NO_UNROLL
    for (uint32_t k = 2; k < x->pages; k++) { /* to the last but one */
        page = page->next;
    }
    return wh_faim_cut_(x, page, last);
}

/* Where a vertex has an entry, or NULL. */
WH_FN uint32_t *wh_faim_at_(const wh_faim_vertex *x, uint32_t key) {
    uint32_t left = x->degree;
    WH_NO_UNROLL
    for (wh_faim_page *page = x->first; left != 0; page = page->next) {
        const uint32_t n = left < WH_FAIM_ENTRIES ? left : WH_FAIM_ENTRIES;
        for (uint32_t i = 0; i < n; i++) {
            if (page->to[i] == key) {
                return &page->to[i];
            }
        }
        left -= n;
    }
    return NULL;
}

WH_FN uint32_t wh_faim_erase_arcs(wh_heap_ref heap, wh_faim_vertex *vertices, uint32_t *locks,
                                  uint32_t v, uint32_t w) {
    uint32_t how = WH_GRAPH_NO_CHANGE;
    int pending = v != WH_GRAPH_NONE;
    for (uint32_t attempt = 0; wh_any(WH_FULL_WARP, pending); attempt++) {
        wh_faim_page *empty = NULL;
        if (pending && wh_graph_try_lock(locks, v)) {
            uint32_t *at = wh_faim_at_(&vertices[v], w);
            if (at != NULL) {
                empty = wh_faim_close_(&vertices[v], at);
                how = WH_GRAPH_APPLIED;
            }
            wh_graph_unlock(locks, v);
            pending = 0;
        } else if (pending) {
            wh_backoff(attempt);
        }
        if (wh_any(WH_FULL_WARP, empty != NULL)) {
            wh_free_lanes(heap, WH_FULL_WARP,
                          WH_PLANT(faim_update_i1, empty, NULL)); /* I1 of faim.h */
        }
    }
    return how;
}

/* --- a warp for an arc ---------------------------------------------------------------------- */

/* The arc v -> w; all lanes of a full warp. */
WH_FN uint32_t wh_faim_insert_arc_warp(wh_heap_ref heap, wh_faim_vertex *vertices, uint32_t *locks,
                                       uint32_t v, uint32_t w) {
    wh_faim_vertex *x = &vertices[v];
    uint32_t how = WH_GRAPH_NO_CHANGE;
    wh_graph_lock_warp(locks, v);
    if (wh_faim_known_(x, w, 1u) == 0) {
        const int grows = x->degree % WH_FAIM_ENTRIES == 0;
        wh_faim_page *page = NULL;
        if (grows) {
            page = (wh_faim_page *)wh_malloc_warp(heap, WH_FULL_WARP, sizeof(wh_faim_page));
        }
        how = grows && page == NULL ? WH_GRAPH_REFUSED : WH_GRAPH_APPLIED;
        /* B1 of faim.h: all have read the degree */
        WH_PLANT(faim_update_b1_degree, wh_syncwarp(WH_FULL_WARP), (void)0);
        if (wh_lane_id() == 0 && how == WH_GRAPH_APPLIED) {
            wh_faim_append_(x, page, w);
        }
    }
    wh_graph_unlock_warp(locks, v);
    return how;
}

WH_FN uint32_t wh_faim_erase_arc_warp(wh_heap_ref heap, wh_faim_vertex *vertices, uint32_t *locks,
                                      uint32_t v, uint32_t w) {
    wh_faim_vertex *x = &vertices[v];
    uint32_t *at = NULL;
    wh_faim_page *empty = NULL;
    wh_graph_lock_warp(locks, v);
    uint32_t left = x->degree;
    WH_NO_UNROLL
    for (wh_faim_page *page = x->first; left != 0 && at == NULL; page = page->next) {
        const uint32_t n = left < WH_FAIM_ENTRIES ? left : WH_FAIM_ENTRIES;
        const uint32_t entry = wh_lane_id() < n ? page->to[wh_lane_id()] : WH_GRAPH_NONE;
        const wh_mask hit = wh_ballot(WH_FULL_WARP, entry == w);
        at = hit != 0 ? &page->to[wh_ctz32(hit)] : NULL;
        left -= n;
    }
    /* B1 of faim.h: all have read what changes now */
    WH_PLANT(faim_update_b1_read, wh_syncwarp(WH_FULL_WARP), (void)0);
    if (wh_lane_id() == 0 && at != NULL) {
        empty = wh_faim_close_(x, at);
    }
    wh_graph_unlock_warp(locks, v);
    empty = (wh_faim_page *)(uintptr_t)wh_shfl_u64(WH_FULL_WARP, (uint64_t)(uintptr_t)empty, 0);
    if (empty != NULL) {
        wh_free_warp(heap, WH_FULL_WARP, empty);
    }
    return at != NULL ? WH_GRAPH_APPLIED : WH_GRAPH_NO_CHANGE;
}

#include "warpheap/detail/simt/end.h"

#endif
