/* 21_work_queue.cpp: work that makes work. A range of numbers is cut into halves until the parts
 * are small; all threads take parts from one queue and put halves into it, which grows in the
 * kernel. Each part counts its primes, with a deque and an arena of its own. The same file builds
 * for the GPU (nvcc -x cu) and for the simulated device (any C++14 compiler).
 *
 *     21_work_queue [DEVICE] */
#define WH_KERNEL_THREADS 128
#include <cstdio>
#include <warpheap/warpheap.hpp>

#define NUMBERS 20000u
#define SMALL 64u

/* [cpp queue */
struct range {
    uint32_t first, end;
};
struct args {
    wh::heap_ref heap;
    wh::queue<range> *queue; /* in memory of the device: all threads share it */
    uint32_t *open;          /* ranges that are not counted yet */
    uint32_t *primes;
};

/* Half of the range becomes work for somebody; if the heap is full it stays with us. */
WH_DEVICE bool give_half(const args &a, range &mine) {
    const range half = {mine.first + (mine.end - mine.first) / 2, mine.end};
    wh_add_u32_relaxed(a.open, 1);
    if (!a.queue->push(half)) {
        wh_fetch_sub_u32_relaxed(a.open, 1);
        return false;
    }
    mine.end = half.first;
    return true;
}
/* cpp] */

/* [cpp arena */
/* The primes of a range, by a sieve in memory that nobody needs afterwards. */
WH_DEVICE uint32_t count_primes(wh::bump_arena &arena, range r) {
    const wh::bump_scope scope(arena); /* gives all of it back at the end */
    const uint32_t n = r.end - r.first;
    bool *is_composite = arena.make_array<bool>(n);
    uint32_t found = 0;
    for (uint32_t p = 2; is_composite != nullptr && p * p < r.end; p++) {
        for (uint32_t k = (r.first + p - 1) / p < p ? p : (r.first + p - 1) / p; k * p < r.end;
             k++) {
            is_composite[k * p - r.first] = true;
        }
    }
    for (uint32_t i = 0; is_composite != nullptr && i < n; i++) {
        found += !is_composite[i] && r.first + i >= 2;
    }
    return found;
}
/* cpp] */

/* [cpp deque */
/* A list of work of one thread: large parts are cut, those that it cannot give away wait here. */
WH_DEVICE void do_range(const args &a, wh::bump_arena &arena, range r) {
    wh::deque<range> waiting(a.heap);
    for (;;) {
        while (r.end - r.first > SMALL && give_half(a, r)) {
        }
        if (r.end - r.first > SMALL && waiting.push_back({r.first + SMALL, r.end})) {
            r.end = r.first + SMALL;
        }
        wh_add_u32_relaxed(a.primes, count_primes(arena, r));
        if (waiting.empty()) {
            return;
        }
        r = waiting.back();
        waiting.pop_back();
    }
}
/* cpp] */

/* [cpp make */
WH_KERNEL(begin, args, a) { /* one thread */
    wh::queue<range> *queue = ::new (static_cast<void *>(a.queue)) wh::queue<range>(a.heap);
    *a.open = queue->push({0, NUMBERS}) ? 1 : 0;
}
WH_KERNEL(count, args, a) {
    wh::bump_arena arena(a.heap);
    for (uint32_t attempt = 0; wh_load_u32_relaxed(a.open) != 0; wh_backoff(attempt++)) {
        range r;
        while (a.queue->pop(r)) {
            do_range(a, arena, r);
            wh_fetch_sub_u32_relaxed(a.open, 1);
            attempt = 0;
        }
    }
}
WH_KERNEL(end, args, a) { /* one thread: all memory goes back */
    a.queue->~queue();
}
/* cpp] */

static int must(wh_status status) {
    if (status != WH_OK) {
        std::printf("%s\n%s\n", wh_status_text(status), wh_last_error_text());
    }
    return status == WH_OK;
}

static int is_right(wh_device *device, const wh::heap &heap) {
    uint32_t primes = 0;
    void *queue = nullptr, *words = nullptr;
    args a;
    const wh_launch one = wh_grid(device, 1, 1), all = wh_grid(device, 4, 64);
    a.heap = heap.ref();
    if (!must(wh_device_alloc(device, &queue, sizeof *a.queue)) ||
        !must(wh_device_alloc(device, &words, 512)) ||
        !must(wh_device_set(device, words, 0, 512))) {
        return 0;
    }
    a.queue = static_cast<wh::queue<range> *>(queue);
    a.open = static_cast<uint32_t *>(words);
    a.primes = a.open + 64;
    if (!must(begin(&one, &a)) || !must(count(&all, &a)) || !must(end(&one, &a)) ||
        !must(wh_device_copy_out(device, &primes, a.primes, sizeof primes))) {
        return 0;
    }
    (void)wh_device_free(device, queue);
    (void)wh_device_free(device, words);
    std::printf("%u primes below %u\n", primes, NUMBERS);
    return primes == 2262;
}

int main(int argc, char **argv) {
    try {
        wh::device device(argc > 1 ? argv[1] : WH_TARGET_NAME);
        wh::heap heap(wh::heap_options(64 << 20).set_device(device));
        const int right = is_right(device.get(), heap);
        const uint64_t left = heap.stats().live_blocks;
        std::printf("%s, %d blocks left\n", right ? "right" : "wrong", static_cast<int>(left));
        return right && left == 0 ? 0 : 1;
    } catch (const wh::error &e) {
        std::printf("%s\n", e.what());
        return e.code() == WH_NO_DEVICE ? 77 : 1;
    }
}
