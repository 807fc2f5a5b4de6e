/* planted_bugs.h: mistakes of users of a heap, one a row, each in a small kernel of its own, and
 * what a checked heap has to say of it. For the simulated device (tests/unit/checked.c) and a GPU
 * (tests/gpu/checked.cu): the file that includes it has included warpheap/warpheap.h, with
 * WH_CHECKED.
 *
 * Each call says where it stands by a tag: 1 allocates, 2 frees, 3 is the one that is wrong. */
#ifndef WH_TESTS_PLANTED_BUGS_H
#define WH_TESTS_PLANTED_BUGS_H

#include <stdio.h>
#include <string.h>

#include "warpheap/options.h"
#include "warpheap/records.h"

#define BUG_THREADS 64u
#define BUG_HEAP ((uint64_t)16 << 20)
#define BUG_LARGE 100000u
#define BUG_SOON 99u /* tag 3, or none yet: the free that was first is under way */

typedef struct bug_args {
    wh_heap_ref heap;
    unsigned char **p;    /* of each thread */
    unsigned char *other; /* memory that is not the heap's */
    uint32_t *seen;
    uint32_t bug, phase;
} bug_args;

/* X(name, phases, kind, times, site, allocated, freed, bytes, offset, looks): in how many kernels;
 * which record comes, how often, and what is in it. looks: 1: the host looks in the end, 2: also
 * for leaks; 4: there is no quarantine; 8: the heap is reset after the first kernel; 16: all bytes
 * of a block are poisoned. */
#define BUG_LIST(X)                                                               \
    X(none, 1, LEAK, 0, 0, 0, 0, 0, 0, 3)                                         \
    X(overrun_by_1, 1, OVERRUN, 1, 3, 1, 0, 40, 40, 1)                            \
    X(overrun_by_16, 1, OVERRUN, 1, 3, 1, 0, 48, 48, 1)                           \
    X(overrun_of_odd, 1, OVERRUN, 1, 3, 1, 0, 13, 13, 1)                          \
    X(overrun_far_in_zone, 1, OVERRUN, 1, 3, 1, 0, 40, 63, 1)                     \
    X(overrun_by_4096, 1, OVERRUN, 1, 3, 1, 0, 8000, 8000, 0)                     \
    X(overrun_of_run, 1, OVERRUN, 1, 3, 1, 0, BUG_LARGE, BUG_LARGE, 1)            \
    X(overrun_of_aligned, 1, OVERRUN, 1, 3, 1, 0, 100, 100, 1)                    \
    X(overrun_seen_by_host, 1, OVERRUN, 1, 0, 1, 0, 40, 41, 1)                    \
    X(overrun_of_calloc, 1, OVERRUN, 1, 3, 0, 0, 60, 60, 1)                       \
    X(overrun_of_pool, 1, OVERRUN, 1, 3, 0, 0, 40, 40, 1)                         \
    X(overrun_of_warps, 1, OVERRUN, 2, 0, 0, 0, 200, 200, 1)                      \
    X(underrun_by_1, 1, UNDERRUN, 1, 3, 1, 0, 40, -1, 1)                          \
    X(underrun_by_16, 1, UNDERRUN, 1, 3, 1, 0, 40, -16, 1)                        \
    X(underrun_of_header, 1, UNDERRUN, 1, 3, 0, 0, 0, -64, 0)                     \
    X(underrun_of_aligned, 1, UNDERRUN, 1, 3, 1, 0, 100, -100, 1)                 \
    X(underrun_seen_by_host, 1, UNDERRUN, 1, 0, 1, 0, 40, -2, 1)                  \
    X(double_free, 1, DOUBLE_FREE, 1, 3, 1, 2, 40, 0, 1)                          \
    X(double_free_in_warp, 1, DOUBLE_FREE, 31, 3, 1, BUG_SOON, 40, 0, 1)          \
    X(double_free_across_warps, 1, DOUBLE_FREE, 1, 3, 1, BUG_SOON, 40, 0, 1)      \
    X(double_free_across_kernels, 3, DOUBLE_FREE, 1, 3, 1, 2, 40, 0, 1)           \
    X(double_free_of_run, 1, DOUBLE_FREE, 1, 3, 1, 2, BUG_LARGE, 0, 1)            \
    X(double_free_let_go, 2, DOUBLE_FREE, 1, 3, 1, 2, 40, 0, 4)                   \
    X(double_free_by_realloc, 1, DOUBLE_FREE, 1, 3, 1, 0, 40, 0, 1)               \
    X(double_free_of_warps, 1, DOUBLE_FREE, 2, 0, 0, 0, 200, 0, 1)                \
    X(interior, 1, INTERIOR_FREE, 1, 3, 1, 0, 400, 16, 1)                         \
    X(interior_of_run, 1, INTERIOR_FREE, 1, 3, 1, 0, BUG_LARGE, 40000, 1)         \
    X(interior_of_aligned, 1, INTERIOR_FREE, 1, 3, 1, 0, 500, -64, 1)             \
    X(misaligned, 1, MISALIGNED_FREE, 1, 3, 1, 0, 40, 8, 1)                       \
    X(foreign, 1, FOREIGN_FREE, 1, 3, 0, 0, 0, 0, 1)                              \
    X(foreign_low, 1, FOREIGN_FREE, 1, 3, 0, 0, 0, 0, 1)                          \
    X(stale_after_reset, 2, STALE_FREE, 1, 3, 0, 0, 0, 0, 9)                      \
    X(stale_never_given, 1, STALE_FREE, 1, 3, 0, 0, 0, 0, 1)                      \
    X(null_free, 1, DOUBLE_FREE, 0, 0, 0, 0, 0, 0, 1)                             \
    X(write_after_free, 1, USE_AFTER_FREE, 1, 0, 1, 2, 40, 3, 1)                  \
    X(write_after_free_let_go, 2, USE_AFTER_FREE, 1, 3, 1, 2, 40, 39, 0)          \
    X(write_after_free_of_run, 2, USE_AFTER_FREE, 1, 0, 1, 2, BUG_LARGE, 255, 1)  \
    X(write_after_free_deep, 2, USE_AFTER_FREE, 1, 0, 1, 2, BUG_LARGE, 50000, 17) \
    X(write_behind_freed, 1, USE_AFTER_FREE, 1, 0, 1, 2, 40, 41, 1)               \
    X(read_after_free, 1, USE_AFTER_FREE, 0, 0, 0, 0, 0, 0, 1)                    \
    X(read_uninitialised, 1, USE_AFTER_FREE, 0, 0, 0, 0, 0, 0, 1)                 \
    X(leak, 1, LEAK, 1, 0, 1, 0, 72, 0, 3)                                        \
    X(leak_of_run, 1, LEAK, 1, 0, 1, 0, BUG_LARGE, 0, 3)

