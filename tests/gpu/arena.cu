// arena.cu: random mallocs, marks, rewinds and closes in arenas of all scopes on a GPU, by the
// kernels of tests/arena/players.h. What is live must hold what was written, and in the end the
// heap must be empty. Exit status 77: there is no GPU.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "../arena/players.h"
#include "check.h"

enum { ROUNDS = 6, LAUNCHES = 8 };

static std::uint64_t random_state;

static std::uint64_t below(std::uint64_t n) {
    std::uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 31) * 0x7fb5d329728ea185u;
    z = (z ^ z >> 27) * 0x81dadef4bc2dd44du;
    return (z ^ z >> 33) % n;
}

template <class T> static T *shared(std::size_t n) {
    void *p = nullptr;
    CHECK(cudaMallocManaged(&p, n * sizeof(T)) == cudaSuccess);
    CHECK(cudaMemset(p, 0, n * sizeof(T)) == cudaSuccess);
    return static_cast<T *>(p);
}

// A block that is live, and what it holds.
struct live {
    void *p;
    request r;
};

struct verify_args {
    const live *all;
    unsigned n;
    std::uint32_t *wrong;
};

WH_KERNEL(verify, verify_args, a) {
    const std::uint64_t i = wh_thread_id();
    if (i < a.n && !is_filled(a.all[i].p, a.all[i].r)) {
        wh_add_u32_relaxed(a.wrong, 1);
    }
}

// What one thread has of its arena: a rewind takes off the end.
struct belongings {
    std::vector<live> blocks;
    std::vector<std::size_t> marks;
};

struct game {
    wh_heap *heap;
    wh_launch launch;
    play_args a;
    request *asks;
    std::uint32_t *ops;
    live *all;
    unsigned threads, nulls;
    bool is_tight;
    std::vector<belongings> of;
};

static unsigned owner_of(const game &g, unsigned i) {
    const unsigned in = i % g.launch.threads, block = i - in;
    switch (g.a.scope) {
    case LANE:
        return i;
    case BLOCK:
        return block;
    case WARP:
        return block + in / 32 * 32;
    default:
        return block + in / 32 * 32 + in % 2;
    }
}

static void apply(belongings &b, std::uint32_t op) {
    if ((op & 255) == OP_MARK) {
        b.marks.push_back(b.blocks.size());
    } else if ((op & 255) == OP_REWIND) {
        b.marks.resize((op >> 8) + 1);
        b.blocks.resize(b.marks.back());
    } else if (op == OP_CLOSE) {
        b.marks.clear();
        b.blocks.clear();
    }
}

// Operations depend on the number of marks alone, which is known before the launch.
static void write_script(game &g) {
    static const std::uint32_t aligns[] = {0, 0, 0, 32, 1024};
    std::vector<std::size_t> marks(g.threads);
    for (unsigned i = 0; i < g.threads; i++) {
        marks[i] = g.of[i].marks.size();
    }
    for (unsigned row = 0; row < ROUNDS; row++) {
        for (unsigned k = 0; k < MALLOCS; k++) {
            const std::uint32_t align = aligns[below(5)];
            for (unsigned i = 0; i < g.threads; i++) {
                request &r = g.asks[(row * MALLOCS + k) * g.threads + i];
                const unsigned most = below(30) == 0 ? 6000 : 200;
                r.size = below(4) == 0 ? 0 : below(most);
                r.align = align;
                r.tag = static_cast<std::uint32_t>(below(1u << 31));
            }
        }
        for (unsigned i = 0; i < g.threads; i++) {
            const unsigned owner = owner_of(g, i);
            std::uint32_t &op = g.ops[row * g.threads + i];
            if (owner != i) {
                op = g.ops[row * g.threads + owner];
                continue;
            }
            op = static_cast<std::uint32_t>(below(OP_KINDS));
            if (op == OP_MARK && marks[i] < MOST_MARKS) {
                marks[i]++;
            } else if (op == OP_REWIND && marks[i] != 0) {
                const std::size_t to = below(marks[i]);
                op |= static_cast<std::uint32_t>(to) << 8;
                marks[i] = to + 1;
            } else if (op == OP_CLOSE && below(3) == 0) {
                marks[i] = 0;
            } else {
                op = OP_NONE;
            }
        }
    }
}

