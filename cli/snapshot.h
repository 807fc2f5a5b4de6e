/* snapshot.h: snapshots of heaps (wh_heap_snapshot_save) as `warpheap view` and `warpheap diff` see
 * them. */
#ifndef WHI_CLI_SNAPSHOT_H
#define WHI_CLI_SNAPSHOT_H

#include <stdint.h>

#define SNAP_UNKNOWN UINT64_MAX
#define SNAP_NO_SITE UINT32_MAX

typedef enum snap_kind { SNAP_OTHER, SNAP_FREE, SNAP_ABSENT, SNAP_SLAB, SNAP_LARGE } snap_kind;
#define SNAP_KINDS 5

/* Chunks in a row; the file's order is that of addresses. */
typedef struct snap_piece {
    uint64_t chunk, chunks;
    uint64_t slot_bytes, slots; /* of a slab */
    uint64_t live, kept, ready; /* blocks of users, in quarantine; slots that a cursor holds */
    snap_kind kind;
} snap_piece;

typedef struct snap_block {
    uint64_t offset, taken;
    uint64_t bytes;               /* asked for; as taken if the heap is not checked */
    uint64_t block, thread, mark; /* SNAP_UNKNOWN */
    uint32_t site;                /* SNAP_NO_SITE */
    uint32_t is_new;              /* snap_compare */
} snap_block;

typedef struct snap_site {
    char *file;
    uint64_t line; /* without a file: of a tag; 0: not known */
} snap_site;

typedef struct snap {
    const char *path;
    char *allocator, *device;
    uint64_t pid, created_ns, time_ns;
    uint64_t base, chunk_bytes, chunks, heap_bytes, metadata_bytes;
    uint64_t used_bytes, live_blocks, largest_free, failed, bad_frees;
    uint64_t mark; /* of a checked heap */
    int checked;
    snap_piece *pieces;
    snap_block *blocks;
    snap_site *sites; /* sorted, each place once */
    uint64_t n_pieces, n_blocks, n_sites;
} snap;

/* Reads a file. Returns 0, or complains in one line and returns the exit status. */
int snap_read(snap *s, const char *path);
void snap_drop(snap *s);

/* Marks the blocks of `now` that are not in `before`. Returns 0, or complains: they are not of one
 * heap. */
int snap_compare(const snap *before, snap *now);

/* Blocks of one place, and one size if that is asked for; those with the most bytes first. */
typedef struct snap_group {
    uint32_t site;
    uint64_t least, most, n_sizes; /* bytes of a block */
    uint64_t blocks, bytes, taken;
    uint64_t new_blocks, new_bytes;
    const snap_block *first; /* the one that lies lowest */
} snap_group;
#define SNAP_BY_SIZE 1u
#define SNAP_NEW 2u /* new blocks alone */
/* NULL: complains that there is no memory. *n may be 0. */
snap_group *snap_groups(const snap *s, unsigned how, uint64_t *n);

/* "file:line", "tag 7", "unknown place". */
#define SNAP_PLACE 256
const char *snap_place(const snap *s, uint32_t site, char text[SNAP_PLACE]);

/* A page: to `path`. Returns 0, or complains. since: what it is compared with; NULL: nothing. */
int snap_page(const snap *s, const snap *since, const char *path);

#endif
