"""Waiting for conditions instead of sleeping for luck."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_EVERY = 0.005


def later(seconds: float) -> None:
    """Let so much time pass: for an outage that lasts so long, not for something to happen."""
    time.sleep(seconds)


def wait_until(condition: Callable[[], T], *, timeout: float = 5.0, message: str = "") -> T:
    """Return what the condition gives as soon as that is true.

    Fails when it is not within ``timeout`` seconds. What the condition raises goes through.
    """
    deadline = time.monotonic() + timeout
    while True:
        is_last_look = time.monotonic() > deadline
        if held := condition():
            return held
        if is_last_look:
            raise AssertionError(message or f"the condition did not hold within {timeout} s")
        time.sleep(LOOK_EVERY)
