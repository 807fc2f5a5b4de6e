/* tables_group.c: the calls of a group-by of tables on several ranks.
 *
 * Rows that are added up before they go, those of heavy keys or all, are given to a group-by of
 * this rank alone, `partial`. Its groups are rows of sums, one of each key; they go to the ranks of
 * their keys, where those of a key, one of each rank at most, are added up. All other rows go to
 * the ranks of their keys, and are given to another group-by there, `light`. One rank alone gives
 * that one all rows, whatever `combine` says, and has no `partial`.
 */
#include "workload/ranks/tables_own.h"

#include <stdlib.h>
#include <string.h>

#include "warpheap/core/hash.h"

#include "workload/ranks/comm_own.h"
#include "workload/ranks/tables_count.h"

#define MERGED_PAGE ((uint64_t)1 << 20)
enum { KEY, COUNT, SUM, LEAST, MOST, MEAN }; /* columns of a result */

typedef struct local_group {
    wh_group *group;
    uint64_t most; /* rows that it can take */
    uint32_t aggregates;
} local_group;

struct wh_shard_group {
    whi_tables t;
    wh_shard_group_options o;
    uint32_t value_bytes; /* 0: none */
    local_group light, partial;
    int is_all;     /* all rows are added up first: there are no light ones */
    int is_started; /* `light` has been, in this run */
    whi_received got, sums;
    whi_room part[WHI_ROWS_COLUMNS]; /* this rank's sums */
    uint64_t n_part, part_room;
    whi_room slots, next, pages, page_list; /* what has become of all ranks' sums */
    whi_flat_pages merged;
    uint64_t n_merged, all_merged; /* groups: there, and before they were dropped */
    whi_stage stage;
};

/* --- create -------------------------------------------------------------------------------------
 */

static wh_status make_local(const wh_shard_group *x, local_group *l, uint64_t rows) {
    wh_group_options o;
    const int is_first = l->group == NULL;
    if (!is_first && rows <= l->most) {
        return WH_OK;
    }
    const wh_status s = wh_group_destroy(l->group);
    l->group = NULL;
    memset(&o, 0, sizeof o);
    o.heap = x->o.heap;
    o.key_bytes = x->o.key_bytes;
    o.value = x->o.value;
    o.aggregates = l->aggregates;
    o.page_bytes = x->o.page_bytes;
    o.rows = l->most = whi_rows_ahead(&x->t, rows, is_first);
    return s == WH_OK ? wh_group_create(&l->group, &o) : s;
}

static uint32_t width_of(const wh_shard_group *x, uint32_t column) {
    const uint32_t widths[WH_PAGE_COLUMNS] = {x->t.key_bytes, 8, 8, x->value_bytes,
                                              x->value_bytes, 8};
    return widths[column];
}

static int has_column(uint32_t aggregates, uint32_t column) {
    return column == KEY || (aggregates >> (column - 1) & 1) != 0;
}

/* Pages of merged groups. */
static void lay_merged(wh_shard_group *x) {
    wh_pages *s = &x->merged.shape;
    uint32_t width = 0, at = 0;
    for (uint32_t c = 0; c < WH_PAGE_COLUMNS; c++) {
        s->column_bytes[c] = has_column(x->light.aggregates, c) ? width_of(x, c) : 0;
        width += s->column_bytes[c];
    }
    s->room = (uint32_t)(MERGED_PAGE / width) & ~1u; /* even, so that all columns are aligned */
    for (uint32_t c = 0; c < WH_PAGE_COLUMNS; c++) {
        s->column_at[c] = at;
        at += s->room * s->column_bytes[c];
    }
    x->merged.page_bytes = MERGED_PAGE;
}

static uint64_t hash_of(const wh_shard_group_options *o) {
    const uint32_t asked = o->aggregates != 0 ? o->aggregates : WH_GROUP_COUNT;
    const uint64_t parts[] = {
        whi_key_bytes(o->key_bytes), o->value, asked, o->page_bytes, o->combine,
        (uint64_t)wh_version()};
    uint64_t hash = 1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        hash = wh_spread64(hash ^ parts[i]) ^ hash >> 29;
    }
    return hash;
}

