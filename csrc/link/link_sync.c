#include "link_sync.h"

#include <stdio.h>
#include <stdlib.h>

void link_mutex_init(link_mutex *m, link_order order) {
    pthread_mutex_init(&m->mutex, NULL);
#ifdef LINK_DEBUG
    m->order = order;
    m->held = 0;
#else
    (void)order;
#endif
}

void link_mutex_free(link_mutex *m) { pthread_mutex_destroy(&m->mutex); }

#ifdef LINK_DEBUG
/* The orders of the mutexes that a thread holds, one bit each: none is taken twice. */
static _Thread_local unsigned held_orders;

static void fail(const char *what, const link_mutex *m) {
    fprintf(stderr, "link: %s (mutex of order %d)\n", what, (int)m->order);
    abort();
}

void link_mutex_entered(link_mutex *m) {
    if (held_orders >> m->order) fail("mutexes are taken in the wrong order", m);
    held_orders |= 1u << m->order;
    m->holder = pthread_self();
    m->held = 1;
}

void link_mutex_leaving(link_mutex *m) {
    link_assert_held(m);
    m->held = 0;
    held_orders &= ~(1u << m->order);
}

void link_assert_held(const link_mutex *m) {
    if (!m->held || !pthread_equal(m->holder, pthread_self())) fail("a mutex is not held", m);
}
#endif
