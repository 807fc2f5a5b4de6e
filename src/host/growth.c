/* growth.c: heaps in reserved addresses that get more memory while kernels run: the host's side of
 * alloc/tessera/growth.h.
 *
 * A look at the box (growth_poll) does all there is to do: it notes what lanes have taken, answers
 * the last request, and keeps some units posted ahead of need, so that mostly nobody asks. What it
 * maps it posts piece by piece, so that nobody waits for more than a few granules. It maps, and
 * stores words in the box. It launches no kernel and waits for none. So lanes of a full GPU may
 * wait for it, and a lane of the simulated device may even make the call.
 *
 * A thread of the library looks all the time, or the program does (wh_growth_options.no_thread).
 * The lock of the reservation is held in a look, and by extend and trim, which want a quiet heap:
 * meanwhile nobody asks.
 *
 * asked, taken   the box's: load, acquire. posted, answer: store, release, behind what has been
 *                mapped for them (growth.h P12)
 * known          words that the thread compares the box with, without the lock: atomic, relaxed */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* nanosleep */
#endif

#include "reserve.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "last_error.h"
#include "nvtx_internal.h"
#include "structs.h"
#include "try.h"

#define STEP_BYTES ((uint64_t)64 << 20)
#define WAIT_US 10000u
#define MOST_WAIT_US 1000000000u
#define PIECE 8u /* units that are mapped before they are posted, if there are rows */
#define AHEAD_ROWS (WH_GROWTH_ROWS / 2)
#define SPINS 4096u /* looks in vain before the thread sleeps between them */
#define SLEEP_NS 20000

struct whi_growth {
    wh_growth_box *box;
    uint64_t max_bytes;
    uint32_t step, ahead; /* units */
    uint32_t wait_us;
    uint64_t units[WH_GROWTH_ROWS]; /* of rows: first << 32 | how many */
    uint32_t posted, done;          /* rows: posted; all of whose units have been taken */
    uint32_t offered;               /* units that have been posted, in all */
    uint32_t begun;                 /* ... of which lanes have a part, or all */
    uint32_t of_row;                /* parts of row `done` that have been taken */
    uint64_t known_answered, known_taken;
    uint64_t tries; /* to map something */
    int is_short;   /* no more could be mapped ahead: not tried again before a request */
    wh_growth_info info;
    pthread_t thread;
    int has_thread;
    int stop; /* atomic */
};

