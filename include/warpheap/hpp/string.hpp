/* hpp/string.hpp: wh::string, text that grows in kernels. Part of warpheap.hpp; include that.
 *
 * One thread owns it, as a vector (hpp/vector.hpp), and what is said there of memory, failures and
 * cost holds here, too: a call that wants memory returns whether there was some, and after false
 * the text is as before. There is a zero behind the text.
 *
 * Names   std::string's; append_int, append_hex and append_float put numbers behind the text
 * Check   tests/cpp
 */
#ifndef WH_HPP_STRING_HPP
#define WH_HPP_STRING_HPP

#include "warpheap/hpp/chars.hpp"
#include "warpheap/hpp/vector.hpp"

#include "warpheap/detail/simt/begin.h"

namespace wh {
inline namespace WH_HPP_KIND {

template <class Allocator = allocator<char>> class basic_string {
  public:
    using value_type = char;
    using allocator_type = Allocator;
    using iterator = char *;
    using const_iterator = const char *;

    /* An empty string, without memory so far. */
    WH_HOST_DEVICE explicit basic_string(const Allocator &from) noexcept : chars_(from) {
    }

    /* --- what there is ------------------------------------------------------------------------ */

    WH_HOST_DEVICE size_t size() const noexcept {
        return chars_.empty() ? 0 : chars_.size() - 1;
    }
    WH_HOST_DEVICE bool empty() const noexcept {
        return size() == 0;
    }
    /* Characters that there is room for, without the zero. */
    WH_HOST_DEVICE size_t capacity() const noexcept {
        return chars_.capacity() == 0 ? 0 : chars_.capacity() - 1;
    }
    /* Never nullptr. */
    WH_HOST_DEVICE const char *c_str() const noexcept {
        return chars_.empty() ? "" : chars_.data();
    }
    /* nullptr: it has no memory so far. */
    WH_HOST_DEVICE char *data() noexcept {
        return chars_.data();
    }
    WH_HOST_DEVICE const char *data() const noexcept {
        return c_str();
    }
    WH_HOST_DEVICE char &operator[](size_t i) {
        wh_assert(i < size());
        return chars_[i];
    }
    WH_HOST_DEVICE char operator[](size_t i) const {
        wh_assert(i < size());
        return chars_[i];
    }
    WH_HOST_DEVICE char back() const {
        return (*this)[size() - 1];
    }
    WH_HOST_DEVICE iterator begin() noexcept {
        return chars_.data();
    }
    WH_HOST_DEVICE const_iterator begin() const noexcept {
        return c_str();
    }
    WH_HOST_DEVICE iterator end() noexcept {
        return chars_.data() + size();
    }
    WH_HOST_DEVICE const_iterator end() const noexcept {
        return c_str() + size();
    }
    WH_HOST_DEVICE operator span<const char>() const noexcept {
        return span<const char>(c_str(), size());
    }
    WH_HOST_DEVICE Allocator get_allocator() const noexcept {
        return chars_.get_allocator();
    }
    /* Below 0, 0 or above 0, by bytes, as strcmp. */
    WH_HOST_DEVICE int compare(const char *text) const noexcept {
        const char *mine = c_str();
        size_t i = 0;
        while (mine[i] != 0 && mine[i] == text[i]) {
            i++;
        }
        return static_cast<int>(static_cast<unsigned char>(mine[i])) -
               static_cast<int>(static_cast<unsigned char>(text[i]));
    }
    WH_HOST_DEVICE friend bool operator==(const basic_string &a, const char *b) noexcept {
        return a.compare(b) == 0;
    }
    WH_HOST_DEVICE friend bool operator!=(const basic_string &a, const char *b) noexcept {
        return a.compare(b) != 0;
    }
    WH_HOST_DEVICE friend bool operator==(const basic_string &a, const basic_string &b) noexcept {
        return a.size() == b.size() && a.starts_with(b);
    }
    WH_HOST_DEVICE friend bool operator!=(const basic_string &a, const basic_string &b) noexcept {
        return !(a == b);
    }
    WH_HOST_DEVICE bool starts_with(span<const char> text) const noexcept {
        size_t i = 0;
        while (i < text.size() && i < size() && c_str()[i] == text[i]) {
            i++;
        }
        return i == text.size();
    }
    WH_HOST_DEVICE bool starts_with(const char *text) const noexcept { /* up to its zero */
        return starts_with(span_of(text));
    }

    /* --- memory ------------------------------------------------------------------------------- */

    WH_HOST_DEVICE bool reserve(size_t n) {
        return n < n + 1 && chars_.reserve(n + 1);
    }
    WH_HOST_DEVICE bool shrink_to_fit() {
        if (empty()) {
            chars_.clear();
        }
        return chars_.shrink_to_fit();
    }

    /* --- changes that want memory ------------------------------------------------------------- */

    WH_HOST_DEVICE bool push_back(char c) {
        return append(span<const char>(&c, 1));
    }
    /* The text may be a part of this string's. */
    WH_HOST_DEVICE bool append(span<const char> text) {
        const size_t n = size(), more = text.size();
        const char *from = text.data();
        const bool is_mine = n != 0 && from >= c_str() && from <= c_str() + n;
        const size_t at = is_mine ? static_cast<size_t>(from - c_str()) : 0;
        if (!make_room(n, more)) {
            return false;
        }
        (void)chars_.resize(n + more + 1);
        from = is_mine ? chars_.data() + at : from;
        for (size_t i = 0; i < more; i++) {
            chars_[n + i] = from[i];
        }
        chars_[n + more] = 0;
        return true;
    }
    WH_HOST_DEVICE bool append(const char *text) {
        return append(span_of(text));
    }
    WH_HOST_DEVICE bool append(const basic_string &other) {
        return append(span<const char>(other.c_str(), other.size()));
    }
    WH_HOST_DEVICE bool append(size_t n, char c) {
        const size_t before = size();
        if (!make_room(before, n)) {
            return false;
        }
        (void)chars_.resize(before + n + 1);
        for (size_t i = 0; i < n; i++) {
            chars_[before + i] = c;
        }
        chars_[before + n] = 0;
        return true;
    }
    /* A number of any type of integer in base 10; a floating one: to_chars of hpp/chars.hpp says
     * how it looks. */
    template <class Integer> WH_HOST_DEVICE bool append_int(Integer v) {
        static_assert(static_cast<Integer>(1) / 2 == 0, "append_float is for numbers like this");
        char text[most_chars];
        const bool is_signed = static_cast<Integer>(0) > static_cast<Integer>(-1);
        char *end = is_signed
                        ? to_chars(text, text + sizeof text, static_cast<long long>(v))
                        : to_chars(text, text + sizeof text, static_cast<unsigned long long>(v));
        return append(span<const char>(text, static_cast<size_t>(end - text)));
    }
    WH_HOST_DEVICE bool append_hex(uint64_t v, uint32_t least = 1) {
        char text[most_chars];
        char *end = to_chars_hex(text, text + sizeof text, v, least < 16 ? least : 16);
        return append(span<const char>(text, static_cast<size_t>(end - text)));
    }
    WH_HOST_DEVICE bool append_float(double v, uint32_t digits = 6) {
        char text[most_chars];
        char *end = to_chars(text, text + sizeof text, v, digits);
        return append(span<const char>(text, static_cast<size_t>(end - text)));
    }
    /* The text is that, which is not a part of this string's. */
    WH_HOST_DEVICE bool assign(span<const char> text) {
        if (!reserve(text.size())) {
            return false;
        }
        clear();
        return append(text);
    }
    WH_HOST_DEVICE bool assign(const char *text) {
        return assign(span_of(text));
    }
    WH_HOST_DEVICE bool assign(const basic_string &other) {
        return this == &other || assign(span<const char>(other));
    }
    /* n characters: those behind go, or zeros come. */
    WH_HOST_DEVICE bool resize(size_t n) {
        if (n > size()) {
            return append(n - size(), 0);
        }
        cut(n);
        return true;
    }

    /* --- changes that do not ------------------------------------------------------------------ */

    WH_HOST_DEVICE void clear() {
        cut(0);
    }
    WH_HOST_DEVICE void pop_back() {
        wh_assert(!empty());
        cut(size() - 1);
    }
    WH_HOST_DEVICE void swap(basic_string &other) noexcept {
        chars_.swap(other.chars_);
    }
    WH_HOST_DEVICE friend void swap(basic_string &a, basic_string &b) noexcept {
        a.swap(b);
    }

  private:
    /* The text up to its zero. */
    WH_HOST_DEVICE static span<const char> span_of(const char *text) noexcept {
        size_t n = 0;
        while (text[n] != 0) {
            n++;
        }
        return span<const char>(text, n);
    }
    /* For n + more characters and a zero, at least twice of what there was. */
    WH_HOST_DEVICE bool make_room(size_t n, size_t more) {
        const size_t all = n + more + 1, doubled = 2 * chars_.capacity();
        if (all <= more) {
            return false; /* there are not so many addresses */
        }
        return all <= chars_.capacity() || chars_.reserve(all < doubled ? doubled : all) ||
               chars_.reserve(all);
    }
    WH_HOST_DEVICE void cut(size_t n) {
        if (!chars_.empty()) {
            (void)chars_.resize(n + 1);
            chars_[n] = WH_PLANT(string_zero, 0, chars_[n]);
        }
    }

    vector<char, Allocator> chars_; /* empty, or the text and a zero */
};

using string = basic_string<>;

} // namespace WH_HPP_KIND
} // namespace wh

#include "warpheap/detail/simt/end.h"

#endif
