/* tables.c: joins and group-bys of 1, 2 or 4 ranks against plain loops over all ranks' rows, which
 * each rank draws itself: kinds, widths and values, even keys, Zipf's, one key for all; empty and
 * unequal tables; heaps that are full, on one rank or all; how even the work is, and that one rank
 * alone has no more of it than an operator without ranks. */
#include "ranks_test.h"

#include <math.h>
#include <sys/mman.h>

#include "warpheap/core/hash.h"

#include "workload/ranks/tables.h"

#define MOST_ROWS 100000u /* of a table, of all ranks */
#define MOST_OUT 400000u

typedef struct context {
    wh_comm *comm;
    wh_device *device;
    wh_heap *heap;
    int rank, size;
    uint64_t random;
} context;

/* A table of all ranks, one's rows behind the other's; and this rank's part on the device. */
typedef struct table {
    uint32_t n, first[MOST_RANKS + 1];
    uint64_t key[MOST_ROWS], value[MOST_ROWS];
    void *device_key, *device_value;
} table;

static table build, probe;

/* Whose heap, or device, is small. */
typedef enum small { NOBODY, FIRST, LAST, ALL_RANKS } small;

static int is_small(const context *x, small who) {
    return who == ALL_RANKS || (who == FIRST && x->rank == 0) ||
           (who == LAST && x->rank == x->size - 1);
}

static void open_all(context *x, uint64_t seed, small who, uint64_t heap_bytes,
                     uint64_t device_bytes) {
    wh_sim_options so;
    wh_heap_options o;
    memset(x, 0, sizeof *x);
    memset(&so, 0, sizeof so);
    memset(&o, 0, sizeof o);
    x->comm = open_comm(seed % 2 == 0 ? 0 : 100);
    x->rank = wh_comm_rank(x->comm);
    x->size = wh_comm_size(x->comm);
    x->random = seed;
    so.policy = (wh_sim_policy)((seed + (uint64_t)x->rank) % N_POLICIES);
    so.seed = seed;
    so.memory_bytes = is_small(x, who) ? device_bytes : 0;
    x->device = open_device(&so);
    o.device = x->device;
    o.bytes = is_small(x, who) ? heap_bytes : 8 << 20;
    assert_int_equal(wh_heap_create(&x->heap, &o), WH_OK);
}

