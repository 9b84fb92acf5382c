"""Waiting for conditions instead of sleeping for luck."""

from __future__ import annotations

import time

from jetsync.testing.waiting import wait_until

__all__ = ["later", "wait_until"]


def later(seconds: float) -> None:
    """Let so much time pass: for an outage that lasts so long, not for something to happen."""
    time.sleep(seconds)  # the one wait that tests import
