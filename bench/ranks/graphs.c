/* graphs.c: graphs on one device and on all ranks, of arcs that each rank draws by itself: arc i of
 * a stream depends on the seed and on i alone. */
#include <stdlib.h>
#include <string.h>

#include "bench/cases/dgraph.h"
#include "bench/ranks/ranks.h"

#define MEAN_DEGREE 16u
#define HEAP_BYTES_AN_ARC 64u /* of a graph, and of a batch that comes to it */

static uint32_t scale_of(const whi_ranks_input *in) {
    uint32_t scale = 4;
    while (scale < 31 && ((uint64_t)MEAN_DEGREE << scale) < in->n) {
        scale++;
    }
    return scale;
}

uint32_t whi_ranks_vertices(const whi_ranks_input *in) {
    return (uint32_t)1 << scale_of(in);
}

static void draw(const whi_ranks *b, const whi_ranks_input *in, uint64_t first,
                 const whi_ranks_arcs *arcs) {
    const uint32_t scale = scale_of(in);
    for (uint64_t i = 0; i < arcs->n; i++) {
        uint64_t random = (b->options->seed + 1) * 0xd1342543de82ef95u + ((first + i) << 8);
        random = whi_dgraph_random(&random);
        whi_dgraph_random_arc(&random, scale, in->is_rmat, &arcs->from[i], &arcs->to[i]);
    }
}

static wh_status to_device(whi_ranks *b, uint32_t *array, uint64_t n, uint32_t **on_device) {
    void *p = NULL;
    WHI_BENCH_TRY(wh_device_alloc(b->device, &p, n * sizeof *array));
    *on_device = p;
    return wh_device_copy_in(b->device, p, array, n * sizeof *array);
}

wh_status whi_ranks_take_arcs(whi_ranks *b, const whi_ranks_input *in, uint64_t first, int alone,
                              whi_ranks_arcs *arcs) {
    const uint64_t begin = alone ? 0 : whi_ranks_first(b, in->n, b->rank);
    const uint64_t end = alone ? in->n : whi_ranks_first(b, in->n, b->rank + 1);
    whi_ranks_arcs host = {NULL, NULL, end - begin};
    memset(arcs, 0, sizeof *arcs);
    if (host.n == 0) {
        return WH_OK;
    }
    host.from = malloc(host.n * sizeof *host.from);
    host.to = malloc(host.n * sizeof *host.to);
    wh_status s = host.from != NULL && host.to != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    if (s == WH_OK) {
        draw(b, in, first + begin, &host);
        s = to_device(b, host.from, host.n, &arcs->from);
    }
    s = s == WH_OK ? to_device(b, host.to, host.n, &arcs->to) : s;
    arcs->n = host.n;
    free(host.from);
    free(host.to);
    return s;
}

void whi_ranks_drop_arcs(whi_ranks *b, whi_ranks_arcs *arcs) {
    if (!whi_ranks_is_over(b)) {
        (void)wh_device_free(b->device, arcs->from);
        (void)wh_device_free(b->device, arcs->to);
    }
    memset(arcs, 0, sizeof *arcs);
}

/* --- graphs ---------------------------------------------------------------------------------- */

wh_status whi_ranks_update(whi_ranks_graph *g, const whi_ranks_arcs *arcs, int erases,
                           uint64_t *applied) {
    wh_graph_batch batch;
    wh_graph_result result;
    wh_status s = WH_OK;
    memset(&batch, 0, sizeof batch);
    memset(&result, 0, sizeof result);
    batch.from = arcs->from;
    batch.to = arcs->to;
    batch.n = arcs->n;
    batch.on_device = 1;
    if (g->shard != NULL) {
        s = erases ? wh_shard_erase(g->shard, &batch, &result)
                   : wh_shard_insert(g->shard, &batch, &result);
    } else {
        s = erases ? wh_graph_erase(g->one, &batch, &result)
                   : wh_graph_insert(g->one, &batch, &result);
    }
    *applied = result.applied;
    return s;
}

