/* tables_join.c: the calls of a join of tables on several ranks. */
#include "workload/ranks/tables_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "warpheap/core/hash.h"

#include "workload/ranks/comm_own.h"

enum { BUILD, PROBE };

struct wh_shard_join {
    whi_tables t;
    wh_shard_join_options o;
    wh_value_kind value[WHI_TABLES]; /* that travel, and that the operator gets */
    wh_join *local;
    uint64_t most[WHI_TABLES];    /* rows that it can take */
    whi_received got[WHI_TABLES]; /* of one rank alone, rows' numbers at most */
    whi_stage stage;
};

/* --- create -------------------------------------------------------------------------------------
 */

/* As many as before, at least: tables may be large in turn. */
static uint64_t room_for(const wh_shard_join *x, uint32_t k, uint64_t rows, int is_first) {
    const uint64_t ahead = whi_rows_ahead(&x->t, rows, is_first);
    return ahead > x->most[k] ? ahead : x->most[k];
}

/* This rank's operator, for so many rows. */
static wh_status make_local(wh_shard_join *x, uint64_t build_rows, uint64_t probe_rows) {
    wh_join_options o;
    const int is_first = x->local == NULL;
    if (!is_first && build_rows <= x->most[BUILD] && probe_rows <= x->most[PROBE]) {
        return WH_OK;
    }
    wh_status s = wh_join_destroy(x->local);
    x->local = NULL;
    memset(&o, 0, sizeof o);
    o.heap = x->o.heap;
    o.variant = x->o.variant;
    o.kind = x->o.kind;
    o.key_bytes = x->o.key_bytes;
    o.build_value = x->value[BUILD];
    o.probe_value = x->value[PROBE];
    o.page_bytes = x->o.page_bytes;
    o.build_rows = x->most[BUILD] = room_for(x, BUILD, build_rows, is_first);
    o.probe_rows = x->most[PROBE] = room_for(x, PROBE, probe_rows, is_first);
    return s == WH_OK ? wh_join_create(&x->local, &o) : s;
}

static uint64_t hash_of(const wh_shard_join_options *o) {
    const uint64_t parts[] = {
        o->kind,       whi_key_bytes(o->key_bytes), o->build_value, o->probe_value,
        o->page_bytes, (uint64_t)wh_version(),      o->exchange};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        hash = wh_spread64(hash ^ parts[i]) ^ hash >> 29;
    }
    for (const char *c = o->variant != NULL ? o->variant : "paged"; *c != '\0'; c++) {
        hash = wh_spread64(hash ^ (unsigned char)*c) ^ hash >> 29;
    }
    return hash;
}

static wh_status make(wh_shard_join *x, const wh_shard_join_options *o) {
    x->o = *o;
    wh_status s = whi_tables_open(&x->t, o->comm, o->heap, o->key_bytes);
    if (s != WH_OK) {
        return s;
    }
    if ((unsigned)o->kind > WH_JOIN_COUNT || (unsigned)o->build_value > WH_VALUE_ROW ||
        (unsigned)o->probe_value > WH_VALUE_ROW || (unsigned)o->exchange > WH_SHARD_BROADCAST) {
        wh_comm_report(o->comm, WH_BAD_ARGUMENT, "no such kind of a join, a value or an exchange");
        return WH_BAD_ARGUMENT;
    }
    if (o->variant != NULL && strcmp(o->variant, "two-pass") == 0) {
        wh_comm_report(o->comm, WH_UNSUPPORTED, "a two-pass join on several ranks");
        return WH_UNSUPPORTED;
    }
    const int is_pair = o->kind == WH_JOIN_INNER || o->kind == WH_JOIN_LEFT;
    x->value[BUILD] = is_pair ? o->build_value : WH_VALUE_NONE; /* else nobody asks for it */
    x->value[PROBE] = o->kind != WH_JOIN_COUNT ? o->probe_value : WH_VALUE_NONE;
    for (uint32_t k = 0; k < WHI_TABLES; k++) {
        x->value[k] = x->value[k] == WH_VALUE_ROW ? WH_VALUE_8 : x->value[k];
    }
    s = make_local(x, o->build_rows, o->probe_rows);
    whi_tables_report(&x->t, s, "the join of this rank");
    return s;
}

