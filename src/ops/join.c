/* join.c: the host's calls of a join (ops.h). */
#include "join.h"

#include <stdlib.h>
#include <string.h>

#include "built_list.h"
#include "host.h"
#include "warpheap/detail/alloc/tables.h"
#include "warpheap/simt.h"

WH_TABLES_OF(whi_join_kernels, whi_join_kernels_find, OPS_CAPS)

typedef enum variant { PAGED, PAGES, PAPER, TWO_PASS, N_VARIANTS } variant;
static const char *const variant_names[N_VARIANTS] = {"paged", "pages", "paper", "two-pass"};

/* One join; who calls has it to himself. */
struct wh_join {
    wh_heap *heap;
    whi_heap_place place; /* of the heap, as pages' addresses have it */
    wh_device *device;
    const whi_join_kernels *kernels;
    variant how;
    whi_join j;
    wh_table table[2];
    uint64_t most_rows[2];
    whi_held held;
    void *first_pass, *out[3]; /* two-pass: of the join that was started last */
    void *stream;
    whi_join_state seen; /* what finish has found */
    enum { IDLE, STARTED, STOPPED, DONE } stage;
    uint64_t dropped_rows; /* of pages that are gone, since the start */
};

/* --- create ------------------------------------------------------------------------------------
 */

static uint32_t value_bytes(wh_value_kind kind) {
    static const uint32_t bytes[] = {0, 4, 8, 4};
    return bytes[kind];
}

static wh_status check_kinds(const wh_join_options *o) {
    if ((unsigned)o->kind > WH_JOIN_COUNT || (unsigned)o->build_value > WH_VALUE_ROW ||
        (unsigned)o->probe_value > WH_VALUE_ROW) {
        return whi_refuse(WH_BAD_ARGUMENT, "wh_join_options: no such kind of a join or a value");
    }
    if (o->key_bytes != 0 && o->key_bytes != 4 && o->key_bytes != 8) {
        return whi_refuse(WH_BAD_ARGUMENT, "a key has 4 or 8 bytes, not %u", o->key_bytes);
    }
    if (o->build_rows > WH_MOST_ROWS || o->probe_rows > WH_MOST_ROWS) {
        return whi_refuse(WH_BAD_ARGUMENT, "a table has at most %u rows, not %llu and %llu",
                          WH_MOST_ROWS, (unsigned long long)o->build_rows,
                          (unsigned long long)o->probe_rows);
    }
    return WH_OK;
}

static wh_status find_variant(const char *name, wh_join_kind kind, variant *how) {
    uint32_t k = 0;
    while (k < N_VARIANTS && name != NULL && strcmp(name, variant_names[k]) != 0) {
        k++;
    }
    if (k == N_VARIANTS) {
        return whi_refuse(WH_UNSUPPORTED,
                          "no variant of a join is called '%.30s'; there are: paged, pages, "
                          "paper, two-pass",
                          name);
    }
    if (k == TWO_PASS && kind != WH_JOIN_INNER && kind != WH_JOIN_COUNT) {
        return whi_refuse(WH_UNSUPPORTED, "two-pass joins are inner joins, or count");
    }
    *how = (variant)k;
    return WH_OK;
}

/* A page's columns, each aligned to its width: the widest come first if there are some of 8. */
static void lay_columns(whi_join *j) {
    wh_pages *s = &j->shape;
    uint32_t width = 0, at = 0;
    s->column_bytes[0] = j->key_bytes;
    s->column_bytes[1] =
        j->kind == WH_JOIN_SEMI || j->kind == WH_JOIN_ANTI ? 0 : value_bytes(j->side[0].kind);
    s->column_bytes[2] = value_bytes(j->side[1].kind);
    for (uint32_t c = 0; c < 3; c++) {
        width += s->column_bytes[c];
    }
    s->room = j->page_bytes / width & ~1u; /* even, so that all columns are aligned */
    for (uint32_t c = 0; c < 3; c++) {
        s->column_at[c] = at;
        at += s->room * s->column_bytes[c];
    }
}