static void close_all(context *x) {
    wh_stats stats;
    memset(&stats, 0, sizeof stats);
    assert_int_equal(wh_heap_get_stats(x->heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
    expect_ok(x->comm, wh_comm_close(x->comm));
}

static wh_shard_join_options join_options(const context *x) {
    wh_shard_join_options o;
    memset(&o, 0, sizeof o);
    o.comm = x->comm;
    o.heap = x->heap;
    return o;
}

static wh_shard_group_options group_options(const context *x) {
    wh_shard_group_options o;
    memset(&o, 0, sizeof o);
    o.comm = x->comm;
    o.heap = x->heap;
    return o;
}

/* --- tables -------------------------------------------------------------------------------------
 */

typedef enum spread { EVEN, ZIPF, ONE_KEY, ONCE, N_SPREADS } spread;

static uint64_t draw_key(context *x, spread how, uint32_t keys, uint32_t i) {
    const double u = (double)(next_random(&x->random) >> 11) * 0x1p-53;
    uint64_t k = 0;
    switch (how) {
    case EVEN:
        k = below(&x->random, keys);
        break;
    case ZIPF: /* about: the k-th has 1 / k of what the first one has */
        k = (uint64_t)exp(u * log(keys + 1.0)) - 1;
        break;
    case ONCE:
        k = i;
        break;
    default:
        k = 7;
        break;
    }
    return k * 0x9e3779b97f4a7c15u >> 3; /* any bits */
}

/* Of all ranks; up to `most` rows in all, as many on each (uneven 0), or any, and none on some. */
static void draw_table(context *x, table *t, spread how, uint32_t keys, uint32_t most, int uneven) {
    t->n = 0;
    for (int r = 0; r < x->size; r++) {
        const uint32_t share = most / (uint32_t)x->size;
        uint32_t n = share;
        if (uneven) { /* a third of the ranks has none */
            n = below(&x->random, 3) == 0 ? 0 : below(&x->random, share + 1);
        }
        t->first[r] = t->n;
        for (uint32_t i = 0; i < n; i++, t->n++) {
            t->key[t->n] = draw_key(x, how, keys, t->n);
            t->value[t->n] = next_random(&x->random) >> below(&x->random, 60);
        }
    }
    t->first[x->size] = t->n;
}

/* This rank's rows in columns of these widths; value_bytes 0: none. */
static wh_table to_device(context *x, table *t, uint32_t key_bytes, uint32_t value_bytes) {
    wh_table part;
    const uint32_t first = t->first[x->rank], n = t->first[x->rank + 1] - first;
    const uint32_t bytes[2] = {key_bytes, value_bytes};
    uint64_t *const from[2] = {t->key + first, t->value + first};
    void **const to[2] = {&t->device_key, &t->device_value};
    memset(&part, 0, sizeof part);
    for (int c = 0; c < 2; c++) {
        unsigned char *column = malloc(8 * (size_t)n + 8);
        *to[c] = NULL;
        for (uint32_t i = 0; i < n; i++) {
            memcpy(column + (size_t)i * bytes[c], from[c] + i, bytes[c]); /* the low bytes */
        }
        if (bytes[c] != 0 && n != 0) {
            *to[c] = take(x->device, (uint64_t)n * bytes[c]);
            assert_int_equal(wh_device_copy_in(x->device, *to[c], column, (uint64_t)n * bytes[c]),
                             WH_OK);
        }
        free(column);
    }
    for (uint32_t i = 0; i < t->n; i++) {
        t->key[i] = key_bytes == 4 ? (uint32_t)t->key[i] : t->key[i];
        t->value[i] = value_bytes == 4 ? (uint32_t)t->value[i] : t->value[i];
    }
    part.key = t->device_key;
    part.value = t->device_value;
    part.n = n;
    return part;
}

static void from_device(context *x, table *t) {
    (void)wh_device_free(x->device, t->device_key);
    (void)wh_device_free(x->device, t->device_value);
}

/* --- rows of results ----------------------------------------------------------------------------
 */

#define WORDS WH_PAGE_COLUMNS

typedef struct out_row {
    uint64_t list, word[WORDS];
} out_row;

/* Rows that were put out here, or are expected. */
typedef struct out {
    uint64_t n;
    out_row *row;
} out;

static out got, expected, all;

static void put(out *o, const out_row *row) {
    if (o->row == NULL) {
        o->row = malloc(MOST_OUT * sizeof *o->row);
    }
    assert_true(o->n < MOST_OUT);
    o->row[o->n++] = *row;
}

static int compare_rows(const void *a, const void *b) {
    return memcmp(a, b, sizeof(out_row));
}

/* Columns of n rows in device memory become rows. */
static void put_columns(context *x, out *o, uint64_t list, void *const *column,
                        const uint32_t *bytes, uint64_t n) {
    unsigned char *host[WORDS] = {NULL};
    for (uint32_t c = 0; c < WORDS; c++) {
        if (bytes[c] != 0) {
            host[c] = malloc(n * bytes[c] + 1);
            assert_int_equal(wh_device_copy_out(x->device, host[c], column[c], n * bytes[c]),
                             WH_OK);
        }
    }
    for (uint64_t i = 0; i < n; i++) {
        out_row row;
        memset(&row, 0, sizeof row);
        row.list = list;
        for (uint32_t c = 0; c < WORDS; c++) {
            if (bytes[c] != 0) {
                memcpy(&row.word[c], host[c] + i * bytes[c], bytes[c]);
            }
        }
        put(o, &row);
    }
    for (uint32_t c = 0; c < WORDS; c++) {
        free(host[c]);
    }
}

/* What all ranks have put out is what was expected. */
static void compare(context *x) {
    wh_comm_buffer b = {0};
    out_row none;
    memset(&none, 0, sizeof none);
    if (got.row == NULL) {
        put(&got, &none);
        got.n = 0;
    }
    expect_ok(x->comm, wh_comm_all_gather(x->comm, got.row, got.n * sizeof *got.row, &b));
    all.n = b.offset[x->size] / sizeof(out_row);
    all.row = (out_row *)(void *)b.data;
    assert_int_equal(all.n, expected.n);
    if (all.n != 0) {
        qsort(all.row, all.n, sizeof *all.row, compare_rows);
        qsort(expected.row, expected.n, sizeof *expected.row, compare_rows);
        assert_memory_equal(all.row, expected.row, all.n * sizeof *all.row);
    }
    all.row = NULL;
    wh_comm_buffer_free(&b);
    got.n = expected.n = 0;
}

/* --- joins --------------------------------------------------------------------------------------
 */

static uint64_t value_of(const table *t, wh_value_kind kind, uint32_t i) {
    uint32_t r = 0;
    while (t->first[r + 1] <= i) {
        r++;
    }
    const uint64_t row = (uint64_t)r << 32 | (i - t->first[r]);
    if (kind == WH_VALUE_NONE) {
        return 0;
    }
    return kind == WH_VALUE_ROW ? row : t->value[i];
}

/* Returns pairs. */
static uint64_t expect_join(const wh_shard_join_options *o) {
    uint64_t pairs = 0;
    for (uint32_t i = 0; i < probe.n; i++) {
        out_row row;
        uint64_t partners = 0;
        memset(&row, 0, sizeof row);
        row.word[0] = probe.key[i];
        row.word[2] = value_of(&probe, o->probe_value, i);
        for (uint32_t k = 0; k < build.n; k++) {
            if (build.key[k] == probe.key[i]) {
                partners++;
                if (o->kind == WH_JOIN_INNER || o->kind == WH_JOIN_LEFT) {
                    row.word[1] = value_of(&build, o->build_value, k);
                    put(&expected, &row);
                }
            }
        }
        pairs += partners;
        row.word[1] = 0;
        row.list = o->kind == WH_JOIN_LEFT ? WH_JOIN_UNMATCHED : WH_JOIN_MATCHED;
        if ((o->kind == WH_JOIN_SEMI && partners != 0) ||
            ((o->kind == WH_JOIN_ANTI || o->kind == WH_JOIN_LEFT) && partners == 0)) {
            put(&expected, &row);
        }
    }
    return pairs;
}

static void take_list(context *x, wh_join *join, uint32_t list) {
    wh_pages pages;
    void *column[WH_PAGE_COLUMNS] = {NULL};
    assert_int_equal(wh_join_pages(join, list, &pages), WH_OK);
    for (uint32_t c = 0; c < 3; c++) {
        column[c] = take(x->device, pages.n_rows * pages.column_bytes[c] + 8);
        column[c] = pages.column_bytes[c] != 0 ? column[c] : NULL;
    }
    assert_int_equal(wh_join_compact(join, list, column, NULL), WH_OK);
    put_columns(x, &got, list, column, pages.column_bytes, pages.n_rows);
    for (uint32_t c = 0; c < 3; c++) {
        (void)wh_device_free(x->device, column[c]);
    }
}

static void take_join(context *x, wh_shard_join *join, wh_join_kind kind) {
    if (kind != WH_JOIN_COUNT) {
        take_list(x, wh_shard_join_local(join), WH_JOIN_MATCHED);
    }
    if (kind == WH_JOIN_LEFT) {
        take_list(x, wh_shard_join_local(join), WH_JOIN_UNMATCHED);
    }
}

static uint32_t bytes_of(wh_value_kind kind) {
    static const uint32_t bytes[] = {0, 4, 8, 0};
    return bytes[kind];
}

/* Several ranks sample, order and exchange rows; one rank does nothing of that. */
static void expect_steps(const context *x, const wh_shard_work *w) {
    assert_true(w->rows <= w->most_rows && w->most_rows <= w->all_rows);
    assert_true(w->operate > 0);
    if (x->size != 1) {
        assert_true(w->sample > 0 && w->partition + w->exchange > 0);
    } else {
        assert_true(w->sample + w->partition + w->exchange <= 0);
        assert_int_equal(w->heavy + w->sent, 0);
        assert_int_equal(w->rows, w->all_rows);
    }
}

/* One join of the tables that were drawn; drains counts how often a heap was full. */
static void check_join(context *x, wh_shard_join *join, const wh_shard_join_options *o,
                       uint32_t *drains) {
    wh_shard_join_result r;
    wh_shard_work work;
    wh_table b = to_device(x, &build, o->key_bytes, bytes_of(o->build_value));
    wh_table p = to_device(x, &probe, o->key_bytes, bytes_of(o->probe_value));
    const uint64_t pairs = expect_join(o);
    wh_status s = wh_shard_join_run(join, &b, &p, &r);
    while (s == WH_OUT_OF_MEMORY && r.stopped != 0) {
        assert_int_equal(wh_comm_last_failure(x->comm)->reason, WH_COMM_REPORTED);
        *drains += 1;
        take_join(x, join, o->kind);
        assert_int_equal(wh_join_drop_pages(wh_shard_join_local(join), NULL), WH_OK);
        s = wh_shard_join_resume(join, &r);
    }
    expect_ok(x->comm, s);
    assert_int_equal(r.stopped, 0);
    take_join(x, join, o->kind);
    assert_int_equal(r.all_rows, o->kind == WH_JOIN_COUNT ? pairs : expected.n);
    compare(x);
    wh_shard_join_get_work(join, &work);
    expect_steps(x, &work);
    assert_true(x->size == 1 ? work.rows == b.n + p.n : work.exchange > 0);
    if (x->size != 1 && o->exchange == WH_SHARD_BROADCAST) {
        assert_int_equal(work.rows, build.n + p.n);
        assert_int_equal(work.sent, b.n * (uint64_t)(x->size - 1));
    }
    from_device(x, &build);
    from_device(x, &probe);
}

/* Draws sizes so that the result is not too long. */
static void draw_tables(context *x) {
    const spread b = (spread)below(&x->random, N_SPREADS), p = (spread)below(&x->random, 3);
    const uint32_t keys = 1 + below(&x->random, below(&x->random, 2) ? 2000 : 40);
    const int uneven = below(&x->random, 2) == 0;
    draw_table(x, &build, b, keys, b == ONE_KEY || keys < 40 ? 160 : 700, uneven);
    draw_table(x, &probe, p, keys, p == ONE_KEY || keys < 40 ? 240 : 1200, uneven);
}

static void random_joins(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < (n_seeds() + 3) / 4; seed++) {
        context x;
        open_all(&x, seed, NOBODY, 0, 0);
        for (uint32_t kind = 0; kind <= WH_JOIN_COUNT; kind++) {
            wh_shard_join *join = NULL;
            uint32_t drains = 0;
            wh_shard_join_options o = join_options(&x);
            o.kind = (wh_join_kind)kind;
            o.key_bytes = below(&x.random, 2) ? 8 : 4;
            o.build_value = (wh_value_kind)below(&x.random, 4);
            o.probe_value = (wh_value_kind)below(&x.random, 4);
            o.variant = below(&x.random, 2) ? "pages" : NULL;
            o.exchange = (wh_shard_exchange)below(&x.random, 3);
            o.page_bytes = 1024;
            o.build_rows = o.probe_rows = below(&x.random, 300);
            expect_ok(x.comm, wh_shard_join_create(&join, &o));
            for (uint32_t round = 0; round < 2; round++) { /* the same object */
                draw_tables(&x);
                check_join(&x, join, &o, &drains);
            }
            assert_int_equal(drains, 0);
            assert_int_equal(wh_shard_join_destroy(join), WH_OK);
        }
        close_all(&x);
    }
}

/* By itself a join sends a small build table to all ranks, if probe rows are even, and no other
 * one.
 */
static void small_builds(void **state) {
    (void)state;
    context x;
    open_all(&x, 3, NOBODY, 0, 0);
    for (uint32_t kind = 0; kind < 4; kind++) {
        wh_shard_join_result r;
        wh_shard_work work;
        wh_shard_join *join = NULL;
        wh_shard_join_options o = join_options(&x);
        o.key_bytes = 8;
        o.build_value = o.probe_value = WH_VALUE_ROW;
        o.exchange = x.rank == 0 ? WH_SHARD_EXCHANGE_AUTO : (wh_shard_exchange)9;
        assert_int_equal(wh_shard_join_create(&join, &o), x.size == 1 ? WH_OK : WH_BAD_ARGUMENT);
        assert_int_equal(wh_shard_join_destroy(join), WH_OK);
        o.exchange = kind == 1 ? WH_SHARD_SHUFFLE : WH_SHARD_EXCHANGE_AUTO;
        draw_table(&x, &build, ONCE, 1, kind == 2 ? 160 : 148, 0);
        draw_table(&x, &probe, EVEN, 100, 300 * (uint32_t)x.size, 0);
        if (kind == 3) { /* rank 0 has twice the others' rows, with two ranks, or more */
            for (int rank = 1; rank <= x.size; rank++) {
                probe.first[rank] = probe.n - (uint32_t)(x.size - rank) * 150;
            }
        }
        wh_table b = to_device(&x, &build, 8, 0), p = to_device(&x, &probe, 8, 0);
        expect_ok(x.comm, wh_shard_join_create(&join, &o));
        (void)expect_join(&o);
        expect_ok(x.comm, wh_shard_join_run(join, &b, &p, &r));
        take_join(&x, join, o.kind);
        compare(&x);
        wh_shard_join_get_work(join, &work);
        const uint64_t all_build = build.n * (uint64_t)x.size;
        assert_true(x.size == 1 || (work.all_rows == probe.n + all_build) == (kind == 0));
        assert_int_equal(wh_shard_join_destroy(join), WH_OK);
        from_device(&x, &build);
        from_device(&x, &probe);
    }
    close_all(&x);
}

/* --- group-bys ----------------------------------------------------------------------------------
 */

static int is_float(wh_group_value kind) {
    return kind == WH_GROUP_FLOAT || kind == WH_GROUP_DOUBLE;
}

static uint32_t group_bytes(wh_group_value kind) {
    static const uint32_t bytes[] = {0, 4, 8, 4, 8};
    return bytes[kind];
}

static uint64_t double_bits(double v) {
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof bits);
    return v != v ? 0x7ff8000000000000u : bits;
}