enum {
#define BUG_ENUM_(name, ...) BUG_##name,
    BUG_LIST(BUG_ENUM_)
#undef BUG_ENUM_
        N_BUGS
};

WH_FN unsigned char *bug_malloc(wh_heap_ref heap, size_t n) {
    return (unsigned char *)wh_malloc_at(heap, n, WH_TAG(1));
}
WH_FN void bug_fill(unsigned char *p, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++) {
        p[i] = 0x5a;
    }
}

/* Of one lane alone: thread 7. The bugs of several lanes are in the kernel. These are left to
 * free; NULL: to nobody. */
WH_FN unsigned char *bug_before(const bug_args *a) {
    unsigned char *p = NULL;
    switch (a->bug) {
    case BUG_underrun_by_1:
        p = bug_malloc(a->heap, 40);
        bug_fill(p, -1, 40);
        break;
    case BUG_underrun_by_16:
        p = bug_malloc(a->heap, 40);
        bug_fill(p, -16, 40);
        break;
    case BUG_underrun_of_header:
        p = bug_malloc(a->heap, 40);
        bug_fill(p, -64, 0);
        break;
    case BUG_underrun_of_aligned:
        p = (unsigned char *)wh_tessera_aligned_at(a->heap, wh_activemask(), 256, 100, WH_TAG(1));
        bug_fill(p, -100, -99);
        break;
    case BUG_underrun_seen_by_host:
        p = bug_malloc(a->heap, 40);
        bug_fill(p, -2, 0);
        return NULL;
    default:
        break;
    }
    return p;
}

