/* join_kernels.c: targeted source (compiled per allocator and target): the kernels of a join.
 * partition.h lays rows out in parts, units.h makes units of work of them, probe.h does these. */
#define WH_KERNEL_THREADS 1024

#include "join.h"

#include <string.h>

#include "warpheap/core/block.h"
#include "warpheap/core/hash.h"
#include "warpheap/detail/alloc/tables.h"
#include "warpheap/warpheap.h"

typedef struct join_args {
    wh_heap_ref heap;
    whi_join j;
} join_args;

/* Words of a block's shared memory. */
enum { TABLE_STOPPED, TABLE_ROWS, TABLE_WORDS };

/* Places in a chain. Entries have 16 bits. */
#define CHAIN_END 0xffffu
#define CHAIN_START 0x10000u

/* A thread reads so many rows of a table before it uses the first one. */
#define ROWS_AHEAD 8u

#include "chains.h"
#include "pages.h"
#include "units.h"

/* What goes with a row, from the 4 bytes that have come along. */
WH_FN void write_value(const whi_side *s, void *column, uint64_t i, uint32_t value) {
    if (s->kind == WH_VALUE_8) {
        ((uint64_t *)column)[i] = ((const uint64_t *)s->value)[value];
    } else {
        ((uint32_t *)column)[i] = value;
    }
}

/* How many pages a tile brings at most. */
WH_HD uint32_t tile_pages(const whi_join *j) {
    return (j->tile >> j->part_page_log2) + (1u << j->parts_log2);
}

WH_FN tile_places tile_here(const whi_join *j) {
    return places_at(wh_shared(), 1u << j->parts_log2, tile_pages(j));
}

/* A side's parts, as chains. */
WH_FN whi_chains chains_of(const whi_join *j, const whi_side *s) {
    whi_chains c;
    c.cursor = s->cursor;
    c.page = s->page;
    c.part = s->part;
    c.ordinal = s->ordinal;
    c.n_pages = s->n_pages;
    c.link = c.spare = c.next = NULL;
    c.most = (s->n >> j->part_page_log2) + (1u << j->parts_log2);
    c.page_log2 = j->part_page_log2;
    c.page_bytes = part_page_bytes(j);
    return c;
}

/* Places where all rows have been counted. */
WH_FN void place_counted(const whi_side *s, const tile_places *t, uint32_t parts) {
    for (uint32_t p = wh_thread_in_block(); p < parts; p += wh_block_threads()) {
        const uint32_t n = t->counts[p];
        t->counts[p] = 0;
        t->first[p] = n != 0 ? 0 : TILE_PLACED;
        if (n != 0) {
            t->at[p] = wh_fetch_add_u64_relaxed(&s->cursor[p], n);
        }
    }
    wh_syncthreads();
}

/* WH_KERNEL of a name of the width. */
#define OPS_KERNEL(name, args_t, a) OPS_KERNEL_(OF(name), args_t, a)
#define OPS_KERNEL_(name, args_t, a) WH_KERNEL(name, args_t, a)

#define KEY uint32_t
#define OF(name) name##_4
#include "rows.h"
#include "partition.h"
#include "probe.h"
#undef KEY
#undef OF
#define KEY uint64_t
#define OF(name) name##_8
#include "rows.h"
#include "partition.h"
#include "probe.h"
#undef KEY
#undef OF

/* --- what is the same for all widths -----------------------------------------------------------
 */

WH_KERNEL(begin_join, join_args, a) {
    const whi_join *j = &a.j;
    const uint64_t me = wh_thread_id(), all = wh_grid_threads();
    const uint32_t room = 1u << j->part_page_log2, words = (parts_of(j) + 31) / 32;
    for (uint32_t k = 0; k < 2; k++) {
        const whi_side *s = &j->side[k];
        for (uint64_t p = me; p < parts_of(j); p += all) {
            s->cursor[p] = room; /* no page, and full: P1 */
            s->rows[p] = 0;
        }
        for (uint64_t b = me; b < j->part_blocks; b += all) {
            s->next_tile[b] = WH_PLANT(join_begin_tile, (uint32_t)b, s->next_tile[b]);
        }
        for (uint64_t i = me; i < (uint64_t)j->part_blocks * words; i += all) {
            s->placed[i] = WH_PLANT(join_begin_placed, 0, s->placed[i]);
        }
    }
    for (uint64_t b = me; b < j->blocks; b += all) {
        j->stops[b].is_stopped = WH_PLANT(join_begin_stops, 0, j->stops[b].is_stopped);
    }
    if (me == 0) {
        memset(j->state, 0, sizeof *j->state);
    }
}

WH_KERNEL(go_on, join_args, a) {
    if (wh_thread_id() == 0) {
        a.j.state->is_full = 0;
    }
}

WH_KERNEL(clear_written, join_args, a) {
    if (wh_thread_id() == 0) {
        a.j.state->written = WH_PLANT(join_written, 0, a.j.state->written);
    }
}

