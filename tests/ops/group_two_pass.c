/* group_two_pass.c: the group-by without an allocator, against a dictionary on the host: all types,
 * widths and aggregates; tables that end at a tile or beside it; more keys than a block's table has
 * slots; a device whose memory ends; what such a group-by refuses. */
#include "group_model.h"

#include "full_device.h"

static void open_two_pass(context *x, uint64_t seed) {
    open_all(x, seed, 1 << 20);
    x->o.variant = "two-pass";
}

static uint32_t width_of(const context *x, uint32_t c) {
    const uint32_t asked = x->o.aggregates != 0 ? x->o.aggregates : WH_GROUP_COUNT;
    if (c == KEY) {
        return x->o.key_bytes;
    }
    if ((asked >> (c - 1) & 1) == 0) {
        return 0;
    }
    return c == LEAST || c == MOST ? value_bytes(x) : 8;
}

static void read_columns(context *x, uint64_t n) {
    const void *column[COLUMNS];
    assert_int_equal(wh_group_columns(x->group, column), WH_OK);
    assert_true(n <= MOST_ROWS);
    for (uint32_t c = 0; c < COLUMNS; c++) {
        const uint32_t bytes = width_of(x, c);
        assert_int_equal(column[c] != NULL, bytes != 0);
        for (uint64_t i = 0; i < n; i++) {
            got.row[i].column[c] = bytes != 0 ? entry(column[c], bytes, i) : 0;
        }
    }
    got.n = (uint32_t)n;
}

static void run_and_compare(context *x) {
    wh_group_result r;
    group_naively(x);
    start_group(x);
    assert_int_equal(wh_group_finish(x->group, &r), WH_OK);
    assert_int_equal(r.rows, expected.n);
    assert_int_equal(r.all_rows, expected.n);
    assert_int_equal(r.pages, 0);
    read_columns(x, r.rows);
    compare();
}

static void test_random(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds() * 2; seed++) {
        context x;
        open_two_pass(&x, seed);
        const uint32_t n = (uint32_t)(next_random(&x.random) % MOST_ROWS);
        const uint32_t keys = 1 + (uint32_t)(next_random(&x.random) % (n + 1) / (1 + seed % 4));
        make_table(&x, n, all_keys[seed % N_KEYS], keys);
        create(&x);
        run_and_compare(&x);
        if (seed % 4 == 0) {
            run_and_compare(&x); /* the object is as good as new */
        }
        close_all(&x);
    }
}

/* Every type of values with every set of aggregates, and both widths of keys; with few seeds, some
 * of them. */
static void test_types(void **state) {
    const uint32_t step = n_seeds() < 10 ? 5 : 1;
    (void)state;
    for (uint32_t value = WH_GROUP_NO_VALUE; value <= WH_GROUP_DOUBLE; value++) {
        const uint32_t sets = value == WH_GROUP_NO_VALUE ? 2 : 32;
        for (uint32_t k = step > 1 ? value : 0; k < sets; k += step) {
            context x;
            open_two_pass(&x, value * 32 + k);
            x.o.key_bytes = k % 2 == 0 ? 4 : 8;
            x.o.value = (wh_group_value)value;
            x.o.aggregates = k;
            make_table(&x, 150, all_keys[k % N_KEYS], 90);
            create(&x);
            run_and_compare(&x);
            close_all(&x);
        }
    }
}

/* Kinds of keys, with many seeds all; as many rows as one block's table has slots, as a tile, and
 * so on, and one more or less. One part of few rows, and parts with several rounds. */
static void test_sizes(void **state) {
    static const uint32_t sizes[] = {0,  1,  2,   7,   8,   9,   31,  32,  33,  63,
                                     64, 65, 127, 128, 129, 256, 257, 383, 512, 1199};
    (void)state;
    for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        for (uint32_t kind = 0; kind < N_KEYS && kind < n_seeds(); kind++) {
            context x;
            open_two_pass(&x, k * 7 + kind);
            make_table(&x, sizes[k], all_keys[(k + kind) % N_KEYS], sizes[k] / 2 + 1);
            create(&x);
            run_and_compare(&x);
            close_all(&x);
        }
    }
}

