/* core_programs.hpp: protocols of core/, a struct each: what its lanes do, and what must be so. */
#ifndef WH_MEMORY_MODEL_CORE_PROGRAMS_HPP
#define WH_MEMORY_MODEL_CORE_PROGRAMS_HPP

#include "shim.hpp"

#include "warpheap/core/bulk_semaphore.h"
#include "warpheap/core/chunk_pool.h"
#include "warpheap/core/ring.h"
#include "warpheap/core/use_word.h"
#include "warpheap/core/veb.h"

/* Begins and ends an execution for a program, whose words `prepare` has named. */
template <class program, unsigned n> struct execution : rl::test_suite<program, n> {
    void before() {
        shim_begin();
        static_cast<program *>(this)->first();
    }
    void after() {
        static_cast<program *>(this)->last();
        shim_end();
    }
    void first() {
    }
    void last() {
    }
};

/* --- a word of use bits: core/use_word.h ---------------------------------------------------- */

/* Unit 0 has an owner, who gives it back; two others want it. */
struct use_word : execution<use_word, 3> {
    static uint64_t word;
    rl::var<int> unit;

    static void prepare() {
        word = 1;
        shim_word(&word);
    }
    void first() {
        unit($) = 0;
    }
    void thread(unsigned i) {
        if (i == 0) {
            unit($) = 1;
            wh_use_release(&word, 1);
            return;
        }
        uint64_t seen = wh_load_u64_relaxed(&word);
        if (wh_use_claim(&word, &seen, 1)) { /* P1, I1 */
            RL_ASSERT(unit($) == 1);
            unit($) = 2;
        }
    }
    void last() {
        RL_ASSERT(wh_use_releases(wh_load_u64_relaxed(&word)) == 1); /* I2 */
    }
};
uint64_t use_word::word;

/* --- sets: core/veb.h ------------------------------------------------------------------------ */

#define UNIVERSE 128u /* two words and one above */
static uint64_t veb_words[3];
static wh_veb veb() {
    return wh_veb_make(veb_words, UNIVERSE);
}
static void veb_prepare() {
    memset(veb_words, 0, sizeof veb_words);
    shim_word(veb_words, 3);
}
/* I2; and what level 0 has, a search finds. */
static void veb_is_sound() {
    const uint64_t low = wh_load_u64_relaxed(&veb_words[0]);
    for (uint64_t i = 0; i < 3; i++) {
        RL_ASSERT(wh_veb_check(veb(), i));
    }
    RL_ASSERT(low == 0 || wh_veb_successor(veb(), 0) == wh_ctz64(low));
}

/* An item is inserted; two lanes search, and take it. P1, I1 */
struct veb_message : execution<veb_message, 3> {
    rl::var<int> item;

    static void prepare() {
        veb_prepare();
    }
    void first() {
        item($) = 0;
    }
    void thread(unsigned i) {
        if (i == 0) {
            item($) = 1;
            (void)wh_veb_insert(veb(), 5);
        } else if (wh_veb_successor(veb(), 0) == 5 && wh_veb_remove(veb(), 5)) {
            RL_ASSERT(item($) == 1);
            item($) = 2;
        }
    }
    void last() {
        veb_is_sound();
    }
};

/* The only item of a word leaves it while others come. R1, P2, I3 */
struct veb_toggle : execution<veb_toggle, 3> {
    static void prepare() {
        veb_prepare();
        (void)wh_veb_insert(veb(), 5);
    }
    void thread(unsigned i) {
        if (i == 0) {
            RL_ASSERT(wh_veb_remove(veb(), 5));
        } else {
            RL_ASSERT(wh_veb_insert(veb(), 5 + i));
        }
    }
    void last() {
        RL_ASSERT(wh_load_u64_relaxed(&veb_words[0]) == 0xc0);
        veb_is_sound();
    }
};

/* A summary bit over an empty word is cleared, while an item comes. R1 of settle */
struct veb_settle : execution<veb_settle, 2> {
    static void prepare() {
        veb_prepare();
        veb_words[2] = 1;
    }
    void thread(unsigned i) {
        if (i == 0) {
            wh_veb_settle(veb(), 5);
        } else {
            RL_ASSERT(wh_veb_insert(veb(), 6));
        }
    }
    void last() {
        veb_is_sound();
    }
};

/* Items of two words come and go together. P1, I1 */
struct veb_range_message : execution<veb_range_message, 2> {
    rl::var<int> items;

