/* hash_map_probe.cu: what wh::hash_map, which grows in the kernel, costs beside a table of fixed
 * size with twice as many slots as keys: open addressing, linear probing, a cas for each insert.
 * Prints JSON lines: million operations a second of inserts into an empty table, finds of keys that
 * are there, and of keys that are not; median of 11 launches of one operation a thread, 256 threads
 * a block. With -DWITH_CUCO and the headers of cuCollections also cuco::static_map, by its bulk
 * calls, which allocate nothing.
 *
 *   build   nvcc -std=c++17 -O3 -arch=sm_90 -rdc=true -DWH_LINKED=1 -I include \
 *               bench/probes/hash_map_probe.cu -L BUILD -lwarpheap_device -lwarpheap
 *   or      cmake --build BUILD --target hash_map_probe
 */
#include <algorithm>
#include <cstdio>
#include <vector>

#define WH_KERNEL_THREADS 256
#include "warpheap/core/hash.h"
#include "warpheap/warpheap.hpp"

#ifdef WITH_CUCO
#include <cuco/static_map.cuh>
#include <thrust/device_vector.h>
#endif

static const uint64_t no_key = ~0ull;
static const uint32_t runs = 11;

struct fixed_table {
    uint64_t *keys, *values;
    uint32_t slots; /* a power of two */

    __device__ bool insert(uint64_t key, uint64_t value) const {
        for (uint32_t i = wh_mix64(key);; i++) {
            const uint64_t seen = wh_cas_u64_relaxed(&keys[i & (slots - 1)], no_key, key);
            if (seen == no_key) {
                values[i & (slots - 1)] = value;
            }
            if (seen == no_key || seen == key) {
                return seen == no_key;
            }
        }
    }
    __device__ bool find(uint64_t key, uint64_t &value) const {
        for (uint32_t i = wh_mix64(key);; i++) {
            const uint64_t seen = wh_load_u64_relaxed(&keys[i & (slots - 1)]);
            if (seen == key) {
                value = values[i & (slots - 1)];
            }
            if (seen == key || seen == no_key) {
                return seen == key;
            }
        }
    }
};
using map = wh::hash_map<uint64_t, uint64_t>;

/* Keys that look like none in a row; those from n on are in no table. */
[[maybe_unused]] static __host__ __device__ uint64_t key_of(uint64_t i) {
    return i * 0x9e3779b97f4a7c15u >> 1;
}

static __global__ void insert_fixed(fixed_table t, uint32_t *count) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (t.insert(key_of(i), i)) {
        wh_add_u32_relaxed(count, 1);
    }
}
static __global__ void find_fixed(fixed_table t, uint32_t from, uint32_t *count) {
    uint64_t value = 0;
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x + from;
    if (t.find(key_of(i), value) && value == i) {
        wh_add_u32_relaxed(count, 1);
    }
}
static __global__ void make_map(wh::heap_ref heap, map *m) {
    ::new (static_cast<void *>(m)) map(heap);
}
static __global__ void clear_map(map *m) {
    m->clear();
}
static __global__ void __launch_bounds__(256) insert_map(map *m, uint32_t *count) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (m->insert(key_of(i), i).success()) {
        wh_add_u32_relaxed(count, 1);
    }
}
static __global__ void __launch_bounds__(256) find_map(map *m, uint32_t from, uint32_t *count) {
    uint64_t value = 0;
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x + from;
    if (m->find(key_of(i), value) && value == i) {
        wh_add_u32_relaxed(count, 1);
    }
}

static void must(cudaError_t e) {
    if (e != cudaSuccess) {
        std::printf("%s\n", cudaGetErrorString(e));
        std::exit(1);
    }
}

struct subject {
    const char *table;
    uint32_t n, *count; /* operations of a launch; what counts those that did what they should */
};

