/* measure.c: heaps, pointer arrays, timed launches, floors, data checks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/driver/internal.h"
#include "bench/driver/runtime_heap.h"

#define BLOCK_THREADS (uint32_t) WH_BENCH_BLOCK_THREADS

int whi_bench_can(const whi_bench *b, uint32_t caps) {
    return (b->alloc->caps & caps) == caps;
}

const char *whi_bench_phase(const whi_bench *b) {
    return whi_bench_can(b, WH_CAP_RESET) ? "cold" : "warm";
}

/* --- what to run ------------------------------------------------------------------------ */

whi_bench_list whi_bench_sizes(const whi_bench *b, const uint64_t *own) {
    whi_bench_list l = {b->options->sizes, b->options->n_sizes};
    if (l.n == 0) {
        l.v = own;
        while (own[l.n] != 0) {
            l.n++;
        }
    }
    return l;
}

whi_bench_list whi_bench_threads(const whi_bench *b, const uint64_t *own) {
    whi_bench_list l = {b->options->threads, b->options->n_threads};
    if (l.n == 0) {
        l.v = own;
        l.n = 1;
    }
    return l;
}

uint64_t whi_bench_least(uint64_t size) {
    return size < 16 ? 1 : 16;
}

uint32_t whi_bench_reps(const whi_bench *b, int anew) {
    return b->on_sim && anew && b->options->reps == 0 ? 1 : b->reps;
}

uint64_t whi_bench_heap_bytes(const whi_bench *b) {
    return whi_bench_case_heap(b, b->defaults->heap_bytes);
}

uint64_t whi_bench_least_heap(const whi_bench *b) {
    const wh_heap_options options = whi_bench_heap_options(b, b->alloc, 0);
    uint64_t least = 0;
    return wh_heap_min_bytes(&options, &least) == WH_OK ? least : 0;
}

wh_heap_options whi_bench_heap_options(const whi_bench *b, const wh_allocator_info *alloc,
                                       uint64_t bytes) {
    wh_heap_options o;
    memset(&o, 0, sizeof o);
    o.bytes = bytes;
    o.allocator = alloc->name;
    o.device = b->device;
    for (size_t i = 0; i < b->options->n_options; i++) {
        if (strcmp(b->options->options[i].head.family, alloc->family) == 0) {
            o.options = &b->options->options[i].head;
        }
    }
    return o;
}

uint64_t whi_bench_case_heap(const whi_bench *b, uint64_t own) {
    if (!whi_bench_can(b, WH_CAP_OWN_MEMORY)) {
        return whi_bench_runtime_heap();
    }
    if (b->options->heap_bytes != 0) {
        return b->options->heap_bytes;
    }
    const uint64_t least = whi_bench_least_heap(b);
    return least > own ? least : own;
}

uint64_t whi_bench_fitting(const whi_bench *b, uint64_t n, uint64_t bytes_each) {
    const uint64_t most = (uint64_t)(WHI_BENCH_FILL * (double)b->heap_bytes / (double)bytes_each);
    return n < most ? n : most;
}

/* --- heaps and arrays ----------------------------------------------------------------- */

void whi_bench_close_heap(whi_bench *b) {
    wh_heap_destroy(b->heap);
    b->heap = NULL;
}

wh_status whi_bench_open_heap(whi_bench *b, uint64_t bytes) {
    if (b->heap != NULL && b->heap_bytes == bytes) {
        return WH_OK;
    }
    whi_bench_close_heap(b);
    const wh_heap_options options = whi_bench_heap_options(b, b->alloc, bytes);
    wh_status s = wh_heap_create(&b->heap, &options);
    if (s == WH_OK) {
        s = b->kernels->bind(b->heap, &b->handle);
    }
    b->heap_bytes = bytes;
    char text[32];
    return s == WH_OK
               ? s
               : whi_bench_fail(b, s, "heap of %s for '%s'",
                                whi_bench_bytes_text(bytes, text, sizeof text), b->alloc->name);
}

wh_status whi_bench_new_heap(whi_bench_plan *p) {
    whi_bench *b = p->b;
    const uint64_t bytes = b->heap_bytes;
    whi_bench_close_heap(b);
    WHI_BENCH_TRY(whi_bench_open_heap(b, bytes));
    p->call.handle = b->handle;
    return WH_OK;
}

