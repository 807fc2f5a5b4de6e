/* owned.cpp: what one thread owns: random calls on deques and intrusive lists of many lanes, each
 * compared with those of the C++ library; and arenas that close themselves. In a heap with room,
 * and in one that is full most of the time. */
#include "cpp/cpp_test.hpp"

#include <deque>
#include <list>
#include <utility>

namespace {

enum { CALLS = 120, LANES = 48 };

struct owned_args {
    wh::heap_ref heap;
    uint32_t *wrong;
    uint64_t seed;
    uint64_t *refused;
    uint32_t is_tight;
};

struct deque_play {
    wh::deque<tracked> x, y;
    std::deque<uint64_t> x_model, y_model;
    uint64_t random, refused = 0;

    deque_play(const wh::heap_ref &heap, uint64_t seed) : x(heap), y(heap), random(seed) {
    }
    size_t below(size_t n) {
        return static_cast<size_t>(next_random(&random) % n);
    }
    static bool same(const wh::deque<tracked> &own, const std::deque<uint64_t> &model) {
        bool same = own.size() == model.size() && own.empty() == model.empty();
        for (size_t i = 0; same && i < model.size(); i++) {
            same = own[i].get() == model[i];
        }
        return same;
    }
    bool is_right() const {
        return same(x, x_model) && same(y, y_model);
    }
    void call() {
        const uint64_t v = below(1000000);
        const size_t n = x_model.size(), at = n != 0 ? below(n) : 0;
        switch (below(12)) {
        case 0:
        case 1:
        case 2:
            x.push_back(v) ? x_model.push_back(v) : void(refused++);
            break;
        case 3:
        case 4:
            x.push_front(v) ? x_model.push_front(v) : void(refused++);
            break;
        case 5: /* an element of its own */
            if (n != 0) {
                const uint64_t old = x_model[at];
                x.emplace_back(x[at]) ? x_model.push_back(old) : void(refused++);
            }
            break;
        case 6:
            if (n != 0) {
                const uint64_t old = x_model[at];
                x.emplace_front(x[at]) ? x_model.push_front(old) : void(refused++);
            }
            break;
        case 7:
            if (n != 0) {
                x.pop_back();
                x_model.pop_back();
            }
            break;
        case 8:
            if (n != 0) {
                x.pop_front();
                x_model.pop_front();
            }
            break;
        case 9:
            swap(x, y);
            x_model.swap(y_model);
            break;
        case 10:
            if (below(4) == 0) {
                x = std::move(y);
                x_model = std::move(y_model);
                y_model.clear();
            } else if (below(6) == 0) {
                x.clear();
                x_model.clear();
            }
            break;
        default:
            refused += !x.reserve(below(2 * n + 10));
            break;
        }
    }
};

struct link : wh::list_hook {
    uint64_t value;
    explicit link(uint64_t v) : value(v) {
    }
};

struct list_play {
    wh::list<link> x, y;
    std::list<link *> x_model, y_model; /* the same elements */
    uint64_t random;

