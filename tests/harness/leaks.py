"""A test that leaves a thread or a descriptor behind has failed."""

from __future__ import annotations

import gc
import os
import socket
import stat
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from jetsync._threads import library_threads
from jetsync.client import shared
from tests.harness.insides import label_of

__all__ = ["descriptors", "library_threads", "no_leaks"]

LOOKS = 200
LOOK_EVERY = 0.01
"""Seconds in which what is on its way out can run, before each look. Not a time for all of them: to
collect garbage takes a second in a process with thousands of tests, and stops every thread."""


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


def of_spark(leaked: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Those that py4j opened: Spark's gateway opens one when Python drops an object of the JVM,
    also long after the tests of Spark that ran in this process."""
    if "py4j" not in sys.modules:
        return set()
    gateways = [one for one in gc.get_objects() if str(type(one).__module__).startswith("py4j")]
    sockets = [getattr(one, "socket", None) for one in gateways]
    numbers = {one.fileno() for one in sockets if isinstance(one, socket.socket)}
    return {one for one in leaked if one[0] in numbers}


def describe(leaked: set[tuple[int, int]]) -> list[str]:
    """What each is: where it leads, and what kinds of objects keep a socket of Python."""
    owners = {one.fileno(): one for one in gc.get_objects() if isinstance(one, socket.socket)}
    texts = []
    for number, _ in sorted(leaked):
        try:
            text = f"{number} ({os.readlink(f'/dev/fd/{number}')})"
        except OSError:
            text = str(number)
        if number in owners:
            text += f" {_ends(owners[number])} kept by {_keepers(owners[number])}"
        texts.append(text)
    return texts


def _ends(sock: socket.socket) -> str:
    """The ports of a socket."""
    ports = []
    for end in (sock.getsockname, sock.getpeername):
        try:
            ports.append(str(end()[1:2]).strip("(),"))
        except OSError:
            ports.append("none")
    return " to ".join(ports)


def _keepers(one: object) -> str:
    found = {type(keeper).__name__ for keeper in gc.get_referrers(one)}
    return " ".join(sorted(found - {"dict", "frame"}))


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


def of_shared_connections() -> set[threading.Thread]:
    """Those that serve connections of ``shared_connection``, which a process keeps."""
    labels = {label_of(nc) for nc in shared._connections.values()}
    return {one for one in library_threads() if labels & set(one.name.split("-"))}


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compare threads and descriptors before and after; wait a little for those on their way out.

    Spark opens gateway sockets of its own when it likes and keeps them for the session, so beside
    it only threads count, but for those of shared connections, which are kept as users keep them.
    """
    has_spark = request.node.get_closest_marker("spark") is not None
    threads, opened = library_threads(), descriptors()
    yield
    for _ in range(LOOKS):
        if has_spark:
            left = (_left(threads | of_shared_connections()), set[tuple[int, int]]())
        else:
            left = (_left(threads), descriptors() - opened)
        if not any(left):
            return
        gc.collect()
        time.sleep(LOOK_EVERY)  # between two looks
    left = (left[0], left[1] - of_spark(left[1]))
    if any(left):
        names = sorted(thread.name for thread in left[0])
        pytest.fail(f"left behind: threads {names}, descriptors {describe(left[1])}")
