/* cmd_suite.c: `warpheap bench --suite`: goes through the cells of a suite for each allocator. A
 * child process, one for each allocator, runs them; one that crashes, fails or hangs costs the rows
 * of the cell that it was at, and another one goes on with the next. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/suite.h"

#define ABOUT_SECONDS 60.0 /* to open the device */
#define LINE_ROOM 1024
#define NOTHING "nothing was measured"

/* A cell with an allocator. */
typedef struct pair {
    const char *alloc;
    const wh_bench_cell *cell;
} pair;

typedef struct suite_run {
    const suite_request *r;
    suite_child child;
    suite_file file;
    json_t *about; /* what a child tells of device and allocators */
    int on_gpu;
    pair *pairs; /* to be run: those of the part that the file does not have */
    size_t n, there;
    size_t done, failed, n_rows;
    double start, weight, weight_done;
    char error[1024];
} suite_run;

/* How a line sent to a child was answered. */
typedef struct answer {
    suite_event how; /* SUITE_LINE: it was */
    int outcome;     /* a wh_bench_outcome */
    json_t *rows;
    char why[640]; /* "": all is well */
} answer;

/* --- suites ---------------------------------------------------------------------------------- */

const wh_bench_suite *suite_find(const char *name) {
    for (size_t i = 0; wh_bench_suite_at(i) != NULL; i++) {
        if (strcmp(wh_bench_suite_at(i)->name, name) == 0) {
            return wh_bench_suite_at(i);
        }
    }
    return NULL;
}

/* Options of a cell, as on the command line. */
static void options_of(const wh_bench_suite *suite, const wh_bench_cell *cell, int on_gpu,
                       char text[LINE_ROOM]) {
    const char *all = on_gpu ? suite->gpu : suite->sim;
    const char *own = on_gpu ? cell->gpu : cell->sim;
    (void)snprintf(text, LINE_ROOM, "--case %s%s%s%s%s", cell->case_name, all[0] != '\0' ? " " : "",
                   all, own[0] != '\0' ? " " : "", own);
}

void suite_list(const wh_bench_suite *suite) {
    for (size_t i = 0; i < suite->n_cells; i++) {
        const wh_bench_cell *cell = &suite->cells[i];
        char gpu[LINE_ROOM] = "-", sim[LINE_ROOM] = "-";
        if (cell->gpu != NULL) {
            options_of(suite, cell, 1, gpu);
        }
        if (cell->sim != NULL) {
            options_of(suite, cell, 0, sim);
        }
        (void)printf("%s\t%s\t%s\n", cell->name, gpu, sim);
    }
}

static int is_in(const cli_names *names, const char *name) {
    for (size_t i = 0; i < names->n; i++) {
        if (strcmp(names->v[i], name) == 0) {
            return 1;
        }
    }
    return names->n == 0;
}

/* Whether each name of --case is one of the suite's. */
static int check_cases(const suite_request *r) {
    for (size_t i = 0; i < r->cases->n; i++) {
        char known[1024] = "";
        int found = 0;
        for (size_t k = 0; k < r->suite->n_cells; k++) {
            const size_t used = strlen(known);
            found |= strcmp(r->suite->cells[k].case_name, r->cases->v[i]) == 0;
            (void)snprintf(known + used, sizeof known - used, "%s%s", k != 0 ? ", " : "",
                           r->suite->cells[k].case_name);
        }
        if (!found) {
            (void)cli_complain("the suite '%s' has no case '%s'; it has: %s", r->suite->name,
                               r->cases->v[i], known);
            return 0;
        }
    }
    return 1;
}

/* --- a child --------------------------------------------------------------------------------- */

/* Takes a line of a child's answer. 0: it is none. */
static int take_line(answer *a, const char *line, int *is_end) {
    json_t *object = json_loads(line, 0, NULL);
    const json_t *end = json_object_get(object, "end");
    *is_end = end != NULL;
    if (object == NULL) {
        (void)snprintf(a->why, sizeof a->why, "wrote what is no row");
        return 0;
    }
    if (end == NULL) {
        return json_array_append_new(a->rows, object) == 0;
    }
    a->outcome = (int)json_integer_value(end);
    const char *error = json_string_value(json_object_get(object, "error"));
    (void)snprintf(a->why, sizeof a->why, "%s", error != NULL ? error : "");
    json_decref(object);
    return 1;
}

