/* internal.h: what the benchmark's driver and its cases share.
 *
 * A run (whi_bench) goes through cases and allocators. A case makes a plan (whi_bench_plan) for
 * each series of measurements: the call that kernels get, and what the series yields. Nothing of a
 * plan is kept when the case ends.
 *
 * Every function that can fail returns a wh_status; the first failure is described in b->error and
 * ends the run.
 */
#ifndef WHI_BENCH_INTERNAL_H
#define WHI_BENCH_INTERNAL_H

#include <jansson.h>

#include "bench/bench.h"
#include "bench/cases/list.h"
#include "bench/driver/common.h"
#include "bench/kernels/bench_kernels.h"
#include "warpheap/kdtree.h"
#include "workload/graph/graph_case.h"
#include "workload/mesh/mesh.h"

#define WHI_BENCH_WARP ((uint64_t)32) /* lanes */

/* Share of the heap that a case may fill; the thread count is cut to it. */
#define WHI_BENCH_FILL 0.6

/* How many times the limit (--limit) of wall time things may take. A series of repetitions ends
 * early after one, and its row says how many were made. A fill of a heap ends after that of a
 * case. What an allocator has not begun in a case by then is left out, and reported. */
#define WHI_BENCH_SERIES_LIMITS 1.0
#define WHI_BENCH_CASE_LIMITS 4.0
#define WHI_BENCH_LONG_CASE_LIMITS \
    10.0 /* drift, walk, crossover, scenarios, server, fill-log; ops */
/* How long a GPU works before the first thing is timed, since an idle one's clocks are low. */
#define WHI_BENCH_WAKE_SECONDS 0.1

/* A mesh that is made: so many triangles, and so many copies of them along each axis. */
typedef struct whi_bench_made {
    uint64_t triangles;
    uint32_t copies;
} whi_bench_made;

/* The default work: one record per kind of device. */
typedef struct whi_bench_defaults {
    uint64_t heap_bytes, utilization_bytes;
    uint32_t reps;
    double limit; /* seconds; 0: none */
    uint64_t threads, warps, scaling_max, scaling_factor;
    uint64_t churn_threads, batch;
    uint32_t churn_steps;
    uint64_t full_bytes, full_threads;     /* heap, most threads */
    uint64_t refuse_bytes, refuse_threads; /* pressure: the full heap, mallocs in it */
    uint64_t pressure_bytes;               /*    the heap of its churn */
    uint32_t pressure_reps;                /*    of its churn, at most */
    uint64_t drift_bytes, drift_batch;
    uint64_t drift_first;    /* its first batch */
    uint64_t stream_threads; /* of each of the two kernels */
    uint64_t waste_sizes;    /* how many sizes at most; 0: all */
    uint64_t scenarios_bytes, scenarios_threads;
    uint64_t server_bytes, server_threads; /* aged heaps, and the slab hash */
    uint32_t server_rounds;
    uint64_t cells_bytes, cells;
    uint32_t cells_steps;
    uint64_t slab_keys; /* a round */
    uint32_t slab_rounds;
    uint64_t fill_log_bytes, fill_log_batch;
    uint32_t fill_log_last; /* batches after the one with the first NULL, at most */
    uint32_t repeat_rounds; /* repeat: without a reset; half as many with one */
    uint64_t repeat_threads, latency_threads, access_threads;
    uint64_t graph_bytes;         /* graph-*: the heap, or more for a large graph */
    uint32_t graph_scale;         /* graph-*: 2^scale vertices, 16 times as many arcs */
    uint32_t graph_rounds;        /* graph-memory, graph-expand */
    uint64_t ops_bytes, ops_rows; /* ops-join, ops-group: the heap, rows of a table */
    uint64_t ops_few_rows;        /*    of one with many copies of a key */
    uint32_t ops_sweep;           /*    ops-group: up to 2^sweep groups, one by one */
    uint64_t ops_paper_bytes;     /* ops-*-paper: the heap, */
    uint64_t ops_paper_keys;      /*    most keys of a group-by */
    const uint64_t *ops_pages, *ops_groups, *ops_paper_pages, *ops_paper_rows;
    const whi_bench_made *kd_made; /* kdtree*: meshes where there is no file; 0 ends */
    uint64_t kd_most;              /*    most triangles of copies of a file */
    uint64_t kd_least;             /*    kdtree: bytes of the heap, at least */
    uint64_t kd_rays, kd_verified; /*    rays that are timed; the first ones are compared */
    uint64_t kd_checked;           /*    most triangles of a mesh whose leaves are looked at */
    uint64_t kd_page;              /*    bytes of a page, where there is one size */
    uint32_t kd_frames, kd_trials; /*    builds in a row; of a size of a heap */
    const uint64_t *single, *mixed, *warp, *scaling, *churn, *large, *utilization; /* 0 ends */
    const uint64_t *full_single, *full_mixed, *pressure, *streams, *waste, *server, *first, *arena;
    const uint64_t *repeat_single, *repeat_mixed, *latency_single, *latency_mixed;
    const uint64_t *access_single, *access_mixed, *work, *work_threads;
    const uint64_t *graph_batches;
} whi_bench_defaults;

