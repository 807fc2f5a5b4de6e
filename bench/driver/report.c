/* report.c: rows as a table on the terminal and as JSON, and the progress line. */
#include <string.h>
#include <unistd.h>

#include "bench/driver/internal.h"

#define SECONDS_UNWRITTEN 1.0

static void keep_rows(whi_bench *b);
static int keep(whi_bench *b, json_t *rows, json_t *row);

/* --- progress ----------------------------------------------------------------------------- */

void whi_bench_progress(whi_bench *b, uint64_t size, uint64_t threads) {
    char text[32];
    if (b->options->progress != NULL) {
        (void)fprintf(b->options->progress, "\r\033[K%s: %s, %s B, %llu threads", b->turn.name,
                      b->alloc->name, whi_bench_bytes_text(size, text, sizeof text),
                      (unsigned long long)threads);
        (void)fflush(b->options->progress);
    }
}

void whi_bench_progress_end(whi_bench *b) {
    if (b->options->progress != NULL) {
        (void)fputs("\r\033[K", b->options->progress);
        (void)fflush(b->options->progress);
    }
}

/* --- table ---------------------------------------------------------------------------------- */

static void show_header(whi_bench *b) {
    if (!b->header_shown) {
        b->header_shown = 1;
        (void)fprintf(b->options->table, "%-16s %-10s %-5s %-16s %7s %8s %11s %11s %11s %9s %9s",
                      "case", "alloc", "phase", "op", "size", "threads", "us", "min", "max",
                      "x null", "Mops/s");
        if (b->on_sim) {
            (void)fprintf(b->options->table, " %9s %9s", "steps/op", "atoms/op");
        }
        (void)fprintf(b->options->table, " %7s %5s\n", "failed", "bad");
    }
}

static double ratio_of(const whi_bench_row *row, const whi_bench_result *r) {
    return row->us_null > 0 ? r->us / row->us_null : 0;
}

static double mops_of(const whi_bench_row *row, const whi_bench_result *r) {
    return r->us > 0 ? (double)row->ops / r->us : 0;
}

static void show(whi_bench *b, const whi_bench_row *row, const whi_bench_result *r) {
    FILE *out = b->options->table;
    char size[32] = "-";
    char ratio[32] = "-";
    if (out == NULL) {
        return;
    }
    whi_bench_progress_end(b);
    show_header(b);
    if (row->size != 0) {
        (void)whi_bench_bytes_text(row->size, size, sizeof size);
    }
    if (row->us_null > 0) {
        (void)snprintf(ratio, sizeof ratio, "%.2f", ratio_of(row, r));
    }
    (void)fprintf(out, "%-16s %-10s %-5s %-16s %7s %8llu %11.1f %11.1f %11.1f %9s %9.2f",
                  b->turn.name, b->alloc->name, row->phase, row->op, size,
                  (unsigned long long)row->threads, r->us, r->us_min, r->us_max, ratio,
                  mops_of(row, r));
    if (b->on_sim) {
        (void)fprintf(out, " %9.1f %9.1f", r->steps_per_op, r->atomics_per_op);
    }
    (void)fprintf(out, " %7llu %5llu", (unsigned long long)r->failed, (unsigned long long)r->bad);
    for (size_t i = 0; i < row->n_values; i++) {
        (void)fprintf(out, "  %s %.*f", row->values[i].name, row->values[i].decimals,
                      row->values[i].value);
    }
    if (row->input != NULL) {
        (void)fprintf(out, "  %s", row->input);
    }
    (void)fputc('\n', out);
    (void)fflush(out);
}

/* --- JSON ---------------------------------------------------------------------------------- */

static json_t *integer(uint64_t v) {
    return json_integer((json_int_t)v);
}

static int set_value(json_t *j, const whi_bench_value *v) {
    return json_object_set_new(
        j, v->name, v->decimals != 0 ? json_real(v->value) : integer((uint64_t)v->value));
}

/* Of plain kernels the form is told. */
static int set_form(json_t *j, const whi_bench *b) {
    return b->options->plain ? json_object_set_new(j, "form", json_string("plain")) : 0;
}

