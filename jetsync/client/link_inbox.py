"""An inbox for reports that servers send to one link only, such as the pieces of a backup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync._core.mailbox import Mailbox
from jetsync.client.members import Member
from jetsync.errors import ConnectionClosedError, DisconnectedError, OutboundFullError

if TYPE_CHECKING:
    from jetsync.client.port import Port

__all__ = ["LinkInbox"]


class LinkInbox(Member):
    """A literal subject and the mailbox of what comes to it. A context manager, for one thread.

    What servers send while there is no link is lost, so it ends with the link: a thread that waits
    for more gets DisconnectedError, which names ``operation``, and ConnectionClosedError when the
    connection is closed.
    """

    def __init__(self, port: Port, operation: str, *, limit_messages: int = 0) -> None:
        self._port = port
        self._operation = operation
        self._epoch = port.epoch
        self._link = port.outbound.link_to_leave_on
        self.subject: str = port.new_inbox()
        self.mailbox: Mailbox = Mailbox(owner=port.connection, limit_messages=limit_messages)
        self._inbox = port.open_inbox(self.subject, self.mailbox, answers=True)
        port.attach(self)
        self.link_changed()

    def link_changed(self) -> None:
        if self._port.epoch != self._epoch or not self._port.linked:
            self._inbox.close(self._broken())

    def _broken(self) -> DisconnectedError:
        return DisconnectedError(f"the link broke during the {self._operation}")

    def check(self) -> None:
        """Raise the error with which it ended, if it has ended."""
        if self.mailbox.error is not None:
            raise self.mailbox.error

    def send(
        self, subject: str, data: bytes = b"", header: bytes = b"", seconds: float | None = None
    ) -> None:
        """Publish on the link of this inbox; see ``Port.send``. When that link is gone, nothing is
        put in for the next one: raises the error with which this inbox ended."""
        self.check()
        outbound = self._port.outbound
        try:
            self._port.send(subject, data, None, header, seconds, self._link)
        except OutboundFullError:
            if outbound.is_linked and outbound.link_to_leave_on == self._link:
                raise  # it is full
            raise (self.mailbox.error or self._broken()) from None

    def close(self) -> None:
        self._inbox.close(ConnectionClosedError("the connection is closed"))

    def __enter__(self) -> LinkInbox:
        return self

    def __exit__(self, *_: object) -> None:
        self._port.detach(self)
        self._inbox.close()
