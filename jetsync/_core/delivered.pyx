"""Delivered: a message that a consumer delivered, and what can be said about it without waiting."""

cimport cython

from jetsync._core.csrc cimport span_of, span_of_bytes
from jetsync._core.handles cimport Publishing
from jetsync._core.message cimport ACKED, DONE, Msg
from jetsync._core.sync cimport monotonic

from jetsync.errors import ConfigError, NotJetStreamMessageError


# Seconds: a message that the user had for less than this did not keep its consumer waiting.
cdef enum:
    LONG = 1


@cython.no_gc
cdef class Delivered(Msg):
    """The part of a consumer's message that is used for every single one: an acknowledgement costs
    no Python frame. An upper room adds the rest, and `_late`, which is told that a message was
    acknowledged after it had been held for long."""

    def ack(self):
        """Tell the consumer that the message is dealt with. Does not wait for the server.

        Raises ConnectionClosedError, and OutboundFullError when there is no room for it.
        """
        self.settle(b"+ACK", DONE | ACKED, True)

    def in_progress(self):
        """Restart the consumer's ``ack_wait`` for this message. Does not wait for the server."""
        if not self.is_settled():
            self.answer(b"+WPI", False)
            if self.marks is None:
                self.since = monotonic()
            else:
                self.marks.since = monotonic()

    @property
    def is_acked(self):
        """Whether a terminal acknowledgement (ack, nak, term) was sent for the delivery."""
        return bool(self.said() & DONE)

    cdef uint8_t said(self) noexcept:
        return self.flags if self.marks is None else self.marks.flags[self.row]

    cdef void say(self, uint8_t flags) noexcept:
        if self.marks is None:
            self.flags = flags
        else:
            self.marks.flags[self.row] = flags

    cdef double held(self) noexcept:
        """Seconds since it was received, or kept alive; 0 when that is not known."""
        cdef double since = self.since if self.marks is None else self.marks.since
        return monotonic() - since if since > 0 else 0.0

    cdef bint is_settled(self) except -1:
        """Whether there is nothing more to acknowledge."""
        return self.said() & DONE or (self._context is not None and self._context._ack_none)

    cdef int settle(self, bytes payload, uint8_t flags, bint keep) except -1:
        if self.is_settled():
            return 0
        self.answer(payload, keep)
        self.say(flags)
        if flags & ACKED and self.held() > LONG:
            self._late()
        return 0

    cdef int answer(self, bytes payload, bint keep) except -1:
        """Publish `payload` to the reply subject exactly as it came. With `keep` it is sent again
        after a lost link, unless it is known to have arrived."""
        if not self.reply_bytes:
            raise NotJetStreamMessageError("the message has no reply subject to answer to")
        if self._owner is None:
            raise ConfigError("the message is not bound to a connection")
        cdef Publishing nc = self._owner
        if nc._refusal is not None:
            raise nc._refusal()
        return nc._outbound.answer_spans(span_of_bytes(self.reply_bytes), span_of(NULL, 0),
                                         span_of_bytes(payload), keep)

    # For upper rooms.

    @property
    def _flags(self):
        """What was said about the message: DONE, ACKED, CONFIRMED."""
        return self.said()

    @_flags.setter
    def _flags(self, uint8_t flags):
        self.say(flags)

    def _held(self):
        return self.held()

    def _is_settled(self):
        return self.is_settled()

    def _settle(self, bytes payload not None, uint8_t flags, bint keep):
        """Say something terminal, unless that was done before."""
        self.settle(payload, flags, keep)

    def _answer(self, bytes payload not None, bint keep=False):
        self.answer(payload, keep)
