/* device.c: what kernels of a user see of a graph: degrees, neighbours, whether an arc is there,
 * for a lane and for a warp. */
#include "sim/sim_test.h"

#include "warpheap/graph_device.h"

#define VERTICES 100u

typedef struct look_args {
    wh_graph_ref g;
    uint32_t *degrees, *sums; /* of each vertex; of its neighbours */
    uint32_t *has, *together; /* [VERTICES][VERTICES], together a bit each */
} look_args;

/* A warp a vertex. */
WH_KERNEL(look_around, look_args, a) {
    const uint32_t v = wh_block_id(), lane = wh_lane_id();
    const uint32_t *to = wh_graph_neighbours(a.g, v);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < wh_graph_degree(a.g, v); i++) {
        sum += to[i];
    }
    if (lane == 0) {
        a.degrees[v] = wh_graph_degree(a.g, v);
        a.sums[v] = sum;
    }
    for (uint32_t first = 0; first < VERTICES; first += WH_WARP_SIZE) {
        const uint32_t w = first + lane;
        const wh_mask has = wh_graph_has_warp(a.g, v, w);
        if (w < VERTICES) {
            a.has[v * VERTICES + w] = (uint32_t)wh_graph_has_arc(a.g, v, w);
            a.together[v * VERTICES + w] = has >> lane & 1;
        }
    }
}

/* Vertex v has arcs to all w that v * step divides without a rest, and 0 has all. */
static void test_look_around(void **state) {
    (void)state;
    wh_device *device = open_policy(WH_SIM_RANDOM, 7);
    wh_heap *heap = NULL;
    wh_graph *graph = NULL;
    wh_heap_options ho;
    wh_graph_options go;
    wh_graph_batch batch;
    look_args a;
    memset(&ho, 0, sizeof ho);
    memset(&go, 0, sizeof go);
    memset(&batch, 0, sizeof batch);
    memset(&a, 0, sizeof a);
    ho.device = device;
    ho.bytes = 4 << 20;
    assert_int_equal(wh_heap_create(&heap, &ho), WH_OK);
    go.heap = heap;
    go.vertices = VERTICES;
    assert_int_equal(wh_graph_create(&graph, &go), WH_OK);
    static uint32_t from[VERTICES * VERTICES], to[VERTICES * VERTICES];
    for (uint32_t v = 0; v < VERTICES; v++) {
        for (uint32_t w = 0; w < VERTICES; w++) {
            if (v == 0 || w % v == 0) {
                from[batch.n] = v;
                to[batch.n++] = w;
            }
        }
    }
    batch.from = from;
    batch.to = to;
    assert_int_equal(wh_graph_insert(graph, &batch, NULL), WH_OK);
    assert_int_equal(wh_graph_handle(graph, &a.g), WH_OK);
    assert_int_equal(a.g.n_vertices, VERTICES);
    assert_int_equal(wh_graph_handle(graph, NULL), WH_BAD_ARGUMENT);
    a.degrees = take(device, VERTICES * 4);
    a.sums = take(device, VERTICES * 4);
    a.has = take(device, VERTICES * VERTICES * 4);
    a.together = take(device, VERTICES * VERTICES * 4);
    const wh_launch l = grid(device, VERTICES, 32);
    assert_int_equal(look_around(&l, &a), WH_OK);
    assert_int_equal(wh_device_sync(device), WH_OK);
    for (uint32_t v = 0; v < VERTICES; v++) {
        uint32_t degree = 0, sum = 0;
        for (uint32_t w = 0; w < VERTICES; w++) {
            const uint32_t is = v == 0 || w % v == 0;
            degree += is;
            sum += is ? w : 0;
            assert_int_equal(a.has[v * VERTICES + w], is);
            assert_int_equal(a.together[v * VERTICES + w], is);
        }
        assert_int_equal(a.degrees[v], degree);
        assert_int_equal(a.sums[v], sum);
    }
    assert_int_equal(wh_graph_destroy(graph), WH_OK);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_look_around)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
