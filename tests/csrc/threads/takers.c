/* Those who take messages, and those who look. */
#include "world.h"

size_t taken[QUEUES], discarded[QUEUES];
static uint64_t last_number[QUEUES]; /* guarded by the take turn of the queue; the last one by having it */

/* Take the turn; 0 when that took too long. */
static int take_turn(link_turn *t, double deadline) {
    link_waiter w;
    if (link_turn_try(t) || link_turn_join(t, &w)) return 1;
    link_result got = link_wakeup_sleep(&w.wakeup, deadline);
    return got == LINK_WOKEN ? (link_wakeup_free(&w.wakeup), 1) : link_turn_withdraw(t, &w);
}

void contend(double seconds) {
    static link_turn turn; /* zero is free */
    static size_t inside;
    for (int i = 0; i < 20; i++) {
        if (!take_turn(&turn, link_now() + seconds)) continue;
        inside++;
        link_turn_leave(&turn);
    }
}

/* See that something is in hand, as a caller of the interpreter does. */
static int fill(link_queue *q, double deadline) {
    int patient = 1, follow = 1;
    for (;;) {
        link_found found = link_queue_find(q, 1, patient, !follow, 0);
        if (found == LINK_FIND_BUSY) found = link_queue_find(q, 1, patient, !follow, 1);
        if (found != LINK_WAIT) return found == LINK_FOUND;
        if (follow) {
            follow = 0;
            if (link_reader_turn_take(&in.turn, 0)) {
                link_inbound_follow(&in, link_queue_missing, q, link_now() + 0.0005, q == &queues[1]);
                link_inbound_leave(&in, 0.0005);
            }
        } else if (link_inbound_is_near(&in) &&
                   link_wakeup_sleep(&q->gate.wakeup, link_now() + 0.0005) == LINK_WOKEN) {
            link_inbound_waited(&in, 0.0005);
        } else if (link_wakeup_sleep(&q->gate.wakeup, deadline) != LINK_WOKEN && !link_queue_leave(q)) {
            patient = 0;
        }
    }
}

/* As a binding looks at the counts, and wakes: see `take_due` below. */
static link_counts counts_of(link_queue *q) {
    link_counts now;
    if (!link_queue_counts(q, 0, &now)) link_queue_counts(q, 1, &now);
    return now;
}

static void wake_takers(link_queue *q) {
    if (!link_queue_wake(q, 0)) link_queue_wake(q, 1);
}

static void take(link_queue *q, size_t k, double seconds) {
    jet_record r;
    uint64_t number;
    double deadline = link_now() + seconds;
    if (!take_turn(&q->take_turn, deadline)) return;
    if (fill(q, deadline)) {
        for (int n = 0; n < 50 && jet_chain_peek(&q->ready, &r); n++) {
            CHECK(jet_scan_leading_u64(r.payload, &number) > 0);
            CHECK(number >= last_number[k]);
            last_number[k] = number;
            jet_chain_drop(&q->ready, &r);
            link_add(&q->taken, 1);
            taken[k]++;
        }
        link_queue_note_ready(q);
    }
    link_turn_leave(&q->take_turn);
}

void *taker(void *queue) {
    link_queue *q = queue;
    size_t k = (size_t)(q - queues);
    for (size_t i = 0; !atomic_load(&ended) || counts_of(q).messages; i++)
        take(q, k, i % 3 ? 0.02 : 0.0002);
    return NULL;
}

static void see(size_t k, const jet_record *r) {
    uint64_t number;
    CHECK(jet_scan_leading_u64(r->payload, &number) > 0);
    CHECK(number >= last_number[k]);
    last_number[k] = number;
    taken[k]++;
}

static int deal(link_queue *q, const link_carried *carried) {
    size_t k = (size_t)(q - queues);
    if (carried->is_there) see(k, &carried->record);
    if (!link_turn_try(&q->take_turn)) return 0;
    link_queue_find(q, 1, 0, 0, 1);
    jet_record r;
    for (int n = 0; n < 20 && jet_chain_peek(&q->ready, &r); n++) {
        see(k, &r);
        jet_chain_drop(&q->ready, &r);
    }
    link_queue_note_ready(q);
    link_turn_leave(&q->take_turn);
    link_counts now = counts_of(q);
    return now.finished && !now.messages;
}

/* As a binding does it: with the interpreter's lock if that takes no time, else without. */
static link_due take_due(link_waiter *w, int comes, int sleeps, link_queue **q,
                         link_carried *carried) {
    link_due due = link_group_take(&group, w, comes, sleeps, q, carried, 0);
    return due == LINK_DUE_BUSY ? link_group_take(&group, w, comes, sleeps, q, carried, 1) : due;
}

static link_rest give_back(link_queue *q, int goes_on) {
    link_rest rest = link_queue_rest(q, goes_on, 0, 0);
    return rest == LINK_REST_BUSY ? link_queue_rest(q, goes_on, 0, 1) : rest;
}

/* As a turn ends: it goes on with what came behind the message that the list carried. */
static void end_turn(link_queue *q) {
    static const link_carried nothing;
    if (give_back(q, 1) != LINK_REST_MORE) return;
    deal(q, &nothing);
    give_back(q, 0);
}