    static void prepare() {
        veb_prepare();
    }
    void first() {
        items($) = 0;
    }
    void thread(unsigned i) {
        if (i == 0) {
            items($) = 1;
            wh_veb_insert_range(veb(), 63, 2);
        } else if (wh_veb_claim_range(veb(), 63, 2)) {
            RL_ASSERT(items($) == 1);
        }
    }
    void last() {
        veb_is_sound();
    }
};

/* R1 and P2 of ranges. */
struct veb_range_toggle : execution<veb_range_toggle, 2> {
    static void prepare() {
        veb_prepare();
        wh_veb_insert_range(veb(), 63, 2);
    }
    void thread(unsigned i) {
        if (i == 0) {
            RL_ASSERT(wh_veb_claim_range(veb(), 63, 2));
        } else {
            wh_veb_insert_range(veb(), 61, 2);
        }
    }
    void last() {
        RL_ASSERT(wh_load_u64_relaxed(&veb_words[0]) == (uint64_t)3 << 61);
        veb_is_sound();
    }
};

/* Who sees items gone sees what their claimer did before, with a fence. P3 */
template <class program> struct veb_seen : execution<program, 2> {
    static uint64_t at_work;

    static void prepare() {
        veb_prepare();
        (void)wh_veb_insert(veb(), 5);
        at_work = 0;
        shim_word(&at_work);
    }
    void thread(unsigned i) {
        if (i == 0) {
            wh_store_u64_relaxed(&at_work, 1);
            static_cast<program *>(this)->claim();
        } else if (wh_load_u64_relaxed(&veb_words[0]) == 0) {
            wh_fence();
            RL_ASSERT(wh_load_u64_relaxed(&at_work) == 1);
        }
    }
};
template <class program> uint64_t veb_seen<program>::at_work;
struct veb_seen_one : veb_seen<veb_seen_one> {
    void claim() {
        RL_ASSERT(wh_veb_remove(veb(), 5));
    }
};
struct veb_seen_range : veb_seen<veb_seen_range> {
    void claim() {
        RL_ASSERT(wh_veb_claim_range(veb(), 5, 1));
    }
};

/* --- the index queue: core/ring.h ------------------------------------------------------------- */

/* Two values go through a ring of two entries, which is used a second time. P1, I2 */
struct ring_message : execution<ring_message, 3> {
    static wh_ring ring;
    static uint32_t entries[2];
    rl::var<int> data[2];

    static void prepare() {
        memset(&ring, 0, sizeof ring);
        memset(entries, 0, sizeof entries);
        shim_word(&ring.head, 3);
        shim_word(entries, 2);
    }
    void first() {
        data[0]($) = data[1]($) = 0;
    }
    void thread(unsigned i) {
        if (i < 2) {
            data[i]($) = 1;
            wh_ring_put_at(entries, 2, wh_ring_reserve_put(&ring), i);
            return;
        }
        const uint64_t p = wh_ring_reserve_take(&ring, 2);
        for (uint64_t k = 0; k < 2; k++) {
            const uint32_t value = wh_ring_take_at(&ring, entries, 2, p + k);
            RL_ASSERT(value < 2 && data[value]($) == 1);
            data[value]($) = 2;
        }
    }
};
wh_ring ring_message::ring;
uint32_t ring_message::entries[2];

/* --- the bulk semaphore: core/bulk_semaphore.h --------------------------------------------------
 */

/* Two units; one lane wants two, another one wants one. Who lacks some fetches batches of two, as
 * far as that is its duty, or waits. I1 to I3: it needs no order, and must be right with none. */
struct semaphore : execution<semaphore, 2> {
    static uint64_t word;
    rl::atomic<int> fetched;

    static void prepare() {
        word = wh_bulk_semaphore_word(2, 0, 0);
        shim_word(&word);
    }
    void first() {
        fetched.store(0, rl::mo_relaxed, $);
    }
    /* What it lacks then. */
    uint32_t fetch(uint32_t batches, uint32_t lacks) {
        const uint32_t kept = lacks < 2 * batches ? lacks : 2 * batches;
        if (batches != 0) {
            (void)fetched.fetch_add((int)batches, rl::mo_relaxed, $);
            wh_bulk_semaphore_signal(&word, 2 * batches - kept, batches, kept);
        }
        return lacks - kept;
    }
    void thread(unsigned i) {
        const uint32_t n = i == 0 ? 2 : 1;
        const uint64_t old = wh_bulk_semaphore_take(&word, n);
        uint32_t lacks = n - wh_bulk_semaphore_got(old, n);
        if (lacks == 0) {
            return;
        }
        const uint32_t duty = wh_bulk_semaphore_batches(old, n, 1);
        wh_bulk_semaphore_reserve(&word, lacks, duty);
        lacks = fetch(duty, lacks);
        while (lacks != 0) {
            const uint32_t got = wh_bulk_semaphore_retake(&word, lacks);
            lacks -= got;
            if (got == 0 && wh_bulk_semaphore_expected(wh_load_u64_relaxed(&word)) == 0) {
                lacks = fetch(wh_bulk_semaphore_volunteer(&word, 1, 1), lacks); /* I3 */
            }
            rl::yield(1, $);
        }
    }
    void last() {
        const uint64_t w = wh_load_u64_relaxed(&word);
        RL_ASSERT(wh_bulk_semaphore_count(w) >= 0); /* I1, I2 */
        RL_ASSERT(wh_bulk_semaphore_count(w) == 2 + 2 * fetched.load(rl::mo_relaxed, $) - 3);
        RL_ASSERT(wh_bulk_semaphore_expected(w) == 0 && wh_bulk_semaphore_reserved(w) == 0);
    }
};
uint64_t semaphore::word;

