/* case_tables.c: the cases join and group: tables of n rows, of which each rank brings a part, in
 * the memory of its device. The one-device figure is that of the same rows by warpheap::ops. Every
 * rank draws the whole tables, so that it can look at each row of its result: sums of both are what
 * the tables must come to.
 *
 * Keys of a join: the first table has each of n once, in a random order; those of the second one
 * are uniform or by Zipf. Values are rows' numbers. small-build: the first table has n / 64 keys,
 * and the second one n rows of them. Keys of a group-by: n / 64 of them. */
#include <stdlib.h>
#include <string.h>

#include "bench/kernels/ops_data.h"
#include "bench/ranks/ranks.h"
#include "built_list.h"
#include "workload/ranks/tables.h"

WH_TABLES_ONCE(wh_ops_data_kernels, wh_ops_data_find)

#define ROWS_A_GROUP 64u
#define SMALLER 64u /* than the second table, the first one of small-build */
#define HEAP_BYTES_A_ROW 48u
#define EXPONENT 1.0
#define KEPT 8u
#define GRID 1024u /* blocks of a kernel that takes any number of threads */
#define GRID_SIM 2u
#define BLOCK 256u

typedef struct tables {
    const wh_ops_data_kernels *kernels;
    int is_group;
    uint64_t n, n_build;
    void *kept[KEPT]; /* device memory */
    size_t n_kept;
    wh_heap *heap;
    wh_ops_call call; /* all of it that the tables determine */
    wh_table whole[2];
    wh_table own[2]; /* this rank's part, or all of it */
    wh_join *join;   /* on one device */
    wh_group *group;
    wh_shard_join *shard_join; /* on all ranks */
    wh_shard_group *shard_group;
} tables;

/* What the tables must come to, and what they have come to. */
typedef struct outcome {
    whi_ranks_series series;
    wh_ops_sums sums;
    wh_shard_work work; /* of the last run, on all ranks */
} outcome;

/* --- tables ---------------------------------------------------------------------------------- */

static wh_status launch(whi_ranks *b, tables *t, wh_ops_launcher launcher) {
    const wh_launch l = wh_grid(b->device, b->on_sim ? GRID_SIM : GRID, BLOCK);
    return launcher(&l, &t->call);
}

/* p: a pointer to a pointer. */
static wh_status take(whi_ranks *b, tables *t, void *p, uint64_t bytes) {
    void *memory = NULL;
    WHI_BENCH_TRY(wh_device_alloc(b->device, &memory, bytes));
    t->kept[t->n_kept++] = memory;
    memcpy(p, &memory, sizeof memory);
    return wh_device_set(b->device, memory, 0, bytes);
}

