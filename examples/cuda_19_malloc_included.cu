/* cuda_19_malloc_included.cu: kernels that say malloc, free, new and delete, as they were written
 * for the malloc of CUDA, and are not touched: the file is compiled with
 * nvcc -include warpheap/warpheap_replace.h, and main has a few lines more.
 * cuda_08_malloc_replaced.cu does it by hand. */
#include "cuda_example.h"

#include <vector>

/* --- the existing code -------------------------------------------------------------------- */

struct shape {
    __device__ virtual int area() const = 0;
    __device__ virtual ~shape() {
    }
};
struct square : shape {
    int side;
    __device__ explicit square(int n) : side(n) {
    }
    __device__ int area() const override {
        return side * side;
    }
};
struct line : shape {
    __device__ int area() const override {
        return 0;
    }
};

__global__ void existing(int *out) {
    const int i = threadIdx.x, n = i % 7 + 1;
    int *list = static_cast<int *>(malloc(n * sizeof(int)));
    shape *s = i % 2 == 0 ? static_cast<shape *>(new square(n)) : new line;
    if (list != nullptr && s != nullptr) {
        list[n - 1] = s->area();
        out[i] = list[n - 1];
    }
    free(list);
    delete s;
}

/* --- what is new -------------------------------------------------------------------------- */

/* [replace main */
#include <warpheap/warpheap_replace.h>

int main() {
    wh_heap *heap = nullptr;
    const wh_status status = wh_replace_malloc_new(1 << 30, &heap); /* grows to 1 GiB at most */
    if (status != WH_OK) {
        std::printf("%s\n%s\n", wh_status_text(status), wh_last_error_text());
        return status == WH_NO_DEVICE ? EXAMPLE_SKIPPED : 1;
    }
    /* replace] */
    const int n = 256;
    int *out = example_shared<int>(n);
    existing<<<1, n>>>(out);
    must(cudaDeviceSynchronize());
    bool right = true;
    for (int i = 0; i < n; i++) {
        right = right && out[i] == (i % 2 == 0 ? (i % 7 + 1) * (i % 7 + 1) : 0);
    }
    std::vector<int> hosts(1000, 1); /* the host's new is the host's */
    wh_stats stats = {};
    must(wh_heap_get_stats(heap, &stats));
    right = right && stats.live_blocks == 0 && hosts[999] == 1;
    must(wh_replace_malloc(nullptr));
    must(wh_heap_destroy(heap));
    std::puts(right ? "right, all freed" : "WRONG");
    return right ? 0 : 1;
}
