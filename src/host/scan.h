/* scan.h: a quiet heap from its first chunk to the last one, in parts of bounded size: what
 * snapshot.c counts and snapshot_file.c writes. */
#ifndef WHI_SCAN_H
#define WHI_SCAN_H

#include "heap_internal.h"
#include "warpheap/snapshot.h"

typedef struct whi_scan {
    wh_heap *heap;
    wh_image_shape shape;
    unsigned char *room;       /* of the device: a number, and entries behind it */
    wh_snapshot_piece *pieces; /* host memory for a part */
    wh_snapshot_block *blocks;
} whi_scan;

/* Waits for all work of the device. UNSUPPORTED: of this allocator there is none. After a failure,
 * too, it is closed. */
wh_status whi_scan_open(whi_scan *scan, wh_heap *heap);
void whi_scan_close(whi_scan *scan);

/* In the order of addresses. Both end with the first status that is not OK. A piece's `chunks` is
 * not 0; chunks of which there is nothing more to say are one piece. */
typedef wh_status (*whi_piece_fn)(void *context, uint64_t chunk, const wh_snapshot_piece *piece);
typedef wh_status (*whi_block_fn)(void *context, const wh_snapshot_block *block);
wh_status whi_scan_pieces(whi_scan *scan, whi_piece_fn fn, void *context);
wh_status whi_scan_blocks(whi_scan *scan, whi_block_fn fn, void *context);

/* The places that sites name. */
wh_status whi_scan_sites(whi_scan *scan, const uint64_t *sites, wh_record_site *texts, uint64_t n);

/* Pairs of a site and a number, each with an index in the order of their coming. */
typedef struct whi_pairs {
    struct whi_pair {
        uint64_t site;
        uint64_t number;
    } * pairs;
    uint32_t *slots; /* 1 + index */
    uint64_t n, n_slots;
} whi_pairs;

/* *index of a pair, which is added if it is new; OUT_OF_MEMORY. */
wh_status whi_pairs_find(whi_pairs *p, uint64_t site, uint64_t number, uint64_t *index);
void whi_pairs_drop(whi_pairs *p);

/* snapshot.c. The heap's next mark. */
wh_status whi_heap_next_mark(wh_heap *heap);

#endif
