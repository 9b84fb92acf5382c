#include "jet_encode.h"

#include <string.h>

#include "jet_subject.h"

size_t jet_encode_u64(uint8_t *to, uint64_t value) {
    size_t n = 1;
    if (value < 1000) { /* most sizes, and three digits need no loop */
        unsigned v = (unsigned)value;
        n = 1 + (v >= 10) + (v >= 100);
        if (v >= 100) *to++ = (uint8_t)('0' + v / 100);
        if (v >= 10) *to++ = (uint8_t)('0' + v / 10 % 10);
        *to = (uint8_t)('0' + v % 10);
        return n;
    }
    for (uint64_t rest = value; rest >= 10; rest /= 10) n++;
    for (size_t i = n; i-- > 0; value /= 10) to[i] = (uint8_t)('0' + value % 10);
    return n;
}

static uint8_t *put(uint8_t *to, const void *bytes, size_t n) {
    if (n) memcpy(to, bytes, n);
    return to + n;
}

static jet_status encode_message(jet_buf *out, jet_span subject, jet_span reply, jet_span header,
                                 jet_span payload, size_t max_line) {
    if (payload.len > SIZE_MAX / 4 || header.len > SIZE_MAX / 4) return JET_ERR_SIZE;
    uint8_t *start = jet_buf_reserve(out, jet_encode_room(subject, reply, header, payload));
    if (start == NULL) return JET_ERR_MEMORY;
    uint8_t *p = header.len ? put(start, "HPUB ", 5) : put(start, "PUB ", 4);
    p = put(p, subject.ptr, subject.len);
    *p++ = ' ';
    if (reply.len) {
        p = put(p, reply.ptr, reply.len);
        *p++ = ' ';
    }
    if (header.len) {
        p += jet_encode_u64(p, header.len);
        *p++ = ' ';
    }
    p += jet_encode_u64(p, header.len + payload.len);
    if ((size_t)(p - start) > max_line) return JET_ERR_LINE;
    p = put(p, "\r\n", 2);
    p = put(p, header.ptr, header.len);
    p = put(p, payload.ptr, payload.len);
    p = put(p, "\r\n", 2);
    jet_buf_commit(out, (size_t)(p - start));
    return JET_OK;
}

jet_status jet_encode_pub(jet_buf *out, jet_span subject, jet_span reply, jet_span header,
                          jet_span payload, size_t max_line) {
    if (!jet_subject_is_publishable(subject)) return JET_ERR_SUBJECT;
    if (reply.len && !jet_subject_is_publishable(reply)) return JET_ERR_SUBJECT;
    return encode_message(out, subject, reply, header, payload, max_line);
}

jet_status jet_encode_asking(jet_buf *out, jet_span subject, jet_span reply, jet_span header,
                             jet_span payload, size_t max_line) {
    if (!jet_subject_is_publishable(subject)) return JET_ERR_SUBJECT;
    return encode_message(out, subject, reply, header, payload, max_line);
}

jet_status jet_encode_answer(jet_buf *out, jet_span subject, jet_span reply, jet_span payload,
                             size_t max_line) {
    jet_span none = {NULL, 0};
    if (!jet_subject_is_safe(subject)) return JET_ERR_SUBJECT;
    if (reply.len && !jet_subject_is_safe(reply)) return JET_ERR_SUBJECT;
    return encode_message(out, subject, reply, none, payload, max_line);
}

