/* stats.c: cases: reset, statistics, several heaps. */
#include "case.h"

void case_reset(context *x) {
    wh_stats fresh;
    memset(&fresh, 0, sizeof fresh);
    if (can(x, WH_CAP_STATS)) {
        fresh = stats(x);
    }
    for (uint32_t round = 0; round < 3; round++) {
        (void)mixed_items(x, 2 * some_items(x), some_max(x));
        RUN(x, allocate);
        if (can(x, WH_CAP_DISJOINT)) {
            RUN(x, fill);
            RUN(x, verify);
        }
        OK(x, wh_heap_reset(x->heap));
        inspect(x);
        if (can(x, WH_CAP_STATS)) {
            const wh_stats s = stats(x);
            CHECK(x, memcmp(&s, &fresh, sizeof s) == 0);
        }
    }
    if (can(x, WH_CAP_DISJOINT)) {
        check_capacity(x, 1);
    }
}

/* Known states, one block after another. */
void case_stats(context *x) {
    const wh_launch l = alone(x);
    uint64_t failed = 0;
    make_items(x, 24);
    for (uint64_t k = 0; k < x->room; k++) {
        const uint64_t size = random_size(x, x->data / 8);
        const uint64_t served = allocate_one(x, k, size);
        failed += served == 0;
        check_used(x);
        const wh_stats s = stats(x);
        if (s.failed != WH_UNKNOWN) {
            CHECK_EQUAL(x, s.failed, failed);
        }
        CHECK(x, s.largest_free <= x->data - s.used_bytes);
        if (can(x, WH_CAP_FREE) && random_of(x) % 3 == 0) {
            release_one(x, random_of(x) % (k + 1));
            check_used(x);
        }
    }
    CHECK_EQUAL(x, allocate_one(x, 0, SIZE_MAX / 2), 0);
    together(x, l);
}

/* Three heaps on one device, used in turn by the same threads. */
void case_heaps(context *x) {
    const conform_handle first = x->call.heap;
    wh_heap *more[2];
    conform_handle handles[2];
    for (uint32_t i = 0; i < 2; i++) {
        wh_heap_options o = x->options;
        o.memory = NULL;
        o.bytes = suite_config_bytes[x->config] + 4096 * (i + 1);
        wh_any_options own;
        suite_options(&o, &own, (x->config + i) % SUITE_CONFIGS);
        uint64_t least = 0;
        OK(x, wh_heap_min_bytes(&o, &least));
        o.bytes = o.bytes > least ? o.bytes : least;
        OK(x, wh_heap_create(&more[i], &o));
        OK(x, x->kernels->bind(more[i], &handles[i]));
    }
    (void)mixed_items(x, some_items(x), 600);
    for (uint32_t round = 0; round < 3; round++) {
        x->call.heap = round == 2 ? handles[1] : first;
        x->call.other = handles[round % 2];
        if (round == 2) {
            x->call.other = handles[0];
        }
        RUN(x, two_heaps);
        if (can(x, WH_CAP_DISJOINT)) {
            RUN(x, fill);
            RUN(x, verify);
        }
        RUN(x, release_two);
    }
    x->call.heap = first;
    for (uint32_t i = 0; i < 2; i++) {
        wh_stats s;
        if (can(x, WH_CAP_CHECK)) {
            OK(x, wh_heap_check(more[i], NULL));
        }
        if (can(x, WH_CAP_FREE | WH_CAP_STATS)) {
            OK(x, wh_heap_get_stats(more[i], &s));
            CHECK_EQUAL(x, s.live_blocks, 0);
        }
        wh_heap_destroy(more[i]);
    }
    if (can(x, WH_CAP_FREE)) {
        check_empty(x);
    }
    inspect(x);
}
