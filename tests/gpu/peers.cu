// peers.cu: a heap of one GPU that kernels of two GPUs use at the same time: blocks of both are
// disjoint, each frees those of the other, also while both run; memory of each kind, and a heap
// that is extended. What is refused. Exit status 77: there are no two GPUs whose link has access
// and atomics.
#define WH_PEERS 1
#include <warpheap/warpheap.h>

#include <cstring>

#include "check.h"

static const uint64_t MIB = 1 << 20;
static const unsigned N = 1 << 15, THREADS = 256;

struct side {
    wh_device *device;
    cudaStream_t stream;
    unsigned *wrong; // of its own memory
    uint64_t **blocks;
};

__device__ static void write_block(uint64_t *p, uint64_t words, uint64_t value) {
    p[0] = words;
    for (uint64_t k = 1; k < words; k++) {
        p[k] = value + k;
    }
}

__device__ static bool is_whole(const uint64_t *p, uint64_t value) {
    bool whole = true;
    for (uint64_t k = 1; k < p[0]; k++) {
        whole &= p[k] == value + k;
    }
    return whole;
}

// Sizes from 16 to 1024 bytes.
__device__ static uint64_t words_of(uint64_t i, uint64_t round) {
    return 2 + (i * 7 + round * 13) % 127;
}

__global__ void take(wh_heap_ref heap, uint64_t **blocks, uint64_t round) {
    const uint64_t i = wh_thread_id(), words = words_of(i, round);
    blocks[i] = static_cast<uint64_t *>(wh_malloc(heap, words * 8));
    if (blocks[i] != nullptr) {
        write_block(blocks[i], words, i << 8);
    }
}

__global__ void give(wh_heap_ref heap, uint64_t **blocks, unsigned *wrong) {
    const uint64_t i = wh_thread_id();
    if (blocks[i] == nullptr || !is_whole(blocks[i], i << 8)) {
        atomicAdd(wrong, 1);
    }
    wh_free(heap, blocks[i]);
    blocks[i] = nullptr;
}

// Puts a block into a box, and frees the one that was there: often of the other GPU.
__global__ void pass(wh_heap_ref heap, uint64_t *boxes, unsigned n_boxes, unsigned rounds,
                     uint64_t seed, unsigned *wrong) {
    const uint64_t i = wh_thread_id();
    uint64_t random = seed + i;
    for (unsigned round = 0; round < rounds; round++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint64_t words = words_of(random >> 40, round);
        uint64_t *p = static_cast<uint64_t *>(wh_malloc(heap, words * 8));
        if (p == nullptr) {
            atomicAdd(wrong, 1);
            continue;
        }
        write_block(p, words, random);
        p[1] = random; // whose it is: words 2 and up say so again
        uint64_t *box = &boxes[(random >> 33) % n_boxes];
        const uint64_t old = wh_exchange_u64_acq_rel(box, reinterpret_cast<uint64_t>(p));
        if (old != 0) {
            uint64_t *q = reinterpret_cast<uint64_t *>(old);
            bool whole = true;
            for (uint64_t k = 2; k < q[0]; k++) {
                whole &= q[k] == q[1] + k;
            }
            if (!whole) {
                atomicAdd(wrong, 1);
            }
            wh_free(heap, q);
        }
    }
}

__global__ void empty(wh_heap_ref heap, uint64_t *boxes, unsigned n_boxes) {
    for (uint64_t k = wh_thread_id(); k < n_boxes; k += wh_grid_threads()) {
        wh_free(heap, reinterpret_cast<void *>(boxes[k]));
        boxes[k] = 0;
    }
}

static void use(const side &s) {
    CHECK(cudaSetDevice(wh_device_get_info(s.device)->ordinal) == cudaSuccess);
}

static void open_side(side *s, int ordinal) {
    char spec[16];
    std::snprintf(spec, sizeof spec, "cuda:%d", ordinal);
    CHECK(wh_device_open(&s->device, spec, nullptr) == WH_OK);
    use(*s);
    CHECK(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaMalloc(&s->wrong, sizeof *s->wrong) == cudaSuccess);
    CHECK(cudaMallocManaged(&s->blocks, N * sizeof *s->blocks) == cudaSuccess);
    CHECK(cudaMemset(s->wrong, 0, sizeof *s->wrong) == cudaSuccess);
}

static void close_side(side *s) {
    use(*s);
    CHECK(cudaFree(s->wrong) == cudaSuccess && cudaFree(s->blocks) == cudaSuccess);
    CHECK(cudaStreamDestroy(s->stream) == cudaSuccess);
    wh_device_close(s->device);
}

static void wait_for(const side &s) {
    use(s);
    CHECK(cudaStreamSynchronize(s.stream) == cudaSuccess);
}

static unsigned wrong_of(const side &s) {
    unsigned n = ~0u;
    use(s);
    CHECK(cudaMemcpy(&n, s.wrong, sizeof n, cudaMemcpyDeviceToHost) == cudaSuccess);
    return n;
}

