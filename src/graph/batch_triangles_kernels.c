/* batch_triangles_kernels.c: targeted source (compiled once for each target): the triangles of
 * a graph of the class `lattice` that have an edge in a batch, each once.
 *
 * First the batch becomes a set of edges: a table. Then each edge of it has a worker, a warp, or a
 * block of threads where its ends have many neighbours, which counts the neighbours that both ends
 * have. The shorter adjacency goes into a table in shared memory, a part after the other if it is
 * long, and the longer one is looked up there; in a graph in order the shorter one is looked up in
 * the longer one by binary search. A triangle with several edges in the batch belongs to the least
 * of them: two probes of the batch's table, for each triangle that is found.
 *
 * T1       keys[]: NO_EDGE becomes an edge once, by cas, relaxed: who does that, lists the edge. So
 *          each edge of the batch is listed once. Probes end: half of the places stay free
 * T2       list[], counts: written by `collect` (places by fetch_add, relaxed), read by `count`,
 *          as are keys[]
 * T3       a table in shared memory belongs to one worker: cleared, filled, and looked at between
 *          meetings of its threads. It is at most half full
 *
 * Progress no worker waits for another one
 * Cost     of an edge of ends with d and e neighbours, d <= e: O(d + e * (1 + d / ENTRIES)); in
 *          order O(d log e)
 * Check    tests/dgraph/algorithms.c
 */
#define WH_KERNEL_THREADS 256

#include "batch_triangles.h"

#include "rounds.h"
#include "vertices.h"
#include "warpheap/core/hash.h"
#include "warpheap/detail/alloc/tables.h"
#include "warpheap/detail/graph/lattice.h"
#include "warpheap/detail/graph/team.h"

#define NONE WH_GRAPH_NONE

/* Entries that a warp's table has room for, and a block's; neighbours of both ends together up to
 * which an edge has a warp. The simulated device has small graphs. */
#define WARP_ENTRIES (WH_FILE_IS_CUDA ? 512u : 8u)
#define BLOCK_ENTRIES (WH_FILE_IS_CUDA ? 4096u : 16u)
#define WARP_DEGREES (WH_FILE_IS_CUDA ? 1024u : 24u)
#define HEAD_WORDS 32u /* of shared memory, for what a block counts together */
#define SHARED_BYTES ((HEAD_WORDS + 2 * BLOCK_ENTRIES) * 4) /* a block has 8 warps at most */

/* --- the batch as a set -------------------------------------------------------------------------
 */

WH_FN uint64_t edge_of(uint32_t u, uint32_t v) {
    return u < v ? (uint64_t)u << 32 | v : (uint64_t)v << 32 | u;
}

/* Puts an edge into the table. 1: it was not there. T1 */
WH_FN int put_edge(const whi_batch_triangles *w, uint64_t edge) {
    uint64_t at = whi_map_first(edge, w->size), seen = WHI_NO_EDGE;
    WH_NO_UNROLL
    for (;;) {
        seen = wh_load_u64_relaxed(&w->keys[at]);
        if (seen == WHI_NO_EDGE) {
            seen = wh_cas_u64_relaxed(&w->keys[at], WHI_NO_EDGE, edge);
        }
        if (seen == WHI_NO_EDGE || seen == edge) {
            return seen == WHI_NO_EDGE;
        }
        at = at + 1 < w->size ? at + 1 : 0;
    }
}

WH_FN int has_edge(const whi_batch_triangles *w, uint64_t edge) {
    uint64_t at = whi_map_first(edge, w->size);
    WH_NO_UNROLL
    while (w->keys[at] != edge && w->keys[at] != WHI_NO_EDGE) { /* T1 */
        at = at + 1 < w->size ? at + 1 : 0;
    }
    return w->keys[at] == edge;
}

/* How many neighbours the ends of arc i have together. 0: it is none that counts. */
WH_FN uint64_t degrees_of_arc(const whi_batch_triangles *w, uint64_t i, uint64_t *edge) {
    if (i >= w->n || (w->done != NULL && w->done[i] != WH_GRAPH_APPLIED)) {
        return 0;
    }
    const uint32_t u = w->from[i], v = w->to[i];
    if (u == v || u >= w->n_vertices || v >= w->n_vertices) {
        return 0;
    }
    const uint64_t a = w->vertices[u].degree, b = w->vertices[v].degree;
    *edge = edge_of(u, v);
    return a != 0 && b != 0 ? a + b : 0; /* also what is no vertex has none */
}

