/* hpp/chars.hpp: numbers as text, in kernels. Part of warpheap.hpp; include that. Host and device;
 * no memory, no locale, and the same text everywhere.
 *
 * Source  floats: G. Steele and J. White, "How to print floating-point numbers accurately", PLDI
 *         1990, for a given number of digits: the number as a fraction of two large integers, of
 *         which each digit is the next quotient. So all digits are right, and the last one is
 *         rounded half to even
 * Check   tests/cpp/string.cpp, against printf
 */
#ifndef WH_HPP_CHARS_HPP
#define WH_HPP_CHARS_HPP

#include "warpheap/hpp/base.hpp"

#include "warpheap/detail/simt/begin.h"

namespace wh {
inline namespace WH_HPP_KIND {

/* What a number can take at most, of to_chars. */
constexpr size_t most_chars = 32;

namespace own {

/* An integer of up to 1,280 bits: 17 digits of any double want 1,134. */
struct wide {
    static constexpr uint32_t most = 40;
    uint32_t n = 0; /* words that are not zero, or below one that is not */
    uint32_t word[most];

    WH_HOST_DEVICE explicit wide(uint64_t v) {
        for (; v != 0; v >>= 32) {
            word[n++] = static_cast<uint32_t>(v);
        }
    }
    WH_HOST_DEVICE void times(uint32_t factor) {
        uint64_t carry = 0;
        for (uint32_t i = 0; i < n; i++) {
            carry += static_cast<uint64_t>(word[i]) * factor;
            word[i] = static_cast<uint32_t>(carry);
            carry >>= 32;
        }
        if (carry != 0) {
            wh_assert_internal(n < most);
            word[n++] = static_cast<uint32_t>(carry);
        }
    }
    WH_HOST_DEVICE void times_power_of_10(uint32_t k) {
        for (; k >= 9; k -= 9) {
            times(1000000000);
        }
        for (; k > 0; k--) {
            times(10);
        }
    }
    WH_HOST_DEVICE void times_power_of_2(uint32_t k) {
        for (; k >= 31; k -= 31) {
            times(1u << 31);
        }
        times(1u << k);
    }
    /* Below 0: less than other; 0: the same. */
    WH_HOST_DEVICE int compare(const wide &other) const {
        if (n != other.n) {
            return n < other.n ? -1 : 1;
        }
        uint32_t i = n;
        while (i > 0 && word[i - 1] == other.word[i - 1]) {
            i--;
        }
        if (i == 0) {
            return 0;
        }
        return word[i - 1] < other.word[i - 1] ? -1 : 1;
    }
    /* Less other, which is not larger. */
    WH_HOST_DEVICE void minus(const wide &other) {
        uint32_t borrow = 0;
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t take = static_cast<uint64_t>(i < other.n ? other.word[i] : 0) + borrow;
            borrow = word[i] < take;
            word[i] = static_cast<uint32_t>(word[i] - take);
        }
        while (n > 0 && word[n - 1] == 0) {
            n--;
        }
    }
};

/* The digits of m * 2^e, m not 0, rounded to n of them: text gets n characters. Returns the power
 * of ten of the first one. */
WH_HOST_DEVICE inline int digits_of(uint64_t m, int e, uint32_t n, char *text) {
    wide above(m), below(1);
    if (e >= 0) {
        above.times_power_of_2(static_cast<uint32_t>(e));
    } else {
        below.times_power_of_2(static_cast<uint32_t>(-e));
    }
    const int bits = e + 63 - static_cast<int>(wh_clz64(m));
    int k = (bits * 1233 - (bits < 0 ? 4095 : 0)) / 4096; /* log10, or one less or more */
    if (k >= 0) {
        below.times_power_of_10(static_cast<uint32_t>(k));
    } else {
        above.times_power_of_10(static_cast<uint32_t>(-k));
    }
    while (above.compare(below) < 0) {
        above.times(10);
        k--;
    }
    for (wide next = below; next.times(10), above.compare(next) >= 0; below = next) {
        k++;
    }
    for (uint32_t i = 0; i < n; i++) {
        text[i] = '0';
        for (; above.compare(below) >= 0; above.minus(below)) {
            text[i]++;
        }
        above.times(i + 1 < n ? 10 : 2);
    }
    const int half = above.compare(below);
    uint32_t i = n;
    if (half > 0 || (half == 0 && WH_PLANT(chars_even, (text[n - 1] & 1) != 0, true))) {
        while (i > 0 && text[i - 1] == WH_PLANT(chars_carry, '9', '8')) {
            text[--i] = '0';
        }
        if (i == 0) { /* 999 becomes 1000 */
            text[0] = '1';
            k++;
        } else {
            text[i - 1]++;
        }
    }
    return k;
}

/* Text with an end that is not run over. */
struct writer {
    char *at, *end;
    bool fits = true;

    WH_HOST_DEVICE void put(char c) {
        if (at < end) {
            *at++ = c;
        } else {
            fits = false;
        }
    }
    WH_HOST_DEVICE void put(const char *text) {
        for (; *text != 0; text++) {
            put(*text);
        }
    }
    WH_HOST_DEVICE void put(uint64_t v, uint32_t base, uint32_t least) {
        char digit[64];
        uint32_t n = 0;
        do {
            digit[n++] = "0123456789abcdef"[v % base];
            v /= base;
        } while (v != 0);
        for (; least > n; least--) {
            put('0');
        }
        while (n > 0) {
            put(digit[--n]);
        }
    }
    /* n digits whose first one has the power of ten k, as printf's %g. */
    WH_HOST_DEVICE void put_digits(const char *digit, uint32_t n, uint32_t precision, int k) {
        if (k < -4 || k >= static_cast<int>(precision)) {
            put(digit[0]);
            put_fraction(digit + 1, n - 1);
            put(k < 0 ? "e-" : "e+");
            put(static_cast<uint64_t>(k < 0 ? -k : k), 10, 2);
        } else if (k < 0) {
            put("0.");
            for (int i = -1; i > k; i--) {
                put('0');
            }
            for (uint32_t i = 0; i < n; i++) {
                put(digit[i]);
            }
        } else {
            const uint32_t whole = static_cast<uint32_t>(k) + 1;
            for (uint32_t i = 0; i < whole; i++) {
                put(i < n ? digit[i] : '0');
            }
            put_fraction(digit + whole, n > whole ? n - whole : 0);
        }
    }
    WH_HOST_DEVICE void put_fraction(const char *digit, uint32_t n) {
        if (n > 0) {
            put('.');
        }
        for (uint32_t i = 0; i < n; i++) {
            put(digit[i]);
        }
    }
};

} // namespace own

/* These write a number to [first, last), without a zero behind it, and return where it ends;
 * nullptr: there is no room, and what lies there is undefined. At most most_chars characters. */

/* Of any type of integer: what is narrower becomes an int. */
WH_HOST_DEVICE inline char *to_chars(char *first, char *last, unsigned long long v) {
    own::writer w{first, last};
    w.put(v, 10, 1);
    return w.fits ? w.at : nullptr;
}
WH_HOST_DEVICE inline char *to_chars(char *first, char *last, unsigned long v) {
    return to_chars(first, last, static_cast<unsigned long long>(v));
}
WH_HOST_DEVICE inline char *to_chars(char *first, char *last, unsigned v) {
    return to_chars(first, last, static_cast<unsigned long long>(v));
}
WH_HOST_DEVICE inline char *to_chars(char *first, char *last, long long v) {
    own::writer w{first, last};
    if (v < 0) {
        w.put('-');
    }
    w.put(v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v), 10, 1);
    return w.fits ? w.at : nullptr;
}
WH_HOST_DEVICE inline char *to_chars(char *first, char *last, long v) {
    return to_chars(first, last, static_cast<long long>(v));
}
WH_HOST_DEVICE inline char *to_chars(char *first, char *last, int v) {
    return to_chars(first, last, static_cast<long long>(v));
}
/* In base 16, of at least `least` digits, zeros in front. */
WH_HOST_DEVICE inline char *to_chars_hex(char *first, char *last, uint64_t v, uint32_t least = 1) {
    own::writer w{first, last};
    w.put(v, 16, least);
    return w.fits ? w.at : nullptr;
}
/* As printf with %.<digits>g: that many digits from the first one that is not 0, 1 to 17 (others
 * are cut to these), without zeros at the end, with an exponent if it is below -4 or not below
 * digits. 17 tell all doubles apart, 9 all floats. inf, -inf, nan. Cost: some hundred instructions
 * for a number near 1, some ten thousand for the largest and smallest; 640 bytes of local memory.
 */
