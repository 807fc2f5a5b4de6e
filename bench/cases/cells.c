/* cells.c: the case cells: lists of cells whose lengths change in every step, and the largest block
 * that the heap still gives when nearly all of it is free. docs/BENCHMARK.md has the protocol. */
#include <string.h>

#include "bench/driver/internal.h"

/* The longest list: 600 words, or now and then 16 times as many. */
#define LIST_BYTES ((uint64_t)600 * 16 * 4)
#define LIST_MEAN ((uint64_t)1500)

typedef struct cells_state {
    whi_bench_plan p;
    whi_bench_ledger ledger;
    uint64_t bytes, cells;
    uint32_t steps;
    uint64_t fresh;   /* the largest block before the first step */
    uint64_t largest; /* and after the last */
} cells_state;

static void aim(cells_state *c) {
    whi_bench_aim(&c->p, (whi_bench_blocks){c->cells, 4, LIST_BYTES});
    c->p.call.ptrs = c->ledger.ptrs[c->ledger.side];
    c->p.call.sizes = c->ledger.sizes[c->ledger.side];
    c->p.call.stamp =
        whi_bench_can(c->p.b, WH_CAP_DISJOINT) ? WH_BENCH_STAMP_CHECK : WH_BENCH_STAMP_TOUCH;
}

static whi_bench_part part_of(const cells_state *c) {
    return (whi_bench_part){.size_min = 4, .size = LIST_BYTES, .threads = c->cells};
}

/* Allocators that do not free, or whose blocks overlap, are not asked. */
static wh_status search(cells_state *c, uint64_t *largest) {
    const whi_bench_part part = part_of(c);
    if (!whi_bench_can(c->p.b, WH_CAP_FREE | WH_CAP_DISJOINT)) {
        return WH_OK;
    }
    return whi_bench_largest(&c->p, &c->ledger, c->bytes, &part, largest);
}

static wh_status one_step(cells_state *c, uint32_t number) {
    whi_bench *b = c->p.b;
    wh_bench_counts counts;
    aim(c);
    c->p.call.round = number;
    WHI_BENCH_TRY(whi_bench_clear_counts(b));
    WHI_BENCH_TRY(whi_bench_time(&c->p, b->heaps_kernels.cells, c->cells, &c->p.mallocs));
    WHI_BENCH_TRY(whi_bench_get_counts(b, &counts));
    whi_bench_count(&c->p, &counts, 1);
    return WH_OK;
}

/* Lists at the end, and the largest block among them. */
static wh_status inspect(cells_state *c, whi_bench_row *row) {
    whi_bench *b = c->p.b;
    wh_bench_counts counts;
    aim(c);
    WHI_BENCH_TRY(whi_bench_clear_counts(b));
    WHI_BENCH_TRY(whi_bench_launch(&c->p, b->heaps_kernels.check, c->cells));
    WHI_BENCH_TRY(whi_bench_get_counts(b, &counts));
    whi_bench_count(&c->p, &counts, 0);
    c->ledger.n = c->cells;
    WHI_BENCH_TRY(whi_bench_ledger_verify(&c->ledger, &c->p, WHI_BENCH_PLACES, &counts));
    whi_bench_count(&c->p, &counts, 0);
    whi_bench_add_value(row, "live_bytes", (double)counts.requested, 0);
    if (c->p.broken) {
        return WH_OK;
    }
    WHI_BENCH_TRY(search(c, &c->largest));
    if (b->turn.left_out.size == 0 && whi_bench_can(b, WH_CAP_FREE | WH_CAP_DISJOINT)) {
        const double free_bytes = (double)c->bytes - (double)counts.requested;
        whi_bench_add_value(row, "largest", (double)c->largest, 0);
        whi_bench_add_value(row, "largest_of_free", (double)c->largest / free_bytes, 3);
        whi_bench_add_value(row, "largest_fresh", (double)c->fresh, 0);
    }
    return WH_OK;
}

static wh_status give_back(cells_state *c) {
    whi_bench *b = c->p.b;
    if (c->p.broken || !whi_bench_can(b, WH_CAP_FREE)) {
        return WH_OK;
    }
    aim(c);
    WHI_BENCH_TRY(whi_bench_launch(&c->p, b->kernels->free_all, c->cells));
    c->ledger.n = 0;
    return whi_bench_expect_empty(&c->p);
}

static wh_status all_steps(cells_state *c) {
    whi_bench *b = c->p.b;
    const double start = whi_bench_wall_seconds();
    const uint64_t room = c->cells + 1;
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    WHI_BENCH_TRY(whi_bench_ledger_open(b, &c->ledger, room));
    WHI_BENCH_TRY(search(c, &c->fresh));
    aim(c);
    whi_bench_row row = whi_bench_row_of(&c->p, whi_bench_phase(b), "step");
    WHI_BENCH_TRY(whi_bench_floor(&c->p, b->kernels->floor_mixed, c->cells, &row.us_null));
    const wh_status s = wh_device_set(b->device, c->p.call.ptrs, 0, room * sizeof(void *));
    WHI_BENCH_TRY(whi_bench_check(b, s, "lists"));
    WHI_BENCH_TRY(whi_bench_load(&c->p, b->heaps_kernels.cells));
    for (uint32_t i = 1; i <= c->steps && !c->p.broken; i++) {
        if (i > 1 && whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
        WHI_BENCH_TRY(one_step(c, i));
    }
    whi_bench_add_ends(&row, &c->p.mallocs);
    WHI_BENCH_TRY(inspect(c, &row));
    WHI_BENCH_TRY(give_back(c));
    return whi_bench_emit(b, &row, &c->p.mallocs);
}

wh_status whi_bench_case_cells(whi_bench *b) {
    const whi_bench_list cells = whi_bench_threads(b, &b->defaults->cells);
    const uint64_t bytes = whi_bench_case_heap(b, b->defaults->cells_bytes);
    b->heap_bytes = bytes;
    for (size_t i = 0; i < cells.n && b->alloc->max_size >= LIST_BYTES; i++) {
        cells_state c;
        memset(&c, 0, sizeof c);
        c.bytes = bytes;
        c.cells = whi_bench_fitting(b, cells.v[i], LIST_MEAN);
        if (c.cells == 0 || LIST_BYTES > bytes || whi_bench_leave_out(b, part_of(&c))) {
            continue;
        }
        c.steps = whi_bench_rounds(b, b->defaults->cells_steps, bytes, 0, c.cells * LIST_MEAN);
        whi_bench_progress(b, LIST_BYTES, c.cells);
        WHI_BENCH_TRY(whi_bench_begin(b, &c.p, bytes, (whi_bench_blocks){0, 4, LIST_BYTES}));
        const wh_status s = all_steps(&c);
        WHI_BENCH_TRY(whi_bench_ledger_end(&c.p, &c.ledger, s));
    }
    return WH_OK;
}