wh_status whi_bench_reset_heap(whi_bench *b) {
    return whi_bench_check(b, wh_heap_reset(b->heap), "reset");
}

wh_status whi_bench_fresh_heap(whi_bench *b) {
    return whi_bench_can(b, WH_CAP_RESET) ? whi_bench_reset_heap(b) : WH_OK;
}

wh_status whi_bench_compact(whi_bench *b, whi_bench_compactions *sum) {
    wh_compaction done;
    if (!b->options->compact || !whi_bench_can(b, WH_CAP_COMPACT)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_bench_check(b, wh_device_sync(b->device), "a kernel"));
    const double start = whi_bench_wall_seconds();
    WHI_BENCH_TRY(whi_bench_check(b, wh_heap_compact(b->heap, &done), "compact"));
    sum->us += (whi_bench_wall_seconds() - start) * 1e6;
    sum->bytes += done.bytes;
    sum->n++;
    return WH_OK;
}

void whi_bench_add_compactions(whi_bench_row *row, const whi_bench_compactions *sum) {
    if (sum->n != 0) {
        whi_bench_add_value(row, "us_compaction", sum->us / sum->n, 3);
        whi_bench_add_value(row, "compacted", (double)sum->bytes / sum->n, 0);
    }
}

wh_status whi_bench_need(whi_bench *b, void **array, uint64_t *room, uint64_t n, uint64_t bytes) {
    if (n <= *room) {
        return WH_OK;
    }
    wh_status s = wh_device_free(b->device, *array);
    *array = NULL;
    *room = 0;
    if (s == WH_OK) {
        s = wh_device_alloc(b->device, array, n * bytes);
    }
    if (s != WH_OK) {
        return whi_bench_fail(b, s, "device array of %llu entries", (unsigned long long)n);
    }
    *room = n;
    return WH_OK;
}

wh_status whi_bench_need_ptrs(whi_bench *b, uint64_t n) {
    void *array = b->arrays.ptrs;
    const wh_status s = whi_bench_need(b, &array, &b->arrays.ptrs_room, n, sizeof(void *));
    b->arrays.ptrs = array;
    return s;
}

wh_status whi_bench_need_born(whi_bench *b, uint64_t n) {
    void *array = b->arrays.born;
    const wh_status s = whi_bench_need(b, &array, &b->arrays.born_room, n, sizeof(uint32_t));
    b->arrays.born = array;
    return s;
}

/* --- plans and rows ----------------------------------------------------------------------- */

void whi_bench_aim(whi_bench_plan *p, whi_bench_blocks blocks) {
    const whi_bench *b = p->b;
    memset(&p->call, 0, sizeof p->call);
    p->call.handle = b->handle;
    p->call.use_owns = whi_bench_can(b, WH_CAP_OWNS);
    p->call.counts = b->arrays.counts;
    p->call.ptrs = b->arrays.ptrs;
    p->call.born = b->arrays.born;
    p->call.seed = b->seed;
    p->call.lanes = 1;
    p->call.n = blocks.n;
    p->call.lo = blocks.lo;
    p->call.hi = blocks.hi;
}

wh_status whi_bench_begin(whi_bench *b, whi_bench_plan *p, uint64_t heap_bytes,
                          whi_bench_blocks blocks) {
    memset(p, 0, sizeof *p);
    p->b = b;
    WHI_BENCH_TRY(whi_bench_open_heap(b, heap_bytes));
    WHI_BENCH_TRY(whi_bench_need_ptrs(b, blocks.n));
    whi_bench_aim(p, blocks);
    return WH_OK;
}

whi_bench_row whi_bench_row_of(const whi_bench_plan *p, const char *phase, const char *op) {
    const wh_bench_call *c = &p->call;
    return (whi_bench_row){.phase = phase,
                           .op = op,
                           .size_min = c->lo != c->hi ? c->lo : 0,
                           .size = c->hi,
                           .threads = c->n,
                           .ops = c->n};
}

