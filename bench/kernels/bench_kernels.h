/* bench_kernels.h: what the benchmark's kernels offer to its host driver: one table
 * of launchers per (allocator, target), filled in by bench_kernels.c. Plain C11 and
 * C++; knows nothing of targets.
 *
 * Every launcher takes the same call record and copies what its kernel needs into
 * that kernel's own, small argument struct.
 */
#ifndef WH_BENCH_KERNELS_H
#define WH_BENCH_KERNELS_H

#include "warpheap/heap.h"

/* Threads of a block in every launch of at least that many. */
#define WH_BENCH_BLOCK_THREADS 256

/* Blocks up to this size are stamped and checked whole; of a larger block the first
 * and last WH_BENCH_STRIDE bytes and the 16 bytes at every address that is a multiple
 * of WH_BENCH_STRIDE. Two blocks of one such size cannot overlap without sharing a
 * stamped unit: a common part of at least 2 * 512 bytes holds a multiple of 512, a
 * shorter one lies inside the stamped ends. */
#define WH_BENCH_WHOLE 8192u
#define WH_BENCH_STRIDE 512u

/* Blocks that one thread of the churn kernel may hold at a time. */
#define WH_BENCH_SLOTS 4u

/* Room for the handle of any allocator; bench_kernels.c asserts that it fits. */
typedef struct wh_bench_handle {
    uint64_t words[32];
} wh_bench_handle;

/* What `pages` counts. */
#define WH_BENCH_PAGE 4096u

/* Live blocks that a thread of the server keeps. */
#define WH_BENCH_LIVE 16u

/* A slab of the slab hash: slots of 8 bytes, each a key and a value or 0, and a link to the next
 * slab. A longer chain than this has a fault (a slab that two links lead to may go in circles). */
#define WH_BENCH_SLAB_BYTES 128u
#define WH_BENCH_SLAB_SLOTS 15u
#define WH_BENCH_CHAIN_MOST 1024u

/* Mallocs of a thread of the kernels of loops, and of arenas; room for an arena that is kept. */
#define WH_BENCH_LOOP 16u
#define WH_BENCH_ARENA_BYTES 128u

/* Results that kernels add to; device memory. */
typedef struct wh_bench_counts {
    uint64_t failed;    /* mallocs that returned NULL */
    uint64_t bad;       /* blocks misaligned, outside the heap, or overwritten */
    uint64_t served;    /* blocks handed out */
    uint64_t requested; /* bytes asked for by the served mallocs */
    uint64_t low;       /* lowest address handed out */
    uint64_t high;      /* end of the highest block */
    uint64_t pages;     /* pages: of WH_BENCH_PAGE bytes that hold a byte of a block */
    uint64_t keys;      /* slab hash: see there */
    uint64_t slabs;
} wh_bench_counts;

/* What split and probe add to; device memory. */
typedef struct wh_bench_ledger {
    uint64_t kept, victims; /* split: entries that went either way; the NULLs go nowhere */
    uint64_t waste_sum;     /* probe: sum of (usable - n) / usable, in units of 2^-32 */
    uint64_t waste_max;     /*    the largest of them << 32 | its n */
    uint64_t measured;      /*    blocks in the sum */
} wh_bench_ledger;

/* What churn does with the contents of blocks: nothing; writes them, and checks them before the
 * free; or makes the same accesses without heeding what it reads, since blocks overlap. */
#define WH_BENCH_STAMP_NONE 0u
#define WH_BENCH_STAMP_CHECK 1u
#define WH_BENCH_STAMP_TOUCH 2u

typedef struct wh_bench_call {
    wh_bench_handle handle;
    void **ptrs;     /* device: one pointer per allocation (churn: per slot and thread) */
    uint32_t *born;  /* device, churn: the step in which each held block was allocated */
    uint64_t n;      /* allocations (churn: threads) */
    uint64_t lo, hi; /* request sizes; equal unless sizes are mixed */
    uint64_t seed;
    uint32_t lanes;          /* fill, check, claim: lanes that share one block, 1 or 32 */
    uint32_t steps;          /* churn: malloc-or-free steps per thread */
    int use_owns;            /* the allocator has WH_CAP_OWNS */
    uint32_t stamp;          /* churn: WH_BENCH_STAMP_ */
    wh_bench_counts *counts; /* device */
    uint32_t *claimed;       /* device, claim: one bit for each 16 bytes from claim_base on */
    uint64_t claim_base;

    /* A ledger: live blocks of several sizes as two arrays, ptrs and sizes. */
    uint32_t *sizes;         /* device: bytes that the holder of ptrs[i] may use */
    uint64_t first;          /* ledger_fill: entries before this one have their pattern */
    uint64_t step;           /* probe: request i is lo + i * step bytes */
    uint64_t keep;           /* split: an entry stays if its hash, 32 bits, is below this */
    void **kept_ptrs;        /* device, split: where entries go that stay, */
    uint32_t *kept_sizes;    /*    in any order, */
    void **victims;          /*    and the blocks of those that do not */
    wh_bench_ledger *ledger; /* device: results of split and probe */

    uint32_t octaves; /* log-uniform sizes: log2(hi / lo) in 2^-16 */
    uint32_t round;   /* server, cells: from 1 */
    uint64_t *table;  /* device, slab hash: a link for each bucket, 0: none */
    uint64_t buckets;
    void *arenas; /* device: WH_BENCH_ARENA_BYTES for each thread */

    uint64_t *sums;      /* device, scan: what comes before each of n sizes, and their sum */
    unsigned char *base; /* device, place: where the first block is; write_rows, read_rows */
} wh_bench_call;

