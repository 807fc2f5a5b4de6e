/* simt.h: the portability contract. Device code is written against this page and nothing else.
 * detail/simt/cuda.h implements it for a GPU, detail/simt/sim.h for the simulated device. These two
 * are the only files that know the target.
 *
 * The page has first what these two define: kinds of functions, kernels, where am I, warp masks and
 * collectives, shared memory, atomics, time, bits, failing. Then follows what this file defines:
 * planted faults and assertions. What NVRTC makes of it says docs/CUDA.md.
 */
#ifndef WH_SIMT_SIMT_H
#define WH_SIMT_SIMT_H

#include "warpheap/detail/simt/target.h"
#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

#define WH_WARP_SIZE 32u
#define WH_FULL_WARP 0xffffffffu /* the mask of all its lanes */

typedef uint32_t wh_mask;

#define WH_CAT_(a, b) a##b
#define WH_CAT(a, b) WH_CAT_(a, b)
#define WH_STR_(a) #a
#define WH_STR(a) WH_STR_(a)

/* C and C++. The cast is for macros that are expanded in the user's file, where a compiler may
 * have been told to warn of C's casts. */
#ifdef __cplusplus
#define WH_STATIC_CAST(type, value) static_cast<type>(value)
#define WH_ALIGNAS(n) alignas(n)
#else
#define WH_STATIC_CAST(type, value) ((type)(value))
#define WH_ALIGNAS(n) _Alignas(n)
#endif

/* Of a function that only does arithmetic: a compiler of C++14 can do it, also for device code. */
#if defined(__cplusplus) && __cplusplus >= 201402L
#define WH_CONSTEXPR constexpr
#else
#define WH_CONSTEXPR
#endif

/* x without the parentheses around it, if there are some: for an argument of a macro that may
 * have commas. (WH_BARE1_ either is called, or becomes a word that vanishes with what follows.) */
#define WH_BARE_(x) WH_BARE2_(WH_BARE1_ x)
#define WH_BARE1_(...) WH_BARE1_ __VA_ARGS__
#define WH_BARE2_(...) WH_BARE3_(__VA_ARGS__)
#define WH_BARE3_(...) WH_NO_##__VA_ARGS__
#define WH_NO_WH_BARE1_

/* --- function kinds ------------------------------------------------------------------
 * WH_FN          device function, inlined          (static)
 * WH_FN_SLOW     device function, never inlined    (static; pass plain values,
 *                never a pointer to a handle: taking a handle's address makes
 *                every caller copy it to local memory)
 * WH_FN_LINKED(type, name, (parameters)) { ... }
 *                WH_FN_SLOW, for the outermost slow functions of an allocator, which the fast path
 *                calls: where WH_LINKED is 1 they are not here, but in a linked library, compiled
 *                once (warpheap::device, docs/CUDA.md). Parameters and results are plain values,
 *                small structs, and pointers to device memory
 * WH_FN_LINKED_FREE(type, name, (parameters)) { ... }
 *                the same for those that free calls: they get 32 registers, so that kernels which
 *                free and do not allocate need no more
 * WH_HD          host and device, inlined          (static)
 * WH_DEVICE      before a member function or a template of C++: device function
 * WH_HOST_DEVICE likewise: host and device
 * WH_ANY_SIDE    before all of such a function, or its `template`: it calls functions of its
 *                template arguments, which may be for one side alone
 * WH_CALL        a public call, inlined (static): as WH_FN, and __host__ __device__ code may
 *                make it, too. Its body is
 * WH_DEVICE_ONLY(expression, type, text, arguments...)
 *                the expression, which may call device functions; on the host's side of a CUDA
 *                build type() instead, and text, a literal, goes to wh_note_host_call (NULL:
 *                nothing to say). arguments: what the expression uses, against warnings
 * WH_FN_EXPORT(type, name, (parameters)) { ... }
 *                device function of C's linkage, which other files and languages link. Only where
 *                WH_MAKES_DEVICE_CODE is 1: else, in the host's half of a CUDA compiler's work, it
 *                would be a function of the host by that name
 * WH_FN_HOST     host function, inlined            (static; under NVRTC, where there is no
 *                host, a device function that nobody calls)
 */