void whi_bench_add_value(whi_bench_row *row, const char *name, double value, int decimals) {
    if (isfinite(value) && row->n_values < WHI_BENCH_MAX_VALUES) {
        row->values[row->n_values++] = (whi_bench_value){name, value, decimals};
    }
}

/* --- launches ---------------------------------------------------------------------------- */

wh_launch whi_bench_shape(whi_bench *b, uint64_t n) {
    return wh_grid(b->device, (uint32_t)((n + BLOCK_THREADS - 1) / BLOCK_THREADS),
                   n < BLOCK_THREADS ? (uint32_t)n : BLOCK_THREADS);
}

static wh_status launch_failed(whi_bench *b, wh_status s) {
    return s == WH_OK ? s : whi_bench_fail(b, s, "kernel with '%s'", b->alloc->name);
}

/* A GPU that goes on after a launch failed has refused it, for want of registers. */
static wh_status start(whi_bench_plan *p, wh_bench_launcher launcher, const wh_launch *l) {
    whi_bench *b = p->b;
    const wh_status s = launcher(l, &p->call);
    b->refused = s != WH_OK && !b->on_sim && wh_device_sync(b->device) == WH_OK;
    return launch_failed(b, s);
}

wh_status whi_bench_launch(whi_bench_plan *p, wh_bench_launcher launcher, uint64_t n) {
    const wh_launch l = whi_bench_shape(p->b, n);
    WHI_BENCH_TRY(start(p, launcher, &l));
    return launch_failed(p->b, wh_device_sync(p->b->device));
}

wh_status whi_bench_load(whi_bench_plan *p, wh_bench_launcher launcher) {
    const uint64_t n = p->call.n;
    p->call.n = 0;
    const wh_status s = p->b->on_sim ? WH_OK : whi_bench_launch(p, launcher, WHI_BENCH_WARP);
    p->call.n = n;
    return s;
}

wh_status whi_bench_watch_start(whi_bench *b, whi_bench_watch *watch) {
    WHI_BENCH_TRY(launch_failed(b, wh_device_get_counters(b->device, &watch->before)));
    return launch_failed(b, wh_device_timer_begin(b->device));
}

wh_status whi_bench_watch_stop(whi_bench *b, const whi_bench_watch *watch, whi_bench_series *series,
                               double *us) {
    wh_device_counters after;
    WHI_BENCH_TRY(launch_failed(b, wh_device_timer_end(b->device, us)));
    WHI_BENCH_TRY(launch_failed(b, wh_device_get_counters(b->device, &after)));
    series->steps += after.steps - watch->before.steps;
    series->atomics += after.atomics - watch->before.atomics;
    return WH_OK;
}

wh_status whi_bench_time(whi_bench_plan *p, wh_bench_launcher launcher, uint64_t n,
                         whi_bench_series *series) {
    whi_bench *b = p->b;
    const wh_launch l = whi_bench_shape(b, n);
    whi_bench_watch watch;
    double us = 0;
    if (series == NULL) {
        return whi_bench_launch(p, launcher, n);
    }
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(start(p, launcher, &l));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    whi_bench_add_sample(series, us);
    return WH_OK;
}

/* Loads the kernel of a floor and wakes the clocks of a GPU. */
static wh_status warm_up(whi_bench_plan *p, wh_bench_launcher launcher, uint64_t n) {
    whi_bench *b = p->b;
    const double start = whi_bench_wall_seconds();
    for (int i = 0; i < 3 || !b->awake; i++) {
        WHI_BENCH_TRY(whi_bench_launch(p, launcher, n));
        b->awake |= i >= 2 && whi_bench_wall_seconds() - start > WHI_BENCH_WAKE_SECONDS;
    }
    return WH_OK;
}

