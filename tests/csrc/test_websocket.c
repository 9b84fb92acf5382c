/* Frames of a WebSocket, and the link inside of them. */
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "link.h"

static jet_websocket_reader r;
static jet_websocket_part part;

/* Read one part of these bytes with a new reader. */
static int next(jet_span bytes) {
    size_t used;
    jet_span copy = fenced(bytes);
    jet_websocket_init(&r, 0);
    int got = jet_websocket_next(&r, copy, &part, &used);
    unfence(copy);
    return got;
}

void suite_websocket(void) {
    /* Lengths in their three forms, and only the shortest. */
    CHECK(next(S("\x82\x01x")) == 1 && part.final && part.bytes.len == 1);
    CHECK(next(S("\x02\x00")) == 1 && !part.final && part.bytes.len == 0);
    CHECK(next(S("\x82\x7e\x00\x7e")) == 0 && r.left == 126);
    CHECK(next(S("\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff")) == 0 && r.left == INT64_MAX);
    CHECK(next(S("\x82\x7e\x00\x7d")) == JET_WEBSOCKET_LENGTH);
    CHECK(next(S("\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff")) == JET_WEBSOCKET_LENGTH);
    CHECK(next(S("\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00")) == JET_WEBSOCKET_LENGTH);
    /* What a server must not send. */
    CHECK(next(S("\xc2\x00")) == JET_WEBSOCKET_RESERVED); /* compression was not agreed on */
    CHECK(next(S("\xa2\x00")) == JET_WEBSOCKET_RESERVED);
    CHECK(next(S("\x92\x00")) == JET_WEBSOCKET_RESERVED);
    CHECK(next(S("\x82\x81")) == JET_WEBSOCKET_MASKED);
    CHECK(next(S("\x81\x00")) == JET_WEBSOCKET_OPCODE);
    CHECK(next(S("\x83\x00")) == JET_WEBSOCKET_OPCODE && next(S("\x8b\x00")) == JET_WEBSOCKET_OPCODE);
    CHECK(next(S("\x09\x00")) == JET_WEBSOCKET_CONTROLS);
    CHECK(next(S("\x89\x7e")) == JET_WEBSOCKET_CONTROLS);
    CHECK(next(S("\x80\x00")) == JET_WEBSOCKET_ORDER);
    CHECK(next(S("\x88\x01x")) == JET_WEBSOCKET_CODE);
    CHECK(next(S("\x88\x02\x03\xe7")) == JET_WEBSOCKET_CODE); /* 999 */
    CHECK(next(S("\x88\x02\x03\xed")) == JET_WEBSOCKET_CODE); /* 1005 */
    CHECK(next(S("\x88\x02\x07\xd0")) == JET_WEBSOCKET_CODE); /* 2000 is reserved */
    CHECK(next(S("\x88\x02\x13\x88")) == JET_WEBSOCKET_CODE); /* 5000 */
    CHECK(next(S("\x88\x02\x0b\xb8")) == 1 && next(S("\x88\x02\x13\x87")) == 1); /* 3000, 4999 */
    CHECK(next(S("\x88\x02\x03\xe9")) == 1 && jet_websocket_code(part.bytes) == 1001);
    CHECK(next(S("\x88\x00")) == 1 && jet_websocket_code(part.bytes) == 1005);
    /* A message in two frames, with a ping between; then another message inside of one. */
    jet_span rest = S("\x02\x01" "a" "\x89\x02hi" "\x80\x01" "b" "\x02\x00" "\x82\x00");
    size_t used;
    jet_websocket_init(&r, 0);
    for (int i = 0; i < 5; i++) {
        static const int want[] = {1, 1, 1, 1, JET_WEBSOCKET_ORDER};
        CHECK(jet_websocket_next(&r, rest, &part, &used) == want[i]);
        CHECK((part.op == JET_WEBSOCKET_PING) == (i == 1) || i == 4);
        CHECK(part.final == (i == 1 || i == 2) || i == 4);
        rest.ptr += used, rest.len -= used;
    }
    /* Without memory nothing is written. */
    jet_buf out;
    jet_buf_init(&out);
    fail_allocation(1);
    CHECK(jet_websocket_frame(&out, JET_WEBSOCKET_DATA, 0, 1, S("x")) == JET_ERR_MEMORY);
    CHECK(jet_buf_len(&out) == 0);
    CHECK(jet_websocket_frame(&out, JET_WEBSOCKET_DATA, 0, 1, jet_span_of(NULL, SIZE_MAX - 3)) == JET_ERR_MEMORY);
    jet_buf_free(&out);
}

