/* cmd_top.c: `warpheap top`: draws what a program's gauge publishes (warpheap/gauge.h). */
#define _DEFAULT_SOURCE /* argp with a strict C standard */

#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "warpheap/gauge.h"

#define BAR 40u      /* columns */
#define HISTORY 60u  /* samples */
#define NAME 512u    /* bytes of a name as it is printed */
#define DRAWN "7"    /* lines of a picture */
#define LEAST_MS 10u /* between two looks */
#define MOST_MS ((uint64_t)3600 * 1000)

enum { OPT_JSON = 256 };

static const struct argp_option options[] = {
    {"interval", 'i', "MS", 0,
     "milliseconds between two looks; default: as often as the program "
     "publishes, at most every 100",
     1},
    {"count", 'n', "N", 0, "end after N looks; default: when the program ends", 1},
    {"json", OPT_JSON, NULL, 0, "a JSON object a line", 1},
    {0},
};

typedef struct request {
    const char *path;
    uint64_t interval_ms, count; /* 0: the default */
    int json;
    int status; /* not 0: a complaint was made */
} request;

static error_t parse(int key, char *arg, struct argp_state *state) {
    request *r = state->input;
    uint64_t *number = key == 'i' ? &r->interval_ms : &r->count;
    switch (key) {
    case 'i':
    case 'n':
        if (!cli_parse_number(arg, number) || *number == 0 || (key == 'i' && *number > MOST_MS)) {
            r->status = cli_complain("--%s: '%s' is not a number above 0%s",
                                     key == 'i' ? "interval" : "count", arg,
                                     key == 'i' ? ", up to an hour" : "");
            return EINVAL;
        }
        return 0;
    case OPT_JSON:
        r->json = 1;
        return 0;
    case ARGP_KEY_ARG:
        if (r->path != NULL) {
            r->status = cli_complain("top takes one file, and not '%s' besides", arg);
            return EINVAL;
        }
        r->path = arg;
        return 0;
    case ARGP_KEY_END:
        if (r->path == NULL) {
            r->status = cli_complain("top wants the file that a program publishes to "
                                     "(wh_gauge_publish)");
            return EINVAL;
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --- forms ------------------------------------------------------------------------------------ */

static const char *name_text(const char *name, char text[NAME]) {
    return cli_name_text(name, text, NAME);
}

static const char *bytes_text(uint64_t bytes, char text[32]) {
    return bytes == WH_UNKNOWN ? "unknown" : cli_bytes_text(bytes, text);
}

static const char *count_text(uint64_t n, char text[32]) {
    if (n == WH_UNKNOWN) {
        return "unknown";
    }
    (void)snprintf(text, 32, "%" PRIu64, n);
    return text;
}

static double share(const wh_gauge_sample *s, uint64_t bytes) {
    const uint64_t room = s->heap_bytes > s->metadata_bytes ? s->heap_bytes - s->metadata_bytes : 1;
    const double part = (double)bytes / (double)room;
    return bytes == WH_UNKNOWN ? 0 : part;
}

static double age_seconds(const wh_gauge_sample *s) {
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    const double now = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
    const double age = now - (double)s->time_ns * 1e-9;
    return age > 0 ? age : 0;
}

static void draw_bar(const char *name, const wh_gauge_sample *s, uint64_t bytes) {
    char text[32], bar[BAR + 1];
    const double part = share(s, bytes);
    for (uint32_t i = 0; i < BAR; i++) {
        bar[i] = (double)i + 0.5 < part * BAR ? '#' : '.';
    }
    bar[BAR] = '\0';
    (void)printf("%-8s [%s] %10s %5.1f %%\033[K\n", name, bar, bytes_text(bytes, text), 100 * part);
}

/* What was seen. */
typedef struct watch {
    wh_gauge_view view;
    wh_gauge_sample before; /* the sample that another one came for */
    char history[HISTORY + 1];
    uint64_t looks;
} watch;

static void remember(watch *w, const wh_gauge_view *view) {
    static const char levels[] = " .:-=+*#%@";
    const wh_gauge_sample *s = &view->sample;
    if (w->looks == 0 || s->time_ns != w->view.sample.time_ns) {
        const uint64_t bytes = s->used_bytes != WH_UNKNOWN ? s->used_bytes : s->claimed_bytes;
        const double part = share(s, bytes) * 10;
        memmove(w->history, w->history + 1, HISTORY - 1);
        w->history[HISTORY - 1] = levels[part < 9 ? (int)part : 9];
        w->before = w->looks == 0 ? *s : w->view.sample;
    }
    w->view = *view;
    w->looks++;
}

static void draw(const watch *w) {
    const wh_gauge_view *v = &w->view;
    const wh_gauge_sample *s = &v->sample;
    char text[2][32], program[NAME], device[NAME];
    const double seconds = (double)(s->time_ns - w->before.time_ns) * 1e-9;
    if (w->looks > 1) {
        (void)printf("\033[" DRAWN "A\r");
    }
    (void)printf("%s (pid %" PRIu64 "): %s on %s, %s of it for blocks\033[K\n",
                 name_text(v->program, program), v->pid, bytes_text(s->heap_bytes, text[0]),
                 name_text(v->device, device),
                 bytes_text(s->heap_bytes - s->metadata_bytes, text[1]));
    draw_bar("used", s, s->used_bytes);
    draw_bar("claimed", s, s->claimed_bytes);
    (void)printf("live     %s blocks", count_text(s->live_blocks, text[0]));
    if (seconds > 0 && s->live_blocks != WH_UNKNOWN && w->before.live_blocks != WH_UNKNOWN) {
        (void)printf(" (%+.0f a second)",
                     ((double)s->live_blocks - (double)w->before.live_blocks) / seconds);
    }
    (void)printf("\033[K\nfailed   %" PRIu64 " mallocs, %" PRIu64 " bad frees\033[K\n", s->failed,
                 s->bad_frees);
    (void)printf("look     %.1f s ago, took %.2f ms for %s\033[K\n", age_seconds(s),
                 (double)s->took_ns * 1e-6, bytes_text(s->read_bytes, text[0]));
    (void)printf("history  %s|\033[K\n", w->history);
}

static void print_line(const wh_gauge_sample *s) {
    char text[4][32], hour[16];
    const time_t when = (time_t)(s->time_ns / 1000000000u);
    struct tm parts;
    (void)localtime_r(&when, &parts);
    (void)strftime(hour, sizeof hour, "%H:%M:%S", &parts);
    (void)printf("%s.%03u  used %s  claimed %s  of %s  live %s  failed %" PRIu64
                 "  bad frees %" PRIu64 "\n",
                 hour, (unsigned)(s->time_ns / 1000000u % 1000u),
                 bytes_text(s->used_bytes, text[0]), bytes_text(s->claimed_bytes, text[1]),
                 bytes_text(s->heap_bytes - s->metadata_bytes, text[2]),
                 count_text(s->live_blocks, text[3]), s->failed, s->bad_frees);
}

static json_t *number(uint64_t n) {
    return n == WH_UNKNOWN ? json_null() : json_integer((json_int_t)n);
}

static int print_json(const wh_gauge_view *v) {
    const wh_gauge_sample *s = &v->sample;
    char program[NAME], allocator[NAME], device[NAME];
    json_t *row = json_pack(
        "{ss, sI, ss, ss, sI, sI, so, so, sI, sI, so, so, so, so, so, so}", "program",
        name_text(v->program, program), "pid", (json_int_t)v->pid, "allocator",
        name_text(v->allocator, allocator), "device", name_text(v->device, device), "time_ns",
        (json_int_t)s->time_ns, "took_ns", (json_int_t)s->took_ns, "read_bytes",
        number(s->read_bytes), "heap_bytes", number(s->heap_bytes), "failed", (json_int_t)s->failed,
        "bad_frees", (json_int_t)s->bad_frees, "metadata_bytes", number(s->metadata_bytes),
        "claimed_bytes", number(s->claimed_bytes), "used_bytes", number(s->used_bytes),
        "live_blocks", number(s->live_blocks), "peak_bytes", number(s->peak_bytes), "mallocs",
        number(s->mallocs));
    char *text = row != NULL ? json_dumps(row, JSON_COMPACT) : NULL;
    json_decref(row);
    if (text == NULL) { /* no memory */
        (void)cli_complain("no JSON can be made of this");
        return 1;
    }
    (void)puts(text);
    free(text);
    return 0;
}

/* --- the command ------------------------------------------------------------------------------ */

static int complain(const request *r, const wh_gauge_view *v) {
    char program[NAME];
    (void)cli_complain("%s: %s (pid %" PRIu64 ") %s", r->path, name_text(v->program, program),
                       v->pid,
                       v->state == WH_GAUGE_ENDED ? "has closed its gauge"
                                                  : "has ended without closing its gauge");
    return 1;
}

static void wait_ms(uint64_t ms) {
    const struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL);
}

static int show(const request *r, watch *w, int drawn) {
    int status = 0;
    if (drawn) {
        draw(w);
    } else if (r->json) {
        status = print_json(&w->view);
    } else {
        print_line(&w->view.sample);
    }
    (void)fflush(stdout);
    return status;
}

/* Until the program ends, or the count is full. */
static int follow(const request *r) {
    const int drawn = !r->json && isatty(STDOUT_FILENO);
    watch w;
    memset(&w, 0, sizeof w);
    memset(w.history, ' ', HISTORY);
    for (;;) {
        wh_gauge_view view;
        if (wh_gauge_read_file(r->path, &view) != WH_OK) {
            (void)cli_complain("%s", wh_last_error_text());
            return 1;
        }
        if (view.state != WH_GAUGE_LIVE && (w.looks == 0 || view.state == WH_GAUGE_GONE)) {
            return complain(r, &view);
        }
        remember(&w, &view);
        const int status = show(r, &w, drawn);
        if (status != 0 || view.state != WH_GAUGE_LIVE || w.looks == r->count ||
            ferror(stdout) != 0) {
            return status;
        }
        uint64_t ms = view.interval_ms > 100 ? view.interval_ms : 100;
        ms = r->interval_ms != 0 ? r->interval_ms : ms;
        wait_ms(ms > LEAST_MS ? ms : LEAST_MS);
    }
}

int cli_top(int argc, char **argv) {
    static const struct argp argp = {
        options,
        parse,
        "FILE",
        "Draws how full the heap of a running program is, from the file that its gauge publishes "
        "to (wh_gauge_publish, docs/GAUGE.md): in place on a terminal, a line a look elsewhere. "
        "Ends with the program. Exit status: 0, or 1 if there is no such program.",
        NULL,
        NULL,
        NULL};
    request r;
    memset(&r, 0, sizeof r);
    argp_err_exit_status = CLI_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, &r) != 0) {
        return r.status;
    }
    return follow(&r);
}
