/* device_sim.c: the simulated device as a back-end of device.h: options, memory, streams,
 * the pool of workers, and wh_sim_launch. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* MAP_ANONYMOUS, clock_gettime */
#endif

#include "sim_internal.h"

#include "../host/last_error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_SMS 4u
#define DEFAULT_BLOCKS_PER_SM 2u
#define DEFAULT_BUDGET ((uint64_t)1 << 40)
#define DEFAULT_MEMORY ((uint64_t)2 << 30)
#define DEFAULT_STICKY 8u
#define DEFAULT_STALL 64u
#define DEFAULT_PCT_DEPTH 2u
#define MOST_SMS 4096u
#define MOST_BLOCKS_PER_SM 64u
#define MOST_WORKERS 256u

/* --- workers ------------------------------------------------------------------------ */

/* Worker 0 is the host thread that launches; the others wait here for a batch. */
typedef struct whi_pool {
    pthread_mutex_t mutex;
    pthread_cond_t go, done;
    whi_batch *batch;
    uint64_t round; /* counts batches */
    uint32_t busy;
    bool stop;
    uint32_t n_threads;
    pthread_t *threads;
} whi_pool;

static void *worker_main(void *arg) {
    whi_engine *e = arg;
    whi_pool *p = e->device->pool;
    uint64_t seen = 0;
    (void)pthread_mutex_lock(&p->mutex);
    for (;;) {
        while (p->round == seen && !p->stop) {
            (void)pthread_cond_wait(&p->go, &p->mutex);
        }
        if (p->stop) {
            break;
        }
        seen = p->round;
        whi_batch *batch = p->batch;
        (void)pthread_mutex_unlock(&p->mutex);
        whi_engine_run(e, batch);
        (void)pthread_mutex_lock(&p->mutex);
        if (--p->busy == 0) {
            (void)pthread_cond_signal(&p->done);
        }
    }
    (void)pthread_mutex_unlock(&p->mutex);
    return NULL;
}

static void pool_close(whi_pool *p) {
    (void)pthread_mutex_lock(&p->mutex);
    p->stop = true;
    (void)pthread_cond_broadcast(&p->go);
    (void)pthread_mutex_unlock(&p->mutex);
    for (uint32_t i = 0; i < p->n_threads; i++) {
        (void)pthread_join(p->threads[i], NULL);
    }
    (void)pthread_cond_destroy(&p->go);
    (void)pthread_cond_destroy(&p->done);
    (void)pthread_mutex_destroy(&p->mutex);
    free(p->threads);
    free(p);
}

static wh_status pool_open(whi_sim_device *d) {
    whi_pool *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    (void)pthread_mutex_init(&p->mutex, NULL);
    (void)pthread_cond_init(&p->go, NULL);
    (void)pthread_cond_init(&p->done, NULL);
    d->pool = p;
    p->threads = calloc(d->n_workers - 1, sizeof *p->threads);
    while (p->threads != NULL && p->n_threads < d->n_workers - 1 &&
           pthread_create(&p->threads[p->n_threads], NULL, worker_main,
                          &d->engines[p->n_threads + 1]) == 0) {
        p->n_threads++;
    }
    return p->n_threads == d->n_workers - 1 ? WH_OK : WH_OUT_OF_MEMORY;
}

static void run_all(whi_sim_device *d, whi_batch *batch) {
    whi_pool *p = d->pool;
    if (p == NULL) {
        whi_engine_run(&d->engines[0], batch);
        return;
    }
    (void)pthread_mutex_lock(&p->mutex);
    p->batch = batch;
    p->busy = p->n_threads;
    p->round++;
    (void)pthread_cond_broadcast(&p->go);
    (void)pthread_mutex_unlock(&p->mutex);
    whi_engine_run(&d->engines[0], batch);
    (void)pthread_mutex_lock(&p->mutex);
    while (p->busy > 0) {
        (void)pthread_cond_wait(&p->done, &p->mutex);
    }
    (void)pthread_mutex_unlock(&p->mutex);
}

/* --- launching ------------------------------------------------------------------------ */

/* A launch on the default stream runs at once. Others wait in the queue until a call
 * that has to wait for them; then all that is queued runs as one batch. */

typedef struct whi_stream {
    struct whi_stream *next;
    whi_grid *last; /* while a batch is made: its last grid of this stream */
} whi_stream;

typedef struct whi_queued {
    whi_grid grid;
    whi_stream *stream;
    void *args; /* a copy */
} whi_queued;

static whi_stream **find_stream(whi_sim_device *d, const void *stream) {
    whi_stream **at = &d->streams;
    while (*at != NULL && *at != stream) {
        at = &(*at)->next;
    }
    return at;
}

