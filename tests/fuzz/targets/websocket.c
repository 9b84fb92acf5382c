/* Invariants of jet_websocket, for any bytes from a server:
 *
 *   - the same parts, or the same refusal, in whatever pieces the bytes come;
 *   - parts of data lie inside the input, control frames hold 125 bytes at most;
 *   - nothing is consumed that was not there, and all is consumed where more is wanted;
 *   - behind a close frame, and behind a refusal of the same bytes, there are no parts;
 *   - a frame of any bytes, unmasked, is read again as what it was made of.
 */
#include "fuzz.h"

#define MAX_CONTROLS 64

typedef struct trace {
    jet_buf data; /* payload of all data frames */
    struct {
        jet_websocket_op op;
        size_t length, after; /* bytes of data before it */
        uint64_t hash;
    } control[MAX_CONTROLS];
    size_t controls, ends, compressed;
    int result;
} trace;

static void read_all(jet_span in, int deflate, uint64_t pieces, trace *t) {
    static jet_websocket_reader r;
    size_t start = 0;
    memset(t, 0, sizeof *t);
    jet_buf_init(&t->data);
    jet_websocket_init(&r, deflate);
    while (start < in.len || (start == 0 && in.len == 0)) {
        size_t n = in.len - start;
        if (pieces && n) n = 1 + next_random(&pieces) % n;
        jet_span part = fenced(jet_span_of(in.ptr + start, n)), rest = part;
        jet_websocket_part p;
        size_t used;
        int got;
        while ((got = jet_websocket_next(&r, rest, &p, &used)) == 1) {
            CHECK(used <= rest.len);
            if (p.op == JET_WEBSOCKET_DATA) {
                CHECK(inside(p.bytes, rest));
                CHECK(jet_buf_append(&t->data, p.bytes.ptr, p.bytes.len) == JET_OK);
                t->ends += p.final != 0;
                if (p.compressed) t->compressed += p.bytes.len;
                CHECK(deflate || !p.compressed);
            } else {
                CHECK(p.bytes.len <= JET_WEBSOCKET_CONTROL && p.final);
                CHECK(p.op == JET_WEBSOCKET_CLOSE ? r.closed : 1);
                if (t->controls < MAX_CONTROLS) {
                    t->control[t->controls].op = p.op;
                    t->control[t->controls].length = p.bytes.len;
                    t->control[t->controls].after = jet_buf_len(&t->data);
                    t->control[t->controls++].hash = hash_of(p.bytes);
                }
            }
            rest.ptr += used, rest.len -= used;
        }
        CHECK(used <= rest.len && (got < 0 || used == rest.len));
        unfence(part);
        t->result = got;
        if (got < 0 || in.len == 0) return;
        start += n;
    }
}

static void check_frame(jet_span in) {
    uint64_t state = hash_of(in);
    jet_buf out;
    jet_websocket_reader r;
    jet_websocket_part p;
    size_t used, n = 2;
    uint32_t mask = (uint32_t)next_random(&state);
    jet_buf_init(&out);
    CHECK(jet_websocket_frame(&out, JET_WEBSOCKET_DATA, 0, mask, in) == JET_OK);
    uint8_t *frame = (uint8_t *)jet_buf_ptr(&out);
    CHECK(frame[0] == 0x82 && frame[1] & 0x80);
    frame[1] &= 0x7f;
    n += frame[1] == 126 ? 2 : frame[1] == 127 ? 8 : 0;
    CHECK(jet_buf_len(&out) == n + 4 + in.len && memcmp(frame + n, &mask, 4) == 0);
    for (size_t i = 0; i < in.len; i++) frame[n + i] = frame[n + 4 + i] ^ ((uint8_t *)&mask)[i & 3];
    jet_websocket_init(&r, 0);
    CHECK(jet_websocket_next(&r, jet_span_of(frame, n + in.len), &p, &used) == 1);
    CHECK(p.op == JET_WEBSOCKET_DATA && p.final && jet_span_equal(p.bytes, in));
    jet_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static trace whole, pieces;
    jet_span in = jet_span_of(data, size);
    int deflate = (int)(cut_byte(&in) & 1);
    check_frame(in);
    read_all(in, deflate, 0, &whole);
    read_all(in, deflate, hash_of(in), &pieces);
    CHECK(jet_span_equal(content(&whole.data), content(&pieces.data)));
    CHECK(whole.controls == pieces.controls && whole.result == pieces.result);
    CHECK(whole.compressed == pieces.compressed);
    CHECK(memcmp(whole.control, pieces.control, sizeof whole.control) == 0);
    jet_buf_free(&whole.data);
    jet_buf_free(&pieces.data);
    return 0;
}
