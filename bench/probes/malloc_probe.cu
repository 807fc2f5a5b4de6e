/* malloc_probe.cu: kernels that say malloc, free, new and delete, before and after warpheap takes
 * the place of CUDA's by warpheap_replace.h: in a file without -rdc, and in one with -rdc=true that
 * is linked with warpheap::device. All three are in this one program: each file has a malloc of its
 * own. A million threads (CUDA's: 65,536)
 * with a block each, and with objects of C++. Each time is the median of 11 launches.
 *
 * Prints a table, and JSON with --json FILE. Exit status: 0 if every block was right, came from the
 * heap that it should, and nothing is left; 1 if not; 77 without a GPU.
 *
 *   build   cmake --build BUILD --target malloc_probe
 */
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "malloc/probe.h"

#include "warpheap/heap.h"

#include <cuda_runtime.h>

#define RUNS 11
#define MOST_THREADS (1u << 20)

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

static float time_of(const void *kernel, probe_work w) {
    static cudaEvent_t begin, end;
    float ms = 0;
    void *args[] = {&w};
    if (begin == nullptr) {
        must(cudaEventCreate(&begin));
        must(cudaEventCreate(&end));
    }
    must(cudaEventRecord(begin));
    must(cudaLaunchKernel(kernel, dim3((w.threads + 255) / 256), dim3(256), args, 0, nullptr));
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
static bool wrong_somewhere;

static void row(const char *what, unsigned bytes, const probe_module &m, const probe_work &w,
                float us) {
    static bool first = true;
    const double each = 1000 * static_cast<double>(us) / w.threads;
    std::printf("%-8s %5u %-9s %9u %12.1f %9.2f\n", what, bytes, m.name, w.threads,
                static_cast<double>(us), each);
    if (json != nullptr) {
        std::fprintf(json,
                     "%s\n  {\"what\": \"%s\", \"bytes\": %u, \"malloc\": \"%s\", "
                     "\"threads\": %u, \"us\": %.1f, \"ns_per_thread\": %.3f}",
                     first ? "" : ",", what, bytes, m.name, w.threads, static_cast<double>(us),
                     each);
        first = false;
    }
}

static void wrong(const char *what, const probe_module &m, unsigned long long n) {
    wrong_somewhere = true;
    std::printf("WRONG: %s, %s malloc: %llu\n", what, m.name, n);
}

static unsigned long long live(wh_heap *heap) {
    wh_stats stats;
    must(wh_heap_get_stats(heap, &stats));
    return stats.live_blocks;
}

/* All workloads with one malloc. heap: where its blocks must be; NULL: CUDA's. */
static void measure(const probe_module &m, wh_heap *heap, probe_work w) {
    w.threads = heap != nullptr ? MOST_THREADS : MOST_THREADS / 16;
    if (heap != nullptr) { /* before the call there is no memory, and no fault */
        probe_work none = w;
        none.bytes = 16;
        (void)time_of(m.get, none);
        if (*w.wrong != w.threads) {
            wrong("not NULL before wh_replace_malloc", m, w.threads - *w.wrong);
        }
        (void)time_of(m.give, none);
        *w.wrong = 0;
        must(static_cast<wh_status>(m.set(heap)));
    }
    for (unsigned bytes : {16u, 64u, 256u}) {
        std::vector<float> got, given;
        w.bytes = bytes;
        for (int run = -1; run < RUNS; run++) {
            const float get = time_of(m.get, w);
            if (heap != nullptr && run < 0 && live(heap) != w.threads) {
                wrong("blocks in the heap", m, live(heap));
            }
            const float give = time_of(m.give, w);
            if (run >= 0) {
                got.push_back(get);
                given.push_back(give);
            }
        }
        row("malloc", bytes, m, w, median(got));
        row("free", bytes, m, w, median(given));
    }
    std::vector<float> us;
    w.threads /= 4; /* seven blocks each, and some of 128 bytes */
    for (int run = -1; run < RUNS; run++) {
        us.push_back(time_of(m.objects, w));
    }
    us.erase(us.begin());
    row("objects", 0, m, w, median(us));
    if (*w.wrong != 0) {
        wrong("threads that found something else", m, *w.wrong);
        *w.wrong = 0;
    }
    if (heap != nullptr) {
        if (live(heap) != 0) {
            wrong("blocks left", m, live(heap));
        }
        must(wh_heap_check(heap, nullptr));
        must(static_cast<wh_status>(m.set(nullptr)));
    }
}

int main(int argc, char **argv) {
    wh_heap *heap = nullptr;
    wh_heap_options options = {};
    probe_work w = {};
    if (argc == 3 && std::strcmp(argv[1], "--json") == 0) {
        json = std::fopen(argv[2], "w");
        if (json == nullptr) {
            std::perror(argv[2]);
            return 2;
        }
    } else if (argc != 1) {
        std::fprintf(stderr, "usage: malloc_probe [--json FILE]\n");
        return 2;
    }
    must(wh_device_open(&options.device, "cuda", nullptr));
    must(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1ull << 30)); /* before any kernel */
    options.bytes = 2ull << 30;
    must(wh_heap_create(&heap, &options));
    must(cudaMalloc(&w.blocks, sizeof *w.blocks * MOST_THREADS));
    must(cudaMallocManaged(&w.wrong, sizeof *w.wrong));
    *w.wrong = 0;
    const wh_device_info *info = wh_device_get_info(options.device);
    std::printf("%s, driver %s\n", info->name, info->driver);
    if (json != nullptr) {
        std::fprintf(json, "{\"device\": \"%s\", \"driver\": \"%s\", \"rows\": [", info->name,
                     info->driver);
    }
    std::printf("%-8s %5s %-9s %9s %12s %9s\n", "what", "bytes", "malloc", "threads", "us",
                "ns each");
    measure(cuda_module(), nullptr, w);
    measure(included_module(), heap, w);
    measure(included_rdc_module(), heap, w);
    if (json != nullptr) {
        std::fprintf(json, "\n], \"right\": %s}\n", wrong_somewhere ? "false" : "true");
        std::fclose(json);
    }
    must(wh_heap_destroy(heap));
    wh_device_close(options.device);
    std::printf("%s\n", wrong_somewhere ? "WRONG" : "right");
    return wrong_somewhere ? 1 : 0;
}
