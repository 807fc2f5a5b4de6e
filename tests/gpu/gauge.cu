// gauge.cu: a gauge on a GPU. It is read while a kernel runs that does not end before the host has
// seen what it wants; while all SMs are busy; while another thread captures a graph; and of a quiet
// heap it says what the statistics say, plain and reserved.
// Exit status 77: there is no GPU.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include <warpheap/gauge.h>
#include <warpheap/warpheap.h>

#include "check.h"

static const uint64_t MIB = 1 << 20;
static const unsigned N = 1 << 16;

__global__ void turn(wh_heap_ref heap, void **blocks, unsigned seed) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    wh_free(heap, blocks[i]);
    blocks[i] = seed == 0 ? nullptr : wh_malloc(heap, 16 + (i * 37 + seed * 101) % 1500);
}

// N blocks, then nothing until the host says so (or about 3 s), then they go. It is launched with
// as many blocks as the GPU holds, so that no other kernel can run beside it. One thread of a block
// looks, now and then: all of them would keep the way to the host's memory busy.
__global__ void hold(wh_heap_ref heap, void **blocks, const volatile int *go) {
    const unsigned n = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned i = first; i < N; i += n) {
        blocks[i] = wh_malloc(heap, 256);
    }
    if (threadIdx.x == 0) {
        for (long long begin = clock64(); *go == 0 && clock64() - begin < 6000000000LL;) {
            __nanosleep(1000);
        }
    }
    __syncthreads();
    for (unsigned i = first; i < N; i += n) {
        wh_free(heap, blocks[i]);
    }
}

struct space {
    wh_heap *heap;
    wh_heap_ref handle;
    wh_gauge *gauge;
    void **blocks;
};

static space make(uint64_t bytes, uint64_t reserved) {
    space s = {};
    wh_heap_options o = {};
    o.bytes = bytes;
    o.reserve_bytes = reserved;
    CHECK(wh_heap_create(&s.heap, &o) == WH_OK);
    CHECK(wh_heap_handle(s.heap, &s.handle) == WH_OK);
    CHECK(wh_gauge_open(&s.gauge, s.heap) == WH_OK);
    CHECK(cudaMalloc(&s.blocks, N * sizeof *s.blocks) == cudaSuccess);
    CHECK(cudaMemset(s.blocks, 0, N * sizeof *s.blocks) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    return s;
}

static void drop(space *s) {
    CHECK(wh_gauge_close(s->gauge) == WH_OK);
    CHECK(cudaFree(s->blocks) == cudaSuccess);
    CHECK(wh_heap_destroy(s->heap) == WH_OK);
}

static void compare(const space &s) {
    wh_gauge_sample sample;
    wh_stats stats;
    CHECK(wh_heap_get_stats(s.heap, &stats) == WH_OK);
    CHECK(wh_gauge_read(s.gauge, WH_GAUGE_BLOCKS, &sample) == WH_OK);
    CHECK(sample.live_blocks == stats.live_blocks && sample.used_bytes == stats.used_bytes);
    CHECK(sample.failed == stats.failed && sample.bad_frees == stats.bad_frees);
    CHECK(sample.heap_bytes == stats.heap_bytes);
    CHECK(sample.metadata_bytes == stats.metadata_bytes);
    CHECK(sample.claimed_bytes >= sample.used_bytes);
}

static void quiet(uint64_t reserved) {
    space s = make(256 * MIB, reserved);
    compare(s);
    for (unsigned k = 1; k <= 5; k++) {
        turn<<<N / 256, 256>>>(s.handle, s.blocks, k);
        compare(s);
        if (reserved != 0) {
            CHECK(wh_heap_extend(s.heap, 32 * MIB) == WH_OK);
            compare(s);
            CHECK(wh_heap_trim(s.heap, 0, nullptr) == WH_OK);
            compare(s);
        }
    }
    turn<<<N / 256, 256>>>(s.handle, s.blocks, 0);
    compare(s);
    drop(&s);
}

// The kernel waits for the host, and the host for what the gauge says of the kernel: a gauge that
// waited for kernels would see nothing before their 3 s are over.
static void busy() {
    space s = make(256 * MIB, 0);
    int *go = nullptr, n_sms = 0, each = 0;
    CHECK(cudaDeviceGetAttribute(&n_sms, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess);
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, hold, 256, 0) == cudaSuccess);
    CHECK(cudaHostAlloc(&go, sizeof *go, cudaHostAllocMapped) == cudaSuccess);
    *go = 1; // once beforehand: that loads the kernel
    hold<<<n_sms * each, 256>>>(s.handle, s.blocks, go);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    *go = 0;
    cudaEvent_t end;
    CHECK(cudaEventCreateWithFlags(&end, cudaEventDisableTiming) == cudaSuccess);
    hold<<<n_sms * each, 256>>>(s.handle, s.blocks, go);
    CHECK(cudaEventRecord(end) == cudaSuccess);
    wh_gauge_sample sample = {};
    unsigned looks = 0;
    const auto begin = std::chrono::steady_clock::now();
    while (sample.live_blocks != N && cudaEventQuery(end) == cudaErrorNotReady &&
           std::chrono::steady_clock::now() - begin < std::chrono::seconds(2)) {
        CHECK(wh_gauge_read(s.gauge, WH_GAUGE_BLOCKS, &sample) == WH_OK);
        looks++;
    }
    const cudaError_t state = cudaEventQuery(end);
    std::printf("%u looks; the last one took %.3f ms for %.1f MiB, and saw %llu blocks of %u\n",
                looks, static_cast<double>(sample.took_ns) * 1e-6,
                static_cast<double>(sample.read_bytes) / static_cast<double>(MIB),
                static_cast<unsigned long long>(sample.live_blocks), N);
    CHECK(sample.live_blocks == N && sample.used_bytes >= 256ull * N);
    CHECK(state == cudaErrorNotReady); // the kernel runs on
    *const_cast<volatile int *>(go) = 1;
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    compare(s);
    CHECK(cudaEventDestroy(end) == cudaSuccess && cudaFreeHost(go) == cudaSuccess);
    drop(&s);
}

