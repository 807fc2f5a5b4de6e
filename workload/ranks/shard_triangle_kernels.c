/* shard_triangle_kernels.c: triangles of a rank's part, and of the lists that come to it. Compiled
 * once for each target.
 *
 * A warp takes 32 rows, or pairs of lists, at a time, and deals out all their entries to its lanes;
 * hubs are put into a list, which a second kernel goes through, a block of threads a hub.
 *
 * F1      n[j]: fetch_add of each arc that counts, and fetch_sub of the same arcs when lists are
 *         filled: each gets a place of the list that no other one gets, and n is zero again. Then
 *         fetch_add of the words by entries that are the first of their rank
 * F2      hubs[]: each entry by the lane that got its place (fetch_add on sums->hubs, which is zero
 *         before); read by the kernel that comes next. It lies where words will be
 * M1      counts[r]: one fetch_add of all the lists that a block has for r. cursors[r]: of all
 *         those of a tile. Lists and entries are counted by the same word: so the k-th list's
 *         entries lie behind those of all lists before it, and where it ends tells where the next
 *         one begins. Neither half can be full: a window is 2^30 words, and one list
 * M2      messages: their first words, and what fills them up, by lay; others by the lane that has
 *         their list, or to which its warp has dealt them
 * others  each word by one lane; sums->found and longest by atomics
 *
 * All accesses are relaxed: what one kernel writes, the next one of the stream reads. No lane waits
 * for another one but at barriers of warps and blocks. */
#define WH_KERNEL_THREADS 256

#include "workload/ranks/shard_triangle_kernels.h"

#include "graph/lists.h"
#include "graph/rounds.h"
#include "warpheap/core/grid_scan.h"
#include "warpheap/detail/alloc/tables.h"
#include "warpheap/detail/graph/team.h"
#include "workload/ranks/shard_kernels.h"

/* Arcs up to which a warp takes a vertex. The simulated device has small graphs. */
#define WARP_DEGREE (WH_FILE_IS_CUDA ? 512u : 24u)

#define EACH 4u /* entries of a lane in a tile */
#define ONE_LIST ((uint64_t)1 << 32)

WH_FN whi_list no_list(void) {
    whi_list l;
    l.to = NULL;
    l.n = 0;
    return l;
}

/* --- lists ------------------------------------------------------------------------------------
 */

WH_KERNEL(degrees, whi_shard_counting, a) {
    for (uint64_t j = wh_thread_id(); j < a.own; j += wh_grid_threads()) {
        const uint32_t v = a.order[a.first + j];
        a.out[j] = v != WHI_SHARD_NOWHERE ? wh_graph_degree(a.graph, v) : 0;
        a.n[j] = 0;
    }
}

WH_KERNEL(places, whi_shard_counting, a) {
    for (uint64_t i = wh_thread_id(); i < a.entries; i += wh_grid_threads()) {
        const uint32_t v = a.order[i];
        if (v != WHI_SHARD_NOWHERE) {
            a.place[v] = (uint32_t)i;
        }
    }
}

/* Own entry j, and an arc of it to v. */
WH_FN void visit(const whi_shard_counting *a, uint32_t j, uint32_t v) {
    const uint32_t me = a->first + j, p = a->place[v], mine = a->degree[me], its = a->degree[p];
    if (its > mine || (its == mine && p > me)) {
        if (a->to == NULL) {
            wh_add_u32_relaxed(&a->n[j], 1); /* F1 */
        } else {
            const uint64_t at = a->begin[j] + wh_fetch_sub_u32_relaxed(&a->n[j], 1) - 1; /* F1 */
            a->to[at] = p;
            a->source[at] = j;
        }
    }
}

WH_FN whi_list row_of(const whi_shard_counting *a, uint32_t j) {
    const uint32_t v = a->order[a->first + j];
    whi_list row = no_list();
    if (v != WHI_SHARD_NOWHERE) {
        row.n = wh_graph_degree(a->graph, v);
        row.to = wh_graph_neighbours(a->graph, v);
    }
    return row;
}

/* That of own entry j, if it is no hub; hubs go to the list. All lanes of a full warp. */
WH_FN whi_list row_or_hub(const whi_shard_counting *a, uint64_t j) {
    const whi_list row = j < a->own ? row_of(a, (uint32_t)j) : no_list();
    const int is_hub = row.n > WARP_DEGREE;
    const uint32_t at = place_all(&a->sums->hubs, is_hub);
    if (is_hub) {
        a->hubs[at] = (uint32_t)j; /* F2 */
    }
    return is_hub ? no_list() : row;
}

