/* parts.h: places for rows in parts that grow by pages of the heap, which blocks take for a tile of
 * rows at a time. Included by kernels' files.
 *
 * A place is the number of a page, and of a row in it: number << page_log2 | row. Pages come in
 * groups of consecutive numbers, so that places of a group are consecutive, too.
 *
 * P1      cursor[p]: the end of the group that part p grows in, the number behind its last page,
 *         above GROUP_FULL less the rows that are left in it. fetch_add (acquire) of n takes n
 *         places from the old value on, if that is no more than GROUP_FULL. Who takes more than are
 *         left gets what is left, and brings a group of pages for the others: until it stores
 *         (release) the cursor of that group, others see that the group is more than full, take
 *         nothing, and look again, by a load (relaxed) which only waits. What they have added
 *         meanwhile goes with that store. If there is no memory, it stores the value that it found:
 *         nothing has been taken
 * P2      page[k], part[k], ordinal[k]: each written by one lane of the warp that brought page k,
 *         before its wh_syncwarp, and the release of P1, which the fetch_adds after it go on with:
 *         all takers of the group see them. n_pages: fetch_add (relaxed) takes numbers
 *         for pages that are there
 *
 * Progress: a lane waits only for one that is bringing pages, which waits for nobody. It waits not
 * inside a loop of its own, but in rounds of its warp, which bring before they wait.
 * Cost: a part of n rows has as many groups as make it half larger each, of up to MOST_BROUGHT
 * pages, which the lanes of a warp ask for at once; a group's first taker is the only one that
 * waits for them all. Pages that a part has too many go back with it.
 */
#ifndef WHI_OPS_PARTS_H
#define WHI_OPS_PARTS_H

#include "heap_calls.h"
#include "lists.h"
#include "tiles.h"

/* Of a cursor: no row is left. */
#define GROUP_FULL ((uint32_t)1 << 31)

/* A warp brings pages in rounds, one for each of so many lanes; and those of a tile, which are no
 * more than it brings at a time. */
#if WH_FILE_IS_CUDA
#define BRING_LANES WH_WARP_SIZE
#define BRING_ROUNDS 4u
#define TILE_PAGES_LOG2 4u
#else
#define BRING_LANES 2u
#define BRING_ROUNDS 2u
#define TILE_PAGES_LOG2 2u
#endif
#define MOST_BROUGHT (BRING_LANES * BRING_ROUNDS)
#define TILE_PAGES (1u << TILE_PAGES_LOG2)

/* A part's next group is as large as what it has, shifted by so much. */
#define GROW_LOG2 1u

/* Words of a block's shared memory. */
enum { TILE_FAILED, TILE_WORDS };

/* Rows of a tile that are next to each other: row i of the sorted tile, if it is below `end`, is
 * row first + i of the page. */
typedef struct tile_run {
    unsigned char *page;
    uint32_t first, end;
} tile_run;

/* A tile of rows, in order of their parts. All shared; of each part: */
typedef struct sorted_tile {
    uint64_t *sums;      /* block.h */
    uint64_t *pages;     /* that the tile's rows come from, TILE_PAGES */
    tile_run *run;       /* its first rows, as many as are in one page; its rows begin there */
    uint64_t *at, *more; /* places of its first row, and of the first one in a new group */
    uint32_t *here;      /* rows at `at`; or tiles.h */
    uint32_t *counts;    /* rows */
    uint32_t *start;     /* where they begin */
    uint32_t *words;
    uint16_t *part;      /* of each row of the sorted tile */
    unsigned char *rows; /* as in a page of the tile's size */
} sorted_tile;

/* For a tile of n rows, which take so many bytes. */
WH_HD uint32_t sorted_bytes(uint32_t parts, uint32_t n, uint32_t rows_bytes) {
    return 8 * (WH_BLOCK_SCAN_WORDS + TILE_PAGES) +
           ((uint32_t)sizeof(tile_run) + 8 + 8 + 12) * parts + 4 * TILE_WORDS + 4 + 2 * n +
           rows_bytes;
}

