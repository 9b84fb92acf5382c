/* link_reader_turn - leader and followers: which thread reads the socket.
 *
 * An answer that a reading thread has to hand over costs its caller a wake-up, more than all the rest
 * of a request. So while the reader (the leader) has nothing to read, one caller at a time (a
 * follower) takes its turn, reads, and routes what comes, for itself and for all others, as the
 * reader would. What needs more than that (an event, the end of the link) is left to the reader.
 *
 * The reader sleeps in an epoll that a follower mutes while it reads. When the follower leaves, the
 * epoll wakes the reader at once if there is anything to read. */
#ifndef LINK_READER_TURN_H
#define LINK_READER_TURN_H

#include "jet_types.h"
#include "link_wakeup.h"

typedef struct link_reader_turn {
    link_mutex lock;
    link_gate gate; /* where the reader waits for a follower to leave */
    int epoll;      /* wakes the reader when there is something to read; -1: no follower reads */
    int eventfd;    /* wakes it although nothing can be read */
    int fd;         /* of the link. These three are changed by the reader, with no follower reading */
    int taken;      /* guarded by `lock`, with the two below: a follower reads, or the reader works */
    int left;       /* an event that a follower came across: for the reader */
    int mark;       /* bytes that the holder of the turn wants before `fd` can be read; else 1 */
    jet_span left_text;
} link_reader_turn;

/* Receive once and deal with what came; returns an event and its text, or 0. Called by the holder
 * of the turn. */
typedef int (*link_read_step)(void *context, int fd, jet_span *text);

/* Taken by the reader, with no link. */
void link_reader_turn_init(link_reader_turn *t);
void link_reader_turn_free(link_reader_turn *t);
/* In a forked child: reading has ended, and old descriptors are closed. */
void link_reader_turn_reset(link_reader_turn *t);
/* Let followers read `fd` from now on, where the system can do that. Only the reader, while it has
 * the turn. */
void link_reader_turn_link(link_reader_turn *t, int fd);
/* Let no follower read any more, before `fd` is closed. Only the reader, while it has the turn. */
void link_reader_turn_unlink(link_reader_turn *t);
int link_reader_turn_is_taken(link_reader_turn *t);

/* The reader: sleep until there is something to read, and let followers read meanwhile. Returns an
 * event that one of them left, or 0. Blocks. */
int link_reader_turn_lend(link_reader_turn *t, jet_span *text);

/* A follower: take the turn if the reader sleeps and no other follower reads. */
int link_reader_turn_take(link_reader_turn *t, int may_wait);
/* Wait for `least` bytes to read until `until` (monotonic) and deal with what has come. Returns
 * whether to go on: not when time is up, a signal came, or something was left to the reader. Blocks. */
int link_reader_turn_read(link_reader_turn *t, double until, size_t least, link_read_step step,
                          void *context);
void link_reader_turn_leave(link_reader_turn *t);

#endif
