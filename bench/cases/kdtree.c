/* kdtree.c: the cases kdtree and kdtree-tight: k-d trees built in one kernel, whose arrays are
 * blocks of a heap: the test "data structure build" of Vinkler and Havran 2015, tables 3 and 4.
 * docs/BENCHMARK.md has the protocol. */
#include "bench/cases/kdtree.h"

#include <string.h>

#include "bench/cases/ops.h"

#define REFERENCE_BYTES 4u
#define AMPLE 200u /* times the root's array, as in table 3 */
#define TIGHT 20u  /* as in table 4 */

/* A row to come. */
typedef struct part {
    const char *op;
    wh_kdtree_kind kind;
} part;

static uint64_t root_bytes(const whi_bench_scene *s) {
    return REFERENCE_BYTES * s->mesh.n_triangles;
}

/* Of the heap of kdtree. */
static uint64_t ample_bytes(const whi_kdb *k) {
    const uint64_t bytes = AMPLE * root_bytes(k->scene), least = k->b->defaults->kd_least;
    return bytes > least ? bytes : least;
}

/* --- rows ------------------------------------------------------------------------------------- */

static int leave_out(whi_kdb *k, const char *op) {
    const whi_bench_part next = {.op = op,
                                 .size = root_bytes(k->scene),
                                 .threads = k->mesh.n_triangles,
                                 .input = k->scene->name};
    whi_bench_progress(k->b, next.size, next.threads);
    return whi_bench_leave_out(k->b, next);
}

static whi_bench_row row_of(const whi_kdb *k, const char *op, uint64_t ops) {
    return (whi_bench_row){.phase = whi_bench_phase(k->b),
                           .op = op,
                           .size = root_bytes(k->scene),
                           .threads = k->mesh.n_triangles,
                           .ops = ops,
                           .input = k->scene->name};
}

static void add_result(whi_bench_row *row, const whi_kdb *k) {
    const wh_kdtree_result *r = &k->result;
    const double n = (double)k->mesh.n_triangles;
    whi_bench_add_value(row, "pool", (double)k->b->heap_bytes / (REFERENCE_BYTES * n), 2);
    whi_bench_add_value(row, "references", (double)r->references / n, 3);
    whi_bench_add_value(row, "requests", (double)r->requests, 0);
    whi_bench_add_value(row, "request_mean", r->request_mean, 1);
    whi_bench_add_value(row, "request_deviation", r->request_deviation, 1);
    whi_bench_add_value(row, "nodes", (double)r->nodes, 0);
    whi_bench_add_value(row, "cost", r->cost, 3);
    whi_bench_add_value(row, "cut_leaves", (double)r->cut_leaves, 0);
}

/* There was no memory for a tree. */
static wh_status emit_none(whi_kdb *k, const char *op) {
    whi_bench_row row = row_of(k, op, k->mesh.n_triangles);
    whi_bench_series none;
    memset(&none, 0, sizeof none);
    none.failed = 1;
    whi_bench_add_value(&row, "verified", 0, 0);
    return whi_bench_emit(k->b, &row, &none);
}

/* --- builds ----------------------------------------------------------------------------------- */

/* Mallocs that got NULL; of a tree that found no room elsewhere, nodes that are not split. */
static uint64_t failures(const wh_kdtree_result *r) {
    return r->failed != 0 ? r->failed : r->cut_leaves;
}

static wh_status finish(whi_kdb *k) {
    const wh_status s = wh_kdtree_finish(k->tree, &k->result);
    return s == WH_OUT_OF_MEMORY ? WH_OK : whi_bench_check(k->b, s, "a tree");
}

/* One build in a heap that is reset if it can be. */
static wh_status build(whi_kdb *k, wh_heap *heap, whi_bench_series *series) {
    whi_bench *b = k->b;
    whi_bench_watch watch;
    double us = 0;
    int is_right = 0;
    if ((wh_heap_allocator(heap)->caps & WH_CAP_RESET) != 0) {
        WHI_BENCH_TRY(whi_bench_check(b, wh_heap_reset(heap), "reset"));
    }
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, wh_kdtree_build(k->tree, &k->mesh, NULL), "a tree"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    WHI_BENCH_TRY(finish(k));
    WHI_BENCH_TRY(whi_kdb_verify(k, 0, &is_right));
    whi_bench_add_sample(series, us);
    series->failed += failures(&k->result);
    series->bad += !is_right;
    return WH_OK;
}

