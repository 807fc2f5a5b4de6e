/* shard.c: a graph on 2 or 4 ranks against one graph that has had all ranks' batches as one: random
 * batches that insert, erase and do both, vertices that come and go, vertices that are moved;
 * what became of each arc, where ranks ask for it, questions, degrees, arrays, PageRank and
 * triangles. Each rank has the whole single graph beside its part, and knows all ranks' batches
 * from the seed. */
#include "ranks_test.h"

#include <math.h>

#include "workload/ranks/shard.h"

#define MOST 96u   /* ids */
#define BATCH 150u /* arcs of a rank */
#define ALL (MOST_RANKS * BATCH)

typedef struct context {
    wh_comm *comm;
    wh_device *device;
    wh_heap *heap, *single_heap;
    wh_shard *shard;
    wh_graph *single;
    int rank, size;
    int undirected;
    uint32_t n; /* ids */
    uint64_t random;
    uint32_t map[MOST]; /* an id of the shards: which one it is in the single graph */
    uint32_t back[MOST];
} context;

/* Arcs of all ranks' batches, one behind the other. */
typedef struct arcs {
    uint32_t n, first[MOST_RANKS + 1], from[ALL], to[ALL];
    uint8_t erases[ALL], done[ALL], single_done[ALL];
} arcs;

static arcs b, single_b;

static wh_heap *make_heap(context *x, uint64_t bytes) {
    wh_heap_options o;
    wh_heap *heap = NULL;
    memset(&o, 0, sizeof o);
    o.device = x->device;
    o.bytes = bytes;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    return heap;
}

static void open_all(context *x, uint64_t seed, uint32_t vertices, uint32_t most) {
    wh_sim_options so;
    wh_shard_options o;
    wh_graph_options g;
    memset(x, 0, sizeof *x);
    memset(&so, 0, sizeof so);
    memset(&o, 0, sizeof o);
    memset(&g, 0, sizeof g);
    x->comm = open_comm(seed % 2 == 0 ? 0 : 100);
    x->rank = wh_comm_rank(x->comm);
    x->size = wh_comm_size(x->comm);
    x->random = seed;
    x->n = most;
    so.policy = (wh_sim_policy)((seed + (uint64_t)x->rank) % N_POLICIES);
    so.seed = seed;
    x->device = open_device(&so);
    x->heap = make_heap(x, 4 << 20);
    x->single_heap = make_heap(x, 4 << 20);
    x->undirected = seed / 2 % 2;
    o.comm = x->comm;
    o.heap = x->heap;
    o.vertices = g.vertices = vertices;
    o.most_vertices = g.most_vertices = most;
    o.split = seed / 4 % 2 ? WH_SHARD_RANGE : WH_SHARD_HASH;
    o.undirected = g.undirected = x->undirected;
    o.piece = 40;
    o.batch = seed % 5 == 1 ? 100 : 0;
    g.heap = x->single_heap;
    expect_ok(x->comm, wh_shard_open(&x->shard, &o));
    assert_int_equal(wh_graph_create(&x->single, &g), WH_OK);
    for (uint32_t v = 0; v < MOST; v++) {
        x->map[v] = x->back[v] = v;
    }
}

