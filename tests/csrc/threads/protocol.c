/* See protocol.h. Names and order of the calls follow the .pyx files. */
#include "protocol.h"

#include <errno.h>
#include <time.h>

#define REPLY_SID 1000000u

enum lock_kind left_out = NO_LOCK;

void lock_init(lock *l, enum lock_kind kind) {
    pthread_mutex_init(&l->mutex, NULL);
    l->kind = kind;
}

void lock_free(lock *l) { pthread_mutex_destroy(&l->mutex); }

void take(lock *l) {
    if (l->kind != left_out) pthread_mutex_lock(&l->mutex);
}

int try_take(lock *l) { return l->kind == left_out || pthread_mutex_trylock(&l->mutex) == 0; }

void give(lock *l) {
    if (l->kind != left_out) pthread_mutex_unlock(&l->mutex);
}

/* -- sync.pxd ------------------------------------------------------------------------------ */

static void gate_init(gate *g) {
    sem_init(&g->sem, 0, 0);
    g->waiting = 0;
}

static void gate_open(gate *g) {
    if (g->waiting) {
        g->waiting = 0;
        sem_post(&g->sem);
    }
}

/* Wait with a limit; the guard is released and not taken back. Returns whether it was opened. */
static int gate_wait(gate *g, lock *guard) {
    struct timespec limit;
    int opened;
    g->waiting = 1;
    give(guard);
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_nsec += 20 * 1000 * 1000;
    if (limit.tv_nsec >= 1000000000) limit.tv_nsec -= 1000000000, limit.tv_sec++;
    do {
        opened = sem_timedwait(&g->sem, &limit) == 0;
    } while (!opened && errno == EINTR);
    if (opened) return 1;
    /* Opened in this very moment counts as opened. */
    take(guard);
    opened = !g->waiting;
    g->waiting = 0;
    if (opened) sem_wait(&g->sem);
    give(guard);
    return opened;
}

/* -- mailbox.pyx --------------------------------------------------------------------------- */

static jet_pool pool; /* of all boxes, without a lock */

void box_init(box *b, size_t limit) {
    memset(b, 0, sizeof *b);
    lock_init(&b->lock, BOX);
    lock_init(&b->take_lock, TAKE);
    gate_init(&b->gate);
    jet_chain_init(&b->chain);
    jet_chain_init(&b->in_hand);
    b->chain.pool = &pool;
    b->chain.first_cap = JET_SEGMENT_MAX; /* all segments come from the pool */
    b->limit = limit;
}

void box_free(box *b) {
    jet_chain_free(&b->chain);
    jet_chain_free(&b->in_hand);
    sem_destroy(&b->gate.sem);
    lock_free(&b->lock);
    lock_free(&b->take_lock);
}

/* The caller holds the box's lock. */
static void box_put(box *b, const jet_record *r) {
    if (b->finished) return;
    b->received++;
    size_t count = b->chain.count + atomic_load_explicit(&b->held, memory_order_relaxed);
    if ((b->limit && count >= b->limit) || jet_chain_append(&b->chain, r) != JET_OK) b->dropped++;
}

static void publish_held(box *b) {
    atomic_store_explicit(&b->held, b->in_hand.count, memory_order_relaxed);
}

/* The caller holds take_lock. Returns 0 after the end, a poke or a while. */
static int fill(box *b) {
    for (int looks = 0;; looks++) {
        if (b->in_hand.count) return 1;
        take(&b->lock);
        if (b->chain.count) {
            jet_chain_move(&b->in_hand, &b->chain);
            publish_held(b);
            give(&b->lock);
            return 1;
        }
        if (b->finished || b->poked || looks) {
            b->poked = 0;
            give(&b->lock);
            return 0;
        }
        gate_wait(&b->gate, &b->lock);
    }
}

size_t box_take(box *b, size_t most, void (*seen)(void *, uint64_t), void *context) {
    jet_record r;
    uint64_t number;
    size_t n = 0;
    take(&b->take_lock);
    if (fill(b)) {
        while (n < most && jet_chain_take(&b->in_hand, &r)) {
            CHECK(jet_scan_leading_u64(r.payload, &number) > 0);
            if (seen) seen(context, number);
            b->used++;
            n++;
        }
        publish_held(b);
    }
    give(&b->take_lock);
    return n;
}

void box_poke(box *b) {
    take(&b->lock);
    b->poked = 1;
    gate_open(&b->gate);
    give(&b->lock);
}

