/* vertices.c: vertices that come and go, against a naive model on the host: random lists with and
 * without names, arcs between what is a vertex and what is none, a graph that grows in between, and
 * algorithms on what is there, by every policy of the simulated device; names in great numbers;
 * heaps and devices that are too small; lists on the device. */
#include "sim/sim_test.h"

#include <math.h>

#include "warpheap/detail/graph/faim.h"
#include "warpheap/detail/graph/lattice.h"
#include "warpheap/graph_algorithms.h"
#include "warpheap/graph_vertices.h"

#define MOST 96u
#define NONE WH_GRAPH_NO_ID
#define NO_NAME WH_GRAPH_NO_NAME
#define LIST 80u
#define NAMES 60u /* few, so that they come again */

typedef struct model {
    uint32_t n, next; /* ids; that have been vertices */
    uint8_t is[MOST];
    uint64_t name[MOST];
    uint8_t has[MOST][MOST];
} model;

typedef struct context {
    wh_device *device;
    wh_heap *heap;
    wh_graph *graph;
    model m;
    uint64_t random;
    int has_names;
} context;

static const char *kind; /* of the graphs that are made */

static int is_kind(const char *name) {
    return strcmp(kind, name) == 0;
}

/* A policy for each seed; some have a weak memory, some more than one thread. */
static void open_device(context *x, uint64_t seed, uint64_t memory_bytes) {
    wh_sim_options so;
    memset(&so, 0, sizeof so);
    memset(x, 0, sizeof *x);
    so.policy = (wh_sim_policy)(seed % N_POLICIES);
    so.seed = seed;
    so.weak = seed % 4 == 2 ? WH_SIM_WEAK_FORMAL : WH_SIM_WEAK_NONE;
    so.workers = seed % 4 == 3 ? 3 : 1;
    so.memory_bytes = memory_bytes;
    x->device = open_with(&so);
    x->random = seed;
}

static void make_graph(context *x, uint64_t heap_bytes, uint32_t n, uint32_t most) {
    wh_heap_options ho;
    wh_graph_options go;
    memset(&ho, 0, sizeof ho);
    memset(&go, 0, sizeof go);
    ho.device = x->device;
    ho.bytes = heap_bytes;
    assert_int_equal(wh_heap_create(&x->heap, &ho), WH_OK);
    go.heap = x->heap;
    go.kind = kind;
    go.vertices = n;
    go.most_vertices = most;
    if (is_kind("aim") || is_kind("faim-update")) {
        go.worker = x->random % 2 == 0 ? 1 : WH_WARP_SIZE; /* by seed */
    }
    assert_int_equal(wh_graph_create(&x->graph, &go), WH_OK);
    x->m.n = most;
    x->m.next = n;
    for (uint32_t v = 0; v < MOST; v++) {
        x->m.is[v] = v < n;
        x->m.name[v] = NO_NAME;
    }
}

static void open_all(context *x, uint64_t seed, uint32_t n, uint32_t most) {
    open_device(x, seed, 0);
    make_graph(x, 8 << 20, n, most);
}

