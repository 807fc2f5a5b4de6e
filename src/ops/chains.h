/* chains.h: places for rows in chains of pages, which blocks take for many rows at a time. Included
 * by kernels' files. A chain is that of a part; its pages come from the heap as it grows.
 *
 * P1      cursor[p]: the page that part p grows in, its number and one more, above the rows that
 *         have a place there. fetch_add (acq_rel) of n takes n places from the old value on, if
 *         that is no more than a page has; loads, relaxed, only wait. Who takes more
 *         than are left gets the rest of the page, and brings the pages for the others: until it
 *         stores (release) the cursor of the last of them, takers see that the page is more than
 *         full, take nothing, and look again. What they have added meanwhile goes with that store.
 *         If there is no memory, it stores the value that it found: nothing has been taken
 * P2      page[k], ordinal[k], link[k ..]: written by who brought page k, before the
 *         release of P1. Links are numbers, and one more, of the pages before it, the next one
 *         first; 0: there are no more
 * I1      spare: a number and one more, of pages that this block has given back; next[] of it is
 *         the next one. Lanes take from it by cas, and while they do nobody adds, or writes next:
 *         what was the first once is not so again before the next barrier
 *
 * Progress: a lane waits only for one that is bringing pages, which waits for nobody: not inside a
 * loop of its own, but in rounds of its warp, so that it may be a lane of the same warp.
 */
#ifndef WHI_OPS_CHAINS_H
#define WHI_OPS_CHAINS_H

#include "heap_calls.h"
#include "lists.h"
#include "tiles.h"

/* Words of a block's shared memory. */
enum { TILE_PAGES, TILE_FAILED, TILE_WORDS };

/* What a block knows of rows, a tile of them, that are to have places: of each part, and pages that
 * have been brought. All shared. */
typedef struct tile_places {
    uint64_t *sums;    /* block.h */
    uint64_t *at;      /* the first page */
    uint64_t *pages;   /* brought */
    uint32_t *counts;  /* rows of the tile */
    uint32_t *start;   /* rows of the parts before it */
    uint32_t *first;   /* from where in the first page << 16 | how many places; or tiles.h */
    uint32_t *brought; /* where in `pages` the part's are */
    uint32_t *words;
} tile_places;

/* They begin at `memory`; pages: at most so many are brought. */
WH_FN tile_places places_at(void *memory, uint32_t parts, uint32_t pages) {
    tile_places t;
    t.sums = (uint64_t *)memory;
    t.at = t.sums + WH_BLOCK_SCAN_WORDS;
    t.pages = t.at + parts;
    t.counts = (uint32_t *)(void *)(t.pages + pages);
    t.start = t.counts + parts;
    t.first = t.start + parts;
    t.brought = t.first + parts;
    t.words = t.brought + parts;
    return t;
}

WH_HD uint32_t places_bytes(uint32_t parts, uint32_t pages) {
    return 8 * (WH_BLOCK_SCAN_WORDS + parts + pages) + 16 * parts + 4 * TILE_WORDS;
}

/* Place `at` of part p's rows of this tile, in pages: which page, and *in_page. */
WH_FN unsigned char *page_of_place(const tile_places *t, uint32_t log2, uint32_t p, uint32_t at,
                                   uint32_t *in_page) {
    const uint32_t seg = t->first[p], here = seg & 0xffff;
    if (WH_PLANT(chains_places_first, at < here, at <= here)) {
        *in_page = (seg >> 16) + at;
        return (unsigned char *)(uintptr_t)t->at[p];
    }
    at -= here;
    *in_page = at & ((1u << log2) - 1);
    return (unsigned char *)(uintptr_t)t->pages[t->brought[p] + (at >> log2)];
}

/* A number for a page. I1 */
WH_FN uint32_t take_number(const whi_chains *c) {
    uint32_t spare = c->spare != NULL ? wh_shared_load_u32(c->spare) : 0;
    WH_NO_UNROLL
    while (spare != 0) {
        const uint32_t seen = WH_PLANT(
            chains_i1_spare, wh_shared_cas_u32(c->spare, spare, c->next[spare - 1]), spare);
        if (seen == spare) {
            return spare - 1;
        }
        spare = seen;
    }
    const uint32_t number = wh_fetch_add_u32_relaxed(c->n_pages, 1);
    wh_assert_internal(number < c->most);
    return number;
}

/* A page behind page `last` (0: none); its number, and one more. P2 */
WH_FN uint32_t enter_chain(const whi_chains *c, uint64_t page, uint32_t last) {
    uint32_t link[WHI_LINKS] = {0}, ordinal = 0; /* asked for before the number is known */
    if (last != 0) {
        ordinal = c->ordinal[last - 1] + WH_PLANT(chains_p2_ordinal, 1u, 0u);
        for (uint32_t k = 1; k < WHI_LINKS; k++) {
            const uint32_t of = WH_PLANT(chains_p2_links, k - 1, k);
            link[k] = c->link[(uint64_t)(last - 1) * WHI_LINKS + of];
        }
    }
    link[0] = WH_PLANT(chains_p2_link, last, last != 0 ? last - 1 : 0);
    const uint32_t number = take_number(c);
    c->page[number] = (unsigned char *)(uintptr_t)page;
    c->ordinal[number] = ordinal;
    for (uint32_t k = 0; k < WHI_LINKS; k++) {
        c->link[(uint64_t)number * WHI_LINKS + k] = link[k];
    }
    return number + 1;
}

/* Brings `n` pages behind page *number (0: none); 0: there was no memory for them, and
 * nothing has changed. *number: of the last one, and one more. */