/* --- kernels -------------------------------------------------------------------------
 * WH_KERNEL(name, args_t, a) { ... a.field ... }
 *     defines a kernel and a host function
 *     wh_status name(const wh_launch *launch, const args_t *args)
 *     that starts it. args_t is a plain struct, copied at the launch. The launch says how
 *     many dimensions and how much shared memory (device.h). On a GPU it sets the device of
 *     the launch and restores the caller's. In C++ args_t may be a type with const members.
 * WH_KERNEL_TEMPLATE((class T), name, args_t, a) { ... }
 *     the same for C++, with template parameters: `name(&launch, &args)` finds them from the
 *     type of args, hence args_t must mention all of them. In parentheses if it has commas:
 *     WH_KERNEL_TEMPLATE((class T, int N), name, (args<T, N>), a). Parameters cannot have
 *     defaults, since they are written out three times. `template <class T>
 *     WH_KERNEL(...)` cannot work: WH_KERNEL is several declarations, and the template line
 *     would belong to the first.
 *     Under NVRTC both define a kernel of that name, and no host function.
 *     #define WH_KERNEL_THREADS N before the first include if the file never launches
 *     more than N threads a block (default 1024): a GPU kernel may then use more
 *     registers.
 * WH_KERNEL_PLAIN(name, args_t, a)  the same without launch bounds, as the compiler sees a
 *     plain __global__ function; for measurements
 * WH_KERNEL_SYMBOL(name)  the kernel as calls of the CUDA runtime take it (const
 *     void *), for a query such as cudaFuncGetAttributes; NULL for the simulator. Not for
 *     templates (in CUDA code: name_kernel<int>).
 * WH_KERNEL_OCCUPANCY(name, device, threads, shared_bytes, &blocks)
 *     a host call: how many blocks of so many threads, with so much dynamic shared memory each, the
 *     device can hold at once, at least 1: the grid of a kernel whose blocks stay and take one
 * piece of work after the other. WH_DEVICE_ERROR: the runtime would not say WH_TARGETED(name)
 * name_sim or name_cuda: for external symbols, since one source file is compiled once per target
 * into one program. WH_TARGET_NAME  "sim" or "cuda": the device that this file's kernels run on, as
 *     wh_device_open takes it.
 */

/* --- where am I: each a cheap register read ------------------------------------------
 * uint32_t wh_lane_id()         0..31 within the warp
 * uint32_t wh_thread_in_block() a number, as that of the block: x fastest, z slowest.
 *                               Lane = number % 32, as the hardware makes warps
 * uint32_t wh_block_id(), wh_block_threads(), wh_grid_blocks()
 * uint64_t wh_thread_id()       number over the whole grid
 * uint64_t wh_grid_threads()
 * uint32_t wh_thread_x(), _y(), _z()       wh_block_x(), ...    threadIdx, blockIdx
 * uint32_t wh_block_dim_x(), _y(), _z()    wh_grid_dim_x(), ... blockDim, gridDim
 *                               All these hold in any kernel: also in a plain __global__ one
 * uint32_t wh_sm_id()           the multiprocessor that runs this warp; a hint,
 *                               it may change between two calls
 */

/* --- warp masks and collectives ------------------------------------------------------
 * Bit i of a wh_mask is lane i. Every lane that a mask names makes the same call with the same
 * mask, and no other lane does. A collective does not order memory, but wh_syncwarp and
 * wh_syncthreads do, as in CUDA.
 *
 * wh_mask  wh_activemask()       lanes that happen to be converged here: always the caller, perhaps
 *                                others; all lanes that it names got the same mask at this same
 *                                call
 * int      wh_any_here(int)      whether the caller says so, or one of those that happen to be
 *                                converged here: a hint, nobody waits for anybody
 * wh_mask  wh_ballot(mask, int)            int      wh_any(mask, int), wh_all(mask, int)
 * uint32_t wh_shfl_u32(mask, v, lane)      uint64_t wh_shfl_u64(mask, v, lane)
 * wh_mask  wh_match_any_u32(mask, v)       wh_mask  wh_match_any_u64(mask, v)
 * uint32_t wh_reduce_add_u32(mask, v), wh_reduce_max_u32, wh_reduce_or_u32
 * uint32_t wh_scan_add_warp_u32(v)         of a full warp: the sum of v of the lanes up to the
 *                                          caller, its own included
 * void     wh_syncwarp(mask)               void     wh_syncthreads()
 * wh_mask  wh_lanemask_lt()                lanes below mine
 * uint64_t wh_block_broadcast_u64(v, thread)   the v of that thread of the block. All its threads
 *                                          call, converged or not; two barriers
 */

