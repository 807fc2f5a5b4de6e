/* case_lists.c: the generic tests of Vinkler and Havran (CGF 2015, sections 6 to 8, Table 2):
 * Alloc Dealloc, Alloc Cycle Dealloc, Probability; and internal and external fragmentation
 * by their equations 2 and 3. One lane of each warp allocates, as in the paper.
 * docs/papers/lists.md describes rows and departures. */
#include <string.h>

#include "bench/driver/internal.h"
#include "bench/kernels/paper_kernels.h"

typedef struct settings { /* Table 2, and less of it for the simulated device */
    uint64_t heap, heaps[4];
    uint64_t payloads[7], iterations[4], blocks[4], max_warps;
} settings;

static const settings on_gpu = {
    (uint64_t)2 << 30,
    {(uint64_t)128 << 10, (uint64_t)8 << 20, (uint64_t)256 << 20, (uint64_t)2 << 30},
    {4, 64, 512, 4096, 16384, 131072, 0},
    {10, 40, 100, 0},
    {1, 30, 120, 0},
    960};
static const settings on_sim = {(uint64_t)64 << 20,
                                {(uint64_t)128 << 10, (uint64_t)8 << 20, 0, 0},
                                {4, 512, 16384, 0, 0, 0, 0},
                                {10, 40, 0, 0},
                                {1, 12, 0, 0},
                                96};

typedef struct lists {
    whi_bench *b;
    const settings *with;
    const wh_paper_kernels *kernels;
    wh_paper_call call;
} lists;

/* The user's heap, or that of Table 2. */
static uint64_t heap_of(const lists *l) {
    return whi_bench_case_heap(l->b, l->with->heap);
}

static wh_status open_heap(lists *l, uint64_t bytes) {
    whi_bench *b = l->b;
    const wh_status s = whi_bench_open_heap(b, bytes);
    l->call.handle = b->call.handle;
    return s;
}

static wh_status copied(whi_bench *b, wh_status s) {
    return s == WH_OK ? s : whi_bench_fail(b, s, "copy of counts");
}

static wh_status clear_counts(lists *l) {
    wh_paper_counts none;
    memset(&none, 0, sizeof none);
    return copied(l->b, wh_device_copy_in(l->b->device, l->call.counts, &none, sizeof none));
}

static wh_status add_counts(lists *l, wh_paper_counts *c) {
    const wh_status s =
        copied(l->b, wh_device_copy_out(l->b->device, c, l->call.counts, sizeof *c));
    if (s == WH_OK) {
        l->b->malloc_series.failed += c->failed;
        l->b->malloc_series.bad += c->bad;
    }
    return s;
}

/* One launch with a warp for each of l->call.warps, timed if `timed`. */
static wh_status launch(lists *l, wh_paper_launcher launcher, int timed) {
    whi_bench *b = l->b;
    const uint32_t threads = (uint32_t)l->call.warps * 32;
    const wh_launch shape = {b->device, (threads + 255) / 256, threads < 256 ? threads : 256, NULL};
    wh_device_counters before, after;
    double us = 0;
    wh_status s = wh_device_get_counters(b->device, &before);
    s = s == WH_OK ? wh_device_timer_begin(b->device) : s;
    s = s == WH_OK ? launcher(&shape, &l->call) : s;
    s = s == WH_OK ? wh_device_timer_end(b->device, &us) : s;
    s = s == WH_OK ? wh_device_get_counters(b->device, &after) : s;
    if (s != WH_OK) {
        return whi_bench_fail(b, s, "kernel with '%s'", b->alloc->name);
    }
    if (timed) {
        b->malloc_series.us[b->malloc_series.n++] = us;
        b->malloc_series.steps += after.steps - before.steps;
        b->malloc_series.atomics += after.atomics - before.atomics;
    }
    return WH_OK;
}

static wh_status emit(lists *l, const char *op, uint64_t size, uint64_t ops, const char *value_name,
                      double value) {
    whi_bench_row row;
    memset(&row, 0, sizeof row);
    row.case_name = "lists";
    row.phase = whi_bench_can(l->b, WH_CAP_FREE) ? "warm" : "cold";
    row.op = op;
    row.size = size;
    row.threads = l->call.warps;
    row.ops = ops;
    row.value_name = value_name;
    row.value = value;
    return whi_bench_emit(l->b, &row, &l->b->malloc_series);
}

