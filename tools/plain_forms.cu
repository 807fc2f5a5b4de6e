// plain_forms.cu: times wh_malloc and wh_free in the kernels that users write. plain_forms.py
// compiles it in several forms and runs each; FORM_BOUNDS is the kernels' launch bounds, if any.
//
//   plain_forms <heap bytes> <repetitions>
//
// A million threads allocate one block each, of one size, or of a random one; then they free.
// Each repetition has a warm heap: it has been filled and emptied once. One JSON row a line.
// NULLs are counted, and that no two blocks overlap is checked in the first repetition.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <warpheap/core/hash.h>
#include <warpheap/warpheap.h>

#ifndef FORM_BOUNDS
#define FORM_BOUNDS
#endif

#define MUST(call)                                                                  \
    do {                                                                            \
        const cudaError_t e = (call);                                               \
        if (e != cudaSuccess) {                                                     \
            std::fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(e)); \
            std::exit(1);                                                           \
        }                                                                           \
    } while (0)

static const unsigned THREADS = 1000000;

struct range {
    size_t lo, hi;
};

__host__ __device__ static size_t bytes_of(unsigned i, range sizes) {
    return sizes.lo + (wh_spread32(i) >> 7) % (sizes.hi - sizes.lo + 1);
}

__global__ void FORM_BOUNDS take(wh_heap_ref heap, void **out, range sizes) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < THREADS) {
        out[i] = wh_malloc(heap, bytes_of(i, sizes));
    }
}

__global__ void FORM_BOUNDS give(wh_heap_ref heap, void **out) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < THREADS) {
        wh_free(heap, out[i]);
    }
}

__global__ void FORM_BOUNDS nothing(void **out) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < THREADS) {
        out[i] = out + i;
    }
}

struct timer {
    cudaEvent_t begin, end;
    std::vector<float> us;
    void start() {
        MUST(cudaEventRecord(begin));
    }
    void stop() {
        float ms = 0;
        MUST(cudaEventRecord(end));
        MUST(cudaEventSynchronize(end));
        MUST(cudaEventElapsedTime(&ms, begin, end));
        us.push_back(ms * 1000);
    }
};

struct verdict {
    unsigned failed, bad;
};

static void row(const char *op, unsigned block, range sizes, std::vector<float> us, verdict v) {
    std::sort(us.begin(), us.end());
    std::printf("{\"op\": \"%s\", \"block\": %u, \"size_min\": %zu, \"size\": %zu, \"us\": %.2f, "
                "\"us_min\": %.2f, \"us_max\": %.2f, \"reps\": %zu, \"failed\": %u, \"bad\": %u}\n",
                op, block, sizes.lo, sizes.hi, us[us.size() / 2], us.front(), us.back(), us.size(),
                v.failed, v.bad);
}

