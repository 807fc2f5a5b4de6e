/* group.c: the host's calls of a group-by (ops.h). */
#include "group.h"

#include <stdlib.h>
#include <string.h>

#include "built_list.h"
#include "host.h"
#include "warpheap/detail/alloc/tables.h"
#include "warpheap/simt.h"

WH_TABLES_OF(whi_group_kernels, whi_group_kernels_find, OPS_CAPS)

#define ALL_AGGREGATES (WH_GROUP_COUNT | WH_GROUP_SUM | WH_GROUP_MIN | WH_GROUP_MAX | WH_GROUP_AVG)

/* One group-by; who calls has it to himself. */
struct wh_group {
    wh_heap *heap;
    whi_heap_place place; /* of the heap, as pages' addresses have it */
    wh_device *device;
    const whi_group_kernels *kernels;
    whi_group g;
    uint64_t most_rows;
    whi_held held;
    void *out[WH_PAGE_COLUMNS]; /* two-pass: of the group-by that was started last */
    void *stream;
    whi_group_state seen; /* what finish has found */
    enum { IDLE, STARTED, STOPPED, DONE } stage;
    uint64_t dropped_rows; /* of pages that are gone, since the start */
};

/* --- create ------------------------------------------------------------------------------------
 */

static wh_status check_options(const wh_group_options *o) {
    if ((unsigned)o->value > WH_GROUP_DOUBLE || (o->aggregates & ~(uint32_t)ALL_AGGREGATES) != 0) {
        return whi_refuse(WH_BAD_ARGUMENT,
                          "wh_group_options: no such type of values, or no such aggregate");
    }
    if (o->value == WH_GROUP_NO_VALUE && (o->aggregates & ~(uint32_t)WH_GROUP_COUNT) != 0) {
        return whi_refuse(WH_BAD_ARGUMENT, "without values there is nothing but a count");
    }
    if (o->key_bytes != 0 && o->key_bytes != 4 && o->key_bytes != 8) {
        return whi_refuse(WH_BAD_ARGUMENT, "a key has 4 or 8 bytes, not %u", o->key_bytes);
    }
    if (o->rows > WH_MOST_ROWS) {
        return whi_refuse(WH_BAD_ARGUMENT, "a table has at most %u rows, not %llu", WH_MOST_ROWS,
                          (unsigned long long)o->rows);
    }
    return WH_OK;
}

static wh_status find_variant(const wh_group_options *o, whi_group *g) {
    const char *name = o->variant != NULL ? o->variant : "adaptive";
    g->is_paper = strcmp(name, "paper") == 0;
    g->is_two_pass = strcmp(name, "two-pass") == 0;
    if (!g->is_paper && !g->is_two_pass && strcmp(name, "adaptive") != 0) {
        return whi_refuse(WH_UNSUPPORTED,
                          "no variant of a group-by is called '%.30s'; there are: adaptive, paper, "
                          "two-pass",
                          name);
    }
    if (g->is_paper && o->aggregates != 0) {
        return whi_refuse(WH_UNSUPPORTED, "paper: groups are lists of rows, without aggregates");
    }
    return WH_OK;
}

static uint32_t value_bytes(wh_group_value kind) {
    if (kind == WH_GROUP_NO_VALUE) {
        return 0;
    }
    return kind == WH_GROUP_INT64 || kind == WH_GROUP_DOUBLE ? 8 : 4;
}

/* A result's columns; as many rows as fit, an even number, so that all columns are aligned. */
static void lay_columns(whi_group *g, uint32_t aggregates) {
    const uint32_t asked[GROUP_COLUMNS] = {
        [GROUP_KEY] = g->key_bytes,
        [GROUP_COUNT] = (aggregates & WH_GROUP_COUNT) != 0 ? 8 : 0,
        [GROUP_SUM] = (aggregates & WH_GROUP_SUM) != 0 ? 8 : 0,
        [GROUP_MIN] = (aggregates & WH_GROUP_MIN) != 0 ? g->value_bytes : 0,
        [GROUP_MAX] = (aggregates & WH_GROUP_MAX) != 0 ? g->value_bytes : 0,
        [GROUP_AVG] = (aggregates & WH_GROUP_AVG) != 0 ? 8 : 0};
    uint32_t width = 0, at = 0;
    for (uint32_t c = 0; c < GROUP_COLUMNS; c++) {
        g->out.column_bytes[c] = asked[c];
        width += asked[c];
    }
    g->out.room = g->page_bytes / width & ~1u;
    for (uint32_t c = 0; c < GROUP_COLUMNS; c++) {
        g->out.column_at[c] = at;
        at += g->out.room * asked[c];
    }
}

