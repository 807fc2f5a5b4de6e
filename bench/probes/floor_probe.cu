/* floor_probe.cu: what tessera's mallocs and frees take by the accesses that they cannot leave out,
 * without an allocator: the same round trips in the same order to memory laid out alike, and hardly
 * any other instruction. Prints JSON; docs/tessera/README.md counts with it.
 *
 *   build   nvcc -std=c++17 -O3 -arch=sm_90 -I include bench/probes/floor_probe.cu
 *
 * 1,000,000 threads with a block each, or 100,000 warps of which one lane has one. Each figure is
 * the median of 41 launches, after 4 more; in each round all rows are launched once. Null: as many
 * threads that do nothing.
 */
#include <algorithm>
#include <cstdio>
#include <vector>

#include "warpheap/simt.h"

/* The launcher in WH_KERNEL is not used here, but refers to this. */
extern "C" wh_status wh_device_note_cuda(wh_device *, int e, const char *, const char *) {
    return e == 0 ? WH_OK : WH_DEVICE_ERROR;
}

enum { CHUNKS = 1 << 19, WORDS = CHUNKS * 16, SETS = 256, APART = 64, SPAN = 4096 };

typedef struct floor_args {
    uint64_t n;
    uint32_t size_log2; /* of the blocks */
    uint32_t each;      /* neighbours in a warp have blocks in different parts of the heap */
    uint32_t alone;     /* one lane of each warp has one */
    uint32_t sms;
    uint32_t steps;    /* of free: 1 tag and word, 2 the same in order, 3 what follows */
    uint64_t *blocks;  /* offset of each thread's block */
    uint64_t *tags;    /* of each chunk of 16 KiB */
    uint64_t *words;   /* sixteen a chunk */
    uint64_t *pool;    /* a line for each 64 chunks */
    uint64_t *lists;   /* a bit for each chunk; neighbours in different words */
    uint64_t *above;   /* a bit for each word of pool and lists */
    uint32_t *states;  /* of each chunk, how many of its words are all ones */
    uint64_t *cursors; /* of each set APART words: span, spare, places, frees */
    uint64_t *out;
} floor_args;

static __device__ uint64_t *cursor_of(const floor_args &a) {
    return a.cursors + (uint64_t)(wh_sm_id() % SETS) * APART;
}

/* --- free -------------------------------------------------------------------------------------
 *
 * A word has 64 slots; slabs are a chunk, those of 1 KiB two chunks and 32 slots. One lane for all
 * blocks of a word of its warp, or each lane for itself. The tag (8 bits: chunks of the slab, less
 * one) and the word; then the list, by who finds the word empty, and by who makes it full the
 * slab's state, if it has several words, and the pool; who finds one of their words empty tells the
 * level above. (Lists keep their items from launch to launch, as they do from round to round.)
 * Slabs of 1 KiB are freed as a whole, so their words need no order. */
