// checkpoint.cu: a heap of a GPU in a file. Lists of blocks that point to each other are saved,
// the heap is destroyed and loaded again; each block has its contents, its usable size and its
// neighbour; malloc and free go on. Once in reserved addresses, extended and trimmed, once without,
// once in memory of the caller's. A file that is cut short is refused.
// Exit status 77: there is no GPU.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include <warpheap/checkpoint.h>
#include <warpheap/warpheap.h>

static int failures;

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, wh_last_error_text()); \
            failures++;                                                                           \
        }                                                                                         \
    } while (0)

static const uint64_t MIB = 1 << 20;
static const unsigned LISTS = 4096, LONG = 24;

struct node {
    node *next;
    uint64_t bytes, usable, stamp; // bytes: of all of it, the stamp once more at its end
};

__device__ uint64_t *last_of(node *n) {
    return reinterpret_cast<uint64_t *>(n) + n->bytes / 8 - 1;
}

// Each thread has a list of its own, and gives every third node back at once.
__global__ void build(wh_heap_ref heap, node **heads) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    node *drop = nullptr;
    heads[i] = nullptr;
    for (unsigned k = 0; k < LONG; k++) {
        const unsigned r = i * 7919 + k * 40503;
        const uint64_t bytes =
            (k == 0 && i % 64 == 0 ? 100000 + r % 200000 : 48 + r % 1000) / 8 * 8;
        node *n = static_cast<node *>(wh_malloc(heap, bytes));
        if (n == nullptr) {
            continue;
        }
        n->bytes = bytes;
        n->usable = wh_usable_size(heap, n);
        n->stamp = (uint64_t)i << 32 | k;
        *last_of(n) = n->stamp;
        n->next = k % 3 == 0 ? drop : heads[i];
        (k % 3 == 0 ? drop : heads[i]) = n;
    }
    while (drop != nullptr) {
        node *n = drop;
        drop = n->next;
        wh_free(heap, n);
    }
}

// Pointers that are kept in blocks move with them.
__global__ void mend(node **heads, int64_t moved) {
    node **at = &heads[blockIdx.x * blockDim.x + threadIdx.x];
    while (*at != nullptr) {
        *at = reinterpret_cast<node *>(reinterpret_cast<unsigned char *>(*at) + moved);
        at = &(*at)->next;
    }
}

// gives: all nodes are freed.
__global__ void verify(wh_heap_ref heap, node **heads, unsigned *wrong, unsigned *seen, int gives) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    for (node *n = heads[i], *next; n != nullptr; n = next) {
        next = n->next;
        if (n->stamp >> 32 != i || *last_of(n) != n->stamp || !wh_owns(heap, n) ||
            wh_usable_size(heap, n) != n->usable) {
            atomicAdd(wrong, 1);
        }
        atomicAdd(seen, 1);
        if (gives) {
            wh_free(heap, n);
        }
    }
    heads[i] = gives ? nullptr : heads[i];
}

static void one(wh_device *device, const char *name, const char *path, uint64_t reserved,
                void *memory) {
    const int before = failures;
    wh_heap *heap = nullptr;
    wh_heap_ref handle;
    wh_stats was, now;
    node **heads = nullptr;
    unsigned *count = nullptr; // wrong, seen: memory of the host
    int64_t moved = 1;
    wh_heap_options o = {};
    o.device = device;
    o.bytes = 256 * MIB;
    o.reserve_bytes = reserved;
    o.memory = memory;
    cudaMallocManaged(&heads, LISTS * sizeof *heads);
    cudaMallocManaged(&count, 2 * sizeof *count);
    count[0] = count[1] = 0;
    CHECK(wh_heap_create(&heap, &o) == WH_OK);
    CHECK(wh_heap_handle(heap, &handle) == WH_OK);
    build<<<LISTS / 256, 256>>>(handle, heads);
    if (reserved != 0) {
        CHECK(wh_heap_trim(heap, 64 * MIB, nullptr) == WH_OK);
        CHECK(wh_heap_extend(heap, 32 * MIB) == WH_OK);
    }
    CHECK(wh_heap_get_stats(heap, &was) == WH_OK && was.live_blocks > LISTS);
    CHECK(wh_heap_save(heap, path) == WH_OK);
    CHECK(wh_heap_destroy(heap) == WH_OK);
    CHECK(wh_heap_load(&heap, path, &o, &moved) == WH_OK);
    if (heap != nullptr) {
        CHECK(wh_heap_handle(heap, &handle) == WH_OK);
        CHECK(wh_heap_check(heap, nullptr) == WH_OK);
        CHECK(wh_heap_get_stats(heap, &now) == WH_OK);
        CHECK(was.live_blocks == now.live_blocks && was.used_bytes == now.used_bytes &&
              was.largest_free == now.largest_free);
        if (moved != 0) {
            mend<<<LISTS / 256, 256>>>(heads, moved);
        }
        verify<<<LISTS / 256, 256>>>(handle, heads, count, count + 1, 0);
        CHECK(cudaDeviceSynchronize() == cudaSuccess && count[0] == 0);
        CHECK(count[1] == now.live_blocks);
        for (int turn = 0; turn < 3; turn++) {
            verify<<<LISTS / 256, 256>>>(handle, heads, count, count + 1, 1);
            build<<<LISTS / 256, 256>>>(handle, heads);
        }
        verify<<<LISTS / 256, 256>>>(handle, heads, count, count + 1, 1);
        CHECK(wh_heap_check(heap, nullptr) == WH_OK);
        CHECK(wh_heap_get_stats(heap, &now) == WH_OK);
        CHECK(count[0] == 0 && now.live_blocks == 0 && now.bad_frees == 0);
        CHECK(wh_heap_destroy(heap) == WH_OK);
    }
    const long long distance = moved;
    CHECK(memory == nullptr || distance == 0);
    FILE *f = std::fopen(path, "rb");
    CHECK(f != nullptr && std::fseek(f, 0, SEEK_END) == 0);
    const long bytes = f != nullptr ? std::ftell(f) : 0;
    if (f != nullptr) {
        std::fclose(f);
    }
    CHECK(truncate(path, bytes / 2) == 0);
    CHECK(wh_heap_load(&heap, path, &o, &moved) == WH_BAD_FORMAT && heap == nullptr);
    std::printf("%s: %llu blocks, %llu bytes, file of %ld, moved %lld: %s\n", name,
                (unsigned long long)was.live_blocks, (unsigned long long)was.used_bytes, bytes,
                distance, failures == before ? "right" : "wrong");
    cudaFree(heads);
    cudaFree(count);
}

int main() {
    wh_device *device = nullptr;
    const wh_status status = wh_device_open(&device, "cuda", nullptr);
    if (status != WH_OK) {
        std::printf("%s\n", wh_last_error_text());
        return status == WH_NO_DEVICE ? 77 : 1;
    }
    char path[] = "/tmp/warpheap_checkpoint_XXXXXX";
    void *memory = nullptr;
    const int fd = mkstemp(path);
    CHECK(fd >= 0 && close(fd) == 0);
    CHECK(wh_device_alloc(device, &memory, 256 * MIB) == WH_OK);
    one(device, "plain", path, 0, nullptr);
    one(device, "reserved", path, 2048 * MIB, nullptr);
    one(device, "memory", path, 0, memory);
    CHECK(wh_device_free(device, memory) == WH_OK);
    wh_device_close(device);
    std::remove(path);
    return failures != 0;
}
