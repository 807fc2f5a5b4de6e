/* arena/arena_shares.h: lanes that call together: what each gets of what all take; a warp's malloc.
 * Fields, invariants and pairs: arena.h. Internal: may change. */
#ifndef WH_DETAIL_ARENA_SHARES_H
#define WH_DETAIL_ARENA_SHARES_H

#include "warpheap/detail/arena/arena_pieces.h"

#include "warpheap/detail/simt/begin.h"

/* --- shares of lanes that call together ------------------------------------------------------- */

#define WH_ARENA_UNITS (1u << 26) /* of 16 bytes; a lane that wants more is served alone */

/* The sum of v over the lanes of mask up to the caller. */
WH_FN_SLOW uint32_t wh_arena_scan_part_(wh_mask mask, uint32_t v) {
    const uint32_t lane = wh_lane_id();
    const wh_mask under = mask & wh_lanemask_lt();
    uint32_t next = under != 0 ? wh_msb32(under) : WH_WARP_SIZE; /* reaches the lanes below */
    for (uint32_t reach = 1; reach < WH_WARP_SIZE; reach *= 2) {
        const int is = next < WH_WARP_SIZE;
        const uint32_t from = is ? next : lane;
        const uint32_t sum = wh_shfl_u32(mask, v, from), far = wh_shfl_u32(mask, next, from);
        v += is ? sum : 0;
        next = far;
    }
    return v;
}

/* In units of 16 bytes: what comes before the caller's, the caller's, and all. */
typedef struct wh_arena_share {
    uint32_t before, own, all;
} wh_arena_share;

WH_FN wh_arena_share wh_arena_share_of_(wh_mask mask, uint64_t size, uint64_t align) {
    const uint64_t bytes = size < WH_ARENA_HUGE ? size : WH_ARENA_HUGE;
    const uint64_t units = (align > 16 ? (bytes + (align - 1)) & ~(align - 1) : bytes) / 16;
    wh_arena_share s;
    s.own = units < WH_ARENA_UNITS ? (uint32_t)units : WH_ARENA_UNITS;
    const uint32_t upto =
        mask == WH_FULL_WARP ? wh_scan_add_warp_u32(s.own) : wh_arena_scan_part_(mask, s.own);
    s.before = WH_PLANT(arena_before, upto - s.own, upto);
    s.all = wh_shfl_u32(mask, upto, wh_msb32(mask));
    return s;
}

/* Lanes that found too little room are served in turns: all at once, or one after the other if the
 * heap has not enough for all. */
typedef struct wh_arena_turn {
    wh_mask left;  /* lanes that wait */
    wh_mask lanes; /* whose turn it is */
    uint64_t size; /* what they want */
    int together;
} wh_arena_turn;

WH_FN wh_arena_turn wh_arena_turns_(wh_mask mask, uint64_t size, wh_arena_share share) {
    wh_arena_turn turn;
    turn.left = wh_ballot(mask, size != 0 && size <= WH_ARENA_HUGE);
    turn.lanes = 0;
    turn.size = 0;
    turn.together = share.all < WH_ARENA_UNITS;
    return turn;
}

WH_FN wh_arena_turn wh_arena_next_turn_(wh_mask mask, uint64_t size, wh_arena_share share,
                                        wh_arena_turn turn) {
    const uint32_t lane = wh_mask_leader(turn.left);
    turn.lanes = turn.together ? turn.left : 1u << lane;
    turn.size = turn.together ? (uint64_t)share.all * 16 : wh_shfl_u64(mask, size, lane);
    return turn;
}

/* After the turn, which got p. *mine: the caller's block, if it has been its turn. */
WH_FN wh_arena_turn wh_arena_end_turn_(wh_arena_turn turn, wh_arena_share share, uint64_t p,
                                       uint64_t *mine) {
    if (p == 0 && turn.together && wh_popc32(turn.left) > 1) {
        turn.together = WH_PLANT(arena_alone, 0, 1);
        turn.left = WH_PLANT(arena_alone, turn.left, 0);
        return turn;
    }
    if (p != 0 && (turn.lanes >> wh_lane_id() & 1) != 0) {
        *mine = p + (turn.together ? (uint64_t)share.before * 16 : 0);
    }
    turn.left &= ~turn.lanes;
    return turn;
}

/* --- a warp's malloc ----------------------------------------------------------------------------
 */

WH_FN_SLOW wh_arena_given wh_warp_arena_more_(wh_heap_ref heap, wh_mask mask, wh_arena arena,
                                              uint64_t size, uint64_t align) {
    const wh_arena_share share = wh_arena_share_of_(mask, size, align);
    wh_arena_turn turn = wh_arena_turns_(mask, size, share);
    wh_arena_given given;
    uint64_t mine = 0;
    given.arena = arena;
    WH_ARENA_RULE_(arena.piece != 0); /* not closed */
    while (turn.left != 0 && arena.piece != 0) {
        turn = wh_arena_next_turn_(mask, size, share, turn);
        if (wh_arena_fits_(&given.arena, turn.size, align)) {
            given.p = wh_arena_bump_(&given.arena, turn.size, align);
        } else {
            given = wh_arena_get_(heap, mask, given.arena, turn.size, align);
        }
        turn = wh_arena_end_turn_(turn, share, given.p, &mine);
    }
    given.p = mine;
    return given;
}

/* Whether the lanes of an arena, all of which call, have the same one. */
WH_FN int wh_warp_arena_agrees_(const wh_warp_arena *arena) {
    const wh_arena *own = &arena->own;
    const uint32_t leader = wh_mask_leader(arena->mask);
    const uint64_t sum = own->at ^ own->end << 1 ^ own->top << 2 ^ own->spare << 3 ^ own->piece;
    return (arena->mask >> wh_lane_id() & 1) != 0 && wh_shfl_u64(arena->mask, sum, leader) == sum;
}

WH_FN void *wh_warp_arena_take_(wh_heap_ref heap, wh_warp_arena *arena, size_t n, uint64_t align) {
    const uint64_t size = wh_arena_round_(n);
    wh_assert_expensive(wh_warp_arena_agrees_(arena));
    const wh_arena_share share = wh_arena_share_of_(arena->mask, size, align);
    const uint64_t all = (uint64_t)share.all * 16;
    if (wh_arena_fits_(&arena->own, all, align)) {
        const uint64_t p = wh_arena_bump_(&arena->own, all, align);
        return size != 0 ? (void *)(uintptr_t)(p + (uint64_t)share.before * 16) : NULL;
    }
    const wh_arena_given given = wh_warp_arena_more_(heap, arena->mask, arena->own, size, align);
    arena->own = given.arena;
    return (void *)(uintptr_t)given.p;
}

WH_FN wh_arena wh_warp_arena_back_(wh_heap_ref heap, wh_mask mask, wh_arena own,
                                   wh_arena_place place) {
    WH_ARENA_RULE_(wh_arena_is_place_(&own, place));
    if (own.top != place.top) {
        own.spare = wh_warp_arena_drop_(heap, mask, own.top, place.top, own.spare, own.most);
    } else {
        WH_PLANT(arena_p1_rewind, wh_syncwarp(mask), (void)0); /* P1 */
    }
    own.at = place.at;
    own.end = place.end;
    own.top = place.top;
    return own;
}

#include "warpheap/detail/simt/end.h"

#endif
