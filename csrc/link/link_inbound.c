#include "link_inbound.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "jet_scan.h"
#include "link_keep.h"

enum {
    RECEIVE = 256 * 1024,
    /* A message of this size keeps the memory that it was received in, where that saves copying: it
     * is received alone, with no more behind it than the next line may need. */
    LARGE = 64 * 1024,
    BEHIND = 512,
    KEEP = 64 * 1024, /* what the buffers of a quiet link hold */
    /* Bytes that are waited for at once, at most. With so many in it a socket has as much room left, so
     * its peer need not wait. */
    GATHER = 32 * 1024
};

void link_inbound_init(link_inbound *in, link_outbound *outbound, size_t max_size) {
    memset(in, 0, sizeof *in);
    link_reader_turn_init(&in->turn);
    link_mutex_init(&in->routes, LINK_ORDER_ROUTES);
    jet_slots_init(&in->subs);
    jet_slots_init(&in->replies);
    jet_buf_init(&in->buf);
    jet_buf_init(&in->raw);
    jet_parser_init(&in->parser, max_size);
    in->outbound = outbound;
}

void link_inbound_free(link_inbound *in) {
    jet_buf_free(&in->buf);
    jet_buf_free(&in->raw);
    jet_slots_free(&in->subs);
    jet_slots_free(&in->replies);
    link_mutex_free(&in->routes);
    link_reader_turn_free(&in->turn);
}

void link_inbound_reset(link_inbound *in) {
    link_mutex_init(&in->routes, LINK_ORDER_ROUTES);
    link_reader_turn_reset(&in->turn);
    in->near = 0;
}

/* -- routes ------------------------------------------------------------------------------------- */

uint64_t link_inbound_add(link_inbound *in, link_queue *q) {
    link_lock(&in->routes);
    uint64_t sid = jet_slots_add(&in->subs, q);
    q->sid = sid;
    link_unlock(&in->routes);
    return sid;
}

void link_inbound_remove(link_inbound *in, uint64_t sid) {
    link_lock(&in->routes);
    jet_slots_remove(&in->subs, sid);
    link_unlock(&in->routes);
}

int link_inbound_add_reply(link_inbound *in, link_queue *q, int may_wait, uint64_t *token) {
    if (!link_enter(&in->routes, may_wait)) return 0;
    *token = jet_slots_add(&in->replies, q);
    link_unlock(&in->routes);
    return 1;
}

int link_inbound_remove_reply(link_inbound *in, uint64_t token, int may_wait) {
    if (!link_enter(&in->routes, may_wait)) return 0;
    jet_slots_remove(&in->replies, token);
    link_unlock(&in->routes);
    return 1;
}

void link_inbound_route_replies(link_inbound *in, jet_span prefix, uint64_t sid) {
    link_lock(&in->routes);
    in->reply_prefix = prefix.ptr;
    in->reply_prefix_len = prefix.len;
    in->reply_sid = sid;
    link_unlock(&in->routes);
}

static link_queue *find_route(const link_inbound *in, const jet_frame *f) {
    uint64_t token;
    size_t n = in->reply_prefix_len;
    link_assert_held(&in->routes);
    if (!in->reply_sid || f->sid != in->reply_sid) return jet_slots_get(&in->subs, f->sid);
    if (f->subject.len <= n || memcmp(f->subject.ptr, in->reply_prefix, n)) return NULL;
    jet_span rest = jet_span_of(f->subject.ptr + n, f->subject.len - n);
    /* The token may be followed by "-" and a suffix that its owner chose. */
    n = jet_token_read(&in->key, rest, &token);
    if (n == 0 || (n < rest.len && rest.ptr[n] != '-')) return NULL;
    return jet_slots_get(&in->replies, token);
}

/* -- reading ------------------------------------------------------------------------------------ */

void link_inbound_begin(link_inbound *in, size_t max_size) {
    jet_buf_clear(&in->buf, 4 * RECEIVE);
    jet_parser_init(&in->parser, max_size);
    in->more = 0;
}

jet_status link_inbound_feed(link_inbound *in, jet_span bytes) {
    return jet_buf_append(&in->buf, bytes.ptr, bytes.len);
}

/* The state of one pass of parsing. */
typedef struct pass {
    link_queue *locked;  /* whose mutex is held: runs of messages for one queue lock once */
    link_queue *touched; /* those that got something, in a list */
    link_group *group;   /* of the last queue that has one */
    link_queue *due, *last_due; /* those that fell due in `group`, in a list */
    jet_chain carried;   /* their messages, which its list will carry */
    link_queue *last;    /* where the last subscription's messages go */
    uint64_t last_sid;
    uint64_t messages, bytes;
    double now;
    uint64_t reads;
} pass;

