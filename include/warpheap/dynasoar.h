/* dynasoar.h: objects whose fields lie apart, each with those of its neighbours, and a walk over
 * all objects of a type: what the allocator `dynasoar` has beside malloc and free. C11 and CUDA
 * C++.
 *
 *     #define WH_ALLOCATOR dynasoar
 *     #include <warpheap/warpheap.h>
 *     #include <warpheap/dynasoar.h>
 *
 *     #define BODY(X) X(body, double, x) X(body, double, y) X(body, float, mass)
 *     WH_DYNASOAR_TYPE(body, 1, BODY)
 *
 *     body *b = body_new(heap, mask);                    a new object, or NULL; wh_free(heap, b)
 *     if (b != NULL) { *body_x(heap, b) = 0.5; }         its fields
 *
 *     wh_dynasoar_each e = wh_dynasoar_each_of(heap, body_kind(heap), thread, threads);
 *     while (wh_dynasoar_each_step(heap, &e)) {          all objects, each by one of the threads
 *         if (e.object != NULL) { *body_x(heap, (body *)e.object) += 1; }
 *     }
 *
 * Lanes beside each other get objects beside each other: their accesses to a field are one access
 * of a row of memory. examples/16_objects.c is a whole program.
 *
 * Which objects a walk visits. "Before" and "after" are the order of kernels, or of a barrier of
 * all threads that allocate, free or walk. each_of      Nothing of this kind may be freed during
 * it. Every object that was allocated before it is visited once. One that is allocated meanwhile is
 * visited once or not at all, perhaps before its fields are filled in each_marked  wh_dynasoar_mark
 * comes before it, and notes what there is. Every object that is noted is visited once, and no
 * other is. During the walk objects may be allocated, and freed, these by who visits them, alone:
 * nobody else may free a noted object that is still to be visited. A heap has one set of notes
 *
 * Source: Springer and Masuhara, ECOOP 2019; detail/alloc/dynasoar/dynasoar.h has the rest.
 */
#ifndef WH_DYNASOAR_H
#define WH_DYNASOAR_H

#include "warpheap/detail/alloc/dynasoar/dynasoar.h"

#include "warpheap/detail/simt/begin.h"

/* --- kinds ------------------------------------------------------------------------------------ */

/* The kind of the blocks that malloc gives for n bytes. 0: these are no part of a block of objects
 * (n is 0, or more than half of the option block_bytes). Any lane. */
WH_FN uint32_t wh_dynasoar_size_kind(wh_dynasoar_ref h, size_t n) {
    const uint32_t kind = n != 0 ? wh_page_kind_for(h.paged.table.page_log2, n) : WH_PAGE_RUN;
    return kind != WH_PAGE_RUN ? kind : 0;
}

/* The kind of type `type`, 1 to the option types, whose fields take row_bytes together. 0: there is
 * no such type, or an object is more than half a block. Any lane. */
WH_FN uint32_t wh_dynasoar_type_kind(wh_dynasoar_ref h, uint32_t type, size_t row_bytes) {
    const uint32_t kind = wh_dynasoar_size_kind(h, row_bytes);
    return kind != 0 && type - 1 < h.types ? wh_page_tagged(kind, type) : 0;
}

/* A new object of that kind for each lane of mask, converged lanes; they may ask for different
 * kinds. NULL: the heap has no room (exact), or the kind is 0. Cost: that of malloc. */
WH_FN void *wh_dynasoar_new(wh_dynasoar_ref h, wh_mask mask, uint32_t kind) {
    wh_paged_request r = {NULL, WH_PAGE_FREE, 0, 1};
    r.kind = kind;
    return wh_dynasoar_get_(h, mask, 1, r);
}

/* --- fields ----------------------------------------------------------------------------------- */

/* Where a field of the object lies: row_bytes, `before` and `bytes` are the size of a struct of all
 * fields, and the field's offset and size in it. A block of n objects is such a struct, n times as
 * large: each field has n times its place, so it keeps its alignment. */
