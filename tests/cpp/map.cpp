/* map.cpp: hash maps that all lanes of a grid insert into, assign to, find in and erase from. Of
 * its own keys each lane knows what must come out; of keys that all share, that items come and go
 * in turns. In heaps with room and in full ones, with hashes of which many are alike, and where
 * loads return old values. */
#include "cpp/cpp_test.hpp"

#include <map>

namespace {

enum { LANES = 48, CALLS = 60, SHARED = 12 };

/* All keys in eight places. */
struct bad_hash {
    uint32_t operator()(uint64_t bits) const {
        return static_cast<uint32_t>(bits) & 7;
    }
};
/* At both ends of the list, and in its middle. */
struct end_hash {
    uint32_t operator()(uint64_t bits) const {
        static const uint32_t some[] = {0, 0x7fffffff, 0x80000000, 0xffffffff};
        return some[bits & 3];
    }
};
using good_map = wh::hash_map<uint64_t, uint32_t>;
using bad_map = wh::hash_map<uint64_t, uint32_t, bad_hash>;
using ends_map = wh::hash_map<uint64_t, uint32_t, end_hash>;

template <class Map> struct map_args {
    wh::heap_ref heap;
    uint32_t *wrong;
    uint64_t seed;
    Map *map;
    int32_t *balance;  /* of each shared key: inserts less erases, of each lane */
    uint32_t *counts;  /* items of each lane's own keys */
    uint32_t *refused; /* inserts that found no memory, in all */
    uint32_t is_tight, keys, calls;
};

/* What is stored under a key says which key that is. */
uint32_t value_of(uint64_t key, uint64_t random) {
    return static_cast<uint32_t>(key * 1000 + random % 1000);
}
bool is_of(uint64_t key, uint32_t value) {
    return value / 1000 == static_cast<uint32_t>(key);
}

template <class Map>
void use_own(const map_args<Map> &a, std::map<uint64_t, uint32_t> &model, uint64_t key,
             uint64_t random) {
    uint32_t value = 0;
    const uint32_t mine = value_of(key, random >> 20);
    const auto known = model.find(key);
    const bool there = known != model.end();
    switch (random % 6) {
    case 0:
        CHECK(a.map->erase(key) == there);
        model.erase(key);
        break;
    case 1:
        CHECK(a.map->find(key, value) == there && (!there || value == known->second));
        break;
    default: {
        const bool assigns = random % 6 >= 4;
        const wh::insert_result r =
            assigns ? a.map->insert_or_assign(key, mine) : a.map->insert(key, mine);
        CHECK(r.success() + r.existing() + r.failed() == 1);
        CHECK(r.failed() ? assigns || !there : r.existing() == there);
        if (r.failed()) {
            CHECK(a.is_tight != 0);
            wh_add_u32_relaxed(a.refused, 1);
            CHECK(a.map->find(key, value) == there && (!there || value == known->second));
        } else if (assigns || !there) {
            model[key] = mine;
        }
        break;
    }
    }
}
template <class Map> void use_shared(const map_args<Map> &a, uint64_t key, uint64_t random) {
    uint32_t value = 0;
    int32_t *mine = &a.balance[wh_thread_id() * SHARED + key];
    switch (random % 4) {
    case 0:
        *mine -= a.map->erase(key);
        break;
    case 1:
        CHECK(!a.map->find(key, value) || is_of(key, value));
        break;
    case 2:
        *mine += a.map->insert(key, value_of(key, random >> 20)).success();
        break;
    default:
        *mine += a.map->insert_or_assign(key, value_of(key, random >> 20)).success();
        break;
    }
}

/* One thread. All memory that a map's buckets may get looks as if there were links in it, to nodes
 * for which there is no memory. */
WH_KERNEL_TEMPLATE((class Map), litter, map_args<Map>, a) {
    const uint64_t junk = 0x3ffffff0;
    const size_t n = 2048;
    uint64_t *last = nullptr, *block;
    while ((block = static_cast<uint64_t *>(wh_malloc(a.heap, n * sizeof *block))) != nullptr) {
        for (size_t i = 1; i < n; i++) {
            wh_store_u64_relaxed(&block[i], junk);
        }
        block[0] = reinterpret_cast<uint64_t>(last);
        last = block;
    }
    while (last != nullptr) {
        block = last;
        last = reinterpret_cast<uint64_t *>(block[0]);
        wh_store_u64_relaxed(&block[0], junk);
        wh_free(a.heap, block);
    }
}
WH_KERNEL_TEMPLATE((class Map), make_map, map_args<Map>, a) {
    ::new (static_cast<void *>(a.map)) Map(a.heap);
}
WH_KERNEL_TEMPLATE((class Map), play_map, map_args<Map>, a) {
    const uint64_t t = wh_thread_id();
    uint64_t random = a.seed * 1000 + t;
    std::map<uint64_t, uint32_t> model;
    for (uint32_t i = 0; i < a.calls; i++) {
        const uint64_t r = next_random(&random);
        if (r % 3 == 0) {
            use_shared(a, r / 3 % SHARED, r >> 10);
        } else {
            use_own(a, model, SHARED + t * a.keys + r / 3 % a.keys, r >> 10);
        }
    }
    for (const auto &item : model) {
        uint32_t value = 0;
        CHECK(a.map->find(item.first, value) && value == item.second);
    }
    a.counts[t] = static_cast<uint32_t>(model.size());
}
/* All lanes bring new keys at the same time, so that the map grows all the time and many split its
 * buckets. Each finds what it has put in, and none of what it has not. In a heap that becomes full
 * meanwhile they find what went in. */
WH_KERNEL_TEMPLATE((class Map), grow_map, map_args<Map>, a) {
    const uint64_t t = wh_thread_id();
    uint32_t n = 0, value = 0;
    bool full = false;
    for (uint64_t k = 0; k < a.calls && !full; k++) {
        const uint64_t key = SHARED + t * a.keys + k;
        const wh::insert_result r = a.map->insert(key, value_of(key, k));
        CHECK(r.success() || (r.failed() && a.is_tight != 0));
        full = r.failed();
        n += !full;
        CHECK(a.map->contains(SHARED + t * a.keys + k / 2) == (n > k / 2));
        CHECK(!a.map->contains(key + 1) || k + 1 == a.keys);
    }
    for (uint64_t k = 0; k < n; k++) {
        const uint64_t key = SHARED + t * a.keys + k;
        CHECK(a.map->find(key, value) && value == value_of(key, k));
    }
    a.counts[t] = n;
    wh_add_u32_relaxed(a.refused, full);
}

WH_KERNEL_TEMPLATE((class Map), end_map, map_args<Map>, a) { /* one thread */
    size_t n = 0, visited = 0;
    for (uint64_t key = 0; key < SHARED; key++) {
        int32_t there = 0;
        for (uint32_t t = 0; t < LANES; t++) {
            there += a.balance[t * SHARED + key];
        }
        CHECK(there == static_cast<int32_t>(a.map->contains(key)));
        n += a.map->contains(key);
    }
    for (uint32_t t = 0; t < LANES; t++) {
        n += a.counts[t];
    }
    CHECK(a.map->size() == n);
    a.map->for_each([&](uint64_t key, uint32_t value) {
        visited++;
        CHECK(is_of(key, value));
    });
    CHECK(visited == n);
    a.map->clear();
    CHECK(a.map->size() == 0 && !a.map->contains(SHARED + 1));
    if (a.is_tight == 0) {
        uint32_t value = 0;
        CHECK(a.map->insert(1, 2).success() && a.map->insert(1, 3).existing());
        CHECK(a.map->find(1, value) && value == 2 && a.map->insert_or_assign(1, 3).existing());
        CHECK(a.map->find(1, value) && value == 3 && a.map->size() == 1);
        CHECK(a.map->erase(1) && !a.map->erase(1) && a.map->insert_or_assign(1, 4).success());
    }
    a.map->~Map();
}

template <class Map>
uint32_t play(uint64_t seed, uint64_t bytes, uint32_t weak, bool is_tight, uint32_t lanes,
              bool grows = false) {
    place p(seed, bytes, weak);
    map_args<Map> a;
    a.heap = p.ref();
    a.wrong = p.wrong;
    a.seed = seed;
    a.is_tight = is_tight;
    a.keys = is_tight ? 400 : 20;
    a.calls = is_tight ? 200 : (lanes < LANES ? 150 : 60);
    if (grows) {
        a.calls = a.keys = is_tight ? 1000 : 40;
    }
    a.map = static_cast<Map *>(take(p.device.get(), sizeof(Map)));
    a.balance = static_cast<int32_t *>(take(p.device.get(), LANES * SHARED * sizeof(int32_t)));
    a.counts = static_cast<uint32_t *>(take(p.device.get(), LANES * sizeof(uint32_t)));
    a.refused = static_cast<uint32_t *>(take(p.device.get(), 256));
    if (grows) {
        p.run(litter<Map>, a, 1, 1);
    }
    p.run(make_map<Map>, a, 1, 1);
    p.run(grows ? grow_map<Map> : play_map<Map>, a, lanes < LANES ? lanes : 3,
          lanes < LANES ? 1 : LANES / 3);
    p.run(end_map<Map>, a, 1, 1);
    p.close();
    return *a.refused;
}

uint32_t weak_of(uint64_t seed) {
    static const uint32_t some[] = {WH_SIM_WEAK_NONE, WH_SIM_WEAK_GPU, WH_SIM_WEAK_FORMAL};
    return some[seed % 3];
}
void test_many(void **state) {
    (void)state;
    for (uint64_t seed = first_seed(); seed < first_seed() + 2 * n_seeds(); seed++) {
        play<good_map>(seed, 8 << 20, weak_of(seed), false, LANES);
        play<bad_map>(seed, 8 << 20, 0, false, LANES);
    }
}
void test_few(void **state) {
    (void)state;
    for (uint64_t seed = first_seed(); seed < first_seed() + 32 * n_seeds(); seed++) {
        play<good_map>(seed, 2 << 20, weak_of(seed), false, 4);
        play<bad_map>(seed, 2 << 20, weak_of(seed), false, 4);
        play<ends_map>(seed, 2 << 20, weak_of(seed), false, 4);
    }
}
void test_growth(void **state) {
    (void)state;
    uint64_t bytes = 0;
    const wh_heap_options none = wh_heap_options();
    assert_int_equal(wh_heap_min_bytes(&none, &bytes), WH_OK);
    for (uint64_t seed = first_seed(); seed < first_seed() + 4 * n_seeds(); seed++) {
        play<good_map>(seed, bytes + (1 << 20), weak_of(seed), false, LANES, true);
    }
}
void test_full(void **state) {
    (void)state;
    uint32_t refused = 0;
    uint64_t bytes = 0;
    const wh_heap_options none = wh_heap_options();
    assert_int_equal(wh_heap_min_bytes(&none, &bytes), WH_OK);
    for (uint64_t seed = first_seed(); seed < first_seed() + (n_seeds() + 1) / 2; seed++) {
        refused += play<good_map>(seed, bytes, 0, true, LANES);
    }
    assert_true(refused > 20);
    refused = 0;
    for (uint64_t seed = first_seed(); seed < first_seed() + (n_seeds() + 1) / 2; seed++) {
        refused += play<good_map>(seed, bytes, 0, true, LANES, true);
    }
    assert_true(refused > 20);
}

/* An item of each of many lanes at once: there are many times more than buckets. There are enough
 * when one thread has brought as many. */
enum { CROWD = 512 };
struct crowd_args {
    wh::heap_ref heap;
    uint32_t *wrong;
    wh::hash_map<uint32_t, uint32_t> *map;
};
WH_KERNEL(make_crowd, crowd_args, a) {
    ::new (static_cast<void *>(a.map)) wh::hash_map<uint32_t, uint32_t>(a.heap);
}
WH_KERNEL(bring_crowd, crowd_args, a) {
    const uint32_t t = static_cast<uint32_t>(wh_thread_id());
    uint32_t value = 0;
    CHECK(a.map->insert(t, t + 1).success() && a.map->find(t, value) && value == t + 1);
}
WH_KERNEL(find_crowd, crowd_args, a) {
    const uint32_t t = static_cast<uint32_t>(wh_thread_id());
    uint32_t value = 0;
    CHECK(a.map->find(t, value) && value == t + 1 && !a.map->contains(t + CROWD));
}
WH_KERNEL(end_crowd, crowd_args, a) {
    CHECK(a.map->size() == CROWD);
    for (uint32_t i = CROWD; i < 2 * CROWD; i++) { /* each splits a bucket, if others have not */
        CHECK(a.map->insert(i, i + 1).success());
    }
    CHECK(a.map->size() == 2 * CROWD && a.map->bucket_count() >= CROWD / 2);
    a.map->~hash_map();
}
void test_crowd(void **state) {
    (void)state;
    for (uint64_t seed = first_seed(); seed < first_seed() + n_seeds(); seed++) {
        place p(seed, 8 << 20, weak_of(seed));
        crowd_args a;
        a.heap = p.ref();
        a.wrong = p.wrong;
        a.map = static_cast<decltype(a.map)>(take(p.device.get(), sizeof *a.map));
        p.run(make_crowd, a, 1, 1);
        p.run(bring_crowd, a, 4, CROWD / 4);
        p.run(find_crowd, a, 4, CROWD / 4);
        p.run(end_crowd, a, 1, 1);
        p.close();
    }
}

/* One key to which all lanes assign: of the values of a lane nobody finds an older one after a
 * newer one, and the key is new to one lane alone. */
struct latest_args {
    wh::heap_ref heap;
    uint32_t *wrong;
    uint64_t seed;
    wh::hash_map<uint32_t, uint32_t> *map;
    uint32_t *new_to; /* how many lanes */
};
WH_KERNEL(make_latest, latest_args, a) {
    ::new (static_cast<void *>(a.map)) wh::hash_map<uint32_t, uint32_t>(a.heap);
}
WH_KERNEL(play_latest, latest_args, a) {
    const uint32_t t = static_cast<uint32_t>(wh_thread_id());
    uint64_t random = a.seed * 1000 + t;
    uint32_t seen[LANES] = {0}, value = 0;
    for (uint32_t i = 1; i <= CALLS; i++) {
        if (next_random(&random) % 2 == 0) {
            const wh::insert_result r = a.map->insert_or_assign(7, t << 16 | i);
            CHECK(!r.failed());
            wh_add_u32_relaxed(a.new_to, r.success());
            seen[t] = i;
        }
        if (a.map->find(7, value)) {
            CHECK((value & 0xffff) >= seen[value >> 16]);
            seen[value >> 16] = value & 0xffff;
        } else {
            CHECK(seen[t] == 0);
        }
    }
}
WH_KERNEL(end_latest, latest_args, a) {
    CHECK(*a.new_to == 1 && a.map->size() == 1);
    a.map->~hash_map();
}
void test_latest(void **state) {
    (void)state;
    for (uint64_t seed = first_seed(); seed < first_seed() + 2 * n_seeds(); seed++) {
        place p(seed, 8 << 20, weak_of(seed));
        latest_args a;
        a.heap = p.ref();
        a.wrong = p.wrong;
        a.seed = seed;
        a.map = static_cast<decltype(a.map)>(take(p.device.get(), sizeof *a.map));
        a.new_to = static_cast<uint32_t *>(take(p.device.get(), 256));
        p.run(make_latest, a, 1, 1);
        p.run(play_latest, a, 3, LANES / 3);
        p.run(end_latest, a, 1, 1);
        p.close();
    }
}

/* Keys are their bits. */
struct padded {
    uint32_t a;
    uint8_t b;
};
struct point {
    float x, y;
};
struct counted {
    uint32_t a;
    uint16_t b, c;
};
} // namespace
template <> struct wh::has_no_padding<point> { static constexpr bool value = true; };
namespace {
#if WH_HAS_UNIQUE_BITS_
static_assert(!wh::has_no_padding<padded>::value, "a hash_map of these does not compile");
#endif
static_assert(wh::has_no_padding<counted>::value && wh::has_no_padding<double>::value &&
                  wh::has_no_padding<void *>::value,
              "of these it does");

struct key_args {
    wh::heap_ref heap;
    uint32_t *wrong;
};
WH_KERNEL(use_keys, key_args, a) {
    wh::hash_map<counted, padded> structs(a.heap);
    wh::hash_map<point, int> points(a.heap);
    wh::hash_set<double> numbers(a.heap);
    padded found = {0, 0};
    int n = 0;
    CHECK(structs.insert({1, 2, 3}, {4, 5}).success() && !structs.contains({1, 2, 4}));
    CHECK(structs.find({1, 2, 3}, found) && found.a == 4 && found.b == 5);
    CHECK(points.insert({1, 0}, 6).success() && points.find({1, 0}, n) && n == 6);
    CHECK(!points.contains({1, -0.0f}));
    CHECK(numbers.insert(0.0).success() && !numbers.contains(-0.0) && numbers.contains(0.0));
}
void test_keys(void **state) {
    (void)state;
    place p(first_seed(), 8 << 20);
    key_args a;
    a.heap = p.ref();
    a.wrong = p.wrong;
    p.run(use_keys, a, 2, 16);
    p.close();
}

struct set_args {
    wh::heap_ref heap;
    uint32_t *wrong;
    wh::hash_set<uint32_t> *set;
    uint32_t *first; /* how many lanes were the first with their number */
};
WH_KERNEL(make_set, set_args, a) {
    ::new (static_cast<void *>(a.set)) wh::hash_set<uint32_t>(a.heap);
}
WH_KERNEL(fill_set, set_args, a) {
    const uint32_t t = static_cast<uint32_t>(wh_thread_id());
    for (uint32_t i = 0; i < 20; i++) {
        if (a.set->insert((t / 4) * 20 + i).success()) {
            wh_add_u32_relaxed(a.first, 1);
        }
    }
}
WH_KERNEL(end_set, set_args, a) {
    uint64_t sum = 0;
    CHECK(*a.first == LANES / 4 * 20 && a.set->size() == *a.first);
    a.set->for_each([&sum](uint32_t key) { sum += key; });
    CHECK(sum == static_cast<uint64_t>(*a.first) * (*a.first - 1) / 2);
    CHECK(a.set->erase(7) && !a.set->contains(7) && a.set->contains(8));
    a.set->~hash_set();
}
void test_set(void **state) {
    (void)state;
    for (uint64_t seed = first_seed(); seed < first_seed() + n_seeds(); seed++) {
        place p(seed, 8 << 20, weak_of(seed));
        set_args a;
        a.heap = p.ref();
        a.wrong = p.wrong;
        a.set = static_cast<wh::hash_set<uint32_t> *>(take(p.device.get(), sizeof *a.set));
        a.first = static_cast<uint32_t *>(take(p.device.get(), 256));
        p.run(make_set, a, 1, 1);
        p.run(fill_set, a, 3, LANES / 3);
        p.run(end_set, a, 1, 1);
        p.close();
    }
}

} // namespace

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many),  cmocka_unit_test(test_few),  cmocka_unit_test(test_growth),
        cmocka_unit_test(test_crowd), cmocka_unit_test(test_full), cmocka_unit_test(test_latest),
        cmocka_unit_test(test_set),   cmocka_unit_test(test_keys),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
