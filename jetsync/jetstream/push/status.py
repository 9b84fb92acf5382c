"""The state of a push subscription: deliveries and statuses. No I/O, no clock, no lock.

Source: the subscribe workflow (heartbeats, message gaps, flow control) and ADR-9.
"""

from __future__ import annotations

import enum

from jetsync._core.deliveries import Sequences
from jetsync.client import Msg

__all__ = ["ConsumerSequence", "FlowControl", "StatusKind", "import_prefix", "kind_of"]


class StatusKind(enum.Enum):
    """The kind of a status on the deliver subject."""

    HEARTBEAT = "nothing to deliver at the moment"
    FLOW_CONTROL = "the server asks whether the client keeps up"
    DELETED = "the consumer is gone"
    UNEXPECTED = "anything else: an error"


def kind_of(msg: Msg) -> StatusKind:
    """Look at the code first, then at the beginning of the text."""
    text = msg.description.lower()
    if msg.status == 100 and text.startswith("idle heartbeat"):
        return StatusKind.HEARTBEAT
    if msg.status == 100 and text.startswith("flowcontrol request") and msg.reply:
        return StatusKind.FLOW_CONTROL
    if msg.status == 409 and text.startswith("consumer deleted"):
        return StatusKind.DELETED
    return StatusKind.UNEXPECTED


class ConsumerSequence(Sequences):
    """Follows the consumer sequence, which the server counts up by one with every delivery.

    ``last`` is the highest one that is accounted for; None before the first sign of it. ``stream``
    is the stream sequence of the last delivery.
    """

    last: int | None

    def delivery(self, seq: int, stream: int = 0) -> int | None:
        """Note a delivery; returns the expected sequence when some are missing.

        A lower sequence than before is not a gap: the consumer was reset and counts anew.
        """
        last, self.last = self.last, seq
        self.stream = stream
        return last + 1 if last is not None and seq > last + 1 else None

    def heartbeat(self, msg: Msg) -> tuple[int, int] | None:
        """Note a heartbeat, which names the last delivery before it.

        Returns (expected, the one after the last delivery) when some have not arrived.
        """
        text = msg.headers.get("Nats-Last-Consumer") or ""
        if not (text.isascii() and text.isdecimal()):
            return None
        sent, last = int(text), self.last
        if last is None or sent > last:
            self.last = sent
        return (last + 1, sent + 1) if last is not None and sent > last else None


class FlowControl:
    """Answers the questions of one consumer's flow control, each once: the server repeats its
    question in heartbeats.

    Any client that may publish to the deliver subject can forge such a question, and the answer is
    a message with the rights of this connection. So only what the server asks for this consumer is
    answered: ``$JS.FC.<stream>.<consumer>.<token>``, in the newer form with domain and account
    before the stream, behind what an import puts before the JetStream subjects (``prefix``).
    """

    def __init__(self, stream: str, consumer: str, prefix: str = "") -> None:
        self._answered: str | None = None
        self._beginnings = ("$JS.FC.", f"{prefix}$JS.FC.")
        self._names = [stream, consumer]

    def question(self, msg: Msg) -> str | None:
        """Return the subject to publish to, or None when there is none or it had its answer."""
        subject = msg.reply
        if msg.status == 100 and not subject:
            subject = msg.headers.get("Nats-Consumer-Stalled")
        if not subject or subject == self._answered or not self._is_question(subject):
            return None
        self._answered = subject
        return subject

    def _is_question(self, subject: str) -> bool:
        if not subject.startswith(self._beginnings):
            return False
        tokens = subject.partition("$JS.FC.")[2].split(".")
        return len(tokens) in (3, 5) and tokens[-3:-1] == self._names


def import_prefix(api_prefix: str) -> str:
    """The prefix that an import adds to the JetStream subjects of another account, by the prefix of
    its API: ``hub.$JS.API`` gives ``hub.``."""
    before, found, _ = api_prefix.partition("$JS.")
    return before if found else ""
