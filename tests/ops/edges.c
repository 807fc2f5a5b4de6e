/* edges.c: group-bys of few keys, where many lanes meet in a slot: each aggregate alone and all of
 * them, of all types; NaN of all kinds; a block that has all tiles, and puts its table out on the
 * way; the paper's lists of keys that differ in their last bits alone. */
#include "sim/sim_test.h"

#include <math.h>

#include "warpheap/core/hash.h"
#include "warpheap/ops.h"
#include "warpheap/warpheap.h"

enum { MOST_ROWS = 1500, ALL = 31, COLUMNS = 6 };

typedef struct context {
    wh_device *device;
    wh_heap *heap;
    wh_group_options o;
    wh_group *group;
    uint64_t key[MOST_ROWS], value[MOST_ROWS]; /* bits */
    uint32_t n;
} context;

/* What all rows of a key say. All numbers of these tests are exact as doubles. */
typedef struct fold {
    double column[COLUMNS]; /* the first one: not used */
} fold;

static uint32_t value_bytes(const context *x) {
    static const uint32_t bytes[] = {0, 4, 8, 4, 8};
    return bytes[x->o.value];
}

static double double_of(uint64_t bits) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static double float_of(uint64_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static double number_of(const context *x, uint64_t bits) {
    switch (x->o.value) {
    case WH_GROUP_INT32:
        return (double)(int32_t)(uint32_t)bits;
    case WH_GROUP_INT64:
        return (double)(int64_t)bits;
    case WH_GROUP_FLOAT:
        return float_of(bits);
    case WH_GROUP_DOUBLE:
        return double_of(bits);
    default:
        return 0;
    }
}

static uint64_t bits_of(const context *x, int32_t number) {
    const double d = number;
    const float f = (float)d;
    uint64_t bits = 0;
    if (x->o.value == WH_GROUP_FLOAT) {
        memcpy(&bits, &f, sizeof f);
    } else if (x->o.value == WH_GROUP_DOUBLE) {
        memcpy(&bits, &d, sizeof d);
    } else {
        bits = x->o.value == WH_GROUP_INT32 ? (uint32_t)number : (uint64_t)(int64_t)number;
    }
    return bits;
}

static void open_all(context *x, uint64_t seed, uint32_t sms) {
    wh_sim_options so;
    wh_heap_options ho;
    memset(x, 0, sizeof *x);
    memset(&so, 0, sizeof so);
    memset(&ho, 0, sizeof ho);
    so.policy = (wh_sim_policy)(seed % N_POLICIES);
    so.seed = seed;
    so.n_sms = so.blocks_per_sm = sms;
    x->device = open_with(&so);
    ho.device = x->device;
    assert_int_equal(wh_heap_min_bytes(&ho, &ho.bytes), WH_OK);
    ho.bytes += 4 << 20;
    assert_int_equal(wh_heap_create(&x->heap, &ho), WH_OK);
    x->o.heap = x->heap;
    x->o.key_bytes = seed % 2 == 0 ? 4 : 8;
    x->o.page_bytes = 2048;
}

static void close_all(context *x) {
    wh_stats stats;
    memset(&stats, 0, sizeof stats);
    assert_int_equal(wh_group_destroy(x->group), WH_OK);
    assert_int_equal(wh_heap_get_stats(x->heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.bad_frees, 0);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
}

static void *column(const context *x, const uint64_t *v, uint32_t bytes) {
    unsigned char packed[MOST_ROWS * 8];
    void *p = take(x->device, (uint64_t)x->n * 8 + 8);
    for (uint32_t i = 0; i < x->n; i++) {
        memcpy(packed + (size_t)i * bytes, &v[i], bytes);
    }
    assert_int_equal(wh_device_copy_in(x->device, p, packed, (uint64_t)x->n * bytes), WH_OK);
    return p;
}

/* A group-by of the rows, to its end. */
static void run(context *x, wh_group_result *r) {
    wh_table t;
    memset(&t, 0, sizeof t);
    t.key = column(x, x->key, x->o.key_bytes);
    t.value = column(x, x->value, value_bytes(x));
    t.n = x->o.rows = x->n;
    assert_int_equal(wh_group_create(&x->group, &x->o), WH_OK);
    assert_int_equal(wh_group_start(x->group, &t, NULL), WH_OK);
    assert_int_equal(wh_group_finish(x->group, r), WH_OK);
}

static uint64_t entry(const unsigned char *column, uint32_t bytes, uint64_t i) {
    uint64_t v = 0;
    memcpy(&v, column + i * bytes, bytes);
    return v;
}

static fold fold_of(const context *x, uint64_t key) {
    fold f = {{0, 0, 0, HUGE_VAL, -HUGE_VAL, 0}};
    for (uint32_t i = 0; i < x->n; i++) {
        const double d = number_of(x, x->value[i]);
        if (x->key[i] == key) {
            f.column[1] += 1;
            f.column[2] += d;
            f.column[3] = fmin(f.column[3], d);
            f.column[4] = fmax(f.column[4], d);
        }
    }
    f.column[5] = f.column[2] / f.column[1];
    return f;
}

static int is_float(const context *x) {
    return x->o.value == WH_GROUP_FLOAT || x->o.value == WH_GROUP_DOUBLE;
}

/* Column c of row i of a page, as a number. */
static double cell(const context *x, const wh_pages *p, uint32_t c, uint64_t page, uint32_t i) {
    const uint64_t bits = entry(p->page[page] + p->column_at[c], p->column_bytes[c], i);
    if (c == 3 || c == 4) {
        return number_of(x, bits);
    }
    return c == 5 || (c == 2 && is_float(x)) ? double_of(bits) : (double)(int64_t)bits;
}

/* Groups come once each, with what their rows say. */
static void run_and_compare(context *x, uint32_t keys) {
    wh_group_result r;
    wh_pages p;
    uint64_t seen[MOST_ROWS];
    uint32_t n = 0;
    run(x, &r);
    assert_int_equal(r.rows, keys);
    assert_int_equal(wh_group_pages(x->group, &p), WH_OK);
    for (uint64_t page = 0; page < p.n_pages; page++) {
        for (uint32_t i = 0; i < p.rows[page]; i++) {
            const uint64_t key = entry(p.page[page] + p.column_at[0], x->o.key_bytes, i);
            const fold f = fold_of(x, key);
            assert_true(n < keys);
            for (uint32_t k = 0; k < n; k++) {
                assert_true(seen[k] != key);
            }
            seen[n++] = key;
            assert_true(f.column[1] > 0);
            for (uint32_t c = 1; c < COLUMNS; c++) {
                assert_true(p.column_bytes[c] == 0 || cell(x, &p, c, page, i) == f.column[c]);
            }
        }
    }
    assert_int_equal(n, keys);
}

/* The rows come into columns as often as they are asked for. */
static void compact_again(context *x, uint32_t rows) {
    for (uint32_t k = 0; k < 2; k++) {
        void *columns[WH_PAGE_COLUMNS] = {0};
        const uint64_t *count = columns[1] = take(x->device, (uint64_t)rows * 16);
        assert_int_equal(wh_group_compact(x->group, columns, NULL), WH_OK);
        assert_int_equal(wh_device_sync(x->device), WH_OK);
        for (uint32_t i = 0; i < 2 * rows; i++) {
            assert_true(i < rows ? count[i] != 0 : count[i] == 0);
        }
    }
}

static void test_aggregates(void **state) {
    static const uint32_t keys[] = {1, 2, 5, 40};
    (void)state;
    for (uint32_t kind = WH_GROUP_INT32; kind <= WH_GROUP_DOUBLE; kind++) {
        for (uint32_t k = 0; k <= COLUMNS - 1; k++) {
            context x;
            open_all(&x, kind * 8 + k, 0);
            const uint32_t few = keys[(kind + k) % 4];
            x.o.value = (wh_group_value)kind;
            x.o.aggregates = k == COLUMNS - 1 ? ALL : 1u << k;
            x.n = 300;
            for (uint32_t i = 0; i < x.n; i++) {
                x.key[i] = i % few; /* 0, too */
                x.value[i] = bits_of(&x, (int32_t)(i * 37 % 211) - 150);
            }
            run_and_compare(&x, few);
            close_all(&x);
        }
    }
}

/* One block reads a tile after the other: many keys, for which its table is too small, and then one
 * key alone, for which it makes room. */
static void test_one_block(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        context x;
        open_all(&x, seed, 1);
        x.o.value = WH_GROUP_INT32;
        x.o.aggregates = WH_GROUP_COUNT | WH_GROUP_SUM;
        x.n = MOST_ROWS;
        for (uint32_t i = 0; i < x.n; i++) {
            x.key[i] = i < x.n / 2 ? i + 10 : 7;
            x.value[i] = bits_of(&x, (int32_t)i - 700);
        }
        run_and_compare(&x, x.n / 2 + 1);
        compact_again(&x, x.n / 2 + 1);
        close_all(&x);
    }
}

/* All rows are of one part, and keys come in turns: a node's table helps so seldom that all its
 * rows go to the children. */
static void test_one_part(void **state) {
    enum { KEYS = 300 };
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        uint64_t key[KEYS], next = 1;
        context x;
        open_all(&x, seed, 0);
        x.o.value = WH_GROUP_INT32;
        x.o.aggregates = WH_GROUP_COUNT | WH_GROUP_SUM | (seed < 2 ? WH_GROUP_MIN : 0);
        x.n = MOST_ROWS;
        for (uint32_t k = 0; k < KEYS; next++) {
            const uint32_t hash = x.o.key_bytes == 4 ? wh_mix32((uint32_t)next) : wh_mix64(next);
            key[k] = next;
            k += hash >> 29 == 0 ? 1 : 0;
        }
        for (uint32_t i = 0; i < x.n; i++) {
            x.key[i] = key[i % KEYS];
            x.value[i] = bits_of(&x, (int32_t)i - 700);
        }
        run_and_compare(&x, KEYS);
        close_all(&x);
    }
}

