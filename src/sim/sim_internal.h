/* sim_internal.h: the simulated device's own structures.
 *
 * Glossary
 *   engine    one scheduler with its lanes; one per worker (OS thread). Lanes never
 *             leave their engine, so nothing in an engine is shared while lanes run.
 *   slot      room for one resident block; its warps are neighbours in engine.warps
 *   batch     the grids that run together: one, or all that wait on streams
 *   point     a place where the scheduler may run another lane
 *   choice    a decision of the scheduler that the program cannot foresee: which lane
 *             goes on, how long wh_activemask waits, whom it names, how long a lane
 *             sleeps, which stream the next block comes from, how old a value is that a
 *             load returns. Record and replay hook each of them (choices.c).
 *
 * Invariants (single-threaded per engine, but S7)
 *   S1  bit i of warp.run is set iff lane i is in state RUNNABLE; warp_bits has the bit
 *       of every warp with run != 0; n_run counts the set bits.
 *   S2  with keep_array, runnable[0..n_run) holds exactly the runnable lanes and
 *       lane.pos is the lane's index there; with heap_order it is a max-heap by prio.
 *   S3  a lane waits in at most one group, and group.arrived is a proper subset of
 *       group.mask, which is a subset of warp.live.
 *   S4  warp.am_wait != 0 implies warp.run != 0 or warp.asleep != 0 once a lane has been
 *       switched to: the last lane of a warp that stops resolves its wh_activemask.
 *   S5  a fiber is either ready (rests in lane_main between two lanes, or was never
 *       entered) or inside a kernel; a failed launch makes those of the second kind
 *       unready, and they are set up anew before their next use.
 *   S6  each lane in state ASLEEP is in the list of one bucket of the wheel, at most
 *       WHI_WHEEL - 1 ticks ahead, and has its bit in warp.asleep; n_asleep counts them,
 *       and while it is not 0 next_event is not after next_tick.
 *   S7  of the grids of one stream only the head has blocks that run; the next becomes
 *       the head when all blocks of the head have ended. A batch's heads, the counts of
 *       its grids and last_stream change under batch.lock if there are several workers.
 *   S8  while lanes of an engine run, none of its slots is free for a block that could
 *       start, except that another worker may just have ended a grid: that worker then
 *       has a slot for the next one.
 */
#ifndef WHI_SIM_INTERNAL_H
#define WHI_SIM_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "fiber.h"
#include "explore.h"
#include "host/device_internal.h"
#include "warpheap/simt.h"

typedef enum whi_lane_state {
    WHI_LANE_EXITED, /* or never started */
    WHI_LANE_RUNNABLE,
    WHI_LANE_ASLEEP,  /* in wh_backoff, or stalled */
    WHI_LANE_STOPPED, /* for ever (explore.h) */
    WHI_LANE_IN_COLLECTIVE,
    WHI_LANE_IN_ACTIVEMASK,
    WHI_LANE_IN_BARRIER
} whi_lane_state;

typedef struct whi_engine whi_engine;
typedef struct whi_warp whi_warp;
typedef struct whi_block whi_block;
typedef struct whi_grid whi_grid;
typedef struct whi_log whi_log;
typedef struct whi_sparse whi_sparse;
typedef struct whi_weak whi_weak;
typedef struct whi_shared whi_shared;
typedef struct whi_sim_device whi_sim_device;

/* By location: the number of the oldest value that may still be seen (weak.c). */
typedef struct whi_view {
    uint32_t *oldest;
    uint32_t n, room;
} whi_view;

/* A value of a location (weak.c). */
typedef struct whi_pending {
    uint32_t location, number;
} whi_pending;

typedef struct whi_lane {
    whi_sim_self_t self; /* first: whi_sim_self points here */
    whi_engine *engine;  /* NULL for host code */
    whi_warp *warp;
    uint32_t pos; /* S2 */
    whi_lane_state state;
    whi_fiber fiber;
    uint64_t prio;                /* PCT: larger runs first */
    struct whi_lane *next_asleep; /* S6 */
    const char *site;
    uint32_t am_passed; /* how often others have been named since it waits in wh_activemask */
    uint64_t asked;     /* WHI_MODE_WATCHED: how often this lane has asked who goes on */
    uint64_t value, result;
    uint32_t source;             /* lane that a shuffle reads */
    bool fiber_ready;            /* S5 */
    whi_view view, seen;         /* weak.c; seen: came with what relaxed loads returned */
    struct whi_snapshot *fenced; /* the view at the last wh_fence */
    whi_pending *pending;        /* stores that are not performed yet */
    uint32_t n_pending, pending_room;
    uint64_t acquired; /* when: the last acquire */
    uint64_t waited;   /* when: the last wh_backoff; 0: there was none */
    uint32_t attempt;  /* of that */
    uint64_t arrived;  /* when: in the collective, or barrier, that it waits in */
    /* Addresses for ThreadSanitizer's edges of wh_syncwarp. */
    char outbox, inbox;
} whi_lane;

