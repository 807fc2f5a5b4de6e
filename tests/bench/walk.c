/* walk.c: the steps of random walks on the simulated device against what Pham et al. (TOPC
 * 2025) expect: equations 1 to 6, 11 and 14, at 50, 10, 1 and 0.5 % free pages.
 *
 * Tolerance. TAS is the mean of N steps counts that are nearly independent and geometric;
 * the variance of the j-th is (1 - p_j) / p_j^2 with p_j the chance of a step while j pages
 * have been taken. Five standard errors of their mean are allowed (by chance once in a
 * million runs; the seeds are fixed, so a run that passes passes always). To that comes
 * what the equations leave out: a step that loses its page, or meets a locked word, because
 * another lane is at it at the same moment. At most R lanes are resident; the chance is
 * at most R over the number of free places (pages, or words with a free page). WAS has
 * bounds on both sides, with p = A / T and (A - N) / T. Where many pages of each word are
 * taken, equation 5 is replaced by wh_theory_words_tas, which says why. */
#include <math.h>
#include <string.h>

#include "set_option.h"
#include "sim/sim_test.h"

#include "bench/cases/walk_theory.h"
#include "warpheap/detail/alloc/page_queue/page_queue.h"
#include "warpheap/detail/alloc/random_walk/random_walk.h"
#include "warpheap/heap.h"

#define PAGE 16u

typedef struct walk_args {
    wh_random_walk_ref h;
    wh_page_queue_ref queue;
    uint32_t *steps, *last;
    const uint32_t *occupied;
    uint64_t n;
} walk_args;

WH_KERNEL(occupy, walk_args, a) {
    for (uint64_t k = wh_thread_id(); k < a.h.n_words; k += wh_grid_threads()) {
        for (uint32_t b = 0; a.h.flags != NULL && b < 32 && k * 32 + b < a.h.pages; b++) {
            wh_store_u32_relaxed(&a.h.flags[k * 32 + b], a.occupied[k] >> b & 1);
        }
        if (a.h.words != NULL) {
            wh_or_u64_relaxed(&a.h.words[k], a.occupied[k]);
        }
    }
}

#define GET(name, call)                    \
    WH_KERNEL(name, walk_args, a) {        \
        const uint64_t i = wh_thread_id(); \
        if (i < a.n) {                     \
            const wh_page_got got = call;  \
            a.steps[i] = got.steps;        \
            a.last[i] = got.page;          \
        }                                  \
    }
GET(get_rw, wh_rw_get_page(a.h, 0, 1))
GET(get_rw_bm, wh_rw_bm_get_page(a.h, 0, 1))
GET(get_corw, wh_corw_get_page(a.h, ~0u, 1))
GET(get_crw, wh_crw_get_page(a.h, 0, 1, a.last[i]))
GET(get_queue, wh_page_queue_get_page(a.queue, 1u << wh_lane_id(), 1))

typedef struct bed {
    wh_device *device;
    wh_heap *heap;
    walk_args a;
    uint64_t t, available, n;
    uint32_t *occupied, *steps;
    uint32_t resident;
    double tas, was, failed;
} bed;

/* A heap of t pages of which `available` are free: scattered, or in that many clusters. */
typedef struct want {
    const char *name; /* of the allocator */
    uint64_t t, available, clusters;
    uint64_t n; /* requests */
    uint64_t seed;
} want;

static void choose_pages(bed *x, const want *w) {
    uint64_t left = x->t - x->available, state = w->seed;
    for (uint64_t p = 0; p < x->t; p++) {
        const uint64_t each = w->clusters != 0 ? x->t / w->clusters : 1;
        const int used = w->clusters != 0 ? p % each >= x->available / w->clusters
                                          : next_random(&state) % (x->t - p) < left;
        left -= w->clusters == 0 && used;
        x->occupied[p / 32] |= (uint32_t)used << p % 32;
    }
    if (w->clusters != 0) {
        x->available = x->available / w->clusters * w->clusters;
    }
}