/* Repetitions of one timed operation. */
typedef struct whi_bench_series {
    double us[WH_BENCH_MAX_REPS];
    uint32_t n;
    uint64_t steps, atomics; /* of the simulated device, over all repetitions */
    uint64_t failed, bad;    /* likewise */
} whi_bench_series;

/* What a row reports of them. */
typedef struct whi_bench_result {
    uint32_t reps;
    double us, us_min, us_max; /* us: the median */
    double steps_per_op, atomics_per_op;
    uint64_t failed, bad;
} whi_bench_result;

#define WHI_BENCH_MAX_VALUES 12u

typedef struct whi_bench_row {
    const char *phase, *op;
    uint64_t size_min; /* 0: all of one size */
    uint64_t size;     /* 0: none */
    uint64_t threads;
    uint64_t ops;      /* calls in one repetition */
    double us_null;    /* the floor; 0: none */
    const char *input; /* graph: the file; NULL: none */
    whi_bench_value values[WHI_BENCH_MAX_VALUES];
    size_t n_values;
} whi_bench_row;

/* A series of a case, by what its rows are told apart. */
typedef struct whi_bench_part {
    const char *op;          /* NULL: any */
    uint64_t size_min, size; /* as of a row */
    uint64_t threads;        /* 0: any */
    whi_bench_value value;   /* its name NULL: none */
    const char *input;       /* NULL: none */
} whi_bench_part;

/* A graph of the case graph. */
typedef struct whi_bench_graph {
    const char *name; /* the file without its folders, or "generated" */
    wh_graph_arcs arcs;
} whi_bench_graph;

/* A graph of the cases graph-*, made when the first of them asks for it. */
typedef struct whi_bench_set {
    const char *name;
    const wh_graph_arcs *file; /* NULL: generated */
    int undirected;            /* both arcs of each edge are there */
    wh_graph_csr csr;          /* each arc once */
    /* A stream: the arcs as they came, and which number the same arc has when it comes the next
     * time; NONE: it does not. Of a graph without times none. */
    uint64_t n_stream;
    uint32_t *from, *to, *next;
} whi_bench_set;

/* A mesh of the cases kdtree*, made when the first of them asks for it. */
typedef struct whi_bench_scene {
    char name[96];
    const wh_mesh *file;        /* NULL: it is made */
    whi_bench_made made;        /* triangles: 0 of a file */
    wh_mesh mesh;               /* without triangles: not made yet */
    wh_kdtree_hit *expected[2]; /* of the rays that are compared, found without a tree: of the mesh,
                                   of its last frame; NULL: not known yet */
    double base_us[3];          /* a build with `bump`, of each kind; 0: not known yet, or none */
    int has_base[3];            /* it was tried */
} whi_bench_scene;

