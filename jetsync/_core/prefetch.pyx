"""PrefetchBuffer: messages that were taken out of a mailbox and are given out one by one."""

from libc.stdint cimport int64_t

from jetsync._core.batch cimport MsgBatch
from jetsync._core.csrc cimport (
    jet_chain_drop, jet_chain_free, jet_chain_init, jet_chain_move, jet_chain_peek, jet_record,
)
from jetsync._core.message cimport Msg
from jetsync._core.link cimport link_load, link_store

from jetsync.errors import ConfigError


cdef extern from * nogil:
    """
    /* One thread at a time, without waiting: the second one is told. */
    static inline int jetsync_enter(int *inside) {
        return !__atomic_exchange_n(inside, 1, __ATOMIC_ACQUIRE);
    }
    static inline void jetsync_leave(int *inside) {
        __atomic_store_n(inside, 0, __ATOMIC_RELEASE);
    }
    """
    bint jetsync_enter(int *inside)
    void jetsync_leave(int *inside)


cdef class PrefetchBuffer:
    """An iterator over messages that were taken already; the base of streams that fill it.

    `__next__` costs no Python frame as long as there are more than `_threshold` messages; then it
    calls `_slow_next()` of the subclass, which fills it, does what else is due, and sets the next
    threshold. For one thread at a time: misuse raises ConfigError.
    """

    def __cinit__(self, *args, **kwargs):
        jet_chain_init(&self.chain)
        self.left = -1

    def __dealloc__(self):
        jet_chain_free(&self.chain)

    def _try_enter(self):
        """Enter; False when another thread is inside."""
        return jetsync_enter(&self.inside)

    def _enter(self):
        """Enter. Raises ConfigError when another thread is inside."""
        if not jetsync_enter(&self.inside):
            raise ConfigError(
                "a message stream belongs to one thread at a time, and another one is using it"
            )

    def _leave(self):
        jetsync_leave(&self.inside)

    def _run(self, step, argument):
        """Call `step(argument)` inside. Raises ConfigError when another thread is inside.

        Entering and leaving happen in C: a signal handler that raises cannot come between, so an
        interrupted call leaves nothing locked.
        """
        self._enter()
        try:
            return step(argument)
        finally:
            jetsync_leave(&self.inside)

    def _take_over(self, MsgBatch batch not None):
        """Take over everything of a batch, which is empty afterwards, and count it off `_left`.
        Only inside."""
        if self.left >= 0:
            self.left = max(0, self.left - <int64_t>batch.chain.count)
        batch.forget_index()
        batch.rows = 0
        self.factory = batch.factory
        self.owners = batch.owners
        self.since = batch.since
        jet_chain_move(&self.chain, &batch.chain)

    def _move_into(self, MsgBatch batch not None, size_t limit):
        """Move up to `limit` messages to the end of an empty batch. Only inside."""
        cdef jet_record r
        if self.factory is not None:
            batch.factory = self.factory
            batch.owners = self.owners
        batch.since = self.since
        if self.chain.count <= limit:
            batch.adopt(&self.chain)
            return
        while limit and jet_chain_peek(&self.chain, &r):
            batch.add(&r)
            jet_chain_drop(&self.chain, &r)
            limit -= 1

    def _pop(self):
        """Take the next message; None when there is none. Only inside."""
        return self.make() if self.chain.count else None

    cdef Msg make(self):
        """Make the next message, then take it: without memory for it, it stays."""
        cdef jet_record r
        jet_chain_peek(&self.chain, &r)
        cdef Msg msg = self.factory.make(&r)
        msg.since = self.since
        jet_chain_drop(&self.chain, &r)
        return msg

    def _set_threshold(self, size_t count):
        """Take the slow way when so many are left; 0: only when none is."""
        link_store(&self.threshold, count)

    @property
    def _buffered(self):
        """Messages in it."""
        return self.chain.count

    @property
    def _buffered_bytes(self):
        """Their subjects, replies, headers and payloads, in bytes."""
        return self.chain.bytes

    @property
    def _left(self):
        """How many messages may still come into it; None: any number."""
        return None if self.left < 0 else self.left

    @_left.setter
    def _left(self, value):
        self.left = -1 if value is None else value

    def __iter__(self):
        return self

    def _slow_next(self):
        """Of the subclass: return the next message when there is none left or the threshold is
        reached. Blocks; raises StopIteration at the end."""
        raise NotImplementedError

    cdef Msg quick(self):
        """The next message, or None when the slow way has to be taken."""
        if not jetsync_enter(&self.inside):
            self._enter()
        try:
            if self.chain.count <= link_load(&self.threshold):
                return None
            return self.make()
        finally:
            jetsync_leave(&self.inside)

    cdef Msg ready(self):
        """As `quick`; None too when another thread is inside."""
        if not jetsync_enter(&self.inside):
            return None
        try:
            if self.chain.count <= link_load(&self.threshold):
                return None
            return self.make()
        finally:
            jetsync_leave(&self.inside)

    def _quick(self):
        """Take the next message if nothing else has to be done; None otherwise."""
        return self.quick()

    def __next__(self):
        cdef Msg msg = self.quick()
        return self._slow_next() if msg is None else msg


def wake_buffer(PrefetchBuffer buffer not None):
    """Have it take the slow way next time, however many are left. Any thread."""
    link_store(&buffer.threshold, <size_t>-1)
