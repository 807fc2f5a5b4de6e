/* state_cases.c: the cases full, pressure, drift, streams and waste must see a broken allocator. An
 * allocator is broken here by a kernel table whose launchers run the real kernel and then
 * change what it did, as a fault of the allocator would have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "bench/driver/internal.h"

typedef enum fault {
    NONE,
    TWICE,         /* malloc hands one block out twice in one launch */
    LIVE_AGAIN,    /*    ... a block that is live since an earlier launch */
    MISALIGNED,    /*    ... a block at an odd address */
    MALLOC_WRITES, /* malloc writes to a live block */
    FREE_WRITES,   /* free does */
    MALLOC_NULL,   /* one NULL a launch: no bad block, but to be counted */
    MALLOC_SERVES, /* an old block instead of one NULL a launch */
    SECOND_KERNEL, /* the second kernel of two does not see what the first one holds */
    TOO_USABLE,    /* usable_size says more than there is */
    SLOW_FIRST,    /* no fault: the first launch of mallocs of many sizes takes long */
} fault;

#define REMEMBERED 64u

/* What the launchers below share; one benchmark runs at a time. */
static struct {
    fault what;
    wh_device *device;
    const wh_bench_kernels *kernels;
    const wh_bench_ledger_kernels *ledger;
    whi_bench *bench;
    void *live[REMEMBERED]; /* blocks of the first launch of many */
    uint32_t n_live;
    void *last;              /* the block that was handed out last, by number of thread */
    uint64_t launches, done; /* done: how often the fault struck */
    uint64_t at_most_n;      /* strikes only in launches of at most so many mallocs */
    uint64_t most_n;         /* mallocs of many sizes in one launch, at most */
} broken;

static void **entries(void **device_ptrs, uint64_t n) {
    void **v = malloc((size_t)n * sizeof *v);
    assert_non_null(v);
    assert_int_equal(wh_device_copy_out(broken.device, v, device_ptrs, n * sizeof *v), WH_OK);
    return v;
}

/* A remembered block that is not among v[0..n). */
static void *other_live(void **v, uint64_t n) {
    for (uint32_t k = 0; k < broken.n_live; k++) {
        uint64_t i = 0;
        while (i < n && v[i] != broken.live[k]) {
            i++;
        }
        if (i == n) {
            return broken.live[k];
        }
    }
    return NULL;
}

static void write_to(void *p) {
    if (p != NULL) {
        assert_int_equal(wh_device_set(broken.device, p, 0x5a, 8), WH_OK);
        broken.done++;
    }
}

/* Whether no block is live: the next launch is the first one in a new heap. */
static int is_empty(void) {
    wh_stats stats;
    assert_int_equal(wh_heap_get_stats(broken.bench->heap, &stats), WH_OK);
    return stats.live_blocks == 0;
}

/* first: in a new heap. */
static void change_mallocs(const wh_bench_call *call, int first) {
    void **v = entries(call->ptrs, call->n);
    if (first) {
        broken.n_live = 0;
        for (uint64_t i = 0; i < call->n && broken.n_live < REMEMBERED; i++) {
            broken.live[broken.n_live] = v[i];
            broken.n_live += v[i] != NULL;
        }
    }
    for (uint64_t i = 0; i < call->n; i++) {
        broken.last = v[i] != NULL ? v[i] : broken.last;
    }
    if (broken.what == MALLOC_SERVES && call->n <= broken.at_most_n && v[0] == NULL) {
        v[0] = broken.last;
        broken.done++;
    } else if (call->n <= broken.at_most_n && v[0] != NULL) {
        if (broken.what == TWICE && call->n >= 2) {
            v[call->n - 1] = v[0];
            broken.done++;
        } else if (broken.what == LIVE_AGAIN && !first) {
            v[0] = broken.live[0];
            broken.done++;
        } else if (broken.what == MISALIGNED) {
            v[0] = (unsigned char *)v[0] + 8;
            broken.done++;
        } else if (broken.what == MALLOC_WRITES && !first) {
            write_to(other_live(v, call->n));
        } else if (broken.what == MALLOC_NULL) {
            v[0] = NULL;
            broken.done++;
        }
    }
    assert_int_equal(wh_device_copy_in(broken.device, call->ptrs, v, call->n * sizeof *v), WH_OK);
    free(v);
}

