/* alloc_ops.c: targeted source (compiled per allocator and target): the kernels by
 * which the host initialises and inspects a heap. */
#include "alloc_ops.h"

#include <string.h>

#include "warpheap/detail/alloc/tables.h"
#include "warpheap/warpheap.h"

WH_STATIC_ASSERT(sizeof(wh_heap_ref) <= WH_HANDLE_BYTES, "the handle must stay small");

typedef struct {
    wh_heap_ref heap;
    void *out;
} ops_args;

WH_KERNEL(init_kernel, ops_args, a) {
    WH_OF_(init)(a.heap, wh_thread_id(), wh_grid_threads());
}

WH_KERNEL(stats_kernel, ops_args, a) {
    WH_OF_(stats)(a.heap, wh_thread_id(), wh_grid_threads(), (wh_stats *)a.out);
}

WH_KERNEL(check_kernel, ops_args, a) {
    WH_OF_(check)(a.heap, wh_thread_id(), wh_grid_threads(), (wh_report *)a.out);
}

WH_KERNEL(walk_kernel, ops_args, a) {
    WH_OF_(walk)(a.heap, wh_thread_id(), wh_grid_threads(), (wh_walk_sink *)a.out);
}

/* What a result holds before a kernel adds to it. Written by a kernel, since a kernel's arguments
 * can be captured into a graph. */
typedef struct {
    void *out;
    uint32_t n;
    uint64_t words[sizeof(wh_stats) / 8]; /* the largest result */
} start_args;

WH_KERNEL(start_kernel, start_args, a) {
    for (uint64_t i = wh_thread_id(); i < a.n; i += wh_grid_threads()) {
        ((uint64_t *)a.out)[i] = a.words[i];
    }
}

/* On the stream of l, by one warp. */
static wh_status start(const wh_launch *l, void *out, const void *from, size_t bytes) {
    wh_launch one = *l;
    one.blocks = 1;
    one.threads = 32;
    start_args a;
    a.out = out;
    a.n = (uint32_t)(bytes / 8);
    memcpy(a.words, from, bytes);
    return start_kernel(&one, &a);
}

static wh_status plan(void *handle, wh_plan *p, unsigned char *memory, uint64_t bytes,
                      const void *options, uint32_t n_sms) {
    wh_heap_ref h;
    memset(&h, 0, sizeof h);
    const wh_status s = WH_OF_(plan)(&h, p, memory, bytes, options, n_sms);
    memcpy(handle, &h, sizeof h);
    return s;
}

static ops_args make_args(const void *handle, void *out) {
    ops_args a;
    memcpy(&a.heap, handle, sizeof a.heap);
    a.out = out;
    return a;
}

static wh_status init(const wh_launch *l, const void *handle) {
    const ops_args a = make_args(handle, NULL);
    return init_kernel(l, &a);
}

static wh_status stats(const wh_launch *l, const void *handle, wh_stats *out,
                       const wh_stats *from) {
    const wh_status s = start(l, out, from, sizeof *from);
    const ops_args a = make_args(handle, out);
    return s == WH_OK ? stats_kernel(l, &a) : s;
}

static wh_status check(const wh_launch *l, const void *handle, wh_report *out) {
    const wh_report sound = {0, 0, 0};
    const wh_status s = start(l, out, &sound, sizeof sound);
    const ops_args a = make_args(handle, out);
    return s == WH_OK ? check_kernel(l, &a) : s;
}

static wh_status walk(const wh_launch *l, const void *handle, void *room, uint64_t capacity) {
    const wh_walk_sink empty = {
        capacity, 0, (struct wh_walk_entry *)(void *)((unsigned char *)room + sizeof empty)};
    const wh_status s = start(l, room, &empty, sizeof empty);
    const ops_args a = make_args(handle, room);
    return s == WH_OK ? walk_kernel(l, &a) : s;
}

#ifdef WH_ALLOC_GROWS
typedef struct {
    wh_heap_ref heap, old;
} grow_args;

WH_KERNEL(grow_kernel, grow_args, a) {
    WH_OF_(grow)(a.heap, a.old, wh_thread_id(), wh_grid_threads());
}

