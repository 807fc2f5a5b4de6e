/* algorithms_kernels.c: targeted source (compiled once for each target): the kernels of
 * graph_algorithms.h on graphs of the class `lattice`.
 *
 * A walk visits the arcs of all vertices, or of those of a list. A warp takes 32 vertices, or fewer
 * where there are not enough for all warps. Each lane looks at the arcs of its own if they are few,
 * then all lanes at those of one after the other that has more; hubs are put into a list, which a
 * second kernel goes through, a block of threads a hub. All lanes of a warp visit together, so that
 * what they find can be counted by one atomic.
 *
 * W1       counts->hubs and hubs[]: written by the first kernel of a walk alone (fetch_add,
 *          relaxed; each entry by the lane that got its place), read by the second
 * W2       label[v] <= v, and it is a vertex of v's component; once below v, always below v, so
 *          paths end at roots. Roots change by cas from v to less, others by stores of less
 * W3       level[v] changes once, from NONE, by cas: who changes it, lists v
 *
 * Progress no worker waits for another one; a cas that fails has seen a smaller label, so that a
 *          hook makes at most as many rounds as there are vertices
 */
#define WH_KERNEL_THREADS 256

#include "algorithms.h"

#include <string.h>

#include "lists.h"
#include "rank_numbers.h"
#include "rounds.h"
#include "warpheap/detail/alloc/tables.h"
#include "warpheap/detail/graph/lattice.h"
#include "warpheap/detail/graph/team.h"

#define BLOCK ROUND_BLOCK
#define NONE WH_GRAPH_NONE

/* Degrees up to which a lane takes a vertex, and a warp. The simulated device has small graphs. */
#define LANE_DEGREE (WH_FILE_IS_CUDA ? 16u : 4u)
#define WARP_DEGREE (WH_FILE_IS_CUDA ? 1024u : 24u)

/* --- what walks have in common -----------------------------------------------------------------
 */

/* The lanes of a full warp that have something put it into a list. */
WH_FN void put_all(uint32_t *list, uint32_t *n, uint32_t v, int has) {
    const uint32_t at = place_all(n, has);
    if (has) {
        list[at] = v;
    }
}

/* An adjacency that a lane, a warp, or a block looks at. */
typedef struct arcs {
    const uint32_t *to;
    uint32_t v, n;
    uint64_t share; /* what each of them carries, in pagerank */
} arcs;

WH_FN arcs arcs_of(const whi_walk *w, uint32_t v) {
    wh_lattice_vertex *x = &w->vertices[v];
    arcs its;
    its.v = v;
    its.n = x->degree;
    its.to = wh_lattice_array(x);
    its.share = 0;
    return its;
}

/* Those of the walk's item i; none of what is beyond the last one. */
WH_FN arcs arcs_of_item(const whi_walk *w, uint64_t i) {
    arcs its;
    its.to = NULL;
    its.v = its.n = 0;
    its.share = 0;
    if (i < w->n) {
        its = arcs_of(w, w->list != NULL ? w->list[i] : (uint32_t)i);
    }
    return its;
}

/* One lane's, in all lanes of a full warp. */
WH_FN arcs arcs_of_lane(arcs mine, uint32_t lane) {
    arcs its;
    its.v = wh_shfl_u32(WH_FULL_WARP, mine.v, lane);
    its.n = wh_shfl_u32(WH_FULL_WARP, mine.n, lane);
    its.to =
        (const uint32_t *)(uintptr_t)wh_shfl_u64(WH_FULL_WARP, (uint64_t)(uintptr_t)mine.to, lane);
    its.share = 0;
    return its;
}

/* Hubs go to the list, and have no arcs here. */
WH_FN arcs put_hubs_off(const whi_walk *w, arcs mine) {
    const int is_hub = mine.n > WARP_DEGREE;
    put_all(w->hubs, &w->counts->hubs, mine.v, WH_PLANT(walk_w1, is_hub, 0)); /* W1 */
    mine.n = WH_PLANT(walk_w1_once, is_hub, 0) ? 0 : mine.n;
    return mine;
}

WH_FN void clear_next(const whi_walk *w) {
    if (wh_thread_id() == 0) {
        memset(w->next, 0, sizeof *w->next);
    }
}

WH_FN uint64_t no_share(const whi_walk *w, arcs its) {
    (void)w;
    (void)its;
    return 0;
}

