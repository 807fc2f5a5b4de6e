// memory_kinds.cu: a heap over memory of every kind that kernels of a GPU can address: cudaMalloc,
// cudaMallocAsync, a pool of the caller's, managed, pinned host memory; handed over, and by two
// functions. Kernels of several streams allocate, fill, verify and free; statistics, walk and check
// answer; what the heap took comes back.
// Exit status 77: there is no GPU.
#include <cstdio>
#include <map>

#include <warpheap/warpheap.h>

#include "check.h"

static const uint64_t MIB = 1 << 20;
static const unsigned N = 1 << 14;

enum kind { PLAIN, ASYNC, POOL, MANAGED, PINNED, N_KINDS };
static const char *const names[] = {"cudaMalloc", "cudaMallocAsync", "cudaMemPool_t",
                                    "cudaMallocManaged", "cudaHostAlloc"};

// Memory of a kind, and what of it is out.
struct source {
    kind what;
    cudaMemPool_t pool;
    std::map<void *, uint64_t> out;
};

static void *take(uint64_t bytes, uint64_t align, void *stream, void *user) {
    source *s = static_cast<source *>(user);
    const cudaStream_t on = static_cast<cudaStream_t>(stream);
    void *p = nullptr, *host = nullptr;
    cudaError_t error = cudaErrorInvalidValue;
    switch (s->what) {
    case PLAIN:
        error = cudaMalloc(&p, bytes);
        break;
    case ASYNC:
        error = cudaMallocAsync(&p, bytes, on);
        break;
    case POOL:
        error = cudaMallocFromPoolAsync(&p, bytes, s->pool, on);
        break;
    case MANAGED:
        error = cudaMallocManaged(&p, bytes);
        break;
    default:
        error = cudaHostAlloc(&host, bytes, cudaHostAllocMapped);
        error = error == cudaSuccess ? cudaHostGetDevicePointer(&p, host, 0) : error;
        CHECK(error != cudaSuccess || p == host); // else `give` had to know both
    }
    CHECK(error == cudaSuccess && reinterpret_cast<uintptr_t>(p) % align == 0);
    if (error == cudaSuccess) {
        s->out[p] = bytes;
    }
    return error == cudaSuccess ? p : nullptr;
}

static void give(void *p, uint64_t bytes, void *stream, void *user) {
    source *s = static_cast<source *>(user);
    const cudaStream_t on = static_cast<cudaStream_t>(stream);
    CHECK(s->out.count(p) == 1 && s->out[p] == bytes);
    s->out.erase(p);
    if (s->what == ASYNC || s->what == POOL) {
        CHECK(cudaFreeAsync(p, on) == cudaSuccess);
    } else {
        CHECK((s->what == PINNED ? cudaFreeHost(p) : cudaFree(p)) == cudaSuccess);
    }
}

// Frees and verifies what is there, takes and fills something else.
__global__ void turn(wh_heap_ref heap, uint64_t **blocks, unsigned seed, unsigned *wrong) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    uint64_t *p = blocks[i];
    if (p != nullptr) {
        const uint64_t n = p[0];
        for (uint64_t k = 1; k < n; k++) {
            if (p[k] != i + k) {
                atomicAdd(wrong, 1);
            }
        }
        wh_free(heap, p);
    }
    const uint64_t n = seed == 0 ? 0 : 2 + (i * 37 + i / 11 + seed * 29) % 96;
    p = static_cast<uint64_t *>(wh_malloc(heap, n * 8));
    if (n != 0 && p == nullptr) {
        atomicAdd(wrong, 1);
    }
    for (uint64_t k = 0; p != nullptr && k < n; k++) {
        p[k] = k == 0 ? n : i + k;
    }
    blocks[i] = p;
}

static int count_visit(void *n, void *, uint64_t) {
    ++*static_cast<unsigned *>(n);
    return 0;
}

