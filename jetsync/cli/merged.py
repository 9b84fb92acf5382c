"""Several subscriptions as one source of messages, for ``jetsync sub`` with several subjects."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from jetsync._threads import start_thread
from jetsync.errors import TimeoutError

__all__ = ["Merged"]

_ROOM = 1024
"""Messages that wait to be taken: the others wait in their subscription, under its limits."""


class Merged:
    """The messages of several subscriptions in the order in which they come.

    Each subscription has a thread that takes its messages. Used by one thread. A context manager:
    leaving it ends the subscriptions and waits for the threads.
    """

    def __init__(self, subscriptions: Sequence[Any]) -> None:
        self._subscriptions = subscriptions
        # A thread that finds no room when this is left gets some, with a place for each of them.
        self._taken: queue.Queue[Any] = queue.Queue(max(_ROOM, len(subscriptions)))
        self._ended = False
        self._threads = [
            start_thread("sub", lambda one=one: self._take(one))  # type: ignore[misc]
            for one in subscriptions
        ]

    def _take(self, subscription: Any) -> None:
        try:
            for msg in subscription:
                if self._ended:
                    return
                self._taken.put(msg)
        except BaseException as error:  # noqa: BLE001 - raised where messages are taken
            self._taken.put(error)

    def next(self, timeout: float | None = None) -> Any:
        """Return the next message. Blocks up to ``timeout`` seconds, None: for ever.

        Raises TimeoutError, or what ended one of the subscriptions.
        """
        try:
            found = self._taken.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"no message within {timeout:g} s", operation="next") from None
        if isinstance(found, BaseException):
            raise found
        return found

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield self.next()

    def __enter__(self) -> Merged:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended = True
        for one in self._subscriptions:
            one.__exit__(kind, error, trace)
        with contextlib.suppress(queue.Empty):
            while True:
                self._taken.get_nowait()
        for thread in self._threads:
            thread.join()
