/* shard_move.c: vertices of a graph on several ranks that go to another rank, with their arcs. The
 * ids stay; the map of owners, which all ranks have, changes.
 *
 * As with a batch: the new owners insert, all ranks agree, the old owners erase. */
#include "workload/ranks/shard_own.h"

#include <stdlib.h>
#include <string.h>

/* What is to be done, and what this rank does. */
typedef struct move {
    int32_t *to; /* of each id, the rank; -1: it stays */
    whi_shard_rows rows;
    whi_shard_arcs goes, comes;
} move;

static int moves(const wh_shard *s, const move *m, uint32_t v) {
    return m->to[v] >= 0 && m->to[v] != s->owner[v];
}

static uint64_t row_bytes(const whi_shard_rows *rows, uint32_t v) {
    return 8 + 4 * (rows->offset[v + 1] - rows->offset[v]);
}

/* Rows for their new owners: vertex, degree, neighbours; and as a batch that goes from here. */
static void pack_rows(wh_shard *s, move *m) {
    uint64_t bytes = 0, arcs = 0;
    for (uint32_t v = 0; v < s->n; v++) {
        if (s->owner[v] == s->rank && moves(s, m, v)) {
            const uint64_t row = row_bytes(&m->rows, v);
            s->out_bytes[m->to[v]] += row;
            bytes += row;
            arcs += (row - 8) / 4;
        }
    }
    unsigned char *out = whi_shard_out(s, bytes);
    if (out == NULL || !whi_shard_arcs_room(s, &m->goes, arcs)) {
        return;
    }
    bytes = arcs = 0;
    for (int r = 0; r < s->size; r++) {
        s->at[r] = bytes;
        bytes += s->out_bytes[r];
    }
    for (uint32_t v = 0; v < s->n; v++) {
        if (s->owner[v] == s->rank && moves(s, m, v)) {
            const uint32_t degree = (uint32_t)((row_bytes(&m->rows, v) - 8) / 4);
            const uint32_t *to = m->rows.to + m->rows.offset[v];
            unsigned char *at = out + s->at[m->to[v]];
            memcpy(at, &v, 4);
            memcpy(at + 4, &degree, 4);
            memcpy(at + 8, to, 4 * (size_t)degree);
            memcpy(m->goes.to + arcs, to, 4 * (size_t)degree);
            for (uint32_t i = 0; i < degree; i++) {
                m->goes.from[arcs++] = v;
            }
            s->at[m->to[v]] += 8 + 4 * (uint64_t)degree;
        }
    }
}

static void unpack_rows(wh_shard *s, move *m) {
    const uint32_t *at = (const uint32_t *)(const void *)s->got.data;
    const uint32_t *end = at + s->got.offset[s->size] / 4;
    uint64_t n = 0;
    if (!whi_shard_arcs_room(s, &m->comes, (uint64_t)(end - at))) { /* more than enough */
        return;
    }
    while (at < end) {
        const uint32_t v = at[0], degree = at[1];
        for (uint32_t i = 0; i < degree; i++) {
            m->comes.from[n] = v;
            m->comes.to[n++] = at[2 + i];
        }
        at += 2 + degree;
    }
    m->comes.n = n;
}

/* All ranks have the same m->to. */
static wh_status run(wh_shard *s, move *m) {
    memset(s->out_bytes, 0, (size_t)s->size * sizeof *s->out_bytes);
    if (whi_shard_rows_of(s, &m->rows) == WH_OK) {
        pack_rows(s, m);
    }
    wh_status status = wh_comm_all_to_all(s->comm, s->out, s->out_bytes, &s->got);
    if (status != WH_OK) {
        return status;
    }
    unpack_rows(s, m);
    status = whi_shard_look(s, &m->goes);
    status = status == WH_OK ? whi_shard_apply(s, &m->comes, 0) : status;
    whi_shard_report(s, status, "vertices that come from another rank");
    status = wh_comm_agree(s->comm);
    if (status != WH_OK) {
        if (whi_shard_take_back(s, &m->comes) != WH_OK) {
            (void)wh_comm_give_up(s->comm, status, "vertices could not be given back");
        }
        return status;
    }
    status = whi_shard_apply(s, &m->goes, 1);
    if (status != WH_OK) {
        return wh_comm_give_up(s->comm, status, "vertices that went could not be erased");
    }
    for (uint32_t v = 0; v < s->n; v++) {
        if (moves(s, m, v)) {
            s->owner[v] = (uint16_t)m->to[v];
            whi_shard_changed(s, v);
            s->has_order = 0;
        }
    }
    return WH_OK;
}

