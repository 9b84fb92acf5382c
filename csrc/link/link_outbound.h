/* link_outbound - the bytes that wait to leave, and the only code that calls send().
 *
 * Frames go out whole and in the order in which they were put in. Threads that put in share one
 * buffer; when it is full they stand in line, and the room that a send makes is promised to them in
 * the order of the line. Any thread may send what waits (one at a time, `send_turn`); one thread, the
 * writer, does it whenever no other does. */
#ifndef LINK_OUTBOUND_H
#define LINK_OUTBOUND_H

#include "jet_encode.h"
#include "link_pieces.h"
#include "link_resend.h"
#include "link_turn.h"

/* Seconds for which the writer may hold frames of the resend buffer (acknowledgements), since no thread
 * waits for them: they leave with what is sent meanwhile. The first one after a pause of so many seconds
 * leaves at once. */
#define LINK_HOLD 0.001
#define LINK_PAUSE 0.01

/* The outcome of a call of a filter. */
typedef enum link_filtered {
    LINK_FILTER_BROKEN = 0, /* nothing of use: the link is beyond repair */
    LINK_FILTER_DONE = 1,
    LINK_FILTER_MORE = 2, /* decoding: call again, with or without further bytes */
    LINK_FILTER_LAST = 3  /* encoding: nothing may be sent behind this */
} link_filtered;

/* Make of `n` bytes what is to be sent (encrypted by TLS, framed by a WebSocket), with what the filter
 * owes, and append it to `out`. Called by the holder of the send turn, with no mutex held. */
typedef link_filtered (*link_encode)(void *context, const uint8_t *bytes, size_t n, jet_buf *out);

typedef struct link_outbound {
    link_mutex lock; /* guards what follows, up to `send_turn` */
    link_pieces aside; /* whole frames that no sender has taken, in front of `pending` */
    jet_buf pending;   /* the same: what was put in last */
    link_line line;  /* of threads that wait for room */
    size_t promised; /* bytes of room that belong to threads that were woken and have not put in */
    link_gate work;  /* the writer waits here for bytes */
    link_resend resend;
    int fd; /* -1: no link. Nothing else says whether there is one */
    size_t left; /* without a link: how many of the pending bytes were put in for the last one */
    int expected; /* without a link: one is coming, and lines are for it */
    int closed;
    int hurried;         /* the writer has more to send than what may be held */
    double held;         /* when the oldest pending frame that may be held was put in; 0: there is none */
    double held_left;    /* when such frames left last */
    int on_watch;        /* the writer looks at `held` by itself */
    int nudged;          /* there may be something to send besides `pending` */
    uint64_t links;      /* the number of the last link, from 2 on (atomic for others) */
    uint64_t pings;      /* put in for this link (atomic for others, as those below) */
    uint64_t pongs;      /* that came on this link: so many of the PINGs are answered */
    uint64_t asked;      /* the number of the PING that asks what of `resend` has arrived; 0: none is on
                          * its way */
    uint64_t asked_point; /* what was put into `resend` before it */
    uint64_t epoch;      /* how often it was reset: a wait that began before is over */
    uint64_t msgs;       /* put in so far */
    uint64_t bytes;      /* theirs, framing included */
    uint64_t bytes_before; /* the same at the last PING */
    size_t high_water;   /* constant: with so much waiting on a link a thread waits too */
    size_t offline_limit; /* constant: what is kept without a link */
    size_t max_line; /* constant once frames are put in: the longest control line */

    link_turn send_turn; /* the right to call send(); its holder owns the rest */
    jet_buf sending;
    size_t last_take; /* how much was taken out of `pending` at once */
    jet_buf plain; /* on a link with a filter: what is encoded next */
    link_encode encode; /* NULL: bytes leave as they are. Changed under `lock` too, as what follows */
    void *context;
    int writer_only; /* a signal may break off `encode` in other threads, as it does Python code */
    int last;        /* the filter ended the link with what is in `sending` */
    link_share *taken; /* whose memory `plain` is, or without a filter `sending`; NULL: their own */
} link_outbound;

/* A message or frames to put in; spans are borrowed for the call. */
typedef enum link_kind { LINK_PUB, LINK_REPLY, LINK_FRAMES } link_kind;
typedef struct link_put {
    link_kind kind;
    jet_span subject, reply, header;
    jet_span payload;  /* LINK_FRAMES: frames that were encoded and checked elsewhere */
    link_share *share; /* LINK_FRAMES: where `payload`, a single frame, may be borrowed; NULL: copy it */
    uint64_t messages; /* in them */
    uint64_t link;     /* number of the only link on which it may leave, or which it waits for; 0: any */
    int resend;          /* send it again over the next link, unless it is known to have arrived */
    int wake;          /* have the writer send it, with `resend` within LINK_HOLD; else the caller has to */
    int is_first; /* out: it is the first one that is kept: call link_outbound_ask from now on */
} link_put;

/* The result of sending. */
typedef enum link_sent { LINK_DRAINED = 0, LINK_BLOCKED = 1, LINK_BROKEN = 2 } link_sent;

void link_outbound_init(link_outbound *o, size_t high_water, size_t offline_limit);
void link_outbound_free(link_outbound *o);
/* In a forked child: make it closed and empty. A thread of the parent may have been changing it at
 * the fork, so its memory is not freed. */
