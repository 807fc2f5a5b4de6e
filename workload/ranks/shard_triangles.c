/* shard_triangles.c: triangles of a graph on several ranks. All of it is on the devices: each rank
 * makes the lists of its vertices; they go from device to device, where they are looked up in each
 * other. The host plans how much goes at a time, and adds up what the ranks have found.
 *
 * A rank knows how much each round may bring before the first one comes. So memory for it is taken
 * once, and a rank that has not enough can still say so. */
#include "workload/ranks/shard_own.h"
#include "workload/ranks/shard_triangle_kernels.h"

#include <string.h>

#include "warpheap/detail/alloc/tables.h"

WH_TABLES_ONCE(whi_shard_triangle_kernels, whi_shard_triangle_kernels_find)

#define MOST_WINDOW ((uint64_t)1 << 30) /* words: M1 of the kernels */

typedef struct counting {
    whi_shard_counting on;
    const whi_shard_triangle_kernels *kernels;
    whi_shard_memory memory, lists;
    uint64_t window;  /* words of lists that go together begin in so many */
    uint64_t windows; /* of this rank */
} counting;

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* --- lists ------------------------------------------------------------------------------------
 */

/* Memory of the device, but for lists, and messages. */
static wh_status take(wh_shard *s, counting *x) {
    whi_shard_counting *on = &x->on;
    const uint64_t own = on->own, ranks = (uint64_t)s->size;
    const uint64_t bytes = whi_shard_padded(4 * (uint64_t)s->n) + whi_shard_padded(4 * own) +
                           2 * whi_shard_padded(8 * (own + 1)) +
                           3 * whi_shard_padded(8 * (ranks + 1)) +
                           whi_shard_padded(sizeof *on->sums);
    if (!whi_shard_room(s, &x->memory, bytes) || !whi_shard_room(s, &s->sends, 4 * own)) {
        return WH_OUT_OF_MEMORY;
    }
    unsigned char *at = x->memory.p;
    on->sums = whi_shard_piece(&at, sizeof *on->sums);
    on->place = whi_shard_piece(&at, 4 * (uint64_t)s->n);
    on->n = whi_shard_piece(&at, 4 * own);
    on->begin = whi_shard_piece(&at, 8 * (own + 1));
    on->words = whi_shard_piece(&at, 8 * (own + 1));
    on->counts = whi_shard_piece(&at, 8 * ranks);
    on->cursors = whi_shard_piece(&at, 8 * ranks);
    on->at = whi_shard_piece(&at, 8 * (ranks + 1));
    on->hubs = (uint32_t *)(void *)on->words;
    on->out = (uint32_t *)(void *)s->sends.p;
    const wh_status status = wh_comm_buffer_reserve(&s->came, 4 * on->entries);
    return status == WH_OK ? wh_device_set(s->device, on->sums, 0, sizeof *on->sums) : status;
}

/* Degrees of own vertices, in s->sends. */
static wh_status own_degrees(wh_shard *s, counting *x) {
    whi_shard_counting *on = &x->on;
    x->kernels = whi_shard_triangle_kernels_find(wh_device_get_info(s->device)->target);
    wh_status status = wh_graph_handle(s->graph, &on->graph);
    status = status == WH_OK ? whi_shard_bring_order(s) : status;
    if (status != WH_OK) {
        return status;
    }
    const uint64_t *first = s->order_first;
    on->entries = first[s->size];
    if (on->entries > UINT32_MAX) {
        return WH_UNSUPPORTED;
    }
    on->order = (const uint32_t *)(const void *)s->order.p;
    on->first_of = on->order + on->entries;
    on->rank = (uint32_t)s->rank;
    on->size = (uint32_t)s->size;
    on->first = (uint32_t)first[s->rank];
    on->own = (uint32_t)(first[s->rank + 1] - first[s->rank]);
    status = take(s, x);
    return status == WH_OK ? x->kernels->degrees(s->device, on) : status;
}

/* Degrees of all vertices, in s->came. */
static wh_status bring_degrees(wh_shard *s, counting *x) {
    whi_shard_report(s, own_degrees(s, x), "triangles: memory, or too many ids");
    const wh_status status =
        wh_comm_all_gather(s->comm, x->on.out, 4 * (uint64_t)x->on.own, &s->came);
    x->on.degree = (const uint32_t *)(const void *)s->came.data;
    return status;
}

/* The last entry of an array of the device. */
static wh_status read_last(wh_shard *s, const uint64_t *sums, uint64_t n, uint64_t *last) {
    return wh_device_copy_out(s->device, last, sums + n, sizeof *last);
}

/* The lists, sorted. *words: of all of them in messages; *longest: entries. */
static wh_status make_lists(wh_shard *s, counting *x, uint64_t *words, uint64_t *longest) {
    whi_shard_counting *on = &x->on;
    whi_shard_list_sums sums;
    wh_status status = x->kernels->count(s->device, on);
    status = status == WH_OK ? read_last(s, on->begin, on->own, &on->edges) : status;
    if (status != WH_OK) {
        return status;
    }
    if (!whi_shard_room(s, &x->lists, 2 * whi_shard_padded(4 * on->edges))) {
        return WH_OUT_OF_MEMORY;
    }
    unsigned char *at = x->lists.p;
    on->to = whi_shard_piece(&at, 4 * on->edges);
    on->source = whi_shard_piece(&at, 4 * on->edges);
    status = x->kernels->fill(s->device, on);
    status = status == WH_OK ? read_last(s, on->words, on->own, words) : status;
    status = status == WH_OK ? wh_device_copy_out(s->device, &sums, on->sums, sizeof sums) : status;
    *longest = status == WH_OK ? sums.longest : 0;
    return status;
}

