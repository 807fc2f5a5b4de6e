// host_calls.cu: host calls on a GPU as CUDA programs use them: "auto" is the GPU, heaps of the
// simulated device are refused, calls on streams wait for their stream alone, asynchronous calls
// can be captured into a graph, several GPUs, the caller's current device stays.
// Exit status 77: there is no GPU; what can be checked without one has been.
#include <cstdio>
#include <cstring>

#include <warpheap/warpheap.h>

#include "check.h"

static const unsigned THREADS = 1000;

__global__ void take_blocks(wh_heap_ref heap, void **blocks) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < THREADS) {
        blocks[i] = wh_malloc(heap, 16 + i);
    }
}

__global__ void give_blocks(wh_heap_ref heap, void **blocks) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < THREADS) {
        wh_free(heap, blocks[i]);
    }
}

// Until the host says so, or for about four seconds.
__global__ void spin(const volatile int *go) {
    for (long long begin = clock64(); *go == 0 && clock64() - begin < 8000000000LL;) {
    }
}

struct space {
    wh_device *device;
    wh_heap *heap;
    wh_heap_ref handle;
    void **blocks;
};

static space make(const char *spec) {
    space s = {};
    wh_heap_options o = {};
    CHECK(wh_device_open(&s.device, spec, nullptr) == WH_OK);
    o.bytes = 64 << 20;
    o.device = s.device;
    CHECK(wh_heap_create(&s.heap, &o) == WH_OK);
    CHECK(wh_heap_handle(s.heap, &s.handle) == WH_OK);
    CHECK(wh_device_alloc(s.device, reinterpret_cast<void **>(&s.blocks),
                          THREADS * sizeof(void *)) == WH_OK);
    return s;
}

static void drop(space *s) {
    CHECK(wh_device_free(s->device, s->blocks) == WH_OK);
    wh_heap_destroy(s->heap);
    wh_device_close(s->device);
}

static unsigned long long live(wh_heap *heap) {
    wh_stats s;
    CHECK(wh_heap_get_stats(heap, &s) == WH_OK);
    return s.live_blocks;
}

// In a file that nvcc compiles nothing but its name gives the simulated device.
static void targets(bool gpu) {
    wh_device *d = nullptr;
    wh_heap *heap = nullptr;
    wh_heap_ref handle;
    wh_heap_options o = {};
    const char *specs[] = {"auto", "cuda", nullptr};
    for (const char *spec : specs) {
        CHECK(wh_device_open(&d, spec, nullptr) == (gpu ? WH_OK : WH_NO_DEVICE));
        CHECK(gpu || std::strlen(wh_last_error_text()) > 20);
        CHECK(!gpu || wh_device_get_info(d)->target == WH_TARGET_CUDA);
        wh_device_close(d);
    }
    o.bytes = 1 << 20;
    CHECK(wh_heap_create(&heap, &o) == (gpu ? WH_OK : WH_NO_DEVICE));
    wh_heap_destroy(heap);
    CHECK(wh_device_open(&d, "sim", nullptr) == WH_OK);
    o.device = d;
    CHECK(wh_heap_create(&heap, &o) == WH_OK);
    CHECK(wh_heap_handle(heap, &handle) == WH_WRONG_TARGET);
    CHECK(std::strstr(wh_last_error_text(), "simulated device") != nullptr);
    wh_heap_destroy(heap);
    wh_device_close(d);
}

static int count_visit(void *n, void *, uint64_t) {
    ++*static_cast<unsigned long long *>(n);
    return 0;
}

// Everything that takes a stream, on a heap of its own.
static void on_stream(space *s, cudaStream_t mine, cudaStream_t busy) {
    wh_stats stats;
    wh_report report;
    unsigned long long visited = 0;
    uint64_t left = 0;
#define BUSY() CHECK(busy == nullptr || cudaStreamQuery(busy) == cudaErrorNotReady)
    take_blocks<<<4, 256, 0, mine>>>(s->handle, s->blocks);
    CHECK(wh_heap_get_stats_on(s->heap, &stats, mine) == WH_OK);
    CHECK(stats.live_blocks == THREADS && stats.failed == 0);
    BUSY();
    CHECK(wh_heap_check_on(s->heap, &report, mine) == WH_OK);
    BUSY();
    CHECK(wh_heap_blocks_left_on(s->heap, 4096, &left, mine) == WH_OK && left > 10000);
    BUSY();
    CHECK(wh_heap_walk_on(s->heap, count_visit, &visited, mine) == WH_OK);
    CHECK(visited == THREADS);
    BUSY();
    give_blocks<<<4, 256, 0, mine>>>(s->handle, s->blocks);
    CHECK(wh_heap_get_stats_on(s->heap, &stats, mine) == WH_OK && stats.live_blocks == 0);
    CHECK(wh_heap_reset_on(s->heap, mine) == WH_OK);
    BUSY();
    take_blocks<<<4, 256, 0, mine>>>(s->handle, s->blocks);
    wh_heap_destroy_on(s->heap, mine);
    BUSY();
    CHECK(cudaStreamSynchronize(mine) == cudaSuccess);
}