typedef wh_status (*wh_bench_launcher)(const wh_launch *launch, const wh_bench_call *call);

/* The floors compute an address or read a pointer in the launch shape of the kernel
 * that they stand beside and touch no allocator state. Threads to start: n, and 32 n
 * for the warp launchers, lanes * n for fill, check and claim; survey takes any number. */
typedef struct wh_bench_kernels {
    const char *allocator;
    wh_status (*bind)(const wh_heap *heap, wh_bench_handle *handle);
    wh_bench_launcher floor_single, floor_mixed, floor_warp, floor_free, floor_free_warp;
    wh_bench_launcher malloc_single; /* ptrs[i] = malloc(lo) */
    wh_bench_launcher malloc_mixed;  /* ptrs[i] = malloc(size of i) */
    wh_bench_launcher malloc_warp;   /* lane 0 of warp i: ptrs[i] = malloc(lo) */
    wh_bench_launcher free_all;      /* free(ptrs[i]) */
    wh_bench_launcher free_warp;     /* lane 0 of warp i: free(ptrs[i]) */
    wh_bench_launcher churn;         /* stamps and verifies the first 16 bytes of a block */
    wh_bench_launcher churn_whole;   /* stamps and verifies as fill and check do */
    wh_bench_launcher drain;         /* verifies and frees what churn left */
    wh_bench_launcher drain_whole;   /* the same after churn_whole */
    wh_bench_launcher survey;        /* counts; changes no block */
    wh_bench_launcher fill;          /* writes every block's pattern */
    wh_bench_launcher check;         /* verifies it, counts bad blocks */
    wh_bench_launcher claim; /* sets the bits of every block, counts blocks that find one set */
} wh_bench_kernels;

/* Kernels on a ledger; thread i takes entry i, or lanes threads share one as above. */
typedef struct wh_bench_ledger_kernels {
    wh_bench_launcher record; /* sizes[i] = what malloc_single or malloc_mixed asked for */
    wh_bench_launcher split;  /* see wh_bench_call.keep */
    wh_bench_launcher probe;  /* ptrs[i] = malloc(lo + i * step), sizes[i] = usable_size */
    wh_bench_launcher survey, fill, check, claim; /* as above, by sizes */
    wh_bench_launcher malloc_timed; /* one thread: ptrs[i] = malloc(lo), which it writes to,
                                       sizes[i] = ns of both */
} wh_bench_ledger_kernels;

/* Kernels of the cases server, cells, slabhash and fill-log. A block of the first two has one tag
 * in its first and last 4 bytes, which depends on its place in ptrs and on its size. Threads to
 * start: n; server_round: n, of n * WH_BENCH_LIVE entries; slab_insert: n, in whole warps;
 * slab_count and slab_sweep: buckets. failed: mallocs that returned NULL; slab_insert: keys that
 * found no room. */
typedef struct wh_bench_heaps_kernels {
    wh_bench_launcher floor_log;    /* what malloc_log does without an allocator */
    wh_bench_launcher floor_round;  /* what server_round does without one, and without blocks */
    wh_bench_launcher malloc_log;   /* ptrs[i] = malloc(log-uniform size of i) */
    wh_bench_launcher record_log;   /* sizes[i] = what malloc_log asked for */
    wh_bench_launcher tag;          /* writes the tag of every block */
    wh_bench_launcher check;        /* counts as bad the blocks with another one */
    wh_bench_launcher pages;        /* counts pages, by bits of `claimed` from claim_base on */
    wh_bench_launcher server_round; /* frees one of a thread's blocks, allocates another */
    wh_bench_launcher cells;        /* allocates a new list for each cell, frees the old one */
    wh_bench_launcher slab_insert;  /* the keys 1..n */
    wh_bench_launcher slab_find;    /* served: keys found once; bad: found otherwise */
    wh_bench_launcher slab_count;   /* slabs; keys in all of them; bad: a key in a wrong chain */
    wh_bench_launcher slab_sweep;   /* frees all slabs */
    wh_bench_launcher slab_insert_pool, slab_sweep_pool; /* the same by a pool of slabs */
    wh_bench_launcher malloc_loop; /* n / WH_BENCH_LOOP threads t: ptrs[k * threads + t] =
                                      malloc(lo) for each k; n fills whole blocks of threads */
    wh_bench_launcher floor_loop;  /* the same without an allocator */
} wh_bench_heaps_kernels;

