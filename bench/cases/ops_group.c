/* ops_group.c: the case ops-group: group-bys by warpheap::ops, of uniform and of skewed keys, and
 * of any number of groups: one more than a power of two must cost what the power costs.
 * docs/BENCHMARK.md has the protocol. */
#include <string.h>

#include "bench/cases/ops.h"

#define GROUP_BYTES 20u /* key, COUNT, SUM */
#define LEAST_ROWS 32u  /* of a page: ops.h */

/* --- the operator ----------------------------------------------------------------------------- */

static wh_status start(whi_ops *o) {
    return wh_group_start(o->group, &o->table[0], NULL);
}

static wh_status finish(whi_ops *o, uint64_t *rows) {
    wh_group_result result;
    memset(&result, 0, sizeof result);
    const wh_status s = wh_group_finish(o->group, &result);
    *rows = result.rows;
    return s;
}

static wh_status resume(whi_ops *o) {
    return wh_group_resume(o->group, NULL);
}

static wh_status look(whi_ops *o, uint64_t rows) {
    if (o->has_columns) {
        const void *columns[WH_PAGE_COLUMNS];
        WHI_BENCH_TRY(wh_group_columns(o->group, columns));
        memcpy(o->call.column, columns, sizeof o->call.column);
        o->call.n = rows;
        WHI_BENCH_TRY(whi_ops_launch(o, o->kernels->columns_group));
        memset(o->call.column, 0, sizeof o->call.column);
        return WH_OK;
    }
    if (o->is_paper) {
        WHI_BENCH_TRY(wh_group_get_lists(o->group, &o->call.lists));
        return whi_ops_launch(o, o->kernels->lists_group);
    }
    WHI_BENCH_TRY(wh_group_pages(o->group, &o->call.pages));
    return whi_ops_launch(o, o->kernels->pages_group);
}

static wh_status drop(whi_ops *o) {
    return wh_group_drop_pages(o->group, NULL);
}

static wh_status compact(whi_ops *o) {
    return wh_group_compact(o->group, o->call.column, NULL);
}

static wh_ops_launcher columns(const whi_ops *o) {
    return o->is_paper || o->has_columns ? NULL : o->kernels->columns_group;
}

static const whi_ops_operator group_operator = {start, finish,  resume,  look,
                                                drop,  compact, columns, {4, 8, 8}};

/* --- tables ----------------------------------------------------------------------------------- */

/* Beside the sums: keys, values. */
static wh_status table_memory(whi_ops *o, int has_values) {
    WHI_BENCH_TRY(whi_ops_memory(o, &o->call.key, 4 * o->rows));
    o->table[0].key = o->call.key;
    o->table[0].n = o->rows;
    if (!has_values) {
        return WH_OK;
    }
    o->call.n = o->rows;
    WHI_BENCH_TRY(whi_ops_memory(o, &o->call.value, 4 * o->rows));
    o->table[0].value = o->call.value;
    return whi_ops_launch(o, o->kernels->values);
}

wh_status whi_ops_group_table(whi_ops *o, wh_ops_draw draw, uint64_t keys, int has_values) {
    whi_bench *b = o->b;
    const uint64_t bytes = (keys + 31) / 32 * 4;
    if (o->call.key == NULL) {
        WHI_BENCH_TRY(table_memory(o, has_values));
    }
    const size_t kept = o->n_kept;
    o->call.draw = draw;
    o->call.keys = keys;
    o->call.n = o->rows;
    WHI_BENCH_TRY(whi_ops_launch(o, o->kernels->draw));
    WHI_BENCH_TRY(whi_ops_memory(o, &o->call.seen, bytes));
    WHI_BENCH_TRY(whi_bench_check(b, wh_device_set(b->device, o->call.seen, 0, bytes), "keys"));
    WHI_BENCH_TRY(whi_ops_expect(o, o->kernels->expect_group));
    whi_ops_forget(o, kept);
    return WH_OK;
}

/* --- rows ------------------------------------------------------------------------------------- */

static wh_status open_group(whi_ops *o, const char *variant) {
    wh_group_options options;
    memset(&options, 0, sizeof options);
    options.heap = o->b->heap;
    options.variant = variant;
    options.value = o->call.value != NULL ? WH_GROUP_INT32 : WH_GROUP_NO_VALUE;
    options.aggregates = o->is_paper ? 0 : WH_GROUP_COUNT | WH_GROUP_SUM;
    options.page_bytes = (uint32_t)o->page_bytes;
    options.rows = o->rows;
    return wh_group_create(&o->group, &options);
}

wh_status whi_ops_group_row(whi_ops *o, const char *name) {
    const whi_ops_part part = {.op = name, .ops = o->rows};
    int is_open = 0;
    if (whi_ops_leave_out(o, name)) {
        return WH_OK;
    }
    o->how = &group_operator;
    o->is_paper = strcmp(name, "paper") == 0;
    o->has_columns = strcmp(name, "two-pass") == 0;
    o->us = 0;
    WHI_BENCH_TRY(whi_ops_created(o, &part, open_group(o, name), &is_open));
    if (!is_open) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_ops_measure(o, &part));
    wh_group *group = o->group;
    o->group = NULL;
    return whi_bench_check(o->b, wh_group_destroy(group), "the end of a group-by");
}

