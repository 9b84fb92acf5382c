"""The state of one pull inbox: outstanding pulls, what they brought, when to pull again.

No I/O and no clock of its own: every method that depends on the time takes ``now``. Its input are
counts of messages, statuses, changes of the link and received bytes; its output are the pulls that
may be sent, the time of the next check, and whether the server has gone silent. The account, which
is used for every chunk of messages, is compiled (``_core/pulls.pyx``); here is what statuses, links
and silence do to it. ``pull/inbox.py`` joins both to a connection.

Each pull has a reply subject of its own under one wildcard inbox, so a status names its pull. Data
messages do not: they arrive under the subject they were stored with. So data is charged to the
oldest pull, and the status that ends a pull corrects the charge (ADR-13, ADR-37).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jetsync._core.pulls import PullLedger
from jetsync.jetstream.pull.statuses import Fate, fate_of
from jetsync.jetstream.silence import Silence, judge_silence

__all__ = ["Ended", "PullState"]

_WARY_FOR = 1.0

# Seconds before a refused pull is sent again: the first wait and the longest.
_WAITS = {
    Fate.VOID: (0.01, 0.25),
    Fate.RETRY: (0.01, 0.25),
    Fate.LOST: (0.05, 0.25),
    Fate.WARN: (0.1, 1.0),
    Fate.LIMIT: (0.1, 1.0),
}


@dataclass(frozen=True)
class Ended:
    """A status that ended a pull, or refused one."""

    number: int
    fate: Fate
    status: int
    text: str
    pin: str | None = None


class PullState(PullLedger):
    """The outstanding pulls of one inbox. For one thread at a time."""

    def __init__(self, now: float, epoch: int) -> None:
        super().__init__(now)
        self._epoch = epoch
        self._reads = 0
        self._read_at = now

    def on_status(
        self, number: int | None, status: int, text: str, left: int | None, now: float, waiting: int
    ) -> Ended | None:
        """Account for a status; None when its pull goes on, or was given up before.

        ``number`` is that of the pull it names, ``left`` how many messages the server says it did
        not send, ``waiting`` how many are in the mailbox.
        """
        fate = fate_of(status, text)
        self.took_status()
        if fate is Fate.ALIVE:
            return None
        if fate is Fate.FATAL:
            self.call_off(waiting)
            return Ended(number or 0, fate, status, text)
        if number is None or not self.is_current(number):
            return None
        pull = self.settle(number, left)
        if pull is None:
            return None
        if fate is Fate.VOID:
            # Every pull of the consumer is void, not only this one.
            self.call_off(waiting)
        if fate in (Fate.VOID, Fate.RETRY):
            self.be_wary(now + _WARY_FOR)
        if fate in _WAITS and fate is not Fate.LIMIT:
            self.back_off_for(fate, now)
        return Ended(number, fate, status, text, pull.pin)

    def back_off_for(self, fate: Fate, now: float) -> None:
        """Pull again, but not at once: the server would refuse the next pull just the same."""
        first, longest = _WAITS[fate]
        self.back_off(first, longest, now)

    def link(self, epoch: int, up: bool, waiting: int) -> bool:
        """Note how the link is; returns whether pulls were lost with the one before."""
        if epoch == self._epoch and up:
            return False
        had = self.is_open
        self.call_off(waiting)
        if up:
            had = had or epoch != self._epoch
            self._epoch = epoch
        return had

    # -- silence -----------------------------------------------------------------------------------

    def is_receiving(self, reads: int) -> bool:
        """Whether anything was received after the last sign of life."""
        return reads != self.sign_reads

    def silence(
        self,
        now: float,
        last_put: float,
        reads: int,
        ponged: bool,
        waiting: int,
        has_unread: Callable[[], bool] = lambda: False,
    ) -> Silence:
        """Judge the silence on this inbox at ``now``.

        ``last_put`` is when the last message or status came, ``reads`` how often anything was
        received on the link, ``ponged`` whether the PING that DOUBT asked for was answered,
        ``waiting`` how many messages are in the mailbox, ``has_unread`` whether there are bytes
        that were not received yet. See ``judge_silence``; DEAD calls the pulls off: pull again.
        """
        if reads != self._reads:
            self._reads, self._read_at = reads, now
        if not self.is_open or now <= self.silence_due(last_put):
            return Silence.NONE
        silence = judge_silence(
            now,
            asked_at=self.asked_at,
            ponged=ponged,
            is_receiving=self.is_receiving(reads),
            read_at=self._read_at,
            patience=self.patience(),
            has_unread=has_unread,
        )
        if silence is Silence.DOUBT:
            self.asked_at = now
        elif silence is Silence.DEAD:
            self.call_off(waiting)
        return silence
