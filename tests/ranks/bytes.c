/* bytes.c: what calls send, as one program that bytes.py starts by mpirun: bytes FILE... Each rank
 * prints a line of JSON for each call, from what the communicator has counted.
 *
 * A file is words of 32 bits: vertices, split, whether undirected, bytes of a piece of lists; then
 * seven lists, each behind the number of its entries: arcs that come, and others, of which rank 1
 * asks what became of them; arcs that go; a batch of both kinds, arcs that are asked for, ids to be
 * removed, ids to be moved. An entry is the rank that brings it,
 * source, end, and whether it goes; an id is both source and end. */
#include "ranks_test.h"

#include "workload/ranks/shard.h"

#define MOST_WORDS (1u << 22)
#define ITERATIONS 3u

typedef struct context {
    wh_comm *comm;
    wh_shard *shard;
    wh_comm_stats before;
    const char *file;
    const uint32_t *word; /* the list that is next */
    uint32_t n;
    uint32_t *from, *to; /* this rank's entries of a list */
    uint8_t *erases, *done;
} context;

/* This rank's entries of the next list. */
static wh_graph_batch next_list(context *x) {
    wh_graph_batch b;
    const uint32_t *entry = x->word + 1;
    memset(&b, 0, sizeof b);
    for (uint32_t i = 0; i < x->word[0]; i++, entry += 4) {
        if (entry[0] == (uint32_t)wh_comm_rank(x->comm)) {
            x->from[b.n] = entry[1];
            x->to[b.n] = entry[2];
            x->erases[b.n++] = (uint8_t)entry[3];
        }
    }
    x->word = entry;
    b.from = x->from;
    b.to = x->to;
    b.erases = x->erases;
    b.done = x->done;
    return b;
}

/* Since the last line. */
static void say(context *x, const char *call, wh_status s) {
    wh_comm_stats now;
    const wh_comm_stats *old = &x->before;
    expect_ok(x->comm, s);
    wh_comm_get_stats(x->comm, &now);
    (void)printf(
        "{\"file\":\"%s\",\"rank\":%d,\"call\":\"%s\",\"calls\":%llu,\"lines\":%llu,"
        "\"sent\":%llu,\"got\":%llu,\"reduced\":%llu}\n",
        x->file, wh_comm_rank(x->comm), call, (unsigned long long)(now.calls - old->calls),
        (unsigned long long)(now.lines - old->lines), (unsigned long long)(now.sent - old->sent),
        (unsigned long long)(now.got - old->got), (unsigned long long)(now.reduced - old->reduced));
    (void)fflush(stdout);
    wh_comm_get_stats(x->comm, &x->before);
}

static void batches(context *x) {
    wh_graph_batch b = next_list(x);
    b.done = NULL;
    say(x, "insert", wh_shard_insert(x->shard, &b, NULL));
    b = next_list(x);
    b.done = wh_comm_rank(x->comm) == 1 ? b.done : NULL;
    say(x, "insert_asked", wh_shard_insert(x->shard, &b, NULL));
    b = next_list(x);
    b.done = NULL;
    say(x, "erase", wh_shard_erase(x->shard, &b, NULL));
    b = next_list(x);
    say(x, "update", wh_shard_update(x->shard, &b, NULL));
    b = next_list(x);
    say(x, "has", wh_shard_has(x->shard, &b));
}

static void queries(context *x, int undirected) {
    uint32_t *degree = calloc(x->n, sizeof *degree);
    float *rank = calloc(x->n, sizeof *rank);
    wh_graph_pagerank_options o;
    wh_graph_arrays a;
    uint64_t arcs = 0;
    memset(&o, 0, sizeof o);
    memset(&a, 0, sizeof a);
    a.offset = calloc((size_t)x->n + 1, sizeof *a.offset);
    a.room = MOST_WORDS;
    a.to = malloc(MOST_WORDS * sizeof *a.to);
    assert_true(degree != NULL && rank != NULL && a.offset != NULL && a.to != NULL);
    say(x, "degrees", wh_shard_degrees(x->shard, degree));
    say(x, "to_csr", wh_shard_to_csr(x->shard, 1, &a, &arcs));
    say(x, "to_csr_all", wh_shard_to_csr(x->shard, WH_SHARD_ALL, &a, &arcs));
    o.most_iterations = ITERATIONS;
    o.tolerance = 1e-15;
    say(x, "pagerank", wh_shard_pagerank(x->shard, &o, rank, NULL));
    if (undirected) {
        say(x, "triangles", wh_shard_triangles(x->shard, &arcs));
    }
    free(degree);
    free(rank);
    free(a.offset);
    free(a.to);
}

static void vertices(context *x) {
    wh_graph_batch b = next_list(x);
    say(x, "remove", wh_shard_remove_vertices(x->shard, b.from, b.n, NULL));
    b = next_list(x);
    say(x, "move", wh_shard_move(x->shard, b.from, b.n, 1));
    say(x, "rebalance", wh_shard_rebalance(x->shard, 1.02, NULL));
}

static void run(context *x, const uint32_t *words) {
    wh_heap_options h;
    wh_shard_options o;
    memset(&h, 0, sizeof h);
    memset(&o, 0, sizeof o);
    h.device = open_policy(WH_SIM_ROUND_ROBIN, 0);
    h.bytes = 64 << 20;
    assert_int_equal(wh_heap_create(&o.heap, &h), WH_OK);
    o.comm = x->comm;
    o.vertices = x->n = words[0];
    o.split = (wh_shard_split)words[1];
    o.undirected = (int)words[2];
    o.piece = words[3];
    x->word = words + 4;
    wh_comm_get_stats(x->comm, &x->before);
    say(x, "open", wh_shard_open(&x->shard, &o));
    batches(x);
    queries(x, o.undirected);
    vertices(x);
    assert_int_equal(wh_shard_close(x->shard), WH_OK);
    assert_int_equal(wh_heap_destroy(o.heap), WH_OK);
    wh_device_close(h.device);
}

static int files;
static char **names;

static void all_files(void **state) {
    context x;
    (void)state;
    memset(&x, 0, sizeof x);
    x.comm = open_comm(0);
    uint32_t *words = malloc(MOST_WORDS * sizeof *words);
    x.from = malloc(MOST_WORDS * sizeof *x.from);
    x.to = malloc(MOST_WORDS * sizeof *x.to);
    x.erases = malloc(MOST_WORDS);
    x.done = malloc(MOST_WORDS);
    assert_true(words && x.from && x.to && x.erases && x.done);
    for (int i = 0; i < files; i++) {
        FILE *f = fopen(names[i], "rb");
        assert_non_null(f);
        assert_true(fread(words, sizeof *words, MOST_WORDS, f) > 4);
        (void)fclose(f);
        const char *slash = strrchr(names[i], '/');
        x.file = slash != NULL ? slash + 1 : names[i];
        run(&x, words);
    }
    expect_ok(x.comm, wh_comm_close(x.comm));
    free(words);
    free(x.from);
    free(x.to);
    free(x.erases);
    free(x.done);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_files)};
    files = argc - 1;
    names = argv + 1;
    return run_ranks(tests, 1);
}
