/* shim.hpp: what warpheap/simt.h promises, over the atomics of Relacy, a model checker for C++11's
 * memory model. So headers of the library run under it as they are.
 *
 * A shared word of the library is a plain integer. Here its address stands for an rl::atomic: the
 * program names its words once (shim_word), and each execution begins with what they held then. A
 * word that has not been named ends the check. Each thread is a lane alone.
 *
 * WH_PLANT asks for shim_planted: the faults that tests/fault plants are what the checker is to
 * notice. */
#ifndef WH_MEMORY_MODEL_SHIM_HPP
#define WH_MEMORY_MODEL_SHIM_HPP

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include <relacy/relacy.hpp>
#undef new
#undef delete
#undef malloc
#undef calloc
#undef realloc
#undef free

/* --- words ------------------------------------------------------------------------------- */

#define SHIM_WORDS 160

/* Words of one width. */
template <class T> struct shim_words {
    T *place[SHIM_WORDS];
    alignas(16) unsigned char room[SHIM_WORDS][sizeof(rl::atomic<T>)];
    int n;

    rl::atomic<T> *nth(int i) {
        return reinterpret_cast<rl::atomic<T> *>(room[i]);
    }
    void name(T *p) {
        if (n == SHIM_WORDS) {
            abort();
        }
        place[n++] = p;
    }
    void begin() {
        for (int i = 0; i < n; i++) {
            ::new (static_cast<void *>(room[i])) rl::atomic<T>();
            nth(i)->store(*place[i], rl::mo_relaxed, $);
        }
    }
    void end() {
        for (int i = 0; i < n; i++) {
            nth(i)->~atomic<T>();
        }
    }
    /* NULL: no execution is under way, the word is a plain one. */
    rl::atomic<T> *find(const T *p) {
        if (!rl::is_ctx()) {
            return nullptr;
        }
        for (int i = 0; i < n; i++) {
            if (place[i] == p) {
                return nth(i);
            }
        }
        RL_ASSERT(!"a word that has not been named");
        return nullptr;
    }
};

static shim_words<uint32_t> shim_32;
static shim_words<uint64_t> shim_64;
static const char *shim_planted;
static bool shim_in_order; /* every access is sequentially consistent */

static inline shim_words<uint32_t> *shim_of(const uint32_t *) {
    return &shim_32;
}
static inline shim_words<uint64_t> *shim_of(const uint64_t *) {
    return &shim_64;
}
template <class T> void shim_word(T *p, uint64_t n = 1) {
    for (uint64_t i = 0; i < n; i++) {
        shim_of(p)->name(p + i);
    }
}
static inline void shim_begin() {
    shim_32.begin();
    shim_64.begin();
}
static inline void shim_end() {
    shim_32.end();
    shim_64.end();
}

/* --- simt.h ------------------------------------------------------------------------------ */

#define WH_SIMT_SIMT_H
#include "warpheap/detail/simt/target.h"
#include "warpheap/types.h"

#define WH_WARP_SIZE 32u
#define WH_FULL_WARP 0xffffffffu
typedef uint32_t wh_mask;
#define WH_CAT_(a, b) a##b
#define WH_CAT(a, b) WH_CAT_(a, b)
#define WH_STR_(a) #a
#define WH_STR(a) WH_STR_(a)
#define WH_STATIC_CAST(type, value) static_cast<type>(value)
#define WH_ALIGNAS(n) alignas(n)
#define WH_STATIC_ASSERT(cond, text) static_assert(cond, text)
#define WH_FN static inline __attribute__((__unused__))
#define WH_FN_SLOW static __attribute__((__unused__))
#define WH_FN_LINKED(type, name, parameters) WH_FN_SLOW type name parameters
#define WH_FN_LINKED_FREE(type, name, parameters) WH_FN_SLOW type name parameters
#define WH_FN_HOST WH_FN
#define WH_HD WH_FN
#define WH_CONSTEXPR
#define WH_NO_UNROLL
#define WH_UNROLL_8
#define WH_TARGET_IS_SIM 1
#define WH_PEERS 1 /* as there */
#include "warpheap/detail/simt/bits.h"

