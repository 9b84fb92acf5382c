/* The half of link_outbound that sends, and its link. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link_room.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

enum {
    /* Memory kept in an empty buffer: what steady traffic needs. Getting it anew each time would cost
     * more, in page faults, than to send it. */
    KEEP = 4 << 20,
    AT_ONCE = 256 * 1024, /* what is encoded at a time */
    LITTLE = 128 * 1024, /* what is sent with the interpreter's lock held */
    /* Where message follows message, to wake the writer for a few costs more than to send them: after
     * so many since it last woke up it waits for more, in microseconds. Answers to single requests
     * never come to so many, so they leave at once. */
    MANY = 16,
    GATHER = 50
};

/* Give borrowed memory back. Called as soon as nothing is left in it, since the memory of an empty
 * buffer may be freed. The caller has the send turn. */
static void let_go(link_outbound *o) {
    if (o->taken == NULL) return;
    jet_buf_init(o->encode ? &o->plain : &o->sending);
    link_share_leave(o->taken);
    o->taken = NULL;
}

/* Take what was put in first into `next`, which is empty and borrows nothing. Returns what is left of
 * its piece, for link_piece_free without the mutex; NULL: nothing is. */
static link_piece *take_first(link_outbound *o, jet_buf *next) {
    jet_buf swap = *next;
    link_assert_held(&o->lock);
    link_piece *piece = link_pieces_take(&o->aside);
    *next = piece ? piece->bytes : o->pending;
    o->last_take = jet_buf_len(next);
    if (piece) {
        o->taken = piece->share;
        piece->share = NULL;
        jet_buf_init(&piece->bytes);
    }
    if (!piece && o->held) {
        o->held_left = link_now();
        o->held = 0;
    }
    if (piece && o->pending.data)
        piece->bytes = swap;
    else
        o->pending = swap;
    return piece;
}

/* Encode the next bytes of `plain` into `sending`. Returns whether that worked. */
static int encode_some(link_outbound *o) {
    size_t n = jet_buf_len(&o->plain) < AT_ONCE ? jet_buf_len(&o->plain) : AT_ONCE;
    jet_buf_clear(&o->sending, KEEP);
    link_filtered got = o->encode(o->context, n ? jet_buf_ptr(&o->plain) : NULL, n, &o->sending);
    jet_buf_consume(&o->plain, n);
    if (jet_buf_len(&o->plain) == 0) let_go(o);
    o->last = got == LINK_FILTER_LAST;
    return got != LINK_FILTER_BROKEN;
}

/* Send until nothing is left, or with `once` until what was pending at the beginning is gone. The
 * caller has the send turn. */
static link_sent drain(link_outbound *o, int flags, int once) {
    jet_buf *next = o->encode ? &o->plain : &o->sending;
    size_t all = 0, took = 0; /* bytes: of what was pending at the beginning */
    int asked = 0; /* a filter may owe bytes of its own: it is asked at least once */
    for (;;) {
        int left = 0;
        link_piece *piece = NULL;
        /* After many pending bytes as many follow: keep the memory and do not free it. Freeing
         * back may take long, so that is not done under the mutex. */
        if (jet_buf_len(next) == 0) {
            let_go(o);
            jet_buf_clear(next, 4 * o->last_take > KEEP ? 4 * o->last_take : KEEP);
        }
        /* Nothing may follow the last frame; the pending bytes stay for the next link. */
        if (o->last && jet_buf_len(&o->sending) == 0) return LINK_BROKEN;
        link_lock(&o->lock);
        int fd = o->fd;
        if (all == 0) all = link_room_used(o);
        if (fd >= 0 && jet_buf_len(next) == 0 && link_room_used(o)) {
            if (once && took >= all) {
                left = 1;
            } else {
                piece = take_first(o, next);
                took += o->last_take;
                link_room_promise(o);
            }
        }
        link_unlock(&o->lock);
        link_piece_free(piece);
        if (left && jet_buf_len(&o->sending) == 0) return LINK_BLOCKED;
        if (o->encode && fd >= 0 && jet_buf_len(&o->sending) == 0 &&
            (jet_buf_len(&o->plain) || !asked)) {
            asked = 1;
            if (!encode_some(o)) return LINK_BROKEN;
        }
        if (fd < 0 || jet_buf_len(&o->sending) == 0) return LINK_DRAINED;
        ssize_t sent =
            send(fd, jet_buf_ptr(&o->sending), jet_buf_len(&o->sending), flags | MSG_NOSIGNAL);
        if (sent >= 0)
            jet_buf_consume(&o->sending, (size_t)sent);
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return LINK_BLOCKED;
        else if (errno != EINTR)
            return LINK_BROKEN;
    }
}

int link_outbound_begin_send(link_outbound *o) {
    if (link_turn_try(&o->send_turn)) {
        /* Bytes that the holder of the turn took before may not have been sent. */
        size_t waiting = jet_buf_len(&o->sending) + jet_buf_len(&o->plain);
        if (link_try_lock(&o->lock)) {
            int writer_only = o->writer_only;
            waiting += link_room_used(o);
            link_unlock(&o->lock);
            if (!writer_only) return waiting <= LITTLE ? 1 : 2;
        } else if (!o->writer_only) {
            return 2;
        }
        /* A filter of Python code is the writer's alone: a signal may break it off in this thread,
         * with what it has encoded neither sent nor forgotten. */
        link_turn_leave(&o->send_turn);
    }
    link_outbound_nudge(o);
    return 0;
}

