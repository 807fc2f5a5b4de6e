/* largest.c: the largest block that a heap still gives. */
#include "bench/driver/internal.h"

/* One malloc of `size` bytes at the tail; *served says whether there was a block. With
 * keep it becomes an entry, else it is freed again. */
static wh_status try_one(whi_bench_plan *p, whi_bench_ledger *l, uint64_t size, int keep,
                         int *served) {
    whi_bench *b = p->b;
    void *block = NULL;
    whi_bench_ledger_tail(l, p, (whi_bench_blocks){1, size, size});
    WHI_BENCH_TRY(whi_bench_launch(p, b->kernels->malloc_single, 1));
    const wh_status s = wh_device_copy_out(b->device, &block, p->call.ptrs, sizeof block);
    if (s != WH_OK) {
        return whi_bench_fail(b, s, "copy from the device");
    }
    *served = block != NULL;
    if (!*served) {
        return WH_OK;
    }
    return keep ? whi_bench_ledger_record(l, p) : whi_bench_launch(p, b->kernels->free_all, 1);
}

/* To 1 part in 64; 0: none, or time was over. From the whole heap downwards in halves, since some
 * allocator serves a size but not all below it, then by bisection. */
static wh_status search(whi_bench_plan *p, whi_bench_ledger *l, uint64_t bytes,
                        const whi_bench_part *part, uint64_t *largest) {
    whi_bench *b = p->b;
    uint64_t most = bytes < UINT32_MAX ? bytes : UINT32_MAX;
    most = most < b->alloc->max_size ? most : b->alloc->max_size;
    uint64_t none = most + 1; /* the least above `least` that was not served */
    uint64_t least = 0;       /* the most that was */
    for (uint64_t size = most; least == 0 && size >= 16 && !whi_bench_leave_out(b, *part);
         size /= 2) {
        int served = 0;
        WHI_BENCH_TRY(try_one(p, l, size, 0, &served));
        least = served ? size : 0;
        none = served ? none : size;
    }
    while (least != 0 && none - least > 16 && none - least > least / 64 &&
           !whi_bench_leave_out(b, *part)) {
        const uint64_t size = least + (none - least) / 2;
        int served = 0;
        WHI_BENCH_TRY(try_one(p, l, size, 0, &served));
        least = served ? size : least;
        none = served ? none : size;
    }
    *largest = least;
    return WH_OK;
}

/* What was found is allocated once more to be verified among the other blocks, and freed. */
wh_status whi_bench_largest(whi_bench_plan *p, whi_bench_ledger *l, uint64_t bytes,
                            const whi_bench_part *part, uint64_t *largest) {
    whi_bench *b = p->b;
    const uint64_t live = l->n;
    uint64_t least = 0;
    int served = 0;
    *largest = 0;
    WHI_BENCH_TRY(search(p, l, bytes, part, &least));
    if (least != 0 && b->turn.left_out.size == 0) {
        WHI_BENCH_TRY(try_one(p, l, least, 1, &served));
    }
    if (!served) {
        return WH_OK;
    }
    wh_bench_counts counts;
    WHI_BENCH_TRY(whi_bench_ledger_verify(l, p, WHI_BENCH_PLACES, &counts));
    whi_bench_count(p, &counts, 0);
    *largest = least;
    if (p->broken) {
        return WH_OK;
    }
    l->n = live;
    whi_bench_ledger_tail(l, p, (whi_bench_blocks){1, least, least});
    return whi_bench_launch(p, b->kernels->free_all, 1);
}
