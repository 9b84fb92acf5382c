/* jet_encode - client lines, appended whole or not at all.
 *
 * Each function checks everything that could break framing and only then appends; on a negative
 * status the buffer is as it was. Spans are borrowed for the call. */
#ifndef JET_ENCODE_H
#define JET_ENCODE_H

#include "jet_buf.h"
#include "jet_types.h"

/* The room that a PUB or HPUB needs, at most. */
static inline size_t jet_encode_room(jet_span subject, jet_span reply, jet_span header,
                                     jet_span payload) {
    /* "HPUB " + subject + " " + reply + " " + 2 * (20 digits + " ") + CRLF is the longest line */
    return 5 + subject.len + 1 + reply.len + 1 + 42 + 2 + header.len + payload.len + 2;
}
/* PUB, or HPUB when `header` is not empty (a complete block, see jet_header_append). The reply
 * may be empty. JET_ERR_SUBJECT, JET_ERR_MEMORY or JET_ERR_LINE: the control line,
 * without its CRLF, is over `max_line` bytes. */
jet_status jet_encode_pub(jet_buf *out, jet_span subject, jet_span reply, jet_span header,
                          jet_span payload, size_t max_line);
/* The same with a reply that was made here, so that it is known to be valid. */
jet_status jet_encode_asking(jet_buf *out, jet_span subject, jet_span reply, jet_span header,
                             jet_span payload, size_t max_line);
/* The same to a subject that a server gave us (an acknowledgement): checked for framing only. */
jet_status jet_encode_answer(jet_buf *out, jet_span subject, jet_span reply, jet_span payload,
                             size_t max_line);
/* SUB; `queue` may be empty. */
jet_status jet_encode_sub(jet_buf *out, jet_span subject, jet_span queue, uint64_t sid,
                          size_t max_line);
/* UNSUB; max 0 means "now". */
jet_status jet_encode_unsub(jet_buf *out, uint64_t sid, uint64_t max);
jet_status jet_encode_ping(jet_buf *out);
jet_status jet_encode_pong(jet_buf *out);
/* Go over frames that waited for a new link: keep messages (header and payload) up to `max_payload`,
 * and with `lines` what is no message. Without: PING, PONG, SUB and UNSUB belonged to the old link, and
 * the new one begins with the SUB lines of all subscriptions. Returns how many messages were dropped.
 * `out` holds whole frames of the functions above; what is in front of the first dropped message is only
 * read. */
size_t jet_encode_sift(jet_buf *out, size_t max_payload, int lines);
/* Drop every message whose reply begins with `reply`, which is not empty, of the frames in the first
 * `first` bytes: its publisher sends it again itself. Returns how many bytes were dropped. `out` as
 * for jet_encode_sift. */
size_t jet_encode_retract(jet_buf *out, jet_span reply, size_t first);
/* Write `value` in decimal; `to` has room for 20 bytes. Returns the number of digits. */
size_t jet_encode_u64(uint8_t *to, uint64_t value);

#endif
