/* alloc/contract.h: what the header of an allocator defines, for the identifier X of its entry in
 * alloc/list.h. Internal: may change. docs/ADD_AN_ALLOCATOR.md walks through it; alloc/bump is the
 * smallest complete example. A call that the design does not have is one of alloc/defaults.h.
 *
 *   wh_X_ref              the handle: a plain struct of at most WH_HANDLE_BYTES
 *   #define wh_X_NAME     the command-line name, as in list.h
 *   #define wh_X_MAX_ALIGN
 *   #define wh_X_BLOCKS   blocks of 256 threads that an SM should hold: bounds the registers of the
 *                         benchmark's kernels (8: 32 registers). 1 for an allocator whose slow path
 *                         is its common path
 *   #define wh_X_EACH     whether lanes make the calls malloc and free below each for itself,
 *                         unless they know who calls with them (wh_malloc_lanes): wh_malloc and
 *                         wh_free then pass mask 0. 0: never, 1: in a part of a warp, 2: always
 *
 * Host and device, plain arithmetic:
 *   wh_status wh_X_plan(wh_X_ref *h, wh_plan *plan, unsigned char *memory,
 *                       uint64_t bytes, const void *options, uint32_t n_sms)
 *       lays the heap out in memory[0..bytes) and fills handle and plan. options: the family's
 *       wh_<family>_options, if it has some (options.h). On HEAP_TOO_SMALL plan->min_bytes says
 *       what is needed (always set). Called with memory NULL to query.
 * Host:
 *   uint64_t wh_X_layout(void)
 *       a hash (wh_layout_hash) of the structures that plan, or the host, and device code share,
 *       the handle's too, and of the constants that shape a heap: a program whose hash differs from
 *       the library's was compiled from other headers, and must not touch its heaps
 *
 * Device; mask names converged lanes that make the call together, each with its own arguments (0,
 * of malloc and free with wh_X_EACH: the caller, and nobody knows who else):
 *   void    *wh_X_malloc(wh_X_ref h, wh_mask mask, size_t n)
 *   void     wh_X_free(wh_X_ref h, wh_mask mask, void *p)
 *       a lane may return before its leader has freed for it: wh_free waits for that
 *   void    *wh_X_aligned(wh_X_ref h, wh_mask mask, size_t align, size_t n)
 *       align: a power of two in 32..wh_X_MAX_ALIGN
 *   uint64_t wh_X_usable_size(wh_X_ref h, const void *p)
 *   int      wh_X_owns(wh_X_ref h, const void *p)
 *
 * Device, on a quiet heap, by thread i of n (each takes items i, i+n, ...):
 *   void     wh_X_init(wh_X_ref h, uint64_t i, uint64_t n)
 *   void     wh_X_stats(wh_X_ref h, uint64_t i, uint64_t n, wh_stats *s)
 *       adds to the counters of s (device memory) with atomics; the host fills in heap_bytes and
 *       metadata_bytes
 *   void     wh_X_check(wh_X_ref h, uint64_t i, uint64_t n, wh_report *r)
 *   void     wh_X_walk(wh_X_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink)
 *   uint64_t wh_X_left(wh_X_ref h, uint64_t bytes, uint64_t i, uint64_t n)
 *       what thread i counts of the blocks of `bytes` bytes that malloc could still give, one after
 *       the other; the sum over all threads is the answer. Also while lanes run: atomic loads only
 *
 * With WH_CAP_GROW, and #define WH_ALLOC_GROWS in the family's header:
 *   wh_status wh_X_grow_plan(wh_X_ref *h, wh_X_ref old, wh_plan *plan, unsigned char *memory,
 *                            uint64_t bytes, const void *options)
 *       as plan, for a heap that takes over everything from `old`, a quiet one of no more bytes;
 *       fills in plan->moved, too
 *   void wh_X_grow(wh_X_ref h, wh_X_ref old, uint64_t i, uint64_t n)
 *       copies; h is as wh_X_init has left it
 *
 * With a #define in the family's header there is more, at the struct that is named, below:
 *   WH_ALLOC_RESERVES wh_reserve_plan, with WH_CAP_RESERVE; WH_ALLOC_GAUGES wh_gauge_lens;
 *   WH_ALLOC_SAVES wh_image_shape; WH_ALLOC_RECORDS wh_watch;
 *   WH_ALLOC_SNAPSHOTS wh_snapshot_window; WH_ALLOC_COMPACTS, with WH_CAP_COMPACT, wh_left_query
 */
