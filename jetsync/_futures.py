"""Parts of every kind of future of jetsync: its waiters, and the thread of its callbacks.

``concurrent.futures.wait`` and ``as_completed`` use three attributes of a future: ``_condition``,
which they hold while they check several futures and enter their waiter, ``_state``, and
``_waiters``. :class:`Waiters` has what stands behind these, so both functions take our futures.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from queue import Empty
from typing import TYPE_CHECKING, Any, TypeVar

from jetsync._latch import Turn
from jetsync._locks import native_rlock
from jetsync._native import NativeQueue
from jetsync.errors import ConnectionClosedError, ForkedError

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["MEETING", "NO_WAITERS", "DoneCallbacks", "Waiters", "forked", "to_future"]

T = TypeVar("T")


class Meeting:
    """The condition of all our futures: while a thread holds it, none of them turns to "finished"
    for the functions of ``concurrent.futures``.

    The thread that settles futures never waits for it: what it cannot announce at once is announced
    by the thread that lets go of the meeting. A signal handler may wait for a future therefore,
    also when it interrupted a thread that holds the meeting.
    """

    def __init__(self) -> None:
        self._lock = native_rlock("_futures.py _lock")
        self._depth = 0
        self._late: deque[tuple[Waiters, Any]] = deque()

    def acquire(self) -> None:
        self._lock.acquire()
        self._depth += 1

    def release(self) -> None:
        self._depth -= 1
        outermost = self._depth == 0
        self._lock.release()
        if outermost:
            self._catch_up()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    @contextlib.contextmanager
    def undone(self) -> Iterator[None]:
        """Release what the block has acquired when it raises: code of the standard library that
        Ctrl-C interrupts leaves it acquired."""
        before = self._held()
        try:
            yield
        except BaseException:
            while self._held() > before:
                self.release()
            # Ctrl-C may also come between taking the lock and counting it.
            while not before and self._is_ours():
                self._lock.release()
            self._catch_up()
            raise

    def _held(self) -> int:
        """How many times this thread holds it."""
        return self._depth if self._is_ours() else 0

    def _is_ours(self) -> bool:
        lock: Any = self._lock
        return bool(lock._is_owned())

    def announce(self, waiters: Waiters, future: Any) -> None:
        """Have it told that a future is settled. Does not block."""
        self._late.append((waiters, future))
        self._catch_up()

    def _catch_up(self) -> None:
        # A thread that fails to get the lock leaves the rest to its holder, which checks again.
        while self._late and self._lock.acquire(blocking=False):
            try:
                if self._depth:  # this thread holds it already: a signal handler runs here
                    return
                while self._late:
                    waiters, future = self._late.popleft()
                    waiters.tell(future)
            finally:
                self._lock.release()


MEETING = Meeting()
os.register_at_fork(after_in_child=MEETING.__init__)  # type: ignore[misc]  # a thread may hold it


class Waiters:
    """The waiters of one future. Attached to it while it is not settled."""

    __slots__ = ("_announced", "_events", "_listeners", "_settled", "_watched")

    def __init__(self, *, settled: bool = False) -> None:
        self._events: list[threading.Event] = []
        self._listeners: list[Any] = []
        self._settled = self._watched = self._announced = settled

    def wait(self, timeout: float | None) -> bool:
        """Wait until it is settled, up to ``timeout`` seconds; returns whether it is. Ctrl-C
        interrupts."""
        event = threading.Event()
        self._events.append(event)
        try:
            return self._settled or event.wait(timeout)
        finally:
            if not self._settled:
                self._events.remove(event)

    def settle(self, future: Any) -> None:
        """The future is settled: tell the threads that wait. Does not block; once."""
        self._settled = True
        for event in list(self._events):
            event.set()
        if self._watched:
            MEETING.announce(self, future)

    def tell(self, future: Any) -> None:
        """Tell the waiters of ``concurrent.futures``. The caller holds the meeting."""
        if self._announced:
            return
        self._announced = True
        failed = future.exception() is not None
        for listener in self._listeners:
            (listener.add_exception if failed else listener.add_result)(future)
        self._listeners.clear()

    @property
    def finished(self) -> bool:
        """Whether the future has finished for the threads that hold the meeting; it stays so
        while they do."""
        if not self._watched:
            self._watched = True
            if self._settled:  # `settle` may not have seen that there is a watcher
                self._announced = True
        return self._announced

    # -- the list that concurrent.futures sees -----------------------------------------------------

    def append(self, listener: Any) -> None:
        """Tell ``listener`` when it is settled, unless it has finished."""
        if not self._announced:
            self._listeners.append(listener)

    def remove(self, listener: Any) -> None:
        """Undo :meth:`append`."""
        if listener in self._listeners:
            self._listeners.remove(listener)


NO_WAITERS = Waiters(settled=True)
"""The waiters of a future that was settled before a thread waited for it."""


def to_future(future: Any) -> Future[Any]:
    """Return a ``concurrent.futures.Future`` that gets the outcome of ours. It cannot be cancelled.

    The thread of the callbacks completes it.
    """
    from concurrent.futures import Future

    standard: Future[Any] = Future()
    standard.set_running_or_notify_cancel()

    def copy(settled: Any) -> None:
        error = settled.exception()
        if error is None:
            standard.set_result(settled.result())
        else:
            standard.set_exception(error)

    future.add_done_callback(copy)
    return standard


def forked() -> ForkedError:
    """Return what every call of a future raises in a forked child. One that was settled before the
    fork refuses too, so that a program finds out the first time and not by chance."""
    return ForkedError(
        "this future was made in another process, before a fork: ask for its outcome there, or "
        "connect in this process and send again"
    )


_IDLE = 0.5
"""Seconds without a settled future after which the thread of the callbacks ends."""


class DoneCallbacks:
    """Runs the callbacks of futures one after another on a thread of its own, which runs while
    there are any: it keeps nothing alive for long. Thread-safe; takes no lock."""

    def __init__(
        self,
        role: str,
        start_thread: Callable[[str, Callable[[], Any]], threading.Thread],
        report: Callable[[BaseException, Any], object],
    ) -> None:
        """``start_thread(role, function)`` is that of the connection, whose end waits for the
        thread. ``report`` gets what a callback raised, and its future; or None for the future, and
        why there is no thread."""
        self._role = role
        self._start_thread = start_thread
        self._report = report
        self._queue: NativeQueue[Any] = NativeQueue()
        self._turn = Turn()
        self._ended = False

    def put(self, future: Any) -> None:
        """Run the callbacks of a settled future: on the thread, which does not block, or here and
        now after :meth:`end`."""
        if self._ended:
            self._call(future)
            return
        self._queue.put(future)
        token = object()
        if not self._turn.take(token):
            return  # the thread checks the queue after it has given back the turn
        try:
            self._start_thread(self._role, partial(self._run, token))
        except BaseException as error:
            self._turn.give_back(token)
            if not isinstance(error, (RuntimeError, ConnectionClosedError)):
                raise
            if isinstance(error, RuntimeError):
                self._report(error, None)
            self._call_all()  # no thread is left for them: nothing may be lost

    def end(self) -> None:
        """Let the thread end when all have run. Does not block."""
        self._ended = True
        self._queue.put(None)

    def _run(self, token: object) -> None:
        while self._turn.take(token):
            self._wait_and_call()
            if self._queue.empty():
                self._turn.give_back(token)
                if self._queue.empty():
                    return

    def _wait_and_call(self) -> None:
        """Call what comes, until nothing came for a while or it is the end."""
        with contextlib.suppress(Empty):
            while (future := self._queue.get(timeout=_IDLE)) is not None:
                self._call(future)
                del future

    def _call_all(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                self._call(self._queue.get_nowait())

    def _call(self, future: Any) -> None:
        if future is None:
            return
        functions: list[Callable[[Any], object]] = future._callbacks or []
        future._callbacks = None  # they may hold the future itself
        while functions:
            function = functions.pop(0)
            try:
                function(future)
            except BaseException as error:  # noqa: BLE001 - also sys.exit(): others wait
                self._report(error, future)
            del function
