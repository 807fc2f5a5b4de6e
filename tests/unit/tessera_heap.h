/* tessera_heap.h: heaps for the tests of tessera. Included once per program, behind sim_test.h. */
#ifndef TESSERA_HEAP_H
#define TESSERA_HEAP_H

#include "sim/sim_test.h"

#include "warpheap/warpheap.h"

static wh_heap *make_heap_of(wh_device *device, uint32_t chunk_bytes, uint64_t bytes,
                             uint32_t shards, wh_heap_ref *handle) {
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options o;
    wh_heap *heap = NULL;
    memset(&o, 0, sizeof o);
    o.device = device;
    o.allocator = "tessera";
    o.bytes = bytes;
    o.options = &own.head;
    own.chunk_bytes = chunk_bytes;
    own.shards = shards;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle(heap, handle), WH_OK);
    assert_int_equal(handle->core.n_shards, shards);
    return heap;
}

#endif
