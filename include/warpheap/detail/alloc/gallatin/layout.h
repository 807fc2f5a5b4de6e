/* alloc/gallatin/layout.h: structures of the Gallatin heap and the arithmetic between
 * sizes, classes, segments, blocks and addresses. Nothing here touches shared state.
 *
 *   memory: [pad] segment 0 | segment 1 | ... | header | buffers | segment records |
 *           trees | block words | ring entries
 *
 * Segments start at a multiple of min(segment, 1 MiB). A block id counts units of
 * block 0, the smallest block size, over the whole heap; a block of class t takes 2^t
 * such units (at most a segment) and is named by its first.
 * It may change.
 *
 * Fields and who writes them (all device scope)
 *   buffer    64 bits {block id, count}. malloc: fetch_add of count, acquire: block and
 *             slice numbers come back together, so there is no stale block pointer.
 *             The group whose add passes the last slice, or that turns a VACANT buffer
 *             BUSY by cas, replaces it: store release. reclaim: cas to VACANT.
 *   block     32 bits {WHOLE, IDLE, freed}. free: fetch_add of freed, release. Set to 0
 *             (or WHOLE) by the lane that took the block from the queue, to IDLE by
 *             the one that returns it.
 *   control   64 bits {tree id or FREE or LARGE, available blocks}. take: fetch_sub;
 *             give back: fetch_add; free segment: cas; format: fetch_add. A change of
 *             the tree id is additive or a cas on exact counts, so that a late take
 *             and its undo never disturb it.
 *   run       segments of a LARGE allocation, at its first segment; free takes it by
 *             exchange
 *   block trees, segment tree (core/veb.h): hints that lead to control words, except
 *             that a bit of the segment tree is also the ownership of a free segment
 *   activity  64 bits {completed, pending}: brackets whatever makes memory available
 *             or hides it for a moment
 *   verdict   per class, the activity at which a full search found nothing, but for idle
 *             blocks in the buffers of other classes
 *
 * Invariants
 *   I2  a block is in its segment's queue (IDLE), in a buffer, exhausted, or WHOLE;
 *       available = number of IDLE blocks, when quiet
 *   I3  a segment keeps its tree id while any of its blocks is out: it is freed by a
 *       cas that expects every block to be available. So free may trust the tree id
 *       of a live pointer: the field `tree` repeats it for a plain load, which the L1
 *       serves. It is written by the lane that formats the segment (or makes it LARGE)
 *       before P2, P3 or the caller's own hand-over publish it; ThreadSanitizer checks
 *       that no load races with it. In a free segment it is out of date.
 *   I5  FREE <=> bit in the segment tree, when quiet
 */
#ifndef WH_ALLOC_GALLATIN_LAYOUT_H
#define WH_ALLOC_GALLATIN_LAYOUT_H

#include "warpheap/detail/alloc/contract.h"
#include "warpheap/detail/alloc/gallatin/options.h"
#include "warpheap/core/ring.h"
#include "warpheap/core/size_class.h"
#include "warpheap/core/veb.h"

#include "warpheap/detail/simt/begin.h"

#define wh_gallatin_NAME "gallatin"
#define wh_gallatin_left WH_NO_LEFT
#define wh_gallatin_MAX_ALIGN (1u << 20)
#define wh_gallatin_BLOCKS 1
#define wh_gallatin_EACH 0

/* Defaults; options.h overrides them per heap. The hostile build makes everything as
 * small as possible so that every boundary is met often. */
#ifdef WH_HOSTILE
#define WH_GALLATIN_DEFAULT_SEGMENT ((uint64_t)1 << 10)
#define WH_GALLATIN_DEFAULT_SLICES 4u
#else
#define WH_GALLATIN_DEFAULT_SEGMENT ((uint64_t)16 << 20) /* section 4.1 */
#define WH_GALLATIN_DEFAULT_SLICES 4096u                 /* section 4.3 */
#endif
#define WH_GALLATIN_MIN_SEGMENTS 32u /* a smaller heap gets smaller segments */