static wh_status hold_chains(wh_group *x) {
    whi_group *g = &x->g;
    whi_chains *c = &g->chains;
    const uint64_t fan = (uint64_t)GROUP_KINDS << g->fan_log2;
    c->n_pages = &g->state->n_pages;
    TRY(whi_hold(&x->held, &c->cursor, (uint64_t)GROUP_KINDS * g->strands << g->parts_log2, 8));
    TRY(whi_hold(&x->held, &c->page, c->most, sizeof *c->page));
    TRY(whi_hold(&x->held, &c->ordinal, c->most, 4));
    TRY(whi_hold(&x->held, &c->next, c->most, 4));
    TRY(whi_hold(&x->held, &c->link, c->most, 4 * WHI_LINKS));
    TRY(whi_hold(&x->held, &g->child_cursor, g->shape[1].blocks * fan, 8));
    return whi_hold(&x->held, &g->stack, (uint64_t)g->shape[1].blocks * g->stack_room,
                    sizeof *g->stack);
}

static wh_status hold_two_pass(wh_group *x) {
    whi_group *g = &x->g;
    const uint64_t parts = (uint64_t)1 << g->parts_log2;
    TRY(whi_hold(&x->held, &g->part_key, g->n, g->key_bytes));
    TRY(whi_hold(&x->held, &g->part_value, g->n, g->value_bytes));
    TRY(whi_hold(&x->held, &g->part_first, parts + 1, 4));
    TRY(whi_hold(&x->held, &g->part_groups, parts + 1, 4));
    TRY(whi_hold(&x->held, &g->part_next, parts, 4));
    return whi_hold(&x->held, &g->part_left, g->n / 32 + parts, 4);
}

static wh_status hold_all(wh_group *x) {
    whi_group *g = &x->g;
    TRY(whi_find_heap(x->heap, &x->place));
    TRY(whi_hold(&x->held, &g->state, 1, sizeof *g->state));
    if (g->is_two_pass) {
        return hold_two_pass(x);
    }
    TRY(hold_chains(x));
    TRY(whi_hold(&x->held, &g->stage[0], g->shape[0].blocks, 4));
    TRY(whi_hold(&x->held, &g->stage[1], g->shape[1].blocks, 4));
    const uint64_t saved[2] = {(uint64_t)g->shape[0].blocks * g->shape[0].bytes,
                               (uint64_t)g->shape[1].blocks * g->shape[1].bytes};
    TRY(whi_hold(&x->held, &g->saved, 1, saved[saved[0] < saved[1]]));
    if (g->is_paper) {
        TRY(whi_hold(&x->held, &g->list_key, g->n, g->key_bytes));
        TRY(whi_hold(&x->held, &g->list_last, g->n, 4));
        TRY(whi_hold(&x->held, &g->list_last_rows, g->n, 4));
        return whi_hold(&x->held, &g->list_rows, g->n, 8);
    }
    g->list.n = &g->state->list_pages;
    g->list.n_rows = &g->state->list_rows;
    g->list.room = g->out.room;
    g->list.page_bytes = g->page_bytes;
    return whi_hold_list(&x->held, &g->list, x->place.bytes);
}

/* What rows have to carry, and the result's columns. */
static void ask(whi_group *g, wh_group_value kind, uint32_t aggregates) {
    if (g->is_paper) {
        lay_columns(g, 0);
        return;
    }
    g->needs.count = (aggregates & (WH_GROUP_COUNT | WH_GROUP_AVG)) != 0;
    g->needs.sum = (aggregates & (WH_GROUP_SUM | WH_GROUP_AVG)) != 0;
    g->needs.least = (aggregates & WH_GROUP_MIN) != 0;
    g->needs.most = (aggregates & WH_GROUP_MAX) != 0;
    g->needs.is_float = kind == WH_GROUP_FLOAT || kind == WH_GROUP_DOUBLE;
    g->is_plain =
        g->needs.count && g->needs.sum && !g->needs.least && !g->needs.most && !g->needs.is_float;
    if (aggregates == WH_GROUP_COUNT) {
        g->value_bytes = 0; /* nobody looks at them */
    }
    lay_columns(g, aggregates);
}

