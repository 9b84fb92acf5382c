/* csrc/link: wake-ups, turns, and the line of those who wait for room. One thread plays all: what
 * several at once do is shown by tests/csrc/threads. */
#include "check.h"
#include "link.h"
#include "link_room.h"

void suite_sync(void) {
    link_mutex m;
    int state = 1, expected = 1;
    uint64_t count = 5;
    link_mutex_init(&m, LINK_ORDER_QUEUE);
    CHECK(link_try_lock(&m));
    CHECK(!link_enter(&m, 0)); /* held: the caller may not wait */
    link_unlock(&m);
    CHECK(link_enter(&m, 1));
    link_unlock(&m);
    CHECK(link_take_if(&state, &expected, 2) && state == 2);
    CHECK(!link_take_if(&state, &expected, 3) && state == 2);
    CHECK(link_swap(&state, 7) == 2 && link_load(&state) == 7);
    link_add(&count, 3);
    CHECK(link_load(&count) == 8);
    link_mutex_free(&m);
}

void suite_wakeup(void) {
    link_wakeup w;
    link_gate g;
    double before = link_now();
    link_wakeup_init(&w);
    CHECK(link_wakeup_sleep(&w, link_now() - 1) == LINK_TIMEOUT);
    CHECK(link_wakeup_sleep(&w, before + 0.02) == LINK_TIMEOUT && link_now() >= before + 0.02);
    link_wakeup_wake(&w);
    link_wakeup_wake(&w); /* two tokens are one */
    CHECK(link_wakeup_sleep(&w, -1) == LINK_WOKEN);
    CHECK(link_wakeup_sleep(&w, 0) == LINK_TIMEOUT);
    link_wakeup_free(&w);

    link_gate_init(&g);
    link_gate_open(&g); /* no thread waits: no token */
    link_gate_arm(&g);
    CHECK(!link_gate_leave(&g));
    link_gate_arm(&g);
    link_gate_open(&g);
    CHECK(link_gate_leave(&g)); /* opened in that very moment: the token is taken */
    CHECK(link_wakeup_sleep(&g.wakeup, 0) == LINK_TIMEOUT);
    link_gate_free(&g);
}

static int is_woken(link_waiter *w) { return link_wakeup_sleep(&w->wakeup, 0) == LINK_WOKEN; }

void suite_turn(void) {
    link_turn t;
    link_waiter a, b, c;
    link_turn_init(&t);
    CHECK(link_turn_try(&t) && !link_turn_try(&t));
    link_turn_leave(&t);
    CHECK(link_turn_join(&t, &a)); /* it is free: taken at once */
    CHECK(!link_turn_join(&t, &b) && !link_turn_join(&t, &c) && !link_turn_join(&t, &a));
    /* Left, it is the oldest waiter's: a thread that comes back stands behind. */
    link_turn_leave(&t);
    CHECK(!link_turn_try(&t));
    CHECK(is_woken(&b) && !is_woken(&c) && !is_woken(&a));
    CHECK(!link_turn_withdraw(&t, &c)); /* from the middle of the line */
    link_turn_leave(&t);
    CHECK(is_woken(&a) && !is_woken(&c));
    CHECK(!link_turn_join(&t, &b));
    link_turn_leave(&t);
    CHECK(link_turn_withdraw(&t, &b)); /* it was given to this one meanwhile */
    link_turn_leave(&t);
    CHECK(link_turn_try(&t));
    /* In a forked child the line is gone, and its members hear of that. */
    CHECK(!link_turn_join(&t, &a) && !link_turn_is_lost(&t, &a));
    link_turn_reset(&t);
    CHECK(link_turn_is_lost(&t, &a) && !link_turn_withdraw(&t, &a) && link_turn_try(&t));
    link_turn_free(&t);
}

static link_put put_of(const char *text, size_t n) {
    link_put p = {.kind = LINK_FRAMES, .messages = 1};
    p.payload = jet_span_of((const uint8_t *)text, n);
    return p;
}

/* Take all that is pending, as a sender does. */
static void take(link_outbound *o) {
    link_lock(&o->lock);
    jet_buf_clear(&o->pending, 1 << 20);
    link_room_promise(o);
    link_unlock(&o->lock);
}

