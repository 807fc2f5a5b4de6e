/* gauge.c: samples of a heap while kernels use it, and the file that they are published in.
 *
 * The file is one record, written by one call and closed by a checksum: a reader that comes between
 * two halves sees that, and reads again. Who publishes holds a lock on the file (flock), which ends
 * with the process, however that ends: so a reader knows whether the program is there. A child that
 * was forked meanwhile has the lock, too; so the record also says which process it is, by number
 * and time of its start, for readers to whom that number means the same. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* program_invocation_short_name, flock */
#endif

#include "warpheap/gauge.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "heap_internal.h"
#include "last_error.h"
#include "reserve.h"

#define MAGIC "whgauge"
#define VERSION 2u
#define TRIES 100u /* of a reader, or of who wants the lock, a millisecond apart */

typedef struct record {
    char magic[8];
    uint32_t version;
    uint32_t bytes; /* of the record */
    uint64_t pid;
    uint64_t started; /* the process, in the kernel's units; 0: not known */
    uint64_t space;   /* where the number is its: the inode of that; 0: not known */
    uint32_t interval_ms;
    uint32_t ended;
    char program[64];
    char allocator[32];
    char device[128];
    wh_gauge_sample sample;
    uint64_t sum; /* of all before it */
} record;

/* A heap as its gauges see it. A sample reads `heap` and all behind it with the lock, shared; who
 * destroys the heap has it alone while it sets `heap` to NULL. Gauges and heap hold it. */
struct whi_watched {
    pthread_rwlock_t lock;
    wh_heap *heap;
    uint32_t holders; /* atomic */
};

struct wh_gauge {
    whi_watched *watched;
    wh_device *device; /* held */
    const wh_allocator_info *info;
    whi_lens *lens;
    pthread_mutex_t lock; /* of all below */
    void *room;
    uint64_t room_bytes;
    uint64_t read_bytes; /* of the sample that is being taken */
    wh_status status;    /* ... what of it failed */
    int file;            /* -1: nothing is published */
    record published;
    char *path;
    wh_status first; /* error of publishing, and its text */
    char text[320];
    int has_thread, stop;
    int has_heap; /* as the last sample found */
    uint32_t depth;
    pthread_t thread;
    pthread_cond_t wake;
};

/* --- the heap --------------------------------------------------------------------------------- */

whi_watched *whi_watched_new(wh_heap *h) {
    whi_watched *w = calloc(1, sizeof *w);
    if (w != NULL) {
        (void)pthread_rwlock_init(&w->lock, NULL);
        w->heap = h;
        w->holders = 1;
    }
    return w;
}

static void let_go(whi_watched *w) {
    if (__atomic_sub_fetch(&w->holders, 1, __ATOMIC_ACQ_REL) == 0) {
        (void)pthread_rwlock_destroy(&w->lock);
        free(w);
    }
}

void whi_watched_end(whi_watched *w) {
    if (w != NULL) {
        (void)pthread_rwlock_wrlock(&w->lock);
        w->heap = NULL;
        (void)pthread_rwlock_unlock(&w->lock);
        let_go(w);
    }
}

/* --- a sample --------------------------------------------------------------------------------- */

