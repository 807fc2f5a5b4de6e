/* 22_hash_map.cpp: numbers that are the sum of two cubes in two ways, as 1729 is. Each thread has a
 * pair of numbers, and puts it into one map under the sum of its cubes; the map grows in the
 * kernel. The same file builds for the GPU (nvcc -x cu) and for the simulated device (any C++14
 * compiler).
 *
 *     22_hash_map [DEVICE] */
#define WH_KERNEL_THREADS 128
#include <cstdio>
#include <warpheap/warpheap.hpp>

#define MOST 64u /* numbers of a pair are below that */

/* [cpp map */
struct pair {
    uint32_t a, b;
};
struct args {
    wh::heap_ref heap;
    wh::hash_map<uint32_t, pair> *pairs; /* these lie in memory of the device */
    wh::hash_set<uint32_t> *twice;
    uint32_t *words; /* results, below */
};

WH_KERNEL(add_pairs, args, a) {
    const uint32_t t = static_cast<uint32_t>(wh_thread_id());
    const pair mine = {t / MOST, t % MOST};
    if (mine.a == 0 || mine.a > mine.b) {
        return;
    }
    const uint32_t sum = mine.a * mine.a * mine.a + mine.b * mine.b * mine.b;
    const wh::insert_result r = a.pairs->insert(sum, mine);
    if (r.failed()) {
        wh_add_u32_relaxed(&a.words[0], 1); /* the heap is full */
    } else if (r.existing() && a.twice->insert(sum).success()) {
        wh_add_u32_relaxed(&a.words[1], 1); /* nobody else has found this sum */
    }
}
WH_KERNEL(look, args, a) {
    pair p = {0, 0};
    if (a.pairs->find(1729, p)) {
        a.words[2] = p.a;
        a.words[3] = p.b;
    }
    a.words[4] = a.pairs->insert_or_assign(1729, {0, 0}).existing() && a.pairs->erase(1729) &&
                 !a.pairs->contains(1729);
    a.words[5] = static_cast<uint32_t>(a.twice->size());
}
/* cpp] */

WH_KERNEL(begin, args, a) {
    ::new (static_cast<void *>(a.pairs)) wh::hash_map<uint32_t, pair>(a.heap);
    ::new (static_cast<void *>(a.twice)) wh::hash_set<uint32_t>(a.heap);
}
WH_KERNEL(end, args, a) {
    a.pairs->~hash_map();
    a.twice->~hash_set();
}

static int must(wh_status status) {
    if (status != WH_OK) {
        std::printf("%s\n%s\n", wh_status_text(status), wh_last_error_text());
    }
    return status == WH_OK;
}

/* How many sums come up more than once. */
static uint32_t count_slowly() {
    static unsigned char ways[2 * MOST * MOST * MOST];
    uint32_t n = 0;
    for (uint32_t b = 1; b < MOST; b++) {
        for (uint32_t a = 1; a <= b; a++) {
            n += ways[a * a * a + b * b * b]++ == 1;
        }
    }
    return n;
}

static int is_right(wh_device *device, const wh::heap &heap) {
    uint32_t words[6] = {0, 0, 0, 0, 0, 0};
    void *pairs = nullptr, *twice = nullptr, *results = nullptr;
    args a;
    const wh_launch one = wh_grid(device, 1, 1), all = wh_grid(device, MOST * MOST / 128, 128);
    a.heap = heap.ref();
    if (!must(wh_device_alloc(device, &pairs, sizeof *a.pairs)) ||
        !must(wh_device_alloc(device, &twice, sizeof *a.twice)) ||
        !must(wh_device_alloc(device, &results, sizeof words)) ||
        !must(wh_device_set(device, results, 0, sizeof words))) {
        return 0;
    }
    a.pairs = static_cast<wh::hash_map<uint32_t, pair> *>(pairs);
    a.twice = static_cast<wh::hash_set<uint32_t> *>(twice);
    a.words = static_cast<uint32_t *>(results);
    if (!must(begin(&one, &a)) || !must(add_pairs(&all, &a)) || !must(look(&one, &a)) ||
        !must(end(&one, &a)) || !must(wh_device_copy_out(device, words, results, sizeof words))) {
        return 0;
    }
    (void)wh_device_free(device, pairs);
    (void)wh_device_free(device, twice);
    (void)wh_device_free(device, results);
    std::printf("%u sums come twice; 1729 = %u^3 + %u^3\n", words[1], words[2], words[3]);
    return words[0] == 0 && words[1] == count_slowly() && words[5] == words[1] && words[4] != 0 &&
           words[2] * words[2] * words[2] + words[3] * words[3] * words[3] == 1729;
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