static wh_status builds(whi_kdb *k, wh_heap *heap, whi_bench_series *series) {
    whi_bench *b = k->b;
    if (!b->on_sim) { /* loads the kernel */
        whi_bench_series none;
        memset(&none, 0, sizeof none);
        WHI_BENCH_TRY(build(k, heap, &none));
        series->bad += none.bad;
    }
    const double start = whi_bench_wall_seconds();
    for (uint32_t i = 0; i < whi_bench_reps(b, 1); i++) {
        if (i > 0 && whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
        WHI_BENCH_TRY(build(k, heap, series));
    }
    return WH_OK;
}

/* --- the reference ---------------------------------------------------------------------------- */

/* Builds with `bump`, in a heap of their own. *us: 0 if that cannot be. */
static wh_status measure_base(whi_kdb *k, double *us) {
    whi_bench *b = k->b;
    const wh_allocator_info *bump = wh_allocator_find("bump");
    whi_bench_series series;
    wh_heap *heap = NULL;
    wh_status said = WH_UNSUPPORTED;
    uint64_t least = 0;
    *us = 0;
    if (bump == NULL) {
        return WH_OK;
    }
    memset(&series, 0, sizeof series);
    wh_heap_options o = whi_bench_heap_options(b, bump, 0);
    (void)wh_heap_min_bytes(&o, &least);
    o.bytes = ample_bytes(k) > least ? ample_bytes(k) : least;
    if (wh_heap_create(&heap, &o) != WH_OK) {
        return WH_OK;
    }
    wh_status s = whi_kdb_create(k, heap, &said);
    if (s == WH_OK && said == WH_OK) {
        s = builds(k, heap, &series);
        *us = series.failed + series.bad == 0 ? whi_bench_median(series.us, series.n) : 0;
        const wh_status ended = whi_kdb_destroy(k);
        s = s == WH_OK ? ended : s;
    }
    (void)wh_heap_destroy(heap);
    return s;
}

/* Once for each mesh and kind of a run. */
static wh_status find_base(whi_kdb *k, double *us) {
    whi_bench_scene *scene = k->scene;
    if (!scene->has_base[k->kind]) {
        scene->has_base[k->kind] = 1;
        WHI_BENCH_TRY(measure_base(k, &scene->base_us[k->kind]));
    }
    *us = scene->base_us[k->kind];
    return WH_OK;
}

/* --- build ------------------------------------------------------------------------------------ */

static wh_status emit_builds(whi_kdb *k, const part *p, const whi_bench_series *series) {
    whi_bench_row row = row_of(k, p->op, k->mesh.n_triangles);
    const double us = whi_bench_median(series->us, series->n);
    add_result(&row, k);
    whi_bench_add_value(&row, "verified", series->bad == 0, 0);
    if (k->scene->base_us[k->kind] > 0 && series->failed == 0) { /* a tree that is cut is quick */
        whi_bench_add_value(&row, "ratio_bump", us / k->scene->base_us[k->kind], 3);
    }
    return whi_bench_emit(k->b, &row, series);
}

/* The row, and the tree is there afterwards, unless there was no memory for one. */
static wh_status build_row(whi_kdb *k, const part *p) {
    whi_bench_series series;
    wh_status said;
    double base = 0;
    int is_right = 1;
    memset(&series, 0, sizeof series);
    k->kind = p->kind;
    WHI_BENCH_TRY(find_base(k, &base));
    WHI_BENCH_TRY(whi_kdb_create(k, k->b->heap, &said));
    if (said != WH_OK) {
        return emit_none(k, p->op);
    }
    WHI_BENCH_TRY(builds(k, k->b->heap, &series));
    WHI_BENCH_TRY(whi_kdb_verify_all(k, &is_right));
    series.bad += !is_right;
    return emit_builds(k, p, &series);
}

/* Likewise, and the tree is gone afterwards. */
static wh_status kind_row(whi_kdb *k, const part *p) {
    if (leave_out(k, p->op)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(build_row(k, p));
    return whi_kdb_destroy(k);
}

/* --- rays ------------------------------------------------------------------------------------- */

static wh_status trace(whi_kdb *k, whi_bench_series *series) {
    whi_bench *b = k->b;
    whi_bench_watch watch;
    double us = 0;
    wh_kdtree_rays r;
    memset(&r, 0, sizeof r);
    r.rays = k->rays;
    r.hits = k->hits;
    r.n = b->defaults->kd_rays;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, wh_kdtree_trace(k->tree, &r, NULL), "rays"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    whi_bench_add_sample(series, us);
    return WH_OK;
}

/* Of the tree that is there. */
static wh_status trace_row(whi_kdb *k) {
    whi_bench *b = k->b;
    const uint64_t n = b->defaults->kd_rays;
    whi_bench_series series;
    int is_right = 0;
    if (k->tree == NULL || leave_out(k, "trace")) {
        return WH_OK;
    }
    memset(&series, 0, sizeof series);
    WHI_BENCH_TRY(trace(k, &series));
    series.n = b->on_sim ? series.n : 0; /* a GPU's first one was for no sample */
    const double start = whi_bench_wall_seconds();
    while (series.n < whi_bench_reps(b, 1)) {
        if (series.n > 0 && whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
        WHI_BENCH_TRY(trace(k, &series));
    }
    WHI_BENCH_TRY(whi_kdb_verify(k, 0, &is_right));
    series.bad += !is_right;
    whi_bench_row row = row_of(k, "trace", n);
    add_result(&row, k);
    whi_bench_add_value(&row, "verified", is_right, 0);
    return whi_bench_emit(b, &row, &series);
}

/* --- frames ----------------------------------------------------------------------------------- */

/* As many builds as a repetition has. is_each: each one is waited for, and its failures count. */
static wh_status build_frames(whi_kdb *k, int is_each, whi_bench_series *series) {
    whi_bench *b = k->b;
    for (uint32_t i = 0; i < b->defaults->kd_frames; i++) {
        wh_kdtree_mesh mesh = k->mesh;
        mesh.vertices = k->shapes[i % WHI_KDB_SHAPES];
        WHI_BENCH_TRY(whi_bench_check(b, wh_kdtree_build(k->tree, &mesh, NULL), "a frame"));
        if (is_each) {
            WHI_BENCH_TRY(finish(k));
            series->failed += failures(&k->result);
        }
    }
    return WH_OK;
}

static wh_status time_frames(whi_kdb *k, whi_bench_series *series) {
    whi_bench *b = k->b;
    whi_bench_watch watch;
    double us = 0;
    int is_right = 0;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(build_frames(k, 0, series));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    WHI_BENCH_TRY(finish(k));
    WHI_BENCH_TRY(whi_kdb_verify(k, 1, &is_right));
    whi_bench_add_sample(series, us);
    series->failed += failures(&k->result);
    series->bad += !is_right;
    return WH_OK;
}

/* Of the tree that is there, whose heap has all blocks back. */
static wh_status frames_row(whi_kdb *k) {
    whi_bench *b = k->b;
    const uint32_t frames = b->defaults->kd_frames;
    whi_bench_series series;
    if (k->tree == NULL || !whi_bench_can(b, WH_CAP_FREE) || leave_out(k, "frames")) {
        return WH_OK;
    }
    memset(&series, 0, sizeof series);
    WHI_BENCH_TRY(whi_kdb_make_shapes(k));
    WHI_BENCH_TRY(build_frames(k, 1, &series));
    const double start = whi_bench_wall_seconds();
    for (uint32_t i = 0; i < whi_bench_reps(b, 1); i++) {
        if (i > 0 && whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
        WHI_BENCH_TRY(time_frames(k, &series));
    }
    whi_bench_row row = row_of(k, "frames", frames * k->mesh.n_triangles);
    row.phase = "warm";
    add_result(&row, k);
    whi_bench_add_value(&row, "verified", series.bad == 0, 0);
    whi_bench_add_value(&row, "us_frame", whi_bench_median(series.us, series.n) / frames, 1);
    return whi_bench_emit(b, &row, &series);
}

/* --- the floor -------------------------------------------------------------------------------- */

static wh_status cub_memory(whi_kdb *k, wh_bench_kdtree_cub *c) {
    c->vertices = k->mesh.vertices;
    c->triangles = k->mesh.triangles;
    c->n = k->mesh.n_triangles;
    memcpy(c->lo, k->lo, sizeof c->lo);
    memcpy(c->hi, k->hi, sizeof c->hi);
    WHI_BENCH_TRY(whi_kdb_memory(k, &c->code, 8 * c->n));
    WHI_BENCH_TRY(whi_kdb_memory(k, &c->sorted_code, 8 * c->n));
    WHI_BENCH_TRY(whi_kdb_memory(k, &c->number, 4 * c->n));
    WHI_BENCH_TRY(whi_kdb_memory(k, &c->sorted_number, 4 * c->n));
    WHI_BENCH_TRY(whi_bench_check(k->b, wh_bench_kdtree_cub_scratch(c), "memory for CUB"));
    WHI_BENCH_TRY(whi_kdb_memory(k, &c->scratch, c->scratch_bytes));
    return whi_bench_check(k->b, wh_bench_kdtree_cub_codes(c), "codes");
}

static wh_status run_cub(whi_kdb *k, const wh_bench_kdtree_cub *c, whi_bench_series *series) {
    whi_bench *b = k->b;
    whi_bench_watch watch;
    double us = 0;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, wh_bench_kdtree_cub_sort(c), "CUB"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    whi_bench_add_sample(series, us);
    return WH_OK;
}

static wh_status floor_row(whi_kdb *k) {
    whi_bench *b = k->b;
    const size_t kept = k->n_kept;
    wh_bench_kdtree_cub c;
    whi_bench_series series;
    if (b->on_sim || leave_out(k, "floor-cub-sort")) {
        return WH_OK;
    }
    memset(&c, 0, sizeof c);
    memset(&series, 0, sizeof series);
    wh_status s = cub_memory(k, &c);
    s = s == WH_OK ? run_cub(k, &c, &series) : s;
    series.n = 0; /* the first one was for no sample */
    for (uint32_t i = 0; s == WH_OK && i < b->reps; i++) {
        s = run_cub(k, &c, &series);
    }
    whi_kdb_forget(k, kept);
    WHI_BENCH_TRY(s);
    whi_bench_row row = row_of(k, "floor-cub-sort", k->mesh.n_triangles);
    row.phase = "warm";
    return whi_bench_emit(b, &row, &series);
}

/* --- kdtree ----------------------------------------------------------------------------------- */

static wh_status ample_rows(whi_kdb *k) {
    static const part whole = {"build", WH_KDTREE_CLIPPED};
    static const part others[] = {{"build-boxes", WH_KDTREE_BOXES},
                                  {"build-points", WH_KDTREE_POINTS}};
    const int is_all = whi_ops_wants_all(k->b);
    WHI_BENCH_TRY(whi_ops_open_heap(k->b, ample_bytes(k), k->b->defaults->kd_page));
    if (leave_out(k, whole.op)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(build_row(k, &whole));
    if (is_all) {
        WHI_BENCH_TRY(trace_row(k));
        WHI_BENCH_TRY(frames_row(k));
    }
    WHI_BENCH_TRY(whi_kdb_destroy(k));
    for (size_t i = 0; is_all && i < sizeof others / sizeof *others; i++) {
        WHI_BENCH_TRY(kind_row(k, &others[i]));
    }
    return is_all ? floor_row(k) : WH_OK;
}

/* --- kdtree-tight ----------------------------------------------------------------------------- */

/* Whether so many builds in a row split every node, in a heap of so many bytes. */
static wh_status fits(whi_kdb *k, uint64_t bytes, int *does) {
    whi_bench *b = k->b;
    whi_bench_series none;
    wh_status said;
    *does = 0;
    memset(&none, 0, sizeof none);
    if (whi_ops_try_heap(b, bytes, b->defaults->kd_page) != WH_OK) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_kdb_create(k, b->heap, &said));
    if (said != WH_OK) {
        return WH_OK;
    }
    for (uint32_t i = 0; i < b->defaults->kd_trials && none.failed + none.bad == 0; i++) {
        WHI_BENCH_TRY(build(k, b->heap, &none));
    }
    *does = none.failed + none.bad == 0;
    return whi_kdb_destroy(k);
}

/* The least heap that does, within a sixteenth, by halving; 0: none up to that of kdtree. Time may
 * end it early: then a larger one that does, or 0. */
static wh_status search(whi_kdb *k, uint64_t *bytes) {
    whi_bench *b = k->b;
    const uint64_t ample = ample_bytes(k), unit = 1024;
    uint64_t low = whi_bench_least_heap(b), high = TIGHT * root_bytes(k->scene);
    int does = 0;
    *bytes = 0;
    high = high > low ? high : low;
    for (;;) { /* upwards, to one that does */
        WHI_BENCH_TRY(fits(k, high, &does));
        if (does || high >= ample || leave_out(k, "build-least")) {
            break;
        }
        low = high;
        high = 2 * high < ample ? 2 * high : ample;
    }
    if (!does) {
        return WH_OK;
    }
    /* More than two units, so that `middle`, rounded down, is between the two. */
    while (high > low && high - low > high / 16 + 2 * unit && !leave_out(k, "build-least")) {
        const uint64_t middle = (low + (high - low) / 2) / unit * unit;
        WHI_BENCH_TRY(fits(k, middle, &does));
        low = does ? low : middle;
        high = does ? middle : high;
    }
    *bytes = high;
    return WH_OK;
}

static wh_status least_row(whi_kdb *k) {
    static const part least = {"build-least", WH_KDTREE_CLIPPED};
    whi_bench *b = k->b;
    uint64_t bytes = 0;
    if (leave_out(k, least.op)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(search(k, &bytes));
    if (b->turn.left_out.size != 0) {
        return WH_OK; /* time was over */
    }
    if (bytes == 0) {
        return emit_none(k, least.op);
    }
    WHI_BENCH_TRY(whi_bench_check(b, whi_ops_try_heap(b, bytes, b->defaults->kd_page), "heap"));
    WHI_BENCH_TRY(build_row(k, &least));
    return whi_kdb_destroy(k);
}

static wh_status tight_rows(whi_kdb *k) {
    static const part whole = {"build", WH_KDTREE_CLIPPED};
    whi_bench *b = k->b;
    const uint64_t bytes = TIGHT * root_bytes(k->scene);
    WHI_BENCH_TRY(whi_ops_open_heap(b, bytes, b->defaults->kd_page));
    WHI_BENCH_TRY(kind_row(k, &whole));
    return b->options->heap_bytes == 0 ? least_row(k) : WH_OK;
}

/* --- the cases -------------------------------------------------------------------------------- */

static wh_status run(whi_bench *b, whi_bench_scene *scene, wh_status (*rows)(whi_kdb *k)) {
    whi_kdb k;
    WHI_BENCH_TRY(whi_bench_new_share(b));
    wh_status s = whi_kdb_begin(b, &k, scene);
    s = s == WH_OK ? rows(&k) : s;
    whi_kdb_end(&k);
    whi_bench_close_heap(b);
    return s;
}

static wh_status all_scenes(whi_bench *b, wh_status (*rows)(whi_kdb *k)) {
    b->turn.limits = WHI_BENCH_LONG_CASE_LIMITS;
    WHI_BENCH_TRY(whi_ops_wake(b));
    for (size_t i = 0; i < b->n_scenes; i++) {
        WHI_BENCH_TRY(run(b, &b->scenes[i], rows));
    }
    return WH_OK;
}

wh_status whi_bench_case_kdtree(whi_bench *b) {
    if (!whi_bench_can(b, WH_CAP_DISJOINT)) {
        return whi_bench_emit_skipped(b, "its blocks may overlap");
    }
    return all_scenes(b, ample_rows);
}

wh_status whi_bench_case_kdtree_tight(whi_bench *b) {
    if (!whi_bench_can(b, WH_CAP_DISJOINT)) {
        return whi_bench_emit_skipped(b, "its blocks may overlap");
    }
    if (!whi_bench_can(b, WH_CAP_OWN_MEMORY)) {
        return whi_bench_emit_skipped(b, "the size of its heap is not the case's");
    }
    return all_scenes(b, tight_rows);
}
