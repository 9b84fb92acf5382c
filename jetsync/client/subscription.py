"""Subscription: the user's handle on a mailbox."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetsync._core.handles import Receiving
from jetsync._core.mailbox import Mailbox, MailboxIterator
from jetsync._core.message import Msg
from jetsync._deadline import Deadline, Seconds
from jetsync._handles import Handle
from jetsync._numbers import check_whole
from jetsync.client.delivery import SubscriptionDelivery, wait_taken
from jetsync.errors import ConfigError, ConnectionClosedError, DisconnectedError, TimeoutError

if TYPE_CHECKING:
    from jetsync.client.connection import Connection
    from jetsync.client.port import Port
    from jetsync.client.routes import Inbox

__all__ = ["Subscription", "drain_all"]


class Subscription(Handle, Receiving):
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
        self.subject = subject
        self.queue = queue
        self._inbox: Inbox | None = None
        self._delivery: SubscriptionDelivery | None = None

    def _open(self) -> None:
        """Tell the server, and start the callback if there is one."""
        nc, subject, mailbox = self._nc, self.subject, self._mailbox
        self._inbox = nc._routes.open(subject, self.queue, mailbox)
        if self._callback is not None:
            self._delivery = SubscriptionDelivery(nc._port, subject, mailbox, self._callback, self)

    def _await_next(self, timeout: Seconds | None) -> Msg:
        self._nc._check()
        if self._callback is not None:
            raise ConfigError(
                "this subscription delivers to its callback: next() would take its messages"
            )
        seconds = self._nc._port.seconds(timeout)
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
            raise ConfigError(
                "this subscription delivers to its callback: iterating would take its messages"
            )
        return MailboxIterator(self._mailbox, self)

    def unsubscribe(self, max_messages: int | None = None) -> None:
        """Stop receiving: at once, or after ``max_messages`` in all. Does not block.

        Messages that wait can still be taken, but for those beyond ``max_messages``, which are
        dropped. Safe to repeat. Raises ConfigError for a number below 1, ConnectionClosedError.
        """
        self._nc._check()
        if max_messages is not None:
            check_whole("max_messages", max_messages)
            if self._mailbox.stop_after(max_messages):
                self._open_inbox().stop(max_messages)
                return
        self._open_inbox().close()

    def drain(self, timeout: Seconds | None = None) -> None:
        """Stop receiving, and wait until everything that the server had sent is consumed.

        Blocks up to ``timeout`` seconds (default: the connection's); raises TimeoutError then. With
        a callback this waits for it; without one another thread has to take the messages.
        """
        self._nc._check()
        port = self._nc._port
        drain_all(port, [self], Deadline(port.seconds(timeout)))

    def _open_inbox(self) -> Inbox:
        assert self._inbox is not None
        return self._inbox

    def _wait_taken(self, deadline: Deadline) -> None:
        """Wait until the mailbox is empty."""
        wait_taken(self._nc._port, self.subject, self._mailbox, deadline)

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
        return f"Subscription({self.subject!r}, queue={self.queue!r}, sid={self._mailbox.sid})"


def drain_all(port: Port, subscriptions: Sequence[Subscription], deadline: Deadline) -> None:
    """Drain several subscriptions of one connection with one question to the server.

    See ``Subscription.drain``.
    """
    for one in subscriptions:
        one._open_inbox().stop()
    # The PONG follows every message sent to this client, and so does the end of the link: after
    # either of them no message is under way.
    with contextlib.suppress(DisconnectedError):
        port.flush(deadline)
    for one in subscriptions:
        one._open_inbox().close()
    for one in subscriptions:
        if one._delivery is None:
            one._wait_taken(deadline)
        else:
            one._delivery.drain(deadline)