/* NaN is one value, whatever its sign and its other bits. */
static void test_nan(void **state) {
    static const uint64_t nan[2][3] = {
        {0xffc00000u, 0x7f800001u, 0xff812345u},
        {0xfff8000000000000u, 0x7ff0000000000001u, 0xfff0000012345678u}};
    (void)state;
    for (uint32_t k = 0; k < 2; k++) {
        wh_group_result r;
        wh_pages p;
        context x;
        const uint64_t one = k == 0 ? 0x7fc00000u : 0x7ff8000000000000u;
        open_all(&x, k, 0);
        x.o.value = k == 0 ? WH_GROUP_FLOAT : WH_GROUP_DOUBLE;
        x.o.aggregates = WH_GROUP_MIN | WH_GROUP_MAX;
        x.n = 60;
        for (uint32_t i = 0; i < x.n; i++) { /* key 1 has a number, too */
            x.key[i] = i % 2;
            x.value[i] = i % 20 == 1 ? bits_of(&x, -5) : nan[k][i % 3];
        }
        run(&x, &r);
        assert_int_equal(r.rows, 2);
        assert_int_equal(wh_group_pages(x.group, &p), WH_OK);
        for (uint32_t i = 0; i < r.rows; i++) {
            const unsigned char *page = p.page[p.n_pages == 1 ? 0 : i];
            const uint32_t at = p.n_pages == 1 ? i : 0;
            const uint64_t key = entry(page + p.column_at[0], x.o.key_bytes, at);
            const uint64_t least = entry(page + p.column_at[3], value_bytes(&x), at);
            assert_int_equal(least, key == 0 ? one : bits_of(&x, -5));
            assert_int_equal(entry(page + p.column_at[4], value_bytes(&x), at), one);
        }
        close_all(&x);
    }
}