static void close_all(context *x) {
    wh_stats stats;
    memset(&stats, 0, sizeof stats);
    assert_int_equal(wh_graph_destroy(x->graph), WH_OK);
    assert_int_equal(wh_heap_get_stats(x->heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(wh_heap_check(x->heap, NULL), WH_OK);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
}

static uint32_t below(context *x, uint32_t n) {
    return (uint32_t)(next_random(&x->random) >> 20) % n;
}

static uint32_t n_live(const context *x) {
    uint32_t n = 0;
    for (uint32_t v = 0; v < x->m.n; v++) {
        n += x->m.is[v];
    }
    return n;
}

/* The vertex of a name. */
static uint32_t id_of(const context *x, uint64_t name) {
    for (uint32_t v = 0; v < x->m.n; v++) {
        if (x->m.is[v] && x->m.name[v] == name && name != NO_NAME) {
            return v;
        }
    }
    return NONE;
}

/* Names that differ in some bits only. */
static uint64_t name_of(uint32_t k) {
    return k % 3 == 0 ? (uint64_t)k << 40 : k;
}

/* --- the graph and the model --------------------------------------------------------------------
 */

static void compare_ids(context *x) {
    uint64_t names[MOST], list[NAMES];
    uint32_t ids[NAMES];
    uint8_t is[MOST];
    assert_int_equal(wh_graph_names(x->graph, names, 0, NULL), WH_OK);
    assert_int_equal(wh_graph_is_vertex(x->graph, is), WH_OK);
    for (uint32_t v = 0; v < x->m.n; v++) {
        assert_int_equal(is[v], x->m.is[v]);
        assert_true(names[v] == (x->m.is[v] ? x->m.name[v] : NO_NAME));
    }
    for (uint32_t k = 0; k < NAMES; k++) {
        list[k] = k == 7 ? NO_NAME : name_of(k);
    }
    const wh_graph_vertex_list l = {.names = list, .ids = ids, .n = NAMES};
    assert_int_equal(wh_graph_find_vertices(x->graph, &l), WH_OK);
    for (uint32_t k = 0; k < NAMES; k++) {
        assert_int_equal(ids[k], id_of(x, list[k]));
    }
}

/* Bytes of the heap that a vertex may have at most: memory comes back at once; but not in aim. */
static uint64_t bytes_for(uint32_t degree) {
    if (is_kind("ouro")) {
        uint64_t bytes = degree != 0 ? 16 : 0;
        while (bytes < 4 * (uint64_t)degree) {
            bytes *= 2;
        }
        return bytes;
    }
    if (!is_kind("lattice")) {
        return wh_faim_pages_for(degree) * sizeof(wh_faim_page);
    }
    const uint32_t room = wh_lattice_room(degree, 0);
    const uint32_t most = 2 * (room < WH_LATTICE_LEAST_ROOM ? WH_LATTICE_LEAST_ROOM : room);
    return degree + 2 > WH_LATTICE_INLINE ? (most - 1) * sizeof(uint32_t) : 0;
}

static void compare(context *x) {
    uint64_t offset[MOST + 1], n = 0, arcs = 0, bytes = 0;
    uint32_t to[MOST * MOST], degree[MOST];
    wh_graph_stats stats;
    memset(&stats, 0, sizeof stats);
    assert_int_equal(wh_graph_check(x->graph, NULL), WH_OK);
    const wh_graph_arrays arrays = {.offset = offset, .to = to, .room = MOST * MOST};
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
        }
        arcs += expected;
        bytes += bytes_for(expected);
    }
    assert_int_equal(n, arcs);
    assert_int_equal(wh_graph_get_stats(x->graph, &stats), WH_OK);
    assert_true(stats.block_bytes <= bytes || is_kind("aim"));
    assert_int_equal(stats.vertices, n_live(x));
    assert_int_equal(stats.most_vertices, x->m.n);
    compare_ids(x);
}

/* --- steps --------------------------------------------------------------------------------------
 */

/* What the model makes of the ids that a call gave to entries. */
static void take_ids(context *x, const uint64_t *names, const uint32_t *ids, uint32_t n,
                     const wh_graph_vertices_result *r) {
    const uint32_t live = n_live(x), n_free = x->m.next - live, left = x->m.n - live;
    uint32_t applied = 0, no_change = 0, refused = 0, bad = 0, again = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t name = names != NULL ? names[i] : NO_NAME;
        if (names != NULL && name == NO_NAME) {
            assert_int_equal(ids[i], NONE);
            bad++;
        } else if (id_of(x, name) != NONE) {
            assert_int_equal(ids[i], id_of(x, name));
            no_change++;
        } else if (ids[i] == NONE) {
            refused++;
        } else {
            assert_true(ids[i] < x->m.n && !x->m.is[ids[i]]);
            x->m.is[ids[i]] = 1;
            x->m.name[ids[i]] = name;
            again += ids[i] < x->m.next;
            applied++;
        }
    }
    assert_int_equal(r->applied, applied);
    assert_int_equal(r->no_change, no_change);
    assert_int_equal(r->refused, refused);
    assert_int_equal(r->no_vertex, bad);
    assert_int_equal(r->arcs, 0);
    assert_true(refused == 0 || applied == left);
    assert_int_equal(again, applied < n_free ? applied : n_free); /* those first */
    x->m.next += applied - again;
    for (uint32_t v = 0; v < x->m.n; v++) {
        assert_true(!x->m.is[v] || v < x->m.next);
    }
}

