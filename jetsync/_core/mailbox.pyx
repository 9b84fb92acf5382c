"""Mailbox: the bounded inbox between the reader thread and whoever consumes."""

from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport Py_INCREF

from jetsync._core.batch cimport MsgBatch
from jetsync._core.csrc cimport (
    JET_OK, jet_chain_append, jet_chain_free, jet_chain_init, jet_chain_move, jet_chain_take,
    jet_pool, jet_record, jet_record_bytes,
)
from jetsync._core.sync cimport (
    acquire, deadline_of, free_lock, gate_free, gate_init, gate_open, gate_wait, jetsync_add,
    jetsync_count, jetsync_load, jetsync_store, leaf_free, leaf_init, lock_leaf, monotonic,
    new_lock, unlock, unlock_leaf,
)

from jetsync._core.message import Msg as _Msg
from jetsync.errors import ConfigError


cdef extern from "pythread.h" nogil:
    unsigned long PyThread_get_thread_ident()


# Who waits for longer than this, in seconds, waits for the reader.
cdef double SIT = 0.02

cdef jet_pool POOL  # of all mailboxes, and of the batches that their messages went into


cdef Put box_put(Box *box, const jet_record *r, double now) noexcept nogil:
    """Copy one message in. The caller holds `box.lock`."""
    cdef size_t count, size
    cdef Put outcome = PUT_NOTHING
    if box.finished:
        return outcome
    box.received += 1
    box.last_put = now
    if box.max_messages and box.received >= box.max_messages:
        box.finished = True
        outcome = PUT_LAST
    count = box.chain.count + jetsync_load(&box.held_count)
    size = box.chain.bytes + jetsync_load(&box.held_bytes)
    # The newest is dropped: what is already queued keeps its order and its neighbours.
    if ((box.limit_count and count >= box.limit_count)
            or (box.limit_bytes and size + jet_record_bytes(r) > box.limit_bytes and count)
            or jet_chain_append(&box.chain, r) != JET_OK):
        box.dropped += 1
        if not box.slow and outcome == PUT_NOTHING:
            outcome = PUT_SLOW
        box.slow = True
        return outcome
    # An episode ends when the consumer has caught up to half of its limit.
    if (box.slow and (not box.limit_count or count * 2 <= box.limit_count)
            and (not box.limit_bytes or size * 2 <= box.limit_bytes)):
        box.slow = False
    return outcome


cdef bint box_has_enough(const Box *box) noexcept nogil:
    """Whether its waiter need not wait on. The caller holds `box.lock`."""
    return (box.chain.count >= box.least or box.chain.statuses > 0 or box.finished or box.poked)


