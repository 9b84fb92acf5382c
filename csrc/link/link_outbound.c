#include "link_room.h"

#include <string.h>

enum {
    QUIET = 64 * 1024, /* what the buffers of a quiet link hold */
    STEP = 4 << 20     /* the buffer behind one that was set aside is twice as large, up to this */
};

static int is_online(const link_outbound *o) { return o->fd >= 0; }

void link_outbound_init(link_outbound *o, size_t high_water, size_t offline_limit) {
    memset(o, 0, sizeof *o);
    link_mutex_init(&o->lock, LINK_ORDER_OUTBOUND);
    link_turn_init(&o->send_turn);
    link_gate_init(&o->work);
    jet_buf_init(&o->pending);
    jet_buf_init(&o->sending);
    jet_buf_init(&o->plain);
    link_resend_init(&o->resend);
    o->fd = -1;
    o->links = 1; /* 0 stands for any */
    o->high_water = high_water;
    o->offline_limit = offline_limit;
    o->max_line = JET_MAX_CONTROL_LINE;
}

void link_outbound_free(link_outbound *o) {
    link_pieces_clear(&o->aside);
    if (o->taken) jet_buf_init(o->encode ? &o->plain : &o->sending), link_share_leave(o->taken);
    jet_buf_free(&o->pending);
    jet_buf_free(&o->sending);
    jet_buf_free(&o->plain);
    link_resend_free(&o->resend);
    link_gate_free(&o->work);
    link_turn_free(&o->send_turn);
    link_mutex_free(&o->lock);
}

void link_outbound_reset(link_outbound *o) {
    uint64_t epoch = o->epoch, turns = o->send_turn.epoch;
    uint64_t msgs = o->msgs, bytes = o->bytes;
    link_outbound_init(o, o->high_water, o->offline_limit);
    o->send_turn.epoch = turns + 1;
    o->epoch = epoch + 1;
    o->msgs = msgs;
    o->bytes = bytes;
    o->closed = 1;
}

/* -- room --------------------------------------------------------------------------------------- */

static inline int has_room(const link_outbound *o, size_t size) {
    size_t waiting = link_room_used(o) + o->promised;
    if (!is_online(o)) return waiting + size <= o->offline_limit;
    return waiting == 0 || waiting + size <= o->high_water;
}

void link_room_promise(link_outbound *o) {
    link_waiter *w;
    link_assert_held(&o->lock);
    while ((w = o->line.first) != NULL && has_room(o, w->size)) {
        link_line_remove(&o->line, w);
        o->promised += w->size;
        w->granted = 1;
        link_wakeup_wake(&w->wakeup);
    }
}

void link_room_dissolve(link_outbound *o) {
    link_waiter *w;
    link_assert_held(&o->lock);
    while ((w = o->line.first) != NULL) {
        link_line_remove(&o->line, w);
        link_wakeup_wake(&w->wakeup);
    }
}

void link_room_leave_link(link_outbound *o) {
    link_assert_held(&o->lock);
    if (is_online(o)) o->left = link_room_used(o);
    o->fd = -1;
    link_room_dissolve(o);
}

/* The number of the link over which bytes that are put in now will leave. */
static inline uint64_t link_to_leave_on(const link_outbound *o) {
    link_assert_held(&o->lock);
    return is_online(o) ? o->links : o->links + 1;
}

/* The bytes that are counted against the limits. */
static size_t size_of(const link_put *p) {
    return p->kind == LINK_PUB ? p->header.len + p->payload.len : p->subject.len + p->payload.len;
}

/* -- putting in --------------------------------------------------------------------------------- */

/* Set `pending` aside, and have another with room for `need` bytes. Without memory for that the
 * pending bytes stay, or are moved when it grows. */
static void set_aside(link_outbound *o, size_t need) {
    size_t cap = o->pending.cap < STEP / 2 ? 2 * o->pending.cap : STEP;
    if (link_pieces_set_aside(&o->aside, &o->pending)) jet_buf_fit(&o->pending, cap < need ? need : cap);
}

/* Put the frame in without a copy, if that is possible. */
static int borrow(link_outbound *o, const link_put *p) {
    if (!link_share_lend(p->share)) return 0;
    if ((jet_buf_len(&o->pending) == 0 || link_pieces_set_aside(&o->aside, &o->pending)) &&
        link_pieces_lend(&o->aside, p->payload, p->share))
        return 1;
    link_share_leave(p->share);
    return 0;
}

