/* survey_cases.c: the cases repeat, latency, access and work must see a broken allocator, and must
 * tell what was measured. An allocator is broken here as in state_cases.c: launchers run the real
 * kernel and then change what it did. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "bench/driver/internal.h"

typedef enum fault {
    NONE,
    TWICE,      /* a live block is handed out once more */
    MISALIGNED, /* a block at an odd address */
    WRITES,     /* a word of a live block is written to */
    MISREADS,   /* a sum is another one */
} fault;

/* What the launchers below share; one benchmark runs at a time. */
static struct {
    fault what;
    uint64_t launch; /* it strikes in this one, from 1 */
    uint64_t launches, done;
    wh_device *device;
    wh_bench_kernels kernels;
    wh_bench_survey_kernels survey;
    wh_bench_memory_kernels memory;
} broken;

static uint64_t get(const void *p) {
    uint64_t v = 0;
    assert_int_equal(wh_device_copy_out(broken.device, &v, p, sizeof v), WH_OK);
    return v;
}

static void put(void *p, uint64_t v) {
    assert_int_equal(wh_device_copy_in(broken.device, p, &v, sizeof v), WH_OK);
}

/* Breaks the first blocks of a launch, if it strikes now. */
static void strike(const wh_bench_call *call) {
    if (broken.what == NONE || ++broken.launches != broken.launch) {
        return;
    }
    broken.done++;
    if (broken.what == TWICE) {
        put(call->ptrs + 1, get(call->ptrs));
    } else if (broken.what == MISALIGNED) {
        put(call->ptrs, get(call->ptrs) + 8);
    } else if (broken.what == WRITES) {
        void *block = (void *)(uintptr_t)get(call->ptrs);
        put(block, ~get(block));
    } else {
        put(call->sizes, ~get(call->sizes));
    }
}

#define LAUNCHER(table, name)                                                     \
    static wh_status table##_##name(const wh_launch *l, const wh_bench_call *c) { \
        const wh_status s = broken.table.name(l, c);                              \
        strike(c);                                                                \
        return s;                                                                 \
    }

LAUNCHER(kernels, malloc_single)
LAUNCHER(survey, malloc_clocked)
LAUNCHER(survey, work)
LAUNCHER(memory, write)
LAUNCHER(memory, read)

/* --- one run of one case ---------------------------------------------------------------- */

typedef struct run {
    wh_bench_options options;
    wh_allocator_info info;
    wh_bench_kernels kernels;
    wh_bench_survey_kernels survey;
    wh_bench_memory_kernels memory;
    whi_bench *b;
} run;

static const uint64_t sizes[] = {256}, threads[] = {64};

