/* cuda_14_tables.cu: a join on a stream of your own, and a kernel of yours that reads the result in
 * the pages where it lies, without a copy. 07_tables.c goes on when the heap is full. */
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <warpheap/ops.h>

static void must(wh_status status) {
    if (status != WH_OK) {
        std::printf("%s\n%s\n", wh_status_text(status), wh_last_error_text());
        std::exit(status == WH_NO_DEVICE ? 77 : 1);
    }
}

/* A block a page: prices by region. Columns are those of the join: keys, the build table's values
 * (regions), the probe table's (prices). */
__global__ void add_prices(wh_pages pages, unsigned long long *sums) {
    for (uint64_t p = blockIdx.x; p < pages.n_pages; p += gridDim.x) {
        const unsigned char *page = pages.page[p];
        const uint32_t *region = (const uint32_t *)(page + pages.column_at[1]);
        const uint32_t *price = (const uint32_t *)(page + pages.column_at[2]);
        for (uint32_t i = threadIdx.x; i < pages.rows[p]; i += blockDim.x) {
            atomicAdd(&sums[region[i]], price[i]);
        }
    }
}

int main() {
    const uint32_t customers = 10000, orders = 1000000, regions = 5;
    wh_heap *heap = nullptr;
    wh_heap_options heap_options = {};
    heap_options.bytes = 256 << 20;
    must(wh_heap_create(&heap, &heap_options));

    wh_join *join = nullptr;
    wh_join_options options = {};
    options.heap = heap;
    options.build_value = options.probe_value = WH_VALUE_4;
    options.build_rows = customers; /* at most */
    options.probe_rows = orders;
    must(wh_join_create(&join, &options));

    /* Two tables, and what must come out. An order in eleven is of a customer who is not there. */
    uint32_t *id, *region, *buyer, *price;
    unsigned long long *sums, right[regions] = {};
    cudaMallocManaged(&id, customers * sizeof *id);
    cudaMallocManaged(&region, customers * sizeof *region);
    cudaMallocManaged(&buyer, orders * sizeof *buyer);
    cudaMallocManaged(&price, orders * sizeof *price);
    cudaMallocManaged(&sums, regions * sizeof *sums);
    cudaMemset(sums, 0, regions * sizeof *sums);
    cudaDeviceSynchronize();
    for (uint32_t i = 0; i < customers; i++) {
        id[i] = 7 * i;
        region[i] = i % regions;
    }
    for (uint32_t i = 0; i < orders; i++) {
        const uint32_t k = i * 7919u % (customers + customers / 10);
        buyer[i] = 7 * k;
        price[i] = i % 1000;
        right[k % regions] += k < customers ? price[i] : 0;
    }

    cudaStream_t stream;
    cudaStreamCreate(&stream);
    wh_table build = {}, probe = {};
    build.key = id, build.value = region, build.n = customers;
    probe.key = buyer, probe.value = price, probe.n = orders;
    wh_join_result result;
    wh_pages pages;
    must(wh_join_start(join, &build, &probe, stream)); /* does not wait */
    must(wh_join_finish(join, &result));
    must(wh_join_pages(join, WH_JOIN_MATCHED, &pages));
    add_prices<<<264, 256, 0, stream>>>(pages, sums);
    must(wh_join_drop_pages(join, stream)); /* after the kernel */
    bool is_right = cudaStreamSynchronize(stream) == cudaSuccess;
    std::printf("%llu rows in %llu pages\n", (unsigned long long)result.rows,
                (unsigned long long)result.pages);
    for (uint32_t r = 0; is_right && r < regions; r++) {
        std::printf("region %u: %llu\n", r, sums[r]);
        is_right = sums[r] == right[r];
    }
    std::puts(is_right ? "right" : "wrong");

    must(wh_join_destroy(join));
    wh_heap_destroy(heap);
    cudaStreamDestroy(stream);
    cudaFree(id);
    cudaFree(region);
    cudaFree(buyer);
    cudaFree(price);
    cudaFree(sums);
    return is_right ? 0 : 1;
}
