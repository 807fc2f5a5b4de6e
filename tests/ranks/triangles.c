/* triangles.c: triangles of a graph on 2 or 4 ranks, against a count on the host by rows of bits. A
 * graph with hubs, and one where most edges are in a triangle; lists that go one at a time, in some
 * pieces, or at once; ranks that have no vertex; vertices that have gone or moved; and a rank whose
 * device has too little memory, in each step. */
#include "ranks_test.h"

#include "workload/ranks/shard.h"

#define MOST 1500u /* ids */
#define ROW ((MOST + 63) / 64)
#define EDGES 12000u

typedef struct context {
    wh_comm *comm;
    wh_device *device;
    wh_heap *heap;
    wh_shard *shard;
    int rank, size;
    uint32_t n;
    uint64_t random; /* the same on all ranks */
} context;

static uint64_t bits[MOST][ROW];               /* edges that there are */
static uint32_t from[EDGES], to[EDGES], edges; /* that are to come, from all ranks */

/* bytes: of the device; 0: enough. */
static void open_all(context *x, uint32_t ids, const wh_shard_options *options, uint64_t bytes) {
    static uint64_t seed = 0;
    wh_sim_options so;
    wh_heap_options h;
    wh_shard_options o = *options;
    memset(&so, 0, sizeof so);
    memset(&h, 0, sizeof h);
    memset(x, 0, sizeof *x);
    memset(bits, 0, sizeof bits);
    edges = 0;
    x->comm = open_comm(0);
    x->rank = wh_comm_rank(x->comm);
    x->size = wh_comm_size(x->comm);
    x->random = seed++;
    x->n = ids;
    so.policy = (wh_sim_policy)((seed + (uint64_t)x->rank) % N_POLICIES);
    so.seed = seed;
    so.memory_bytes = bytes;
    x->device = open_device(&so);
    h.device = x->device;
    h.bytes = 4 << 20;
    assert_int_equal(wh_heap_create(&x->heap, &h), WH_OK);
    o.comm = x->comm;
    o.heap = x->heap;
    o.vertices = ids;
    o.undirected = 1;
    expect_ok(x->comm, wh_shard_open(&x->shard, &o));
}

static void close_all(context *x) {
    assert_int_equal(wh_shard_close(x->shard), WH_OK);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
    expect_ok(x->comm, wh_comm_close(x->comm));
}

static int has(uint32_t v, uint32_t w) {
    return (int)(bits[v][w / 64] >> w % 64 & 1);
}

static void edge(uint32_t v, uint32_t w) {
    if (edges < EDGES && !has(v, w)) {
        from[edges] = v;
        to[edges++] = w;
        bits[v][w / 64] |= (uint64_t)1 << w % 64;
        bits[w][v / 64] |= (uint64_t)1 << v % 64;
    }
}

#define BATCH 100u /* edges of a rank: so batches need less memory than lists */

/* Each rank brings some of the edges. */
static void insert_all(context *x) {
    const uint32_t size = (uint32_t)x->size;
    for (uint32_t first = 0; first < edges; first += size * BATCH) {
        uint32_t own_from[BATCH], own_to[BATCH];
        wh_graph_batch batch;
        memset(&batch, 0, sizeof batch);
        batch.from = own_from;
        batch.to = own_to;
        for (uint32_t i = first + (uint32_t)x->rank; i < edges && batch.n < BATCH; i += size) {
            own_from[batch.n] = from[i];
            own_to[batch.n++] = to[i];
        }
        expect_ok(x->comm, wh_shard_insert(x->shard, &batch, NULL));
    }
    edges = 0;
}

/* One end is the lower, so that each triangle is found at its lowest edge's ends. */
static uint64_t count_bits(uint32_t n) {
    uint64_t sum = 0;
    for (uint32_t v = 0; v < n; v++) {
        for (uint32_t w = v + 1; w < n; w++) {
            for (uint32_t k = w / 64; has(v, w) && k < ROW; k++) {
                const uint64_t above = k == w / 64 ? ~(uint64_t)1 << w % 64 : ~(uint64_t)0;
                sum += wh_popc64(bits[v][k] & bits[w][k] & above);
            }
        }
    }
    return sum;
}

