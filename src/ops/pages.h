/* pages.h: pages of results, each filled by one owner: a warp, or a lane. Included by
 * kernels' files.
 *
 * O1      a page belongs to who took it until it is closed: rows and columns are its own, plain
 * O2      list.page[k] has one writer, which got k of list.n; list.rows[k] is written when k is
 *         closed, before the kernel of its owner ends
 */
#ifndef WHI_OPS_PAGES_H
#define WHI_OPS_PAGES_H

#include "heap_calls.h"
#include "lists.h"

/* An owner's page. fill: rows in it; as many as there is room for, also if there is no page. */
typedef struct own_page {
    unsigned char *page;
    uint32_t number, fill;
} own_page;

WH_FN own_page no_page(const whi_page_list *l) {
    own_page o;
    o.page = NULL;
    o.number = 0;
    o.fill = l->room;
    return o;
}

/* One lane of the owner. */
WH_FN void close_page(const whi_page_list *l, const own_page *o) {
    if (o->page != NULL) {
        l->rows[o->number] = WH_PLANT(pages_o2_rows, o->fill, l->room); /* O2 */
        wh_add_u64_relaxed(l->n_rows, o->fill);
    }
}

WH_FN uint32_t enter_page(const whi_page_list *l, unsigned char *page) {
    const uint32_t number =
        WH_PLANT(pages_o2_number, wh_fetch_add_u32_relaxed(l->n, 1), (*l->n)++); /* O2 */
    wh_assert_internal(number < l->most);
    l->page[number] = page; /* O2 */
    return number;
}

/* A page for a warp, in all lanes; no page: there is no memory. All lanes. */
WH_FN_SLOW own_page open_page_warp(const wh_heap_ref *heap, const whi_page_list *l) {
    own_page o = no_page(l);
    uint32_t number = 0;
    unsigned char *page = (unsigned char *)wh_malloc_warp(*heap, WH_FULL_WARP, l->page_bytes);
    if (page != NULL && wh_lane_id() == 0) {
        number = enter_page(l, page);
    }
    if (page != NULL) {
        o.page = page;
        o.number = wh_shfl_u32(WH_FULL_WARP, number, 0);
        o.fill = 0;
    }
    return o;
}

/* The same for a lane. */
WH_FN_SLOW own_page open_page_lane(const wh_heap_ref *heap, const whi_page_list *l) {
    own_page o = no_page(l);
    unsigned char *page = (unsigned char *)wh_malloc(*heap, l->page_bytes);
    if (page != NULL) {
        o.page = page;
        o.number = enter_page(l, page);
        o.fill = 0;
    }
    return o;
}

/* A new page for a warp, in all lanes, after the full one. 0: there is no memory, and no page. The
 * old one is closed first: nothing of it is kept in registers meanwhile. All lanes. */
WH_FN int turn_page_warp(const wh_heap_ref *heap, const whi_page_list *l, own_page *o) {
    if (wh_lane_id() == 0) {
        WH_PLANT(pages_o2_turn, close_page(l, o), (void)0);
    }
    *o = open_page_warp(heap, l);
    return o->page != NULL;
}

/* The same for a lane. */
WH_FN int turn_page_lane(const wh_heap_ref *heap, const whi_page_list *l, own_page *o) {
    WH_PLANT(pages_o2_turn_lane, close_page(l, o), (void)0);
    *o = open_page_lane(heap, l);
    return o->page != NULL;
}

/* Closes what a warp, or each of its lanes, has. All lanes. */
WH_FN void close_all(const whi_page_list *l, own_page *o) {
    if (WH_PLANT(pages_o2_close, l->by_thread, 0) || wh_lane_id() == 0) {
        close_page(l, o);
    }
    *o = no_page(l);
}

/* The rows of a list's pages into columns, which may be NULL; *written: 0, and then how many rows
 * have a place. All threads of a grid, a warp a page. */
WH_FN void compact_pages(const whi_page_list *l, const wh_pages *shape, void *const *columns,
                         uint64_t *written) {
    const uint32_t n = *l->n, lane = wh_lane_id();
    const uint64_t warps = wh_grid_threads() / WH_WARP_SIZE;
    for (uint64_t p = wh_thread_id() / WH_WARP_SIZE; p < n; p += warps) {
        const uint32_t rows = l->rows[p];
        uint64_t at = 0;
        if (lane == 0) {
            at = wh_fetch_add_u64_relaxed(written, rows);
        }
        at = WH_PLANT(pages_compact_at, wh_shfl_u64(WH_FULL_WARP, at, 0), at);
        for (uint32_t c = 0; c < WH_PAGE_COLUMNS; c++) {
            const unsigned char *from = l->page[p] + shape->column_at[c];
            const int is_wide = shape->column_bytes[c] == 8;
            for (uint32_t i = lane; i < rows && columns[c] != NULL; i += WH_WARP_SIZE) {
                if (is_wide) {
                    ((uint64_t *)columns[c])[at + i] = ((const uint64_t *)(const void *)from)[i];
                } else {
                    ((uint32_t *)columns[c])[at + i] = ((const uint32_t *)(const void *)from)[i];
                }
            }
        }
    }
}

/* A list's pages go back. All threads of a grid. */
WH_FN void drop_pages_of(const wh_heap_ref *heap, const whi_page_list *l) {
    for (uint64_t p = wh_thread_id(); p + WH_PLANT(pages_drop, 0u, 1u) < *l->n;
         p += wh_grid_threads()) {
        give_page(heap, l->page[p]);
    }
}

#endif
