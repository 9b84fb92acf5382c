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


class Waiting:
    """Notes again and again how long a process has waited for a processor in all."""

    def __init__(self, pid: int) -> None:
        self._counts = Path(f"/proc/{pid}/schedstat")
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
            try:
                waited = int(self._counts.read_text().split()[1])
            except (OSError, IndexError):  # it is over, or this system does not count
                return
            self._noted.append((time.monotonic(), waited / 1e9))

    def since(self, moment: float) -> float:
        """Seconds of waiting between a moment (``time.monotonic()``) and the end."""
        later = [waited for at, waited in self._noted if at >= moment]
        return later[-1] - later[0] if later else 0.0
