/* csrc/link: from bytes on a socket into queues. */
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "link_kit.h"

static void put_one(link_queue *q, jet_span payload, int status, link_put_outcome want) {
    jet_record r = {S("a"), {NULL, 0}, {NULL, 0}, payload, status};
    link_lock(&q->lock);
    CHECK(link_queue_put(q, &r, 1.0, NULL, NULL) == want);
    link_unlock(&q->lock);
}

static link_counts counts_of(link_queue *q) {
    link_counts now;
    CHECK(link_queue_counts(q, 0, &now));
    return now;
}

static void put_heartbeat(link_queue *q, jet_span header, double now) {
    jet_record r = {S("inbox.1"), {NULL, 0}, header, {NULL, 0}, 100};
    link_lock(&q->lock);
    CHECK(link_queue_put(q, &r, now, NULL, NULL) == LINK_PUT_NOTHING);
    link_unlock(&q->lock);
}

void suite_heartbeats(void) {
    jet_pool pool = {{NULL}, 0, 0, {NULL}, 0, 0};
    link_queue q;
    link_queue_init(&q, &pool, 0, 0);
    link_queue_absorb(&q);
    put_heartbeat(&q, S("NATS/1.0 100\r\n\r\n"), 1.0);
    CHECK(counts_of(&q).messages == 1); /* the first one is a status like others */
    put_heartbeat(&q, S("NATS/1.0 100\r\n\r\n"), 2.0);
    link_counts now = counts_of(&q);
    CHECK(now.messages == 1 && now.received == 1 && now.last_put == 2.0);
    /* One that says something else, and one behind a message, are news again. */
    put_heartbeat(&q, S("NATS/1.0 100\r\nNats-Pin-Id: a\r\n\r\n"), 3.0);
    CHECK(counts_of(&q).messages == 2);
    put_one(&q, S("m"), 0, LINK_PUT_NOTHING);
    put_heartbeat(&q, S("NATS/1.0 100\r\nNats-Pin-Id: a\r\n\r\n"), 4.0);
    CHECK(counts_of(&q).messages == 4);
    /* The end of a pull between them is none. */
    put_one(&q, S(""), 408, LINK_PUT_NOTHING);
    put_heartbeat(&q, S("NATS/1.0 100\r\nNats-Pin-Id: a\r\n\r\n"), 5.0);
    CHECK(counts_of(&q).messages == 5);
    put_one(&q, S("with payload"), 100, LINK_PUT_NOTHING);
    put_one(&q, S("with payload"), 100, LINK_PUT_NOTHING);
    CHECK(counts_of(&q).messages == 7);
    link_queue_free(&q);
    /* Others keep every one. */
    link_queue_init(&q, &pool, 0, 0);
    for (int i = 0; i < 3; i++) put_heartbeat(&q, S("NATS/1.0 100\r\n\r\n"), 1.0);
    CHECK(counts_of(&q).messages == 3);
    link_queue_free(&q);
    jet_pool_free(&pool);
}

/* Beside a thread that checks the list none is woken for what comes; the next one is when that thread
 * has something to do and more is due. */
static void check_woken_for_more(void) {
    link_group g;
    link_waiter w[2];
    link_queue q[2], *due;
    link_carried carried;
    link_group_init(&g, 2);
    for (int i = 0; i < 2; i++) {
        CHECK(link_group_add(&g) && link_group_enter(&g));
        link_queue_init(&q[i], NULL, 0, 0);
        CHECK(link_group_take(&g, &w[i], 1, 0, &due, &carried, 0) == LINK_DUE_NONE);
    }
    CHECK(link_group_take(&g, &w[1], 0, 1, &due, &carried, 0) == LINK_DUE_SLEEP);
    for (int i = 0; i < 2; i++) link_group_put(&g, &q[i], &q[i], NULL, 0);
    CHECK(link_wakeup_sleep(&w[1].wakeup, 0) != LINK_WOKEN);
    CHECK(link_group_take(&g, &w[0], 0, 0, &due, &carried, 0) == LINK_DUE_QUEUE && due == &q[0]);
    CHECK(link_wakeup_sleep(&w[1].wakeup, 0) == LINK_WOKEN);
    CHECK(link_group_take(&g, &w[1], 0, 0, &due, &carried, 0) == LINK_DUE_QUEUE && due == &q[1]);
    link_queue_free(&q[0]), link_queue_free(&q[1]);
    link_group_free(&g);
}

