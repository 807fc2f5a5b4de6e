/* arena.h: arenas: memory of a heap that dies together. For a lane, a warp or a block.
 *
 *     wh_arena arena = wh_arena_open(0, 0);
 *     const wh_arena_place start = wh_arena_mark(&arena);
 *     for (int i = first; i < end; i++) {
 *         int *list = (int *)wh_arena_malloc(heap, &arena, n[i] * sizeof *list);
 *         ...                                           // NULL: the heap is full
 *         wh_arena_rewind(heap, &arena, start);         // all blocks since the mark are gone
 *     }
 *     wh_arena_close(heap, &arena);                     // everything goes back to the heap
 *
 * docs/ARENA.md tells how to use them. The calls are device functions; they work with heaps of the
 * file's WH_ALLOCATOR, of which one without free (bump) gets nothing back.
 *
 *   wh_arena         one lane's. A small struct in its registers, and no atomics
 *   wh_warp_arena    the same struct in each lane of a warp, or of a part of one: they make each
 *                    call together, and a malloc gives each lane a block of its own size
 *   wh_block_arena   in shared memory: any lanes of the block allocate, whenever they like; mark,
 *                    rewind and close are calls of all threads
 *
 * An arena takes pieces from the heap and hands out their bytes one after the other. A block has no
 * header. A piece has one of 16 bytes, and is twice as large as the piece before, up to a limit. A
 * request that the next piece could not hold has a piece of its own size. The arena goes on in
 * whichever piece has more room left. The heap gets each piece back by one free.
 *
 * Fields  piece.below, .bytes: written by one lane before others read them (P1 to P4)
 *         an arena of a lane or a warp: its lanes' own copies
 *         block.word: where the next block lies, and how much is left there. Any lane, by cas;
 *         between barriers the first thread
 *         block.top, .spare, .piece, .fetching: any lane, by atomics; between barriers likewise
 * I1      [at, end) lies in a piece of the arena behind all blocks in it; it shrinks, or moves to a
 *         new piece. So blocks are disjoint. A block's word is at and end in one
 * I2      a piece is on the list from top, or the spare, or in the hand of a lane that puts it on
 *         the list or gives it back
 * I3      pieces that were on the list when a place was marked lie below all that came later, in
 *         the same order: a rewind takes off just the later ones
 * P1      warp: what a user did before a rewind or close -> the lanes' next use, or the free:
 *         wh_syncwarp. A header, from who wrote it to the lanes that read it: likewise
 * P2      block: who puts a piece into word has what its malloc acquired: cas, acq_rel -> who takes
 *         bytes: cas, acq_rel, then wh_syncwarp
 * P3      block: all uses before a rewind or close -> what comes after: barriers in both
 * P4      block: who looked at the spare and puts it back -> who takes it: cas of spare, acq_rel
 * Progress   a lane or a warp waits for nobody. In a block who finds too little room takes a piece
 *         from the heap. If somebody does so already, he looks again WH_ARENA_WAITS times, half a
 *         millisecond, and then takes one, too; one that is not needed any more goes back at once.
 *         A cas of word fails only if another one has succeeded. So nobody waits without end for a
 *         lane that does not run
 * Cost    malloc where there is room: docs/ARENA.md; a new piece: a malloc of the heap; close: a
 *         free of the heap and a load for each piece
 * Source  D. Hanson, "Fast allocation and deallocation of memory based on object lifetimes", 1990;
 *         marks as in obstacks of the GNU C library
 * Check   tests/arena, tests/fault/arena
 */
#ifndef WH_ARENA_H
#define WH_ARENA_H

#include "warpheap/detail/arena/arena_block.h"
#include "warpheap/detail/arena/arena_pieces.h"
#include "warpheap/detail/arena/arena_shares.h"
#include "warpheap/warpheap.h"

#include "warpheap/detail/simt/begin.h"

/* --- one lane's arena ------------------------------------------------------------------------- */

/* An arena whose first piece has `first` bytes, and its largest `most`, header included: from 64 B
 * to 4 MiB; 0: the defaults, 512 B and 16 KiB. Other numbers are cut to these. It takes nothing
 * from the heap so far. Lanes: any, each for itself. */
WH_FN wh_arena wh_arena_open(uint32_t first, uint32_t most) {
    const uint32_t piece = wh_arena_bytes_(first, WH_ARENA_FIRST, WH_ARENA_LEAST);
#ifdef WH_HOSTILE
    const uint64_t stamp = wh_arena_stamp_();
#else
    const uint64_t stamp = 0;
#endif
    return wh_arena_make_(piece, wh_arena_bytes_(most, WH_ARENA_MOST, piece), stamp);
}

/* At least n bytes, 16-byte aligned, that nobody else has; NULL for n = 0, and when the heap has no
 * piece of n + 16 bytes, beside the spare (wh_arena_rewind). After a NULL the arena is as usable as
 * before. Any lanes call, together or not, each with its own arena; a heap that the arena has
 * pieces of must be the same one in all its calls. Contents: undefined. wh_free must not get such a
 * block. WH_ON_OOM is not told. Cost: some instructions; where there is no room, a malloc. */