/* The kernels name_naive, name_lists and name_hubs, which call visit(w, its, to) for each arc;
 * all lanes of a warp do, those that have none with to == NONE. its.share is share_of(w, its). */
#define WALK(name, share_of, visit)                                                           \
    WH_FN void name##_by_lane(const whi_walk *w, arcs mine) {                                 \
        mine.share = share_of(w, mine);                                                       \
        WH_NO_UNROLL                                                                          \
        for (uint32_t i = 0; wh_any(WH_FULL_WARP, i < mine.n); i++) {                         \
            visit(w, mine, i < mine.n ? mine.to[i] : NONE);                                   \
        }                                                                                     \
    }                                                                                         \
    WH_KERNEL(name##_naive, whi_walk, w) {                                                    \
        clear_next(&w);                                                                       \
        FOR_ROUNDS(i, w.n) {                                                                  \
            name##_by_lane(&w, arcs_of_item(&w, i));                                          \
        }                                                                                     \
    }                                                                                         \
    WH_KERNEL(name##_lists, whi_walk, w) {                                                    \
        clear_next(&w);                                                                       \
        const uint64_t each = w.per_warp, warps = wh_grid_threads() / WH_WARP_SIZE;           \
        const uint32_t lane = wh_lane_id();                                                   \
        for (uint64_t i = wh_thread_id() / WH_WARP_SIZE * each; i < w.n; i += warps * each) { \
            arcs mine = put_hubs_off(&w, arcs_of_item(&w, lane < each ? i + lane : w.n));     \
            wh_mask more = wh_ballot(WH_FULL_WARP, mine.n > LANE_DEGREE);                     \
            WH_NO_UNROLL                                                                      \
            for (; more != 0; more &= more - 1) {                                             \
                arcs its = arcs_of_lane(mine, wh_mask_leader(more));                          \
                its.share = share_of(&w, its);                                                \
                WH_NO_UNROLL                                                                  \
                for (uint32_t first = 0; first < its.n; first += WH_WARP_SIZE) {              \
                    const uint32_t k = first + wh_lane_id();                                  \
                    visit(&w, its, k < its.n ? its.to[k] : NONE);                             \
                }                                                                             \
            }                                                                                 \
            mine.n = mine.n > LANE_DEGREE ? 0 : mine.n;                                       \
            name##_by_lane(&w, mine);                                                         \
        }                                                                                     \
    }                                                                                         \
    WH_KERNEL(name##_hubs, whi_walk, w) {                                                     \
        const uint32_t hubs = w.counts->hubs; /* W1 */                                        \
        for (uint32_t i = wh_block_id(); i < hubs; i += wh_grid_blocks()) {                   \
            arcs its = arcs_of(&w, w.hubs[i]);                                                \
            its.share = share_of(&w, its);                                                    \
            WH_NO_UNROLL                                                                      \
            for (uint32_t first = 0; first < its.n; first += wh_block_threads()) {            \
                const uint32_t k = first + wh_thread_in_block();                              \
                visit(&w, its, k < its.n ? its.to[k] : NONE);                                 \
            }                                                                                 \
        }                                                                                     \
    }

/* --- pagerank ----------------------------------------------------------------------------------
 */

/* Whether v is a vertex. */
WH_FN int is_vertex(const whi_walk *w, uint64_t v) {
    return v < w->n_vertices &&
           (w->alive == NULL || (w->alive[v / 32] >> (uint32_t)(v % 32) & 1) != 0);
}

WH_KERNEL(start_sum, whi_walk, w) {
    rank_sum sum = {0, 0, 0};
    FOR_ROUNDS(v, w.n_vertices) {
        add_rank(&sum, is_vertex(&w, v) ? w.start[v] : 0.0f);
    }
    add_all(&w.counts->upper, sum.upper);
    add_all(&w.counts->lower, sum.lower);
    add_all(&w.counts->bad, sum.bad);
}

WH_KERNEL(first_ranks, whi_walk, w) {
    for (uint64_t v = wh_thread_id(); v < w.n_vertices; v += wh_grid_threads()) {
        uint64_t rank = 0; /* of what is no vertex, for good */
        if (is_vertex(&w, v)) {
            rank =
                w.start != NULL ? (uint64_t)((double)w.start[v] * w.scale) : WHI_RANK_ONE / w.live;
        }
        w.rank[v] = rank;
    }
}

