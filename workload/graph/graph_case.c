/* graph_case.c: the host side of the graph benchmark; graph_case.h says what is
 * measured and what is verified.
 */
#include "workload/graph/graph_case.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* A list of arcs on both sides. */
typedef struct batch {
    uint64_t n;
    uint32_t *from, *to, *done; /* host; done is filled by fetch_done */
    uint32_t *d_from, *d_to, *d_done;
} batch;

/* Samples of one operation. */
typedef struct samples {
    double *us; /* [reps] */
    uint32_t n;
    uint64_t failed;
    uint64_t bad;
    uint64_t steps;
    uint64_t atomics;
} samples;

typedef struct run {
    const wh_graph_case_options *o;
    const wh_multigraph_kernels *k;
    wh_heap *heap;
    wh_device *device;
    uint32_t caps;
    char *error;
    size_t error_size;

    uint32_t reps;
    uint64_t batch_arcs;
    uint32_t focus;
    uint64_t random;

    uint32_t n_vertices;
    wh_multigraph_view g; /* device pointers */
    wh_graph_csr base;    /* the file's graph */
    uint64_t *d_offset;   /* [n_vertices + 1], base */
    uint32_t *d_to;       /* [arcs], base */
    uint32_t *d_degree;   /* [n_vertices] */
    uint32_t *degree;     /* [n_vertices] */
    uint64_t *d_at;       /* [n_vertices + 1], where dump puts each adjacency */
    uint64_t *at;         /* [n_vertices + 1] */
    uint64_t live_before; /* blocks in the heap before init; WH_UNKNOWN if it cannot tell */

    /* The arcs that the graph must hold now: those of init, then batch after batch. */
    uint32_t *exp_from, *exp_to;
    uint64_t n_exp, room_exp;
} run;

/* --- small helpers --------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static wh_status fail(run *r, wh_status s, const char *format,
                                                            ...) {
    if (r->error != NULL && r->error_size != 0 && r->error[0] == '\0') {
        va_list list;
        va_start(list, format);
        (void)vsnprintf(r->error, r->error_size, format, list);
        va_end(list);
    }
    return s;
}

/* Passes a status on; the first one that is not OK leaves its text. */
static wh_status check(run *r, wh_status s, const char *what) {
    if (s == WH_OK) {
        return s;
    }
    return fail(r, s, "graph: %s: %s%s%s", what, wh_status_text(s),
                s == WH_DEVICE_ERROR ? ": " : "",
                s == WH_DEVICE_ERROR ? wh_device_error_text(r->device) : "");
}

static void *host_array(run *r, uint64_t n, size_t size) {
    void *p = n < SIZE_MAX / size ? malloc((size_t)(n + 1) * size) : NULL;
    if (p == NULL) {
        (void)check(r, WH_OUT_OF_MEMORY, "host memory");
    }
    return p;
}

static void *device_array(run *r, uint64_t n, size_t size) {
    void *p = NULL;
    const wh_status s = wh_device_alloc(r->device, &p, (n + 1) * size);
    if (s != WH_OK) {
        (void)check(r, s, "device memory beside the heap");
        return NULL;
    }
    return p;
}

static wh_status copy_in(run *r, void *to, const void *from, uint64_t bytes) {
    return bytes == 0 ? WH_OK
                      : check(r, wh_device_copy_in(r->device, to, from, bytes), "copying in");
}

static wh_status copy_out(run *r, void *to, const void *from, uint64_t bytes) {
    return bytes == 0 ? WH_OK
                      : check(r, wh_device_copy_out(r->device, to, from, bytes), "copying out");
}

/* xorshift64*, started off zero. */
static uint64_t next_random(run *r) {
    r->random ^= r->random >> 12;
    r->random ^= r->random << 25;
    r->random ^= r->random >> 27;
    return r->random * UINT64_C(0x2545F4914F6CDD1D);
}

