/* case_algorithms.c: the cases pagerank, triangles and rebalance. */
#include <stdlib.h>
#include <string.h>

#include "bench/ranks/ranks.h"

#define ITERATIONS 20u
#define BALANCE 1.05 /* times the mean of arcs that a rank may have */

/* --- pagerank -------------------------------------------------------------------------------- */

typedef struct ranked {
    whi_ranks_series series;
    float *rank; /* of each vertex */
} ranked;

static wh_status rank_graph(whi_ranks *b, const whi_ranks_input *in, int alone, ranked *r) {
    whi_ranks_graph g;
    wh_graph_pagerank_options o;
    memset(&g, 0, sizeof g);
    memset(&o, 0, sizeof o);
    o.tolerance = -1;
    o.most_iterations = ITERATIONS;
    r->rank = calloc(whi_ranks_vertices(in), sizeof *r->rank);
    const wh_status taken = r->rank != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    WHI_BENCH_TRY(whi_ranks_agree_unless(b, alone, taken, "an array"));
    wh_status s = whi_ranks_open_graph(b, in, alone, &g);
    for (uint32_t i = 0; i <= b->reps && s == WH_OK; i++) { /* the first one is not timed */
        s = whi_ranks_begin(b, &r->series, alone);
        if (s == WH_OK && alone) {
            s = whi_ranks_note(b, wh_graph_pagerank(g.one, &o, r->rank, NULL), "pagerank");
        } else if (s == WH_OK) {
            s = wh_shard_pagerank(g.shard, &o, r->rank, NULL);
        }
        whi_ranks_end(b, &r->series);
        whi_ranks_add_times(&g, 0, &r->series);
    }
    whi_ranks_close_graph(b, &g);
    return s;
}

/* The values of both are the same bits, and so on all ranks. */
static wh_status compare_ranks(whi_ranks *b, const whi_ranks_input *in, const ranked *one,
                               const ranked *all) {
    const uint32_t n = whi_ranks_vertices(in);
    double sum = 0;
    whi_ranks_row row;
    memset(&row, 0, sizeof row);
    row.series = &all->series;
    row.one = &one->series;
    WHI_BENCH_TRY(whi_ranks_compare_words(b, all->rank, one->rank, n, &row.bad));
    for (uint32_t v = 0; v < n; v++) {
        sum += (double)all->rank[v];
    }
    row.bad += b->rank == 0 && !(sum > 0.999 && sum < 1.001);
    row.values[row.n_values++] = (whi_bench_value){"iterations", ITERATIONS, 0};
    return whi_ranks_emit(b, &row);
}

static wh_status pagerank_part(whi_ranks *b, const whi_ranks_input *in) {
    ranked one, all;
    memset(&one, 0, sizeof one);
    memset(&all, 0, sizeof all);
    b->part.op = "pagerank";
    wh_status s = b->rank == 0 ? rank_graph(b, in, 1, &one) : WH_OK;
    s = whi_ranks_agree(b, s, "one device");
    s = s == WH_OK ? rank_graph(b, in, 0, &all) : s;
    s = s == WH_OK ? compare_ranks(b, in, &one, &all) : s;
    if (!whi_ranks_is_over(b)) {
        free(one.rank);
        free(all.rank);
    }
    return s;
}

wh_status whi_ranks_case_pagerank(whi_ranks *b) {
    whi_ranks_input like;
    memset(&like, 0, sizeof like);
    return whi_ranks_for_graphs(b, pagerank_part, &like, b->defaults->sizes);
}

/* --- triangles ------------------------------------------------------------------------------- */

typedef struct counted {
    whi_ranks_series series;
    uint64_t triangles;
} counted;

static wh_status count_triangles(whi_ranks *b, const whi_ranks_input *in, int alone, counted *c) {
    whi_ranks_graph g;
    memset(c, 0, sizeof *c);
    wh_status s = whi_ranks_open_graph(b, in, alone, &g);
    for (uint32_t i = 0; i <= b->reps && s == WH_OK; i++) {
        s = whi_ranks_begin(b, &c->series, alone);
        if (s == WH_OK && alone) {
            s = wh_graph_triangles(g.one, NULL, &c->triangles, NULL);
            s = whi_ranks_note(b, s, "triangles");
        } else if (s == WH_OK) {
            s = wh_shard_triangles(g.shard, &c->triangles);
        }
        whi_ranks_end(b, &c->series);
    }
    whi_ranks_close_graph(b, &g);
    return s;
}

