/* shard_route.c: arcs to the owners of their sources, and back, on the device.
 *
 * All ranks know before they send how much they may: rank r has room for may[r] arcs of this one,
 * and for heads. A rank that has more sends nothing at all, not even heads. Then all ranks tell
 * each other what they want to send, make room, and send again. So a rank that has no memory for
 * what comes can still say so, and nobody has sent. After a few batches all have room.
 *
 * With the first message goes whether a rank wants to know what became of its arcs. If one does,
 * the answer to a message is a byte for each arc, in its order; else there is none, but for counts
 * that the lines of the last call add up.
 *
 * One rank alone owns all: where its graph can tell by itself which arcs are none, and nobody asks,
 * it gets the batch as it is.
 */
#include "workload/ranks/shard_route.h"

#include <string.h>

/* The batch on the device. */
static wh_status bring(wh_shard *s, whi_shard_route *r) {
    const wh_graph_batch *b = r->batch;
    whi_shard_routing *on = &r->on;
    const uint64_t n = b->n;
    const int mixed = r->kind == WHI_SHARD_MIXED && n != 0;
    on->from = b->from;
    on->to = b->to;
    on->erases = mixed ? b->erases : NULL;
    r->told = b->done;
    if (b->on_device) { /* the default stream waits for others by itself, but for some */
        return b->stream != NULL ? wh_stream_sync(s->device, b->stream) : WH_OK;
    }
    if (!whi_shard_room(s, &s->input, 2 * whi_shard_padded(4 * n) + 2 * whi_shard_padded(n))) {
        return WH_OUT_OF_MEMORY;
    }
    unsigned char *at = s->input.p;
    uint32_t *from = whi_shard_piece(&at, 4 * n), *to = whi_shard_piece(&at, 4 * n);
    uint8_t *erases = whi_shard_piece(&at, n), *told = whi_shard_piece(&at, n);
    on->from = from;
    on->to = to;
    on->erases = mixed ? erases : NULL;
    r->told = b->done != NULL ? told : NULL;
    wh_status status = WH_OK;
    if (n != 0) {
        status = wh_device_copy_in(s->device, from, b->from, 4 * n);
        status = status == WH_OK ? wh_device_copy_in(s->device, to, b->to, 4 * n) : status;
    }
    return status == WH_OK && mixed ? wh_device_copy_in(s->device, erases, b->erases, n) : status;
}

/* Arcs of all messages, at most. */
static uint64_t most_arcs(const wh_shard *s, const whi_shard_route *r) {
    const uint64_t fill = WHI_SHARD_ARCS * (uint64_t)s->size;
    return (r->on.both_ways ? 2 * r->on.n : r->on.n) + fill;
}

/* Room for messages. */
static wh_status make_room(wh_shard *s, whi_shard_route *r) {
    const uint64_t arcs = most_arcs(s, r);
    if (!whi_shard_room(s, &s->seen, 4 * r->on.n) ||
        !whi_shard_room(s, &s->sends, whi_shard_message_bytes(arcs, (uint64_t)s->size))) {
        return WH_OUT_OF_MEMORY;
    }
    r->on.seen = (uint32_t *)(void *)s->seen.p;
    r->on.out = (uint64_t *)(void *)s->sends.p;
    return WH_OK;
}

static int is_direct(const wh_shard *s, const whi_shard_route *r) {
    const int is_one_kind = r->kind == WHI_SHARD_INSERTED || r->kind == WHI_SHARD_ERASED;
    return s->size == 1 && !s->undirected && s->live == s->n && is_one_kind &&
           r->batch->done == NULL;
}

/* Who gets how much; the messages, which are not waited for. */
static wh_status pack(wh_shard *s, whi_shard_route *r) {
    const uint64_t bins = 2 * (uint64_t)s->size;
    const uint64_t bytes = sizeof *s->tally + 4 * bins;
    whi_shard_routing *on = &r->on;
    on->map = (const uint16_t *)(const void *)s->map.p;
    on->ids = s->n;
    on->size = (uint32_t)s->size;
    on->both_ways = s->undirected && r->kind != WHI_SHARD_ASKED; /* one end knows */
    on->tally = (whi_shard_tally *)(void *)s->bins.p;
    on->counts = (uint32_t *)(void *)(on->tally + 1);
    on->cursors = on->counts + bins;
    for (on->bits = 1; bins >> on->bits != 0; on->bits++) {
    }
    wh_status status = bring(s, r);
    whi_shard_lap(s, &s->times.bring);
    status = status == WH_OK ? wh_device_set(s->device, on->tally, 0, bytes) : status;
    if (r->is_direct) {
        s->sent[0] = on->n;
        return status;
    }
    status = status == WH_OK ? make_room(s, r) : status;
    status = status == WH_OK ? whi_shard_bring_map(s) : status;
    status = status == WH_OK ? s->kernels->count(s->device, on) : status;
    status = status == WH_OK ? s->kernels->lay(s->device, on) : status;
    status = status == WH_OK ? wh_device_copy_out(s->device, s->tally, on->tally, bytes) : status;
    r->bad = s->tally->bad;
    for (int p = 0; p < s->size && status == WH_OK; p++) {
        const uint64_t n = (uint64_t)s->counts[2 * p] + s->counts[2 * p + 1];
        s->sent[p] = (n + WHI_SHARD_ARCS - 1) / WHI_SHARD_ARCS * WHI_SHARD_ARCS;
    }
    return status == WH_OK ? s->kernels->scatter(s->device, on) : status;
}

