/* link_room - the line of threads that wait for room in an outbound buffer. For the files of
 * link_outbound only; their callers hold `lock`. */
#ifndef LINK_ROOM_H
#define LINK_ROOM_H

#include "link_outbound.h"

/* The bytes that no sender has taken. */
static inline size_t link_room_used(const link_outbound *o) {
    link_assert_held(&o->lock);
    return o->aside.size + jet_buf_len(&o->pending);
}
/* Promise the room that there is to the threads in line, the oldest first, and wake them. */
void link_room_promise(link_outbound *o);
/* The link or the whole buffer is gone: wake all threads in line, to try again. */
void link_room_dissolve(link_outbound *o);
/* End the link; no other function does. Bytes that wait, and those put in from now on, stay for the
 * next one. */
void link_room_leave_link(link_outbound *o);

#endif
