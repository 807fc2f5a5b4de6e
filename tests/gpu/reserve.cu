// reserve.cu: a heap in reserved addresses of a GPU: it extends and trims, blocks keep their
// contents and the device gets its memory back; a reset in a captured graph, which is launched a
// thousand times while the heap grows and shrinks between the launches.
// Exit status 77: there is no GPU.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <warpheap/warpheap.h>

#include "check.h"

static const uint64_t MIB = 1 << 20;

struct block {
    uint64_t *p;
    uint64_t bytes, stamp;
};

// A thread block for each block: verified and freed, or a new one, which is filled.
__global__ void take_blocks(wh_heap_ref heap, block *blocks) {
    __shared__ uint64_t *p;
    block *b = &blocks[blockIdx.x];
    if (threadIdx.x == 0) {
        p = b->p = static_cast<uint64_t *>(wh_malloc(heap, b->bytes));
    }
    __syncthreads();
    for (uint64_t k = threadIdx.x; p != nullptr && k < b->bytes / 8; k += blockDim.x) {
        p[k] = b->stamp + k;
    }
}

__global__ void verify_blocks(const block *blocks, unsigned *wrong) {
    const block b = blocks[blockIdx.x];
    for (uint64_t k = threadIdx.x; b.p != nullptr && k < b.bytes / 8; k += blockDim.x) {
        if (b.p[k] != b.stamp + k) {
            atomicAdd(wrong, 1);
        }
    }
}

__global__ void give_blocks(wh_heap_ref heap, block *blocks) {
    wh_free(heap, blocks[threadIdx.x + blockIdx.x * blockDim.x].p);
}

__global__ void ask(wh_heap_ref heap, uint64_t bytes, void **p) {
    *p = wh_malloc(heap, bytes);
}

__global__ void free_foreign(wh_heap_ref heap, unsigned char *p, uint64_t *said) {
    said[0] = wh_usable_size(heap, p);
    said[1] = static_cast<uint64_t>(wh_owns(heap, p));
    wh_free(heap, p);
}

struct space {
    wh_device *device;
    wh_heap *heap;
    wh_heap_ref handle;
    block *blocks; // these two: memory of the host
    unsigned *wrong;
    uint64_t granule;
};

static const unsigned MOST = 4096;

static space make(uint64_t bytes, uint64_t reserved, uint64_t granule = 0) {
    space s = {};
    wh_heap_options o = {};
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    own.granule_bytes = granule;
    o.options = &own.head;
    CHECK(wh_device_open(&s.device, "cuda", nullptr) == WH_OK);
    o.device = s.device;
    o.reserve_bytes = reserved;
    o.bytes = bytes;
    if (bytes == 0) {
        CHECK(wh_heap_min_bytes(&o, &o.bytes) == WH_OK);
    }
    const wh_status status = wh_heap_create(&s.heap, &o);
    if (status != WH_OK) {
        std::printf("%s: %s %s\n", wh_status_name(status), wh_last_error_text(),
                    wh_device_error_text(s.device));
        std::exit(1);
    }
    CHECK(wh_heap_handle(s.heap, &s.handle) == WH_OK);
    CHECK(cudaMallocHost(&s.blocks, MOST * sizeof *s.blocks) == cudaSuccess);
    CHECK(cudaMallocHost(&s.wrong, 64) == cudaSuccess);
    *s.wrong = 0;
    CHECK(wh_heap_extent(s.heap, nullptr, nullptr, &s.granule) == WH_OK);
    return s;
}

static void drop(space *s) {
    CHECK(wh_heap_check(s->heap, nullptr) == WH_OK);
    CHECK(cudaFreeHost(s->blocks) == cudaSuccess && cudaFreeHost(s->wrong) == cudaSuccess);
    CHECK(wh_heap_destroy(s->heap) == WH_OK);
    wh_device_close(s->device);
}

static uint64_t mapped(const space *s) {
    uint64_t bytes = 0;
    CHECK(wh_heap_extent(s->heap, &bytes, nullptr, nullptr) == WH_OK);
    return bytes;
}

static uint64_t device_free() {
    size_t left = 0, all = 0;
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaMemGetInfo(&left, &all) == cudaSuccess);
    return left;
}

static unsigned live_of(space *s) {
    wh_stats stats;
    CHECK(wh_heap_get_stats(s->heap, &stats) == WH_OK);
    CHECK(stats.heap_bytes == mapped(s));
    return static_cast<unsigned>(stats.live_blocks);
}

// What malloc says of so many bytes; they are given back at once.
static bool has(space *s, uint64_t bytes) {
    s->blocks[MOST - 1].p = nullptr;
    ask<<<1, 1>>>(s->handle, bytes, reinterpret_cast<void **>(&s->blocks[MOST - 1].p));
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    const bool had = s->blocks[MOST - 1].p != nullptr;
    give_blocks<<<1, 1>>>(s->handle, s->blocks + MOST - 1);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    return had;
}

