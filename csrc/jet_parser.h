/* jet_parser - server bytes to frames. Keeps nothing but how far it has scanned. */
#ifndef JET_PARSER_H
#define JET_PARSER_H

#include "jet_types.h"

typedef struct jet_parser {
    size_t scanned;  /* bytes of the incomplete line already searched for its end */
    size_t need;     /* after "need more": bytes from the start of the frame that must be there */
    size_t max_size; /* largest payload (with headers) taken from the server */
} jet_parser;

/* A frame is a status only when its header block begins with one and nothing shows that a stream
 * holds it: it has no payload, its reply is no $JS.ACK subject (so no consumer delivered it), and
 * the server's lines of a direct get do not end its block. A publisher chooses header block and
 * payload of a stored message, and neither of the other two. */

/* `max_size` guards against absurd sizes, not against the server's own limit. */
void jet_parser_init(jet_parser *p, size_t max_size);

/* Parse the frame at the start of `bytes`.
 *
 * Returns 1: `frame` is filled and `*consumed` bytes belong to it. Its spans point into `bytes`.
 * Returns 0: more bytes are needed; call again with the same start and more bytes after it
 *            (`p->need` says how many at least, counted from the start).
 * Returns a negative jet_status: the peer broke the protocol; the parser must not be used again
 *            before jet_parser_init. */
int jet_parser_next(jet_parser *p, jet_span bytes, jet_frame *frame, size_t *consumed);

#endif
