/* group_model.h: what tests of group-bys share: tables with few and many keys, a dictionary on the
 * host that says what comes out, and a device with a heap of a seed's kind. Included once per
 * program. */
#ifndef GROUP_MODEL_H
#define GROUP_MODEL_H

#include "sim/sim_test.h"

#include <math.h>

#include "warpheap/ops.h"
#include "warpheap/warpheap.h"

enum { MOST_ROWS = 1200, COLUMNS = 6, MOST_TAKEN = 9000 };
enum { KEY, COUNT, SUM, LEAST, MOST, AVG };

/* A row of a result, each column's bits; what was not asked for is 0. */
typedef struct out_row {
    uint64_t column[COLUMNS];
} out_row;

typedef struct out_rows {
    out_row row[2 * MOST_ROWS];
    uint32_t n;
} out_rows;

static out_rows got, expected;

typedef struct context {
    wh_device *device;
    wh_heap *heap;
    wh_group_options o;
    wh_group *group;
    uint64_t key[MOST_ROWS], value[MOST_ROWS]; /* bits */
    void *device_key, *device_value;
    uint32_t n;
    uint64_t random;
    void *taken[MOST_TAKEN]; /* of the heap, by the test */
    uint32_t n_taken, rounds;
} context;

/* --- tables ------------------------------------------------------------------------------------
 */

static uint32_t value_bytes(const context *x) {
    static const uint32_t bytes[] = {0, 4, 8, 4, 8};
    return bytes[x->o.value];
}

static int is_float(const context *x) {
    return x->o.value == WH_GROUP_FLOAT || x->o.value == WH_GROUP_DOUBLE;
}

/* Of numbers that all orders of adding give the same sum. */
static uint64_t some_value(context *x) {
    const uint64_t r = next_random(&x->random);
    const double d = (double)((int32_t)(r % 4096) - 2048) / 8;
    const float f = (float)d;
    uint64_t bits = 0;
    if (x->o.value == WH_GROUP_FLOAT) {
        memcpy(&bits, &f, sizeof f);
    } else if (x->o.value == WH_GROUP_DOUBLE) {
        memcpy(&bits, &d, sizeof d);
    } else {
        bits = value_bytes(x) == 4 ? (uint32_t)(r >> 32) : r;
    }
    return bits;
}

typedef uint64_t (*key_fn)(context *x, uint32_t i, uint32_t keys);

static uint64_t key_one(context *x, uint32_t i, uint32_t keys) {
    (void)x;
    (void)i;
    (void)keys;
    return 0x1234567887654321u;
}

static uint64_t key_distinct(context *x, uint32_t i, uint32_t keys) {
    (void)x;
    (void)keys;
    return i;
}

static uint64_t key_alternating(context *x, uint32_t i, uint32_t keys) {
    (void)x;
    (void)keys;
    return i % 2 == 0 ? UINT64_MAX : 0;
}

/* The least number of either width, -1, 0 and others. */
static uint64_t key_extreme(context *x, uint32_t i, uint32_t keys) {
    static const uint64_t some[] = {0, UINT64_MAX, 0x8000000080000000u, 0x7fffffff7fffffffu, 1};
    (void)i;
    return some[next_random(&x->random) % 5] + next_random(&x->random) % (keys / 5 + 1);
}

static uint64_t key_uniform(context *x, uint32_t i, uint32_t keys) {
    (void)i;
    return next_random(&x->random) % keys * 0x9e3779b97f4a7c15u;
}

/* Half of the rows have key 0, half of the rest key 1, ... down to a tail. */
static uint64_t key_skewed(context *x, uint32_t i, uint32_t keys) {
    const uint64_t r = next_random(&x->random);
    (void)i;
    return r % 4 != 0 ? (uint64_t)__builtin_ctzll(r | (uint64_t)1 << 60) : r / 4 % keys + 64;
}

/* Each key so many times in a row. */
static uint64_t key_sorted(context *x, uint32_t i, uint32_t keys) {
    return (uint64_t)i * keys / x->n;
}