static void set_up(bed *x, const want *w) {
    const uint64_t t = w->t, n = w->n;
    wh_sim_options so;
    wh_heap_options o;
    memset(x, 0, sizeof *x);
    memset(&so, 0, sizeof so);
    memset(&o, 0, sizeof o);
    so.seed = w->seed;
    so.policy = WH_SIM_RANDOM;
    so.n_sms = 2;
    so.blocks_per_sm = 2;
    so.memory_bytes = (uint64_t)1 << 34; /* a limit; pages are not touched */
    x->resident = 4 * 64;
    x->device = open_with(&so);
    o.device = x->device;
    o.allocator = w->name;
    wh_any_options own = {0};
    set_option(&o, &own, "page_bytes", PAGE);
    set_option(&o, &own, "oom_free_ppm", 1); /* walks that do not give up */
    o.bytes = t * PAGE + t * 5 + (1 << 20);
    assert_int_equal(wh_heap_create(&x->heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle_of(x->heap, w->name, 0, &x->a.h, sizeof x->a.h), WH_OK);
    x->t = x->a.h.pages;
    x->available = w->available * x->t / t;
    x->n = n;
    const uint64_t words = x->a.h.n_words;
    x->occupied = calloc(words, 4);
    x->steps = calloc(n, 4);
    assert_non_null(x->occupied);
    assert_non_null(x->steps);
    choose_pages(x, w);
    uint32_t *occupied = take(x->device, words * 4);
    assert_int_equal(wh_device_copy_in(x->device, occupied, x->occupied, words * 4), WH_OK);
    x->a.occupied = occupied;
    x->a.steps = take(x->device, n * 4);
    x->a.last = take(x->device, n * 4);
    assert_int_equal(wh_device_set(x->device, x->a.last, 0xff, n * 4), WH_OK);
    x->a.n = n;
    const wh_launch l = grid(x->device, 64, 64);
    assert_int_equal(occupy(&l, &x->a), WH_OK);
}

static void tear_down(bed *x) {
    free(x->occupied);
    free(x->steps);
    (void)wh_device_free(x->device, (void *)(uintptr_t)x->a.occupied);
    (void)wh_device_free(x->device, x->a.steps);
    (void)wh_device_free(x->device, x->a.last);
    wh_heap_destroy(x->heap);
    wh_device_close(x->device);
}

typedef wh_status (*get_fn)(const wh_launch *l, const walk_args *a);

static void measure(bed *x, get_fn get) {
    const wh_launch l = grid(x->device, (uint32_t)(x->n / 64), 64);
    uint32_t *pages = malloc(x->n * 4);
    assert_non_null(pages);
    if (get(&l, &x->a) != WH_OK) {
        fail_msg("%s", wh_device_error_text(x->device));
    }
    assert_int_equal(wh_device_copy_out(x->device, x->steps, x->a.steps, x->n * 4), WH_OK);
    assert_int_equal(wh_device_copy_out(x->device, pages, x->a.last, x->n * 4), WH_OK);
    x->tas = x->was = 0;
    for (uint64_t i = 0; i < x->n; i += 32) {
        uint32_t most = 0;
        for (uint64_t k = i; k < i + 32; k++) {
            assert_int_not_equal(pages[k], WH_PAGE_NONE);
            x->tas += x->steps[k];
            most = x->steps[k] > most ? x->steps[k] : most;
        }
        x->was += most;
    }
    x->tas /= (double)x->n;
    x->was /= (double)x->n / 32;
    free(pages);
}

/* --- RW and RW-BM: equations 3 to 6 ------------------------------------------------------- */

static void check_walk(const char *name, get_fn get, uint32_t w, uint64_t t, double share,
                       uint64_t n) {
    bed x;
    set_up(
        &x,
        &(want){
            .name = name, .t = t, .available = (uint64_t)(share * (double)t), .n = n, .seed = 7});
    measure(&x, get);
    const double T = (double)x.t, A = (double)x.available, N = (double)n;
    const double expected =
        w == 1 ? wh_theory_walk_tas(T, A, N, w) : wh_theory_words_tas(T, A, N, w);
    const double equation = wh_theory_walk_tas(T, A, N, w);
    double variance = 0;
    for (double j = 0; j < N; j++) {
        const double p = 1 - pow(1 - (A - j) / T, w);
        variance += (1 - p) / (p * p);
    }
    const double error = 5 * sqrt(variance) / N;
    const double places = w == 1 ? A - N : T / w * (1 - pow(1 - (A - N) / T, w));
    const double conflicts = expected * x.resident / places;
    const double p = 1 - pow(1 - (A - N) / T, w);
    const double upper = wh_theory_walk_was(T, A, N, w);
    const double lower = wh_theory_walk_was(T, A, 0, w);
    const double was_error = 5 * 1.3 / p / sqrt(N / 32); /* sd of the largest of 32: 1.28 / p */
    print_message("%s %4.1f %% free, N %llu: TAS %.3f (%.3f +- %.3f + %.3f), WAS %.2f (%.2f .. "
                  "%.2f +- %.2f)\n",
                  name, share * 100, (unsigned long long)n, x.tas, expected, error, conflicts,
                  x.was, lower, upper, was_error);
    /* Equation 5 itself, as long as few pages of each word are taken, and few of the free ones. */
    assert_true(N > T / w || N > A / 2 || fabs(equation - expected) < 0.02 * expected);
    assert_true(x.tas >= expected - error);
    assert_true(x.tas <= expected + error + conflicts);
    assert_true(x.was >= lower - was_error);
    assert_true(x.was <= upper + was_error + 32 * (conflicts + expected - equation));
    tear_down(&x);
}

static void test_rw(void **state) {
    static const double shares[] = {0.5, 0.1, 0.01, 0.005};
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        check_walk("rw", get_rw, 1, 1 << 20, shares[i], 2048);
        check_walk("rw-bm", get_rw_bm, WH_USE_BITS, 1 << 20, shares[i], 2048);
    }
}

