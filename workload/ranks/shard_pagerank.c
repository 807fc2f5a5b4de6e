/* shard_pagerank.c: PageRank of a graph on several ranks. All of it is on the devices: each rank
 * walks along the arcs of its vertices; what they bring, or the shares of its vertices, goes from
 * device to device; two sums meet on the host.
 */
#include "workload/ranks/shard_own.h"
#include "workload/ranks/shard_rank_kernels.h"

#include <string.h>

#include "graph/rank_numbers.h"
#include "warpheap/core/hash.h"
#include "warpheap/detail/alloc/tables.h"

WH_TABLES_ONCE(whi_shard_rank_kernels, whi_shard_rank_kernels_find)

#define ONE ((double)WHI_RANK_ONE)

typedef struct ranking {
    whi_shard_ranking on;
    const whi_shard_rank_kernels *kernels;
    whi_shard_memory memory;
    uint64_t sums[2]; /* change, dangling: of all ranks, as integers of 2^-62 */
    uint64_t start;   /* of the caller's ranks, to be the same on all ranks; 0: none */
} ranking;

static void check_options(wh_shard *s, wh_graph_pagerank_options *o, const float *rank) {
    o->damping = o->damping == 0 ? 0.85 : o->damping;
    o->tolerance = o->tolerance == 0 ? 1e-6 : o->tolerance;
    o->most_iterations = o->most_iterations == 0 ? 100 : o->most_iterations;
    if (!(o->damping > 0 && o->damping < 1) || o->tolerance != o->tolerance || rank == NULL) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "pagerank: a damping above 0 and below 1, please");
    } else if (o->on_device || o->stream != NULL) {
        wh_comm_report(s->comm, WH_UNSUPPORTED, "pagerank: ranks are host memory");
    }
}

/* --- before the first iteration -----------------------------------------------------------------
 */

/* Memory of the device. */
static wh_status take(wh_shard *s, ranking *x) {
    whi_shard_ranking *on = &x->on;
    const uint64_t n = s->n, own = on->own, rest = on->entries - own;
    const uint64_t bytes = 2 * whi_shard_padded(8 * n) + whi_shard_padded(8 * own) +
                           whi_shard_padded(4 * own) + whi_shard_padded(sizeof *on->sums);
    const uint64_t sums = 8 * own * on->others, ranks = 4 * on->entries;
    const uint64_t brought = on->pulls ? 8 * on->entries : sums;
    if (!whi_shard_room(s, &x->memory, bytes) ||
        !whi_shard_room(s, &s->sends, 8 * (own > rest ? own : rest))) {
        return WH_OUT_OF_MEMORY;
    }
    unsigned char *at = x->memory.p;
    on->sums = whi_shard_piece(&at, sizeof *on->sums);
    on->rank = whi_shard_piece(&at, 8 * own);
    on->share = whi_shard_piece(&at, 8 * n);
    on->in = whi_shard_piece(&at, 8 * n);
    on->hubs = whi_shard_piece(&at, 4 * own);
    on->out = (uint64_t *)(void *)s->sends.p;
    on->out_floats = (float *)(void *)s->sends.p;
    on->floats = (float *)(void *)on->in;
    if (s->size == 1) {
        return WH_OK;
    }
    return wh_comm_buffer_reserve(&s->came, brought > ranks ? brought : ranks);
}

static wh_status read_sums(wh_shard *s, ranking *x, whi_shard_sums *sums) {
    const wh_status status = wh_device_copy_out(s->device, sums, x->on.sums, sizeof *sums);
    x->sums[0] = status == WH_OK ? sums->change : 0;
    x->sums[1] = status == WH_OK ? sums->dangling : 0;
    return status;
}

static wh_status clear_sums(wh_shard *s, ranking *x) {
    return wh_device_set(s->device, x->on.sums, 0, sizeof *x->on.sums);
}

/* The caller's ranks, and what they are to be multiplied with. They lie where the first walk will
 * need the room. */
