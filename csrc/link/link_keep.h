/* link_keep - whether a wait keeps the interpreter's lock, and for how long.
 *
 * A thread that gives that lock up beside one that computes gets it back after a whole switch
 * interval (5 ms), whatever it gave it up for: fifty times what a round trip to a near server takes.
 * So a wait for an answer keeps the lock where a thread was seen to compute: each wait for a moment,
 * and all of them together for at most half of the time. The other half is the computing thread's.
 *
 * That a thread computes is seen by what a wait cost that gave the lock up: a whole interval, several
 * times in a row. Where threads only wait, one gets the lock back long before.
 *
 * No clock and no I/O: `now` goes in. All of it is guarded by that lock itself. */
#ifndef LINK_KEEP_H
#define LINK_KEEP_H

/* Seconds that one wait keeps the lock at most. */
#define LINK_KEEP_LONGEST 0.004

typedef struct link_keep {
    double busy_until;  /* a thread is taken to compute until then */
    double credit;      /* seconds that waits may keep the lock */
    double credited;    /* when that was reckoned */
    double last_costly; /* when the thread of the last costly wait had the lock back */
    int costly;         /* so many costly waits one after another, none of them cheap */
    double kept;        /* seconds that waits have kept it in all */
} link_keep;

/* Whether a thread is taken to compute. */
int link_keep_is_busy(const link_keep *k, double now);
/* How long a wait that begins now may keep the lock, in seconds; 0: it gives it up. */
double link_keep_for(link_keep *k, double now);
/* A wait has kept it for so long. */
void link_keep_kept(link_keep *k, double seconds);
/* A wait without the lock ended at `woke`, and its thread has the lock back now. `kept_before` is
 * `kept` when the wait began: what other waits kept since is no sign of a thread that computes. */
void link_keep_returned(link_keep *k, double woke, double now, double kept_before, double interval);

#endif