/* Adds a grid behind the others; last: the one before it on its stream, or NULL. */
static void add_grid(whi_batch *b, whi_grid *g, whi_grid *last) {
    g->before = last;
    if (last != NULL) {
        last->after = g;
        g->stream = last->stream;
    } else {
        g->stream = b->n_streams;
        b->heads[b->n_streams++] = g;
    }
    g->first_thread = b->threads;
    b->grids[b->n_grids++] = g;
    b->unstarted += g->blocks;
    b->threads += (uint64_t)g->blocks * g->threads;
    b->most_threads = g->threads > b->most_threads ? g->threads : b->most_threads;
}

/* To all peers what the lead's engines say of a kernel that failed. */
static void tell_peers(whi_sim_device *lead) {
    for (whi_sim_device *d = lead->next_peer; d != lead; d = d->next_peer) {
        memcpy(d->base.error, lead->base.error, sizeof d->base.error);
    }
}

/* d: a lead. */
static wh_status run_batch(whi_sim_device *d, whi_batch *b) {
    b->last_stream = b->n_streams - 1;
    for (uint32_t i = 0; i < d->n_workers; i++) {
        const wh_status s = whi_engine_prepare(&d->engines[i], b);
        if (s != WH_OK) {
            return s;
        }
    }
    whi_tsan_release(&d->begin);
    run_all(d, b);
    whi_policy_remember(&d->engines[0]);
    whi_tsan_acquire(&d->end);
    if (b->failed) {
        tell_peers(d);
    }
    return b->failed ? WH_DEVICE_ERROR : WH_OK;
}

/* Runs what is queued, of all peers. The caller tells of a failure; nobody does after it. */
static wh_status run_queue(whi_sim_device *of) {
    whi_sim_device *d = of->lead;
    const size_t n = d->n_queued;
    if (n == 0) {
        return WH_OK;
    }
    whi_batch b;
    memset(&b, 0, sizeof b);
    b.grids = calloc(n, sizeof *b.grids);
    b.heads = calloc(n, sizeof *b.heads);
    wh_status s = b.grids != NULL && b.heads != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    if (s == WH_OK) {
        for (size_t i = 0; i < n; i++) {
            whi_queued *q = &d->queue[i];
            add_grid(&b, &q->grid, q->stream->last);
            q->stream->last = &q->grid;
        }
        s = run_batch(d, &b);
    }
    for (size_t i = 0; i < n; i++) {
        d->queue[i].stream->last = NULL;
        free(d->queue[i].args);
    }
    d->n_queued = 0;
    free(b.grids);
    free(b.heads);
    return s;
}

static wh_status run_now(whi_sim_device *of, whi_grid *grid) {
    whi_grid *grids[1], *heads[1];
    whi_batch b;
    memset(&b, 0, sizeof b);
    b.grids = grids;
    b.heads = heads;
    add_grid(&b, grid, NULL);
    return run_batch(of->lead, &b);
}

static wh_status enqueue(whi_sim_device *of, const whi_grid *grid, whi_stream *stream,
                         size_t args_bytes) {
    whi_sim_device *d = of->lead;
    if (d->n_queued == d->queue_room) {
        const size_t room = 2 * d->queue_room + 16;
        whi_queued *more = realloc(d->queue, room * sizeof *more);
        if (more == NULL) {
            return WH_OUT_OF_MEMORY;
        }
        d->queue = more;
        d->queue_room = room;
    }
    /* A type's alignment divides its size. */
    size_t align = args_bytes & (~args_bytes + 1);
    align = align < sizeof(void *) ? sizeof(void *) : align;
    align = align > 4096 ? 4096 : align;
    whi_queued *q = &d->queue[d->n_queued];
    if (posix_memalign(&q->args, align, args_bytes) != 0) {
        return WH_OUT_OF_MEMORY;
    }
    memcpy(q->args, grid->args, args_bytes);
    q->grid = *grid;
    q->grid.args = q->args;
    q->stream = stream;
    d->n_queued++;
    return WH_OK;
}

static uint32_t or_one(uint32_t n) {
    return n != 0 ? n : 1;
}

