#define _GNU_SOURCE
#include "link_wakeup.h"

#include <errno.h>
#include <limits.h>
#include <time.h>

double link_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#ifndef LINK_PORTABLE
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void link_wakeup_init(link_wakeup *w) { w->token = 0; }

void link_wakeup_free(link_wakeup *w) { (void)w; }

void link_wakeup_wake(link_wakeup *w) {
    if (link_swap(&w->token, 1) == 0)
        syscall(SYS_futex, &w->token, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

link_result link_wakeup_sleep(link_wakeup *w, double deadline) {
    struct timespec until, *limit = NULL;
    if (deadline >= 0) {
        until.tv_sec = (time_t)deadline;
        until.tv_nsec = (long)((deadline - (double)until.tv_sec) * 1e9);
        limit = &until;
    }
    while (link_swap(&w->token, 0) == 0) {
        /* Absolute, on the monotonic clock; returns at once when the token has come. */
        if (syscall(SYS_futex, &w->token, FUTEX_WAIT_BITSET_PRIVATE, 0, limit, NULL,
                    FUTEX_BITSET_MATCH_ANY) == 0 || errno == EAGAIN)
            continue;
        if (link_swap(&w->token, 0)) break;
        return errno == ETIMEDOUT ? LINK_TIMEOUT : LINK_SIGNAL;
    }
    return LINK_WOKEN;
}

#else

void link_wakeup_init(link_wakeup *w) {
    w->token = 0;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->condition, NULL);
}

void link_wakeup_free(link_wakeup *w) {
    pthread_cond_destroy(&w->condition);
    pthread_mutex_destroy(&w->mutex);
}

void link_wakeup_wake(link_wakeup *w) {
    pthread_mutex_lock(&w->mutex);
    w->token = 1;
    pthread_cond_signal(&w->condition);
    pthread_mutex_unlock(&w->mutex);
}

link_result link_wakeup_sleep(link_wakeup *w, double deadline) {
    link_result result = LINK_WOKEN;
    pthread_mutex_lock(&w->mutex);
    while (!w->token && result == LINK_WOKEN) {
        /* In short pieces: a condition waits on the wall clock, which may be set, and does not
         * report a signal. */
        double left = deadline < 0 ? 1.0 : deadline - link_now();
        struct timespec until;
        if (left <= 0) {
            result = LINK_TIMEOUT;
            break;
        }
        if (left > 0.05) left = 0.05;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)(left * 1e9);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&w->condition, &w->mutex, &until);
        if (!w->token && (deadline < 0 || link_now() < deadline)) result = LINK_SIGNAL;
    }
    if (w->token) {
        w->token = 0;
        result = LINK_WOKEN;
    }
    pthread_mutex_unlock(&w->mutex);
    return result;
}

#endif

void link_gate_init(link_gate *g) {
    link_wakeup_init(&g->wakeup);
    g->waiting = 0;
}

void link_gate_free(link_gate *g) { link_wakeup_free(&g->wakeup); }

void link_gate_arm(link_gate *g) { g->waiting = 1; }

void link_gate_open(link_gate *g) {
    if (g->waiting) {
        g->waiting = 0;
        link_wakeup_wake(&g->wakeup);
    }
}

int link_gate_leave(link_gate *g) {
    int opened = !g->waiting;
    g->waiting = 0;
    if (opened) link_wakeup_sleep(&g->wakeup, 0);
    return opened;
}

void link_gate_wait(link_gate *g, link_mutex *guard) { link_gate_wait_until(g, guard, -1); }

void link_gate_wait_until(link_gate *g, link_mutex *guard, double deadline) {
    link_result got;
    link_gate_arm(g);
    link_unlock(guard);
    do got = link_wakeup_sleep(&g->wakeup, deadline);
    while (got == LINK_SIGNAL);
    link_lock(guard);
    if (got == LINK_TIMEOUT) link_gate_leave(g);
}