static wh_status take_numbers(whi_ranks *b, tables *t, uint32_t **numbers) {
    uint32_t *host = malloc(t->n * sizeof *host);
    if (host == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    for (uint64_t i = 0; i < t->n; i++) {
        host[i] = (uint32_t)i;
    }
    wh_status s = take(b, t, numbers, t->n * sizeof *host);
    s = s == WH_OK ? wh_device_copy_in(b->device, *numbers, host, t->n * sizeof *host) : s;
    free(host);
    return s;
}

static wh_status draw(whi_ranks *b, tables *t, wh_ops_draw how, int side) {
    uint32_t *key = NULL;
    const uint64_t n = !t->is_group && side == 0 ? t->n_build : t->n;
    WHI_BENCH_TRY(take(b, t, &key, 4 * n));
    t->call.draw = how;
    t->call.n = n;
    t->call.key = key;
    t->call.seed = b->options->seed + (uint64_t)side;
    WHI_BENCH_TRY(launch(b, t, t->kernels->draw));
    t->call.table[side] = key;
    t->call.rows[side] = n;
    t->whole[side].key = key;
    t->whole[side].n = n;
    return WH_OK;
}

static wh_status draw_join(whi_ranks *b, tables *t, wh_ops_draw how) {
    uint32_t *numbers = NULL;
    t->call.keys = t->n_build;
    t->call.has_build = 1;
    WHI_BENCH_TRY(draw(b, t, WH_OPS_DEALT, 0));
    WHI_BENCH_TRY(draw(b, t, how, 1));
    WHI_BENCH_TRY(take_numbers(b, t, &numbers));
    t->whole[0].value = t->whole[1].value = numbers;
    return WH_OK;
}

static wh_status draw_group(whi_ranks *b, tables *t, wh_ops_draw how) {
    t->call.keys = t->n / ROWS_A_GROUP + 1;
    WHI_BENCH_TRY(draw(b, t, how, 0));
    WHI_BENCH_TRY(take(b, t, &t->call.value, 4 * t->n));
    WHI_BENCH_TRY(launch(b, t, t->kernels->values));
    t->whole[0].value = t->call.value;
    return WH_OK;
}

/* The tables, the sums, a heap. */
static wh_status open_tables(whi_ranks *b, tables *t, wh_ops_draw how) {
    t->kernels = wh_ops_data_find(b->info->target);
    t->call.exponent = EXPONENT;
    WHI_BENCH_TRY(take(b, t, &t->call.sums, sizeof *t->call.sums));
    WHI_BENCH_TRY(t->is_group ? draw_group(b, t, how) : draw_join(b, t, how));
    WHI_BENCH_TRY(whi_ranks_open_heap(b, t->n * HEAP_BYTES_A_ROW, &t->heap));
    return wh_device_sync(b->device);
}

/* Also after a failure. */
static void close_tables(whi_ranks *b, tables *t) {
    if (!whi_ranks_is_over(b)) {
        for (size_t i = 0; i < t->n_kept; i++) {
            (void)wh_device_free(b->device, t->kept[i]);
        }
        (void)wh_heap_destroy(t->heap);
    }
}

/* The sums of what the kernel looks at are added to *sums. */
static wh_status add_up(whi_ranks *b, tables *t, wh_ops_launcher launcher, wh_ops_sums *sums) {
    wh_ops_sums own;
    WHI_BENCH_TRY(wh_device_set(b->device, t->call.sums, 0, sizeof own));
    WHI_BENCH_TRY(launch(b, t, launcher));
    WHI_BENCH_TRY(wh_device_copy_out(b->device, &own, t->call.sums, sizeof own));
    sums->rows += own.rows;
    sums->sum += own.sum;
    sums->bad += own.bad;
    return WH_OK;
}

static wh_status expect(whi_ranks *b, tables *t, wh_ops_sums *sums) {
    if (t->is_group) {
        WHI_BENCH_TRY(take(b, t, &t->call.seen, (t->call.keys + 31) / 32 * 4));
        t->call.n = t->n;
        return add_up(b, t, t->kernels->expect_group, sums);
    }
    WHI_BENCH_TRY(take(b, t, &t->call.tally, 16 * t->call.keys));
    WHI_BENCH_TRY(launch(b, t, t->kernels->tally));
    return add_up(b, t, t->kernels->expect_join, sums);
}

/* --- one device ------------------------------------------------------------------------------ */

static wh_status create_one(tables *t) {
    wh_join_options join;
    wh_group_options group;
    memset(&join, 0, sizeof join);
    memset(&group, 0, sizeof group);
    join.heap = group.heap = t->heap;
    join.build_value = join.probe_value = WH_VALUE_4;
    join.build_rows = t->n_build;
    join.probe_rows = group.rows = t->n;
    group.value = WH_GROUP_INT32;
    group.aggregates = WH_GROUP_COUNT | WH_GROUP_SUM;
    return t->is_group ? wh_group_create(&t->group, &group) : wh_join_create(&t->join, &join);
}

static wh_status run_one(tables *t) {
    if (t->is_group) {
        WHI_BENCH_TRY(wh_group_start(t->group, &t->own[0], NULL));
        return wh_group_finish(t->group, NULL);
    }
    WHI_BENCH_TRY(wh_join_start(t->join, &t->own[0], &t->own[1], NULL));
    return wh_join_finish(t->join, NULL);
}

static wh_status look_at_one(whi_ranks *b, tables *t, wh_ops_sums *sums) {
    if (t->is_group) {
        WHI_BENCH_TRY(wh_group_pages(t->group, &t->call.pages));
        return add_up(b, t, t->kernels->pages_group, sums);
    }
    WHI_BENCH_TRY(wh_join_pages(t->join, WH_JOIN_MATCHED, &t->call.pages));
    return add_up(b, t, t->kernels->pages_join, sums);
}

static wh_status repeat_one(whi_ranks *b, tables *t, outcome *o) {
    WHI_BENCH_TRY(create_one(t));
    for (uint32_t i = 0; i <= b->reps; i++) { /* the first one is not timed */
        WHI_BENCH_TRY(whi_ranks_begin(b, &o->series, 1));
        WHI_BENCH_TRY(run_one(t));
        whi_ranks_end(b, &o->series);
    }
    return look_at_one(b, t, &o->sums);
}

/* On rank 0, and what is to be expected. */
static wh_status alone(whi_ranks *b, tables *t, outcome *o, wh_ops_sums *expected) {
    memcpy(t->own, t->whole, sizeof t->own);
    wh_status s = expect(b, t, expected);
    s = s == WH_OK ? repeat_one(b, t, o) : s;
    (void)whi_ranks_note(b, s, t->is_group ? "a group-by" : "a join");
    (void)wh_join_destroy(t->join);
    (void)wh_group_destroy(t->group);
    return s;
}

/* --- all ranks ------------------------------------------------------------------------------- */

static wh_status create_all(whi_ranks *b, tables *t) {
    wh_shard_join_options join;
    wh_shard_group_options group;
    memset(&join, 0, sizeof join);
    memset(&group, 0, sizeof group);
    join.comm = group.comm = b->comm;
    join.heap = group.heap = t->heap;
    join.build_value = join.probe_value = WH_VALUE_4;
    join.build_rows = group.rows = t->own[0].n;
    join.probe_rows = t->own[1].n;
    group.value = WH_GROUP_INT32;
    group.aggregates = WH_GROUP_COUNT | WH_GROUP_SUM;
    return t->is_group ? wh_shard_group_create(&t->shard_group, &group)
                       : wh_shard_join_create(&t->shard_join, &join);
}

static wh_status run_all(tables *t, wh_shard_work *work) {
    const wh_status s = t->is_group
                            ? wh_shard_group_run(t->shard_group, &t->own[0], NULL)
                            : wh_shard_join_run(t->shard_join, &t->own[0], &t->own[1], NULL);
    if (t->is_group) {
        wh_shard_group_get_work(t->shard_group, work);
    } else {
        wh_shard_join_get_work(t->shard_join, work);
    }
    return s;
}

static wh_status look_at_all(whi_ranks *b, tables *t, wh_ops_sums *sums) {
    for (uint32_t list = 0; t->is_group && list < WH_SHARD_LISTS; list++) {
        WHI_BENCH_TRY(wh_shard_group_pages(t->shard_group, list, &t->call.pages));
        WHI_BENCH_TRY(add_up(b, t, t->kernels->pages_group, sums));
    }
    if (!t->is_group) {
        wh_join *own = wh_shard_join_local(t->shard_join);
        WHI_BENCH_TRY(wh_join_pages(own, WH_JOIN_MATCHED, &t->call.pages));
        WHI_BENCH_TRY(add_up(b, t, t->kernels->pages_join, sums));
    }
    return WH_OK;
}

static wh_status repeat_all(whi_ranks *b, tables *t, outcome *o) {
    wh_shard_work *w = &o->work;
    WHI_BENCH_TRY(create_all(b, t));
    for (uint32_t i = 0; i <= b->reps; i++) { /* the first one is not timed */
        WHI_BENCH_TRY(whi_ranks_begin(b, &o->series, 0));
        WHI_BENCH_TRY(run_all(t, w));
        whi_ranks_end(b, &o->series);
        whi_ranks_add_phase(&o->series, "sample", w->sample);
        whi_ranks_add_phase(&o->series, "partition", w->partition);
        whi_ranks_add_phase(&o->series, "exchange", w->exchange);
        whi_ranks_add_phase(&o->series, "operate", w->operate);
    }
    WHI_BENCH_TRY(whi_ranks_agree(b, look_at_all(b, t, &o->sums), "the result"));
    uint64_t sums[3] = {o->sums.rows, o->sums.sum, o->sums.bad};
    WHI_BENCH_TRY(whi_ranks_sum(b, sums, 3));
    o->sums = (wh_ops_sums){sums[0], sums[1], sums[2]};
    return WH_OK;
}

static wh_status together(whi_ranks *b, tables *t, outcome *o) {
    for (int side = 0; side < (t->is_group ? 1 : 2); side++) {
        const uint64_t n = t->whole[side].n, first = whi_ranks_first(b, n, b->rank);
        t->own[side].key = (const uint32_t *)t->whole[side].key + first;
        t->own[side].value = (const uint32_t *)t->whole[side].value + first;
        t->own[side].n = whi_ranks_first(b, n, b->rank + 1) - first;
    }
    const wh_status s = repeat_all(b, t, o);
    if (!whi_ranks_is_over(b)) {
        (void)wh_shard_join_destroy(t->shard_join);
        (void)wh_shard_group_destroy(t->shard_group);
    }
    return s;
}

/* --- rows ------------------------------------------------------------------------------------ */

static int differ(const wh_ops_sums *a, const wh_ops_sums *expected) {
    return a->rows != expected->rows || a->sum != expected->sum || a->bad != 0;
}

static wh_status emit(whi_ranks *b, const outcome *one, const outcome *all,
                      const wh_ops_sums *expected) {
    whi_ranks_row row;
    memset(&row, 0, sizeof row);
    row.series = &all->series;
    row.one = &one->series;
    row.bad = b->rank == 0 && differ(&all->sums, expected);
    row.bad += b->rank == 0 && differ(&one->sums, expected);
    const wh_shard_work *w = &all->work;
    const double mean = (double)w->all_rows / b->size;
    const double uneven = w->all_rows != 0 ? (double)w->most_rows / mean : 0;
    row.values[row.n_values++] = (whi_bench_value){"rows", (double)all->sums.rows, 0};
    row.values[row.n_values++] = (whi_bench_value){"heavy", (double)w->heavy, 0};
    row.values[row.n_values++] = (whi_bench_value){"most_of_mean", uneven, 3};
    return whi_ranks_emit(b, &row);
}

static wh_status part(whi_ranks *b, uint64_t n_build, wh_ops_draw how, int is_group) {
    outcome one, all;
    wh_ops_sums expected;
    tables t;
    memset(&one, 0, sizeof one);
    memset(&all, 0, sizeof all);
    memset(&expected, 0, sizeof expected);
    memset(&t, 0, sizeof t);
    t.n = b->part.n;
    t.n_build = n_build;
    t.is_group = is_group;
    wh_status s = whi_ranks_agree(b, open_tables(b, &t, how), "tables");
    if (s == WH_OK) {
        s = whi_ranks_agree(b, b->rank == 0 ? alone(b, &t, &one, &expected) : WH_OK, "one device");
    }
    s = s == WH_OK ? together(b, &t, &all) : s;
    close_tables(b, &t);
    return s == WH_OK ? emit(b, &one, &all, &expected) : s;
}

static wh_status run(whi_ranks *b, int is_group) {
    const whi_ranks_options *o = b->options;
    static const struct {
        const char *op, *name; /* op NULL: that of the case */
        wh_ops_draw how;
    } inputs[] = {{NULL, "uniform", WH_OPS_UNIFORM},
                  {NULL, "zipf-1.0", WH_OPS_ZIPF},
                  {"small-build", "uniform", WH_OPS_UNIFORM}}; /* of a join alone */
    for (size_t k = 0; k < (is_group ? 2 : 3); k++) {
        for (size_t i = 0; i < (o->n_rows != 0 ? o->n_rows : 1); i++) {
            const uint64_t n = o->n_rows != 0 ? o->rows[i] : b->defaults->rows;
            const uint64_t n_build = inputs[k].op == NULL ? n : n / SMALLER + 1;
            b->part.op = inputs[k].op == NULL ? b->case_name : inputs[k].op;
            b->part.input = inputs[k].name;
            b->part.n = n;
            WHI_BENCH_TRY(whi_ranks_end_part(b, part(b, n_build, inputs[k].how, is_group)));
        }
    }
    return WH_OK;
}

wh_status whi_ranks_case_join(whi_ranks *b) {
    return run(b, 0);
}

wh_status whi_ranks_case_group(whi_ranks *b) {
    return run(b, 1);
}
