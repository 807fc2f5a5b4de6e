/* group_kernels.c: targeted source (compiled per allocator and target): the kernels of a group-by.
 * group_table.h has the tables that rows are added up in, group_steps.h what blocks do with them,
 * group_two_pass.h what they do without the heap.
 *
 * There are four of each: for keys and values of 4 and 8 bytes. What is added up, and whether
 * values are integers, are switches that all rows take the same way: some instructions of the
 * hundred that a row costs. Two blocks of 512 threads are to be on an SM, or one of 1024: the
 * kernels are compiled for 1024, with 64 registers. */
#define WH_KERNEL_THREADS 1024

#include "group.h"

#include <string.h>

#include "warpheap/core/block.h"
#include "warpheap/core/hash.h"
#include "warpheap/detail/alloc/tables.h"
#include "warpheap/warpheap.h"

typedef struct group_args {
    wh_heap_ref heap;
    whi_group g;
} group_args;

#include "group_blocks.h"

/* Rows that a thread puts in order of their parts at a time, and that it writes at a time. */
#if WH_FILE_IS_CUDA
#define EACH_BYTES 32u
#define WRITES_AHEAD 4u
#else
#define EACH_BYTES 8u
#define WRITES_AHEAD 2u
#endif
#define EACH (EACH_BYTES / (uint32_t)sizeof(KEY))

/* two-pass: a word of a block more, how many groups its part has had in tables. fetch_add */
enum { GROUP_FOUND = GROUP_WORDS };

/* How large a table so many rows may need. */
WH_FN uint32_t slots_for(const whi_group_shape *s, uint32_t rows) {
    uint32_t slots = 8;
    while (slots < s->slots && slots / 2 < rows) {
        slots *= 2;
    }
    return slots;
}

/* two-pass: the next part. All threads. */
WH_FN uint32_t take_part(const whi_group *g) {
    uint32_t p = 0;
    if (wh_thread_in_block() == 0) {
        p = wh_fetch_add_u32_relaxed(&g->state->next_part, 1);
    }
    return (uint32_t)wh_block_broadcast_u64(p, 0);
}

/* Types, names and calls of the width that is being compiled. */
#define UINT_(bits) WH_CAT(WH_CAT(uint, bits), _t)
#define KEY UINT_(KEY_BITS)
#define VALUE UINT_(VALUE_BITS)
#define OF(name) WH_CAT(WH_CAT(WH_CAT(name##_, KEY_BITS), _), VALUE_BITS)
#define KEY_OP(op) WH_CAT(wh_shared_##op##_u, KEY_BITS)
#define VALUE_OP(op) WH_CAT(wh_shared_##op##_u, VALUE_BITS)
#define VALUE_SHUFFLE WH_CAT(wh_shfl_u, VALUE_BITS)
#define OPS_KERNEL(name, args_t, a) OPS_KERNEL_(OF(name), args_t, a)
#define OPS_KERNEL_(name, args_t, a) WH_KERNEL(name, args_t, a)

#define KEY_BITS 32
#define VALUE_BITS 32
#include "group_width.h"
#define KEY_BITS 32
#define VALUE_BITS 64
#include "group_width.h"
#define KEY_BITS 64
#define VALUE_BITS 32
#include "group_width.h"
#define KEY_BITS 64
#define VALUE_BITS 64
#include "group_width.h"

#define VALUE_BITS any
#define KEY_BITS 32
#include "group_lists.h"
#undef KEY_BITS
#define KEY_BITS 64
#include "group_lists.h"

/* --- what is the same for all widths -----------------------------------------------------------
 */

