/* tsan_message.c: under ThreadSanitizer, exactly the orders that device code asks for
 * keep plain accesses apart: the scheduler, the collectives and the fibers' reuse add
 * nothing, wh_syncwarp, wh_syncthreads and the ends of a launch add what they promise.
 *
 * Without arguments the program runs itself once per variant and seed and judges the
 * exit status; with `variant seed` it runs that one variant. In other builds it is
 * skipped (exit status 77). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "warpheap/simt.h"

#define RACE_STATUS 66
#define SKIPPED 77

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

typedef struct box {
    uint32_t flag;
    uint32_t count;
    uint32_t message[2]; /* plain */
    uint32_t out[2048];  /* plain, one per lane */
} box;

typedef struct box_args {
    box *b;
    uint32_t variant;
} box_args;

/* X(name, whether there is a race, blocks, threads) */
#define VARIANTS(X)                         \
    X(release_acquire, 0, 2, 1)             \
    X(relaxed_store, 1, 2, 1)               \
    X(relaxed_load, 1, 2, 1)                \
    X(relaxed_load_same_warp, 1, 1, 32)     \
    X(chain_by_rmw, 0, 3, 1)                \
    X(relaxed_rmw, 1, 3, 1)                 \
    X(min_is_acquire, 0, 2, 1)              \
    X(failed_cas_acquires, 0, 2, 1)         \
    X(failed_cas_does_not_release, 1, 2, 1) \
    X(ballot_orders_nothing, 1, 1, 32)      \
    X(shuffle_orders_nothing, 1, 1, 32)     \
    X(activemask_orders_nothing, 1, 1, 32)  \
    X(syncwarp, 0, 1, 32)                   \
    X(syncwarp_twice, 0, 1, 32)             \
    X(syncwarp_of_others, 1, 1, 32)         \
    X(after_syncwarp, 1, 1, 32)             \
    X(syncthreads, 0, 1, 96)                \
    X(after_syncthreads, 1, 1, 96)          \
    X(shared_after_barrier, 0, 3, 96)       \
    X(shared_without_barrier, 1, 1, 96)     \
    X(shared_is_used_again, 0, 250, 4)      \
    X(shared_cas_orders, 0, 1, 64)          \
    X(shared_cas_is_relaxed, 1, 1, 64)      \
    X(blocks_are_unordered, 1, 2, 32)       \
    X(launches_are_ordered, 0, 2, 40)       \
    X(one_stream_is_ordered, 0, 2, 40)      \
    X(default_stream_is_ordered, 0, 2, 40)  \
    X(streams_are_unordered, 1, 2, 40)      \
    X(failed_launch, 0, 1, 40)

enum {
#define VARIANT_ENUM_(name, race, blocks, threads) V_##name,
    VARIANTS(VARIANT_ENUM_)
#undef VARIANT_ENUM_
        N_VARIANTS
};

static const struct {
    const char *name;
    int race;
    uint32_t blocks, threads;
} variants[N_VARIANTS] = {
#define VARIANT_ROW_(name, race, blocks, threads) {#name, race, blocks, threads},
    VARIANTS(VARIANT_ROW_)
#undef VARIANT_ROW_
};

/* What each variant does: a function of the lane, by its number in the grid and in its warp, that
 * returns what the lane has read. */

/* Reads the message once the flag is 1. */
WH_FN uint32_t read_when_acquired(box *b) {
    for (uint32_t attempt = 0; wh_load_u32_acquire(&b->flag) == 0; attempt++) {
        wh_backoff(attempt);
    }
    return b->message[0];
}

WH_FN void send(box *b) {
    b->message[0] = 1;
    wh_store_u32_release(&b->flag, 1);
}

/* Lane `from` writes the message, lane `to` reads it. */
WH_FN void write_by(box *b, uint32_t me, uint32_t from) {
    if (me == from) {
        b->message[0] = 1;
    }
}

WH_FN uint32_t read_by(const box *b, uint32_t me, uint32_t to) {
    return me == to ? b->message[0] : 0;
}

WH_FN uint32_t release_acquire(box *b, uint32_t id, uint32_t lane) {
    (void)lane;
    if (id != 0) {
        return read_when_acquired(b);
    }
    send(b);
    return 0;
}

