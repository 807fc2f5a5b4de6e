/* fault.h: what the files of this program share. */
#ifndef WH_TESTS_FAULT_H
#define WH_TESTS_FAULT_H

#include <stdint.h>

/* What a workload found wrong. */
typedef struct findings {
    uint32_t lost; /* items, blocks or messages */
    uint32_t nulls;
    uint32_t overlaps;
} findings;

/* Workloads of tessera.c: their names, up to a NULL, and one under one seed: 0 if nothing was
 * wrong, -1 if there is none of this name. */
extern const char *const fault_tessera_names[];
int fault_tessera_run(const char *name, uint64_t seed);

#endif