WH_KERNEL(begin_group, group_args, a) {
    const whi_group *g = &a.g;
    const uint64_t me = wh_thread_id(), all = wh_grid_threads();
    for (uint64_t k = 0; k < GROUP_KINDS; k++) {
        const uint64_t room = (uint64_t)1 << g->layout[k].page_log2; /* no page, and full */
        const uint64_t chains = (uint64_t)g->strands << g->parts_log2;
        const uint64_t fan = (uint64_t)1 << g->fan_log2;
        for (uint64_t p = me; p < chains; p += all) {
            g->chains.cursor[k * chains + p] = room;
        }
        for (uint64_t p = me; p < g->shape[1].blocks * fan; p += all) {
            uint64_t *cursor = &g->child_cursor[(p / fan * GROUP_KINDS + k) * fan + p % fan];
            *cursor = WH_PLANT(group_begin_children, room, *cursor);
        }
    }
    for (uint32_t k = 0; k < 2; k++) {
        for (uint64_t b = me; b < g->shape[k].blocks; b += all) {
            g->stage[k][b] = WH_PLANT(group_begin_stage, GROUP_FRESH, g->stage[k][b]);
        }
    }
    if (me == 0) {
        memset(g->state, 0, sizeof *g->state);
    }
}

WH_KERNEL(group_again, group_args, a) {
    if (wh_thread_id() == 0) {
        a.g.state->is_full = 0;
    }
}

WH_KERNEL(clear_written, group_args, a) {
    if (wh_thread_id() == 0) {
        a.g.state->written = WH_PLANT(group_written, 0, a.g.state->written);
    }
}

WH_KERNEL(compact_list, group_args, a) {
    compact_pages(&a.g.list, &a.g.out, a.g.columns, &a.g.state->written);
}

WH_KERNEL(drop_list, group_args, a) {
    drop_pages_of(&a.heap, &a.g.list);
}

WH_KERNEL(clear_list, group_args, a) {
    if (wh_thread_id() == 0) {
        *a.g.list.n = 0;
        *a.g.list.n_rows = 0;
    }
}

/* The heap has moved, and all pages with it: those of the list, of chains, and those that blocks
 * which have stopped are at. */
WH_KERNEL(rebase_pages, group_args, a) {
    const whi_group *g = &a.g;
    const uint64_t me = wh_thread_id(), all = wh_grid_threads();
    for (uint64_t i = me; !g->is_paper && i < *g->list.n; i += all) {
        g->list.page[i] = g->old_page[i] + WH_PLANT(group_rebase_list, g->moved, 0);
        g->list.rows[i] = g->old_rows[i];
    }
    for (uint64_t i = me; i < *g->chains.n_pages; i += all) {
        g->chains.page[i] +=
            g->chains.page[i] != NULL ? WH_PLANT(group_rebase_chains, g->moved, 0) : 0;
    }
    for (uint64_t b = me; b < g->shape[1].blocks; b += all) {
        unsigned char *saved = g->saved + b * g->shape[1].bytes;
        uint64_t *page = (uint64_t *)(void *)(saved + g->shape[1].page);
        if (g->stage[1][b] == GROUP_STOPPED) {
            for (uint32_t i = 0; i < ((uint32_t *)(void *)saved)[GROUP_PAGES]; i++) {
                page[i] += (uint64_t)WH_PLANT(group_rebase_saved, g->moved, 0);
            }
        }
    }
}

/* Pages of groups' lists that are still there. */
WH_KERNEL(drop_lists, group_args, a) {
    const whi_group *g = &a.g;
    const uint64_t all = wh_grid_threads();
    for (uint64_t k = g->state->old_lists + wh_thread_id(); k < g->state->n_lists; k += all) {
        uint32_t current = g->list_last[k] + 1;
        WH_NO_UNROLL
        while (current != 0) {
            give_page(&a.heap, g->chains.page[current - 1]);
            g->chains.page[current - 1] =
                WH_PLANT(group_lists_gone, NULL, g->chains.page[current - 1]);
            current = g->chains.link[(uint64_t)(current - 1) * WHI_LINKS];
        }
    }
}

WH_KERNEL(clear_lists, group_args, a) {
    if (wh_thread_id() == 0) {
        a.g.state->old_lists = WH_PLANT(group_lists_old, a.g.state->n_lists, 0);
    }
}