void suite_outbound(void) {
    static const char text[4096] = "PUB a 0\r\n\r\n";
    link_outbound o;
    link_waiter a, b, c;
    link_put small = put_of(text, 100), large = put_of(text, 600), half = put_of(text, 500);
    link_outbound_init(&o, 1000, 700);
    /* Without a link the limit is another one, and no thread waits. */
    CHECK(link_outbound_put(&o, &large, 0) == LINK_OK);
    CHECK(link_outbound_put(&o, &small, 0) == LINK_OK);
    CHECK(link_outbound_put(&o, &small, 0) == LINK_OFFLINE);
    take(&o);
    o.fd = 0; /* is not used */
    o.links = 2;
    CHECK(link_outbound_put(&o, &large, 0) == LINK_OK);
    /* The oldest waits for much, those behind for little: room goes to the oldest. */
    CHECK(link_outbound_put(&o, &half, 0) == LINK_FULL);
    link_outbound_join(&o, &a, &half);
    link_outbound_join(&o, &b, &small);
    CHECK(!is_woken(&a) && !is_woken(&b)); /* though there is room for `b` */
    CHECK(link_outbound_put(&o, &small, 0) == LINK_FULL); /* nor for one that comes later */
    link_outbound_join(&o, &c, &large);
    take(&o);
    CHECK(is_woken(&a) && is_woken(&b) && !is_woken(&c) && o.promised == 600);
    CHECK(link_outbound_put(&o, &small, 0) == LINK_FULL); /* `c` stands in line */
    CHECK(link_outbound_put_promised(&o, &half, &a) == LINK_OK);
    /* Promised room that is given back is the next one's. */
    take(&o);
    link_outbound_withdraw(&o, &b);
    CHECK(is_woken(&c) && o.promised == 600);
    CHECK(link_outbound_put_promised(&o, &large, &c) == LINK_OK && o.promised == 0);
    /* A lost link ends all waiting, and so does the end. */
    link_outbound_join(&o, &a, &half);
    link_outbound_detach(&o);
    CHECK(is_woken(&a) && link_outbound_put_promised(&o, &half, &a) == LINK_OFFLINE);
    o.fd = 0;
    half.link = 7;
    CHECK(link_outbound_put(&o, &half, 0) == LINK_GONE);
    half.link = 0;
    link_outbound_join(&o, &a, &half);
    link_outbound_close(&o);
    CHECK(is_woken(&a) && link_outbound_put_promised(&o, &half, &a) == LINK_CLOSED);
    CHECK(link_outbound_line(&o, S("SUB a 1\r\n")) == LINK_CLOSED && !link_outbound_ping(&o, 1));
    link_outbound_free(&o);

    /* Without memory nothing is put in, also where only the copy for sending again has none. */
    link_outbound_init(&o, 10000, 10000);
    link_put ack = {.kind = LINK_REPLY, .subject = S("a"), .payload = S("+ACK"), .resend = 1};
    for (int nth = 1; nth < 3; nth++) {
        fail_allocation(nth);
        CHECK(link_outbound_put(&o, &ack, 0) == JET_ERR_MEMORY);
        CHECK(link_outbound_pending(&o) == 0 && link_outbound_kept(&o) == 0);
    }
    CHECK(link_outbound_put(&o, &ack, 0) == LINK_OK && ack.is_first);
    CHECK(link_outbound_pending(&o) == link_outbound_kept(&o));
    /* A forked child: closed, whatever stood in it, and a wait of before is lost. */
    link_outbound_join(&o, &a, &half);
    jet_buf_free(&o.pending), link_resend_free(&o.resend); /* which a child leaves alone */
    link_outbound_reset(&o);
    CHECK(link_outbound_is_lost(&o, &a) && link_outbound_put(&o, &ack, 0) == LINK_CLOSED);
    link_outbound_free(&o);
}

void suite_resend(void) {
    link_resend r;
    uint8_t frame[1000] = {0};
    link_resend_init(&r);
    CHECK(link_resend_add(&r, frame, 100) == LINK_ASK_REGULARLY);
    CHECK(link_resend_add(&r, frame, 100) == LINK_ASK_NOTHING && r.end == 200);
    link_resend_arrived(&r, 150);
    CHECK(link_resend_has_more(&r) && jet_buf_len(&r.frames) == 50);
    link_resend_arrived(&r, 200);
    CHECK(link_resend_add(&r, frame, 0) == LINK_ASK_NOTHING); /* it is asked regularly until it is empty */
    CHECK(!link_resend_has_more(&r));
    CHECK(link_resend_add(&r, frame, 100) == LINK_ASK_REGULARLY);
    size_t asked = 0, n = 0;
    for (; n < 3 * LINK_RESEND_MORE / sizeof frame; n++)
        asked += link_resend_add(&r, frame, sizeof frame) == LINK_ASK_NOW;
    CHECK(asked == 2 || asked == 3);
    for (; n < LINK_RESEND_MOST / sizeof frame + 10; n++) link_resend_add(&r, frame, sizeof frame);
    CHECK(jet_buf_len(&r.frames) < LINK_RESEND_MOST); /* the oldest were given up */
    link_resend_free(&r);
    fail_allocation(1);
    CHECK(link_resend_add(&r, frame, 100) == LINK_ASK_NO_MEMORY && jet_buf_len(&r.frames) == 0);
    link_resend_free(&r);
}
