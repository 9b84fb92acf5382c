#include "link_turn.h"

/* WANTED: threads may stand in line, so the holder checks the line when it leaves. */
enum { FREE, TAKEN, WANTED };

void link_line_join(link_line *line, link_waiter *w) {
    link_wakeup_init(&w->wakeup);
    w->next = NULL;
    w->granted = 0;
    if (line->last)
        line->last->next = w;
    else
        line->first = w;
    line->last = w;
}

void link_line_remove(link_line *line, const link_waiter *w) {
    link_waiter *before = NULL;
    for (link_waiter *at = line->first; at; before = at, at = at->next) {
        if (at != w) continue;
        if (before)
            before->next = at->next;
        else
            line->first = at->next;
        if (line->last == at) line->last = before;
        return;
    }
}

void link_turn_init(link_turn *t) {
    t->state = FREE;
    link_mutex_init(&t->mutex, LINK_ORDER_TURN);
    t->line.first = t->line.last = NULL;
    t->epoch = 0;
}

void link_turn_free(link_turn *t) { link_mutex_free(&t->mutex); }

void link_turn_reset(link_turn *t) {
    uint64_t epoch = t->epoch;
    link_turn_init(t);
    t->epoch = epoch + 1;
}

int link_turn_try(link_turn *t) {
    int expected = FREE;
    return link_take_if(&t->state, &expected, TAKEN);
}

int link_turn_join(link_turn *t, link_waiter *w) {
    int mine;
    w->epoch = t->epoch;
    link_lock(&t->mutex);
    mine = link_swap(&t->state, WANTED) == FREE;
    if (!mine) link_line_join(&t->line, w);
    link_unlock(&t->mutex);
    return mine;
}

int link_turn_withdraw(link_turn *t, link_waiter *w) {
    int mine;
    if (link_turn_is_lost(t, w)) return 0;
    link_lock(&t->mutex);
    mine = w->granted;
    if (!mine) link_line_remove(&t->line, w);
    link_unlock(&t->mutex);
    link_wakeup_free(&w->wakeup);
    return mine;
}

int link_turn_is_lost(const link_turn *t, const link_waiter *w) { return t->epoch != w->epoch; }

void link_turn_wait(link_turn *t) {
    link_waiter w;
    if (link_turn_try(t) || link_turn_join(t, &w)) return;
    while (link_wakeup_sleep(&w.wakeup, -1) != LINK_WOKEN) continue;
    link_wakeup_free(&w.wakeup);
}

void link_turn_leave(link_turn *t) {
    int expected = TAKEN;
    link_waiter *w;
    if (link_take_if(&t->state, &expected, FREE)) return;
    link_lock(&t->mutex);
    w = t->line.first;
    if (w) {
        link_line_remove(&t->line, w);
        w->granted = 1;
        link_wakeup_wake(&w->wakeup);
    } else {
        link_swap(&t->state, FREE);
    }
    link_unlock(&t->mutex);
}
