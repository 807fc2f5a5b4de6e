/* game.c: one run of a workload of fault_graph; the model, and batches against it. */
#include "fault/graph/graph.h"

#include <stdlib.h>

uint32_t draw(game *g, uint32_t n) {
    g->random = g->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((g->random >> 33) % n);
}

/* --- the model ----------------------------------------------------------------------------------
 */

uint64_t expected_arcs(const game *g) {
    uint64_t n = 0;
    for (uint32_t v = 0; v < g->n; v++) {
        for (uint32_t w = 0; w < g->n; w++) {
            n += g->copies[v][w];
        }
    }
    return n;
}

/* Row v of the arrays is what the model says. */
static int compare_row(const game *g, uint32_t v) {
    uint32_t copies[MOST] = {0}, value[MOST] = {0};
    for (uint64_t i = g->offset[v]; i < g->offset[v + 1]; i++) {
        const uint32_t w = g->all[i];
        EXPECT(w < g->n);
        EXPECT(!g->options.sorted || i == g->offset[v] || g->all[i - 1] <= w);
        copies[w]++;
        value[w] += g->all_values[0][i];
        EXPECT(g->options.values < 2 || g->all_values[1][i] == g->all_values[0][i] * 7 + 1);
    }
    for (uint32_t w = 0; w < g->n; w++) {
        EXPECT(copies[w] == g->copies[v][w]);
        EXPECT(g->options.values == 0 || value[w] == g->value[v][w]);
    }
    return 0;
}

int compare(game *g) {
    uint64_t n = 0;
    uint32_t degree[MOST];
    wh_graph_arrays arrays;
    memset(&arrays, 0, sizeof arrays);
    memset(g->all_values, 0, sizeof g->all_values);
    arrays.offset = g->offset;
    arrays.to = g->all;
    arrays.room = MOST_ALL;
    for (uint32_t k = 0; k < g->options.values; k++) {
        arrays.values[k] = g->all_values[k];
    }
    EXPECT(wh_graph_check(g->graph, NULL) == WH_OK);
    EXPECT(wh_graph_to_csr(g->graph, &arrays, &n) == WH_OK);
    EXPECT(wh_graph_degrees(g->graph, degree, 0, NULL) == WH_OK);
    EXPECT(n == expected_arcs(g));
    for (uint32_t v = 0; v < g->n; v++) {
        EXPECT(degree[v] == g->offset[v + 1] - g->offset[v]);
        PLAY(compare_row(g, v));
    }
    return 0;
}

/* Arc i of the batch comes (1), or goes; whether that is a change. */
static uint32_t set_arc(game *g, uint32_t i, uint32_t comes) {
    const uint32_t v = g->from[i], w = g->to[i], was = g->copies[v][w];
    g->copies[v][w] = comes && g->options.multi ? was + 1 : comes;
    if (comes && (was == 0 || g->options.multi)) {
        g->value[v][w] += g->values[0][i];
    }
    g->value[v][w] = comes ? g->value[v][w] : 0;
    if (g->options.undirected) {
        g->copies[w][v] = g->copies[v][w];
        g->value[w][v] = g->value[v][w];
    }
    return g->options.multi && comes ? 1 : (was != 0) != comes;
}

/* --- batches ------------------------------------------------------------------------------------
 */

void draw_arcs(game *g, uint32_t n, uint32_t sources) {
    const uint32_t salt = draw(g, 50);
    g->n_arcs = n;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t v = draw(g, sources), w = draw(g, g->n);
        const int back = g->options.undirected && draw(g, 2) == 0;
        g->from[i] = back ? w : v;
        g->to[i] = back ? v : w;
        g->erases[i] = (uint8_t)(draw(g, 2));
        g->values[0][i] = (v + w) * 64 + v * w + salt; /* of the arc, so that any may win */
        g->values[1][i] = g->values[0][i] * 7 + 1;
    }
}

wh_graph_batch batch_of(game *g) {
    wh_graph_batch b;
    memset(&b, 0, sizeof b);
    b.from = g->from;
    b.to = g->to;
    b.n = g->n_arcs;
    b.done = g->done;
    b.erases = g->erases;
    for (uint32_t k = 0; k < g->options.values; k++) {
        b.values[k] = g->values[k];
    }
    return b;
}

/* What became of a batch of which so many arcs were to change something. */
static int expect_result(const game *g, const wh_graph_result *r, uint32_t applied) {
    uint32_t told = 0;
    for (uint32_t i = 0; i < g->n_arcs; i++) {
        EXPECT(g->done[i] <= WH_GRAPH_APPLIED);
        told += g->done[i];
    }
    EXPECT(told == applied);
    EXPECT(r->applied == applied);
    EXPECT(r->no_change == g->n_arcs - applied);
    EXPECT(r->refused == 0 && r->no_vertex == 0);
    return 0;
}

int send_insert(game *g) {
    wh_graph_result r;
    uint32_t applied = 0;
    const wh_graph_batch b = batch_of(g);
    EXPECT(wh_graph_insert(g->graph, &b, &r) == WH_OK);
    for (uint32_t i = 0; i < g->n_arcs; i++) {
        applied += set_arc(g, i, 1);
    }
    return expect_result(g, &r, applied);
}

