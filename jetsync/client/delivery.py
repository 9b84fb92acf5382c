"""Delivery: the thread that gives the messages of a subscription to the user's callback."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jetsync._core.mailbox import Mailbox, MailboxIterator
from jetsync._deadline import Deadline
from jetsync.client.members import Member
from jetsync.client.runner import run_callbacks
from jetsync.errors import TimeoutError

if TYPE_CHECKING:
    from jetsync.client.port import Port

__all__ = ["Delivery", "wait_taken"]


class Delivery(Member):
    """Gives what comes into a mailbox to a callback, one by one, on a thread of its own.

    The thread holds ``keeper``, so a subscription with a callback goes on when the user drops it.
    """

    def __init__(
        self,
        port: Port,
        subject: str,
        mailbox: Mailbox,
        callback: Callable[[Any], Any],
        keeper: object,
    ) -> None:
        self._port = port
        self._subject = subject
        self._mailbox = mailbox
        port.attach(self)

        def run() -> None:
            try:
                run_callbacks(MailboxIterator(mailbox, keeper), callback, port.report)
            finally:
                port.detach(self)

        self._thread = port.start_thread("run", run)

    @property
    def on_this_thread(self) -> bool:
        """Whether the callback is the caller."""
        return threading.current_thread() is self._thread

    def drain(self, deadline: Deadline) -> None:
        """Wait until the callback had everything; see ``Member.drain``."""
        if self.on_this_thread:
            return  # its own callback drains: the rest comes to it when it is back
        wait_taken(self._port, self._subject, self._mailbox, deadline)
        self._thread.join(deadline.remaining())
        if self._thread.is_alive():
            raise TimeoutError(
                f"the callback of {self._subject!r} did not finish in time", operation="drain"
            )

    def close(self) -> None:
        """See ``Member.close``."""
        if not self._port.drained:
            self._mailbox.discard()  # a callback that ran on could do nothing any more

    def join(self, timeout: float | None) -> None:
        """See ``Member.join``."""
        if not self.on_this_thread:
            self._thread.join(timeout)


def wait_taken(port: Port, subject: str, mailbox: Mailbox, deadline: Deadline) -> None:
    """Wait until a mailbox is empty. Raises TimeoutError, and what ``Port.check`` raises."""
    while mailbox.pending_messages:
        port.check()
        left = deadline.within(0.02)
        if left <= 0:
            raise TimeoutError(
                f"{mailbox.pending_messages} messages of {subject!r} were not consumed in time",
                operation="drain",
            )
        port.sleep(left)
