"""A test that leaves a thread or a descriptor behind has failed."""

from __future__ import annotations

import gc
import os
import threading
import time

import pytest

GRACE = 3.0


def _threads() -> set[str]:
    return {t.name for t in threading.enumerate() if t.name.startswith("jetsync-")}


def _sockets() -> set[str]:
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


@pytest.fixture(autouse=True)
def no_leaks(request):
    """Compare threads and sockets before and after; wait a little for those on their way out."""
    if request.node.get_closest_marker("spark"):
        # Spark keeps gateway sockets of its own open for the session.
        yield
        return
    threads, sockets = _threads(), _sockets()
    yield
    deadline = time.monotonic() + GRACE
    while True:
        left = (_threads() - threads, _sockets() - sockets)
        if not any(left):
            return
        if time.monotonic() > deadline:
            pytest.fail(f"left behind: threads {left[0] or 'none'}, sockets {left[1] or 'none'}")
        gc.collect()
        time.sleep(0.01)
