/* simt/sim.h: the contract of simt.h on the simulated device (docs/SIMULATOR.md).
 * Internal: may change.
 *
 * Every lane is a fiber. Each atomic, collective, back-off and clock read first
 * calls whi_sim_*, where the scheduler may run other lanes; the access itself is
 * a __atomic builtin in the caller's code, so that ThreadSanitizer sees exactly
 * the orders that the device code asks for.
 *
 * P1  an access that releases, and one on another device that acquires, order each other only if
 *     both are of the system's scope, which they are with WH_PEERS. Option weak knows of scopes;
 *     ThreadSanitizer takes all for the system's.
 *
 * Outside a kernel the caller counts as the only lane of a one-thread grid: device
 * functions may be called from host code.
 */
#ifndef WH_SIMT_SIM_H
#define WH_SIMT_SIM_H

#include "warpheap/device.h"

#include "warpheap/detail/simt/begin.h"

#define WH_FN static inline __attribute__((__unused__))
#define WH_FN_SLOW static __attribute__((noinline, __unused__))
#define WH_FN_LINKED(type, name, parameters) WH_FN_SLOW type name parameters
#define WH_FN_LINKED_FREE(type, name, parameters) WH_FN_SLOW type name parameters
#define WH_MAKES_DEVICE_CODE 1
#ifdef __cplusplus
#define WH_FN_EXPORT(type, name, parameters) extern "C" type name parameters
#else
#define WH_FN_EXPORT(type, name, parameters) type name parameters
#endif
#define WH_NO_UNROLL
#define WH_UNROLL_8
#define WH_HD static inline __attribute__((__unused__))
#define WH_DEVICE
#define WH_HOST_DEVICE
#define WH_ANY_SIDE
#define WH_FN_HOST static inline
#define WH_TARGETED(name) WH_CAT(name, _sim)
#ifndef WH_PEERS
#define WH_PEERS 1 /* costs nothing here */
#endif
#define WH_TARGET_IS_SIM 1
#define WH_TARGET_NAME "sim"
#ifdef __cplusplus
#define WH_STATIC_ASSERT(cond, text) static_assert(cond, text)
#else
#define WH_STATIC_ASSERT(cond, text) _Static_assert(cond, text)
#endif

