/* veb.c: core/veb.h. Every operation is compared with a naive set: over all subsets of
 * small universes and of chosen items of large ones, with and without left-over summary
 * bits (I2), and for all ranges up to 130 items. Then many lanes at once: every item is
 * claimed by one lane at a time (I1, P1), and nothing is lost at the end (I2, R1). */
#include "sim/sim_test.h"

#include "warpheap/core/hash.h"
#include "warpheap/core/veb.h"

static const uint64_t boundaries[] = {1,   2,    63,   64,   65,     127,    128,
                                      129, 4095, 4096, 4097, 262143, 262144, 262145};
#define N_BOUNDARIES (sizeof boundaries / sizeof *boundaries)

/* --- the naive set ---------------------------------------------------------------------- */

typedef struct set {
    uint64_t n;
    uint8_t *in;
} set;

static uint64_t set_successor(const set *s, uint64_t x) {
    const uint8_t *p = x < s->n ? memchr(s->in + x, 1, s->n - x) : NULL;
    return p != NULL ? (uint64_t)(p - s->in) : WH_VEB_NONE;
}

static uint64_t set_predecessor(const set *s, uint64_t x) {
    for (uint64_t i = x < s->n ? x + 1 : s->n; i-- > 0;) {
        if (s->in[i]) {
            return i;
        }
    }
    return WH_VEB_NONE;
}

static int set_has_range(const set *s, uint64_t first, uint64_t count) {
    return first + count <= s->n && memchr(s->in + first, 0, count) == NULL;
}

/* First item of the highest run below `end`. */
static uint64_t set_find_run(const set *s, uint64_t count, uint64_t end) {
    uint64_t run = 0;
    for (uint64_t i = s->n < end ? s->n : end; i-- > 0;) {
        run = s->in[i] ? run + 1 : 0;
        if (run == count) {
            return i;
        }
    }
    return WH_VEB_NONE;
}

#define BETWEEN 0x5a5a5a5a5a5a5a5au /* in the places between the words of a spread tree */

/* Level 0 holds exactly the set, I2 holds for every word, and nothing else is touched. */
static void assert_same(wh_veb t, const set *s) {
    for (uint64_t i = 0; i < wh_veb_words(t.n) << t.spread; i++) {
        assert_true((i & ((1u << t.spread) - 1)) == 0 || t.words[i] == BETWEEN);
    }
    for (uint64_t w = 0; w < (t.n + 63) / 64; w++) {
        uint64_t word = 0;
        for (uint64_t i = w * 64; i < w * 64 + 64 && i < t.n; i++) {
            word |= (uint64_t)s->in[i] << i % 64;
        }
        if (*wh_veb_word(t, w) != word) {
            fail_msg("n %llu word %llu: %llx, not %llx", (unsigned long long)t.n,
                     (unsigned long long)w, (unsigned long long)*wh_veb_word(t, w),
                     (unsigned long long)word);
        }
    }
    for (uint64_t w = 0; w < wh_veb_words(t.n); w++) {
        assert_true(wh_veb_check(t, w));
    }
}

/* --- sizes and first values -------------------------------------------------------------- */

static uint64_t naive_words(uint64_t n) {
    uint64_t sum = 0;
    do {
        n = n / 64 + (n % 64 != 0);
        sum += n;
    } while (n > 1);
    return sum;
}

static void test_words(void **state) {
    (void)state;
    for (uint64_t n = 1; n < 20000; n++) {
        assert_int_equal(wh_veb_words(n), naive_words(n));
    }
    for (uint32_t e = 14; e <= 32; e++) {
        for (uint64_t n = ((uint64_t)1 << e) - 2; n <= ((uint64_t)1 << e) + (e < 32 ? 2 : 0); n++) {
            assert_int_equal(wh_veb_words(n), naive_words(n));
        }
    }
    assert_int_equal(wh_veb_words(64), 1);
    assert_int_equal(wh_veb_words(65), 3);
    assert_int_equal(wh_veb_words(4096), 65);
    assert_int_equal(wh_veb_words(4097), 68);
    assert_int_equal(wh_veb_words((uint64_t)1 << 32), 68174085);
}

/* Word k of a level over `bits` bits, all set. */
static uint64_t all_ones(uint64_t bits, uint64_t k) {
    return bits - k * 64 >= 64 ? UINT64_MAX : UINT64_MAX >> (64 - (bits - k * 64));
}

