/* link_inbound - from the socket to the queues.
 *
 * One thread at a time receives, parses and routes: the reader, or a follower that has its turn. Any
 * thread adds and removes routes. */
#ifndef LINK_INBOUND_H
#define LINK_INBOUND_H

#include "jet_buf.h"
#include "jet_parser.h"
#include "jet_slots.h"
#include "jet_token.h"
#include "link_outbound.h"
#include "link_queue.h"
#include "link_reader_turn.h"

/* Decode received bytes (by TLS, of a WebSocket) and append what they mean to `out`. Called by the
 * thread that reads, with no mutex held; with n = 0 after LINK_FILTER_MORE. */
typedef link_filtered (*link_decode)(void *context, const uint8_t *bytes, size_t n, jet_buf *out);

typedef struct link_inbound {
    link_reader_turn turn;

    link_mutex routes;   /* guards what follows, up to `buf` */
    jet_slots subs;      /* subscription id -> link_queue */
    jet_slots replies;   /* reply token -> link_queue */
    const uint8_t *reply_prefix; /* borrowed; messages of `reply_sid` are routed by what follows it */
    size_t reply_prefix_len;
    uint64_t reply_sid;
    jet_token_key key;   /* constant, set by the owner: of reply tokens */

    jet_buf buf;         /* this and the rest belong to the reading thread: received, not parsed */
    jet_parser parser;
    jet_buf raw;         /* on a link with a filter: where bytes are received */
    link_decode decode;  /* NULL: what comes is plain */
    void *context;
    int more;            /* the filter has more of what was received */
    link_outbound *outbound; /* constant: where PINGs are answered */
    jet_pool *pool;          /* constant, set by the owner: of the queues' segments; may be NULL */
    uint64_t quiet_since;    /* how many messages had come when the last PONG came */
    int large;               /* the last message was a large one: another may follow */
    size_t frame;            /* bytes of the last message's frame: those of the next ones, about */
    int near;                /* atomic; see link_inbound_is_near */
    int why;             /* errno of the end of the link; 0: the peer closed it */
    uint64_t messages, bytes, unmatched, reads; /* counts (atomic: others read them) */
} link_inbound;

/* How many messages are missing until the taker `whom` can stop waiting. */
typedef size_t (*link_missing)(void *whom);

/* The events for the reader. Everything else is handled in here. */
typedef enum link_event {
    LINK_EVENT_NONE = 0,
    LINK_EVENT_INFO = 1,  /* text: the JSON */
    LINK_EVENT_ERR = 2,   /* text: what the server says */
    LINK_EVENT_PONG = 3,  /* `outbound->pongs` counts them; some are not for the reader */
    LINK_EVENT_SLOW = 4,  /* text.len: the sid of a queue that begins to drop */
    LINK_EVENT_EOF = 5,   /* the link has ended; see `why` */
    LINK_EVENT_BAD = 6,   /* text.len: a jet_status with its sign changed; the link is of no use */
    LINK_EVENT_LAST = 7   /* text.len: the sid of a queue that got its last message */
} link_event;

/* LINK_EVENT_BAD because `decode` returned LINK_FILTER_BROKEN. */
#define LINK_NOT_DECODED 1000

void link_inbound_init(link_inbound *in, link_outbound *outbound, size_t max_size);
void link_inbound_free(link_inbound *in);
/* In a forked child: usable tables, whose lock a thread of the parent may have held; no link. */
void link_inbound_reset(link_inbound *in);

/* -- routes; blocks only for the mutex ---------------------------------------------------------- */

/* Give a queue a subscription id; 0: no memory, or no numbers left. The queue is borrowed until
 * link_inbound_remove. */
uint64_t link_inbound_add(link_inbound *in, link_queue *q);
/* Forget it. The reading thread does not touch the queue any more when this returns. */
void link_inbound_remove(link_inbound *in, uint64_t sid);
/* The same for the numbers of reply tokens: no other request ever had the same. Where the caller may
 * not wait they return 0 and do nothing while another thread has the lock. */
int link_inbound_add_reply(link_inbound *in, link_queue *q, int may_wait, uint64_t *token);
int link_inbound_remove_reply(link_inbound *in, uint64_t token, int may_wait);
/* Route messages of subscription `sid` whose subject is `prefix` and a token by that token. `prefix`
 * is borrowed until the next call. */
void link_inbound_route_replies(link_inbound *in, jet_span prefix, uint64_t sid);

/* -- reading ------------------------------------------------------------------------------------ */

/* For the reader before a link: forget half-received bytes of the last one. */
void link_inbound_begin(link_inbound *in, size_t max_size);
/* Take bytes as if they had been received. JET_OK or JET_ERR_MEMORY. */
jet_status link_inbound_feed(link_inbound *in, jet_span bytes);
/* Deal with every whole frame that was received, or up to one that the reader has to see. */
link_event link_inbound_parse(link_inbound *in, jet_span *text);
/* Receive from `fd` until there is an event. Only the reader, with its turn. Blocks. */
link_event link_inbound_pump(link_inbound *in, int fd, jet_span *text);
/* Let followers read `fd` from now on, and let none read any more. As link_reader_turn_link. */
void link_inbound_link(link_inbound *in, int fd);
void link_inbound_unlink(link_inbound *in);
/* For a taker that has nothing and that took the reader's turn (link_reader_turn_take): read the link
 * in this thread until `missing(whom)` says that what it waits for has come, up to `until`
 * (monotonic). Routes what comes for others too. With `gather` it wakes up once for all that is missing, and not
 * for each piece of it: for a short time, since pieces for others wait too. Returns whether it has come.
 * Blocks, until a signal comes or something is left to the reader at the latest. */
int link_inbound_follow(link_inbound *in, link_missing missing, void *whom, double until, int gather);
/* Give the turn back after having waited for so many seconds. */
void link_inbound_leave(link_inbound *in, double waited);
/* Whether an answer may be expected soon, from threads that need no interpreter for it: followers may
 * read the link, and the last wait for it was a short one. On a far link it never is. */
int link_inbound_is_near(const link_inbound *in);
/* Note how many seconds a wait took. */
void link_inbound_waited(link_inbound *in, double seconds);

#endif