/* --- shared memory of a block --------------------------------------------------------
 * Dynamic: the launch says how much. Static: a declaration does. Both are 16-byte aligned and hold
 * anything when the block starts. NULL in host code.
 *
 * void *wh_shared()             dynamic: wh_launch.shared_bytes of it
 * WH_SHARED(type, name, n);     static: declares type *const name, n entries, n a constant. In a
 *                               kernel or a device function, also an inline one; where a
 *                               declaration can stand. All threads of a block that come by have the
 *                               same entries, as often as they come. Each WH_SHARED has its own,
 *                               which a kernel has from its begin to its end. type: plain data.
 *                               Together 48 KiB at most; 16 KiB in a launch with dynamic memory,
 *                               and both what wh_device_info.shared_bytes says
 *
 * wh_syncthreads and wh_syncwarp order accesses; the atomics further down are not for this memory,
 * but these are, relaxed unless they say more, and but for the load return the value seen:
 * wh_shared_<op>_<u32|u64>(pointer, value...)    load fetch_add fetch_and fetch_or fetch_min
 *                               fetch_max exchange; cas(p, old, new)
 * wh_shared_cas_<u32|u64>_acq_rel(p, old, new)    cas that acquires and releases among the lanes
 *                               of the block: what one lane had seen or done before, of any memory,
 *                               comes before what the next one does after it
 * core/block.h has sums over a block's threads, core/grid_scan.h over those of a grid.
 */

/* --- atomics -------------------------------------------------------------------------
 * wh_<op>_<u32|u64>_<order>(pointer, value...): device scope, memory that all lanes of the device
 * share. A file that defines WH_PEERS as 1 before its first include has system scope instead,
 * fences too, for memory that lanes of several GPUs share (wh_heap_enable_peer in heap.h). A shared
 * field is a plain uint32_t or uint64_t that these alone touch while lanes run.
 *
 * load                 relaxed acquire (use its value: without, ptxas 13.0 may lose the order)
 * store                relaxed release
 * fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_min fetch_max exchange
 *                      relaxed acquire release acq_rel; return the old value
 * cas(p, old, new)     relaxed acquire release acq_rel; returns the value seen
 * add and or           relaxed release; return nothing (fire and forget)
 * wh_load_u32_hint(p)  for hints: may return an old value, from the SM's own cache
 * wh_fence()           after a number of relaxed loads, whose values must be older than
 *                      what is loaded next; between stores of which the second must
 *                      not be seen without the first. Acquires and releases
 *
 * Of memory that the host and the device both see while lanes run, device and host scope:
 * wh_load_u64_system(p)      acquire
 * wh_store_u64_system(p, v)  release
 *
 * Else order sits on the operation. ThreadSanitizer takes no notice of wh_fence; the simulated
 * device does where its memory is weak (docs/SIMULATOR.md).
 */

/* --- time ----------------------------------------------------------------------------
 * void     wh_backoff(uint32_t attempt)  give way inside a wait loop; sleeps
 *                                        longer as attempt grows (bounded)
 * uint64_t wh_clock()                    cycles of this SM, or simulator steps
 * uint64_t wh_time_ns()                  nanoseconds, alike on all SMs, in steps of up to a
 *                                        microsecond; of the simulator a step counts as one
 */