WH_KERNEL(compact_list, join_args, a) {
    compact_pages(&a.j.list[a.j.which], &a.j.shape, a.j.columns, &a.j.state->written);
}

WH_KERNEL(drop_list, join_args, a) {
    drop_pages_of(a.heap, &a.j.list[a.j.which]);
}

WH_KERNEL(clear_list, join_args, a) {
    if (wh_thread_id() == 0) {
        *a.j.list[a.j.which].n = 0;
        *a.j.list[a.j.which].n_rows = 0;
    }
}

/* The heap has moved, and all pages with it: those of lists, and of parts. Blocks that have stopped
 * know places in parts, not pages. */
WH_KERNEL(rebase_pages, join_args, a) {
    const whi_join *j = &a.j;
    const uint64_t me = wh_thread_id(), all = wh_grid_threads();
    for (uint32_t k = 0; k < WH_JOIN_LISTS; k++) {
        const whi_page_list *l = &j->list[k];
        for (uint64_t i = me; l->page != NULL && i < *l->n; i += all) {
            l->page[i] = j->old_page[k][i] + j->moved;
            l->rows[i] = j->old_rows[k][i];
        }
    }
    for (uint32_t k = 0; j->is_paged && k < 2; k++) {
        const whi_side *s = &j->side[k];
        for (uint64_t i = me; i < *s->n_pages; i += all) {
            s->page[i] += s->page[i] != NULL ? j->moved : 0;
        }
    }
}

/* Pages of parts that no unit has given back, unless they are still needed. */
WH_KERNEL(drop_parts, join_args, a) {
    const whi_join *j = &a.j;
    if (WH_PLANT(join_parts_needed, wh_load_u32_relaxed(&j->state->is_full) != 0, 0)) {
        return;
    }
    for (uint32_t k = 0; k < WH_PLANT(join_parts_both, 2u, 1u); k++) {
        const whi_side *s = &j->side[k];
        for (uint64_t i = wh_thread_id(); i < *s->n_pages; i += wh_grid_threads()) {
            if (s->page[i] != NULL) {
                give_page(a.heap, s->page[i]);
                s->page[i] = WH_PLANT(join_parts_gone, NULL, s->page[i]);
            }
        }
    }
}

/* --- host side -------------------------------------------------------------------------------- */

typedef wh_status (*kernel_fn)(const wh_launch *launch, const join_args *args);

static wh_status start(kernel_fn kernel, wh_heap *heap, void *stream, const whi_join *j,
                       uint32_t blocks, uint32_t shared_bytes) {
    join_args a;
    memset(&a, 0, sizeof a);
    a.j = *j;
    const wh_status s = wh_heap_handle(heap, &a.heap);
    if (s != WH_OK) {
        return s;
    }
    wh_launch l = wh_grid(wh_heap_device(heap), blocks, j->threads);
    l.stream = stream;
    l.shared_bytes = shared_bytes;
    return kernel(&l, &a);
}

/* Of layouts, as tile_here and table_here have them. */
static uint32_t tile_bytes(const whi_join *j) {
    return places_bytes(1u << j->parts_log2, tile_pages(j));
}

static uint32_t table_bytes(const whi_join *j) {
    const uint32_t bytes =
        (j->key_bytes + 4 + 2) * j->chunk + (4u << j->heads_log2) + j->range / 8 + 4 * TABLE_WORDS;
    return (bytes + 15) & ~15u;
}

#define WIDE(kernel) (j->key_bytes == 4 ? kernel##_4 : kernel##_8)

static wh_status small(kernel_fn kernel, wh_heap *heap, void *stream, const whi_join *j) {
    const uint32_t blocks = j->is_sim ? 2 : 4 * wh_device_get_info(wh_heap_device(heap))->n_sms;
    return start(kernel, heap, stream, j, blocks, 0);
}

static wh_status one_block(kernel_fn kernel, wh_heap *heap, void *stream, const whi_join *j) {
    return start(kernel, heap, stream, j, 1, 8 * WH_BLOCK_SCAN_WORDS);
}

static wh_status join_begin(wh_heap *heap, void *stream, const whi_join *j) {
    return small(begin_join, heap, stream, j);
}

static wh_status join_again(wh_heap *heap, void *stream, const whi_join *j) {
    return one_block(go_on, heap, stream, j);
}

static wh_status join_count(wh_heap *heap, void *stream, const whi_join *j) {
    return start(WIDE(count_parts), heap, stream, j, j->part_blocks, tile_bytes(j));
}

static wh_status join_lay(wh_heap *heap, void *stream, const whi_join *j) {
    return one_block(lay_parts, heap, stream, j);
}

static wh_status join_partition(wh_heap *heap, void *stream, const whi_join *j) {
    return start(WIDE(partition), heap, stream, j, j->part_blocks, tile_bytes(j));
}

static wh_status join_order(wh_heap *heap, void *stream, const whi_join *j) {
    const wh_status s = one_block(order_parts, heap, stream, j);
    return s == WH_OK && j->is_paged ? small(order_pages, heap, stream, j) : s;
}

