/* 05_graph.c: a graph whose arcs come as a stream and are forgotten after a while: each batch of
 * new arcs goes in, the oldest goes out, and a kernel looks at what there is. */
#include <stdio.h>
#include <stdlib.h>
#include <warpheap/graph_device.h>

#define VERTICES 1000u
#define BATCH 500u
#define WINDOW 4u /* batches that are kept */
#define BATCHES 12u

typedef struct args {
    wh_graph_ref graph;
    uint32_t *counts; /* arcs, and arcs whose reverse is there, too */
} args;

/* A thread a vertex. */
WH_KERNEL(count_pairs, args, a) {
    const uint64_t v = wh_thread_id();
    if (v >= a.graph.n_vertices) {
        return;
    }
    const uint32_t *to = wh_graph_neighbours(a.graph, (uint32_t)v);
    const uint32_t degree = wh_graph_degree(a.graph, (uint32_t)v);
    uint32_t pairs = 0;
    for (uint32_t i = 0; i < degree; i++) {
        pairs += (uint32_t)wh_graph_has_arc(a.graph, to[i], (uint32_t)v);
    }
    wh_add_u32_relaxed(&a.counts[0], degree);
    wh_add_u32_relaxed(&a.counts[1], pairs);
}

/* Of WH_DEVICE_ERROR wh_device_error_text says more. */
static void must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s\n%s\n", wh_status_text(status), wh_last_error_text());
        exit(1);
    }
}

/* Arc i of the stream; each fourth one answers the one before. */
static void arc(uint32_t i, uint32_t *from, uint32_t *to) {
    const uint32_t k = i % 4 == 3 ? i - 1 : i;
    const uint32_t u = wh_spread32(2 * k) >> 16, v = wh_spread32(2 * k + 1) >> 16;
    *from = (k == i ? u : v) % VERTICES;
    *to = (k == i ? v : u) % VERTICES;
}

static wh_graph_batch batch_of(uint32_t number, uint32_t *from, uint32_t *to) {
    wh_graph_batch batch = {0};
    for (uint32_t i = 0; i < BATCH; i++) {
        arc(number * BATCH + i, &from[i], &to[i]);
    }
    batch.from = from;
    batch.to = to;
    batch.n = BATCH;
    return batch;
}

int main(void) {
    static uint32_t from[BATCH], to[BATCH];
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    wh_graph *graph = NULL;
    wh_heap_options heap_options = {0};
    wh_graph_options options = {0};
    wh_graph_result in, out = {0, 0, 0, 0};
    wh_stats stats = {0};
    uint32_t counts[2] = {0, 0};
    uint64_t arcs = 0;
    args a;
    void *p = NULL;
    must(wh_device_open(&device, WH_TARGET_NAME, NULL));
    heap_options.bytes = 64 << 20;
    heap_options.device = device;
    must(wh_heap_create(&heap, &heap_options));
    options.heap = heap;
    options.vertices = VERTICES;
    must(wh_graph_create(&graph, &options));
    must(wh_graph_handle(graph, &a.graph));
    must(wh_device_alloc(device, &p, sizeof counts));
    a.counts = (uint32_t *)p;
    const wh_launch threads = wh_grid(device, (VERTICES + 255) / 256, 256);
    for (uint32_t k = 0; k < BATCHES; k++) {
        wh_graph_batch batch = batch_of(k, from, to);
        must(wh_graph_insert(graph, &batch, &in));
        if (k >= WINDOW) { /* an arc that came again since then goes, too */
            batch = batch_of(k - WINDOW, from, to);
            must(wh_graph_erase(graph, &batch, &out));
        }
        must(wh_device_set(device, a.counts, 0, sizeof counts));
        must(count_pairs(&threads, &a));
        must(wh_device_copy_out(device, counts, a.counts, sizeof counts));
        printf("batch %2u: %3u new, %3u forgotten; %4u arcs, %3u of them answered\n", k,
               (unsigned)in.applied, (unsigned)out.applied, counts[0], counts[1]);
    }
    must(wh_graph_to_csr(graph, NULL, &arcs));
    must(wh_graph_check(graph, NULL));
    must(wh_device_free(device, p));
    must(wh_graph_destroy(graph));
    must(wh_heap_get_stats(heap, &stats));
    wh_heap_destroy(heap);
    wh_device_close(device);
    return arcs == counts[0] && stats.live_blocks == 0 ? 0 : 1;
}