/* Pages of chains that nobody has read. */
WH_KERNEL(drop_chains, group_args, a) {
    const whi_chains *c = &a.g.chains;
    for (uint64_t i = wh_thread_id(); i < *c->n_pages; i += wh_grid_threads()) {
        if (WH_PLANT(group_chains_left, c->page[i] != NULL, 0)) {
            give_page(&a.heap, c->page[i]);
            c->page[i] = NULL;
        }
    }
}

WH_KERNEL(begin_two_pass, group_args, a) {
    const whi_group *g = &a.g;
    for (uint64_t p = wh_thread_id(); p < 1u << g->parts_log2; p += wh_grid_threads()) {
        g->part_first[p] = 0;
    }
    if (wh_thread_id() == 0) {
        memset(g->state, 0, sizeof *g->state);
    }
}

/* Each v[k] of n becomes the sum of those before it, and v[n] of all. All threads of a block. */
WH_FN void sum_up(uint32_t *v, uint32_t n) {
    uint64_t before = 0, all;
    for (uint32_t first = 0; first < n; first += wh_block_threads()) {
        const uint32_t k = first + wh_thread_in_block();
        const uint32_t here = k < n ? v[k] : 0;
        const uint64_t up_to = wh_block_scan_u64((uint64_t *)wh_shared(), here, &all);
        if (k < n) {
            v[k] = (uint32_t)(before + up_to - here);
        }
        before += all;
    }
    if (wh_thread_in_block() == 0) {
        v[n] = (uint32_t)before;
    }
    wh_syncthreads();
}

/* Where parts begin, from their rows. One block. */
WH_KERNEL(lay_parts, group_args, a) {
    const whi_group *g = &a.g;
    const uint32_t parts = 1u << g->parts_log2;
    sum_up(g->part_first, parts);
    for (uint32_t p = wh_thread_in_block(); p < parts; p += wh_block_threads()) {
        g->part_next[p] = g->part_first[p];
    }
}

/* Where groups of parts begin, from their numbers. One block. */
WH_KERNEL(lay_groups, group_args, a) {
    const whi_group *g = &a.g;
    const uint32_t parts = 1u << g->parts_log2;
    sum_up(g->part_groups, parts);
    if (wh_thread_in_block() == 0) {
        g->state->list_rows = g->part_groups[parts];
        g->state->next_part = 0; /* for the second pass */
    }
}

/* --- host side -------------------------------------------------------------------------------- */

typedef wh_status (*kernel_fn)(const wh_launch *launch, const group_args *args);

static wh_status start(kernel_fn kernel, wh_heap *heap, void *stream, const whi_group *g,
                       wh_launch l) {
    group_args a;
    memset(&a, 0, sizeof a);
    a.g = *g;
    const wh_status s = wh_heap_handle(heap, &a.heap);
    if (s != WH_OK) {
        return s;
    }
    l.stream = stream;
    return kernel(&l, &a);
}

static wh_status small(kernel_fn kernel, wh_heap *heap, void *stream, const whi_group *g) {
    const uint32_t blocks = g->is_sim ? 2 : 4 * wh_device_get_info(wh_heap_device(heap))->n_sms;
    return start(kernel, heap, stream, g, wh_grid(wh_heap_device(heap), blocks, g->threads));
}

/* The kernel of the widths: table, nodes. */
#define WIDE(g, kernel) ((g)->value_bytes == 8 ? WIDE_((g), kernel, 64) : WIDE_((g), kernel, 32))
#define WIDE_(g, kernel, bits) ((g)->key_bytes == 8 ? kernel##_64_##bits : kernel##_32_##bits)

static wh_status large(kernel_fn kernel, wh_heap *heap, void *stream, const whi_group *g,
                       uint32_t k) {
    wh_launch l = wh_grid(wh_heap_device(heap), g->shape[k].blocks, g->shape[k].threads);
    l.shared_bytes = g->shape[k].bytes;
    return start(kernel, heap, stream, g, l);
}

