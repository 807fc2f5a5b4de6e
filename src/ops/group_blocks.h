/* group_blocks.h: a block's shared memory, and what blocks do that is the same for all widths:
 * tiles and nodes, their pages, and how a block stops and goes on. Included by group_kernels.c.
 *
 * A node is what is still to be grouped of one part: a chain of rows of the table, and one of rows
 * that stand for many. Parts are nodes of level 1. A block reads a node with a table of its own;
 * what finds no slot goes to the chains of the node's children, by the hash of the next level, and
 * they to a stack of the block. A level has a hash of its own, not more bits of the same, so there
 * is a next level however many keys agree in a hash. From most_levels on a node has one child: the
 * stack is bounded, and group_table.h's S3 is why it ends all the same.
 */
#ifndef WHI_OPS_GROUP_BLOCKS_H
#define WHI_OPS_GROUP_BLOCKS_H

#include "group.h"

#include "chains.h"
#include "pages.h"

/* Chains of a kind that a part has at most: who adds to one waits for others less often. */
#if WH_FILE_IS_CUDA
#define MOST_STRANDS 8u
#else
#define MOST_STRANDS 2u
#endif

/* Words of a block. Written by thread 0 between barriers, but for LEFT, ZERO, FULL, SPARE, STACK
 * (and what is said of a node and its pages: by the first warp). */
enum {
    GROUP_PHASE,
    GROUP_LEFT,  /* rows of the tile that have found no slot */
    GROUP_ZERO,  /* group_table.h's S1 */
    GROUP_FULL,  /* a warp found no memory */
    GROUP_TILE,  /* of the table */
    GROUP_FEW,   /* the table helps too seldom, and is not asked: 1 */
    GROUP_SINCE, /* tiles since then; of a node: that have been read */
    GROUP_MASK,  /* slots of the node's table, less 1 */
    GROUP_SPARE, /* chains.h's I1 */
    GROUP_KIND,  /* of the node's chains that are read */
    GROUP_PAGES, /* of the tile */
    GROUP_LEVEL,
    GROUP_FAN,      /* log2 of the node's children */
    GROUP_CHILDREN, /* some may have rows */
    GROUP_STACK,
    /* Of each of the node's chains: the next page's number, and one more; rows of that page.
     * Strands of RAW, and then of PARTIAL */
    GROUP_CHAINS,
    GROUP_WORDS = GROUP_CHAINS + 2 * GROUP_KINDS * MOST_STRANDS
};

enum {
    PHASE_END,
    TABLE_READ,  /* a tile into the table */
    TABLE_SPILL, /* its rows that found no slot, to the parts */
    TABLE_FLUSH, /* the table to the parts, and then the next tile */
    TABLE_LAST,  /* and then the end */
    NODE_TAKE,
    NODE_READ,  /* some pages into the table */
    NODE_SPILL, /* their rows that found no slot, to children; the pages go back */
    NODE_OUT    /* the table into the result */
};

enum { FROM_TABLE, FROM_PAGES, FROM_SLOTS };

#define SLOT_NONE UINT32_MAX
#define MANY_LANES 8u /* of a warp in one slot, that are added up first */

/* Rows that a block has before it. */
typedef struct group_tile {
    uint32_t source, kind;          /* kind: as what chain's they are written */
    const whi_group_layout *layout; /* of the kind */
    const void *key, *value;        /* of the table: its columns, from the tile's first row on */
    uint32_t n;                     /* rows, or places for rows */
    uint32_t level, parts_log2, mask;
} group_tile;

/* Shared memory of a shape `s`. */
#define SHARED(type, field) ((type *)(void *)((char *)wh_shared() + s->field))
#define WORDS ((uint32_t *)wh_shared()) /* come first */

WH_FN double double_of(uint64_t bits) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