/* n entries of some bytes, of the device, until the join is destroyed. */
static wh_status hold(wh_join *x, void *p, uint64_t n, uint64_t bytes) {
    return whi_hold(&x->held, p, n, bytes);
}

static wh_status hold_parts(wh_join *x, whi_parts *s) {
    const whi_join *j = &x->j;
    const uint64_t parts = (uint64_t)1 << (s->skip + s->log2);
    const uint64_t words = (((uint64_t)1 << s->log2) + 31) / 32;
    TRY(hold(x, &s->cursor, parts, 8));
    TRY(hold(x, &s->first, parts + 1, 4));
    TRY(hold(x, &s->first_tile, parts + 1, 8));
    TRY(hold(x, &s->rows, parts, 4));
    TRY(hold(x, &s->next_tile, j->part_blocks, 4));
    TRY(hold(x, &s->placed, j->part_blocks * words, 4));
    if (!j->is_paged) {
        return hold(x, &s->memory, s->most, s->page_bytes);
    }
    TRY(hold(x, &s->page, s->most, sizeof *s->page));
    TRY(hold(x, &s->part, s->most, 4));
    TRY(hold(x, &s->ordinal, s->most, 4));
    return hold(x, &s->order, s->most, 4);
}

static wh_status hold_all(wh_join *x) {
    whi_join *j = &x->j;
    const uint64_t parts = (uint64_t)1 << j->parts_log2;
    const int has_lists = x->how != TWO_PASS && j->kind != WH_JOIN_COUNT;
    TRY(whi_find_heap(x->heap, &x->place));
    TRY(hold(x, &j->state, 1, sizeof *j->state));
    for (uint32_t k = 0; k < 2 * j->levels; k++) {
        whi_parts *s = &j->side[k % 2].level[k / 2];
        s->n_pages = &j->state->n_pages[k % 2][k / 2];
        TRY(hold_parts(x, s));
    }
    TRY(hold(x, &j->first_unit, parts + 1, 8));
    TRY(hold(x, &j->units_left, parts, 8));
    TRY(hold(x, &j->stops, j->blocks, sizeof *j->stops));
    TRY(hold(x, &j->lanes, (uint64_t)j->blocks * j->threads, 8));
    TRY(hold(x, &j->saved, j->blocks, j->saved_bytes));
    for (uint32_t k = 0; k < WH_JOIN_LISTS; k++) {
        whi_page_list *l = &j->list[k];
        l->room = j->shape.room;
        l->page_bytes = j->page_bytes;
        l->by_thread = j->by_thread;
        l->n = &j->state->list_pages[k];
        l->n_rows = &j->state->list_rows[k];
        if (has_lists && (k == WH_JOIN_MATCHED || j->kind == WH_JOIN_LEFT)) {
            TRY(whi_hold_list(&x->held, l, x->place.bytes));
        }
    }
    return WH_OK;
}

static wh_status make(wh_join *x, const wh_join_options *o) {
    whi_join *j = &x->j;
    const wh_allocator_info *info = wh_heap_allocator(o->heap);
    TRY(check_kinds(o));
    TRY(find_variant(o->variant, o->kind, &x->how));
    TRY(whi_check_allocator(info));
    x->heap = o->heap;
    x->device = x->held.device = wh_heap_device(o->heap);
    x->kernels = whi_join_kernels_find(info->name, wh_device_get_info(x->device)->target);
    if (x->kernels == NULL) {
        return whi_refuse(WH_UNSUPPORTED, "joins are not built for %s", info->name);
    }
    x->most_rows[0] = o->build_rows;
    x->most_rows[1] = o->probe_rows;
    j->kind = o->kind;
    j->key_bytes = o->key_bytes != 0 ? o->key_bytes : 4;
    j->side[0].kind = o->build_value;
    j->side[1].kind = o->probe_value;
    j->side[0].n = (uint32_t)o->build_rows;
    j->side[1].n = (uint32_t)o->probe_rows;
    j->is_paged = x->how == PAGED;
    j->by_thread = x->how == PAPER;
    j->page_bytes = o->page_bytes != 0 ? o->page_bytes : whi_default_page(x->heap);
    lay_columns(j);
    TRY(whi_check_pages(x->heap, j->page_bytes, j->shape.room));
    const uint32_t page = j->page_bytes / (j->key_bytes + 4);
    while (2u << j->part_page_log2 <= page && j->part_page_log2 < 14) {
        j->part_page_log2++;
    }
    TRY(x->kernels->size(x->device, j));
    return hold_all(x);
}