static void test_initial_words(void **state) {
    (void)state;
    for (size_t i = 0; i < N_BOUNDARIES; i++) {
        const uint64_t n = boundaries[i];
        uint64_t index = 0;
        for (uint64_t bits = n;; bits = (bits + 63) / 64) {
            for (uint64_t k = 0; k < (bits + 63) / 64; k++, index++) {
                assert_int_equal(wh_veb_initial_word(n, index, 0), 0);
                assert_true(wh_veb_initial_word(n, index, 1) == all_ones(bits, k));
            }
            if (bits <= 64) {
                break;
            }
        }
        assert_int_equal(index, wh_veb_words(n));
    }
    /* The largest universe, and one that ends inside its last words: level ends only. */
    for (uint64_t n = UINT32_MAX - 5; n <= (uint64_t)1 << 32; n += 6) {
        uint64_t start = 0;
        for (uint64_t bits = n;; bits = (bits + 63) / 64) {
            const uint64_t size = (bits + 63) / 64;
            assert_true(wh_veb_initial_word(n, start, 1) == all_ones(bits, 0));
            assert_true(wh_veb_initial_word(n, start + size - 1, 1) == all_ones(bits, size - 1));
            assert_int_equal(wh_veb_initial_word(n, start + size - 1, 0), 0);
            start += size;
            if (size == 1) {
                break;
            }
        }
        assert_int_equal(start, wh_veb_words(n));
    }
}

/* --- all subsets of some items -------------------------------------------------------------- */

typedef struct scope {
    wh_veb t;
    uint64_t *saved; /* the tree before an operation */
    set s;
    const uint64_t *items;
    uint32_t n_items;
} scope;

static scope make_scope(uint64_t n, const uint64_t *items, uint32_t n_items) {
    scope c;
    const uint32_t spread = (uint32_t)(n % 3);
    const uint64_t words = wh_veb_words(n) << spread;
    c.t = spread != 0 ? wh_veb_make_spread(malloc(words * 8), n, spread)
                      : wh_veb_make(malloc(words * 8), n);
    c.saved = calloc(words, 8);
    c.s.n = n;
    c.s.in = calloc(n, 1);
    c.items = items;
    c.n_items = n_items;
    assert_true(c.t.words != NULL && c.saved != NULL && c.s.in != NULL);
    for (uint64_t i = 0; i < words; i++) {
        c.t.words[i] = BETWEEN;
    }
    return c;
}

static void free_scope(scope *c) {
    free(c->t.words);
    free(c->saved);
    free(c->s.in);
}

static void fill_words(wh_veb t, int full) {
    for (uint64_t i = 0; i < wh_veb_words(t.n); i++) {
        *wh_veb_word(t, i) = wh_veb_initial_word(t.n, i, full);
    }
}

/* Sets the summary bits above item x, as an insert that a remove has overtaken. */
static void make_stale(wh_veb t, uint64_t x) {
    uint64_t base = 0;
    for (uint64_t size = (t.n + 63) / 64; size > 1; size = (size + 63) / 64) {
        x /= 64;
        base += size;
        *wh_veb_word(t, base + x / 64) |= (uint64_t)1 << x % 64;
    }
}

/* The tree of a subset, once by inserts into an empty tree, once by removes from a full
 * one, with left-over summary bits over the items of `stale`. */
static void build(scope *c, uint32_t subset, uint32_t stale, int by_remove) {
    memset(c->s.in, 0, c->s.n);
    for (uint32_t i = 0; i < c->n_items; i++) {
        c->s.in[c->items[i]] = subset >> i & 1;
    }
    fill_words(c->t, by_remove);
    for (uint64_t x = 0; x < c->s.n; x++) {
        if (by_remove && !c->s.in[x]) {
            assert_int_equal(wh_veb_remove(c->t, x), 1);
        } else if (!by_remove && c->s.in[x]) {
            assert_int_equal(wh_veb_insert(c->t, x), 1);
        }
    }
    assert_same(c->t, &c->s);
    for (uint32_t i = 0; i < c->n_items; i++) {
        if (stale >> i & 1) {
            make_stale(c->t, c->items[i]);
        }
    }
    memcpy(c->saved, c->t.words, (wh_veb_words(c->t.n) << c->t.spread) * 8);
}

static void restore(scope *c) {
    memcpy(c->t.words, c->saved, (wh_veb_words(c->t.n) << c->t.spread) * 8);
}

static void check_claim_some(scope *c, uint64_t x, uint32_t want) {
    uint64_t mask = 0;
    uint32_t got = 0;
    restore(c);
    for (uint64_t i = x; i < c->s.n && i / 64 == x / 64 && got < want; i++) {
        if (c->s.in[i]) {
            mask |= (uint64_t)1 << i % 64;
            got++;
        }
    }
    assert_true(wh_veb_claim_some(c->t, x, want) == mask);
    for (uint64_t m = mask; m != 0; m &= m - 1) {
        c->s.in[x / 64 * 64 + wh_ctz64(m)] = 0;
    }
    assert_same(c->t, &c->s);
    for (uint64_t m = mask; m != 0; m &= m - 1) {
        c->s.in[x / 64 * 64 + wh_ctz64(m)] = 1;
    }
}

