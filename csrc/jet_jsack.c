#include "jet_jsack.h"

#include <string.h>

#include "jet_scan.h"

jet_status jet_jsack_parse(jet_span reply, jet_jsack *out) {
    static const char PREFIX[] = "$JS.ACK.";
    const size_t prefix_len = sizeof PREFIX - 1;
    if (reply.len <= prefix_len || memcmp(reply.ptr, PREFIX, prefix_len) != 0) return JET_ERR_TOKENS;

    /* Tokens after "$JS.ACK": 7 in v1, 9 or more in v2. */
    jet_span token[9];
    size_t n = 0;
    const uint8_t *p = reply.ptr + prefix_len;
    const uint8_t *end = reply.ptr + reply.len;
    for (;;) {
        const uint8_t *dot = memchr(p, '.', (size_t)(end - p));
        const uint8_t *stop = dot ? dot : end;
        if (stop == p) return JET_ERR_TOKENS;
        if (n < 9) token[n] = jet_span_of(p, (size_t)(stop - p));
        n++;
        if (dot == NULL) break;
        p = dot + 1;
    }
    if (n != 7 && n < 9) return JET_ERR_TOKENS;

    memset(out, 0, sizeof *out);
    jet_span *t = token;
    if (n >= 9) {
        if (!(t[0].len == 1 && t[0].ptr[0] == '_')) out->domain = t[0];
        out->account_hash = t[1];
        t += 2;
    }
    uint64_t timestamp;
    out->stream = t[0];
    out->consumer = t[1];
    if (!jet_scan_u64(t[2], &out->num_delivered) || !jet_scan_u64(t[3], &out->stream_seq) ||
        !jet_scan_u64(t[4], &out->consumer_seq) || !jet_scan_u64(t[5], &timestamp) ||
        timestamp > INT64_MAX || !jet_scan_u64(t[6], &out->num_pending))
        return JET_ERR_TOKENS;
    out->timestamp_ns = (int64_t)timestamp;
    return JET_OK;
}
