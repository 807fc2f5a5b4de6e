/* hpp/mpmc_queue.hpp: wh::queue, first in, first out, which many threads share: many put in, many
 * take out. Part of warpheap.hpp; include that. Where it lies and who may make and end it: as a
 * stack (hpp/node_stack.hpp).
 *
 * Layout  a list of nodes from head to the last one. The node at head has no value any more
 * Fields  head, tail: number of a node, and a tag: cas. Tail is the last node, or one before it
 *         node.next: link to the next node, its number none at the end; the tag changes with each
 *         life of the node: a store by who is to push it, then one cas
 *         node.value: by who pushes it before, by who pops it after it is in the list
 *         node.ends: a count: who has taken the value, who has moved head beyond the node
 * I1      the nodes behind head are those that were pushed and not popped, in the order in which
 *         they were linked. Tags change with each cas and each life: one that succeeds has seen
 *         its word as it is
 * I2      tail is never before head: who would move head beyond tail moves tail first
 * I3      a node goes back to the pool by the second one of its two ends
 * P1      push: the value, and the node's new next: cas of the last node's next, release -> who
 *         follows that: load of next, acquire
 * P2      who moves head or tail knows the nodes up to there: cas, acq_rel -> load, acquire
 * P3      a node's new life: store of next, release -> load of next, acquire, of one who comes
 *         from an older one: it sees then that tail has moved on, and does not link anything
 * P4      an end: the value is taken, next is read: fetch_add of ends, acq_rel -> the second end
 * Progress   a cas fails only if another one has succeeded; a thread that has linked its node and
 *         stops there holds up nobody, as others move tail. Where no node is left pushes wait for
 *         who brings more (hpp/node_pool.hpp)
 * Cost    push: four loads and three atomics; pop: four loads and three or four, of words that all
 *         threads share; push now and then a malloc
 * Memory  nodes that were popped are pushed again; the heap gets them back by clear
 * Source  M. Michael and M. Scott, "Simple, fast, and practical non-blocking and blocking
 *         concurrent queue algorithms", PODC 1996. Theirs reads the value before it moves head,
 *         which only a value of one word allows; hence the two ends here. Names: stdgpu, but that
 *         pop writes to a variable
 * Check   tests/cpp/shared.cpp, tests/fault/cpp
 */
#ifndef WH_HPP_MPMC_QUEUE_HPP
#define WH_HPP_MPMC_QUEUE_HPP

#include "warpheap/hpp/node_pool.hpp"

#include "warpheap/detail/simt/begin.h"

