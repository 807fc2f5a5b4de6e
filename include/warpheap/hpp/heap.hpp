/* hpp/heap.hpp: a device and a heap that the host owns, and errors. Part of warpheap.hpp; include
 * that. Host only.
 *
 * As in std::filesystem there are two forms of each call that can fail: one throws wh::error, the
 * other one takes a std::error_code and throws nothing. A file that is compiled without exceptions
 * has the second form alone. An error_code has a wh_status and its text; wh_last_error_text() has
 * more, which wh::error::what() says, too.
 */
#ifndef WH_HPP_HEAP_HPP
#define WH_HPP_HEAP_HPP

#include "warpheap/hpp/base.hpp"

#if WH_HAS_HOST

#include <string>
#include <system_error>

#include "warpheap/detail/simt/begin.h"

namespace wh {

/* The category of wh_status as an error_code. */
class status_category final : public std::error_category {
  public:
    const char *name() const noexcept override {
        return "warpheap";
    }
    std::string message(int value) const override {
        return wh_status_text(static_cast<wh_status>(value));
    }
};
inline const std::error_category &category() noexcept {
    static const status_category one;
    return one;
}

} // namespace wh

/* So that `std::error_code e = WH_OUT_OF_MEMORY` and `e == WH_OUT_OF_MEMORY` say what they should.
 */
namespace std {
template <> struct is_error_code_enum<wh_status> : true_type {};
} // namespace std
inline std::error_code make_error_code(wh_status status) noexcept {
    return std::error_code(static_cast<int>(status), wh::category());
}

namespace wh {

#if defined(__cpp_exceptions)
/* What calls throw. what(): the call, wh_last_error_text() if there is some, the status. tells:
 * whether the call sets that text (types.h); else it is of an earlier one. */
class error : public std::system_error {
  public:
    error(const std::error_code &code, const char *call, bool tells = true)
        : std::system_error(code, text(call, tells)) {
    }

  private:
    static std::string text(const char *call, bool tells) {
        const std::string more = tells ? wh_last_error_text() : "";
        return more.empty() ? std::string(call) : call + (": " + more);
    }
};

/* Throws if the code is that of an error. */
inline void throw_if(const std::error_code &code, const char *call, bool tells = true) {
    if (code) {
        throw error(code, call, tells);
    }
}
#endif

/* A device that the host has open: wh_device_open and wh_device_close. It can be moved. Heaps on
 * it keep it alive. */
class device {
  public:
    device() noexcept = default;
    /* spec and sim: as wh_device_open. */
    template <class Ref = heap_ref>
    device(const char *spec, const wh_sim_options *sim, std::error_code &code) noexcept {
        code = make_error_code(Ref::open(&device_, spec, sim));
    }
#if defined(__cpp_exceptions)
    template <class Ref = heap_ref>
    explicit device(const char *spec, const wh_sim_options *sim = nullptr) {
        throw_if(make_error_code(Ref::open(&device_, spec, sim)), "wh::device");
    }
#endif
    device(device &&other) noexcept : device_(other.release()) {
    }
    device &operator=(device &&other) noexcept {
        wh_device *mine = device_;
        device_ = other.release();
        wh_device_close(mine != device_ ? mine : nullptr);
        return *this;
    }
    ~device() {
        wh_device_close(device_);
    }

    explicit operator bool() const noexcept {
        return device_ != nullptr;
    }
    /* For the calls of device.h; release: the caller closes it. */
    wh_device *get() const noexcept {
        return device_;
    }
    wh_device *release() noexcept {
        wh_device *mine = device_;
        device_ = nullptr;
        return mine;
    }

