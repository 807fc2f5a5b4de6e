/* shard_kernels.c: arcs to the owners of their sources, what a mixed batch does there, and what
 * became of arcs on the way back. Compiled once for each target.
 *
 * Routing counts, then scatters. A block counts its arcs for each bin in shared memory, one atomic
 * of a warp for those of its lanes that have the same bin, and takes places for all of them by one
 * atomic a bin. Which of a bin's places an arc gets is any; no two get the same.
 *
 * R1      counts[b]: fetch_add, relaxed, by count, of what a block has counted in its shared
 *         memory. lay reads it, and the host
 * R2      cursors[b]: stored by lay; a block of scatter takes by one fetch_add, relaxed, as many
 *         places as it has counted arcs of the tile, and each of these has a number of its own
 *         below that. So each word of out has one writer: lay of heads and of what fills messages
 *         up, scatter of arcs
 * R3      a block's barriers: its bins are zero before a lane counts; all have counted before
 *         places are taken; these are there before a lane sends, and before the next tile's bins
 *         are cleared
 * R4      seen[i]: written by count, then read and written by scatter, there by the one lane that
 *         has arc i
 * T1      keys[k]: NO_KEY becomes a key once, by cas, relaxed: who does that, writes holders[k],
 *         and its arc is the one that comes. What fills a message up looks like NO_KEY, so it must
 *         not enter: it would be the holder of an entry that another arc gets
 * T2      holders[k] gets TAKEN once, by fetch_or, relaxed, in settle: who finds it without, reads
 *         done[] of the holder, and may write it; nobody else does. done[] of others is written by
 *         their own lanes
 * C1      loops, and what find_new lists: places by fetch_add, relaxed, on the tally; each entry by
 *         the lane that got it. Sums of the tally: fetch_add, too. The host reads them
 *
 * Fields that no tag names have one writer, the lane with that number. What one kernel writes, the
 * next one of the stream reads.
 *
 * Progress a cas that fails has seen another key, and goes on to the next entry: the table has more
 *         entries than arcs. No lane waits for another one but at a block's barriers
 * Checked by tests/ranks/kernels.c, which has the kernels by themselves, and tests/ranks/shard.c;
 *         the mutations shard-... break each tag
 */
#define WH_KERNEL_THREADS 256

#include "workload/ranks/shard_kernels.h"

#include "graph/rounds.h"
#include "warpheap/detail/alloc/tables.h"
#include "warpheap/graph.h"

#define EACH 4u /* arcs of a lane that are asked for before the first one is used */
#define BLOCKS_OF_SM 8u
#define NO_ARC UINT64_MAX /* of no vertex */
#define NO_KEY UINT64_MAX
#define TAKEN 0x80000000u

/* --- who gets what ------------------------------------------------------------------------------
 */

WH_FN uint32_t owner_of(const whi_shard_routing *a, uint32_t v) {
    return v < a->ids ? a->map[v] : WHI_SHARD_NOBODY;
}

/* Owners of the sources of both ways, the second one in the upper half. */
WH_FN uint32_t owners_of(const whi_shard_routing *a, uint32_t v, uint32_t w) {
    const uint32_t x = owner_of(a, v), y = owner_of(a, w);
    uint32_t both = WHI_SHARD_NOWHERE;
    if (x != WHI_SHARD_NOBODY && y != WHI_SHARD_NOBODY) {
        const uint32_t first = a->both_ways && w < v ? y : x;
        const uint32_t second = a->both_ways && w < v ? x : y;
        both = first | (a->both_ways && v != w ? second : WHI_SHARD_NOBODY) << 16;
    }
    return both;
}

/* The bin of an owner's arc; for nobody, one that there is not. */
WH_FN uint32_t bin_of(const whi_shard_routing *a, uint32_t owner, uint32_t comes) {
    return 2 * (owner != WHI_SHARD_NOBODY ? owner : a->size) + comes;
}

/* Lanes of a full warp that have the same bin. */
WH_FN wh_mask same_bin(uint32_t bin, uint32_t bits) {
    wh_mask same = WH_FULL_WARP;
    for (uint32_t bit = 0; bit < bits; bit++) {
        const uint32_t is_set = bin >> bit & 1;
        const wh_mask set = wh_ballot(WH_FULL_WARP, is_set != 0);
        same &= is_set ? set : ~set;
    }
    return same;
}

