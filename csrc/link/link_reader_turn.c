#define _GNU_SOURCE
#include "link_reader_turn.h"

#ifdef __linux__
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static int watch(int epoll, int op, int fd, uint32_t events) {
    struct epoll_event e = {.events = events, .data = {.fd = fd}};
    return epoll_ctl(epoll, op, fd, &e);
}

static void open_epoll(link_reader_turn *t, int fd) {
    t->epoll = epoll_create1(EPOLL_CLOEXEC);
    t->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->epoll >= 0 && t->eventfd >= 0 && !watch(t->epoll, EPOLL_CTL_ADD, fd, EPOLLIN) &&
        !watch(t->epoll, EPOLL_CTL_ADD, t->eventfd, EPOLLIN))
        return;
    if (t->epoll >= 0) close(t->epoll);
    if (t->eventfd >= 0) close(t->eventfd);
    t->epoll = t->eventfd = -1;
}

static void close_epoll(link_reader_turn *t) {
    close(t->epoll);
    close(t->eventfd);
}

static void mute(link_reader_turn *t) { watch(t->epoll, EPOLL_CTL_MOD, t->fd, 0); }

static void unmute(link_reader_turn *t) { watch(t->epoll, EPOLL_CTL_MOD, t->fd, EPOLLIN); }

static void ring(link_reader_turn *t) { eventfd_write(t->eventfd, 1); }

/* Sleep until there is something to read, or `ring`, or a signal. */
static void sleep_in_epoll(link_reader_turn *t) {
    struct epoll_event e;
    eventfd_t rung;
    if (epoll_wait(t->epoll, &e, 1, -1) == 1 && e.data.fd == t->eventfd)
        eventfd_read(t->eventfd, &rung);
}

/* 1: can be read (or has ended), 0: not within `seconds`, -1: a signal came. */
static int wait_readable(int fd, double seconds) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    return ppoll(&p, 1, &t, NULL);
}

/* Have the socket tell of no less than so many bytes, or of its end. Only TCP does that; other links
 * tell of each byte, as without it. */
static void set_mark(link_reader_turn *t, int bytes) {
    if (t->mark == bytes) return;
    setsockopt(t->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
    t->mark = bytes;
}
#else
static void open_epoll(link_reader_turn *t, int fd) { (void)fd, t->epoll = t->eventfd = -1; }
static void close_epoll(link_reader_turn *t) { (void)t; }
static void mute(link_reader_turn *t) { (void)t; }
static void unmute(link_reader_turn *t) { (void)t; }
static void ring(link_reader_turn *t) { (void)t; }
static void sleep_in_epoll(link_reader_turn *t) { (void)t; }
static int wait_readable(int fd, double seconds) { return (void)fd, (void)seconds, 0; }
static void set_mark(link_reader_turn *t, int bytes) { (void)t, (void)bytes; }
#endif

void link_reader_turn_init(link_reader_turn *t) {
    link_mutex_init(&t->lock, LINK_ORDER_READER_TURN);
    link_gate_init(&t->gate);
    t->epoll = t->eventfd = t->fd = -1;
    t->taken = 1;
    t->left = 0;
    t->mark = 1;
    t->left_text = (jet_span){NULL, 0};
}

void link_reader_turn_free(link_reader_turn *t) {
    link_reader_turn_unlink(t);
    link_gate_free(&t->gate);
    link_mutex_free(&t->lock);
}

void link_reader_turn_reset(link_reader_turn *t) {
    link_reader_turn_unlink(t);
    link_reader_turn_init(t);
}

void link_reader_turn_link(link_reader_turn *t, int fd) {
    open_epoll(t, fd);
    t->fd = fd;
    t->mark = 1;
}

void link_reader_turn_unlink(link_reader_turn *t) {
    if (t->epoll >= 0) close_epoll(t);
    t->epoll = t->eventfd = t->fd = -1;
}

int link_reader_turn_is_taken(link_reader_turn *t) {
    link_lock(&t->lock);
    int taken = t->taken;
    link_unlock(&t->lock);
    return taken;
}

int link_reader_turn_lend(link_reader_turn *t, jet_span *text) {
    link_lock(&t->lock);
    t->taken = 0;
    link_unlock(&t->lock);
    sleep_in_epoll(t);
    link_lock(&t->lock);
    while (t->taken) link_gate_wait(&t->gate, &t->lock);
    t->taken = 1;
    int event = t->left;
    *text = t->left_text;
    t->left = 0;
    link_unlock(&t->lock);
    return event;
}

int link_reader_turn_take(link_reader_turn *t, int may_wait) {
    if (!link_enter(&t->lock, may_wait)) return 0;
    int mine = !t->taken && !t->left;
    if (mine) {
        t->taken = 1;
        /* Under the mutex, by a call that never waits: turn and epoll change as one. */
        mute(t);
    }
    link_unlock(&t->lock);
    return mine;
}

int link_reader_turn_read(link_reader_turn *t, double until, size_t least, link_read_step step,
                          void *context) {
    if (t->left) return 0; /* the reader has to see it before anything else is read */
    double seconds = until - link_now();
    if (seconds <= 0) return 0;
    set_mark(t, (int)least);
    int ready = wait_readable(t->fd, seconds);
    if (ready < 0 || (ready == 0 && least == 1)) return 0;
    t->left = step(context, t->fd, &t->left_text);
    return ready && t->left == 0;
}

void link_reader_turn_leave(link_reader_turn *t) {
    set_mark(t, 1);
    link_lock(&t->lock);
    t->taken = 0;
    unmute(t);
    if (t->left) ring(t);
    link_gate_open(&t->gate);
    link_unlock(&t->lock);
}
