"""Processes: a parent without a connection, and children that do the work."""

from __future__ import annotations

import atexit
import dataclasses
import multiprocessing
import multiprocessing.util  # before the function below is registered: it has to run first
import os
import pickle
import threading
import time
import weakref
from collections.abc import Callable
from multiprocessing import connection
from typing import TYPE_CHECKING, Any

from jetsync._counted import counted
from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync._latch import Once
from jetsync._log import Log
from jetsync._threads import start_thread
from jetsync.errors import ConfigError, Error, TimeoutError
from jetsync.jetstream.settle.dead_letter import error_text
from jetsync.worker.child import child_main
from jetsync.worker.lifetime import Lifetime
from jetsync.worker.options import WorkerOptions, WorkSource, check_handler
from jetsync.worker.report import WorkerHealth, WorkerReport, WorkerStats, add_counts

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["Processes"]

logger: Log = Log("jetsync.worker")

_CHECK_EVERY = 0.25
_KILL_AFTER = 5.0
_STARTS_WITHIN = 60.0
_STEADY = 60.0
"""Seconds: a child that ends later than this after its start had come up."""
_EXIT_LIMIT = 0.3
"""Seconds that all processes together may hold up the end of the interpreter."""
_EXIT_HANDLERS = 0.1
"""Of these, how long the handlers may take that run."""