cdef class Mailbox:
    """A bounded inbox of messages. Thread-safe.

    `limit_messages` and `limit_bytes` bound what waits (0: no limit); beyond that the newest
    message is dropped and counted. Consumers on several threads take turns.
    """

    def __cinit__(self, *, size_t limit_messages=0, size_t limit_bytes=0, msg_type=None,
                  owner=None, context=None):
        jet_chain_init(&self.box.chain)
        self.box.chain.pool = &POOL
        jet_chain_init(&self.in_hand)
        leaf_init(&self.box.lock)
        self.take_lock = new_lock()
        gate_init(&self.box.gate)
        self.box.limit_count = limit_messages
        self.box.limit_bytes = limit_bytes
        self.box.last_put = monotonic()
        self.maker = Maker(_Msg if msg_type is None else msg_type, owner, context)

    def __dealloc__(self):
        jet_chain_free(&self.box.chain)
        jet_chain_free(&self.in_hand)
        gate_free(&self.box.gate)
        free_lock(self.take_lock)
        leaf_free(&self.box.lock)

    cdef void _publish_held(self) noexcept nogil:
        jetsync_store(&self.box.held_count, self.in_hand.count)
        jetsync_store(&self.box.held_bytes, self.in_hand.bytes)

    cdef int _fill(self, double deadline, size_t least=1) except -1:
        """Make sure that something is in hand, if there is time `least` messages or a status. The
        caller holds take_lock.

        Returns 0 when time is up, when the box has ended, or after a poke, and there is nothing. A
        deadline of 0 does not wait."""
        cdef bint looked = self.seat is None
        while True:
            if self.in_hand.count:
                return 1
            lock_leaf(&self.box.lock)
            self.box.least = least
            if self.box.chain.count and (deadline == 0 or box_has_enough(&self.box)):
                jet_chain_move(&self.in_hand, &self.box.chain)
                self.in_hand_since = self.box.last_put
                self._publish_held()
                unlock_leaf(&self.box.lock)
                return 1
            if self.box.finished or self.box.poked or deadline == 0:
                self.box.poked = False
                unlock_leaf(&self.box.lock)
                return 0
            if not looked:
                unlock_leaf(&self.box.lock)
                looked = True
                self._read(deadline)
                continue
            if not gate_wait(&self.box.gate, &self.box.lock, deadline):
                deadline = 0

    cdef int _read(self, double deadline) except -1:
        """Read the link in this thread until something came for this box, if nobody else does; not
        for long. Routes what comes for others as well. A signal handler may raise."""
        cdef Seat seat = self.seat
        cdef double until
        if not seat.take():
            return 0
        with nogil:
            until = monotonic() + SIT
            if 0 < deadline < until:
                until = deadline
            while seat.read(until) and not self._has_enough():
                pass
            seat.leave()
        PyErr_CheckSignals()
        return 0

    cdef bint _has_enough(self) noexcept nogil:
        cdef bint enough
        lock_leaf(&self.box.lock)
        enough = box_has_enough(&self.box)
        unlock_leaf(&self.box.lock)
        return enough

    cdef Msg _pop(self):
        cdef jet_record r
        jet_chain_take(&self.in_hand, &r)
        self._publish_held()
        jetsync_add(&self.used, 1)
        cdef Msg msg = self.maker.make(&r)
        msg.since = self.in_hand_since
        return msg

    def get(self, timeout=None):
        """Return the next message, or None when none came within `timeout` seconds (None: no
        limit; 0: do not wait), when the box has ended, or after `poke()`. Ctrl-C interrupts."""
        cdef double deadline = 0 if timeout is not None and timeout <= 0 else deadline_of(timeout)
        if not acquire(self.take_lock, deadline):
            return None
        try:
            if self._fill(deadline):
                # A signal that came by now is handled before anything is taken: if its handler
                # raises, the message is still there.
                PyErr_CheckSignals()
                return self._pop()
            return None
        finally:
            unlock(self.take_lock)

    def take_into(self, MsgBatch batch not None, size_t limit, timeout=0, size_t least=1):
        """Move waiting messages into `batch` until it has `limit`; wait up to `timeout` seconds
        until it has `least`, or a status comes. Returns the list of status messages met on the way
        (they go into no batch). `least` is for boxes without limits: more may have to wait in them.
        """
        cdef double deadline = 0 if timeout is not None and timeout <= 0 else deadline_of(timeout)
        cdef list statuses = []
        cdef size_t missing
        if not acquire(self.take_lock, deadline):
            return statuses
        try:
            while batch.rows < limit:
                missing = least - batch.rows if least > batch.rows else 1
                if not self._fill(deadline, missing):
                    break
                self._move(batch, limit, statuses)
                if statuses or batch.rows >= least:
                    break
            return statuses
        finally:
            self._publish_held()
            unlock(self.take_lock)

    cdef int _move(self, MsgBatch batch, size_t limit, list statuses) except -1:
        """Move what is in hand into `batch` until it has `limit`. The caller holds take_lock."""
        cdef jet_record r
        batch.since = self.in_hand_since
        if self.in_hand.count <= limit - batch.rows and not self.in_hand.statuses:
            jetsync_add(&self.used, self.in_hand.count)
            batch.adopt(&self.in_hand)
            return 0
        while batch.rows < limit and jet_chain_take(&self.in_hand, &r):
            if r.status:
                statuses.append(self.maker.make(&r))
            else:
                jetsync_add(&self.used, 1)
                batch.add(&r)
        return 0

    def new_batch(self, batch_type, outbound, Maker maker=None):
        """Return an empty batch whose messages are made by `maker`, or are like those of this box."""
        cdef MsgBatch batch = batch_type()
        batch.bind(self.maker if maker is None else maker, outbound)
        return batch

    def poke(self):
        """Make a waiting consumer return once, although nothing came."""
        lock_leaf(&self.box.lock)
        self.box.poked = True
        gate_open(&self.box.gate)
        unlock_leaf(&self.box.lock)

    def finish(self, error=None):
        """End the box: nothing more is put in, what waits can still be taken. Safe to repeat."""
        if self.error is None:
            self.error = error
        lock_leaf(&self.box.lock)
        self.box.finished = True
        gate_open(&self.box.gate)
        unlock_leaf(&self.box.lock)

    def discard(self):
        """Drop what waits; returns how many messages that were. What another thread has in hand
        at this moment is its own."""
        cdef size_t n
        cdef bint mine = acquire(self.take_lock, 0)
        lock_leaf(&self.box.lock)
        n = self.box.chain.count
        jet_chain_free(&self.box.chain)
        if mine:
            n += self.in_hand.count
            jet_chain_free(&self.in_hand)
            self._publish_held()
        unlock_leaf(&self.box.lock)
        if mine:
            unlock(self.take_lock)
        return n

    def abandon(self, error):
        """End the box in a forked child, whatever threads of the parent were doing to it: what they
        may have been half way through changing is forgotten, not freed, and no old lock is taken."""
        abandon(self)
        leaf_init(&self.box.lock)
        gate_init(&self.box.gate)
        self.take_lock = new_lock()
        jet_chain_init(&self.box.chain)
        jet_chain_init(&self.in_hand)
        self._publish_held()
        self.error = error
        self.box.finished = True

    def stop_after(self, uint64_t max_messages):
        """Finish after that many messages in all; returns False when so many came already."""
        cdef bint open_
        lock_leaf(&self.box.lock)
        self.box.max_messages = max_messages
        if self.box.received >= max_messages:
            self.box.finished = True
            gate_open(&self.box.gate)
        open_ = not self.box.finished
        unlock_leaf(&self.box.lock)
        return open_

    cdef Counts _look(self) noexcept nogil:
        cdef Counts now
        lock_leaf(&self.box.lock)
        now.pending = self.box.chain.count + jetsync_load(&self.box.held_count)
        now.pending_bytes = self.box.chain.bytes + jetsync_load(&self.box.held_bytes)
        now.received = self.box.received
        now.dropped = self.box.dropped
        now.max_messages = self.box.max_messages
        now.last_put = self.box.last_put
        now.finished = self.box.finished
        unlock_leaf(&self.box.lock)
        return now

    @property
    def sid(self):
        """The key under which the reader finds this box; 0 before it has one."""
        return self.box.sid

    @property
    def pending_messages(self):
        """Messages received and not yet consumed."""
        return self._look().pending

    @property
    def pending_bytes(self):
        """Their subjects, replies, headers and payloads, in bytes."""
        return self._look().pending_bytes

    @property
    def received(self):
        """Messages that reached this box, dropped ones included."""
        return self._look().received

    @property
    def dropped(self):
        """Messages dropped because a limit was hit."""
        return self._look().dropped

    @property
    def stops_after(self):
        """The number of messages after which it finishes; 0: it does not."""
        return self._look().max_messages

    @property
    def delivered(self):
        """Messages handed to the consumer."""
        return jetsync_count(&self.used)

    @property
    def finished(self):
        """Whether nothing more will be put in."""
        return self._look().finished

    @property
    def ended(self):
        """Whether it is finished and everything was taken."""
        cdef Counts now = self._look()
        return now.finished and now.pending == 0

    @property
    def last_put(self):
        """When the last message or status came, on the monotonic clock."""
        return self._look().last_put


cdef class MailboxIterator:
    """Iterates over a mailbox until it ends. Belongs to the thread that uses it first.

    Blocks in `__next__`; an ordinary end stops the iteration, an error of the box is raised. The
    `keeper` is held as long as the iterator lives: the subscription that the box belongs to.
    """
    cdef Mailbox mailbox
    cdef object keeper
    cdef unsigned long thread

    def __cinit__(self, Mailbox mailbox not None, keeper=None):
        self.mailbox = mailbox
        self.keeper = keeper

    def __iter__(self):
        return self

    def __next__(self):
        cdef unsigned long me = PyThread_get_thread_ident()
        if self.thread != me:
            if self.thread:
                raise ConfigError(
                    "this iterator is used by another thread; give each thread its own iterator"
                )
            self.thread = me
        while True:
            msg = self.mailbox.get(None)
            if msg is not None:
                return msg
            if self.mailbox.ended:
                if self.mailbox.error is not None:
                    raise self.mailbox.error
                raise StopIteration


def abandon(obj):
    """Never free an object: after a fork another thread of the parent may have been half way
    through changing it."""
    Py_INCREF(obj)