static void close_all(context *x) {
    wh_stats stats;
    memset(&stats, 0, sizeof stats);
    assert_int_equal(wh_shard_close(x->shard), WH_OK);
    assert_int_equal(wh_graph_destroy(x->single), WH_OK);
    assert_int_equal(wh_heap_get_stats(x->heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    assert_int_equal(wh_heap_destroy(x->single_heap), WH_OK);
    wh_device_close(x->device);
    expect_ok(x->comm, wh_comm_close(x->comm));
}

/* All ranks draw all batches. Few sources or many; some ends are no ids. */
static void draw_arcs(context *x) {
    const uint32_t sources = below(&x->random, 4) == 0 ? 3 : x->n + 1;
    const uint32_t ends = below(&x->random, 3) == 0 ? 8 : x->n + 1;
    b.n = 0;
    for (int r = 0; r < x->size; r++) {
        const uint32_t n = below(&x->random, 4) == 0 ? 0 : below(&x->random, BATCH);
        b.first[r] = b.n;
        for (uint32_t i = 0; i < n; i++, b.n++) {
            b.from[b.n] = below(&x->random, sources);
            b.to[b.n] = below(&x->random, ends);
            b.erases[b.n] = (uint8_t)(below(&x->random, 2) * 7);
        }
    }
    b.first[x->size] = b.n;
    single_b = b;
    for (uint32_t i = 0; i < b.n; i++) {
        single_b.from[i] = b.from[i] < MOST ? x->map[b.from[i]] : b.from[i];
        single_b.to[i] = b.to[i] < MOST ? x->map[b.to[i]] : b.to[i];
    }
}

static wh_graph_batch batch_at(arcs *a, uint32_t first, uint32_t n) {
    wh_graph_batch batch;
    memset(&batch, 0, sizeof batch);
    batch.from = a->from + first;
    batch.to = a->to + first;
    batch.n = n;
    batch.done = a->done + first;
    return batch;
}

static wh_graph_batch own_batch(context *x) {
    return batch_at(&b, b.first[x->rank], b.first[x->rank + 1] - b.first[x->rank]);
}

/* Which copy of an arc was the new one is any, but it is one of them, if it is one in the other
 * graph: so the counts of each key and kind are compared. */
static uint64_t key_of(const context *x, const arcs *a, uint32_t i) {
    uint64_t from = a->from[i], to = a->to[i];
    if (x->undirected && to < from) {
        from = a->to[i];
        to = a->from[i];
    }
    return (from << 32 | to) << 1;
}

#define NOT_ASKED 8u /* done of a rank that does not ask: it stays so */

static void compare_done(context *x, int mixed, uint32_t who_asks) {
    wh_comm_buffer got = {0};
    const wh_graph_batch own = own_batch(x);
    expect_ok(x->comm, wh_comm_all_gather(x->comm, own.done, own.n, &got));
    for (uint32_t i = 0; i < b.n; i++) {
        int n[4] = {0}, single_n[4] = {0}, all = 1;
        for (uint32_t k = 0, r = 0; k < b.n; k++) {
            for (; k >= b.first[r + 1]; r++) {
            }
            assert_true((got.data[k] == NOT_ASKED) == ((who_asks >> r & 1) == 0));
            if (key_of(x, &b, k) == key_of(x, &b, i) &&
                (!mixed || (b.erases[k] != 0) == (b.erases[i] != 0))) {
                assert_true((got.data[k] < 4 || got.data[k] == NOT_ASKED) && single_b.done[k] < 4);
                all &= got.data[k] != NOT_ASKED;
                n[got.data[k] % 4] += got.data[k] != NOT_ASKED;
                single_n[single_b.done[k]]++;
            }
        }
        for (uint32_t k = 0; k < 4; k++) {
            assert_true(all ? n[k] == single_n[k] : n[k] <= single_n[k]);
        }
    }
    wh_comm_buffer_free(&got);
}

/* All ranks draw who asks what became of arcs, a bit each: all, nobody, some. */
static uint32_t draw_who_asks(context *x) {
    const uint32_t all = (1u << x->size) - 1, how = below(&x->random, 3);
    const uint32_t some = below(&x->random, all + 1), who[] = {all, 0, some};
    return who[how];
}

static void *on_device(context *x, const void *data, uint64_t bytes) {
    void *p = take(x->device, bytes + 1);
    assert_int_equal(wh_device_copy_in(x->device, p, data, bytes), WH_OK);
    return p;
}

static void to_device(context *x, wh_graph_batch *batch) {
    batch->from = on_device(x, batch->from, batch->n * 4);
    batch->to = on_device(x, batch->to, batch->n * 4);
    batch->done = batch->done != NULL ? on_device(x, batch->done, batch->n) : NULL;
    batch->erases = batch->erases != NULL ? on_device(x, batch->erases, batch->n) : NULL;
    batch->on_device = 1;
}

static void from_device(context *x, wh_graph_batch *batch, uint8_t *done) {
    if (done != NULL) {
        assert_int_equal(wh_device_copy_out(x->device, done, batch->done, batch->n), WH_OK);
    }
    (void)wh_device_free(x->device, (void *)(uintptr_t)batch->from);
    (void)wh_device_free(x->device, (void *)(uintptr_t)batch->to);
    (void)wh_device_free(x->device, (void *)(uintptr_t)batch->erases);
    (void)wh_device_free(x->device, batch->done);
    batch->done = done;
}

/* Of all ranks' arcs together: what the one graph says. */
static void expect_same(const context *x, wh_status s, wh_status single) {
    if (s != WH_NO_VERTEX) {
        expect_ok(x->comm, s);
    }
    assert_int_equal(s, single);
}

static void batches(context *x) {
    wh_graph_result result, single_result;
    const uint32_t kind = below(&x->random, 5); /* 0 to 2: insert, 3: erase, 4: both */
    draw_arcs(x);
    memset(b.done, NOT_ASKED, sizeof b.done);
    const uint32_t who_asks = draw_who_asks(x);
    wh_graph_batch own = own_batch(x), all = batch_at(&single_b, 0, b.n);
    own.done = who_asks >> x->rank & 1 ? own.done : NULL;
    own.erases = kind == 4 ? b.erases + b.first[x->rank] : NULL;
    all.erases = kind == 4 ? b.erases : NULL;
    wh_status s = WH_OK, single = WH_OK;
    const int by_device = below(&x->random, 3) == 0;
    uint8_t *done = own.done;
    if (by_device) {
        to_device(x, &own);
    }
    if (kind == 4) {
        s = wh_shard_update(x->shard, &own, &result);
        single = wh_graph_update(x->single, &all, &single_result);
    } else if (kind == 3) {
        s = wh_shard_erase(x->shard, &own, &result);
        single = wh_graph_erase(x->single, &all, &single_result);
    } else {
        s = wh_shard_insert(x->shard, &own, &result);
        single = wh_graph_insert(x->single, &all, &single_result);
    }
    if (by_device) {
        from_device(x, &own, done);
    }
    expect_same(x, s, single);
    assert_memory_equal(&result, &single_result, sizeof result);
    compare_done(x, kind == 4, who_asks);
}

static void questions(context *x) {
    draw_arcs(x);
    wh_graph_batch own = own_batch(x);
    wh_graph_batch same = batch_at(&single_b, b.first[x->rank], (uint32_t)own.n);
    same.done = single_b.single_done;
    expect_ok(x->comm, wh_shard_has(x->shard, &own));
    assert_int_equal(wh_graph_has(x->single, &same), WH_OK);
    assert_memory_equal(own.done, same.done, own.n);
}

static int compare_u32(const void *a, const void *o) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)o;
    return x < y ? -1 : x > y;
}

