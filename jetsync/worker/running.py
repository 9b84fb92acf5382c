"""run: a worker in the foreground, ended by signals."""

from __future__ import annotations

import faulthandler
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from jetsync.errors import TimeoutError
from jetsync.worker.report import WorkerReport
from jetsync.worker.worker import Worker

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync.worker.fields import WorkerFields

__all__ = ["run", "run_all"]

_LOOK = 0.2


def run(
    source: Any, handler: Callable[[Any], Any], **options: Unpack[WorkerFields]
) -> WorkerReport:
    """Work until a signal comes or the source is over. Blocks; returns what was done.

    On the main thread SIGTERM and the first Ctrl-C drain the worker, a second Ctrl-C raises
    KeyboardInterrupt at once, and SIGUSR1 prints the stacks of all threads to stderr. Options and
    errors are those of :class:`Worker`.
    """
    return run_all([Worker(source, handler, **options)])[0]


def run_all(workers: Sequence[Worker]) -> list[WorkerReport]:
    """The same for several workers, which all end when one does."""
    with _signals() as came:
        started: list[Worker] = []
        try:
            for worker in workers:
                started.append(worker.start())
            while not came and all(worker.is_running for worker in started):
                _wait(started[0])
            reason = came[0] if came else "another worker of this process has ended"
            return [
                worker.interrupted(reason) if worker.is_running else worker.wait()
                for worker in started
            ]
        except BaseException:
            for worker in started:
                worker.stop()
            raise


def _wait(worker: Worker) -> None:
    try:
        worker.wait(_LOOK)
    except TimeoutError:
        pass


@contextmanager
def _signals() -> Iterator[list[str]]:
    """Collect the names of signals that ask for the end; on the main thread only."""
    came: list[str] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def end(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and "SIGINT" in came:
            raise KeyboardInterrupt
        came.append(signal.Signals(number).name)

    def show(_number: int, _frame: FrameType | None) -> None:
        faulthandler.dump_traceback(sys.stderr, all_threads=True)

    wanted = {signal.SIGTERM: end, signal.SIGINT: end, signal.SIGUSR1: show}
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
