/* ledger.c: the host's side of a ledger (bench_kernels.h): blocks of several sizes that
 * stay live over many launches. */
#include <string.h>

#include "bench/driver/internal.h"

static wh_status need_all(whi_bench *b, uint64_t n) {
    whi_bench_ledger *l = &b->ledger;
    void *p = l->victims;
    wh_status s = whi_bench_need(b, &p, &l->victims_room, n, sizeof(void *));
    l->victims = p;
    for (int k = 0; k < 2 && s == WH_OK; k++) {
        p = l->ptrs[k];
        s = whi_bench_need(b, &p, &l->ptrs_room[k], n, sizeof(void *));
        l->ptrs[k] = p;
        if (s == WH_OK) {
            p = l->sizes[k];
            s = whi_bench_need(b, &p, &l->sizes_room[k], n, sizeof(uint32_t));
            l->sizes[k] = p;
        }
    }
    if (s == WH_OK && l->results == NULL) {
        p = NULL;
        s = wh_device_alloc(b->device, &p, sizeof *l->results);
        l->results = p;
        s = s == WH_OK ? s : whi_bench_fail(b, s, "ledger");
    }
    return s;
}

wh_status whi_bench_ledger_open(whi_bench *b, uint64_t n) {
    whi_bench_ledger *l = &b->ledger;
    if (!l->is_open) {
        l->is_open = 1;
        l->set_aside = b->call.ptrs;
    }
    l->n = 0;
    l->patterned = 0;
    l->side = 0;
    const wh_status s = need_all(b, n);
    b->call.ledger = l->results;
    return s;
}

void whi_bench_ledger_close(whi_bench *b) {
    whi_bench_ledger *l = &b->ledger;
    if (l->is_open) {
        b->call.ptrs = l->set_aside;
        b->call.ledger = NULL;
        for (int k = 0; k < 2; k++) {
            (void)wh_device_free(b->device, l->ptrs[k]);
            (void)wh_device_free(b->device, l->sizes[k]);
        }
        (void)wh_device_free(b->device, l->victims);
        (void)wh_device_free(b->device, l->results);
        memset(l, 0, sizeof *l);
    }
}

void whi_bench_ledger_tail(whi_bench *b) {
    const whi_bench_ledger *l = &b->ledger;
    b->call.ptrs = l->ptrs[l->side] + l->n;
    b->call.sizes = l->sizes[l->side] + l->n;
}

/* Points b->call at the first n entries. */
static void select_entries(whi_bench *b, uint64_t n) {
    const whi_bench_ledger *l = &b->ledger;
    b->call.ptrs = l->ptrs[l->side];
    b->call.sizes = l->sizes[l->side];
    b->call.n = n;
}

wh_status whi_bench_ledger_record(whi_bench *b) {
    const wh_status s = whi_bench_launch(b, b->ledger_kernels->record, b->call.n);
    b->ledger.n += b->call.n;
    return s;
}

wh_status whi_bench_ledger_run(whi_bench *b, wh_bench_launcher launcher, uint64_t n) {
    select_entries(b, n);
    return n != 0 ? whi_bench_launch(b, launcher, n * b->call.lanes) : WH_OK;
}

wh_status whi_bench_ledger_thin(whi_bench *b, double keep, uint64_t seed, uint64_t *freed,
                                whi_bench_series *series) {
    whi_bench_ledger *l = &b->ledger;
    const uint32_t other = 1 - l->side;
    wh_bench_ledger results;
    memset(&results, 0, sizeof results);
    b->call.lanes = 1;
    b->call.seed = seed;
    b->call.keep = (uint64_t)(keep * 4294967296.0);
    b->call.kept_ptrs = l->ptrs[other];
    b->call.kept_sizes = l->sizes[other];
    b->call.victims = l->victims;
    wh_status s = wh_device_set(b->device, l->results, 0, sizeof results);
    if (s == WH_OK) {
        s = whi_bench_ledger_run(b, b->ledger_kernels->split, l->n);
    }
    if (s == WH_OK) {
        s = wh_device_copy_out(b->device, &results, l->results, sizeof results);
    }
    if (s != WH_OK) {
        return whi_bench_fail(b, s, "choice of the blocks to free");
    }
    l->patterned = l->patterned == l->n ? results.kept : 0;
    l->n = results.kept;
    l->side = other;
    *freed = results.victims;
    b->call.ptrs = l->victims;
    b->call.n = results.victims;
    if (results.victims != 0) {
        s = series != NULL ? whi_bench_time(b, b->kernels->free_all, results.victims, series)
                           : whi_bench_launch(b, b->kernels->free_all, results.victims);
    }
    return s;
}

wh_status whi_bench_ledger_verify(whi_bench *b, uint32_t what, wh_bench_counts *counts) {
    const wh_bench_ledger_kernels *k = b->ledger_kernels;
    whi_bench_ledger *l = &b->ledger;
    const uint64_t surveyors = b->on_sim ? 256 : 65536;
    b->call.seed = b->seed; /* patterns depend on it */
    select_entries(b, l->n);
    wh_status s = whi_bench_clear_counts(b);
    if (s == WH_OK && l->n != 0) {
        s = whi_bench_launch(b, k->survey, l->n < surveyors ? l->n : surveyors);
    }
    if (s == WH_OK) {
        s = whi_bench_get_counts(b, counts);
    }
    if (s != WH_OK || counts->bad != 0 || !whi_bench_can(b, WH_CAP_DISJOINT)) {
        return s;
    }
    b->call.lanes = whi_bench_lanes(b);
    if ((what & WHI_BENCH_CONTENTS) != 0) {
        b->call.first = l->patterned;
        if (l->n > l->patterned) {
            s = whi_bench_launch(b, k->fill, (l->n - l->patterned) * b->call.lanes);
        }
        l->patterned = l->n;
        if (s == WH_OK) {
            s = whi_bench_ledger_run(b, k->check, l->n);
        }
        if (s == WH_OK) {
            s = whi_bench_get_counts(b, counts);
        }
    }
    if (s == WH_OK && (what & WHI_BENCH_PLACES) != 0 && counts->bad == 0 && counts->served != 0) {
        s = whi_bench_claim(b, k->claim, counts);
        if (s == WH_OK) {
            s = whi_bench_get_counts(b, counts);
        }
    }
    return s;
}

wh_status whi_bench_ledger_end(whi_bench *b, wh_status s, int broken) {
    uint64_t freed = 0;
    if (s == WH_OK && !broken && !whi_bench_can(b, WH_CAP_OWN_MEMORY)) {
        s = whi_bench_ledger_thin(b, 0, b->seed, &freed, NULL);
    }
    whi_bench_close_heap(b);
    whi_bench_ledger_close(b);
    return s;
}
