/* plays.c: workloads of fault_graph: arrays, full heaps, changes from kernels, vertices that come
 * and go, copies of arcs. */
#include "fault/graph/graph.h"

/* --- arrays -------------------------------------------------------------------------------------
 */

/* Rows of every length: in order, in none, with repetitions, which multigraphs keep. */
static void draw_rows(game *g) {
    static const uint32_t lengths[] = {4, 30, 2, 33, 70, 8, 5, 0, 1, 38};
    uint64_t n = 0;
    for (uint32_t v = 0; v < g->n; v++) {
        const uint32_t length = lengths[v % 10], step = v / 2 % 2 == 0 ? 1 : 7, first = draw(g, 3);
        g->offset[v] = n;
        for (uint32_t i = 0; i < length; i++, n++) {
            const uint32_t w = v % 3 == 2 ? draw(g, g->n) : (first + i * step) % g->n;
            g->all[n] = w;
            g->all_values[0][n] = (v + w) * 64 + v * w;
            g->all_values[1][n] = g->all_values[0][n] * 7 + 1;
            if (g->copies[v][w] == 0 || g->options.multi) {
                g->copies[v][w]++;
                g->value[v][w] += g->all_values[0][n];
            }
        }
    }
    g->offset[g->n] = n;
}

int play_arrays(game *g) {
    for (uint32_t round = 0; round < 2; round++) {
        wh_graph_result r;
        wh_graph_arrays arrays;
        memset(&arrays, 0, sizeof arrays);
        draw_rows(g);
        arrays.offset = g->offset;
        arrays.to = g->all;
        for (uint32_t k = 0; k < g->options.values; k++) {
            arrays.values[k] = g->all_values[k];
        }
        const uint64_t n = g->offset[g->n];
        EXPECT(wh_graph_from_csr(g->graph, &arrays, &r) == WH_OK);
        EXPECT(r.applied == expected_arcs(g) && r.applied + r.no_change == n);
        PLAY(compare(g));
        while (expected_arcs(g) != 0) { /* and all out */
            g->n_arcs = 0;
            for (uint32_t i = 0; i < g->n * g->n && g->n_arcs < MOST_ARCS; i++) {
                if (g->copies[i / g->n][i % g->n] != 0) {
                    g->from[g->n_arcs] = i / g->n;
                    g->to[g->n_arcs++] = i % g->n;
                }
            }
            PLAY(send_erase(g));
        }
        PLAY(compare(g));
    }
    return 0;
}

/* --- a full heap --------------------------------------------------------------------------------
 */

typedef struct fill_args {
    wh_heap_ref heap;
    void **list; /* of blocks, each of which has the next one's address */
    uint32_t left, bytes;
} fill_args;

/* Takes all that there is, but for so many blocks of some bytes. */
WH_KERNEL(take_all, fill_args, a) {
    void *few[32];
    for (uint32_t i = 0; i < a.left; i++) {
        few[i] = wh_malloc(a.heap, a.bytes);
    }
    for (size_t bytes = (size_t)1 << 22; bytes >= 16; bytes /= 2) {
        void **p = (void **)wh_malloc(a.heap, bytes);
        while (p != NULL) {
            *p = *a.list;
            *a.list = (void *)p;
            p = (void **)wh_malloc(a.heap, bytes);
        }
    }
    for (uint32_t i = 0; i < a.left; i++) {
        wh_free(a.heap, few[i]);
    }
}

WH_KERNEL(give_all, fill_args, a) {
    void **p = (void **)*a.list;
    while (p != NULL) {
        void **next = (void **)*p;
        wh_free(a.heap, (void *)p);
        p = next;
    }
    *a.list = NULL;
}

