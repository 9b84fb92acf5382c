"""collect: all messages of a subject, for a test to check."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from jetsync._counted import counted
from jetsync._locks import lock
from jetsync.testing.waiting import wait_until

if TYPE_CHECKING:
    from jetsync import Connection, Msg

__all__ = ["Collected", "collect"]


class Collected:
    """The messages of a subject since ``collect``; a context manager unsubscribes. Thread-safe."""

    def __init__(self, nc: Connection, subject: str) -> None:
        self._lock = lock("testing/collecting.py _lock")
        self._messages: list[Msg] = []
        self._subscription = nc.subscribe(subject, callback=self._take)
        nc.flush()  # from here on no message is missed

    def _take(self, msg: Msg) -> None:
        with self._lock:
            self._messages.append(msg)

    @property
    def messages(self) -> list[Msg]:
        """The messages, in the order in which they came."""
        with self._lock:
            return list(self._messages)

    @property
    def subjects(self) -> list[str]:
        """Their subjects."""
        return [msg.subject for msg in self.messages]

    @property
    def data(self) -> list[bytes]:
        """Their payloads."""
        return [msg.data for msg in self.messages]

    def wait_for(self, n: int, timeout: float = 5.0) -> list[Msg]:
        """Wait until there are ``n`` and return all. Raises AssertionError after ``timeout``
        seconds."""
        try:
            wait_until(lambda: len(self) >= n, timeout)
        except AssertionError:
            raise AssertionError(
                f"{counted(len(self), 'message')} came within {timeout:g} s, not {n}: "
                f"{self.subjects}"
            ) from None
        return self.messages

    def close(self) -> None:
        """Unsubscribe; what came stays."""
        self._subscription.unsubscribe()

    def __len__(self) -> int:
        return len(self.messages)

    def __enter__(self) -> Collected:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()


def collect(nc: Connection, subject: str) -> Collected:
    """Subscribe, and return what collects the messages from now on. Blocks for a round trip.

    Raises ConfigError for a subject that is none, TimeoutError, ConnectionClosedError.
    """
    return Collected(nc, subject)
