/* link_turn - a lock whose waiters get it in the order in which they came.
 *
 * A holder that leaves hands it to the oldest waiter: a thread that comes back at once queues
 * behind the waiters. Taking a free one, and leaving one without waiters, is one atomic step each.
 * A holder may keep it for long, and may wait meanwhile. */
#ifndef LINK_TURN_H
#define LINK_TURN_H

#include "link_wakeup.h"

/* One thread that waits; it lives on that thread's stack. */
typedef struct link_waiter {
    link_wakeup wakeup;
    struct link_waiter *next; /* guarded, as the rest, by the mutex of what is waited for */
    int granted;
    uint64_t epoch;
    size_t size; /* link_outbound: the room it waits for */
} link_waiter;

/* Waiters, oldest first. Guarded by the mutex of what is waited for. */
typedef struct link_line {
    link_waiter *first, *last;
} link_line;

void link_line_join(link_line *line, link_waiter *w);
/* Take out one that waits in the line, wherever it stands. */
void link_line_remove(link_line *line, const link_waiter *w);

typedef struct link_turn {
    int state; /* atomic: free, taken, or taken and waited for */
    link_mutex mutex;
    link_line line; /* guarded by `mutex` */
    uint64_t epoch; /* how often it was reset */
} link_turn;

void link_turn_init(link_turn *t);
void link_turn_free(link_turn *t);
/* In a forked child: make it free, even if a thread of the parent had it. A wait that a signal
 * interrupted before the fork finds out by link_turn_is_lost. */
void link_turn_reset(link_turn *t);

/* Take it if it is free. */
int link_turn_try(link_turn *t);
/* Take it if it is free (returns 1), else stand in line with `w`: sleep on `w->wakeup` then. */
int link_turn_join(link_turn *t, link_waiter *w);
/* After LINK_TIMEOUT, or when a signal ends the wait. Returns 1 when it is the caller's after all. */
int link_turn_withdraw(link_turn *t, link_waiter *w);
/* Whether the line that `w` stands in is gone: the process has forked. */
int link_turn_is_lost(const link_turn *t, const link_waiter *w);
/* Take it, however long that takes. Blocks. */
void link_turn_wait(link_turn *t);
void link_turn_leave(link_turn *t);

#endif
