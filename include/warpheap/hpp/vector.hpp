/* hpp/vector.hpp: wh::vector, an array that grows in kernels. Part of warpheap.hpp; include that.
 *
 * One thread owns it: calls of several threads on one vector want an order of the caller's (a
 * barrier, or the end of a kernel), as with std::vector. It may lie in registers, in shared memory
 * or in a heap, be moved to another thread, and be ended by a later kernel.
 *
 * Calls that may need memory return whether there was some. After false the vector is as it was
 * before: no element was moved, nothing was added. So there are no copies by a constructor; assign
 * copies, and says whether it could.
 *
 * Memory  one block, of capacity() elements. A full one is replaced by one of twice as many (8 at
 *         least), which exists beside the old one while elements are moved. It goes back to the
 *         heap by shrink_to_fit, by an assignment, a move away, or the destructor; not by clear,
 *         erase, pop_back or resize
 * Cost    push_back: a store, and now and then a malloc, a move of all elements and a free: less
 *         than two moves for each element in the mean
 * Names   std::vector's; that push_back says whether there was memory is stdgpu's
 * Check   tests/cpp
 */
#ifndef WH_HPP_VECTOR_HPP
#define WH_HPP_VECTOR_HPP

#include "warpheap/hpp/objects.hpp"

#include "warpheap/detail/simt/begin.h"

