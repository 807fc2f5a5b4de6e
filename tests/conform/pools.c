/* pools.c: cases: pools of blocks of one size, beside requests of other sizes. */
#include "case.h"

/* What is no size of a pool is told, and leaves the pool as it was. */
static void check_sizes(context *x, uint64_t n) {
    conform_pool *pool = &x->call.pool;
    OK(x, x->kernels->bind_pool(x->heap, n, pool));
    CHECK_EQUAL(x, x->kernels->bind_pool(x->heap, 0, pool), WH_BAD_ARGUMENT);
    CHECK_EQUAL(x, x->kernels->bind_pool(x->heap, x->options.bytes + 1, pool), WH_BAD_ARGUMENT);
    CHECK_EQUAL(x, x->kernels->bind_pool(x->heap, SIZE_MAX, pool), WH_BAD_ARGUMENT);
    CHECK_EQUAL(x, x->kernels->bind_pool(NULL, n, pool), WH_BAD_ARGUMENT);
    x->call.min_size = n;
}

/* Items of the pool's size, and (others) for every third one of any size. Whether all must find
 * room. */
static int pool_items(context *x, uint64_t items, uint64_t n, int others) {
    int room_for_all = mixed_items(x, items, some_max(x));
    uint64_t pinned = 0, kept = 0;
    for (uint64_t k = 0; k < items; k++) {
        suite_layout l;
        x->sizes[k] = others && k % 3 == 1 ? x->sizes[k] : n;
        room_for_all &=
            layout_of(x, x->sizes[k], &l) && (l.segment == 0 || x->sizes[k] <= l.segment);
        pinned += x->sizes[k] != 0 ? l.pinned : 0;
        kept = l.kept > kept ? l.kept : kept;
    }
    PUSH(x, sizes);
    return room_for_all && pinned + kept <= x->data;
}

/* Fills and verifies what there is. */
static void check_blocks(context *x, int room_for_all) {
    if (room_for_all) {
        CHECK_EQUAL(x, x->result.nulls, 0);
    }
    check_used(x);
    RUN(x, fill);
    RUN(x, verify);
}

/* Blocks of pools made on the host and in kernels are disjoint from each other's and from all
 * others, and either call frees them. */
void case_pool(context *x) {
    const uint64_t n = some_size(x);
    check_sizes(x, n);
    for (uint32_t round = 0; round < (can(x, WH_CAP_FREE) ? 3u : 1u); round++) {
        const int room_for_all = pool_items(x, some_items(x), n, round != 0);
        shuffle(x);
        RUN(x, pool_allocate);
        check_blocks(x, room_for_all);
        if (!can(x, WH_CAP_FREE)) {
            return;
        }
        shuffle(x);
        const uint64_t all = x->call.n;
        x->call.n = 1 + random_of(x) % all; /* a part goes and comes back */
        RUN(x, pool_release);
        x->call.n = all;
        RUN(x, verify);
        RUN(x, pool_allocate);
        check_blocks(x, room_for_all);
        RUN(x, pool_release);
        check_empty(x);
    }
    const int room_for_all = pool_items(x, some_items(x), n, 0);
    shuffle(x);
    RUN(x, pool_lanes);
    check_blocks(x, room_for_all);
    shuffle(x);
    RUN(x, pool_release_lanes);
    check_empty(x);
}

void case_pool_warp(context *x) {
    const uint64_t n = some_size(x);
    check_sizes(x, n);
    for (uint32_t round = 0; round < 2; round++) {
        const int room_for_all = pool_items(x, x->warps, n, 0);
        RUN(x, pool_warp);
        if (room_for_all) {
            CHECK_EQUAL(x, x->result.nulls, 0);
        }
        check_used(x);
        RUN(x, pool_release_warp); /* verifies */
        if (!can(x, WH_CAP_FREE)) {
            return;
        }
        check_empty(x);
    }
}

/* A pool holds what malloc does, from one thread as from many, and again after every block has been
 * freed; then it says NULL. */
void case_pool_one(context *x) {
    x->by_pool = 1;
    check_capacity(x, 0);
}

void case_pool_many(context *x) {
    x->by_pool = 1;
    check_capacity(x, 1);
}