/* What came of a batch in a heap that is full. */
static int send_to_full(game *g) {
    wh_graph_result r;
    uint32_t counts[3] = {0, 0, 0};
    const wh_graph_batch b = batch_of(g);
    const wh_status s = wh_graph_insert(g->graph, &b, &r);
    EXPECT(s == (r.refused != 0 ? WH_OUT_OF_MEMORY : WH_OK));
    for (uint32_t i = 0; i < g->n_arcs; i++) {
        const uint32_t v = g->from[i], w = g->to[i];
        EXPECT(g->done[i] <= WH_GRAPH_REFUSED);
        counts[g->done[i]]++;
        if (g->done[i] == WH_GRAPH_APPLIED) {
            EXPECT(g->copies[v][w] == 0);
            g->copies[v][w] = 1;
            g->value[v][w] = g->values[0][i];
        }
    }
    EXPECT(counts[WH_GRAPH_APPLIED] == r.applied && counts[WH_GRAPH_REFUSED] == r.refused);
    return compare(g);
}

/* Some go in; then there is no room for more, or smaller blocks; then there is again. */
int play_full(game *g) {
    static const uint32_t sizes[] = {16, 32, 64, 128, 256, 1024};
    static void *list;
    fill_args a;
    const wh_launch l = {g->device, 1, 1, NULL};
    const int is_lattice = strcmp(g->options.kind, "lattice") == 0;
    const int is_faim = strcmp(g->options.kind, "faim") == 0;
    list = NULL;
    a.list = &list; /* the simulated device has the host's memory */
    a.left = draw(g, 20);
    a.bytes = is_faim ? 64 : sizes[draw(g, 6)]; /* pages */
    EXPECT(wh_heap_handle(g->heap, &a.heap) == WH_OK);
    draw_arcs(g, is_lattice ? 300 : 60, g->n); /* aim's arena has a block for each */
    PLAY(send_insert(g));
    EXPECT(take_all(&l, &a) == WH_OK && wh_device_sync(g->device) == WH_OK);
    for (uint32_t step = 0; step < 4; step++) {
        draw_arcs(g, step % 2 == 0 ? 600 : 90, step == 0 && is_faim ? 5 : g->n);
        PLAY(send_to_full(g));
        draw_arcs(g, step % 2 == 0 ? 600 : 200, g->n);
        PLAY(step == 3 ? 0 : send_erase(g));
        PLAY(compare(g));
    }
    EXPECT(give_all(&l, &a) == WH_OK && wh_device_sync(g->device) == WH_OK);
    for (uint32_t step = 0; step < 3; step++) {
        draw_arcs(g, 600, step == 1 ? 1 : g->n);
        PLAY(send_insert(g));
        PLAY(compare(g));
    }
    return 0;
}

/* Arrays that find little room: each row is there, or none of it. */
int play_full_arrays(game *g) {
    static void *list;
    fill_args a;
    wh_graph_arrays arrays;
    wh_graph_result r;
    const wh_launch l = {g->device, 1, 1, NULL};
    uint64_t n = 0;
    list = NULL;
    memset(&arrays, 0, sizeof arrays);
    a.list = &list;
    a.left = 4 + draw(g, 16);
    a.bytes = 32u << draw(g, 3);
    EXPECT(wh_heap_handle(g->heap, &a.heap) == WH_OK);
    EXPECT(take_all(&l, &a) == WH_OK && wh_device_sync(g->device) == WH_OK);
    draw_rows(g);
    arrays.offset = g->offset;
    arrays.to = g->all;
    arrays.room = MOST_ALL;
    for (uint32_t k = 0; k < g->options.values; k++) {
        arrays.values[k] = g->all_values[k];
    }
    EXPECT(wh_graph_from_csr(g->graph, &arrays, &r) == WH_OUT_OF_MEMORY);
    EXPECT(r.applied + r.refused == expected_arcs(g));
    EXPECT(wh_graph_to_csr(g->graph, &arrays, &n) == WH_OK && n == r.applied);
    for (uint32_t v = 0; v < g->n; v++) {
        if (g->offset[v] == g->offset[v + 1]) {
            memset(g->copies[v], 0, sizeof g->copies[v]);
            memset(g->value[v], 0, sizeof g->value[v]);
        }
    }
    PLAY(compare(g));
    EXPECT(give_all(&l, &a) == WH_OK && wh_device_sync(g->device) == WH_OK);
    draw_arcs(g, 600, g->n);
    PLAY(send_insert(g));
    return compare(g);
}