static wh_status malloc_single(const wh_launch *l, const wh_bench_call *call) {
    const int first = is_empty();
    const wh_status s = broken.kernels->malloc_single(l, call);
    change_mallocs(call, first);
    return s;
}

static wh_status malloc_mixed(const wh_launch *l, const wh_bench_call *call) {
    const double start = whi_bench_wall_seconds();
    broken.most_n = call->n > broken.most_n ? call->n : broken.most_n;
    while (broken.what == SLOW_FIRST && broken.done == 0 &&
           whi_bench_wall_seconds() - start < 0.06) {
    }
    broken.done += broken.what == SLOW_FIRST;
    const int first = is_empty();
    const wh_status s = broken.kernels->malloc_mixed(l, call);
    change_mallocs(call, first);
    return s;
}

static wh_status free_all(const wh_launch *l, const wh_bench_call *call) {
    const wh_status s = broken.kernels->free_all(l, call);
    if (broken.what == FREE_WRITES) {
        void **v = entries(call->ptrs, call->n);
        write_to(other_live(v, call->n));
        free(v);
    }
    return s;
}

static wh_status churn(const wh_launch *l, const wh_bench_call *call) {
    if (broken.what == SECOND_KERNEL && broken.launches++ % 2 == 1) {
        assert_int_equal(wh_heap_reset(broken.bench->heap), WH_OK);
        broken.done++;
    }
    return broken.kernels->churn_whole(l, call);
}

static wh_status probe(const wh_launch *l, const wh_bench_call *call) {
    const wh_status s = broken.ledger->probe(l, call);
    if (broken.what == TOO_USABLE) {
        uint32_t *v = malloc((size_t)call->n * sizeof *v);
        assert_non_null(v);
        const uint64_t bytes = call->n * sizeof *v;
        assert_int_equal(wh_device_copy_out(broken.device, v, call->sizes, bytes), WH_OK);
        for (uint64_t i = 0; i < call->n; i++) {
            v[i] += 16;
        }
        assert_int_equal(wh_device_copy_in(broken.device, call->sizes, v, bytes), WH_OK);
        free(v);
        broken.done++;
    }
    return s;
}

/* --- one run of one case ---------------------------------------------------------------- */

typedef struct run {
    wh_bench_options options;
    whi_bench_defaults defaults;
    wh_allocator_info info;
    wh_bench_kernels kernels;
    wh_bench_ledger_kernels ledger;
    whi_bench *b;
} run;

static void open_run(run *r, const char *allocator, fault what) {
    void *counts = NULL;
    memset(r, 0, sizeof *r);
    memset(&broken, 0, sizeof broken);
    r->b = calloc(1, sizeof *r->b);
    assert_non_null(r->b);
    assert_int_equal(wh_device_open(&r->b->device, "sim", NULL), WH_OK);
    r->defaults = *whi_bench_defaults_for(1);
    r->defaults.heap_bytes = (uint64_t)16 << 20;
    r->defaults.full_bytes = (uint64_t)4 << 20;
    r->defaults.refuse_bytes = (uint64_t)1 << 20;
    r->defaults.refuse_threads = 512;
    r->defaults.drift_bytes = (uint64_t)1 << 20;
    r->defaults.drift_batch = 4096;
    r->defaults.batch = 1024;
    r->defaults.stream_threads = 128;
    r->defaults.waste_sizes = 200;
    r->info = *wh_allocator_find(allocator);
    broken.what = what;
    broken.device = r->b->device;
    broken.kernels = wh_bench_kernels_find(allocator, WH_TARGET_SIM);
    broken.ledger = wh_bench_ledger_find(allocator, WH_TARGET_SIM);
    broken.bench = r->b;
    broken.at_most_n = UINT64_MAX;
    assert_non_null(broken.kernels);
    assert_non_null(broken.ledger);
    r->kernels = *broken.kernels;
    r->ledger = *broken.ledger;
    if (what != NONE) {
        r->kernels.malloc_single = malloc_single;
        r->kernels.malloc_mixed = malloc_mixed;
        r->kernels.free_all = free_all;
        r->kernels.churn_whole = churn;
        r->ledger.probe = probe;
    }
    r->b->options = &r->options;
    r->b->defaults = &r->defaults;
    r->b->info = wh_device_get_info(r->b->device);
    r->b->on_sim = 1;
    r->b->reps = 2;
    r->b->seed = 11;
    r->b->alloc = &r->info;
    r->b->kernels = &r->kernels;
    r->b->ledger_kernels = &r->ledger;
    r->b->rows = json_array();
    assert_int_equal(wh_device_alloc(r->b->device, &counts, sizeof(wh_bench_counts)), WH_OK);
    r->b->arrays.counts = counts;
}

