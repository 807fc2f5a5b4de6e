/* records.c: the host's side of records (warpheap/records.h): the boxes, in memory that kernels
 * see, and what is read from them.
 *
 * The host's words: taken, store release, behind its last look at the rows below it (record.h P16).
 * Where a row between others is not ready they are read all the same: a lane may have died before
 * its last store. One that has been read says so in `ready`. */
#include "warpheap/records.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap_internal.h"
#include "last_error.h"
#include "try.h"

/* --- boxes ------------------------------------------------------------------------------------ */

static wh_record_row *row_of(wh_record_box *box, uint64_t number) {
    wh_record_row *rows = (wh_record_row *)(void *)(box + 1);
    return &rows[number & (box->n_rows - 1)];
}

static wh_status make_box(wh_heap *h, wh_record_box **box, uint64_t rows) {
    if (rows == 0) {
        return WH_OK;
    }
    const uint64_t bytes = sizeof **box + rows * sizeof(wh_record_row);
    void *p = NULL;
    TRY(h->device->ops->host_alloc(h->device, &p, bytes));
    memset(p, 0, bytes);
    *box = p;
    (*box)->n_rows = rows;
    return WH_OK;
}

wh_status whi_records_attach(wh_heap *h) {
    wh_watch *w = &h->watch;
    if (h->ops->watch_bytes == NULL) {
        return WH_OK;
    }
    if (h->ops->watch_bytes(&h->options, h->bytes, w) != WH_OK) {
        return whi_refuse(WH_BAD_ARGUMENT,
                          "an option is out of its range: tessera.checked is 0, 1 or 2, "
                          "violation_records and failure_records are at most 65536");
    }
    if (w->room_bytes == 0) {
        return WH_OK;
    }
    TRY(make_box(h, &w->violations, w->n_violations));
    TRY(make_box(h, &w->failures, w->n_failures));
    TRY(whi_heap_take(h, &w->room, w->room_bytes, NULL));
    h->ops->set_watch(h->handle, w);
    TRY(wh_device_set(h->device, w->room, 0, w->room_bytes));
    return wh_device_copy_in(h->device, w->room, w->image, w->image_bytes);
}