/* The number of which an odd one is the inverse. */
static uint64_t inverse_of(uint64_t odd) {
    uint64_t x = odd;
    for (uint32_t k = 0; k < 6; k++) {
        x *= 2 - odd * x;
    }
    return x;
}

/* Keys that agree in all of the paper's digits but the last one, twice each. */
static void test_last_digit(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 2; seed++) {
        wh_group_result r;
        wh_group_lists l;
        context x;
        open_all(&x, seed, 0);
        x.o.variant = "paper";
        x.n = 80;
        const uint64_t spread = x.o.key_bytes == 4 ? wh_spread32(1) : wh_spread64(1);
        for (uint32_t i = 0; i < x.n; i++) {
            const uint64_t key = inverse_of(spread) * (0xabcdef00u + i % 40);
            x.key[i] = x.o.key_bytes == 4 ? (uint32_t)key : key;
        }
        run(&x, &r);
        assert_int_equal(r.rows, 40);
        assert_int_equal(wh_group_get_lists(x.group, &l), WH_OK);
        for (uint64_t k = 0; k < l.n_lists; k++) {
            const unsigned char *page = l.page[l.last[k]] + l.key_at;
            assert_int_equal(l.n_rows[k], 2);
            assert_int_equal(entry(page, x.o.key_bytes, 0), entry(l.key, x.o.key_bytes, k));
            assert_int_equal(entry(page, x.o.key_bytes, 1), entry(l.key, x.o.key_bytes, k));
        }
        assert_int_equal(wh_group_drop_pages(x.group, NULL), WH_OK); /* they go back once */
        close_all(&x);
    }
}