static void close_run(run *r) {
    whi_bench *b = r->b;
    whi_bench_close_heap(b);
    assert_int_equal(wh_device_free(b->device, b->arrays.ptrs), WH_OK);
    assert_int_equal(wh_device_free(b->device, b->arrays.born), WH_OK);
    assert_int_equal(wh_device_free(b->device, b->arrays.claimed), WH_OK);
    assert_int_equal(wh_device_free(b->device, b->arrays.counts), WH_OK);
    wh_device_close(b->device);
    json_decref(b->rows);
    free(b);
}

static json_int_t integer_of(const json_t *row, const char *name) {
    assert_non_null(json_object_get(row, name));
    return json_integer_value(json_object_get(row, name));
}

static double real_of(const json_t *row, const char *name) {
    assert_non_null(json_object_get(row, name));
    return json_number_value(json_object_get(row, name));
}

static int is(const json_t *row, const char *name, const char *text) {
    return strcmp(json_string_value(json_object_get(row, name)), text) == 0;
}

/* Runs the case and holds its rows against the totals. */
static void run_case(run *r, const char *name) {
    uint64_t bad = 0;
    assert_int_equal(whi_bench_case(r->b, name), WH_OK);
    assert_true(json_array_size(r->b->rows) != 0);
    for (size_t i = 0; i < json_array_size(r->b->rows); i++) {
        const json_t *row = json_array_get(r->b->rows, i);
        assert_true(is(row, "case", name));
        bad += (uint64_t)integer_of(row, "bad");
    }
    assert_int_equal(bad, r->b->total_bad);
}

/* --- tests --------------------------------------------------------------------------------- */

static void test_sound_allocator(void **state) {
    static const char *const names[] = {"full", "pressure", "drift", "streams", "waste"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        run r;
        open_run(&r, "gallatin", NONE);
        run_case(&r, names[i]);
        assert_int_equal(r.b->total_bad, 0);
        close_run(&r);
    }
}

#ifndef WH_TSAN /* blocks that overlap are data races, as it would rightly report */

static void seen(const char *name, fault what) {
    run r;
    open_run(&r, "gallatin", what);
    run_case(&r, name);
    if (broken.done == 0 || r.b->total_bad == 0) {
        fail_msg("%s: fault %d struck %llu times, %llu bad blocks", name, (int)what,
                 (unsigned long long)broken.done, (unsigned long long)r.b->total_bad);
    }
    close_run(&r);
}

static void test_full(void **state) {
    run r;
    (void)state;
    open_run(&r, "gallatin", TWICE);
    run_case(&r, "full"); /* both fills are bad: also that of one size, where contents agree */
    assert_int_equal(json_array_size(r.b->rows), 2);
    assert_true(integer_of(json_array_get(r.b->rows, 0), "bad") != 0);
    assert_true(integer_of(json_array_get(r.b->rows, 1), "bad") != 0);
    close_run(&r);
    open_run(&r, "gallatin", MISALIGNED);
    run_case(&r, "full"); /* one in each launch, and no other is taken for bad */
    assert_int_equal(json_array_size(r.b->rows), 2);
    assert_int_equal(r.b->total_bad, broken.done);
    close_run(&r);
    seen("full", LIVE_AGAIN);
    seen("full", MALLOC_WRITES);
    seen("full", FREE_WRITES);
}

