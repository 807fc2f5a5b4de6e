/* aged_cases.c: the cases server, cells, slabhash and fill-log must see a broken allocator. An
 * allocator is broken here as in state_cases.c: launchers run the real kernel and then change what
 * it did. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "bench/driver/internal.h"

typedef enum fault {
    NONE,
    TWICE,      /* a live block is handed out once more: it has two places, or two chains */
    MISALIGNED, /* a block at an odd address */
    WRITES,     /* a word of a live block is written to */
    LEAKS,      /* a block is nobody's, and never freed */
    LOSES,      /* a key of the slab hash is gone */
    DOUBLES,    /* one is there twice */
    LENGTHENS,  /* a chain of slabs leads back to its beginning */
} fault;

/* What the launchers below share; one benchmark runs at a time. */
static struct {
    fault what;
    uint64_t launch; /* it strikes in this one, from 1 */
    uint64_t launches, done;
    wh_device *device;
    wh_bench_heaps_kernels kernels;
} broken;

/* Whether the fault strikes now. */
static int strikes(void) {
    const int now = ++broken.launches == broken.launch && broken.what != NONE;
    broken.done += now ? 1 : 0;
    return now;
}

static uint64_t get(const void *p) {
    uint64_t v = 0;
    assert_int_equal(wh_device_copy_out(broken.device, &v, p, sizeof v), WH_OK);
    return v;
}

static void put(void *p, uint64_t v) {
    assert_int_equal(wh_device_copy_in(broken.device, p, &v, sizeof v), WH_OK);
}

/* Breaks the first two of the blocks at ptrs. */
static void break_blocks(void **ptrs) {
    unsigned char *p = (unsigned char *)(uintptr_t)get(ptrs);
    if (broken.what == TWICE) {
        put(ptrs + 1, get(ptrs));
    } else if (broken.what == MISALIGNED) {
        put(ptrs, get(ptrs) + 8);
    } else if (broken.what == WRITES) {
        put(p, ~get(p));
    } else if (broken.what == LEAKS) {
        put(ptrs, 0);
    }
}

#define BLOCKS_LAUNCHER(name)                                              \
    static wh_status name(const wh_launch *l, const wh_bench_call *call) { \
        const wh_status s = broken.kernels.name(l, call);                  \
        if (strikes()) {                                                   \
            break_blocks(call->ptrs);                                      \
        }                                                                  \
        return s;                                                          \
    }

BLOCKS_LAUNCHER(malloc_log)
BLOCKS_LAUNCHER(server_round)
BLOCKS_LAUNCHER(cells)

/* A full slot of the first slab that has one, and an empty one of it. */
static void slots_of(const wh_bench_call *call, uint64_t **full, uint64_t **empty) {
    *full = *empty = NULL;
    for (uint64_t i = 0; i < call->buckets && (*full == NULL || *empty == NULL); i++) {
        uint64_t *slab = (uint64_t *)(uintptr_t)get(&call->table[i]);
        *full = *empty = NULL;
        for (uint32_t k = 0; slab != NULL && k < WH_BENCH_SLAB_SLOTS; k++) {
            if (get(&slab[k]) != 0) {
                *full = &slab[k];
            } else {
                *empty = &slab[k];
            }
        }
    }
    assert_non_null(*full);
    assert_non_null(*empty);
}

static wh_status slab_insert(const wh_launch *l, const wh_bench_call *call) {
    const wh_status s = broken.kernels.slab_insert(l, call);
    uint64_t *full;
    uint64_t *empty;
    if (!strikes()) {
        return s;
    }
    slots_of(call, &full, &empty);
    if (broken.what == TWICE) {
        put(&call->table[1], get(&call->table[0]));
    } else if (broken.what == LOSES) {
        put(full, 0);
    } else if (broken.what == DOUBLES) {
        put(empty, get(full));
    } else if (broken.what == LENGTHENS) {
        uint64_t *slab = (uint64_t *)(uintptr_t)get(&call->table[0]);
        put(&slab[WH_BENCH_SLAB_SLOTS], get(&call->table[0]));
    } else if (broken.what == LEAKS) {
        put(&call->table[0], 0);
    }
    return s;
}

/* --- one run of one case ---------------------------------------------------------------- */

typedef struct run {
    wh_bench_options options;
    whi_bench_defaults defaults;
    wh_allocator_info info;
    whi_bench *b;
} run;