WH_FN sorted_tile sorted_at(void *memory, uint32_t parts, uint32_t rows_bytes) {
    sorted_tile t;
    t.rows = (unsigned char *)memory;
    t.sums = (uint64_t *)(void *)(t.rows + rows_bytes);
    t.pages = t.sums + WH_BLOCK_SCAN_WORDS;
    t.run = (tile_run *)(void *)(t.pages + TILE_PAGES);
    t.at = (uint64_t *)(void *)(t.run + parts);
    t.more = t.at + parts;
    t.here = (uint32_t *)(void *)(t.more + parts);
    t.counts = t.here + parts;
    t.start = t.counts + parts;
    t.words = t.start + parts;
    t.part = (uint16_t *)(void *)(t.words + TILE_WORDS);
    return t;
}

/* The place of a part's row i; the part has places. */
WH_FN uint64_t place_of(const sorted_tile *t, uint32_t p, uint32_t i) {
    const uint32_t here = t->here[p];
    return WH_PLANT(parts_places, i < here, i <= here) ? t->at[p] + i : t->more[p] + (i - here);
}

WH_FN unsigned char *page_of_number(const whi_parts *s, uint32_t number) {
    return s->memory != NULL ? s->memory + (uint64_t)number * s->page_bytes : s->page[number];
}

/* The rows of a part that are in one page, as far as they have places. */
WH_FN void note_run(const whi_parts *s, const sorted_tile *t, uint32_t p) {
    const uint32_t here = t->here[p], start = t->start[p], room = 1u << s->page_log2;
    tile_run run = {NULL, 0, 0};
    if (here != TILE_PLACED && here != TILE_NOWHERE && here != 0) {
        const uint32_t first = (uint32_t)t->at[p] & (room - 1);
        const uint32_t left = room - first, n = WH_PLANT(parts_run, here < left, 1) ? here : left;
        run.page = page_of_number(s, (uint32_t)(t->at[p] >> s->page_log2));
        run.first = first - start;
        run.end = start + n;
    }
    t->run[p] = run;
}

/* What a lane is to bring for a part whose cursor it has found full. */
typedef struct group_ask {
    uint64_t old; /* cursor */
    uint32_t part;
    uint32_t rows;       /* that have no place yet */
    uint32_t need, want; /* pages; none is wanted: 0 */
    uint32_t ordinal;    /* of the first one */
    uint32_t number;     /* of the first one, when it is there */
    int is_refused;      /* there is no memory for them */
} group_ask;

/* Pages to bring for so many rows, behind those that the part has. */
WH_FN void ask_for_group(const whi_parts *s, uint32_t rows, uint64_t old, group_ask *ask) {
    const uint32_t number = wh_high_u32(old), room = 1u << s->page_log2;
    const uint32_t pages = number != 0 ? s->ordinal[number - 1] + 1 : 0; /* P2 */
    uint32_t want = pages != 0 ? pages >> GROW_LOG2 : s->ahead;
    ask->old = old;
    ask->rows = rows;
    ask->need = (rows + room - 1) >> s->page_log2;
    ask->ordinal = WH_PLANT(parts_p2_ordinal, pages, 0);
    want = want < MOST_BROUGHT ? want : MOST_BROUGHT;
    ask->want = want > ask->need ? want : ask->need;
    wh_assert_internal(ask->want <= MOST_BROUGHT);
}

/* Takes places for the n rows of the tile's part p; 0: somebody is bringing pages. P1 */
WH_FN int take_places(const whi_parts *s, const sorted_tile *t, uint32_t p, uint32_t n,
                      group_ask *ask) {
    uint64_t *cursor = &s->cursor[ask->part];
    const uint64_t old =
        WH_PLANT_ORDER(parts_p1_take, wh_fetch_add_u64, acquire)(cursor, n); /* P1, P2 */
    const uint32_t full = wh_low_u32(old), left = GROUP_FULL - full, here = n < left ? n : left;
    if (WH_PLANT(parts_p1_full, full > GROUP_FULL, 0)) {
        return 0;
    }
    t->at[p] = ((uint64_t)wh_high_u32(old) << s->page_log2) - left;
    t->here[p] = here;
    if (n > here) {
        ask_for_group(s, n - here, old, ask);
    }
    return 1;
}