wh_status wh_sim_launch(const wh_launch *launch, void (*entry)(const void *), const void *args,
                        size_t args_bytes, const char *kernel_name) {
    if (args == NULL || wh_launch_check(launch, WH_TARGET_SIM) != WH_OK ||
        whi_current()->engine != NULL) {
        return WH_BAD_ARGUMENT;
    }
    whi_sim_device *d = (whi_sim_device *)launch->device;
    const whi_sim_dims dims = {
        {launch->blocks, or_one(launch->blocks_y), or_one(launch->blocks_z)},
        {launch->threads, or_one(launch->threads_y), or_one(launch->threads_z)}};
    whi_grid grid = {.entry = entry,
                     .args = args,
                     .name = kernel_name,
                     .blocks = dims.blocks[0] * dims.blocks[1] * dims.blocks[2],
                     .threads = dims.threads[0] * dims.threads[1] * dims.threads[2],
                     .dims = dims,
                     .shared_bytes = launch->shared_bytes,
                     .on = d};
    if (launch->stream != NULL) {
        whi_stream *stream = *find_stream(d, launch->stream);
        return stream != NULL ? enqueue(d, &grid, stream, args_bytes) : WH_BAD_ARGUMENT;
    }
    const wh_status s = run_queue(d);
    return s == WH_OK ? run_now(d, &grid) : s;
}

static wh_status sim_stream_create(wh_device *base, void **stream) {
    whi_sim_device *d = (whi_sim_device *)base;
    whi_stream *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    s->next = d->streams;
    d->streams = s;
    *stream = s;
    return WH_OK;
}

static wh_status sim_stream_sync(wh_device *base, void *stream) {
    whi_sim_device *d = (whi_sim_device *)base;
    if (stream != NULL && *find_stream(d, stream) == NULL) {
        return WH_BAD_ARGUMENT;
    }
    return run_queue(d);
}

static wh_status sim_stream_destroy(wh_device *base, void *stream) {
    whi_sim_device *d = (whi_sim_device *)base;
    whi_stream **at = find_stream(d, stream);
    if (*at == NULL) {
        return WH_BAD_ARGUMENT;
    }
    const wh_status s = run_queue(d); /* its work is still done */
    whi_stream *gone = *at;
    *at = gone->next;
    free(gone);
    return s;
}

/* --- memory ---------------------------------------------------------------------------- */

/* What an allocation holds until it is written: a value that is no zero, so that a
 * missing initialisation shows, in the first bytes, where metadata tend to lie. Fresh
 * pages behind them stay untouched: a simulated heap may be larger than the host's
 * memory. Either way the contents are the same in each run. */
#define JUNK 0xa5
#define JUNK_BYTES ((uint64_t)1 << 20)

/* Where an allocator aligns something inside its memory must not depend on where the
 * system put that memory, or a seed would not repeat: every allocation starts at a
 * multiple of the largest alignment that a heap can be asked for. */
#define ALIGNMENT ((uint64_t)2 << 20)

typedef struct whi_allocation {
    char *p;
    uint64_t bytes;
    uint64_t mapped; /* bytes; 0: from malloc */
} whi_allocation;

static uint64_t round_up(uint64_t n, uint64_t to) {
    return (n + to - 1) / to * to;
}

