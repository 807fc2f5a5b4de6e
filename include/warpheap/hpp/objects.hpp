/* hpp/objects.hpp: objects in a heap: make, destroy, new (heap) T, and allocators of containers.
 * Part of warpheap.hpp; include that. Host and device; on the host of a CUDA program, where the
 * memory of a heap cannot be handed out, they find no memory.
 */
#ifndef WH_HPP_OBJECTS_HPP
#define WH_HPP_OBJECTS_HPP

#include "warpheap/hpp/base.hpp"

#include "warpheap/detail/simt/begin.h"

namespace wh {
inline namespace WH_HPP_KIND {

namespace own {

/* Memory for n objects of T; nullptr also if they are more than there are addresses. */
template <class T> WH_HOST_DEVICE T *room_for(const heap_ref &heap, size_t n) {
    void *p = nullptr;
    if (WH_PLANT(objects_many, n <= ~static_cast<size_t>(0) / sizeof(T), true)) {
        p = alignof(T) > 16 ? wh_aligned_alloc(heap, alignof(T), n * sizeof(T))
                            : wh_malloc(heap, n * sizeof(T));
    }
    return static_cast<T *>(p);
}

/* What containers take and give back: once in a kernel's code, however often it calls them, for a
 * malloc is long. The handle goes by value: simt.h says why. One of zeros has no memory. */
WH_FN_SLOW __attribute__((__unused__)) void *dev_take(wh_heap_ref heap, size_t n, size_t align) {
    if (!WH_PLANT(objects_no_heap, wh_is_of_heap_(heap), true)) {
        return NULL;
    }
    return align > 16 ? wh_aligned_alloc(heap, align, n) : wh_malloc(heap, n);
}
WH_FN_SLOW __attribute__((__unused__)) void dev_give(wh_heap_ref heap, void *p) {
    if (p != NULL) {
        wh_free(heap, p);
    }
}
WH_CALL void *take(wh_heap_ref heap, size_t n, size_t align) {
    return WH_DEVICE_ONLY(dev_take(heap, n, align), void *, WH_ON_HOST_("wh::allocator::allocate"),
                          heap, n, align);
}
WH_CALL void give(wh_heap_ref heap, void *p) {
    WH_DEVICE_ONLY(dev_give(heap, p), void,
                   p != NULL ? WH_ON_HOST_("wh::allocator::deallocate") : NULL, heap);
}
template <class T> WH_HOST_DEVICE T *take_for(const heap_ref &heap, size_t n) {
    const bool can_be = n <= ~static_cast<size_t>(0) / sizeof(T);
    return can_be ? static_cast<T *>(take(heap, n * sizeof(T), alignof(T))) : nullptr;
}

} // namespace own

/* An object of T in a block of the heap, constructed from args; nullptr: the heap is full, and
 * nothing was constructed. Any alignment that wh_aligned_alloc knows. Lanes: any subset, an object
 * each. Cost: a malloc and the constructor. */
template <class T, class... Args> WH_HOST_DEVICE T *make(const heap_ref &heap, Args &&...args) {
    T *p = own::room_for<T>(heap, 1);
    return p != nullptr ? own::construct(p, own::forward<Args>(args)...) : nullptr;
}

/* n objects of T side by side, T() each; nullptr: n is 0, or the heap is full. The calling lane
 * constructs them one after the other. */
template <class T> WH_HOST_DEVICE T *make_array(const heap_ref &heap, size_t n) {
    T *p = own::room_for<T>(heap, n);
    for (size_t i = 0; p != nullptr && i < n; i++) {
        own::construct(p + i);
    }
    return p;
}

/* Ends an object of make or of `new (heap) T`, from any thread or kernel, and gives its memory
 * back. nullptr is ignored. p may point to a base with a virtual destructor, if that is the first
 * base, so that it has the address of the block. Lanes: any subset. Cost: the destructor and a
 * free. */
WH_ANY_SIDE template <class T> WH_HOST_DEVICE void destroy(const heap_ref &heap, T *p) {
    if (p != nullptr) {
        p->~T();
        wh_free(heap, p);
    }
}

/* The same of make_array, with the same n. */
template <class T> WH_HOST_DEVICE void destroy_array(const heap_ref &heap, T *p, size_t n) {
    if (p != nullptr) {
        own::destruct(p, n);
        wh_free(heap, p);
    }
}

/* An allocator of containers: the requirements of C++ for one, but that allocate returns nullptr
 * where there is no memory, for device code has no exceptions. The containers of this header take
 * that; those of a host's library do not. */
template <class T> class allocator {
  public:
    using value_type = T;

    WH_HOST_DEVICE allocator(const heap_ref &heap) noexcept : heap_(heap) {
    }
    WH_HOST_DEVICE allocator(const wh_heap_ref &heap) noexcept : heap_(heap) {
    }
    template <class U>
    WH_HOST_DEVICE allocator(const allocator<U> &other) noexcept : heap_(other.heap()) {
    }

    WH_HOST_DEVICE T *allocate(size_t n) const {
        return own::take_for<T>(heap_, n);
    }
    WH_HOST_DEVICE void deallocate(T *p, size_t n) const {
        (void)n;
        own::give(heap_, p);
    }
    WH_HOST_DEVICE const heap_ref &heap() const noexcept {
        return heap_;
    }

  private:
    heap_ref heap_;
};

/* The same in 8 bytes: of a handle that lies in memory which the kernel's threads can read for as
 * long as the allocator and its copies are used. For containers in memory, of which there are many:
 * a handle is 152 bytes. Cost: loads where there were operands. */
template <class T> class allocator_at {
  public:
    using value_type = T;

    WH_HOST_DEVICE allocator_at(const heap_ref *heap) noexcept : heap_(heap) {
    }
    template <class U>
    WH_HOST_DEVICE allocator_at(const allocator_at<U> &other) noexcept : heap_(&other.heap()) {
    }

    WH_HOST_DEVICE T *allocate(size_t n) const {
        return own::take_for<T>(*heap_, n);
    }
    WH_HOST_DEVICE void deallocate(T *p, size_t n) const {
        (void)n;
        own::give(*heap_, p);
    }
    WH_HOST_DEVICE const heap_ref &heap() const noexcept {
        return *heap_;
    }

  private:
    const heap_ref *heap_;
};

template <class T, class U>
WH_HOST_DEVICE bool operator==(const allocator<T> &a, const allocator<U> &b) noexcept {
    return a.heap() == b.heap();
}
template <class T, class U>
WH_HOST_DEVICE bool operator!=(const allocator<T> &a, const allocator<U> &b) noexcept {
    return !(a == b);
}
template <class T, class U>
WH_HOST_DEVICE bool operator==(const allocator_at<T> &a, const allocator_at<U> &b) noexcept {
    return a.heap() == b.heap();
}
template <class T, class U>
WH_HOST_DEVICE bool operator!=(const allocator_at<T> &a, const allocator_at<U> &b) noexcept {
    return !(a == b);
}

/* The heap as a memory resource, with the names of cuda::mr, for device code: bytes at a multiple
 * of align, a power of two; nullptr: there is no memory. */
class resource {
  public:
    WH_HOST_DEVICE resource(const heap_ref &heap) noexcept : heap_(heap) {
    }
    WH_HOST_DEVICE void *allocate(size_t bytes, size_t align = 16) const {
        return own::take(heap_, bytes, align);
    }
    WH_HOST_DEVICE void deallocate(void *p, size_t bytes, size_t align = 16) const {
        (void)bytes;
        (void)align;
        own::give(heap_, p);
    }
    WH_HOST_DEVICE const heap_ref &heap() const noexcept {
        return heap_;
    }
    WH_HOST_DEVICE friend bool operator==(const resource &a, const resource &b) noexcept {
        return a.heap_ == b.heap_;
    }
    WH_HOST_DEVICE friend bool operator!=(const resource &a, const resource &b) noexcept {
        return !(a == b);
    }

  private:
    heap_ref heap_;
};

} // namespace WH_HPP_KIND
} // namespace wh

/* new (heap) T(...): as wh::make, nullptr where the heap is full. wh::destroy ends the object. The
 * delete is for constructors that throw, on the simulated device. Before C++17 T's alignment is at
 * most 16; make has no such limit. */
WH_HOST_DEVICE inline void *operator new(size_t bytes, const wh::heap_ref &heap) noexcept {
    return wh_malloc(heap, bytes);
}
WH_HOST_DEVICE inline void operator delete(void *p, const wh::heap_ref &heap) noexcept {
    wh_free(heap, p);
}
#if defined(__cpp_aligned_new)
WH_HOST_DEVICE inline void *operator new(size_t bytes, std::align_val_t align,
                                         const wh::heap_ref &heap) noexcept {
    return wh_aligned_alloc(heap, static_cast<size_t>(align), bytes);
}
WH_HOST_DEVICE inline void operator delete(void *p, std::align_val_t align,
                                           const wh::heap_ref &heap) noexcept {
    (void)align;
    wh_free(heap, p);
}
#endif

#include "warpheap/detail/simt/end.h"

#endif