static void test_pressure(void **state) {
    run r;
    (void)state;
    open_run(&r, "gallatin", MISALIGNED);
    run_case(&r, "pressure"); /* the fill is bad: nothing was timed */
    assert_int_equal(json_array_size(r.b->rows), 4);
    for (size_t i = 0; i < 2; i++) {
        const json_t *row = json_array_get(r.b->rows, i);
        assert_true(is(row, "op", "refuse"));
        assert_int_equal(integer_of(row, "bad"), 1);
        assert_int_equal(integer_of(row, "reps"), 0);
    }
    close_run(&r);
    open_run(&r, "null", NONE); /* its blocks overlap, and it never says NULL */
    r.info.caps |= WH_CAP_DISJOINT | WH_CAP_FREE;
    run_case(&r, "pressure");
    assert_int_equal(json_array_size(r.b->rows), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *row = json_array_get(r.b->rows, i);
        assert_true(is(row, "op", i < 2 ? "refuse" : "churn"));
        assert_int_equal(integer_of(row, "failed"), 0);
        assert_true(i < 2 || integer_of(row, "bad") != 0);
    }
    close_run(&r);
}

static void test_drift(void **state) {
    (void)state;
    seen("drift", TWICE);
    seen("drift", LIVE_AGAIN);
    seen("drift", MISALIGNED);
    seen("drift", MALLOC_WRITES);
    seen("drift", FREE_WRITES);
}

static void test_streams(void **state) {
    run r;
    (void)state;
    seen("streams", SECOND_KERNEL);
    open_run(&r, "null", NONE); /* its blocks overlap; now it promises that they do not */
    r.info.caps |= WH_CAP_DISJOINT | WH_CAP_FREE;
    run_case(&r, "streams");
    assert_true(r.b->total_bad != 0);
    close_run(&r);
}

static void test_waste(void **state) {
    run r;
    (void)state;
    seen("waste", TOO_USABLE);
    open_run(&r, "null", NONE); /* its usable_size is 0: below every request */
    r.info.caps |= WH_CAP_DISJOINT | WH_CAP_USABLE_SIZE;
    run_case(&r, "waste");
    assert_true(r.b->total_bad != 0);
    close_run(&r);
}

#endif

/* Blocks that a heap cannot serve are in the rows, each. Of this size Gallatin reuses every
 * block at once, so no other malloc fails in a heap that is not full. */
static void test_failures_in_full(void **state) {
    static const uint64_t size = 16384;
    run r;
    (void)state;
    open_run(&r, "gallatin", NONE);
    r.options.sizes = &size;
    r.options.n_sizes = 1;
    r.b->options = &r.options;
    run_case(&r, "full");
    uint64_t measured = 0;
    for (size_t i = 0; i < json_array_size(r.b->rows); i++) {
        const json_t *row = json_array_get(r.b->rows, i);
        if (is(row, "op", "malloc") && json_object_get(row, "size_min") == NULL) {
            measured++;
            assert_int_equal(integer_of(row, "failed"), 0);
        }
    }
    assert_int_equal(measured, 3);
    close_run(&r);

    open_run(&r, "gallatin", MALLOC_NULL);
    r.options.sizes = &size;
    r.options.n_sizes = 1;
    broken.at_most_n = r.defaults.batch - 1; /* the fill's launches are larger */
    run_case(&r, "full");
    uint64_t failed = 0;
    for (size_t i = 0; i < json_array_size(r.b->rows); i++) {
        const json_t *row = json_array_get(r.b->rows, i);
        if (is(row, "op", "malloc")) {
            failed += (uint64_t)integer_of(row, "failed");
            assert_true(integer_of(row, "failed") >= 2); /* one in each repetition */
        }
        assert_int_equal(integer_of(row, "bad"), 0);
    }
    assert_true(broken.done >= 6);
    assert_true(failed >= broken.done);
    close_run(&r);
}