/* A collective that some of its lanes have reached. */
typedef struct whi_group {
    uint32_t mask, arrived;
    whi_sim_op op;
} whi_group;

struct whi_warp {
    uint32_t run;  /* S1 */
    uint32_t live; /* lanes that exist and have not exited */
    uint32_t am_wait;
    uint32_t am_ticks; /* points of this warp until am_wait is resolved; 0: not counting */
    uint32_t index;    /* in engine.warps */
    uint32_t n_lanes;
    uint32_t asleep; /* S6 */
    uint32_t in_barrier;
    uint32_t n_groups;
    bool am_scanned; /* am_wait was already seen waiting by the last scan */
    whi_block *block;
    char *stacks;
    whi_group groups[WH_WARP_SIZE];
    whi_lane lanes[WH_WARP_SIZE];
};

struct whi_block {
    whi_grid *grid;
    uint32_t id; /* in its grid */
    uint32_t live;
    uint32_t at_barrier;
    uint32_t sm_slot;
    bool used;
    whi_shared *shared; /* memory; only while used */
    size_t static_bytes;
    bool parity;     /* of the next barrier */
    char barrier[2]; /* addresses for ThreadSanitizer's edges, one per parity */
};

typedef enum whi_mode {
    WHI_MODE_ROUND_ROBIN,
    WHI_MODE_RANDOM,
    WHI_MODE_STICKY,
    WHI_MODE_PCT,
    WHI_MODE_STALL,
    WHI_MODE_WATCHED /* record, replay, or explore.h; engine.policy_mode is the real one */
} whi_mode;

/* One kernel start. */
struct whi_grid {
    void (*entry)(const void *);
    const void *args;
    const char *name;
    uint32_t blocks, threads; /* threads: of a block */
    whi_sim_dims dims;        /* of which those two are products */
    uint32_t shared_bytes;
    uint32_t started, ended;  /* blocks */
    uint32_t stream;          /* in its batch */
    uint64_t first_thread;    /* threads of the grids before it in the batch */
    const whi_sim_device *on; /* the device that it was launched on */
    whi_grid *before, *after; /* on its stream, in this batch */
    char end; /* address for ThreadSanitizer's edge to the next grid of the stream */
};

/* What the engines share that run grids together. */
typedef struct whi_batch {
    whi_grid **grids; /* in the order of their launches */
    uint32_t n_grids;
    whi_grid **heads; /* by stream: the grid that runs now; NULL: none is left */
    uint32_t n_streams;
    uint32_t last_stream;  /* that a block came from */
    uint64_t unstarted;    /* blocks, of all grids */
    uint64_t threads;      /* of all grids */
    uint32_t most_threads; /* in a block */
    int failed;            /* atomic; set under the device's mutex */
    char lock;             /* S7 */
} whi_batch;

#define WHI_WHEEL 256u
#define WHI_MOST_PCT_DEPTH 8u

struct whi_engine {
    /* What every point touches. */
    whi_mode mode;
    bool hooked;
    bool keep_array, heap_order; /* S2 */
    uint32_t n_run;
    uint32_t one_in; /* points: sticky and stall */
    uint64_t steps, next_event;
    uint64_t atomics, switches;
    uint64_t schedule;       /* a hash of the switches (whi_schedule_add) */
    uint64_t schedule_start; /* steps before the first of these */
    bool schedule_ended;
    uint64_t rng;
    whi_lane **runnable;
    whi_warp **warps;
    uint64_t *warp_bits; /* S1 */
    uint32_t n_warps;    /* of this batch */
    uint32_t stint;      /* PCT, and sparse schedules: points since the last switch */

