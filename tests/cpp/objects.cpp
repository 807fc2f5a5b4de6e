/* objects.cpp: what the host owns and what it says of errors; objects that kernels make, use and
 * end, among them such with virtual functions; allocators and resources. */
#include "cpp/cpp_test.hpp"

#include <string>
#include <utility>

namespace {

enum { LANES = 64 };

void test_errors(void **state) {
    (void)state;
    std::error_code code;
    wh::heap small(wh::heap_options(100), code);
    assert_true(code == WH_HEAP_TOO_SMALL);
    assert_false(static_cast<bool>(small));
    assert_string_equal(code.category().name(), "warpheap");
    assert_string_equal(code.message().c_str(), wh_status_text(WH_HEAP_TOO_SMALL));
    wh::device none("no such device", nullptr, code);
    assert_true(code == WH_BAD_ARGUMENT || code == WH_NO_DEVICE);
    small.stats(code);
    assert_true(code == WH_BAD_ARGUMENT);
    small.ref(code);
    assert_true(code == WH_BAD_ARGUMENT);
    small.reset(code);
    assert_true(code == WH_BAD_ARGUMENT);
    int thrown = 0;
    try {
        const wh::heap heap(wh::heap_options(8 << 20).set_allocator("no-such"));
    } catch (const wh::error &e) {
        thrown += e.code() == WH_UNKNOWN_ALLOCATOR;
        thrown += std::string(e.what()).find("wh::heap") == 0;
    }
    try {
        (void)wh::heap().ref();
    } catch (const std::system_error &e) {
        thrown += e.code() == WH_BAD_ARGUMENT;
    }
    try {
        wh::device device("no such device");
    } catch (const wh::error &) {
        thrown++;
    }
    try { /* the last error text is of the call before */
        (void)wh::heap().stats();
    } catch (const wh::error &e) {
        thrown += std::string(e.what()).find("no such device") == std::string::npos;
    }
    assert_int_equal(thrown, 5);
}

/* Each is closed once: AddressSanitizer says so, and the device's own count. */
void test_owners(void **state) {
    (void)state;
    wh::device one("sim"), two("sim");
    wh::heap a(wh::heap_options(8 << 20).set_device(one));
    wh_heap *first = a.get();
    assert_ptr_equal(a.device(), one.get());
    wh::heap b(std::move(a));
    assert_null(a.get());
    assert_ptr_equal(b.get(), first);
    a = wh::heap(wh::heap_options(8 << 20).set_device(two));
    assert_true(a.ref() != b.ref());
    assert_true(a.ref() == a.ref());
    wh::heap &same = b;
    b = std::move(same);
    assert_ptr_equal(b.get(), first);
    b = std::move(a);
    assert_ptr_equal(b.device(), two.get());
    two = std::move(one); /* the heap keeps its device */
    assert_int_equal(b.stats().live_blocks, 0);
    b.reset();
    assert_int_equal(b.check().errors, 0);
    assert_int_equal(wh_heap_destroy(b.release()), WH_OK);
    wh_heap_options plain = wh_heap_options();
    plain.bytes = 1 << 20;
    plain.device = two.get();
    assert_true(static_cast<bool>(wh::heap(plain)));
}

struct object_args {
    wh::heap_ref heap;
    uint32_t *wrong;
    struct solid **solids; /* of each thread */
};
struct solid {
    virtual uint64_t volume() const = 0;
    virtual ~solid() {
    }
};
struct box : solid {
    tracked a, b;
    box(uint64_t x, uint64_t y) : a(x), b(y) {
    }
    uint64_t volume() const override {
        return a.get() * b.get();
    }
};
struct alignas(64) pile : solid {
    wh::vector<tracked> all;
    pile(const wh::heap_ref &heap, uint32_t n) : all(heap) {
        (void)all.resize(n, 2);
    }
    uint64_t volume() const override {
        uint64_t sum = 0;
        for (const tracked &t : all) {
            sum += t.get();
        }
        return sum;
    }
};
struct huge {
    char bytes[1 << 30];
    huge() {
        bytes[0] = 1;
    }
};

WH_KERNEL(make_solids, object_args, a) {
    const uint32_t t = static_cast<uint32_t>(wh_thread_id());
    solid *s = nullptr;
    if (t % 3 == 0) {
        s = wh::make<box>(a.heap, t, 3u);
    } else if (t % 3 == 1) {
        s = wh::make<pile>(a.heap, a.heap, t);
        CHECK(reinterpret_cast<uintptr_t>(s) % 64 == 0);
    } else {
        s = new (a.heap) box(t, 3);
    }
    CHECK(s != nullptr);
    a.solids[t] = s;
}
WH_KERNEL(end_solids, object_args, a) {
    const uint32_t t = static_cast<uint32_t>(wh_thread_id()), other = (t + 7) % LANES;
    CHECK(a.solids[other]->volume() == (other % 3 == 1 ? 2 : 3) * other);
    wh::destroy(a.heap, a.solids[other]);
    wh::destroy<solid>(a.heap, nullptr);
    tracked *many = wh::make_array<tracked>(a.heap, 5);
    CHECK(many != nullptr && many[4].get() == 0);
    wh::destroy_array(a.heap, many, 5);
    CHECK(wh::make_array<tracked>(a.heap, 0) == nullptr);
    CHECK(wh::make_array<tracked>(a.heap, ~static_cast<size_t>(0) / sizeof(tracked) + 2) ==
          nullptr);
    CHECK(new (a.heap) huge() == nullptr); /* no constructor runs at address 0 */
    const wh::resource resource(a.heap);
    void *p = resource.allocate(100, 1024);
    CHECK(p != nullptr && reinterpret_cast<uintptr_t>(p) % 1024 == 0);
    resource.deallocate(p, 100, 1024);
    p = resource.allocate(100);
    CHECK(p != nullptr && resource == wh::resource(a.heap));
    resource.deallocate(p, 100);
    const wh::allocator<int> ints(a.heap);
    const wh::allocator<char> chars(ints);
    char *c = chars.allocate(10);
    CHECK(c != nullptr && ints == chars);
    chars.deallocate(c, 10);
}
/* A handle that nobody has filled: containers find no memory, and end. */
WH_KERNEL(use_no_heap, object_args, a) {
    const wh::heap_ref none = wh::heap_ref();
    wh::vector<int> v(none);
    wh::string s(none);
    wh::deque<int> d(none);
    wh::stack<int> stack(none);
    wh::queue<int> queue(none);
    wh::hash_map<int, int> map(none);
    int x = 0;
    CHECK(none != a.heap && none == wh::heap_ref());
    CHECK(!v.push_back(1) && v.empty() && !s.append("text") && !d.push_back(1));
    CHECK(!stack.push(1) && !stack.pop(x) && !queue.push(1) && !queue.pop(x));
    CHECK(map.insert(1, 2).failed() && !map.find(1, x) && map.size() == 0);
    CHECK(wh::allocator<int>(none).allocate(1) == nullptr);
    CHECK(wh::resource(none).allocate(100, 1024) == nullptr);
    wh::resource(none).deallocate(nullptr, 100);
    wh::destroy<solid>(none, nullptr);
}
void test_no_heap(void **state) {
    (void)state;
    place p(1, 8 << 20);
    object_args a = object_args();
    a.heap = p.ref();
    a.wrong = p.wrong;
    p.run(use_no_heap, a, 2, LANES / 2);
    p.close();
}

void test_objects(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        place p(seed, 8 << 20);
        object_args a;
        a.heap = p.ref();
        a.wrong = p.wrong;
        a.solids = static_cast<solid **>(take(p.device.get(), LANES * sizeof(solid *)));
        tallies = static_cast<tally *>(take(p.device.get(), LANES * sizeof(tally)));
        p.run(make_solids, a, 2, LANES / 2);
        p.run(end_solids, a, 2, LANES / 2);
        int64_t live = 0;
        for (uint32_t i = 0; i < LANES; i++) {
            live += tallies[i].live;
            assert_int_equal(tallies[i].bad, 0);
        }
        assert_int_equal(live, 0);
        p.close();
    }
}

