/* shard_vertices.c: vertices of a graph on several ranks that come and go.
 *
 * Which ids are vertices all ranks know, and change alike. In the graph of each rank all ids are
 * vertices, always: those that are removed there, with all arcs from them and to them, are added
 * again at once. */
#include "workload/ranks/shard_own.h"

#include <stdlib.h>
#include <string.h>

/* Takes an id: the one that was removed last, or the first one that never was. */
static uint32_t take_id(wh_shard *s) {
    const uint32_t v = s->n_free != 0 ? s->free_ids[--s->n_free] : s->next++;
    s->is[v] = 1;
    s->live++;
    whi_shard_changed(s, v);
    return v;
}

wh_status wh_shard_add_vertices(wh_shard *s, uint64_t n, uint32_t *ids) {
    uint64_t sum = 0, of_rank = 0;
    wh_status status = whi_shard_begin(s, "add_vertices");
    if (status != WH_OK) {
        return status;
    }
    if (n != 0 && ids == NULL) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "wh_shard_add_vertices wants an array");
    }
    status = wh_comm_all_gather(s->comm, &n, sizeof n, &s->got);
    for (int r = 0; status == WH_OK && r < s->size; r++) {
        memcpy(&of_rank, s->got.data + s->got.offset[r], sizeof of_rank);
        sum = of_rank > s->n || sum > s->n ? (uint64_t)s->n + 1 : sum + of_rank;
    }
    if (status == WH_OK && sum > (uint64_t)s->n - s->live) { /* all ranks find the same */
        wh_comm_report(s->comm, WH_OUT_OF_MEMORY, "there are not as many ids");
        status = wh_comm_agree(s->comm);
    }
    for (int r = 0; status == WH_OK && r < s->size; r++) {
        memcpy(&of_rank, s->got.data + s->got.offset[r], sizeof of_rank);
        for (uint64_t i = 0; i < of_rank; i++) {
            const uint32_t v = take_id(s);
            if (r == s->rank) {
                ids[i] = v;
            }
        }
    }
    return status;
}

/* What of the lists of all ranks goes, in list. All ranks find the same. */
static void choose(wh_shard *s, uint32_t *list, wh_graph_vertices_result *result) {
    for (int r = 0; r < s->size; r++) {
        const uint64_t entries = s->got.bytes[r] / 4;
        for (uint64_t i = 0; i < entries; i++) {
            uint32_t v = 0;
            memcpy(&v, s->got.data + s->got.offset[r] + 4 * i, 4);
            if (v >= s->n || s->is[v] == 0) {
                result->no_vertex++;
            } else if (s->is[v] == 2) { /* chosen before */
                result->no_change++;
            } else {
                s->is[v] = 2;
                list[result->applied++] = v;
            }
        }
    }
}

/* The vertices of list go from this rank's graph, and come back without arcs. */
static wh_status remove_here(wh_shard *s, uint32_t *list, uint64_t n, uint64_t *arcs) {
    wh_graph_vertices_result result;
    for (uint64_t at = 0; at < n; at += WHI_SHARD_REMOVE_PIECE) {
        wh_graph_vertex_list l;
        memset(&l, 0, sizeof l);
        l.ids = list + at;
        l.n = n - at < WHI_SHARD_REMOVE_PIECE ? n - at : WHI_SHARD_REMOVE_PIECE;
        wh_status status = wh_graph_remove_vertices(s->graph, &l, &result);
        if (status == WH_OK) {
            *arcs += result.arcs;
            l.ids = NULL;
            status = wh_graph_add_vertices(s->graph, &l, &result);
        }
        if (status != WH_OK) {
            return wh_comm_give_up(s->comm, status, "vertices could not be removed");
        }
    }
    return WH_OK;
}

wh_status wh_shard_remove_vertices(wh_shard *s, const uint32_t *ids, uint64_t n,
                                   wh_graph_vertices_result *result) {
    wh_graph_vertices_result all = {0};
    uint32_t *list = NULL;
    wh_status status = whi_shard_begin(s, "remove_vertices");
    if (status != WH_OK) {
        return status;
    }
    if (n != 0 && ids == NULL) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "wh_shard_remove_vertices wants a list");
    }
    list = whi_shard_take(s, s->n, sizeof *list);
    unsigned char *out = whi_shard_out(s, n * 4);
    if (out != NULL && ids != NULL && n != 0) {
        memcpy(out, ids, n * 4);
    }
    status = wh_comm_all_gather(s->comm, s->out, n * 4, &s->got);
    if (status == WH_OK) {
        choose(s, list, &all);
        for (uint64_t i = 0; i < all.applied; i++) {
            s->is[list[i]] = 0;
            whi_shard_changed(s, list[i]);
            s->free_ids[s->n_free++] = list[i];
            s->live--;
        }
        status = remove_here(s, list, all.applied, &all.arcs);
        if (status == WH_OK) {
            status = wh_comm_all_reduce(s->comm, &all.arcs, 1, WH_COMM_U64, WH_COMM_SUM);
        }
    }
    free(list);
    if (result != NULL) {
        *result = all;
    }
    return status == WH_OK && all.no_vertex != 0 ? WH_NO_VERTEX : status;
}