WH_KERNEL(walk, whi_shard_counting, a) {
    FOR_ROUNDS(j, a.own) {
        const whi_list mine = row_or_hub(&a, j);
        const uint32_t up_to = wh_scan_add_warp_u32(mine.n);
        const uint32_t all = wh_shfl_u32(WH_FULL_WARP, up_to, WH_WARP_SIZE - 1);
        WH_NO_UNROLL
        for (uint32_t first = 0; first < all; first += WH_WARP_SIZE) {
            const uint32_t q = first + wh_lane_id(), lane = lane_with(up_to, q);
            const uint32_t before = wh_shfl_u32(WH_FULL_WARP, up_to - mine.n, lane);
            const whi_list its = list_of_lane(mine, lane);
            if (q < all) {
                visit(&a, (uint32_t)(j - wh_lane_id()) + lane, its.to[q - before]);
            }
        }
    }
}

WH_KERNEL(walk_hubs, whi_shard_counting, a) {
    const uint32_t hubs = a.sums->hubs;
    for (uint32_t k = wh_block_id(); k < hubs; k += wh_grid_blocks()) {
        const uint32_t j = a.hubs[k];
        const whi_list row = row_of(&a, j);
        for (uint32_t i = wh_thread_in_block(); i < row.n; i += wh_block_threads()) {
            visit(&a, j, row.to[i]);
        }
    }
}

WH_FN uint64_t n_of(const whi_shard_counting *a, uint64_t j) {
    return a->n[j];
}

WH_GRID_SCAN(scan_begin, whi_shard_counting, a, a.own, n_of, a.begin)
WH_GRID_SCAN(scan_words, whi_shard_counting, a, a.own, n_of, a.words)

/* Of own entry j. */
WH_FN whi_list list_of(const whi_shard_counting *a, uint32_t j) {
    whi_list l;
    l.to = a->to + a->begin[j];
    l.n = (uint32_t)(a->begin[j + 1] - a->begin[j]);
    return l;
}

WH_KERNEL(sort, whi_shard_counting, a) {
    const uint64_t warps = wh_grid_threads() / WH_WARP_SIZE;
    for (uint64_t j = wh_thread_id() / WH_WARP_SIZE; j < a.own; j += warps) {
        const uint64_t begin = a.begin[j];
        wh_team_sort(wh_team_warp(), a.to + begin, NULL, (uint32_t)(a.begin[j + 1] - begin));
    }
}

/* --- what goes --------------------------------------------------------------------------------
 */

/* The rank that has a place: the last one that begins at it, or before. */
WH_FN uint32_t owner_of(const whi_shard_counting *a, uint32_t place) {
    uint32_t r = 0;
    WH_NO_UNROLL
    for (uint32_t n = a->size; n > 1;) {
        const uint32_t half = n / 2;
        r += a->first_of[r + half] <= place ? half : 0;
        n -= half;
    }
    return r;
}

/* The other rank of which entry i is its list's first one, or NOWHERE. */
WH_FN uint32_t leads_to(const whi_shard_counting *a, uint64_t i) {
    const uint32_t r = owner_of(a, a->to[i]);
    const int is_first = i == a->begin[a->source[i]] || a->to[i - 1] < a->first_of[r];
    return r != a->rank && is_first ? r : WHI_SHARD_NOWHERE;
}

WH_KERNEL(lead, whi_shard_counting, a) {
    uint32_t longest = 0;
    for (uint64_t i = wh_thread_id(); i < a.edges; i += wh_grid_threads()) {
        if (leads_to(&a, i) != WHI_SHARD_NOWHERE) {
            const uint32_t j = a.source[i], n = list_of(&a, j).n;
            wh_add_u32_relaxed(&a.n[j], n + 1); /* F1 */
            longest = n > longest ? n : longest;
        }
    }
    wh_syncwarp(WH_FULL_WARP);
    longest = wh_reduce_max_u32(WH_FULL_WARP, longest);
    if (wh_lane_id() == 0 && longest != 0) {
        (void)wh_fetch_max_u32_relaxed(&a.sums->longest, longest);
    }
}

/* The first own entry before whose list there are so many words, or more. */
WH_FN uint32_t entry_at(const whi_shard_counting *a, uint64_t words) {
    uint32_t j = 0;
    WH_NO_UNROLL
    for (uint32_t n = a->own; n != 0;) {
        const uint32_t half = n / 2;
        const int is_before = a->words[j + half] < words;
        j += is_before ? half + 1 : 0;
        n = is_before ? n - half - 1 : half;
    }
    return j;
}