WH_HOST_DEVICE inline char *to_chars(char *first, char *last, double v, uint32_t digits = 6) {
    own::writer w{first, last};
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof v; i++) {
        reinterpret_cast<unsigned char *>(&bits)[i] =
            reinterpret_cast<const unsigned char *>(&v)[i];
    }
    const uint64_t fraction = bits & ((static_cast<uint64_t>(1) << 52) - 1);
    const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
    if (exponent == 0x7ff && fraction != 0) {
        w.put("nan");
        return w.fits ? w.at : nullptr;
    }
    if (bits >> 63 != 0) {
        w.put('-');
    }
    if (exponent == 0x7ff) {
        w.put("inf");
    } else if (exponent == 0 && fraction == 0) {
        w.put('0');
    } else {
        char text[17];
        uint32_t n = digits > 17 ? 17 : digits;
        n = n == 0 ? 1 : n;
        const uint64_t m = exponent == 0 ? fraction : fraction | static_cast<uint64_t>(1) << 52;
        const int k = own::digits_of(m, (exponent == 0 ? 1 : exponent) - 1075, n, text);
        uint32_t kept = n;
        while (kept > 1 && text[kept - 1] == '0') {
            kept--;
        }
        w.put_digits(text, kept, n, k);
    }
    return w.fits ? w.at : nullptr;
}

} // namespace WH_HPP_KIND
} // namespace wh

#include "warpheap/detail/simt/end.h"

#endif
