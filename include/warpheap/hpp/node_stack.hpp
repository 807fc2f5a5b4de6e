/* hpp/node_stack.hpp: wh::stack, which many threads share. Part of warpheap.hpp; include that.
 *
 * Any lanes of any kernels push and pop, at the same time. It lies in memory that all of them see,
 * not in shared memory of a block. One thread makes it (wh::make), or the host, which copies the
 * object to the device while it is empty. Who makes it and who ends it is alone with it. It may be
 * moved as bytes while nobody uses it.
 *
 * Fields  head: number of the uppermost node, and a tag: cas
 *         node.next: by who pushes the node, before it is head
 *         node.value: by who pushes it before, by who pops it after it is on the stack
 * I1      nodes from head on are pushed and not popped, the last one first. The tag of head changes
 *         with each cas: a pop that succeeds has seen the next node as it is
 * P1      push: the value and next: cas of head, release -> pop: load of head, acquire, before next
 *         is read; its cas finds the same value again
 * Progress   a cas fails only if another one has succeeded. Where no node is left pushes wait for
 *         who brings more (hpp/node_pool.hpp)
 * Cost    push and pop: two loads and two atomics, of words that all threads share; push now and
 *         then a malloc
 * Memory  nodes that were popped are pushed again; the heap gets them back by clear
 * Source  R. Treiber, 1986; names: stdgpu, but that pop writes to a variable
 * Check   tests/cpp/shared.cpp, tests/fault/cpp
 */
#ifndef WH_HPP_NODE_STACK_HPP
#define WH_HPP_NODE_STACK_HPP

#include "warpheap/hpp/node_pool.hpp"

#include "warpheap/detail/simt/begin.h"

namespace wh {
inline namespace WH_HPP_KIND {

template <class T> class stack {
  public:
    using value_type = T;

    /* An empty stack. Host and device; nothing is allocated. */
    WH_HOST_DEVICE explicit stack(const heap_ref &heap) noexcept : pool_(heap) {
    }
    /* As clear. Of an object on the host, which was copied while it was empty: nothing. */
    WH_ANY_SIDE WH_HOST_DEVICE ~stack() {
        if (pool_.has_memory()) {
            clear();
        }
    }

    /* Puts T(args...) on top. false: the heap is full, and nothing has changed. Lanes: any subset.
     */
    template <class... Args> WH_DEVICE bool emplace(Args &&...args) {
        const uint32_t number = pool_.take();
        if (number == own::none) {
            return false;
        }
        node *n = pool_.at(number);
        own::construct(n->value.get(), own::forward<Args>(args)...);
        for (uint32_t attempt = 0;; wh_backoff(attempt++)) {
            const uint64_t seen = wh_load_u64_relaxed(&head_);
            wh_store_u32_relaxed(&n->next, own::number_of(seen));
            const uint64_t after = WH_PLANT(node_stack_i1_push, own::link_after(seen, number),
                                            own::link_of(number, 0));
            if (WH_PLANT_ORDER(node_stack_p1_push, wh_cas_u64, release)(&head_, seen, after) ==
                seen) {
                return true; /* P1 */
            }
        }
    }
    WH_DEVICE bool push(const T &value) {
        return emplace(value);
    }
    WH_DEVICE bool push(T &&value) {
        return emplace(own::move(value));
    }

    /* Moves what is on top to value. false: the stack was empty at a moment of the call. Lanes: any
     * subset. */
    WH_DEVICE bool pop(T &value) {
        uint64_t seen;
        uint32_t attempt = 0;
        for (;; wh_backoff(attempt++)) {
            seen = WH_PLANT_ORDER(node_stack_p1_look, wh_load_u64, acquire)(&head_); /* P1 */
            if (own::number_of(seen) == own::none) {
                return false;
            }
            const uint32_t next = wh_load_u32_relaxed(&pool_.at(own::number_of(seen))->next);
            const uint64_t after =
                WH_PLANT(node_stack_i1_pop, own::link_after(seen, next), own::link_of(next, 0));
            if (wh_cas_u64_relaxed(&head_, seen, after) == seen) { /* I1 */
                break;
            }
        }
        T *top = pool_.at(own::number_of(seen))->value.get();
        value = own::move(*top);
        own::destruct(top, 1);
        pool_.give(own::number_of(seen));
        return true;
    }

    /* Whether it was empty at some moment. Lanes: any. */
    WH_DEVICE bool empty() const {
        return own::number_of(wh_load_u64_relaxed(&head_)) == own::none;
    }

    /* Ends all that is on it, and gives all memory back. By a thread that is alone with it. */
    WH_DEVICE void clear() {
        for (uint32_t i = own::number_of(head_); i != own::none; i = pool_.at(i)->next) {
            own::destruct(pool_.at(i)->value.get(), 1);
        }
        pool_.clear();
        head_ = own::link_of(own::none, 0);
    }

  private:
    struct node {
        own::storage<T> value;
        uint32_t next, next_free;

        WH_HOST_DEVICE void begin() noexcept {
        }
        WH_DEVICE void begin_life() {
        }
    };

    own::node_pool<node> pool_;
    uint64_t head_ = own::link_of(own::none, 0);
};

} // namespace WH_HPP_KIND
} // namespace wh

#include "warpheap/detail/simt/end.h"

#endif
