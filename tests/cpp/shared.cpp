/* shared.cpp: stacks and queues that all lanes of a grid push to and pop from: nothing is lost,
 * nothing comes twice, and a queue keeps the order of each lane; in heaps with room and in full
 * ones, also where loads return old values. */
#include "cpp/cpp_test.hpp"

#include <utility>

namespace {

enum { LANES = 48, CALLS = 40 };

/* More than a word, and plain data: whoever reads it too early sees a half. */
struct item {
    uint64_t id, check;
    item() : id(0), check(1) {
    }
    explicit item(uint64_t v) : id(v), check(v * 3 + 1) {
    }
};

template <class Container> struct shared_args {
    wh::heap_ref heap;
    uint32_t *wrong;
    uint64_t seed;
    Container *container;
    uint32_t *taken;   /* of each item: lane * CALLS + i */
    uint32_t *pushed;  /* the same */
    uint32_t *refused; /* pushes that found no memory, in all */
    uint32_t keeps_order, has_room;
};

template <class Container> void take_note(const shared_args<Container> &a, const item &x) {
    CHECK(x.check == x.id * 3 + 1 && x.id < LANES * CALLS);
    if (x.id < LANES * CALLS) {
        CHECK(wh_fetch_add_u32_relaxed(&a.taken[x.id], 1) == 0);
    }
}

WH_KERNEL_TEMPLATE((class Container), make_shared, shared_args<Container>, a) {
    ::new (static_cast<void *>(a.container)) Container(a.heap);
}
WH_KERNEL_TEMPLATE((class Container), play_shared, shared_args<Container>, a) {
    const uint64_t t = wh_thread_id();
    uint64_t random = a.seed * 1000 + t;
    int64_t last[LANES]; /* of each lane, what came last from it */
    item x;
    for (uint32_t i = 0; i < LANES; i++) {
        last[i] = -1;
    }
    /* Segments have had other owners (P2 of hpp/node_pool.hpp). */
    for (uint32_t n = 48; a.has_room != 0 && t % 2 == 0 && n <= 64; n += 16) {
        item *before = wh::make_array<item>(a.heap, n);
        CHECK(before != nullptr);
        wh::destroy_array(a.heap, before, n);
    }
    for (uint32_t i = 0; i < CALLS; i++) {
        const uint64_t id = t * CALLS + i;
        if (next_random(&random) % 8 < (a.has_room != 0 ? 4u : 6u)) {
            if (a.container->push(item(id))) {
                wh_store_u32_relaxed(&a.pushed[id], 1);
            } else {
                CHECK(a.has_room == 0);
                wh_add_u32_relaxed(a.refused, 1);
            }
        } else if (a.container->pop(x)) {
            take_note(a, x);
            if (a.keeps_order != 0 && x.id < LANES * CALLS) {
                const int64_t number = static_cast<int64_t>(x.id % CALLS);
                CHECK(number > last[x.id / CALLS]);
                last[x.id / CALLS] = number;
            }
        }
    }
}
/* A few lanes take out two items and put two others in, again and again: nodes come back soon, to
 * lanes that have seen them before. An item says which lane it is of, and which one of that lane.
 */
enum { TURNERS = 5, TURNS = 60, ITEMS = 3 };

WH_KERNEL_TEMPLATE((class Container), turn_shared, shared_args<Container>, a) {
    const uint64_t mine = wh_thread_id() << 32;
    uint64_t next = a.seed, last[TURNERS + 1];
    item x;
    for (uint32_t i = 0; i <= TURNERS; i++) {
        last[i] = 0;
    }
    for (uint32_t i = 0; i < TURNS; i++) {
        uint32_t n = 0;
        for (; n < 2 && a.container->pop(x); n++) {
            const uint64_t lane = x.id >> 32, number = x.id & 0x7fffffff;
            CHECK(x.check == x.id * 3 + 1 && lane <= TURNERS);
            CHECK(a.keeps_order == 0 || number > last[lane]);
            last[lane] = number;
        }
        for (; n > 0; n--) {
            CHECK(a.container->push(item(mine | ++next)));
        }
    }
}
WH_KERNEL_TEMPLATE((class Container), begin_turns, shared_args<Container>, a) {
    ::new (static_cast<void *>(a.container)) Container(a.heap);
    for (uint64_t i = 1; i <= ITEMS; i++) {
        CHECK(a.container->push(item(static_cast<uint64_t>(TURNERS) << 32 | i)));
    }
}
WH_KERNEL_TEMPLATE((class Container), end_turns, shared_args<Container>, a) {
    item x;
    uint32_t n = 0;
    while (n <= ITEMS && a.container->pop(x)) {
        n++;
    }
    CHECK(n == ITEMS);
    a.container->~Container();
}

/* What is left, by one lane: all that was pushed has been taken then. Half of the time clear ends
 * some of it. */
WH_KERNEL_TEMPLATE((class Container), empty_shared, shared_args<Container>, a) {
    item x;
    uint32_t most = a.seed % 2 == 0 ? ~0u : 10;
    while (most-- > 0 && a.container->pop(x)) {
        take_note(a, x);
    }
    if (a.seed % 2 == 0) {
        for (uint32_t i = 0; i < LANES * CALLS; i++) {
            CHECK(a.taken[i] == a.pushed[i]);
        }
        CHECK(a.container->empty());
    }
    a.container->clear();
    CHECK(a.container->empty() && !a.container->pop(x));
    CHECK(a.has_room == 0 || (a.container->push(item(5)) && a.container->pop(x) && x.id == 5));
    a.container->~Container();
}

template <class Container>
uint32_t play(uint64_t seed, uint64_t bytes, uint32_t weak, bool has_room, bool keeps_order) {
    place p(seed, bytes, weak);
    shared_args<Container> a;
    a.heap = p.ref();
    a.wrong = p.wrong;
    a.seed = seed;
    a.has_room = has_room;
    a.keeps_order = keeps_order;
    a.container = static_cast<Container *>(take(p.device.get(), sizeof(Container)));
    a.taken = static_cast<uint32_t *>(take(p.device.get(), LANES * CALLS * sizeof(uint32_t)));
    a.pushed = static_cast<uint32_t *>(take(p.device.get(), LANES * CALLS * sizeof(uint32_t)));
    a.refused = static_cast<uint32_t *>(take(p.device.get(), 256));
    if (seed % 3 == 0) { /* made on the host */
        const Container on_host(a.heap);
        assert_int_equal(wh_device_copy_in(p.device.get(), a.container, &on_host, sizeof on_host),
                         WH_OK);
    } else {
        p.run(make_shared<Container>, a, 1, 1);
    }
    /* All lanes of three blocks; few lanes more often meet at one node. */
    if (seed % 2 == 0) {
        p.run(play_shared<Container>, a, 3, LANES / 3);
    } else {
        p.run(play_shared<Container>, a, 3, 1);
    }
    p.run(empty_shared<Container>, a, 1, 1);
    p.close();
    return *a.refused;
}

template <class Container> void turns(uint64_t seed, uint32_t weak, bool keeps_order) {
    place p(seed, 2 << 20, weak);
    shared_args<Container> a = shared_args<Container>();
    a.heap = p.ref();
    a.wrong = p.wrong;
    a.keeps_order = keeps_order;
    a.container = static_cast<Container *>(take(p.device.get(), sizeof(Container)));
    p.run(begin_turns<Container>, a, 1, 1);
    for (uint32_t i = 0; i < 12; i++) {
        a.seed = 10 + i * 2 * TURNS; /* the first number of each lane in this launch */
        p.run(turn_shared<Container>, a, TURNERS, 1);
    }
    p.run(end_turns<Container>, a, 1, 1);
    p.close();
}

uint32_t weak_of(uint64_t seed) {
    static const uint32_t some[] = {WH_SIM_WEAK_NONE, WH_SIM_WEAK_GPU, WH_SIM_WEAK_FORMAL};
    return some[seed % 3];
}
template <class Container> void plays(bool keeps_order) {
    for (uint64_t seed = first_seed(); seed < first_seed() + 4 * n_seeds(); seed++) {
        assert_int_equal(play<Container>(seed, 8 << 20, weak_of(seed), true, keeps_order), 0);
    }
}
template <class Container> void plays_tight(bool keeps_order) {
    uint32_t refused = 0;
    uint64_t bytes = 0;
    const wh_heap_options none = wh_heap_options();
    assert_int_equal(wh_heap_min_bytes(&none, &bytes), WH_OK);
    for (uint64_t seed = first_seed(); seed < first_seed() + n_seeds(); seed++) {
        refused += play<Container>(2 * seed, bytes, 0, false, keeps_order);
    }
    assert_true(refused > 20);
}

/* An item that takes memory: a whole chunk of the smallest heap, so that it is soon full. */
struct heavy : item {
    uint64_t more[60];
    heavy() : item() {
    }
    heavy(const item &x) : item(x) { // NOLINT
        more[59] = x.id;
    }
};
struct heavy_stack : wh::stack<heavy> {
    using wh::stack<heavy>::stack;
    bool pop(item &x) {
        heavy h;
        const bool found = wh::stack<heavy>::pop(h);
        x = h;
        return found;
    }
};
struct heavy_queue : wh::queue<heavy> {
    using wh::queue<heavy>::queue;
    bool pop(item &x) {
        heavy h;
        const bool found = wh::queue<heavy>::pop(h);
        x = h;
        return found;
    }
};

/* All lanes of a grid need the first node, and then the next segments, at once. The heap has room
 * for the segments, not for one of each lane: no push fails. */
enum { AT_ONCE_BYTES = 128 << 10 };

WH_KERNEL(push_at_once, shared_args<heavy_stack>, a) {
    CHECK(a.container->push(item(wh_thread_id())));
}
WH_KERNEL(pop_all, shared_args<heavy_stack>, a) {
    item x;
    uint32_t n = 0;
    for (; a.container->pop(x); n++) {
        take_note(a, x);
    }
    CHECK(n == LANES);
    a.container->~heavy_stack();
}
void test_at_once(void **state) {
    (void)state;
    for (uint64_t seed = first_seed(); seed < first_seed() + 4 * n_seeds(); seed++) {
        place p(seed, AT_ONCE_BYTES, weak_of(seed));
        shared_args<heavy_stack> a = shared_args<heavy_stack>();
        a.heap = p.ref();
        a.wrong = p.wrong;
        a.container = static_cast<heavy_stack *>(take(p.device.get(), sizeof(heavy_stack)));
        a.taken = static_cast<uint32_t *>(take(p.device.get(), LANES * CALLS * sizeof(uint32_t)));
        p.run(make_shared<heavy_stack>, a, 1, 1);
        p.run(push_at_once, a, 3, LANES / 3);
        p.run(pop_all, a, 1, 1);
        p.close();
    }
}

/* The heap is full, and a lane pushes in vain. Who frees a block then, in which there is room for
 * the first segment, and pushes finds memory. Two nodes: the first segment of hostile builds. */
enum { PUSHES = 12, BLOCK_BYTES = 32 * (sizeof(heavy) + 16) };

struct freed_args {
    wh::heap_ref heap;
    uint32_t *wrong;
    uint64_t seed;
    heavy_stack *stack;
    void **blocks; /* the one to free, and a list of the others */
};
WH_KERNEL(fill_heap, freed_args, a) {
    ::new (static_cast<void *>(a.stack)) heavy_stack(a.heap);
    a.blocks[0] = wh_malloc(a.heap, BLOCK_BYTES);
    CHECK(a.blocks[0] != nullptr);
    for (size_t bytes = BLOCK_BYTES; bytes >= 16; bytes /= 2) {
        while (void *p = wh_malloc(a.heap, bytes)) {
            *static_cast<void **>(p) = a.blocks[1];
            a.blocks[1] = p;
        }
    }
}
WH_KERNEL(free_and_push, freed_args, a) {
    const uint64_t t = wh_thread_id();
    if (t == 0) {
        for (uint64_t i = 0; i < a.seed % 32; i++) {
            wh_backoff(0);
        }
        wh_free(a.heap, a.blocks[0]);
        CHECK(a.stack->push(item(t)));
    } else {
        for (uint32_t i = 0; i < PUSHES && !a.stack->push(item(t)); i++) {
        }
    }
}
WH_KERNEL(free_heap, freed_args, a) {
    a.stack->~heavy_stack();
    while (void *p = a.blocks[1]) {
        a.blocks[1] = *static_cast<void **>(p);
        wh_free(a.heap, p);
    }
}
void test_freed(void **state) {
    (void)state;
    for (uint64_t seed = first_seed(); seed < first_seed() + 64 * n_seeds(); seed++) {
        place p(seed, AT_ONCE_BYTES, weak_of(seed));
        freed_args a = freed_args();
        a.heap = p.ref();
        a.wrong = p.wrong;
        a.seed = seed;
        a.stack = static_cast<heavy_stack *>(take(p.device.get(), sizeof(heavy_stack)));
        a.blocks = static_cast<void **>(take(p.device.get(), 256));
        p.run(fill_heap, a, 1, 1);
        p.run(free_and_push, a, 2, 1);
        p.run(free_heap, a, 1, 1);
        p.close();
    }
}

void test_stack(void **state) {
    (void)state;
    plays<wh::stack<item>>(false);
}
void test_queue(void **state) {
    (void)state;
    plays<wh::queue<item>>(true);
}
void test_turns(void **state) {
    (void)state;
    for (uint64_t seed = first_seed(); seed < first_seed() + 6 * n_seeds(); seed++) {
        turns<wh::stack<item>>(seed, weak_of(seed), false);
        turns<wh::queue<item>>(seed, weak_of(seed), true);
    }
}
void test_full(void **state) {
    (void)state;
    plays_tight<heavy_stack>(false);
    plays_tight<heavy_queue>(true);
}

} // namespace

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stack), cmocka_unit_test(test_queue),   cmocka_unit_test(test_turns),
        cmocka_unit_test(test_full),  cmocka_unit_test(test_at_once), cmocka_unit_test(test_freed),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