void box_finish(box *b) {
    take(&b->lock);
    b->finished = 1;
    gate_open(&b->gate);
    give(&b->lock);
}

size_t box_discard(box *b) {
    int mine = try_take(&b->take_lock);
    take(&b->lock);
    size_t n = b->chain.count;
    jet_chain_free(&b->chain);
    if (mine) {
        n += b->in_hand.count;
        jet_chain_free(&b->in_hand);
        publish_held(b);
    }
    give(&b->lock);
    if (mine) give(&b->take_lock);
    return n;
}

/* -- outbound.pyx -------------------------------------------------------------------------- */

void outbound_init(outbound *o, size_t high_water) {
    memset(o, 0, sizeof *o);
    lock_init(&o->lock, OUT);
    lock_init(&o->send_lock, SEND);
    pthread_mutex_init(&o->turn, NULL);
    gate_init(&o->work);
    gate_init(&o->room);
    o->high_water = high_water;
}

void outbound_free(outbound *o) {
    jet_buf_free(&o->pending);
    jet_buf_free(&o->sending);
    lock_free(&o->lock);
    lock_free(&o->send_lock);
}

/* Take the lock when there is room; wait for room, one waiter at a time. */
static void enter(outbound *o, size_t size) {
    int in_turn = 0;
    for (;;) {
        take(&o->lock);
        size_t waiting = jet_buf_len(&o->pending);
        if (waiting == 0 || waiting + size <= o->high_water) break;
        if (in_turn) {
            gate_wait(&o->room, &o->lock);
        } else {
            give(&o->lock);
            pthread_mutex_lock(&o->turn);
            in_turn = 1;
        }
    }
    if (in_turn) pthread_mutex_unlock(&o->turn);
}

void outbound_publish(outbound *o, jet_span payload) {
    static const jet_span none;
    enter(o, payload.len);
    CHECK(jet_encode_pub(&o->pending, jet_span_of((const uint8_t *)"a.b", 3), none, none, payload) ==
          JET_OK);
    o->messages++;
    gate_open(&o->work);
    give(&o->lock);
}

void outbound_ping(outbound *o) {
    take(&o->lock);
    jet_encode_ping(&o->pending);
    gate_open(&o->work);
    give(&o->lock);
}

void outbound_pong(outbound *o) {
    take(&o->lock);
    jet_encode_pong(&o->pending);
    gate_open(&o->work);
    give(&o->lock);
}

/* The wire: whole frames, none torn, counted. The caller holds send_lock. */
static void send_all(outbound *o) {
    while (jet_buf_len(&o->sending)) {
        const uint8_t *p = jet_buf_ptr(&o->sending);
        size_t n = 6;
        if (p[1] == 'U') {
            uint64_t size = 0;
            CHECK(jet_buf_len(&o->sending) > 9 && memcmp(p, "PUB a.b ", 8) == 0);
            n = 8 + jet_scan_leading_u64(jet_span_of(p + 8, jet_buf_len(&o->sending) - 8), &size);
            n += 2 + size + 2;
            o->published++;
        } else if (p[1] == 'I') {
            o->pings++;
        } else {
            CHECK(memcmp(p, "PONG\r\n", 6) == 0);
            o->pongs++;
        }
        CHECK(n <= jet_buf_len(&o->sending) && p[n - 1] == '\n');
        jet_buf_consume(&o->sending, n);
    }
}

/* The caller holds send_lock. */
static void drain(outbound *o) {
    for (;;) {
        take(&o->lock);
        jet_buf_clear(&o->sending, 1 << 16);
        jet_buf swap = o->sending;
        o->sending = o->pending;
        o->pending = swap;
        gate_open(&o->room);
        give(&o->lock);
        if (jet_buf_len(&o->sending) == 0) return;
        send_all(o);
    }
}

static void nudge(outbound *o) {
    take(&o->lock);
    o->nudged = 1;
    gate_open(&o->work);
    give(&o->lock);
}

void outbound_send_now(outbound *o) {
    if (try_take(&o->send_lock)) {
        drain(o);
        give(&o->send_lock);
    } else {
        nudge(o);
    }
}

void outbound_pump(outbound *o) {
    for (;;) {
        take(&o->lock);
        while (!(o->closed || o->nudged || jet_buf_len(&o->pending))) {
            gate_wait(&o->work, &o->lock);
            take(&o->lock);
        }
        o->nudged = 0;
        int closed = o->closed;
        give(&o->lock);
        take(&o->send_lock);
        drain(o);
        give(&o->send_lock);
        if (closed) return;
    }
}

