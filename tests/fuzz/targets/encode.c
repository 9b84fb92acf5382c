/* Invariants of jet_encode, for any subject, reply, queue, header and payload:
 *
 *   - what is refused leaves the buffer as it was;
 *   - what is accepted is exactly one line (and payload) with these parts and nothing else: read
 *     back as a subscriber would, every part is the one that went in;
 *   - no control line is longer than a server takes.
 *
 * Input: what to encode, length of the first part, length of the second part, the bytes.
 */
#include "fuzz.h"

enum { LINE = JET_MAX_CONTROL_LINE };

/* "PUB subject ..." becomes "MSG subject 1 ...", as a server passes it on. */
static void check_message(jet_span sent, jet_span subject, jet_span reply, jet_span header,
                          jet_span payload) {
    size_t verb = header.len ? 5 : 4, n = sent.len + 2;
    uint8_t *text = fence(n);
    memcpy(text, sent.ptr, verb + subject.len);
    memcpy(text + verb - 4, "MSG", 3);
    memcpy(text + verb + subject.len, " 1", 2);
    memcpy(text + verb + subject.len + 2, sent.ptr + verb + subject.len,
           sent.len - verb - subject.len);
    jet_parser p;
    jet_frame f;
    size_t used;
    jet_parser_init(&p, SIZE_MAX / 4);
    CHECK(jet_parser_next(&p, jet_span_of(text, n), &f, &used) == 1 && used == n);
    CHECK(f.op == JET_OP_MSG && f.sid == 1 && jet_span_equal(f.subject, subject));
    CHECK(jet_span_equal(f.reply, reply) && jet_span_equal(f.header, header));
    CHECK(jet_span_equal(f.payload, payload));
    CHECK(sent.len - header.len - payload.len - 4 <= JET_MAX_CONTROL_LINE);
    unfence(jet_span_of(text, n));
}

/* A line of words and its CRLF: the words are those, and there is no other line in it. */
static void check_line(jet_span sent, jet_span words[], size_t count) {
    CHECK(sent.len >= 2 && sent.len - 2 <= JET_MAX_CONTROL_LINE);
    jet_span rest = jet_span_of(sent.ptr, sent.len - 2), word;
    CHECK(memcmp(rest.ptr + rest.len, "\r\n", 2) == 0);
    CHECK(memchr(rest.ptr, '\n', rest.len) == NULL && memchr(rest.ptr, '\r', rest.len) == NULL);
    for (size_t i = 0; i < count; i++)
        if (words[i].len) CHECK(jet_scan_token(&rest, &word) && jet_span_equal(word, words[i]));
    CHECK(!jet_scan_token(&rest, &word));
}

static jet_span number(uint8_t text[20], uint64_t n) {
    return jet_span_of(text, jet_encode_u64(text, n));
}

/* A subject about as long as a line may be. */
static const uint8_t *text_of(size_t n) {
    static uint8_t text[4096];
    memset(text, 's', n);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const jet_span none;
    jet_span rest = jet_span_of(data, size);
    uint64_t sid = hash_of(rest);
    unsigned what = cut_byte(&rest) % 5, first = cut_byte(&rest), second = cut_byte(&rest);
    jet_span a = cut(&rest, first), b = cut(&rest, second), c = rest;
    if (first > 240) a = jet_span_of(text_of(4096), 4096 - sid % 300);
    uint8_t text[2][20];
    jet_buf out;
    jet_buf_init(&out);
    CHECK(jet_buf_append(&out, "PING\r\n", 6) == JET_OK); /* an innocent neighbour */
    jet_status status;
    switch (what) {
    case 0: status = jet_encode_pub(&out, a, b, none, c, LINE); break;
    case 1: status = jet_encode_pub(&out, a, b, c, none, LINE); break;
    case 2: status = jet_encode_answer(&out, a, b, c, LINE); break;
    case 3: status = jet_encode_sub(&out, a, b, sid, LINE); break;
    default: status = jet_encode_unsub(&out, sid, first); break;
    }
    CHECK(memcmp(jet_buf_ptr(&out), "PING\r\n", 6) == 0);
    jet_span sent = jet_span_of(jet_buf_ptr(&out) + 6, jet_buf_len(&out) - 6);
    if (status != JET_OK) {
        CHECK(status == JET_ERR_SUBJECT || status == JET_ERR_LINE);
        CHECK(sent.len == 0);
    } else if (what == 3) {
        jet_span words[] = {jet_span_of((const uint8_t *)"SUB", 3), a, b, number(text[0], sid)};
        check_line(sent, words, 4);
    } else if (what == 4) {
        jet_span words[] = {jet_span_of((const uint8_t *)"UNSUB", 5), number(text[0], sid),
                            first ? number(text[1], first) : none};
        check_line(sent, words, 3);
    } else {
        check_message(sent, a, b, what == 1 ? c : none, what == 1 ? none : c);
    }
    jet_buf_free(&out);
    return 0;
}
