/* shard.c: a graph on several ranks: opened, closed, and what its calls share. */
#include "workload/ranks/shard_own.h"

#include "warpheap/core/hash.h"
#include "warpheap/graph_device.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void whi_shard_lap(wh_shard *s, double *part) {
    const double end = now();
    *part += end - s->lap;
    s->lap = end;
}

void wh_shard_get_times(wh_shard *s, wh_shard_times *times) {
    *times = s->times;
    memset(&s->times, 0, sizeof s->times);
}

static int is_dead(const wh_shard *s) {
    const wh_comm_reason reason = wh_comm_last_failure(s->comm)->reason;
    return reason != WH_COMM_NOTHING && reason != WH_COMM_REPORTED;
}

wh_status whi_shard_begin(wh_shard *s, const char *what) {
    if (s == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (is_dead(s)) {
        return wh_comm_last_failure(s->comm)->status;
    }
    uint64_t check = ++s->calls << 32;
    for (const char *c = what; *c != '\0'; c++) {
        check = check * 31 + (unsigned char)*c;
    }
    wh_comm_expect(s->comm, check, what);
    s->lap = now();
    return WH_OK;
}

void whi_shard_report(wh_shard *s, wh_status status, const char *what) {
    const char *text = wh_last_error_text();
    wh_comm_report(s->comm, status, text[0] != '\0' ? text : what);
}

void *whi_shard_take(wh_shard *s, uint64_t n, size_t bytes) {
    void *p = calloc(n != 0 ? n : 1, bytes);
    if (p == NULL) {
        wh_comm_report(s->comm, WH_OUT_OF_MEMORY, "no host memory");
    }
    return p;
}

unsigned char *whi_shard_out(wh_shard *s, uint64_t bytes) {
    if (bytes > s->out_room || s->out == NULL) {
        free(s->out);
        s->out_room = bytes + bytes / 4 + 64;
        s->out = whi_shard_take(s, s->out_room, 1);
        s->out_room = s->out != NULL ? s->out_room : 0;
    }
    return s->out;
}

int whi_shard_arcs_room(wh_shard *s, whi_shard_arcs *a, uint64_t n) {
    a->n = n;
    if (n <= a->room && a->from != NULL) {
        return 1;
    }
    whi_shard_arcs_free(a);
    a->from = whi_shard_take(s, n, sizeof *a->from);
    a->to = whi_shard_take(s, n, sizeof *a->to);
    a->done = whi_shard_take(s, n, 1);
    if (a->from == NULL || a->to == NULL || a->done == NULL) {
        whi_shard_arcs_free(a);
        return 0;
    }
    a->n = a->room = n;
    return 1;
}

void whi_shard_arcs_free(whi_shard_arcs *a) {
    free(a->from);
    free(a->to);
    free(a->done);
    memset(a, 0, sizeof *a);
}

/* --- this rank's part ---------------------------------------------------------------------------
 */

static wh_graph_batch batch_of(const whi_shard_arcs *a) {
    wh_graph_batch b;
    memset(&b, 0, sizeof b);
    b.from = a->from;
    b.to = a->to;
    b.n = a->n;
    b.done = a->done;
    return b;
}

wh_status whi_shard_apply(wh_shard *s, whi_shard_arcs *a, int erases) {
    const wh_graph_batch b = batch_of(a);
    wh_graph_result result;
    if (a->n == 0) {
        return WH_OK;
    }
    memset(a->done, WH_GRAPH_NO_CHANGE, a->n);
    return erases ? wh_graph_erase(s->graph, &b, &result) : wh_graph_insert(s->graph, &b, &result);
}

wh_status whi_shard_look(wh_shard *s, whi_shard_arcs *a) {
    const wh_graph_batch b = batch_of(a);
    return a->n != 0 ? wh_graph_has(s->graph, &b) : WH_OK;
}

wh_status whi_shard_take_back(wh_shard *s, whi_shard_arcs *a) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < a->n; i++) {
        if (a->done[i] == WH_GRAPH_APPLIED) {
            a->from[n] = a->from[i];
            a->to[n++] = a->to[i];
        }
    }
    a->n = n;
    return whi_shard_apply(s, a, 1);
}

