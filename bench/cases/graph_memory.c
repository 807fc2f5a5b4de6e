/* graph_memory.c: the case graph-memory: rounds of insertions and erasures until the heap is full,
 * and what the graph takes then: Uniform, Random and Sweep of Winter's thesis (4.3.2); and a graph
 * that gets a heap of 105 % again and again (4.3.3). */
#include <string.h>

#include "bench/cases/dgraph.h"

#define SWEEP 100u      /* sources of a round of the sweep */
#define TEST_LIMITS 3.0 /* of a test; each ends by itself */

enum { UNIFORM, RANDOM, SWEEPING, TESTS };
static const char *const test_names[TESTS] = {"uniform", "random", "sweep"};

typedef struct test {
    int which;
    uint64_t n;
    uint32_t rounds, in; /* made; of `random`: batches that are in */
    uint64_t before, most, after;
    int full;
    whi_bench_series series;
} test;

/* A batch that its number gives: again the same one. */
static wh_status draw(whi_dgraph *g, const test *t, uint32_t number) {
    const uint32_t all = g->csr->n_vertices;
    g->random = g->p.b->options->seed + ((uint64_t)(number + 1) << 32);
    if (t->which == SWEEPING) {
        const uint32_t span = SWEEP < all ? SWEEP : all;
        return whi_dgraph_draw_range(g, t->n, (uint32_t)((uint64_t)number * span % all), span);
    }
    return whi_dgraph_draw(g, t->n, WHI_DGRAPH_UNIFORM);
}

/* Adds its time to that of the round. */
static wh_status apply(whi_dgraph *g, test *t, whi_dgraph_update u, double *us) {
    whi_bench_series once;
    wh_graph_result result;
    uint64_t bytes = 0;
    memset(&once, 0, sizeof once);
    u.series = &once;
    u.result = &result;
    WHI_BENCH_TRY(whi_dgraph_apply(g, u));
    WHI_BENCH_TRY(whi_dgraph_bytes(g, &bytes));
    t->most = bytes > t->most ? bytes : t->most;
    t->series.steps += once.steps;
    t->series.atomics += once.atomics;
    t->series.failed += result.refused;
    t->full |= result.refused != 0;
    *us += once.us[0];
    return WH_OK;
}

static wh_status one_round(whi_dgraph *g, test *t) {
    const whi_dgraph_update insert = {.fn = wh_graph_insert, .n = t->n, .with_done = 1};
    whi_dgraph_update erase = {.fn = wh_graph_erase, .n = t->n};
    double us = 0;
    if (t->which != RANDOM) {
        WHI_BENCH_TRY(draw(g, t, t->rounds));
        WHI_BENCH_TRY(apply(g, t, insert, &us));
        WHI_BENCH_TRY(whi_dgraph_keep_applied(g, t->n, &erase.n));
        WHI_BENCH_TRY(erase.n != 0 ? apply(g, t, erase, &us) : WH_OK);
    } else {
        uint64_t coin = g->p.b->options->seed + 77 * (t->rounds + (uint64_t)1);
        const int in = t->in == 0 || whi_dgraph_random(&coin) % 2 == 0;
        WHI_BENCH_TRY(draw(g, t, in ? t->in : t->in - 1)); /* the last one goes out first */
        WHI_BENCH_TRY(apply(g, t, in ? insert : erase, &us));
        t->in = in ? t->in + 1 : t->in - 1;
    }
    whi_bench_add_sample(&t->series, us);
    t->rounds++;
    return WH_OK;
}

static wh_status run_test(whi_dgraph *g, int which, uint64_t n) {
    whi_bench *b = g->p.b;
    const double start = whi_bench_wall_seconds();
    test t;
    memset(&t, 0, sizeof t);
    t.which = which;
    t.n = n;
    WHI_BENCH_TRY(whi_dgraph_load(g));
    WHI_BENCH_TRY(whi_dgraph_bytes(g, &t.before));
    t.most = t.before;
    while (t.rounds < whi_dgraph_rounds(b) && !t.full &&
           (t.rounds == 0 || !whi_bench_over(b, start, TEST_LIMITS))) {
        WHI_BENCH_TRY(one_round(g, &t));
    }
    WHI_BENCH_TRY(whi_dgraph_bytes(g, &t.after));
    t.series.bad += wh_graph_check(g->graph, NULL) != WH_OK;
    whi_bench_row row = whi_dgraph_row(g, test_names[which], n);
    row.ops = which == RANDOM ? n : 2 * n;
    whi_bench_add_value(&row, "rounds", t.rounds, 0);
    whi_bench_add_value(&row, "full", t.full, 0);
    whi_bench_add_value(&row, "bytes_before", (double)t.before, 0);
    whi_bench_add_value(&row, "bytes_most", (double)t.most, 0);
    whi_bench_add_value(&row, "bytes_after", (double)t.after, 0);
    return whi_bench_emit(b, &row, &t.series);
}

/* --- 105 % ------------------------------------------------------------------------------------ */

