/* simt/cuda.h: the contract of simt.h on an NVIDIA GPU (sm_70 or newer). Internal: may change.
 *
 * Atomics are inline PTX with the .global state space: __nv_atomic_* and
 * cuda::atomic_ref compile to generic addressing, which costs extra instructions
 * per access (docs/MEMORY_MODEL.md has the measurement). Ordered operations clobber
 * "memory" so that the compiler keeps plain accesses on their side; relaxed ones
 * do not, as C11 allows.
 *
 * P1  an access that releases, and one on another GPU that acquires, order each other only if both
 *     are of .sys scope, which they are with WH_PEERS; so do atomics of two GPUs on one word.
 */
#ifndef WH_SIMT_CUDA_H
#define WH_SIMT_CUDA_H

#include "warpheap/device.h"
#include "warpheap/detail/simt/target.h"
#include "warpheap/detail/version.h"

#if WH_HAS_HOST
#include <cuda_runtime.h>
#endif

#include "warpheap/detail/simt/begin.h"

#define WH_FN static __device__ __forceinline__
#define WH_FN_SLOW static __device__ __noinline__

/* WH_FN_LINKED in three kinds of files. Header-only, the default: a function of this file. With
 * WH_LINKED=1: declared here, defined in the linked library (warpheap::device); the body becomes
 * that of a function which nobody calls. With WH_LINKED_DEFINE, the library's own two files:
 * defined for others, those for malloc by 1, those for free by 2. The namespace is the version, and
 * the options that change the code: headers find the functions of no other version, and parameters
 * are part of a symbol in any case. */
#if defined(WH_LINKED) && !defined(WH_LINKED_DEFINE)
#define WH_IS_LINKED WH_LINKED
#else
#define WH_IS_LINKED 0
#endif
#ifndef WH_PEERS
#define WH_PEERS 0
#elif WH_PEERS && (WH_IS_LINKED || defined(WH_LINKED_DEFINE))
#error "WH_PEERS=1 is for header-only files: the functions of warpheap::device are for one GPU"
#endif
#ifdef WH_HOSTILE
#define WH_LINKED_HOSTILE_ _hostile
#else
#define WH_LINKED_HOSTILE_
#endif
#if defined(WH_ASSERTS) && WH_ASSERTS != 0
#define WH_LINKED_ASSERTS_ WH_CAT(_asserts, WH_ASSERTS)
#else
#define WH_LINKED_ASSERTS_
#endif
#define WH_LINKED_SPACE1_(x, y, z, hostile, asserts) wh_##x##_##y##_##z##hostile##asserts
#define WH_LINKED_SPACE2_(x, y, z, hostile, asserts) WH_LINKED_SPACE1_(x, y, z, hostile, asserts)
#define WH_LINKED_SPACE_                                                                        \
    WH_LINKED_SPACE2_(WH_VERSION_MAJOR, WH_VERSION_MINOR, WH_VERSION_PATCH, WH_LINKED_HOSTILE_, \
                      WH_LINKED_ASSERTS_)
#define WH_LINKED_DECLARE_(type, name, parameters) \
    inline namespace WH_LINKED_SPACE_ {            \
    __device__ type name parameters;               \
    }
#define WH_LINKED_THERE_(type, name, parameters) \
    WH_LINKED_DECLARE_(type, name, parameters)   \
    static __device__ __noinline__ type WH_CAT(name, here_) parameters
#define WH_LINKED_HERE_(type, name, parameters) \
    WH_LINKED_DECLARE_(type, name, parameters)  \
    __device__ __noinline__ type WH_LINKED_SPACE_::name parameters
#if WH_IS_LINKED
#if !defined(__CUDACC_RDC__) && !defined(__clang__) /* clang does not say */
#error "WH_LINKED=1 wants relocatable device code: nvcc -rdc=true, NVRTC -rdc=true or -dlto, \
CMake target_link_libraries(... warpheap::device). Without WH_LINKED=1 nothing is linked."
#endif
#define WH_FN_LINKED(type, name, parameters) WH_LINKED_THERE_(type, name, parameters)
#define WH_FN_LINKED_FREE(type, name, parameters) WH_LINKED_THERE_(type, name, parameters)
#elif !defined(WH_LINKED_DEFINE)
#define WH_FN_LINKED(type, name, parameters) WH_FN_SLOW type name parameters
#define WH_FN_LINKED_FREE(type, name, parameters) WH_FN_SLOW type name parameters
#elif WH_LINKED_DEFINE == 1
#define WH_FN_LINKED(type, name, parameters) WH_LINKED_HERE_(type, name, parameters)
#define WH_FN_LINKED_FREE(type, name, parameters) WH_LINKED_THERE_(type, name, parameters)
#else
#define WH_FN_LINKED(type, name, parameters) WH_LINKED_THERE_(type, name, parameters)
#define WH_FN_LINKED_FREE(type, name, parameters) WH_LINKED_HERE_(type, name, parameters)
#endif

#ifdef __CUDA_ARCH__
#define WH_MAKES_DEVICE_CODE 1
#else
#define WH_MAKES_DEVICE_CODE 0
#endif
#define WH_FN_EXPORT(type, name, parameters) extern "C" __device__ __noinline__ type name parameters

/* Before a loop: not to be unrolled. The first execution of each line of code on an SM waits
 * for memory, so code that runs once is best short. */