/* Afterwards no summary bit lies over an empty word on the path from x up. */
static void check_settle(scope *c, uint64_t x) {
    uint64_t base = 0, w = x / 64;
    restore(c);
    wh_veb_settle(c->t, x);
    assert_same(c->t, &c->s);
    for (uint64_t size = (c->t.n + 63) / 64; size > 1; size = (size + 63) / 64) {
        if (*wh_veb_word(c->t, base + w) != 0) {
            break;
        }
        assert_true((*wh_veb_word(c->t, base + size + w / 64) >> w % 64 & 1) == 0);
        base += size;
        w /= 64;
    }
    restore(c);
}

/* Every operation with argument x. */
static void check_item(scope *c, uint64_t x) {
    const uint64_t next = set_successor(&c->s, x), before = set_predecessor(&c->s, x);
    assert_true(wh_veb_successor(c->t, x) == next);
    assert_same(c->t, &c->s); /* it may have cleared left-over bits */
    restore(c);
    assert_true(wh_veb_predecessor(c->t, x) == before);
    assert_same(c->t, &c->s);
    assert_true(wh_veb_successor(c->t, x) == next);
    restore(c);
    assert_true(wh_veb_scan(c->t, x) == next);
    if (x >= c->s.n) {
        return;
    }
    check_settle(c, x);
    const uint8_t was = c->s.in[x];
    assert_int_equal(wh_veb_contains(c->t, x), was);
    assert_int_equal(wh_veb_insert(c->t, x), !was);
    c->s.in[x] = 1;
    assert_same(c->t, &c->s);
    assert_true(wh_veb_successor(c->t, x) == x && wh_veb_predecessor(c->t, x) == x);
    assert_int_equal(wh_veb_insert(c->t, x), 0);
    assert_int_equal(wh_veb_remove(c->t, x), 1);
    c->s.in[x] = 0;
    assert_same(c->t, &c->s);
    restore(c);
    assert_int_equal(wh_veb_remove(c->t, x), was);
    assert_same(c->t, &c->s);
    assert_int_equal(wh_veb_remove(c->t, x), 0);
    c->s.in[x] = was;
    for (uint32_t want = 1; want <= 64; want = want < 3 ? want + 1 : want + 61) {
        check_claim_some(c, x, want);
    }
    restore(c);
}

/* Whole words at once: masks that overlap what is there in every way. */
static void check_masks(scope *c, uint64_t w) {
    const uint64_t word = *wh_veb_word(c->t, w);
    const uint64_t used = all_ones(c->t.n, w);
    const uint64_t masks[] = {used, word, used & ~word, used & 0x5555555555555555u,
                              word & (0 - word)};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        if (masks[i] == 0) {
            continue;
        }
        assert_true(wh_veb_insert_mask(c->t, w, masks[i]) == (masks[i] & ~word));
        assert_true(*wh_veb_word(c->t, w) == (word | masks[i]));
        assert_true(wh_veb_check(c->t, w));
        assert_true(wh_veb_claim_mask(c->t, w, masks[i]) == masks[i]);
        assert_true(*wh_veb_word(c->t, w) == (word & ~masks[i]));
        restore(c);
        assert_true(wh_veb_claim_mask(c->t, w, masks[i]) == (masks[i] & word));
        assert_true(*wh_veb_word(c->t, w) == (word & ~masks[i]));
        assert_true(wh_veb_check(c->t, w));
        wh_veb_put_back(c->t, w, masks[i] & word); /* the levels above have been told */
        assert_true(*wh_veb_word(c->t, w) == word);
        assert_true(wh_veb_check(c->t, w));
        restore(c);
    }
}

static void check_all_subsets(uint64_t n, const uint64_t *items, uint32_t n_items,
                              uint32_t stale_step) {
    scope c = make_scope(n, items, n_items);
    for (uint32_t subset = 0; subset < 1u << n_items; subset++) {
        for (uint32_t stale = 0; stale < 1u << n_items; stale += stale_step) {
            build(&c, subset, stale, n <= 200 && stale % 2 == 0);
            for (uint32_t i = 0; i < n_items; i++) {
                check_item(&c, items[i]);
                check_item(&c, items[i] + 1);
                if (items[i] > 0) {
                    check_item(&c, items[i] - 1);
                }
                check_masks(&c, items[i] / 64);
            }
            check_item(&c, n);
            check_item(&c, (n | 63) + 1);
        }
    }
    assert_true(wh_veb_predecessor(c.t, WH_VEB_NONE) == set_predecessor(&c.s, WH_VEB_NONE));
    free_scope(&c);
}