WH_FN uint32_t relaxed_store(box *b, uint32_t id, uint32_t lane) {
    (void)lane;
    if (id != 0) {
        return read_when_acquired(b);
    }
    b->message[0] = 1;
    wh_store_u32_relaxed(&b->flag, 1);
    return 0;
}

WH_FN uint32_t relaxed_load(box *b, uint32_t id, uint32_t lane) {
    (void)lane;
    if (id == 0) {
        send(b);
    } else if (id == 1) {
        while (wh_load_u32_relaxed(&b->flag) == 0) {
        }
        return b->message[0];
    }
    return 0;
}

WH_FN uint32_t relaxed_load_same_warp(box *b, uint32_t id, uint32_t lane) {
    return relaxed_load(b, id, lane);
}

/* Lane 1 adds to the flag of lane 0, relaxed; lane 2 acquires what lane 1 has added. */
WH_FN uint32_t pass_on(box *b, uint32_t id) {
    if (id == 1) {
        while (wh_load_u32_relaxed(&b->flag) == 0) {
        }
        wh_add_u32_relaxed(&b->flag, 1);
    } else if (id == 2) {
        while (wh_load_u32_acquire(&b->flag) < 2) {
        }
        return b->message[0];
    }
    return 0;
}

/* A release sequence: the middle lane's RMW is relaxed. */
WH_FN uint32_t chain_by_rmw(box *b, uint32_t id, uint32_t lane) {
    (void)lane;
    if (id == 0) {
        b->message[0] = 1;
        (void)wh_fetch_add_u32_release(&b->flag, 1);
    }
    return pass_on(b, id);
}

WH_FN uint32_t relaxed_rmw(box *b, uint32_t id, uint32_t lane) {
    (void)lane;
    if (id == 0) {
        b->message[0] = 1;
        wh_add_u32_relaxed(&b->flag, 1);
    }
    return pass_on(b, id);
}

/* Also when the value stays. */
WH_FN uint32_t min_is_acquire(box *b, uint32_t id, uint32_t lane) {
    (void)lane;
    if (id == 0) {
        send(b);
        return 0;
    }
    while (wh_fetch_min_u32_acquire(&b->flag, 5) == 0) {
    }
    return b->message[0];
}

WH_FN uint32_t failed_cas_acquires(box *b, uint32_t id, uint32_t lane) {
    (void)lane;
    if (id == 0) {
        send(b);
        return 0;
    }
    while (wh_cas_u32_acq_rel(&b->flag, 7, 8) != 1) {
    }
    return b->message[0];
}

WH_FN uint32_t failed_cas_does_not_release(box *b, uint32_t id, uint32_t lane) {
    (void)lane;
    if (id == 0) {
        b->message[0] = 1;
        (void)wh_cas_u32_acq_rel(&b->flag, 7, 8);
        wh_store_u32_relaxed(&b->count, 1);
        return 0;
    }
    while (wh_load_u32_relaxed(&b->count) == 0) {
    }
    (void)wh_load_u32_acquire(&b->flag);
    return b->message[0];
}

WH_FN uint32_t ballot_orders_nothing(box *b, uint32_t id, uint32_t lane) {
    (void)id;
    write_by(b, lane, 3);
    (void)wh_ballot(WH_FULL_WARP, 1);
    return read_by(b, lane, 20);
}

WH_FN uint32_t shuffle_orders_nothing(box *b, uint32_t id, uint32_t lane) {
    (void)id;
    write_by(b, lane, 3);
    (void)wh_shfl_u64(WH_FULL_WARP, lane, 3);
    return read_by(b, lane, 20);
}

WH_FN uint32_t activemask_orders_nothing(box *b, uint32_t id, uint32_t lane) {
    (void)id;
    write_by(b, lane, 3);
    (void)wh_activemask();
    return read_by(b, lane, 20);
}

WH_FN uint32_t syncwarp(box *b, uint32_t id, uint32_t lane) {
    (void)id;
    b->out[lane] = lane;
    wh_syncwarp(WH_FULL_WARP);
    return b->out[(lane + 5) % 32];
}

WH_FN uint32_t syncwarp_twice(box *b, uint32_t id, uint32_t lane) {
    const uint32_t x = syncwarp(b, id, lane);
    wh_syncwarp(WH_FULL_WARP);
    b->out[lane] = x;
    wh_syncwarp(0x0000ffffu << (lane & 16));
    return x + b->out[lane ^ 15];
}