static wh_status one_block(kernel_fn kernel, wh_heap *heap, void *stream, const whi_group *g) {
    wh_launch l = wh_grid(wh_heap_device(heap), 1, g->threads);
    l.shared_bytes = 8 * WH_BLOCK_SCAN_WORDS;
    return start(kernel, heap, stream, g, l);
}

static wh_status group_begin(wh_heap *heap, void *stream, const whi_group *g) {
    return small(g->is_two_pass ? begin_two_pass : begin_group, heap, stream, g);
}

static wh_status group_go_on(wh_heap *heap, void *stream, const whi_group *g) {
    return small(group_again, heap, stream, g);
}

static wh_status group_tiles(wh_heap *heap, void *stream, const whi_group *g) {
    if (g->is_paper) {
        return large(WIDE_(g, lists_of_table, any), heap, stream, g, 0);
    }
    return large(WIDE(g, group_table), heap, stream, g, 0);
}

static wh_status group_parts(wh_heap *heap, void *stream, const whi_group *g) {
    if (g->is_paper) {
        return large(WIDE_(g, lists_of_lists, any), heap, stream, g, 1);
    }
    return large(WIDE(g, group_nodes), heap, stream, g, 1);
}

static wh_status group_compact(wh_heap *heap, void *stream, const whi_group *g) {
    const wh_status s = small(clear_written, heap, stream, g);
    return s == WH_OK ? small(compact_list, heap, stream, g) : s;
}

static wh_status group_drop(wh_heap *heap, void *stream, const whi_group *g) {
    const kernel_fn drop = g->is_paper ? drop_lists : drop_list;
    const kernel_fn clear = g->is_paper ? clear_lists : clear_list;
    const wh_status s = small(drop, heap, stream, g);
    return s == WH_OK ? small(clear, heap, stream, g) : s;
}

static wh_status group_drop_parts(wh_heap *heap, void *stream, const whi_group *g) {
    return small(drop_chains, heap, stream, g);
}

static wh_status group_rebase(wh_heap *heap, void *stream, const whi_group *g) {
    return small(rebase_pages, heap, stream, g);
}

static wh_status group_first_pass(wh_heap *heap, void *stream, const whi_group *g) {
    wh_status s = large(WIDE(g, count_parts), heap, stream, g, 0);
    s = s == WH_OK ? one_block(lay_parts, heap, stream, g) : s;
    s = s == WH_OK ? large(WIDE(g, fill_parts), heap, stream, g, 0) : s;
    s = s == WH_OK ? large(WIDE(g, group_counted), heap, stream, g, 1) : s;
    return s == WH_OK ? one_block(lay_groups, heap, stream, g) : s;
}

static wh_status group_second_pass(wh_heap *heap, void *stream, const whi_group *g) {
    return large(WIDE(g, group_counted), heap, stream, g, 1);
}

/* --- sizes -------------------------------------------------------------------------------------
 */

/* What the simulated device has is small, so that tests meet every boundary. */
#if WH_FILE_IS_CUDA
#define THREADS 512u
#define TABLE_THREADS 512u /* of a block of table's rows, and such blocks an SM */
#define TABLE_BLOCKS 2u
#define NODE_THREADS 1024u /* the same of nodes */
#define NODE_BLOCKS 1u
#define TILE 16384u
#define NODE_TILE 16384u
#define STRANDS MOST_STRANDS
#define PART_ROWS 4096u
#define MOST_PARTS_LOG2 8u
#define FAN_LOG2 5u
#define MOST_LEVELS 6u
#define REFRESH 16u
#define TABLE_PROBES 8u
#define NODE_PROBES 10u
#define LEAST_SLOTS 512u
#define MOST_SLOTS 16384u
#define COUNTED_TILE 32768u
#define COUNTED_PART_ROWS 2048u
#define COUNTED_PARTS_LOG2 13u
#else
#define THREADS 64u
#define TABLE_THREADS THREADS
#define TABLE_BLOCKS 2u
#define NODE_THREADS THREADS
#define NODE_BLOCKS 1u
#define STRANDS MOST_STRANDS
#define PART_ROWS 16u
#define NODE_TILE 64u
#define MOST_PARTS_LOG2 3u
#define FAN_LOG2 2u
#define MOST_LEVELS 3u
#define REFRESH 2u
#define LEAST_SLOTS 8u
#define COUNTED_TILE TILE
#define COUNTED_PART_ROWS PART_ROWS
#define COUNTED_PARTS_LOG2 MOST_PARTS_LOG2
#ifdef WH_HOSTILE
#define TILE 64u
#define TABLE_PROBES 2u
#define NODE_PROBES 2u
#define MOST_SLOTS 8u
#else
#define TILE 256u
#define TABLE_PROBES 4u
#define NODE_PROBES 6u
#define MOST_SLOTS 32u
#endif
#endif