#ifndef WH_ALLOC_CONTRACT_H
#define WH_ALLOC_CONTRACT_H

#include "warpheap/detail/alloc/defaults.h"
#include "warpheap/heap.h"
#include "warpheap/records.h"
#include "warpheap/simt.h"
#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

/* Pools (warpheap.h) of an allocator that can do with less where the size is known before have a
 * line WH_POOL_OF_X in list.h and, in the family's header, these. A pool of any other keeps the
 * size, and calls malloc and free.
 *
 *   wh_X_pool             what it keeps: a plain struct that has a field `bytes`, those asked for
 *   wh_X_pool wh_X_pool_plan(wh_X_ref h, uint64_t bytes)    host
 *   wh_X_pool wh_X_pool_of(wh_X_ref h, uint64_t bytes)      device
 *   uint64_t wh_X_pool_size(wh_X_pool pool)                 both: usable bytes of a block
 *   void *wh_X_pool_malloc(wh_X_ref h, wh_mask mask, wh_mask wanting, wh_X_pool pool)
 *       a block for each lane of mask that is in `wanting`, which is not 0; with mask 0 for the
 *       caller
 *   void wh_X_pool_free(wh_X_ref h, wh_mask mask, wh_X_pool pool, void *p)
 *       p may be a block of another size: that is to be refused */

#define WH_HANDLE_BYTES 256u

/* Whether the calls of this file can use a checked heap (tessera.checked). Where malloc's slow path
 * is part of each kernel this costs registers and code, so on a GPU the file has to say so. */
#ifndef WH_CHECKED
#if WH_FILE_IS_CUDA && !defined(WH_LINKED) && !defined(WH_LINKED_DEFINE)
#define WH_CHECKED 0
#else
#define WH_CHECKED 1
#endif
#endif

/* How plan laid a heap out. */
typedef struct wh_plan {
    uint64_t min_bytes;      /* fewest bytes with which plan succeeds */
    uint64_t metadata_bytes; /* of the heap's bytes, not available to blocks */
    uint64_t init_items;     /* how much parallel work init has (sizes its launch) */
    int64_t moved;           /* grow_plan: how far blocks move */
    uint64_t max_bytes;      /* of a heap that plan refuses since it is larger; 0: it is not */
} wh_plan;

/*   wh_status wh_X_reserve_plan(wh_X_ref *h, wh_reserve_plan *r, unsigned char *memory,
 *                               uint64_t bytes, const void *options, uint32_t n_sms)
 *       lays the heap out in `bytes` bytes of addresses. On HEAP_TOO_SMALL *r is what the smallest
 *       heap takes. memory NULL: to query
 *   void wh_X_reserve_step(wh_X_ref h, const wh_reserve_step *step, uint64_t i, uint64_t n)
 *       device, by full warps: one of WH_RESERVE_*
 *
 * How a heap lies in reserved addresses: the fixed part, mapped from the start; the side part, of
 * which each unit needs side_of_unit bytes from `its number * side_of_unit` on; the units. */
typedef struct wh_reserve_plan {
    uint64_t granule;      /* in: bytes that the device maps at once, a power of two */
    uint64_t unit_bytes;   /* a power of two, at least a granule */
    uint64_t fixed_bytes;  /* of whole granules, from the first address on */
    uint64_t side_bytes;   /* the same, behind it */
    uint64_t side_of_unit; /* bytes of the side part that a unit needs */
    uint64_t units_at;     /* where the units begin */
    uint64_t max_bytes;    /* as in wh_plan */
    uint64_t survey_at;    /* in the fixed part: a bit for each unit */
    uint64_t init_items;   /* as wh_plan's */
    uint64_t unit_items;   /* how much parallel work publish and withdraw have for a unit */
    uint32_t n_units;
    uint32_t parts_of_unit; /* in which lanes take a unit that is posted */
} wh_reserve_plan;

