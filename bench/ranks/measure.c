/* measure.c: ranks that work alone and together, failures, time. */
#include <string.h>

#include "bench/ranks/ranks.h"

wh_status whi_ranks_note(whi_ranks *b, wh_status status, const char *what) {
    if (status != WH_OK && b->error[0] == '\0') {
        const char *more =
            status == WH_DEVICE_ERROR ? wh_device_error_text(b->device) : wh_last_error_text();
        (void)snprintf(b->error, sizeof b->error, "%s: %s%s%.90s", what, wh_status_text(status),
                       more[0] != '\0' ? ": " : "", more);
    }
    return status;
}

wh_status whi_ranks_agree(whi_ranks *b, wh_status status, const char *what) {
    (void)whi_ranks_note(b, status, what);
    wh_comm_report(b->comm, status, b->error);
    b->error[0] = '\0';
    return wh_comm_agree(b->comm);
}

wh_status whi_ranks_agree_unless(whi_ranks *b, int alone, wh_status status, const char *what) {
    return alone ? whi_ranks_note(b, status, what) : whi_ranks_agree(b, status, what);
}

int whi_ranks_is_over(const whi_ranks *b) {
    return wh_comm_last_failure(b->comm)->reason > WH_COMM_REPORTED;
}

uint64_t whi_ranks_first(const whi_ranks *b, uint64_t n, int rank) {
    return n / (uint64_t)b->size * (uint64_t)rank +
           n % (uint64_t)b->size * (uint64_t)rank / (uint64_t)b->size;
}

wh_status whi_ranks_open_heap(whi_ranks *b, uint64_t wanted, wh_heap **heap) {
    wh_heap_options o;
    const uint64_t least = b->defaults->heap_bytes;
    memset(&o, 0, sizeof o);
    o.device = b->device;
    o.bytes = b->options->heap_bytes;
    if (o.bytes == 0) {
        o.bytes = wanted > least ? wanted : least;
    }
    return wh_heap_create(heap, &o);
}

static double now(void) {
    return whi_bench_wall_seconds() * 1e6;
}

wh_status whi_ranks_begin(whi_ranks *b, whi_ranks_series *series, int alone) {
    if (series->n == 1 && !series->is_warm) {
        memset(series, 0, sizeof *series);
        series->is_warm = 1;
    }
    if (!alone) {
        WHI_BENCH_TRY(wh_comm_agree(b->comm));
    }
    wh_comm_get_stats(b->comm, &series->before);
    series->since = now();
    return WH_OK;
}

void whi_ranks_end(whi_ranks *b, whi_ranks_series *series) {
    wh_comm_stats after;
    series->us[series->n++] = now() - series->since;
    wh_comm_get_stats(b->comm, &after);
    series->sum.calls += after.calls - series->before.calls;
    series->sum.lines += after.lines - series->before.lines;
    series->sum.sent += after.sent - series->before.sent;
    series->sum.reduced += after.reduced - series->before.reduced;
    series->sum.waited += after.waited - series->before.waited;
    series->sum.moved += after.moved - series->before.moved;
}

void whi_ranks_add_phase(whi_ranks_series *series, const char *name, double seconds) {
    uint32_t i = 0;
    while (i < series->n_phases && strcmp(series->phase_name[i], name) != 0) {
        i++;
    }
    if (i < WHI_RANKS_MOST_PHASES) {
        series->n_phases = i == series->n_phases ? i + 1 : series->n_phases;
        series->phase_name[i] = name;
        series->phase[i] += seconds;
    }
}

wh_status whi_ranks_sum(whi_ranks *b, uint64_t *n, uint64_t count) {
    return wh_comm_all_reduce(b->comm, n, count, WH_COMM_U64, WH_COMM_SUM);
}

wh_status whi_ranks_compare(whi_ranks *b, uint64_t number, uint64_t *differs) {
    uint64_t least = number, most = number;
    WHI_BENCH_TRY(wh_comm_all_reduce(b->comm, &least, 1, WH_COMM_U64, WH_COMM_MIN));
    WHI_BENCH_TRY(wh_comm_all_reduce(b->comm, &most, 1, WH_COMM_U64, WH_COMM_MAX));
    *differs = least != most;
    return WH_OK;
}

wh_status whi_ranks_compare_words(whi_ranks *b, const void *all, const void *one, uint64_t n,
                                  uint64_t *bad) {
    uint64_t hash = 14695981039346656037u, differs = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t word = 0;
        memcpy(&word, (const uint32_t *)all + i, sizeof word);
        hash = (hash ^ word) * 1099511628211u;
        *bad += b->rank == 0 && memcmp((const uint32_t *)one + i, &word, sizeof word) != 0;
    }
    WHI_BENCH_TRY(whi_ranks_compare(b, hash, &differs));
    *bad += b->rank == 0 && differs != 0;
    return WH_OK;
}