  private:
    wh_device *device_ = nullptr;
};

/* The options of a heap, as a struct whose fields are set by calls:
 *     wh::heap_options(64 << 20).set_device(d).set_allocator("tessera")
 * In C++20 the C struct does as well: wh_heap_options{.bytes = 64 << 20}. heap.h says what each
 * field means. */
class heap_options : public wh_heap_options {
  public:
    explicit heap_options(uint64_t bytes_) noexcept : wh_heap_options() {
        bytes = bytes_;
    }
    heap_options &set_allocator(const char *name) noexcept {
        allocator = name;
        return *this;
    }
    heap_options &set_device(const wh::device &on) noexcept {
        return set_device(on.get());
    }
    heap_options &set_device(wh_device *on) noexcept {
        wh_heap_options::device = on;
        return *this;
    }
    heap_options &set_memory(void *p) noexcept {
        memory = p;
        return *this;
    }
    heap_options &set_options(const wh_options_head *of_family) noexcept {
        options = of_family;
        return *this;
    }
    heap_options &set_reserve_bytes(uint64_t n) noexcept {
        reserve_bytes = n;
        return *this;
    }
    heap_options &set_source(const wh_memory_source &from) noexcept {
        source = from;
        return *this;
    }
    heap_options &set_cuda_pool(void *pool) noexcept {
        cuda_pool = pool;
        return *this;
    }
};

/* A heap that the host owns: wh_heap_create and wh_heap_destroy. It can be moved. Calls of heap.h
 * that are not here take get(). Errors: those of the C calls. */
class heap {
  public:
    heap() noexcept = default;
    template <class Ref = heap_ref>
    heap(const wh_heap_options &options, std::error_code &code) noexcept {
        code = make_error_code(Ref::create(&heap_, &options));
    }
#if defined(__cpp_exceptions)
    template <class Ref = heap_ref> explicit heap(const wh_heap_options &options) {
        throw_if(make_error_code(Ref::create(&heap_, &options)), "wh::heap");
    }
    /* With the other options as they are by default. */
    template <class Ref = heap_ref> explicit heap(uint64_t bytes) {
        const heap_options options(bytes);
        throw_if(make_error_code(Ref::create(&heap_, &options)), "wh::heap");
    }
#endif
    heap(heap &&other) noexcept : heap_(other.release()) {
    }
    heap &operator=(heap &&other) noexcept {
        wh_heap *mine = heap_;
        heap_ = other.release();
        (void)wh_heap_destroy(mine != heap_ ? mine : nullptr);
        return *this;
    }
    /* Waits for the default stream; the error of a kernel that failed there is not told: call
     * wh_device_sync before, or wh_heap_destroy(heap.release()). */
    ~heap() {
        (void)wh_heap_destroy(heap_);
    }

    explicit operator bool() const noexcept {
        return heap_ != nullptr;
    }
    wh_heap *get() const noexcept {
        return heap_;
    }
    wh_heap *release() noexcept {
        wh_heap *mine = heap_;
        heap_ = nullptr;
        return mine;
    }
    wh_device *device() const noexcept {
        return wh_heap_device(heap_);
    }

    /* The handle for kernels of this file: wh_heap_handle. */
    template <class Ref = heap_ref> Ref ref(std::error_code &code) const noexcept {
        Ref r = Ref();
        code = make_error_code(Ref::get(heap_, &r));
        return r;
    }
    /* wh_heap_enable_peer, wh_heap_peers: kernels of another device, too, may use the heap, in
     * files with WH_PEERS 1. Before ref(). The heap keeps that device alive. */
    void enable_peer(const wh::device &peer, std::error_code &code) noexcept {
        code = make_error_code(wh_heap_enable_peer(heap_, peer.get()));
    }
    uint32_t peers() const noexcept {
        return wh_heap_peers(heap_);
    }
    /* wh_heap_reset, wh_heap_get_stats, wh_heap_check; CORRUPT is an error of check. */
    void reset(std::error_code &code) noexcept {
        code = make_error_code(wh_heap_reset(heap_));
    }
    wh_stats stats(std::error_code &code) const noexcept {
        wh_stats s = wh_stats();
        code = make_error_code(wh_heap_get_stats(heap_, &s));
        return s;
    }
    wh_report check(std::error_code &code) const noexcept {
        wh_report r = wh_report();
        code = make_error_code(wh_heap_check(heap_, &r));
        return r;
    }
#if defined(__cpp_exceptions)
    template <class Ref = heap_ref> Ref ref() const {
        std::error_code code;
        const Ref r = ref<Ref>(code);
        throw_if(code, "wh::heap::ref");
        return r;
    }
    void enable_peer(const wh::device &peer) {
        throw_if(make_error_code(wh_heap_enable_peer(heap_, peer.get())), "wh::heap::enable_peer");
    }
    void reset() {
        throw_if(make_error_code(wh_heap_reset(heap_)), "wh::heap::reset", false);
    }
    wh_stats stats() const {
        std::error_code code;
        const wh_stats s = stats(code);
        throw_if(code, "wh::heap::stats", false);
        return s;
    }
    wh_report check() const {
        std::error_code code;
        const wh_report r = check(code);
        throw_if(code, "wh::heap::check", false);
        return r;
    }
#endif

  private:
    wh_heap *heap_ = nullptr;
};

} // namespace wh

#include "warpheap/detail/simt/end.h"

#endif /* WH_HAS_HOST */

#endif
