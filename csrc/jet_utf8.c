#include "jet_utf8.h"

#include <string.h>

static int continuation(uint8_t c) { return (c & 0xC0) == 0x80; }

/* Length of the valid sequence at `p`, or 0. Overlong forms and surrogates are invalid. */
static size_t sequence(const uint8_t *p, size_t left) {
    uint8_t c = p[0];
    if (c < 0x80) return 1;
    if (c >= 0xC2 && c <= 0xDF) return left >= 2 && continuation(p[1]) ? 2 : 0;
    if ((c & 0xF0) == 0xE0) {
        if (left < 3 || !continuation(p[1]) || !continuation(p[2])) return 0;
        if (c == 0xE0 && p[1] < 0xA0) return 0;
        if (c == 0xED && p[1] > 0x9F) return 0;
        return 3;
    }
    if (c >= 0xF0 && c <= 0xF4) {
        if (left < 4 || !continuation(p[1]) || !continuation(p[2]) || !continuation(p[3])) return 0;
        if (c == 0xF0 && p[1] < 0x90) return 0;
        if (c == 0xF4 && p[1] > 0x8F) return 0;
        return 4;
    }
    return 0;
}

static int all_ascii(jet_span s) {
    size_t i = 0;
    for (; i + 8 <= s.len; i += 8) {
        uint64_t word;
        memcpy(&word, s.ptr + i, 8);
        if (word & 0x8080808080808080ull) return 0;
    }
    for (; i < s.len; i++)
        if (s.ptr[i] & 0x80) return 0;
    return 1;
}

/* One walk for both: measure when `to` is NULL. */
static size_t walk(jet_span s, uint8_t *to) {
    size_t out = 0;
    for (size_t i = 0; i < s.len;) {
        size_t n = sequence(s.ptr + i, s.len - i);
        if (n) {
            if (to) memcpy(to + out, s.ptr + i, n);
            out += n;
            i += n;
        } else {
            if (to) memcpy(to + out, "\xEF\xBF\xBD", 3);
            out += 3;
            i += 1;
        }
    }
    return out;
}

size_t jet_utf8_lossy_len(jet_span s) { return all_ascii(s) ? s.len : walk(s, NULL); }

size_t jet_utf8_lossy_copy(jet_span s, uint8_t *to) {
    if (!all_ascii(s)) return walk(s, to);
    if (s.len) memcpy(to, s.ptr, s.len);
    return s.len;
}