static void add(context *x, int with_names) {
    uint64_t names[LIST];
    uint32_t ids[LIST];
    wh_graph_vertices_result r;
    wh_graph_vertex_list l;
    memset(&l, 0, sizeof l);
    memset(ids, 0x55, sizeof ids);
    l.n = 1 + below(x, with_names ? LIST : 12);
    l.names = with_names ? names : NULL;
    l.ids = ids;
    const uint32_t range = 1 + below(x, NAMES);
    for (uint32_t i = 0; i < l.n; i++) {
        const uint32_t k = below(x, range);
        names[i] = below(x, 30) == 0 ? NO_NAME : name_of(k);
    }
    const wh_status s = wh_graph_add_vertices(x->graph, &l, &r);
    take_ids(x, l.names, ids, (uint32_t)l.n, &r);
    const wh_status expected = r.no_vertex != 0 ? WH_NO_VERTEX : WH_OK;
    assert_int_equal(s, r.refused != 0 ? WH_OUT_OF_MEMORY : expected);
    x->has_names |= with_names;
}

/* The model's vertex goes. How many arcs go with it. */
static uint32_t take_out(context *x, uint32_t v) {
    uint32_t arcs = 0;
    for (uint32_t w = 0; w < x->m.n; w++) {
        arcs += x->m.has[v][w];
        x->m.has[v][w] = 0;
        arcs += x->m.has[w][v];
        x->m.has[w][v] = 0;
    }
    x->m.is[v] = 0;
    return arcs;
}

/* Aim keeps all vertices, and says so; a list of none is none too many. */
static void expect_kept(context *x) {
    uint64_t name = 0;
    uint32_t id = 0;
    wh_graph_vertices_result r;
    wh_graph_vertex_list l;
    memset(&l, 0, sizeof l);
    l.ids = &id;
    l.names = &name;
    for (l.n = 0; l.n < 2; l.n++) {
        for (l.by_name = 0; l.by_name < 2; l.by_name++) {
            memset(&r, 0xff, sizeof r);
            assert_int_equal(wh_graph_remove_vertices(x->graph, &l, &r),
                             l.n == 0 ? WH_OK : WH_UNSUPPORTED);
            assert_int_equal(r.applied + r.no_change + r.no_vertex + r.refused + r.arcs, 0);
        }
        assert_true(l.n == 0 || strstr(wh_last_error_text(), "aim") != NULL);
    }
    assert_int_equal(wh_graph_remove_vertices(x->graph, &l, NULL), WH_UNSUPPORTED);
}

static void remove_some(context *x, int by_name) {
    uint64_t names[LIST], no_change = 0, bad = 0, applied = 0, arcs = 0;
    uint32_t ids[LIST], goes[LIST];
    uint8_t gone[MOST] = {0};
    wh_graph_vertices_result r;
    wh_graph_vertex_list l;
    if (is_kind("aim")) {
        expect_kept(x);
        return;
    }
    memset(&l, 0, sizeof l);
    l.n = 1 + below(x, below(x, 3) == 0 ? LIST : 10);
    for (uint32_t i = 0; i < l.n; i++) {
        const uint32_t k = below(x, NAMES), odd = below(x, 20);
        names[i] = odd == 0 ? NO_NAME : name_of(k);
        ids[i] = odd == 0 ? UINT32_MAX - below(x, 40) : below(x, x->m.n + (odd == 1));
        goes[i] = by_name ? id_of(x, names[i]) : ids[i];
        goes[i] = goes[i] < x->m.n && x->m.is[goes[i]] ? goes[i] : NONE;
    }
    for (uint32_t i = 0; i < l.n; i++) {
        bad += goes[i] == NONE;
        no_change += goes[i] != NONE && gone[goes[i]];
        if (goes[i] != NONE && !gone[goes[i]]) {
            gone[goes[i]] = 1;
            applied++;
            arcs += take_out(x, goes[i]);
        }
    }
    l.names = by_name ? names : NULL;
    l.ids = ids;
    l.by_name = by_name;
    assert_int_equal(wh_graph_remove_vertices(x->graph, &l, &r), bad != 0 ? WH_NO_VERTEX : WH_OK);
    assert_int_equal(r.applied, applied);
    assert_int_equal(r.no_change, no_change);
    assert_int_equal(r.no_vertex, bad);
    assert_int_equal(r.arcs, arcs);
    assert_int_equal(r.refused, 0);
    for (uint32_t i = 0; by_name && i < l.n; i++) {
        assert_int_equal(ids[i], goes[i]);
    }
}

#define MOST_ARCS 500u

