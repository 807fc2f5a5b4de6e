/* graph/faim.h: the graph class `faim`, after faimGraph: an adjacency is a list of pages of 64
 * bytes. How a vertex takes the arcs of a batch, and gives some back. This file may change: it is
 * no part of the API.
 *
 * Departures from the paper: pages come from the heap, so the heap's allocator is the page manager
 * (`page-queue` is faimGraph's own: a queue of free pages, then a bump), and are linked by
 * pointers, so that a page has 14 entries instead of 15. A batch is laid out by counting
 * (src/graph), not sorted. Updates are by vertex: a worker is a lane or a warp; nothing is locked.
 *
 * record   entry i of an adjacency is entry i % ENTRIES of page i / ENTRIES. Touched by the
 * vertex's worker alone, plain; kernels of one stream follow one another
 *
 * I1       pages = degree / ENTRIES, rounded up; first leads to so many pages, of which last is the
 *          last, whose next is NULL; 0: first and last are NULL. A page belongs to its vertex alone
 * I2       no entry of an adjacency is there twice, and all are vertices
 *
 * B1       a warp's barrier: what its lanes have read before it, one of them may overwrite or free
 *          behind it, and what they have written before it, all read behind it
 *
 * Progress no worker waits for another one, but for the allocator
 * Source   Winter, thesis, chapter 4: pages 4.2.3.2, updates by vertex 4.2.5.1 and 4.2.5.2
 * Check    wh_faim_is_sound, wh_graph_check; tests/dgraph, tests/fault/graph
 */
#ifndef WH_GRAPH_FAIM_H
#define WH_GRAPH_FAIM_H

#include "warpheap/detail/graph/team.h"
#include "warpheap/detail/graph/work.h"
#include "warpheap/graph.h"
#include "warpheap/warpheap.h"

#include "warpheap/detail/simt/begin.h"

#define WH_FAIM_ENTRIES 14u

typedef struct wh_faim_page {
    uint32_t to[WH_FAIM_ENTRIES];
    struct wh_faim_page *next;
} wh_faim_page;

typedef struct wh_faim_vertex {
    uint32_t degree, pages;
    wh_faim_page *first, *last;
} wh_faim_vertex;

/* What a vertex's worker gets. */
typedef struct wh_faim_work {
    wh_faim_vertex *x;
    uint32_t *run;   /* the other ends of the arcs; may be overwritten */
    uint32_t *order; /* the arcs' numbers in the batch, likewise; where done is not NULL */
    uint32_t r;      /* how many */
    uint8_t *done;   /* of the batch, all NO_CHANGE; or NULL */
    const uint32_t
        *removed; /* erase: a bit for each vertex that goes, in place of a run; or NULL */
} wh_faim_work;

WH_HD uint32_t wh_faim_pages_for(uint32_t degree) {
    return (degree + WH_FAIM_ENTRIES - 1) / WH_FAIM_ENTRIES;
}

/* --- a lane for a vertex ------------------------------------------------------------------ */

#define WH_FAIM_LANE_RUN 4u
#define WH_FAIM_LANE_DEGREE 56u

/* Whether a vertex has an entry. Cost: O(degree) loads. */
WH_FN int wh_faim_has(const wh_faim_vertex *x, uint32_t key) {
    uint32_t left = x->degree;
    WH_NO_UNROLL
    for (const wh_faim_page *page = x->first; left != 0; page = page->next) {
        const uint32_t n = left < WH_FAIM_ENTRIES ? left : WH_FAIM_ENTRIES;
        for (uint32_t i = 0; i < n; i++) {
            if (page->to[i] == key) {
                return 1;
            }
        }
        left -= n;
    }
    return 0;
}

/* Appends a key; there is room on the last page, or `fresh` becomes it. */
WH_FN void wh_faim_append_(wh_faim_vertex *x, wh_faim_page *fresh, uint32_t key) {
    const uint32_t at = x->degree % WH_FAIM_ENTRIES;
    if (at == 0) {
        wh_assert_internal(fresh != NULL);
        fresh->next = NULL;
        if (x->last != NULL) {
            x->last->next = fresh;
        } else {
            x->first = fresh;
        }
        x->last = fresh; /* I1 */
        x->pages += WH_PLANT(faim_i1_pages, 1u, 0u);
    }
    x->last->to[at] = key;
    x->degree++;
}

