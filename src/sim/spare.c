/* spare.c: what a closed device leaves to the next one: warps with their stacks and fibers, and
 * small pieces of device memory. A program that opens a device for each of thousands of runs
 * would otherwise spend as long in the system, which maps and protects memory, as in its kernels.
 *
 * Spare memory is taken by devices of all threads, hence the lock. Fibers stay alive: they rest
 * in lane_main as between two launches of one device. With several workers they would change
 * threads, so such a device neither takes warps from here nor leaves any. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* MAP_ANONYMOUS */
#endif

#include "sim_internal.h"

#include <stdlib.h>
#include <sys/mman.h>

#define MOST_WARPS 64u
#define MOST_REGIONS 32u
#define REGION_BYTES ((size_t)1 << 20) /* address space of one, and what it is aligned to */
#define PAGE_BYTES ((size_t)4096)

static struct {
    pthread_mutex_t mutex;
    whi_warp *warps[MOST_WARPS];
    char *regions[MOST_REGIONS]; /* all of one faults, as if it were not mapped */
    uint32_t n_warps, n_regions;
} spare = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* --- warps ------------------------------------------------------------------------------ */

whi_warp *whi_spare_take_warp(void) {
    (void)pthread_mutex_lock(&spare.mutex);
    whi_warp *w = spare.n_warps > 0 ? spare.warps[--spare.n_warps] : NULL;
    (void)pthread_mutex_unlock(&spare.mutex);
    return w;
}

bool whi_spare_keep_warp(whi_warp *w) {
    (void)pthread_mutex_lock(&spare.mutex);
    const bool kept = spare.n_warps < MOST_WARPS;
    if (kept) {
        spare.warps[spare.n_warps++] = w;
    }
    (void)pthread_mutex_unlock(&spare.mutex);
    return kept;
}

/* --- device memory ------------------------------------------------------------------------ */

bool whi_spare_fits(uint64_t bytes) {
    return bytes <= REGION_BYTES - PAGE_BYTES; /* at least a page that faults follows */
}

static char *map_region(void) {
    char *p =
        mmap(NULL, 2 * REGION_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    const size_t before = (~(uintptr_t)p + 1) % REGION_BYTES;
    if (before > 0) {
        (void)munmap(p, before);
    }
    (void)munmap(p + before + REGION_BYTES, REGION_BYTES - before);
    return p + before;
}

char *whi_spare_take_memory(uint64_t bytes) {
    (void)pthread_mutex_lock(&spare.mutex);
    char *p = spare.n_regions > 0 ? spare.regions[--spare.n_regions] : NULL;
    (void)pthread_mutex_unlock(&spare.mutex);
    p = p != NULL ? p : map_region();
    if (p != NULL && mprotect(p, bytes, PROT_READ | PROT_WRITE) != 0) {
        (void)munmap(p, REGION_BYTES);
        p = NULL;
    }
    return p;
}

void whi_spare_keep_memory(char *p, uint64_t bytes) {
    bool kept = mprotect(p, bytes, PROT_NONE) == 0;
    (void)pthread_mutex_lock(&spare.mutex);
    kept = kept && spare.n_regions < MOST_REGIONS;
    if (kept) {
        spare.regions[spare.n_regions++] = p;
    }
    (void)pthread_mutex_unlock(&spare.mutex);
    if (!kept) {
        (void)munmap(p, REGION_BYTES);
    }
}

/* A program may unload the library. What a sanitizer keeps for a fiber stays. */
static __attribute__((destructor)) void give_all_back(void) {
    while (spare.n_warps > 0) {
        whi_warp *w = spare.warps[--spare.n_warps];
        whi_fiber_unmap_stacks(w->stacks, WH_WARP_SIZE);
        free(w);
    }
    while (spare.n_regions > 0) {
        (void)munmap(spare.regions[--spare.n_regions], REGION_BYTES);
    }
}