void outbound_close(outbound *o) {
    take(&o->lock);
    o->closed = 1;
    gate_open(&o->work);
    gate_open(&o->room);
    give(&o->lock);
}

/* -- seat.pyx ------------------------------------------------------------------------------ */

void seat_init(seat *s) {
    lock_init(&s->lock, SEAT);
    gate_init(&s->gate);
    s->taken = 1; /* by the reader */
}

void seat_free(seat *s) {
    sem_destroy(&s->gate.sem);
    lock_free(&s->lock);
}

void seat_lend(seat *s) {
    take(&s->lock);
    s->taken = 0;
    give(&s->lock);
    sched_yield(); /* the bell */
    take(&s->lock);
    while (s->taken) {
        gate_wait(&s->gate, &s->lock);
        take(&s->lock);
    }
    s->taken = 1;
    give(&s->lock);
}

int seat_take(seat *s) {
    take(&s->lock);
    int mine = !s->taken;
    if (mine) s->taken = 1;
    give(&s->lock);
    return mine;
}

void seat_leave(seat *s) {
    take(&s->lock);
    s->taken = 0;
    gate_open(&s->gate);
    give(&s->lock);
}

/* -- inbound.pyx --------------------------------------------------------------------------- */

void inbound_init(inbound *in, outbound *out) {
    memset(in, 0, sizeof *in);
    lock_init(&in->route_lock, ROUTE);
    seat_init(&in->seat);
    jet_parser_init(&in->parser, 1 << 20);
    in->out = out;
}

void inbound_free(inbound *in) {
    jet_slots_free(&in->subs);
    jet_slots_free(&in->replies);
    jet_buf_free(&in->buf);
    seat_free(&in->seat);
    lock_free(&in->route_lock);
}

uint64_t inbound_add(inbound *in, box *b) {
    take(&in->route_lock);
    b->sid = jet_slots_add(&in->subs, b);
    uint64_t sid = b->sid;
    give(&in->route_lock);
    return sid;
}

void inbound_remove(inbound *in, uint64_t sid) {
    take(&in->route_lock);
    jet_slots_remove(&in->subs, sid);
    give(&in->route_lock);
}

uint64_t inbound_add_reply(inbound *in, box *b) {
    take(&in->route_lock);
    uint64_t token = jet_slots_add(&in->replies, b);
    give(&in->route_lock);
    return token;
}

void inbound_remove_reply(inbound *in, uint64_t token) {
    take(&in->route_lock);
    jet_slots_remove(&in->replies, token);
    give(&in->route_lock);
}

static box *route(inbound *in, const jet_frame *f) {
    uint64_t token;
    if (f->sid != REPLY_SID) return jet_slots_get(&in->subs, f->sid);
    return jet_scan_leading_u64(f->subject, &token) ? jet_slots_get(&in->replies, token) : NULL;
}

void inbound_feed(inbound *in, jet_span bytes) {
    jet_frame f;
    size_t used;
    box *held = NULL, *wake = NULL;
    CHECK(jet_buf_append(&in->buf, bytes.ptr, bytes.len) == JET_OK);
    take(&in->route_lock);
    while (jet_parser_next(&in->parser, jet_span_of(jet_buf_ptr(&in->buf), jet_buf_len(&in->buf)),
                           &f, &used) == 1) {
        if (f.op == JET_OP_PING) {
            outbound_pong(in->out);
        } else if (f.op == JET_OP_MSG) {
            box *b = route(in, &f);
            in->messages++;
            if (b == NULL) {
                in->unmatched++;
            } else {
                if (b != held) {
                    if (held) give(&held->lock);
                    take(&b->lock);
                    held = b;
                    if (!b->touched) {
                        b->touched = 1;
                        b->next_touched = wake;
                        wake = b;
                    }
                }
                jet_record r = {f.subject, f.reply, f.header, f.payload, f.status};
                box_put(b, &r);
            }
        }
        jet_buf_consume(&in->buf, used);
    }
    if (held) give(&held->lock);
    while (wake) {
        take(&wake->lock);
        wake->touched = 0;
        gate_open(&wake->gate);
        box *next = wake->next_touched;
        give(&wake->lock);
        wake = next;
    }
    give(&in->route_lock);
}
