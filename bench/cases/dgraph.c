/* dgraph.c: what the cases graph-* share. */
#include "bench/cases/dgraph.h"

#include <stdlib.h>
#include <string.h>

#define FOCUS 1000u
#define HUBS 10u
#define N_GENERATED 2u

static const char *const kinds[] = {WHI_DGRAPH_KINDS};
#define N_KINDS (sizeof kinds / sizeof *kinds)

/* --- the request --------------------------------------------------------------------------- */

const char *whi_bench_unknown_kind(const wh_bench_options *o, const char **known) {
    *known = "lattice, aim, faim, faim-update, ouro";
    for (size_t i = 0; i < o->n_kinds; i++) {
        size_t k = 0;
        while (k < N_KINDS && strcmp(kinds[k], o->kinds[i]) != 0) {
            k++;
        }
        if (k == N_KINDS) {
            return o->kinds[i];
        }
    }
    return NULL;
}

/* Where all allocators are measured, all classes with all of them would take hours. */
static int wants_kind(const whi_bench *b, size_t kind) {
    const wh_bench_options *o = b->options;
    if (o->n_kinds == 0) {
        return kind == 0 || o->n_allocs != 0 || b->alloc == wh_allocator_find("default");
    }
    int any = 0;
    for (size_t i = 0; i < o->n_kinds; i++) {
        any |= strcmp(o->kinds[i], kinds[kind]) == 0;
    }
    return any;
}

whi_bench_list whi_dgraph_batches(const whi_bench *b) {
    whi_bench_list l = {b->options->threads, b->options->n_threads};
    if (l.n == 0) {
        l.v = b->defaults->graph_batches;
        while (l.v[l.n] != 0) {
            l.n++;
        }
    }
    return l;
}

uint64_t whi_dgraph_most(const whi_bench *b) {
    const whi_bench_list batches = whi_dgraph_batches(b);
    uint64_t most = 1;
    for (size_t i = 0; i < batches.n; i++) {
        most = batches.v[i] > most ? batches.v[i] : most;
    }
    return most;
}

uint32_t whi_dgraph_rounds(const whi_bench *b) {
    return b->options->rounds != 0 ? b->options->rounds : b->defaults->graph_rounds;
}

/* --- sets of arcs --------------------------------------------------------------------------- */

/* Lists are sorted: an arc that is there again follows the first one. */
static void drop_repetitions(wh_graph_csr *csr) {
    uint64_t n = 0;
    for (uint32_t v = 0; v < csr->n_vertices; v++) {
        const uint64_t end = csr->offset[v + 1], begin = csr->offset[v];
        csr->offset[v] = n;
        for (uint64_t i = begin; i < end; i++) {
            if (i == begin || csr->to[i] != csr->to[i - 1]) {
                csr->to[n++] = csr->to[i];
            }
        }
    }
    csr->offset[csr->n_vertices] = n;
    csr->n_arcs = n;
}

/* Arcs in the order in which they came, for the caller to free; undirected: each with its reverse
 * behind all. */
typedef struct arc_list {
    uint32_t *from, *to;
    uint64_t n;
} arc_list;