/* Many keys once, and then one key alone. */
static uint64_t key_late(context *x, uint32_t i, uint32_t keys) {
    (void)keys;
    return i < x->n / 2 ? i + 10 : 7;
}

static const key_fn all_keys[] = {key_one,     key_distinct, key_alternating, key_extreme,
                                  key_uniform, key_skewed,   key_sorted,      key_late};
enum { N_KEYS = sizeof all_keys / sizeof *all_keys };

static void *column(context *x, const uint64_t *v, uint32_t n, uint32_t bytes) {
    unsigned char packed[MOST_ROWS * 8];
    void *p = take(x->device, (uint64_t)n * 8 + 8);
    for (uint32_t i = 0; i < n; i++) {
        memcpy(packed + (size_t)i * bytes, &v[i], bytes);
    }
    assert_int_equal(wh_device_copy_in(x->device, p, packed, (uint64_t)n * bytes), WH_OK);
    return p;
}

static void make_table(context *x, uint32_t n, key_fn key, uint32_t keys) {
    x->n = n;
    for (uint32_t i = 0; i < n; i++) {
        x->key[i] = key(x, i, keys);
        x->key[i] = x->o.key_bytes == 8 ? x->key[i] : (uint32_t)x->key[i];
        x->value[i] = some_value(x);
    }
    x->device_key = column(x, x->key, n, x->o.key_bytes);
    x->device_value = column(x, x->value, n, value_bytes(x));
}

/* --- what comes out ----------------------------------------------------------------------------
 */

static double number_of(const context *x, uint64_t bits) {
    double d;
    float f;
    memcpy(&d, &bits, sizeof d);
    memcpy(&f, &bits, sizeof f);
    return x->o.value == WH_GROUP_FLOAT ? (double)f : d;
}

static int64_t integer_of(const context *x, uint64_t bits) {
    return x->o.value == WH_GROUP_INT32 ? (int32_t)(uint32_t)bits : (int64_t)bits;
}

static uint64_t bits_of(double d) {
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* Whether a value is less than another, as ops.h orders them: NaN last, -0.0 below 0.0. */
static int is_less(const context *x, uint64_t a, uint64_t b) {
    if (!is_float(x)) {
        return integer_of(x, a) < integer_of(x, b);
    }
    const double p = number_of(x, a), q = number_of(x, b);
    if (isnan(p) || isnan(q)) {
        return !isnan(p);
    }
    return p < q || (p == q && signbit(p) && !signbit(q));
}

static out_row *group_of(uint64_t key) {
    for (uint32_t k = 0; k < expected.n; k++) {
        if (expected.row[k].column[KEY] == key) {
            return &expected.row[k];
        }
    }
    return NULL;
}

static uint64_t sum_of(const context *x, uint64_t sum, uint64_t value) {
    return is_float(x) ? bits_of(double_of(sum) + number_of(x, value))
                       : sum + (uint64_t)integer_of(x, value);
}

static void group_naively(const context *x) {
    const uint32_t asked = x->o.aggregates != 0 ? x->o.aggregates : WH_GROUP_COUNT;
    expected.n = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        out_row *r = group_of(x->key[i]);
        if (r == NULL) {
            r = &expected.row[expected.n++];
            memset(r, 0, sizeof *r);
            r->column[KEY] = x->key[i];
            r->column[LEAST] = r->column[MOST] = x->value[i];
        }
        r->column[COUNT]++;
        r->column[SUM] = sum_of(x, r->column[SUM], x->value[i]);
        r->column[LEAST] =
            is_less(x, x->value[i], r->column[LEAST]) ? x->value[i] : r->column[LEAST];
        r->column[MOST] = is_less(x, r->column[MOST], x->value[i]) ? x->value[i] : r->column[MOST];
    }
    for (uint32_t k = 0; k < expected.n; k++) {
        uint64_t *c = expected.row[k].column;
        const double sum = is_float(x) ? double_of(c[SUM]) : (double)(int64_t)c[SUM];
        c[AVG] = bits_of(sum / (double)c[COUNT]);
        for (uint32_t a = 0; a < COLUMNS - 1; a++) {
            c[a + 1] = (asked >> a & 1) != 0 ? c[a + 1] : 0;
        }
    }
}