#define WH_GALLATIN_MAX_TREES 24u
#define WH_GALLATIN_FREE 0x100u     /* control word's tree id: segment in the segment tree */
#define WH_GALLATIN_LARGE 0x101u    /* ... part of a LARGE allocation */
#define WH_GALLATIN_NO_CLASS 0x102u /* no control word has this one */

/* Control word: tree id << 32 | available + 2^31. The bias keeps takes that go below
 * zero for a moment from borrowing from the tree id. */
#define WH_GALLATIN_CONTROL(t) ((uint64_t)(t) << 32 | (uint64_t)1 << 31)

/* Block word. */
#define WH_GALLATIN_WHOLE (1u << 31) /* handed out as a whole */
#define WH_GALLATIN_IDLE (1u << 30)  /* in its segment's queue, or not formatted */
#define WH_GALLATIN_FREED ((1u << 24) - 1)

/* Buffer word: block id << 32 | slices handed out. Counts past the block's slices
 * mean: up to VACANT exhausted, its replacer is under way; from VACANT nobody's, a
 * request may make it BUSY; from BUSY a replacer is under way. In vain adds move the
 * count up by at most the number of lanes in flight before it is set again. */
#define WH_GALLATIN_COUNT_VACANT 0x80000000u
#define WH_GALLATIN_COUNT_BUSY 0xc0000000u
#define WH_GALLATIN_COUNT_TIDY (1u << 24) /* vain adds after which a VACANT word is reset */
#define WH_GALLATIN_VACANT ((uint64_t)UINT32_MAX << 32 | WH_GALLATIN_COUNT_VACANT)
#define WH_GALLATIN_BUSY ((uint64_t)UINT32_MAX << 32 | WH_GALLATIN_COUNT_BUSY)
#define WH_GALLATIN_BUFFER_WORDS 8u /* a buffer has 64 bytes to itself */

/* Activity word: completed changes << 20 | pending changes. */
#define WH_GALLATIN_COMPLETED ((uint64_t)1 << 20)
#define WH_GALLATIN_PENDING (WH_GALLATIN_COMPLETED - 1)

/* What every function here needs to know of a heap, in four registers: the slow paths
 * take it by value (a pointer would be read again after every acquire, from L2). */
typedef struct wh_gallatin_core {
    unsigned char *base;               /* segment 0 */
    struct wh_gallatin_header *header; /* and all other metadata behind it */
    uint64_t shape;                    /* packed, see WH_GALLATIN_SHAPE */
    uint32_t n_segments;
    uint32_t n_buffers; /* of class 0 */
} wh_gallatin_core;

/* The handle: the core, and ready for use what the fast paths would otherwise have to
 * compute: as kernel arguments these are operands that cost no instruction. */
typedef struct wh_gallatin_ref {
    wh_gallatin_core core;
    struct wh_gallatin_segment *segments;
    uint64_t *buffers;
    uint32_t *blocks;
    uint64_t data_bytes;
    uint32_t max_slice;
    uint32_t min_slice_log2;
    uint32_t block0_log2;
    uint32_t units_log2;
    uint32_t slices_log2;
    uint32_t fit_log2; /* smallest slices in a segment */
    uint32_t few;
    uint32_t n_trees;
} wh_gallatin_ref;

typedef struct wh_gallatin_segment {
    uint32_t tree; /* class or LARGE: plain, see I3 */
    uint32_t run;
    uint64_t control;
    wh_ring ring;
    uint32_t unused[6];
} wh_gallatin_segment;

typedef struct wh_gallatin_header {
    uint64_t activity;
    uint64_t failed;
    uint64_t bad_frees;
    uint64_t verdict[2 * WH_GALLATIN_MAX_TREES + 2];
    uint32_t formatting[WH_GALLATIN_MAX_TREES];
    uint32_t unused[14];
} wh_gallatin_header;

WH_STATIC_ASSERT(sizeof(wh_gallatin_segment) == 64, "two sectors a segment");
WH_STATIC_ASSERT(sizeof(wh_gallatin_header) % 64 == 0, "buffers start at a cache line");

