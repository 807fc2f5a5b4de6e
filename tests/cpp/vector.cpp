/* vector.cpp: random calls on vectors of many lanes, each compared with std::vector; in a heap with
 * room, and in one that is full most of the time, where a call that says false changes nothing. */
#include "cpp/cpp_test.hpp"

#include <utility>
#include <vector>

namespace {

enum { CALLS = 80, LANES = 48 };

struct vector_args {
    wh::heap_ref heap;
    uint32_t *wrong;
    uint64_t seed;
    uint64_t *refused; /* of each lane: calls that found no memory */
    uint32_t is_tight;
};

template <class Allocator> struct pair_of {
    wh::vector<tracked, Allocator> own;
    std::vector<uint64_t> model;
    explicit pair_of(const Allocator &from) : own(from) {
    }
    bool same() const {
        bool same = own.size() == model.size() && own.capacity() >= own.size() &&
                    own.empty() == model.empty() &&
                    own.end() - own.begin() == static_cast<ptrdiff_t>(model.size());
        for (size_t i = 0; same && i < model.size(); i++) {
            same = own[i].get() == model[i];
        }
        return same;
    }
};

template <class Allocator> class vector_play {
  public:
    vector_play(const Allocator &from, uint64_t seed) : x_(from), y_(from), random_(seed) {
    }

    bool is_right() {
        return x_.same() && y_.same() && room_is_right_;
    }
    int64_t elements() const {
        return static_cast<int64_t>(x_.own.size() + y_.own.size());
    }
    uint64_t refused() const {
        return refused_;
    }

    void call() {
        const size_t n = x_.model.size(), at = n != 0 ? below(n) : 0;
        const uint64_t v = below(1000000);
        switch (below(14)) {
        case 0:
            if (n != 0) { /* an element of its own, which the vector may have to move */
                told(x_.own.push_back(x_.own[at]), [&] { x_.model.push_back(x_.model[at]); });
            }
            break;
        case 1:
            told(x_.own.emplace_back(v), [&] { x_.model.push_back(v); });
            break;
        case 2:
            if (n != 0) {
                x_.own.pop_back();
                x_.model.pop_back();
            }
            break;
        case 3: {
            const size_t place = below(n + 1);
            told(x_.own.insert(place, v),
                 [&] { x_.model.insert(x_.model.begin() + to(place), v); });
            break;
        }
        case 4: {
            const size_t last = at + below(n - at + 1);
            x_.own.erase(at, last);
            x_.model.erase(x_.model.begin() + to(at), x_.model.begin() + to(last));
            break;
        }
        case 5:
            resize(below(2 * n + 4), n, at);
            break;
        case 6:
            room(below(2 * n + 8));
            break;
        case 7:
            if (below(8) == 0) {
                x_.own.clear();
                x_.model.clear();
            }
            break;
        case 8:
            told(y_.own.assign(x_.own), [&] { y_.model = x_.model; });
            break;
        case 9:
            swap(x_.own, y_.own);
            x_.model.swap(y_.model);
            break;
        case 10:
            move_over();
            break;
        default:
            tracked t(v);
            told(x_.own.push_back(std::move(t)), [&] { x_.model.push_back(v); });
            break;
        }
    }

  private:
    size_t below(size_t n) {
        return static_cast<size_t>(next_random(&random_) % n);
    }
    static ptrdiff_t to(size_t i) {
        return static_cast<ptrdiff_t>(i);
    }
    template <class F> void told(bool done, F in_model) {
        if (done) {
            in_model();
        } else {
            refused_++;
        }
    }
    void resize(size_t to_n, size_t n, size_t at) {
        if (n != 0 && below(2) == 0) {
            told(x_.own.resize(to_n, x_.own[at]), [&] { x_.model.resize(to_n, x_.model[at]); });
        } else {
            told(x_.own.resize(to_n), [&] { x_.model.resize(to_n); });
        }
    }
    void room(size_t n) {
        const tracked *before = x_.own.data();
        if (below(2) == 0) {
            told(x_.own.reserve(n), [&] { room_is_right_ &= x_.own.capacity() >= n; });
        } else {
            told(x_.own.shrink_to_fit(), [&] {
                room_is_right_ &= x_.own.capacity() == x_.own.size();
                room_is_right_ &= !x_.own.empty() || x_.own.data() == nullptr;
            });
        }
        room_is_right_ &= x_.own.empty() || x_.own.data() == before || x_.own[0].get() != ~0ull;
    }
    void move_over() {
        if (below(2) == 0) {
            y_.own = std::move(x_.own);
        } else {
            wh::vector<tracked, Allocator> z(std::move(x_.own));
            y_.own = std::move(z);
            room_is_right_ &= z.empty() && z.capacity() == 0;
        }
        room_is_right_ &= x_.own.data() == nullptr;
        y_.model.swap(x_.model);
        x_.model.clear();
    }

    pair_of<Allocator> x_, y_;
    uint64_t random_, refused_ = 0;
    bool room_is_right_ = true;
};

template <class Allocator> static void play_vectors(const vector_args &a, const Allocator &from) {
    const uint64_t t = wh_thread_id();
    {
        vector_play<Allocator> play(from, a.seed * 1000 + t);
        for (uint32_t i = 0; i < CALLS; i++) {
            const uint64_t refused = play.refused();
            play.call();
            CHECK(play.is_right());
            CHECK(a.is_tight != 0 || play.refused() == refused);
            CHECK(tallies[t].live == play.elements());
            wh_backoff(0); /* other lanes come in between */
        }
        a.refused[t] = play.refused();
    }
    CHECK(tallies[t].live == 0 && tallies[t].bad == 0);
}

WH_KERNEL(play_by_value, vector_args, a) {
    play_vectors(a, wh::allocator<tracked>(a.heap));
}
WH_KERNEL(play_by_pointer, vector_args, a) {
    play_vectors(a, wh::allocator_at<tracked>(&a.heap));
}

uint64_t play(uint64_t seed, uint64_t bytes, bool is_tight) {
    place p(seed, bytes);
    vector_args a;
    uint64_t refused = 0;
    a.heap = p.ref();
    a.wrong = p.wrong;
    a.seed = seed;
    a.is_tight = is_tight;
    a.refused = static_cast<uint64_t *>(take(p.device.get(), LANES * sizeof(uint64_t)));
    tallies = static_cast<tally *>(take(p.device.get(), LANES * sizeof(tally)));
    p.run(seed % 2 == 0 ? play_by_value : play_by_pointer, a, 2, LANES / 2);
    for (uint32_t i = 0; i < LANES; i++) {
        refused += a.refused[i];
    }
    p.close();
    return refused;
}

void test_roomy(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 2 * n_seeds(); seed++) {
        assert_int_equal(play(seed, 8 << 20, false), 0);
    }
}

