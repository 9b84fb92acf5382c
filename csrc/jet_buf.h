/* jet_buf - growable bytes with a consumed front. The buffer owns its memory. */
#ifndef JET_BUF_H
#define JET_BUF_H

#include "jet_types.h"

typedef struct jet_buf {
    uint8_t *data; /* owned; NULL until first used */
    size_t start;  /* first byte not yet consumed */
    size_t end;    /* one past the last byte written */
    size_t cap;
} jet_buf;

static inline size_t jet_buf_len(const jet_buf *b) { return b->end - b->start; }
static inline const uint8_t *jet_buf_ptr(const jet_buf *b) { return b->data + b->start; }

void jet_buf_init(jet_buf *b);
/* Free the memory; the buffer is empty and usable afterwards. Safe to repeat. */
void jet_buf_free(jet_buf *b);
/* Make room for `n` more bytes; returns where to write them (borrowed until the next call), or
 * NULL when memory is short (the content is untouched). */
static inline uint8_t *jet_buf_reserve(jet_buf *b, size_t n) {
    uint8_t *jet_buf_grow(jet_buf *b, size_t n); /* where there is no room as it is */
    return b->data != NULL && b->cap - b->end >= n ? b->data + b->end : jet_buf_grow(b, n);
}
/* Move the content, which is shorter, into new memory of just `cap` bytes. */
jet_status jet_buf_fit(jet_buf *b, size_t cap);
/* Say that `n` of the reserved bytes were written. */
static inline void jet_buf_commit(jet_buf *b, size_t n) { b->end += n; }
/* Forget the first `n` bytes. */
void jet_buf_consume(jet_buf *b, size_t n);
/* Forget the last `n` bytes. */
void jet_buf_cut(jet_buf *b, size_t n);
/* Forget everything; keep at most `keep` bytes of memory. */
void jet_buf_clear(jet_buf *b, size_t keep);
/* Copy `n` bytes to the end. */
jet_status jet_buf_append(jet_buf *b, const void *bytes, size_t n);

#endif
