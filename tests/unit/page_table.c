/* page_table.c: core/page_table.h: its arithmetic against naive loops; chunks and runs in a table
 * whose contents are known. */
#include "sim/sim_test.h"

#include "warpheap/core/page_table.h"

/* The lowest n ones in a row in a string of words, of any place. */
static uint32_t naive_row(const uint32_t *words, uint32_t n_words, uint32_t n) {
    uint32_t ones = 0;
    for (uint32_t k = 0; k < n_words * 32; k++) {
        ones = (words[k / 32] >> k % 32 & 1) != 0 ? ones + 1 : 0;
        if (ones == n) {
            return k + 1 - n;
        }
    }
    return WH_PAGE_NONE;
}

static void test_rows(void **state) {
    uint64_t random = 7;
    (void)state;
    for (uint32_t round = 0; round < 20000; round++) {
        uint32_t words[4];
        for (uint32_t w = 0; w < 4; w++) {
            words[w] = (uint32_t)(next_random(&random) | next_random(&random));
            words[w] = next_random(&random) % 3 == 0 ? ~0u : words[w];
        }
        const uint32_t n = 1 + (uint32_t)next_random(&random) % 100;
        uint32_t carry = 0, at = WH_PAGE_NONE;
        for (uint32_t w = 0; w < 4 && at == WH_PAGE_NONE; w++) {
            at = wh_page_row_(w * 32, words[w], n, &carry);
        }
        assert_int_equal(at, naive_row(words, 4, n));
    }
}

static void test_kinds(void **state) {
    (void)state;
    for (uint32_t log2 = 5; log2 <= 22; log2++) {
        const uint64_t page = (uint64_t)1 << log2;
        for (uint64_t n = 1; n <= page; n += n < 5000 ? 1 : 997) {
            const uint32_t kind = wh_page_kind_for(log2, n);
            if (kind == WH_PAGE_RUN) {
                assert_true(n > page / 2 || n > (uint64_t)5 << 18);
                continue;
            }
            assert_true(wh_page_is_split(kind) && wh_page_chunk_bytes(kind) >= n);
            const uint64_t capacity = wh_page_capacity(log2, kind);
            assert_true(capacity >= 2 && capacity * wh_page_chunk_bytes(kind) <= page);
            assert_true(capacity <= 32 * (uint64_t)wh_page_words(log2));
        }
        assert_int_equal(wh_page_kind_for(log2, page / 2 + 1), WH_PAGE_RUN);
    }
    const uint64_t entry = wh_page_entry(UINT32_MAX, WH_PAGE_MOST, WH_PAGE_TAIL);
    assert_int_equal(wh_page_releases(entry), UINT32_MAX >> 6); /* modulo 2^26 */
    assert_int_equal(wh_page_count(entry), WH_PAGE_MOST);
    assert_int_equal(wh_page_kind(entry), WH_PAGE_TAIL);
    for (uint32_t tag = 0; tag < WH_PAGE_TAGS; tag += 21) {
        for (uint32_t kind = 1; kind <= WH_PAGE_CLASSES; kind++) {
            const uint32_t tagged = wh_page_tagged(kind, tag);
            const uint64_t of = wh_page_entry(UINT32_MAX, WH_PAGE_MOST, tagged);
            assert_true(wh_page_kind(of) == tagged && wh_page_count(of) == WH_PAGE_MOST);
            assert_true(wh_page_is_split(tagged) && wh_page_tag(tagged) == tag);
            assert_true(wh_page_chunk_bytes(tagged) == wh_page_chunk_bytes(kind));
        }
        assert_false(wh_page_is_split(WH_PAGE_FREE | tag << 6));
    }
}

#define PAGES 40u
#define PAGE_LOG2 10u

typedef struct table_args {
    wh_page_table t;
    uint32_t *wrong; /* the line of the first thing that is not so; 0: none */
} table_args;

#define SO(condition)                                        \
    if (!(condition) && wh_load_u32_relaxed(a.wrong) == 0) { \
        wh_store_u32_relaxed(a.wrong, __LINE__);             \
    }

