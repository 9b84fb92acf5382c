/* The few types every jet file shares. */
#ifndef JET_TYPES_H
#define JET_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* Borrowed bytes: a pointer and a length. Valid as long as their owner says. */
typedef struct jet_span {
    const uint8_t *ptr;
    size_t len;
} jet_span;

/* The result of a function. A negative one is a refusal, after which nothing is changed. */
typedef enum jet_status {
    JET_OK = 0,
    JET_ERR_MEMORY = -1,   /* no memory */
    JET_ERR_OP = -2,       /* a line that starts with no known verb */
    JET_ERR_ARGS = -3,     /* wrong number or form of arguments in a line */
    JET_ERR_SIZE = -4,     /* a size that is no number, too large, or header size > total size */
    JET_ERR_LINE = -5,     /* a line longer than the limit, or LF without CR */
    JET_ERR_CRLF = -6,     /* a payload not followed by CRLF */
    JET_ERR_SUBJECT = -7,  /* a subject, reply or queue that would break framing or is malformed */
    JET_ERR_HEADER = -8,   /* a header name or value that would break framing */
    JET_ERR_TOKENS = -9    /* an acknowledgement subject with a wrong number or form of tokens */
} jet_status;

typedef enum jet_op {
    JET_OP_MSG = 1, /* MSG and HMSG */
    JET_OP_PING,
    JET_OP_PONG,
    JET_OP_OK,
    JET_OP_ERR,
    JET_OP_INFO
} jet_op;

/* One parsed server line (with its payload). All spans are borrowed from the receive buffer. */
typedef struct jet_frame {
    jet_op op;
    int status; /* the inline status (ADR-4); 0: this is a message */
    uint64_t sid;
    jet_span subject;
    jet_span reply;   /* empty when the message has none */
    jet_span header;  /* the whole header block with its blank line */
    jet_span payload; /* MSG: the payload. INFO, -ERR: the text of the line */
} jet_frame;

/* Largest subject or reply we take from a server line; lengths are stored in 16 bits. */
#define JET_MAX_LINE 65535u
/* INFO is the one line that may grow with the cluster (connect_urls). */
#define JET_MAX_INFO (1u << 20)
/* The longest line of a client: nats-server refuses longer control lines and closes the connection. */
#define JET_MAX_CONTROL_LINE 4096u

#endif