/* The arcs of a run, of at most LANE_RUN, go to their vertex; all lanes of a full warp, each with a
 * vertex of its own, or none (NULL). */
WH_FN void wh_faim_insert_lane(wh_heap_ref heap, wh_faim_work w, wh_graph_tally *tally) {
    uint32_t fresh = 0;
    int grows = 0;
    for (uint32_t k = 0; w.x != NULL && k < w.r; k++) {
        int known =
            w.run[k] == WH_GRAPH_NONE || WH_PLANT(faim_i2_there, wh_faim_has(w.x, w.run[k]), 0);
        for (uint32_t j = 0; j < k; j++) {
            known |= WH_PLANT(faim_i2_run, w.run[j] == w.run[k], 0); /* I2 */
        }
        fresh |= (uint32_t)!known << k;
    }
    const uint32_t n = wh_popc32(fresh);
    if (w.x != NULL) {
        grows = wh_faim_pages_for(w.x->degree + n) > w.x->pages;
    }
    wh_faim_page *page =
        (wh_faim_page *)wh_malloc_lanes(heap, WH_FULL_WARP, grows ? sizeof(wh_faim_page) : 0);
    const int refused = WH_PLANT(faim_i1_refused, grows && page == NULL, 0); /* I1 */
    for (uint32_t k = 0; w.x != NULL && k < w.r; k++) {
        if ((fresh >> k & 1) != 0) {
            if (!refused) {
                wh_faim_append_(w.x, page, w.run[k]);
            }
            if (w.done != NULL) {
                w.done[w.order[k]] = refused ? WH_GRAPH_REFUSED : WH_GRAPH_APPLIED;
            }
        }
    }
    tally->applied += refused ? 0 : n;
    tally->refused += refused ? n : 0;
    tally->no_change += w.r - n;
}

/* Where an adjacency is written anew while it is read, further on. */
typedef struct wh_faim_writer {
    wh_faim_page *page;
    uint32_t n;
} wh_faim_writer;

WH_FN void wh_faim_write_(wh_faim_writer *to, uint32_t entry) {
    if (to->n != 0 && to->n % WH_FAIM_ENTRIES == 0) {
        to->page = to->page->next;
    }
    to->page->to[to->n % WH_FAIM_ENTRIES] = entry;
    to->n++;
}

/* The vertex has n entries now, which end on page `last` (n 0: any). Returns the pages behind that,
 * which are not its own any more. */
WH_FN wh_faim_page *wh_faim_cut_(wh_faim_vertex *x, wh_faim_page *last, uint32_t n) {
    wh_faim_page *rest = n != 0 ? last->next : x->first;
    x->degree = n;
    x->pages = wh_faim_pages_for(n);
    x->last = n != 0 ? last : NULL;
    if (n != 0) {
        last->next = WH_PLANT(faim_i1_cut, NULL, rest); /* I1 */
    } else {
        x->first = NULL;
    }
    return rest;
}

/* The number of the first arc of the run with this end, or NONE: it stays. */
WH_FN uint32_t wh_faim_find_(const wh_faim_work *w, uint32_t entry) {
    uint32_t at = WH_GRAPH_NONE;
    if (w->removed != NULL) {
        return (w->removed[entry / 32] >> entry % 32 & 1) != 0 ? 0 : WH_GRAPH_NONE;
    }
    WH_NO_UNROLL
    for (uint32_t k = w->r; k != 0; k--) {
        at = w->run[k - 1] == entry ? k - 1 : at;
    }
    return at;
}

/* Gives the pages of lists back, a list a lane, or none. All lanes. */
WH_FN void wh_faim_free_lists_(wh_heap_ref heap, wh_faim_page *page) {
    while (wh_any(WH_FULL_WARP, page != NULL)) {
        wh_faim_page *next = page != NULL ? page->next : NULL;
        wh_free_lanes(heap, WH_FULL_WARP, page);
        page = next;
    }
}

