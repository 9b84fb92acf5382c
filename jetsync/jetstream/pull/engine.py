"""The pull engine: outstanding pulls of one consumer, and what every status means for them.

Pull lives here: fetch, next, messages and consume all stand on this engine. Each pull has a reply
subject of its own under one wildcard inbox, so a status names its pull; data messages do not, they
arrive under the subject they were stored with. Accounting is therefore per pull: data is charged
to the oldest pull, and a status drops exactly the remainder of the pull it names (ADR-13, ADR-37).
"""

from __future__ import annotations

import dataclasses
import json
import time
import weakref
from typing import TYPE_CHECKING, Any

from jetsync._core.hand import Hand
from jetsync._core.mailbox import Mailbox
from jetsync.client import Msg
from jetsync.client.port import Member
from jetsync.errors import ConsumerDeletedError, JetStreamError, PullTerminatedError
from jetsync.jetstream.message import JetStreamMsg, MsgBatch
from jetsync.jetstream.pull.presence import Presence
from jetsync.jetstream.pull.statuses import STATUSES, Fate, fate_of, pending_messages

if TYPE_CHECKING:
    from jetsync.jetstream.consumers.consumer import Consumer
    from jetsync.jetstream.consumers.priority import Pin

__all__ = [
    "HUGE_BATCH",
    "IDLE_HEARTBEAT",
    "STATUSES",
    "WARY_HEARTBEAT",
    "EndedPull",
    "Fate",
    "PullEngine",
    "PullOptions",
    "fate_of",
]

HUGE_BATCH = 1_000_000
"""Messages asked for when only bytes are limited: the server takes 0 as 1."""

_LAPSE = 1.0
"""Seconds after its expiry in which a pull has to be ended by the server."""

_SERVED_KEPT = 8

_to_json = json.JSONEncoder(separators=(",", ":")).encode

IDLE_HEARTBEAT = 2.0
"""ADR-37 proposes half of ``expires``. A pull that a server lost in silence is noticed sooner so,
and an idle consumer costs one empty message every two seconds; a busy one gets none."""

WARY_HEARTBEAT = 0.25
"""A leader that steps down can swallow the pull that follows in silence. So for a moment pulls ask
for quick heartbeats, and one that gets none is sent again."""


@dataclasses.dataclass(frozen=True)
class PullOptions:
    """The body of a pull request; durations in seconds. ``expires`` 0 is not sent."""

    batch: int
    expires: float
    max_bytes: int | None = None
    heartbeat: float | None = None
    no_wait: bool = False
    group: str | None = None
    min_pending: int | None = None
    min_ack_pending: int | None = None
    priority: int | None = None
    id: str | None = None
    """The pin id, of a group with the policy ``pinned_client``."""

    def body(self) -> bytes:
        fields: dict[str, Any] = {"batch": self.batch}
        if self.expires:
            fields["expires"] = round(self.expires * 1e9)
        if self.max_bytes is not None:
            fields["max_bytes"] = self.max_bytes
        if self.heartbeat:
            fields["idle_heartbeat"] = round(self.heartbeat * 1e9)
        if self.no_wait:
            fields["no_wait"] = True
        for name in ("group", "min_pending", "min_ack_pending", "priority", "id"):
            value = getattr(self, name)
            if value is not None:
                fields[name] = value
        return _to_json(fields).encode()


@dataclasses.dataclass
class _Pull:
    remaining: int
    remaining_bytes: int | None
    heartbeat: float | None
    lapses: float
    """When the server should have ended it, on the monotonic clock."""
    pin: str | None


@dataclasses.dataclass(frozen=True)
class EndedPull:
    """A status that ended a pull, or refused one."""

    fate: Fate
    error: JetStreamError | None


