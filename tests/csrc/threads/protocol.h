/* The locks of jetsync/_core in C: who takes which, in which order, around csrc's queues.
 *
 * csrc itself knows no locks. This is a model of its callers (inbound.pyx, mailbox.pyx,
 * outbound.pyx, seat.pyx, sync.pxd), function by function under the same names, without Python; the thread
 * sanitizer checks that the protocol leaves no data race. Order, taken left to right only:
 *
 *     take_lock (of a mailbox) | send_lock  <  seat | route lock  <  a mailbox's lock  <  Outbound.lock
 *
 * A gate's semaphore is waited for with none of them but take_lock or turn held. */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jet.h"
#include "jet_scan.h"

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            _exit(1);                                                               \
        }                                                                           \
    } while (0)

/* The locks by kind. As a negative control one kind can be left out: what it guards then races. */
enum lock_kind { NO_LOCK, ROUTE, BOX, TAKE, OUT, SEND, SEAT };
extern enum lock_kind left_out;

typedef struct lock {
    pthread_mutex_t mutex;
    enum lock_kind kind;
} lock;

void lock_init(lock *l, enum lock_kind kind);
void lock_free(lock *l);
void take(lock *l);
int try_take(lock *l);
void give(lock *l);

typedef struct gate {
    sem_t sem;
    int waiting; /* belongs to the guarding lock */
} gate;

/* -- mailbox.pyx --------------------------------------------------------------------------- */

typedef struct box {
    lock lock;
    gate gate;
    jet_chain chain;
    size_t limit, received, dropped;
    int finished, poked, touched;
    struct box *next_touched;
    uint64_t sid;
    atomic_size_t held; /* written under take_lock, read under `lock` */
    lock take_lock;
    jet_chain in_hand; /* belongs to take_lock */
    size_t used;       /* belongs to take_lock */
} box;

void box_init(box *b, size_t limit);
void box_free(box *b);
/* Take up to `most` messages; waits for the first. Returns how many, 0 after the end or a poke.
 * `seen` gets each message's number. */
size_t box_take(box *b, size_t most, void (*seen)(void *, uint64_t), void *context);
void box_poke(box *b);
void box_finish(box *b);
size_t box_discard(box *b);

/* -- outbound.pyx -------------------------------------------------------------------------- */

typedef struct outbound {
    lock lock, send_lock;
    pthread_mutex_t turn;
    gate work, room;
    jet_buf pending; /* belongs to `lock` */
    jet_buf sending; /* belongs to send_lock */
    size_t high_water, messages;
    int nudged, closed;
    size_t pings, pongs, published; /* seen on the wire; belong to send_lock */
} outbound;

void outbound_init(outbound *o, size_t high_water);
void outbound_free(outbound *o);
void outbound_publish(outbound *o, jet_span payload);
void outbound_ping(outbound *o);
void outbound_pong(outbound *o);
void outbound_send_now(outbound *o);
void outbound_pump(outbound *o); /* the writer's whole life */
void outbound_close(outbound *o);

/* -- seat.pyx ------------------------------------------------------------------------------ */

typedef struct seat {
    lock lock;
    gate gate; /* where the reader waits for a caller to leave */
    int taken;
} seat;

void seat_init(seat *s);
void seat_free(seat *s);
void seat_lend(seat *s); /* the reader: gives it up and takes it back */
int seat_take(seat *s);  /* a caller: sits down if nobody else does */
void seat_leave(seat *s);

/* -- inbound.pyx --------------------------------------------------------------------------- */

typedef struct inbound {
    lock route_lock;
    jet_slots subs, replies; /* belong to route_lock */
    seat seat;
    jet_parser parser;       /* and the rest: belongs to who has the seat */
    jet_buf buf;
    outbound *out;
    size_t messages, unmatched;
} inbound;

void inbound_init(inbound *in, outbound *out);
void inbound_free(inbound *in);
uint64_t inbound_add(inbound *in, box *b);
void inbound_remove(inbound *in, uint64_t sid);
uint64_t inbound_add_reply(inbound *in, box *b);
void inbound_remove_reply(inbound *in, uint64_t token);
void inbound_feed(inbound *in, jet_span bytes);

#endif
