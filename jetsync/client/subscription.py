"""Subscription: the user's handle on a mailbox."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetsync._core.handles import Receiving
from jetsync._core.mailbox import Mailbox, MailboxIterator
from jetsync._core.message import Msg
from jetsync._deadline import Deadline, Seconds
from jetsync.client.runner import run_callbacks, start_thread
from jetsync.errors import ConfigError, ConnectionClosedError, DisconnectedError, TimeoutError

if TYPE_CHECKING:
    from jetsync.client.connection import Connection

__all__ = ["Subscription"]


class Subscription(Receiving):
    """Messages of one subject. Made by :meth:`Connection.subscribe`.

    Thread-safe: several threads may call :meth:`next`, every message goes to exactly one of them.
    An iterator belongs to the thread that uses it first. As a context manager it unsubscribes.
    """

    def __init__(
        self,
        nc: Connection,
        subject: str,
        queue: str | None,
        mailbox: Mailbox,
        callback: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(nc, mailbox, callback)
        self._sid = 0
        self._thread: threading.Thread | None = None
        self.subject = subject
        self.queue = queue

    def _start(self, sid: int) -> None:
        self._sid = sid
        if self._callback is not None:
            self._thread = start_thread(f"run-{self._nc._label}-{sid}", self._call_back)

    def _call_back(self) -> None:
        callback = self._callback
        assert callback is not None
        try:
            run_callbacks(MailboxIterator(self._mailbox), callback, self._on_callback_error)
        finally:
            self._nc._forget(self._sid)

    def _on_callback_error(self, error: Exception) -> None:
        # A callback that wanted the connection while it was being closed is no news.
        if not (self._nc.is_closed and isinstance(error, ConnectionClosedError)):
            self._nc._post("error", error)

    def _await_next(self, timeout: Seconds | None) -> Msg:
        self._nc._check()
        if self._callback is not None:
            raise ConfigError("this subscription delivers to its callback; next() would steal")
        seconds = self._nc._seconds(timeout)
        deadline = Deadline(seconds)
        while True:
            msg = self._mailbox.get(deadline.remaining())
            if msg is not None:
                return msg
            if self._mailbox.ended:
                raise self._mailbox.error or ConnectionClosedError(
                    f"subscription {self.subject!r} has ended and every message was taken"
                )
            if deadline.expired:
                raise TimeoutError(
                    f"no message on {self.subject!r} within {seconds:g} s", operation="next"
                )

    def __iter__(self) -> Iterator[Msg]:
        """Iterate over the messages until the subscription ends. Blocks while there are none."""
        self._nc._check()
        if self._callback is not None:
            raise ConfigError("this subscription delivers to its callback; iterating would steal")
        return MailboxIterator(self._mailbox, self)

    def unsubscribe(self, max_messages: int | None = None) -> None:
        """Stop receiving: at once, or after ``max_messages`` in all. Does not block.

        Messages that wait can still be taken. Safe to repeat.
        """
        self._nc._check()
        if max_messages is not None:
            if max_messages < 1:
                raise ConfigError("max_messages must be 1 or more")
            if self._mailbox.stop_after(max_messages):
                self._nc._outbound.unsubscribe(self._sid, max_messages)
                return
        self._nc._unsubscribe(self._sid)

    def drain(self, timeout: Seconds | None = None) -> None:
        """Stop receiving, and wait until everything that the server had sent is consumed.

        Blocks up to ``timeout`` seconds (default: the connection's); raises TimeoutError then. With
        a callback this waits for it; without one somebody else has to take the messages.
        """
        self._nc._check()
        seconds = self._nc._seconds(timeout)
        deadline = Deadline(seconds)
        self._nc._outbound.unsubscribe(self._sid)
        # The PONG comes behind everything that was sent to us; and so does the end of the link.
        with contextlib.suppress(DisconnectedError):
            self._nc.flush(deadline.remaining())
        self._nc._unsubscribe(self._sid)
        self._wait_consumed(deadline)

    def _drained(self, deadline: Deadline) -> None:
        """The connection drains, and nothing more comes: let the callback finish."""
        if self._callback is not None:
            self._wait_consumed(deadline)

    def _wait_consumed(self, deadline: Deadline) -> None:
        if threading.current_thread() is self._thread:
            return  # its own callback drains: the rest comes to it when it is back
        while self._mailbox.pending_messages:
            self._nc._check()
            left = deadline.within(0.02)
            if left <= 0:
                raise TimeoutError(
                    f"{self._mailbox.pending_messages} messages of {self.subject!r} were not "
                    "consumed in time",
                    operation="drain",
                )
            self._nc._pause(left)
        if self._thread is not None:
            self._thread.join(deadline.remaining())
            if self._thread.is_alive():
                raise TimeoutError(
                    f"the callback of {self.subject!r} did not finish in time", operation="drain"
                )

    @property
    def pending_messages(self) -> int:
        """Messages received and not yet consumed."""
        return self._mailbox.pending_messages

    @property
    def pending_bytes(self) -> int:
        """Their bytes: subjects, replies, headers and payloads."""
        return self._mailbox.pending_bytes

    @property
    def dropped(self) -> int:
        """Messages dropped because a pending limit was hit."""
        return self._mailbox.dropped

    @property
    def delivered(self) -> int:
        """Messages handed out so far."""
        return self._mailbox.delivered

    @property
    def is_active(self) -> bool:
        """Whether more messages can come."""
        return not self._mailbox.finished

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if not self._nc.is_closed:
            self.unsubscribe()

    def __repr__(self) -> str:
        return f"Subscription({self.subject!r}, queue={self.queue!r}, sid={self._sid})"