static void send_arcs(context *x, int erases, int hub) {
    uint32_t from[MOST_ARCS], to[MOST_ARCS];
    uint8_t done[MOST_ARCS];
    uint64_t bad = 0;
    wh_graph_batch batch;
    wh_graph_result r;
    memset(&batch, 0, sizeof batch);
    batch.n = 1 + below(x, MOST_ARCS);
    const uint32_t of = below(x, x->m.n);
    for (uint32_t i = 0; i < batch.n; i++) {
        from[i] = hub ? of : below(x, x->m.n);
        to[i] = below(x, x->m.n + (below(x, 50) == 0));
    }
    batch.from = from;
    batch.to = to;
    batch.done = done;
    const wh_status s = (erases ? wh_graph_erase : wh_graph_insert)(x->graph, &batch, &r);
    for (uint32_t i = 0; i < batch.n; i++) {
        const int is = to[i] < x->m.n && x->m.is[from[i]] && x->m.is[to[i]];
        bad += !is;
        assert_int_equal(done[i] == WH_GRAPH_NO_VERTEX, !is);
        if (done[i] == WH_GRAPH_APPLIED) {
            assert_int_equal(x->m.has[from[i]][to[i]], erases);
            x->m.has[from[i]][to[i]] = !erases;
        }
    }
    assert_int_equal(r.no_vertex, bad);
    assert_int_equal(s, bad != 0 ? WH_NO_VERTEX : WH_OK);
    assert_int_equal(wh_graph_has(x->graph, &batch), WH_OK);
    for (uint32_t i = 0; i < batch.n; i++) {
        const int is = to[i] < x->m.n && x->m.is[from[i]] && x->m.is[to[i]];
        assert_int_equal(done[i], is && !erases);
    }
}

static void grow(context *x) {
    const uint32_t most = x->m.n + below(x, MOST - x->m.n + 1);
    wh_graph_stats before, after;
    memset(&before, 0, sizeof before);
    memset(&after, 0, sizeof after);
    assert_int_equal(wh_graph_get_stats(x->graph, &before), WH_OK);
    assert_int_equal(wh_graph_grow(x->graph, most), WH_OK);
    assert_int_equal(wh_graph_get_stats(x->graph, &after), WH_OK);
    assert_true(after.fixed_bytes >= before.fixed_bytes);
    assert_int_equal(after.blocks, before.blocks);
    assert_int_equal(wh_graph_grow(x->graph, x->m.n - 1),
                     most == x->m.n && x->m.n == 1 ? WH_OK : WH_BAD_ARGUMENT);
    x->m.n = most;
}

/* --- algorithms ---------------------------------------------------------------------------------
 */

static void compare_ranks(context *x) {
    float rank[MOST];
    wh_graph_pagerank_options o;
    wh_graph_pagerank_result r;
    double own[MOST], sum = 0;
    const uint32_t n = n_live(x);
    memset(&o, 0, sizeof o);
    o.most_iterations = 12;
    o.tolerance = -1;
    assert_int_equal(wh_graph_pagerank(x->graph, &o, rank, &r), WH_OK);
    for (uint32_t v = 0; v < x->m.n; v++) {
        own[v] = x->m.is[v] ? 1.0 / n : 0;
    }
    for (uint32_t step = 0; step < 12; step++) {
        double in[MOST] = {0}, dangling = 0;
        for (uint32_t v = 0; v < x->m.n; v++) {
            uint32_t degree = 0;
            for (uint32_t w = 0; w < x->m.n; w++) {
                degree += x->m.has[v][w];
            }
            dangling += degree == 0 ? own[v] : 0;
            for (uint32_t w = 0; w < x->m.n; w++) {
                in[w] += x->m.has[v][w] ? own[v] / degree : 0;
            }
        }
        for (uint32_t v = 0; v < x->m.n; v++) {
            own[v] = x->m.is[v] ? 0.15 / n + 0.85 * (in[v] + dangling / n) : 0;
        }
    }
    for (uint32_t v = 0; v < x->m.n; v++) {
        assert_true(fabs(own[v] - (double)rank[v]) <= 1e-5 * own[v]);
        sum += (double)rank[v];
    }
    assert_true(n == 0 ? sum == 0 : fabs(sum - 1) < 1e-4);
    if (n != 0) { /* start: what is no vertex does not count */
        for (uint32_t v = 0; v < x->m.n; v++) {
            rank[v] = x->m.is[v] ? rank[v] : 7.0f;
        }
        o.start = rank;
        assert_int_equal(wh_graph_pagerank(x->graph, &o, rank, &r), WH_OK);
    }
}

