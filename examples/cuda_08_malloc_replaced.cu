/* cuda_08_malloc_replaced.cu: kernels that say malloc, free, new and delete, as they were
 * written for the malloc of CUDA, get their memory from warpheap. */
#include <cstdlib>
#include <new>
#include <vector>

#include "cuda_example.h"

/* [docs replaced */
__device__ wh_heap_ref app_heap;

/* One operator serves kernels and the host: a device operator alone would take the place of the
 * host's in the whole program. Neither may return null: where memory is short a kernel ends with
 * an error. */
__host__ __device__ static void *app_new(size_t n) {
#ifdef __CUDA_ARCH__
    void *p = wh_malloc(app_heap, n != 0 ? n : 1);
    if (p == nullptr) {
        wh_trap("new: the heap is full");
    }
    return p;
#else
    void *p = std::malloc(n != 0 ? n : 1);
    if (p == nullptr) {
        throw std::bad_alloc();
    }
    return p;
#endif
}
__host__ __device__ static void app_delete(void *p) {
#ifdef __CUDA_ARCH__
    wh_free(app_heap, p);
#else
    std::free(p);
#endif
}
__host__ __device__ void *operator new(size_t n) {
    return app_new(n);
}
__host__ __device__ void *operator new[](size_t n) {
    return app_new(n);
}
__host__ __device__ void operator delete(void *p) noexcept {
    app_delete(p);
}
__host__ __device__ void operator delete[](void *p) noexcept {
    app_delete(p);
}
__host__ __device__ void operator delete(void *p, size_t) noexcept {
    app_delete(p);
}
__host__ __device__ void operator delete[](void *p, size_t) noexcept {
    app_delete(p);
}

#define malloc(n) wh_malloc(app_heap, n) /* after all includes */
#define free(p) wh_free(app_heap, p)
/* docs] */

/* --- the existing code -------------------------------------------------------------------- */

struct shape {
    int sides;
    __device__ explicit shape(int n) : sides(n) {
    }
    __device__ virtual int area() const {
        return sides;
    }
    __device__ virtual ~shape() {
    }
};

struct square : shape {
    __device__ square() : shape(4) {
    }
    __device__ int area() const override {
        return 16;
    }
};

__global__ void existing(int *out) {
    const int i = threadIdx.x, n = i % 7 + 1;
    int *list = (int *)malloc(n * sizeof(int));
    if (list != nullptr) {
        list[n - 1] = i;
        out[i] += list[n - 1];
        free(list);
    }
    shape *s = i % 2 == 0 ? new shape(3) : new square;
    out[i] += s->area();
    delete s;
    int *more = new int[n];
    more[n - 1] = n;
    out[i] += more[n - 1];
    delete[] more;
}

#undef malloc
#undef free

/* The host's new is the host's: in this file, in others, and in libraries. */
static bool host_new_works() {
    std::vector<int> list;
    for (int i = 0; i < 1000; i++) {
        list.push_back(i);
    }
    int *one = new int(5);
    const bool right = list[999] == 999 && *one == 5;
    delete one;
    return right;
}

int main() {
    if (!host_new_works()) {
        return 1;
    }
    const int n = 64;
    const example_heap h = example_open(16 << 20);
    int *out = example_shared<int>(n);
    must(cudaMemcpyToSymbol(app_heap, &h.handle, sizeof h.handle));
    existing<<<1, n>>>(out);
    must(cudaDeviceSynchronize());
    bool right = true;
    for (int i = 0; i < n; i++) {
        right = right && out[i] == i + (i % 2 == 0 ? 3 : 16) + i % 7 + 1;
    }
    return example_close(h, right);
}