/* A place among a block's arcs of a bin, for each lane of a full warp that has one. */
WH_FN uint32_t take(uint32_t *counts, const whi_shard_routing *a, uint32_t bin) {
    const wh_mask same = same_bin(bin, a->bits);
    const uint32_t leader = wh_mask_leader(same);
    uint32_t first = 0;
    if (bin < 2 * a->size && wh_lane_id() == leader) {
        first = wh_shared_fetch_add_u32(&counts[bin], wh_popc32(same)); /* R1, R2 */
    }
    return wh_shfl_u32(WH_FULL_WARP, first, leader) + wh_mask_rank(same);
}

/* Bins of a block's shared memory become zero. All threads; a barrier follows. */
WH_FN void clear_bins(uint32_t *counts, uint32_t bins) {
    for (uint32_t b = wh_thread_in_block(); b < bins; b += wh_block_threads()) {
        counts[b] = 0;
    }
    wh_syncthreads(); /* R3 */
}

WH_KERNEL(count, whi_shard_routing, a) {
    uint32_t *counts = (uint32_t *)wh_shared();
    const uint32_t bins = 2 * a.size;
    const uint64_t step = wh_grid_threads();
    uint64_t bad = 0;
    clear_bins(counts, bins);
    for (uint64_t i = wh_thread_id(); i - wh_lane_id() < a.n; i += EACH * step) {
        uint32_t from[EACH], to[EACH], comes[EACH], seen[EACH];
        for (uint32_t k = 0; k < EACH; k++) {
            const uint64_t at = i + k * step;
            from[k] = at < a.n ? a.from[at] : WHI_SHARD_NOWHERE;
            to[k] = at < a.n ? a.to[at] : WHI_SHARD_NOWHERE;
            comes[k] = a.erases != NULL && at < a.n && a.erases[at] == 0;
        }
        for (uint32_t k = 0; k < EACH; k++) {
            seen[k] = owners_of(&a, from[k], to[k]);
        }
        for (uint32_t k = 0; k < EACH; k++) {
            const uint64_t at = i + k * step;
            if (at < a.n) {
                a.seen[at] = seen[k]; /* R4 */
                bad += seen[k] == WHI_SHARD_NOWHERE;
            }
            (void)take(counts, &a, bin_of(&a, seen[k] & 0xffff, comes[k]));
            if (a.both_ways) {
                (void)take(counts, &a, bin_of(&a, seen[k] >> 16, comes[k]));
            }
        }
    }
    wh_syncthreads(); /* R3 */
    for (uint32_t b = wh_thread_in_block(); b < bins; b += wh_block_threads()) {
        if (counts[b] != 0) {
            wh_add_u32_relaxed(&a.counts[b], counts[b]); /* R1 */
        }
    }
    wh_syncwarp(WH_FULL_WARP);
    add_all(&a.tally->bad, bad); /* C1 */
}

WH_FN void put(const whi_shard_routing *a, uint32_t owner, uint64_t place, uint64_t arc) {
    a->out[place + (uint64_t)WHI_SHARD_HEAD * (owner + 1)] = arc; /* R2 */
}

/* A warp: where each bin begins; of each message the head, and the arcs that fill it up. */
WH_KERNEL(lay, whi_shard_routing, a) {
    uint32_t before = 0;
    for (uint32_t first = 0; first < a.size; first += WH_WARP_SIZE) {
        const uint32_t p = first + wh_lane_id(), b = 2 * p;
        const uint32_t go = p < a.size ? a.counts[b] : 0;
        const uint32_t n = p < a.size ? go + a.counts[b + 1] : 0;
        const uint32_t filled = (n + WHI_SHARD_ARCS - 1) / WHI_SHARD_ARCS * WHI_SHARD_ARCS;
        const uint32_t up_to = wh_scan_add_warp_u32(filled);
        const uint32_t at = before + up_to - filled;
        if (p < a.size) {
            uint64_t *head = &a.out[at + (uint64_t)WHI_SHARD_HEAD * p];
            head[0] = go;
            head[1] = 0;
            a.cursors[b] = at; /* R2 */
            a.cursors[b + 1] = at + go;
        }
        for (uint32_t k = n; k < filled; k++) {
            put(&a, p, (uint64_t)at + k, NO_ARC);
        }
        before += wh_shfl_u32(WH_FULL_WARP, up_to, WH_WARP_SIZE - 1);
    }
}

