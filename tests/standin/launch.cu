// launch.cu: a launch of WH_KERNEL runs on its device's GPU and leaves the caller's current device
// alone; a launch on a device that does not fit is refused. Over the stand-in for the CUDA
// runtime, so no kernel runs.
#include <cstdio>

#include <warpheap/warpheap.h>

#include "standin.h"

static int failures;

#define CHECK(condition)                                                \
    do {                                                                \
        if (!(condition)) {                                             \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            failures++;                                                 \
        }                                                               \
    } while (0)

struct args {
    int *out;
};

WH_KERNEL(write_one, args, a) {
    a.out[0] = 1;
}

template <class T> struct typed_args { T *out; };

WH_KERNEL_TEMPLATE((class T), write_typed, typed_args<T>, a) {
    a.out[0] = T(1);
}

static void launches(wh_device *d, int own, int callers) {
    const args a = {};
    const typed_args<double> t = {};
    wh_launch l = {};
    int now = -1;
    l.device = d;
    l.blocks = 1;
    l.threads = 32;
    CHECK(cudaSetDevice(callers) == cudaSuccess);
    standin_forget();
    CHECK(write_one(&l, &a) == WH_OK);
    CHECK(write_typed(&l, &t) == WH_OK);
    l.shared_bytes = 100u << 10; // more than a kernel has without asking
    CHECK(write_one(&l, &a) == WH_OK);
    CHECK(standin_calls_on(own) >= 4);
    CHECK(standin_calls_on(1 - own) == 0);
    CHECK(cudaGetDevice(&now) == cudaSuccess && now == callers);
    // What failed before is neither this launch's, nor taken away.
    void *p = nullptr;
    standin_fail(cudaErrorMemoryAllocation, 0);
    CHECK(cudaMalloc(&p, 64) == cudaErrorMemoryAllocation);
    CHECK(write_one(&l, &a) == WH_OK);
    CHECK(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    // What the launch itself fails with is told once.
    standin_fail(cudaErrorInvalidValue, 3); // behind the three calls for shared memory
    CHECK(write_one(&l, &a) == WH_DEVICE_ERROR);
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(cudaGetDevice(&now) == cudaSuccess && now == callers);
    l.threads = 2000;
    CHECK(write_one(&l, &a) == WH_BAD_ARGUMENT);
    CHECK(cudaGetDevice(&now) == cudaSuccess && now == callers);
}

int main() {
    wh_device *d[2] = {}, *sim = nullptr;
    const args a = {};
    CHECK(wh_device_open(&d[0], "cuda:0", nullptr) == WH_OK);
    CHECK(wh_device_open(&d[1], "cuda:1", nullptr) == WH_OK);
    CHECK(wh_device_open(&sim, "sim", nullptr) == WH_OK);
    for (int i = 0; i < 4; i++) {
        launches(d[i / 2], i / 2, i % 2);
    }
    wh_launch l = {};
    l.device = sim;
    l.blocks = 1;
    l.threads = 32;
    CHECK(write_one(&l, &a) == WH_BAD_ARGUMENT);
    for (wh_device *each : {d[0], d[1], sim}) {
        wh_device_close(each);
    }
    std::printf("%d failures\n", failures);
    return failures != 0;
}
