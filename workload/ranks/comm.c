/* comm.c: the calls of the communicator that are the same for all engines. */
#include "workload/ranks/comm_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what the lines of all ranks say ------------------------------------------------------------
 */

typedef uint64_t (*field_of)(const whi_comm_header *h);

static uint64_t build_of(const whi_comm_header *h) {
    return h->magic ^ (uint64_t)h->header_bytes << 32 ^ h->version << 40;
}
static uint64_t call_of(const whi_comm_header *h) {
    return h->sequence << 8 | h->call;
}
static uint64_t check_of(const whi_comm_header *h) {
    return h->check;
}

/* How many ranks have the same as rank r. */
static int alike(const wh_comm *c, field_of field, int r) {
    int n = 0;
    for (int i = 0; i < c->size; i++) {
        n += field(&c->in[i]) == field(&c->in[r]);
    }
    return n;
}

/* The first rank that has not what most have; of two that as many have, what the lower rank has
 * counts. -1: all have the same. *usual: a rank that has what most have. */
static int odd_one(const wh_comm *c, field_of field, int *usual) {
    *usual = 0;
    if (alike(c, field, 0) == c->size) {
        return -1;
    }
    for (int r = 1; r < c->size; r++) {
        *usual = alike(c, field, r) > alike(c, field, *usual) ? r : *usual;
    }
    int odd = 0;
    while (field(&c->in[odd]) == field(&c->in[*usual])) {
        odd++;
    }
    return odd;
}

wh_status whi_comm_judge(wh_comm *c) {
    int usual = 0, odd = odd_one(c, build_of, &usual);
    const whi_comm_header *in = c->in;
    if (odd >= 0) {
        return whi_comm_fail(c, odd, WH_COMM_OTHER_BUILD, WH_WRONG_BUILD,
                             "rank %d is of version %llu, rank %d of version %llu", odd,
                             (unsigned long long)in[odd].version, usual,
                             (unsigned long long)in[usual].version);
    }
    odd = odd_one(c, call_of, &usual);
    if (odd >= 0) {
        return whi_comm_fail(c, odd, WH_COMM_UNEQUAL, WH_BAD_ARGUMENT,
                             "rank %d is in its call %llu, %s; rank %d in its call %llu, %s", odd,
                             (unsigned long long)in[odd].sequence, whi_comm_call_name(in[odd].call),
                             usual, (unsigned long long)in[usual].sequence,
                             whi_comm_call_name(in[usual].call));
    }
    for (int r = 0; r < c->size; r++) {
        if (in[r].status != WH_OK) {
            const wh_status s =
                in[r].status < WH_STATUS_COUNT ? (wh_status)in[r].status : WH_DEVICE_ERROR;
            return whi_comm_fail(c, r, WH_COMM_REPORTED, s, "rank %d: %s: %.95s", r,
                                 wh_status_name(s), in[r].text);
        }
    }
    odd = odd_one(c, check_of, &usual);
    if (odd >= 0) {
        return whi_comm_fail(c, odd, WH_COMM_UNEQUAL, WH_BAD_ARGUMENT,
                             "rank %d has other %.95s in its %s than rank %d", odd, in[odd].text,
                             whi_comm_call_name(in[odd].call), usual);
    }
    return WH_OK;
}

static void add_u64(uint64_t *to, uint64_t x, wh_comm_op op) {
    const uint64_t larger = x > *to ? x : *to, smaller = x > *to ? *to : x;
    const uint64_t results[] = {*to + x, larger, smaller};
    *to = results[op];
}

static void add_f64(uint64_t *to, uint64_t bits, wh_comm_op op) {
    double x = 0, y = 0;
    memcpy(&x, to, sizeof x);
    memcpy(&y, &bits, sizeof y);
    const double results[] = {x + y, y > x ? y : x, y > x ? x : y};
    memcpy(to, &results[op], sizeof *to);
}

/* Few numbers, of all ranks' lines, in the order of the ranks: the same bits on all. */
static void reduce_few(wh_comm *c, const whi_comm_numbers *numbers) {
    uint64_t few[WHI_COMM_FEW];
    memcpy(few, c->in[0].numbers, sizeof few);
    for (int r = 1; r < c->size; r++) {
        for (uint64_t i = 0; i < numbers->n; i++) {
            (numbers->type == WH_COMM_U64 ? add_u64 : add_f64)(&few[i], c->in[r].numbers[i],
                                                               numbers->op);
        }
    }
    memcpy(numbers->data, few, numbers->n * 8);
    c->stats.reduced += numbers->n * 8;
}

