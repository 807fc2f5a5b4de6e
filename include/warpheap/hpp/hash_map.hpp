/* hpp/hash_map.hpp: wh::hash_map and wh::hash_set, which many threads share and which grow in the
 * kernel. Part of warpheap.hpp; include that. Where they lie and who may make and end one: as a
 * stack (hpp/node_stack.hpp).
 *
 * Any lanes insert, assign, find and erase at the same time. Keys and values are plain data of up
 * to 8 bytes, without padding.
 *
 * Layout  one list of all items, in the order of their hashes with the bits reversed, then of their
 *         keys. A bucket is a mark in that list: a link without an item, where a search begins. So
 *         to double the number of buckets no item moves: the new ones are put in when somebody
 *         first comes to them
 * Fields  node.next: link to the next node: number, or bit 30 and the number of a bucket; bit 31 if
 *         the node itself is not in the list; a tag that changes with each cas and each life: cas;
 *         of a new node, stores of its owner
 *         node.order, key, value: by who inserts the node, before it is in the list
 *         a bucket: the same as node.next; 0: nobody has come to it so far. Bit 31: who has set it,
 *         by a cas of the 0, puts it into the list, and stores there till it is in
 *         log2: of the number of buckets, growing -> idle: by who has cleared the last piece
 *         growing: idle -> taking, cas -> clearing, or idle, stores of who has made that cas
 *         buckets: address of each segment, joined: which of them lie in the block of the one
 *         before, cleared: pieces that are, pieces: the next one to clear, and of which segments:
 *         by who has set growing to taking; then cleared, pieces: fetch_add of those who clear
 * I1      the nodes that bucket 0 leads to are in order, each key once. An erased node is one whose
 *         next says so; it is not changed after that but by who takes it out
 * I2      a node is taken out by one cas of the link to it, and given back by who made that. A
 *         bucket is never taken out
 * I3      what was read of a node is of the life in which it is in the list, if the link to it has
 *         not changed since
 * I4      who assigns to a key puts a new node in for the old one by one cas of the old one's next:
 *         that says then that the old one is erased, and leads to the new one. Values stay
 * I5      a link leads to a bucket only if that is in the list. So who comes by a link may go on
 *         there, bit 31 or not, and a cas of what he has seen takes the bit away
 * I6      who takes a piece clears it, whatever has happened since he came: which segments it is of
 *         is in the word that his fetch_add returns. Till he says that he has cleared it, nobody
 *         stores log2, so nobody begins to grow again
 * P1      the fields of a node, and where a bucket leads: cas of the link to it, release -> load of
 *         a link, acquire
 * P2      a new life but the first: a fence, then the stores of the fields -> loads of next,
 *         order, key and value, acquire, of one who comes from an older life: he sees then that
 *         the link to the node has changed
 * P3      pieces, all 0: fetch_add of cleared, release -> that of the last one, acquire; his store
 *         of log2, release -> load of log2, acquire
 * P4      the node that a bucket leads to: fetch_and of the bucket, which takes bit 31 away,
 *         release, and all cas after it -> load of the bucket, acquire, of who begins there
 * P5      the addresses of segments, and that no piece of them is cleared: store of pieces, release
 *         -> fetch_add of pieces, acquire, of who clears
 * Progress   a cas fails only if another one has succeeded. Nobody waits for who puts a bucket in,
 *         or clears a piece: till then a search begins at the bucket that the new one is a half of.
 *         Inserts wait for who grows, if there are eight times as many nodes as buckets, `patience`
 *         times at most, and where no node is left for who brings more (hpp/node_pool.hpp)
 * Cost    find: three loads of a node, for two nodes in the mean; insert, assign and erase: a cas
 *         or two more, and now and then a malloc, or pieces of new buckets to clear
 * Memory  erased nodes are used again; the heap gets them and the buckets back by clear. Full:
 *         insert says failed; without room for more buckets searches become longer, and inserts
 *         ask the heap for them again. 2^30 items at most
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
        for (uint32_t i = number(first_[0]); i != last; i = number(*next_of(i))) {
            if (!is_bucket(i) && !is_out(pool_.at(i)->next)) {
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
        for (uint32_t k = first_buckets; k < log2_; k++) {
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
    static constexpr uint32_t least_piece = 1;   /* log2 of the buckets that one thread clears */
#else
    static constexpr uint32_t first_buckets = 4;
    static constexpr uint32_t long_walk = 16;
    static constexpr uint32_t least_piece = 4;