WH_FN int bring(const wh_heap_ref *heap, const whi_chains *c, uint64_t *pages, uint32_t n,
                uint32_t *number) {
    uint32_t got = 0;
    WH_NO_UNROLL
    for (; got < n; got++) {
        unsigned char *page = take_page(heap, c->page_bytes);
        if (page == NULL) {
            break;
        }
        pages[got] = (uint64_t)(uintptr_t)page;
    }
    if (got < n) {
        WH_NO_UNROLL
        while (got != 0) {
            give_page(heap, (void *)(uintptr_t)pages[--got]);
        }
        return 0;
    }
    WH_NO_UNROLL
    for (uint32_t k = 0; k < n; k++) {
        *number = enter_chain(c, pages[k], *number);
    }
    return 1;
}

/* Takes places for n rows of part p; 0: somebody is bringing a page. P1 */
WH_FN int take_places(const wh_heap_ref *heap, const whi_chains *c, const tile_places *t,
                      uint32_t p, uint32_t n) {
    const uint32_t room = 1u << c->page_log2;
    const uint64_t old =
        WH_PLANT_ORDER(chains_p1_take, wh_fetch_add_u64, acq_rel)(&c->cursor[p], n); /* P1 */
    const uint32_t fill = wh_low_u32(old), here = n < room - fill ? n : room - fill;
    uint32_t number = wh_high_u32(old);
    if (WH_PLANT(chains_p1_full, fill > room, 0)) {
        return 0;
    }
    t->first[p] = fill << 16 | here;
    t->at[p] = number != 0 ? (uint64_t)(uintptr_t)c->page[number - 1] : 0;
    if (n > here) {
        const uint32_t pages = (n - here + room - 1) >> c->page_log2;
        t->brought[p] = wh_shared_fetch_add_u32(&t->words[TILE_PAGES], pages);
        if (!bring(heap, c, t->pages + t->brought[p], pages, &number)) {
            WH_PLANT(chains_p1_refused, wh_store_u64_release(&c->cursor[p], old), (void)0);
            t->first[p] = WH_PLANT(chains_nowhere, TILE_NOWHERE, TILE_PLACED);
            WH_PLANT(chains_failed, (void)wh_shared_exchange_u32(&t->words[TILE_FAILED], 1),
                     (void)0);
            return 1;
        }
        const uint32_t in_last =
            n - here - WH_PLANT(chains_p1_last, (pages - 1) << c->page_log2, 0u);
        WH_PLANT_ORDER(chains_p1_bring, wh_store_u64, release)
        (&c->cursor[p], (uint64_t)number << 32 | in_last); /* P1, P2 */
    }
    return 1;
}

/* A place for one row of part p, as a lane of its own takes it; 0: somebody is bringing a page.
 * *page is NULL if there is no memory for one. P1 */
WH_FN int take_place(const wh_heap_ref *heap, const whi_chains *c, uint32_t p, unsigned char **page,
                     uint32_t *in_page) {
    const uint32_t room = 1u << c->page_log2;
    uint64_t brought;
    if (wh_low_u32(wh_load_u64_relaxed(&c->cursor[p])) > room) {
        return 0;
    }
    const uint64_t old =
        WH_PLANT_ORDER(chains_p1_take_one, wh_fetch_add_u64, acq_rel)(&c->cursor[p], 1);
    const uint32_t fill = wh_low_u32(old);
    uint32_t number = wh_high_u32(old);
    if (WH_PLANT(chains_p1_full_one, fill > room, 0)) {
        return 0;
    }
    *in_page = fill % room;
    if (fill < room) {
        *page = c->page[number - 1];
    } else if (bring(heap, c, &brought, 1, &number)) {
        WH_PLANT_ORDER(chains_p1_bring_one, wh_store_u64, release)
        (&c->cursor[p], (uint64_t)number << 32 | WH_PLANT(chains_p1_own, 1u, 0u)); /* P1, P2 */
        *page = (unsigned char *)(uintptr_t)brought;
    } else {
        WH_PLANT(chains_p1_refused_one, wh_store_u64_release(&c->cursor[p], old), (void)0);
        *page = NULL;
    }
    return 1;
}

/* Places for all rows of a tile that counts has. All threads, of which there are as many as parts
 * at least. */
WH_FN void place_tile(const wh_heap_ref *heap, const whi_chains *c, const tile_places *t,
                      uint32_t parts) {
    const uint32_t p = wh_thread_in_block(), n = p < parts ? t->counts[p] : 0;
    int is_done = n == 0, looks = 1;
    if (p < parts) {
        t->first[p] = TILE_PLACED;
    }
    for (uint32_t round = 0; wh_any(WH_FULL_WARP, !is_done); round++) {
        if (!is_done && looks) {
            is_done = take_places(heap, c, t, p, n);
        }
        if (!is_done) {
            wh_backoff(round);
            looks = wh_low_u32(wh_load_u64_relaxed(&c->cursor[p])) <= 1u << c->page_log2;
        }
    }
    WH_PLANT(chains_b1_placed, wh_syncthreads(), (void)0);
}

/* Rows of a chain. */
WH_FN uint64_t rows_of_chain(const whi_chains *c, uint64_t cursor) {
    const uint32_t number = wh_high_u32(cursor);
    return number == 0 ? 0
                       : ((uint64_t)c->ordinal[number - 1] << c->page_log2) +
                             WH_PLANT(chains_rows, wh_low_u32(cursor), 0u);
}

#endif
