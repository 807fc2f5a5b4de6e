/* group.c: group-bys against a dictionary on the host: tables with few and many keys, all types,
 * widths and aggregates, by every policy of the simulated device and by weak memory; heaps that are
 * too small, and drained; bad input. */
#include "group_model.h"

#include "full_device.h"

/* Adds the rows of the pages to what has been got. */
static void read_pages(context *x) {
    wh_pages p;
    uint64_t rows = 0;
    assert_int_equal(wh_group_pages(x->group, &p), WH_OK);
    for (uint64_t k = 0; k < p.n_pages; k++) {
        assert_in_range(p.rows[k], 1, p.room);
        rows += p.rows[k];
        for (uint32_t i = 0; i < p.rows[k]; i++) {
            assert_true(got.n < 2 * MOST_ROWS);
            out_row *r = &got.row[got.n++];
            for (uint32_t c = 0; c < COLUMNS; c++) {
                r->column[c] = entry(p.page[k] + p.column_at[c], p.column_bytes[c], i);
            }
        }
    }
    assert_int_equal(rows, p.n_rows);
}

/* The rows, compacted, are those of the pages. */
static void compare_compacted(context *x) {
    wh_pages p;
    void *to[COLUMNS];
    assert_int_equal(wh_group_pages(x->group, &p), WH_OK);
    for (uint32_t c = 0; c < COLUMNS; c++) {
        to[c] = take(x->device, got.n * 8 + 8);
    }
    assert_int_equal(wh_group_compact(x->group, to, NULL), WH_OK);
    assert_int_equal(wh_device_sync(x->device), WH_OK);
    for (uint32_t i = 0; i < got.n; i++) {
        for (uint32_t c = 0; c < COLUMNS; c++) {
            got.row[i].column[c] = entry(to[c], p.column_bytes[c], i);
        }
    }
    compare();
    for (uint32_t c = 0; c < COLUMNS; c++) {
        assert_int_equal(wh_device_free(x->device, to[c]), WH_OK);
    }
}

/* --- runs --------------------------------------------------------------------------------------
 */

/* A group-by that has memory enough. */
static void run_and_compare(context *x) {
    wh_group_result r;
    group_naively(x);
    start_group(x);
    assert_int_equal(wh_group_finish(x->group, &r), WH_OK);
    assert_int_equal(r.rows, expected.n);
    assert_int_equal(r.all_rows, expected.n);
    read_pages(x);
    compare();
    compare_compacted(x);
}

static void test_random(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds() * 2; seed++) {
        context x;
        open_all(&x, seed, 8 << 20);
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

/* No rows, one, and numbers of groups around all powers of two: none is a cliff. */
static void test_edges(void **state) {
    (void)state;
    for (uint32_t n = 0; n <= 2; n++) {
        context x;
        open_all(&x, n + 16, 4 << 20);
        make_table(&x, n, key_distinct, 1);
        create(&x);
        run_and_compare(&x);
        close_all(&x);
    }
    for (uint32_t k = 2; k <= 256; k *= 2) {
        for (uint32_t more = 0; more <= 1; more++) {
            context x;
            open_all(&x, 2 * k + more, 4 << 20);
            make_table(&x, 3 * (k + more), key_distinct, 1);
            for (uint32_t i = 0; i < x.n; i++) {
                x.key[i] %= k + more;
            }
            x.device_key = column(&x, x.key, x.n, x.o.key_bytes);
            create(&x);
            run_and_compare(&x);
            close_all(&x);
        }
    }
}

/* NaN of both signs, zeros of both signs, infinite ones. */
static void test_floats(void **state) {
    static const double some[] = {NAN, -NAN, 0.0, -0.0, INFINITY, -INFINITY, 1.5, -2.5};
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        context x;
        open_all(&x, seed, 4 << 20);
        x.o.value = seed % 2 == 0 ? WH_GROUP_FLOAT : WH_GROUP_DOUBLE;
        x.o.aggregates = WH_GROUP_MIN | WH_GROUP_MAX | WH_GROUP_COUNT;
        make_table(&x, 150, key_uniform, 40);
        for (uint32_t i = 0; i < x.n; i++) {
            const double d = some[next_random(&x.random) % 8];
            const float f = (float)d;
            x.value[i] = 0;
            memcpy(&x.value[i], seed % 2 == 0 ? (const void *)&f : (const void *)&d,
                   value_bytes(&x));
            if (isnan(d)) { /* as it comes out */
                x.value[i] &= seed % 2 == 0 ? 0x7fffffffu : 0x7fffffffffffffffu;
            }
        }
        x.device_value = column(&x, x.value, x.n, value_bytes(&x));
        create(&x);
        run_and_compare(&x);
        close_all(&x);
    }
}