static uint64_t now_ns(clockid_t clock) {
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static const void *look(void *context, const void *from, uint64_t bytes) {
    wh_gauge *g = context;
    g->status = g->device->ops->look(g->device, g->lens, from, bytes);
    g->read_bytes += bytes;
    return g->status == WH_OK ? g->lens->memory : NULL;
}

static void *room(void *context, uint64_t bytes) {
    wh_gauge *g = context;
    if (bytes > g->room_bytes) {
        free(g->room);
        g->room = malloc(bytes);
        g->room_bytes = g->room != NULL ? bytes : 0;
    }
    g->status = g->room != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    return g->room;
}

/* With the gauge's lock, and the heap's. */
static wh_status sample_heap(wh_gauge *g, const wh_heap *h, uint32_t depth, wh_gauge_sample *s) {
    const wh_gauge_lens lens = {look, room, g, depth};
    const uint64_t begin = now_ns(CLOCK_MONOTONIC);
    memset(s, 0, sizeof *s);
    s->struct_bytes = sizeof *s;
    s->time_ns = now_ns(CLOCK_REALTIME);
    s->claimed_bytes = s->used_bytes = s->live_blocks = WH_UNKNOWN;
    s->peak_bytes = s->mallocs = WH_UNKNOWN;
    s->heap_bytes = h->bytes;
    g->read_bytes = 0;
    g->status = WH_OK;
    whi_reserve_lock(h); /* what is mapped stays so */
    s->metadata_bytes = h->plan.metadata_bytes;
    if (h->reserve != NULL) {
        s->heap_bytes = whi_reserve_mapped(h->reserve);
        s->metadata_bytes = whi_reserve_metadata(h->reserve);
    }
    const int good = h->ops->gauge(h->handle, &lens, s);
    whi_reserve_unlock(h);
    s->read_bytes = g->read_bytes;
    s->took_ns = now_ns(CLOCK_MONOTONIC) - begin;
    return good ? WH_OK : g->status;
}

/* With the gauge's lock. */
static wh_status take_sample(wh_gauge *g, uint32_t depth, wh_gauge_sample *s) {
    whi_watched *w = g->watched;
    memset(s, 0, sizeof *s);
    (void)pthread_rwlock_rdlock(&w->lock);
    g->has_heap = w->heap != NULL;
    const wh_status status = g->has_heap
                                 ? sample_heap(g, w->heap, depth, s)
                                 : whi_refuse(WH_BAD_ARGUMENT, "the heap has been destroyed");
    (void)pthread_rwlock_unlock(&w->lock);
    return status;
}

/* --- the file --------------------------------------------------------------------------------- */

static uint64_t sum_of(const record *r) {
    const unsigned char *bytes = (const unsigned char *)r;
    uint64_t sum = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < offsetof(record, sum); i++) {
        sum = (sum ^ bytes[i]) * 0x100000001b3u;
    }
    return sum;
}

static wh_status refuse_file(const char *path, const char *what) {
    return whi_refuse(WH_IO_ERROR, "%.200s: %s: %s", path, what, strerror(errno));
}

static void wait_a_moment(void) {
    const struct timespec t = {0, 1000000};
    (void)nanosleep(&t, NULL);
}

static wh_status write_record(wh_gauge *g) {
    record *r = &g->published;
    size_t done = 0;
    r->sum = sum_of(r);
    while (done < sizeof *r) { /* behind a part of it the system says why */
        const ssize_t n = pwrite(g->file, (const char *)r + done, sizeof *r - done, (off_t)done);
        if (n <= 0) {
            errno = n == 0 ? ENOSPC : errno;
            return refuse_file(g->path, "it cannot be written");
        }
        done += (size_t)n;
    }
    return WH_OK;
}

/* When a process of this number started; 0: that cannot be known. A dead one whom nobody has waited
 * for is none. */
static uint64_t start_of(uint64_t pid, int *is_dead) {
    char name[64], text[512];
    (void)snprintf(name, sizeof name, "/proc/%llu/stat", (unsigned long long)pid);
    FILE *f = fopen(name, "re");
    const size_t n = f != NULL ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f != NULL) {
        (void)fclose(f);
    }
    text[n] = '\0';
    const char *at = strrchr(text, ')'); /* behind the name, which may be anything */
    *is_dead = at != NULL && at[1] == ' ' && (at[2] == 'Z' || at[2] == 'X');
    for (uint32_t field = 2; at != NULL && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    return at != NULL ? strtoull(at, NULL, 10) : 0;
}

static uint64_t pid_space(void) {
    struct stat space;
    return stat("/proc/self/ns/pid", &space) == 0 ? (uint64_t)space.st_ino : 0;
}

/* Whether the process that wrote it is there, as far as one can know. */
static int is_there(const record *r) {
    int is_dead = 0;
    if (r->space == 0 || r->space != pid_space()) {
        return 1;
    }
    if (kill((pid_t)r->pid, 0) != 0 && errno == ESRCH) {
        return 0;
    }
    const uint64_t started = start_of(r->pid, &is_dead);
    return !is_dead && (started == 0 || r->started == 0 || started == r->started);
}

/* Whether the file is empty, or a gauge's. */
static int may_write(int file) {
    char magic[sizeof MAGIC];
    const ssize_t n = pread(file, magic, sizeof magic, 0);
    return n == 0 || (n == (ssize_t)sizeof magic && memcmp(magic, MAGIC, sizeof magic) == 0);
}

