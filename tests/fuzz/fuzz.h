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

/* Memory of exact size: reading one byte too many on either side is seen, and so is reading what was
 * given back, until as much as FENCES was taken since. */
#ifdef __has_feature
#define FENCED_BY_HAND __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define FENCED_BY_HAND 1
#else
#define FENCED_BY_HAND 0
#endif

#if FENCED_BY_HAND
/* With the address sanitizer malloc and free cost as much as all that most targets do with an input.
 * So this comes from one ring that is forbidden but for what is in use. */
#include <sanitizer/asan_interface.h>

enum { FENCES = 1 << 18, FENCE_STEP = 16 };

static _Alignas(FENCE_STEP) uint8_t fences[FENCES];
static size_t fences_end, fences_used;

static inline size_t fence_room(size_t n) { return (n / FENCE_STEP + 2) * FENCE_STEP; }

static inline uint8_t *fence(size_t n) {
    size_t room = fence_room(n);
    if (fences_end == 0) __asan_poison_memory_region(fences, FENCES);
    if (room > FENCES - fences_end && fences_used == 0) fences_end = 0;
    if (n > FENCES / 2 || room > FENCES - fences_end) return malloc(n ? n : 1);
    uint8_t *p = fences + fences_end + FENCE_STEP;
    fences_end += room;
    fences_used++;
    __asan_unpoison_memory_region(p, n);
    return p;
}

static inline void unfence(jet_span s) {
    uint8_t *p = (uint8_t *)s.ptr;
    if (p < fences || p >= fences + FENCES) {
        free(p);
        return;
    }
    fences_used--;
    __asan_poison_memory_region(p, fence_room(s.len) - FENCE_STEP);
}
#else
static inline uint8_t *fence(size_t n) { return malloc(n ? n : 1); }

static inline void unfence(jet_span s) { free((void *)s.ptr); }
#endif

/* A copy in such memory. */
static inline jet_span fenced(jet_span s) {
    uint8_t *p = fence(s.len);
    if (s.len) memcpy(p, s.ptr, s.len);
    return jet_span_of(p, s.len);
}

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
