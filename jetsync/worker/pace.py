"""Pace: whether one thread suffices for the handlers of a worker, or all of its threads run."""

from __future__ import annotations

import enum

__all__ = ["PATIENCE", "QUICK", "Pace"]

PATIENCE = 0.001
"""Seconds after which a job that waits is given to another thread."""

QUICK = 50e-6
"""Seconds; handlers that take less are run by one thread whatever they do."""

_SHARE = 1 / 32
_LONG = 0.9 * PATIENCE
_WAITED = 0.5
_JOBS = 16
_MANY = 4
_TRIAL = 10 * PATIENCE
_BESIDE = 1.25
_FIRST, _LAST = 0.25, 8.0


class _Phase(enum.Enum):
    QUICK = enum.auto()  # one thread runs them
    LOOK = enum.auto()  # one thread runs, to see whether handlers wait
    TRIAL = enum.auto()  # all run, to see whether handlers run beside each other
    ONE = enum.auto()
    ALL = enum.auto()


class Pace:
    """Judges by how long the last handlers ran. Any thread; calls at the same time may lose one.

    Threads that compete for the interpreter make each other slower, so quick handlers are run by
    one thread. Longer ones of less than ``PATIENCE`` are too, when they keep the interpreter to
    themselves: they do not wait (a processor is busy with them), and with all threads running not
    more than one processor is busy. Both is looked at again later. Others are run by all threads.
    """

    def __init__(self) -> None:
        self.is_one = True
        """Whether one thread suffices."""
        self.is_quick = True
        """Whether handlers are quick; otherwise ``note`` is to know their processor time."""
        self._phase = _Phase.QUICK
        self._jobs = self._waits = 0
        self._total = self._since = 0.0  # of a look: seconds of handlers; of a trial: of processors
        self._seconds = 0.0  # of those that were not quick, of late
        self._stuck, self._stuck_at = 0, 0.0
        self._again = 0.0
        self._interval = _FIRST

    def note(self, seconds: float, cpu: float | None, now: float) -> None:
        """A handler has ended ``now``, and had a processor for ``cpu`` seconds (None: not known).
        Has to be called when it took longer than ``QUICK``, or ``is_quick`` is false.

        A single one that seemed long, since its thread waited for a processor, changes nothing."""
        if self._phase is _Phase.QUICK:
            self._seconds += (min(seconds, PATIENCE) - self._seconds) * _SHARE
            if self._seconds > QUICK:
                self._enter(_Phase.LOOK)
        elif cpu is None:
            return
        elif self.is_one:
            self._note_one(min(seconds, PATIENCE), cpu, now)
        elif self._phase is _Phase.TRIAL:
            self._note_trial(cpu, now)
        elif now >= self._again:
            self._enter(_Phase.LOOK)

    def stuck(self, now: float) -> None:
        """No handler has ended for ``PATIENCE``, though jobs wait."""
        self._stuck = self._stuck + 1 if now - self._stuck_at < _TRIAL else 1
        self._stuck_at = now
        if self._stuck >= _MANY and self.is_one:
            self._settle(_Phase.ALL, now)

    def _note_one(self, seconds: float, cpu: float, now: float) -> None:
        self._jobs += 1
        self._total += seconds
        self._waits += cpu < seconds * _WAITED
        if self._jobs < _JOBS:
            return
        if self._total < _JOBS * QUICK:
            self._seconds, self._interval = 0.0, _FIRST
            self._enter(_Phase.QUICK)
        elif self._waits >= _MANY or self._total > _JOBS * _LONG:
            self._settle(_Phase.ALL, now)
        elif self._phase is _Phase.LOOK:
            self._enter(_Phase.TRIAL)
        else:
            self._enter(_Phase.ONE if now < self._again else _Phase.LOOK)

    def _note_trial(self, cpu: float, now: float) -> None:
        if not self._since:  # the first one began before the others ran
            self._since = now
            return
        self._jobs += 1
        self._total += cpu
        if self._jobs >= _JOBS and now - self._since > _TRIAL:
            beside = self._total > _BESIDE * (now - self._since)
            self._settle(_Phase.ALL if beside else _Phase.ONE, now)

    def _settle(self, phase: _Phase, now: float) -> None:
        """Go on like this for a while, for longer each time."""
        self._enter(phase)
        self._again = now + self._interval
        self._interval = min(2 * self._interval, _LAST)

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self._jobs = self._waits = 0
        self._total = self._since = 0.0
        self.is_quick = phase is _Phase.QUICK
        self.is_one = phase not in (_Phase.TRIAL, _Phase.ALL)
