/* stress.h: what the stress test's kernels offer to its host program: one table of
 * launchers per (allocator, target), filled in by stress_kernels.c.
 *
 * Lanes allocate blocks of random sizes and post them in a shared mailbox; whoever finds
 * a block there verifies and frees it. A block says what it holds: its first word is its
 * size, the rest follows from size and address, so no other record can go wrong. */
#ifndef WH_STRESS_H
#define WH_STRESS_H

#include "warpheap/heap.h"

typedef struct stress_handle {
    uint64_t words[32];
} stress_handle;

/* Device memory; kernels add to it with atomics. */
typedef struct stress_result {
    uint64_t bad; /* blocks whose contents changed, misaligned or too small blocks */
    uint64_t nulls;
    uint64_t served;
} stress_result;

typedef struct stress_call {
    stress_handle heap;
    uint32_t caps;
    uint32_t steps; /* per lane */
    uint64_t seed;
    uint64_t max_size; /* at least STRESS_LEAST */
    uint32_t plain;    /* malloc and free alone, so that a lane holds one block more than
                          the mailbox; otherwise the other calls, too */
    uint32_t slots;
    uint64_t *mailbox; /* addresses of blocks, 0: empty */
    stress_result *result;
} stress_call;

#define STRESS_LEAST 8u /* smallest size: a block holds its size */

typedef wh_status (*stress_launcher)(const wh_launch *launch, const stress_call *call);

typedef struct stress_kernels {
    wh_status (*bind)(const wh_heap *heap, stress_handle *handle);
    stress_launcher storm;
    stress_launcher drain; /* empties the mailbox */
    stress_launcher whole; /* one thread: takes and frees one block of max_size */
} stress_kernels;

/* The table of an allocator on a target; NULL: it does not run there. */
const stress_kernels *stress_kernels_find(const char *allocator, wh_target target);

#endif