static wh_status bring_start(wh_shard *s, ranking *x, const float *start) {
    whi_shard_sums sums;
    if (start == NULL) {
        return WH_OK;
    }
    x->on.start = (const float *)(const void *)x->on.in;
    wh_status status = wh_device_copy_in(s->device, x->on.in, start, (uint64_t)s->n * 4);
    status = status == WH_OK ? x->kernels->start_sum(s->device, &x->on) : status;
    status = status == WH_OK ? read_sums(s, x, &sums) : status;
    if (status != WH_OK) {
        return status;
    }
    const double sum = (double)sums.upper * 2147483648.0 + (double)sums.lower;
    x->on.scale = ONE * (ONE / sum);
    x->start = sums.upper ^ sums.lower << 32;
    return sums.bad != 0 || sum < 0.5 * ONE || sum > 2 * ONE ? WH_BAD_ARGUMENT : WH_OK;
}

static wh_status first_ranks(wh_shard *s, ranking *x, const float *start) {
    whi_shard_ranking *on = &x->on;
    whi_shard_sums sums;
    x->kernels = whi_shard_rank_kernels_find(wh_device_get_info(s->device)->target);
    wh_status status = wh_graph_handle(s->graph, &on->graph);
    status = status == WH_OK ? whi_shard_bring_map(s) : status;
    status = status == WH_OK ? whi_shard_bring_order(s) : status;
    if (status != WH_OK) {
        return status;
    }
    on->map = (const uint16_t *)(const void *)s->map.p;
    on->order = (const uint32_t *)(const void *)s->order.p;
    on->ids = s->n;
    on->entries = s->order_first[s->size];
    on->first = s->order_first[s->rank];
    on->own = s->order_first[s->rank + 1] - on->first;
    on->others = (uint32_t)s->size - 1;
    on->pulls = s->undirected;
    status = take(s, x);
    status = status == WH_OK ? clear_sums(s, x) : status;
    status = status == WH_OK ? bring_start(s, x, start) : status;
    status = status == WH_OK ? x->kernels->first(s->device, on) : status;
    status = status == WH_OK ? read_sums(s, x, &sums) : status;
    return status == WH_OK ? wh_device_set(s->device, on->in, 0, (uint64_t)s->n * 8) : status;
}

static wh_status begin(wh_shard *s, ranking *x, const wh_graph_pagerank_options *o) {
    const uint64_t bits[3] = {(uint64_t)(o->damping * 1e9), o->most_iterations,
                              (uint64_t)(o->tolerance * 1e15)};
    x->on.live = s->live != 0 ? s->live : 1;
    x->on.damping = (uint64_t)(o->damping * 18446744073709551616.0);
    x->on.teleport = (uint64_t)((1 - o->damping) * ONE / (double)x->on.live);
    whi_shard_report(s, first_ranks(s, x, o->start), "pagerank: memory, or start");
    wh_status status = wh_comm_agree(s->comm); /* pagerank on all ranks */
    if (status == WH_OK) {
        const uint64_t options = bits[0] ^ bits[1] << 20 ^ bits[2] << 7;
        wh_comm_expect(s->comm, wh_spread64(options) ^ x->start, "options, or start, of pagerank");
        status = wh_comm_all_reduce(s->comm, x->sums, 2, WH_COMM_U64, WH_COMM_SUM);
    }
    whi_shard_lap(s, &s->times.settle);
    return status;
}

/* --- iterations ---------------------------------------------------------------------------------
 */

/* Shares of own vertices go to all ranks. */
static wh_status pass_shares(wh_shard *s, ranking *x) {
    if (s->size == 1) {
        return WH_OK;
    }
    const wh_status status = wh_comm_all_gather(s->comm, x->on.out, 8 * x->on.own, &s->came);
    x->on.got = (const uint64_t *)(const void *)s->came.data;
    return status;
}

/* What arcs bring goes to the owners of their ends. */
static wh_status pass_sums(wh_shard *s, ranking *x) {
    if (s->size == 1) {
        return WH_OK;
    }
    for (int r = 0; r < s->size; r++) {
        const uint64_t n = s->order_first[r + 1] - s->order_first[r];
        s->out_bytes[r] = r != s->rank ? 8 * n : 0;
    }
    const wh_status status = wh_comm_all_to_all(s->comm, x->on.out, s->out_bytes, &s->came);
    x->on.got = (const uint64_t *)(const void *)s->came.data;
    return status;
}

