"""How long the machine itself stood still, so that its pauses are not charged to the library."""

from __future__ import annotations

import threading
import time

STEP = 0.01
COUNTS_FROM = 0.02


class Stalls:
    """A thread that sleeps in short steps and notes every step that took too long.

    ``with Stalls() as stalls: ...; stalls.during(start, end)``
    """

    def __init__(self) -> None:
        self._noted: list[tuple[float, float]] = []  # when it should have woken, and did
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stalls", daemon=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            due = time.monotonic() + STEP
            time.sleep(STEP)
            now = time.monotonic()
            if now - due > COUNTS_FROM:
                self._noted.append((due, now))

    def during(self, start: float, end: float) -> float:
        """Seconds between two moments in which this process did not run when it was ready to."""
        return sum(max(0.0, min(end, woke) - max(start, due)) for due, woke in list(self._noted))

    @property
    def worst(self) -> float:
        """The longest pause seen."""
        return max((woke - due for due, woke in list(self._noted)), default=0.0)

    def __enter__(self) -> Stalls:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