static uint64_t expect_count(context *x) {
    uint64_t total = 0;
    const uint64_t expected = count_bits(x->n);
    expect_ok(x->comm, wh_shard_triangles(x->shard, &total));
    assert_int_equal(total, expected);
    return total;
}

/* Two hubs that have all ids, one that has a half; edges between any; loops. */
static void draw_hubs(context *x) {
    for (uint32_t v = 0; v < x->n; v++) {
        edge(7 % x->n, v);
        edge(11 % x->n, v);
        if (v % 2 == 0) {
            edge(v, x->n / 2);
        }
    }
    for (uint32_t i = 0; i < 2 * x->n; i++) {
        edge(below(&x->random, x->n), below(&x->random, x->n));
    }
}

/* All edges between n vertices, far from each other: lists are as long as they can be. */
static void draw_clique(context *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = i + 1; k < n; k++) {
            edge(i * (x->n / n), k * (x->n / n));
        }
    }
}

static void remove_vertex(context *x, uint32_t v) {
    wh_graph_vertices_result result;
    expect_ok(x->comm, wh_shard_remove_vertices(x->shard, &v, x->rank == 0, &result));
    for (uint32_t w = 0; w < x->n; w++) {
        bits[w][v / 64] &= ~((uint64_t)1 << v % 64);
    }
    memset(bits[v], 0, sizeof bits[v]);
}

/* The same graph, with edges, vertices and owners that change, in pieces of any length: a few
 * bytes, so that each list goes alone, and none in most rounds; some; all. */
static void hubs(void **state) {
    static const uint64_t pieces[] = {1, 1000, 0};
    (void)state;
    for (uint32_t k = 0; k < 6; k++) {
        context x;
        wh_shard_options o;
        memset(&o, 0, sizeof o);
        o.piece = pieces[k % 3];
        o.split = k % 2 ? WH_SHARD_RANGE : WH_SHARD_HASH;
        open_all(&x, k % 3 == 0 ? 90 : MOST - k, &o, 0);
        assert_int_equal(expect_count(&x), 0);
        draw_hubs(&x);
        insert_all(&x);
        assert_true(expect_count(&x) >= x.n - 3);
        draw_clique(&x, 70);
        insert_all(&x);
        expect_count(&x);
        remove_vertex(&x, 11); /* a hub */
        expect_count(&x);
        const uint32_t moves[] = {7, 0, 1, 2, 3};
        expect_ok(x.comm, wh_shard_move(x.shard, moves, x.rank == 0 ? 5 : 0, x.size - 1));
        expect_count(&x);
        close_all(&x);
    }
}

/* Fewer ids than ranks; a rank that has given all of its vertices away; one that has all. */
static void empty_ranks(void **state) {
    static uint32_t ids[MOST];
    (void)state;
    for (uint32_t n = 1; n < 6; n++) {
        context x;
        wh_shard_options o;
        memset(&o, 0, sizeof o);
        o.split = n % 2 ? WH_SHARD_RANGE : WH_SHARD_HASH;
        open_all(&x, n, &o, 0);
        draw_clique(&x, n);
        insert_all(&x);
        assert_int_equal(expect_count(&x), n * (n - 1) * (n - 2) / 6);
        close_all(&x);
    }
    for (int taker = 0; taker < 2; taker++) {
        context x;
        wh_shard_options o;
        memset(&o, 0, sizeof o);
        o.piece = 400;
        open_all(&x, 200, &o, 0);
        draw_hubs(&x);
        draw_clique(&x, 40);
        insert_all(&x);
        uint32_t own = 0;
        for (uint32_t v = 0; v < x.n; v++) {
            ids[own] = v;
            own += wh_shard_owner(x.shard, v) == x.rank;
        }
        const int gives = x.rank == 0;
        expect_ok(x.comm, wh_shard_move(x.shard, ids, gives ? own : 0, x.size - 1));
        expect_count(&x);
        for (uint32_t v = 0; v < x.n; v++) {
            ids[v] = v;
        }
        const int to_rank = taker != 0 ? x.size - 1 : 0;
        expect_ok(x.comm, wh_shard_move(x.shard, ids, x.rank == 0 ? x.n : 0, to_rank));
        expect_count(&x);
        close_all(&x);
    }
}