#ifdef __CUDA_ARCH__
#define WH_NO_UNROLL _Pragma("unroll 1")
#define WH_UNROLL_8 _Pragma("unroll 8") /* a long loop of stores that one lane may have alone */
#else
#define WH_NO_UNROLL
#define WH_UNROLL_8
#endif
#define WH_HD static __host__ __device__ __forceinline__
#define WH_DEVICE __device__
#define WH_HOST_DEVICE __host__ __device__
#if defined(__clang__) /* which asks when it makes code for a side */
#define WH_ANY_SIDE
#else
#define WH_ANY_SIDE _Pragma("nv_exec_check_disable")
#endif
#if WH_HAS_HOST
#define WH_FN_HOST static inline
#else
#define WH_FN_HOST static __device__ inline
#endif
#define WH_TARGETED(name) WH_CAT(name, _cuda)
#define WH_TARGET_IS_SIM 0
#define WH_TARGET_NAME "cuda"
#define WH_STATIC_ASSERT(cond, text) static_assert(cond, text)

/* Kernels may be launched with up to WH_KERNEL_THREADS threads a block, hence the
 * bound. A file that never launches more than, say, 256 defines it so before its
 * includes and gets more registers per thread; with WH_KERNEL_BLOCKS it asks for so
 * many blocks on an SM at once, hence for fewer registers, but never for more blocks than
 * an SM of the architecture in hand can hold, which ptxas would refuse. The arguments are
 * a __grid_constant__, so a kernel that takes an address inside them does not copy them to
 * local memory. */
#ifndef WH_KERNEL_THREADS
#define WH_KERNEL_THREADS 1024
#endif
#ifndef WH_KERNEL_BLOCKS
#define WH_KERNEL_BLOCKS 1
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800 || \
    (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200)
#define WH_SM_THREADS 2048
#elif __CUDA_ARCH__ == 750
#define WH_SM_THREADS 1024
#else
#define WH_SM_THREADS 1536
#endif
#define WH_SM_BLOCKS                                                         \
    (WH_KERNEL_BLOCKS < WH_SM_THREADS / WH_KERNEL_THREADS ? WH_KERNEL_BLOCKS \
                                                          : WH_SM_THREADS / WH_KERNEL_THREADS)
#define WH_CUDA_BOUNDS_ __launch_bounds__(WH_KERNEL_THREADS, WH_SM_BLOCKS)

#if WH_HAS_HOST
/* More than 48 KiB, static shared memory included, has to be asked for; 16 may be static. */
#define WH_CUDA_DEFAULT_SHARED_ (32u << 10)

/* As much dynamic shared memory as a block of the kernel can have, whatever this launch wants: so
 * launches by several host threads do not take it from each other. */
static inline cudaError_t wh_cuda_allow_shared_(const void *kernel, int device) {
    cudaFuncAttributes has;
    int most = 0;
    cudaError_t e = cudaFuncGetAttributes(&has, kernel);
    if (e == cudaSuccess) {
        e = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    }
    if (e == cudaSuccess) {
        e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 most - static_cast<int>(has.sharedSizeBytes));
    }
    return e;
}

/* What a launcher knows from before the launch to after it. */
typedef struct wh_cuda_launch_ {
    wh_status status;
    int own, was; /* the launch's device, and the calling thread's current one */
    cudaError_t
        cuda_pending; /* an error from before, that nobody has asked for: not this launch's */
    cudaError_t cuda_error;
    dim3 blocks, threads;
    cudaStream_t stream;
} wh_cuda_launch_;

/* The only code before a launch of WH_KERNEL ... */
static inline wh_cuda_launch_ wh_cuda_enter_(const wh_launch *l, const void *args,
                                             const void *kernel) {
    wh_cuda_launch_ c;
    c.status = args != NULL ? wh_launch_check(l, WH_TARGET_CUDA) : WH_BAD_ARGUMENT;
    if (c.status != WH_OK) {
        return c;
    }
    c.own = c.was = wh_device_get_info(l->device)->ordinal;
    c.cuda_pending = cudaPeekAtLastError();
    c.cuda_error = cudaGetDevice(&c.was);
    if (c.cuda_error == cudaSuccess && c.was != c.own) {
        c.cuda_error = cudaSetDevice(c.own);
    }
    if (c.cuda_error == cudaSuccess && l->shared_bytes > WH_CUDA_DEFAULT_SHARED_) {
        c.cuda_error = wh_cuda_allow_shared_(kernel, c.own);
    }
    c.blocks.x = l->blocks;
    c.blocks.y = l->blocks_y != 0 ? l->blocks_y : 1;
    c.blocks.z = l->blocks_z != 0 ? l->blocks_z : 1;
    c.threads.x = l->threads;
    c.threads.y = l->threads_y != 0 ? l->threads_y : 1;
    c.threads.z = l->threads_z != 0 ? l->threads_z : 1;
    c.stream = static_cast<cudaStream_t>(l->stream);
    return c;
}

/* ... and after it, also when there was none. */
static inline wh_status wh_cuda_leave_(const wh_cuda_launch_ *c, const wh_launch *l,
                                       const char *name) {
    wh_status s = c->status;
    if (s != WH_OK) {
        return s;
    }
    if (c->cuda_error != cudaSuccess) {
        (void)cudaGetLastError(); /* it is told here */
        s = wh_device_note_cuda(l->device, static_cast<int>(c->cuda_error), name,
                                cudaGetErrorString(c->cuda_error));
    }
    if (c->was != c->own) {
        (void)cudaSetDevice(c->was);
    }
    return s;
}

