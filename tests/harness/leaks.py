"""A test that leaves a thread or a descriptor behind has failed."""

from __future__ import annotations

import gc
import os
import stat
import time
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
        left = (library_threads() - threads, descriptors() - opened)
        if not any(left):
            return
        if time.monotonic() > deadline:
            names = sorted(thread.name for thread in left[0])
            pytest.fail(f"left behind: threads {names}, descriptors {describe(left[1])}")
        gc.collect()
        time.sleep(LOOK_EVERY)  # between two looks
