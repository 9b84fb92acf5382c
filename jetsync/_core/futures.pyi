"""AsyncWindow: publishes with a future each. One small object per message."""

from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any, Protocol

from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from jetsync._core.sequenced import SequencedWindow
from jetsync.jetstream.publish.puback import PubAck

class _Waiter(Protocol):
    def settle(self, future: PubAckFuture) -> object: ...

class AckForm:
    """The form of confirmations: a dataclass, and the function that reads an unusual text."""

    def __init__(self, kind: type[Any], decode: Callable[[bytes], Any]) -> None: ...
    def make(self, stream: str, seq: int, duplicate: bool) -> PubAck: ...

class PubAckFuture:
    """The future outcome of a message of ``publish_async``. Thread-safe.

    It is always settled: by the stream's confirmation, by a refusal, or when the message's own time
    is over, whatever happens to the connection.
    """

    _callbacks: list[Callable[[Any], object]] | None
    _subject: str | None
    def done(self) -> bool:
        """Return whether it is known what became of the message. Does not block. Raises ForkedError
        in a forked child."""

    def running(self) -> bool:
        """Return whether it is not settled yet: a message is on its way from the start. Does not
        block; raises like :meth:`done`."""

    def cancel(self) -> bool:
        """Return False: what was sent cannot be taken back. Raises like :meth:`done`."""

    def cancelled(self) -> bool:
        """Return False; see :meth:`cancel`."""

    def to_future(self) -> Future[PubAck]:
        """Return a ``concurrent.futures.Future`` that gets the same outcome, for what asks for that
        class, such as ``asyncio.wrap_future``. Does not block.

        The thread of the callbacks completes it, so a callback must not wait for it. Raises
        ForkedError in a forked child.
        """

    def result(self, timeout: float | timedelta | None = None) -> PubAck:
        """Return the stream's confirmation. Blocks up to ``timeout`` seconds (None: until it is
        known, which takes no longer than the message's own time). Ctrl-C interrupts.

        Raises NotStoredError, PublishUnknownError (what became of the message), or a plain
        TimeoutError when nothing is known yet after ``timeout``; ForkedError in a forked child.
        """

    def exception(self, timeout: float | timedelta | None = None) -> Exception | None:
        """Return the error that :meth:`result` would raise for the message, or None when it is
        stored. Blocks, and raises TimeoutError or ForkedError, like that."""

    def add_done_callback(self, function: Callable[[PubAckFuture], object]) -> None:
        """Call ``function(future)`` when it is settled; here and now when it is already, and then
        what it raises is raised here.

        Callbacks run one after another on a thread of their own, so they may block and may publish.
        What those raise goes to the connection's ``on_error`` and harms nothing. Does not block.
        """

def settle_waiter(outcome: PubAckFuture) -> None: ...
def has_callbacks(outcome: PubAckFuture) -> bool: ...

class AsyncWindow(SequencedWindow):
    """A window whose messages have a future each, whatever thread adds them. Thread-safe."""

    auto_ids: bool
    timeout: float
    idle: bool
    def __init__(
        self,
        outbound: Outbound,
        mailbox: Mailbox,
        reply_prefix: bytes,
        id_prefix: bytes | None,
        fixed: bytes,
        capacity: int,
        capacity_bytes: int = ...,
        only_linked: bool = ...,
        ring: int = ...,
        most: int = ...,
        domain: bytes = ...,
        expected: bytes = ...,
        key: bytes = ...,
    ) -> None: ...
    def bind(self, keeper: object, form: AckForm) -> None: ...
    @property
    def keeper(self) -> Any: ...
    def publish(
        self,
        subject: str,
        data: Any,
        block: bytes,
        auto_id: bool,
        seconds: float,
        expected: bytes | None = ...,
    ) -> PubAckFuture | None: ...
    def confirm_text(self, number: int, text: bytes, seq: int, duplicate: bool) -> None: ...
    def expects(self, number: int, stream: str) -> bool: ...
    def next_deadline(self) -> float | None: ...
    def fail(self, number: int, error: Exception) -> bool: ...
    def overdue(self) -> list[int]: ...
    def take_settled(self) -> list[Any]: ...
    def wake_with(self, outcome: PubAckFuture, waiter: _Waiter) -> Any: ...
    def call_with(self, outcome: PubAckFuture, callback: Callable[[Any], object]) -> bool: ...
