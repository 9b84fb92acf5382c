/* Inline scanning helpers: numbers and tokens. They never read outside the span. */
#ifndef JET_SCAN_H
#define JET_SCAN_H

#include <string.h>

#include "jet_types.h"

static inline jet_span jet_span_of(const uint8_t *ptr, size_t len) {
    jet_span s = {ptr, len};
    return s;
}

static inline int jet_span_equal(jet_span a, jet_span b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline int jet_is_blank(uint8_t c) { return c == ' ' || c == '\t'; }

/* Read eight digits at once. Returns 0 when there is another byte among them. */
static inline int jet_scan_eight_digits(const uint8_t *p, uint64_t *out) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t word;
    memcpy(&word, p, 8);
    const uint64_t high = 0xf0f0f0f0f0f0f0f0u, digits = 0x3030303030303030u;
    if ((word & high) != digits || ((word + 0x0606060606060606u) & high) != digits) return 0;
    word = (word & 0x0f0f0f0f0f0f0f0fu) * (10 * 256 + 1) >> 8; /* pairs, then fours, then all */
    word = (word & 0x00ff00ff00ff00ffu) * (100 * 65536 + 1) >> 16;
    *out = (word & 0x0000ffff0000ffffu) * (10000 * 4294967296u + 1) >> 32;
    return 1;
#else
    (void)p, (void)out;
    return 0;
#endif
}

/* Read the digits at the start of a span, 20 at most; returns how many there were (0: none, or
 * overflow). */
static inline size_t jet_scan_leading_u64(jet_span s, uint64_t *out) {
    uint64_t value = 0, eight;
    size_t n = 0, fits = s.len < 19 ? s.len : 19; /* 19 digits always fit */
    for (; fits - n >= 8 && jet_scan_eight_digits(s.ptr + n, &eight); n += 8)
        value = value * 100000000 + eight;
    for (; n < fits; n++) {
        unsigned digit = (unsigned)s.ptr[n] - '0';
        if (digit > 9) break;
        value = value * 10 + digit;
    }
    if (n == 19 && s.len > 19 && (unsigned)s.ptr[19] - '0' <= 9) {
        unsigned digit = (unsigned)s.ptr[19] - '0';
        if (value > (UINT64_MAX - digit) / 10) return 0;
        value = value * 10 + digit;
        n = 20;
    }
    if (n) *out = value;
    return n;
}

/* Read a whole span as an unsigned decimal. Returns 0 for empty, non-digits or overflow. */
static inline int jet_scan_u64(jet_span s, uint64_t *out) {
    uint64_t value;
    if (s.len == 0 || jet_scan_leading_u64(s, &value) != s.len) return 0;
    *out = value;
    return 1;
}

/* The first byte in p .. end that is a blank or below one (CR, LF, TAB ...), or NULL when there is
 * none. Looks at eight bytes at a time, so it may miss one among the last seven. */
static inline const uint8_t *jet_find_blank(const uint8_t *p, const uint8_t *end) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (size_t words = (size_t)(end - p) / 8; words; words--, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        /* The lowest of these bits is exact: borrowing goes upwards. */
        uint64_t low = (word - 0x2121212121212121u) & ~word & 0x8080808080808080u;
        if (low) return p + __builtin_ctzll(low) / 8;
    }
#else
    for (; p < end; p++)
        if (*p <= ' ') return p;
#endif
    return NULL;
}

/* Split off the next token of a line; runs of blanks are one separator. Returns 0 at the end. */
static inline int jet_scan_token(jet_span *rest, jet_span *token) {
    const uint8_t *p = rest->ptr;
    const uint8_t *end = p + rest->len;
    while (p < end && jet_is_blank(*p)) p++;
    const uint8_t *start = p;
    while (p < end && !jet_is_blank(*p)) p++;
    *token = jet_span_of(start, (size_t)(p - start));
    *rest = jet_span_of(p, (size_t)(end - p));
    return token->len > 0;
}

#endif
