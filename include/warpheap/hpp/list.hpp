/* hpp/list.hpp: wh::list, an intrusive list: the links lie in the elements. Part of warpheap.hpp;
 * include that.
 *
 *     struct task : wh::list_hook { ... };
 *     wh::list<task> tasks;
 *     tasks.push_back(*wh::make<task>(heap));
 *
 * One thread owns the list and what is in it. It takes no memory, so no call can fail; elements are
 * the caller's, and outlive their place in the list. An element is in one list at a time. A list
 * can be moved; elements cannot while they are in it.
 *
 * Cost    some loads and stores for each call, size and clear too
 * Names   std::list's, with elements where it has iterators; boost::intrusive's are similar
 * Check   tests/cpp/owned.cpp
 */
#ifndef WH_HPP_LIST_HPP
#define WH_HPP_LIST_HPP

#include "warpheap/hpp/base.hpp"

#include "warpheap/detail/simt/begin.h"

namespace wh {
inline namespace WH_HPP_KIND {

template <class T> class list;

/* What an element is derived from. A copy of an element is in no list. */
class list_hook {
  public:
    list_hook() = default;
    WH_HOST_DEVICE list_hook(const list_hook &) noexcept {
    }
    WH_HOST_DEVICE list_hook &operator=(const list_hook &) noexcept {
        return *this;
    }

  private:
    template <class T> friend class list;
    list_hook *before_ = nullptr, *after_ = nullptr;
};

template <class T> class list {
  public:
    using value_type = T;

    class iterator {
      public:
        WH_HOST_DEVICE explicit iterator(list_hook *at) noexcept : at_(at) {
        }
        WH_HOST_DEVICE T &operator*() const {
            return *static_cast<T *>(at_);
        }
        WH_HOST_DEVICE T *operator->() const {
            return static_cast<T *>(at_);
        }
        /* The element may be taken out before, if the step comes first: `x = *i++`. */
        WH_HOST_DEVICE iterator &operator++() {
            at_ = list::after(at_);
            return *this;
        }
        WH_HOST_DEVICE iterator operator++(int) {
            const iterator before = *this;
            ++*this;
            return before;
        }
        WH_HOST_DEVICE bool operator==(const iterator &other) const noexcept {
            return at_ == other.at_;
        }
        WH_HOST_DEVICE bool operator!=(const iterator &other) const noexcept {
            return at_ != other.at_;
        }

      private:
        list_hook *at_;
    };

    list() = default;
    WH_HOST_DEVICE list(list &&other) noexcept {
        swap(other);
    }
    WH_HOST_DEVICE list &operator=(list &&other) noexcept {
        list taken(own::move(other));
        swap(taken);
        return *this;
    }
    list(const list &) = delete;
    list &operator=(const list &) = delete;

    WH_HOST_DEVICE bool empty() const noexcept {
        return n_ == 0;
    }
    WH_HOST_DEVICE size_t size() const noexcept {
        return n_;
    }
    WH_HOST_DEVICE T &front() const {
        wh_assert(n_ != 0);
        return *static_cast<T *>(first_);
    }
    WH_HOST_DEVICE T &back() const {
        wh_assert(n_ != 0);
        return *static_cast<T *>(last_);
    }
    WH_HOST_DEVICE iterator begin() const noexcept {
        return iterator(first_);
    }
    WH_HOST_DEVICE iterator end() const noexcept {
        return iterator(nullptr);
    }

    WH_HOST_DEVICE void push_back(T &x) {
        put(last_, &x, nullptr);
    }
    WH_HOST_DEVICE void push_front(T &x) {
        put(nullptr, &x, first_);
    }
    /* x before `at`, which is in the list. */
    WH_HOST_DEVICE void insert(T &at, T &x) {
        list_hook *next = &at;
        put(next->before_, &x, next);
    }
    /* Takes x, which is in this list, out. It stays what it is. */
    WH_HOST_DEVICE void erase(T &x) {
        list_hook *h = &x;
        wh_assert(n_ != 0);
        (h->before_ != nullptr ? h->before_->after_ : first_) = h->after_;
        (h->after_ != nullptr ? h->after_->before_ : last_) = h->before_;
        h->before_ = h->after_ = nullptr;
        n_--;
    }
    /* The first, or the last, taken out; nullptr: the list is empty. */
    WH_HOST_DEVICE T *pop_front() {
        T *x = static_cast<T *>(first_);
        if (x != nullptr) {
            erase(*x);
        }
        return x;
    }
    WH_HOST_DEVICE T *pop_back() {
        T *x = static_cast<T *>(last_);
        if (x != nullptr) {
            erase(*x);
        }
        return x;
    }
    /* All of the other one's behind ours. */
    WH_HOST_DEVICE void splice(list &other) {
        if (this == &other || other.n_ == 0) {
            return;
        }
        (last_ != nullptr ? last_->after_ : first_) = other.first_;
        other.first_->before_ = last_;
        last_ = other.last_;
        n_ += other.n_;
        other.first_ = other.last_ = nullptr;
        other.n_ = 0;
    }
    WH_HOST_DEVICE void swap(list &other) noexcept {
        own::exchange(first_, other.first_);
        own::exchange(last_, other.last_);
        own::exchange(n_, other.n_);
    }

  private:
    WH_HOST_DEVICE static list_hook *after(list_hook *h) noexcept {
        return h->after_;
    }
    WH_HOST_DEVICE void put(list_hook *before, list_hook *x, list_hook *after) {
        wh_assert(x->before_ == nullptr && x->after_ == nullptr && x != first_);
        x->before_ = before;
        x->after_ = after;
        (before != nullptr ? before->after_ : first_) = x;
        (after != nullptr ? after->before_ : last_) = x;
        n_++;
    }

    list_hook *first_ = nullptr, *last_ = nullptr;
    size_t n_ = 0;
};

} // namespace WH_HPP_KIND
} // namespace wh

#include "warpheap/detail/simt/end.h"

#endif
