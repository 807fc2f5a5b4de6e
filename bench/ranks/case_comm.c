/* case_comm.c: the case comm: what the communicator itself costs. An agreement; and data in the
 * memory of devices, of each rank an equal part for every rank, its own included. Each word says
 * whose it is and for whom, so that what has come can be looked at. */
#include <stdlib.h>
#include <string.h>

#include "bench/ranks/ranks.h"

#define FACTOR 4u

static wh_status agreements(whi_ranks *b) {
    whi_ranks_series series;
    whi_ranks_row row;
    const uint32_t n = b->defaults->agreements;
    memset(&series, 0, sizeof series);
    memset(&row, 0, sizeof row);
    b->part.op = "agree";
    b->part.n = 1;
    for (uint32_t i = 0; i <= b->reps; i++) {
        WHI_BENCH_TRY(whi_ranks_begin(b, &series, 0));
        for (uint32_t k = 0; k < n; k++) {
            WHI_BENCH_TRY(wh_comm_agree(b->comm));
        }
        whi_ranks_end(b, &series);
    }
    row.series = &series;
    row.per_call = n;
    row.per_rank = 1;
    return whi_ranks_emit(b, &row);
}

static uint64_t word_of(int from, int to, uint64_t i) {
    return (uint64_t)from << 56 | (uint64_t)to << 48 | i;
}

typedef struct exchange {
    whi_ranks_series series;
    uint64_t words;  /* for each rank */
    uint64_t *host;  /* what this rank sends; then what has come */
    void *data;      /* device memory */
    uint64_t *bytes; /* of each rank */
    wh_comm_buffer came;
    uint64_t bad;
} exchange;

static wh_status prepare(whi_ranks *b, exchange *x) {
    const uint64_t size = (uint64_t)b->size, all = size * x->words;
    x->host = malloc(all * sizeof *x->host);
    x->bytes = malloc(size * sizeof *x->bytes);
    if (x->host == NULL || x->bytes == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    for (uint64_t r = 0; r < size; r++) {
        x->bytes[r] = x->words * 8;
        for (uint64_t i = 0; i < x->words; i++) {
            x->host[r * x->words + i] = word_of(b->rank, (int)r, i);
        }
    }
    x->came.device = b->device;
    WHI_BENCH_TRY(wh_device_alloc(b->device, &x->data, all * 8));
    return wh_device_copy_in(b->device, x->data, x->host, all * 8);
}

static wh_status look(whi_ranks *b, exchange *x) {
    const uint64_t all = (uint64_t)b->size * x->words;
    if (x->came.offset[b->size] != all * 8) {
        x->bad = 1;
        return WH_OK;
    }
    WHI_BENCH_TRY(wh_device_copy_out(b->device, x->host, x->came.data, all * 8));
    for (uint64_t i = 0; i < all; i++) {
        x->bad += x->host[i] != word_of((int)(i / x->words), b->rank, i % x->words);
    }
    return WH_OK;
}

static wh_status repeat(whi_ranks *b, exchange *x) {
    WHI_BENCH_TRY(whi_ranks_agree(b, prepare(b, x), "data to send"));
    for (uint32_t i = 0; i <= b->reps; i++) {
        WHI_BENCH_TRY(whi_ranks_begin(b, &x->series, 0));
        WHI_BENCH_TRY(wh_comm_all_to_all(b->comm, x->data, x->bytes, &x->came));
        whi_ranks_end(b, &x->series);
    }
    WHI_BENCH_TRY(whi_ranks_agree(b, look(b, x), "data that came"));
    whi_ranks_row row;
    memset(&row, 0, sizeof row);
    row.series = &x->series;
    row.size = x->words * 8 * (uint64_t)b->size;
    row.bad = x->bad;
    return whi_ranks_emit(b, &row);
}

static wh_status all_to_all(whi_ranks *b, uint64_t bytes) {
    exchange x;
    memset(&x, 0, sizeof x);
    x.words = bytes / 8 / (uint64_t)b->size;
    x.words = x.words != 0 ? x.words : 1;
    b->part.op = "all-to-all";
    b->part.n = x.words * 8 * (uint64_t)b->size * (uint64_t)b->size;
    const wh_status s = repeat(b, &x);
    if (!whi_ranks_is_over(b)) {
        (void)wh_device_free(b->device, x.data);
        wh_comm_buffer_free(&x.came);
        free(x.host);
        free(x.bytes);
    }
    return s;
}

wh_status whi_ranks_case_comm(whi_ranks *b) {
    const uint64_t most =
        b->options->most_bytes != 0 ? b->options->most_bytes : b->defaults->most_bytes;
    WHI_BENCH_TRY(whi_ranks_end_part(b, agreements(b)));
    for (uint64_t bytes = WHI_RANKS_LEAST_BYTES; bytes <= most; bytes *= FACTOR) {
        WHI_BENCH_TRY(whi_ranks_end_part(b, all_to_all(b, bytes)));
    }
    return WH_OK;
}
