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
    const uint64_t answers = r->arcs[WHI_SHARD_GOES].n + r->arcs[WHI_SHARD_COMES].n;
    if (status == WH_OK && make_plan(s, r, p) && whi_shard_out(s, answers) != NULL) {
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
    whi_shard_lap(s, &s->times.exchange);
    if (status == WH_OK) {
        prepare(s, r, &p);
        whi_shard_lap(s, &s->times.apply);
        status = wh_comm_agree(s->comm);
        whi_shard_lap(s, &s->times.agree);
        if (status == WH_OK) {
            status = commit(s, r, &p);
        } else if (whi_shard_take_back(s, &r->arcs[WHI_SHARD_COMES]) != WH_OK) {
            (void)wh_comm_give_up(s->comm, status, "arcs of a batch could not be taken back");
        }
        whi_shard_lap(s, &s->times.apply);
        status = status == WH_OK ? whi_shard_answer(s, r, told) : status;
        whi_shard_lap(s, &s->times.answer);
    }
    free(p.comes);
    free(p.of_rest);
    whi_shard_arcs_free(&p.rest);
    return status;
}

static int is_sound(wh_shard *s, const wh_graph_batch *b) {
    int has_values = 0;
    for (uint32_t k = 0; b != NULL && k < WH_GRAPH_MOST_VALUES; k++) {
        has_values |= b->values[k] != NULL;
    }
    if (b == NULL || (b->n != 0 && (b->from == NULL || b->to == NULL)) ||
        b->n > WH_GRAPH_MOST_ARCS) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "a batch has two arrays, and at most 2^30 arcs");
        return 0;
    }
    if (has_values) {
        wh_comm_report(s->comm, WH_UNSUPPORTED, "arcs on several ranks have no values");
    }
    return !has_values;
}

/* A batch on the host: the caller's, or a copy of what lies on the device. */
typedef struct host_batch {
    wh_graph_batch b;
    uint32_t *from, *to;
    uint8_t *erases, *told;
} host_batch;

/* Failures are reported; then there is no arc. */
static void bring(wh_shard *s, const wh_graph_batch *batch, host_batch *h) {
    memset(h, 0, sizeof *h);
    if (!is_sound(s, batch)) {
        return;
    }
    const uint64_t n = batch->n;
    h->b = *batch;
    h->told = whi_shard_take(s, n, 1);
    if (batch->on_device) {
        h->from = whi_shard_take(s, n, sizeof *h->from);
        h->to = whi_shard_take(s, n, sizeof *h->to);
        h->erases = whi_shard_take(s, n, 1);
        h->b.from = h->from;
        h->b.to = h->to;
        h->b.erases = batch->erases != NULL ? h->erases : NULL;
        wh_status status = h->from && h->to && h->erases ? WH_OK : WH_OUT_OF_MEMORY;
        status = status == WH_OK ? wh_stream_sync(s->device, batch->stream) : status;
        if (status == WH_OK && n != 0) {
            status = wh_device_copy_out(s->device, h->from, batch->from, n * 4);
            status =
                status == WH_OK ? wh_device_copy_out(s->device, h->to, batch->to, n * 4) : status;
            if (status == WH_OK && batch->erases != NULL) {
                status = wh_device_copy_out(s->device, h->erases, batch->erases, n);
            }
        }
        wh_comm_report(s->comm, status, "a batch could not be copied from the device");
        h->b.n = status == WH_OK ? n : 0;
    }
}

/* What became of each arc, to the caller. The ranks have agreed. */
static wh_status bring_back(wh_shard *s, const wh_graph_batch *batch, host_batch *h) {
    if (batch->done == NULL || batch->n == 0) {
        return WH_OK;
    }
    if (!batch->on_device) {
        memcpy(batch->done, h->told, batch->n);
        return WH_OK;
    }
    const wh_status status = wh_device_copy_in(s->device, batch->done, h->told, batch->n);
    return status == WH_OK ? status
                           : wh_comm_give_up(s->comm, status,
                                             "answers cannot be copied to the "
                                             "device");
}

static void drop(host_batch *h) {
    free(h->from);
    free(h->to);
    free(h->erases);
    free(h->told);
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
    wh_graph_result own = {0};
    host_batch h;
    bring(s, batch, &h);
    s->times.batches++;
    whi_shard_lap(s, &s->times.bring);
    r->batch = &h.b;
    r->erases = r->erases != NULL ? h.b.erases : NULL;
    r->both_ways = s->undirected;
    wh_status status = apply(s, r, h.told);
    if (status == WH_OK) {
        count_up(h.told, batch->n, &own);
        status = bring_back(s, batch, &h);
    }
    if (result != NULL) {
        *result = own;
    }
    drop(&h);
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
    host_batch h;
    wh_status status = whi_shard_begin(s, "has");
    if (status != WH_OK) {
        return status;
    }
    bring(s, batch, &h);
    if (h.b.n != 0 && batch->done == NULL) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "wh_shard_has wants batch.done");
    }
    r.batch = &h.b;
    r.kind = WHI_SHARD_GOES;
    status = whi_shard_send(s, &r);
    if (status == WH_OK) {
        whi_shard_report(s, whi_shard_look(s, &r.arcs[WHI_SHARD_GOES]), "questions of arcs");
        status = whi_shard_answer(s, &r, h.told);
    }
    for (uint64_t i = 0; status == WH_OK && i < h.b.n; i++) {
        h.told[i] = h.told[i] == 1;
    }
    status = status == WH_OK ? bring_back(s, batch, &h) : status;
    drop(&h);
    whi_shard_route_free(&r);
    return status;
}