    explicit list_play(uint64_t seed) : random(seed) {
    }
    size_t below(size_t n) {
        return static_cast<size_t>(next_random(&random) % n);
    }
    static bool same(const wh::list<link> &own, const std::list<link *> &model) {
        auto i = own.begin();
        for (const link *p : model) {
            if (i == own.end() || &*i != p || i->value != p->value) {
                return false;
            }
            i++;
        }
        return i == own.end() && own.size() == model.size() && own.empty() == model.empty() &&
               (model.empty() || (&own.front() == model.front() && &own.back() == model.back()));
    }
    bool is_right() const {
        return same(x, x_model) && same(y, y_model);
    }
    link *some(std::list<link *>::iterator *where) {
        *where = x_model.begin();
        std::advance(*where, static_cast<ptrdiff_t>(below(x_model.size())));
        return **where;
    }
    void call(const wh::heap_ref &heap) {
        std::list<link *>::iterator where;
        const size_t kind = below(9);
        if (kind < 4 || x_model.empty()) {
            link *p = wh::make<link>(heap, below(1000));
            if (p == nullptr) {
                return;
            }
            if (kind % 3 == 0) {
                x.push_back(*p);
                x_model.push_back(p);
            } else if (kind % 3 == 1 || x_model.empty()) {
                x.push_front(*p);
                x_model.push_front(p);
            } else {
                x.insert(*some(&where), *p);
                x_model.insert(where, p);
            }
        } else if (kind == 4) {
            x.splice(y);
            x_model.splice(x_model.end(), y_model);
        } else if (kind == 5) {
            wh::list<link> z(std::move(x));
            x = std::move(y);
            y = std::move(z);
            x_model.swap(y_model);
        } else {
            link *p = kind == 6 ? x.pop_front() : x.pop_back();
            link *q = kind == 6 ? x_model.front() : x_model.back();
            if (kind == 8) { /* another one goes, too */
                x.push_back(*p);
                p = some(&where);
                x.erase(*p);
                x_model.erase(where);
                q = p;
            } else if (kind == 6) {
                x_model.pop_front();
            } else {
                x_model.pop_back();
            }
            wh::destroy(heap, p == q ? p : nullptr);
        }
    }
    void end(const wh::heap_ref &heap) {
        x.splice(y);
        for (auto i = x.begin(); i != x.end();) {
            wh::destroy(heap, &*i++);
        }
    }
};

WH_KERNEL(play_owned, owned_args, a) {
    const uint64_t t = wh_thread_id();
    {
        deque_play deque(a.heap, a.seed * 1000 + t);
        list_play list(a.seed * 1000 + t);
        for (uint32_t i = 0; i < CALLS; i++) {
            deque.call();
            CHECK(deque.is_right());
            CHECK(a.is_tight != 0 || deque.refused == 0);
            CHECK(tallies[t].live == static_cast<int64_t>(deque.x.size() + deque.y.size()));
            list.call(a.heap);
            CHECK(list.is_right());
        }
        list.end(a.heap);
        a.refused[t] = deque.refused;
    }
    CHECK(tallies[t].live == 0 && tallies[t].bad == 0);
}

struct alignas(64) wide_item {
    uint64_t value[8];
};

WH_KERNEL(play_arenas, owned_args, a) {
    const uint64_t t = wh_thread_id();
    wh::bump_arena arena(a.heap, 128, 512);
    uint64_t *kept = arena.make<uint64_t>(t);
    void *again = nullptr;
    CHECK(kept != nullptr || a.is_tight != 0);
    for (uint32_t i = 0; i < 20; i++) {
        const wh::bump_scope scope(arena);
        uint32_t *many = arena.make_array<uint32_t>(i + t % 7);
        for (uint64_t k = 0; many != nullptr && k < i + t % 7; k++) {
            CHECK(many[k] == 0);
            many[k] = static_cast<uint32_t>(t);
        }
        wide_item *w = arena.make<wide_item>();
        CHECK(w != nullptr ? reinterpret_cast<uintptr_t>(w) % 64 == 0 : a.is_tight != 0);
        CHECK(arena.make_array<wide_item>(~static_cast<size_t>(0) / 32) == nullptr);
        CHECK(arena.allocate(0) == nullptr);
        for (uint64_t k = 0; many != nullptr && k < i + t % 7; k++) {
            CHECK(many[k] == t);
        }
    }
    for (uint32_t i = 0; i < 3; i++) { /* a scope gives the same place each time */
        const wh::bump_scope scope(arena);
        void *p = arena.allocate(16);
        CHECK(again == nullptr || p == again);
        again = p;
    }
    CHECK(kept == nullptr || *kept == t);
}

uint64_t play(uint64_t seed, uint64_t bytes, bool is_tight) {
    place p(seed, bytes);
    owned_args a;
    uint64_t refused = 0;
    a.heap = p.ref();
    a.wrong = p.wrong;
    a.seed = seed;
    a.is_tight = is_tight;
    a.refused = static_cast<uint64_t *>(take(p.device.get(), LANES * sizeof(uint64_t)));
    tallies = static_cast<tally *>(take(p.device.get(), LANES * sizeof(tally)));
    p.run(play_owned, a, 2, LANES / 2);
    assert_int_equal(p.live(), 0);
    p.run(play_arenas, a, 2, LANES / 2);
    for (uint32_t i = 0; i < LANES; i++) {
        refused += a.refused[i];
    }
    p.close();
    return refused;
}

void test_roomy(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        assert_int_equal(play(seed, 8 << 20, false), 0);
    }
}
void test_tight(void **state) {
    (void)state;
    uint64_t refused = 0, bytes = 0;
    const wh_heap_options none = wh_heap_options();
    assert_int_equal(wh_heap_min_bytes(&none, &bytes), WH_OK);
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        refused += play(seed, bytes, true);
    }
    assert_true(refused > 20);
}

} // namespace

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roomy),
        cmocka_unit_test(test_tight),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
