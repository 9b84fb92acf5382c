"""The only place that starts threads.

Every thread of the library is named ``jetsync-<role>-<n>``, which is how leak checks and stack
dumps know it.
"""

from __future__ import annotations

import functools
import itertools
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from jetsync._deadline import Deadline
from jetsync._latch import Latch
from jetsync._log import Log
from jetsync._native import NativeQueue, original
from jetsync.errors import ConnectionClosedError

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import TracebackType

__all__ = ["Thread", "ThreadPool", "Threads", "library_threads", "start_thread"]

logger: Log = Log("jetsync")

T = TypeVar("T")

PREFIX = "jetsync-"

_numbers = itertools.count(1)


class Thread(threading.Thread):
    """A daemon thread that takes no signals, so that Ctrl-C reaches the user's own thread."""

    def __init__(self, name: str, target: Callable[[], Any]) -> None:
        super().__init__(name=name, daemon=True)
        self._job = target
        self._over = Latch()
        self._native = _unpatched_start()
        self._runs_on = 0

    def start(self) -> None:
        if self._native is None:
            super().start()
        else:
            self._native(self._run_natively, ())

    def _run_natively(self) -> None:
        threading.current_thread().name = self.name
        self.run()

    def run(self) -> None:
        self._runs_on = threading.get_ident()
        signal.pthread_sigmask(signal.SIG_BLOCK, _every_signal())
        try:
            self._job()
        except Exception:
            logger.exception("thread %s ended by an unexpected error", self.name)
        finally:
            del self._job
            self._over.set()

    def is_alive(self) -> bool:
        return not self._over.is_set()

    @property
    def runs_here(self) -> bool:
        """Whether the caller is this thread."""
        return self._runs_on == threading.get_ident() and self.is_alive()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of the thread; the thread itself does not wait.

        CPython takes a thread for dead once Ctrl-C interrupted its join(): an event is waited for.
        """
        if self._runs_on == threading.get_ident():
            return
        # One that is over and has no identifier was never started.
        if self._over.wait(timeout) and self._native is None and self.ident is not None:
            super().join()

    def give_up(self) -> None:
        """It will not be started: threads that wait for its end go on."""
        self._over.set()


@functools.cache
def _every_signal() -> frozenset[int]:
    """Return the signals that a new thread blocks: to list them costs more than to start it."""
    return frozenset(signal.valid_signals())


def _unpatched_start() -> Callable[..., object] | None:
    """How to start a native thread where gevent has put its own in their place, else None."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("_thread"):
        return None
    start: Callable[..., object] = original("_thread", "start_new_thread")
    return start


def start_thread(role: str, target: Callable[[], Any], number: str | int | None = None) -> Thread:
    """Start a daemon thread that takes no signals and runs ``target()``. Thread-safe.

    Its name is ``jetsync-<role>-<number>``: the number of the connection that it serves, or else
    the next free number of the process. The caller joins it. It is a native thread under gevent
    too.
    """
    thread = Thread(_name(role, number), target)
    thread.start()
    return thread


def _name(role: str, number: str | int | None) -> str:
    return f"{PREFIX}{role}-{next(_numbers) if number is None else number}"


class Threads:
    """The threads that serve one connection while it is open, which its end waits for.

    Thread-safe; takes no lock. A thread is noted before it starts, so that :meth:`join` misses
    none, whichever thread starts one meanwhile.
    """

    def __init__(self, label: str) -> None:
        self.label: str = label
        """The number of the connection."""
        # Each with the identifier of the thread that is starting it, or 0.
        self._noted: dict[Thread, int] = {}
        self._ended = False

    def start(
        self, role: str, target: Callable[[], Any], number: str | int | None = None
    ) -> Thread:
        """Start a thread like :func:`start_thread`, by default with the number of the connection.

        Raises ConnectionClosedError after :meth:`join`, RuntimeError when the system has none.
        """
        for old in list(self._noted):
            if not old.is_alive():
                self._noted.pop(old, None)
        thread = Thread(_name(role, self.label if number is None else number), target)
        self._noted[thread] = threading.get_ident()
        try:
            if self._ended:
                raise ConnectionClosedError("the connection is closed")
            thread.start()
        except (ConnectionClosedError, RuntimeError):
            self._noted.pop(thread, None)
            thread.give_up()
            raise
        finally:
            if thread in self._noted:
                self._noted[thread] = 0
        return thread

    def join(self, timeout: float | None) -> None:
        """Start no more threads, and wait for the end of all but the calling one, up to ``timeout``
        seconds. Safe to repeat, on several threads, and in a signal handler."""
        self._ended = True
        deadline = Deadline(timeout)
        for thread, starter in list(self._noted.items()):
            if starter != threading.get_ident():  # else this handler interrupted its start
                thread.join(deadline.remaining())


def library_threads() -> set[threading.Thread]:
    """Return the threads of the library that run in this process, for checks of leaks."""
    return {t for t in threading.enumerate() if t.name.startswith(PREFIX)}


class ThreadPool:
    """``size`` threads that run functions and hand their results out as futures; with one thread
    they run one after another.

    Thread-safe. A context manager closes it.
    """

    def __init__(self, role: str, size: int = 1) -> None:
        self._jobs: NativeQueue[Callable[[], None] | None] = NativeQueue()
        self._threads = [start_thread(role, self._run) for _ in range(size)]

    def submit(self, function: Callable[..., T], *args: Any) -> Future[T]:
        """Run ``function(*args)`` on a thread, behind what was submitted before. Does not block.

        The future has the result, or what the function raised.
        """
        from concurrent.futures import Future

        future: Future[T] = Future()

        def job() -> None:
            try:
                result = function(*args)
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is taken
                future.set_exception(error)
            else:
                future.set_result(result)

        self._jobs.put(job)
        return future

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # the function may hold objects that its caller drops now

    def close(self) -> None:
        """End the threads when all that was submitted has run, and wait for that."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