void *worker(void *unused) {
    static atomic_int over;
    link_waiter w;
    link_queue *q;
    link_carried carried;
    size_t dealt = 0;
    for (int comes = 1;;) {
        link_due due = take_due(&w, comes, 0, &q, &carried);
        comes = 0;
        if (due == LINK_DUE_NONE) {
            if (link_reader_turn_take(&in.turn, 0)) {
                link_inbound_follow(&in, link_group_missing, &group, link_now() + 0.0005, 0);
                link_inbound_leave(&in, 0.0005);
            }
            due = take_due(&w, 0, 1, &q, &carried);
        }
        if (due == LINK_DUE_SLEEP) {
            while (link_wakeup_sleep(&w.wakeup, -1) != LINK_WOKEN) continue;
            link_wakeup_free(&w.wakeup);
        } else if (due == LINK_DUE_END) {
            return unused;
        } else {
            comes = 1;
            if (deal(q, &carried)) {
                link_queue_leave_group(q);
                if (atomic_fetch_add(&over, 1) == 0) continue; /* both threads end with the other one */
                link_group_remove(&group);
                link_group_remove(&group);
            } else {
                if (++dealt % 3 == 0) { /* as a task does that goes on with another queue */
                    link_queue_leave_group(q);
                    link_queue_join_group(q, &group, NULL, 1, q == &queues[4]);
                }
                end_turn(q);
            }
        }
    }
}

void *watcher(void *unused) {
    uint8_t bytes[64];
    uint64_t sum = 0;
    for (size_t i = 0; !atomic_load(&ended); i++) {
        for (int k = 0; k < QUEUES; k++) {
            link_counts now = counts_of(&queues[k]);
            sum += now.received + link_load(&queues[k].taken);
        }
        sum += link_load(&in.messages) + link_load(&in.bytes) + link_load(&in.reads) +
               link_load(&in.unmatched) + link_load(&out.msgs) + link_load(&out.bytes) +
               link_load(&out.pings);
        sum += (uint64_t)link_reader_turn_is_taken(&in.turn);
        sum += link_outbound_pending(&out) + link_outbound_peek(&out, bytes, sizeof bytes);
        sum += link_outbound_link(&out) + link_load(&out.links);
        sum += link_outbound_kept(&out) + link_load(&out.pongs);
        if (i % 9 == 0) link_outbound_retract(&out, jet_span_of((const uint8_t *)"_W.", 3));
        if (i % 2) link_outbound_ask(&out);
        if (i % 4 == 0) link_outbound_ping(&out, i % 8);
        contend(i % 2 ? 0 : 0.001);
        if (i % 5 == 0) wake_takers(&queues[i % QUEUES]);
        if (i % 3 == 0) usleep(50);
    }
    CHECK(sum);
    return unused;
}

/* Each of these looks with one function and takes no other lock: nothing else orders what it sees. */
void *looker(void *which) {
    uint64_t sum = 1;
    for (size_t i = 0; !atomic_load(&ended); i++) {
        switch ((intptr_t)which) {
        case 0: sum += link_outbound_link(&out); break;
        case 1: sum += link_outbound_waiting(&out); break;
        case 3: CHECK(!link_group_enter(&group)); break; /* there are two already */
        case 4: sum += (uint64_t)link_group_has_threads(&group); break;
        case 5: sum += link_outbound_link_to_leave_on(&out); break;
        case 2:
            sum += (uint64_t)link_queue_stop_after(&queues[2], UINT64_MAX);
            sum += (uint64_t)link_queue_stop_after(&idle, 0);
            break;
        default: /* as one that takes: counts that are read without its turn */
            link_turn_wait(&idle.take_turn);
            link_add(&idle.taken, 1);
            link_queue_note_ready(&idle);
            link_turn_leave(&idle.take_turn);
            break;
        }
        if (i % 16 == 0) usleep(50);
    }
    CHECK(sum);
    return NULL;
}

/* Makes and forgets subscriptions and requests; sends what waits. */
void *manager(void *unused) {
    for (size_t i = 0; !atomic_load(&ended); i++) {
        link_queue *asking = malloc(sizeof *asking), *brief = malloc(sizeof *brief);
        CHECK(asking && brief);
        link_queue_init(asking, &pool, 4, 1000);
        link_queue_init(brief, &pool, 4, 0);
        uint64_t mine = 0, sid = link_inbound_add(&in, brief);
        link_inbound_add_reply(&in, asking, 1, &mine);
        CHECK(mine && sid);
        if (i % 8 == 0)
            link_inbound_route_replies(&in, jet_span_of((const uint8_t *)"_R.", 3), REPLY_SID);
        link_group_add(&group);
        link_group_remove(&group);
        atomic_store(&token, mine);
        atomic_store_explicit(&brief_sid, sid, memory_order_relaxed);
        contend(0.001);
        link_outbound_line(&out, jet_span_of((const uint8_t *)"UNSUB 77\r\n", 10));
        if (link_outbound_begin_send(&out)) link_outbound_send(&out);
        if (i % 2) link_queue_stop_after(asking, 1 + i % 3);
        link_turn_wait(&asking->take_turn);
        fill(asking, link_now() + 0.001);
        link_turn_leave(&asking->take_turn);
        atomic_store(&token, 0);
        if (i % 3 == 0) link_outbound_nudge(&out);
        if (i % 5 == 0) discarded[1] += link_queue_discard(&queues[1]);
        if (i % 2 == 0) discarded[4] += link_queue_discard(&queues[4]);
        if (i % 3 == 0) take(&queues[3], 3, 0); /* beside its worker */
        if (i % 4 == 0) link_queue_finish(asking);
        link_inbound_remove_reply(&in, mine, 1);
        link_inbound_remove(&in, sid);
        /* The reader looks and puts under the mutex of the routes: it cannot reach them any more. */
        link_queue_free(asking);
        link_queue_free(brief);
        free(asking);
        free(brief);
    }
    return unused;
}
