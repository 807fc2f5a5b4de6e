/* ops_tables.c: the tables of the cases ops-* are what they are said to be, and what is to be
 * expected of an operator is that of a naive one; a result with a row too many, too few or wrong is
 * not taken for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "bench/kernels/ops_data.h"

enum { ROWS = 3000, MOST_PAIRS = 40000 };

typedef struct context {
    wh_device *device;
    const wh_ops_data_kernels *kernels;
    wh_ops_call call;
    void *kept[16];
    uint32_t n_kept;
} context;

static void *take(context *x, uint64_t bytes) {
    assert_true(x->n_kept < 16);
    assert_int_equal(wh_device_alloc(x->device, &x->kept[x->n_kept], bytes + 8), WH_OK);
    assert_int_equal(wh_device_set(x->device, x->kept[x->n_kept], 0, bytes + 8), WH_OK);
    return x->kept[x->n_kept++];
}

static void open_all(context *x) {
    memset(x, 0, sizeof *x);
    assert_int_equal(wh_device_open(&x->device, "sim", NULL), WH_OK);
    x->kernels = wh_ops_data_find(WH_TARGET_SIM);
    x->call.sums = take(x, sizeof *x->call.sums);
    x->call.key = take(x, ROWS * 4);
    x->call.n = ROWS;
    x->call.seed = 7;
}

static void close_all(context *x) {
    while (x->n_kept != 0) {
        assert_int_equal(wh_device_free(x->device, x->kept[--x->n_kept]), WH_OK);
    }
    wh_device_close(x->device);
}

static void launch(context *x, wh_ops_launcher launcher) {
    const wh_launch l = wh_grid(x->device, 2, 64);
    assert_int_equal(launcher(&l, &x->call), WH_OK);
    assert_int_equal(wh_device_sync(x->device), WH_OK);
}

static wh_ops_sums sums_of(context *x, wh_ops_launcher launcher) {
    wh_ops_sums sums;
    assert_int_equal(wh_device_set(x->device, x->call.sums, 0, sizeof sums), WH_OK);
    launch(x, launcher);
    assert_int_equal(wh_device_copy_out(x->device, &sums, x->call.sums, sizeof sums), WH_OK);
    return sums;
}

/* Draws keys and counts how often each is there. */
static void draw(context *x, wh_ops_draw how, uint64_t keys, double exponent, uint32_t *count) {
    x->call.draw = how;
    x->call.keys = keys;
    x->call.exponent = exponent;
    launch(x, x->kernels->draw);
    memset(count, 0, keys * sizeof *count);
    for (uint64_t i = 0; i < x->call.n; i++) {
        assert_true(x->call.key[i] < keys);
        count[x->call.key[i]]++;
    }
}