/* Another one has the lock. */
static wh_status refuse_locked(const char *path, int file) {
    record r;
    memset(&r, 0, sizeof r);
    const int whole = pread(file, &r, sizeof r, 0) == (ssize_t)sizeof r && r.sum == sum_of(&r);
    return whi_refuse(WH_IO_ERROR,
                      whole && !is_there(&r)
                          ? "%.200s: a child of a program that has ended holds it"
                          : "%.200s: another gauge publishes there",
                      path);
}

/* The file, locked, and whether it is a new one; -1, and *s says why. A reader may have the lock
 * for a moment. */
static int open_locked(const char *path, int *is_new, wh_status *s) {
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    *is_new = file >= 0;
    if (file < 0 && errno == EEXIST) {
        file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    }
    if (file < 0) {
        *s = refuse_file(path, "it cannot be written");
        return -1;
    }
    int locked = flock(file, LOCK_EX | LOCK_NB);
    for (uint32_t i = 0; i < TRIES && locked != 0 && errno == EWOULDBLOCK; i++) {
        wait_a_moment();
        locked = flock(file, LOCK_EX | LOCK_NB);
    }
    if (locked != 0) {
        *s = errno == EWOULDBLOCK ? refuse_locked(path, file)
                                  : refuse_file(path, "it cannot be locked");
    } else if (!may_write(file)) {
        *s = whi_refuse(WH_BAD_FORMAT, "%.200s: there is a file that is no gauge's", path);
    } else {
        return file;
    }
    (void)close(file);
    return -1;
}

static void describe(wh_gauge *g, uint32_t interval_ms) {
    record *r = &g->published;
    int is_dead = 0;
    memset(r, 0, sizeof *r);
    memcpy(r->magic, MAGIC, sizeof r->magic);
    r->version = VERSION;
    r->bytes = sizeof *r;
    r->pid = (uint64_t)getpid();
    r->started = start_of(r->pid, &is_dead);
    r->space = pid_space();
    r->interval_ms = interval_ms;
    (void)snprintf(r->program, sizeof r->program, "%s", program_invocation_short_name);
    (void)snprintf(r->allocator, sizeof r->allocator, "%s", g->info->name);
    (void)snprintf(r->device, sizeof r->device, "%s", g->device->info.name);
}

/* With the gauge's lock. A sample that failed is not published. */
static wh_status sample_and_publish(wh_gauge *g, uint32_t depth, wh_gauge_sample *s) {
    wh_status status = take_sample(g, depth, s);
    if (status == WH_OK && g->file >= 0) {
        g->published.sample = *s;
        status = write_record(g);
    }
    return status;
}

/* The last record says that there will be no more. */
static wh_status end_publishing(wh_gauge *g) {
    if (g->file < 0) {
        return WH_OK;
    }
    g->published.ended = 1;
    const wh_status s = write_record(g);
    (void)close(g->file);
    g->file = -1;
    return s;
}

static void add_ms(struct timespec *t, uint32_t ms) {
    t->tv_sec += ms / 1000;
    t->tv_nsec += (long)(ms % 1000) * 1000000;
    if (t->tv_nsec >= 1000000000) {
        t->tv_sec++;
        t->tv_nsec -= 1000000000;
    }
}

