"""Ctrl-C in tests: it works however the suite was started, and comes while a call waits.

A suite that runs in the background of a shell inherits an ignored SIGINT and would hand that on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.harness.waiting import alongside

__all__ = ["ctrl_c_when_waiting", "is_waiting"]


def pytest_configure() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def is_waiting(pid: int) -> bool:
    """Whether the main thread of a process waits; True where that cannot be known."""
    return sleeps(str(pid))


def sleeps(task: str) -> bool:
    """Whether a task below ``/proc`` waits; True where that cannot be known."""
    try:
        state = Path(f"/proc/{task}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "S"


@contextlib.contextmanager
def ctrl_c_when_waiting() -> Iterator[None]:
    """Send SIGINT to this process when the main thread has been waiting in the block for a moment;
    it may wait for a shorter time in between, for a lock."""

    def send(over: threading.Event) -> None:
        waits = 0
        while waits < 3:
            if over.wait(0.005):
                return
            waits = waits + 1 if is_waiting(os.getpid()) else 0
        os.kill(os.getpid(), signal.SIGINT)

    with alongside(send):
        yield
