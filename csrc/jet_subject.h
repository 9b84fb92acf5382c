/* jet_subject - checks of subjects, in one pass, without state. */
#ifndef JET_SUBJECT_H
#define JET_SUBJECT_H

#include "jet_types.h"

/* 1 when no byte could break framing: not empty, no byte <= 0x20, no 0x7f. */
int jet_subject_is_safe(jet_span s);
/* Safe, and no token is a wildcard: a server takes "a.*" as a literal subject, which no
 * subscription can name. */
int jet_subject_is_publishable(jet_span s);
/* Safe, no empty token, '>' only as the last token. */
int jet_subject_is_subscribable(jet_span s);

#endif