static __global__ void __launch_bounds__(256, 8) free_blocks(floor_args a) {
    const uint64_t i = a.alone ? wh_thread_id() >> 5 : wh_thread_id();
    if (i >= a.n || (a.alone && wh_lane_id() != 0)) {
        return;
    }
    const uint64_t at = a.blocks[i];
    const uint64_t tag = wh_load_u64_relaxed(&a.tags[at >> 14]);
    const uint32_t slab = (uint32_t)(at >> 14) & ~((uint32_t)tag & 0xff);
    const uint32_t slot = (uint32_t)(at - ((uint64_t)slab << 14)) >> a.size_log2;
    if (!a.each && !a.alone && wh_lane_id() != 0) {
        return;
    }
    const int whole = a.size_log2 == 10 && !a.alone;
    uint64_t *const words = &a.words[(uint64_t)slab << 4];
    const uint64_t warp = whole ? ~(uint64_t)0 : (uint64_t)WH_FULL_WARP << (slot & 32);
    const uint64_t bits = a.each || a.alone ? (uint64_t)1 << (slot & 63) : warp;
    const uint64_t old = whole || a.steps == 1 ? wh_fetch_or_u64_relaxed(&words[slot >> 6], bits)
                                               : wh_fetch_or_u64_acq_rel(&words[slot >> 6], bits);
    if (a.steps == 3) {
        int full = (old | bits) == ~(uint64_t)0;
        const uint32_t n_words = 1u << (14 - 6) >> a.size_log2;
        if (full && n_words > 1) {
            full = wh_fetch_add_u32_acq_rel(&a.states[slab], 1) + 1 == n_words;
            for (uint32_t k = 0; full && k < n_words; k++) {
                wh_store_u64_relaxed(&words[k], 0);
            }
        }
        uint64_t seen = 1; /* what pool or list had: the level above is told if that was nothing */
        if (full) {
            seen = wh_fetch_or_u64_acq_rel(&a.pool[(uint64_t)(slab >> 6) << 4],
                                           (tag & 1 ? (uint64_t)3 : 1) << (slab & 63));
        } else if (old == 0) {
            seen = wh_fetch_or_u64_relaxed(&a.lists[(slab & 63) * 128 + (slab >> 12)],
                                           (uint64_t)1 << (slab >> 6 & 63));
        }
        if (seen == 0) {
            (void)wh_fetch_or_u64_acq_rel(&a.above[slab >> 12], (uint64_t)1 << (slab >> 6 & 63));
        }
    }
    if (old == 1) { /* so that the old value is needed */
        a.out[i] = 1;
    }
    wh_add_u64_relaxed(&cursor_of(a)[3], 1);
}

/* --- malloc ---------------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(256, 8) null_kernel(floor_args) {
}

/* One add for a warp, to a cursor that never ends. */
static __global__ void __launch_bounds__(256, 8) malloc_add(floor_args a) {
    const uint64_t i = wh_thread_id();
    uint64_t at = 0;
    if (wh_lane_id() == 0) {
        at = wh_fetch_add_u64_acquire(&cursor_of(a)[0], 32);
    }
    at = wh_shfl_u64(~0u, at, 0);
    if (i < a.n) {
        a.out[i] = at + wh_lane_id();
    }
}

/* The same to spans of 4,096 slots, 64 chunks, as 256 B have: who finds that the span ends adds to
 * the spare one, and who finds that at its end fetches the next one for it: a counter's add, a word
 * of the pool taken, its tags and words stored by the warp's lanes, a fence, and the store that all
 * who have found both at their end wait for. A launch begins with a quarter of the span and half of
 * the spare one left, so that each SM, of 7,576 slots, fetches two, or three if the spare
 * one ends early; tessera's rounds of 256 B fetch 2.4 in the mean, by the profiler. */
static __global__ void __launch_bounds__(256, 8) malloc_spans(floor_args a) {
    const uint64_t i = wh_thread_id();
    uint64_t *const cursor = cursor_of(a);
    const uint32_t lane = wh_lane_id();
    uint64_t at = 0;
    for (uint32_t which = 0;;) {
        if (lane == 0) {
            at = wh_fetch_add_u64_acquire(&cursor[which], 32);
        }
        at = wh_shfl_u64(~0u, at, 0);
        const uint32_t position = (uint32_t)at;
        if (position < SPAN) {
            break;
        }
        if (position == SPAN) { /* the crosser */
            uint64_t place = 0;
            if (lane == 0) {
                place = wh_fetch_add_u64_relaxed(&cursor[2], 1) * SETS + wh_sm_id();
                place %= CHUNKS / 64;
                place |= wh_fetch_and_u64_acquire(&a.pool[place << 4], 0) == 1;
            }
            place = wh_shfl_u64(~0u, place, 0);
            for (uint32_t k = lane; k < 64; k += 32) {
                wh_store_u64_relaxed(&a.tags[(place << 6) + k], 0x100);
                wh_store_u64_relaxed(&a.words[((place << 6) + k) << 4], 0);
            }
            wh_syncwarp(~0u);
            at = place << 32;
            if (lane == 0) {
                wh_store_u64_release(&cursor[which], at + 32);
            }
            break;
        }
        if (which == 0) {
            which = 1;
            continue;
        }
        if (lane == 0) {
            while ((uint32_t)wh_load_u64_relaxed(&cursor[0]) > SPAN &&
                   (uint32_t)wh_load_u64_relaxed(&cursor[1]) > SPAN) {
            }
            which = (uint32_t)wh_load_u64_relaxed(&cursor[0]) > SPAN ? 1 : 0;
        }
        which = wh_shfl_u32(~0u, which, 0);
    }
    if (i < a.n) {
        a.out[i] = at + lane;
    }
}