/* Blocks of the kernel that the whole device holds. */
static inline wh_status wh_cuda_occupancy_(const void *kernel, wh_device *device, uint32_t threads,
                                           uint32_t shared_bytes, uint32_t *blocks) {
    const wh_device_info *info = wh_device_get_info(device);
    int was = info->ordinal, of_sm = 0;
    cudaError_t e = cudaGetDevice(&was);
    if (e == cudaSuccess && was != info->ordinal) {
        e = cudaSetDevice(info->ordinal);
    }
    if (e == cudaSuccess && shared_bytes > WH_CUDA_DEFAULT_SHARED_) {
        e = wh_cuda_allow_shared_(kernel, info->ordinal);
    }
    if (e == cudaSuccess) {
        e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_sm, kernel, static_cast<int>(threads),
                                                          shared_bytes);
    }
    if (was != info->ordinal) {
        (void)cudaSetDevice(was);
    }
    *blocks = info->n_sms * static_cast<uint32_t>(of_sm > 1 ? of_sm : 1);
    if (e != cudaSuccess) {
        (void)cudaGetLastError();
        return wh_device_note_cuda(device, static_cast<int>(e), "occupancy", cudaGetErrorString(e));
    }
    return WH_OK;
}

/* <<<>>> tells its error where that of an earlier call may lie, and cudaLaunchKernel returns its
 * own, but takes a microsecond longer (H100). */