#define WH_KERNEL(name, args_t, a)                                                    \
    static void name##_kernel(const args_t a);                                        \
    static __attribute__((__unused__)) void name##_entry(const void *wh_args) {       \
        name##_kernel(*WH_STATIC_CAST(const args_t *, wh_args));                      \
    }                                                                                 \
    static inline __attribute__((__unused__)) wh_status name(const wh_launch *wh_l,   \
                                                             const args_t *wh_args) { \
        return wh_sim_launch(wh_l, name##_entry, wh_args, sizeof *wh_args, #name);    \
    }                                                                                 \
    static void name##_kernel(const args_t a)
#ifdef __cplusplus
#define WH_KERNEL_TEMPLATE(params, name, args_t, a)                                         \
    template <WH_BARE_(params)> static void name##_kernel(const WH_BARE_(args_t) a);        \
    template <WH_BARE_(params)>                                                             \
    static inline wh_status name(const wh_launch *wh_l, const WH_BARE_(args_t) * wh_args) { \
        void (*const wh_entry)(const void *) = [](const void *wh_p) {                       \
            name##_kernel(*static_cast<const WH_BARE_(args_t) *>(wh_p));                    \
        };                                                                                  \
        return wh_sim_launch(wh_l, wh_entry, wh_args, sizeof *wh_args, #name);              \
    }                                                                                       \
    template <WH_BARE_(params)> static void name##_kernel(const WH_BARE_(args_t) a)
#endif
#define WH_KERNEL_SYMBOL(name) NULL
#define WH_KERNEL_OCCUPANCY(name, device, threads, shared_bytes, blocks) \
    wh_sim_occupancy_(device, blocks)
#define WH_KERNEL_PLAIN WH_KERNEL

/* Host code may make the calls of device code here. */
#define WH_CALL WH_FN
#define WH_DEVICE_ONLY(expression, type, text, ...) (expression)

#ifdef __cplusplus
extern "C" {
#endif

/* The dimensions of a grid: x, y, z. */
typedef struct whi_sim_dims {
    uint32_t blocks[3], threads[3];
} whi_sim_dims;

/* What a lane knows about itself; the scheduler's own fields follow it. */
typedef struct whi_sim_self_t {
    uint32_t lane; /* 0..31 */
    uint32_t thread;
    uint32_t block;
    uint32_t block_threads;
    uint32_t grid_blocks;
    uint32_t sm;
    uint32_t weak; /* accesses are told to whi_sim_weak_* */
    const whi_sim_dims *dims;
} whi_sim_self_t;

/* The lane that runs on this OS thread. Never NULL. */
extern __thread const whi_sim_self_t *whi_sim_self __attribute__((tls_model("initial-exec")));

/* On the default stream: runs a grid to its end. WH_DEVICE_ERROR when a lane trapped,
 * misused a collective, or the launch ran into a deadlock or the step budget. On another
 * stream: copies the arguments and queues the launch. */
wh_status wh_sim_launch(const wh_launch *launch, void (*entry)(const void *), const void *args,
                        size_t args_bytes, const char *kernel_name);

static inline __attribute__((__unused__)) wh_status wh_sim_occupancy_(wh_device *device,
                                                                      uint32_t *blocks) {
    const wh_device_info *info = wh_device_get_info(device);
    *blocks = info->n_sms * info->blocks_per_sm;
    return WH_OK;
}

/* Collectives; X(NAME, "name in messages") */
#define WHI_SIM_OP_LIST(X)             \
    X(BALLOT, "wh_ballot")             \
    X(ANY, "wh_any")                   \
    X(ALL, "wh_all")                   \
    X(SHFL_U32, "wh_shfl_u32")         \
    X(SHFL_U64, "wh_shfl_u64")         \
    X(MATCH_U32, "wh_match_any_u32")   \
    X(MATCH_U64, "wh_match_any_u64")   \
    X(REDUCE_ADD, "wh_reduce_add_u32") \
    X(REDUCE_MAX, "wh_reduce_max_u32") \
    X(REDUCE_OR, "wh_reduce_or_u32")   \
    X(SYNCWARP, "wh_syncwarp")

typedef enum whi_sim_op {
#define WHI_SIM_OP_ENUM_(name, text) WHI_SIM_##name,
    WHI_SIM_OP_LIST(WHI_SIM_OP_ENUM_)
#undef WHI_SIM_OP_ENUM_
        WHI_SIM_OP_COUNT
} whi_sim_op;

void whi_sim_atomic_point(void);
/* Option weak (src/sim/weak.c). Of a load: the value to return in place of the newest. The others
 * are told before a store, and after anything else; old: the value that was there. order: one of
 * the __ATOMIC_ constants, with WHI_SIM_SYSTEM if the scope is the system's. */
#define WHI_SIM_SYSTEM 0x100
uint64_t whi_sim_weak_load(const void *p, uint32_t bytes, uint64_t newest, int order);
void whi_sim_weak_store(const void *p, uint32_t bytes, uint64_t value, int order);
void whi_sim_weak_rmw(const void *p, uint32_t bytes, uint64_t old, int order, int stored_too);
void whi_sim_weak_fence(void);
void whi_sim_backoff(uint32_t attempt);
uint64_t whi_sim_clock(void);
uint32_t whi_sim_activemask(const char *site);
uint64_t whi_sim_collective(whi_sim_op op, uint32_t mask, uint64_t value, uint32_t source,
                            const char *site);
void whi_sim_syncthreads(const char *site);
/* Memory that the caller's block shares, for each key its own; holds 0xa5 when the first lane asks.
 * Key NULL: that of the launch. NULL for host code. */
void *whi_sim_shared(const char *key, size_t bytes, const char *site);
void whi_sim_trap(const char *text, const char *site) __attribute__((noreturn));
void whi_sim_trap_oom(const wh_oom_event *event) __attribute__((noreturn));

/* Planted faults (builds with WH_FAULTS). At most one tag is planted: the one of
 * the last wh_fault_plant, or of the environment variable WH_FAULT before the first
 * call. NULL plants none. */
int wh_fault_planted(const char *tag);
void wh_fault_plant(const char *tag);

#ifdef __cplusplus
}
#endif

/* Names a call site in messages, and tells two wh_activemask calls apart. */
#define WHI_SIM_HERE __FILE__ ":" WH_STR(__LINE__)

/* --- where am I ------------------------------------------------------------ */

WH_FN uint32_t wh_lane_id(void) {
    return whi_sim_self->lane;
}
WH_FN uint32_t wh_sm_id(void) {
    return whi_sim_self->sm;
}
/* An index in x, y or z of thread or block number i. */
WH_FN uint32_t whi_sim_x_(uint32_t i, const uint32_t *dims) {
    return i % dims[0];
}
WH_FN uint32_t whi_sim_y_(uint32_t i, const uint32_t *dims) {
    return i / dims[0] % dims[1];
}
WH_FN uint32_t whi_sim_z_(uint32_t i, const uint32_t *dims) {
    return i / dims[0] / dims[1];
}
#define WHI_SIM_AXIS_(axis, k)                                       \
    WH_FN uint32_t wh_thread_##axis(void) {                          \
        const whi_sim_self_t *self = whi_sim_self;                   \
        return whi_sim_##axis##_(self->thread, self->dims->threads); \
    }                                                                \
    WH_FN uint32_t wh_block_##axis(void) {                           \
        const whi_sim_self_t *self = whi_sim_self;                   \
        return whi_sim_##axis##_(self->block, self->dims->blocks);   \
    }                                                                \
    WH_FN uint32_t wh_block_dim_##axis(void) {                       \
        return whi_sim_self->dims->threads[k];                       \
    }                                                                \
    WH_FN uint32_t wh_grid_dim_##axis(void) {                        \
        return whi_sim_self->dims->blocks[k];                        \
    }
