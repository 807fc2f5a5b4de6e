/* ops.c: what the cases ops-* share. */
#include "bench/cases/ops.h"

#include <string.h>

/* --- heaps ------------------------------------------------------------------------------------ */

int whi_ops_has_one_size(const whi_bench *b) {
    return strcmp(b->alloc->family, "random_walk") == 0 ||
           strcmp(b->alloc->family, "page_queue") == 0;
}

int whi_ops_serves(const whi_bench *b, uint64_t page_bytes) {
    const int is_power = (page_bytes & (page_bytes - 1)) == 0;
    return whi_ops_has_one_size(b) ? is_power : page_bytes <= b->alloc->max_size;
}

/* Adds page_bytes to options unless it is there. */
static wh_status add_page_bytes(const whi_bench *b, wh_any_options *options, uint64_t page_bytes) {
    char name[64];
    if (options->values[0] != 0) {
        return WH_OK; /* the first option of both families */
    }
    (void)snprintf(name, sizeof name, "%s.page_bytes", b->alloc->family);
    return wh_options_set(options, name, page_bytes);
}

wh_status whi_ops_try_heap(whi_bench *b, uint64_t bytes, uint64_t page_bytes) {
    wh_heap_options o = whi_bench_heap_options(b, b->alloc, bytes);
    wh_any_options options;
    memset(&options, 0, sizeof options);
    for (size_t i = 0; i < b->options->n_options; i++) {
        if (o.options == &b->options->options[i].head) {
            options = b->options->options[i];
        }
    }
    if (whi_ops_has_one_size(b)) {
        WHI_BENCH_TRY(add_page_bytes(b, &options, page_bytes));
        o.options = &options.head;
    }
    whi_bench_close_heap(b);
    WHI_BENCH_TRY(wh_heap_create(&b->heap, &o));
    b->heap_bytes = bytes;
    return b->kernels->bind(b->heap, &b->handle);
}

wh_status whi_ops_open_heap(whi_bench *b, uint64_t own, uint64_t page_bytes) {
    const uint64_t bytes = whi_bench_case_heap(b, own);
    return whi_bench_check(b, whi_ops_try_heap(b, bytes, page_bytes), "heap");
}

/* --- memory and kernels ----------------------------------------------------------------------- */

wh_status whi_ops_memory(whi_ops *o, void *p, uint64_t bytes) {
    whi_bench *b = o->b;
    void *memory = NULL;
    if (o->n_kept == WHI_OPS_KEPT) {
        return whi_bench_fail(b, WH_BAD_ARGUMENT, "too many arrays in a case");
    }
    WHI_BENCH_TRY(whi_bench_check(b, wh_device_alloc(b->device, &memory, bytes + 8), "tables"));
    o->kept[o->n_kept++] = memory;
    memcpy(p, &memory, sizeof memory);
    return WH_OK;
}

void whi_ops_forget(whi_ops *o, size_t n) {
    while (o->n_kept > n) {
        (void)wh_device_free(o->b->device, o->kept[--o->n_kept]);
    }
}

wh_status whi_ops_wake(whi_bench *b) {
    const uint64_t n = 65536;
    whi_bench_plan p;
    double us = 0;
    if (b->on_sim) {
        return WH_OK;
    }
    memset(&p, 0, sizeof p);
    p.b = b;
    WHI_BENCH_TRY(whi_bench_need_ptrs(b, n));
    whi_bench_aim(&p, (whi_bench_blocks){n, 0, 0});
    return whi_bench_floor(&p, b->kernels->floor_single, n, &us);
}

wh_status whi_ops_begin(whi_bench *b, whi_ops *o) {
    o->b = b;
    WHI_BENCH_TRY(whi_ops_wake(b));
    o->kernels = wh_ops_data_find(b->info->target);
    o->call.seed = b->options->seed;
    return whi_ops_memory(o, &o->call.sums, sizeof *o->call.sums);
}

void whi_ops_end(whi_ops *o) {
    (void)wh_join_destroy(o->join);
    (void)wh_group_destroy(o->group);
    o->join = NULL;
    o->group = NULL;
    whi_ops_forget(o, 0);
}

wh_status whi_ops_launch(whi_ops *o, wh_ops_launcher launcher) {
    whi_bench *b = o->b;
    const wh_launch l = wh_grid(b->device, b->on_sim ? 2 : 2048, 256);
    WHI_BENCH_TRY(whi_bench_check(b, launcher(&l, &o->call), "a kernel on tables"));
    return whi_bench_check(b, wh_device_sync(b->device), "a kernel on tables");
}

