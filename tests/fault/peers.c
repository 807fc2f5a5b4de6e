/* peers.c: workloads of two devices on one heap, and the fault that they find: accesses of a scope
 * that ends at the device. */
#include "fault/churn.h"

/* --- kernels ---------------------------------------------------------------------------------- */

/* A block of so many words, at least 2, says how many these are, and whose. */
WH_FN void stamp(uint64_t *p, uint64_t words, uint64_t value) {
    p[0] = words;
    mark(p + 1, words - 1, value);
}

WH_FN int is_stamped(const uint64_t *p) {
    return is_marked(p + 1, p[0] - 1, p[1]);
}

/* Lanes of both devices put a block into one of `holds` boxes, look at the one that they find
 * there, and free it: most are of a lane of the other device, or of one that freed for it. The
 * second kernel empties the boxes. */
#define PEER_CHURN(name, ident, heap, spread)                                                    \
    WH_KERNEL(name, workload_args, a) {                                                          \
        const uint64_t i = wh_thread_id() + a.device * wh_grid_threads();                        \
        uint32_t random = a.seed * 7919u + (uint32_t)i * 104729u + 1u;                           \
        for (uint32_t step = 0; step < a.steps; step++) {                                        \
            const uint64_t words = (uint64_t)a.least << next(&random) % (spread);                \
            uint64_t *p = (uint64_t *)wh_##ident##_malloc(a.heap, lanes_at_malloc(), words * 8); \
            wh_add_u32_relaxed(&a.found->nulls, p == NULL);                                      \
            if (p != NULL) {                                                                     \
                stamp(p, words, (i << 32) + ((uint64_t)step << 16));                             \
            }                                                                                    \
            p = (uint64_t *)(uintptr_t)wh_exchange_u64_acq_rel(&a.data[next(&random) % a.holds], \
                                                               (uint64_t)(uintptr_t)p);          \
            if (p != NULL) {                                                                     \
                wh_add_u32_relaxed(&a.found->overlaps, !is_stamped(p));                          \
                wh_##ident##_free(a.heap, lanes_at_free(), p);                                   \
            }                                                                                    \
        }                                                                                        \
    }                                                                                            \
    WH_KERNEL(name##_end, workload_args, a) {                                                    \
        for (uint64_t k = wh_thread_id(); k < a.holds; k += wh_grid_threads()) {                 \
            uint64_t *p = (uint64_t *)(uintptr_t)a.data[k];                                      \
            if (p != NULL) {                                                                     \
                wh_add_u32_relaxed(&a.found->overlaps, !is_stamped(p));                          \
                wh_##ident##_free(a.heap, lanes_at_free(), p);                                   \
            }                                                                                    \
        }                                                                                        \
    }
PEER_CHURN(peers_tessera, tessera, heap, 5)
PEER_CHURN(peers_gallatin, gallatin, gallatin, 4)
PEER_CHURN(peers_ouro, ouro_s_p, ouro, 5)
PEER_CHURN(peers_halloc, halloc, slabs, 3)
PEER_CHURN(peers_scatter, scatteralloc, scatter, 4)
PEER_CHURN(peers_list, cfmmalloc, list, 4)

/* --- the suite -------------------------------------------------------------------------------- */

#define HEAP(name, ref, above)                                                              \
    .allocator = (name), .make = make_above, .handle_bytes = sizeof(ref), .bytes = (above), \
    .peers = 1

static const workload workloads[] = {
    {"peers-tessera", peers_tessera, peers_tessera_end, 6, 2, 40, .least = 2, .holds = 5,
     .may_fail = 1, .options = {{"chunk_bytes", 1024}, {"shards", 2}},
     HEAP("tessera", wh_tessera_ref, 4096)},
    /* One lane on each device: what is not ordered is not ordered between devices. */
    {"peers-two", peers_tessera, peers_tessera_end, 1, 1, 400, .least = 2, .holds = 2,
     .may_fail = 1, .options = {{"chunk_bytes", 1024}, {"shards", 1}},
     HEAP("tessera", wh_tessera_ref, 1024)},
    {"peers-gallatin", peers_gallatin, peers_gallatin_end, 6, 2, 40, .least = 2, .holds = 5,
     .may_fail = 1, HEAP("gallatin", wh_gallatin_ref, 0)},
    {"peers-ouro", peers_ouro, peers_ouro_end, 6, 2, 40, .least = 2, .holds = 5, .may_fail = 1,
     HEAP("ouro-s-p", wh_ouro_ref, 0)},
    {"peers-halloc", peers_halloc, peers_halloc_end, 6, 2, 40, .least = 2, .holds = 5,
     .may_fail = 1, HEAP("halloc", wh_halloc_ref, 0)},
    {"peers-scatter", peers_scatter, peers_scatter_end, 6, 2, 40, .least = 2, .holds = 5,
     .may_fail = 1, HEAP("scatteralloc", wh_scatteralloc_ref, 0)},
    {"peers-list", peers_list, peers_list_end, 6, 2, 40, .least = 2, .holds = 5, .may_fail = 1,
     HEAP("cfmmalloc", wh_circular_ref, 1000)},
    {.name = NULL},
};

static const fault faults[] = {
    {"simt_p1_scope", "peers-tessera", WEAK_MEMORY}, /* what a peer has stored is seen late */
    {"simt_p1_scope", "peers-gallatin", WEAK_MEMORY},
    {"simt_p1_scope", "peers-list", WEAK_MEMORY},
    {"tessera_p1_free", "peers-two", UNDER_TSAN},
    {"tessera_p1_take", "peers-two", UNDER_TSAN},
    {"tessera_p2_publish", "peers-two", UNDER_TSAN},
    {"tessera_p2_claim", "peers-two", UNDER_TSAN},
    {"gallatin_p1_free", "peers-gallatin", UNDER_TSAN},
    {NULL, NULL, EVERYWHERE},
};

const suite fault_peers = {"peers", workloads, faults, 20000000};
