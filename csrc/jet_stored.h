/* jet_stored - where a stored message comes from: the lines a server writes behind the headers of
 * what it answers a direct get with (ADR-31). */
#ifndef JET_STORED_H
#define JET_STORED_H

#include "jet_types.h"

typedef struct jet_stored {
    jet_span stream;
    jet_span subject;
    uint64_t seq;
    int64_t timestamp_ns; /* nanoseconds since the epoch */
    uint64_t num_pending; /* 0 in answers of a single message, which do not have it */
    jet_span published;   /* the header block without these lines and without its blank line; empty
                             when the message was published without headers. The server puts its
                             lines in place of the last two bytes of a block: one that did not end
                             with a blank line has lost those, and may end within a line */
    jet_span lines;       /* these lines and the blank line: a block that reads the same */
} jet_stored;

/* Read the last lines of a header block. Nothing that was published stands behind them, so nothing
 * published can pass for them. Returns 0 when they are not there. Spans are borrowed. */
int jet_stored_parse(jet_span block, jet_stored *out);

/* Read a whole span as an RFC 3339 time, to the nanosecond. Returns 0 for what is no time, and for
 * times before 1678 and after 2261, which 64 bits of nanoseconds cannot hold. */
int jet_stored_time(jet_span text, int64_t *ns);

#endif
