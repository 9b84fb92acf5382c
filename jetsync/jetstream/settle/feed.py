"""Feed: the messages of a source for workers that hold several at once and keep them alive."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from jetsync._core.delivered import ack_unsent, hand_back
from jetsync._deadline import Deadline
from jetsync.client.events import Event
from jetsync.errors import Error, TimeoutError
from jetsync.jetstream.acks.keep_alive import KeepAlive, interval_of
from jetsync.jetstream.consumers.consumer import Consumer, shared_of
from jetsync.jetstream.message import JetStreamMsg
from jetsync.jetstream.pull.messages import Credit, MessageStream

if TYPE_CHECKING:
    from jetsync.client import Connection
    from jetsync.client.port import Port
    from jetsync.jetstream.context import JetStream

__all__ = ["Feed"]


class Feed:
    """The messages of a consumer: ``limit`` of them, and then as many more as :meth:`free` allows.
    ``take`` and ``free`` are for one thread; ``stop`` for any.

    ``consumer`` is a Consumer, or has ``messages()`` and perhaps a ``consumer`` of its own. If its
    ``messages()`` give no MessageStream, they prefetch by themselves, and ``limit`` bounds only
    what ``take`` returns.
    """

    def __init__(self, consumer: Any, limit: int, **options: Any) -> None:
        self.consumer: Consumer = consumer if isinstance(consumer, Consumer) else consumer.consumer
        self._shared = shared_of(self.consumer)
        self._port: Port = self._shared.port
        self._stream = consumer.messages(
            max_messages=limit, threshold_messages=limit - 1, stop_after=limit, **options
        )
        self._credit = Credit(self._stream) if isinstance(self._stream, MessageStream) else None
        self.ack: Callable[[JetStreamMsg], object] = ack_unsent
        """Acknowledges a message. It leaves with the next pull, or with ``send``. Does not block
        but for room in the outbound buffer. Raises like ``JetStreamMsg.ack``. Any thread."""
        self.hand_back: Callable[[JetStreamMsg, float], object] = hand_back
        """Asks for redelivery of a message like its ``nak()``, and waits for room for so many
        seconds at most. Any thread."""
        self.credit: int = limit
        """How many messages may still come before :meth:`free` has to allow more."""

    @property
    def connection(self) -> Connection:
        """The connection of the consumer."""
        return self._port.connection

    @property
    def js(self) -> JetStream:
        """The JetStream of the consumer: its domain or prefix, and the timeout of its calls."""
        api = self._shared.api
        if api.domain is not None:
            return self.connection.jetstream(domain=api.domain, timeout=api.timeout)
        return self.connection.jetstream(api_prefix=api.prefix, timeout=api.timeout)

    def observed(self, handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the handler of these messages as observers of the connection see it."""
        found: Callable[[Any], Any] = self._port.observed(handler, None)
        return found

    def take(self, seconds: float) -> list[JetStreamMsg]:
        """Take the messages that came; wait up to ``seconds`` for the first. Empty: none came.

        Raises ConsumerDeletedError and others when the source is over; StopIteration never.
        """
        if self.credit <= 0:
            return []
        stream = self._stream
        if isinstance(stream, MessageStream):
            found = list(next(stream.batches(self.credit, timeout=seconds), ()))
        else:
            found = []
            with contextlib.suppress(TimeoutError):
                found = [stream.next(seconds)]
        self.credit -= len(found)
        return found

    def free(self, count: int) -> None:
        """Let ``count`` more messages come."""
        self.credit += count
        if self._credit is not None:
            self._credit.allow(count)

    def send(self) -> None:
        """Send the acknowledgements that have not left. Does not block. Any thread."""
        self._port.outbound.send_now()

    def interrupt(self) -> None:
        """Let a ``take`` that waits return, or the next one. Any thread; only with the messages of
        a Consumer."""
        if self._credit is not None:
            self._credit.interrupt()

    def stop(self) -> None:
        """Send no more pulls; messages not taken go back to the server. Does not wait."""
        self._stream.stop()

    @property
    def ack_wait(self) -> float:
        """Seconds after which the server delivers a message again that was not kept alive."""
        return 3 * interval_of(self._shared, None)

    def keep_alive(self, messages: Callable[[], Iterable[JetStreamMsg]]) -> KeepAlive:
        """Return a context manager that keeps all of ``messages()`` alive while its block lasts."""

        def keep() -> None:
            for msg in messages():
                msg.in_progress()

        return KeepAlive(keep, lambda: False, self._port, interval_of(self._shared, None))

    def tell(self, kind: str, msg: JetStreamMsg, error: Error) -> None:
        """Tell the connection's ``on_event`` about a message. Does not block."""
        about = msg.metadata
        self._port.tell(
            Event(
                kind,
                self._port.connection,
                error,
                subject=msg.subject,
                stream=about.stream,
                consumer=about.consumer,
            )
        )

    def comes_of_exit(self, error: BaseException) -> bool:
        """Whether the error only says that the interpreter ends. Does not block."""
        return self._port.comes_of_exit(error)

    def flush(self, deadline: Deadline) -> None:
        """Wait until the server has taken all acknowledgements. Raises like Connection.flush."""
        self._port.flush(deadline)
