"""QoS: the messages that a channel has given to the application."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from kombu.transport import virtual

from jetsync import Error
from jetsync.contrib.kombu.readers import Received

if TYPE_CHECKING:
    from jetsync.contrib.kombu.channel import Channel

__all__ = ["QoS"]


class QoS(virtual.QoS):
    """The messages that the application has and has not settled, by delivery tag."""

    restore_at_shutdown = False  # what is not settled comes back by itself

    def __init__(self, channel: Channel, prefetch_count: int = 0) -> None:
        super().__init__(channel, prefetch_count)
        self._on_collect.cancel()
        self.unsettled: dict[str, tuple[Received, virtual.Message]] = {}

    def can_consume(self) -> bool:
        """Whether a message more may come."""
        return not self.prefetch_count or len(self.unsettled) < self.prefetch_count

    def can_consume_max_estimate(self) -> int | None:
        """How many messages more may come; None: any number."""
        return max(self.prefetch_count - len(self.unsettled), 0) if self.prefetch_count else None

    def get(self, delivery_tag: str) -> virtual.Message:
        """The message of a delivery tag."""
        return self.unsettled[delivery_tag][1]

    def ack(self, delivery_tag: str) -> None:
        """The message is done. Any thread; does not block."""
        if (found := self.unsettled.pop(delivery_tag, None)) is not None:
            found[0].ack()
            self.channel.wake()

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Hand the message back, or put it to the dead letters of its queue and drop it."""
        if (found := self.unsettled.pop(delivery_tag, None)) is None:
            return
        received, message = found
        if requeue:
            received.nak()
            self.channel.handed_back()
        else:
            self._bury(received, message)
        self.channel.wake()

    def _bury(self, received: Received, message: virtual.Message) -> None:
        try:
            self.channel.bury(received.queue, message)
        except BaseException:
            with contextlib.suppress(Error):  # without a link it comes back after ack_wait
                received.nak()
            self.channel.handed_back()
            raise
        received.term("rejected")

    def restore_unacked(self) -> list[Any]:
        """Hand all of them back, in their order."""
        while self.unsettled:
            try:
                _, (received, _) = self.unsettled.popitem()
                received.nak()
            except (KeyError, Error):  # another thread was quicker; or the connection is closed
                continue
        return []

    def restore_unacked_once(self, stderr: Any = None) -> None:
        """The same."""
        self.restore_unacked()
