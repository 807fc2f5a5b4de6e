/* stress_kernels.c: targeted source: the stress test's kernels (stress.h). */
#define WH_CHECKED 1 /* checked=1 has checked heaps, on a GPU, too */

#include "stress.h"

#include <string.h>

#include "warpheap/detail/alloc/tables.h"
#include "warpheap/warpheap.h"

typedef struct stress_args {
    wh_heap_ref heap;
    stress_call c;
} stress_args;

WH_FN uint64_t mix(uint64_t x) {
    x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
    x = (x ^ x >> 27) * 0x81dadef4bc2dd44du;
    return x ^ x >> 33;
}

/* --- blocks -------------------------------------------------------------------------- */

WH_FN uint64_t contents_of(const void *p, uint64_t n) {
    return mix((uint64_t)(uintptr_t)p * 31 + n);
}

WH_FN void write_block(void *p, uint64_t n) {
    uint64_t *words = (uint64_t *)p;
    unsigned char *bytes = (unsigned char *)p;
    const uint64_t base = contents_of(p, n);
    words[0] = n;
    for (uint64_t i = 1; i < n / 8; i++) {
        words[i] = base + i;
    }
    for (uint64_t i = n & ~(uint64_t)7; i < n; i++) {
        bytes[i] = (unsigned char)(base + i);
    }
}

/* The size of a block that nobody has written to; 0 for any other. */
WH_FN uint64_t verify_block(const stress_args *a, const void *p) {
    const uint64_t *words = (const uint64_t *)p;
    const unsigned char *bytes = (const unsigned char *)p;
    const uint64_t n = words[0];
    if (n < STRESS_LEAST || n > a->c.max_size) {
        return 0;
    }
    const uint64_t base = contents_of(p, n);
    int good = 1;
    for (uint64_t i = 1; i < n / 8; i++) {
        good &= words[i] == base + i;
    }
    for (uint64_t i = n & ~(uint64_t)7; i < n; i++) {
        good &= bytes[i] == (unsigned char)(base + i);
    }
    return good ? n : 0;
}

WH_FN void note_bad(const stress_args *a) {
    wh_add_u64_relaxed(&a->c.result->bad, 1);
}

WH_FN void check_new(const stress_args *a, const void *p, uint64_t n, uint64_t align) {
    wh_add_u64_relaxed(&a->c.result->served, 1);
    if ((uint64_t)(uintptr_t)p % align != 0 ||
        ((a->c.caps & WH_CAP_USABLE_SIZE) != 0 && wh_usable_size(a->heap, p) < n) ||
        ((a->c.caps & WH_CAP_OWNS) != 0 && !wh_owns(a->heap, p))) {
        note_bad(a);
    }
}

/* --- the storm ------------------------------------------------------------------------ */

/* What comes out of a mailbox slot belongs to the caller; contents are ordered by the
 * exchange. */
WH_FN void take_and_free(const stress_args *a, uint64_t letter) {
    void *p = (void *)(uintptr_t)letter;
    if (p != NULL && verify_block(a, p) == 0) {
        note_bad(a);
    }
    wh_free(a->heap, p);
}

WH_FN uint64_t pick_size(const stress_args *a, uint64_t r) {
    uint64_t range = STRESS_LEAST;
    for (uint64_t k = r % 64; k > 0 && range < a->c.max_size; k--) { /* any magnitude */
        range *= 2;
    }
    range = range > a->c.max_size || r % 64 == 63 ? a->c.max_size : range;
    return STRESS_LEAST + (r >> 8) % (range - STRESS_LEAST + 1);
}

/* A new block in one of the ways there are; together: all lanes of the warp are here. */
WH_FN void *get_block(const stress_args *a, uint64_t r, uint64_t n, int together) {
    const uint32_t how = a->c.plain || together ? 0 : (uint32_t)(r >> 40) % 8;
    void *p = NULL;
    uint64_t align = 16;
    if (how == 1) {
        p = wh_calloc(a->heap, 1, n);
        for (uint64_t i = 0; p != NULL && i < n; i++) {
            if (((const unsigned char *)p)[i] != 0) {
                note_bad(a);
                break;
            }
        }
    } else if (how == 2 && (a->c.caps & WH_CAP_ALIGNED) != 0) {
        align = (uint64_t)1 << (4 + (r >> 44) % 7);
        p = wh_aligned_alloc(a->heap, align, n);
    } else if (together) {
        p = wh_malloc_lanes(a->heap, ~0u, n);
    } else {
        p = wh_malloc(a->heap, n);
    }
    if (p != NULL) {
        check_new(a, p, n, align);
    } else {
        wh_add_u64_relaxed(&a->c.result->nulls, 1);
    }
    return p;
}

