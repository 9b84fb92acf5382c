"""Waiting for conditions instead of sleeping for luck."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["wait_until"]

T = TypeVar("T")

_CHECK_EVERY = 0.005


def wait_until(
    predicate: Callable[[], T],
    timeout: float = 5.0,
    message: str | Callable[[], str] | None = None,
) -> T:
    """Return what ``predicate()`` gives as soon as that is true. Blocks up to ``timeout`` seconds.

    Raises AssertionError then, with ``message``: a function is called for it at that moment, and
    can tell how far things have come. What the predicate raises goes through.
    """
    deadline = time.monotonic() + timeout
    while True:
        is_last = time.monotonic() > deadline
        if found := predicate():
            return found
        if is_last:
            text = message() if callable(message) else message
            raise AssertionError(text or f"the condition did not hold within {timeout:g} s")
        time.sleep(_CHECK_EVERY)
