"""How long a program waited for a processor, so that a busy machine is not charged to the library.

The kernel counts it for the main thread of each process. What other threads of the program compute
meanwhile is charged to the program only where a processor is free: a test of promised times runs
alone.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

STEP = 0.005


def waited_for_processor(pid: int | None = None) -> float:
    """Seconds for which the main thread of a process (None: this one) has waited so far; 0.0 where
    the system does not count them."""
    try:
        counts = Path(f"/proc/{'self' if pid is None else pid}/schedstat").read_text().split()
    except OSError:
        return 0.0
    return int(counts[1]) / 1e9 if len(counts) > 1 else 0.0


class Waiting:
    """Notes again and again how long a process has waited for a processor in all."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._noted: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Waiting:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(STEP):
            if waited := waited_for_processor(self._pid):
                self._noted.append((time.monotonic(), waited))

    def since(self, moment: float) -> float:
        """Seconds of waiting between a moment (``time.monotonic()``) and the end."""
        later = [waited for at, waited in self._noted if at >= moment]
        return later[-1] - later[0] if later else 0.0
