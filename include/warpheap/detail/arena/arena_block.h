/* arena/arena_block.h: a block's arena in shared memory: its word, its malloc, and its view between
 * barriers. Fields, invariants, pairs and progress: arena.h. Internal: may change. */
#ifndef WH_DETAIL_ARENA_BLOCK_H
#define WH_DETAIL_ARENA_BLOCK_H

#include "warpheap/detail/arena/arena_shares.h"

#include "warpheap/detail/simt/begin.h"

#define WH_BLOCK_ARENA_AT 45u /* bits of word for the address */

WH_FN uint64_t wh_block_arena_address_(uint64_t word) {
    return (word << (64 - WH_BLOCK_ARENA_AT)) >> (64 - WH_BLOCK_ARENA_AT) << 4;
}

/* An address that has no room in word says that nothing is left there. */
WH_FN uint64_t wh_block_arena_word_(uint64_t at, uint64_t units) {
    wh_assert_internal(units >> (64 - WH_BLOCK_ARENA_AT) == 0 && at % 16 == 0);
    return at >> (WH_BLOCK_ARENA_AT + 4) == 0 ? at >> 4 | units << WH_BLOCK_ARENA_AT : 0;
}

/* The word after `size` bytes have been taken; 0: there are not so many. */
WH_FN uint64_t wh_block_arena_after_(uint64_t word, uint64_t size, uint64_t align) {
    const uint64_t units = (size + wh_arena_skip_(wh_block_arena_address_(word), align)) / 16;
    const uint64_t left = word >> WH_BLOCK_ARENA_AT;
    return units <= WH_PLANT(arena_word_fits, left, left + 1)
               ? word + units - (units << WH_BLOCK_ARENA_AT)
               : 0;
}

/* What the first lane of mask sees of shared words, for all of them. */
WH_FN uint64_t wh_block_arena_load_(const uint64_t *word, wh_mask mask) {
    const uint32_t leader = wh_mask_leader(mask);
    return wh_shfl_u64(mask, wh_lane_id() == leader ? wh_shared_load_u64(word) : 0, leader);
}

/* Whether word went from old to next. */
WH_FN int wh_block_arena_swap_(wh_block_arena *arena, wh_mask mask, uint64_t old, uint64_t next) {
    const uint32_t leader = wh_mask_leader(mask);
    uint64_t seen = old;
    if (wh_lane_id() == leader) {
        seen = wh_shared_cas_u64_acq_rel(&arena->word, old, next); /* P2, I1 */
    }
    return wh_shfl_u64(mask, seen, leader) == old;
}

/* `size` bytes of those that word has for the lanes of mask, or 0. One lane takes them: its cas
 * fails only if another warp's has succeeded, and then it tries again with what that has left. */
WH_FN uint64_t wh_block_arena_claim_(wh_block_arena *arena, wh_mask mask, uint64_t size,
                                     uint64_t align) {
    const uint32_t leader = wh_mask_leader(mask);
    uint64_t p = 0;
    if (wh_lane_id() == leader) {
        uint64_t word = wh_shared_load_u64(&arena->word), next;
        while ((next = wh_block_arena_after_(word, size, align)) != 0) {
            const uint64_t seen = WH_PLANT(arena_p2_word, wh_shared_cas_u64_acq_rel,
                                           wh_shared_cas_u64)(&arena->word, word, next); /* P2 */
            if (WH_PLANT(arena_i1_lost, seen == word, 1)) {                              /* I1 */
                p = wh_block_arena_address_(next) - size;
                break;
            }
            word = seen;
        }
    }
    p = wh_shfl_u64(mask, p, leader);
    WH_PLANT(arena_p2_lanes, wh_syncwarp(mask), (void)0); /* P2 */
    return p;
}

/* Puts a piece on the list. Only barriers lead from there to who reads it. */
WH_FN void wh_block_arena_push_(wh_block_arena *arena, wh_mask mask, uint64_t piece) {
    const uint32_t leader = wh_mask_leader(mask);
    for (;;) { /* ends when no other warp comes in between */
        const uint64_t top = wh_block_arena_load_(&arena->top, mask);
        uint64_t seen = top;
        if (wh_lane_id() == leader) {
            wh_arena_at_(piece)->below = top;
            seen = wh_shared_cas_u64(&arena->top, top, piece);
        }
        if (WH_PLANT(arena_push, wh_shfl_u64(mask, seen, leader), top) == top) {
            return;
        }
    }
}