/* A full heap gives nobody anything, and a row tells when it gives one. */
static void test_failures_in_pressure(void **state) {
    static const fault faults[] = {NONE, MALLOC_SERVES};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        run r;
        open_run(&r, "gallatin", faults[k]);
        broken.at_most_n = r.defaults.batch - 1; /* the fill's launches are larger */
        run_case(&r, "pressure");
        assert_int_equal(json_array_size(r.b->rows), 4);
        for (size_t i = 0; i < 4; i++) {
            const json_t *row = json_array_get(r.b->rows, i);
            const json_int_t ops = integer_of(row, "ops");
            const json_int_t reps = integer_of(row, "reps");
            assert_int_equal(integer_of(row, "bad"), 0);
            assert_int_equal(integer_of(row, "size"), i % 2 == 0 ? 256 : 4096);
            if (i < 2) {
                assert_true(is(row, "op", "refuse"));
                assert_int_equal(ops, r.defaults.refuse_threads);
                assert_int_equal(reps, 2);
                assert_int_equal(integer_of(row, "failed"), reps * (ops - (json_int_t)k));
            } else {
                assert_true(is(row, "op", "churn"));
                assert_int_equal(ops, integer_of(row, "threads") * r.defaults.churn_steps);
                assert_int_equal(reps, r.defaults.pressure_reps);
                assert_true(integer_of(row, "failed") > 0 && integer_of(row, "failed") < ops);
            }
        }
        assert_int_equal(broken.done, k == 0 ? 0 : 4); /* each repetition, both sizes */
        /* 136 and 2056 bytes in the mean */
        const uint64_t n = r.defaults.pressure_bytes * 2 / 136;
        assert_in_range(integer_of(json_array_get(r.b->rows, 2), "threads"), n - 128, n + 128);
        assert_int_equal(integer_of(json_array_get(r.b->rows, 3), "threads"), 256);
        close_run(&r);
    }
}

/* A round that misses its target says so, and why: a NULL. */
static void test_failures_in_drift(void **state) {
    run r;
    (void)state;
    open_run(&r, "gallatin", MALLOC_NULL);
    run_case(&r, "drift");
    const json_t *first = json_array_get(r.b->rows, 0);
    assert_int_equal(integer_of(first, "round"), 1);
    assert_int_equal(integer_of(first, "failed"), 1);
    assert_int_equal(integer_of(first, "threads"), r.defaults.drift_batch);
    assert_true(real_of(first, "filled") < 0.5);
    close_run(&r);

    open_run(&r, "gallatin", NONE);
    run_case(&r, "drift");
    assert_int_equal(json_array_size(r.b->rows), 24);
    for (size_t i = 0; i < 24; i++) {
        const json_t *row = json_array_get(r.b->rows, i);
        assert_int_equal(integer_of(row, "round"), i + 1);
        assert_true(real_of(row, "filled") <= 1.05);
        assert_true(integer_of(row, "failed") != 0 || real_of(row, "filled") > 0.98);
        assert_true(integer_of(row, "live_bytes") <= (json_int_t)r.defaults.drift_bytes);
        assert_true(integer_of(row, "largest") < (json_int_t)r.defaults.drift_bytes);
    }
    assert_int_equal(integer_of(json_array_get(r.b->rows, 0), "failed"), 0);
    assert_int_equal(integer_of(json_array_get(r.b->rows, 0), "size_min"), 12);
    assert_int_equal(integer_of(json_array_get(r.b->rows, 23), "size"), 5120);
    close_run(&r);
}

/* Where the first batch, a small one, takes long, no later one is larger. */
static void test_slow_drift(void **state) {
    run r;
    (void)state;
    open_run(&r, "gallatin", SLOW_FIRST);
    r.defaults.drift_first = 256;
    run_case(&r, "drift");
    assert_int_equal(r.b->total_bad, 0);
    assert_int_equal(json_array_size(r.b->rows), 24);
    assert_int_equal(broken.most_n, 256);
    close_run(&r);
}

