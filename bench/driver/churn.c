/* churn.c: the churn kernel: its set-up, and one on a heap by itself, timed and verified. */
#include <string.h>

#include "bench/driver/internal.h"

uint64_t whi_bench_churn_bytes(const whi_bench *b, uint64_t mean) {
    const int frees = whi_bench_can(b, WH_CAP_FREE);
    return mean * (frees ? WH_BENCH_SLOTS : b->defaults->churn_steps / 2 + 2);
}

wh_status whi_bench_churn_begin(whi_bench *b, whi_bench_plan *p, const whi_bench_churn *want) {
    const uint64_t slots = want->kernels * want->blocks.n * WH_BENCH_SLOTS;
    WHI_BENCH_TRY(whi_bench_need_ptrs(b, slots));
    WHI_BENCH_TRY(whi_bench_need_born(b, slots));
    WHI_BENCH_TRY(whi_bench_begin(b, p, want->heap_bytes, want->blocks));
    p->call.steps = b->defaults->churn_steps;
    p->call.stamp = whi_bench_can(b, WH_CAP_DISJOINT) ? WH_BENCH_STAMP_CHECK : WH_BENCH_STAMP_TOUCH;
    return WH_OK;
}

/* One churn on a reset heap and the drain of what it leaves; series NULL: untimed. */
static wh_status once(whi_bench_plan *p, int whole, whi_bench_series *series) {
    whi_bench *b = p->b;
    const wh_bench_kernels *k = b->kernels;
    const uint64_t slots = p->call.n * WH_BENCH_SLOTS;
    wh_bench_counts counts;
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    WHI_BENCH_TRY(whi_bench_clear_counts(b));
    WHI_BENCH_TRY(whi_bench_time(p, whole ? k->churn_whole : k->churn, p->call.n, series));
    WHI_BENCH_TRY(whi_bench_launch(p, whole ? k->drain_whole : k->drain, slots));
    WHI_BENCH_TRY(whi_bench_get_counts(b, &counts));
    whi_bench_count(p, &counts, series != NULL);
    return WH_OK;
}

static wh_status repeat(whi_bench_plan *p, uint32_t reps) {
    whi_bench *b = p->b;
    if (p->call.stamp == WH_BENCH_STAMP_CHECK) {
        WHI_BENCH_TRY(once(p, 1, NULL));
    }
    if (!b->on_sim) {
        WHI_BENCH_TRY(once(p, 0, NULL)); /* loads the kernel */
    }
    if (b->options->check == WH_BENCH_CHECK_ENDS) {
        p->call.stamp = WH_BENCH_STAMP_NONE;
    }
    const double start = whi_bench_wall_seconds();
    for (uint32_t i = 0; i < reps && !p->broken; i++) {
        WHI_BENCH_TRY(once(p, 0, &p->mallocs));
        if (whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
    }
    return WH_OK;
}

wh_status whi_bench_churn_run(whi_bench *b, const whi_bench_churn *want) {
    whi_bench_plan p;
    WHI_BENCH_TRY(whi_bench_churn_begin(b, &p, want));
    whi_bench_row row = whi_bench_row_of(&p, whi_bench_phase(b), "churn");
    row.size_min = want->blocks.lo;
    row.ops = want->blocks.n * p.call.steps;
    WHI_BENCH_TRY(whi_bench_floor(&p, b->kernels->floor_single, p.call.n, &row.us_null));
    WHI_BENCH_TRY(repeat(&p, want->reps));
    if (p.broken) {
        whi_bench_close_heap(b);
    }
    return whi_bench_emit(b, &row, &p.mallocs);
}
