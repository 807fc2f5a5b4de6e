/* hpp/hash_map.hpp: wh::hash_map and wh::hash_set, which many threads share and which grow in the
 * kernel. Part of warpheap.hpp; include that. Where they lie and who may make and end one: as a
 * stack (hpp/node_stack.hpp).
 *
 * Any lanes insert, assign, find and erase at the same time. Keys and values are plain data of up
 * to 8 bytes, without padding.
 *
 * Layout  one list of all items, in the order of their hashes with the bits reversed, then of their
 *         keys. A bucket is a mark in that list: a link without an item, where a search begins. To
 *         get more of them each is split: its parts go into the list, and no item moves
 * Fields  node.next: link to the next node: number, or bit 30 and the number of a bucket; bit 31 if
 *         the node is erased; a tag that changes with each cas and each life: cas; of a new node,
 *         stores of its owner
 *         node.order, key, value: by who inserts the node, before it is in the list
 *         a bucket: the same as node.next, never erased: stores of who splits the old one, before
 *         it is in the list, then cas
 *         log2: of the number of buckets that are all in the list, growing -> idle: by who has
 *         split the last one
 *         growing: idle -> taking, cas -> splitting, or idle, stores of who has made that cas
 *         buckets: address of each segment, joined: which of them lie in the block of the one
 *         before, done: how many old buckets are split, turn: the next one to split, and from which
 *         log2 to which: by who has set growing to taking; then done, turn: fetch_add of those who
 *         split, one for all lanes that are there at the same time
 * I1      the nodes that bucket 0 leads to are in order, each key once. An erased node is one whose
 *         next says so; it is not changed after that but by who takes it out
 * I2      a node is taken out by one cas of the link to it, and given back by who made that. A
 *         bucket is never taken out
 * I3      what was read of a node is of the life in which it is in the list, if the link to it has
 *         not changed since
 * I4      who assigns to a key puts a new node in for the old one by one cas of the old one's next:
 *         that says then that the old one is erased, and leads to the new one. Values stay
 * I5      who has the turn of an old bucket writes all new ones that are parts of it, and nobody
 *         else does. Those between two neighbours in the list lead to each other, the last one to
 *         the second neighbour; one cas of the first one's link puts them all in
 * I6      who has a turn splits, whatever has happened since he came: from which log2 to which is
 *         in the word that his fetch_add returns. Till he says that he has done it, nobody stores
 *         log2, so nobody begins to grow again
 * P1      the fields of a node, and where buckets lead: cas of the link to it, release -> load of a
 *         link, acquire
 * P2      a new life but the first: a fence, then the stores of the fields -> loads of the fields,
 *         acquire, of one who comes from an older life: he sees then that the link has changed
 * P3      new buckets, in the list: a wh_syncwarp, then the fetch_add of done, release -> that of
 *         the last one, acquire; his store of log2, release -> load of log2, acquire
 * P4      the addresses of segments, and that none is split: store of turn, release -> fetch_add of
 *         turn, acquire, then a wh_syncwarp, of those who split
 * Progress   a cas fails only if another one has succeeded. Nobody waits for who splits a bucket:
 *         till all are split searches begin at the old ones, and are right. Inserts of new nodes
 *         split `most_turns` buckets; while there are more than two nodes a bucket they
 *         wait, too, `patience` times at most for each log2; and where no node is left for who
 *         brings more (hpp/node_pool.hpp)
 * Cost    find: three loads of a node, for one or two nodes in the mean; insert, assign and erase:
 *         a cas or two more, and now and then a malloc, or a search and a cas for new buckets
 * Memory  erased nodes are used again; the heap gets them and the buckets back by clear. Full:
 *         insert says failed; without room for more buckets searches become longer, and inserts
 *         ask the heap for them again. 2^30 items at most
 * Source  O. Shalev and N. Shavit, "Split-ordered lists", J. ACM 53(3), 2006, where a bucket is put
 *         in when somebody comes to it; the list: M. Michael, "High performance dynamic lock-free
 *         hash tables and list-based sets", SPAA 2002. Names: Kokkos::UnorderedMap, cuco, std
 * Check   tests/cpp/map.cpp, tests/fault/cpp
 */
#ifndef WH_HPP_HASH_MAP_HPP
#define WH_HPP_HASH_MAP_HPP

