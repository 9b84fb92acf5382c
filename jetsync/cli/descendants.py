"""Find and end the processes that a child process has started, even after the child has ended.

Spark's JVM starts Python processes of its own. They leave when the JVM has left, but a moment
later, and then their parent is gone. A variable in the environment, which every descendant
inherits, still tells them. Without ``/proc`` nothing is done: they end by themselves.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

__all__ = ["Descendants"]

_VARIABLE = "JETSYNC_STARTED_BY"
_POLL_SECONDS = 0.02


class Descendants:
    """The processes started in ``inheriting()`` blocks, with all that those started."""

    def __init__(self) -> None:
        self._value = uuid4().hex
        self._entry = f"{_VARIABLE}={self._value}".encode()

    @contextmanager
    def inheriting(self) -> Iterator[None]:
        """Tag the processes that are started in this block."""
        os.environ[_VARIABLE] = self._value
        try:
            yield
        finally:
            del os.environ[_VARIABLE]

    def pids(self) -> list[int]:
        """Return those that run now."""
        return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if self._owns(entry)]

    def end(self, patience: float) -> None:
        """Wait up to ``patience`` seconds for all to leave by themselves, then kill the rest."""
        deadline = time.monotonic() + patience
        while pids := self.pids():
            if time.monotonic() >= deadline:
                for pid in pids:
                    _kill(pid)
            time.sleep(_POLL_SECONDS)

    def _owns(self, process: Path) -> bool:
        try:
            return self._entry in (process / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended meanwhile, or is another user's
            return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it ended first
