/* weak.c: memory that is weaker than the order in which the simulator makes accesses (option
 * weak): a load may return an old value, as far as one of two models allows.
 *
 * The values of a location are numbered as they are stored. Each lane has a view: the oldest
 * value of every location that it may still see.
 *
 * WH_SIM_WEAK_GPU
 *   - A value is performed, that is, in the L2 for all to see, at once if an atomic made it that
 *     returns a value, or when another lane sees it; else when the lane that stored it next
 *     releases, or one that has met that lane at a barrier since.
 *   - A lane may have made a load as early as right after its last acquire. So a load returns
 *     any value from the newest on that was performed at that time, or that the lane has seen
 *     or stored.
 *
 * WH_SIM_WEAK_FORMAL
 *   - Views (Kang et al., "A Promising Semantics for Relaxed-Memory Concurrency", POPL 2017,
 *     without its promises): a store with release takes the lane's view along, for those who
 *     acquire it; a relaxed one takes that of the last wh_fence. Atomics other than loads
 *     also take along what came with the value that they change. Relaxed loads keep what
 *     came along until the next wh_fence. A load returns any value from the view on.
 *
 * In both, an acquire, or what came along, counts only where both accesses are of scopes that have
 * both lanes in them: lanes of one device, or accesses of the system's scope (WH_PEERS).
 *
 * In both, atomics other than loads see the newest value; wh_syncwarp and wh_syncthreads give
 * lanes the join of their views; a launch begins with everything seen, and so does a grid that
 * had to wait for another one.
 *
 * Not modelled: a load that sees what is stored later; a cas that fails on an old value; in GPU, an
 * atomic without acquire that is on its way while the lane goes on, because nothing it does
 * depends on the value; fences of the device's scope, which count as the system's; stores without
 * atomics, which are seen at once (ThreadSanitizer is for those). More than WHI_OLD values back
 * nothing is seen.
 */
#include <stdlib.h>
#include <string.h>

#include "sim_internal.h"

#define WHI_OLD 8u
#define NOT_YET UINT64_MAX

/* A view that came with a value. */
typedef struct whi_snapshot {
    uint32_t refs, n;
    uint32_t oldest[];
} whi_snapshot;

typedef struct stored {
    uint64_t value;
    uint64_t performed;       /* when; NOT_YET */
    whi_snapshot *along;      /* NULL: nothing */
    const whi_sim_device *by; /* where the lane that stored it runs; NULL: nobody knows */
    bool system;              /* it was stored with the system's scope */
} stored;

typedef struct location {
    const void *p;
    uint32_t bytes;
    uint32_t first, last; /* numbers of the oldest and the newest value that is kept */
    stored values[WHI_OLD];
} location;

struct whi_weak {
    location *locations;
    uint32_t n, room;
    uint32_t *table; /* by hash of the address: index + 1, 0: none */
    uint32_t table_log2;
    uint64_t now; /* accesses so far */
};

static void *grow(void *p, size_t bytes) {
    void *q = realloc(p, bytes);
    if (q == NULL) {
        abort(); /* a test's own memory; there is nobody to tell */
    }
    return q;
}

/* --- views ------------------------------------------------------------------------------ */

static void make_room(whi_view *v, uint32_t n) {
    if (n > v->room) {
        v->room = n * 2;
        v->oldest = grow(v->oldest, v->room * sizeof *v->oldest);
    }
    for (; v->n < n; v->n++) {
        v->oldest[v->n] = 0;
    }
}

static void raise_to(whi_view *v, uint32_t i, uint32_t number) {
    make_room(v, i + 1);
    v->oldest[i] = v->oldest[i] > number ? v->oldest[i] : number;
}

static void join(whi_view *v, const uint32_t *oldest, uint32_t n) {
    make_room(v, n);
    for (uint32_t i = 0; i < n; i++) {
        v->oldest[i] = v->oldest[i] > oldest[i] ? v->oldest[i] : oldest[i];
    }
}

static whi_snapshot *share(whi_snapshot *s) {
    if (s != NULL) {
        s->refs++;
    }
    return s;
}

static void drop(whi_snapshot *s) {
    if (s != NULL && --s->refs == 0) {
        free(s);
    }
}