static void give_back(context *x, uint32_t n) {
    wh_heap_ref heap;
    assert_int_equal(wh_heap_handle(x->heap, &heap), WH_OK);
    for (; n != 0 && x->n_taken != 0; n--) {
        wh_free(heap, x->taken[--x->n_taken]);
    }
}

/* Takes all of the heap but for about `left` pages. */
static void fill_heap(context *x, uint32_t left) {
    wh_heap_ref heap;
    assert_int_equal(wh_heap_handle(x->heap, &heap), WH_OK);
    for (x->n_taken = 0; x->n_taken < MOST_TAKEN; x->n_taken++) {
        x->taken[x->n_taken] = wh_malloc(heap, x->o.page_bytes);
        if (x->taken[x->n_taken] == NULL) {
            break;
        }
    }
    assert_in_range(x->n_taken, left, MOST_TAKEN - 1);
    give_back(x, left);
}

/* Pages are where the group-by says, also after they have moved. */
static void read_again(context *x) {
    const uint32_t n = got.n;
    read_pages(x);
    assert_memory_equal(&got.row[n - (got.n - n)], &got.row[n], (got.n - n) * sizeof(out_row));
    got.n = n;
}

/* A heap that is too small, drained until the end: each group comes once. */
static void drain(context *x) {
    wh_group_result r;
    wh_status s;
    group_naively(x);
    start_group(x);
    for (;;) {
        s = wh_group_finish(x->group, &r);
        assert_true(s == WH_OK || s == WH_OUT_OF_MEMORY);
        read_pages(x);
        assert_int_equal(r.all_rows, got.n);
        if (s == WH_OK) {
            break;
        }
        x->rounds++;
        if (r.rows == 0) { /* rows under way fill the heap: others make room */
            assert_true(x->n_taken != 0);
            give_back(x, 1);
        }
        assert_int_equal(wh_group_drop_pages(x->group, NULL), WH_OK);
        assert_int_equal(wh_group_resume(x->group, NULL), WH_OK);
    }
    compare();
}

static void test_full_heap(void **state) {
    uint32_t rounds = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds() * 2; seed++) {
        context x;
        open_all(&x, seed, 1 << 20);
        make_table(&x, 300 + (uint32_t)seed % 7 * 100, all_keys[seed / 2 % N_KEYS], 200);
        create(&x);
        fill_heap(&x, (uint32_t)(seed % 23));
        drain(&x);
        rounds += x.rounds;
        if (seed % 5 != 0) { /* else its pages go back with it */
            assert_int_equal(wh_group_drop_pages(x.group, NULL), WH_OK);
        }
        give_back(&x, x.n_taken);
        close_all(&x);
    }
    assert_in_range(rounds, n_seeds(), UINT32_MAX); /* heaps have been full */
}

