/* atomics_probe.cu: which spelling of device-scope atomics is fastest: this project's
 * inline PTX (simt/cuda.h) or the compiler's __nv_atomic_* builtins, for each order and
 * for five access patterns; and how far apart words have to be if every warp is to add to two or
 * three of them. Prints JSON. docs/MEMORY_MODEL.md holds the outcome; what scattered atomics cost,
 * which docs/papers/random_walk.md counts with, is in the last two of the five patterns.
 *
 *   build   nvcc -std=c++17 -O3 -arch=sm_90 -I include bench/probes/atomics_probe.cu
 *
 * Each figure is one launch of 1,048,576 threads (256 a block), median of 21, one
 * operation per lane or per warp; "null" computes the address and stores it.
 */
#include <algorithm>
#include <cstdio>
#include <vector>

#include "warpheap/core/walk_random.h"
#include "warpheap/simt.h"

/* The launcher in WH_KERNEL is not used here, but refers to this. */
extern "C" wh_status wh_device_note_cuda(wh_device *, int e, const char *, const char *) {
    return e == 0 ? WH_OK : WH_DEVICE_ERROR;
}

static const uint32_t n_threads = 1u << 20;

/* Where a thread's operation goes: its own word, one of 4096 words per warp, one word for the
 * whole grid (one lane per warp), or a random word of an array that the L2 holds, or does not. */
enum pattern { OWN, WARP, HOT, SCATTERED, SPARSE };
static const char *const pattern_names[] = {
    "own word per lane", "4096 words, a lane per warp", "one word, a lane per warp",
    "random word of 8 MiB per lane", "random word of 128 MiB per lane"};
static const uint32_t n_small = 1u << 20, n_large = 1u << 24; /* words */

typedef struct probe_args {
    uint64_t *words;
    uint64_t *out;
    int pattern;
    int several; /* add_to_several alone */
    uint32_t apart;
} probe_args;

static __device__ __forceinline__ uint64_t *word_of(const probe_args &a, uint32_t i) {
    const uint32_t hash = wh_walk_hash(i + 1);
    switch (a.pattern) {
    case OWN:
        return a.words + i;
    case WARP:
        return a.words + (i >> 5 & 4095) * 8u;
    case HOT:
        return a.words;
    case SCATTERED:
        return a.words + hash % n_small;
    default:
        return a.words + hash % n_large;
    }
}

#define PROBE(name, EXPR)                                               \
    static __global__ void name(probe_args a) {                         \
        const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;       \
        uint64_t *p = word_of(a, i);                                    \
        if ((a.pattern != WARP && a.pattern != HOT) || (i & 31) == 0) { \
            a.out[i] = (uint64_t)(EXPR);                                \
        }                                                               \
    }

static __device__ __forceinline__ uint64_t take(uint64_t *p) {
    const uint64_t old = wh_fetch_or_u64_acquire(p, 1);
    wh_add_u64_relaxed(p, (old & 2) + 1);
    return old;
}

static __device__ __forceinline__ uint64_t give(uint64_t *p) {
    const uint64_t old = wh_load_u64_relaxed(p);
    if (old != 7) {
        wh_add_u64_release(p, 2);
    }
    return old;
}

PROBE(null_kernel, (uintptr_t)p)
PROBE(ptx_add_relaxed, wh_fetch_add_u64_relaxed(p, 1))
PROBE(ptx_add_acquire, wh_fetch_add_u64_acquire(p, 1))
PROBE(ptx_add_release, wh_fetch_add_u64_release(p, 1))
PROBE(ptx_add_acq_rel, wh_fetch_add_u64_acq_rel(p, 1))
PROBE(ptx_or_relaxed, wh_fetch_or_u64_relaxed(p, 1))
PROBE(ptx_red_relaxed, (wh_add_u64_relaxed(p, 1), i))
PROBE(ptx_load_relaxed, wh_load_u64_relaxed(p))
PROBE(ptx_load_acquire, wh_load_u64_acquire(p))
PROBE(ptx_store_release, (wh_store_u64_release(p, i), i))
PROBE(ptx_red_release, (wh_add_u64_release(p, 1), i))
/* As the walks do: lock a word and take from it; look at a block and give it back. */
PROBE(ptx_or_acquire_red, take(p))
PROBE(ptx_load_red_release, give(p))
PROBE(nv_add_relaxed,
      __nv_atomic_fetch_add(p, (uint64_t)1, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE))
PROBE(nv_add_acquire,
      __nv_atomic_fetch_add(p, (uint64_t)1, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE))
