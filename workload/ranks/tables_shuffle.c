/* tables_shuffle.c: rows to the ranks where they belong.
 *
 * All ranks know the counts of all, so each knows what it will get and from whom, and takes memory
 * for it before anything goes. A rank's own rows are written where they are to be at once. What
 * goes to rank r: rows of its keys, and behind them a copy of those that go to all.
 */
#include "workload/ranks/tables_own.h"

#include <stdlib.h>
#include <string.h>

#include "workload/ranks/comm_own.h"
#include "workload/ranks/tables_count.h"

#define MORE_ROWS "more rows would come than a table may have"

static whi_heavy_slots slots_of(const whi_tables *t) {
    whi_heavy_slots h;
    memset(&h, 0, sizeof h);
    h.key = t->heavy_key;
    h.number = t->heavy_number;
    h.n = t->n_heavy;
    h.log2 = whi_log2_of(4 * (uint64_t)t->n_heavy);
    return h;
}

static whi_rows_call call_of(const whi_tables *t, const whi_rows *rows) {
    whi_rows_call call;
    memset(&call, 0, sizeof call);
    call.rows = *rows;
    call.heavy = slots_of(t);
    call.ranks = t->ranks;
    call.rank = t->rank;
    return call;
}

/* Device memory of so many bytes, for what comes; what was there is lost if it grows. */
static wh_status room_to_come(whi_tables *t, wh_comm_buffer *b, uint64_t bytes) {
    whi_room come = {b->data, b->room};
    const wh_status s = whi_room_for(t->device, &come, bytes);
    b->device = t->device;
    b->data = come.data;
    b->room = come.bytes;
    return s;
}

/* --- without an order ----------------------------------------------------------------------------
 */

/* Rows' numbers, to `to`. */
static wh_status number_rows(whi_tables *t, const whi_rows *rows, void *to) {
    whi_rows_call call = call_of(t, rows);
    call.out[WHI_TO_OWN][1] = to;
    return t->kernels->number(t->device, &call);
}

static int has_numbers(const whi_rows *rows, uint32_t c) {
    return c == 1 && rows->column[1] == NULL;
}

void whi_tables_keep(whi_tables *t, const whi_rows *rows, whi_received *received, wh_table *in) {
    const double begin = whi_comm_now();
    memset(in, 0, sizeof *in);
    in->key = rows->column[0];
    in->value = rows->columns == 2 ? rows->column[1] : NULL;
    in->n = rows->n;
    if (rows->columns == 2 && has_numbers(rows, 1)) {
        wh_status s = room_to_come(t, &received->column[1], rows->n * rows->bytes[1]);
        in->value = received->column[1].data;
        s = s == WH_OK ? number_rows(t, rows, received->column[1].data) : s;
        wh_comm_report(t->comm, s, "rows' numbers could not be written");
    }
    t->work.operate += whi_comm_now() - begin;
}

/* Device memory for what comes, and for numbers that go. */
static wh_status room_to_spread(whi_tables *t, const whi_rows *rows, whi_received *received) {
    wh_status s = WH_OK;
    for (uint32_t c = 0; c < rows->columns && s == WH_OK; c++) {
        s = room_to_come(t, &received->column[c], received->n * rows->bytes[c]);
        if (s == WH_OK && has_numbers(rows, c)) {
            s = whi_room_for(t->device, &t->send[c], rows->n * rows->bytes[c]);
            s = s == WH_OK ? number_rows(t, rows, t->send[c].data) : s;
        }
    }
    return s == WH_OK ? wh_device_sync(t->device) : s;
}

wh_status whi_tables_broadcast(whi_tables *t, uint32_t table, const whi_rows *rows,
                               whi_received *received) {
    const double begin = whi_comm_now();
    received->n = t->all_brought[table];
    t->work.sent += rows->n * (t->ranks - 1);
    if (received->n > WH_MOST_ROWS) {
        wh_comm_report(t->comm, WH_UNSUPPORTED, MORE_ROWS);
    } else {
        wh_comm_report(t->comm, room_to_spread(t, rows, received),
                       "no device memory for the rows of a small table");
    }
    wh_status s = WH_OK;
    for (uint32_t c = 0; c < rows->columns && s == WH_OK; c++) {
        const void *column = has_numbers(rows, c) ? t->send[c].data : rows->column[c];
        s = wh_comm_all_gather(t->comm, column, rows->n * rows->bytes[c], &received->column[c]);
    }
    t->work.exchange += whi_comm_now() - begin;
    return s;
}

/* --- count --------------------------------------------------------------------------------------
 */

static uint64_t counts_of_table(const whi_tables *t) {
    return (uint64_t)t->ranks + t->n_heavy;
}