/* Thinning keeps the share asked for, frees each of the others once, and moves no entry
 * away from its size. */
static void test_ledger(void **state) {
    enum { N = 4000 };
    run r;
    wh_bench_counts c;
    wh_stats stats;
    uint64_t freed = 0;
    (void)state;
    open_run(&r, "gallatin", NONE);
    whi_bench *b = r.b;
    whi_bench_plan p;
    whi_bench_ledger ledger;
    const whi_bench_blocks blocks = {N, 16, 1000};
    assert_int_equal(whi_bench_begin(b, &p, (uint64_t)16 << 20, blocks), WH_OK);
    assert_int_equal(whi_bench_ledger_open(b, &ledger, N), WH_OK);
    whi_bench_ledger_tail(&ledger, &p, blocks);
    assert_int_equal(whi_bench_launch(&p, b->kernels->malloc_mixed, N), WH_OK);
    assert_int_equal(whi_bench_ledger_record(&ledger, &p), WH_OK);
    assert_int_equal(ledger.n, N);
    const uint32_t all = WHI_BENCH_CONTENTS | WHI_BENCH_PLACES;
    assert_int_equal(whi_bench_ledger_verify(&ledger, &p, all, &c), WH_OK);
    assert_int_equal(c.served, N);
    assert_int_equal(c.bad, 0);
    assert_in_range(c.requested, N * 480, N * 536); /* the mean is 508 */
    assert_int_equal(whi_bench_ledger_thin(&ledger, &p, 0.25, 3, &freed, NULL), WH_OK);
    assert_in_range(ledger.n, N / 4 - 150, N / 4 + 150); /* 5 sigma */
    assert_int_equal(freed + ledger.n, N);
    assert_int_equal(wh_heap_get_stats(b->heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, ledger.n);
    assert_int_equal(stats.bad_frees, 0);
    assert_int_equal(ledger.patterned, ledger.n);
    assert_int_equal(whi_bench_ledger_verify(&ledger, &p, all, &c), WH_OK);
    assert_int_equal(c.served, ledger.n);
    assert_int_equal(c.bad, 0);
    assert_int_equal(whi_bench_ledger_thin(&ledger, &p, 0, 4, &freed, NULL), WH_OK);
    assert_int_equal(ledger.n, 0);
    assert_int_equal(wh_heap_get_stats(b->heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, 0);
    whi_bench_ledger_close(b, &ledger);
    close_run(&r);
}

/* The kernels whose registers are counted do what they are named for. */
static void test_register_kernels(void **state) {
    enum { N = 64 };
    static const uint64_t live[WH_BENCH_REGISTER_KERNELS] = {0, 0, N, 0, N};
    run r;
    (void)state;
    open_run(&r, "gallatin", NONE);
    whi_bench *b = r.b;
    const wh_bench_register_kernels *all = wh_bench_registers_find("gallatin", WH_TARGET_SIM);
    assert_non_null(all);
    const wh_bench_register_kernel *k = all->kernel;
    whi_bench_plan p;
    assert_int_equal(whi_bench_begin(b, &p, (uint64_t)16 << 20, (whi_bench_blocks){N, 40, 40}),
                     WH_OK);
    for (uint32_t i = 0; i < WH_BENCH_REGISTER_KERNELS; i++) {
        wh_stats stats;
        assert_int_equal(whi_bench_launch(&p, k[i].launch, N), WH_OK);
        assert_int_equal(wh_heap_get_stats(b->heap, &stats), WH_OK);
        assert_int_equal(stats.live_blocks, live[i]);
        assert_null(k[i].symbol);
    }
    close_run(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_allocator),
#ifndef WH_TSAN
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_pressure),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_waste),
#endif
        cmocka_unit_test(test_failures_in_full),
        cmocka_unit_test(test_failures_in_pressure),
        cmocka_unit_test(test_failures_in_drift),
        cmocka_unit_test(test_slow_drift),
        cmocka_unit_test(test_ledger),
        cmocka_unit_test(test_register_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
