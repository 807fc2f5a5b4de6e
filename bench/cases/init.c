/* init.c: the case init: what it takes to create a heap, and to reset one. */
#include <stdlib.h>
#include <string.h>

#include "bench/driver/internal.h"

/* Creation in memory of the heap's own (allocation included) or of the caller's; the
 * host's clock, since creation is a host call. */
static wh_status time_create(whi_bench *b, uint64_t bytes, void *memory, whi_bench_series *series) {
    wh_heap_options options = whi_bench_heap_options(b, b->alloc, bytes);
    options.memory = memory;
    whi_bench_close_heap(b);
    WHI_BENCH_TRY(whi_bench_check(b, wh_device_sync(b->device), "creation"));
    const double start = whi_bench_wall_seconds();
    wh_status s = wh_heap_create(&b->heap, &options);
    if (s == WH_OK) {
        s = wh_device_sync(b->device);
    }
    whi_bench_add_sample(series, (whi_bench_wall_seconds() - start) * 1e6);
    return whi_bench_check(b, s, "creation");
}

static wh_status time_reset(whi_bench *b, whi_bench_series *series) {
    whi_bench_watch watch;
    double us = 0;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, wh_heap_reset_async(b->heap, NULL), "reset"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    whi_bench_add_sample(series, us);
    return WH_OK;
}

/* What of the heap blocks cannot have, where the allocator tells. */
static wh_status add_metadata(whi_bench *b, whi_bench_row *row) {
    if (!whi_bench_can(b, WH_CAP_STATS)) {
        return WH_OK;
    }
    wh_stats *stats = calloc(1, sizeof *stats);
    if (stats == NULL) {
        return whi_bench_fail(b, WH_OUT_OF_MEMORY, "statistics");
    }
    const wh_status s = wh_heap_get_stats(b->heap, stats);
    if (s == WH_OK && stats->heap_bytes != 0) {
        whi_bench_add_value(row, "metadata_bytes", (double)stats->metadata_bytes, 0);
        whi_bench_add_value(row, "metadata_share",
                            (double)stats->metadata_bytes / (double)stats->heap_bytes, 5);
    }
    free(stats);
    return whi_bench_check(b, s, "statistics");
}

static wh_status creates(whi_bench *b, uint64_t bytes, void *memory, const char *op) {
    whi_bench_row row = {.phase = "cold", .op = op, .size = bytes, .ops = 1};
    whi_bench_series series;
    memset(&series, 0, sizeof series);
    while (series.n < b->reps) {
        WHI_BENCH_TRY(time_create(b, bytes, memory, &series));
    }
    if (memory == NULL) {
        WHI_BENCH_TRY(add_metadata(b, &row));
    }
    return whi_bench_emit(b, &row, &series);
}

static wh_status resets(whi_bench *b, uint64_t bytes) {
    const whi_bench_row row = {.phase = "warm", .op = "reset", .size = bytes, .ops = 1};
    whi_bench_series series;
    memset(&series, 0, sizeof series);
    while (series.n < b->reps) {
        WHI_BENCH_TRY(time_reset(b, &series));
    }
    return whi_bench_emit(b, &row, &series);
}

/* memory: for the heaps of an allocator that can live in the caller's. */
static wh_status run(whi_bench *b, uint64_t bytes, void **memory) {
    WHI_BENCH_TRY(creates(b, bytes, NULL, "create"));
    if (whi_bench_can(b, WH_CAP_OWN_MEMORY)) {
        whi_bench_close_heap(b);
        WHI_BENCH_TRY(whi_bench_check(b, wh_device_alloc(b->device, memory, bytes), "memory"));
        WHI_BENCH_TRY(creates(b, bytes, *memory, "create-in"));
    }
    return whi_bench_can(b, WH_CAP_RESET) ? resets(b, bytes) : WH_OK;
}

wh_status whi_bench_case_init(whi_bench *b) {
    const uint64_t bytes = whi_bench_heap_bytes(b);
    void *memory = NULL;
    whi_bench_progress(b, bytes, 0);
    const wh_status s = run(b, bytes, &memory);
    whi_bench_close_heap(b);
    (void)wh_device_free(b->device, memory);
    return s;
}
