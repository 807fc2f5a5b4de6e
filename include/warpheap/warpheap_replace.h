/* warpheap_replace.h: kernels that say malloc, free, new and delete get their memory from warpheap;
 * their sources stay as they are. C++ for nvcc. docs/REPLACE_MALLOC.md has the whole story.
 *
 *   nvcc -include warpheap/warpheap_replace.h    for each file with kernels, with -rdc=true or not
 *
 * The header defines malloc, free, and the operators new and delete of device code, in each file.
 * malloc and free are static: a kernel of a file without the header that says malloc must not get
 * ours from the linker, since it was compiled for a function that keeps more registers.
 *
 * The host's malloc and new are not touched. Until wh_replace_malloc has been called, and after
 * wh_replace_malloc(NULL), malloc in kernels returns NULL and free does nothing.
 */
#ifndef WH_WARPHEAP_REPLACE_H
#define WH_WARPHEAP_REPLACE_H

#include "warpheap/warpheap.h"

#include "warpheap/detail/simt/begin.h"

#if WH_HAS_HOST && WH_FILE_IS_CUDA

/* Copies to a device variable of the calling module, on this GPU; -1: the current one. */
static inline wh_status wh_replace_store_(int ordinal, const void *variable, const void *from,
                                          size_t bytes) {
    int was = 0;
    cudaError_t e = cudaGetDevice(&was);
    const int own = ordinal >= 0 ? ordinal : was;
    if (e == cudaSuccess && own != was) {
        e = cudaSetDevice(own);
    }
    if (e == cudaSuccess) {
        e = cudaMemcpyToSymbol(variable, from, bytes);
    }
    if (own != was) {
        (void)cudaSetDevice(was);
    }
    return e == cudaSuccess ? WH_OK : WH_DEVICE_ERROR;
}

/* The GPU of a heap; -1: of none. */
static inline int wh_replace_device_(const wh_heap *heap) {
    const wh_device_info *info = wh_device_get_info(wh_heap_device(heap));
    return info != NULL ? info->ordinal : -1;
}

/* What a file that includes this header has on the device: a module of its own. */
typedef struct wh_replace_module_ {
    struct wh_replace_module_ *next;
    const void *heap, *on;
} wh_replace_module_;

static __device__ wh_heap_ref wh_replace_ref_;
static __device__ int wh_replace_on_;

extern "C++" {
/* The modules of all files of the program. What is not static here is one function or class of the
 * whole program, and must not name what is static. */
inline wh_replace_module_ **wh_replace_modules_() {
    static wh_replace_module_ *first = NULL;
    return &first;
}
namespace {
struct wh_replace_entry_ {
    wh_replace_module_ own;
    wh_replace_entry_() {
        own.heap = &wh_replace_ref_;
        own.on = &wh_replace_on_;
        own.next = *wh_replace_modules_();
        *wh_replace_modules_() = &own;
    }
} wh_replace_here_;
} // namespace
}

/* From now on kernels of this program on the GPU of the heap take memory from it, those that are
 * launched later. NULL: of no heap, on the current GPU. Waits for the default stream. The heap must
 * outlive these kernels; blocks belong to the heap, so give back what is left before it changes.
 * Errors: those of wh_heap_handle, WRONG_TARGET, DEVICE_ERROR. */
static inline wh_status wh_replace_malloc(wh_heap *heap) {
    wh_heap_ref ref;
    int on = 0;
    if (heap != NULL) {
        const wh_status s = wh_heap_handle(heap, &ref);
        if (s != WH_OK) {
            return s;
        }
        on = 1;
    }
    const int ordinal = wh_replace_device_(heap);
    if (heap != NULL && ordinal < 0) {
        return WH_WRONG_TARGET; /* the simulated device */
    }
    for (const wh_replace_module_ *m = *wh_replace_modules_(); m != NULL; m = m->next) {
        wh_status s = on ? wh_replace_store_(ordinal, m->heap, &ref, sizeof ref) : WH_OK;
        if (s == WH_OK) {
            s = wh_replace_store_(ordinal, m->on, &on, sizeof on);
        }
        if (s != WH_OK) {
            return s;
        }
    }
    return WH_OK;
}

