/* full.c: cases: how much a heap holds, from one thread and from many, and what is had again. */
#include "case.h"

/* Blocks that a full heap holds at most, so that filling the largest heaps does not take most of
 * the time. One seed in eight goes without this limit. */
#define MOST_BLOCKS 16384u

int is_wide(const context *x) {
    return x->seed % 8 == 7;
}

uint64_t least_size(const context *x, uint64_t bytes) {
    return is_wide(x) ? 1 : bytes / MOST_BLOCKS + 1;
}

uint64_t some_size(context *x) {
    suite_layout l;
    const uint64_t segment = layout_of(x, 1, &l) && l.segment != 0 ? l.segment : 4096;
    const uint64_t choices[] = {
        16,      17,          48,         100, 256, 1000, segment / 4, segment / 2, segment / 2 + 1,
        segment, segment + 1, 3 * segment};
    const uint64_t least = least_size(x, x->options.bytes);
    uint64_t n = choices[random_of(x) % (sizeof choices / sizeof *choices)];
    n = n <= x->options.bytes / 4 && n <= x->largest ? n : 64;
    while (n < least && 2 * n <= x->largest) {
        n *= 2;
    }
    return n;
}

uint64_t capacity_for(const context *x, uint64_t n) {
    suite_layout l;
    if (!layout_of(x, n, &l) || l.unknown) {
        return UINT64_MAX;
    }
    return l.in_segment != 0 ? x->data / l.segment * l.in_segment : (x->data - l.rest) / l.block;
}

uint64_t fill_up(context *x, uint64_t n) {
    x->call.min_size = n;
    OK(x, wh_device_set(x->device, x->call.ptrs, 0, x->room * sizeof(void *)));
    if (x->by_pool) {
        OK(x, x->kernels->bind_pool(x->heap, n, &x->call.pool));
        RUN(x, pool_exhaust);
    } else {
        RUN(x, exhaust);
    }
    const uint64_t served = x->result.served;
    check_used(x);
    RUN(x, fill);
    RUN(x, verify);
    return served;
}

/* Whether a walk that has a word of pages in its statistics makes do with one step. */
#ifdef WH_HOSTILE
#define GIVES_UP_EARLY 1
#else
#define GIVES_UP_EARLY 0
#endif

void check_capacity(context *x, int many) {
    const uint64_t n = some_size(x), expected = capacity_for(x, n);
    wh_launch l = x->launch;
    make_items(x, x->options.bytes / wh_round_up(n, 16) + 1);
    for (uint64_t k = 0; k < x->room; k++) {
        x->sizes[k] = n;
    }
    PUSH(x, sizes);
    suite_layout known;
    int exact = layout_of(x, n, &known) && !known.unknown &&
                (!many || can(x, WH_CAP_EXACT_OOM) || is_bump(x));
    /* Runs that meet leave gaps: each takes what the other one has seen. */
    const int may_break = many && ((known.segment != 0 && n > known.segment) || known.packed != 0);
    exact = exact && !may_break;
    if (can(x, WH_CAP_FREE | WH_CAP_STATS) && random_of(x) % 2 != 0) {
        wear(x);
        /* Idle memory of other classes stays where it is until it is needed: it may lie
         * between runs, and slices of a block that is not full may be used up. */
        exact = exact && (known.regained || n > known.slices) && n <= known.segment;
    }
    const uint64_t failed = can(x, WH_CAP_STATS) ? stats(x).failed : 0;
    if (!many) {
        l = alone(x);
    }
    const uint64_t first = fill_up(x, n);
    if (can(x, WH_CAP_STATS) && stats(x).failed != WH_UNKNOWN) {
        CHECK_EQUAL(x, stats(x).failed, failed + (many ? x->workers : 1));
    }
    const uint64_t kept = known.kept != 0 ? (known.kept + known.block - 1) / known.block : 0;
    if (exact) {
        CHECK(x, first <= expected && first + kept >= expected);
    }
    CHECK(x, first > 0 && (expected == UINT64_MAX || first + kept >= expected / 2));
    for (uint32_t round = 0; round < 2 && can(x, WH_CAP_FREE); round++) {
        together(x, l);
        shuffle(x);
        if (x->by_pool) {
            RUN(x, pool_release);
        } else {
            RUN(x, release);
        }
        check_empty(x);
        if (!many) {
            l = alone(x);
        }
        const uint64_t again = fill_up(x, n);
        if (can(x, WH_CAP_EXACT_OOM) && expected != UINT64_MAX && !may_break) {
            /* every unit has come back */
            CHECK_EQUAL(x, again, expected);
        }
        /* One whose out-of-memory is not exact may give up at another moment (the hostile
         * build's walks at the first full word), and where the layout is not known
         * fragments may be left. */
        uint64_t least = can(x, WH_CAP_EXACT_OOM) || !GIVES_UP_EARLY ? first / 2 : 1;
        if (can(x, WH_CAP_EXACT_OOM) && expected != UINT64_MAX) {
            least = first;
        }
        CHECK(x, many || again >= least);
    }
    together(x, l);
}

void case_full_one(context *x) {
    check_capacity(x, 0);
}

void case_full_many(context *x) {
    check_capacity(x, 1);
}

