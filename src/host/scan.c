/* scan.c: parts of a heap, brought to the host: scan.h. A part has so many chunks, and is cut again
 * where more blocks live in it than there is room for: a slab has 1,024 at most. */
#include "scan.h"

#include <stdlib.h>
#include <string.h>

#include "last_error.h"
#include "try.h"
#include "warpheap/core/hash.h"

#ifdef WH_HOSTILE
#define PART_CHUNKS 64u
#define PART_BLOCKS 1024u
#else
#define PART_CHUNKS 65536u
#define PART_BLOCKS 65536u
#endif
#define ENTRIES 64u /* where entries begin in the device's room */

static uint64_t room_bytes(void) {
    const uint64_t pieces = PART_CHUNKS * sizeof(wh_snapshot_piece);
    const uint64_t blocks = PART_BLOCKS * sizeof(wh_snapshot_block);
    return ENTRIES + (pieces > blocks ? pieces : blocks);
}

wh_status whi_scan_open(whi_scan *scan, wh_heap *heap) {
    memset(scan, 0, sizeof *scan);
    scan->heap = heap;
    if (heap->ops->snapshot == NULL) {
        return whi_refuse(WH_UNSUPPORTED,
                          "heaps of %s do not list their blocks by place: heaps of "
                          "tessera do",
                          heap->info->name);
    }
    TRY(whi_heap_settle(heap));
    heap->ops->image_of(heap->handle, &scan->shape);
    scan->pieces = malloc(PART_CHUNKS * sizeof *scan->pieces);
    scan->blocks = malloc(PART_BLOCKS * sizeof *scan->blocks);
    void *room = NULL;
    const wh_status s = scan->pieces != NULL && scan->blocks != NULL
                            ? whi_heap_take(heap, &room, room_bytes(), NULL)
                            : WH_OUT_OF_MEMORY;
    scan->room = room;
    if (s != WH_OK) {
        whi_scan_close(scan);
    }
    return s;
}

void whi_scan_close(whi_scan *scan) {
    if (scan->room != NULL) {
        (void)whi_heap_give(scan->heap, scan->room, room_bytes(), NULL);
    }
    free(scan->pieces);
    free(scan->blocks);
    memset(scan, 0, sizeof *scan);
}

/* --- parts ------------------------------------------------------------------------------------ */

static wh_status launch(whi_scan *scan, const wh_snapshot_window *w) {
    const wh_launch l = whi_heap_launch(scan->heap, w->to - w->from, NULL);
    return scan->heap->ops->snapshot(&l, scan->heap->handle, w);
}

/* Pieces of chunks [from, to), to scan->pieces. */
static wh_status read_pieces(whi_scan *scan, uint64_t from, uint64_t to) {
    wh_snapshot_window w;
    memset(&w, 0, sizeof w);
    w.from = from;
    w.to = to;
    w.pieces = (wh_snapshot_piece *)(void *)(scan->room + ENTRIES);
    TRY(launch(scan, &w));
    return wh_device_copy_out(scan->heap->device, scan->pieces, w.pieces,
                              (to - from) * sizeof *w.pieces);
}

static int by_address(const void *a, const void *b) {
    const uint64_t x = ((const wh_snapshot_block *)a)->address;
    const uint64_t y = ((const wh_snapshot_block *)b)->address;
    return (x > y) - (x < y);
}

/* Blocks of the pieces that begin in chunks [from, to), to scan->blocks: *n. */
static wh_status read_blocks(whi_scan *scan, uint64_t from, uint64_t to, uint64_t *n) {
    wh_device *d = scan->heap->device;
    wh_snapshot_window w;
    memset(&w, 0, sizeof w);
    w.from = from;
    w.to = to;
    w.n_blocks = (uint64_t *)(void *)scan->room;
    w.blocks = (wh_snapshot_block *)(void *)(scan->room + ENTRIES);
    w.capacity = PART_BLOCKS;
    TRY(wh_device_set(d, w.n_blocks, 0, sizeof *w.n_blocks));
    TRY(launch(scan, &w));
    TRY(wh_device_copy_out(d, n, w.n_blocks, sizeof *n));
    if (*n > PART_BLOCKS) {
        return whi_refuse(WH_CORRUPT, "the heap is corrupt: more blocks live in a slab than it has "
                                      "slots");
    }
    TRY(wh_device_copy_out(d, scan->blocks, w.blocks, *n * sizeof *w.blocks));
    qsort(scan->blocks, (size_t)*n, sizeof *scan->blocks, by_address);
    return WH_OK;
}

static int is_alone(const wh_snapshot_piece *p) {
    return p->kind == WH_PIECE_FREE || p->kind == WH_PIECE_ABSENT || p->kind == WH_PIECE_OTHER;
}

typedef struct row {
    uint64_t chunk;
    uint64_t chunks; /* 0: there is none yet */
    wh_snapshot_piece piece;
} row;

/* Ends a row of chunks. A heap has less than 2^24. */
static wh_status end_row(const row *r, whi_piece_fn fn, void *context) {
    wh_snapshot_piece p = r->piece;
    p.chunks = (uint32_t)r->chunks;
    return r->chunks != 0 ? fn(context, r->chunk, &p) : WH_OK;
}

