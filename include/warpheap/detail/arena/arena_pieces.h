/* arena/arena_pieces.h: the structures of arenas; pieces: from the heap, on the list, and back; one
 * lane's malloc. Fields, invariants and pairs: arena.h. Internal: may change. */
#ifndef WH_DETAIL_ARENA_PIECES_H
#define WH_DETAIL_ARENA_PIECES_H

#include "warpheap/warpheap.h"

#include "warpheap/detail/simt/begin.h"

/* Sizes of pieces, if 0 is asked for: of the first one, and of the largest. */
#ifdef WH_HOSTILE
#define WH_ARENA_FIRST 64u
#define WH_ARENA_MOST 256u
#define WH_WARP_ARENA_FIRST 256u
#define WH_WARP_ARENA_MOST 1024u
#define WH_BLOCK_ARENA_FIRST 256u
#define WH_BLOCK_ARENA_MOST 2048u
#else
#define WH_ARENA_FIRST 512u
#define WH_ARENA_MOST 16384u
#define WH_WARP_ARENA_FIRST 4096u
#define WH_WARP_ARENA_MOST 65536u
#define WH_BLOCK_ARENA_FIRST 16384u
#define WH_BLOCK_ARENA_MOST 262144u
#endif
#ifndef WH_ARENA_WAITS /* a test may want that nobody waits */
#ifdef WH_HOSTILE
#define WH_ARENA_WAITS 2u
#else
#define WH_ARENA_WAITS 256u /* half a millisecond: longer than the heap takes for a piece */
#endif
#endif
#define WH_ARENA_LEAST 64u                /* a piece has at least so many bytes, */
#define WH_ARENA_LARGEST (4u << 20)       /* and at most so many, unless one request needs more */
#define WH_ARENA_HUGE ((uint64_t)1 << 48) /* no heap serves that */

/* What a piece begins with. */
typedef struct wh_arena_piece {
    uint64_t below; /* the piece that was the newest before; 0: none */
    uint64_t bytes; /* of all of it */
#ifdef WH_HOSTILE
    uint64_t stamp; /* no other piece has the same */
    uint64_t unused;
#endif
} wh_arena_piece;
#define WH_ARENA_HEADER sizeof(wh_arena_piece)
WH_STATIC_ASSERT(sizeof(wh_arena_piece) % 16 == 0, "blocks are 16-byte aligned");

/* One lane's. Keep it in a variable; copies are not arenas of their own. Plain data. */
typedef struct wh_arena {
    uint64_t at, end; /* I1: the next block lies here, if it ends before that */
    uint64_t top;     /* the newest piece; 0: none */
    uint64_t spare;   /* what the last rewind kept; 0: nothing */
    uint32_t piece;   /* bytes of the next piece; 0: the arena is closed */
    uint32_t most;    /* that it will have */
#ifdef WH_HOSTILE
    uint64_t stamp; /* no other arena has the same */
#endif
} wh_arena;

typedef struct wh_warp_arena {
    wh_arena own; /* the same in all lanes of the mask */
    wh_mask mask;
} wh_warp_arena;

/* One block's, in its shared memory: WH_SHARED(wh_block_arena, arena, 1). */
typedef struct wh_block_arena {
    uint64_t word; /* I1: 45 bits: address / 16 of the next block; 19: how many 16 B are left */
    uint64_t top, spare; /* as above */
    uint32_t piece, most;
    uint32_t fetching; /* 1: somebody takes a piece from the heap */
    uint32_t unused;
#ifdef WH_HOSTILE
    uint64_t stamp;
#endif
} wh_block_arena;

/* What a mark says: where an arena was. It holds until the arena is closed, or rewound to a place
 * that was marked before it. Plain data. */
typedef struct wh_arena_place {
    uint64_t at, end, top; /* of a block's arena: word, 0, top */
#ifdef WH_HOSTILE
    uint64_t stamp; /* of the piece at the top, or of the arena if it had none */
#endif
} wh_arena_place;

/* --- what holds of a caller ------------------------------------------------------------------- */

/* A precondition. The hostile build checks it also where assertions are off. */
#ifdef WH_HOSTILE
#define WH_ARENA_RULE_(condition) WH_ASSERT_ON_(condition)
#else
#define WH_ARENA_RULE_(condition) wh_assert(condition)
#endif

WH_FN wh_arena_piece *wh_arena_at_(uint64_t piece) {
    return (wh_arena_piece *)(uintptr_t)piece;
}

/* Whether an arena whose newest piece is top has been at the place (I3). The hostile build goes on
 * in a new piece behind each mark, so that a place belongs to the piece below it, and these have
 * stamps: what it says is exact. */
WH_FN int wh_arena_has_been_(uint64_t top, uint64_t stamp, wh_arena_place place) {
    while (top != 0 && top != place.top) {
        top = wh_arena_at_(top)->below;
    }
#ifdef WH_HOSTILE
    return top == place.top && place.stamp == (top != 0 ? wh_arena_at_(top)->stamp : stamp);
#else
    (void)stamp;
    return top == place.top;
#endif
}