#define WH_CUDA_LAUNCH_(kernel, name)                                                             \
    wh_cuda_launch_ wh_c = wh_cuda_enter_(wh_l, wh_args, reinterpret_cast<const void *>(kernel)); \
    if (wh_c.status == WH_OK && wh_c.cuda_error == cudaSuccess) {                                 \
        if (wh_c.cuda_pending == cudaSuccess) {                                                   \
            kernel<<<wh_c.blocks, wh_c.threads, wh_l->shared_bytes, wh_c.stream>>>(*wh_args);     \
            wh_c.cuda_error = cudaPeekAtLastError();                                              \
        } else {                                                                                  \
            const void *wh_p[1] = {wh_args};                                                      \
            wh_c.cuda_error = cudaLaunchKernel(                                                   \
                reinterpret_cast<const void *>(kernel), wh_c.blocks, wh_c.threads,                \
                const_cast<void **>(wh_p), wh_l->shared_bytes, wh_c.stream);                      \
        }                                                                                         \
    }                                                                                             \
    return wh_cuda_leave_(&wh_c, wh_l, #name)

#define WH_KERNEL(name, args_t, a)                                               \
    static __global__ void name##_kernel(const __grid_constant__ args_t a);      \
    static inline wh_status name(const wh_launch *wh_l, const args_t *wh_args) { \
        WH_CUDA_LAUNCH_(name##_kernel, name);                                    \
    }                                                                            \
    static __global__ void WH_CUDA_BOUNDS_ name##_kernel(const __grid_constant__ args_t a)

#define WH_KERNEL_PLAIN(name, args_t, a)                                         \
    static __global__ void name##_kernel(const __grid_constant__ args_t a);      \
    static inline wh_status name(const wh_launch *wh_l, const args_t *wh_args) { \
        WH_CUDA_LAUNCH_(name##_kernel, name);                                    \
    }                                                                            \
    static __global__ void name##_kernel(const __grid_constant__ args_t a)

/* The kernel's template arguments follow from the type of its parameter. */
#define WH_KERNEL_TEMPLATE(params, name, args_t, a)                                               \
    template <WH_BARE_(params)>                                                                   \
    static __global__ void name##_kernel(const __grid_constant__ WH_BARE_(args_t) a);             \
    template <WH_BARE_(params)>                                                                   \
    static inline wh_status name(const wh_launch *wh_l, const WH_BARE_(args_t) * wh_args) {       \
        void (*const wh_k)(const WH_BARE_(args_t)) = name##_kernel;                               \
        WH_CUDA_LAUNCH_(wh_k, name);                                                              \
    }                                                                                             \
    template <WH_BARE_(params)>                                                                   \
    static __global__ void WH_CUDA_BOUNDS_ name##_kernel(const __grid_constant__ WH_BARE_(args_t) \
                                                             a)
#define WH_KERNEL_SYMBOL(name) reinterpret_cast<const void *>(name##_kernel)
#define WH_KERNEL_OCCUPANCY(name, device, threads, shared_bytes, blocks) \
    wh_cuda_occupancy_(WH_KERNEL_SYMBOL(name), device, threads, shared_bytes, blocks)
#else
/* NVRTC has no host half: whoever compiles launches the kernel by the driver's calls, with the
 * struct as the only argument. */
#define WH_KERNEL(name, args_t, a) \
    extern "C" __global__ void WH_CUDA_BOUNDS_ name(const __grid_constant__ args_t a)
#define WH_KERNEL_TEMPLATE(params, name, args_t, a) \
    template <WH_BARE_(params)>                     \
    __global__ void WH_CUDA_BOUNDS_ name(const __grid_constant__ WH_BARE_(args_t) a)
#endif

/* --- calls that __host__ __device__ code makes --------------------------------- */

#if WH_HAS_HOST
#define WH_CALL static __host__ __device__ __forceinline__
#else
#define WH_CALL WH_FN
#endif
#if defined(__CUDA_ARCH__) || !WH_HAS_HOST
#define WH_DEVICE_ONLY(expression, type, text, ...) (expression)
#else
#define WH_DEVICE_ONLY(expression, type, text, ...) wh_cuda_refuse_<type>(text, __VA_ARGS__)

/* The host's side: nothing is done with the arguments, and the library is told. */
extern "C++" {
template <class wh_R, class... wh_T>
static inline wh_R wh_cuda_refuse_(const char *text, const wh_T &...) {
    if (text != NULL) {
        wh_note_host_call(text);
    }
    return wh_R();
}
}
#endif

/* --- where am I ------------------------------------------------------------ */

WH_FN uint32_t wh_lane_id(void) {
    uint32_t r;
    asm("mov.u32 %0, %%laneid;" : "=r"(r));
    return r;
}
WH_FN uint32_t wh_sm_id(void) {
    uint32_t r;
    asm("mov.u32 %0, %%smid;" : "=r"(r));
    return r;
}
WH_FN uint32_t wh_thread_x(void) {
    return threadIdx.x;
}
WH_FN uint32_t wh_thread_y(void) {
    return threadIdx.y;
}
WH_FN uint32_t wh_thread_z(void) {
    return threadIdx.z;
}
WH_FN uint32_t wh_block_x(void) {
    return blockIdx.x;
}
WH_FN uint32_t wh_block_y(void) {
    return blockIdx.y;
}
WH_FN uint32_t wh_block_z(void) {
    return blockIdx.z;
}
WH_FN uint32_t wh_block_dim_x(void) {
    return blockDim.x;
}
WH_FN uint32_t wh_block_dim_y(void) {
    return blockDim.y;
}
WH_FN uint32_t wh_block_dim_z(void) {
    return blockDim.z;
}
WH_FN uint32_t wh_grid_dim_x(void) {
    return gridDim.x;
}
WH_FN uint32_t wh_grid_dim_y(void) {
    return gridDim.y;
}
WH_FN uint32_t wh_grid_dim_z(void) {
    return gridDim.z;
}
/* The order in which the hardware makes warps, so lane = index % 32. */
WH_FN uint32_t wh_thread_in_block(void) {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
WH_FN uint32_t wh_block_id(void) {
    return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}
WH_FN uint32_t wh_block_threads(void) {
    return blockDim.x * blockDim.y * blockDim.z;
}
WH_FN uint32_t wh_grid_blocks(void) {
    return gridDim.x * gridDim.y * gridDim.z;
}
WH_FN uint64_t wh_thread_id(void) {
    return (uint64_t)wh_block_id() * wh_block_threads() + wh_thread_in_block();
}
WH_FN uint64_t wh_grid_threads(void) {
    return (uint64_t)wh_grid_blocks() * wh_block_threads();
}

/* --- masks and collectives ---------------------------------------------------- */

WH_FN wh_mask wh_activemask(void) {
    return __activemask();
}
WH_FN wh_mask wh_lanemask_lt(void) {
    uint32_t r;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(r));
    return r;
}
/* Votes and matches. Parts of a warp with different masks may meet at one instruction, and
 * __ballot_sync, __match_any_sync and __reduce_*_sync are wrong there. By the SASS of ptxas 13.0:
 * where the masks of those present differ the check that all lanes of a mask have come is left out,
 * and the instruction counts whoever is there. A __syncwarp before does not help, since lanes that
 * had to wait in it go on in the parts in which they came. The checks of __syncwarp and __shfl_sync
 * hold. So only full warps, which have the instruction to themselves, vote and match by it; the
 * lanes of any other mask tell each other by shuffles. What showed it: with the instructions
 * rw-malloc gave out bad blocks in the stress suite, and Ouroboros hung (docs/papers/ouroboros.md);
 * case parts of the conformance suite, which looks at the collectives alone, passes with them, too.
 * Do not look around with __activemask to choose a way: lanes of one mask then wait for each other
 * in different ways.
 *
 * Of a full warp that it found together at a vote it takes for granted that it comes back together
 * from a call, too, and leaves the check out at a vote behind it in a straight line, though the
 * function may return in parts: each counts itself then. So no vote of a full warp stands right
 * behind a call; the function that votes says itself what would be asked. What showed it: a vote
 * behind wh_tessera_take_groups_, with which 54 of 120 runs of the stress suite had bad blocks or
 * rejected frees on an H200, and none without. tools/sass_votes.py looks for such.
 *
 * The same ptxas may leave lanes behind where some lanes of a mask that is not the whole warp take
 * a branch with a loop or a __nanosleep in it, and the others wait for them at a __shfl_sync or
 * __syncwarp: with several such groups in a warp some never get on. bench/probes/lanes_probe.cu
 * shows it without this library; ptxas 13.5 and the compiler of driver 580 translate it right.
 * Lanes that exit count as arrived, so a kernel shows nothing of it unless the warp meets as a
 * whole later on: the stress suite does that. */

/* Whether a mask is of one lane, which has nobody to wait for, or to ask. */
WH_FN int wh_cuda_alone_(wh_mask mask) {
    return (mask & (mask - 1)) == 0;
}

/* By shuffles: the lanes of mask pass on what they know to the one before them, then what they know
 * by then to the one two before, four, ... 2 log2(lanes) of them. */
#define WH_CUDA_SPREAD_(op, expr)                                                 \
    WH_FN uint32_t wh_cuda_##op##_part_(wh_mask mask, uint32_t acc) {             \
        if (wh_cuda_alone_(mask)) {                                               \
            return acc;                                                           \
        }                                                                         \
        const wh_mask above = mask & ~((2u << wh_lane_id()) - 1);                 \
        uint32_t next = (uint32_t)__ffs((int)(above != 0 ? above : mask)) - 1;    \
        WH_NO_UNROLL                                                              \
        for (uint32_t left = (uint32_t)__popc(mask) - 1; left != 0; left >>= 1) { \
            const uint32_t x = __shfl_sync(mask, acc, (int)next);                 \
            acc = expr;                                                           \
            next = __shfl_sync(mask, next, (int)next);                            \
        }                                                                         \
        return acc;                                                               \
    }
WH_CUDA_SPREAD_(max, acc > x ? acc : x)
WH_CUDA_SPREAD_(or, acc | x)
#undef WH_CUDA_SPREAD_

WH_FN wh_mask wh_ballot(wh_mask mask, int pred) {
    return mask == ~0u ? __ballot_sync(~0u, pred)
                       : wh_cuda_or_part_(mask, (uint32_t)(pred != 0) << wh_lane_id());
}
WH_FN int wh_any(wh_mask mask, int pred) {
    return wh_ballot(mask, pred) != 0;
}
WH_FN int wh_any_here(int pred) { /* of ptxas 13.0 one vote, of whoever is here, and no check */
    return __any_sync(__activemask(), pred);
}
WH_FN int wh_all(wh_mask mask, int pred) {
    return wh_ballot(mask, pred) == mask;
}
WH_FN uint32_t wh_shfl_u32(wh_mask mask, uint32_t v, uint32_t lane) {
    return wh_cuda_alone_(mask) ? v : __shfl_sync(mask, v, (int)lane);
}
WH_FN uint64_t wh_shfl_u64(wh_mask mask, uint64_t v, uint32_t lane) {
    return wh_cuda_alone_(mask) ? v : (uint64_t)__shfl_sync(mask, (unsigned long long)v, (int)lane);
}
/* Everyone in turn says what it has: a shuffle a lane, two for 64 bits, four lanes at a time on
 * their way. (Past the last lane, where bit is 0, whatever the shuffle gives does not count.) */
#define WH_CUDA_MATCH_(w, ctype)                                            \
    WH_FN wh_mask wh_match_any_u##w(wh_mask mask, uint##w##_t v) {          \
        if (mask == ~0u) {                                                  \
            return __match_any_sync(~0u, (ctype)v);                         \
        }                                                                   \
        if (wh_cuda_alone_(mask)) {                                         \
            return mask;                                                    \
        }                                                                   \
        wh_mask same = 0;                                                   \
        WH_NO_UNROLL                                                        \
        for (wh_mask m = mask; m != 0;) {                                   \
            wh_mask bit[4];                                                 \
            ctype x[4];                                                     \
            for (int i = 0; i < 4; i++) {                                   \
                bit[i] = m & (0 - m);                                       \
                m ^= bit[i];                                                \
                x[i] = __shfl_sync(mask, (ctype)v, __ffs((int)bit[i]) - 1); \
            }                                                               \
            for (int i = 0; i < 4; i++) {                                   \
                same |= x[i] == v ? bit[i] : 0;                             \
            }                                                               \
        }                                                                   \
        return same;                                                        \
    }