/* Degrees on all ranks; the arrays on one, or all. */
static void compare_arrays(context *x) {
    static uint64_t offset[MOST + 1], single_offset[MOST + 1];
    static uint32_t to[MOST * MOST], single_to[MOST * MOST], row[MOST];
    uint32_t degree[MOST], single_degree[MOST];
    uint64_t n = 0, single_n = 0;
    wh_graph_arrays a = {.offset = offset, .to = to, .room = MOST * MOST};
    wh_graph_arrays single = {.offset = single_offset, .to = single_to, .room = MOST * MOST};
    const int root = (int)below(&x->random, (uint32_t)x->size + 1) - 1;
    assert_int_equal(wh_graph_check(wh_shard_local(x->shard), NULL), WH_OK);
    assert_int_equal(wh_graph_to_csr(x->single, &single, &single_n), WH_OK);
    assert_int_equal(wh_graph_degrees(x->single, single_degree, 0, NULL), WH_OK);
    expect_ok(x->comm, wh_shard_degrees(x->shard, degree));
    expect_ok(x->comm,
              wh_shard_to_csr(x->shard, root, root == x->rank || root < 0 ? &a : NULL, &n));
    assert_int_equal(n, single_n);
    for (uint32_t v = 0; v < x->n; v++) {
        const uint32_t w = x->map[v];
        assert_int_equal(degree[v], single_degree[w]);
        if (root != x->rank && root >= 0) {
            continue;
        }
        assert_int_equal(offset[v + 1] - offset[v], degree[v]);
        for (uint32_t i = 0; i < degree[v]; i++) {
            row[i] = x->map[to[offset[v] + i]];
        }
        qsort(row, degree[v], sizeof *row, compare_u32);
        qsort(single_to + single_offset[w], degree[v], sizeof *row, compare_u32);
        assert_memory_equal(row, single_to + single_offset[w], degree[v] * sizeof *row);
    }
}

static void compare_algorithms(context *x) {
    static float rank[MOST], single_rank[MOST], start[MOST], single_start[MOST];
    float sum = 0;
    wh_graph_pagerank_options o;
    wh_graph_pagerank_result result, single_result;
    uint64_t total = 0, single_total = 0;
    memset(&o, 0, sizeof o);
    o.most_iterations = below(&x->random, 2) ? 0 : 1 + below(&x->random, 5);
    o.damping = below(&x->random, 2) ? 0 : 0.5;
    for (uint32_t v = 0; v < x->n; v++) {
        start[v] = wh_shard_is_vertex(x->shard, v) ? (float)(1 + below(&x->random, 9)) : 0.0f;
        sum += start[v];
    }
    const int has_start = sum > 0 && below(&x->random, 2);
    for (uint32_t v = 0; v < x->n && has_start; v++) {
        start[v] /= sum;
        single_start[x->map[v]] = start[v];
    }
    o.start = has_start ? start : NULL;
    expect_ok(x->comm, wh_shard_pagerank(x->shard, &o, rank, &result));
    o.start = has_start ? single_start : NULL;
    assert_int_equal(wh_graph_pagerank(x->single, &o, single_rank, &single_result), WH_OK);
    assert_int_equal(result.iterations, single_result.iterations);
    assert_true(result.change == single_result.change);
    for (uint32_t v = 0; v < x->n; v++) {
        assert_true(rank[v] == single_rank[x->map[v]]);
    }
    if (x->undirected) {
        expect_ok(x->comm, wh_shard_triangles(x->shard, &total));
        assert_int_equal(wh_graph_triangles(x->single, NULL, &single_total, NULL), WH_OK);
        assert_int_equal(total, single_total);
    } else {
        assert_int_equal(wh_shard_triangles(x->shard, &total), WH_UNSUPPORTED);
    }
}

