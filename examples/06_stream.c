/* 06_stream.c: PageRank of a graph whose edges come as a stream. Each batch of new edges goes in,
 * what is older than a window goes out, and the ranks go on from those of before.
 *
 *     06_stream [FILE [BATCH [WINDOW]]]
 *
 * FILE: lines "u v" or "u v time", in order of time; # starts a comment; "sim" or none: a generated
 * stream; /dev/stdin: what zcat writes, say. BATCH: edges in a batch. WINDOW: batches that are
 * kept. Beside the lines that it prints, the program writes stream.pgm, a picture of the ranks at
 * the end: a pixel a vertex, the brighter the higher its rank. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <warpheap/graph_algorithms.h>
#include <warpheap/graph_device.h>

#define TOP 10u

/* The stream: edges in the order in which they come. */
typedef struct stream {
    uint32_t *from, *to;
    uint32_t *again; /* which number the same edge has when it comes the next time; or UINT32_MAX */
    uint32_t n, room, vertices;
} stream;

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* Of WH_DEVICE_ERROR wh_device_error_text says more. */
static void must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s\n", wh_last_error_text());
        fail(wh_status_text(status));
    }
}

static void *memory(void *old, size_t n) {
    void *p = realloc(old, n * sizeof(uint32_t) + 1);
    if (p == NULL) {
        fail("no memory");
    }
    return p;
}

static void add(stream *s, uint32_t from, uint32_t to) {
    if (s->n == s->room) {
        s->room = s->room != 0 ? 2 * s->room : 4096;
        s->from = (uint32_t *)memory(s->from, s->room);
        s->to = (uint32_t *)memory(s->to, s->room);
    }
    s->from[s->n] = from;
    s->to[s->n++] = to;
    const uint32_t last = from > to ? from : to;
    s->vertices = last >= s->vertices ? last + 1 : s->vertices;
}

static void read_stream(stream *s, const char *path) {
    char line[256];
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fail("the file cannot be opened");
    }
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned from = 0, to = 0;
        if (line[0] == '#' || line[0] == '%' || line[0] == '\n') {
            continue;
        }
        if (sscanf(line, "%u%*[ \t,]%u", &from, &to) != 2 || from >= 1u << 28 || to >= 1u << 28) {
            fail("a line of the file is not: u v time");
        }
        add(s, from, to);
    }
    (void)fclose(file);
}

static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

/* Some vertices are better known than others, and who they are changes as time goes by. */
static void make_stream(stream *s) {
    uint64_t random = 1;
    for (uint32_t i = 0; i < 6000; i++) {
        const uint32_t from = next_random(&random) % 256, to = next_random(&random) % 256;
        add(s, from, to < 128 ? to : (to % 8 * 32 + i / 1500 * 7) % 256);
    }
}

static const stream *sorted; /* for the function that qsort calls */

static int compare(const void *x, const void *y) {
    const uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    const uint64_t p = (uint64_t)sorted->from[a] << 32 | sorted->to[a];
    const uint64_t q = (uint64_t)sorted->from[b] << 32 | sorted->to[b];
    return p != q ? (p > q) - (p < q) : (a > b) - (a < b);
}

/* An edge that has come again since stays in the graph: it is not as old as it looks. */
static void find_again(stream *s) {
    uint32_t *order = (uint32_t *)memory(NULL, s->n);
    s->again = (uint32_t *)memory(NULL, s->n);
    for (uint32_t i = 0; i < s->n; i++) {
        order[i] = i;
    }
    sorted = s;
    qsort(order, s->n, sizeof *order, compare);
    for (uint32_t i = 0; i < s->n; i++) {
        const uint32_t a = order[i], b = i + 1 < s->n ? order[i + 1] : a;
        s->again[a] = a != b && s->from[a] == s->from[b] && s->to[a] == s->to[b] ? b : UINT32_MAX;
    }
    free(order);
}

/* Edges begin..end-1, but for those that come again before `until`. */
static wh_graph_batch batch_of(const stream *s, uint32_t begin, uint32_t end, uint32_t until,
                               uint32_t *memory_of_batch) {
    wh_graph_batch batch = {0};
    uint32_t *from = memory_of_batch, *to = memory_of_batch + (end - begin);
    for (uint32_t i = begin; i < end; i++) {
        if (s->again[i] >= until) {
            from[batch.n] = s->from[i];
            to[batch.n++] = s->to[i];
        }
    }
    batch.from = from;
    batch.to = to;
    return batch;
}

/* --- what is told of the ranks -------------------------------------------------------------- */

static void print_top(const float *rank, uint32_t n) {
    uint32_t top[TOP];
    uint32_t have = 0;
    for (uint32_t v = 0; v < n; v++) {
        uint32_t at = have;
        while (at > 0 && rank[v] > rank[top[at - 1]]) {
            at--;
        }
        if (at < TOP) {
            have = have < TOP ? have + 1 : have;
            memmove(&top[at + 1], &top[at], (have - 1 - at) * sizeof *top);
            top[at] = v;
        }
    }
    for (uint32_t i = 0; i < have; i++) {
        printf("%2u. vertex %6u  rank %.6f\n", (unsigned)i + 1, (unsigned)top[i],
               (double)rank[top[i]]);
    }
}

