/* jet_puback - the common answer to a stored message, read without building anything. */
#ifndef JET_PUBACK_H
#define JET_PUBACK_H

#include "jet_types.h"

typedef struct jet_puback {
    uint64_t seq;
    int duplicate;
    jet_span stream; /* borrowed */
} jet_puback;

/* Read {"stream":"S","seq":N[,"duplicate":true][,...]}: flat, plain strings, numbers and booleans.
 * Returns 1 for an acknowledgement; 0 for anything else (an error, an unusual layout): the caller
 * then takes a real JSON parser. Never reads outside the span. */
int jet_puback_parse(jet_span json, jet_puback *out);

#endif
