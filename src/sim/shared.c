/* shared.c: memory that the lanes of a block share: what a launch asks for, and WH_SHARED. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* posix_memalign */
#endif

#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>

#define SHARED_ALIGNMENT 16u
#define SHARED_JUNK 0xa5               /* no zero: that something was never written shows */
#define MOST_STATIC (48u << 10)        /* bytes of a block, as on a GPU; */
#define MOST_STATIC_BESIDE (16u << 10) /* beside dynamic shared memory: cuda.h */

/* A part of a block's memory, of its very size: a sanitizer shall see what runs over it. */
struct whi_shared {
    whi_shared *next;
    const char *key; /* of the WH_SHARED; NULL: dynamic shared memory */
    void *memory;
};

/* What another block did with the same memory before is no race; so ThreadSanitizer gets memory
 * that has no history, and no edge between the two blocks, which could hide a race elsewhere. */
static whi_shared *new_shared(const char *key, size_t bytes) {
    whi_tsan_ignore(true);
    whi_shared *s = malloc(sizeof *s);
    if (s != NULL && posix_memalign(&s->memory, SHARED_ALIGNMENT, bytes) != 0) {
        free(s);
        s = NULL;
    }
    if (s != NULL) {
        s->key = key;
        memset(s->memory, SHARED_JUNK, bytes);
    }
    whi_tsan_ignore(false);
    return s;
}

/* Counts what a WH_SHARED adds. */
static void add_static(whi_engine *e, const whi_lane *l, size_t bytes, const char *site) {
    whi_block *b = l->warp->block;
    const size_t dynamic = b->grid->shared_bytes, all = e->device->base.info.shared_bytes;
    const size_t most = dynamic != 0 ? MOST_STATIC_BESIDE : MOST_STATIC;
    const size_t least = all - dynamic < most ? all - dynamic : most;
    b->static_bytes += (bytes + SHARED_ALIGNMENT - 1) / SHARED_ALIGNMENT * SHARED_ALIGNMENT;
    if (b->static_bytes > least) {
        whi_fail(e, l,
                 "WH_SHARED at %s: %zu bytes of static shared memory in a block; %zu are the most, "
                 "beside %zu of the launch",
                 whi_short_site(site), b->static_bytes, least, dynamic);
    }
}

void *whi_sim_shared(const char *key, size_t bytes, const char *site) {
    const whi_lane *l = whi_current();
    whi_engine *e = l->engine;
    if (e == NULL) {
        return NULL; /* host code */
    }
    whi_block *b = l->warp->block;
    for (const whi_shared *s = b->shared; s != NULL; s = s->next) {
        if (s->key == key) {
            return s->memory;
        }
    }
    if (key != NULL) {
        add_static(e, l, bytes, site);
    }
    whi_shared *s = new_shared(key, key != NULL ? bytes : b->grid->shared_bytes);
    if (s == NULL) {
        whi_fail(e, l, "no memory of the host for shared memory at %s", whi_short_site(site));
    }
    s->next = b->shared;
    b->shared = s;
    return s->memory;
}

void whi_shared_end(whi_block *b) {
    whi_tsan_ignore(true);
    for (whi_shared *s = b->shared, *next; s != NULL; s = next) {
        next = s->next;
        free(s->memory);
        free(s);
    }
    whi_tsan_ignore(false);
    b->shared = NULL;
    b->static_bytes = 0;
}
