/* malloc_user.cu: an ordinary program of C++: kernels with malloc, free, new and delete, virtual
 * classes, arrays, types with an alignment of their own; host code with the host's. abi.sh compiles
 * it unchanged, with OTHER_FILE, when it is a second file of a program; and with -include and
 * MALLOC_REPLACED, when it says so to the library. It is run for its host code alone: no GPU. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#ifdef MALLOC_REPLACED
#include <warpheap/warpheap_replace.h>
#endif

namespace {
struct shape {
    __device__ virtual float area() const = 0;
    __device__ virtual ~shape() {
    }
};
struct square : shape {
    float side;
    __device__ explicit square(float x) : side(x) {
    }
    __device__ float area() const override {
        return side * side;
    }
};
struct circle : shape {
    float radius, padding[5];
    __device__ explicit circle(float x) : radius(x) {
    }
    __device__ float area() const override {
        return 3 * radius * radius;
    }
};
struct alignas(128) wide {
    char x[128];
};
struct both_sides {
    int x[4];
    __host__ __device__ static both_sides *make(int n) {
        both_sides *b = new both_sides;
        b->x[1] = n;
        return b;
    }
};
} // namespace

#ifdef OTHER_FILE
#define objects objects_of_another_file
#endif
__global__ void objects(float *out) {
    const int i = threadIdx.x;
    int *numbers = static_cast<int *>(malloc(16 * sizeof(int)));
    shape *s = i % 2 != 0 ? static_cast<shape *>(new square(2)) : new circle(3);
    float *array = new float[8];
    wide *aligned = new wide, *more = new wide[2];
    both_sides *b = both_sides::make(i);
    numbers[3] = i;
    array[3] = s->area();
    aligned->x[5] = more[1].x[5] = 1;
    out[i] = array[3] + static_cast<float>(numbers[3] + b->x[1] + aligned->x[5]);
    delete[] array;
    delete s;
    delete aligned;
    delete[] more;
    delete b;
    free(numbers);
    free(nullptr);
}

#ifndef OTHER_FILE
/* The host's malloc and new are the host's, in this file and in the C++ library. */
static bool host_works() {
    std::vector<std::string> list;
    for (int i = 0; i < 1000; i++) {
        list.push_back(std::string(100, 'a'));
    }
    char *p = static_cast<char *>(malloc(100)), *copy = strdup("text");
    both_sides *b = both_sides::make(7);
    int *array = new int[100];
    array[99] = 5;
    std::strcpy(p, list[999].c_str() + 50);
    const bool right =
        std::strlen(p) == 50 && std::strcmp(copy, "text") == 0 && b->x[1] == 7 && array[99] == 5;
    delete b;
    delete[] array;
    free(copy);
    free(p);
    return right;
}

int main(int argc, char **argv) {
    if (argc == 2 && std::strcmp(argv[1], "host") == 0) {
#ifdef MALLOC_REPLACED
        /* Where there is no GPU the call says so. */
        if (wh_replace_malloc_new(0, nullptr) != WH_BAD_ARGUMENT) {
            return 1;
        }
        /* Each of the two files has a heap of its own to be told of. */
        const wh_replace_module_ *m = *wh_replace_modules_();
        if (m == nullptr || m->next == nullptr || m->heap == m->next->heap) {
            std::puts("two files are taken for one");
            return 1;
        }
#endif
        return host_works() ? 0 : 1;
    }
#ifdef MALLOC_REPLACED
    wh_heap *heap = nullptr;
    if (wh_replace_malloc_new(0, &heap) != WH_OK) {
        std::puts(wh_last_error_text());
        return 77;
    }
#endif
    float *out = nullptr;
    cudaMalloc(&out, 64 * sizeof *out);
    objects<<<1, 64>>>(out);
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
#endif