/* --- changes from kernels -----------------------------------------------------------------------
 */

typedef struct change_args {
    wh_graph_ref g;
    wh_heap_ref heap;
    const uint32_t *from, *to;
    uint8_t *done;
    uint32_t n, erases;
} change_args;

WH_KERNEL(change_arcs, change_args, a) {
    const uint64_t i = wh_thread_id();
    const int is = i < a.n;
    const uint32_t v = is ? a.from[i] : WH_GRAPH_NONE, w = is ? a.to[i] : 0;
    const uint32_t how = a.erases ? wh_graph_erase_lanes(a.g, a.heap, v, w)
                                  : wh_graph_insert_lanes(a.g, a.heap, v, w);
    if (is) {
        a.done[i] = (uint8_t)how;
    }
}

int play_lanes(game *g) {
    change_args a;
    const wh_launch l = {g->device, 8, 32, NULL};
    EXPECT(wh_graph_handle(g->graph, &a.g) == WH_OK);
    EXPECT(wh_heap_handle(g->heap, &a.heap) == WH_OK);
    for (uint32_t step = 0; step < 6; step++) {
        uint32_t applied = 0, told = 0;
        draw_arcs(g, 240, step % 2 == 0 ? g->n : 3);
        a.from = g->from;
        a.to = g->to;
        a.done = g->done;
        a.n = g->n_arcs;
        a.erases = step % 3 == 2;
        EXPECT(change_arcs(&l, &a) == WH_OK && wh_device_sync(g->device) == WH_OK);
        for (uint32_t i = 0; i < g->n_arcs; i++) {
            uint32_t *is = &g->copies[g->from[i]][g->to[i]];
            EXPECT(g->done[i] <= WH_GRAPH_APPLIED);
            told += g->done[i];
            applied += *is != !a.erases;
            *is = !a.erases;
        }
        EXPECT(told == applied);
        PLAY(compare(g));
    }
    return 0;
}

/* --- vertices that come and go ------------------------------------------------------------------
 */

enum { LIST = 60, NAMES = 50 };

typedef struct names {
    uint32_t id[NAMES]; /* NO_ID: it has none */
    uint32_t live;
} names;

/* An id is of one name alone. */
static int is_taken(const names *x, uint32_t id) {
    for (uint32_t k = 0; k < NAMES; k++) {
        if (x->id[k] == id) {
            return 1;
        }
    }
    return 0;
}

static int add_names(game *g, names *x) {
    uint64_t list[LIST];
    uint32_t ids[LIST], applied = 0, left = g->n - x->live;
    wh_graph_vertices_result r;
    wh_graph_vertex_list l;
    memset(&l, 0, sizeof l);
    l.names = list;
    l.ids = ids;
    l.n = LIST;
    for (uint32_t i = 0; i < LIST; i++) {
        list[i] = draw(g, NAMES);
    }
    (void)wh_graph_add_vertices(g->graph, &l, &r);
    for (uint32_t i = 0; i < LIST; i++) {
        if (x->id[list[i]] == WH_GRAPH_NO_ID && ids[i] != WH_GRAPH_NO_ID) {
            EXPECT(ids[i] < g->n && !is_taken(x, ids[i]));
            x->id[list[i]] = ids[i];
            applied++;
        }
        EXPECT(x->id[list[i]] == ids[i]);
        EXPECT(ids[i] != WH_GRAPH_NO_ID || r.refused != 0);
    }
    x->live += applied;
    EXPECT(r.applied == applied && (r.refused == 0 || applied == left));
    EXPECT(r.applied + r.no_change + r.refused == LIST && r.no_vertex == 0);
    return 0;
}