static inline jet_status encode(link_outbound *o, const link_put *p) {
    if (jet_buf_len(&o->pending) >= LINK_LARGE) {
        size_t need = jet_encode_room(p->subject, p->reply, p->header, p->payload);
        if (o->pending.cap - o->pending.end < need) set_aside(o, need);
    }
    if (p->kind == LINK_PUB)
        return jet_encode_pub(&o->pending, p->subject, p->reply, p->header, p->payload,
                              o->max_line);
    if (p->kind == LINK_REPLY)
        return jet_encode_answer(&o->pending, p->subject, p->reply, p->payload, o->max_line);
    return jet_buf_append(&o->pending, p->payload.ptr, p->payload.len);
}

/* Put in a PING whose PONG shows that what is kept now has arrived, unless one is on its way. */
static void ask(link_outbound *o) {
    link_assert_held(&o->lock);
    if (!is_online(o) || o->asked || jet_encode_ping(&o->pending) != JET_OK) return;
    link_add(&o->pings, 1);
    o->asked = o->pings;
    o->asked_point = o->resend.end;
}

/* Have the writer send what is pending. */
static inline void hurry(link_outbound *o) {
    o->hurried = 1;
    link_gate_open(&o->work);
}

/* Have it send what is pending within LINK_HOLD. */
static inline void hold(link_outbound *o) {
    if (o->held == 0) o->held = link_now();
    if (!o->on_watch) link_gate_open(&o->work);
}

static inline int append(link_outbound *o, link_put *p) {
    size_t before = link_room_used(o);
    if (p->share == NULL || !borrow(o, p)) {
        jet_status status = encode(o, p);
        if (status != JET_OK) return status;
    }
    size_t size = link_room_used(o) - before;
    if (p->resend) {
        link_question question =
            link_resend_add(&o->resend, o->pending.data + o->pending.end - size, size);
        if (question == LINK_ASK_NO_MEMORY) {
            jet_buf_cut(&o->pending, size);
            return JET_ERR_MEMORY;
        }
        p->is_first = question == LINK_ASK_REGULARLY;
        if (question == LINK_ASK_NOW) ask(o);
    }
    link_add(&o->msgs, p->messages);
    link_add(&o->bytes, size);
    if (p->wake && p->resend)
        hold(o);
    else if (p->wake)
        hurry(o);
    return LINK_OK;
}

/* Append `p` if nothing forbids it but room, and there is some. */
static inline int try_append(link_outbound *o, link_put *p, int has_room_now) {
    link_assert_held(&o->lock);
    if (o->closed) return LINK_CLOSED;
    if (p->link && p->link != link_to_leave_on(o)) return LINK_GONE;
    if (has_room_now) return append(o, p);
    return is_online(o) ? LINK_FULL : LINK_OFFLINE;
}

int link_outbound_put(link_outbound *o, link_put *p, int may_wait) {
    if (!link_enter(&o->lock, may_wait)) return LINK_BUSY;
    int result = try_append(o, p, !o->line.first && has_room(o, size_of(p)));
    link_unlock(&o->lock);
    return result;
}

int link_outbound_offer(link_outbound *o, link_put *p) {
    link_lock(&o->lock);
    int result = try_append(o, p, has_room(o, size_of(p)));
    link_unlock(&o->lock);
    return result;
}

void link_outbound_join(link_outbound *o, link_waiter *w, const link_put *p) {
    link_lock(&o->lock);
    w->size = size_of(p);
    w->epoch = o->epoch;
    link_line_join(&o->line, w);
    if (o->closed || !is_online(o))
        link_room_dissolve(o);
    else
        link_room_promise(o); /* there may be some by now */
    /* The pending bytes may wait for a thread that has not sent them yet. */
    hurry(o);
    link_unlock(&o->lock);
}

int link_outbound_put_promised(link_outbound *o, link_put *p, link_waiter *w) {
    link_wakeup_free(&w->wakeup);
    link_lock(&o->lock);
    if (w->granted) o->promised -= w->size;
    int room = w->granted && is_online(o) ? 1 : !o->line.first && has_room(o, w->size);
    int result = try_append(o, p, room);
    if (result != LINK_OK) link_room_promise(o);
    link_unlock(&o->lock);
    return result;
}

void link_outbound_withdraw(link_outbound *o, link_waiter *w) {
    if (link_outbound_is_lost(o, w)) return;
    link_lock(&o->lock);
    if (w->granted)
        o->promised -= w->size;
    else
        link_line_remove(&o->line, w);
    link_room_promise(o); /* those behind may fit where this one did not */
    link_unlock(&o->lock);
    link_wakeup_free(&w->wakeup);
}

int link_outbound_is_lost(const link_outbound *o, const link_waiter *w) {
    return o->epoch != w->epoch;
}