/* Shared memory of a block beside what is asked for: the heap's, and the device's. */
#define BESIDE 2112u

static uint32_t log2_of(uint64_t n, uint32_t most) {
    uint32_t log2 = 0;
    while (log2 < most && (uint64_t)2 << log2 <= n) {
        log2++;
    }
    return log2;
}

/* The columns of chains' pages, the widest first: those of 8 bytes are aligned. */
static void lay_chains(whi_group *g) {
    whi_group_layout *raw = &g->layout[GROUP_RAW], *partial = &g->layout[GROUP_PARTIAL];
    const uint32_t value = g->value_bytes,
                   bytes[GROUP_KINDS] = {g->key_bytes + value,
                                         g->key_bytes + (g->needs.count ? 4 : 0) +
                                             (g->needs.sum ? 8 : 0) + (g->needs.least ? value : 0) +
                                             (g->needs.most ? value : 0)};
    for (uint32_t k = 0; k < GROUP_KINDS; k++) {
        g->layout[k].page_log2 = log2_of(g->page_bytes / bytes[k], 14);
        g->layout[k].page_bytes = bytes[k] << g->layout[k].page_log2;
    }
    const uint32_t is_value_first = value > g->key_bytes ? 1 : 0;
    raw->key = is_value_first ? value << raw->page_log2 : 0;
    raw->value = is_value_first ? 0 : g->key_bytes << raw->page_log2;
    uint32_t at = 0;
    const uint32_t log2 = partial->page_log2;
    partial->sum = at;
    at += g->needs.sum ? 8u << log2 : 0;
    partial->least = at;
    at += g->needs.least && is_value_first ? value << log2 : 0;
    partial->most = at;
    at += g->needs.most && is_value_first ? value << log2 : 0;
    partial->key = at;
    at += g->key_bytes << log2;
    partial->least = is_value_first ? partial->least : at;
    at += g->needs.least && !is_value_first ? value << log2 : 0;
    partial->most = is_value_first ? partial->most : at;
    at += g->needs.most && !is_value_first ? value << log2 : 0;
    partial->count = at;
}

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static uint32_t take_bytes(uint32_t *at, uint32_t bytes) {
    const uint32_t here = *at;
    *at = (here + bytes + 7) & ~7u;
    return here;
}

/* What the table of a block needs. */
static uint32_t lay_slots(const whi_group *g, whi_group_shape *s) {
    const uint32_t slots = s->slots + 2, value = g->value_bytes;
    uint32_t at = 0;
    s->words = take_bytes(&at, 4 * (GROUP_WORDS + (g->is_two_pass ? 1 : 0)));
    s->sums = take_bytes(&at, g->needs.sum ? 8 * slots : 0);
    s->keys = take_bytes(&at, g->key_bytes * slots);
    s->least = take_bytes(&at, g->needs.least ? value * slots : 0);
    s->most = take_bytes(&at, g->needs.most ? value * slots : 0);
    s->counts = take_bytes(&at, g->needs.count ? 4 * slots : 0);
    return at;
}