void link_outbound_reset(link_outbound *o);

/* -- putting in --------------------------------------------------------------------------------- */

/* Put `p` in if there is room and no other thread stands in line. LINK_OK, LINK_FULL, LINK_OFFLINE,
 * LINK_GONE, LINK_CLOSED, LINK_BUSY (only with `may_wait` 0), or a negative jet_status: nothing was
 * put in. */
int link_outbound_put(link_outbound *o, link_put *p, int may_wait);
/* The same for a caller that never waits for room: it may use what those in line have no use for,
 * since the next room is promised to them. */
int link_outbound_offer(link_outbound *o, link_put *p);
/* After LINK_FULL: stand in line for the room that `p` needs, with `w`; then sleep on `w->wakeup`
 * and call `link_outbound_put_promised`. Blocks only for the mutex. */
void link_outbound_join(link_outbound *o, link_waiter *w, const link_put *p);
/* Awake: put `p` in. Results as of `link_outbound_put`; LINK_FULL: stand in line again (the link has
 * changed meanwhile). Blocks only for the mutex. */
int link_outbound_put_promised(link_outbound *o, link_put *p, link_waiter *w);
/* Wait no longer. Room that was promised goes to the next in line. */
void link_outbound_withdraw(link_outbound *o, link_waiter *w);
/* Whether the line that `w` stands in is gone: the process has forked. */
int link_outbound_is_lost(const link_outbound *o, const link_waiter *w);

/* Answer a PING. For the reading thread: never waits. Above the high-water mark the peer does not
 * read, and no PONG is added. */
void link_outbound_pong(link_outbound *o);
/* Append a PING, and wake the writer for it with `wake`; else the caller has to send. Returns which one
 * it is on this link, beginning with 1; 0: no link, closed, or no memory. */
uint64_t link_outbound_ping(link_outbound *o, int wake);
/* Append a line that means nothing to another link, if there is a link or one is expected. LINK_OK,
 * LINK_CLOSED or JET_ERR_MEMORY. */
int link_outbound_line(link_outbound *o, jet_span line);
/* The number of the link; 0: there is none. */
uint64_t link_outbound_link(link_outbound *o);
/* The number of the link, or of the next one while there is none: what is put in now leaves on it. */
uint64_t link_outbound_link_to_leave_on(link_outbound *o);
/* Without a link: drop the messages whose reply begins with `reply` that were put in for the last
 * one. What was put in since stays. */
void link_outbound_retract(link_outbound *o, jet_span reply);
size_t link_outbound_pending(link_outbound *o);
/* How many threads stand in line for room. */
size_t link_outbound_waiting(link_outbound *o);
/* Copy up to `n` pending bytes; returns how many. */
size_t link_outbound_peek(link_outbound *o, uint8_t *to, size_t n);
/* A PONG came. Returns whether a caller may wait for it: not for one that only says what of the resend
 * buffer has arrived. For the reading thread: never waits. */
int link_outbound_ponged(link_outbound *o);
/* Ask by a PING what of the resend buffer has arrived. Half a megabyte more is asked about at once; for
 * the rest this is to be called once in a while. Returns whether it is to be called again: not when
 * nothing is kept any more, or when it is closed. */
int link_outbound_ask(link_outbound *o);
/* Bytes in the resend buffer. */
size_t link_outbound_kept(link_outbound *o);

/* -- sending ------------------------------------------------------------------------------------ */

/* Begin to send from the calling thread, which does not wait. 0: it is not to (another thread sends,
 * or the filter is the writer's alone): the writer was woken. 1: little is to be sent. 2: much; call what
 * follows without the interpreter's lock. */
int link_outbound_begin_send(link_outbound *o);
/* Whether frames are held that the calling thread may send: it is about to wait, and what it put in
 * is not to wait with it. */
int link_outbound_holds(link_outbound *o);
/* Send what was pending at the beginning, without waiting for the network; the rest is the
 * writer's, who is woken. Ends what link_outbound_begin_send began. */
void link_outbound_send(link_outbound *o);
/* Wake the writer, even when it is about to sleep. */
void link_outbound_nudge(link_outbound *o);
/* Send until it is closed: the whole life of the writer. Blocks. */
void link_outbound_pump(link_outbound *o);

/* -- the link ----------------------------------------------------------------------------------- */

/* A link is coming: lines are kept for it from here on, in order with what else is put in. Called
 * before its `first` is gathered, so that what changes meanwhile is not missed. */
void link_outbound_expect(link_outbound *o);
/* Send over `fd` from now on: `first`, then what is kept, then what is pending, but for what the
 * server would refuse (`jet_encode_sift`). Returns how many messages that were, or JET_ERR_MEMORY.
 * Blocks while another thread sends. */
ptrdiff_t link_outbound_attach(link_outbound *o, int fd, jet_span first, size_t max_payload,
                               link_encode encode, void *context, int writer_only);
/* There is no link from here on: stop using the descriptor and wake the publishers that wait for
 * room. It should be shut down before, so that a send that blocks ends. */
void link_outbound_detach(link_outbound *o);
/* Then: drop what was half sent, since sending it again could store it twice. Blocks while another
 * thread sends. */
void link_outbound_forget(link_outbound *o);
/* Drop everything, end the writer, refuse everything from now on. Safe to repeat. */
void link_outbound_close(link_outbound *o);

#endif
