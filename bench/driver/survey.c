/* survey.c: what the cases repeat, latency, access and work share. */
#include "bench/driver/internal.h"

/* The user's thread counts, or else a list that 0 ends. */
static whi_bench_list threads_of(const whi_bench *b, const uint64_t *own) {
    whi_bench_list l = {b->options->threads, b->options->n_threads};
    if (l.n == 0) {
        l.v = own;
        while (own[l.n] != 0) {
            l.n++;
        }
    }
    return l;
}

static wh_status run_one(whi_bench *b, const whi_bench_survey *s, whi_bench_blocks blocks) {
    whi_bench_plan p;
    whi_bench_progress(b, blocks.hi, blocks.n);
    WHI_BENCH_TRY(whi_bench_begin(b, &p, b->heap_bytes, blocks));
    const wh_status status = s->run(&p);
    if (p.broken) {
        whi_bench_close_heap(b);
    }
    return status;
}

wh_status whi_bench_survey_run(whi_bench *b, const whi_bench_survey *s) {
    const whi_bench_list sizes = whi_bench_sizes(b, s->sizes);
    const whi_bench_list threads = threads_of(b, s->threads);
    for (size_t i = 0; i < sizes.n; i++) {
        const uint64_t hi = sizes.v[i];
        const uint64_t lo = s->least != 0 ? s->least : hi;
        for (size_t k = 0; k < threads.n; k++) {
            const uint64_t n = whi_bench_fitting(b, threads.v[k], (lo + hi + 1) / 2);
            const whi_bench_part part = {
                .op = s->op, .size_min = lo != hi ? lo : 0, .size = hi, .threads = n};
            if (n == 0 || hi > b->alloc->max_size || (s->least != 0 && hi <= lo) ||
                whi_bench_leave_out(b, part)) {
                continue;
            }
            WHI_BENCH_TRY(run_one(b, s, (whi_bench_blocks){n, lo, hi}));
        }
    }
    return WH_OK;
}

wh_bench_launcher whi_bench_malloc_of(const whi_bench_plan *p) {
    const wh_bench_kernels *k = p->b->kernels;
    return p->call.lo != p->call.hi ? k->malloc_mixed : k->malloc_single;
}

wh_bench_launcher whi_bench_malloc_floor_of(const whi_bench_plan *p) {
    const wh_bench_kernels *k = p->b->kernels;
    return p->call.lo != p->call.hi ? k->floor_mixed : k->floor_single;
}

wh_status whi_bench_renew(whi_bench_plan *p) {
    whi_bench *b = p->b;
    if (whi_bench_can(b, WH_CAP_FREE)) {
        return whi_bench_launch(p, b->kernels->free_all, p->call.n);
    }
    return whi_bench_can(b, WH_CAP_RESET) ? whi_bench_reset_heap(b) : whi_bench_new_heap(p);
}
