"""A source without a server: a test says what is delivered, and sees what was said about it."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Iterator
from typing import Any

import pytest

from jetsync import Error, JetStreamMsg
from jetsync._deadline import Deadline
from jetsync.testing import make_message
from jetsync.testing.messages import MadeMessage

__all__ = ["MadeSource", "made_source"]


class MadeSource:
    """Stands for what a worker opens: the feed, and the connection."""

    is_closed = False
    is_connected = True
    stream = "TEST"
    consumer = "test"
    pending_acks = 0
    ack_wait = 30.0
    credit = 0

    def __init__(self) -> None:
        self.feed = self.connection = self.js = self._api = self.port = self
        self.events: list[str] = []
        self.flush_limits: list[float | None] = []
        self.taken = 0
        self.letters: list[dict[str, list[str]]] = []
        self.is_refusing, self.is_broken = True, False
        self.is_kept_alive = self.is_open = True
        self._coming: queue.Queue[MadeMessage] = queue.Queue()

    def deliver(self, seq: int, consumer_seq: int, num_delivered: int = 1) -> MadeMessage:
        """Deliver a message; return it, so that its outcome can be seen."""
        msg = make_message(
            seq=seq, consumer_seq=consumer_seq, num_delivered=num_delivered, timestamp_ns=1000 + seq
        )
        self._coming.put(msg)
        return msg

    def free(self, count: int) -> None:
        self.credit += count

    def observed(self, handler: Any) -> Any:
        """Return the handler: nothing observes it."""
        return handler

    def take(self, seconds: float) -> list[JetStreamMsg]:
        try:
            msg = self._coming.get(timeout=min(seconds, 0.05))
        except queue.Empty:
            return []
        self.credit -= 1
        self.taken += 1
        return [msg]

    def ack(self, msg: MadeMessage) -> None:
        msg.ack()

    def hand_back(self, msg: MadeMessage, _seconds: float) -> None:
        msg.nak()

    def send(self) -> None:
        """Nothing is kept back."""

    def interrupt(self) -> None:
        """Each take is short."""

    def stop(self) -> None:
        """It asks for nothing more."""

    @contextlib.contextmanager
    def keep_alive(self, messages: Any) -> Iterator[None]:
        self.kept_alive = messages
        try:
            yield
        finally:
            self.is_kept_alive = False

    def tell(self, kind: str, msg: JetStreamMsg, error: Error) -> None:
        self.events.append(kind)

    def flush(self, deadline: Deadline) -> None:
        """There is no server to wait for; how long it might have taken is kept."""
        self.flush_limits.append(deadline.remaining())

    @contextlib.contextmanager
    def operation(self, *_: Any, **__: Any) -> Iterator[None]:
        """Nothing observes the dead letter."""
        yield

    def comes_of_exit(self, error: BaseException) -> bool:
        """The interpreter does not end."""
        return False

    def publish(self, subject: str, data: bytes, *, headers: Any, msg_id: str) -> None:
        """Store a dead letter, if it may be."""
        if self.is_broken:
            raise RuntimeError("not an error of jetsync")
        self.letters.append(headers)
        if self.is_refusing:
            raise Error("no stream takes it")

    def close(self) -> None:
        self.is_open = False


@pytest.fixture
def made_source(monkeypatch: pytest.MonkeyPatch) -> MadeSource:
    """A source that each worker of the test opens."""
    source = MadeSource()
    monkeypatch.setattr("jetsync.worker.engine.Opened", lambda _source, _options: source)
    return source
