/* choices.c: record and replay of schedules.
 *
 * A schedule file is text. The first line names what shaped the schedule:
 *     warpheap-schedule 2 seed S policy P arg A sms N blocks-per-sm B weak W
 * Then, for each launch that ran by itself, `launch KERNEL BLOCKS THREADS`; for N that ran
 * together, `launches N` and for each of them, in the order of their launches, `KERNEL
 * BLOCKS THREADS STREAM` (streams are numbered as they occur). Then the choices in the order
 * in which the scheduler asked for them, and `end`:
 *     s<n>   n times the lane that was running went on
 *     g<t>   the lane of thread t goes on: its index in the grid, and if several run
 *            together, plus the threads of the grids before
 *     w<n>   a lane that came to wh_activemask waits for up to n points of its warp
 *     m<x>   a wh_activemask names these lanes (hexadecimal)
 *     z<n>   a lane in wh_backoff sleeps for n ticks of the wheel
 *     h<n>   the lane that was running stops for n ticks (policy stall)
 *     o<n>   a load returns the n-th value before the newest (option weak)
 *     b<k>   the next block to start is one of stream k
 * Where there is nothing to choose (one runnable lane, one stream) nothing is written. Schedules
 * whose first word is warpheap-switches are those of sparse.c.
 */
#include "sim_internal.h"

#include "../host/last_error.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "warpheap-schedule"
#define SPARSE_MAGIC "warpheap-switches"
#define TOKENS_A_LINE 16u

struct whi_log {
    FILE *file;
    bool replay;
    whi_sparse *sparse; /* NULL: this is none */
    uint64_t stay;      /* record: not yet written; replay: still to follow */
    uint32_t in_line;
    uint64_t line;
    uint64_t choices; /* of this launch */
    char token[128];
    bool peeked; /* token is still to be used */
};

/* --- file ------------------------------------------------------------------------- */

static void put(whi_log *g, char kind, const char *text) {
    g->in_line++;
    (void)fprintf(g->file, "%c%s%c", kind, text, g->in_line % TOKENS_A_LINE == 0 ? '\n' : ' ');
}

static void put_number(whi_log *g, char kind, uint64_t v) {
    char text[24];
    (void)snprintf(text, sizeof text, kind == 'm' ? "%" PRIx64 : "%" PRIu64, v);
    put(g, kind, text);
}

static void flush_stay(whi_log *g) {
    if (g->stay > 0) {
        put_number(g, 's', g->stay);
        g->stay = 0;
    }
}

/* The next word of the file; "" at its end. */
static const char *next_token(whi_log *g) {
    int c;
    size_t n = 0;
    if (g->peeked) {
        g->peeked = false;
        return g->token;
    }
    while ((c = fgetc(g->file)) != EOF && isspace(c)) {
        g->line += c == '\n';
    }
    for (; c != EOF && !isspace(c); c = fgetc(g->file)) {
        if (n + 1 < sizeof g->token) {
            g->token[n++] = (char)c;
        }
    }
    if (c != EOF) {
        (void)ungetc(c, g->file);
    }
    g->token[n] = '\0';
    return g->token;
}

static const char *peek_token(whi_log *g) {
    (void)next_token(g);
    g->peeked = true;
    return g->token;
}

static bool parse(const char *text, int base, uint64_t *v) {
    char *end;
    errno = 0;
    *v = strtoull(text, &end, base);
    return isxdigit((unsigned char)text[0]) && *end == '\0' && errno == 0;
}

static bool read_field(whi_log *g, const char *name, uint64_t most, uint64_t *v) {
    return strcmp(next_token(g), name) == 0 && parse(next_token(g), 10, v) && *v <= most;
}

