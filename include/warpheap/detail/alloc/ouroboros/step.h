/* alloc/ouroboros/step.h: a group of lanes in malloc's slow path, and what its leader has decided
 * to do in a round. It may change.
 */
#ifndef WH_ALLOC_OUROBOROS_STEP_H
#define WH_ALLOC_OUROBOROS_STEP_H

#include "warpheap/detail/alloc/ouroboros/layout.h"

#include "warpheap/detail/simt/begin.h"

/* The lanes that call together, and the caller's group among them. */
typedef struct wh_ouro_caller {
    wh_mask mask;
    wh_mask lanes; /* those of the caller's class */
    uint32_t c;    /* the class; NO_CLASS: the caller takes no part */
} wh_ouro_caller;

WH_FN int wh_ouro_takes_part_(wh_ouro_caller who) {
    return who.c != WH_OURO_NO_CLASS;
}
/* The class, or any class to compute with. */
WH_FN uint32_t wh_ouro_some_class_(wh_ouro_caller who) {
    return who.c != WH_OURO_NO_CLASS ? who.c : 0;
}
WH_FN int wh_ouro_leads_(wh_ouro_caller who) {
    return wh_ouro_takes_part_(who) && wh_lane_id() == wh_mask_leader(who.lanes);
}

/* What a group lacks, and has done about it until now. */
typedef struct wh_ouro_turn {
    uint32_t r;       /* pages that it lacks */
    uint32_t attempt; /* rounds until now */
    uint32_t counted; /* R counts the pages */
    uint32_t duty;    /* CHUNKS: chunks that it is to fetch, which E counts */
    uint32_t tries;   /* CHUNKS: 0 in the first round, 1 before the first take, more afterwards */
    uint32_t idle;    /* CHUNKS: rounds in which nobody was seen to bring any */
} wh_ouro_turn;

/* What the leader of a group has decided to do in a round. */
#define WH_OURO_WAIT 0u
#define WH_OURO_FETCH 1u  /* n chunks from the pool. PAGES: those that the group needs whole */
#define WH_OURO_QUEUE 2u  /* n values from the queue, from position `first` on */
#define WH_OURO_PARKED 3u /* one chunk, `first`, from the tree */
#define WH_OURO_SEARCH 4u /* nothing in any of these places */
/* PAGES: n pages from those ahead in an open word that was `first`; then, if `from` is not NONE, of
 * that chunk, which is new, from its first page on. */
#define WH_OURO_OPEN 5u

typedef struct wh_ouro_step {
    uint64_t first;
    uint32_t what;
    uint32_t n;
    uint32_t from;
    uint32_t duty; /* these three: of the next turn */
    uint32_t counted;
    uint32_t idle;
} wh_ouro_step;

/* Nothing yet. */
WH_FN wh_ouro_step wh_ouro_step_(wh_ouro_turn t) {
    wh_ouro_step s;
    s.what = WH_OURO_WAIT;
    s.first = 0;
    s.n = 0;
    s.from = 0;
    s.duty = t.duty;
    s.counted = t.counted;
    s.idle = t.idle;
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