static wh_status floor_row(whi_ops *o, const char *name, uint32_t bits) {
    const whi_ops_part part = {.op = name, .ops = o->rows};
    wh_bench_ops_cub c;
    memset(&c, 0, sizeof c);
    c.key[0] = o->call.key;
    c.value[0] = o->call.value;
    c.n[0] = o->rows;
    c.bits = bits;
    return whi_ops_floor(o, &part, &c, wh_bench_ops_cub_group);
}

/* --- the case --------------------------------------------------------------------------------- */

static uint32_t bits_of(uint64_t keys) {
    uint32_t bits = 1;
    while (bits < 32 && keys > (uint64_t)1 << bits) {
        bits++;
    }
    return bits;
}

/* A table of so many keys: "uniform", "zipf-1.0", or uniform ones of the sweep. */
static wh_status make_table(whi_ops *o, const char *kind, uint64_t keys) {
    const int is_zipf = strcmp(kind, "zipf-1.0") == 0;
    (void)snprintf(o->text, sizeof o->text, "%s-%llu", kind, (unsigned long long)keys);
    o->input = o->text;
    o->call.exponent = is_zipf ? 1 : 0;
    o->base_us = 0;
    return whi_ops_group_table(o, is_zipf ? WH_OPS_ZIPF : WH_OPS_UNIFORM, keys, 1);
}

static wh_status rows_of(whi_ops *o, const char *kind, uint64_t keys) {
    WHI_BENCH_TRY(make_table(o, kind, keys));
    if (whi_ops_wants_all(o->b)) {
        WHI_BENCH_TRY(floor_row(o, "floor-cub-sort", bits_of(keys)));
        WHI_BENCH_TRY(floor_row(o, "floor-cub-sort-32", 32));
        o->base = "ratio_cub_32";
        o->base_us = o->us;
        WHI_BENCH_TRY(whi_ops_group_row(o, "two-pass"));
    }
    return whi_ops_group_row(o, "adaptive");
}

static wh_status all_groups(whi_ops *o, const char *kind) {
    const uint64_t *keys = o->b->defaults->ops_groups;
    for (size_t k = 0; keys[k] != 0 && o->b->turn.left_out.size == 0; k++) {
        WHI_BENCH_TRY(rows_of(o, kind, keys[k]));
    }
    return WH_OK;
}

/* 2^k groups, and one more. */
static wh_status sweep(whi_ops *o, const char *kind) {
    for (uint32_t k = 0; k <= o->b->defaults->ops_sweep && o->b->turn.left_out.size == 0; k++) {
        const uint64_t power = (uint64_t)1 << k;
        WHI_BENCH_TRY(make_table(o, kind, power));
        WHI_BENCH_TRY(whi_ops_group_row(o, "adaptive"));
        if (k != 0) { /* 1 + 1 is the next power */
            WHI_BENCH_TRY(make_table(o, kind, power + 1));
            o->base = "ratio_power";
            o->base_us = o->us;
            WHI_BENCH_TRY(whi_ops_group_row(o, "adaptive"));
        }
    }
    return WH_OK;
}

typedef struct part {
    const char *kind;
    wh_status (*run)(whi_ops *o, const char *kind);
} part;

static wh_status run(whi_bench *b, const part *p, uint64_t page_bytes, uint64_t rows) {
    whi_ops o;
    if (b->turn.left_out.size != 0) {
        return WH_OK;
    }
    memset(&o, 0, sizeof o);
    o.page_bytes = page_bytes;
    o.rows = rows;
    WHI_BENCH_TRY(whi_ops_open_heap(b, b->defaults->ops_bytes, page_bytes));
    wh_status s = whi_ops_begin(b, &o);
    s = s == WH_OK ? p->run(&o, p->kind) : s;
    whi_ops_end(&o);
    whi_bench_close_heap(b);
    return s;
}

static wh_status all_sizes(whi_bench *b, const part *p) {
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->ops_pages);
    const whi_bench_list rows = whi_bench_threads(b, &b->defaults->ops_rows);
    for (size_t i = 0; i < sizes.n; i++) {
        const uint64_t page = sizes.v[i];
        for (size_t k = 0; k < rows.n; k++) {
            if (page >= LEAST_ROWS * GROUP_BYTES && whi_ops_serves(b, page)) {
                WHI_BENCH_TRY(run(b, p, page, rows.v[k]));
            }
        }
    }
    return WH_OK;
}

wh_status whi_bench_case_ops_group(whi_bench *b) {
    static const part parts[] = {
        {"uniform", all_groups}, {"zipf-1.0", all_groups}, {"sweep", sweep}};
    if (!whi_bench_can(b, WHI_OPS_CAPS)) {
        return WH_OK;
    }
    b->turn.limits = WHI_BENCH_LONG_CASE_LIMITS;
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        WHI_BENCH_TRY(whi_bench_new_share(b));
        if (parts[k].run != sweep || whi_ops_wants_all(b)) {
            WHI_BENCH_TRY(all_sizes(b, &parts[k]));
        }
    }
    return WH_OK;
}
