"""The state of one pull inbox: what was asked for, what came of it, when to ask again.

No I/O and no clock of its own: every method that depends on the time is given ``now``. In go
messages counted, statuses, changes of the link and bytes received; out come the pulls that may be
sent, the time of the next look, and whether the server has gone silent. ``pull/inbox.py`` joins it
to a connection.

Each pull has a reply subject of its own under one wildcard inbox, so a status names its pull. Data
messages do not: they arrive under the subject they were stored with. So data is charged to the
oldest pull, and the status that ends a pull corrects the charge (ADR-13, ADR-37).
"""

from __future__ import annotations

import dataclasses
import enum

from jetsync.jetstream.pull.options import WARY_HEARTBEAT, PullOptions
from jetsync.jetstream.pull.statuses import Fate, fate_of

__all__ = ["Ended", "PullState", "Silence"]

_LAPSE = 1.0
"""Seconds after its expiry, beyond a round trip, in which the server has to end a pull."""

_SERVED_KEPT = 8

_WARY_FOR = 1.0

# Before a pull is tried again that had no room in the outbound buffer, in seconds.
_NO_ROOM_WAIT = 0.02

# Before what was refused is asked for again: the first wait and the longest, in seconds.
_WAITS = {
    Fate.VOID: (0.01, 0.25),
    Fate.RETRY: (0.01, 0.25),
    Fate.LOST: (0.05, 0.25),
    Fate.WARN: (0.1, 1.0),
    Fate.LIMIT: (0.1, 1.0),
}


class Silence(enum.Enum):
    """Whether the server still serves the pulls."""

    NONE = "there was a sign of life, or none is due"
    DOUBT = "a heartbeat is missing, but bytes arrive that it may be behind: ask with a PING"
    DEAD = "the pulls are lost: they were called off, pull again"


@dataclasses.dataclass
class _Pull:
    remaining: int
    remaining_bytes: int | None
    heartbeat: float | None
    lapses: float
    """When the server should have ended it, on the monotonic clock."""
    pin: str | None


@dataclasses.dataclass(frozen=True)
class Ended:
    """A status that ended a pull, or refused one."""

    number: int
    fate: Fate
    status: int
    text: str
    pin: str | None = None