typedef struct whi_bench_list {
    const uint64_t *v;
    size_t n;
} whi_bench_list;

/* n blocks, of lo bytes each or of random sizes in lo..hi. */
typedef struct whi_bench_blocks {
    uint64_t n, lo, hi;
} whi_bench_blocks;

/* Device memory that all plans use, one after the other; it grows and keeps no contents. */
typedef struct whi_bench_arrays {
    void **ptrs;
    uint32_t *born, *claimed;
    uint64_t ptrs_room, born_room, claimed_room; /* entries */
    wh_bench_counts *counts;
} whi_bench_arrays;

/* A case with an allocator. */
typedef struct whi_bench_turn {
    const char *name; /* of the case */
    double start, limits;
    int begun;               /* a series of it was begun */
    whi_bench_part left_out; /* from where on; size 0: nothing was */
    char op[48], input[48];  /* its op and input, where they are put together */
    struct {
        wh_bench_launcher launcher;
        uint64_t n;
        double us;
    } floors[64];
    size_t n_floors;
} whi_bench_turn;

typedef struct whi_bench {
    const wh_bench_options *options;
    const whi_bench_defaults *defaults;
    wh_device *device;
    const wh_device_info *info;
    int on_sim;
    uint32_t reps;
    double limit;  /* seconds; 0: none */
    uint64_t seed; /* of request sizes and churn */
    whi_bench_graph *graphs;
    size_t n_graphs;
    int has_graph_files;
    whi_bench_set *sets;
    size_t n_sets;
    wh_mesh *meshes; /* files */
    size_t n_meshes;
    whi_bench_scene *scenes;
    size_t n_scenes;
    whi_bench_arrays arrays;
    int awake; /* the device has worked for WHI_BENCH_WAKE_SECONDS */

    const wh_allocator_info *alloc;  /* the current one, and what is there of it */
    const wh_bench_kernels *kernels; /* of the table, or `plain` */
    wh_bench_kernels plain;
    const wh_bench_ledger_kernels *ledger_kernels;
    wh_bench_heaps_kernels heaps_kernels;
    const wh_bench_survey_kernels *survey_kernels;
    const wh_bench_memory_kernels *memory_kernels; /* of all allocators */
    int refused;   /* the last failure was that a GPU refused a launch */
    wh_heap *heap; /* NULL: none is open */
    uint64_t heap_bytes;
    wh_bench_handle handle; /* of the open heap */
    whi_bench_turn turn;

    json_t *rows, *left_out_rows;
    FILE *json;        /* NULL: none */
    double json_since; /* it was written last; whi_bench_wall_seconds */
    uint64_t total_bad, total_refused;
    int header_shown;
    char error[512];
} whi_bench;

/* What one series of measurements works with. */
typedef struct whi_bench_plan {
    whi_bench *b;
    wh_bench_call call; /* of the next launch */
    whi_bench_series mallocs, frees;
    int broken; /* a bad block was seen: the heap is not used again */
} whi_bench_plan;

/* --- defaults.c ------------------------------------------------------------------------ */

/* The default work on the simulated device or on a GPU. */
const whi_bench_defaults *whi_bench_defaults_for(int on_sim);

/* --- stats.c: failures, time, numbers ---------------------------------------------------- */