/* What a kernel of the host's does to a heap in reserved addresses. Units [first, first + n). Of
 * these publish leaves alone what is the heap's already. */
#define WH_RESERVE_OPEN 0u     /* an empty heap of no units; init follows */
#define WH_RESERVE_SETTLE 1u   /* no unit from `first` on is mapped; and the figures below */
#define WH_RESERVE_PUBLISH 2u  /* units that are mapped become the heap's. Also while lanes run */
#define WH_RESERVE_CLOSE 3u    /* what nobody uses becomes free for all */
#define WH_RESERVE_SURVEY 4u   /* to `bits`: units that hold no block */
#define WH_RESERVE_WITHDRAW 5u /* units that hold none are the heap's no more */
#define WH_RESERVE_CLEAN 6u    /* nothing leads to absent units any more */
#define WH_RESERVE_GROWTH 7u   /* lanes ask the box at `bits`, and wait n us; NULL: they do not */
typedef struct wh_reserve_step {
    uint64_t *bits;
    uint64_t mapped_bytes, metadata_bytes; /* of all that is mapped */
    uint32_t kind, first, n, padding;
} wh_reserve_step;

/* What host and device tell each other of a heap that grows while lanes run: memory of the host,
 * which the device sees, too. Each word is stored by one side, and is of system scope. */
#define WH_GROWTH_ROWS 64u /* a power of two */
#define WH_GROWTH_NEVER ((uint32_t)1 << 31)
typedef struct wh_growth_row {
    uint64_t units;                        /* mapped: the first one << 32 | how many */
    uint64_t mapped_bytes, metadata_bytes; /* as in wh_reserve_step, with them */
} wh_growth_row;
typedef struct wh_growth_box {
    /* The host's: rows that it has posted, the k-th at k % WH_GROWTH_ROWS; the number of the last
     * request that it has answered << 32 | 0, or: so many units in a row do not come, + NEVER if
     * it posts no more at all. */
    uint64_t posted, answer;
    uint64_t padding[6];
    /* The device's: the number of its last request << 32 | units in a row that it wants; parts
     * of units that it has taken from rows, in all, as they come in the rows. */
    uint64_t asked, taken;
    uint64_t more_padding[6];
    wh_growth_row rows[WH_GROWTH_ROWS];
} wh_growth_box;

/*   void wh_X_image_of(wh_X_ref h, wh_image_shape *s)         host
 *   wh_status wh_X_image_plan(wh_X_ref *h, wh_plan *plan, const wh_image_shape *s,
 *                             unsigned char *memory, uint64_t bytes, uint32_t n_sms)   host
 *       as plan, for a heap of this shape, not a reserved one, in memory[0..bytes): chunks lie
 *       where blocks keep their alignment. BAD_ARGUMENT: there is no such shape
 *   void wh_X_live(wh_X_ref h, uint64_t *bits, uint64_t i, uint64_t n)
 *       device, on a quiet heap: the chunks in which a block lives, a bit each
 *   void wh_X_adopt(wh_X_ref h, uint64_t i)
 *       device: the metadata is a copy of that of another heap, and becomes this one's
 *
 * What a heap in a file must fit to. Metadata from the heap's first address on; of a reserved heap
 * wh_reserve_plan says where. Blocks lie in chunks from `base` on, and nothing else does. */
typedef struct wh_image_shape {
    uint64_t metadata_bytes;
    uint64_t base; /* address of the first chunk */
    uint64_t chunk_bytes;
    uint64_t n_chunks;
    uint64_t n_shards;
    uint64_t flags; /* the allocator's own */
} wh_image_shape;

/*   int wh_X_gauge(wh_X_ref h, const wh_gauge_lens *lens, wh_gauge_sample *s)
 *       host, while lanes run: adds to s what copies of the metadata say. s begins with what the
 *       host knows, failed and bad_frees 0, all else WH_UNKNOWN. 0: a look or the room failed
 *
 * How the host looks at metadata. look: a copy of `bytes` bytes, up to WH_GAUGE_LOOK, at a multiple
 * of 8, each 8 of them whole, made now; until the next look; NULL: it failed. room: memory of the
 * host, the same until the gauge is closed if it is large enough; NULL: there is none. */