WH_FN void *wh_dynasoar_field(wh_dynasoar_ref h, const void *object, size_t row_bytes,
                              size_t before, size_t bytes) {
    const uint32_t chunk = (uint32_t)wh_quarter_size(wh_quarter_class(row_bytes));
    const uint32_t block = 1u << h.paged.table.page_log2;
    const uintptr_t at = (uintptr_t)object;
    const uint32_t inside = (uint32_t)at & (block - 1), i = inside / chunk;
    wh_assert(wh_dynasoar_owns(h, object) && i * chunk == inside);
    return (unsigned char *)(at - inside) + (uint64_t)(block / chunk) * before +
           (uint64_t)i * bytes;
}

/* WH_DYNASOAR_TYPE(name, number, FIELDS), in a file, declares
 *
 *     name                              an object: an incomplete type, only `name *` is used
 *     struct name_row                   all fields of one, as they would lie in a struct
 *     uint32_t name_kind(heap)          its kind; 0: as wh_dynasoar_type_kind
 *     name *name_new(heap, mask)        as wh_dynasoar_new
 *     T *name_FIELD(heap, object)       for each field of type T. A few instructions, no load
 *
 * number: 1 to the option dynasoar.types (8 by default); in one heap each number is for one type.
 * FIELDS: a macro of X(name, T, FIELD) ...; those that are larger come first, lest an object has
 * gaps. An object takes the size class of its row (16, 32, 48, 64, 80 .. bytes). */
