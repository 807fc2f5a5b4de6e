/* hpp/node_pool.hpp: nodes with numbers, which threads take and give back at the same time. Part of
 * warpheap.hpp; include that. For the containers that many threads share: a word of 64 bits holds a
 * node's number and a tag.
 *
 * A node that was given back is taken again, and is a node for ever: so a thread that still looks
 * at one finds a node, though of another life. Memory goes back to the heap when the pool ends.
 *
 * Layout  segment k: 32 * 2^k nodes, numbers 1 + 32 * (2^k - 1) and up. Number 0 lies in the pool
 * Fields  fresh: the next number that nobody has had, in the lower half, and the end of those whose
 *         segments are there, in the upper half. Next > end: somebody brings segments, and about so
 *         many threads wait for nodes. fetch_add, one for all lanes that are there at the same
 *         time; stores of who brings
 *         segments: by who brings one; then constant. joined: which of them lie in the block of the
 *         one before: likewise
 *         failed: how often a segment could not be brought: fetch_add
 *         free: first of the list of nodes that were given back, and a tag: cas
 *         node.next_free: by who gives the node back, before it is on the list
 * I1      a number is on the list from free, or not below fresh, or in one thread's hands, or in
 *         the container: each once. The tag of free changes with each cas, so one that succeeds
 *         has seen the list as it is
 * I2      one thread brings: the one whose fetch_add has found next at the end. Others find it
 *         beyond, which is no number, and wait. Who brings sets next back to the end, so that no
 *         number is lost, also if there was no memory
 * P1      give: what was done with the node: cas of free, release -> take: load of free, acquire,
 *         of the value that its cas then finds again
 * P2      a segment, and what its malloc acquired: store of fresh, release -> fetch_add of fresh,
 *         acquire, then a wh_syncwarp, of those who take numbers in it. Who gets a number from
 *         another thread knows its segment by that
 * P3      what a thread that waits has freed before: its first look at failed, an atomic, acq_rel
 *         -> the atomic on failed of who finds no memory, then his store of fresh, release ->
 *         fetch_add of fresh, acquire, of who tries next
 * Progress   a cas fails only if another one has succeeded. Where no node is left all wait for who
 *         brings segments. He waits for nobody, but for what his mallocs wait for: two for each
 *         time that more threads have come than there is room for, each of them once. If he finds
 *         no memory the next one tries, and who has seen two fail fails, too: the second one's
 *         malloc began after his call. Tags have 32 bits: no thread may sleep through 2^32 calls
 * Cost    take: a load and an atomic on one word for a new node, two loads and a cas for one that
 *         was given back; give: a load and a cas; more if threads meet there. Segments for all who
 *         wait: a malloc, or two if the heap has no room for them in one piece
 * Failure take: none, if the heap has no room for the next segment, and no node is free
 * Source  R. Treiber, "Systems programming: coping with parallelism", 1986: the list
 * Check   tests/cpp/shared.cpp, tests/fault/cpp
 */
#ifndef WH_HPP_NODE_POOL_HPP
#define WH_HPP_NODE_POOL_HPP

#include "warpheap/core/warp_group.h"
#include "warpheap/hpp/objects.hpp"

#include "warpheap/detail/simt/begin.h"

