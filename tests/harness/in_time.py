"""A single call held to its timeout, as ``reliability/test_time_law.py`` holds all of them (P2)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest

from tests.harness.stalls import Stalls

GRACE = 0.25

InTime = Callable[..., contextlib.AbstractContextManager[None]]


@pytest.fixture
def in_time() -> Iterator[InTime]:
    """``with in_time(0.3): call()``: the call takes at most this and the 0.25 s of P2, without the
    time for which the machine itself stood still; and no less than ``least``."""
    with Stalls() as stalls:

        @contextlib.contextmanager
        def hold(timeout: float, *, least: float = 0.0) -> Iterator[None]:
            begun = time.monotonic()
            yield
            over = time.monotonic()
            assert over - begun >= least
            assert over - begun - stalls.during(begun, over) <= timeout + GRACE

        yield hold
