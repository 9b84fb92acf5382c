"""PullSubscription: the older pull API, on the pulls that every consumer uses."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Seconds
from jetsync._handles import Handle
from jetsync._numbers import check_whole
from jetsync._signatures import spells_out
from jetsync.errors import ConnectionClosedError, TimeoutError
from jetsync.jetstream.api import API
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.consumers.bound import BoundConsumer, unsubscribe_at_exit
from jetsync.jetstream.consumers.consumer import Consumer
from jetsync.jetstream.message import JetStreamMsg, MsgBatch

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync.jetstream.pull.messages import ConsumeContext, MessageStream
    from jetsync.jetstream.pull.options import MessagesOptions

__all__ = ["PullSubscription"]


class PullSubscription(Handle):
    """A subscription that fetches. Made by ``JetStream.pull_subscribe``.

    It ends with its connection; draining that deletes the consumer too, if this made it.
    Thread-safe: several threads may fetch at once. As a context manager it unsubscribes at the end.
    """

    def __init__(
        self, api: API, consumer: Consumer, *, created: bool, delete_consumer: bool | None
    ) -> None:
        self._consumer = consumer
        self._port = api.port
        self._bound = BoundConsumer(
            api, consumer.cached_info, created=created, override=delete_consumer
        )
        self._ended = False
        if self._bound.ends_with_subscription:
            # Also when this object is dropped: the consumer is deleted when the connection drains.
            self._port.attach(self._bound, sends=True, hold=True)

    def fetch(self, n: int = 1, timeout: Seconds | None = None) -> MsgBatch:
        """Return 1 to ``n`` messages: those that are there, else the first that come. Never returns
        a status.

        Blocks up to ``timeout`` seconds (default: the connection's). Raises TimeoutError when none
        came, ConsumerDeletedError when the consumer is gone, PullTerminatedError when the server
        refuses the pull, PermissionsError, ConfigError, ConnectionClosedError.
        """
        self._check()
        check_whole("n", n)
        # A subclass that observes both calls sees one of them: the user's. So does next().
        batch = Consumer.fetch(self._consumer, n, timeout=timeout, eager=True)
        if not len(batch):
            if batch.error is not None:
                raise batch.error
            raise TimeoutError(
                f"no message from {self!r} within {self._port.seconds(timeout):g} s",
                operation="fetch",
            )
        return batch

    def next(self, timeout: Seconds | None = None) -> JetStreamMsg:
        """Return one message.

        Blocks up to ``timeout`` seconds (default: the connection's). Raises TimeoutError when none
        came, ConsumerDeletedError when the consumer is gone, PullTerminatedError when the server
        refuses the pull, PermissionsError, ConfigError, ConnectionClosedError.
        """
        return PullSubscription.fetch(self, 1, timeout)[0]

    @spells_out(Consumer.messages)
    def messages(self, **options: Unpack[MessagesOptions]) -> MessageStream:
        """Return an endless iterator over the messages, with the options and errors of
        ``Consumer.messages``. Does not block. Raises ConfigError, ConnectionClosedError.

        Like :meth:`fetch` it needs no permission but to pull and to acknowledge, when the
        subscription was made with ``stream`` and ``consumer``.
        """
        self._check()
        return self._consumer.messages(**options)

    @spells_out(messages)
    def consume(
        self, callback: Callable[[JetStreamMsg], Any], **options: Unpack[MessagesOptions]
    ) -> ConsumeContext:
        """Give every message to ``callback``, one by one, with the options and errors of
        ``Consumer.consume``. Does not block. Raises ConfigError, ConnectionClosedError.
        """
        self._check()
        return self._consumer.consume(callback, **options)

    def unsubscribe(self, *, timeout: Seconds | None = None) -> None:
        """End it, and delete the consumer if this subscription made it. Safe to repeat.

        Blocks up to ``timeout`` seconds (default: the JetStream object's) for the deletion and
        raises what goes wrong there; that the consumer is gone already is not an error. Raises an
        APIError; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        self._port.check()
        self._end()
        self._bound.delete(timeout)

    def drain(self, timeout: Seconds | None = None) -> None:
        """End it, and delete the consumer if this subscription made it. No message is buffered
        between two fetches, so there is none to wait for.

        Blocks up to ``timeout`` seconds (default: the JetStream object's) for the deletion and
        raises what goes wrong there, which ``on_error`` gets too; that the consumer is gone already
        is not an error. Raises an APIError; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        self._port.check()
        self._end()
        error = self._bound.delete_and_tell(timeout)
        if error is not None:
            raise error

    def _end(self) -> None:
        self._ended = True
        self._port.detach(self._bound)
        self._consumer.close()

    def _check(self) -> None:
        self._port.check()
        if self._ended:
            raise ConnectionClosedError(f"{self!r} has ended")

    def info(self, *, timeout: Seconds | None = None) -> ConsumerInfo:
        """Ask the server about the consumer.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerNotFoundError, StreamNotFoundError or another APIError; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        return self._consumer.info(timeout=timeout)

    @property
    def cached_info(self) -> ConsumerInfo:
        """The last info of the consumer from the server. Does not block."""
        return self._consumer.cached_info

    @property
    def stream_name(self) -> str:
        """The stream the messages come from."""
        return self._consumer.stream_name

    @property
    def name(self) -> str:
        """The consumer that is pulled."""
        return self._consumer.name

    @property
    def created_consumer(self) -> bool:
        """Whether this subscription made the consumer; false when it was there already."""
        return self._bound.created

    @property
    def is_active(self) -> bool:
        """Whether it can still fetch."""
        return not self._ended and not self._port.closed

    def __enter__(self) -> PullSubscription:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if not self._port.closed:
            unsubscribe_at_exit(self.unsubscribe, kind)

    def __repr__(self) -> str:
        return f"PullSubscription({self.stream_name!r}, {self.name!r})"
