/* link_queue - the messages of one subscription or request, between the thread that reads the socket
 * and the threads that take them.
 *
 * The reading thread appends under `lock`. A taker moves all that waits into `ready` under the same
 * mutex, and walks through it without: `ready` belongs to the holder of `take_turn`. Takers get
 * their turns in the order in which they came. */
#ifndef LINK_QUEUE_H
#define LINK_QUEUE_H

#include "jet_segment.h"
#include "link_group.h"
#include "link_turn.h"

/* Whether the list of its group carries a message of a queue. */
typedef enum link_carries {
    LINK_CARRIES_NONE,
    LINK_CARRIES_ONE,
    LINK_CARRIES_DROPPED /* one that is not to be handed out */
} link_carries;

typedef struct link_queue {
    /* In front, up to `sid`, stands all that each message of a group touches: where thousands of queues
     * have a message each, none of it is in the processor's cache, and every line counts. */
    link_mutex lock; /* guards what follows, up to `take_turn` */
    int finished;    /* nothing more will come */
    int woken;       /* the taker shall return although nothing came */
    int scheduled;   /* due: in the list of the group, or with one of its threads */
    int takes_carried; /* constant while it is in a group: see link_queue_join_group */
    /* While it is in that list guarded by the group's mutex, before by the thread that found it due; so
     * is `carries`. */
    struct link_queue *next_due;
    link_group *group;     /* whose threads take from it; NULL: the one that waits */
    void *owner;           /* constant while it is in a group: for the binding */
    const void *near[2];   /* the same: what the owner touches for each message, or NULL */
    link_carries carries;  /* not beside `scheduled`: the compiler would read both at once */
    int absorbs;           /* constant: see link_queue_absorb */
    int slow;              /* inside an episode of dropping */
    int touched;           /* in the reader's list of queues to wake */
    uint64_t received;     /* messages put in, or dropped */
    uint64_t max_messages; /* 0: no limit; after that many it is finished */
    size_t limit_messages; /* constant; 0: no limit */
    size_t limit_bytes;    /* constant; 0: no limit */
    double last_put;       /* monotonic; of the last message, status or repeated heartbeat */
    uint64_t last_reads;   /* the reader's count of receives then */
    size_t least;          /* what the taker waits for, unless a status comes */
    jet_chain chain;
    size_t ready_messages; /* in `ready`, or carried by the list (atomic: others read it) */
    size_t ready_bytes;    /* the same */
    uint64_t taken;        /* messages handed to the user (atomic) */

    uint64_t sid; /* the key under which messages come; 0: none yet */
    uint64_t dropped;
    uint64_t heartbeat; /* a hash of the heartbeat that came last; 0: a message came */
    link_gate gate;     /* where the taker waits */
    struct link_queue *next_touched;

    link_turn take_turn; /* guards the rest */
    jet_chain ready;
    double ready_since; /* when the last message in there was received */
} link_queue;

/* The results of putting a message in. */
typedef enum link_put_outcome {
    LINK_PUT_NOTHING,
    LINK_PUT_SLOW, /* dropping begins */
    LINK_PUT_LAST  /* it was the last one: the queue is finished */
} link_put_outcome;

/* The results of a take. */
typedef enum link_found {
    LINK_FOUND = 0,     /* there is something in `ready` */
    LINK_NOTHING = 1,   /* nothing, and it shall not wait: no time, the end, or woken */
    LINK_WAIT = 2,      /* nothing yet */
    LINK_FIND_BUSY = 3  /* another thread holds the mutex: call again without the interpreter's lock */
} link_found;

/* The results of giving a queue back. */
typedef enum link_rest {
    LINK_REST_BUSY, /* another thread holds the mutex: call again without the interpreter's lock */
    LINK_RESTS,
    LINK_REST_MORE, /* there is more in it. The caller still has it, and goes on */
    LINK_REST_OVER  /* it is finished and empty. The caller still has it, and leaves the group */
} link_rest;

/* The counts of a queue at one moment. */
typedef struct link_counts {
    size_t messages; /* received and not yet taken */
    size_t bytes;    /* their subjects, replies, headers and payloads */
    uint64_t received, dropped, max_messages;
    double last_put;
    uint64_t last_reads;
    int finished;
} link_counts;