/* How many lanes, from lane 0 on, have a sum of no more than `item`: sums grow from lane to lane.
 */
WH_FN uint32_t lanes_up_to(uint32_t sum, uint32_t item) {
    uint32_t lane = 0;
    for (uint32_t step = WH_WARP_SIZE / 2; step != 0; step /= 2) {
        const uint32_t theirs = wh_shfl_u32(WH_FULL_WARP, sum, lane + step - 1);
        lane += theirs <= item ? step : 0;
    }
    return lane;
}

/* Of pages that a warp has asked for, how many of the first `item` are there; got: of each round
 * the lanes that have got one. */
WH_FN uint32_t got_before(const wh_mask *got, uint32_t item) {
    uint32_t n = 0;
    for (uint32_t r = 0; r < BRING_ROUNDS; r++) {
        const uint32_t first = r * BRING_LANES, lanes = item > first ? item - first : 0;
        const wh_mask below = lanes < BRING_LANES ? (1u << lanes) - 1 : WH_FULL_WARP;
        n += wh_popc32(got[r] & below);
    }
    return n;
}

/* The groups of pages that lanes of a warp ask for, those of the first lanes that a warp brings at
 * a time; want is 0 then. All lanes of a warp. P1, P2 */
WH_FN_SLOW void bring_groups(const wh_heap_ref *heap, const whi_parts *s, group_ask *ask) {
    const uint32_t lane = wh_lane_id(), up_to = wh_scan_add_warp_u32(ask->want);
    const int is_turn = ask->want != 0 && up_to <= MOST_BROUGHT;
    const uint32_t all = wh_reduce_max_u32(WH_FULL_WARP, is_turn ? up_to : 0);
    unsigned char *page[BRING_ROUNDS];
    wh_mask got[BRING_ROUNDS];
    for (uint32_t r = 0; r < BRING_ROUNDS; r++) {
        const int brings = lane < BRING_LANES && r * BRING_LANES + lane < all;
        page[r] = brings ? take_page(heap, s->page_bytes) : NULL;
        got[r] = wh_ballot(WH_FULL_WARP, page[r] != NULL);
    }
    const uint32_t skipped = is_turn ? got_before(got, up_to - ask->want) : 0;
    const uint32_t n = is_turn ? got_before(got, up_to) - skipped : 0;
    const int is_there = is_turn && n >= WH_PLANT(parts_need, ask->need, 0u);
    /* numbers of the pages that stay */
    const uint32_t sum = wh_scan_add_warp_u32(is_there ? n : 0), before = sum - (is_there ? n : 0);
    const uint32_t n_stay = wh_shfl_u32(WH_FULL_WARP, sum, WH_WARP_SIZE - 1);
    uint32_t base = lane == 0 ? wh_fetch_add_u32_relaxed(s->n_pages, n_stay) : 0;
    base = wh_shfl_u32(WH_FULL_WARP, base, 0);
    wh_assert_internal(base + n_stay <= s->most);
    WH_NO_UNROLL
    for (uint32_t r = 0; r * BRING_LANES < all; r++) {
        const uint32_t item = r * BRING_LANES + lane;
        const uint32_t from = lanes_up_to(up_to, item); /* for whom it has been brought */
        const uint32_t rank = got_before(got, item) - wh_shfl_u32(WH_FULL_WARP, skipped, from);
        const uint32_t number = base + wh_shfl_u32(WH_FULL_WARP, before, from) + rank;
        const uint32_t ordinal = wh_shfl_u32(WH_FULL_WARP, ask->ordinal, from) + rank;
        const uint32_t part = wh_shfl_u32(WH_FULL_WARP, ask->part, from);
        const uint32_t stays = wh_shfl_u32(WH_FULL_WARP, (uint32_t)is_there, from);
        if (page[r] != NULL && stays) {
            s->page[number] = page[r];
            s->part[number] = part;
            s->ordinal[number] = ordinal;
        } else if (page[r] != NULL) {
            WH_PLANT(parts_p1_back, give_page(heap, page[r]), (void)0);
        }
    }
    WH_PLANT(parts_p2_warp, wh_syncwarp(WH_FULL_WARP), (void)0); /* P2 */
    if (is_there) {
        const uint32_t end = base + before + n, left = (n << s->page_log2) - ask->rows;
        ask->number = base + before;
        WH_PLANT_ORDER(parts_p1_bring, wh_store_u64, release)
        (&s->cursor[ask->part], (uint64_t)end << 32 | (GROUP_FULL - left)); /* P1, P2 */
    } else if (is_turn) {
        WH_PLANT(parts_p1_refused, wh_store_u64_release(&s->cursor[ask->part], ask->old),
                 (void)0); /* P1 */
    }
    ask->want = WH_PLANT(parts_turn, is_turn, 1) ? 0 : ask->want;
    ask->is_refused |= is_turn && !is_there;
}