static int compare_rows(const void *a, const void *b) {
    return memcmp(a, b, sizeof(out_row));
}

static void compare(void) {
    assert_int_equal(got.n, expected.n);
    qsort(got.row, got.n, sizeof(out_row), compare_rows);
    qsort(expected.row, expected.n, sizeof(out_row), compare_rows);
    assert_memory_equal(got.row, expected.row, got.n * sizeof(out_row));
}

static uint64_t entry(const unsigned char *from, uint32_t bytes, uint64_t i) {
    uint64_t v = 0;
    memcpy(&v, from + i * bytes, bytes);
    return v;
}

/* --- runs --------------------------------------------------------------------------------------
 */

static void open_all(context *x, uint64_t seed, uint64_t heap_bytes) {
    wh_sim_options so;
    wh_heap_options ho;
    memset(x, 0, sizeof *x);
    memset(&so, 0, sizeof so);
    memset(&ho, 0, sizeof ho);
    so.policy = (wh_sim_policy)(seed % N_POLICIES);
    so.seed = seed;
    so.weak = seed % 4 == 2 ? WH_SIM_WEAK_FORMAL : WH_SIM_WEAK_NONE;
    so.workers = seed % 4 == 3 ? 3 : 1;
    x->device = open_with(&so);
    ho.device = x->device;
    assert_int_equal(wh_heap_min_bytes(&ho, &ho.bytes), WH_OK);
    ho.bytes += heap_bytes;
    assert_int_equal(wh_heap_create(&x->heap, &ho), WH_OK);
    x->random = seed;
    x->o.heap = x->heap;
    x->o.key_bytes = seed % 3 == 0 ? 8 : 4;
    x->o.value = (wh_group_value)(seed % 5);
    x->o.aggregates = x->o.value == WH_GROUP_NO_VALUE ? 0 : (uint32_t)(seed / 3 % 32);
}

/* Pages in which not many more than 32 rows of the result fit. */
static uint32_t small_pages(const context *x) {
    const uint32_t asked = x->o.aggregates != 0 ? x->o.aggregates : WH_GROUP_COUNT;
    uint32_t width = x->o.key_bytes, bytes = 256;
    for (uint32_t a = 1; a < COLUMNS; a++) {
        const uint32_t is_value = a == LEAST || a == MOST;
        const uint32_t bytes_of = is_value ? value_bytes(x) : 8;
        width += (asked >> (a - 1) & 1) != 0 ? bytes_of : 0;
    }
    while (bytes < 32 * width) {
        bytes *= 2;
    }
    return bytes;
}

static void create(context *x) {
    x->o.rows = x->n;
    x->o.page_bytes = x->o.page_bytes != 0 ? x->o.page_bytes : small_pages(x);
    assert_int_equal(wh_group_create(&x->group, &x->o), WH_OK);
}

static wh_status try_create(context *x, const wh_group_options *o) {
    const wh_status s = wh_group_create(&x->group, o);
    assert_true(s == WH_OK || x->group == NULL);
    assert_true(s == WH_OK || wh_last_error_text()[0] != 0);
    return s;
}

static void close_all(context *x) {
    wh_stats stats;
    memset(&stats, 0, sizeof stats);
    assert_int_equal(wh_group_destroy(x->group), WH_OK);
    assert_int_equal(wh_heap_get_stats(x->heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, 0); /* nothing is lost */
    assert_int_equal(wh_heap_check(x->heap, NULL), WH_OK);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
}

static void start_group(context *x) {
    wh_table t;
    memset(&t, 0, sizeof t);
    t.key = x->device_key;
    t.value = x->device_value;
    t.n = x->n;
    got.n = 0;
    assert_int_equal(wh_group_start(x->group, &t, NULL), WH_OK);
}

#endif
