/* tables_count.h: how often the keys of samples were there: a table on the host. */
#ifndef WHI_WORKLOAD_RANKS_TABLES_COUNT_H
#define WHI_WORKLOAD_RANKS_TABLES_COUNT_H

#include "workload/ranks/tables_own.h"

typedef struct whi_counted {
    uint64_t key;
    uint32_t n[WHI_TABLES]; /* both 0: empty */
} whi_counted;

/* A power of two, so that half of the slots at least are empty: of `samples` of each table. */
#define WHI_COUNTED_SLOTS(samples) \
    ((uint64_t)1 << whi_log2_of(2 * WHI_TABLES * (uint64_t)(samples)))

/* What a rank says of its sample: rows of each table; samples and keys that were there once, of the
 * first table; how many keys follow, of each of which the key and about how many rows it has in
 * each table. */
#define WHI_MESSAGE_HEAD (WHI_TABLES + 3u)

/* The least k with 2^k >= n. */
static inline uint32_t whi_log2_of(uint64_t n) {
    uint32_t k = 0;
    while (((uint64_t)1 << k) < n) {
        k++;
    }
    return k;
}

#endif
