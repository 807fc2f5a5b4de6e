/* work.c: the cases access and work: what the memory of an allocator is worth to those who write
 * and read it, and what it takes to make work of a random size, against a prefix sum over the sizes
 * and one allocation by the host. After Winter (2021), section 5.6.4. docs/BENCHMARK.md has the
 * protocol. */
#include <string.h>

#include "bench/driver/internal.h"
#include "bench/kernels/survey_cub.h"

#define WORD ((uint64_t)4)
#define ALIGNED ((uint64_t)16)

/* Device arrays beside the plan's own. */
typedef struct memory {
    whi_bench_plan *p;
    void *sizes, *sums, *base, *scratch;
    wh_bench_scan_cub cub;
} memory;

static wh_status allocate(whi_bench *b, void **array, uint64_t bytes) {
    const wh_status s = wh_device_alloc(b->device, array, bytes != 0 ? bytes : 1);
    return s == WH_OK ? s : whi_bench_fail(b, s, "memory beside the heap");
}

static void release(whi_bench *b, void **array) {
    (void)wh_device_free(b->device, *array);
    *array = NULL;
}

/* --- a prefix sum ---------------------------------------------------------------------------- */

/* Starts a kernel and does not wait. */
static wh_status queue(memory *m, wh_bench_launcher launcher) {
    whi_bench *b = m->p->b;
    const uint64_t whole = WH_BENCH_BLOCK_THREADS;
    const wh_launch l = whi_bench_shape(b, (m->p->call.n + whole - 1) / whole * whole);
    return whi_bench_check(b, launcher(&l, &m->p->call), "a kernel");
}

/* Sizes up to multiples of `step`, and what comes before each. On a GPU by CUB. */
static wh_status scan(memory *m, uint64_t step) {
    const wh_bench_memory_kernels *k = m->p->b->memory_kernels;
    m->p->call.step = step;
    WHI_BENCH_TRY(queue(m, k->sizes));
    return m->p->b->on_sim ? queue(m, k->scan)
                           : whi_bench_check(m->p->b, wh_bench_survey_cub_scan(&m->cub), "CUB");
}

static wh_status open_memory(memory *m) {
    whi_bench *b = m->p->b;
    const uint64_t n = m->p->call.n + 1;
    WHI_BENCH_TRY(allocate(b, &m->sizes, n * sizeof(uint32_t)));
    WHI_BENCH_TRY(allocate(b, &m->sums, n * sizeof(uint64_t)));
    m->p->call.sizes = (uint32_t *)m->sizes;
    m->p->call.sums = (uint64_t *)m->sums;
    m->cub.sizes = m->p->call.sizes;
    m->cub.sums = m->p->call.sums;
    m->cub.n = n;
    if (!b->on_sim) {
        WHI_BENCH_TRY(whi_bench_check(b, wh_bench_survey_cub_scan(&m->cub), "memory for CUB"));
        WHI_BENCH_TRY(allocate(b, &m->scratch, m->cub.scratch_bytes));
        m->cub.scratch = m->scratch;
    }
    return WH_OK;
}

static void close_memory(memory *m) {
    release(m->p->b, &m->base);
    release(m->p->b, &m->scratch);
    release(m->p->b, &m->sums);
    release(m->p->b, &m->sizes);
}

/* Looks at blocks with a kernel that counts; those of an allocator, or packed ones. */
static wh_status look(memory *m, wh_bench_launcher check, int packed) {
    whi_bench_plan *p = m->p;
    whi_bench *b = p->b;
    wh_bench_counts seen;
    if (!packed && !whi_bench_can(b, WH_CAP_DISJOINT)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_bench_clear_counts(b));
    WHI_BENCH_TRY(whi_bench_launch(p, check, p->call.n));
    WHI_BENCH_TRY(whi_bench_get_counts(b, &seen));
    if (packed) {
        return seen.bad == 0 ? WH_OK : whi_bench_fail(b, WH_CORRUPT, "a prefix sum");
    }
    whi_bench_count(p, &seen, 0);
    return WH_OK;
}

/* --- access ---------------------------------------------------------------------------------- */

/* Medians of the two that blocks are held against. */
typedef struct bases {
    double rows, packed;
} bases;

