"""Seat: whoever sits in it reads the socket. The reader lends it to a caller who waits alone.

An answer that the reader has to hand over costs its caller a wake-up of another thread, more than
all the rest of a request. So while the reader has nothing to read, one caller at a time may sit
down, read, and route what comes, for itself and for everybody else, exactly as the reader would.
Whatever needs more than that (an event, the end of the link) is left to the reader.

The reader waits at a bell (epoll) that a caller mutes when it sits down: the reader sleeps on. When
the caller leaves, the bell rings at once if there is anything to read.
"""

from jetsync._core.sync cimport (
    gate_free, gate_init, gate_open, gate_wait_nogil, leaf_free, leaf_init, lock_leaf, monotonic,
    unlock_leaf,
)


cdef extern from * nogil:
    """
    #ifdef __linux__
    #include <poll.h>
    #include <sys/epoll.h>
    #include <sys/eventfd.h>
    #include <unistd.h>

    static int bell_listen(int bell, int op, int fd, unsigned int events) {
        struct epoll_event e = {.events = events, .data = {.fd = fd}};
        return epoll_ctl(bell, op, fd, &e);
    }
    /* A bell that rings when `fd` can be read, or `note` was written. -1: there is none. */
    static int bell_new(int fd, int *note) {
        int bell = epoll_create1(EPOLL_CLOEXEC);
        *note = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (bell >= 0 && *note >= 0 && !bell_listen(bell, EPOLL_CTL_ADD, fd, EPOLLIN)
            && !bell_listen(bell, EPOLL_CTL_ADD, *note, EPOLLIN))
            return bell;
        if (bell >= 0)
            close(bell);
        if (*note >= 0)
            close(*note);
        *note = -1;
        return -1;
    }
    static void bell_free(int bell, int note) {
        close(bell);
        close(note);
    }
    static void bell_mute(int bell, int fd) { bell_listen(bell, EPOLL_CTL_MOD, fd, 0); }
    static void bell_unmute(int bell, int fd) { bell_listen(bell, EPOLL_CTL_MOD, fd, EPOLLIN); }
    static void bell_ring(int note) { eventfd_write(note, 1); }
    /* Wait until it rings; what was noted is forgotten then. */
    static void bell_wait(int bell, int note) {
        struct epoll_event e;
        eventfd_t noted;
        if (epoll_wait(bell, &e, 1, -1) == 1 && e.data.fd == note)
            eventfd_read(note, &noted);
    }
    /* 1: can be read (or has ended), 0: not within `seconds`, -1: a signal came. */
    static int bell_poll(int fd, double seconds) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        struct timespec t = {.tv_sec = (time_t)seconds};
        t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
        return ppoll(&p, 1, &t, NULL);
    }
    #else
    static int bell_new(int fd, int *note) { (void)fd; *note = -1; return -1; }
    static void bell_free(int bell, int note) { (void)bell; (void)note; }
    static void bell_mute(int bell, int fd) { (void)bell; (void)fd; }
    static void bell_unmute(int bell, int fd) { (void)bell; (void)fd; }
    static void bell_ring(int note) { (void)note; }
    static void bell_wait(int bell, int note) { (void)bell; (void)note; }
    static int bell_poll(int fd, double seconds) { (void)fd; (void)seconds; return 0; }
    #endif
    """
    int bell_new(int fd, int *note)
    void bell_free(int bell, int note)
    void bell_mute(int bell, int fd)
    void bell_unmute(int bell, int fd)
    void bell_ring(int note)
    void bell_wait(int bell, int note)
    int bell_poll(int fd, double seconds)


cdef class Seat:
    """The right to read the link, and to use what belongs to the one who reads.

    The reader has it, except while it waits in `lend`. Without a bell (not Linux, TLS, no link) it
    lends it to nobody, and waits in `recv`.
    """

    def __cinit__(self, *args, **kwargs):
        leaf_init(&self.lock)
        gate_init(&self.gate)
        self.bell = self.note = self.fd = -1
        self.taken = True

    def __dealloc__(self):
        self.unlink()
        gate_free(&self.gate)
        leaf_free(&self.lock)

    def link(self, int fd):
        """Begin to lend the reading of `fd`. Only the reader, between two pumps."""
        self.bell = bell_new(fd, &self.note)
        self.fd = fd

    def unlink(self):
        """Lend it no more, before `fd` is closed. Only the reader, between two pumps."""
        if self.bell >= 0:
            bell_free(self.bell, self.note)
        self.bell = self.note = self.fd = -1

    def abandon_seat(self):
        """In a forked child nobody reads any more; no old lock is taken."""
        leaf_init(&self.lock)
        gate_init(&self.gate)
        self.taken = True
        self.unlink()

    @property
    def is_taken(self):
        """Whether somebody sits here now: a caller, or the reader when it does not wait."""
        lock_leaf(&self.lock)
        cdef bint taken = self.taken
        unlock_leaf(&self.lock)
        return taken

    # -- the reader ------------------------------------------------------------------------------

    cdef int look(self, int fd, jet_span *text) noexcept nogil:
        """Receive once and deal with it; returns an event, or 0. For a subclass to define."""
        return 0

    cdef int lend(self, jet_span *text) noexcept nogil:
        """Let callers read until there is something to read; returns an event one of them left."""
        cdef int event
        lock_leaf(&self.lock)
        self.taken = False
        unlock_leaf(&self.lock)
        bell_wait(self.bell, self.note)
        lock_leaf(&self.lock)
        while self.taken:
            gate_wait_nogil(&self.gate, &self.lock)
        self.taken = True
        event = self.left
        text[0] = self.left_text
        self.left = 0
        unlock_leaf(&self.lock)
        return event

    # -- a caller --------------------------------------------------------------------------------

    cdef bint take(self) noexcept nogil:
        """Sit down if nobody sits here and the reader has nothing to do.

        The bell is muted under the lock, by a call that never waits: seat and bell change as one."""
        cdef bint mine
        lock_leaf(&self.lock)
        mine = not self.taken and not self.left
        if mine:
            self.taken = True
            bell_mute(self.bell, self.fd)
        unlock_leaf(&self.lock)
        return mine

    cdef bint read(self, double until) noexcept nogil:
        """Wait for something to read until `until` (monotonic), and deal with it. Returns whether
        to go on: not when time is up, a signal came, or something was left to the reader."""
        cdef double seconds = until - monotonic()
        if seconds <= 0 or bell_poll(self.fd, seconds) <= 0:
            return False
        self.left = self.look(self.fd, &self.left_text)
        return self.left == 0

    cdef void leave(self) noexcept nogil:
        lock_leaf(&self.lock)
        self.taken = False
        bell_unmute(self.bell, self.fd)
        if self.left:
            bell_ring(self.note)
        gate_open(&self.gate)
        unlock_leaf(&self.lock)