static wh_status exchange(wh_shard *s, int sends) {
    for (int p = 0; p < s->size; p++) {
        s->out_bytes[p] = sends ? whi_shard_message_bytes(s->sent[p], 1) : 0;
    }
    return wh_comm_all_to_all(s->comm, s->sends.p, s->out_bytes, &s->came);
}

static int may_send(const wh_shard *s) {
    int may = 1;
    for (int p = 0; p < s->size; p++) {
        may &= s->sent[p] <= s->may[p];
    }
    return may;
}

/* Whether all ranks have sent. All find the same. */
static int all_sent(const wh_shard *s) {
    int all = 1;
    for (int p = 0; p < s->size; p++) {
        all &= s->came.bytes[p] != 0;
    }
    return all;
}

/* All ranks say what they want to send, and make room. */
static wh_status grow(wh_shard *s) {
    uint64_t sum = 0, of_rank = 0;
    for (int p = 0; p < s->size; p++) {
        const uint64_t sent = s->sent[p];
        s->want[p] = sent > s->may[p] ? sent + sent / 4 + 32 : s->may[p];
    }
    const uint64_t bytes = (uint64_t)s->size * sizeof *s->want;
    const wh_status status = wh_comm_all_gather(s->comm, s->want, bytes, &s->got);
    if (status != WH_OK) {
        return status;
    }
    for (int r = 0; r < s->size; r++) {
        memcpy(&of_rank, s->got.data + s->got.offset[r] + (uint64_t)s->rank * 8, sizeof of_rank);
        sum += of_rank;
    }
    const uint64_t room = whi_shard_message_bytes(sum, (uint64_t)s->size);
    wh_comm_report(s->comm, wh_comm_buffer_reserve(&s->came, room),
                   "the device has no memory for what comes");
    return WH_OK;
}

/* Messages to all, and from all. */
static wh_status swap(wh_shard *s) {
    if (s->size == 1) {
        s->came_arcs[0] = s->sent[0];
        return wh_comm_agree(s->comm);
    }
    wh_status status = exchange(s, may_send(s));
    if (status == WH_OK && !all_sent(s)) {
        status = grow(s);
        status = status == WH_OK ? exchange(s, 1) : status;
        if (status == WH_OK) {
            memcpy(s->may, s->want, (size_t)s->size * sizeof *s->may);
        }
    }
    for (int p = 0; p < s->size && status == WH_OK; p++) {
        s->came_arcs[p] = s->came.bytes[p] / 8 - WHI_SHARD_HEAD;
    }
    return status;
}

/* Arrays for the arcs that came. */
static int lay_arcs(wh_shard *s, whi_shard_route *r) {
    whi_shard_local *l = &r->came;
    const uint64_t n = l->n, words = whi_shard_padded(4 * n), bytes = whi_shard_padded(n);
    const int mixed = r->kind == WHI_SHARD_MIXED;
    if (!whi_shard_room(s, &s->arcs, mixed ? 4 * words + 3 * bytes : whi_shard_arc_bytes(s, n))) {
        return 0;
    }
    l->tally = r->on.tally;
    l->both_ways = r->on.both_ways;
    unsigned char *at = s->arcs.p;
    l->from = whi_shard_piece(&at, 4 * n);
    l->to = whi_shard_piece(&at, 4 * n);
    l->done = whi_shard_piece(&at, n);
    if (mixed) {
        l->comes = whi_shard_piece(&at, 4 * n);
        l->goes = whi_shard_piece(&at, 4 * n);
        l->role = whi_shard_piece(&at, n);
        l->gone = whi_shard_piece(&at, n);
    } else if (s->undirected && !r->asks) {
        l->loops = whi_shard_piece(&at, 4 * n);
    }
    r->from = r->is_direct ? r->on.from : l->from;
    r->to = r->is_direct ? r->on.to : l->to;
    return 1;
}

