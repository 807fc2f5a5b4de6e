/* gauge.c: the case gauge: warm malloc and free, many rounds a repetition, while a thread of the
 * host reads a gauge of the heap.
 *   plain-malloc, plain-free       nobody reads
 *   malloc, free                   every 10 ms
 *   nonstop-malloc, nonstop-free   without a pause
 * A time is the mean of a repetition's launches, since a look is shorter than a launch or longer.
 * Repetitions of the three take turns. Allocators without a gauge have no rows. The case is made
 * whole. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "bench/driver/internal.h"
#include "warpheap/gauge.h"

#define N_WAYS 3u
#define PAUSE_NS 10000000L
#define ROUNDS 100u /* of a repetition, on a GPU */

static const char *const malloc_ops[N_WAYS] = {"plain-malloc", "malloc", "nonstop-malloc"};
static const char *const free_ops[N_WAYS] = {"plain-free", "free", "nonstop-free"};

/* The thread that reads. `stop` is for both, atomic; the rest is the thread's until it is joined.
 */
typedef struct reading {
    pthread_t thread;
    wh_gauge *gauge;
    uint32_t way, stop;
    uint64_t looks, took_ns, bytes;
    wh_status status;
} reading;

static void *read_on(void *context) {
    reading *r = context;
    const struct timespec pause = {0, PAUSE_NS};
    while (__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE) == 0 && r->status == WH_OK) {
        wh_gauge_sample s;
        r->status = wh_gauge_read(r->gauge, WH_GAUGE_BLOCKS, &s);
        r->looks++;
        r->took_ns += s.took_ns;
        r->bytes += s.read_bytes;
        if (r->way == 1) {
            (void)nanosleep(&pause, NULL);
        }
    }
    return NULL;
}

/* What the case has of one way. */
typedef struct result {
    whi_bench_series mallocs, frees;
    uint64_t looks, took_ns, bytes;
} result;

/* One launch more; its time to *us. */
static wh_status launch(whi_bench_plan *p, wh_bench_launcher launcher, whi_bench_series *series,
                        double *us) {
    whi_bench_series one;
    memset(&one, 0, sizeof one);
    WHI_BENCH_TRY(whi_bench_time(p, launcher, p->call.n, &one));
    *us += one.us[0];
    series->steps += one.steps;
    series->atomics += one.atomics;
    return WH_OK;
}

/* Rounds of malloc, look at the blocks, free. */
static wh_status rounds(whi_bench_plan *p, result *to) {
    whi_bench *b = p->b;
    const uint32_t n = b->on_sim ? 1 : ROUNDS;
    double mallocs = 0;
    double frees = 0;
    for (uint32_t i = 0; i < n && !p->broken; i++) {
        wh_bench_counts seen;
        WHI_BENCH_TRY(launch(p, b->kernels->malloc_single, &to->mallocs, &mallocs));
        WHI_BENCH_TRY(whi_bench_verify(p, i + 1 == n ? WHI_BENCH_PLACES : 0, &seen));
        to->mallocs.failed += seen.failed;
        to->mallocs.bad += seen.bad;
        whi_bench_count(p, &seen, 0);
        WHI_BENCH_TRY(launch(p, b->kernels->free_all, &to->frees, &frees));
    }
    whi_bench_add_sample(&to->mallocs, mallocs / n);
    whi_bench_add_sample(&to->frees, frees / n);
    return WH_OK;
}

static wh_status repetition(whi_bench_plan *p, wh_gauge *gauge, uint32_t way, result *to) {
    reading r;
    memset(&r, 0, sizeof r);
    r.gauge = gauge;
    r.way = way;
    if (way == 0) {
        return rounds(p, to);
    }
    if (pthread_create(&r.thread, NULL, read_on, &r) != 0) {
        return whi_bench_check(p->b, WH_OUT_OF_MEMORY, "a thread");
    }
    const wh_status s = rounds(p, to);
    __atomic_store_n(&r.stop, 1, __ATOMIC_RELEASE);
    (void)pthread_join(r.thread, NULL);
    to->looks += r.looks;
    to->took_ns += r.took_ns;
    to->bytes += r.bytes;
    return s != WH_OK ? s : whi_bench_check(p->b, r.status, "the gauge");
}

