/* range.c: the case range: the address range of a cold round over the bytes requested. */
#include "bench/driver/internal.h"

static wh_status run(whi_bench *b, uint64_t n, uint64_t size) {
    wh_bench_counts seen;
    whi_bench_plan p;
    WHI_BENCH_TRY(
        whi_bench_begin(b, &p, whi_bench_heap_bytes(b), (whi_bench_blocks){n, size, size}));
    whi_bench_row row = whi_bench_row_of(&p, "cold", "malloc");
    WHI_BENCH_TRY(whi_bench_floor(&p, b->kernels->floor_single, n, &row.us_null));
    WHI_BENCH_TRY(whi_bench_reset_heap(b));
    WHI_BENCH_TRY(whi_bench_time(&p, b->kernels->malloc_single, n, &p.mallocs));
    WHI_BENCH_TRY(whi_bench_verify(&p, WHI_BENCH_CONTENTS | WHI_BENCH_PLACES, &seen));
    whi_bench_count(&p, &seen, 1);
    if (seen.served != 0) {
        whi_bench_add_value(&row, "range_ratio",
                            (double)(seen.high - seen.low) / (double)seen.requested, 3);
    }
    if (p.broken) {
        whi_bench_close_heap(b);
    }
    return whi_bench_emit(b, &row, &p.mallocs);
}

wh_status whi_bench_case_range(whi_bench *b) {
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->single);
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->threads);
    if (!whi_bench_can(b, WH_CAP_RESET | WH_CAP_DISJOINT)) {
        return WH_OK; /* no cold round, or no memory to speak of */
    }
    for (size_t i = 0; i < sizes.n; i++) {
        for (size_t k = 0; k < threads.n; k++) {
            const uint64_t n = whi_bench_fitting(b, threads.v[k], sizes.v[i]);
            const whi_bench_part part = {.size = sizes.v[i], .threads = n};
            if (n == 0 || sizes.v[i] > b->alloc->max_size || whi_bench_leave_out(b, part)) {
                continue;
            }
            whi_bench_progress(b, sizes.v[i], n);
            WHI_BENCH_TRY(run(b, n, sizes.v[i]));
        }
    }
    return WH_OK;
}
