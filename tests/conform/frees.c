/* frees.c: the case of frees of what is no block. */
#include "case.h"

#define N_SIZED 10u /* blocks of the kinds of sizes that an allocator tells apart */
#define N_GOOD 10u  /* small ones behind them, which are freed together with what is no block */
#define N_ITEMS 64u
#define MOST_BAD 96u

typedef struct pointers {
    suite_layout layout;
    int known; /* whether `layout` says something */
    uint64_t segment;
    uint64_t sizes[N_SIZED];
    unsigned char *foreign; /* memory of the device that is not the heap's */
    void *stale[2];         /* blocks of the sizes 9 and 4 that have been freed */
    unsigned char *bad[MOST_BAD];
    uint64_t n_bad;
    void **arguments; /* on the device: as many as `bad` */
    uint64_t before;  /* bad frees that the heap had counted */
} pointers;

static void choose_sizes(context *x, pointers *p) {
    p->known = layout_of(x, 1, &p->layout) && p->layout.segment != 0;
    p->segment = p->known ? p->layout.segment : 4096;
    const uint64_t segment = p->segment;
    const uint64_t sizes[N_SIZED] = {32,          100,         p->known ? p->layout.slices : 256,
                                     segment / 4, segment / 2, segment,
                                     segment + 1, 3 * segment, 32,
                                     segment};
    make_heap(x, suite_config_bytes[x->config] + 24 * segment);
    for (uint64_t k = 0; k < N_SIZED; k++) {
        p->sizes[k] = sizes[k] < x->largest ? sizes[k] : x->largest;
    }
}

/* A block of each size, N_GOOD small ones, and two that are freed again: their pointers are
 * stale. */
static void make_blocks(context *x, pointers *p) {
    make_items(x, N_ITEMS);
    for (uint64_t k = 0; k < N_SIZED; k++) {
        CHECK_EQUAL(x, allocate_one(x, k, capped(x, p->sizes[k])), 1);
    }
    for (uint64_t k = 0; k < N_GOOD; k++) {
        CHECK_EQUAL(x, allocate_one(x, N_SIZED + k, 16 + 16 * k), 1);
    }
    PULL(x, ptrs);
    PULL(x, usable);
    p->stale[0] = x->ptrs[N_SIZED - 1];
    p->stale[1] = x->ptrs[4];
    release_one(x, N_SIZED - 1);
    release_one(x, 4);
    RUN(x, fill);
    check_used(x);
    PULL(x, ptrs);
}

static void add_bad(context *x, pointers *p, uint64_t address) {
    CHECK(x, p->n_bad < MOST_BAD - N_GOOD);
    p->bad[p->n_bad++] = (unsigned char *)(uintptr_t)address;
}

static void collect_bad(context *x, pointers *p) {
    const uint64_t foreign = (uint64_t)(uintptr_t)p->foreign;
    const uint64_t outside[] = {foreign,          foreign + 64,     16, x->call.high,
                                x->call.low - 16, x->call.high - 64}; /* metadata, or padding */
    for (uint64_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        add_bad(x, p, outside[i]);
    }
    if (p->known && !p->layout.twice) {
        add_bad(x, p, (uint64_t)(uintptr_t)p->stale[0]);
    }
    if (p->known && p->sizes[4] > p->layout.slices) { /* which slices are live is not recorded */
        add_bad(x, p, (uint64_t)(uintptr_t)p->stale[1]);
    }
    for (uint64_t k = 0; k < N_SIZED - 1; k++) {
        const uint64_t block = (uint64_t)(uintptr_t)x->ptrs[k], usable = x->usable[k];
        if (block == 0) {
            continue;
        }
        add_bad(x, p, block + 8);
        add_bad(x, p, block + usable - 1);
        if (p->sizes[k] > p->segment && usable > p->segment) {
            add_bad(x, p, block + p->segment);
        }
        if (p->known && p->sizes[k] > p->layout.slices) {
            add_bad(x, p, block + usable / 2); /* two that one warp may free together */
            add_bad(x, p, block + usable / 4);
        }
    }
}

/* Frees the first n of `arguments` as if they were the items' blocks. */
static void release_arguments(context *x, const pointers *p, uint64_t n, int in_any_order) {
    const conform_call saved = x->call;
    x->call.ptrs = p->arguments;
    x->call.n = n;
    for (uint32_t i = 0; i < x->room; i++) {
        x->order[i] = i;
    }
    if (in_any_order) {
        shuffle(x);
    } else {
        PUSH(x, order);
    }
    RUN(x, release);
    x->call.ptrs = saved.ptrs;
    x->call.n = saved.n;
}

static void free_one_by_one(context *x, const pointers *p) {
    for (uint64_t i = 0; i < p->n_bad; i++) {
        OK(x, wh_device_copy_in(x->device, p->arguments, &p->bad[i], sizeof *p->bad));
        release_arguments(x, p, 1, 0);
        if (stats(x).bad_frees != p->before + i + 1) {
            fail(x, "bad pointer %" PRIu64 " (%p, heap %p..%p) was not counted once", i,
                 (void *)p->bad[i], (void *)(uintptr_t)x->call.low,
                 (void *)(uintptr_t)x->call.high);
        }
        if (i % 8 == 7 || i + 1 == p->n_bad) {
            check_used(x);
        }
    }
    RUN(x, verify);
}

/* All at once, mixed with frees of good blocks. */
static void free_together(context *x, pointers *p) {
    const uint64_t n = p->n_bad + N_GOOD;
    PULL(x, ptrs);
    for (uint32_t i = 0; i < N_GOOD; i++) {
        p->bad[p->n_bad + i] = x->ptrs[N_SIZED + i];
        x->ptrs[N_SIZED + i] = NULL;
    }
    PUSH(x, ptrs);
    OK(x, wh_device_copy_in(x->device, p->arguments, p->bad, n * sizeof *p->bad));
    release_arguments(x, p, n, 1);
    CHECK_EQUAL(x, stats(x).bad_frees, p->before + 2 * p->n_bad);
    check_used(x);
}

/* Pointers that are no blocks are rejected and counted; the heap stays as it is, also
 * when good and bad ones come from one warp. */
void case_bad_free(context *x) {
    pointers p;
    memset(&p, 0, sizeof p);
    p.foreign = device_take(x, 4096);
    choose_sizes(x, &p);
    const wh_launch launch = alone(x);
    make_blocks(x, &p);
    collect_bad(x, &p);
    p.before = stats(x).bad_frees;
    p.arguments = device_take(x, sizeof p.bad);
    free_one_by_one(x, &p);
    together(x, launch);
    free_together(x, &p);

    for (uint32_t i = 0; i < x->room; i++) {
        x->order[i] = i;
    }
    PUSH(x, order);
    RUN(x, verify);
    RUN(x, release);
    CHECK_EQUAL(x, stats(x).bad_frees, p.before + 2 * p.n_bad);
    check_empty(x);
    OK(x, wh_device_free(x->device, p.foreign));
    OK(x, wh_device_free(x->device, p.arguments));
}
