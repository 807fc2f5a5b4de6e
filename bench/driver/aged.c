/* aged.c: what the cases share that work in one heap round by round: sizes that are log-uniform,
 * how many rounds, their ends, the pages that blocks touch, and that all was given back. */
#include <math.h>
#include <stdlib.h>

#include "bench/driver/internal.h"

#define ENDS 10u /* rounds of each of the two ends, at most */

/* Share of a heap that rounds may use up whose blocks are never free again. */
#define USED_UP 0.9

uint32_t whi_bench_octaves(uint64_t lo, uint64_t hi) {
    return (uint32_t)(log2((double)hi / (double)lo) * 65536);
}

uint64_t whi_bench_log_mean(uint64_t lo, uint64_t hi) {
    return lo == hi ? lo : (uint64_t)((double)(hi - lo) / log((double)hi / (double)lo));
}

uint32_t whi_bench_rounds(const whi_bench *b, uint32_t own, uint64_t heap_bytes, uint64_t first,
                          uint64_t each) {
    const uint32_t wanted = b->options->rounds != 0 ? b->options->rounds : own;
    if (whi_bench_can(b, WH_CAP_FREE) || !whi_bench_can(b, WH_CAP_DISJOINT)) {
        return wanted;
    }
    const double room = USED_UP * (double)heap_bytes - (double)first;
    const double most = room > (double)each ? room / (double)each : 1;
    return most < wanted ? (uint32_t)most : wanted;
}

void whi_bench_add_ends(whi_bench_row *row, const whi_bench_series *series) {
    const uint32_t tenth = (series->n + 9) / 10;
    const uint32_t n = tenth < ENDS ? tenth : ENDS;
    whi_bench_add_value(row, "us_early", whi_bench_median(series->us, n), 1);
    whi_bench_add_value(row, "us_late", whi_bench_median(series->us + series->n - n, n), 1);
}

wh_status whi_bench_pages(whi_bench_ledger *l, whi_bench_plan *p, const wh_bench_counts *seen,
                          uint64_t *pages) {
    whi_bench *b = p->b;
    wh_bench_counts counts;
    void *array = b->arrays.claimed;
    *pages = 0;
    if (seen->served == 0) {
        return WH_OK;
    }
    const uint64_t words = (seen->high - seen->low) / WH_BENCH_PAGE / 32 + 2;
    wh_status s = whi_bench_need(b, &array, &b->arrays.claimed_room, words, sizeof(uint32_t));
    b->arrays.claimed = array;
    WHI_BENCH_TRY(s);
    s = wh_device_set(b->device, array, 0, words * sizeof(uint32_t));
    if (s != WH_OK) {
        return whi_bench_fail(b, s, "pages");
    }
    p->call.ptrs = l->ptrs[l->side];
    p->call.sizes = l->sizes[l->side];
    p->call.n = l->n;
    p->call.claimed = array;
    p->call.claim_base = seen->low / WH_BENCH_PAGE * WH_BENCH_PAGE;
    WHI_BENCH_TRY(whi_bench_clear_counts(b));
    WHI_BENCH_TRY(whi_bench_launch(p, b->heaps_kernels.pages, l->n));
    WHI_BENCH_TRY(whi_bench_get_counts(b, &counts));
    *pages = counts.pages;
    return WH_OK;
}

wh_status whi_bench_expect_empty(whi_bench_plan *p) {
    whi_bench *b = p->b;
    if (!whi_bench_can(b, WH_CAP_FREE | WH_CAP_STATS | WH_CAP_DISJOINT)) {
        return WH_OK;
    }
    wh_stats *stats = calloc(1, sizeof *stats);
    if (stats == NULL) {
        return whi_bench_fail(b, WH_OUT_OF_MEMORY, "statistics");
    }
    const wh_status s = wh_heap_get_stats(b->heap, stats);
    p->mallocs.bad += s == WH_OK && stats->used_bytes != 0 ? 1 : 0;
    free(stats);
    return whi_bench_check(b, s, "statistics");
}