static wh_status list_arcs(const whi_bench *b, const whi_bench_set *set, int is_rmat, arc_list *l) {
    const uint32_t scale = b->defaults->graph_scale;
    const uint64_t n = set->file != NULL ? set->file->n_arcs : (uint64_t)16 << scale;
    l->n = set->undirected ? 2 * n : n;
    l->from = malloc((l->n + 1) * sizeof *l->from);
    l->to = malloc((l->n + 1) * sizeof *l->to);
    if (l->from == NULL || l->to == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    uint64_t random = b->options->seed + 1;
    for (uint64_t i = 0; i < n; i++) {
        if (set->file != NULL) {
            l->from[i] = set->file->from[i];
            l->to[i] = set->file->to[i];
        } else {
            whi_dgraph_random_arc(&random, scale, is_rmat, &l->from[i], &l->to[i]);
        }
        if (set->undirected) {
            l->from[n + i] = l->to[i];
            l->to[n + i] = l->from[i];
        }
    }
    return WH_OK;
}

static wh_status fill_set(const whi_bench *b, whi_bench_set *set, int is_rmat) {
    const uint32_t n = set->file != NULL ? set->file->n_vertices : 1u << b->defaults->graph_scale;
    arc_list l = {NULL, NULL, 0};
    wh_status s = list_arcs(b, set, is_rmat, &l);
    s = s == WH_OK ? wh_graph_csr_build(&set->csr, n, l.from, l.to, l.n, NULL) : s;
    if (s == WH_OK) {
        drop_repetitions(&set->csr);
    }
    free(l.from);
    free(l.to);
    return s;
}

/* Set i of the run, directed or not, which is made the first time. */
static wh_status find_set(whi_bench *b, size_t i, int undirected, whi_bench_set **set) {
    static const char *const generated[N_GENERATED] = {"uniform", "rmat"};
    const int is_file = b->has_graph_files;
    const size_t n = is_file ? b->n_graphs : N_GENERATED;
    if (b->sets == NULL) {
        b->sets = calloc(2 * n, sizeof *b->sets);
        b->n_sets = b->sets != NULL ? 2 * n : 0;
        if (b->sets == NULL) {
            return whi_bench_fail(b, WH_OUT_OF_MEMORY, "no memory for graphs");
        }
    }
    *set = &b->sets[2 * i + (undirected ? 1 : 0)];
    if ((*set)->name != NULL) {
        return WH_OK;
    }
    (*set)->file = is_file ? &b->graphs[i].arcs : NULL;
    (*set)->undirected = undirected;
    if (fill_set(b, *set, i == 1) != WH_OK) {
        return whi_bench_fail(b, WH_OUT_OF_MEMORY, "no memory for a graph");
    }
    (*set)->name = is_file ? b->graphs[i].name : generated[i];
    return WH_OK;
}

void whi_bench_drop_sets(whi_bench *b) {
    for (size_t i = 0; i < b->n_sets; i++) {
        wh_graph_csr_free(&b->sets[i].csr);
        free(b->sets[i].from);
        free(b->sets[i].to);
        free(b->sets[i].next);
    }
    free(b->sets);
    b->sets = NULL;
    b->n_sets = 0;
}

/* --- graphs --------------------------------------------------------------------------------- */

wh_status whi_dgraph_destroy(whi_dgraph *g) {
    wh_graph *graph = g->graph;
    g->graph = NULL;
    return whi_bench_check(g->p.b, wh_graph_destroy(graph), "the end of a graph");
}

wh_graph_options whi_dgraph_options(const whi_dgraph *g) {
    wh_graph_options o;
    memset(&o, 0, sizeof o);
    o.heap = g->p.b->heap;
    o.kind = g->kind;
    o.vertices = g->csr->n_vertices;
    o.undirected = g->set->undirected;
    o.values = g->values;
    o.sorted = g->sorted;
    o.batch = g->room > o.vertices ? g->room : o.vertices;
    return o;
}

/* What a graph without memory for batches takes beside the heap. */
static wh_status measure_fixed(whi_dgraph *g) {
    whi_bench *b = g->p.b;
    wh_graph_options o = whi_dgraph_options(g);
    wh_graph_stats stats;
    memset(&stats, 0, sizeof stats);
    o.batch = 0;
    WHI_BENCH_TRY(whi_bench_check(b, wh_graph_create(&g->graph, &o), "a graph"));
    WHI_BENCH_TRY(whi_bench_check(b, wh_graph_get_stats(g->graph, &stats), "statistics"));
    g->fixed = stats.fixed_bytes;
    return whi_dgraph_destroy(g);
}

wh_status whi_dgraph_create(whi_dgraph *g) {
    WHI_BENCH_TRY(whi_dgraph_destroy(g));
    if (g->fixed == 0) {
        WHI_BENCH_TRY(measure_fixed(g));
    }
    const wh_graph_options o = whi_dgraph_options(g);
    return whi_bench_check(g->p.b, wh_graph_create(&g->graph, &o), "a graph");
}

wh_status whi_dgraph_memory(whi_dgraph *g, void **p, uint64_t bytes) {
    whi_bench *b = g->p.b;
    if (g->n_kept == sizeof g->kept / sizeof *g->kept) {
        return whi_bench_fail(b, WH_BAD_ARGUMENT, "too many arrays in a case");
    }
    WHI_BENCH_TRY(whi_bench_check(b, wh_device_alloc(b->device, p, bytes), "device memory"));
    g->kept[g->n_kept++] = *p;
    return WH_OK;
}

wh_status whi_dgraph_csr_in(whi_dgraph *g) {
    whi_bench *b = g->p.b;
    const uint64_t offsets = (g->csr->n_vertices + (uint64_t)1) * sizeof *g->csr->offset;
    const uint64_t arcs = g->csr->n_arcs * sizeof *g->csr->to;
    if (g->device_offset != NULL) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_dgraph_memory(g, &g->device_offset, offsets));
    WHI_BENCH_TRY(whi_dgraph_memory(g, &g->device_arcs, arcs + 8));
    wh_status s = wh_device_copy_in(b->device, g->device_offset, g->csr->offset, offsets);
    if (s == WH_OK && arcs != 0) {
        s = wh_device_copy_in(b->device, g->device_arcs, g->csr->to, arcs);
    }
    return whi_bench_check(b, s, "a graph");
}

