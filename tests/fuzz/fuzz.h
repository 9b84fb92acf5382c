/* What every fuzz target shares: a check that aborts, fences, and a way to cut the input. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jet.h"
#include "jet_scan.h"

#define CHECK(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);    \
            abort();                                                                   \
        }                                                                              \
    } while (0)

/* The one function of a target. Its input is never kept. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline int inside(jet_span part, jet_span whole) {
    if (part.len == 0) return 1;
    return part.len <= whole.len && part.ptr >= whole.ptr &&
           (size_t)(part.ptr - whole.ptr) <= whole.len - part.len;
}

/* A copy of exact size on the heap: reading one byte too many is seen. */
static inline jet_span fenced(jet_span s) {
    uint8_t *p = malloc(s.len ? s.len : 1);
    if (s.len) memcpy(p, s.ptr, s.len);
    return jet_span_of(p, s.len);
}

static inline void unfence(jet_span s) { free((void *)s.ptr); }

static inline jet_span content(const jet_buf *b) {
    /* A buffer that was never used has no address to count from. */
    return jet_buf_len(b) ? jet_span_of(jet_buf_ptr(b), jet_buf_len(b)) : jet_span_of(NULL, 0);
}

/* Numbers that depend on the input and nothing else (xorshift64). */
static inline uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static inline uint64_t hash_of(jet_span s) {
    uint64_t h = 0x9E3779B97F4A7C15ull;
    for (size_t i = 0; i < s.len; i++) h = (h ^ s.ptr[i]) * 0x100000001B3ull;
    return h | 1;
}

/* Cut the first n bytes off, or all there are. */
static inline jet_span cut(jet_span *rest, size_t n) {
    if (n > rest->len) n = rest->len;
    jet_span s = jet_span_of(rest->ptr, n);
    rest->ptr += n;
    rest->len -= n;
    return s;
}

/* Cut one byte off; 0 when there is none. */
static inline unsigned cut_byte(jet_span *rest) {
    jet_span s = cut(rest, 1);
    return s.len ? s.ptr[0] : 0;
}

#endif
