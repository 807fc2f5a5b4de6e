/* hpp/deque.hpp: wh::deque, which grows at both ends: a work list, from which one takes the oldest
 * or the newest. Part of warpheap.hpp; include that.
 *
 * One thread owns it, as a vector (hpp/vector.hpp), and what is said there of memory and failures
 * holds here, too: a push that says false has changed nothing.
 *
 * Memory  one block of capacity() elements, a power of two, used in a circle. A full one is
 *         replaced by one of twice as many (8 at least), to which all elements move. So pointers to
 *         elements hold until the next push or reserve
 * Cost    push, pop: a store or a load; now and then a malloc, a move of all elements and a free
 * Names   std::deque's; that push says whether there was memory is stdgpu's
 * Check   tests/cpp/owned.cpp, tests/fault/cpp
 */
#ifndef WH_HPP_DEQUE_HPP
#define WH_HPP_DEQUE_HPP

#include "warpheap/hpp/objects.hpp"

#include "warpheap/detail/simt/begin.h"

namespace wh {
inline namespace WH_HPP_KIND {

template <class T, class Allocator = allocator<T>> class deque {
  public:
    using value_type = T;
    using allocator_type = Allocator;

    /* Empty, without memory so far. */
    WH_HOST_DEVICE explicit deque(const Allocator &from) noexcept : allocator_(from) {
    }
    WH_HOST_DEVICE deque(deque &&other) noexcept : allocator_(other.allocator_) {
        swap(other);
    }
    WH_HOST_DEVICE deque &operator=(deque &&other) noexcept {
        if (this != &other) {
            deque old(own::move(*this));
            swap(other);
        }
        return *this;
    }
    deque(const deque &) = delete;
    deque &operator=(const deque &) = delete;
    WH_HOST_DEVICE ~deque() {
        clear();
        allocator_.deallocate(data_, room_);
    }

    WH_HOST_DEVICE size_t size() const noexcept {
        return n_;
    }
    WH_HOST_DEVICE size_t capacity() const noexcept {
        return room_;
    }
    WH_HOST_DEVICE bool empty() const noexcept {
        return n_ == 0;
    }
    /* Number i from the front. */
    WH_HOST_DEVICE T &operator[](size_t i) {
        wh_assert(i < n_);
        return data_[place(i)];
    }
    WH_HOST_DEVICE const T &operator[](size_t i) const {
        wh_assert(i < n_);
        return data_[place(i)];
    }
    WH_HOST_DEVICE T &front() {
        return (*this)[0];
    }
    WH_HOST_DEVICE T &back() {
        return (*this)[n_ - 1];
    }

    /* Room for n elements at least. false: the heap has none. */
    WH_HOST_DEVICE bool reserve(size_t n) {
        size_t room = room_ == 0 ? 8 : room_;
        while (room < n && room <= ~static_cast<size_t>(0) / 2) {
            room *= 2;
        }
        if (n <= room_) {
            return true;
        }
        T *to = room >= n ? allocator_.allocate(room) : nullptr;
        if (to != nullptr) {
            replace(to, room);
        }
        return to != nullptr;
    }

    /* args may be of an element of this deque. */
    template <class... Args> WH_HOST_DEVICE bool emplace_back(Args &&...args) {
        if (n_ < room_) {
            own::construct(data_ + place(n_), own::forward<Args>(args)...);
        } else {
            const size_t room = next_room();
            T *to = allocator_.allocate(room);
            if (to == nullptr) {
                return false;
            }
            own::construct(to + n_, own::forward<Args>(args)...); /* before args may be moved */
            replace(to, room);
        }
        n_++;
        return true;
    }
    template <class... Args> WH_HOST_DEVICE bool emplace_front(Args &&...args) {
        if (n_ < room_) {
            const size_t first = place(room_ - 1);
            own::construct(data_ + first, own::forward<Args>(args)...);
            first_ = first;
        } else {
            const size_t room = next_room();
            T *to = allocator_.allocate(room);
            if (to == nullptr) {
                return false;
            }
            own::construct(to + room - 1, own::forward<Args>(args)...);
            replace(to, room);
            first_ = room - 1;
        }
        n_++;
        return true;
    }
    WH_HOST_DEVICE bool push_back(T value) {
        return emplace_back(own::move(value));
    }
    WH_HOST_DEVICE bool push_front(T value) {
        return emplace_front(own::move(value));
    }
    WH_HOST_DEVICE void pop_back() {
        wh_assert(n_ != 0);
        own::destruct(data_ + place(--n_), 1);
    }
    WH_HOST_DEVICE void pop_front() {
        wh_assert(n_ != 0);
        own::destruct(data_ + first_, 1);
        first_ = WH_PLANT(deque_first, place(1), first_ + 1);
        n_--;
    }
    WH_HOST_DEVICE void clear() {
        while (n_ != 0) {
            pop_back();
        }
        first_ = 0;
    }
    WH_HOST_DEVICE void swap(deque &other) noexcept {
        own::exchange(allocator_, other.allocator_);
        own::exchange(data_, other.data_);
        own::exchange(n_, other.n_);
        own::exchange(room_, other.room_);
        own::exchange(first_, other.first_);
    }
    WH_HOST_DEVICE friend void swap(deque &a, deque &b) noexcept {
        a.swap(b);
    }

  private:
    WH_HOST_DEVICE size_t place(size_t i) const noexcept {
        return (first_ + i) & (room_ - 1);
    }
    WH_HOST_DEVICE size_t next_room() const noexcept {
        return room_ == 0 ? 8 : 2 * room_;
    }
    /* Moves all elements to the block at `to`, the first one to its begin, and leaves the old one.
     */
    WH_HOST_DEVICE void replace(T *to, size_t room) {
        for (size_t i = 0; i < n_; i++) {
            own::construct(to + i, own::move(data_[place(i)]));
            own::destruct(data_ + place(i), 1);
        }
        allocator_.deallocate(WH_PLANT(deque_replace, data_, nullptr), room_);
        data_ = to;
        room_ = room;
        first_ = 0;
    }

    Allocator allocator_;
    T *data_ = nullptr;
    size_t n_ = 0, room_ = 0, first_ = 0;
};

} // namespace WH_HPP_KIND
} // namespace wh

#include "warpheap/detail/simt/end.h"

#endif
