"""Waiting for conditions instead of sleeping for luck."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_EVERY = 0.005


def wait_until(condition: Callable[[], object], *, timeout: float, message: str = "") -> None:
    """Return as soon as the condition holds; fail when it does not within ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(message or f"the condition did not hold within {timeout} s")
        time.sleep(LOOK_EVERY)