wh_status whi_comm_headers(wh_comm *c, whi_comm_call call, uint64_t check) {
    const whi_comm_numbers few = c->few;
    c->agreed = 0;
    c->few.n = 0;
    if (c->dead) {
        return c->failure.status;
    }
    for (int r = 0; r < c->size; r++) {
        whi_comm_header *h = &c->out[r];
        memset(h, 0, sizeof *h);
        h->magic = WHI_COMM_MAGIC;
        h->header_bytes = (uint32_t)sizeof *h;
        h->version = c->version;
        h->sequence = c->sequence;
        h->check = check + c->check + few.n;
        h->bytes = c->report == WH_OK ? c->bytes[r] : 0;
        h->call = (uint32_t)call;
        h->status = (uint32_t)c->report;
        const char *what = c->what != NULL ? c->what : "sizes";
        (void)snprintf(h->text, sizeof h->text, "%s", c->report != WH_OK ? c->report_text : what);
        if (few.n != 0) {
            memcpy(h->numbers, few.data, few.n * 8);
        }
    }
    c->sequence++;
    c->report = WH_OK;
    c->what = NULL;
    c->check = 0;
    memset(c->report_text, 0, sizeof c->report_text);
    const double begin = whi_comm_now();
    const wh_status s = whi_comm_mpi_headers(c);
    c->stats.calls++;
    c->stats.lines += (uint64_t)(c->size - 1) * sizeof *c->out;
    c->stats.waited += whi_comm_now() - begin;
    const wh_status judged = s != WH_OK ? s : whi_comm_judge(c);
    c->agreed = judged == WH_OK;
    if (c->agreed && few.n != 0 && c->size != 1) {
        reduce_few(c, &few);
    }
    return judged;
}

/* --- calls --------------------------------------------------------------------------------------
 */

wh_status wh_comm_agree(wh_comm *c) {
    if (c == NULL) {
        return WH_BAD_ARGUMENT;
    }
    whi_comm_no_bytes(c);
    return whi_comm_headers(c, WHI_COMM_AGREE, 0);
}

