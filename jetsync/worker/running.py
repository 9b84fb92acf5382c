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

from jetsync._signatures import check_options, spells_out
from jetsync._threads import ThreadPool
from jetsync.errors import ConfigError, TimeoutError
from jetsync.worker.options import WorkerOptions
from jetsync.worker.report import WorkerReport
from jetsync.worker.worker import Foreground, Worker

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync.worker.fields import WorkerFields

__all__ = ["run", "run_all"]

_CHECK_EVERY = 0.2


class _Asked(KeyboardInterrupt):
    """A signal asks for the end while the workers are being started."""


class _Signals:
    """The names of the signals that have come."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self.is_starting = False


@spells_out(Worker)
def run(
    source: Any, handler: Callable[[Any], Any], **options: Unpack[WorkerFields]
) -> WorkerReport:
    """Call ``handler`` with each message until a signal comes or the source is over. Blocks;
    returns what was done.

    On the main thread SIGTERM and the first Ctrl-C drain the worker, a second Ctrl-C kills its
    processes and raises KeyboardInterrupt at once, and SIGUSR1 prints the stacks of all threads to
    stderr. Options and errors (ConfigError before it begins) are those of :class:`Worker`.
    """
    check_options("run", options, WorkerOptions)
    return run_all([Worker(source, handler, **options)])[0]


def run_all(workers: Sequence[Worker]) -> list[WorkerReport]:
    """The same for several workers, which all end when one does, and drain at the same time."""
    with _signals() as signals:
        try:
            _start(workers, signals)
            while not signals.came and all(worker.is_running for worker in workers):
                _wait(workers[0])
            reason = signals.came[0] if signals.came else "another worker of this process has ended"
            pool = ThreadPool("worker-drain", len(workers))
            reports = [pool.submit(_end, worker, reason) for worker in workers]
            pool.close()
            return [report.result() for report in reports]
        except BaseException as error:
            for worker in workers:
                if worker.is_running:
                    Foreground(worker).abandon(type(error).__name__)
            raise


def _start(workers: Sequence[Worker], signals: _Signals) -> None:
    """Start them, until a signal comes."""
    try:
        signals.is_starting = True
        for worker in workers:
            if signals.came:
                break
            worker.start()
        signals.is_starting = False
    except _Asked:
        pass


def _end(worker: Worker, reason: str) -> WorkerReport:
    if worker.is_running:
        return Foreground(worker).interrupted(reason)
    try:
        return worker.wait()
    except ConfigError:  # a signal came before it had begun
        return WorkerReport(0, 0, 0, 0, 0, 0, 0.0, reason)


def _wait(worker: Worker) -> None:
    try:
        worker.wait(_CHECK_EVERY)
    except TimeoutError:
        pass


@contextmanager
def _signals() -> Iterator[_Signals]:
    """Collect the names of signals that ask for the end; on the main thread only."""
    signals = _Signals()
    came = signals.came
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return

    def end(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and "SIGINT" in came:
            raise KeyboardInterrupt
        came.append(signal.Signals(number).name)
        if signals.is_starting:
            signals.is_starting = False
            raise _Asked

    def show(_number: int, _frame: FrameType | None) -> None:
        faulthandler.dump_traceback(sys.stderr, all_threads=True)

    wanted = {signal.SIGTERM: end, signal.SIGINT: end, signal.SIGUSR1: show}
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