#define WH_GAUGE_LOOK ((uint64_t)1 << 20)
typedef struct wh_gauge_lens {
    const void *(*look)(void *context, const void *from, uint64_t bytes);
    void *(*room)(void *context, uint64_t bytes);
    void *context;
    uint32_t depth; /* WH_GAUGE_* */
} wh_gauge_lens;

/*   wh_status wh_X_watch_bytes(const void *options, uint64_t heap_bytes, wh_watch *w)   host
 *       what a heap of these options needs for its records: the numbers of w. BAD_ARGUMENT
 *   void wh_X_set_watch(wh_X_ref *h, wh_watch *w)   host
 *       after plan: the handle knows the boxes; fills in the image
 *   void wh_X_check_blocks(wh_X_ref h, uint32_t with_leaks, uint64_t i, uint64_t n, uint64_t
 * *found) device, on a quiet heap: as wh_heap_check_blocks; adds to *found
 *
 * Where records go: memory of the host that the device sees. detail/alloc/record.h has the rules.
 */
typedef struct wh_record_row {
    uint64_t ready; /* 1 + the number of the record that is there; 0: none */
    wh_record record;
} wh_record_row;
typedef struct wh_record_box {
    uint64_t tickets; /* the device's: rows that have been given */
    uint64_t counts[WH_RECORD_KINDS];
    uint64_t padding[7];
    uint64_t taken;  /* the host's: rows below it have been read, and may be used again */
    uint64_t n_rows; /* a power of two; stays */
    uint64_t more_padding[6];
} wh_record_box; /* the rows lie behind it */

typedef struct wh_watch {
    uint64_t n_violations, n_failures; /* rows; 0: no such box */
    uint64_t room_bytes;               /* of device memory */
    uint64_t quarantine_bytes;         /* the allocator's own numbers, of its options */
    uint64_t poison_bytes;
    uint32_t checked, n_entries;
    wh_record_box *violations, *failures; /* the host's, from here on */
    void *room;                           /* device memory */
    uint64_t image_bytes;                 /* filled in: what the room begins with, */
    uint64_t mark_offset;                 /* ... and where the number of the last mark lies in it */
    uint64_t image[128];
} wh_watch;

/*   void wh_X_snapshot(wh_X_ref h, const wh_snapshot_window *w, uint64_t i, uint64_t n)
 *       device, on a quiet heap: what chunks [from, to) are, and their live blocks
 *
 * A piece of a heap: a slab, a large block, or a single chunk that is neither. */
#define WH_PIECE_OTHER 0u /* nobody's: the heap is corrupt */
#define WH_PIECE_FREE 1u
#define WH_PIECE_ABSENT 2u /* reserved, and not mapped */
#define WH_PIECE_SLAB 3u
#define WH_PIECE_LARGE 4u
typedef struct wh_snapshot_piece {
    uint32_t kind;
    uint32_t chunks;     /* from this one on; 0: it is part of a piece before it */
    uint32_t slot_bytes; /* of a slab */
    uint32_t slots;
    uint32_t live;  /* blocks of users */
    uint32_t kept;  /* blocks in quarantine */
    uint32_t ready; /* slots that a cursor holds */
    uint32_t padding;
} wh_snapshot_piece;
typedef struct wh_snapshot_block {
    uint64_t address;
    uint64_t bytes;               /* asked for; of a heap that is not checked: as taken */
    uint64_t taken;               /* with what lies around it */
    uint64_t site;                /* of the call that allocated it (record.h); 0: not known */
    uint64_t thread, block, mark; /* of that call; WH_UNKNOWN */
} wh_snapshot_block;
typedef struct wh_snapshot_window {
    uint64_t from, to;
    wh_snapshot_piece *pieces; /* of chunk from + k: entry k; NULL: not wanted */
    wh_snapshot_block *blocks; /* of pieces that begin there; NULL: not wanted */
    uint64_t capacity;
    uint64_t *n_blocks; /* found, also past capacity */
} wh_snapshot_window;