WH_CUDA_MATCH_(32, unsigned)
WH_CUDA_MATCH_(64, unsigned long long)
#undef WH_CUDA_MATCH_
WH_FN uint32_t wh_reduce_add_u32(wh_mask mask, uint32_t v) {
    if (wh_cuda_alone_(mask)) {
        return v;
    }
    uint32_t sum = 0;
    for (wh_mask m = mask; m != 0; m &= m - 1) {
        sum += __shfl_sync(mask, v, __ffs((int)m) - 1);
    }
    return sum;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
WH_FN uint32_t wh_reduce_max_u32(wh_mask mask, uint32_t v) {
    return mask == ~0u ? __reduce_max_sync(~0u, v) : wh_cuda_max_part_(mask, v);
}
WH_FN uint32_t wh_reduce_or_u32(wh_mask mask, uint32_t v) {
    return mask == ~0u ? __reduce_or_sync(~0u, v) : wh_cuda_or_part_(mask, v);
}
#else
WH_FN uint32_t wh_reduce_max_u32(wh_mask mask, uint32_t v) {
    return wh_cuda_max_part_(mask, v);
}
WH_FN uint32_t wh_reduce_or_u32(wh_mask mask, uint32_t v) {
    return wh_cuda_or_part_(mask, v);
}
#endif
/* A shuffle from below also says whether there is such a lane: with the add two instructions a
 * step, where a compiler that is told of the lanes' numbers makes five. */
#define WH_CUDA_SCAN_STEP_(reach)                                                \
    asm volatile("{\n\t.reg .b32 below;\n\t.reg .pred is;\n\t"                   \
                 "shfl.sync.up.b32 below|is, %0, " #reach ", 0, 0xffffffff;\n\t" \
                 "@is add.u32 %0, %0, below;\n\t}"                               \
                 : "+r"(v))
WH_FN uint32_t wh_scan_add_warp_u32(uint32_t v) {
    WH_CUDA_SCAN_STEP_(1);
    WH_CUDA_SCAN_STEP_(2);
    WH_CUDA_SCAN_STEP_(4);
    WH_CUDA_SCAN_STEP_(8);
    WH_CUDA_SCAN_STEP_(16);
    return v;
}
#undef WH_CUDA_SCAN_STEP_

WH_FN void wh_syncwarp(wh_mask mask) {
    if (!wh_cuda_alone_(mask)) {
        __syncwarp(mask);
    }
}
WH_FN void wh_syncthreads(void) {
    __syncthreads();
}
WH_FN uint64_t wh_block_broadcast_u64(uint64_t v, uint32_t thread) {
    __shared__ uint64_t word;
    if (wh_thread_in_block() == thread) {
        word = v;
    }
    __syncthreads();
    const uint64_t r = word;
    __syncthreads(); /* the next broadcast may write now */
    return r;
}
/* __align__ is a macro of the word `aligned`, which may be one of the user's. */
#define WH_SHARED(type, name, n)                                          \
    __shared__ __attribute__((__aligned__(16))) type name##_shared_[(n)]; \
    type *const name = name##_shared_
WH_FN void *wh_shared(void) {
    extern __shared__ __align__(16) unsigned char wh_cuda_shared_[];
    return wh_cuda_shared_;
}
/* atom.shared of a shared address: the compiler, which sees a generic one, makes less of it. */
#define WH_CUDA_SHARED1_(name, op, w, reg)                                     \
    WH_FN uint##w##_t wh_shared_##name##_u##w(uint##w##_t *p, uint##w##_t v) { \
        uint##w##_t old;                                                       \
        asm volatile("atom.relaxed.cta.shared." op " %0, [%1], %2;"            \
                     : "=" reg(old)                                            \
                     : "r"((uint32_t)__cvta_generic_to_shared(p)), reg(v)      \
                     : "memory");                                              \
        return old;                                                            \
    }