void link_queue_init(link_queue *q, jet_pool *pool, size_t limit_messages, size_t limit_bytes);
/* Before it is used: a heartbeat (status 100 without payload and reply) whose headers are those of
 * the one before, with no message between them, only moves `last_put` and `last_reads`. No taker wakes
 * for it. */
void link_queue_absorb(link_queue *q);
void link_queue_free(link_queue *q);
/* In a forked child: make it empty and finished. A thread of the parent may have been changing it
 * at the fork, so its memory is not freed. */
void link_queue_reset(link_queue *q);

/* -- for the reading thread --------------------------------------------------------------------- */

/* Copy one message in, or take over `from`, the buffer that it was received in (NULL: copy), which is
 * empty afterwards: see jet_chain_adopt. Over a limit the newest one is dropped: what waits keeps its
 * order and its neighbours. `carried`: what the list of its group will carry (NULL: nothing); a small
 * message that the queue falls due with goes there. The caller holds `lock`. */
link_put_outcome link_queue_put(link_queue *q, const jet_record *r, double now, jet_buf *from,
                                jet_chain *carried);
/* Whether its taker can stop waiting. The caller holds `lock`. */
int link_queue_has_enough(const link_queue *q);
/* If the taker can stop waiting, tell it. Returns whether the queue falls due with that: the caller
 * puts it into the list of its group, as soon as it can (link_group_put). The caller holds `lock`. */
int link_queue_tell(link_queue *q);
/* After a pass of reading that put something in: tell the takers if they can stop waiting. */
void link_queue_serve(link_queue *q);
/* How many messages are missing until its taker can stop waiting, for a caller that does not hold
 * `lock`. */
size_t link_queue_missing(void *queue);

/* -- for takers, with the take turn ------------------------------------------------------------- */

/* See that `ready` has something: `least` messages or a status when `patient`, else anything. With
 * LINK_WAIT and `arm` the caller has to sleep on `gate.wakeup`. */
link_found link_queue_find(link_queue *q, size_t least, int patient, int arm, int may_wait);
/* After LINK_TIMEOUT, or when a signal ends the wait: stop waiting. Returns whether it was woken in
 * this very moment. */
int link_queue_leave(link_queue *q);
/* Publish what is out of `chain` and not taken yet. */
static inline void link_queue_note(link_queue *q, size_t messages, size_t bytes) {
    link_store(&q->ready_messages, messages);
    link_store(&q->ready_bytes, bytes);
}
/* The same for `ready`, after it was changed. */
static inline void link_queue_note_ready(link_queue *q) {
    link_queue_note(q, q->ready.count, q->ready.bytes);
}

/* -- for any thread ----------------------------------------------------------------------------- */

/* Where a function has `may_wait`: with 0 it never waits for a mutex, and returns that it is BUSY (0
 * where it says so): call again without the interpreter's lock. All others wait for the mutex, which
 * the reading thread keeps while it copies messages: call them without the interpreter's lock. */

/* Make the waiting taker return once, or the next one if none waits, although nothing came. Returns 0
 * when it is busy. */
int link_queue_wake(link_queue *q, int may_wait);
/* Nothing more is put in; what waits can still be taken. Safe to repeat. */
void link_queue_finish(link_queue *q);
/* Drop the messages that wait; returns their number. While another thread takes, those that it has
 * moved out already stay its own. */
size_t link_queue_discard(link_queue *q);
/* Finish after that many messages in all; returns 0 when so many came already: those beyond are
 * dropped, but for what another thread that takes has moved out. */
int link_queue_stop_after(link_queue *q, uint64_t max_messages);
/* The counts at this moment. Returns 0 when it is busy. */
int link_queue_counts(link_queue *q, int may_wait, link_counts *now);

/* -- in a group --------------------------------------------------------------------------------- */

/* From now on the threads of a group take from it. `has_it`: the caller is one of them and has the queue.
 * `takes_carried`: they, and none else, take from it, and they take what comes with the queue
 * (link_group_take); else every message is in the queue. */
void link_queue_join_group(link_queue *q, link_group *g, void *owner, int has_it,
                           int takes_carried);
/* Not any more. For the thread that has it. */
void link_queue_leave_group(link_queue *q);
/* For the thread that has it and took what there was: gives it back. It is put into the list at once
 * when there is more, else when something comes. With `goes_on` one with more messages is left to the
 * caller, with `ends` a finished one without. */
link_rest link_queue_rest(link_queue *q, int goes_on, int ends, int may_wait);

#endif
