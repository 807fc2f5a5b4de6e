/* user_containers.cu: a file of a user, with objects and containers of warpheap.hpp, for users.sh.
 */
#include <warpheap/warpheap.hpp>

struct pair {
    uint32_t key;
    double value;
};
struct args {
    wh::heap_ref heap;
    wh::vector<pair> **all;
};
WH_KERNEL(fill, args, a) {
    const uint32_t i = static_cast<uint32_t>(wh_thread_id());
    wh::vector<pair> *v = wh::make<wh::vector<pair>>(a.heap, a.heap);
    if (v != nullptr && v->reserve(8) && v->push_back(pair{i, 0.5}) && v->resize(3)) {
        v->insert(1, v->front());
        v->erase(0);
        v->shrink_to_fit();
    }
    a.all[i] = v;
    wh::vector<pair, wh::allocator_at<pair>> copy(&a.heap);
    if (v != nullptr && copy.assign(wh::span<const pair>(*v))) {
        copy.pop_back();
        swap(copy, copy);
    }
    wh::string s(a.heap);
    if (!s.append("x = ") || !s.append_float(0.5) || !s.append_hex(i) || s == "") {
        wh::destroy(a.heap, new (a.heap) pair());
    }
    const wh::resource r(a.heap);
    r.deallocate(r.allocate(100, 64), 100, 64);
}
wh_status use(const wh::heap &heap, args *a);
wh_status use(const wh::heap &heap, args *a) {
    std::error_code code;
    a->heap = heap.ref(code);
    const wh_launch launch = wh_grid(heap.device(), 1, 32);
    return code ? static_cast<wh_status>(code.value()) : fill(&launch, a);
}
#if defined(__cpp_exceptions)
uint64_t use_throwing(uint64_t bytes);
uint64_t use_throwing(uint64_t bytes) {
    const wh::heap heap(bytes);
    return heap.stats().live_blocks + heap.check().errors;
}
#endif
