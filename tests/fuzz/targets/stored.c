/* Invariants of jet_stored, for any header block:
 *
 *   - what is published stands at the front and the server's lines at the end, and nothing between;
 *   - the lines alone read the same, without anything published;
 *   - a time that is read, and written out in UTC by the C library, reads the same.
 *
 * Input: a header block; it is also tried as a time.
 */
#define _DEFAULT_SOURCE
#include <time.h>

#include "fuzz.h"

static void check_block(jet_span block) {
    jet_stored s, again;
    if (!jet_stored_parse(block, &s)) return;
    CHECK(inside(s.stream, s.lines) && inside(s.subject, s.lines) && inside(s.lines, block));
    CHECK(s.lines.ptr + s.lines.len == block.ptr + block.len);
    CHECK(s.published.ptr == block.ptr);
    CHECK(memchr(s.subject.ptr, '\n', s.subject.len) == NULL);
    /* The published block may end within a line, so the name alone shows where it begins. */
    CHECK(memchr(s.stream.ptr, '\n', s.stream.len) == NULL);
    CHECK(memchr(s.stream.ptr, ' ', s.stream.len) == NULL);
    size_t front = block.len - s.lines.len;
    CHECK(s.published.len == front ||
          (s.published.len == 0 && jet_span_equal(jet_span_of(block.ptr, front),
                                                  jet_span_of((const uint8_t *)"NATS/1.0\r\n", 10))));
    CHECK(jet_stored_parse(s.lines, &again) && again.published.len == 0);
    CHECK(again.seq == s.seq && again.timestamp_ns == s.timestamp_ns);
    CHECK(again.num_pending == s.num_pending && jet_span_equal(again.subject, s.subject));
}

static void check_time(jet_span text) {
    int64_t ns, again;
    char out[64];
    struct tm tm;
    if (!jet_stored_time(text, &ns)) return;
    time_t seconds = ns / 1000000000 - (ns % 1000000000 < 0);
    CHECK(gmtime_r(&seconds, &tm) != NULL);
    size_t n = strftime(out, sizeof out, "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(out + n, sizeof out - n, ".%09dZ", (int)(ns - seconds * 1000000000));
    /* An offset may lead over the edge of what is read. */
    if (tm.tm_year >= -222 && tm.tm_year <= 361)
        CHECK(jet_stored_time(jet_span_of((uint8_t *)out, n), &again) && again == ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    jet_span s = jet_span_of(data, size);
    check_block(s);
    check_time(s);
    return 0;
}