static wh_status count_table(whi_tables *t, const whi_rows *rows, uint64_t *to) {
    const uint64_t bytes = counts_of_table(t) * sizeof *to;
    whi_rows_call call = call_of(t, rows);
    call.counts = t->counts;
    wh_status s = wh_device_set(t->device, t->counts, 0, bytes);
    s = s == WH_OK ? t->kernels->count(t->device, &call) : s;
    return s == WH_OK ? wh_device_copy_out(t->device, to, t->counts, bytes) : s;
}

/* Rank r's counts: of each rank, then of each heavy key. */
static const uint64_t *counts_of(const whi_tables *t, uint32_t r, uint32_t table) {
    const uint64_t n = counts_of_table(t);
    return (const uint64_t *)(const void *)t->gathered.data + (r * t->n_counted + table) * n;
}

wh_status whi_tables_count(whi_tables *t, const whi_rows *rows, uint32_t n_tables) {
    const double begin = whi_comm_now();
    const uint64_t n = counts_of_table(t);
    for (uint32_t k = 0; k < n_tables; k++) {
        wh_comm_report(t->comm, count_table(t, &rows[k], t->message + k * n),
                       "rows could not be counted");
    }
    const wh_status s = wh_comm_all_gather(t->comm, t->message, n_tables * n * 8, &t->gathered);
    t->n_counted = n_tables;
    for (uint32_t i = 0; i < t->n_heavy && s == WH_OK; i++) {
        t->heavy[i].rows[0] = t->heavy[i].rows[1] = 0;
        for (uint32_t k = 0; k < n_tables; k++) {
            for (uint32_t r = 0; r < t->ranks; r++) {
                t->heavy[i].rows[k] += counts_of(t, r, k)[t->ranks + i];
            }
        }
    }
    t->work.partition += whi_comm_now() - begin;
    return s;
}

/* --- where what goes ----------------------------------------------------------------------------
 */

/* Sizes of this rank's part of a shuffle. t->to and t->from: rows to and from each rank, without
 * and with those that go to all. */
typedef struct sizes {
    uint64_t all;  /* rows that this rank sends to all */
    uint64_t come; /* of other ranks */
    uint64_t go;   /* to other ranks */
    uint64_t aside;
} sizes;

static uint32_t home_of(const whi_tables *t, uint32_t heavy) {
    return whi_rank_of_key(t->heavy[heavy].key, t->key_bytes, t->ranks);
}

/* How many of rank r's rows of heavy keys go to all, or aside; those that do not are added to `to`,
 * by rank. */
static uint64_t add_heavy(const whi_tables *t, uint32_t r, uint32_t table, uint64_t *to,
                          uint64_t *aside) {
    const uint64_t *counts = counts_of(t, r, table);
    uint64_t all = 0;
    *aside = 0;
    for (uint32_t i = 0; i < t->n_heavy; i++) {
        const uint64_t n = counts[t->ranks + i];
        switch ((whi_way)t->heavy[i].way[table]) {
        case WHI_WAY_HASH:
            to[home_of(t, i)] += n;
            break;
        case WHI_WAY_STAYS:
            to[r] += n;
            break;
        case WHI_WAY_ALL:
            all += n;
            break;
        case WHI_WAY_ONE:
            all += n != 0;
            break;
        case WHI_WAY_ASIDE:
            *aside += n;
            break;
        }
    }
    return all;
}

static sizes size_up(whi_tables *t, uint32_t table) {
    sizes z = {0, 0, 0, 0};
    uint64_t *to = t->bytes; /* of each rank in turn */
    for (uint32_t r = 0; r < t->ranks; r++) {
        uint64_t aside = 0;
        memcpy(to, counts_of(t, r, table), t->ranks * sizeof *to);
        const uint64_t all = add_heavy(t, r, table, to, &aside);
        for (uint32_t d = 0; d < t->ranks; d++) {
            t->given[d] += to[d] + all;
        }
        t->given[r] += aside;
        t->from[r] = to[t->rank] + all;
        z.come += r != t->rank ? t->from[r] : 0;
        if (r == t->rank) {
            memcpy(t->to, to, t->ranks * sizeof *to);
            z.all = all;
            z.aside = aside;
        }
    }
    for (uint32_t d = 0; d < t->ranks; d++) {
        z.go += d != t->rank ? t->to[d] + z.all : 0;
    }
    return z;
}

