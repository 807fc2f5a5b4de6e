/* vertices.c: the host's calls of graph_vertices.h. */
#include "vertices.h"

#include <stdlib.h>
#include <string.h>

#include "built_list.h"
#include "graph_own.h"
#include "host/last_error.h"
#include "warpheap/detail/alloc/tables.h"
#include "warpheap/detail/graph/work.h"

WH_TABLES_ONCE(whi_vertex_kernels, whi_vertex_kernels_find)

/* What a graph has where vertices come and go. */
typedef struct whi_graph_ids {
    const whi_vertex_kernels *kernels;
    whi_vertices v;
    void *list_names, *list_ids; /* of a list that came from the host */
    uint64_t room;               /* of its entries */
} whi_graph_ids;

#define START(g, v, step) TRY((g)->ids->kernels->step((g)->device, stream, (v)))

/* --- memory -------------------------------------------------------------------------------------
 */

static uint64_t words_of(uint64_t n) {
    return (n + 31) / 32;
}

/* So many bytes of device memory, all alike. */
static wh_status take(wh_graph *g, void **p, uint64_t bytes, int byte) {
    TRY(wh_device_alloc(g->device, p, bytes + 8));
    return wh_device_set(g->device, *p, byte, bytes);
}

static void drop_map(wh_graph *g, whi_vertices *v) {
    (void)wh_device_free(g->device, v->names);
    (void)wh_device_free(g->device, v->keys);
    (void)wh_device_free(g->device, v->ids);
    v->names = v->keys = NULL;
    v->ids = NULL;
    v->size = 0;
}

static void drop_arrays(wh_graph *g, whi_vertices *v) {
    drop_map(g, v);
    (void)wh_device_free(g->device, v->alive);
    (void)wh_device_free(g->device, v->removed);
    (void)wh_device_free(g->device, v->free);
}

static wh_status take_map(wh_graph *g, whi_vertices *v) {
    void *names = NULL, *keys = NULL, *ids = NULL;
    const uint64_t size = whi_map_size(v->n);
    wh_status s = take(g, &names, (uint64_t)v->n * 8, 0xff);
    s = s == WH_OK ? take(g, &keys, size * 8, 0xff) : s;
    s = s == WH_OK ? take(g, &ids, size * 4, 0xff) : s;
    v->names = names;
    v->keys = keys;
    v->ids = ids;
    v->size = size;
    if (s != WH_OK) {
        drop_map(g, v);
    }
    return s;
}

/* Arrays for v->n ids, none of which is alive. */
static wh_status take_arrays(wh_graph *g, whi_vertices *v) {
    void *alive = NULL, *removed = NULL, *unused = NULL;
    const uint64_t words = words_of(v->n);
    wh_status s = take(g, &alive, words * 4, 0);
    s = s == WH_OK ? take(g, &removed, words * 4, 0) : s;
    s = s == WH_OK ? take(g, &unused, (uint64_t)v->n * 4, 0) : s;
    v->alive = alive;
    v->removed = removed;
    v->free = unused;
    return s;
}

static uint64_t bytes_of(const whi_vertices *v) {
    const uint64_t names = v->names != NULL ? (uint64_t)v->n * 8 + v->size * 12 : 0;
    return words_of(v->n) * 8 + (uint64_t)v->n * 4 + names;
}

/* The ids below n become alive; nothing has been removed yet. */
static wh_status first_ids(wh_graph *g, whi_vertices *v, uint64_t n) {
    const unsigned char rest = (unsigned char)((1u << n % 8) - 1);
    unsigned char *bits = (unsigned char *)v->alive;
    whi_vertex_counts counts;
    void *p = NULL;
    memset(&counts, 0, sizeof counts);
    counts.next = counts.live = (uint32_t)n;
    TRY(wh_device_alloc(g->device, &p, sizeof counts));
    v->counts = p;
    TRY(wh_device_copy_in(g->device, p, &counts, sizeof counts));
    TRY(wh_device_set(g->device, bits, 0xff, n / 8));
    return n % 8 != 0 ? wh_device_copy_in(g->device, bits + n / 8, &rest, 1) : WH_OK;
}

