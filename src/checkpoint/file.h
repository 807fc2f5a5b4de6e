/* file.h: how a heap lies in a file.
 *
 *   head  | bit maps of units and of live chunks, metadata, chunks: one stream of zlib | tail
 *
 * All numbers are as the machine has them: little-endian on all that CUDA knows. */
#ifndef WHI_CHECKPOINT_FILE_H
#define WHI_CHECKPOINT_FILE_H

#include "host/image.h"

/* Text that a copy in text mode, or of 7 bits, breaks. */
#define WHI_CHECKPOINT_MAGIC "\211whck\r\n\032"
#define WHI_CHECKPOINT_VERSION 1u
/* Bytes that are copied and compressed at a time. Few enough that malloc maps nothing for them,
 * where a heap of the simulated device has just left its addresses. */
#define WHI_CHECKPOINT_PIECE ((size_t)64 << 10)

typedef struct whi_file_head {
    char magic[8];
    uint64_t version;
    uint64_t head_bytes; /* sizeof this struct */
    char allocator[32];
    whi_image_facts facts;
    uint64_t crc; /* of the head before it */
} whi_file_head;

typedef struct whi_file_tail {
    uint64_t file_bytes;
    uint64_t crc; /* of the whole file before it */
} whi_file_tail;

#endif