/* Whole pages at a multiple of ALIGNMENT; what lies around them goes back. */
static char *map_aligned(uint64_t bytes, int protection) {
    char *p = mmap(NULL, bytes + ALIGNMENT, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    const uint64_t before = round_up((uint64_t)(uintptr_t)p, ALIGNMENT) - (uint64_t)(uintptr_t)p;
    if (before > 0) {
        (void)munmap(p, before);
    }
    (void)munmap(p + before + bytes, ALIGNMENT - before);
    return p + before;
}

/* With AddressSanitizer all memory comes from malloc, for its red zones. Of whole pages the
 * rest of the last one is JUNK, too: what spare.c gives has held something else before. */
static bool take_memory(whi_allocation *a) {
    void *p = NULL;
    if (a->bytes > UINT64_MAX / 2) {
        a->p = NULL;
    } else if (!whi_fiber_get_hooks()->asan) {
        a->mapped = round_up(a->bytes, (uint64_t)sysconf(_SC_PAGESIZE));
        a->p = whi_spare_fits(a->mapped) ? whi_spare_take_memory(a->mapped)
                                         : map_aligned(a->mapped, PROT_READ | PROT_WRITE);
    } else {
        a->mapped = 0;
        a->p = posix_memalign(&p, ALIGNMENT, a->bytes) == 0 ? p : NULL;
    }
    if (a->p != NULL) {
        const uint64_t bytes = a->mapped != 0 ? a->mapped : a->bytes;
        memset(a->p, JUNK, bytes < JUNK_BYTES ? bytes : JUNK_BYTES);
    }
    return a->p != NULL;
}

static void give_memory(const whi_allocation *a) {
    if (a->mapped != 0 && whi_spare_fits(a->mapped)) {
        whi_spare_keep_memory(a->p, a->mapped);
    } else if (a->mapped != 0) {
        (void)munmap(a->p, a->mapped);
    } else {
        free(a->p);
    }
}

/* Whether the device has so much memory left, of which bytes are the caller's then. By any thread:
 * a heap may grow while others take memory. */
static bool count_memory(whi_sim_device *d, uint64_t bytes) {
    uint64_t had = __atomic_load_n(&d->allocated_bytes, __ATOMIC_RELAXED);
    do {
        if (bytes > d->options.memory_bytes - had) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(&d->allocated_bytes, &had, had + bytes, 0,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return true;
}

static void uncount_memory(whi_sim_device *d, uint64_t bytes) {
    (void)__atomic_fetch_sub(&d->allocated_bytes, bytes, __ATOMIC_RELAXED);
}

static wh_status sim_alloc(wh_device *base, void **p, uint64_t bytes) {
    whi_sim_device *d = (whi_sim_device *)base;
    *p = NULL;
    if (bytes == 0) {
        return WH_BAD_ARGUMENT;
    }
    if (!count_memory(d, bytes)) {
        return WH_OUT_OF_MEMORY;
    }
    if (d->n_allocations == d->allocations_room) {
        const size_t room = 2 * d->allocations_room + 16;
        whi_allocation *more = realloc(d->allocations, room * sizeof *more);
        if (more == NULL) {
            uncount_memory(d, bytes);
            return WH_OUT_OF_MEMORY;
        }
        d->allocations = more;
        d->allocations_room = room;
    }
    whi_allocation *a = &d->allocations[d->n_allocations];
    a->bytes = bytes;
    if (!take_memory(a)) {
        uncount_memory(d, bytes);
        return WH_OUT_OF_MEMORY;
    }
    d->n_allocations++;
    *p = a->p;
    return WH_OK;
}

static wh_status sim_free(wh_device *base, void *p) {
    whi_sim_device *d = (whi_sim_device *)base;
    if (p == NULL) {
        return WH_OK;
    }
    const wh_status s = run_queue(d);
    for (size_t i = d->n_allocations; i-- > 0;) {
        whi_allocation *a = &d->allocations[i];
        if (a->p == p) {
            uncount_memory(d, a->bytes);
            give_memory(a);
            *a = d->allocations[--d->n_allocations];
            return s;
        }
    }
    return WH_BAD_ARGUMENT;
}

/* Address space: pages that fault until they are mapped. */
static uint64_t sim_granularity(wh_device *base) {
    (void)base;
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Addresses from `at` on, if they are free; else NULL. A kernel before Linux 4.17 takes the flag
 * for none, and `at` for a hint. */
static char *map_at(void *at, uint64_t bytes) {
    char *p = mmap(at, bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != MAP_FAILED && p != at) {
        (void)munmap(p, bytes);
    }
    return p == at ? p : NULL;
}

static wh_status sim_reserve(wh_device *base, void **p, uint64_t bytes) {
    (void)base;
    char *there = NULL;
    if (*p != NULL && (uint64_t)(uintptr_t)*p % ALIGNMENT == 0 && bytes <= UINT64_MAX / 4) {
        there = map_at(*p, bytes);
    }
    if (there == NULL && bytes <= UINT64_MAX / 4) {
        there = map_aligned(bytes, PROT_NONE);
    }
    *p = there;
    return *p != NULL ? WH_OK : WH_OUT_OF_MEMORY;
}

/* What a map brings is no write of a thread: who reads it before others have told that it is there
 * may see junk, but there is no race. */
static void fill_new(void *at, uint64_t bytes) {
    for (uint64_t k = 0; k < bytes / sizeof(uint64_t); k++) {
        __atomic_store_n((uint64_t *)at + k, JUNK * UINT64_C(0x0101010101010101), __ATOMIC_RELAXED);
    }
}

static wh_status sim_map(wh_device *base, void *at, uint64_t bytes, uint64_t piece) {
    whi_sim_device *d = (whi_sim_device *)base;
    if (!count_memory(d, bytes)) {
        return WH_OUT_OF_MEMORY;
    }
    if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) {
        uncount_memory(d, bytes);
        return WH_OUT_OF_MEMORY;
    }
    for (uint64_t k = 0; k < bytes; k += piece) {
        fill_new((char *)at + k, piece < JUNK_BYTES ? piece : JUNK_BYTES);
    }
    return WH_OK;
}

static wh_status sim_unmap(wh_device *base, void *at, uint64_t bytes, uint64_t piece) {
    whi_sim_device *d = (whi_sim_device *)base;
    (void)piece;
    const wh_status s = run_queue(d);
    if (mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED) {
        return WH_OUT_OF_MEMORY;
    }
    uncount_memory(d, bytes);
    return s;
}

static wh_status sim_release(wh_device *base, void *p, uint64_t bytes) {
    (void)base;
    return munmap(p, bytes) == 0 ? WH_OK : WH_BAD_ARGUMENT;
}

/* The host's memory is the device's. */
static wh_status sim_host_alloc(wh_device *base, void **p, uint64_t bytes) {
    (void)base;
    *p = malloc(bytes);
    return *p != NULL ? WH_OK : WH_OUT_OF_MEMORY;
}

static wh_status sim_host_free(wh_device *base, void *p) {
    (void)base;
    free(p);
    return WH_OK;
}

static wh_status sim_use_thread(wh_device *base) {
    (void)base;
    return WH_OK;
}

/* Streams order nothing here: whoever waits runs all that is queued. */
static wh_status sim_alloc_on(wh_device *base, void **p, uint64_t bytes, void *stream) {
    (void)stream;
    return sim_alloc(base, p, bytes);
}

static wh_status sim_free_on(wh_device *base, void *p, void *stream) {
    (void)stream;
    return sim_free(base, p);
}

static wh_status sim_set(wh_device *base, void *p, int byte, uint64_t bytes) {
    const wh_status s = run_queue((whi_sim_device *)base);
    if (s == WH_OK) {
        memset(p, byte, bytes);
    }
    return s;
}

static wh_status sim_copy(wh_device *base, void *to, const void *from, uint64_t bytes) {
    const wh_status s = run_queue((whi_sim_device *)base);
    if (s == WH_OK) {
        memcpy(to, from, bytes);
    }
    return s;
}

static wh_status sim_copy_on(wh_device *base, void *to, const void *from, uint64_t bytes,
                             void *stream) {
    (void)stream;
    return sim_copy(base, to, from, bytes);
}

/* --- looks from outside --------------------------------------------------------------------- */

static void sim_lens_close(wh_device *base, whi_lens *lens) {
    (void)base;
    free(lens->memory);
    free(lens);
}

static wh_status sim_lens_open(wh_device *base, whi_lens **lens, uint64_t bytes) {
    *lens = calloc(1, sizeof **lens);
    if (*lens == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    if (posix_memalign(&(*lens)->memory, 256, bytes) != 0) {
        (*lens)->memory = NULL;
        sim_lens_close(base, *lens);
        *lens = NULL;
        return WH_OUT_OF_MEMORY;
    }
    return WH_OK;
}

/* Lanes may run meanwhile, on this thread's behalf or another's: each word is one load. It runs
 * nothing that is queued. (This file is not instrumented: no race is seen here, and none is hidden,
 * since nothing is written.) */
static wh_status sim_look(wh_device *base, whi_lens *lens, const void *from, uint64_t bytes) {
    (void)base;
    const volatile uint64_t *words = from;
    uint64_t *to = lens->memory;
    for (uint64_t k = 0; k < bytes / 8; k++) {
        to[k] = words[k];
    }
    return WH_OK;
}

/* --- peers ----------------------------------------------------------------------------------- */

/* All memory is the host's, and atomics are one processor's. */
static wh_status sim_peer_check(wh_device *base, wh_device *peer) {
    (void)base, (void)peer;
    return WH_OK;
}

/* From now on the peer's kernels, and those of all that are its peers, run together with those of
 * this device; unless one that was queued before fails. */
static wh_status sim_peer_open(wh_device *base, wh_device *peer, void *at, uint64_t bytes) {
    whi_sim_device *d = (whi_sim_device *)base, *other = (whi_sim_device *)peer;
    (void)at, (void)bytes;
    if (d->lead == other->lead) {
        return WH_OK;
    }
    const wh_status own = run_queue(d);
    if (own != WH_OK) {
        return own;
    }
    const wh_status its = run_queue(other);
    if (its != WH_OK) { /* the caller asks this device for the text */
        memcpy(d->base.error, other->base.error, sizeof d->base.error);
        return its;
    }
    whi_sim_device *p = other;
    do {
        p->lead = d->lead;
        p = p->next_peer;
    } while (p != other);
    p = d->next_peer; /* two rings become one */
    d->next_peer = other->next_peer;
    other->next_peer = p;
    return WH_OK;
}

/* Of a device whose queue is empty. */
static void leave_peers(whi_sim_device *d) {
    whi_sim_device *const next = d->next_peer;
    whi_sim_device *p = next;
    while (p->next_peer != d) {
        p->lead = p->lead == d ? next : p->lead;
        p = p->next_peer;
    }
    p->lead = p->lead == d ? next : p->lead;
    p->next_peer = next;
    d->lead = d->next_peer = d;
}

/* --- the rest of the device ---------------------------------------------------------------- */

/* Tells of kernels on streams, which run now; a launch on the default stream has told of its own
 * kernel. */
static wh_status sim_sync(wh_device *base) {
    return run_queue((whi_sim_device *)base);
}

static double now_us(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static wh_status sim_timer_begin(wh_device *base) {
    whi_sim_device *d = (whi_sim_device *)base;
    const wh_status s = run_queue(d);
    d->timer_start = now_us();
    return s;
}

static wh_status sim_timer_end(wh_device *base, double *us) {
    const wh_status s = sim_sync(base);
    *us = now_us() - ((whi_sim_device *)base)->timer_start;
    return s;
}

static wh_status sim_get_counters(const wh_device *base, wh_device_counters *c) {
    const whi_sim_device *d = (const whi_sim_device *)base;
    memset(c, 0, sizeof *c);
    for (uint32_t i = 0; i < d->n_workers; i++) {
        c->steps += d->engines[i].steps;
        c->atomics += d->engines[i].atomics;
        c->switches += d->engines[i].switches;
    }
    return WH_OK;
}

uint64_t whi_sim_schedule(const wh_device *device) {
    return whi_mix(((const whi_sim_device *)device)->engines[0].schedule);
}

/* The line that the option `schedules` asks for. A line that the file has no room for is missing:
 * nobody is told by a close. */
static void write_schedule(const whi_sim_device *d) {
    const whi_engine *e = d->engines;
    const bool has_one = e != NULL && d->n_workers == 1 && e->schedule != 0;
    if (d->schedules != NULL && has_one && !e->schedule_ended) {
        (void)fprintf(d->schedules, "%016" PRIx64 " %" PRIu64 "\n", whi_sim_schedule(&d->base),
                      e->steps - e->schedule_start);
    }
}

static uint64_t first_random(uint64_t seed, uint32_t engine) {
    return whi_mix(seed + whi_mix((uint64_t)engine + 1));
}

void whi_sim_seed(wh_device *device, uint64_t seed) {
    whi_sim_device *d = (whi_sim_device *)device;
    whi_engine *e = &d->engines[0];
    d->options.seed = seed;
    memset(d->pct_memory, 0, sizeof d->pct_memory);
    e->rng = first_random(seed, 0);
    e->schedule = 0;
    e->schedule_start = e->steps;
    e->schedule_ended = false;
    e->tick = 0;
}

void whi_sim_end_schedule(wh_device *device) {
    whi_sim_device *d = (whi_sim_device *)device;
    write_schedule(d);
    d->engines[0].schedule_ended = true;
}

void whi_sim_steer(wh_device *device, const whi_steering *steering) {
    ((whi_sim_device *)device)->engines[0].steering = steering;
}

void whi_sim_stop(wh_device *device, uint64_t thread, uint64_t n) {
    whi_engine *e = &((whi_sim_device *)device)->engines[0];
    e->stop_thread = thread;
    e->stop_at = n;
}

void whi_sim_budget(wh_device *device, uint64_t points) {
    ((whi_sim_device *)device)->options.step_budget = points;
}

uint64_t whi_sim_asked(const wh_device *device) {
    return ((const whi_sim_device *)device)->engines[0].stop_asked;
}

uint64_t whi_sim_steps(void) {
    const whi_engine *e = whi_current()->engine;
    return e != NULL ? e->steps : 0;
}

static void sim_close(wh_device *base) {
    whi_sim_device *d = (whi_sim_device *)base;
    (void)run_queue(d);
    leave_peers(d);
    while (d->streams != NULL) {
        whi_stream *gone = d->streams;
        d->streams = gone->next;
        free(gone);
    }
    free(d->queue);
    if (d->pool != NULL) {
        pool_close(d->pool);
    }
    if (d->engines != NULL) {
        for (uint32_t i = 0; i < d->n_workers; i++) {
            whi_engine_close(&d->engines[i]);
        }
    }
    if (d->log != NULL) {
        (void)whi_log_close(d->log);
    }
    write_schedule(d);
    if (d->schedules != NULL) {
        (void)fclose(d->schedules);
    }
    for (size_t i = 0; i < d->n_allocations; i++) {
        give_memory(&d->allocations[i]);
    }
    (void)pthread_mutex_destroy(&d->mutex);
    free(d->allocations);
    free(d->engines);
    free(d);
}

static const whi_device_ops sim_ops = {
    .close = sim_close,
    .alloc = sim_alloc,
    .free = sim_free,
    .set = sim_set,
    .copy_in = sim_copy,
    .copy_out = sim_copy,
    .sync = sim_sync,
    .stream_create = sim_stream_create,
    .stream_destroy = sim_stream_destroy,
    .stream_sync = sim_stream_sync,
    .timer_begin = sim_timer_begin,
    .timer_end = sim_timer_end,
    .get_counters = sim_get_counters,
    .alloc_on = sim_alloc_on,
    .free_on = sim_free_on,
    .copy_out_on = sim_copy_on,
    .copy_in_on = sim_copy_on,
    .lens_open = sim_lens_open,
    .lens_close = sim_lens_close,
    .look = sim_look,
    .granularity = sim_granularity,
    .reserve = sim_reserve,
    .map = sim_map,
    .unmap = sim_unmap,
    .release = sim_release,
    .host_alloc = sim_host_alloc,
    .host_free = sim_host_free,
    .use_thread = sim_use_thread,
    .peer_check = sim_peer_check,
    .peer_open = sim_peer_open,
};

/* --- options --------------------------------------------------------------------------------- */

static bool read_number(const char *text, uint64_t most, uint64_t *v) {
    char *end;
    errno = 0;
    *v = strtoull(text, &end, 0);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *v <= most;
}

static bool read_u32(const char *text, uint32_t *field) {
    uint64_t v;
    const bool good = read_number(text, UINT32_MAX, &v);
    *field = good ? (uint32_t)v : *field;
    return good;
}

static bool apply_setting(wh_sim_options *o, const char *key, const char *value) {
    if (strcmp(key, "policy") == 0) {
        for (uint32_t i = 0; i < WH_SIM_POLICY_COUNT; i++) {
            if (strcmp(value, whi_policy_names[i]) == 0) {
                o->policy = (wh_sim_policy)i;
                return true;
            }
        }
        return false;
    }
    if (strcmp(key, "record") == 0) {
        o->record = value;
        return true;
    }
    if (strcmp(key, "replay") == 0) {
        o->replay = value;
        return true;
    }
    if (strcmp(key, "switches") == 0) {
        o->switches = value;
        return true;
    }
    if (strcmp(key, "schedules") == 0) {
        o->schedules = value;
        return true;
    }
    const struct {
        const char *key;
        uint32_t *field;
    } numbers[] = {{"arg", &o->policy_arg},
                   {"sms", &o->n_sms},
                   {"blocks", &o->blocks_per_sm},
                   {"workers", &o->workers},
                   {"weak", &o->weak}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(key, numbers[i].key) == 0) {
            return read_u32(value, numbers[i].field);
        }
    }
    if (strcmp(key, "seed") == 0) {
        return read_number(value, UINT64_MAX, &o->seed);
    }
    return strcmp(key, "budget") == 0 && read_number(value, UINT64_MAX, &o->step_budget);
}

/* The environment variable WH_SIM, "key=value,...", overrides the program's options, so
 * that a failing seed can be replayed without changing the program. It is cut up in
 * text, which the options then point into. */
static bool apply_environment(wh_sim_options *o, char *text) {
    char *rest = NULL;
    for (char *item = strtok_r(text, ",", &rest); item != NULL; item = strtok_r(NULL, ",", &rest)) {
        char *equals = strchr(item, '=');
        if (equals != NULL) {
            *equals = '\0';
        }
        if (equals == NULL || !apply_setting(o, item, equals + 1)) {
            (void)whi_refuse(WH_BAD_ARGUMENT,
                             "environment variable WH_SIM: '%.40s%s%.40s' is no setting; known are "
                             "seed=N policy=NAME arg=N sms=N blocks=N workers=N weak=N budget=N "
                             "record=FILE switches=FILE replay=FILE schedules=FILE, with commas "
                             "(docs/SIMULATOR.md)",
                             item, equals != NULL ? "=" : "", equals != NULL ? equals + 1 : "");
            return false;
        }
    }
    return true;
}

static bool complete(wh_sim_options *o) {
    static const uint32_t arguments[WH_SIM_POLICY_COUNT] = {[WH_SIM_STICKY] = DEFAULT_STICKY,
                                                            [WH_SIM_STALL] = DEFAULT_STALL,
                                                            [WH_SIM_PCT] = DEFAULT_PCT_DEPTH};
    if ((unsigned)o->policy >= WH_SIM_POLICY_COUNT) {
        return false;
    }
    o->n_sms = o->n_sms != 0 ? o->n_sms : DEFAULT_SMS;
    o->blocks_per_sm = o->blocks_per_sm != 0 ? o->blocks_per_sm : DEFAULT_BLOCKS_PER_SM;
    o->workers = o->workers != 0 ? o->workers : 1;
    if (whi_fiber_get_hooks()->tsan && o->weak <= WH_SIM_WEAK_FORMAL) {
        o->weak = WH_SIM_WEAK_NONE; /* weak.c's own memory would look like races of the lanes */
    }
    o->step_budget = o->step_budget != 0 ? o->step_budget : DEFAULT_BUDGET;
    o->memory_bytes = o->memory_bytes != 0 ? o->memory_bytes : DEFAULT_MEMORY;
    if (o->policy_arg == 0) {
        o->policy_arg = arguments[o->policy];
    }
    const int n_files = (o->record != NULL) + (o->switches != NULL) + (o->replay != NULL);
    return o->n_sms <= MOST_SMS && o->blocks_per_sm <= MOST_BLOCKS_PER_SM &&
           o->workers <= MOST_WORKERS &&
           (o->policy != WH_SIM_PCT || o->policy_arg <= WHI_MOST_PCT_DEPTH) &&
           o->step_budget <= UINT64_MAX / 2 && o->weak <= WH_SIM_WEAK_FORMAL &&
           (o->workers == 1 || (o->weak == 0 && n_files == 0)) && n_files <= 1;
}

static wh_status open_engines(whi_sim_device *d) {
    const wh_sim_options *o = &d->options;
    const uint32_t sm_slots = o->n_sms * o->blocks_per_sm;
    d->n_workers = o->workers < sm_slots ? o->workers : sm_slots;
    d->engines = calloc(d->n_workers, sizeof *d->engines);
    if (d->engines == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < d->n_workers; i++) {
        whi_engine *e = &d->engines[i];
        const whi_fiber_hooks *h = whi_fiber_get_hooks();
        e->device = d;
        e->index = i;
        e->hooked = h->asan || h->tsan;
        e->rng = first_random(o->seed, i);
        e->log = d->log;
        e->n_sm_slots = (sm_slots - i + d->n_workers - 1) / d->n_workers;
        e->sm_busy = calloc(e->n_sm_slots, 1);
        if (e->sm_busy == NULL) {
            return WH_OUT_OF_MEMORY;
        }
    }
    return d->n_workers > 1 ? pool_open(d) : WH_OK;
}

wh_status whi_device_open_sim(wh_device **device, const wh_sim_options *options) {
    *device = NULL;
    whi_sim_device *d = calloc(1, sizeof *d);
    if (d == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    wh_sim_options *o = &d->options;
    if (options != NULL) {
        *o = *options;
    }
    d->base.ops = &sim_ops;
    d->lead = d->next_peer = d;
    (void)pthread_mutex_init(&d->mutex, NULL);

    const char *set = getenv("WH_SIM");
    char *settings = set != NULL ? strdup(set) : NULL;
    wh_status s = set != NULL && settings == NULL ? WH_OUT_OF_MEMORY : WH_OK;
    if (s == WH_OK && settings != NULL && !apply_environment(o, settings)) {
        s = WH_BAD_ARGUMENT;
    }
    if (s == WH_OK && !complete(o)) {
        s = whi_refuse(WH_BAD_ARGUMENT,
                       "a value in wh_sim_options or WH_SIM is out of its range, or "
                       "two do not go together (device.h, docs/SIMULATOR.md)");
    }
    if (s == WH_OK && o->schedules != NULL) {
        d->schedules = fopen(o->schedules, "ae");
        if (d->schedules == NULL) {
            s = whi_refuse(WH_IO_ERROR, "cannot open %.200s to write hashes of schedules: %s",
                           o->schedules, strerror(errno));
        } else {
            (void)setvbuf(d->schedules, NULL, _IOLBF, BUFSIZ); /* several may write to it */
        }
    }
    if (s == WH_OK && (o->record != NULL || o->switches != NULL || o->replay != NULL)) {
        s = whi_log_open(&d->log, o);
    }
    /* The replayed file's header comes in place of the options: check it as well. */
    if (s == WH_OK && d->log != NULL && !complete(o)) {
        s = WH_BAD_FORMAT;
    }
    o->record = o->switches = o->replay = o->schedules =
        NULL; /* not used again; they may not outlive the call */
    free(settings);
    if (s == WH_OK) {
        s = open_engines(d);
    }
    if (s != WH_OK) {
        sim_close(&d->base);
        return s;
    }
    wh_device_info *info = &d->base.info;
    info->target = WH_TARGET_SIM;
    info->ordinal = -1;
    info->n_sms = o->n_sms;
    info->memory_bytes = o->memory_bytes;
    info->shared_bytes = 227u << 10; /* as much as a launch may ask for */
    info->blocks_per_sm = o->blocks_per_sm;
    (void)snprintf(info->name, sizeof info->name, "simulated device");
    (void)snprintf(info->driver, sizeof info->driver,
                   "%s/%" PRIu32 " seed %" PRIu64 " workers %" PRIu32, whi_policy_names[o->policy],
                   o->policy_arg, o->seed, d->n_workers);
    *device = &d->base;
    return WH_OK;
}