    whi_sim_device *device;
    uint32_t index;
    whi_batch *batch;
    whi_block *blocks;
    uint32_t n_slots, warps_per_slot, live_blocks;
    uint8_t *sm_busy; /* by own SM slot k: SM slot index + k * workers of the device */
    uint32_t n_sm_slots, next_sm_slot;
    uint32_t warps_made; /* warps with memory, over all launches */
    uint32_t blocks_made;
    whi_mode policy_mode;
    uint64_t launch_start, budget; /* steps: of this batch */
    /* Of waits without end (sched.c): calls of wh_backoff since a lane has moved, and how many are
     * many; in so many steps a lane that waits calls it again; when all waited, 0: not yet. */
    uint64_t waits, patience, wait_steps, suspected;
    uint64_t next_scan, scan_every;
    uint64_t demoted; /* PCT: the next demotion gets this priority, less each time */
    uint64_t change[WHI_MOST_PCT_DEPTH - 1];
    uint32_t n_changes;
    uint64_t fair_from;       /* PCT: random walk from this step on */
    uint64_t tick, next_tick; /* the wheel's time, and the step of its next tick */
    uint32_t n_asleep;
    whi_lane *wheel[WHI_WHEEL];
    bool closing;
    whi_fiber main;
    whi_log *log;
    whi_weak *weak; /* NULL without the option */
    /* explore.h; of the next batch, or of this one. */
    const whi_steering *steering;  /* NULL: none */
    uint64_t stop_thread, stop_at; /* stop_at 0: none stops */
    uint64_t stop_asked;           /* how often that thread has asked who goes on */
    uint32_t n_stopped;            /* lanes in state STOPPED: in no set, and live */
};

#define WHI_PCT_MEMORY 64u
#define WHI_NO_THREAD UINT64_MAX /* the host, as who asks which lane begins */

struct whi_sim_device {
    wh_device base; /* first */
    wh_sim_options options;
    whi_engine *engines;
    uint32_t n_workers;
    pthread_mutex_t mutex; /* base.error and batch.failed while workers run */
    struct whi_pool *pool;
    whi_log *log;
    double timer_start;
    struct whi_allocation *allocations;
    size_t n_allocations, allocations_room;
    uint64_t allocated_bytes;
    FILE *schedules;          /* gets a line when the device is closed; NULL: none */
    char begin, end;          /* addresses for ThreadSanitizer's edges of a batch */
    struct whi_queued *queue; /* launches that wait, in their order */
    size_t n_queued, queue_room;
    struct whi_stream *streams;
    /* Peers, whose kernels run together: a ring of devices, and the one of them whose engines and
     * queue all of them use. Alone: itself. */
    whi_sim_device *lead, *next_peer;
    /* PCT needs a guess of a batch's length: that of the last one of the same kernels. */
    struct {
        uint64_t name_hash, steps_per_thread;
    } pct_memory[WHI_PCT_MEMORY];
};

extern const whi_lane whi_host_lane;
extern const char *const whi_policy_names[WH_SIM_POLICY_COUNT];

static inline whi_lane *whi_current(void) {
    return (whi_lane *)(uintptr_t)whi_sim_self;
}

/* --- random numbers (splitmix64: one 64-bit counter, so a seed is a stream) ---- */

static inline uint64_t whi_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static inline uint64_t whi_random(whi_engine *e) {
    e->rng += 0x9e3779b97f4a7c15u;
    return whi_mix(e->rng);
}
/* 0 .. n-1 */
static inline uint32_t whi_random_below(whi_engine *e, uint32_t n) {
    return (uint32_t)(((whi_random(e) >> 32) * n) >> 32);
}

/* Counts something in that makes this schedule another one than others. Different schedules have
 * different hashes, but for a chance of 1 in 2^64 for two of them. */
static inline void whi_schedule_add(whi_engine *e, uint64_t what) {
    const uint64_t h = (e->schedule ^ what) * 0x9e3779b97f4a7c15u;
    e->schedule = h ^ h >> 32;
}

/* The number of a lane's thread, counted over the grids of the batch. */
static inline uint64_t whi_thread_of(const whi_lane *l) {
    const whi_grid *g = l->engine != NULL ? l->warp->block->grid : NULL;
    return g == NULL ? WHI_NO_THREAD
                     : g->first_thread + (uint64_t)l->self.block * g->threads + l->self.thread;
}

/* A lane has begun, ended, gone on from a wait to another one, or asked the clock. */
static inline void whi_moved(whi_engine *e) {
    e->waits = 0;
    e->suspected = 0;
}