static wh_status clear_sums(whi_ops *o) {
    const wh_status s = wh_device_set(o->b->device, o->call.sums, 0, sizeof *o->call.sums);
    return whi_bench_check(o->b, s, "sums");
}

static wh_status read_sums(whi_ops *o, wh_ops_sums *sums) {
    const wh_status s = wh_device_copy_out(o->b->device, sums, o->call.sums, sizeof *sums);
    return whi_bench_check(o->b, s, "sums");
}

wh_status whi_ops_expect(whi_ops *o, wh_ops_launcher launcher) {
    WHI_BENCH_TRY(clear_sums(o));
    WHI_BENCH_TRY(whi_ops_launch(o, launcher));
    return read_sums(o, &o->expected);
}

/* --- repetitions ------------------------------------------------------------------------------ */

/* What the repetitions of a row have seen. */
typedef struct findings {
    whi_bench_series drops;
    uint64_t rows, stops; /* of the last one */
    int is_cut;           /* the heap is too small to go on */
    double us_compact;    /* 0: nothing was compacted */
} findings;

/* A call by the device's clock. *said: OK or OUT_OF_MEMORY. */
static wh_status clocked(whi_ops *o, wh_status (*call)(whi_ops *o), whi_bench_series *series,
                         double *us, wh_status *said) {
    whi_bench *b = o->b;
    whi_bench_watch watch;
    double more = 0;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    *said = call(o);
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &more));
    *us += more;
    return *said == WH_OUT_OF_MEMORY ? WH_OK : whi_bench_check(b, *said, "an operator");
}

static wh_status finished(whi_ops *o, uint64_t *rows, wh_status *said) {
    *said = o->how->finish(o, rows);
    return *said == WH_OUT_OF_MEMORY ? WH_OK : whi_bench_check(o->b, *said, "an operator");
}

/* From the start to the end, with pauses in which what is there is looked at and goes back. */
static wh_status go_through(whi_ops *o, whi_bench_series *series, findings *f) {
    whi_bench *b = o->b;
    uint64_t rows = 0;
    double us = 0;
    wh_status said;
    f->rows = f->stops = 0;
    WHI_BENCH_TRY(clocked(o, o->how->start, series, &us, &said));
    if (said == WH_OK) {
        WHI_BENCH_TRY(finished(o, &rows, &said));
    }
    while (said == WH_OUT_OF_MEMORY && rows != 0) {
        f->rows += rows;
        f->stops++;
        WHI_BENCH_TRY(whi_bench_check(b, o->how->look(o, rows), "a result"));
        WHI_BENCH_TRY(whi_bench_check(b, o->how->drop(o), "a result"));
        WHI_BENCH_TRY(clocked(o, o->how->resume, series, &us, &said));
        WHI_BENCH_TRY(finished(o, &rows, &said));
    }
    f->is_cut = said != WH_OK;
    f->rows += rows;
    whi_bench_add_sample(series, us);
    return rows != 0 ? whi_bench_check(b, o->how->look(o, rows), "a result") : WH_OK;
}

static int is_expected(const whi_ops *o, const wh_ops_sums *seen) {
    return seen->rows == o->expected.rows && seen->sum == o->expected.sum && seen->bad == 0;
}

/* Of a result that did not come to its end, each row by itself. */
static int is_right(const whi_ops *o, const findings *f, const wh_ops_sums *seen) {
    return f->is_cut ? seen->rows == f->rows && seen->bad == 0 : is_expected(o, seen);
}

static wh_status once(whi_ops *o, const whi_ops_part *part, whi_bench_series *series, findings *f) {
    wh_ops_sums seen;
    wh_status said;
    double us = 0;
    WHI_BENCH_TRY(clear_sums(o));
    WHI_BENCH_TRY(go_through(o, series, f));
    WHI_BENCH_TRY(read_sums(o, &seen));
    series->failed += f->is_cut ? 1 : 0;
    series->bad += !part->is_stage && !is_right(o, f, &seen) ? 1 : 0;
    WHI_BENCH_TRY(clocked(o, o->how->drop, &f->drops, &us, &said));
    whi_bench_add_sample(&f->drops, us);
    return WH_OK;
}