wh_status whi_graph_make_ids(wh_graph *g, uint64_t n) {
    whi_graph_ids *x = calloc(1, sizeof *x);
    if (x == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    x->kernels = whi_vertex_kernels_find(wh_device_get_info(g->device)->target);
    x->v.n = g->b.n_vertices;
    wh_status s = take_arrays(g, &x->v);
    s = s == WH_OK ? first_ids(g, &x->v, n) : s;
    g->ids = x;
    if (s != WH_OK) {
        whi_graph_drop_ids(g);
        return s;
    }
    g->b.alive = n != x->v.n ? x->v.alive : NULL;
    g->fixed_bytes += bytes_of(&x->v);
    return WH_OK;
}

void whi_graph_drop_ids(wh_graph *g) {
    whi_graph_ids *x = g->ids;
    if (x != NULL) {
        drop_arrays(g, &x->v);
        (void)wh_device_free(g->device, x->v.counts);
        (void)wh_device_free(g->device, x->list_names);
        (void)wh_device_free(g->device, x->list_ids);
        free(x);
        g->ids = NULL;
    }
}

static wh_status need_ids(wh_graph *g) {
    return g->ids != NULL ? WH_OK : whi_graph_make_ids(g, g->b.n_vertices);
}

static wh_status need_map(wh_graph *g) {
    whi_vertices *v = &g->ids->v;
    if (v->names != NULL) {
        return WH_OK;
    }
    const uint64_t before = bytes_of(v);
    TRY(take_map(g, v));
    g->fixed_bytes += bytes_of(v) - before;
    return WH_OK;
}

/* Room for a list of n that comes from the host. */
static wh_status need_room(wh_graph *g, uint64_t n) {
    whi_graph_ids *x = g->ids;
    void *names = NULL, *ids = NULL;
    if (n <= x->room) {
        return WH_OK;
    }
    TRY(wh_device_alloc(g->device, &names, n * 8));
    const wh_status s = wh_device_alloc(g->device, &ids, n * 4);
    if (s != WH_OK) {
        (void)wh_device_free(g->device, names);
        return s;
    }
    (void)wh_device_free(g->device, x->list_names);
    (void)wh_device_free(g->device, x->list_ids);
    x->list_names = names;
    x->list_ids = ids;
    g->fixed_bytes += (n - x->room) * 12;
    x->room = n;
    return WH_OK;
}

static wh_status read_counts(wh_graph *g, whi_vertex_counts *c) {
    return wh_device_copy_out(g->device, c, g->ids->v.counts, sizeof *c);
}

const uint32_t *whi_graph_alive(const wh_graph *g) {
    return g->ids != NULL ? g->ids->v.alive : NULL;
}

wh_status whi_graph_live(wh_graph *g, uint64_t *n) {
    whi_vertex_counts c;
    *n = g->b.n_vertices;
    if (g->ids != NULL) {
        TRY(read_counts(g, &c));
        *n = c.live;
    }
    return WH_OK;
}

wh_status whi_graph_expect_vertex(wh_graph *g, uint32_t v) {
    uint32_t word = ~0u;
    if (v < g->b.n_vertices && g->b.alive != NULL) {
        TRY(wh_device_copy_out(g->device, &word, &g->b.alive[v / 32], 4));
    }
    return v < g->b.n_vertices && (word >> v % 32 & 1) != 0
               ? WH_OK
               : whi_refuse(WH_BAD_ARGUMENT, "%u is no vertex: ids are below %u", v,
                            g->b.n_vertices);
}

/* --- lists --------------------------------------------------------------------------------------
 */

enum { ADD, REMOVE, FIND };

static wh_status take_list(wh_graph_vertex_list *own, const wh_graph_vertex_list *list, int what) {
    TRY(whi_take_struct(own, sizeof *own, list, sizeof *own));
    const int needs_names = what == FIND || (what == REMOVE && own->by_name);
    const int needs_ids = what == FIND || (what == REMOVE && !own->by_name);
    if (own->n > WH_GRAPH_MOST_ARCS ||
        (own->n != 0 && ((needs_names && !own->names) || (needs_ids && !own->ids)))) {
        return whi_refuse(
            WH_BAD_ARGUMENT,
            "a list of %llu vertices: at most %u, with%s names and with%s ids, please",
            (unsigned long long)own->n, WH_GRAPH_MOST_ARCS, needs_names ? "" : " or without",
            needs_ids ? "" : " or without");
    }
    if (what == REMOVE && !own->by_name) {
        own->names = NULL;
    }
    return WH_OK;
}

/* The list on the device. */
static wh_status bring(wh_graph *g, const wh_graph_vertex_list *list, int ids_come,
                       whi_vertices *v) {
    whi_graph_ids *x = g->ids;
    if (!list->on_device) {
        TRY(need_room(g, list->n));
    }
    *v = x->v;
    v->n_list = (uint32_t)list->n;
    v->list_names = list->names;
    uint32_t *ids = list->ids;
    if (!list->on_device) {
        if (list->names != NULL) {
            TRY(wh_device_copy_in(g->device, x->list_names, list->names, list->n * 8));
            v->list_names = x->list_names;
        }
        if (ids_come) {
            TRY(wh_device_copy_in(g->device, x->list_ids, list->ids, list->n * 4));
        }
        ids = ids != NULL ? x->list_ids : NULL;
    }
    v->list_ids = ids_come ? ids : NULL;
    v->out = ids_come ? NULL : ids;
    return WH_OK;
}

static wh_status bring_out(wh_graph *g, const wh_graph_vertex_list *list, const whi_vertices *v) {
    return list->on_device || v->out == NULL
               ? WH_OK
               : wh_device_copy_out(g->device, list->ids, v->out, list->n * 4);
}

/* Waits, and tells what has become of the list. */
static wh_status tell(wh_graph *g, const wh_graph_vertex_list *list, const whi_vertices *v,
                      wh_graph_vertices_result *result) {
    whi_vertex_counts c;
    TRY(wh_stream_sync(g->device, list->stream));
    TRY(read_counts(g, &c));
    TRY(bring_out(g, list, v));
    if (result != NULL) {
        *result = c.result;
    }
    g->b.alive = c.live != v->n ? v->alive : NULL;
    if (c.result.refused != 0) {
        return whi_refuse(WH_OUT_OF_MEMORY, "%llu vertices were refused: all %u ids are in use",
                          (unsigned long long)c.result.refused, v->n);
    }
    return c.result.no_vertex != 0 ? WH_NO_VERTEX : WH_OK;
}

/* What all calls begin with. */
static wh_status begin(wh_graph *g, const wh_graph_vertex_list *list, int what,
                       wh_graph_vertex_list *own, wh_graph_vertices_result *result) {
    whi_forget_error();
    if (g == NULL || list == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (result != NULL) {
        memset(result, 0, sizeof *result);
    }
    TRY(take_list(own, list, what));
    if (own->n != 0 && what == REMOVE && g->kernels->sweep == NULL) {
        return whi_refuse(WH_UNSUPPORTED, "no vertices can be removed from graphs of the class %s",
                          g->kind);
    }
    return own->n != 0 && what != FIND ? need_ids(g) : WH_OK;
}

/* --- vertices that come -------------------------------------------------------------------------
 */

/* A part of a list, so long that names always find a place. */
static wh_status add_part(wh_graph *g, void *stream, const whi_vertices *v) {
    if (v->list_names == NULL) {
        START(g, v, add);
    } else {
        START(g, v, claim);
        START(g, v, tell);
        START(g, v, renew);
    }
    START(g, v, added);
    return WH_OK;
}

wh_status wh_graph_add_vertices(wh_graph *g, const wh_graph_vertex_list *list,
                                wh_graph_vertices_result *result) {
    wh_graph_vertex_list own;
    whi_vertices v;
    TRY(begin(g, list, ADD, &own, result));
    if (own.n == 0) {
        return WH_OK;
    }
    if (own.names != NULL) {
        TRY(need_map(g));
    }
    TRY(bring(g, &own, 0, &v));
    const uint64_t most = own.names != NULL ? whi_map_most(v.size) : own.n;
    g->b.alive = v.alive;
    for (uint64_t first = 0; first < own.n; first += most) {
        whi_vertices part = v;
        part.n_list = (uint32_t)(own.n - first < most ? own.n - first : most);
        part.list_names = v.list_names != NULL ? v.list_names + first : NULL;
        part.out = v.out != NULL ? v.out + first : NULL;
        part.goes_on = first != 0;
        TRY(add_part(g, own.stream, &part));
    }
    return result != NULL || !own.on_device ? tell(g, &own, &v, result) : WH_OK;
}

/* --- vertices that go ---------------------------------------------------------------------------
 */

static wh_status start_remove(wh_graph *g, void *stream, const whi_vertices *v) {
    whi_graph_batch b = g->b;
    b.sweep.removed = v->removed;
    b.sweep.taken = &v->counts->taken;
    b.sweep.hubs = v->free + v->n;
    b.sweep.n_hubs = &v->counts->hubs;
    b.sweep.arcs = &v->counts->arcs;
    START(g, v, mark);
    TRY(g->kernels->sweep(g->heap, stream, &b));
    START(g, v, forget);
    if (v->names != NULL) {
        START(g, v, renew);
    }
    START(g, v, gone);
    return WH_OK;
}

wh_status wh_graph_remove_vertices(wh_graph *g, const wh_graph_vertex_list *list,
                                   wh_graph_vertices_result *result) {
    wh_graph_vertex_list own;
    whi_vertices v;
    TRY(begin(g, list, REMOVE, &own, result));
    if (own.n == 0) {
        return WH_OK;
    }
    TRY(bring(g, &own, !own.by_name, &v));
    g->b.alive = v.alive;
    TRY(start_remove(g, own.stream, &v));
    return result != NULL || !own.on_device ? tell(g, &own, &v, result) : WH_OK;
}

/* --- looking ------------------------------------------------------------------------------------
 */

/* NO_ID or NO_NAME everywhere. */
static wh_status fill(wh_graph *g, void *out, uint64_t bytes, int on_device) {
    if (on_device) {
        return wh_device_set(g->device, out, 0xff, bytes);
    }
    memset(out, 0xff, bytes);
    return WH_OK;
}

wh_status wh_graph_find_vertices(wh_graph *g, const wh_graph_vertex_list *list) {
    wh_graph_vertex_list own;
    whi_vertices v;
    TRY(begin(g, list, FIND, &own, NULL));
    if (own.n == 0) {
        return WH_OK;
    }
    if (g->ids == NULL) { /* nobody has a name */
        return fill(g, own.ids, own.n * 4, own.on_device);
    }
    TRY(bring(g, &own, 0, &v));
    TRY(g->ids->kernels->find(g->device, own.stream, &v));
    if (own.on_device) {
        return WH_OK;
    }
    TRY(wh_stream_sync(g->device, own.stream));
    return bring_out(g, &own, &v);
}

/* Words from one array on the device to another. */
static wh_status copy(wh_graph *g, void *stream, void *to, const void *from, uint64_t bytes) {
    whi_vertices v = g->ids->v;
    v.from = from;
    v.to = to;
    v.words = bytes / 4;
    START(g, &v, copy);
    return WH_OK;
}

wh_status wh_graph_names(wh_graph *g, uint64_t *names, int on_device, void *stream) {
    whi_forget_error();
    if (g == NULL || names == NULL) {
        return WH_BAD_ARGUMENT;
    }
    const uint64_t bytes = (uint64_t)g->b.n_vertices * 8;
    const uint64_t *own = g->ids != NULL ? g->ids->v.names : NULL;
    if (own == NULL) {
        return fill(g, names, bytes, on_device);
    }
    if (on_device) {
        return copy(g, stream, names, own, bytes);
    }
    TRY(wh_stream_sync(g->device, stream));
    return wh_device_copy_out(g->device, names, own, bytes);
}

wh_status wh_graph_is_vertex(wh_graph *g, uint8_t *is) {
    whi_forget_error();
    if (g == NULL || is == NULL) {
        return WH_BAD_ARGUMENT;
    }
    const uint32_t n = g->b.n_vertices;
    memset(is, 1, n);
    if (g->ids == NULL) {
        return WH_OK;
    }
    uint32_t *bits = malloc(words_of(n) * 4);
    if (bits == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    const wh_status s = wh_device_copy_out(g->device, bits, g->ids->v.alive, words_of(n) * 4);
    for (uint32_t v = 0; s == WH_OK && v < n; v++) {
        is[v] = (uint8_t)whi_bit(bits, v);
    }
    free(bits);
    return s;
}

/* --- growing ------------------------------------------------------------------------------------
 */

/* What a graph gets in place of what it has. */
typedef struct larger {
    whi_vertices v;
    void *vertices, *runs, *locks;
} larger;

/* New arrays, with what the old ones have. */
static wh_status fill_larger(wh_graph *g, larger *l) {
    const whi_vertices *old = &g->ids->v;
    void *const stream = NULL;
    const uint64_t n = l->v.n;
    TRY(take(g, &l->vertices, n * g->kernels->vertex_bytes, 0));
    TRY(take(g, &l->runs, n * sizeof(whi_graph_run), 0));
    TRY(take(g, &l->locks, wh_graph_lock_words(n) * 4, 0)); /* nobody has one now */
    TRY(take_arrays(g, &l->v));
    if (old->names != NULL) {
        TRY(take_map(g, &l->v));
        TRY(copy(g, NULL, l->v.names, old->names, (uint64_t)old->n * 8));
        l->v.anew = 1;
        START(g, &l->v, renew);
        l->v.anew = 0;
    }
    TRY(copy(g, NULL, l->vertices, g->b.vertices, old->n * g->kernels->vertex_bytes));
    TRY(copy(g, NULL, l->v.alive, old->alive, words_of(old->n) * 4));
    TRY(copy(g, NULL, l->v.free, old->free, (uint64_t)old->n * 4));
    return wh_device_sync(g->device);
}

/* All used places of a map that was filled anew have a vertex. */
static wh_status settle_counts(wh_graph *g) {
    whi_vertex_counts c;
    TRY(read_counts(g, &c));
    c.places = c.named;
    return wh_device_copy_in(g->device, g->ids->v.counts, &c, sizeof c);
}

static wh_status grow(wh_graph *g, uint64_t n) {
    larger l;
    memset(&l, 0, sizeof l);
    l.v.n = (uint32_t)n;
    l.v.counts = g->ids->v.counts;
    wh_status s = fill_larger(g, &l);
    s = s == WH_OK ? settle_counts(g) : s;
    if (s != WH_OK) {
        drop_arrays(g, &l.v);
        (void)wh_device_free(g->device, l.vertices);
        (void)wh_device_free(g->device, l.runs);
        (void)wh_device_free(g->device, l.locks);
        return s;
    }
    const uint64_t each = g->kernels->vertex_bytes + sizeof(whi_graph_run);
    const uint64_t locks = wh_graph_lock_words(n) - wh_graph_lock_words(g->b.n_vertices);
    g->fixed_bytes += (n - g->b.n_vertices) * each + bytes_of(&l.v) - bytes_of(&g->ids->v);
    g->fixed_bytes += locks * 4;
    drop_arrays(g, &g->ids->v);
    (void)wh_device_free(g->device, g->b.vertices);
    (void)wh_device_free(g->device, g->b.runs);
    (void)wh_device_free(g->device, g->b.locks);
    g->ids->v = l.v;
    g->b.vertices = l.vertices;
    g->b.runs = l.runs;
    g->b.locks = l.locks;
    g->b.n_vertices = (uint32_t)n;
    g->b.alive = l.v.alive;
    return WH_OK;
}

wh_status wh_graph_grow(wh_graph *g, uint64_t most_vertices) {
    whi_forget_error();
    if (g == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (most_vertices < g->b.n_vertices || most_vertices > WH_GRAPH_MOST_VERTICES) {
        return whi_refuse(WH_BAD_ARGUMENT, "a graph of %u ids may have %u to %u, not %llu",
                          g->b.n_vertices, g->b.n_vertices, WH_GRAPH_MOST_VERTICES,
                          (unsigned long long)most_vertices);
    }
    if (most_vertices == g->b.n_vertices) {
        return WH_OK;
    }
    TRY(need_ids(g));
    return grow(g, most_vertices);
}

/* --- checking; on the host ----------------------------------------------------------------------
 */

/* A copy of a graph's ids. */
typedef struct ids_copy {
    whi_vertices v; /* host memory */
    whi_vertex_counts counts;
} ids_copy;

static wh_status fetch(wh_graph *g, void **to, const void *from, uint64_t bytes) {
    *to = malloc(bytes + 8);
    return *to != NULL ? wh_device_copy_out(g->device, *to, from, bytes) : WH_OUT_OF_MEMORY;
}

static wh_status fetch_ids(wh_graph *g, ids_copy *c) {
    const whi_vertices *v = &g->ids->v;
    const uint64_t bits = words_of(v->n) * 4;
    void *p = NULL;
    wh_status s = read_counts(g, &c->counts);
    c->v = *v;
    c->v.alive = c->v.removed = c->v.free = c->v.ids = NULL;
    c->v.names = c->v.keys = NULL;
#define FETCH(field, bytes)                \
    if (s == WH_OK) {                      \
        s = fetch(g, &p, v->field, bytes); \
        c->v.field = p;                    \
    }
    FETCH(alive, bits)
    FETCH(removed, bits)
    FETCH(free, (uint64_t)v->n * 4)
    if (v->names != NULL) {
        FETCH(names, (uint64_t)v->n * 8)
        FETCH(keys, v->size * 8)
        FETCH(ids, v->size * 4)
    }
#undef FETCH
    return s;
}

static void drop_copy(ids_copy *c) {
    free(c->v.alive);
    free(c->v.removed);
    free(c->v.free);
    free(c->v.names);
    free(c->v.keys);
    free(c->v.ids);
}

/* I7 */
static void check_arcs(const ids_copy *c, const wh_graph_arrays *a, wh_report *r) {
    for (uint32_t v = 0; v < c->v.n; v++) {
        int is_bad = a->offset[v] != a->offset[v + 1] && !whi_bit(c->v.alive, v);
        for (uint64_t i = a->offset[v]; i < a->offset[v + 1]; i++) {
            is_bad |= !whi_bit(c->v.alive, a->to[i]);
        }
        if (is_bad) {
            whi_graph_report(r, 7, v);
        }
    }
}

/* The place that a probe for a name ends at. */
static uint64_t probe(const whi_vertices *v, uint64_t name) {
    uint64_t at = whi_map_first(name, v->size);
    for (uint64_t steps = 0; steps < v->size; steps++) {
        if (v->keys[at] == name || v->keys[at] == WH_GRAPH_NO_NAME) {
            break;
        }
        at = at + 1 < v->size ? at + 1 : 0;
    }
    return at;
}

/* I8 */
static void check_names(const ids_copy *c, wh_report *r) {
    const whi_vertices *v = &c->v;
    uint64_t named = 0, places = 0, with_id = 0;
    for (uint64_t at = 0; at < v->size; at++) {
        places += v->keys[at] != WH_GRAPH_NO_NAME;
        with_id += v->ids[at] != WHI_NO_ID;
    }
    for (uint32_t id = 0; id < v->n; id++) {
        if (v->names[id] != WH_GRAPH_NO_NAME) {
            const uint64_t at = probe(v, v->names[id]);
            named++;
            if (v->keys[at] != v->names[id] || v->ids[at] != id || !whi_bit(v->alive, id)) {
                whi_graph_report(r, 8, id);
            }
        }
    }
    if (named != with_id || named != c->counts.named || places != c->counts.places ||
        whi_map_is_stale(places, named, v->size)) {
        whi_graph_report(r, 8, v->n);
    }
}

/* I9 */
static void check_free(const ids_copy *c, wh_report *r) {
    const whi_vertices *v = &c->v;
    const whi_vertex_counts *n = &c->counts;
    uint64_t live = 0;
    for (uint32_t id = 0; id < v->n; id++) {
        live += whi_bit(v->alive, id) != 0;
        if (whi_bit(v->removed, id) || (whi_bit(v->alive, id) && id >= n->next)) {
            whi_graph_report(r, 9, id);
        }
    }
    for (uint32_t k = 0; k < n->n_free && k < v->n; k++) { /* a bit each: seen */
        const uint32_t id = v->free[k];
        if (id >= n->next || whi_bit(v->alive, id) || whi_bit(v->removed, id)) {
            whi_graph_report(r, 9, id);
        } else {
            v->removed[id / 32] |= 1u << id % 32;
        }
    }
    if (live != n->live || (uint64_t)n->n_free + n->live != n->next || n->taken != 0) {
        whi_graph_report(r, 9, v->n);
    }
}

wh_status whi_graph_check_ids(wh_graph *g, const wh_graph_arrays *arrays, wh_report *r) {
    ids_copy c;
    if (g->ids == NULL) {
        return WH_OK;
    }
    memset(&c, 0, sizeof c);
    const wh_status s = fetch_ids(g, &c);
    if (s == WH_OK) {
        check_arcs(&c, arrays, r);
        check_free(&c, r);
        if (c.v.names != NULL) {
            check_names(&c, r);
        }
    }
    drop_copy(&c);
    return s;
}