static void compare_walks(context *x) {
    uint32_t label[MOST], own[MOST], level[MOST], at[MOST];
    uint64_t n = 0, roots = 0, total = 0, of_vertex[MOST];
    assert_int_equal(wh_graph_components(x->graph, NULL, label, &n), WH_OK);
    assert_int_equal(wh_graph_triangles(x->graph, NULL, &total, of_vertex), WH_OK);
    for (uint32_t v = 0; v < x->m.n; v++) {
        own[v] = x->m.is[v] ? v : WH_GRAPH_NOT_REACHED;
        at[v] = WH_GRAPH_NOT_REACHED;
    }
    for (uint32_t k = 0; k < x->m.n; k++) {
        for (uint32_t v = 0; v < x->m.n; v++) {
            for (uint32_t w = 0; w < x->m.n; w++) {
                if (x->m.has[v][w]) {
                    own[v] = own[w] = own[v] < own[w] ? own[v] : own[w];
                }
            }
        }
        k = memcmp(own, label, x->m.n * 4) == 0 ? x->m.n - 1 : k; /* enough rounds */
    }
    for (uint32_t v = 0; v < x->m.n; v++) {
        assert_int_equal(label[v], own[v]);
        roots += own[v] == v;
        assert_true(x->m.is[v] || of_vertex[v] == 0);
    }
    assert_int_equal(n, roots);
    const uint32_t source = below(x, x->m.n);
    const wh_status s = wh_graph_bfs(x->graph, source, NULL, level, NULL);
    assert_int_equal(s, x->m.is[source] ? WH_OK : WH_BAD_ARGUMENT);
    if (s == WH_OK) {
        at[source] = 0;
        for (uint32_t k = 0; k < x->m.n; k++) {
            for (uint32_t v = 0; v < x->m.n; v++) {
                for (uint32_t w = 0; at[v] == k && w < x->m.n; w++) {
                    at[w] = x->m.has[v][w] && at[w] > k + 1 ? k + 1 : at[w];
                }
            }
        }
        assert_memory_equal(level, at, x->m.n * 4);
    }
}

/* --- tests --------------------------------------------------------------------------------------
 */

static void test_random(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        const uint32_t most = 1 + (uint32_t)(seed * 29 % (MOST - 1));
        const uint32_t n = seed % 3 == 0 ? most : (uint32_t)(seed * 13 % (most + 1));
        open_all(&x, seed, n, most);
        compare(&x);
        for (uint32_t step = 0; step < 14; step++) {
            switch (below(&x, 8)) {
            case 0:
                add(&x, 0);
                break;
            case 1:
            case 2:
                add(&x, 1);
                break;
            case 3:
                remove_some(&x, 0);
                break;
            case 4:
                remove_some(&x, 1);
                break;
            case 5:
                send_arcs(&x, step % 4 == 3, 0);
                break;
            case 6:
                send_arcs(&x, 0, 1);
                break;
            default:
                grow(&x);
                break;
            }
            compare(&x);
        }
        send_arcs(&x, 0, 0);
        if (is_kind("lattice")) {
            compare_ranks(&x);
            compare_walks(&x);
        }
        remove_some(&x, 0);
        compare(&x);
        close_all(&x);
    }
}

/* A dense graph loses most of its vertices at once: long and short adjacencies, and hubs. */
static void test_dense(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        uint32_t ids[MOST], n = 0;
        uint64_t arcs = 0;
        wh_graph_vertices_result r;
        open_all(&x, seed, MOST, MOST);
        for (uint32_t k = 0; k < 6; k++) {
            send_arcs(&x, 0, k % 2);
        }
        for (uint32_t v = 0; v < MOST; v++) { /* seldom, or mostly */
            if (below(&x, 20) < (seed % 2 == 0 ? 1u : 16u)) {
                ids[n++] = v;
                arcs += take_out(&x, v);
            }
        }
        const wh_graph_vertex_list l = {.ids = ids, .n = n};
        assert_int_equal(wh_graph_remove_vertices(x.graph, &l, &r), WH_OK);
        assert_int_equal(r.applied, n);
        assert_int_equal(r.arcs, arcs);
        compare(&x);
        close_all(&x);
    }
}

