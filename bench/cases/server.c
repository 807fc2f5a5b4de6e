/* server.c: the case server: an aged heap. Each thread keeps 16 live blocks of log-uniform sizes;
 * in a round, one launch, it frees one of them at random and allocates another.
 * docs/BENCHMARK.md has the protocol. */
#include <string.h>

#include "bench/driver/internal.h"

typedef struct server_state {
    whi_bench_plan p; /* its series: of the fill, then of the rounds */
    whi_bench_ledger ledger;
    uint64_t bytes, n, lo, hi;
    uint32_t rounds;
} server_state;

/* Aims at n threads, or entries. */
static void aim(server_state *s, uint64_t n) {
    whi_bench *b = s->p.b;
    whi_bench_aim(&s->p, (whi_bench_blocks){n, s->lo, s->hi});
    s->p.call.ptrs = s->ledger.ptrs[s->ledger.side];
    s->p.call.sizes = s->ledger.sizes[s->ledger.side];
    s->p.call.octaves = whi_bench_octaves(s->lo, s->hi);
    s->p.call.stamp =
        whi_bench_can(b, WH_CAP_DISJOINT) ? WH_BENCH_STAMP_CHECK : WH_BENCH_STAMP_TOUCH;
}

/* All blocks, by their addresses. */
static wh_status look(server_state *s, int timed, wh_bench_counts *counts) {
    WHI_BENCH_TRY(whi_bench_ledger_verify(&s->ledger, &s->p, WHI_BENCH_PLACES, counts));
    whi_bench_count(&s->p, counts, timed);
    return WH_OK;
}

/* --- the fill -------------------------------------------------------------------------------- */

static wh_status fill(server_state *s) {
    whi_bench *b = s->p.b;
    const uint64_t entries = s->n * WH_BENCH_LIVE;
    wh_bench_counts counts;
    aim(s, entries);
    whi_bench_row row = whi_bench_row_of(&s->p, whi_bench_phase(b), "fill");
    row.threads = s->n;
    WHI_BENCH_TRY(whi_bench_floor(&s->p, b->heaps_kernels.floor_log, entries, &row.us_null));
    WHI_BENCH_TRY(whi_bench_load(&s->p, b->heaps_kernels.malloc_log));
    WHI_BENCH_TRY(whi_bench_time(&s->p, b->heaps_kernels.malloc_log, entries, &s->p.mallocs));
    WHI_BENCH_TRY(whi_bench_launch(&s->p, b->heaps_kernels.record_log, entries));
    s->ledger.n = entries;
    WHI_BENCH_TRY(look(s, 1, &counts));
    if (!s->p.broken) {
        aim(s, entries);
        WHI_BENCH_TRY(whi_bench_launch(&s->p, b->heaps_kernels.tag, entries));
    }
    return whi_bench_emit(b, &row, &s->p.mallocs);
}

/* --- the rounds ------------------------------------------------------------------------------ */

/* A bad block is seen in its round; the next one does not begin. */
static wh_status one_round(server_state *s, uint32_t number) {
    whi_bench *b = s->p.b;
    wh_bench_counts counts;
    aim(s, s->n);
    s->p.call.round = number;
    WHI_BENCH_TRY(whi_bench_clear_counts(b));
    WHI_BENCH_TRY(whi_bench_time(&s->p, b->heaps_kernels.server_round, s->n, &s->p.mallocs));
    WHI_BENCH_TRY(whi_bench_get_counts(b, &counts));
    whi_bench_count(&s->p, &counts, 1);
    return WH_OK;
}

/* What the rounds left: tags, places, pages. */
static wh_status inspect(server_state *s, whi_bench_row *row) {
    whi_bench *b = s->p.b;
    wh_bench_counts counts;
    uint64_t pages = 0;
    aim(s, s->ledger.n);
    WHI_BENCH_TRY(whi_bench_clear_counts(b));
    WHI_BENCH_TRY(whi_bench_launch(&s->p, b->heaps_kernels.check, s->ledger.n));
    WHI_BENCH_TRY(whi_bench_get_counts(b, &counts));
    whi_bench_count(&s->p, &counts, 0);
    WHI_BENCH_TRY(look(s, 0, &counts));
    if (counts.requested != 0) {
        aim(s, s->ledger.n);
        WHI_BENCH_TRY(whi_bench_pages(&s->ledger, &s->p, &counts, &pages));
        whi_bench_add_value(row, "live_bytes", (double)counts.requested, 0);
        whi_bench_add_value(row, "touched",
                            (double)(pages * WH_BENCH_PAGE) / (double)counts.requested, 3);
    }
    return WH_OK;
}

