/* A tiny test harness: a failed check prints where and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jet.h"
#include "jet_scan.h"

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

/* A span over a string literal; embedded NULs count. */
#define S(text) jet_span_of((const uint8_t *)("" text), sizeof(text) - 1)

static inline int same(jet_span a, jet_span b) { return jet_span_equal(a, b); }

static inline jet_span content(const jet_buf *b) {
    /* A buffer that was never used has no address to count from. */
    return jet_buf_len(b) ? jet_span_of(jet_buf_ptr(b), jet_buf_len(b)) : jet_span_of(NULL, 0);
}

/* A copy of exact size on the heap, so that the sanitizer sees any read beyond its end. */
static inline jet_span fenced(jet_span s) {
    uint8_t *p = malloc(s.len ? s.len : 1);
    if (s.len) memcpy(p, s.ptr, s.len);
    return jet_span_of(p, s.len);
}

static inline void unfence(jet_span s) { free((void *)s.ptr); }

/* The library under test allocates through these (see alloc.c). */
void fail_allocation(int nth); /* 1: the next one; 0: none fails any more */

/* One function per suite; each ends the program when something is wrong. */
void suite_blake2(void);
void suite_buf(void);
void suite_chain(void);
void suite_columns(void);
void suite_encode(void);
void suite_golden(const char *path);
void suite_header(void);
void suite_jsack(void);
void suite_lines(void);
void suite_parser(void);
void suite_puback(void);
void suite_slots(void);
void suite_token(void);
void suite_stored(void);
void suite_subject(void);
void suite_tally(void);
void suite_inbound(void);
void suite_outbound(void);
void suite_queue(void);
void suite_heartbeats(void);
void suite_keep(void);
void suite_reader_turn(void);
void suite_resend(void);
void suite_send(void);
void suite_sync(void);
void suite_turn(void);
void suite_wakeup(void);
void suite_utf8(void);
void suite_websocket(void);
void suite_websocket_link(void);

#endif
