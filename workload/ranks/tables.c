/* tables.c: what a join and a group-by of several ranks share: opened, closed, begun and ended. */
#include "workload/ranks/tables_own.h"

#include <stdlib.h>
#include <string.h>

#include "warpheap/detail/alloc/tables.h"

#include "workload/ranks/tables_count.h"

WH_TABLES_ONCE(whi_tables_kernels, whi_tables_kernels_find)

#define MOST_RANKS 1024u
#define SLOTS (4 * WHI_MOST_HEAVY)

int whi_tables_are_dead(const whi_tables *t) {
    const wh_comm_reason reason = wh_comm_last_failure(t->comm)->reason;
    return reason != WH_COMM_NOTHING && reason != WH_COMM_REPORTED;
}

wh_status whi_tables_begin(whi_tables *t, const char *what) {
    if (whi_tables_are_dead(t)) {
        return wh_comm_last_failure(t->comm)->status;
    }
    uint64_t check = ++t->calls << 32;
    for (const char *c = what; *c != '\0'; c++) {
        check = check * 31 + (unsigned char)*c;
    }
    wh_comm_expect(t->comm, check, what);
    return WH_OK;
}

void whi_tables_clear(whi_tables *t) {
    memset(&t->work, 0, sizeof t->work);
    memset(t->given, 0, t->ranks * sizeof *t->given);
    t->n_heavy = 0;
}

void whi_tables_report(whi_tables *t, wh_status status, const char *what) {
    const char *text = wh_last_error_text();
    wh_comm_report(t->comm, status, text[0] != '\0' ? text : what);
}

/* --- memory -------------------------------------------------------------------------------------
 */

wh_status whi_room_for(wh_device *device, whi_room *room, uint64_t bytes) {
    void *p = NULL;
    if (bytes <= room->bytes && room->data != NULL) {
        return WH_OK;
    }
    whi_room_free(device, room);
    const wh_status s = wh_device_alloc(device, &p, bytes + bytes / 8 + 64);
    room->data = p;
    room->bytes = s == WH_OK ? bytes + bytes / 8 + 64 : 0;
    return s;
}

void whi_room_free(wh_device *device, whi_room *room) {
    if (room->data != NULL) {
        (void)wh_device_free(device, room->data);
    }
    memset(room, 0, sizeof *room);
}

uint64_t whi_rows_ahead(const whi_tables *t, uint64_t n, int is_first) {
    const uint64_t more = t->ranks == 1 && is_first ? n : n + n / 8 + 64;
    return more < WH_MOST_ROWS ? more : WH_MOST_ROWS;
}

/* Parts of one piece of device memory, those of 8 bytes an entry first. */
static wh_status take_scratch(whi_tables *t) {
    const uint64_t classes = WHI_CLASSES(t->ranks), counts = t->ranks + WHI_MOST_HEAVY;
    const uint64_t eights =
        t->samples + SLOTS + counts + classes + 2 * (classes + (uint64_t)t->ranks);
    const uint64_t fours = SLOTS + 2 * WHI_MOST_HEAVY;
    void *p = NULL;
    const wh_status s = wh_device_alloc(t->device, &p, eights * 8 + fours * 4);
    if (s != WH_OK) {
        return s;
    }
    t->scratch = p;
    t->sample_out = p;
    t->heavy_key = t->sample_out + t->samples;
    t->counts = t->heavy_key + SLOTS;
    t->cursor = t->counts + counts;
    t->place = (whi_class_place *)(void *)(t->cursor + classes);
    t->heavy_number = (uint32_t *)(void *)(t->place + classes + t->ranks);
    t->class_of = t->heavy_number + SLOTS;
    t->seen = t->class_of + WHI_MOST_HEAVY;
    return WH_OK;
}

