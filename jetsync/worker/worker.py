"""Worker: the object that users start and stop."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Seconds
from jetsync._measurement import Measurement
from jetsync._signatures import spells_out
from jetsync.errors import ConfigError
from jetsync.worker.engine import Engine
from jetsync.worker.http import HealthServer
from jetsync.worker.measuring import measured
from jetsync.worker.options import WorkerOptions, WorkSource
from jetsync.worker.processes import Processes
from jetsync.worker.report import WorkerHealth, WorkerReport, WorkerStats

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync.worker.fields import WorkerFields

__all__ = ["Foreground", "Worker"]


class Worker:
    """Calls a handler with each message of a consumer, and settles the message afterwards.

    ``source`` is a Consumer, something with ``messages()``, or a WorkSource; ``handler`` gets one
    JetStreamMsg. When it returns, the message is acknowledged. When it raises, ``retry`` decides
    (``Retry`` and ``Reject`` say it directly); what is final goes to ``dead_letter``. Messages are
    kept alive while they are held. As a context manager it starts, and drains at the end.
    Thread-safe; every method raises ForkedError in a forked child. Raises ConfigError for options
    that make no sense together.
    """

    @spells_out(WorkerOptions)
    def __init__(
        self, source: Any, handler: Callable[[Any], Any], **options: Unpack[WorkerFields]
    ) -> None:
        self._options = chosen = WorkerOptions.of("Worker", dict(options))
        if chosen.processes > 1 and not isinstance(source, WorkSource):
            raise ConfigError(
                "processes > 1 needs a WorkSource: each process makes a connection of its own"
            )
        self._engine: Engine | Processes
        if chosen.processes > 1:
            self._engine = Processes(source, handler, chosen)
        else:
            self._engine = Engine(source, handler, chosen)
        self._http: HealthServer | None = None
        self._is_started = False

    def start(self) -> Worker:
        """Open the source and start the threads or processes. Blocks while it connects.

        Raises ConfigError for a consumer that does not suit, ConsumerNotFoundError, ConnectError.
        """
        self._engine.check()
        if self._is_started:
            raise ConfigError("a worker starts once: make a new one")
        if self._options.http is not None:
            self._http = HealthServer(self._options.http, self)
        self._is_started = True
        try:
            self._engine.start()
        except BaseException:
            self._close_http()
            raise
        return self

    def stop(self) -> None:
        """Take no more messages; it ends when those it holds are dealt with. Does not wait.
        Raises ForkedError in a forked child, and nothing else.
        """
        self._engine.check()
        self._engine.stop()

    def drain(self, timeout: Seconds | None = None) -> WorkerReport:
        """End it: take no more messages, and hand back those that have not begun. Blocks up to
        ``timeout`` seconds (default: ``drain_timeout``) for the handlers that run.

        Handlers that are not done by then have their messages handed back, and count as unfinished.
        Raises ConfigError when it was not started.
        """
        self._engine.check()
        self._check_started()
        try:
            return self._engine.drain(timeout)
        finally:
            self._close_http()

    def wait(self, timeout: Seconds | None = None) -> WorkerReport:
        """Wait until it has ended: by ``stop``, ``drain``, or because its source is over.

        Blocks up to ``timeout`` seconds (None: no limit); raises TimeoutError then. The ``reason``
        of the report says why it ended.
        """
        self._engine.check()
        self._check_started()
        report = self._engine.wait(timeout)
        self._close_http()
        return report

    def health(self) -> WorkerHealth:
        """Return its health. Does not block."""
        self._engine.check()
        return self._engine.health()

    @property
    def stats(self) -> WorkerStats:
        """The counts since it started, as of now: read it again for newer ones. Does not block."""
        self._engine.check()
        return self._engine.stats

    def measurements(self) -> list[Measurement]:
        """Return its counts and health as measurements, for a collector such as
        ``jetsync.prometheus``; none before it is started. Does not block."""
        self._engine.check()
        names = self._engine.names
        return [] if names is None else measured(*names, self.stats, self.health())

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended. Does not block."""
        self._engine.check()
        return self._engine.is_running

    def _check_started(self) -> None:
        if not self._is_started:
            raise ConfigError("the worker is not started")

    def _close_http(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            http.close()

    def _abandon(self, reason: str) -> None:
        self._engine.check()
        try:
            self._engine.abandon(reason)
        finally:
            self._close_http()

    def _interrupted(self, reason: str) -> WorkerReport:
        self._engine.check()
        try:
            return self._engine.drain(None, reason)
        finally:
            self._close_http()

    def __enter__(self) -> Worker:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.drain()

    def __repr__(self) -> str:
        running = "running" if self._engine.is_running else "ended"
        state = running if self._is_started else "not started"
        return f"Worker({', '.join([*map(repr, self._engine.names or ()), state])})"


class Foreground:
    """The calls of ``run`` on a worker that users of the worker do not see."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def abandon(self, reason: str) -> None:
        """End the worker at once: processes are killed, threads end with the program."""
        self._worker._abandon(reason)

    def interrupted(self, reason: str) -> WorkerReport:
        """Drain the worker because of a signal, which the report names. Blocks like ``drain``."""
        return self._worker._interrupted(reason)
