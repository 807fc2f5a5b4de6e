/* alloc/ouroboros/step.h: what the leader of a group does in a round of malloc's slow path. */
#ifndef WH_ALLOC_OUROBOROS_STEP_H
#define WH_ALLOC_OUROBOROS_STEP_H

#include "warpheap/detail/alloc/ouroboros/layout.h"

#include "warpheap/detail/simt/begin.h"

/* What the leader of a group has decided to do in a round. */
#define WH_OURO_WAIT 0u
#define WH_OURO_FETCH 1u  /* n chunks from the pool. PAGES: which the group needs whole */
#define WH_OURO_QUEUE 2u  /* n values from the queue, from position `first` on */
#define WH_OURO_PARKED 3u /* one chunk, `first`, from the tree */
#define WH_OURO_SEARCH 4u /* nothing in any of these places */
#define WH_OURO_OPEN                                                              \
    5u /* PAGES: n pages from those ahead in an open word that was `first`; then, \
          if `from` is not NONE, of that chunk, which is new, from its first on */

typedef struct wh_ouro_step {
    uint64_t first;
    uint32_t what;
    uint32_t n;
    uint32_t from;
    uint32_t duty;    /* CHUNKS: afterwards */
    uint32_t counted; /* afterwards */
} wh_ouro_step;

WH_FN wh_ouro_step wh_ouro_step_(uint32_t duty, uint32_t counted) {
    wh_ouro_step s;
    s.what = WH_OURO_WAIT;
    s.first = 0;
    s.n = 0;
    s.from = 0;
    s.duty = duty;
    s.counted = counted;
    return s;
}

/* Chunks of the pool, if any were taken. */
WH_FN void wh_ouro_step_fetch_(wh_chunk_pool_taken t, wh_ouro_step *s) {
    if (t.n != 0) {
        s->what = WH_OURO_FETCH;
        s->first = t.first;
        s->n = t.n;
        s->from = t.from;
    }
}

#include "warpheap/detail/simt/end.h"

#endif