WHI_SIM_AXIS_(x, 0)
WHI_SIM_AXIS_(y, 1)
WHI_SIM_AXIS_(z, 2)
#undef WHI_SIM_AXIS_
WH_FN uint32_t wh_thread_in_block(void) {
    return whi_sim_self->thread;
}
WH_FN uint32_t wh_block_id(void) {
    return whi_sim_self->block;
}
WH_FN uint32_t wh_block_threads(void) {
    return whi_sim_self->block_threads;
}
WH_FN uint32_t wh_grid_blocks(void) {
    return whi_sim_self->grid_blocks;
}
WH_FN uint64_t wh_thread_id(void) {
    return (uint64_t)whi_sim_self->block * whi_sim_self->block_threads + whi_sim_self->thread;
}
WH_FN uint64_t wh_grid_threads(void) {
    return (uint64_t)whi_sim_self->grid_blocks * whi_sim_self->block_threads;
}

/* --- masks and collectives --------------------------------------------------
 * Macros, so that messages name the line of the caller. */

WH_FN wh_mask wh_lanemask_lt(void) {
    return (1u << whi_sim_self->lane) - 1u;
}

#define wh_any_here(pred) wh_any(wh_activemask(), pred)
#define wh_activemask() whi_sim_activemask(WHI_SIM_HERE)
#define wh_ballot(mask, pred) whi_sim_ballot_((mask), (pred), WHI_SIM_HERE)
#define wh_any(mask, pred) whi_sim_any_((mask), (pred), WHI_SIM_HERE)
#define wh_all(mask, pred) whi_sim_all_((mask), (pred), WHI_SIM_HERE)
#define wh_shfl_u32(mask, v, lane) whi_sim_shfl_u32_((mask), (v), (lane), WHI_SIM_HERE)
#define wh_shfl_u64(mask, v, lane) whi_sim_shfl_u64_((mask), (v), (lane), WHI_SIM_HERE)
#define wh_match_any_u32(mask, v) whi_sim_match_u32_((mask), (v), WHI_SIM_HERE)
#define wh_match_any_u64(mask, v) whi_sim_match_u64_((mask), (v), WHI_SIM_HERE)
#define wh_scan_add_warp_u32(v) whi_sim_scan_add_warp_((v), WHI_SIM_HERE)
#define wh_reduce_add_u32(mask, v) whi_sim_reduce_add_((mask), (v), WHI_SIM_HERE)
#define wh_reduce_max_u32(mask, v) whi_sim_reduce_max_((mask), (v), WHI_SIM_HERE)
#define wh_reduce_or_u32(mask, v) whi_sim_reduce_or_((mask), (v), WHI_SIM_HERE)
#define wh_syncwarp(mask) whi_sim_syncwarp_((mask), WHI_SIM_HERE)
#define wh_syncthreads() whi_sim_syncthreads(WHI_SIM_HERE)
#define wh_block_broadcast_u64(v, thread) whi_sim_block_broadcast_((v), (thread), WHI_SIM_HERE)

