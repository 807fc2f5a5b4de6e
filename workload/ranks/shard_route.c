/* shard_route.c: arcs to the owners of their sources, and back.
 *
 * A message: how many arcs go and how many come, 64 bits each; then sources and ends of those that
 * go, sources and ends of those that come. Nothing where there are none. The answer: a byte for
 * each, in the same order.
 */
#include "workload/ranks/shard_route.h"

#include <stdlib.h>
#include <string.h>

typedef struct way {
    uint32_t from, to;
} way;

static whi_shard_kind kind_of(const whi_shard_route *r, uint64_t i) {
    if (r->erases == NULL) {
        return r->kind;
    }
    return r->erases[i] != 0 ? WHI_SHARD_GOES : WHI_SHARD_COMES;
}

/* The ways that arc i takes: none if an end is no vertex. The first one tells. */
static int ways_of(const wh_shard *s, const whi_shard_route *r, uint64_t i, way ways[2]) {
    const uint32_t a = r->batch->from[i], b = r->batch->to[i];
    const way straight = {a, b}, back = {b, a};
    if (!wh_shard_is_vertex(s, a) || !wh_shard_is_vertex(s, b)) {
        return 0;
    }
    ways[0] = r->both_ways && b < a ? back : straight;
    ways[1] = r->both_ways && b < a ? straight : back;
    return r->both_ways && a != b ? 2 : 1;
}

static int lay_counts(wh_shard *s, whi_shard_route *r) {
    const uint64_t n = (uint64_t)s->size;
    r->counts = whi_shard_take(s, 6 * n, sizeof *r->counts);
    for (int k = 0; k < WHI_SHARD_KINDS && r->counts != NULL; k++) {
        r->sent[k] = r->counts + (uint64_t)k * n;
        r->at[k] = r->counts + (uint64_t)(2 + k) * n;
        r->came[k] = r->counts + (uint64_t)(4 + k) * n;
    }
    return r->counts != NULL;
}

static void count(wh_shard *s, whi_shard_route *r) {
    way ways[2];
    for (uint64_t i = 0; i < r->batch->n; i++) {
        const int n = ways_of(s, r, i, ways);
        for (int k = 0; k < n; k++) {
            r->sent[kind_of(r, i)][s->owner[ways[k].from]]++;
        }
    }
}

/* Where the numbers of a kind begin in a message, as 32-bit words from its begin. */
static uint64_t begin_of(const uint64_t counts[2], whi_shard_kind kind) {
    return 4 + (kind == WHI_SHARD_COMES ? 2 * counts[WHI_SHARD_GOES] : 0);
}

static uint64_t message_bytes(uint64_t goes, uint64_t comes) {
    return goes + comes != 0 ? 16 + 8 * (goes + comes) : 0;
}

static void pack(wh_shard *s, whi_shard_route *r, unsigned char *out) {
    way ways[2];
    uint64_t begin = 0;
    for (int rank = 0; rank < s->size; rank++) {
        const uint64_t counts[2] = {r->sent[WHI_SHARD_GOES][rank], r->sent[WHI_SHARD_COMES][rank]};
        s->at[rank] = begin;
        if (s->out_bytes[rank] != 0) {
            memcpy(out + begin, counts, sizeof counts);
        }
        begin += s->out_bytes[rank];
    }
    for (uint64_t i = 0; i < r->batch->n; i++) {
        const int n = ways_of(s, r, i, ways);
        const whi_shard_kind kind = kind_of(r, i);
        for (int k = 0; k < n; k++) {
            const int rank = s->owner[ways[k].from];
            const uint64_t counts[2] = {r->sent[0][rank], r->sent[1][rank]};
            uint32_t *words = (uint32_t *)(void *)(out + s->at[rank]) + begin_of(counts, kind);
            const uint64_t place = r->at[kind][rank]++;
            words[place] = ways[k].from;
            words[counts[kind] + place] = ways[k].to;
        }
    }
}