/* More names than places come and go, and far more than there are ids at once. */
static void test_many_names(void **state) {
    (void)state;
    enum { FLOOD = 700, EACH = 40 };
    static uint64_t names[FLOOD];
    static uint32_t ids[FLOOD];
    for (uint64_t seed = 1; seed <= (n_seeds() < 8 ? n_seeds() : 8); seed++) {
        context x;
        wh_graph_vertices_result r;
        open_all(&x, seed, 0, EACH);
        wh_graph_vertex_list l = {.names = names, .ids = ids, .n = FLOOD};
        for (uint32_t i = 0; i < FLOOD; i++) {
            names[i] = i / 2; /* each twice */
        }
        assert_int_equal(wh_graph_add_vertices(x.graph, &l, &r), WH_OUT_OF_MEMORY);
        take_ids(&x, names, ids, FLOOD, &r);
        assert_int_equal(r.applied, EACH);
        assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
        for (uint32_t round = 0; round < 12; round++) {
            uint64_t own[EACH];
            assert_int_equal(wh_graph_names(x.graph, own, 0, NULL), WH_OK);
            l.names = own;
            l.n = EACH;
            l.ids = NULL;
            l.by_name = 1;
            assert_int_equal(wh_graph_remove_vertices(x.graph, &l, &r), WH_OK);
            assert_int_equal(r.applied, EACH);
            assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
            for (uint32_t i = 0; i < EACH; i++) {
                own[i] = next_random(&x.random) | 1;
            }
            assert_int_equal(wh_graph_add_vertices(x.graph, &l, &r), WH_OK);
            assert_int_equal(r.applied, EACH);
            l.ids = ids;
            assert_int_equal(wh_graph_find_vertices(x.graph, &l), WH_OK);
            for (uint32_t i = 0; i < EACH; i++) {
                assert_true(ids[i] < EACH);
            }
            assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
        }
        close_all(&x);
    }
}

