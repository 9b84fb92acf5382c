/* Invariants of jet_puback, for any text that a publish is answered with:
 *
 *   - only a flat object that ends with the text is taken, and never one with a member "error";
 *   - the stream name lies inside the text and holds no quote, escape or control character;
 *   - read after another one, as one of many that begin alike, it comes to the same;
 *   - white space around it changes nothing; without its last brace it is no answer at all.
 */
#include "fuzz.h"

static void check_same(jet_puback_form *form, jet_span json) {
    jet_puback a, b;
    int read = jet_puback_next(form, json, &a);
    CHECK(read == jet_puback_parse(json, &b));
    if (!read) return;
    CHECK(a.seq == b.seq && a.duplicate == b.duplicate && a.further == b.further);
    CHECK(a.stream.ptr == b.stream.ptr && a.stream.len == b.stream.len);
}

/* What came before changes nothing about how a text is read. */
static void check_next(jet_span json) {
    jet_puback_form form;
    memset(&form, 0, sizeof form);
    check_same(&form, json);
    check_same(&form, json);
    jet_span other = fenced(json);
    for (size_t i = other.len; i-- > 0 && other.len - i < 6;) {
        uint8_t *byte = (uint8_t *)other.ptr + i, was = *byte;
        for (size_t k = 0; k < 2; k++) {
            *byte = (uint8_t)"0}"[k];
            check_same(&form, other);
            check_same(&form, jet_span_of(other.ptr, i));
            *byte = was;
        }
    }
    unfence(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    jet_span json = jet_span_of(data, size);
    jet_puback a, b;
    check_next(json);
    if (!jet_puback_parse(json, &a)) return 0;
    CHECK(a.seq > 0 && inside(a.stream, json) && (a.duplicate == 0 || a.duplicate == 1));
    for (size_t i = 0; i < a.stream.len; i++)
        CHECK(a.stream.ptr[i] != '"' && a.stream.ptr[i] != '\\' && a.stream.ptr[i] >= 0x20);
    for (size_t i = 0; i + 7 < size; i++) {
        if (memcmp(data + i, "\"error\"", 7) != 0) continue;
        for (i += 7; i < size && strchr(" \t\r\n", data[i]) && data[i]; i++) continue;
        CHECK(i == size || data[i] != ':');
    }

    jet_buf spaced;
    jet_buf_init(&spaced);
    CHECK(jet_buf_append(&spaced, " \r\n\t", 4) == JET_OK);
    CHECK(jet_buf_append(&spaced, data, size) == JET_OK);
    CHECK(jet_buf_append(&spaced, " \n", 2) == JET_OK);
    CHECK(jet_puback_parse(content(&spaced), &b));
    CHECK(a.seq == b.seq && a.duplicate == b.duplicate && jet_span_equal(a.stream, b.stream));
    jet_buf_free(&spaced);

    size_t brace = size;
    while (data[brace - 1] != '}') brace--;
    jet_span open = fenced(jet_span_of(data, brace - 1));
    CHECK(!jet_puback_parse(open, &b));
    unfence(open);
    return 0;
}
