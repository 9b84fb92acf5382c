"""The end of a command at a terminal that is gone, or that takes nothing more.

A library that draws a screen cannot end there: its own threads have failed at the terminal, or
wait for it. The kernel ends a process whose controlling terminal is closed (SIGHUP), and no other.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable

from jetsync._threads import Thread, start_thread
from jetsync.cli import interrupts

__all__ = ["TerminalGuard"]

_LOOKS = 0.2
_GRACE = 5.0


class TerminalGuard:
    """While the block runs, signals end it by ``interrupt(signum)``, called in the main thread.

    The process ends with 128 + SIGHUP when the terminal is gone, and with 128 + the signal when the
    block has not ended some seconds after one. A context manager, for the main thread.
    """

    def __init__(self, terminal: int, interrupt: Callable[[int], object]) -> None:
        self._terminal = terminal
        self._interrupt = interrupt
        self._signum = 0
        self._until = 0.0
        self._is_over = threading.Event()
        self._thread: Thread | None = None

    def _on_signal(self, signum: int, _frame: object) -> None:
        self._until = self._until or time.monotonic() + _GRACE
        self._signum = signum
        self._interrupt(signum)

    def _watch(self) -> None:
        terminal = select.poll()
        terminal.register(self._terminal, 0)  # for a hang-up only, which is always told
        while not self._is_over.wait(_LOOKS):
            if terminal.poll(0):
                os._exit(128 + signal.SIGHUP)
            if self._signum and time.monotonic() > self._until:
                os._exit(128 + self._signum)

    def __enter__(self) -> TerminalGuard:
        for signum in interrupts.SIGNALS:
            signal.signal(signum, self._on_signal)
        self._thread = start_thread("terminal", self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        interrupts.restore_interrupts()
        if self._thread is not None:
            self._thread.join()
