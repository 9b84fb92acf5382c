"""What users call for every single message, compiled: the base of Connection."""

from collections.abc import Callable

from jetsync._core.outbound import Outbound
from jetsync.errors import Error
from jetsync.headers import HeaderInput

class Publishing:
    """The publishing half of a connection."""

    _refusal: Callable[[], Error] | None
    def __init__(self, outbound: Outbound) -> None: ...
    @property
    def _outbound(self) -> Outbound: ...
    def publish(
        self,
        subject: str,
        data: bytes | bytearray | memoryview = b"",
        *,
        reply: str | None = None,
        headers: HeaderInput | None = None,
    ) -> None:
        """Send a message to whoever listens now. At most once: nobody confirms it.

        Returns as soon as the message is in the outbound buffer; blocks (up to ``write_timeout``)
        only while that is full. While there is no connection up to ``reconnect_buffer_size`` bytes
        are kept. Raises ConfigError (bad subject, headers or data), MaxPayloadError,
        OutboundFullError, ConnectionClosedError. Thread-safe.
        """