static bool read_header(whi_log *g, wh_sim_options *o, bool *sparse) {
    uint64_t version, arg, sms, blocks, weak;
    uint32_t policy = 0;
    *sparse = strcmp(peek_token(g), SPARSE_MAGIC) == 0;
    if (!read_field(g, *sparse ? SPARSE_MAGIC : MAGIC, 2, &version) ||
        !read_field(g, "seed", UINT64_MAX, &o->seed) || strcmp(next_token(g), "policy") != 0) {
        return false;
    }
    (void)next_token(g);
    while (policy < WH_SIM_POLICY_COUNT && strcmp(g->token, whi_policy_names[policy]) != 0) {
        policy++;
    }
    if (version != (*sparse ? 1u : 2u) || policy == WH_SIM_POLICY_COUNT ||
        !read_field(g, "arg", UINT32_MAX, &arg) || !read_field(g, "sms", UINT32_MAX, &sms) ||
        !read_field(g, "blocks-per-sm", UINT32_MAX, &blocks) ||
        !read_field(g, "weak", WH_SIM_WEAK_FORMAL, &weak)) {
        return false;
    }
    o->policy = (wh_sim_policy)policy;
    o->policy_arg = (uint32_t)arg;
    o->n_sms = (uint32_t)sms;
    o->blocks_per_sm = (uint32_t)blocks;
    o->weak = (uint32_t)weak;
    return true;
}

/* A file that is a schedule, or becomes one, up to its first line. */
static wh_status begin_file(whi_log *g, wh_sim_options *o, const char *path) {
    bool sparse = o->replay == NULL && o->switches != NULL;
    uint64_t line = 1;
    if (!g->replay) {
        (void)fprintf(g->file,
                      "%s seed %" PRIu64 " policy %s arg %" PRIu32 " sms %" PRIu32
                      " blocks-per-sm %" PRIu32 " weak %" PRIu32 "\n",
                      sparse ? SPARSE_MAGIC " 1" : MAGIC " 2", o->seed, whi_policy_names[o->policy],
                      o->policy_arg, o->n_sms, o->blocks_per_sm, o->weak);
    } else if (!read_header(g, o, &sparse)) {
        return whi_refuse(WH_BAD_FORMAT, "%.200s:1: this is no schedule of this version", path);
    } else if (sparse && fgetc(g->file) != '\n') {
        return whi_refuse(WH_BAD_FORMAT, "%.200s:1: there is something behind the weak N", path);
    }
    const wh_status s = sparse ? whi_sparse_open(&g->sparse, g->file, g->replay, &line) : WH_OK;
    return s == WH_BAD_FORMAT
               ? whi_refuse(s,
                            "%.200s:%" PRIu64 ": a line of switches is LAUNCH THREAD N and a "
                            "choice: g, w, m, o or b with its number",
                            path, line)
               : s;
}