// A call on a stream waits for no other: a kernel that spins elsewhere goes on. destroy, too.
static void streams() {
    cudaStream_t busy, mine;
    int *go = nullptr;
    CHECK(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaHostAlloc(reinterpret_cast<void **>(&go), sizeof *go, cudaHostAllocMapped) ==
          cudaSuccess);
    *go = 0;
    // Once beforehand: the first launch of each kernel loads it, which waits for the device.
    for (int i = 0; i < 2; i++) {
        space s = make("cuda");
        if (i == 1) {
            spin<<<1, 1, 0, busy>>>(go);
        }
        on_stream(&s, mine, i == 1 ? busy : nullptr);
        *const_cast<volatile int *>(go) = i;
        CHECK(cudaStreamSynchronize(busy) == cudaSuccess);
        CHECK(wh_device_free(s.device, s.blocks) == WH_OK);
        wh_device_close(s.device);
    }
    CHECK(cudaFreeHost(go) == cudaSuccess);
    CHECK(cudaStreamDestroy(busy) == cudaSuccess && cudaStreamDestroy(mine) == cudaSuccess);
}

// reset, kernels, statistics, check: captured once, run three times.
static void graphs() {
    space s = make("cuda");
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    wh_stats *stats, host;
    wh_report *report, verdict;
    CHECK(cudaMalloc(&stats, sizeof *stats) == cudaSuccess);
    CHECK(cudaMalloc(&report, sizeof *report) == cudaSuccess);
    CHECK(cudaStreamCreate(&stream) == cudaSuccess);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    CHECK(wh_heap_reset_async(s.heap, stream) == WH_OK);
    take_blocks<<<4, 256, 0, stream>>>(s.handle, s.blocks);
    CHECK(wh_heap_get_stats_async(s.heap, stats, stream) == WH_OK);
    CHECK(wh_heap_check_async(s.heap, report, stream) == WH_OK);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    CHECK(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    CHECK(live(s.heap) == 0); // nothing has run
    for (int i = 0; i < 3; i++) {
        CHECK(cudaMemset(stats, 0x55, sizeof *stats) == cudaSuccess);
        CHECK(cudaMemset(report, 0x55, sizeof *report) == cudaSuccess);
        CHECK(cudaGraphLaunch(exec, stream) == cudaSuccess);
        CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
        CHECK(cudaMemcpy(&host, stats, sizeof host, cudaMemcpyDefault) == cudaSuccess);
        CHECK(cudaMemcpy(&verdict, report, sizeof verdict, cudaMemcpyDefault) == cudaSuccess);
        CHECK(host.live_blocks == THREADS && host.heap_bytes == 64 << 20);
        CHECK(host.struct_bytes == sizeof host && host.peak_bytes == WH_UNKNOWN);
        CHECK(verdict.errors == 0);
    }
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    CHECK(cudaFree(stats) == cudaSuccess && cudaFree(report) == cudaSuccess);
    drop(&s);
}

typedef struct kernel_args {
    wh_heap_ref heap;
    void **blocks;
} kernel_args;

WH_KERNEL(take_by_launch, kernel_args, a) {
    if (wh_thread_id() < THREADS) {
        a.blocks[wh_thread_id()] = wh_malloc(a.heap, 16 + wh_thread_id());
    }
}

// A heap on each GPU, used while another one is current; a launch goes to its device's GPU.
static void devices() {
    int n = 0;
    CHECK(cudaGetDeviceCount(&n) == cudaSuccess);
    for (int own = 0; own < n; own++) {
        const int other = (own + 1) % n;
        char spec[16];
        std::snprintf(spec, sizeof spec, "cuda:%d", own);
        CHECK(cudaSetDevice(other) == cudaSuccess);
        space s = make(spec);
        kernel_args a = {s.handle, s.blocks};
        wh_launch l = {};
        l.device = s.device;
        l.blocks = 4;
        l.threads = 256;
        CHECK(take_by_launch(&l, &a) == WH_OK);
        CHECK(live(s.heap) == THREADS);
        CHECK(wh_heap_check(s.heap, nullptr) == WH_OK);
        void *base = nullptr;
        uint64_t bytes = 0;
        cudaPointerAttributes where;
        CHECK(wh_heap_memory(s.heap, &base, &bytes) == WH_OK);
        CHECK(cudaPointerGetAttributes(&where, base) == cudaSuccess && where.device == own);
        CHECK(wh_heap_reset(s.heap) == WH_OK && live(s.heap) == 0);
        drop(&s);
        int now = -1;
        CHECK(cudaGetDevice(&now) == cudaSuccess && now == other);
    }
    CHECK(cudaSetDevice(0) == cudaSuccess);
    std::printf("%d GPU%s\n", n, n == 1 ? "" : "s");
}

int main() {
    int n = 0;
    const bool gpu = cudaGetDeviceCount(&n) == cudaSuccess && n > 0;
    targets(gpu);
    if (gpu) {
        streams();
        graphs();
        devices();
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
    }
    std::printf("%d failures\n", failures);
    if (failures != 0) {
        return 1;
    }
    return gpu ? 0 : 77;
}