/* A warp. */
WH_KERNEL(cut, whi_shard_counting, a) {
    for (uint32_t r = wh_lane_id(); r < a.size; r += WH_WARP_SIZE) {
        a.counts[r] = a.cursors[r] = 0;
    }
    if (wh_lane_id() == 0) {
        a.sums->first = a.begin[entry_at(&a, a.window)];
        a.sums->end = a.begin[entry_at(&a, a.window_end)];
    }
}

/* Counts of a block's shared memory become zero. All threads; a barrier follows. */
WH_FN void clear(uint64_t *counts, uint32_t n) {
    for (uint32_t r = wh_thread_in_block(); r < n; r += wh_block_threads()) {
        counts[r] = 0;
    }
    wh_syncthreads();
}

WH_KERNEL(count, whi_shard_counting, a) {
    uint64_t *counts = (uint64_t *)wh_shared();
    const uint64_t first = a.sums->first, n = a.sums->end - first;
    clear(counts, a.size);
    for (uint64_t i = wh_thread_id(); i < n; i += wh_grid_threads()) {
        const uint32_t r = leads_to(&a, first + i);
        if (r != WHI_SHARD_NOWHERE) {
            const uint32_t entries = list_of(&a, a.source[first + i]).n;
            (void)wh_shared_fetch_add_u64(&counts[r], ONE_LIST + entries);
        }
    }
    wh_syncthreads();
    for (uint32_t r = wh_thread_in_block(); r < a.size; r += wh_block_threads()) {
        if (counts[r] != 0) {
            wh_add_u64_relaxed(&a.counts[r], counts[r]); /* M1 */
        }
    }
}

/* The sum of the lanes up to the caller. A full warp. */
WH_FN uint64_t scan_u64(uint64_t v) {
    for (uint32_t apart = 1; apart < WH_WARP_SIZE; apart *= 2) {
        const uint64_t its = wh_shfl_u64(WH_FULL_WARP, v, (wh_lane_id() - apart) % WH_WARP_SIZE);
        v += wh_lane_id() >= apart ? its : 0;
    }
    return v;
}

/* Words of a message. */
WH_FN uint64_t words_of(uint64_t count) {
    const uint64_t words = 1 + (uint64_t)wh_high_u32(count) + wh_low_u32(count);
    const uint64_t fill = WHI_SHARD_LIST_FILL;
    return count != 0 ? (words + fill - 1) / fill * fill : 0;
}

/* A warp: where each message begins; its head, and what fills it up. */
WH_KERNEL(lay, whi_shard_counting, a) {
    uint64_t before = 0;
    for (uint32_t first = 0; first < a.size; first += WH_WARP_SIZE) {
        const uint32_t r = first + wh_lane_id();
        const uint64_t count = r < a.size ? a.counts[r] : 0, words = words_of(count);
        const uint64_t up_to = scan_u64(words), at = before + up_to - words;
        if (r < a.size) {
            a.at[r] = at;
        }
        if (count != 0) {
            a.messages[at] = wh_high_u32(count); /* M2 */
            for (uint64_t k = 1 + (count >> 32) + wh_low_u32(count); k < words; k++) {
                a.messages[at + k] = 0; /* M2 */
            }
        }
        before += wh_shfl_u64(WH_FULL_WARP, up_to, WH_WARP_SIZE - 1);
    }
    if (wh_lane_id() == 0) {
        a.at[a.size] = before;
    }
}

/* The lists of the lanes of a full warp, each to its rank, if there is one. place: the number of
 * the list in the message, and where its entries begin there. */
WH_FN void put(const whi_shard_counting *a, whi_list mine, uint32_t rank, uint64_t place) {
    uint32_t *end = NULL;
    if (rank != WHI_SHARD_NOWHERE) {
        uint32_t *message = a->messages + a->at[rank] + 1;
        message[wh_high_u32(place)] = wh_low_u32(place) + mine.n; /* M2 */
        end = message + wh_high_u32(a->counts[rank]) + wh_low_u32(place) + mine.n;
    } else {
        mine = no_list();
    }
    const uint32_t up_to = wh_scan_add_warp_u32(mine.n);
    const uint32_t all = wh_shfl_u32(WH_FULL_WARP, up_to, WH_WARP_SIZE - 1);
    WH_NO_UNROLL
    for (uint32_t first = 0; first < all; first += WH_WARP_SIZE) {
        const uint32_t q = first + wh_lane_id(), lane = lane_with(up_to, q);
        const uint32_t behind = wh_shfl_u32(WH_FULL_WARP, up_to, lane);
        const whi_list its = list_of_lane(mine, lane);
        const uint64_t its_end = wh_shfl_u64(WH_FULL_WARP, (uint64_t)(uintptr_t)end, lane);
        if (q < all) {
            ((uint32_t *)(uintptr_t)its_end)[-(int64_t)(behind - q)] =
                its.to[its.n - (behind - q)]; /* M2 */
        }
    }
}