/* Where the block of thread i is (of warp i, if they are alone): blocks of 8 warps have been given
 * to SMs in turn, and each SM has memory of its own, one block behind the other; with `each` so
 * much of it for each lane. */
static __device__ uint64_t block_of(const floor_args &a, uint64_t i) {
    const uint64_t warps = a.alone ? a.n : a.n / 32, warp = a.alone ? i : i / 32;
    const uint64_t sm = warp / 8 % a.sms, nth = warp / 8 / a.sms * 8 + warp % 8;
    const uint64_t most = (warps / 8 / a.sms + 1) * 8, lane = i % 32;
    if (a.each) {
        const uint64_t chunks = ((most << a.size_log2) + 16383) >> 14;
        return ((lane * a.sms + sm) * chunks << 14) + (nth << a.size_log2);
    }
    const uint64_t lanes = a.alone ? 1 : 32;
    const uint64_t mebibytes = ((most * lanes << a.size_log2) + 1048575) >> 20;
    return (sm * mebibytes << 20) + ((nth * lanes + (a.alone ? 0 : lane)) << a.size_log2);
}

/* Before each launch: the blocks have been allocated, and parts of each set's spans are used up. */
static __global__ void prepare(floor_args a) {
    for (uint64_t i = wh_thread_id(); i < a.n; i += wh_grid_threads()) {
        const uint64_t at = block_of(a, i);
        a.blocks[i] = at;
        a.words[(at >> 14 << 4) + ((at & 16383) >> a.size_log2 >> 6)] = 0;
        a.tags[at >> 14] = a.size_log2 == 10 ? 1 : 0;
        a.states[at >> 14] = 0;
        a.pool[at >> 20 << 4] = 0;
        if (i < SETS) {
            a.cursors[i * APART] = SPAN / 4 * 3;
            a.cursors[i * APART + 1] = SPAN / 2;
        }
    }
}

typedef struct probe {
    const char *name, *what;
    void (*kernel)(floor_args);
    uint32_t n, size_log2, each, alone, steps;
} probe;

#define M 1000000
static const probe probes[] = {
    {"null", "nothing", null_kernel, M, 8, 0, 0, 0},
    {"malloc_add", "a returned add for each warp", malloc_add, M, 8, 0, 0, 0},
    {"malloc_spans", "and the next span where one of 4,096 slots ends", malloc_spans, M, 8, 0, 0,
     0},
    {"free_16", "all", free_blocks, M, 4, 0, 0, 3},
    {"free_64", "all", free_blocks, M, 6, 0, 0, 3},
    {"free_256_unordered", "tag and word", free_blocks, M, 8, 0, 0, 1},
    {"free_256_word", "tag and word", free_blocks, M, 8, 0, 0, 2},
    {"free_256", "all", free_blocks, M, 8, 0, 0, 3},
    {"free_1024", "all", free_blocks, M, 10, 0, 0, 3},
    {"free_each_word", "tag and word, a block of 256 B in another slab for each lane", free_blocks,
     M, 8, 1, 0, 2},
    {"free_each", "all, likewise", free_blocks, M, 8, 1, 0, 3},
    {"null_alone", "nothing", null_kernel, M / 10, 8, 0, 1, 0},
    {"free_alone_unordered", "tag and word, one lane per warp", free_blocks, M / 10, 8, 0, 1, 1},
    {"free_alone_word", "tag and word, likewise", free_blocks, M / 10, 8, 0, 1, 2},
    {"free_alone", "all, likewise", free_blocks, M / 10, 8, 0, 1, 3},
};
enum { N_PROBES = sizeof probes / sizeof probes[0], REPS = 45, WARM_UPS = 4 };

