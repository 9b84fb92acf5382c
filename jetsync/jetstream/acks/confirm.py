"""Double acknowledgements: of one message, and of a whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync._core.batch import ack_all, unconfirmed_rows
from jetsync._deadline import Deadline
from jetsync.errors import (
    ConsumerNotFoundError,
    DisconnectedError,
    Error,
    NoRespondersError,
    StreamNotFoundError,
    TimeoutError,
)
from jetsync.jetstream.api import decode

if TYPE_CHECKING:
    from jetsync.client import MsgBatch
    from jetsync.client.port import Port

__all__ = ["confirm", "confirm_all"]

_AGAIN_AFTER = 1.0
"""Seconds without an answer after which an acknowledgement is sent again: it may have been lost in
a leader election. The wait doubles each time, up to the next constant."""
_LONGEST_SILENCE = 3.0
_UNSERVED_WAIT = 0.1
_ASK_AFTER = 2.0
"""Seconds without a subscriber on the ack subject after which the servers are asked why: the
consumer is gone, elects a leader, or its server has just started."""


def confirm(port: Port, reply: str, seconds: float) -> None:
    """Double ack: send until the server answers. Repeating is safe: it answers every time.

    Raises NoRespondersError when the servers say that the consumer is gone, TimeoutError."""
    deadline = Deadline(seconds)
    again_after = _AGAIN_AFTER
    patience: Deadline | None = None  # begins with the first answer that no subscriber is there
    with port.exchange(reply, b"+ACK") as exchange:
        while True:
            port.check()
            unserved: NoRespondersError | None = None
            try:
                exchange.ask(deadline.step(again_after))
                return
            except DisconnectedError:
                port.sleep(deadline.within(0.05))
            except NoRespondersError as error:
                if patience is None:
                    patience = Deadline(_ASK_AFTER)
                elif patience.expired and not deadline.expired:
                    if _is_gone(port, reply, deadline.within(_AGAIN_AFTER)):
                        raise
                    patience = Deadline(_ASK_AFTER)
                unserved = error
                port.sleep(deadline.within(_UNSERVED_WAIT))
            except TimeoutError:
                again_after = min(2 * again_after, _LONGEST_SILENCE)
            if deadline.expired:
                why = "" if unserved is None else ": the consumer is gone, or has no leader"
                raise TimeoutError(
                    f"no confirmation within {seconds:g} s{why}", operation="ack_sync"
                ) from unserved


def _is_gone(port: Port, reply: str, seconds: float) -> bool:
    """Whether the servers know that the consumer of an acknowledgement does not exist."""
    tokens = reply.split(".")
    if len(tokens) < 9:
        return False
    if len(tokens) > 9:  # $JS.ACK.<domain>.<account>.<stream>.<consumer> ...
        domain, stream, consumer = tokens[2], tokens[4], tokens[5]
    else:
        domain, stream, consumer = "_", tokens[2], tokens[3]
    prefix = "$JS.API" if domain == "_" else f"$JS.{domain}.API"
    try:
        decode(port.request(f"{prefix}.CONSUMER.INFO.{stream}.{consumer}", b"", seconds).data)
    except (ConsumerNotFoundError, StreamNotFoundError):
        return True
    except Error:
        return False  # no leader, no permission, or an account of its own
    return False


def confirm_all(batch: MsgBatch, port: Port, seconds: float) -> None:
    """Confirm a whole batch: all acknowledgements at once, then the unconfirmed ones one by one."""
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
    waiting = set(unconfirmed_rows(batch))
    with port.open_reply("$JS.ACK") as reply:
        ack_all(batch, b"+ACK", f"{reply.subject}-".encode(), seconds=deadline.remaining())
        patience = 2 * _AGAIN_AFTER
        while waiting and (msg := reply.mailbox.get(deadline.within(patience))) is not None:
            if not msg.status:
                waiting.discard(_index(msg.subject))
            elif msg.status == 503:
                break
    return sorted(waiting)


def _index(subject: str) -> int:
    """The index of the message that an answer is about; -1 for a subject that is none of theirs."""
    tail = subject.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else -1