/* Describes the first failure; returns status. */
wh_status whi_bench_fail(whi_bench *b, wh_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns s; unless it is WH_OK, "WHAT of 'ALLOCATOR'" has failed. */
wh_status whi_bench_check(whi_bench *b, wh_status s, const char *what);

/* Whether that many times the limit have passed since start; never without a limit. */
int whi_bench_over(const whi_bench *b, double start, double limits);

/* Whether the current allocator's time for the case is over, so that this part, or what is left
 * of it, and all that would follow are left out; the first such part is noted. To be asked before
 * a series that would else run; for the first of a case the answer is no. */
int whi_bench_leave_out(whi_bench *b, whi_bench_part next);

/* A sample of n microseconds. */
void whi_bench_add_sample(whi_bench_series *series, double us);

/* Makes us the only sample: the sum of several launches. */
void whi_bench_set_sample(whi_bench_series *series, double us);

/* 65536 as "64K". */
const char *whi_bench_bytes_text(uint64_t bytes, char *text, size_t size);

/* --- measure.c: heaps, arrays, launches, data checks --------------------------------------- */

/* The user's sizes or thread counts, or else the case's own: sizes up to a 0, threads
 * one number. */
whi_bench_list whi_bench_sizes(const whi_bench *b, const uint64_t *own);
whi_bench_list whi_bench_threads(const whi_bench *b, const uint64_t *own);

/* The least request where sizes are random up to size. */
uint64_t whi_bench_least(uint64_t size);

/* Repetitions of a series; anew: each begins with a reset heap. On the simulated device such
 * ones differ in time alone, but for random walks: unless the user wants more, there is one. */
uint32_t whi_bench_reps(const whi_bench *b, int anew);

int whi_bench_can(const whi_bench *b, uint32_t caps);

/* "cold" where heaps can be reset before each repetition, else "warm". */
const char *whi_bench_phase(const whi_bench *b);

/* The heap of the current allocator: the user's, or the case's own; at least what the
 * allocator needs. heap_bytes: by the general default. */
uint64_t whi_bench_case_heap(const whi_bench *b, uint64_t own);
uint64_t whi_bench_heap_bytes(const whi_bench *b);

/* What a heap of an allocator is made with on the run's device: --option included. */
wh_heap_options whi_bench_heap_options(const whi_bench *b, const wh_allocator_info *alloc,
                                       uint64_t bytes);
/* The least heap that the current allocator can have. */
uint64_t whi_bench_least_heap(const whi_bench *b);

/* As many of n blocks as WHI_BENCH_FILL of the heap holds. */
uint64_t whi_bench_fitting(const whi_bench *b, uint64_t n, uint64_t bytes_each);

/* Opens a heap of the current allocator, or keeps the open one if it fits. */
wh_status whi_bench_open_heap(whi_bench *b, uint64_t bytes);
void whi_bench_close_heap(whi_bench *b);
wh_status whi_bench_reset_heap(whi_bench *b);

/* Closes the plan's heap and creates one of the same size. */
wh_status whi_bench_new_heap(whi_bench_plan *p);

/* Resets the heap of an allocator that can; keeps that of another one. */
wh_status whi_bench_fresh_heap(whi_bench *b);

/* With --compact, and an allocator that can: wh_heap_compact between launches, added to *sum. */
typedef struct whi_bench_compactions {
    uint32_t n;     /* calls */
    double us;      /* of all calls, as the host sees them */
    uint64_t bytes; /* of chunks that serve any size again */
} whi_bench_compactions;
wh_status whi_bench_compact(whi_bench *b, whi_bench_compactions *sum);

/* Grows a device array that keeps no contents. */
wh_status whi_bench_need(whi_bench *b, void **array, uint64_t *room, uint64_t n, uint64_t bytes);
wh_status whi_bench_need_ptrs(whi_bench *b, uint64_t n);
wh_status whi_bench_need_born(whi_bench *b, uint64_t n);

/* A plan for blocks in a heap of that many bytes: opens the heap, finds room for the pointers. */
wh_status whi_bench_begin(whi_bench *b, whi_bench_plan *p, uint64_t heap_bytes,
                          whi_bench_blocks blocks);

/* Lets p->call be about these blocks, with the open heap, the shared arrays and the seed of the
 * run; all else is 0. */
void whi_bench_aim(whi_bench_plan *p, whi_bench_blocks blocks);

/* A row about the blocks of p->call, and one more figure of it, unless that is NaN. */
whi_bench_row whi_bench_row_of(const whi_bench_plan *p, const char *phase, const char *op);
void whi_bench_add_value(whi_bench_row *row, const char *name, double value, int decimals);
/* What compactions took and brought, each in the mean, if there were any. */
void whi_bench_add_compactions(whi_bench_row *row, const whi_bench_compactions *sum);

/* Blocks of 256 threads, n or a few more. */
wh_launch whi_bench_shape(whi_bench *b, uint64_t n);

/* Starts launcher with n threads (blocks of 256) on p->call and waits for it. */
wh_status whi_bench_launch(whi_bench_plan *p, wh_bench_launcher launcher, uint64_t n);

/* The same, timed: appends a sample. series NULL: not timed. */
wh_status whi_bench_time(whi_bench_plan *p, wh_bench_launcher launcher, uint64_t n,
                         whi_bench_series *series);

/* Starts launcher for no block at all, on a GPU: so that what it takes to load a kernel is in no
 * figure. */
wh_status whi_bench_load(whi_bench_plan *p, wh_bench_launcher launcher);

/* The device's clock and counters around launches of the caller. stop adds the counts to series
 * and returns the time in *us; it is no sample yet. */
typedef struct whi_bench_watch {
    wh_device_counters before;
} whi_bench_watch;
wh_status whi_bench_watch_start(whi_bench *b, whi_bench_watch *watch);
wh_status whi_bench_watch_stop(whi_bench *b, const whi_bench_watch *watch, whi_bench_series *series,
                               double *us);

/* Median time of a floor kernel on p->call; measured once per allocator, case and n. */
wh_status whi_bench_floor(whi_bench_plan *p, wh_bench_launcher launcher, uint64_t n, double *us);

/* The counts that kernels add to: clear, read. */
wh_status whi_bench_clear_counts(whi_bench *b);
wh_status whi_bench_get_counts(whi_bench *b, wh_bench_counts *counts);

/* Looks at the pointers that the last malloc kernel stored: counts the NULLs, and the
 * misaligned and those outside the heap as bad. Then, unless one was bad or the
 * allocator lacks WH_CAP_DISJOINT:
 *   CONTENTS  fills and checks the blocks (they must still be allocated)
 *   PLACES    looks whether any two share memory, from the addresses alone */
enum { WHI_BENCH_CONTENTS = 1, WHI_BENCH_PLACES = 2 };
wh_status whi_bench_verify(whi_bench_plan *p, uint32_t what, wh_bench_counts *counts);

/* Adds what was seen to p->mallocs, the NULLs if timed; p->broken. */
void whi_bench_count(whi_bench_plan *p, const wh_bench_counts *seen, int timed);

/* Lanes that share one block in fill, check and claim of requests up to call.hi: a warp
 * per block makes the GPU's accesses to larger blocks adjacent. */
uint32_t whi_bench_lanes(const whi_bench_plan *p);

/* Counts as bad the blocks of p->call that share memory, by a claim kernel; seen: what a
 * survey of them found. */
wh_status whi_bench_claim(whi_bench_plan *p, wh_bench_launcher launcher,
                          const wh_bench_counts *seen);

/* --- ledger.c: blocks of several sizes ------------------------------------------------ */

/* Live blocks of several sizes: the host's side of a ledger (bench_kernels.h). Two pairs
 * of arrays, between which split moves entries; `n` entries are in use. */
typedef struct whi_bench_ledger {
    void **ptrs[2];
    uint32_t *sizes[2];
    void **victims;
    wh_bench_ledger *results;
    uint32_t side;
    uint64_t n;
    uint64_t patterned; /* entries before this one hold their pattern */
} whi_bench_ledger;

/* An empty ledger with room for n entries; to be closed, also after a failure. */
wh_status whi_bench_ledger_open(whi_bench *b, whi_bench_ledger *l, uint64_t n);
void whi_bench_ledger_close(whi_bench *b, whi_bench_ledger *l);

/* Ends a case that was at status s: closes heap and ledger. Blocks that would outlive
 * their heap (no WH_CAP_OWN_MEMORY) are freed first, unless one was bad. */
wh_status whi_bench_ledger_end(whi_bench_plan *p, whi_bench_ledger *l, wh_status s);

/* As whi_bench_aim, with the entries from n on, where the next malloc kernel stores blocks. The
 * caller keeps n + what it stores within the room. */
void whi_bench_ledger_tail(whi_bench_ledger *l, whi_bench_plan *p, whi_bench_blocks blocks);

/* Counts the blocks as entries that the malloc kernel of p->call stored at the tail. */
wh_status whi_bench_ledger_record(whi_bench_ledger *l, whi_bench_plan *p);

/* Drops the NULLs, and takes out each of the others with probability 1 - keep: they are
 * freed, in one launch that is timed if series is not NULL. */
wh_status whi_bench_ledger_thin(whi_bench_ledger *l, whi_bench_plan *p, double keep, uint64_t seed,
                                uint64_t *freed, whi_bench_series *series);

/* Looks at all entries as whi_bench_verify does; CONTENTS gives those their pattern that
 * have none yet, and checks all. */
wh_status whi_bench_ledger_verify(whi_bench_ledger *l, whi_bench_plan *p, uint32_t what,
                                  wh_bench_counts *counts);

/* --- survey.c: what repeat, latency, access and work share --------------------------------------
 */

/* A part of such a case: a list of sizes, or of upper ends of sizes that are random from `least` on
 * (0: no random ones); and a list of thread counts. Lists end by a 0. */
typedef struct whi_bench_survey {
    const uint64_t *sizes, *threads;
    uint64_t least;
    const char *op; /* of a part that is left out; NULL: any */
    wh_status (*run)(whi_bench_plan *p);
} whi_bench_survey;

/* Calls run for each of them that the heap and the allocator can hold, with a plan for its blocks
 * in a heap of the general size. */
wh_status whi_bench_survey_run(whi_bench *b, const whi_bench_survey *s);

/* malloc_single or malloc_mixed, its floor. */
wh_bench_launcher whi_bench_malloc_of(const whi_bench_plan *p);
wh_bench_launcher whi_bench_malloc_floor_of(const whi_bench_plan *p);

/* A heap without blocks again: frees those of p->call, or resets it where the allocator does not
 * free. */
wh_status whi_bench_renew(whi_bench_plan *p);

/* --- largest.c ------------------------------------------------------------------------- */

/* The largest block that malloc returns in a heap of that many bytes, found with single mallocs at
 * the ledger's tail (room for one entry more), which are freed again; 0: none, or time was over,
 * before `part` (whi_bench_leave_out). It is verified among the ledger's blocks. */
wh_status whi_bench_largest(whi_bench_plan *p, whi_bench_ledger *l, uint64_t bytes,
                            const whi_bench_part *part, uint64_t *largest);

/* --- aged.c: heaps that are worked in round by round ------------------------------------- */

/* log2(hi / lo) as wh_bench_call.octaves has it, and the mean of sizes that are log-uniform. */
uint32_t whi_bench_octaves(uint64_t lo, uint64_t hi);
uint64_t whi_bench_log_mean(uint64_t lo, uint64_t hi);

/* Rounds that each allocate `each` bytes: the user's, or the case's own number. Without
 * WH_CAP_FREE as many of them as the heap holds beside `first` bytes. */
uint32_t whi_bench_rounds(const whi_bench *b, uint32_t own, uint64_t heap_bytes, uint64_t first,
                          uint64_t each);

/* Adds the median of the first and of the last tenth, at most ten, of a series of rounds to the
 * row: us_early, us_late. */
void whi_bench_add_ends(whi_bench_row *row, const whi_bench_series *series);

/* 4 KiB pages that the ledger's blocks touch; seen: what a survey of them found. */
wh_status whi_bench_pages(whi_bench_ledger *l, whi_bench_plan *p, const wh_bench_counts *seen,
                          uint64_t *pages);

/* After all blocks were freed: a heap that says (WH_CAP_STATS) that some are still in use counts
 * as a bad block. */
wh_status whi_bench_expect_empty(whi_bench_plan *p);

/* --- churn.c --------------------------------------------------------------------------- */

typedef struct whi_bench_churn {
    uint64_t heap_bytes;
    uint32_t kernels; /* that run together, each with arrays of its own */
    uint32_t reps;
    whi_bench_blocks blocks; /* n: threads of a kernel */
} whi_bench_churn;

/* Bytes that a thread of the churn kernel holds at most: sizes have that mean. Without free it
 * keeps what about half its steps allocate. */
uint64_t whi_bench_churn_bytes(const whi_bench *b, uint64_t mean);

/* Opens the heap and aims the plan, with arrays for as many such kernels. */
wh_status whi_bench_churn_begin(whi_bench *b, whi_bench_plan *p, const whi_bench_churn *want);

/* The churn kernel, reps times, each time in a reset heap and with the drain of what it leaves;
 * its row. */
wh_status whi_bench_churn_run(whi_bench *b, const whi_bench_churn *want);

/* --- report.c --------------------------------------------------------------------------- */

wh_status whi_bench_emit(whi_bench *b, const whi_bench_row *row, const whi_bench_series *series);
wh_status whi_bench_emit_result(whi_bench *b, const whi_bench_row *row,
                                const whi_bench_result *result);

/* Reports b->turn.left_out, in the table and for the JSON. */
wh_status whi_bench_emit_left_out(whi_bench *b);

/* Gives the current allocator its time for the case once more, since another part of the case
 * begins which a slow one before shall not keep from being measured. What was left out of the one
 * before is reported. */
wh_status whi_bench_new_share(whi_bench *b);

/* Reports that the current case ended with a launch that was refused: b->error. */
wh_status whi_bench_emit_refused(whi_bench *b);

/* Reports that the current case has nothing to measure with the current allocator, and why. */
wh_status whi_bench_emit_skipped(whi_bench *b, const char *why);

/* Shows on a terminal what runs now. */
void whi_bench_progress(whi_bench *b, uint64_t size, uint64_t threads);
void whi_bench_progress_end(whi_bench *b);

/* Writes all rows so far to b->json, in place of what is there; error (may be empty) is recorded
 * with them. Returns 0, or -1 if the file could not be written. */
int whi_bench_write_json(whi_bench *b, const char *error);

/* The header of a run as whi_bench_write_json writes it, to be released by the caller; *failed is
 * set if there was no memory. */
json_t *whi_bench_header(const whi_bench *b, const char *error, int *failed);

/* --- cases.c, and the files of cases/ ------------------------------------------------------ */

/* Runs one case with the current allocator. Nothing to run is no error. */
wh_status whi_bench_case(whi_bench *b, const char *name);
int whi_bench_is_case(const char *name);
/* Whether it has only kernels that --plain has, too. */
int whi_bench_is_plain_case(const char *name);

#define WHI_BENCH_DECLARE(name, function, plain, text) wh_status function(whi_bench *b);
WHI_BENCH_CASE_LIST(WHI_BENCH_DECLARE)
#undef WHI_BENCH_DECLARE

/* graph.c: reads the graph files, or generates a graph if there are none. On failure returns 0
 * and error holds one line. */
int whi_bench_load_graphs(whi_bench *b, char *error, size_t size);
void whi_bench_drop_graphs(whi_bench *b);

/* scenes.c: whether a file is a mesh, by its name. */
int whi_bench_is_mesh(const char *path);
/* Reads the files that are meshes, and lists the scenes. On failure as above. */
int whi_bench_load_scenes(whi_bench *b, char *error, size_t size);
void whi_bench_drop_scenes(whi_bench *b);
/* Makes the mesh of a scene unless it is there. */
wh_status whi_bench_make_scene(whi_bench *b, whi_bench_scene *scene);

/* dgraph.c: the first of --kinds that is no class of graphs, and those that are; NULL: none. */
const char *whi_bench_unknown_kind(const wh_bench_options *o, const char **known);
void whi_bench_drop_sets(whi_bench *b);

#endif