/* Two lanes without a unit, and a batch of two that one of them fetches: the other one takes again
 * what it has reserved. */
struct semaphore_retake : execution<semaphore_retake, 3> {
    static uint64_t word;

    static void prepare() {
        word = wh_bulk_semaphore_word(0, 1, 2);
        shim_word(&word);
    }
    void thread(unsigned i) {
        if (i == 0) {
            wh_bulk_semaphore_signal(&word, 2, 1, 0);
        } else {
            while (wh_bulk_semaphore_retake(&word, 1) == 0) {
                rl::yield(1, $);
            }
        }
    }
    void last() {
        RL_ASSERT(wh_load_u64_relaxed(&word) == 0);
    }
};
uint64_t semaphore_retake::word;

/* --- chunks that come back: core/chunk_pool.h ------------------------------------------------- */

static wh_chunk_pool_words pool_words;
static uint32_t pool_entries[2][4];
static uint64_t pool_loose[1];

static wh_chunk_pool pool(uint32_t large_log2) {
    wh_chunk_pool p;
    memset(&p, 0, sizeof p);
    wh_chunk_pool_bind(&p, &pool_words);
    p.n = 2;
    p.large_log2 = large_log2;
    p.entries[0] = pool_entries[0];
    p.entries[1] = pool_entries[1];
    p.entries_log2[0] = p.entries_log2[1] = 1;
    p.loose_tree = wh_veb_make(pool_loose, 2);
    return p;
}
static void pool_prepare(uint32_t large_log2) {
    memset(pool_entries, 0, sizeof pool_entries);
    memset(pool_loose, 0, sizeof pool_loose);
    wh_chunk_pool_reset(pool(large_log2));
    shim_word(pool_words.words, sizeof pool_words.words / 8);
    shim_word(&pool_words.state.moving, 2);
    shim_word(pool_entries[0], 2);
    shim_word(pool_entries[1], 2);
    shim_word(pool_loose);
}

/* A chunk comes back; two lanes want one. P1, I1 */
struct chunk_reclaim : execution<chunk_reclaim, 3> {
    rl::var<int> chunk[2];

    static void prepare() {
        pool_prepare(0);
        (void)wh_chunk_pool_take(pool(0), 0, 2);
    }
    void first() {
        chunk[0]($) = chunk[1]($) = 0;
    }
    void thread(unsigned i) {
        if (i == 0) {
            chunk[1]($) = 1;
            wh_chunk_pool_free(pool(0), 0, 1);
            return;
        }
        const wh_chunk_pool_taken t = wh_chunk_pool_take(pool(0), 0, 1);
        if (t.n != 0) {
            const uint32_t got = wh_chunk_pool_get(pool(0), 0, t, 0);
            RL_ASSERT(got == 1 && chunk[1]($) == 1);
            chunk[1]($) = 2;
        }
    }
};

/* A large chunk is split for one lane; another one asks whether there is nothing. P2, I3 */
struct chunk_split : execution<chunk_split, 2> {
    static void prepare() {
        pool_prepare(1);
        const wh_chunk_pool p = pool(1);
        const wh_chunk_pool_taken t = wh_chunk_pool_take(p, 1, 1);
        wh_chunk_pool_free(p, 1, wh_chunk_pool_get(p, 1, t, 0));
    }
    void thread(unsigned i) {
        const wh_chunk_pool p = pool(1);
        if (i == 0) {
            RL_ASSERT(wh_chunk_pool_take(p, 0, 1).n == 1);
        } else {
            RL_ASSERT(!wh_chunk_pool_empty(p, 0)); /* the other half is always to be had */
        }
    }
};

#endif
