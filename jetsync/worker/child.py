"""The child process of a worker."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jetsync._latch import Latch
from jetsync._threads import start_thread
from jetsync.errors import Error
from jetsync.worker.engine import Engine
from jetsync.worker.options import WorkerOptions, WorkSource

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["child_main"]

_TELL_EVERY = 0.25


class _Orders:
    """Orders of the parent or of a signal. The pipe ends when the parent dies: drain."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.came = Latch()
        self.limit: float | None = None
        self.is_stop = False

    def listen(self) -> None:
        """Read orders until the pipe ends."""
        while True:
            try:
                order = self._pipe.recv()
            except (EOFError, OSError):
                self.is_stop = False
                self.came.set()
                return
            if order == "stop":
                self.is_stop = True
            else:
                self.is_stop, self.limit = False, order[1]
            self.came.set()


def child_main(
    source: WorkSource, handler: Callable[[Any], Any], options: WorkerOptions, pipe: Connection
) -> None:
    """Work until the parent says stop or drain, dies, or a SIGTERM comes; then exit."""
    # The thread of the parent that starts processes blocks signals; the child inherits that.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the parent tells its children
    orders = _Orders(pipe)
    signal.signal(signal.SIGTERM, lambda _number, _frame: orders.came.set())
    engine = Engine(source, handler, options)
    try:
        engine.start(lambda: _send(pipe, ("state", (engine.health(), vars(engine.stats)))))
    except Exception as error:  # noqa: BLE001 - the parent raises it
        _send(pipe, ("error", error if isinstance(error, Error) else Error(repr(error))))
        sys.exit(1)
    start_thread("worker-watch", orders.listen)
    reported = 0.0
    stopped = False
    while engine.is_running:
        if orders.came.wait(0.0 if stopped else 0.05):
            if not orders.is_stop:
                engine.drain(orders.limit)
                break
            if not stopped:
                stopped = True
                engine.stop()
            time.sleep(0.05)
        if time.monotonic() - reported > _TELL_EVERY:
            reported = time.monotonic()
            _send(pipe, ("state", (engine.health(), vars(engine.stats))))
    report = engine.wait(None)
    wanted = orders.came.is_set()
    _send(pipe, ("over", (report.unfinished, vars(engine.stats), wanted, report.reason)))
    sys.exit(1 if report.unfinished else 0)


def _send(pipe: Connection, what: object) -> None:
    try:
        pipe.send(what)
    except OSError:
        pass  # the parent is dead, which ends this process too