/* The arcs of a run leave their vertex; as above. */
WH_FN void wh_faim_erase_lane(wh_heap_ref heap, wh_faim_work w, wh_graph_tally *tally) {
    wh_faim_page *rest = NULL;
    if (w.x != NULL) {
        const uint32_t degree = w.x->degree;
        const wh_faim_page *page = w.x->first;
        wh_faim_writer to = {w.x->first, 0};
        WH_NO_UNROLL
        for (uint32_t i = 0; i < degree; i++) {
            page = i != 0 && i % WH_FAIM_ENTRIES == 0 ? page->next : page;
            const uint32_t entry = page->to[i % WH_FAIM_ENTRIES];
            const uint32_t at = wh_faim_find_(&w, entry);
            if (at == WH_GRAPH_NONE) {
                wh_faim_write_(&to, entry);
            } else if (w.done != NULL) {
                w.done[w.order[at]] = WH_GRAPH_APPLIED;
            }
        }
        if (to.n != degree) {
            rest = wh_faim_cut_(w.x, to.page, to.n);
        }
        tally->applied += degree - to.n;
        tally->no_change += w.r - (degree - to.n);
    }
    wh_faim_free_lists_(heap, WH_PLANT(faim_i1_rest, rest, NULL)); /* I1 */
}

/* --- a warp for a vertex -------------------------------------------------------------------- */

/* Which lanes' keys a vertex has. All lanes; keys: the lanes that have one. */
WH_FN wh_mask wh_faim_known_(const wh_faim_vertex *x, uint32_t key, wh_mask keys) {
    wh_mask known = 0;
    uint32_t left = x->degree;
    WH_NO_UNROLL
    for (const wh_faim_page *page = x->first; left != 0; page = page->next) {
        const uint32_t n = left < WH_FAIM_ENTRIES ? left : WH_FAIM_ENTRIES;
        const uint32_t entry = wh_lane_id() < n ? page->to[wh_lane_id()] : WH_GRAPH_NONE;
        WH_NO_UNROLL
        for (wh_mask rest = keys & ~known; rest != 0; rest &= rest - 1) {
            const uint32_t lane = wh_ctz32(rest);
            if (wh_any(WH_FULL_WARP, wh_shfl_u32(WH_FULL_WARP, key, lane) == entry)) {
                known |= 1u << lane;
            }
        }
        left -= n;
    }
    return known;
}

/* Gives the pages of a list back. All lanes. */
WH_FN void wh_faim_free_list_(wh_heap_ref heap, wh_faim_page *page) {
    while (page != NULL) {
        wh_faim_page *next = page->next;
        wh_syncwarp(WH_FULL_WARP); /* B1: all have read it */
        wh_free_warp(heap, WH_FULL_WARP, page);
        page = next;
    }
}

/* A list of n new pages; NULL if there are not so many. All lanes. */
WH_FN wh_faim_page *wh_faim_new_list_(wh_heap_ref heap, uint32_t n) {
    const uint32_t lane = wh_lane_id();
    wh_faim_page *list = NULL;
    WH_NO_UNROLL
    for (uint32_t made = 0; made < n;) {
        const uint32_t wanted = n - made < WH_WARP_SIZE ? n - made : WH_WARP_SIZE;
        wh_faim_page *page = (wh_faim_page *)wh_malloc_lanes(
            heap, WH_FULL_WARP, lane < wanted ? sizeof(wh_faim_page) : 0);
        const uint64_t address = (uint64_t)(uintptr_t)page;
        const uint64_t next = wh_shfl_u64(WH_FULL_WARP, address, (lane + 1) % WH_WARP_SIZE);
        if (!wh_all(WH_FULL_WARP, lane >= wanted || page != NULL)) {
            wh_free_lanes(heap, WH_FULL_WARP, WH_PLANT(faim_i1_some, page, NULL)); /* I1 */
            wh_faim_free_list_(heap, list);                                        /* I1 */
            return NULL;
        }
        if (lane < wanted) { /* in front of those that there are */
            page->next = lane + 1 < wanted ? (wh_faim_page *)(uintptr_t)next : list;
        }
        WH_PLANT(faim_b1_list, wh_syncwarp(WH_FULL_WARP), (void)0); /* B1 */
        list = (wh_faim_page *)(uintptr_t)wh_shfl_u64(WH_FULL_WARP, address, 0);
        made += wanted;
    }
    return list;
}