/* Threads that are not needed any more are woken at the same time, not one by the other. */
static void check_unneeded_threads(void) {
    enum { THREADS = 8 };
    link_group g;
    link_waiter w[THREADS];
    link_queue *due;
    link_carried carried;
    link_group_init(&g, THREADS);
    for (int i = 0; i < THREADS; i++) CHECK(link_group_add(&g) && link_group_enter(&g));
    for (int i = 0; i < THREADS; i++) {
        CHECK(link_group_take(&g, &w[i], 1, 0, &due, &carried, 0) == LINK_DUE_NONE);
        if (i) CHECK(link_group_take(&g, &w[i], 0, 1, &due, &carried, 0) == LINK_DUE_SLEEP);
    }
    /* The first one still checks the list, so it is the first to end. */
    link_group_remove(&g);
    int woken = 0;
    for (int i = 1; i < THREADS; i++) woken += link_wakeup_sleep(&w[i].wakeup, 0) == LINK_WOKEN;
    CHECK(woken == 0);
    for (int i = 1; i < THREADS; i++) link_group_remove(&g);
    for (int i = 1; i < THREADS; i++) woken += link_wakeup_sleep(&w[i].wakeup, 0) == LINK_WOKEN;
    CHECK(woken == THREADS - 1);
    for (int i = 0; i < THREADS; i++)
        CHECK(link_group_take(&g, &w[i], 0, 0, &due, &carried, 0) == LINK_DUE_END);
    CHECK(!link_group_has_threads(&g));
    link_group_free(&g);
}

/* While the reading thread has the mutex, no function that is called with the interpreter's lock waits
 * for it; nothing is changed then. */
static void check_busy(void) {
    link_queue q, *due;
    link_carried carried;
    link_group g;
    link_counts now;
    link_waiter w;
    link_queue_init(&q, NULL, 0, 0);
    link_group_init(&g, 1);
    link_group_add(&g), link_group_enter(&g);
    link_queue_join_group(&q, &g, NULL, 1, 0);
    link_lock(&q.lock);
    CHECK(link_queue_find(&q, 1, 1, 1, 0) == LINK_FIND_BUSY);
    CHECK(!link_queue_counts(&q, 0, &now) && !link_queue_wake(&q, 0));
    CHECK(link_queue_rest(&q, 0, 0, 0) == LINK_REST_BUSY);
    CHECK(!q.woken && q.scheduled && link_group_missing(&g));
    link_unlock(&q.lock);
    link_lock(&g.lock);
    CHECK(link_group_take(&g, &w, 0, 0, &due, &carried, 0) == LINK_DUE_BUSY);
    link_unlock(&g.lock);
    /* Something came before its thread gave it back: it is due again. */
    CHECK(link_queue_wake(&q, 0) && link_queue_rest(&q, 0, 0, 0) == LINK_RESTS);
    CHECK(link_group_take(&g, &w, 0, 0, &due, &carried, 0) == LINK_DUE_QUEUE && due == &q);
    CHECK(link_queue_find(&q, 1, 1, 1, 0) == LINK_NOTHING);
    CHECK(link_queue_rest(&q, 0, 1, 0) == LINK_RESTS && link_group_missing(&g));
    /* A finished one is left to its thread when that asks for it, with nothing in it. */
    link_queue_finish(&q);
    CHECK(link_group_take(&g, &w, 0, 0, &due, &carried, 0) == LINK_DUE_QUEUE);
    CHECK(link_queue_rest(&q, 0, 0, 0) == LINK_RESTS && !link_group_missing(&g));
    CHECK(link_group_take(&g, &w, 0, 0, &due, &carried, 0) == LINK_DUE_QUEUE);
    CHECK(link_queue_rest(&q, 0, 1, 0) == LINK_REST_OVER && link_group_missing(&g));
    link_queue_leave_group(&q);
    link_group_free(&g);
    link_queue_free(&q);
}