#define WH_DYNASOAR_TYPE(name, number, FIELDS)                                 \
    typedef struct name name;                                                  \
    struct name##_row {                                                        \
        FIELDS(WH_DYNASOAR_MEMBER_)                                            \
    };                                                                         \
    WH_FN unsigned name##_kind(wh_dynasoar_ref heap) {                         \
        return wh_dynasoar_type_kind(heap, number, sizeof(struct name##_row)); \
    }                                                                          \
    WH_FN name *name##_new(wh_dynasoar_ref heap, wh_mask mask) {               \
        return (name *)wh_dynasoar_new(heap, mask, name##_kind(heap));         \
    }                                                                          \
    FIELDS(WH_DYNASOAR_FIELD_)

#define WH_DYNASOAR_MEMBER_(name, type, field) type field;
#define WH_DYNASOAR_FIELD_(name, type, field)                                               \
    WH_FN type *name##_##field(wh_dynasoar_ref heap, const name *object) {                  \
        return (type *)wh_dynasoar_field(heap, object, sizeof(struct name##_row),           \
                                         offsetof(struct name##_row, field), sizeof(type)); \
    }

/* --- for each --------------------------------------------------------------------------------- */

/* A walk of one thread. */
typedef struct wh_dynasoar_each {
    void *object;           /* of the step; NULL: it has none for this thread */
    const uint64_t *blocks; /* a bit each */
    const uint32_t *bits;   /* of objects */
    uint64_t in_span;       /* blocks of the span that are still to be looked at */
    uint64_t span, units;
    uint32_t span_log2, words, word, block;
    uint32_t kind, lanes, open; /* objects in each word that are the thread's; of this word */
} wh_dynasoar_each;

/* Threads beside each other, up to a warp, share a span of blocks, of each word of bits one each.
 */
WH_FN wh_dynasoar_each wh_dynasoar_walk_(wh_dynasoar_ref h, uint32_t kind, uint64_t i, uint64_t n) {
    const uint64_t even = n & (0 - n);
    const uint32_t width = even < WH_WARP_SIZE ? (uint32_t)even : WH_WARP_SIZE;
    wh_dynasoar_each e;
    wh_assert(i < n);
    e.object = NULL;
    e.blocks = NULL;
    e.bits = NULL;
    e.in_span = 0;
    e.span = i / width;
    e.units = n / width;
    e.span_log2 = 6;
    while (e.span_log2 > 0 && (uint64_t)h.paged.table.n >> e.span_log2 < e.units) {
        e.span_log2--;
    }
    e.words =
        kind != 0 ? (wh_page_capacity(h.paged.table.page_log2, kind) + WH_WARP_SIZE - 1) / 32 : 0;
    e.word = e.words;
    e.block = 0;
    e.kind = kind;
    e.lanes = 0;
    for (uint32_t lane = (uint32_t)(i % width); lane < 32; lane += width) {
        e.lanes |= 1u << lane;
    }
    e.open = 0;
    return e;
}

/* The part of thread i of n in a walk over all objects of that kind, 0 for none. All threads 0 to
 * n - 1 make the walk, or their objects are left out; a single one with i = 0, n = 1 visits all.
 * Lanes of a warp should be threads beside each other, and n a multiple of 32.
 * Cost of the walk: a load for each word of 64 blocks of the heap, and one for each 32 objects. */
WH_FN wh_dynasoar_each wh_dynasoar_each_of(wh_dynasoar_ref h, uint32_t kind, uint64_t i,
                                           uint64_t n) {
    wh_dynasoar_each e = wh_dynasoar_walk_(h, kind, i, n);
    e.blocks = kind != 0 ? wh_dynasoar_allocated_(h, kind).words : NULL;
    e.bits = h.paged.table.bits;
    return e;
}

/* The same over what wh_dynasoar_mark has noted of that kind. */
WH_FN wh_dynasoar_each wh_dynasoar_each_marked(wh_dynasoar_ref h, uint32_t kind, uint64_t i,
                                               uint64_t n) {
    wh_dynasoar_each e = wh_dynasoar_walk_(h, kind, i, n);
    e.blocks = h.marked;
    e.bits = h.marks;
    return e;
}

/* Goes on: 0 at the end. Else e->object is an object, or NULL: so lanes of a warp stay in step. */
WH_FN int wh_dynasoar_each_step(wh_dynasoar_ref h, wh_dynasoar_each *e) {
    const wh_page_table t = h.paged.table;
    const uint32_t in_block = wh_page_words(t.page_log2);
    for (;;) {
        if (e->open != 0) {
            const uint32_t at = e->word * 32 + wh_ctz32(e->open);
            e->open &= e->open - 1;
            e->object = wh_page_chunk(t, e->block, e->kind, at);
            return 1;
        }
        if (e->word + 1 < e->words) {
            e->word++;
            const uint32_t bits =
                wh_load_u32_relaxed(&e->bits[(uint64_t)e->block * in_block + e->word]);
            e->open = bits & e->lanes;
            if (bits != 0 && e->open == 0) {
                e->object = NULL;
                return 1;
            }
        } else if (e->in_span != 0) {
            e->block = (e->block & ~63u) | wh_ctz64(e->in_span);
            e->in_span &= e->in_span - 1;
            e->word = UINT32_MAX;
        } else {
            const uint64_t first = e->span << e->span_log2;
            const uint64_t ones =
                e->span_log2 == 6 ? ~(uint64_t)0 : ((uint64_t)1 << (1u << e->span_log2)) - 1;
            if (e->words == 0 || first >= t.n) {
                e->object = NULL;
                return 0;
            }
            e->span += e->units;
            e->in_span = wh_load_u64_relaxed(&e->blocks[first / 64]) & ones << (first & 63);
            e->block = (uint32_t)first;
            e->word = e->words;
        }
    }
}

/* Thread i of n notes its part of the objects of that kind, in place of what was noted. Nothing of
 * this kind may be allocated or freed meanwhile, and no walk over notes be on its way. All threads
 * 0 to n - 1 have to do it, and a walk comes after all. Cost: that of a walk, and a store for each
 * word. */
WH_FN void wh_dynasoar_mark(wh_dynasoar_ref h, uint32_t kind, uint64_t i, uint64_t n) {
    const uint32_t in_block = wh_page_words(h.paged.table.page_log2);
    const uint64_t blocks = h.paged.table.n;
    if (kind == 0) {
        return;
    }
    const wh_veb allocated = wh_dynasoar_allocated_(h, kind);
    for (uint64_t k = i; k < (blocks + 63) / 64; k += n) {
        wh_store_u64_relaxed(&h.marked[k], wh_load_u64_relaxed(wh_veb_word(allocated, k)));
    }
    for (uint64_t k = i; k < blocks * in_block; k += n) {
        const uint64_t block = k / in_block;
        if ((wh_load_u64_relaxed(wh_veb_word(allocated, block / 64)) >> block % 64 & 1) != 0) {
            wh_store_u32_relaxed(&h.marks[k], wh_load_u32_relaxed(&h.paged.table.bits[k]));
        }
    }
}

#include "warpheap/detail/simt/end.h"

#endif