wh_status whi_dgraph_try_load(whi_dgraph *g, int *fits) {
    WHI_BENCH_TRY(whi_dgraph_csr_in(g));
    WHI_BENCH_TRY(whi_dgraph_create(g));
    const wh_graph_arrays arrays = {
        .offset = g->device_offset, .to = g->device_arcs, .on_device = 1};
    const wh_status s = wh_graph_from_csr(g->graph, &arrays, NULL);
    *fits = s == WH_OK;
    return s == WH_OUT_OF_MEMORY ? WH_OK : whi_bench_check(g->p.b, s, "a graph from arrays");
}

wh_status whi_dgraph_load(whi_dgraph *g) {
    int fits = 0;
    WHI_BENCH_TRY(whi_dgraph_try_load(g, &fits));
    return fits ? WH_OK
                : whi_bench_fail(g->p.b, WH_OUT_OF_MEMORY,
                                 "a heap of %llu bytes of '%s' is too small for '%s'",
                                 (unsigned long long)g->p.b->heap_bytes, g->p.b->alloc->name,
                                 g->set->name);
}

wh_status whi_dgraph_go_undirected(whi_dgraph *g) {
    WHI_BENCH_TRY(find_set(g->p.b, g->number, 1, &g->set));
    g->csr = &g->set->csr;
    g->device_offset = g->device_arcs = NULL; /* they are kept until the end */
    return WH_OK;
}

wh_status whi_dgraph_arcs(whi_dgraph *g, uint64_t *arcs) {
    return whi_bench_check(g->p.b, wh_graph_to_csr(g->graph, NULL, arcs), "the number of arcs");
}

wh_status whi_dgraph_bytes(whi_dgraph *g, uint64_t *bytes) {
    whi_bench *b = g->p.b;
    wh_graph_stats of_graph;
    wh_stats of_heap;
    memset(&of_graph, 0, sizeof of_graph);
    memset(&of_heap, 0, sizeof of_heap);
    if (whi_bench_can(b, WH_CAP_STATS)) {
        WHI_BENCH_TRY(whi_bench_check(b, wh_heap_get_stats(b->heap, &of_heap), "statistics"));
        *bytes = of_heap.used_bytes + g->fixed;
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_bench_check(b, wh_graph_get_stats(g->graph, &of_graph), "statistics"));
    *bytes = of_graph.block_bytes + g->fixed;
    return WH_OK;
}