/* What each arc of v carries, into `share` where arcs are pulled. What a vertex without arcs has.
 */
WH_FN uint64_t settle_rank(const whi_walk *w, uint64_t v, uint64_t rank) {
    const uint32_t degree = w->vertices[v].degree;
    if (w->share != NULL) {
        w->share[v] = degree != 0 ? rank / degree : 0;
    }
    return degree == 0 ? rank : 0;
}

/* After the first ranks, since `in` may be where start lies. */
WH_KERNEL(settle, whi_walk, w) {
    uint64_t dangling = 0;
    FOR_ROUNDS(v, w.n_vertices) {
        if (v < w.n_vertices) {
            w.in[v] = 0;
            dangling += settle_rank(&w, v, w.rank[v]);
        }
    }
    add_all(&w.counts->dangling, dangling);
}

WH_FN uint64_t share_of_rank(const whi_walk *w, arcs its) {
    return its.n != 0 ? w->rank[its.v] / its.n : 0;
}

WH_FN void push_rank(const whi_walk *w, arcs its, uint32_t to) {
    if (to != NONE) {
        wh_add_u64_relaxed(&w->in[to], its.share);
    }
}
WALK(push, share_of_rank, push_rank)

/* Where arcs go both ways a vertex may sum up what its neighbours have for it: the same sum,
 * without atomics but for hubs. What entries first, first + step, ... bring. */
WH_FN uint64_t pulled(const whi_walk *w, arcs its, uint32_t first, uint32_t step) {
    uint64_t sum = 0;
    for (uint32_t k = first; k < its.n; k += step) {
        sum += w->share[its.to[k]];
    }
    return sum;
}

WH_KERNEL(pull_naive, whi_walk, w) {
    clear_next(&w);
    for (uint64_t v = wh_thread_id(); v < w.n; v += wh_grid_threads()) {
        w.in[v] = pulled(&w, arcs_of_item(&w, v), 0, 1);
    }
}

WH_KERNEL(pull_lists, whi_walk, w) {
    clear_next(&w);
    const uint64_t each = w.per_warp, warps = wh_grid_threads() / WH_WARP_SIZE;
    const uint32_t lane = wh_lane_id();
    for (uint64_t i = wh_thread_id() / WH_WARP_SIZE * each; i < w.n; i += warps * each) {
        const arcs mine = put_hubs_off(&w, arcs_of_item(&w, lane < each ? i + lane : w.n));
        wh_mask more = wh_ballot(WH_FULL_WARP, mine.n > LANE_DEGREE);
        WH_NO_UNROLL
        for (; more != 0; more &= more - 1) {
            const arcs its = arcs_of_lane(mine, wh_mask_leader(more));
            const uint64_t sum = warp_sum(pulled(&w, its, lane, WH_WARP_SIZE));
            if (lane == 0) {
                w.in[its.v] = sum;
            }
        }
        if (mine.n != 0 && mine.n <= LANE_DEGREE) {
            w.in[mine.v] = pulled(&w, mine, 0, 1);
        }
    }
}

WH_KERNEL(pull_hubs, whi_walk, w) {
    const uint32_t hubs = w.counts->hubs; /* W1 */
    for (uint32_t i = wh_block_id(); i < hubs; i += wh_grid_blocks()) {
        const arcs its = arcs_of(&w, w.hubs[i]);
        add_all(&w.in[its.v], pulled(&w, its, wh_thread_in_block(), wh_block_threads()));
    }
}

WH_KERNEL(update, whi_walk, w) {
    const uint64_t spread = w.counts->dangling / w.live;
    uint64_t dangling = 0, change = 0;
    FOR_ROUNDS(v, w.n_vertices) {
        if (is_vertex(&w, v)) {
            const uint64_t old = w.rank[v];
            const uint64_t rank = w.teleport + fraction_of(w.in[v] + spread, w.damping);
            w.rank[v] = rank;
            w.in[v] = 0;
            change += rank > old ? rank - old : old - rank;
            dangling += settle_rank(&w, v, rank);
        }
    }
    add_all(&w.counts->change, change);
    add_all(&w.next->dangling, dangling);
}

