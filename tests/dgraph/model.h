/* model.h: a graph against a naive model on the host; what the tests of graphs share. Included once
 * per program. */
#ifndef DGRAPH_MODEL_H
#define DGRAPH_MODEL_H

#include "sim/sim_test.h"

#include "warpheap/graph_device.h"

#define MOST_VERTICES 64u
#define MOST_ARCS 600u
#define VALUES WH_GRAPH_MOST_VALUES

/* The model: an arc is there or not, and has values. */
typedef struct model {
    uint32_t n;
    unsigned char has[MOST_VERTICES][MOST_VERTICES];
    uint32_t value[MOST_VERTICES][MOST_VERTICES][VALUES];
} model;

typedef struct context {
    wh_device *device;
    wh_heap *heap;
    wh_graph *graph;
    wh_graph_options options;
    model m;
    uint64_t random;
} context;

/* A batch on the host; result and done of the last call. */
typedef struct arcs {
    uint32_t n, from[MOST_ARCS], to[MOST_ARCS], value[VALUES][MOST_ARCS];
    uint8_t done[MOST_ARCS];
    wh_graph_result result;
} arcs;

static UNUSED const char *allocator; /* of the heaps to come; NULL: the default one */
static UNUSED uint64_t device_bytes; /* of the devices to come; 0: as many as there are */

/* A heap, and a graph of it, by these options but for the heap. */
static UNUSED void open_graph(context *x, uint64_t seed, uint64_t heap_bytes,
                              const wh_graph_options *options) {
    wh_sim_options so;
    wh_heap_options ho;
    memset(x, 0, sizeof *x);
    memset(&ho, 0, sizeof ho);
    memset(&so, 0, sizeof so);
    so.policy = (wh_sim_policy)(seed % N_POLICIES);
    so.seed = seed;
    so.memory_bytes = device_bytes;
    x->device = open_with(&so);
    ho.device = x->device;
    ho.allocator = allocator;
    ho.bytes = heap_bytes;
    assert_int_equal(wh_heap_create(&x->heap, &ho), WH_OK);
    x->options = *options;
    x->options.heap = x->heap;
    assert_int_equal(wh_graph_create(&x->graph, &x->options), WH_OK);
    x->m.n = (uint32_t)options->vertices;
    x->random = seed;
}

static UNUSED uint64_t live_blocks(context *x) {
    wh_stats stats;
    memset(&stats, 0, sizeof stats);
    assert_int_equal(wh_heap_get_stats(x->heap, &stats), WH_OK);
    return stats.live_blocks;
}

static UNUSED void close_all(context *x) {
    assert_int_equal(wh_graph_destroy(x->graph), WH_OK);
    assert_int_equal(live_blocks(x), 0); /* nothing is lost */
    assert_int_equal(wh_heap_check(x->heap, NULL), WH_OK);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
}

static UNUSED uint32_t draw(context *x, uint32_t n) {
    return (uint32_t)next_random(&x->random) % n;
}

/* Sources: any vertex, or one of few. Values: the others follow from the first. */
static UNUSED void random_arcs(context *x, arcs *b, uint32_t most, uint32_t sources) {
    b->n = sources == 1 ? most : 1 + draw(x, most);
    for (uint32_t i = 0; i < b->n; i++) {
        b->from[i] = draw(x, sources);
        b->to[i] = draw(x, x->m.n);
        b->value[0][i] = draw(x, 1000);
        for (uint32_t k = 1; k < VALUES; k++) {
            b->value[k][i] = b->value[0][i] * 7 + k;
        }
    }
}

static UNUSED wh_graph_batch batch_of(context *x, arcs *b) {
    wh_graph_batch batch;
    memset(&batch, 0, sizeof batch);
    batch.from = b->from;
    batch.to = b->to;
    batch.n = b->n;
    batch.done = b->done;
    for (uint32_t k = 0; k < x->options.values; k++) {
        batch.values[k] = b->value[k];
    }
    return batch;
}

/* The arcs of the graph are those of the model, with its values, and in order where that is so. */
static UNUSED void compare(context *x) {
    static uint32_t to[MOST_VERTICES * MOST_VERTICES];
    static uint32_t values[VALUES][MOST_VERTICES * MOST_VERTICES];
    uint64_t offset[MOST_VERTICES + 1], n = 0, expected_n = 0;
    uint32_t degree[MOST_VERTICES];
    wh_graph_arrays arrays = {.offset = offset, .to = to, .room = MOST_VERTICES * MOST_VERTICES};
    for (uint32_t k = 0; k < x->options.values; k++) {
        arrays.values[k] = values[k];
    }
    assert_int_equal(wh_graph_check(x->graph, NULL), WH_OK);
    assert_int_equal(wh_graph_to_csr(x->graph, &arrays, &n), WH_OK);
    assert_int_equal(wh_graph_degrees(x->graph, degree, 0, NULL), WH_OK);
    for (uint32_t v = 0; v < x->m.n; v++) {
        uint32_t expected = 0;
        for (uint32_t w = 0; w < x->m.n; w++) {
            expected += x->m.has[v][w];
        }
        assert_int_equal(offset[v + 1] - offset[v], expected);
        assert_int_equal(degree[v], expected);
        for (uint64_t i = offset[v]; i < offset[v + 1]; i++) {
            assert_true(to[i] < x->m.n && x->m.has[v][to[i]]);
            assert_true(!x->options.sorted || i == offset[v] || to[i - 1] < to[i]);
            for (uint32_t k = 0; k < x->options.values; k++) {
                assert_int_equal(values[k][i], x->m.value[v][to[i]][k]);
            }
        }
        expected_n += expected;
    }
    assert_int_equal(n, expected_n);
}

#endif