WH_FN uint32_t syncwarp_of_others(box *b, uint32_t id, uint32_t lane) {
    (void)id;
    write_by(b, lane, 3);
    wh_syncwarp(0x0000ffffu << (lane & 16));
    return read_by(b, lane, 20);
}

WH_FN uint32_t after_syncwarp(box *b, uint32_t id, uint32_t lane) {
    (void)id;
    wh_syncwarp(WH_FULL_WARP);
    write_by(b, lane, 3);
    const uint32_t x = read_by(b, lane, 20);
    wh_syncwarp(WH_FULL_WARP);
    return x;
}

WH_FN uint32_t syncthreads(box *b, uint32_t id, uint32_t lane) {
    uint32_t x = 0;
    (void)lane;
    for (uint32_t i = 0; i < 3; i++) {
        b->out[id] = i + id;
        wh_syncthreads();
        x = b->out[(id + 50) % 96];
        wh_syncthreads();
    }
    return x;
}

WH_FN uint32_t after_syncthreads(box *b, uint32_t id, uint32_t lane) {
    (void)lane;
    wh_syncthreads();
    write_by(b, id, 3);
    const uint32_t x = read_by(b, id, 90);
    wh_syncthreads();
    return x;
}

WH_FN uint32_t blocks_are_unordered(box *b, uint32_t id, uint32_t lane) {
    (void)lane;
    write_by(b, id, 0);
    wh_syncthreads();
    return read_by(b, id, 40);
}

/* What the launch before has written. */
WH_FN uint32_t launches_are_ordered(box *b, uint32_t id, uint32_t lane) {
    (void)lane;
    const uint32_t x = b->out[79 - id] + 1;
    b->out[100 + id] = x;
    return x;
}

WH_FN uint32_t one_stream_is_ordered(box *b, uint32_t id, uint32_t lane) {
    return launches_are_ordered(b, id, lane);
}

WH_FN uint32_t default_stream_is_ordered(box *b, uint32_t id, uint32_t lane) {
    return launches_are_ordered(b, id, lane);
}

WH_FN uint32_t streams_are_unordered(box *b, uint32_t id, uint32_t lane) {
    return launches_are_ordered(b, id, lane);
}

/* Some lanes write, then one ends the grid. */
WH_FN uint32_t failed_launch(box *b, uint32_t id, uint32_t lane) {
    (void)lane;
    b->out[id] = 1;
    (void)wh_load_u32_relaxed(&b->flag);
    if (id == 0) {
        wh_trap("on purpose");
    }
    wh_syncthreads();
    return 0;
}

/* Static shared memory, which the threads of a block alone have. */
WH_FN uint32_t share(uint32_t orders) {
    WH_SHARED(uint32_t, words, 96);
    const uint32_t n = wh_block_threads(), t = wh_thread_in_block();
    words[t] = t;
    if (orders) {
        wh_syncthreads();
    } else {
        (void)wh_ballot(WH_FULL_WARP, 1);
    }
    return words[n - 1 - t];
}

WH_FN uint32_t shared_after_barrier(box *b, uint32_t id, uint32_t lane) {
    (void)b, (void)id, (void)lane;
    return share(1);
}

WH_FN uint32_t shared_without_barrier(box *b, uint32_t id, uint32_t lane) {
    (void)b, (void)id, (void)lane;
    return share(0);
}

/* More blocks than are resident. */
WH_FN uint32_t shared_is_used_again(box *b, uint32_t id, uint32_t lane) {
    (void)b, (void)id, (void)lane;
    return share(1);
}

/* A message from the first thread to the last, in another warp. */
WH_FN uint32_t tell_by_cas(box *b, uint32_t id, int orders) {
    WH_SHARED(uint32_t, word, 1);
    if (id == 0) {
        word[0] = 0;
    }
    wh_syncthreads();
    if (id == 0) {
        b->message[0] = 1;
        (void)(orders ? wh_shared_cas_u32_acq_rel : wh_shared_cas_u32)(word, 0, 1);
    }
    for (uint32_t i = 0; id == 63; i++) {
        if ((orders ? wh_shared_cas_u32_acq_rel : wh_shared_cas_u32)(word, 1, 2) == 1) {
            return b->message[0];
        }
        wh_backoff(i);
    }
    return 0;
}

