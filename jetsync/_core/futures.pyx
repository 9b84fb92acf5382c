"""AsyncWindow: publishes that somebody has a future for. One small object per message."""

import copy
import threading

cimport cython
from cpython.buffer cimport PyBuffer_Release
from cpython.object cimport PyObject_GenericSetAttr
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

from jetsync._core.csrc cimport (
    bytes_of, jet_buf_len, jet_buf_ptr, jet_puback, jet_span, span_of,
)
from jetsync._core.encoding cimport data_span, text_span
from jetsync._core.sync cimport acquire, monotonic, unlock
from jetsync._core.window cimport CHUNK_BYTES, OPEN, SENDING, Chunk, PublishWindow

from jetsync._deadline import Deadline, to_seconds
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

    # Messages are handed over when they are so many bytes together, or when something is heard.
    ENOUGH = 16 * 1024

# A chunk takes messages of at most so many seconds: its age stands for theirs.
cdef double CHUNK_AGE = 1.0


# What a confirmation is to the user; rooms above say so, because it is theirs.
cdef type ack_type = None
cdef object decode_ack = None


def confirm_as(type kind not None, decode not None):
    """Have confirmations returned as `kind`, a dataclass whose first fields are stream, seq and
    duplicate and whose others have defaults; `decode` makes one of an unusual text."""
    global ack_type, decode_ack
    ack_type = kind
    decode_ack = decode


cpdef object make_ack(str stream, uint64_t seq, bint duplicate):
    """Make the usual confirmation."""
    # The __init__ of a frozen dataclass would take longer than everything else.
    ack = jetsync_alloc(ack_type)
    PyObject_GenericSetAttr(ack, "stream", stream)
    PyObject_GenericSetAttr(ack, "seq", seq)
    PyObject_GenericSetAttr(ack, "duplicate", duplicate)
    return ack


@cython.freelist(1024)
@cython.no_gc
@cython.auto_pickle(False)
cdef class PubAckFuture:
    """What will be known about a message of ``publish_async``. Thread-safe.

    It is always settled: by the stream's confirmation, by a refusal, or when the message's own time
    is over, whatever happens to the connection.
    """
    # The garbage collector does not see it. Nothing in here leads back to it for long: callbacks
    # end with its being settled, and what `result` raises is a copy, whose traceback knows the
    # caller's frame.

    def done(self):
        """Return whether it is known what became of the message. Does not block."""
        return self.state != PENDING

    def result(self, timeout=None):
        """Return the stream's confirmation. Blocks up to ``timeout`` seconds (None: until it is
        known, which takes no longer than the message's own time). Ctrl-C interrupts.

        Raises NotStoredError, PublishUnknownError (what became of the message), or a plain
        TimeoutError when nothing is known yet after ``timeout``; ForkedError in a forked child.
        """
        if self.state == PENDING:
            self.wait(timeout)
        if self.error is not None:
            error = copy.copy(self.error)
            error.__cause__ = self.error.__cause__
            raise error
        return self.acknowledgement()

    def exception(self, timeout=None):
        """Return the error that :meth:`result` would raise for the message, or None when it is
        stored. Blocks, and raises TimeoutError or ForkedError, like that."""
        if self.state == PENDING:
            self.wait(timeout)
        return self.error

    def add_done_callback(self, function):
        """Call ``function(future)`` when it is settled; here and now when it is already.

        Callbacks run one after another on a thread of their own, so they may block and may publish.
        What they raise goes to the connection's ``on_error`` and harms nothing. Does not block.
        """
        cdef AsyncWindow window = self.window
        if window is None or not window.call_with(self, function):
            function(self)

    cdef object acknowledgement(self):
        if self.text is not None:
            return decode_ack(self.text)
        return make_ack(self.stream, self.seq, self.duplicate)

    cdef int wait(self, timeout) except -1:
        seconds = None if timeout is None else to_seconds(timeout)
        deadline = Deadline(seconds)
        cdef AsyncWindow window = self.window
        if window is None:
            return 0
        window.keeper.check_process()
        window.flush()
        waiter = window.wake_with(self, threading.Event())
        while self.state == PENDING and waiter is not None:
            if not waiter.wait(deadline.remaining()) and self.state == PENDING:
                raise TimeoutError(
                    f"the outcome was not known within {seconds:g} s; it still will be",
                    operation="publish_async",
                )
        return 0

    def __repr__(self):
        if self.state == PENDING:
            return "PubAckFuture(pending)"
        outcome = self.acknowledgement() if self.error is None else self.error
        return f"PubAckFuture({outcome!r})"