int send_erase(game *g) {
    wh_graph_result r;
    uint32_t applied = 0;
    const wh_graph_batch b = batch_of(g);
    EXPECT(wh_graph_erase(g->graph, &b, &r) == WH_OK);
    for (uint32_t i = 0; i < g->n_arcs; i++) {
        applied += set_arc(g, i, 0);
    }
    return expect_result(g, &r, applied);
}

static int send_mixed(game *g) {
    wh_graph_result r;
    uint32_t applied = 0;
    const wh_graph_batch b = batch_of(g);
    EXPECT(wh_graph_update(g->graph, &b, &r) == WH_OK);
    for (uint32_t comes = 0; comes < 2; comes++) {
        for (uint32_t i = 0; i < g->n_arcs; i++) {
            applied += (g->erases[i] != 0) != comes ? set_arc(g, i, comes) : 0;
        }
    }
    return expect_result(g, &r, applied);
}

static int send_has(game *g) {
    const wh_graph_batch b = batch_of(g);
    EXPECT(wh_graph_has(g->graph, &b) == WH_OK);
    for (uint32_t i = 0; i < g->n_arcs; i++) {
        EXPECT(g->done[i] == (g->copies[g->from[i]][g->to[i]] != 0));
    }
    return 0;
}

/* All arcs whose first value is less than some limit go; of copies none has another value. */
static int expire(game *g) {
    uint64_t gone = 0, expected = 0;
    const uint32_t before = draw(g, 4000);
    EXPECT(wh_graph_expire(g->graph, 0, before, NULL, &gone) == WH_OK);
    for (uint32_t v = 0; v < g->n; v++) {
        for (uint32_t w = 0; w < g->n; w++) {
            if (g->copies[v][w] != 0 && g->value[v][w] < before) {
                expected += !g->options.undirected || w >= v ? g->copies[v][w] : 0;
                g->copies[v][w] = g->value[v][w] = 0;
            }
        }
    }
    EXPECT(gone == expected);
    return 0;
}

/* Batches of all sizes, from all vertices, two, and one, in and out. */
int play_batches(game *g) {
    static const uint32_t sizes[] = {600, 30, 58, 600, 250, 600, 60, 120, 600, 57, 40};
    for (uint32_t step = 0; step < sizeof sizes / sizeof *sizes; step++) {
        const uint32_t few = step < 6 ? 1 : step / 3;
        const uint32_t sources = step % 3 == 0 ? few : g->n;
        draw_arcs(g, sizes[step], sources);
        const uint32_t what = step < 3 ? 0 : draw(g, 4);
        if (what == 3) {
            PLAY(send_mixed(g));
        } else {
            PLAY(what == 1 ? send_erase(g) : send_insert(g));
        }
        PLAY(compare(g));
        PLAY(send_has(g));
        if (g->options.values != 0 && !g->options.multi && step % 4 == 3) {
            PLAY(expire(g));
            PLAY(compare(g));
        }
    }
    return 0;
}

/* --- a run --------------------------------------------------------------------------------------
 */

static int open_game(game *g, uint64_t step_budget) {
    static const wh_sim_policy policies[] = {WH_SIM_RANDOM, WH_SIM_STICKY, WH_SIM_STALL,
                                             WH_SIM_PCT};
    wh_sim_options so;
    wh_heap_options ho;
    memset(&so, 0, sizeof so);
    memset(&ho, 0, sizeof ho);
    so.seed = g->seed;
    so.policy = policies[g->seed % 4];
    so.weak = g->seed % 2 != 0 ? WH_SIM_WEAK_GPU : WH_SIM_WEAK_NONE;
    so.step_budget = step_budget;
    EXPECT(wh_device_open(&g->device, "sim", &so) == WH_OK);
    ho.device = g->device;
    EXPECT(wh_heap_min_bytes(&ho, &ho.bytes) == WH_OK);
    ho.bytes += 2 << 20; /* the least one is full before each size has blocks */
    EXPECT(wh_heap_create(&g->heap, &ho) == WH_OK);
    g->options = g->w->options;
    g->options.heap = g->heap;
    g->n =
        (uint32_t)(g->options.most_vertices != 0 ? g->options.most_vertices : g->options.vertices);
    EXPECT(wh_graph_create(&g->graph, &g->options) == WH_OK);
    return 0;
}

/* In the end nothing is left in the heap, and nobody has freed what was not his. */
static int close_game(game *g) {
    wh_stats stats;
    memset(&stats, 0, sizeof stats);
    EXPECT(wh_graph_destroy(g->graph) == WH_OK);
    g->graph = NULL;
    EXPECT(wh_heap_check(g->heap, NULL) == WH_OK);
    EXPECT(wh_heap_get_stats(g->heap, &stats) == WH_OK);
    EXPECT(stats.live_blocks == 0 && stats.bad_frees == 0);
    return 0;
}

int fault_run(const suite *of, const workload *w, uint64_t seed) {
    game *g = calloc(1, sizeof *g);
    if (g == NULL) {
        return 1;
    }
    g->w = w;
    g->seed = g->random = seed;
    const int wrong = open_game(g, of->step_budget) || w->play(g) || close_game(g);
    if (wrong) {
        fprintf(stderr, "%s seed %u: %s\n", w->name, (unsigned)seed,
                g->device != NULL ? wh_device_error_text(g->device) : "");
    }
    (void)wh_graph_destroy(g->graph);
    (void)wh_heap_destroy(g->heap);
    wh_device_close(g->device);
    free(g);
    return wrong;
}