/* A thread that had a queue may have waited for many messages: given back, the queue is due with one. */
static void check_due_with_one(void) {
    link_queue q;
    link_group g;
    link_queue_init(&q, NULL, 0, 0);
    link_group_init(&g, 1);
    link_queue_join_group(&q, &g, NULL, 1, 0);
    CHECK(link_queue_find(&q, 5, 1, 0, 0) == LINK_WAIT && link_queue_missing(&q) == 5);
    CHECK(link_queue_rest(&q, 0, 0, 0) == LINK_RESTS);
    put_one(&q, S("x"), 0, LINK_PUT_NOTHING);
    link_lock(&q.lock);
    CHECK(link_queue_tell(&q));
    link_unlock(&q.lock);
    link_queue_leave_group(&q);
    link_group_free(&g);
    link_queue_free(&q);
}

/* A pass of reading puts all queues that fell due into the list in one step, in their order, and wakes
 * one thread. */
static void check_due_in_order(void) {
    enum { MANY = 5 };
    static link_queue q[MANY];
    link_outbound o;
    link_inbound in;
    link_group g, other;
    link_waiter w;
    link_queue *due;
    link_carried carried;
    jet_span text;
    link_outbound_init(&o, 1000, 1000);
    link_inbound_init(&in, &o, 1 << 20);
    link_group_init(&g, 1), link_group_init(&other, 1);
    link_group_add(&g), link_group_enter(&g);
    link_group_add(&other), link_group_enter(&other);
    for (int i = 0; i < MANY; i++) {
        link_queue_init(&q[i], NULL, 0, 0);
        CHECK(link_inbound_add(&in, &q[i]) == (uint64_t)i + 1);
        if (i) link_queue_join_group(&q[i], i == 3 ? &other : &g, NULL, 0, 0);
    }
    CHECK(link_group_take(&g, &w, 0, 1, &due, &carried, 0) == LINK_DUE_SLEEP);
    /* 1 has no group, 4 another one; 3 has two messages and is due once. */
    CHECK(link_inbound_feed(&in, S("MSG s 3 0\r\n\r\nMSG s 1 0\r\n\r\nMSG s 2 0\r\n\r\n"
                                   "MSG s 4 0\r\n\r\nMSG s 3 0\r\n\r\nMSG s 5 0\r\n\r\n")) == JET_OK);
    CHECK(link_inbound_parse(&in, &text) == LINK_EVENT_NONE);
    CHECK(link_wakeup_sleep(&w.wakeup, 0) == LINK_WOKEN);
    static const int order[] = {2, 1, 4};
    for (int i = 0; i < 3; i++) {
        CHECK(link_group_take(&g, &w, 0, 0, &due, &carried, 0) == LINK_DUE_QUEUE && due == &q[order[i]]);
        CHECK(link_queue_find(due, 1, 0, 0, 0) == LINK_FOUND);
        CHECK(due->ready.count == (due == &q[2] ? 2u : 1u));
    }
    CHECK(link_group_missing(&g) && !q[0].touched && q[0].chain.count == 1);
    CHECK(link_group_take(&other, &w, 0, 0, &due, &carried, 0) == LINK_DUE_QUEUE && due == &q[3]);
    for (int i = 0; i < MANY; i++) link_queue_free(&q[i]);
    link_group_free(&g), link_group_free(&other);
    link_inbound_free(&in);
    link_outbound_free(&o);
}

