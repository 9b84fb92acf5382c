/* link_group - queues that have something for a callback, and the threads that call.
 *
 * A queue of a group is due when there is something in it, or it ended, or it was woken. One thread
 * at a time has it: it is put into the list once, and again only after its thread found it empty
 * (link_queue_rest). So the messages of one queue keep their order on any number of threads.
 *
 * The list also carries the messages that queues fall due with, one behind the other in the order of the
 * queues: where thousands of queues have a message each, memory of each queue's own for it would not
 * be in the processor's cache, and cost as much as the callback. What follows goes into the queue. */
#ifndef LINK_GROUP_H
#define LINK_GROUP_H

#include "jet_segment.h"
#include "link_turn.h"

struct link_queue;

/* Larger messages go into their queue: a thread copies what the list carried. */
#define LINK_CARRY_MAX 1024u

/* The message that a thread takes from the list with a queue. */
typedef struct link_carried {
    int is_there;
    jet_record record; /* its spans are in `bytes` */
    double since;      /* when it was received at the latest */
    uint8_t bytes[LINK_CARRY_MAX];
} link_carried;

typedef struct link_group {
    link_mutex lock; /* guards the rest; taken with the mutex of a queue held */
    struct link_queue *first, *last; /* those that are due, oldest first */
    jet_chain carried;    /* messages of some of them, in that order */
    double carried_since; /* when the newest of these was received */
    link_waiter *idle; /* threads that sleep, the one that came last first: its memory is warm */
    size_t checking;   /* threads that check the list before they sleep */
    size_t queues;     /* how many belong to the group */
    size_t threads;    /* how many have entered */
    size_t most;       /* how many there may be */
    int closed;        /* in a forked child */
} link_group;

typedef enum link_due {
    LINK_DUE_QUEUE, /* one is due, and is the caller's now */
    LINK_DUE_NONE,  /* none: read the link for a while, then call again, ready to sleep */
    LINK_DUE_SLEEP, /* none: sleep on the waiter's wakeup, then call again */
    LINK_DUE_END,   /* there are more threads than are needed: end */
    LINK_DUE_BUSY   /* another thread holds the mutex: call again without the interpreter's lock */
} link_due;

void link_group_init(link_group *g, size_t most);
void link_group_free(link_group *g);
/* In a forked child: no thread, no queue; every taker is told to end. */
void link_group_reset(link_group *g);

/* Count a queue that joins; returns whether the caller is to start a thread for it. A thread counts itself when
 * it enters, so one that is never started, or started twice, is counted right. */
int link_group_add(link_group *g);
/* Count a queue that leaves. A thread that is not needed any more ends. */
void link_group_remove(link_group *g);
/* Count a thread that begins. Returns whether it is needed; else it has to end. */
int link_group_enter(link_group *g);
/* Whether there is a thread. */
int link_group_has_threads(link_group *g);

/* Put queues into the list, which are linked by `next_due` from the first to the last, and see that a
 * thread checks it. `carried`: messages for them, received until `now`; empty afterwards. NULL: none. */
void link_group_put(link_group *g, struct link_queue *first, struct link_queue *last,
                    jet_chain *carried, double now);
/* 0: there is something for a thread to do; 1: it is missing. */
size_t link_group_missing(void *group);
/* For a thread of the group: the queue that is due for the longest time, and what the list carries for
 * it. `comes`: the thread begins, or has dealt with a queue; it checks the list from now on. With
 * `sleeps` it stands in line with `w` when there is none. LINK_DUE_BUSY only with `may_wait` 0. */
link_due link_group_take(link_group *g, link_waiter *w, int comes, int sleeps, struct link_queue **q,
                         link_carried *carried, int may_wait);

#endif