jet_status jet_encode_sub(jet_buf *out, jet_span subject, jet_span queue, uint64_t sid,
                          size_t max_line) {
    if (!jet_subject_is_subscribable(subject)) return JET_ERR_SUBJECT;
    if (queue.len && !jet_subject_is_safe(queue)) return JET_ERR_SUBJECT;
    size_t room = 4 + subject.len + 1 + queue.len + 1 + 20 + 2;
    uint8_t *start = jet_buf_reserve(out, room);
    if (start == NULL) return JET_ERR_MEMORY;
    uint8_t *p = put(start, "SUB ", 4);
    p = put(p, subject.ptr, subject.len);
    *p++ = ' ';
    if (queue.len) {
        p = put(p, queue.ptr, queue.len);
        *p++ = ' ';
    }
    p += jet_encode_u64(p, sid);
    if ((size_t)(p - start) > max_line) return JET_ERR_LINE;
    p = put(p, "\r\n", 2);
    jet_buf_commit(out, (size_t)(p - start));
    return JET_OK;
}

jet_status jet_encode_unsub(jet_buf *out, uint64_t sid, uint64_t max) {
    uint8_t *start = jet_buf_reserve(out, 6 + 20 + 1 + 20 + 2);
    if (start == NULL) return JET_ERR_MEMORY;
    uint8_t *p = put(start, "UNSUB ", 6);
    p += jet_encode_u64(p, sid);
    if (max) {
        *p++ = ' ';
        p += jet_encode_u64(p, max);
    }
    p = put(p, "\r\n", 2);
    jet_buf_commit(out, (size_t)(p - start));
    return JET_OK;
}

jet_status jet_encode_ping(jet_buf *out) { return jet_buf_append(out, "PING\r\n", 6); }

jet_status jet_encode_pong(jet_buf *out) { return jet_buf_append(out, "PONG\r\n", 6); }

/* The size at the end of a PUB or HPUB line; `end` is its CR. */
static size_t size_before(const uint8_t *end) {
    size_t size = 0, scale = 1;
    for (; end[-1] >= '0' && end[-1] <= '9'; end--, scale *= 10)
        size += (size_t)(end[-1] - '0') * scale;
    return size;
}

/* Whether the reply of the PUB or HPUB line at `line` begins with `reply`. */
static int replies_to(const uint8_t *line, const uint8_t *end, jet_span reply) {
    const uint8_t *p = line + (line[0] == 'H' ? 5 : 4); /* the subject */
    p = memchr(p, ' ', (size_t)(end - p));
    return p && (size_t)(end - ++p) > reply.len && memcmp(p, reply.ptr, reply.len) == 0;
}

size_t jet_encode_retract(jet_buf *out, jet_span reply, size_t first) {
    const uint8_t *p = out->data + out->start;
    const uint8_t *last = p + first;
    const uint8_t *end = out->data + out->end;
    uint8_t *to = out->data + out->start;
    while (p < last) {
        const uint8_t *lf = memchr(p, '\n', (size_t)(last - p));
        size_t n = (size_t)(lf + 1 - p);
        int keep = 1;
        if (p[0] == 'H' || (p[0] == 'P' && p[1] == 'U')) {
            n += size_before(lf - 1) + 2;
            keep = !replies_to(p, lf, reply);
        }
        if (keep) {
            if (to != p) memmove(to, p, n); /* bytes that stay where they are may be shared */
            to += n;
        }
        p += n;
    }
    size_t dropped = (size_t)(p - to);
    if (dropped) memmove(to, p, (size_t)(end - p));
    out->end -= dropped;
    return dropped;
}

size_t jet_encode_sift(jet_buf *out, size_t max_payload, int lines) {
    size_t dropped = 0;
    const uint8_t *p = out->data + out->start;
    const uint8_t *end = out->data + out->end;
    uint8_t *to = out->data + out->start;
    while (p < end) {
        const uint8_t *lf = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)(lf + 1 - p);
        int keep;
        if (p[0] == 'H' || (p[0] == 'P' && p[1] == 'U')) {
            size_t size = size_before(lf - 1);
            n += size + 2;
            keep = size <= max_payload;
            dropped += !keep;
        } else {
            keep = lines;
        }
        if (keep) {
            if (to != p) memmove(to, p, n); /* bytes that stay where they are may be shared */
            to += n;
        }
        p += n;
    }
    out->end = (size_t)(to - out->data);
    return dropped;
}