/* Repetitions of one kernel. */
static wh_status times(memory *m, wh_bench_launcher launcher, whi_bench_series *series) {
    whi_bench_plan *p = m->p;
    whi_bench *b = p->b;
    const double start = whi_bench_wall_seconds();
    if (!b->on_sim) {
        WHI_BENCH_TRY(whi_bench_launch(p, launcher, p->call.n));
    }
    for (uint32_t i = 0; i < whi_bench_reps(b, 1); i++) {
        WHI_BENCH_TRY(whi_bench_time(p, launcher, p->call.n, series));
        if (whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
    }
    return WH_OK;
}

static wh_status median_of(memory *m, wh_bench_launcher launcher, double *us) {
    whi_bench_series series;
    memset(&series, 0, sizeof series);
    WHI_BENCH_TRY(times(m, launcher, &series));
    *us = whi_bench_median(series.us, series.n);
    return WH_OK;
}

/* Words of all threads side by side; blocks one behind the other. */
static wh_status measure_bases(memory *m, bases *writes, bases *reads) {
    whi_bench_plan *p = m->p;
    whi_bench *b = p->b;
    const wh_bench_memory_kernels *k = b->memory_kernels;
    const uint64_t each = (p->call.hi + ALIGNED - 1) / ALIGNED * ALIGNED;
    WHI_BENCH_TRY(allocate(b, &m->base, p->call.n * each));
    p->call.base = (unsigned char *)m->base;
    WHI_BENCH_TRY(median_of(m, k->write_rows, &writes->rows));
    WHI_BENCH_TRY(median_of(m, k->read_rows, &reads->rows));
    WHI_BENCH_TRY(scan(m, ALIGNED));
    WHI_BENCH_TRY(queue(m, k->place));
    WHI_BENCH_TRY(median_of(m, k->write, &writes->packed));
    WHI_BENCH_TRY(look(m, k->check, 1));
    WHI_BENCH_TRY(median_of(m, k->read, &reads->packed));
    return look(m, k->check_sums, 1);
}

static wh_status emit_access(memory *m, const char *op, const bases *base,
                             const whi_bench_series *series) {
    whi_bench *b = m->p->b;
    whi_bench_row row =
        whi_bench_row_of(m->p, whi_bench_can(b, WH_CAP_RESET) ? "cold" : "warm", op);
    row.us_null = base->rows;
    whi_bench_add_value(&row, "us_packed", base->packed, 1);
    whi_bench_add_value(&row, "ratio_packed",
                        whi_bench_median(series->us, series->n) / base->packed, 3);
    return whi_bench_emit(b, &row, series);
}

static wh_status access_blocks(memory *m) {
    whi_bench_plan *p = m->p;
    whi_bench *b = p->b;
    const wh_bench_memory_kernels *k = b->memory_kernels;
    bases writes, reads;
    wh_bench_counts seen;
    WHI_BENCH_TRY(open_memory(m));
    WHI_BENCH_TRY(measure_bases(m, &writes, &reads));
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    WHI_BENCH_TRY(whi_bench_launch(p, whi_bench_malloc_of(p), p->call.n));
    WHI_BENCH_TRY(whi_bench_verify(p, WHI_BENCH_PLACES, &seen));
    whi_bench_count(p, &seen, 1);
    if (!p->broken) {
        WHI_BENCH_TRY(times(m, k->write, &p->mallocs));
        WHI_BENCH_TRY(look(m, k->check, 0));
        WHI_BENCH_TRY(times(m, k->read, &p->frees));
        WHI_BENCH_TRY(look(m, k->check_sums, 0));
    }
    p->frees.failed = p->mallocs.failed;
    if (!p->broken) {
        WHI_BENCH_TRY(whi_bench_renew(p));
    }
    WHI_BENCH_TRY(emit_access(m, "write", &writes, &p->mallocs));
    return p->frees.n != 0 ? emit_access(m, "read", &reads, &p->frees) : WH_OK;
}

static wh_status run_access(whi_bench_plan *p) {
    memory m;
    memset(&m, 0, sizeof m);
    m.p = p;
    const wh_status s = access_blocks(&m);
    close_memory(&m);
    return s;
}

wh_status whi_bench_case_access(whi_bench *b) {
    const whi_bench_defaults *d = b->defaults;
    const uint64_t threads[] = {d->access_threads, 0};
    WHI_BENCH_TRY(whi_bench_survey_run(
        b, &(whi_bench_survey){d->access_single, threads, 0, NULL, run_access}));
    return whi_bench_survey_run(
        b, &(whi_bench_survey){d->access_mixed, threads, 16, NULL, run_access});
}

/* --- work ------------------------------------------------------------------------------------ */

/* Sizes, their sums, the last of them to the host, memory of so many bytes by the host, and work
 * written to it. */
static wh_status scan_once(memory *m, whi_bench_series *series) {
    whi_bench_plan *p = m->p;
    whi_bench *b = p->b;
    const wh_bench_memory_kernels *k = b->memory_kernels;
    whi_bench_watch watch;
    uint64_t bytes = 0;
    double us = 0;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(scan(m, WORD));
    const wh_status s = wh_device_copy_out(b->device, &bytes, p->call.sums + p->call.n, 8);
    WHI_BENCH_TRY(whi_bench_check(b, s, "a sum"));
    WHI_BENCH_TRY(allocate(b, &m->base, bytes));
    p->call.base = (unsigned char *)m->base;
    WHI_BENCH_TRY(queue(m, k->produce));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    whi_bench_add_sample(series, us);
    if (series->n == 1) {
        WHI_BENCH_TRY(queue(m, k->place));
        WHI_BENCH_TRY(look(m, k->check, 1));
    }
    release(b, &m->base);
    return WH_OK;
}

static wh_status measure_scan(memory *m, double *us) {
    whi_bench *b = m->p->b;
    const double start = whi_bench_wall_seconds();
    const uint32_t reps = whi_bench_reps(b, 1);
    whi_bench_series series;
    memset(&series, 0, sizeof series);
    WHI_BENCH_TRY(open_memory(m));
    for (uint32_t i = 0; i < reps + 1; i++) { /* one more: the first loads kernels */
        WHI_BENCH_TRY(scan_once(m, &series));
        if (whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
    }
    *us = series.n > 1 ? whi_bench_median(series.us + 1, series.n - 1) : series.us[0];
    return WH_OK;
}

static wh_status work_once(memory *m, whi_bench_series *series) {
    whi_bench_plan *p = m->p;
    whi_bench *b = p->b;
    wh_bench_counts seen;
    WHI_BENCH_TRY(whi_bench_time(p, b->survey_kernels->work, p->call.n, series));
    WHI_BENCH_TRY(whi_bench_verify(p, WHI_BENCH_PLACES, &seen));
    whi_bench_count(p, &seen, series != NULL);
    if (!p->broken) {
        WHI_BENCH_TRY(look(m, b->memory_kernels->check, 0));
    }
    return p->broken ? WH_OK : whi_bench_renew(p);
}

static wh_status make_work(memory *m) {
    whi_bench_plan *p = m->p;
    whi_bench *b = p->b;
    const int warm = whi_bench_can(b, WH_CAP_FREE);
    whi_bench_row row = whi_bench_row_of(p, warm ? "warm" : "cold", "work");
    double us_scan = 0;
    WHI_BENCH_TRY(measure_scan(m, &us_scan));
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    if (warm || !b->on_sim) {
        WHI_BENCH_TRY(work_once(m, NULL));
    }
    const double start = whi_bench_wall_seconds();
    const uint32_t reps = whi_bench_reps(b, !warm);
    for (uint32_t i = 0; i < reps && !p->broken; i++) {
        WHI_BENCH_TRY(work_once(m, &p->mallocs));
        if (whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
    }
    whi_bench_add_value(&row, "us_scan", us_scan, 1);
    if (p->mallocs.n != 0) {
        whi_bench_add_value(&row, "ratio_scan",
                            whi_bench_median(p->mallocs.us, p->mallocs.n) / us_scan, 3);
    }
    return whi_bench_emit(b, &row, &p->mallocs);
}

static wh_status run_work(whi_bench_plan *p) {
    memory m;
    memset(&m, 0, sizeof m);
    m.p = p;
    const wh_status s = make_work(&m);
    close_memory(&m);
    return s;
}

wh_status whi_bench_case_work(whi_bench *b) {
    const whi_bench_defaults *d = b->defaults;
    return whi_bench_survey_run(
        b, &(whi_bench_survey){d->work, d->work_threads, WORD, NULL, run_work});
}
