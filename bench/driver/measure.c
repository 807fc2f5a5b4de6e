/* measure.c: heaps, pointer arrays, timed launches, floors, data checks. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/driver/internal.h"
#include "bench/driver/runtime_heap.h"

#define BLOCK_THREADS (uint32_t) WH_BENCH_BLOCK_THREADS

wh_status whi_bench_fail(whi_bench *b, wh_status status, const char *format, ...) {
    if (b->error[0] == '\0') {
        char what[320];
        va_list args;
        va_start(args, format);
        (void)vsnprintf(what, sizeof what, format, args);
        va_end(args);
        const char *detail =
            status == WH_DEVICE_ERROR && b->device != NULL ? wh_device_error_text(b->device) : "";
        (void)snprintf(b->error, sizeof b->error, "%s: %s%s%s%s", what, wh_status_text(status),
                       detail[0] != '\0' ? " (" : "", detail, detail[0] != '\0' ? ")" : "");
    }
    return status;
}

int whi_bench_can(const whi_bench *b, uint32_t caps) {
    return (b->alloc->caps & caps) == caps;
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

uint32_t whi_bench_reps(const whi_bench *b, int anew) {
    return b->on_sim && anew && b->options->reps == 0 ? 1 : b->reps;
}

uint64_t whi_bench_heap_bytes(const whi_bench *b) {
    return whi_bench_case_heap(b, b->defaults->heap_bytes);
}

uint64_t whi_bench_case_heap(const whi_bench *b, uint64_t own) {
    uint64_t least = 0;
    if (!whi_bench_can(b, WH_CAP_OWN_MEMORY)) {
        return whi_bench_runtime_heap();
    }
    if (b->options->heap_bytes != 0) {
        return b->options->heap_bytes;
    }
    const wh_heap_options options = whi_bench_heap_options(b, b->alloc, 0);
    return wh_heap_min_bytes(&options, &least) == WH_OK && least > own ? least : own;
}

uint64_t whi_bench_fitting(const whi_bench *b, uint64_t n, uint64_t bytes_each) {
    const uint64_t most = (uint64_t)(WHI_BENCH_FILL * (double)b->heap_bytes / (double)bytes_each);
    return n < most ? n : most;
}

/* --- heaps and arrays ----------------------------------------------------------------- */

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
        s = b->kernels->bind(b->heap, &b->call.handle);
    }
    b->heap_bytes = bytes;
    b->call.use_owns = whi_bench_can(b, WH_CAP_OWNS);
    char text[32];
    return s == WH_OK
               ? s
               : whi_bench_fail(b, s, "heap of %s for '%s'",
                                whi_bench_bytes_text(bytes, text, sizeof text), b->alloc->name);
}

wh_status whi_bench_reset_heap(whi_bench *b) {
    const wh_status s = wh_heap_reset(b->heap);
    return s == WH_OK ? s : whi_bench_fail(b, s, "reset of '%s'", b->alloc->name);
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
    void *array = b->call.ptrs;
    const wh_status s = whi_bench_need(b, &array, &b->ptrs_room, n, sizeof(void *));
    b->call.ptrs = array;
    return s;
}

wh_status whi_bench_need_born(whi_bench *b, uint64_t n) {
    void *array = b->call.born;
    const wh_status s = whi_bench_need(b, &array, &b->born_room, n, sizeof(uint32_t));
    b->call.born = array;
    return s;
}

/* --- launches ---------------------------------------------------------------------------- */

wh_launch whi_bench_shape(whi_bench *b, uint64_t n) {
    return wh_grid(b->device, (uint32_t)((n + BLOCK_THREADS - 1) / BLOCK_THREADS),
                   n < BLOCK_THREADS ? (uint32_t)n : BLOCK_THREADS);
}

static wh_status launch_failed(whi_bench *b, wh_status s) {
    return s == WH_OK ? s : whi_bench_fail(b, s, "kernel with '%s'", b->alloc->name);
}

wh_status whi_bench_launch(whi_bench *b, wh_bench_launcher launcher, uint64_t n) {
    const wh_launch l = whi_bench_shape(b, n);
    wh_status s = launcher(&l, &b->call);
    if (s == WH_OK) {
        s = wh_device_sync(b->device);
    }
    return launch_failed(b, s);
}

wh_status whi_bench_time(whi_bench *b, wh_bench_launcher launcher, uint64_t n,
                         whi_bench_series *series) {
    const wh_launch l = whi_bench_shape(b, n);
    wh_device_counters before, after;
    double us = 0;
    wh_status s = wh_device_get_counters(b->device, &before);
    if (s == WH_OK) {
        s = wh_device_timer_begin(b->device);
    }
    if (s == WH_OK) {
        s = launcher(&l, &b->call);
    }
    if (s == WH_OK) {
        s = wh_device_timer_end(b->device, &us);
    }
    if (s == WH_OK) {
        s = wh_device_get_counters(b->device, &after);
    }
    if (s != WH_OK) {
        return launch_failed(b, s);
    }
    series->us[series->n++] = us;
    series->steps += after.steps - before.steps;
    series->atomics += after.atomics - before.atomics;
    return WH_OK;
}