namespace wh {
inline namespace WH_HPP_KIND {
namespace own {

#ifdef WH_HOSTILE
constexpr uint32_t first_log2 = 1;
#else
constexpr uint32_t first_log2 = 5;
#endif
constexpr uint32_t none = ~static_cast<uint32_t>(0);

/* A number and a tag in a word. */
WH_HOST_DEVICE constexpr uint64_t link_of(uint32_t number, uint32_t tag) {
    return static_cast<uint64_t>(tag) << 32 | number;
}
WH_HOST_DEVICE constexpr uint32_t number_of(uint64_t link) {
    return static_cast<uint32_t>(link);
}
/* A link to that node that differs from all before. */
WH_HOST_DEVICE constexpr uint64_t link_after(uint64_t link, uint32_t number) {
    return link_of(number, static_cast<uint32_t>(link >> 32) + 1);
}

/* Lanes that happen to be here at the same time for the same object: those of the first lane's
 * object, and each other one alone. */
WH_FN wh_group group_of(const void *object) {
    const uint64_t mine = reinterpret_cast<uint64_t>(object);
    const wh_mask here = wh_activemask();
    const int same = wh_shfl_u64(here, mine, wh_mask_leader(here)) == mine;
    const wh_mask alike = wh_ballot(here, same);
    return wh_group_of_lanes(same ? alike : 1u << wh_lane_id());
}

/* Node has next_free, an uint32_t; begin(), which makes it node 0; and begin_life(), which makes it
 * a node that has not been taken before. Numbers have so many bits. */
template <class Node, uint32_t bits = 31> class node_pool {
  public:
    /* Host and device: nothing is allocated. `first` is node 0, which is in use. */
    WH_HOST_DEVICE explicit node_pool(const heap_ref &heap) noexcept : heap_(heap) {
        reset();
    }
    node_pool(const node_pool &) = delete;
    node_pool &operator=(const node_pool &) = delete;

    WH_DEVICE Node *at(uint32_t number) {
        if (number == 0) {
            return &first_;
        }
        const uint64_t base = wh_load_u64_relaxed(&segments_[segment_of(number)]); /* P2 */
        return reinterpret_cast<Node *>(base) + place_in(number);
    }

    /* The number of a node that nobody else has; none: there is no memory. is_new: nobody has ever
     * had it. */
    WH_DEVICE uint32_t take() {
        bool is_new = false;
        return take(is_new);
    }
    WH_DEVICE uint32_t take(bool &is_new) {
        for (uint32_t attempt = 0;; wh_backoff(attempt++)) {
            const uint64_t seen =
                WH_PLANT_ORDER(node_pool_p1_look, wh_load_u64, acquire)(&free_); /* P1 */
            const uint32_t number = number_of(seen);
            if (number == none) {
                const uint32_t fresh = take_fresh();
                is_new = true;
                if (fresh != none || number_of(wh_load_u64_relaxed(&free_)) == none) {
                    return fresh;
                }
                continue;
            }
            const uint32_t next = wh_load_u32_relaxed(&at(number)->next_free);
            const uint64_t after =
                WH_PLANT(node_pool_i1_tag, link_after(seen, next), link_of(next, 0));
            if (wh_cas_u64_relaxed(&free_, seen, after) == seen) {
                is_new = false;
                return number;
            }
        }
    }

    /* Gives back what take gave. */
    WH_DEVICE void give(uint32_t number) {
        for (uint32_t attempt = 0;; wh_backoff(attempt++)) {
            const uint64_t seen = wh_load_u64_relaxed(&free_);
            wh_store_u32_relaxed(&at(number)->next_free, number_of(seen));
            const uint64_t after =
                WH_PLANT(node_pool_i1_tag, link_after(seen, number), link_of(number, 0));
            if (WH_PLANT_ORDER(node_pool_p1_give, wh_cas_u64, release)(&free_, seen, after) ==
                seen) {
                return; /* P1 */
            }
        }
    }

    /* As in the beginning: all segments go back. By a thread that is alone here. */
    WH_DEVICE void clear() {
        for (uint32_t k = 0; k < n_segments; k++) {
            if ((joined_ >> k & 1) == 0) {
                own::give(heap_, reinterpret_cast<void *>(wh_load_u64_relaxed(&segments_[k])));
            }
        }
        reset();
    }
    /* Nodes that have ever been taken, those that came back included. */
    WH_DEVICE uint32_t used() const {
        const uint64_t seen = wh_load_u64_relaxed(&fresh_);
        return next_of(seen) < end_of(seen) ? next_of(seen) : end_of(seen);
    }
    /* Of those and of others for which there is memory. */
    WH_DEVICE uint32_t capacity() const {
        return end_of(wh_load_u64_relaxed(&fresh_)) - 1;
    }
    WH_HOST_DEVICE bool has_memory() const noexcept {
        return end_of(fresh_) > 1;
    }

  private:
    static constexpr uint32_t n_segments = bits - first_log2;

    WH_HOST_DEVICE void reset() noexcept {
        for (uint32_t k = 0; k < n_segments; k++) {
            segments_[k] = 0;
        }
        free_ = link_of(none, 0);
        fresh_ = fresh_of(1, 1);
        joined_ = failed_ = 0;
        first_.begin();
    }
    WH_HOST_DEVICE static uint32_t segment_of(uint32_t number) noexcept {
        return wh_msb32(number - 1 + (1u << first_log2)) - first_log2;
    }
    WH_HOST_DEVICE static uint32_t place_in(uint32_t number) noexcept {
        return number - 1 + (1u << first_log2) - (1u << (segment_of(number) + first_log2));
    }
    WH_HOST_DEVICE static constexpr uint64_t fresh_of(uint32_t next, uint32_t end) noexcept {
        return static_cast<uint64_t>(end) << 32 | next;
    }
    WH_HOST_DEVICE static constexpr uint32_t next_of(uint64_t fresh) noexcept {
        return static_cast<uint32_t>(fresh);
    }
    WH_HOST_DEVICE static constexpr uint32_t end_of(uint64_t fresh) noexcept {
        return static_cast<uint32_t>(fresh >> 32);
    }

    /* The first number of a segment. */
    WH_HOST_DEVICE static constexpr uint32_t first_of(uint32_t k) noexcept {
        return 1 + (((1u << k) - 1) << first_log2);
    }

    /* A number that nobody has had; none: the heap has no room for more. */
    WH_DEVICE uint32_t take_fresh() {
        uint32_t before = 0;
        for (uint32_t attempt = 0;; wh_backoff(attempt++)) {
            uint64_t seen = attempt != 0 ? wh_load_u64_relaxed(&fresh_) : 0;
            if (next_of(seen) <= end_of(seen)) { /* I1, P2; who waits is counted once */
                seen = add_together();
            }
            if (next_of(seen) < end_of(seen)) {
                at(next_of(seen))->begin_life();
                return next_of(seen);
            }
            if (WH_PLANT(node_pool_i2_one, next_of(seen) == end_of(seen), true)) {
                return bring(end_of(seen)); /* I2 */
            }
            if (attempt == 0) {
                before = wh_fetch_add_u32_acq_rel(&failed_, 0); /* P3 */
            } else if (wh_load_u32_relaxed(&failed_) - before >= WH_PLANT(node_pool_p3_two, 2, 1)) {
                return none;
            }
        }
    }
    /* What a fetch_add of 1 to fresh returns, or would: those lanes that happen to be here at the
     * same time, for the same pool, make one. */
    WH_DEVICE uint64_t add_together() {
        const wh_group g = group_of(this);
        uint64_t first = 0;
        if (wh_group_leads(g)) {
            first = WH_PLANT_ORDER(node_pool_p2_take, wh_fetch_add_u64, acquire)(&fresh_, g.n);
        }
        first = wh_shfl_u64(g.lanes, first, g.leader);
        WH_PLANT(node_pool_p2_lanes, wh_syncwarp(g.lanes), (void)0); /* P2 */
        return first + WH_PLANT(node_pool_i1_rank, g.rank, 0u);
    }
    /* Brings the segments from the one on that begins with this number, which is then ours: enough
     * for those who wait by then. */
    WH_DEVICE uint32_t bring(uint32_t number) {
        uint32_t end = number, before;
        do {
            before = end;
            end = bring_some(end, next_of(wh_load_u64_relaxed(&fresh_)));
        } while (end != before && end < next_of(wh_load_u64_relaxed(&fresh_)));
        if (end == number) {
            (void)wh_fetch_add_u32_acq_rel(&failed_, 1); /* P3 */
            wh_store_u64_release(&fresh_, fresh_of(WH_PLANT(node_pool_i2_back, number, number + 1),
                                                   number)); /* I2, P3 */
            return none;
        }
        at(number)->begin_life();
        WH_PLANT_ORDER(node_pool_p2_bring, wh_store_u64, release)
        (&fresh_, fresh_of(number + 1, end)); /* P2 */
        return number;
    }
    /* A block of the segments from the one on that begins with this number, up to that of `wanted`,
     * or of the first one alone; the end of its numbers, `first` if there is no memory. */
    WH_DEVICE uint32_t bring_some(uint32_t first, uint32_t wanted) {
        const uint32_t k = segment_of(first);
        uint32_t end = k + 1;
        Node *nodes = nullptr;
        while (end < n_segments && first_of(end) < wanted) {
            end++;
        }
        for (; nodes == nullptr && k < n_segments; end = k + 1) {
            nodes = take_for<Node>(heap_, first_of(end) - first);
            if (nodes != nullptr || end == k + 1) {
                break;
            }
        }
        for (uint32_t i = k; nodes != nullptr && i < end; i++) {
            wh_store_u64_relaxed(&segments_[i],
                                 reinterpret_cast<uint64_t>(nodes + (first_of(i) - first)));
            joined_ |= static_cast<uint32_t>(i > k) << i;
        }
        return nodes != nullptr ? first_of(end) : first;
    }

    heap_ref heap_;
    uint64_t segments_[n_segments];
    uint64_t free_;
    uint64_t fresh_;
    uint32_t failed_, joined_;
    Node first_;
};

/* Room for a T in a node, which containers construct and end. */
template <class T> struct storage {
    alignas(T) unsigned char bytes[sizeof(T)];

    WH_HOST_DEVICE T *get() noexcept {
        return reinterpret_cast<T *>(bytes);
    }
};

} // namespace own
} // namespace WH_HPP_KIND
} // namespace wh

#include "warpheap/detail/simt/end.h"

#endif
