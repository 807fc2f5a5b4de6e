/* calls.cu: device calls as C++ code makes them: from __host__ __device__ members, in kernels that
 * are templates, with and without word when memory runs out, in blocks of many dimensions and with
 * shared memory. Read by nvcc and by a C++ compiler for the simulated device, and run on the CPU
 * (tests/compile/calls.sh): a GPU's kernels are compiled only. */
#include <stdio.h>
#include <string.h>

#include <warpheap/types.h>

#ifdef EVENTS
#if WH_FILE_IS_CUDA
static __device__ void told(wh_oom_event event);
#else
static void told(wh_oom_event event);
#endif
#define WH_ON_OOM(event) told(event)
#endif
#include <warpheap/warpheap.h>

#ifdef EVENTS
#if WH_FILE_IS_CUDA
static __device__ void told(wh_oom_event event) {
    (void)event;
}
#else
static uint32_t told_line;
static void told(wh_oom_event event) {
    told_line = strstr(event.file, "calls.c") != nullptr ? event.line : 0;
}
#endif
#endif

#if WH_FILE_IS_CUDA
#define BOTH __host__ __device__
#else
#define BOTH
#endif

namespace user {
struct memory {
    wh_heap_ref heap;
    BOTH void *get(size_t n) const {
        return ::wh_malloc(heap, n);
    }
    BOTH void put(void *p) const {
        wh_free(heap, p);
    }
    /* A member of the same name is no business of ours. */
    BOTH void *wh_malloc(size_t n) const {
        return get(n);
    }
    BOTH size_t all(void *p) const {
        void *got[] = {wh_calloc(heap, 3, 5),         wh_realloc(heap, p, 7),
                       wh_aligned_alloc(heap, 64, 7), wh_malloc_lanes(heap, 1, 7),
                       wh_malloc_warp(heap, 1, 7),    wh_calloc_warp(heap, 1, 3, 5),
                       wh_malloc_block(heap, 7),      wh_calloc_block(heap, 3, 5)};
        const wh_pool_t pool = wh_pool_of(heap, 24);
        void *pooled[] = {wh_pool_malloc(pool), wh_pool_malloc_lanes(pool, 1),
                          wh_pool_malloc_warp(pool, 1)};
        wh_pool_free(pool, pooled[0]);
        wh_pool_free_lanes(pool, 1, pooled[1]);
        wh_pool_free_warp(pool, 1, pooled[2]);
        size_t n = wh_usable_size(heap, p) + (wh_owns(heap, p) ? 1u : 0u);
        for (void *q : got) {
            n += q != nullptr ? 1u : 0u;
        }
        for (void *q : pooled) {
            n += q != nullptr && wh_pool_size(pool) >= 24 ? 1u : 0u;
        }
        wh_free_lanes(heap, 1, p);
        wh_free_warp(heap, 1, p);
        wh_free_block(heap, p);
        return n;
    }
};
} // namespace user

template <class T, int N> struct table_args {
    user::memory memory;
    T *sums;
};

/* Each block sums N numbers per thread up in shared memory. */
WH_KERNEL_TEMPLATE((class T, int N), table, (table_args<T, N>), a) {
    T *shared = static_cast<T *>(wh_shared());
    T *mine = static_cast<T *>(a.memory.wh_malloc(N * sizeof(T)));
    T sum = 0;
    for (int i = 0; mine != nullptr && i < N; i++) {
        mine[i] = static_cast<T>(i + wh_thread_x() + 10 * wh_thread_y());
        sum += mine[i];
    }
    a.memory.put(mine);
    shared[wh_thread_in_block()] = sum;
    wh_syncthreads();
    if (wh_thread_in_block() == 0) {
        for (uint32_t i = 1; i < wh_block_threads(); i++) {
            sum += shared[i];
        }
        a.sums[wh_block_id()] = sum;
    }
}

