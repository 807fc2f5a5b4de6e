/* report.c: rows of `warpheap bench --ranks`, as a table and as JSON; rank 0 writes both. */
#include <string.h>

#include "bench/ranks/ranks.h"

/* A row as all ranks together see it. Times are of the rank that took longest. */
typedef struct result {
    double us[WHI_RANKS_MOST_REPS], waited, moved; /* waited, moved: microseconds a call; phase, too
                                                    */
    double phase[WHI_RANKS_MOST_PHASES];
    uint64_t n, per_rank;
    uint64_t calls, lines;   /* of the communicator, of a rank, a call */
    uint64_t sent, sent_all; /* bytes a call: of the rank that sent most, of all */
    double median, least, most, one;
    uint64_t failed, bad;
} result;

static json_t *integer(uint64_t v) {
    return json_integer((json_int_t)v);
}

/* --- all ranks ------------------------------------------------------------------------------- */

static wh_status gather_times(whi_ranks *b, const whi_ranks_series *s, double each, result *r) {
    const double calls = s->n * each;
    double times[WHI_RANKS_MOST_REPS + WHI_RANKS_MOST_PHASES + 2];
    memcpy(times, s->us, s->n * sizeof *times);
    double *rest = &times[s->n];
    rest[0] = s->sum.waited * 1e6 / calls;
    rest[1] = s->sum.moved * 1e6 / calls;
    for (uint32_t i = 0; i < s->n_phases; i++) {
        rest[2 + i] = s->phase[i] * 1e6 / calls;
    }
    const uint64_t n = s->n + 2 + s->n_phases;
    WHI_BENCH_TRY(wh_comm_all_reduce(b->comm, times, n, WH_COMM_F64, WH_COMM_MAX));
    r->waited = rest[0];
    r->moved = rest[1];
    memcpy(r->phase, &rest[2], s->n_phases * sizeof *rest);
    r->least = r->most = times[0] / each;
    for (uint32_t i = 0; i < s->n; i++) {
        r->us[i] = times[i] / each;
        r->least = r->us[i] < r->least ? r->us[i] : r->least;
        r->most = r->us[i] > r->most ? r->us[i] : r->most;
    }
    r->median = whi_bench_median(r->us, s->n);
    return WH_OK;
}

static wh_status gather(whi_ranks *b, const whi_ranks_row *row, result *r) {
    const whi_ranks_series *s = row->series;
    const uint64_t each = row->per_call != 0 ? row->per_call : 1, calls = s->n * each;
    memset(r, 0, sizeof *r);
    WHI_BENCH_TRY(gather_times(b, s, (double)each, r));
    uint64_t most[3] = {s->sum.sent / calls, s->sum.calls / calls, s->sum.lines / calls};
    uint64_t sums[2] = {most[0], row->bad};
    WHI_BENCH_TRY(wh_comm_all_reduce(b->comm, most, 3, WH_COMM_U64, WH_COMM_MAX));
    WHI_BENCH_TRY(whi_ranks_sum(b, sums, 2));
    r->sent = most[0];
    r->calls = most[1];
    r->lines = most[2];
    r->sent_all = sums[0];
    r->bad = sums[1];
    if (b->rank == 0 && row->one != NULL) {
        r->one = whi_bench_median(row->one->us, row->one->n);
    }
    return WH_OK;
}

/* --- the table ------------------------------------------------------------------------------- */

static void show_header(whi_ranks *b) {
    if (!b->header_shown) {
        b->header_shown = 1;
        (void)printf("%-10s %-12s %-9s %10s %10s %11s %11s %11s %11s %6s %9s %11s %10s %10s %6s "
                     "%5s\n",
                     "case", "op", "input", "n", "n/rank", "us", "min", "max", "one device", "x",
                     "M/s", "sent/rank", "waited", "moved", "failed", "bad");
    }
}

static void show_begin(whi_ranks *b) {
    show_header(b);
    (void)printf("%-10s %-12s %-9s %10llu ", b->case_name, b->part.op != NULL ? b->part.op : "-",
                 b->part.input != NULL ? b->part.input : "-", (unsigned long long)b->part.n);
}