/* A million threads at once, and as many as there are pages for with less memory free. */
static void test_many(void **state) {
    (void)state;
#ifndef WH_TSAN
    check_walk("rw", get_rw, 1, 3 << 20, 0.5, 1 << 20);
    check_walk("rw-bm", get_rw_bm, WH_USE_BITS, 3 << 20, 0.5, 1 << 20);
    check_walk("rw-bm", get_rw_bm, WH_USE_BITS, 3 << 20, 0.1, 1 << 18);
    check_walk("rw", get_rw, 1, 1 << 23, 0.01, 1 << 16);
    check_walk("rw-bm", get_rw_bm, WH_USE_BITS, 1 << 24, 0.01, 1 << 17);
    check_walk("rw-bm", get_rw_bm, WH_USE_BITS, 1 << 24, 0.005, 1 << 16);
#endif
}

/* A million threads at each share of free pages: minutes and gigabytes, see main. */
static void test_million(void **state) {
    static const double shares[] = {0.5, 0.1, 0.01, 0.005};
    static const uint64_t pages[] = {3 << 20, 12 << 20, 1 << 27, 1 << 28};
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        check_walk("rw-bm", get_rw_bm, WH_USE_BITS, pages[i], shares[i], 1 << 20);
        check_walk("rw", get_rw, 1, pages[i], shares[i], 1 << 20);
    }
}

/* --- CoRW: equation 11 ------------------------------------------------------------------------ */

/* Tolerance: a warp needs 32 / p looks at single pages until it has found 32, with the variance
 * 32 (1 - p) / p^2 (negative binomial); a step is 1024 of them, and rounding up to whole steps
 * adds 1/12 at most. Five standard errors of the mean of N / 32 warps, with p at the end of the
 * kernel, where the variance is largest; and lanes that lose their word, as above. */
static void check_corw(double share, uint64_t n) {
    bed x;
    set_up(&x, &(want){.name = "corw",
                       .t = 1 << 20,
                       .available = (uint64_t)(share * (1 << 20)),
                       .n = n,
                       .seed = 11});
    measure(&x, get_corw);
    const double T = (double)x.t, A = (double)x.available, N = (double)n, p = (A - N) / T;
    const double first = wh_theory_corw_steps(A / T, WH_USE_BITS, 32, 32);
    const double last = wh_theory_corw_steps(p, WH_USE_BITS, 32, 32);
    const double mean = wh_theory_corw_mean(T, A, N, WH_USE_BITS, 32);
    const double bound = wh_theory_corw(p, WH_USE_BITS);
    const double look = 32.0 * WH_USE_BITS * p;
    const double error = 5 * sqrt((32 * (1 - p) / (look * look) + 1.0 / 12) / (N / 32));
    const double places = T / WH_USE_BITS * (1 - pow(1 - p, WH_USE_BITS));
    const double conflicts = mean * x.resident / places;
    print_message(
        "corw %4.1f %% free, N %llu: TAS %.3f WAS %.3f (%.3f .. %.3f, mean %.3f +- %.3f + "
        "%.3f; equation 11: %.3f)\n",
        share * 100, (unsigned long long)n, x.tas, x.was, first, last, mean, error, conflicts,
        bound);
    assert_true(fabs(x.tas - x.was) < 1e-9); /* the lanes of a warp end together */
    assert_true(mean >= first && mean <= last);
    assert_true(x.tas >= mean - error);
    assert_true(x.tas <= mean + error + conflicts);
    /* Equation 11 bounds it, up to the step in which the last page is found. */
    assert_true(x.tas <= bound + 1.5);
    tear_down(&x);
}