class _Child:
    """One process, over all its restarts."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: Any = None
        self.pipe: Connection | None = None
        self.begun = 0.0
        self.failures = 0
        self.restart_at: float | None = None
        self.is_up = False
        self.is_over = False
        self.error: Exception | None = None
        self.health: WorkerHealth | None = None
        self.stats: dict[str, Any] = {}
        self.unfinished = 0


class Processes(Lifetime):
    """Starts the children, restarts those that die, adds up their reports. Thread-safe."""

    def __init__(self, source: WorkSource, handler: Callable[[Any], Any], options: WorkerOptions):
        super().__init__()
        check_handler(handler)
        self._what = source, handler, dataclasses.replace(options, processes=1, http=None)
        try:
            pickle.dumps(self._what)
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            raise ConfigError(
                "with processes > 1 the source, the handler and the options are sent to other "
                f"processes: use functions of modules, no lambdas ({error})"
            ) from None
        self._options = options
        self._context: Any = multiprocessing.get_context(options.start_method)
        self._children = [_Child(number + 1) for number in range(options.processes)]
        self._past = WorkerStats()  # of processes that are gone
        self._kill_at: float | None = None
        self._is_started = False
        self._begins_supervising = Once()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the children and wait until each has opened its source."""
        self._started = time.monotonic()
        self._is_started = True
        _running.add(self)
        try:
            for child in self._children:
                try:
                    self._spawn(child)
                except OSError as error:
                    raise Error(
                        f"process {child.number} of the worker could not be started: {error}"
                    ) from error
            deadline = Deadline(_STARTS_WITHIN)
            while not all(child.is_up for child in self._children):
                self._receive(_CHECK_EVERY)
                for child in self._children:
                    if child.error is not None:
                        raise child.error
                    if not child.is_up and child.process.exitcode is not None:
                        raise Error(
                            f"process {child.number} of the worker ended with exit code "
                            f"{child.process.exitcode} before it had begun"
                        )
                if deadline.expired:
                    raise TimeoutError("the processes of the worker did not start in time")
        except KeyboardInterrupt:
            # Children that are up may have begun to work: all of them drain.
            self._thread = start_thread("worker-parent", self._supervise)
            self._let_drain(to_seconds(self._options.drain_timeout), "interrupted at its start")
            self._is_cut_short = True
            raise
        except BaseException:
            self._reason = "it could not be started"
            try:
                self._kill()
            finally:
                self._over.set()
            raise
        self._thread = start_thread("worker-parent", self._supervise)

    def stop(self, reason: str = "stopped") -> None:
        """Let the children take no more messages and end."""
        self._end("stop", reason)

    def drain(self, timeout: Seconds | None, reason: str = "drained") -> WorkerReport:
        """Let the children drain, and kill those that outlive their time. Blocks."""
        limit = to_seconds(self._options.drain_timeout if timeout is None else timeout, "timeout")
        self._let_drain(limit, reason)
        return self.wait(None)

    def _let_drain(self, limit: float, reason: str, kill_after: float = _KILL_AFTER) -> None:
        self._kill_at = time.monotonic() + limit + kill_after
        self._end(("drain", limit), reason)

    def abandon(self, reason: str) -> None:
        """Kill the children, and wait for a moment until they are gone."""
        self._kill_at = time.monotonic()
        self._end("stop", reason)
        self._await_end(_KILL_AFTER)

    def _await_end(self, seconds: float) -> None:
        """Wait for the end, or bring it about when the thread has not begun that does it."""
        if not self._over.is_set() and self._begins_supervising.first():
            self._come_to_end()
        self._over.wait(seconds)

    def _end(self, order: object, reason: str) -> None:
        self._begin_stop(reason)
        for child in self._children:
            try:
                if child.pipe is not None:
                    child.pipe.send(order)
            except OSError:
                continue  # it is dead already

    @property
    def names(self) -> tuple[str, str]:
        """Stream and consumer."""
        return self._what[0].stream, self._what[0].consumer

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._is_started and not self._over.is_set()

    # -- the parent's thread -----------------------------------------------------------------------

    def _supervise(self) -> None:
        if not self._begins_supervising.first():
            return
        try:
            while not all(child.is_over for child in self._children):
                self._receive(self._next_check())
                now = time.monotonic()
                if self._kill_at is not None and now >= self._kill_at:
                    self._reason += ", and was killed"
                    self._kill()
                for child in self._children:
                    self._check_child(child, now)
        except Exception as error:
            self._reason = error_text(error)
            logger.exception("the worker ends")
        finally:
            self._come_to_end()

    def _next_check(self) -> float:
        """Seconds until the children are looked at again, if nothing is heard of them."""
        if self._kill_at is None:
            return _CHECK_EVERY
        return min(_CHECK_EVERY, max(0.0, self._kill_at - time.monotonic()))

    def _come_to_end(self) -> None:
        self._kill()
        self._finish(self.stats, sum(child.unfinished for child in self._children))

    def _check_child(self, child: _Child, now: float) -> None:
        if child.process is not None and child.process.exitcode is not None:
            while self._read(child):  # its last messages
                pass
            code = child.process.exitcode
            self._reap(child)
            if self._stopping.is_set() or child.is_over:
                child.is_over = True
                return
            if now - child.begun > _STEADY:
                child.failures = 0
            self._has_failed(child, f"has died (exit code {code})", now)
        elif child.process is None and not child.is_over:
            if self._stopping.is_set():
                child.is_over = True
            elif child.restart_at is not None and now >= child.restart_at:
                try:
                    self._spawn(child)
                except OSError as error:  # no memory, no process, no descriptor is left
                    self._has_failed(child, f"could not be started: {error}", now)

    def _has_failed(self, child: _Child, how: str, now: float) -> None:
        child.failures += 1
        delay = self._options.restart_backoff.delay(child.failures)
        logger.error(
            "process %d of the worker %s%s",
            child.number,
            how,
            "" if delay is None else f"; it is started again in {delay:.1f} s",
        )
        if delay is None:
            reason = f"process {child.number} has died {counted(child.failures, 'time')}"
            self._reason = reason
            child.is_over = True
            self._end("stop", reason)
        else:
            child.restart_at = now + delay

    def _spawn(self, child: _Child) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=child_main, args=(*self._what, theirs), name=f"jetsync-worker-{child.number}"
        )
        try:
            process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()  # so that the child's death is the end of the pipe
        child.pipe, child.is_up, child.begun = ours, False, time.monotonic()
        child.process = process

    def _receive(self, seconds: float) -> None:
        pipes = {child.pipe: child for child in self._children if child.pipe is not None}
        ends = [child.process.sentinel for child in self._children if child.process is not None]
        for ready in connection.wait([*pipes, *ends], seconds):
            if ready in pipes:
                self._read(pipes[ready])

    def _read(self, child: _Child) -> bool:
        try:
            if child.pipe is None or not child.pipe.poll():
                return False
            kind, value = child.pipe.recv()
        except (EOFError, OSError):
            if child.pipe is not None:
                child.pipe.close()
                child.pipe = None
            return False
        if kind == "error":
            child.error = value
            logger.error("process %d of the worker: %s", child.number, value)
        elif kind == "state":
            child.is_up = True
            child.health, child.stats = value
        elif kind == "over":
            child.unfinished, child.stats, is_wanted, reason = value
            if not self._stopping.is_set() and not is_wanted:
                self._reason = reason
            child.is_over = True
        return True

    def _reap(self, child: _Child) -> None:
        add_counts(self._past, child.stats)
        child.stats, child.health, child.is_up = {}, None, False
        if child.pipe is not None:
            child.pipe.close()
        child.process.join()
        child.process.close()
        child.pipe = child.process = None

    def _kill(self) -> None:
        for child in self._children:
            if child.process is not None:
                try:
                    child.process.kill()
                    self._reap(child)
                except Exception:
                    logger.exception("process %d of the worker cannot be killed", child.number)

    # -- reports -----------------------------------------------------------------------------------

    @property
    def stats(self) -> WorkerStats:
        """The counts of all processes, those that died included, as they last told them."""
        total = WorkerStats()
        add_counts(total, vars(self._past))
        for child in self._children:
            add_counts(total, child.stats)
        return total

    def health(self) -> WorkerHealth:
        """Return the health that they last reported. Does not block."""
        found = [child.health for child in self._children]
        up = [one for one in found if one is not None]
        problems = [
            f"process {child.number}: {text}"
            for child in self._children
            for text in (["it does not run"] if child.health is None else child.health.problems)
        ]
        return WorkerHealth(
            alive=self.is_running,
            ready=self.is_running and len(up) == len(found) and all(one.ready for one in up),
            connected=bool(up) and all(one.connected for one in up),
            in_flight=sum(one.in_flight for one in up),
            oldest_seconds=max((one.oldest_seconds for one in up), default=0.0),
            last_outcome=self.stats.last_outcome,
            problems=problems,
        )

    # -- the end of the interpreter ----------------------------------------------------------------

    def begin_exit(self) -> None:
        """Let the children drain in a moment: the interpreter ends. Does not wait."""
        if os.getpid() == self._pid and self.is_running:
            self._let_drain(_EXIT_HANDLERS, "the program ends", _EXIT_LIMIT - _EXIT_HANDLERS)

    def end_exit(self, seconds: float) -> None:
        """Wait for that."""
        if os.getpid() == self._pid and self.is_running:
            self._await_end(seconds)


_running: weakref.WeakSet[Processes] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """End the processes of the workers that the program left running. The interpreter itself waits
    for each process that is left, however long."""
    left = list(_running)
    for one in left:
        one.begin_exit()
    deadline = Deadline(2 * _EXIT_LIMIT)  # a busy machine kills later
    for one in left:
        one.end_exit(deadline.within(2 * _EXIT_LIMIT))
