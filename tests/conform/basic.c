/* basic.c: cases: each way to get blocks and to give them back. */
#include "case.h"

/* Nothing, too much, and arguments outside the contract. */
void case_edges(context *x) {
    RUN(x, edges);
    if (can(x, WH_CAP_STATS)) {
        CHECK_EQUAL(x, stats(x).used_bytes, 0);
        CHECK_EQUAL(x, stats(x).bad_frees, 0);
    }
    inspect(x);
    if (can(x, WH_CAP_FREE | WH_CAP_RESET)) { /* also on a heap in use */
        wear(x);
        RUN(x, edges);
        check_empty(x);
    }
}

/* Collectives over parts of a warp, which allocators make, in the code of this target. */
void case_parts(context *x) {
    RUN(x, parts);
}

/* Alignment and ownership alone: for allocators whose blocks may overlap. */
void case_addresses(context *x) {
    (void)mixed_items(x, some_items(x), some_max(x));
    shuffle(x);
    RUN(x, allocate);
    CHECK(x, x->result.served > 0 || x->result.nulls == 0 || can(x, WH_CAP_FREE));
}

/* Blocks of mixed sizes are disjoint; frees come from other threads and kernels. */
void case_mixed(context *x) {
    const int room_for_all = mixed_items(x, some_items(x), some_max(x));
    for (uint32_t round = 0; round < (can(x, WH_CAP_FREE) ? 3u : 1u); round++) {
        shuffle(x);
        RUN(x, allocate);
        if (room_for_all) {
            CHECK_EQUAL(x, x->result.nulls, 0);
        }
        check_used(x);
        RUN(x, fill);
        RUN(x, verify);
        if (!can(x, WH_CAP_FREE)) {
            return;
        }
        shuffle(x);
        const uint64_t n = x->call.n;
        x->call.n = 1 + random_of(x) % n; /* some stay for the next round */
        RUN(x, release);
        x->call.n = n;
        RUN(x, verify);
        check_used(x);
    }
    RUN(x, release);
    check_empty(x);
}

void case_lanes(context *x) {
    const int room_for_all = mixed_items(x, some_items(x), some_max(x));
    for (uint32_t round = 0; round < (can(x, WH_CAP_FREE) ? 2u : 1u); round++) {
        shuffle(x);
        RUN(x, allocate_lanes);
        if (room_for_all) {
            CHECK_EQUAL(x, x->result.nulls, 0);
        }
        check_used(x);
        RUN(x, fill);
        RUN(x, verify);
        if (can(x, WH_CAP_FREE)) {
            shuffle(x);
            RUN(x, release_lanes);
            check_empty(x);
        }
    }
}

void case_warp(context *x) {
    for (uint32_t round = 0; round < 2; round++) {
        const int room_for_all = mixed_items(x, x->warps, some_max(x));
        RUN(x, allocate_warp);
        if (room_for_all) {
            CHECK_EQUAL(x, x->result.nulls, 0);
        }
        check_used(x);
        RUN(x, release_warp); /* verifies */
        if (!can(x, WH_CAP_FREE)) {
            return;
        }
        check_empty(x);
    }
}

/* Zeros, also where other blocks have been. */
void case_calloc(context *x) {
    const int room_for_all = mixed_items(x, some_items(x), some_max(x));
    x->call.how = CONFORM_CALLOC;
    for (uint32_t round = 0; round < (can(x, WH_CAP_FREE) ? 3u : 1u); round++) {
        shuffle(x);
        RUN(x, allocate);
        if (room_for_all) {
            CHECK_EQUAL(x, x->result.nulls, 0);
        }
        RUN(x, fill);
        RUN(x, verify);
        if (can(x, WH_CAP_FREE)) {
            RUN(x, release);
            check_empty(x);
        }
    }
}
