"""Mailbox: the bounded inbox between the reader thread and the consuming thread (link_queue)."""

from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint64_t

from jetsync._core.batch cimport MsgBatch
from jetsync._core.csrc cimport jet_chain_drop, jet_chain_peek, jet_record
from jetsync._core.gil cimport KEEP, follow, returned, sleep_kept
from jetsync._core.link cimport (
    LINK_FIND_BUSY, LINK_FOUND, LINK_NOTHING, LINK_SIGNAL, LINK_TIMEOUT, LINK_WOKEN, link_add,
    link_count, link_found, link_queue_absorb, link_queue_discard,
    link_queue_find, link_queue_finish, link_queue_free, link_queue_init, link_queue_missing,
    link_counts, link_queue_leave, link_queue_counts, link_queue_wake,
    link_queue_reset, link_queue_stop_after, link_queue_note_ready, link_reader_turn_take,
    link_result, link_wakeup_sleep,
)
from jetsync._core.sync cimport acquire, deadline_of, monotonic, unlock

from jetsync._core.message import Msg as _Msg
from jetsync.errors import ConfigError


cdef extern from "pythread.h" nogil:
    unsigned long PyThread_get_thread_ident()


# After this many reads without a message a taker leaves reading to the reader until one comes.
cdef int VAIN = 3


