/* link - what runs between a socket and the threads that use it: queues, locks, waiting, sending.
 *
 * A C library over `jet`: it knows threads, sockets and epoll, and it does not know Python. A caller
 * that holds an interpreter's lock may call everything here; a function that can wait says so, and
 * is to be called without that lock. Every structure says which lock guards each field. The order
 * in which locks are taken is `link_order` in link_sync.h; with LINK_DEBUG it is asserted.
 */
#ifndef LINK_H
#define LINK_H

#include "link_group.h"
#include "link_inbound.h"
#include "link_keep.h"
#include "link_outbound.h"
#include "link_queue.h"
#include "link_reader_turn.h"
#include "link_resend.h"
#include "link_sync.h"
#include "link_turn.h"
#include "link_wakeup.h"
#include "link_websocket.h"

#endif
