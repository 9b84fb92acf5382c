# cython: nonecheck=True
"""Deliveries: the messages of a push consumer, handed out without a Python frame for each."""

from libc.stdint cimport uint64_t

from jetsync._core.csrc cimport JET_OK, jet_chain_peek, jet_jsack_sequences, jet_record
from jetsync._core.mailbox cimport counts_of
from jetsync._core.sync cimport try_lock, unlock


cdef class Sequences:
    """The sequences of the last delivery."""

    def __init__(self, last, stream=0):
        self.last = last
        self.stream = stream

    @property
    def last(self):
        """Its consumer sequence; None before the first sign of it."""
        return self.consumer if self.known else None

    @last.setter
    def last(self, value):
        self.known = value is not None
        if self.known:
            self.consumer = value


cdef class Deliveries:
    """The fast path of a push consumer: hands out the next delivery if it is the expected one.

    The receiver in Python handles everything else (statuses, gaps, the last wanted message). It
    closes this path meanwhile, so that messages and statuses keep their order. Thread-safe.

    `sequences`: the next delivery is compared with them; None: with nothing. `ordered`: a lower
    stream sequence is left to the receiver too, and so is every message after one was dropped.
    `taken` counts what was handed out; number `stop_at` is left to the receiver in Python (0: there
    is none).
    """

    def __init__(self, Publishing nc not None, Mailbox mailbox not None):
        self.nc = nc
        self.mailbox = mailbox

    cdef Msg quick(self):
        cdef jet_record r
        cdef Msg msg
        cdef uint64_t stream_seq, consumer_seq
        cdef Mailbox box = self.mailbox
        cdef Sequences last = self.sequences
        if not try_lock(&box.queue.take_turn):
            return None
        try:
            if (not self.is_open or self.taken + 1 == self.stop_at or self.nc._refusal is not None
                    or not box._fill(0)):
                return None
            jet_chain_peek(&box.queue.ready, &r)
            if r.status:
                return None
            if last is not None and (
                    jet_jsack_sequences(r.reply, &stream_seq, &consumer_seq) != JET_OK
                    or not last.known or consumer_seq != last.consumer + 1
                    or (self.ordered and (stream_seq <= last.stream
                                          or counts_of(&box.queue).dropped))):
                return None
            # Made first and counted then: without memory it is the next one again.
            msg = box.factory.make(&r)
            msg.since = box.queue.ready_since
            box._take(&r)
            if last is not None:
                last.consumer = consumer_seq
                last.stream = stream_seq
            self.taken += 1
            return msg
        finally:
            unlock(&box.queue.take_turn)

    def take(self):
        """Return the next delivery, or None when the slow path has to handle or wait for it."""
        return self.quick()

    def deliver(self, callback, report, slow, bint acknowledges, int most):
        """Call back with up to `most` deliveries that are there. Does not wait. With `acknowledges`
        each is acknowledged after its callback. What either raises, of any kind, goes to `report`,
        with the message. `slow()` returns what the fast path leaves to it; None: there is nothing.
        """
        cdef Msg msg
        cdef int n
        for n in range(most):
            msg = self.quick()
            if msg is None:
                msg = slow()
                if msg is None:
                    return
            try:
                callback(msg)
                if acknowledges:
                    msg.ack()
            except BaseException as error:  # user code may raise anything
                report(error, msg)


cdef class DeliveryIterator:
    """Iterates over deliveries; `slow()` returns what is not handed out at once, or ends it."""
    cdef Deliveries deliveries
    cdef object slow

    def __init__(self, Deliveries deliveries not None, slow):
        self.deliveries = deliveries
        self.slow = slow

    def __iter__(self):
        return self

    def __next__(self):
        cdef Msg msg = self.deliveries.quick()
        return self.slow() if msg is None else msg