static void test_all_small_universes(void **state) {
    (void)state;
    const uint64_t items[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    for (uint32_t n = 1; n <= 10; n++) {
        check_all_subsets(n, items, n, 1u << n);
    }
}

/* Two to four levels, items at the edges of words, left-over bits in all combinations. */
static void test_subsets_of_large_universes(void **state) {
    (void)state;
    const uint64_t two[] = {0, 1, 63, 64, 128, 199};
    check_all_subsets(200, two, 6, 1);
    const uint64_t edge[] = {0, 63, 64};
    check_all_subsets(65, edge, 3, 1);
    const uint64_t three[] = {0, 64, 4095, 4096, 8192};
    check_all_subsets(8193, three, 5, 3);
    const uint64_t four[] = {0, 4096, 262143, 262144};
    check_all_subsets(262145, four, 4, 5);
}

/* --- ranges ------------------------------------------------------------------------------------
 */

static void check_runs(scope *c) {
    for (uint64_t count = 1; count <= c->s.n + 1; count++) {
        assert_true(wh_veb_find_run(c->t, count) == set_find_run(&c->s, count, c->s.n));
    }
}

static void check_ranges(scope *c) {
    for (uint64_t first = 0; first < c->s.n; first++) {
        for (uint64_t count = 1; first + count <= c->s.n; count++) {
            const int whole = set_has_range(&c->s, first, count);
            restore(c);
            assert_int_equal(wh_veb_claim_range(c->t, first, count), whole);
            for (uint64_t x = 0; x < c->s.n; x++) {
                const int left = c->s.in[x] && !(whole && x >= first && x < first + count);
                assert_int_equal(wh_veb_contains(c->t, x), left);
            }
            for (uint64_t w = 0; w < wh_veb_words(c->t.n); w++) {
                assert_true(wh_veb_check(c->t, w));
            }
            restore(c);
            wh_veb_remove_range(c->t, first, count); /* what is there of it */
            for (uint64_t x = 0; x < c->s.n; x++) {
                const int left = c->s.in[x] && !(x >= first && x < first + count);
                assert_int_equal(wh_veb_contains(c->t, x), left);
            }
            for (uint64_t w = 0; w < wh_veb_words(c->t.n); w++) {
                assert_true(wh_veb_check(c->t, w));
            }
            restore(c);
            wh_veb_insert_range(c->t, first, count);
            for (uint64_t x = 0; x < c->s.n; x++) {
                const int in = c->s.in[x] || (x >= first && x < first + count);
                assert_int_equal(wh_veb_contains(c->t, x), in);
            }
            for (uint64_t w = 0; w < wh_veb_words(c->t.n); w++) {
                assert_true(wh_veb_check(c->t, w));
            }
        }
    }
    restore(c);
}

/* What is put back the levels above hear of, all of them: the only item of three levels. */
static void test_put_back_tells(void **state) {
    (void)state;
    const uint64_t n = 3 * 4096, x = 4096 + 17;
    scope c = make_scope(n, NULL, 0);
    fill_words(c.t, 0);
    assert_true(wh_veb_insert(c.t, x));
    assert_true(wh_veb_claim_mask(c.t, x >> 6, UINT64_MAX) == (uint64_t)1 << (x & 63));
    assert_true(*wh_veb_word(c.t, 195) == 0);
    wh_veb_put_back(c.t, x >> 6, (uint64_t)1 << (x & 63));
    assert_true(*wh_veb_word(c.t, 193) == 1);
    assert_true(*wh_veb_word(c.t, 195) == 2);
    assert_true(wh_veb_successor(c.t, 0) == x);
    free_scope(&c);
}

/* What a range empties or fills the levels above hear of, not more: three words of level 1, of
 * which the range takes all of the second one's, and leaves an item in the first and the last word.
 */
static void test_ranges_tell(void **state) {
    (void)state;
    const uint64_t n = 3 * 4096, first = 64 * 60 + 1, count = 64 * 70 + 62;
    scope c = make_scope(n, NULL, 0);
    fill_words(c.t, 1);
    assert_true(wh_veb_claim_range(c.t, first, count));
    assert_true(*wh_veb_word(c.t, 192) == (UINT64_MAX >> 3));
    assert_true(*wh_veb_word(c.t, 193) == 0);
    assert_true(*wh_veb_word(c.t, 194) == UINT64_MAX << 2);
    assert_true(*wh_veb_word(c.t, 195) == 5);
    wh_veb_insert_range(c.t, first, count);
    for (uint64_t i = 192; i < 195; i++) {
        assert_true(*wh_veb_word(c.t, i) == UINT64_MAX);
    }
    assert_true(*wh_veb_word(c.t, 195) == 7);
    free_scope(&c);
}

static void test_all_ranges(void **state) {
    (void)state;
    uint64_t random = 1;
    for (uint64_t n = 1; n <= 130; n++) {
        if (n > 10 && n < 60 && n % 7 != 0) {
            continue;
        }
        scope c = make_scope(n, NULL, 0);
        for (uint32_t fill = 0; fill < 4; fill++) { /* full, a few gaps, many gaps, empty */
            fill_words(c.t, 0);
            for (uint64_t x = 0; x < n; x++) {
                const uint64_t r = next_random(&random) % 64;
                c.s.in[x] = fill == 0 || (fill == 1 && r != 0) || (fill == 2 && r < 56);
                if (c.s.in[x]) {
                    (void)wh_veb_insert(c.t, x);
                }
            }
            memcpy(c.saved, c.t.words, (wh_veb_words(n) << c.t.spread) * 8);
            check_runs(&c);
            check_ranges(&c);
        }
        free_scope(&c);
    }
}

/* --- random operations at the boundaries
 * ---------------------------------------------------------- */

static void test_random_operations(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        for (size_t b = 0; b < N_BOUNDARIES; b++) {
            const uint64_t n = boundaries[b];
            uint64_t random = seed * 1000 + b;
            scope c = make_scope(n, NULL, 0);
            const int full = (int)(seed % 2);
            fill_words(c.t, full);
            memset(c.s.in, full, n);
            for (uint32_t step = 0; step < 200; step++) {
                const uint64_t r = next_random(&random);
                const uint64_t x = r % n;
                const uint64_t count = 1 + (r >> 32) % (n - x < 300 ? n - x : 300);
                switch (r >> 60) {
                case 0:
                case 1:
                    assert_int_equal(wh_veb_insert(c.t, x), !c.s.in[x]);
                    c.s.in[x] = 1;
                    break;
                case 2:
                case 3:
                    assert_int_equal(wh_veb_remove(c.t, x), c.s.in[x]);
                    c.s.in[x] = 0;
                    break;
                case 4:
                    wh_veb_insert_range(c.t, x, count);
                    memset(c.s.in + x, 1, count);
                    break;
                case 5: {
                    const int whole = set_has_range(&c.s, x, count);
                    assert_int_equal(wh_veb_claim_range(c.t, x, count), whole);
                    if (whole) {
                        memset(c.s.in + x, 0, count);
                    }
                    break;
                }
                case 6: { /* empties a range */
                    for (uint64_t i = x; i < x + count; i++) {
                        (void)wh_veb_remove(c.t, i);
                    }
                    memset(c.s.in + x, 0, count);
                    break;
                }
                case 7:
                    assert_true(wh_veb_find_run(c.t, count) == set_find_run(&c.s, count, n));
                    break;
                default:
                    assert_true(wh_veb_successor(c.t, x) == set_successor(&c.s, x));
                    assert_true(wh_veb_predecessor(c.t, x) == set_predecessor(&c.s, x));
                    assert_true(wh_veb_scan(c.t, x) == set_successor(&c.s, x));
                }
            }
            assert_same(c.t, &c.s);
            free_scope(&c);
        }
    }
}