/* A piece in the hand of the lanes of mask. */
typedef struct wh_arena_hand {
    uint64_t piece, bytes;
} wh_arena_hand;

/* The spare, or one from the heap, as wh_arena_get_ takes it; piece = 0: the heap is full. */
WH_FN wh_arena_hand wh_block_arena_fetch_(wh_heap_ref heap, wh_block_arena *arena, wh_mask mask,
                                          uint64_t need) {
    const uint32_t leader = wh_mask_leader(mask);
    const int leads = wh_lane_id() == leader;
    uint32_t next = leads ? wh_shared_load_u32(&arena->piece) : 0;
    uint64_t spare = leads ? wh_shared_load_u64(&arena->spare) : 0;
    wh_arena_hand hand;
    hand.bytes = 0;
    if (spare != 0 && wh_shared_cas_u64_acq_rel(&arena->spare, spare, 0) == spare) { /* P4 */
        hand.bytes = wh_arena_at_(spare)->bytes;
        if (hand.bytes < need) {
            (void)WH_PLANT(arena_p4_back, wh_shared_cas_u64_acq_rel, wh_shared_cas_u64)(
                &arena->spare, 0, WH_PLANT(arena_spare_back, spare, 0)); /* P4 */
        }
    }
    spare = hand.bytes >= need ? spare : 0;
    hand.piece = wh_shfl_u64(mask, spare, leader);
    hand.bytes = wh_shfl_u64(mask, hand.bytes, leader);
    next = wh_shfl_u32(mask, next, leader);
    if (hand.piece == 0) {
        for (hand.bytes = need > next ? need : next;; hand.bytes = need) {
            hand.piece =
                (uint64_t)(uintptr_t)wh_dev_malloc_warp_(heap, mask, (size_t)hand.bytes WH_AT_OWN_);
            if (hand.piece != 0 || hand.bytes == need) {
                break;
            }
        }
        if (hand.piece != 0 && leads) {
            (void)wh_shared_fetch_max_u32(&arena->piece, wh_arena_next_(next, arena->most));
        }
    }
    if (hand.piece != 0 && leads) {
        wh_arena_write_(hand.piece, 0, hand.bytes);
    }
    return hand;
}

/* Whether the lanes of mask are to take a piece from the heap: nobody else does. */
WH_FN int wh_block_arena_may_fetch_(wh_block_arena *arena, wh_mask mask) {
    const uint32_t leader = wh_mask_leader(mask);
    uint32_t seen = 0;
    if (wh_lane_id() == leader) {
        seen = wh_shared_exchange_u32(&arena->fetching, 1);
    }
    return wh_shfl_u32(mask, seen, leader) == 0;
}

/* `size` bytes for the lanes of mask; 0: the heap is full. See Progress at the head of arena.h. */
WH_FN uint64_t wh_block_arena_get_(wh_heap_ref heap, wh_block_arena *arena, wh_mask mask,
                                   uint64_t size, uint64_t align) {
    wh_arena_hand hand;
    uint64_t p = 0;
    uint32_t waits = 0;
    int fetches = 0;
    hand.piece = hand.bytes = 0;
    while ((p = wh_block_arena_claim_(arena, mask, size, align)) == 0) {
        if (hand.piece == 0) {
            if (!fetches && waits < WH_ARENA_WAITS) {
                fetches = wh_block_arena_may_fetch_(arena, mask);
                if (!fetches) {
                    wh_backoff(waits++);
                }
                continue; /* who fetched before may have brought one since */
            }
            hand = wh_block_arena_fetch_(heap, arena, mask, wh_arena_need_(size, align));
            if (hand.piece == 0) {
                break;
            }
            continue; /* as above */
        }
        const uint64_t word = wh_block_arena_load_(&arena->word, mask);
        const uint64_t first = hand.piece + WH_ARENA_HEADER;
        const uint64_t at = first + wh_arena_skip_(first, align);
        const uint64_t left = (hand.piece + hand.bytes - at - size) / 16;
        const uint64_t fresh = wh_block_arena_word_(at + size, left);
        const int more = fresh >> WH_BLOCK_ARENA_AT > word >> WH_BLOCK_ARENA_AT;
        if (!more || wh_block_arena_swap_(arena, mask, word, fresh)) {
            wh_block_arena_push_(arena, mask, hand.piece);
            wh_syncwarp(mask); /* P2: of what the leader's malloc acquired */
            hand.piece = 0;
            p = at;
            break;
        }
    }
    if (fetches && wh_lane_id() == wh_mask_leader(mask)) {
        (void)wh_shared_exchange_u32(&arena->fetching, 0);
    }
    if (WH_PLANT(arena_hand, hand.piece, 0) != 0) { /* I2: another piece has had room */
        (void)wh_warp_arena_drop_(heap, mask, 0, 0, hand.piece, 0);
    }
    return p;
}

