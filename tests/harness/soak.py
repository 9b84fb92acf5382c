"""How long a test goes on: the short form of every commit, or the long one of the night."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

ENVIRONMENT_VARIABLE = "JETSYNC_SOAK"

SOAKING = os.environ.get(ENVIRONMENT_VARIABLE, "") not in ("", "0")
"""Whether this is the long form (``make soak``)."""


def scaled(short: T, long: T) -> T:
    """Return the size for this run. A test has one body, whatever its size."""
    return long if SOAKING else short
