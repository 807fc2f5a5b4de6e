/* graph_sets.c: the case graph-sets: a graph of warpheap::graph takes batches of arcs and gives
 * them back. The sources are any vertices (uniform), a thousand that follow one another (focus), or
 * ten (hub). docs/BENCHMARK.md has the protocol. */
#include <stdlib.h>
#include <string.h>

#include "bench/driver/internal.h"
#include "warpheap/graph.h"

#define FOCUS 1000u
#define HUBS 10u

enum { UNIFORM, FOCUSED, HUB, DISTRIBUTIONS };

static const char *const kinds[] = {"lattice", "faim"};
static const char *const insert_names[] = {"insert-uniform", "insert-focus", "insert-hub"};
static const char *const erase_names[] = {"erase-uniform", "erase-focus", "erase-hub"};

typedef struct sets_state {
    whi_bench_plan p;
    const char *input;
    const char *kind; /* of the graph */
    char op[40];
    wh_graph *graph;
    uint32_t n_vertices;
    uint32_t *from, *to; /* a batch, on the host and on the device */
    void *device_from, *device_to, *device_done;
    uint64_t room, random;
} sets_state;

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 31) * 0x7fb5d329728ea185u;
    z = (z ^ z >> 27) * 0x81dadef4bc2dd44du;
    return z ^ z >> 33;
}

/* --- graphs ---------------------------------------------------------------------------------- */

/* Both ends of an arc, uniform; or by R-MAT with the usual shares 0.57, 0.19, 0.19, 0.05
 * (Chakrabarti et al., 2004), for 2^scale vertices. */
static void random_arc(uint64_t *random, uint32_t scale, int is_rmat, uint32_t *from,
                       uint32_t *to) {
    if (!is_rmat) {
        *from = (uint32_t)next_random(random) & ((1u << scale) - 1);
        *to = (uint32_t)next_random(random) & ((1u << scale) - 1);
        return;
    }
    *from = *to = 0;
    for (uint32_t k = 0; k < scale; k++) {
        const uint32_t percent = (uint32_t)(next_random(random) % 100);
        *from = *from << 1 | (percent >= 76);
        *to = *to << 1 | ((percent >= 57 && percent < 76) || percent >= 95);
    }
}

static wh_status generate(whi_bench *b, int is_rmat, wh_graph_csr *csr) {
    const uint32_t scale = b->defaults->graph_scale;
    const uint64_t n = (uint64_t)16 << scale;
    uint64_t random = b->options->seed + 1;
    uint32_t *from = malloc(n * sizeof *from);
    uint32_t *to = malloc(n * sizeof *to);
    wh_status s = from != NULL && to != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    for (uint64_t i = 0; s == WH_OK && i < n; i++) {
        random_arc(&random, scale, is_rmat, &from[i], &to[i]);
    }
    s = s == WH_OK ? wh_graph_csr_build(csr, 1u << scale, from, to, n, NULL) : s;
    free(from);
    free(to);
    return s;
}

/* --- batches ---------------------------------------------------------------------------------- */

static wh_status open_batches(sets_state *s, uint64_t n) {
    whi_bench *b = s->p.b;
    s->from = malloc(n * sizeof *s->from);
    s->to = malloc(n * sizeof *s->to);
    if (s->from == NULL || s->to == NULL) {
        return whi_bench_fail(b, WH_OUT_OF_MEMORY, "no memory for a batch");
    }
    s->room = n;
    wh_status status = wh_device_alloc(b->device, &s->device_from, n * 4);
    status = status == WH_OK ? wh_device_alloc(b->device, &s->device_to, n * 4) : status;
    status = status == WH_OK ? wh_device_alloc(b->device, &s->device_done, n) : status;
    return whi_bench_check(b, status, "memory for batches");
}

static void drop(sets_state *s) {
    whi_bench *b = s->p.b;
    free(s->from);
    free(s->to);
    (void)wh_device_free(b->device, s->device_from);
    (void)wh_device_free(b->device, s->device_to);
    (void)wh_device_free(b->device, s->device_done);
    (void)wh_graph_destroy(s->graph);
}