/* One lane. */
WH_KERNEL(play, table_args, a) {
    const wh_page_table t = a.t;
    const uint32_t kind = wh_page_kind_for(PAGE_LOG2, 100), capacity = 1024 / 112;
    wh_page_reserved got = wh_page_reserve(t, 3, kind, 4);
    SO(got.n == 4 && got.had == 0);
    got = wh_page_reserve(t, 3, kind, 32);
    SO(got.n == capacity - 4 && got.had == 4);
    SO(wh_page_reserve(t, 3, kind, 1).n == 0 && wh_page_reserve(t, 3, kind + 1, 1).n == 0);
    for (uint32_t k = 0; k < capacity; k++) {
        SO(wh_page_take(t, 3, kind, k < 4 ? 4 + k : k) < capacity);
    }
    SO(!wh_page_claim(t, 2, 2) && wh_page_claim(t, 4, 2)); /* what was claimed is given back */
    wh_page_set_run(t, 4, 2);
    SO(wh_page_find(t, t.base + 4 * 1024).at == 2);
    SO(wh_page_find(t, t.base + 5 * 1024).kind == WH_PAGE_FREE);
    SO(wh_page_find(t, t.base + 3 * 1024 + 112 * 5).at == 5);
    SO(wh_page_find(t, t.base + 3 * 1024 + 112 * 5 + 16).kind == WH_PAGE_FREE);
    SO(wh_page_find(t, t.base + 3 * 1024 + 112 * 9).kind == WH_PAGE_FREE); /* the rest */
    SO(wh_page_find(t, t.base - 1024).kind == WH_PAGE_FREE);
    SO(wh_page_find(t, t.base + PAGES * 1024).kind == WH_PAGE_FREE);
    SO(wh_page_search_run(t, 1, 34, UINT32_MAX) == 6);
    SO(wh_page_search_run(t, 1, 4, 0) == WH_PAGE_NONE);
    SO(wh_page_search_run(t, 1, 3, 20) == 0);
    SO(wh_page_search_chunks(t, 1, kind, 1, 0).page == WH_PAGE_NONE);
    wh_page_freed f = wh_page_free(t, 1, t.base + 3 * 1024 + 112 * 2, 0);
    SO(f.kind == kind && f.n == 1 && f.had == capacity && !f.bad);
    f = wh_page_free(t, 1, t.base + 3 * 1024 + 112 * 2, 0);
    SO(f.n == 0 && f.bad);
    SO(wh_page_search_chunks(t, 1, kind, 7, 10).page == 3 && wh_page_take(t, 3, kind, 0) == 2);
    for (uint32_t k = 0; k < capacity; k++) {
        f = wh_page_free(t, 1, t.base + 3 * 1024 + 112 * k, 0);
    }
    SO(f.n == f.had && wh_page_kind(wh_load_u64_relaxed(&t.entries[3])) == WH_PAGE_FREE);
    f = wh_page_free(t, 1, t.base + 4 * 1024, 0);
    SO(f.kind == WH_PAGE_RUN && f.n == 2 && !f.bad);
    SO(wh_page_free(t, 1, t.base + 4 * 1024, 0).bad && !wh_page_free(t, 1, NULL, 0).bad);
    SO(wh_page_search_run(t, 1, 3, 0) == 3);
    wh_page_release(t, 6, 34);
    /* By adds: one cas opens a free page; it becomes free with its last chunk. */
    SO(wh_page_reserve_add(t, 20, kind, 2).opened &&
       wh_page_reserve_add(t, 20, kind + 1, 1).n == 0);
    got = wh_page_reserve_add(t, 20, kind, 32);
    SO(got.n == capacity - 2 && got.had == 2 && !got.opened);
    SO(wh_page_reserve_add(t, 20, kind, 1).n == 0);
    for (uint32_t k = 0; k < capacity; k++) {
        SO(wh_page_take(t, 20, kind, 0) == k);
    }
    for (uint32_t k = 0; k < capacity; k++) {
        f = wh_page_free(t, 1, t.base + 20 * 1024 + 112 * k, 1);
        SO(f.n == 1 && f.had == capacity - k);
    }
    SO((uint32_t)wh_load_u64_relaxed(&t.entries[20]) == WH_PAGE_FREE);
    /* A tag makes another kind of the same chunks; who empties a page may keep it. */
    const uint32_t tagged = wh_page_tagged(kind, 5);
    SO(wh_page_reserve(t, 7, tagged, 2).opened && wh_page_reserve(t, 7, kind, 1).n == 0);
    SO(wh_page_take(t, 7, tagged, 0) == 0 && wh_page_take(t, 7, tagged, 0) == 1);
    f = wh_page_free(t, 1, t.base + 7 * 1024 + 112, WH_PAGE_HOLD);
    SO(f.kind == tagged && f.n == 1 && f.had == 2);
    f = wh_page_free(t, 1, t.base + 7 * 1024, WH_PAGE_HOLD);
    SO(f.kind == tagged && f.n == 1 && f.had == 1);
    SO(wh_page_kind(wh_load_u64_relaxed(&t.entries[7])) == WH_PAGE_TAIL);
    SO(wh_page_reserve(t, 7, tagged, 1).n == 0 && wh_page_free(t, 1, t.base + 7 * 1024, 0).bad);
    wh_page_release(t, 7, 1);
    SO(wh_page_reserve(t, 7, kind, 1).opened);
}

static void test_table(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        wh_device *device = open_policy(WH_SIM_RANDOM, seed);
        const uint64_t words = PAGES * (uint64_t)wh_page_words(PAGE_LOG2);
        const uint64_t bytes = PAGES * 1032 + words * 4 + 4;
        void *memory = take(device, bytes);
        assert_int_equal(wh_device_set(device, memory, 0, bytes), WH_OK);
        table_args a;
        a.t.base = memory;
        a.t.entries = (uint64_t *)(void *)(a.t.base + PAGES * 1024);
        a.t.bits = (uint32_t *)(void *)(a.t.entries + PAGES);
        a.t.n = PAGES;
        a.t.page_log2 = PAGE_LOG2;
        a.wrong = a.t.bits + words;
        const wh_launch l = grid(device, 1, 1);
        assert_int_equal(play(&l, &a), WH_OK);
        assert_int_equal(*a.wrong, 0);
        assert_int_equal(wh_device_free(device, memory), WH_OK);
        wh_device_close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