/* Some go, then some come. Which id of the single graph a new one is, it says itself. */
static void vertices(context *x) {
    uint32_t go[MOST_RANKS * 6], single_go[MOST_RANKS * 6], ids[8], all_ids[MOST_RANKS * 8];
    uint32_t first = 0, n = 0;
    wh_graph_vertices_result result, single_result;
    wh_graph_vertex_list list;
    wh_comm_buffer got = {0};
    memset(&list, 0, sizeof list);
    for (int r = 0; r < x->size; r++) {
        first = r == x->rank ? n : first;
        const uint32_t more = below(&x->random, 6);
        for (uint32_t i = 0; i < more; i++) {
            go[n] = below(&x->random, x->n + 2);
            single_go[n] = go[n] < MOST ? x->map[go[n]] : go[n];
            n++;
        }
        if (r == x->rank) {
            list.n = more;
        }
    }
    const wh_status s = wh_shard_remove_vertices(x->shard, go + first, list.n, &result);
    list.ids = single_go;
    list.n = n;
    expect_same(x, s, wh_graph_remove_vertices(x->single, &list, &single_result));
    assert_memory_equal(&result, &single_result, sizeof result);

    const uint32_t most = (uint32_t)result.applied / (uint32_t)x->size;
    const uint32_t mine = most < 8 ? most : 8;
    expect_ok(x->comm, wh_shard_add_vertices(x->shard, mine, ids));
    expect_ok(x->comm, wh_comm_all_gather(x->comm, ids, mine * 4, &got));
    list.ids = all_ids;
    list.n = got.offset[x->size] / 4;
    assert_int_equal(wh_graph_add_vertices(x->single, &list, &single_result), WH_OK);
    for (uint32_t i = 0; i < list.n; i++) { /* the two trade places in the map */
        uint32_t v = 0;
        memcpy(&v, got.data + 4 * i, 4);
        const uint32_t w = all_ids[i], old = x->map[v], other = x->back[w];
        assert_true(wh_shard_is_vertex(x->shard, v));
        x->map[v] = w;
        x->back[w] = v;
        x->map[other] = old;
        x->back[old] = other;
    }
    wh_comm_buffer_free(&got);
}

static void move_some(context *x) {
    uint32_t ids[MOST], n = below(&x->random, 20);
    uint64_t moved = 0;
    const int to = (int)below(&x->random, (uint32_t)x->size);
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = below(&x->random, x->n);
    }
    const int mover = (int)below(&x->random, (uint32_t)x->size);
    if (below(&x->random, 3) == 0) {
        expect_ok(x->comm, wh_shard_rebalance(x->shard, 1.1, &moved));
        return;
    }
    expect_ok(x->comm, wh_shard_move(x->shard, ids, x->rank == mover ? n : 0, to));
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(wh_shard_owner(x->shard, ids[i]), to);
    }
}

static void random_calls(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        context x;
        const uint32_t most = seed % 3 == 0 ? 1 + (uint32_t)seed : MOST;
        open_all(&x, seed, seed % 4 == 1 ? most : most - most / 4, most);
        for (uint32_t round = 0; round < 8; round++) {
            batches(&x);
            batches(&x);
            questions(&x);
            if (round % 3 == 2) {
                vertices(&x);
            } else {
                move_some(&x);
            }
            compare_arrays(&x);
            if (round % 4 == 3) {
                compare_algorithms(&x);
            }
        }
        close_all(&x);
    }
}

/* --- many arcs ----------------------------------------------------------------------------------
 */

#define MANY 1400u /* arcs of a rank: several blocks', each with several tiles */
#define MANY_IDS 700u

typedef struct many {
    uint32_t from[MOST_RANKS * MANY], to[MOST_RANKS * MANY];
    uint8_t erases[MOST_RANKS * MANY], done[MOST_RANKS * MANY], single_done[MOST_RANKS * MANY];
    uint64_t sorted[MOST_RANKS * MANY], single_sorted[MOST_RANKS * MANY];
    uint32_t first[MOST_RANKS + 1];
} many;

static many m;

typedef enum shape { UNIFORM, OF_ONE_RANK, TO_ONE_OWNER, FEW_KEYS, SHAPES } shape;

static uint32_t draw_source(context *x, shape how, int owner) {
    uint32_t v = below(&x->random, how == FEW_KEYS ? 3 : MANY_IDS + 1);
    for (uint32_t i = 0; i < MANY_IDS && how == TO_ONE_OWNER; i++, v++) {
        v %= MANY_IDS;
        if (wh_shard_owner(x->shard, v) == owner) {
            break;
        }
    }
    return v;
}

/* All ranks draw all batches. */
static void draw_many(context *x, shape how) {
    const int chosen = (int)below(&x->random, (uint32_t)x->size);
    const uint32_t most = below(&x->random, 3) == 0 ? 40 : MANY;
    uint32_t n = 0;
    for (int r = 0; r < x->size; r++) {
        m.first[r] = n;
        const uint32_t own = how == OF_ONE_RANK && r != chosen ? 0 : most - below(&x->random, 40);
        for (uint32_t i = 0; i < own; i++, n++) {
            m.from[n] = draw_source(x, how, chosen);
            m.to[n] = below(&x->random, how == FEW_KEYS ? 20 : MANY_IDS);
            m.erases[n] = (uint8_t)(below(&x->random, 3) == 0);
        }
    }
    m.first[x->size] = n;
}

static int compare_u64(const void *a, const void *o) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)o;
    return x < y ? -1 : x > y;
}

/* Arcs with their kind, and what became of them, in order. */
static void sort_done(const context *x, const uint8_t *done, int mixed, uint64_t *sorted) {
    for (uint32_t i = 0; i < m.first[x->size]; i++) {
        uint64_t a = m.from[i], o = m.to[i];
        if (x->undirected && o < a) {
            a = m.to[i];
            o = m.from[i];
        }
        sorted[i] = (a << 28 | o) << 3 | (uint64_t)(mixed && m.erases[i] != 0) << 2 | done[i];
    }
    qsort(sorted, m.first[x->size], sizeof *sorted, compare_u64);
}

