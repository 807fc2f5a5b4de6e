/* alloc/list.h: one entry per allocator. Everything else (library, conformance suite, benchmark,
 * command line) iterates over this list. The build reads it, too: X(, the identifier and the name
 * of an entry stand at the beginning of a line. Internal: may change.
 *
 *   ident      C name: functions are wh_<ident>_malloc and so on
 *   name       on the command line, and in wh_heap_options.allocator
 *   title      one line
 *   source     paper and algorithms
 *   caps       WH_CAPS_* below: what the design cannot do is left out
 *
 * "default" on the command line and a NULL name mean WH_DEFAULT_ALLOCATOR.
 */
#ifndef WH_ALLOC_LIST_H
#define WH_ALLOC_LIST_H

#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

#define WH_DEFAULT_ALLOCATOR "tessera"

#define WH_CAPS_GALLATIN                                                                         \
    (WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_ANY_SIZE | WH_CAP_EXACT_OOM | WH_CAP_USABLE_SIZE |   \
     WH_CAP_ALIGNED | WH_CAP_OWNS | WH_CAP_STATS | WH_CAP_CHECK | WH_CAP_BAD_FREE | WH_CAP_SIM | \
     WH_CAP_RESET | WH_CAP_OWN_MEMORY | WH_CAP_PEERS)
#define WH_CAPS_TESSERA                                                                           \
    (WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_ANY_SIZE | WH_CAP_EXACT_OOM | WH_CAP_USABLE_SIZE |    \
     WH_CAP_ALIGNED | WH_CAP_OWNS | WH_CAP_STATS | WH_CAP_WALK | WH_CAP_CHECK | WH_CAP_BAD_FREE | \
     WH_CAP_SIM | WH_CAP_RESET | WH_CAP_OWN_MEMORY | WH_CAP_PEERS | WH_CAP_LEFT | WH_CAP_RESERVE)
#define WH_CAPS_BUMP                                                                   \
    (WH_CAP_DISJOINT | WH_CAP_ANY_SIZE | WH_CAP_ALIGNED | WH_CAP_OWNS | WH_CAP_STATS | \
     WH_CAP_CHECK | WH_CAP_SIM | WH_CAP_RESET | WH_CAP_OWN_MEMORY | WH_CAP_PEERS | WH_CAP_LEFT)
/* A virtualized queue may hold on to a chunk that malloc could use: not EXACT_OOM. */
#define WH_CAPS_OURO                                                                     \
    (WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_USABLE_SIZE | WH_CAP_ALIGNED | WH_CAP_OWNS | \
     WH_CAP_STATS | WH_CAP_CHECK | WH_CAP_BAD_FREE | WH_CAP_RESET | WH_CAP_OWN_MEMORY |  \
     WH_CAP_PEERS | WH_CAP_GROW | WH_CAP_COMPACT)
#define WH_CAPS_OURO_S_P (WH_CAPS_OURO | WH_CAP_EXACT_OOM | WH_CAP_SIM)
#define WH_CAPS_OURO_S_C (WH_CAPS_OURO | WH_CAP_EXACT_OOM | WH_CAP_WALK | WH_CAP_SIM)
#define WH_CAPS_OURO_V_P (WH_CAPS_OURO | WH_CAP_SIM)
#define WH_CAPS_OURO_V_C (WH_CAPS_OURO | WH_CAP_WALK | WH_CAP_SIM)
/* Random walks give up by a statistical test, so not EXACT_OOM (their titles say what NULL means
 * by default: the options oom_free_ppm, oom_error_ppm); one size, so not ANY_SIZE. */
#define WH_CAPS_RANDOM_WALK                                                            \
    (WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_USABLE_SIZE | WH_CAP_OWNS | WH_CAP_STATS | \
     WH_CAP_WALK | WH_CAP_CHECK | WH_CAP_BAD_FREE | WH_CAP_SIM | WH_CAP_RESET |        \
     WH_CAP_OWN_MEMORY | WH_CAP_PEERS | WH_CAP_LEFT)
