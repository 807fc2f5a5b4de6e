/* snapshot.c: marks, and live blocks by place and size (warpheap/snapshot.h). */
#include "warpheap/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "last_error.h"
#include "nvtx_internal.h"
#include "scan.h"
#include "try.h"

#define MOST_MARKS (((uint64_t)1 << 22) - 1) /* the bits that a block has for it */

wh_status whi_heap_next_mark(wh_heap *heap) {
    unsigned char *room = heap->watch.room;
    const uint64_t next = heap->mark + 1;
    if (next > MOST_MARKS) {
        return whi_refuse(WH_UNSUPPORTED,
                          "the heap has had %" PRIu64 " marks, and has numbers for no more",
                          MOST_MARKS);
    }
    if (heap->watch.checked != 0) {
        TRY(wh_device_copy_in(heap->device, room + heap->watch.mark_offset, &next, sizeof next));
    }
    heap->mark = next;
    return WH_OK;
}

static wh_status wants_checked(const wh_heap *heap) {
    return heap->watch.checked != 0
               ? WH_OK
               : whi_refuse(WH_UNSUPPORTED,
                            "the heap is not checked, so its blocks do not say when they were "
                            "allocated: create it with the option tessera.checked, or save two "
                            "snapshots and compare them (`warpheap diff`)");
}