static float launch_us(const probe &p, floor_args a, cudaEvent_t begin, cudaEvent_t end) {
    a.n = p.n;
    a.size_log2 = p.size_log2;
    a.each = p.each;
    a.alone = p.alone;
    a.steps = p.steps;
    const uint64_t threads = p.alone ? a.n * 32 : a.n;
    float ms = 0;
    prepare<<<1024, 256>>>(a);
    cudaDeviceSynchronize();
    cudaEventRecord(begin);
    p.kernel<<<(uint32_t)((threads + 255) / 256), 256>>>(a);
    cudaEventRecord(end);
    cudaEventSynchronize(end);
    cudaEventElapsedTime(&ms, begin, end);
    return ms * 1000.0f;
}

int main(void) {
    floor_args a;
    cudaDeviceProp prop;
    cudaEvent_t begin, end;
    int driver = 0;
    a.n = M;
    if (cudaGetDeviceProperties(&prop, 0) != cudaSuccess ||
        cudaDriverGetVersion(&driver) != cudaSuccess || cudaEventCreate(&begin) != cudaSuccess ||
        cudaEventCreate(&end) != cudaSuccess || cudaMalloc(&a.blocks, a.n * 8) != cudaSuccess ||
        cudaMalloc(&a.tags, (size_t)CHUNKS * 8) != cudaSuccess ||
        cudaMalloc(&a.words, (size_t)WORDS * 8) != cudaSuccess ||
        cudaMalloc(&a.pool, (size_t)CHUNKS / 64 * 128) != cudaSuccess ||
        cudaMemset(a.pool, 0, (size_t)CHUNKS / 64 * 128) != cudaSuccess ||
        cudaMalloc(&a.lists, 8192 * 8) != cudaSuccess ||
        cudaMemset(a.lists, 1, 8192 * 8) != cudaSuccess ||
        cudaMalloc(&a.above, 8192 * 8) != cudaSuccess ||
        cudaMemset(a.above, 0, 8192 * 8) != cudaSuccess ||
        cudaMalloc(&a.states, (size_t)CHUNKS * 4) != cudaSuccess ||
        cudaMalloc(&a.cursors, (size_t)SETS * APART * 8) != cudaSuccess ||
        cudaMemset(a.cursors, 0, (size_t)SETS * APART * 8) != cudaSuccess ||
        cudaMalloc(&a.out, (a.n + 1024) * 8) != cudaSuccess) {
        fprintf(stderr, "floor_probe: no usable CUDA device\n");
        return 1;
    }
    a.sms = (uint32_t)prop.multiProcessorCount;
    std::vector<float> us[N_PROBES];
    for (int rep = 0; rep < REPS; rep++) {
        for (int k = 0; k < N_PROBES; k++) {
            const float t = launch_us(probes[k], a, begin, end);
            if (rep >= WARM_UPS) {
                us[k].push_back(t);
            }
        }
    }
    const cudaError_t last = cudaGetLastError(), waited = cudaDeviceSynchronize();
    const cudaError_t e = last != cudaSuccess ? last : waited;
    if (e != cudaSuccess) {
        fprintf(stderr, "floor_probe: %s\n", cudaGetErrorString(e));
        return 1;
    }
    printf("{\"device\":\"%s\",\"cuda_driver\":%d,\"compiler\":\"nvcc %d.%d.%d\"}\n", prop.name,
           driver, __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__, __CUDACC_VER_BUILD__);
    float null[2] = {0, 0};
    for (int k = 0; k < N_PROBES; k++) {
        std::sort(us[k].begin(), us[k].end());
        const float median = us[k][us[k].size() / 2];
        null[probes[k].alone] = null[probes[k].alone] == 0 ? median : null[probes[k].alone];
        printf("{\"name\":\"%s\",\"what\":\"%s\",\"us\":%.2f,\"least\":%.2f,"
               "\"most\":%.2f,\"ratio_null\":%.2f}\n",
               probes[k].name, probes[k].what, median, us[k].front(), us[k].back(),
               median / null[probes[k].alone]);
    }
    return 0;
}