static void *publish(void *context) {
    wh_gauge *g = context;
    wh_gauge_sample s;
    struct timespec next;
    (void)pthread_mutex_lock(&g->lock);
    while (!g->stop) {
        (void)clock_gettime(CLOCK_MONOTONIC, &next);
        add_ms(&next, g->published.interval_ms);
        while (!g->stop && pthread_cond_timedwait(&g->wake, &g->lock, &next) != ETIMEDOUT) {
        }
        if (!g->stop) {
            whi_forget_error();
            wh_status status = sample_and_publish(g, g->depth, &s);
            if (!g->has_heap) { /* which is no failure of who publishes */
                status = end_publishing(g);
                g->stop = 1;
            }
            if (g->first == WH_OK && status != WH_OK) {
                g->first = status;
                (void)snprintf(g->text, sizeof g->text, "%s", wh_last_error_text());
            }
        }
    }
    (void)pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* Starts the thread, if there is to be one. It leaves the signals to the program's threads. */
static wh_status start_thread(wh_gauge *g) {
    sigset_t all, before;
    if (g->published.interval_ms == 0) {
        return WH_OK;
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    g->has_thread = pthread_create(&g->thread, NULL, publish, g) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return g->has_thread ? WH_OK : WH_OUT_OF_MEMORY;
}

/* The first record is written, and there is a thread, if there is to be one; else no file stays
 * that was not there. */
static wh_status begin_publishing(wh_gauge *g, const char *path, uint32_t interval_ms) {
    wh_gauge_sample s;
    int is_new = 0;
    wh_status status = take_sample(g, g->depth, &s); /* before there is a file */
    free(g->path);
    g->path = strdup(path);
    status = status == WH_OK && g->path == NULL ? WH_OUT_OF_MEMORY : status;
    g->file = status == WH_OK ? open_locked(path, &is_new, &status) : -1;
    if (g->file < 0) {
        return status;
    }
    describe(g, interval_ms);
    g->published.sample = s;
    status = write_record(g);
    status = status == WH_OK ? start_thread(g) : status;
    if (status != WH_OK) {
        if (is_new) {
            (void)unlink(path);
        }
        (void)close(g->file);
        g->file = -1;
    }
    return status;
}

wh_status wh_gauge_publish(wh_gauge *gauge, const char *path, uint32_t depth,
                           uint32_t interval_ms) {
    if (gauge == NULL || path == NULL || depth > WH_GAUGE_BLOCKS) {
        return WH_BAD_ARGUMENT;
    }
    whi_forget_error();
    (void)pthread_mutex_lock(&gauge->lock);
    wh_status s = WH_OK;
    if (gauge->file >= 0) {
        s = whi_refuse(WH_BAD_ARGUMENT, "the gauge publishes already");
    } else {
        gauge->depth = depth;
        s = begin_publishing(gauge, path, interval_ms);
    }
    (void)pthread_mutex_unlock(&gauge->lock);
    return s;
}

/* --- the gauge -------------------------------------------------------------------------------- */

wh_status wh_gauge_open(wh_gauge **gauge, wh_heap *heap) {
    if (gauge == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *gauge = NULL;
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    whi_forget_error();
    if (heap->ops->gauge == NULL) {
        return whi_refuse(WH_UNSUPPORTED, "heaps of %s have no gauge", heap->info->name);
    }
    wh_gauge *g = calloc(1, sizeof *g);
    if (g == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    const wh_status s = heap->device->ops->lens_open(heap->device, &g->lens, WH_GAUGE_LOOK);
    if (s != WH_OK) {
        free(g);
        return s;
    }
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&g->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)pthread_mutex_init(&g->lock, NULL);
    g->watched = heap->watched;
    (void)__atomic_add_fetch(&g->watched->holders, 1, __ATOMIC_RELAXED);
    g->info = heap->info;
    g->device = heap->device;
    g->file = -1;
    whi_device_hold(g->device);
    *gauge = g;
    return WH_OK;
}

wh_status wh_gauge_close(wh_gauge *gauge) {
    if (gauge == NULL) {
        return WH_OK;
    }
    (void)pthread_mutex_lock(&gauge->lock);
    gauge->stop = 1;
    (void)pthread_cond_signal(&gauge->wake);
    (void)pthread_mutex_unlock(&gauge->lock);
    if (gauge->has_thread) {
        (void)pthread_join(gauge->thread, NULL);
    }
    whi_forget_error();
    wh_status s = end_publishing(gauge);
    s = gauge->first != WH_OK ? whi_refuse(gauge->first, "%s", gauge->text) : s;
    gauge->device->ops->lens_close(gauge->device, gauge->lens);
    wh_device_close(gauge->device);
    let_go(gauge->watched);
    (void)pthread_cond_destroy(&gauge->wake);
    (void)pthread_mutex_destroy(&gauge->lock);
    free(gauge->room);
    free(gauge->path);
    free(gauge);
    return s;
}

wh_status wh_gauge_read_sized(wh_gauge *gauge, uint32_t depth, wh_gauge_sample *sample,
                              size_t bytes) {
    whi_forget_error();
    if (gauge == NULL || sample == NULL || depth > WH_GAUGE_BLOCKS) {
        return WH_BAD_ARGUMENT;
    }
    if (bytes < 2 * sizeof(uint64_t) || bytes > sizeof *sample) {
        return whi_refuse(WH_WRONG_BUILD,
                          "a wh_gauge_sample of %zu bytes is none that this library knows (its own "
                          "has %zu)",
                          bytes, sizeof *sample);
    }
    wh_gauge_sample s;
    (void)pthread_mutex_lock(&gauge->lock);
    const wh_status status = sample_and_publish(gauge, depth, &s);
    (void)pthread_mutex_unlock(&gauge->lock);
    s.struct_bytes = bytes;
    memcpy(sample, &s, bytes);
    return status;
}

/* --- for others ------------------------------------------------------------------------------- */

static wh_status judge(const char *path, const record *r, ssize_t n) {
    if (n < (ssize_t)sizeof r->magic || memcmp(r->magic, MAGIC, sizeof r->magic) != 0) {
        return whi_refuse(WH_BAD_FORMAT, "%.200s: no gauge publishes to this file", path);
    }
    if (n >= (ssize_t)offsetof(record, pid) && (r->version != VERSION || r->bytes != sizeof *r)) {
        return whi_refuse(WH_WRONG_BUILD,
                          "%.200s: a gauge's, of version %u, and this library reads version %u",
                          path, (unsigned)r->version, VERSION);
    }
    if (n < (ssize_t)sizeof *r) {
        return whi_refuse(WH_BAD_FORMAT, "%.200s: cut short: %zd bytes of %zu", path, n, sizeof *r);
    }
    return r->sum == sum_of(r) ? WH_OK : whi_refuse(WH_BAD_FORMAT, "%.200s: damaged", path);
}

/* A record that is whole. One that a writer is about to write is read again. */
static wh_status read_record(const char *path, int file, record *r) {
    wh_status s = WH_OK;
    for (uint32_t i = 0; i < TRIES; i++) {
        memset(r, 0, sizeof *r);
        const ssize_t n = pread(file, r, sizeof *r, 0);
        if (n < 0) {
            return refuse_file(path, "it cannot be read");
        }
        s = judge(path, r, n);
        if (s != WH_BAD_FORMAT || flock(file, LOCK_SH | LOCK_NB) == 0) {
            break; /* right, or nobody writes it */
        }
        wait_a_moment();
    }
    return s;
}

static uint32_t state_of(int file, const record *r) {
    const int is_written = flock(file, LOCK_SH | LOCK_NB) != 0 && is_there(r);
    if (r->ended) {
        return WH_GAUGE_ENDED;
    }
    return is_written ? WH_GAUGE_LIVE : WH_GAUGE_GONE;
}

static void fill_view(wh_gauge_view *view, const record *r) {
    memset(view, 0, sizeof *view);
    view->pid = r->pid;
    view->interval_ms = r->interval_ms;
    (void)snprintf(view->program, sizeof view->program, "%.*s", (int)sizeof r->program - 1,
                   r->program);
    (void)snprintf(view->allocator, sizeof view->allocator, "%.*s", (int)sizeof r->allocator - 1,
                   r->allocator);
    (void)snprintf(view->device, sizeof view->device, "%.*s", (int)sizeof r->device - 1, r->device);
    view->sample = r->sample;
}

wh_status wh_gauge_read_file_sized(const char *path, wh_gauge_view *view, size_t bytes) {
    if (path == NULL || view == NULL) {
        return WH_BAD_ARGUMENT;
    }
    whi_forget_error();
    if (bytes != sizeof *view) {
        return whi_refuse(WH_WRONG_BUILD,
                          "a wh_gauge_view of %zu bytes is none that this library knows (its own "
                          "has %zu)",
                          bytes, sizeof *view);
    }
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return refuse_file(path, "it cannot be read");
    }
    record r;
    wh_status s = read_record(path, file, &r);
    if (s == WH_OK) {
        const uint32_t state = state_of(file, &r);
        /* Who ended between the two has written a last record. */
        s = state == WH_GAUGE_GONE ? read_record(path, file, &r) : WH_OK;
        fill_view(view, &r);
        view->struct_bytes = bytes;
        view->state = state == WH_GAUGE_GONE && r.ended ? WH_GAUGE_ENDED : state;
    }
    (void)close(file);
    return s;
}