/* Arc i to its messages. at: its places among the block's, of both ways; base: of the block's. */
WH_FN void send(const whi_shard_routing *a, uint64_t i, uint32_t comes, const uint32_t *base,
                const uint32_t *at) {
    const uint32_t seen = a->seen[i], v = a->from[i], w = a->to[i];
    const uint32_t first = seen & 0xffff, second = seen >> 16;
    uint32_t told = WHI_SHARD_NOWHERE;
    if (first != WHI_SHARD_NOBODY) {
        const uint32_t low = a->both_ways && w < v ? w : v, high = low == v ? w : v;
        told = base[bin_of(a, first, comes)] + at[0];
        put(a, first, told, (uint64_t)high << 32 | low);
        if (second != WHI_SHARD_NOBODY) {
            put(a, second, base[bin_of(a, second, comes)] + at[1], (uint64_t)low << 32 | high);
        }
    }
    a->seen[i] = told; /* R4 */
}

WH_KERNEL(scatter, whi_shard_routing, a) {
    const uint32_t bins = 2 * a.size, me = wh_thread_in_block(), threads = wh_block_threads();
    uint32_t *counts = (uint32_t *)wh_shared(), *base = counts + bins;
    const uint64_t tile = (uint64_t)threads * EACH;
    for (uint64_t first = wh_block_id() * tile; first < a.n; first += wh_grid_blocks() * tile) {
        uint32_t seen[EACH], comes[EACH], at[EACH][2];
        clear_bins(counts, bins);
        for (uint32_t k = 0; k < EACH; k++) {
            const uint64_t i = first + k * threads + me;
            seen[k] = i < a.n ? a.seen[i] : WHI_SHARD_NOWHERE;
            comes[k] = a.erases != NULL && i < a.n && a.erases[i] == 0;
        }
        for (uint32_t k = 0; k < EACH; k++) {
            at[k][0] = take(counts, &a, bin_of(&a, seen[k] & 0xffff, comes[k]));
            at[k][1] = 0;
            if (a.both_ways) {
                at[k][1] = take(counts, &a, bin_of(&a, seen[k] >> 16, comes[k]));
            }
        }
        wh_syncthreads(); /* R3 */
        for (uint32_t b = me; b < bins; b += threads) {
            const uint32_t n = counts[b];
            base[b] = n != 0 ? wh_fetch_add_u32_relaxed(&a.cursors[b], n) : 0; /* R2 */
        }
        wh_syncthreads(); /* R3 */
        for (uint32_t k = 0; k < EACH; k++) {
            const uint64_t i = first + k * threads + me;
            if (i < a.n) {
                send(&a, i, comes[k], base, at[k]);
            }
        }
    }
}

/* --- what came ---------------------------------------------------------------------------------
 */

WH_FN uint64_t entry_of(const whi_shard_local *l, uint64_t key) {
    const uint64_t x = key * 0x9e3779b97f4a7c15u;
    return (x ^ x >> 32) & l->mask;
}

/* The entry of a key, or one without. */
WH_FN uint64_t find(const whi_shard_local *l, uint64_t key) {
    uint64_t k = entry_of(l, key);
    while (l->keys[k] != key && l->keys[k] != NO_KEY) {
        k = (k + 1) & l->mask;
    }
    return k;
}

/* Arc i comes: the first one of those that are alike holds the entry. Returns its role. */
WH_FN uint8_t enter(const whi_shard_local *l, uint64_t key, uint64_t i) { /* T1 */
    if (key == NO_ARC) {
        return WHI_SHARD_AGAIN;
    }
    uint64_t k = entry_of(l, key), old = wh_cas_u64_relaxed(&l->keys[k], NO_KEY, key);
    while (old != NO_KEY && old != key) {
        k = (k + 1) & l->mask;
        old = wh_cas_u64_relaxed(&l->keys[k], NO_KEY, key);
    }
    if (old == NO_KEY) {
        l->holders[k] = (uint32_t)i;
    }
    return old == NO_KEY ? WHI_SHARD_COMES : WHI_SHARD_AGAIN;
}

