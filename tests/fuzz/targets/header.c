/* Invariants of jet_header, for any bytes that a publisher put into a header block:
 *
 *   - reading ends, never fails, and counts every line that it leaves out;
 *   - names are not empty and have no colon, values have no blank at their ends, and both lie
 *     inside the block, in order;
 *   - a status has three digits; its text lies inside the first line;
 *   - what may be written again reads back the same; what may not leaves the buffer as it was.
 */
#include "fuzz.h"

static void check_written(jet_span name, jet_span value) {
    jet_header_iter it;
    jet_span n, v;
    jet_buf out;
    jet_buf_init(&out);
    CHECK(jet_buf_append(&out, "NATS/1.0\r\n", 10) == JET_OK);
    if (jet_header_append(&out, name, value) == JET_OK) {
        CHECK(jet_buf_append(&out, "\r\n", 2) == JET_OK);
        jet_header_begin(&it, content(&out));
        CHECK(jet_header_next(&it, &n, &v) && jet_span_equal(n, name) && jet_span_equal(v, value));
        CHECK(!jet_header_next(&it, &n, &v) && it.malformed == 0);
        CHECK(jet_header_status(content(&out)) == 0);
    } else {
        CHECK(jet_buf_len(&out) == 10);
    }
    jet_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    jet_span block = jet_span_of(data, size), name, value, found;
    jet_header_iter it;
    const uint8_t *last = data;
    size_t count = 0, lines = 1;
    int status = jet_header_status(block);
    CHECK(status == 0 || (status >= 100 && status <= 999));
    jet_span text = jet_header_description(block);
    CHECK(inside(text, block) && (status || text.len == 0));
    for (size_t i = 0; i + 1 < size; i++) lines += data[i] == '\r' && data[i + 1] == '\n';

    jet_header_begin(&it, block);
    while (jet_header_next(&it, &name, &value)) {
        count++;
        CHECK(inside(name, block) && inside(value, block) && name.ptr >= last);
        CHECK(name.len && memchr(name.ptr, ':', name.len) == NULL);
        CHECK(value.len == 0 ||
              (!jet_is_blank(value.ptr[0]) && !jet_is_blank(value.ptr[value.len - 1])));
        last = name.ptr + name.len;
        if (count <= 16) {
            CHECK(jet_header_find(block, name, &found));
            check_written(name, value);
        }
    }
    CHECK(count + it.malformed <= lines);
    /* Any two parts, as a user might pass them. */
    jet_span first = jet_span_of(data, size / 3), rest = jet_span_of(data + size / 3, size - size / 3);
    if (rest.len == 0 || (!jet_is_blank(rest.ptr[0]) && !jet_is_blank(rest.ptr[rest.len - 1])))
        check_written(first, rest);
    return 0;
}