static double double_of(wh_group_value kind, uint64_t bits) {
    float f = 0;
    double d = 0;
    memcpy(&f, &bits, sizeof f);
    memcpy(&d, &bits, sizeof d);
    return kind == WH_GROUP_FLOAT ? (double)f : d;
}

static uint64_t bits_of(wh_group_value kind, double v) {
    const float f = (float)v;
    uint64_t bits = 0;
    if (kind == WH_GROUP_DOUBLE) {
        return double_bits(v);
    }
    memcpy(&bits, &f, sizeof f);
    return v != v ? 0x7fc00000u : bits;
}

/* Whole numbers, whose sums are exact, and some that are none, or minus zero. */
static void draw_values(context *x, table *t, wh_group_value kind) {
    static const double odd[] = {NAN, -0.0, 0.0, INFINITY};
    const int has_odd = below(&x->random, 2) == 0;
    for (uint32_t i = 0; i < t->n && is_float(kind); i++) {
        const double v = has_odd && below(&x->random, 4) == 0
                             ? odd[below(&x->random, 4)]
                             : (double)below(&x->random, 2001) - 1000;
        t->value[i] = bits_of(kind, v);
    }
}

static int is_less(wh_group_value kind, uint64_t a, uint64_t b) {
    if (is_float(kind)) {
        const double x = double_of(kind, a), y = double_of(kind, b);
        if (x != x || y != y) {
            return x == x;
        }
        return x != y ? x < y : signbit(x) && !signbit(y);
    }
    return kind == WH_GROUP_INT32 ? (int32_t)(uint32_t)a < (int32_t)(uint32_t)b
                                  : (int64_t)a < (int64_t)b;
}

