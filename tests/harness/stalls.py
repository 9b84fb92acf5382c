"""How long the machine itself stood still, so that its pauses are not charged to the library.

A process of its own keeps the time. A thread of the process under test could not: it would wake
late as well when the library keeps the GIL, and take the library's fault for the machine's.
"""

from __future__ import annotations

import mmap
import os
import select
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator

STEP = 0.01
COUNTS_FROM = 0.02
MOST = 100_000
KNOWN_WITHIN = 1.0

HEADER = struct.Struct("=dQ")  # the last moment looked at, and how many pauses follow
PAUSE = struct.Struct("=dd")  # when the process should have woken, and did


def overlap(pauses: Iterable[tuple[float, float]], start: float, end: float) -> float:
    """Seconds of the pauses that lie between two moments."""
    return sum(max(0.0, min(end, woke) - max(start, due)) for due, woke in pauses)


class Stalls:
    """Notes every short sleep of another process that took too long.

    ``with Stalls() as stalls: ...; stalls.during(start, end)``
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._file.truncate(HEADER.size + MOST * PAUSE.size)
        self._seen: mmap.mmap | bytes = mmap.mmap(self._file.fileno(), 0)
        self._process: subprocess.Popen[bytes] | None = None

    def _noted(self) -> Iterator[tuple[float, float]]:
        _, count = HEADER.unpack_from(self._seen)
        for number in range(count):
            due, woke = PAUSE.unpack_from(self._seen, HEADER.size + number * PAUSE.size)
            yield due, woke

    def during(self, start: float, end: float) -> float:
        """Seconds between two moments (``time.monotonic()``) in which the machine stood still."""
        give_up = time.monotonic() + KNOWN_WITHIN
        while HEADER.unpack_from(self._seen)[0] < end and time.monotonic() < give_up:
            time.sleep(STEP / 4)  # between two looks
        return overlap(self._noted(), start, end)

    @property
    def worst(self) -> float:
        """The longest pause seen."""
        return max((woke - due for due, woke in self._noted()), default=0.0)

    def __enter__(self) -> Stalls:
        number = self._file.fileno()
        command = [sys.executable, "-I", "-S", __file__, str(number)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[number])
        begun = time.monotonic()
        while HEADER.unpack_from(self._seen)[0] < begun:
            assert self._process.poll() is None
            time.sleep(STEP / 4)  # between two looks
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        # The notes stay readable after the block, without the descriptor that the map has too.
        shared, self._seen = self._seen, bytes(self._seen)
        assert isinstance(shared, mmap.mmap)
        shared.close()
        self._file.close()


def watch(descriptor: int) -> None:
    """What the other process does, until its stdin ends: look at the clock at every step."""
    with mmap.mmap(descriptor, 0) as seen:
        count = 0
        while True:
            due = time.monotonic() + STEP
            if select.select([0], [], [], STEP)[0] and not os.read(0, 1):
                return
            now = time.monotonic()
            if now - due > COUNTS_FROM and count < MOST:
                PAUSE.pack_into(seen, HEADER.size + count * PAUSE.size, due, now)
                count += 1
            HEADER.pack_into(seen, 0, now, count)


if __name__ == "__main__":
    watch(int(sys.argv[1]))
