/* shard_rank_kernels.c: PageRank of a rank's part. Compiled once for each target.
 *
 * A lane takes a vertex with few arcs, a warp one with more; hubs are put into a list, which a
 * second kernel goes through, a block of threads a hub.
 *
 * G1      in[v], push: fetch_add, relaxed, by all lanes that have an arc to v; read, and zero
 *         again, by the one lane of pack or update that has v, before the next walk
 * G2      in[v], pull: stored by the one lane that has v, or by lane 0 of the one warp; or v is a
 *         hub
 * H1      hubs[], sums->hubs: written by walk alone: places by fetch_add, relaxed, each entry by
 *         the lane that got its place; read by walk_hubs
 * H2      in[v] of a hub, pull: zero by the lane that lists v, then fetch_add, relaxed, by the
 *         warps of its block in walk_hubs
 * C2      other sums: fetch_add, relaxed; read by the host
 *
 * Fields that no tag names have one writer, the lane with the vertex, or place. What one kernel
 * writes, the next one of the stream reads.
 *
 * Progress no lane waits for another one
 * Checked by tests/ranks/shard.c, to the bit against ranks of a graph on one rank; the mutations
 *         shard-rank-... break each tag
 */
#define WH_KERNEL_THREADS 256

#include "workload/ranks/shard_rank_kernels.h"

#include "graph/rank_numbers.h"
#include "graph/rounds.h"
#include "warpheap/detail/alloc/tables.h"
#include "workload/ranks/shard_kernels.h"

/* Degrees up to which a lane takes a vertex, and a warp. The simulated device has small graphs. */
#define LANE_DEGREE (WH_FILE_IS_CUDA ? 16u : 4u)
#define WARP_DEGREE (WH_FILE_IS_CUDA ? 1024u : 24u)

/* --- ranks of own vertices ----------------------------------------------------------------------
 */

WH_KERNEL(start_sum, whi_shard_ranking, a) {
    rank_sum sum = {0, 0, 0};
    FOR_ROUNDS(v, a.ids) {
        const int is_vertex = v < a.ids && a.map[v] != WHI_SHARD_NOBODY;
        add_rank(&sum, is_vertex ? a.start[v] : 0.0f);
    }
    add_all(&a.sums->upper, sum.upper); /* C2 */
    add_all(&a.sums->lower, sum.lower);
    add_all(&a.sums->bad, sum.bad);
}

/* The j-th own entry's vertex has a rank. Returns it if no arc can carry it on. */
WH_FN uint64_t settle(const whi_shard_ranking *a, uint64_t j, uint32_t v, uint64_t rank) {
    const uint32_t degree = wh_graph_degree(a->graph, v);
    const uint64_t share = degree != 0 ? rank / degree : 0;
    a->rank[j] = rank;
    a->share[v] = share;
    if (a->pulls) {
        a->out[j] = share;
    }
    return degree == 0 ? rank : 0;
}

/* The vertex of the j-th own entry, or NOWHERE. */
WH_FN uint32_t own_at(const whi_shard_ranking *a, uint64_t j) {
    return j < a->own ? a->order[a->first + j] : WHI_SHARD_NOWHERE;
}

WH_KERNEL(first_ranks, whi_shard_ranking, a) {
    uint64_t dangling = 0;
    FOR_ROUNDS(j, a.own) {
        const uint32_t v = own_at(&a, j);
        if (v != WHI_SHARD_NOWHERE) {
            uint64_t rank = 0; /* of what is no vertex, for good */
            if (a.map[v] != WHI_SHARD_NOBODY) {
                rank = a.start != NULL ? (uint64_t)((double)a.start[v] * a.scale)
                                       : WHI_RANK_ONE / a.live;
            }
            dangling += settle(&a, j, v, rank);
        } else if (j < a.own) {
            a.rank[j] = 0;
            a.out[j] = 0;
        }
    }
    add_all(&a.sums->dangling, dangling); /* C2 */
}

/* What arcs bring to the j-th own entry's vertex. */
WH_FN uint64_t brought(const whi_shard_ranking *a, uint64_t j, uint32_t v) {
    uint64_t sum = a->in[v];
    if (!a->pulls) {
        a->in[v] = 0; /* G1 */
        for (uint32_t r = 0; r < a->others; r++) {
            sum += a->got[r * a->own + j];
        }
    }
    return sum;
}