WH_KERNEL(to_floats, whi_walk, w) {
    for (uint64_t v = wh_thread_id(); v < w.n_vertices; v += wh_grid_threads()) {
        w.out[v] = (float)w.rank[v] / RANK_ONE_FLOAT;
    }
}

/* --- triangles ----------------------------------------------------------------------------------
 */

WH_FN int comes_after(const whi_walk *w, arcs its, uint32_t to) {
    const uint32_t degree = to != NONE ? w->vertices[to].degree : 0;
    return to != NONE && (degree > its.n || (degree == its.n && to > its.v));
}

WH_FN void count_forward(const whi_walk *w, arcs its, uint32_t to) {
    if (comes_after(w, its, to)) {
        wh_add_u32_relaxed(&w->forward.n[its.v], 1);
    }
}
WALK(forward_count, no_share, count_forward)

WH_KERNEL(forward_place, whi_walk, w) {
    FOR_ROUNDS(v, w.n_vertices) {
        const uint32_t n = v < w.n_vertices ? w.forward.n[v] : 0;
        const uint32_t up_to = wh_scan_add_warp_u32(n); /* 32 times the root of all arcs at most */
        uint64_t first = 0;
        if (wh_lane_id() == WH_WARP_SIZE - 1) {
            first = wh_fetch_add_u64_relaxed(&w.counts->sum, up_to);
        }
        first = wh_shfl_u64(WH_FULL_WARP, first, WH_WARP_SIZE - 1);
        if (v < w.n_vertices) {
            w.forward.end[v] = first + up_to - n;
        }
    }
}

WH_FN void fill_forward(const whi_walk *w, arcs its, uint32_t to) {
    if (comes_after(w, its, to)) {
        const uint64_t at = wh_fetch_add_u64_relaxed(&w->forward.end[its.v], 1);
        w->forward.to[at] = to;
        w->forward.source[at] = its.v;
    }
}
WALK(forward_fill, no_share, fill_forward)

/* The vertices after v, once they are sorted. */
WH_FN whi_list list_of(const whi_walk *w, uint32_t v) {
    whi_list l;
    l.n = w->forward.n[v];
    l.to = w->forward.to + (w->forward.end[v] - l.n);
    return l;
}

WH_KERNEL(forward_sort, whi_walk, w) {
    const uint64_t warps = wh_grid_threads() / WH_WARP_SIZE;
    for (uint64_t v = wh_thread_id() / WH_WARP_SIZE; v < w.n_vertices; v += warps) {
        const uint32_t n = w.forward.n[v];
        wh_team_sort(wh_team_warp(), w.forward.to + (w.forward.end[v] - n), NULL, n);
    }
}

WH_FN void count_triangle(const whi_walk *w, uint32_t u, uint32_t v, uint32_t x) {
    if (w->of_vertex != NULL) {
        wh_add_u64_relaxed(&w->of_vertex[u], 1);
        wh_add_u64_relaxed(&w->of_vertex[v], 1);
        wh_add_u64_relaxed(&w->of_vertex[x], 1);
    }
}

/* An edge of a lane: of both ends' lists, which one is looked up in which. */
typedef struct edge {
    uint32_t u, v;
    whi_list shorter, longer;
} edge;

WH_FN edge edge_of(const whi_walk *w, uint64_t i) {
    edge e;
    e.u = e.v = 0;
    e.shorter.to = e.longer.to = NULL;
    e.shorter.n = e.longer.n = 0;
    if (i < w->forward.edges) {
        e.u = w->forward.source[i];
        e.v = w->forward.to[i];
        const whi_list a = list_of(w, e.u), b = list_of(w, e.v);
        e.shorter = a.n < b.n ? a : b;
        e.longer = a.n < b.n ? b : a;
    }
    return e;
}

/* Triangles of the edges that the lanes of a warp have, each lane's share. */
WH_FN uint64_t triangles_of_edges(const whi_walk *w, edge mine) {
    const uint32_t up_to = wh_scan_add_warp_u32(mine.shorter.n);
    const uint32_t all = wh_shfl_u32(WH_FULL_WARP, up_to, WH_WARP_SIZE - 1);
    uint64_t found = 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < all; first += WH_WARP_SIZE) {
        const uint32_t q = first + wh_lane_id(), lane = lane_with(up_to, q);
        const uint32_t before = wh_shfl_u32(WH_FULL_WARP, up_to - mine.shorter.n, lane);
        const whi_list shorter = list_of_lane(mine.shorter, lane);
        const whi_list longer = list_of_lane(mine.longer, lane);
        const uint32_t u = wh_shfl_u32(WH_FULL_WARP, mine.u, lane);
        const uint32_t v = wh_shfl_u32(WH_FULL_WARP, mine.v, lane);
        if (q < all && list_has(longer, shorter.to[q - before])) {
            count_triangle(w, u, v, shorter.to[q - before]);
            found++;
        }
    }
    return found;
}

