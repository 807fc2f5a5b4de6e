/* cuda_17_nvshmem.cu: a heap in the symmetric memory of NVSHMEM: each process has a heap at the
 * same place of the region, and puts and gets reach into the blocks of the others. The build
 * defines EXAMPLE_WITH_NVSHMEM where it finds NVSHMEM. */
#include "cuda_example.h"

#ifdef EXAMPLE_WITH_NVSHMEM
#include <nvshmem.h>
#include <nvshmemx.h>

__global__ void take(wh_heap_ref heap, int me, int **block) {
    int *p = static_cast<int *>(wh_malloc(heap, 64 * sizeof(int)));
    for (int k = 0; p != nullptr && k < 64; k++) {
        p[k] = 100 * me + k;
    }
    *block = p;
}

__global__ void give(wh_heap_ref heap, int **block) {
    wh_free(heap, *block);
}

int main() {
    if (wh_device_cuda_count() == 0) {
        std::printf("no GPU: %s\n", wh_last_error_text());
        return EXAMPLE_SKIPPED;
    }
    /* [memory nvshmem */
    nvshmem_init();
    must(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE)));
    const uint64_t bytes = 16 << 20;
    example_heap h = {};
    wh_heap_options options = {};
    options.bytes = bytes;
    options.memory = nvshmem_align(256, bytes); /* by all processes together */
    must(wh_heap_create(&h.heap, &options));
    must(wh_heap_handle(h.heap, &h.handle));
    /* memory] */
    const int me = nvshmem_my_pe(), next = (me + 1) % nvshmem_n_pes();
    int **block = static_cast<int **>(nvshmem_malloc(sizeof *block)), *mine = nullptr;
    uint64_t *where = static_cast<uint64_t *>(nvshmem_malloc(2 * sizeof *where)), offset = 0;
    int *got = static_cast<int *>(nvshmem_malloc(64 * sizeof *got)), last = 0;
    take<<<1, 1>>>(h.handle, me, block);
    must(cudaMemcpy(&mine, block, sizeof mine, cudaMemcpyDefault));
    /* What lies so far behind the start of the neighbour's heap has here the address so far behind
     * the start of the own one. */
    unsigned char *base = static_cast<unsigned char *>(options.memory);
    offset = static_cast<uint64_t>(reinterpret_cast<unsigned char *>(mine) - base);
    must(cudaMemcpy(where, &offset, sizeof offset, cudaMemcpyDefault));
    nvshmem_barrier_all();
    nvshmem_getmem(where + 1, where, sizeof *where, next);
    must(cudaMemcpy(&offset, where + 1, sizeof offset, cudaMemcpyDefault));
    nvshmem_getmem(got, base + offset, 64 * sizeof *got, next);
    must(cudaMemcpy(&last, got + 63, sizeof last, cudaMemcpyDefault));
    nvshmem_barrier_all();
    give<<<1, 1>>>(h.handle, block);
    const int status = example_close(h, last == 100 * next + 63);
    nvshmem_free(got);
    nvshmem_free(where);
    nvshmem_free(block);
    nvshmem_free(options.memory);
    nvshmem_finalize();
    return status;
}

#else

int main() {
    std::puts("built without NVSHMEM");
    return EXAMPLE_SKIPPED;
}

#endif