WH_FN_SLOW uint64_t wh_block_arena_more_(wh_heap_ref heap, wh_block_arena *arena, wh_mask mask,
                                         uint64_t size, uint64_t align) {
    const uint32_t leader = wh_mask_leader(mask);
    const wh_arena_share share = wh_arena_share_of_(mask, size, align);
    wh_arena_turn turn = wh_arena_turns_(mask, size, share);
    uint64_t mine = 0;
    const int is_open =
        wh_shfl_u32(mask, wh_lane_id() == leader ? wh_shared_load_u32(&arena->piece) : 0, leader) !=
        0;
    WH_ARENA_RULE_(is_open);
    while (turn.left != 0 && is_open) {
        turn = wh_arena_next_turn_(mask, size, share, turn);
        const uint64_t p = wh_block_arena_get_(heap, arena, mask, turn.size, align);
        turn = wh_arena_end_turn_(turn, share, p, &mine);
    }
    return mine;
}

/* Those of the lanes of mask that have the caller's key: lanes that are here together may have come
 * with other arenas, or other alignments. */
WH_FN wh_mask wh_block_arena_mates_(wh_mask mask, uint32_t key) {
    const int alike =
        mask != WH_FULL_WARP && wh_all(mask, wh_shfl_u32(mask, key, wh_mask_leader(mask)) == key);
    return alike ? mask : WH_PLANT(arena_mates, wh_match_any_u32(mask, key), mask);
}

WH_FN void *wh_block_arena_take_(wh_heap_ref heap, wh_block_arena *arena, wh_mask here, size_t n,
                                 uint64_t align) {
    const wh_mask mask = wh_block_arena_mates_(here, (uint32_t)(uintptr_t)arena);
    const uint64_t size = wh_arena_round_(n);
    const wh_arena_share share = wh_arena_share_of_(mask, size, align);
    const uint64_t p = wh_block_arena_claim_(arena, mask, (uint64_t)share.all * 16, align);
    if (p != 0) {
        return size != 0 ? (void *)(uintptr_t)(p + (uint64_t)share.before * 16) : NULL;
    }
    return (void *)(uintptr_t)wh_block_arena_more_(heap, arena, mask, size, align);
}

/* Between barriers an arena of a block is one of its first warp. */
WH_FN wh_arena wh_block_arena_view_(const wh_block_arena *arena) {
#ifdef WH_HOSTILE
    wh_arena own = wh_arena_make_(arena->piece, arena->most, arena->stamp);
#else
    wh_arena own = wh_arena_make_(arena->piece, arena->most, 0);
#endif
    own.at = wh_block_arena_address_(arena->word);
    own.end = own.at + (arena->word >> WH_BLOCK_ARENA_AT) * 16;
    own.top = arena->top;
    own.spare = arena->spare;
    return own;
}

/* By the first warp; the first thread writes. All have read the arena, with a wh_syncwarp since. */
WH_FN void wh_block_arena_keep_(wh_block_arena *arena, wh_arena own) {
    if (wh_thread_in_block() == 0) {
        arena->word = wh_block_arena_word_(own.at, (own.end - own.at) / 16);
        arena->top = own.top;
        arena->spare = own.spare;
        arena->piece = own.piece;
        arena->most = own.most;
        arena->fetching = 0;
        arena->unused = 0;
#ifdef WH_HOSTILE
        arena->stamp = own.stamp;
#endif
    }
}

WH_FN_SLOW wh_arena wh_block_arena_first_(wh_heap_ref heap, wh_mask mask, wh_arena own) {
    return wh_arena_get_(heap, mask, own, 0, 16).arena;
}

#include "warpheap/detail/simt/end.h"

#endif
