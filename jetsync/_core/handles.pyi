"""What users call for every single message, compiled: bases of Connection and Subscription."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from jetsync._core.mailbox import Mailbox
from jetsync._core.message import Msg
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

class Receiving:
    """The receiving half of a subscription."""

    _mailbox: Mailbox
    def __init__(
        self, nc: Publishing, mailbox: Mailbox, callback: Callable[[Any], Any] | None
    ) -> None: ...
    @property
    def _nc(self) -> Any: ...
    @property
    def _callback(self) -> Callable[[Any], Any] | None: ...
    def next(self, timeout: float | timedelta | None = None) -> Msg:
        """Return the next message. Blocks up to ``timeout`` seconds (default: the connection's).

        Raises TimeoutError when none came, ConnectionClosedError when the connection or the
        subscription has ended, PermissionsError when the server refused it, ConfigError when the
        subscription has a callback. Ctrl-C interrupts; a message is never lost by it. Thread-safe.
        """