WH_FN void bug_bounds(const bug_args *a) {
    unsigned char *p = bug_before(a);
    switch (a->bug) {
    case BUG_overrun_by_1:
        p = bug_malloc(a->heap, 40);
        bug_fill(p, 0, 41);
        break;
    case BUG_overrun_by_16:
        p = bug_malloc(a->heap, 48);
        bug_fill(p, 0, 64);
        break;
    case BUG_overrun_of_odd:
        p = bug_malloc(a->heap, 13);
        bug_fill(p, 0, 14);
        break;
    case BUG_overrun_far_in_zone:
        p = bug_malloc(a->heap, 40);
        bug_fill(p, 63, 64);
        break;
    case BUG_overrun_by_4096: /* into the next blocks, which nobody frees */
        p = bug_malloc(a->heap, 8000);
        bug_fill(p, 0, 8000 + 4096);
        break;
    case BUG_overrun_of_run:
        p = bug_malloc(a->heap, BUG_LARGE);
        bug_fill(p, BUG_LARGE, BUG_LARGE + 1);
        break;
    case BUG_overrun_of_aligned:
        p = (unsigned char *)wh_tessera_aligned_at(a->heap, wh_activemask(), 256, 100, WH_TAG(1));
        bug_fill(p, 0, 101);
        break;
    case BUG_overrun_seen_by_host:
        p = bug_malloc(a->heap, 40);
        bug_fill(p, 41, 42);
        return;
    case BUG_overrun_of_calloc:
        p = (unsigned char *)wh_calloc(a->heap, 6, 10);
        bug_fill(p, 59, 61);
        break;
    case BUG_overrun_of_pool: {
        const wh_pool_t pool = wh_pool_of(a->heap, 40);
        p = (unsigned char *)wh_pool_malloc(pool);
        bug_fill(p, 0, 41);
        break;
    }
    default:
        break;
    }
    wh_free_at(a->heap, p, WH_TAG(3));
}

WH_FN void bug_pointers(const bug_args *a) {
    unsigned char *p = NULL;
    switch (a->bug) {
    case BUG_double_free:
        p = bug_malloc(a->heap, 40);
        wh_free_at(a->heap, p, WH_TAG(2));
        break;
    case BUG_double_free_of_run:
        p = bug_malloc(a->heap, BUG_LARGE);
        wh_free_at(a->heap, p, WH_TAG(2));
        break;
    case BUG_double_free_by_realloc: {
        p = bug_malloc(a->heap, 40);
        wh_free(a->heap, wh_realloc(a->heap, p, 1000));
        break;
    }
    case BUG_interior:
        p = bug_malloc(a->heap, 400);
        wh_free_at(a->heap, p + 16, WH_TAG(3));
        wh_free_at(a->heap, p, WH_TAG(2));
        return;
    case BUG_interior_of_run:
        p = bug_malloc(a->heap, BUG_LARGE);
        wh_free_at(a->heap, p + 40000, WH_TAG(3));
        wh_free_at(a->heap, p, WH_TAG(2));
        return;
    case BUG_interior_of_aligned:
        p = (unsigned char *)wh_tessera_aligned_at(a->heap, wh_activemask(), 256, 500, WH_TAG(1));
        wh_free_at(a->heap, p - 64, WH_TAG(3));
        wh_free_at(a->heap, p, WH_TAG(2));
        return;
    case BUG_misaligned:
        p = bug_malloc(a->heap, 40);
        wh_free_at(a->heap, p + 8, WH_TAG(3));
        wh_free_at(a->heap, p, WH_TAG(2));
        return;
    case BUG_foreign:
        p = a->other;
        break;
    case BUG_foreign_low:
        p = (unsigned char *)(uintptr_t)16;
        break;
    case BUG_stale_never_given: /* far from the first blocks, and from the last runs */
        p = a->heap.base + (BUG_HEAP / 2 & ~(uint64_t)0xffff);
        break;
    default:
        break;
    }
    wh_free_at(a->heap, p, WH_TAG(3));
}

WH_FN void bug_freed(const bug_args *a) {
    const int is_large =
        a->bug == BUG_write_after_free_of_run || a->bug == BUG_write_after_free_deep;
    const size_t n = is_large ? BUG_LARGE : 40;
    unsigned char *p = bug_malloc(a->heap, n);
    if (a->bug == BUG_read_uninitialised) {
        *a->seen = p[0] == WH_TESSERA_NEW_BYTE && p[39] == WH_TESSERA_NEW_BYTE;
    }
    a->p[7] = p;
    wh_free_at(a->heap, p, WH_TAG(2));
    switch (a->bug) {
    case BUG_write_after_free:
        p[3] = 1;
        break;
    case BUG_write_after_free_let_go:
        p[39] = 1;
        break;
    case BUG_write_after_free_of_run:
        p[255] = 1;
        break;
    case BUG_write_after_free_deep:
        p[50000] = 1;
        break;
    case BUG_write_behind_freed:
        p[41] = 1;
        break;
    case BUG_read_after_free:
        *a->seen = p[0] == WH_TESSERA_FREED_BYTE && p[39] == WH_TESSERA_FREED_BYTE;
        break;
    default:
        break;
    }
}

