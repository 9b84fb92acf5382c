"""Lifetime: the end of a running worker, its reason and its report; the same for both kinds."""

from __future__ import annotations

import os
import time

from jetsync._deadline import Deadline, Seconds
from jetsync._latch import Latch, Once
from jetsync.errors import ConfigError, ForkedError, TimeoutError
from jetsync.worker.report import WorkerReport, WorkerStats

__all__ = ["Lifetime"]


class Lifetime:
    """The common base of ``Engine`` and ``Processes``. Thread-safe."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._stopping, self._over = Latch(), Latch()
        self._finishing = Once()
        self._is_cut_short = False
        """Ctrl-C interrupted the start: the reason of the next ``stop`` counts."""
        self._reason = "stopped"
        self._started = 0.0
        self.report: WorkerReport | None = None

    def check(self) -> None:
        """Refuse a forked child. Raises ForkedError."""
        if os.getpid() != self._pid:
            raise ForkedError("this worker belongs to the parent process: make one in each process")

    def wait(self, timeout: Seconds | None) -> WorkerReport:
        """Wait for the end. Raises TimeoutError when it has not come in time."""
        if not self._over.wait(Deadline(timeout).remaining()):
            raise TimeoutError("the worker has not ended in time", operation="wait")
        if self.report is None:
            raise ConfigError("the worker could not be started, as start() said: make a new one")
        return self.report

    def _begin_stop(self, reason: str) -> None:
        """Begin the end; the first reason counts."""
        if not self._stopping.is_set() or self._is_cut_short:
            self._reason, self._is_cut_short = reason, False
        self._stopping.set()

    def _finish(self, stats: WorkerStats, unfinished: int) -> None:
        """Make the report, once, and wake every ``wait``."""
        if not self._finishing.first():
            return
        self.report = WorkerReport(
            stats.done,
            stats.retried,
            stats.dead,
            stats.terminated,
            stats.released,
            unfinished,
            time.monotonic() - self._started,
            self._reason,
        )
        self._over.set()