WH_FN void *wh_arena_malloc(wh_heap_ref heap, wh_arena *arena, size_t n) {
    return wh_arena_take_(heap, arena, n, 16);
}

/* The same at a multiple of align: a power of two up to that of wh_aligned_alloc. NULL for another
 * one. */
WH_FN void *wh_arena_aligned_alloc(wh_heap_ref heap, wh_arena *arena, size_t align, size_t n) {
    return wh_can_align_(align) ? wh_arena_take_(heap, arena, n, align) : NULL;
}

/* Where the arena is, for a rewind. No cost. */
WH_FN wh_arena_place wh_arena_mark(wh_arena *arena) {
    wh_arena_place place;
    WH_ARENA_RULE_(arena->piece != 0);
#ifdef WH_HOSTILE
    arena->at = arena->end;
    place.stamp = arena->top != 0 ? wh_arena_at_(arena->top)->stamp : arena->stamp;
#endif
    place.at = arena->at;
    place.end = arena->end;
    place.top = arena->top;
    return place;
}

/* All blocks since the mark are gone. The place holds on, for further rewinds; places that were
 * marked since do not. Pieces taken since then go back to the heap, one free each, but for the
 * largest one of at most `most` bytes: the arena keeps it, and it is the next new piece if the
 * request fits into it. So a loop that rewinds for each item soon asks the heap for nothing. A
 * place of another arena, or one that does not hold any more, is a mistake: assertions find most of
 * these, the hostile build all. Cost: none if there are no such pieces. */
WH_FN void wh_arena_rewind(wh_heap_ref heap, wh_arena *arena, wh_arena_place place) {
    WH_ARENA_RULE_(wh_arena_is_place_(arena, place));
    if (arena->top != place.top) {
        arena->spare = wh_arena_drop_(heap, arena->top, place.top, arena->spare, arena->most);
    }
    arena->at = WH_PLANT(arena_rewind_at, place.at, place.end);
    arena->end = place.end;
    arena->top = place.top;
}

/* All blocks are gone; every piece goes back to the heap. No other call may follow but
 * wh_arena_open. An arena that is not closed leaks its pieces: the heap's statistics have them as
 * live blocks. */
WH_FN void wh_arena_close(wh_heap_ref heap, wh_arena *arena) {
    WH_ARENA_RULE_(arena->piece != 0);
    if ((arena->top | arena->spare) != 0) {
        (void)wh_arena_drop_(heap, arena->top, 0, arena->spare, 0);
    }
    *arena = wh_arena_make_(0, 0, 0);
}

/* --- a warp's arena --------------------------------------------------------------------------- */

/* An arena of the lanes of mask, which make this and all other calls on it together. Each keeps a
 * copy. first, most: as wh_arena_open; the defaults are 4 KiB and 64 KiB. */
WH_FN wh_warp_arena wh_warp_arena_open(wh_mask mask, uint32_t first, uint32_t most) {
    const uint32_t piece = wh_arena_bytes_(first, WH_WARP_ARENA_FIRST, WH_ARENA_LEAST);
    wh_warp_arena arena;
    wh_assert((mask >> wh_lane_id() & 1) != 0);
#ifdef WH_HOSTILE
    const uint64_t stamp = wh_shfl_u64(mask, wh_arena_stamp_(), wh_mask_leader(mask));
#else
    const uint64_t stamp = 0;
#endif
    arena.own = wh_arena_make_(piece, wh_arena_bytes_(most, WH_WARP_ARENA_MOST, piece), stamp);
    arena.mask = mask;
    return arena;
}

/* A block of n bytes for each lane, each with its own n, as wh_arena_malloc; a lane that needs none
 * passes 0 and gets NULL. The blocks of a call lie side by side in the order of the lanes, if one
 * piece has room for all. If not all can be served, those are that can. All lanes of the arena's
 * mask. Cost: a scan and a shuffle; where there is no room, a malloc. */
WH_FN void *wh_warp_arena_malloc(wh_heap_ref heap, wh_warp_arena *arena, size_t n) {
    return wh_warp_arena_take_(heap, arena, n, 16);
}

/* The same at multiples of align, which is the same in all lanes. Each block takes a multiple of
 * align. */
WH_FN void *wh_warp_arena_aligned_alloc(wh_heap_ref heap, wh_warp_arena *arena, size_t align,
                                        size_t n) {
    return wh_can_align_(align) ? wh_warp_arena_take_(heap, arena, n, align) : NULL;
}

/* These three are as for a lane. All lanes of the arena's mask, with the same place. */
WH_FN wh_arena_place wh_warp_arena_mark(wh_warp_arena *arena) {
    wh_assert_expensive(wh_warp_arena_agrees_(arena));
    return wh_arena_mark(&arena->own);
}