/* The arc at place k. */
WH_FN uint64_t unpack_at(const whi_shard_arrival *a, uint64_t k) {
    uint32_t s = 0; /* the last message that begins at k or before */
    for (uint32_t step = WHI_SHARD_SEGMENTS / 2; step != 0; step /= 2) {
        s += s + step < a->segments && a->first[s + step] <= k ? step : 0;
    }
    const uint64_t *in = a->in + (uint64_t)WHI_SHARD_HEAD * (a->rank + s); /* heads before it */
    const uint64_t arc = in[k + WHI_SHARD_HEAD];
    a->to.from[k] = wh_low_u32(arc);
    a->to.to[k] = wh_high_u32(arc);
    if (a->to.role != NULL) {
        const int goes = k - a->first[s] < in[a->first[s]];
        a->to.role[k] = goes ? WHI_SHARD_GOES : enter(&a->to, arc, k);
    }
    return arc;
}

WH_KERNEL(unpack, whi_shard_arrival, a) {
    const uint64_t first = a.first[0], n = a.first[a.segments] - first;
    FOR_ROUNDS(i, n) {
        const uint64_t arc = i < n ? unpack_at(&a, first + i) : NO_ARC;
        wh_syncwarp(WH_FULL_WARP);
        if (a.to.loops != NULL) {
            const int is = arc != NO_ARC && wh_low_u32(arc) == wh_high_u32(arc);
            const uint32_t place = place_all(&a.to.tally->loops, is); /* C1 */
            if (is) {
                a.to.loops[place] = wh_low_u32(arc);
                a.to.from[first + i] = a.to.to[first + i] = WHI_SHARD_NOWHERE;
            }
        }
    }
}

WH_KERNEL(sort_out, whi_shard_local, l) {
    for (uint64_t i = wh_thread_id(); i < l.n; i += wh_grid_threads()) {
        const uint32_t from = l.from[i];
        uint8_t role = l.role[i];
        if (role == WHI_SHARD_GOES && l.keys[find(&l, (uint64_t)l.to[i] << 32 | from)] != NO_KEY) {
            role = l.role[i] = WHI_SHARD_STAYS;
        }
        l.comes[i] = role == WHI_SHARD_COMES ? from : WHI_SHARD_NOWHERE;
        l.goes[i] = role == WHI_SHARD_GOES ? from : WHI_SHARD_NOWHERE;
    }
}

/* An arc goes and comes. If it was there, one copy of each is gone, and new. Returns what became of
 * copy i of those that go. */
WH_FN uint8_t settle_stays(const whi_shard_local *l, uint64_t i) {
    const uint64_t k = find(l, (uint64_t)l->to[i] << 32 | l->from[i]);
    const uint32_t holder = wh_fetch_or_u32_relaxed(&l->holders[k], TAKEN); /* T2 */
    uint8_t done = WH_GRAPH_NO_CHANGE;
    if ((holder & TAKEN) == 0 && l->done[holder] == WH_GRAPH_NO_CHANGE) {
        l->done[holder] = done = WH_GRAPH_APPLIED;
    }
    return done;
}

WH_KERNEL(settle, whi_shard_local, l) {
    for (uint64_t i = wh_thread_id(); i < l.n; i += wh_grid_threads()) {
        const uint8_t role = l.role[i];
        if (role == WHI_SHARD_GOES) {
            l.done[i] = l.gone[i];
        } else if (role == WHI_SHARD_AGAIN) {
            l.done[i] = WH_GRAPH_NO_CHANGE;
        } else if (role == WHI_SHARD_STAYS) {
            l.done[i] = settle_stays(&l, i);
        }
    }
}

/* Halves of arcs, where there are both ways. */
WH_KERNEL(sum_up, whi_shard_local, l) {
    uint64_t sum = 0;
    for (uint64_t i = wh_thread_id(); i < l.n; i += wh_grid_threads()) {
        const int is_loop = l.both_ways && l.from[i] == l.to[i];
        sum += l.done[i] == WH_GRAPH_APPLIED ? 1 + (uint64_t)is_loop : 0;
    }
    wh_syncwarp(WH_FULL_WARP);
    add_all(&l.tally->told, sum); /* C1 */
}

/* --- what is new --------------------------------------------------------------------------------
 */