static int by_key(const void *a, const void *b) {
    const uint64_t x = probe.key[*(const uint32_t *)a], y = probe.key[*(const uint32_t *)b];
    return x < y ? -1 : x > y;
}

static void expect_groups(const wh_shard_group_options *o) {
    static uint32_t order[MOST_ROWS];
    for (uint32_t i = 0; i < probe.n; i++) {
        order[i] = i;
    }
    qsort(order, probe.n, sizeof *order, by_key);
    for (uint32_t i = 0, end = 0; i < probe.n; i = end) {
        out_row row;
        double sum = 0;
        uint64_t whole = 0, least = probe.value[order[i]], most = least;
        memset(&row, 0, sizeof row);
        for (end = i; end < probe.n && probe.key[order[end]] == probe.key[order[i]]; end++) {
            const uint64_t v = probe.value[order[end]];
            sum += double_of(o->value, v);
            whole += o->value == WH_GROUP_INT32 ? (uint64_t)(int64_t)(int32_t)(uint32_t)v : v;
            least = is_less(o->value, v, least) ? v : least;
            most = is_less(o->value, most, v) ? v : most;
        }
        const uint64_t n = end - i;
        const double mean = (is_float(o->value) ? sum : (double)(int64_t)whole) / (double)n;
        const uint64_t words[WORDS] = {
            probe.key[order[i]], n, is_float(o->value) ? double_bits(sum) : whole, least, most,
            double_bits(mean)};
        const uint32_t asked = o->aggregates != 0 ? o->aggregates : WH_GROUP_COUNT;
        for (uint32_t c = 0; c < WORDS; c++) {
            row.word[c] = c == 0 || (asked >> (c - 1) & 1) ? words[c] : 0;
        }
        put(&expected, &row);
    }
}

/* By wh_shard_group_compact, or page by page. */
static void take_groups(context *x, wh_shard_group *group, wh_group_value kind, uint64_t n) {
    const uint64_t first = got.n;
    wh_pages pages;
    void *column[WH_PAGE_COLUMNS] = {NULL};
    if (below(&x->random, 2) == 0) {
        assert_int_equal(wh_shard_group_pages(group, WH_SHARD_HEAVY, &pages), WH_OK);
        for (uint32_t c = 0; c < WH_PAGE_COLUMNS; c++) {
            column[c] = pages.column_bytes[c] != 0 ? take(x->device, n * 8 + 8) : NULL;
        }
        assert_int_equal(wh_shard_group_compact(group, column), WH_OK);
        put_columns(x, &got, 0, column, pages.column_bytes, n);
        for (uint32_t c = 0; c < WH_PAGE_COLUMNS; c++) {
            (void)wh_device_free(x->device, column[c]);
        }
    } else {
        for (uint32_t list = 0; list < WH_SHARD_LISTS; list++) {
            assert_int_equal(wh_shard_group_pages(group, list, &pages), WH_OK);
            unsigned char **page = malloc(pages.n_pages * sizeof *page + 1);
            uint32_t *rows = malloc(pages.n_pages * sizeof *rows + 1);
            (void)wh_device_copy_out(x->device, page, pages.page, pages.n_pages * sizeof *page);
            (void)wh_device_copy_out(x->device, rows, pages.rows, pages.n_pages * sizeof *rows);
            for (uint64_t p = 0; p < pages.n_pages; p++) {
                for (uint32_t c = 0; c < WH_PAGE_COLUMNS; c++) {
                    column[c] = page[p] + pages.column_at[c];
                }
                put_columns(x, &got, 0, column, pages.column_bytes, rows[p]);
            }
            free(page);
            free(rows);
        }
    }
    assert_int_equal(got.n - first, n);
    for (uint64_t i = first; i < got.n && is_float(kind); i++) { /* one NaN is as good as another */
        double sum = 0;
        memcpy(&sum, &got.row[i].word[2], sizeof sum);
        got.row[i].word[2] = double_bits(sum);
        memcpy(&sum, &got.row[i].word[5], sizeof sum);
        got.row[i].word[5] = double_bits(sum);
    }
}