/* A full heap: vertices go without it, and what they had can be used again. */
static void test_heap_full(void **state) {
    (void)state;
    enum { EACH = 20, SOURCES = MOST_ARCS / EACH, VERTICES = 100000 };
    static uint32_t ids[VERTICES];
    context x;
    wh_heap_options ho;
    wh_graph_batch batch;
    wh_graph_result result;
    wh_graph_vertices_result r;
    uint32_t from[MOST_ARCS], to[MOST_ARCS], first = 0;
    uint64_t n = 0, arcs = 0;
    open_device(&x, 1, 0);
    memset(&ho, 0, sizeof ho);
    ho.device = x.device;
    assert_int_equal(wh_heap_min_bytes(&ho, &ho.bytes), WH_OK);
    make_graph(&x, ho.bytes, VERTICES, VERTICES);
    memset(&batch, 0, sizeof batch);
    batch.from = from;
    batch.to = to;
    batch.n = MOST_ARCS;
    wh_status s = WH_OK;
    for (; s == WH_OK; first += SOURCES) {
        assert_true(first + SOURCES < VERTICES);
        for (uint32_t i = 0; i < MOST_ARCS; i++) {
            from[i] = first + i / EACH;
            to[i] = VERTICES - 1 - i % EACH;
        }
        s = wh_graph_insert(x.graph, &batch, &result);
    }
    assert_int_equal(s, WH_OUT_OF_MEMORY);
    assert_int_equal(wh_graph_to_csr(x.graph, NULL, &arcs), WH_OK);
    /* Other ends go: arrays want smaller blocks, which there are none of, then fit into records. */
    for (uint32_t begin = 0, end = 12; begin != end; begin = end, end = EACH - 3) {
        for (uint32_t k = begin; k < end; k++) {
            ids[k - begin] = VERTICES - 1 - k;
        }
        const wh_graph_vertex_list l = {.ids = ids, .n = end - begin};
        assert_int_equal(wh_graph_remove_vertices(x.graph, &l, &r), WH_OK);
        assert_int_equal(r.arcs, arcs / EACH * (end - begin));
        assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
    }
    assert_int_equal(wh_graph_to_csr(x.graph, NULL, &n), WH_OK);
    assert_int_equal(n, arcs / EACH * 3);
    for (uint32_t v = 0; v < first; v++) {
        ids[v] = v;
    }
    const wh_graph_vertex_list all = {.ids = ids, .n = first};
    assert_int_equal(wh_graph_remove_vertices(x.graph, &all, &r), WH_OK);
    assert_int_equal(r.arcs, n);
    wh_stats stats;
    memset(&stats, 0, sizeof stats);
    assert_int_equal(wh_heap_get_stats(x.heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, 0); /* at once */
    close_all(&x);
}

/* A device without memory for what grows: nothing is lost. */
static void test_device_full(void **state) {
    (void)state;
    context x;
    uint32_t refused = 0;
    open_device(&x, 2, 12 << 20);
    make_graph(&x, 4 << 20, 40, 50);
    add(&x, 1);
    send_arcs(&x, 0, 0);
    compare(&x);
    for (uint32_t most = 1000; most < 4000000; most = most * 5 / 3) {
        const wh_status s = wh_graph_grow(x.graph, most);
        assert_true(s == WH_OK || s == WH_OUT_OF_MEMORY);
        assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
        if (s == WH_OK) {
            wh_graph_stats stats;
            memset(&stats, 0, sizeof stats);
            assert_int_equal(wh_graph_get_stats(x.graph, &stats), WH_OK);
            assert_int_equal(stats.most_vertices, most);
            assert_int_equal(stats.vertices, n_live(&x));
        } else {
            assert_true(most > 10000);
            refused++;
        }
    }
    assert_true(refused > 3);
    uint32_t id = NONE;
    const uint64_t name = 1234567;
    const wh_graph_vertex_list l = {.names = &name, .ids = &id, .n = 1};
    assert_int_equal(wh_graph_add_vertices(x.graph, &l, NULL), WH_OK);
    assert_true(id != NONE);
    close_all(&x);
}

/* Lists on the device, on a stream, with nothing to tell. */
static void test_on_device(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        enum { N = 30 };
        void *stream = NULL;
        uint64_t names[N], known[64];
        uint32_t ids[N];
        open_all(&x, seed, 10, 64);
        assert_int_equal(wh_stream_create(x.device, &stream), WH_OK);
        uint64_t *device_names = take(x.device, sizeof names), *all = take(x.device, sizeof known);
        uint32_t *device_ids = take(x.device, sizeof ids);
        for (uint32_t i = 0; i < N; i++) {
            names[i] = 1 + i % 20;
        }
        assert_int_equal(wh_device_copy_in(x.device, device_names, names, sizeof names), WH_OK);
        wh_graph_vertex_list l = {
            .names = device_names, .ids = device_ids, .n = N, .on_device = 1, .stream = stream};
        const wh_graph_batch b = {
            .from = device_ids, .to = device_ids + 1, .n = N - 1, .on_device = 1, .stream = stream};
        assert_int_equal(wh_graph_add_vertices(x.graph, &l, NULL), WH_OK);
        assert_int_equal(wh_graph_insert(x.graph, &b, NULL), WH_OK);
        l.n = 5; /* names 1 to 5 */
        l.by_name = 1;
        assert_int_equal(wh_graph_remove_vertices(x.graph, &l, NULL), WH_OK);
        assert_int_equal(wh_graph_insert(x.graph, &b, NULL), WH_OK); /* some are none now */
        l.n = N;
        assert_int_equal(wh_graph_find_vertices(x.graph, &l), WH_OK);
        assert_int_equal(wh_graph_names(x.graph, all, 1, stream), WH_OK);
        assert_int_equal(wh_stream_sync(x.device, stream), WH_OK);
        assert_int_equal(wh_device_copy_out(x.device, ids, device_ids, sizeof ids), WH_OK);
        assert_int_equal(wh_device_copy_out(x.device, known, all, sizeof known), WH_OK);
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(ids[i] == NONE, names[i] <= 5);
            assert_true(ids[i] == NONE || known[ids[i]] == names[i]);
        }
        uint64_t arcs = 0;
        assert_int_equal(wh_graph_to_csr(x.graph, NULL, &arcs), WH_OK);
        assert_int_equal(arcs, 14); /* 6 to 7, ... 19 to 20 */
        assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
        assert_int_equal(wh_device_free(x.device, device_names), WH_OK);
        assert_int_equal(wh_device_free(x.device, device_ids), WH_OK);
        assert_int_equal(wh_device_free(x.device, all), WH_OK);
        assert_int_equal(wh_stream_destroy(x.device, stream), WH_OK);
        close_all(&x);
    }
}