static void rounds() {
    const uint64_t reserved = 2048 * MIB;
    space s = make(64 * MIB, reserved);
    std::srand(1);
    std::vector<block> live;
    uint64_t stamp = 1, most_given = 0;
    for (int turn = 0; turn < 60; turn++) {
        const uint64_t before = device_free(), had = mapped(&s);
        const uint64_t more = static_cast<uint64_t>(std::rand() % 200) * MIB;
        const wh_status status = wh_heap_extend(s.heap, more);
        CHECK(status == WH_OK || status == WH_RESERVE_FULL);
        CHECK(status != WH_OK || mapped(&s) >= had + more);
        CHECK(before - device_free() >= mapped(&s) - had);
        const unsigned n = 200;
        for (unsigned k = 0; k < n; k++) {
            const uint64_t bytes =
                8 + (static_cast<uint64_t>(std::rand()) % (2 * MIB) >> std::rand() % 12) / 8 * 8;
            s.blocks[k] = {nullptr, bytes, stamp++ << 32};
        }
        take_blocks<<<n, 128>>>(s.handle, s.blocks);
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        for (unsigned k = 0; k < n; k++) {
            if (s.blocks[k].p != nullptr) {
                live.push_back(s.blocks[k]);
            }
        }
        const unsigned keep = turn % 6 == 5 ? 0 : static_cast<unsigned>(live.size() * 2 / 3);
        unsigned gone = 0;
        while (live.size() > keep && gone < 1024) {
            const size_t k = static_cast<size_t>(std::rand()) % live.size();
            s.blocks[gone++] = live[k];
            live[k] = live.back();
            live.pop_back();
        }
        if (gone != 0) {
            give_blocks<<<gone, 1>>>(s.handle, s.blocks);
        }
        uint64_t given = 0;
        const uint64_t full = device_free(), most = mapped(&s);
        CHECK(wh_heap_trim(s.heap, turn % 2 == 0 ? 0 : most / 2, &given) == WH_OK);
        CHECK(most - mapped(&s) == given);
        CHECK(device_free() - full >= given);
        most_given = given > most_given ? given : most_given;
        CHECK(wh_heap_check(s.heap, nullptr) == WH_OK);
        CHECK(live_of(&s) == live.size());
        for (size_t k = 0; k < live.size(); k++) {
            s.blocks[k] = live[k];
        }
        if (!live.empty()) {
            verify_blocks<<<static_cast<unsigned>(live.size()), 128>>>(s.blocks, s.wrong);
        }
        CHECK(cudaDeviceSynchronize() == cudaSuccess && *s.wrong == 0);
    }
    CHECK(most_given > 100 * MIB);
    drop(&s);
}

// Larger than what is mapped, across old and new memory; pointers into what is gone.
static void exact() {
    space s = make(0, 4096 * MIB);
    CHECK(has(&s, s.granule));
    CHECK(!has(&s, 2 * s.granule));
    CHECK(!has(&s, 512 * MIB));
    CHECK(wh_heap_extend(s.heap, 512 * MIB - s.granule) == WH_OK);
    CHECK(has(&s, 512 * MIB));
    CHECK(!has(&s, 513 * MIB));
    CHECK(wh_heap_extend(s.heap, 4096 * MIB) == WH_RESERVE_FULL);
    uint64_t given = 0;
    unsigned char *gone = s.handle.base + 100 * MIB;
    CHECK(wh_heap_trim(s.heap, 0, &given) == WH_OK && given >= 512 * MIB);
    uint64_t *said = reinterpret_cast<uint64_t *>(s.blocks);
    free_foreign<<<1, 1>>>(s.handle, gone, said);
    CHECK(cudaDeviceSynchronize() == cudaSuccess && said[0] == 0 && said[1] == 0);
    wh_stats stats;
    CHECK(wh_heap_get_stats(s.heap, &stats) == WH_OK && stats.bad_frees == 1);
    CHECK(!has(&s, 16));
    CHECK(wh_heap_extend(s.heap, 1) == WH_OK && has(&s, 16));
    drop(&s);
}

