/* One connection's threads around the link library, as they run under an interpreter.
 *
 * A server of its own stands at the other end of each socket; links break and come again. */
#ifndef WORLD_H
#define WORLD_H

#define _GNU_SOURCE

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jet_scan.h"
#include "link.h"

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            _exit(1);                                                               \
        }                                                                           \
    } while (0)

enum { QUEUES = 5, PUBLISHERS = 3, LOOKERS = 7, REPLY_SID = 1000000 };

extern link_inbound in;
extern link_outbound out;
extern link_queue queues[QUEUES], idle; /* the first has two takers, the second one, the third none; the
                                     fourth and the fifth belong to the group, whose list carries messages
                                     of the fifth */
extern uint64_t sids[QUEUES];
extern size_t rounds;             /* of messages per link */
extern jet_pool pool;              /* of all queues */
extern atomic_int ended;
extern atomic_uint_fast64_t token;     /* of the request that waits for an answer */
extern atomic_uint_fast64_t brief_sid; /* of a subscription that is gone soon, or already */

/* server.c: the other end of one link. Ends the link after its rounds. */
typedef struct server {
    int fd;
    int framed; /* the link is a WebSocket */
    pthread_t reading, writing;
    uint64_t published[PUBLISHERS]; /* the last number of each publisher */
} server;
void server_start(server *s, int fd);
void server_join(server *s);
extern size_t frames_arrived; /* of all links; read when they have ended */

/* takers.c, publishers.c: what threads run until `ended`. */
/* Take a turn that many want, for a moment. */
void contend(double seconds);
void *taker(void *queue);
void *watcher(void *unused);
void *looker(void *which);
void *manager(void *unused);
void *publisher(void *number);
void *acknowledger(void *unused);
/* One of two threads of a group, which take from the last two queues. */
void *worker(void *unused);
extern link_group group;
extern size_t taken[QUEUES], discarded[QUEUES];

#endif
