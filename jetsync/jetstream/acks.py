"""Double acknowledgements: of one message, and of a whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync._deadline import Deadline
from jetsync.errors import DisconnectedError, NoRespondersError, TimeoutError

if TYPE_CHECKING:
    from jetsync.client.port import Port
    from jetsync.jetstream.message import MsgBatch

__all__ = ["confirm", "confirm_all"]

# A server that just restarted may not serve the consumer yet; one that is gone never will.
_PATIENCE = 2.0
# An acknowledgement that nobody answers for so long is sent again: it may have met an election.
_AGAIN_AFTER = 1.0


def confirm(port: Port, reply: str, seconds: float) -> None:
    """Double ack: send until the server answers. Repeating is safe: it answers every time."""
    deadline = Deadline(seconds)
    again_after = _AGAIN_AFTER
    with port.exchange(reply, b"+ACK") as exchange:
        while True:
            port.check()
            try:
                exchange.ask(deadline.within(again_after))
                return
            except DisconnectedError:
                port.sleep(deadline.within(0.05))
            except NoRespondersError:
                if deadline.within(seconds) <= max(0.0, seconds - _PATIENCE):
                    raise
                port.sleep(deadline.within(0.1))
            except TimeoutError:
                again_after *= 2
            if deadline.expired:
                raise TimeoutError(f"no confirmation within {seconds:g} s", operation="ack_sync")


def confirm_all(batch: MsgBatch, port: Port, seconds: float) -> None:
    """The same for a whole batch: all at once, and what is left then one by one."""
    deadline = Deadline(seconds)
    for index in _unconfirmed(batch, port, deadline):
        left = deadline.within(seconds)
        try:
            confirm(port, batch[index].reply or "", left)
        except TimeoutError:
            raise TimeoutError(
                f"not every message was confirmed within {seconds:g} s; acknowledging all of them "
                "again is safe",
                operation="ack_sync",
            ) from None


def _unconfirmed(batch: MsgBatch, port: Port, deadline: Deadline) -> list[int]:
    """Ask for all confirmations at once; returns the messages left without one, because the link
    broke, an answer was lost, or the consumer was not served for a moment."""
    waiting = set(batch._unconfirmed())
    with port.open_reply("$JS.ACK") as reply:
        batch.answer_all(b"+ACK", f"{reply.subject}-".encode(), seconds=deadline.remaining())
        patience = 2 * _AGAIN_AFTER
        while waiting and (msg := reply.mailbox.get(deadline.within(patience))) is not None:
            if not msg.status:
                waiting.discard(int(msg.subject.rpartition("-")[2]))
            elif msg.status == 503:
                break
    return sorted(waiting)