static wh_status grow_plan(void *handle, const void *old, wh_plan *p, unsigned char *memory,
                           uint64_t bytes, const void *options) {
    grow_args a;
    memset(&a, 0, sizeof a);
    memcpy(&a.old, old, sizeof a.old);
    const wh_status s = WH_OF_(grow_plan)(&a.heap, a.old, p, memory, bytes, options);
    memcpy(handle, &a.heap, sizeof a.heap);
    return s;
}

static wh_status grow(const wh_launch *l, const void *handle, const void *old) {
    grow_args a;
    memcpy(&a.heap, handle, sizeof a.heap);
    memcpy(&a.old, old, sizeof a.old);
    return grow_kernel(l, &a);
}
#else
#define grow_plan NULL
#define grow NULL
#endif

#ifdef WH_ALLOC_RESERVES
typedef struct {
    wh_heap_ref heap;
    wh_reserve_step step;
} reserve_args;

WH_KERNEL(reserve_kernel, reserve_args, a) {
    WH_OF_(reserve_step)(a.heap, &a.step, wh_thread_id(), wh_grid_threads());
}

static wh_status reserve_plan(void *handle, wh_reserve_plan *r, unsigned char *memory,
                              uint64_t bytes, const void *options, uint32_t n_sms) {
    wh_heap_ref h;
    memset(&h, 0, sizeof h);
    const wh_status s = WH_OF_(reserve_plan)(&h, r, memory, bytes, options, n_sms);
    memcpy(handle, &h, sizeof h);
    return s;
}

static wh_status reserve_step(const wh_launch *l, const void *handle, const wh_reserve_step *step) {
    reserve_args a;
    memcpy(&a.heap, handle, sizeof a.heap);
    a.step = *step;
    return reserve_kernel(l, &a);
}
#else
#define reserve_plan NULL
#define reserve_step NULL
#endif

#ifdef WH_ALLOC_SAVES
static void image_of(const void *handle, wh_image_shape *s) {
    const ops_args a = make_args(handle, NULL);
    WH_OF_(image_of)(a.heap, s);
}

static wh_status image_plan(void *handle, wh_plan *p, const wh_image_shape *shape,
                            unsigned char *memory, uint64_t bytes, uint32_t n_sms) {
    wh_heap_ref h;
    memset(&h, 0, sizeof h);
    const wh_status s = WH_OF_(image_plan)(&h, p, shape, memory, bytes, n_sms);
    memcpy(handle, &h, sizeof h);
    return s;
}

WH_KERNEL(live_kernel, ops_args, a) {
    WH_OF_(live)(a.heap, (uint64_t *)a.out, wh_thread_id(), wh_grid_threads());
}

static wh_status live(const wh_launch *l, const void *handle, uint64_t *bits) {
    const ops_args a = make_args(handle, bits);
    return live_kernel(l, &a);
}

WH_KERNEL(adopt_kernel, ops_args, a) {
    WH_OF_(adopt)(a.heap, wh_thread_id());
}

static wh_status adopt(const wh_launch *l, const void *handle) {
    const ops_args a = make_args(handle, NULL);
    return adopt_kernel(l, &a);
}
#else
#define image_of NULL
#define image_plan NULL
#define live NULL
#define adopt NULL
#endif

#ifdef WH_ALLOC_GAUGES
static int gauge(const void *handle, const wh_gauge_lens *lens, wh_gauge_sample *s) {
    const ops_args a = make_args(handle, NULL);
    return WH_OF_(gauge)(a.heap, lens, s);
}
#else
#define gauge NULL
#endif

#ifdef WH_ALLOC_RECORDS
static void set_watch(void *handle, wh_watch *watch) {
    ops_args a = make_args(handle, NULL);
    WH_OF_(set_watch)(&a.heap, watch);
    memcpy(handle, &a.heap, sizeof a.heap);
}

typedef struct {
    wh_heap_ref heap;
    uint64_t *found;
    uint64_t with_leaks;
} blocks_args;

WH_KERNEL(blocks_kernel, blocks_args, a) {
    WH_OF_(check_blocks)
    (a.heap, a.with_leaks != 0, wh_thread_id(), wh_grid_threads(), a.found);
}