wh_status whi_shard_rows_of(wh_shard *s, whi_shard_rows *rows) {
    wh_graph_arrays a;
    memset(rows, 0, sizeof *rows);
    memset(&a, 0, sizeof a);
    wh_status status = wh_graph_to_csr(s->graph, NULL, &rows->arcs);
    whi_shard_report(s, status, "this rank's arcs cannot be counted");
    rows->offset = whi_shard_take(s, (uint64_t)s->n + 1, sizeof *rows->offset);
    rows->to = whi_shard_take(s, rows->arcs, sizeof *rows->to);
    if (status == WH_OK && (rows->offset == NULL || rows->to == NULL)) {
        status = WH_OUT_OF_MEMORY;
    }
    if (status == WH_OK) {
        a.offset = rows->offset;
        a.to = rows->to;
        a.room = rows->arcs;
        status = wh_graph_to_csr(s->graph, &a, &rows->arcs);
        whi_shard_report(s, status, "this rank's arcs cannot be copied");
    }
    if (status != WH_OK) {
        whi_shard_rows_free(rows);
    }
    return status;
}

void whi_shard_rows_free(whi_shard_rows *rows) {
    free(rows->offset);
    free(rows->to);
    memset(rows, 0, sizeof *rows);
}

/* --- open and close -----------------------------------------------------------------------------
 */

static uint64_t most_of(const wh_shard_options *o) {
    return o->most_vertices != 0 ? o->most_vertices : o->vertices;
}

/* What all ranks must have in common. */
static uint64_t options_hash(const wh_shard_options *o) {
    const uint64_t parts[] = {
        o->vertices,
        most_of(o),
        (uint64_t)o->split,
        (uint64_t)(o->undirected != 0),
        wh_lattice_layout(),
        (uint64_t)wh_version(),
        o->batch,
    };
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        hash = wh_spread64(hash ^ parts[i]) ^ hash >> 29;
    }
    return hash;
}

/* A list of nothing, so that none to come needs memory of the device. */
static wh_status reserve_removals(wh_shard *s) {
    const uint64_t n = s->n < WHI_SHARD_REMOVE_PIECE ? s->n : WHI_SHARD_REMOVE_PIECE;
    uint32_t *ids = whi_shard_take(s, n, sizeof *ids);
    wh_graph_vertex_list list;
    wh_graph_vertices_result result;
    if (ids == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    memset(ids, 0xff, n * sizeof *ids);
    memset(&list, 0, sizeof list);
    list.ids = ids;
    list.n = n;
    const wh_status status = wh_graph_remove_vertices(s->graph, &list, &result);
    free(ids);
    return status == WH_NO_VERTEX ? WH_OK : status;
}

static wh_status make_graph(wh_shard *s, const wh_shard_options *o) {
    wh_graph_options g;
    memset(&g, 0, sizeof g);
    g.heap = o->heap;
    g.vertices = s->n; /* here all ids are vertices: `is` says which ones are */
    g.batch = o->batch;
    const wh_status status = wh_graph_create(&s->graph, &g);
    return status != WH_OK ? status : reserve_removals(s);
}

static void make_maps(wh_shard *s, const wh_shard_options *o) {
    for (uint32_t v = 0; v < s->n; v++) {
        const uint64_t by_hash = (uint64_t)wh_mix32(v) * (uint64_t)s->size >> 32;
        const uint64_t by_range = (uint64_t)v * (uint64_t)s->size / s->n;
        const uint64_t owner = o->split == WH_SHARD_HASH ? by_hash : by_range;
        s->owner[v] = (uint16_t)owner;
        s->is[v] = v < o->vertices;
    }
    s->map_end = s->n;
    s->next = s->live = (uint32_t)o->vertices;
}

/* What has an entry for each rank. */
static int take_of_ranks(wh_shard *s) {
    const uint64_t n = (uint64_t)s->size;
    s->out_bytes = whi_shard_take(s, n, sizeof *s->out_bytes);
    s->at = whi_shard_take(s, n, sizeof *s->at);
    s->order_first = whi_shard_take(s, n + 1, sizeof *s->order_first);
    s->tally = whi_shard_take(s, sizeof *s->tally + 2 * n * sizeof *s->counts, 1);
    s->counts = s->tally != NULL ? (uint32_t *)(void *)(s->tally + 1) : NULL;
    s->sent = whi_shard_take(s, n, sizeof *s->sent);
    s->came_arcs = whi_shard_take(s, n, sizeof *s->came_arcs);
    s->may = whi_shard_take(s, n, sizeof *s->may);
    s->want = whi_shard_take(s, n, sizeof *s->want);
    return s->out_bytes && s->at && s->order_first && s->counts && s->sent && s->came_arcs &&
           s->may && s->want;
}

/* Device memory of the path of batches; for those of o->batch, whose sources are any. */
static wh_status make_path(wh_shard *s, const wh_shard_options *o) {
    const uint64_t ranks = (uint64_t)s->size, n = o->batch, each = n / ranks + n / ranks / 8 + 48;
    const uint64_t fill = WHI_SHARD_ARCS * ranks;
    s->kernels = whi_shard_kernels_find(wh_device_get_info(s->device)->target);
    s->came.device = s->answers.device = s->device;
    if (!whi_shard_room(s, &s->map, 2 * (uint64_t)s->n) ||
        !whi_shard_room(s, &s->degrees, 4 * (uint64_t)s->n) ||
        !whi_shard_room(s, &s->bins, sizeof(whi_shard_tally) + 16 * ranks)) {
        return WH_OUT_OF_MEMORY;
    }
    wh_status status = whi_shard_bring_map(s);
    if (n == 0 || status != WH_OK) {
        return status;
    }
    for (int p = 0; p < s->size; p++) {
        s->may[p] = each;
    }
    s->graph_room = n;
    if (!whi_shard_room(s, &s->seen, 4 * n) ||
        !whi_shard_room(s, &s->sends, whi_shard_message_bytes(n + fill, ranks)) ||
        !whi_shard_room(s, &s->arcs, whi_shard_arc_bytes(s, n + fill))) {
        return WH_OUT_OF_MEMORY;
    }
    if (s->size != 1) {
        status = wh_comm_buffer_reserve(&s->came, whi_shard_message_bytes(each * ranks, ranks));
        status = status == WH_OK ? wh_comm_buffer_reserve(&s->answers, n + fill) : status;
    }
    return status;
}

static wh_status make(wh_shard *s, const wh_shard_options *o) {
    const uint64_t n = most_of(o);
    if (o->heap == NULL || n == 0 || n > WH_GRAPH_MOST_VERTICES || o->vertices > n ||
        o->split > WH_SHARD_RANGE || s->size > (int)WHI_SHARD_MOST_RANKS) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT,
                       "wh_shard_options: a heap, vertices, no more than most, and a split");
        return WH_BAD_ARGUMENT;
    }
    s->n = (uint32_t)n;
    s->device = wh_heap_device(o->heap);
    s->undirected = o->undirected;
    s->piece = o->piece != 0 ? o->piece : (uint64_t)16 << 20;
    s->owner = whi_shard_take(s, n, sizeof *s->owner);
    s->is = whi_shard_take(s, n, 1);
    s->free_ids = whi_shard_take(s, n, sizeof *s->free_ids);
    if (!s->owner || !s->is || !s->free_ids || !take_of_ranks(s)) {
        return WH_OUT_OF_MEMORY;
    }
    make_maps(s, o);
    wh_status status = make_graph(s, o);
    status = status == WH_OK ? make_path(s, o) : status;
    whi_shard_report(s, status, "the graph of this rank");
    return status;
}