cdef class Mailbox:
    """A bounded inbox of messages. Thread-safe.

    `limit_messages` and `limit_bytes` bound what waits (0: no limit); beyond that the newest
    message is dropped and counted. Consumers on several threads take turns, in the order in which
    they came. One that `absorbs` takes a repeated heartbeat as a sign of life only: it moves
    `last_put` and nothing else.
    """

    def __cinit__(self, *, size_t limit_messages=0, size_t limit_bytes=0, msg_type=None,
                  owner=None, context=None, bint absorbs=False):
        link_queue_init(&self.queue, &POOL, limit_messages, limit_bytes)
        if absorbs:
            link_queue_absorb(&self.queue)
        self.factory = MessageFactory(_Msg if msg_type is None else msg_type, owner, context)

    def __dealloc__(self):
        link_queue_free(&self.queue)

    cdef int _fill(self, double deadline, size_t least=1, double patience=0, double since=0,
                   bint gather=False) except -1:
        """Fill `ready`; with time, until it has `least` messages or a status. The caller has the
        take turn.

        Returns 0 when it is empty and time is up, the mailbox has ended, or it was woken. A deadline of
        0 does not wait. With `patience` it also ends after so many seconds without a sign of life,
        counted from `since` or from the last one."""
        cdef bint patient = deadline != 0
        cdef bint follow = self.reader != NULL and self.vain < VAIN
        cdef bint soon = False  # another thread reads the link, and something may come in a moment
        cdef link_found found
        while True:
            if not patient:
                least = 1
            found = link_queue_find(&self.queue, least, patient, not follow, False)
            if found == LINK_FIND_BUSY:
                with nogil:
                    found = link_queue_find(&self.queue, least, patient, not follow, True)
            if found == LINK_FOUND:
                if self.queue.ready.count > self.queue.ready.statuses:
                    self.vain = 0
                return 1
            if found == LINK_NOTHING:
                return 0
            if follow:
                follow = False
                soon = not self._follow(deadline, gather)
                patient = deadline < 0 or monotonic() < deadline
            elif not self._sleep(deadline, patience, since, soon):
                patient = False

    cdef bint _follow(self, double deadline, bint gather) except -1:
        """Read the link in this thread until something came for this mailbox, not for long; False when
        another thread does. Routes what comes for others as well. A signal handler may raise."""
        cdef link_inbound *reader = self.reader
        cdef object inbound = self.inbound  # lives as long as this reads
        self.vain += 1
        if not link_reader_turn_take(&reader.turn, False):
            return False
        follow(reader, link_queue_missing, &self.queue, deadline, gather)
        PyErr_CheckSignals()
        return True

    cdef double _due(self, double deadline, double patience, double since) noexcept nogil:
        """When a wait ends: at `deadline`, or when the last sign of life is `patience` old."""
        cdef double due
        cdef link_counts now
        if patience == 0:
            return deadline
        link_queue_counts(&self.queue, True, &now)
        due = max(since, now.last_put) + patience
        return due if deadline < 0 or due < deadline else deadline

    cdef bint _sleep(self, double deadline, double patience, double since, bint soon) except -1:
        """Wait to be woken, perhaps `soon`; False when time is up. A signal handler may raise."""
        cdef link_result got = LINK_TIMEOUT
        while True:
            if soon and self.reader != NULL:
                soon = False
                got = sleep_kept(self.reader, &self.queue.gate.wakeup, deadline)
            if got == LINK_TIMEOUT:
                got = self._sleep_without_gil(deadline, patience, since)
            if got != LINK_SIGNAL:
                return got == LINK_WOKEN
            try:
                PyErr_CheckSignals()
            except BaseException:
                with nogil:
                    link_queue_leave(&self.queue)
                raise
            got = LINK_TIMEOUT

    cdef link_result _sleep_without_gil(self, double deadline, double patience,
                                        double since) except *:
        cdef link_result got
        cdef double due, later, woke, kept_before = KEEP.kept
        with nogil:
            due = self._due(deadline, patience, since)
            got = link_wakeup_sleep(&self.queue.gate.wakeup, due)
            while got == LINK_TIMEOUT:
                later = self._due(deadline, patience, since)
                if later <= due:
                    break
                due = later
                got = link_wakeup_sleep(&self.queue.gate.wakeup, due)
            if got == LINK_TIMEOUT and link_queue_leave(&self.queue):
                got = LINK_WOKEN
            woke = monotonic()
        returned(woke, kept_before)
        return got

    cdef Msg _build(self, jet_record *r):
        """Make the next ready message, `r`, which stays there: an error here loses none."""
        jet_chain_peek(&self.queue.ready, r)
        cdef Msg msg = self.factory.make(r)
        msg.since = self.queue.ready_since
        return msg

    cdef void _take(self, const jet_record *r) noexcept nogil:
        """Take the message that was made."""
        jet_chain_drop(&self.queue.ready, r)
        link_queue_note_ready(&self.queue)
        link_add(&self.queue.taken, 1)

    def get(self, timeout=None):
        """Return the next message, or None when none came within `timeout` seconds (None: no
        limit; 0: do not wait), when the mailbox has ended, or after `wake()`. Ctrl-C interrupts."""
        return self.take(0 if timeout is not None and timeout <= 0 else deadline_of(timeout))

    cdef Msg take(self, double deadline):
        """See `get`; until a point of the monotonic clock (0: do not wait, negative: no limit)."""
        cdef Msg msg
        cdef jet_record r
        if not acquire(&self.queue.take_turn, deadline):
            return None
        try:
            if self._fill(deadline):
                # A signal that came by now is handled before the message is taken: if its handler
                # raises, the message is still there.
                msg = self._build(&r)
                PyErr_CheckSignals()
                self._take(&r)
                return msg
            return None
        finally:
            unlock(&self.queue.take_turn)

    cdef bint gather(self, size_t least, double deadline) except -1:
        """Wait until `deadline`, which is soon, for `least` messages or a status; take none. Returns
        whether anything is there. A wake-up only makes it look again: its caller looks soon."""
        if not acquire(&self.queue.take_turn, deadline):
            return False
        try:
            while not self._fill(deadline, least, 0, 0, True):
                if counts_of(&self.queue).finished or monotonic() >= deadline:
                    return False
            return True
        finally:
            unlock(&self.queue.take_turn)

    def take_into(self, MsgBatch batch not None, size_t limit, timeout=0, size_t least=1,
                  double patience=0, double since=0):
        """Move waiting messages into `batch` until it has `limit`; wait up to `timeout` seconds
        until it has `least`, or a status comes. Returns the list of status messages met on the way
        (they go into no batch). `least` is for mailboxes without limits: more may have to wait in them.

        With `patience` the wait also ends after so many seconds without a sign of life, counted
        from `since` (monotonic) or from the last one.
        """
        cdef double deadline = 0 if timeout is not None and timeout <= 0 else deadline_of(timeout)
        cdef list statuses = []
        self.collect(batch, limit, deadline, least, patience, since, statuses)
        return statuses

    cdef int collect(self, MsgBatch batch, size_t limit, double deadline, size_t least,
                     double patience, double since, list statuses) except -1:
        """See `take_into`."""
        cdef size_t missing
        if not acquire(&self.queue.take_turn, deadline):
            return 0
        try:
            while batch.rows < limit:
                missing = least - batch.rows if least > batch.rows else 1
                if not self._fill(deadline, missing, patience, since):
                    break
                try:
                    self._move(batch, limit, statuses)
                except MemoryError:
                    if not statuses:  # what was moved is in the batch, the rest stays ready
                        raise
                if statuses or batch.rows >= least:
                    break
            return 0
        finally:
            link_queue_note_ready(&self.queue)
            unlock(&self.queue.take_turn)

    cdef int _move(self, MsgBatch batch, size_t limit, list statuses) except -1:
        """Move ready messages into `batch` until it has `limit`. The caller has the take turn."""
        cdef jet_record r
        batch.since = self.queue.ready_since
        if self.queue.ready.count <= limit - batch.rows and not self.queue.ready.statuses:
            link_add(&self.queue.taken, self.queue.ready.count)
            batch.adopt(&self.queue.ready)
            return 0
        while batch.rows < limit and jet_chain_peek(&self.queue.ready, &r):
            # Copied first and taken then: without memory it stays where it is.
            if r.status:
                statuses.append(self.factory.make(&r))
            else:
                batch.add(&r)
                link_add(&self.queue.taken, 1)
            jet_chain_drop(&self.queue.ready, &r)
        return 0

    def new_batch(self, batch_type, outbound, MessageFactory factory=None):
        """Return an empty batch whose messages are made by `factory`, or are like those of this mailbox."""
        cdef MsgBatch batch = batch_type()
        batch.bind(self.factory if factory is None else factory, outbound)
        return batch

    def wake(self):
        """Make a waiting consumer return once, although nothing came."""
        if not link_queue_wake(&self.queue, False):
            with nogil:
                link_queue_wake(&self.queue, True)

    def finish(self, error=None):
        """End the mailbox: nothing more is put in, what waits can still be taken. Safe to repeat."""
        if self.error is None:
            self.error = error
        with nogil:
            link_queue_finish(&self.queue)

    def discard(self):
        """Drop the messages that wait; returns their number. While another thread takes, those that
        it has moved out already stay its own."""
        cdef size_t dropped
        with nogil:
            dropped = link_queue_discard(&self.queue)
        return dropped

    def abandon(self, error):
        """End the mailbox in a forked child, whatever threads of the parent were doing to it: what they
        may have been half way through changing is forgotten, not freed, and no old lock is taken."""
        abandon(self)
        link_queue_reset(&self.queue)
        self.error = error

    def stop_after(self, uint64_t max_messages):
        """Finish after that many messages in all; returns False when so many came already."""
        cdef bint is_open
        with nogil:
            is_open = link_queue_stop_after(&self.queue, max_messages)
        return is_open

    @property
    def sid(self):
        """The key under which the reader finds this mailbox; 0 before it has one."""
        return self.queue.sid

    @property
    def pending_messages(self):
        """Messages received and not yet consumed."""
        return counts_of(&self.queue).messages

    @property
    def pending_bytes(self):
        """Their subjects, replies, headers and payloads, in bytes."""
        return counts_of(&self.queue).bytes

    @property
    def received(self):
        """Messages that reached this mailbox, dropped ones included."""
        return counts_of(&self.queue).received

    @property
    def dropped(self):
        """Messages dropped because a limit was hit."""
        return counts_of(&self.queue).dropped

    @property
    def stops_after(self):
        """The number of messages after which it finishes; 0: it does not."""
        return counts_of(&self.queue).max_messages

    @property
    def delivered(self):
        """Messages handed to the consumer."""
        return link_count(&self.queue.taken)

    @property
    def finished(self):
        """Whether nothing more will be put in."""
        return counts_of(&self.queue).finished

    @property
    def ended(self):
        """Whether it is finished and everything was taken."""
        now = counts_of(&self.queue)
        return now.finished and now.messages == 0

    @property
    def last_put(self):
        """When the last message or status came, on the monotonic clock."""
        return counts_of(&self.queue).last_put

    @property
    def last_reads(self):
        """How often something had been received on the link by then."""
        return counts_of(&self.queue).last_reads


cdef class MailboxIterator:
    """Iterates over a mailbox until it ends. Belongs to the thread that uses it first.

    Blocks in `__next__`; an ordinary end stops the iteration, an error of the mailbox is raised. The
    `owner`, the subscription that the mailbox belongs to, lives as long as the iterator.
    """
    cdef Mailbox mailbox
    cdef object owner
    cdef unsigned long thread

    def __cinit__(self, Mailbox mailbox not None, owner=None):
        self.mailbox = mailbox
        self.owner = owner

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
            msg = self.mailbox.take(-1)
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
