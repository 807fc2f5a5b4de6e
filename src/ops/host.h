/* host.h: what the host's calls of operators share: structures that callers hand over, memory that
 * an operator holds, and what a heap must have. */
#ifndef WHI_OPS_HOST_H
#define WHI_OPS_HOST_H

#include <string.h>

#include "host/last_error.h"
#include "host/structs.h"
#include "host/try.h"
#include "lists.h"

/* What an allocator must have to be built with operators. */
#define OPS_CAPS (WH_CAP_FREE | WH_CAP_DISJOINT)

#define MOST_HELD 64u

/* Memory of a device, until all of it is let go. */
typedef struct whi_held {
    wh_device *device;
    void *memory[MOST_HELD];
    uint32_t n;
} whi_held;

/* n entries of some bytes; *p is a pointer to whatever they are. */
static inline wh_status whi_hold(whi_held *h, void *p, uint64_t n, uint64_t bytes) {
    void *memory = NULL;
    TRY(h->n < MOST_HELD ? wh_device_alloc(h->device, &memory, n * bytes + 8) : WH_OUT_OF_MEMORY);
    h->memory[h->n++] = memory;
    memcpy(p, &memory, sizeof memory);
    return WH_OK;
}

/* Other memory is held in place of some that is, which is the caller's then. */
static inline void whi_hold_instead(whi_held *h, const void *old, void *memory) {
    for (uint32_t k = 0; k < h->n; k++) {
        h->memory[k] = h->memory[k] == old ? memory : h->memory[k];
    }
}

static inline void whi_let_go(whi_held *h) {
    while (h->n != 0) {
        (void)wh_device_free(h->device, h->memory[--h->n]);
    }
}

/* As many entries of a list as a heap of so many bytes may have pages. */
static inline uint32_t whi_most_pages(const whi_page_list *l, uint64_t heap_bytes) {
    return (uint32_t)(heap_bytes / l->page_bytes + 1);
}

/* Held, of a list that has page_bytes. */
static inline wh_status whi_hold_list(whi_held *h, whi_page_list *l, uint64_t heap_bytes) {
    l->most = whi_most_pages(l, heap_bytes);
    TRY(whi_hold(h, &l->page, l->most, sizeof *l->page));
    return whi_hold(h, &l->rows, l->most, sizeof *l->rows);
}

static inline void whi_free_list(wh_device *d, const whi_page_list *l) {
    (void)wh_device_free(d, l->page);
    (void)wh_device_free(d, l->rows);
}

/* *to: the list, for a heap of so many bytes, with entries that are the caller's and have nothing
 * in them yet. OUT_OF_MEMORY: it has none. */
static inline wh_status whi_larger_list(wh_device *d, const whi_page_list *l, uint64_t heap_bytes,
                                        whi_page_list *to) {
    void *page = NULL, *rows = NULL;
    *to = *l;
    to->most = whi_most_pages(l, heap_bytes);
    wh_status s = wh_device_alloc(d, &page, (uint64_t)to->most * sizeof *l->page + 8);
    s = s == WH_OK ? wh_device_alloc(d, &rows, (uint64_t)to->most * sizeof *l->rows + 8) : s;
    to->page = (unsigned char **)page;
    to->rows = (uint32_t *)rows;
    if (s != WH_OK) {
        whi_free_list(d, to);
        to->page = NULL;
        to->rows = NULL;
    }
    return s;
}

/* A list's entries are held in place of another one's. */
static inline void whi_hold_list_instead(whi_held *h, const whi_page_list *old,
                                         const whi_page_list *l) {
    whi_hold_instead(h, old->page, l->page);
    whi_hold_instead(h, old->rows, l->rows);
}

/* Where the heap's memory is that an operator has seen. */
typedef struct whi_heap_place {
    void *base;
    uint64_t bytes;
} whi_heap_place;

static inline wh_status whi_find_heap(wh_heap *heap, whi_heap_place *at) {
    return wh_heap_memory(heap, &at->base, &at->bytes);
}

/* Whether the heap has grown since. */
static inline int whi_has_moved(wh_heap *heap, const whi_heap_place *at) {
    whi_heap_place now = *at;
    (void)whi_find_heap(heap, &now);
    return now.base != at->base || now.bytes != at->bytes;
}