/* Differs if any word of the tree has changed. */
static uint64_t sum_of_words(wh_veb t) {
    uint64_t sum = 0;
    for (uint64_t k = 0; k < wh_veb_words(t.n); k++) {
        sum = sum * 31 + *wh_veb_word(t, k);
    }
    return sum;
}

/* pick_word comes to every word that holds items, about equally often, and to no other once
 * every left-over bit has been met by who tells. */
static void check_picks(uint64_t n, const uint64_t *items, uint32_t n_items) {
    enum { ROUNDS = 400 };
    scope c = make_scope(n, items, n_items);
    const uint64_t words = (n + 63) / 64;
    uint32_t *times = calloc(words, sizeof *times);
    assert_non_null(times);
    uint64_t per_bit = 1; /* items below a bit of the last level */
    while (per_bit * 64 < n) {
        per_bit *= 64;
    }
    for (uint32_t k = 0; k < 2u << n_items; k++) {
        const uint32_t subset = k / 2;
        build(&c, subset, k % 2 ? ~subset : 0, 0);
        for (uint32_t i = 0; i < n_items && words > 1 && k % 2 == 0; i++) { /* in the last alone */
            *wh_veb_word(c.t, wh_veb_words(n) - 1) |= (uint64_t)1 << items[i] / per_bit;
        }
        memset(times, 0, words * sizeof *times);
        uint32_t held = 0, vain = 0;
        for (uint64_t w = 0; w < words; w++) {
            held += *wh_veb_word(c.t, w) != 0;
        }
        for (uint32_t seed = 1; seed < ROUNDS * (held + 1); seed++) {
            const uint64_t before = sum_of_words(c.t);
            uint32_t at = wh_spread32(seed), too = at;
            const uint64_t seen = wh_veb_pick_word(c.t, &too, 0);
            assert_int_equal(sum_of_words(c.t), before); /* it tells nobody */
            const uint64_t w = wh_veb_pick_word(c.t, &at, 1);
            assert_int_equal(w, seen);
            assert_int_equal(at, too);
            assert_true(w == WH_VEB_NONE || w < words);
            if (w == WH_VEB_NONE || *wh_veb_word(c.t, w) == 0) {
                vain++;
                if (w != WH_VEB_NONE && words > 1) {
                    wh_veb_emptied(c.t, w);
                }
                continue;
            }
            times[w]++;
        }
        assert_same(c.t, &c.s);
        if (held != 0) { /* each left-over bit once, and above the last one of a word again */
            assert_true(vain <= 4 * n_items);
        }
        for (uint64_t w = 0; w < words; w++) {
            assert_true((times[w] != 0) == (*wh_veb_word(c.t, w) != 0));
            assert_true(*wh_veb_word(c.t, w) == 0 || times[w] > ROUNDS / 8);
        }
    }
    free(times);
    free_scope(&c);
}