static void drop_out(wh_join *x) {
    (void)wh_device_free(x->device, x->first_pass);
    x->first_pass = NULL;
    for (uint32_t c = 0; c < 3; c++) {
        (void)wh_device_free(x->device, x->out[c]);
        x->out[c] = NULL;
    }
}

static void drop(wh_join *x) {
    if (x->device != NULL) {
        drop_out(x);
    }
    whi_let_go(&x->held);
    free(x);
}

wh_status wh_join_create_for(wh_join **join, const wh_join_options *options, size_t options_bytes) {
    wh_join_options o;
    whi_forget_error();
    if (join == NULL || options == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *join = NULL;
    TRY(whi_take_struct(&o, sizeof o, options, options_bytes));
    if (o.heap == NULL) {
        return whi_refuse(WH_BAD_ARGUMENT, "wh_join_options: a heap, please");
    }
    wh_join *x = calloc(1, sizeof *x);
    if (x == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    const wh_status s = make(x, &o);
    if (s != WH_OK) {
        drop(x);
        return s;
    }
    *join = x;
    return WH_OK;
}

/* --- pages -------------------------------------------------------------------------------------
 */

static int has_pages(const wh_join *x, uint32_t list) {
    return list < WH_JOIN_LISTS && x->j.list[list].page != NULL;
}

static wh_status check_place(const wh_join *x) {
    return x->how == TWO_PASS ? WH_OK : whi_check_place(x->heap, &x->place, "join");
}

static wh_status drop_pages(wh_join *x, void *stream) {
    for (uint32_t k = 0; k < WH_JOIN_LISTS; k++) {
        if (has_pages(x, k)) {
            x->j.which = k;
            TRY(x->kernels->drop(x->heap, stream, &x->j));
        }
    }
    return WH_OK;
}

wh_status wh_join_drop_pages(wh_join *x, void *stream) {
    whi_forget_error();
    if (x == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (x->stage == STARTED) {
        return whi_refuse(WH_BAD_ARGUMENT, "wh_join_finish comes first");
    }
    if (x->stage == IDLE) {
        return WH_OK;
    }
    TRY(check_place(x));
    TRY(drop_pages(x, stream));
    for (uint32_t k = 0; k < WH_JOIN_LISTS; k++) {
        x->dropped_rows += x->seen.list_rows[k];
        x->seen.list_rows[k] = x->seen.list_pages[k] = 0;
    }
    return WH_OK;
}

/* Everything that an earlier join still has of the heap. */
static wh_status let_go(wh_join *x, void *stream) {
    if (x->stage == IDLE) {
        return WH_OK;
    }
    TRY(drop_pages(x, stream));
    if (x->j.is_paged) {
        TRY(x->kernels->again(x->heap, stream, &x->j));
        TRY(x->kernels->drop_parts(x->heap, stream, &x->j));
    }
    x->stage = IDLE;
    return WH_OK;
}

wh_status wh_join_destroy(wh_join *x) {
    whi_forget_error();
    if (x == NULL) {
        return WH_OK;
    }
    TRY(check_place(x));
    wh_status s = wh_device_sync(x->device);
    s = s == WH_OK ? let_go(x, NULL) : s;
    s = s == WH_OK ? wh_device_sync(x->device) : s;
    drop(x);
    return s;
}

wh_status wh_join_pages(wh_join *x, uint32_t list, wh_pages *pages) {
    whi_forget_error();
    if (x == NULL || pages == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (!has_pages(x, list) || (x->stage != DONE && x->stage != STOPPED)) {
        return whi_refuse(WH_BAD_ARGUMENT, "there is no list %u of pages here, or not yet", list);
    }
    TRY(check_place(x));
    *pages = x->j.shape;
    pages->page = x->j.list[list].page;
    pages->rows = x->j.list[list].rows;
    pages->n_pages = x->seen.list_pages[list];
    pages->n_rows = x->seen.list_rows[list];
    if (list == WH_JOIN_UNMATCHED) {
        pages->column_bytes[1] = 0;
    }
    return WH_OK;
}

wh_status wh_join_compact(wh_join *x, uint32_t list, void *const *columns, void *stream) {
    whi_forget_error();
    if (x == NULL || columns == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (x->stage != DONE && x->stage != STOPPED) {
        return whi_refuse(WH_BAD_ARGUMENT, "wh_join_finish comes first");
    }
    if (x->how == TWO_PASS && list == WH_JOIN_MATCHED && x->j.kind == WH_JOIN_INNER) {
        return whi_refuse(WH_UNSUPPORTED, "two-pass: wh_join_columns has the rows already");
    }
    if (!has_pages(x, list)) {
        return whi_refuse(WH_BAD_ARGUMENT, "there is no list %u of pages here", list);
    }
    TRY(check_place(x));
    whi_join j = x->j;
    j.which = list;
    for (uint32_t c = 0; c < 3; c++) {
        const int is_there = j.shape.column_bytes[c] != 0 && (list == WH_JOIN_MATCHED || c != 1);
        j.columns[c] = is_there ? columns[c] : NULL;
        TRY(whi_check_column(j.columns[c], j.shape.column_bytes[c], c));
    }
    TRY(x->kernels->compact(x->heap, stream, &j));
    return WH_OK;
}

/* Of both lists, as many entries as the heap may have pages now, with nothing in them yet. */
static wh_status larger_lists(wh_join *x, whi_page_list *to) {
    void *base = NULL;
    uint64_t heap_bytes = 0;
    TRY(wh_heap_memory(x->heap, &base, &heap_bytes));
    for (uint32_t k = 0; k < WH_JOIN_LISTS; k++) {
        to[k] = x->j.list[k];
        const wh_status s =
            has_pages(x, k) ? whi_larger_list(x->device, &x->j.list[k], heap_bytes, &to[k]) : WH_OK;
        if (s != WH_OK) {
            if (k != 0) {
                whi_free_list(x->device, &to[0]);
            }
            return s;
        }
    }
    return WH_OK;
}

wh_status wh_join_rebase(wh_join *x, int64_t moved) {
    whi_forget_error();
    if (x == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (x->stage == STARTED) {
        return whi_refuse(WH_BAD_ARGUMENT, "wh_join_finish comes first");
    }
    whi_join *j = &x->j;
    whi_page_list old[WH_JOIN_LISTS], to[WH_JOIN_LISTS];
    TRY(x->how == TWO_PASS ? WH_OK : whi_check_rebase(x->heap, &x->place, moved));
    TRY(larger_lists(x, to));
    for (uint32_t k = 0; k < WH_JOIN_LISTS; k++) {
        old[k] = j->list[k];
        j->list[k] = to[k];
        j->old_page[k] = old[k].page;
        j->old_rows[k] = old[k].rows;
        if (has_pages(x, k)) {
            whi_hold_list_instead(&x->held, &old[k], &to[k]);
        }
    }
    if (x->stage != IDLE) {
        j->moved = moved;
        TRY(x->kernels->rebase(x->heap, NULL, j));
        TRY(wh_device_sync(x->device));
    }
    for (uint32_t k = 0; k < WH_JOIN_LISTS; k++) {
        whi_free_list(x->device, &old[k]);
    }
    return whi_find_heap(x->heap, &x->place);
}

/* --- start -------------------------------------------------------------------------------------
 */

static wh_status check_table(const wh_join *x, uint32_t k, const wh_table *t) {
    static const char *const names[] = {"build", "probe"};
    const wh_value_kind kind = x->j.side[k].kind;
    const uint32_t bytes = kind == WH_VALUE_4 || kind == WH_VALUE_8 ? value_bytes(kind) : 0;
    if (t->n > x->most_rows[k]) {
        return whi_refuse(WH_BAD_ARGUMENT, "the %s table has %llu rows, and %llu at most were said",
                          names[k], (unsigned long long)t->n, (unsigned long long)x->most_rows[k]);
    }
    if (t->n != 0 && (t->key == NULL || (bytes != 0 && t->value == NULL))) {
        return whi_refuse(WH_BAD_ARGUMENT, "the %s table has rows, and no %s", names[k],
                          t->key == NULL ? "keys" : "values");
    }
    if ((uintptr_t)t->key % x->j.key_bytes != 0 ||
        (bytes != 0 && (uintptr_t)t->value % bytes != 0)) {
        return whi_refuse(WH_BAD_ARGUMENT, "a column of the %s table is not aligned to its width",
                          names[k]);
    }
    return WH_OK;
}

/* The rows of both tables into parts. The pages of a table's first level go back before the other
 * table asks for its. */
static wh_status lay_out(wh_join *x, void *stream) {
    whi_join *j = &x->j;
    for (uint32_t k = 0; k < 2 * j->levels; k++) {
        j->which = k / j->levels;
        j->level = k % j->levels;
        TRY(x->kernels->partition(x->heap, stream, j));
        if (j->is_paged) {
            TRY(x->kernels->order(x->heap, stream, j));
        }
    }
    return x->kernels->units(x->heap, stream, j);
}

/* Starts, or goes on: blocks that are through with a step have nothing left of it. */
static wh_status run(wh_join *x, void *stream) {
    whi_join *j = &x->j;
    TRY(lay_out(x, stream));
    TRY(x->kernels->probe(x->heap, stream, j));
    if (j->is_paged) {
        TRY(x->kernels->drop_parts(x->heap, stream, j));
    }
    x->stage = STARTED;
    x->stream = stream;
    return WH_OK;
}

/* Rows of each part, and where the parts begin. */
static wh_status count_rows(wh_join *x, void *stream) {
    whi_join *j = &x->j;
    for (uint32_t k = 0; k < 2; k++) {
        j->which = k;
        TRY(x->kernels->count(x->heap, stream, j));
        for (uint32_t l = j->levels; l != 0; l--) { /* the last one has been counted */
            j->level = l - 1;
            TRY(x->kernels->order(x->heap, stream, j));
        }
    }
    return WH_OK;
}

static wh_status read_state(wh_join *x) {
    TRY(wh_stream_sync(x->device, x->stream));
    return wh_device_copy_out(x->device, &x->seen, x->j.state, sizeof x->seen);
}

/* The second pass, into columns that are as long as the first one has found. */
static wh_status run_again(wh_join *x, void *stream) {
    whi_join *j = &x->j;
    const uint64_t n = x->seen.pairs;
    for (uint32_t c = 0; c < 3; c++) {
        if (j->shape.column_bytes[c] != 0) {
            TRY(wh_device_alloc(x->device, &x->out[c], n * j->shape.column_bytes[c] + 8));
        }
        j->out[c] = x->out[c];
    }
    x->seen.next_unit = 0;
    TRY(wh_device_copy_in(x->device, j->state, &x->seen, sizeof x->seen));
    j->is_counting = 0;
    j->is_writing = 1;
    return x->kernels->probe(x->heap, stream, j);
}

static wh_status run_two_pass(wh_join *x, void *stream) {
    whi_join *j = &x->j;
    j->is_counting = 1;
    j->is_writing = 0;
    j->unit_rows = NULL;
    TRY(lay_out(x, stream));
    x->stream = stream;
    if (j->kind == WH_JOIN_INNER) {
        TRY(read_state(x));
        TRY(wh_device_alloc(x->device, &x->first_pass, x->seen.units * 8 + 8));
        TRY(wh_device_set(x->device, x->first_pass, 0, x->seen.units * 8 + 8));
        j->unit_rows = x->first_pass;
    }
    TRY(x->kernels->probe(x->heap, stream, j));
    if (j->kind == WH_JOIN_INNER) {
        TRY(read_state(x));
        TRY(run_again(x, stream));
    }
    x->stage = STARTED;
    return WH_OK;
}

wh_status wh_join_start_for(wh_join *x, const wh_table *build, const wh_table *probe, void *stream,
                            size_t table_bytes) {
    whi_forget_error();
    if (x == NULL || build == NULL || probe == NULL) {
        return WH_BAD_ARGUMENT;
    }
    wh_table table[2];
    TRY(whi_take_struct(&table[0], sizeof table[0], build, table_bytes));
    TRY(whi_take_struct(&table[1], sizeof table[1], probe, table_bytes));
    for (uint32_t k = 0; k < 2; k++) {
        TRY(check_table(x, k, &table[k]));
    }
    TRY(check_place(x));
    if (x->stage == STARTED) { /* on what stream it may be */
        TRY(wh_stream_sync(x->device, x->stream));
    }
    TRY(let_go(x, stream));
    drop_out(x);
    for (uint32_t k = 0; k < 2; k++) {
        x->j.side[k].key = table[k].key;
        x->j.side[k].value = table[k].value;
        x->j.side[k].n = (uint32_t)table[k].n;
    }
    x->dropped_rows = 0;
    x->j.is_counting = x->j.kind == WH_JOIN_COUNT;
    TRY(x->kernels->begin(x->heap, stream, &x->j));
    if (!x->j.is_paged) {
        TRY(count_rows(x, stream));
    }
    return x->how == TWO_PASS ? run_two_pass(x, stream) : run(x, stream);
}

/* Bytes of pages that both tables may fill; beside a table's last level, which is there to the end,
 * those of the first level of the other one, which goes back as it is read. */
static uint64_t parts_bytes(const wh_join *x) {
    const whi_join *j = &x->j;
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < 2 * j->levels && j->is_paged; k++) {
        const whi_parts *s = &j->side[k % 2].level[k / 2];
        bytes += (uint64_t)s->most * s->page_bytes;
    }
    return bytes;
}

wh_status wh_join_finish(wh_join *x, wh_join_result *result) {
    whi_forget_error();
    if (x == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (x->stage == IDLE) {
        return whi_refuse(WH_BAD_ARGUMENT, "no join has been started");
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
        const int is_counted = x->how == TWO_PASS || x->j.kind == WH_JOIN_COUNT;
        memset(result, 0, sizeof *result);
        result->rows = is_counted ? x->seen.pairs : x->seen.list_rows[WH_JOIN_MATCHED];
        result->unmatched = x->seen.list_rows[WH_JOIN_UNMATCHED];
        result->all_rows = result->rows + result->unmatched + x->dropped_rows;
        result->pages =
            (uint64_t)x->seen.list_pages[WH_JOIN_MATCHED] + x->seen.list_pages[WH_JOIN_UNMATCHED];
    }
    return x->stage != STOPPED ? WH_OK
                               : whi_say_full((uint64_t)x->seen.list_rows[WH_JOIN_MATCHED] +
                                                  x->seen.list_rows[WH_JOIN_UNMATCHED],
                                              parts_bytes(x));
}

wh_status wh_join_resume(wh_join *x, void *stream) {
    whi_forget_error();
    if (x == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (x->stage != STOPPED) {
        return whi_refuse(WH_BAD_ARGUMENT, "there is no join that has stopped");
    }
    TRY(check_place(x));
    wh_status s = x->kernels->again(x->heap, stream, &x->j);
    s = s == WH_OK ? run(x, stream) : s;
    x->stage = s == WH_DEVICE_ERROR ? IDLE : x->stage; /* as in finish */
    return s;
}

wh_status wh_join_columns(wh_join *x, const void **columns) {
    whi_forget_error();
    if (x == NULL || columns == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (x->how != TWO_PASS || x->stage != DONE || x->j.kind != WH_JOIN_INNER) {
        return whi_refuse(WH_BAD_ARGUMENT, "only two-pass joins have columns, after finish");
    }
    for (uint32_t c = 0; c < 3; c++) {
        columns[c] = x->out[c];
    }
    return WH_OK;
}
