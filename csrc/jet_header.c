#include "jet_header.h"

#include <string.h>

#include "jet_scan.h"

static const char VERSION[] = "NATS/1.0";
#define VERSION_LEN (sizeof VERSION - 1)

/* Split off one line; the terminating CRLF may be missing at the very end. */
static jet_span take_line(jet_span *rest) {
    const uint8_t *p = rest->ptr;
    size_t left = rest->len, used = 0;
    while (used < left) {
        const uint8_t *cr = memchr(p + used, '\r', left - used);
        if (cr == NULL) break;
        size_t at = (size_t)(cr - p);
        if (at + 1 < left && cr[1] == '\n') {
            *rest = jet_span_of(p + at + 2, left - at - 2);
            return jet_span_of(p, at);
        }
        used = at + 1;
    }
    *rest = jet_span_of(p + left, 0);
    return jet_span_of(p, left);
}

static int has_version(jet_span block) {
    return block.len >= VERSION_LEN && memcmp(block.ptr, VERSION, VERSION_LEN) == 0;
}

int jet_header_status(jet_span block) {
    /* "NATS/1.0 503": exactly three digits, then a blank, CR or the end. */
    if (!has_version(block) || block.len < VERSION_LEN + 4) return 0;
    const uint8_t *p = block.ptr + VERSION_LEN;
    const uint8_t *end = block.ptr + block.len;
    if (!jet_is_blank(*p)) return 0;
    while (p < end && jet_is_blank(*p)) p++;
    if (end - p < 3) return 0;
    int status = 0;
    for (int i = 0; i < 3; i++) {
        unsigned digit = (unsigned)p[i] - '0';
        if (digit > 9) return 0;
        status = status * 10 + (int)digit;
    }
    if (end - p > 3 && !jet_is_blank(p[3]) && p[3] != '\r') return 0;
    return status < 100 ? 0 : status;
}

jet_span jet_header_description(jet_span block) {
    if (jet_header_status(block) == 0) return jet_span_of(block.ptr, 0);
    jet_span rest = block;
    jet_span line = take_line(&rest);
    jet_span token, tail = jet_span_of(line.ptr + VERSION_LEN, line.len - VERSION_LEN);
    jet_scan_token(&tail, &token);
    while (tail.len && jet_is_blank(tail.ptr[0])) tail.ptr++, tail.len--;
    while (tail.len && jet_is_blank(tail.ptr[tail.len - 1])) tail.len--;
    return tail;
}

void jet_header_begin(jet_header_iter *it, jet_span block) {
    it->rest = block;
    it->malformed = 0;
    if (has_version(block)) (void)take_line(&it->rest);
}

int jet_header_next(jet_header_iter *it, jet_span *name, jet_span *value) {
    while (it->rest.len) {
        jet_span line = take_line(&it->rest);
        if (line.len == 0) continue;
        const uint8_t *colon = memchr(line.ptr, ':', line.len);
        if (colon == NULL || colon == line.ptr) {
            it->malformed++;
            continue;
        }
        *name = jet_span_of(line.ptr, (size_t)(colon - line.ptr));
        jet_span v = jet_span_of(colon + 1, line.len - name->len - 1);
        while (v.len && jet_is_blank(v.ptr[0])) v.ptr++, v.len--;
        while (v.len && jet_is_blank(v.ptr[v.len - 1])) v.len--;
        *value = v;
        return 1;
    }
    return 0;
}

int jet_header_find(jet_span block, jet_span name, jet_span *value) {
    jet_header_iter it;
    jet_span n;
    jet_header_begin(&it, block);
    while (jet_header_next(&it, &n, value))
        if (jet_span_equal(n, name)) return 1;
    return 0;
}

jet_status jet_header_append(jet_buf *out, jet_span name, jet_span value) {
    if (name.len == 0) return JET_ERR_HEADER;
    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] <= ' ' || name.ptr[i] >= 0x7f || name.ptr[i] == ':') return JET_ERR_HEADER;
    if (value.len && (memchr(value.ptr, '\r', value.len) || memchr(value.ptr, '\n', value.len) ||
                      memchr(value.ptr, 0, value.len)))
        return JET_ERR_HEADER;
    uint8_t *to = jet_buf_reserve(out, name.len + value.len + 4);
    if (to == NULL) return JET_ERR_MEMORY;
    memcpy(to, name.ptr, name.len);
    to += name.len;
    *to++ = ':';
    *to++ = ' ';
    if (value.len) memcpy(to, value.ptr, value.len);
    to += value.len;
    *to++ = '\r';
    *to++ = '\n';
    jet_buf_commit(out, name.len + value.len + 4);
    return JET_OK;
}
