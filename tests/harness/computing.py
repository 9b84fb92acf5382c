"""A thread that computes beside the calls of a test, and counts what they leave to it."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.harness.waiting import wait_until

__all__ = ["INTERVAL", "Computing", "computing"]

INTERVAL = 0.005  # seconds, of CPython: after that a thread asks for the GIL


class Computing(threading.Thread):
    """Python code that never waits."""

    def __init__(self) -> None:
        super().__init__(name="computing")
        self.rounds = 0
        self._gives_way = False
        self._end = False

    def run(self) -> None:
        while not self._end:
            self.rounds += 1
            if self._gives_way:
                time.sleep(0)  # gives the GIL up

    def finish(self) -> None:
        self._end = True
        self.join()

    @property
    def seconds(self) -> float:
        """The processor time that it has had."""
        assert self.ident is not None
        return time.clock_gettime(time.pthread_getcpuclockid(self.ident))

    def runs_during(self, call: Callable[[], object]) -> bool:
        """Whether `call` gives the GIL up: this thread comes to run only where it does."""
        self._gives_way = True
        sys.setswitchinterval(60)  # from here on no thread is thrown out
        try:
            time.sleep(2 * INTERVAL)  # for this thread to wait by that interval
            before = self.rounds
            call()
            return self.rounds != before
        finally:
            sys.setswitchinterval(INTERVAL)
            self._gives_way = False


@contextlib.contextmanager
def computing() -> Iterator[Computing]:
    """Run such a thread during the block."""
    assert sys.getswitchinterval() == pytest.approx(INTERVAL)
    thread = Computing()
    thread.start()
    wait_until(lambda: thread.rounds > 0)
    try:
        yield thread
    finally:
        thread.finish()