/* Before a call that looks at pages. name: of the operator, in its calls. */
static inline wh_status whi_check_place(wh_heap *heap, const whi_heap_place *at, const char *name) {
    return whi_has_moved(heap, at)
               ? whi_refuse(WH_BAD_ARGUMENT, "the heap has grown: wh_%s_rebase comes first", name)
               : WH_OK;
}

/* The text of an operator that has stopped. rows: that are in pages; needs: bytes of the heap for
 * rows under way, about, and at most. */
static inline wh_status whi_say_full(uint64_t rows, uint64_t needs) {
    return rows != 0 ? whi_refuse(WH_OUT_OF_MEMORY,
                                  "the heap is full; %llu rows are in pages: take them, drop the "
                                  "pages, and resume",
                                  (unsigned long long)rows)
                     : whi_refuse(WH_OUT_OF_MEMORY,
                                  "the heap is full, and no row of the result is in pages: rows "
                                  "under way may take %llu bytes of it, beside the result; smaller "
                                  "pages need less",
                                  (unsigned long long)needs);
}

/* A column that the caller has given; NULL: it is not wanted. */
static inline wh_status whi_check_column(const void *column, uint32_t bytes, uint32_t c) {
    return column != NULL && (uintptr_t)column % bytes != 0
               ? whi_refuse(WH_BAD_ARGUMENT, "column %u is not aligned to its width", c)
               : WH_OK;
}

/* Before pages are moved. */
static inline wh_status whi_check_rebase(wh_heap *heap, const whi_heap_place *at, int64_t moved) {
    return moved != 0 && !whi_has_moved(heap, at)
               ? whi_refuse(WH_BAD_ARGUMENT, "the heap has not grown since: nothing has moved")
               : WH_OK;
}

static inline wh_status whi_check_allocator(const wh_allocator_info *info) {
    if ((info->caps & WH_CAP_FREE) == 0) {
        return whi_refuse(WH_UNSUPPORTED,
                          "operators give pages back: the heap's allocator, %s, cannot free",
                          info->name);
    }
    return (info->caps & OPS_CAPS) == OPS_CAPS
               ? WH_OK
               : whi_refuse(WH_UNSUPPORTED, "blocks of the heap's allocator, %s, may overlap",
                            info->name);
}

/* The largest block of a heap whose allocator has classes of sizes; else UINT64_MAX. Waits. */
static inline wh_status whi_largest_block(wh_heap *heap, uint64_t *bytes) {
    const wh_allocator_info *info = wh_heap_allocator(heap);
    wh_stats stats;
    *bytes = info->max_size;
    if ((info->caps & WH_CAP_STATS) != 0 && (info->caps & WH_CAP_ANY_SIZE) == 0) {
        memset(&stats, 0, sizeof stats);
        TRY(wh_heap_get_stats(heap, &stats));
        if (stats.n_classes != 0) {
            *bytes = stats.classes[stats.n_classes - 1].block_bytes;
        }
    }
    return WH_OK;
}

/* Bytes of a page where the caller leaves it open: small heaps have small ones, as each warp fills
 * one. */
static inline uint32_t whi_default_page(wh_heap *heap) {
    const uint32_t large = 16384, small = 4096;
    whi_heap_place at;
    uint64_t largest = 0;
    const int is_large = whi_find_heap(heap, &at) == WH_OK && at.bytes >= (uint64_t)64 << 20 &&
                         whi_largest_block(heap, &largest) == WH_OK && largest >= large;
    return is_large ? large : small;
}

/* Whether pages of so many bytes do, with so many rows of the result, and the heap serves them. */
static inline wh_status whi_check_pages(wh_heap *heap, uint32_t page_bytes, uint32_t room) {
    const wh_allocator_info *info = wh_heap_allocator(heap);
    uint64_t largest = 0;
    if (room < 32 || page_bytes > 1u << 20) {
        return whi_refuse(WH_BAD_ARGUMENT,
                          "pages of %u bytes: at least 32 rows of the result must fit, and 1 MiB "
                          "is the most",
                          page_bytes);
    }
    TRY(whi_largest_block(heap, &largest));
    if (largest < page_bytes) {
        return whi_refuse(WH_UNSUPPORTED,
                          "pages of %u bytes: the largest block of this heap, of %s, has %llu",
                          page_bytes, info->name, (unsigned long long)largest);
    }
    return WH_OK;
}

#endif
