/* hpp/hash_map.hpp: wh::hash_map and wh::hash_set, which many threads share and which grow in the
 * kernel. Part of warpheap.hpp; include that. Where they lie and who may make and end one: as a
 * stack (hpp/node_stack.hpp).
 *
 * Any lanes insert, assign, find and erase at the same time. Keys and values are plain data of up
 * to 8 bytes, without padding.
 *
 * Layout  one list of all items, in the order of their hashes with the bits reversed, then of their
 *         keys. A bucket is a mark in that list: a node without an item, where a search begins. So
 *         to double the number of buckets no item moves: the new ones are put in when somebody
 *         first comes to them
 * Fields  node.next: link to the next node: number, bit 31 if the node is erased, a tag that
 *         changes with each cas and each life: cas; of a new node, stores of its owner
 *         node.order, key, value: by who inserts the node, before it is in the list
 *         log2: of the number of buckets: by who grows. growing: who sets it grows: cas
 *         entry of a bucket: number of its node, 0: none so far: cas
 * I1      the nodes that bucket 0's leads to are in order, each key once. An erased node is one
 *         whose next says so; it is not changed after that but by who takes it out
 * I2      a node is taken out by one cas of the link to it, and given back by who made that
 * I3      what was read of a node is of the life in which it is in the list, if the link to it has
 *         not changed since
 * I4      who assigns to a key puts a new node in for the old one by one cas of the old one's next:
 *         that says then that the old one is erased, and leads to the new one. Values stay
 * P1      the fields of a node: cas of the link to it, release -> load of a link, acquire
 * P2      a new life: a fence, then the stores of the fields -> loads of next, order, key and
 *         value, acquire, of one who comes from an older life: he sees then that the link to the
 *         node has changed
 * P3      a segment of buckets, all 0: store of log2, release -> load of log2, acquire
 * P4      the node of a bucket: cas of the entry, release -> load of the entry, acquire
 * Progress   a cas fails only if another one has succeeded. Nobody waits for who puts a bucket in:
 *         till then a search begins at the bucket that the new one is a half of. Inserts wait for
 *         who grows, if there are eight times as many nodes as buckets, but `patience` times at
 *         most, and where no node is left for who brings more (hpp/node_pool.hpp)
 * Cost    find: three loads of a node, for three nodes in the mean; insert, assign and erase: a cas
 *         or two more, and now and then a malloc. Who grows clears a segment alone; searches that
 *         go over many nodes meanwhile look for more buckets on their way
 * Memory  erased nodes are used again; the heap gets them and the buckets back by clear. Full:
 *         insert says failed; without room for more buckets searches become longer, and each
 *         insert asks the heap for them again
 * Source  O. Shalev and N. Shavit, "Split-ordered lists: lock-free extensible hash tables", J. ACM
 *         53(3), 2006; the list: M. Michael, "High performance dynamic lock-free hash tables and
 *         list-based sets", SPAA 2002. Names: Kokkos::UnorderedMap, cuco, std
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
        for (uint32_t i = number(pool_.at(0)->next); i != last; i = number(pool_.at(i)->next)) {
            node *n = pool_.at(i);
            if ((n->order & 1) != 0 && !is_erased(n->next)) {
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
        for (uint32_t k = first_buckets; k < log2_; k++) {
            own::give(heap_, reinterpret_cast<void *>(buckets_[k]));
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
#else
    static constexpr uint32_t first_buckets = 4;
    static constexpr uint32_t long_walk = 16;
#endif
    static constexpr uint32_t most_buckets = 30;
    static constexpr uint32_t patience = 64;     /* times 2 us */
    static constexpr uint32_t last = 0x7fffffff; /* no number */
    static constexpr uint32_t bit_erased = 0x80000000;

    struct node {
        uint64_t next, key, value;
        uint32_t order, next_free;

        WH_HOST_DEVICE void begin() noexcept { /* of bucket 0 */
            next = own::link_of(last, 0);
            key = value = order = 0;
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
        uint64_t link, next, value; /* to that node, and its own */
        bool found;                 /* it is the one that was looked for */
        bool late;                  /* it was not, and there is a better place to begin now */
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
    /* Of an item; of a bucket's node it is even. */
    WH_HOST_DEVICE static uint32_t order_of(uint32_t h) noexcept {
        return reversed(h) | 1;
    }

    WH_HOST_DEVICE void reset() noexcept {
        for (uint32_t i = 0; i < 1u << first_buckets; i++) {
            first_[i] = 0;
        }
        log2_ = first_buckets;
        growing_ = 0;
    }

    /* --- items -------------------------------------------------------------------------------- */

    WH_DEVICE insert_result put(const Key &key, const T &value, bool assigns) {
        const uint64_t word = word_of(key);
        const uint32_t h = Hash()(word), order = order_of(h);
        uint32_t mine = own::none;
        for (uint32_t attempt = 0;; wh_backoff(attempt++)) {
            grow_if_full(); /* each time: of many that began together all found it empty */
            const place at = look_up(h, word, true, mine);
            if (at.found && !assigns) {
                give_back(mine);
                return insert_result(0);
            }
            if (!begin_life(mine, order, word, word_of(value))) {
                return insert_result(-1);
            }
            if (at.found) {
                if (replace(at, mine, word)) {
                    return insert_result(0);
                }
                continue; /* I1: it has another follower, or is erased */
            }
            if (attempt < patience && is_crowded()) {
                continue; /* many have begun together: lists would be long before they are cut */
            }
            if (link(at, mine)) {
                return insert_result(1);
            }
        }
    }
    /* `mine`, of the key `word`, is in the place of the node that was found (I4). false: that has
     * changed. */
    WH_DEVICE bool replace(const place &at, uint32_t mine, uint64_t word) {
        node *n = pool_.at(mine), *old = pool_.at(number(at.link));
        const uint64_t next = wh_load_u64_relaxed(&n->next);
        wh_store_u64_relaxed(&n->next, own::link_after(next, number(at.next)));
        const uint64_t to_mine =
            own::link_after(at.next, mine | WH_PLANT(hash_map_i4, bit_erased, 0u)); /* I4 */
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

    /* Where the item of this key is, or belongs. grows: the caller brings one, and so has more
     * buckets made if there are many on its way. spare: a node of the caller's, or none; buckets
     * are put in with it, and it may have another one, or none, then. */
    WH_DEVICE place look_up(uint32_t h, uint64_t key, bool grows, uint32_t &spare) {
        place at;
        do {
            const uint32_t log2 =
                WH_PLANT_ORDER(hash_map_p3_look, wh_load_u32, acquire)(&log2_); /* P3 */
            const uint32_t start = start_of(h, log2, spare);
            at = search(start, order_of(h), key, &log2_, log2, grows);
        } while (at.late);
        return at;
    }
    WH_DEVICE place look_up(uint64_t key) {
        uint32_t spare = own::none;
        const place at = look_up(Hash()(key), key, false, spare);
        give_back(spare);
        return at;
    }
    /* The first node that is not before (order, key), from the node `start` on. Takes out what is
     * erased on its way. Late if that is far, and *watched is not `seen` any more. */
    WH_DEVICE place search(uint32_t start, uint32_t order, uint64_t key, const uint32_t *watched,
                           uint32_t seen, bool grows) {
        for (uint32_t attempt = 0;; wh_backoff(attempt++)) {
            place at;
            at.before = &pool_.at(start)->next;
            at.link = WH_PLANT_ORDER(hash_map_p1_start, wh_load_u64, acquire)(at.before);
            at.next = at.value = 0;
            at.found = at.late = false;
            step ended = far;
            while (ended == far && !at.late) {
                ended = walk(at, order, key);
                if (ended == far && grows) {
                    grow_if_full();
                }
                at.late = ended == far && wh_load_u32_relaxed(watched) != seen;
            }
            if (ended != changed) {
                return at;
            }
        }
    }
    /* Goes on from at, over long_walk nodes at most. */
    WH_DEVICE step walk(place &at, uint32_t order, uint64_t key) {
        for (uint32_t k = 0; k < long_walk; k++) {
            if (number(at.link) == last) {
                return arrived;
            }
            node *n = pool_.at(number(at.link));
            at.next = WH_PLANT_ORDER(hash_map_p1_next, wh_load_u64, acquire)(&n->next); /* P1 */
            const uint32_t its_order = wh_load_u32_acquire(&n->order);                  /* P2 */
            uint64_t its_key = 0;
            if (its_order == order) {
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
            if (its_order > order || (its_order == order && its_key >= key)) {
                at.found = its_order == order && its_key == key;
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
    /* `mine`, a node that is in no list, or a new one if it is none, gets these fields. false:
     * there is no memory. */
    WH_DEVICE bool begin_life(uint32_t &mine, uint32_t order, uint64_t key, uint64_t value) {
        mine = mine == own::none ? pool_.take() : mine;
        if (mine == own::none) {
            return false;
        }
        node *n = pool_.at(mine);
        WH_PLANT(hash_map_p2_life, wh_fence(), (void)0); /* P2 */
        wh_store_u32_relaxed(&n->order, order);
        wh_store_u64_relaxed(&n->key, key);
        wh_store_u64_relaxed(&n->value, value);
        return true;
    }
    WH_DEVICE void give_back(uint32_t mine) {
        if (mine != own::none) {
            pool_.give(mine);
        }
    }
    WH_DEVICE bool link(const place &at, uint32_t mine) {
        node *n = pool_.at(mine);
        const uint64_t next = wh_load_u64_relaxed(&n->next);
        wh_store_u64_relaxed(&n->next, own::link_after(next, number(at.link)));
        const uint64_t to_mine = own::link_after(at.link, mine);
        return WH_PLANT_ORDER(hash_map_p1_link, wh_cas_u64, release)(at.before, at.link, to_mine) ==
               at.link; /* P1 */
    }

    /* --- buckets ---------------------------------------------------------------------------- */

    WH_DEVICE uint32_t *entry_of(uint32_t bucket) {
        if (bucket < 1u << first_buckets) {
            return &first_[bucket];
        }
        const uint32_t k = wh_msb32(bucket);
        return reinterpret_cast<uint32_t *>(buckets_[k]) + (bucket - (1u << k));
    }
    /* The number of the node of a bucket, 0: it has none so far. */
    WH_DEVICE uint32_t node_of(uint32_t bucket) {
        return WH_PLANT_ORDER(hash_map_p4_look, wh_load_u32, acquire)(entry_of(bucket)); /* P4 */
    }
    /* The node where a search for the hash begins, among 2^log2 buckets. A bucket that has none
     * gets it from the bucket that it is a half of, and that one before it: so each walk is over
     * half a bucket, also when many threads come to a map that has just grown. */
    WH_DEVICE uint32_t start_of(uint32_t h, uint32_t log2, uint32_t &spare) {
        const uint32_t bucket = h & ((1u << log2) - 1);
        uint32_t whole = bucket, at = 0;
        while (whole != 0 && (at = node_of(whole)) == 0) {
            whole -= 1u << wh_msb32(whole);
        }
        for (uint32_t rest = bucket - whole; rest != 0; rest &= rest - 1) {
            whole |= rest & (0u - rest);
            at = put_bucket(whole, at, spare);
        }
        return at;
    }
    /* Puts the node of a bucket into the list, from the node `start` on, and returns its number; if
     * there is no memory, start. A node that it does not need after all stays the caller's spare:
     * of many that put in one bucket all but one would give theirs back, one after the other. */
    WH_DEVICE uint32_t put_bucket(uint32_t bucket, uint32_t start, uint32_t &spare) {
        const uint32_t order = reversed(bucket);
        for (uint32_t attempt = 0;; wh_backoff(attempt++)) {
            const place at = search(start, order, 0, entry_of(bucket), 0, false);
            if (at.late) { /* others have put it in */
                return node_of(bucket);
            }
            if (!at.found && !begin_life(spare, order, 0, 0)) {
                return start;
            }
            if (at.found || link(at, spare)) {
                const uint32_t there = at.found ? number(at.link) : spare;
                spare = at.found ? spare : own::none;
                (void)WH_PLANT_ORDER(hash_map_p4_put, wh_cas_u32, release)(entry_of(bucket), 0,
                                                                           there); /* P4 */
                return there;
            }
        }
    }
    /* Twice as many buckets while there are twice as many nodes. One thread does that. */
    WH_DEVICE void grow_if_full() {
        if (!is_full(wh_load_u32_relaxed(&log2_)) || wh_cas_u32_acquire(&growing_, 0, 1) != 0) {
            return;
        }
        /* Whoever grew before has released growing. */
        uint32_t log2 = wh_load_u32_relaxed(&log2_);
        while (is_full(log2)) {
            uint32_t *segment = own::take_for<uint32_t>(heap_, static_cast<size_t>(1) << log2);
            if (segment == nullptr) {
                break;
            }
            for (uint32_t i = 0; i < 1u << log2; i++) {
                wh_store_u32_relaxed(&segment[i], 0);
            }
            buckets_[log2] = reinterpret_cast<uint64_t>(segment);
            log2++;
            WH_PLANT_ORDER(hash_map_p3_grow, wh_store_u32, release)(&log2_, log2); /* P3 */
        }
        wh_store_u32_release(&growing_, 0);
    }
    WH_DEVICE bool is_full(uint32_t log2) const {
        return pool_.used() >> 1 > 1u << log2 && log2 < most_buckets;
    }
    /* Whether there are many more nodes than buckets, and somebody makes more. */
    WH_DEVICE bool is_crowded() const {
        return pool_.used() >> 3 > 1u << wh_load_u32_relaxed(&log2_) &&
               wh_load_u32_relaxed(&growing_) != 0;
    }

    heap_ref heap_;
    own::node_pool<node> pool_;
    uint64_t buckets_[most_buckets]; /* segment k: buckets 2^k and up, from first_buckets on */
    uint32_t first_[1u << first_buckets];
    uint32_t log2_, growing_;
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