/* The heap moves, and the graph with it. */
static wh_status grow(whi_dgraph *g, uint64_t bytes) {
    whi_bench *b = g->p.b;
    int64_t moved = 0;
    WHI_BENCH_TRY(whi_bench_check(b, wh_heap_grow(b->heap, bytes, NULL, &moved), "growth"));
    b->heap_bytes = bytes;
    WHI_BENCH_TRY(whi_bench_check(b, b->kernels->bind(b->heap, &b->handle), "growth"));
    WHI_BENCH_TRY(whi_bench_check(b, wh_graph_rebase(g->graph, moved), "a graph that moves"));
    return whi_bench_check(b, wh_device_sync(b->device), "growth");
}

/* A new heap, and the graph from its arrays. */
static wh_status rebuild(whi_dgraph *g, uint64_t bytes, wh_graph_arrays arrays) {
    whi_bench *b = g->p.b;
    uint64_t n = 0;
    WHI_BENCH_TRY(whi_bench_check(b, wh_graph_to_csr(g->graph, &arrays, &n), "arrays"));
    WHI_BENCH_TRY(whi_dgraph_destroy(g));
    WHI_BENCH_TRY(whi_bench_open_heap(b, bytes));
    WHI_BENCH_TRY(whi_dgraph_create(g));
    return whi_bench_check(b, wh_graph_from_csr(g->graph, &arrays, NULL), "a graph from arrays");
}

/* The graph in a heap that has room for it and for little else. */
static wh_status load_in_small_heap(whi_dgraph *g) {
    whi_bench *b = g->p.b;
    const uint64_t spare = b->on_sim ? (uint64_t)1 << 20 : (uint64_t)64 << 20;
    const uint64_t own = b->heap_bytes;
    uint64_t bytes =
        whi_bench_least_heap(b) + 24 * g->csr->n_arcs + 128 * (uint64_t)g->csr->n_vertices + spare;
    int fits = b->options->heap_bytes != 0;
    while (!fits && bytes < own) {
        WHI_BENCH_TRY(whi_dgraph_destroy(g));
        WHI_BENCH_TRY(whi_bench_open_heap(b, (bytes + 4095) / 4096 * 4096));
        WHI_BENCH_TRY(whi_dgraph_try_load(g, &fits));
        bytes *= 2;
    }
    if (fits && b->heap_bytes != own) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_dgraph_destroy(g));
    WHI_BENCH_TRY(whi_bench_open_heap(b, own));
    return whi_dgraph_load(g);
}

/* By the host's clock: heaps are made by host calls. */
static wh_status reinit(whi_dgraph *g) {
    whi_bench *b = g->p.b;
    const int can_grow = whi_bench_can(b, WH_CAP_GROW);
    const char *op = can_grow ? "grow" : "rebuild";
    void *offset = NULL, *to = NULL;
    whi_bench_series series;
    uint64_t arcs = 0;
    memset(&series, 0, sizeof series);
    WHI_BENCH_TRY(load_in_small_heap(g));
    const uint64_t first = b->heap_bytes;
    WHI_BENCH_TRY(whi_dgraph_memory(g, &offset, 8 * (g->csr->n_vertices + (uint64_t)1)));
    WHI_BENCH_TRY(whi_dgraph_memory(g, &to, 4 * g->csr->n_arcs));
    const wh_graph_arrays arrays = {
        .offset = offset, .to = to, .room = g->csr->n_arcs, .on_device = 1};
    for (uint32_t k = 0; k < b->reps; k++) {
        const uint64_t bytes = (b->heap_bytes + b->heap_bytes / 20 + 4095) / 4096 * 4096;
        const double start = whi_bench_wall_seconds();
        WHI_BENCH_TRY(can_grow ? grow(g, bytes) : rebuild(g, bytes, arrays));
        whi_bench_add_sample(&series, 1e6 * (whi_bench_wall_seconds() - start));
    }
    WHI_BENCH_TRY(whi_dgraph_arcs(g, &arcs));
    series.bad += arcs != g->csr->n_arcs || wh_graph_check(g->graph, NULL) != WH_OK;
    whi_bench_row row = whi_dgraph_row(g, op, g->csr->n_vertices);
    row.ops = g->csr->n_arcs;
    whi_bench_add_value(&row, "heap_before", (double)first, 0);
    whi_bench_add_value(&row, "heap_after", (double)b->heap_bytes, 0);
    return whi_bench_emit(b, &row, &series);
}

static wh_status run(whi_dgraph *g) {
    const uint64_t n = whi_dgraph_most(g->p.b);
    g->p.b->turn.limits = WHI_BENCH_LONG_CASE_LIMITS;
    WHI_BENCH_TRY(whi_dgraph_open_batches(g, n));
    for (int which = 0; which < TESTS; which++) {
        if (!whi_dgraph_leave_out(g, test_names[which], n)) {
            WHI_BENCH_TRY(run_test(g, which, n));
        }
    }
    return whi_dgraph_leave_out(g, "reinit", n) ? WH_OK : reinit(g);
}

wh_status whi_bench_case_graph_memory(whi_bench *b) {
    static const whi_dgraph_job job = {.run = run, .batches = 4};
    return whi_dgraph_each(b, &job);
}