/* The files, each of which calls those before it alone:
 *   fiber.c spare.c fault.c   stacks; what closed devices have left; planted faults
 *   describe.c                names and messages
 *   lanes.c                   who can run, who sleeps; the way out of a grid
 *   shared.c                  what a block shares
 *   sparse.c choices.c        record and replay
 *   activemask.c              whom a wh_activemask names
 *   weak.c                    old values
 *   sched.c                   policies, scheduling points, giving way
 *   collective.c              warp collectives and the barrier of a block
 *   grid.c                    blocks, lanes from start to end, batches
 *   device_sim.c              the device that the host sees
 */

/* --- describe.c -------------------------------------------------------------------- */

extern const char *const whi_op_names[WHI_SIM_OP_COUNT];

/* Makes the batch fail with WH_DEVICE_ERROR; l, the lane at fault, may be NULL. The
 * first failure of a batch is kept. */
void whi_note_failure(whi_engine *e, const whi_lane *l, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The resident lane of a thread, counted over the grids of the batch, or NULL. */
whi_lane *whi_find_lane(whi_engine *e, uint64_t thread);
/* What a lane is doing, for messages. */
void whi_describe_lane(const whi_lane *l, char *text, size_t bytes);
/* A site without its folders. */
const char *whi_short_site(const char *site);

/* --- lanes.c --------------------------------------------------------------------- */

static inline uint32_t whi_bit_of(const whi_lane *l) {
    return 1u << l->self.lane;
}
void whi_make_runnable(whi_engine *e, whi_lane *l);
/* Takes a lane that can run out of the set; another lane has to be chosen. */
void whi_take_off(whi_engine *e, whi_lane *l, whi_lane_state state);
/* PCT: puts l below every lane. */
void whi_demote(whi_engine *e, whi_lane *l);
/* Lets l sleep for 1 .. WHI_WHEEL - 1 ticks of the wheel; another lane has to be chosen. */
void whi_sleep(whi_engine *e, whi_lane *l, uint32_t ticks);
/* Wakes the lanes of the next tick; with none runnable, those of the first that has any. */
void whi_advance_wheel(whi_engine *e);
void whi_set_next_tick(whi_engine *e);
/* Leaves the grid for the worker's own stack; a lane that failed does not return. */
void whi_switch_to_main(whi_engine *e, whi_lane *from);
/* Ends the failed batch. Called by a lane. */
void whi_leave(whi_engine *e) __attribute__((noreturn));
#define whi_fail(e, ...) (whi_note_failure((e), __VA_ARGS__), whi_leave(e))

/* --- shared.c --------------------------------------------------------------------- */

/* Gives what the lanes of a block have shared back: the block has ended or failed. */
void whi_shared_end(whi_block *b);

/* --- spare.c: what closed devices have left ----------------------------------------- */

/* NULL: there is none. */
whi_warp *whi_spare_take_warp(void);
/* Of each fiber that is ready the next resumption starts another lane: it rests in lane_main.
 * false: there are enough. */
bool whi_spare_keep_warp(whi_warp *w);
/* Whether whi_spare_take_memory has room for that many bytes, which are whole pages. */
bool whi_spare_fits(uint64_t bytes);
/* Memory at a multiple of 1 MiB that holds anything; what follows it faults. NULL: none. */
char *whi_spare_take_memory(uint64_t bytes);
void whi_spare_keep_memory(char *p, uint64_t bytes);

/* --- sparse.c: schedules that say only where a lane does not simply go on -------------- */

/* Reads or begins a schedule whose first line has been read or written; the file stays the
 * caller's. *line: how far it was read. whi_sparse_close also after a failure. OUT_OF_MEMORY,
 * BAD_FORMAT. */
wh_status whi_sparse_open(whi_sparse **sparse, FILE *file, bool replay, uint64_t *line);
void whi_sparse_close(whi_sparse *p); /* NULL: nothing */
void whi_sparse_begin(whi_sparse *p); /* the next launch */
/* Records that next goes on after l, which had to give way, if possible, where `leave` says so. */
void whi_sparse_picked(whi_sparse *p, const whi_lane *l, const whi_lane *next, bool leave);
/* Who goes on after l by the schedule; NULL: who does so by default. */
whi_lane *whi_sparse_pick(whi_engine *e, whi_sparse *p, whi_lane *l);
/* Passes another choice of the running lane; returns the one to use. */
uint64_t whi_sparse_choice(whi_sparse *p, char kind, uint64_t value, uint64_t by_default);

/* --- choices.c: record and replay ------------------------------------------------------ */

/* Opens options.record, options.switches or options.replay. Replaying sets seed, policy, n_sms and
 * blocks_per_sm as they were. IO_ERROR, BAD_FORMAT. */
wh_status whi_log_open(whi_log **log, wh_sim_options *options);
wh_status whi_log_close(whi_log *log);
/* Both are called on the worker's own stack. begin: false when the replay diverged. */
bool whi_log_begin(whi_engine *e);
void whi_log_end(whi_engine *e);
bool whi_log_replays(const whi_log *log);
/* Whether it does so by a sparse schedule: lanes do not sleep, and go on by default. */
bool whi_log_is_sparse(const whi_log *log);
/* Records that next goes on after l. */
void whi_log_picked(whi_engine *e, const whi_lane *l, const whi_lane *next, bool leave);
/* Who goes on after l by the replay; NULL on the worker's own stack, when it diverged, or if the
 * schedule is sparse and does not say. */
whi_lane *whi_log_pick(whi_engine *e, whi_lane *l);
/* Pass a choice that the policy made; return the one to use. must: lanes to be named. */
uint32_t whi_log_ticks(whi_engine *e, uint32_t ticks);
uint32_t whi_log_sleep(whi_engine *e, uint32_t ticks);
uint32_t whi_log_age(whi_engine *e, uint32_t age, uint32_t most);
/* The policy stops the running lane for this long. */
void whi_log_stall(whi_engine *e, uint32_t ticks);
uint32_t whi_log_mask(whi_engine *e, whi_warp *w, uint32_t mask, uint32_t must);
/* may: whether a block of stream k can start. Anything on the worker's own stack when the
 * replay diverged. */
uint32_t whi_log_stream(whi_engine *e, uint32_t stream, bool (*may)(const whi_batch *, uint32_t k));

/* --- activemask.c ------------------------------------------------------------------ */

/* For how many points of its warp a lane waits in wh_activemask; 0: it is named at once. */
uint32_t whi_activemask_ticks(whi_engine *e, const whi_warp *w);
/* Gives some lanes that wait in wh_activemask their mask; must: a lane to be named, or 0. */
void whi_activemask_resolve(whi_engine *e, whi_warp *w, uint32_t must);
/* S4, after a lane of w has stopped. */
static inline void whi_activemask_keep_s4(whi_engine *e, whi_warp *w) {
    if ((w->run | w->asleep) == 0 && w->am_wait != 0) {
        whi_activemask_resolve(e, w, 0);
    }
}

/* --- weak.c: old values ------------------------------------------------------------ */

void whi_weak_begin(whi_engine *e);
/* A lane starts. has_waited: its grid had to wait for another one. */
void whi_weak_lane(whi_engine *e, whi_lane *l, bool has_waited);
/* Collects the views of lanes that synchronise, and hands the sum out to each. */
void whi_weak_sync(whi_warp *w, uint32_t mask, whi_view *all);
void whi_weak_synced(whi_warp *w, uint32_t mask, const whi_view *all);
void whi_weak_free_lane(whi_lane *l);
void whi_weak_end(whi_engine *e);

/* --- sched.c ------------------------------------------------------------------------ */

/* Sets the policy up for the engine's batch; keeps the length of the one that has ended, for PCT.
 */
void whi_policy_begin(whi_engine *e);
void whi_policy_remember(const whi_engine *e);
/* Who goes on; l is the lane that ran. leave: not l, if possible. */
whi_lane *whi_pick(whi_engine *e, whi_lane *l, bool leave);
/* Passes a scheduling point. */
void whi_point(whi_engine *e, whi_lane *l);
/* Takes the running lane off in the given state and returns when it was made
 * runnable and chosen. */
void whi_wait(whi_engine *e, whi_lane *l, whi_lane_state state);
/* Goes on with another lane, or with l again if it can run; leave: rather not with l. */
void whi_go_on(whi_engine *e, whi_lane *l, bool leave);

/* --- collective.c ---------------------------------------------------------------- */

/* Fails the launch if a lane that just exited is awaited; completes its barrier. */
void whi_collective_exit(whi_engine *e, whi_lane *l);

/* --- grid.c ----------------------------------------------------------------------- */

/* Runs the engine's share of a batch; call it on the worker's own stack. */
void whi_engine_run(whi_engine *e, whi_batch *batch);
/* Memory for the batch; before whi_engine_run. */
wh_status whi_engine_prepare(whi_engine *e, const whi_batch *batch);
void whi_engine_close(whi_engine *e);

#endif