static wh_status make(wh_group *x, const wh_group_options *o) {
    whi_group *g = &x->g;
    TRY(check_options(o));
    TRY(find_variant(o, g));
    const char *name = wh_heap_allocator(o->heap)->name;
    TRY(whi_check_allocator(wh_heap_allocator(o->heap)));
    x->heap = o->heap;
    x->device = x->held.device = wh_heap_device(o->heap);
    x->kernels = whi_group_kernels_find(name, wh_device_get_info(x->device)->target);
    if (x->kernels == NULL) {
        return whi_refuse(WH_UNSUPPORTED, "group-bys are not built for %s", name);
    }
    x->most_rows = o->rows;
    g->n = (uint32_t)o->rows;
    g->key_bytes = o->key_bytes != 0 ? o->key_bytes : 4;
    g->value_bytes = value_bytes(o->value);
    g->page_bytes = o->page_bytes != 0 ? o->page_bytes : whi_default_page(x->heap);
    ask(g, o->value, o->aggregates != 0 ? o->aggregates : WH_GROUP_COUNT);
    TRY(whi_check_pages(x->heap, g->page_bytes, g->out.room));
    TRY(x->kernels->size(x->device, g));
    return hold_all(x);
}

static void drop_out(wh_group *x) {
    for (uint32_t c = 0; c < WH_PAGE_COLUMNS; c++) {
        (void)wh_device_free(x->device, x->out[c]);
        x->out[c] = NULL;
    }
}