static void test_picks(void **state) {
    (void)state;
    const uint64_t one[] = {0, 7, 63};
    check_picks(64, one, 3);
    const uint64_t two[] = {0, 64, 130, 199};
    check_picks(200, two, 4);
    const uint64_t three[] = {0, 4095, 8192};
    check_picks(8193, three, 3);
    const uint64_t four[] = {0, 4096, 262143, 262144};
    check_picks(262145, four, 4);
}

/* Places that are evenly spread are so in what is there: as many as there are items come to each of
 * them once, however these lie in their words, if all words hold as many. A pick of an item says
 * that a word is empty, if it is to. */
static void test_even_picks(void **state) {
    (void)state;
    enum { N = 64 * 64 * 3, WORDS = N / 64, EACH = 8, ITEMS = WORDS * EACH };
    scope c = make_scope(N, NULL, 0);
    uint64_t random = 11;
    build(&c, 0, 0, 0);
    for (uint32_t w = 0; w < WORDS; w++) {
        uint64_t bits = w % 2 == 0 ? 0xff : 0; /* side by side, or anywhere */
        while (wh_popc64(bits) < EACH) {
            bits |= (uint64_t)1 << next_random(&random) % 64;
        }
        assert_true(wh_veb_insert_mask(c.t, w, bits) == bits);
    }
    uint32_t times[N] = {0};
    for (uint64_t k = 0; k < ITEMS; k++) {
        uint32_t at = (uint32_t)(((2 * k + 1) << 31) / ITEMS);
        const uint64_t x = wh_veb_pick(c.t, &at, 1);
        assert_true(wh_veb_contains(c.t, x));
        times[x]++;
    }
    for (uint32_t x = 0; x < N; x++) {
        assert_int_equal(times[x], wh_veb_contains(c.t, x));
    }
    for (uint64_t w = 1; w < WORDS; w++) { /* the levels above are not told */
        *wh_veb_word(c.t, w) = 0;
    }
    uint32_t vain = 0, at = 0;
    for (uint32_t k = 0; k < 4 * WORDS; k++) {
        at = wh_spread32(k);
        vain += wh_veb_pick(c.t, &at, 0) == WH_VEB_NONE;
    }
    assert_true(vain > 3 * WORDS); /* nobody told */
    vain = 0;
    for (uint32_t k = 0; k < 4 * WORDS; k++) {
        at = wh_spread32(k);
        const uint64_t x = wh_veb_pick(c.t, &at, 1);
        vain += x == WH_VEB_NONE;
        assert_true(x == WH_VEB_NONE || x < EACH);
    }
    assert_true(vain <= WORDS + 1);
    free_scope(&c);
}

static void test_bits(void **state) {
    (void)state;
    uint64_t random = 7;
    for (uint32_t i = 0; i < 2000; i++) {
        const uint64_t bits = next_random(&random) & (i % 2 ? next_random(&random) : UINT64_MAX);
        uint64_t low = 0;
        uint32_t k = 0;
        for (uint32_t b = 0; b < 64; b++) {
            if (bits >> b & 1) {
                assert_int_equal(wh_select64(bits, k), b);
                assert_true(wh_lowest_bits(bits, k) == low);
                low |= (uint64_t)1 << b;
                k++;
            }
        }
        assert_true(wh_lowest_bits(bits, k) == bits && wh_lowest_bits(bits, 64) == bits);
    }
}

/* --- a warp that searches together
 * ------------------------------------------------------------------------------ */

typedef struct together_args {
    wh_veb t;
    uint64_t count, end;
    uint64_t *found; /* by lane */
    uint32_t odd;    /* only every other lane takes part */
} together_args;

WH_KERNEL(find_together, together_args, a) {
    const uint32_t lane = (uint32_t)wh_thread_id();
    if (a.odd == 0 || lane % 2 == 1) {
        a.found[lane] = wh_veb_find_run_together(a.t, wh_activemask(), a.count, a.end);
    }
}

/* Words of all kinds side by side, so that runs end at any place of a word and go on over several:
 * what one lane finds all find. */