wh_status whi_log_open(whi_log **log, wh_sim_options *o) {
    const char *record = o->record != NULL ? o->record : o->switches;
    const char *path = o->replay != NULL ? o->replay : record;
    whi_log *g = calloc(1, sizeof *g);
    if (g == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    g->replay = o->replay != NULL;
    g->line = 1;
    g->file = fopen(path, g->replay ? "r" : "w");
    if (g->file == NULL) {
        const wh_status s = whi_refuse(WH_IO_ERROR, "cannot open %.200s to %s the schedule: %s",
                                       path, o->replay != NULL ? "read" : "write", strerror(errno));
        free(g);
        return s;
    }
    const wh_status s = begin_file(g, o, path);
    if (s != WH_OK) {
        (void)whi_log_close(g);
        return s;
    }
    *log = g;
    return WH_OK;
}

wh_status whi_log_close(whi_log *g) {
    const bool bad = ferror(g->file) != 0;
    const bool bad_close = fclose(g->file) != 0;
    whi_sparse_close(g->sparse);
    free(g);
    return bad || bad_close ? WH_IO_ERROR : WH_OK;
}

/* --- choices ------------------------------------------------------------------------- */

/* Returns only when no lane runs yet. */
static void diverged(whi_engine *e, const char *wanted) {
    const whi_log *g = e->log;
    const whi_lane *l = whi_current();
    whi_note_failure(e, l->engine != NULL ? l : NULL,
                     "the replay diverged at choice %" PRIu64 " (line %" PRIu64
                     " of the schedule): %s",
                     g->choices, g->line, wanted);
    if (l->engine != NULL) {
        whi_leave(e);
    }
}

/* The number behind a token of the given kind; 0 after diverging on the host's stack. */
static uint64_t replayed(whi_engine *e, char kind, const char *asked) {
    whi_log *g = e->log;
    char text[200];
    uint64_t v = 0;
    g->choices++;
    if (next_token(g)[0] == '\0') {
        (void)snprintf(text, sizeof text, "the schedule ends where the program %s", asked);
        diverged(e, text);
    } else if (g->token[0] != kind || !parse(g->token + 1, kind == 'm' ? 16 : 10, &v)) {
        (void)snprintf(text, sizeof text, "the schedule has '%.40s' where the program %s", g->token,
                       asked);
        diverged(e, text);
    }
    return v;
}

static void put_grid(whi_log *g, const whi_grid *grid) {
    (void)fprintf(g->file, "%s %" PRIu32 " %" PRIu32, grid->name, grid->blocks, grid->threads);
}

static bool read_grid(whi_log *g, const whi_grid *grid) {
    uint64_t blocks = 0, threads = 0;
    return strcmp(next_token(g), grid->name) == 0 && parse(next_token(g), 10, &blocks) &&
           parse(next_token(g), 10, &threads) && blocks == grid->blocks && threads == grid->threads;
}

static void put_batch(whi_log *g, const whi_batch *batch) {
    if (batch->n_grids == 1) {
        (void)fprintf(g->file, "launch ");
        put_grid(g, batch->grids[0]);
    } else {
        (void)fprintf(g->file, "launches %" PRIu32, batch->n_grids);
        for (uint32_t i = 0; i < batch->n_grids; i++) {
            (void)fprintf(g->file, "\n");
            put_grid(g, batch->grids[i]);
            (void)fprintf(g->file, " %" PRIu32, batch->grids[i]->stream);
        }
    }
    (void)fprintf(g->file, "\n");
}

static bool read_batch(whi_log *g, const whi_batch *batch) {
    uint64_t n = 0;
    if (batch->n_grids == 1) {
        return strcmp(next_token(g), "launch") == 0 && read_grid(g, batch->grids[0]);
    }
    bool good = strcmp(next_token(g), "launches") == 0 && parse(next_token(g), 10, &n) &&
                n == batch->n_grids;
    for (uint32_t i = 0; good && i < batch->n_grids; i++) {
        good = read_grid(g, batch->grids[i]) && parse(next_token(g), 10, &n) &&
               n == batch->grids[i]->stream;
    }
    return good;
}

bool whi_log_begin(whi_engine *e) {
    whi_log *g = e->log;
    const whi_grid *grid = e->batch->grids[0];
    g->stay = 0;
    g->choices = 0;
    g->in_line = 0;
    if (g->sparse != NULL) {
        whi_sparse_begin(g->sparse);
        return true;
    }
    if (!g->replay) {
        put_batch(g, e->batch);
        return true;
    }
    while (strncmp(peek_token(g), "launch", 6) != 0 && g->token[0] != '\0') {
        (void)next_token(g); /* what a launch that failed has left */
    }
    if (!read_batch(g, e->batch)) {
        char text[200], others[48] = "";
        if (e->batch->n_grids > 1) {
            (void)snprintf(others, sizeof others, ", together with %" PRIu32 " more",
                           e->batch->n_grids - 1);
        }
        (void)snprintf(text, sizeof text,
                       "it is not the launch of kernel %.60s with %" PRIu32 " blocks of %" PRIu32
                       " threads%s",
                       grid->name, grid->blocks, grid->threads, others);
        diverged(e, text);
        return false;
    }
    return true;
}

void whi_log_end(whi_engine *e) {
    whi_log *g = e->log;
    if (!g->replay) {
        flush_stay(g);
        (void)fprintf(g->file, "%s", g->sparse != NULL ? "" : "end\n");
        if (fflush(g->file) != 0 || ferror(g->file) != 0) {
            whi_note_failure(e, NULL, "the schedule could not be written to the file of record=");
        }
    } else if (g->sparse == NULL && !e->batch->failed &&
               (g->stay > 0 || strcmp(next_token(g), "end") != 0)) {
        diverged(e, "the kernel has ended, but the schedule goes on");
    }
}

bool whi_log_replays(const whi_log *g) {
    return g->replay;
}

bool whi_log_is_sparse(const whi_log *g) {
    return g->sparse != NULL && g->replay;
}

void whi_log_picked(whi_engine *e, const whi_lane *l, const whi_lane *next, bool leave) {
    whi_log *g = e->log;
    if (g->sparse != NULL) {
        whi_sparse_picked(g->sparse, l, next, leave);
    } else if (e->n_run > 1 && next == l) {
        g->stay++;
    } else if (e->n_run > 1) {
        flush_stay(g);
        put_number(g, 'g', whi_thread_of(next));
    }
}

whi_lane *whi_log_pick(whi_engine *e, whi_lane *l) {
    whi_log *g = e->log;
    if (g->sparse != NULL) {
        return whi_sparse_pick(e, g->sparse, l);
    }
    if (e->n_run == 1) {
        return e->runnable[0];
    }
    if (g->stay == 0) {
        if (peek_token(g)[0] == 's' && parse(g->token + 1, 10, &g->stay)) {
            g->peeked = false;
            g->choices++;
        }
    }
    char text[200], doing[120];
    if (g->stay == 0 && peek_token(g)[0] == 'h') {
        const uint64_t ticks = replayed(e, 'h', "");
        if (l->state != WHI_LANE_RUNNABLE || ticks == 0 || ticks >= WHI_WHEEL) {
            diverged(e, "the running lane is to stop, but it cannot");
            return NULL;
        }
        whi_sleep(e, l, (uint32_t)ticks);
        if (e->n_run == 1) {
            return e->runnable[0];
        }
    }
    if (g->stay > 0) {
        g->stay--;
        if (l->state == WHI_LANE_RUNNABLE) {
            return l;
        }
        diverged(e, "the running lane is to go on, but it cannot");
        return NULL;
    }
    const uint64_t thread = replayed(e, 'g', "asks for the next lane");
    if (e->batch->failed) {
        return NULL;
    }
    whi_lane *next = whi_find_lane(e, thread);
    if (next != NULL && next->state == WHI_LANE_RUNNABLE) {
        return next;
    }
    if (next != NULL) {
        whi_describe_lane(next, doing, sizeof doing);
    }
    (void)snprintf(text, sizeof text, "thread %" PRIu64 " is to go on, but it %s", thread,
                   next != NULL ? doing : "is not resident");
    diverged(e, text);
    return NULL;
}

uint32_t whi_log_ticks(whi_engine *e, uint32_t ticks) {
    whi_log *g = e->log;
    if (g->sparse != NULL) {
        const whi_warp *w = whi_current()->warp;
        return (uint32_t)whi_sparse_choice(g->sparse, 'w', ticks,
                                           w != NULL ? wh_popc32(w->live) : 1);
    }
    if (g->replay) {
        return (uint32_t)replayed(e, 'w', "comes to wh_activemask");
    }
    flush_stay(g);
    put_number(g, 'w', ticks);
    return ticks;
}

uint32_t whi_log_sleep(whi_engine *e, uint32_t ticks) {
    whi_log *g = e->log;
    if (g->sparse != NULL) {
        return ticks; /* a replay does not come here */
    }
    if (g->replay) {
        const uint64_t n = replayed(e, 'z', "backs off");
        if (n == 0 || n >= WHI_WHEEL) {
            diverged(e, "a lane is to sleep longer than there is");
        }
        return (uint32_t)n;
    }
    flush_stay(g);
    put_number(g, 'z', ticks);
    return ticks;
}

uint32_t whi_log_age(whi_engine *e, uint32_t age, uint32_t most) {
    whi_log *g = e->log;
    if (g->sparse != NULL) {
        const uint64_t n = whi_sparse_choice(g->sparse, 'o', age, 0);
        return n <= most ? (uint32_t)n : most;
    }
    if (g->replay) {
        const uint64_t n = replayed(e, 'o', "loads");
        if (n > most) {
            diverged(e, "a load is to return a value that it cannot see any more");
        }
        return (uint32_t)n;
    }
    flush_stay(g);
    put_number(g, 'o', age);
    return age;
}

void whi_log_stall(whi_engine *e, uint32_t ticks) {
    if (e->log->sparse == NULL) { /* others go on meanwhile, which is all that counts there */
        flush_stay(e->log);
        put_number(e->log, 'h', ticks);
    }
}

/* Whether the lanes of a mask wait in wh_activemask at one call, those of must among them. */
static bool is_good_mask(const whi_warp *w, uint32_t mask, uint32_t must) {
    bool good = mask != 0 && (mask & ~w->am_wait) == 0 && (mask & must) == must;
    for (uint32_t m = mask; good && m != 0; m &= m - 1) {
        good = strcmp(w->lanes[wh_ctz32(m)].site, w->lanes[wh_ctz32(mask)].site) == 0;
    }
    return good;
}

/* All that wait at the call of the first one, or of those in must. */
static uint32_t default_mask(const whi_warp *w, uint32_t must) {
    uint32_t mask = must;
    for (uint32_t m = w->am_wait; m != 0; m &= m - 1) {
        const uint32_t more = mask | 1u << wh_ctz32(m);
        mask = is_good_mask(w, more, must) ? more : mask;
    }
    return mask;
}

uint32_t whi_log_mask(whi_engine *e, whi_warp *w, uint32_t mask, uint32_t must) {
    whi_log *g = e->log;
    if (g->sparse != NULL) {
        const uint32_t by_default = default_mask(w, must);
        mask = (uint32_t)whi_sparse_choice(g->sparse, 'm', mask, by_default);
        return is_good_mask(w, mask, must) ? mask : by_default;
    }
    if (!g->replay) {
        flush_stay(g);
        put_number(g, 'm', mask);
        return mask;
    }
    mask = (uint32_t)replayed(e, 'm', "resolves a wh_activemask");
    if (!is_good_mask(w, mask, must)) {
        diverged(e, "a wh_activemask is to name lanes that are not there");
    }
    return mask;
}

uint32_t whi_log_stream(whi_engine *e, uint32_t stream,
                        bool (*may)(const whi_batch *, uint32_t k)) {
    whi_log *g = e->log;
    if (g->sparse != NULL) {
        uint32_t by_default = 0;
        while (!may(e->batch, by_default)) { /* one may */
            by_default++;
        }
        const uint64_t k = whi_sparse_choice(g->sparse, 'b', stream, by_default);
        return k < e->batch->n_streams && may(e->batch, (uint32_t)k) ? (uint32_t)k : by_default;
    }
    if (!g->replay) {
        flush_stay(g);
        put_number(g, 'b', stream);
        return stream;
    }
    const uint64_t k = replayed(e, 'b', "starts a block of one of several streams");
    if (!e->batch->failed && (k >= e->batch->n_streams || !may(e->batch, (uint32_t)k))) {
        diverged(e, "a block of a stream is to start that has none to start");
    }
    return (uint32_t)k;
}