wh_status wh_shard_join_create(wh_shard_join **join, const wh_shard_join_options *o) {
    if (join == NULL || o == NULL || o->comm == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *join = NULL;
    wh_shard_join *x = calloc(1, sizeof *x);
    if (x == NULL) {
        return wh_comm_give_up(o->comm, WH_OUT_OF_MEMORY, "no host memory for the join");
    }
    (void)make(x, o);
    wh_comm_expect(o->comm, hash_of(o), "options of the join");
    const wh_status s = wh_comm_agree(o->comm);
    if (s != WH_OK) {
        (void)wh_shard_join_destroy(x);
        return s;
    }
    *join = x;
    return WH_OK;
}

wh_status wh_shard_join_destroy(wh_shard_join *x) {
    if (x == NULL) {
        return WH_OK;
    }
    const wh_status s = wh_join_destroy(x->local);
    for (uint32_t k = 0; k < WHI_TABLES; k++) {
        whi_received_close(&x->t, &x->got[k]);
    }
    whi_tables_close(&x->t);
    free(x);
    return s;
}

wh_join *wh_shard_join_local(wh_shard_join *x) {
    return x->stage != WHI_IDLE ? x->local : NULL;
}

void wh_shard_join_get_work(const wh_shard_join *x, wh_shard_work *work) {
    *work = x->t.work;
}

/* --- run ----------------------------------------------------------------------------------------
 */

/* A table's columns, as they travel. What is wrong is reported. */
static wh_status rows_of(wh_shard_join *x, uint32_t k, const wh_table *table, whi_rows *rows) {
    static const char *const names[] = {"build", "probe"};
    const wh_value_kind asked = k == BUILD ? x->o.build_value : x->o.probe_value;
    const int has_value = x->value[k] != WH_VALUE_NONE, is_row = asked == WH_VALUE_ROW;
    char text[80];
    memset(rows, 0, sizeof *rows);
    rows->columns = has_value ? 2 : 1;
    rows->bytes[0] = x->t.key_bytes;
    rows->bytes[1] = x->value[k] == WH_VALUE_8 ? 8 : 4;
    if (table != NULL && table->n <= WH_MOST_ROWS) {
        const int has_rows = table->n != 0;
        rows->column[0] = table->key;
        rows->column[1] = is_row ? NULL : table->value;
        if ((!has_rows || (table->key != NULL && (!has_value || is_row || table->value != NULL))) &&
            (uintptr_t)table->key % rows->bytes[0] == 0 &&
            (!has_value || (uintptr_t)rows->column[1] % rows->bytes[1] == 0)) {
            rows->n = table->n;
            return WH_OK;
        }
    }
    (void)snprintf(text, sizeof text, "the %s table: no columns, none aligned, or too many rows",
                   names[k]);
    wh_comm_report(x->t.comm, WH_BAD_ARGUMENT, text);
    return WH_BAD_ARGUMENT;
}

/* What becomes of a heavy key's rows: those of the table that has more stay, and the other one's go
 * to all. A probe row that went to all would be put out by all in a LEFT join, or SEMI, or ANTI. */
static void choose_way(const wh_shard_join *x, whi_heavy *h) {
    const uint64_t part = x->t.all_brought[PROBE] / ((uint64_t)x->t.ranks * WHI_LIGHT);
    const wh_join_kind kind = x->o.kind;
    const int is_many = h->rows[PROBE] >= h->rows[BUILD];
    if (kind == WH_JOIN_SEMI || kind == WH_JOIN_ANTI) {
        h->way[BUILD] = WHI_WAY_ONE;
        h->way[PROBE] = WHI_WAY_STAYS;
    } else if (is_many || (kind == WH_JOIN_LEFT && h->rows[PROBE] >= part)) {
        h->way[BUILD] = WHI_WAY_ALL;
        h->way[PROBE] = WHI_WAY_STAYS;
    } else if (kind != WH_JOIN_LEFT) {
        h->way[BUILD] = WHI_WAY_STAYS;
        h->way[PROBE] = WHI_WAY_ALL;
    } else {
        h->way[BUILD] = h->way[PROBE] = WHI_WAY_HASH;
    }
}

static wh_status keep_both(wh_shard_join *x, const whi_rows *rows, wh_table *in) {
    whi_tables_clear(&x->t);
    for (uint32_t k = 0; k < WHI_TABLES; k++) {
        whi_tables_keep(&x->t, &rows[k], &x->got[k], &in[k]);
        x->t.given[0] += rows[k].n;
    }
    return wh_comm_agree(x->t.comm);
}

/* The same on all ranks, by what find has brought. The local join of B build rows in place of B / P
 * costs less than to put all rows in order if there are 2 P probe rows for a build row. */
static int is_broadcast(const wh_shard_join *x) {
    const whi_tables *t = &x->t;
    const uint64_t probe = t->all_brought[PROBE];
    int is_even = 1;
    for (uint32_t r = 0; r < t->ranks; r++) {
        is_even &= t->brought[PROBE][r] <= probe / t->ranks + probe / t->ranks / 4;
    }
    if (x->o.exchange == WH_SHARD_EXCHANGE_AUTO) {
        return is_even && t->all_brought[BUILD] <= probe / (2 * (uint64_t)t->ranks);
    }
    return x->o.exchange == WH_SHARD_BROADCAST;
}

/* Of all ranks. Each probe row is at one place, and that has all partners: right for all kinds. */
static wh_status broadcast(wh_shard_join *x, const whi_rows *rows, wh_table *in) {
    whi_tables *t = &x->t;
    t->n_heavy = 0;
    whi_tables_keep(t, &rows[PROBE], &x->got[PROBE], &in[PROBE]);
    const wh_status s = whi_tables_broadcast(t, BUILD, &rows[BUILD], &x->got[BUILD]);
    in[BUILD] = whi_table_of(&x->got[BUILD]);
    for (uint32_t r = 0; r < t->ranks; r++) {
        t->given[r] += t->all_brought[BUILD] + t->brought[PROBE][r];
    }
    return s;
}

/* Of all ranks: what the operator here gets. */
static wh_status bring(wh_shard_join *x, const wh_table *const tables[WHI_TABLES], wh_table *in) {
    whi_rows rows[WHI_TABLES];
    for (uint32_t k = 0; k < WHI_TABLES; k++) {
        if (rows_of(x, k, tables[k], &rows[k]) != WH_OK) {
            rows[k].n = 0; /* reported */
        }
    }
    if (x->t.ranks == 1) {
        return keep_both(x, rows, in);
    }
    wh_status s = whi_tables_find(&x->t, rows, WHI_TABLES);
    if (s == WH_OK && is_broadcast(x)) {
        return broadcast(x, rows, in);
    }
    s = s == WH_OK ? whi_tables_count(&x->t, rows, WHI_TABLES) : s;
    for (uint32_t i = 0; i < x->t.n_heavy && s == WH_OK; i++) {
        choose_way(x, &x->t.heavy[i]);
    }
    for (uint32_t k = 0; k < WHI_TABLES && s == WH_OK; k++) {
        s = whi_tables_shuffle(&x->t, k, &rows[k], &x->got[k]);
        in[k] = whi_table_of(&x->got[k]);
    }
    return s;
}

static wh_status start(wh_shard_join *x, const wh_table *in) {
    const wh_status s = make_local(x, in[BUILD].n, in[PROBE].n);
    return s == WH_OK ? wh_join_start(x->local, &in[BUILD], &in[PROBE], NULL) : s;
}

/* Waits for this rank's operator and for all ranks. started: whether it has been. */
static wh_status finish(wh_shard_join *x, wh_status started, double begin,
                        wh_shard_join_result *result) {
    wh_join_result own;
    whi_ending ending, all;
    memset(&own, 0, sizeof own);
    memset(&ending, 0, sizeof ending);
    const wh_status s = started == WH_OK ? wh_join_finish(x->local, &own) : started;
    ending.status = s;
    ending.is_stopped = started == WH_OK && s == WH_OUT_OF_MEMORY;
    ending.has_rows = own.rows + own.unmatched != 0;
    ending.all_rows = own.all_rows;
    const char *text = wh_last_error_text();
    const wh_status ended =
        whi_tables_end(&x->t, &ending, text[0] != '\0' ? text : "the join of this rank", &all);
    x->stage = whi_tables_stage(ended, &all);
    x->t.work.operate += whi_comm_now() - begin;
    if (result != NULL && x->stage != WHI_IDLE) {
        result->own = own;
        result->all_rows = all.all_rows;
        result->stopped = (int)all.has_rows;
    }
    return ended;
}

wh_status wh_shard_join_run(wh_shard_join *x, const wh_table *build, const wh_table *probe,
                            wh_shard_join_result *result) {
    const wh_table *const tables[WHI_TABLES] = {build, probe};
    wh_table in[WHI_TABLES];
    wh_status s = x != NULL ? whi_tables_begin(&x->t, "join") : WH_BAD_ARGUMENT;
    if (result != NULL) {
        memset(result, 0, sizeof *result);
    }
    if (s != WH_OK) {
        return s;
    }
    x->stage = WHI_IDLE;
    s = bring(x, tables, in);
    const double begin = whi_comm_now();
    return s == WH_OK ? finish(x, start(x, in), begin, result) : s;
}

wh_status wh_shard_join_resume(wh_shard_join *x, wh_shard_join_result *result) {
    wh_status s = x != NULL ? whi_tables_begin(&x->t, "resume of a join") : WH_BAD_ARGUMENT;
    if (result != NULL) {
        memset(result, 0, sizeof *result);
    }
    if (s != WH_OK) {
        return s;
    }
    if (x->stage != WHI_STOPPED) { /* on all ranks, or on none */
        wh_comm_report(x->t.comm, WH_BAD_ARGUMENT, "there is no join that has stopped");
        return wh_comm_agree(x->t.comm);
    }
    const double begin = whi_comm_now();
    const int has_stopped = wh_join_finish(x->local, NULL) == WH_OUT_OF_MEMORY;
    s = has_stopped ? wh_join_resume(x->local, NULL) : WH_OK;
    return finish(x, s, begin, result);
}