/* The address of a variable tells one declaration from another. */
#define WH_SHARED(type, name, n)             \
    static char name##_key_;                 \
    WH_STATIC_ASSERT((n) > 0, "a constant"); \
    type *const name =                       \
        WH_STATIC_CAST(type *, whi_sim_shared(&name##_key_, sizeof(type) * (n), WHI_SIM_HERE))

WH_FN wh_mask whi_sim_ballot_(wh_mask mask, int pred, const char *site) {
    return (wh_mask)whi_sim_collective(WHI_SIM_BALLOT, mask, pred != 0, 0, site);
}
WH_FN int whi_sim_any_(wh_mask mask, int pred, const char *site) {
    return (int)whi_sim_collective(WHI_SIM_ANY, mask, pred != 0, 0, site);
}
WH_FN int whi_sim_all_(wh_mask mask, int pred, const char *site) {
    return (int)whi_sim_collective(WHI_SIM_ALL, mask, pred != 0, 0, site);
}
WH_FN uint32_t whi_sim_shfl_u32_(wh_mask mask, uint32_t v, uint32_t lane, const char *site) {
    return (uint32_t)whi_sim_collective(WHI_SIM_SHFL_U32, mask, v, lane, site);
}
WH_FN uint64_t whi_sim_shfl_u64_(wh_mask mask, uint64_t v, uint32_t lane, const char *site) {
    return whi_sim_collective(WHI_SIM_SHFL_U64, mask, v, lane, site);
}
WH_FN wh_mask whi_sim_match_u32_(wh_mask mask, uint32_t v, const char *site) {
    return (wh_mask)whi_sim_collective(WHI_SIM_MATCH_U32, mask, v, 0, site);
}
WH_FN wh_mask whi_sim_match_u64_(wh_mask mask, uint64_t v, const char *site) {
    return (wh_mask)whi_sim_collective(WHI_SIM_MATCH_U64, mask, v, 0, site);
}
WH_FN uint32_t whi_sim_scan_add_warp_(uint32_t v, const char *site) {
    const uint32_t lane = wh_lane_id();
    for (uint32_t reach = 1; reach < WH_WARP_SIZE; reach *= 2) {
        const uint32_t below = whi_sim_shfl_u32_(WH_FULL_WARP, v, (lane - reach) & 31, site);
        v += lane >= reach ? below : 0;
    }
    return v;
}
WH_FN uint32_t whi_sim_reduce_add_(wh_mask mask, uint32_t v, const char *site) {
    return (uint32_t)whi_sim_collective(WHI_SIM_REDUCE_ADD, mask, v, 0, site);
}
WH_FN uint32_t whi_sim_reduce_max_(wh_mask mask, uint32_t v, const char *site) {
    return (uint32_t)whi_sim_collective(WHI_SIM_REDUCE_MAX, mask, v, 0, site);
}
WH_FN uint32_t whi_sim_reduce_or_(wh_mask mask, uint32_t v, const char *site) {
    return (uint32_t)whi_sim_collective(WHI_SIM_REDUCE_OR, mask, v, 0, site);
}
WH_FN void whi_sim_syncwarp_(wh_mask mask, const char *site) {
    (void)whi_sim_collective(WHI_SIM_SYNCWARP, mask, 0, 0, site);
}

/* Plain accesses, which ThreadSanitizer sees ordered by the barriers alone, as on a GPU. */
WH_FN uint64_t whi_sim_block_broadcast_(uint64_t v, uint32_t thread, const char *site) {
    WH_SHARED(uint64_t, word, 1);
    if (word == NULL) {
        return v; /* host code */
    }
    if (wh_thread_in_block() == thread) {
        *word = v;
    }
    whi_sim_syncthreads(site);
    const uint64_t r = *word;
    whi_sim_syncthreads(site); /* the next broadcast may write now */
    return r;
}
WH_FN void *wh_shared(void) {
    return whi_sim_shared(NULL, 0, "wh_shared");
}

/* --- bits -------------------------------------------------------------------- */

#include "warpheap/detail/simt/end.h"

#include "warpheap/detail/simt/bits.h"

#include "warpheap/detail/simt/begin.h"

/* --- atomics ------------------------------------------------------------------- */

/* The __ATOMIC_ constant of an order, and of a compare-and-swap that fails under
 * it (a failed one loads, so it cannot release). */
#define WHI_SIM_ORDER_relaxed __ATOMIC_RELAXED
#define WHI_SIM_ORDER_acquire __ATOMIC_ACQUIRE
#define WHI_SIM_ORDER_release __ATOMIC_RELEASE
#define WHI_SIM_ORDER_acq_rel __ATOMIC_ACQ_REL
#define WHI_SIM_FAIL_relaxed __ATOMIC_RELAXED
#define WHI_SIM_FAIL_acquire __ATOMIC_ACQUIRE
#define WHI_SIM_FAIL_release __ATOMIC_RELAXED
#define WHI_SIM_FAIL_acq_rel __ATOMIC_ACQUIRE

/* The order as the weak memory is told of it: with the scope. */
#define WHI_SIM_TOLD_(order) (WHI_SIM_ORDER_##order | WHI_SIM_SCOPE_)
#define WHI_SIM_SCOPE_ WH_PLANT(simt_p1_scope, WH_PEERS ? WHI_SIM_SYSTEM : 0, 0) /* P1 */
#define WHI_SIM_TELL_(w, old, order, stored_too)                           \
    if (whi_sim_self->weak != 0) {                                         \
        whi_sim_weak_rmw(p, w / 8, old, WHI_SIM_TOLD_(order), stored_too); \
    }
/* A use of an operand after its operation. gcc 12 may give one register to the result of a
 * __atomic_fetch_or, _and or _xor and to an operand with no later use. Then it loads the old value
 * over the operand, and the operation stores what it has loaded. */
#define WHI_SIM_KEEP_(v) __asm__ volatile("" : : "g"(v))
#define WHI_SIM_LOAD_(w, order)                                                         \
    WH_FN uint##w##_t wh_load_u##w##_##order(const uint##w##_t *p) {                    \
        whi_sim_atomic_point();                                                         \
        const uint##w##_t v = __atomic_load_n(p, WHI_SIM_ORDER_##order);                \
        return whi_sim_self->weak == 0                                                  \
                   ? v                                                                  \
                   : (uint##w##_t)whi_sim_weak_load(p, w / 8, v, WHI_SIM_TOLD_(order)); \
    }
#define WHI_SIM_STORE_(w, order)                                        \
    WH_FN void wh_store_u##w##_##order(uint##w##_t *p, uint##w##_t v) { \
        whi_sim_atomic_point();                                         \
        if (whi_sim_self->weak != 0) {                                  \
            whi_sim_weak_store(p, w / 8, v, WHI_SIM_TOLD_(order));      \
        }                                                               \
        __atomic_store_n(p, v, WHI_SIM_ORDER_##order);                  \
    }
#define WHI_SIM_RMW1_(name, builtin, w, order)                                    \
    WH_FN uint##w##_t wh_##name##_u##w##_##order(uint##w##_t *p, uint##w##_t v) { \
        whi_sim_atomic_point();                                                   \
        const uint##w##_t old = builtin(p, v, WHI_SIM_ORDER_##order);             \
        WHI_SIM_KEEP_(v);                                                         \
        WHI_SIM_TELL_(w, old, order, 1)                                           \
        return old;                                                               \
    }
/* Stores even when the value stays: the operation keeps its order either way. */
#define WHI_SIM_PICK1_(name, better, w, order)                                          \
    WH_FN uint##w##_t wh_##name##_u##w##_##order(uint##w##_t *p, uint##w##_t v) {       \
        whi_sim_atomic_point();                                                         \
        uint##w##_t seen = __atomic_load_n(p, __ATOMIC_RELAXED);                        \
        while (!__atomic_compare_exchange_n(p, &seen, v better seen ? v : seen, 0,      \
                                            WHI_SIM_ORDER_##order, __ATOMIC_RELAXED)) { \
        }                                                                               \
        WHI_SIM_TELL_(w, seen, order, 1)                                                \
        return seen;                                                                    \
    }
#define WHI_SIM_CAS1_(w, order)                                                                    \
    WH_FN uint##w##_t wh_cas_u##w##_##order(uint##w##_t *p, uint##w##_t expected,                  \
                                            uint##w##_t desired) {                                 \
        whi_sim_atomic_point();                                                                    \
        const int done = __atomic_compare_exchange_n(p, &expected, desired, 0,                     \
                                                     WHI_SIM_ORDER_##order, WHI_SIM_FAIL_##order); \
        WHI_SIM_TELL_(w, expected, order, done)                                                    \
        return expected;                                                                           \
    }
#define WHI_SIM_RED1_(name, builtin, w, order)                             \
    WH_FN void wh_##name##_u##w##_##order(uint##w##_t *p, uint##w##_t v) { \
        whi_sim_atomic_point();                                            \
        const uint##w##_t old = builtin(p, v, WHI_SIM_ORDER_##order);      \
        WHI_SIM_KEEP_(v);                                                  \
        WHI_SIM_TELL_(w, old, order, 1)                                    \
    }

