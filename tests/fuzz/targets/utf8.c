/* Invariants of jet_utf8 and jet_subject, for any bytes:
 *
 *   - exactly the announced number of bytes is written, and they are valid UTF-8;
 *   - valid text is left as it is; what is written grows at most threefold;
 *   - converting in two steps at a character's end is converting at once;
 *   - what is publishable or subscribable is safe, and what is safe has no byte that breaks a line.
 */
#include "fuzz.h"

/* Decode by the book: every code point in its shortest form, none a surrogate or too large. */
static int is_utf8(jet_span s) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    for (size_t i = 0; i < s.len;) {
        uint8_t c = s.ptr[i];
        size_t n = c < 0x80 ? 1 : c >> 5 == 6 ? 2 : c >> 4 == 14 ? 3 : c >> 3 == 30 ? 4 : 0;
        if (n == 0 || s.len - i < n) return 0;
        uint32_t point = n == 1 ? c : c & (0xFFu >> (n + 1));
        for (size_t k = 1; k < n; k++) {
            if (s.ptr[i + k] >> 6 != 2) return 0;
            point = point << 6 | (s.ptr[i + k] & 0x3F);
        }
        if (point < least[n] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return 0;
        i += n;
    }
    return 1;
}

static jet_span valid(jet_span s) {
    size_t n = jet_utf8_lossy_len(s);
    uint8_t *to = fence(n);
    CHECK(jet_utf8_lossy_copy(s, to) == n);
    return jet_span_of(to, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    jet_span s = jet_span_of(data, size);
    jet_span once = valid(s), twice = valid(once);
    CHECK(once.len <= 3 * size && jet_span_equal(once, twice) && is_utf8(once));
    CHECK(is_utf8(s) == jet_span_equal(s, once));
    size_t at = size / 2;
    while (at < size && (data[at] & 0xC0) == 0x80) at++;
    CHECK(jet_utf8_lossy_len(jet_span_of(data, at)) +
              jet_utf8_lossy_len(jet_span_of(data + at, size - at)) == once.len);
    unfence(once);
    unfence(twice);

    int safe = jet_subject_is_safe(s);
    CHECK(safe || (!jet_subject_is_publishable(s) && !jet_subject_is_subscribable(s)));
    int clean = size > 0;
    for (size_t i = 0; i < size; i++) clean &= data[i] > ' ' && data[i] != 0x7f;
    CHECK(safe == clean);
    return 0;
}