WH_KERNEL(update, whi_shard_ranking, a) {
    uint64_t dangling = 0, change = 0;
    FOR_ROUNDS(j, a.own) {
        const uint32_t v = own_at(&a, j);
        if (v != WHI_SHARD_NOWHERE) {
            const uint64_t in = brought(&a, j, v), old = a.rank[j];
            if (a.map[v] != WHI_SHARD_NOBODY) {
                const uint64_t rank = a.teleport + fraction_of(in + a.spread, a.damping);
                change += rank > old ? rank - old : old - rank;
                dangling += settle(&a, j, v, rank);
            }
        }
    }
    add_all(&a.sums->change, change); /* C2 */
    add_all(&a.sums->dangling, dangling);
}

/* --- what goes, and what came -------------------------------------------------------------------
 */

WH_KERNEL(pack, whi_shard_ranking, a) {
    const uint64_t n = a.entries - a.own;
    for (uint64_t i = wh_thread_id(); i < n; i += wh_grid_threads()) {
        const uint32_t v = a.order[i < a.first ? i : i + a.own];
        a.out[i] = 0;
        if (v != WHI_SHARD_NOWHERE) {
            a.out[i] = a.in[v];
            a.in[v] = 0; /* G1 */
        }
    }
}

WH_KERNEL(spread, whi_shard_ranking, a) {
    for (uint64_t i = wh_thread_id(); i < a.entries; i += wh_grid_threads()) {
        const uint32_t v = a.order[i];
        if (v != WHI_SHARD_NOWHERE && i - a.first >= a.own) { /* own ones are there */
            a.share[v] = a.got[i];
        }
    }
}

WH_KERNEL(floats, whi_shard_ranking, a) {
    for (uint64_t j = wh_thread_id(); j < a.own; j += wh_grid_threads()) {
        a.out_floats[j] = (float)a.rank[j] / RANK_ONE_FLOAT;
    }
}

WH_KERNEL(place, whi_shard_ranking, a) {
    for (uint64_t i = wh_thread_id(); i < a.entries; i += wh_grid_threads()) {
        const uint32_t v = a.order[i];
        if (v != WHI_SHARD_NOWHERE) {
            a.floats[v] = a.got_floats[i];
        }
    }
}

/* --- along the arcs -----------------------------------------------------------------------------
 */

/* A vertex, and its arcs. */
typedef struct row {
    const uint32_t *to;
    uint32_t v, n;
} row;

WH_FN row row_of(const whi_shard_ranking *a, uint32_t v) {
    row r;
    r.v = v;
    r.n = wh_graph_degree(a->graph, v);
    r.to = wh_graph_neighbours(a->graph, v);
    return r;
}

/* The j-th own entry's, if it is no hub; hubs go to the list. All lanes of a full warp. */
WH_FN row row_of_own(const whi_shard_ranking *a, uint64_t j) {
    const uint32_t v = own_at(a, j);
    row r;
    r.to = NULL;
    r.n = 0;
    r.v = v;
    if (v != WHI_SHARD_NOWHERE) {
        r = row_of(a, v);
    }
    const int is_hub = r.n > WARP_DEGREE;
    const uint32_t at = place_all(&a->sums->hubs, is_hub); /* H1 */
    if (is_hub) {
        a->hubs[at] = r.v; /* H1 */
        if (a->pulls) {
            a->in[r.v] = 0; /* H2 */
        }
        r.n = 0;
        r.v = WHI_SHARD_NOWHERE;
    }
    return r;
}

/* One lane's, in all lanes of a full warp. */
WH_FN row row_of_lane(row mine, uint32_t lane) {
    row r;
    r.v = wh_shfl_u32(WH_FULL_WARP, mine.v, lane);
    r.n = wh_shfl_u32(WH_FULL_WARP, mine.n, lane);
    r.to =
        (const uint32_t *)(uintptr_t)wh_shfl_u64(WH_FULL_WARP, (uint64_t)(uintptr_t)mine.to, lane);
    return r;
}