WH_KERNEL(pack, whi_shard_counting, a) {
    const uint32_t me = wh_thread_in_block(), threads = wh_block_threads();
    uint64_t *counts = (uint64_t *)wh_shared(), *base = counts + a.size;
    const uint64_t begin = a.sums->first, end = a.sums->end, tile = (uint64_t)threads * EACH;
    for (uint64_t first = begin + wh_block_id() * tile; first < end;
         first += wh_grid_blocks() * tile) {
        uint32_t rank[EACH];
        whi_list mine[EACH];
        uint64_t place[EACH];
        clear(counts, a.size);
        for (uint32_t k = 0; k < EACH; k++) {
            const uint64_t i = first + k * threads + me;
            rank[k] = i < end ? leads_to(&a, i) : WHI_SHARD_NOWHERE;
            mine[k] = rank[k] != WHI_SHARD_NOWHERE ? list_of(&a, a.source[i]) : no_list();
            place[k] = 0;
            if (rank[k] != WHI_SHARD_NOWHERE) {
                place[k] = wh_shared_fetch_add_u64(&counts[rank[k]], ONE_LIST + mine[k].n);
            }
        }
        wh_syncthreads();
        for (uint32_t r = me; r < a.size; r += threads) {
            const uint64_t n = counts[r];
            base[r] = n != 0 ? wh_fetch_add_u64_relaxed(&a.cursors[r], n) : 0; /* M1 */
        }
        wh_syncthreads(); /* and the next tile's counts are cleared when all have read these */
        for (uint32_t k = 0; k < EACH; k++) {
            const uint64_t before = rank[k] != WHI_SHARD_NOWHERE ? base[rank[k]] : 0;
            put(&a, mine[k], rank[k], before + place[k]);
        }
    }
}

/* --- what lists have in common ----------------------------------------------------------------
 */

/* Entries that each lane's two lists have in common: each lane's share of all. A full warp. */
WH_FN uint64_t common(whi_list a, whi_list b) {
    const whi_list shorter = a.n < b.n ? a : b, longer = a.n < b.n ? b : a;
    const uint32_t up_to = wh_scan_add_warp_u32(shorter.n);
    const uint32_t all = wh_shfl_u32(WH_FULL_WARP, up_to, WH_WARP_SIZE - 1);
    uint64_t found = 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < all; first += WH_WARP_SIZE) {
        const uint32_t q = first + wh_lane_id(), lane = lane_with(up_to, q);
        const uint32_t before = wh_shfl_u32(WH_FULL_WARP, up_to - shorter.n, lane);
        const whi_list one = list_of_lane(shorter, lane), other = list_of_lane(longer, lane);
        found += q < all && list_has(other, one.to[q - before]);
    }
    return found;
}

/* Whether a place is an own one, and then its list. */
WH_FN int has_list(const whi_shard_counting *a, uint32_t place, whi_list *its) {
    const uint32_t j = place - a->first;
    const int is_own = j < a->own;
    *its = is_own ? list_of(a, j) : no_list();
    return is_own;
}

WH_KERNEL(own, whi_shard_counting, a) {
    uint64_t found = 0;
    FOR_ROUNDS(i, a.edges) {
        whi_list one = no_list(), other = no_list();
        if (i < a.edges && has_list(&a, a.to[i], &other)) {
            one = list_of(&a, a.source[i]);
        }
        found += common(one, other);
    }
    add_all(&a.sums->found, found);
}

/* The list that entry x of a message is in. ends: of its n lists; entries lie behind them. */
WH_FN whi_list list_with(const uint32_t *ends, uint32_t n, uint32_t x) {
    uint32_t k = 0; /* the first one that ends behind x */
    WH_NO_UNROLL
    for (uint32_t left = n; left != 0;) {
        const uint32_t half = left / 2;
        const int is_before = ends[k + half] <= x;
        k += is_before ? half + 1 : 0;
        left = is_before ? left - half - 1 : half;
    }
    const uint32_t begin = k != 0 ? ends[k - 1] : 0;
    whi_list l;
    l.to = ends + n + begin;
    l.n = ends[k] - begin;
    return l;
}

