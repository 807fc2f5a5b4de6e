/* pages.h: pages of results, each filled by one owner: a warp, or a lane. Included by
 * join_kernels.c.
 *
 * O1      a page belongs to who took it until it is closed: rows and columns are its own, plain
 * O2      list.page[k] has one writer, which got k of list.n; list.rows[k] is written when k is
 *         closed, before the kernel of its owner ends
 */
#ifndef WHI_OPS_PAGES_H
#define WHI_OPS_PAGES_H

#include "join.h"

/* The heap's calls, not inlined: a page is turned seldom, and malloc is long. */
WH_FN_SLOW unsigned char *take_page(wh_heap_ref heap, uint32_t bytes) {
    return (unsigned char *)wh_malloc(heap, bytes);
}

WH_FN_SLOW unsigned char *take_page_warp(wh_heap_ref heap, uint32_t bytes) {
    return (unsigned char *)wh_malloc_warp(heap, WH_FULL_WARP, bytes);
}

WH_FN_SLOW void give_page(wh_heap_ref heap, void *page) {
    wh_free(heap, page);
}

/* An owner's page of a list. fill: rows in it; as many as there is room for, also if there is no
 * page. */
typedef struct own_page {
    unsigned char *page;
    uint32_t number, fill, list;
} own_page;

WH_FN own_page no_page(const whi_join *j, uint32_t list) {
    own_page o;
    o.page = NULL;
    o.number = 0;
    o.list = list;
    o.fill = j->shape.room;
    return o;
}

/* One lane of the owner. */
WH_FN void close_page(const whi_page_list *l, const own_page *o) {
    if (o->page != NULL) {
        l->rows[o->number] = o->fill; /* O2 */
        wh_add_u64_relaxed(l->n_rows, o->fill);
    }
}

WH_FN uint32_t enter_page(const whi_page_list *l, unsigned char *page) {
    const uint32_t number = wh_fetch_add_u32_relaxed(l->n, 1);
    wh_assert_internal(number < l->most);
    l->page[number] = page; /* O2 */
    return number;
}

/* A new page for a warp, in all lanes, after the full one. 0: there is no memory. All lanes. */
WH_FN int turn_page_warp(wh_heap_ref heap, const whi_join *j, own_page *o) {
    const whi_page_list *l = &j->list[o->list];
    unsigned char *page = take_page_warp(heap, j->page_bytes);
    uint32_t number = 0;
    if (page == NULL) {
        return 0;
    }
    if (wh_lane_id() == 0) {
        close_page(l, o);
        number = enter_page(l, page);
    }
    o->number = wh_shfl_u32(WH_FULL_WARP, number, 0);
    o->page = page;
    o->fill = 0;
    return 1;
}

/* The same for a lane. */
WH_FN int turn_page_lane(wh_heap_ref heap, const whi_join *j, own_page *o) {
    const whi_page_list *l = &j->list[o->list];
    unsigned char *page = take_page(heap, j->page_bytes);
    if (page == NULL) {
        return 0;
    }
    close_page(l, o);
    o->number = enter_page(l, page);
    o->page = page;
    o->fill = 0;
    return 1;
}

/* Closes what a warp, or each of its lanes, has. All lanes. */
WH_FN void close_all(const whi_join *j, own_page *o) {
    if (j->by_thread || wh_lane_id() == 0) {
        close_page(&j->list[o->list], o);
    }
    *o = no_page(j, o->list);
}

#endif