static void use(wh_heap *heap) {
    cudaStream_t streams[2];
    wh_heap_ref handle;
    uint64_t **blocks = nullptr;
    unsigned *wrong = nullptr, visited = 0;
    wh_stats stats = {};
    CHECK(wh_heap_handle(heap, &handle) == WH_OK);
    CHECK(cudaMallocManaged(&wrong, sizeof *wrong) == cudaSuccess);
    *wrong = 0;
    CHECK(cudaMalloc(&blocks, 2 * N * sizeof *blocks) == cudaSuccess);
    CHECK(cudaMemset(blocks, 0, 2 * N * sizeof *blocks) == cudaSuccess);
    for (int s = 0; s < 2; s++) {
        CHECK(cudaStreamCreate(&streams[s]) == cudaSuccess);
    }
    for (unsigned k = 1; k <= 6; k++) {
        for (int s = 0; s < 2; s++) {
            turn<<<N / 128, 128, 0, streams[s]>>>(handle, blocks + s * N, 2 * k + s, wrong);
        }
    }
    CHECK(wh_heap_get_stats(heap, &stats) == WH_OK && stats.live_blocks == 2 * N);
    CHECK(wh_heap_walk(heap, count_visit, &visited) == WH_OK && visited == 2 * N);
    CHECK(wh_heap_check(heap, nullptr) == WH_OK);
    for (int s = 0; s < 2; s++) {
        turn<<<N / 128, 128, 0, streams[s]>>>(handle, blocks + s * N, 0, wrong);
    }
    CHECK(wh_heap_get_stats(heap, &stats) == WH_OK && stats.live_blocks == 0);
    CHECK(wh_heap_check(heap, nullptr) == WH_OK);
    CHECK(*wrong == 0);
    for (int s = 0; s < 2; s++) {
        CHECK(cudaStreamDestroy(streams[s]) == cudaSuccess);
    }
    CHECK(cudaFree(blocks) == cudaSuccess && cudaFree(wrong) == cudaSuccess);
}

// How a heap comes to its memory: handed over, from two functions, or from the pool itself.
enum way { HANDED, FUNCTIONS, CUDA_POOL };

static void heap_over(source *s, way how) {
    wh_heap_options o = {};
    wh_heap *heap = nullptr;
    const int before = failures;
    o.bytes = 64 * MIB;
    if (how == HANDED) {
        o.memory = take(o.bytes, 256, nullptr, s);
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
    } else if (how == FUNCTIONS) {
        o.source.alloc = take;
        o.source.free = give;
        o.source.user = s;
    } else {
        o.cuda_pool = s->pool;
    }
    const wh_status status = wh_heap_create(&heap, &o);
    if (status != WH_OK) {
        std::printf("%s\n", wh_last_error_text());
    }
    CHECK(status == WH_OK);
    if (status == WH_OK) {
        use(heap);
        CHECK(wh_heap_destroy(heap) == WH_OK);
    }
    if (how == HANDED) {
        give(o.memory, o.bytes, nullptr, s);
    }
    CHECK(s->out.empty());
    if (failures != before) {
        std::printf("... with %s, way %d\n", names[s->what], static_cast<int>(how));
    }
}

static void *refuse(uint64_t, uint64_t, void *, void *) {
    return nullptr;
}

// A pool with a limit, and a source that has nothing: the calls say so, and leave no error.
static void refusals(int device) {
    wh_heap_options o = {};
    wh_heap *heap = nullptr;
    source none = {PLAIN, nullptr, {}};
    o.bytes = 64 * MIB;
    o.source.alloc = refuse;
    o.source.free = give;
    o.source.user = &none;
    CHECK(wh_heap_create(&heap, &o) == WH_OUT_OF_MEMORY && heap == nullptr);
    CHECK(cudaGetLastError() == cudaSuccess);
    o.source = wh_memory_source();
#if CUDART_VERSION >= 12020
    cudaMemPoolProps props = {};
    cudaMemPool_t small;
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = device;
    props.maxSize = 8 * MIB;
    CHECK(cudaMemPoolCreate(&small, &props) == cudaSuccess);
    o.cuda_pool = small;
    CHECK(wh_heap_create(&heap, &o) == WH_OUT_OF_MEMORY && heap == nullptr);
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(cudaMemPoolDestroy(small) == cudaSuccess);
#endif
    (void)device;
}

int main() {
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) {
        std::puts("no GPU");
        return 77;
    }
    source s = {};
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPoolCreate(&s.pool, &props) == cudaSuccess);
    for (int what = 0; what < N_KINDS; what++) {
        s.what = static_cast<kind>(what);
        heap_over(&s, HANDED);
        heap_over(&s, FUNCTIONS);
        std::printf("%s: done\n", names[what]);
    }
    heap_over(&s, CUDA_POOL);
    uint64_t used = 1;
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaMemPoolGetAttribute(s.pool, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess);
    CHECK(used == 0);
    CHECK(cudaMemPoolDestroy(s.pool) == cudaSuccess);
    refusals(0);
    std::puts(failures == 0 ? "every kind of memory" : "FAILED");
    return failures == 0 ? 0 : 1;
}