namespace wh {
inline namespace WH_HPP_KIND {

template <class T, class Allocator = allocator<T>> class vector {
  public:
    using value_type = T;
    using allocator_type = Allocator;
    using size_type = size_t;
    using reference = T &;
    using const_reference = const T &;
    using iterator = T *;
    using const_iterator = const T *;

    /* An empty vector, without memory so far. A heap's handle becomes an allocator by itself. */
    WH_HOST_DEVICE explicit vector(const Allocator &from) noexcept : allocator_(from) {
    }
    WH_HOST_DEVICE vector(vector &&other) noexcept
        : allocator_(other.allocator_), data_(other.data_), n_(other.n_), room_(other.room_) {
        other.forget();
    }
    WH_HOST_DEVICE vector &operator=(vector &&other) noexcept {
        if (this != &other) {
            release();
            allocator_ = other.allocator_;
            data_ = other.data_;
            n_ = other.n_;
            room_ = other.room_;
            other.forget();
        }
        return *this;
    }
    vector(const vector &) = delete;
    vector &operator=(const vector &) = delete;
    WH_HOST_DEVICE ~vector() {
        release();
    }

    /* --- what there is ------------------------------------------------------------------------ */

    WH_HOST_DEVICE size_t size() const noexcept {
        return n_;
    }
    WH_HOST_DEVICE size_t capacity() const noexcept {
        return room_;
    }
    WH_HOST_DEVICE bool empty() const noexcept {
        return n_ == 0;
    }
    WH_HOST_DEVICE T *data() noexcept {
        return data_;
    }
    WH_HOST_DEVICE const T *data() const noexcept {
        return data_;
    }
    WH_HOST_DEVICE T &operator[](size_t i) {
        wh_assert(i < n_);
        return data_[i];
    }
    WH_HOST_DEVICE const T &operator[](size_t i) const {
        wh_assert(i < n_);
        return data_[i];
    }
    WH_HOST_DEVICE T &front() {
        return (*this)[0];
    }
    WH_HOST_DEVICE const T &front() const {
        return (*this)[0];
    }
    WH_HOST_DEVICE T &back() {
        return (*this)[n_ - 1];
    }
    WH_HOST_DEVICE const T &back() const {
        return (*this)[n_ - 1];
    }
    WH_HOST_DEVICE iterator begin() noexcept {
        return data_;
    }
    WH_HOST_DEVICE const_iterator begin() const noexcept {
        return data_;
    }
    WH_HOST_DEVICE iterator end() noexcept {
        return data_ + n_;
    }
    WH_HOST_DEVICE const_iterator end() const noexcept {
        return data_ + n_;
    }
    WH_HOST_DEVICE operator span<T>() noexcept {
        return span<T>(data_, n_);
    }
    WH_HOST_DEVICE operator span<const T>() const noexcept {
        return span<const T>(data_, n_);
    }
    WH_HOST_DEVICE Allocator get_allocator() const noexcept {
        return allocator_;
    }

    /* --- memory ------------------------------------------------------------------------------- */

    /* Room for n elements at least. false: the heap has none. */
    WH_HOST_DEVICE bool reserve(size_t n) {
        return n <= room_ || move_to(n);
    }
    /* Room for the elements that there are alone; none at all for none. false: the heap has no
     * room for the smaller block, and the larger one stays. */
    WH_HOST_DEVICE bool shrink_to_fit() {
        return n_ == room_ || move_to(n_);
    }

    /* --- changes that want memory ------------------------------------------------------------- */

    /* Puts T(args...) behind the others. args may be of an element of this vector. */
    template <class... Args> WH_HOST_DEVICE bool emplace_back(Args &&...args) {
        if (n_ < room_) {
            own::construct(data_ + n_, own::forward<Args>(args)...);
            n_++;
            return true;
        }
        const size_t room = next_room();
        T *place = allocator_.allocate(room);
        if (WH_PLANT(vector_full, place == nullptr, false)) {
            return false;
        }
        move_elements(place, 0, WH_PLANT(vector_alias, 0, n_));
        own::construct(place + n_, own::forward<Args>(args)...); /* before args may be moved */
        move_elements(place, WH_PLANT(vector_alias, 0, n_), n_);
        replace(place, n_ + 1, room);
        return true;
    }
    WH_HOST_DEVICE bool push_back(const T &value) {
        return emplace_back(value);
    }
    WH_HOST_DEVICE bool push_back(T &&value) {
        return emplace_back(own::move(value));
    }

    /* n elements: those behind are ended, or new ones are added, T() or copies of value. */
    WH_HOST_DEVICE bool resize(size_t n) {
        if (n > n_ && !reserve(n)) {
            return false;
        }
        for (size_t i = n_; i < n; i++) {
            own::construct(data_ + i);
        }
        return cut(n);
    }
    WH_HOST_DEVICE bool resize(size_t n, const T &value) {
        if (n > room_) {
            T *place = allocator_.allocate(n);
            if (place == nullptr) {
                return false;
            }
            fill(place, n, value); /* value may be an element */
            move_elements(place, 0, n_);
            replace(place, n, n);
        } else {
            fill(data_, n, value);
            cut(n);
        }
        return true;
    }

    /* The elements are copies of these, which are not of this vector. */
    WH_HOST_DEVICE bool assign(span<const T> from) {
        if (from.size() > room_) {
            T *place = allocator_.allocate(from.size());
            if (place == nullptr) {
                return false;
            }
            clear();
            replace(place, 0, from.size());
        }
        clear();
        for (size_t i = 0; i < from.size(); i++) {
            own::construct(data_ + i, from[i]);
        }
        n_ = from.size();
        return true;
    }
    WH_HOST_DEVICE bool assign(const vector &other) {
        return this == &other || assign(span<const T>(other.data_, other.n_));
    }

    /* Puts value before element number at; at size() behind all. Cost: a move of those behind. */
    WH_ANY_SIDE WH_HOST_DEVICE bool insert(size_t at, T value) {
        wh_assert(at <= n_);
        if (n_ == room_ && !move_to(next_room())) {
            return false;
        }
        if (at == n_) {
            own::construct(data_ + n_, own::move(value));
        } else {
            own::construct(data_ + n_, own::move(data_[n_ - 1]));
            for (size_t i = n_ - 1; i > WH_PLANT(vector_insert, at, at + 1); i--) {
                data_[i] = own::move(data_[i - 1]);
            }
            data_[at] = own::move(value);
        }
        n_++;
        return true;
    }

    /* --- changes that do not ------------------------------------------------------------------ */

    WH_HOST_DEVICE void pop_back() {
        wh_assert(n_ != 0);
        cut(n_ - 1);
    }
    WH_HOST_DEVICE void clear() {
        cut(0);
    }
    /* Takes out element number at, or those from first to last, last not included; those behind
     * keep their order. */
    WH_HOST_DEVICE void erase(size_t at) {
        erase(at, at + 1);
    }
    WH_ANY_SIDE WH_HOST_DEVICE void erase(size_t first, size_t last) {
        wh_assert(first <= last && last <= n_);
        const size_t gap = last - first;
        for (size_t i = last; gap != 0 && i < n_; i++) {
            data_[i - gap] = own::move(data_[i]);
        }
        cut(n_ - gap);
    }
    /* Both keep their memory and their allocator, which are exchanged. */
    WH_HOST_DEVICE void swap(vector &other) noexcept {
        own::exchange(allocator_, other.allocator_);
        own::exchange(data_, other.data_);
        own::exchange(n_, other.n_);
        own::exchange(room_, other.room_);
    }
    WH_HOST_DEVICE friend void swap(vector &a, vector &b) noexcept {
        a.swap(b);
    }

  private:
    WH_HOST_DEVICE size_t next_room() const noexcept {
        const size_t doubled = room_ < 4 ? 8 : 2 * room_;
        return doubled > room_ ? doubled : ~static_cast<size_t>(0);
    }
    /* Ends the elements from number n on. */
    WH_HOST_DEVICE bool cut(size_t n) {
        if (n < n_) {
            own::destruct(data_ + n, WH_PLANT(vector_cut, n_ - n, 0));
        }
        n_ = n;
        return true;
    }
    WH_HOST_DEVICE void fill(T *place, size_t n, const T &value) {
        for (size_t i = n_; i < n; i++) {
            own::construct(place + i, value);
        }
    }
    WH_HOST_DEVICE void move_elements(T *place, size_t first, size_t last) {
        for (size_t i = first; i < last; i++) {
            own::construct(place + i, own::move(data_[i]));
        }
    }
    /* The block at place, in which n elements are now, instead of ours. */
    WH_HOST_DEVICE void replace(T *place, size_t n, size_t room) {
        own::destruct(data_, n_);
        allocator_.deallocate(WH_PLANT(vector_replace, data_, nullptr), room_);
        data_ = place;
        n_ = n;
        room_ = room;
    }
    WH_HOST_DEVICE bool move_to(size_t room) {
        T *place = room != 0 ? allocator_.allocate(room) : nullptr;
        if (room != 0 && place == nullptr) {
            return false;
        }
        move_elements(place, 0, n_);
        replace(place, n_, room);
        return true;
    }
    WH_HOST_DEVICE void release() {
        if (data_ != nullptr) {
            own::destruct(data_, n_);
            allocator_.deallocate(WH_PLANT(vector_release, data_, nullptr), room_);
        }
    }
    WH_HOST_DEVICE void forget() noexcept {
        data_ = WH_PLANT(vector_forget, nullptr, data_);
        n_ = room_ = 0;
    }

    Allocator allocator_;
    T *data_ = nullptr;
    size_t n_ = 0, room_ = 0;
};

} // namespace WH_HPP_KIND
} // namespace wh

#include "warpheap/detail/simt/end.h"

#endif
