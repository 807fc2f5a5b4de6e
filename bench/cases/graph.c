/* graph.c: the case graph: loads or generates graphs, runs workload/graph/graph_case.h
 * on each, and turns its rows into rows of the benchmark. */
#include <stdlib.h>
#include <string.h>

#include "bench/driver/internal.h"

/* --- graphs -------------------------------------------------------------------------------- */

static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

/* A small graph with few vertices of high degree and many of low degree, with times,
 * so that a run without files exercises every operation of the case. The lesser of
 * two uniform numbers prefers low vertices. */
static wh_status generate(wh_graph_arcs *arcs, uint64_t seed) {
    const uint32_t n_vertices = 1024;
    const uint64_t n_arcs = 8192;
    memset(arcs, 0, sizeof *arcs);
    arcs->format = WH_GRAPH_EDGE_LIST;
    arcs->n_vertices = n_vertices;
    arcs->n_entries = n_arcs;
    arcs->n_arcs = n_arcs;
    arcs->from = malloc(n_arcs * sizeof *arcs->from);
    arcs->to = malloc(n_arcs * sizeof *arcs->to);
    arcs->time = malloc(n_arcs * sizeof *arcs->time);
    if (arcs->from == NULL || arcs->to == NULL || arcs->time == NULL) {
        wh_graph_arcs_free(arcs);
        return WH_OUT_OF_MEMORY;
    }
    uint64_t state = seed + 1;
    for (uint64_t i = 0; i < n_arcs; i++) {
        const uint32_t x = next_random(&state) % n_vertices;
        const uint32_t y = next_random(&state) % n_vertices;
        arcs->from[i] = x < y ? x : y;
        arcs->to[i] = next_random(&state) % n_vertices;
        arcs->n_self_loops += arcs->from[i] == arcs->to[i];
        arcs->time[i] = (int64_t)i;
    }
    return WH_OK;
}

int whi_bench_load_graphs(whi_bench *b, char *error, size_t size) {
    const wh_bench_options *o = b->options;
    b->graphs = calloc(o->n_inputs + 1, sizeof *b->graphs);
    if (b->graphs == NULL) {
        (void)snprintf(error, size, "out of memory");
        return 0;
    }
    for (size_t i = 0; i < o->n_inputs; i++) {
        wh_graph_file_error why;
        whi_bench_graph *g = &b->graphs[b->n_graphs];
        if (whi_bench_is_mesh(o->inputs[i])) {
            continue;
        }
        if (wh_graph_file_read(o->inputs[i], NULL, &g->arcs, &why) != WH_OK) {
            wh_graph_file_error_format(&why, error, size);
            return 0;
        }
        const char *slash = strrchr(o->inputs[i], '/');
        g->name = slash != NULL ? slash + 1 : o->inputs[i];
        b->n_graphs++;
    }
    b->has_graph_files = b->n_graphs != 0;
    if (!b->has_graph_files) {
        if (generate(&b->graphs[0].arcs, o->seed) != WH_OK) {
            (void)snprintf(error, size, "out of memory");
            return 0;
        }
        b->graphs[0].name = "generated";
        b->n_graphs = 1;
    }
    return 1;
}

void whi_bench_drop_graphs(whi_bench *b) {
    for (size_t i = 0; i < b->n_graphs; i++) {
        wh_graph_arcs_free(&b->graphs[i].arcs);
    }
    free(b->graphs);
    b->graphs = NULL;
    b->n_graphs = 0;
}

/* --- the case -------------------------------------------------------------------------------- */

typedef struct sink {
    whi_bench_plan p;
    const char *input;
    wh_status status; /* of the first row that could not be kept */
} sink;

static wh_status keep_row(sink *to, const wh_graph_case_row *r) {
    whi_bench *b = to->p.b;
    whi_bench_row row = {
        .phase = "warm", .op = r->op, .threads = r->threads, .ops = r->arcs, .input = to->input};
    const whi_bench_result result = {.reps = r->reps,
                                     .us = r->us,
                                     .us_min = r->us_min,
                                     .us_max = r->us_max,
                                     .failed = r->failed,
                                     .bad = r->bad,
                                     .steps_per_op = r->steps_per_arc,
                                     .atomics_per_op = r->atomics_per_arc};
    WHI_BENCH_TRY(whi_bench_need_ptrs(b, r->threads));
    whi_bench_aim(&to->p, (whi_bench_blocks){r->threads, 0, 0});
    if (r->threads != 0) {
        WHI_BENCH_TRY(whi_bench_floor(&to->p, b->kernels->floor_single, r->threads, &row.us_null));
    }
    return whi_bench_emit_result(b, &row, &result);
}

static void take_row(void *context, const wh_graph_case_row *r) {
    sink *to = context;
    if (r->skipped == NULL && to->status == WH_OK) {
        to->status = keep_row(to, r);
    }
}

/* Room for the adjacency arrays, which double (so the old and the new exist at a
 * time), and for an allocator that sets aside large pieces for each size. */
static uint64_t bytes_for(const whi_bench *b, const wh_graph_arcs *arcs) {
    const uint64_t unit = (uint64_t)64 << 20;
    const uint64_t need = 64 * arcs->n_arcs + 64 * (uint64_t)arcs->n_vertices;
    const uint64_t rounded = (need + unit - 1) / unit * unit;
    if (b->options->heap_bytes != 0) {
        return b->options->heap_bytes;
    }
    return rounded > b->defaults->heap_bytes ? rounded : b->defaults->heap_bytes;
}

static wh_status run(whi_bench *b, const wh_multigraph_kernels *kernels, const whi_bench_graph *g) {
    char why[256] = "";
    sink to;
    const wh_graph_case_options options = {.arcs = &g->arcs,
                                           .reps = b->options->reps,
                                           .seed = b->options->seed,
                                           .emit = take_row,
                                           .context = &to};
    memset(&to, 0, sizeof to);
    to.input = g->name;
    whi_bench_progress(b, 0, g->arcs.n_arcs);
    whi_bench_close_heap(b); /* each graph starts on a heap in its first state */
    WHI_BENCH_TRY(whi_bench_begin(b, &to.p, bytes_for(b, &g->arcs), (whi_bench_blocks){0, 0, 0}));
    const wh_status s = wh_graph_case_run(&options, b->heap, kernels, why, sizeof why);
    if (s != WH_OK) {
        return whi_bench_fail(b, s, "graph case with '%s': %s", b->alloc->name, why);
    }
    return to.status;
}

wh_status whi_bench_case_graph(whi_bench *b) {
    const wh_multigraph_kernels *kernels =
        wh_multigraph_kernels_find(b->alloc->name, b->info->target);
    if (kernels == NULL || !whi_bench_can(b, WH_CAP_DISJOINT) || b->alloc->max_size < 4096) {
        return WH_OK; /* adjacency arrays grow beyond an allocator of single pages */
    }
    for (size_t i = 0; i < b->n_graphs; i++) {
        WHI_BENCH_TRY(run(b, kernels, &b->graphs[i]));
    }
    return WH_OK;
}