/* Sends a line and collects the answer; a child that does not answer is gone afterwards. The caller
 * releases the rows. */
static answer ask(suite_run *s, const char *line, double limit) {
    answer a;
    int is_end = 0, good = 1;
    const char *text = NULL;
    memset(&a, 0, sizeof a);
    a.rows = json_array();
    a.outcome = 1;
    a.how = SUITE_ENDED;
    if (s->child.pid == 0 && !suite_child_start(&s->child)) {
        (void)snprintf(a.why, sizeof a.why, "cannot be started: %s", strerror(errno));
        return a;
    }
    const double deadline = suite_seconds() + limit;
    a.how = suite_child_send(&s->child, line) ? SUITE_LINE : SUITE_ENDED;
    while (a.how == SUITE_LINE && !is_end && good) {
        a.how = suite_child_line(&s->child, deadline, &text);
        good = a.how != SUITE_LINE || take_line(&a, text, &is_end);
    }
    if (a.how == SUITE_LINE && good) {
        return a;
    }
    char end[128];
    suite_child_stop(&s->child, a.how != SUITE_ENDED, end, sizeof end);
    if (a.how == SUITE_TIME_OVER) {
        (void)snprintf(a.why, sizeof a.why, "given up after %g s (--cell-limit)", limit);
    } else if (a.why[0] == '\0') {
        (void)snprintf(a.why, sizeof a.why, "%s", end);
    }
    return a;
}

/* What device, and which allocators; options: what else the header is to know of. 0, or the exit
 * status with an error. */
static int ask_about(suite_run *s, const char *options) {
    char line[LINE_ROOM];
    const suite_request *r = s->r;
    size_t used = (size_t)snprintf(line, sizeof line, "--about %s", options);
    if (r->device != NULL) {
        used += (size_t)snprintf(line + used, sizeof line - used, " --device %s", r->device);
    }
    for (size_t i = 0; i < r->allocs->n && used < sizeof line; i++) {
        used += (size_t)snprintf(line + used, sizeof line - used, " --alloc %s", r->allocs->v[i]);
    }
    if (used < sizeof line) {
        used += (size_t)snprintf(line + used, sizeof line - used, " --seed %llu\n",
                                 (unsigned long long)r->seed);
    }
    if (used >= sizeof line || strpbrk(line, "\"'\\") != NULL) {
        (void)snprintf(s->error, sizeof s->error, "a name is too long, or no name");
        return CLI_USAGE;
    }
    answer a = ask(s, line, ABOUT_SECONDS);
    const int good = a.how == SUITE_LINE && a.outcome == 0 && json_array_size(a.rows) == 1;
    if (good) {
        json_decref(s->about);
        s->about = json_incref(json_array_get(a.rows, 0));
        s->on_gpu = strcmp(json_string_value(json_object_get(s->about, "target")), "sim") != 0;
    } else {
        (void)snprintf(s->error, sizeof s->error, "%s%s",
                       a.how == SUITE_LINE ? "" : "the child process: ", a.why);
    }
    json_decref(a.rows);
    return good ? 0 : a.outcome;
}

/* --- what to run ----------------------------------------------------------------------------- */

static double weight_of(const pair *p) {
    return p->cell->seconds;
}

/* Adds a pair, unless the file has it. */
static void add_pair(suite_run *s, pair p) {
    if (suite_file_has(&s->file, p.alloc, p.cell->name)) {
        s->there++;
        return;
    }
    s->pairs[s->n++] = p;
    s->weight += weight_of(&p);
}

/* Allocator by allocator. Parts get what lies on diagonals, so that each has as many cells of a
 * slow allocator, and as many allocators of a slow cell. */
