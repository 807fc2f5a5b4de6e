/* frees.c: the case of frees of what is no block. */
#include "case.h"

/* Pointers that are no blocks are rejected and counted; the heap stays as it is, also
 * when good and bad ones come from one warp. */
#define N_GOOD 10u

void case_bad_free(context *x) {
    suite_layout l;
    const int known = layout_of(x, 1, &l) && l.segment != 0;
    const uint64_t segment = known ? l.segment : 4096;
    uint64_t sizes[] = {32,          100,         known ? l.slices : 256,
                        segment / 4, segment / 2, segment,
                        segment + 1, 3 * segment, 32,
                        segment};
    const uint64_t n_blocks = sizeof sizes / sizeof *sizes;
    void *foreign = device_take(x, 4096);
    make_heap(x, suite_configs[x->config].bytes + 24 * segment);
    for (uint64_t k = 0; k < n_blocks; k++) {
        sizes[k] = sizes[k] < x->largest ? sizes[k] : x->largest;
    }
    make_items(x, 64);
    wh_launch launch = alone(x);
    for (uint64_t k = 0; k < n_blocks; k++) {
        CHECK_EQUAL(x, allocate_one(x, k, capped(x, sizes[k])), 1);
    }
    for (uint64_t k = n_blocks; k < n_blocks + N_GOOD; k++) {
        CHECK_EQUAL(x, allocate_one(x, k, 16 + 16 * (k - n_blocks)), 1);
    }
    /* Two blocks that are freed again: their pointers are stale. */
    void *stale[2];
    PULL(x, ptrs);
    PULL(x, usable);
    stale[0] = x->ptrs[n_blocks - 1];
    stale[1] = x->ptrs[4];
    release_one(x, n_blocks - 1);
    release_one(x, 4);
    RUN(x, fill);
    check_used(x);
    PULL(x, ptrs);

    unsigned char *bad[96];
    uint64_t n_bad = 0;
    bad[n_bad++] = foreign;
    bad[n_bad++] = (unsigned char *)foreign + 64;
    bad[n_bad++] = (unsigned char *)(uintptr_t)16;
    bad[n_bad++] = (unsigned char *)(uintptr_t)x->call.high;
    bad[n_bad++] = (unsigned char *)(uintptr_t)(x->call.low - 16);
    bad[n_bad++] = (unsigned char *)(uintptr_t)(x->call.high - 64); /* metadata, or padding */
    if (known && !l.twice) {
        bad[n_bad++] = stale[0];
    }
    if (known && sizes[4] > l.slices) { /* which slices are live is not recorded */
        bad[n_bad++] = stale[1];
    }
    for (uint64_t k = 0; k < n_blocks - 1; k++) {
        if (x->ptrs[k] != NULL) {
            unsigned char *p = x->ptrs[k];
            bad[n_bad++] = p + 8;
            bad[n_bad++] = p + x->usable[k] - 1;
            if (sizes[k] > segment && x->usable[k] > segment) {
                bad[n_bad++] = p + segment;
            }
            if (known && sizes[k] > l.slices) {
                bad[n_bad++] = p + x->usable[k] / 2; /* two that one warp may free together */
                bad[n_bad++] = p + x->usable[k] / 4;
            }
        }
    }
    const uint64_t before = stats(x).bad_frees;
    conform_call saved = x->call;
    void **arguments = device_take(x, sizeof bad);
    for (uint64_t i = 0; i < n_bad; i++) { /* one by one */
        OK(x, wh_device_copy_in(x->device, arguments, &bad[i], sizeof *bad));
        x->call.ptrs = arguments;
        x->order[0] = 0;
        PUSH(x, order);
        x->call.n = 1;
        RUN(x, release);
        x->call.ptrs = saved.ptrs;
        x->call.n = saved.n;
        if (stats(x).bad_frees != before + i + 1) {
            fail(x, "bad pointer %" PRIu64 " (%p, heap %p..%p) was not counted once", i,
                 (void *)bad[i], (void *)(uintptr_t)x->call.low, (void *)(uintptr_t)x->call.high);
        }
        if (i % 8 == 7 || i + 1 == n_bad) {
            check_used(x);
        }
    }
    RUN(x, verify);
    together(x, launch);

    /* All at once, mixed with frees of good blocks. */
    PULL(x, ptrs);
    for (uint32_t i = 0; i < N_GOOD; i++) {
        bad[n_bad + i] = x->ptrs[n_blocks + i];
        x->ptrs[n_blocks + i] = NULL;
    }
    PUSH(x, ptrs);
    OK(x, wh_device_copy_in(x->device, arguments, bad, (n_bad + N_GOOD) * sizeof *bad));
    for (uint32_t i = 0; i < x->room; i++) {
        x->order[i] = i;
    }
    x->call.n = n_bad + N_GOOD;
    shuffle(x);
    x->call.ptrs = arguments;
    RUN(x, release);
    x->call.ptrs = saved.ptrs;
    x->call.n = saved.n;
    CHECK_EQUAL(x, stats(x).bad_frees, before + 2 * n_bad);
    check_used(x);
    for (uint32_t i = 0; i < x->room; i++) {
        x->order[i] = i;
    }
    PUSH(x, order);
    RUN(x, verify);
    RUN(x, release);
    CHECK_EQUAL(x, stats(x).bad_frees, before + 2 * n_bad);
    check_empty(x);
    OK(x, wh_device_free(x->device, foreign));
    OK(x, wh_device_free(x->device, arguments));
}