/*   void wh_X_compact_queues(wh_X_ref h, wh_compaction *out)
 *       device, on a quiet heap, by all threads of blocks of 2^k, at least a warp; each block takes
 *       queues by its number
 *   void wh_X_compact_chunks(wh_X_ref h, uint64_t i, uint64_t n, wh_compaction *out)
 *       device, behind it; both add to *out (types.h)
 *
 * A question how many blocks are left, in device memory: the answer is added to `blocks`. */
typedef struct wh_left_query {
    uint64_t bytes;
    uint64_t blocks;
} wh_left_query;

/* Where walk puts what it finds: entry k < capacity, k counted by n. The entry has its name outside
 * of the sink: in C++ a name inside is a name of the sink alone. */
struct wh_walk_entry {
    uint64_t address;
    uint64_t usable_bytes;
};
typedef struct wh_walk_sink {
    uint64_t capacity;
    uint64_t n; /* live blocks found, also those past capacity */
    struct wh_walk_entry *entries;
} wh_walk_sink;

#if WH_HAS_HOST
/* The handle of a heap for kernels of this file that use the named allocator: for a second one
 * beside the WH_ALLOCATOR of warpheap.h, whose header alloc/<family>/<family>.h the file includes.
 * Its calls have the allocator in their names: wh_bump_ref, wh_bump_layout(),
 * wh_bump_malloc(handle, wh_activemask(), n). Errors: those of wh_heap_handle. */
static inline wh_status wh_heap_handle_of(const wh_heap *heap, const char *allocator,
                                          uint64_t layout, void *handle, size_t handle_bytes) {
    wh_handle_kind kind;
    kind.struct_bytes = sizeof kind;
    kind.allocator = allocator;
    kind.handle_bytes = handle_bytes;
    kind.layout = layout;
    kind.version = WH_VERSION;
    /* A file of C or C++ may hand the handle to a file of CUDA: a launch checks its own device. */
    kind.target = WH_TARGET_IS_SIM ? WH_TARGET_ANY : WH_TARGET_CUDA;
    kind.checks = WH_CHECKED;
    kind.peers = WH_PEERS;
    return wh_heap_copy_handle(heap, &kind, handle);
}
#endif

WH_FN void wh_walk_emit(wh_walk_sink *sink, const void *p, uint64_t usable_bytes) {
    const uint64_t k = wh_fetch_add_u64_relaxed(&sink->n, 1);
    if (k < sink->capacity) {
        sink->entries[k].address = (uint64_t)(uintptr_t)p;
        sink->entries[k].usable_bytes = usable_bytes;
    }
}

#if WH_HAS_HOST
/* FNV-1a over a family's name and numbers of 64 bits: see wh_X_layout. */
static inline WH_CONSTEXPR uint64_t wh_layout_hash(const char *family, const uint64_t *parts,
                                                   size_t n) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *family != 0; family++) {
        hash = (hash ^ (unsigned char)*family) * 0x100000001b3u;
    }
    for (size_t i = 0; i < 8 * n; i++) {
        hash = (hash ^ (parts[i / 8] >> i % 8 * 8 & 0xff)) * 0x100000001b3u;
    }
#ifdef WH_HOSTILE
    hash = ~hash; /* whether or not it changes this family */
#endif
    return hash;
}

/* A part of it: where a field lies, and its size. */
#define WH_LAYOUT_FIELD(type, field) \
    ((uint64_t)offsetof(type, field) << 32 | sizeof(((type *)0)->field))
#endif

/* Records a broken invariant I<tag>. The first one reported is kept. */
WH_FN void wh_report_error(wh_report *r, uint64_t tag, uint64_t where) {
    if (wh_fetch_add_u64_relaxed(&r->errors, 1) == 0) {
        wh_store_u64_relaxed(&r->first_tag, tag);
        wh_store_u64_relaxed(&r->first_where, where);
    }
}

#include "warpheap/detail/simt/end.h"

#endif