static whi_snapshot *take_snapshot(const whi_view *v) {
    whi_snapshot *s = grow(NULL, sizeof *s + v->n * sizeof s->oldest[0]);
    s->refs = 1;
    s->n = v->n;
    if (v->n != 0) {
        memcpy(s->oldest, v->oldest, v->n * sizeof s->oldest[0]);
    }
    return s;
}

/* Two of them in one; takes over both references. */
static whi_snapshot *merge(whi_snapshot *a, whi_snapshot *b) {
    if (a == NULL || b == NULL || a == b) {
        drop(a == b ? b : NULL);
        return a != NULL ? a : b;
    }
    whi_view both = {NULL, 0, 0};
    join(&both, a->oldest, a->n);
    join(&both, b->oldest, b->n);
    drop(a);
    drop(b);
    whi_snapshot *s = take_snapshot(&both);
    free(both.oldest);
    return s;
}

/* --- locations ---------------------------------------------------------------------------- */

static uint32_t slot_of(const whi_weak *m, const void *p) {
    const uint32_t mask = (1u << m->table_log2) - 1;
    uint32_t i = (uint32_t)whi_mix((uint64_t)(uintptr_t)p) & mask;
    while (m->table[i] != 0 && m->locations[m->table[i] - 1].p != p) {
        i = (i + 1) & mask;
    }
    return i;
}

static void make_table(whi_weak *m, uint32_t log2) {
    m->table_log2 = log2;
    m->table = grow(m->table, sizeof *m->table << log2);
    memset(m->table, 0, sizeof *m->table << log2);
    for (uint32_t i = 0; i < m->n; i++) {
        m->table[slot_of(m, m->locations[i].p)] = i + 1;
    }
}

static void forget(location *x) {
    for (; x->first <= x->last; x->first++) {
        drop(x->values[x->first % WHI_OLD].along);
        x->values[x->first % WHI_OLD].along = NULL;
    }
}

static void append(location *x, uint64_t value, whi_snapshot *along, uint64_t performed) {
    if (x->last - x->first + 1 == WHI_OLD) {
        drop(x->values[x->first++ % WHI_OLD].along);
    }
    stored *s = &x->values[++x->last % WHI_OLD];
    s->value = value;
    s->along = along;
    s->performed = performed;
    s->by = NULL;
    s->system = false;
}

/* The index of a location, whose value in memory is now `value`. If that is not the newest one
 * known, somebody has stored without atomics, and what was before is gone. */
static uint32_t find(whi_weak *m, const void *p, uint32_t bytes, uint64_t value) {
    uint32_t at = slot_of(m, p);
    if (m->table[at] == 0) {
        if (m->n == m->room) {
            m->room = m->room * 2 + 64;
            m->locations = grow(m->locations, m->room * sizeof *m->locations);
        }
        if (m->n >= 1u << m->table_log2 >> 1) {
            make_table(m, m->table_log2 + 1);
            at = slot_of(m, p);
        }
        location *x = &m->locations[m->n++];
        memset(x, 0, sizeof *x);
        x->p = p;
        x->bytes = bytes;
        x->first = 1;
        append(x, value, NULL, 0);
        m->table[at] = m->n;
        return m->n - 1;
    }
    location *x = &m->locations[m->table[at] - 1];
    if (x->bytes != bytes || x->values[x->last % WHI_OLD].value != value) {
        forget(x);
        x->bytes = bytes;
        append(x, value, NULL, m->now);
    }
    return m->table[at] - 1;
}

static uint64_t read_memory(const void *p, uint32_t bytes) {
    return bytes == 4 ? __atomic_load_n((const uint32_t *)p, __ATOMIC_RELAXED)
                      : __atomic_load_n((const uint64_t *)p, __ATOMIC_RELAXED);
}

/* --- performing -------------------------------------------------------------------------- */

static stored *value_at(location *x, uint32_t number) {
    return &x->values[number % WHI_OLD];
}

/* Another lane has seen value `number`, or it was made in the L2. */
static void perform(whi_weak *m, location *x, uint32_t number) {
    for (uint32_t k = number; k >= x->first && value_at(x, k)->performed == NOT_YET; k--) {
        value_at(x, k)->performed = m->now;
    }
}