/* Each thread frees all its blocks: after that nothing may be in use. */
static wh_status give_back(server_state *s) {
    whi_bench *b = s->p.b;
    if (s->p.broken || !whi_bench_can(b, WH_CAP_FREE)) {
        return WH_OK;
    }
    aim(s, s->ledger.n);
    WHI_BENCH_TRY(whi_bench_launch(&s->p, b->kernels->free_all, s->ledger.n));
    s->ledger.n = 0;
    return whi_bench_expect_empty(&s->p);
}

static wh_status rounds(server_state *s) {
    whi_bench *b = s->p.b;
    const double start = whi_bench_wall_seconds();
    aim(s, s->n);
    whi_bench_row row = whi_bench_row_of(&s->p, "warm", "round");
    memset(&s->p.mallocs, 0, sizeof s->p.mallocs);
    WHI_BENCH_TRY(whi_bench_load(&s->p, b->heaps_kernels.server_round));
    for (uint32_t i = 1; i <= s->rounds && !s->p.broken; i++) {
        if (i > 1 && whi_bench_over(b, start, WHI_BENCH_CASE_LIMITS)) {
            break;
        }
        WHI_BENCH_TRY(one_round(s, i));
    }
    whi_bench_add_ends(&row, &s->p.mallocs);
    WHI_BENCH_TRY(inspect(s, &row));
    WHI_BENCH_TRY(give_back(s));
    aim(s, s->n); /* its floor writes to the pointers of blocks, which are free now */
    WHI_BENCH_TRY(whi_bench_floor(&s->p, b->heaps_kernels.floor_round, s->n, &row.us_null));
    return whi_bench_emit(b, &row, &s->p.mallocs);
}

/* --- the case -------------------------------------------------------------------------------- */

static wh_status fill_and_rounds(server_state *s) {
    whi_bench *b = s->p.b;
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    WHI_BENCH_TRY(whi_bench_ledger_open(b, &s->ledger, s->n * WH_BENCH_LIVE));
    WHI_BENCH_TRY(fill(s));
    return s->p.broken ? WH_OK : rounds(s);
}

static wh_status run(whi_bench *b, uint64_t n, uint64_t hi) {
    server_state s;
    memset(&s, 0, sizeof s);
    s.lo = whi_bench_least(hi);
    s.hi = hi;
    s.n = n;
    s.bytes = b->heap_bytes;
    const uint64_t mean = whi_bench_log_mean(s.lo, hi);
    s.rounds = whi_bench_rounds(b, b->defaults->server_rounds, s.bytes, n * WH_BENCH_LIVE * mean,
                                n * mean);
    whi_bench_progress(b, hi, n);
    WHI_BENCH_TRY(whi_bench_begin(b, &s.p, s.bytes, (whi_bench_blocks){0, s.lo, hi}));
    const wh_status status = fill_and_rounds(&s);
    return whi_bench_ledger_end(&s.p, &s.ledger, status);
}

wh_status whi_bench_case_server(whi_bench *b) {
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->server);
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->server_threads);
    const uint64_t bytes = whi_bench_case_heap(b, b->defaults->server_bytes);
    b->heap_bytes = bytes; /* the threads are cut to it */
    b->turn.limits = WHI_BENCH_LONG_CASE_LIMITS;
    for (size_t i = 0; i < sizes.n; i++) {
        const uint64_t hi = sizes.v[i];
        const uint64_t lo = whi_bench_least(hi);
        for (size_t k = 0; k < threads.n && hi > 16; k++) {
            const uint64_t held = WH_BENCH_LIVE * whi_bench_log_mean(lo, hi);
            const uint64_t n = whi_bench_fitting(b, threads.v[k], held);
            const whi_bench_part part = {.size_min = lo, .size = hi, .threads = n};
            if (n == 0 || hi > b->alloc->max_size || whi_bench_leave_out(b, part)) {
                continue;
            }
            WHI_BENCH_TRY(run(b, n, hi));
        }
    }
    return WH_OK;
}