WH_KERNEL(triangles_balanced, whi_walk, w) {
    uint64_t found = 0;
    FOR_ROUNDS(i, w.forward.edges) {
        found += triangles_of_edges(&w, edge_of(&w, i));
    }
    add_all(&w.counts->sum, found);
}

/* What two lists have in common. */
WH_FN uint64_t triangles_by_merge(const whi_walk *w, edge e) {
    uint64_t found = 0;
    uint32_t i = 0, k = 0;
    WH_NO_UNROLL
    while (i < e.shorter.n && k < e.longer.n) {
        const uint32_t a = e.shorter.to[i], b = e.longer.to[k];
        if (a == b) {
            count_triangle(w, e.u, e.v, a);
            found++;
        }
        i += a <= b;
        k += b <= a;
    }
    return found;
}

WH_KERNEL(triangles_naive, whi_walk, w) {
    uint64_t found = 0;
    FOR_ROUNDS(v, w.n_vertices) {
        const uint32_t n = v < w.n_vertices ? w.forward.n[v] : 0;
        const uint64_t first = n != 0 ? w.forward.end[v] - n : 0;
        WH_NO_UNROLL
        for (uint32_t i = 0; i < n; i++) {
            found += triangles_by_merge(&w, edge_of(&w, first + i));
        }
    }
    add_all(&w.counts->sum, found);
}

/* --- components --------------------------------------------------------------------------------
 */

/* W2. Looks only: a store here may be of a label that is no root. */
WH_FN uint32_t root_of(uint32_t *label, uint32_t v) {
    uint32_t up = wh_load_u32_relaxed(&label[v]);
    WH_NO_UNROLL
    while (up != v) {
        v = up;
        up = wh_load_u32_relaxed(&label[v]);
    }
    return v;
}

/* The same, and halves the path. W2. */
WH_FN uint32_t root_halving(uint32_t *label, uint32_t v) {
    uint32_t up = wh_load_u32_relaxed(&label[v]);
    WH_NO_UNROLL
    while (up != v) {
        const uint32_t next = wh_load_u32_relaxed(&label[up]);
        if (next != up) {
            wh_store_u32_relaxed(&label[v], next);
        }
        v = up;
        up = next;
    }
    return v;
}

WH_FN void hook_ends(const whi_walk *w, arcs its, uint32_t to) {
    if (to != NONE && to != its.v) {
        uint32_t a = root_halving(w->label, its.v), b = root_halving(w->label, to);
        WH_NO_UNROLL
        while (a != b) { /* each round but the last lowers the larger one */
            const uint32_t high = a > b ? a : b, low = a > b ? b : a;
            const uint32_t seen = WH_PLANT(walk_w2, /* W2 */
                                           wh_cas_u32_relaxed(&w->label[high], high, low),
                                           (wh_store_u32_relaxed(&w->label[high], low), high));
            if (seen == high) {
                break;
            }
            a = root_halving(w->label, seen);
            b = root_halving(w->label, low);
        }
    }
}
WALK(hook, no_share, hook_ends)

/* A first neighbour that is smaller will do: nobody has looked at labels yet. */
WH_KERNEL(label_first, whi_walk, w) {
    for (uint64_t v = wh_thread_id(); v < w.n_vertices; v += wh_grid_threads()) {
        const arcs its = arcs_of(&w, (uint32_t)v);
        const uint32_t to = its.n != 0 ? its.to[0] : its.v;
        const uint32_t label = to < its.v ? to : its.v;
        w.label[v] = is_vertex(&w, v) ? label : NONE;
    }
}