static void test_corw(void **state) {
    static const double shares[] = {0.5, 0.1, 0.01, 0.005};
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        check_corw(shares[i], 512);
        check_corw(shares[i], 2048);
        check_corw(shares[i], 4096);
    }
}

/* --- CRW: equation 14 ---------------------------------------------------------------------------
 */

/* Few large clusters: almost every page is beside the last one, as equation 14 says. Tolerance: a
 * request leaves its last page's word if another lane is at it at that moment, and at most R are
 * resident: R over the number of words with free pages. It then walks T / A steps, since whole
 * words are free or not. The spread of the rest is nothing: (M - 1) / (A + M - 1) walk. */
static void check_clusters(uint64_t n) {
    bed x;
    set_up(
        &x,
        &(want){
            .name = "crw", .t = 1 << 20, .available = 1 << 18, .n = n, .clusters = 16, .seed = 5});
    measure(&x, get_crw);
    measure(&x, get_crw); /* the second request of each thread has a last page */
    const double T = (double)x.t, A = (double)x.available, N = (double)n;
    const double walk = wh_theory_walk_tas(T, A - N, N, WH_USE_BITS);
    const double few = wh_theory_crw(A - N, 16, walk);
    const double chance = x.resident / (A / WH_USE_BITS);
    print_message("crw, 16 clusters, N %llu: TAS %.3f (equation 14: %.3f + %.3f)\n",
                  (unsigned long long)n, x.tas, few, chance * T / A);
    assert_true(x.tas >= 1);
    assert_true(x.tas <= few + chance * T / A);
    tear_down(&x);
}

/* Scattered pages: the words next to a last page are as full as any other, so nearly every
 * request walks. Equation 13 takes each division of the pages among clusters for equally likely,
 * also those that leave clusters empty, and promises half of the steps. What does hold is
 * 1 + p E: p the chance that the word of the last page has none left, E the steps of a walk.
 * p is at least that of a word with one free page among those with any, from the first round on,
 * and at most 1; E lies between equation 5 and the words drained by both rounds. Tolerance: five
 * standard errors of the mean of N counts 1 + B G, with B of probability p and G geometric with
 * the mean E, whose variance is p (2 E^2 - E) - p^2 E^2. */
static void check_scattered(uint64_t n) {
    bed x;
    set_up(&x, &(want){.name = "crw", .t = 1 << 20, .available = 1 << 13, .n = n, .seed = 5});
    measure(&x, get_crw);
    measure(&x, get_crw);
    const double T = (double)x.t, A = (double)x.available, N = (double)n, a = A / T;
    const double least = wh_theory_walk_tas(T, A - N, N, WH_USE_BITS);
    const double most = 2 * wh_theory_words_tas(T, A, 2 * N, WH_USE_BITS) -
                        wh_theory_words_tas(T, A, N, WH_USE_BITS);
    const double many = wh_theory_crw(A - N, A - N, least);
    const double p = WH_USE_BITS * a * pow(1 - a, WH_USE_BITS - 1) / (1 - pow(1 - a, WH_USE_BITS));
    const double error = 5 * sqrt((p * (2 * most * most - most) - p * p * most * most) / N);
    const double places = T / WH_USE_BITS * (1 - pow(1 - (A - 2 * N) / T, WH_USE_BITS));
    const double conflicts = most * x.resident / places;
    print_message("crw, scattered, N %llu: TAS %.3f (equation 14: %.3f; %.3f .. %.3f +- %.3f + "
                  "%.3f)\n",
                  (unsigned long long)n, x.tas, many, 1 + p * least, 1 + most, error, conflicts);
    assert_true(x.tas > many);
    assert_true(x.tas >= 1 + p * least - error);
    assert_true(x.tas <= 1 + most + error + conflicts);
    tear_down(&x);
}

