/* join_kernels.c: targeted source (compiled per allocator and target): the kernels of a join.
 * partition.h lays rows out in parts, which parts.h has places for, units.h makes units of work of
 * them, probe.h does these. */
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

/* A thread reads so many rows of a table before it uses the first one; looks for so many places
 * before it writes to the first one; and has so many rows of later steps on their way. */
#define ROWS_AHEAD 10u
#define WRITES_AHEAD 4u
#define STEPS_AHEAD 3u

/* Rows of a tile that a thread has, by the width of keys; and blocks that share tiles. */
#if WH_FILE_IS_CUDA
#define TILE_WORDS_EACH 16u
#define BLOCKS_TOGETHER 4u
#else
#define BLOCKS_TOGETHER 2u
#ifdef WH_HOSTILE
#define TILE_WORDS_EACH 2u
#else
#define TILE_WORDS_EACH 4u
#endif
#endif
#define TILE_EACH(key) (TILE_WORDS_EACH * 4 / (uint32_t)sizeof(key))

/* What a probe kernel is for: pairs alone; joins that ask which rows have found a partner; and
 * those that count, or write where all has been counted. Each keeps no more in registers than it
 * needs. */
typedef enum probe_mode { PROBE_INNER, PROBE_SEEN, PROBE_COUNTED } probe_mode;

#include "pages.h"
#include "parts.h"
#include "units.h"

/* What goes with a row, from the 4 bytes that have come along. */
WH_FN void write_value(const whi_side *s, void *column, uint64_t i, uint32_t value) {
    if (s->kind == WH_VALUE_8) {
        ((uint64_t *)column)[i] = ((const uint64_t *)s->value)[value];
    } else {
        ((uint32_t *)column)[i] = value;
    }
}

WH_HD uint32_t tile_rows_bytes(const whi_join *j) {
    return (j->key_bytes + 4) << j->tile_log2;
}