static void open_run(run *r, const char *allocator) {
    void *counts = NULL;
    memset(r, 0, sizeof *r);
    r->b = calloc(1, sizeof *r->b);
    assert_non_null(r->b);
    whi_bench *b = r->b;
    assert_int_equal(wh_device_open(&b->device, "sim", NULL), WH_OK);
    r->defaults = *whi_bench_defaults_for(1);
    r->info = *wh_allocator_find(allocator);
    b->options = &r->options;
    b->defaults = &r->defaults;
    b->info = wh_device_get_info(b->device);
    b->on_sim = 1;
    b->reps = 2;
    b->seed = 11;
    b->alloc = &r->info;
    b->kernels = wh_bench_kernels_find(allocator, WH_TARGET_SIM);
    b->ledger_kernels = wh_bench_ledger_find(allocator, WH_TARGET_SIM);
    b->heaps_kernels = *wh_bench_heaps_find(allocator, WH_TARGET_SIM);
    b->rows = json_array();
    assert_int_equal(wh_device_alloc(b->device, &counts, sizeof(wh_bench_counts)), WH_OK);
    b->arrays.counts = counts;
    memset(&broken, 0, sizeof broken);
    broken.device = b->device;
    broken.kernels = b->heaps_kernels;
    b->heaps_kernels.malloc_log = malloc_log;
    b->heaps_kernels.server_round = server_round;
    b->heaps_kernels.cells = cells;
    b->heaps_kernels.slab_insert = slab_insert;
}

static void close_run(run *r) {
    whi_bench *b = r->b;
    whi_bench_close_heap(b);
    assert_int_equal(wh_device_free(b->device, b->arrays.ptrs), WH_OK);
    assert_int_equal(wh_device_free(b->device, b->arrays.claimed), WH_OK);
    assert_int_equal(wh_device_free(b->device, b->arrays.counts), WH_OK);
    wh_device_close(b->device);
    json_decref(b->rows);
    free(b);
}

/* Bad blocks of the case when that fault strikes in that launch of the kernels above. */
static uint64_t bad_of(const char *name, fault what, uint64_t launch) {
    run r;
    open_run(&r, "gallatin");
    broken.what = what;
    broken.launch = launch;
    assert_int_equal(whi_bench_case(r.b, name), WH_OK);
    assert_true(json_array_size(r.b->rows) != 0);
    assert_int_equal(broken.done, what != NONE);
    const uint64_t bad = r.b->total_bad;
    close_run(&r);
    return bad;
}

static void test_sound_allocator(void **state) {
    static const char *const names[] = {"server", "cells", "slabhash", "fill-log"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(bad_of(names[i], NONE, 0), 0);
    }
}

#ifndef WH_TSAN /* blocks that overlap are data races, as it would rightly report */

static void seen(const char *name, fault what, uint64_t launch) {
    if (bad_of(name, what, launch) == 0) {
        fail_msg("%s: fault %d in launch %llu: no bad block", name, (int)what,
                 (unsigned long long)launch);
    }
}

/* Launch 1 is the fill, 21 the last of the 20 rounds. */
static void test_server(void **state) {
    (void)state;
    seen("server", TWICE, 1);
    seen("server", MISALIGNED, 1);
    seen("server", LEAKS, 1);
    seen("server", TWICE, 2);
    seen("server", WRITES, 2);
    seen("server", LEAKS, 2);
    seen("server", TWICE, 21);
    seen("server", WRITES, 21);
    seen("server", MISALIGNED, 21);
}

static void test_cells(void **state) {
    (void)state;
    seen("cells", TWICE, 1);
    seen("cells", WRITES, 1);
    seen("cells", LEAKS, 1);
    seen("cells", TWICE, 20);
    seen("cells", WRITES, 20);
    seen("cells", MISALIGNED, 20);
}

static void test_slabhash(void **state) {
    (void)state;
    for (uint64_t launch = 1; launch <= 3; launch++) {
        seen("slabhash", TWICE, launch);
        seen("slabhash", LOSES, launch);
        seen("slabhash", DOUBLES, launch);
        seen("slabhash", LENGTHENS, launch);
        seen("slabhash", LEAKS, launch);
    }
}

static void test_fill_log(void **state) {
    (void)state;
    seen("fill-log", TWICE, 1);
    seen("fill-log", MISALIGNED, 2);
}

/* Blocks of `null` overlap where the heap is smaller than what is live; now it promises that they
 * do not. */
