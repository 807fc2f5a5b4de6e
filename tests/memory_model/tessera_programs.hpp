/* tessera_programs.hpp: protocols of the default heap, a struct each. Each execution begins with a
 * heap that lanes have used before: one shard, a few chunks of 1 KiB. */
#ifndef WH_MEMORY_MODEL_TESSERA_PROGRAMS_HPP
#define WH_MEMORY_MODEL_TESSERA_PROGRAMS_HPP

#include "core_programs.hpp"

#include "warpheap/detail/alloc/tessera/tessera.h"

#define HEAP_BYTES (48u << 10)
alignas(4096) static unsigned char heap_memory[HEAP_BYTES];
static wh_tessera_ref heap;

/* A fresh heap of so many chunks, as the host makes one. */
static void heap_make(uint32_t chunks) {
    wh_tessera_options o;
    wh_plan plan;
    memset(&o, 0, sizeof o);
    memset(&plan, 0, sizeof plan);
    memset(&heap, 0, sizeof heap);
    memset(heap_memory, 0, sizeof heap_memory);
    o.chunk_bytes = 1024;
    o.shards = 1;
    uint64_t bytes = HEAP_BYTES;
    while (wh_tessera_plan(&heap, &plan, heap_memory, bytes, &o, 1) != WH_OK ||
           heap.core.n_chunks != chunks) {
        bytes -= 512;
    }
    for (uint64_t i = 0; i < plan.init_items; i++) {
        wh_tessera_init(heap, i, plan.init_items);
    }
}

static uint32_t heap_class(uint32_t bytes) {
    return wh_tessera_class_of(bytes);
}
static uint32_t heap_slab(const void *p) {
    const uint64_t chunk = (uint64_t)((const unsigned char *)p - heap.base) >> heap.chunk_log2;
    return (uint32_t)chunk - wh_tessera_tag_at(heap.tags[chunk]);
}

/* What free, a taker and a search of this class use. */
static void heap_words(uint32_t c) {
    const wh_tessera_core g = heap.core;
    wh_tessera_shard *own = wh_tessera_shard_at_(g, 0);
    wh_tessera_header *header = wh_tessera_header_(g);
    shim_word(&own->takes);
    shim_word(&own->takes_done, 2);
    shim_word(&own->failed, 2);
    shim_word(&own->cursors[c].span);
    shim_word(own->cursors[c].hints, WH_TESSERA_HINTS);
    shim_word(&header->search_lock);
    shim_word(&header->top);
    shim_word(heap.tags, g.n_chunks);
    shim_word(wh_tessera_state_at_(g, 0), g.n_chunks);
    shim_word(heap.words, (uint64_t)g.n_chunks * g.words_of_chunk);
    const wh_veb pool = wh_tessera_pool_(g), list = wh_tessera_partial_list_(g, c);
    for (uint64_t i = 0; i < g.list_words; i++) {
        shim_word(wh_veb_word(pool, i));
        shim_word(wh_veb_word(list, i));
    }
}

/* Gives up what cursors hold, so that what is free is in words and in the pool. */
static void heap_close() {
    for (uint32_t k = 0; k < WH_TESSERA_CLASSES; k++) {
        (void)wh_tessera_close_(wh_tessera_core_of_(heap), 0, k);
    }
}

static uint64_t heap_take(uint32_t c, uint32_t slab, uint32_t i) {
    const wh_tessera_core *g = wh_tessera_core_of_(heap);
    const uint32_t slots = wh_tessera_header_of_(g)->classes[c].slots;
    int owes;
    const uint64_t bits = wh_tessera_take_slots_(g, c, slots, slab, i, 1, 0, &owes);
    if (owes) {
        (void)wh_tessera_emptied_(g, 0, slab);
    }
    return bits;
}

/* A slot is freed; two lanes take slots of its slab, of which no other one is free. P1, I1, I4 */
struct slot_message : execution<slot_message, 3> {
    static void *blocks[2];
    rl::var<int> data;

    static void prepare() {
        heap_make(2);
        for (void *&p : blocks) {
            p = wh_tessera_malloc(heap, 0, 512);
        }
        heap_words(heap_class(512));
    }
    void first() {
        data($) = 0;
    }
    void thread(unsigned i) {
        if (i == 0) {
            data($) = 1;
            wh_tessera_free(heap, 0, blocks[0]);
        } else if (heap_take(heap_class(512), heap_slab(blocks[0]), 0) != 0) {
            RL_ASSERT(data($) == 1);
            data($) = 2;
        }
    }
};
void *slot_message::blocks[2];

/* The last slot of a slab is freed, which then goes back to the pool. One lane takes a slot of it
 * meanwhile, and frees that, too; another one wants the chunk, and sees what both wrote. P1, P3 */
struct slab_reclaim : execution<slab_reclaim, 3> {
    static void *blocks[2];
    rl::var<int> data[2];

    static void prepare() {
        heap_make(2);
        for (void *&p : blocks) {
            p = wh_tessera_malloc(heap, 0, 512);
        }
        heap_close();
        wh_tessera_free(heap, 0, blocks[1]);
        heap_words(heap_class(512));
    }
    void first() {
        data[0]($) = data[1]($) = 0;
    }
    void thread(unsigned i) {
        const wh_tessera_core g = heap.core;
        const uint32_t slab = heap_slab(blocks[0]);
        if (i == 0) {
            data[0]($) = 1;
            wh_tessera_free(heap, 0, blocks[0]);
        } else if (i == 1) {
            const uint64_t bits = heap_take(heap_class(512), slab, 0);
            if (bits != 0) {
                data[wh_ctz64(bits)]($) = 2;
                wh_tessera_free(heap, 0, blocks[wh_ctz64(bits)]);
            }
        } else if (wh_veb_claim_mask(wh_tessera_pool_(g), slab >> 6, (uint64_t)1 << (slab & 63)) !=
                   0) {
            RL_ASSERT(data[0]($) != 0);
            data[0]($) = data[1]($) = 3;
        }
    }
};
void *slab_reclaim::blocks[2];

