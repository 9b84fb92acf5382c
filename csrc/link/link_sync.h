/* link_sync - mutexes and atomics, the only ones that the link library uses.
 *
 * A mutex is held for microseconds, by code that never waits and never calls out. With LINK_DEBUG a
 * mutex knows its holder, and taking two in the wrong order, or touching what a mutex guards
 * without holding it, aborts. With LINK_MUTATION a test leaves out one use at a time (each use is
 * known by its file and line), to show that every one of them is needed. */
#ifndef LINK_SYNC_H
#define LINK_SYNC_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* The order of mutexes: a thread that holds one takes only later ones. docs/internals/threads.md
 * has the same list. */
typedef enum link_order {
    LINK_ORDER_READER_TURN = 1, /* link_reader_turn: who reads the socket */
    LINK_ORDER_ROUTES,          /* link_inbound: the tables of subscription ids and reply tokens */
    LINK_ORDER_QUEUE,           /* link_queue: the messages that wait, and their counts */
    LINK_ORDER_GROUP,       /* link_group: queues with something for a callback, and who sleeps */
    LINK_ORDER_OUTBOUND,        /* link_outbound: the bytes that wait, and who waits for room */
    LINK_ORDER_TURN,            /* link_turn: who waits for a turn */
    LINK_ORDER_WEBSOCKET        /* link_websocket: the answers that are due */
} link_order;

typedef struct link_mutex {
    pthread_mutex_t mutex;
#ifdef LINK_DEBUG
    link_order order;
    pthread_t holder; /* valid while `held` */
    int held;
#endif
} link_mutex;

/* The result of a call that may wait. Refusals of the encoder (jet_status) are negative. */
typedef enum link_result {
    LINK_OK = 0,
    LINK_BUSY = 1,    /* another thread holds the mutex: call again without the interpreter's lock */
    LINK_FULL = 2,    /* there is no room: wait for it */
    LINK_OFFLINE = 3, /* there is no link, and what may be kept for the next one is full */
    LINK_CLOSED = 4,  /* it takes nothing any more */
    LINK_WOKEN = 5,   /* what was waited for has come */
    LINK_TIMEOUT = 6, /* it has not come in time */
    LINK_SIGNAL = 7,  /* a signal came: handle it, then wait on */
    LINK_GONE = 8     /* the link on which it was to leave is gone */
} link_result;

void link_mutex_init(link_mutex *m, link_order order);
void link_mutex_free(link_mutex *m);

#ifdef LINK_DEBUG
void link_mutex_entered(link_mutex *m);
void link_mutex_leaving(link_mutex *m);
/* Assert, in debug builds, that the calling thread holds `m`. */
void link_assert_held(const link_mutex *m);
#else
#define link_mutex_entered(m) ((void)(m))
#define link_mutex_leaving(m) ((void)(m))
#define link_assert_held(m) ((void)(m))
#endif

static inline void link_lock_real(link_mutex *m) {
    pthread_mutex_lock(&m->mutex);
    link_mutex_entered(m);
}

static inline void link_unlock_real(link_mutex *m) {
    link_mutex_leaving(m);
    pthread_mutex_unlock(&m->mutex);
}

/* Take it if that takes no longer than a moment. */
static inline int link_try_lock_real(link_mutex *m) {
    for (int tries = 0; tries < 50; tries++) {
        if (pthread_mutex_trylock(&m->mutex) == 0) {
            link_mutex_entered(m);
            return 1;
        }
    }
    return 0;
}

#ifdef LINK_MUTATION
#include "mutation.h"
#else
#define link_lock(m) link_lock_real(m)
#define link_unlock(m) link_unlock_real(m)
#define link_try_lock(m) link_try_lock_real(m)
/* Counts and flags that others read without a lock. */
#define link_load(from) __atomic_load_n(from, __ATOMIC_RELAXED)
#define link_store(to, value) __atomic_store_n(to, value, __ATOMIC_RELAXED)
/* Hand-over between threads: the receiver sees everything that was written before. */
#define link_swap(to, value) __atomic_exchange_n(to, value, __ATOMIC_ACQ_REL)
#define link_take_if(to, expected, value)                                                        \
    __atomic_compare_exchange_n(to, expected, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)
#endif

/* Take `m`: at once or not at all when the caller may not wait. */
#define link_enter(m, may_wait) ((may_wait) ? (link_lock(m), 1) : link_try_lock(m))

/* Add to a count that one thread at a time writes and others read without a lock. */
static inline void link_add(uint64_t *to, uint64_t n) { link_store(to, *to + n); }

#endif