/* What the list of a group carries: the message that a queue falls due with, counted as one that waits. */
static void check_carried(void) {
    jet_pool pool = {{NULL}, 0, 0, {NULL}, 0, 0};
    static uint8_t large[LINK_CARRY_MAX + 1];
    link_queue q[2], *due;
    link_outbound o;
    link_inbound in;
    link_group g;
    link_carried carried;
    link_waiter w;
    jet_span text;
    jet_record r = {S("s"), {NULL, 0}, {NULL, 0}, {large, sizeof large}, 0};
    link_outbound_init(&o, 1000, 1000);
    link_inbound_init(&in, &o, 1 << 20);
    in.pool = &pool;
    link_group_init(&g, 1);
    link_group_add(&g), link_group_enter(&g);
    for (int i = 0; i < 2; i++) {
        link_queue_init(&q[i], &pool, 2, 0);
        CHECK(link_inbound_add(&in, &q[i]) == (uint64_t)i + 1);
        link_queue_join_group(&q[i], &g, NULL, 0, 1);
    }
    /* What follows the first message is in the queue, and the limit counts both. */
    CHECK(link_inbound_feed(&in, S("MSG s 2 1\r\na\r\nHMSG s 1 r 12 13\r\nNATS/1.0\r\n\r\nb\r\n"
                                   "MSG s 2 1\r\nc\r\nMSG s 2 1\r\nd\r\n")) == JET_OK);
    CHECK(link_inbound_parse(&in, &text) == LINK_EVENT_SLOW && text.len == 2);
    CHECK(q[1].chain.count == 1 && q[0].chain.count == 0 && g.carried.count == 2);
    CHECK(counts_of(&q[1]).messages == 2 && counts_of(&q[1]).bytes == 4 && q[1].dropped == 1);
    CHECK(counts_of(&q[0]).messages == 1 && counts_of(&q[0]).bytes == 15);
    CHECK(link_group_take(&g, &w, 0, 0, &due, &carried, 0) == LINK_DUE_QUEUE && due == &q[1]);
    CHECK(carried.is_there && same(carried.record.payload, S("a")) && carried.since == q[1].last_put);
    CHECK(counts_of(&q[1]).messages == 1 && link_load(&q[1].taken) == 1);
    CHECK(link_queue_rest(&q[1], 1, 1, 0) == LINK_REST_MORE); /* it has another: its turn goes on */
    CHECK(link_queue_rest(&q[1], 0, 1, 0) == LINK_RESTS); /* its turn is over: behind those that wait */
    CHECK(link_group_take(&g, &w, 0, 0, &due, &carried, 0) == LINK_DUE_QUEUE && due == &q[0]);
    CHECK(carried.is_there && same(carried.record.payload, S("b")) && g.carried.count == 0);
    CHECK(same(carried.record.subject, S("s")) && same(carried.record.reply, S("r")));
    CHECK(same(carried.record.header, S("NATS/1.0\r\n\r\n")));
    CHECK(link_queue_rest(&q[0], 0, 1, 0) == LINK_RESTS);
    CHECK(link_group_take(&g, &w, 0, 0, &due, &carried, 0) == LINK_DUE_QUEUE && due == &q[1]);
    CHECK(!carried.is_there);
    take_one(&q[1], S("c"));
    CHECK(link_queue_rest(&q[1], 1, 1, 0) == LINK_RESTS && link_group_missing(&g) == 1);
    /* One that is dropped meanwhile is not handed out; the next one is. */
    for (int i = 0; i < 2; i++) {
        CHECK(link_inbound_feed(&in, S("MSG s 1 1\r\ne\r\nMSG s 1 1\r\nf\r\n")) == JET_OK);
        CHECK(link_inbound_parse(&in, &text) == LINK_EVENT_NONE);
        CHECK(i || (link_queue_discard(&q[0]) == 2 && counts_of(&q[0]).messages == 0));
        CHECK(link_group_take(&g, &w, 0, 0, &due, &carried, 0) == LINK_DUE_QUEUE && due == &q[0]);
        CHECK(carried.is_there == i && link_queue_discard(&q[0]) == (size_t)i);
        CHECK(link_queue_rest(&q[0], 0, 1, 0) == LINK_RESTS && link_load(&q[0].taken) == 1u + (unsigned)i);
    }
    /* Without memory in the list, and when it is large, a message goes into the queue. */
    CHECK(link_inbound_feed(&in, S("MSG s 1 1\r\ng\r\n")) == JET_OK);
    jet_pool_free(&pool);
    fail_allocation(1);
    CHECK(link_inbound_parse(&in, &text) == LINK_EVENT_NONE && g.carried.count == 0);
    CHECK(link_group_take(&g, &w, 0, 0, &due, &carried, 0) == LINK_DUE_QUEUE && !carried.is_there);
    take_one(&q[0], S("g"));
    CHECK(link_queue_rest(&q[0], 0, 1, 0) == LINK_RESTS);
    jet_chain list = {.pool = &pool};
    link_lock(&q[0].lock);
    CHECK(link_queue_put(&q[0], &r, 1.0, NULL, &list) == LINK_PUT_NOTHING && list.count == 0);
    link_unlock(&q[0].lock);
    CHECK(link_queue_discard(&q[0]) == 1);
    /* The last one of a count is handed out; one beyond it is not. */
    for (int i = 0; i < 2; i++) {
        CHECK(link_inbound_feed(&in, S("MSG s 2 1\r\nh\r\n")) == JET_OK);
        CHECK(link_inbound_parse(&in, &text) == LINK_EVENT_NONE && g.carried.count == 1);
        uint64_t gone = link_load(&q[1].taken) + q[1].dropped;
        CHECK(!link_queue_stop_after(&q[1], gone + 1u - (unsigned)i));
        CHECK(link_group_take(&g, &w, 0, 0, &due, &carried, 0) == LINK_DUE_QUEUE && due == &q[1]);
        CHECK(carried.is_there == !i && link_queue_rest(&q[1], 0, 1, 0) == LINK_REST_OVER);
        link_queue_leave_group(&q[1]);
        q[1].finished = 0, q[1].max_messages = 0;
        link_queue_join_group(&q[1], &g, NULL, 0, 1);
    }
    /* What is carried at the end goes with the group. */
    CHECK(link_inbound_feed(&in, S("MSG s 2 1\r\ni\r\n")) == JET_OK);
    CHECK(link_inbound_parse(&in, &text) == LINK_EVENT_NONE && g.carried.count == 1);
    link_group_free(&g);
    for (int i = 0; i < 2; i++) link_queue_free(&q[i]);
    link_inbound_free(&in);
    link_outbound_free(&o);
    jet_pool_free(&pool);
}

