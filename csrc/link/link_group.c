#include "link_group.h"

#include <stddef.h>
#include <string.h>

#include "link_queue.h"

void link_group_init(link_group *g, size_t most) {
    memset(g, 0, sizeof *g);
    link_mutex_init(&g->lock, LINK_ORDER_GROUP);
    g->most = most;
}

void link_group_free(link_group *g) {
    jet_chain_free(&g->carried);
    link_mutex_free(&g->lock);
}

void link_group_reset(link_group *g) {
    link_group_init(g, 0);
    g->closed = 1;
}

static void wake(link_group *g) {
    link_waiter *w = g->idle;
    g->idle = w->next;
    g->checking++;
    link_wakeup_wake(&w->wakeup);
}

/* A thread that checks the list will find what is due, so none is woken beside it. */
static void wake_one(link_group *g) {
    if (g->idle && !g->checking) wake(g);
}

static size_t wanted(const link_group *g) { return g->queues < g->most ? g->queues : g->most; }

/* Wake every thread that is not needed any more. If each woke the next one, the last of many would end
 * as many wake-ups later. */
static void wake_unneeded(link_group *g) {
    while (g->idle && g->threads > wanted(g) + g->checking) wake(g);
}

int link_group_add(link_group *g) {
    link_lock(&g->lock);
    g->queues++;
    int more = g->threads < wanted(g) && !g->closed;
    link_unlock(&g->lock);
    return more;
}

void link_group_remove(link_group *g) {
    link_lock(&g->lock);
    if (g->queues) g->queues--;
    wake_unneeded(g);
    link_unlock(&g->lock);
}

int link_group_enter(link_group *g) {
    link_lock(&g->lock);
    int needed = g->threads < wanted(g) && !g->closed;
    g->threads += (size_t)needed;
    link_unlock(&g->lock);
    return needed;
}

int link_group_has_threads(link_group *g) {
    link_lock(&g->lock);
    int found = g->threads > 0;
    link_unlock(&g->lock);
    return found;
}

void link_group_put(link_group *g, link_queue *first, link_queue *last, jet_chain *carried,
                    double now) {
    link_lock(&g->lock);
    last->next_due = NULL;
    if (g->last)
        g->last->next_due = first;
    else
        g->first = first;
    g->last = last;
    if (carried && carried->count) {
        jet_chain_move(&g->carried, carried);
        g->carried_since = now;
    }
    wake_one(g);
    link_unlock(&g->lock);
}

size_t link_group_missing(void *group) {
    link_group *g = group;
    link_lock(&g->lock);
    int due = g->first != NULL || g->threads > wanted(g);
    link_unlock(&g->lock);
    return due ? 0 : 1;
}

/* Take the message that the list carries for the queue in front. */
static void take_carried(link_group *g, link_queue *q, link_carried *carried) {
    jet_record *r = &carried->record;
    link_assert_held(&g->lock);
    carried->is_there = q->carries == LINK_CARRIES_ONE;
    if (q->carries == LINK_CARRIES_NONE || !jet_chain_peek(&g->carried, r)) return;
    q->carries = LINK_CARRIES_NONE;
    /* The four lie one behind the other. */
    memcpy(carried->bytes, r->subject.ptr, jet_record_bytes(r));
    jet_chain_drop(&g->carried, r);
    r->subject.ptr = carried->bytes;
    r->reply.ptr = r->subject.ptr + r->subject.len;
    r->header.ptr = r->reply.ptr + r->reply.len;
    r->payload.ptr = r->header.ptr + r->header.len;
    carried->since = g->carried_since;
    if (!carried->is_there) return;
    link_queue_note(q, 0, 0);
    link_add(&q->taken, 1);
}

static void fetch(const void *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char *)from + at, 1);
}

/* Fetch memory while the callbacks of the queues in front run: of one queue, and of what one leads to
 * that was fetched before. Otherwise a thread waits for one line after the other. */
enum { FETCH_OWNER = 2, FETCH_QUEUE = 4, OBJECT = 128 };

static void fetch_ahead(const link_queue *q) {
    for (int place = 1; q && place <= FETCH_QUEUE; place++, q = q->next_due) {
        if (place == FETCH_OWNER) {
            fetch(q->owner, OBJECT);
            fetch(q->near[0], OBJECT);
            fetch(q->near[1], OBJECT);
        }
        if (place == FETCH_QUEUE) fetch(q, offsetof(link_queue, sid));
    }
}

link_due link_group_take(link_group *g, link_waiter *w, int comes, int sleeps, link_queue **q,
                         link_carried *carried, int may_wait) {
    link_due due = LINK_DUE_NONE;
    if (!link_enter(&g->lock, may_wait)) return LINK_DUE_BUSY;
    g->checking += (size_t)(comes != 0);
    *q = g->first;
    if (*q) {
        due = LINK_DUE_QUEUE;
        g->first = (*q)->next_due;
        if (g->first == NULL) g->last = NULL;
        take_carried(g, *q, carried);
        fetch_ahead(g->first);
    } else if (g->threads > wanted(g) || g->closed) {
        due = LINK_DUE_END;
        g->threads -= (size_t)(g->threads > 0);
    } else if (sleeps) {
        due = LINK_DUE_SLEEP;
        link_wakeup_init(&w->wakeup);
        w->next = g->idle;
        g->idle = w;
    }
    if (due != LINK_DUE_NONE) g->checking -= (size_t)(g->checking > 0);
    if (g->first) wake_one(g); /* for the rest */
    wake_unneeded(g);
    link_unlock(&g->lock);
    return due;
}