#define WH_CUDA_SHARED_CAS_(name, order, w, reg)                                               \
    WH_FN uint##w##_t name(uint##w##_t *p, uint##w##_t expected, uint##w##_t desired) {        \
        uint##w##_t old;                                                                       \
        asm volatile("atom." order ".cta.shared.cas.b" #w " %0, [%1], %2, %3;"                 \
                     : "=" reg(old)                                                            \
                     : "r"((uint32_t)__cvta_generic_to_shared(p)), reg(expected), reg(desired) \
                     : "memory");                                                              \
        return old;                                                                            \
    }
#define WH_CUDA_SHARED_(w, reg)                                   \
    WH_FN uint##w##_t wh_shared_load_u##w(const uint##w##_t *p) { \
        return *(const volatile uint##w##_t *)p;                  \
    }                                                             \
    WH_CUDA_SHARED1_(fetch_add, "add.u" #w, w, reg)               \
    WH_CUDA_SHARED1_(fetch_and, "and.b" #w, w, reg)               \
    WH_CUDA_SHARED1_(fetch_or, "or.b" #w, w, reg)                 \
    WH_CUDA_SHARED1_(exchange, "exch.b" #w, w, reg)               \
    WH_CUDA_SHARED1_(fetch_min, "min.u" #w, w, reg)               \
    WH_CUDA_SHARED1_(fetch_max, "max.u" #w, w, reg)               \
    WH_CUDA_SHARED_CAS_(wh_shared_cas_u##w, "relaxed", w, reg)    \
    WH_CUDA_SHARED_CAS_(wh_shared_cas_u##w##_acq_rel, "acq_rel", w, reg)
WH_CUDA_SHARED_(32, "r")
WH_CUDA_SHARED_(64, "l")
#undef WH_CUDA_SHARED_
#undef WH_CUDA_SHARED_CAS_
#undef WH_CUDA_SHARED1_

/* --- bits -------------------------------------------------------------------- */

#include "warpheap/detail/simt/end.h"

#ifndef __CUDA_ARCH__
#include "warpheap/detail/simt/bits.h"
#endif

#include "warpheap/detail/simt/begin.h"

#ifdef __CUDA_ARCH__
WH_HD uint32_t wh_popc32(uint32_t v) {
    return (uint32_t)__popc(v);
}
WH_HD uint32_t wh_popc64(uint64_t v) {
    return (uint32_t)__popcll(v);
}
WH_HD uint32_t wh_ctz32(uint32_t v) {
    return (uint32_t)__ffs((int)v) - 1u;
}
WH_HD uint32_t wh_ctz64(uint64_t v) {
    return (uint32_t)__ffsll((long long)v) - 1u;
}
WH_HD uint32_t wh_clz32(uint32_t v) {
    return (uint32_t)__clz((int)v);
}
WH_HD uint32_t wh_clz64(uint64_t v) {
    return (uint32_t)__clzll((long long)v);
}
WH_HD uint32_t wh_msb32(uint32_t v) {
    uint32_t r;
    asm("bfind.u32 %0, %1;" : "=r"(r) : "r"(v));
    return r;
}
WH_HD uint64_t wh_ones_from_u64(uint32_t n) {
    uint64_t r; /* shl gives 0 for n > 63, which C does not */
    asm("shl.b64 %0, %1, %2;" : "=l"(r) : "l"(~(uint64_t)0), "r"(n));
    return r;
}
WH_HD uint32_t wh_low_u32(uint64_t v) {
    uint32_t r;
    asm("{ .reg .b32 high; mov.b64 {%0, high}, %1; }" : "=r"(r) : "l"(v));
    return r;
}
WH_HD uint32_t wh_high_u32(uint64_t v) {
    uint32_t r;
    asm("{ .reg .b32 low; mov.b64 {low, %0}, %1; }" : "=r"(r) : "l"(v));
    return r;
}
WH_HD uint64_t wh_mul_wide_u32(uint32_t a, uint32_t b) {
    uint64_t r;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(r) : "r"(a), "r"(b));
    return r;
}
WH_HD uint64_t wh_again_u64(uint64_t v) {
    asm("" : "+l"(v));
    return v;
}
#endif

/* --- atomics ------------------------------------------------------------------- */

/* ptxas 13.0 for sm_90 makes the same instructions of both, with .SYS in them for .GPU. */
#if WH_PEERS
#define WH_CUDA_SCOPE_ "sys" /* P1 */
#else
#define WH_CUDA_SCOPE_ "gpu"
#endif

WH_FN size_t wh_cuda_global_(const void *p) {
    return __cvta_generic_to_global(p);
}

/* One line per (operation, width). ctype, PTX type, register constraint. */
#define WH_CUDA_LOAD_(w, ptx, c)                                              \
    WH_FN uint##w##_t wh_load_u##w##_relaxed(const uint##w##_t *p) {          \
        uint##w##_t r;                                                        \
        asm volatile("ld.relaxed." WH_CUDA_SCOPE_ ".global." ptx " %0, [%1];" \
                     : "=" c(r)                                               \
                     : "l"(wh_cuda_global_(p)));                              \
        return r;                                                             \
    }                                                                         \
    WH_FN uint##w##_t wh_load_u##w##_acquire(const uint##w##_t *p) {          \
        uint##w##_t r;                                                        \
        asm volatile("ld.acquire." WH_CUDA_SCOPE_ ".global." ptx " %0, [%1];" \
                     : "=" c(r)                                               \
                     : "l"(wh_cuda_global_(p))                                \
                     : "memory");                                             \
        return r;                                                             \
    }                                                                         \
    WH_FN void wh_store_u##w##_relaxed(uint##w##_t *p, uint##w##_t v) {       \
        asm volatile("st.relaxed." WH_CUDA_SCOPE_ ".global." ptx              \
                     " [%0], %1;" ::"l"(wh_cuda_global_(p)),                  \
                     c(v));                                                   \
    }                                                                         \
    WH_FN void wh_store_u##w##_release(uint##w##_t *p, uint##w##_t v) {       \
        asm volatile("st.release." WH_CUDA_SCOPE_ ".global." ptx              \
                     " [%0], %1;" ::"l"(wh_cuda_global_(p)),                  \
                     c(v)                                                     \
                     : "memory");                                             \
    }

/* Relaxed operations take no "memory" clobber, ordered ones do: __VA_ARGS__. */
#define WH_CUDA_RMW1_(name, op, w, ptx, c, order, ...)                                        \
    WH_FN uint##w##_t wh_##name##_u##w##_##order(uint##w##_t *p, uint##w##_t v) {             \
        uint##w##_t r;                                                                        \
        asm volatile("atom." #order "." WH_CUDA_SCOPE_ ".global." op "." ptx " %0, [%1], %2;" \
                     : "=" c(r)                                                               \
                     : "l"(wh_cuda_global_(p)), c(v) __VA_ARGS__);                            \
        return r;                                                                             \
    }
#define WH_CUDA_RMW_(name, op, w, ptx, c)                   \
    WH_CUDA_RMW1_(name, op, w, ptx, c, relaxed, )           \
    WH_CUDA_RMW1_(name, op, w, ptx, c, acquire, : "memory") \
    WH_CUDA_RMW1_(name, op, w, ptx, c, release, : "memory") \
    WH_CUDA_RMW1_(name, op, w, ptx, c, acq_rel, : "memory")

#define WH_CUDA_SUB1_(w, order)                                                    \
    WH_FN uint##w##_t wh_fetch_sub_u##w##_##order(uint##w##_t *p, uint##w##_t v) { \
        return wh_fetch_add_u##w##_##order(p, (uint##w##_t)0 - v);                 \
    }

#define WH_CUDA_CAS1_(w, c, order, ...)                                                        \
    WH_FN uint##w##_t wh_cas_u##w##_##order(uint##w##_t *p, uint##w##_t expected,              \
                                            uint##w##_t desired) {                             \
        uint##w##_t r;                                                                         \
        asm volatile("atom." #order "." WH_CUDA_SCOPE_ ".global.cas.b" #w " %0, [%1], %2, %3;" \
                     : "=" c(r)                                                                \
                     : "l"(wh_cuda_global_(p)), c(expected), c(desired) __VA_ARGS__);          \
        return r;                                                                              \
    }