static void check_group(context *x, wh_shard_group *group, const wh_shard_group_options *o,
                        uint32_t *drains) {
    wh_shard_group_result r;
    wh_shard_work work;
    wh_table t = to_device(x, &probe, o->key_bytes, group_bytes(o->value));
    expect_groups(o);
    wh_status s = wh_shard_group_run(group, &t, &r);
    while (s == WH_OUT_OF_MEMORY && r.stopped != 0) {
        *drains += 1;
        take_groups(x, group, o->value, r.rows);
        assert_int_equal(wh_shard_group_drop_pages(group), WH_OK);
        s = wh_shard_group_resume(group, &r);
    }
    expect_ok(x->comm, s);
    assert_int_equal(r.stopped, 0);
    take_groups(x, group, o->value, r.rows);
    assert_int_equal(r.all_rows, expected.n);
    compare(x);
    wh_shard_group_get_work(group, &work);
    expect_steps(x, &work);
    assert_true(x->size != 1 || work.rows == t.n);
    from_device(x, &probe);
}

static void random_groups(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < (n_seeds() + 3) / 4; seed++) {
        context x;
        open_all(&x, seed, NOBODY, 0, 0);
        for (uint32_t kind = 0; kind <= WH_GROUP_DOUBLE; kind++) {
            wh_shard_group *group = NULL;
            uint32_t drains = 0;
            wh_shard_group_options o = group_options(&x);
            o.value = (wh_group_value)kind;
            o.key_bytes = below(&x.random, 2) ? 8 : 4;
            o.aggregates = kind == WH_GROUP_NO_VALUE ? 0 : 1 + below(&x.random, 31);
            o.page_bytes = 2048;
            o.combine = (wh_shard_combine)below(&x.random, 3);
            o.rows = below(&x.random, 300);
            expect_ok(x.comm, wh_shard_group_create(&group, &o));
            for (uint32_t round = 0; round < 2; round++) { /* the same object */
                const uint32_t keys = 1 + below(&x.random, below(&x.random, 2) ? 2000 : 40);
                draw_table(&x, &probe, (spread)below(&x.random, N_SPREADS), keys, 2000,
                           below(&x.random, 2) == 0);
                draw_values(&x, &probe, o.value);
                check_group(&x, group, &o, &drains);
            }
            assert_int_equal(drains, 0);
            assert_int_equal(wh_shard_group_destroy(group), WH_OK);
        }
        close_all(&x);
    }
}

/* --- memory that is full ------------------------------------------------------------------------
 */

/* A heap that is full on the last rank, or on all of them: what the others have put out
 * stays, and all comes once. After a broadcast, too, whose probe rows are read again. */
static void full_joins(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++) {
        const int who = k == 1 ? ALL_RANKS : LAST;
        context x;
        wh_shard_join *join = NULL;
        uint32_t drains = 0;
        open_all(&x, (uint64_t)who, (small)who, 160 << 10, 0);
        wh_shard_join_options o = join_options(&x);
        o.kind = WH_JOIN_LEFT;
        o.variant = "pages";
        o.build_value = WH_VALUE_8;
        o.probe_value = k == 0 ? WH_VALUE_8 : WH_VALUE_ROW;
        o.exchange = k == 2 ? WH_SHARD_BROADCAST : WH_SHARD_EXCHANGE_AUTO;
        o.key_bytes = 8;
        o.page_bytes = 1024;
        const uint32_t parts = x.size == 1 ? 2 : (uint32_t)x.size;
        draw_table(&x, &build, ZIPF, 100, 350 * parts, 0);
        draw_table(&x, &probe, ZIPF, 200, 400 * parts, 0);
        expect_ok(x.comm, wh_shard_join_create(&join, &o));
        check_join(&x, join, &o, &drains);
        assert_true(drains > 1);
        check_join(&x, join, &o, &drains); /* again, by the same object */
        assert_true(drains > 2);
        assert_int_equal(wh_shard_join_destroy(join), WH_OK);
        close_all(&x);
    }
}

/* combine ALL: this rank's own sums, of keys that others have, too, come out in several times. */
static void full_groups(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        context x;
        wh_shard_group *group = NULL;
        uint32_t drains = 0;
        open_all(&x, (uint64_t)k, k == 0 ? LAST : ALL_RANKS, k == 1 ? 330000 : 360000, 0);
        wh_shard_group_options o = group_options(&x);
        o.key_bytes = 8;
        o.page_bytes = 2048;
        o.value = WH_GROUP_INT64;
        o.aggregates = 31;
        o.combine = k == 1 ? WH_SHARD_COMBINE_ALL : WH_SHARD_COMBINE_SAMPLE;
        assert_true(x.size <= 4);
        draw_table(&x, &probe, k == 1 ? EVEN : ONCE, 60000, 6000 * (uint32_t)x.size, 0);
        expect_ok(x.comm, wh_shard_group_create(&group, &o));
        check_group(&x, group, &o, &drains);
        assert_int_equal(drains > 0, k != 1 || x.size == 1); /* which adds up nothing first */
        draw_table(&x, &probe, EVEN, 50, 500, 0);
        check_group(&x, group, &o, &drains); /* again, by the same object */
        assert_int_equal(wh_shard_group_destroy(group), WH_OK);
        close_all(&x);
    }
}

/* Rows on their way that fill a heap before anything comes out: to drain the others does not help.
 */
