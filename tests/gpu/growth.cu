// growth.cu: a heap that grows while kernels run: one kernel fills it from 64 MiB to 8 GiB, or what
// the GPU has; many launches do; nobody waits where enough is ahead; a card that is full; a host
// that does not answer in time.
// Exit status 77: there is no GPU.
#include <cstdio>
#include <cstdlib>

#include <warpheap/warpheap.h>

#include "check.h"

static const uint64_t MIB = 1 << 20, GIB = 1 << 30;

struct node {
    node *next;
    uint64_t bytes, stamp;
};

__device__ static uint64_t size_of(uint64_t i, uint64_t k) {
    const uint64_t h = (i * 40503 + k) * 0x9e3779b97f4a7c15u;
    return 32 + (h >> 40) % (65536u >> (h >> 20) % 11) / 8 * 8;
}

// Each thread has a list of blocks, which it makes longer until NULL, or by `most` blocks.
__global__ void fill(wh_heap_ref heap, node **lists, uint64_t most, unsigned long long *bytes) {
    const uint64_t i = blockIdx.x * blockDim.x + threadIdx.x;
    uint64_t mine = 0;
    for (uint64_t k = 0; k < most; k++) {
        const uint64_t n = size_of(i, k + reinterpret_cast<uintptr_t>(lists[i]));
        node *p = static_cast<node *>(wh_malloc(heap, n));
        if (p == nullptr) {
            break;
        }
        p->next = lists[i];
        p->bytes = n;
        p->stamp = i;
        if (n >= 40) {
            reinterpret_cast<uint64_t *>(p)[n / 8 - 1] = ~i;
        }
        lists[i] = p;
        mine += n;
    }
    atomicAdd(bytes, mine);
}

__global__ void verify(wh_heap_ref heap, node **lists, bool frees, unsigned *wrong) {
    const uint64_t i = blockIdx.x * blockDim.x + threadIdx.x;
    for (node *p = lists[i], *next; p != nullptr; p = next) {
        next = p->next;
        const bool end = p->bytes < 40 || reinterpret_cast<uint64_t *>(p)[p->bytes / 8 - 1] == ~i;
        if (p->stamp != i || !end || wh_usable_size(heap, p) < p->bytes) {
            atomicAdd(wrong, 1);
        }
        if (frees) {
            wh_free(heap, p);
        }
    }
    lists[i] = frees ? nullptr : lists[i];
}

struct space {
    wh_device *device;
    wh_heap *heap;
    wh_heap_ref handle;
    node **lists;
    unsigned long long *bytes; // these two: memory of the host
    unsigned *wrong;
};

static const unsigned BLOCKS = 132, THREADS = 256;

static space make(uint64_t reserved) {
    space s = {};
    wh_heap_options o = {};
    CHECK(wh_device_open(&s.device, "cuda", nullptr) == WH_OK);
    o.device = s.device;
    o.reserve_bytes = reserved;
    uint64_t least = 0;
    CHECK(wh_heap_min_bytes(&o, &least) == WH_OK);
    o.bytes = least < 64 * MIB ? 64 * MIB : least;
    const wh_status status = wh_heap_create(&s.heap, &o);
    if (status != WH_OK) {
        std::printf("%s: %s\n", wh_status_name(status), wh_last_error_text());
        std::exit(1);
    }
    CHECK(wh_heap_handle(s.heap, &s.handle) == WH_OK);
    CHECK(cudaMalloc(&s.lists, BLOCKS * THREADS * sizeof *s.lists) == cudaSuccess);
    CHECK(cudaMemset(s.lists, 0, BLOCKS * THREADS * sizeof *s.lists) == cudaSuccess);
    CHECK(cudaMallocHost(&s.bytes, 64) == cudaSuccess);
    CHECK(cudaMallocHost(&s.wrong, 64) == cudaSuccess);
    *s.bytes = 0;
    *s.wrong = 0;
    return s;
}

static void start(const space *s, uint64_t max, uint64_t ahead, uint32_t wait_us, bool thread) {
    wh_growth_options o = {};
    o.max_bytes = max;
    o.ahead_bytes = ahead;
    o.wait_us = wait_us;
    o.no_thread = thread ? 0 : 1;
    const wh_status status = wh_heap_growth_start(s->heap, &o);
    CHECK(status == WH_OK);
    if (status != WH_OK) {
        std::printf("%s %s\n", wh_last_error_text(), wh_device_error_text(s->device));
    }
}

static wh_growth_info info_of(const space *s) {
    wh_growth_info info = {};
    CHECK(wh_heap_growth_get_info(s->heap, &info) == WH_OK);
    return info;
}

