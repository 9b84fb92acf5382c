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

/* Read a whole span as an unsigned decimal. Returns 0 for empty, non-digits or overflow. */
static inline int jet_scan_u64(jet_span s, uint64_t *out) {
    if (s.len == 0 || s.len > 20) return 0;
    uint64_t value = 0;
    for (size_t i = 0; i < s.len; i++) {
        unsigned digit = (unsigned)s.ptr[i] - '0';
        if (digit > 9) return 0;
        /* 19 digits always fit. */
        if (i == 19 && value > (UINT64_MAX - digit) / 10) return 0;
        value = value * 10 + digit;
    }
    *out = value;
    return 1;
}

/* Read the digits at the start of a span; returns how many there were (0: none, or overflow). */
static inline size_t jet_scan_leading_u64(jet_span s, uint64_t *out) {
    size_t n = 0;
    while (n < s.len && n < 20 && (unsigned)s.ptr[n] - '0' <= 9) n++;
    return jet_scan_u64(jet_span_of(s.ptr, n), out) ? n : 0;
}

/* The first blank in p .. end, or `end`. Bytes up to `limit` (which is `end` or behind it) may be
 * read. Eight at a time: a byte below 0x21 is a blank, or one of the rare others that end no token. */
static inline const uint8_t *jet_find_blank(const uint8_t *p, const uint8_t *end,
                                            const uint8_t *limit) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    while (limit - p >= 8) {
        uint64_t word, low;
        memcpy(&word, p, 8);
        /* The lowest of these bits is exact: borrowing goes upwards. */
        low = (word - 0x2121212121212121u) & ~word & 0x8080808080808080u;
        if (low == 0) {
            p += 8;
            continue;
        }
        p += __builtin_ctzll(low) / 8;
        if (p >= end) return end;
        if (jet_is_blank(*p)) return p;
        p++;
    }
#endif
    while (p < end && !jet_is_blank(*p)) p++;
    return p < end ? p : end;
}

/* Split off the next token of a line; runs of blanks are one separator. Returns 0 at the end. Bytes
 * behind the line, up to `limit`, may be read. */
static inline int jet_scan_token(jet_span *rest, const uint8_t *limit, jet_span *token) {
    const uint8_t *p = rest->ptr;
    const uint8_t *end = p + rest->len;
    while (p < end && jet_is_blank(*p)) p++;
    if (p == end) {
        *rest = jet_span_of(end, 0);
        return 0;
    }
    const uint8_t *start = p;
    p = jet_find_blank(p, end, limit);
    *token = jet_span_of(start, (size_t)(p - start));
    *rest = jet_span_of(p, (size_t)(end - p));
    return 1;
}

#endif