wh_status wh_heap_mark(wh_heap *heap, uint64_t *mark) {
    WHI_RANGE("wh_heap_mark");
    whi_forget_error();
    if (heap == NULL || mark == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *mark = 0;
    TRY(wants_checked(heap));
    TRY(whi_heap_settle(heap));
    TRY(whi_heap_next_mark(heap));
    *mark = heap->mark;
    return WH_OK;
}

/* --- leaks ------------------------------------------------------------------------------------ */

typedef struct tally {
    whi_pairs pairs;
    wh_leak *leaks; /* of each pair */
    uint64_t room, n;
    uint64_t since;
} tally;

static wh_status count(void *context, const wh_snapshot_block *b) {
    tally *t = context;
    uint64_t k = 0;
    if (t->since != 0 && (b->mark == WH_UNKNOWN || b->mark < t->since)) {
        return WH_OK;
    }
    TRY(whi_pairs_find(&t->pairs, b->site, b->bytes, &k));
    if (t->pairs.n > t->room) {
        t->room = 2 * t->room + 64;
        wh_leak *more = realloc(t->leaks, (size_t)t->room * sizeof *more);
        t->leaks = more != NULL ? more : t->leaks;
        TRY(more != NULL ? WH_OK : WH_OUT_OF_MEMORY);
    }
    wh_leak *l = &t->leaks[k];
    if (t->pairs.n > t->n) {
        t->n = t->pairs.n;
        memset(l, 0, sizeof *l);
        l->bytes = b->bytes;
        l->address = b->address;
        l->block = b->block;
        l->thread = b->thread;
    }
    l->blocks++;
    l->total += b->bytes;
    return WH_OK;
}

static int by_place(const void *a, const void *b) {
    const wh_leak *x = a, *y = b;
    const int files = strcmp(x->site.file, y->site.file);
    if (files != 0) {
        return files;
    }
    if (x->site.line != y->site.line) {
        return x->site.line < y->site.line ? -1 : 1;
    }
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int by_total(const void *a, const void *b) {
    const wh_leak *x = a, *y = b;
    if (x->total != y->total) {
        return x->total > y->total ? -1 : 1;
    }
    return by_place(a, b);
}

/* A line of a header may have several sites: each file that includes it has a name of its own. */
static void join_places(tally *t) {
    uint64_t n = 0;
    qsort(t->leaks, (size_t)t->n, sizeof *t->leaks, by_place);
    for (uint64_t i = 0; i < t->n; i++) {
        wh_leak *last = &t->leaks[n != 0 ? n - 1 : 0], *l = &t->leaks[i];
        if (n == 0 || by_place(last, l) != 0) {
            t->leaks[n++] = *l;
            continue;
        }
        last->blocks += l->blocks;
        last->total += l->total;
        if (l->address < last->address) {
            last->address = l->address;
            last->block = l->block;
            last->thread = l->thread;
        }
    }
    t->n = n;
    qsort(t->leaks, (size_t)t->n, sizeof *t->leaks, by_total);
}

static wh_status name_places(whi_scan *scan, tally *t) {
    uint64_t *sites = malloc((size_t)t->n * sizeof *sites + 1);
    wh_record_site *texts = malloc((size_t)t->n * sizeof *texts + 1);
    wh_status s = sites != NULL && texts != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    for (uint64_t i = 0; s == WH_OK && i < t->n; i++) {
        sites[i] = t->pairs.pairs[i].site;
    }
    s = s == WH_OK ? whi_scan_sites(scan, sites, texts, t->n) : s;
    for (uint64_t i = 0; s == WH_OK && i < t->n; i++) {
        t->leaks[i].site = texts[i];
    }
    free(sites);
    free(texts);
    return s;
}

static wh_status tally_blocks(wh_heap *heap, tally *t) {
    whi_forget_error();
    whi_scan scan;
    TRY(whi_scan_open(&scan, heap));
    wh_status s = whi_scan_blocks(&scan, count, t);
    s = s == WH_OK && t->n != 0 ? name_places(&scan, t) : s;
    whi_scan_close(&scan);
    return s;
}

wh_status wh_heap_leaks(wh_heap *heap, uint64_t since, wh_leak *leaks, size_t leak_bytes,
                        uint32_t room, uint32_t *n) {
    WHI_RANGE("wh_heap_leaks");
    if (heap == NULL || n == NULL || (leaks == NULL && room != 0)) {
        return WH_BAD_ARGUMENT;
    }
    *n = 0;
    if (leak_bytes != sizeof *leaks) {
        return whi_refuse(WH_WRONG_BUILD,
                          "a wh_leak of %zu bytes is none that this library knows (its own has "
                          "%zu)",
                          leak_bytes, sizeof *leaks);
    }
    TRY(since != 0 ? wants_checked(heap) : WH_OK);
    if (since > heap->mark) {
        return whi_refuse(WH_BAD_ARGUMENT,
                          "mark %" PRIu64 " has not been made: the last one is %" PRIu64, since,
                          heap->mark);
    }
    tally t;
    memset(&t, 0, sizeof t);
    t.since = since;
    const wh_status s = tally_blocks(heap, &t);
    if (s == WH_OK && t.n != 0) {
        join_places(&t);
        for (uint64_t i = 0; i < t.n && i < room; i++) {
            leaks[i] = t.leaks[i];
        }
        *n = t.n < UINT32_MAX ? (uint32_t)t.n : UINT32_MAX;
    }
    whi_pairs_drop(&t.pairs);
    free(t.leaks);
    return s;
}

const char *wh_leak_text(const wh_leak *leak, char *text, size_t room) {
    char place[80] = "unknown place", who[80] = "";
    if (text == NULL || room == 0) {
        return "";
    }
    text[0] = '\0';
    if (leak == NULL) {
        return text;
    }
    if (leak->site.file[0] != '\0') {
        (void)snprintf(place, sizeof place, "%.*s:%" PRIu32, (int)sizeof leak->site.file - 1,
                       leak->site.file, leak->site.line);
    } else if (leak->site.line != 0) {
        (void)snprintf(place, sizeof place, "tag %" PRIu32, leak->site.line);
    }
    if (leak->thread != WH_UNKNOWN) {
        (void)snprintf(who, sizeof who, " by block %" PRIu64 ", thread %" PRIu64, leak->block,
                       leak->thread);
    }
    (void)snprintf(text, room,
                   "%s: %" PRIu64 " bytes in %" PRIu64 " %s of %" PRIu64 "; one at 0x%" PRIx64 "%s",
                   place, leak->total, leak->blocks, leak->blocks == 1 ? "block" : "blocks",
                   leak->bytes, leak->address, who);
    return text;
}