/* Parts that one is split into, at most. */
WH_HD uint32_t most_split(const whi_join *j) {
    const whi_parts *level = j->side[0].level;
    return 1u << (level[0].log2 > level[1].log2 ? level[0].log2 : level[1].log2);
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

WH_FN void begin_parts(const whi_join *j, const whi_parts *s) {
    const uint64_t me = wh_thread_id(), all = wh_grid_threads();
    const uint32_t words = ((1u << s->log2) + 31) / 32;
    for (uint64_t p = me; p < parts_in(s); p += all) {
        s->cursor[p] = j->is_paged ? GROUP_FULL : 0; /* no page: P1 */
        s->rows[p] = 0;
    }
    for (uint64_t b = me; b < j->part_blocks; b += all) {
        s->next_tile[b] = WH_PLANT(join_begin_tile, 0, s->next_tile[b]);
    }
    for (uint64_t i = me; i < (uint64_t)j->part_blocks * words; i += all) {
        s->placed[i] = WH_PLANT(join_begin_placed, 0, s->placed[i]);
    }
}

WH_KERNEL(begin_join, join_args, a) {
    const whi_join *j = &a.j;
    for (uint32_t k = 0; k < 2 * j->levels; k++) {
        begin_parts(j, &j->side[k % 2].level[k / 2]);
    }
    for (uint64_t b = wh_thread_id(); b < j->blocks; b += wh_grid_threads()) {
        j->stops[b].is_stopped = WH_PLANT(join_begin_stops, 0, j->stops[b].is_stopped);
    }
    if (wh_thread_id() == 0) {
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
    drop_pages_of(&a.heap, &a.j.list[a.j.which]);
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
    for (uint32_t k = 0; j->is_paged && k < 2 * j->levels; k++) {
        const whi_parts *s = &j->side[k % 2].level[k / 2];
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
    for (uint32_t k = 0; k < WH_PLANT(join_parts_both, 2 * j->levels, 1u); k++) {
        const whi_parts *s = &j->side[k % 2].level[k / 2];
        for (uint64_t i = wh_thread_id(); i < *s->n_pages; i += wh_grid_threads()) {
            if (s->page[i] != NULL) {
                give_page(&a.heap, s->page[i]);
                s->page[i] = WH_PLANT(join_parts_gone, NULL, s->page[i]);
            }
        }
    }
}

/* --- host side -------------------------------------------------------------------------------- */

/* What the simulated device has is small, so that tests meet every boundary. A block that lays out
 * has as many threads as parts of a level, at least. */
#if WH_FILE_IS_CUDA
#define THREADS 256u
#define PART_THREADS 512u
#define ONE_BLOCK_THREADS 1024u
#define PART_ROWS 2048u /* of the build table, that a part should have */
#define LEVEL_LOG2 9u
#define MOST_PARTS_LOG2 15u /* as can be counted in shared memory */
#define LEAST_CHUNK 64u
#define RANGE 8192u
#else
#define THREADS 64u
#define PART_THREADS 64u
#define ONE_BLOCK_THREADS 64u
#define PART_ROWS 16u
#define LEVEL_LOG2 2u
#define MOST_PARTS_LOG2 4u
#define LEAST_CHUNK 8u
#ifdef WH_HOSTILE
#define RANGE 32u
#else
#define RANGE 96u
#endif
#endif
#define MOST_CHUNK 32768u
#define LEAST_PAGES 4u /* of a tile */
#define FEW_PAGES 4u
#define FIRST_LOG2 2u
#define MOST_FIRST 64u

typedef wh_status (*kernel_fn)(const wh_launch *launch, const join_args *args);

static wh_status start(kernel_fn kernel, wh_heap *heap, void *stream, const whi_join *j,
                       wh_launch l) {
    join_args a;
    memset(&a, 0, sizeof a);
    a.j = *j;
    const wh_status s = wh_heap_handle(heap, &a.heap);
    if (s != WH_OK) {
        return s;
    }
    l.stream = stream;
    return kernel(&l, &a);
}

/* Of layouts, as sorted_at and table_here have them. */
static uint32_t tile_bytes(const whi_join *j) {
    return (sorted_bytes(most_split(j), 1u << j->tile_log2, tile_rows_bytes(j)) + 15) & ~15u;
}

static uint32_t table_bytes(const whi_join *j) {
    const uint32_t bytes = (j->key_bytes + 4 + 2) * j->chunk + (4u << j->heads_log2) +
                           j->range / 8 + 4 * TABLE_WORDS +
                           8 * (pages_of(j, j->chunk) + pages_of(j, j->range));
    return (bytes + 15) & ~15u;
}

#define WIDE(kernel) (j->key_bytes == 4 ? kernel##_4 : kernel##_8)

static wh_status small(kernel_fn kernel, wh_heap *heap, void *stream, const whi_join *j) {
    wh_device *d = wh_heap_device(heap);
    const uint32_t blocks = j->is_sim ? 2 : 4 * wh_device_get_info(d)->n_sms;
    return start(kernel, heap, stream, j, wh_grid(d, blocks, j->part_threads));
}

static wh_status one_block(kernel_fn kernel, wh_heap *heap, void *stream, const whi_join *j) {
    wh_launch l = wh_grid(wh_heap_device(heap), 1, ONE_BLOCK_THREADS);
    l.shared_bytes = 8 * WH_BLOCK_SCAN_WORDS;
    return start(kernel, heap, stream, j, l);
}

static wh_status join_begin(wh_heap *heap, void *stream, const whi_join *j) {
    return small(begin_join, heap, stream, j);
}

static wh_status join_again(wh_heap *heap, void *stream, const whi_join *j) {
    return one_block(go_on, heap, stream, j);
}

static wh_status join_count(wh_heap *heap, void *stream, const whi_join *j) {
    wh_device *d = wh_heap_device(heap);
    wh_launch l = wh_grid(d, wh_device_get_info(d)->n_sms, ONE_BLOCK_THREADS);
    l.shared_bytes = 4u << j->parts_log2;
    return start(WIDE(count_parts), heap, stream, j, l);
}

static wh_status join_partition(wh_heap *heap, void *stream, const whi_join *j) {
    wh_launch l = wh_grid(wh_heap_device(heap), j->part_blocks, j->part_threads);
    l.shared_bytes = tile_bytes(j);
    return start(WIDE(partition), heap, stream, j, l);
}

static wh_status join_order(wh_heap *heap, void *stream, const whi_join *j) {
    const wh_status s = one_block(order_parts, heap, stream, j);
    return s == WH_OK && j->is_paged ? small(order_pages, heap, stream, j) : s;
}

static wh_status join_units(wh_heap *heap, void *stream, const whi_join *j) {
    return one_block(order_units, heap, stream, j);
}

static wh_status join_probe(wh_heap *heap, void *stream, const whi_join *j) {
    wh_launch l = wh_grid(wh_heap_device(heap), j->blocks, j->threads);
    l.shared_bytes = table_bytes(j);
    if (j->is_counting || j->is_writing) {
        return start(WIDE(probe_counted), heap, stream, j, l);
    }
    return start(j->kind == WH_JOIN_INNER ? WIDE(probe_inner) : WIDE(probe_seen), heap, stream, j,
                 l);
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

/* Parts, and a chunk that takes nearly all of them whole, if the device has so much shared memory.
 */
static void size_table(whi_join *j, uint32_t most_bytes) {
    const uint32_t n = j->side[0].n;
    uint32_t most_log2 = MOST_PARTS_LOG2;
    while (4u << most_log2 > most_bytes) { /* of count_parts */
        most_log2--;
    }
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

/* Pages of a part's first group: all, if there are few, so that nobody waits for more. */
static uint32_t first_group(uint32_t expected) {
    const uint32_t share = expected >> FIRST_LOG2, some = share < MOST_FIRST ? share : MOST_FIRST;
    const uint32_t few = expected < FEW_PAGES ? expected : FEW_PAGES;
    return some > few ? some : few;
}

static void size_parts(const whi_join *j, const whi_side *side, whi_parts *s) {
    const uint32_t log2 = s->skip + s->log2, pages = side->n >> j->part_page_log2;
    s->page_log2 = j->part_page_log2;
    s->page_bytes = (j->key_bytes + 4) << j->part_page_log2;
    s->ahead = j->is_paged ? first_group(pages >> log2) : 0;
    /* as ask_for_group has it: a part may have half more than it needs, or its first group */
    s->most = pages + (j->is_paged ? (pages >> GROW_LOG2) + 2 : 0) + ((1 + s->ahead) << log2);
}

/* Pages of parts: a tile has some. */
static void size_pages(whi_join *j) {
    while (PART_THREADS * TILE_WORDS_EACH >> j->part_page_log2 < LEAST_PAGES * j->key_bytes / 4) {
        j->part_page_log2--;
    }
}

/* Levels of parts, and tiles: whole pages, but no more than a warp brings at a time. */
static void size_levels(whi_join *j, uint32_t most_bytes) {
    const uint32_t words = j->key_bytes / 4;
    j->tile_log2 = j->part_page_log2;
    while (PART_THREADS * TILE_WORDS_EACH >> j->tile_log2 >= 2 * words &&
           j->tile_log2 < j->part_page_log2 + TILE_PAGES_LOG2) {
        j->tile_log2++;
    }
    j->levels = j->parts_log2 > LEVEL_LOG2 ? 2 : 1;
    for (uint32_t k = 0; k < 2; k++) {
        whi_parts *level = j->side[k].level;
        level[0].log2 = (j->parts_log2 + j->levels - 1) / j->levels;
        level[1].skip = level[0].log2;
        level[1].log2 = j->parts_log2 - level[0].log2;
        for (uint32_t l = 0; l < j->levels; l++) {
            size_parts(j, &j->side[k], &level[l]);
        }
    }
    while (tile_bytes(j) > most_bytes && j->tile_log2 > j->part_page_log2) {
        j->tile_log2--;
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
    j->part_threads = PART_THREADS;
    size_pages(j);
    size_table(j, info->shared_bytes);
    size_levels(j, info->shared_bytes);
    wh_status s;
    if (j->key_bytes == 4) {
        s = WH_KERNEL_OCCUPANCY(partition_4, device, j->part_threads, tile_bytes(j), &part_blocks);
        s = s == WH_OK
                ? WH_KERNEL_OCCUPANCY(probe_seen_4, device, j->threads, table_bytes(j), &blocks)
                : s;
    } else {
        s = WH_KERNEL_OCCUPANCY(partition_8, device, j->part_threads, tile_bytes(j), &part_blocks);
        s = s == WH_OK
                ? WH_KERNEL_OCCUPANCY(probe_seen_8, device, j->threads, table_bytes(j), &blocks)
                : s;
    }
    const uint64_t units =
        ((uint64_t)1 << j->parts_log2) + j->side[1].n / j->range + j->side[0].n / j->chunk;
    const uint32_t n = j->side[0].n > j->side[1].n ? j->side[0].n : j->side[1].n;
    const uint64_t tiles = ((uint64_t)n >> j->tile_log2) + (1u << j->side[0].level[0].log2);
    j->part_blocks = at_most(tiles, part_blocks);
    j->blocks = at_most(units, blocks);
    j->saved_bytes = table_bytes(j);
    return s;
}

WH_TABLE(whi_join_kernels) = {
    WH_OF_(NAME), join_begin,   join_again, join_count,      join_partition, join_order, join_units,
    join_probe,   join_compact, join_drop,  join_drop_parts, join_rebase,    join_size,
};