/* A new batch, on the host and on the device. */
static wh_status draw(sets_state *s, uint64_t n, int distribution) {
    whi_bench *b = s->p.b;
    const uint32_t all = s->n_vertices;
    const uint32_t few = distribution == FOCUSED ? FOCUS : HUBS;
    const uint32_t span = distribution == UNIFORM || few > all ? all : few;
    const uint32_t first =
        (uint32_t)(next_random(&s->random) % (uint64_t)(all - (span == all ? all - 1 : span)));
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t v = (uint32_t)(next_random(&s->random) % span);
        s->from[i] = span == all ? v : first + v;
        s->to[i] = (uint32_t)(next_random(&s->random) % all);
    }
    wh_status status = wh_device_copy_in(b->device, s->device_from, s->from, n * 4);
    status = status == WH_OK ? wh_device_copy_in(b->device, s->device_to, s->to, n * 4) : status;
    return whi_bench_check(b, status, "a batch");
}

static wh_graph_batch batch_of(const sets_state *s, uint64_t n, int on_device) {
    wh_graph_batch batch;
    memset(&batch, 0, sizeof batch);
    batch.from = on_device ? s->device_from : s->from;
    batch.to = on_device ? s->device_to : s->to;
    batch.n = n;
    batch.on_device = on_device;
    return batch;
}

typedef wh_status (*update_fn)(wh_graph *graph, const wh_graph_batch *batch,
                               wh_graph_result *result);

/* An update whose arrays are on the device, timed. */
static wh_status update(sets_state *s, update_fn fn, uint64_t n, whi_bench_series *series) {
    whi_bench *b = s->p.b;
    const wh_graph_batch batch = batch_of(s, n, 1);
    whi_bench_watch watch;
    double us = 0;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, fn(s->graph, &batch, NULL), "a batch"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    whi_bench_add_sample(series, us);
    return WH_OK;
}

/* The same from arrays of the host, with its result, by the host's clock. */
static wh_status update_from_host(sets_state *s, update_fn fn, uint64_t n, double *us,
                                  wh_graph_result *result) {
    const wh_graph_batch batch = batch_of(s, n, 0);
    const double start = whi_bench_wall_seconds();
    const wh_status status = fn(s->graph, &batch, result);
    *us = 1e6 * (whi_bench_wall_seconds() - start);
    return whi_bench_check(s->p.b, status, "a batch of the host");
}

/* The class of the graph stands in front of the operation, but for the default one. The text is
 * good until the next row. */
static whi_bench_row row_of(sets_state *s, const char *op, uint64_t n) {
    const int is_default = strcmp(s->kind, kinds[0]) == 0;
    (void)snprintf(s->op, sizeof s->op, "%s%s%s", is_default ? "" : s->kind, is_default ? "" : "-",
                   op);
    whi_bench_row row = {.phase = "warm", .op = s->op, .threads = n, .ops = n, .input = s->input};
    return row;
}