#define WHI_SIM_ORDERS_(one, name, how, w)                                           \
    one(name, how, w, relaxed) one(name, how, w, acquire) one(name, how, w, release) \
        one(name, how, w, acq_rel)

#define WHI_SIM_WIDTH_(w)                                            \
    WHI_SIM_LOAD_(w, relaxed)                                        \
    WHI_SIM_LOAD_(w, acquire)                                        \
    WHI_SIM_STORE_(w, relaxed)                                       \
    WHI_SIM_STORE_(w, release)                                       \
    WHI_SIM_ORDERS_(WHI_SIM_RMW1_, fetch_add, __atomic_fetch_add, w) \
    WHI_SIM_ORDERS_(WHI_SIM_RMW1_, fetch_sub, __atomic_fetch_sub, w) \
    WHI_SIM_ORDERS_(WHI_SIM_RMW1_, fetch_and, __atomic_fetch_and, w) \
    WHI_SIM_ORDERS_(WHI_SIM_RMW1_, fetch_or, __atomic_fetch_or, w)   \
    WHI_SIM_ORDERS_(WHI_SIM_RMW1_, fetch_xor, __atomic_fetch_xor, w) \
    WHI_SIM_ORDERS_(WHI_SIM_RMW1_, exchange, __atomic_exchange_n, w) \
    WHI_SIM_ORDERS_(WHI_SIM_PICK1_, fetch_min, <, w)                 \
    WHI_SIM_ORDERS_(WHI_SIM_PICK1_, fetch_max, >, w)                 \
    WHI_SIM_CAS1_(w, relaxed)                                        \
    WHI_SIM_CAS1_(w, acquire)                                        \
    WHI_SIM_CAS1_(w, release)                                        \
    WHI_SIM_CAS1_(w, acq_rel)                                        \
    WHI_SIM_RED1_(add, __atomic_fetch_add, w, relaxed)               \
    WHI_SIM_RED1_(add, __atomic_fetch_add, w, release)               \
    WHI_SIM_RED1_(and, __atomic_fetch_and, w, relaxed)               \
    WHI_SIM_RED1_(and, __atomic_fetch_and, w, release)               \
    WHI_SIM_RED1_(or, __atomic_fetch_or, w, relaxed)                 \
    WHI_SIM_RED1_(or, __atomic_fetch_or, w, release)

