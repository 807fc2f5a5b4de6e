/* tables_kernels.c: rows of tables on their way to other ranks. Compiled once for each target.
 *
 * count and scatter take the class of each row by the same rule: a heavy key's, or the rank that
 * the hash says. A block takes a tile of rows at a time; places of a class in a tile follow each
 * other, those of a warp's rows, too, so that lanes write runs.
 *
 * S1      places: each row of a tile gets one of those that its block took for the tile with one
 *         fetch_add, relaxed, of the class's cursor; the host reads when the kernel has ended
 * S2      of a heavy key with WHI_CLASS_ONCE the row that finds `seen` zero in an exchange,
 *         relaxed, goes; none has gone before, and exactly one finds it so
 * S3      link: a slot belongs to the key of the first row that is put there, for good. head is set
 *         by a cas, relaxed; next and rows are read by the next kernel. Progress: a cas fails only
 *         if another row has been put into that list
 *
 * Checked by tests/ranks/tables.c, against loops over all rows; the mutations tables-... break each
 *         tag
 */
#define WH_KERNEL_THREADS 256
#define WH_KERNEL_BLOCKS 3 /* of an SM: rows that are under way hide each other's waits */

#include "workload/ranks/tables_kernels.h"

#include "warpheap/detail/alloc/tables.h"

#define EACH 8u                         /* rows of a thread in a tile */
#define TILE (EACH * WH_KERNEL_THREADS) /* WH_MOST_ROWS are whole tiles */
#define BLOCKS_PER_SM 8u
#define NO_CLASS UINT32_MAX
#define MOST_BLOCKS 65536u

WH_FN uint64_t number_at(const void *column, uint32_t bytes, uint64_t i) {
    return bytes == 4 ? ((const uint32_t *)column)[i] : ((const uint64_t *)column)[i];
}

WH_FN void put_number(unsigned char *column, uint32_t bytes, uint64_t i, uint64_t v) {
    if (bytes == 4) {
        ((uint32_t *)(void *)column)[i] = (uint32_t)v;
    } else {
        ((uint64_t *)(void *)column)[i] = v;
    }
}

WH_FN uint64_t key_at(const whi_rows *r, uint64_t i) {
    return number_at(r->column[0], r->bytes[0], i);
}

/* --- heavy keys, and counts ----------------------------------------------------------------------
 */

/* Rows far from each other, one of each stretch of them: the j-th at a random place of the j-th. */
WH_KERNEL(sample_keys, whi_rows_call, a) {
    const uint64_t stretch = a.rows.n / a.samples;
    for (uint64_t j = wh_thread_id(); j < a.samples; j += wh_grid_threads()) {
        const uint32_t random = wh_mix32((uint32_t)j + a.seed);
        const uint64_t first = j * a.rows.n / a.samples;
        a.sampled[j] = key_at(&a.rows, first + wh_high_u32(random * stretch));
    }
}

/* A copy of the heavy keys' slots in a block's shared memory. */
typedef struct heavy {
    uint64_t *key;
    uint32_t *number;
    uint32_t log2, n;
} heavy;

#define SLOTS_OF(h) ((h).n != 0 ? 1u << (h).log2 : 0u)
#define SLOT_BYTES 12u

/* All threads; a barrier must follow. `words`: what is behind the keys' slots. */
WH_FN heavy heavy_of_block(const whi_heavy_slots *from, void *shared, uint32_t **words) {
    const uint32_t slots = SLOTS_OF(*from);
    heavy h;
    h.key = (uint64_t *)shared;
    h.number = (uint32_t *)(void *)(h.key + slots);
    h.log2 = from->log2;
    h.n = from->n;
    for (uint32_t s = wh_thread_in_block(); s < slots; s += wh_block_threads()) {
        h.key[s] = from->key[s];
        h.number[s] = from->number[s];
    }
    *words = h.number + slots;
    return h;
}