static uint32_t bytes_of(wh_group_value kind) {
    if (kind == WH_GROUP_NO_VALUE) {
        return 0;
    }
    return kind == WH_GROUP_INT64 || kind == WH_GROUP_DOUBLE ? 8 : 4;
}

static wh_status make(wh_shard_group *x, const wh_shard_group_options *o) {
    x->o = *o;
    wh_status s = whi_tables_open(&x->t, o->comm, o->heap, o->key_bytes);
    if (s != WH_OK) {
        return s;
    }
    if ((unsigned)o->value > WH_GROUP_DOUBLE || (unsigned)o->combine > WH_SHARD_COMBINE_ALL) {
        wh_comm_report(o->comm, WH_BAD_ARGUMENT, "no such type of values, or way to combine");
        return WH_BAD_ARGUMENT;
    }
    const uint32_t asked = o->aggregates != 0 ? o->aggregates : WH_GROUP_COUNT;
    const int is_mean = (asked & WH_GROUP_AVG) != 0;
    x->value_bytes = bytes_of(o->value);
    x->light.aggregates = asked;
    x->partial.aggregates =
        (asked & ~(uint32_t)WH_GROUP_AVG) | (is_mean ? WH_GROUP_COUNT | WH_GROUP_SUM : 0);
    s = make_local(x, &x->light, o->rows);
    s = s == WH_OK && x->t.ranks != 1 ? make_local(x, &x->partial, o->rows) : s;
    whi_tables_report(&x->t, s, "the group-by of this rank");
    lay_merged(x);
    return s;
}

