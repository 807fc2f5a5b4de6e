/* sparse.c: schedules that say only where a lane does not simply go on.
 *
 * A file of such a schedule has the first line of any schedule (choices.c), with the word
 *     warpheap-switches 1
 * in front, and then a line for each choice that is not the default:
 *     <launch> <thread> <n> <choice>
 * In the launch of that number (from 0 on), when the thread asked for the n-th time who goes on,
 * the choice was this one: g<t>, w<n>, m<x>, o<n> or b<k> as in choices.c. '-' is the thread of
 * the host, which asks who begins. Defaults: the lane goes on if it can and need not give way, else
 * the next one by number; a wh_activemask waits for a point of each lane of its warp, and names all
 * that wait at the call of the first; loads return the newest value; streams take turns. Nobody
 * sleeps or is stalled: a lane that backs off gives way.
 *
 * A line that does not fit is passed over, and what has no line goes by default. So lines may be
 * left out, in any number: the fewest that still fail explain a bug. */
#include "sim_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    uint64_t launch, thread, n, value;
    size_t line;
    char kind;
    bool used;
} entry;

struct whi_sparse {
    FILE *file;     /* NULL: this is a replay */
    entry *entries; /* in the order of `compare` */
    size_t n, room;
    uint64_t launch;
};

static int compare(const void *a, const void *b) {
    const entry *x = a, *y = b;
    const uint64_t of[][2] = {{x->launch, y->launch},
                              {x->thread, y->thread},
                              {x->n, y->n},
                              {(unsigned char)x->kind, (unsigned char)y->kind}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        if (of[i][0] != of[i][1]) {
            return of[i][0] < of[i][1] ? -1 : 1;
        }
    }
    return x->line < y->line ? -1 : x->line > y->line; /* lines of one choice */
}

static bool read_thread(const char *text, uint64_t *thread) {
    char *end = NULL;
    *thread = strcmp(text, "-") == 0 ? WHI_NO_THREAD : strtoull(text, &end, 10);
    return end == NULL || (end != text && *end == '\0');
}

/* 1: an entry; 0: the file has ended; -1: the line is none. */
static int read_entry(FILE *file, entry *x) {
    char line[128], thread[24], value[24];
    if (fgets(line, sizeof line, file) == NULL) {
        return 0;
    }
    memset(x, 0, sizeof *x);
    if (sscanf(line, "%" SCNu64 " %23s %" SCNu64 " %c%23s", &x->launch, thread, &x->n, &x->kind,
               value) != 5 ||
        strchr("gwmob", x->kind) == NULL || !read_thread(thread, &x->thread)) {
        return -1;
    }
    char *end;
    x->value = strtoull(value, &end, x->kind == 'm' ? 16 : 10);
    return *end == '\0' ? 1 : -1;
}

wh_status whi_sparse_open(whi_sparse **sparse, FILE *file, bool replay, uint64_t *line) {
    whi_sparse *p = calloc(1, sizeof *p);
    *sparse = p;
    if (p == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    p->launch = UINT64_MAX; /* none has begun */
    p->file = replay ? NULL : file;
    int more = replay;
    for (*line = 2; more != 0; (*line)++) {
        if (p->n == p->room) {
            p->room = 2 * p->room + 64;
            entry *entries = realloc(p->entries, p->room * sizeof *entries);
            if (entries == NULL) {
                return WH_OUT_OF_MEMORY;
            }
            p->entries = entries;
        }
        more = read_entry(file, &p->entries[p->n]);
        if (more < 0) {
            return WH_BAD_FORMAT;
        }
        p->entries[p->n].line = p->n;
        p->n += more > 0;
    }
    if (p->n != 0) {
        qsort(p->entries, p->n, sizeof *p->entries, compare);
    }
    return WH_OK;
}

void whi_sparse_close(whi_sparse *p) {
    if (p != NULL) {
        free(p->entries);
        free(p);
    }
}

void whi_sparse_begin(whi_sparse *p) {
    p->launch++;
}

/* Which lane asks, and how often it has. */
static entry key_of(const whi_sparse *p, const whi_lane *l, char kind) {
    const entry x = {p->launch, whi_thread_of(l), l->asked, 0, 0, kind, false};
    return x;
}

/* Of a binary search, since a schedule may have a line for nearly every point. */
static bool find(const whi_sparse *p, const whi_lane *l, char kind, uint64_t *value) {
    const entry key = key_of(p, l, kind);
    size_t first = 0, end = p->n;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        const entry *x = &p->entries[middle];
        if (x->launch != key.launch || x->thread != key.thread || x->n != key.n ||
            x->kind != kind) {
            if (compare(x, &key) < 0) {
                first = middle + 1;
            } else {
                end = middle;
            }
        } else {
            end = middle; /* the first of its lines */
        }
    }
    for (; first < p->n; first++) {
        entry *x = &p->entries[first];
        if (x->launch != key.launch || x->thread != key.thread || x->n != key.n ||
            x->kind != kind) {
            return false;
        }
        if (!x->used) {
            x->used = true;
            *value = x->value;
            return true;
        }
    }
    return false;
}

static void put(whi_sparse *p, const whi_lane *l, char kind, uint64_t value) {
    const entry x = key_of(p, l, kind);
    char thread[24] = "-";
    if (x.thread != WHI_NO_THREAD) {
        (void)snprintf(thread, sizeof thread, "%" PRIu64, x.thread);
    }
    (void)fprintf(p->file,
                  kind == 'm' ? "%" PRIu64 " %s %" PRIu64 " %c%" PRIx64 "\n"
                              : "%" PRIu64 " %s %" PRIu64 " %c%" PRIu64 "\n",
                  x.launch, thread, x.n, kind, value);
}

void whi_sparse_picked(whi_sparse *p, const whi_lane *l, const whi_lane *next, bool leave) {
    if (next != l || leave) {
        put(p, l, 'g', whi_thread_of(next));
    }
}

whi_lane *whi_sparse_pick(whi_engine *e, whi_sparse *p, whi_lane *l) {
    uint64_t thread = 0;
    if (find(p, l, 'g', &thread)) {
        whi_lane *next = whi_find_lane(e, thread);
        if (next != NULL && next->state == WHI_LANE_RUNNABLE) {
            return next;
        }
    }
    return NULL;
}

uint64_t whi_sparse_choice(whi_sparse *p, char kind, uint64_t value, uint64_t by_default) {
    const whi_lane *l = whi_current();
    if (p->file != NULL) {
        if (value != by_default) {
            put(p, l, kind, value);
        }
        return value;
    }
    return find(p, l, kind, &value) ? value : by_default;
}
