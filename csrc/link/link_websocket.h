/* link_websocket - a link inside of WebSocket frames: a filter of its bytes, as TLS is.
 *
 * The reading thread decodes, the holder of the send turn encodes; pings and the close frame are
 * answered by the next encode. The payload of data frames is the link, wherever they are cut. */
#ifndef LINK_WEBSOCKET_H
#define LINK_WEBSOCKET_H

#include "jet_token.h"
#include "jet_websocket.h"
#include "link_outbound.h"

typedef struct link_websocket {
    jet_websocket_reader reader; /* this and `fault` belong to the reading thread */
    int fault;                   /* a jet_websocket_fault, or 0 */
    jet_token_key key;           /* constant, set by the owner: masks are made with it */
    uint64_t frames;             /* the sender's: how many were masked */
    link_outbound *outbound;     /* told when there is an answer; NULL before there is a link */

    link_mutex lock;    /* guards what follows */
    int pinged, closed; /* what came and was not answered */
    int ended;          /* the close frame was answered: nothing may follow */
    uint8_t ping[JET_WEBSOCKET_CONTROL], close[2];
    uint8_t ping_len, close_len;
} link_websocket;

void link_websocket_init(link_websocket *w, int deflate);
void link_websocket_free(link_websocket *w);
/* Read the next part of what came, and see to control frames: what jet_websocket_next returns, and
 * parts of data only. After a close frame there are none. Only the reading thread. */
int link_websocket_next(link_websocket *w, jet_span bytes, jet_websocket_part *part, size_t *used);
/* A link_decode without compression: `context` is the link_websocket. */
link_filtered link_websocket_decode(void *context, const uint8_t *bytes, size_t n, jet_buf *out);
/* Append the answers that are due, and one frame with `bytes`, if any. Only the holder of the send turn. */
link_filtered link_websocket_put(link_websocket *w, jet_span bytes, int compressed, jet_buf *out);
/* A link_encode without compression. */
link_filtered link_websocket_encode(void *context, const uint8_t *bytes, size_t n, jet_buf *out);
/* Whether an answer is due. Any thread. */
int link_websocket_owes(link_websocket *w);

#endif
