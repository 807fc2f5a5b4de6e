/* players.h: kernels that do with arenas what a script says, for model.c, which writes the script
 * and knows what must come out. One kernel for each scope. Also for gpu/arena.cu. */
#ifndef TESTS_ARENA_PLAYERS_H
#define TESTS_ARENA_PLAYERS_H

#include "warpheap/arena.h"

/* Whose the arenas are. HALF: of the lanes with even and with odd numbers of each warp. */
typedef enum scope { LANE, WARP, HALF, BLOCK } scope;
#define N_SCOPES 4u

enum { MOST_MARKS = 6, MALLOCS = 3 /* of a thread in a round */ };

/* What the arenas do after the mallocs of a round: the kind, and which mark << 8. */
enum { OP_NONE, OP_MARK, OP_REWIND, OP_CLOSE, OP_KINDS };

/* A malloc: size 0 is none, in the scopes in which lanes may stay away. */
typedef struct request {
    uint64_t size;
    uint32_t align; /* 0: the plain call */
    uint32_t tag;   /* what the block is filled with */
} request;

typedef struct player {
    wh_arena lane;
    wh_warp_arena warp;
    wh_arena_place places[MOST_MARKS];
    uint32_t marks;
} player;

typedef struct play_args {
    wh_heap_ref heap;
    uint32_t scope, rounds, first, most;
    uint32_t begins, ends; /* whether the arenas are opened before the first round, closed after */
    player *players;       /* of each thread */
    wh_block_arena *blocks;
    const request *asks; /* [round][malloc][thread] */
    const uint32_t *ops; /* [round][thread], the same for all threads of an arena */
    void **got;          /* as asks */
    uint32_t *wrong;     /* blocks that are not aligned, or were written by others in the round */
} play_args;

WH_FN unsigned char byte_of(uint32_t tag, uint64_t i) {
    return (unsigned char)((tag >> i % 4 * 8) ^ (i >> 2) * 29);
}

/* Blocks without end are looked at in their first bytes and their last. */
WH_FN uint64_t next_byte(uint64_t i, uint64_t size) {
    return i == 255 && size > 512 ? size - 256 : i + 1;
}
WH_FN void fill_block(void *p, request r) {
    for (uint64_t i = 0; i < r.size; i = next_byte(i, r.size)) {
        ((unsigned char *)p)[i] = byte_of(r.tag, i);
    }
}
WH_FN int is_filled(const void *p, request r) {
    uint32_t differ = 0;
    for (uint64_t i = 0; i < r.size; i = next_byte(i, r.size)) {
        differ |= ((const unsigned char *)p)[i] ^ byte_of(r.tag, i);
    }
    return differ == 0;
}

WH_FN void *play_malloc(const play_args *a, player *me, wh_block_arena *block, request r) {
    if (a->scope == LANE) {
        return r.align == 0 ? wh_arena_malloc(a->heap, &me->lane, (size_t)r.size)
                            : wh_arena_aligned_alloc(a->heap, &me->lane, r.align, (size_t)r.size);
    }
    if (a->scope != BLOCK) {
        return r.align == 0
                   ? wh_warp_arena_malloc(a->heap, &me->warp, (size_t)r.size)
                   : wh_warp_arena_aligned_alloc(a->heap, &me->warp, r.align, (size_t)r.size);
    }
    if (r.size == 0) {
        return NULL;
    }
    return r.align == 0 ? wh_block_arena_malloc(a->heap, block, (size_t)r.size)
                        : wh_block_arena_aligned_alloc(a->heap, block, r.align, (size_t)r.size);
}

WH_FN wh_mask play_mask(const play_args *a) {
    const uint32_t first = wh_thread_in_block() & ~(WH_WARP_SIZE - 1);
    const uint32_t n = wh_block_threads() - first;
    const wh_mask all = n < WH_WARP_SIZE ? (1u << n) - 1 : WH_FULL_WARP;
    return a->scope == HALF ? all & 0x55555555u << wh_lane_id() % 2 : all;
}