class PullEngine(Member):
    """The outstanding pulls of one consumer on one inbox. For one thread at a time.

    ``mailbox`` receives messages and statuses. ``poke`` may be called by any thread: it makes a
    waiting taker look at the engine again, and so a ``hand`` that still has what was taken. ``pin``
    is the place of this client in a priority group with the policy ``pinned_client``: its id goes
    with every pull.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._port = consumer._js._port
        self._subject = consumer._js._api.subject(
            f"CONSUMER.MSG.NEXT.{consumer.stream_name}.{consumer.name}"
        )
        self._inbox = self._port.new_inbox()
        self.mailbox = Mailbox(msg_type=JetStreamMsg, owner=self._port.connection, context=consumer)
        self._received = self._port.open_inbox(f"{self._inbox}.*", self.mailbox)
        self._pulls: dict[int, _Pull] = {}
        self._number = 0
        self._first = 1  # numbers below belong to pulls that were called off
        self._unclaimed = 0  # what waits in the mailbox and came by one of those
        self._epoch = self._port.epoch
        self._idle_since = time.monotonic()
        self._presence = Presence(consumer)
        self.pin: Pin | None = None
        self.hand: weakref.ref[Hand] | None = None  # weakly: a stream nobody holds ends itself
        self.closed = False
        self._port.attach(self)

    def link_changed(self) -> None:
        """See ``Member.link_changed``."""
        self.poke()

    def poke(self) -> None:
        """Wake whoever waits on the mailbox, or is handing out what was taken from it."""
        self.mailbox.poke()
        hand = self.hand() if self.hand is not None else None
        if hand is not None:
            hand._pause_now()

    def new_batch(self) -> MsgBatch:
        """Return an empty batch for the messages of this engine."""
        batch: MsgBatch = self.mailbox.new_batch(MsgBatch, self._port.outbound)
        batch._ack_none = self._consumer._ack_none
        return batch

    def close(self, unused: MsgBatch | None = None) -> None:
        """Give up the inbox; the server drops the pulls with it. Does not wait; safe to repeat.

        ``unused`` and what waits in the mailbox go back to the server, after the inbox: else it
        could send them there again. So does what it had still sent when it learnt of it.
        """
        self._port.detach(self)
        again, self.closed = self.closed, True
        self._presence.close()
        if self._port.closed:
            self.poke()
            return
        if not again:
            self._received.stop()
        if unused is not None:
            unused.nak()
        self._hand_back()
        if not again:
            self._port.after_pong(self._end)

    def _end(self) -> None:
        if not self._port.closed:
            self._received.close()
            self._hand_back()

    def _hand_back(self) -> None:
        batch = self.new_batch()
        while self.mailbox.pending_messages:
            self.mailbox.take_into(batch, HUGE_BATCH, 0)
        batch.nak()

    # -- pulling -----------------------------------------------------------------------------------

    @property
    def outstanding(self) -> int:
        """Messages asked for and neither delivered nor called off."""
        return sum([pull.remaining for pull in self._pulls.values()])

    @property
    def outstanding_bytes(self) -> int:
        """The same in bytes, over the pulls that limit bytes."""
        return sum(pull.remaining_bytes or 0 for pull in self._pulls.values())

    @property
    def waiting(self) -> int:
        """Messages that wait in the mailbox or are on their way to it. What waits is charged to
        its pull only when it is taken."""
        pending = self.mailbox.pending_messages
        unclaimed = min(self._unclaimed, pending)
        return unclaimed + max(self.outstanding, pending - unclaimed)

    @property
    def waiting_bytes(self) -> int:
        """The same in bytes, over the pulls that limit bytes."""
        pending = self.mailbox.pending_bytes
        if self._unclaimed:
            return self.outstanding_bytes + pending
        return max(self.outstanding_bytes, pending)

    def pull(self, options: PullOptions) -> None:
        """Send one pull request. Blocks only while the outbound buffer is full."""
        now = time.monotonic()
        if not self.mailbox.pending_messages:
            self._unclaimed = 0
        if self.pin is not None and self.pin.id is not None:
            options = dataclasses.replace(options, id=self.pin.id)
        self._number += 1
        self._pulls[self._number] = _Pull(
            options.batch,
            options.max_bytes,
            options.heartbeat,
            now + (options.expires or 3600.0),
            options.id,
        )
        self._idle_since = now
        outbound = self._port.outbound
        outbound.publish(self._subject, options.body(), f"{self._inbox}.{self._number}", b"", False)
        outbound.send_now()

    def delivered(self, count: int, size: int = 0) -> None:
        """Charge delivered messages (and their bytes) to the pulls, oldest first."""
        if count:
            self._presence.seen()
            unclaimed = min(count, self._unclaimed)
            self._unclaimed -= unclaimed
            count -= unclaimed
        self._charge(count, size)

    def _charge(self, count: int, size: int) -> None:
        for pull in list(self._pulls.values()):
            if count <= 0:
                return
            if not pull.remaining:
                continue  # served already, and kept for what the server may still say of it
            taken = min(count, pull.remaining)
            pull.remaining -= taken
            count -= taken
            if pull.remaining_bytes is not None:
                # The server counts the same bytes; the next message may just not fit any more.
                charged = min(size, pull.remaining_bytes)
                pull.remaining_bytes -= charged
                size -= charged
            if pull.remaining == 0:
                pull.remaining_bytes = None
                self._forget_served()

    def _forget_served(self) -> None:
        """Forget pulls that seem to be served. A few stay while others are under way: the server
        may have served those instead, and says so when it ends them."""
        served = [number for number, pull in self._pulls.items() if pull.remaining == 0]
        if len(served) < len(self._pulls):
            served = served[:-_SERVED_KEPT]
        for number in served:
            del self._pulls[number]

    def learn(self, batch: MsgBatch) -> None:
        """Take the pin id from what was delivered, in a group that pins its client."""
        if self.pin is not None and len(batch):
            self.pin.learn(batch[-1])

    def on_status(self, msg: Msg) -> EndedPull | None:
        """Account for a status message; None when its pull goes on (or was called off already)."""
        fate = fate_of(msg.status, msg.description)
        self._unclaimed = max(0, self._unclaimed - 1)
        if fate is Fate.ALIVE:
            self._presence.seen()
            return None
        number = self._number_of(msg.subject)
        if fate is Fate.FATAL:
            self.call_off()
            return EndedPull(fate, self._fatal(msg))
        if number is None or number < self._first:
            return None
        pull = self._pulls.pop(number, None)
        self._settle(pull, msg)
        if pull is None:
            return None
        if msg.status == 423 and self.pin is not None:
            self.pin.lose(pull.pin)
        if fate is Fate.VOID:
            # Every pull of the consumer is void, not only this one.
            self.call_off()
        error = None
        if fate is Fate.WARN:
            error = PullTerminatedError(
                f"the server refused a pull of {self._consumer!r}: {msg.status} {msg.description}",
                status=msg.status,
            )
        return EndedPull(fate, error)

    def _settle(self, pull: _Pull | None, msg: Msg) -> None:
        """Move what was charged to the wrong pull: the server tells how much of this one is left,
        and with several pulls waiting it serves them in turns, not the oldest first."""
        left = pending_messages(msg)
        if left is None:
            return
        wrong = left - (0 if pull is None else pull.remaining)
        if wrong > 0:
            self._charge(wrong, 0)
        elif self._pulls:
            next(iter(self._pulls.values())).remaining -= wrong

    def _fatal(self, msg: Msg) -> JetStreamError:
        if "push" in msg.description.lower():
            return PullTerminatedError(
                f"{self._consumer!r} is a push consumer and cannot be pulled", status=msg.status
            )
        return ConsumerDeletedError(f"{self._consumer!r} was deleted")

    def _number_of(self, subject: str) -> int | None:
        tail = subject[len(self._inbox) + 1 :]
        return int(tail) if subject.startswith(self._inbox) and tail.isdigit() else None

    def call_off(self) -> None:
        """Forget every outstanding pull; what is still said about them is ignored."""
        self._pulls.clear()
        self._first = self._number + 1
        self._unclaimed = self.mailbox.pending_messages

    # -- watching ----------------------------------------------------------------------------------

    @property
    def linked(self) -> bool:
        """Whether there is a link that pulls can go out on right now."""
        return self._port.linked and not self._port.draining

    def lost_link(self) -> bool:
        """Whether the link changed since the last look: then every outstanding pull is gone."""
        epoch = self._port.epoch
        if epoch == self._epoch and self.linked:
            return False
        had = bool(self._pulls)
        self.call_off()
        if self.linked:
            had = had or epoch != self._epoch
            self._epoch = epoch
        return had

    def silent_for(self) -> float:
        """Seconds without any sign of life from the server while pulls are outstanding."""
        return time.monotonic() - max(self.mailbox.last_put, self._idle_since)

    def next_look(self) -> float:
        """Seconds until silence would mean something, so until ``drop_silent`` has to be asked."""
        if not self._pulls:
            return 3600.0
        due = max(pull.lapses for pull in self._pulls.values()) + _LAPSE - time.monotonic()
        beat = next(reversed(self._pulls.values())).heartbeat
        if beat is not None:
            due = min(due, 2 * beat - self.silent_for())
        return max(0.0, due) + 0.001

    def drop_silent(self) -> bool:
        """Call off the pulls when the server has missed two heartbeats, or has not ended a pull
        long after it lapsed. Returns whether it did: then pull again."""
        if not self._pulls:
            return False
        now = time.monotonic()
        newest = next(reversed(self._pulls.values()))
        missed = newest.heartbeat is not None and self.silent_for() > 2 * newest.heartbeat
        lapsed = all(now > pull.lapses + _LAPSE for pull in self._pulls.values())
        if missed or lapsed:
            self.call_off()
        return missed or lapsed

    def why_gone(self, patience: float = 0.05) -> ConsumerDeletedError | None:
        """After a 503: why the consumer is gone for good; None when it is not, or when nobody can
        tell yet. Waits up to ``patience`` seconds for the answer, and looks again when called
        again: while a consumer has no leader nobody answers, and pulling must go on meanwhile."""
        return self._presence.why_gone(patience)