/* Arrays in: rows of what is no vertex are left out. */
static void test_arrays(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        uint64_t offset[MOST + 1] = {3}, bad = 0, unique = 0;
        uint32_t to[4000];
        wh_graph_result r;
        open_all(&x, seed, 60, 90);
        remove_some(&x, 0);
        for (uint32_t v = 0; v < x.m.n; v++) {
            offset[v + 1] = offset[v] + below(&x, v % 9 == 0 ? 200 : 12);
            for (uint64_t i = offset[v]; i < offset[v + 1]; i++) {
                to[i] = below(&x, x.m.n + 1);
                if (x.m.is[v] && to[i] < x.m.n && x.m.is[to[i]]) {
                    unique += !x.m.has[v][to[i]];
                    x.m.has[v][to[i]] = 1;
                } else {
                    bad++;
                }
            }
        }
        const wh_graph_arrays arrays = {.offset = offset, .to = to};
        assert_int_equal(wh_graph_from_csr(x.graph, &arrays, &r), WH_NO_VERTEX);
        assert_int_equal(r.applied, unique);
        assert_int_equal(r.no_vertex, bad);
        assert_int_equal(r.no_change, offset[x.m.n] - offset[0] - unique - bad);
        compare(&x);
        close_all(&x);
    }
}

static void test_bad_input(void **state) {
    (void)state;
    context x;
    uint64_t name = 3;
    uint32_t id = 0;
    wh_graph_vertex_list l;
    wh_graph_options o;
    wh_graph *g = NULL;
    open_all(&x, 1, 4, 5);
    memset(&l, 0, sizeof l);
    assert_int_equal(wh_graph_add_vertices(x.graph, &l, NULL), WH_OK);
    assert_int_equal(wh_graph_add_vertices(NULL, &l, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_graph_add_vertices(x.graph, NULL, NULL), WH_BAD_ARGUMENT);
    l.n = 1;
    assert_int_equal(wh_graph_remove_vertices(x.graph, &l, NULL), WH_BAD_ARGUMENT);
    l.by_name = 1;
    l.ids = &id;
    assert_int_equal(wh_graph_remove_vertices(x.graph, &l, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_graph_find_vertices(x.graph, &l), WH_BAD_ARGUMENT);
    l.names = &name;
    assert_int_equal(wh_graph_remove_vertices(x.graph, &l, NULL), WH_NO_VERTEX);
    l.n = (uint64_t)WH_GRAPH_MOST_ARCS + 1;
    assert_int_equal(wh_graph_find_vertices(x.graph, &l), WH_BAD_ARGUMENT);
    l.n = 1;
    l.struct_bytes = 9;
    assert_int_equal(wh_graph_find_vertices(x.graph, &l), WH_WRONG_BUILD);
    assert_int_equal(wh_graph_grow(x.graph, 4), WH_BAD_ARGUMENT);
    assert_int_equal(wh_graph_grow(x.graph, UINT32_MAX), WH_BAD_ARGUMENT);
    assert_int_equal(wh_graph_grow(NULL, 9), WH_BAD_ARGUMENT);
    assert_int_equal(wh_graph_names(x.graph, NULL, 0, NULL), WH_BAD_ARGUMENT);
    memset(&o, 0, sizeof o);
    o.heap = x.heap;
    o.vertices = 5;
    o.most_vertices = 4;
    assert_int_equal(wh_graph_create(&g, &o), WH_BAD_ARGUMENT);
    o.most_vertices = UINT32_MAX;
    assert_int_equal(wh_graph_create(&g, &o), WH_BAD_ARGUMENT);
    compare(&x);
    close_all(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),      cmocka_unit_test(test_dense),
        cmocka_unit_test(test_many_names),  cmocka_unit_test(test_heap_full),
        cmocka_unit_test(test_device_full), cmocka_unit_test(test_on_device),
        cmocka_unit_test(test_arrays),      cmocka_unit_test(test_bad_input),
    };
    const struct CMUnitTest pages[] = {
        /* of others they are the same, or lattice's */
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_device_full),
        cmocka_unit_test(test_arrays),
    };
    const struct CMUnitTest keeps[] = {
        /* nothing is removed */
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_device_full),
        cmocka_unit_test(test_arrays),
    };
    int failed = 0;
    kind = "lattice";
    failed += cmocka_run_group_tests_name(kind, tests, NULL, NULL);
    kind = "faim";
    failed += cmocka_run_group_tests_name(kind, tests, NULL, NULL);
    kind = "ouro";
    failed += cmocka_run_group_tests_name(kind, pages, NULL, NULL);
    kind = "faim-update";
    failed += cmocka_run_group_tests_name(kind, pages, NULL, NULL);
    kind = "aim";
    failed += cmocka_run_group_tests_name(kind, keeps, NULL, NULL);
    return failed;
}