#define WH_CAPS_RWMALLOC                                                                          \
    (WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_ANY_SIZE | WH_CAP_EXACT_OOM | WH_CAP_USABLE_SIZE |    \
     WH_CAP_ALIGNED | WH_CAP_OWNS | WH_CAP_STATS | WH_CAP_WALK | WH_CAP_CHECK | WH_CAP_BAD_FREE | \
     WH_CAP_SIM | WH_CAP_RESET | WH_CAP_OWN_MEMORY | WH_CAP_PEERS)
/* Allocators over a page table (alloc/paged.h). */
#define WH_CAPS_PAGED                                                                             \
    (WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_ANY_SIZE | WH_CAP_EXACT_OOM | WH_CAP_USABLE_SIZE |    \
     WH_CAP_ALIGNED | WH_CAP_OWNS | WH_CAP_STATS | WH_CAP_WALK | WH_CAP_CHECK | WH_CAP_BAD_FREE | \
     WH_CAP_SIM | WH_CAP_RESET | WH_CAP_OWN_MEMORY | WH_CAP_PEERS)
/* What others hold, or count too much, for a moment may be a free block: not EXACT_OOM. */
#define WH_CAPS_HALLOC                                                                        \
    (WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_ANY_SIZE | WH_CAP_USABLE_SIZE | WH_CAP_ALIGNED |  \
     WH_CAP_OWNS | WH_CAP_STATS | WH_CAP_WALK | WH_CAP_CHECK | WH_CAP_BAD_FREE | WH_CAP_SIM | \
     WH_CAP_RESET | WH_CAP_OWN_MEMORY | WH_CAP_PEERS)
/* NULL after one round through a list that others change: not EXACT_OOM. */
#define WH_CAPS_CIRCULAR                                                                      \
    (WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_ANY_SIZE | WH_CAP_USABLE_SIZE | WH_CAP_ALIGNED |  \
     WH_CAP_OWNS | WH_CAP_STATS | WH_CAP_WALK | WH_CAP_CHECK | WH_CAP_BAD_FREE | WH_CAP_SIM | \
     WH_CAP_RESET | WH_CAP_OWN_MEMORY | WH_CAP_PEERS)
/* Overwrites live blocks when it comes around, and free does nothing. */
#define WH_CAPS_AWMALLOC                                                        \
    (WH_CAP_ANY_SIZE | WH_CAP_OWNS | WH_CAP_CHECK | WH_CAP_SIM | WH_CAP_RESET | \
     WH_CAP_OWN_MEMORY | WH_CAP_PEERS)
#define WH_CAPS_PAGE_QUEUE                                                                 \
    (WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_EXACT_OOM | WH_CAP_USABLE_SIZE | WH_CAP_OWNS | \
     WH_CAP_STATS | WH_CAP_CHECK | WH_CAP_BAD_FREE | WH_CAP_SIM | WH_CAP_RESET |           \
     WH_CAP_OWN_MEMORY | WH_CAP_PEERS | WH_CAP_LEFT)
/* Nothing is freed but all of a warp's blocks together, and one warp's rest is no other's. */
#define WH_CAPS_FDGMALLOC                                                              \
    (WH_CAP_DISJOINT | WH_CAP_ANY_SIZE | WH_CAP_ALIGNED | WH_CAP_OWNS | WH_CAP_STATS | \
     WH_CAP_CHECK | WH_CAP_SIM | WH_CAP_RESET | WH_CAP_OWN_MEMORY)
/* Powers of two alone, and NULL may miss what others split or merge at that moment. */
#define WH_CAPS_BULK                                                                           \
    (WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_USABLE_SIZE | WH_CAP_ALIGNED | WH_CAP_OWNS |       \
     WH_CAP_STATS | WH_CAP_WALK | WH_CAP_CHECK | WH_CAP_BAD_FREE | WH_CAP_SIM | WH_CAP_RESET | \
     WH_CAP_OWN_MEMORY | WH_CAP_PEERS)