/* Appends n keys; `fresh` has as many pages as it takes beyond the last one. All lanes. */
WH_FN void wh_faim_append_warp_(wh_faim_vertex *x, wh_faim_page *fresh, const uint32_t *keys,
                                uint32_t n) {
    const uint32_t lane = wh_lane_id(), degree = x->degree;
    wh_faim_page *first = x->first, *last = x->last, *page = last;
    uint32_t at = degree % WH_FAIM_ENTRIES, done = 0; /* on the page */
    if (at == 0 || page == NULL) {
        page = fresh;
        at = 0;
    }
    WH_NO_UNROLL
    while (done < n) {
        const uint32_t room = WH_FAIM_ENTRIES - at, some = n - done < room ? n - done : room;
        if (lane < some) {
            page->to[at + lane] = keys[done + lane];
        }
        done += some;
        at = 0;
        if (done < n) {
            page = page == last ? fresh : page->next;
        }
    }
    WH_PLANT(faim_b1_entries, wh_syncwarp(WH_FULL_WARP), (void)0); /* B1 */
    if (lane == 0 && n != 0) {
        if (last != NULL && fresh != NULL) {
            last->next = fresh;
        }
        x->first = first != NULL ? first : fresh;
        x->last = WH_PLANT(faim_i1_last, page, fresh != NULL ? fresh : page); /* I1 */
        x->degree = degree + n;
        x->pages = wh_faim_pages_for(degree + n);
    }
    wh_syncwarp(WH_FULL_WARP); /* B1 */
}

WH_FN void wh_faim_insert_warp(wh_heap_ref heap, wh_faim_work w, wh_graph_tally *tally) {
    const uint32_t lane = wh_lane_id(), degree = w.x->degree, pages = w.x->pages;
    uint32_t n = 0; /* new ones, at the front of the run */
    WH_NO_UNROLL
    for (uint32_t first = 0; first < w.r; first += WH_WARP_SIZE) {
        const uint32_t i = first + lane;
        const uint32_t key = i < w.r ? w.run[i] : WH_GRAPH_NONE;
        const uint32_t number = i < w.r && w.done != NULL ? w.order[i] : 0;
        const wh_group same = wh_group_by_u32(WH_FULL_WARP, key);
        const wh_mask keys = wh_ballot(WH_FULL_WARP, key != WH_GRAPH_NONE && same.rank == 0);
        const wh_mask left = keys & ~wh_faim_known_(w.x, key, keys);
        int again = 0;
        WH_NO_UNROLL
        for (uint32_t k = 0; k < n; k++) {
            again |= WH_PLANT(faim_i2_again, w.run[k] == key, 0); /* I2 */
        }
        const wh_mask fresh = left & ~wh_ballot(WH_FULL_WARP, again);
        /* B1: all have read what is overwritten now */
        WH_PLANT(faim_b1_read, wh_syncwarp(WH_FULL_WARP), (void)0);
        if ((fresh >> lane & 1) != 0) {
            w.run[n + wh_mask_rank(fresh)] = key;
            if (w.done != NULL) {
                w.order[n + wh_mask_rank(fresh)] = number;
            }
        }
        WH_PLANT(faim_b1_run, wh_syncwarp(WH_FULL_WARP), (void)0); /* B1 */
        n += wh_popc32(fresh);
    }
    const uint32_t more = wh_faim_pages_for(degree + n) - pages;
    wh_faim_page *fresh = more != 0 ? wh_faim_new_list_(heap, more) : NULL;
    const int refused = more != 0 && fresh == NULL;
    if (!refused) {
        wh_faim_append_warp_(w.x, fresh, w.run, n);
    }
    for (uint32_t i = lane; w.done != NULL && i < n; i += WH_WARP_SIZE) {
        w.done[w.order[i]] = refused ? WH_GRAPH_REFUSED : WH_GRAPH_APPLIED;
    }
    if (lane == 0) {
        tally->applied += refused ? 0 : n;
        tally->refused += refused ? n : 0;
        tally->no_change += w.r - n;
    }
}

