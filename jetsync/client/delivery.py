"""Delivery: calls the user's callback with each message, on a thread of the dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jetsync._core.mailbox import Mailbox
from jetsync._counted import counted
from jetsync._deadline import Deadline
from jetsync._latch import Latch
from jetsync.client.members import Member
from jetsync.errors import TimeoutError

if TYPE_CHECKING:
    from jetsync.client.port import Port

__all__ = ["Delivery", "SubscriptionDelivery", "wait_taken"]


class Delivery:
    """Calls a callback with each item of a mailbox, one by one, on threads of the dispatcher. A
    ``step`` replaces the callback: see ``Task``. At the end ``ended(error)`` is called on that
    thread, once. Until then the dispatcher holds the functions, and what they refer to.
    """

    __slots__ = ("_ended", "_over", "_task", "_waiters")

    def __init__(
        self,
        port: Port,
        mailbox: Mailbox,
        ended: Callable[[BaseException | None], Any],
        *,
        callback: Callable[[Any], Any] | None = None,
        step: Callable[[], Mailbox | None] | None = None,
    ) -> None:
        self._over = False
        self._waiters: list[Latch] = []
        self._ended: Callable[[BaseException | None], Any] | None = ended
        self._task = port.dispatch(mailbox, callback, self._end, step)

    def _end(self, error: BaseException | None) -> None:
        ended, self._ended = self._ended, None
        try:
            if ended is not None:
                ended(error)
        finally:
            self._over = True
            for waiter in self._waiters:
                waiter.set()

    @property
    def on_this_thread(self) -> bool:
        """Whether the caller is the callback, or was called by it."""
        return self._task.on_this_thread

    def wait(self, timeout: float | None) -> bool:
        """Wait until the callback has processed every item; returns whether it has."""
        waiter = Latch()
        self._waiters.append(waiter)
        if self._over:
            waiter.set()  # `_end` may have read the list before this waiter was in it
        return waiter.wait(timeout)


class SubscriptionDelivery(Member):
    """The delivery of a subscription with a callback. The dispatcher refers to it, and it to
    ``subscription``, which goes on when the user drops it."""

    def __init__(
        self,
        port: Port,
        subject: str,
        mailbox: Mailbox,
        callback: Callable[[Any], Any],
        subscription: object,
    ) -> None:
        self._port = port
        self._subject = subject
        self._mailbox = mailbox
        self._subscription: object = subscription
        port.attach(self)
        try:
            self._delivery = Delivery(port, mailbox, self._on_end, callback=callback)
        except BaseException:
            mailbox.finish()  # if the callback is called already, it is not called any more
            port.detach(self)
            raise

    def _on_end(self, error: BaseException | None) -> None:
        self._subscription = None
        self._port.detach(self)
        if error is not None:
            self._port.report(error)

    def drain(self, deadline: Deadline) -> None:
        """Wait until the callback has processed every message; see ``Member.drain``."""
        if self._delivery.on_this_thread:
            return  # the callback itself drains: it gets the remaining messages after it returns
        wait_taken(self._port, self._subject, self._mailbox, deadline)
        if not self._delivery.wait(deadline.remaining()):
            raise TimeoutError(
                f"the callback of {self._subject!r} did not finish in time", operation="drain"
            )

    def close(self) -> None:
        """See ``Member.close``."""
        if not self._port.drained:
            self._mailbox.discard()  # a callback that went on could neither ack nor publish


def wait_taken(port: Port, subject: str, mailbox: Mailbox, deadline: Deadline) -> None:
    """Wait until a mailbox is empty. Raises TimeoutError, and what ``Port.check`` raises."""
    while mailbox.pending_messages:
        port.check()
        left = deadline.within(0.02)
        if left <= 0:
            raise TimeoutError(
                counted(
                    mailbox.pending_messages,
                    f"message of {subject!r} was",
                    f"messages of {subject!r} were",
                )
                + " not consumed in time",
                operation="drain",
            )
        port.sleep(left)