static void open_run(run *r, const char *allocator) {
    void *counts = NULL;
    memset(r, 0, sizeof *r);
    r->b = calloc(1, sizeof *r->b);
    assert_non_null(r->b);
    whi_bench *b = r->b;
    assert_int_equal(wh_device_open(&b->device, "sim", NULL), WH_OK);
    r->info = *wh_allocator_find(allocator);
    r->kernels = *wh_bench_kernels_find(allocator, WH_TARGET_SIM);
    r->survey = *wh_bench_survey_find(allocator, WH_TARGET_SIM);
    r->memory = *wh_bench_memory_find(WH_TARGET_SIM);
    r->options = (wh_bench_options){.sizes = sizes,
                                    .n_sizes = 1,
                                    .threads = threads,
                                    .n_threads = 1,
                                    .heap_bytes = 1 << 20,
                                    .rounds = 3};
    b->options = &r->options;
    b->defaults = whi_bench_defaults_for(1);
    b->info = wh_device_get_info(b->device);
    b->on_sim = 1;
    b->reps = 2;
    b->seed = 11;
    b->alloc = &r->info;
    b->kernels = &r->kernels;
    b->ledger_kernels = wh_bench_ledger_find(allocator, WH_TARGET_SIM);
    b->survey_kernels = &r->survey;
    b->memory_kernels = &r->memory;
    b->rows = json_array();
    assert_int_equal(wh_device_alloc(b->device, &counts, sizeof(wh_bench_counts)), WH_OK);
    b->arrays.counts = counts;
    memset(&broken, 0, sizeof broken);
    broken.device = b->device;
    broken.kernels = r->kernels;
    broken.survey = r->survey;
    broken.memory = r->memory;
    r->kernels.malloc_single = kernels_malloc_single;
    r->survey.malloc_clocked = survey_malloc_clocked;
    r->survey.work = survey_work;
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

/* Bad blocks of a case with that fault in that launch. Contents change after the kernels that write
 * or read, not after those that allocate. */
static uint64_t bad_of(const char *name, fault what, uint64_t launch) {
    run r;
    open_run(&r, "gallatin");
    if (strcmp(name, "access") == 0 && (what == WRITES || what == MISREADS)) {
        r.kernels.malloc_single = broken.kernels.malloc_single;
        r.memory.write = what == WRITES ? memory_write : r.memory.write;
        r.memory.read = what == MISREADS ? memory_read : r.memory.read;
    }
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
    static const char *const names[] = {"repeat", "latency", "access", "work"};
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

/* Launches 1 and 2 are the rounds with a reset, 3 to 5 those without. */
static void test_repeat(void **state) {
    (void)state;
    seen("repeat", TWICE, 1);
    seen("repeat", MISALIGNED, 2);
    seen("repeat", TWICE, 3);
    seen("repeat", MISALIGNED, 5);
}

/* Launch 1 is not timed. */
static void test_latency(void **state) {
    (void)state;
    for (uint64_t launch = 1; launch <= 3; launch++) {
        seen("latency", TWICE, launch);
        seen("latency", MISALIGNED, launch);
    }
}

/* Launch 1 of write and of read is of packed memory, which is not an allocator's fault. */
static void test_access(void **state) {
    run r;
    (void)state;
    seen("access", TWICE, 1);
    seen("access", MISALIGNED, 1);
    seen("access", WRITES, 2);
    seen("access", MISREADS, 2);
    open_run(&r, "gallatin");
    r.memory.write = memory_write;
    r.kernels.malloc_single = broken.kernels.malloc_single;
    broken.what = WRITES;
    broken.launch = 1;
    assert_int_equal(whi_bench_case(r.b, "access"), WH_CORRUPT);
    assert_non_null(strstr(r.b->error, "prefix sum"));
    close_run(&r);
}

static void test_work(void **state) {
    (void)state;
    for (uint64_t launch = 1; launch <= 3; launch++) {
        seen("work", TWICE, launch);
        seen("work", WRITES, launch);
        seen("work", MISALIGNED, launch);
    }
}

#endif

/* --- figures ------------------------------------------------------------------------------- */

static uint64_t value_of(const json_t *row, const char *name) {
    assert_non_null(json_object_get(row, name));
    return (uint64_t)json_number_value(json_object_get(row, name));
}

/* Thread i took 70000 - i ticks, so that both halves of a number matter; the last 300,000. */
static wh_status known_ticks(const wh_launch *l, const wh_bench_call *call) {
    const wh_status s = broken.survey.malloc_clocked(l, call);
    for (uint64_t i = 0; i < call->n; i++) {
        const uint32_t ticks = i + 1 == call->n ? 300000 : 70000 - (uint32_t)i;
        assert_int_equal(wh_device_copy_in(broken.device, call->sizes + i, &ticks, sizeof ticks),
                         WH_OK);
    }
    return s;
}

static void test_quantiles(void **state) {
    static const uint64_t many[] = {10000};
    run r;
    (void)state;
    open_run(&r, "bump");
    r.options.threads = many;
    r.survey.malloc_clocked = known_ticks;
    assert_int_equal(whi_bench_case(r.b, "latency"), WH_OK);
    const json_t *row = json_array_get(r.b->rows, 0);
    assert_true(value_of(row, "threads") >= 2000);
    const uint64_t n = value_of(row, "threads");
    /* In order: 70000 - (n - 2) and on, up to 70000, then the one that is far off. */
    const uint64_t first = 70000 - (n - 2);
    assert_int_equal(value_of(row, "ticks_p50"), first + (n + 1) / 2 - 1);
    assert_int_equal(value_of(row, "ticks_p99"), first + (99 * n + 99) / 100 - 1);
    assert_int_equal(value_of(row, "ticks_p999"), first + (999 * n + 999) / 1000 - 1);
    assert_int_equal(value_of(row, "ticks_max"), 300000);
    close_run(&r);
}

/* bump gives out 256 B one behind the other: the range is what was asked for. */
static void test_ranges(void **state) {
    run r;
    (void)state;
    open_run(&r, "gallatin");
    assert_int_equal(whi_bench_case(r.b, "repeat"), WH_OK);
    size_t i = 0, warm = 0;
    const json_t *row = NULL;
    json_array_foreach(r.b->rows, i, row) {
        const double first = json_number_value(json_object_get(row, "range_first"));
        const double most = json_number_value(json_object_get(row, "range_most"));
        warm += first > 0 ? 1 : 0;
        assert_true(first == 0 || (first >= 1 && most >= first));
        assert_int_equal(value_of(row, "reps"), json_object_get(row, "us_first") != NULL ? 3 : 2);
    }
    assert_int_equal(warm, 2); /* of one size, and mixed */
    close_run(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_allocator),
#ifndef WH_TSAN
        cmocka_unit_test(test_repeat),          cmocka_unit_test(test_latency),
        cmocka_unit_test(test_access),          cmocka_unit_test(test_work),
#endif
        cmocka_unit_test(test_quantiles),       cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