#include "warpheap/core/hash.h"
#include "warpheap/hpp/node_pool.hpp"

#include "warpheap/detail/simt/begin.h"

#if __cplusplus >= 201703L
#define WH_HAS_UNIQUE_BITS_ 1
#elif defined(__has_builtin)
#define WH_HAS_UNIQUE_BITS_ __has_builtin(__has_unique_object_representations)
#else
#define WH_HAS_UNIQUE_BITS_ 0
#endif

namespace wh {
inline namespace WH_HPP_KIND {

/* What an insert came to. */
class insert_result {
  public:
    WH_HOST_DEVICE explicit insert_result(int what) noexcept : what_(what) {
    }
    WH_HOST_DEVICE bool success() const noexcept { /* the item is new */
        return what_ > 0;
    }
    WH_HOST_DEVICE bool existing() const noexcept { /* there was one of this key, which stays */
        return what_ == 0;
    }
    WH_HOST_DEVICE bool failed() const noexcept { /* the heap is full; nothing has changed */
        return what_ < 0;
    }

  private:
    int what_;
};

/* A hash of the key's bits. */
template <class Key> struct hash {
    WH_HOST_DEVICE uint32_t operator()(uint64_t bits) const noexcept {
        return wh_mix64(bits);
    }
};

/* Whether all bits of a Key are part of its value, which the map looks at: padding may differ from
 * one copy to the next. The language knows, if the compiler can tell (C++17, or GCC and clang), but
 * not of structs with float or double: a specialization with `value` true says that one of these
 * has no padding. Keys that are equal by ==, as 0.0 and -0.0, are two by their bits. */
template <class Key> struct has_no_padding {
#if WH_HAS_UNIQUE_BITS_
    static constexpr bool value = __has_unique_object_representations(Key);
#else
    static constexpr bool value = true;
#endif
};
template <> struct has_no_padding<float> { static constexpr bool value = true; };
template <> struct has_no_padding<double> { static constexpr bool value = true; };

template <class Key, class T, class Hash = hash<Key>> class hash_map {
  public:
    using key_type = Key;
    using mapped_type = T;

    /* An empty map. Host and device; nothing is allocated. */
    WH_HOST_DEVICE explicit hash_map(const heap_ref &heap) noexcept : heap_(heap), pool_(heap) {
        reset();
    }
    /* As clear. Of an object on the host, which was copied while it was empty: nothing. */
    WH_ANY_SIDE WH_HOST_DEVICE ~hash_map() {
        if (pool_.has_memory() || log2_ != first_buckets) {
            clear();
        }
    }

    /* Puts the item in, unless there is one of this key. Lanes: any subset. */
    WH_DEVICE insert_result insert(const Key &key, const T &value) {
        return put(key, value, false);
    }
    /* Puts the item in, also in the place of one of this key: existing() says that there was one.
     * Who looks for the key at the same time finds the old value or the new one. It takes a node in
     * any case, and gives the old one back; failed(): the heap is full; nothing has changed. Lanes:
     * any subset. */
    WH_DEVICE insert_result insert_or_assign(const Key &key, const T &value) {
        return put(key, value, true);
    }

    /* Whether there is an item of this key, and its value. Lanes: any subset. */
    WH_DEVICE bool find(const Key &key, T &value) {
        const uint64_t word = word_of(key);
        const place at = look_up(word);
        if (at.found) {
            from_word(at.value, value);
        }
        return at.found;
    }
    WH_DEVICE bool contains(const Key &key) {
        const uint64_t word = word_of(key);
        return look_up(word).found;
    }

    /* Takes the item of this key out. false: there was none. Lanes: any subset; of those that erase
     * one item one gets true. */
    WH_DEVICE bool erase(const Key &key) {
        const uint64_t word = word_of(key);
        for (uint32_t attempt = 0;; wh_backoff(attempt++)) {
            const place at = look_up(word);
            if (!at.found) {
                return false;
            }
            node *n = pool_.at(number(at.link));
            if (wh_cas_u64_relaxed(&n->next, at.next, erased_of(at.next)) != at.next) {
                continue; /* I1: it has another follower, or is erased */
            }
            if (take_out(at.before, at.link, at.next) != at.link) {
                (void)look_up(word); /* who finds it takes it out */
            }
            return true;
        }
    }

    /* These are for a thread that is alone with the map. f(key, value) for each item, in no
     * promised order; how many there are; all gone, and all memory back. */
    template <class F> WH_DEVICE void for_each(F f) {
        for (uint32_t i = number(first_[0]); i != last; i = number(*next_of(i))) {
            if (!is_bucket(i) && !is_erased(pool_.at(i)->next)) {
                const node *n = pool_.at(i);
                Key key;
                T value;
                from_word(n->key, key);
                from_word(n->value, value);
                f(key, value);
            }
        }
    }
    WH_DEVICE size_t size() {
        size_t n = 0;
        for_each([&n](const Key &, const T &) { n++; });
        return n;
    }
    WH_DEVICE size_t bucket_count() const {
        return static_cast<size_t>(1) << wh_load_u32_relaxed(&log2_);
    }
    WH_DEVICE void clear() {
        for (uint32_t k = first_buckets; k < most_buckets; k++) {
            if ((joined_ >> k & 1) == 0) {
                own::give(heap_, reinterpret_cast<void *>(buckets_[k]));
            }
        }
        pool_.clear();
        reset();
    }

  private:
    static_assert(sizeof(Key) <= 8 && sizeof(T) <= 8, "keys and values have 8 bytes at most");
    static_assert(__is_trivially_copyable(Key) && __is_trivially_copyable(T), "plain data");
    static_assert(has_no_padding<Key>::value, "keys are compared by all their bits");

#ifdef WH_HOSTILE
    static constexpr uint32_t first_buckets = 1; /* log2 of those in the map itself */
    static constexpr uint32_t long_walk = 2;     /* nodes, behind which a search looks about */
    static constexpr uint32_t most_parts = 2;    /* log2 of those that a bucket is split into */
    static constexpr uint32_t most_turns = 1;    /* of one who has not to wait */
#else
    static constexpr uint32_t first_buckets = 4;
    static constexpr uint32_t long_walk = 16;
    static constexpr uint32_t most_parts = 6;
    static constexpr uint32_t most_turns = 8;
#endif
    static constexpr uint32_t most_buckets = 29; /* log2 */
    static constexpr uint32_t patience = 64;     /* times 2 us */
    static constexpr uint32_t last = 0x7fffffff; /* no number */
    static constexpr uint32_t bit_bucket = 0x40000000;
    static constexpr uint32_t bit_erased = 0x80000000;

    enum stage : uint32_t { idle, taking, splitting };

    struct node {
        uint64_t next, key, value;
        uint32_t order, next_free;

        WH_HOST_DEVICE void begin() noexcept { /* nobody uses it */
        }
        WH_DEVICE void begin_life() {
            wh_store_u64_relaxed(&next, own::link_of(last, 0));
        }
    };

    /* Why a walk ended: at its place; as something has changed under it; after long_walk nodes. */
    enum step { arrived, changed, far };

    /* Where a search ended: the link at `before` leads to the first node that is not smaller. */
    struct place {
        uint64_t *before;
        uint64_t link, next, value; /* to that node, and its own, but of a bucket */
        uint32_t order;             /* of it */
        uint32_t log2;              /* of the buckets that there were, for look_up's caller */
        bool found;                 /* it is the one that was looked for */
        bool late;                  /* it was not, and there is a better place to begin now */
    };

    /* A node of the caller's, which is in no list. */
    struct owned {
        uint32_t number;
        node *at;      /* nullptr: there is none */
        uint64_t next; /* what its next is */

        WH_DEVICE void lead_to(uint32_t i) {
            next = own::link_after(next, i);
            wh_store_u64_relaxed(&at->next, next);
        }
    };
    WH_HOST_DEVICE static uint32_t number(uint64_t link) noexcept {
        return static_cast<uint32_t>(link) & ~bit_erased;
    }
    WH_HOST_DEVICE static bool is_erased(uint64_t link) noexcept {
        return (static_cast<uint32_t>(link) & bit_erased) != 0;
    }
    WH_HOST_DEVICE static uint64_t erased_of(uint64_t link) noexcept {
        return own::link_after(link, number(link) | bit_erased);
    }
    /* Of a number that is not last. */
    WH_HOST_DEVICE static bool is_bucket(uint32_t i) noexcept {
        return (i & bit_bucket) != 0;
    }
    template <class V> WH_HOST_DEVICE static uint64_t word_of(const V &v) noexcept {
        uint64_t word = 0;
        for (size_t i = 0; i < sizeof v; i++) {
            reinterpret_cast<unsigned char *>(&word)[i] =
                reinterpret_cast<const unsigned char *>(&v)[i];
        }
        return word;
    }
    template <class V> WH_HOST_DEVICE static void from_word(uint64_t word, V &v) noexcept {
        for (size_t i = 0; i < sizeof v; i++) {
            reinterpret_cast<unsigned char *>(&v)[i] =
                reinterpret_cast<const unsigned char *>(&word)[i];
        }
    }
    WH_HOST_DEVICE static uint32_t reversed(uint32_t v) noexcept {
        v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
        v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
        v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
        v = (v >> 8 & 0x00ff00ff) | (v & 0x00ff00ff) << 8;
        return v >> 16 | v << 16;
    }
    /* Of an item; of a bucket it is even. */
    WH_HOST_DEVICE static uint32_t order_of(uint32_t h) noexcept {
        return reversed(h) | 1;
    }

    WH_HOST_DEVICE void reset() noexcept {
        const uint32_t gap = 1u << (32 - first_buckets);
        for (uint32_t i = 0; i < 1u << first_buckets; i++) {
            const uint32_t next = reversed(reversed(i) + gap); /* in the list; 0: there is none */
            first_[i] = own::link_of(next == 0 ? last : next | bit_bucket, 0);
        }
        for (uint32_t k = 0; k < most_buckets; k++) {
            buckets_[k] = 0;
        }
        log2_ = first_buckets;
        turn_ = 1; /* of one bucket, which is split: who sees an old value here has no turn */
        joined_ = done_ = growing_ = 0;
    }

    /* --- items -------------------------------------------------------------------------------- */

    WH_DEVICE insert_result put(const Key &key, const T &value, bool assigns) {
        const uint64_t word = word_of(key);
        const uint32_t h = Hash()(word), order = order_of(h);
        owned mine = {own::none, nullptr, 0};
        for (uint32_t attempt = 0;; wh_backoff(attempt++)) {
            const place at = look_up(h, word);
            if (at.found && !assigns) {
                give_back(mine);
                return insert_result(0);
            }
            if (mine.at == nullptr) {
                if (!begin_life(mine, order, word, word_of(value))) {
                    return insert_result(-1);
                }
                if (mine.number > 1u << at.log2 && make_room()) {
                    continue; /* the place is another one now */
                }
            }
            if (at.found) {
                if (replace(at, mine, word)) {
                    return insert_result(0);
                }
            } else if (link(at, mine)) {
                return insert_result(1);
            }
        }
    }
    /* `mine`, of the key `word`, is in the place of the node that was found (I4). false: that has
     * changed. */
    WH_DEVICE bool replace(const place &at, owned &mine, uint64_t word) {
        node *old = pool_.at(number(at.link));
        mine.lead_to(number(at.next));
        const uint64_t to_mine =
            own::link_after(at.next, mine.number | WH_PLANT(hash_map_i4, bit_erased, 0u)); /* I4 */
        if (WH_PLANT_ORDER(hash_map_p1_replace, wh_cas_u64, release)(&old->next, at.next,
                                                                     to_mine) != at.next) { /* P1 */
            return false;
        }
        if (take_out(at.before, at.link, to_mine) != at.link) {
            (void)look_up(word); /* who finds it takes it out */
        }
        return true;
    }

    /* --- the list -------------------------------------------------------------------------- */

    /* Where the item of this key is, or belongs. */
    WH_DEVICE place look_up(uint32_t h, uint64_t key) {
        for (;;) {
            const uint32_t log2 =
                WH_PLANT_ORDER(hash_map_p3_look, wh_load_u32, acquire)(&log2_); /* P3 */
            place at = search(bucket_at(h & ((1u << log2) - 1)), order_of(h), key, log2);
            if (!at.late) {
                at.log2 = log2;
                return at;
            }
        }
    }
    WH_DEVICE place look_up(uint64_t key) {
        return look_up(Hash()(key), key);
    }
    /* The first node that is not before (order, key), from a bucket on that is in the list. Takes
     * out what is erased on its way. Late if that is far, and there are more buckets than 2^log2;
     * 0: never. */
    WH_DEVICE place search(uint64_t *bucket, uint32_t order, uint64_t key, uint32_t log2) {
        for (uint32_t attempt = 0;; wh_backoff(attempt++)) {
            place at;
            step ended = far;
            at.before = bucket;
            at.link = WH_PLANT_ORDER(hash_map_p1_start, wh_load_u64, acquire)(bucket); /* P1 */
            at.next = at.value = at.order = at.log2 = 0;
            at.found = at.late = false;
            while (ended == far && !at.late) {
                ended = walk(at, order, key);
                at.late = ended == far && log2 != 0 && wh_load_u32_relaxed(&log2_) != log2;
            }
            if (ended != changed) {
                return at;
            }
        }
    }
    /* Goes on from at, over long_walk nodes at most. */
    WH_DEVICE step walk(place &at, uint32_t order, uint64_t key) {
        for (uint32_t k = 0; k < long_walk; k++) {
            const uint32_t i = number(at.link);
            if (i == last || is_bucket(i)) { /* which has one life */
                at.order = i == last ? ~0u : reversed(i & ~bit_bucket);
                if (i == last || at.order > order) {
                    return arrived;
                }
                at.before = bucket_at(i & ~bit_bucket);
                at.link =
                    WH_PLANT_ORDER(hash_map_p1_next, wh_load_u64, acquire)(at.before); /* P1 */
                continue;
            }
            node *n = pool_.at(i);
            uint64_t its_key = 0;
            at.next = WH_PLANT_ORDER(hash_map_p1_next, wh_load_u64, acquire)(&n->next); /* P1 */
            at.order = wh_load_u32_acquire(&n->order);                                  /* P2 */
            if (at.order == order) {
                its_key = wh_load_u64_acquire(&n->key);
                at.value = wh_load_u64_acquire(&n->value);
            }
            if (WH_PLANT(hash_map_i3, wh_load_u64_relaxed(at.before) != at.link, false)) {
                return changed; /* I3 */
            }
            if (WH_PLANT(hash_map_i2, is_erased(at.next), false)) {
                const uint64_t found = take_out(at.before, at.link, at.next);
                if (found != at.link) {
                    return changed;
                }
                at.link = own::link_after(at.link, number(at.next));
                continue;
            }
            if (at.order > order || (at.order == order && its_key >= key)) {
                at.found = at.order == order && its_key == key;
                return arrived;
            }
            at.before = &n->next;
            at.link = at.next;
        }
        return far;
    }
    /* The link at before leads past the node that `link` led to, if it has not changed: then the
     * node is ours, and goes back (I2). Returns what the link was. */
    WH_DEVICE uint64_t take_out(uint64_t *before, uint64_t link, uint64_t next) {
        const uint64_t seen =
            wh_cas_u64_release(before, link, own::link_after(link, number(next))); /* P1 */
        if (seen == link) {
            pool_.give(number(link));
        }
        return seen;
    }
    /* `mine` is a new node, in no list, with these fields. false: there is no memory. */
    WH_DEVICE bool begin_life(owned &mine, uint32_t order, uint64_t key, uint64_t value) {
        bool is_new = false;
        mine.number = pool_.take(is_new);
        if (mine.number == own::none) {
            return false;
        }
        mine.at = pool_.at(mine.number);
        mine.next = own::link_of(last, 0);
        if (!is_new) {
            mine.next = wh_load_u64_relaxed(&mine.at->next);
            WH_PLANT(hash_map_p2_life, wh_fence(), (void)0); /* P2 */
        }
        wh_store_u32_relaxed(&mine.at->order, order);
        wh_store_u64_relaxed(&mine.at->key, key);
        wh_store_u64_relaxed(&mine.at->value, value);
        return true;
    }
    WH_DEVICE void give_back(const owned &mine) {
        if (mine.at != nullptr) {
            pool_.give(mine.number);
        }
    }
    WH_DEVICE bool link(const place &at, owned &mine) {
        mine.lead_to(number(at.link));
        const uint64_t to_mine = own::link_after(at.link, mine.number);
        return WH_PLANT_ORDER(hash_map_p1_link, wh_cas_u64, release)(at.before, at.link, to_mine) ==
               at.link; /* P1 */
    }

    /* --- buckets ---------------------------------------------------------------------------- */

    WH_DEVICE uint64_t *bucket_at(uint32_t bucket) {
        if (bucket < 1u << first_buckets) {
            return &first_[bucket];
        }
        const uint32_t k = wh_msb32(bucket);
        return reinterpret_cast<uint64_t *>(buckets_[k]) + (bucket - (1u << k));
    }
    /* Where the link is to what comes after the node, or the bucket, of this number. */
    WH_DEVICE uint64_t *next_of(uint32_t i) {
        return is_bucket(i) ? bucket_at(i & ~bit_bucket) : &pool_.at(i)->next;
    }
    /* --- growth ----------------------------------------------------------------------------- */

    /* More buckets, as there are fewer than nodes. Who comes first takes memory for them; he and
     * others split old ones. Waits where there are many more nodes, so that they do not make long
     * lists before these are cut. false: nothing has changed. */
    WH_DEVICE bool make_room() {
        uint32_t log2 = wh_load_u32_relaxed(&log2_);
        for (uint32_t begun = log2, waits = 0;; wh_backoff(waits++)) {
            const bool grows = grow_if_full();
            const uint32_t now = wh_load_u32_relaxed(&log2_);
            if (!grows || waits == patience || pool_.used() >> 1 <= 1u << now) {
                return now != begun;
            }
            waits = now == log2 ? waits : 0;
            log2 = now;
        }
    }
    /* false: nobody grows, as there is no need, or no memory. */
    WH_DEVICE bool grow_if_full() {
        uint32_t now = wh_load_u32_relaxed(&growing_);
        if (now == idle) {
            if (!is_full(wh_load_u32_relaxed(&log2_))) {
                return false;
            }
            now = wh_cas_u32_acquire(&growing_, idle, taking);
            if (now == idle) {
                if (!take_buckets()) {
                    return false;
                }
                now = splitting;
            }
        }
        if (now == splitting) {
            split_some();
        }
        return true;
    }
    /* Memory for as many buckets as the pool has nodes, which it has for all who have come, but for
     * at most 2^most_parts parts of each old one, or for twice as many as there are. false: there
     * is none. */
    WH_DEVICE bool take_buckets() {
        /* Who grew before has released growing. */
        const uint32_t log2 = wh_load_u32_relaxed(&log2_);
        const uint32_t most = least(log2 + most_parts, most_buckets);
        uint32_t end = least(wh_msb32(pool_.capacity()), most);
        uint64_t *segment = nullptr;
        for (end = end > log2 ? end : log2 + 1; is_full(log2); end = log2 + 1) {
            segment = own::take_for<uint64_t>(heap_, parts_of(log2, end));
            if (segment != nullptr || end == log2 + 1) {
                break;
            }
        }
        if (segment == nullptr) {
            wh_store_u32_release(&growing_, idle);
            return false;
        }
        for (uint32_t k = log2; k < end; k++) {
            wh_store_u64_relaxed(&buckets_[k],
                                 reinterpret_cast<uint64_t>(segment + parts_of(log2, k)));
            joined_ |= static_cast<uint32_t>(k > log2) << k;
        }
        wh_store_u32_relaxed(&done_, 0);
        WH_PLANT_ORDER(hash_map_p4_take, wh_store_u64, release)
        (&turn_, static_cast<uint64_t>(end << 8 | log2) << 32); /* P4 */
        wh_store_u32_release(&growing_, splitting);
        return true;
    }
    /* Buckets from 2^from up to 2^end. */
    WH_HOST_DEVICE static size_t parts_of(uint32_t from, uint32_t end) noexcept {
        return (static_cast<size_t>(1) << end) - (static_cast<size_t>(1) << from);
    }
    WH_HOST_DEVICE static uint32_t least(uint32_t a, uint32_t b) noexcept {
        return a < b ? a : b;
    }
    /* What turn says: whose turn it is, and from which log2 to which. */
    struct turn {
        uint32_t from, end, bucket;

        WH_HOST_DEVICE explicit turn(uint64_t word) noexcept
            : from(wh_high_u32(word) & 0xff), end(wh_high_u32(word) >> 8),
              bucket(wh_low_u32(word)) {
        }
        WH_HOST_DEVICE uint32_t n() const noexcept { /* of how many old buckets */
            return 1u << from;
        }
    };
    /* Splits old buckets, one a lane and turn, with those lanes that happen to be here, too. */
    WH_DEVICE void split_some() {
        turn t(wh_load_u64_relaxed(&turn_));
        if (t.bucket >= t.n()) {
            return;
        }
        const wh_group g = own::group_of(this);
        uint32_t done = 0;
        for (uint32_t k = 0; k < most_turns; k++) {
            uint64_t word = 0;
            if (wh_group_leads(g)) {
                word = WH_PLANT_ORDER(hash_map_p4_split, wh_fetch_add_u64, acquire)(&turn_, g.n);
            }
            t = turn(wh_shfl_u64(g.lanes, word, g.leader));
            WH_PLANT(hash_map_p4_lanes, wh_syncwarp(g.lanes), (void)0); /* P4 */
            if (t.bucket >= t.n()) {
                break;
            }
            if (g.rank < t.n() - t.bucket) {
                split(t, t.bucket + g.rank);
            }
            done += least(g.n, t.n() - t.bucket);
        }
        WH_PLANT(hash_map_p3_lanes, wh_syncwarp(g.lanes), (void)0); /* P3 */
        if (!wh_group_leads(g) || done == 0 ||
            WH_PLANT_ORDER(hash_map_p3_done, wh_fetch_add_u32, acq_rel)(&done_, done) + done !=
                WH_PLANT(hash_map_i6, t.n(), done)) {
            return; /* I6, P3 */
        }
        WH_PLANT_ORDER(hash_map_p3_grow, wh_store_u32, release)(&log2_, t.end); /* P3 */
        wh_store_u32_release(&growing_, idle);
    }
    /* Puts all new buckets that are parts of an old one into the list (I5). */
    WH_DEVICE void split(const turn &t, uint32_t bucket) {
        uint64_t *parts = reinterpret_cast<uint64_t *>(wh_load_u64_relaxed(&buckets_[t.from]));
        const uint32_t gap = 1u << (32 - t.end), end = reversed(bucket) + (gap << (t.end - t.from));
        uint64_t *from = bucket_at(bucket);
        uint32_t order = reversed(bucket) + gap;
        for (uint32_t attempt = 0; order != end;) {
            const place at = search(from, order, 0, 0);
            uint32_t i = order;
            uint64_t *part = &parts[reversed(i) - t.n()];
            for (; i + gap != end && WH_PLANT(hash_map_i5, i + gap < at.order, true); i += gap) {
                wh_store_u64_relaxed(part, own::link_of(reversed(i + gap) | bit_bucket, 0));
                part = &parts[reversed(i + gap) - t.n()];
            }
            wh_store_u64_relaxed(part, own::link_of(number(at.link), 0));
            if (WH_PLANT_ORDER(hash_map_p1_bucket, wh_cas_u64, release)(
                    at.before, at.link, own::link_after(at.link, reversed(order) | bit_bucket)) ==
                at.link) { /* P1 */
                from = part;
                order = i + gap;
            } else {
                wh_backoff(attempt++);
            }
        }
    }
    WH_DEVICE bool is_full(uint32_t log2) const {
        return pool_.used() - 1 > 1u << log2 && log2 < most_buckets; /* numbers begin at 1 */
    }

    heap_ref heap_;
    own::node_pool<node, 30> pool_;
    uint64_t buckets_[most_buckets]; /* segment k: buckets 2^k and up, from first_buckets on */
    uint64_t first_[1u << first_buckets];
    uint64_t turn_;
    uint32_t log2_, growing_, done_, joined_;
};

/* The same of keys alone. */
template <class Key, class Hash = hash<Key>> class hash_set {
  public:
    using key_type = Key;

    WH_HOST_DEVICE explicit hash_set(const heap_ref &heap) noexcept : map_(heap) {
    }
    WH_DEVICE insert_result insert(const Key &key) {
        return map_.insert(key, 0);
    }
    WH_DEVICE bool contains(const Key &key) {
        return map_.contains(key);
    }
    WH_DEVICE bool erase(const Key &key) {
        return map_.erase(key);
    }
    /* For a thread that is alone with the set: f(key), how many, all gone. */
    template <class F> WH_DEVICE void for_each(F f) {
        map_.for_each([&f](const Key &key, const unsigned char &) { f(key); });
    }
    WH_DEVICE size_t size() {
        return map_.size();
    }
    WH_DEVICE void clear() {
        map_.clear();
    }

  private:
    hash_map<Key, unsigned char, Hash> map_;
};

} // namespace WH_HPP_KIND
} // namespace wh

#include "warpheap/detail/simt/end.h"

#endif
