// checked.cu: what a checked heap on a GPU says of planted bugs; records of kernels that ended with
// an error, in a process of their own; and that many threads without a bug get no record.
// Exit status 77: there is no GPU.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#define WH_CHECKED 1
#include <warpheap/warpheap.h>

#include "check.h"
#include "../common/planted_bugs.h"

static const uint64_t MIB = 1 << 20;

static wh_heap *create(wh_device *device, uint64_t checked) {
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options options = {};
    wh_heap *heap = nullptr;
    own.checked = checked;
    options.bytes = 512 * MIB;
    options.device = device;
    options.options = &own.head;
    CHECK(wh_heap_create(&heap, &options) == WH_OK);
    return heap;
}

__global__ void churn(wh_heap_ref heap, void **blocks, unsigned seed) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    void **at = &blocks[(i * 977 + seed) % n]; // 977 is odd, n a power of two: each once
    wh_free(heap, *at);
    *at = seed == 0 ? nullptr : wh_malloc(heap, 1 + (i * 37 + seed * 101) % 700);
    if (*at != nullptr) {
        memset(*at, 0x11, 1 + (i * 37 + seed * 101) % 700);
    }
}

static void all_is_well(wh_device *device) {
    wh_heap *heap = create(device, 1);
    wh_heap_ref handle;
    void *blocks = nullptr;
    const unsigned n = 1 << 17;
    CHECK(wh_heap_handle(heap, &handle) == WH_OK);
    CHECK(wh_device_alloc(device, &blocks, n * sizeof(void *)) == WH_OK);
    CHECK(wh_device_set(device, blocks, 0, n * sizeof(void *)) == WH_OK);
    for (unsigned seed = 20; seed-- > 0;) {
        churn<<<n / 256, 256>>>(handle, static_cast<void **>(blocks), seed);
    }
    wh_record record;
    wh_stats stats;
    uint64_t found = 1;
    uint32_t records = 1;
    CHECK(wh_heap_check_blocks(heap, 1, &found) == WH_OK && found == 0);
    CHECK(wh_heap_violations(heap, &record, sizeof record, 1, &records) == WH_OK && records == 0);
    CHECK(wh_heap_check(heap, nullptr) == WH_OK);
    CHECK(wh_heap_get_stats(heap, &stats) == WH_OK && stats.live_blocks == 0);
    (void)wh_device_free(device, blocks);
    CHECK(wh_heap_destroy(heap) == WH_OK);
}

__global__ void twice(wh_heap_ref heap) {
    void *p = wh_malloc_at(heap, 40, WH_TAG(1));
    wh_free_at(heap, p, WH_TAG(2));
    wh_free_at(heap, p, WH_TAG(3));
}

// The kernel ends with an error, after which the process cannot use the GPU; the record is there.
static int child() {
    wh_device *device = nullptr;
    if (wh_device_open(&device, "cuda", nullptr) != WH_OK) {
        return 1;
    }
    wh_heap *heap = create(device, 2);
    wh_heap_ref handle;
    CHECK(wh_heap_handle(heap, &handle) == WH_OK);
    twice<<<1, 1>>>(handle);
    CHECK(wh_device_sync(device) == WH_DEVICE_ERROR);
    wh_record record;
    uint32_t records = 0;
    CHECK(wh_heap_violations(heap, &record, sizeof record, 1, &records) == WH_OK && records == 1);
    CHECK(record.kind == WH_RECORD_DOUBLE_FREE && record.site.line == 3 && record.freed.line == 2);
    return failures != 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && std::strcmp(argv[1], "child") == 0) {
        return child();
    }
    wh_device *device = nullptr;
    if (wh_device_open(&device, "cuda", nullptr) != WH_OK) {
        std::printf("skipped: %s\n", wh_last_error_text());
        return 77;
    }
    for (uint32_t bug = 0; bug < N_BUGS; bug++) {
        CHECK(bug_run(device, bug) == 0);
    }
    all_is_well(device);
    wh_device_close(device);
    const pid_t pid = fork();
    if (pid == 0) {
        execl(argv[0], argv[0], "child", static_cast<char *>(nullptr));
        _exit(127);
    }
    int status = 1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    return failures != 0;
}