/* Which heavy key it is; WHI_NO_SLOT: none. */
WH_FN uint32_t number_of_key(const heavy *h, uint64_t key) {
    if (h->n == 0) {
        return WHI_NO_SLOT;
    }
    const uint32_t mask = (1u << h->log2) - 1;
    uint32_t s = whi_slot_of_key(key, h->log2);
    while (h->number[s] != WHI_NO_SLOT && h->key[s] != key) {
        s = (s + 1) & mask;
    }
    return h->number[s];
}

WH_KERNEL(count_rows, whi_rows_call, a) {
    uint32_t *n = NULL;
    const heavy h = heavy_of_block(&a.heavy, wh_shared(), &n);
    const uint32_t all = a.ranks + a.heavy.n, me = wh_thread_in_block();
    for (uint32_t c = me; c < all; c += wh_block_threads()) {
        n[c] = 0;
    }
    wh_syncthreads();
    for (uint64_t tile = wh_block_id(); tile * TILE < a.rows.n; tile += wh_grid_blocks()) {
        const uint64_t first = tile * TILE + me;
        uint64_t key[EACH]; /* asked for before the first one is used */
        for (uint32_t k = 0; k < EACH; k++) {
            const uint64_t i = first + k * WH_KERNEL_THREADS;
            key[k] = i < a.rows.n ? key_at(&a.rows, i) : 0;
        }
        for (uint32_t k = 0; k < EACH; k++) {
            const int is_row = first + k * WH_KERNEL_THREADS < a.rows.n;
            const uint32_t number = number_of_key(&h, key[k]);
            const uint32_t counter = number != WHI_NO_SLOT
                                         ? a.ranks + number
                                         : whi_rank_of_key(key[k], a.rows.bytes[0], a.ranks);
            const wh_mask same = wh_match_any_u32(WH_FULL_WARP, is_row ? counter : NO_CLASS);
            if (is_row && wh_mask_leader(same) == wh_lane_id()) {
                (void)wh_shared_fetch_add_u32(&n[counter], wh_popc32(same));
            }
        }
    }
    wh_syncthreads();
    for (uint32_t c = me; c < all; c += wh_block_threads()) {
        if (n[c] != 0) {
            wh_add_u64_relaxed(&a.counts[c], n[c]);
        }
    }
}

/* --- scatter ------------------------------------------------------------------------------------
 */

/* NO_CLASS: the row does not go. */
WH_FN uint32_t class_of_row(const whi_rows_call *a, const heavy *h, uint64_t key) {
    const uint32_t number = number_of_key(h, key);
    if (number == WHI_NO_SLOT) {
        return whi_rank_of_key(key, a->rows.bytes[0], a->ranks);
    }
    const uint32_t c = a->class_of[number];
    if ((c & WHI_CLASS_ONCE) == 0) {
        return c;
    }
    const int is_first = wh_load_u32_relaxed(&a->seen[number]) == 0 &&
                         wh_exchange_u32_relaxed(&a->seen[number], 1) == 0; /* S2 */
    return is_first ? c & ~WHI_CLASS_ONCE : NO_CLASS;
}

WH_FN uint64_t value_at(const whi_rows_call *a, uint32_t column, uint64_t i) {
    const void *from = a->rows.column[column];
    return from != NULL ? number_at(from, a->rows.bytes[column], i) : (uint64_t)a->rank << 32 | i;
}

/* A copy for each rank. Few rows do that. */
WH_FN void write_to_all(const whi_rows_call *a, uint64_t i, uint64_t place) {
    for (uint32_t r = 0; r < a->ranks; r++) {
        const whi_class_place p = a->place[WHI_CLASSES(a->ranks) + r];
        for (uint32_t c = 0; c < a->rows.columns; c++) {
            put_number(a->out[p.to][c], a->rows.bytes[c], p.first + place, value_at(a, c, i));
        }
    }
}