WH_FN void wh_warp_arena_rewind(wh_heap_ref heap, wh_warp_arena *arena, wh_arena_place place) {
    wh_assert_expensive(wh_warp_arena_agrees_(arena));
    arena->own = wh_warp_arena_back_(heap, arena->mask, arena->own, place);
}

WH_FN void wh_warp_arena_close(wh_heap_ref heap, wh_warp_arena *arena) {
    wh_assert_expensive(wh_warp_arena_agrees_(arena));
    WH_ARENA_RULE_(arena->own.piece != 0);
    if ((arena->own.top | arena->own.spare) != 0) {
        (void)wh_warp_arena_drop_(heap, arena->mask, arena->own.top, 0, arena->own.spare, 0);
    }
    arena->own = wh_arena_make_(0, 0, 0);
}

/* --- a block's arena -------------------------------------------------------------------------- */

/* Opens an arena in shared memory, WH_SHARED(wh_block_arena, arena, 1) or a part of wh_shared(),
 * and takes its first piece; if the heap has none, a later call does. first, most: as
 * wh_arena_open; the defaults are 16 KiB and 256 KiB. All threads of the block, also if some will
 * not use it. Cost: a malloc of the heap and a barrier. */
WH_FN void wh_block_arena_open(wh_heap_ref heap, wh_block_arena *arena, uint32_t first,
                               uint32_t most) {
    const uint32_t piece = wh_arena_bytes_(first, WH_BLOCK_ARENA_FIRST, WH_ARENA_LEAST);
    most = wh_arena_bytes_(most, WH_BLOCK_ARENA_MOST, piece);
    if (wh_in_first_warp_()) {
        const wh_mask mask = wh_first_warp_();
#ifdef WH_HOSTILE
        const uint64_t stamp = wh_shfl_u64(mask, wh_arena_stamp_(), 0);
#else
        const uint64_t stamp = 0;
#endif
        const wh_arena own = wh_arena_make_(piece, most, stamp);
        wh_block_arena_keep_(arena, wh_block_arena_first_(heap, mask, own));
    }
    WH_PLANT(arena_p3_open, wh_syncthreads(), (void)0);
}

/* As wh_arena_malloc, in an arena that the block shares: any lanes of the block, in whatever order
 * and number, but not while others make one of the calls below. Lanes that are here together get
 * their blocks by one atomic. Cost: a scan, two shuffles and an atomic of shared memory. */
WH_FN void *wh_block_arena_malloc(wh_heap_ref heap, wh_block_arena *arena, size_t n) {
    return wh_block_arena_take_(heap, arena, wh_activemask(), n, 16);
}

/* The same at a multiple of align; each block takes a multiple of align. Lanes with the same align
 * get their blocks together. */
WH_FN void *wh_block_arena_aligned_alloc(wh_heap_ref heap, wh_block_arena *arena, size_t align,
                                         size_t n) {
    if (!wh_can_align_(align)) {
        return NULL;
    }
    const wh_mask mask = wh_block_arena_mates_(wh_activemask(), (uint32_t)align);
    return wh_block_arena_take_(heap, arena, mask, n, align);
}

/* These three are as for a lane. All threads of the block, with the same place. Cost: two barriers
 * more. */
WH_FN wh_arena_place wh_block_arena_mark(wh_block_arena *arena) {
    wh_syncthreads();
    wh_arena own = wh_block_arena_view_(arena);
    const wh_arena_place place = wh_arena_mark(&own);
    wh_syncthreads(); /* all have read it */
#ifdef WH_HOSTILE
    if (wh_thread_in_block() == 0) {
        arena->word = wh_block_arena_word_(own.at, 0);
    }
    wh_syncthreads();
#endif
    return place;
}

WH_FN void wh_block_arena_rewind(wh_heap_ref heap, wh_block_arena *arena, wh_arena_place place) {
    WH_PLANT(arena_p3_before, wh_syncthreads(), (void)0); /* P3 */
    if (wh_in_first_warp_()) {
        const wh_mask mask = wh_first_warp_();
        const wh_arena own = wh_block_arena_view_(arena);
        wh_block_arena_keep_(arena, wh_warp_arena_back_(heap, mask, own, place));
    }
    WH_PLANT(arena_p3_after, wh_syncthreads(), (void)0); /* P3 */
}

WH_FN void wh_block_arena_close(wh_heap_ref heap, wh_block_arena *arena) {
    WH_PLANT(arena_p3_close, wh_syncthreads(), (void)0); /* P3 */
    if (wh_in_first_warp_()) {
        const wh_mask mask = wh_first_warp_();
        const wh_arena own = wh_block_arena_view_(arena);
        WH_ARENA_RULE_(own.piece != 0);
        (void)wh_warp_arena_drop_(heap, mask, own.top, 0, own.spare, 0);
        wh_block_arena_keep_(arena, wh_arena_make_(0, 0, 0));
    }
    wh_syncthreads();
}

#include "warpheap/detail/simt/end.h"

#endif