/* Room for what this rank sends in a window. *most: words that one rank gets of it. */
static wh_status plan(wh_shard *s, counting *x, uint64_t *most) {
    const uint64_t others = (uint64_t)s->size - 1, heads = WHI_SHARD_LIST_FILL;
    uint64_t words = 0, longest = 0;
    x->window = smaller(s->piece / 4 + (s->piece < 4), MOST_WINDOW);
    const wh_status status = make_lists(s, x, &words, &longest);
    if (status != WH_OK || words == 0) {
        return status;
    }
    x->windows = (words + x->window - 1) / x->window;
    *most = smaller(words, x->window + longest + 1) + heads;
    const uint64_t all = smaller(words, x->window + (longest + 1) * others) + heads * others;
    return whi_shard_room(s, &s->sends, 4 * all) ? WH_OK : WH_OUT_OF_MEMORY;
}

/* Own lists are looked up in own lists, and there is room for what others send. *left: windows of
 * all ranks. */
static wh_status agree_on_room(wh_shard *s, counting *x, uint64_t *left) {
    uint64_t most = 0;
    wh_status own = plan(s, x, &most);
    own = own == WH_OK ? x->kernels->own(s->device, &x->on) : own;
    whi_shard_report(s, own, "triangles: memory for lists");
    uint64_t sums[2] = {most, x->windows};
    const wh_status status = wh_comm_all_reduce(s->comm, sums, 2, WH_COMM_U64, WH_COMM_SUM);
    if (status != WH_OK) {
        return status;
    }
    *left = sums[1];
    own = wh_comm_buffer_reserve(&s->came, 4 * (sums[0] - most)); /* degrees are of no use now */
    whi_shard_report(s, own, "triangles: memory for lists of other ranks");
    return WH_OK;
}

/* --- rounds -------------------------------------------------------------------------------------
 */

/* Messages of a window, in s->sends. */
static wh_status pack(wh_shard *s, counting *x, uint64_t round) {
    const uint64_t ranks = (uint64_t)s->size;
    memset(s->out_bytes, 0, ranks * sizeof *s->out_bytes);
    if (round >= x->windows) {
        return WH_OK;
    }
    x->on.messages = (uint32_t *)(void *)s->sends.p;
    x->on.window = round * x->window;
    x->on.window_end = x->on.window + x->window;
    wh_status status = x->kernels->lay(s->device, &x->on);
    status = status == WH_OK
                 ? wh_device_copy_out(s->device, s->at, x->on.at + 1, ranks * sizeof *s->at)
                 : status;
    if (status != WH_OK) {
        return status;
    }
    for (uint64_t r = 0; r < ranks; r++) {
        s->out_bytes[r] = 4 * (s->at[r] - (r != 0 ? s->at[r - 1] : 0));
    }
    return x->kernels->pack(s->device, &x->on);
}

/* Looks up what came. */
static wh_status look_up(wh_shard *s, counting *x) {
    const uint32_t ranks = (uint32_t)s->size;
    wh_status status = WH_OK;
    x->on.in = (const uint32_t *)(const void *)s->came.data;
    for (uint32_t r = 0; r < ranks && status == WH_OK; r += x->on.n_messages) {
        x->on.n_messages = (uint32_t)smaller(ranks - r, WHI_SHARD_LIST_MESSAGES);
        for (uint32_t m = 0; m <= x->on.n_messages; m++) {
            x->on.message[m] = s->came.offset[r + m] / 4;
        }
        if (x->on.message[x->on.n_messages] != x->on.message[0]) {
            status = x->kernels->came(s->device, &x->on);
        }
    }
    return status;
}

/* Lists go until no rank has one left. *found: by all ranks. */
static wh_status exchange(wh_shard *s, counting *x, uint64_t *found) {
    uint64_t left = 0;
    wh_status own = WH_OK, status = agree_on_room(s, x, &left);
    for (uint64_t round = 0; status == WH_OK && left != 0; round++) {
        whi_shard_report(s, pack(s, x, round), "triangles: lists of this rank");
        left = x->windows > round + 1 ? x->windows - round - 1 : 0;
        wh_comm_add(s->comm, &left, 1);
        status = wh_comm_all_to_all(s->comm, s->sends.p, s->out_bytes, &s->came);
        own = status == WH_OK ? look_up(s, x) : own;
        whi_shard_report(s, own, "triangles: lists of other ranks");
    }
    if (status != WH_OK) {
        return status;
    }
    own = wh_device_copy_out(s->device, found, &x->on.sums->found, sizeof *found);
    whi_shard_report(s, own, "triangles");
    return wh_comm_all_reduce(s->comm, found, 1, WH_COMM_U64, WH_COMM_SUM);
}

/* A rank that has all vertices. */
static wh_status count_alone(wh_shard *s, uint64_t *found) {
    whi_shard_report(s, wh_graph_triangles(s->graph, NULL, found, NULL), "triangles");
    return wh_comm_agree(s->comm);
}

wh_status wh_shard_triangles(wh_shard *s, uint64_t *total) {
    counting x;
    uint64_t found = 0;
    wh_status status = whi_shard_begin(s, "triangles");
    if (status != WH_OK) {
        return status;
    }
    memset(&x, 0, sizeof x);
    if (total == NULL) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "wh_shard_triangles wants a number");
    } else if (!s->undirected) {
        wh_comm_report(s->comm, WH_UNSUPPORTED, "triangles are those of an undirected graph");
    }
    if (s->size == 1) {
        status = count_alone(s, &found);
    } else {
        status = bring_degrees(s, &x);
        status = status == WH_OK ? exchange(s, &x, &found) : status;
    }
    if (status == WH_OK) {
        *total = found;
    }
    whi_shard_drop(s, &x.memory);
    whi_shard_drop(s, &x.lists);
    return status;
}