/* Times over those of the plain way; on a GPU also what the looks were. On the simulated device
 * their number depends on the machine. */
static wh_status emit(whi_bench_plan *p, const result *plain, const result *its, uint32_t way) {
    whi_bench *b = p->b;
    for (int frees = 0; frees < 2; frees++) {
        const whi_bench_series *series = frees ? &its->frees : &its->mallocs;
        const whi_bench_series *than = frees ? &plain->frees : &plain->mallocs;
        whi_bench_row row = whi_bench_row_of(p, "warm", frees ? free_ops[way] : malloc_ops[way]);
        WHI_BENCH_TRY(whi_bench_floor(p, frees ? b->kernels->floor_free : b->kernels->floor_single,
                                      p->call.n, &row.us_null));
        if (way != 0) {
            whi_bench_add_value(
                &row, "ratio_plain",
                whi_bench_median(series->us, series->n) / whi_bench_median(than->us, than->n), 3);
        }
        if (way != 0 && !b->on_sim) {
            const double looks = (double)(its->looks != 0 ? its->looks : 1);
            whi_bench_add_value(&row, "looks", (double)its->looks, 0);
            whi_bench_add_value(&row, "look_us", (double)its->took_ns * 1e-3 / looks, 1);
            whi_bench_add_value(&row, "look_bytes", (double)its->bytes / looks, 0);
        }
        WHI_BENCH_TRY(whi_bench_emit(b, &row, series));
    }
    return WH_OK;
}

static wh_status all_ways(whi_bench_plan *p, wh_gauge *gauge) {
    whi_bench *b = p->b;
    result results[N_WAYS];
    wh_bench_counts seen;
    memset(results, 0, sizeof results);
    WHI_BENCH_TRY(whi_bench_launch(p, b->kernels->malloc_single, p->call.n));
    WHI_BENCH_TRY(whi_bench_verify(p, WHI_BENCH_CONTENTS, &seen));
    whi_bench_count(p, &seen, 0);
    WHI_BENCH_TRY(p->broken ? WH_OK : whi_bench_launch(p, b->kernels->free_all, p->call.n));
    for (uint32_t i = 0; i < b->reps && !p->broken; i++) {
        for (uint32_t way = 0; way < N_WAYS && !p->broken; way++) {
            WHI_BENCH_TRY(repetition(p, gauge, way, &results[way]));
        }
    }
    for (uint32_t way = 0; way < N_WAYS && results[way].mallocs.n != 0; way++) {
        WHI_BENCH_TRY(emit(p, &results[0], &results[way], way));
    }
    return WH_OK;
}

static wh_status run(whi_bench *b, whi_bench_blocks blocks) {
    whi_bench_plan p;
    wh_gauge *gauge = NULL;
    whi_bench_progress(b, blocks.hi, blocks.n);
    WHI_BENCH_TRY(whi_bench_begin(b, &p, whi_bench_heap_bytes(b), blocks));
    const wh_status opened = wh_gauge_open(&gauge, b->heap);
    if (opened == WH_UNSUPPORTED) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_bench_check(b, opened, "a gauge"));
    const wh_status s = all_ways(&p, gauge);
    const wh_status last = wh_gauge_close(gauge);
    if (p.broken) {
        whi_bench_close_heap(b);
    }
    return s != WH_OK ? s : whi_bench_check(b, last, "the gauge");
}

wh_status whi_bench_case_gauge(whi_bench *b) {
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->first);
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->threads);
    if (!whi_bench_can(b, WH_CAP_FREE | WH_CAP_DISJOINT)) {
        return WH_OK;
    }
    for (size_t i = 0; i < sizes.n; i++) {
        for (size_t k = 0; k < threads.n; k++) {
            const uint64_t n = whi_bench_fitting(b, threads.v[k], sizes.v[i]);
            if (n != 0) {
                WHI_BENCH_TRY(run(b, (whi_bench_blocks){n, sizes.v[i], sizes.v[i]}));
            }
        }
    }
    return WH_OK;
}
