/* alloc/circular/layout.h: structures of the lists, and how they are laid out. It may change.
 *
 * Terms (the paper's)
 *   chunk     memory from one header to the next; offsets count units of 16 bytes
 *   flag      FREE or USED; here also LIMBO (grace.h)
 *   offset    memOffset: where the next search starts
 * The list's order is the order of addresses. A header lies in the bytes just before a
 * multiple of the unit, so that blocks are aligned to 16 bytes (the published code returns
 * unaligned ones): the block of the chunk at unit u is [base + 16 u, base + 16 next -
 * header). The last header, the sentinel, is USED and leads back to the first. The pool is
 * split beforehand into chunks of C(i) = R / 2^floor(log2 i) (equation 1), R as large as
 * fits; with one offset per SM, into one such heap for each.
 */
#ifndef WH_ALLOC_CIRCULAR_LAYOUT_H
#define WH_ALLOC_CIRCULAR_LAYOUT_H

#include "warpheap/detail/alloc/contract.h"

#include "warpheap/detail/simt/begin.h"

enum { WH_CIRCULAR_FREE = 0, WH_CIRCULAR_USED = 1, WH_CIRCULAR_LIMBO = 2 };

#ifdef WH_HOSTILE
#define WH_CIRCULAR_LEAST 4u /* units of the smallest chunks of the split */
#define WH_CIRCULAR_SLOTS 2u
#else
#define WH_CIRCULAR_LEAST 256u
#define WH_CIRCULAR_SLOTS 32u
#endif

#define WH_CIRCULAR_STRIDE 8u  /* words between counters, so that they do not share a sector */
#define WH_CIRCULAR_FIRST 256u /* bytes before the first block: its header, and alignment */

typedef struct wh_circular_state {
    uint64_t grace;
    uint64_t gather;
    uint64_t gather_empty;
    uint64_t failed;
    uint64_t bad_frees;
    uint64_t unused[3];
    uint32_t active[2 * WH_CIRCULAR_SLOTS * WH_CIRCULAR_STRIDE];
} wh_circular_state;

typedef struct wh_circular_ref {
    unsigned char *base; /* of unit 0 */
    uint64_t *map;
    uint32_t *offsets;
    wh_circular_state *state;
    uint32_t units; /* the sentinel's place */
    uint32_t unit_log2;
    uint32_t n_offsets;
    uint32_t root;   /* units of C(1) */
    uint32_t levels; /* of the heaps that the pool is split into */
} wh_circular_ref;

WH_FN_HOST wh_status wh_circular_plan_(wh_circular_ref *h, wh_plan *plan, unsigned char *memory,
                                       uint64_t bytes, uint32_t n_offsets, uint32_t header_bytes) {
    const uint64_t fixed = WH_CIRCULAR_FIRST + sizeof(wh_circular_state) +
                           (uint64_t)n_offsets * WH_CIRCULAR_STRIDE * 4 + 16;
    uint32_t unit_log2 = 4;
    plan->min_bytes = fixed + ((uint64_t)n_offsets + 4) * 17 + 8;
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    while (bytes >> unit_log2 >= (uint64_t)1 << 30) {
        unit_log2++;
    }
    /* 4 units take a byte of the map, which has bits for the sentinel as well. */
    uint64_t units = (bytes - fixed) * 4 / (((uint64_t)4 << unit_log2) + 1);
    while ((units << unit_log2) + (units / 32 + 1) * 8 + fixed > bytes) {
        units--;
    }
    h->units = (uint32_t)units;
    h->unit_log2 = unit_log2;
    h->n_offsets = n_offsets;
    /* As many levels as leave the smallest chunks LEAST units; each level takes R. */
    const uint64_t each = units / n_offsets;
    uint32_t levels = 1;
    while (levels < 24 && each / ((uint64_t)(levels + 1) << levels) >= WH_CIRCULAR_LEAST) {
        levels++;
    }
    h->levels = levels;
    h->root = (uint32_t)(each / ((uint64_t)levels << (levels - 1)) << (levels - 1));
    plan->metadata_bytes = bytes - (units << unit_log2) + header_bytes;
    plan->init_items = units / 32 + 1;
    if (memory != NULL) {
        h->base = memory + WH_CIRCULAR_FIRST;
        h->state = (wh_circular_state *)(void *)(h->base + (units << unit_log2));
        h->offsets = (uint32_t *)(void *)(h->state + 1);
        h->map = (uint64_t *)(void *)(h->offsets + (uint64_t)n_offsets * WH_CIRCULAR_STRIDE);
    }
    return WH_OK;
}

/* The first chunk of the split that starts at u or behind it. */
WH_FN uint64_t wh_circular_split_(wh_circular_ref h, uint64_t u) {
    const uint64_t heap = (uint64_t)h.root * h.levels;
    wh_assert_internal(u <= h.units + 1);
    const uint64_t number = u / heap, inside = u % heap;
    if (number >= h.n_offsets) { /* what the heaps do not use is one chunk */
        return u == heap * h.n_offsets ? u : h.units;
    }
    const uint64_t size = h.root >> inside / h.root; /* the level that u lies in */
    const uint64_t level = inside / h.root * h.root;
    return number * heap + level + (inside - level + size - 1) / size * size;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_circular_layout_(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_circular_ref, field),
        sizeof(wh_circular_ref),
        WH_F_(base) WH_F_(map) WH_F_(offsets) WH_F_(state) WH_F_(units) WH_F_(unit_log2)
        WH_F_(n_offsets) WH_F_(root) WH_F_(levels)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_circular_state, field),
        sizeof(wh_circular_state),
        WH_F_(grace) WH_F_(gather) WH_F_(gather_empty) WH_F_(failed) WH_F_(bad_frees) WH_F_(active)
#undef WH_F_
        WH_CIRCULAR_LEAST, WH_CIRCULAR_SLOTS, WH_CIRCULAR_STRIDE, WH_CIRCULAR_FIRST,
    };
    return wh_layout_hash("circular", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

#include "warpheap/detail/simt/end.h"

#endif