namespace wh {
inline namespace WH_HPP_KIND {

template <class T> class queue {
  public:
    using value_type = T;

    /* An empty queue. Host and device; nothing is allocated. */
    WH_HOST_DEVICE explicit queue(const heap_ref &heap) noexcept : pool_(heap) {
    }
    /* As clear. Of an object on the host, which was copied while it was empty: nothing. */
    WH_ANY_SIDE WH_HOST_DEVICE ~queue() {
        if (pool_.has_memory()) {
            clear();
        }
    }

    /* Puts T(args...) behind all others. false: the heap is full, and nothing has changed. Lanes:
     * any subset. */
    template <class... Args> WH_DEVICE bool emplace(Args &&...args) {
        const uint32_t number = pool_.take();
        if (number == own::none) {
            return false;
        }
        node *n = pool_.at(number);
        own::construct(n->value.get(), own::forward<Args>(args)...);
        wh_store_u32_relaxed(&n->ends, 0);
        const uint64_t next = wh_load_u64_relaxed(&n->next);
        wh_store_u64_release(&n->next, own::link_after(next, own::none)); /* P3 */
        for (uint32_t attempt = 0; !link(number); wh_backoff(attempt++)) {
        }
        return true;
    }
    WH_DEVICE bool push(const T &value) {
        return emplace(value);
    }
    WH_DEVICE bool push(T &&value) {
        return emplace(own::move(value));
    }

    /* Moves what has been there longest to value. false: the queue was empty at a moment of the
     * call. Lanes: any subset. */
    WH_DEVICE bool pop(T &value) {
        for (uint32_t attempt = 0;; wh_backoff(attempt++)) {
            const uint64_t head =
                WH_PLANT_ORDER(mpmc_queue_p2_head, wh_load_u64, acquire)(&head_); /* P2 */
            const uint64_t tail = wh_load_u64_acquire(&tail_);
            const uint64_t next = WH_PLANT_ORDER(mpmc_queue_p1_pop, wh_load_u64,
                                                 acquire)(&pool_.at(own::number_of(head))->next);
            if (head != wh_load_u64_relaxed(&head_)) {
                continue;
            }
            if (own::number_of(head) == WH_PLANT(mpmc_queue_i2, own::number_of(tail), own::none)) {
                if (own::number_of(next) == own::none) {
                    return false;
                }
                move_tail(tail, next); /* I2 */
            } else if (own::number_of(next) != own::none &&
                       wh_cas_u64_acq_rel(&head_, head,
                                          own::link_after(head, own::number_of(next))) == head) {
                take_value(own::number_of(next), value);
                end(own::number_of(next));
                end(own::number_of(head));
                return true;
            }
        }
    }

    /* Whether it was empty at some moment, or what was in it was not to be seen yet. Lanes: any. */
    WH_DEVICE bool empty() {
        const uint32_t head = own::number_of(wh_load_u64_acquire(&head_));
        return own::number_of(wh_load_u64_relaxed(&pool_.at(head)->next)) == own::none;
    }

    /* Ends all that is in it, and gives all memory back. By a thread that is alone with it. */
    WH_DEVICE void clear() {
        uint32_t i = own::number_of(pool_.at(own::number_of(head_))->next);
        for (; i != own::none; i = own::number_of(pool_.at(i)->next)) {
            own::destruct(pool_.at(i)->value.get(), 1);
        }
        pool_.clear();
        head_ = tail_ = own::link_of(0, 0);
    }

  private:
    struct node {
        own::storage<T> value;
        uint64_t next;
        uint32_t ends, next_free;

        WH_HOST_DEVICE void begin() noexcept {
            next = own::link_of(own::none, 0);
            ends = 1; /* it never had a value */
        }
        WH_DEVICE void begin_life() {
            wh_store_u64_relaxed(&next, own::link_of(own::none, 0));
        }
    };

    /* One try to link the node behind the last one. */
    WH_DEVICE bool link(uint32_t number) {
        const uint64_t tail =
            WH_PLANT_ORDER(mpmc_queue_p2_tail, wh_load_u64, acquire)(&tail_); /* P2 */
        node *last = pool_.at(own::number_of(tail));
        const uint64_t next =
            WH_PLANT_ORDER(mpmc_queue_p3_look, wh_load_u64, acquire)(&last->next);      /* P1, P3 */
        if (WH_PLANT(mpmc_queue_i1_tail, tail != wh_load_u64_relaxed(&tail_), false)) { /* I1 */
            return false;
        }
        if (own::number_of(next) != own::none) {
            move_tail(tail, next);
            return false;
        }
        const uint64_t mine = own::link_after(next, number);
        if (WH_PLANT_ORDER(mpmc_queue_p1_push, wh_cas_u64, release)(&last->next, next, mine) !=
            next) { /* P1 */
            return false;
        }
        move_tail(tail, mine);
        return true;
    }
    WH_DEVICE void move_tail(uint64_t tail, uint64_t next) {
        (void)wh_cas_u64_acq_rel(&tail_, tail,
                                 own::link_after(tail, own::number_of(next))); /* P2 */
    }
    WH_ANY_SIDE WH_DEVICE void take_value(uint32_t number, T &value) {
        T *first = pool_.at(number)->value.get();
        value = own::move(*first);
        own::destruct(first, 1);
    }
    WH_DEVICE void end(uint32_t number) {
        if (WH_PLANT(mpmc_queue_i3,
                     WH_PLANT_ORDER(mpmc_queue_p4_end, wh_fetch_add_u32,
                                    acq_rel)(&pool_.at(number)->ends, 1),
                     1) == 1) { /* I3, P4 */
            pool_.give(number);
        }
    }

    own::node_pool<node> pool_;
    uint64_t head_ = own::link_of(0, 0), tail_ = own::link_of(0, 0);
};

} // namespace WH_HPP_KIND
} // namespace wh

#include "warpheap/detail/simt/end.h"

#endif
