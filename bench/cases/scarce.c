/* scarce.c: see scarce.h. */
#include "bench/cases/scarce.h"

#include <string.h>

/* Blocks of a page until a malloc fails. */
static wh_status fill(whi_scarce *w, whi_bench_part next) {
    whi_bench *b = w->pages.b;
    const uint64_t batch = w->pages.n / 32 + 1;
    void *blocks = w->d_blocks;
    whi_bench_plan p;
    wh_bench_counts counts;
    memset(&counts, 0, sizeof counts);
    WHI_BENCH_TRY(whi_bench_reset_heap(b));
    const wh_status s =
        whi_bench_need(b, &blocks, &w->blocks_room, w->pages.n + batch, sizeof(void *));
    w->d_blocks = blocks;
    WHI_BENCH_TRY(s);
    WHI_BENCH_TRY(
        whi_bench_begin(b, &p, b->heap_bytes, (whi_bench_blocks){0, w->pages.page, w->pages.page}));
    p.call.n = batch;
    while (counts.failed == 0 && w->held < w->pages.n && !whi_bench_leave_out(b, next)) {
        p.call.ptrs = w->d_blocks + w->held;
        WHI_BENCH_TRY(whi_bench_launch(&p, b->kernels->malloc_single, batch));
        WHI_BENCH_TRY(whi_bench_verify(&p, 0, &counts));
        w->held += batch;
        w->served += counts.served;
    }
    return WH_OK;
}

/* For an allocator that does not walk: fills the heap, and frees that share of the blocks, those
 * that came last. (Free pages in between others are of use to a walk alone: what has classes
 * cannot give them to another one.) The heap is filled once: a larger share than the one before
 * frees more of the same blocks. */
static wh_status thin(whi_scarce *w, double share, whi_bench_part next) {
    whi_bench *b = w->pages.b;
    const wh_launch l = {b->device, b->on_sim ? 4 : 1024, 256, NULL};
    if (share >= 1) {
        return whi_bench_reset_heap(b);
    }
    if (w->served == 0) {
        WHI_BENCH_TRY(fill(w, next));
    }
    wh_paper_call call = w->pages.call;
    call.ptrs = w->d_blocks;
    call.n = w->held;
    call.from = w->served - (uint64_t)(share * (double)w->served);
    w->held = call.from;
    return whi_bench_check(b, w->pages.kernels->thin(&l, &call), "freeing a share");
}

wh_status whi_scarce_make(whi_scarce *w, double share, uint32_t rep, whi_bench_part next) {
    if (w->pages.kernels->occupy != NULL) {
        const uint64_t available = (uint64_t)(share * (double)w->pages.n);
        return whi_pages_occupy(&w->pages, available, w->pages.b->seed + rep);
    }
    if (share < 1 && w->filled > share - 1e-6 && w->filled < share + 1e-6) {
        return WH_OK;
    }
    w->filled = share;
    return thin(w, share, next);
}

void whi_scarce_end(whi_scarce *w) {
    wh_device *device = w->pages.b->device;
    whi_pages_end(&w->pages);
    (void)wh_device_free(device, w->d_blocks);
}