WH_KERNEL(label_last, whi_walk, w) {
    uint64_t roots = 0;
    FOR_ROUNDS(v, w.n_vertices) {
        if (is_vertex(&w, v)) {
            const uint32_t root = root_of(w.label, (uint32_t)v);
            wh_store_u32_relaxed(&w.label[v], root);
            roots += root == v;
        }
    }
    add_all(&w.counts->sum, roots);
}

/* --- breadth-first search -----------------------------------------------------------------------
 */

WH_FN void reach(const whi_walk *w, arcs its, uint32_t to) {
    int is_new = to != NONE && wh_load_u32_relaxed(&w->level[to]) == NONE;
    (void)its;
    if (is_new) {
        is_new = WH_PLANT(walk_w3, /* W3 */
                          wh_cas_u32_relaxed(&w->level[to], NONE, w->depth) == NONE,
                          (wh_store_u32_relaxed(&w->level[to], w->depth), 1));
    }
    put_all(w->next_list, &w->counts->found, to, is_new);
}
WALK(expand, no_share, reach)

/* --- host side
 * ------------------------------------------------------------------------------------ */

typedef wh_status (*kernel_fn)(const wh_launch *launch, const whi_walk *w);

/* A kernel with a thread for each of `threads`, or fewer that go round. */
static wh_status start(kernel_fn kernel, wh_device *device, void *stream, const whi_walk *w,
                       uint64_t threads) {
    const wh_launch l = rounds_of(device, stream, threads);
    return kernel(&l, w);
}

/* A walk; without the kernel for hubs where no vertex can be one. */
static wh_status walk(const kernel_fn *kernels, wh_device *device, void *stream,
                      const whi_walk *all) {
    const wh_device_info *info = wh_device_get_info(device);
    const uint64_t warps = (uint64_t)most_blocks(info) * block_of(info) / WH_WARP_SIZE;
    whi_walk w = *all;
    if (w.naive) {
        return start(kernels[0], device, stream, &w, w.n);
    }
    w.per_warp = WH_WARP_SIZE;
    while (w.per_warp > 1 && warps * w.per_warp / 2 >= w.n) {
        w.per_warp /= 2;
    }
    const uint64_t threads = (uint64_t)w.n * (WH_WARP_SIZE / w.per_warp);
    const wh_status s = start(kernels[1], device, stream, &w, threads);
    return s != WH_OK || (w.n_vertices <= WARP_DEGREE && WH_PLANT(walk_w1_hubs, !w.multi, 1))
               ? s
               : start(kernels[2], device, stream, &w, (uint64_t)w.n * BLOCK);
}

#define HOST_WALK(name)                                                                \
    static wh_status name##_step(wh_device *device, void *stream, const whi_walk *w) { \
        static const kernel_fn kernels[] = {name##_naive, name##_lists, name##_hubs};  \
        return walk(kernels, device, stream, w);                                       \
    }
HOST_WALK(push)
HOST_WALK(pull)
HOST_WALK(forward_count)
HOST_WALK(forward_fill)
HOST_WALK(hook)
HOST_WALK(expand)

#define HOST_STEP(kernel, threads)                                                       \
    static wh_status kernel##_step(wh_device *device, void *stream, const whi_walk *w) { \
        return start(kernel, device, stream, w, threads);                                \
    }
HOST_STEP(start_sum, w->n_vertices)
HOST_STEP(first_ranks, w->n_vertices)
HOST_STEP(settle, w->n_vertices)
HOST_STEP(update, w->n_vertices)
HOST_STEP(to_floats, w->n_vertices)
HOST_STEP(forward_place, w->n_vertices)
HOST_STEP(forward_sort, (uint64_t)w->n_vertices *WH_WARP_SIZE)
HOST_STEP(triangles_balanced, w->forward.edges)
HOST_STEP(triangles_naive, w->n_vertices)
HOST_STEP(label_first, w->n_vertices)
HOST_STEP(label_last, w->n_vertices)

static wh_status triangles_step(wh_device *device, void *stream, const whi_walk *w) {
    return (w->naive ? triangles_naive_step : triangles_balanced_step)(device, stream, w);
}

WH_TABLE_ONCE(whi_walk_kernels) = {
    start_sum_step,     first_ranks_step,  settle_step,       push_step,
    pull_step,          update_step,       to_floats_step,    forward_count_step,
    forward_place_step, forward_fill_step, forward_sort_step, triangles_step,
    label_first_step,   hook_step,         label_last_step,   expand_step,
};
