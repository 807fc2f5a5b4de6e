/* sizes.c: cases: blocks that change their size, aligned ones, large ones, and runs of them. */
#include "case.h"

/* Contents survive, up to the smaller size, in both directions. */
void case_realloc(context *x) {
    const uint64_t max = some_max(x);
    (void)mixed_items(x, some_items(x), max);
    RUN(x, allocate);
    RUN(x, fill);
    for (uint32_t round = 0; round < 4; round++) {
        for (uint64_t k = 0; k < x->call.n; k++) {
            const uint64_t r = random_of(x) % 8, most = r < 3 ? 32 : max;
            x->sizes2[k] = r == 0 ? 0 : random_size(x, most);
        }
        PUSH(x, sizes2);
        shuffle(x);
        RUN(x, resize);
        RUN(x, verify);
        check_used(x);
    }
    RUN(x, release);
    check_empty(x);
}

/* Every power of two up to max_align, small and large blocks, beyond a segment. */
void case_aligned(context *x) {
    const uint64_t max = x->info->max_align;
    /* Where the largest block is a small part of the heap, it must be a large one. */
    make_heap(x, suite_config_bytes[x->config] + (can(x, WH_CAP_ANY_SIZE) ? 3 : 64) * max);
    make_items(x, 1);
    x->call.how = CONFORM_ALIGNED;
    for (uint64_t align = 1; align <= max; align *= 2) {
        const uint64_t sizes[] = {1, align, align + 1, align / 2 + 1};
        const wh_launch l = alone(x);
        x->sizes[0] = sizes[random_of(x) % 4];
        x->sizes[0] = x->sizes[0] < x->largest ? x->sizes[0] : x->largest;
        x->aligns[0] = align;
        PUSH(x, sizes);
        PUSH(x, aligns);
        RUN(x, allocate);
        /* Alone in a heap that has room wherever it starts. */
        CHECK_EQUAL(x, x->result.served, 1);
        RUN(x, fill);
        RUN(x, verify);
        if (can(x, WH_CAP_FREE)) {
            RUN(x, release);
        } else {
            check_used(x);
            OK(x, wh_heap_reset(x->heap));
            OK(x, wh_device_set(x->device, x->call.ptrs, 0, sizeof(void *)));
        }
        together(x, l);
    }
    if (can(x, WH_CAP_FREE)) {
        check_empty(x);
    }
    make_items(x, x->workers + 1);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint64_t k = 0; k < x->call.n; k++) {
            x->aligns[k] = (uint64_t)1 << random_of(x) % (wh_log2_floor(max) + 1);
            x->sizes[k] = random_size(x, 5000);
        }
        PUSH(x, aligns);
        PUSH(x, sizes);
        shuffle(x);
        RUN(x, allocate);
        CHECK(x, x->result.served > 0);
        check_used(x);
        RUN(x, fill);
        RUN(x, verify);
        if (!can(x, WH_CAP_FREE)) {
            return;
        }
        RUN(x, release);
        check_empty(x);
    }
}

/* Any size up to the whole heap: largest_free can be had, and nothing more. */
void case_large(context *x) {
    const wh_launch l = alone(x);
    make_items(x, 16);
    if (can(x, WH_CAP_FREE) && random_of(x) % 2 != 0) {
        together(x, l);
        wear(x);
        (void)alone(x);
    }
    for (uint32_t round = 0; round < 10; round++) {
        if (round > 0 && !can(x, WH_CAP_FREE)) {
            break;
        }
        for (uint64_t k = 0; k < round; k++) { /* some blocks are in the way */
            (void)allocate_one(x, k, random_size(x, x->data / 10));
        }
        if (can(x, WH_CAP_STATS)) {
            const uint64_t largest = stats(x).largest_free;
            CHECK(x, largest <= x->data && largest > 0);
            CHECK(x, round > 0 || is_bump(x) || largest == x->data);
            CHECK_EQUAL(x, allocate_one(x, 12, largest + 1), 0);
            CHECK_EQUAL(x, allocate_one(x, 12, largest), 1);
        }
        check_used(x);
        RUN(x, fill);
        RUN(x, verify);
        if (can(x, WH_CAP_FREE)) {
            for (uint64_t k = 0; k < x->room; k++) {
                release_one(x, k);
            }
            check_empty(x);
        }
    }
    together(x, l);
}

/* Runs that do not fit between others, and come back whole. */
void case_runs(context *x) {
    suite_layout l;
    if (!layout_of(x, 1, &l) || l.segment == 0) {
        return;
    }
    const uint64_t n = x->data / l.segment;
    const wh_launch launch = alone(x);
    make_items(x, n + 1);
    for (uint64_t k = 0; k < n; k++) { /* single segments, all of them */
        CHECK_EQUAL(x, allocate_one(x, k, l.segment), 1);
    }
    CHECK_EQUAL(x, allocate_one(x, n, l.segment), 0);
    PULL(x, ptrs);
    for (uint64_t k = 0; k < n; k += 2) { /* every other one by address: no run of two */
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t at = (uint64_t)(uintptr_t)x->ptrs[i] - x->call.low;
            if (at / l.segment % 2 == 0) {
                release_one(x, i);
            }
        }
        break;
    }
    const wh_stats s = stats(x);
    CHECK_EQUAL(x, s.largest_free, l.segment);
    CHECK_EQUAL(x, allocate_one(x, n, l.segment + 1), 0);
    CHECK_EQUAL(x, stats(x).failed, s.failed + 1);
    CHECK_EQUAL(x, allocate_one(x, n, l.segment), 1);
    for (uint64_t k = 0; k <= n; k++) {
        release_one(x, k);
    }
    CHECK_EQUAL(x, stats(x).largest_free, x->data);
    CHECK_EQUAL(x, allocate_one(x, 0, x->data - 1), 1);
    RUN(x, fill);
    RUN(x, verify);
    release_one(x, 0);
    check_empty(x);
    together(x, launch);
}