static wh_status take_rooms(whi_tables *t, const whi_rows *rows, const sizes *z,
                            whi_received *received) {
    for (uint32_t c = 0; c < rows->columns; c++) {
        const uint64_t bytes = rows->bytes[c];
        wh_status s = whi_room_for(t->device, &t->send[c], z->go * bytes);
        s = s == WH_OK ? room_to_come(t, &received->column[c], received->n * bytes) : s;
        s = s == WH_OK ? whi_room_for(t->device, &t->aside[c], z->aside * bytes) : s;
        if (s != WH_OK) {
            return s;
        }
    }
    return WH_OK;
}

/* Places of this rank's classes, and classes of its heavy keys, to the device. */
static wh_status lay_classes(whi_tables *t, uint32_t table, const sizes *z) {
    const uint32_t classes = WHI_CLASSES(t->ranks);
    whi_class_place *place = calloc((uint64_t)classes + t->ranks, sizeof *place);
    uint32_t *class_of = calloc((uint64_t)t->n_heavy + 1, sizeof *class_of);
    wh_status s = place != NULL && class_of != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    uint64_t first = 0;
    for (uint32_t d = 0; d < t->ranks && s == WH_OK; d++) {
        place[d].to = d == t->rank ? WHI_TO_OWN : WHI_TO_OTHERS;
        place[d].first = d == t->rank ? z->come : first;
        place[classes + d].to = place[d].to;
        place[classes + d].first = place[d].first + t->to[d];
        first += d == t->rank ? 0 : t->to[d] + z->all;
    }
    for (uint32_t i = 0; i < t->n_heavy && s == WH_OK; i++) {
        const uint32_t of_way[] = {home_of(t, i), t->rank, WHI_CLASS_ALL(t->ranks),
                                   WHI_CLASS_ALL(t->ranks) | WHI_CLASS_ONCE,
                                   WHI_CLASS_ASIDE(t->ranks)};
        class_of[i] = of_way[t->heavy[i].way[table]];
    }
    if (s == WH_OK) {
        place[WHI_CLASS_ASIDE(t->ranks)].to = WHI_TO_ASIDE;
        s = wh_device_copy_in(t->device, t->place, place,
                              ((uint64_t)classes + t->ranks) * sizeof *place);
        s = s == WH_OK ? wh_device_copy_in(t->device, t->class_of, class_of,
                                           ((uint64_t)t->n_heavy + 1) * sizeof *class_of)
                       : s;
        s = s == WH_OK ? wh_device_set(t->device, t->seen, 0, WHI_MOST_HEAVY * 4) : s;
        s = s == WH_OK ? wh_device_set(t->device, t->cursor, 0, (uint64_t)classes * 8) : s;
    }
    free(place);
    free(class_of);
    return s;
}

static wh_status scatter(whi_tables *t, const whi_rows *rows, const whi_received *received) {
    whi_rows_call call = call_of(t, rows);
    call.class_of = t->class_of;
    call.seen = t->seen;
    call.cursor = t->cursor;
    call.place = t->place;
    for (uint32_t c = 0; c < rows->columns; c++) {
        call.out[WHI_TO_OTHERS][c] = t->send[c].data;
        call.out[WHI_TO_OWN][c] = received->column[c].data;
        call.out[WHI_TO_ASIDE][c] = t->aside[c].data;
    }
    const wh_status s = t->kernels->scatter(t->device, &call);
    return s == WH_OK ? wh_device_sync(t->device) : s;
}

wh_status whi_tables_shuffle(whi_tables *t, uint32_t table, const whi_rows *rows,
                             whi_received *received) {
    const double begin = whi_comm_now();
    const sizes z = size_up(t, table);
    received->n = z.come + t->from[t->rank];
    t->n_aside = z.aside;
    t->work.sent += z.go;
    wh_status s = WH_OK;
    if (received->n > WH_MOST_ROWS) {
        wh_comm_report(t->comm, WH_UNSUPPORTED, MORE_ROWS);
        s = WH_UNSUPPORTED;
    } else {
        s = take_rooms(t, rows, &z, received);
        wh_comm_report(t->comm, s, "no device memory for rows that come and go");
    }
    s = s == WH_OK ? lay_classes(t, table, &z) : s;
    s = s == WH_OK ? scatter(t, rows, received) : s;
    wh_comm_report(t->comm, s, "rows could not be put in order");
    const double ordered = whi_comm_now();
    for (uint32_t c = 0; c < rows->columns; c++) {
        for (uint32_t d = 0; d < t->ranks; d++) {
            t->bytes[d] = d != t->rank ? (t->to[d] + z.all) * rows->bytes[c] : 0;
        }
        s = wh_comm_all_to_all(t->comm, t->send[c].data, t->bytes, &received->column[c]);
        if (s != WH_OK) {
            return s;
        }
    }
    t->work.partition += ordered - begin;
    t->work.exchange += whi_comm_now() - ordered;
    return WH_OK;
}