/* Gives a block another size; its contents must follow. */
WH_FN void *change_block(const stress_args *a, void *p, uint64_t n) {
    const uint64_t had = verify_block(a, p);
    if (had == 0) {
        note_bad(a);
        return p;
    }
    const uint64_t base = contents_of(p, had);
    uint64_t *q = (uint64_t *)wh_realloc(a->heap, p, n);
    if (q == NULL) {
        wh_add_u64_relaxed(&a->c.result->nulls, 1);
        return p;
    }
    check_new(a, q, n, 16);
    const uint64_t kept = had < n ? had : n;
    int good = q[0] == had;
    for (uint64_t i = 1; i < kept / 8; i++) {
        good &= q[i] == base + i;
    }
    if (!good) {
        note_bad(a);
    }
    write_block(q, n);
    return q;
}

/* One block for all lanes that are here together; the leader posts it. */
WH_FN void *get_shared_block(const stress_args *a, uint64_t r) {
    const wh_mask mask = wh_activemask();
    const uint32_t leader = wh_mask_leader(mask);
    const uint64_t n = pick_size(a, wh_shfl_u64(mask, r, leader));
    void *p = wh_malloc_warp(a->heap, mask, n);
    if (wh_lane_id() != leader) {
        return NULL;
    }
    if (p != NULL) {
        check_new(a, p, n, 16);
        write_block(p, n);
    } else {
        wh_add_u64_relaxed(&a->c.result->nulls, 1);
    }
    return p;
}

WH_KERNEL(storm, stress_args, a) {
    uint64_t random = mix(a.c.seed + wh_thread_id() * 0x9e3779b97f4a7c15u);
    for (uint32_t step = 0; step < a.c.steps; step++) {
        random = mix(random + 0x9e3779b97f4a7c15u);
        const uint64_t r = random;
        uint64_t *slot = &a.c.mailbox[(r >> 20) % a.c.slots];
        const uint32_t what = (uint32_t)r % 8;
        /* Whole warps, which seldom meet by chance on the simulated device. That they meet also
         * shows that no lane has been left behind in an earlier call. */
        const int together = step % 4 == 3 && wh_block_threads() % WH_WARP_SIZE == 0;
        if (together) { /* converged, which malloc_lanes takes for granted */
            wh_syncwarp(~0u);
        }
        void *p = NULL;
        if (what < 4 || together) {
            const uint64_t n = pick_size(&a, r >> 3);
            p = get_block(&a, r, n, together);
            if (p != NULL) {
                write_block(p, n);
            }
        } else if (what == 4 && !a.c.plain) {
            p = get_shared_block(&a, r >> 3);
        } else if (what == 5 && !a.c.plain && (a.c.caps & WH_CAP_USABLE_SIZE) != 0) {
            p = (void *)(uintptr_t)wh_exchange_u64_acq_rel(slot, 0);
            p = p != NULL ? change_block(&a, p, pick_size(&a, r >> 3)) : NULL;
        }
        take_and_free(&a, wh_exchange_u64_acq_rel(slot, (uint64_t)(uintptr_t)p));
    }
}

WH_KERNEL(drain, stress_args, a) {
    for (uint64_t i = wh_thread_id(); i < a.c.slots; i += wh_grid_threads()) {
        take_and_free(&a, wh_exchange_u64_acq_rel(&a.c.mailbox[i], 0));
    }
}

/* One lane alone would write a large block for seconds: it writes some words of it. */
WH_KERNEL(whole, stress_args, a) {
    const uint64_t n = a.c.max_size, step = n / 64 / 8 + 1;
    uint64_t *p = (uint64_t *)get_block(&a, 0, n, 0);
    if (p == NULL) {
        return;
    }
    for (uint64_t i = 0; i < n / 8; i += step) {
        p[i] = i;
    }
    p[n / 8 - 1] = n;
    uint32_t bad = p[n / 8 - 1] != n;
    for (uint64_t i = 0; i < n / 8 - 1; i += step) {
        bad += p[i] != i;
    }
    if (bad != 0) {
        note_bad(&a);
    }
    wh_free(a.heap, p);
}

/* --- the table -------------------------------------------------------------------------- */

#define LAUNCHER(kernel)                                                         \
    static wh_status launch_##kernel(const wh_launch *l, const stress_call *c) { \
        stress_args a;                                                           \
        memcpy(&a.heap, &c->heap, sizeof a.heap);                                \
        a.c = *c;                                                                \
        return kernel(l, &a);                                                    \
    }
LAUNCHER(storm)
LAUNCHER(drain)
LAUNCHER(whole)

static wh_status bind(const wh_heap *heap, stress_handle *handle) {
    wh_heap_ref h;
    const wh_status s = wh_heap_handle(heap, &h);
    if (s == WH_OK) {
        memcpy(handle, &h, sizeof h);
    }
    return s;
}

WH_TABLE(stress_kernels) = {bind, launch_storm, launch_drain, launch_whole};