static void run_fill(const space *s, uint64_t most) {
    fill<<<BLOCKS, THREADS>>>(s->handle, s->lists, most, s->bytes);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

static void run_verify(const space *s, bool frees) {
    verify<<<BLOCKS, THREADS>>>(s->handle, s->lists, frees, s->wrong);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(*s->wrong == 0);
    CHECK(wh_heap_check(s->heap, nullptr) == WH_OK);
}

static void drop(space *s) {
    CHECK(wh_heap_check(s->heap, nullptr) == WH_OK);
    CHECK(cudaFree(s->lists) == cudaSuccess);
    CHECK(cudaFreeHost(s->bytes) == cudaSuccess && cudaFreeHost(s->wrong) == cudaSuccess);
    CHECK(wh_heap_destroy(s->heap) == WH_OK);
    wh_device_close(s->device);
}

static wh_stats report(const space *s, const char *what) {
    const wh_growth_info info = info_of(s);
    wh_stats stats;
    CHECK(wh_heap_get_stats(s->heap, &stats) == WH_OK);
    CHECK(stats.bad_frees == 0);
    std::printf("%s: %llu MiB mapped of %llu, %llu MiB used; %llu requests, %llu refused; "
                "%llu failed, %llu timed out\n",
                what, static_cast<unsigned long long>(info.mapped_bytes / MIB),
                static_cast<unsigned long long>(info.max_bytes / MIB), *s->bytes / MIB,
                static_cast<unsigned long long>(info.requests),
                static_cast<unsigned long long>(info.refused),
                static_cast<unsigned long long>(stats.failed),
                static_cast<unsigned long long>(stats.timed_out));
    return stats;
}

// The whole of it by one kernel; then again after all has been freed, and after a trim. A thread
// ends at its first NULL, most of them at a request for some chunks in a row: then slabs still have
// slots that other sizes could use. So of what is mapped much is not used, but each NULL was right:
// the host had refused, and nobody's time was over.
static void one_kernel(uint64_t most, uint64_t ahead) {
    space s = make(most);
    start(&s, most, ahead, 1000000, true);
    for (int turn = 0; turn < 3; turn++) {
        *s.bytes = 0;
        run_fill(&s, UINT64_MAX);
        const wh_stats stats = report(&s, ahead < MIB ? "one kernel, nothing ahead" : "one kernel");
        CHECK(stats.timed_out == 0 && stats.failed > 0 && info_of(&s).refused > 0);
        CHECK(info_of(&s).mapped_bytes + 64 * MIB > most);
        CHECK(*s.bytes > most / 5 * 2);
        run_verify(&s, false);
        run_verify(&s, true);
        uint64_t given = 0;
        CHECK(turn != 1 || (wh_heap_trim(s.heap, 0, &given) == WH_OK && given > most / 2));
    }
    CHECK(wh_heap_growth_stop(s.heap) == WH_OK);
    drop(&s);
}

// A few blocks a launch; blocks of earlier launches stay as they are. The program looks itself.
static void many_launches(uint64_t most, bool thread) {
    space s = make(most);
    start(&s, most, 1024 * MIB, thread ? 1000000 : 100, thread);
    for (int turn = 0; turn < 30; turn++) {
        if (!thread) {
            CHECK(wh_heap_growth_poll(s.heap) == WH_OK);
        }
        run_fill(&s, 1); // about 200 MiB
        if (turn % 10 == 9) {
            run_verify(&s, false);
        }
    }
    // Nobody lacks memory. Where nobody answers while a kernel runs, time may be over for who
    // wants more chunks in a row than the posted units have left.
    const wh_stats stats = report(&s, thread ? "many launches" : "many launches, own loop");
    CHECK(stats.failed == stats.timed_out && (!thread || stats.timed_out == 0));
    run_verify(&s, true);
    drop(&s);
}

static void card_is_full() {
    size_t left = 0, all = 0;
    CHECK(cudaMemGetInfo(&left, &all) == cudaSuccess);
    if (left < 4 * GIB) {
        return;
    }
    void *most = nullptr; // of the card: 2 GiB stay
    CHECK(cudaMalloc(&most, left - 2 * GIB) == cudaSuccess);
    space s = make(all);
    start(&s, 0, 0, 10000000, true);
    run_fill(&s, UINT64_MAX);
    CHECK(info_of(&s).refused > 0 && info_of(&s).status == WH_OUT_OF_MEMORY);
    CHECK(info_of(&s).mapped_bytes > GIB);
    CHECK(cudaFree(most) == cudaSuccess); // statistics and checks take memory of the device
    CHECK(report(&s, "a card that is full").timed_out == 0);
    run_verify(&s, true);
    drop(&s);
}

// Nobody answers: NULL, and so it is counted. The next malloc goes on.
static void nobody_answers() {
    space s = make(GIB);
    start(&s, GIB, 1, 200, false);
    run_fill(&s, UINT64_MAX);
    wh_stats stats;
    CHECK(wh_heap_get_stats(s.heap, &stats) == WH_OK);
    CHECK(stats.timed_out == BLOCKS * THREADS && stats.failed == stats.timed_out);
    run_verify(&s, true);
    CHECK(wh_heap_growth_poll(s.heap) == WH_OK);
    CHECK(info_of(&s).mapped_bytes > 64 * MIB);
    run_fill(&s, 1);
    run_verify(&s, true);
    drop(&s);
}

int main() {
    (void)std::setvbuf(stdout, nullptr, _IONBF, 0); // also what comes before a time limit
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) {
        return 77;
    }
    size_t left = 0, all = 0;
    CHECK(cudaMemGetInfo(&left, &all) == cudaSuccess);
    const uint64_t most = left / 2 < 8 * GIB ? left / 2 / MIB * MIB : 8 * GIB;
    one_kernel(most, 256 * MIB);
    one_kernel(most, 1);
    many_launches(most, true);
    many_launches(most, false);
    card_is_full();
    nobody_answers();
    std::printf("%d failures\n", failures);
    return failures != 0;
}