wh_status wh_group_create_for(wh_group **group, const wh_group_options *options,
                              size_t options_bytes) {
    wh_group_options o;
    whi_forget_error();
    if (group == NULL || options == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *group = NULL;
    TRY(whi_take_struct(&o, sizeof o, options, options_bytes));
    if (o.heap == NULL) {
        return whi_refuse(WH_BAD_ARGUMENT, "wh_group_options: a heap, please");
    }
    wh_group *x = calloc(1, sizeof *x);
    if (x == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    const wh_status s = make(x, &o);
    if (s != WH_OK) {
        whi_let_go(&x->held);
        free(x);
        return s;
    }
    *group = x;
    return WH_OK;
}

/* --- pages -------------------------------------------------------------------------------------
 */

static wh_status check_finished(const wh_group *x) {
    if (x->stage != DONE && x->stage != STOPPED) {
        return whi_refuse(WH_BAD_ARGUMENT, x->stage == IDLE ? "no group-by has been started"
                                                            : "wh_group_finish comes first");
    }
    return WH_OK;
}

static wh_status check_place(const wh_group *x) {
    return x->g.is_two_pass ? WH_OK : whi_check_place(x->heap, &x->place, "group");
}

/* Whether the result is pages. */
static wh_status check_pages(const wh_group *x) {
    if (x->g.is_two_pass) {
        return whi_refuse(WH_UNSUPPORTED, "two-pass: wh_group_columns has the rows already");
    }
    return x->g.is_paper ? whi_refuse(WH_UNSUPPORTED, "`paper` has lists: wh_group_get_lists")
                         : WH_OK;
}

/* Groups of the result, that are still there. */
static uint64_t rows_of(const wh_group *x) {
    return x->g.is_paper ? x->seen.n_lists - x->seen.old_lists : x->seen.list_rows;
}

wh_status wh_group_drop_pages(wh_group *x, void *stream) {
    whi_forget_error();
    if (x == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (x->stage == IDLE) {
        return WH_OK;
    }
    TRY(check_finished(x));
    if (x->g.is_two_pass) {
        return WH_OK;
    }
    TRY(check_place(x));
    TRY(x->kernels->drop(x->heap, stream, &x->g));
    x->dropped_rows += rows_of(x);
    x->seen.list_rows = x->seen.list_pages = 0;
    x->seen.old_lists = x->seen.n_lists;
    return WH_OK;
}

/* Everything that an earlier group-by still has of the heap. */
static wh_status let_go(wh_group *x, void *stream) {
    if (x->stage != IDLE && !x->g.is_two_pass) {
        TRY(x->kernels->drop(x->heap, stream, &x->g));
        TRY(x->kernels->drop_parts(x->heap, stream, &x->g));
    }
    x->stage = IDLE;
    return WH_OK;
}

wh_status wh_group_destroy(wh_group *x) {
    whi_forget_error();
    if (x == NULL) {
        return WH_OK;
    }
    TRY(check_place(x));
    wh_status s = wh_device_sync(x->device);
    s = s == WH_OK ? let_go(x, NULL) : s;
    s = s == WH_OK ? wh_device_sync(x->device) : s;
    drop_out(x);
    whi_let_go(&x->held);
    free(x);
    return s;
}

wh_status wh_group_pages(wh_group *x, wh_pages *pages) {
    whi_forget_error();
    if (x == NULL || pages == NULL) {
        return WH_BAD_ARGUMENT;
    }
    TRY(check_finished(x));
    TRY(check_pages(x));
    TRY(check_place(x));
    *pages = x->g.out;
    pages->page = x->g.list.page;
    pages->rows = x->g.list.rows;
    pages->n_pages = x->seen.list_pages;
    pages->n_rows = x->seen.list_rows;
    return WH_OK;
}

wh_status wh_group_compact(wh_group *x, void *const *columns, void *stream) {
    whi_forget_error();
    if (x == NULL || columns == NULL) {
        return WH_BAD_ARGUMENT;
    }
    TRY(check_finished(x));
    TRY(check_pages(x));
    TRY(check_place(x));
    whi_group g = x->g;
    for (uint32_t c = 0; c < WH_PAGE_COLUMNS; c++) {
        g.columns[c] = g.out.column_bytes[c] != 0 ? columns[c] : NULL;
        TRY(whi_check_column(g.columns[c], g.out.column_bytes[c], c));
    }
    return x->kernels->compact(x->heap, stream, &g);
}

wh_status wh_group_columns(wh_group *x, const void **columns) {
    whi_forget_error();
    if (x == NULL || columns == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (!x->g.is_two_pass) {
        return whi_refuse(WH_UNSUPPORTED, "only `two-pass` has columns");
    }
    TRY(check_finished(x));
    for (uint32_t c = 0; c < WH_PAGE_COLUMNS; c++) {
        columns[c] = x->out[c];
    }
    return WH_OK;
}

wh_status wh_group_get_lists_for(wh_group *x, wh_group_lists *lists, size_t lists_bytes) {
    whi_forget_error();
    if (x == NULL || lists == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (lists_bytes != sizeof *lists) {
        return whi_refuse(WH_WRONG_BUILD, "wh_group_lists has %zu bytes here", sizeof *lists);
    }
    TRY(check_finished(x));
    if (!x->g.is_paper) {
        return whi_refuse(WH_UNSUPPORTED, "only `paper` has lists");
    }
    TRY(check_place(x));
    const whi_group *g = &x->g;
    const whi_group_layout *l = &g->layout[GROUP_RAW];
    const uint64_t first = x->seen.old_lists;
    memset(lists, 0, sizeof *lists);
    lists->n_lists = rows_of(x);
    lists->key = (const unsigned char *)g->list_key + first * g->key_bytes;
    lists->last = g->list_last + first;
    lists->last_rows = g->list_last_rows + first;
    lists->n_rows = g->list_rows + first;
    lists->page = g->chains.page;
    lists->before = g->chains.link;
    lists->stride = WHI_LINKS;
    lists->room = 1u << l->page_log2;
    lists->value_bytes = g->value_bytes;
    lists->key_at = l->key;
    lists->value_at = l->value;
    return WH_OK;
}

wh_status wh_group_rebase(wh_group *x, int64_t moved) {
    whi_forget_error();
    if (x == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (x->stage == STARTED) {
        return whi_refuse(WH_BAD_ARGUMENT, "wh_group_finish comes first");
    }
    whi_group *g = &x->g;
    const whi_page_list old = g->list;
    whi_page_list to;
    whi_heap_place now;
    if (g->is_two_pass) {
        return WH_OK;
    }
    TRY(whi_check_rebase(x->heap, &x->place, moved));
    TRY(whi_find_heap(x->heap, &now));
    if (!g->is_paper) {
        TRY(whi_larger_list(x->device, &old, now.bytes, &to));
        g->list = to;
        whi_hold_list_instead(&x->held, &old, &g->list);
    }
    if (x->stage != IDLE) {
        g->moved = moved;
        g->old_page = old.page;
        g->old_rows = old.rows;
        TRY(x->kernels->rebase(x->heap, NULL, g));
        TRY(wh_device_sync(x->device));
    }
    if (!g->is_paper) {
        whi_free_list(x->device, &old);
    }
    x->place = now;
    return WH_OK;
}

/* --- start -------------------------------------------------------------------------------------
 */

static wh_status check_table(const wh_group *x, const wh_table *t) {
    const whi_group *g = &x->g;
    if (t->n > x->most_rows) {
        return whi_refuse(WH_BAD_ARGUMENT, "the table has %llu rows, and %llu at most were said",
                          (unsigned long long)t->n, (unsigned long long)x->most_rows);
    }
    if (t->n != 0 && (t->key == NULL || (g->value_bytes != 0 && t->value == NULL))) {
        return whi_refuse(WH_BAD_ARGUMENT, "the table has rows, and no %s",
                          t->key == NULL ? "keys" : "values");
    }
    if ((uintptr_t)t->key % g->key_bytes != 0 ||
        (g->value_bytes != 0 && (uintptr_t)t->value % g->value_bytes != 0)) {
        return whi_refuse(WH_BAD_ARGUMENT, "a column of the table is not aligned to its width");
    }
    return WH_OK;
}

static wh_status read_state(wh_group *x) {
    TRY(wh_stream_sync(x->device, x->stream));
    return wh_device_copy_out(x->device, &x->seen, x->g.state, sizeof x->seen);
}

/* Counts the groups, and then writes them to columns that are as long. */
static wh_status run_two_pass(wh_group *x, void *stream) {
    whi_group *g = &x->g;
    x->stream = stream;
    g->is_writing = 0;
    TRY(x->kernels->first_pass(x->heap, stream, g));
    TRY(read_state(x));
    for (uint32_t c = 0; c < WH_PAGE_COLUMNS; c++) {
        if (g->out.column_bytes[c] != 0) {
            TRY(wh_device_alloc(x->device, &x->out[c],
                                x->seen.list_rows * g->out.column_bytes[c] + 8));
        }
        g->columns[c] = x->out[c];
    }
    g->is_writing = 1;
    TRY(x->kernels->second_pass(x->heap, stream, g));
    x->stage = STARTED;
    return WH_OK;
}

/* Starts, or goes on: blocks that are through with a step have nothing left of it. */
static wh_status run(wh_group *x, void *stream) {
    TRY(x->kernels->tiles(x->heap, stream, &x->g));
    TRY(x->kernels->parts(x->heap, stream, &x->g));
    x->stage = STARTED;
    x->stream = stream;
    return WH_OK;
}

wh_status wh_group_start_for(wh_group *x, const wh_table *table, void *stream, size_t table_bytes) {
    wh_table t;
    whi_forget_error();
    if (x == NULL || table == NULL) {
        return WH_BAD_ARGUMENT;
    }
    TRY(whi_take_struct(&t, sizeof t, table, table_bytes));
    TRY(check_table(x, &t));
    TRY(check_place(x));
    if (x->stage == STARTED) { /* on what stream it may be */
        TRY(wh_stream_sync(x->device, x->stream));
    }
    TRY(let_go(x, stream));
    drop_out(x);
    x->g.key = t.key;
    x->g.value = t.value;
    x->g.n = (uint32_t)t.n;
    x->dropped_rows = 0;
    TRY(x->kernels->begin(x->heap, stream, &x->g));
    return x->g.is_two_pass ? run_two_pass(x, stream) : run(x, stream);
}

wh_status wh_group_finish(wh_group *x, wh_group_result *result) {
    whi_forget_error();
    if (x == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (x->stage == IDLE) {
        return whi_refuse(WH_BAD_ARGUMENT, "no group-by has been started");
    }
    if (x->stage == STARTED) {
        const wh_status s = read_state(x);
        if (s != WH_OK) { /* a kernel has failed: nobody knows what there is */
            x->stage = IDLE;
            return s;
        }
        x->stage = x->seen.is_full ? STOPPED : DONE;
    }
    if (result != NULL) {
        memset(result, 0, sizeof *result);
        result->rows = rows_of(x);
        result->all_rows = result->rows + x->dropped_rows;
        result->pages = x->seen.list_pages;
    }
    return x->stage != STOPPED
               ? WH_OK
               : whi_say_full(rows_of(x), (uint64_t)x->g.chains.most * x->g.page_bytes);
}

wh_status wh_group_resume(wh_group *x, void *stream) {
    whi_forget_error();
    if (x == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (x->stage != STOPPED) {
        return whi_refuse(WH_BAD_ARGUMENT, "there is no group-by that has stopped");
    }
    TRY(check_place(x));
    wh_status s = x->kernels->again(x->heap, stream, &x->g);
    s = s == WH_OK ? run(x, stream) : s;
    x->stage = s == WH_DEVICE_ERROR ? IDLE : x->stage; /* as in finish */
    return s;
}
