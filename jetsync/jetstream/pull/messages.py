"""Continuous consuming of a plain consumer: MessageStream."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from jetsync.errors import ConfigError, PullTerminatedError
from jetsync.jetstream.config.consumer import AckPolicy
from jetsync.jetstream.pull.consume import ConsumeContext
from jetsync.jetstream.pull.inbox import PullInbox
from jetsync.jetstream.pull.options import BufferLimits, Window, check_count
from jetsync.jetstream.pull.priority import longest_pull, new_pin
from jetsync.jetstream.pull.source import PlainSource
from jetsync.jetstream.pull.stream import PullStream

if TYPE_CHECKING:
    from jetsync.jetstream.pull.source import PulledConsumer

__all__ = ["ConsumeContext", "Credit", "MessageStream"]


def _most(consumer: PulledConsumer) -> int:
    """How many messages the server delivers before an acknowledgement; 0: no limit."""
    config = consumer.cached_info.config
    if config is None or config.ack_policy == AckPolicy.NONE:
        return 0
    return max(0, config.max_ack_pending or 0)


class MessageStream(PullStream):
    """An endless iterator over the messages of a consumer. Made by ``Consumer.messages``.

    For one thread at a time (misuse raises ConfigError); :meth:`stop` and :meth:`drain` may be
    called by any. A pull never asks for more than fits into the buffer. As a context manager it
    stops at the end; buffered messages are handed back to the server.
    """

    def __init__(
        self,
        consumer: PulledConsumer,
        *,
        limits: BufferLimits,
        group: dict[str, object],
        on_missed_heartbeat: Literal["warn", "stop"],
        on_warning: Callable[[Exception], Any] | None,
        stop_after: int | None,
        on_pinned: Callable[[str], Any] | None = None,
        on_unpinned: Callable[[str], Any] | None = None,
    ) -> None:
        check_count("stop_after", stop_after)
        if on_missed_heartbeat not in ("warn", "stop"):
            raise ConfigError("on_missed_heartbeat must be 'warn' or 'stop'")
        self._is_strict = on_missed_heartbeat == "stop"
        # The length of a pull: a pinned client has to pull more often than others.
        expires = longest_pull(consumer, limits.expires)
        inbox = PullInbox(consumer)
        super().__init__(
            consumer.port,
            PlainSource(inbox),
            Window(limits, _most(consumer)),
            expires=expires,
            heartbeat=min(limits.heartbeat, expires / 2),
            group=group,
            stop_after=stop_after,
            on_warning=on_warning,
        )
        self._inbox = inbox
        inbox.pin = new_pin(
            consumer, group.get("group"), self._guard(on_pinned), self._guard(on_unpinned)
        )
        inbox.stream = weakref.ref(self)

    def _allow(self, count: int) -> None:
        self._left = (self._left or 0) + count
        self._is_settled = False
        self._in_turn(self._pull, None)

    def _pull(self, _: None) -> None:
        self._refill()

    def _interrupt(self) -> None:
        self._is_interrupted = True
        self._wake()

    def _on_silence(self, inbox: PullInbox) -> None:
        if time.monotonic() - inbox.mailbox.last_put < 2 * self._heartbeat:
            return  # a pull with a quick heartbeat: it is sent again, without a warning yet
        problem = PullTerminatedError(
            f"{inbox.consumer!r}: no heartbeat for {2 * self._heartbeat:g} s; pulling again"
        )
        if self._is_strict:
            self._error = problem
        else:
            self._warn(problem)

    def _close(self) -> None:
        """Close the inbox, once, and hand back the remaining messages. The caller holds the
        turn."""
        is_open, self._is_open = self._is_open, False
        inbox = self._inbox
        if is_open and inbox is not None:
            inbox.close(self._rest())

    def __del__(self) -> None:
        # Dropped, for example by `break` out of a for loop: buffered messages go back to the server
        # at once. On another thread, because this one may hold any lock at this moment.
        inbox = getattr(self, "_inbox", None)
        if inbox is not None and self._is_open and not self._port.closed:
            self._is_open = False
            rest = self._rest()
            self._port.later(0, lambda: inbox.close(rest))


class Credit:
    """The calls of a worker on a MessageStream that users of a stream do not see.

    The stream was made with ``stop_after``: so many messages may come before more are allowed.
    """

    def __init__(self, stream: MessageStream) -> None:
        self._stream = stream

    def allow(self, count: int) -> None:
        """Allow ``count`` more messages, and pull if that is due. Does not block. For the thread
        that takes, as long as the iteration has not ended."""
        self._stream._allow(count)

    def interrupt(self) -> None:
        """Let the wait of ``batches`` that goes on return an empty batch, or else the next one. An
        iteration over messages would end. Any thread; does not block."""
        self._stream._interrupt()