/* Put the queues that fell due into the list of their group, in one step. */
static void put_due(pass *p) {
    if (p->due) link_group_put(p->group, p->due, p->last_due, &p->carried, p->now);
    p->due = NULL;
}

static void note_due(pass *p, link_queue *q) {
    if (p->due)
        p->last_due->next_due = q;
    else
        p->due = q;
    p->last_due = q;
}

static void release(pass *p) {
    link_queue *q = p->locked;
    p->locked = NULL;
    if (q == NULL) return;
    if (q->group) {
        if (link_queue_tell(q)) note_due(p, q);
    } else if (!q->touched) {
        q->touched = 1;
        q->next_touched = p->touched;
        p->touched = q;
    }
    link_unlock(&q->lock);
}

/* Copy what follows a large frame to a buffer of its own, so that the frame can keep the memory that it
 * lies in. Returns 0 where to copy the frame is less work, or would hold less memory. */
static int leave_alone(const link_inbound *in, const jet_frame *f, size_t frame_len, jet_buf *rest) {
    size_t behind = jet_buf_len(&in->buf) - frame_len;
    if (f->payload.len < LARGE || behind > frame_len / 4 || in->buf.cap / 4 > frame_len) return 0;
    jet_buf_init(rest);
    return jet_buf_append(rest, jet_buf_ptr(&in->buf) + frame_len, behind) == JET_OK;
}

/* Put a message into its queue, and consume its frame. */
static link_event deliver(link_inbound *in, const jet_frame *f, size_t frame_len, pass *p,
                          jet_span *text) {
    link_queue *q = p->last;
    jet_buf rest;
    p->messages++;
    p->bytes += f->header.len + f->payload.len;
    if (f->sid != p->last_sid) {
        q = find_route(in, f);
        if (f->sid != in->reply_sid) p->last_sid = f->sid, p->last = q;
    }
    in->large = f->payload.len >= LARGE;
    in->frame = frame_len;
    if (q == NULL) {
        link_add(&in->unmatched, 1);
        jet_buf_consume(&in->buf, frame_len);
        return LINK_EVENT_NONE;
    }
    if (q != p->locked) {
        release(p);
        link_lock(&q->lock);
        p->locked = q;
        if (q->group != p->group && q->group) {
            put_due(p);
            p->group = q->group;
        }
    }
    jet_record r = {f->subject, f->reply, f->header, f->payload, f->status};
    q->last_reads = p->reads;
    int alone = in->large && leave_alone(in, f, frame_len, &rest);
    link_put_outcome outcome =
        link_queue_put(q, &r, p->now, alone ? &in->buf : NULL, &p->carried);
    if (alone) {
        jet_buf_free(&in->buf); /* it is empty, or the message in it was dropped */
        in->buf = rest;
    } else {
        jet_buf_consume(&in->buf, frame_len);
    }
    if (outcome == LINK_PUT_NOTHING) return LINK_EVENT_NONE;
    text->len = q->sid;
    return outcome == LINK_PUT_LAST ? LINK_EVENT_LAST : LINK_EVENT_SLOW;
}

static void wake_touched(pass *p) {
    link_queue *next;
    for (link_queue *q = p->touched; q; q = next) {
        next = q->next_touched;
        link_queue_serve(q);
    }
}

/* Between two PONGs no message came: give memory back that a busy link needs. */
static void rest_when_quiet(link_inbound *in) {
    if (in->messages == in->quiet_since) {
        if (jet_buf_len(&in->buf) == 0) jet_buf_clear(&in->buf, KEEP);
        if (jet_buf_len(&in->raw) == 0) jet_buf_clear(&in->raw, KEEP);
        if (in->pool) jet_pool_rest(in->pool);
    }
    in->quiet_since = in->messages;
}

link_event link_inbound_parse(link_inbound *in, jet_span *text) {
    pass p = {.now = link_now(), .reads = in->reads, .carried = {.pool = in->pool}};
    link_event event = LINK_EVENT_NONE;
    link_lock(&in->routes);
    while (event == LINK_EVENT_NONE && jet_buf_len(&in->buf)) {
        jet_frame f;
        size_t used;
        int got = jet_parser_next(&in->parser,
                                  jet_span_of(jet_buf_ptr(&in->buf), jet_buf_len(&in->buf)), &f, &used);
        if (got == 0) break;
        if (got < 0) {
            text->len = (size_t)-got;
            event = LINK_EVENT_BAD;
            break;
        }
        if (f.op == JET_OP_MSG) {
            event = deliver(in, &f, used, &p, text);
            continue;
        }
        switch (f.op) {
        case JET_OP_MSG: break;
        case JET_OP_PING: link_outbound_pong(in->outbound); break;
        case JET_OP_PONG:
            if (link_outbound_ponged(in->outbound)) event = LINK_EVENT_PONG;
            break;
        case JET_OP_INFO: event = LINK_EVENT_INFO, *text = f.payload; break;
        case JET_OP_ERR: event = LINK_EVENT_ERR, *text = f.payload; break;
        case JET_OP_OK: break;
        }
        /* Consuming only moves a mark: what `text` points to stays until the next receive. */
        jet_buf_consume(&in->buf, used);
    }
    link_add(&in->messages, p.messages);
    link_add(&in->bytes, p.bytes);
    if (event == LINK_EVENT_PONG) rest_when_quiet(in);
    release(&p);
    put_due(&p);
    wake_touched(&p);
    link_unlock(&in->routes);
    return event;
}