static void test_crw(void **state) {
    (void)state;
    check_clusters(512);
    check_clusters(2048);
    check_clusters(8192);
    check_scattered(512);
    check_scattered(1024);
    check_scattered(2048);
}

/* --- the queue: equations 1 and 2 ----------------------------------------------------------------
 */

static void test_queue(void **state) {
    const uint64_t n = 1024;
    wh_sim_options so;
    wh_heap_options o;
    bed x;
    (void)state;
    memset(&x, 0, sizeof x);
    memset(&so, 0, sizeof so);
    memset(&o, 0, sizeof o);
    so.seed = 3;
    so.policy = WH_SIM_RANDOM; /* a lane's place in the queue is random, as the paper has it */
    so.n_sms = 4;
    so.blocks_per_sm = 4;
    x.device = open_with(&so);
    o.device = x.device;
    o.allocator = "page-queue";
    o.bytes = 1 << 20;
    assert_int_equal(wh_heap_create(&x.heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle_of(x.heap, "page-queue", 0, &x.a.queue, sizeof x.a.queue),
                     WH_OK);
    x.n = x.a.n = n;
    x.steps = calloc(n, 4);
    x.occupied = calloc(1, 4);
    x.a.steps = take(x.device, n * 4);
    x.a.last = take(x.device, n * 4);
    measure(&x, get_queue);
    const double was = wh_theory_queue_was((double)n);
    print_message("page-queue: TAS %.3f (%.3f), WAS %.3f (%.3f)\n", x.tas,
                  wh_theory_queue_tas((double)n), x.was, was);
    assert_true(fabs(x.tas - wh_theory_queue_tas((double)n)) < 1e-6); /* each place once */
    /* The largest of 32 places spreads by about N / 33; 32 warps, 5 standard errors. */
    assert_true(fabs(x.was - was) < 5 * (double)n / 33 / sqrt((double)n / 32) + 1);
    tear_down(&x);
}

/* --- the arithmetic itself
 * ------------------------------------------------------------------------ */

static void test_theory(void **state) {
    (void)state;
    /* Equation 3 with the logarithm. */
    const double t = 1e6, a = 1e5, n = 5000;
    assert_true(fabs(wh_theory_walk_tas(t, a, n, 1) - t / n * log(a / (a - n))) < 1e-3);
    /* Theorem 1: a factor of about w when pages are scarce. */
    const double ratio = wh_theory_walk_tas(t, 7000, n, 1) / wh_theory_walk_tas(t, 7000, n, 32);
    assert_true(ratio > 25 && ratio < 32);
    /* Equation 2: 32 / 33 N for large N. */
    assert_true(fabs(wh_theory_queue_was(1e5) / 1e5 - 32.0 / 33) < 1e-3);
    assert_true(isinf(wh_theory_walk_was(t, n, n, 1)));
    assert_true(wh_theory_walk_was(t, t, 0, 1) < 1.001); /* all free: one step */
    /* One warp, p = 1/2, one page a lane: 32 of 32 trials a step. */
    assert_true(wh_theory_corw_steps(0.5, 32, 32, 32) < 1.001);
    assert_true(fabs(wh_theory_corw_steps(0.5, 1, 1, 1) - 2) < 1e-6);
    /* S_L of section 3.2.3: 5.411 (1 - L) / L. */
    assert_int_equal(wh_random_walk_limit(0.005, 0.01, 1), 1077);
    assert_int_equal(wh_random_walk_limit(0.005, 0.001, 1), 1379); /* geometric law */
    assert_true(wh_random_walk_limit(0.5, 0.01, 1) == 7);          /* 0.5^7 < 1 % < 0.5^6 */
    assert_true(wh_random_walk_limit(0.9, 0.01, 32) == 1);
}

/* With the argument `million`: that test alone, which the target nightly runs. */
int main(int argc, char **argv) {
    const struct CMUnitTest million[] = {cmocka_unit_test(test_million)};
    if (argc > 1 && strcmp(argv[1], "million") == 0) {
        return cmocka_run_group_tests(million, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_theory), cmocka_unit_test(test_rw),
                                       cmocka_unit_test(test_many),   cmocka_unit_test(test_corw),
                                       cmocka_unit_test(test_crw),    cmocka_unit_test(test_queue)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