/* How many blocks of n bytes are left, by the host and by a kernel. */
static uint64_t blocks_left(context *x, uint64_t n) {
    const wh_launch before = x->launch;
    uint64_t left = 0;
    const wh_status s = wh_heap_blocks_left(x->heap, n, &left);
    x->call.min_size = n;
    x->launch.blocks = 1;
    x->launch.threads = 32;
    RUN(x, left);
    x->launch = before;
    if (can(x, WH_CAP_LEFT)) {
        OK(x, s);
        CHECK_EQUAL(x, x->result.served, left);
    } else {
        CHECK_EQUAL(x, s, WH_UNSUPPORTED);
        CHECK_EQUAL(x, x->result.served, WH_UNKNOWN);
    }
    CHECK_EQUAL(x, x->result.nulls, 0);
    return left;
}

/* What is said to be left is what a fill gets; after that, and of what no heap has, nothing is. */
void case_left(context *x) {
    const uint64_t n = some_size(x);
    if (!can(x, WH_CAP_LEFT)) {
        (void)blocks_left(x, n);
        return;
    }
    make_items(x, x->options.bytes / wh_round_up(n, 16) + 1);
    for (uint64_t k = 0; k < x->room; k++) {
        x->sizes[k] = n;
    }
    PUSH(x, sizes);
    const wh_launch l = alone(x);
    CHECK_EQUAL(x, blocks_left(x, 0), 0);
    CHECK_EQUAL(x, blocks_left(x, x->options.bytes + 1), 0);
    CHECK_EQUAL(x, blocks_left(x, SIZE_MAX), 0);
    for (uint32_t round = 0; round < 2; round++) {
        const uint64_t left = blocks_left(x, n), got = fill_up(x, n);
        /* Tessera: where blocks have several chunks, it depends on what is closed first. */
        const uint64_t off = can(x, WH_CAP_WALK) && can(x, WH_CAP_ANY_SIZE) ? got / 16 + 2 : 0;
        CHECK(x, got <= left + off);
        if (can(x, WH_CAP_EXACT_OOM) || is_bump(x)) {
            CHECK(x, left <= got + off);
            CHECK_EQUAL(x, blocks_left(x, n), 0);
        }
        if (!can(x, WH_CAP_FREE)) {
            break;
        }
        shuffle(x);
        x->call.n = x->room / 2;
        RUN(x, release);
        x->call.n = x->room;
        CHECK(x, blocks_left(x, n) > 0);
        RUN(x, release);
        check_empty(x);
    }
    together(x, l);
}

/* In a full heap, what is freed is what can be had again: no more and no less, and at
 * once. Memory comes back in the units that the allocator's layout names. */
void case_full_reuse(context *x) {
    uint64_t n = some_size(x);
    suite_layout l;
    int known = layout_of(x, n, &l);
    if (!known) { /* blocks that may come back in other places, and not fit them */
        n = 64;
        known = layout_of(x, n, &l);
    }
    make_items(x, x->options.bytes / wh_round_up(n, 16) + 1);
    for (uint64_t k = 0; k < x->room; k++) {
        x->sizes[k] = n;
    }
    const uint64_t unit = known ? l.unit : 1;
    uint64_t total = fill_up(x, n);
    CHECK(x, total > 0);
    for (uint32_t round = 0; round < 4; round++) {
        PULL(x, ptrs);
        PULL(x, usable);
        uint64_t victims[3], freed = 0, kept = 0;
        for (uint32_t i = 0; i < 3; i++) {
            victims[i] = (uint64_t)(uintptr_t)x->ptrs[random_of(x) % total] / unit;
        }
        void **all = malloc(total * sizeof *all);
        CHECK(x, all != NULL);
        for (uint64_t k = 0; k < total; k++) {
            const uint64_t u = (uint64_t)(uintptr_t)x->ptrs[k] / unit;
            if (u == victims[0] || u == victims[1] || u == victims[2]) {
                x->order[freed++] = (uint32_t)k;
            } else {
                all[kept++] = x->ptrs[k];
            }
        }
        PUSH(x, order);
        x->call.n = freed;
        RUN(x, release);
        x->call.n = x->room;
        inspect(x);
        /* The items are counted from 0 again: the others are live, but not items. */
        OK(x, wh_device_set(x->device, x->call.ptrs, 0, x->room * sizeof(void *)));
        RUN(x, exhaust);
        const uint64_t got = x->result.served;
        PULL(x, ptrs);
        PULL(x, usable);
        for (uint64_t i = 0; i < kept; i++) {
            x->ptrs[got + i] = all[i];
            x->usable[got + i] = x->usable[0];
        }
        total = got + kept;
        free(all);
        PUSH(x, ptrs);
        PUSH(x, usable);
        if (l.packed) { /* each unit serves at least one, each block took one at most */
            const uint64_t second = victims[1] != victims[0];
            const uint64_t third = victims[2] != victims[0] && victims[2] != victims[1];
            CHECK(x, got >= 1 + second + third);
        } else {
            CHECK_EQUAL(x, got, freed);
        }
        check_used(x);
        RUN(x, fill);
        RUN(x, verify);
    }
    for (uint64_t k = 0; k < x->room; k++) {
        x->order[k] = (uint32_t)k;
    }
    shuffle(x);
    RUN(x, release);
    check_empty(x);
}