// A thread reads while this one launches, captures a graph, extends and trims. It pauses between
// reads, since a read holds the lock that extend and trim want.
static void beside() {
    space s = make(64 * MIB, 2048 * MIB);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    std::atomic<bool> stop(false);
    std::atomic<unsigned> looks(0);
    CHECK(wh_heap_extend(s.heap, 192 * MIB) == WH_OK);
    CHECK(cudaStreamCreate(&stream) == cudaSuccess);
    std::thread reader([&] {
        while (!stop) {
            wh_gauge_sample sample;
            CHECK(wh_gauge_read(s.gauge, WH_GAUGE_BLOCKS, &sample) == WH_OK);
            CHECK(sample.used_bytes <= 2048 * MIB);
            looks++;
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
    });
    const auto begin = std::chrono::steady_clock::now();
    unsigned turns = 0;
    for (unsigned k = 1; k <= 40; k++) {
        if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(8)) {
            break;
        }
        turns = k;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
        for (unsigned i = 0; i < 10; i++) {
            turn<<<N / 256, 256, 0, stream>>>(s.handle, s.blocks, k + i);
        }
        const unsigned seen = looks;
        for (unsigned i = 0; looks < seen + 2 && i < 1000; i++) { // a whole look within
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        CHECK(looks >= seen + 2);
        CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
        CHECK(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
        CHECK(cudaGraphLaunch(exec, stream) == cudaSuccess);
        CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
        CHECK(cudaGraphExecDestroy(exec) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess);
        CHECK(wh_heap_extend(s.heap, 16 * MIB) == WH_OK);
        CHECK(wh_heap_trim(s.heap, 0, nullptr) == WH_OK);
        CHECK(wh_heap_extend(s.heap, 64 * MIB) == WH_OK);
    }
    stop = true;
    reader.join();
    std::printf("%u looks beside %u turns\n", looks.load(), turns);
    CHECK(turns == 40 && looks > 40);
    turn<<<N / 256, 256>>>(s.handle, s.blocks, 0);
    compare(s);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    drop(&s);
}

int main() {
    (void)std::setvbuf(stdout, nullptr, _IONBF, 0); // also what comes before a time limit
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) {
        std::puts("no GPU");
        return 77;
    }
    std::puts("quiet");
    quiet(0);
    std::puts("quiet, reserved");
    quiet(1024 * MIB);
    std::puts("busy");
    busy();
    std::puts("beside");
    beside();
    std::puts(failures == 0 ? "as the statistics say" : "FAILED");
    return failures == 0 ? 0 : 1;
}
