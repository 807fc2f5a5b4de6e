/* shard_update.c: batches of arcs of a graph on several ranks, and questions whether they are
 * there.
 *
 * What comes is inserted first, then all ranks agree, then what goes is erased. So before the
 * agreement nothing is gone that would need memory to come back, and after it nothing can fail for
 * want of memory: an erasure takes none from the heap, and whi_shard_look has taken what it needs
 * of the device. An arc that the batch erases and inserts stays; what became of the two is what the
 * other order would have said.
 */
#include "workload/ranks/shard_route.h"

#include <stdlib.h>
#include <string.h>

/* An arc that comes, in order. */
typedef struct keyed {
    uint64_t key;
    uint64_t i;
    int taken; /* one that goes has it already */
} keyed;

/* What a batch does on this rank. */
typedef struct plan {
    keyed *comes;        /* in order; NULL: not both kinds are there */
    whi_shard_arcs rest; /* goes, and does not come as well */
    uint64_t *of_rest;   /* which of those that go each of them is */
} plan;

static uint64_t key_of(const whi_shard_arcs *a, uint64_t i) {
    return (uint64_t)a->from[i] << 32 | a->to[i];
}

static int compare_keyed(const void *a, const void *b) {
    const keyed *x = a, *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return x->i < y->i ? -1 : x->i > y->i;
}

/* The first one that comes with this key, or NULL. */
static keyed *find(const plan *p, uint64_t n, uint64_t key) {
    uint64_t first = 0, end = n;
    while (p->comes != NULL && first < end) {
        const uint64_t middle = first + (end - first) / 2;
        if (p->comes[middle].key < key) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return p->comes != NULL && first < n && p->comes[first].key == key ? &p->comes[first] : NULL;
}

/* 0, and a report: there is no host memory. */
static int make_plan(wh_shard *s, const whi_shard_route *r, plan *p) {
    const whi_shard_arcs *goes = &r->arcs[WHI_SHARD_GOES], *comes = &r->arcs[WHI_SHARD_COMES];
    memset(p, 0, sizeof *p);
    p->of_rest = whi_shard_take(s, goes->n, sizeof *p->of_rest);
    if (!whi_shard_arcs_room(s, &p->rest, goes->n) || p->of_rest == NULL) {
        return 0;
    }
    if (goes->n != 0 && comes->n != 0) {
        p->comes = whi_shard_take(s, comes->n, sizeof *p->comes);
        if (p->comes == NULL) {
            return 0;
        }
        for (uint64_t i = 0; i < comes->n; i++) {
            p->comes[i].key = key_of(comes, i);
            p->comes[i].i = i;
        }
        qsort(p->comes, comes->n, sizeof *p->comes, compare_keyed);
    }
    p->rest.n = 0;
    for (uint64_t i = 0; i < goes->n; i++) {
        if (find(p, comes->n, key_of(goes, i)) == NULL) {
            p->of_rest[p->rest.n] = i;
            p->rest.from[p->rest.n] = goes->from[i];
            p->rest.to[p->rest.n++] = goes->to[i];
        }
    }
    return 1;
}

/* Arcs that go and come were there (done says so): they are gone, and new. */
static void settle_both(whi_shard_route *r, plan *p) {
    whi_shard_arcs *goes = &r->arcs[WHI_SHARD_GOES], *comes = &r->arcs[WHI_SHARD_COMES];
    for (uint64_t i = 0; i < goes->n; i++) {
        keyed *k = find(p, comes->n, key_of(goes, i));
        if (k != NULL) {
            const int is_first = goes->done[i] && !k->taken;
            k->taken |= is_first;
            goes->done[i] = is_first ? WH_GRAPH_APPLIED : WH_GRAPH_NO_CHANGE;
            if (is_first) {
                comes->done[k->i] = WH_GRAPH_APPLIED;
            }
        }
    }
}

/* Up to the agreement: what comes is there, and what goes can go. */
static void prepare(wh_shard *s, whi_shard_route *r, plan *p) {
    wh_status status = whi_shard_look(s, &r->arcs[WHI_SHARD_GOES]);
    whi_shard_report(s, status, "a batch that erases");
    if (status == WH_OK && make_plan(s, r, p)) {
        status = whi_shard_apply(s, &r->arcs[WHI_SHARD_COMES], 0);
        whi_shard_report(s, status, "a batch that inserts");
    }
}

/* All ranks have agreed. */
static wh_status commit(wh_shard *s, whi_shard_route *r, plan *p) {
    const wh_status status = whi_shard_apply(s, &p->rest, 1);
    if (status != WH_OK) {
        return wh_comm_give_up(s->comm, status,
                               "arcs could not be erased: a part of the batch is "
                               "missing");
    }
    settle_both(r, p);
    for (uint64_t i = 0; i < p->rest.n; i++) {
        r->arcs[WHI_SHARD_GOES].done[p->of_rest[i]] = p->rest.done[i];
    }
    return WH_OK;
}

static wh_status apply(wh_shard *s, whi_shard_route *r, uint8_t *told) {
    plan p;
    memset(&p, 0, sizeof p);
    wh_status status = whi_shard_send(s, r);
    if (status == WH_OK) {
        prepare(s, r, &p);
        status = wh_comm_agree(s->comm);
        if (status == WH_OK) {
            status = commit(s, r, &p);
        } else if (whi_shard_take_back(s, &r->arcs[WHI_SHARD_COMES]) != WH_OK) {
            (void)wh_comm_give_up(s->comm, status, "arcs of a batch could not be taken back");
        }
        status = status == WH_OK ? whi_shard_answer(s, r, told) : status;
    }
    free(p.comes);
    free(p.of_rest);
    whi_shard_arcs_free(&p.rest);
    return status;
}

static wh_status check_batch(wh_shard *s, const wh_graph_batch *b) {
    int has_values = 0;
    for (uint32_t k = 0; b != NULL && k < WH_GRAPH_MOST_VALUES; k++) {
        has_values |= b->values[k] != NULL;
    }
    if (b == NULL || (b->n != 0 && (b->from == NULL || b->to == NULL)) ||
        b->n > WH_GRAPH_MOST_ARCS) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "a batch has two arrays, and at most 2^30 arcs");
        return WH_BAD_ARGUMENT;
    }
    if (has_values || b->on_device || b->stream != NULL) {
        wh_comm_report(s->comm, WH_UNSUPPORTED, "batches lie on the host, without values");
        return WH_UNSUPPORTED;
    }
    return WH_OK;
}