/* A grey picture, row by row; the logarithm, since most ranks are small. */
static void write_picture(const float *rank, uint32_t n) {
    const uint32_t side = (uint32_t)ceil(sqrt((double)n));
    float least = 1, most = 0;
    FILE *file = fopen("stream.pgm", "wb");
    if (file == NULL) {
        fail("stream.pgm cannot be written");
    }
    for (uint32_t v = 0; v < n; v++) {
        least = rank[v] < least ? rank[v] : least;
        most = rank[v] > most ? rank[v] : most;
    }
    fprintf(file, "P5\n%u %u\n255\n", (unsigned)side, (unsigned)side);
    for (uint64_t i = 0; i < (uint64_t)side * side; i++) {
        double grey = 0;
        if (i < n && least > 0 && most > least) {
            grey = 255 * log((double)(rank[i] / least)) / log((double)(most / least));
        }
        (void)fputc((int)grey, file);
    }
    if (fclose(file) != 0) {
        fail("stream.pgm cannot be written");
    }
}

/* --- the graph ------------------------------------------------------------------------------- */

static wh_graph *make_graph(wh_device *device, const stream *s, wh_heap **heap) {
    wh_graph *graph = NULL;
    wh_heap_options heap_options = {0};
    wh_graph_options options = {0};
    heap_options.bytes = ((uint64_t)64 << 20) + 64 * (uint64_t)s->n;
    heap_options.device = device;
    must(wh_heap_create(heap, &heap_options));
    options.heap = *heap;
    options.vertices = s->vertices;
    must(wh_graph_create(&graph, &options));
    return graph;
}

/* Follows the stream; rank is that of the last batch. Returns the iterations of all. */
static uint64_t follow(wh_graph *graph, const stream *s, uint32_t size, uint32_t window,
                       float *rank) {
    uint32_t *room = (uint32_t *)memory(NULL, 2 * (size_t)size);
    uint64_t iterations = 0;
    for (uint32_t begin = 0; begin < s->n; begin += size) {
        const uint32_t end = s->n - begin > size ? begin + size : s->n;
        const uint32_t old = size * window; /* the window reaches back so far */
        wh_graph_result in, out = {0, 0, 0, 0};
        wh_graph_pagerank_result result;
        wh_graph_pagerank_options options = {0};
        wh_graph_batch batch = batch_of(s, begin, end, 0, room);
        must(wh_graph_insert(graph, &batch, &in));
        if (begin >= old) {
            batch = batch_of(s, begin - old, begin - old + size, end, room);
            must(batch.n != 0 ? wh_graph_erase(graph, &batch, &out) : WH_OK);
        }
        options.start = begin != 0 ? rank : NULL; /* the warm start */
        must(wh_graph_pagerank(graph, &options, rank, &result));
        iterations += result.iterations;
        printf("%8u edges: %5u new, %5u gone, %2u iterations\n", (unsigned)end,
               (unsigned)in.applied, (unsigned)out.applied, (unsigned)result.iterations);
    }
    free(room);
    return iterations;
}

int main(int argc, char **argv) {
    stream s = {0};
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    wh_stats stats = {0};
    const char *path =
        argc > 1 && strcmp(argv[1], "sim") != 0 && strcmp(argv[1], "cuda") != 0 ? argv[1] : NULL;
    const unsigned long size = argc > 2 ? strtoul(argv[2], NULL, 10) : 500;
    const unsigned long window = argc > 3 ? strtoul(argv[3], NULL, 10) : 4;
    if (path != NULL) {
        read_stream(&s, path);
    } else {
        make_stream(&s);
    }
    if (s.n == 0 || size == 0 || window == 0 || size > s.n || window > s.n / size) {
        fail("usage: 06_stream [FILE [BATCH [WINDOW]]], and the stream is longer than a window");
    }
    find_again(&s);
    must(wh_device_open(&device, WH_TARGET_NAME, NULL));
    wh_graph *graph = make_graph(device, &s, &heap);
    float *rank = (float *)memory(NULL, s.vertices);
    const uint64_t iterations = follow(graph, &s, (uint32_t)size, (uint32_t)window, rank);
    printf("%u iterations in all\n", (unsigned)iterations);
    print_top(rank, s.vertices);
    write_picture(rank, s.vertices);
    double sum = 0;
    for (uint32_t v = 0; v < s.vertices; v++) {
        sum += (double)rank[v];
    }
    must(wh_graph_check(graph, NULL));
    must(wh_graph_destroy(graph));
    must(wh_heap_get_stats(heap, &stats));
    wh_heap_destroy(heap);
    wh_device_close(device);
    free(s.from);
    free(s.to);
    free(s.again);
    free(rank);
    return sum > 0.99 && sum < 1.01 && stats.live_blocks == 0 ? 0 : 1;
}
