/* cpp_test.hpp: what the tests of warpheap.hpp share. Included once per program. Kernels here are
 * host code of the simulated device: what they do is compared with what the host's library does. */
#ifndef TESTS_CPP_TEST_HPP
#define TESTS_CPP_TEST_HPP

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <csetjmp>

extern "C" { /* which this header does not say itself */
#include <cmocka.h>
}

#include "sim/sim_test.h"

#include "warpheap/warpheap.hpp"

/* fault_cpp has several programs in one: each has its own of these. */
namespace {

/* A heap on a simulated device of its own, whose schedule goes with the seed, and a word that
 * kernels set to the line of what is wrong. */
struct place {
    wh::device device;
    wh::heap heap;
    uint32_t *wrong = nullptr;

    place(uint64_t seed, uint64_t bytes, uint32_t weak = 0) {
        std::error_code code;
        wh_sim_options sim = wh_sim_options();
        sim.seed = seed;
        sim.policy = static_cast<wh_sim_policy>(seed % WH_SIM_POLICY_COUNT);
        sim.weak = weak;
        device = wh::device("sim", &sim, code);
        assert_int_equal(code.value(), WH_OK);
        heap = wh::heap(wh::heap_options(bytes).set_device(device), code);
        assert_int_equal(code.value(), WH_OK);
        wrong = static_cast<uint32_t *>(take(device.get(), 256));
    }
    wh::heap_ref ref() const {
        std::error_code code;
        const wh::heap_ref r = heap.ref(code);
        assert_int_equal(code.value(), WH_OK);
        return r;
    }
    uint64_t live() const {
        std::error_code code;
        const wh_stats s = heap.stats(code);
        assert_int_equal(code.value(), WH_OK);
        assert_int_equal(s.bad_frees, 0);
        return s.live_blocks;
    }
    /* A kernel, which found nothing wrong. */
    template <class Args>
    void run(wh_status (*kernel)(const wh_launch *, const Args *), const Args &args,
             uint32_t blocks, uint32_t threads) {
        const wh_launch launch = wh_grid(device.get(), blocks, threads);
        if (kernel(&launch, &args) != WH_OK) {
            fail_msg("%s", wh_device_error_text(device.get()));
        }
        if (*wrong != 0) {
            fail_msg("line %u of the kernel", *wrong);
        }
    }
    /* The heap is sound, and nothing is left in it. */
    void close() {
        std::error_code code;
        assert_int_equal(live(), 0);
        heap.check(code);
        assert_int_equal(code.value(), WH_OK);
        assert_int_equal(wh_device_free(device.get(), wrong), WH_OK);
    }
};

/* The nightly run has other seeds each day. */
UNUSED uint64_t first_seed() {
    const char *text = getenv("WH_TEST_FIRST_SEED");
    return text != nullptr ? strtoull(text, nullptr, 10) : 0;
}

/* In a kernel whose arguments have `wrong`. */
#define CHECK(condition)                                    \
    do {                                                    \
        if (!(condition)) {                                 \
            (void)wh_cas_u32_relaxed(a.wrong, 0, __LINE__); \
        }                                                   \
    } while (0)

/* An element that owns itself: it says when it is not where it was constructed, when it is used
 * after its end, and how many a lane has. Counts and faults are those of the calling lane, so that
 * lanes share no word. */
struct tally {
    int64_t live;
    uint64_t bad;
};
tally *tallies; /* of each thread of the grid */

class tracked {
  public:
    tracked() : tracked(0) {
    }
    tracked(uint64_t v) : value(v), self_(this) {
        mine().live++;
    }
    tracked(const tracked &other) : tracked(other.get()) {
    }
    tracked(tracked &&other) noexcept : tracked(other.get()) {
        other.value = moved_from;
    }
    tracked &operator=(const tracked &other) {
        const uint64_t v = other.get();
        mine().bad += self_ != this;
        value = v;
        return *this;
    }
    tracked &operator=(tracked &&other) noexcept {
        *this = static_cast<const tracked &>(other);
        if (this != &other) {
            other.value = moved_from;
        }
        return *this;
    }
    ~tracked() {
        mine().bad += self_ != this;
        self_ = nullptr;
        mine().live--;
    }
    uint64_t get() const {
        mine().bad += self_ != this;
        return value;
    }

  private:
    static constexpr uint64_t moved_from = ~0ull;
    static tally &mine() {
        return tallies[wh_thread_id()];
    }
    uint64_t value;
    const tracked *self_;
};

} // namespace

#endif
