"""Delivered: a message that a consumer delivered, with the acknowledgements that do not wait."""

cimport cython

from jetsync._core.csrc cimport span_of, span_of_bytes
from jetsync._core.handles cimport Publishing
from jetsync._core.message cimport ACKED, DONE, Msg
from jetsync._core.sync cimport deadline_of, monotonic

from jetsync.errors import ConfigError, NotJetStreamMessageError


# Seconds. An acknowledgement within this time of the receipt cannot be late, and is not checked.
cdef enum:
    LONG = 1


@cython.no_gc
cdef class Delivered(Msg):
    """The part of a consumer's message that is used for every single one: an acknowledgement costs
    no Python frame. The subclass in jetstream/ adds the rest."""

    def ack(self):
        """Acknowledge the message: its consumer does not deliver it again. Does not wait for the
        server.

        Raises ConnectionClosedError, and OutboundFullError when there is no room for it.
        """
        self.settle(b"+ACK", DONE | ACKED, True)

    def in_progress(self):
        """Restart the consumer's ``ack_wait`` for this message. Does not wait for the server.

        Raises ConnectionClosedError, and OutboundFullError when there is no room for it.
        """
        if not self.is_settled():
            self.publish_ack(b"+WPI", False)
            if self.ack_states is None:
                self.since = monotonic()
            else:
                self.ack_states.since = monotonic()

    @property
    def is_acked(self):
        """Whether a terminal acknowledgement (ack, nak, term) was sent for the delivery."""
        return bool(self.ack_state() & DONE)

    cdef uint8_t ack_state(self) noexcept:
        return self.flags if self.ack_states is None else self.ack_states.flags[self.row]

    cdef void set_ack_state(self, uint8_t flags) noexcept:
        if self.ack_states is None:
            self.flags = flags
        else:
            self.ack_states.flags[self.row] = flags

    cdef double age(self) noexcept:
        """Seconds since it was received, or kept alive; 0 when that is not known."""
        cdef double since = self.since if self.ack_states is None else self.ack_states.since
        return monotonic() - since if since > 0 else 0.0

    cdef bint is_settled(self) except -1:
        """Whether there is nothing more to acknowledge."""
        return self.ack_state() & DONE or (self._context is not None and self._context.ack_none)

    cdef int settle(self, bytes payload, uint8_t flags, bint resend, bint wake=True,
                    double deadline=-1) except -1:
        if self.is_settled():
            return 0
        self.publish_ack(payload, resend, wake, deadline)
        self.set_ack_state(flags)
        if flags & ACKED and self.age() > LONG:
            self._late()
        return 0

    cdef int publish_ack(self, bytes payload, bint resend, bint wake=True,
                         double deadline=-1) except -1:
        """Publish `payload` to the reply subject exactly as it came. With `resend` it is sent again
        after a lost link, unless it is known to have arrived. With `wake=False` the caller has to
        see to it that it is sent. Waits for room until `deadline` (monotonic; negative: none), at
        most for the `write_timeout` of the buffer."""
        if not self.reply_bytes:
            raise NotJetStreamMessageError("the message has no reply subject to acknowledge to")
        if self._owner is None:
            raise ConfigError("the message is not bound to a connection")
        cdef Publishing nc = self._owner
        if nc._refusal is not None:
            raise nc._refusal()
        return nc._outbound.reply_spans(span_of_bytes(self.reply_bytes), span_of(NULL, 0),
                                         span_of_bytes(payload), resend, deadline, 0, wake)

    # -- for the subclass ------------------------------------------------------------------------

    @property
    def _flags(self):
        """The acknowledgement state: DONE, ACKED, CONFIRMED."""
        return self.ack_state()

    @_flags.setter
    def _flags(self, uint8_t flags):
        self.set_ack_state(flags)

    def _age(self):
        return self.age()

    def _settle(self, bytes payload not None, uint8_t flags, bint resend):
        """Send a terminal acknowledgement, unless one was sent before."""
        self.settle(payload, flags, resend)

    # -- the subclass implements -----------------------------------------------------------------

    def _late(self):
        """The message is acknowledged long after it was received: report it if that was too late."""
        raise NotImplementedError


def ack_unsent(Delivered msg not None):
    """Acknowledge a message. It leaves with what is sent next: the caller sees to it that this is
    soon (`send_now` of Outbound). Raises like `ack`."""
    msg.settle(b"+ACK", DONE | ACKED, True, False)


def hand_back(Delivered msg not None, double seconds):
    """Ask for redelivery, and wait for room in the outbound buffer for `seconds` at most. Raises
    like `nak`."""
    msg.settle(b"-NAK", DONE, False, True, deadline_of(seconds))


def is_settled(Delivered msg not None):
    """Return whether there is nothing more to acknowledge."""
    return msg.is_settled()


def publish_ack(Delivered msg not None, bytes payload not None, bint resend=False):
    """Publish `payload` to the reply subject of a message exactly as it came. With `resend` it is
    sent again after a lost link, unless it is known to have arrived."""
    msg.publish_ack(payload, resend)