static void is_empty(wh_heap *heap) {
    wh_stats stats;
    wh_report report;
    CHECK(wh_heap_check(heap, &report) == WH_OK);
    CHECK(wh_heap_get_stats(heap, &stats) == WH_OK);
    CHECK(stats.live_blocks == 0 && stats.bad_frees == 0);
}

// Both take at the same time, and then free each other's.
static void swap_blocks(wh_heap *heap, wh_heap_ref ref, side s[2], uint64_t round) {
    for (int i = 0; i < 2; i++) {
        use(s[i]);
        take<<<N / THREADS, THREADS, 0, s[i].stream>>>(ref, s[i].blocks, round + i);
    }
    wait_for(s[0]);
    wait_for(s[1]);
    wh_stats stats;
    CHECK(wh_heap_get_stats(heap, &stats) == WH_OK && stats.live_blocks == 2 * N);
    for (int i = 0; i < 2; i++) {
        use(s[i]);
        give<<<N / THREADS, THREADS, 0, s[i].stream>>>(ref, s[1 - i].blocks, s[i].wrong);
    }
    wait_for(s[0]);
    wait_for(s[1]);
    CHECK(wrong_of(s[0]) == 0 && wrong_of(s[1]) == 0);
    is_empty(heap);
}

static void pass_blocks(wh_heap *heap, wh_heap_ref ref, side s[2]) {
    const unsigned n_boxes = 4096;
    uint64_t *boxes = nullptr;
    use(s[0]);
    CHECK(cudaMalloc(&boxes, n_boxes * sizeof *boxes) == cudaSuccess);
    CHECK(cudaMemset(boxes, 0, n_boxes * sizeof *boxes) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    for (int i = 0; i < 2; i++) {
        use(s[i]);
        pass<<<N / THREADS, THREADS, 0, s[i].stream>>>(ref, boxes, n_boxes, 64, 1000003u * i,
                                                       s[i].wrong);
    }
    wait_for(s[1]);
    wait_for(s[0]);
    use(s[0]);
    empty<<<16, THREADS, 0, s[0].stream>>>(ref, boxes, n_boxes);
    wait_for(s[0]);
    CHECK(cudaFree(boxes) == cudaSuccess);
    CHECK(wrong_of(s[0]) == 0 && wrong_of(s[1]) == 0);
    is_empty(heap);
}

enum kind { OF_DEVICE, OF_CALLER, RESERVED, N_KINDS };

static void test_kind(kind what, side s[2]) {
    wh_heap_options options = {};
    wh_heap *heap = nullptr;
    void *memory = nullptr;
    wh_heap_ref ref;
    options.device = s[0].device;
    options.bytes = 256 * MIB;
    options.reserve_bytes = what == RESERVED ? 1024 * MIB : 0;
    if (what == OF_CALLER) { // the boxes of pass_blocks need it, too
        CHECK(wh_device_alloc(s[0].device, &memory, options.bytes) == WH_OK);
        options.memory = memory;
    }
    CHECK(wh_heap_create(&heap, &options) == WH_OK);
    CHECK(wh_heap_enable_peer(heap, s[0].device) == WH_BAD_ARGUMENT);
    CHECK(wh_heap_enable_peer(heap, s[1].device) == WH_OK);
    CHECK(wh_heap_enable_peer(heap, s[1].device) == WH_OK && wh_heap_peers(heap) == 1);
    CHECK(wh_heap_handle(heap, &ref) == WH_OK);
    for (uint64_t round = 0; round < 4; round++) {
        swap_blocks(heap, ref, s, round);
        if (what == RESERVED) {
            CHECK(wh_heap_extend(heap, 128 * MIB) == WH_OK);
        }
        pass_blocks(heap, ref, s);
    }
    CHECK(wh_heap_reset(heap) == WH_OK);
    swap_blocks(heap, ref, s, 9);
    CHECK(wh_heap_destroy(heap) == WH_OK);
    CHECK(wh_device_free(s[0].device, memory) == WH_OK);
}

int main() {
    int access = 0, back = 0, atomics = 0;
    if (wh_device_cuda_count() < 2 || cudaDeviceCanAccessPeer(&access, 1, 0) != cudaSuccess ||
        cudaDeviceCanAccessPeer(&back, 0, 1) != cudaSuccess ||
        cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, 1, 0) !=
            cudaSuccess ||
        !access || !back || !atomics) {
        std::printf("no two GPUs whose link has access and atomics\n");
        return 77;
    }
    side s[2] = {};
    open_side(&s[0], 0);
    open_side(&s[1], 1);
    // Boxes lie in memory of cudaMalloc, which a heap in such memory would open, too.
    use(s[1]);
    const cudaError_t opened = cudaDeviceEnablePeerAccess(0, 0);
    CHECK(opened == cudaSuccess || opened == cudaErrorPeerAccessAlreadyEnabled);
    (void)cudaGetLastError();
    for (int what = 0; what < N_KINDS; what++) {
        test_kind(static_cast<kind>(what), s);
    }
    close_side(&s[0]);
    close_side(&s[1]);
    std::printf(failures == 0 ? "all right\n" : "%d failures\n", failures);
    return failures != 0;
}
