/* Invariants of jet_jsack, for any reply subject:
 *
 *   - it is an acknowledgement only with the prefix and 9, or 11 and more, tokens, none empty;
 *   - the fields lie inside the subject, in order, and a domain is never "_";
 *   - the two sequences are the same when they alone are read;
 *   - writing the fields down again gives back the subject, but for leading zeros and the tail.
 */
#include "fuzz.h"

static int put_number(jet_buf *b, uint64_t n) {
    uint8_t text[21] = ".";
    return jet_buf_append(b, text, 1 + jet_encode_u64(text + 1, n)) == JET_OK;
}

static int put_token(jet_buf *b, jet_span s) {
    return jet_buf_append(b, ".", 1) == JET_OK && jet_buf_append(b, s.ptr, s.len) == JET_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    jet_span reply = jet_span_of(data, size);
    jet_jsack a, b;
    jet_buf again;
    size_t tokens = 1;
    uint64_t stream_seq, consumer_seq;
    int two = jet_jsack_sequences(reply, &stream_seq, &consumer_seq) == JET_OK;
    if (jet_jsack_parse(reply, &a) != JET_OK) return 0;
    CHECK(two && stream_seq == a.stream_seq && consumer_seq == a.consumer_seq);
    for (size_t i = 0; i < size; i++) tokens += data[i] == '.';
    CHECK(memcmp(data, "$JS.ACK.", 8) == 0 && (tokens == 9 || tokens >= 11));
    CHECK(inside(a.domain, reply) && inside(a.account_hash, reply));
    CHECK(inside(a.stream, reply) && inside(a.consumer, reply));
    CHECK(a.stream.len && a.consumer.len && a.stream.ptr + a.stream.len + 1 == a.consumer.ptr);
    CHECK(!(a.domain.len == 1 && a.domain.ptr[0] == '_') && a.timestamp_ns >= 0);
    CHECK((tokens == 9) == (a.account_hash.len == 0));

    jet_buf_init(&again);
    CHECK(jet_buf_append(&again, "$JS.ACK", 7) == JET_OK);
    if (tokens > 9) {
        jet_span none = jet_span_of((const uint8_t *)"_", 1);
        CHECK(put_token(&again, a.domain.len ? a.domain : none));
        CHECK(put_token(&again, a.account_hash));
    }
    CHECK(put_token(&again, a.stream) && put_token(&again, a.consumer));
    CHECK(put_number(&again, a.num_delivered) && put_number(&again, a.stream_seq));
    CHECK(put_number(&again, a.consumer_seq) && put_number(&again, (uint64_t)a.timestamp_ns));
    CHECK(put_number(&again, a.num_pending));
    CHECK(jet_jsack_parse(content(&again), &b) == JET_OK);
    CHECK(jet_span_equal(a.stream, b.stream) && jet_span_equal(a.consumer, b.consumer));
    CHECK(jet_span_equal(a.domain, b.domain) && jet_span_equal(a.account_hash, b.account_hash));
    CHECK(a.num_delivered == b.num_delivered && a.stream_seq == b.stream_seq);
    CHECK(a.consumer_seq == b.consumer_seq && a.timestamp_ns == b.timestamp_ns);
    CHECK(a.num_pending == b.num_pending);
    jet_buf_free(&again);
    return 0;
}
