/* jet_utf8 - any bytes to valid UTF-8: what is not valid becomes U+FFFD. */
#ifndef JET_UTF8_H
#define JET_UTF8_H

#include "jet_types.h"

/* How many bytes the valid form of `s` takes. */
size_t jet_utf8_lossy_len(jet_span s);
/* Write the valid form; `to` has room for jet_utf8_lossy_len bytes. Returns the bytes written. */
size_t jet_utf8_lossy_copy(jet_span s, uint8_t *to);

#endif