void link_outbound_nudge(link_outbound *o) {
    link_lock(&o->lock);
    o->nudged = 1;
    link_gate_open(&o->work);
    link_unlock(&o->lock);
}

/* Drop what was half sent. The caller has the send turn. */
static void forget_sending(link_outbound *o) {
    let_go(o);
    jet_buf_clear(&o->sending, KEEP);
    jet_buf_clear(&o->plain, KEEP);
}

/* The link does not work. The reader declares it dead; this only makes sure that it finds out. */
static void give_up(link_outbound *o) {
    forget_sending(o);
    link_lock(&o->lock);
    if (o->fd >= 0) shutdown(o->fd, SHUT_RDWR);
    link_room_leave_link(o);
    link_unlock(&o->lock);
}

void link_outbound_send(link_outbound *o) {
    link_sent sent = drain(o, MSG_DONTWAIT, 1);
    /* With the turn: another thread would send the next piece behind a gap. */
    if (sent == LINK_BROKEN) give_up(o);
    link_turn_leave(&o->send_turn);
    if (sent == LINK_BLOCKED) link_outbound_nudge(o);
}

int link_outbound_holds(link_outbound *o) {
    link_lock(&o->lock);
    int holds = o->held != 0 && !o->writer_only;
    link_unlock(&o->lock);
    return holds;
}

/* The writer waits until there is something to send. Frames that may be held wait for LINK_HOLD, unless
 * they are the first after a pause. Until none came for so long it looks after them by itself, so that
 * putting them in wakes no thread. */
static void await_work(link_outbound *o) {
    link_assert_held(&o->lock);
    for (;;) {
        int waiting = o->fd >= 0 && link_room_used(o);
        if (o->closed || o->nudged || (waiting && (o->hurried || !o->held))) return;
        if (waiting && o->held - o->held_left > LINK_PAUSE) return;
        double due = (waiting ? o->held : o->held_left) + LINK_HOLD;
        o->on_watch = due > link_now();
        if (waiting && !o->on_watch) return;
        link_gate_wait_until(&o->work, &o->lock, o->on_watch ? due : -1);
        o->on_watch = 0;
    }
}

void link_outbound_pump(link_outbound *o) {
    uint64_t seen = 0;
    for (;;) {
        link_lock(&o->lock);
        await_work(o);
        int gather = !o->nudged && o->hurried && o->msgs - seen > MANY;
        seen = o->msgs;
        o->nudged = o->hurried = 0;
        int closed = o->closed;
        link_unlock(&o->lock);
        if (closed) return;
        if (gather) usleep(GATHER);
        link_turn_wait(&o->send_turn);
        if (drain(o, 0, 0) == LINK_BROKEN) give_up(o);
        link_turn_leave(&o->send_turn);
    }
}

/* Drop what the next link is not to get; returns how many messages that were. */
static size_t sift(link_outbound *o, size_t max_payload) {
    size_t dropped = link_pieces_sift(&o->aside, max_payload, o->expected);
    if (jet_buf_len(&o->pending)) dropped += jet_encode_sift(&o->pending, max_payload, o->expected);
    return dropped;
}

void link_outbound_expect(link_outbound *o) {
    link_lock(&o->lock);
    sift(o, SIZE_MAX); /* the lines of the last link */
    o->left = 0;
    o->expected = 1;
    link_unlock(&o->lock);
}

ptrdiff_t link_outbound_attach(link_outbound *o, int fd, jet_span first, size_t max_payload,
                               link_encode encode, void *context, int writer_only) {
    link_turn_wait(&o->send_turn);
    forget_sending(o);
    jet_buf *into = encode ? &o->plain : &o->sending;
    jet_status status = jet_buf_append(into, first.ptr, first.len);
    link_lock(&o->lock);
    o->encode = encode;
    o->context = context;
    o->writer_only = writer_only;
    o->last = 0;
    if (status == JET_OK && jet_buf_len(&o->resend.frames))
        status = jet_buf_append(into, jet_buf_ptr(&o->resend.frames), jet_buf_len(&o->resend.frames));
    size_t refused = sift(o, max_payload);
    link_store(&o->pings, 0);
    link_store(&o->pongs, 0);
    o->asked = 0;
    link_add(&o->links, 1);
    o->fd = fd;
    o->expected = 0;
    o->nudged = 1;
    link_gate_open(&o->work);
    link_unlock(&o->lock);
    link_turn_leave(&o->send_turn);
    return status == JET_OK ? (ptrdiff_t)refused : (ptrdiff_t)status;
}

void link_outbound_detach(link_outbound *o) {
    link_lock(&o->lock);
    o->expected = 0;
    link_room_leave_link(o);
    link_unlock(&o->lock);
}

void link_outbound_forget(link_outbound *o) {
    link_turn_wait(&o->send_turn);
    forget_sending(o);
    link_turn_leave(&o->send_turn);
}

void link_outbound_close(link_outbound *o) {
    link_lock(&o->lock);
    o->closed = 1;
    link_pieces_clear(&o->aside);
    jet_buf_clear(&o->pending, 0);
    link_resend_free(&o->resend);
    link_gate_open(&o->work);
    link_room_dissolve(o);
    link_unlock(&o->lock);
}
