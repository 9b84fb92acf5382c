"""A connection that is refused faster than it is made."""

from __future__ import annotations

import sys

import pytest

import jetsync


def test_a_refusal_before_the_constructor_is_done_is_an_ordinary_one():
    """The reader thread may give up, and close everything, while the caller is still building."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(200):
            with pytest.raises(jetsync.NoServersError):
                jetsync.connect("nats://127.0.0.1:1", connect_timeout=1)
    finally:
        sys.setswitchinterval(interval)
