/* image.h: a heap as a file has it, for warpheap::checkpoint: what it is, which of its chunks hold
 * blocks, where its bytes lie, and an empty heap that they can be put into. No file is touched. */
#ifndef WHI_IMAGE_H
#define WHI_IMAGE_H

#include "warpheap/detail/alloc/contract.h"
#include "warpheap/heap.h"
#include "warpheap/options.h"

/* All of it is written to files, as it is. */
typedef struct whi_image_facts {
    uint64_t layout; /* of the allocator's code (wh_X_layout) */
    uint64_t target; /* wh_target */
    uint64_t n_sms;  /* of the device that the heap was laid out for */
    uint64_t bytes;  /* of the heap; of a reserved one, of its addresses */
    uint64_t memory; /* its address */
    uint64_t is_reserved;
    uint64_t options[WH_OPTIONS_MOST];
    wh_image_shape shape;
    wh_reserve_plan plan; /* of a reserved heap */
} whi_image_facts;

typedef struct whi_image {
    const wh_allocator_info *info;
    whi_image_facts facts;
    uint64_t *live;           /* a bit for each chunk that holds a block */
    uint64_t *units;          /* a bit for each unit that is mapped; of a reserved heap */
    uint64_t n_live, n_units; /* words of these */
} whi_image;

/* Fills an image with what the heap is: both bit maps are made. Waits for all work of the device.
 * UNSUPPORTED: of this allocator there is none. */
wh_status whi_image_take(whi_image *image, wh_heap *heap);

/* Of facts that come from a file: makes room for the bit maps, which the caller fills. Whether this
 * library can make such a heap: WRONG_BUILD, UNSUPPORTED, UNKNOWN_ALLOCATOR. */
wh_status whi_image_read(whi_image *image, const char *allocator, const whi_image_facts *facts);
void whi_image_drop(whi_image *image);

/* An empty heap of the image's shape, whose memory is as it came; at the address of the old one if
 * that can be had. options, options_bytes, in_cuda: as wh_heap_create_for's; device and memory are
 * read, and `bytes` beside memory. adopt: all of its bytes are there now; *moved as wh_heap_grow.
 */
wh_status whi_image_create(wh_heap **heap, const whi_image *image, const wh_heap_options *options,
                           size_t options_bytes, int in_cuda);
wh_status whi_image_adopt(wh_heap *heap, const whi_image *image, int64_t *moved);

/* Calls fn for each row of bytes of the heap that belongs to the image, always in the same order:
 * the metadata, then the chunks. Device addresses. Ends with the first status that is not OK. */
typedef wh_status (*whi_bytes_fn)(void *context, void *at, uint64_t bytes);
wh_status whi_image_each(const whi_image *image, const wh_heap *heap, whi_bytes_fn fn,
                         void *context);

#endif