#define WH_PLANT(tag, good, bad) \
    (shim_planted != nullptr && strcmp(shim_planted, #tag) == 0 ? (bad) : (good))
#define WH_PLANT_ORDER(tag, op, order) WH_PLANT(tag, op##_##order, op##_relaxed)
#define SHIM_ASSERT(condition) (!rl::is_ctx() || (condition) ? (void)0 : shim_failed(#condition))
#define wh_assert(condition) SHIM_ASSERT(condition)
#define wh_assert_internal(condition) SHIM_ASSERT(condition)
#define wh_assert_expensive(condition) ((void)sizeof((condition) ? 1 : 0))
#define wh_trap(text) shim_failed(text)
static inline void shim_failed(const char *) {
    RL_ASSERT(!"an assertion of the library");
}

WH_FN uint32_t wh_lane_id() {
    return 0;
}
WH_FN uint32_t wh_sm_id() {
    return 0;
}
WH_FN uint64_t wh_thread_id() {
    return rl::is_ctx() ? rl::thread_index() : 0;
}
WH_FN uint32_t wh_block_id() {
    return 0;
}
WH_FN uint32_t wh_block_threads() {
    return 1;
}
WH_FN uint64_t wh_time_ns() {
    return 0;
}
WH_FN wh_mask wh_lanemask_lt() {
    return 0;
}
WH_FN wh_mask wh_activemask() {
    return 1;
}
WH_HD uint32_t wh_mask_leader(wh_mask mask) {
    return wh_ctz32(mask);
}
WH_FN uint32_t wh_mask_rank(wh_mask) {
    return 0;
}
WH_FN int wh_any(wh_mask, int pred) {
    return pred != 0;
}
WH_FN int wh_any_here(int pred) {
    return pred != 0;
}
WH_FN int wh_all(wh_mask, int pred) {
    return pred != 0;
}
WH_FN wh_mask wh_ballot(wh_mask, int pred) {
    return pred != 0;
}
WH_FN uint32_t wh_shfl_u32(wh_mask, uint32_t v, uint32_t) {
    return v;
}
WH_FN uint64_t wh_shfl_u64(wh_mask, uint64_t v, uint32_t) {
    return v;
}
WH_FN wh_mask wh_match_any_u32(wh_mask, uint32_t) {
    return 1;
}
WH_FN wh_mask wh_match_any_u64(wh_mask, uint64_t) {
    return 1;
}
WH_FN uint32_t wh_reduce_add_u32(wh_mask, uint32_t v) {
    return v;
}
WH_FN uint32_t wh_reduce_or_u32(wh_mask, uint32_t v) {
    return v;
}
WH_FN void wh_syncwarp(wh_mask) {
}
WH_FN void wh_backoff(uint32_t) {
    rl::yield(1, $);
}
WH_FN void wh_fence() {
    if (rl::is_ctx()) {
        rl::atomic_thread_fence(rl::mo_acq_rel, $);
    }
}

#define SHIM_MO(order) (shim_in_order ? rl::mo_seq_cst : rl::mo_##order)
#define SHIM_LOAD(w, order)                                          \
    WH_FN uint##w##_t wh_load_u##w##_##order(const uint##w##_t *p) { \
        rl::atomic<uint##w##_t> *a = shim_##w.find(p);               \
        return a == nullptr ? *p : a->load(SHIM_MO(order), $);       \
    }
#define SHIM_STORE(w, order)                                            \
    WH_FN void wh_store_u##w##_##order(uint##w##_t *p, uint##w##_t v) { \
        rl::atomic<uint##w##_t> *a = shim_##w.find(p);                  \
        a == nullptr ? (void)(*p = v) : a->store(v, SHIM_MO(order), $); \
    }
#define SHIM_RMW(name, of, w, order)                                              \
    WH_FN uint##w##_t wh_##name##_u##w##_##order(uint##w##_t *p, uint##w##_t v) { \
        rl::atomic<uint##w##_t> *a = shim_##w.find(p);                            \
        if (a != nullptr) {                                                       \
            return a->name(v, SHIM_MO(order), $);                                 \
        }                                                                         \
        const uint##w##_t old = *p;                                               \
        *p = of;                                                                  \
        return old;                                                               \
    }
#define SHIM_CAS(w, order)                                                                    \
    WH_FN uint##w##_t wh_cas_u##w##_##order(uint##w##_t *p, uint##w##_t old, uint##w##_t v) { \
        rl::atomic<uint##w##_t> *a = shim_##w.find(p);                                        \
        uint##w##_t seen = old;                                                               \
        if (a != nullptr) {                                                                   \
            (void)a->compare_exchange_strong(seen, v, SHIM_MO(order), $);                     \
        } else {                                                                              \
            seen = *p;                                                                        \
            *p = seen == old ? v : seen;                                                      \
        }                                                                                     \
        return seen;                                                                          \
    }
#define SHIM_PICK(name, better, w)                                                         \
    WH_FN uint##w##_t wh_##name##_u##w##_relaxed(uint##w##_t *p, uint##w##_t v) {          \
        uint##w##_t seen = wh_load_u##w##_relaxed(p), now;                                 \
        while ((now = wh_cas_u##w##_relaxed(p, seen, v better seen ? v : seen)) != seen) { \
            seen = now;                                                                    \
        }                                                                                  \
        return seen;                                                                       \
    }
#define SHIM_RED(name, fetch, w, order)                                    \
    WH_FN void wh_##name##_u##w##_##order(uint##w##_t *p, uint##w##_t v) { \
        (void)wh_##fetch##_u##w##_##order(p, v);                           \
    }
#define SHIM_ORDER(w, order)               \
    SHIM_RMW(fetch_add, old + v, w, order) \
    SHIM_RMW(fetch_sub, old - v, w, order) \
    SHIM_RMW(fetch_and, old &v, w, order)  \
    SHIM_RMW(fetch_or, old | v, w, order)  \
    SHIM_RMW(exchange, v, w, order)        \
    SHIM_CAS(w, order)
#define SHIM_WIDTH(w)                    \
    SHIM_LOAD(w, relaxed)                \
    SHIM_LOAD(w, acquire)                \
    SHIM_STORE(w, relaxed)               \
    SHIM_STORE(w, release)               \
    SHIM_ORDER(w, relaxed)               \
    SHIM_ORDER(w, acquire)               \
    SHIM_ORDER(w, release)               \
    SHIM_ORDER(w, acq_rel)               \
    SHIM_PICK(fetch_max, >, w)           \
    SHIM_PICK(fetch_min, <, w)           \
    SHIM_RED(add, fetch_add, w, relaxed) \
    SHIM_RED(add, fetch_add, w, release) \
    SHIM_RED(or, fetch_or, w, relaxed)
SHIM_WIDTH(32)
SHIM_WIDTH(64)
WH_FN uint64_t wh_load_u64_system(const uint64_t *p) {
    return wh_load_u64_acquire(p);
}
WH_FN void wh_store_u64_system(uint64_t *p, uint64_t v) {
    wh_store_u64_release(p, v);
}

#endif
