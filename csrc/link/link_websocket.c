#include "link_websocket.h"

#include <string.h>

#include "jet_scan.h"

void link_websocket_init(link_websocket *w, int deflate) {
    memset(w, 0, sizeof *w);
    jet_websocket_init(&w->reader, deflate);
    link_mutex_init(&w->lock, LINK_ORDER_WEBSOCKET);
}

void link_websocket_free(link_websocket *w) { link_mutex_free(&w->lock); }

/* Keep what has to be answered. Of several pings the last one is answered (RFC 6455, 5.5.3). */
static void owe(link_websocket *w, const jet_websocket_part *part) {
    if (part->op == JET_WEBSOCKET_PONG) return;
    link_lock(&w->lock);
    if (part->op == JET_WEBSOCKET_PING) {
        w->pinged = 1;
        w->ping_len = (uint8_t)part->bytes.len;
        if (part->bytes.len) memcpy(w->ping, part->bytes.ptr, part->bytes.len);
    } else {
        w->closed = 1;
        w->close_len = part->bytes.len ? 2 : 0; /* the code is said back, the reason is not */
        memcpy(w->close, w->reader.control, sizeof w->close);
    }
    link_unlock(&w->lock);
    if (w->outbound) link_outbound_nudge(w->outbound);
}

int link_websocket_next(link_websocket *w, jet_span bytes, jet_websocket_part *part, size_t *used) {
    size_t one;
    int got;
    *used = 0;
    do {
        got = jet_websocket_next(&w->reader, bytes, part, &one);
        bytes.ptr += one, bytes.len -= one, *used += one;
        if (got == 1 && part->op != JET_WEBSOCKET_DATA) owe(w, part);
    } while (got == 1 && part->op != JET_WEBSOCKET_DATA);
    if (got < 0) w->fault = got;
    return got;
}

link_filtered link_websocket_decode(void *context, const uint8_t *bytes, size_t n, jet_buf *out) {
    link_websocket *w = context;
    jet_span rest = jet_span_of(bytes, n);
    jet_websocket_part part;
    size_t used;
    int got;
    while ((got = link_websocket_next(w, rest, &part, &used)) == 1) {
        if (jet_buf_append(out, part.bytes.ptr, part.bytes.len) != JET_OK) return LINK_FILTER_BROKEN;
        rest.ptr += used, rest.len -= used;
    }
    return got < 0 ? LINK_FILTER_BROKEN : LINK_FILTER_DONE;
}

static jet_status put_frame(link_websocket *w, jet_websocket_op op, int compressed, jet_span bytes,
                            jet_buf *out) {
    uint32_t mask = (uint32_t)jet_token_hash(&w->key, w->frames++);
    return jet_websocket_frame(out, op, compressed, mask, bytes);
}

link_filtered link_websocket_put(link_websocket *w, jet_span bytes, int compressed, jet_buf *out) {
    uint8_t ping[JET_WEBSOCKET_CONTROL], close[sizeof w->close];
    link_lock(&w->lock);
    int pinged = w->pinged, closed = w->closed, ended = w->ended;
    jet_span pong = jet_span_of(ping, w->ping_len), goodbye = jet_span_of(close, w->close_len);
    memcpy(ping, w->ping, pong.len);
    memcpy(close, w->close, sizeof close);
    w->pinged = w->closed = 0;
    w->ended |= closed;
    link_unlock(&w->lock);
    if (ended) return LINK_FILTER_BROKEN;
    if (pinged && put_frame(w, JET_WEBSOCKET_PONG, 0, pong, out) != JET_OK) return LINK_FILTER_BROKEN;
    if (closed) {
        jet_status status = put_frame(w, JET_WEBSOCKET_CLOSE, 0, goodbye, out);
        return status == JET_OK ? LINK_FILTER_LAST : LINK_FILTER_BROKEN;
    }
    if (bytes.len && put_frame(w, JET_WEBSOCKET_DATA, compressed, bytes, out) != JET_OK)
        return LINK_FILTER_BROKEN;
    return LINK_FILTER_DONE;
}

link_filtered link_websocket_encode(void *context, const uint8_t *bytes, size_t n, jet_buf *out) {
    return link_websocket_put(context, jet_span_of(bytes, n), 0, out);
}

int link_websocket_owes(link_websocket *w) {
    link_lock(&w->lock);
    int owes = w->pinged || w->closed;
    link_unlock(&w->lock);
    return owes;
}
