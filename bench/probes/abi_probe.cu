/* abi_probe.cu: what the functions of warpheap_abi.h cost beside wh_malloc and wh_free. A million
 * threads, of 256 a block, malloc and then free a block each of 16 to 1024 bytes; 200,000 threads
 * malloc and free 16 blocks one after the other. Each time is the median of 21 launches, in which
 * all variants take turns on one heap.
 *
 *   linked              wh_malloc, its slow path linked (warpheap::device): what the others are
 *                       compared with
 *   header-only         wh_malloc, all in the kernel
 *   abi                 wh_abi1_malloc, linked (warpheap::abi)
 *   abi, 40 registers   the same functions compiled with 40 registers, not 64
 *   abi, inlined        the same functions in the kernel, as by LTO-IR
 *
 * Prints a table, and JSON with --json FILE. Exit status: 0 if all blocks were right and the heap
 * is sound at the end, whatever the times are; 1 if not; 77 without a GPU.
 *
 *   build   cmake --build BUILD --target abi_probe
 */
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "abi/variant.h"

#define RUNS 21
#define GOAL 1.25 /* times the direct call */

struct linked {
    static __device__ void *get(const work &w, unsigned bytes) {
        return wh_malloc(w.ref, bytes);
    }
    static __device__ void give(const work &w, void *p) {
        wh_free(w.ref, p);
    }
};
struct abi {
    static __device__ void *get(const work &w, unsigned bytes) {
        return wh_abi1_malloc(w.handle, bytes);
    }
    static __device__ void give(const work &w, void *p) {
        (void)wh_abi1_free(w.handle, p);
    }
};

static void must(cudaError_t e) {
    if (e != cudaSuccess) {
        std::printf("%s\n", cudaGetErrorString(e));
        std::exit(1);
    }
}
static void must(wh_status s) {
    if (s != WH_OK) {
        std::printf("%s: %s\n%s\n", wh_status_name(s), wh_status_text(s), wh_last_error_text());
        std::exit(s == WH_NO_DEVICE ? 77 : 1);
    }
}

/* Each block is there, at a multiple of 16, and nobody else's: all are written, then all read. */
static __global__ void write_blocks(work w) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < w.threads) {
        unsigned *p = w.blocks[i];
        if (p == nullptr || reinterpret_cast<uintptr_t>(p) % 16 != 0) {
            wh_add_u32_relaxed(w.wrong, 1);
            return;
        }
        p[0] = i;
        p[probe_bytes(w, i) / 4 - 1] = ~i;
    }
}
static __global__ void read_blocks(work w) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < w.threads && w.blocks[i] != nullptr) {
        const unsigned *p = w.blocks[i];
        if (p[0] != i || p[probe_bytes(w, i) / 4 - 1] != ~i) {
            wh_add_u32_relaxed(w.wrong, 1);
        }
    }
}
/* A handle of no heap: NULL, and no fault. */
static __global__ void no_heap(wh_abi1_heap gone, wh_abi1_heap live, unsigned *wrong) {
    const wh_abi1_heap none[3] = {0, gone, live ^ 2};
    for (wh_abi1_heap heap : none) {
        if (wh_abi1_fits(heap) != 0 || wh_abi1_malloc(heap, 16) != nullptr ||
            wh_abi1_free(heap, wrong) != 1 || wh_abi1_usable_size(heap, wrong) != 0) {
            wh_add_u32_relaxed(wrong, 1);
        }
    }
    if (wh_abi1_fits(live) != 1 || wh_abi1_version() != WH_ABI1_VERSION) {
        wh_add_u32_relaxed(wrong, 1);
    }
}

static void launch(const void *kernel, work w) {
    void *args[] = {&w};
    must(cudaLaunchKernel(kernel, dim3((w.threads + 255) / 256), dim3(256), args, 0, nullptr));
}

static float time_of(const void *kernel, const work &w) {
    static cudaEvent_t begin, end;
    float ms = 0;
    if (begin == nullptr) {
        must(cudaEventCreate(&begin));
        must(cudaEventCreate(&end));
    }
    must(cudaEventRecord(begin));
    launch(kernel, w);
    must(cudaEventRecord(end));
    must(cudaEventSynchronize(end));
    must(cudaEventElapsedTime(&ms, begin, end));
    return 1000 * ms;
}

static float median(std::vector<float> &of) {
    std::sort(of.begin(), of.end());
    return of[of.size() / 2];
}

static FILE *json;
static bool first_row = true;

static void print_row(const char *what, const variant &v, unsigned bytes, float us, float direct) {
    char size[32];
    std::snprintf(size, sizeof size, bytes != 0 ? "%u" : "16-1024", bytes);
    std::printf("%-7s %-8s %-18s %9.1f %6.2f%s\n", what, size, v.name, static_cast<double>(us),
                static_cast<double>(us / direct),
                static_cast<double>(us / direct) > GOAL && v.name[0] == 'a' ? "  above 1.25" : "");
    if (json != nullptr) {
        std::fprintf(json,
                     "%s\n  {\"what\": \"%s\", \"bytes\": \"%s\", \"variant\": \"%s\", "
                     "\"us\": %.2f, \"ratio\": %.3f}",
                     first_row ? "" : ",", what, size, v.name, static_cast<double>(us),
                     static_cast<double>(us / direct));
        first_row = false;
    }
}

