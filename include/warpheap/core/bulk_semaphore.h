/* core/bulk_semaphore.h: bulk semaphore (Gelado and Garland, PPoPP 2019; Ouroboros, ICS 2020,
 * section 3.4, Algorithm 2): a counter of units that also knows how many units are on
 * their way and how many are promised, so that of all callers who find none only as many
 * fetch a new batch as are needed.
 *
 * Word    64 bits: count C (26, signed) | expected E (19) | reserved R (19)
 *           C  units that can be taken now; below zero while vain takes are under way
 *           E  batches being fetched
 *           R  units wanted by callers who wait or fetch
 *         The paper has 21 | 21 | 21 and E in units. Here E counts batches, so that E and
 *         R, each at most one per lane of the device, cannot overflow: up to 2^19 - 1
 *         lanes, and C up to 2^25 - 1.
 *
 *     old = wh_bulk_semaphore_take(sem, n)             C -= n
 *     got = wh_bulk_semaphore_got(old, n)              so many of the n are the caller's; if fewer:
 *     k = wh_bulk_semaphore_batches(old, n, b)         batches of 2^b units that it must fetch
 *     wh_bulk_semaphore_reserve(sem, n - got, k)       C and R += rest, E += k
 *     ... fetch: wh_bulk_semaphore_signal(sem, surplus, k, kept)  C += surplus, E -= k, R -= kept
 *     ... or wait until C > 0, then wh_bulk_semaphore_retake: C and R -= rest, as take
 *     ... or give up: wh_bulk_semaphore_signal(sem, 0, 0, rest)
 *
 * Departures from Algorithm 2, which loops around a compare-and-swap in lines 8 to 16: with
 * thousands of warps at one word a compare-and-swap succeeds once per round trip. Here
 * every step is one add. Who fetches follows from the value that take returned: the
 * deficit D = R - C - E 2^b moves from d to d + n in one step, and a batch is the duty of
 * the caller whose step passes the multiple of 2^b at which it becomes necessary. The
 * steps of reserve change neither D nor, modulo 2^b, the deficits that others see.
 *
 * Invariants (quiet: no caller between two of its steps)
 *   I1  C >= 0, E = R = 0 when quiet and nobody waits
 *   I2  the sum of all `got` never exceeds the sum of all units signalled
 *   I3  of callers who find nothing, nothing coming in between, and who lack d units in
 *       all, the duties sum up to ceil(d / 2^b). With units coming and going it may be
 *       more or less: a lane that waits must look whether E is still above 0, and fetch otherwise
 * Order   none: what is counted is handed over elsewhere (core/vqueue.h)
 * Lanes   any lane alone, on behalf of a group
 * Progress wait-free; waiting is the caller's
 * Check   tests/unit/bulk_semaphore.c
 */
#ifndef WH_CORE_BULKSEM_H
#define WH_CORE_BULKSEM_H

#include "warpheap/core/hash.h"
#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

#define WH_BULK_SEMAPHORE_FIELD_BITS 19u
#define WH_BULK_SEMAPHORE_C_SHIFT (2 * WH_BULK_SEMAPHORE_FIELD_BITS)
#define WH_BULK_SEMAPHORE_CROWD 64u /* fewer units wanted than this: all that wait try */
#define WH_BULK_SEMAPHORE_MAX_COUNT (((uint64_t)1 << 25) - 1)

/* What to add to the word for a change of the counters. */
WH_HD uint64_t wh_bulk_semaphore_word(int64_t count, int64_t expected, int64_t reserved) {
    return ((uint64_t)count << WH_BULK_SEMAPHORE_C_SHIFT) +
           ((uint64_t)expected << WH_BULK_SEMAPHORE_FIELD_BITS) + (uint64_t)reserved;
}

WH_HD int64_t wh_bulk_semaphore_count(uint64_t w) {
    const uint64_t c = w >> WH_BULK_SEMAPHORE_C_SHIFT, sign = (uint64_t)1 << 25;
    return (int64_t)(c ^ sign) - (int64_t)sign;
}
WH_HD uint32_t wh_bulk_semaphore_expected(uint64_t w) {
    return (uint32_t)(w >> WH_BULK_SEMAPHORE_FIELD_BITS) &
           ((1u << WH_BULK_SEMAPHORE_FIELD_BITS) - 1);
}
WH_HD uint32_t wh_bulk_semaphore_reserved(uint64_t w) {
    return (uint32_t)w & ((1u << WH_BULK_SEMAPHORE_FIELD_BITS) - 1);
}

/* How many of n units are the caller's, if `old` is what its take returned. */
WH_HD uint32_t wh_bulk_semaphore_got(uint64_t old, uint32_t n) {
    const int64_t c = wh_bulk_semaphore_count(old);
    wh_assert(n <= WH_BULK_SEMAPHORE_MAX_COUNT);
    if (c <= 0) {
        return 0;
    }
    return WH_PLANT(bulksem_i2, c < (int64_t)n, 0) ? (uint32_t)c : n; /* I2 */
}

WH_HD int64_t wh_bulk_semaphore_ceil_(int64_t deficit, uint32_t batch_log2) {
    wh_assert(batch_log2 < 32);
    return deficit <= 0 ? 0 : (deficit + ((int64_t)1 << batch_log2) - 1) >> batch_log2;
}

/* Batches of 2^batch_log2 units that a deficit growing from d to d + n makes the caller's
 * duty (I3). */