wh_status wh_comm_give_up(wh_comm *c, wh_status status, const char *line) {
    if (c == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (!c->dead) {
        (void)whi_comm_fail(c, c->rank, WH_COMM_ENGINE, status, "rank %d: %s: %.120s", c->rank,
                            wh_status_name(status), line != NULL ? line : "");
        whi_comm_tell(c);
    }
    return status;
}

static void free_data(wh_comm_buffer *b) {
    if (b->device == NULL) {
        free(b->data);
    } else if (b->data != NULL) {
        (void)wh_device_free(b->device, b->data);
    }
    b->data = NULL;
    b->room = 0;
}

static int take_data(wh_comm_buffer *b, uint64_t bytes) {
    void *p = NULL;
    free_data(b);
    if (b->device == NULL) {
        p = malloc(bytes);
    } else if (wh_device_alloc(b->device, &p, bytes) != WH_OK) {
        return 0;
    }
    b->data = p;
    b->room = p != NULL ? bytes : 0;
    return p != NULL;
}

wh_status wh_comm_buffer_reserve(wh_comm_buffer *b, uint64_t bytes) {
    void *p = NULL;
    wh_status s = WH_OK;
    if (b->data != NULL && bytes <= b->room) {
        return WH_OK;
    }
    if (b->device != NULL) {
        s = wh_device_alloc(b->device, &p, bytes + 64);
    } else {
        p = malloc(bytes + 64);
        s = p != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    }
    if (s == WH_OK) {
        free_data(b);
        b->data = p;
        b->room = bytes + 64;
    }
    return s;
}

void wh_comm_buffer_free(wh_comm_buffer *b) {
    if (b == NULL) {
        return;
    }
    free_data(b);
    free(b->bytes);
    free(b->offset);
    memset(b, 0, sizeof *b);
}

#define MOST_BYTES (UINT64_MAX / 4) /* that come; far more than there can be */

/* Room for what the lines of the other ranks announce. */
static wh_status make_room(const wh_comm *c, wh_comm_buffer *b) {
    const size_t entries = (size_t)c->size + 1;
    if (b->bytes == NULL) {
        b->bytes = calloc(entries, sizeof *b->bytes);
        b->offset = calloc(entries, sizeof *b->offset);
    }
    if (b->bytes == NULL || b->offset == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    uint64_t sum = 0;
    int is_much = 0;
    for (int r = 0; r < c->size; r++) {
        b->bytes[r] = c->in[r].bytes;
        b->offset[r] = sum;
        is_much |= b->bytes[r] > MOST_BYTES - sum;
        sum += is_much ? 0 : b->bytes[r];
    }
    b->offset[c->size] = sum;
    if (is_much || sum > c->most) {
        return WH_OUT_OF_MEMORY;
    }
    const int fits = b->data != NULL && sum <= b->room;
    return fits || take_data(b, sum + sum / 4 + 64) ? WH_OK : WH_OUT_OF_MEMORY;
}

/* Host memory of the communicator for data of devices, `bytes` at least. */
static unsigned char *staged(wh_comm *c, int which, uint64_t bytes) {
    if (bytes > c->staged_room[which]) {
        free(c->staged[which]);
        c->staged_room[which] = bytes + bytes / 4 + 64;
        c->staged[which] = malloc(c->staged_room[which]);
        c->staged_room[which] *= c->staged[which] != NULL;
    }
    return c->staged_room[which] != 0 ? c->staged[which] : NULL;
}

/* Whether rank r gets what the rank before it gets, as in an all-gather. */
static int is_as_before(const wh_comm *c, int r) {
    return r != 0 && c->from[r] == c->from[r - 1] && c->bytes[r] == c->bytes[r - 1];
}

/* What goes, from the device, each part once; where what comes will be. */
static wh_status stage_out(wh_comm *c, const wh_comm_buffer *got) {
    uint64_t at = 0;
    for (int r = 0; r < c->size; r++) {
        at += is_as_before(c, r) ? 0 : c->bytes[r];
    }
    unsigned char *out = staged(c, 0, at + 1), *in = staged(c, 1, got->offset[c->size] + 1);
    if (out == NULL || in == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    wh_status s = WH_OK;
    for (int r = c->size; r-- > 0 && s == WH_OK;) { /* from[r - 1] is still as it was */
        const int is_same = is_as_before(c, r);
        at -= is_same ? 0 : c->bytes[r];
        if (!is_same && c->bytes[r] != 0) {
            s = wh_device_copy_out(got->device, out + at, c->from[r], c->bytes[r]);
        }
        c->from[r] = is_same ? out + at - c->bytes[r] : out + at;
        c->to[r] = in + got->offset[r];
    }
    return s;
}

static wh_status give_up_on_device(wh_comm *c, wh_status s) {
    return wh_comm_give_up(c, s, "data cannot be copied from the device, or to it");
}

/* By the engine, or through host memory if that does not take the device's. */
static wh_status exchange(wh_comm *c, const wh_comm_buffer *got) {
    const int takes =
        got->device != NULL && c->engine->takes != NULL && c->engine->takes(c, got->device);
    const whi_comm_exchange x = {c->from, c->bytes, c->to, got->bytes, takes};
    if (takes) {
        return c->engine->exchange(c, &x);
    }
    if (got->device != NULL) {
        const wh_status s = stage_out(c, got);
        if (s != WH_OK) {
            return give_up_on_device(c, s);
        }
    }
    if (c->bytes[c->rank] != 0) {
        memcpy(c->to[c->rank], c->from[c->rank], c->bytes[c->rank]);
    }
    const wh_status moved = c->engine->exchange(c, &x);
    if (moved != WH_OK || got->device == NULL || got->offset[c->size] == 0) {
        return moved;
    }
    const wh_status s =
        wh_device_copy_in(got->device, got->data, c->staged[1], got->offset[c->size]);
    return s == WH_OK ? s : give_up_on_device(c, s);
}

/* Moves what c->from and c->bytes say. */
static wh_status move_data(wh_comm *c, wh_comm_buffer *got) {
    const double begin = whi_comm_now();
    if (make_room(c, got) != WH_OK) {
        /* the others are about to send: too late to report it */
        (void)whi_comm_fail(c, c->rank, WH_COMM_ENGINE, WH_OUT_OF_MEMORY,
                            "rank %d has no %s memory for %llu bytes of the other ranks", c->rank,
                            got->device != NULL ? "device" : "host",
                            (unsigned long long)(got->offset != NULL ? got->offset[c->size] : 0));
        whi_comm_tell(c);
        return WH_OUT_OF_MEMORY;
    }
    for (int r = 0; r < c->size; r++) {
        c->to[r] = got->data + got->offset[r];
        c->stats.sent += r != c->rank ? c->bytes[r] : 0;
        c->stats.got += r != c->rank ? got->bytes[r] : 0;
    }
    const wh_status s = exchange(c, got);
    c->stats.moved += whi_comm_now() - begin;
    return s;
}

wh_status wh_comm_all_to_all(wh_comm *c, const void *data, const uint64_t *bytes,
                             wh_comm_buffer *got) {
    const unsigned char *at = data;
    uint64_t sum = 0;
    if (c == NULL) {
        return WH_BAD_ARGUMENT;
    }
    for (int r = 0; r < c->size && bytes != NULL; r++) {
        sum += bytes[r];
    }
    if (bytes == NULL || got == NULL || (data == NULL && sum != 0)) {
        wh_comm_report(c, WH_BAD_ARGUMENT, "all-to-all without data, bytes, or a buffer");
    }
    const int works = c->report == WH_OK;
    for (int r = 0; r < c->size; r++) {
        c->bytes[r] = works ? bytes[r] : 0;
        c->from[r] = at;
        at = works && at != NULL ? at + bytes[r] : at;
    }
    const wh_status s = whi_comm_headers(c, WHI_COMM_ALL_TO_ALL, 0);
    return s != WH_OK ? s : move_data(c, got);
}

wh_status wh_comm_all_gather(wh_comm *c, const void *data, uint64_t bytes, wh_comm_buffer *got) {
    if (c == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (got == NULL || (data == NULL && bytes != 0)) {
        wh_comm_report(c, WH_BAD_ARGUMENT, "all-gather without data, or a buffer");
    }
    for (int r = 0; r < c->size; r++) {
        c->bytes[r] = bytes;
        c->from[r] = data;
    }
    const wh_status s = whi_comm_headers(c, WHI_COMM_ALL_GATHER, 0);
    return s != WH_OK ? s : move_data(c, got);
}

wh_status wh_comm_all_reduce(wh_comm *c, void *data, uint64_t n, wh_comm_type type, wh_comm_op op) {
    const whi_comm_numbers numbers = {data, n, type, op};
    if (c == NULL) {
        return WH_BAD_ARGUMENT;
    }
    whi_comm_no_bytes(c);
    memset(&c->few, 0, sizeof c->few);
    const int is_bad = (data == NULL && n != 0) || (unsigned)type > WH_COMM_F64 ||
                       (unsigned)op > WH_COMM_MIN || n > UINT64_MAX / 256;
    if (is_bad) {
        wh_comm_report(c, WH_BAD_ARGUMENT, "all-reduce without numbers, or of no such kind");
    } else if (n <= WHI_COMM_FEW) {
        c->few = numbers;
    }
    const wh_status s =
        whi_comm_headers(c, WHI_COMM_ALL_REDUCE, n << 8 | (uint64_t)type << 4 | (uint64_t)op);
    if (s != WH_OK || n <= WHI_COMM_FEW || c->size == 1) {
        return s;
    }
    c->stats.reduced += n * 8;
    const double begin = whi_comm_now();
    const wh_status reduced = c->engine->reduce(c, &numbers);
    c->stats.moved += whi_comm_now() - begin;
    return reduced;
}

void wh_comm_add(wh_comm *c, uint64_t *data, uint64_t n) {
    const whi_comm_numbers numbers = {data, n, WH_COMM_U64, WH_COMM_SUM};
    const whi_comm_numbers none = {NULL, 0, WH_COMM_U64, WH_COMM_SUM};
    const int is_bad = n > WHI_COMM_FEW || (data == NULL && n != 0);
    if (is_bad) {
        wh_comm_report(c, WH_BAD_ARGUMENT, "numbers to add: none, or more than four");
    }
    c->few = is_bad ? none : numbers;
}