/* A heap that grows, and moves, with the pages of the result and of rows under way. */
static void run_and_grow(context *x) {
    wh_group_result r;
    wh_status s;
    group_naively(x);
    start_group(x);
    for (;;) {
        s = wh_group_finish(x->group, &r);
        assert_true(s == WH_OK || s == WH_OUT_OF_MEMORY);
        got.n = 0;
        read_pages(x);
        if (s == WH_OK) {
            break;
        }
        void *base = NULL;
        uint64_t bytes = 0;
        int64_t moved = 0;
        assert_int_equal(wh_heap_memory(x->heap, &base, &bytes), WH_OK);
        assert_int_equal(wh_heap_grow(x->heap, bytes + (64 << 10), NULL, &moved), WH_OK);
        fill_device(x->device, 64);
        assert_int_equal(wh_group_rebase(x->group, moved), WH_OUT_OF_MEMORY);
        empty_device(x->device);
        assert_int_equal(wh_group_rebase(x->group, moved), WH_OK);
        read_again(x);
        assert_int_equal(wh_group_resume(x->group, NULL), WH_OK);
        x->rounds++;
    }
    compare();
}

static void test_grow(void **state) {
    uint32_t rounds = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        wh_heap_options ho;
        context x;
        open_all(&x, seed, 0);
        memset(&ho, 0, sizeof ho);
        ho.device = x.device;
        ho.allocator = "ouro-s-p"; /* can grow */
        x.o.page_bytes = 2048;
        assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
        if (wh_heap_min_bytes(&ho, &ho.bytes) != WH_OK) {
            wh_device_close(x.device);
            skip(); /* is not built */
        }
        assert_int_equal(wh_heap_create(&x.heap, &ho), WH_OK);
        x.o.heap = x.heap;
        make_table(&x, MOST_ROWS, key_distinct, 1);
        assert_int_equal(try_create(&x, &x.o), WH_UNSUPPORTED); /* its blocks are smaller */
        assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
        ho.bytes += 80 << 10;
        assert_int_equal(wh_heap_create(&x.heap, &ho), WH_OK);
        x.o.heap = x.heap;
        create(&x);
        run_and_grow(&x);
        rounds += x.rounds;
        close_all(&x);
    }
    assert_true(rounds >= 8);
}