/* How many calls of the communicator a count took, in which it failed or not. */
static uint64_t count_or_fail(context *x, int bad, uint64_t expected, wh_status *status) {
    wh_comm_stats before, after;
    uint64_t total = 1;
    wh_comm_get_stats(x->comm, &before);
    *status = wh_shard_triangles(x->shard, &total);
    wh_comm_get_stats(x->comm, &after);
    if (*status == WH_OK) {
        assert_int_equal(total, expected);
    } else {
        const wh_comm_failure *f = wh_comm_last_failure(x->comm);
        assert_int_equal(*status, WH_OUT_OF_MEMORY);
        assert_int_equal(f->reason, WH_COMM_REPORTED);
        assert_int_equal(f->rank, bad);
        assert_int_equal(total, 1);
    }
    return after.calls - before.calls;
}

#define BLOCKS 64

/* Takes the memory of a device, but for so many bytes. */
static uint32_t fill_device(wh_device *device, uint64_t leave, void **blocks) {
    void *left = NULL;
    uint32_t n = 0;
    assert_int_equal(wh_device_alloc(device, &left, leave), WH_OK);
    for (uint64_t bytes = 1 << 20; bytes != 0 && n < BLOCKS; bytes /= 2) {
        while (n < BLOCKS && wh_device_alloc(device, &blocks[n], bytes) == WH_OK) {
            n++;
        }
    }
    assert_true(n < BLOCKS);
    assert_int_equal(wh_device_free(device, left), WH_OK);
    return n;
}

/* A count where rank `bad` has so many bytes left. */
static uint64_t count_with(context *x, int bad, uint64_t leave, uint64_t expected,
                           wh_status *status) {
    void *blocks[BLOCKS];
    static uint32_t degree[MOST];
    const uint32_t n = x->rank == bad ? fill_device(x->device, leave, blocks) : 0;
    const uint64_t calls = count_or_fail(x, bad, expected, status);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(wh_device_free(x->device, blocks[i]), WH_OK);
    }
    assert_true(*status == WH_OK || calls <= 3);
    expect_ok(x->comm, wh_shard_degrees(x->shard, degree));
    return calls;
}

/* Memory of a rank's device from nothing to enough: there is none for degrees, for lists, or for
 * lists of other ranks. All ranks say so, and go on. */
static void full_device(void **state) {
    uint64_t failed_in[4] = {0};
    (void)state;
    if (is_alone() || on_gpu()) { /* a GPU cannot be made smaller */
        skip();
    }
    context x;
    wh_shard_options o;
    wh_status status = WH_OUT_OF_MEMORY;
    memset(&o, 0, sizeof o);
    o.piece = 8000; /* degrees need less, and batches still less */
    open_all(&x, MOST, &o, 5 << 20);
    draw_clique(&x, 100);
    insert_all(&x);
    const uint64_t expected = count_bits(x.n);
    for (uint64_t leave = 16; status != WH_OK; leave += 800) {
        const uint64_t calls = count_with(&x, 1, leave, expected, &status);
        failed_in[calls < 4 ? calls : 0] += status != WH_OK;
    }
    assert_true(count_with(&x, -1, 0, expected, &status) > 4); /* several rounds */
    assert_int_equal(wh_graph_check(wh_shard_local(x.shard), NULL), WH_OK);
    close_all(&x);
    print_message("too little for degrees %u times, for lists %u, for lists of others %u\n",
                  (uint32_t)failed_in[1], (uint32_t)failed_in[2], (uint32_t)failed_in[3]);
    assert_true(failed_in[1] > 0 && failed_in[2] > 0 && failed_in[3] > 0);
}

static void refused(void **state) {
    context x;
    wh_shard_options o;
    uint64_t total = 0;
    (void)state;
    memset(&o, 0, sizeof o);
    open_all(&x, 100, &o, 0);
    assert_int_equal(wh_shard_triangles(x.shard, x.rank == 0 ? NULL : &total), WH_BAD_ARGUMENT);
    assert_int_equal(wh_comm_last_failure(x.comm)->rank, 0);
    draw_clique(&x, 5);
    insert_all(&x);
    assert_int_equal(expect_count(&x), 10);
    close_all(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hubs),
        cmocka_unit_test(empty_ranks),
        cmocka_unit_test(full_device),
        cmocka_unit_test(refused),
    };
    return run_ranks(tests, sizeof tests / sizeof *tests);
}