static wh_status triangles_part(whi_ranks *b, const whi_ranks_input *in) {
    counted one, all;
    uint64_t differs = 0;
    whi_ranks_row row;
    memset(&row, 0, sizeof row);
    b->part.op = "triangles";
    const wh_status alone = b->rank == 0 ? count_triangles(b, in, 1, &one) : WH_OK;
    WHI_BENCH_TRY(whi_ranks_agree(b, alone, "one device"));
    WHI_BENCH_TRY(count_triangles(b, in, 0, &all));
    WHI_BENCH_TRY(whi_ranks_compare(b, all.triangles, &differs));
    row.series = &all.series;
    row.one = &one.series;
    row.bad = b->rank == 0 && (differs != 0 || all.triangles != one.triangles);
    row.values[row.n_values++] = (whi_bench_value){"triangles", (double)all.triangles, 0};
    return whi_ranks_emit(b, &row);
}

wh_status whi_ranks_case_triangles(whi_ranks *b) {
    whi_ranks_input like;
    memset(&like, 0, sizeof like);
    like.undirected = 1;
    return whi_ranks_for_graphs(b, triangles_part, &like, b->defaults->sizes);
}

/* --- rebalance ------------------------------------------------------------------------------- */

typedef struct balance {
    whi_ranks_series series;
    uint64_t moved;
    uint64_t arcs[2], most[2]; /* before and after: in all, of a rank */
    uint64_t largest;          /* degree */
} balance;

static wh_status count_arcs(whi_ranks *b, whi_ranks_graph *g, uint64_t *arcs, uint64_t *most) {
    WHI_BENCH_TRY(whi_ranks_agree(b, whi_ranks_count(g, arcs), "arcs of a rank"));
    *most = *arcs;
    WHI_BENCH_TRY(whi_ranks_sum(b, arcs, 1));
    return wh_comm_all_reduce(b->comm, most, 1, WH_COMM_U64, WH_COMM_MAX);
}

/* Once: afterwards there is nothing more to move. */
static wh_status move(whi_ranks *b, whi_ranks_graph *g, balance *m) {
    wh_graph_stats stats;
    WHI_BENCH_TRY(count_arcs(b, g, &m->arcs[0], &m->most[0]));
    WHI_BENCH_TRY(whi_ranks_begin(b, &m->series, 0));
    WHI_BENCH_TRY(wh_shard_rebalance(g->shard, BALANCE, &m->moved));
    whi_ranks_end(b, &m->series);
    WHI_BENCH_TRY(count_arcs(b, g, &m->arcs[1], &m->most[1]));
    memset(&stats, 0, sizeof stats);
    const wh_status s = wh_graph_get_stats(wh_shard_local(g->shard), &stats);
    WHI_BENCH_TRY(whi_ranks_agree(b, s, "statistics"));
    m->largest = stats.max_degree;
    return wh_comm_all_reduce(b->comm, &m->largest, 1, WH_COMM_U64, WH_COMM_MAX);
}

static wh_status rebalance_part(whi_ranks *b, const whi_ranks_input *in) {
    balance m;
    whi_ranks_graph g;
    whi_ranks_row row;
    memset(&m, 0, sizeof m);
    memset(&row, 0, sizeof row);
    b->part.op = "rebalance";
    wh_status s = whi_ranks_open_graph(b, in, 0, &g);
    s = s == WH_OK ? move(b, &g, &m) : s;
    whi_ranks_close_graph(b, &g);
    WHI_BENCH_TRY(s);
    const double mean = (double)m.arcs[1] / b->size;
    row.series = &m.series;
    row.bad = b->rank == 0 && m.arcs[0] != m.arcs[1];
    row.bad += b->rank == 0 && (double)m.most[1] > BALANCE * mean + (double)m.largest;
    row.values[row.n_values++] = (whi_bench_value){"moved", (double)m.moved, 0};
    row.values[row.n_values++] = (whi_bench_value){"most_before", (double)m.most[0] / mean, 3};
    row.values[row.n_values++] = (whi_bench_value){"most_after", (double)m.most[1] / mean, 3};
    return whi_ranks_emit(b, &row);
}

wh_status whi_ranks_case_rebalance(whi_ranks *b) {
    whi_ranks_input like;
    memset(&like, 0, sizeof like);
    like.split = WH_SHARD_RANGE;
    return whi_ranks_for_graphs(b, rebalance_part, &like, b->defaults->small);
}
