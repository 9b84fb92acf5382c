"""A test that leaves a thread or a descriptor behind has failed."""

from __future__ import annotations

import gc
import os
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from jetsync._threads import library_threads

__all__ = ["descriptors", "library_threads", "no_leaks"]

GRACE = 2.0
LOOK_EVERY = 0.01


def descriptors() -> set[tuple[int, int]]:
    """What is open: number and inode of sockets, pipes, files; terminals and the like are not."""
    found = set()
    for name in os.listdir("/dev/fd"):
        try:
            about = os.fstat(int(name))
        except OSError:  # the one that listed the folder
            continue
        if not stat.S_ISCHR(about.st_mode):
            found.add((int(name), about.st_ino))
    return found


def describe(leaked: set[tuple[int, int]]) -> list[str]:
    texts = []
    for number, _ in sorted(leaked):
        try:
            texts.append(f"{number} ({os.readlink(f'/dev/fd/{number}')})")
        except OSError:
            texts.append(str(number))
    return texts


def _left(before: set[threading.Thread]) -> set[threading.Thread]:
    """The library's threads that were not there before. In the pool that calls a connection's
    callbacks any thread may be the one that ends, so there it is their number that counts."""
    now = library_threads()
    pools = Counter(map(_pool, now)) - Counter(map(_pool, before))
    return {one for one in now - before if _pool(one) in pools or not _pool(one)}


def _pool(thread: threading.Thread) -> str:
    """The name of the thread without its number in the pool, "" for one that is in no pool."""
    pool, _, _ = thread.name.rpartition("-")
    return pool if pool.startswith("jetsync-dispatch-") else ""


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compare threads and descriptors before and after; wait a little for those on their way out.

    Spark opens gateway sockets of its own when it likes and keeps them for the session.
    """
    if request.node.get_closest_marker("spark"):
        yield
        return
    threads, opened = library_threads(), descriptors()
    yield
    deadline = time.monotonic() + GRACE
    while True:
        left = (_left(threads), descriptors() - opened)
        if not any(left):
            return
        if time.monotonic() > deadline:
            names = sorted(thread.name for thread in left[0])
            pytest.fail(f"left behind: threads {names}, descriptors {describe(left[1])}")
        gc.collect()
        time.sleep(LOOK_EVERY)  # between two looks