/* What came, into arrays of each kind. */
static void unpack(wh_shard *s, whi_shard_route *r) {
    uint64_t sum[2] = {0, 0};
    for (int rank = 0; rank < s->size; rank++) {
        uint64_t counts[2] = {0, 0};
        if (s->got.bytes[rank] != 0) {
            memcpy(counts, s->got.data + s->got.offset[rank], sizeof counts);
        }
        for (int k = 0; k < WHI_SHARD_KINDS; k++) {
            r->came[k][rank] = counts[k];
            sum[k] += counts[k];
        }
    }
    if (!whi_shard_arcs_room(s, &r->arcs[0], sum[0]) ||
        !whi_shard_arcs_room(s, &r->arcs[1], sum[1])) {
        return;
    }
    uint64_t at[2] = {0, 0};
    for (int rank = 0; rank < s->size; rank++) {
        const uint64_t counts[2] = {r->came[0][rank], r->came[1][rank]};
        const unsigned char *data = s->got.data + s->got.offset[rank];
        for (int k = 0; k < WHI_SHARD_KINDS && counts[0] + counts[1] != 0; k++) {
            const unsigned char *words = data + 4 * begin_of(counts, (whi_shard_kind)k);
            memcpy(r->arcs[k].from + at[k], words, counts[k] * 4);
            memcpy(r->arcs[k].to + at[k], words + counts[k] * 4, counts[k] * 4);
            at[k] += counts[k];
        }
    }
}

wh_status whi_shard_send(wh_shard *s, whi_shard_route *r) {
    memset(s->out_bytes, 0, (size_t)s->size * sizeof *s->out_bytes);
    if (lay_counts(s, r)) {
        uint64_t bytes = 0;
        count(s, r);
        for (int rank = 0; rank < s->size; rank++) {
            s->out_bytes[rank] = message_bytes(r->sent[0][rank], r->sent[1][rank]);
            bytes += s->out_bytes[rank];
        }
        if (whi_shard_out(s, bytes) != NULL) {
            pack(s, r, s->out);
        }
    }
    const wh_status status = wh_comm_all_to_all(s->comm, s->out, s->out_bytes, &s->got);
    if (status == WH_OK) {
        unpack(s, r);
    }
    return status;
}

/* The bytes of all arcs that came, as the ranks want them. */
static void pack_answers(wh_shard *s, whi_shard_route *r, unsigned char *out) {
    uint64_t at[2] = {0, 0};
    for (int rank = 0; rank < s->size; rank++) {
        s->out_bytes[rank] = r->came[0][rank] + r->came[1][rank];
        for (int k = 0; k < WHI_SHARD_KINDS; k++) {
            memcpy(out, r->arcs[k].done + at[k], r->came[k][rank]);
            out += r->came[k][rank];
            at[k] += r->came[k][rank];
        }
    }
}

wh_status whi_shard_answer(wh_shard *s, whi_shard_route *r, uint8_t *told) {
    way ways[2];
    memset(s->out_bytes, 0, (size_t)s->size * sizeof *s->out_bytes);
    if (whi_shard_out(s, r->arcs[0].n + r->arcs[1].n) != NULL && r->arcs[0].done != NULL &&
        r->arcs[1].done != NULL) {
        pack_answers(s, r, s->out);
    }
    const wh_status status = wh_comm_all_to_all(s->comm, s->out, s->out_bytes, &s->got);
    if (status != WH_OK) {
        return status;
    }
    memset(r->at[0], 0, 2 * (size_t)s->size * sizeof *r->at[0]);
    for (uint64_t i = 0; i < r->batch->n; i++) {
        const int n = ways_of(s, r, i, ways);
        const whi_shard_kind kind = kind_of(r, i);
        told[i] = WH_GRAPH_NO_VERTEX;
        for (int k = n - 1; k >= 0; k--) { /* the first way last */
            const int rank = s->owner[ways[k].from];
            const uint64_t before = kind == WHI_SHARD_COMES ? r->sent[WHI_SHARD_GOES][rank] : 0;
            told[i] = s->got.data[s->got.offset[rank] + before + r->at[kind][rank]];
            r->at[kind][rank]++;
        }
    }
    return WH_OK;
}

void whi_shard_route_free(whi_shard_route *r) {
    free(r->counts);
    whi_shard_arcs_free(&r->arcs[0]);
    whi_shard_arcs_free(&r->arcs[1]);
}