static void count_up(const uint8_t *told, uint64_t n, wh_graph_result *result) {
    memset(result, 0, sizeof *result);
    for (uint64_t i = 0; i < n; i++) {
        result->applied += told[i] == WH_GRAPH_APPLIED;
        result->no_change += told[i] == WH_GRAPH_NO_CHANGE;
        result->no_vertex += told[i] == WH_GRAPH_NO_VERTEX;
    }
}

static wh_status run(wh_shard *s, const wh_graph_batch *batch, whi_shard_route *r,
                     wh_graph_result *result) {
    const wh_graph_batch none = {0};
    const int is_sound = check_batch(s, batch) == WH_OK;
    wh_graph_result own = {0};
    r->batch = is_sound ? batch : &none;
    r->both_ways = s->undirected;
    uint8_t *told = whi_shard_take(s, r->batch->n, 1);
    wh_status status = apply(s, r, told);
    if (status == WH_OK) {
        count_up(told, batch->n, &own);
        if (batch->done != NULL) {
            memcpy(batch->done, told, batch->n);
        }
    }
    if (result != NULL) {
        *result = own;
    }
    free(told);
    whi_shard_route_free(r);
    return status == WH_OK && own.no_vertex != 0 ? WH_NO_VERTEX : status;
}

wh_status wh_shard_insert(wh_shard *s, const wh_graph_batch *batch, wh_graph_result *result) {
    whi_shard_route r = {0};
    const wh_status status = whi_shard_begin(s, "insert");
    r.kind = WHI_SHARD_COMES;
    return status != WH_OK ? status : run(s, batch, &r, result);
}

wh_status wh_shard_erase(wh_shard *s, const wh_graph_batch *batch, wh_graph_result *result) {
    whi_shard_route r = {0};
    const wh_status status = whi_shard_begin(s, "erase");
    r.kind = WHI_SHARD_GOES;
    return status != WH_OK ? status : run(s, batch, &r, result);
}

wh_status wh_shard_update(wh_shard *s, const wh_graph_batch *batch, wh_graph_result *result) {
    whi_shard_route r = {0};
    const wh_status status = whi_shard_begin(s, "update");
    if (status == WH_OK && batch != NULL && batch->n != 0 && batch->erases == NULL) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "wh_shard_update wants batch.erases");
    }
    r.erases = batch != NULL ? batch->erases : NULL;
    return status != WH_OK ? status : run(s, batch, &r, result);
}

wh_status wh_shard_has(wh_shard *s, const wh_graph_batch *batch) {
    whi_shard_route r = {0};
    const wh_graph_batch none = {0};
    wh_status status = whi_shard_begin(s, "has");
    if (status != WH_OK) {
        return status;
    }
    const int is_sound = check_batch(s, batch) == WH_OK;
    if (is_sound && batch->n != 0 && batch->done == NULL) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "wh_shard_has wants batch.done");
    }
    r.batch = is_sound ? batch : &none;
    r.kind = WHI_SHARD_GOES;
    uint8_t *told = whi_shard_take(s, r.batch->n, 1);
    status = whi_shard_send(s, &r);
    if (status == WH_OK) {
        whi_shard_report(s, whi_shard_look(s, &r.arcs[WHI_SHARD_GOES]), "questions of arcs");
        status = whi_shard_answer(s, &r, told);
    }
    for (uint64_t i = 0; status == WH_OK && i < batch->n; i++) {
        batch->done[i] = told[i] == 1;
    }
    free(told);
    whi_shard_route_free(&r);
    return status;
}