// What the launch has given, and taken back.
static void collect(game &g) {
    for (unsigned row = 0; row < ROUNDS && g.a.rounds != 0; row++) {
        for (unsigned i = 0; i < g.threads; i++) {
            for (unsigned k = 0; k < MALLOCS; k++) {
                const unsigned at = (row * MALLOCS + k) * g.threads + i;
                if (g.a.got[at] != nullptr) {
                    g.of[i].blocks.push_back({g.a.got[at], g.asks[at]});
                } else {
                    g.nulls += g.asks[at].size != 0;
                }
            }
            apply(g.of[i], g.ops[row * g.threads + i]);
        }
    }
}

static void check(game &g) {
    unsigned n = 0;
    collect(g);
    for (const belongings &b : g.of) {
        for (const live &l : b.blocks) {
            g.all[n++] = l;
        }
    }
    if (n != 0) {
        const wh_launch l = wh_grid(g.launch.device, (n + 255) / 256, 256);
        const verify_args v = {g.all, n, g.a.wrong};
        CHECK(verify(&l, &v) == WH_OK);
    }
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(*g.a.wrong == 0);
    CHECK(g.is_tight || g.nulls == 0);
    CHECK(wh_heap_check(g.heap, nullptr) == WH_OK);
}

static void launch(game &g) {
    CHECK((g.a.scope == BLOCK ? play_block(&g.launch, &g.a) : play_own(&g.launch, &g.a)) == WH_OK);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    check(g);
}

static void play(wh_device *device, scope of, bool is_tight) {
    game g = {};
    wh_heap_options o = {};
    wh_stats stats = {};
    stats.struct_bytes = sizeof stats;
    o.device = device;
    CHECK(wh_heap_min_bytes(&o, &o.bytes) == WH_OK);
    o.bytes += is_tight ? 256u << 10 : 256u << 20;
    CHECK(wh_heap_create(&g.heap, &o) == WH_OK);
    CHECK(wh_heap_handle(g.heap, &g.a.heap) == WH_OK);
    g.launch = wh_grid(device, of == BLOCK ? 24 : 16, of == BLOCK ? 256 : 200);
    g.threads = g.launch.blocks * g.launch.threads;
    g.is_tight = is_tight;
    g.of.resize(g.threads);
    const std::size_t asks = std::size_t(ROUNDS) * MALLOCS * g.threads;
    g.a.scope = of;
    g.a.players = shared<player>(g.threads);
    g.a.blocks = shared<wh_block_arena>(g.launch.blocks);
    g.a.asks = g.asks = shared<request>(asks);
    g.a.ops = g.ops = shared<std::uint32_t>(std::size_t(ROUNDS) * g.threads);
    g.a.got = shared<void *>(asks);
    g.a.wrong = shared<std::uint32_t>(1);
    g.all = shared<live>(asks * LAUNCHES);
    g.a.rounds = ROUNDS;
    for (unsigned turn = 0; turn < LAUNCHES && failures == 0; turn++) {
        g.a.begins = turn == 0;
        write_script(g);
        launch(g);
    }
    for (belongings &b : g.of) {
        b.blocks.clear();
    }
    g.a.begins = g.a.rounds = 0;
    g.a.ends = 1;
    launch(g);
    CHECK(wh_heap_get_stats(g.heap, &stats) == WH_OK);
    CHECK(stats.live_blocks == 0 && stats.bad_frees == 0);
    CHECK(!is_tight || g.nulls != 0);
    CHECK(wh_heap_destroy(g.heap) == WH_OK);
    void *const arrays[] = {g.a.players, g.a.blocks, g.asks, g.ops, g.a.got, g.a.wrong, g.all};
    for (void *p : arrays) {
        CHECK(cudaFree(p) == cudaSuccess);
    }
}

int main() {
    wh_device *device = nullptr;
    if (wh_device_open(&device, "cuda", nullptr) != WH_OK) {
        std::printf("no GPU: %s\n", wh_last_error_text());
        return 77;
    }
    for (unsigned of = 0; of < N_SCOPES && failures == 0; of++) {
        for (unsigned seed = 0; seed < 4 && failures == 0; seed++) {
            random_state = seed * 97 + of;
            play(device, static_cast<scope>(of), seed % 2 != 0);
        }
        std::printf("scope %u: %s\n", of, failures == 0 ? "right" : "wrong");
    }
    wh_device_close(device);
    return failures != 0;
}