/* kind: 0 insert, 1 erase, 2 both, 3 questions. */
static wh_status call_single(context *x, uint32_t kind, wh_graph_batch *batch,
                             wh_graph_result *result) {
    batch->erases = kind == 2 ? m.erases : NULL;
    memset(result, 0, sizeof *result);
    switch (kind) {
    case 0:
        return wh_graph_insert(x->single, batch, result);
    case 1:
        return wh_graph_erase(x->single, batch, result);
    case 2:
        return wh_graph_update(x->single, batch, result);
    default:
        return wh_graph_has(x->single, batch);
    }
}

static wh_status call_shard(context *x, uint32_t kind, wh_graph_batch *batch,
                            wh_graph_result *result) {
    memset(result, 0, sizeof *result);
    switch (kind) {
    case 0:
        return wh_shard_insert(x->shard, batch, result);
    case 1:
        return wh_shard_erase(x->shard, batch, result);
    case 2:
        return wh_shard_update(x->shard, batch, result);
    default:
        return wh_shard_has(x->shard, batch);
    }
}

/* On the host, or on the device. */
static wh_status call_somewhere(context *x, uint32_t kind, wh_graph_batch *batch,
                                wh_graph_result *result) {
    uint8_t *done = batch->done;
    batch->erases = kind == 2 ? m.erases + m.first[x->rank] : NULL;
    const int by_device = below(&x->random, 2) == 0;
    if (by_device) {
        to_device(x, batch);
    }
    const wh_status s = call_shard(x, kind, batch, result);
    if (by_device) {
        from_device(x, batch, done);
    }
    return s;
}

static void call_many(context *x, shape how, uint32_t kind) {
    wh_graph_result result, single_result;
    wh_graph_batch own, all;
    wh_comm_buffer got = {0};
    memset(&own, 0, sizeof own);
    memset(&all, 0, sizeof all);
    draw_many(x, how);
    own.from = m.from + m.first[x->rank];
    own.to = m.to + m.first[x->rank];
    const int asks = kind == 3 || below(&x->random, 2) == 0;
    own.done = asks ? m.done + m.first[x->rank] : NULL;
    own.n = m.first[x->rank + 1] - m.first[x->rank];
    all.from = m.from;
    all.to = m.to;
    all.done = m.single_done;
    all.n = m.first[x->size];
    const wh_status s = call_somewhere(x, kind, &own, &result);
    const wh_status single = call_single(x, kind, &all, &single_result);
    expect_same(x, s, single);
    assert_memory_equal(&result, &single_result, sizeof result);
    if (!asks) {
        return;
    }
    expect_ok(x->comm, wh_comm_all_gather(x->comm, own.done, own.n, &got));
    if (kind == 3) {
        assert_memory_equal(got.data, m.single_done, all.n);
    } else {
        sort_done(x, got.data, kind == 2, m.sorted);
        sort_done(x, m.single_done, kind == 2, m.single_sorted);
        assert_memory_equal(m.sorted, m.single_sorted, all.n * sizeof *m.sorted);
    }
    wh_comm_buffer_free(&got);
}

/* Degrees, and ranks to the bit. */
static void compare_many(context *x) {
    static uint32_t degree[MANY_IDS], single_degree[MANY_IDS];
    static float rank[MANY_IDS], single_rank[MANY_IDS];
    expect_ok(x->comm, wh_shard_degrees(x->shard, degree));
    assert_int_equal(wh_graph_degrees(x->single, single_degree, 0, NULL), WH_OK);
    assert_memory_equal(degree, single_degree, sizeof degree);
    expect_ok(x->comm, wh_shard_pagerank(x->shard, NULL, rank, NULL));
    assert_int_equal(wh_graph_pagerank(x->single, NULL, single_rank, NULL), WH_OK);
    assert_memory_equal(rank, single_rank, sizeof rank);
    assert_int_equal(wh_graph_check(wh_shard_local(x->shard), NULL), WH_OK);
}

/* All parts have taken time; then all is zero. */
static void check_times(context *x) {
    wh_shard_times t;
    static const wh_shard_times none;
    wh_shard_get_times(x->shard, &t);
    assert_int_equal(t.batches, 4 * SHAPES + 1);
    assert_true(t.iterations > 0);
    assert_true(t.bring > 0 && t.route > 0 && t.exchange > 0 && t.apply > 0 && t.agree > 0);
    assert_true(t.answer > 0 && t.walk > 0 && t.pass > 0 && t.settle > 0);
    wh_shard_get_times(x->shard, &t);
    assert_memory_equal(&t, &none, sizeof t);
}