WH_KERNEL(collect_edges, whi_batch_triangles, w) {
    FOR_ROUNDS(i, w.n) {
        uint64_t edge = WHI_NO_EDGE;
        const uint64_t degrees = degrees_of_arc(&w, i, &edge);
        const int is_new = degrees != 0 && put_edge(&w, edge);
        const int is_large = is_new && degrees > WARP_DEGREES;
        const uint32_t front = place_all(&w.counts->warps, is_new && !is_large); /* T2 */
        const uint32_t back = place_all(&w.counts->blocks, is_large);
        if (is_new) {
            w.list[is_large ? w.n - 1 - back : front] = edge;
        }
    }
}

/* --- the neighbours of both ends ----------------------------------------------------------------
 */

typedef struct neighbours {
    const uint32_t *to;
    uint32_t n;
} neighbours;

WH_FN neighbours neighbours_of(const whi_batch_triangles *w, uint32_t v) {
    wh_lattice_vertex *x = &w->vertices[v];
    neighbours its;
    its.n = x->degree;
    its.to = wh_lattice_array(x);
    return its;
}

/* An edge, and its ends' neighbours. */
typedef struct edge_ends {
    uint64_t edge;
    neighbours shorter, longer;
    uint32_t end; /* the one that has the longer adjacency: it is in the shorter one */
} edge_ends;

WH_FN edge_ends ends_of(const whi_batch_triangles *w, uint64_t edge) {
    const uint32_t u = wh_high_u32(edge), v = wh_low_u32(edge);
    const neighbours a = neighbours_of(w, u), b = neighbours_of(w, v);
    edge_ends e;
    e.edge = edge;
    e.shorter = a.n < b.n ? a : b;
    e.longer = a.n < b.n ? b : a;
    e.end = a.n < b.n ? v : u;
    return e;
}

/* Whether the triangle of an edge and a vertex x belongs to the edge: no lesser one of it is in the
 * batch. x may be an end, by a self loop: then it is no triangle. */
WH_FN int owns_triangle(const whi_batch_triangles *w, uint64_t edge, uint32_t x) {
    const uint32_t u = wh_high_u32(edge), v = wh_low_u32(edge);
    const uint64_t a = edge_of(u, x), b = edge_of(v, x);
    return x != u && x != v && !(a < edge && has_edge(w, a)) && !(b < edge && has_edge(w, b));
}

/* The entries of a part of an adjacency. */
typedef struct entry_table {
    uint32_t *keys;
    uint32_t most; /* entries that there is room for */
    uint32_t size; /* places in use: twice as many as entries */
} entry_table;

/* The one that a team has of its block's shared memory. */
WH_FN entry_table table_of(wh_team t) {
    uint32_t *const words = (uint32_t *)wh_shared() + HEAD_WORDS;
    entry_table table;
    table.size = 0;
    if (t.kind == WH_TEAM_BLOCK) {
        table.keys = words;
        table.most = BLOCK_ENTRIES;
    } else {
        table.keys = words + wh_thread_in_block() / WH_WARP_SIZE * 2 * WARP_ENTRIES;
        table.most = WARP_ENTRIES;
    }
    return table;
}

WH_FN uint32_t place_in(const entry_table *table, uint32_t key) {
    return wh_high_u32(wh_mul_wide_u32(wh_spread32(key), table->size));
}

/* Fills the table; all of the team, which have done with what it had. 1, to some: `end` is among
 * the entries. T3 */