static int plan(suite_run *s) {
    const suite_request *r = s->r;
    const json_t *allocs = json_object_get(s->about, "allocs");
    const size_t columns = r->suite->n_cells;
    const size_t n = json_array_size(allocs) * columns;
    s->pairs = calloc(n != 0 ? n : 1, sizeof *s->pairs);
    if (s->pairs == NULL) {
        (void)snprintf(s->error, sizeof s->error, "out of memory");
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        const pair p = {json_string_value(json_array_get(allocs, i / columns)),
                        &r->suite->cells[i % columns]};
        const size_t diagonal = i / columns + i % columns;
        if (is_in(r->cases, p.cell->case_name) && (s->on_gpu ? p.cell->gpu : p.cell->sim) != NULL &&
            (r->parts == 0 || diagonal % r->parts == r->part - 1)) {
            add_pair(s, p);
        }
    }
    return 1;
}

/* The first line of the file: what the child told, and what the cells are. */
static int write_header(suite_run *s) {
    const wh_bench_suite *suite = s->r->suite;
    json_t *header = json_copy(s->about);
    json_t *cells = json_object();
    int e = json_object_set_new(header, "suite", json_string(suite->name));
    for (size_t i = 0; i < suite->n_cells; i++) {
        char text[LINE_ROOM];
        if ((s->on_gpu ? suite->cells[i].gpu : suite->cells[i].sim) != NULL) {
            options_of(suite, &suite->cells[i], s->on_gpu, text);
            e |= json_object_set_new(cells, suite->cells[i].name, json_string(text));
        }
    }
    e |= json_object_set_new(header, "cells", cells);
    const int good = e == 0 && suite_file_header(&s->file, header);
    json_decref(header);
    return good;
}

/* Whether the rows of the file are of such a run as this one. */
static int fits(suite_run *s) {
    static const char *const same[] = {"commit", "device", "seed"};
    const char *suite = json_string_value(json_object_get(s->file.header, "suite"));
    if (suite == NULL || strcmp(suite, s->r->suite->name) != 0) {
        (void)snprintf(s->error, sizeof s->error, "cannot go on with '%s': its suite is '%s'",
                       s->r->path, suite != NULL ? suite : "");
        return 0;
    }
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        json_t *was = json_object_get(s->file.header, same[i]);
        json_t *now = json_object_get(s->about, same[i]);
        if (!json_equal(was, now)) {
            char *one = json_dumps(was, JSON_ENCODE_ANY), *two = json_dumps(now, JSON_ENCODE_ANY);
            (void)snprintf(s->error, sizeof s->error,
                           "cannot go on with '%s': its %s is %s, now it is %s", s->r->path,
                           same[i], one != NULL ? one : "none", two != NULL ? two : "none");
            free(one);
            free(two);
            return 0;
        }
    }
    return 1;
}

/* --- the run --------------------------------------------------------------------------------- */

static void add_reason(const pair *p, json_t *rows, const char *why) {
    (void)json_array_append_new(rows, json_pack("{s:s, s:s, s:b, s:s}", "alloc", p->alloc, "case",
                                                p->cell->case_name, "left_out", 1, "error", why));
}

static void show_progress(const suite_run *s, const pair *p, const answer *a, double seconds) {
    const double spent = suite_seconds() - s->start;
    const double left =
        s->weight_done > 0 ? spent / s->weight_done * (s->weight - s->weight_done) : 0;
    const int failed = a->why[0] != '\0' && (a->how != SUITE_LINE || a->outcome == 1);
    (void)fprintf(stderr, "[%3zu/%zu] %s/%s: %zu rows, %.1f s%s%s; about %.0f %s left\n", s->done,
                  s->n, p->alloc, p->cell->name, json_array_size(a->rows), seconds,
                  failed ? "; FAILED: " : "", failed ? a->why : "", left < 90 ? left : left / 60,
                  left < 90 ? "s" : "min");
}