void suite_queue(void) {
    jet_pool pool = {{NULL}, 0, 0, {NULL}, 0, 0};
    link_queue q;
    check_busy();
    check_due_with_one();
    check_due_in_order();
    check_carried();
    check_woken_for_more();
    check_unneeded_threads();
    link_queue_init(&q, &pool, 3, 0);
    CHECK(link_queue_find(&q, 1, 0, 0, 0) == LINK_NOTHING);
    CHECK(link_queue_find(&q, 2, 1, 1, 0) == LINK_WAIT); /* it waits for two */
    put_one(&q, S("1"), 0, LINK_PUT_NOTHING);
    CHECK(link_queue_missing(&q) == 1);
    put_one(&q, S("2"), 0, LINK_PUT_NOTHING);
    CHECK(link_queue_missing(&q) == 0);
    CHECK(!link_queue_leave(&q)); /* the reader has not opened the gate yet */
    take_one(&q, S("1"));
    /* What the taker has in hand counts, and over the limit the newest is dropped and told once. */
    put_one(&q, S("3"), 0, LINK_PUT_NOTHING);
    put_one(&q, S("4"), 0, LINK_PUT_NOTHING);
    put_one(&q, S("5"), 0, LINK_PUT_SLOW);
    put_one(&q, S("6"), 0, LINK_PUT_NOTHING);
    link_counts now = counts_of(&q);
    CHECK(now.messages == 3 && now.dropped == 2 && now.received == 6 && !now.finished);
    take_one(&q, S("2")), take_one(&q, S("3")), take_one(&q, S("4"));
    /* A status ends the wait for more. */
    CHECK(link_queue_find(&q, 9, 1, 1, 0) == LINK_WAIT);
    put_one(&q, S(""), 404, LINK_PUT_NOTHING);
    CHECK(link_queue_find(&q, 9, 1, 0, 0) == LINK_FOUND);
    take_one(&q, S(""));
    /* Woken once, although nothing came. */
    CHECK(link_queue_wake(&q, 0));
    CHECK(link_queue_find(&q, 1, 1, 1, 0) == LINK_NOTHING);
    CHECK(link_queue_find(&q, 1, 1, 1, 0) == LINK_WAIT);
    /* The message that completes the count is the last one. */
    CHECK(link_queue_stop_after(&q, 8));
    put_one(&q, S("8"), 0, LINK_PUT_LAST);
    put_one(&q, S("9"), 0, LINK_PUT_NOTHING);
    take_one(&q, S("8"));
    CHECK(link_queue_find(&q, 1, 1, 1, 0) == LINK_NOTHING && !link_queue_stop_after(&q, 99));
    link_queue_free(&q);

    link_queue_init(&q, &pool, 0, 0);
    put_one(&q, S("1"), 0, LINK_PUT_NOTHING);
    put_one(&q, S("2"), 0, LINK_PUT_NOTHING);
    CHECK(!link_queue_stop_after(&q, 2)); /* so many came already */
    take_one(&q, S("1"));
    CHECK(link_turn_try(&q.take_turn));
    CHECK(link_queue_discard(&q) == 0); /* another thread takes: what it has is its own */
    link_turn_leave(&q.take_turn);
    CHECK(link_queue_discard(&q) == 1);
    link_queue_finish(&q);
    link_queue_finish(&q);
    link_queue_free(&q);
    /* What came beyond the last message is dropped, wherever it waits. */
    link_queue_init(&q, &pool, 0, 0);
    for (int i = 0; i < 3; i++) put_one(&q, S("r"), 0, LINK_PUT_NOTHING);
    take_one(&q, S("r"));
    for (int i = 0; i < 3; i++) put_one(&q, S("c"), 0, LINK_PUT_NOTHING);
    CHECK(!link_queue_stop_after(&q, 5) && counts_of(&q).messages == 4);
    CHECK(!link_queue_stop_after(&q, 2) && counts_of(&q).messages == 1);
    take_one(&q, S("r"));
    CHECK(link_queue_find(&q, 1, 1, 1, 0) == LINK_NOTHING);
    fail_allocation(1);
    link_queue_free(&q);
    link_queue_init(&q, NULL, 0, 0);
    put_one(&q, S("1"), 0, LINK_PUT_SLOW); /* no memory: counted as dropped, and told */
    CHECK(counts_of(&q).dropped == 1);
    link_queue_reset(&q); /* in a forked child: empty and ended, and a waiter goes on */
    CHECK(link_queue_find(&q, 1, 1, 1, 0) == LINK_NOTHING);
    CHECK(link_wakeup_sleep(&q.gate.wakeup, 0) == LINK_WOKEN);
    link_queue_free(&q);
    jet_pool_free(&pool);
}

