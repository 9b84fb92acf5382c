#include "link_queue.h"

#include <string.h>

void link_queue_init(link_queue *q, jet_pool *pool, size_t limit_messages, size_t limit_bytes) {
    memset(q, 0, sizeof *q);
    link_mutex_init(&q->lock, LINK_ORDER_QUEUE);
    link_gate_init(&q->gate);
    link_turn_init(&q->take_turn);
    jet_chain_init(&q->chain);
    jet_chain_init(&q->ready);
    q->chain.pool = pool;
    q->limit_messages = limit_messages;
    q->limit_bytes = limit_bytes;
    q->last_put = link_now();
}

int link_queue_tell(link_queue *q) {
    link_assert_held(&q->lock);
    if (!link_queue_has_enough(q) && (q->scheduled || !q->carries)) return 0;
    link_gate_open(&q->gate);
    if (q->group == NULL || q->scheduled) return 0;
    q->scheduled = 1;
    return 1;
}

/* There may be something for the takers. */
static void notify(link_queue *q) {
    if (link_queue_tell(q)) link_group_put(q->group, q, q, NULL, 0);
}

void link_queue_free(link_queue *q) {
    jet_chain_free(&q->chain);
    jet_chain_free(&q->ready);
    link_turn_free(&q->take_turn);
    link_gate_free(&q->gate);
    link_mutex_free(&q->lock);
}

void link_queue_reset(link_queue *q) {
    link_turn_reset(&q->take_turn);
    link_mutex_init(&q->lock, LINK_ORDER_QUEUE);
    link_gate_init(&q->gate);
    /* A wait that a signal interrupted goes on in this process, and finds the end. */
    link_wakeup_wake(&q->gate.wakeup);
    jet_chain_init(&q->chain);
    jet_chain_init(&q->ready);
    link_queue_note_ready(q);
    q->carries = LINK_CARRIES_NONE;
    q->finished = 1;
    q->group = NULL;
}

/* Leave a message to the list of the group. It goes there only if the queue falls due with it, so it is
 * the oldest one that waits. Returns 0 when it has to go into the queue. */
static int carry(link_queue *q, const jet_record *r, jet_chain *carried) {
    if (!q->takes_carried || q->scheduled || !carried) return 0;
    if (q->carries || q->chain.count) return 0;
    size_t bytes = jet_record_bytes(r);
    if (bytes > LINK_CARRY_MAX || jet_chain_append(carried, r) != JET_OK) return 0;
    q->carries = LINK_CARRIES_ONE;
    link_queue_note(q, 1, bytes);
    return 1;
}

static int add(link_queue *q, const jet_record *r, jet_buf *from, jet_chain *carried) {
    if (from) return jet_chain_adopt(&q->chain, r, from) == JET_OK;
    return carry(q, r, carried) || jet_chain_append(&q->chain, r) == JET_OK;
}

/* Drop the message that the list of the group carries, if there is one. Returns how many that were. */
static size_t drop_carried(link_queue *q) {
    size_t dropped = 0;
    link_assert_held(&q->lock);
    if (!q->takes_carried || !q->scheduled) return 0;
    link_lock(&q->group->lock);
    if (q->carries == LINK_CARRIES_ONE) {
        q->carries = LINK_CARRIES_DROPPED;
        link_queue_note(q, 0, 0);
        dropped = 1;
    }
    link_unlock(&q->group->lock);
    return dropped;
}

void link_queue_absorb(link_queue *q) { q->absorbs = 1; }

/* FNV-1a, never 0. */
static uint64_t hash_of(jet_span s) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < s.len; i++) h = (h ^ s.ptr[i]) * 0x100000001b3u;
    return h ? h : 1;
}

/* Whether this is a heartbeat that says what the one before it said, with no message between. The end
 * of a pull may stand between them: it delivers nothing, so the second heartbeat says nothing new. */
static int is_repeated(link_queue *q, const jet_record *r) {
    uint64_t before = q->heartbeat;
    link_assert_held(&q->lock);
    if (!q->absorbs || (r->status && r->status != 100)) return 0;
    q->heartbeat = 0;
    if (r->status != 100 || r->payload.len || r->reply.len) return 0;
    q->heartbeat = hash_of(r->header);
    return q->heartbeat == before;
}

link_put_outcome link_queue_put(link_queue *q, const jet_record *r, double now, jet_buf *from,
                                jet_chain *carried) {
    link_put_outcome outcome = LINK_PUT_NOTHING;
    size_t count, size;
    link_assert_held(&q->lock);
    if (q->finished) return outcome;
    q->last_put = now;
    if (is_repeated(q, r)) return outcome;
    q->received++;
    if (q->max_messages && q->received >= q->max_messages) {
        q->finished = 1;
        outcome = LINK_PUT_LAST;
    }
    count = q->chain.count + link_load(&q->ready_messages);
    size = q->chain.bytes + link_load(&q->ready_bytes);
    if ((q->limit_messages && count >= q->limit_messages) ||
        (q->limit_bytes && size + jet_record_bytes(r) > q->limit_bytes && count) ||
        !add(q, r, from, carried)) {
        q->dropped++;
        if (!q->slow && outcome == LINK_PUT_NOTHING) outcome = LINK_PUT_SLOW;
        q->slow = 1;
        return outcome;
    }
    /* An episode ends when the taker has caught up to half of its limit. */
    if (q->slow && (!q->limit_messages || count * 2 <= q->limit_messages) &&
        (!q->limit_bytes || size * 2 <= q->limit_bytes))
        q->slow = 0;
    return outcome;
}