static void many_arcs(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < n_seeds(); seed += 5) { /* 6: undirected, by ranges */
        context x;
        uint32_t ids[50];
        open_all(&x, seed, MANY_IDS - 3, MANY_IDS);
        for (shape how = UNIFORM; how < SHAPES; how++) {
            call_many(&x, how, 0);
            call_many(&x, how, 2);
            call_many(&x, (shape)below(&x.random, SHAPES), 3);
            call_many(&x, how, 1);
            for (uint32_t i = 0; i < 50; i++) {
                ids[i] = below(&x.random, MANY_IDS);
            }
            expect_ok(x.comm, wh_shard_move(x.shard, ids, x.rank == 0 ? 50 : 0,
                                            (int)below(&x.random, (uint32_t)x.size)));
        }
        call_many(&x, UNIFORM, 0);
        compare_many(&x);
        check_times(&x);
        close_all(&x);
    }
}

/* --- ranks that cannot ---------------------------------------------------------------------------
 */

#define LARGE 3000u
#define LARGE_ARCS 200000u

typedef struct copy {
    uint64_t offset[LARGE + 1], n;
    uint32_t to[LARGE_ARCS];
} copy;

/* The whole graph, rows in order. */
static void take_copy(context *x, copy *c) {
    wh_graph_arrays a = {.offset = c->offset, .to = c->to, .room = LARGE_ARCS};
    memset(c, 0, sizeof *c);
    expect_ok(x->comm, wh_shard_to_csr(x->shard, WH_SHARD_ALL, &a, &c->n));
    for (uint32_t v = 0; v < LARGE; v++) {
        qsort(c->to + c->offset[v], c->offset[v + 1] - c->offset[v], sizeof *c->to, compare_u32);
    }
}

/* A graph of which rank `bad` has a small heap, or a small device. */
static void open_small(context *x, uint64_t seed, int bad, int by_device) {
    wh_sim_options so;
    wh_heap_options h;
    wh_shard_options o;
    uint64_t least = 0;
    memset(x, 0, sizeof *x);
    memset(&so, 0, sizeof so);
    memset(&o, 0, sizeof o);
    memset(&h, 0, sizeof h);
    x->comm = open_comm(0);
    x->rank = wh_comm_rank(x->comm);
    x->size = wh_comm_size(x->comm);
    x->random = seed;
    so.seed = seed;
    assert_int_equal(wh_heap_min_bytes(&h, &least), WH_OK);
    const int is_small = x->rank == bad;
    const uint64_t heap_bytes = is_small && !by_device ? least + 30000 : 4 << 20;
    so.memory_bytes = is_small && by_device ? heap_bytes + LARGE * 45 + 200000 : 0;
    x->device = open_device(&so);
    x->heap = make_heap(x, heap_bytes);
    o.comm = x->comm;
    o.heap = x->heap;
    o.vertices = LARGE;
    o.undirected = seed % 2;
    expect_ok(x->comm, wh_shard_open(&x->shard, &o));
}

static void close_small(context *x) {
    assert_int_equal(wh_shard_close(x->shard), WH_OK);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
    expect_ok(x->comm, wh_comm_close(x->comm));
}

/* A batch of n arcs, some of them loops; a mixed one erases every second arc that is there first.
 */
static wh_graph_batch draw_large(context *x, uint32_t n, const copy *c) {
    static uint32_t from[LARGE_ARCS], to[LARGE_ARCS];
    static uint8_t done[LARGE_ARCS], erases[LARGE_ARCS];
    uint64_t own = next_random(&x->random) + ((uint64_t)x->rank << 40);
    wh_graph_batch batch;
    memset(&batch, 0, sizeof batch);
    memset(done, 9, sizeof done);
    memset(erases, 0, sizeof erases);
    for (uint32_t i = 0; i < n; i++) {
        from[i] = below(&own, LARGE);
        to[i] = i % 50 == 7 ? from[i] : below(&own, LARGE);
    }
    for (uint32_t v = 0; c != NULL && v < LARGE && batch.n < n / 2; v++) {
        for (uint64_t i = c->offset[v]; i < c->offset[v + 1] && batch.n < n / 2; i += 2) {
            from[batch.n] = v;
            to[batch.n] = c->to[i];
            erases[batch.n++] = 1;
        }
    }
    batch.n = n;
    batch.from = from;
    batch.to = to;
    batch.done = done;
    batch.erases = c != NULL ? erases : NULL;
    return batch;
}

/* The batch is not applied, and all ranks say so, and whose fault it is. */
static void expect_refused(context *x, wh_status s, int bad, const wh_graph_batch *batch,
                           const wh_graph_result *result) {
    const wh_graph_result zero = {0};
    char name[20];
    (void)snprintf(name, sizeof name, "rank %d: ", bad);
    const wh_comm_failure *f = wh_comm_last_failure(x->comm);
    assert_int_equal(s, WH_OUT_OF_MEMORY);
    assert_int_equal(f->reason, WH_COMM_REPORTED);
    assert_int_equal(f->rank, bad);
    assert_non_null(strstr(f->text, name));
    assert_memory_equal(result, &zero, sizeof zero);
    for (uint64_t i = 0; i < batch->n && batch->done != NULL; i++) {
        assert_int_equal(batch->done[i], 9);
    }
}

/* Batches until rank `bad` cannot: then the graph is as before, and goes on. A small device has
 * room for a few arcs to erase, and not for many. */