wh_status wh_shard_group_create(wh_shard_group **group, const wh_shard_group_options *o) {
    if (group == NULL || o == NULL || o->comm == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *group = NULL;
    wh_shard_group *x = calloc(1, sizeof *x);
    if (x == NULL) {
        return wh_comm_give_up(o->comm, WH_OUT_OF_MEMORY, "no host memory for the group-by");
    }
    (void)make(x, o);
    wh_comm_expect(o->comm, hash_of(o), "options of the group-by");
    const wh_status s = wh_comm_agree(o->comm);
    if (s != WH_OK) {
        (void)wh_shard_group_destroy(x);
        return s;
    }
    *group = x;
    return WH_OK;
}

wh_status wh_shard_group_destroy(wh_shard_group *x) {
    if (x == NULL) {
        return WH_OK;
    }
    const wh_status light = wh_group_destroy(x->light.group);
    const wh_status partial = wh_group_destroy(x->partial.group);
    whi_room *const rooms[] = {&x->slots, &x->next, &x->pages, &x->page_list};
    for (uint32_t k = 0; k < sizeof rooms / sizeof *rooms && x->t.device != NULL; k++) {
        whi_room_free(x->t.device, rooms[k]);
    }
    for (uint32_t c = 0; c < WHI_ROWS_COLUMNS && x->t.device != NULL; c++) {
        whi_room_free(x->t.device, &x->part[c]);
    }
    whi_received_close(&x->t, &x->got);
    whi_received_close(&x->t, &x->sums);
    whi_tables_close(&x->t);
    free(x);
    return light != WH_OK ? light : partial;
}

void wh_shard_group_get_work(const wh_shard_group *x, wh_shard_work *work) {
    *work = x->t.work;
}

/* --- rows that are added up first ---------------------------------------------------------------
 */

/* The sums' columns, as they travel: place[c] is which one column c of a result is. */
static whi_rows sums_rows(const wh_shard_group *x, uint32_t place[WH_PAGE_COLUMNS]) {
    whi_rows rows;
    memset(&rows, 0, sizeof rows);
    for (uint32_t c = 0; c < MEAN; c++) {
        place[c] = rows.columns;
        if (has_column(x->partial.aggregates, c)) {
            rows.bytes[rows.columns] = width_of(x, c);
            rows.column[rows.columns] = x->part[rows.columns].data;
            rows.columns++;
        }
    }
    rows.n = x->n_part;
    return rows;
}

/* Room for more sums; those that are there stay. */
static wh_status more_sums(wh_shard_group *x, uint64_t n) {
    uint32_t place[WH_PAGE_COLUMNS];
    const whi_rows rows = sums_rows(x, place);
    if (x->n_part + n <= x->part_room) {
        return WH_OK;
    }
    const uint64_t room = (x->n_part + n) * 3 / 2 + 64;
    x->part_room = 0;
    for (uint32_t c = 0; c < rows.columns; c++) {
        whi_room larger = {NULL, 0};
        whi_copy copy;
        wh_status s = whi_room_for(x->t.device, &larger, room * rows.bytes[c]);
        memset(&copy, 0, sizeof copy);
        copy.from.base = x->part[c].data;
        copy.from.shape.room = UINT32_MAX;
        copy.from.shape.column_bytes[0] = rows.bytes[c];
        copy.n = x->n_part;
        copy.columns[0] = larger.data;
        s = s == WH_OK ? x->t.kernels->copy(x->t.device, &copy) : s;
        if (s != WH_OK) {
            whi_room_free(x->t.device, &larger);
            return s;
        }
        whi_room_free(x->t.device, &x->part[c]);
        x->part[c] = larger;
    }
    x->part_room = room;
    return WH_OK;
}

/* Sums that are in pages, to columns; the pages go back. */
static wh_status take_sums(wh_shard_group *x, uint64_t n) {
    uint32_t place[WH_PAGE_COLUMNS];
    void *columns[WH_PAGE_COLUMNS] = {NULL};
    wh_status s = more_sums(x, n);
    const whi_rows rows = sums_rows(x, place);
    for (uint32_t c = 0; c < MEAN && s == WH_OK; c++) {
        if (has_column(x->partial.aggregates, c)) {
            columns[c] = x->part[place[c]].data + x->n_part * rows.bytes[place[c]];
        }
    }
    s = s == WH_OK && n != 0 ? wh_group_compact(x->partial.group, columns, NULL) : s;
    x->n_part += n;
    return s == WH_OK ? wh_group_drop_pages(x->partial.group, NULL) : s;
}

static wh_status add_up(wh_shard_group *x, const wh_table *table) {
    wh_group_result result;
    x->n_part = 0;
    if (table->n == 0) {
        return more_sums(x, 1);
    }
    wh_status s = make_local(x, &x->partial, table->n);
    s = s == WH_OK ? wh_group_start(x->partial.group, table, NULL) : s;
    if (s != WH_OK) {
        return s;
    }
    while ((s = wh_group_finish(x->partial.group, &result)) == WH_OUT_OF_MEMORY &&
           result.rows != 0) {
        s = take_sums(x, result.rows);
        s = s == WH_OK ? wh_group_resume(x->partial.group, NULL) : s;
        if (s != WH_OK) {
            return s;
        }
    }
    return s == WH_OK ? take_sums(x, result.rows) : s;
}

/* --- sums of all ranks --------------------------------------------------------------------------
 */

static whi_sums call_of(const wh_shard_group *x) {
    uint32_t place[WH_PAGE_COLUMNS];
    const void *column[WH_PAGE_COLUMNS] = {NULL};
    whi_sums call;
    (void)sums_rows(x, place);
    for (uint32_t c = 0; c < MEAN; c++) {
        if (has_column(x->partial.aggregates, c)) {
            column[c] = x->sums.column[place[c]].data;
        }
    }
    memset(&call, 0, sizeof call);
    call.key = column[KEY];
    call.count = column[COUNT];
    call.sum = column[SUM];
    call.least = column[LEAST];
    call.most = column[MOST];
    call.n = (uint32_t)x->sums.n;
    call.key_bytes = x->t.key_bytes;
    call.value = x->o.value;
    call.log2 = whi_log2_of(2 * x->sums.n + 2);
    return call;
}

/* Sums of the same key become a group, in pages of this object. */
static wh_status merge(wh_shard_group *x) {
    wh_device *d = x->t.device;
    whi_sums call = call_of(x);
    const uint64_t slots = (uint64_t)1 << call.log2, room = x->merged.shape.room;
    uint32_t n = 0;
    wh_status s = whi_room_for(d, &x->slots, (slots + 1) * 4);
    s = s == WH_OK ? whi_room_for(d, &x->next, x->sums.n * 4) : s;
    s = s == WH_OK ? whi_room_for(d, &x->pages, (x->sums.n + room - 1) / room * MERGED_PAGE) : s;
    s = s == WH_OK ? wh_device_set(d, x->slots.data, 0, (slots + 1) * 4) : s;
    if (s != WH_OK) {
        return s;
    }
    x->merged.base = x->pages.data;
    call.head = (uint32_t *)(void *)x->slots.data;
    call.n_out = call.head + slots;
    call.next = (uint32_t *)(void *)x->next.data;
    call.out = x->merged;
    s = x->t.kernels->link(d, &call);
    s = s == WH_OK ? x->t.kernels->merge(d, &call) : s;
    s = s == WH_OK ? wh_device_copy_out(d, &n, call.n_out, sizeof n) : s;
    x->n_merged = x->all_merged = s == WH_OK ? n : 0;
    return s;
}

/* Of all ranks: sums go to the ranks of their keys. */
static wh_status bring_sums(wh_shard_group *x, wh_status own) {
    uint32_t place[WH_PAGE_COLUMNS];
    const uint32_t n_heavy = x->t.n_heavy;
    const whi_rows rows = sums_rows(x, place);
    whi_tables_report(&x->t, own, "rows could not be added up");
    x->t.n_heavy = 0; /* sums of heavy keys go as all others */
    wh_status s = whi_tables_count(&x->t, &rows, 1);
    s = s == WH_OK ? whi_tables_shuffle(&x->t, 0, &rows, &x->sums) : s;
    x->t.n_heavy = n_heavy;
    return s;
}

/* --- run ----------------------------------------------------------------------------------------
 */

static wh_status rows_of(wh_shard_group *x, const wh_table *table, whi_rows *rows) {
    memset(rows, 0, sizeof *rows);
    rows->columns = x->value_bytes != 0 ? 2 : 1;
    rows->bytes[0] = x->t.key_bytes;
    rows->bytes[1] = x->value_bytes;
    if (table != NULL && table->n <= WH_MOST_ROWS) {
        rows->column[0] = table->key;
        rows->column[1] = table->value;
        if ((table->n == 0 ||
             (table->key != NULL && (x->value_bytes == 0 || table->value != NULL))) &&
            (uintptr_t)table->key % rows->bytes[0] == 0 &&
            (x->value_bytes == 0 || (uintptr_t)table->value % x->value_bytes == 0)) {
            rows->n = table->n;
            return WH_OK;
        }
    }
    wh_comm_report(x->t.comm, WH_BAD_ARGUMENT,
                   "the table: no columns, none aligned, or too many rows");
    return WH_BAD_ARGUMENT;
}

/* Whether sums of all rows are far fewer than rows. They are if hardly a key was in a sample once;
 * and if no key is heavy, of G keys that all have as many rows a sample of m has about m * m / G
 * rows whose key it has, too. 8 such rows tell G well enough. */
static int are_few(const whi_tables *t) {
    const uint64_t again = t->sampled - t->singles, rows = t->all_brought[0] / t->ranks;
    if (t->sampled == 0) {
        return 0;
    }
    return t->singles * 8 <= t->sampled ||
           (t->n_heavy == 0 && again >= 8 && t->sampled_squared / again * 8 <= rows);
}

/* Of all ranks: the rows that go, go. *first: those that are added up first. *light: those that
 * `light` gets. */
static wh_status bring(wh_shard_group *x, const wh_table *table, wh_table *first, wh_table *light) {
    whi_rows rows;
    memset(first, 0, sizeof *first);
    memset(light, 0, sizeof *light);
    if (rows_of(x, table, &rows) != WH_OK) {
        rows.n = 0; /* reported */
    }
    if (x->t.ranks == 1) {
        whi_tables_clear(&x->t);
        whi_tables_keep(&x->t, &rows, &x->got, light);
        x->t.given[0] = rows.n;
        return wh_comm_agree(x->t.comm);
    }
    wh_status s = whi_tables_find(&x->t, &rows, 1);
    if (s != WH_OK) {
        return s;
    }
    x->is_all = x->o.combine == WH_SHARD_COMBINE_ALL ||
                (x->o.combine == WH_SHARD_COMBINE_SAMPLE && are_few(&x->t));
    if (x->is_all) {
        x->t.n_heavy = 0;
        first->key = rows.column[0];
        first->value = rows.column[1];
        first->n = rows.n;
        for (uint32_t r = 0; r < x->t.ranks; r++) {
            x->t.given[r] += x->t.brought[0][r];
        }
        return WH_OK;
    }
    for (uint32_t i = 0; i < x->t.n_heavy; i++) {
        x->t.heavy[i].way[0] = WHI_WAY_ASIDE;
    }
    s = whi_tables_count(&x->t, &rows, 1);
    s = s == WH_OK ? whi_tables_shuffle(&x->t, 0, &rows, &x->got) : s;
    first->key = x->t.aside[0].data;
    first->value = x->t.aside[1].data;
    first->n = x->t.n_aside;
    *light = whi_table_of(&x->got);
    return s;
}

static wh_status start_light(wh_shard_group *x, const wh_table *light) {
    if (x->is_all) {
        return WH_OK;
    }
    wh_status s = make_local(x, &x->light, light->n);
    s = s == WH_OK ? wh_group_start(x->light.group, light, NULL) : s;
    x->is_started = s == WH_OK;
    return s;
}

/* Waits for this rank's operator and for all ranks. started: whether it has been. */
static wh_status finish(wh_shard_group *x, wh_status started, double begin,
                        wh_shard_group_result *result) {
    wh_group_result own;
    whi_ending ending, all;
    memset(&own, 0, sizeof own);
    memset(&ending, 0, sizeof ending);
    wh_status s = started;
    if (s == WH_OK && x->is_started) {
        s = wh_group_finish(x->light.group, &own);
    }
    ending.status = s;
    ending.is_stopped = started == WH_OK && s == WH_OUT_OF_MEMORY;
    ending.has_rows = own.rows + x->n_merged != 0;
    ending.all_rows = own.all_rows + x->all_merged;
    const char *text = wh_last_error_text();
    const wh_status ended =
        whi_tables_end(&x->t, &ending, text[0] != '\0' ? text : "the group-by of this rank", &all);
    x->stage = whi_tables_stage(ended, &all);
    x->t.work.operate += whi_comm_now() - begin;
    if (result != NULL && x->stage != WHI_IDLE) {
        result->rows = own.rows + x->n_merged;
        result->all_rows = all.all_rows;
        result->stopped = (int)all.has_rows;
    }
    return ended;
}

/* What an earlier run has put out, or has not come to put out, so that `partial` has the heap. */
static void let_go(wh_shard_group *x) {
    wh_status s = WH_OK;
    if (x->is_started && x->stage == WHI_DONE) {
        s = wh_group_drop_pages(x->light.group, NULL);
    } else if (x->is_started) {
        s = wh_group_destroy(x->light.group);
        x->light.group = NULL;
    }
    whi_tables_report(&x->t, s, "what an earlier group-by has put out");
    x->stage = WHI_IDLE;
    x->is_started = 0;
    x->n_merged = x->all_merged = 0;
}

wh_status wh_shard_group_run(wh_shard_group *x, const wh_table *table,
                             wh_shard_group_result *result) {
    wh_table first, light;
    wh_status s = x != NULL ? whi_tables_begin(&x->t, "group-by") : WH_BAD_ARGUMENT;
    if (result != NULL) {
        memset(result, 0, sizeof *result);
    }
    if (s != WH_OK) {
        return s;
    }
    let_go(x);
    s = bring(x, table, &first, &light);
    double begin = whi_comm_now();
    wh_status own = WH_OK;
    if (s == WH_OK && (x->is_all || x->t.n_heavy != 0)) {
        own = add_up(x, &first);
        x->t.work.operate += whi_comm_now() - begin;
        s = bring_sums(x, own);
        begin = whi_comm_now();
        own = s == WH_OK ? merge(x) : s;
    }
    if (s != WH_OK) {
        return s;
    }
    return finish(x, own == WH_OK ? start_light(x, &light) : own, begin, result);
}

wh_status wh_shard_group_resume(wh_shard_group *x, wh_shard_group_result *result) {
    wh_status s = x != NULL ? whi_tables_begin(&x->t, "resume of a group-by") : WH_BAD_ARGUMENT;
    if (result != NULL) {
        memset(result, 0, sizeof *result);
    }
    if (s != WH_OK) {
        return s;
    }
    if (x->stage != WHI_STOPPED) { /* on all ranks, or on none */
        wh_comm_report(x->t.comm, WH_BAD_ARGUMENT, "there is no group-by that has stopped");
        return wh_comm_agree(x->t.comm);
    }
    const double begin = whi_comm_now();
    const int has_stopped =
        x->is_started && wh_group_finish(x->light.group, NULL) == WH_OUT_OF_MEMORY;
    s = has_stopped ? wh_group_resume(x->light.group, NULL) : WH_OK;
    return finish(x, s, begin, result);
}

/* --- the result ---------------------------------------------------------------------------------
 */

/* The merged groups as a list of pages: addresses, and rows of each. */
static wh_status list_merged(wh_shard_group *x, wh_pages *pages) {
    const uint64_t room = x->merged.shape.room, n = (x->n_merged + room - 1) / room;
    unsigned char **page = calloc(n + 1, sizeof *page + sizeof(uint32_t));
    wh_status s = page != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    s = s == WH_OK ? whi_room_for(x->t.device, &x->page_list, (n + 1) * 12) : s;
    if (s == WH_OK && n != 0) {
        uint32_t *rows = (uint32_t *)(void *)(page + n);
        for (uint64_t p = 0; p < n; p++) {
            const uint64_t left = x->n_merged - p * room;
            page[p] = x->merged.base + p * MERGED_PAGE;
            rows[p] = (uint32_t)(left < room ? left : room);
        }
        s = wh_device_copy_in(x->t.device, x->page_list.data, page, n * 12);
    }
    free(page);
    *pages = x->merged.shape;
    pages->page = (unsigned char *const *)(void *)x->page_list.data;
    pages->rows = (const uint32_t *)(const void *)(x->page_list.data + n * sizeof *page);
    pages->n_pages = n;
    pages->n_rows = x->n_merged;
    return s;
}

wh_status wh_shard_group_pages(wh_shard_group *x, uint32_t list, wh_pages *pages) {
    if (x == NULL || pages == NULL || list >= WH_SHARD_LISTS || x->stage == WHI_IDLE) {
        return WH_BAD_ARGUMENT;
    }
    if (list == WH_SHARD_HEAVY) {
        return list_merged(x, pages);
    }
    if (x->is_started) {
        return wh_group_pages(x->light.group, pages);
    }
    *pages = x->merged.shape; /* no rows */
    return WH_OK;
}

wh_status wh_shard_group_compact(wh_shard_group *x, void *const *columns) {
    void *behind[WH_PAGE_COLUMNS];
    whi_copy copy;
    if (x == NULL || columns == NULL || x->stage == WHI_IDLE) {
        return WH_BAD_ARGUMENT;
    }
    memset(&copy, 0, sizeof copy);
    copy.from = x->merged;
    copy.n = x->n_merged;
    for (uint32_t c = 0; c < WH_PAGE_COLUMNS; c++) {
        unsigned char *column = columns[c];
        copy.columns[c] = column;
        behind[c] = column != NULL ? column + x->n_merged * x->merged.shape.column_bytes[c] : NULL;
    }
    const wh_status s = x->t.kernels->copy(x->t.device, &copy);
    return s == WH_OK && x->is_started ? wh_group_compact(x->light.group, behind, NULL) : s;
}

wh_status wh_shard_group_drop_pages(wh_shard_group *x) {
    if (x == NULL) {
        return WH_BAD_ARGUMENT;
    }
    x->n_merged = 0;
    return x->stage != WHI_IDLE && x->is_started ? wh_group_drop_pages(x->light.group, NULL)
                                                 : WH_OK;
}