/* --- the shape word ------------------------------------------------------------------ */

/* Fields of core.shape: X(name, shift, bits) */
#define WH_GALLATIN_SHAPE(X)                                                 \
    X(segment_log2, 0, 6)   /* bytes of a segment */                         \
    X(min_slice_log2, 6, 6) /* bytes of the smallest slice */                \
    X(max_slice_log2, 12, 6)                                                 \
    X(slices_log2, 18, 6) /* slices_per_block */                             \
    X(n_trees, 24, 6)     /* classes */                                      \
    X(few, 30, 4)         /* buffers of a large class: "never under four" */ \
    X(tree_words, 34, 30) /* 64-bit words of one tree */

#define WH_GALLATIN_FIELD_(name, shift, bits)                                         \
    WH_HD uint32_t wh_gallatin_##name##_(wh_gallatin_core g) {                        \
        return (uint32_t)(g.shape >> shift) & (uint32_t)(((uint64_t)1 << bits) - 1);  \
    }                                                                                 \
    WH_FN_HOST void wh_gallatin_set_##name##_(wh_gallatin_core *g, uint64_t v) {      \
        g->shape = (g->shape & ~((((uint64_t)1 << bits) - 1) << shift)) | v << shift; \
    }
WH_GALLATIN_SHAPE(WH_GALLATIN_FIELD_)
#undef WH_GALLATIN_FIELD_

/* log2 of the bytes of the smallest block, and of how many of these a segment has. */
WH_HD uint32_t wh_gallatin_block0_log2_(wh_gallatin_core g) {
    return wh_gallatin_min_slice_log2_(g) + wh_gallatin_slices_log2_(g);
}
WH_HD uint32_t wh_gallatin_units_log2_(wh_gallatin_core g) {
    return wh_gallatin_segment_log2_(g) - wh_gallatin_block0_log2_(g);
}

/* --- sizes -------------------------------------------------------------------------- */

/* log2 of the bytes of a slice and of a block of class t. */
WH_HD uint32_t wh_gallatin_slice_log2_(wh_gallatin_core g, uint32_t t) {
    wh_assert_internal(t < wh_gallatin_n_trees_(g));
    return wh_gallatin_min_slice_log2_(g) + t;
}
WH_HD uint32_t wh_gallatin_block_log2_(wh_gallatin_core g, uint32_t t) {
    const uint32_t e = wh_gallatin_block0_log2_(g) + t;
    return e < wh_gallatin_segment_log2_(g) ? e : wh_gallatin_segment_log2_(g);
}

/* Slices in a block of class t. */
WH_HD uint32_t wh_gallatin_slices_(wh_gallatin_core g, uint32_t t) {
    wh_assert_internal(t < wh_gallatin_n_trees_(g));
    const uint32_t fit = wh_gallatin_segment_log2_(g) - wh_gallatin_slice_log2_(g, t);
    return 1u << (wh_gallatin_slices_log2_(g) < fit ? wh_gallatin_slices_log2_(g) : fit);
}

/* Blocks of class t in a segment. */
WH_HD uint32_t wh_gallatin_blocks_(wh_gallatin_core g, uint32_t t) {
    wh_assert_internal(t < wh_gallatin_n_trees_(g));
    return 1u << (wh_gallatin_segment_log2_(g) - wh_gallatin_block_log2_(g, t));
}

/* Class whose whole blocks serve n bytes (past the largest slice); FREE, which is no
 * class, if only a segment or more does. */
WH_HD uint32_t wh_gallatin_block_class_(wh_gallatin_core g, uint64_t n) {
    const uint32_t t = wh_pow2_class(n, wh_gallatin_block0_log2_(g));
    return wh_gallatin_block0_log2_(g) + t < wh_gallatin_segment_log2_(g) ? t : WH_GALLATIN_FREE;
}

WH_HD uint32_t wh_gallatin_tree_(uint64_t control) {
    return (uint32_t)(control >> 32);
}

