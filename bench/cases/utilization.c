/* utilization.c: the case utilization: a heap is filled until a malloc returns NULL. */
#include <string.h>

#include "bench/driver/internal.h"

/* A fill with blocks of one size. */
typedef struct fill {
    uint64_t size, batch;
    uint64_t filled, batches;
    double us;              /* over all batches */
    wh_bench_counts counts; /* of all blocks, in the end */
} fill;

/* Batches until a malloc has returned NULL, or time is over. */
static wh_status fill_up(whi_bench_plan *p, fill *f, uint64_t room) {
    whi_bench *b = p->b;
    const double start = whi_bench_wall_seconds();
    int timed_out = 0;
    while (f->counts.failed == 0 && !timed_out && f->filled + f->batch <= room) {
        p->call.ptrs = b->arrays.ptrs + f->filled;
        p->mallocs.n = 0;
        WHI_BENCH_TRY(whi_bench_time(p, b->kernels->malloc_single, f->batch, &p->mallocs));
        f->us += p->mallocs.us[0];
        WHI_BENCH_TRY(whi_bench_verify(p, 0, &f->counts)); /* looks at this batch alone */
        f->filled += f->batch;
        f->batches++;
        timed_out = whi_bench_over(b, start, WHI_BENCH_CASE_LIMITS);
    }
    if (timed_out && f->counts.failed == 0) {
        (void)whi_bench_leave_out(b, (whi_bench_part){.size = f->size});
    }
    return WH_OK;
}

/* The series' one sample is the sum over the batches. The figure exists only if the fill ended by
 * a NULL, not by time. */
static wh_status run(whi_bench *b, uint64_t bytes, uint64_t batch, uint64_t size) {
    const uint64_t room = bytes / size / batch * batch + 2 * batch;
    fill f = {.size = size, .batch = batch};
    whi_bench_plan p;
    double floor_us = 0;
    WHI_BENCH_TRY(whi_bench_need_ptrs(b, room));
    WHI_BENCH_TRY(whi_bench_begin(b, &p, bytes, (whi_bench_blocks){batch, size, size}));
    WHI_BENCH_TRY(whi_bench_floor(&p, b->kernels->floor_single, batch, &floor_us));
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    WHI_BENCH_TRY(fill_up(&p, &f, room));
    const int complete = f.counts.failed != 0;
    whi_bench_aim(&p, (whi_bench_blocks){f.filled, size, size});
    WHI_BENCH_TRY(whi_bench_verify(&p, WHI_BENCH_CONTENTS | WHI_BENCH_PLACES, &f.counts));
    whi_bench_set_sample(&p.mallocs, f.us);
    whi_bench_count(&p, &f.counts, 1);
    whi_bench_row row = whi_bench_row_of(&p, whi_bench_phase(b), "malloc");
    row.us_null = floor_us * (double)f.batches;
    if (complete) {
        whi_bench_add_value(&row, "utilization", (double)f.counts.requested / (double)bytes, 3);
        /* whole rounds before the first NULL, and how many the heap's bytes would do for */
        whi_bench_add_value(&row, "rounds", (double)(f.batches - 1), 0);
        whi_bench_add_value(&row, "rounds_ideal", (double)(bytes / (size * batch)), 0);
    }
    WHI_BENCH_TRY(whi_bench_emit(b, &row, &p.mallocs));
    const int can_free = !p.broken && whi_bench_can(b, WH_CAP_FREE);
    return can_free ? whi_bench_launch(&p, b->kernels->free_all, f.filled) : WH_OK;
}

wh_status whi_bench_case_utilization(whi_bench *b) {
    const uint64_t bytes = whi_bench_case_heap(b, b->defaults->utilization_bytes);
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->utilization);
    const whi_bench_list batches = whi_bench_threads(b, &b->defaults->batch);
    if (!whi_bench_can(b, WH_CAP_DISJOINT)) {
        return WH_OK; /* it would never be full */
    }
    for (size_t i = 0; i < sizes.n; i++) {
        const whi_bench_part part = {.size = sizes.v[i]};
        if (sizes.v[i] > bytes || sizes.v[i] > b->alloc->max_size || whi_bench_leave_out(b, part)) {
            continue;
        }
        whi_bench_progress(b, sizes.v[i], batches.v[0]);
        WHI_BENCH_TRY(run(b, bytes, batches.v[0], sizes.v[i]));
    }
    whi_bench_close_heap(b);
    return WH_OK;
}