/* Batches go in, and the same out again. */
static wh_status rounds(sets_state *s, uint64_t n, int distribution) {
    whi_bench *b = s->p.b;
    const double start = whi_bench_wall_seconds();
    whi_bench_row in = row_of(s, insert_names[distribution], n);
    wh_graph_result inserted, erased;
    double us_in = 0, us_out = 0;
    memset(&s->p.mallocs, 0, sizeof s->p.mallocs);
    memset(&s->p.frees, 0, sizeof s->p.frees);
    WHI_BENCH_TRY(whi_bench_need_ptrs(b, n));
    whi_bench_aim(&s->p, (whi_bench_blocks){n, 0, 0});
    WHI_BENCH_TRY(whi_bench_floor(&s->p, b->kernels->floor_single, n, &in.us_null));
    for (uint32_t i = 0; i < b->reps; i++) {
        if (i > 0 && whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
        WHI_BENCH_TRY(draw(s, n, distribution));
        WHI_BENCH_TRY(update(s, wh_graph_insert, n, &s->p.mallocs));
        WHI_BENCH_TRY(update(s, wh_graph_erase, n, &s->p.frees));
    }
    WHI_BENCH_TRY(update_from_host(s, wh_graph_insert, n, &us_in, &inserted));
    WHI_BENCH_TRY(update_from_host(s, wh_graph_erase, n, &us_out, &erased));
    /* What went in comes out; and of what was there before, erased in the last repetition, nothing.
     */
    s->p.mallocs.bad += inserted.applied != erased.applied;
    whi_bench_add_value(&in, "us_e2e", us_in, 1);
    whi_bench_add_value(&in, "applied", (double)inserted.applied, 0);
    WHI_BENCH_TRY(whi_bench_emit(b, &in, &s->p.mallocs));
    whi_bench_row out = row_of(s, erase_names[distribution], n);
    out.us_null = in.us_null;
    whi_bench_add_value(&out, "us_e2e", us_out, 1);
    whi_bench_add_value(&out, "applied", (double)erased.applied, 0);
    return whi_bench_emit(b, &out, &s->p.frees);
}

static wh_status questions(sets_state *s, uint64_t n) {
    whi_bench *b = s->p.b;
    whi_bench_row row = row_of(s, "has", n);
    memset(&s->p.mallocs, 0, sizeof s->p.mallocs);
    for (uint32_t i = 0; i < b->reps; i++) {
        whi_bench_watch watch;
        double us = 0;
        WHI_BENCH_TRY(draw(s, n, UNIFORM));
        wh_graph_batch batch = batch_of(s, n, 1);
        batch.done = s->device_done;
        WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
        WHI_BENCH_TRY(whi_bench_check(b, wh_graph_has(s->graph, &batch), "questions"));
        WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, &s->p.mallocs, &us));
        whi_bench_add_sample(&s->p.mallocs, us);
    }
    return whi_bench_emit(b, &row, &s->p.mallocs);
}

/* --- the case ----------------------------------------------------------------------------------
 */

/* The graph from arrays of the host: the whole call. */
static wh_status init(sets_state *s, const wh_graph_csr *csr) {
    whi_bench *b = s->p.b;
    whi_bench_row row = row_of(s, "init", csr->n_vertices);
    wh_graph_options o;
    wh_graph_stats stats;
    wh_graph_result result;
    memset(&o, 0, sizeof o);
    memset(&stats, 0, sizeof stats);
    o.heap = b->heap;
    o.kind = s->kind;
    o.vertices = csr->n_vertices;
    o.batch = csr->n_arcs < WH_GRAPH_MOST_ARCS ? csr->n_arcs : 0;
    WHI_BENCH_TRY(whi_bench_check(b, wh_graph_create(&s->graph, &o), "a graph"));
    const wh_graph_arrays arrays = {.offset = csr->offset, .to = csr->to};
    const double start = whi_bench_wall_seconds();
    const wh_status status = wh_graph_from_csr(s->graph, &arrays, &result);
    WHI_BENCH_TRY(whi_bench_check(b, status, "a graph from arrays"));
    whi_bench_set_sample(&s->p.mallocs, 1e6 * (whi_bench_wall_seconds() - start));
    WHI_BENCH_TRY(whi_bench_check(b, wh_graph_get_stats(s->graph, &stats), "statistics"));
    row.ops = csr->n_arcs;
    s->p.mallocs.bad =
        result.applied + result.no_change != csr->n_arcs || stats.arcs != result.applied;
    whi_bench_add_value(&row, "arcs", (double)stats.arcs, 0);
    whi_bench_add_value(&row, "max_degree", (double)stats.max_degree, 0);
    whi_bench_add_value(&row, "block_bytes", (double)stats.block_bytes, 0);
    return whi_bench_emit(b, &row, &s->p.mallocs);
}

/* The whole graph at the end. */
static wh_status look(sets_state *s) {
    whi_bench *b = s->p.b;
    whi_bench_row row = row_of(s, "check", s->n_vertices);
    memset(&s->p.mallocs, 0, sizeof s->p.mallocs);
    const double start = whi_bench_wall_seconds();
    s->p.mallocs.bad = wh_graph_check(s->graph, NULL) != WH_OK;
    whi_bench_set_sample(&s->p.mallocs, 1e6 * (whi_bench_wall_seconds() - start));
    return whi_bench_emit(b, &row, &s->p.mallocs);
}