/* A block's shared memory with so many slots. */
static void lay_shared(const whi_group *g, whi_group_shape *s) {
    uint32_t at = lay_slots(g, s);
    if (g->is_two_pass) {
        s->bytes = (at + 15) & ~15u;
        return;
    }
    const uint32_t slots = s->slots + 2;
    const uint32_t raw = g->layout[GROUP_RAW].page_log2;
    const uint32_t partial = g->layout[GROUP_PARTIAL].page_log2;
    const uint32_t less = raw < partial ? raw : partial, more = larger(raw, partial);
    s->rows = larger(s->rows, 1u << more);
    s->pages = s->rows >> less;
    s->staged = EACH_BYTES / g->key_bytes * s->threads;
    s->brought = (s->staged >> less) + s->parts;
    s->places = take_bytes(&at, places_bytes(s->parts, s->brought));
    s->page = take_bytes(&at, 8 * s->pages);
    s->number = take_bytes(&at, 4 * s->pages);
    s->fill = take_bytes(&at, 4 * s->pages);
    s->stage = take_bytes(&at, g->is_paper ? 0 : (g->key_bytes + g->value_bytes) * s->staged);
    s->bits = take_bytes(&at, larger(s->rows, slots + WH_WARP_SIZE) / 8 + 4);
    s->bytes = (at + 15) & ~15u;
}

/* As many slots as `most_bytes` has room for. */
static void size_shape(const whi_group *g, whi_group_shape *s, uint32_t parts,
                       uint32_t most_bytes) {
    s->rows = s == &g->shape[0] ? g->tile : NODE_TILE;
    s->parts = parts;
    s->slots = MOST_SLOTS;
    lay_shared(g, s);
    while (s->slots > LEAST_SLOTS && s->bytes > most_bytes) {
        s->slots /= 2;
        lay_shared(g, s);
    }
}

static uint32_t at_most(uint64_t n, uint32_t most) {
    if (n == 0) {
        return 1;
    }
    return n < most ? (uint32_t)n : most;
}

/* Blocks that stay, of both kernels of a width. */
#define BLOCKS_OF(table, nodes, bits)                                                              \
    do {                                                                                           \
        s[0] = WH_KERNEL_OCCUPANCY(table##_##bits, device, g->shape[0].threads, g->shape[0].bytes, \
                                   &blocks[0]);                                                    \
        s[1] = WH_KERNEL_OCCUPANCY(nodes##_##bits, device, g->shape[1].threads, g->shape[1].bytes, \
                                   &blocks[1]);                                                    \
    } while (0)

/* The same of two-pass. */
static wh_status occupancy_counted(wh_device *device, const whi_group *g, uint32_t *blocks) {
    wh_status s[2] = {WH_OK, WH_OK};
    const int is_wide = g->key_bytes == 8, is_wide_value = g->value_bytes == 8;
    if (!is_wide && !is_wide_value) {
        BLOCKS_OF(fill_parts, group_counted, 32_32);
    } else if (!is_wide) {
        BLOCKS_OF(fill_parts, group_counted, 32_64);
    } else if (!is_wide_value) {
        BLOCKS_OF(fill_parts, group_counted, 64_32);
    } else {
        BLOCKS_OF(fill_parts, group_counted, 64_64);
    }
    return s[0] != WH_OK ? s[0] : s[1];
}

static wh_status occupancy(wh_device *device, const whi_group *g, uint32_t *blocks) {
    wh_status s[2] = {WH_OK, WH_OK};
    const int is_wide = g->key_bytes == 8, is_wide_value = g->value_bytes == 8;
    if (g->is_paper && !is_wide) {
        BLOCKS_OF(lists_of_table, lists_of_lists, 32_any);
    } else if (g->is_paper) {
        BLOCKS_OF(lists_of_table, lists_of_lists, 64_any);
    } else if (!is_wide && !is_wide_value) {
        BLOCKS_OF(group_table, group_nodes, 32_32);
    } else if (!is_wide) {
        BLOCKS_OF(group_table, group_nodes, 32_64);
    } else if (!is_wide_value) {
        BLOCKS_OF(group_table, group_nodes, 64_32);
    } else {
        BLOCKS_OF(group_table, group_nodes, 64_64);
    }
    return s[0] != WH_OK ? s[0] : s[1];
}