wh_status wh_shard_open(wh_shard **shard, const wh_shard_options *o) {
    if (shard == NULL || o == NULL || o->comm == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *shard = NULL;
    wh_shard *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return wh_comm_give_up(o->comm, WH_OUT_OF_MEMORY, "no host memory for the graph");
    }
    s->comm = o->comm;
    s->rank = wh_comm_rank(o->comm);
    s->size = wh_comm_size(o->comm);
    (void)make(s, o);
    wh_comm_expect(s->comm, options_hash(o), "options of the graph, or another layout of it,");
    const wh_status status = wh_comm_agree(s->comm);
    if (status != WH_OK) {
        (void)wh_shard_close(s);
        return status;
    }
    *shard = s;
    return WH_OK;
}

wh_status wh_shard_close(wh_shard *s) {
    if (s == NULL) {
        return WH_OK;
    }
    const wh_status status = wh_graph_destroy(s->graph);
    free(s->owner);
    free(s->is);
    free(s->free_ids);
    free(s->at);
    free(s->order_first);
    free(s->tally);
    free(s->sent);
    free(s->came_arcs);
    free(s->may);
    if (s->device != NULL) {
        whi_shard_drop(s, &s->map);
        whi_shard_drop(s, &s->order);
        whi_shard_drop(s, &s->input);
        whi_shard_drop(s, &s->seen);
        whi_shard_drop(s, &s->bins);
        whi_shard_drop(s, &s->degrees);
        whi_shard_drop(s, &s->table);
    }
    if (!is_dead(s)) { /* else they may be in use */
        free(s->out);
        wh_comm_buffer_free(&s->got);
        wh_comm_buffer_free(&s->came);
        wh_comm_buffer_free(&s->answers);
        free(s->out_bytes);
        free(s->want);
        if (s->device != NULL) {
            whi_shard_drop(s, &s->sends);
            whi_shard_drop(s, &s->arcs);
        }
    }
    free(s);
    return status;
}

wh_graph *wh_shard_local(wh_shard *s) {
    return s->graph;
}

int wh_shard_owner(const wh_shard *s, uint32_t v) {
    return v < s->n ? s->owner[v] : -1;
}

int wh_shard_is_vertex(const wh_shard *s, uint32_t v) {
    return v < s->n && s->is[v];
}