#if WH_MAKES_DEVICE_CODE
WH_FN_SLOW void *wh_replace_take_(size_t bytes, size_t align) {
    return wh_replace_on_ == 0 ? NULL : wh_aligned_alloc(wh_replace_ref_, align, bytes);
}
static __device__ __noinline__ void *malloc(size_t bytes) noexcept {
    return wh_replace_on_ == 0 ? NULL : wh_malloc(wh_replace_ref_, bytes);
}
static __device__ __noinline__ void free(void *p) noexcept {
    if (wh_replace_on_ != 0) {
        wh_free(wh_replace_ref_, p);
    }
}

#include "warpheap/detail/simt/end.h"
#include <new>
#include "warpheap/detail/simt/begin.h"

/* nvcc makes calls of an external malloc of what it has for these itself, which a definition in the
 * same file does not catch. As there, a full heap is a null pointer. */
#pragma nv_diagnostic push
#pragma nv_diag_suppress 2620, 20039
#define WH_REPLACE_NEW_(word)                             \
    inline __device__ void *operator word(size_t bytes) { \
        return malloc(bytes != 0 ? bytes : 1);            \
    }
#define WH_REPLACE_DELETE_(word)                                     \
    inline __device__ void operator word(void *p) noexcept {         \
        free(p);                                                     \
    }                                                                \
    inline __device__ void operator word(void *p, size_t) noexcept { \
        free(p);                                                     \
    }
extern "C++" {
WH_REPLACE_NEW_(new)
WH_REPLACE_NEW_(new[])
WH_REPLACE_DELETE_(delete)
WH_REPLACE_DELETE_(delete[])
#ifdef __cpp_aligned_new
#define WH_REPLACE_ALIGNED_(new_, delete_)                                                \
    inline __device__ void *operator new_(size_t bytes, std::align_val_t align) {         \
        return wh_replace_take_(bytes != 0 ? bytes : 1, static_cast<size_t>(align));      \
    }                                                                                     \
    inline __device__ void operator delete_(void *p, std::align_val_t) noexcept {         \
        free(p);                                                                          \
    }                                                                                     \
    inline __device__ void operator delete_(void *p, size_t, std::align_val_t) noexcept { \
        free(p);                                                                          \
    }
WH_REPLACE_ALIGNED_(new, delete)
WH_REPLACE_ALIGNED_(new[], delete[])
#endif
}
#pragma nv_diagnostic pop
#endif /* WH_MAKES_DEVICE_CODE */

/* The same with a heap that is made for it, on the current GPU, and grows while kernels run: to
 * most_bytes at most; 0: half of the GPU's memory. *heap may be kept for its statistics, and for
 * wh_replace_malloc(NULL) and wh_heap_destroy at the end; on an error it is NULL. Errors: those of
 * wh_heap_create, wh_heap_growth_start and wh_replace_malloc. Cost: addresses for all of it, of
 * which 64 MiB are mapped at once, and the metadata of reserve.md. */
static inline wh_status wh_replace_malloc_new(uint64_t most_bytes, wh_heap **heap) {
    const uint64_t first = (uint64_t)64 << 20;
    wh_heap_options options = {0};
    wh_growth_options growth = {0};
    uint64_t least = 0;
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *heap = NULL;
    wh_status s = wh_device_open(&options.device, "cuda", NULL);
    if (s != WH_OK) {
        return s;
    }
    if (most_bytes == 0) {
        most_bytes = wh_device_get_info(options.device)->memory_bytes / 2;
    }
    options.reserve_bytes = most_bytes;
    s = wh_heap_min_bytes(&options, &least);
    options.bytes = least + first < most_bytes ? least + first : most_bytes;
    if (s == WH_OK) {
        s = wh_heap_create(heap, &options);
    }
    wh_device_close(options.device); /* the heap holds it */
    if (s == WH_OK) {
        s = wh_heap_growth_start(*heap, &growth);
    }
    if (s == WH_OK) {
        s = wh_replace_malloc(*heap);
    }
    if (s != WH_OK) {
        (void)wh_heap_destroy(*heap);
        *heap = NULL;
    }
    return s;
}

#endif

#include "warpheap/detail/simt/end.h"

#endif