/* An empty table for the arcs of a mixed batch that come. */
static wh_status lay_table(wh_shard *s, whi_shard_local *l) {
    uint64_t entries = 64;
    while (entries < l->n + l->n / 2) {
        entries *= 2;
    }
    if (!whi_shard_room(s, &s->table, 12 * entries)) {
        return WH_OUT_OF_MEMORY;
    }
    l->keys = (uint64_t *)(void *)s->table.p;
    l->holders = (uint32_t *)(void *)(l->keys + entries);
    l->mask = entries - 1;
    return wh_device_set(s->device, l->keys, 0xff, 8 * entries);
}

static wh_status unpack(wh_shard *s, whi_shard_route *r) {
    whi_shard_arrival a;
    uint64_t place = 0;
    memset(&a, 0, sizeof a);
    if (!lay_arcs(s, r)) {
        return WH_OUT_OF_MEMORY;
    }
    if (r->is_direct) {
        return WH_OK;
    }
    wh_status status = r->kind == WHI_SHARD_MIXED ? lay_table(s, &r->came) : WH_OK;
    a.in = (const uint64_t *)(const void *)(s->size == 1 ? s->sends.p : s->came.data);
    a.to = r->came;
    for (int p = 0; p < s->size && status == WH_OK; p++) {
        a.rank = a.segments == 0 ? (uint32_t)p : a.rank;
        a.first[a.segments++] = place;
        place += s->came_arcs[p];
        a.first[a.segments] = place;
        if (a.segments == WHI_SHARD_SEGMENTS || p + 1 == s->size) {
            status = s->kernels->unpack(s->device, &a);
            a.segments = 0;
        }
    }
    return status;
}

wh_status whi_shard_send(wh_shard *s, whi_shard_route *r) {
    uint64_t asks = r->batch->done != NULL;
    r->on.n = r->batch->n;
    r->is_direct = is_direct(s, r);
    whi_shard_report(s, pack(s, r), "a batch could not be packed on the device");
    whi_shard_lap(s, &s->times.route);
    if (r->kind != WHI_SHARD_ASKED) {
        wh_comm_add(s->comm, &asks, 1);
    }
    const wh_status status = swap(s);
    whi_shard_lap(s, &s->times.exchange);
    if (status != WH_OK) {
        return status;
    }
    r->asks = r->kind == WHI_SHARD_ASKED || asks != 0;
    if (r->asks && s->size != 1) {
        wh_comm_report(s->comm, wh_comm_buffer_reserve(&s->answers, most_arcs(s, r)),
                       "the device has no memory for answers");
    }
    r->came.n = 0;
    for (int p = 0; p < s->size; p++) {
        r->came.n += s->came_arcs[p];
    }
    if (r->came.n > WH_GRAPH_MOST_ARCS) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "more than 2^30 arcs come to one rank");
        r->came.n = 0;
    }
    if (r->came.n != 0) {
        const wh_status came = unpack(s, r);
        whi_shard_report(s, came, "a batch could not be unpacked on the device");
        r->came.n = came == WH_OK ? r->came.n : 0;
    }
    return WH_OK;
}

/* Brings to the caller what the ranks have answered. */
static wh_status tell(wh_shard *s, whi_shard_route *r) {
    whi_shard_told t;
    memset(&t, 0, sizeof t);
    t.place = r->on.seen;
    t.answers = s->size == 1 ? r->came.done : s->answers.data;
    t.told = r->told;
    t.n = r->on.n;
    t.has = r->kind == WHI_SHARD_ASKED;
    wh_status status = s->kernels->tell(s->device, &t);
    status = status == WH_OK ? wh_stream_sync(s->device, NULL) : status;
    whi_shard_lap(s, &s->times.answer);
    if (status == WH_OK && !r->batch->on_device) {
        status = wh_device_copy_out(s->device, r->batch->done, r->told, r->on.n);
        whi_shard_lap(s, &s->times.bring);
    }
    return status;
}

wh_status whi_shard_answer(wh_shard *s, whi_shard_route *r, wh_graph_result *result) {
    uint64_t sums[3] = {r->on.n, r->bad, r->applied};
    wh_status status = WH_OK;
    if (r->kind != WHI_SHARD_ASKED) {
        wh_comm_add(s->comm, sums, 3);
    }
    if (s->size == 1 || !r->asks) {
        status = wh_comm_agree(s->comm);
    } else {
        memcpy(s->out_bytes, s->came_arcs, (size_t)s->size * sizeof *s->out_bytes);
        status = wh_comm_all_to_all(s->comm, r->came.done, s->out_bytes, &s->answers);
    }
    r->is_agreed |= wh_comm_agreed(s->comm);
    whi_shard_lap(s, &s->times.answer);
    if (status != WH_OK) {
        return status;
    }
    result->applied = s->undirected ? sums[2] / 2 : sums[2];
    result->no_vertex = sums[1];
    result->no_change = sums[0] - sums[1] - result->applied;
    status = r->told != NULL && r->on.n != 0 ? tell(s, r) : WH_OK;
    return status == WH_OK ? status : wh_comm_give_up(s->comm, status, "answers could not be told");
}
