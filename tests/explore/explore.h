/* explore.h: what the files of this program share: bodies, small kernels of two to four lanes with
 * a check of what they leave, and the ways to run one over many schedules.
 *
 * To add a body: a kernel that notes in memory.wrong what it finds wrong, and a row of a table. */
#ifndef WH_TESTS_EXPLORE_H
#define WH_TESTS_EXPLORE_H

#ifndef WH_ALLOCATOR
#define WH_ALLOCATOR tessera
#endif

#include <stddef.h>
#include <stdint.h>

#include "explore/history.h"
#include "sim/explore.h"
#include "warpheap/core/bulk_semaphore.h"
#include "warpheap/core/chunk_pool.h"
#include "warpheap/core/ring.h"
#include "warpheap/core/use_word.h"
#include "warpheap/core/veb.h"
#include "warpheap/core/vqueue.h"
#include "warpheap/warpheap.h"

#define MOST_LANES 4u
#define UNIVERSE 256u /* of the tree: two levels */
#define OPS_EACH 12u  /* of a lane in the history */

/* What a body works on: device memory, zeros at first. */
typedef struct memory {
    uint32_t wrong, done;
    uint32_t flags[MOST_LANES];
    uint64_t owner[64]; /* plain memory of who has something */
    uint64_t word, units, fetched;
    uint64_t tree[16];
    wh_ring ring;
    uint32_t entries[64];
    wh_vqueue_words queue;
    wh_chunk_pool_words pool;
    uint64_t links[16], next[16];
    uint32_t finished[16];
    uint32_t pages[64];
    history_op history[MOST_LANES][OPS_EACH];
    uint32_t n_ops[MOST_LANES];
} memory;

typedef struct body_args {
    memory *m;
    wh_heap_ref heap; /* of bodies with a heap */
    uint32_t seed, steps;
} body_args;

typedef wh_status (*launcher)(const wh_launch *launch, const body_args *args);

typedef struct body {
    const char *name;
    launcher kernel;
    uint32_t lanes, steps;
    uint32_t preemptions; /* that the quick test allows */
    uint32_t chunks;      /* of the heap; 0: there is none */
    uint32_t seeded;      /* the kernel reads the seed: lanes differ in what they do by it */
    void (*prepare)(const body_args *a);
    int (*is_wrong)(const body_args *a); /* on the host, after the kernel; NULL: `wrong` says all */
} body;

extern const body core_bodies[], heap_bodies[]; /* each ends with one without a name */

/* --- run.c -------------------------------------------------------------------------------------
 */

/* A device with a body's memory, and heap if it has one, as they are before a launch. */
typedef struct stage {
    const body *b;
    wh_device *device;
    wh_heap *heap;
    body_args args;
    void *heap_memory, *raw;
    uint64_t heap_bytes;
    unsigned char *first_memory, *first_heap; /* copies */
    const whi_steering *steering;             /* of the body's kernel; NULL: the policy */
    char text[700];                           /* what was wrong */
} stage;

wh_status stage_open(stage *s, const body *b, const wh_sim_options *options);
void stage_close(stage *s);
/* Puts everything back as it was after stage_open. */
void stage_reset(stage *s);
/* One launch and the checks after it. 0: nothing is wrong. */
int stage_run(stage *s, uint32_t seed);

typedef struct searched {
    uint64_t schedules;    /* of the last number of preemptions */
    uint64_t until;        /* schedules until something was wrong, over all numbers; 0: nothing */
    uint64_t most_choices; /* in a schedule */
    uint32_t preemptions;
    int complete;
} searched;

/* All schedules of a body with at most so many preemptions, first those with fewer (Musuvathi and
 * Qadeer, PLDI 2007). It stops at the first that is wrong, which goes to `file` unless that is
 * NULL, after `most` schedules, and after so many seconds. */
searched search_all(stage *s, uint32_t seed, uint32_t preemptions, uint64_t most, double seconds,
                    const char *file);

double now(void);

#endif