WH_FN int fill_table(wh_team t, entry_table *table, const uint32_t *to, uint32_t n, uint32_t end) {
    int is = 0;
    table->size = 2 * n;
    for (uint32_t at = t.me; at < table->size; at += t.n) {
        table->keys[at] = NONE;
    }
    wh_team_sync(t);
    for (uint32_t i = t.me; i < n; i += t.n) {
        const uint32_t key = to[i];
        uint32_t at = place_in(table, key), seen = wh_shared_cas_u32(&table->keys[at], NONE, key);
        WH_NO_UNROLL
        while (seen != NONE && seen != key) {
            at = at + 1 < table->size ? at + 1 : 0;
            seen = wh_shared_cas_u32(&table->keys[at], NONE, key);
        }
        is |= key == end;
    }
    wh_team_sync(t);
    return is;
}

WH_FN int table_has(const entry_table *table, uint32_t key) {
    uint32_t at = place_in(table, key), seen = wh_shared_load_u32(&table->keys[at]);
    WH_NO_UNROLL
    while (seen != key && seen != NONE) {
        at = at + 1 < table->size ? at + 1 : 0;
        seen = wh_shared_load_u32(&table->keys[at]);
    }
    return seen == key;
}

/* In a graph in order; each thread's share. */
WH_FN uint64_t count_sorted(const whi_batch_triangles *w, wh_team t, const edge_ends *e) {
    uint64_t found = 0;
    if (wh_sorted_has(e->shorter.to, e->shorter.n, e->end)) {
        for (uint32_t i = t.me; i < e->shorter.n; i += t.n) {
            const uint32_t x = e->shorter.to[i];
            found += wh_sorted_has(e->longer.to, e->longer.n, x) && owns_triangle(w, e->edge, x);
        }
    }
    return found;
}

/* In any other; nothing, if the edge is not in the graph. */
WH_FN uint64_t count_by_table(const whi_batch_triangles *w, wh_team t, const edge_ends *e) {
    entry_table table = table_of(t);
    uint64_t found = 0;
    uint32_t all = 0;
    int is = 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < e->shorter.n; first += table.most) {
        const uint32_t rest = e->shorter.n - first, n = rest < table.most ? rest : table.most;
        is |= fill_table(t, &table, e->shorter.to + first, n, e->end);
        for (uint32_t i = t.me; i < e->longer.n; i += t.n) {
            const uint32_t x = e->longer.to[i];
            found += table_has(&table, x) && owns_triangle(w, e->edge, x);
        }
        wh_team_sync(t); /* T3 */
    }
    (void)wh_team_rank(t, is, &all);
    return all != 0 ? found : 0;
}

WH_FN uint64_t count_of(const whi_batch_triangles *w, wh_team t, uint64_t edge) {
    const edge_ends e = ends_of(w, edge);
    return w->sorted ? count_sorted(w, t, &e) : count_by_table(w, t, &e);
}

WH_KERNEL(count_triangles, whi_batch_triangles, w) {
    const uint32_t blocks = w.counts->blocks, warps = w.counts->warps; /* T2 */
    const uint64_t all = wh_grid_threads() / WH_WARP_SIZE;
    uint64_t found = 0;
    WH_NO_UNROLL
    for (uint32_t i = wh_block_id(); i < blocks; i += wh_grid_blocks()) {
        found += count_of(&w, wh_team_block(), w.list[w.n - 1 - i]);
    }
    wh_syncthreads(); /* the block's table becomes its warps': T3 */
    WH_NO_UNROLL
    for (uint64_t i = wh_thread_id() / WH_WARP_SIZE; i < warps; i += all) {
        found += count_of(&w, wh_team_warp(), w.list[i]);
    }
    add_all(&w.counts->triangles, found);
}

/* --- host side ----------------------------------------------------------------------------------
 */

static wh_status collect_step(wh_device *device, void *stream, const whi_batch_triangles *w) {
    const wh_launch l = rounds_of(device, stream, w->n);
    return collect_edges(&l, w);
}

/* A block an edge, or fewer that go round: nobody knows yet how many have a block. */
static wh_status count_step(wh_device *device, void *stream, const whi_batch_triangles *w) {
    wh_launch l = rounds_of(device, stream, w->n * ROUND_BLOCK);
    l.shared_bytes = SHARED_BYTES;
    return count_triangles(&l, w);
}

WH_TABLE_ONCE(whi_batch_triangles_kernels) = {collect_step, count_step};