/* A step on the device, which the next call of the communicator fails by, if it fails. */
static void step(wh_shard *s, ranking *x, wh_status *status,
                 wh_status (*kernel)(wh_device *, const whi_shard_ranking *)) {
    *status = *status == WH_OK ? kernel(s->device, &x->on) : *status;
}

static wh_status walk_and_pass(wh_shard *s, ranking *x) {
    wh_status own = clear_sums(s, x);
    if (x->on.pulls) {
        whi_shard_report(s, own, "a walk along the arcs");
        const wh_status status = pass_shares(s, x);
        whi_shard_lap(s, &s->times.pass);
        if (s->size != 1) {
            step(s, x, &own, x->kernels->spread);
        }
        step(s, x, &own, x->kernels->walk);
        whi_shard_report(s, own, "a walk along the arcs");
        whi_shard_lap(s, &s->times.walk);
        return status;
    }
    step(s, x, &own, x->kernels->walk);
    step(s, x, &own, x->kernels->pack);
    whi_shard_report(s, own, "a walk along the arcs");
    whi_shard_lap(s, &s->times.walk);
    const wh_status status = pass_sums(s, x);
    whi_shard_lap(s, &s->times.pass);
    return status;
}

static wh_status iterate(wh_shard *s, ranking *x) {
    whi_shard_sums sums;
    x->on.spread = x->sums[1] / x->on.live;
    wh_status status = walk_and_pass(s, x);
    if (status != WH_OK) {
        return status;
    }
    wh_status own = WH_OK;
    step(s, x, &own, x->kernels->update);
    own = own == WH_OK ? read_sums(s, x, &sums) : own;
    whi_shard_report(s, own, "new ranks");
    status = wh_comm_all_reduce(s->comm, x->sums, 2, WH_COMM_U64, WH_COMM_SUM);
    whi_shard_lap(s, &s->times.settle);
    s->times.iterations++;
    return status;
}

/* Ranks of all vertices, to all ranks' hosts. */
static wh_status bring_out(wh_shard *s, ranking *x, float *rank) {
    wh_status own = WH_OK, status = WH_OK;
    step(s, x, &own, x->kernels->floats);
    whi_shard_report(s, own, "ranks");
    x->on.got_floats = x->on.out_floats;
    if (s->size != 1) {
        status = wh_comm_all_gather(s->comm, x->on.out_floats, 4 * x->on.own, &s->came);
        x->on.got_floats = (const float *)(const void *)s->came.data;
    }
    if (status != WH_OK) {
        return status;
    }
    step(s, x, &own, x->kernels->place);
    own =
        own == WH_OK ? wh_device_copy_out(s->device, rank, x->on.floats, (uint64_t)s->n * 4) : own;
    return own == WH_OK ? own : wh_comm_give_up(s->comm, own, "ranks could not be copied");
}

static wh_status pagerank(wh_shard *s, ranking *x, const wh_graph_pagerank_options *o,
                          wh_graph_pagerank_result *r) {
    wh_status status = begin(s, x, o);
    while (status == WH_OK) {
        status = iterate(s, x);
        r->iterations++;
        r->change = (double)x->sums[0] / ONE;
        if (!(r->change > o->tolerance) || r->iterations >= o->most_iterations) {
            break;
        }
    }
    return status;
}

wh_status wh_shard_pagerank(wh_shard *s, const wh_graph_pagerank_options *options, float *rank,
                            wh_graph_pagerank_result *result) {
    ranking x;
    wh_graph_pagerank_options o = {0};
    wh_graph_pagerank_result r = {0, 0};
    wh_status status = whi_shard_begin(s, "pagerank");
    if (status != WH_OK) {
        return status;
    }
    memset(&x, 0, sizeof x);
    if (options != NULL) {
        o = *options;
    }
    check_options(s, &o, rank);
    status = pagerank(s, &x, &o, &r);
    status = status == WH_OK ? bring_out(s, &x, rank) : status;
    if (result != NULL) {
        *result = r;
    }
    whi_shard_drop(s, &x.memory);
    return status;
}