WH_KERNEL(scatter_rows, whi_rows_call, a) {
    const uint32_t classes = WHI_CLASSES(a.ranks), me = wh_thread_in_block();
    uint32_t *n = NULL;
    uint64_t *base = (uint64_t *)wh_shared(); /* of each class, in this tile */
    const heavy h = heavy_of_block(&a.heavy, base + classes, &n);
    const uint32_t rows = (uint32_t)a.rows.n, tiles = (rows + TILE - 1) / TILE; /* WH_MOST_ROWS */
    for (uint32_t tile = wh_block_id(); tile < tiles; tile += wh_grid_blocks()) {
        const uint32_t first = tile * TILE + me;
        uint64_t v[EACH], at[EACH]; /* all are asked for before the first one is used */
        uint32_t goal[EACH];
        WH_UNROLL_8
        for (uint32_t k = 0; k < EACH; k++) {
            const uint32_t i = first + k * WH_KERNEL_THREADS;
            v[k] = i < rows ? key_at(&a.rows, i) : 0;
        }
        for (uint32_t c = me; c < classes; c += wh_block_threads()) {
            n[c] = 0;
        }
        wh_syncthreads(); /* also: nobody reads the last tile's base */
        WH_UNROLL_8
        for (uint32_t k = 0; k < EACH; k++) {
            const int is_row = first + k * WH_KERNEL_THREADS < rows;
            uint32_t before = 0;
            goal[k] = is_row ? class_of_row(&a, &h, v[k]) : NO_CLASS;
            const wh_mask same = wh_match_any_u32(WH_FULL_WARP, goal[k]);
            const uint32_t leader = wh_mask_leader(same);
            if (goal[k] != NO_CLASS && leader == wh_lane_id()) {
                before = wh_shared_fetch_add_u32(&n[goal[k]], wh_popc32(same));
            }
            at[k] = wh_shfl_u32(WH_FULL_WARP, before, leader) + wh_popc32(same & wh_lanemask_lt());
        }
        wh_syncthreads();
        for (uint32_t c = me; c < classes; c += wh_block_threads()) {
            base[c] = n[c] != 0 ? wh_fetch_add_u64_relaxed(&a.cursor[c], n[c]) : 0; /* S1 */
        }
        wh_syncthreads();
        WH_UNROLL_8
        for (uint32_t k = 0; k < EACH; k++) {
            if (goal[k] == WHI_CLASS_ALL(a.ranks)) {
                write_to_all(&a, first + k * WH_KERNEL_THREADS, base[goal[k]] + at[k]);
                goal[k] = NO_CLASS;
            } else if (goal[k] != NO_CLASS) {
                at[k] += base[goal[k]] + a.place[goal[k]].first;
                goal[k] = a.place[goal[k]].to;
            }
        }
        WH_NO_UNROLL
        for (uint32_t c = 0; c < a.rows.columns; c++) {
            WH_UNROLL_8
            for (uint32_t k = 0; k < EACH; k++) {
                const uint32_t i = first + k * WH_KERNEL_THREADS;
                v[k] = c != 0 && goal[k] != NO_CLASS ? value_at(&a, c, i) : v[k];
            }
            WH_UNROLL_8
            for (uint32_t k = 0; k < EACH; k++) {
                if (goal[k] != NO_CLASS) {
                    put_number(a.out[goal[k]][c], a.rows.bytes[c], at[k], v[k]);
                }
            }
        }
    }
}

/* A column of ranks and rows' numbers, where there is nothing else to write. */
WH_KERNEL(number_rows, whi_rows_call, a) {
    for (uint64_t i = wh_thread_id(); i < a.rows.n; i += wh_grid_threads()) {
        put_number(a.out[WHI_TO_OWN][1], a.rows.bytes[1], i, value_at(&a, 1, i));
    }
}

/* --- sums of the same keys ----------------------------------------------------------------------
 */