static void test_overlap(void **state) {
    run r;
    (void)state;
    open_run(&r, "null");
    r.info.caps |= WH_CAP_DISJOINT | WH_CAP_FREE;
    r.defaults.fill_log_bytes = (uint64_t)64 << 10;
    assert_int_equal(whi_bench_case(r.b, "fill-log"), WH_OK);
    assert_true(r.b->total_bad != 0);
    close_run(&r);
}

#endif

/* --- figures ------------------------------------------------------------------------------- */

static double value_of(const json_t *row, const char *name) {
    assert_non_null(json_object_get(row, name));
    return json_number_value(json_object_get(row, name));
}

/* bump gives what it has in turn, so how many pages a fill touches is known, and its rounds end
 * before the heap does. */
static void test_figures_of_bump(void **state) {
    run r;
    (void)state;
    open_run(&r, "bump");
    r.options.rounds = 1000;
    assert_int_equal(whi_bench_case(r.b, "server"), WH_OK);
    assert_int_equal(json_array_size(r.b->rows), 2);
    const json_t *fill = json_array_get(r.b->rows, 0);
    const json_t *rounds = json_array_get(r.b->rows, 1);
    assert_true(value_of(fill, "ops") == 128 * 16);
    assert_true(value_of(fill, "failed") == 0);
    assert_true(value_of(rounds, "failed") == 0);
    assert_in_range((uint64_t)value_of(rounds, "reps"), 18, 26); /* 3.8 MB less 1.5, 94 KB each */
    assert_in_range((uint64_t)value_of(rounds, "live_bytes"), 1400000, 1620000);
    const double touched = value_of(rounds, "touched"); /* a third of what was given is free */
    assert_true(touched > 1.2 && touched < 2.6);
    close_run(&r);
    open_run(&r, "bump");
    r.options.rounds = 1;
    r.defaults.server_threads = 1;
    assert_int_equal(whi_bench_case(r.b, "server"), WH_OK);
    assert_true(value_of(json_array_get(r.b->rows, 1), "live_bytes") < 16 * 4096);
    close_run(&r);
}

/* Sizes are log-uniform: each doubling has its share, and the ends are met. */
static void test_log_sizes(void **state) {
    enum { N = 20000 };
    static uint32_t sizes[N];
    run r;
    whi_bench_plan p;
    uint64_t sum = 0;
    uint32_t least = UINT32_MAX;
    uint32_t most = 0;
    uint32_t octaves[8] = {0};
    void *array = NULL;
    (void)state;
    open_run(&r, "null");
    const whi_bench_blocks blocks = {N, 16, 4096};
    assert_int_equal(whi_bench_begin(r.b, &p, (uint64_t)1 << 20, blocks), WH_OK);
    assert_int_equal(wh_device_alloc(r.b->device, &array, sizeof sizes), WH_OK);
    p.call.sizes = array;
    p.call.octaves = whi_bench_octaves(16, 4096);
    assert_int_equal(p.call.octaves, 8 << 16);
    assert_int_equal(whi_bench_launch(&p, r.b->heaps_kernels.record_log, N), WH_OK);
    assert_int_equal(wh_device_copy_out(r.b->device, sizes, array, sizeof sizes), WH_OK);
    assert_int_equal(wh_device_free(r.b->device, array), WH_OK);
    for (uint32_t i = 0; i < N; i++) {
        sum += sizes[i];
        least = sizes[i] < least ? sizes[i] : least;
        most = sizes[i] > most ? sizes[i] : most;
        for (uint32_t k = 0; k < 8; k++) {
            octaves[k] += sizes[i] >= 16u << k && sizes[i] < 32u << k;
        }
    }
    assert_int_equal(least, 16);
    assert_in_range(most, 4080, 4096);
    for (uint32_t k = 0; k < 8; k++) {
        assert_in_range(octaves[k], N / 8 - 250, N / 8 + 250); /* 5 sigma */
    }
    assert_in_range(sum / N, 700, 772);
    assert_in_range(whi_bench_log_mean(16, 4096), 734, 738);
    close_run(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_allocator),
#ifndef WH_TSAN
        cmocka_unit_test(test_server),          cmocka_unit_test(test_cells),
        cmocka_unit_test(test_slabhash),        cmocka_unit_test(test_fill_log),
        cmocka_unit_test(test_overlap),
#endif
        cmocka_unit_test(test_figures_of_bump), cmocka_unit_test(test_log_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