/* two-pass: tiles are counted, parts read with a table that leaves room for another block. */
static wh_status size_two_pass(wh_device *device, whi_group *g) {
    const uint32_t most = wh_device_get_info(device)->shared_bytes;
    whi_group_shape *tiles = &g->shape[0];
    uint32_t blocks[2] = {1, 1}, at = 0;
    g->parts_log2 = log2_of(g->n / COUNTED_PART_ROWS, COUNTED_PARTS_LOG2);
    while (8u << g->parts_log2 > most) {
        g->parts_log2--;
    }
    g->tile = COUNTED_TILE;
    while (!g->is_sim && g->tile > 1024 && g->n / g->tile < 256) {
        g->tile /= 2;
    }
    tiles->parts = 1u << g->parts_log2;
    tiles->counts = take_bytes(&at, 4 * tiles->parts);
    tiles->places = take_bytes(&at, 4 * tiles->parts);
    tiles->bytes = at;
    size_shape(g, &g->shape[1], tiles->parts, most / 2);
    const wh_status s = occupancy_counted(device, g, blocks);
    g->shape[0].blocks = at_most(g->n / g->tile + 1, blocks[0]);
    g->shape[1].blocks = at_most(tiles->parts, blocks[1]);
    return s;
}

static wh_status group_size(wh_device *device, whi_group *g) {
    const wh_device_info *info = wh_device_get_info(device);
    uint32_t blocks[2] = {1, 1};
    g->is_sim = info->target == WH_TARGET_SIM;
    g->threads = g->shape[0].threads = g->shape[1].threads = THREADS;
    g->tile = TILE;
    g->refresh = REFRESH;
    g->probes[0] = TABLE_PROBES;
    g->probes[1] = NODE_PROBES;
    if (g->is_two_pass) {
        return size_two_pass(device, g);
    }
    g->shape[0].threads = g->is_paper ? THREADS : TABLE_THREADS;
    g->shape[1].threads = g->is_paper ? THREADS : NODE_THREADS;
    g->strands = g->is_paper ? 1 : STRANDS;
    g->parts_log2 = g->is_paper ? 8 : log2_of(g->n / PART_ROWS, MOST_PARTS_LOG2);
    g->fan_log2 = g->is_paper ? 8 : FAN_LOG2;
    g->most_levels = g->is_paper ? g->key_bytes : MOST_LEVELS;
    g->stack_room = (g->most_levels + 1) << g->fan_log2;
    lay_chains(g);
    const uint32_t most = info->shared_bytes;
    size_shape(g, &g->shape[0], 1u << g->parts_log2,
               g->is_paper ? 0 : most / TABLE_BLOCKS - BESIDE);
    size_shape(g, &g->shape[1], 1u << g->fan_log2, g->is_paper ? 0 : most / NODE_BLOCKS - BESIDE);
    const wh_status s = occupancy(device, g, blocks);
    const uint64_t tiles = g->n / g->tile + 1, parts = (uint64_t)1 << g->parts_log2;
    g->shape[0].blocks = at_most(tiles, blocks[0]);
    g->shape[1].blocks = at_most(parts, blocks[1]);
    const uint32_t raw = g->layout[GROUP_RAW].page_log2;
    const uint32_t partial = g->layout[GROUP_PARTIAL].page_log2;
    const uint64_t numbers = (g->is_paper ? g->n : 0) +
                             ((uint64_t)g->n >> (raw < partial ? raw : partial)) +
                             2 * parts * g->strands +
                             (uint64_t)g->shape[1].blocks * (g->shape[1].pages + 2 * g->stack_room);
    g->chains.most = numbers < UINT32_MAX ? (uint32_t)numbers : UINT32_MAX;
    return s;
}

WH_TABLE(whi_group_kernels) = {
    WH_OF_(NAME), group_begin,      group_go_on,       group_tiles,
    group_parts,  group_compact,    group_drop,        group_drop_parts,
    group_rebase, group_first_pass, group_second_pass, group_size,
};