static void stuck(void **state) {
    (void)state;
    if (on_gpu()) { /* whose smallest heap is larger */
        skip();
    }
    context x;
    wh_shard_group *group = NULL;
    wh_shard_group_result r;
    open_all(&x, 0, LAST, 60000, 0);
    if (x.rank == 0 &&
        x.size != 1) { /* has rows when it stops, which is of no use to the last one */
        wh_heap_options h;
        memset(&h, 0, sizeof h);
        h.device = x.device;
        h.bytes = 360000;
        assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
        assert_int_equal(wh_heap_create(&x.heap, &h), WH_OK);
    }
    wh_shard_group_options o = group_options(&x);
    o.key_bytes = 8;
    o.page_bytes = 2048;
    o.value = WH_GROUP_INT64;
    o.aggregates = 31;
    expect_ok(x.comm, wh_shard_group_create(&group, &o));
    draw_table(&x, &probe, ONCE, 1, 6000 * (uint32_t)x.size, 0);
    wh_table t = to_device(&x, &probe, 8, 8);
    for (int k = 0; k < 2; k++) { /* the same object */
        assert_int_equal(wh_shard_group_run(group, &t, &r), WH_OUT_OF_MEMORY);
        assert_int_equal(wh_comm_last_failure(x.comm)->rank, 0);
        assert_int_equal(r.stopped, 0);
        assert_int_equal(r.rows != 0, x.rank != x.size - 1);
    }
    assert_int_equal(wh_shard_group_drop_pages(group), WH_OK);
    assert_int_equal(wh_shard_group_resume(group, &r), WH_OUT_OF_MEMORY);
    assert_int_equal(r.stopped, 0);
    from_device(&x, &probe);
    assert_int_equal(wh_shard_group_destroy(group), WH_OK);
    close_all(&x);
}

static void *rest[1600];

/* Others have taken what is left of a small device. */
static void take_rest(const context *x) {
    for (int k = 0; k < 1600; k++) {
        (void)wh_device_alloc(x->device, &rest[k], 4096);
    }
}

static void give_rest(const context *x) {
    for (int k = 0; k < 1600; k++) {
        (void)wh_device_free(x->device, rest[k]);
        rest[k] = NULL;
    }
}

/* A device that has no room for the rows that come: nobody has anything, and all go on. */
static void full_device(void **state) {
    (void)state;
    if (is_alone() || on_gpu()) {
        skip();
    }
    context x;
    wh_shard_join *join = NULL;
    wh_shard_join_result r;
    uint32_t drains = 0;
    open_all(&x, 0, FIRST, 1 << 20, 6 << 20);
    wh_shard_join_options o = join_options(&x);
    o.build_value = o.probe_value = WH_VALUE_8;
    o.key_bytes = 8;
    o.page_bytes = 1024;
    for (int k = WH_SHARD_SHUFFLE; k <= WH_SHARD_BROADCAST; k++) {
        o.exchange = (wh_shard_exchange)k;
        expect_ok(x.comm, wh_shard_join_create(&join, &o));
        draw_table(&x, &build, ONCE, 1, 2000, 0);
        draw_table(&x, &probe, ONCE, 1, 2000, 0);
        const wh_table b = to_device(&x, &build, 8, 8), p = to_device(&x, &probe, 8, 8);
        if (x.rank == 0) {
            take_rest(&x);
        }
        assert_int_equal(wh_shard_join_run(join, &b, &p, &r), WH_OUT_OF_MEMORY);
        assert_int_equal(wh_comm_last_failure(x.comm)->rank, 0);
        assert_int_equal(wh_comm_last_failure(x.comm)->reason, WH_COMM_REPORTED);
        assert_int_equal(r.stopped, 0);
        assert_null(wh_shard_join_local(join));
        assert_int_equal(wh_shard_join_resume(join, &r), WH_BAD_ARGUMENT);
        give_rest(&x);
        from_device(&x, &build);
        from_device(&x, &probe);
        check_join(&x, join, &o, &drains);
        assert_int_equal(wh_shard_join_destroy(join), WH_OK);
    }
    close_all(&x);
}

/* One rank alone, whose device is full: rows go straight to operators that were made for as many,
 * and nothing is asked for but rows' numbers. */
static void takes_nothing(void **state) {
    (void)state;
    if (!is_alone() || on_gpu()) {
        skip();
    }
    context x;
    wh_shard_join *join = NULL, *numbers = NULL;
    wh_shard_group *group = NULL;
    open_all(&x, 0, FIRST, 1 << 20, 6 << 20);
    wh_shard_join_options o = join_options(&x);
    wh_shard_group_options g = group_options(&x);
    o.key_bytes = g.key_bytes = 8;
    o.page_bytes = g.page_bytes = 1024;
    o.build_value = o.probe_value = WH_VALUE_8;
    o.build_rows = o.probe_rows = g.rows = 2000;
    g.combine = WH_SHARD_COMBINE_ALL;
    expect_ok(x.comm, wh_shard_join_create(&join, &o));
    expect_ok(x.comm, wh_shard_group_create(&group, &g));
    o.probe_value = WH_VALUE_ROW;
    expect_ok(x.comm, wh_shard_join_create(&numbers, &o));
    draw_table(&x, &build, ONCE, 1, 2000, 0);
    draw_table(&x, &probe, ONCE, 1, 2000, 0);
    const wh_table b = to_device(&x, &build, 8, 8), p = to_device(&x, &probe, 8, 8);
    take_rest(&x);
    wh_shard_join_result r;
    wh_shard_group_result groups;
    expect_ok(x.comm, wh_shard_join_run(join, &b, &p, &r));
    assert_int_equal(r.all_rows, 2000);
    assert_int_equal(wh_join_drop_pages(wh_shard_join_local(join), NULL), WH_OK);
    expect_ok(x.comm, wh_shard_group_run(group, &b, &groups));
    assert_int_equal(groups.rows, 2000);
    assert_int_equal(wh_shard_group_drop_pages(group), WH_OK);
    assert_int_equal(wh_shard_join_run(numbers, &b, &p, &r), WH_OUT_OF_MEMORY);
    assert_int_equal(r.stopped, 0);
    assert_null(wh_shard_join_local(numbers));
    give_rest(&x);
    expect_ok(x.comm, wh_shard_join_run(numbers, &b, &p, &r));
    assert_int_equal(r.all_rows, 2000);
    from_device(&x, &build);
    from_device(&x, &probe);
    assert_int_equal(wh_shard_join_destroy(join), WH_OK);
    assert_int_equal(wh_shard_join_destroy(numbers), WH_OK);
    assert_int_equal(wh_shard_group_destroy(group), WH_OK);
    close_all(&x);
}

/* --- how even the work is -----------------------------------------------------------------------
 */

#define EVEN_ENOUGH 1.2