static uint64_t load(const uint64_t *p) {
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

/* --- what lanes have taken ------------------------------------------------------------------- */

static uint32_t not_taken(const whi_growth *g) {
    return g->offered - g->begun;
}

/* The unit of which the next part of the rows is. */
static uint32_t next_unit(const whi_reserve *r) {
    const whi_growth *g = r->growth;
    return (uint32_t)(g->units[g->done % WH_GROWTH_ROWS] >> 32) + g->of_row / r->plan.parts_of_unit;
}

/* Whether lanes have some parts of that unit, and not all. */
static int is_split(const whi_reserve *r) {
    return r->growth->of_row % r->plan.parts_of_unit != 0;
}

/* The next part is a lane's now, and so its unit is the heap's. */
static void part_is_there(whi_reserve *r, whi_growth *g) {
    if (!is_split(r)) {
        r->units[next_unit(r)] = THERE;
        r->n_there++;
        g->begun++;
    }
    const uint32_t units = (uint32_t)g->units[g->done % WH_GROWTH_ROWS];
    if (++g->of_row == (uint64_t)units * r->plan.parts_of_unit) {
        g->of_row = 0;
        g->done++;
    }
}

static void note_taken(whi_reserve *r) {
    whi_growth *g = r->growth;
    const uint64_t taken = load(&g->box->taken);
    for (uint32_t k = (uint32_t)g->known_taken; k != (uint32_t)taken; k++) {
        part_is_there(r, g);
    }
    __atomic_store_n(&g->known_taken, taken, __ATOMIC_RELAXED);
}

wh_status whi_growth_settle(wh_heap *h) {
    whi_reserve *r = h->reserve;
    wh_status s = WH_OK;
    (void)pthread_mutex_lock(&r->lock);
    if (r->growth != NULL) {
        s = whi_growth_pause(h);
        s = s == WH_OK ? whi_growth_resume(h) : s;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return s;
}

/* --- more --------------------------------------------------------------------------------------
 */

static int is_usable(const whi_reserve *r, uint32_t u) {
    return r->units[u] == ABSENT || r->units[u] == SPARE;
}

/* The lowest n units in a row that can be posted, or of the longest row as many as it has: from
 * *first on, how many. */
static uint32_t find_row(whi_reserve *r, uint32_t n, uint32_t *first) {
    uint32_t most = 0;
    while (r->lowest < r->plan.n_units && r->units[r->lowest] == THERE) {
        r->lowest++;
    }
    for (uint32_t u = r->lowest, end; u < r->plan.n_units && most < n; u = end + 1) {
        for (end = u; end < r->plan.n_units && end - u < n && is_usable(r, end); end++) {
        }
        if (end - u > most) {
            most = end - u;
            *first = u;
        }
    }
    return most;
}

/* As many of these units as max_bytes leaves room for. */
static uint32_t allowed(const whi_reserve *r, uint32_t first, uint32_t n) {
    const whi_growth *g = r->growth;
    const uint64_t mapped = whi_reserve_mapped(r), unit = r->plan.unit_bytes;
    const uint64_t room = g->max_bytes > mapped ? (g->max_bytes - mapped) / unit : 0;
    uint32_t spare = 0;
    while (spare < n && r->units[first + spare] == SPARE) {
        spare++;
    }
    n = n - spare < room ? n : spare + (uint32_t)room;
    while (n > spare && whi_reserve_mapped_with(r, first, first + n) > g->max_bytes) {
        n--;
    }
    return n;
}

static void post(whi_reserve *r, uint32_t first, uint32_t n) {
    whi_growth *g = r->growth;
    wh_growth_row *row = &g->box->rows[g->posted % WH_GROWTH_ROWS];
    const uint64_t units = (uint64_t)first << 32 | n;
    memset(&r->units[first], POSTED, n);
    g->units[g->posted % WH_GROWTH_ROWS] = units;
    g->posted++;
    g->offered += n;
    __atomic_store_n(&row->units, units, __ATOMIC_RELAXED);
    __atomic_store_n(&row->mapped_bytes, whi_reserve_mapped(r), __ATOMIC_RELAXED);
    __atomic_store_n(&row->metadata_bytes, whi_reserve_metadata(r), __ATOMIC_RELAXED);
    __atomic_store_n(&g->box->posted, g->posted, __ATOMIC_RELEASE); /* P12 */
}

static uint32_t rows_left(const whi_growth *g) {
    return WH_GROWTH_ROWS - (g->posted - g->done);
}

/* Of `rest` units in a row that are still to be mapped, how many come next: twice as many as the
 * last time, up to PIECE; no row has less than `least`, and those that are left have room for all.
 */
static uint32_t piece_of(const whi_growth *g, uint32_t rest, uint32_t last, uint32_t least) {
    const uint32_t rows = rows_left(g), room = (rest + rows - 1) / rows;
    uint32_t n = last != 0 ? 2 * last : 1;
    n = n < PIECE ? n : PIECE;
    n = n > room ? n : room;
    n = n > least ? n : least;
    return n < rest && rest - n >= least ? n : rest;
}

/* Maps and posts n units from `first` on, piece by piece, so that who waits has the first one soon,
 * and sees that it goes on. How many: those that there is memory for. */
static uint32_t give_row(wh_heap *h, uint32_t first, uint32_t n, uint32_t least) {
    whi_reserve *r = h->reserve;
    whi_growth *g = r->growth;
    uint32_t done = 0, last = 0, most = UINT32_MAX;
    while (done < n && most != 0 && rows_left(g) != 0) {
        last = piece_of(g, n - done, last, least);
        last = last < most ? last : most;
        const wh_status s = whi_reserve_map(h, first + done, first + done + last);
        g->info.status = s;
        g->tries++;
        if (s == WH_OK) {
            h->plan.metadata_bytes = whi_reserve_metadata(r);
            post(r, first + done, last);
            done += last;
            note_taken(r);
        } else {
            most = last / 2;
        }
    }
    return done;
}

/* A unit that can be posted by itself: one that is mapped, else the lowest. n_units: none can. */
static uint32_t find_one(const whi_reserve *r) {
    uint32_t found = r->plan.n_units;
    for (uint32_t u = r->lowest; u < r->plan.n_units; u++) {
        if (r->units[u] == SPARE) {
            return u;
        }
        if (found == r->plan.n_units && is_usable(r, u) && allowed(r, u, 1) != 0) {
            found = u;
        }
    }
    return found;
}

/* Posts n units in a row, fewer where there are not so many. Where not one of the row can be had,
 * one elsewhere: it may be mapped, or its words may be, which those of the row would need besides.
 * How many; 0: there is not one. */
static uint32_t give(wh_heap *h, uint32_t n, uint32_t least) {
    whi_reserve *r = h->reserve;
    uint32_t first = 0;
    n = find_row(r, n, &first);
    n = n != 0 ? allowed(r, first, n) : 0;
    const uint32_t done = give_row(h, first, n, least);
    const uint32_t one = done == 0 ? find_one(r) : r->plan.n_units;
    return one < r->plan.n_units ? give_row(h, one, 1, 1) : done;
}

/* Units that max_bytes and the addresses leave room for at most, also those that are there. */
static uint64_t most_units(const whi_reserve *r) {
    const uint64_t n = r->growth->max_bytes / r->plan.unit_bytes;
    return n < r->plan.n_units ? n : r->plan.n_units;
}

/* Whether nothing can be posted any more before extend, trim, or the end: the addresses are used
 * up, or max_bytes. A device that has no memory now may have some later. */
static int is_at_end(const whi_reserve *r) {
    return find_one(r) == r->plan.n_units;
}

/* 0: later, when lanes have taken a row: all are posted. */
static int answer(wh_heap *h, uint64_t asked) {
    whi_growth *g = h->reserve->growth;
    const uint32_t n = (uint32_t)asked;
    uint32_t refused = 0;
    if (n > most_units(h->reserve)) {
        refused = n;
    } else if (not_taken(g) < n) {
        if (rows_left(g) == 0) {
            return 0;
        }
        refused = give(h, n > g->step ? n : g->step, 1) == 0;
    }
    refused |= refused != 0 && is_at_end(h->reserve) ? WH_GROWTH_NEVER : 0;
    g->is_short = 0;
    g->info.requests++;
    g->info.refused += refused != 0;
    __atomic_store_n(&g->known_answered, asked >> 32, __ATOMIC_RELAXED);
    __atomic_store_n(&g->box->answer, asked >> 32 << 32 | refused, __ATOMIC_RELEASE); /* P12 */
    return 1;
}

/* Maps some of what is wanted ahead. 0: nothing is to be done. What lacks is a part of it that has
 * AHEAD_ROWS rows, or more: so there are always rows for all. */
static int give_ahead(wh_heap *h) {
    whi_growth *g = h->reserve->growth;
    const uint32_t least = g->ahead / AHEAD_ROWS != 0 ? g->ahead / AHEAD_ROWS : 1;
    const uint32_t lacks = g->ahead > not_taken(g) ? g->ahead - not_taken(g) : 0;
    const uint32_t step = g->step > least ? g->step : least;
    if (lacks < least || g->is_short || rows_left(g) == 0) {
        return 0;
    }
    const uint32_t n = lacks < step || lacks - step < least ? lacks : step;
    g->is_short = give(h, n, least) == 0;
    return 1;
}

/* A look at the box: whether something was to be done. With the lock held. It ends since each turn
 * posts units, answers a request, or finds that there are no more. */
static int look(wh_heap *h) {
    whi_reserve *r = h->reserve;
    whi_growth *g = r->growth;
    int did = 0, more = 0;
    do {
        const uint64_t asked = load(&g->box->asked);
        note_taken(r); /* who asks has stored that before */
        more = asked >> 32 != g->known_answered && answer(h, asked);
        more |= give_ahead(h);
        did |= more;
    } while (more);
    return did;
}

/* --- the thread ------------------------------------------------------------------------------- */

static int has_work(const whi_growth *g) {
    return load(&g->box->asked) >> 32 != __atomic_load_n(&g->known_answered, __ATOMIC_RELAXED) ||
           load(&g->box->taken) != __atomic_load_n(&g->known_taken, __ATOMIC_RELAXED);
}

static void *thread_main(void *arg) {
    wh_heap *h = arg;
    whi_reserve *r = h->reserve;
    whi_growth *g = r->growth;
    const struct timespec nap = {0, SLEEP_NS};
    (void)h->device->ops->use_thread(h->device); /* what fails, fails again in a call */
    uint32_t vain = 0;
    while (!__atomic_load_n(&g->stop, __ATOMIC_ACQUIRE)) {
        int did = 0;
        if (has_work(g)) {
            (void)pthread_mutex_lock(&r->lock);
            did = look(h);
            (void)pthread_mutex_unlock(&r->lock);
        }
        if (did) {
            vain = 0;
        } else if (vain < SPINS) {
            (void)sched_yield();
            vain++;
        } else {
            (void)nanosleep(&nap, NULL);
        }
    }
    return NULL;
}

static void join(whi_growth *g) {
    if (g->has_thread) {
        __atomic_store_n(&g->stop, 1, __ATOMIC_RELEASE);
        (void)pthread_join(g->thread, NULL);
        g->has_thread = 0;
    }
}

/* --- around extend, trim and the end -----------------------------------------------------------
 */

/* What is posted, and nobody has taken a part of it, is SPARE. */
static void take_back(whi_reserve *r) {
    whi_growth *g = r->growth;
    for (uint32_t u = 0; u < r->plan.n_units && not_taken(g) != 0; u++) {
        if (r->units[u] == POSTED) {
            r->units[u] = SPARE;
            g->offered--;
        }
    }
}

wh_status whi_growth_pause(wh_heap *h) {
    whi_reserve *r = h->reserve;
    whi_growth *g = r->growth;
    if (g == NULL) {
        return WH_OK;
    }
    note_taken(r);
    if (is_split(r)) {
        TRY(whi_reserve_complete(h, next_unit(r)));
    }
    take_back(r);
    g->posted = g->done = g->offered = g->begun = g->of_row = 0;
    g->is_short = 0;
    __atomic_store_n(&g->box->taken, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&g->box->asked, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&g->known_taken, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&g->known_answered, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&g->box->posted, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&g->box->answer, 0, __ATOMIC_RELAXED);
    return WH_OK;
}

wh_status whi_growth_resume(wh_heap *h) {
    whi_growth *g = h->reserve->growth;
    if (g == NULL) {
        return WH_OK;
    }
    TRY(whi_reserve_set_growth(h, g->box, g->wait_us));
    (void)look(h);
    return WH_OK;
}

static void drop(wh_heap *h) {
    whi_growth *g = h->reserve->growth;
    __atomic_store_n(&h->reserve->growth, NULL, __ATOMIC_RELAXED);
    if (g->box != NULL) {
        (void)h->device->ops->host_free(h->device, g->box);
    }
    free(g);
}

void whi_growth_destroy(wh_heap *h) {
    if (h->reserve != NULL && h->reserve->growth != NULL) {
        join(h->reserve->growth);
        drop(h);
    }
}

/* --- the calls -------------------------------------------------------------------------------- */

static wh_status can_grow(const wh_heap *heap) {
    return heap->reserve != NULL
               ? WH_OK
               : whi_refuse(WH_UNSUPPORTED,
                            "only a heap that was created with reserve_bytes, of an "
                            "allocator that has them, grows while kernels run");
}

/* Units of `bytes`, at least one for step_bytes. */
static uint32_t units_of(const whi_reserve *r, uint64_t bytes) {
    const uint64_t n = bytes / r->plan.unit_bytes;
    return n < r->plan.n_units ? (uint32_t)n : r->plan.n_units;
}

static wh_status make(wh_heap *h, const wh_growth_options *o) {
    whi_reserve *r = h->reserve;
    whi_growth *g = calloc(1, sizeof *g);
    if (g == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    __atomic_store_n(&r->growth, g, __ATOMIC_RELAXED);
    const uint64_t step = o->step_bytes != 0 ? o->step_bytes : STEP_BYTES;
    g->max_bytes = o->max_bytes != 0 && o->max_bytes < r->bytes ? o->max_bytes : r->bytes;
    g->step = units_of(r, step);
    g->step = g->step != 0 ? g->step : 1;
    g->ahead = units_of(r, o->ahead_bytes != 0 ? o->ahead_bytes : g->step * r->plan.unit_bytes);
    g->wait_us = o->wait_us != 0 ? o->wait_us : WAIT_US;
    void *box = NULL;
    TRY(h->device->ops->host_alloc(h->device, &box, sizeof *g->box));
    g->box = box;
    memset(box, 0, sizeof *g->box);
    TRY(whi_growth_resume(h));
    if (o->no_thread == 0) {
        sigset_t all, before; /* signals are for the program's own threads */
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        g->has_thread = pthread_create(&g->thread, NULL, thread_main, h) == 0;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        return g->has_thread ? WH_OK
                             : whi_refuse(WH_OUT_OF_MEMORY, "the system gives no more threads");
    }
    return WH_OK;
}

/* Ends growth on a quiet heap, with the lock held, and no thread. What nobody has taken goes. */
static wh_status unmake(wh_heap *h) {
    wh_status s = WH_OK;
    if (h->reserve->growth->box != NULL) {
        s = whi_growth_pause(h);
        take_back(h->reserve); /* also where that has failed */
        const wh_status set = whi_reserve_set_growth(h, NULL, 0);
        const wh_status last = whi_reserve_drop_spare(h);
        s = s == WH_OK ? set : s;
        s = s == WH_OK ? last : s;
    }
    drop(h);
    return s;
}

wh_status wh_heap_growth_start_sized(wh_heap *heap, const wh_growth_options *options,
                                     size_t bytes) {
    WHI_RANGE("wh_heap_growth_start");
    whi_forget_error();
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    wh_growth_options o;
    memset(&o, 0, sizeof o);
    if (options != NULL) {
        TRY(whi_take_struct(&o, sizeof o, options, bytes));
    }
    TRY(can_grow(heap));
    if (o.wait_us > MOST_WAIT_US) {
        return whi_refuse(WH_BAD_ARGUMENT, "wait_us is more than a thousand seconds");
    }
    whi_reserve *r = heap->reserve;
    (void)pthread_mutex_lock(&r->switching);
    (void)pthread_mutex_lock(&r->lock);
    wh_status s = r->growth == NULL
                      ? whi_heap_settle(heap)
                      : whi_refuse(WH_BAD_ARGUMENT, "the heap grows already: "
                                                    "wh_heap_growth_stop comes before");
    if (s == WH_OK) {
        s = make(heap, &o);
        if (s != WH_OK && r->growth != NULL) {
            (void)unmake(heap);
        }
    }
    (void)pthread_mutex_unlock(&r->lock);
    (void)pthread_mutex_unlock(&r->switching);
    return s;
}

wh_status wh_heap_growth_stop(wh_heap *heap) {
    WHI_RANGE("wh_heap_growth_stop");
    whi_forget_error();
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    TRY(can_grow(heap));
    whi_reserve *r = heap->reserve;
    wh_status s = WH_OK;
    (void)pthread_mutex_lock(&r->switching); /* one thread ends it, the others return behind that */
    if (__atomic_load_n(&r->growth, __ATOMIC_RELAXED) != NULL) {
        s = whi_heap_settle(heap); /* kernels may need the thread for it */
        join(r->growth);
        (void)pthread_mutex_lock(&r->lock);
        const wh_status last = unmake(heap);
        (void)pthread_mutex_unlock(&r->lock);
        s = s == WH_OK ? last : s;
    }
    (void)pthread_mutex_unlock(&r->switching);
    return s;
}

wh_status wh_heap_growth_poll(wh_heap *heap) {
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    whi_reserve *r = heap->reserve;
    /* A lane of a kernel that start waits for is not to wait for start's lock. */
    if (r == NULL || __atomic_load_n(&r->growth, __ATOMIC_RELAXED) == NULL) {
        return WH_UNSUPPORTED;
    }
    wh_status s = WH_UNSUPPORTED;
    (void)pthread_mutex_lock(&r->lock);
    if (r->growth != NULL) { /* another thread may have ended it meanwhile */
        const uint64_t before = r->growth->tries;
        (void)look(heap);
        s = r->growth->tries != before ? (wh_status)r->growth->info.status : WH_OK;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return s;
}

wh_status wh_heap_growth_get_info_sized(wh_heap *heap, wh_growth_info *info, size_t bytes) {
    if (heap == NULL || info == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (bytes < sizeof(uint64_t) || bytes > sizeof *info) {
        return WH_WRONG_BUILD;
    }
    wh_growth_info all;
    memset(&all, 0, sizeof all);
    whi_reserve *r = heap->reserve;
    all.mapped_bytes = heap->bytes;
    if (r != NULL) {
        (void)pthread_mutex_lock(&r->lock);
        if (r->growth != NULL) {
            note_taken(r);
            all = r->growth->info;
            all.max_bytes = r->growth->max_bytes;
            all.ahead_bytes = not_taken(r->growth) * r->plan.unit_bytes;
        }
        all.mapped_bytes = whi_reserve_mapped(r);
        (void)pthread_mutex_unlock(&r->lock);
    }
    all.struct_bytes = bytes;
    memcpy(info, &all, bytes);
    return WH_OK;
}
