/* case_waste.c: the case waste: what a block has beyond its request, over all sizes. */
#include <string.h>

#include "bench/driver/internal.h"

#define SMALLEST ((uint64_t)16)

/* Requests lo, lo + step, ... (n of them) in one launch, verified over all of their usable
 * bytes, and freed. */
static wh_status probe(whi_bench *b, uint64_t lo, uint64_t step, uint64_t n, wh_bench_counts *sum) {
    wh_bench_counts counts;
    whi_bench_ledger_tail(b);
    b->call.n = n;
    b->call.lo = lo;
    b->call.hi = lo + (n - 1) * step;
    b->call.step = step;
    wh_status s = whi_bench_clear_counts(b);
    if (s == WH_OK) {
        b->malloc_series.n = 0;
        s = whi_bench_time(b, b->ledger_kernels->probe, n, &b->malloc_series);
    }
    if (s == WH_OK) {
        s = whi_bench_get_counts(b, &counts);
    }
    if (s != WH_OK) {
        return s;
    }
    sum->bad += counts.bad; /* usable size below the request */
    b->ledger.n = n;
    s = whi_bench_ledger_verify(b, WHI_BENCH_CONTENTS | WHI_BENCH_PLACES, &counts);
    sum->failed += counts.failed;
    sum->bad += counts.bad;
    sum->served += counts.served;
    b->ledger.n = 0;
    b->ledger.patterned = 0;
    if (s == WH_OK && sum->bad == 0 && whi_bench_can(b, WH_CAP_FREE)) {
        whi_bench_ledger_tail(b);
        b->call.n = n;
        s = whi_bench_launch(b, b->kernels->free_all, n);
    } else if (s == WH_OK && sum->bad == 0 && whi_bench_can(b, WH_CAP_RESET)) {
        s = whi_bench_reset_heap(b);
    }
    return s;
}

static wh_status run(whi_bench *b, uint64_t hi) {
    const uint64_t most = b->defaults->waste_sizes;
    const uint64_t all = hi - SMALLEST + 1;
    /* odd, so that a sample is not one of round sizes */
    const uint64_t step = most == 0 || all <= most ? 1 : (all / most) | 1;
    /* blocks of twice the request must fit */
    const uint64_t budget = (uint64_t)(WHI_BENCH_FILL / 2 * (double)b->heap_bytes);
    const uint64_t sizes = (hi - SMALLEST) / step + 1;
    wh_bench_counts sum;
    wh_bench_ledger results;
    whi_bench_row row;
    double us = 0;
    double floor_us = 0;
    uint64_t i = 0;
    memset(&sum, 0, sizeof sum);
    memset(&results, 0, sizeof results);
    memset(&row, 0, sizeof row);
    memset(&b->malloc_series, 0, sizeof b->malloc_series);
    wh_status s = whi_bench_ledger_open(b, sizes);
    if (s == WH_OK) {
        s = wh_device_set(b->device, b->ledger.results, 0, sizeof results);
        s = s == WH_OK ? s : whi_bench_fail(b, s, "set-up");
    }
    if (s == WH_OK && whi_bench_can(b, WH_CAP_RESET)) {
        s = whi_bench_reset_heap(b);
    }
    while (s == WH_OK && i < sizes && sum.bad == 0) {
        const uint64_t lo = SMALLEST + i * step;
        if (i != 0 && whi_bench_leave_out(b, (whi_bench_part){.size_min = lo, .size = hi})) {
            whi_bench_close_heap(b);
            return WH_OK; /* a mean over all sizes, or none */
        }
        uint64_t n = 0;
        for (uint64_t bytes = 0; i + n < sizes && bytes + lo + n * step <= budget; n++) {
            bytes += lo + n * step;
        }
        n = n != 0 ? n : 1;
        double one = 0;
        whi_bench_ledger_tail(b);
        b->call.n = n;
        b->call.lo = lo;
        s = whi_bench_floor(b, b->kernels->floor_single, n, &one);
        if (s == WH_OK) {
            s = probe(b, lo, step, n, &sum);
            us += b->malloc_series.us[0];
            floor_us += one;
        }
        i += n;
    }
    if (s == WH_OK) {
        s = wh_device_copy_out(b->device, &results, b->ledger.results, sizeof results);
        s = s == WH_OK ? s : whi_bench_fail(b, s, "copy from the device");
    }
    if (s != WH_OK) {
        return s;
    }
    const double unit = 4294967296.0;
    const double mean = (double)results.waste_sum / unit / (double)results.measured;
    const whi_bench_value values[] = {
        {"waste_mean", mean, 4},
        {"waste_max", (double)(results.waste_max >> 32) / unit, 4},
        {"waste_max_size", (double)(results.waste_max & UINT32_MAX), 0},
    };
    b->malloc_series.us[0] = us;
    b->malloc_series.n = 1;
    b->malloc_series.failed = sum.failed;
    b->malloc_series.bad = sum.bad;
    row.case_name = "waste";
    row.phase = "warm";
    row.op = "probe";
    row.size_min = SMALLEST;
    row.size = hi;
    row.threads = i;
    row.ops = i;
    row.us_null = floor_us;
    row.values = values;
    row.n_values = results.measured != 0 ? sizeof values / sizeof *values : 0;
    return whi_bench_emit(b, &row, &b->malloc_series);
}

wh_status whi_bench_case_waste(whi_bench *b) {
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->waste);
    wh_status s = WH_OK;
    if (!whi_bench_can(b, WH_CAP_USABLE_SIZE | WH_CAP_DISJOINT)) {
        return WH_OK;
    }
    for (size_t i = 0; i < sizes.n && s == WH_OK; i++) {
        const uint64_t hi = sizes.v[i] < b->alloc->max_size ? sizes.v[i] : b->alloc->max_size;
        const whi_bench_part part = {.size_min = SMALLEST, .size = hi};
        if (hi >= SMALLEST && hi <= b->heap_bytes / 2 && !whi_bench_leave_out(b, part)) {
            whi_bench_progress(b, "waste", hi, hi - SMALLEST + 1);
            s = whi_bench_open_heap(b, whi_bench_heap_bytes(b));
            if (s == WH_OK) {
                s = run(b, hi);
            }
            whi_bench_close_heap(b);
        }
    }
    whi_bench_ledger_close(b);
    return s;
}
