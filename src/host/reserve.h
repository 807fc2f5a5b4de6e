/* reserve.h: what reserve.c and growth.c know of a heap in reserved addresses. */
#ifndef WHI_RESERVE_H
#define WHI_RESERVE_H

#include <pthread.h>

#include "heap_internal.h"

typedef struct whi_growth whi_growth;

enum { ABSENT, SPARE, FRESH, POSTED, THERE }; /* reserve.c */

struct whi_reserve {
    pthread_mutex_t lock;
    pthread_mutex_t switching; /* of who begins growth, or ends it: before the lock */
    wh_reserve_plan plan;
    uint64_t bytes; /* of addresses */
    int fixed_there;
    uint8_t *units;
    uint8_t *sides;       /* of each granule of the side part: whether it is mapped */
    uint32_t *side_users; /* ... and units that are mapped and need it; the first one: one more */
    uint32_t lowest;      /* all units below it are THERE */
    uint32_t top;         /* no unit from it on is mapped */
    uint32_t n_mapped;    /* units that are not ABSENT */
    uint32_t n_there;
    uint32_t n_sides;
    /* NULL: it does not grow while kernels run. With the lock; atomic for a look without */
    whi_growth *growth;
};

/* All of these with the lock held. Bytes that are mapped, and that would be with [first, end). */
uint64_t whi_reserve_mapped(const whi_reserve *r);
uint64_t whi_reserve_mapped_with(const whi_reserve *r, uint32_t first, uint32_t end);
uint64_t whi_reserve_metadata(const whi_reserve *r);
/* Units [first, end), of which none is the heap's or POSTED: all mapped and SPARE then. On failure
 * some may be. Launches nothing, and waits for nothing. */
wh_status whi_reserve_map(wh_heap *h, uint32_t first, uint32_t end);
/* On a quiet heap: SPARE units go, and words that none needs. Those that cannot go become the
 * heap's. */
wh_status whi_reserve_drop_spare(wh_heap *h);
/* All that is mapped, to a peer. */
wh_status whi_reserve_share(const wh_heap *h, wh_device *peer);
/* Lanes ask this box from now on; NULL: none. Waits for the kernel. */
wh_status whi_reserve_set_growth(wh_heap *h, void *box, uint32_t wait_us);

/* n more units, holes first; units without a block go, down to `keep` bytes mapped. On a quiet heap
 * that does not grow meanwhile. */
wh_status whi_reserve_extend(wh_heap *h, uint64_t n);
wh_status whi_reserve_trim(wh_heap *h, uint64_t keep);

/* What is absent of a unit of the heap's, which is mapped, becomes the heap's. On a quiet heap. */
wh_status whi_reserve_complete(wh_heap *h, uint32_t unit);
/* growth.c, with the lock held, on a quiet heap. pause: a unit of which lanes have a part becomes
 * the heap's as a whole, what is POSTED becomes SPARE, and nothing is asked or answered until
 * resume. If it fails all is as before, and no resume is due. Both do nothing if the heap does not
 * grow. */
wh_status whi_growth_pause(wh_heap *h);
wh_status whi_growth_resume(wh_heap *h);

#endif
