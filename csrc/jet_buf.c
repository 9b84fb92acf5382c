#include "jet_buf.h"

#include <stdlib.h>
#include <string.h>

void jet_buf_init(jet_buf *b) { memset(b, 0, sizeof *b); }

void jet_buf_free(jet_buf *b) {
    free(b->data);
    jet_buf_init(b);
}

uint8_t *jet_buf_grow(jet_buf *b, size_t n) {
    size_t len = jet_buf_len(b);
    if (n > SIZE_MAX / 2 || len > SIZE_MAX / 2 - n) return NULL;
    size_t need = len + n;
    /* Move down only when at least half of the memory is consumed: keeps appends amortised O(1). */
    if (b->data != NULL && need <= b->cap && b->start >= b->cap / 2) {
        memmove(b->data, b->data + b->start, len);
    } else {
        size_t cap = b->cap ? b->cap : 4096;
        while (cap < need) cap *= 2;
        uint8_t *data = malloc(cap);
        if (data == NULL) return NULL;
        if (len) memcpy(data, b->data + b->start, len);
        free(b->data);
        b->data = data;
        b->cap = cap;
    }
    b->start = 0;
    b->end = len;
    return b->data + b->end;
}

jet_status jet_buf_fit(jet_buf *b, size_t cap) {
    size_t len = jet_buf_len(b);
    uint8_t *data = malloc(cap);
    if (data == NULL) return JET_ERR_MEMORY;
    if (len) memcpy(data, b->data + b->start, len);
    free(b->data);
    *b = (jet_buf){data, 0, len, cap};
    return JET_OK;
}

void jet_buf_consume(jet_buf *b, size_t n) {
    b->start += n;
    if (b->start == b->end) b->start = b->end = 0;
}

void jet_buf_cut(jet_buf *b, size_t n) {
    b->end -= n;
    if (b->start == b->end) b->start = b->end = 0;
}

void jet_buf_clear(jet_buf *b, size_t keep) {
    b->start = b->end = 0;
    if (b->cap > keep) jet_buf_free(b);
}

jet_status jet_buf_append(jet_buf *b, const void *bytes, size_t n) {
    if (n == 0) return JET_OK;
    uint8_t *to = jet_buf_reserve(b, n);
    if (to == NULL) return JET_ERR_MEMORY;
    memcpy(to, bytes, n);
    jet_buf_commit(b, n);
    return JET_OK;
}