static uint32_t random_below(run *r, uint32_t n) {
    return (uint32_t)(((next_random(r) >> 32) * n) >> 32);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* --- samples and rows --------------------------------------------------------------- */

static wh_status samples_init(run *r, samples *s, uint64_t reps) {
    memset(s, 0, sizeof *s);
    s->us = host_array(r, reps, sizeof *s->us);
    return s->us != NULL ? WH_OK : WH_OUT_OF_MEMORY;
}

static void emit_skipped(run *r, const char *op, const char *why) {
    wh_graph_case_row row;
    memset(&row, 0, sizeof row);
    row.op = op;
    row.skipped = why;
    r->o->emit(r->o->context, &row);
}

/* Drops the samples; on success, and where they show what is corrupt, their row, n items
 * a repetition, is emitted first. */
static void finish(run *r, samples *s, const char *op, uint64_t n, wh_status status) {
    if ((status == WH_OK || status == WH_CORRUPT) && s->n != 0) {
        wh_graph_case_row row;
        const uint64_t blocks = (n + WH_MULTIGRAPH_BLOCK_THREADS - 1) / WH_MULTIGRAPH_BLOCK_THREADS;
        const double all = (double)n * s->n;
        memset(&row, 0, sizeof row);
        qsort(s->us, s->n, sizeof *s->us, by_value);
        row.op = op;
        row.arcs = n;
        row.threads = MIN(blocks, WH_MULTIGRAPH_MAX_BLOCKS) * WH_MULTIGRAPH_BLOCK_THREADS;
        row.reps = s->n;
        row.us = s->n % 2 != 0 ? s->us[s->n / 2] : (s->us[s->n / 2 - 1] + s->us[s->n / 2]) / 2;
        row.us_min = s->us[0];
        row.us_max = s->us[s->n - 1];
        row.failed = s->failed;
        row.bad = s->bad;
        row.steps_per_arc = n != 0 ? (double)s->steps / all : 0;
        row.atomics_per_arc = n != 0 ? (double)s->atomics / all : 0;
        r->o->emit(r->o->context, &row);
    }
    free(s->us);
    s->us = NULL;
}

/* One kernel to be timed. */
typedef enum op_kind { OP_INIT, OP_INSERT, OP_REMOVE, OP_DESTROY } op_kind;

static wh_status start(run *r, op_kind op, const batch *b) {
    switch (op) {
    case OP_INIT:
        return r->k->init(r->heap, &r->g, r->d_offset, r->d_to);
    case OP_INSERT:
        return r->k->insert(r->heap, &r->g, b->d_from, b->d_to, b->n, b->d_done);
    case OP_REMOVE:
        return r->k->remove(r->heap, &r->g, b->d_from, b->d_to, b->n, b->d_done);
    case OP_DESTROY:
        break;
    }
    return r->k->destroy(r->heap, &r->g);
}

/* Runs and times one operation; what the device counted goes into the samples. */
static wh_status timed(run *r, samples *into, op_kind op, const batch *b, const char *what) {
    wh_multigraph_counts counts;
    wh_device_counters before, after;
    double us = 0;
    memset(&counts, 0, sizeof counts);
    wh_status s = copy_in(r, r->g.counts, &counts, sizeof counts);
    if (s == WH_OK) {
        s = check(r, wh_device_sync(r->device), what);
    }
    if (s == WH_OK) {
        s = check(r, wh_device_get_counters(r->device, &before), what);
    }
    if (s == WH_OK) {
        s = check(r, wh_device_timer_begin(r->device), what);
    }
    if (s == WH_OK) {
        s = check(r, start(r, op, b), what);
    }
    if (s == WH_OK) {
        s = check(r, wh_device_timer_end(r->device, &us), what);
    }
    if (s == WH_OK) {
        s = check(r, wh_device_sync(r->device), what);
    }
    if (s == WH_OK) {
        s = check(r, wh_device_get_counters(r->device, &after), what);
    }
    if (s == WH_OK) {
        s = copy_out(r, &counts, r->g.counts, sizeof counts);
    }
    if (s == WH_OK) {
        into->us[into->n++] = us;
        into->failed += counts.failed;
        into->bad += counts.missing; /* every arc that is deleted was inserted before */
        into->steps += after.steps - before.steps;
        into->atomics += after.atomics - before.atomics;
    }
    return s;
}

/* --- batches ---------------------------------------------------------------------- */

static void batch_free(run *r, batch *b) {
    free(b->from);
    free(b->to);
    free(b->done);
    (void)wh_device_free(r->device, b->d_from);
    (void)wh_device_free(r->device, b->d_to);
    (void)wh_device_free(r->device, b->d_done);
    memset(b, 0, sizeof *b);
}

static wh_status batch_make(run *r, batch *b, uint64_t n) {
    memset(b, 0, sizeof *b);
    b->n = n;
    b->from = host_array(r, n, sizeof *b->from);
    b->to = host_array(r, n, sizeof *b->to);
    b->done = host_array(r, n, sizeof *b->done);
    b->d_from = device_array(r, n, sizeof *b->from);
    b->d_to = device_array(r, n, sizeof *b->to);
    b->d_done = device_array(r, n, sizeof *b->done);
    if (b->from == NULL || b->to == NULL || b->done == NULL || b->d_from == NULL ||
        b->d_to == NULL || b->d_done == NULL) {
        batch_free(r, b);
        return WH_OUT_OF_MEMORY;
    }
    return WH_OK;
}

static wh_status batch_upload(run *r, batch *b) {
    wh_status s = copy_in(r, b->d_from, b->from, b->n * sizeof *b->from);
    return s == WH_OK ? copy_in(r, b->d_to, b->to, b->n * sizeof *b->to) : s;
}

/* Random arcs whose sources lie in [first, first + range). */
static wh_status batch_fill(run *r, batch *b, uint32_t first, uint32_t range) {
    for (uint64_t i = 0; i < b->n; i++) {
        b->from[i] = first + random_below(r, range);
        b->to[i] = random_below(r, r->n_vertices);
    }
    return batch_upload(r, b);
}

/* --- what is expected ------------------------------------------------------------------ */

static wh_status expect_room(run *r, uint64_t room) {
    if (room <= r->room_exp) {
        return WH_OK;
    }
    room = MAX(room, 2 * r->room_exp);
    uint32_t *from = realloc(r->exp_from, (size_t)room * sizeof *from);
    r->exp_from = from != NULL ? from : r->exp_from;
    uint32_t *to = realloc(r->exp_to, (size_t)room * sizeof *to);
    r->exp_to = to != NULL ? to : r->exp_to;
    if (from == NULL || to == NULL) {
        return check(r, WH_OUT_OF_MEMORY, "host memory");
    }
    r->room_exp = room;
    return WH_OK;
}

static void expect_arc(run *r, uint32_t from, uint32_t to) {
    r->exp_from[r->n_exp] = from;
    r->exp_to[r->n_exp] = to;
    r->n_exp++;
}

/* Adds the arcs of a batch that went in. */
static wh_status expect_batch(run *r, batch *b) {
    wh_status s = copy_out(r, b->done, b->d_done, b->n * sizeof *b->done);
    if (s == WH_OK) {
        s = expect_room(r, r->n_exp + b->n);
    }
    for (uint64_t i = 0; s == WH_OK && i < b->n; i++) {
        if (b->done[i] == WH_MULTIGRAPH_INSERTED) {
            expect_arc(r, b->from[i], b->to[i]);
        }
    }
    return s;
}

/* --- verification -------------------------------------------------------------------- */

/* Reads the degrees; r->at becomes their prefix sum. *broken: vertices whose fields
 * make no sense. */
static wh_status read_degrees(run *r, uint64_t *broken) {
    wh_multigraph_counts counts;
    memset(&counts, 0, sizeof counts);
    wh_status s = copy_in(r, r->g.counts, &counts, sizeof counts);
    if (s == WH_OK) {
        s = check(r, r->k->degrees(r->heap, &r->g, r->d_degree), "reading degrees");
    }
    if (s == WH_OK) {
        s = check(r, wh_device_sync(r->device), "reading degrees");
    }
    if (s == WH_OK) {
        s = copy_out(r, &counts, r->g.counts, sizeof counts);
    }
    if (s == WH_OK) {
        s = copy_out(r, r->degree, r->d_degree, r->n_vertices * sizeof *r->degree);
    }
    r->at[0] = 0;
    for (uint32_t v = 0; s == WH_OK && v < r->n_vertices; v++) {
        r->at[v + 1] = r->at[v] + r->degree[v];
    }
    *broken = counts.broken;
    return s;
}

/* Copies every adjacency back, as arcs: *from and *to of r->at[n_vertices] entries. */
static wh_status read_arcs(run *r, uint32_t **from, uint32_t **to) {
    const uint64_t n = r->at[r->n_vertices];
    uint32_t *device_to = device_array(r, n, sizeof *device_to);
    *from = host_array(r, n, sizeof **from);
    *to = host_array(r, n, sizeof **to);
    wh_status s = *from != NULL && *to != NULL && device_to != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    if (s == WH_OK) {
        s = copy_in(r, r->d_at, r->at, ((uint64_t)r->n_vertices + 1) * sizeof *r->at);
    }
    if (s == WH_OK) {
        s = check(r, r->k->dump(r->heap, &r->g, r->d_at, device_to), "copying adjacencies");
    }
    if (s == WH_OK) {
        s = check(r, wh_device_sync(r->device), "copying adjacencies");
    }
    if (s == WH_OK) {
        s = copy_out(r, *to, device_to, n * sizeof **to);
    }
    for (uint32_t v = 0; s == WH_OK && v < r->n_vertices; v++) {
        for (uint64_t i = r->at[v]; i < r->at[v + 1]; i++) {
            (*from)[i] = v;
        }
    }
    (void)wh_device_free(r->device, device_to);
    return s;
}

/* Entries that are in one of two sorted lists and not in the other. */
static uint64_t differences(const uint32_t *a, uint64_t n_a, const uint32_t *b, uint64_t n_b) {
    uint64_t i = 0, j = 0, n = 0;
    while (i < n_a && j < n_b) {
        n += a[i] != b[j];
        if (a[i] == b[j]) {
            i++;
            j++;
        } else if (a[i] < b[j]) {
            i++;
        } else {
            j++;
        }
    }
    return n + (n_a - i) + (n_b - j);
}

/* Compares what was read with what is expected. A target that is no vertex at all, the
 * mark of an array that somebody overwrote, is counted and taken out first. */
static wh_status compare(run *r, uint32_t *from, uint32_t *to, uint64_t *bad) {
    wh_graph_csr found, expected;
    uint64_t n = 0;
    for (uint64_t i = 0; i < r->at[r->n_vertices]; i++) {
        if (to[i] < r->n_vertices) {
            from[n] = from[i];
            to[n] = to[i];
            n++;
        }
    }
    *bad += r->at[r->n_vertices] - n;
    memset(&expected, 0, sizeof expected);
    wh_status s = wh_graph_csr_build(&found, r->n_vertices, from, to, n, NULL);
    if (s == WH_OK) {
        s = wh_graph_csr_build(&expected, r->n_vertices, r->exp_from, r->exp_to, r->n_exp, NULL);
    }
    for (uint32_t v = 0; s == WH_OK && v < r->n_vertices; v++) {
        const uint64_t f = found.offset[v], e = expected.offset[v];
        *bad += differences(found.to + f, found.offset[v + 1] - f, expected.to + e,
                            expected.offset[v + 1] - e);
    }
    wh_graph_csr_free(&found);
    wh_graph_csr_free(&expected);
    return check(r, s, "host memory");
}

/* Reads the whole graph back and compares it. CORRUPT if the fields of a vertex make no
 * sense: its array cannot be read, nor the graph be worked on. */
static wh_status verify_arcs(run *r, uint64_t *bad) {
    uint32_t *from = NULL, *to = NULL;
    uint64_t broken = 0;
    wh_status s = read_degrees(r, &broken);
    if (s == WH_OK && broken != 0) {
        *bad += broken;
        s = fail(r, WH_CORRUPT, "graph: the fields of %llu vertices were overwritten",
                 (unsigned long long)broken);
    }
    if (s == WH_OK) {
        s = read_arcs(r, &from, &to);
    }
    if (s == WH_OK) {
        s = compare(r, from, to, bad);
    }
    free(from);
    free(to);
    return s;
}

static wh_status verify_heap(run *r, uint64_t *bad) {
    if ((r->caps & WH_CAP_CHECK) == 0) {
        return WH_OK;
    }
    const wh_status s = wh_heap_check(r->heap, NULL);
    *bad += s == WH_CORRUPT;
    return check(r, s, "checking the heap");
}

/* Small graphs are verified after every repetition, all others after the last. */
static wh_status verify(run *r, samples *into, uint32_t rep, uint32_t reps) {
    const int last = rep + 1 == reps;
    wh_status s = WH_OK;
    if (last || r->n_exp <= 1u << 22) {
        s = verify_arcs(r, &into->bad);
    }
    return s == WH_OK && last ? verify_heap(r, &into->bad) : s;
}

/* --- operations -------------------------------------------------------------------------- */

/* After init: the file's arcs are expected but those of vertices that the heap could
 * not serve; their number must agree with what the device counted. */
static wh_status expect_file(run *r, samples *into, uint64_t failed) {
    const wh_graph_arcs *a = r->o->arcs;
    uint64_t broken = 0, empty = 0;
    wh_status s = expect_room(r, a->n_arcs);
    r->n_exp = 0;
    if (s == WH_OK) {
        s = read_degrees(r, &broken);
    }
    for (uint32_t v = 0; s == WH_OK && v < r->n_vertices; v++) {
        empty += r->degree[v] == 0 && r->base.offset[v + 1] != r->base.offset[v];
    }
    if (s == WH_OK && broken == 0 && empty != failed) {
        into->bad += empty > failed ? empty - failed : failed - empty;
    }
    for (uint64_t i = 0; s == WH_OK && i < a->n_arcs; i++) {
        if (failed == 0 || r->degree[a->from[i]] != 0) {
            expect_arc(r, a->from[i], a->to[i]);
        }
    }
    return s;
}

static wh_status do_init(run *r, samples *into) {
    const uint64_t failed_before = into->failed;
    const wh_status s = timed(r, into, OP_INIT, NULL, "init");
    return s == WH_OK ? expect_file(r, into, into->failed - failed_before) : s;
}

/* Blocks in the heap, WH_UNKNOWN if it does not tell. */
static wh_status live_blocks(run *r, uint64_t *live) {
    wh_stats stats;
    *live = WH_UNKNOWN;
    if ((r->caps & WH_CAP_STATS) == 0) {
        return WH_OK;
    }
    const wh_status s = check(r, wh_heap_get_stats(r->heap, &stats), "statistics of the heap");
    *live = s == WH_OK ? stats.live_blocks : WH_UNKNOWN;
    return s;
}

static int can_empty(const run *r) {
    return (r->caps & (WH_CAP_FREE | WH_CAP_RESET)) != 0;
}

/* Empties the graph and gives its memory back: by destroy, which is timed, or, where the
 * allocator cannot free, by a reset of the heap. */
static wh_status do_empty(run *r, samples *into) {
    wh_status s;
    r->n_exp = 0;
    if ((r->caps & WH_CAP_FREE) != 0) {
        uint64_t live = WH_UNKNOWN;
        s = timed(r, into, OP_DESTROY, NULL, "destroy");
        if (s == WH_OK) {
            s = live_blocks(r, &live);
        }
        if (live != WH_UNKNOWN && r->live_before != WH_UNKNOWN && live != r->live_before) {
            into->bad += live > r->live_before ? live - r->live_before : r->live_before - live;
        }
        return s == WH_OK ? verify_heap(r, &into->bad) : s;
    }
    s = check(r, wh_heap_reset(r->heap), "reset");
    return s == WH_OK ? check(r, r->k->clear(r->heap, &r->g), "clear") : s;
}

/* Repeated init; the graph stands afterwards. destroy is sampled in between. */
static wh_status run_init(run *r, samples *destroyed) {
    samples init;
    const uint32_t reps = can_empty(r) ? r->reps : 1;
    wh_status s = samples_init(r, &init, reps);
    for (uint32_t rep = 0; s == WH_OK && rep < reps; rep++) {
        if (rep != 0) {
            s = do_empty(r, destroyed);
        }
        if (s == WH_OK) {
            s = do_init(r, &init);
        }
        if (s == WH_OK) {
            s = verify(r, &init, rep, reps);
        }
    }
    finish(r, &init, "init", r->base.n_arcs, s);
    return s;
}

static wh_status do_insert(run *r, samples *into, batch *b) {
    const wh_status s = timed(r, into, OP_INSERT, b, "insert");
    return s == WH_OK ? expect_batch(r, b) : s;
}

/* Batches that go in and out again. range: how many vertices a batch starts from; the
 * first of them is drawn anew for each batch. */
static wh_status run_update(run *r, uint32_t range, const char *insert, const char *delete) {
    samples in, out;
    batch b;
    memset(&b, 0, sizeof b);
    memset(&out, 0, sizeof out);
    wh_status s = samples_init(r, &in, r->reps);
    if (s == WH_OK) {
        s = samples_init(r, &out, r->reps);
    }
    if (s == WH_OK) {
        s = batch_make(r, &b, r->batch_arcs);
    }
    for (uint32_t rep = 0; s == WH_OK && rep < r->reps; rep++) {
        const uint64_t before = r->n_exp;
        const uint32_t first = random_below(r, r->n_vertices - range + 1);
        s = batch_fill(r, &b, first, range);
        if (s == WH_OK) {
            s = do_insert(r, &in, &b);
        }
        if (s == WH_OK) {
            s = verify(r, &in, rep, r->reps);
        }
        if (s == WH_OK) {
            s = timed(r, &out, OP_REMOVE, &b, "delete");
        }
        r->n_exp = before;
        if (s == WH_OK) {
            s = verify(r, &out, rep, r->reps);
        }
    }
    batch_free(r, &b);
    finish(r, &in, insert, r->batch_arcs, s);
    finish(r, &out, delete, r->batch_arcs, s);
    return s;
}

/* A fresh graph, then batches that stay. */
static wh_status run_expand(run *r, samples *destroyed) {
    samples in;
    batch b;
    memset(&b, 0, sizeof b);
    wh_status s = samples_init(r, &in, MAX(r->reps, 1));
    if (s == WH_OK && can_empty(r)) {
        s = do_empty(r, destroyed);
        if (s == WH_OK) {
            s = do_init(r, &in);
        }
        in.n = 0; /* init is not what is timed here; its failures count */
        in.steps = in.atomics = 0;
    }
    if (s == WH_OK) {
        s = batch_make(r, &b, r->batch_arcs);
    }
    for (uint32_t rep = 0; s == WH_OK && rep < r->reps; rep++) {
        s = batch_fill(r, &b, 0, r->n_vertices);
        if (s == WH_OK) {
            s = do_insert(r, &in, &b);
        }
        if (s == WH_OK) {
            s = verify(r, &in, rep, r->reps);
        }
    }
    batch_free(r, &b);
    finish(r, &in, "expand", r->batch_arcs, s);
    return s;
}

typedef struct timed_arc {
    int64_t time;
    uint64_t arc;
} timed_arc;

/* By time, and in file order where times are equal. */
static int by_time(const void *a, const void *b) {
    const timed_arc *x = a, *y = b;
    const int t = (x->time > y->time) - (x->time < y->time);
    return t != 0 ? t : (x->arc > y->arc) - (x->arc < y->arc);
}

/* An empty graph, then the file's arcs in order of time, in batches of almost equal
 * size. */
static wh_status run_stream(run *r, samples *destroyed) {
    const wh_graph_arcs *a = r->o->arcs;
    const uint64_t batches = (a->n_arcs + r->batch_arcs - 1) / r->batch_arcs;
    const uint64_t most = (a->n_arcs + batches - 1) / batches;
    samples in;
    batch b;
    timed_arc *order = host_array(r, a->n_arcs, sizeof *order);
    memset(&b, 0, sizeof b);
    wh_status s = samples_init(r, &in, batches);
    s = order != NULL ? s : WH_OUT_OF_MEMORY;
    for (uint64_t i = 0; s == WH_OK && i < a->n_arcs; i++) {
        order[i].time = a->time[i];
        order[i].arc = i;
    }
    if (s == WH_OK) {
        qsort(order, (size_t)a->n_arcs, sizeof *order, by_time);
        s = do_empty(r, destroyed);
    }
    if (s == WH_OK) {
        s = batch_make(r, &b, most);
    }
    for (uint64_t first = 0; s == WH_OK && first < a->n_arcs; first += b.n) {
        b.n = MIN(most, a->n_arcs - first);
        for (uint64_t i = 0; i < b.n; i++) {
            b.from[i] = a->from[order[first + i].arc];
            b.to[i] = a->to[order[first + i].arc];
        }
        s = batch_upload(r, &b);
        if (s == WH_OK) {
            s = do_insert(r, &in, &b);
        }
    }
    if (s == WH_OK) {
        s = verify(r, &in, 0, 1);
    }
    free(order);
    batch_free(r, &b);
    finish(r, &in, "stream", most, s);
    return s;
}

/* --- the whole case ------------------------------------------------------------------------ */

static wh_status run_all(run *r) {
    samples destroyed;
    wh_status s = samples_init(r, &destroyed, (uint64_t)r->reps + 3);
    if (s == WH_OK) {
        s = run_init(r, &destroyed);
    }
    if (s == WH_OK) {
        s = run_update(r, r->n_vertices, "insert", "delete");
    }
    if (s == WH_OK) {
        s = run_update(r, r->focus, "focus-insert", "focus-delete");
    }
    if (s == WH_OK && r->o->no_expand == 0) {
        s = run_expand(r, &destroyed);
    }
    if (s == WH_OK && r->o->no_stream == 0 && r->o->arcs->time != NULL && r->o->arcs->n_arcs != 0) {
        if (can_empty(r)) {
            s = run_stream(r, &destroyed);
        } else {
            emit_skipped(r, "stream", "needs free or reset");
        }
    }
    if (s == WH_OK && can_empty(r)) {
        s = do_empty(r, &destroyed);
    }
    if (s == WH_OK && (r->caps & WH_CAP_FREE) == 0) {
        emit_skipped(r, "destroy", "needs free");
    }
    finish(r, &destroyed, "destroy", r->n_vertices, s);
    return s;
}

/* Chooses what the options leave open. */
static void choose(run *r) {
    const int sim = wh_device_get_info(r->device)->target == WH_TARGET_SIM;
    const uint64_t arcs = r->o->arcs->n_arcs;
    const uint64_t batch_arcs =
        sim ? MIN(MAX(arcs / 4, 1024), 16384) : MIN(MAX(arcs, 16384), 1000000);
    const uint32_t reps = sim ? 3 : 10;
    r->reps = r->o->reps != 0 ? r->o->reps : reps;
    r->batch_arcs = r->o->batch != 0 ? r->o->batch : batch_arcs;
    const uint64_t focus = MAX(MIN(MAX(r->n_vertices / 100, 16), 1024), r->batch_arcs / 1024);
    r->focus = (uint32_t)MIN(r->o->focus != 0 ? r->o->focus : focus, r->n_vertices);
    r->random = (r->o->seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
    r->random += r->random == 0;
}

static wh_status set_up(run *r) {
    const wh_graph_arcs *a = r->o->arcs;
    const uint64_t n = r->n_vertices;
    wh_status s =
        check(r, wh_graph_csr_build(&r->base, r->n_vertices, a->from, a->to, a->n_arcs, NULL),
              "host memory");
    if (s != WH_OK) {
        return s;
    }
    r->degree = host_array(r, n, sizeof *r->degree);
    r->at = host_array(r, n + 1, sizeof *r->at);
    r->g.vertices = device_array(r, n, sizeof *r->g.vertices);
    r->g.counts = device_array(r, 1, sizeof *r->g.counts);
    r->d_offset = device_array(r, n + 1, sizeof *r->d_offset);
    r->d_to = device_array(r, a->n_arcs, sizeof *r->d_to);
    r->d_degree = device_array(r, n, sizeof *r->d_degree);
    r->d_at = device_array(r, n + 1, sizeof *r->d_at);
    if (r->degree == NULL || r->at == NULL || r->g.vertices == NULL || r->g.counts == NULL ||
        r->d_offset == NULL || r->d_to == NULL || r->d_degree == NULL || r->d_at == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    r->g.n_vertices = r->n_vertices;
    r->g.shrink = (r->caps & WH_CAP_FREE) != 0 && r->o->no_shrink == 0;
    s = copy_in(r, r->d_offset, r->base.offset, (n + 1) * sizeof *r->base.offset);
    if (s == WH_OK) {
        s = copy_in(r, r->d_to, r->base.to, r->base.n_arcs * sizeof *r->base.to);
    }
    if (s == WH_OK) {
        s = check(r, r->k->clear(r->heap, &r->g), "clear");
    }
    return s == WH_OK ? live_blocks(r, &r->live_before) : s;
}

static void tear_down(run *r) {
    wh_graph_csr_free(&r->base);
    free(r->degree);
    free(r->at);
    free(r->exp_from);
    free(r->exp_to);
    (void)wh_device_free(r->device, r->g.vertices);
    (void)wh_device_free(r->device, r->g.counts);
    (void)wh_device_free(r->device, r->d_offset);
    (void)wh_device_free(r->device, r->d_to);
    (void)wh_device_free(r->device, r->d_degree);
    (void)wh_device_free(r->device, r->d_at);
}

wh_status wh_graph_case_run(const wh_graph_case_options *options, wh_heap *heap,
                            const wh_multigraph_kernels *kernels, char *error, size_t error_size) {
    run r;
    memset(&r, 0, sizeof r);
    if (error != NULL && error_size != 0) {
        error[0] = '\0';
    }
    r.error = error;
    r.error_size = error_size;
    if (options == NULL || options->arcs == NULL || options->arcs->n_vertices == 0 ||
        heap == NULL || kernels == NULL || options->emit == NULL) {
        return fail(&r, WH_BAD_ARGUMENT, "graph: a graph, a heap and its kernels are needed");
    }
    const wh_allocator_info *info = wh_allocator_find(kernels->allocator);
    if (info == NULL) {
        return fail(&r, WH_UNKNOWN_ALLOCATOR, "graph: no allocator '%s'", kernels->allocator);
    }
    r.o = options;
    r.k = kernels;
    r.heap = heap;
    r.device = wh_heap_device(heap);
    r.caps = info->caps;
    r.n_vertices = options->arcs->n_vertices;
    if ((r.caps & WH_CAP_DISJOINT) == 0) {
        emit_skipped(&r, "graph", "needs disjoint blocks");
        return WH_OK;
    }
    choose(&r);
    wh_status s = set_up(&r);
    if (s == WH_OK) {
        s = run_all(&r);
    }
    tear_down(&r);
    return s;
}