WH_FN void wh_faim_erase_warp(wh_heap_ref heap, wh_faim_work w, wh_graph_tally *tally) {
    const uint32_t lane = wh_lane_id(), degree = w.x->degree;
    wh_faim_page *page = w.x->first, *to = page; /* read; written */
    uint32_t kept = 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < degree; first += WH_FAIM_ENTRIES) {
        const int is = lane < WH_FAIM_ENTRIES && first + lane < degree;
        const uint32_t entry = is ? page->to[lane] : WH_GRAPH_NONE;
        wh_faim_page *next = page->next;
        const uint32_t at = is ? wh_faim_find_(&w, entry) : 0;
        const wh_mask stay = wh_ballot(WH_FULL_WARP, is && at == WH_GRAPH_NONE);
        wh_faim_page *behind = to->next;
        WH_PLANT(faim_b1_page, wh_syncwarp(WH_FULL_WARP), (void)0); /* B1 */
        if ((stay >> lane & 1) != 0) {
            const uint32_t i = kept % WH_FAIM_ENTRIES + wh_mask_rank(stay);
            if (i < WH_FAIM_ENTRIES) {
                to->to[i] = entry;
            } else {
                behind->to[i - WH_FAIM_ENTRIES] = entry;
            }
        } else if (is && w.done != NULL) {
            w.done[w.order[at]] = WH_GRAPH_APPLIED;
        }
        wh_syncwarp(WH_FULL_WARP); /* B1 */
        const uint32_t before = kept;
        kept += wh_popc32(stay);
        to = kept / WH_FAIM_ENTRIES != before / WH_FAIM_ENTRIES ? behind : to;
        page = next;
    }
    wh_faim_page *rest = NULL;
    if (kept != degree) {
        wh_faim_page *last = w.x->first; /* `to` is one too far where the last page is full */
        for (uint32_t k = 1; k < wh_faim_pages_for(kept); k++) {
            last = last->next;
        }
        WH_PLANT(faim_b1_last, wh_syncwarp(WH_FULL_WARP), (void)0); /* B1 */
        if (lane == 0) {
            rest = wh_faim_cut_(w.x, last, kept);
        }
        wh_syncwarp(WH_FULL_WARP); /* B1 */
        rest = (wh_faim_page *)(uintptr_t)wh_shfl_u64(WH_FULL_WARP, (uint64_t)(uintptr_t)rest, 0);
    }
    wh_faim_free_list_(heap, rest);
    if (lane == 0) {
        tally->applied += degree - kept;
        tally->no_change += w.r - (degree - kept);
    }
}

/* --- an empty vertex gets a set --------------------------------------------------------------- */

/* Each lane's vertex gets n keys, which are a set, or n is 0: nothing. All lanes of a full warp. 0:
 * there were not enough pages, and the vertex is empty still. */
WH_FN int wh_faim_fill_lane(wh_heap_ref heap, wh_faim_vertex *x, const uint32_t *keys, uint32_t n) {
    wh_faim_page *first = NULL, *last = NULL;
    uint32_t done = 0;
    int asks = n != 0, failed = 0;
    WH_NO_UNROLL
    while (wh_any(WH_FULL_WARP, asks)) {
        wh_faim_page *page =
            (wh_faim_page *)wh_malloc_lanes(heap, WH_FULL_WARP, asks ? sizeof(wh_faim_page) : 0);
        failed |= asks && page == NULL;
        if (page != NULL) {
            for (uint32_t i = 0; i < WH_FAIM_ENTRIES && done < n; i++) {
                page->to[i] = keys[done++];
            }
            page->next = NULL;
            if (last != NULL) {
                last->next = page;
            } else {
                first = page;
            }
            last = page;
        }
        asks = done < n && !failed;
    }
    if (n != 0 && !failed) {
        x->first = first;
        x->last = last;
        x->pages = wh_faim_pages_for(n);
        x->degree = n;
    }
    wh_faim_free_lists_(heap, failed ? first : NULL);
    return !failed;
}

/* The page of the thread behind the caller; NULL: of the last one of the team. All of the team, who
 * meet here. A block has the first ones of its warps in shared memory, behind what wh_team_rank
 * uses. */
WH_FN wh_faim_page *wh_faim_behind_(wh_team t, wh_faim_page *page, wh_faim_page **first) {
    const uint32_t lane = wh_lane_id();
    const uint64_t address = (uint64_t)(uintptr_t)page;
    uint64_t next = wh_shfl_u64(WH_FULL_WARP, address, (lane + 1) % WH_WARP_SIZE);
    *first = (wh_faim_page *)(uintptr_t)wh_shfl_u64(WH_FULL_WARP, address, 0);
    next = lane + 1 < WH_WARP_SIZE ? next : 0;
    if (t.kind == WH_TEAM_BLOCK) {
        const uint32_t warps = t.n / WH_WARP_SIZE, warp = t.me / WH_WARP_SIZE;
        uint64_t *firsts = (uint64_t *)wh_shared() + (warps + 1) / 2;
        if (lane == 0) {
            firsts[warp] = address;
        }
        wh_syncthreads();
        next = lane + 1 == WH_WARP_SIZE && warp + 1 < warps ? firsts[warp + 1] : next;
        *first = (wh_faim_page *)(uintptr_t)firsts[0];
    }
    return (wh_faim_page *)(uintptr_t)next;
}