/* A heap that has grown before the first start: its pages are more than create has seen. */
static void test_grow_first(void **state) {
    wh_heap_options ho;
    context x;
    void *base = NULL;
    uint64_t bytes = 0;
    int64_t moved = 0;
    (void)state;
    open_all(&x, 3, 0);
    memset(&ho, 0, sizeof ho);
    ho.device = x.device;
    ho.allocator = "ouro-s-p";
    if (wh_heap_min_bytes(&ho, &ho.bytes) != WH_OK) {
        assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
        wh_device_close(x.device);
        skip(); /* is not built */
    }
    assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
    assert_int_equal(wh_heap_create(&x.heap, &ho), WH_OK);
    x.o.heap = x.heap;
    make_table(&x, MOST_ROWS, key_distinct, 1);
    create(&x);
    assert_int_equal(wh_heap_memory(x.heap, &base, &bytes), WH_OK);
    assert_int_equal(wh_heap_grow(x.heap, bytes + (4 << 20), NULL, &moved), WH_OK);
    assert_int_equal(wh_group_rebase(x.group, moved), WH_OK);
    run_and_compare(&x);
    start_group(&x);
    assert_int_equal(wh_group_rebase(x.group, 0), WH_BAD_ARGUMENT); /* it has started */
    assert_int_equal(wh_group_finish(x.group, NULL), WH_OK);
    assert_int_equal(wh_group_rebase(NULL, 0), WH_BAD_ARGUMENT);
    /* Nobody looks at pages that have moved, nor moves them twice. */
    void *to[WH_PAGE_COLUMNS] = {NULL};
    wh_pages pages;
    const wh_table t = {0, NULL, NULL, 0};
    assert_int_equal(wh_heap_memory(x.heap, &base, &bytes), WH_OK);
    assert_int_equal(wh_heap_grow(x.heap, bytes + (1 << 20), NULL, &moved), WH_OK);
    assert_int_equal(wh_group_pages(x.group, &pages), WH_BAD_ARGUMENT);
    assert_int_equal(wh_group_compact(x.group, to, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_group_drop_pages(x.group, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_group_start(x.group, &t, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_group_destroy(x.group), WH_BAD_ARGUMENT);
    assert_non_null(strstr(wh_last_error_text(), "wh_group_rebase"));
    assert_int_equal(wh_group_rebase(x.group, moved), WH_OK);
    assert_int_equal(wh_group_rebase(x.group, moved != 0 ? moved : 1), WH_BAD_ARGUMENT);
    close_all(&x);
}

/* One that has stopped is destroyed, or begins anew. */
static void test_left_alone(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        context x;
        open_all(&x, seed, 1 << 20);
        make_table(&x, 500, key_distinct, 1);
        create(&x);
        fill_heap(&x, (uint32_t)seed * 2);
        start_group(&x);
        assert_int_equal(wh_group_finish(x.group, NULL), WH_OUT_OF_MEMORY);
        give_back(&x, x.n_taken);
        if (seed % 2 == 0) {
            run_and_compare(&x);
        }
        close_all(&x);
    }
}

/* --- the paper's form --------------------------------------------------------------------------
 */

typedef struct pair {
    uint64_t key, value;
} pair;

static pair got_pairs[MOST_ROWS], expected_pairs[MOST_ROWS];
static uint32_t n_pairs, n_lists;

static int compare_pairs(const void *a, const void *b) {
    return memcmp(a, b, sizeof(pair));
}

/* All rows of a list's pages, from the last page on; they have its key. */
static void read_list(const context *x, const wh_group_lists *l, uint64_t k) {
    const uint64_t key = entry(l->key, x->o.key_bytes, k);
    uint32_t page = l->last[k] + 1, rows = l->last_rows[k], n = 0;
    for (; page != 0; page = l->before[(page - 1) * l->stride], rows = l->room) {
        const unsigned char *p = l->page[page - 1];
        assert_in_range(rows, 1, l->room);
        for (uint32_t i = 0; i < rows; i++) {
            assert_true(n_pairs < MOST_ROWS);
            assert_int_equal(entry(p + l->key_at, x->o.key_bytes, i), key);
            got_pairs[n_pairs].key = key;
            got_pairs[n_pairs++].value = entry(p + l->value_at, l->value_bytes, i);
        }
        n += rows;
    }
    assert_int_equal(n, l->n_rows[k]);
    n_lists++;
}

/* What fits, drained and gone on with until the end: each group is one list. */
static void list_and_compare(context *x) {
    wh_group_result r;
    wh_group_lists l;
    wh_status s;
    group_naively(x);
    n_pairs = n_lists = 0;
    start_group(x);
    do {
        s = wh_group_finish(x->group, &r);
        assert_true(s == WH_OK || s == WH_OUT_OF_MEMORY);
        assert_int_equal(wh_group_get_lists(x->group, &l), WH_OK);
        assert_int_equal(r.rows, l.n_lists);
        for (uint64_t k = 0; k < l.n_lists; k++) {
            read_list(x, &l, k);
        }
        assert_int_equal(r.all_rows, n_lists);
        if (s != WH_OK) {
            x->rounds++;
            assert_true(r.rows != 0 || x->n_taken != 0);
            give_back(x, r.rows == 0);
            assert_int_equal(wh_group_drop_pages(x->group, NULL), WH_OK);
            assert_int_equal(wh_group_resume(x->group, NULL), WH_OK);
        }
    } while (s != WH_OK);
    assert_int_equal(n_lists, expected.n);
    assert_int_equal(n_pairs, x->n);
    for (uint32_t i = 0; i < x->n; i++) {
        expected_pairs[i].key = x->key[i];
        expected_pairs[i].value = x->o.value == WH_GROUP_NO_VALUE ? 0 : x->value[i];
    }
    qsort(got_pairs, n_pairs, sizeof(pair), compare_pairs);
    qsort(expected_pairs, n_pairs, sizeof(pair), compare_pairs);
    assert_memory_equal(got_pairs, expected_pairs, n_pairs * sizeof(pair));
}

static void test_lists(void **state) {
    uint32_t rounds = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 2 * n_seeds(); seed++) {
        context x;
        open_all(&x, seed, 8 << 20);
        x.o.variant = "paper";
        x.o.aggregates = 0;
        x.o.page_bytes = seed % 5 == 0 ? 1024 : 2048;
        make_table(&x, (uint32_t)seed * 37 % 500, all_keys[seed / 3 % N_KEYS], 40);
        create(&x);
        if (seed % 3 != 0) {
            fill_heap(&x, (uint32_t)seed % 5 * 16);
        }
        list_and_compare(&x);
        rounds += x.rounds;
        give_back(&x, x.n_taken);
        close_all(&x);
    }
    assert_in_range(rounds, n_seeds(), UINT32_MAX);
}

static uint64_t largest_block(const context *x) {
    wh_stats stats;
    memset(&stats, 0, sizeof stats);
    assert_int_equal(wh_heap_get_stats(x->heap, &stats), WH_OK);
    return stats.n_classes != 0 ? stats.classes[stats.n_classes - 1].block_bytes
                                : wh_heap_allocator(x->heap)->max_size;
}

/* Every allocator that frees: those that have pages of one size, too. */
static void test_allocators(void **state) {
    const uint32_t caps = WH_CAP_FREE | WH_CAP_DISJOINT | WH_CAP_SIM | WH_CAP_STATS;
    const wh_allocator_info *info = NULL;
    (void)state;
    for (uint32_t i = 1; (info = wh_allocator_at(i)) != NULL; i++) {
        for (uint32_t is_paper = 0; is_paper < 2 && (info->caps & caps) == caps; is_paper++) {
            wh_heap_options ho;
            context x;
            open_all(&x, i * 3 + is_paper, 0);
            memset(&ho, 0, sizeof ho);
            ho.device = x.device;
            ho.allocator = info->name;
            assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
            assert_int_equal(wh_heap_min_bytes(&ho, &ho.bytes), WH_OK);
            ho.bytes += 4 << 20;
            assert_int_equal(wh_heap_create(&x.heap, &ho), WH_OK);
            x.o.heap = x.heap;
            x.o.variant = is_paper ? "paper" : NULL;
            x.o.aggregates = is_paper ? 0 : WH_GROUP_COUNT;
            x.o.value = WH_GROUP_INT32;
            const uint64_t largest = largest_block(&x);
            const int is_small = !is_paper && largest < small_pages(&x);
            x.o.page_bytes = largest < 2048 ? (uint32_t)largest : 2048;
            make_table(&x, is_paper ? 150 : 500, key_uniform, 120);
            x.o.rows = x.n;
            const wh_status s = try_create(&x, &x.o);
            if (is_small || (s == WH_UNSUPPORTED && n_seeds() < 10)) {
                /* Checked builds have operators on one allocator of each kind. */
                assert_true(s == WH_UNSUPPORTED || s == WH_BAD_ARGUMENT);
                close_all(&x);
                continue;
            }
            assert_int_equal(s, WH_OK);
            if (is_paper) {
                list_and_compare(&x);
            } else {
                run_and_compare(&x);
            }
            close_all(&x);
        }
    }
}

static void test_bad_options(void **state) {
    context x;
    wh_group_options o;
    (void)state;
    open_all(&x, 1, 1 << 20);
    assert_int_equal(wh_group_create(NULL, &x.o), WH_BAD_ARGUMENT);
    assert_int_equal(wh_group_create(&x.group, NULL), WH_BAD_ARGUMENT);
#define TRY_WITH(field, is, status) \
    o = x.o;                        \
    o.field = is;                   \
    assert_int_equal(try_create(&x, &o), WH_##status)
    TRY_WITH(heap, NULL, BAD_ARGUMENT);
    TRY_WITH(key_bytes, 5, BAD_ARGUMENT);
    TRY_WITH(value, (wh_group_value)7, BAD_ARGUMENT);
    TRY_WITH(aggregates, 32, BAD_ARGUMENT);
    TRY_WITH(page_bytes, 256, BAD_ARGUMENT);
    TRY_WITH(page_bytes, 1 << 21, BAD_ARGUMENT);
    TRY_WITH(rows, (uint64_t)WH_MOST_ROWS + 1, BAD_ARGUMENT);
    TRY_WITH(variant, "best", UNSUPPORTED);
    TRY_WITH(struct_bytes, 4, WRONG_BUILD);
#undef TRY_WITH
    o = x.o;
    o.value = WH_GROUP_NO_VALUE;
    o.aggregates = WH_GROUP_SUM;
    assert_int_equal(try_create(&x, &o), WH_BAD_ARGUMENT);
    x.group = NULL;
    close_all(&x);
}

/* Allocators that do not free are refused. */
static void test_bad_heaps(void **state) {
    context x;
    wh_heap_options ho;
    wh_heap *bump = NULL;
    (void)state;
    open_all(&x, 1, 1 << 20);
    memset(&ho, 0, sizeof ho);
    ho.device = x.device;
    ho.allocator = "bump";
    ho.bytes = 1 << 20;
    const wh_status made = wh_heap_create(&bump, &ho);
    if (made == WH_OK) {
        x.o.heap = bump;
        assert_int_equal(try_create(&x, &x.o), WH_UNSUPPORTED);
        assert_int_equal(wh_heap_destroy(bump), WH_OK);
    }
    x.group = NULL;
    close_all(&x);
}

static void test_bad_tables(void **state) {
    context x;
    wh_table t;
    (void)state;
    open_all(&x, 3, 1 << 20);
    x.o.value = WH_GROUP_INT32;
    x.o.aggregates = WH_GROUP_SUM;
    make_table(&x, 40, key_uniform, 5);
    create(&x);
    assert_int_equal(wh_group_finish(x.group, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_group_resume(x.group, NULL), WH_BAD_ARGUMENT);
    memset(&t, 0, sizeof t);
    t.n = 40;
    assert_int_equal(wh_group_start(x.group, &t, NULL), WH_BAD_ARGUMENT); /* no keys */
    t.key = x.device_key;
    assert_int_equal(wh_group_start(x.group, &t, NULL), WH_BAD_ARGUMENT); /* no values */
    t.value = (char *)x.device_value + 2;
    assert_int_equal(wh_group_start(x.group, &t, NULL), WH_BAD_ARGUMENT); /* not aligned */
    t.value = x.device_value;
    t.n = 41;
    assert_int_equal(wh_group_start(x.group, &t, NULL), WH_BAD_ARGUMENT); /* too many rows */
    t.struct_bytes = 8;
    assert_int_equal(wh_group_start(x.group, &t, NULL), WH_WRONG_BUILD);
    assert_int_equal(wh_group_start(x.group, NULL, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_group_pages(x.group, NULL), WH_BAD_ARGUMENT);
    run_and_compare(&x);
    assert_int_equal(wh_group_resume(x.group, NULL), WH_BAD_ARGUMENT); /* it is done */
    close_all(&x);
}

int main(int argc, char **argv) {
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),     cmocka_unit_test(test_edges),
        cmocka_unit_test(test_floats),     cmocka_unit_test(test_full_heap),
        cmocka_unit_test(test_grow),       cmocka_unit_test(test_allocators),
        cmocka_unit_test(test_left_alone), cmocka_unit_test(test_grow_first),
        cmocka_unit_test(test_lists),      cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_bad_heaps),  cmocka_unit_test(test_bad_tables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