int link_queue_has_enough(const link_queue *q) {
    link_assert_held(&q->lock);
    return q->chain.count >= q->least || q->chain.statuses > 0 || q->finished || q->woken;
}

void link_queue_serve(link_queue *q) {
    link_lock(&q->lock);
    q->touched = 0;
    notify(q);
    link_unlock(&q->lock);
}

size_t link_queue_missing(void *queue) {
    link_queue *q = queue;
    link_lock(&q->lock);
    size_t missing = link_queue_has_enough(q) ? 0 : q->least - q->chain.count;
    link_unlock(&q->lock);
    return missing;
}

link_found link_queue_find(link_queue *q, size_t least, int patient, int arm, int may_wait) {
    link_found found = LINK_WAIT;
    if (q->ready.count) return LINK_FOUND;
    if (!link_enter(&q->lock, may_wait)) return LINK_FIND_BUSY;
    q->least = least;
    if (q->chain.count && (!patient || link_queue_has_enough(q))) {
        jet_chain_move(&q->ready, &q->chain);
        q->ready_since = q->last_put;
        link_queue_note_ready(q);
        found = LINK_FOUND;
    } else if (q->finished || q->woken || !patient) {
        q->woken = 0;
        found = LINK_NOTHING;
    } else if (arm) {
        link_gate_arm(&q->gate);
    }
    link_unlock(&q->lock);
    return found;
}

int link_queue_leave(link_queue *q) {
    link_lock(&q->lock);
    int opened = link_gate_leave(&q->gate);
    link_unlock(&q->lock);
    return opened;
}

int link_queue_wake(link_queue *q, int may_wait) {
    if (!link_enter(&q->lock, may_wait)) return 0;
    q->woken = 1;
    notify(q);
    link_unlock(&q->lock);
    return 1;
}

void link_queue_finish(link_queue *q) {
    link_lock(&q->lock);
    q->finished = 1;
    notify(q);
    link_unlock(&q->lock);
}

size_t link_queue_discard(link_queue *q) {
    int mine = link_turn_try(&q->take_turn);
    jet_chain dropped; /* freed without the mutex: that may take long */
    jet_chain_init(&dropped);
    link_lock(&q->lock);
    if (mine && q->ready.count) {
        jet_chain_move(&dropped, &q->ready);
        link_queue_note_ready(q);
    }
    jet_chain_move(&dropped, &q->chain);
    size_t n = dropped.count + drop_carried(q);
    link_unlock(&q->lock);
    if (mine) link_turn_leave(&q->take_turn);
    jet_chain_free(&dropped);
    return n;
}

int link_queue_stop_after(link_queue *q, uint64_t max_messages) {
    int mine = link_turn_try(&q->take_turn);
    link_lock(&q->lock);
    q->max_messages = max_messages;
    if (q->received >= max_messages) {
        uint64_t gone = link_load(&q->taken) + q->dropped, ready = link_load(&q->ready_messages);
        size_t keep = max_messages > gone ? (size_t)(max_messages - gone) : 0;
        q->finished = 1;
        jet_chain_cut(&q->chain, keep > ready ? keep - (size_t)ready : 0);
        if (keep == 0) drop_carried(q);
        if (mine && q->ready.count) {
            jet_chain_cut(&q->ready, keep);
            link_queue_note_ready(q);
        }
        notify(q);
    }
    int open = !q->finished;
    link_unlock(&q->lock);
    if (mine) link_turn_leave(&q->take_turn);
    return open;
}

int link_queue_counts(link_queue *q, int may_wait, link_counts *now) {
    if (!link_enter(&q->lock, may_wait)) return 0;
    now->messages = q->chain.count + link_load(&q->ready_messages);
    now->bytes = q->chain.bytes + link_load(&q->ready_bytes);
    now->received = q->received;
    now->dropped = q->dropped;
    now->max_messages = q->max_messages;
    now->last_put = q->last_put;
    now->last_reads = q->last_reads;
    now->finished = q->finished;
    link_unlock(&q->lock);
    return 1;
}

void link_queue_join_group(link_queue *q, link_group *g, void *owner, int has_it,
                           int takes_carried) {
    link_lock(&q->lock);
    q->least = 1;
    q->owner = owner;
    q->group = g;
    q->scheduled = has_it;
    q->takes_carried = takes_carried;
    notify(q);
    link_unlock(&q->lock);
}

void link_queue_leave_group(link_queue *q) {
    link_lock(&q->lock);
    q->group = NULL;
    q->takes_carried = 0;
    link_unlock(&q->lock);
}

link_rest link_queue_rest(link_queue *q, int goes_on, int ends, int may_wait) {
    link_rest rest = LINK_RESTS;
    if (!link_enter(&q->lock, may_wait)) return LINK_REST_BUSY;
    int more = q->chain.count || link_load(&q->ready_messages);
    q->least = 1; /* the thread that had it may have waited for more */
    if (goes_on && more)
        rest = LINK_REST_MORE;
    else if (ends && q->finished && !more)
        rest = LINK_REST_OVER;
    else if (q->group && (more || link_queue_has_enough(q)))
        link_group_put(q->group, q, q, NULL, 0);
    else
        q->scheduled = 0;
    link_unlock(&q->lock);
    return rest;
}
