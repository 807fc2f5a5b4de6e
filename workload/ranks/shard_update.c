/* shard_update.c: batches of arcs of a graph on several ranks, and questions whether they are
 * there.
 *
 * What comes is inserted first, then all ranks agree, then what goes is erased. So before the
 * agreement nothing is gone that would need memory to come back, and after it nothing can fail for
 * want of memory: an erasure takes none from the heap, and what it needs of the device has been
 * taken. To take back an insertion is an erasure, too: of what lies in adjacencies behind the
 * degrees that were noted before it. So nobody need know of each arc what became of it. An arc that
 * the batch erases and inserts stays; what became of the two is what the other order would have
 * said.
 */
#include "workload/ranks/shard_route.h"

#include <string.h>

/* Arcs that came, of this rank's graph; sources may be others, as NOWHERE for none. */
static wh_graph_batch batch_of(const whi_shard_route *r, const uint32_t *from, uint8_t *done) {
    wh_graph_batch b;
    memset(&b, 0, sizeof b);
    b.from = from;
    b.to = r->to;
    b.n = r->came.n;
    b.done = done;
    b.on_device = 1;
    return b;
}

/* The graph takes the arcs, or gives them up. Those without a source are meant to be none, but if
 * the batch is as it came. *applied grows by as many as are new, or gone. */
static wh_status apply_batch(wh_shard *s, whi_shard_route *r, const wh_graph_batch *b, int erases,
                             uint64_t *applied) {
    wh_graph_result result;
    memset(&result, 0, sizeof result);
    const wh_status status =
        erases ? wh_graph_erase(s->graph, b, &result) : wh_graph_insert(s->graph, b, &result);
    *applied += result.applied;
    r->bad = r->is_direct ? result.no_vertex : r->bad;
    return status == WH_NO_VERTEX ? WH_OK : status;
}

/* The same, with loops, where they are apart. */
static wh_status apply_all(wh_shard *s, whi_shard_route *r, const wh_graph_batch *b, int erases) {
    uint64_t ways = 0, loops = 0;
    uint32_t n = 0;
    wh_status status = apply_batch(s, r, b, erases, &ways);
    if (status == WH_OK && r->came.loops != NULL) {
        status = wh_device_copy_out(s->device, &n, &r->came.tally->loops, sizeof n);
    }
    if (status == WH_OK && n != 0) {
        wh_graph_batch apart = *b;
        apart.from = apart.to = r->came.loops;
        apart.n = n;
        status = apply_batch(s, r, &apart, erases, &loops);
    }
    r->inserted += erases ? 0 : ways + loops;
    r->applied = ways + 2 * loops;
    return status;
}

/* Of arcs whose done is known, what was applied. */
static wh_status sum_up(wh_shard *s, whi_shard_route *r) {
    const whi_shard_local *l = &r->came;
    wh_status status = s->kernels->sum_up(s->device, l);
    return status == WH_OK ? wh_device_copy_out(s->device, &r->applied, &l->tally->told, 8)
                           : status;
}

/* --- up to the agreement ------------------------------------------------------------------------
 */

/* The device memory that a batch of as many arcs takes. */
static wh_status prepare_erase(wh_shard *s, const whi_shard_route *r) {
    const uint64_t n = r->came.n;
    if (n <= s->graph_room) {
        return WH_OK;
    }
    const wh_graph_batch b = batch_of(r, r->from, r->came.done);
    const wh_status status = wh_graph_has(s->graph, &b);
    s->graph_room = status == WH_OK ? n : s->graph_room;
    return status;
}

static wh_status before(wh_shard *s, const whi_shard_route *r, whi_shard_before *b) {
    memset(b, 0, sizeof *b);
    b->degrees = (uint32_t *)(void *)s->degrees.p;
    b->from = r->came.from;
    b->to = r->came.to;
    b->tally = r->came.tally;
    return wh_graph_handle(s->graph, &b->graph);
}

static wh_status insert(wh_shard *s, whi_shard_route *r, const uint32_t *from, uint8_t *done) {
    const wh_graph_batch b = batch_of(r, from, done);
    whi_shard_before noted;
    wh_status status = before(s, r, &noted);
    status = status == WH_OK ? s->kernels->note(s->device, &noted) : status;
    status = status == WH_OK ? apply_all(s, r, &b, 0) : status;
    s->graph_room = status == WH_OK && b.n > s->graph_room ? b.n : s->graph_room;
    return status;
}

/* What comes is there, and what goes can go. */
static wh_status prepare(wh_shard *s, whi_shard_route *r) {
    const whi_shard_local *l = &r->came;
    if (l->n == 0) {
        return WH_OK;
    }
    if (r->kind == WHI_SHARD_ERASED) {
        return prepare_erase(s, r);
    }
    if (r->kind == WHI_SHARD_INSERTED) {
        const wh_status status = insert(s, r, r->from, r->asks ? l->done : NULL);
        return status == WH_OK && r->asks ? sum_up(s, r) : status;
    }
    const wh_status status = s->kernels->sort_out(s->device, l);
    return status == WH_OK ? insert(s, r, l->comes, l->done) : status;
}

/* --- after it -----------------------------------------------------------------------------------
 */

static wh_status take_back(wh_shard *s, whi_shard_route *r) {
    whi_shard_before noted;
    uint32_t n = 0;
    wh_status status = before(s, r, &noted);
    status = status == WH_OK ? s->kernels->find_new(s->device, &noted) : status;
    status = status == WH_OK ? wh_device_copy_out(s->device, &n, &noted.tally->fresh, 4) : status;
    if (status != WH_OK) {
        return status;
    }
    wh_graph_batch b = batch_of(r, noted.from, NULL);
    b.to = noted.to;
    b.n = n;
    return wh_graph_erase(s->graph, &b, NULL);
}

