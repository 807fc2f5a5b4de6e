/* networkx.c: PageRank, triangles, those of every third arc, components and breadth-first search of
 * a graph from a file, each as a line of numbers, for networkx.py to compare. Arguments: the file:
 * how many vertices and arcs, then the ends of each arc; and "naive", or nothing. Without
 * arguments: skipped. */
#include "sim/sim_test.h"

#include <inttypes.h>

#include "warpheap/graph_algorithms.h"

#define TRY(call)                                                                            \
    do {                                                                                     \
        const wh_status s_ = call;                                                           \
        if (s_ != WH_OK) {                                                                   \
            fprintf(stderr, "%s: %s %s\n", #call, wh_status_name(s_), wh_last_error_text()); \
            return 1;                                                                        \
        }                                                                                    \
    } while (0)

/* The arcs of a file. 0: it cannot be read. */
static int read_arcs(const char *path, uint32_t *n, wh_graph_batch *batch) {
    FILE *f = fopen(path, "r");
    int ok = f != NULL && fscanf(f, "%" SCNu32 " %" SCNu64, n, &batch->n) == 2;
    if (ok) {
        uint32_t *from = malloc(batch->n * 4 + 4), *to = malloc(batch->n * 4 + 4);
        for (uint64_t i = 0; ok && i < batch->n; i++) {
            ok = fscanf(f, "%" SCNu32 " %" SCNu32, &from[i], &to[i]) == 2;
        }
        batch->from = from;
        batch->to = to;
    }
    if (f != NULL) {
        fclose(f);
    }
    return ok;
}

static void print_words(const char *name, const uint32_t *words, uint32_t n) {
    printf("%s", name);
    for (uint32_t v = 0; v < n; v++) {
        printf(" %" PRIu32, words[v]);
    }
    printf("\n");
}

/* Triangles that have one of the arcs 0, 3, 6, ... */
static int print_third(wh_graph *graph, const wh_graph_batch *all) {
    wh_graph_batch batch = *all;
    uint32_t *from = malloc(all->n * 4 + 4), *to = malloc(all->n * 4 + 4);
    uint64_t total = 0;
    batch.n = 0;
    for (uint64_t i = 0; i < all->n; i += 3) {
        from[batch.n] = all->from[i];
        to[batch.n++] = all->to[i];
    }
    batch.from = from;
    batch.to = to;
    TRY(wh_graph_triangles_of_batch(graph, &batch, &total));
    printf("of_third %" PRIu64 "\n", total);
    free(from);
    free(to);
    return 0;
}

static int print_all(wh_graph *graph, uint32_t n, int naive) {
    float *rank = malloc(n * sizeof *rank);
    uint32_t *words = malloc(n * sizeof *words);
    uint64_t *of_vertex = malloc(n * sizeof *of_vertex), total = 0;
    wh_graph_pagerank_options o;
    wh_graph_run_options run;
    memset(&o, 0, sizeof o);
    memset(&run, 0, sizeof run);
    o.tolerance = 1e-11;
    o.most_iterations = 500;
    o.naive = run.naive = naive;
    TRY(wh_graph_pagerank(graph, &o, rank, NULL));
    printf("pagerank");
    for (uint32_t v = 0; v < n; v++) {
        printf(" %.9g", (double)rank[v]);
    }
    TRY(wh_graph_triangles(graph, &run, &total, of_vertex));
    printf("\ntriangles %" PRIu64, total);
    for (uint32_t v = 0; v < n; v++) {
        printf(" %" PRIu64, of_vertex[v]);
    }
    printf("\n");
    TRY(wh_graph_components(graph, &run, words, NULL));
    print_words("components", words, n);
    TRY(wh_graph_bfs(graph, 0, &run, words, NULL));
    print_words("bfs", words, n);
    free(rank);
    free(words);
    free(of_vertex);
    return 0;
}

static int work(const char *path, int naive) {
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    wh_graph *graph = NULL;
    wh_heap_options ho;
    wh_graph_options go;
    wh_graph_batch batch;
    uint32_t n = 0;
    memset(&ho, 0, sizeof ho);
    memset(&go, 0, sizeof go);
    memset(&batch, 0, sizeof batch);
    if (!read_arcs(path, &n, &batch)) {
        fprintf(stderr, "%s: no graph\n", path);
        return 1;
    }
    TRY(wh_device_open(&device, "sim", NULL));
    ho.device = device;
    ho.bytes = 64 << 20;
    TRY(wh_heap_create(&heap, &ho));
    go.heap = heap;
    go.vertices = n;
    TRY(wh_graph_create(&graph, &go));
    TRY(wh_graph_insert(graph, &batch, NULL));
    const int failed = print_all(graph, n, naive) || print_third(graph, &batch);
    TRY(wh_graph_destroy(graph));
    TRY(wh_heap_destroy(heap));
    wh_device_close(device);
    free((void *)(uintptr_t)batch.from);
    free((void *)(uintptr_t)batch.to);
    return failed;
}

int main(int argc, char **argv) {
    return argc > 1 ? work(argv[1], argc > 2) : 77;
}