WH_HD int32_t wh_gallatin_available_(uint64_t control) {
    return (int32_t)((uint32_t)control ^ 0x80000000u);
}

/* Block id that holds an offset into a segment of class t. */
WH_HD uint32_t wh_gallatin_block_of_(wh_gallatin_core g, uint32_t t, uint64_t offset) {
    const uint32_t e = wh_gallatin_block_log2_(g, t);
    return (uint32_t)(offset >> e << (e - wh_gallatin_block0_log2_(g)));
}

/* Block id of block b of a segment of class t. */
WH_HD uint32_t wh_gallatin_block_id_(wh_gallatin_core g, uint32_t t, uint64_t seg, uint32_t b) {
    wh_assert_internal(seg < g.n_segments && b < wh_gallatin_blocks_(g, t));
    return (uint32_t)(seg << wh_gallatin_units_log2_(g)) +
           (b << (wh_gallatin_block_log2_(g, t) - wh_gallatin_block0_log2_(g)));
}

WH_HD unsigned char *wh_gallatin_slice_(wh_gallatin_core g, uint32_t t, uint32_t id,
                                        uint32_t index) {
    return g.base + ((uint64_t)id << wh_gallatin_block0_log2_(g)) +
           ((uint64_t)index << wh_gallatin_slice_log2_(g, t));
}

/* --- where things are: header | buffers | segments | trees | blocks | entries ---------- */

WH_HD uint64_t *wh_gallatin_buffer_at_(wh_gallatin_core g, uint32_t t, uint32_t i) {
    return (uint64_t *)(void *)(g.header + 1) +
           (uint64_t)(t * g.n_buffers + i) * WH_GALLATIN_BUFFER_WORDS;
}

WH_HD wh_gallatin_segment *wh_gallatin_segment_at_(wh_gallatin_core g, uint64_t seg) {
    wh_assert_internal(seg <= g.n_segments);
    return (wh_gallatin_segment *)(void *)wh_gallatin_buffer_at_(g, wh_gallatin_n_trees_(g), 0) +
           seg;
}

/* Tree 0 is the segment tree, tree t + 1 the block tree of class t. */
WH_HD wh_veb wh_gallatin_any_tree_(wh_gallatin_core g, uint32_t i) {
    uint64_t *trees = (uint64_t *)(void *)wh_gallatin_segment_at_(g, g.n_segments);
    return wh_veb_make(trees + (uint64_t)i * wh_gallatin_tree_words_(g), g.n_segments);
}
WH_HD wh_veb wh_gallatin_segment_tree_(wh_gallatin_core g) {
    return wh_gallatin_any_tree_(g, 0);
}
WH_HD wh_veb wh_gallatin_block_tree_(wh_gallatin_core g, uint32_t t) {
    wh_assert_internal(t < wh_gallatin_n_trees_(g));
    return wh_gallatin_any_tree_(g, t + 1);
}

/* Where in its segment the word of a unit lies: neighbours in different sectors, for
 * they are freed into at the same time (an odd factor permutes the units). in_segment:
 * units of a segment - 1. */
WH_HD uint32_t wh_gallatin_spread_(uint32_t id, uint32_t in_segment) {
    return (id * 37) & in_segment;
}

WH_HD uint32_t *wh_gallatin_block_words_(wh_gallatin_core g) {
    return (uint32_t *)(void *)wh_gallatin_any_tree_(g, wh_gallatin_n_trees_(g) + 1).words;
}
WH_HD uint32_t *wh_gallatin_block_word_(wh_gallatin_core g, uint32_t id) {
    wh_assert_internal(id >> wh_gallatin_units_log2_(g) < g.n_segments);
    const uint32_t in_segment = (1u << wh_gallatin_units_log2_(g)) - 1;
    return wh_gallatin_block_words_(g) + ((id & ~in_segment) | wh_gallatin_spread_(id, in_segment));
}

