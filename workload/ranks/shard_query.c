/* shard_query.c: degrees and arrays of a graph on several ranks. */
#include "workload/ranks/shard_own.h"

#include <stdlib.h>
#include <string.h>

/* A rank's entries go in the order of their ids, which all ranks know. */
wh_status whi_shard_spread(wh_shard *s, void *array, size_t bytes) {
    unsigned char *all = array;
    uint64_t n = 0;
    for (uint32_t v = 0; v < s->n; v++) {
        n += s->owner[v] == s->rank;
    }
    unsigned char *out = whi_shard_out(s, n * bytes);
    for (uint32_t v = 0; v < s->n && out != NULL && all != NULL; v++) {
        if (s->owner[v] == s->rank) {
            memcpy(out, all + v * bytes, bytes);
            out += bytes;
        }
    }
    const wh_status status = wh_comm_all_gather(s->comm, s->out, n * bytes, &s->got);
    if (status != WH_OK) {
        return status;
    }
    memcpy(s->at, s->got.offset, (size_t)s->size * sizeof *s->at);
    for (uint32_t v = 0; v < s->n; v++) {
        memcpy(all + v * bytes, s->got.data + s->at[s->owner[v]], bytes);
        s->at[s->owner[v]] += bytes;
    }
    return WH_OK;
}

wh_status wh_shard_degrees(wh_shard *s, uint32_t *degree) {
    const wh_status status = whi_shard_begin(s, "degrees");
    if (status != WH_OK) {
        return status;
    }
    if (degree == NULL) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "wh_shard_degrees wants an array");
    } else {
        whi_shard_report(s, wh_graph_degrees(s->graph, degree, 0, NULL), "degrees");
    }
    return whi_shard_spread(s, degree, sizeof *degree);
}

/* Offsets of all rows from the degrees; *n: arcs. */
static void lay_rows(const wh_shard *s, const uint32_t *degree, uint64_t *offset, uint64_t *n) {
    *n = 0;
    for (uint32_t v = 0; v < s->n; v++) {
        if (offset != NULL) {
            offset[v] = *n;
        }
        *n += degree[v];
    }
    if (offset != NULL) {
        offset[s->n] = *n;
    }
}

/* A rank that wants the arrays, or none. */
static const wh_graph_arrays *wanted(const wh_shard *s, int root, const wh_graph_arrays *a) {
    return root == WH_SHARD_ALL || root == s->rank ? a : NULL;
}

/* The rows of all ranks, in the order of their owner's ids, to where they belong. */
static void place_rows(wh_shard *s, const uint32_t *degree, uint32_t *to) {
    memcpy(s->at, s->got.offset, (size_t)s->size * sizeof *s->at);
    for (uint32_t v = 0; v < s->n; v++) {
        uint64_t *at = &s->at[s->owner[v]];
        memcpy(to, s->got.data + *at, (uint64_t)degree[v] * 4);
        *at += (uint64_t)degree[v] * 4;
        to += degree[v];
    }
}

static wh_status send_rows(wh_shard *s, int root, const uint32_t *degree,
                           const wh_graph_arrays *a) {
    whi_shard_rows rows;
    (void)whi_shard_rows_of(s, &rows);
    const uint64_t bytes = rows.arcs * 4;
    unsigned char *out = whi_shard_out(s, bytes);
    if (out != NULL && rows.to != NULL) {
        memcpy(out, rows.to, bytes);
    }
    whi_shard_rows_free(&rows);
    memset(s->out_bytes, 0, (size_t)s->size * sizeof *s->out_bytes);
    wh_comm_expect(s->comm, (uint64_t)(root - WH_SHARD_ALL), "root");
    if (root != WH_SHARD_ALL) {
        s->out_bytes[root] = bytes;
    }
    const wh_status status = root == WH_SHARD_ALL
                                 ? wh_comm_all_gather(s->comm, s->out, bytes, &s->got)
                                 : wh_comm_all_to_all(s->comm, s->out, s->out_bytes, &s->got);
    if (status == WH_OK && a != NULL) {
        place_rows(s, degree, a->to);
    }
    return status;
}

wh_status wh_shard_to_csr(wh_shard *s, int root, const wh_graph_arrays *arrays, uint64_t *n) {
    wh_status status = whi_shard_begin(s, "to_csr");
    uint64_t own = 0;
    if (status != WH_OK) {
        return status;
    }
    const wh_graph_arrays *a = wanted(s, root, arrays);
    const int wants = root == WH_SHARD_ALL || root == s->rank;
    if (root >= s->size || root < WH_SHARD_ALL || n == NULL ||
        (wants && (a == NULL || a->offset == NULL || a->on_device || a->stream != NULL))) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "wh_shard_to_csr: arrays on the host, please");
        a = NULL;
    }
    uint32_t *degree = whi_shard_take(s, s->n, sizeof *degree);
    if (degree != NULL) {
        whi_shard_report(s, wh_graph_degrees(s->graph, degree, 0, NULL), "degrees");
    }
    status = whi_shard_spread(s, degree, sizeof *degree);
    if (status == WH_OK) {
        lay_rows(s, degree, a != NULL ? a->offset : NULL, &own);
        *n = own;
        if (a != NULL && (own > a->room || (own != 0 && a->to == NULL))) {
            wh_comm_report(s->comm, WH_BAD_ARGUMENT, "there is no room for all arcs");
        }
        status = send_rows(s, root, degree, a);
    }
    free(degree);
    return status;
}
