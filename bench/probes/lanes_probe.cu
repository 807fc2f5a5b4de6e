/* lanes_probe.cu: whether the compiler leaves lanes behind (simt/cuda.h, "may leave lanes behind").
 * Groups of lanes that happen to be together have a leader each that works alone for a while; the
 * others of its group wait for it at a shuffle, and every fourth step the whole warp meets. That is
 * right by the rules of CUDA, and must end; no allocator takes part. Prints one line of JSON: the
 * compiler, whether a launch did not end within a second, and how many lanes stood where.
 *
 *   build   nvcc -std=c++17 -O3 -arch=sm_90 bench/probes/lanes_probe.cu
 *
 * Seen on an H100 with driver 580.159, with an earlier form of this program (not kept): hung with
 * nvcc 13.0.88 (-O3, also with -Xptxas -O1 and -O0), fine with nvcc 13.5.37, with -G, and for
 * -arch=compute_90, which the driver compiles. Exit status 0, or 3 if it hung.
 */
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>
#include <unistd.h>

static const int n_lanes = 16384;
__device__ unsigned long long sink, site[n_lanes], masks[n_lanes];

__device__ uint64_t mix(uint64_t x) {
    x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
    x = (x ^ x >> 27) * 0x81dadef4bc2dd44du;
    return x ^ x >> 33;
}

/* A loop of some rounds. A sleep in it is what it takes; a loop within it that polls with an
 * acquire load does as well. */
__device__ __noinline__ uint64_t work(uint64_t n) {
    uint64_t v = n;
    for (int i = 0; i < (int)(n % 7); i++) {
        v = mix(v);
        if (v % 5 == 0) {
            __nanosleep(100);
        }
        v += atomicAdd(&sink, 1ull);
    }
    return v | 1;
}

enum { MEETS = 1, STEPS, SHUFFLES, WAITS, IS_SERVED, N_SITES };

__global__ void storm(uint64_t seed, int steps, unsigned long long *bad) {
    const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    uint64_t random = mix(seed + t * 0x9e3779b97f4a7c15u);
    for (int step = 0; step < steps; step++) {
        random = mix(random + 0x9e3779b97f4a7c15u);
        const uint64_t r = random;
        const uint32_t what = r % 8;
        if (step % 4 == 3) {
            site[t] = MEETS;
            __syncwarp(~0u);
        }
        site[t] = STEPS;
        if (what < 4) {
            if (work(mix(r)) == 0) {
                atomicAdd(bad, 1);
            }
        } else if (what == 4) {
            const uint32_t mask = __activemask();
            const uint32_t leader = __ffs(mask) - 1;
            site[t] = SHUFFLES;
            masks[t] = mask;
            const uint64_t n = __shfl_sync(mask, (unsigned long long)r, leader);
            site[t] = WAITS;
            uint64_t p = 0;
            if (lane == leader) {
                p = work(n);
            }
            p = __shfl_sync(mask, (unsigned long long)p, leader);
            __syncwarp(mask);
            site[t] = IS_SERVED;
            if (p == 0) {
                atomicAdd(bad, 1);
            }
        } else if (what == 5) {
            __nanosleep(r >> 40 & 255);
        }
    }
}

int main(void) {
    static unsigned long long at[n_lanes];
    unsigned long long *bad, n_bad = 0, stood[N_SITES] = {0};
    cudaEvent_t end;
    cudaStream_t other;
    int done = 1;
    if (cudaMalloc(&bad, 8) != cudaSuccess || cudaMemset(bad, 0, 8) != cudaSuccess ||
        cudaEventCreate(&end) != cudaSuccess ||
        cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) != cudaSuccess) {
        fprintf(stderr, "lanes_probe: no usable CUDA device\n");
        return 1;
    }
    for (int seed = 0; seed < 40 && done; seed++) {
        storm<<<n_lanes / 256, 256>>>(1000 + seed, 100, bad);
        cudaEventRecord(end, 0);
        done = 0;
        for (int i = 0; i < 200 && !done; i++) {
            done = cudaEventQuery(end) == cudaSuccess;
            usleep(done ? 0 : 5000);
        }
    }
    if (done) {
        cudaMemcpy(&n_bad, bad, 8, cudaMemcpyDeviceToHost);
    } else {
        cudaMemcpyFromSymbolAsync(at, site, sizeof at, 0, cudaMemcpyDeviceToHost, other);
        cudaStreamSynchronize(other);
        for (int i = 0; i < n_lanes; i++) {
            stood[at[i] < N_SITES ? at[i] : 0]++;
        }
    }
    printf("{\"compiler\": \"nvcc %d.%d.%d\", \"hung\": %s, \"bad\": %llu, \"meets\": %llu, "
           "\"steps\": %llu, "
           "\"shuffles\": %llu, \"waits\": %llu, \"is_served\": %llu}\n",
           __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__, __CUDACC_VER_BUILD__,
           done ? "false" : "true", n_bad, stood[MEETS], stood[STEPS], stood[SHUFFLES],
           stood[WAITS], stood[IS_SERVED]);
    fflush(stdout);
    _exit(done ? 0 : 3); /* without waiting for a kernel that does not end */
}
