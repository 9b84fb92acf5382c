#include "jet_websocket.h"

#include <string.h>

#include "jet_scan.h"

enum { FINAL = 0x80, COMPRESSED = 0x40, RESERVED = 0x30, MASKED = 0x80, NO_CODE = 1005 };

void jet_websocket_init(jet_websocket_reader *r, int deflate) {
    memset(r, 0, sizeof *r);
    r->deflate = deflate;
}

unsigned jet_websocket_code(jet_span payload) {
    return payload.len < 2 ? NO_CODE : (unsigned)payload.ptr[0] << 8 | payload.ptr[1];
}

/* RFC 6455, section 7.4, with the codes that were registered since. */
static int is_code(unsigned code) {
    if (code < 1000 || code >= 5000 || (code > 1014 && code < 3000)) return 0;
    return code != 1004 && code != NO_CODE && code != 1006;
}

/* How long a header is, as far as its first two bytes say. */
static size_t head_size(const uint8_t *head) {
    unsigned size = head[1] & 0x7f;
    return size == 126 ? 4 : size == 127 ? 10 : 2;
}

static int read_length(jet_websocket_reader *r) {
    size_t wide = head_size(r->head) - 2;
    uint64_t length = r->head[1] & 0x7f;
    if (wide) {
        length = 0;
        for (size_t i = 0; i < wide; i++) length = length << 8 | r->head[2 + i];
        if (length < (wide == 2 ? 126u : 65536u) || length >> 63) return JET_WEBSOCKET_LENGTH;
    }
    r->left = length;
    return 0;
}

/* Refuse a frame by its first two bytes, as soon as they are there. */
static int check_head(const jet_websocket_reader *r) {
    unsigned first = r->head[0], op = first & 0x0f;
    if (first & RESERVED) return JET_WEBSOCKET_RESERVED;
    if (first & COMPRESSED && !(r->deflate && op == JET_WEBSOCKET_DATA)) return JET_WEBSOCKET_RESERVED;
    if (r->head[1] & MASKED) return JET_WEBSOCKET_MASKED;
    switch (op) {
    case JET_WEBSOCKET_MORE: return r->in_message ? 0 : JET_WEBSOCKET_ORDER;
    case JET_WEBSOCKET_DATA: return r->in_message ? JET_WEBSOCKET_ORDER : 0;
    case JET_WEBSOCKET_CLOSE:
    case JET_WEBSOCKET_PING:
    case JET_WEBSOCKET_PONG:
        return first & FINAL && r->head[1] <= JET_WEBSOCKET_CONTROL ? 0 : JET_WEBSOCKET_CONTROLS;
    default: return JET_WEBSOCKET_OPCODE;
    }
}

static int begin_frame(jet_websocket_reader *r) {
    int fault = read_length(r);
    if (fault) return fault;
    r->op = r->head[0] & 0x0f;
    r->final = (r->head[0] & FINAL) != 0;
    r->control_len = 0;
    if (r->op == JET_WEBSOCKET_DATA) r->compressed = (r->head[0] & COMPRESSED) != 0;
    if (r->op < JET_WEBSOCKET_CLOSE) r->in_message = !r->final;
    r->head_len = 0;
    r->in_frame = 1;
    return 0;
}

/* Take bytes of a control frame. Returns 1 when it is whole. */
static int take_control(jet_websocket_reader *r, jet_span *bytes, jet_websocket_part *part) {
    size_t n = bytes->len < r->left ? bytes->len : (size_t)r->left;
    if (n) memcpy(r->control + r->control_len, bytes->ptr, n);
    r->control_len = (uint8_t)(r->control_len + n);
    r->left -= n;
    bytes->ptr += n;
    bytes->len -= n;
    if (r->left) return 0;
    r->in_frame = 0;
    *part = (jet_websocket_part){.op = (jet_websocket_op)r->op, .final = 1};
    part->bytes = jet_span_of(r->control, r->control_len);
    if (r->op != JET_WEBSOCKET_CLOSE) return 1;
    r->closed = 1;
    if (r->control_len && (r->control_len == 1 || !is_code(jet_websocket_code(part->bytes))))
        return JET_WEBSOCKET_CODE;
    return 1;
}

/* Pass on what there is of a data frame. */
static int take_data(jet_websocket_reader *r, jet_span *bytes, jet_websocket_part *part) {
    size_t n = bytes->len < r->left ? bytes->len : (size_t)r->left;
    if (n == 0 && r->left) return 0;
    *part = (jet_websocket_part){.op = JET_WEBSOCKET_DATA, .compressed = r->compressed};
    part->bytes = jet_span_of(bytes->ptr, n);
    r->left -= n;
    bytes->ptr += n;
    bytes->len -= n;
    r->in_frame = r->left != 0;
    part->final = r->left == 0 && r->final;
    return 1;
}

int jet_websocket_next(jet_websocket_reader *r, jet_span bytes, jet_websocket_part *part, size_t *used) {
    size_t all = bytes.len;
    int got = 0;
    if (r->closed) bytes.len = 0;
    while (!got) {
        if (r->in_frame) {
            got = r->op < JET_WEBSOCKET_CLOSE ? take_data(r, &bytes, part) : take_control(r, &bytes, part);
            if (!got && r->in_frame) break;
        } else {
            if (bytes.len == 0) break;
            r->head[r->head_len++] = *bytes.ptr++;
            bytes.len--;
            if (r->head_len == 2) got = check_head(r);
            if (!got && r->head_len >= 2 && r->head_len == head_size(r->head)) got = begin_frame(r);
        }
    }
    *used = all - bytes.len;
    return got;
}

/* -- what leaves -------------------------------------------------------------------------------- */

static void copy_masked(uint8_t *to, const uint8_t *from, size_t n, const uint8_t key[4]) {
    uint64_t wide, a, b, c, d;
    memcpy(&wide, key, 4);
    memcpy((uint8_t *)&wide + 4, key, 4);
    for (; n >= 32; n -= 32, from += 32, to += 32) {
        memcpy(&a, from, 8), memcpy(&b, from + 8, 8), memcpy(&c, from + 16, 8), memcpy(&d, from + 24, 8);
        a ^= wide, b ^= wide, c ^= wide, d ^= wide;
        memcpy(to, &a, 8), memcpy(to + 8, &b, 8), memcpy(to + 16, &c, 8), memcpy(to + 24, &d, 8);
    }
    for (size_t i = 0; i < n; i++) to[i] = from[i] ^ key[i & 3];
}

jet_status jet_websocket_frame(jet_buf *out, jet_websocket_op op, int compressed, uint32_t mask,
                               jet_span payload) {
    uint8_t *to;
    size_t n = 2;
    if (payload.len > SIZE_MAX - 14 || (to = jet_buf_reserve(out, 14 + payload.len)) == NULL)
        return JET_ERR_MEMORY;
    to[0] = (uint8_t)(FINAL | (compressed ? COMPRESSED : 0) | (unsigned)op);
    if (payload.len < 126) {
        to[1] = (uint8_t)(MASKED | payload.len);
    } else {
        size_t wide = payload.len < 65536 ? 2 : 8;
        to[1] = wide == 2 ? MASKED | 126 : MASKED | 127;
        for (size_t i = 0; i < wide; i++) to[2 + i] = (uint8_t)(payload.len >> 8 * (wide - 1 - i));
        n += wide;
    }
    memcpy(to + n, &mask, 4);
    if (payload.len) copy_masked(to + n + 4, payload.ptr, payload.len, to + n);
    jet_buf_commit(out, n + 4 + payload.len);
    return JET_OK;
}