/* All that a lane has stored so far, and what those had stored that it met at a barrier. */
static void perform_all(whi_weak *m, whi_lane *l) {
    for (uint32_t i = 0; i < l->n_pending; i++) {
        location *x = &m->locations[l->pending[i].location];
        for (uint32_t k = l->pending[i].number;
             k >= x->first && k <= x->last && value_at(x, k)->performed == NOT_YET; k--) {
            value_at(x, k)->performed = m->now;
        }
    }
    l->n_pending = 0;
}

static void owe(whi_lane *l, whi_pending p) {
    if (l->n_pending == l->pending_room) {
        l->pending_room = l->pending_room * 2 + 16;
        l->pending = grow(l->pending, l->pending_room * sizeof *l->pending);
    }
    l->pending[l->n_pending++] = p;
}

/* Unless it is performed, or there. */
static void owe_once(whi_lane *l, whi_pending p) {
    location *x = &l->engine->weak->locations[p.location];
    if (p.number < x->first || value_at(x, p.number)->performed != NOT_YET) {
        return;
    }
    for (uint32_t i = 0; i < l->n_pending; i++) {
        if (l->pending[i].location == p.location && l->pending[i].number == p.number) {
            return;
        }
    }
    owe(l, p);
}

/* Of orders with or without the scope. */
static int acquires(int order) {
    order &= ~WHI_SIM_SYSTEM;
    return order == __ATOMIC_ACQUIRE || order == __ATOMIC_ACQ_REL;
}

static int releases(int order) {
    order &= ~WHI_SIM_SYSTEM;
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL;
}

static int formal(const whi_engine *e) {
    return e->device->options.weak == WH_SIM_WEAK_FORMAL;
}

static const whi_sim_device *device_of(const whi_lane *l) {
    return l->warp->block->grid->on;
}

/* Whether an access of order `order` and the one that stored s are in each other's scope. */
static bool in_scope(const whi_lane *l, const stored *s, int order) {
    return s->by == NULL || s->by == device_of(l) || (s->system && (order & WHI_SIM_SYSTEM) != 0);
}

/* A lane has seen value `number` of a location. */
static void see(whi_lane *l, uint32_t i, uint32_t number, int order) {
    whi_weak *m = l->engine->weak;
    const stored *s = value_at(&m->locations[i], number);
    const whi_snapshot *along = s->along;
    raise_to(&l->view, i, number);
    if (!in_scope(l, s, order)) {
        return;
    }
    if (along != NULL) {
        join(acquires(order) ? &l->view : &l->seen, along->oldest, along->n);
    }
    if (acquires(order)) {
        l->acquired = m->now;
    }
}

/* A lane stores the next value of a location; inherited: came with the value before. */
static void store(whi_lane *l, uint32_t i, uint64_t value, int order, whi_snapshot *inherited) {
    whi_engine *e = l->engine;
    location *x = &e->weak->locations[i];
    raise_to(&l->view, i, x->last + 1);
    if (formal(e)) {
        append(x, value,
               merge(releases(order) ? take_snapshot(&l->view) : share(l->fenced), inherited),
               NOT_YET);
    } else {
        append(x, value, NULL, NOT_YET);
        const whi_pending p = {i, x->last};
        owe(l, p);
    }
    value_at(x, x->last)->by = device_of(l);
    value_at(x, x->last)->system = (order & WHI_SIM_SYSTEM) != 0;
}

/* --- what device code calls ------------------------------------------------------------------ */

uint64_t whi_sim_weak_load(const void *p, uint32_t bytes, uint64_t newest, int order) {
    whi_lane *l = whi_current();
    whi_engine *e = l->engine;
    whi_weak *m = e->weak;
    const uint32_t i = find(m, p, bytes, newest);
    location *x = &m->locations[i];
    m->now++;
    uint32_t oldest = i < l->view.n && l->view.oldest[i] > x->first ? l->view.oldest[i] : x->first;
    for (uint32_t k = x->last; !formal(e) && k > oldest; k--) {
        oldest = value_at(x, k)->performed <= l->acquired ? k : oldest;
    }
    uint32_t age = 0;
    if (oldest != x->last) {
        age = whi_random_below(e, 2) != 0 ? whi_random_below(e, x->last - oldest + 1) : 0;
        age = e->log != NULL ? whi_log_age(e, age, x->last - oldest) : age;
        whi_schedule_add(e, age);
    }
    if (i >= l->view.n || l->view.oldest[i] < x->last - age) { /* not its own */
        perform(m, x, x->last - age);
    }
    see(l, i, x->last - age, order);
    return value_at(x, x->last - age)->value;
}

