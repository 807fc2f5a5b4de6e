/* walks.c: workloads of fault_graph: algorithms against naive ones. */
#include <math.h>

#include "fault/graph/graph.h"

static int compare_ranks(game *g) {
    enum { STEPS = 4 };
    double own[MOST];
    float rank[MOST];
    wh_graph_pagerank_options o;
    memset(&o, 0, sizeof o);
    o.most_iterations = STEPS;
    o.tolerance = -1;
    EXPECT(wh_graph_pagerank(g->graph, &o, rank, NULL) == WH_OK);
    for (uint32_t v = 0; v < g->n; v++) {
        own[v] = 1.0 / g->n;
    }
    for (uint32_t step = 0; step < STEPS; step++) {
        double in[MOST] = {0}, dangling = 0;
        for (uint32_t v = 0; v < g->n; v++) {
            uint32_t degree = 0;
            for (uint32_t w = 0; w < g->n; w++) {
                degree += g->copies[v][w];
            }
            dangling += degree == 0 ? own[v] : 0;
            for (uint32_t w = 0; w < g->n; w++) {
                in[w] += g->copies[v][w] ? own[v] * g->copies[v][w] / degree : 0;
            }
        }
        for (uint32_t v = 0; v < g->n; v++) {
            own[v] = 0.15 / g->n + 0.85 * (in[v] + dangling / g->n);
        }
    }
    for (uint32_t v = 0; v < g->n; v++) {
        EXPECT(fabs(own[v] - (double)rank[v]) <= 1e-5 * own[v]);
    }
    return 0;
}

static int compare_levels(game *g) {
    uint32_t level[MOST], at[MOST], reached = 0;
    const uint32_t source = draw(g, g->n);
    wh_graph_bfs_result r;
    EXPECT(wh_graph_bfs(g->graph, source, NULL, level, &r) == WH_OK);
    memset(at, 0xff, sizeof at);
    at[source] = 0;
    for (uint32_t k = 0; k < g->n; k++) {
        for (uint32_t v = 0; v < g->n; v++) {
            for (uint32_t w = 0; at[v] == k && w < g->n; w++) {
                at[w] = g->copies[v][w] && at[w] > k + 1 ? k + 1 : at[w];
            }
        }
    }
    for (uint32_t v = 0; v < g->n; v++) {
        EXPECT(level[v] == at[v]);
        reached += at[v] != WH_GRAPH_NOT_REACHED;
    }
    EXPECT(r.reached == reached);
    return 0;
}

static int compare_labels(game *g) {
    uint32_t label[MOST], own[MOST];
    uint64_t n = 0, roots = 0;
    EXPECT(wh_graph_components(g->graph, NULL, label, &n) == WH_OK);
    for (uint32_t v = 0; v < g->n; v++) {
        own[v] = v;
    }
    for (uint32_t k = 0; k < g->n; k++) {
        for (uint32_t i = 0; i < g->n * g->n; i++) {
            const uint32_t v = i / g->n, w = i % g->n, low = own[v] < own[w] ? own[v] : own[w];
            if (g->copies[v][w]) {
                own[v] = own[w] = low;
            }
        }
    }
    for (uint32_t v = 0; v < g->n; v++) {
        EXPECT(label[v] == own[v]);
        roots += own[v] == v;
    }
    EXPECT(n == roots);
    return 0;
}

static int compare_triangles(game *g) {
    uint64_t total = 0, of_vertex[MOST], expected = 0, own[MOST] = {0};
    EXPECT(wh_graph_triangles(g->graph, NULL, &total, of_vertex) == WH_OK);
    for (uint32_t u = 0; u < g->n; u++) {
        for (uint32_t v = u + 1; v < g->n; v++) {
            for (uint32_t w = v + 1; w < g->n; w++) {
                const int is = g->copies[u][v] && g->copies[v][w] && g->copies[u][w];
                expected += (uint64_t)is;
                own[u] += (uint64_t)is;
                own[v] += (uint64_t)is;
                own[w] += (uint64_t)is;
            }
        }
    }
    EXPECT(total == expected);
    for (uint32_t v = 0; v < g->n; v++) {
        EXPECT(of_vertex[v] == own[v]);
    }
    return 0;
}

/* A graph that gets more arcs, first few, then some vertices with very many. */
int play_walks(game *g) {
    static const uint32_t sizes[] = {12, 25, 500, 600};
    for (uint32_t step = 0; step < 4; step++) {
        draw_arcs(g, sizes[step], step == 2 ? 3 : g->n);
        PLAY(send_insert(g));
        PLAY(compare_labels(g));
        PLAY(compare_levels(g));
        PLAY(compare_ranks(g));
        PLAY(g->options.undirected ? compare_triangles(g) : 0);
    }
    return 0;
}