/* Ring entries of a segment, one per unit. */
WH_HD uint32_t *wh_gallatin_entries_(wh_gallatin_core g, uint64_t seg) {
    wh_assert_internal(seg <= g.n_segments);
    return wh_gallatin_block_words_(g) + ((g.n_segments + seg) << wh_gallatin_units_log2_(g));
}

/* Buffers of class t: half as many as of the class below, but not under `few`. */
WH_HD uint32_t wh_gallatin_n_buffers_(wh_gallatin_core g, uint32_t t) {
    const uint32_t few = wh_gallatin_few_(g);
    return g.n_buffers >> t >= few ? ((g.n_buffers - 1) >> t) + 1 : few;
}

/* Index of the buffer of class t for the calling lane's SM. */
WH_FN uint32_t wh_gallatin_buffer_index_(uint32_t n_buffers, uint32_t few, uint32_t t) {
    const uint32_t sm = wh_sm_id();
    return n_buffers >> t >= few && sm < n_buffers ? sm >> t : sm & (few - 1);
}

/* --- plan and init ---------------------------------------------------------------------- */

WH_FN_HOST uint64_t wh_gallatin_metadata_(wh_gallatin_core g) {
    g.header = (wh_gallatin_header *)(uintptr_t)4096; /* any address: only distances count */
    const unsigned char *end = (const unsigned char *)wh_gallatin_entries_(g, g.n_segments);
    return (uint64_t)(end - (const unsigned char *)g.header);
}

/* Shape of a heap of `bytes` bytes before the number of segments is known. BAD_ARGUMENT
 * for options that are no power of two or out of range. */
WH_FN_HOST wh_status wh_gallatin_shape_(wh_gallatin_core *g, uint64_t bytes,
                                        const wh_gallatin_options *options) {
    const uint64_t min_slice = options->min_slice_bytes != 0 ? options->min_slice_bytes : 16;
    uint64_t segment = options->segment_bytes;
    if (min_slice > (uint64_t)1 << 36 || options->slices_per_block > 1u << 20) {
        return WH_BAD_ARGUMENT; /* the products below are exact */
    }
    if (segment == 0) {
        segment = WH_GALLATIN_DEFAULT_SEGMENT;
        const uint64_t block =
            options->slices_per_block * min_slice; /* the smallest; 0: not given */
        while (segment > 8192 && (segment * WH_GALLATIN_MIN_SEGMENTS > bytes ||
                                  (block != 0 && segment >> 16 > block))) {
            segment /= 2;
        }
    }
    if (!wh_is_pow2(min_slice) || min_slice < 16 || !wh_is_pow2(segment) ||
        segment < 4 * min_slice || segment > (uint64_t)1 << 36) {
        return WH_BAD_ARGUMENT;
    }
    uint64_t slices = options->slices_per_block;
    if (slices == 0) { /* leave at least 64 of the smallest blocks in a segment */
        slices = WH_GALLATIN_DEFAULT_SLICES;
        while (slices > 4 && slices * min_slice * 64 > segment) {
            slices /= 2;
        }
    }
    if (!wh_is_pow2(slices) || slices < 2 || slices > 1u << 20 || slices * min_slice > segment ||
        segment / (slices * min_slice) > 1u << 16) {
        return WH_BAD_ARGUMENT;
    }
    /* By default slices go up to half the smallest block, so that whole blocks follow
     * without a gap. */
    const uint64_t max_slice =
        options->max_slice_bytes != 0 ? options->max_slice_bytes : slices * min_slice / 2;
    if (!wh_is_pow2(max_slice) || max_slice < min_slice || max_slice > segment / 2 ||
        max_slice > (uint64_t)1 << 31) {
        return WH_BAD_ARGUMENT;
    }
    const uint64_t slice_trees = wh_log2_floor(max_slice) - wh_log2_floor(min_slice) + 1;
    const uint64_t block_trees = wh_log2_floor(segment / (slices * min_slice));
    g->shape = 0;
    wh_gallatin_set_segment_log2_(g, wh_log2_floor(segment));
    wh_gallatin_set_min_slice_log2_(g, wh_log2_floor(min_slice));
    wh_gallatin_set_max_slice_log2_(g, wh_log2_floor(max_slice));
    wh_gallatin_set_slices_log2_(g, wh_log2_floor(slices));
    wh_gallatin_set_n_trees_(g, slice_trees > block_trees ? slice_trees : block_trees);
    return wh_gallatin_n_trees_(*g) <= WH_GALLATIN_MAX_TREES ? WH_OK : WH_BAD_ARGUMENT;
}