WH_KERNEL(link_rows, whi_sums, a) {
    const uint32_t mask = (1u << a.log2) - 1;
    for (uint64_t i = wh_thread_id(); i < a.n; i += wh_grid_threads()) {
        const uint64_t key = number_at(a.key, a.key_bytes, i);
        uint32_t s = whi_slot_of_key(key, a.log2), old = wh_load_u32_relaxed(&a.head[s]);
        for (;;) {
            if (old != 0 && number_at(a.key, a.key_bytes, old - 1) != key) { /* S3 */
                s = (s + 1) & mask;
                old = wh_load_u32_relaxed(&a.head[s]);
                continue;
            }
            a.next[i] = old;
            const uint32_t seen = wh_cas_u32_relaxed(&a.head[s], old, (uint32_t)i + 1); /* S3 */
            if (seen == old) {
                break;
            }
            old = seen;
        }
    }
}

/* In the order of wh_group's MIN and MAX, whose NaN is one value, and above all others by its bits;
 * -0.0 is below 0.0. */
WH_FN uint64_t order_of(wh_group_value kind, uint64_t v) {
    const uint64_t sign = (uint64_t)1 << 63;
    if (kind == WH_GROUP_INT32 || kind == WH_GROUP_FLOAT) {
        v <<= 32;
    }
    if (kind == WH_GROUP_INT32 || kind == WH_GROUP_INT64) {
        return v ^ sign;
    }
    return (v & sign) != 0 ? ~v : v | sign;
}

WH_FN double double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

WH_FN uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* A group, as all its rows say. */
typedef struct sum_row {
    uint64_t key, count, sum, least, most;
} sum_row;

WH_FN void add_row(const whi_sums *a, sum_row *g, uint32_t i, int is_first) {
    const uint32_t bytes = a->value == WH_GROUP_INT32 || a->value == WH_GROUP_FLOAT ? 4 : 8;
    const int is_float = a->value == WH_GROUP_FLOAT || a->value == WH_GROUP_DOUBLE;
    g->count += a->count != NULL ? a->count[i] : 0;
    if (a->sum != NULL) {
        g->sum = is_float ? bits_of(double_of(g->sum) + double_of(a->sum[i])) : g->sum + a->sum[i];
    }
    if (a->least != NULL) {
        const uint64_t v = number_at(a->least, bytes, i);
        g->least = is_first || order_of(a->value, v) < order_of(a->value, g->least) ? v : g->least;
    }
    if (a->most != NULL) {
        const uint64_t v = number_at(a->most, bytes, i);
        g->most = is_first || order_of(a->value, v) > order_of(a->value, g->most) ? v : g->most;
    }
}

WH_FN unsigned char *column_of_row(const whi_flat_pages *p, uint32_t c, uint64_t i) {
    const uint32_t in_page = (uint32_t)(i % p->shape.room);
    return p->base + i / p->shape.room * p->page_bytes + p->shape.column_at[c] +
           (uint64_t)in_page * p->shape.column_bytes[c];
}

WH_FN void put_group(const whi_sums *a, const sum_row *g, uint32_t at) {
    const int is_float = a->value == WH_GROUP_FLOAT || a->value == WH_GROUP_DOUBLE;
    const double sum = is_float ? double_of(g->sum) : (double)(int64_t)g->sum;
    const uint64_t mean = bits_of(sum / (double)g->count);
    const uint64_t v[WH_PAGE_COLUMNS] = {g->key, g->count, g->sum, g->least, g->most, mean};
    for (uint32_t c = 0; c < WH_PAGE_COLUMNS; c++) {
        if (a->out.shape.column_bytes[c] != 0) {
            put_number(column_of_row(&a->out, c, at), a->out.shape.column_bytes[c], 0, v[c]);
        }
    }
}

