"""What users call for every single message, compiled: the base of Connection."""

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
