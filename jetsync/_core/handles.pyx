"""What users call for every single message, compiled: bases of Connection and Subscription."""

from jetsync._core.outbound cimport put_message
from jetsync._core.outbound import encode_headers


cdef class Publishing:
    """The publishing half of a connection."""

    def __init__(self, Outbound outbound not None):
        self._outbound = outbound

    def publish(self, subject, data=b"", *, reply=None, headers=None):
        """Send a message to whoever listens now. At most once: nobody confirms it.

        Returns as soon as the message is in the outbound buffer; blocks (up to ``write_timeout``)
        only while that is full. While there is no connection up to ``reconnect_buffer_size`` bytes
        are kept. Raises ConfigError (bad subject, headers or data), MaxPayloadError,
        OutboundFullError, ConnectionClosedError. Thread-safe.
        """
        if self._refusal is not None:
            raise self._refusal()
        put_message(self._outbound, subject, data, reply,
                    encode_headers(headers) if headers else b"", True)


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
        subscription has a callback. Ctrl-C interrupts; a message is never lost by it. Thread-safe.
        """
        # What is there already needs no deadline; everything else is looked at in `_await_next`.
        if (self._callback is None and self._nc._refusal is None
                and (timeout is None or (type(timeout) in (float, int) and timeout >= 0))):
            msg = self._mailbox.get(0)
            if msg is not None:
                return msg
        return self._await_next(timeout)