static wh_status join_probe(wh_heap *heap, void *stream, const whi_join *j) {
    return start(WIDE(probe), heap, stream, j, j->blocks, table_bytes(j));
}

static wh_status join_compact(wh_heap *heap, void *stream, const whi_join *j) {
    const wh_status s = one_block(clear_written, heap, stream, j);
    return s == WH_OK ? small(compact_list, heap, stream, j) : s;
}

static wh_status join_drop(wh_heap *heap, void *stream, const whi_join *j) {
    const wh_status s = small(drop_list, heap, stream, j);
    return s == WH_OK ? one_block(clear_list, heap, stream, j) : s;
}

static wh_status join_drop_parts(wh_heap *heap, void *stream, const whi_join *j) {
    return small(drop_parts, heap, stream, j);
}

static wh_status join_rebase(wh_heap *heap, void *stream, const whi_join *j) {
    return small(rebase_pages, heap, stream, j);
}

/* --- sizes -------------------------------------------------------------------------------------
 */

/* What the simulated device has is small, so that tests meet every boundary. */
#if WH_FILE_IS_CUDA
#define THREADS 1024u
#define TILE 32768u
#define PART_ROWS 8192u /* of the build table, that a part should have */
#define LEAST_CHUNK 512u
#define RANGE 16384u
#else
#define THREADS 64u
#define PART_ROWS 16u
#define LEAST_CHUNK 8u
#ifdef WH_HOSTILE
#define TILE 64u
#define RANGE 32u
#else
#define TILE 256u
#define RANGE 96u
#endif
#endif
#define MOST_CHUNK 32768u

/* Parts, and a chunk that takes most of them whole, if the device has so much shared memory. */
static void size_table(whi_join *j, uint32_t most_bytes) {
    const uint32_t n = j->side[0].n, most_log2 = j->is_sim ? 3 : WHI_MOST_PARTS_LOG2;
    j->parts_log2 = 0;
    while (j->parts_log2 < most_log2 && n >> j->parts_log2 > PART_ROWS) {
        j->parts_log2++;
    }
    const uint32_t rows = n >> j->parts_log2, want = rows + rows / 8 + LEAST_CHUNK;
    j->range = RANGE;
    j->chunk = (want < MOST_CHUNK ? want : MOST_CHUNK) & ~7u;
    do {
        j->heads_log2 = 3;
        while (2u << j->heads_log2 < j->chunk) {
            j->heads_log2++;
        }
        if (table_bytes(j) <= most_bytes) {
            break;
        }
        j->chunk = j->chunk * 7 / 8 & ~7u;
    } while (j->chunk > LEAST_CHUNK);
}

static void size_tile(whi_join *j, uint32_t most_bytes) {
    const uint32_t n = j->side[0].n > j->side[1].n ? j->side[0].n : j->side[1].n;
    j->tile = TILE;
    while (j->tile > 1024 && !j->is_sim && (n / j->tile < 128 || tile_bytes(j) > most_bytes)) {
        j->tile /= 2;
    }
}

static uint32_t at_most(uint64_t n, uint32_t most) {
    const uint32_t some = n < most ? (uint32_t)n : most;
    return some != 0 ? some : 1;
}

static wh_status join_size(wh_device *device, whi_join *j) {
    const wh_device_info *info = wh_device_get_info(device);
    uint32_t part_blocks = 1, blocks = 1;
    j->is_sim = info->target == WH_TARGET_SIM;
    j->threads = THREADS;
    size_table(j, info->shared_bytes);
    size_tile(j, info->shared_bytes);
    wh_status s;
    if (j->key_bytes == 4) {
        s = WH_KERNEL_OCCUPANCY(partition_4, device, j->threads, tile_bytes(j), &part_blocks);
        s = s == WH_OK ? WH_KERNEL_OCCUPANCY(probe_4, device, j->threads, table_bytes(j), &blocks)
                       : s;
    } else {
        s = WH_KERNEL_OCCUPANCY(partition_8, device, j->threads, tile_bytes(j), &part_blocks);
        s = s == WH_OK ? WH_KERNEL_OCCUPANCY(probe_8, device, j->threads, table_bytes(j), &blocks)
                       : s;
    }
    const uint64_t units =
        ((uint64_t)1 << j->parts_log2) + j->side[1].n / j->range + j->side[0].n / j->chunk;
    const uint32_t n = j->side[0].n > j->side[1].n ? j->side[0].n : j->side[1].n;
    j->part_blocks = at_most(n / j->tile + 1, part_blocks);
    j->blocks = at_most(units, blocks);
    j->saved_bytes = table_bytes(j);
    return s;
}

WH_TABLE(whi_join_kernels) = {
    WH_OF_(NAME),    join_begin,  join_again, join_count,   join_lay,
    join_partition,  join_order,  join_probe, join_compact, join_drop,
    join_drop_parts, join_rebase, join_size,
};
