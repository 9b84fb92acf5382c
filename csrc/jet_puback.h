/* jet_puback - the common answer to a stored message, read without building anything. */
#ifndef JET_PUBACK_H
#define JET_PUBACK_H

#include "jet_types.h"

typedef struct jet_puback {
    uint64_t seq;
    int duplicate;
    int further;     /* whether it says more than these three */
    jet_span stream; /* borrowed */
} jet_puback;

/* How the confirmations of a stream begin: they are alike up to the number. Zeroed: none is known. */
typedef struct jet_puback_form {
    uint8_t head[160];
    size_t len;
    size_t stream_at;
    jet_puback like;
} jet_puback_form;

/* Read {"stream":"S","seq":N[,"duplicate":true][,...]}: flat, plain strings, numbers and booleans.
 * Returns 1 for an acknowledgement; 0 for anything else (an error, an unusual layout): the caller
 * then takes a real JSON parser. Never reads outside the span. */
int jet_puback_parse(jet_span json, jet_puback *out);
/* The same, quicker for one that begins as the one before did. */
int jet_puback_next(jet_puback_form *form, jet_span json, jet_puback *out);

#endif
