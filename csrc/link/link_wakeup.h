/* link_wakeup - one thread sleeps until another wakes it; and the clock of all deadlines.
 *
 * A wakeup is a token: waking leaves it, sleeping takes it. It may be left before the sleeper comes,
 * and two tokens are one. A wait ends at a signal too, so that an interpreter can run its handlers. */
#ifndef LINK_WAKEUP_H
#define LINK_WAKEUP_H

#include "link_sync.h"

#if !defined(__linux__) && !defined(LINK_PORTABLE)
#define LINK_PORTABLE 1
#endif

typedef struct link_wakeup {
    int token; /* atomic; with LINK_PORTABLE guarded by `mutex` */
#ifdef LINK_PORTABLE
    pthread_mutex_t mutex;
    pthread_cond_t condition;
#endif
} link_wakeup;

/* A place where one thread waits for a condition that a mutex guards. Waking it costs a system call
 * only when a thread waits. Several threads wait one after another, each with its turn. */
typedef struct link_gate {
    link_wakeup wakeup;
    int waiting; /* guarded by the mutex of the condition */
} link_gate;

/* Seconds on the monotonic clock. */
double link_now(void);

void link_wakeup_init(link_wakeup *w);
void link_wakeup_free(link_wakeup *w);
/* Leave the token. Nothing of `w` is touched once the sleeper may have gone. */
void link_wakeup_wake(link_wakeup *w);
/* Sleep until the token is there, and take it. Blocks until `deadline` (negative: no limit).
 * LINK_WOKEN, LINK_TIMEOUT or LINK_SIGNAL. */
link_result link_wakeup_sleep(link_wakeup *w, double deadline);

void link_gate_init(link_gate *g);
void link_gate_free(link_gate *g);
/* Begin to wait. The caller holds the mutex, gives it back and sleeps. */
void link_gate_arm(link_gate *g);
/* Wake the waiter, if there is one. The caller holds the mutex. */
void link_gate_open(link_gate *g);
/* After LINK_TIMEOUT, or when a signal ends the wait: stop waiting. The caller holds the mutex.
 * Returns whether it was opened in this very moment. */
int link_gate_leave(link_gate *g);
/* Wait without a deadline; signals do not end it. The caller holds `guard`, which is released
 * meanwhile. Blocks. */
void link_gate_wait(link_gate *g, link_mutex *guard);
/* The same until `deadline` at the latest (negative: no limit). */
void link_gate_wait_until(link_gate *g, link_mutex *guard, double deadline);

#endif