static void expect_even(const context *x, const wh_shard_work *work) {
    const double mean = (double)work->all_rows / x->size;
    assert_true(x->size == 1 ? work->heavy == 0 : work->heavy > 5 && work->heavy < 300);
    if ((double)work->most_rows > EVEN_ENOUGH * mean) {
        fail_msg("a rank has %.3f times the mean", (double)work->most_rows / mean);
    }
}

/* Zipf's keys: no rank has much more than its part, of rows or of pairs, though a key has a tenth
 * of them; and its heavy keys' rows stay where they are. */
static void even_joins(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++) { /* heavy in: probe, build, both */
        context x;
        wh_shard_join *join = NULL;
        wh_shard_join_result r;
        wh_shard_work work;
        open_all(&x, 5, NOBODY, 0, 0);
        wh_shard_join_options o = join_options(&x);
        o.kind = WH_JOIN_COUNT;
        o.variant = "pages";
        expect_ok(x.comm, wh_shard_join_create(&join, &o));
        draw_table(&x, &build, which == 0 ? ONCE : ZIPF, 2000, which == 0 ? 2000 : 6000, 0);
        draw_table(&x, &probe, which == 1 ? ONCE : ZIPF, 2000, which == 1 ? 2000 : 6000, 0);
        const wh_table b = to_device(&x, &build, 4, 0), p = to_device(&x, &probe, 4, 0);
        expect_ok(x.comm, wh_shard_join_run(join, &b, &p, &r));
        wh_shard_join_get_work(join, &work);
        expect_even(&x, &work);
        assert_true(r.own.rows < EVEN_ENOUGH * (double)r.all_rows / x.size);
        from_device(&x, &build);
        from_device(&x, &probe);
        assert_int_equal(wh_shard_join_destroy(join), WH_OK);
        close_all(&x);
    }
}

/* The same, of groups. And the operators' own parts of what a rank has got are even: its keys are
 * not those of some part of the hash that they are split by. */
static void even_groups(void **state) {
    (void)state;
    context x;
    wh_shard_group *group = NULL;
    wh_shard_group_result r;
    wh_shard_work work;
    uint32_t quarter[4] = {0};
    open_all(&x, 5, NOBODY, 0, 0);
    wh_shard_group_options o = group_options(&x);
    o.combine = WH_SHARD_COMBINE_HEAVY;
    expect_ok(x.comm, wh_shard_group_create(&group, &o));
    draw_table(&x, &probe, ZIPF, 3000, 12000, 0);
    wh_table t = to_device(&x, &probe, 4, 0);
    expect_ok(x.comm, wh_shard_group_run(group, &t, &r));
    wh_shard_group_get_work(group, &work);
    expect_even(&x, &work);
    assert_true(work.sent < work.all_rows / (uint64_t)x.size); /* heavy keys have not gone */
    take_groups(&x, group, o.value, r.rows);
    for (uint64_t i = 0; i < got.n; i++) {
        quarter[wh_mix32((uint32_t)got.row[i].word[0]) >> 30]++;
    }
    for (int k = 0; k < 4; k++) {
        assert_true(quarter[k] > got.n / 6 && quarter[k] < got.n / 3);
    }
    got.n = 0;
    from_device(&x, &probe);
    assert_int_equal(wh_shard_group_destroy(group), WH_OK);
    close_all(&x);
}

/* A sample tells few groups from many, and of few ones only sums go. */
static void few_groups(void **state) {
    (void)state;
    static const uint32_t keys[2] = {3500, 30000};
    context x;
    wh_shard_group *group = NULL;
    wh_shard_group_result r;
    wh_shard_work work;
    open_all(&x, 7, NOBODY, 0, 0);
    wh_shard_group_options o = group_options(&x);
    expect_ok(x.comm, wh_shard_group_create(&group, &o));
    for (int k = 0; k < 2 && x.size == 2; k++) {
        draw_table(&x, &probe, EVEN, keys[k], MOST_ROWS, 0);
        wh_table t = to_device(&x, &probe, 4, 0);
        expect_ok(x.comm, wh_shard_group_run(group, &t, &r));
        wh_shard_group_get_work(group, &work);
        assert_int_equal(work.heavy, 0);
        assert_true(k == 0 ? work.sent < keys[k] : work.sent > MOST_ROWS / 5);
        assert_true(r.all_rows > keys[k] * 9 / 10 && r.all_rows <= keys[k]);
        expect_ok(x.comm, wh_shard_group_drop_pages(group));
        from_device(&x, &probe);
    }
    assert_int_equal(wh_shard_group_destroy(group), WH_OK);
    close_all(&x);
}

/* --- wrong calls --------------------------------------------------------------------------------
 */