/* Arcs of a vertex that goes; it has none then. */
static uint32_t forget(game *g, uint32_t v) {
    uint32_t arcs = 0;
    for (uint32_t w = 0; w < g->n; w++) {
        arcs += g->copies[v][w];
        g->copies[v][w] = 0;
        arcs += g->copies[w][v];
        g->copies[w][v] = 0;
    }
    return arcs;
}

static int remove_names(game *g, names *x, uint32_t n) {
    uint64_t list[LIST];
    uint32_t applied = 0, bad = 0, arcs = 0;
    uint8_t goes[NAMES] = {0};
    wh_graph_vertices_result r;
    wh_graph_vertex_list l;
    memset(&l, 0, sizeof l);
    l.names = list;
    l.by_name = 1;
    l.n = n;
    for (uint32_t i = 0; i < n; i++) {
        list[i] = draw(g, NAMES);
        bad += x->id[list[i]] == WH_GRAPH_NO_ID;
        goes[list[i]] = x->id[list[i]] != WH_GRAPH_NO_ID;
    }
    for (uint32_t k = 0; k < NAMES; k++) {
        if (goes[k]) {
            applied++;
            arcs += forget(g, x->id[k]);
            x->id[k] = WH_GRAPH_NO_ID;
        }
    }
    x->live -= applied;
    (void)wh_graph_remove_vertices(g->graph, &l, &r);
    EXPECT(r.applied == applied && r.no_vertex == bad && r.arcs == arcs);
    EXPECT(r.applied + r.no_change + r.no_vertex == n && r.refused == 0);
    return 0;
}

/* Arcs between any ids: those of what is no vertex are none. */
static int send_between(game *g, const names *x, uint32_t n, uint32_t sources) {
    wh_graph_result r;
    uint64_t applied = 0, bad = 0;
    draw_arcs(g, n, sources);
    const wh_graph_batch b = batch_of(g);
    (void)wh_graph_insert(g->graph, &b, &r);
    for (uint32_t i = 0; i < g->n_arcs; i++) {
        const int is = is_taken(x, g->from[i]) && is_taken(x, g->to[i]);
        uint32_t *has = &g->copies[g->from[i]][g->to[i]];
        EXPECT((g->done[i] == WH_GRAPH_NO_VERTEX) == !is);
        bad += !is;
        applied += is && *has == 0;
        *has |= (uint32_t)is;
    }
    EXPECT(r.applied == applied && r.no_vertex == bad);
    return 0;
}

int play_vertices(game *g) {
    names x;
    memset(&x, 0xff, sizeof x.id);
    x.live = 0;
    for (uint32_t step = 0; step < 5; step++) {
        PLAY(add_names(g, &x));
        PLAY(compare(g));
        PLAY(send_between(g, &x, 600, g->n));
        PLAY(send_between(g, &x, 600, 2));
        PLAY(compare(g));
        PLAY(remove_names(g, &x, step % 2 == 0 ? 6 : 40));
        PLAY(compare(g));
    }
    return 0;
}

/* Copies of arcs in a graph of few vertices, one of which goes. */
int play_copies(game *g) {
    uint32_t id = g->n - 1;
    wh_graph_vertices_result r;
    const wh_graph_vertex_list l = {.ids = &id, .n = 1};
    for (uint32_t step = 0; step < 3; step++) {
        draw_arcs(g, 600, step == 1 ? 2 : g->n);
        PLAY(send_insert(g));
    }
    const uint32_t arcs = forget(g, id);
    memset(g->value[id], 0, sizeof g->value[id]);
    for (uint32_t v = 0; v < g->n; v++) {
        g->value[v][id] = 0;
    }
    EXPECT(wh_graph_remove_vertices(g->graph, &l, &r) == WH_OK);
    EXPECT(r.applied == 1 && r.arcs == arcs);
    return compare(g);
}
