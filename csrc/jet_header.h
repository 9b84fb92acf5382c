/* jet_header - header blocks (ADR-4), read leniently and written strictly.
 *
 * A publisher can put any bytes into a block and the server passes them on, so reading never
 * fails: a line that is not "name: value" is skipped and counted. */
#ifndef JET_HEADER_H
#define JET_HEADER_H

#include "jet_buf.h"
#include "jet_types.h"

typedef struct jet_header_iter {
    jet_span rest;      /* borrowed from the block */
    uint32_t malformed; /* lines skipped so far */
} jet_header_iter;

/* The inline status of a block: 100..999, or 0 when its first line carries none. */
int jet_header_status(jet_span block);
/* The text after the inline status (may be empty). Borrowed from the block. */
jet_span jet_header_description(jet_span block);

/* Start reading after the version line (or at the first line when that is missing). */
void jet_header_begin(jet_header_iter *it, jet_span block);
/* Next "name: value", both borrowed from the block and the value trimmed. Returns 0 at the end. */
int jet_header_next(jet_header_iter *it, jet_span *name, jet_span *value);
/* First value of `name` (exact case). Returns 0 when there is none. */
int jet_header_find(jet_span block, jet_span name, jet_span *value);

/* Append one "name: value" line after checking that neither can break framing: a name has visible
 * ASCII without colon (RFC 7230 token rules loosened as ADR-4 does), a value no CR, LF or NUL. */
jet_status jet_header_append(jet_buf *out, jet_span name, jet_span value);

#endif
