// launches.cu: launches of WH_KERNEL on a GPU: three dimensions, much dynamic shared memory,
// templates, errors that are not theirs, and a kernel that a full heap ends.
// Exit status 77: there is no GPU.
#include <cstdio>
#include <cstring>

#define WH_OOM_TRAP
#include <warpheap/warpheap.h>

#include "check.h"

static const unsigned SHARED = 100u << 10; // more than a kernel has without asking

template <class T> struct sum_args {
    wh_heap_ref heap;
    T *sums; // one a block
};

// Each thread writes its number into shared memory, and the first adds them up in a list of the
// block's own; the last words of the shared memory are used, too.
WH_KERNEL_TEMPLATE((class T), sum_threads, sum_args<T>, a) {
    T *shared = static_cast<T *>(wh_shared());
    const unsigned t = wh_thread_in_block(), n = wh_block_threads();
    T *last = shared + SHARED / sizeof(T) - n;
    last[t] = T(t);
    T *list = static_cast<T *>(wh_malloc_block(a.heap, n * sizeof(T)));
    if (list != nullptr) {
        list[t] = last[n - 1 - t];
    }
    wh_syncthreads();
    if (t == 0 && list != nullptr) {
        T sum = 0;
        for (unsigned i = 0; i < n; i++) {
            sum += list[i];
        }
        a.sums[wh_block_id()] = sum;
    }
    wh_free_block(a.heap, list);
}

struct take_args {
    wh_heap_ref heap;
    size_t bytes;
};

WH_KERNEL(take, take_args, a) {
    (void)wh_malloc(a.heap, a.bytes);
}

int main() {
    wh_device *d = nullptr;
    wh_heap *heap = nullptr;
    wh_heap_options o = {};
    if (wh_device_open(&d, "cuda", nullptr) != WH_OK) {
        std::printf("no GPU: %s\n", wh_last_error_text());
        return 77;
    }
    o.bytes = 64 << 20;
    o.device = d;
    CHECK(wh_heap_create(&heap, &o) == WH_OK);

    wh_launch l = wh_grid(d, 3, 8);
    l.blocks_y = 2;
    l.blocks_z = 2;
    l.threads_y = 5;
    l.threads_z = 3;
    l.shared_bytes = SHARED;
    double *sums = nullptr, host[12];
    CHECK(cudaMalloc(&sums, sizeof host) == cudaSuccess);
    CHECK(cudaMemset(sums, 0, sizeof host) == cudaSuccess);
    sum_args<double> a = {};
    a.sums = sums;
    CHECK(wh_heap_handle(heap, &a.heap) == WH_OK);
    // An error of somebody else's, seen and left: it is none of the launch.
    void *p = nullptr;
    CHECK(cudaMalloc(&p, (size_t)1 << 60) == cudaErrorMemoryAllocation);
    CHECK(sum_threads(&l, &a) == WH_OK);
    CHECK(wh_device_sync(d) == WH_OK);
    CHECK(cudaMemcpy(host, sums, sizeof host, cudaMemcpyDeviceToHost) == cudaSuccess);
    for (double sum : host) {
        CHECK(sum == 119 * 120 / 2);
    }
    wh_stats s;
    CHECK(wh_heap_get_stats(heap, &s) == WH_OK && s.live_blocks == 0 && s.failed == 0);
    CHECK(wh_heap_check(heap, nullptr) == WH_OK);
    l.shared_bytes = 227u << 10; // the GPU's most, less what the kernel has of its own
    CHECK(sum_threads(&l, &a) != WH_OK);
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(std::strstr(wh_device_error_text(d), "sum_threads") != nullptr);

    // Last, since the process cannot use the GPU after it.
    const take_args t = {a.heap, (size_t)1 << 30};
    const wh_launch one = wh_grid(d, 1, 32);
    CHECK(take(&one, &t) == WH_OK);
    CHECK(wh_device_sync(d) == WH_DEVICE_ERROR);
    std::printf("%s\n%d failures\n", wh_device_error_text(d), failures);
    return failures != 0;
}