static void feed_large(link_inbound *in, const char *line, size_t size) {
    static uint8_t payload[70000];
    jet_span text;
    CHECK(link_inbound_feed(in, jet_span_of((const uint8_t *)line, strlen(line))) == JET_OK);
    CHECK(link_inbound_feed(in, jet_span_of(payload, size)) == JET_OK);
    CHECK(link_inbound_feed(in, S("\r\nMSG s 1 1\r\nx\r\n")) == JET_OK);
    const uint8_t *buffer = in->buf.data;
    link_event event = link_inbound_parse(in, &text);
    CHECK(event == LINK_EVENT_NONE || event == LINK_EVENT_SLOW);
    CHECK(link_inbound_parse(in, &text) == LINK_EVENT_NONE && jet_buf_len(&in->buf) == 0);
    /* A large message takes its buffer along, or the buffer goes with it when it is dropped. */
    CHECK(size < 65536 || line[6] == '9' || in->buf.data != buffer);
}

/* Large messages stay in the memory that they were received in; a quiet link holds little. */
static void check_large(void) {
    link_outbound o;
    link_inbound in;
    link_queue q;
    jet_span text;
    jet_record r;
    link_outbound_init(&o, 1000, 1000);
    link_inbound_init(&in, &o, 1 << 20);
    link_queue_init(&q, NULL, 4, 0);
    CHECK(link_inbound_add(&in, &q) == 1);
    feed_large(&in, "MSG s 1 70000\r\n", 70000);
    CHECK(q.chain.head->adopted && q.chain.count == 2);
    feed_large(&in, "MSG s 1 r 60000\r\n", 60000); /* not large: copied, as its neighbours are */
    feed_large(&in, "MSG s 1 70000\r\n", 70000);   /* over the limit */
    feed_large(&in, "MSG s 9 70000\r\n", 70000);   /* for a subscription that is gone */
    CHECK(q.chain.count == 4 && q.dropped == 3);
    CHECK(link_queue_find(&q, 1, 0, 0, 0) == LINK_FOUND && q.chain.head == NULL);
    static const size_t sizes[] = {70000, 1, 60000, 1};
    for (size_t n = 0; jet_chain_peek(&q.ready, &r); n++) {
        CHECK(n < 4 && r.payload.len == sizes[n] && same(r.subject, S("s")));
        jet_chain_drop(&q.ready, &r);
    }
    CHECK(q.ready.head == NULL); /* an emptied queue holds nothing */
    for (int i = 0; i < 2; i++) {
        CHECK(in.buf.cap > 65536); /* of what was dropped */
        CHECK(link_inbound_feed(&in, S("PONG\r\n")) == JET_OK);
        CHECK(link_inbound_parse(&in, &text) == LINK_EVENT_PONG);
    }
    CHECK(in.buf.cap <= 65536);
    /* What one large message needed goes when the next bytes come, before any PONG. */
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(jet_buf_reserve(&in.buf, 2 << 20) != NULL && in.buf.cap >= 2 << 20);
    CHECK(write(ends[1], "INFO {}\r\n", 9) == 9);
    CHECK(link_inbound_pump(&in, ends[0], &text) == LINK_EVENT_INFO && in.buf.cap < 2 << 20);
    close(ends[0]), close(ends[1]);
    link_inbound_free(&in);
    link_queue_free(&q);
    link_outbound_free(&o);
}