WH_FN int wh_arena_is_place_(const wh_arena *arena, wh_arena_place place) {
    const int same = arena->end == place.end && arena->top == place.top;
#ifdef WH_HOSTILE
    const uint64_t stamp = arena->stamp;
#else
    const uint64_t stamp = 0;
#endif
    return arena->piece != 0 && (!same || place.at <= arena->at) &&
           wh_arena_has_been_(arena->top, stamp, place);
}

#ifdef WH_HOSTILE
/* No two calls of a launch get the same. */
WH_FN uint64_t wh_arena_stamp_(void) {
    return (wh_clock() << 24) + (wh_thread_id() & 0xffffff);
}
#endif

/* --- sizes ------------------------------------------------------------------------------------ */

/* A multiple of 16; 0 for 0, and for what does not fit into 64 bits. */
WH_FN uint64_t wh_arena_round_(size_t n) {
    return WH_PLANT(arena_round, ((uint64_t)n + 15) & ~(uint64_t)15,
                    ((uint64_t)n + 7) & ~(uint64_t)15);
}

/* Bytes to leave out behind `at`, which is a multiple of 16. */
WH_FN uint64_t wh_arena_skip_(uint64_t at, uint64_t align) {
    return align > 16 ? (0 - at) & (align - 1) : 0;
}

/* What a request needs of a piece of its own. */
WH_FN uint64_t wh_arena_need_(uint64_t size, uint64_t align) {
    return WH_ARENA_HEADER + size + (align > 16 ? align - 16 : 0);
}

WH_FN uint32_t wh_arena_bytes_(uint32_t asked, uint32_t own, uint32_t least) {
    const uint32_t bytes = asked != 0 ? asked & ~15u : own;
    const uint32_t most = bytes < WH_ARENA_LARGEST ? bytes : WH_ARENA_LARGEST;
    return most > least ? most : least;
}

/* Of the piece behind one of so many bytes. */
WH_FN uint32_t wh_arena_next_(uint32_t piece, uint32_t most) {
    return WH_PLANT(arena_most, piece > most / 2, 0) ? most : 2 * piece;
}

/* --- pieces ----------------------------------------------------------------------------------- */

/* Whether a piece that is given back is to be the spare: the largest one of at most `most` bytes.
 */
WH_FN int wh_arena_spares_(uint64_t piece, uint64_t spare, uint32_t most) {
    const uint64_t bytes = wh_arena_at_(piece)->bytes;
    return bytes <= most && (spare == 0 || bytes > wh_arena_at_(spare)->bytes);
}

/* Gives back the pieces from top down to stop, which stays; returns the spare, which stays, too.
 * most = 0: the spare goes as well. */
WH_FN_SLOW uint64_t wh_arena_drop_(wh_heap_ref heap, uint64_t top, uint64_t stop, uint64_t spare,
                                   uint32_t most) {
    if (most == 0 && WH_PLANT(arena_close_spare, spare, 0) != 0) {
        wh_arena_at_(spare)->below = top;
        top = spare;
        spare = 0;
    }
    while (top != stop) {
        uint64_t give = top;
        const uint64_t below = wh_arena_at_(top)->below;
        if (wh_arena_spares_(top, spare, most)) {
            give = WH_PLANT(arena_old_spare, spare, 0);
            spare = top;
        }
        top = below;
        if (give != 0) {
            wh_dev_free_(heap, (void *)(uintptr_t)give WH_AT_OWN_);
        }
    }
    return spare;
}

/* The same by all lanes of mask with the same arguments: each of them frees a piece. */
WH_FN_SLOW uint64_t wh_warp_arena_drop_(wh_heap_ref heap, wh_mask mask, uint64_t top, uint64_t stop,
                                        uint64_t spare, uint32_t most) {
    const uint32_t lanes = wh_popc32(mask), rank = wh_mask_rank(mask);
    uint64_t mine = 0;
    uint32_t n = 0;
    if (most == 0 && WH_PLANT(arena_warp_close_spare, spare, 0) != 0) {
        if (rank == 0) {
            wh_arena_at_(spare)->below = top;
        }
        top = spare;
        spare = 0;
    }
    WH_PLANT(arena_p1_free, wh_syncwarp(mask), (void)0); /* P1; and the link is there */
    while (top != stop) {
        uint64_t give = top;
        const uint64_t below = wh_arena_at_(top)->below;
        if (wh_arena_spares_(top, spare, most)) {
            give = WH_PLANT(arena_warp_old_spare, spare, 0);
            spare = top;
        }
        top = below;
        mine = n == rank && give != 0 ? give : mine;
        n += give != 0;
        if (n == lanes || (n != 0 && top == stop)) {
            WH_PLANT(arena_header_read, wh_syncwarp(mask), (void)0); /* all have read what goes */
            WH_OF_(free)(heap, mask, (void *)(uintptr_t)mine);
            mine = 0;
            n = WH_PLANT(arena_turns, 0, n);
        }
    }
    wh_syncwarp(mask);
    return spare;
}

