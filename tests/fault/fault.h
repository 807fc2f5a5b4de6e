/* fault.h: what the files of this program share. */
#ifndef WH_TESTS_FAULT_H
#define WH_TESTS_FAULT_H

#include <stdint.h>

#include "warpheap/heap.h"

/* What a workload found wrong. */
typedef struct findings {
    uint32_t lost; /* items, blocks or messages */
    uint32_t nulls;
    uint32_t overlaps;
    uint32_t inside; /* used by the workload: how many lanes are in it */
} findings;

/* The end of a workload: checks the heap (NULL: there is none), which must be empty, says what is
 * wrong, if anything is, and takes everything down. 0: nothing was wrong. */
int fault_verdict(const char *name, uint64_t seed, wh_status s, wh_device *device, wh_heap *heap,
                  void *memory, findings *found);

/* Workloads of tessera.c: their names, up to a NULL, and one under one seed: 0 if nothing was
 * wrong, -1 if there is none of this name. */
extern const char *const fault_tessera_names[];
int fault_tessera_run(const char *name, uint64_t seed);

#endif
