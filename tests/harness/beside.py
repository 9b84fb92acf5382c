"""Tests beside each other: ``pytest --beside 6``.

The tests are collected once. Then this process forks, and each child takes one group of tests after
another (``tests/harness/lanes.py``), in their order. What it reports of a test this process tells,
as if the test had run here. When a child dies, the test that it was at has failed, and another
child goes on with what it had taken.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, pairwise
from typing import Any

import pytest

from tests.harness import brief
from tests.harness.lanes import SPARK_SESSION, group, rank

Items = list[pytest.Item]

NUMBER = struct.Struct("=I")
LOOK_EVERY = 1.0
CHUNK = 1 << 16


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--beside", type=int, default=1, help="how many tests run beside each other")


def pytest_collection_modifyitems(config: pytest.Config, items: Items) -> None:
    for item in items:
        if SPARK_SESSION in getattr(item, "fixturenames", ()):
            assert group(item.nodeid) == SPARK_SESSION, f"{item.nodeid} would start another Spark"
    if config.option.beside > 1:
        items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    options = session.config.option
    if options.beside < 2 or options.collectonly or session.testsfailed:
        return None  # goes on as ever, which also tells of files that cannot be collected
    Parent(session, options.beside).run()
    return True


def grouped(items: Iterable[pytest.Item]) -> list[Items]:
    groups: dict[str, Items] = {}
    for item in items:
        groups.setdefault(group(item.nodeid), []).append(item)
    return list(groups.values())


class Child:
    """One of the processes that run tests, as its parent sees it."""

    def __init__(self, pid: int, reports: int) -> None:
        self.pid = pid
        self.reports = reports
        self.left: Items = []  # what it has taken and not ended
        self.is_done = False
        self._unread = b""

    def read(self) -> Iterator[dict[str, Any]]:
        """What it said since; an empty read is the end of its pipe. Does not block."""
        while True:
            try:
                data = os.read(self.reports, CHUNK)
            except BlockingIOError:
                return
            if not data:
                return
            *lines, self._unread = (self._unread + data).split(b"\n")
            yield from map(json.loads, lines)


class Parent:
    """Forks the children, and tells what they report."""

    def __init__(self, session: pytest.Session, count: int) -> None:
        self._session = session
        self._config = session.config
        self._groups = grouped(session.items)
        self._count = min(count, len(self._groups))
        self._selector = selectors.DefaultSelector()
        self._children: list[Child] = []
        self._work, end = os.pipe()
        # All fits into the pipe; its end is the end of the work.
        os.write(end, b"".join(NUMBER.pack(n) for n in range(len(self._groups))))
        os.close(end)

    def run(self) -> None:
        assert threading.active_count() == 1, "what forks has no threads"
        gc.collect()
        gc.freeze()  # thousands of tests that no child needs to look through
        try:
            for _ in range(self._count):
                self._fork([])
            while self._children:
                self._look()
        finally:
            for child in self._children:
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
            os.close(self._work)
            self._selector.close()

    def _fork(self, first: Items) -> None:
        reports, end = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            for other in [reports, *(child.reports for child in self._children)]:
                os.close(other)
            run_child(self._session, self._groups, self._work, end, first)
        os.close(end)
        os.set_blocking(reports, False)
        child = Child(pid, reports)
        child.left = list(first)
        self._children.append(child)
        self._selector.register(reports, selectors.EVENT_READ, child)

    def _look(self) -> None:
        for key, _ in self._selector.select(LOOK_EVERY):
            self._tell(key.data)
        for child in list(self._children):
            if os.waitpid(child.pid, os.WNOHANG)[0]:
                self._ended(child)
        session = self._session
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)

    def _tell(self, child: Child) -> None:
        hook = self._config.hook
        for said in child.read():
            if "took" in said:
                child.left += self._groups[said["took"]]
            elif "ended" in said:
                child.left = [item for item in child.left if item.nodeid != said["ended"]]
            elif "done" in said:
                child.is_done = True
            else:
                report = hook.pytest_report_from_serializable(config=self._config, data=said)
                if isinstance(report.longrepr, list):  # where and why a test was skipped
                    report.longrepr = tuple(report.longrepr)
                hook.pytest_runtest_logreport(report=report)

    def _ended(self, child: Child) -> None:
        self._tell(child)
        self._selector.unregister(child.reports)
        os.close(child.reports)
        self._children.remove(child)
        if not child.is_done:
            if child.left:
                self._tell_crash(child.left.pop(0))
            self._fork(child.left)

    def _tell_crash(self, item: pytest.Item) -> None:
        said = "the process that ran this test died"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "call")
        self._config.hook.pytest_runtest_logreport(report=report)


class Sender:
    """Reports to the parent what this process's tests do."""

    def __init__(self, config: pytest.Config, pipe: int) -> None:
        self._config = config
        self._pipe = pipe

    def send(self, **said: object) -> None:
        left = json.dumps(said).encode() + b"\n"
        while left:
            left = left[os.write(self._pipe, left) :]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        self.send(**hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.send(ended=nodeid)


def run_child(
    session: pytest.Session, groups: list[Items], work: int, pipe: int, first: Items
) -> None:
    """What a child does, until there is no more work. Does not return."""
    code = 1
    try:
        keep_quiet(session.config)
        # Folders of tests are made and cleared by each process below a root of its own.
        os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.mkdtemp(prefix="jetsync-tests-")
        sender = Sender(session.config, pipe)
        session.config.pluginmanager.register(sender)

        def take() -> Items:
            data = os.read(work, NUMBER.size)
            if not data:
                return []
            number = NUMBER.unpack(data)[0]
            sender.send(took=number)
            return groups[number]

        # What one test and the next one share, such as the session's server, is kept between them.
        for item, after in pairwise(chain(one_by_one(first, take), [None])):
            if item is not None:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        sender.send(done=True)
        code = 0
    finally:
        os._exit(code)


def one_by_one(first: Items, take: Callable[[], Items]) -> Iterator[pytest.Item]:
    """The items of the first group, and of one group after another as they are taken."""
    items = first or take()
    while items:
        yield from items
        items = take()


def keep_quiet(config: pytest.Config) -> None:
    """Let the reporters of this process write to nowhere; captured output has files of its own."""
    os.environ.pop(brief.ENVIRONMENT_VARIABLE, None)
    capture = config.pluginmanager.get_plugin("capturemanager")
    assert capture is not None
    capture.stop_global_capturing()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    capture.start_global_capturing()
    capture.suspend_global_capture()