/* The us_, ratio_null and mops members are times; all others depend on the seed and the
 * options alone on the simulated device. */
wh_status whi_bench_emit_result(whi_bench *b, const whi_bench_row *row, const whi_bench_result *r) {
    b->total_bad += r->bad;
    show(b, row, r);
    json_t *j = json_object();
    int e = 0;
    e |= json_object_set_new(j, "alloc", json_string(b->alloc->name));
    e |= json_object_set_new(j, "case", json_string(b->turn.name));
    e |= set_form(j, b);
    e |= json_object_set_new(j, "phase", json_string(row->phase));
    e |= json_object_set_new(j, "op", json_string(row->op));
    if (row->size_min != 0) {
        e |= json_object_set_new(j, "size_min", integer(row->size_min));
    }
    e |= json_object_set_new(j, "size", integer(row->size));
    e |= json_object_set_new(j, "threads", integer(row->threads));
    e |= json_object_set_new(j, "ops", integer(row->ops));
    e |= json_object_set_new(j, "reps", integer(r->reps));
    e |= json_object_set_new(j, "us", json_real(r->us));
    e |= json_object_set_new(j, "us_min", json_real(r->us_min));
    e |= json_object_set_new(j, "us_max", json_real(r->us_max));
    const int floor_known = row->us_null > 0;
    e |= json_object_set_new(j, "us_null", floor_known ? json_real(row->us_null) : json_null());
    e |= json_object_set_new(j, "ratio_null",
                             floor_known ? json_real(ratio_of(row, r)) : json_null());
    e |= json_object_set_new(j, "mops", json_real(mops_of(row, r)));
    e |= json_object_set_new(j, "failed", integer(r->failed));
    e |= json_object_set_new(j, "bad", integer(r->bad));
    if (b->on_sim) {
        e |= json_object_set_new(j, "steps_per_op", json_real(r->steps_per_op));
        e |= json_object_set_new(j, "atomics_per_op", json_real(r->atomics_per_op));
    }
    for (size_t i = 0; i < row->n_values; i++) {
        e |= set_value(j, &row->values[i]);
    }
    if (row->input != NULL) {
        e |= json_object_set_new(j, "input", json_string(row->input));
    }
    e |= keep(b, b->rows, j);
    keep_rows(b);
    return e == 0 ? WH_OK : whi_bench_fail(b, WH_OUT_OF_MEMORY, "results");
}

wh_status whi_bench_emit(whi_bench *b, const whi_bench_row *row, const whi_bench_series *series) {
    whi_bench_result r;
    memset(&r, 0, sizeof r);
    r.reps = series->n;
    r.failed = series->failed;
    r.bad = series->bad;
    if (series->n != 0) {
        const double ops = (double)row->ops * (double)series->n;
        r.us = whi_bench_median(series->us, series->n);
        r.us_min = series->us[0];
        r.us_max = series->us[0];
        for (uint32_t i = 1; i < series->n; i++) {
            r.us_min = series->us[i] < r.us_min ? series->us[i] : r.us_min;
            r.us_max = series->us[i] > r.us_max ? series->us[i] : r.us_max;
        }
        /* A round of drift may have had nothing to do. */
        r.steps_per_op = ops > 0 ? (double)series->steps / ops : 0;
        r.atomics_per_op = ops > 0 ? (double)series->atomics / ops : 0;
    }
    return whi_bench_emit_result(b, row, &r);
}

static void show_left_out(whi_bench *b) {
    const whi_bench_part *from = &b->turn.left_out;
    FILE *out = b->options->table;
    char size[32];
    if (out == NULL) {
        return;
    }
    whi_bench_progress_end(b);
    show_header(b);
    (void)fprintf(out, "%-16s %-10s left out from ", b->turn.name, b->alloc->name);
    if (from->op != NULL) {
        (void)fprintf(out, "%s, ", from->op);
    }
    if (from->value.name != NULL) {
        (void)fprintf(out, "%s %.*f, ", from->value.name, from->value.decimals, from->value.value);
    }
    if (from->size_min != 0) {
        (void)fprintf(out, "%llu..", (unsigned long long)from->size_min);
    }
    (void)fprintf(out, "%s B", whi_bench_bytes_text(from->size, size, sizeof size));
    if (from->threads != 0) {
        (void)fprintf(out, ", %llu threads", (unsigned long long)from->threads);
    }
    if (from->input != NULL) {
        (void)fprintf(out, ", %s", from->input);
    }
    (void)fprintf(out, " on: %g s are over (--limit)\n", b->turn.limits * b->limit);
    (void)fflush(out);
}