/* An operator whose kernel fails says so once, and has nothing then. */
static void test_failed_kernel(void **state) {
    enum { ROWS = 1000 };
    wh_sim_options so;
    wh_heap_options ho;
    wh_join_options jo;
    wh_table t;
    wh_pages pages;
    wh_join *join = NULL;
    wh_group *group = NULL;
    wh_heap *heap = NULL;
    void *stream = NULL;
    (void)state;
    memset(&so, 0, sizeof so);
    memset(&ho, 0, sizeof ho);
    memset(&jo, 0, sizeof jo);
    memset(&t, 0, sizeof t);
    so.step_budget = 2000;
    wh_device *device = open_with(&so);
    uint32_t *keys = take(device, ROWS * sizeof *keys);
    ho.device = device;
    assert_int_equal(wh_heap_min_bytes(&ho, &ho.bytes), WH_OK);
    ho.bytes += 4 << 20;
    assert_int_equal(wh_heap_create(&heap, &ho), WH_OK);
    assert_int_equal(wh_stream_create(device, &stream), WH_OK);
    wh_group_options go;
    memset(&go, 0, sizeof go);
    go.heap = jo.heap = heap;
    go.rows = jo.build_rows = jo.probe_rows = ROWS;
    for (uint32_t i = 0; i < ROWS; i++) {
        keys[i] = i;
    }
    t.key = keys;
    t.n = ROWS;
    assert_int_equal(wh_group_create(&group, &go), WH_OK);
    assert_int_equal(wh_join_create(&join, &jo), WH_OK);
    assert_int_equal(wh_group_start(group, &t, stream), WH_OK);
    assert_int_equal(wh_group_finish(group, NULL), WH_DEVICE_ERROR);
    assert_int_equal(wh_group_finish(group, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_group_pages(group, &pages), WH_BAD_ARGUMENT);
    assert_int_equal(wh_group_resume(group, stream), WH_BAD_ARGUMENT);
    assert_int_equal(wh_group_destroy(group), WH_OK);
    assert_int_equal(wh_join_start(join, &t, &t, stream), WH_OK);
    assert_int_equal(wh_join_finish(join, NULL), WH_DEVICE_ERROR);
    assert_int_equal(wh_join_finish(join, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_join_pages(join, 0, &pages), WH_BAD_ARGUMENT);
    assert_int_equal(wh_join_resume(join, stream), WH_BAD_ARGUMENT);
    assert_int_equal(wh_join_destroy(join), WH_OK);
    (void)wh_stream_destroy(device, stream);
    (void)wh_heap_destroy(heap);
    wh_device_close(device);
}

static void expect_bad(const wh_status *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (s[i] != WH_BAD_ARGUMENT) {
            fail_msg("call %zu: %s", i, wh_status_name(s[i]));
        }
    }
}

/* Each call on no join and no group-by, or without what it reads or fills. */
static void test_no_object(void **state) {
    (void)state;
    wh_join *const no_join = NULL;
    wh_group *const no_group = NULL;
    wh_join *join = NULL;
    wh_group *group = NULL;
    wh_join_options jo;
    wh_group_options go;
    wh_table t;
    wh_pages pages;
    wh_group_lists lists;
    const void *columns[COLUMNS + 3];
    void *const to[COLUMNS + 3] = {NULL};
    memset(&jo, 0, sizeof jo); /* without heaps */
    memset(&go, 0, sizeof go);
    memset(&t, 0, sizeof t);
    const wh_status of_none[] = {
        wh_join_create(NULL, &jo),
        wh_join_create(&join, NULL),
        wh_join_create(&join, &jo),
        wh_join_start(no_join, &t, &t, NULL),
        wh_join_finish(no_join, NULL),
        wh_join_resume(no_join, NULL),
        wh_join_rebase(no_join, 0),
        wh_join_pages(no_join, 0, &pages),
        wh_join_compact(no_join, 0, to, NULL),
        wh_join_drop_pages(no_join, NULL),
        wh_join_columns(no_join, columns),
        wh_group_create(NULL, &go),
        wh_group_create(&group, NULL),
        wh_group_create(&group, &go),
        wh_group_start(no_group, &t, NULL),
        wh_group_finish(no_group, NULL),
        wh_group_resume(no_group, NULL),
        wh_group_rebase(no_group, 0),
        wh_group_pages(no_group, &pages),
        wh_group_compact(no_group, to, NULL),
        wh_group_columns(no_group, columns),
        wh_group_get_lists(no_group, &lists),
        wh_group_drop_pages(no_group, NULL),
    };
    expect_bad(of_none, sizeof of_none / sizeof *of_none);
    assert_true(join == NULL && group == NULL);
    assert_int_equal(wh_join_destroy(no_join), WH_OK);
    assert_int_equal(wh_group_destroy(no_group), WH_OK);
    wh_device *device = open_policy(WH_SIM_RANDOM, 1);
    wh_heap_options ho;
    memset(&ho, 0, sizeof ho);
    ho.device = device;
    ho.bytes = 8 << 20;
    assert_int_equal(wh_heap_create(&jo.heap, &ho), WH_OK);
    go.heap = jo.heap;
    jo.build_rows = jo.probe_rows = go.rows = 10;
    go.aggregates = WH_GROUP_COUNT;
    assert_int_equal(wh_join_create(&join, &jo), WH_OK);
    assert_int_equal(wh_group_create(&group, &go), WH_OK);
    const wh_status of_some[] = {
        wh_join_start(join, NULL, &t, NULL), wh_join_start(join, &t, NULL, NULL),
        wh_join_pages(join, 0, NULL),        wh_join_compact(join, 0, NULL, NULL),
        wh_join_columns(join, NULL),         wh_group_start(group, NULL, NULL),
        wh_group_pages(group, NULL),         wh_group_compact(group, NULL, NULL),
        wh_group_columns(group, NULL),       wh_group_get_lists(group, NULL),
    };
    expect_bad(of_some, sizeof of_some / sizeof *of_some);
    assert_int_equal(wh_join_destroy(join), WH_OK);
    assert_int_equal(wh_group_destroy(group), WH_OK);
    assert_int_equal(wh_heap_destroy(jo.heap), WH_OK);
    wh_device_close(device);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_aggregates), cmocka_unit_test(test_one_block),
        cmocka_unit_test(test_one_part),   cmocka_unit_test(test_nan),
        cmocka_unit_test(test_last_digit), cmocka_unit_test(test_failed_kernel),
        cmocka_unit_test(test_no_object)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