/* The second and third kernel. */
WH_FN void bug_later(const bug_args *a) {
    if (a->bug == BUG_write_after_free_let_go) { /* until it has come out of quarantine */
        for (uint32_t i = 0; i < 200; i++) {
            wh_free_at(a->heap, bug_malloc(a->heap, 12000), WH_TAG(3));
        }
    } else if (a->bug == BUG_double_free_across_kernels) {
        wh_free_at(a->heap, a->p[7], a->phase == 1 ? WH_TAG(2) : WH_TAG(3));
    } else if (a->bug == BUG_double_free_let_go || a->bug == BUG_stale_after_reset) {
        wh_free_at(a->heap, a->p[7], WH_TAG(3));
    }
}

WH_FN void bug_alone(const bug_args *a) {
    if (a->phase != 0) {
        bug_later(a);
    } else if (a->bug <= BUG_underrun_seen_by_host) {
        bug_bounds(a);
    } else if (a->bug == BUG_leak || a->bug == BUG_leak_of_run) {
        (void)bug_malloc(a->heap, a->bug == BUG_leak ? 72 : BUG_LARGE);
    } else if (a->bug == BUG_double_free_let_go) {
        a->p[7] = bug_malloc(a->heap, 40);
        wh_free_at(a->heap, a->p[7], WH_TAG(2));
    } else if (a->bug == BUG_double_free_across_kernels || a->bug == BUG_stale_after_reset) {
        a->p[7] = bug_malloc(a->heap, 40);
    } else if (a->bug >= BUG_write_after_free) {
        bug_freed(a);
    } else {
        bug_pointers(a);
    }
}

/* Bugs of several lanes. 0: it is none of these. */
WH_FN int bug_together(const bug_args *a) {
    const uint64_t i = wh_thread_id();
    unsigned char *p;
    switch (a->bug) {
    case BUG_overrun_of_warps:
        p = (unsigned char *)wh_malloc_warp(a->heap, WH_FULL_WARP, 200);
        p[wh_lane_id() < 8 ? 200 + wh_lane_id() : wh_lane_id()] = 1;
        wh_free_warp(a->heap, WH_FULL_WARP, p);
        return 1;
    case BUG_double_free_of_warps:
        p = (unsigned char *)wh_malloc_warp(a->heap, WH_FULL_WARP, 200);
        wh_free_warp(a->heap, WH_FULL_WARP, p);
        wh_free_warp(a->heap, WH_FULL_WARP, p);
        return 1;
    case BUG_double_free_in_warp: /* all lanes of one free the block of one */
        if (i == 0) {
            a->p[0] = bug_malloc(a->heap, 40);
        }
        wh_syncthreads();
        if (i < 32) {
            wh_free_at(a->heap, a->p[0], WH_TAG(3));
        }
        return 1;
    case BUG_double_free_across_warps:
        if (i == 0) {
            a->p[0] = bug_malloc(a->heap, 40);
        }
        wh_syncthreads();
        if (i % 32 == 5) {
            wh_free_at(a->heap, a->p[0], WH_TAG(3));
        }
        return 1;
    default:
        return 0;
    }
}

WH_KERNEL(bug_kernel, bug_args, a) {
    if (bug_together(&a)) {
        return;
    }
    if (wh_thread_id() == 7) {
        bug_alone(&a);
    } else if (a.bug != BUG_overrun_by_4096 && a.bug != BUG_double_free_let_go &&
               a.bug != BUG_stale_after_reset) { /* all is well */
        unsigned char *p = (unsigned char *)wh_malloc(a.heap, 16 + wh_lane_id() * 8);
        bug_fill(p, 0, 16 + (int64_t)wh_lane_id() * 8);
        wh_free(a.heap, p);
    }
}

/* --- the host's side -------------------------------------------------------------------------- */