WH_HD uint32_t wh_bulk_semaphore_duty(int64_t d, uint32_t n, uint32_t batch_log2) {
    return (uint32_t)(wh_bulk_semaphore_ceil_(d + (int64_t)n, batch_log2) -
                      wh_bulk_semaphore_ceil_(d, batch_log2));
}

/* Units that are wanted and neither there nor on their way. */
WH_HD int64_t wh_bulk_semaphore_deficit(uint64_t w, uint32_t batch_log2) {
    return (int64_t)wh_bulk_semaphore_reserved(w) - wh_bulk_semaphore_count(w) -
           (int64_t)((uint64_t)wh_bulk_semaphore_expected(w) << batch_log2);
}

/* The duty of a caller whose take of n returned `old`: no more than it lacks itself. */
WH_HD uint32_t wh_bulk_semaphore_batches(uint64_t old, uint32_t n, uint32_t batch_log2) {
    const uint32_t duty =
        wh_bulk_semaphore_duty(wh_bulk_semaphore_deficit(old, batch_log2), n, batch_log2);
    const uint32_t most =
        (uint32_t)wh_bulk_semaphore_ceil_((int64_t)(n - wh_bulk_semaphore_got(old, n)), batch_log2);
    wh_assert_internal(duty <= n); /* I3 */
    return duty < most ? duty : most;
}

WH_FN uint64_t wh_bulk_semaphore_take(uint64_t *sem, uint32_t n) {
    wh_assert(n != 0 && n <= WH_BULK_SEMAPHORE_MAX_COUNT);
    return wh_fetch_sub_u64_relaxed(sem, wh_bulk_semaphore_word(n, 0, 0));
}

WH_FN void wh_bulk_semaphore_reserve(uint64_t *sem, uint32_t n, uint32_t batches) {
    wh_assert(n < 1u << WH_BULK_SEMAPHORE_FIELD_BITS && batches <= n);
    wh_add_u64_relaxed(sem, wh_bulk_semaphore_word(n, batches, n));
}

/* take for units that are reserved already. What was not got is reserved again. */
WH_FN uint32_t wh_bulk_semaphore_retake(uint64_t *sem, uint32_t n) {
    wh_assert(n != 0);
    wh_assert_expensive(wh_bulk_semaphore_reserved(wh_load_u64_relaxed(sem)) >= n);
    const uint32_t got =
        wh_bulk_semaphore_got(wh_fetch_sub_u64_relaxed(sem, wh_bulk_semaphore_word(n, 0, n)), n);
    if (got < n && WH_PLANT(bulksem_retake, 1, 0)) {
        wh_bulk_semaphore_reserve(sem, n - got, 0);
    }
    return got;
}

/* For a lane that waits and sees units: whether to try and take some now. With far more units
 * wanted than there are, all that wait would try at once, nearly all in vain, and with two atomics
 * each at the word that everybody needs. So each draws: as many try as there are units.
 * `size_log2`: log2 of what one unit serves; attempt: counted by the caller, who: its number. With
 * units there it is true at least once in 64 attempts, and always if few are wanted. */
WH_HD int wh_bulk_semaphore_may_try(uint64_t w, uint32_t size_log2, uint32_t attempt,
                                    uint32_t who) {
    const int64_t count = wh_bulk_semaphore_count(w);
    wh_assert(size_log2 < 32);
    const uint64_t units = count <= 0 ? 0 : (uint64_t)count << size_log2;
    const uint32_t wanted = wh_bulk_semaphore_reserved(w);
    uint32_t draw = wh_spread32(who) + attempt * 0x85ebca6bu;
    draw = (draw ^ draw >> 15) * 0xc2b2ae35u;
    draw ^= draw >> 16;
    return count > 0 && (wanted <= WH_BULK_SEMAPHORE_CROWD || (attempt & 63) == 63 ||
                         ((uint64_t)draw * wanted) >> 32 < units);
}

/* For a lane that waits and sees that nobody fetches: takes on `batches` more, unless others have
 * meanwhile. */
WH_FN uint32_t wh_bulk_semaphore_volunteer(uint64_t *sem, uint32_t batches, uint32_t batch_log2) {
    wh_assert(batches != 0);
    const uint64_t old = wh_fetch_add_u64_relaxed(sem, wh_bulk_semaphore_word(0, batches, 0));
    if (wh_bulk_semaphore_deficit(old, batch_log2) > 0) {
        return batches;
    }
    wh_add_u64_relaxed(sem, wh_bulk_semaphore_word(0, -(int64_t)batches, 0));
    return 0;
}

/* Whether a word counts so many: those of the caller are in it until it ends them. */
WH_HD int wh_bulk_semaphore_counts(uint64_t w, uint32_t batches, uint32_t reserved) {
    return wh_bulk_semaphore_expected(w) >= batches && wh_bulk_semaphore_reserved(w) >= reserved;
}

/* Adds units, ends the fetching of `batches` and the waiting for `reserved` units. */
WH_FN void wh_bulk_semaphore_signal(uint64_t *sem, uint32_t units, uint32_t batches,
                                    uint32_t reserved) {
    wh_assert(units <= WH_BULK_SEMAPHORE_MAX_COUNT);
    wh_assert_expensive(wh_bulk_semaphore_counts(wh_load_u64_relaxed(sem), batches, reserved));
    const uint32_t done = WH_PLANT(bulksem_i1, batches, 0); /* I1 */
    wh_add_u64_relaxed(sem, wh_bulk_semaphore_word(units, -(int64_t)done, -(int64_t)reserved));
}

#include "warpheap/detail/simt/end.h"

#endif