class PullState:
    """The outstanding pulls of one inbox. For one thread at a time."""

    def __init__(self, now: float, epoch: int) -> None:
        self._pulls: dict[int, _Pull] = {}
        self.number = 0
        """Of the pull that was sent last."""
        self._first = 1  # numbers below belong to pulls that were called off
        self._unclaimed = 0  # messages that wait in the mailbox and came by one of those
        self._epoch = epoch
        self._since = now  # silence counts from here, or from the last sign of life if later
        self._last_lapse = now  # when the server should have ended all of them
        self._beat: float | None = None  # the heartbeat of the last one
        self._sign_reads = 0  # how much had been received at the last sign of life
        self._reads = 0
        self._read_at = now
        self._asked_at: float | None = None  # when the PING of a doubt was sent
        self.not_before = 0.0
        """When the next pull may be sent after a refusal, on the monotonic clock."""
        self._backoff = 0.0
        self._wary_until = 0.0

    # -- pulls and what comes of them --------------------------------------------------------------

    @property
    def outstanding(self) -> int:
        """Messages asked for and neither delivered nor called off."""
        return sum([pull.remaining for pull in self._pulls.values()])

    @property
    def outstanding_bytes(self) -> int:
        """Bytes asked for and neither delivered nor called off, of pulls that limit bytes."""
        return sum(pull.remaining_bytes or 0 for pull in self._pulls.values())

    @property
    def is_open(self) -> bool:
        """Whether some pull has no final status yet."""
        return bool(self._pulls)

    def is_waiting_for(self, number: int) -> bool:
        """Whether this pull has no final status yet."""
        pull = self._pulls.get(number)
        return pull is not None and pull.remaining > 0

    def waiting(self, pending: int) -> int:
        """Messages that wait in the mailbox (``pending``) or are on their way to it. What waits is
        charged to its pull only when it is taken."""
        outstanding = 0
        for pull in self._pulls.values():
            outstanding += pull.remaining
        unclaimed = min(self._unclaimed, pending)
        return unclaimed + max(outstanding, pending - unclaimed)

    def waiting_bytes(self, pending_bytes: int) -> int:
        """Bytes that wait in the mailbox or are on their way, by pulls that limit bytes."""
        if self._unclaimed:
            return self.outstanding_bytes + pending_bytes
        return max(self.outstanding_bytes, pending_bytes)

    def heard(self, reads: int) -> None:
        """Something of this inbox was taken; so much had been received on the link by then."""
        self._sign_reads = reads
        self._asked_at = None

    def sent(self, options: PullOptions, now: float, waiting: int, reads: int = 0) -> int:
        """Note a pull that is being sent; returns its number. ``waiting``: messages in the
        mailbox; ``reads``: how often something was received on the link."""
        if not waiting:
            self._unclaimed = 0
        self.number += 1
        lapses = now + (options.expires or 3600.0)
        self._last_lapse = max(self._last_lapse, lapses) if self._pulls else lapses
        self._beat = options.heartbeat
        self._pulls[self.number] = _Pull(
            options.batch, options.max_bytes, options.heartbeat, lapses, options.id
        )
        self._since = now
        self._sign_reads, self._asked_at = reads, None
        self.not_before = 0.0
        return self.number

    def not_sent(self, number: int, now: float) -> None:
        """Take a pull back that could not be sent: there was no room for it. Try again soon."""
        self._pulls.pop(number, None)
        self.not_before = now + _NO_ROOM_WAIT

    def took(self, count: int, size: int, reads: int = 0) -> None:
        """Charge messages that were taken (and their bytes) to the pulls, oldest first. ``reads``
        is as in :meth:`heard`."""
        self._sign_reads, self._asked_at = reads, None
        self._backoff = 0.0
        if not self._unclaimed:
            for pull in self._pulls.values():
                # As it is nearly always: part of the first pull, or all of the only one.
                if pull.remaining > count and pull.remaining_bytes is None:
                    pull.remaining -= count
                    return
                if pull.remaining == count and len(self._pulls) == 1:
                    self._pulls.clear()
                    return
                break
        unclaimed = min(count, self._unclaimed)
        self._unclaimed -= unclaimed
        self._charge(count - unclaimed, size)

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
        if len(self._pulls) == 1:
            self._pulls.clear()  # this one
            return
        served = [number for number, pull in self._pulls.items() if pull.remaining == 0]
        if len(served) < len(self._pulls):
            served = served[:-_SERVED_KEPT]
        for number in served:
            del self._pulls[number]

    def on_status(
        self, number: int | None, status: int, text: str, left: int | None, now: float, waiting: int
    ) -> Ended | None:
        """Account for a status; None when its pull goes on, or was called off already.

        ``number`` is that of the pull it names, ``left`` how many messages the server says it did
        not send, ``waiting`` how many are in the mailbox.
        """
        fate = fate_of(status, text)
        self._unclaimed = max(0, self._unclaimed - 1)
        if fate is Fate.ALIVE:
            return None
        if fate is Fate.FATAL:
            self.call_off(waiting)
            return Ended(number or 0, fate, status, text)
        if number is None or number < self._first:
            return None
        pull = self._pulls.pop(number, None)
        self._settle(pull, left)
        if pull is None:
            return None
        if fate is Fate.VOID:
            # Every pull of the consumer is void, not only this one.
            self.call_off(waiting)
        if fate in (Fate.VOID, Fate.RETRY):
            self._wary_until = now + _WARY_FOR
        if fate in _WAITS and fate is not Fate.LIMIT:
            self.pause(fate, now)
        return Ended(number, fate, status, text, pull.pin)

    def _settle(self, pull: _Pull | None, left: int | None) -> None:
        """Move what was charged to the wrong pull: the server tells how much of this one is left,
        and with several pulls waiting it serves them in turns, not the oldest first."""
        if left is None:
            return
        wrong = left - (0 if pull is None else pull.remaining)
        if wrong > 0:
            self._charge(wrong, 0)
        elif self._pulls:
            next(iter(self._pulls.values())).remaining -= wrong

    def call_off(self, waiting: int) -> None:
        """Forget every outstanding pull; what is still said about them is ignored."""
        self._pulls.clear()
        self._first = self.number + 1
        self._unclaimed = waiting
        self._asked_at = None

    def forget_lapsed(self, now: float) -> None:
        """Forget pulls of earlier calls that the server should have ended long ago."""
        for number, pull in list(self._pulls.items()):
            if now > pull.lapses + _LAPSE:
                del self._pulls[number]

    def link(self, epoch: int, up: bool, waiting: int) -> bool:
        """Note how the link is; returns whether pulls were lost with the one before."""
        if epoch == self._epoch and up:
            return False
        had = bool(self._pulls)
        self.call_off(waiting)
        if up:
            had = had or epoch != self._epoch
            self._epoch = epoch
        return had

    # -- when to pull ------------------------------------------------------------------------------

    def pause(self, fate: Fate, now: float) -> None:
        """Pull again, but not at once: the server would refuse the next pull just the same."""
        first, longest = _WAITS[fate]
        self._backoff = min(max(first, self._backoff), longest)
        self.not_before = now + self._backoff
        self._backoff *= 2

    def may_pull(self, now: float) -> bool:
        """Whether the pause after the last refusal is over."""
        return now >= self.not_before

    def pull_length(self, expires: float, now: float) -> float:
        """How long a pull may last: right after a change of leader only a moment."""
        return min(expires, 8 * WARY_HEARTBEAT) if now < self._wary_until else expires

    def heartbeat(self, wanted: float | None, expires: float, now: float) -> float | None:
        """The heartbeat of a pull that lasts ``expires`` seconds: quick after a change of leader,
        and none for one that is shorter than two of them."""
        beat = wanted
        if now < self._wary_until:
            beat = WARY_HEARTBEAT if wanted is None else min(wanted, WARY_HEARTBEAT)
        if beat is None or beat * 2 > expires:
            return None
        return beat

    # -- silence -----------------------------------------------------------------------------------

    def next_look(self, now: float, last_put: float) -> float:
        """Seconds until something may have to be done although nothing came: silence would mean
        something, or the pause after a refusal is over."""
        due = now + 3600.0
        if self._pulls:
            due = self._last_lapse + _LAPSE
            if self._beat is not None:
                due = min(due, max(last_put, self._since) + 2 * self._beat)
            if self._asked_at is not None:
                due = max(due, now + self._patience())
        if now < self.not_before < due:
            due = self.not_before
        return max(0.0, due - now) + 0.001

    def _patience(self) -> float:
        return _LAPSE if self._beat is None else min(_LAPSE, 2 * self._beat)

    def _silence_due(self, last_put: float) -> float:
        due = self._last_lapse + _LAPSE
        if self._beat is not None:
            due = min(due, max(last_put, self._since) + 2 * self._beat)
        return due

    def is_receiving(self, reads: int) -> bool:
        """Whether anything was received after the last sign of life."""
        return reads != self._sign_reads

    def silence(
        self, now: float, last_put: float, reads: int, ponged: bool, waiting: int
    ) -> Silence:
        """Judge the silence on this inbox at ``now``.

        ``last_put`` is when the last message or status came, ``reads`` how often anything was
        received on the link, ``ponged`` whether the PING that DOUBT asked for was answered,
        ``waiting`` how many messages are in the mailbox. A large message, of any subscription,
        holds up the heartbeats behind it, and so does everything that waits in a slow link. A PONG
        comes behind all of that: until then silence means nothing as long as bytes arrive.
        """
        if reads != self._reads:
            self._reads, self._read_at = reads, now
        if not self._pulls or now <= self._silence_due(last_put):
            return Silence.NONE
        if self._asked_at is None and reads != self._sign_reads:
            self._asked_at = now
            return Silence.DOUBT
        if self._asked_at is not None and not ponged:
            given_up = max(self._asked_at, self._read_at) + self._patience()
            if now <= given_up:
                return Silence.NONE
        self.call_off(waiting)
        return Silence.DEAD