/* --- bits: host and device -----------------------------------------------------------
 * wh_popc32 wh_popc64      set bits
 * wh_ctz32  wh_ctz64       index of the lowest set bit; undefined for 0
 * wh_clz32  wh_clz64       leading zeros; undefined for 0
 * wh_msb32                 index of the highest set bit; undefined for 0. One instruction on the
 *                          GPU, where 31 - wh_clz32 is three
 * wh_ones_from_u64(n)      bits n and up; 0 for n > 63
 * wh_low_u32 wh_high_u32   halves of 64 bits
 * wh_mul_wide_u32(a, b)    their product, 64 bits
 *                          (these four: the compiler for the GPU widens what C says instead to
 *                          64 bits, two or three instructions for one)
 * wh_again_u64(v)          v; but what is made of it is made again, not kept in registers
 */

/* --- failing -------------------------------------------------------------------------
 * wh_trap(text)   ends the kernel with an error; text (a literal) is shown by
 *                 the simulator only
 * wh_trap_oom(event)  the same for a wh_oom_event: the simulator's error text and the CUDA
 *                 runtime's message on stderr have its bytes, call, file and line, and block
 *                 and thread. As after any assert on a GPU, the process cannot use it again
 */

/* --- planted faults ------------------------------------------------------------------
 * WH_PLANT(tag, good, bad)        good; a test build that sets WH_FAULTS can have `bad` instead for
 *                                 one tag, to show that the test suite notices. Stands at the
 *                                 accesses whose order or check an invariant depends on
 * WH_PLANT_ORDER(tag, op, order)  op_order, which WH_FAULTS can weaken to op_relaxed:
 *                                 WH_PLANT_ORDER(ring_p1, wh_store_u32, release)(p, v)
 */

#ifdef WH_FAULTS
#define WH_PLANT(tag, good, bad) (wh_fault_planted(#tag) ? (bad) : (good))
#else
#define WH_PLANT(tag, good, bad) (good)
#endif
#define WH_PLANT_ORDER(tag, op, order) WH_PLANT(tag, op##_##order, op##_relaxed)

#include "warpheap/detail/simt/end.h"

#if WH_FILE_IS_CUDA
#include "warpheap/detail/simt/cuda.h"
#else
#include "warpheap/detail/simt/sim.h"
#endif

#include "warpheap/detail/simt/begin.h"

/* --- assertions ----------------------------------------------------------------------
 * One that does not hold ends the kernel with an error, or in host code the program. The error text
 * of the simulator, or on a GPU the CUDA runtime's message on stderr, has the condition, file and
 * line. A release does not evaluate them. #define WH_ASSERTS 1, 2 or 3 before the first include
 * has the first one, two or three of these kinds checked in this file.
 *
 * wh_assert(condition)            what a caller has to see to
 * wh_assert_internal(condition)   what one function of ours expects of another; a few instructions
 * wh_assert_expensive(condition)  the same, with walks over memory or collectives
 */

#ifndef WH_ASSERTS
#define WH_ASSERTS 0
#endif
/* Not evaluated, but what it mentions counts as used. */
#define WH_ASSERT_OFF_(condition) ((void)sizeof((condition) ? 1 : 0))
#define WH_ASSERT_ON_(condition) ((condition) ? (void)0 : WH_ASSERT_FAILED_("not so: " #condition))
#if WH_ASSERTS >= 1
#define wh_assert(condition) WH_ASSERT_ON_(condition)
#else
#define wh_assert(condition) WH_ASSERT_OFF_(condition)
#endif
#if WH_ASSERTS >= 2
#define wh_assert_internal(condition) WH_ASSERT_ON_(condition)
#else
#define wh_assert_internal(condition) WH_ASSERT_OFF_(condition)
#endif
#if WH_ASSERTS >= 3
#define wh_assert_expensive(condition) WH_ASSERT_ON_(condition)
#else
#define wh_assert_expensive(condition) WH_ASSERT_OFF_(condition)
#endif

/* Lowest lane of a non-empty mask. */
WH_HD uint32_t wh_mask_leader(wh_mask mask) {
    wh_assert(mask != 0);
    return wh_ctz32(mask);
}

/* How many lanes of mask lie below the calling lane. */
WH_FN uint32_t wh_mask_rank(wh_mask mask) {
    return wh_popc32(mask & wh_lanemask_lt());
}

#include "warpheap/detail/simt/end.h"

#endif
