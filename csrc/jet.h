/* jet - the NATS wire as a C library: bytes in, bytes out.
 *
 * A library of pure functions: no Python, no threads, no sockets, no globals, no callbacks, no
 * printing. Every function says who owns each pointer. A `jet_span` is always borrowed. Everything
 * here may be called without the GIL; an object must not be used by two threads at once (but for a
 * `jet_pool`, which is there to be shared).
 */
#ifndef JET_H
#define JET_H

#define JET_VERSION "0.1.0"

#include "jet_blake2.h"
#include "jet_buf.h"
#include "jet_columns.h"
#include "jet_encode.h"
#include "jet_header.h"
#include "jet_jsack.h"
#include "jet_lines.h"
#include "jet_parser.h"
#include "jet_puback.h"
#include "jet_segment.h"
#include "jet_slots.h"
#include "jet_stored.h"
#include "jet_subject.h"
#include "jet_tally.h"
#include "jet_token.h"
#include "jet_types.h"
#include "jet_utf8.h"
#include "jet_websocket.h"

#endif