typedef struct bug_row {
    const char *name;
    uint32_t phases, kind, times, site, allocated, freed;
    uint64_t bytes;
    int64_t offset;
    uint32_t looks;
} bug_row;
static const bug_row bug_rows[] = {
#define BUG_ROW_(name, phases, kind, times, site, allocated, freed, bytes, offset, looks) \
    {#name, phases, WH_RECORD_##kind, times, site, allocated, freed, bytes, offset, looks},
    BUG_LIST(BUG_ROW_)
#undef BUG_ROW_
};

static int bug_is_wrong(const bug_row *row, const wh_record *r) {
    const wh_record_site sites[3] = {r->site, r->allocated, r->freed};
    const uint32_t want[3] = {row->site, row->allocated, row->freed};
    int wrong = r->kind != row->kind || r->bytes != row->bytes || r->offset != row->offset;
    for (uint32_t i = 0; i < 3; i++) {
        const int is_soon = want[i] == BUG_SOON && (sites[i].line == 0 || sites[i].line == 3);
        wrong |= sites[i].file[0] != '\0' || (sites[i].line != want[i] && !is_soon);
    }
    if (row->times == 1) {
        const int by_host = row->site == 0;
        wrong |= by_host ? r->thread != WH_UNKNOWN : r->thread >= BUG_THREADS || r->block != 0;
    }
    return wrong;
}

/* What the heap has noted. 0: it is what the row says. */
static int bug_judge(const bug_row *row, wh_heap *heap) {
    wh_record records[64];
    char text[400];
    uint32_t n = 0;
    uint64_t found = 0, counts[WH_RECORD_KINDS];
    int wrong = 0;
    wh_status s = WH_OK;
    if ((row->looks & 3) != 0) {
        s = wh_heap_check_blocks(heap, (row->looks & 2) != 0, &found);
        wrong |= s != WH_OK;
    }
    s = wh_heap_violations(heap, records, sizeof *records, 64, &n);
    wrong |= s != WH_OK || n != row->times ||
             wh_heap_record_counts(heap, counts, WH_RECORD_KINDS) != WH_OK ||
             counts[row->kind] != row->times;
    for (uint32_t i = 0; i < n; i++) {
        wrong |= bug_is_wrong(row, &records[i]);
    }
    for (uint32_t i = 0; wrong && i < n; i++) {
        printf("  %s\n", wh_record_text(&records[i], text, sizeof text));
    }
    if (wrong) {
        printf("%s: %s, %u records, %u expected\n", row->name, wh_status_name(s), (unsigned)n,
               (unsigned)row->times);
    }
    return wrong;
}

/* Runs one row, and says what is wrong with it. 0: nothing. */
static int bug_run(wh_device *device, uint32_t bug) {
    const bug_row *row = &bug_rows[bug];
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options o;
    wh_heap *heap = NULL;
    bug_args a;
    void *room = NULL;
    uint32_t seen = 0;
    memset(&o, 0, sizeof o);
    memset(&a, 0, sizeof a);
    own.checked = 1;
    own.quarantine_bytes = (row->looks & 4) != 0 ? 1 : 0;
    own.poison_bytes = (row->looks & 16) != 0 ? UINT64_MAX : 0;
    o.bytes = BUG_HEAP;
    o.device = device;
    o.options = &own.head;
    a.bug = bug;
    const uint64_t bytes = BUG_THREADS * sizeof(void *) + 512;
    wh_status s = wh_heap_create(&heap, &o);
    s = s == WH_OK ? wh_heap_handle(heap, &a.heap) : s;
    s = s == WH_OK ? wh_device_alloc(device, &room, bytes) : s;
    s = s == WH_OK ? wh_device_set(device, room, 0, bytes) : s;
    a.p = (unsigned char **)room;
    a.seen = (uint32_t *)(void *)(a.p + BUG_THREADS);
    a.other = (unsigned char *)(a.seen + 4);
    const wh_launch l = wh_grid(device, 1, BUG_THREADS);
    for (; a.phase < row->phases && s == WH_OK; a.phase++) {
        s = bug_kernel(&l, &a);
        s = s == WH_OK && a.phase == 0 && (row->looks & 8) != 0 ? wh_heap_reset(heap) : s;
    }
    s = s == WH_OK ? wh_device_copy_out(device, &seen, a.seen, sizeof seen) : s;
    int wrong = s != WH_OK;
    if (wrong) {
        printf("%s: %s: %s\n", row->name, wh_status_name(s), wh_device_error_text(device));
    } else {
        wrong = bug_judge(row, heap);
    }
    if ((bug == BUG_read_after_free || bug == BUG_read_uninitialised) && seen != 1) {
        printf("%s: the poison is not seen\n", row->name);
        wrong = 1;
    }
    (void)wh_device_free(device, room);
    return (wh_heap_destroy(heap) != WH_OK) | wrong;
}

#endif