wh_status whi_bench_emit_left_out(whi_bench *b) {
    const whi_bench_part *from = &b->turn.left_out;
    show_left_out(b);
    json_t *j = json_object();
    int e = 0;
    e |= json_object_set_new(j, "alloc", json_string(b->alloc->name));
    e |= json_object_set_new(j, "case", json_string(b->turn.name));
    e |= set_form(j, b);
    if (from->op != NULL) {
        e |= json_object_set_new(j, "op", json_string(from->op));
    }
    if (from->size_min != 0) {
        e |= json_object_set_new(j, "size_min", integer(from->size_min));
    }
    e |= json_object_set_new(j, "size", integer(from->size));
    if (from->threads != 0) {
        e |= json_object_set_new(j, "threads", integer(from->threads));
    }
    if (from->value.name != NULL) {
        e |= set_value(j, &from->value);
    }
    if (from->input != NULL) {
        e |= json_object_set_new(j, "input", json_string(from->input));
    }
    e |= json_object_set_new(j, "left_out", json_true());
    e |= keep(b, b->left_out_rows, j);
    return e == 0 ? WH_OK : whi_bench_fail(b, WH_OUT_OF_MEMORY, "results");
}

wh_status whi_bench_new_share(whi_bench *b) {
    whi_bench_turn *t = &b->turn;
    const wh_status s = t->left_out.size != 0 ? whi_bench_emit_left_out(b) : WH_OK;
    memset(&t->left_out, 0, sizeof t->left_out);
    t->begun = 0;
    t->start = whi_bench_wall_seconds();
    return s;
}

wh_status whi_bench_emit_skipped(whi_bench *b, const char *why) {
    json_t *j = json_object();
    int e = 0;
    if (b->options->table != NULL) {
        whi_bench_progress_end(b);
        show_header(b);
        (void)fprintf(b->options->table, "%-16s %-10s left out: %s\n", b->turn.name, b->alloc->name,
                      why);
    }
    e |= json_object_set_new(j, "alloc", json_string(b->alloc->name));
    e |= json_object_set_new(j, "case", json_string(b->turn.name));
    e |= set_form(j, b);
    e |= json_object_set_new(j, "left_out", json_true());
    e |= json_object_set_new(j, "error", json_string(why));
    e |= keep(b, b->left_out_rows, j);
    return e == 0 ? WH_OK : whi_bench_fail(b, WH_OUT_OF_MEMORY, "results");
}

wh_status whi_bench_emit_refused(whi_bench *b) {
    char why[sizeof b->error];
    memcpy(why, b->error, sizeof why);
    b->error[0] = '\0';
    b->refused = 0;
    b->total_refused++;
    return whi_bench_emit_skipped(b, why);
}

/* The heaps that the cases had: the user's, or each case's own. */
static int set_heaps(json_t *meta, const whi_bench *b) {
    const uint64_t chosen = b->options->heap_bytes;
    const whi_bench_defaults *own = b->defaults;
    const struct {
        const char *name;
        uint64_t bytes;
    } heaps[] = {{"heap", own->heap_bytes},
                 {"utilization_heap", own->utilization_bytes},
                 {"full_heap", own->full_bytes},
                 {"refuse_heap", own->refuse_bytes},
                 {"pressure_heap", own->pressure_bytes},
                 {"drift_heap", own->drift_bytes},
                 {"scenarios_heap", own->scenarios_bytes},
                 {"server_heap", own->server_bytes},
                 {"fill_log_heap", own->fill_log_bytes},
                 {"cells_heap", own->cells_bytes},
                 {"graph_heap", own->graph_bytes},
                 {"ops_heap", own->ops_bytes},
                 {"ops_paper_heap", own->ops_paper_bytes}};
    int e = 0;
    for (size_t i = 0; i < sizeof heaps / sizeof *heaps; i++) {
        e |= json_object_set_new(meta, heaps[i].name,
                                 integer(chosen != 0 ? chosen : heaps[i].bytes));
    }
    return e;
}