/* The user's, or the case's own. */
static whi_bench_list batches_of(const whi_bench *b) {
    whi_bench_list l = {b->options->threads, b->options->n_threads};
    if (l.n == 0) {
        l.v = b->defaults->graph_batches;
        while (l.v[l.n] != 0) {
            l.n++;
        }
    }
    return l;
}

static wh_status all_rounds(sets_state *s, const wh_graph_csr *csr) {
    whi_bench *b = s->p.b;
    const whi_bench_list batches = batches_of(b);
    uint64_t most = 1;
    for (size_t i = 0; i < batches.n; i++) {
        most = batches.v[i] > most ? batches.v[i] : most;
    }
    WHI_BENCH_TRY(open_batches(s, most));
    WHI_BENCH_TRY(init(s, csr));
    for (int distribution = 0; distribution < DISTRIBUTIONS; distribution++) {
        for (size_t i = 0; i < batches.n; i++) {
            const whi_bench_part part = {.op = insert_names[distribution],
                                         .size = 2 * sizeof(uint32_t), /* of an arc */
                                         .threads = batches.v[i]};
            if (!whi_bench_leave_out(b, part)) {
                WHI_BENCH_TRY(rounds(s, batches.v[i], distribution));
            }
        }
    }
    if (b->turn.left_out.size == 0) {
        WHI_BENCH_TRY(questions(s, most));
    }
    return look(s);
}

/* Room for all adjacencies, with what they grow by, beside those that they had. */
static uint64_t bytes_for(const whi_bench *b, uint64_t arcs, uint64_t vertices) {
    const uint64_t need = 24 * arcs + 64 * vertices + ((uint64_t)64 << 20);
    const uint64_t own = b->defaults->heap_bytes;
    return whi_bench_case_heap(b, need > own ? need : own);
}

static wh_status run(whi_bench *b, const char *name, const wh_graph_csr *csr) {
    const uint64_t bytes = bytes_for(b, csr->n_arcs, csr->n_vertices);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds && b->turn.left_out.size == 0; k++) {
        sets_state s;
        memset(&s, 0, sizeof s);
        s.input = name;
        s.kind = kinds[k];
        s.n_vertices = csr->n_vertices;
        s.random = b->options->seed;
        whi_bench_progress(b, 0, csr->n_arcs);
        whi_bench_close_heap(b);
        WHI_BENCH_TRY(whi_bench_begin(b, &s.p, bytes, (whi_bench_blocks){0, 0, 0}));
        const wh_status status = all_rounds(&s, csr);
        drop(&s);
        WHI_BENCH_TRY(status);
    }
    return WH_OK;
}

wh_status whi_bench_case_graph_sets(whi_bench *b) {
    static const char *const generated[] = {"uniform", "rmat"};
    const size_t n = b->options->n_inputs != 0 ? b->n_graphs : 2;
    if (!whi_bench_can(b, WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_OWNS | WH_CAP_USABLE_SIZE) ||
        b->alloc->max_size < (uint64_t)1 << 20) {
        return WH_OK; /* an adjacency is one block */
    }
    for (size_t i = 0; i < n; i++) {
        wh_graph_csr csr;
        const int is_file = b->options->n_inputs != 0;
        const wh_graph_arcs *arcs = is_file ? &b->graphs[i].arcs : NULL;
        memset(&csr, 0, sizeof csr);
        wh_status s = is_file ? wh_graph_csr_build(&csr, arcs->n_vertices, arcs->from, arcs->to,
                                                   arcs->n_arcs, NULL)
                              : generate(b, i == 1, &csr);
        if (s != WH_OK) {
            return whi_bench_fail(b, s, "no memory for a graph");
        }
        if (csr.n_vertices != 0) {
            s = run(b, is_file ? b->graphs[i].name : generated[i], &csr);
        }
        wh_graph_csr_free(&csr);
        WHI_BENCH_TRY(s);
    }
    return WH_OK;
}
