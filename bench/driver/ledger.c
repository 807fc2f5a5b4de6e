/* ledger.c: the host's side of a ledger (bench_kernels.h): blocks of several sizes that
 * stay live over many launches. */
#include <string.h>

#include "bench/driver/internal.h"

/* A new array of the ledger; *s keeps the first failure. */
static void *new_array(whi_bench *b, uint64_t n, uint64_t bytes, wh_status *s) {
    void *p = NULL;
    if (*s == WH_OK) {
        *s = wh_device_alloc(b->device, &p, n * bytes);
    }
    return p;
}

wh_status whi_bench_ledger_open(whi_bench *b, whi_bench_ledger *l, uint64_t n) {
    wh_status s = WH_OK;
    memset(l, 0, sizeof *l);
    for (int k = 0; k < 2; k++) {
        l->ptrs[k] = new_array(b, n, sizeof(void *), &s);
        l->sizes[k] = new_array(b, n, sizeof(uint32_t), &s);
    }
    l->victims = new_array(b, n, sizeof(void *), &s);
    l->results = new_array(b, 1, sizeof *l->results, &s);
    return s == WH_OK ? s : whi_bench_fail(b, s, "ledger of %llu entries", (unsigned long long)n);
}

void whi_bench_ledger_close(whi_bench *b, whi_bench_ledger *l) {
    for (int k = 0; k < 2; k++) {
        (void)wh_device_free(b->device, l->ptrs[k]);
        (void)wh_device_free(b->device, l->sizes[k]);
    }
    (void)wh_device_free(b->device, l->victims);
    (void)wh_device_free(b->device, l->results);
    memset(l, 0, sizeof *l);
}

void whi_bench_ledger_tail(whi_bench_ledger *l, whi_bench_plan *p, whi_bench_blocks blocks) {
    whi_bench_aim(p, blocks);
    p->call.ptrs = l->ptrs[l->side] + l->n;
    p->call.sizes = l->sizes[l->side] + l->n;
    p->call.ledger = l->results;
}

/* Points p->call at the first n entries. */
static void select_entries(const whi_bench_ledger *l, whi_bench_plan *p, uint64_t n) {
    p->call.ptrs = l->ptrs[l->side];
    p->call.sizes = l->sizes[l->side];
    p->call.ledger = l->results;
    p->call.n = n;
}

wh_status whi_bench_ledger_record(whi_bench_ledger *l, whi_bench_plan *p) {
    l->n += p->call.n;
    return whi_bench_launch(p, p->b->ledger_kernels->record, p->call.n);
}

/* Goes through all entries: those that stay go to the other pair of arrays. */
static wh_status split(whi_bench_ledger *l, whi_bench_plan *p, wh_bench_ledger *results) {
    whi_bench *b = p->b;
    wh_status s = wh_device_set(b->device, l->results, 0, sizeof *results);
    select_entries(l, p, l->n);
    if (s == WH_OK && l->n != 0) {
        s = whi_bench_launch(p, b->ledger_kernels->split, l->n);
    }
    if (s == WH_OK) {
        s = wh_device_copy_out(b->device, results, l->results, sizeof *results);
    }
    return s == WH_OK ? s : whi_bench_fail(b, s, "choice of the blocks to free");
}

wh_status whi_bench_ledger_thin(whi_bench_ledger *l, whi_bench_plan *p, double keep, uint64_t seed,
                                uint64_t *freed, whi_bench_series *series) {
    const uint32_t other = 1 - l->side;
    wh_bench_ledger results;
    memset(&results, 0, sizeof results);
    p->call.seed = seed;
    p->call.keep = (uint64_t)(keep * 4294967296.0);
    p->call.kept_ptrs = l->ptrs[other];
    p->call.kept_sizes = l->sizes[other];
    p->call.victims = l->victims;
    WHI_BENCH_TRY(split(l, p, &results));
    l->patterned = l->patterned == l->n ? results.kept : 0;
    l->n = results.kept;
    l->side = other;
    *freed = results.victims;
    p->call.ptrs = l->victims;
    p->call.n = results.victims;
    return results.victims != 0
               ? whi_bench_time(p, p->b->kernels->free_all, results.victims, series)
               : WH_OK;
}

wh_status whi_bench_ledger_verify(whi_bench_ledger *l, whi_bench_plan *p, uint32_t what,
                                  wh_bench_counts *counts) {
    whi_bench *b = p->b;
    const wh_bench_ledger_kernels *k = b->ledger_kernels;
    const uint64_t surveyors = b->on_sim ? 256 : 65536;
    p->call.seed = b->seed; /* patterns depend on it */
    select_entries(l, p, l->n);
    WHI_BENCH_TRY(whi_bench_clear_counts(b));
    if (l->n != 0) {
        WHI_BENCH_TRY(whi_bench_launch(p, k->survey, l->n < surveyors ? l->n : surveyors));
    }
    WHI_BENCH_TRY(whi_bench_get_counts(b, counts));
    if (l->n == 0 || counts->bad != 0 || !whi_bench_can(b, WH_CAP_DISJOINT)) {
        return WH_OK;
    }
    p->call.lanes = whi_bench_lanes(p);
    if ((what & WHI_BENCH_CONTENTS) != 0) {
        p->call.first = l->patterned;
        if (l->n > l->patterned) {
            const uint64_t fresh = l->n - l->patterned;
            WHI_BENCH_TRY(whi_bench_launch(p, k->fill, fresh * p->call.lanes));
        }
        l->patterned = l->n;
        WHI_BENCH_TRY(whi_bench_launch(p, k->check, l->n * p->call.lanes));
        WHI_BENCH_TRY(whi_bench_get_counts(b, counts));
    }
    if ((what & WHI_BENCH_PLACES) != 0 && counts->bad == 0 && counts->served != 0) {
        WHI_BENCH_TRY(whi_bench_claim(p, k->claim, counts));
        WHI_BENCH_TRY(whi_bench_get_counts(b, counts));
    }
    return WH_OK;
}

wh_status whi_bench_ledger_end(whi_bench_plan *p, whi_bench_ledger *l, wh_status s) {
    uint64_t freed = 0;
    if (s == WH_OK && !p->broken && !whi_bench_can(p->b, WH_CAP_OWN_MEMORY)) {
        s = whi_bench_ledger_thin(l, p, 0, p->b->seed, &freed, NULL);
    }
    whi_bench_close_heap(p->b);
    whi_bench_ledger_close(p->b, l);
    return s;
}