/* What depends on the number of segments. Buffers: one per SM, fewer where they would
 * tie up more than a sixteenth of a small heap. */
WH_FN_HOST void wh_gallatin_set_segments_(wh_gallatin_core *g, uint64_t n_segments,
                                          const wh_gallatin_options *options, uint32_t n_sms) {
    const uint64_t units = n_segments << wh_gallatin_units_log2_(*g);
    const uint64_t own = n_sms != 0 ? n_sms : 1;
    const uint64_t wish = options->block_buffers != 0 ? options->block_buffers : own;
    const uint64_t most = units / 16 > 0 ? units / 16 : 1;
    uint32_t few = n_segments >= 16 ? 2 : 1;
    few = n_segments >= 32 ? 4 : few;
    g->n_segments = (uint32_t)n_segments;
    g->n_buffers = (uint32_t)(wish < most ? wish : most);
    while (few > g->n_buffers) {
        few /= 2;
    }
    wh_gallatin_set_few_(g, few);
    wh_gallatin_set_tree_words_(g, wh_veb_words(n_segments));
}

WH_FN_HOST wh_status wh_gallatin_plan(wh_gallatin_ref *h, wh_plan *plan, unsigned char *memory,
                                      uint64_t bytes, const void *options, uint32_t n_sms) {
    const wh_gallatin_options *o = (const wh_gallatin_options *)options;
    wh_gallatin_core *g = &h->core;
    const wh_status shape = wh_gallatin_shape_(g, bytes, o);
    if (shape != WH_OK) {
        return shape;
    }
    const uint32_t segment_log2 = wh_gallatin_segment_log2_(*g);
    const uint64_t segment = (uint64_t)1 << segment_log2;
    const uint64_t align = segment < wh_gallatin_MAX_ALIGN ? segment : wh_gallatin_MAX_ALIGN;
    const uint64_t address = (uint64_t)(uintptr_t)memory;
    /* Without memory, expect the worst alignment. */
    const uint64_t pad = memory != NULL ? wh_round_up(address, align) - address : align;
    g->base = NULL;
    g->header = NULL;
    wh_gallatin_set_segments_(g, 1, o, n_sms);
    plan->min_bytes = align + segment + wh_gallatin_metadata_(*g);
    const uint64_t room = bytes > pad ? bytes - pad : 0;
    const uint64_t most = (uint64_t)UINT32_MAX >> wh_gallatin_units_log2_(*g);
    uint64_t n = room >> segment_log2 < most ? room >> segment_log2 : most;
    for (;; n--) { /* the most segments whose metadata still fits */
        if (n == 0) {
            return WH_HEAP_TOO_SMALL;
        }
        wh_gallatin_set_segments_(g, n, o, n_sms);
        if ((n << segment_log2) + wh_gallatin_metadata_(*g) <= room) {
            break;
        }
    }
    plan->metadata_bytes = bytes - (n << segment_log2);
    plan->init_items = n << wh_gallatin_units_log2_(*g);
    if (memory != NULL) {
        g->base = memory + pad;
        g->header = (wh_gallatin_header *)(void *)(g->base + (n << segment_log2));
        h->segments = wh_gallatin_segment_at_(*g, 0);
        h->buffers = wh_gallatin_buffer_at_(*g, 0, 0);
        h->blocks = wh_gallatin_block_words_(*g);
        h->data_bytes = n << segment_log2;
        h->max_slice = 1u << wh_gallatin_max_slice_log2_(*g);
        h->min_slice_log2 = wh_gallatin_min_slice_log2_(*g);
        h->block0_log2 = wh_gallatin_block0_log2_(*g);
        h->units_log2 = wh_gallatin_units_log2_(*g);
        h->slices_log2 = wh_gallatin_slices_log2_(*g);
        h->fit_log2 = segment_log2 - h->min_slice_log2;
        h->few = wh_gallatin_few_(*g);
        h->n_trees = wh_gallatin_n_trees_(*g);
    }
    return WH_OK;
}