template <class T> struct one_arg {
    wh_heap_ref heap;
    T *out;
};
WH_KERNEL_TEMPLATE((class T), at_full_heap, one_arg<T>, a) {
    a.out[1] = wh_malloc(a.heap, static_cast<size_t>(1) << 40) == nullptr;
    a.out[0] = __LINE__ - 1;
}

WH_KERNEL(everything, one_arg<uint32_t>, a) {
    const user::memory m = {a.heap};
    a.out[0] = static_cast<uint32_t>(m.all(nullptr));
    if (wh_block_broadcast_u64(a.out[0], 0) == 77) {
        wh_trap("seventy-seven");
    }
}

static int failed;
#define CHECK(cond)                                           \
    do {                                                      \
        if (!(cond)) {                                        \
            printf("calls.cu:%d: not %s\n", __LINE__, #cond); \
            failed = 1;                                       \
        }                                                     \
    } while (0)

#if WH_FILE_IS_CUDA
static int launch_all(wh_device *device) {
    table_args<double, 4> t;
    one_arg<uint32_t> o;
    memset(&t, 0, sizeof t);
    memset(&o, 0, sizeof o);
    const wh_launch l = {device, 1, 1, nullptr, 0, 0, 0, 0, 0};
    printf("%p\n", WH_KERNEL_SYMBOL(everything));
    return table(&l, &t) == WH_OK && at_full_heap(&l, &o) == WH_OK && everything(&l, &o) == WH_OK;
}

/* On the host's side each call says no, and the library says why. */
int main(int argc, char **) {
    user::memory m;
    char block[8];
    memset(&m, 0, sizeof m);
    CHECK(strcmp(wh_last_error_text(), "") == 0);
    m.put(nullptr);
    CHECK(strcmp(wh_last_error_text(), "") == 0);
    CHECK(m.get(16) == nullptr);
    CHECK(strncmp(wh_last_error_text(), "wh_malloc was called on the host", 32) == 0);
    m.put(block);
    CHECK(strncmp(wh_last_error_text(), "wh_free was called on the host", 30) == 0);
    CHECK(m.all(block) == 0);
    CHECK(strncmp(wh_last_error_text(), "wh_free_block was called on the host", 36) == 0);
    if (argc > 1) { /* never: so that the launchers are compiled and linked */
        CHECK(launch_all(nullptr));
    }
    return failed;
}
#else
int main() {
    wh_device *device = nullptr;
    wh_heap *heap = nullptr;
    wh_heap_options o;
    memset(&o, 0, sizeof o);
    CHECK(wh_device_open(&device, "sim", nullptr) == WH_OK);
    o.device = device;
    o.bytes = 1 << 20;
    CHECK(wh_heap_create(&heap, &o) == WH_OK);
    table_args<uint64_t, 5> t;
    CHECK(wh_heap_handle(heap, &t.memory.heap) == WH_OK);
    void *memory = nullptr;
    CHECK(wh_device_alloc(device, &memory, 64) == WH_OK);
    t.sums = static_cast<uint64_t *>(memory);
    wh_launch l = {device, 2, 8, nullptr, 2, 0, 6, 0, 48 * sizeof(uint64_t)};
    CHECK(table(&l, &t) == WH_OK);
    for (int i = 0; i < 4; i++) { /* 48 threads: 0..4 each, x to 7, 10 y to 50 */
        CHECK(t.sums[i] == 48 * 10 + 5 * 6 * 28 + 5 * 8 * 150);
    }
    one_arg<uint32_t> a = {t.memory.heap, static_cast<uint32_t *>(memory)};
    l.blocks_y = l.threads_y = 0;
    l.blocks = l.threads = 1;
    CHECK(at_full_heap(&l, &a) == WH_OK && a.out[1] == 1);
#ifdef EVENTS
    CHECK(told_line == a.out[0]);
#endif
    /* Of a thread on its own each call works. */
    CHECK(everything(&l, &a) == WH_OK && a.out[0] == 11);
    wh_heap_destroy(heap);
    wh_device_close(device);
    return failed;
}
#endif