static wh_status check_blocks(const wh_launch *l, const void *handle, uint64_t *found,
                              uint64_t with_leaks) {
    const uint64_t none = 0;
    const wh_status s = start(l, found, &none, sizeof none);
    blocks_args a;
    memcpy(&a.heap, handle, sizeof a.heap);
    a.found = found;
    a.with_leaks = with_leaks;
    return s == WH_OK ? blocks_kernel(l, &a) : s;
}
#define watch_bytes WH_OF_(watch_bytes)
#else
#define watch_bytes NULL
#define set_watch NULL
#define check_blocks NULL
#endif

#ifdef WH_ALLOC_SNAPSHOTS
typedef struct {
    wh_heap_ref heap;
    wh_snapshot_window window;
} snapshot_args;

WH_KERNEL(snapshot_kernel, snapshot_args, a) {
    WH_OF_(snapshot)(a.heap, &a.window, wh_thread_id(), wh_grid_threads());
}

static wh_status snapshot(const wh_launch *l, const void *handle, const wh_snapshot_window *w) {
    snapshot_args a;
    memcpy(&a.heap, handle, sizeof a.heap);
    a.window = *w;
    return snapshot_kernel(l, &a);
}

typedef struct {
    const uint64_t *sites;
    wh_record_site *texts;
    uint64_t n;
} sites_args;

WH_KERNEL(sites_kernel, sites_args, a) {
    for (uint64_t i = wh_thread_id(); i < a.n; i += wh_grid_threads()) {
        wh_record_put_site_(&a.texts[i], a.sites[i]);
    }
}

static wh_status read_sites(const wh_launch *l, const uint64_t *sites, wh_record_site *texts,
                            uint64_t n) {
    sites_args a;
    a.sites = sites;
    a.texts = texts;
    a.n = n;
    return sites_kernel(l, &a);
}
#else
#define snapshot NULL
#define read_sites NULL
#endif

#ifdef WH_ALLOC_COMPACTS
/* Blocks each of which does one queue after the other, and their threads. */
#define COMPACT_BLOCKS 32u
#define COMPACT_THREADS (WH_TARGET_IS_SIM ? 64u : 1024u)

WH_KERNEL(compact_queues_kernel, ops_args, a) {
    WH_OF_(compact_queues)(a.heap, (wh_compaction *)a.out);
}

WH_KERNEL(compact_chunks_kernel, ops_args, a) {
    WH_OF_(compact_chunks)
    (a.heap, wh_thread_id(), wh_grid_threads(), (wh_compaction *)a.out);
}

static wh_status compact(const wh_launch *items, const void *handle, wh_compaction *out) {
    const wh_compaction nothing = {0, 0, 0, 0};
    const ops_args a = make_args(handle, out);
    wh_launch l = *items;
    l.blocks = COMPACT_BLOCKS;
    l.threads = COMPACT_THREADS;
    wh_status s = start(items, out, &nothing, sizeof nothing);
    s = s == WH_OK ? compact_queues_kernel(&l, &a) : s;
    return s == WH_OK ? compact_chunks_kernel(items, &a) : s;
}
#else
#define compact NULL
#endif

WH_KERNEL(left_kernel, ops_args, a) {
    wh_left_query *q = (wh_left_query *)a.out;
    const uint64_t mine = WH_OF_(left)(a.heap, q->bytes, wh_thread_id(), wh_grid_threads());
    if (mine != 0) {
        wh_add_u64_relaxed(&q->blocks, mine);
    }
}

static wh_status left(const wh_launch *l, const void *handle, wh_left_query *q,
                      const wh_left_query *question) {
    const wh_status s = start(l, q, question, sizeof *question);
    const ops_args a = make_args(handle, q);
    return s == WH_OK ? left_kernel(l, &a) : s;
}

static uint64_t layout(void) {
    return WH_OF_(layout)();
}

WH_TABLE(whi_alloc_ops) = {
    /* clang-format off */
    WH_OF_(NAME), (uint32_t)sizeof(wh_heap_ref), plan, init, stats, check, walk, grow_plan, grow,
    reserve_plan, reserve_step, image_of, image_plan, live, adopt, left, gauge,
    watch_bytes, set_watch, check_blocks, snapshot, read_sites, compact, layout,
    /* clang-format on */
};