static wh_status repeat(whi_ops *o, const whi_ops_part *part, whi_bench_series *series,
                        findings *f) {
    whi_bench *b = o->b;
    if (!b->on_sim) {
        whi_bench_series none;
        memset(&none, 0, sizeof none);
        WHI_BENCH_TRY(once(o, part, &none, f));
        series->bad += none.bad;
        f->drops.n = 0;
    }
    const double start = whi_bench_wall_seconds();
    for (uint32_t i = 0; i < whi_bench_reps(b, 1); i++) { /* simulated: time alone differs */
        if (i > 0 && (f->is_cut || whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS))) {
            break;
        }
        WHI_BENCH_TRY(once(o, part, series, f));
    }
    return WH_OK;
}

/* --- compaction ------------------------------------------------------------------------------- */

/* Memory for columns; *is_there: the device has so much. */
static wh_status hold_columns(whi_ops *o, int *is_there) {
    whi_bench *b = o->b;
    *is_there = 1;
    for (uint32_t c = 0; c < 3; c++) {
        const uint64_t bytes = o->expected.rows * o->how->column_bytes[c] + 8;
        const wh_status s = wh_device_alloc(b->device, &o->call.column[c], bytes);
        if (s != WH_OK && s != WH_OUT_OF_MEMORY) {
            return whi_bench_check(b, s, "columns");
        }
        *is_there &= s == WH_OK;
    }
    return WH_OK;
}

static void drop_columns(whi_ops *o) {
    for (uint32_t c = 0; c < 3; c++) {
        (void)wh_device_free(o->b->device, o->call.column[c]);
        o->call.column[c] = NULL;
    }
}

static wh_status compact(whi_ops *o, whi_bench_series *series, findings *f) {
    whi_bench_series none;
    wh_ops_sums seen;
    wh_status said;
    memset(&none, 0, sizeof none);
    WHI_BENCH_TRY(clocked(o, o->how->compact, &none, &f->us_compact, &said));
    o->call.n = o->expected.rows;
    WHI_BENCH_TRY(clear_sums(o));
    WHI_BENCH_TRY(whi_ops_launch(o, o->how->columns(o)));
    WHI_BENCH_TRY(read_sums(o, &seen));
    series->bad += said != WH_OK || !is_expected(o, &seen) ? 1 : 0;
    return WH_OK;
}

/* Once more, for the time that the result takes to columns. */
static wh_status measure_columns(whi_ops *o, whi_bench_series *series, findings *f) {
    whi_bench *b = o->b;
    whi_bench_series none;
    int is_there = 0;
    wh_status s = hold_columns(o, &is_there);
    if (s == WH_OK && is_there) {
        memset(&none, 0, sizeof none);
        s = go_through(o, &none, f);
        s = s == WH_OK && f->stops == 0 && !f->is_cut ? compact(o, series, f) : s;
        s = s == WH_OK ? whi_bench_check(b, o->how->drop(o), "a result") : s;
    }
    drop_columns(o);
    return s;
}

/* --- rows ------------------------------------------------------------------------------------- */

int whi_ops_wants_all(const whi_bench *b) {
    return b->options->n_allocs != 0 || b->alloc == wh_allocator_find("default");
}

int whi_ops_leave_out(whi_ops *o, const char *op) {
    const whi_bench_part part = {
        .op = op, .size = o->page_bytes, .threads = o->rows, .input = o->input};
    whi_bench_turn *t = &o->b->turn;
    whi_bench_progress(o->b, o->page_bytes, o->rows);
    const int was = t->left_out.size != 0;
    const int is = whi_bench_leave_out(o->b, part);
    if (is && !was) { /* the name must last */
        (void)snprintf(t->input, sizeof t->input, "%s", o->input);
        t->left_out.input = t->input;
    }
    return is;
}

static whi_bench_row row_of(const whi_ops *o, const whi_ops_part *part) {
    whi_bench_row row = {.phase = "warm",
                         .op = part->op,
                         .size = o->page_bytes,
                         .threads = o->rows,
                         .ops = part->ops,
                         .input = o->input};
    if (o->free_share > 0) {
        whi_bench_add_value(&row, "free_share", o->free_share, 3);
    }
    return row;
}