WH_KERNEL(note, whi_shard_before, b) {
    for (uint64_t v = wh_thread_id(); v < b.graph.n_vertices; v += wh_grid_threads()) {
        b.degrees[v] = wh_graph_degree(b.graph, (uint32_t)v);
    }
}

WH_KERNEL(find_new, whi_shard_before, b) {
    for (uint64_t v = wh_thread_id(); v < b.graph.n_vertices; v += wh_grid_threads()) {
        const uint32_t *to = wh_graph_neighbours(b.graph, (uint32_t)v);
        const uint32_t old = b.degrees[v], n = wh_graph_degree(b.graph, (uint32_t)v) - old;
        const uint32_t at = n != 0 ? wh_fetch_add_u32_relaxed(&b.tally->fresh, n) : 0; /* C1 */
        for (uint32_t i = 0; i < n; i++) {
            b.from[at + i] = (uint32_t)v;
            b.to[at + i] = to[old + i];
        }
    }
}

/* --- and back ----------------------------------------------------------------------------------
 */

WH_KERNEL(tell, whi_shard_told, a) {
    for (uint64_t i = wh_thread_id(); i < a.n; i += wh_grid_threads()) {
        const uint32_t place = a.place[i];
        const uint32_t told = place != WHI_SHARD_NOWHERE ? a.answers[place] : WH_GRAPH_NO_VERTEX;
        a.told[i] = (uint8_t)(a.has ? told == 1 : told);
    }
}

/* --- host side ----------------------------------------------------------------------------------
 */

typedef wh_status (*routing_fn)(const wh_launch *launch, const whi_shard_routing *r);
typedef wh_status (*local_fn)(const wh_launch *launch, const whi_shard_local *l);

/* A lane for each of `lanes`, or fewer that go round. */
static wh_launch grid_for(wh_device *device, uint64_t lanes) {
    const wh_device_info *info = wh_device_get_info(device);
    wh_launch l = rounds_of(device, NULL, lanes);
    const uint32_t most = BLOCKS_OF_SM * info->n_sms;
    l.blocks = l.blocks < most ? l.blocks : most;
    return l;
}

static wh_status route(routing_fn kernel, wh_device *device, const whi_shard_routing *r,
                       uint32_t tables) {
    wh_launch l = grid_for(device, (r->n + EACH - 1) / EACH);
    l.shared_bytes = tables * 2 * r->size * (uint32_t)sizeof(uint32_t);
    return kernel(&l, r);
}

static wh_status start_count(wh_device *device, const whi_shard_routing *r) {
    return route(count, device, r, 1);
}

static wh_status start_lay(wh_device *device, const whi_shard_routing *r) {
    const wh_launch l = wh_grid(device, 1, WH_WARP_SIZE);
    return lay(&l, r);
}

static wh_status start_scatter(wh_device *device, const whi_shard_routing *r) {
    return route(scatter, device, r, 2);
}

static wh_status start_unpack(wh_device *device, const whi_shard_arrival *a) {
    const wh_launch l = grid_for(device, a->first[a->segments] - a->first[0]);
    return unpack(&l, a);
}

static wh_status local(local_fn kernel, wh_device *device, const whi_shard_local *a) {
    const wh_launch l = grid_for(device, a->n);
    return kernel(&l, a);
}

#define START_LOCAL(kernel)                                                        \
    static wh_status start_##kernel(wh_device *device, const whi_shard_local *a) { \
        return local(kernel, device, a);                                           \
    }
START_LOCAL(sort_out)
START_LOCAL(settle)
START_LOCAL(sum_up)

static wh_status start_tell(wh_device *device, const whi_shard_told *t) {
    const wh_launch l = grid_for(device, t->n);
    return tell(&l, t);
}

static wh_status start_note(wh_device *device, const whi_shard_before *b) {
    const wh_launch l = grid_for(device, b->graph.n_vertices);
    return note(&l, b);
}

static wh_status start_find_new(wh_device *device, const whi_shard_before *b) {
    const wh_launch l = grid_for(device, b->graph.n_vertices);
    return find_new(&l, b);
}

WH_TABLE_ONCE(whi_shard_kernels) = {
    start_count,  start_lay,    start_scatter, start_unpack, start_sort_out,
    start_settle, start_sum_up, start_tell,    start_note,   start_find_new,
};