wh_status whi_bench_floor(whi_bench_plan *p, wh_bench_launcher launcher, uint64_t n, double *us) {
    whi_bench *b = p->b;
    whi_bench_turn *t = &b->turn;
    for (size_t i = 0; i < t->n_floors; i++) {
        if (t->floors[i].launcher == launcher && t->floors[i].n == n) {
            *us = t->floors[i].us;
            return WH_OK;
        }
    }
    whi_bench_series series;
    memset(&series, 0, sizeof series);
    uint32_t reps = b->reps;
    if (!b->on_sim) {
        reps = reps > 20 ? reps : 20;
        WHI_BENCH_TRY(warm_up(p, launcher, n));
    }
    while (series.n < reps) {
        WHI_BENCH_TRY(whi_bench_time(p, launcher, n, &series));
    }
    *us = whi_bench_median(series.us, series.n);
    if (t->n_floors < sizeof t->floors / sizeof *t->floors) {
        t->floors[t->n_floors].launcher = launcher;
        t->floors[t->n_floors].n = n;
        t->floors[t->n_floors].us = *us;
        t->n_floors++;
    }
    return WH_OK;
}

/* --- data checks ----------------------------------------------------------------------------- */

wh_status whi_bench_clear_counts(whi_bench *b) {
    wh_bench_counts none;
    memset(&none, 0, sizeof none);
    none.low = UINT64_MAX;
    const wh_status s = wh_device_copy_in(b->device, b->arrays.counts, &none, sizeof none);
    return s == WH_OK ? s : whi_bench_fail(b, s, "copy to the device");
}

wh_status whi_bench_get_counts(whi_bench *b, wh_bench_counts *counts) {
    const wh_status s = wh_device_copy_out(b->device, counts, b->arrays.counts, sizeof *counts);
    return s == WH_OK ? s : whi_bench_fail(b, s, "copy from the device");
}

void whi_bench_count(whi_bench_plan *p, const wh_bench_counts *seen, int timed) {
    p->mallocs.failed += timed ? seen->failed : 0;
    p->mallocs.bad += seen->bad; /* one in an untimed round counts, too */
    p->broken |= seen->bad != 0;
}

uint32_t whi_bench_lanes(const whi_bench_plan *p) {
    return !p->b->on_sim && p->call.hi >= 512 ? 32 : 1;
}

wh_status whi_bench_claim(whi_bench_plan *p, wh_bench_launcher launcher,
                          const wh_bench_counts *seen) {
    whi_bench *b = p->b;
    void *array = b->arrays.claimed;
    const uint64_t words = (seen->high - seen->low) / 16 / 32 + 2;
    wh_status s = whi_bench_need(b, &array, &b->arrays.claimed_room, words, sizeof(uint32_t));
    b->arrays.claimed = array;
    WHI_BENCH_TRY(s);
    s = wh_device_set(b->device, array, 0, words * sizeof(uint32_t));
    if (s != WH_OK) {
        return whi_bench_fail(b, s, "data check");
    }
    p->call.claimed = array;
    p->call.claim_base = seen->low & ~(uint64_t)15;
    p->call.lanes = whi_bench_lanes(p);
    return whi_bench_launch(p, launcher, p->call.n * p->call.lanes);
}

wh_status whi_bench_verify(whi_bench_plan *p, uint32_t what, wh_bench_counts *counts) {
    whi_bench *b = p->b;
    const uint64_t n = p->call.n;
    const uint64_t surveyors = b->on_sim ? 256 : 65536;
    WHI_BENCH_TRY(whi_bench_clear_counts(b));
    WHI_BENCH_TRY(whi_bench_launch(p, b->kernels->survey, n < surveyors ? n : surveyors));
    WHI_BENCH_TRY(whi_bench_get_counts(b, counts));
    if (counts->bad != 0 || !whi_bench_can(b, WH_CAP_DISJOINT)) {
        return WH_OK;
    }
    if ((what & WHI_BENCH_CONTENTS) != 0) {
        p->call.lanes = whi_bench_lanes(p);
        WHI_BENCH_TRY(whi_bench_launch(p, b->kernels->fill, n * p->call.lanes));
        WHI_BENCH_TRY(whi_bench_launch(p, b->kernels->check, n * p->call.lanes));
        WHI_BENCH_TRY(whi_bench_get_counts(b, counts));
    }
    if ((what & WHI_BENCH_PLACES) != 0 && counts->bad == 0 && counts->served != 0) {
        WHI_BENCH_TRY(whi_bench_claim(p, b->kernels->claim, counts));
        WHI_BENCH_TRY(whi_bench_get_counts(b, counts));
    }
    return WH_OK;
}