/* --- batches -------------------------------------------------------------------------------- */

wh_status whi_dgraph_open_batches(whi_dgraph *g, uint64_t n) {
    if (n <= g->room) {
        return WH_OK;
    }
    free(g->from);
    free(g->to);
    free(g->done);
    free(g->erases);
    g->room = 0;
    g->from = malloc(n * sizeof *g->from);
    g->to = malloc(n * sizeof *g->to);
    g->done = malloc(n);
    g->erases = malloc(n);
    if (g->from == NULL || g->to == NULL || g->done == NULL || g->erases == NULL) {
        return whi_bench_fail(g->p.b, WH_OUT_OF_MEMORY, "no memory for a batch");
    }
    WHI_BENCH_TRY(whi_dgraph_memory(g, &g->device_from, n * sizeof *g->from));
    WHI_BENCH_TRY(whi_dgraph_memory(g, &g->device_to, n * sizeof *g->to));
    WHI_BENCH_TRY(whi_dgraph_memory(g, &g->device_done, n));
    WHI_BENCH_TRY(whi_dgraph_memory(g, &g->device_erases, n));
    g->room = n;
    return WH_OK;
}

wh_status whi_dgraph_batch_in(whi_dgraph *g, uint64_t n) {
    whi_bench *b = g->p.b;
    wh_status s = wh_device_copy_in(b->device, g->device_from, g->from, n * sizeof *g->from);
    s = s == WH_OK ? wh_device_copy_in(b->device, g->device_to, g->to, n * sizeof *g->to) : s;
    return whi_bench_check(b, s, "a batch");
}

wh_status whi_dgraph_draw_range(whi_dgraph *g, uint64_t n, uint32_t first, uint32_t span) {
    const uint32_t all = g->csr->n_vertices;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t v = first + whi_dgraph_random(&g->random) % span;
        g->from[i] = (uint32_t)(v % all);
        g->to[i] = (uint32_t)(whi_dgraph_random(&g->random) % all);
    }
    return whi_dgraph_batch_in(g, n);
}

wh_status whi_dgraph_draw(whi_dgraph *g, uint64_t n, int distribution) {
    const uint32_t all = g->csr->n_vertices;
    const uint32_t few = distribution == WHI_DGRAPH_FOCUS ? FOCUS : HUBS;
    const uint32_t span = distribution == WHI_DGRAPH_UNIFORM || few > all ? all : few;
    const uint32_t first = (uint32_t)(whi_dgraph_random(&g->random) % (all - span + 1));
    return whi_dgraph_draw_range(g, n, first, span);
}

/* The vertex that has arc i. */
static uint32_t source_of(const wh_graph_csr *csr, uint64_t i) {
    uint32_t low = 0, high = csr->n_vertices;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (csr->offset[middle] <= i) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Arc i of the batch becomes one of the set. */
static void arc_of_set(whi_dgraph *g, uint64_t i) {
    const uint64_t arc = whi_dgraph_random(&g->random) % g->csr->n_arcs;
    g->from[i] = source_of(g->csr, arc);
    g->to[i] = g->csr->to[arc];
}

wh_status whi_dgraph_draw_present(whi_dgraph *g, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        arc_of_set(g, i);
    }
    return whi_dgraph_batch_in(g, n);
}

static wh_status erases_in(whi_dgraph *g, uint64_t n) {
    whi_bench *b = g->p.b;
    return whi_bench_check(b, wh_device_copy_in(b->device, g->device_erases, g->erases, n),
                           "a batch");
}

