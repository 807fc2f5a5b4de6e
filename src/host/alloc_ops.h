/* alloc_ops.h: what the host needs of one allocator on one target. alloc_ops.c is
 * compiled once per pair and exports one table each: whi_alloc_ops_<ident>_<target>. */
#ifndef WHI_ALLOC_OPS_H
#define WHI_ALLOC_OPS_H

#include "warpheap/detail/alloc/contract.h"
#include "warpheap/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct whi_alloc_ops {
    const char *name;
    uint32_t handle_bytes;
    /* handle: WH_HANDLE_BYTES of host memory, filled in. options: of the allocator's family. */
    wh_status (*plan)(void *handle, wh_plan *plan, unsigned char *memory, uint64_t bytes,
                      const void *options, uint32_t n_sms);
    wh_status (*init)(const wh_launch *launch, const void *handle);
    /* On the launch's stream, without waiting. s, r, room: device memory, filled from nothing.
     * start: what s holds before anything is counted. room: a sink, and behind it `capacity`
     * entries. */
    wh_status (*stats)(const wh_launch *launch, const void *handle, wh_stats *s,
                       const wh_stats *start);
    wh_status (*check)(const wh_launch *launch, const void *handle, wh_report *r);
    wh_status (*walk)(const wh_launch *launch, const void *handle, void *room, uint64_t capacity);
    /* Of an allocator that can grow, else NULL: handle for a heap in memory[0..bytes) that
     * can take over all of the old one; and the copying, into a heap that is initialised. */
    wh_status (*grow_plan)(void *handle, const void *old, wh_plan *plan, unsigned char *memory,
                           uint64_t bytes, const void *options);
    wh_status (*grow)(const wh_launch *launch, const void *handle, const void *old);
    /* Of an allocator with WH_CAP_RESERVE, else NULL: contract.h. */
    wh_status (*reserve_plan)(void *handle, wh_reserve_plan *r, unsigned char *memory,
                              uint64_t bytes, const void *options, uint32_t n_sms);
    wh_status (*reserve_step)(const wh_launch *launch, const void *handle,
                              const wh_reserve_step *step);
    /* Of an allocator whose heaps can be saved, else NULL: contract.h. bits: device memory. */
    void (*image_of)(const void *handle, wh_image_shape *s);
    wh_status (*image_plan)(void *handle, wh_plan *plan, const wh_image_shape *s,
                            unsigned char *memory, uint64_t bytes, uint32_t n_sms);
    wh_status (*live)(const wh_launch *launch, const void *handle, uint64_t *bits);
    wh_status (*adopt)(const wh_launch *launch, const void *handle);
    /* Of an allocator with WH_CAP_LEFT. q: device memory. */
    wh_status (*left)(const wh_launch *launch, const void *handle, wh_left_query *q,
                      const wh_left_query *question);
    /* Of an allocator with a gauge, else NULL: contract.h. */
    int (*gauge)(const void *handle, const wh_gauge_lens *lens, wh_gauge_sample *s);
    /* Of an allocator with records, else NULL: contract.h. found: device memory. */
    wh_status (*watch_bytes)(const void *options, uint64_t heap_bytes, wh_watch *watch);
    void (*set_watch)(void *handle, wh_watch *watch);
    wh_status (*check_blocks)(const wh_launch *launch, const void *handle, uint64_t *found,
                              uint64_t with_leaks);
    /* Of an allocator with snapshots, else NULL: contract.h. sites, texts: device memory. */
    wh_status (*snapshot)(const wh_launch *launch, const void *handle, const wh_snapshot_window *w);
    wh_status (*read_sites)(const wh_launch *launch, const uint64_t *sites, wh_record_site *texts,
                            uint64_t n);
    /* Of an allocator with WH_CAP_COMPACT, else NULL: contract.h. items: of the second kernel's
     * launch; out: device memory. */
    wh_status (*compact)(const wh_launch *items, const void *handle, wh_compaction *out);
    /* The hash of how this code lays a heap out (wh_layout_hash). */
    uint64_t (*layout)(void);
} whi_alloc_ops;

/* The table of an allocator on a target; NULL: it is not built in, or does not run there. */
const whi_alloc_ops *whi_alloc_ops_find(const char *allocator, wh_target target);

#ifdef __cplusplus
}
#endif

#endif