void suite_inbound(void) {
    check_large();
    link_outbound o;
    link_inbound in;
    link_queue a, b;
    jet_span text;
    link_outbound_init(&o, 1000, 1000);
    link_inbound_init(&in, &o, 1000);
    link_queue_init(&a, NULL, 1, 0);
    link_queue_init(&b, NULL, 0, 0);
    CHECK(link_inbound_add(&in, &a) == 1 && link_inbound_add(&in, &b) == 2);
    CHECK(link_inbound_feed(&in, S("MSG s 1 1\r\nx\r\nPING\r\nMSG s 9 1\r\nx\r\nMSG s 2 1\r\ny\r\n")) == JET_OK);
    CHECK(link_inbound_parse(&in, &text) == LINK_EVENT_NONE);
    CHECK(link_load(&in.messages) == 3 && link_load(&in.unmatched) == 1);
    CHECK(link_outbound_pending(&o) == 6); /* the PING is answered */
    take_one(&a, S("x")), take_one(&b, S("y"));
    /* A queue that drops, one that got its last message, and what the reader has to see. */
    CHECK(link_queue_stop_after(&b, 2));
    CHECK(link_inbound_feed(&in, S("MSG s 1 1\r\n1\r\nMSG s 1 1\r\n2\r\nMSG s 2 1\r\n3\r\nPONG\r\n"
                                   "INFO {}\r\n-ERR 'e'\r\nMSG s 1")) == JET_OK);
    CHECK(link_inbound_parse(&in, &text) == LINK_EVENT_SLOW && text.len == 1);
    CHECK(link_inbound_parse(&in, &text) == LINK_EVENT_LAST && text.len == 2);
    CHECK(link_inbound_parse(&in, &text) == LINK_EVENT_PONG);
    CHECK(link_inbound_parse(&in, &text) == LINK_EVENT_INFO && same(text, S("{}")));
    CHECK(link_inbound_parse(&in, &text) == LINK_EVENT_ERR);
    CHECK(link_inbound_parse(&in, &text) == LINK_EVENT_NONE); /* half a line */
    link_inbound_begin(&in, 1000);                           /* which a new link does not see */
    /* Replies are routed by their token, and only with its proof. */
    uint64_t number = 0;
    CHECK(link_inbound_add_reply(&in, &b, 1, &number));
    uint64_t replies = link_inbound_add(&in, &a);
    char line[200];
    uint8_t token[JET_TOKEN_MAX];
    int n = (int)jet_token_write(&in.key, number, token);
    link_inbound_route_replies(&in, S("_I.x."), replies);
    link_queue_free(&b), link_queue_init(&b, NULL, 0, 0);
    for (int i = 0; i < 3; i++) {
        int size = snprintf(line, sizeof line, "MSG _I.x.%.*s %d 1\r\nr\r\n", i == 1 ? n - 1 : n,
                            (char *)token, (int)replies);
        if (i == 2) link_inbound_remove_reply(&in, number, 1);
        CHECK(link_inbound_feed(&in, jet_span_of((uint8_t *)line, (size_t)size)) == JET_OK);
        CHECK(link_inbound_parse(&in, &text) == LINK_EVENT_NONE);
    }
    CHECK(counts_of(&b).received == 1 && link_load(&in.unmatched) == 3);
    link_inbound_remove(&in, 1);
    CHECK(link_inbound_feed(&in, S("MSG s 1 1\r\nx\r\nJUNK\r\n")) == JET_OK);
    CHECK(link_inbound_parse(&in, &text) == LINK_EVENT_BAD && text.len == (size_t)-JET_ERR_OP);
    CHECK(link_load(&in.unmatched) == 4);
    link_inbound_reset(&in);
    link_inbound_free(&in);
    link_queue_free(&a), link_queue_free(&b);
    link_outbound_free(&o);
}