/* One device makes the objects, and another one ends them. */
void test_peers(void **state) {
    (void)state;
    place p(1, 8 << 20);
    std::error_code code;
    object_args a;
    a.wrong = p.wrong;
    a.solids = static_cast<solid **>(take(p.device.get(), LANES * sizeof(solid *)));
    tallies = static_cast<tally *>(take(p.device.get(), LANES * sizeof(tally)));
    assert_int_equal(p.heap.peers() + wh::heap().peers(), 0);
    p.heap.enable_peer(p.device, code);
    assert_true(code == WH_BAD_ARGUMENT);
    wh::heap().enable_peer(p.device, code);
    assert_true(code == WH_BAD_ARGUMENT);
    int thrown = 0;
    try { /* no device */
        p.heap.enable_peer(wh::device());
    } catch (const wh::error &e) {
        thrown += e.code() == WH_BAD_ARGUMENT &&
                  std::string(e.what()).find("wh::heap::enable_peer: ") == 0;
    }
    try {
        p.heap.enable_peer(p.device);
    } catch (const wh::error &e) {
        thrown += std::string(e.what()).find("no peer of itself") != std::string::npos;
    }
    assert_int_equal(thrown, 2);
    wh::device peer("sim");
    p.heap.enable_peer(peer, code);
    assert_false(static_cast<bool>(code));
    p.heap.enable_peer(peer); /* again is no error */
    assert_int_equal(p.heap.peers(), 1);
    a.heap = p.ref();
    p.run(make_solids, a, 2, LANES / 2);
    const wh_launch there = wh_grid(peer.get(), 2, LANES / 2);
    assert_int_equal(end_solids(&there, &a), WH_OK);
    assert_int_equal(*p.wrong, 0);
    peer = wh::device(); /* the heap keeps it */
    p.close();
}

} // namespace

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),  cmocka_unit_test(test_owners),
        cmocka_unit_test(test_objects), cmocka_unit_test(test_no_heap),
        cmocka_unit_test(test_peers),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