static void end(move *m) {
    free(m->to);
    whi_shard_rows_free(&m->rows);
    whi_shard_arcs_free(&m->goes);
    whi_shard_arcs_free(&m->comes);
}

static int32_t *take_map(wh_shard *s) {
    int32_t *to = whi_shard_take(s, s->n, sizeof *to);
    if (to != NULL) {
        memset(to, 0xff, (uint64_t)s->n * sizeof *to);
    }
    return to;
}

/* Id and rank of each entry of this rank's list, for all ranks. */
static void pack_list(wh_shard *s, const uint32_t *ids, uint64_t n, int to) {
    uint32_t *out = (uint32_t *)(void *)whi_shard_out(s, n * 8);
    int is_sound = n == 0 || (ids != NULL && to >= 0 && to < s->size);
    for (uint64_t i = 0; i < n && is_sound && out != NULL; i++) {
        is_sound = ids[i] < s->n;
        out[2 * i] = ids[i];
        out[2 * i + 1] = (uint32_t)to;
    }
    if (!is_sound) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "wh_shard_move: no such id, or no such rank");
    }
}

wh_status wh_shard_move(wh_shard *s, const uint32_t *ids, uint64_t n, int to) {
    move m = {0};
    wh_status status = whi_shard_begin(s, "move");
    if (status != WH_OK) {
        return status;
    }
    m.to = take_map(s);
    pack_list(s, ids, n, to);
    status = wh_comm_all_gather(s->comm, s->out, n * 8, &s->got);
    if (status == WH_OK) {
        const uint32_t *words = (const uint32_t *)(const void *)s->got.data;
        for (uint64_t i = 0; i < s->got.offset[s->size] / 8; i++) {
            m.to[words[2 * i]] = (int32_t)words[2 * i + 1];
        }
        status = run(s, &m);
    }
    end(&m);
    return status;
}

static int lightest(const wh_shard *s, const uint64_t *load) {
    int least = 0;
    for (int r = 1; r < s->size; r++) {
        least = load[r] < load[least] ? r : least;
    }
    return least;
}

/* The same on all ranks, as all know all degrees. Returns how many vertices move. Cost: O(ids), and
 * O(ranks) for each that does. */
static uint64_t plan(const wh_shard *s, const uint32_t *degree, double most, uint64_t *load,
                     int32_t *to) {
    uint64_t sum = 0, n = 0;
    memset(load, 0, (size_t)s->size * sizeof *load);
    for (uint32_t v = 0; v < s->n; v++) {
        load[s->owner[v]] += degree[v];
        sum += degree[v];
    }
    const double limit = most * (double)sum / s->size;
    int least = lightest(s, load); /* another one only after a move */
    for (uint32_t v = 0; v < s->n; v++) {
        const int from = s->owner[v];
        if (degree[v] != 0 && (double)load[from] > limit && load[least] + degree[v] < load[from]) {
            to[v] = least;
            load[from] -= degree[v];
            load[least] += degree[v];
            least = lightest(s, load);
            n++;
        }
    }
    return n;
}

wh_status wh_shard_rebalance(wh_shard *s, double most, uint64_t *moved) {
    move m = {0};
    uint64_t n = 0;
    wh_status status = whi_shard_begin(s, "rebalance");
    if (status != WH_OK) {
        return status;
    }
    if (!(most >= 1)) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "wh_shard_rebalance: 1 or more, please");
    }
    uint64_t *load = whi_shard_take(s, (uint64_t)s->size, sizeof *load);
    uint32_t *degree = whi_shard_take(s, s->n, sizeof *degree);
    m.to = take_map(s);
    if (degree != NULL) {
        whi_shard_report(s, wh_graph_degrees(s->graph, degree, 0, NULL), "degrees");
    }
    status = whi_shard_spread(s, degree, sizeof *degree);
    if (status == WH_OK) {
        n = plan(s, degree, most, load, m.to);
        wh_comm_expect(s->comm, (uint64_t)(most * 1e6), "limits of loads");
        status = run(s, &m);
    }
    if (moved != NULL) {
        *moved = status == WH_OK ? n : 0;
    }
    free(load);
    free(degree);
    end(&m);
    return status;
}