WH_FN void wh_arena_write_(uint64_t piece, uint64_t below, uint64_t bytes) {
    wh_arena_piece *header = wh_arena_at_(piece);
    header->below = below;
    header->bytes = bytes;
#ifdef WH_HOSTILE
    header->stamp = wh_arena_stamp_();
#endif
}

/* An arena, and what it has given; 0: the heap is full. */
typedef struct wh_arena_given {
    wh_arena arena;
    uint64_t p;
} wh_arena_given;

/* `size` bytes in another piece: the spare if it is large enough, else one of the heap, which may
 * have no room for the next piece, but for the request. mask: the lanes that have the arena, which
 * call together; a constant 0: the caller has one of its own. Callers are functions that are not
 * inlined, lest the heap's malloc be there more than once. */
WH_FN wh_arena_given wh_arena_get_(wh_heap_ref heap, wh_mask mask, wh_arena arena, uint64_t size,
                                   uint64_t align) {
    wh_arena_given given;
    const uint64_t need = wh_arena_need_(size, align), top = arena.top;
    uint64_t bytes = need > arena.piece ? need : arena.piece, piece = 0;
    if (arena.spare != 0 &&
        wh_arena_at_(arena.spare)->bytes >= WH_PLANT(arena_spare_fits, need, 0)) {
        piece = arena.spare;
        bytes = wh_arena_at_(piece)->bytes;
        arena.spare = 0;
        if (mask != 0) {
            wh_syncwarp(mask); /* all have read the header */
        }
    } else {
        for (;; bytes = need) {
            piece = (uint64_t)(uintptr_t)(mask == 0 ? wh_dev_malloc_(heap, (size_t)bytes WH_AT_OWN_)
                                                    : wh_dev_malloc_warp_(
                                                          heap, mask, (size_t)bytes WH_AT_OWN_));
            if (piece != 0 || bytes == WH_PLANT(arena_less, need, bytes)) {
                break;
            }
        }
        arena.piece = piece != 0 ? wh_arena_next_(arena.piece, arena.most) : arena.piece;
    }
    given.p = 0;
    if (piece != 0) {
        const uint64_t first = piece + WH_ARENA_HEADER;
        given.p = first + wh_arena_skip_(first, align);
        if (mask == 0 || wh_lane_id() == wh_mask_leader(mask)) {
            wh_arena_write_(piece, WH_PLANT(arena_i3_below, top, 0), bytes);
        }
        if (mask != 0) {
            WH_PLANT(arena_header_there, wh_syncwarp(mask), (void)0);
        }
        arena.top = piece;
        if (piece + bytes - given.p - size > WH_PLANT(arena_room, arena.end - arena.at, 0)) {
            arena.at = given.p + size; /* I1 */
            arena.end = piece + bytes;
        }
    }
    given.arena = arena;
    return given;
}

WH_FN_SLOW wh_arena_given wh_arena_more_(wh_heap_ref heap, wh_arena arena, uint64_t size,
                                         uint64_t align) {
    wh_arena_given none;
    none.arena = arena;
    none.p = 0;
    WH_ARENA_RULE_(arena.piece != 0); /* not closed */
    if (size == 0 || size > WH_ARENA_HUGE || arena.piece == 0) {
        return none;
    }
    return wh_arena_get_(heap, 0, arena, size, align);
}

/* Whether size bytes, not 0 of them, are left where the arena is. */
WH_FN int wh_arena_fits_(const wh_arena *arena, uint64_t size, uint64_t align) {
    const uint64_t skip = wh_arena_skip_(arena->at, align), room = arena->end - arena->at;
    return skip <= room && size - 1 < WH_PLANT(arena_fits, room - skip, room - skip + 16);
}

/* Takes what fits. */
WH_FN uint64_t wh_arena_bump_(wh_arena *arena, uint64_t size, uint64_t align) {
    const uint64_t p = arena->at + wh_arena_skip_(arena->at, align);
    arena->at = p + WH_PLANT(arena_i1_bump, size, size - 16); /* I1 */
    return p;
}

WH_FN void *wh_arena_take_(wh_heap_ref heap, wh_arena *arena, size_t n, uint64_t align) {
    const uint64_t size = wh_arena_round_(n);
    if (wh_arena_fits_(arena, size, align)) {
        return (void *)(uintptr_t)wh_arena_bump_(arena, size, align);
    }
    const wh_arena_given given = wh_arena_more_(heap, *arena, size, align);
    *arena = given.arena;
    return (void *)(uintptr_t)given.p;
}

WH_FN wh_arena wh_arena_make_(uint32_t piece, uint32_t most, uint64_t stamp) {
    wh_arena arena;
    arena.at = arena.end = arena.top = arena.spare = 0;
    arena.piece = piece;
    arena.most = most;
#ifdef WH_HOSTILE
    arena.stamp = stamp;
#else
    (void)stamp;
#endif
    return arena;
}

#include "warpheap/detail/simt/end.h"

#endif