wh_status whi_bench_floor(whi_bench *b, wh_bench_launcher launcher, uint64_t n, double *us) {
    for (size_t i = 0; i < b->n_floors; i++) {
        if (b->floors[i].launcher == launcher && b->floors[i].n == n) {
            *us = b->floors[i].us;
            return WH_OK;
        }
    }
    whi_bench_series series;
    memset(&series, 0, sizeof series);
    const uint32_t reps = b->on_sim ? b->reps : (b->reps > 20 ? b->reps : 20);
    wh_status s = WH_OK;
    const double start = whi_bench_wall_seconds();
    for (int i = 0; !b->on_sim && s == WH_OK; i++) { /* loads the kernel, wakes the clocks */
        s = whi_bench_launch(b, launcher, n);
        if (i >= 2 && (b->awake || whi_bench_wall_seconds() - start > WHI_BENCH_WAKE_SECONDS)) {
            break;
        }
    }
    b->awake = 1;
    while (s == WH_OK && series.n < reps) {
        s = whi_bench_time(b, launcher, n, &series);
    }
    if (s != WH_OK) {
        return s;
    }
    *us = whi_bench_median(series.us, series.n);
    if (b->n_floors < sizeof b->floors / sizeof *b->floors) {
        b->floors[b->n_floors].launcher = launcher;
        b->floors[b->n_floors].n = n;
        b->floors[b->n_floors].us = *us;
        b->n_floors++;
    }
    return WH_OK;
}

/* --- data checks ----------------------------------------------------------------------------- */

wh_status whi_bench_clear_counts(whi_bench *b) {
    wh_bench_counts none;
    memset(&none, 0, sizeof none);
    none.low = UINT64_MAX;
    const wh_status s = wh_device_copy_in(b->device, b->call.counts, &none, sizeof none);
    return s == WH_OK ? s : whi_bench_fail(b, s, "copy to the device");
}

wh_status whi_bench_get_counts(whi_bench *b, wh_bench_counts *counts) {
    const wh_status s = wh_device_copy_out(b->device, counts, b->call.counts, sizeof *counts);
    return s == WH_OK ? s : whi_bench_fail(b, s, "copy from the device");
}

uint32_t whi_bench_lanes(const whi_bench *b) {
    return !b->on_sim && b->call.hi >= 512 ? 32 : 1;
}

wh_status whi_bench_claim(whi_bench *b, wh_bench_launcher launcher, const wh_bench_counts *seen) {
    void *array = b->call.claimed;
    const uint64_t words = (seen->high - seen->low) / 16 / 32 + 2;
    wh_status s = whi_bench_need(b, &array, &b->claimed_room, words, sizeof(uint32_t));
    b->call.claimed = array;
    if (s == WH_OK) {
        s = wh_device_set(b->device, array, 0, words * sizeof(uint32_t));
        if (s != WH_OK) {
            return whi_bench_fail(b, s, "data check");
        }
        b->call.claim_base = seen->low & ~(uint64_t)15;
        b->call.lanes = whi_bench_lanes(b);
        s = whi_bench_launch(b, launcher, b->call.n * b->call.lanes);
    }
    return s;
}

wh_status whi_bench_verify(whi_bench *b, uint32_t what, wh_bench_counts *counts) {
    const uint64_t n = b->call.n;
    const uint64_t surveyors = b->on_sim ? 256 : 65536;
    wh_status s = whi_bench_clear_counts(b);
    if (s == WH_OK) {
        s = whi_bench_launch(b, b->kernels->survey, n < surveyors ? n : surveyors);
    }
    if (s == WH_OK) {
        s = whi_bench_get_counts(b, counts);
    }
    if (s != WH_OK || counts->bad != 0 || !whi_bench_can(b, WH_CAP_DISJOINT)) {
        return s;
    }
    if ((what & WHI_BENCH_CONTENTS) != 0) {
        b->call.lanes = whi_bench_lanes(b);
        s = whi_bench_launch(b, b->kernels->fill, n * b->call.lanes);
        if (s == WH_OK) {
            s = whi_bench_launch(b, b->kernels->check, n * b->call.lanes);
        }
        if (s == WH_OK) {
            s = whi_bench_get_counts(b, counts);
        }
    }
    if (s == WH_OK && (what & WHI_BENCH_PLACES) != 0 && counts->bad == 0 && counts->served != 0) {
        s = whi_bench_claim(b, b->kernels->claim, counts);
        if (s == WH_OK) {
            s = whi_bench_get_counts(b, counts);
        }
    }
    return s;
}

/* --- statistics ----------------------------------------------------------------------------------
 */

static int compare(const void *x, const void *y) {
    const double a = *(const double *)x;
    const double b = *(const double *)y;
    return (a > b) - (a < b);
}

double whi_bench_median(const double *v, uint32_t n) {
    double sorted[WH_BENCH_MAX_REPS];
    if (n == 0) {
        return 0;
    }
    memcpy(sorted, v, n * sizeof *v);
    qsort(sorted, n, sizeof *sorted, compare);
    return n % 2 != 0 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double whi_bench_wall_seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- limits ------------------------------------------------------------------------------ */

int whi_bench_over(const whi_bench *b, double start, double limits) {
    return b->limit > 0 && whi_bench_wall_seconds() - start > limits * b->limit;
}

int whi_bench_leave_out(whi_bench *b, whi_bench_part next) {
    if (b->left_out.size == 0 && b->begun && whi_bench_over(b, b->case_start, b->case_limits)) {
        b->left_out = next;
    }
    b->begun = 1;
    return b->left_out.size != 0;
}