/* The pages of a warp's lanes get n keys, or as many as there is room for. */
WH_FN void wh_faim_spread_(wh_faim_page *page, const uint32_t *keys, uint32_t n) {
    const uint64_t address = (uint64_t)(uintptr_t)page;
    WH_NO_UNROLL
    for (uint32_t i = wh_lane_id(), k = 0; k < WH_FAIM_ENTRIES; k++, i += WH_WARP_SIZE) {
        wh_faim_page *its =
            (wh_faim_page *)(uintptr_t)wh_shfl_u64(WH_FULL_WARP, address, i / WH_FAIM_ENTRIES);
        if (i < n) {
            its->to[i % WH_FAIM_ENTRIES] = keys[i];
        }
    }
}

/* The team's vertex gets n keys, which are a set; a warp or a block. 0: there were not enough
 * pages, and the vertex is empty still. A page a thread at a time: the last one's is linked to the
 * first one's of the next round. Shared memory of a block: 12 bytes a warp, and 4. */
WH_FN int wh_faim_fill_team(wh_heap_ref heap, wh_team t, wh_faim_vertex *x, const uint32_t *keys,
                            uint32_t n) {
    const uint32_t pages = wh_faim_pages_for(n), before = t.me / WH_WARP_SIZE * WH_WARP_SIZE;
    wh_faim_page *list = NULL, *page = NULL;
    uint32_t lacks = 0;
    WH_NO_UNROLL
    for (uint32_t done = 0; done < pages && lacks == 0; done += t.n) {
        wh_faim_page *last = page, *first;
        const int asks = done + t.me < pages;
        page = (wh_faim_page *)wh_malloc_lanes(heap, WH_FULL_WARP, asks ? sizeof(wh_faim_page) : 0);
        (void)wh_team_rank(t, asks && page == NULL, &lacks);
        if (lacks != 0) {
            wh_free_lanes(heap, WH_FULL_WARP, page);
        } else {
            wh_faim_page *behind = wh_faim_behind_(t, page, &first);
            const uint32_t from = (done + before) * WH_FAIM_ENTRIES;
            if (page != NULL) {
                page->next = behind;
            }
            if (last != NULL && t.me + 1 == t.n) {
                last->next = first;
            }
            wh_syncwarp(WH_FULL_WARP);
            wh_faim_spread_(page, keys + from, n > from ? n - from : 0);
            list = done == 0 ? first : list;
        }
    }
    wh_team_sync(t);
    if (lacks != 0 && t.me < WH_WARP_SIZE) {
        wh_faim_free_list_(heap, list);
    }
    if (lacks == 0 && n != 0 && (pages - 1) % t.n == t.me) {
        x->first = list;
        x->last = page;
        x->pages = pages;
        x->degree = n;
    }
    wh_team_sync(t);
    return lacks == 0;
}

/* --- looking ---------------------------------------------------------------------------------- */

/* I1 and I2 but for repetitions: the number of the invariant that a vertex breaks, or 0. */
WH_FN uint32_t wh_faim_is_sound(wh_heap_ref heap, const wh_faim_vertex *x, uint32_t n_vertices) {
    const wh_faim_page *page = x->first, *last = NULL;
    uint32_t left = x->degree, pages = 0;
    for (; page != NULL && pages < x->pages; page = page->next) {
        const uint32_t n = left < WH_FAIM_ENTRIES ? left : WH_FAIM_ENTRIES;
        if (!wh_owns(heap, page) || n == 0) {
            return 1;
        }
        for (uint32_t i = 0; i < n; i++) {
            if (page->to[i] >= n_vertices) {
                return 2;
            }
        }
        left -= n;
        pages++;
        last = page;
    }
    return page != NULL || left != 0 || pages != x->pages || last != x->last ? 1 : 0;
}

#include "warpheap/detail/simt/end.h"

#endif