wh_status whi_scan_pieces(whi_scan *scan, whi_piece_fn fn, void *context) {
    const uint64_t n = scan->shape.n_chunks;
    uint64_t next = 0; /* chunks below it have been told */
    row r;
    memset(&r, 0, sizeof r);
    for (uint64_t from = 0; from < n; from += PART_CHUNKS) {
        const uint64_t to = from + PART_CHUNKS < n ? from + PART_CHUNKS : n;
        TRY(read_pieces(scan, from, to));
        for (uint64_t k = from > next ? from : next; k < to; k = next) {
            wh_snapshot_piece p = scan->pieces[k - from];
            p.kind = p.chunks != 0 ? p.kind : WH_PIECE_OTHER; /* of no piece before it */
            const uint64_t chunks = p.chunks != 0 && p.chunks <= n - k ? p.chunks : 1;
            if (r.chunks != 0 && is_alone(&p) && r.piece.kind == p.kind) {
                r.chunks += chunks;
            } else {
                TRY(end_row(&r, fn, context));
                r.chunk = k;
                r.chunks = chunks;
                r.piece = p;
            }
            next = k + chunks;
        }
    }
    return end_row(&r, fn, context);
}

/* Blocks of chunks [from, to), of which scan->pieces has the pieces of [first, ...). */
static wh_status tell_blocks(whi_scan *scan, uint64_t from, uint64_t to, whi_block_fn fn,
                             void *context) {
    uint64_t n = 0;
    TRY(read_blocks(scan, from, to, &n));
    for (uint64_t i = 0; i < n; i++) {
        TRY(fn(context, &scan->blocks[i]));
    }
    return WH_OK;
}

wh_status whi_scan_blocks(whi_scan *scan, whi_block_fn fn, void *context) {
    const uint64_t n = scan->shape.n_chunks;
    for (uint64_t from = 0; from < n; from += PART_CHUNKS) {
        const uint64_t to = from + PART_CHUNKS < n ? from + PART_CHUNKS : n;
        TRY(read_pieces(scan, from, to));
        uint64_t begin = from, live = 0;
        for (uint64_t k = from; k < to; k++) {
            const uint64_t its = scan->pieces[k - from].live;
            if (live + its > PART_BLOCKS) {
                TRY(tell_blocks(scan, begin, k, fn, context));
                begin = k;
                live = 0;
            }
            live += its;
        }
        if (live != 0) {
            TRY(tell_blocks(scan, begin, to, fn, context));
        }
    }
    return WH_OK;
}

/* --- sites ------------------------------------------------------------------------------------ */

wh_status whi_scan_sites(whi_scan *scan, const uint64_t *sites, wh_record_site *texts, uint64_t n) {
    wh_device *d = scan->heap->device;
    const uint64_t most = (room_bytes() - ENTRIES) / (sizeof *sites + sizeof *texts);
    wh_record_site *out = (wh_record_site *)(void *)(scan->room + ENTRIES);
    uint64_t *in = (uint64_t *)(void *)(out + most);
    in = (uint64_t *)(void *)((unsigned char *)in - (uintptr_t)in % sizeof *in);
    for (uint64_t k = 0; k < n; k += most - 1) {
        const uint64_t some = n - k < most - 1 ? n - k : most - 1;
        const wh_launch l = whi_heap_launch(scan->heap, some, NULL);
        TRY(wh_device_copy_in(d, in, sites + k, some * sizeof *sites));
        TRY(scan->heap->ops->read_sites(&l, in, out, some));
        TRY(wh_device_copy_out(d, texts + k, out, some * sizeof *texts));
    }
    return WH_OK;
}

/* --- pairs ------------------------------------------------------------------------------------ */

static uint64_t slot_of(const whi_pairs *p, uint64_t site, uint64_t number) {
    uint64_t k = wh_mix64(site + wh_spread64(number)) & (p->n_slots - 1);
    while (p->slots[k] != 0 &&
           (p->pairs[p->slots[k] - 1].site != site || p->pairs[p->slots[k] - 1].number != number)) {
        k = (k + 1) & (p->n_slots - 1);
    }
    return k;
}

/* Room for one more, at most half full. */
static wh_status widen(whi_pairs *p) {
    whi_pairs more = *p;
    more.n_slots = p->n_slots != 0 ? 2 * p->n_slots : 64;
    more.pairs = realloc(p->pairs, (size_t)(more.n_slots / 2) * sizeof *p->pairs);
    p->pairs = more.pairs != NULL ? more.pairs : p->pairs;
    more.slots = calloc((size_t)more.n_slots, sizeof *p->slots);
    if (more.pairs == NULL || more.slots == NULL || more.n_slots >> 31 != 0) {
        free(more.slots);
        return WH_OUT_OF_MEMORY;
    }
    for (uint64_t i = 0; i < p->n; i++) {
        more.slots[slot_of(&more, more.pairs[i].site, more.pairs[i].number)] = (uint32_t)i + 1;
    }
    free(p->slots);
    *p = more;
    return WH_OK;
}

wh_status whi_pairs_find(whi_pairs *p, uint64_t site, uint64_t number, uint64_t *index) {
    if (2 * p->n >= p->n_slots) {
        TRY(widen(p));
    }
    const uint64_t k = slot_of(p, site, number);
    if (p->slots[k] == 0) {
        p->pairs[p->n].site = site;
        p->pairs[p->n].number = number;
        p->slots[k] = (uint32_t)++p->n;
    }
    *index = p->slots[k] - 1;
    return WH_OK;
}

void whi_pairs_drop(whi_pairs *p) {
    free(p->pairs);
    free(p->slots);
    memset(p, 0, sizeof *p);
}