/* Along the arcs first, first + step, ... of a row. Pull: what they bring to it. */
WH_FN uint64_t along(const whi_shard_ranking *a, row r, uint32_t first, uint32_t step) {
    uint64_t sum = 0;
    if (a->pulls) {
        for (uint32_t i = first; i < r.n; i += step) {
            sum += a->share[r.to[i]];
        }
    } else if (r.n != 0) {
        const uint64_t share = a->share[r.v];
        for (uint32_t i = first; i < r.n; i += step) {
            wh_add_u64_relaxed(&a->in[r.to[i]], share); /* G1 */
        }
    }
    return sum;
}

WH_KERNEL(walk, whi_shard_ranking, a) {
    const uint64_t each = a.per_warp, warps = wh_grid_threads() / WH_WARP_SIZE;
    const uint32_t lane = wh_lane_id();
    for (uint64_t i = wh_thread_id() / WH_WARP_SIZE * each; i < a.own; i += warps * each) {
        const row mine = row_of_own(&a, lane < each ? i + lane : a.own);
        wh_mask more = wh_ballot(WH_FULL_WARP, mine.n > LANE_DEGREE);
        WH_NO_UNROLL
        for (; more != 0; more &= more - 1) {
            const row r = row_of_lane(mine, wh_mask_leader(more));
            const uint64_t part = along(&a, r, lane, WH_WARP_SIZE);
            const uint64_t sum = a.pulls ? warp_sum(part) : 0;
            if (a.pulls && lane == 0) {
                a.in[r.v] = sum; /* G2 */
            }
        }
        if (mine.n <= LANE_DEGREE && mine.v != WHI_SHARD_NOWHERE) {
            const uint64_t sum = along(&a, mine, 0, 1);
            if (a.pulls) {
                a.in[mine.v] = sum; /* G2 */
            }
        }
    }
}

WH_KERNEL(walk_hubs, whi_shard_ranking, a) {
    const uint32_t hubs = a.sums->hubs;
    for (uint32_t i = wh_block_id(); i < hubs; i += wh_grid_blocks()) {
        const row r = row_of(&a, a.hubs[i]);
        const uint64_t sum = along(&a, r, wh_thread_in_block(), wh_block_threads());
        if (a.pulls) {
            add_all(&a.in[r.v], sum); /* H2 */
        }
    }
}

/* --- host side ----------------------------------------------------------------------------------
 */

typedef wh_status (*kernel_fn)(const wh_launch *launch, const whi_shard_ranking *r);

static wh_status start(kernel_fn kernel, wh_device *device, const whi_shard_ranking *r,
                       uint64_t lanes) {
    const wh_launch l = rounds_of(device, NULL, lanes);
    return kernel(&l, r);
}

#define START(name, kernel, lanes)                                                 \
    static wh_status start_##name(wh_device *device, const whi_shard_ranking *r) { \
        return start(kernel, device, r, lanes);                                    \
    }
START(start_sum, start_sum, r->ids)
START(first, first_ranks, r->own)
START(pack, pack, r->entries - r->own)
START(spread, spread, r->entries)
START(update, update, r->own)
START(floats, floats, r->own)
START(place, place, r->entries)

/* Fewer vertices a warp where there are not enough for all warps; without the kernel for hubs where
 * no vertex can be one. */
static wh_status start_walk(wh_device *device, const whi_shard_ranking *all) {
    const wh_device_info *info = wh_device_get_info(device);
    const uint64_t warps = (uint64_t)most_blocks(info) * block_of(info) / WH_WARP_SIZE;
    whi_shard_ranking r = *all;
    r.per_warp = WH_WARP_SIZE;
    while (r.per_warp > 1 && warps * r.per_warp / 2 >= r.own) {
        r.per_warp /= 2;
    }
    const wh_status s = start(walk, device, &r, r.own * (WH_WARP_SIZE / r.per_warp));
    return s != WH_OK || r.ids <= WARP_DEGREE ? s
                                              : start(walk_hubs, device, &r, r.own * ROUND_BLOCK);
}

WH_TABLE_ONCE(whi_shard_rank_kernels) = {
    start_start_sum, start_first,  start_walk,   start_pack,
    start_spread,    start_update, start_floats, start_place,
};