void link_outbound_pong(link_outbound *o) {
    link_lock(&o->lock);
    if (!o->closed && link_room_used(o) <= o->high_water) {
        jet_encode_pong(&o->pending);
        hurry(o);
    }
    link_unlock(&o->lock);
}

/* Give memory back that what was put in since the last PING did not need. */
static void rest_when_quiet(link_outbound *o) {
    jet_buf spare; /* freed without the mutex: that may take long */
    jet_buf_init(&spare);
    int mine = link_turn_try(&o->send_turn);
    link_lock(&o->lock);
    size_t enough = (size_t)(o->bytes - o->bytes_before) * 4 + QUIET;
    o->bytes_before = o->bytes;
    if (jet_buf_len(&o->pending) == 0 && o->pending.cap > enough) {
        spare = o->pending;
        jet_buf_init(&o->pending);
    }
    link_unlock(&o->lock);
    jet_buf_free(&spare);
    if (!mine) return;
    if (jet_buf_len(&o->sending) == 0) jet_buf_clear(&o->sending, enough);
    if (jet_buf_len(&o->plain) == 0) jet_buf_clear(&o->plain, enough);
    link_turn_leave(&o->send_turn);
}

uint64_t link_outbound_ping(link_outbound *o, int wake) {
    uint64_t number = 0;
    rest_when_quiet(o);
    link_lock(&o->lock);
    if (!o->closed && is_online(o) && jet_encode_ping(&o->pending) == JET_OK) {
        link_add(&o->pings, 1);
        number = o->pings;
        if (wake) hurry(o);
    }
    link_unlock(&o->lock);
    return number;
}

int link_outbound_line(link_outbound *o, jet_span line) {
    int result = LINK_OK;
    link_lock(&o->lock);
    if (o->closed) {
        result = LINK_CLOSED;
    } else if (is_online(o) || o->expected) {
        result = jet_buf_append(&o->pending, line.ptr, line.len);
        hurry(o);
    }
    link_unlock(&o->lock);
    return result;
}

uint64_t link_outbound_link(link_outbound *o) {
    link_lock(&o->lock);
    uint64_t number = is_online(o) ? o->links : 0;
    link_unlock(&o->lock);
    return number;
}

uint64_t link_outbound_link_to_leave_on(link_outbound *o) {
    link_lock(&o->lock);
    uint64_t number = link_to_leave_on(o);
    link_unlock(&o->lock);
    return number;
}

static void retract(link_outbound *o, jet_span reply) {
    size_t first = o->left;
    o->left -= link_pieces_retract(&o->aside, reply, &first);
    if (first) o->left -= jet_encode_retract(&o->pending, reply, first);
}

void link_outbound_retract(link_outbound *o, jet_span reply) {
    link_lock(&o->lock);
    if (!is_online(o) && !o->closed && o->left)
        retract(o, reply);
    link_unlock(&o->lock);
}

size_t link_outbound_pending(link_outbound *o) {
    link_lock(&o->lock);
    size_t n = link_room_used(o);
    link_unlock(&o->lock);
    return n;
}

size_t link_outbound_waiting(link_outbound *o) {
    size_t n = 0;
    link_lock(&o->lock);
    for (const link_waiter *w = o->line.first; w; w = w->next) n++;
    link_unlock(&o->lock);
    return n;
}

size_t link_outbound_peek(link_outbound *o, uint8_t *to, size_t n) {
    link_lock(&o->lock);
    size_t done = link_pieces_peek(&o->aside, to, n);
    if (n - done > jet_buf_len(&o->pending)) n = done + jet_buf_len(&o->pending);
    if (n > done) memcpy(to + done, jet_buf_ptr(&o->pending), n - done);
    link_unlock(&o->lock);
    return n;
}

int link_outbound_ponged(link_outbound *o) {
    link_lock(&o->lock);
    if (o->pongs < o->pings) link_add(&o->pongs, 1);
    int own = o->asked && o->asked == o->pongs;
    if (own) {
        link_resend_arrived(&o->resend, o->asked_point);
        o->asked = 0;
    }
    link_unlock(&o->lock);
    return !own;
}

int link_outbound_ask(link_outbound *o) {
    link_lock(&o->lock);
    int more = !o->closed && link_resend_has_more(&o->resend);
    if (more) {
        ask(o);
        hurry(o);
    }
    link_unlock(&o->lock);
    return more;
}

size_t link_outbound_kept(link_outbound *o) {
    link_lock(&o->lock);
    size_t n = jet_buf_len(&o->resend.frames);
    link_unlock(&o->lock);
    return n;
}


