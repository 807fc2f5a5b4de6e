/* hpp/base.hpp: what the other parts of warpheap.hpp share: the handle of a heap as a class, moves,
 * and a span. Part of warpheap.hpp; include that.
 *
 * Everything that depends on the file's allocator, or on the target, is in an inline namespace that
 * says both: wh::vector of a .cpp file, whose kernels run on the simulated device, and that of a
 * .cu file are two types, and a program may have both. Names without that: wh::error, wh::device,
 * wh::heap, which are the same in all files.
 */
#ifndef WH_HPP_BASE_HPP
#define WH_HPP_BASE_HPP

#include "warpheap/warpheap.h"

#if WH_HAS_HOST
#include <new>
#endif

#if __cplusplus < 201402L
#error "warpheap.hpp needs C++14 or later"
#endif

#include "warpheap/detail/simt/begin.h"

/* The name of the inline namespace, of_tessera_sim. */
#define WH_HPP_KIND WH_TARGETED(WH_CAT(of_, WH_ALLOCATOR))

namespace wh {
inline namespace WH_HPP_KIND {

/* The handle of a heap: a wh_heap_ref, to and from which it converts. Small, without anything to
 * destroy: pass it to kernels by value, alone or in a struct. Every copy names the same heap. */
struct heap_ref : wh_heap_ref {
    heap_ref() = default;
    WH_HOST_DEVICE heap_ref(const wh_heap_ref &handle) noexcept : wh_heap_ref(handle) {
    }

#if WH_HAS_HOST
    /* For device and heap (hpp/heap.hpp): calls that a .cpp and a .cu file make differently. */
    static wh_status get(const wh_heap *heap, heap_ref *ref) noexcept {
        return wh_heap_handle(heap, ref);
    }
    static wh_status create(wh_heap **heap, const wh_heap_options *options) noexcept {
        return wh_heap_create(heap, options);
    }
    static wh_status open(wh_device **device, const char *spec,
                          const wh_sim_options *sim) noexcept {
        return wh_device_open(device, spec, sim);
    }
#endif
};

/* Whether both name the same heap. Cost: a look at each byte of the handles. */
WH_HOST_DEVICE inline bool operator==(const heap_ref &a, const heap_ref &b) noexcept {
    const unsigned char *p = reinterpret_cast<const unsigned char *>(&a);
    const unsigned char *q = reinterpret_cast<const unsigned char *>(&b);
    size_t i = 0;
    while (i < sizeof(heap_ref) && p[i] == q[i]) {
        i++;
    }
    return i == sizeof(heap_ref);
}
WH_HOST_DEVICE inline bool operator!=(const heap_ref &a, const heap_ref &b) noexcept {
    return !(a == b);
}

/* What std::move, std::forward and std::swap do, for NVRTC, too. Internal: may change. */
namespace own {

/* Whether T's destructor does nothing. */
template <class T> struct has_nothing_to_end {
#if defined(__clang__)
    static constexpr bool value = __is_trivially_destructible(T);
#else
    static constexpr bool value = __has_trivial_destructor(T);
#endif
};

template <class T> struct bare { using type = T; };
template <class T> struct bare<T &> { using type = T; };
template <class T> struct bare<T &&> { using type = T; };
template <class T> WH_HOST_DEVICE constexpr typename bare<T>::type &&move(T &&x) noexcept {
    return static_cast<typename bare<T>::type &&>(x);
}
template <class T> WH_HOST_DEVICE constexpr T &&forward(typename bare<T>::type &x) noexcept {
    return static_cast<T &&>(x);
}
WH_ANY_SIDE template <class T> WH_HOST_DEVICE void exchange(T &a, T &b) noexcept {
    T c(move(a));
    a = move(b);
    b = move(c);
}
WH_ANY_SIDE template <class T, class... Args> WH_HOST_DEVICE T *construct(T *at, Args &&...args) {
    return ::new (static_cast<void *>(at)) T(forward<Args>(args)...);
}
WH_ANY_SIDE template <class T> WH_HOST_DEVICE void destruct(T *first, size_t n) {
    for (size_t i = 0; i < n; i++) {
        first[i].~T();
    }
}

} // namespace own

/* A pointer and a number of elements, as std::span of C++20. Lanes: any. */
template <class T> class span {
  public:
    using element_type = T;
    using iterator = T *;

    constexpr span() noexcept = default;
    WH_HOST_DEVICE constexpr span(T *first, size_t n) noexcept : data_(first), n_(n) {
    }
    template <size_t N>
    WH_HOST_DEVICE constexpr span(T (&array)[N]) noexcept : data_(array), n_(N) {
    }

    WH_HOST_DEVICE constexpr T *data() const noexcept {
        return data_;
    }
    WH_HOST_DEVICE constexpr size_t size() const noexcept {
        return n_;
    }
    WH_HOST_DEVICE constexpr bool empty() const noexcept {
        return n_ == 0;
    }
    WH_HOST_DEVICE constexpr T *begin() const noexcept {
        return data_;
    }
    WH_HOST_DEVICE constexpr T *end() const noexcept {
        return data_ + n_;
    }
    WH_HOST_DEVICE T &operator[](size_t i) const {
        wh_assert(i < n_);
        return data_[i];
    }
    WH_HOST_DEVICE span subspan(size_t first, size_t n) const {
        wh_assert(first <= n_ && n <= n_ - first);
        return span(data_ + first, n);
    }

  private:
    T *data_ = nullptr;
    size_t n_ = 0;
};

} // namespace WH_HPP_KIND
} // namespace wh

#include "warpheap/detail/simt/end.h"

#endif
