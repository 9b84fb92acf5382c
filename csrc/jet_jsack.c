#include "jet_jsack.h"

#include <string.h>

#include "jet_scan.h"

#define NAMES 4
#define NUMBERS 5

static const char PREFIX[] = "$JS.ACK.";
#define PREFIX_LEN (sizeof PREFIX - 1)

int jet_jsack_is_reply(jet_span reply) {
    return reply.len > PREFIX_LEN && memcmp(reply.ptr, PREFIX, PREFIX_LEN) == 0;
}

/* The tokens behind the prefix. Returns 0 when that is missing. */
static int begin(jet_span reply, jet_span *rest) {
    if (!jet_jsack_is_reply(reply)) return 0;
    *rest = jet_span_of(reply.ptr + PREFIX_LEN, reply.len - PREFIX_LEN);
    return 1;
}

static const uint8_t *find_dot(jet_span s) { return s.len ? memchr(s.ptr, '.', s.len) : NULL; }

static jet_span from(jet_span s, const uint8_t *p) {
    return jet_span_of(p, (size_t)(s.ptr + s.len - p));
}

/* Read so many names and then so many numbers, with dots between them. Returns 0 for another shape.
 * `rest` begins behind the last number. */
static int cut_tokens(jet_span *rest, size_t names, jet_span name[], size_t numbers,
                      uint64_t number[]) {
    jet_span s = *rest;
    for (size_t i = 0; i < names; i++) {
        const uint8_t *dot = find_dot(s);
        if (dot == NULL || dot == s.ptr) return 0;
        name[i] = jet_span_of(s.ptr, (size_t)(dot - s.ptr));
        s = from(s, dot + 1);
    }
    for (size_t i = 0; i < numbers; i++) {
        if (i) {
            if (s.len == 0 || s.ptr[0] != '.') return 0;
            s = from(s, s.ptr + 1);
        }
        size_t n = jet_scan_leading_u64(s, &number[i]);
        if (n == 0) return 0;
        s = from(s, s.ptr + n);
    }
    *rest = s;
    return 1;
}

/* Whether what follows the last number is nothing, or more tokens. */
static int is_rest(jet_span s) {
    if (s.len && s.ptr[0] != '.') return 0;
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] == '.' && (i + 1 == s.len || s.ptr[i + 1] == '.')) return 0;
    return 1;
}

jet_status jet_jsack_parse(jet_span reply, jet_jsack *out) {
    /* Behind the prefix v1 has 7 tokens; v2 has 9 or more: two more names first, others at the end. */
    jet_span name[NAMES], tokens, rest;
    const jet_span *names = name;
    uint64_t number[NUMBERS];
    if (!begin(reply, &tokens)) return JET_ERR_TOKENS;
    out->domain = out->account_hash = jet_span_of(NULL, 0);
    rest = tokens;
    if (!cut_tokens(&rest, 2, name, NUMBERS, number) || rest.len) {
        rest = tokens;
        if (!cut_tokens(&rest, 4, name, NUMBERS, number) || !is_rest(rest)) return JET_ERR_TOKENS;
        if (!(name[0].len == 1 && name[0].ptr[0] == '_')) out->domain = name[0];
        out->account_hash = name[1];
        names += 2;
    }
    if (number[3] > INT64_MAX) return JET_ERR_TOKENS;
    out->stream = names[0];
    out->consumer = names[1];
    out->num_delivered = number[0];
    out->stream_seq = number[1];
    out->consumer_seq = number[2];
    out->timestamp_ns = (int64_t)number[3];
    out->num_pending = number[4];
    return JET_OK;
}

jet_status jet_jsack_sequences(jet_span reply, uint64_t *stream_seq, uint64_t *consumer_seq) {
    jet_span name[2], rest;
    uint64_t number[3];
    if (begin(reply, &rest) && cut_tokens(&rest, 2, name, 3, number) && rest.len &&
        rest.ptr[0] == '.') {
        /* Two tokens follow in v1. More of them: these were other tokens of v2. */
        const uint8_t *dot = find_dot(from(rest, rest.ptr + 1));
        if (dot && find_dot(from(rest, dot + 1)) == NULL) {
            *stream_seq = number[1];
            *consumer_seq = number[2];
            return JET_OK;
        }
    }
    jet_jsack all;
    if (jet_jsack_parse(reply, &all) != JET_OK) return JET_ERR_TOKENS;
    *stream_seq = all.stream_seq;
    *consumer_seq = all.consumer_seq;
    return JET_OK;
}