/* Places for all rows of a tile, counts, in parts from `base` on. placed: a bit for each of these
 * whose rows have had theirs in a launch before. All threads, of which there are as many as parts
 * at least: each warp has as many parts as the next one, and brings their pages with all lanes. */
WH_FN void place_tile(const wh_heap_ref *heap, const whi_parts *s, const sorted_tile *t,
                      uint32_t base, const uint32_t *placed) {
    const uint32_t parts = 1u << s->log2, warps = wh_block_threads() / WH_WARP_SIZE;
    const uint32_t each = (parts + warps - 1) / warps, lane = wh_lane_id();
    const uint32_t p = wh_thread_in_block() / WH_WARP_SIZE * each + lane;
    const int has_part = lane < each && p < parts;
    const uint32_t n = has_part ? t->counts[p] : 0;
    const int was_placed = n != 0 && WH_PLANT(parts_placed, (placed[p / 32] >> p % 32 & 1) != 0, 0);
    int is_done = n == 0 || was_placed, looks = 1;
    group_ask ask;
    memset(&ask, 0, sizeof ask);
    ask.part = base + p;
    if (has_part) {
        t->here[p] = TILE_PLACED;
    }
    for (uint32_t round = 0; wh_any(WH_FULL_WARP, !is_done); round++) {
        if (!is_done && looks) {
            is_done = take_places(s, t, p, n, &ask);
        }
        WH_NO_UNROLL
        while (wh_any(WH_FULL_WARP, ask.want != 0)) {
            bring_groups(heap, s, &ask);
        }
        if (!is_done) {
            wh_backoff(round);
            looks = wh_low_u32(wh_load_u64_relaxed(&s->cursor[ask.part])) <= GROUP_FULL; /* P1 */
        }
    }
    if (ask.is_refused) {
        t->here[p] = WH_PLANT(parts_nowhere, TILE_NOWHERE, TILE_PLACED);
        WH_PLANT(parts_failed, (void)wh_shared_exchange_u32(&t->words[TILE_FAILED], 1), (void)0);
    } else if (ask.need != 0) {
        t->more[p] = (uint64_t)ask.number << s->page_log2;
    }
    if (has_part) {
        note_run(s, t, p);
    }
    WH_PLANT(parts_b1_placed, wh_syncthreads(), (void)0);
}

/* Places where all rows have been counted: parts follow each other in memory. All threads. */
WH_FN void place_counted(const whi_parts *s, const sorted_tile *t, uint32_t base) {
    const uint32_t p = wh_thread_in_block();
    if (p < 1u << s->log2 && t->counts[p] != 0) {
        t->here[p] = t->counts[p];
        t->at[p] = ((uint64_t)s->first[base + p] << s->page_log2) +
                   wh_fetch_add_u64_relaxed(&s->cursor[base + p], t->counts[p]);
        note_run(s, t, p);
    }
    wh_syncthreads();
}

#endif