void whi_sim_weak_store(const void *p, uint32_t bytes, uint64_t value, int order) {
    whi_lane *l = whi_current();
    whi_weak *m = l->engine->weak;
    m->now++;
    if (releases(order)) {
        perform_all(m, l);
    }
    store(l, find(m, p, bytes, read_memory(p, bytes)), value, order, NULL);
}

void whi_sim_weak_rmw(const void *p, uint32_t bytes, uint64_t old, int order, int stored_too) {
    whi_lane *l = whi_current();
    whi_weak *m = l->engine->weak;
    m->now++;
    if (releases(order)) {
        perform_all(m, l);
    }
    const uint32_t i = find(m, p, bytes, old);
    location *x = &m->locations[i];
    perform(m, x, x->last);
    see(l, i, x->last, order);
    if (stored_too) {
        const stored *before = value_at(x, x->last);
        store(l, i, read_memory(p, bytes), order,
              in_scope(l, before, order) ? share(before->along) : NULL);
        perform(m, x, x->last);
    }
}

void whi_sim_weak_fence(void) {
    whi_lane *l = whi_current();
    whi_weak *m = l->engine->weak;
    l->acquired = ++m->now;
    perform_all(m, l);
    if (formal(l->engine)) {
        join(&l->view, l->seen.oldest, l->seen.n);
        drop(l->fenced);
        l->fenced = take_snapshot(&l->view);
    }
}

/* --- what the scheduler calls ------------------------------------------------------------------
 */

void whi_weak_begin(whi_engine *e) {
    if (e->weak == NULL) {
        e->weak = grow(NULL, sizeof *e->weak);
        memset(e->weak, 0, sizeof *e->weak);
    }
    for (uint32_t i = 0; i < e->weak->n; i++) {
        forget(&e->weak->locations[i]);
    }
    e->weak->n = 0;
    e->weak->now = 0;
    make_table(e->weak, 10);
}

void whi_weak_lane(whi_engine *e, whi_lane *l, bool has_waited) {
    l->view.n = l->seen.n = l->n_pending = 0;
    l->acquired = has_waited ? e->weak->now : 0;
    drop(l->fenced);
    l->fenced = NULL;
    for (uint32_t i = 0; has_waited && i < e->weak->n; i++) {
        raise_to(&l->view, i, e->weak->locations[i].last);
    }
}

void whi_weak_sync(whi_warp *w, uint32_t mask, whi_view *all) {
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        const whi_lane *l = &w->lanes[wh_ctz32(m)];
        if (formal(l->engine)) {
            join(all, l->view.oldest, l->view.n);
        }
        for (uint32_t i = 0; i < l->n_pending; i++) { /* what lanes have seen is performed */
            raise_to(all, l->pending[i].location, l->pending[i].number);
        }
    }
    /* A release of one of them performs what all have stored. */
    whi_lane *first = &w->lanes[wh_ctz32(mask | 1u << 31)];
    for (uint32_t m = mask & (mask - 1); m != 0; m &= m - 1) {
        const whi_lane *l = &w->lanes[wh_ctz32(m)];
        for (uint32_t i = 0; i < l->n_pending; i++) {
            owe_once(first, l->pending[i]);
        }
    }
    for (uint32_t m = mask & (mask - 1); m != 0; m &= m - 1) {
        whi_lane *l = &w->lanes[wh_ctz32(m)];
        l->n_pending = 0;
        for (uint32_t i = 0; i < first->n_pending; i++) {
            owe(l, first->pending[i]);
        }
    }
}

void whi_weak_synced(whi_warp *w, uint32_t mask, const whi_view *all) {
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        whi_lane *l = &w->lanes[wh_ctz32(m)];
        join(&l->view, all->oldest, all->n);
        l->acquired = l->engine->weak->now;
    }
}

void whi_weak_free_lane(whi_lane *l) {
    free(l->view.oldest);
    free(l->seen.oldest);
    free(l->pending);
    drop(l->fenced);
}

void whi_weak_end(whi_engine *e) {
    whi_weak *m = e->weak;
    if (m != NULL) {
        for (uint32_t i = 0; i < m->n; i++) {
            forget(&m->locations[i]);
        }
        free(m->locations);
        free(m->table);
        free(m);
    }
}
