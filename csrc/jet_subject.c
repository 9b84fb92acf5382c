#include "jet_subject.h"

#include <string.h>

#define EACH(byte) (0x0101010101010101u * (byte))

/* Not 0 where one of eight bytes is zero. */
static inline uint64_t has_zero(uint64_t w) { return (w - EACH(1)) & ~w & EACH(0x80); }

static inline uint64_t eight_at(const uint8_t *p) {
    uint64_t w;
    memcpy(&w, p, 8);
    return w;
}

/* Not 0 where one of eight bytes is a control character or a blank. */
static inline uint64_t has_unsafe(uint64_t w) {
    return ((w - EACH(0x21)) & ~w & EACH(0x80)) | has_zero(w ^ EACH(0x7f));
}

/* Sixteen bytes that are compared in one step, by whatever the machine has for that. */
typedef uint8_t sixteen __attribute__((vector_size(16)));

static inline sixteen two_eights_at(const uint8_t *p, const uint8_t *q) {
    sixteen v;
    memcpy(&v, p, 8);
    memcpy((uint8_t *)&v + 8, q, 8);
    return v;
}

/* Not 0 in each byte that is a control character, a blank or in "*>". */
static inline sixteen suspects(sixteen v) {
    return (sixteen)((v <= ' ') | (v == 0x7f) | (v == '*') | (v == '>'));
}

/* Whether a subject needs no closer check: nearly all need none. */
static int is_plain(jet_span s) {
    uint64_t found[2];
    if (s.len < 8) return 0;
    const uint8_t *end = s.ptr + s.len;
    sixteen all = suspects(s.len < 16 ? two_eights_at(s.ptr, end - 8) : two_eights_at(end - 16, end - 8));
    for (size_t i = 0; i + 16 < s.len; i += 16)
        all |= suspects(two_eights_at(s.ptr + i, s.ptr + i + 8));
    memcpy(found, &all, sizeof found);
    return (found[0] | found[1]) == 0;
}

int jet_subject_is_safe(jet_span s) {
    if (s.len >= 8) {
        uint64_t unsafe = has_unsafe(eight_at(s.ptr + s.len - 8));
        for (size_t i = 0; i + 8 < s.len; i += 8) unsafe |= has_unsafe(eight_at(s.ptr + i));
        return unsafe == 0;
    }
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] <= ' ' || s.ptr[i] == 0x7f) return 0;
    return s.len > 0;
}

/* Walk the tokens once; `empty` and `wild` count what the callers decide on. */
static int tokens(jet_span s, size_t *empty, size_t *stars, size_t *inner_gt, size_t *last_gt) {
    if (!jet_subject_is_safe(s)) return 0;
    *empty = *stars = *inner_gt = *last_gt = 0;
    size_t start = 0;
    for (size_t i = 0; i <= s.len; i++) {
        if (i < s.len && s.ptr[i] != '.') continue;
        size_t n = i - start;
        if (n == 0) (*empty)++;
        if (n == 1 && s.ptr[start] == '*') (*stars)++;
        if (n == 1 && s.ptr[start] == '>') {
            if (i == s.len) (*last_gt)++;
            else (*inner_gt)++;
        }
        start = i + 1;
    }
    return 1;
}

int jet_subject_is_publishable(jet_span s) {
    if (is_plain(s)) return 1;
    size_t empty, stars, inner_gt, last_gt;
    return tokens(s, &empty, &stars, &inner_gt, &last_gt) && stars == 0 && inner_gt == 0 &&
           last_gt == 0;
}

int jet_subject_is_subscribable(jet_span s) {
    size_t empty, stars, inner_gt, last_gt;
    return tokens(s, &empty, &stars, &inner_gt, &last_gt) && empty == 0 && inner_gt == 0;
}