WHI_SIM_WIDTH_(32)
WHI_SIM_WIDTH_(64)

#undef WHI_SIM_WIDTH_
WH_FN void wh_fence(void) {
    if (whi_sim_self->weak != 0) {
        whi_sim_weak_fence();
    }
}
#undef WHI_SIM_ORDERS_
#undef WHI_SIM_RED1_
#undef WHI_SIM_CAS1_
#undef WHI_SIM_PICK1_
#undef WHI_SIM_RMW1_
#undef WHI_SIM_STORE_
#undef WHI_SIM_LOAD_
#undef WHI_SIM_TELL_
#undef WHI_SIM_TOLD_
#undef WHI_SIM_SCOPE_

/* Of a block's own memory, which the weak memory knows nothing of. */
#define WHI_SIM_SHARED1_(name, builtin, w)                                     \
    WH_FN uint##w##_t wh_shared_##name##_u##w(uint##w##_t *p, uint##w##_t v) { \
        whi_sim_atomic_point();                                                \
        const uint##w##_t old = builtin(p, v, __ATOMIC_RELAXED);               \
        WHI_SIM_KEEP_(v);                                                      \
        return old;                                                            \
    }
#define WHI_SIM_SHARED_PICK_(name, better, w)                                      \
    WH_FN uint##w##_t wh_shared_##name##_u##w(uint##w##_t *p, uint##w##_t v) {     \
        whi_sim_atomic_point();                                                    \
        uint##w##_t seen = __atomic_load_n(p, __ATOMIC_RELAXED);                   \
        while (!__atomic_compare_exchange_n(p, &seen, v better seen ? v : seen, 0, \
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED)) { \
        }                                                                          \
        return seen;                                                               \
    }
