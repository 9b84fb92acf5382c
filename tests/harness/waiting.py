"""Waiting for conditions instead of sleeping for luck."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from jetsync.testing.waiting import wait_until

__all__ = ["alongside", "later", "wait_until"]


def later(seconds: float) -> None:
    """Let so much time pass: for an outage that lasts so long, not for something to happen."""
    time.sleep(seconds)  # the one wait that tests import


@contextlib.contextmanager
def alongside(work: Callable[[threading.Event], object]) -> Iterator[None]:
    """Run ``work(over)`` on a thread during the block; it has to end when ``over`` is set."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