WH_FN void play_open(const play_args *a, player *me, wh_block_arena *block) {
    me->marks = 0;
    if (a->scope == LANE) {
        me->lane = wh_arena_open(a->first, a->most);
    } else if (a->scope == BLOCK) {
        wh_block_arena_open(a->heap, block, a->first, a->most);
    } else {
        me->warp = wh_warp_arena_open(play_mask(a), a->first, a->most);
    }
}

WH_FN void play_close(const play_args *a, player *me, wh_block_arena *block) {
    if (a->scope == LANE) {
        wh_arena_close(a->heap, &me->lane);
    } else if (a->scope == BLOCK) {
        wh_block_arena_close(a->heap, block);
    } else {
        wh_warp_arena_close(a->heap, &me->warp);
    }
}

WH_FN void play_mark(const play_args *a, player *me, wh_block_arena *block) {
    wh_arena_place *place = &me->places[me->marks++];
    if (a->scope == LANE) {
        *place = wh_arena_mark(&me->lane);
    } else if (a->scope == BLOCK) {
        *place = wh_block_arena_mark(block);
    } else {
        *place = wh_warp_arena_mark(&me->warp);
    }
}

WH_FN void play_rewind(const play_args *a, player *me, wh_block_arena *block, uint32_t mark) {
    const wh_arena_place place = me->places[mark];
    me->marks = mark + 1;
    if (a->scope == LANE) {
        wh_arena_rewind(a->heap, &me->lane, place);
    } else if (a->scope == BLOCK) {
        wh_block_arena_rewind(a->heap, block, place);
    } else {
        wh_warp_arena_rewind(a->heap, &me->warp, place);
    }
}

WH_FN void play_op(const play_args *a, player *me, wh_block_arena *block, uint32_t op) {
    if ((op & 255) == OP_MARK) {
        play_mark(a, me, block);
    } else if ((op & 255) == OP_REWIND) {
        play_rewind(a, me, block, op >> 8);
    } else if ((op & 255) == OP_CLOSE) {
        play_close(a, me, block);
        play_open(a, me, block);
    }
}

/* The mallocs of a round by the calling thread, each filled at once; then all are looked at. */
WH_FN void play_round(const play_args *a, player *me, wh_block_arena *block, uint64_t round) {
    const uint64_t n = wh_grid_threads(), i = wh_thread_id();
    const uint64_t first = round * MALLOCS * n + i;
    uint32_t wrong = 0;
    for (uint32_t k = 0; k < MALLOCS; k++) {
        const request r = a->asks[first + k * n];
        void *p = play_malloc(a, me, block, r);
        a->got[first + k * n] = p;
        if (p != NULL) {
            wrong += (uintptr_t)p % (r.align > 16 ? r.align : 16) != 0 || r.size == 0;
            fill_block(p, r);
        }
    }
    for (uint32_t k = 0; k < MALLOCS; k++) {
        const void *p = a->got[first + k * n];
        wrong += p != NULL && !is_filled(p, a->asks[first + k * n]);
    }
    if (wrong != 0) {
        wh_add_u32_relaxed(a->wrong, wrong);
    }
}

WH_FN void play_rounds(const play_args *a, wh_block_arena *block) {
    const uint64_t n = wh_grid_threads(), i = wh_thread_id();
    player me = a->players[i];
    if (a->begins) {
        play_open(a, &me, block);
    }
    for (uint64_t round = 0; round < a->rounds; round++) {
        play_round(a, &me, block, round);
        play_op(a, &me, block, a->ops[round * n + i]);
    }
    if (a->ends) {
        play_close(a, &me, block);
    }
    a->players[i] = me;
}

WH_KERNEL(play_own, play_args, a) {
    play_rounds(&a, NULL);
}

/* The arena lies in the block's shared memory while the kernel runs. */
WH_KERNEL(play_block, play_args, a) {
    WH_SHARED(wh_block_arena, block, 1);
    if (wh_thread_in_block() == 0) {
        *block = a.blocks[wh_block_id()];
    }
    wh_syncthreads();
    play_rounds(&a, block);
    wh_syncthreads();
    if (wh_thread_in_block() == 0) {
        a.blocks[wh_block_id()] = *block;
    }
}

#endif