#endif
    static constexpr uint32_t most_pieces = 12;  /* log2 */
    static constexpr uint32_t most_buckets = 29; /* log2 */
    static constexpr uint32_t patience = 64;     /* times 2 us */
    static constexpr uint32_t last = 0x7fffffff; /* no number */
    static constexpr uint32_t bit_bucket = 0x40000000;
    static constexpr uint32_t bit_out = 0x80000000;

    enum stage : uint32_t { idle, taking, clearing };

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
        uint64_t link, next, value; /* to that node, and its own */
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
    /* Where a search begins: a bucket, and what was seen there. */
    struct origin {
        uint64_t *bucket;
        uint64_t link;
    };
    /* What a search that is far from its place looks at: whether this bucket is still 0, or if
     * there is none, whether there are still so many. 0: at neither. */
    struct hope {
        const uint64_t *bucket;
        uint32_t log2;
        bool grows; /* the caller brings an item: it helps to make more buckets */
    };

    WH_HOST_DEVICE static uint32_t number(uint64_t link) noexcept {
        return static_cast<uint32_t>(link) & ~bit_out;
    }
    WH_HOST_DEVICE static bool is_out(uint64_t link) noexcept {
        return (static_cast<uint32_t>(link) & bit_out) != 0;
    }
    WH_HOST_DEVICE static uint64_t erased_of(uint64_t link) noexcept {
        return own::link_after(link, number(link) | bit_out);
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
        for (uint32_t i = 0; i < 1u << first_buckets; i++) {
            first_[i] = i == 0 ? own::link_of(last, 0) : 0;
        }
        log2_ = first_buckets;
        pieces_ = joined_ = cleared_ = growing_ = 0;
    }

    /* --- items -------------------------------------------------------------------------------- */

    WH_DEVICE insert_result put(const Key &key, const T &value, bool assigns) {
        const uint64_t word = word_of(key);
        const uint32_t h = Hash()(word), order = order_of(h);
        owned mine = {own::none, nullptr, 0};
        for (uint32_t attempt = 0;; wh_backoff(attempt++)) {
            if (attempt != 0) {
                grow_if_full();
            }
            if (mine.at != nullptr && is_crowded(attempt)) {
                continue; /* many have begun together: lists would be long before they are cut */
            }
            const place at = look_up(h, word, true);
            if (at.found && !assigns) {
                give_back(mine);
                return insert_result(0);
            }
            if (mine.at == nullptr) {
                if (!begin_life(mine, order, word, word_of(value))) {
                    return insert_result(-1);
                }
                if (mine.number >> 1 > 1u << at.log2) { /* so many nodes are there at least */
                    grow_if_full();
                    if (is_crowded(0)) {
                        continue;
                    }
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
            own::link_after(at.next, mine.number | WH_PLANT(hash_map_i4, bit_out, 0u)); /* I4 */
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
     * buckets made if there are many on its way. */
    WH_DEVICE place look_up(uint32_t h, uint64_t key, bool grows) {
        place at;
        do {
            hope better = {nullptr, 0, grows};
            better.log2 = WH_PLANT_ORDER(hash_map_p3_look, wh_load_u32, acquire)(&log2_); /* P3 */
            at = search(origin_of(h, better.log2), order_of(h), key, better);
            at.log2 = better.log2;
        } while (at.late);
        return at;
    }
    WH_DEVICE place look_up(uint64_t key) {
        return look_up(Hash()(key), key, false);
    }
    /* The first node that is not before (order, key), from a bucket on. Takes out what is erased on
     * its way. Late if that is far, and there is what was hoped for. */
    WH_DEVICE place search(const origin &from, uint32_t order, uint64_t key, const hope &better) {
        place at;
        at.before = from.bucket;
        at.link = from.link;
        for (uint32_t attempt = 0;; wh_backoff(attempt++)) {
            step ended = far;
            at.next = at.value = 0;
            at.found = at.late = false;
            while (ended == far && !at.late) {
                ended = walk(at, order, key);
                if (ended == far && better.grows) {
                    grow_if_full();
                }
                at.late = ended == far && is_there(better);
            }
            if (ended != changed) {
                return at;
            }
            at.before = from.bucket;
            at.link = WH_PLANT_ORDER(hash_map_p1_start, wh_load_u64, acquire)(at.before); /* P1 */
        }
    }
    WH_DEVICE bool is_there(const hope &better) const {
        return better.bucket != nullptr
                   ? wh_load_u64_relaxed(better.bucket) != 0
                   : better.log2 != 0 && wh_load_u32_relaxed(&log2_) != better.log2;
    }
    /* Goes on from at, over long_walk nodes at most. */
    WH_DEVICE step walk(place &at, uint32_t order, uint64_t key) {
        for (uint32_t k = 0; k < long_walk; k++) {
            const uint32_t i = number(at.link);
            if (i == last) {
                return arrived;
            }
            uint64_t *next = next_of(i), its_key = 0;
            uint32_t its_order = 0;
            at.next = WH_PLANT_ORDER(hash_map_p1_next, wh_load_u64, acquire)(next); /* P1 */
            if (is_bucket(i)) { /* I5; it has one life */
                its_order = reversed(i & ~bit_bucket);
            } else {
                node *n = pool_.at(i);
                its_order = wh_load_u32_acquire(&n->order); /* P2 */
                if (its_order == order) {
                    its_key = wh_load_u64_acquire(&n->key);
                    at.value = wh_load_u64_acquire(&n->value);
                }
                if (WH_PLANT(hash_map_i3, wh_load_u64_relaxed(at.before) != at.link, false)) {
                    return changed; /* I3 */
                }
                if (WH_PLANT(hash_map_i2, is_out(at.next), false)) {
                    const uint64_t found = take_out(at.before, at.link, at.next);
                    if (found != at.link) {
                        return changed;
                    }
                    at.link = own::link_after(at.link, number(at.next));
                    continue;
                }
            }
            if (its_order > order || (its_order == order && its_key >= key)) {
                at.found = its_order == order && its_key == key;
                return arrived;
            }
            at.before = next;
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
    /* Where a search for the hash begins, among 2^log2 buckets. One that is not in the list is put
     * there from the bucket that it is a half of, and that one before it: so each walk is over half
     * a bucket, also when many threads come to a map that has just grown. */
    WH_DEVICE origin origin_of(uint32_t h, uint32_t log2) {
        const uint32_t bucket = h & ((1u << log2) - 1);
        uint32_t whole = bucket;
        origin from;
        for (;; whole -= 1u << wh_msb32(whole)) {
            from.bucket = bucket_at(whole);
            from.link =
                WH_PLANT_ORDER(hash_map_p4_look, wh_load_u64, acquire)(from.bucket); /* P4 */
            if (from.link != 0 && WH_PLANT(hash_map_i5, !is_out(from.link), true)) {
                break; /* at bucket 0 at the latest */
            }
        }
        for (uint32_t rest = bucket - whole; rest != 0; rest &= rest - 1) {
            whole |= rest & (0u - rest);
            from = put_bucket(whole, from);
        }
        return from;
    }
    /* Puts a bucket into the list, and returns it, or `from`, if others are about to do that. */
    WH_DEVICE origin put_bucket(uint32_t bucket, const origin &from) {
        const uint32_t order = reversed(bucket);
        uint64_t *b = bucket_at(bucket);
        hope better = {b, 0, false};
        origin begin = from;
        if (wh_load_u64_relaxed(b) != 0) {
            return seen_at(b, from);
        }
        for (uint32_t attempt = 0;; wh_backoff(attempt++)) {
            const place at = search(begin, order, 0, better);
            if (at.late || at.found) {
                return seen_at(b, from);
            }
            const uint64_t leads_to = own::link_of(number(at.link) | bit_out, 0);
            if (better.bucket == nullptr) {
                wh_store_u64_relaxed(b, leads_to);
            } else if (wh_cas_u64_relaxed(b, 0, leads_to) != 0) {
                return seen_at(b, from);
            }
            better.bucket = nullptr; /* it is ours */
            if (WH_PLANT_ORDER(hash_map_p1_bucket, wh_cas_u64, release)(
                    at.before, at.link, own::link_after(at.link, bucket | bit_bucket)) ==
                at.link) { /* P1 */
                const uint64_t was = WH_PLANT_ORDER(hash_map_p4_put, wh_fetch_and_u64,
                                                    acq_rel)(b, ~uint64_t{bit_out}); /* P4 */
                return {b, was & ~uint64_t{bit_out}};
            }
            begin.link = wh_load_u64_acquire(begin.bucket); /* P1 */
        }
    }
    WH_DEVICE origin seen_at(uint64_t *b, const origin &from) {
        const uint64_t link = wh_load_u64_acquire(b); /* P4 */
        return link != 0 && !is_out(link) ? origin{b, link} : from;
    }

    /* --- growth ----------------------------------------------------------------------------- */

    /* More buckets while there are twice as many nodes. Who comes first takes memory for them; he
     * and all who come by then clear pieces of it, till there is none left. */
    WH_DEVICE void grow_if_full() {
        const uint32_t now = wh_load_u32_relaxed(&growing_), log2 = wh_load_u32_relaxed(&log2_);
        const bool begins =
            is_full(log2) && now == idle && wh_cas_u32_acquire(&growing_, idle, taking) == idle;
        if (begins ? take_buckets() : now == clearing) {
            clear_pieces();
        }
    }
    /* Memory for as many buckets as the nodes want that there is memory for, or for twice as many
     * as there are. false: there is none. */
    WH_DEVICE bool take_buckets() {
        const uint32_t log2 =
            wh_load_u32_relaxed(&log2_); /* who grew before has released growing */
        uint64_t *segment = nullptr;
        uint32_t most = is_full(log2) ? wh_msb32(pool_.capacity()) : log2;
        for (most = most < most_buckets ? most : most_buckets; most > log2; most = log2 + 1) {
            segment = own::take_for<uint64_t>(heap_, buckets_of(log2, most));
            if (segment != nullptr || most == log2 + 1) {
                break;
            }
        }
        if (segment == nullptr) {
            wh_store_u32_release(&growing_, idle);
            return false;
        }
        for (uint32_t k = log2; k < most; k++) {
            wh_store_u64_relaxed(&buckets_[k],
                                 reinterpret_cast<uint64_t>(segment + buckets_of(log2, k)));
            joined_ |= static_cast<uint32_t>(k > log2) << k;
        }
        wh_store_u32_relaxed(&cleared_, 0);
        WH_PLANT_ORDER(hash_map_p5_take, wh_store_u64, release)
        (&pieces_, pieces_of(log2, most)); /* P5 */
        wh_store_u32_release(&growing_, clearing);
        return true;
    }
    /* Of segments from..end - 1. */
    WH_HOST_DEVICE static size_t buckets_of(uint32_t from, uint32_t end) noexcept {
        return (static_cast<size_t>(1) << end) - (static_cast<size_t>(1) << from);
    }
    /* pieces_: the number of the next piece, and of which segments it is. */
    WH_HOST_DEVICE static uint64_t pieces_of(uint32_t from, uint32_t end) noexcept {
        return static_cast<uint64_t>(end << 8 | from) << 32;
    }
    struct piece {
        uint32_t from, end, number, log2; /* segments; log2: of a piece's buckets */

        WH_HOST_DEVICE explicit piece(uint64_t word) noexcept
            : from(wh_high_u32(word) & 0xff), end(wh_high_u32(word) >> 8), number(wh_low_u32(word)),
              log2(end > most_pieces + least_piece ? end - most_pieces : least_piece) {
        }
        WH_HOST_DEVICE uint32_t n() const noexcept { /* of how many */
            const uint32_t all = static_cast<uint32_t>(buckets_of(from, end));
            return (all >> log2) + ((all & ((1u << log2) - 1)) != 0);
        }
    };
    WH_DEVICE void clear_pieces() {
        piece p(wh_load_u64_relaxed(&pieces_));
        uint32_t done = 0;
        for (; p.number < p.n(); done++) {
            p = piece(
                WH_PLANT_ORDER(hash_map_p5_clear, wh_fetch_add_u64, acquire)(&pieces_, 1)); /* P5 */
            if (p.number >= p.n()) {
                break;
            }
            clear_piece(p);
        }
        if (done == 0 ||
            WH_PLANT_ORDER(hash_map_p3_clear, wh_fetch_add_u32, acq_rel)(&cleared_, done) + done !=
                WH_PLANT(hash_map_i6, p.n(), done)) {
            return; /* I6, P3 */
        }
        WH_PLANT_ORDER(hash_map_p3_grow, wh_store_u32, release)(&log2_, p.end); /* P3 */
        wh_store_u32_release(&growing_, idle);
    }
    WH_DEVICE void clear_piece(const piece &p) {
        const size_t all = buckets_of(p.from, p.end), first = static_cast<size_t>(p.number)
                                                              << p.log2;
        const size_t end = first + (1u << p.log2) < all ? first + (1u << p.log2) : all;
        uint64_t *segment = reinterpret_cast<uint64_t *>(wh_load_u64_relaxed(&buckets_[p.from]));
        WH_UNROLL_8
        for (size_t i = first; i < end; i++) {
            wh_store_u64_relaxed(&segment[i], 0);
        }
    }
    WH_DEVICE bool is_full(uint32_t log2) const {
        return pool_.used() >> 1 > 1u << log2 && log2 < most_buckets;
    }
    /* Whether there are many more nodes than buckets, and somebody makes more, or will as we come
     * by; false from the time on when that has taken long. */
    WH_DEVICE bool is_crowded(uint32_t attempt) const {
        return attempt < patience && pool_.used() >> 3 > 1u << wh_load_u32_relaxed(&log2_) &&
               (attempt == 0 || wh_load_u32_relaxed(&growing_) != idle);
    }

    heap_ref heap_;
    own::node_pool<node, 30> pool_;
    uint64_t buckets_[most_buckets]; /* segment k: buckets 2^k and up, from first_buckets on */
    uint64_t first_[1u << first_buckets];
    uint64_t pieces_;
    uint32_t log2_, growing_, cleared_, joined_;
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