/* Thread i of n: every segment in the segment tree, every buffer VACANT. */
WH_FN void wh_gallatin_init(wh_gallatin_ref h, uint64_t i, uint64_t n) {
    const wh_gallatin_core g = h.core;
    if (i == 0) {
        g.header->activity = 0;
        g.header->failed = 0;
        g.header->bad_frees = 0;
    }
    for (uint64_t k = i; k < 2 * WH_GALLATIN_MAX_TREES + 2; k += n) {
        g.header->verdict[k] = WH_UNKNOWN;
    }
    for (uint64_t k = i; k < WH_GALLATIN_MAX_TREES; k += n) {
        g.header->formatting[k] = 0;
    }
    for (uint64_t k = i; k < g.n_segments; k += n) {
        wh_gallatin_segment *s = wh_gallatin_segment_at_(g, k);
        s->tree = WH_GALLATIN_FREE;
        s->control = WH_GALLATIN_CONTROL(WH_GALLATIN_FREE);
        s->ring.head = 0;
        s->ring.tail = 0;
        s->ring.virgin = 0;
        s->run = 0;
    }
    uint64_t *trees = wh_gallatin_segment_tree_(g).words;
    const uint64_t tree_words = wh_gallatin_tree_words_(g);
    for (uint64_t k = i; k < (wh_gallatin_n_trees_(g) + 1) * tree_words; k += n) {
        trees[k] = wh_veb_initial_word(g.n_segments, k % tree_words, k < tree_words);
    }
    const uint64_t buffers = (uint64_t)wh_gallatin_n_trees_(g) * g.n_buffers;
    for (uint64_t k = i; k < buffers; k += n) {
        *wh_gallatin_buffer_at_(g, 0, (uint32_t)k) = WH_GALLATIN_VACANT;
    }
    const uint64_t units = (uint64_t)g.n_segments << wh_gallatin_units_log2_(g);
    for (uint64_t k = i; k < units; k += n) {
        wh_gallatin_block_words_(g)[k] = WH_GALLATIN_IDLE;
        wh_gallatin_entries_(g, 0)[k] = 0;
    }
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_gallatin_layout(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_gallatin_ref, field),
        sizeof(wh_gallatin_ref),
        WH_F_(core) WH_F_(segments) WH_F_(buffers) WH_F_(blocks) WH_F_(data_bytes) WH_F_(max_slice)
        WH_F_(min_slice_log2) WH_F_(block0_log2) WH_F_(units_log2) WH_F_(slices_log2)
        WH_F_(fit_log2) WH_F_(few) WH_F_(n_trees)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_gallatin_core, field),
        sizeof(wh_gallatin_core),
        WH_F_(base) WH_F_(header) WH_F_(shape) WH_F_(n_segments) WH_F_(n_buffers)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_gallatin_header, field),
        sizeof(wh_gallatin_header),
        WH_F_(activity) WH_F_(failed) WH_F_(bad_frees) WH_F_(verdict) WH_F_(formatting)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_gallatin_segment, field),
        sizeof(wh_gallatin_segment),
        WH_F_(tree) WH_F_(run) WH_F_(control) WH_F_(ring)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_ring, field),
        sizeof(wh_ring),
        WH_F_(head) WH_F_(tail) WH_F_(virgin)
#undef WH_F_
        WH_GALLATIN_MAX_TREES, WH_GALLATIN_BUFFER_WORDS, WH_GALLATIN_COMPLETED, WH_GALLATIN_VACANT,
    };
    return wh_layout_hash("gallatin", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

#include "warpheap/detail/simt/end.h"

#endif