/* Of the word that came, if it is an entry, and an own vertex: its list, and the list that it is
 * in. */
WH_FN int pair_at(const whi_shard_counting *a, uint64_t word, whi_list *one, whi_list *other) {
    uint32_t m = 0; /* the last message that begins at the word or before */
    for (uint32_t step = WHI_SHARD_LIST_MESSAGES / 2; step != 0; step /= 2) {
        m += m + step < a->n_messages && a->message[m + step] <= word ? step : 0;
    }
    const uint32_t *message = a->in + a->message[m], *ends = message + 1;
    const uint32_t n = message[0], k = (uint32_t)(word - a->message[m]);
    if (k <= n || k - 1 - n >= ends[n - 1] || !has_list(a, message[k], other)) {
        return 0;
    }
    *one = list_with(ends, n, k - 1 - n);
    return 1;
}

WH_KERNEL(came, whi_shard_counting, a) {
    const uint64_t first = a.message[0], n = a.message[a.n_messages] - first;
    uint64_t found = 0;
    FOR_ROUNDS(i, n) {
        whi_list one = no_list(), other = no_list();
        if (i < n) {
            (void)pair_at(&a, first + i, &one, &other);
        }
        found += common(one, other);
    }
    add_all(&a.sums->found, found);
}

/* --- host side ----------------------------------------------------------------------------------
 */

typedef wh_status (*kernel_fn)(const wh_launch *launch, const whi_shard_counting *c);

/* tables: words of shared memory for each rank. */
static wh_status start(kernel_fn kernel, wh_device *device, const whi_shard_counting *c,
                       uint64_t lanes, uint32_t tables) {
    wh_launch l = rounds_of(device, NULL, lanes);
    l.shared_bytes = tables * c->size * (uint32_t)sizeof(uint64_t);
    return kernel(&l, c);
}

static wh_status start_warp(kernel_fn kernel, wh_device *device, const whi_shard_counting *c) {
    const wh_launch l = wh_grid(device, 1, WH_WARP_SIZE);
    return kernel(&l, c);
}

static wh_status start_degrees(wh_device *device, const whi_shard_counting *c) {
    return start(degrees, device, c, c->own, 0);
}

/* Along all arcs. sums->hubs is zero before, and again behind it. */
static wh_status start_walk(wh_device *device, const whi_shard_counting *c) {
    wh_status s = start(walk, device, c, c->own, 0);
    s = s == WH_OK ? start(walk_hubs, device, c, (uint64_t)c->own * ROUND_BLOCK, 0) : s;
    return s == WH_OK ? wh_device_set(device, &c->sums->hubs, 0, sizeof c->sums->hubs) : s;
}

static wh_status start_count(wh_device *device, const whi_shard_counting *c) {
    wh_status s = start(places, device, c, c->entries, 0);
    s = s == WH_OK ? start_walk(device, c) : s;
    return s == WH_OK ? start(scan_begin, device, c, c->own, 0) : s;
}

static wh_status start_fill(wh_device *device, const whi_shard_counting *c) {
    wh_status s = start_walk(device, c);
    s = s == WH_OK ? start(sort, device, c, (uint64_t)c->own * WH_WARP_SIZE, 0) : s;
    s = s == WH_OK ? start(lead, device, c, c->edges, 0) : s;
    return s == WH_OK ? start(scan_words, device, c, c->own, 0) : s;
}

static wh_status start_own(wh_device *device, const whi_shard_counting *c) {
    return start(own, device, c, c->edges, 0);
}

static wh_status start_lay(wh_device *device, const whi_shard_counting *c) {
    wh_status s = start_warp(cut, device, c);
    s = s == WH_OK ? start(count, device, c, c->edges, 1) : s;
    return s == WH_OK ? start_warp(lay, device, c) : s;
}

static wh_status start_pack(wh_device *device, const whi_shard_counting *c) {
    return start(pack, device, c, (c->edges + EACH - 1) / EACH, 2);
}

static wh_status start_came(wh_device *device, const whi_shard_counting *c) {
    return start(came, device, c, c->message[c->n_messages] - c->message[0], 0);
}

WH_TABLE_ONCE(whi_shard_triangle_kernels) = {
    start_degrees, start_count, start_fill, start_own, start_lay, start_pack, start_came,
};