#define WH_CUDA_RED1_(name, op, w, ptx, c, order, ...)                      \
    WH_FN void wh_##name##_u##w##_##order(uint##w##_t *p, uint##w##_t v) {  \
        asm volatile("red." #order "." WH_CUDA_SCOPE_ ".global." op "." ptx \
                     " [%0], %1;" ::"l"(wh_cuda_global_(p)),                \
                     c(v) __VA_ARGS__);                                     \
    }
#define WH_CUDA_RED_(name, op, w, ptx, c)         \
    WH_CUDA_RED1_(name, op, w, ptx, c, relaxed, ) \
    WH_CUDA_RED1_(name, op, w, ptx, c, release, : "memory")

#define WH_CUDA_WIDTH_(w, c)                     \
    WH_CUDA_LOAD_(w, "u" #w, c)                  \
    WH_CUDA_RMW_(fetch_add, "add", w, "u" #w, c) \
    WH_CUDA_RMW_(fetch_min, "min", w, "u" #w, c) \
    WH_CUDA_RMW_(fetch_max, "max", w, "u" #w, c) \
    WH_CUDA_RMW_(fetch_and, "and", w, "b" #w, c) \
    WH_CUDA_RMW_(fetch_or, "or", w, "b" #w, c)   \
    WH_CUDA_RMW_(fetch_xor, "xor", w, "b" #w, c) \
    WH_CUDA_RMW_(exchange, "exch", w, "b" #w, c) \
    WH_CUDA_SUB1_(w, relaxed)                    \
    WH_CUDA_SUB1_(w, acquire)                    \
    WH_CUDA_SUB1_(w, release)                    \
    WH_CUDA_SUB1_(w, acq_rel)                    \
    WH_CUDA_CAS1_(w, c, relaxed, )               \
    WH_CUDA_CAS1_(w, c, acquire, : "memory")     \
    WH_CUDA_CAS1_(w, c, release, : "memory")     \
    WH_CUDA_CAS1_(w, c, acq_rel, : "memory")     \
    WH_CUDA_RED_(add, "add", w, "u" #w, c)       \
    WH_CUDA_RED_(and, "and", w, "b" #w, c)       \
    WH_CUDA_RED_(or, "or", w, "b" #w, c)

WH_CUDA_WIDTH_(32, "r")
WH_CUDA_WIDTH_(64, "l")

#undef WH_CUDA_WIDTH_
#undef WH_CUDA_RED_
#undef WH_CUDA_RED1_
#undef WH_CUDA_CAS1_
#undef WH_CUDA_SUB1_
#undef WH_CUDA_RMW_
#undef WH_CUDA_RMW1_
#undef WH_CUDA_LOAD_

WH_FN void wh_fence(void) {
    asm volatile("fence.acq_rel." WH_CUDA_SCOPE_ ";" ::: "memory");
}

WH_FN uint64_t wh_load_u64_system(const uint64_t *p) {
    uint64_t r;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];"
                 : "=l"(r)
                 : "l"(wh_cuda_global_(p))
                 : "memory");
    return r;
}
WH_FN void wh_store_u64_system(uint64_t *p, uint64_t v) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(wh_cuda_global_(p)), "l"(v)
                 : "memory");
}

WH_FN uint32_t wh_load_u32_hint(const uint32_t *p) {
    uint32_t r;
    asm volatile("ld.weak.global.u32 %0, [%1];" : "=r"(r) : "l"(wh_cuda_global_(p)));
    return r;
}

/* --- time and failing ------------------------------------------------------------ */

WH_FN void wh_backoff(uint32_t attempt) {
    __nanosleep(attempt < 6 ? 32u << attempt : 2048u);
}
WH_FN uint64_t wh_clock(void) {
    return (uint64_t)clock64();
}
WH_FN uint64_t wh_time_ns(void) {
    uint64_t r;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(r));
    return r;
}
#define wh_trap(text) __trap()

/* What the device's assert is made of: the driver prints the text with file, line, block and
 * thread, and takes it from local memory, too. */
extern "C" __device__ void __assertfail(const char *message, const char *file, unsigned line,
                                        const char *function, size_t char_bytes);

#ifdef __CUDA_ARCH__
#define WH_ASSERT_FAILED_(text) __assertfail(text, __FILE__, __LINE__, "", 1)
#else
#define WH_ASSERT_FAILED_(text) abort() /* the host's half of host and device code */
#endif

WH_FN uint32_t wh_cuda_put_(char *text, uint32_t at, const char *from) {
    for (uint32_t i = 0; from[i] != '\0' && at < 79; i++) {
        text[at++] = from[i];
    }
    text[at] = '\0';
    return at;
}
WH_FN_SLOW void wh_cuda_trap_oom_(uint64_t bytes, const char *call, const char *file,
                                  uint32_t line) {
    char text[80], digits[21];
    uint32_t first = 20;
    digits[first] = '\0';
    do {
        digits[--first] = static_cast<char>('0' + bytes % 10);
        bytes /= 10;
    } while (bytes != 0);
    uint32_t at = wh_cuda_put_(text, 0, "out of memory: ");
    at = wh_cuda_put_(text, at, call);
    at = wh_cuda_put_(text, at, " of ");
    at = wh_cuda_put_(text, at, digits + first);
    (void)wh_cuda_put_(text, at, " bytes");
    __assertfail(text, file, line, call, 1);
    __trap();
}
WH_FN void wh_trap_oom(const wh_oom_event e) {
    wh_cuda_trap_oom_(e.bytes, e.call, e.file, e.line);
}

#include "warpheap/detail/simt/end.h"

#endif