// What a reservation of all of the GPU costs, and what the whole of it does.
static void large() {
    size_t left = 0, all = 0;
    CHECK(cudaMemGetInfo(&left, &all) == cudaSuccess);
    const uint64_t before = device_free();
    space s = make(0, all);
    const uint64_t fixed = mapped(&s);
    std::printf("%.1f GiB reserved: %.1f MiB mapped (%.3f %%)\n",
                static_cast<double>(all) / 1073741824.0, static_cast<double>(fixed) / 1048576.0,
                static_cast<double>(fixed) * 100 / static_cast<double>(all));
    CHECK(fixed < all / 400);
    CHECK(before - device_free() >= fixed && before - device_free() < fixed + 64 * MIB);
    CHECK(wh_heap_extend(s.heap, left / 4) == WH_OK);
    CHECK(has(&s, left / 4));
    CHECK(wh_heap_extend(s.heap, all) == WH_RESERVE_FULL);
    CHECK(has(&s, left / 4));
    uint64_t given = 0;
    CHECK(wh_heap_trim(s.heap, 0, &given) == WH_OK && given >= left / 4);
    drop(&s);

    // More than the GPU has: all that was mapped goes back.
    s = make(0, all + 8192 * MIB, 64 * MIB);
    const uint64_t had = mapped(&s), then = device_free();
    CHECK(wh_heap_extend(s.heap, all) == WH_OUT_OF_MEMORY);
    CHECK(mapped(&s) == had && device_free() + 16 * MIB >= then);
    CHECK(wh_heap_extend(s.heap, 64 * MIB) == WH_OK && has(&s, 128 * MIB));
    drop(&s);
}

__global__ void fill_up(wh_heap_ref heap, uint64_t bytes, unsigned long long *n) {
    while (wh_malloc(heap, bytes) != nullptr) {
        atomicAdd(n, 1);
    }
}

// Reset, fill until NULL, statistics, check: captured once, of a heap that is another one later.
static void graphs() {
    space s = make(64 * MIB, 512 * MIB);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    wh_stats *stats, now;
    wh_report *report, verdict;
    unsigned long long *n, filled = 0;
    CHECK(cudaMalloc(&stats, sizeof *stats) == cudaSuccess);
    CHECK(cudaMalloc(&report, sizeof *report) == cudaSuccess);
    CHECK(cudaMalloc(&n, sizeof *n) == cudaSuccess);
    fill_up<<<1, 32>>>(s.handle, 60000, n); // loads the kernel
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    CHECK(wh_heap_reset_async(s.heap, stream) == WH_OK);
    CHECK(cudaMemsetAsync(n, 0, sizeof *n, stream) == cudaSuccess);
    fill_up<<<8, 64, 0, stream>>>(s.handle, 60000, n);
    CHECK(wh_heap_get_stats_async(s.heap, stats, stream) == WH_OK);
    CHECK(wh_heap_check_async(s.heap, report, stream) == WH_OK);
    CHECK(wh_heap_reset_async(s.heap, stream) == WH_OK);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    CHECK(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    CHECK(cudaGraphLaunch(exec, stream) == cudaSuccess);
    const uint64_t before = device_free(), had = mapped(&s);
    for (int k = 0; k < 1000 && failures == 0; k++) {
        if (k % 40 == 20) { // holes, too
            CHECK(wh_heap_extend(s.heap, static_cast<uint64_t>(k % 7 + 1) * 8 * MIB) == WH_OK);
        } else if (k % 40 == 30) {
            CHECK(wh_heap_trim(s.heap, k % 80 == 30 ? had : 0, nullptr) == WH_OK);
        }
        CHECK(cudaGraphLaunch(exec, stream) == cudaSuccess);
        CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
        CHECK(cudaMemcpy(&now, stats, sizeof now, cudaMemcpyDefault) == cudaSuccess);
        CHECK(cudaMemcpy(&verdict, report, sizeof verdict, cudaMemcpyDefault) == cudaSuccess);
        CHECK(cudaMemcpy(&filled, n, sizeof filled, cudaMemcpyDefault) == cudaSuccess);
        CHECK(now.live_blocks == filled && now.heap_bytes == mapped(&s) && verdict.errors == 0);
        const uint64_t room = now.heap_bytes - now.metadata_bytes;
        CHECK(filled * 60000 <= room && filled * 60000 + room / 8 + 4 * MIB >= room);
        CHECK(now.bad_frees == 0);
    }
    CHECK(wh_heap_trim(s.heap, 0, nullptr) == WH_OK);
    CHECK(mapped(&s) < had);
    CHECK(wh_heap_extend(s.heap, had - mapped(&s) - 2 * s.granule) == WH_OK);
    CHECK(device_free() + 8 * MIB >= before);
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    CHECK(cudaFree(stats) == cudaSuccess && cudaFree(report) == cudaSuccess);
    CHECK(cudaFree(n) == cudaSuccess);
    drop(&s);
}

int main() {
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) {
        return 77;
    }
    CHECK(cudaFree(nullptr) == cudaSuccess);
    rounds();
    exact();
    const uint64_t before = device_free();
    large();
    graphs();
    CHECK(device_free() + 16 * MIB >= before); // nothing stays
    std::printf("%d failures\n", failures);
    return failures != 0;
}