/* Up to a superblock; blocks in superblocks that the hash map does not name may not be found. */
#define WH_CAPS_KMA                                                                            \
    (WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_USABLE_SIZE | WH_CAP_ALIGNED | WH_CAP_OWNS |       \
     WH_CAP_STATS | WH_CAP_WALK | WH_CAP_CHECK | WH_CAP_BAD_FREE | WH_CAP_SIM | WH_CAP_RESET | \
     WH_CAP_OWN_MEMORY | WH_CAP_PEERS)
#define WH_CAPS_NULL (WH_CAP_OWNS | WH_CAP_SIM | WH_CAP_RESET | WH_CAP_OWN_MEMORY | WH_CAP_PEERS)
/* Blocks overlap; free does its part of the work, and nothing is handed out because of it. */
#define WH_CAPS_FLOOR                                                                           \
    (WH_CAP_FREE | WH_CAP_OWNS | WH_CAP_CHECK | WH_CAP_SIM | WH_CAP_RESET | WH_CAP_OWN_MEMORY | \
     WH_CAP_PEERS)
#define WH_CAPS_CUDA (WH_CAP_DISJOINT | WH_CAP_FREE)

#define WH_ALIGN_2M (2u << 20)
#define WH_ALIGN_1M (1u << 20)
#define WH_ALIGN_64K (1u << 16)

/* The folder and header of each identifier: alloc/<family>/<family>.h. */
#define WH_FAMILY_OF_tessera tessera
#define WH_FAMILY_OF_null null
#define WH_FAMILY_OF_floor floor
#define WH_FAMILY_OF_floor_plain floor
#define WH_FAMILY_OF_bump bump
#define WH_FAMILY_OF_bump_plain bump
#define WH_FAMILY_OF_cuda cuda
#define WH_FAMILY_OF_gallatin gallatin
#define WH_FAMILY_OF_ouro_s_p ouroboros
#define WH_FAMILY_OF_ouro_s_c ouroboros
#define WH_FAMILY_OF_ouro_va_p ouroboros
#define WH_FAMILY_OF_ouro_va_c ouroboros
#define WH_FAMILY_OF_ouro_vl_p ouroboros
#define WH_FAMILY_OF_ouro_vl_c ouroboros
#define WH_FAMILY_OF_rw random_walk
#define WH_FAMILY_OF_rw_bm random_walk
#define WH_FAMILY_OF_corw random_walk
#define WH_FAMILY_OF_crw random_walk
#define WH_FAMILY_OF_page_queue page_queue
#define WH_FAMILY_OF_rwmalloc rwmalloc
#define WH_FAMILY_OF_awmalloc circular
#define WH_FAMILY_OF_cmalloc circular
#define WH_FAMILY_OF_cfmalloc circular
#define WH_FAMILY_OF_cmmalloc circular
#define WH_FAMILY_OF_cfmmalloc circular
#define WH_FAMILY_OF_scatteralloc scatteralloc
#define WH_FAMILY_OF_halloc halloc
#define WH_FAMILY_OF_xmalloc xmalloc
#define WH_FAMILY_OF_fdgmalloc fdgmalloc
#define WH_FAMILY_OF_bulk bulk
#define WH_FAMILY_OF_kma kma
#define WH_FAMILY_OF_dynasoar dynasoar

/* The identifiers that have a pool of their own (contract.h). WH_HAS_POOL(ident), in #if: 1 for
 * them, 0 for others, of which the pasted word has no comma in it. */
#define WH_POOL_OF_tessera ~, 1
#define WH_HAS_POOL(ident) WH_HAS_POOL_(WH_POOL_OF_##ident)
#define WH_HAS_POOL_(...) WH_HAS_POOL__(__VA_ARGS__, 0, 0)
#define WH_HAS_POOL__(first, second, ...) second

/* The identifiers that keep where a call stands: wh_X_malloc_at and so on, as malloc with a site
 * behind the other arguments (record.h). WH_HAS_SITES(ident), in #if. */
#define WH_SITES_OF_tessera ~, 1
#define WH_HAS_SITES(ident) WH_HAS_POOL_(WH_SITES_OF_##ident)

