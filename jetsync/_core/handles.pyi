"""The calls that users make for every message, compiled: base classes of the public handles."""

import enum
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from typing_extensions import Unpack

from jetsync._core.futures import AsyncWindow, PubAckFuture
from jetsync._core.mailbox import Mailbox
from jetsync._core.message import Msg
from jetsync._core.outbound import Outbound
from jetsync.errors import Error
from jetsync.headers import HeaderInput
from jetsync.jetstream.publish.headers import PublishOptions

class Auto(enum.Enum):
    """The type of :data:`AUTO`."""

    AUTO = "automatic message id"

AUTO: Final = Auto.AUTO

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
        """Send a message to the subscribers of this moment. At most once: it is not confirmed.

        Returns as soon as the message is in the outbound buffer; blocks (up to ``write_timeout``)
        only while that is full, or while too much that this thread gave to ``publish_async`` has to
        leave before it. While there is no connection up to ``reconnect_buffer_size`` bytes are
        kept. Raises ConfigError (bad subject, headers or data), MaxPayloadError,
        OutboundFullError, ConnectionClosedError. Thread-safe.
        """

class AsyncPublishing:
    """The part of JetStream that stores messages without waiting for each."""

    _nc: Any
    _window: AsyncWindow | None
    def publish_async(
        self,
        subject: str,
        data: bytes | bytearray | memoryview = b"",
        *,
        headers: HeaderInput | None = None,
        timeout: float | timedelta | None = None,
        msg_id: str | Auto | None = ...,
        **options: Unpack[PublishOptions],
    ) -> PubAckFuture:
        """Send one message and return a future for the stream's confirmation.

        ``options`` are the further ones of :meth:`publish`, with the same meaning; its promises
        hold for the future: one message with an id is sent again after a lost connection or a
        refusal that may pass, is never stored twice, and its outcome is known ``timeout`` seconds
        from now at the latest. What one thread publishes is stored in that order, also after a
        lost connection, but for the cases that the guide lists (publish, order).

        Does not block until ``max_pending`` messages (of ``Connection.jetstream``) are unconfirmed;
        then it waits for room, up to ``timeout`` seconds, and raises TooManyPendingError (a
        NotStoredError and a TimeoutError). Raises ConfigError and MaxPayloadError for what cannot
        be sent, ConnectionClosedError. Thread-safe; may be called from callbacks.
        """

    # The subclass implements:
    def _publish_async(
        self,
        subject: str,
        data: bytes,
        headers: HeaderInput | None,
        timeout: float | timedelta | None,
        msg_id: str | Auto | None,
        options: PublishOptions,
    ) -> PubAckFuture: ...

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

    # The subclass implements:
    def _await_next(self, timeout: float | timedelta | None) -> Msg: ...