/* AD (one iteration) and ACD. What cannot free starts each repetition anew. */
static wh_status cycle(lists *l, const char *op, uint64_t heap, uint64_t size, uint64_t iterations,
                       const char *value_name, double value) {
    whi_bench *b = l->b;
    wh_paper_counts c;
    const whi_bench_part part = {
        .op = op, .size = size, .threads = l->call.warps, .value = {value_name, value, 0}};
    if (size > b->alloc->max_size || whi_bench_leave_out(b, part)) {
        return WH_OK;
    }
    whi_bench_progress(b, op, size, l->call.warps);
    memset(&b->malloc_series, 0, sizeof b->malloc_series);
    l->call.size = size;
    l->call.iterations = (uint32_t)iterations;
    wh_status s = open_heap(l, heap);
    s = s == WH_OK ? whi_bench_need_ptrs(b, l->call.warps * iterations) : s;
    l->call.ptrs = b->call.ptrs;
    s = s == WH_OK ? clear_counts(l) : s;
    s = s == WH_OK && whi_bench_can(b, WH_CAP_RESET) ? whi_bench_reset_heap(b) : s;
    s = s == WH_OK && !b->on_sim ? launch(l, l->kernels->cycle, 0) : s;
    const double start = whi_bench_wall_seconds();
    for (uint32_t i = 0; s == WH_OK && i < b->reps; i++) {
        if (!whi_bench_can(b, WH_CAP_FREE) && whi_bench_can(b, WH_CAP_RESET)) {
            s = whi_bench_reset_heap(b);
        }
        s = s == WH_OK ? launch(l, l->kernels->cycle, 1) : s;
        if (whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
    }
    s = s == WH_OK ? add_counts(l, &c) : s;
    return s == WH_OK ? emit(l, op, size, l->call.warps * iterations, value_name, value) : s;
}

/* P: ten launches, whose times add up to one sample. */
static wh_status probability(lists *l, uint64_t size) {
    whi_bench *b = l->b;
    wh_paper_counts c;
    memset(&c, 0, sizeof c);
    const whi_bench_part part = {.op = "P", .size = size, .threads = l->call.warps};
    if (size > b->alloc->max_size || whi_bench_leave_out(b, part)) {
        return WH_OK;
    }
    whi_bench_progress(b, "P", size, l->call.warps);
    memset(&b->malloc_series, 0, sizeof b->malloc_series);
    l->call.size = size;
    wh_status s = open_heap(l, heap_of(l));
    s = s == WH_OK ? whi_bench_need_ptrs(b, l->call.warps) : s;
    l->call.ptrs = b->call.ptrs;
    double total[WH_BENCH_MAX_REPS];
    for (uint32_t rep = 0; s == WH_OK && rep < b->reps; rep++) {
        s = whi_bench_can(b, WH_CAP_RESET) ? whi_bench_reset_heap(b) : s;
        s = s == WH_OK ? copied(b, wh_device_set(b->device, l->call.ptrs, 0,
                                                 l->call.warps * sizeof(void *)))
                       : s;
        s = s == WH_OK ? clear_counts(l) : s;
        total[rep] = 0;
        for (uint32_t i = 0; s == WH_OK && i < 10; i++) {
            b->malloc_series.n = 0;
            l->call.seed = b->seed + (uint64_t)i * 1000003;
            s = launch(l, l->kernels->probability, 1);
            total[rep] += b->malloc_series.us[0];
        }
        s = s == WH_OK ? add_counts(l, &c) : s;
        if (s == WH_OK && !whi_bench_can(b, WH_CAP_RESET)) {
            b->call.n = l->call.warps;
            s = whi_bench_launch(b, b->kernels->free_all, l->call.warps);
        }
    }
    if (s != WH_OK) {
        return s;
    }
    memcpy(b->malloc_series.us, total, b->reps * sizeof *total);
    b->malloc_series.n = b->reps;
    return emit(l, "P", size, c.mallocs + c.releases, "mallocs", (double)c.mallocs);
}

/* --- fragmentation ------------------------------------------------------------------------- */

/* Equation 3 over what the statistics tell: free memory is what blocks do not use, the
 * largest region the largest block that malloc could return. NaN: not known. */
static double external(const wh_stats *s) {
    const double all = (double)(s->heap_bytes - s->metadata_bytes - s->used_bytes);
    return all > 0 ? 1 - (double)s->largest_free / all : 0;
}

static wh_status fragmentation_row(lists *l, const char *op, uint64_t size, double value,
                                   const wh_bench_counts *seen) {
    whi_bench_row row;
    whi_bench_result result;
    memset(&row, 0, sizeof row);
    memset(&result, 0, sizeof result);
    row.case_name = "fragments";
    row.phase = "cold";
    row.op = op;
    row.size = size;
    row.threads = l->call.warps;
    row.ops = l->call.warps;
    row.value_name = op;
    row.value = value;
    result.reps = 1;
    result.failed = seen != NULL ? seen->failed : 0;
    result.bad = seen != NULL ? seen->bad : 0;
    return whi_bench_emit_result(l->b, &row, &result);
}

static wh_status stats_of(whi_bench *b, wh_stats *stats) {
    const wh_status s = wh_heap_get_stats(b->heap, stats);
    return s == WH_OK ? s : whi_bench_fail(b, s, "statistics of '%s'", b->alloc->name);
}

static wh_status fragmentation(lists *l, uint64_t size) {
    whi_bench *b = l->b;
    wh_paper_counts c;
    wh_bench_counts seen;
    wh_stats stats;
    const whi_bench_part part = {.size = size, .threads = l->call.warps};
    if (size > b->alloc->max_size || whi_bench_leave_out(b, part)) {
        return WH_OK;
    }
    wh_status s = open_heap(l, heap_of(l));
    s = s == WH_OK ? whi_bench_reset_heap(b) : s;
    s = s == WH_OK ? whi_bench_need_ptrs(b, l->call.warps) : s;
    b->call.n = l->call.warps;
    b->call.lo = b->call.hi = size;
    l->call.ptrs = b->call.ptrs;
    l->call.n = l->call.warps;
    l->call.size = size;
    s = s == WH_OK ? clear_counts(l) : s;
    s = s == WH_OK ? whi_bench_launch(b, b->kernels->malloc_warp, l->call.warps * 32) : s;
    s = s == WH_OK ? whi_bench_verify(b, WHI_BENCH_PLACES, &seen) : s;
    if (s == WH_OK && whi_bench_can(b, WH_CAP_USABLE_SIZE)) {
        s = launch(l, l->kernels->usable, 0);
        s = s == WH_OK ? add_counts(l, &c) : s;
        if (s == WH_OK && c.blocks != 0) {
            s = fragmentation_row(l, "internal", size,
                                  (double)c.waste / 4294967296.0 / (double)c.blocks, &seen);
        }
    } else if (s == WH_OK && whi_bench_can(b, WH_CAP_STATS)) { /* blocks of one size: the mean */
        s = stats_of(b, &stats);
        if (s == WH_OK && stats.used_bytes != 0 && seen.served != 0) {
            const double each = (double)stats.used_bytes / (double)seen.served;
            s = fragmentation_row(l, "internal", size, (each - (double)size) / each, &seen);
        }
    }
    if (s == WH_OK && whi_bench_can(b, WH_CAP_STATS)) {
        s = stats_of(b, &stats);
        s = s == WH_OK ? fragmentation_row(l, "external", size, external(&stats), NULL) : s;
        if (s == WH_OK && whi_bench_can(b, WH_CAP_FREE) && seen.bad == 0) {
            s = whi_bench_launch(b, b->kernels->free_warp, l->call.warps * 32);
            s = s == WH_OK ? stats_of(b, &stats) : s;
            s = s == WH_OK ? fragmentation_row(l, "external-end", size, external(&stats), NULL) : s;
        }
    }
    return s;
}

/* --- the cases ----------------------------------------------------------------------------------
 */

static wh_status begin(whi_bench *b, lists *l) {
    void *counts = NULL;
    memset(l, 0, sizeof *l);
    l->b = b;
    l->with = b->on_sim ? &on_sim : &on_gpu;
    l->kernels = wh_paper_kernels_find(b->alloc->name, b->info->target);
    l->call.warps = l->with->max_warps;
    l->call.stamp = whi_bench_can(b, WH_CAP_DISJOINT);
    const wh_status s = wh_device_alloc(b->device, &counts, sizeof *l->call.counts);
    l->call.counts = counts;
    return s == WH_OK ? s : whi_bench_fail(b, s, "counts");
}

static void end(lists *l) {
    whi_bench_close_heap(l->b);
    (void)wh_device_free(l->b->device, l->call.counts);
}

wh_status whi_bench_case_lists(whi_bench *b) {
    lists l;
    if ((b->alloc->caps & WH_CAP_OWN_MEMORY) == 0) {
        return WH_OK; /* its heap has another size */
    }
    wh_status s = begin(b, &l);
    const settings *w = l.with;
    for (size_t i = 0; s == WH_OK && w->payloads[i] != 0; i++) {
        s = cycle(&l, "AD", heap_of(&l), w->payloads[i], 1, NULL, 0);
    }
    for (size_t i = 0; s == WH_OK && w->payloads[i] != 0; i++) {
        s = cycle(&l, "ACD", heap_of(&l), w->payloads[i], 10, NULL, 0);
    }
    for (size_t i = 0; s == WH_OK && i < 4 && w->heaps[i] != 0; i++) {
        uint64_t least = 0;
        const wh_heap_options o = whi_bench_heap_options(b, b->alloc, 0);
        (void)wh_heap_min_bytes(&o, &least);
        if (least <= w->heaps[i]) {
            s = cycle(&l, "ACD-heap", w->heaps[i], 4, 10, "heap_bytes", (double)w->heaps[i]);
        }
    }
    for (size_t i = 0; s == WH_OK && w->iterations[i] != 0; i++) {
        s = cycle(&l, "ACD-iterations", heap_of(&l), 4, w->iterations[i], "iterations",
                  (double)w->iterations[i]);
    }
    for (size_t i = 0; s == WH_OK && w->blocks[i] != 0; i++) {
        l.call.warps = w->blocks[i] * 8;
        s = probability(&l, 4);
    }
    end(&l);
    return s;
}

wh_status whi_bench_case_fragments(whi_bench *b) {
    lists l;
    if ((b->alloc->caps & (WH_CAP_OWN_MEMORY | WH_CAP_RESET)) !=
        (WH_CAP_OWN_MEMORY | WH_CAP_RESET)) {
        return WH_OK;
    }
    wh_status s = begin(b, &l);
    for (size_t i = 0; s == WH_OK && l.with->payloads[i] != 0; i++) {
        whi_bench_progress(b, "fragments", l.with->payloads[i], l.call.warps);
        s = fragmentation(&l, l.with->payloads[i]);
    }
    end(&l);
    return s;
}