WH_FN uint32_t shared_cas_orders(box *b, uint32_t id, uint32_t lane) {
    (void)lane;
    return tell_by_cas(b, id, 1);
}

WH_FN uint32_t shared_cas_is_relaxed(box *b, uint32_t id, uint32_t lane) {
    (void)lane;
    return tell_by_cas(b, id, 0);
}

WH_KERNEL(message, box_args, a) {
    const uint32_t id = (uint32_t)wh_thread_id(), lane = wh_lane_id();
    uint32_t x = 0;
    switch (a.variant) {
#define VARIANT_CASE_(name, race, blocks, threads) \
    case V_##name:                                 \
        x = name(a.b, id, lane);                   \
        break;
        VARIANTS(VARIANT_CASE_)
#undef VARIANT_CASE_
    default:
        break;
    }
    a.b->out[1000 + id] = x;
}

WH_KERNEL(fill, box_args, a) {
    a.b->out[wh_thread_id()] = 1;
}

static int run_variant(uint32_t v, uint64_t seed) {
    wh_sim_options o;
    wh_device *d = NULL;
    box_args a = {NULL, v};
    memset(&o, 0, sizeof o);
    o.seed = seed / WH_SIM_POLICY_COUNT;
    o.policy = (wh_sim_policy)(seed % WH_SIM_POLICY_COUNT);
    if (wh_device_open(&d, "sim", &o) != WH_OK ||
        wh_device_alloc(d, (void **)&a.b, sizeof(box)) != WH_OK ||
        wh_device_set(d, a.b, 0, sizeof(box)) != WH_OK) {
        return 1;
    }
    /* Of the variants with two launches, the streams; the others need none. */
    void *first = NULL, *second = NULL;
    if (v == V_one_stream_is_ordered || v == V_default_stream_is_ordered ||
        v == V_streams_are_unordered) {
        (void)wh_stream_create(d, &first);
        second = v == V_one_stream_is_ordered ? first : NULL;
    }
    if (v == V_streams_are_unordered) {
        (void)wh_stream_create(d, &second);
    }
    const wh_launch l0 = {d, variants[v].blocks, variants[v].threads, first};
    const wh_launch l = {d, variants[v].blocks, variants[v].threads, second};
    if ((v == V_launches_are_ordered || first != NULL) && fill(&l0, &a) != WH_OK) {
        return 1;
    }
    const wh_status expect = v == V_failed_launch ? WH_DEVICE_ERROR : WH_OK;
    if (message(&l, &a) != expect || wh_device_sync(d) != WH_OK) { /* told once */
        fprintf(stderr, "%s\n", wh_device_error_text(d));
        return 1;
    }
    uint32_t sum = 0; /* the host may read everything after a launch */
    for (uint32_t i = 0; i < 2048; i++) {
        sum += a.b->out[i];
    }
    wh_device_close(d);
    return sum == UINT32_MAX;
}

static int run_self(const char *self, const char *variant, uint64_t seed) {
    char number[24];
    (void)snprintf(number, sizeof number, "%u", (unsigned)seed);
    const pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL) { /* the reports are expected */
            _exit(127);
        }
        (void)setenv("TSAN_OPTIONS", "exitcode=66:halt_on_error=1:symbolize=0", 1);
        (void)execl(self, self, variant, number, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : -1;
}

int main(int argc, char **argv) {
    if (!UNDER_TSAN) {
        return SKIPPED;
    }
    if (argc == 3) {
        for (uint32_t v = 0; v < N_VARIANTS; v++) {
            if (strcmp(argv[1], variants[v].name) == 0) {
                return run_variant(v, strtoull(argv[2], NULL, 10));
            }
        }
        return 2;
    }
    int bad = 0;
    for (uint32_t v = 0; v < N_VARIANTS; v++) {
        for (uint64_t seed = 0; seed < 2 * (uint64_t)WH_SIM_POLICY_COUNT; seed++) {
            const int want = variants[v].race ? RACE_STATUS : 0;
            const int got = run_self(argv[0], variants[v].name, seed);
            if (got != want) {
                printf("%s seed %u: exit status %d, expected %d\n", variants[v].name,
                       (unsigned)seed, got, want);
                bad++;
            }
        }
    }
    return bad != 0;
}