/* 0: it was stopped, or the file cannot be written (error). */
static int run_pair(suite_run *s, const pair *p) {
    const suite_request *r = s->r;
    const double limit = s->on_gpu ? r->suite->gpu_limit : r->suite->sim_limit;
    const double start = suite_seconds();
    char line[2 * LINE_ROOM], options[LINE_ROOM];
    options_of(r->suite, p->cell, s->on_gpu, options);
    (void)snprintf(line, sizeof line, "%s%s --seed %llu --alloc %s %s\n",
                   r->device != NULL ? "--device " : "", r->device != NULL ? r->device : "",
                   (unsigned long long)r->seed, p->alloc, options);
    answer a = ask(s, line, r->limit > 0 ? r->limit : limit);
    if (a.how == SUITE_STOPPED || suite_is_stopped()) {
        json_decref(a.rows);
        return 0;
    }
    /* A request that cannot be run, or has nothing to measure, is no failure. */
    if (strncmp(a.why, NOTHING, strlen(NOTHING)) == 0) {
        a.why[strlen(NOTHING)] = '\0'; /* what to do about it is for the command line */
    }
    if (a.why[0] != '\0' || json_array_size(a.rows) == 0) {
        add_reason(p, a.rows, a.why[0] != '\0' ? a.why : NOTHING);
    }
    s->failed += a.how != SUITE_LINE || a.outcome == 1 ? 1 : 0;
    s->done++;
    s->weight_done += weight_of(p);
    s->n_rows += json_array_size(a.rows);
    const int good = suite_file_add(&s->file, a.rows, p->cell->name);
    show_progress(s, p, &a, suite_seconds() - start);
    if (a.how == SUITE_LINE && a.outcome == 1) { /* its device may be broken */
        char text[128];
        suite_child_stop(&s->child, 1, text, sizeof text);
    }
    if (!good) {
        (void)snprintf(s->error, sizeof s->error, "cannot write '%s'", r->path);
    }
    json_decref(a.rows);
    return good;
}

static void run_all(suite_run *s) {
    int go = 1;
    s->start = suite_seconds();
    if (s->on_gpu) {
        (void)fprintf(stderr, "%s: %zu cells, about %.0f s by the table\n", s->r->suite->name, s->n,
                      s->weight);
    }
    for (size_t i = 0; i < s->n && go; i++) {
        char text[128];
        if (i > 0 && strcmp(s->pairs[i].alloc, s->pairs[i - 1].alloc) != 0) {
            suite_child_stop(&s->child, 0, text, sizeof text);
        }
        go = run_pair(s, &s->pairs[i]);
    }
}

/* 0, or the exit status with an error. */
static int prepare(suite_run *s) {
    const suite_request *r = s->r;
    int refused = ask_about(s, "");
    if (refused == 0) { /* now the target is known */
        refused = ask_about(s, s->on_gpu ? r->suite->gpu : r->suite->sim);
    }
    if (refused != 0) {
        return refused;
    }
    if (!suite_file_read(&s->file, r->resume ? r->path : NULL, s->error, sizeof s->error) ||
        (s->file.header != NULL && !fits(s))) {
        return CLI_USAGE;
    }
    if (!suite_file_open(&s->file, r->path) || (s->file.header == NULL && !write_header(s))) {
        (void)snprintf(s->error, sizeof s->error, "cannot write '%s'", r->path);
        return CLI_USAGE;
    }
    return plan(s) ? 0 : 1;
}

static int summary(const suite_run *s) {
    const char *path = s->r->path;
    if (s->error[0] != '\0') {
        (void)cli_complain("%s", s->error);
        return 1;
    }
    if (s->done < s->n) {
        (void)cli_complain("stopped: %zu of %zu cells are done; go on with --resume %s", s->done,
                           s->n, path);
        return 1;
    }
    (void)fprintf(stderr, "%s: %zu cells, %zu rows, %zu failed, %zu were there; %.0f s\n",
                  s->r->suite->name, s->done, s->n_rows, s->failed, s->there,
                  suite_seconds() - s->start);
    return s->failed != 0 ? 1 : 0;
}

int cli_suite(const suite_request *r) {
    suite_run s;
    char text[128];
    if (!check_cases(r)) {
        return CLI_USAGE;
    }
    memset(&s, 0, sizeof s);
    s.r = r;
    suite_note_signals();
    int status = prepare(&s);
    if (status == 0) {
        run_all(&s);
        status = summary(&s);
    } else if (suite_is_stopped()) {
        (void)cli_complain("stopped before the first cell");
        status = 1;
    } else {
        (void)cli_complain("%s", s.error);
    }
    suite_child_stop(&s.child, status != 0 || suite_is_stopped(), text, sizeof text);
    if (!suite_file_close(&s.file) && status == 0) {
        (void)cli_complain("cannot write '%s'", r->path);
        status = 1;
    }
    json_decref(s.about);
    free(s.pairs);
    return status;
}