/* The options of heaps that were asked for: {"tessera.shards": 4}. */
static int options_to(json_t *meta, const wh_bench_options *o) {
    json_t *all = json_object();
    int e = 0;
    for (size_t i = 0; i < o->n_options; i++) {
        const wh_any_options *own = &o->options[i];
        const wh_option_info *info = NULL;
        uint32_t place = 0; /* in own->values */
        for (uint32_t k = 0; (info = wh_option_at(k)) != NULL; k++) {
            char name[80];
            if (strcmp(info->family, own->head.family) != 0) {
                continue;
            }
            (void)snprintf(name, sizeof name, "%s.%s", info->family, info->name);
            if (own->values[place] != 0) {
                e |= json_object_set_new(all, name, integer(own->values[place]));
            }
            place++;
        }
    }
    return e | json_object_set_new(meta, "options", all);
}

json_t *whi_bench_header(const whi_bench *b, const char *error, int *failed) {
    static const char *const checks[] = {[WH_BENCH_CHECK_LAST] = "last",
                                         [WH_BENCH_CHECK_EVERY] = "every",
                                         [WH_BENCH_CHECK_ENDS] = "ends"};
    json_t *meta = json_object();
    int e = whi_bench_set_meta(meta, b->info);
    e |= json_object_set_new(meta, "seed", integer(b->options->seed));
    e |= json_object_set_new(meta, "target", json_string(b->on_sim ? "sim" : "cuda"));
    e |= json_object_set_new(meta, "sms", integer(b->info->n_sms));
    e |= set_heaps(meta, b);
    e |= options_to(meta, b->options);
    e |= json_object_set_new(meta, "reps", integer(b->reps));
    e |= json_object_set_new(meta, "limit", b->limit > 0 ? json_real(b->limit) : json_null());
    e |= json_object_set_new(meta, "check", json_string(checks[b->options->check]));
    if (b->options->compact) {
        e |= json_object_set_new(meta, "compact", json_true());
    }
    if (b->on_sim) {
        const char *ran = b->info->driver; /* "random/0 seed 7 ...", what WH_SIM says included */
        e |= json_object_set_new(meta, "policy", json_stringn(ran, strcspn(ran, "/")));
    }
    if (error[0] != '\0') {
        e |= json_object_set_new(meta, "error", json_string(error));
    }
    *failed |= e;
    return meta;
}

int whi_bench_write_json(whi_bench *b, const char *error) {
    int e = 0;
    json_t *meta = whi_bench_header(b, error, &e);
    e |= fseek(b->json, 0, SEEK_SET);
    e |= whi_bench_write_lines(b->json, meta, b->rows);
    for (size_t i = 0; i < json_array_size(b->left_out_rows); i++) {
        e |= whi_bench_write_line(json_array_get(b->left_out_rows, i), b->json);
    }
    e |= fflush(b->json);
    e |= ftruncate(fileno(b->json), ftell(b->json)); /* what was there may have been longer */
    json_decref(meta);
    return e == 0 ? 0 : -1;
}

/* Adds a row to those of the run, and tells whoever wants to know at once. */
static int keep(whi_bench *b, json_t *rows, json_t *row) {
    FILE *stream = b->options->stream;
    const int e = stream != NULL ? whi_bench_write_line(row, stream) : 0;
    return e | json_array_append_new(rows, row);
}

/* What there is goes to the file now and then: a run that is ended early has not been for nothing.
 */
static void keep_rows(whi_bench *b) {
    const double now = whi_bench_wall_seconds();
    if (b->json != NULL && now - b->json_since > SECONDS_UNWRITTEN) {
        b->json_since = now;
        (void)whi_bench_write_json(b, "the run has not come to its end"); /* the end tells */
    }
}