wh_status whi_dgraph_draw_mixed(whi_dgraph *g, uint64_t n) {
    const uint32_t all = g->csr->n_vertices;
    for (uint64_t i = 0; i < n; i++) {
        g->erases[i] = i % 2 == 0;
        if (g->erases[i]) {
            arc_of_set(g, i);
        } else {
            g->from[i] = (uint32_t)(whi_dgraph_random(&g->random) % all);
            g->to[i] = (uint32_t)(whi_dgraph_random(&g->random) % all);
        }
    }
    WHI_BENCH_TRY(erases_in(g, n));
    return whi_dgraph_batch_in(g, n);
}

wh_status whi_dgraph_flip(whi_dgraph *g, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        g->erases[i] ^= 1;
    }
    return erases_in(g, n);
}

wh_status whi_dgraph_keep_applied(whi_dgraph *g, uint64_t n, uint64_t *kept) {
    *kept = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (g->done[i] == WH_GRAPH_APPLIED) {
            g->from[*kept] = g->from[i];
            g->to[(*kept)++] = g->to[i];
        }
    }
    return *kept != 0 ? whi_dgraph_batch_in(g, *kept) : WH_OK;
}

wh_graph_batch whi_dgraph_batch(const whi_dgraph *g, uint64_t first, uint64_t n, int on_device) {
    uint32_t *from = on_device ? g->device_from : g->from;
    uint32_t *to = on_device ? g->device_to : g->to;
    uint8_t *erases = on_device ? g->device_erases : g->erases;
    wh_graph_batch batch;
    memset(&batch, 0, sizeof batch);
    batch.from = from + first;
    batch.to = to + first;
    batch.erases = erases + first;
    for (uint32_t k = 0; k < g->values; k++) {
        batch.values[k] = from + first;
    }
    batch.n = n;
    batch.on_device = on_device;
    return batch;
}

/* A full heap is told by the result. */
static wh_status check_update(whi_dgraph *g, wh_status s, const wh_graph_result *result) {
    return s == WH_OUT_OF_MEMORY && result != NULL && result->refused != 0
               ? WH_OK
               : whi_bench_check(g->p.b, s, "a batch");
}

static wh_status done_out(whi_dgraph *g, uint64_t n) {
    whi_bench *b = g->p.b;
    return whi_bench_check(b, wh_device_copy_out(b->device, g->done, g->device_done, n), "a batch");
}

wh_status whi_dgraph_apply(whi_dgraph *g, whi_dgraph_update u) {
    whi_bench *b = g->p.b;
    wh_graph_batch batch = whi_dgraph_batch(g, 0, u.n, 1);
    whi_bench_series none;
    whi_bench_series *series = u.series != NULL ? u.series : &none;
    wh_graph_result own;
    wh_graph_result *result = u.result == NULL && u.with_done ? &own : u.result;
    whi_bench_watch watch;
    double us = 0;
    batch.done = u.with_done ? g->device_done : NULL;
    none.n = 0;
    none.steps = none.atomics = 0;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(check_update(g, u.fn(g->graph, &batch, result), result));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    whi_bench_add_sample(series, us);
    return u.with_done ? done_out(g, u.n) : WH_OK;
}

wh_status whi_dgraph_apply_host(whi_dgraph *g, whi_dgraph_fn fn, uint64_t n,
                                whi_bench_series *series, wh_graph_result *result) {
    const wh_graph_batch batch = whi_dgraph_batch(g, 0, n, 0);
    const double start = whi_bench_wall_seconds();
    const wh_status s = fn(g->graph, &batch, result);
    whi_bench_add_sample(series, 1e6 * (whi_bench_wall_seconds() - start));
    return check_update(g, s, result);
}

wh_status whi_dgraph_has(whi_dgraph *g, uint64_t n, whi_bench_series *series) {
    whi_bench *b = g->p.b;
    wh_graph_batch batch = whi_dgraph_batch(g, 0, n, 1);
    whi_bench_series none;
    whi_bench_watch watch;
    double us = 0;
    memset(&none, 0, sizeof none);
    memset(batch.values, 0, sizeof batch.values); /* they would be written */
    batch.done = g->device_done;
    series = series != NULL ? series : &none;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, wh_graph_has(g->graph, &batch), "questions"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    whi_bench_add_sample(series, us);
    return done_out(g, n);
}