/* Median time of launches, each after `before`; `right` of their operations count. */
template <class Before, class Launch>
static void time_of(const subject &of, const char *what, uint32_t right, Before before,
                    Launch launch) {
    std::vector<float> ms(runs);
    cudaEvent_t begin, end;
    must(cudaEventCreate(&begin));
    must(cudaEventCreate(&end));
    for (float &t : ms) {
        before();
        *of.count = 0;
        must(cudaEventRecord(begin));
        launch();
        must(cudaEventRecord(end));
        must(cudaEventSynchronize(end));
        must(cudaEventElapsedTime(&t, begin, end));
        if (*of.count != right) {
            std::printf("%s, %s: %u of %u\n", of.table, what, *of.count, right);
            std::exit(1);
        }
    }
    std::sort(ms.begin(), ms.end());
    std::printf("{\"table\": \"%s\", \"what\": \"%s\", \"keys\": %u, \"us\": %.1f, "
                "\"million_per_s\": %.1f}\n",
                of.table, what, of.n, 1e3 * static_cast<double>(ms[runs / 2]),
                of.n / 1e3 / static_cast<double>(ms[runs / 2]));
}

static void probe(const wh::heap_ref &heap, uint32_t n, uint32_t *count) {
    fixed_table t;
    map *m = nullptr;
    const auto nothing = [] {};
    const subject fixed = {"fixed", n, count}, ours = {"wh::hash_map", n, count};
    t.slots = 2 * n;
    must(cudaMalloc(&t.keys, t.slots * sizeof(uint64_t)));
    must(cudaMalloc(&t.values, t.slots * sizeof(uint64_t)));
    must(cudaMalloc(&m, sizeof *m));
    time_of(
        fixed, "insert", n,
        [&] {
            must(cudaMemset(t.keys, 0xff, t.slots * sizeof(uint64_t)));
            must(cudaDeviceSynchronize());
        },
        [&] { insert_fixed<<<n / 256, 256>>>(t, count); });
    time_of(fixed, "find", n, nothing, [&] { find_fixed<<<n / 256, 256>>>(t, 0, count); });
    time_of(fixed, "find none", 0, nothing, [&] { find_fixed<<<n / 256, 256>>>(t, n, count); });
    make_map<<<1, 1>>>(heap, m);
    time_of(
        ours, "insert", n,
        [&] {
            clear_map<<<1, 1>>>(m);
            must(cudaDeviceSynchronize());
        },
        [&] { insert_map<<<n / 256, 256>>>(m, count); });
    time_of(ours, "find", n, nothing, [&] { find_map<<<n / 256, 256>>>(m, 0, count); });
    time_of(ours, "find none", 0, nothing, [&] { find_map<<<n / 256, 256>>>(m, n, count); });
    clear_map<<<1, 1>>>(m);
    must(cudaDeviceSynchronize());
#ifdef WITH_CUCO
    std::vector<cuco::pair<uint64_t, uint64_t>> items(n);
    std::vector<uint64_t> keys(n);
    for (uint32_t i = 0; i < n; i++) {
        keys[i] = key_of(i);
        items[i] = {key_of(i), i};
    }
    thrust::device_vector<cuco::pair<uint64_t, uint64_t>> d_items(items);
    thrust::device_vector<uint64_t> d_keys(keys), d_values(n);
    cuco::static_map<uint64_t, uint64_t> theirs{2 * n, cuco::empty_key<uint64_t>{no_key},
                                                cuco::empty_value<uint64_t>{no_key}};
    time_of(
        cucos, "insert", 0, [&] { theirs.clear(); },
        [&] { theirs.insert_async(d_items.begin(), d_items.end()); });
    time_of(cucos, "find", 0, nothing,
            [&] { theirs.find_async(d_keys.begin(), d_keys.end(), d_values.begin()); });
#endif
    must(cudaFree(t.keys));
    must(cudaFree(t.values));
    must(cudaFree(m));
}

int main() {
    std::error_code code;
    uint32_t *count = nullptr;
    const wh::heap heap(wh::heap_options(1ull << 30), code);
    const wh::heap_ref ref = code ? wh::heap_ref() : heap.ref(code);
    if (code) {
        std::printf("%s\n%s\n", code.message().c_str(), wh_last_error_text());
        return code == WH_NO_DEVICE ? 77 : 1;
    }
    must(cudaMallocManaged(&count, sizeof *count));
    for (uint32_t n : {1u << 12, 1u << 16, 1u << 20}) {
        probe(ref, n, count);
    }
    must(cudaFree(count));
    return 0;
}
