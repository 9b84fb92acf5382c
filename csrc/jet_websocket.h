/* jet_websocket - frames of the WebSocket protocol (RFC 6455), as a client has them: what a server
 * sends is taken apart, in whatever pieces it comes; what leaves is framed and masked.
 *
 * The payload of data frames is passed on as it comes: nothing is kept, however long a frame is. */
#ifndef JET_WEBSOCKET_H
#define JET_WEBSOCKET_H

#include "jet_buf.h"

#define JET_WEBSOCKET_CONTROL 125u /* bytes of a control frame at most */

typedef enum jet_websocket_op {
    JET_WEBSOCKET_MORE = 0, /* a further frame of a message */
    JET_WEBSOCKET_TEXT = 1,
    JET_WEBSOCKET_DATA = 2,
    JET_WEBSOCKET_CLOSE = 8,
    JET_WEBSOCKET_PING = 9,
    JET_WEBSOCKET_PONG = 10
} jet_websocket_op;

/* The faults of a server: negative results of jet_websocket_next. */
typedef enum jet_websocket_fault {
    JET_WEBSOCKET_RESERVED = -1, /* a reserved bit, or compression that was not agreed on */
    JET_WEBSOCKET_OPCODE = -2,   /* an unknown kind of frame, or text */
    JET_WEBSOCKET_MASKED = -3,
    JET_WEBSOCKET_CONTROLS = -4, /* a control frame in pieces, or of more than 125 bytes */
    JET_WEBSOCKET_ORDER = -5,    /* a new message inside of another, or the rest of none */
    JET_WEBSOCKET_LENGTH = -6,   /* not the shortest form, or above 63 bits */
    JET_WEBSOCKET_CODE = -7      /* a close frame without a valid code */
} jet_websocket_fault;

typedef struct jet_websocket_reader {
    int deflate;           /* constant: permessage-deflate was agreed on */
    uint8_t head[10];      /* of a frame whose header has not come whole */
    uint8_t head_len;
    uint8_t op;            /* of the frame that is being read */
    uint8_t final;         /* it is the last of its message */
    uint8_t in_message;    /* a further frame has to follow */
    uint8_t compressed;    /* so is the message */
    uint8_t control_len;
    uint8_t control[JET_WEBSOCKET_CONTROL]; /* payload of a control frame */
    uint8_t closed;        /* the close frame has come: what follows means nothing */
    uint8_t in_frame;
    uint64_t left;         /* bytes of the frame that have not come */
} jet_websocket_reader;

/* One part of what came. */
typedef struct jet_websocket_part {
    jet_websocket_op op; /* DATA, or a control frame, which is whole */
    jet_span bytes;      /* DATA: borrowed from the input; else from the reader, until the next call */
    int compressed;
    int final;           /* DATA: the message ends with it */
} jet_websocket_part;

void jet_websocket_init(jet_websocket_reader *r, int deflate);
/* Read the next part. Returns 1; 0: all was consumed and no part is whole; a jet_websocket_fault: the
 * link is of no use. `used` bytes were consumed in any case. What follows a close frame is dropped;
 * the payload of that stays in `control`. */
int jet_websocket_next(jet_websocket_reader *r, jet_span bytes, jet_websocket_part *part, size_t *used);
/* The code of a close frame's payload; 1005 when it has none. */
unsigned jet_websocket_code(jet_span payload);

/* Append one whole frame, masked with `mask`. JET_OK or JET_ERR_MEMORY. */
jet_status jet_websocket_frame(jet_buf *out, jet_websocket_op op, int compressed, uint32_t mask,
                               jet_span payload);

#endif