/* A slot is freed while a search removes its slab, which seems full, from its list. I6, P9 */
struct slab_listed : execution<slab_listed, 2> {
    static void *block;

    static void prepare() {
        heap_make(2);
        block = wh_tessera_malloc(heap, 0, 512);
        (void)wh_tessera_malloc(heap, 0, 512);
        heap_words(heap_class(512));
    }
    void thread(unsigned i) {
        const wh_tessera_core g = heap.core;
        if (i == 0) {
            wh_tessera_free(heap, 0, block);
        } else {
            wh_tessera_remove_partial_(g, wh_tessera_shard_at_(g, 0), heap_class(512), 1,
                                       heap_slab(block));
        }
    }
    void last() {
        const wh_veb list = wh_tessera_partial_list_(heap.core, heap_class(512));
        RL_ASSERT(wh_veb_contains(list, heap_slab(block)));
    }
};
void *slab_listed::block;

/* The last slots of the two words of a slab are freed at once; a third lane takes a slot. When all
 * are through the slab is in the pool, or the slot is taken and the state says so. I5, P10 */
struct slab_of_two_words : execution<slab_of_two_words, 3> {
    static unsigned char *blocks[64];
    rl::var<int> taken;

    static void prepare() {
        heap_make(2);
        for (unsigned char *&p : blocks) {
            p = (unsigned char *)wh_tessera_malloc(heap, 0, 16);
        }
        heap_close();
        for (unsigned k = 0; k < 64; k++) {
            if (k != 0 && k != 60) {
                wh_tessera_free(heap, 0, blocks[k]);
            }
        }
        heap_words(heap_class(16));
    }
    void first() {
        taken($) = 0;
    }
    void thread(unsigned i) {
        const uint32_t slab = heap_slab(blocks[0]);
        if (i < 2) {
            wh_tessera_free(heap, 0, blocks[60 * i]);
        } else if (heap_take(heap_class(16), slab, 1) != 0) {
            taken($) = 1;
        }
    }
    void last() {
        const wh_tessera_core g = heap.core;
        const uint32_t slab = heap_slab(blocks[0]);
        const int is_back = wh_veb_contains(wh_tessera_pool_(g), slab);
        const uint32_t state = wh_load_u32_relaxed(wh_tessera_state_at_(g, slab));
        RL_ASSERT(is_back == !taken($));
        RL_ASSERT(state == (is_back ? 0u : 1u));
    }
};
unsigned char *slab_of_two_words::blocks[64];

/* --- growth.h: the host is a thread, which does what src/host/growth.c does ------------------- */

static wh_growth_box box;

static void growth_words() {
    wh_tessera_header *header = wh_tessera_header_(heap.core);
    wh_tessera_shard *own = wh_tessera_shard_at_(heap.core, 0);
    memset(&box, 0, sizeof box);
    heap.core.reserved = header->core.reserved = 1; /* a unit is a chunk */
    header->growth = &box;
    shim_word(&header->growing.answer);
    shim_word(&header->growing.lock, 9);
    shim_word(&header->mapped_bytes, 2);
    shim_word(&own->takes);
    shim_word(&own->takes_done, 2);
    shim_word(&box.posted);
    shim_word(&box.answer);
    shim_word(&box.taken);
    shim_word(&box.asked);
    shim_word(&box.rows[0].units);
    shim_word(&box.rows[0].mapped_bytes);
    shim_word(&box.rows[0].metadata_bytes);
}

/* The host maps a unit, posts it, and answers. A lane that gets it may use it; one that finds none
 * has not seen the answer. P12 */
struct growth_posted : execution<growth_posted, 2> {
    rl::var<int> unit;

    static void prepare() {
        heap_make(2);
        growth_words();
    }
    void first() {
        unit($) = 0;
    }
    void thread(unsigned i) {
        wh_tessera_header *header = wh_tessera_header_(heap.core);
        if (i == 0) {
            unit($) = 1;
            wh_store_u64_relaxed(&box.rows[0].units, (uint64_t)1 << 32 | 1);
            wh_store_u64_system(&box.posted, 1);
            wh_store_u64_system(&box.answer, (uint64_t)1 << 32);
        } else if (wh_tessera_take_parts_(heap.core, wh_tessera_shard_at_(heap.core, 0), 1) != 0) {
            RL_ASSERT(unit($) == 1);
        } else {
            RL_ASSERT(wh_load_u64_relaxed(&header->growing.answer) == 0);
        }
    }
};

/* One unit is left, which the host has posted before it refused more. Who believes the refusal
 * knows of the take of who has got the unit. P13, I10 */
struct growth_refused : execution<growth_refused, 3> {
    static void prepare() {
        heap_make(2);
        growth_words();
        box.rows[0].units = (uint64_t)1 << 32 | 1;
        box.posted = 1;
        box.answer = (uint64_t)1 << 32 | 1;
        wh_tessera_header_(heap.core)->growing.asked = 1;
    }
    void thread(unsigned) {
        wh_tessera_shard *own = wh_tessera_shard_at_(heap.core, 0);
        wh_tessera_awaited wait;
        memset(&wait, 0, sizeof wait);
        wait.n = wait.parts = wait.number = 1;
        if (wh_tessera_look_for_host_(heap.core, own, &wait) == WH_TESSERA_REFUSED) {
            RL_ASSERT(wh_high_u32(wh_load_u64_relaxed(&own->takes)) == 1);
        }
    }
};

#endif