PROBE(nv_add_release,
      __nv_atomic_fetch_add(p, (uint64_t)1, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE))
PROBE(nv_add_acq_rel,
      __nv_atomic_fetch_add(p, (uint64_t)1, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_DEVICE))
PROBE(nv_or_relaxed,
      __nv_atomic_fetch_or(p, (uint64_t)1, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE))
PROBE(nv_red_relaxed,
      (__nv_atomic_add(p, (uint64_t)1, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE), i))
PROBE(nv_load_relaxed, __nv_atomic_load_n(p, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE))
PROBE(nv_load_acquire, __nv_atomic_load_n(p, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE))
PROBE(nv_store_release,
      (__nv_atomic_store_n(p, (uint64_t)i, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE), i))

/* A lane of each warp adds to `several` words, `apart` words from one to the next, one add after
 * the other. */
static __global__ void add_to_several(probe_args a) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if ((i & 31) == 0) {
        uint64_t sum = 0;
        for (int k = 0; k < a.several; k++) {
            sum += wh_fetch_add_u64_relaxed(a.words + (uint64_t)k * a.apart, 1);
        }
        a.out[i] = sum;
    }
}

typedef struct probe {
    const char *name;
    void (*kernel)(probe_args);
} probe;

#define ENTRY(k) \
    { #k, k }
static const probe probes[] = {
    ENTRY(null_kernel),          ENTRY(ptx_add_relaxed),  ENTRY(nv_add_relaxed),
    ENTRY(ptx_add_acquire),      ENTRY(nv_add_acquire),   ENTRY(ptx_add_release),
    ENTRY(nv_add_release),       ENTRY(ptx_add_acq_rel),  ENTRY(nv_add_acq_rel),
    ENTRY(ptx_or_relaxed),       ENTRY(nv_or_relaxed),    ENTRY(ptx_red_relaxed),
    ENTRY(nv_red_relaxed),       ENTRY(ptx_load_relaxed), ENTRY(nv_load_relaxed),
    ENTRY(ptx_load_acquire),     ENTRY(nv_load_acquire),  ENTRY(ptx_store_release),
    ENTRY(nv_store_release),     ENTRY(ptx_red_release),  ENTRY(ptx_or_acquire_red),
    ENTRY(ptx_load_red_release),
};

static double median_us(void (*kernel)(probe_args), const probe_args &a) {
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    std::vector<float> us;
    for (int rep = 0; rep < 23; rep++) {
        cudaEventRecord(begin);
        kernel<<<n_threads / 256, 256>>>(a);
        cudaEventRecord(end);
        cudaEventSynchronize(end);
        float ms = 0;
        cudaEventElapsedTime(&ms, begin, end);
        if (rep >= 2) { /* two warm-ups */
            us.push_back(ms * 1000.0f);
        }
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    std::sort(us.begin(), us.end());
    return us[us.size() / 2];
}

int main(void) {
    probe_args a;
    cudaDeviceProp prop;
    if (cudaGetDeviceProperties(&prop, 0) != cudaSuccess ||
        cudaMalloc(&a.words, (size_t)n_large * 8) != cudaSuccess ||
        cudaMalloc(&a.out, n_threads * 8) != cudaSuccess ||
        cudaMemset(a.words, 0, (size_t)n_large * 8) != cudaSuccess) {
        fprintf(stderr, "atomics_probe: no usable CUDA device\n");
        return 1;
    }
    printf("{\"device\":\"%s\",\"threads\":%u}\n", prop.name, n_threads);
    for (int pattern = OWN; pattern <= SPARSE; pattern++) {
        a.pattern = pattern;
        for (const probe &p : probes) {
            printf("{\"pattern\":\"%s\",\"operation\":\"%s\",\"us\":%.2f}\n",
                   pattern_names[pattern], p.name, median_us(p.kernel, a));
        }
    }
    for (a.several = 2; a.several <= 3; a.several++) {
        for (a.apart = 1; a.apart <= 8192; a.apart *= a.apart == 1 ? 4 : 2) {
            printf("{\"pattern\":\"%d words %u B apart, a lane per warp\",\"operation\":"
                   "\"ptx_add_relaxed\",\"us\":%.2f}\n",
                   a.several, a.apart * 8, median_us(add_to_several, a));
        }
    }
    const cudaError_t e = cudaDeviceSynchronize();
    if (e != cudaSuccess) {
        fprintf(stderr, "atomics_probe: %s\n", cudaGetErrorString(e));
        return 1;
    }
    return 0;
}
