/* cuda_16_rmm.cu: a heap whose memory comes from RMM, the memory manager of RAPIDS: from whatever
 * device_memory_resource is the current one, a pool say, with its limits and its log. The build
 * defines EXAMPLE_WITH_RMM where it finds RMM. */
#include "cuda_example.h"

#ifdef EXAMPLE_WITH_RMM
#include <rmm/cuda_stream_view.hpp>
#include <rmm/mr/device/per_device_resource.hpp>
#include <rmm/mr/device/pool_memory_resource.hpp>

/* [memory rmm */
static void *rmm_alloc(uint64_t bytes, uint64_t, void *stream, void *user) {
    auto *resource = static_cast<rmm::mr::device_memory_resource *>(user);
    try { /* RMM aligns to 256 */
        return resource->allocate(bytes, rmm::cuda_stream_view(static_cast<cudaStream_t>(stream)));
    } catch (const std::exception &) {
        return nullptr;
    }
}

static void rmm_free(void *p, uint64_t bytes, void *stream, void *user) {
    auto *resource = static_cast<rmm::mr::device_memory_resource *>(user);
    resource->deallocate(p, bytes, rmm::cuda_stream_view(static_cast<cudaStream_t>(stream)));
}

static wh_memory_source rmm_source(rmm::mr::device_memory_resource *resource) {
    wh_memory_source source = {};
    source.alloc = rmm_alloc;
    source.free = rmm_free;
    source.user = resource;
    return source;
}
/* memory] */

__global__ void take_and_give(wh_heap_ref heap, int *given) {
    int *p = static_cast<int *>(wh_malloc(heap, sizeof(int) + threadIdx.x));
    if (p != nullptr) {
        *p = 1;
        atomicAdd(given, *p);
        wh_free(heap, p);
    }
}

int main() {
    if (wh_device_cuda_count() == 0) {
        std::printf("no GPU: %s\n", wh_last_error_text());
        return EXAMPLE_SKIPPED;
    }
    rmm::mr::pool_memory_resource<rmm::mr::device_memory_resource> pool(
        rmm::mr::get_current_device_resource(), 64 << 20, 64 << 20);
    example_heap h = {};
    wh_heap_options options = {};
    options.bytes = 16 << 20;
    options.source = rmm_source(&pool);
    must(wh_heap_create(&h.heap, &options));
    must(wh_heap_handle(h.heap, &h.handle));
    int *given = example_shared<int>(1);
    take_and_give<<<64, 128>>>(h.handle, given);
    must(cudaDeviceSynchronize());
    const bool all = *given == 64 * 128;
    must(cudaFree(given));
    return example_close(h, all);
}

#else

int main() {
    std::puts("built without RMM");
    return EXAMPLE_SKIPPED;
}

#endif