/* A table that is smaller than create was told, and after it the largest. */
static void test_smaller(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        context x;
        open_two_pass(&x, seed);
        make_table(&x, 1000, key_uniform, 400);
        create(&x);
        for (uint32_t n = 1; n <= 1000; n += 333) {
            x.n = n;
            run_and_compare(&x);
        }
        close_all(&x);
    }
}

static uint64_t live_blocks(context *x) {
    wh_stats stats;
    memset(&stats, 0, sizeof stats);
    assert_int_equal(wh_heap_get_stats(x->heap, &stats), WH_OK);
    return stats.live_blocks;
}

/* What it has no use for. */
static void test_other_calls(void **state) {
    const void *column[COLUMNS];
    void *to[COLUMNS] = {NULL};
    wh_group_lists lists;
    wh_pages pages;
    context x;
    (void)state;
    open_two_pass(&x, 6);
    make_table(&x, 100, key_uniform, 30);
    create(&x);
    assert_int_equal(wh_group_columns(x.group, column), WH_BAD_ARGUMENT); /* not started */
    assert_int_equal(wh_group_finish(x.group, NULL), WH_BAD_ARGUMENT);
    start_group(&x);
    assert_int_equal(wh_group_columns(x.group, column), WH_BAD_ARGUMENT); /* finish comes first */
    assert_non_null(strstr(wh_last_error_text(), "finish"));
    run_and_compare(&x);
    assert_int_equal(live_blocks(&x), 0); /* it takes none */
    assert_int_equal(wh_group_columns(NULL, column), WH_BAD_ARGUMENT);
    assert_int_equal(wh_group_columns(x.group, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_group_pages(x.group, &pages), WH_UNSUPPORTED);
    assert_non_null(strstr(wh_last_error_text(), "wh_group_columns"));
    assert_int_equal(wh_group_compact(x.group, to, NULL), WH_UNSUPPORTED);
    assert_int_equal(wh_group_get_lists(x.group, &lists), WH_UNSUPPORTED);
    assert_int_equal(wh_group_resume(x.group, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_group_drop_pages(x.group, NULL), WH_OK); /* there are none */
    assert_int_equal(wh_group_rebase(x.group, 4096), WH_OK);
    got.n = 0;
    read_columns(&x, expected.n); /* as they were */
    compare();
    close_all(&x);
    open_two_pass(&x, 6);
    x.o.variant = "twopass";
    assert_int_equal(try_create(&x, &x.o), WH_UNSUPPORTED);
    assert_non_null(strstr(wh_last_error_text(), "two-pass"));
    x.o.variant = NULL;
    make_table(&x, 100, key_uniform, 30);
    create(&x);
    start_group(&x);
    assert_int_equal(wh_group_finish(x.group, NULL), WH_OK);
    assert_int_equal(wh_group_columns(x.group, column), WH_UNSUPPORTED); /* it has pages */
    close_all(&x);
}

/* The device has no room for the columns: start says so, and another start does. */
static void test_full_device(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        wh_table t;
        context x;
        open_two_pass(&x, seed);
        x.o.value = WH_GROUP_INT64;
        x.o.aggregates = WH_GROUP_COUNT | WH_GROUP_SUM | WH_GROUP_MIN;
        make_table(&x, MOST_ROWS, key_distinct, 1);
        create(&x);
        fill_device(x.device, (uint64_t)1024 << seed);
        memset(&t, 0, sizeof t);
        t.key = x.device_key;
        t.value = x.device_value;
        t.n = x.n;
        assert_int_equal(wh_group_start(x.group, &t, NULL), WH_OUT_OF_MEMORY);
        assert_int_equal(wh_group_finish(x.group, NULL), WH_BAD_ARGUMENT); /* nothing to wait for */
        empty_device(x.device);
        if (seed % 2 == 0) {
            run_and_compare(&x);
        }
        close_all(&x);
    }
}

int main(int argc, char **argv) {
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),      cmocka_unit_test(test_types),
        cmocka_unit_test(test_sizes),       cmocka_unit_test(test_smaller),
        cmocka_unit_test(test_other_calls), cmocka_unit_test(test_full_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
