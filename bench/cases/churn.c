/* churn.c: the case churn: random malloc and free steps inside one kernel (driver/churn.c). */
#include "bench/driver/internal.h"

wh_status whi_bench_case_churn(whi_bench *b) {
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->churn);
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->churn_threads);
    for (size_t i = 0; i < sizes.n; i++) {
        const uint64_t hi = sizes.v[i];
        const uint64_t lo = whi_bench_least(hi);
        for (size_t k = 0; k < threads.n; k++) {
            const uint64_t held = whi_bench_churn_bytes(b, (lo + hi + 1) / 2);
            const uint64_t n = whi_bench_fitting(b, threads.v[k], held);
            const whi_bench_part part = {.size_min = lo, .size = hi, .threads = n};
            if (n == 0 || hi > b->alloc->max_size || whi_bench_leave_out(b, part)) {
                continue;
            }
            const whi_bench_churn want = {.heap_bytes = whi_bench_heap_bytes(b),
                                          .kernels = 1,
                                          .reps = whi_bench_reps(b, whi_bench_can(b, WH_CAP_RESET)),
                                          .blocks = {n, lo, hi}};
            whi_bench_progress(b, hi, n);
            WHI_BENCH_TRY(whi_bench_churn_run(b, &want));
        }
    }
    return WH_OK;
}