static wh_status take_host(whi_tables *t) {
    const uint64_t counts = (uint64_t)WHI_TABLES * (t->ranks + WHI_MOST_HEAVY);
    const uint64_t words = WHI_MESSAGE_HEAD + 3 * WHI_TABLES * (uint64_t)t->samples;
    t->message = calloc(words > counts ? words : counts, sizeof *t->message);
    t->counted = calloc(WHI_COUNTED_SLOTS(t->samples), sizeof *t->counted);
    t->brought[0] = calloc((uint64_t)t->ranks * 6, sizeof(uint64_t));
    if (t->message == NULL || t->counted == NULL || t->brought[0] == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    t->brought[1] = t->brought[0] + t->ranks;
    t->given = t->brought[1] + t->ranks;
    t->to = t->given + t->ranks;
    t->from = t->to + t->ranks;
    t->bytes = t->from + t->ranks;
    return WH_OK;
}

wh_status whi_tables_open(whi_tables *t, wh_comm *comm, wh_heap *heap, uint32_t key_bytes) {
    wh_status s = WH_OK;
    t->comm = comm;
    t->rank = (uint32_t)wh_comm_rank(comm);
    t->ranks = (uint32_t)wh_comm_size(comm);
    t->key_bytes = whi_key_bytes(key_bytes);
    t->samples = t->ranks * WHI_SAMPLES_A_RANK;
    t->samples = t->samples > WHI_LEAST_SAMPLES ? t->samples : WHI_LEAST_SAMPLES;
    t->samples = t->samples < WHI_MOST_SAMPLES ? t->samples : WHI_MOST_SAMPLES;
    if (heap == NULL || (t->key_bytes != 4 && t->key_bytes != 8)) {
        wh_comm_report(comm, WH_BAD_ARGUMENT, "a heap, and keys of 4 or 8 bytes, please");
        return WH_BAD_ARGUMENT;
    }
    if (t->ranks > MOST_RANKS) {
        wh_comm_report(comm, WH_UNSUPPORTED, "tables on more than 1,024 ranks");
        return WH_UNSUPPORTED;
    }
    t->device = wh_heap_device(heap);
    t->kernels = whi_tables_kernels_find(wh_device_get_info(t->device)->target);
    if (t->kernels == NULL) {
        s = WH_UNSUPPORTED;
    }
    s = s == WH_OK ? take_scratch(t) : s;
    s = s == WH_OK ? take_host(t) : s;
    wh_comm_report(comm, s, "no memory for tables on several ranks, or no kernels");
    return s;
}

void whi_received_close(whi_tables *t, whi_received *r) {
    for (uint32_t c = 0; c < WHI_ROWS_COLUMNS && !whi_tables_are_dead(t); c++) {
        wh_comm_buffer_free(&r->column[c]); /* else they may be in use */
    }
    r->n = 0;
}

void whi_tables_close(whi_tables *t) {
    for (uint32_t c = 0; c < WHI_ROWS_COLUMNS && t->device != NULL; c++) {
        whi_room_free(t->device, &t->aside[c]);
        if (!whi_tables_are_dead(t)) {
            whi_room_free(t->device, &t->send[c]);
        }
    }
    if (t->scratch != NULL) {
        (void)wh_device_free(t->device, t->scratch);
    }
    if (!whi_tables_are_dead(t)) {
        free(t->message);
        wh_comm_buffer_free(&t->gathered);
    }
    free(t->counted);
    free(t->brought[0]);
}

/* --- the end of a run ---------------------------------------------------------------------------
 */

#define ENDING_WORDS (sizeof(whi_ending) / sizeof(uint64_t))

static void sum_up(whi_tables *t, whi_ending *all) {
    const uint64_t *words = (const uint64_t *)(const void *)t->gathered.data;
    int is_lost = 0, is_stuck = 0;
    memset(all, 0, sizeof *all);
    for (uint32_t r = 0; r < t->ranks; r++, words += ENDING_WORDS) {
        whi_ending e;
        memcpy(&e, words, sizeof e);
        all->status = all->status == WH_OK ? e.status : all->status;
        all->all_rows += e.all_rows;
        all->has_rows += e.is_stopped && e.has_rows;
        is_lost |= e.status != WH_OK && !e.is_stopped;
        is_stuck |= e.is_stopped && !e.has_rows;
    }
    all->is_stopped = all->status != WH_OK && !is_lost;
    all->has_rows = is_lost || is_stuck ? 0 : all->has_rows;
}

static void sum_up_work(whi_tables *t) {
    t->work.heavy = t->n_heavy;
    t->work.rows = t->given[t->rank];
    t->work.all_rows = t->work.most_rows = 0;
    for (uint32_t r = 0; r < t->ranks; r++) {
        t->work.all_rows += t->given[r];
        t->work.most_rows = t->given[r] > t->work.most_rows ? t->given[r] : t->work.most_rows;
    }
}

wh_status whi_tables_end(whi_tables *t, const whi_ending *own, const char *what, whi_ending *all) {
    char text[160];
    memset(all, 0, sizeof *all);
    memset(text, 0, sizeof text);
    strncpy(text, what, sizeof text - 1);
    const wh_status s = wh_comm_all_gather(t->comm, own, sizeof *own, &t->gathered);
    if (s != WH_OK) {
        return s;
    }
    sum_up(t, all);
    sum_up_work(t);
    if (all->status == WH_OK) {
        return WH_OK;
    }
    wh_comm_report(t->comm, (wh_status)own->status, text);
    return wh_comm_agree(t->comm); /* says which rank, and why */
}

whi_stage whi_tables_stage(wh_status ended, const whi_ending *all) {
    if (ended == WH_OK) {
        return WHI_DONE;
    }
    return all->is_stopped ? WHI_STOPPED : WHI_IDLE;
}