static wh_status erase(wh_shard *s, whi_shard_route *r) {
    const whi_shard_local *l = &r->came;
    const int mixed = r->kind == WHI_SHARD_MIXED, tells = mixed || r->asks;
    uint8_t *done = mixed ? l->gone : l->done;
    const wh_graph_batch b = batch_of(r, mixed ? l->goes : r->from, tells ? done : NULL);
    wh_status status = apply_all(s, r, &b, 1);
    status = status == WH_OK && mixed ? s->kernels->settle(s->device, l) : status;
    return status == WH_OK && tells ? sum_up(s, r) : status;
}

/* Where nothing goes, ranks agree as they answer. */
static wh_status agree(wh_shard *s, whi_shard_route *r) {
    if (r->kind == WHI_SHARD_INSERTED) {
        return WH_OK;
    }
    wh_status status = wh_comm_agree(s->comm);
    r->is_agreed = status == WH_OK;
    whi_shard_lap(s, &s->times.agree);
    if (status == WH_OK && r->came.n != 0) {
        status = erase(s, r);
        status = status == WH_OK ? status
                                 : wh_comm_give_up(s->comm, status,
                                                   "arcs could not be erased: a part of the batch "
                                                   "is missing");
    }
    whi_shard_lap(s, &s->times.apply);
    return status;
}

static wh_status apply(wh_shard *s, whi_shard_route *r, wh_graph_result *result) {
    wh_status status = whi_shard_send(s, r);
    if (status != WH_OK) {
        return status;
    }
    whi_shard_report(s, prepare(s, r), "a batch on this rank");
    whi_shard_lap(s, &s->times.apply);
    status = agree(s, r);
    status = status == WH_OK ? whi_shard_answer(s, r, result) : status;
    if (r->inserted != 0 && !r->is_agreed && take_back(s, r) != WH_OK) {
        (void)wh_comm_give_up(s->comm, status, "arcs of a batch could not be taken back");
    }
    return status;
}

/* --- calls --------------------------------------------------------------------------------------
 */

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

/* A batch that was too large for this rank's device leaves no memory taken that others need. */
static void give_back(wh_shard *s, wh_status status) {
    const wh_comm_failure *f = wh_comm_last_failure(s->comm);
    if (status == WH_OUT_OF_MEMORY && f->reason == WH_COMM_REPORTED && f->rank == s->rank) {
        whi_shard_drop(s, &s->input);
        whi_shard_drop(s, &s->seen);
        whi_shard_drop(s, &s->sends);
        whi_shard_drop(s, &s->arcs);
        whi_shard_drop(s, &s->table);
    }
}

static wh_status run(wh_shard *s, const wh_graph_batch *batch, whi_shard_kind kind,
                     wh_graph_result *result) {
    const wh_graph_batch none = {0};
    wh_graph_result own = {0};
    whi_shard_route r;
    memset(&r, 0, sizeof r);
    s->times.batches++;
    r.batch = is_sound(s, batch) ? batch : &none;
    r.kind = kind;
    const wh_status status = apply(s, &r, &own);
    give_back(s, status);
    if (result != NULL) {
        *result = own;
    }
    return status == WH_OK && own.no_vertex != 0 ? WH_NO_VERTEX : status;
}

wh_status wh_shard_insert(wh_shard *s, const wh_graph_batch *batch, wh_graph_result *result) {
    const wh_status status = whi_shard_begin(s, "insert");
    return status != WH_OK ? status : run(s, batch, WHI_SHARD_INSERTED, result);
}

wh_status wh_shard_erase(wh_shard *s, const wh_graph_batch *batch, wh_graph_result *result) {
    const wh_status status = whi_shard_begin(s, "erase");
    return status != WH_OK ? status : run(s, batch, WHI_SHARD_ERASED, result);
}

wh_status wh_shard_update(wh_shard *s, const wh_graph_batch *batch, wh_graph_result *result) {
    const wh_status status = whi_shard_begin(s, "update");
    if (status == WH_OK && batch != NULL && batch->n != 0 && batch->erases == NULL) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "wh_shard_update wants batch.erases");
        batch = NULL;
    }
    return status != WH_OK ? status : run(s, batch, WHI_SHARD_MIXED, result);
}

wh_status wh_shard_has(wh_shard *s, const wh_graph_batch *batch) {
    const wh_graph_batch none = {0};
    wh_graph_result result;
    whi_shard_route r;
    memset(&r, 0, sizeof r);
    wh_status status = whi_shard_begin(s, "has");
    if (status != WH_OK) {
        return status;
    }
    s->times.batches++;
    r.batch = is_sound(s, batch) ? batch : &none;
    r.kind = WHI_SHARD_ASKED;
    if (r.batch->n != 0 && r.batch->done == NULL) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "wh_shard_has wants batch.done");
        r.batch = &none;
    }
    status = whi_shard_send(s, &r);
    if (status == WH_OK && r.came.n != 0) {
        const wh_graph_batch b = batch_of(&r, r.from, r.came.done);
        whi_shard_report(s, wh_graph_has(s->graph, &b), "questions of arcs");
    }
    whi_shard_lap(s, &s->times.apply);
    status = status == WH_OK ? whi_shard_answer(s, &r, &result) : status;
    give_back(s, status);
    return status;
}