void whi_records_drop(wh_heap *h) {
    wh_record_box *const boxes[2] = {h->watch.violations, h->watch.failures};
    for (uint32_t i = 0; i < 2; i++) {
        if (boxes[i] != NULL) {
            (void)h->device->ops->host_free(h->device, boxes[i]);
        }
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

static uint64_t load(const uint64_t *p) {
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

/* What `ready` says of a row whose record, of this number, has been read. */
#define READ_MARK(number) (~(number))

static uint32_t read_box(wh_record_box *box, wh_record *records, uint32_t room) {
    const uint64_t end = load(&box->tickets);
    uint64_t taken = box->taken;
    uint32_t n = 0;
    int all = 1; /* below number */
    for (uint64_t number = taken; number != end && n < room; number++) {
        wh_record_row *row = row_of(box, number);
        const uint64_t ready = load(&row->ready); /* P16 */
        if (ready == number + 1) {
            records[n++] = row->record;
            __atomic_store_n(&row->ready, READ_MARK(number), __ATOMIC_RELAXED);
        }
        all = all && (ready == number + 1 || ready == READ_MARK(number));
        taken = all ? number + 1 : taken;
    }
    __atomic_store_n(&box->taken, taken, __ATOMIC_RELEASE); /* P16 */
    return n;
}

/* Rows of lanes that have ended before they could say that their record is there: they never will.
 * No kernel runs. */
void whi_records_settle(wh_heap *h) {
    whi_forget_error();
    wh_record_box *const boxes[2] = {h->watch.violations, h->watch.failures};
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t end = boxes[i] != NULL ? load(&boxes[i]->tickets) : 0;
        for (uint64_t number = end != 0 ? boxes[i]->taken : 0; number != end; number++) {
            wh_record_row *row = row_of(boxes[i], number);
            if (load(&row->ready) != number + 1) {
                __atomic_store_n(&row->ready, READ_MARK(number), __ATOMIC_RELAXED);
            }
        }
    }
}

static wh_status take_records(const wh_heap *heap, wh_record_box *box, wh_record *records,
                              size_t bytes, uint32_t room, uint32_t *n) {
    if (heap == NULL || n == NULL || (records == NULL && room != 0)) {
        return WH_BAD_ARGUMENT;
    }
    *n = 0;
    if (bytes != sizeof *records) {
        return whi_refuse(WH_WRONG_BUILD,
                          "a wh_record of %zu bytes is none that this library knows (its own has "
                          "%zu)",
                          bytes, sizeof *records);
    }
    if (box == NULL) {
        return whi_refuse(WH_UNSUPPORTED,
                          "the heap has no such records: it is to be one of tessera, with the "
                          "option checked or failure_records");
    }
    *n = read_box(box, records, room);
    return WH_OK;
}

wh_status wh_heap_violations(wh_heap *heap, wh_record *records, size_t record_bytes, uint32_t room,
                             uint32_t *n) {
    return take_records(heap, heap != NULL ? heap->watch.violations : NULL, records, record_bytes,
                        room, n);
}

wh_status wh_heap_failures(wh_heap *heap, wh_record *records, size_t record_bytes, uint32_t room,
                           uint32_t *n) {
    return take_records(heap, heap != NULL ? heap->watch.failures : NULL, records, record_bytes,
                        room, n);
}

wh_status wh_heap_record_counts(wh_heap *heap, uint64_t *counts, uint32_t n) {
    whi_forget_error();
    if (heap == NULL || (counts == NULL && n != 0)) {
        return WH_BAD_ARGUMENT;
    }
    for (uint32_t kind = 0; kind < n; kind++) {
        const wh_record_box *box =
            WH_RECORD_IS_FAILURE(kind) ? heap->watch.failures : heap->watch.violations;
        counts[kind] = kind < WH_RECORD_KINDS && box != NULL ? load(&box->counts[kind]) : 0;
    }
    return WH_OK;
}

/* --- text ------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *text;
    wh_status status;
} kinds[WH_RECORD_KINDS] = {
#define ROW(name, status, text) {#name, text, WH_##status},
    WH_RECORD_KIND_LIST(ROW)
#undef ROW
};

const char *wh_record_name(uint32_t kind) {
    return kind < WH_RECORD_KINDS ? kinds[kind].name : "";
}

wh_status wh_record_status(uint32_t kind) {
    return kind < WH_RECORD_KINDS ? kinds[kind].status : WH_BAD_ARGUMENT;
}

/* A text that grows in a buffer, and ends where that does. */
typedef struct {
    char *at;
    size_t room;
} text_out;

static void put(text_out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(text_out *out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(out->at, out->room, format, args);
    va_end(args);
    const size_t used = n > 0 ? (size_t)n : 0;
    const size_t fits = used < out->room ? used : out->room - 1;
    out->at += fits;
    out->room -= fits;
}

static void put_site(text_out *out, const char *before, const wh_record_site *site) {
    if (site->file[0] != '\0') {
        put(out, "%s%.*s:%" PRIu32, before, (int)sizeof site->file, site->file, site->line);
    } else if (site->line != 0) {
        put(out, "%stag %" PRIu32, before, site->line);
    }
}

static void put_failure(text_out *out, const wh_record *r) {
    put(out, "; %" PRIu64 " bytes asked for, %" PRIu64 " free, %" PRIu64 " in a row", r->bytes,
        r->free_bytes, r->largest_free);
    if (r->class_bytes != 0) {
        put(out, ", blocks of %" PRIu64 ": %" PRIu64 " partial slabs", r->class_bytes,
            r->class_partial);
    }
}

static void put_violation(text_out *out, const wh_record *r) {
    put(out, "; address 0x%" PRIx64, r->address);
    if (r->bytes != 0) {
        put(out, ", block of %" PRIu64 " bytes", r->bytes);
    }
    if (r->offset != 0 || r->kind == WH_RECORD_USE_AFTER_FREE) {
        put(out, ", offset %" PRId64, r->offset);
    }
    put_site(out, ", allocated at ", &r->allocated);
    put_site(out, ", freed at ", &r->freed);
}

const char *wh_record_text(const wh_record *record, char *text, size_t room) {
    if (text == NULL || room == 0) {
        return "";
    }
    text_out out = {text, room};
    text[0] = '\0';
    if (record == NULL || record->kind >= WH_RECORD_KINDS) {
        return text;
    }
    put(&out, "%s: %s", kinds[record->kind].name, kinds[record->kind].text);
    put_site(&out, ", at ", &record->site);
    if (record->thread != WH_UNKNOWN) {
        put(&out, ", block %" PRIu32 ", thread %" PRIu64, record->block, record->thread);
    }
    if (WH_RECORD_IS_FAILURE(record->kind)) {
        put_failure(&out, record);
    } else {
        put_violation(&out, record);
    }
    return text;
}
