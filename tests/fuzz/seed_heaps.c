/* seed_heaps.c: writes checkpoints of small heaps, as seeds of fuzz_checkpoint_file.
 *
 *   fuzz_seed_heaps FOLDER */
#define WH_ALLOCATOR tessera

#include <stdio.h>
#include <string.h>

#include "warpheap/checkpoint.h"
#include "warpheap/warpheap.h"

typedef struct fill_args {
    wh_heap_ref heap;
} fill_args;

WH_KERNEL(fill, fill_args, a) {
    unsigned char *p = (unsigned char *)wh_malloc(a.heap, 100);
    if (p != NULL) {
        p[0] = (unsigned char)wh_lane_id();
    }
}

static wh_status save(const char *folder, const char *name, uint64_t reserve) {
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options options;
    fill_args a;
    wh_heap *heap = NULL;
    char path[4096];
    memset(&options, 0, sizeof options);
    memset(&a, 0, sizeof a);
    own.chunk_bytes = 1024;
    own.shards = 1;
    options.options = &own.head;
    options.bytes = 128 << 10;
    options.reserve_bytes = reserve;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    wh_status s = wh_device_open(&options.device, "sim", NULL);
    const wh_launch l = {options.device, 1, 32, NULL};
    s = s == WH_OK ? wh_heap_create(&heap, &options) : s;
    s = s == WH_OK ? wh_heap_handle(heap, &a.heap) : s;
    s = s == WH_OK ? fill(&l, &a) : s;
    s = s == WH_OK ? wh_heap_save(heap, path) : s;
    if (s != WH_OK) {
        fprintf(stderr, "%s: %s: %s\n", path, wh_status_text(s), wh_last_error_text());
    }
    (void)wh_heap_destroy(heap);
    wh_device_close(options.device);
    return s;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: fuzz_seed_heaps FOLDER\n");
        return 2;
    }
    return save(argv[1], "plain", 0) != WH_OK || save(argv[1], "reserved", 1 << 20) != WH_OK;
}
