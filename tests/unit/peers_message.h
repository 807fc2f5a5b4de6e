/* peers_message.h: a word and then a flag, from one simulated device to its peer: whether the peer
 * can see the flag without the word. For peers.c, whose accesses are of system scope, and
 * peers_scope.c, whose are of the device's. */
#ifndef WH_TESTS_PEERS_MESSAGE_H
#define WH_TESTS_PEERS_MESSAGE_H

#include "sim/sim_test.h"

#include "warpheap/heap.h"

typedef struct message_args {
    uint32_t *words; /* the message, the flag, and what was seen: 1 + the message */
    uint32_t reads;
} message_args;

WH_KERNEL(message, message_args, a) {
    if (!a.reads) {
        wh_store_u32_relaxed(&a.words[0], 1);
        wh_store_u32_release(&a.words[1], 1);
        return;
    }
    for (uint32_t k = 0; wh_load_u32_acquire(&a.words[1]) == 0; k++) {
        wh_backoff(k);
    }
    a.words[2] = 1 + wh_load_u32_relaxed(&a.words[0]);
}

/* In how many of so many schedules the message was late. */
static uint32_t late_messages(uint32_t weak, uint64_t schedules) {
    uint32_t late = 0;
    for (uint64_t seed = 0; seed < schedules; seed++) {
        wh_device *d[2];
        wh_heap *heap = NULL;
        wh_heap_options o = {0};
        wh_sim_options sim = {0};
        sim.seed = seed;
        sim.policy = WH_SIM_RANDOM;
        sim.weak = weak;
        d[0] = open_with(&sim);
        d[1] = open_with(&sim);
        o.device = d[0];
        o.bytes = (uint64_t)8 << 20;
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        assert_int_equal(wh_heap_enable_peer(heap, d[1]), WH_OK);
        void *streams[2];
        message_args a = {.words = take(d[0], 3 * sizeof(uint32_t)), .reads = 0};
        for (; a.reads < 2; a.reads++) {
            wh_launch l = grid(d[a.reads], 1, 1);
            assert_int_equal(wh_stream_create(d[a.reads], &streams[a.reads]), WH_OK);
            l.stream = streams[a.reads];
            assert_int_equal(message(&l, &a), WH_OK);
        }
        assert_int_equal(wh_device_sync(d[0]), WH_OK);
        assert_in_range(a.words[2], 1, 2);
        late += a.words[2] == 1;
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
        assert_int_equal(wh_device_free(d[0], a.words), WH_OK);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(wh_stream_destroy(d[i], streams[i]), WH_OK);
            wh_device_close(d[i]);
        }
    }
    return late;
}

#endif
