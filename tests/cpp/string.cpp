/* string.cpp: random calls on strings of many lanes, each compared with std::string; in a heap with
 * room and in one that is mostly full; and numbers as text, compared with printf. */
#include "cpp/cpp_test.hpp"

#include <cmath>
#include <cstring>
#include <string>

namespace {

enum { CALLS = 80, LANES = 32 };

struct string_args {
    wh::heap_ref heap;
    uint32_t *wrong;
    uint64_t seed;
    uint64_t *refused;
    uint32_t is_tight;
};

/* The double with these bits. */
double double_of(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

class string_play {
  public:
    string_play(const wh::heap_ref &heap, uint64_t seed) : s_(heap), t_(heap), random_(seed) {
    }
    uint64_t refused = 0;

    bool is_right() const {
        return s_.size() == model_.size() && s_ == model_.c_str() && !(s_ != s_) &&
               s_.c_str()[s_.size()] == 0 && s_.empty() == model_.empty() &&
               (s_.capacity() >= s_.size());
    }
    void call() {
        char text[400];
        const size_t n = below(20), size = model_.size();
        switch (below(12)) {
        case 0:
            told(s_.push_back('x'), "x");
            break;
        case 1:
            snprintf(text, sizeof text, "%lld", static_cast<long long>(bits_));
            told(s_.append_int(static_cast<int64_t>(bits_)), text);
            break;
        case 2:
            snprintf(text, sizeof text, "%0*llx", static_cast<int>(n % 17),
                     static_cast<unsigned long long>(bits_));
            told(s_.append_hex(bits_, static_cast<uint32_t>(n % 17)), text);
            break;
        case 3:
            snprintf(text, sizeof text, "%.*g", static_cast<int>(n % 17 + 1),
                     1.0 / static_cast<double>(bits_));
            told(s_.append_float(1.0 / static_cast<double>(bits_),
                                 static_cast<uint32_t>(n % 17 + 1)),
                 text);
            break;
        case 4: { /* a part of itself */
            const size_t first = size != 0 ? below(size) : 0, k = below(size - first + 1);
            const std::string part = model_.substr(first, k);
            told(s_.append(wh::span<const char>(s_.c_str() + first, k)), part.c_str());
            break;
        }
        case 5:
            told(s_.append(s_), std::string(model_).c_str());
            break;
        case 6:
            if (size != 0) {
                s_.pop_back();
                model_.pop_back();
            }
            break;
        case 7:
            if (s_.resize(size / 2)) {
                model_.resize(size / 2);
            }
            break;
        case 8:
            refused += !(n % 2 == 0 ? s_.reserve(size + n) : s_.shrink_to_fit());
            break;
        case 9:
            if (t_.assign(s_)) {
                swap(s_, t_);
            } else {
                refused++;
            }
            break;
        case 10:
            if (n == 0) {
                s_.clear();
                model_.clear();
            } else {
                told(s_.append(n, 'y'), std::string(n, 'y').c_str());
            }
            break;
        default:
            told(s_.append("some words, "), "some words, ");
            break;
        }
        bits_ = next_random(&random_) >> below(64);
    }

  private:
    size_t below(size_t n) {
        return static_cast<size_t>(next_random(&random_) % n);
    }
    void told(bool done, const char *text) {
        if (done) {
            model_ += text;
        } else {
            refused++;
        }
    }

    wh::string s_, t_;
    std::string model_;
    uint64_t random_, bits_ = 0;
};

WH_KERNEL(play_strings, string_args, a) {
    const uint64_t t = wh_thread_id();
    string_play play(a.heap, a.seed * 1000 + t);
    for (uint32_t i = 0; i < CALLS; i++) {
        play.call();
        CHECK(play.is_right());
        CHECK(a.is_tight != 0 || play.refused == 0);
        wh_backoff(0);
    }
    a.refused[t] = play.refused;
}

/* Text of an array has no zero at its end, and what nobody has room for changes nothing. */
WH_KERNEL(play_edges, string_args, a) {
    wh::string s(a.heap);
    CHECK(s.assign("abc") && s.size() == 3 && s.append("de") && s == "abcde");
    CHECK(s.starts_with("abc") && s.starts_with("") && !s.starts_with("abd"));
    CHECK(!s.starts_with("abcdef") && s.starts_with(s.c_str()));
    const volatile size_t most = SIZE_MAX; /* which the compiler would warn of */
    for (size_t n = most; n > most - 16; n--) {
        CHECK(!s.append(n, 'x') && !s.append(wh::span<const char>("", n)) && !s.resize(n));
    }
    CHECK(s == "abcde" && s.size() == 5);
    wh::string none(a.heap);
    CHECK(!none.append(most, 'x') && !none.resize(most - 1) && none.capacity() == 0);
    CHECK(none.assign("") && none.empty() && none.resize(0) && none == "");
}
void test_edges(void **state) {
    (void)state;
    place p(0, 64 << 20);
    string_args a = string_args();
    a.heap = p.ref();
    a.wrong = p.wrong;
    p.run(play_edges, a, 1, 1);
    p.close();
}

uint64_t play(uint64_t seed, uint64_t bytes, bool is_tight) {
    place p(seed, bytes);
    string_args a;
    uint64_t refused = 0;
    a.heap = p.ref();
    a.wrong = p.wrong;
    a.seed = seed;
    a.is_tight = is_tight;
    a.refused = static_cast<uint64_t *>(take(p.device.get(), LANES * sizeof(uint64_t)));
    p.run(play_strings, a, 2, LANES / 2);
    for (uint32_t i = 0; i < LANES; i++) {
        refused += a.refused[i];
    }
    p.close();
    return refused;
}

void test_roomy(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        assert_int_equal(play(seed, 64 << 20, false), 0);
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

/* --- numbers, on the host ------------------------------------------------------------------ */

void float_is_right(double v) {
    char mine[wh::most_chars + 1], right[64];
    for (int digits = 1; digits <= 17; digits++) {
        char *end = wh::to_chars(mine, mine + wh::most_chars, v, static_cast<uint32_t>(digits));
        assert_non_null(end);
        *end = 0;
        snprintf(right, sizeof right, "%.*g", digits, v);
        assert_string_equal(mine, right);
        /* There is no room for one character less. */
        assert_null(wh::to_chars(mine, end - 1, v, static_cast<uint32_t>(digits)));
    }
}
void test_floats(void **state) {
    (void)state;
    uint64_t random = 1;
    static const double some[] = {0,          -0.0,
                                  1,          9.5,
                                  99.5,       999999.5,
                                  1e22,       1e23,
                                  0.1,        0.5,
                                  1.5,        2.5,
                                  1e-5,       1e-4,
                                  123456,     0.0001,
                                  5e-324,     1e300,
                                  0.00012345, 1e15,
                                  -7.25,      1e16,
                                  1e17,       2.5e-8,
                                  1e-310,     4503599627370496.5};
    for (double v : some) {
        float_is_right(v);
    }
    float_is_right(HUGE_VAL);
    float_is_right(-HUGE_VAL);
    float_is_right(double_of(0x7fefffffffffffff));
    float_is_right(double_of(0x000fffffffffffff));
    for (uint64_t i = 0; i < 400 * n_seeds(); i++) {
        const double v = double_of(next_random(&random));
        if (v == v) {
            float_is_right(v);
            float_is_right(static_cast<double>(next_random(&random) % 100000) / 64);
        }
    }
    char text[4];
    assert_int_equal(wh::to_chars(text, text + 4, std::nan("")) - text, 3);
    assert_memory_equal(text, "nan", 3);
}
void test_integers(void **state) {
    (void)state;
    static const int64_t some[] = {0, 1, -1, 10, -10, INT64_MAX, INT64_MIN, 99, 100};
    for (int64_t v : some) {
        char mine[32], right[32];
        *wh::to_chars(mine, mine + 31, v) = 0;
        snprintf(right, sizeof right, "%lld", static_cast<long long>(v));
        assert_string_equal(mine, right);
        *wh::to_chars(mine, mine + 31, static_cast<uint64_t>(v)) = 0;
        snprintf(right, sizeof right, "%llu", static_cast<unsigned long long>(v));
        assert_string_equal(mine, right);
        *wh::to_chars_hex(mine, mine + 31, static_cast<uint64_t>(v), 5) = 0;
        snprintf(right, sizeof right, "%05llx", static_cast<unsigned long long>(v));
        assert_string_equal(mine, right);
    }
    char text[8]; /* of any type, as append_int */
    assert_int_equal(wh::to_chars(text, text + 8, -12) - text, 3);
    assert_int_equal(wh::to_chars(text, text + 8, 12u) - text, 2);
    assert_int_equal(wh::to_chars(text, text + 8, 123ull) - text, 3);
    assert_int_equal(wh::to_chars(text, text + 8, static_cast<short>(-1)) - text, 2);
    assert_int_equal(wh::to_chars(text, text + 8, 0.5f) - text, 3);
}

} // namespace

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roomy),    cmocka_unit_test(test_tight),
        cmocka_unit_test(test_edges),    cmocka_unit_test(test_floats),
        cmocka_unit_test(test_integers),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