static void full(uint64_t seed, int by_device, int erases) {
    static copy before, after;
    context x;
    wh_graph_result result;
    int refused = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &x.size);
    const int bad = (int)(seed % (uint64_t)x.size);
    open_small(&x, seed, bad, by_device);
    for (uint32_t round = 0; round < 30 && refused < 3; round++) {
        take_copy(&x, &before);
        const int is_mixed = refused == 1 && before.n != 0;
        const uint32_t n = by_device ? 500u << round : 6000 / (uint32_t)x.size;
        const int goes = erases && before.n > 100;
        wh_graph_batch batch = draw_large(&x, n, is_mixed || goes ? &before : NULL);
        wh_status s = WH_OK;
        batch.done = refused == 0 ? NULL : batch.done; /* nobody asks; all; rank 0 does */
        batch.done = refused == 2 && x.rank != 0 ? NULL : batch.done;
        if (goes) {
            batch.erases = NULL;
            s = wh_shard_erase(x.shard, &batch, &result);
        } else {
            s = is_mixed ? wh_shard_update(x.shard, &batch, &result)
                         : wh_shard_insert(x.shard, &batch, &result);
        }
        if (s != WH_OK) {
            expect_refused(&x, s, bad, &batch, &result);
            take_copy(&x, &after);
            assert_memory_equal(&before, &after, sizeof after);
            refused++;
        }
        assert_int_equal(wh_graph_check(wh_shard_local(x.shard), NULL), WH_OK);
        if (by_device && refused > 0) {
            break;
        }
    }
    assert_true(refused >= (by_device ? 1 : 3));
    const wh_graph_batch few = draw_large(&x, 3, &before); /* it goes on */
    wh_graph_batch none = few;
    none.n = x.rank == 0 ? 1 : 0;
    expect_ok(x.comm, wh_shard_erase(x.shard, &none, &result));
    assert_int_equal(result.applied, 1);
    close_small(&x);
}

static void full_heap(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        full(seed, 0, 0);
    }
}

static void full_device(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4 && !on_gpu(); seed++) { /* a GPU cannot be made smaller */
        full(seed, 1, seed >= 2);
    }
}

/* All vertices to the rank that has no room: nothing moves. */
static void full_move(void **state) {
    static copy before, after;
    static uint32_t ids[LARGE];
    context x;
    wh_graph_result result;
    (void)state;
    if (is_alone()) {
        skip();
    }
    open_small(&x, 0, 0, 0);
    for (uint32_t v = 0; v < LARGE; v++) {
        ids[v] = v;
    }
    expect_ok(x.comm, wh_shard_move(x.shard, ids, x.rank == 0 ? LARGE : 0, 1));
    const wh_graph_batch batch = draw_large(&x, 8000, NULL);
    expect_ok(x.comm, wh_shard_insert(x.shard, &batch, &result));
    take_copy(&x, &before);
    assert_int_equal(wh_shard_move(x.shard, ids, x.rank == 0 ? LARGE : 0, 0), WH_OUT_OF_MEMORY);
    assert_int_equal(wh_comm_last_failure(x.comm)->rank, 0);
    take_copy(&x, &after);
    assert_memory_equal(&before, &after, sizeof after);
    uint64_t n = 0;
    assert_int_equal(wh_graph_to_csr(wh_shard_local(x.shard), NULL, &n), WH_OK);
    assert_int_equal(n, x.rank == 1 ? before.n : 0);
    for (uint32_t v = 0; v < LARGE; v++) {
        assert_int_equal(wh_shard_owner(x.shard, v), 1);
    }
    close_small(&x);
}

/* Ranks that want the arrays on different ranks, or begin with other ranks of vertices. */
static wh_status call_with_other(context *x, int is_odd, int wants_arrays) {
    static uint64_t offset[LARGE + 1];
    static uint32_t to[LARGE];
    static float rank[LARGE], start[LARGE];
    if (wants_arrays) {
        wh_graph_arrays a;
        uint64_t n = 0;
        memset(&a, 0, sizeof a);
        a.offset = offset;
        a.to = to;
        a.room = LARGE;
        return wh_shard_to_csr(x->shard, is_odd ? x->rank : 0, &a, &n);
    }
    wh_graph_pagerank_options o;
    memset(&o, 0, sizeof o);
    for (uint32_t v = 0; v < LARGE; v++) {
        start[v] = wh_shard_is_vertex(x->shard, v) ? 1.0f / LARGE : 0;
    }
    start[0] += is_odd ? 0.25f : 0;
    start[1] += 0.75f;
    o.start = start;
    return wh_shard_pagerank(x->shard, &o, rank, NULL);
}

