# cython: nonecheck=True
"""AsyncWindow: publishes with a future each. One small object per message."""

import copy
import os

cimport cython
from cpython.buffer cimport PyBuffer_Release
from cpython.object cimport PyObject_GenericSetAttr
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from jetsync._core.csrc cimport JET_OK, bytes_of, jet_puback, jet_span, jet_status, span_of
from jetsync._core.encoding cimport data_span, raise_status, text_span
from jetsync._core.sync cimport monotonic
from jetsync._core.in_flight cimport OPEN, Entry
from jetsync._core.sequenced cimport FULL, SequencedWindow
from jetsync._core.window cimport same

from jetsync._deadline import Deadline, to_seconds
from jetsync._futures import MEETING, NO_WAITERS, Waiters, forked, to_future
from jetsync.errors import TimeoutError


cdef extern from *:
    """
    static PyObject *jetsync_alloc(PyObject *type) {
        return ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0);
    }
    """
    object jetsync_alloc(object type)


cdef enum:
    PENDING = 0
    STORED = 1
    FAILED = 2

    # Messages are handed over when they have this many bytes together, or when an answer comes.
    ENOUGH = 16 * 1024

    # A further result of `_put`, beside the encoder's statuses and FULL.
    TOO_LARGE = 2


cdef uint32_t forks = 0
"""How many forks lie between this process and the one that loaded the module."""


def _after_fork_in_child():
    global forks
    forks += 1


os.register_at_fork(after_in_child=_after_fork_in_child)


cdef class AckForm:
    """The form of confirmations: `kind`, a dataclass whose first fields are stream, seq and
    duplicate and whose others have defaults. `decode` makes one of an unusual text."""

    def __init__(self, type kind not None, decode not None):
        if not hasattr(kind, "__dataclass_fields__"):
            raise TypeError("kind must be a dataclass")
        self.kind = kind
        self.decode = decode

    cpdef object make(self, str stream, uint64_t seq, bint duplicate):
        """Make the usual confirmation."""
        if self.kind is None:  # __init__ was not called
            raise TypeError("the form of confirmations has no kind")
        # The __init__ of a frozen dataclass would take longer than everything else.
        ack = jetsync_alloc(self.kind)
        PyObject_GenericSetAttr(ack, "stream", stream)
        PyObject_GenericSetAttr(ack, "seq", seq)
        PyObject_GenericSetAttr(ack, "duplicate", duplicate)
        return ack


@cython.freelist(1024)
@cython.no_gc
@cython.auto_pickle(False)
cdef class PubAckFuture:
    """The future outcome of a message of ``publish_async``. Thread-safe.

    It is always settled: by the stream's confirmation, by a refusal, or when the message's own time
    is over, also when the connection is lost.
    """
    # The garbage collector does not track it, and no lasting cycle leads through it: callbacks are
    # dropped when it is settled, and `result` raises a copy of the error, whose traceback holds the
    # caller's frame.

    def done(self):
        """Return whether it is known what became of the message. Does not block. Raises ForkedError
        in a forked child."""
        return not self.pending()

    def running(self):
        """Return whether it is not settled yet: a message is on its way from the start. Does not
        block; raises like :meth:`done`."""
        return self.pending()

    def cancel(self):
        """Return False: what was sent cannot be taken back. Raises like :meth:`done`."""
        self.pending()
        return False

    def cancelled(self):
        """Return False; see :meth:`cancel`."""
        self.pending()
        return False

    def to_future(self):
        """Return a ``concurrent.futures.Future`` that gets the same outcome, for what asks for that
        class, such as ``asyncio.wrap_future``. Does not block.

        The thread of the callbacks completes it, so a callback must not wait for it. Raises
        ForkedError in a forked child.
        """
        if self.pending():
            self.window.flush()
        return to_future(self)

    def result(self, timeout=None):
        """Return the stream's confirmation. Blocks up to ``timeout`` seconds (None: until it is
        known, which takes no longer than the message's own time). Ctrl-C interrupts.

        Raises NotStoredError, PublishUnknownError (what became of the message), or a plain
        TimeoutError when nothing is known yet after ``timeout``; ForkedError in a forked child.
        """
        if self.pending():
            self.wait(timeout)
        if self.error is not None:
            error = copy.copy(self.error)
            error.__cause__ = self.error.__cause__
            raise error
        return self.acknowledgement()

    def exception(self, timeout=None):
        """Return the error that :meth:`result` would raise for the message, or None when it is
        stored.

        Blocks up to ``timeout`` seconds (None: until it is known, which takes no longer than the
        message's own time). Raises TimeoutError when nothing is known yet, ForkedError in a forked
        child.
        """
        if self.pending():
            self.wait(timeout)
        return self.error

    def add_done_callback(self, function):
        """Call ``function(future)`` when it is settled; here and now when it is already, and then
        what it raises is raised here.

        Callbacks run one after another on a thread of their own, so they may block and may publish.
        What those raise goes to the connection's ``on_error`` and harms nothing. Does not block.
        """
        cdef AsyncWindow window = self.window
        if not self.pending() or window is None or not window.call_with(self, function):
            function(self)

    # -- for concurrent.futures; see jetsync/_futures.py -------------------------------------------

    @property
    def _condition(self):
        return MEETING

    @property
    def _state(self):
        cdef AsyncWindow window = self.window
        if self.pending() and self._waiter is None and window is not None:
            window.flush()
            window.wake_with(self, Waiters())
        return "FINISHED" if self._waiter is None or self._waiter.finished else "PENDING"

    @property
    def _waiters(self):
        return NO_WAITERS if self._waiter is None else self._waiter

    cdef bint pending(self) except -1:
        """Whether it is not settled yet. Raises ForkedError in a forked child."""
        if self.forks != forks:
            raise forked()
        return self.state == PENDING

    cdef object acknowledgement(self):
        if self.text is not None:
            return self.form.decode(self.text)
        return self.form.make(self.stream, self.seq, self.duplicate)

    cdef int wait(self, timeout) except -1:
        seconds = None if timeout is None else to_seconds(timeout)
        deadline = Deadline(seconds)
        cdef AsyncWindow window = self.window
        if window is None:
            return 0
        window.flush()
        waiters = window.wake_with(self, Waiters())
        while self.state == PENDING and waiters is not None:
            if not waiters.wait(deadline.remaining()) and self.state == PENDING:
                raise TimeoutError(
                    "the outcome was not known "
                    + (f"within {seconds:g} s" if seconds >= 0.001 else "when the time was up")
                    + "; the future still gets it",
                    operation="publish_async",
                )
        return 0

    def __repr__(self):
        if self.state == PENDING:
            return "PubAckFuture(pending)"
        outcome = self.acknowledgement() if self.error is None else self.error
        return f"PubAckFuture({outcome!r})"