/* The smallest heap: no two lanes' vectors can grow as they like. */
void test_tight(void **state) {
    (void)state;
    uint64_t refused = 0, bytes = 0;
    const wh_heap_options none = wh_heap_options();
    assert_int_equal(wh_heap_min_bytes(&none, &bytes), WH_OK);
    for (uint64_t seed = 0; seed < 2 * n_seeds(); seed++) {
        refused += play(seed, bytes, true);
    }
    assert_true(refused > 100);
}

struct share_args {
    wh::heap_ref heap;
    uint32_t *wrong;
    wh::vector<tracked> *one; /* of each thread */
};

/* A vector that one kernel makes another one reads and ends, by other threads. */
WH_KERNEL(make_vectors, share_args, a) {
    const uint64_t t = wh_thread_id();
    wh::vector<tracked> *v = ::new (static_cast<void *>(a.one + t)) wh::vector<tracked>(a.heap);
    for (uint64_t i = 0; i < t; i++) {
        CHECK(v->push_back(tracked(t * i)));
    }
}
WH_KERNEL(end_vectors, share_args, a) {
    const uint64_t t = wh_thread_id(), other = LANES - 1 - t;
    const wh::span<const tracked> all = const_cast<const wh::vector<tracked> &>(a.one[other]);
    CHECK(all.size() == other);
    for (uint64_t i = 0; i < other; i++) {
        CHECK(all[i].get() == other * i);
    }
    a.one[other].~vector();
    wh::vector<wh::vector<uint32_t>> rows(a.heap);
    for (uint32_t i = 0; i < 20; i++) {
        wh::vector<uint32_t> row(a.heap);
        CHECK(row.resize(i, i) && rows.push_back(std::move(row)));
    }
    for (uint32_t i = 0; i < 20; i++) {
        CHECK(rows[i].size() == i && (i == 0 || (rows[i].front() == i && rows[i].back() == i)));
    }
    CHECK(!rows[0].reserve(~static_cast<size_t>(0) / 2)); /* more than there are addresses */
}
void test_kernels(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        place p(seed, 8 << 20);
        share_args a;
        a.heap = p.ref();
        a.wrong = p.wrong;
        a.one = static_cast<wh::vector<tracked> *>(
            take(p.device.get(), LANES * sizeof(wh::vector<tracked>)));
        tallies = static_cast<tally *>(take(p.device.get(), LANES * sizeof(tally)));
        p.run(make_vectors, a, 1, LANES);
        assert_int_equal(p.live(), LANES - 1); /* the first one is empty */
        p.run(end_vectors, a, 1, LANES);
        p.close();
    }
}

} // namespace

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roomy),
        cmocka_unit_test(test_tight),
        cmocka_unit_test(test_kernels),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