/* --- rows ----------------------------------------------------------------------------------- */

static const char *op_text(whi_dgraph *g, const char *op) {
    const int is_default = strcmp(g->kind, kinds[0]) == 0;
    (void)snprintf(g->op, sizeof g->op, "%s%s%s", is_default ? "" : g->kind, is_default ? "" : "-",
                   op);
    return g->op;
}

whi_bench_row whi_dgraph_row(whi_dgraph *g, const char *op, uint64_t n) {
    whi_bench_row row = {
        .phase = "warm", .op = op_text(g, op), .threads = n, .ops = n, .input = g->set->name};
    return row;
}

/* The name of a part must last: of a class and an operation it is put into the turn. */
int whi_dgraph_leave_out(whi_dgraph *g, const char *op, uint64_t n) {
    whi_bench *b = g->p.b;
    const whi_bench_part part = {
        .op = op_text(g, op), .size = WHI_DGRAPH_ARC, .threads = n, .input = g->set->name};
    const int was = b->turn.left_out.size != 0;
    const int is = whi_bench_leave_out(b, part);
    if (is && !was) {
        (void)snprintf(b->turn.op, sizeof b->turn.op, "%s", g->op);
        b->turn.left_out.op = b->turn.op;
    }
    return is;
}

wh_status whi_dgraph_null(whi_dgraph *g, uint64_t n, whi_bench_row *row) {
    whi_bench *b = g->p.b;
    WHI_BENCH_TRY(whi_bench_need_ptrs(b, n));
    whi_bench_aim(&g->p, (whi_bench_blocks){n, 0, 0});
    return whi_bench_floor(&g->p, b->kernels->floor_single, n, &row->us_null);
}

wh_status whi_dgraph_repeat(whi_dgraph *g, whi_dgraph_step step, void *context,
                            whi_bench_series *series) {
    whi_bench *b = g->p.b;
    if (!b->on_sim) {
        whi_bench_series none;
        memset(&none, 0, sizeof none);
        WHI_BENCH_TRY(step(g, context, &none));
        series->bad += none.bad;
    }
    const double start = whi_bench_wall_seconds();
    for (uint32_t i = 0; i < b->reps; i++) {
        if (i > 0 && whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
        WHI_BENCH_TRY(step(g, context, series));
    }
    return WH_OK;
}

typedef struct floor_run {
    wh_bench_floor_launcher launcher;
    const wh_bench_floor_call *call;
    uint64_t threads;
} floor_run;

static wh_status launch_floor(whi_dgraph *g, void *context, whi_bench_series *series) {
    whi_bench *b = g->p.b;
    const floor_run *run = context;
    const wh_launch l = whi_bench_shape(b, run->threads);
    whi_bench_watch watch;
    double us = 0;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, run->launcher(&l, run->call), "a floor"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    whi_bench_add_sample(series, us);
    return WH_OK;
}

wh_status whi_dgraph_floor(whi_dgraph *g, const char *op, wh_bench_floor_launcher launcher,
                           const wh_bench_floor_call *call, uint64_t threads) {
    whi_bench *b = g->p.b;
    floor_run run = {launcher, call, threads};
    whi_bench_series series;
    memset(&series, 0, sizeof series);
    if (threads == 0) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_dgraph_repeat(g, launch_floor, &run, &series));
    whi_bench_row row = {.phase = "warm", .op = op, .threads = threads, .ops = call->n};
    row.input = g->set->name;
    return whi_bench_emit(b, &row, &series);
}