#define WHI_SIM_SHARED_(w)                                                               \
    WH_FN uint##w##_t wh_shared_load_u##w(const uint##w##_t *p) {                        \
        whi_sim_atomic_point();                                                          \
        return __atomic_load_n(p, __ATOMIC_RELAXED);                                     \
    }                                                                                    \
    WHI_SIM_SHARED1_(fetch_add, __atomic_fetch_add, w)                                   \
    WHI_SIM_SHARED1_(fetch_and, __atomic_fetch_and, w)                                   \
    WHI_SIM_SHARED1_(fetch_or, __atomic_fetch_or, w)                                     \
    WHI_SIM_SHARED1_(exchange, __atomic_exchange_n, w)                                   \
    WHI_SIM_SHARED_PICK_(fetch_min, <, w)                                                \
    WHI_SIM_SHARED_PICK_(fetch_max, >, w)                                                \
    WH_FN uint##w##_t wh_shared_cas_u##w(uint##w##_t *p, uint##w##_t expected,           \
                                         uint##w##_t desired) {                          \
        whi_sim_atomic_point();                                                          \
        (void)__atomic_compare_exchange_n(p, &expected, desired, 0, __ATOMIC_RELAXED,    \
                                          __ATOMIC_RELAXED);                             \
        return expected;                                                                 \
    }                                                                                    \
    /* The weak memory learns of its order by fences. */                                 \
    WH_FN uint##w##_t wh_shared_cas_u##w##_acq_rel(uint##w##_t *p, uint##w##_t expected, \
                                                   uint##w##_t desired) {                \
        whi_sim_atomic_point();                                                          \
        if (whi_sim_self->weak != 0) {                                                   \
            whi_sim_weak_fence();                                                        \
        }                                                                                \
        (void)__atomic_compare_exchange_n(p, &expected, desired, 0, __ATOMIC_ACQ_REL,    \
                                          __ATOMIC_ACQUIRE);                             \
        if (whi_sim_self->weak != 0) {                                                   \
            whi_sim_weak_fence();                                                        \
        }                                                                                \
        return expected;                                                                 \
    }
WHI_SIM_SHARED_(32)
WHI_SIM_SHARED_(64)
#undef WHI_SIM_SHARED_
#undef WHI_SIM_SHARED_PICK_
#undef WHI_SIM_SHARED1_
#undef WHI_SIM_KEEP_

/* Of memory of the host, of which the weak memory knows nothing. */
WH_FN uint64_t wh_load_u64_system(const uint64_t *p) {
    whi_sim_atomic_point();
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
WH_FN void wh_store_u64_system(uint64_t *p, uint64_t v) {
    whi_sim_atomic_point();
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}

WH_FN uint32_t wh_load_u32_hint(const uint32_t *p) {
    return wh_load_u32_relaxed(p);
}

/* --- time and failing ------------------------------------------------------------ */

WH_FN void wh_backoff(uint32_t attempt) {
    whi_sim_backoff(attempt);
}
WH_FN uint64_t wh_clock(void) {
    return whi_sim_clock();
}
WH_FN uint64_t wh_time_ns(void) {
    return whi_sim_clock();
}
#define wh_trap(text) whi_sim_trap(text, WHI_SIM_HERE)
#define WH_ASSERT_FAILED_(text) wh_trap(text)
WH_FN void wh_trap_oom(const wh_oom_event e) {
    whi_sim_trap_oom(&e);
}

#include "warpheap/detail/simt/end.h"

#endif