/* Where to receive, and how much. A large message that has begun to come gets memory of its own size,
 * which it can keep. Returns NULL without memory. */
static uint8_t *room_to_receive(link_inbound *in, size_t *room) {
    size_t have = jet_buf_len(&in->buf);
    *room = RECEIVE;
    if (in->large && !in->decode) { /* the rest of the next message, and not much of what follows */
        *room = BEHIND + (in->parser.need > have ? in->parser.need - have : 0);
    }
    if (have == 0 && in->buf.cap > 4 * RECEIVE) jet_buf_free(&in->buf);
    if (in->parser.need >= LARGE) {
        size_t whole = in->parser.need + (in->decode ? RECEIVE : BEHIND);
        if ((in->buf.cap - in->buf.start < whole || in->buf.cap / 4 > whole) &&
            jet_buf_fit(&in->buf, whole) != JET_OK)
            return NULL;
        *room = in->decode ? RECEIVE : whole - have;
    }
    return jet_buf_reserve(in->decode ? &in->raw : &in->buf, *room);
}

/* Receive once; without waiting when followers may read. */
static link_event receive(link_inbound *in, int fd, jet_span *text) {
    int flags = in->turn.epoll >= 0 ? MSG_DONTWAIT : 0;
    size_t room;
    ssize_t n = 0;
    uint8_t *to = room_to_receive(in, &room);
    if (to == NULL) {
        text->len = (size_t)-JET_ERR_MEMORY;
        return LINK_EVENT_BAD;
    }
    if (!in->more) {
        do n = recv(fd, to, room, flags);
        while (n < 0 && errno == EINTR);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return LINK_EVENT_NONE;
        if (n <= 0) {
            in->why = n < 0 ? errno : 0;
            return LINK_EVENT_EOF;
        }
        link_add(&in->reads, 1);
    }
    if (!in->decode) {
        jet_buf_commit(&in->buf, (size_t)n);
        return LINK_EVENT_NONE;
    }
    link_filtered got = in->decode(in->context, to, (size_t)n, &in->buf);
    in->more = got == LINK_FILTER_MORE;
    text->len = LINK_NOT_DECODED;
    return got == LINK_FILTER_BROKEN ? LINK_EVENT_BAD : LINK_EVENT_NONE;
}

link_event link_inbound_pump(link_inbound *in, int fd, jet_span *text) {
    for (;;) {
        link_event event = link_inbound_parse(in, text);
        if (event == LINK_EVENT_NONE && in->turn.epoll >= 0)
            event = (link_event)link_reader_turn_lend(&in->turn, text);
        if (event == LINK_EVENT_NONE) event = receive(in, fd, text);
        if (event != LINK_EVENT_NONE) return event;
    }
}

static int receive_and_parse(void *context, int fd, jet_span *text) {
    link_event event = receive(context, fd, text);
    return event == LINK_EVENT_NONE ? link_inbound_parse(context, text) : event;
}

int link_inbound_follow(link_inbound *in, link_missing missing, void *whom, double until, int gather) {
    size_t n, bytes, least = 1;
    while ((n = missing(whom)) > 0) {
        if (gather) {
            bytes = n < GATHER / (in->frame + 1) ? n * in->frame : GATHER;
            least = bytes > jet_buf_len(&in->buf) ? bytes - jet_buf_len(&in->buf) : 1;
        }
        if (!link_reader_turn_read(&in->turn, until, least, receive_and_parse, in))
            return missing(whom) == 0;
    }
    return 1;
}

static void set_near(link_inbound *in, int near) { link_store(&in->near, near); }

void link_inbound_link(link_inbound *in, int fd) {
    link_reader_turn_link(&in->turn, fd);
    set_near(in, in->turn.epoll >= 0);
}

void link_inbound_unlink(link_inbound *in) {
    set_near(in, 0);
    link_reader_turn_unlink(&in->turn);
}

int link_inbound_is_near(const link_inbound *in) { return link_load(&in->near); }

void link_inbound_waited(link_inbound *in, double seconds) {
    set_near(in, seconds < LINK_KEEP_LONGEST);
}

void link_inbound_leave(link_inbound *in, double waited) {
    link_inbound_waited(in, waited);
    link_reader_turn_leave(&in->turn);
}