void whi_ranks_add_times(whi_ranks_graph *g, int is_update, whi_ranks_series *series) {
    wh_shard_times t;
    if (g->shard == NULL) {
        return;
    }
    wh_shard_get_times(g->shard, &t);
    if (is_update) {
        whi_ranks_add_phase(series, "bring", t.bring);
        whi_ranks_add_phase(series, "route", t.route);
        whi_ranks_add_phase(series, "exchange", t.exchange);
        whi_ranks_add_phase(series, "apply", t.apply);
        whi_ranks_add_phase(series, "agree", t.agree);
        whi_ranks_add_phase(series, "answer", t.answer);
    } else {
        whi_ranks_add_phase(series, "walk", t.walk);
        whi_ranks_add_phase(series, "pass", t.pass);
        whi_ranks_add_phase(series, "settle", t.settle);
    }
}

wh_status whi_ranks_count(whi_ranks_graph *g, uint64_t *n) {
    return wh_graph_to_csr(g->shard != NULL ? wh_shard_local(g->shard) : g->one, NULL, n);
}

/* Without arcs. */
static wh_status open_empty(whi_ranks *b, const whi_ranks_input *in, int alone,
                            whi_ranks_graph *g) {
    wh_graph_options one;
    wh_shard_options all;
    memset(&one, 0, sizeof one);
    memset(&all, 0, sizeof all);
    const uint64_t wanted = 2 * in->n * HEAP_BYTES_AN_ARC * (in->undirected ? 2 : 1);
    const wh_status s = whi_ranks_open_heap(b, wanted, &g->heap);
    WHI_BENCH_TRY(whi_ranks_agree_unless(b, alone, s, "a heap"));
    one.heap = all.heap = g->heap;
    one.vertices = all.vertices = whi_ranks_vertices(in);
    one.undirected = all.undirected = in->undirected;
    if (alone) {
        return whi_ranks_note(b, wh_graph_create(&g->one, &one), "a graph");
    }
    all.comm = b->comm;
    all.split = in->split;
    return wh_shard_open(&g->shard, &all);
}

wh_status whi_ranks_open_graph(whi_ranks *b, const whi_ranks_input *in, int alone,
                               whi_ranks_graph *g) {
    whi_ranks_arcs arcs;
    uint64_t applied = 0;
    memset(g, 0, sizeof *g);
    WHI_BENCH_TRY(open_empty(b, in, alone, g));
    wh_status s = whi_ranks_take_arcs(b, in, 0, alone, &arcs);
    s = whi_ranks_agree_unless(b, alone, s, "arcs");
    s = s == WH_OK ? whi_ranks_update(g, &arcs, 0, &applied) : s;
    whi_ranks_drop_arcs(b, &arcs);
    return alone ? whi_ranks_note(b, s, "the arcs of the graph") : s;
}

void whi_ranks_close_graph(whi_ranks *b, whi_ranks_graph *g) {
    if (!whi_ranks_is_over(b)) {
        (void)wh_shard_close(g->shard);
        (void)wh_graph_destroy(g->one);
        (void)wh_heap_destroy(g->heap);
    }
    memset(g, 0, sizeof *g);
}

/* --- inputs ---------------------------------------------------------------------------------- */

wh_status whi_ranks_for_graphs(whi_ranks *b, whi_ranks_graph_fn part, const whi_ranks_input *like,
                               const uint64_t *own) {
    const whi_ranks_options *o = b->options;
    for (int is_rmat = 0; is_rmat < 2; is_rmat++) {
        for (size_t i = 0; o->n_sizes != 0 ? i < o->n_sizes : own[i] != 0; i++) {
            whi_ranks_input in = *like;
            in.is_rmat = is_rmat;
            in.name = is_rmat ? "rmat" : "uniform";
            in.n = o->n_sizes != 0 ? o->sizes[i] : own[i];
            b->part.op = NULL;
            b->part.input = in.name;
            b->part.n = in.n;
            WHI_BENCH_TRY(whi_ranks_end_part(b, part(b, &in)));
        }
    }
    return WH_OK;
}
