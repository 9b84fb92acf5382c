# cython: nonecheck=True
"""The calls that users make for every message, compiled: base classes of the public handles."""

import enum
from time import sleep

cimport cython

from jetsync._core.futures cimport AsyncWindow, PubAckFuture
from jetsync._core.outbound cimport put_message
from jetsync._core.sequenced cimport SequencedWindow, window_ahead
from jetsync._core.encoding import encode_headers
from jetsync._core.sync cimport monotonic


cdef double CHECK_EVERY = 0.005  # seconds, where a publish has to wait behind others


class Auto(enum.Enum):
    """The type of :data:`AUTO`."""

    AUTO = "automatic message id"


# ``msg_id=AUTO``: give the message an id, so that a retry is never stored twice.
AUTO = Auto.AUTO
cdef object auto = AUTO


cdef class Publishing:
    """The publishing half of a connection."""

    def __init__(self, Outbound outbound not None):
        self._outbound = outbound

    def publish(self, subject, data=b"", *, reply=None, headers=None):
        """Send a message to the subscribers of this moment. At most once: it is not confirmed.

        Returns as soon as the message is in the outbound buffer; blocks (up to ``write_timeout``)
        only while that is full, or while too much that this thread gave to ``publish_async`` has to
        leave before it. While there is no connection up to ``reconnect_buffer_size`` bytes are
        kept. Raises ConfigError (bad subject, headers or data), MaxPayloadError,
        OutboundFullError, ConnectionClosedError. Thread-safe.
        """
        if self._refusal is not None:
            raise self._refusal()
        cdef bytes block = encode_headers(headers) if headers else b""
        if self._outbound.windows and self._put_behind(subject, data, reply, block):
            return
        put_message(self._outbound, subject, data, reply, block, True, -1, 0)

    cdef bint _put_behind(self, subject, data, reply, bytes block) except -1:
        """Put a message behind those of publish_async that it must not overtake; waits for room
        among them as for room in the outbound buffer. Returns False where it overtakes none."""
        cdef double began = monotonic(), waited
        cdef SequencedWindow ahead = window_ahead(self._outbound)
        while ahead is not None and not ahead.add_plain(subject, data, reply, block):
            waited = monotonic() - began
            if waited >= self._outbound.write_timeout or not self._outbound.link_now():
                raise ahead.too_much(waited)
            sleep(CHECK_EVERY)
            if self._refusal is not None:
                raise self._refusal()
            ahead = window_ahead(self._outbound)
        return ahead is not None


@cython.auto_pickle(False)
cdef class AsyncPublishing:
    """The part of JetStream that stores messages without waiting for each."""

    def publish_async(self, subject, data=b"", *, headers=None, timeout=None, msg_id=AUTO,
                      **options):
        """Send one message and return a future for the stream's confirmation.

        ``options`` are the further ones of :meth:`publish`, with the same meaning; its promises
        hold for the future: one message with an id is sent again after a lost connection or a
        refusal that may pass, is never stored twice, and its outcome is known ``timeout`` seconds
        (default: this object's) from now at the latest. What one thread publishes is stored in that order, also after a
        lost connection, but for the cases that the guide lists (publish, order).

        Does not block until ``max_pending`` messages (of ``Connection.jetstream``) are unconfirmed;
        then it waits for room, up to ``timeout`` seconds, and raises TooManyPendingError (a
        NotStoredError and a TimeoutError). Raises ConfigError and MaxPayloadError for what cannot
        be sent, ConnectionClosedError. Thread-safe; may be called from callbacks.
        """
        cdef AsyncWindow window = self._window
        cdef PubAckFuture future
        if (window is None or window.ended or self._nc._refusal is not None or options
                or headers is not None or timeout is not None or msg_id is not auto):
            return self._publish_async(subject, data, headers, timeout, msg_id, options)
        future = window.add(subject, data, b"", window.auto_ids, window.timeout)
        if future is None:  # it is full
            return self._publish_async(subject, data, None, None, auto, options)
        if window.idle or window.ended:
            window.keeper.wake()
        return future

    # -- the subclass implements -----------------------------------------------------------------

    def _publish_async(self, subject, data, headers, timeout, msg_id, options):
        """`publish_async` with options, and when the window is full or has ended."""
        raise NotImplementedError


cdef class Receiving:
    """The receiving half of a subscription."""

    def __init__(self, Publishing nc not None, Mailbox mailbox not None, callback):
        self._nc = nc
        self._mailbox = mailbox
        self._callback = callback

    def next(self, timeout=None):
        """Return the next message. Blocks up to ``timeout`` seconds (default: the connection's).

        Raises TimeoutError when none came, ConnectionClosedError when the connection or the
        subscription has ended, PermissionsError when the server refused it, ConfigError when the
        subscription has a callback. Thread-safe.

        Ctrl-C interrupts. A signal handler that raises while this waits, or makes the message,
        leaves the message for the next call. Only in the last instructions, between the end of
        this function and the assignment of what it returns, the message is lost with the exception,
        as for any Python function; a ``for`` loop over the subscription has no such moment.
        """
        # A message that is there needs no deadline; `_await_next` handles all other cases.
        if (self._callback is None and self._nc._refusal is None
                and (timeout is None or (type(timeout) in (float, int) and timeout >= 0))):
            msg = self._mailbox.take(0)
            if msg is not None:
                return msg
        return self._await_next(timeout)

    # -- the subclass implements -----------------------------------------------------------------

    def _await_next(self, timeout):
        """`next` when no message is there, or none may be taken."""
        raise NotImplementedError