static void unmask(jet_buf *frame, uint8_t first, jet_span want) {
    const uint8_t *p = jet_buf_ptr(frame);
    CHECK(p[0] == first && p[1] == (0x80 | want.len) && jet_buf_len(frame) >= 6 + want.len);
    for (size_t i = 0; i < want.len; i++) CHECK((p[6 + i] ^ p[2 + (i & 3)]) == want.ptr[i]);
    jet_buf_consume(frame, 6 + want.len);
}

void suite_websocket_link(void) {
    static link_outbound o;
    static link_websocket w;
    jet_buf got;
    jet_span frames = S("\x02\x02PI" "\x89\x01" "1" "\x89\x01" "2" "\x8a\x00" "\x80\x04NG\r\n");
    int pair[2];
    jet_buf_init(&got);
    link_websocket_init(&w, 0);
    /* The payload of data frames is the link; of two pings the last is answered, a pong is not. */
    CHECK(link_websocket_decode(&w, frames.ptr, frames.len, &got) == LINK_FILTER_DONE);
    CHECK(same(content(&got), S("PING\r\n")) && link_websocket_owes(&w));
    jet_buf_clear(&got, 0);
    CHECK(link_websocket_encode(&w, (const uint8_t *)"PONG", 4, &got) == LINK_FILTER_DONE);
    unmask(&got, 0x8a, S("2"));
    unmask(&got, 0x82, S("PONG"));
    CHECK(jet_buf_len(&got) == 0 && !link_websocket_owes(&w));
    CHECK(link_websocket_encode(&w, NULL, 0, &got) == LINK_FILTER_DONE && jet_buf_len(&got) == 0);
    fail_allocation(1);
    jet_buf_free(&got);
    CHECK(link_websocket_encode(&w, (const uint8_t *)"x", 1, &got) == LINK_FILTER_BROKEN);
    fail_allocation(1);
    CHECK(link_websocket_decode(&w, (const uint8_t *)"\x82\x01x", 3, &got) == LINK_FILTER_BROKEN);
    link_websocket_free(&w);
    /* A close frame is answered with its code, then the link is shut down, by any thread that sends;
     * what waits to be sent, and what follows from the server, means nothing. */
    for (int by_writer = 0; by_writer < 2; by_writer++) {
        uint8_t bytes[64];
        size_t n = 0;
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        link_outbound_init(&o, 20000, 5000);
        link_websocket_init(&w, 0);
        w.outbound = &o;
        CHECK(link_outbound_attach(&o, pair[0], S("SUB a 1\r\n"), 1000, link_websocket_encode, &w, 0) == 0);
        jet_span goodbye = S("\x88\x05\x03\xe9" "bye" "\x89\x00" "\xff\xff");
        jet_buf_init(&got);
        o.nudged = 0;
        CHECK(link_websocket_decode(&w, goodbye.ptr, goodbye.len, &got) == LINK_FILTER_DONE);
        CHECK(jet_buf_len(&got) == 0 && w.reader.closed && o.nudged);
        if (!by_writer) {
            CHECK(link_outbound_begin_send(&o) == 1);
            link_outbound_send(&o);
            CHECK(o.nudged); /* the writer does the rest */
        }
        /* Drain as the writer does: it ends at the close of `o`, and shuts the socket down before. */
        link_outbound_close(&o);
        o.closed = 0, o.nudged = 1;
        CHECK(link_turn_try(&o.send_turn));
        link_turn_leave(&o.send_turn);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, (void *(*)(void *))(void *)link_outbound_pump, &o) == 0);
        ssize_t one;
        while ((one = read(pair[1], bytes + n, sizeof bytes - n)) > 0) n += (size_t)one;
        CHECK(n == 8 && bytes[0] == 0x88 && bytes[1] == 0x82);
        CHECK((bytes[6] ^ bytes[2]) == 0x03 && (bytes[7] ^ bytes[3]) == 0xe9);
        link_outbound_close(&o);
        pthread_join(thread, NULL);
        CHECK(link_websocket_encode(&w, NULL, 0, &got) == LINK_FILTER_BROKEN);
        close(pair[0]), close(pair[1]);
        jet_buf_free(&got);
        link_websocket_free(&w);
        link_outbound_free(&o);
    }
}