cdef class AsyncWindow(SequencedWindow):
    """A window whose messages have a future each, whatever thread adds them. Thread-safe.

    `take_settled` returns the futures with waiting threads or callbacks.
    """
    def __init__(self, *args, **kwargs):
        self.form = None
        self.outcomes = [None] * self.size
        self.settled = []
        self.stream = ""
        self.stream_bytes = b""
        self.deadlines = <double *>calloc(self.size, sizeof(double))
        if self.deadlines == NULL:
            raise MemoryError("no memory for a publish window")

    def __dealloc__(self):
        free(self.deadlines)

    def bind(self, keeper, AckForm form not None):
        """`keeper` settles the window. Confirmations are made by `form`."""
        self.keeper = keeper
        self.form = form

    def publish(self, subject, data, bytes block not None, bint auto_id, double seconds,
                bytes expected=None):
        """Add one message, and hand it over as soon as its turn comes; returns its future, or None
        when the window is full.

        `block` is a finished header block or empty; its time is over in `seconds`. Only the stream
        `expected` confirms it. Raises what cannot be sent; nothing is added then."""
        return self.add(subject, data, block, auto_id, seconds, expected)

    cdef PubAckFuture add(self, subject, data, bytes block, bint auto_id, double seconds,
                          bytes expected=None):
        cdef Py_buffer view
        cdef jet_span subject_span, payload
        cdef bytes subject_owner = text_span(subject, "subject", &subject_span)
        cdef PubAckFuture outcome = PubAckFuture.__new__(PubAckFuture)
        cdef int status
        try:
            data_span(data, &view, &payload)
            outcome.window = self
            outcome.form = self.form
            outcome.forks = forks
            outcome.expected = expected
            status = self._put(outcome, subject_span, payload, block, auto_id, seconds)
        finally:
            PyBuffer_Release(&view)
        if status == JET_OK:
            return outcome
        outcome.window = None
        if status == FULL:
            return None
        if status == TOO_LARGE:
            self._raise_too_large(len(block) + payload.len)
        raise_status(<jet_status>status, subject_span)

    cdef int _put(self, PubAckFuture outcome, jet_span subject, jet_span payload, bytes block,
                  bint auto_id, double seconds) noexcept:
        """Add a message. Returns a status of the encoder, FULL or TOO_LARGE; nothing was added
        unless it is JET_OK."""
        cdef uint32_t at = self.next_ & self.mask
        cdef int status
        if not self._has_room():
            return FULL
        status = self._chunk()
        if status == JET_OK:
            status = self.numbering.prepare(self.next_, block, span_of(NULL, 0), auto_id)
        if status != JET_OK:
            return status
        if self.numbering.header.len + payload.len > self.outbound.max_payload:
            return TOO_LARGE
        self._own()
        status = self._add(subject, payload)
        if status != JET_OK:
            return status
        self.outcomes[at] = outcome
        self.deadlines[at] = monotonic() + seconds
        self.gathered += self.entries[at].length
        # Like Nagle's algorithm of TCP: while an answer is awaited, messages are gathered.
        if self.unsent <= self.head or self.gathered >= ENOUGH:
            self.gathered = 0
            self._flush()
        return JET_OK

    cdef double _end_of(self, Entry *entry) noexcept:
        return self.deadlines[entry - self.entries]

    # -- settling --------------------------------------------------------------------------------

    cdef int _end(self, uint64_t number, PubAckFuture outcome, uint8_t state) except -1:
        """Settle a future. Without memory to wake its waiters it raises and changes nothing."""
        cdef Entry *entry
        cdef bytes subject
        if outcome._waiter is not None or outcome._callbacks is not None:
            if outcome._callbacks is not None:  # what they raise is told with the subject
                entry = self._open_entry(number)
                if entry != NULL:
                    subject = bytes_of(self._subject(entry))
                    outcome._subject = subject.decode("utf-8", "surrogateescape")
            self.settled.append(outcome)
        outcome.window = None
        outcome.state = state
        self.outcomes[number & self.mask] = None
        return 0

    cdef bint _expects(self, uint64_t number, jet_span stream) noexcept:
        cdef PubAckFuture outcome
        if self._open_entry(number) == NULL:
            return True
        outcome = <PubAckFuture>self.outcomes[number & self.mask]
        return outcome.expected is None or same(stream, outcome.expected)

    cdef int _confirmed(self, uint64_t number, jet_puback *ack, jet_span payload) except -1:
        cdef PubAckFuture outcome = <PubAckFuture>self.outcomes[number & self.mask]
        cdef str stream
        cdef bytes name
        if not same(ack.stream, self.stream_bytes):
            name = bytes_of(ack.stream)
            stream = name.decode("utf-8", "replace")
            self.stream_bytes, self.stream = name, stream
        if ack.further:  # a domain, a counter's value and the like
            outcome.text = bytes_of(payload)
        outcome.stream = self.stream
        outcome.seq = ack.seq
        outcome.duplicate = ack.duplicate
        return self._end(number, outcome, STORED)

    def expects(self, uint64_t number, str stream not None):
        """Whether an open message may be stored in this stream."""
        cdef PubAckFuture outcome = self.outcomes[number & self.mask]
        return outcome is None or outcome.expected is None or outcome.expected == stream.encode()

    def confirm_text(self, uint64_t number, bytes text not None, uint64_t seq, bint duplicate):
        """Settle a message by an acknowledgement in an unusual layout."""
        cdef PubAckFuture outcome
        if self._open_entry(number) != NULL:
            outcome = <PubAckFuture>self.outcomes[number & self.mask]
            outcome.text = text
            self._end(number, outcome, STORED)
            self._settle(number)
            self._count(seq, duplicate)
            self._advance()

    def fail(self, uint64_t number, error not None):
        """Settle a message with an error; returns False when it is settled already."""
        cdef PubAckFuture outcome
        if self._open_entry(number) == NULL:
            return False
        outcome = <PubAckFuture>self.outcomes[number & self.mask]
        outcome.error = error
        self._end(number, outcome, FAILED)
        self._settle(number)
        self._advance()
        return True

    def next_deadline(self):
        """Seconds until the time of an open message is over; None when there is none."""
        cdef uint64_t n
        cdef double first = -1
        for n in range(self.head, self.next_):
            if (self.entries[n & self.mask].state & OPEN
                    and (first < 0 or self.deadlines[n & self.mask] < first)):
                first = self.deadlines[n & self.mask]
        return None if first < 0 else max(0.0, first - monotonic())

    def overdue(self):
        """The numbers of the open messages whose time is over."""
        cdef uint64_t n
        cdef double now = monotonic()
        cdef list found = []
        for n in range(self.head, self.next_):
            if (self.entries[n & self.mask].state & OPEN
                    and self.deadlines[n & self.mask] <= now):
                found.append(n)
        return found

    def take_settled(self):
        """The futures settled since the last call that have a waiting thread or callbacks."""
        cdef list fresh = []
        cdef list taken
        taken = self.settled
        self.settled = fresh
        return taken

    def wake_with(self, PubAckFuture outcome not None, waiter):
        """Have `waiter.settle(future)` called when it is settled; returns the waiter that was there
        first, or None when it is settled already."""
        if outcome.state == PENDING and outcome._waiter is None:
            outcome._waiter = waiter
        return outcome._waiter if outcome.state == PENDING else None

    def call_with(self, PubAckFuture outcome not None, callback):
        """Add a callback; returns False when it is settled already."""
        cdef list fresh = []
        cdef bint pending
        pending = outcome.state == PENDING
        if pending:
            if outcome._callbacks is None:
                outcome._callbacks = fresh
            outcome._callbacks.append(callback)
        return pending


# Functions for the room of publishing. Users hold futures, so these are no methods of them.

def settle_waiter(PubAckFuture outcome not None):
    """Tell the threads that wait for it, if there are any, that it is settled."""
    if outcome._waiter is not None:
        outcome._waiter.settle(outcome)


def has_callbacks(PubAckFuture outcome not None):
    """Return whether callbacks were added that were not taken."""
    return outcome._callbacks is not None