WH_KERNEL(merge_groups, whi_sums, a) {
    const uint64_t slots = (uint64_t)1 << a.log2, lane = wh_lane_id();
    for (uint64_t first = wh_thread_id() - lane; first < slots; first += wh_grid_threads()) {
        uint32_t row = first + lane < slots ? a.head[first + lane] : 0;
        const wh_mask has = wh_ballot(WH_FULL_WARP, row != 0);
        uint32_t base = 0;
        if (has != 0) {
            if (lane == 0) {
                base = wh_fetch_add_u32_relaxed(a.n_out, wh_popc32(has));
            }
            base = wh_shfl_u32(WH_FULL_WARP, base, 0);
        }
        if (row != 0) {
            sum_row g = {number_at(a.key, a.key_bytes, row - 1), 0, 0, 0, 0};
            for (int is_first = 1; row != 0; row = a.next[row - 1], is_first = 0) {
                add_row(&a, &g, row - 1, is_first);
            }
            put_group(&a, &g, base + wh_popc32(has & wh_lanemask_lt()));
        }
    }
}

WH_KERNEL(copy_pages, whi_copy, a) {
    for (uint64_t i = wh_thread_id(); i < a.n; i += wh_grid_threads()) {
        for (uint32_t c = 0; c < WH_PAGE_COLUMNS; c++) {
            const uint32_t bytes = a.from.shape.column_bytes[c];
            if (a.columns[c] != NULL && bytes != 0) {
                put_number((unsigned char *)a.columns[c], bytes, i,
                           number_at(column_of_row(&a.from, c, i), bytes, 0));
            }
        }
    }
}

/* --- the table ----------------------------------------------------------------------------------
 */

static wh_launch for_threads(wh_device *device, uint64_t threads) {
    const uint64_t blocks = (threads + WH_KERNEL_THREADS - 1) / WH_KERNEL_THREADS;
    return wh_grid(device, blocks < MOST_BLOCKS ? (uint32_t)blocks : MOST_BLOCKS,
                   WH_KERNEL_THREADS);
}

/* Blocks that stay, each for many tiles: the heavy keys are copied once. */
static wh_launch for_tiles(wh_device *device, const whi_rows_call *call) {
    const uint64_t tiles = (call->rows.n + TILE - 1) / TILE;
    const uint64_t most = (uint64_t)BLOCKS_PER_SM * wh_device_get_info(device)->n_sms;
    return wh_grid(device, (uint32_t)(tiles < most ? tiles : most), WH_KERNEL_THREADS);
}

static wh_status start_sample(wh_device *device, const whi_rows_call *call) {
    const wh_launch l = for_threads(device, call->samples);
    return call->samples != 0 ? sample_keys(&l, call) : WH_OK;
}

static wh_status start_count(wh_device *device, const whi_rows_call *call) {
    wh_launch l = for_tiles(device, call);
    l.shared_bytes = SLOTS_OF(call->heavy) * SLOT_BYTES + (call->ranks + call->heavy.n) * 4;
    return call->rows.n != 0 ? count_rows(&l, call) : WH_OK;
}

static wh_status start_scatter(wh_device *device, const whi_rows_call *call) {
    wh_launch l = for_tiles(device, call);
    l.shared_bytes = SLOTS_OF(call->heavy) * SLOT_BYTES + WHI_CLASSES(call->ranks) * 12;
    return call->rows.n != 0 ? scatter_rows(&l, call) : WH_OK;
}

static wh_status start_number(wh_device *device, const whi_rows_call *call) {
    const wh_launch l = for_threads(device, call->rows.n);
    return call->rows.n != 0 ? number_rows(&l, call) : WH_OK;
}

static wh_status start_link(wh_device *device, const whi_sums *sums) {
    const wh_launch l = for_threads(device, sums->n);
    return sums->n != 0 ? link_rows(&l, sums) : WH_OK;
}

static wh_status start_merge(wh_device *device, const whi_sums *sums) {
    const wh_launch l = for_threads(device, (uint64_t)1 << sums->log2);
    return sums->n != 0 ? merge_groups(&l, sums) : WH_OK;
}

static wh_status start_copy(wh_device *device, const whi_copy *c) {
    const wh_launch l = for_threads(device, c->n);
    return c->n != 0 ? copy_pages(&l, c) : WH_OK;
}

WH_TABLE_ONCE(whi_tables_kernels) = {start_sample, start_count, start_scatter, start_number,
                                     start_link,   start_merge, start_copy};