cdef class AsyncWindow(PublishWindow):
    """A window that is filled from any thread, one message at a time. Thread-safe.

    Who waits for a future, or has callbacks on it, is told through `take_settled`.
    """
    def __init__(self, *args, **kwargs):
        self.outcomes = [None] * self.size
        self.settled = []
        self.stream = ""
        self.stream_bytes = b""
        self.deadlines = <double *>calloc(self.size, sizeof(double))
        if self.deadlines == NULL:
            raise MemoryError("no memory for a publish window")

    def __dealloc__(self):
        free(self.deadlines)

    def bind(self, keeper):
        """`keeper` settles the window; its `check_process()` raises in a forked child."""
        self.keeper = keeper

    def publish(self, subject, data, bytes block not None, bint auto_id, double seconds):
        """Add and send one message; returns its future, or None when the window is full.

        `block` is a finished header block or empty; its time is over in `seconds`. Raises what
        cannot be sent; nothing is added then."""
        return self.add(subject, data, block, auto_id, seconds)

    @property
    def crowded(self):
        """Whether less than a quarter of the window is free: who waits for room waits for so much,
        not for each message."""
        cdef uint32_t quarter = max(self.capacity // 4, <uint32_t>1)
        return (self.open_ > self.capacity - quarter
                or self.next_ - self.head > self.ring - quarter
                or self.open_bytes > self.capacity_bytes - self.capacity_bytes // 4)

    cdef PubAckFuture add(self, subject, data, bytes block, bint auto_id, double seconds):
        cdef Py_buffer view
        cdef jet_span subject_span, payload
        cdef bytes kept = text_span(subject, "subject", &subject_span)
        try:
            data_span(data, &view, &payload)
            acquire(self.guard, -1)
            try:
                if (self.open_ >= self.capacity or self.next_ - self.head >= self.ring
                        or self.open_bytes >= self.capacity_bytes):
                    return None
                return self._publish(subject_span, payload, block, auto_id, seconds)
            finally:
                unlock(self.guard)
        finally:
            PyBuffer_Release(&view)

    cdef PubAckFuture _publish(self, jet_span subject, jet_span payload, bytes block, bint auto_id,
                               double seconds):
        cdef Chunk *chunk = &self.chunks[self.chunk_next & self.mask]
        cdef uint64_t number = self.next_
        cdef uint32_t at = number & self.mask
        cdef PubAckFuture outcome
        cdef double now = monotonic()
        if self.chunk_open and (jet_buf_len(&chunk.frames) >= CHUNK_BYTES
                                or chunk.sent + CHUNK_AGE < now):
            self._flush()
            self.chunk_next += 1
            self.chunk_open = False
            self._advance()
        if not self.chunk_open:
            self._begin()
            chunk = &self.chunks[self.chunk_next & self.mask]
            chunk.sent = now
            self.chunk_open = True
            self.waiting_first = number
            self.waiting_from = 0
        self._header(block, span_of(NULL, 0), auto_id, None, -1, 0)
        outcome = PubAckFuture.__new__(PubAckFuture)
        self._add(subject, payload)
        outcome.window = self
        self.outcomes[at] = outcome
        self.deadlines[at] = now + seconds
        # As TCP does with small segments (Nagle): while an answer is awaited, more is gathered.
        if (self.open_ == self.next_ - self.waiting_first
                or jet_buf_len(&chunk.frames) - self.waiting_from >= ENOUGH):
            self._flush()
        return outcome

    cdef int _flush(self) except -1:
        """Hand over what was gathered."""
        cdef Chunk *chunk = &self.chunks[self.chunk_next & self.mask]
        cdef uint64_t n, first = self.waiting_first
        cdef size_t start = self.waiting_from
        if first == self.next_ or not self.chunk_open:
            return 0
        self.waiting_first = self.next_
        self.waiting_from = jet_buf_len(&chunk.frames)
        try:
            return self._hand_over(first, span_of(jet_buf_ptr(&chunk.frames) + start,
                                                  self.waiting_from - start), self.next_ - first)
        finally:
            for n in range(first, self.next_):
                self.entries[n & self.mask].state &= ~SENDING

    def flush(self):
        """Hand over what was gathered. Does not wait."""
        if self.waiting_first == self.next_:
            return
        acquire(self.guard, -1)
        try:
            self._flush()
        finally:
            unlock(self.guard)

    # -- settling --------------------------------------------------------------------------------

    cdef int _end(self, uint64_t number, PubAckFuture outcome, uint8_t state) except -1:
        outcome.window = None
        outcome.state = state
        self.outcomes[number & self.mask] = None
        if outcome.waiter is not None or outcome.callbacks is not None:
            self.settled.append(outcome)
        return 0

    cdef int _confirmed(self, uint64_t number, jet_puback *ack, jet_span payload) except -1:
        cdef PubAckFuture outcome = <PubAckFuture>self.outcomes[number & self.mask]
        self._count(ack.seq, ack.duplicate)
        if (ack.stream.len != <size_t>len(self.stream_bytes)
                or memcmp(ack.stream.ptr, <const char *>self.stream_bytes, ack.stream.len)):
            self.stream_bytes = bytes_of(ack.stream)
            self.stream = self.stream_bytes.decode("utf-8", "replace")
        outcome.stream = self.stream
        outcome.seq = ack.seq
        outcome.duplicate = ack.duplicate
        if ack.further:  # a domain, a counter's value and the like
            outcome.text = bytes_of(payload)
        return self._end(number, outcome, STORED)

    def confirm_text(self, uint64_t number, bytes text not None, uint64_t seq, bint duplicate):
        """Settle a message by an acknowledgement in an unusual layout."""
        cdef PubAckFuture outcome
        acquire(self.guard, -1)
        try:
            if self._settle(number):
                self._count(seq, duplicate)
                outcome = self.outcomes[number & self.mask]
                outcome.text = text
                self._end(number, outcome, STORED)
                self._advance()
        finally:
            unlock(self.guard)

    def fail(self, uint64_t number, error not None):
        """Settle a message with an error; returns False when it is settled already."""
        cdef PubAckFuture outcome
        acquire(self.guard, -1)
        try:
            if not self._settle(number):
                return False
            outcome = self.outcomes[number & self.mask]
            outcome.error = error
            self._end(number, outcome, FAILED)
            self._advance()
            return True
        finally:
            unlock(self.guard)

    def overdue(self):
        """The numbers of the open messages whose time is over."""
        cdef uint64_t n
        cdef double now = monotonic()
        return [n for n in range(self.head, self.next_)
                if self.entries[n & self.mask].state & OPEN
                and self.deadlines[n & self.mask] <= now]

    def take_settled(self):
        """The futures settled since the last call that somebody waits for or has callbacks on."""
        cdef list taken
        acquire(self.guard, -1)
        taken = self.settled
        self.settled = []
        unlock(self.guard)
        return taken

    def wake_with(self, PubAckFuture outcome not None, waiter):
        """Have `waiter.set()` called when it is settled; returns the waiter that was there first,
        or None when it is settled already."""
        acquire(self.guard, -1)
        try:
            if outcome.state != PENDING:
                return None
            if outcome.waiter is None:
                outcome.waiter = waiter
            return outcome.waiter
        finally:
            unlock(self.guard)

    def call_with(self, PubAckFuture outcome not None, callback):
        """Add a callback; returns False when it is settled already."""
        acquire(self.guard, -1)
        try:
            if outcome.state != PENDING:
                return False
            if outcome.callbacks is None:
                outcome.callbacks = []
            outcome.callbacks.append(callback)
            return True
        finally:
            unlock(self.guard)

