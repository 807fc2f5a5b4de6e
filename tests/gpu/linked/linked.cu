// linked.cu: a program whose kernels have malloc's slow path linked: plain kernels in blocks of
// 1,024 threads and of 96, from two files, and beside a third one that is header-only and a shared
// library that has the slow path linked, too, on one heap.
// Small blocks, mixed ones, runs, a heap that is full, aligned blocks, statistics that count.
// Exit status 77: there is no GPU.
#include <cstdio>
#include <cstdlib>

#include <warpheap/options.h>

#include "linked.h"

#if !WH_IS_LINKED
#error "this file is not linked"
#endif

static int failures;

#define CHECK(condition)                                                \
    do {                                                                \
        if (!(condition)) {                                             \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            failures++;                                                 \
        }                                                               \
    } while (0)

#define MUST(call)                                                           \
    do {                                                                     \
        const int e_ = static_cast<int>(call);                               \
        if (e_ != 0) {                                                       \
            std::printf("%s:%d: %s is %d\n", __FILE__, __LINE__, #call, e_); \
            std::exit(1);                                                    \
        }                                                                    \
    } while (0)

static const unsigned N = 200000;

static __global__ void take(request r, unsigned *failed) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < r.n) {
        r.blocks[i] = take_one(r, i);
        if (r.blocks[i] == nullptr) {
            atomicAdd(failed, 1u);
        }
    }
}

// Each lane for itself, each with another alignment, and a free of its own.
static __global__ void churn(wh_heap_ref heap, unsigned *bad) {
    const unsigned lane = threadIdx.x % 32;
    for (unsigned k = 0; k < 8; k++) {
        if ((lane + k) % 3 == 0) {
            continue;
        }
        const size_t align = size_t(16) << (lane + k) % 12;
        void *p = wh_aligned_alloc(heap, align, 100 * k + 1);
        void *q = wh_realloc(heap, wh_malloc(heap, 40), 3000);
        if (p == nullptr || q == nullptr || reinterpret_cast<size_t>(p) % align != 0) {
            atomicAdd(bad, 1u);
        }
        wh_free(heap, p);
        wh_free(heap, q);
    }
}

struct bed {
    wh_heap *heap;
    wh_heap_ref handle;
    unsigned **blocks;
    unsigned *failed, *bad;
};

// Takes and gives n blocks twice; how many were NULL.
static unsigned round_of(const bed &b, unsigned threads, unsigned n, size_t least, size_t most) {
    const request r = {b.handle, b.blocks, n, least, most};
    for (int k = 0; k < 2; k++) {
        *b.failed = *b.bad = 0;
        take<<<(n + threads - 1) / threads, threads>>>(r, b.failed);
        MUST(cudaGetLastError());
        MUST(give_all(r, k == 0 ? 256 : threads / 4, b.bad));
        MUST(cudaDeviceSynchronize());
        CHECK(*b.bad == 0);
        MUST(wh_heap_check(b.heap, nullptr));
    }
    return *b.failed;
}

static void run(const wh_heap_options &options) {
    bed b = {};
    wh_stats s = {};
    MUST(wh_heap_create(&b.heap, &options));
    MUST(wh_heap_handle(b.heap, &b.handle));
    MUST(cudaMallocManaged(&b.blocks, N * sizeof *b.blocks));
    MUST(cudaMallocManaged(&b.failed, sizeof *b.failed));
    MUST(cudaMallocManaged(&b.bad, sizeof *b.bad));
    for (unsigned threads : {1024u, 96u}) {
        CHECK(round_of(b, threads, N, 64, 64) == 0);
        CHECK(round_of(b, threads, N / 4, 16, 4096) == 0);
        CHECK(round_of(b, threads, N / 100, 20000, 60000) == 0); // runs of chunks
        CHECK(round_of(b, threads, N, 8192, 8192) != 0);         // more than there is
        CHECK(round_of(b, threads, N, 1000, 1000) == 0);         // ... and all is back
        *b.bad = 0;
        churn<<<64, threads>>>(b.handle, b.bad);
        MUST(cudaDeviceSynchronize());
        CHECK(*b.bad == 0);
        const request r = {b.handle, b.blocks, N / 4, 16, 4096};
        *b.failed = 0;
        MUST(serve_shared(r, threads, b.failed));
        MUST(cudaDeviceSynchronize());
        CHECK(*b.failed == r.n);
    }
    s.struct_bytes = sizeof s;
    MUST(wh_heap_get_stats(b.heap, &s));
    CHECK(s.used_bytes == 0 && s.bad_frees == 0 && s.failed != 0);
    CHECK(options.options == nullptr || (s.mallocs == s.frees && s.peak_bytes != 0));
    wh_heap_destroy(b.heap);
}

int main() {
    int gpus = 0;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
        std::puts("skipped: no GPU");
        return 77;
    }
    cudaFuncAttributes a = {};
    MUST(cudaFuncGetAttributes(&a, take));
    std::printf("%d registers, %zu bytes of stack\n", a.numRegs, a.localSizeBytes);
    CHECK(a.maxThreadsPerBlock == 1024);

    wh_heap_options options = {};
    options.bytes = 512u << 20;
    run(options);
    wh_tessera_options tessera = WH_TESSERA_OPTIONS;
    tessera.track_totals = 1;
    tessera.track_peak = 1;
    options.options = &tessera.head;
    run(options);
    std::puts(failures == 0 ? "linked kernels serve" : "failed");
    return failures != 0;
}