// Blocks that are NULL, and blocks that reach into the next one.
static verdict look(void **out, range sizes) {
    verdict v = {0, 0};
    std::vector<void *> host(THREADS);
    std::vector<std::pair<uintptr_t, size_t>> blocks;
    MUST(cudaMemcpy(host.data(), out, THREADS * sizeof(void *), cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < THREADS; i++) {
        if (host[i] != nullptr) {
            blocks.push_back({reinterpret_cast<uintptr_t>(host[i]), bytes_of(i, sizes)});
        }
    }
    v.failed = THREADS - static_cast<unsigned>(blocks.size());
    std::sort(blocks.begin(), blocks.end());
    for (size_t i = 0; i + 1 < blocks.size(); i++) {
        v.bad += blocks[i].first + blocks[i].second > blocks[i + 1].first;
    }
    return v;
}

struct bed {
    wh_heap *heap;
    wh_heap_ref handle;
    void **out;
    unsigned reps;
};

static void measure(const bed &b, unsigned block, range sizes) {
    timer mallocs, frees, nulls;
    const unsigned grid = (THREADS + block - 1) / block;
    verdict v = {0, 0};
    for (timer *t : {&mallocs, &frees, &nulls}) {
        MUST(cudaEventCreate(&t->begin));
        MUST(cudaEventCreate(&t->end));
    }
    if (wh_heap_reset(b.heap) != WH_OK) {
        std::exit(1);
    }
    for (unsigned r = 0; r < b.reps + 1; r++) { // the first one makes the heap warm
        nulls.start();
        nothing<<<grid, block>>>(b.out);
        nulls.stop();
        mallocs.start();
        take<<<grid, block>>>(b.handle, b.out, sizes);
        const cudaError_t e = cudaGetLastError();
        if (e != cudaSuccess) {
            std::printf("{\"op\": \"malloc\", \"block\": %u, \"size_min\": %zu, \"size\": %zu, "
                        "\"error\": \"%s\"}\n",
                        block, sizes.lo, sizes.hi, cudaGetErrorString(e));
            return;
        }
        mallocs.stop();
        if (r == 0) {
            v = look(b.out, sizes);
        }
        frees.start();
        give<<<grid, block>>>(b.handle, b.out);
        MUST(cudaGetLastError());
        frees.stop();
        if (r == 0) {
            mallocs.us.clear(), frees.us.clear(), nulls.us.clear();
        }
    }
    if (wh_heap_check(b.heap, nullptr) != WH_OK) {
        std::fprintf(stderr, "the heap is not sound: %s\n", wh_last_error_text());
        std::exit(1);
    }
    row("null", block, sizes, nulls.us, {0, 0});
    row("malloc", block, sizes, mallocs.us, v);
    row("free", block, sizes, frees.us, {0, 0});
}

int main(int argc, char **argv) {
    wh_heap *heap = nullptr;
    wh_heap_ref handle;
    wh_heap_options o = {};
    if (argc != 3) {
        std::fprintf(stderr, "usage: plain_forms <heap bytes> <repetitions>\n");
        return 2;
    }
    o.bytes = std::strtoull(argv[1], nullptr, 0);
    const unsigned reps = static_cast<unsigned>(std::atoi(argv[2]));
    const wh_status s = wh_heap_create(&heap, &o);
    if (s != WH_OK || wh_heap_handle(heap, &handle) != WH_OK) {
        std::fprintf(stderr, "%s: %s\n", wh_status_name(s), wh_last_error_text());
        return s == WH_NO_DEVICE ? 77 : 1;
    }
    void **out = nullptr;
    MUST(cudaMalloc(&out, THREADS * sizeof *out));
    // What the driver sets aside for stacks when the kernel is first launched.
    size_t before = 0, after = 0, total = 0;
    cudaFuncAttributes a = {};
    MUST(cudaFuncGetAttributes(&a, take));
    MUST(cudaMemGetInfo(&before, &total));
    take<<<1, 32>>>(handle, out, {16, 16});
    MUST(cudaDeviceSynchronize());
    give<<<1, 32>>>(handle, out);
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemGetInfo(&after, &total));
    std::printf(
        "{\"op\": \"kernel\", \"registers\": %d, \"local_bytes\": %zu, \"max_threads\": %d, "
        "\"reserved_bytes\": %zu, \"device\": \"%s\", \"driver\": \"%s\"}\n",
        a.numRegs, a.localSizeBytes, a.maxThreadsPerBlock, before > after ? before - after : 0,
        wh_device_get_info(wh_heap_device(heap))->name,
        wh_device_get_info(wh_heap_device(heap))->driver);
    const range sizes[] = {{16, 16}, {64, 64}, {256, 256}, {1024, 1024}, {4096, 4096}, {16, 4096}};
    for (unsigned block : {256u, 1024u}) {
        for (const range &size : sizes) {
            measure({heap, handle, out, reps}, block, size);
        }
    }
    wh_heap_destroy(heap);
    return 0;
}
