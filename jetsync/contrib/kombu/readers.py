"""Readers: the pulls of a channel, so many that what comes fits into its prefetch count.

A pull is a ``Consumer.consume`` of a certain number of messages; its thread puts each of them into
the reader's buffer and wakes the thread that waits in ``drain_events``, which does all the rest.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable

from jetsync import (
    ConsumeContext,
    Consumer,
    ConsumerDeletedError,
    ConsumerNotFoundError,
    Error,
    JetStreamMsg,
    StreamNotFoundError,
)

__all__ = ["GONE", "Reader", "Received"]

GONE = (ConsumerDeletedError, ConsumerNotFoundError, StreamNotFoundError)
"""Errors that say that a consumer has to be made again."""

_STOP = 1.0
"""Seconds that the thread of a pull has to end; it does nothing but append to a buffer."""


class Received:
    """A message that this process has and has not settled: it is kept alive until then."""

    __slots__ = ("_keep", "msg", "queue")

    def __init__(self, msg: JetStreamMsg, queue: str) -> None:
        self.msg: JetStreamMsg = msg
        self.queue: str = queue
        self._keep = msg.keep_alive()
        self._keep.__enter__()

    def ack(self) -> None:
        """The message is done. Does not block."""
        self._keep.__exit__(None, None, None)
        self.msg.ack()

    def nak(self) -> None:
        """Hand the message back; it is delivered again at once. Does not block."""
        self._keep.__exit__(None, None, None)
        self.msg.nak()

    def term(self, reason: str) -> None:
        """Drop the message for good. Does not block."""
        self._keep.__exit__(None, None, None)
        self.msg.term(reason)


class _Pull:
    """One pull of so many messages."""

    def __init__(self, reader: Reader, size: int) -> None:
        self._reader = reader
        self._left = size
        self.context: ConsumeContext = reader.consumer.consume(
            self._take, max_messages=size, stop_after=size
        )

    def _take(self, msg: JetStreamMsg) -> None:
        self._left -= 1
        self._reader.take(msg)

    @property
    def left(self) -> int:
        """How many messages may still come."""
        return self._left if self.context.is_active else 0


class Reader:
    """The pulls of one channel on one queue at one level, and a buffer for what they bring."""

    def __init__(
        self, queue: str, level: int, consumer: Consumer, wake: Callable[[], object]
    ) -> None:
        self.queue = queue
        self.level = level
        self.consumer = consumer
        self.buffer: collections.deque[Received] = collections.deque()
        self._wake = wake
        self._pulls: list[_Pull] = []
        self.is_gone: bool = False
        """Whether ``take_now`` has met no consumer."""

    def take(self, msg: JetStreamMsg) -> None:
        """A message has come. Called by the thread of a pull."""
        self.buffer.append(Received(msg, self.queue))
        self._wake()

    def take_now(self, count: int) -> int:
        """Take at most so many messages that are there; return how many came. Blocks."""
        came = 0
        try:
            for msg in self.consumer.fetch_no_wait(count):
                self.buffer.append(Received(msg, self.queue))
                came += 1
        except GONE:
            self.is_gone = True
        return came

    def ask(self, count: int) -> None:
        """Wait for so many messages, besides those that are waited for. Does not block."""
        self._pulls.append(_Pull(self, count))

    @property
    def open(self) -> int:
        """How many messages are waited for."""
        return sum(pull.left for pull in self._pulls)

    def check(self) -> Exception | None:
        """Forget the pulls that have ended; return why one of them failed."""
        error: Exception | None = None
        for pull in [pull for pull in self._pulls if not pull.context.is_active]:
            self._pulls.remove(pull)
            error = pull.context.error or error
        return error

    def stop_waiting(self) -> None:
        """Wait for nothing more; what is in the buffer stays. Blocks shortly."""
        for pull in self._pulls:
            pull.context.stop()
        for pull in self._pulls:
            pull.context.wait(_STOP)
        self._pulls.clear()

    def close(self) -> None:
        """Wait for nothing more and hand back what is in the buffer, in its order."""
        self.stop_waiting()
        while self.buffer:
            with contextlib.suppress(Error):  # without a link they come back after ack_wait
                self.buffer.popleft().nak()
