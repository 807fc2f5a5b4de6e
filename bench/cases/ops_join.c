/* ops_join.c: the case ops-join: joins by every variant of warpheap::ops, on tables whose keys are
 * uniform, repeated or skewed. docs/BENCHMARK.md has the protocol. */
#include <string.h>

#include "bench/cases/ops.h"

#define PAIR_BYTES 12u /* key, both rows */
#define LEAST_ROWS 32u /* of a page: ops.h */
#define CUB_PART 2048u /* rows of a part by CUB: what shared memory takes */

/* --- the operator ----------------------------------------------------------------------------- */

static wh_status start(whi_ops *o) {
    return wh_join_start(o->join, &o->table[0], &o->table[1], NULL);
}

static wh_status finish(whi_ops *o, uint64_t *rows) {
    wh_join_result result;
    memset(&result, 0, sizeof result);
    const wh_status s = wh_join_finish(o->join, &result);
    *rows = result.rows;
    return s;
}

static wh_status resume(whi_ops *o) {
    return wh_join_resume(o->join, NULL);
}

static wh_status look(whi_ops *o, uint64_t rows) {
    if (o->has_columns) {
        const void *columns[3];
        WHI_BENCH_TRY(wh_join_columns(o->join, columns));
        memcpy(o->call.column, columns, sizeof columns);
        o->call.n = rows;
        WHI_BENCH_TRY(whi_ops_launch(o, o->kernels->columns_join));
        memset(o->call.column, 0, sizeof o->call.column);
        return WH_OK;
    }
    WHI_BENCH_TRY(wh_join_pages(o->join, WH_JOIN_MATCHED, &o->call.pages));
    return whi_ops_launch(o, o->kernels->pages_join);
}

static wh_status drop(whi_ops *o) {
    return wh_join_drop_pages(o->join, NULL);
}

static wh_status compact(whi_ops *o) {
    return wh_join_compact(o->join, WH_JOIN_MATCHED, o->call.column, NULL);
}

static wh_ops_launcher columns(const whi_ops *o) {
    return o->has_columns ? NULL : o->kernels->columns_join;
}

static const whi_ops_operator join_operator = {start, finish,  resume,  look,
                                               drop,  compact, columns, {4, 4, 4}};

/* --- tables ----------------------------------------------------------------------------------- */

static wh_status draw(whi_ops *o, wh_ops_draw how, uint32_t side) {
    uint32_t *key = NULL;
    WHI_BENCH_TRY(whi_ops_memory(o, &key, 4 * o->rows));
    o->call.draw = how;
    o->call.n = o->rows;
    o->call.key = key;
    o->call.seed += side;
    WHI_BENCH_TRY(whi_ops_launch(o, o->kernels->draw));
    o->call.table[side] = key;
    o->call.rows[side] = o->rows;
    o->table[side].key = key;
    o->table[side].n = o->rows;
    return WH_OK;
}

wh_status whi_ops_join_tables(whi_ops *o, const whi_ops_tables *t, int has_build) {
    whi_bench *b = o->b;
    const uint64_t keys = o->rows / t->copies;
    o->call.keys = keys != 0 ? keys : 1;
    o->call.exponent = t->exponent;
    o->call.has_build = has_build;
    const uint64_t bytes = 16 * o->call.keys;
    WHI_BENCH_TRY(draw(o, WH_OPS_DEALT, 0));
    WHI_BENCH_TRY(draw(o, t->exponent > 0 ? WH_OPS_ZIPF : WH_OPS_UNIFORM, 1));
    WHI_BENCH_TRY(whi_ops_memory(o, &o->call.tally, bytes));
    WHI_BENCH_TRY(whi_bench_check(b, wh_device_set(b->device, o->call.tally, 0, bytes), "a tally"));
    WHI_BENCH_TRY(whi_ops_launch(o, o->kernels->tally));
    return whi_ops_expect(o, o->kernels->expect_join);
}

/* --- rows ------------------------------------------------------------------------------------- */

static wh_status measure(whi_ops *o, const char *variant, const whi_ops_part *part) {
    int is_open = 0;
    wh_join_options options;
    memset(&options, 0, sizeof options);
    options.heap = o->b->heap;
    options.variant = variant;
    options.build_value = o->call.has_build ? WH_VALUE_ROW : WH_VALUE_NONE;
    options.probe_value = WH_VALUE_ROW;
    options.page_bytes = (uint32_t)o->page_bytes;
    options.build_rows = options.probe_rows = o->rows;
    o->how = &join_operator;
    o->has_columns = strcmp(variant, "two-pass") == 0;
    o->us = 0;
    const wh_status s = wh_join_create(&o->join, &options);
    WHI_BENCH_TRY(whi_ops_created(o, part, s, &is_open));
    if (!is_open) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_ops_measure(o, part));
    wh_join *join = o->join;
    o->join = NULL;
    return whi_bench_check(o->b, wh_join_destroy(join), "the end of a join");
}