static void bad_arguments(void **state) {
    (void)state;
    context x;
    wh_shard_join *join = NULL;
    wh_shard_group *group = NULL;
    wh_shard_join_result r;
    uint32_t drains = 0;
    open_all(&x, 0, NOBODY, 0, 0);
    const int odd = x.size - 1, is_odd = x.rank == odd;
    wh_shard_join_options o = join_options(&x);
    wh_shard_group_options g = group_options(&x);
    o.variant = is_odd ? "two-pass" : NULL;
    assert_int_equal(wh_shard_join_create(&join, &o), WH_UNSUPPORTED);
    assert_int_equal(wh_comm_last_failure(x.comm)->rank, odd);
    assert_null(join);
    o.variant = is_odd ? "none" : NULL;
    assert_int_equal(wh_shard_join_create(&join, &o), WH_UNSUPPORTED);
    o.variant = NULL;
    o.page_bytes = g.page_bytes = is_odd ? 64 : 0;
    assert_int_equal(wh_shard_join_create(&join, &o), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_group_create(&group, &g), WH_BAD_ARGUMENT);
    o.page_bytes = g.page_bytes = 0;
    o.heap = g.heap = is_odd ? NULL : x.heap;
    assert_int_equal(wh_shard_join_create(&join, &o), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_group_create(&group, &g), WH_BAD_ARGUMENT);
    o.heap = g.heap = x.heap;
    g.aggregates = is_odd ? WH_GROUP_SUM : 0; /* without values */
    assert_int_equal(wh_shard_group_create(&group, &g), WH_BAD_ARGUMENT);
    g.aggregates = 0;
    o.key_bytes = is_odd ? 5 : 4;
    assert_int_equal(wh_shard_join_create(&join, &o), WH_BAD_ARGUMENT);
    assert_int_equal(wh_comm_last_failure(x.comm)->rank, odd);
    o.key_bytes = g.key_bytes = 4;
    o.build_value = WH_VALUE_4;
    expect_ok(x.comm, wh_shard_join_create(&join, &o));
    expect_ok(x.comm, wh_shard_group_create(&group, &g));
    assert_int_equal(wh_shard_join_resume(join, &r), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_group_resume(group, NULL), WH_BAD_ARGUMENT);
    draw_table(&x, &build, ZIPF, 50, 100, 0);
    draw_table(&x, &probe, ZIPF, 50, 100, 0);
    const wh_table b = to_device(&x, &build, 4, 4), p = to_device(&x, &probe, 4, 0);
    for (int k = 0; k < 4; k++) {
        wh_table wrong = b;
        wrong.key = k == 1 ? (const unsigned char *)b.key + 2 : b.key;
        wrong.key = k == 0 ? NULL : wrong.key;
        wrong.value = k == 2 ? NULL : b.value;
        wrong.n = k == 3 ? (uint64_t)WH_MOST_ROWS + 1 : b.n;
        assert_int_equal(wh_shard_join_run(join, is_odd ? &wrong : &b, &p, &r), WH_BAD_ARGUMENT);
        assert_int_equal(wh_comm_last_failure(x.comm)->rank, odd);
        assert_null(wh_shard_join_local(join));
        if (k != 2) {
            assert_int_equal(wh_shard_group_run(group, is_odd ? &wrong : &b, NULL),
                             WH_BAD_ARGUMENT);
        }
    }
    assert_int_equal(wh_shard_join_run(join, is_odd ? NULL : &b, &p, &r), WH_BAD_ARGUMENT);
    from_device(&x, &build);
    from_device(&x, &probe);
    check_join(&x, join, &o, &drains); /* all goes on */
    check_group(&x, group, &g, &drains);
    assert_int_equal(wh_shard_join_destroy(join), WH_OK);
    assert_int_equal(wh_shard_group_destroy(group), WH_OK);
    close_all(&x);
}

/* A broadcast of more rows than a table may have, though each rank's are not: columns of zeros that
 * take no memory. And calls without their object. */
static void too_many(void **state) {
    (void)state;
    assert_int_equal(wh_shard_join_run(NULL, NULL, NULL, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_join_resume(NULL, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_group_run(NULL, NULL, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_shard_group_resume(NULL, NULL), WH_BAD_ARGUMENT);
    if (is_alone() || on_gpu()) {
        skip();
    }
    context x;
    wh_shard_join *join = NULL;
    wh_table b, none;
    open_all(&x, 0, NOBODY, 0, 0);
    memset(&none, 0, sizeof none);
    memset(&b, 0, sizeof b);
    b.n = WH_MOST_ROWS / (uint64_t)x.size + 1;
    const size_t bytes = (size_t)b.n * 4;
    void *zeros = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(zeros != MAP_FAILED);
    b.key = zeros;
    wh_shard_join_options o = join_options(&x);
    o.exchange = WH_SHARD_BROADCAST;
    expect_ok(x.comm, wh_shard_join_create(&join, &o));
    assert_int_equal(wh_shard_join_run(join, &b, &none, NULL), WH_UNSUPPORTED);
    assert_int_equal(wh_comm_last_failure(x.comm)->reason, WH_COMM_REPORTED);
    assert_null(wh_shard_join_local(join));
    expect_ok(x.comm, wh_shard_join_run(join, &none, &none, NULL));
    assert_int_equal(wh_shard_join_destroy(join), WH_OK);
    (void)munmap(zeros, bytes);
    close_all(&x);
}

/* A rank with other options, or that makes another call: that is the end of the communicator. */
static void unequal(void **state) {
    (void)state;
    if (is_alone()) {
        skip();
    }
    for (int kind = 0; kind < 3; kind++) {
        context x;
        wh_shard_join *join = NULL;
        wh_table none;
        open_all(&x, 0, NOBODY, 0, 0);
        const int odd = x.size - 1, is_odd = x.rank == odd;
        memset(&none, 0, sizeof none);
        wh_shard_join_options o = join_options(&x);
        o.kind = kind == 0 && is_odd ? WH_JOIN_LEFT : WH_JOIN_INNER;
        o.exchange = kind == 2 && is_odd ? WH_SHARD_BROADCAST : WH_SHARD_EXCHANGE_AUTO;
        wh_status s = wh_shard_join_create(&join, &o);
        if (kind == 1) {
            expect_ok(x.comm, s);
            s = is_odd ? wh_shard_join_resume(join, NULL)
                       : wh_shard_join_run(join, &none, &none, NULL);
            assert_int_equal(wh_shard_join_run(join, &none, &none, NULL), WH_BAD_ARGUMENT);
        }
        assert_int_equal(s, WH_BAD_ARGUMENT);
        assert_int_equal(wh_comm_last_failure(x.comm)->reason, WH_COMM_UNEQUAL);
        assert_int_equal(wh_comm_last_failure(x.comm)->rank, odd);
        assert_int_equal(wh_shard_join_destroy(join), WH_OK);
        assert_int_equal(wh_comm_close(x.comm), WH_BAD_ARGUMENT);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_joins),  cmocka_unit_test(small_builds),
        cmocka_unit_test(random_groups), cmocka_unit_test(full_joins),
        cmocka_unit_test(full_groups),   cmocka_unit_test(few_groups),
        cmocka_unit_test(stuck),         cmocka_unit_test(full_device),
        cmocka_unit_test(takes_nothing), cmocka_unit_test(even_joins),
        cmocka_unit_test(even_groups),   cmocka_unit_test(bad_arguments),
        cmocka_unit_test(unequal),       cmocka_unit_test(too_many),
    };
    return run_ranks(tests, sizeof tests / sizeof *tests);
}