static void pairs(const std::vector<variant> &all, work w) {
    std::vector<std::vector<float>> got(all.size()), given(all.size());
    for (int run = -2; run < RUNS; run++) { /* two to warm up */
        for (size_t k = 0; k < all.size(); k++) {
            const size_t v = (k + static_cast<size_t>(run + 2)) % all.size();
            const float get = time_of(all[v].get, w);
            launch(reinterpret_cast<const void *>(write_blocks), w);
            launch(reinterpret_cast<const void *>(read_blocks), w);
            const float give = time_of(all[v].give, w);
            if (run >= 0) {
                got[v].push_back(get);
                given[v].push_back(give);
            }
        }
    }
    const float get = median(got[0]), give = median(given[0]);
    for (size_t v = 0; v < all.size(); v++) {
        print_row("malloc", all[v], w.bytes, median(got[v]), get);
    }
    for (size_t v = 0; v < all.size(); v++) {
        print_row("free", all[v], w.bytes, median(given[v]), give);
    }
}

static void churns(const std::vector<variant> &all, work w) {
    std::vector<std::vector<float>> us(all.size());
    for (int run = -2; run < RUNS; run++) {
        for (size_t k = 0; k < all.size(); k++) {
            const size_t v = (k + static_cast<size_t>(run + 2)) % all.size();
            const float t = time_of(all[v].churn, w);
            if (run >= 0) {
                us[v].push_back(t);
            }
        }
    }
    const float direct = median(us[0]);
    for (size_t v = 0; v < all.size(); v++) {
        print_row("churn", all[v], w.bytes, median(us[v]), direct);
    }
}

static void print_costs(const std::vector<variant> &all) {
    for (const variant &v : all) {
        cudaFuncAttributes get, give;
        must(cudaFuncGetAttributes(&get, v.get));
        must(cudaFuncGetAttributes(&give, v.give));
        std::printf("%-18s malloc %3d registers, %5zu bytes of stack; free %3d, %5zu\n", v.name,
                    get.numRegs, get.localSizeBytes, give.numRegs, give.localSizeBytes);
    }
}

/* Handles of no heap. */
static void probe_no_heap(const work &w) {
    wh_heap *other = nullptr;
    wh_heap_options options = {};
    wh_abi1_heap gone = 0;
    options.bytes = 64 << 20;
    must(wh_heap_create(&other, &options));
    must(wh_heap_abi1_handle(other, &gone));
    must(wh_heap_destroy(other));
    no_heap<<<1, 64>>>(gone, w.handle, w.wrong);
    must(cudaDeviceSynchronize());
    if (*w.wrong != 0) {
        std::printf("handles of no heap: %u of 64 lanes wrong\n", *w.wrong);
    }
}

static void probe_all(const wh_device_info *info, work w) {
    const std::vector<variant> all = {PROBE_VARIANT("linked", linked), header_only_variant(),
                                      PROBE_VARIANT("abi", abi), narrow_variant(),
                                      inlined_variant()};
    std::printf("%s, driver %s\n", info->name, info->driver);
    if (json != nullptr) {
        std::fprintf(json, "{\"device\": \"%s\", \"driver\": \"%s\", \"rows\": [", info->name,
                     info->driver);
    }
    print_costs(all);
    std::printf("\n%-7s %-8s %-18s %9s %6s\n", "what", "bytes", "variant", "us", "ratio");
    for (unsigned bytes : {16u, 64u, 256u, 1024u, 0u}) {
        w.bytes = bytes;
        w.threads = 1 << 20;
        pairs(all, w);
        w.threads = 200000;
        w.steps = PROBE_STEPS;
        churns(all, w);
    }
    must(cudaDeviceSynchronize());
}

static bool verdict(wh_heap *heap, const work &w) {
    wh_stats stats;
    must(wh_heap_get_stats(heap, &stats));
    const wh_status sound = wh_heap_check(heap, nullptr);
    const bool right =
        *w.wrong == 0 && stats.live_blocks == 0 && stats.bad_frees == 0 && sound == WH_OK;
    std::printf(
        "\n%s: %u wrong, %llu blocks left, %llu bad frees, the heap is %s\n",
        right ? "right" : "WRONG", *w.wrong, static_cast<unsigned long long>(stats.live_blocks),
        static_cast<unsigned long long>(stats.bad_frees), sound == WH_OK ? "sound" : "broken");
    return right;
}

int main(int argc, char **argv) {
    wh_heap *heap = nullptr;
    wh_heap_options options = {};
    if (argc == 3 && std::strcmp(argv[1], "--json") == 0) {
        json = std::fopen(argv[2], "w");
        if (json == nullptr) {
            std::perror(argv[2]);
            return 2;
        }
    } else if (argc != 1) {
        std::fprintf(stderr, "usage: abi_probe [--json FILE]\n");
        return 2;
    }
    work w = {};
    options.bytes = 4ull << 30;
    must(wh_heap_create(&heap, &options));
    must(wh_heap_handle(heap, &w.ref));
    must(wh_heap_abi1_handle(heap, &w.handle));
    must(cudaMalloc(&w.blocks, sizeof *w.blocks << 20));
    must(cudaMallocManaged(&w.wrong, sizeof *w.wrong));
    *w.wrong = 0;
    probe_no_heap(w);
    probe_all(wh_device_get_info(wh_heap_device(heap)), w);
    const bool right = verdict(heap, w);
    if (json != nullptr) {
        std::fprintf(json, "\n], \"right\": %s}\n", right ? "true" : "false");
        std::fclose(json);
    }
    must(wh_heap_destroy(heap));
    return right ? 0 : 1;
}
