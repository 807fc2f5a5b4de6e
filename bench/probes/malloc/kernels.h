/* kernels.h: kernels that know nothing of warpheap: they say malloc, free, new and delete. Each
 * file of malloc_probe.cu compiles them once, and so they mean another malloc in each. */
#ifndef PROBE_KERNELS_H
#define PROBE_KERNELS_H

#include "probe.h"

/* A malloc and a free by each thread. */
static __global__ void get(probe_work w) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < w.threads) {
        unsigned *p = static_cast<unsigned *>(malloc(w.bytes));
        w.blocks[i] = p;
        if (p == nullptr) {
            atomicAdd(w.wrong, 1);
        } else {
            p[0] = i;
            p[w.bytes / 4 - 1] = ~i;
        }
    }
}
static __global__ void give(probe_work w) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < w.threads) {
        unsigned *p = w.blocks[i];
        if (p != nullptr && (p[0] != i || p[w.bytes / 4 - 1] != ~i)) {
            atomicAdd(w.wrong, 1);
        }
        free(p);
    }
}

/* Objects of C++: virtual classes, arrays, lists, a type that wants 128 bytes. */
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
struct circle : shape {
    int radius, padding[6];
    __device__ explicit circle(int n) : radius(n) {
    }
    __device__ int area() const override {
        return 3 * radius * radius;
    }
};
struct alignas(128) wide {
    int x[32];
};
struct node {
    node *next;
    int value;
};

static __global__ void objects(probe_work w) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= w.threads) {
        return;
    }
    const int n = static_cast<int>(i % 100);
    shape *s = i % 2 != 0 ? static_cast<shape *>(new square(n)) : new circle(n);
    int *numbers = new int[8 + i % 8];
    wide *aligned = new wide;
    node *list = nullptr;
    int sum = 0;
    for (int k = 0; k < 4; k++) {
        node *more = new node;
        more->next = list;
        more->value = k;
        list = more;
    }
    numbers[7] = s->area();
    aligned->x[31] = n;
    while (list != nullptr) {
        node *first = list;
        sum += first->value;
        list = first->next;
        delete first;
    }
    const int want = (i % 2 != 0 ? 1 : 3) * n * n + n + 6;
    if (numbers[7] + aligned->x[31] + sum != want || reinterpret_cast<size_t>(aligned) % 128 != 0) {
        atomicAdd(w.wrong, 1);
    }
    delete s;
    delete[] numbers;
    delete aligned;
}

#define PROBE_MODULE(name, set)                                                               \
    {                                                                                         \
        name, set, reinterpret_cast<const void *>(get), reinterpret_cast<const void *>(give), \
            reinterpret_cast<const void *>(objects)                                           \
    }

#endif