static void test_together(void **state) {
    (void)state;
    const uint64_t sizes[] = {1, 63, 64, 65, 200, 64 * 31, 64 * 33 + 5, 64 * 100};
    uint64_t random = 3;
    for (uint64_t seed = 0; seed < 4 + n_seeds(); seed++) {
        wh_device *d = open_policy(WH_SIM_RANDOM, seed);
        uint64_t *found = take(d, 32 * 8);
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            const uint64_t n = sizes[k], words = (n + 63) / 64;
            together_args a;
            a.t = wh_veb_make(take(d, wh_veb_words(n) * 8), n);
            a.found = found;
            set s = {n, calloc(n, 1)};
            for (uint64_t w = 0; w < words; w++) {
                const uint64_t r = next_random(&random),
                               kind = seed % 4 == 3 ? 0 : r % (3 + seed % 3);
                const uint64_t all = ~(uint64_t)0, cut = (r >> 8) % 64;
                const uint64_t kinds[] = {0, all << cut, all >> cut, all};
                const uint64_t bits =
                    kind < 4 ? kinds[kind] : next_random(&random) | next_random(&random);
                for (uint64_t x = w * 64; x < w * 64 + 64 && x < n; x++) {
                    if ((bits >> x % 64 & 1) != 0) {
                        (void)wh_veb_insert(a.t, x);
                        s.in[x] = 1;
                    }
                }
            }
            const uint64_t counts[] = {1, 2, 3, 17, 63, 64, 65, 100, 128, 129, 500};
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
                const uint32_t threads = 1 + (uint32_t)(next_random(&random) % 32);
                const wh_launch l = grid(d, 1, threads);
                a.count = counts[i];
                a.end = i % 2 == 0 ? words : next_random(&random) % (words + 1);
                a.odd = threads > 1 && i % 3 == 0;
                assert_int_equal(find_together(&l, &a), WH_OK);
                for (uint32_t lane = a.odd; lane < threads; lane += 1 + a.odd) {
                    assert_true(found[lane] == set_find_run(&s, a.count, a.end * 64));
                }
            }
            free(s.in);
        }
        wh_device_close(d);
    }
}

/* --- many lanes
 * --------------------------------------------------------------------------------------- */

#define HOLD 4u
#define MARK(x) (wh_spread32((uint32_t)(x)) + 17u)

typedef struct lane_args {
    wh_veb t;
    uint32_t *owner;   /* by item: lane + 1 while a lane holds it */
    uint32_t *payload; /* by item, plain: MARK while nobody holds it */
    uint32_t *kept;    /* by lane: an item it keeps + 1, or 0 */
    uint32_t *errors;
    uint64_t seed;
    uint32_t steps;
    uint32_t keep; /* lanes below this one keep an item */
} lane_args;

WH_FN uint64_t lane_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 29;
}

/* I1, P1: nobody else holds it, and its last holder's write is seen. */
WH_FN void take_item(const lane_args *a, uint64_t x) {
    if (wh_exchange_u32_relaxed(&a->owner[x], (uint32_t)wh_thread_id() + 1) != 0 ||
        a->payload[x] != MARK(x)) {
        wh_add_u32_relaxed(a->errors, 1);
    }
    a->payload[x] = (uint32_t)wh_thread_id();
}

WH_FN void give_item(const lane_args *a, uint64_t x) {
    if (a->payload[x] != (uint32_t)wh_thread_id() ||
        wh_exchange_u32_relaxed(&a->owner[x], 0) != (uint32_t)wh_thread_id() + 1) {
        wh_add_u32_relaxed(a->errors, 1);
    }
    a->payload[x] = MARK(x);
}

WH_FN uint64_t search(wh_veb t, uint64_t x, uint32_t how) {
    if (how == 2) {
        return wh_veb_scan(t, x);
    }
    return how == 0 ? wh_veb_successor(t, x) : wh_veb_predecessor(t, x);
}

WH_KERNEL(hammer, lane_args, a) {
    uint64_t random = a.seed + wh_thread_id() * 0x9e3779b97f4a7c15u;
    uint64_t held[HOLD + 2];
    uint32_t n_held = 0;
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint64_t r = lane_random(&random);
        const uint64_t x = (r >> 8) % a.t.n;
        const uint32_t what = (uint32_t)r % 8;
        if (what < 3 && n_held < HOLD) {
            const uint64_t found = search(a.t, x, what);
            if (found != WH_VEB_NONE && (r & 8) != 0) {
                uint64_t got = wh_veb_claim_some(a.t, found, 1 + (r & 16 ? 1 : 0));
                for (; got != 0; got &= got - 1) {
                    held[n_held] = found / 64 * 64 + wh_ctz64(got);
                    take_item(&a, held[n_held++]);
                }
            } else if (found != WH_VEB_NONE && wh_veb_remove(a.t, found)) {
                held[n_held] = found;
                take_item(&a, held[n_held++]);
            }
        } else if (what == 3 && n_held + 2 <= HOLD) {
            const uint64_t first = wh_veb_find_run(a.t, 2);
            if (first != WH_VEB_NONE && wh_veb_claim_range(a.t, first, 2)) {
                for (uint32_t i = 0; i < 2; i++) {
                    held[n_held] = first + i;
                    take_item(&a, held[n_held++]);
                }
            }
        } else if (what == 4 && (r & 24) == 0) { /* of a claim some are kept, or none */
            const uint64_t got = wh_veb_claim_mask(a.t, x >> 6, lane_random(&random));
            const uint64_t keep = n_held < HOLD ? wh_lowest_bits(got, 1) : 0;
            if (keep != 0) {
                held[n_held] = x / 64 * 64 + wh_ctz64(keep);
                take_item(&a, held[n_held++]);
            }
            if (got != keep) {
                wh_veb_put_back(a.t, x >> 6, got & ~keep);
            }
        } else if (n_held > 0) {
            const uint64_t back = held[--n_held];
            give_item(&a, back);
            if (!wh_veb_insert(a.t, back)) {
                wh_add_u32_relaxed(a.errors, 1);
            }
        }
    }
    const uint32_t keep = wh_thread_id() < a.keep ? 1 : 0;
    a.kept[wh_thread_id()] = 0;
    if (n_held >= keep && keep != 0) {
        a.kept[wh_thread_id()] = (uint32_t)held[0] + 1;
    }
    while (n_held > (n_held >= keep ? keep : 0)) {
        const uint64_t back = held[--n_held];
        give_item(&a, back);
        (void)wh_veb_insert(a.t, back);
    }
}