/* The same mallocs in arenas, which are opened before and kept in call.arenas, where `close` finds
 * them. By scope: a lane's, a warp's, a block's. */
#define WH_BENCH_ARENA_SCOPES 3u
typedef struct wh_bench_arena_kernels {
    wh_bench_launcher malloc_loop[WH_BENCH_ARENA_SCOPES];
    wh_bench_launcher close[WH_BENCH_ARENA_SCOPES];
    wh_bench_launcher floor_close; /* reads what close reads of a lane's */
} wh_bench_arena_kernels;

/* Kernels of the cases latency and work. Threads to start: n. Sizes are random in lo..hi, as those
 * of malloc_mixed. */
typedef struct wh_bench_survey_kernels {
    wh_bench_launcher malloc_clocked; /* ptrs[i] = malloc(size of i), sizes[i] = ticks it took */
    wh_bench_launcher free_clocked;   /* free(ptrs[i]), sizes[i] = ticks */
    wh_bench_launcher work;           /* malloc(size of i), and `write` of its words at once */
    wh_bench_launcher floor_clocked;  /* stores an address, and what the clock reads twice */
} wh_bench_survey_kernels;

/* Kernels on memory, whoever it is of; they know no heap. Threads to start: n, of scan whole
 * blocks. The 4-byte words of block i, size / 4 of them, follow from seed, i and their place. */
typedef struct wh_bench_memory_kernels {
    wh_bench_launcher sizes;   /* sizes[i] = size of i, up to a multiple of step; sizes[n] = 0 */
    wh_bench_launcher scan;    /* sums[i] = sizes before i, for i up to n; starts three kernels */
    wh_bench_launcher place;   /* ptrs[i] = base + sums[i] */
    wh_bench_launcher produce; /* the words of block base + sums[i] */
    wh_bench_launcher write, read;           /* the words of block ptrs[i]; sizes[i] = their sum */
    wh_bench_launcher write_rows, read_rows; /* the same of word k at base + 4 * (k * n + i) */
    wh_bench_launcher check;      /* counts the blocks ptrs[i] with a wrong word, and NULLs */
    wh_bench_launcher check_sums; /* counts the sizes[i] that are not what read stores */
} wh_bench_memory_kernels;

/* malloc_single and free_all for checked heaps, whose handles other kernels do not get. */
typedef struct wh_bench_checked_kernels {
    wh_status (*bind)(const wh_heap *heap, wh_bench_handle *handle);
    wh_bench_launcher malloc_single, free_all;
} wh_bench_checked_kernels;

/* The timed kernels once more, in a form of their own: without launch bounds. */
typedef struct wh_bench_plain_kernels {
    wh_bench_launcher malloc_single, malloc_mixed, malloc_warp, free_all, free_warp, churn;
    wh_bench_launcher malloc_log, server_round, slab_insert, slab_sweep;
    wh_bench_launcher slab_insert_pool, slab_sweep_pool;
} wh_bench_plain_kernels;

/* Kernels as a user would write them, for what the compiler makes of them: a malloc and
 * a free of one block, by all lanes or by lane 0 alone, or one of the two; the last of them
 * without launch bounds. symbol: what the CUDA runtime calls take, NULL on the simulated
 * device. */
#define WH_BENCH_REGISTER_KERNELS 5u
typedef struct wh_bench_register_kernel {
    const char *name; /* "malloc_free", "malloc_free_alone", "malloc", "free", "malloc_plain" */
    const void *symbol;
    wh_bench_launcher launch; /* n threads; ptrs[i], lo */
} wh_bench_register_kernel;

typedef struct wh_bench_register_kernels {
    wh_bench_register_kernel kernel[WH_BENCH_REGISTER_KERNELS];
} wh_bench_register_kernels;

/* The table for an allocator of list.h on a target; NULL if it is not built in. */
const wh_bench_kernels *wh_bench_kernels_find(const char *allocator, wh_target target);
const wh_bench_ledger_kernels *wh_bench_ledger_find(const char *allocator, wh_target target);
const wh_bench_heaps_kernels *wh_bench_heaps_find(const char *allocator, wh_target target);
const wh_bench_survey_kernels *wh_bench_survey_find(const char *allocator, wh_target target);
const wh_bench_memory_kernels *wh_bench_memory_find(wh_target target);
const wh_bench_checked_kernels *wh_bench_checked_find(const char *allocator, wh_target target);
const wh_bench_arena_kernels *wh_bench_arena_find(const char *allocator, wh_target target);
const wh_bench_plain_kernels *wh_bench_plain_find(const char *allocator, wh_target target);
const wh_bench_register_kernels *wh_bench_registers_find(const char *allocator, wh_target target);

#endif