WH_FN uint64_t bits_of(double d) {
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

WH_FN uint64_t bits_of_float(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return bits_of((double)f);
}

WH_FN uint64_t add_bits(uint64_t a, uint64_t b) {
    return bits_of(double_of(a) + double_of(b));
}

/* Lock-free: one of those that meet has added its number. */
WH_FN void add_double(uint64_t *p, uint64_t bits) {
    uint64_t old, seen = wh_shared_load_u64(p);
    do {
        old = seen;
        seen = wh_shared_cas_u64(p, old, add_bits(old, bits));
    } while (WH_PLANT(blocks_double, seen != old, 0));
}

/* 64 bits in two words, which native 32-bit adds of shared memory serve. A carry is added as soon
 * as it is known; both are right when all have added. */
WH_FN void add_u64(uint32_t *low, uint32_t *high, uint64_t v) {
    const uint32_t old = wh_shared_fetch_add_u32(low, wh_low_u32(v));
    const uint32_t carry = (uint32_t)(old + wh_low_u32(v)) < old ? WH_PLANT(blocks_carry, 1, 0) : 0;
    if (wh_high_u32(v) + carry != 0) {
        (void)wh_shared_fetch_add_u32(high, wh_high_u32(v) + carry);
    }
}

/* A warp's first row of a tile; it takes 32 in a row. */
WH_FN uint32_t first_step(void) {
    return wh_thread_in_block() / WH_WARP_SIZE * WH_WARP_SIZE;
}

WH_FN uint32_t in_page(const whi_group_layout *l, uint32_t i) {
    return i & ((1u << l->page_log2) - 1);
}

WH_FN unsigned char *page_of_row(const whi_group_shape *s, const whi_group_layout *l, uint32_t i) {
    return (unsigned char *)(uintptr_t)SHARED(uint64_t, page)[i >> l->page_log2];
}

WH_FN int has_row(const whi_group_shape *s, const group_tile *t, uint32_t i) {
    const whi_group_layout *l = t->layout;
    return i < t->n && (t->source != FROM_PAGES ||
                        in_page(l, i) < SHARED(const uint32_t, fill)[i >> l->page_log2]);
}

/* --- phases: all threads -----------------------------------------------------------------------
 */

WH_FN uint32_t phase_now(void) {
    const uint32_t phase = WORDS[GROUP_PHASE];
    wh_syncthreads(); /* all have read it */
    return phase;
}

WH_FN void set_phase(uint32_t phase) {
    wh_syncthreads();
    if (wh_thread_in_block() == 0) {
        WORDS[GROUP_PHASE] = phase;
    }
    wh_syncthreads();
}

/* Whether the block has something to do. What it has saved is in its shared memory then, or words
 * are 0. */
WH_FN int begin_block(const whi_group *g, uint32_t k) {
    const uint32_t me = wh_block_id(), stage = g->stage[k][me];
    const uint32_t *from = (const uint32_t *)(void *)(g->saved + (uint64_t)me * g->shape[k].bytes);
    const int may = wh_block_broadcast_u64(wh_load_u32_relaxed(&g->state->is_full), 0) == 0;
    if (!WH_PLANT(blocks_may, may, 1) || stage == GROUP_DONE) {
        return 0;
    }
    const int is_saved = WH_PLANT(blocks_restore, stage == GROUP_STOPPED, 0);
    const uint32_t n = is_saved ? g->shape[k].bytes / 4 : GROUP_WORDS;
    for (uint32_t i = wh_thread_in_block(); i < n; i += wh_block_threads()) {
        WORDS[i] = stage == GROUP_STOPPED ? from[i] : 0;
    }
    wh_syncthreads();
    return 1;
}

WH_FN void end_block(const whi_group *g, uint32_t k, int is_full) {
    const uint32_t me = wh_block_id();
    uint32_t *to = (uint32_t *)(void *)(g->saved + (uint64_t)me * g->shape[k].bytes);
    wh_syncthreads();
    for (uint32_t i = wh_thread_in_block(); is_full && i < g->shape[k].bytes / 4;
         i += wh_block_threads()) {
        to[i] = WORDS[i];
    }
    if (wh_thread_in_block() == 0) {
        g->stage[k][me] = is_full ? GROUP_STOPPED : GROUP_DONE;
        if (is_full) {
            wh_store_u32_relaxed(&g->state->is_full, 1);
        }
    }
}

/* --- tiles -------------------------------------------------------------------------------------
 */

WH_FN uint32_t tiles_of(const whi_group *g) {
    return g->n / g->tile + WH_PLANT(blocks_tiles, g->n % g->tile != 0, 0);
}

/* The table's rows that the block is at. */
WH_FN group_tile tile_of_table(const whi_group *g, const whi_group_shape *s) {
    const uint32_t tile = WORDS[GROUP_TILE];
    group_tile t;
    t.source = FROM_TABLE;
    t.kind = GROUP_RAW;
    t.layout = &g->layout[t.kind];
    const uint32_t first = tile < tiles_of(g) ? tile * g->tile : 0;
    t.key = (const char *)g->key + (uint64_t)first * g->key_bytes;
    t.value = (const char *)g->value + (uint64_t)first * g->value_bytes;
    t.n = g->n - first < g->tile ? g->n - first : g->tile;
    t.level = 0;
    t.parts_log2 = g->parts_log2;
    t.mask = s->slots - 1;
    return t;
}

WH_FN group_tile tile_of_slots(const whi_group *g, const whi_group_shape *s) {
    group_tile t = tile_of_table(g, s);
    t.source = FROM_SLOTS;
    t.kind = GROUP_PARTIAL;
    t.layout = &g->layout[t.kind];
    t.n = s->slots + WH_PLANT(blocks_slots, 1u, 0u);
    return t;
}

/* The pages of the node that the block is at. */
WH_FN group_tile tile_of_node(const whi_group *g) {
    group_tile t;
    t.source = FROM_PAGES;
    t.kind = WORDS[GROUP_KIND] % GROUP_KINDS;
    t.layout = &g->layout[t.kind];
    t.key = t.value = NULL;
    t.n = WORDS[GROUP_PAGES] << t.layout->page_log2;
    t.level = WORDS[GROUP_LEVEL];
    t.parts_log2 = WORDS[GROUP_FAN];
    t.mask = WORDS[GROUP_MASK];
    return t;
}

/* Bits for all rows of a tile. All threads. */
WH_FN void mark_rows(const whi_group_shape *s, const group_tile *t) {
    for (uint32_t step = first_step(); step < t->n; step += wh_block_threads()) {
        const wh_mask has = wh_ballot(WH_FULL_WARP, has_row(s, t, step + wh_lane_id()));
        if (wh_lane_id() == 0) {
            SHARED(uint32_t, bits)[step / 32] = has;
        }
    }
}

/* All rows of a tile are left, without a look. All threads. */
WH_FN void leave_tile(const whi_group_shape *s, const group_tile *t) {
    mark_rows(s, t);
    if (wh_thread_in_block() == 0) {
        WORDS[GROUP_LEFT] = t->n;
    }
    wh_syncthreads();
}

/* A tile of n rows is done: what next. After a tile less than an eighth of whose rows had a
 * slot, some tiles go to the parts without a look at the table; then it makes room for what comes
 * now, so that a key that has become frequent does not go to its part row by row. */
WH_FN void next_tile(const whi_group *g, uint32_t n) {
    wh_syncthreads();
    if (wh_thread_in_block() == 0) {
        uint32_t *w = WORDS;
        const int is_few = w[GROUP_FEW] != 0 || w[GROUP_LEFT] > n / 8 * 7;
        w[GROUP_SINCE] = is_few ? w[GROUP_SINCE] + 1 : 0;
        const int is_stale = w[GROUP_SINCE] >= g->refresh;
        w[GROUP_FEW] = is_few && !is_stale ? 1 : 0;
        w[GROUP_SINCE] = is_stale ? 0 : w[GROUP_SINCE];
        w[GROUP_TILE] += wh_grid_blocks();
        w[GROUP_LEFT] = 0;
        w[GROUP_PHASE] = is_stale ? TABLE_FLUSH : TABLE_READ;
    }
    wh_syncthreads();
}

WH_FN tile_places places_of(const whi_group_shape *s) {
    return places_at(SHARED(void, places), s->parts, s->brought);
}

WH_FN void begin_places(const tile_places *places, uint32_t parts) {
    for (uint32_t p = wh_thread_in_block(); p < parts; p += wh_block_threads()) {
        places->counts[p] = 0;
    }
    if (wh_thread_in_block() == 0) {
        places->words[TILE_PAGES] = 0;
        places->words[TILE_FAILED] = WH_PLANT(blocks_failed, 0, places->words[TILE_FAILED]);
    }
    wh_syncthreads();
}

WH_FN whi_chains chains_of_parts(const whi_group *g, uint32_t kind) {
    const uint32_t strand = wh_block_id() % g->strands;
    whi_chains c = g->chains;
    c.cursor = g->chains.cursor + ((uint64_t)(kind * g->strands + strand) << g->parts_log2);
    c.page_log2 = g->layout[kind].page_log2;
    c.page_bytes = g->layout[kind].page_bytes;
    return c;
}

/* Of the node that the block is at. group_steps.h's R2 */
WH_FN whi_chains chains_of_children(const whi_group *g, uint32_t kind) {
    whi_chains c = chains_of_parts(g, kind);
    c.cursor = g->child_cursor + ((uint64_t)(wh_block_id() * GROUP_KINDS + kind) << g->fan_log2);
    c.spare = &WORDS[GROUP_SPARE];
    return c;
}

/* --- nodes -------------------------------------------------------------------------------------
 */

WH_FN int is_empty(const whi_group_node *n) {
    return wh_high_u32(n->cursor[GROUP_RAW]) == 0 &&
           WH_PLANT(blocks_empty, wh_high_u32(n->cursor[GROUP_PARTIAL]) == 0, 1);
}

/* The next node, of the stack or a part: its level, or 0: there is none. *cursor: the caller's
 * chain of it, as GROUP_CHAINS has them, or 0; *rows: its part of the node's. All lanes of the
 * first warp. */
WH_FN uint32_t next_node(const whi_group *g, uint64_t *cursor, uint64_t *rows) {
    const uint32_t lane = wh_lane_id(), stack = WORDS[GROUP_STACK];
    const uint32_t parts = 1u << g->parts_log2, chains = GROUP_KINDS * g->strands;
    const whi_chains c = chains_of_parts(g, lane < g->strands ? GROUP_RAW : GROUP_PARTIAL);
    *cursor = *rows = 0;
    WH_PLANT(blocks_stack_read, wh_syncwarp(WH_FULL_WARP), (void)0); /* all have read it */
    if (stack != 0) {
        const whi_group_node *n = &g->stack[(uint64_t)wh_block_id() * g->stack_room + stack - 1];
        if (lane < chains && lane % g->strands == 0) {
            *cursor = n->cursor[lane / g->strands];
        }
        if (lane == 0) {
            *rows = n->rows;
            WORDS[GROUP_STACK] = stack - 1;
        }
        return n->level;
    }
    do {
        uint32_t p = lane == 0 ? wh_fetch_add_u32_relaxed(&g->state->next_part, 1) : 0;
        p = wh_shfl_u32(WH_FULL_WARP, p, 0);
        if (p >= parts) {
            return 0;
        }
        *cursor = lane < chains ? g->chains.cursor[((uint64_t)lane << g->parts_log2) + p] : 0;
    } while (!wh_any(WH_FULL_WARP, wh_high_u32(*cursor) != 0));
    *rows = rows_of_chain(&c, *cursor);
    return 1;
}

/* How large a table, and how many children, so many rows may need. */
WH_FN void size_node(const whi_group *g, const whi_group_shape *s, uint64_t rows) {
    uint32_t mask = 7, fan = 0;
    while (mask + 1 < s->slots && mask + 1 < 2 * rows) {
        mask = 2 * mask + 1;
    }
    while (fan < g->fan_log2 && (uint64_t)(s->slots / 2) << fan < rows) {
        fan++;
    }
    fan = WORDS[GROUP_LEVEL] < g->most_levels ? fan : 0;
    WORDS[GROUP_MASK] = mask;
    WORDS[GROUP_FAN] = g->is_paper ? g->fan_log2 : fan;
}

/* All threads. */
WH_FN void take_node(const whi_group *g, const whi_group_shape *s) {
    const uint32_t lane = wh_lane_id();
    wh_syncthreads();
    if (wh_thread_in_block() < WH_WARP_SIZE) {
        uint64_t cursor, rows;
        const uint32_t level = next_node(g, &cursor, &rows);
        rows = wh_scan_add_warp_u64(rows);
        if (lane < GROUP_KINDS * g->strands) {
            WORDS[GROUP_CHAINS + 2 * lane] = wh_high_u32(cursor);
            WORDS[GROUP_CHAINS + 2 * lane + 1] = wh_low_u32(cursor);
        }
        if (lane == WH_WARP_SIZE - 1) {
            WORDS[GROUP_PHASE] = level != 0 ? NODE_READ : PHASE_END;
            WORDS[GROUP_LEVEL] = level;
            WORDS[GROUP_KIND] = GROUP_RAW;
            WORDS[GROUP_CHILDREN] = 0;
            WORDS[GROUP_SINCE] = 0;
            WORDS[GROUP_FEW] = WH_PLANT(blocks_few, 0, WORDS[GROUP_FEW]);
            size_node(g, s, rows);
        }
    }
    wh_syncthreads();
}

/* Lanes of a warp that note pages of one chain at a time. */
#define WALKERS (WH_WARP_SIZE / WHI_LINKS)

/* Notes pages of the node's chains of a kind, from their ends on, as many as a tile has: their
 * numbers, where they are and how many rows they have. Returns how many. All lanes of the first
 * warp; WHI_LINKS lanes a chain. chains.h's P2 */
WH_FN uint32_t walk_chains(const whi_group *g, const whi_group_shape *s, uint32_t kind) {
    const uint32_t room = 1u << g->layout[kind].page_log2, most = s->rows / room;
    const uint32_t lane = wh_lane_id(), k = lane % WHI_LINKS, first = lane - k;
    uint32_t n = 0;
    for (uint32_t strand = lane / WHI_LINKS; strand - lane / WHI_LINKS < g->strands;
         strand += WALKERS) {
        uint32_t *words = &WORDS[GROUP_CHAINS + 2 * (kind * g->strands + strand)];
        uint32_t current = strand < g->strands ? words[0] : 0;
        uint32_t tail = strand < g->strands ? words[1] : 0;
        WH_PLANT(blocks_walk_read, wh_syncwarp(WH_FULL_WARP), (void)0); /* all have read them */
        WH_NO_UNROLL
        while (n < most && wh_any(WH_FULL_WARP, current != 0)) {
            const uint64_t page = current != 0 ? current - 1 : 0;
            const uint32_t *link = g->chains.link + page * WHI_LINKS;
            uint32_t number = current, after = 0;
            if (current != 0 && k != 0) {
                number = link[k - 1];
            } else if (current != 0) {
                after = link[WHI_LINKS - 1];
            }
            const wh_mask some = wh_ballot(WH_FULL_WARP, number != 0);
            const uint32_t at = n + wh_mask_rank(some);
            const int is_noted = number != 0 && at < most + WH_PLANT(blocks_walk_most, 0u, 1u);
            if (is_noted) {
                SHARED(uint32_t, number)[at] = number;
                SHARED(uint64_t, page)[at] = (uint64_t)(uintptr_t)g->chains.page[number - 1];
                SHARED(uint32_t, fill)[at] = k == 0 ? WH_PLANT(blocks_tail, tail, room) : room;
            }
            /* of the chain: the first page that is not noted */
            const wh_mask none = wh_ballot(WH_FULL_WARP, number != 0 && !is_noted);
            const wh_mask its = none >> first & ((1u << WHI_LINKS) - 1);
            const uint32_t from = its != 0 ? first + wh_mask_leader(its) : first;
            tail = its != 0 && from == first ? tail : room;
            current = wh_shfl_u32(WH_FULL_WARP, its != 0 ? number : after, from);
            n += wh_popc32(some) - wh_popc32(none);
        }
        if (k == 0 && strand < g->strands) {
            words[0] = current;
            words[1] = tail;
        }
    }
    return n;
}

/* The next pages of the node; 0: there are none. All threads. */
WH_FN int read_pages(const whi_group *g, const whi_group_shape *s) {
    wh_syncthreads();
    if (wh_thread_in_block() < WH_WARP_SIZE) {
        uint32_t kind = WORDS[GROUP_KIND], n = walk_chains(g, s, kind);
        if (n == 0 && kind == GROUP_RAW) {
            kind = GROUP_PARTIAL;
            n = WH_PLANT(blocks_other, walk_chains(g, s, kind), 0);
        }
        if (wh_lane_id() == 0) {
            WORDS[GROUP_KIND] = kind;
            WORDS[GROUP_PAGES] = n;
        }
    }
    wh_syncthreads();
    return WORDS[GROUP_PAGES] != 0;
}

/* Whether a node's table helps too seldom: of its first tile, if that has all rows that a tile may
 * have, more than a third found no slot. Not where a node has one child: there each makes an end of
 * a key. */
WH_FN int is_node_few(const whi_group *g, const whi_group_shape *s) {
    const uint32_t full = s->rows >> g->layout[WORDS[GROUP_KIND]].page_log2;
    return WORDS[GROUP_SINCE] == 0 && WORDS[GROUP_FAN] != 0 && WORDS[GROUP_PAGES] == full &&
           WORDS[GROUP_LEFT] > s->rows / 3;
}

/* The tile's rows have gone elsewhere: its pages go back, their numbers to the block. All threads.
 * chains.h's I1, group_steps.h's R3 */
WH_FN void free_pages(const wh_heap_ref *heap, const whi_group *g, const whi_group_shape *s) {
    const uint32_t n = WORDS[GROUP_PAGES];
    const uint32_t *number = SHARED(uint32_t, number);
    for (uint32_t k = wh_thread_in_block(); k < n; k += wh_block_threads()) {
        WH_PLANT(blocks_r3_free, give_page(heap, (void *)(uintptr_t)SHARED(uint64_t, page)[k]),
                 (void)0);
        g->chains.page[number[k] - 1] =
            WH_PLANT(blocks_r3_gone, NULL, g->chains.page[number[k] - 1]);
        g->chains.next[number[k] - 1] =
            k != 0 ? number[k - 1] : WH_PLANT(blocks_i1_next, WORDS[GROUP_SPARE], number[0]);
    }
    wh_syncthreads();
    if (wh_thread_in_block() == 0) {
        WORDS[GROUP_SPARE] = number[n - 1];
        WORDS[GROUP_CHILDREN] |= WH_PLANT(blocks_children, WORDS[GROUP_LEFT], 0);
        WORDS[GROUP_LEFT] = 0;
        WORDS[GROUP_SINCE]++;
        WORDS[GROUP_PHASE] = NODE_READ;
    }
    wh_syncthreads();
}

/* Child p of the node, which has no rows then; 0: it had none. group_steps.h's R2 */
WH_FN int take_child(const whi_group *g, uint32_t p, whi_group_node *n) {
    n->rows = 0;
    for (uint32_t k = 0; k < GROUP_KINDS; k++) {
        const whi_chains c = chains_of_children(g, k);
        n->cursor[k] = c.cursor[p];
        n->rows += (uint32_t)rows_of_chain(&c, n->cursor[k]);
        c.cursor[p] = WH_PLANT(blocks_r2_child, 1u << c.page_log2, c.cursor[p]); /* full: P1 */
    }
    n->level = WORDS[GROUP_LEVEL] + 1;
    return !is_empty(n);
}

WH_FN void push_node(const whi_group *g, const whi_group_node *n) {
    const uint32_t at = wh_shared_fetch_add_u32(&WORDS[GROUP_STACK], 1);
    wh_assert_internal(at < g->stack_room);
    g->stack[(uint64_t)wh_block_id() * g->stack_room + at] = *n;
}

/* The node is done: its children that have rows go to the stack. All threads. */
WH_FN void push_children(const whi_group *g) {
    const uint32_t fan = WORDS[GROUP_CHILDREN] != 0 ? 1u << WORDS[GROUP_FAN] : 0;
    for (uint32_t p = wh_thread_in_block(); p < fan; p += wh_block_threads()) {
        whi_group_node n;
        if (take_child(g, p, &n)) {
            push_node(g, &n);
        }
    }
    set_phase(NODE_TAKE);
}

#endif
