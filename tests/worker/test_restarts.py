"""The parent of worker processes comes to its end, also when no more processes can be started."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.connection import Connection
from typing import Any

import pytest

import jetsync
from jetsync import ConfigError, Error
from jetsync.worker import Backoff, Worker, WorkSource
from jetsync.worker.worker import Foreground
from tests.harness.waiting import wait_until
from tests.worker import jobs

DIES, LIVES = "dies", "lives"


class MadeProcess:
    """A process that says it is up, and then dies or lives; or cannot be started."""

    def __init__(self, context: MadeContext, pipe: Any) -> None:
        self._context, self._pipe = context, pipe
        self._kind = context.kinds.pop(0)
        self._code: int | None = None

    def start(self) -> None:
        self._context.starts += 1
        if self._kind not in (DIES, LIVES):
            raise OSError(self._kind)
        self.sentinel, self._end = os.pipe()
        self._orders = Connection(os.dup(self._pipe.fileno()))
        self._pipe.send(("state", (None, {})))
        if self._kind == DIES:
            self._context.dying.append(self)

    @property
    def exitcode(self) -> int | None:
        if self._code is None and not self._context.is_deaf and self._orders.poll():
            self.die()
        return self._code

    def die(self) -> None:
        self._code = -9
        os.close(self._end)
        self._orders.close()

    def kill(self) -> None:
        if self._code is None:
            self.die()
        if self._context.kill_fails:
            raise PermissionError

    def join(self) -> None:
        assert self._code is not None

    def close(self) -> None:
        os.close(self.sentinel)


class MadeContext:
    """Stands for multiprocessing: each process is of the next kind."""

    Pipe = staticmethod(multiprocessing.Pipe)

    def __init__(self, *kinds: str) -> None:
        self.kinds = list(kinds)
        self.starts = 0
        self.kill_fails = self.is_deaf = False
        self.dying: list[MadeProcess] = []

    def Process(self, *, target: object, args: tuple[Any, ...], name: str) -> MadeProcess:
        return MadeProcess(self, args[-1])


def worker_of(context: MadeContext, monkeypatch: pytest.MonkeyPatch, tries: int | None) -> Worker:
    monkeypatch.setattr(multiprocessing, "get_context", lambda _method: context)
    source = WorkSource("S", "C", options=jetsync.ConnectOptions())
    backoff = Backoff(0.01, limit=0.01, tries=tries)
    return Worker(source, jobs.handle, processes=2, restart_backoff=backoff)


def test_a_process_that_could_not_be_started_again_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
):
    context = MadeContext(DIES, LIVES, "no memory", "no memory", LIVES)
    worker = worker_of(context, monkeypatch, None).start()
    context.dying[0].die()
    wait_until(lambda: context.starts == 5)
    assert worker.is_running
    context.is_deaf = context.kill_fails = True
    Foreground(worker).abandon("over")
    assert worker.wait(5).reason.startswith("over")


def test_a_worker_whose_processes_cannot_be_started_again_ends(monkeypatch: pytest.MonkeyPatch):
    context = MadeContext(DIES, LIVES, "no memory")
    worker = worker_of(context, monkeypatch, 2).start()
    context.dying[0].die()
    assert "has died 2 times" in worker.wait(5).reason


def test_processes_that_cannot_be_started_at_first_are_an_error(monkeypatch: pytest.MonkeyPatch):
    context = MadeContext(LIVES, "no memory")
    worker = worker_of(context, monkeypatch, None)
    with pytest.raises(Error, match=r"process 2 .* could not be started: no memory"):
        worker.start()
    with pytest.raises(ConfigError, match="could not be started"):
        worker.wait(1)


def test_a_second_ctrl_c_while_processes_come_up_kills_them(monkeypatch: pytest.MonkeyPatch):
    """Before the thread runs that looks after them: nothing else would end them."""
    context = MadeContext(LIVES, LIVES)
    worker = worker_of(context, monkeypatch, None)
    made: list[MadeProcess] = []

    def press(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(MadeProcess, "join", lambda process: made.append(process))
    monkeypatch.setattr("jetsync.worker.processes.connection.wait", press)
    monkeypatch.setattr("jetsync.worker.processes.start_thread", press)
    context.is_deaf = True
    with pytest.raises(KeyboardInterrupt):
        worker.start()
    Foreground(worker).abandon("KeyboardInterrupt")
    assert [process.exitcode for process in made] == [-9, -9]
    assert not worker.is_running
