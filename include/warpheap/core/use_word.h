/* core/use_word.h: 32 use bits and the number of their releases in one 64-bit word, so
 * that a search that found nothing can prove it.
 *
 * Layout  word = {releases:32, used:32}; used bit b = 1: unit b is owned
 * Fields  word  claim: cas, or fetch_or by whoever holds a lock that excludes other
 *               claims; release: one add that clears bits and counts, release order
 * I1      a bit goes 0 -> 1 for one claimer: cas on the whole word, or the lock
 * I2      releases never decreases (mod 2^32), and every bit that goes 1 -> 0 counts
 * P1      release (add release) -> claim (cas acquire, or a load acquire of the word
 *         before a claim under the lock): the old owner's writes come before the new
 *         owner's use. Claims in between are read-modify-writes and keep the release
 *         sequence whole.
 * X1      exact search: pass 1 reads every word, finds nothing that would do, and sums
 *         the release counts; pass 2 sums them again. By I2 equal sums mean that no
 *         bit was cleared between the two readings of any word, so at the moment
 *         between the passes every word had at most the free bits that pass 1 saw:
 *         nothing was there. (A double collect: the counts make it sound. It would
 *         take 2^32 releases of one word during a search to deceive it.)
 * Lanes   any lane alone
 * Check   tests/unit/use_word.c
 */
#ifndef WH_CORE_USE_WORD_H
#define WH_CORE_USE_WORD_H

#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

#define WH_USE_BITS 32u

WH_HD uint32_t wh_use_free(uint64_t word) {
    return ~(uint32_t)word;
}

WH_HD uint32_t wh_use_releases(uint64_t word) {
    return (uint32_t)(word >> 32);
}

/* Claims all bits of mask if none of them is used (I1): whether it did. `seen` is a value that
 * the word was seen to have; on failure it becomes what it has now. */
WH_FN int wh_use_claim(uint64_t *word, uint64_t *seen, uint32_t mask) {
    while (((uint32_t)*seen & mask) == 0) {
        const uint64_t now =
            WH_PLANT_ORDER(use_p1_claim, wh_cas_u64, acquire)(word, *seen, *seen | mask); /* P1 */
        if (now == *seen) {
            return 1;
        }
        *seen = now; /* another lane's claim or release succeeded: lock-free */
    }
    return 0;
}

/* Gives back bits that the caller owns, and counts that (I2). */
WH_FN void wh_use_release(uint64_t *word, uint32_t mask) {
    const uint64_t change = ((uint64_t)1 << 32) - mask;
    WH_PLANT_ORDER(use_p1_release, wh_add_u64, release)(word, change); /* P1 */
}

#include "warpheap/detail/simt/end.h"

#endif