wh_status whi_dgraph_floor_copy(whi_dgraph *g) {
    void *copy = NULL;
    wh_bench_floor_call call;
    memset(&call, 0, sizeof call);
    WHI_BENCH_TRY(whi_dgraph_csr_in(g));
    call.n = (g->csr->n_arcs + 1) / 2;
    WHI_BENCH_TRY(whi_dgraph_memory(g, &copy, 8 * call.n + 8));
    call.words = g->device_arcs;
    call.copy = copy;
    return whi_dgraph_floor(g, "floor-copy", g->floors->copy, &call, call.n);
}

/* --- each graph, each class ------------------------------------------------------------------- */

/* Room for all adjacencies, with what they grow by, beside those that they had. */
static uint64_t bytes_for(const whi_bench *b, const whi_dgraph_job *job, const wh_graph_csr *csr) {
    const uint64_t once = csr->n_arcs + job->batches * whi_dgraph_most(b);
    const uint64_t arcs = job->is_twice ? 2 * once : once;
    const uint64_t own = b->defaults->graph_bytes;
    const uint64_t need = 24 * arcs + 128 * (uint64_t)csr->n_vertices + own / 8;
    return whi_bench_case_heap(b, need > own ? need : own);
}

static void drop(whi_dgraph *g) {
    whi_bench *b = g->p.b;
    (void)wh_graph_destroy(g->graph);
    free(g->from);
    free(g->to);
    free(g->done);
    free(g->erases);
    for (size_t i = 0; i < g->n_kept; i++) {
        (void)wh_device_free(b->device, g->kept[i]);
    }
}

/* Whether the library has that class for the current heap. */
static wh_status try_kind(whi_bench *b, const char *kind, int *known) {
    wh_graph *graph = NULL;
    wh_graph_options o;
    memset(&o, 0, sizeof o);
    o.heap = b->heap;
    o.kind = kind;
    o.vertices = 1;
    const wh_status s = wh_graph_create(&graph, &o);
    *known = s == WH_OK;
    (void)wh_graph_destroy(graph);
    return s == WH_UNSUPPORTED ? WH_OK : whi_bench_check(b, s, "a graph");
}

/* *is_first: of the classes; it is no more when one was there. */
static wh_status run_kind(whi_bench *b, const whi_dgraph_job *job, size_t number, const char *kind,
                          int *is_first) {
    whi_dgraph g;
    int known = 0;
    memset(&g, 0, sizeof g);
    g.number = number;
    WHI_BENCH_TRY(find_set(b, number, job->undirected, &g.set));
    g.csr = &g.set->csr;
    g.kind = kind;
    g.is_first = *is_first;
    g.random = b->options->seed;
    g.floors = wh_bench_floors_find(b->alloc->name, b->info->target);
    whi_bench_close_heap(b);
    WHI_BENCH_TRY(whi_bench_new_share(b));
    whi_bench_progress(b, 0, g.csr->n_arcs);
    WHI_BENCH_TRY(whi_bench_begin(b, &g.p, bytes_for(b, job, g.csr), (whi_bench_blocks){0, 0, 0}));
    WHI_BENCH_TRY(try_kind(b, kind, &known));
    if (!known) {
        return WH_OK;
    }
    *is_first = 0;
    const wh_status s = job->run(&g);
    drop(&g);
    return s;
}

wh_status whi_dgraph_each(whi_bench *b, const whi_dgraph_job *job) {
    const size_t n = b->has_graph_files ? b->n_graphs : N_GENERATED;
    if (!whi_bench_can(b, WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_OWNS | WH_CAP_USABLE_SIZE) ||
        b->alloc->max_size < (uint64_t)1 << 20) {
        return WH_OK; /* an adjacency is one block */
    }
    for (size_t i = 0; i < n; i++) {
        whi_bench_set *set = NULL;
        int is_first = 1;
        WHI_BENCH_TRY(find_set(b, i, job->undirected, &set));
        for (size_t k = 0; k < N_KINDS && set->csr.n_arcs != 0; k++) {
            if (wants_kind(b, k)) {
                WHI_BENCH_TRY(run_kind(b, job, i, kinds[k], &is_first));
            }
        }
    }
    return WH_OK;
}