/* Ranks that make other calls, or open other graphs. */
static void unequal(void **state) {
    (void)state;
    if (is_alone()) {
        skip();
    }
    for (int kind = 0; kind < 6; kind++) {
        context x;
        wh_graph_result result;
        float rank[LARGE];
        uint32_t degree[LARGE];
        wh_status s = WH_OK;
        open_small(&x, 0, -1, 0);
        const int odd = x.size - 1, is_odd = x.rank == odd;
        const wh_graph_batch batch = draw_large(&x, 10, NULL);
        if (kind == 0) { /* a batch fewer, and on */
            s = is_odd ? wh_shard_pagerank(x.shard, NULL, rank, NULL)
                       : wh_shard_insert(x.shard, &batch, &result);
        } else if (kind == 1) { /* the same messages, another meaning */
            s = is_odd ? wh_shard_erase(x.shard, &batch, &result)
                       : wh_shard_insert(x.shard, &batch, &result);
        } else if (kind == 2) {
            s = is_odd ? wh_comm_close(x.comm) : wh_shard_degrees(x.shard, degree);
        } else if (kind >= 4) {
            s = call_with_other(&x, is_odd, kind == 4);
        } else {
            wh_shard_options o;
            wh_shard *other = NULL;
            memset(&o, 0, sizeof o);
            o.comm = x.comm;
            o.heap = x.heap;
            o.vertices = 10;
            o.undirected = is_odd;
            s = wh_shard_open(&other, &o);
            assert_null(other);
        }
        assert_int_equal(s, WH_BAD_ARGUMENT);
        if (kind != 2 || !is_odd) {
            assert_int_equal(wh_comm_last_failure(x.comm)->reason, WH_COMM_UNEQUAL);
            assert_int_equal(wh_comm_last_failure(x.comm)->rank, odd);
            assert_int_equal(wh_shard_degrees(x.shard, degree), WH_BAD_ARGUMENT); /* dead */
            assert_int_equal(wh_shard_close(x.shard), WH_OK);
            assert_int_equal(wh_comm_close(x.comm), WH_BAD_ARGUMENT);
        } /* else the communicator is gone: the part stays until the process ends */
    }
}

static void bad_arguments(void **state) {
    (void)state;
    if (is_alone()) {
        skip();
    }
    context x;
    wh_graph_result result;
    uint32_t id = LARGE;
    open_small(&x, 0, -1, 0);
    wh_graph_batch batch = draw_large(&x, 10, NULL);
    batch.from = x.rank == 0 ? NULL : batch.from;
    assert_int_equal(wh_shard_insert(x.shard, &batch, &result), WH_BAD_ARGUMENT);
    assert_int_equal(wh_comm_last_failure(x.comm)->rank, 0);
    batch = draw_large(&x, 10, NULL);
    assert_int_equal(wh_shard_update(x.shard, &batch, &result), WH_BAD_ARGUMENT); /* erases */
    uint32_t value = 0;
    batch.values[0] = x.rank == 1 ? &value : NULL;
    assert_int_equal(wh_shard_erase(x.shard, &batch, &result), WH_UNSUPPORTED);
    assert_int_equal(wh_comm_last_failure(x.comm)->rank, 1);
    batch.values[0] = NULL;
    batch.done = NULL;
    assert_int_equal(wh_shard_has(x.shard, &batch), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_move(x.shard, &id, 1, 0), WH_BAD_ARGUMENT);
    static float start[LARGE], rank[LARGE];
    wh_graph_pagerank_options o;
    memset(&o, 0, sizeof o);
    o.start = start; /* zeros */
    assert_int_equal(wh_shard_pagerank(x.shard, &o, rank, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_rebalance(x.shard, 0.5, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_add_vertices(x.shard, x.rank == 1, &id), WH_OUT_OF_MEMORY);
    assert_int_equal(wh_shard_add_vertices(x.shard, UINT64_MAX, &id), WH_OUT_OF_MEMORY);
    expect_ok(x.comm, wh_shard_add_vertices(x.shard, 0, NULL));
    assert_int_equal(wh_shard_owner(x.shard, LARGE), -1);
    wh_shard_options defaults; /* said by one rank, and left out by the others: the same */
    wh_shard *other = NULL;
    memset(&defaults, 0, sizeof defaults);
    defaults.comm = x.comm;
    defaults.heap = x.heap;
    defaults.vertices = 10;
    defaults.most_vertices = x.rank == 1 ? 10 : 0;
    expect_ok(x.comm, wh_shard_open(&other, &defaults));
    assert_int_equal(wh_shard_close(other), WH_OK);
    close_small(&x);
}

/* A call without its graph says so here; the other ranks have not made it. */
static void no_graph(void **state) {
    (void)state;
    wh_graph_batch none;
    wh_graph_result result;
    uint64_t n = 0;
    uint32_t id = 0;
    float rank = 0;
    memset(&none, 0, sizeof none);
    assert_int_equal(wh_shard_insert(NULL, &none, &result), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_erase(NULL, &none, &result), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_update(NULL, &none, &result), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_has(NULL, &none), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_degrees(NULL, &id), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_to_csr(NULL, 0, NULL, &n), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_add_vertices(NULL, 1, &id), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_remove_vertices(NULL, &id, 1, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_move(NULL, &id, 1, 0), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_rebalance(NULL, 1, &n), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_pagerank(NULL, NULL, &rank, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_triangles(NULL, &n), WH_BAD_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_calls),  cmocka_unit_test(many_arcs), cmocka_unit_test(full_heap),
        cmocka_unit_test(full_device),   cmocka_unit_test(full_move), cmocka_unit_test(unequal),
        cmocka_unit_test(bad_arguments), cmocka_unit_test(no_graph),
    };
    return run_ranks(tests, sizeof tests / sizeof *tests);
}