static int compare(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

static void test_draws(void **state) {
    static uint32_t count[ROWS];
    context x;
    (void)state;
    open_all(&x);
    for (uint64_t seed = 0; seed < 5; seed++) {
        static const uint32_t keys[] = {ROWS, ROWS / 10, 7, 1};
        x.call.seed = seed;
        for (uint32_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            draw(&x, WH_OPS_DEALT, keys[k], 0, count);
            for (uint32_t i = 0; i < keys[k]; i++) {
                assert_in_range(count[i], ROWS / keys[k], (ROWS + keys[k] - 1) / keys[k]);
            }
        }
        draw(&x, WH_OPS_UNIFORM, 10, 0, count);
        for (uint32_t i = 0; i < 10; i++) {
            assert_in_range(count[i], ROWS / 10 - 100, ROWS / 10 + 100); /* 6 deviations */
        }
        /* Of rank k a share of 1 / (k H), H = 1 + 1/2 + ... 1/100. */
        draw(&x, WH_OPS_ZIPF, 100, 1, count);
        qsort(count, 100, sizeof *count, compare);
        assert_in_range(count[0], 578 - 140, 578 + 140);
        assert_in_range(count[1], 289 - 100, 289 + 100);
        draw(&x, WH_OPS_ZIPF, 100, 0.5, count);
        qsort(count, 100, sizeof *count, compare);
        assert_in_range(count[0], 161 - 75, 161 + 75); /* of 18.59 */
        /* Two thirds of all are no further from the middle than one deviation, an eighth. */
        draw(&x, WH_OPS_GAUSSIAN, 800, 0, count);
        uint32_t near = 0;
        for (uint32_t i = 300; i < 500; i++) {
            near += count[i];
        }
        assert_in_range(near, ROWS * 0.683 - 160, ROWS * 0.683 + 160);
    }
    close_all(&x);
}

/* --- joins -------------------------------------------------------------------------------------
 */

typedef struct pair {
    uint32_t key, r, s;
} pair;

static pair pairs[MOST_PAIRS];

static uint32_t join_naively(const context *x, wh_ops_sums *sums) {
    uint32_t n = 0;
    memset(sums, 0, sizeof *sums);
    for (uint32_t s = 0; s < x->call.rows[1]; s++) {
        for (uint32_t r = 0; r < x->call.rows[0]; r++) {
            if (x->call.table[0][r] == x->call.table[1][s]) {
                assert_true(n < MOST_PAIRS);
                pairs[n] = (pair){x->call.table[0][r], r, s};
                sums->sum += r + 3 * (uint64_t)s + 5 * (uint64_t)pairs[n++].key;
            }
        }
    }
    sums->rows = n;
    return n;
}

static void put_columns(context *x, uint32_t n) {
    x->call.n = n;
    for (uint32_t i = 0; i < n; i++) {
        ((uint32_t *)x->call.column[0])[i] = pairs[i].key;
        ((uint32_t *)x->call.column[1])[i] = pairs[i].r;
        ((uint32_t *)x->call.column[2])[i] = pairs[i].s;
    }
}

static int is_same(const wh_ops_sums *a, const wh_ops_sums *b) {
    return a->rows == b->rows && a->sum == b->sum && a->bad == b->bad;
}

static void test_join(void **state) {
    static uint32_t count[ROWS];
    context x;
    wh_ops_sums naive;
    (void)state;
    open_all(&x);
    x.call.n = 400;
    x.call.has_build = 1;
    for (uint32_t k = 0; k < 2; k++) {
        x.call.key = take(&x, 400 * 4);
        draw(&x, k == 0 ? WH_OPS_DEALT : WH_OPS_ZIPF, 90, 1, count);
        x.call.table[k] = x.call.key;
        x.call.rows[k] = 400;
    }
    x.call.tally = take(&x, 90 * 16);
    for (uint32_t c = 0; c < 3; c++) {
        x.call.column[c] = take(&x, MOST_PAIRS * 4);
    }
    launch(&x, x.kernels->tally);
    const uint32_t n = join_naively(&x, &naive);
    const wh_ops_sums expected = sums_of(&x, x.kernels->expect_join);
    assert_true(is_same(&expected, &naive));
    put_columns(&x, n);
    wh_ops_sums seen = sums_of(&x, x.kernels->columns_join);
    assert_true(is_same(&seen, &expected));

    put_columns(&x, n - 1); /* one is missing */
    seen = sums_of(&x, x.kernels->columns_join);
    assert_false(is_same(&seen, &expected));
    const pair last = pairs[n - 1];
    pairs[n - 1] = pairs[0]; /* one is there twice, and another is not */
    put_columns(&x, n);
    seen = sums_of(&x, x.kernels->columns_join);
    assert_true(seen.bad == 0 && !is_same(&seen, &expected));
    pairs[n - 1] = last;
    for (uint32_t i = 1; i < n; i++) { /* rows of two pairs change places: the sum is the same */
        if (pairs[i].key != pairs[0].key) {
            const uint32_t r = pairs[0].r;
            pairs[0].r = pairs[i].r;
            pairs[i].r = r;
            break;
        }
    }
    put_columns(&x, n);
    seen = sums_of(&x, x.kernels->columns_join);
    assert_int_equal(seen.sum, expected.sum);
    assert_int_equal(seen.bad, 2);
    close_all(&x);
}

/* --- group-bys ---------------------------------------------------------------------------------
 */

static void test_group(void **state) {
    static uint32_t count[ROWS];
    context x;
    (void)state;
    open_all(&x);
    draw(&x, WH_OPS_ZIPF, 500, 1, count);
    x.call.value = take(&x, ROWS * 4);
    x.call.seen = take(&x, 500);
    launch(&x, x.kernels->values);
    const wh_ops_sums expected = sums_of(&x, x.kernels->expect_group);

    uint32_t *key = take(&x, ROWS * 4), n = 0;
    uint64_t *rows = take(&x, ROWS * 8), *sum = take(&x, ROWS * 8);
    for (uint32_t k = 0; k < 500; k++) {
        key[n] = k;
        rows[n] = count[k];
        sum[n] = 0;
        for (uint32_t i = 0; i < ROWS; i++) {
            const int64_t value = (int32_t)x.call.value[i];
            sum[n] += x.call.key[i] == k ? (uint64_t)value : 0;
        }
        n += count[k] != 0 ? 1 : 0;
    }
    assert_int_equal(expected.rows, n);
    x.call.n = n;
    x.call.column[0] = key;
    x.call.column[1] = rows;
    x.call.column[2] = sum;
    wh_ops_sums seen = sums_of(&x, x.kernels->columns_group);
    assert_true(is_same(&seen, &expected));

    rows[1]++; /* a row of one group counts in another */
    rows[0]--;
    seen = sums_of(&x, x.kernels->columns_group);
    assert_false(is_same(&seen, &expected));
    rows[1]--;
    rows[0]++;
    key[n] = key[0]; /* a group in two parts */
    rows[n] = 1;
    rows[0]--;
    sum[n] = 0;
    x.call.n = n + 1;
    seen = sums_of(&x, x.kernels->columns_group);
    assert_int_equal(seen.sum, expected.sum);
    assert_false(is_same(&seen, &expected));
    close_all(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_draws), cmocka_unit_test(test_join),
                                       cmocka_unit_test(test_group)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