wh_status whi_ops_join_row(whi_ops *o, const char *name) {
    const whi_ops_part part = {.op = name, .ops = 2 * o->rows};
    return whi_ops_leave_out(o, name) ? WH_OK : measure(o, name, &part);
}

wh_status whi_ops_join_stage(whi_ops *o, const char *variant, const char *name) {
    const whi_ops_part part = {.op = name, .ops = o->rows, .is_stage = 1};
    if (whi_ops_leave_out(o, name)) {
        return WH_OK;
    }
    o->table[0].n = 0;
    const wh_status s = measure(o, variant, &part);
    o->table[0].n = o->rows;
    return s;
}

static wh_status floor_row(whi_ops *o) {
    const whi_ops_part part = {.op = "floor-cub-sort", .ops = 2 * o->rows};
    wh_bench_ops_cub c;
    memset(&c, 0, sizeof c);
    for (uint32_t k = 0; k < 2; k++) {
        c.key[k] = c.value[k] = o->call.table[k];
        c.n[k] = o->rows;
    }
    for (c.bits = 1; c.bits < 32 && o->rows >> c.bits > CUB_PART; c.bits++) {
    }
    return whi_ops_floor(o, &part, &c, wh_bench_ops_cub_sort);
}

/* --- the case --------------------------------------------------------------------------------- */

static wh_status all_rows(whi_ops *o) {
    static const char *const variants[] = {"paged", "pages", "paper"};
    if (!whi_ops_wants_all(o->b)) {
        return whi_ops_join_row(o, variants[0]);
    }
    WHI_BENCH_TRY(floor_row(o));
    WHI_BENCH_TRY(whi_ops_join_row(o, "two-pass"));
    o->base = "ratio_two_pass";
    o->base_us = o->us;
    for (size_t k = 0; k < sizeof variants / sizeof *variants; k++) {
        WHI_BENCH_TRY(whi_ops_join_row(o, variants[k]));
    }
    o->base_us = 0;
    WHI_BENCH_TRY(whi_ops_join_stage(o, "pages", "pages-partition"));
    o->base = "ratio_pages";
    o->base_us = o->us;
    return whi_ops_join_stage(o, "paged", "paged-partition");
}

static wh_status run(whi_bench *b, const whi_ops_tables *t, uint64_t page_bytes, uint64_t rows) {
    whi_ops o;
    if (b->turn.left_out.size != 0) {
        return WH_OK;
    }
    memset(&o, 0, sizeof o);
    o.input = t->name;
    o.page_bytes = page_bytes;
    o.rows = rows;
    WHI_BENCH_TRY(whi_ops_open_heap(b, b->defaults->ops_bytes, page_bytes));
    wh_status s = whi_ops_begin(b, &o);
    s = s == WH_OK ? whi_ops_join_tables(&o, t, 1) : s;
    s = s == WH_OK ? all_rows(&o) : s;
    whi_ops_end(&o);
    whi_bench_close_heap(b);
    return s;
}

static wh_status all_sizes(whi_bench *b, const whi_ops_tables *t) {
    const uint64_t *own = t->copies >= 100 ? &b->defaults->ops_few_rows : &b->defaults->ops_rows;
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->ops_pages);
    const whi_bench_list rows = whi_bench_threads(b, own);
    for (size_t i = 0; i < sizes.n; i++) {
        const uint64_t page = sizes.v[i];
        for (size_t k = 0; k < rows.n; k++) {
            if (page >= LEAST_ROWS * PAIR_BYTES && whi_ops_serves(b, page)) {
                WHI_BENCH_TRY(run(b, t, page, rows.v[k]));
            }
        }
    }
    return WH_OK;
}

wh_status whi_bench_case_ops_join(whi_bench *b) {
    static const whi_ops_tables tables[] = {{"1-1", 1, 0},
                                            {"out-10", 10, 0},
                                            {"dup-100", 100, 0},
                                            {"zipf-0.5", 1, 0.5},
                                            {"zipf-1.0", 1, 1}};
    if (!whi_bench_can(b, WHI_OPS_CAPS)) {
        return WH_OK;
    }
    b->turn.limits = WHI_BENCH_LONG_CASE_LIMITS;
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) {
        WHI_BENCH_TRY(whi_bench_new_share(b));
        WHI_BENCH_TRY(all_sizes(b, &tables[k]));
    }
    return WH_OK;
}
