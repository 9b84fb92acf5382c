/* Invariants of jet_encode_sift, for any row of frames that waited for a new link:
 *
 *   - messages over the limit are dropped and counted, lines of other kinds are dropped where they
 *     are not wanted, and everything else stays as it was, whole and in its order;
 *   - sifting again changes nothing.
 *
 * Input: the limit, then for each frame what it is, its size, and now and then consuming one.
 */
#include "fuzz.h"

enum { LINE = JET_MAX_CONTROL_LINE };

static const uint8_t text[600] = "hello\r\nPUB x 0\r\n\r\nPING\r\n"; /* zeros follow */

static jet_span bytes_at(size_t at, size_t n) { return jet_span_of(text + at, n); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const jet_span none;
    static const char header_text[] = "NATS/1.0\r\nA: 1\r\n\r\n";
    jet_span rest = jet_span_of(data, size < 400 ? size : 400);
    jet_span subject = jet_span_of((const uint8_t *)"s7", 2);
    jet_span header = jet_span_of((const uint8_t *)header_text, sizeof header_text - 1);
    jet_buf all, wanted, one;
    size_t limit = cut_byte(&rest) * 2, over = 0;
    int lines = (limit & 2) != 0;
    jet_buf_init(&all);
    jet_buf_init(&wanted);
    jet_buf_init(&one);
    /* A buffer whose front was consumed, as one that was being sent has it. */
    CHECK(jet_buf_append(&all, text, 1 + limit) == JET_OK);
    while (rest.len) {
        unsigned what = cut_byte(&rest) % 7;
        size_t n = cut_byte(&rest) * 2;
        int keep = 1;
        switch (what) {
        case 0: CHECK(jet_encode_pub(&one, subject, none, none, bytes_at(n % 30, n), LINE) == JET_OK); break;
        case 1: CHECK(jet_encode_pub(&one, subject, subject, header, bytes_at(0, n), LINE) == JET_OK); break;
        case 2: CHECK(jet_encode_answer(&one, subject, none, bytes_at(5, n), LINE) == JET_OK); break;
        case 3: CHECK(jet_encode_sub(&one, subject, none, n, LINE) == JET_OK); break;
        case 4: CHECK(jet_encode_unsub(&one, n, n % 3) == JET_OK); break;
        case 5: CHECK(jet_encode_ping(&one) == JET_OK); break;
        default: CHECK(jet_encode_pong(&one) == JET_OK);
        }
        if (what < 3) {
            keep = n + (what == 1 ? header.len : 0) <= limit;
            over += !keep;
        } else {
            keep = lines;
        }
        CHECK(jet_buf_append(&all, jet_buf_ptr(&one), jet_buf_len(&one)) == JET_OK);
        if (keep) CHECK(jet_buf_append(&wanted, jet_buf_ptr(&one), jet_buf_len(&one)) == JET_OK);
        jet_buf_clear(&one, SIZE_MAX); /* its memory is used again */
        CHECK(jet_buf_len(&one) == 0);
    }
    jet_buf_free(&one);
    jet_buf_consume(&all, 1 + limit);
    CHECK(jet_encode_sift(&all, limit, lines) == over);
    CHECK(jet_buf_len(&all) == jet_buf_len(&wanted));
    CHECK(jet_buf_len(&all) == 0 || jet_span_equal(content(&all), content(&wanted)));
    CHECK(jet_encode_sift(&all, limit, lines) == 0 && jet_buf_len(&all) == jet_buf_len(&wanted));
    jet_buf_free(&all);
    jet_buf_free(&wanted);
    return 0;
}
