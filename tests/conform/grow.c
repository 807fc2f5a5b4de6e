/* grow.c: the case of a heap that grows. */
#include "case.h"

/* Moves the heap to `bytes` bytes, of the caller or (0) of its own, and what the items know of
 * it. Where it does not fit, which is only so if what is new is less than a place's alignment may
 * cost, it stays. Whether it has moved. */
static int grow_to(context *x, uint64_t bytes, int own) {
    void *raw = NULL, *memory = NULL;
    int64_t moved = 0;
    if (!own) {
        memory = suite_memory(x->device, bytes, random_of(x), &raw);
        CHECK(x, memory != NULL);
        (void)wh_device_set(x->device, memory, 0xee, bytes);
    }
    const wh_status s = wh_heap_grow(x->heap, bytes, memory, &moved);
    if (s != WH_OK) {
        OK(x, wh_device_free(x->device, raw));
        CHECK(x, s == WH_HEAP_TOO_SMALL && bytes - x->options.bytes < x->info->max_align);
        return 0;
    }
    OK(x, wh_device_free(x->device, x->raw)); /* nothing of the heap is left there */
    x->raw = raw;
    x->options.memory = memory;
    x->options.bytes = bytes;
    OK(x, x->kernels->bind(x->heap, &x->call.heap));
    x->call.low = own ? 0 : (uint64_t)(uintptr_t)memory; /* where its own is nobody knows */
    x->call.high = own ? UINT64_MAX : x->call.low + bytes;
    PULL(x, ptrs);
    for (uint64_t k = 0; k < x->room; k++) {
        x->ptrs[k] = wh_heap_rebase(x->ptrs[k], moved);
    }
    PUSH(x, ptrs);
    return 1;
}

/* A heap that grows keeps its blocks, with their contents, its totals, and the memory that it had
 * free; it gets new memory, and goes on as if it had been so large from the beginning. */
void case_grow(context *x) {
    const uint64_t more[] = {0, 512, x->options.bytes / 3, x->options.bytes};
    const int statistics = can(x, WH_CAP_STATS);
    int64_t moved = 1;
    (void)mixed_items(x, some_items(x), some_max(x));
    if (random_of(x) % 2 != 0) {
        wear(x); /* otherwise most of the memory has never been used */
    }
    for (uint32_t round = 0; round < 4; round++) {
        shuffle(x);
        RUN(x, allocate);
        RUN(x, fill);
        const uint64_t n = x->call.n;
        x->call.n = random_of(x) % n; /* so that memory is free in many places */
        RUN(x, release);
        x->call.n = n;
        wh_stats before, after;
        memset(&before, 0, sizeof before);
        if (statistics) {
            before = stats(x);
        }
        const uint64_t plus = more[(round + x->seed) % 4];
        if (!grow_to(x, x->options.bytes + plus, random_of(x) % 4 == 0)) {
            RUN(x, verify);
            check_used(x);
            CHECK(x, grow_to(x, x->options.bytes + plus + x->info->max_align, 0));
        }
        RUN(x, verify);
        check_used(x);
        if (statistics) {
            after = stats(x);
            CHECK_EQUAL(x, after.heap_bytes, x->options.bytes);
            CHECK_EQUAL(x, after.live_blocks, before.live_blocks);
            CHECK_EQUAL(x, after.used_bytes, before.used_bytes);
            CHECK_EQUAL(x, after.failed, before.failed);
            CHECK_EQUAL(x, after.bad_frees, before.bad_frees);
            CHECK(x, after.heap_bytes - after.metadata_bytes >= x->data);
            x->data = after.heap_bytes - after.metadata_bytes;
        }
    }
    /* What it refuses changes nothing. */
    CHECK(x, wh_heap_grow(x->heap, x->options.bytes - 1, NULL, &moved) == WH_BAD_ARGUMENT);
    CHECK(x, wh_heap_grow(x->heap, x->options.bytes, NULL, NULL) == WH_BAD_ARGUMENT);
    CHECK_EQUAL(x, (uint64_t)moved, 1);
    RUN(x, verify);
    shuffle(x);
    RUN(x, release);
    check_empty(x);
    /* All of the memory can be had, what came with growing included. */
    suite_layout l;
    uint64_t size = 64;
    while (size < least_size(x, x->options.bytes)) {
        size *= 2;
    }
    const uint64_t expected = capacity_for(x, size);
    if (statistics && layout_of(x, size, &l) && expected != UINT64_MAX && !l.packed) {
        make_items(x, x->options.bytes / size + 1);
        for (uint64_t k = 0; k < x->room; k++) {
            x->sizes[k] = size;
        }
        const wh_launch launch = alone(x);
        const uint64_t served = fill_up(x, size), kept = (l.kept + l.block - 1) / l.block;
        CHECK(x, served <= expected && served + kept >= expected);
        together(x, launch);
        RUN(x, release);
        check_empty(x);
    }
    OK(x, wh_heap_reset(x->heap));
    check_empty(x);
}