static void check_concurrent(const wh_sim_options *o, uint64_t n, const uint64_t *items,
                             uint32_t n_items, uint32_t blocks, uint32_t threads) {
    wh_device *d = open_with(o);
    lane_args a;
    a.t = wh_veb_make(take(d, wh_veb_words(n) * 8), n);
    a.owner = take(d, n * 4);
    a.payload = take(d, n * 4);
    a.kept = take(d, (uint64_t)blocks * threads * 4);
    a.errors = take(d, 4);
    a.seed = o->seed;
    a.steps = 24;
    a.keep = (uint32_t)(o->seed % 2 ? 5 : 0);
    set s = {n, calloc(n, 1)};
    for (uint32_t i = 0; i < n_items; i++) {
        (void)wh_veb_insert(a.t, items[i]);
        s.in[items[i]] = 1;
    }
    for (uint64_t x = 0; x < n; x++) {
        a.payload[x] = MARK(x);
    }
    const wh_launch l = grid(d, blocks, threads);
    if (hammer(&l, &a) != WH_OK) {
        fail_msg("%s", wh_device_error_text(d));
    }
    assert_int_equal(*a.errors, 0);
    for (uint32_t i = 0; i < blocks * threads; i++) {
        if (a.kept[i] != 0) {
            assert_int_equal(s.in[a.kept[i] - 1], 1); /* kept once */
            s.in[a.kept[i] - 1] = 0;
        }
    }
    assert_same(a.t, &s);
    uint64_t x = 0, y = WH_VEB_NONE;
    do { /* searches find everything that is there */
        assert_true(wh_veb_successor(a.t, x) == set_successor(&s, x));
        assert_true(wh_veb_predecessor(a.t, y) == set_predecessor(&s, y));
        x = set_successor(&s, x);
        x = x == WH_VEB_NONE ? x : x + 1;
        y = set_predecessor(&s, y);
        y = y == 0 ? WH_VEB_NONE : y - (y != WH_VEB_NONE);
    } while (x != WH_VEB_NONE && y != WH_VEB_NONE);
    free(s.in);
    wh_device_close(d);
}

static void test_concurrent(void **state) {
    (void)state;
    const uint64_t few[] = {0, 1, 64, 65, 128, 190};
    const uint64_t far[] = {0, 1, 63, 64, 4095, 4096, 8190, 8191, 8192};
    uint64_t dense[65];
    for (uint64_t i = 0; i < 65; i++) {
        dense[i] = i;
    }
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            wh_sim_options o;
            memset(&o, 0, sizeof o);
            o.policy = (wh_sim_policy)p;
            o.seed = seed;
            o.policy_arg = p == WH_SIM_PCT ? 1 + (uint32_t)(seed % 3) : 0;
            check_concurrent(&o, 3, dense, 3, 2, 2);
            check_concurrent(&o, 191, few, 6, 2, 16);
            check_concurrent(&o, 8193, far, 9, 4, 8);
            check_concurrent(&o, 65, dense, 65, 3, 40);
            o.workers = 2;
            o.policy = WH_SIM_STICKY;
            o.policy_arg = 100;
            check_concurrent(&o, 191, few, 6, 4, 32);
        }
    }
}

int main(void) {
    const struct CMUnitTest sequential[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_initial_words),
        cmocka_unit_test(test_all_small_universes),
        cmocka_unit_test(test_subsets_of_large_universes),
        cmocka_unit_test(test_all_ranges),
        cmocka_unit_test(test_put_back_tells),
        cmocka_unit_test(test_ranges_tell),
        cmocka_unit_test(test_random_operations),
        cmocka_unit_test(test_picks),
        cmocka_unit_test(test_even_picks),
        cmocka_unit_test(test_bits),
    };
    const struct CMUnitTest concurrent[] = {
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_concurrent),
    };
    int failed = cmocka_run_group_tests(concurrent, NULL, NULL);
#ifdef WH_TSAN /* it would find nothing in one thread, and there are many cases */
    (void)sequential;
#else
    failed += cmocka_run_group_tests(sequential, NULL, NULL);
#endif
    return failed;
}