#define WH_FAMILY_TEXT(ident) WH_FAMILY_TEXT_(WH_FAMILY_OF_##ident)
#define WH_FAMILY_TEXT_(family) WH_FAMILY_TEXT__(family)
#define WH_FAMILY_TEXT__(family) #family

/* X(ident, name, title, source, caps, max_align, max_size) */
/* clang-format off */
#define WH_ALLOC_LIST(X) \
    X(tessera, "tessera", "cursors over slabs, bitmaps, a pool of chunks", \
      "docs/tessera/README.md", WH_CAPS_TESSERA, WH_ALIGN_2M, UINT64_MAX) \
    X(null, "null", "floor: computes an address, touches no state", \
      "this project", WH_CAPS_NULL, 16, UINT64_MAX) \
    X(floor, "floor", \
      "measured floor: one atomic a malloc, a load and an atomic a free; overwrites", \
      "this project", WH_CAPS_FLOOR, 16, UINT64_MAX) \
    X(floor_plain, "floor-plain", "the same, free without order or result", \
      "this project", WH_CAPS_FLOOR, 16, UINT64_MAX) \
    X(bump, "bump", "one counter, one atomicAdd per warp, no free", \
      "Vinkler and Havran 2015, Algorithm 1, warp-aggregated", \
      WH_CAPS_BUMP, WH_ALIGN_1M, UINT64_MAX) \
    X(bump_plain, "bump-plain", "one counter, one atomicAdd per lane, no free", \
      "Vinkler and Havran 2015, Algorithm 1", WH_CAPS_BUMP, WH_ALIGN_1M, UINT64_MAX) \
    X(cuda, "cuda", "malloc and free of the CUDA device runtime, for comparison", \
      "CUDA C++ Programming Guide", WH_CAPS_CUDA, 16, UINT64_MAX) \
    X(gallatin, "gallatin", "segments, blocks and slices under van Emde Boas trees", \
      "McCoy and Pandey, PPoPP 2024, Algorithms 1-4", WH_CAPS_GALLATIN, WH_ALIGN_1M, UINT64_MAX) \
    X(ouro_s_p, "ouro-s-p", "chunks of pages under one static queue of pages per size", \
      "Winter et al., ICS 2020, Algorithm 3", WH_CAPS_OURO_S_P, WH_ALIGN_64K, 1048576) \
    X(ouro_s_c, "ouro-s-c", "the same, queues of chunks with free pages", \
      "Winter et al., ICS 2020, Algorithms 4-5", WH_CAPS_OURO_S_C, WH_ALIGN_64K, 1048576) \
    X(ouro_va_p, "ouro-va-p", "pages, queues virtualized by an array of queue chunks", \
      "Winter et al., ICS 2020, section 5.1", WH_CAPS_OURO_V_P, WH_ALIGN_64K, 1048576) \
    X(ouro_va_c, "ouro-va-c", "chunks, queues virtualized by an array of queue chunks", \
      "Winter et al., ICS 2020, section 5.1", WH_CAPS_OURO_V_C, WH_ALIGN_64K, 1048576) \
    X(ouro_vl_p, "ouro-vl-p", "pages, queues virtualized as linked queue chunks", \
      "Winter et al., ICS 2020, section 5.2", WH_CAPS_OURO_V_P, WH_ALIGN_64K, 1048576) \
    X(ouro_vl_c, "ouro-vl-c", "chunks, queues virtualized as linked queue chunks", \
      "Winter et al., ICS 2020, section 5.2", WH_CAPS_OURO_V_C, WH_ALIGN_64K, 1048576) \
    X(rw, "rw", \
      "pages of one size found by a random walk over flags (NULL: under 0.5 % free, 99 % sure)", \
      "Pham et al. 2025, Algorithm 1", WH_CAPS_RANDOM_WALK, 16, 256) \
    X(rw_bm, "rw-bm", "the same over a bitmap with locks (NULL: under 0.5 % free, 99 % sure)", \
      "Pham et al. 2025, Algorithm 2", WH_CAPS_RANDOM_WALK, 16, 256) \
    X(corw, "corw", \
      "the lanes of a warp walk together and share what they find " \
      "(NULL: under 0.5 % free, 99 % sure)", \
      "Pham et al. 2025, Algorithms 3 and 4", WH_CAPS_RANDOM_WALK, 16, 256) \
    X(crw, "crw", \
      "a thread looks beside its last page before it walks (NULL: under 0.5 % free, 99 % sure)", \
      "Pham et al. 2025, Algorithm 5", WH_CAPS_RANDOM_WALK, 16, 256) \
    X(page_queue, "page-queue", \
      "pages of one size in one queue: stand-in for queue-based designs", \
      "Pham et al. 2025, section 5.1", WH_CAPS_PAGE_QUEUE, 16, 256) \
    X(rwmalloc, "rw-malloc", "consecutive units found by a random walk of the warp", \
      "Pham et al. 2025, Algorithm 6", WH_CAPS_RWMALLOC, WH_ALIGN_1M, UINT64_MAX) \
    X(awmalloc, "awmalloc", "one offset that wraps around and overwrites", \
      "Vinkler and Havran 2015, Algorithm 2", WH_CAPS_AWMALLOC, WH_ALIGN_1M, UINT64_MAX) \
    X(cmalloc, "cmalloc", "circular list of chunks", \
      "Vinkler and Havran 2015, Algorithm 3", WH_CAPS_CIRCULAR, WH_ALIGN_1M, UINT64_MAX) \
    X(cfmalloc, "cfmalloc", "the same, flag and next offset in one word", \
      "Vinkler and Havran 2015, section 5.3", WH_CAPS_CIRCULAR, WH_ALIGN_1M, UINT64_MAX) \
    X(cmmalloc, "cmmalloc", "circular list, one offset per SM", \
      "Vinkler and Havran 2015, section 5.4", WH_CAPS_CIRCULAR, WH_ALIGN_1M, UINT64_MAX) \
    X(cfmmalloc, "cfmmalloc", "the same, flag and next offset in one word", \
      "Vinkler and Havran 2015, section 5.4", WH_CAPS_CIRCULAR, WH_ALIGN_1M, UINT64_MAX) \
    X(scatteralloc, "scatteralloc", "pages of one size each, found by a hash of size and SM", \
      "Steinberger et al., InPar 2012", WH_CAPS_PAGED, WH_ALIGN_1M, UINT64_MAX) \
    X(halloc, "halloc", "slabs of one size each, heads by SM, a bitmap found by a hash", \
      "Adinets and Pleiter, GTC 2014", WH_CAPS_HALLOC, WH_ALIGN_1M, UINT64_MAX) \
    X(xmalloc, "xmalloc", "one basicblock for a warp, two levels of FIFO buffers", \
      "Huang et al., CIT 2010", WH_CAPS_HALLOC, WH_ALIGN_1M, UINT64_MAX) \
    X(fdgmalloc, "fdgmalloc", "a heap for each warp, freed as a whole", \
      "Widmer et al. 2013; Winter 2021, section 2.3.4", \
      WH_CAPS_FDGMALLOC, WH_ALIGN_1M, UINT64_MAX) \
    X(bulk, "bulk", "a buddy tree and bins under bulk semaphores", \
      "Gelado and Garland, PPoPP 2019; Winter 2021, section 2.3.9", \
      WH_CAPS_BULK, 4096, UINT64_MAX) \
    X(kma, "kma", "superblocks that a hash map finds by size", \
      "Spliet et al. 2014; Winter 2021, section 2.3.7", \
      WH_CAPS_KMA, 256, 16384) \
    X(dynasoar, "dynasoar", "blocks of one size or type each, found by hierarchical bitmaps", \
      "Springer and Masuhara, ECOOP 2019", WH_CAPS_PAGED, WH_ALIGN_1M, UINT64_MAX)
/* clang-format on */

#include "warpheap/detail/simt/end.h"

#endif