static void show(whi_ranks *b, const whi_ranks_row *row, const result *r) {
    char one[32] = "-", times[32] = "-";
    if (r->one > 0) {
        (void)snprintf(one, sizeof one, "%.1f", r->one);
        (void)snprintf(times, sizeof times, "%.2f", r->one / r->median);
    }
    show_begin(b);
    (void)printf("%10llu %11.1f %11.1f %11.1f %11s %6s %9.2f %11llu %10.1f %10.1f %6llu %5llu",
                 (unsigned long long)r->per_rank, r->median, r->least, r->most, one, times,
                 r->median > 0 ? (double)b->part.n / r->median : 0, (unsigned long long)r->sent,
                 r->waited, r->moved, (unsigned long long)r->failed, (unsigned long long)r->bad);
    for (size_t i = 0; i < row->n_values; i++) {
        (void)printf("  %s %.*f", row->values[i].name, row->values[i].decimals,
                     row->values[i].value);
    }
    for (uint32_t i = 0; i < row->series->n_phases; i++) {
        (void)printf("  %s %.1f us", row->series->phase_name[i], r->phase[i]);
    }
    (void)printf("%s%s\n", row->note != NULL ? "  " : "", row->note != NULL ? row->note : "");
    (void)fflush(stdout);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static json_t *part_of(const whi_ranks *b) {
    json_t *j = json_object();
    int e = json_object_set_new(j, "alloc", json_string(wh_allocator_find("default")->name));
    e |= json_object_set_new(j, "case", json_string(b->case_name));
    if (b->part.op != NULL) {
        e |= json_object_set_new(j, "op", json_string(b->part.op));
    }
    if (b->part.input != NULL) {
        e |= json_object_set_new(j, "input", json_string(b->part.input));
    }
    e |= json_object_set_new(j, "ranks", integer((uint64_t)b->size));
    e |= json_object_set_new(j, "n", integer(b->part.n));
    e |= json_object_set_new(j, "threads", integer(b->part.n)); /* as other cases have arcs, rows */
    if (e != 0) {
        json_decref(j);
        return NULL;
    }
    return j;
}

/* The row goes to the file at once, so that a run that is ended keeps what it has. */
static void write_row(whi_ranks *b, json_t *j, int e) {
    if (j == NULL || e != 0 || (b->json != NULL && whi_bench_write_line(j, b->json) != 0)) {
        b->unwritten = 1;
    }
    json_decref(j);
}

static void write_result(whi_ranks *b, const whi_ranks_row *row, const result *r) {
    json_t *j = part_of(b);
    int e = json_object_set_new(j, "n_rank", integer(r->per_rank));
    e |= json_object_set_new(j, "size", integer(row->size));
    e |= json_object_set_new(j, "reps", integer(row->series->n));
    e |= json_object_set_new(j, "us", json_real(r->median));
    e |= json_object_set_new(j, "us_min", json_real(r->least));
    e |= json_object_set_new(j, "us_max", json_real(r->most));
    e |= json_object_set_new(j, "us_one", row->one != NULL ? json_real(r->one) : json_null());
    e |= json_object_set_new(
        j, "speedup", r->one > 0 && r->median > 0 ? json_real(r->one / r->median) : json_null());
    e |= json_object_set_new(j, "mops",
                             json_real(r->median > 0 ? (double)b->part.n / r->median : 0));
    e |= json_object_set_new(j, "calls", integer(r->calls));
    e |= json_object_set_new(j, "lines", integer(r->lines));
    e |= json_object_set_new(j, "sent", integer(r->sent));
    e |= json_object_set_new(j, "sent_all", integer(r->sent_all));
    e |= json_object_set_new(j, "us_waited", json_real(r->waited));
    e |= json_object_set_new(j, "us_moved", json_real(r->moved));
    for (uint32_t i = 0; i < row->series->n_phases; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "us_%s", row->series->phase_name[i]);
        e |= json_object_set_new(j, name, json_real(r->phase[i]));
    }
    e |= json_object_set_new(j, "failed", integer(r->failed));
    e |= json_object_set_new(j, "bad", integer(r->bad));
    for (size_t i = 0; i < row->n_values; i++) {
        e |= json_object_set_new(j, row->values[i].name,
                                 row->values[i].decimals != 0
                                     ? json_real(row->values[i].value)
                                     : integer((uint64_t)row->values[i].value));
    }
    if (row->note != NULL) {
        e |= json_object_set_new(j, "note", json_string(row->note));
    }
    write_row(b, j, e);
}

wh_status whi_ranks_emit(whi_ranks *b, const whi_ranks_row *row) {
    result r;
    WHI_BENCH_TRY(gather(b, row, &r));
    r.per_rank = (b->part.n + (uint64_t)b->size - 1) / (uint64_t)b->size;
    r.per_rank = row->per_rank != 0 ? row->per_rank : r.per_rank;
    b->total_bad += r.bad;
    if (b->rank == 0) {
        show(b, row, &r);
        write_result(b, row, &r);
    }
    return WH_OK;
}

void whi_ranks_emit_left_out(whi_ranks *b, const char *why) {
    if (b->rank == 0) {
        show_begin(b);
        (void)printf("left out: %s\n", why);
        json_t *j = part_of(b);
        int e = json_object_set_new(j, "left_out", json_true());
        e |= json_object_set_new(j, "error", json_string(why));
        write_row(b, j, e);
    }
}

wh_status whi_ranks_end_part(whi_ranks *b, wh_status status) {
    if (status == WH_OK) {
        return WH_OK;
    }
    const char *why = wh_comm_last_failure(b->comm)->text;
    b->total_failed++;
    if (b->rank == 0) {
        show_begin(b);
        (void)printf("failed: %s\n", why);
        (void)fflush(stdout);
        json_t *j = part_of(b);
        int e = json_object_set_new(j, "reps", integer(0));
        e |= json_object_set_new(j, "failed", integer(1));
        e |= json_object_set_new(j, "bad", integer(0));
        e |= json_object_set_new(j, "error", json_string(why));
        write_row(b, j, e);
    }
    return whi_ranks_is_over(b) ? status : WH_OK;
}

int whi_ranks_write_header(whi_ranks *b) {
    json_t *meta = json_object(), *devices = json_array();
    int e = whi_bench_set_meta(meta, b->info);
    for (int r = 0; r < b->size; r++) {
        const whi_ranks_place *p = &b->places[r];
        char text[200];
        (void)snprintf(text, sizeof text, "%s, machine %d%s%s", p->device, p->machine,
                       p->bus[0] != '\0' ? ", " : "", p->bus);
        e |= json_array_append_new(devices, json_string(text));
    }
    e |= json_object_set_new(meta, "seed", integer(b->options->seed));
    e |= json_object_set_new(meta, "target", json_string(b->on_sim ? "sim" : "cuda"));
    e |= json_object_set_new(meta, "sms", integer(b->info->n_sms));
    e |= json_object_set_new(meta, "reps", integer(b->reps));
    e |= json_object_set_new(meta, "limit", json_null());
    e |= json_object_set_new(meta, "ranks", integer((uint64_t)b->size));
    e |= json_object_set_new(meta, "engine", json_string(b->engine));
    e |= json_object_set_new(meta, "devices", devices);
    e |= whi_bench_write_line(meta, b->json);
    json_decref(meta);
    return e;
}