wh_status whi_ops_created(whi_ops *o, const whi_ops_part *part, wh_status s, int *is_open) {
    *is_open = s == WH_OK;
    if (s == WH_OUT_OF_MEMORY) {
        whi_bench_series none;
        memset(&none, 0, sizeof none);
        none.failed = 1;
        whi_bench_row row = row_of(o, part);
        whi_bench_add_value(&row, "out_rows", 0, 0);
        whi_bench_add_value(&row, "verified", 0, 0);
        return whi_bench_emit(o->b, &row, &none);
    }
    if (s == WH_UNSUPPORTED) {
        o->b->turn.begun = 0; /* no series was */
        return WH_OK;
    }
    return whi_bench_check(o->b, s, "an operator");
}

static wh_status emit(whi_ops *o, const whi_ops_part *part, const whi_bench_series *series,
                      const findings *f) {
    whi_bench_row row = row_of(o, part);
    o->us = f->is_cut ? 0 : whi_bench_median(series->us, series->n);
    if (!part->is_stage) {
        whi_bench_add_value(&row, "out_rows", (double)f->rows, 0);
        whi_bench_add_value(&row, "verified", !f->is_cut && series->bad == 0, 0);
        whi_bench_add_value(&row, "stops", (double)f->stops, 0);
        whi_bench_add_value(&row, "us_drop", whi_bench_median(f->drops.us, f->drops.n), 1);
    }
    if (f->us_compact > 0) {
        whi_bench_add_value(&row, "us_compact", f->us_compact, 1);
    }
    if (o->base_us > 0 && o->us > 0) {
        whi_bench_add_value(&row, o->base, o->us / o->base_us, 3);
    }
    return whi_bench_emit(o->b, &row, series);
}

wh_status whi_ops_measure(whi_ops *o, const whi_ops_part *part) {
    whi_bench_series series;
    findings f;
    memset(&series, 0, sizeof series);
    memset(&f, 0, sizeof f);
    WHI_BENCH_TRY(repeat(o, part, &series, &f));
    const int is_whole = !f.is_cut && f.stops == 0 && series.bad == 0;
    if (!part->is_stage && is_whole && o->how->columns(o) != NULL) {
        WHI_BENCH_TRY(measure_columns(o, &series, &f));
    }
    return emit(o, part, &series, &f);
}

/* --- floors ----------------------------------------------------------------------------------- */

static wh_status cub_memory(whi_ops *o, wh_bench_ops_cub *c) {
    const uint64_t n = c->n[0] > c->n[1] ? c->n[0] : c->n[1];
    WHI_BENCH_TRY(whi_ops_memory(o, &c->sorted_key, 4 * n));
    WHI_BENCH_TRY(whi_ops_memory(o, &c->sorted_value, 4 * n));
    WHI_BENCH_TRY(whi_ops_memory(o, &c->unique, 4 * c->n[0]));
    WHI_BENCH_TRY(whi_ops_memory(o, &c->sums, 8 * c->n[0]));
    WHI_BENCH_TRY(whi_ops_memory(o, &c->n_unique, 4));
    WHI_BENCH_TRY(whi_bench_check(o->b, wh_bench_ops_cub_scratch(c), "memory for CUB"));
    return whi_ops_memory(o, &c->scratch, c->scratch_bytes);
}

static wh_status run_cub(whi_ops *o, const wh_bench_ops_cub *c,
                         wh_status (*run)(const wh_bench_ops_cub *c), whi_bench_series *series) {
    whi_bench *b = o->b;
    whi_bench_watch watch;
    double us = 0;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, run(c), "CUB"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    whi_bench_add_sample(series, us);
    return WH_OK;
}

wh_status whi_ops_floor(whi_ops *o, const whi_ops_part *part, wh_bench_ops_cub *c,
                        wh_status (*run)(const wh_bench_ops_cub *c)) {
    whi_bench *b = o->b;
    const size_t kept = o->n_kept;
    whi_bench_series series;
    memset(&series, 0, sizeof series);
    o->us = 0;
    if (b->on_sim || c->n[0] > INT32_MAX || c->n[1] > INT32_MAX) {
        return WH_OK;
    }
    wh_status s = cub_memory(o, c);
    s = s == WH_OK ? run_cub(o, c, run, &series) : s;
    series.n = 0; /* the first one was for no sample */
    const double start = whi_bench_wall_seconds();
    for (uint32_t i = 0; s == WH_OK && i < b->reps; i++) {
        if (i > 0 && whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
        s = run_cub(o, c, run, &series);
    }
    whi_ops_forget(o, kept);
    WHI_BENCH_TRY(s);
    const whi_bench_row row = row_of(o, part);
    o->us = whi_bench_median(series.us, series.n);
    return whi_bench_emit(b, &row, &series);
}
