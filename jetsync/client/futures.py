"""Futures: requests that are not waited for, and waiting for many futures at once."""

from __future__ import annotations

import concurrent.futures
import copy
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync._futures import MEETING, Meeting, Waiters, to_future
from jetsync.errors import ConfigError, TimeoutError

if TYPE_CHECKING:
    from jetsync._core.message import Msg
    from jetsync.client.asking import Asking

__all__ = ["DoneAndNotDone", "RequestFuture", "as_completed", "wait"]

F = TypeVar("F")

RETURN_WHEN = ("ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION")


class RequestFuture:
    """The reply to a ``Connection.request_async``, once it has come. Thread-safe.

    It is always settled: by the reply, by an error, or when the request's own time is over, also
    when the connection is lost or closed.
    """

    __slots__ = ("__weakref__", "_asking", "_callbacks", "_outcome", "_subject", "_waiters")

    def __init__(self, asking: Asking, subject: str) -> None:
        self._asking = asking
        self._subject = subject
        self._outcome: Msg | Exception | None = None
        self._waiters = Waiters()
        self._callbacks: list[Callable[[RequestFuture], object]] | None = []

    def done(self) -> bool:
        """Return whether the reply, or an error, is there. Does not block. Raises ForkedError in a
        forked child."""
        return not self._pending()

    def running(self) -> bool:
        """Return whether it is not settled yet. Does not block; raises like :meth:`done`."""
        return self._pending()

    def cancel(self) -> bool:
        """Return False: what was sent cannot be taken back. Raises like :meth:`done`."""
        self._pending()
        return False

    def cancelled(self) -> bool:
        """Return False; see :meth:`cancel`."""
        self._pending()
        return False

    def result(self, timeout: Seconds | None = None) -> Msg:
        """Return the reply. Blocks up to ``timeout`` seconds (None: until it is settled, which
        takes no longer than the request's own time). Ctrl-C interrupts.

        Raises what ``Connection.request`` raises, or a TimeoutError when nothing is known yet after
        ``timeout``; ForkedError in a forked child.
        """
        self._wait(timeout)
        outcome = self._outcome
        if isinstance(outcome, Exception):
            error = copy.copy(outcome)
            error.__cause__ = outcome.__cause__
            raise error
        assert outcome is not None
        return outcome

    def exception(self, timeout: Seconds | None = None) -> Exception | None:
        """Return the error that :meth:`result` would raise for the request, or None when the reply
        is there.

        Blocks up to ``timeout`` seconds (None: until it is settled, which takes no longer than the
        request's own time). Raises TimeoutError when nothing is known yet, ForkedError in a forked
        child.
        """
        self._wait(timeout)
        return self._outcome if isinstance(self._outcome, Exception) else None

    def add_done_callback(self, function: Callable[[RequestFuture], object]) -> None:
        """Call ``function(future)`` when it is settled; here and now when it is already, and then
        what it raises is raised here.

        Callbacks run one after another on a thread of their own, so they may block and may ask.
        What those raise goes to the connection's ``on_error`` and harms nothing. Does not block.
        """
        callbacks = self._callbacks
        if self._pending() and callbacks is not None:
            callbacks.append(function)
            if self._outcome is None:
                return
            try:
                callbacks.remove(function)  # the settling thread may have missed it
            except ValueError:
                return
        function(self)

    def to_future(self) -> concurrent.futures.Future[Msg]:
        """Return a ``concurrent.futures.Future`` that gets the same outcome, for what asks for that
        class, such as ``asyncio.wrap_future``. Does not block.

        The thread of the callbacks completes it, so a callback must not wait for it. Raises
        ForkedError in a forked child.
        """
        return to_future(self)

    def __repr__(self) -> str:
        outcome = "pending" if self._outcome is None else repr(self._outcome)
        return f"RequestFuture({self._subject!r}, {outcome})"

    # -- for concurrent.futures; see jetsync/_futures.py -------------------------------------------

    @property
    def _condition(self) -> Meeting:
        return MEETING

    @property
    def _state(self) -> str:
        self._pending()
        return "FINISHED" if self._waiters.finished else "PENDING"

    def _pending(self) -> bool:
        self._asking.check_process()
        return self._outcome is None

    def _wait(self, timeout: Seconds | None) -> None:
        seconds = None if timeout is None else to_seconds(timeout)
        deadline = Deadline(seconds)
        if self._pending() and not self._waiters.wait(deadline.remaining()):
            raise TimeoutError(
                f"no reply to the request on {self._subject!r} within {seconds:g} s; it may still "
                "come",
                operation="request_async",
            )


class DoneAndNotDone(tuple[set[F], set[F]]):
    """The result of :func:`wait`: two sets of futures, ``done`` and ``not_done``."""

    __slots__ = ()

    def __new__(cls, done: set[F], not_done: set[F]) -> DoneAndNotDone[F]:
        return super().__new__(cls, (done, not_done))

    def __getnewargs__(self) -> tuple[set[F], set[F]]:
        return self[0], self[1]

    @property
    def done(self) -> set[F]:
        """The settled ones."""
        return self[0]

    @property
    def not_done(self) -> set[F]:
        """The others."""
        return self[1]

    def __repr__(self) -> str:
        return f"DoneAndNotDone(done={self.done!r}, not_done={self.not_done!r})"


def wait(
    futures: Iterable[F], timeout: Seconds | None = None, return_when: str = "ALL_COMPLETED"
) -> DoneAndNotDone[F]:
    """Wait for futures of ``publish_async``, of ``request_async``, and of the standard library.

    Blocks up to ``timeout`` seconds (None: until all are settled) and returns two sets, ``done``
    and ``not_done``; never raises for the outcome of a future. ``return_when`` is
    ``"ALL_COMPLETED"``, ``"FIRST_COMPLETED"`` or ``"FIRST_EXCEPTION"``. One waiter serves all of
    the futures, and no thread is started. Ctrl-C interrupts. Raises ConfigError for other objects,
    ForkedError in a forked child. Thread-safe. ``concurrent.futures.wait`` does the same.
    """
    deadline = Deadline(timeout)
    if return_when not in RETURN_WHEN:
        raise ConfigError(f"return_when must be one of {', '.join(RETURN_WHEN)}: {return_when!r}")
    given = _futures(futures)
    with MEETING.undone():
        found: Any = concurrent.futures.wait(given, deadline.remaining(), return_when=return_when)
    return DoneAndNotDone(found.done, found.not_done)


def as_completed(futures: Iterable[F], timeout: Seconds | None = None) -> Iterator[F]:
    """Iterate over futures as they are settled: first those that are already, in the given order,
    then the others in the order in which they are. Takes what :func:`wait` takes.

    Waiting for the next one blocks; ``timeout`` seconds (None: never) after this call it raises
    TimeoutError when futures are left. Ctrl-C interrupts. Raises ConfigError and ForkedError like
    :func:`wait`. The iterator belongs to one thread.
    """
    return _as_completed(_futures(futures), Deadline(timeout))


def _as_completed(futures: list[Any], deadline: Deadline) -> Iterator[Any]:
    left = []
    for future in futures:
        if future.done():
            yield future
        else:
            left.append(future)
    futures.clear()
    following: Any = concurrent.futures.as_completed(left, deadline.remaining())
    try:
        while (future := _next(following)) is not None:
            yield future
            del future
    finally:
        with MEETING.undone():
            following.close()


def _next(following: Iterator[Any]) -> Any:
    """The next settled future; None after the last one."""
    try:
        with MEETING.undone():
            return next(following, None)
    except concurrent.futures.TimeoutError as error:
        raise TimeoutError(
            f"not all futures are settled: {error}", operation="as_completed"
        ) from None


def _futures(given: Iterable[Any]) -> list[Any]:
    """The futures, each once."""
    futures = list(dict.fromkeys(given))
    for future in futures:
        if not hasattr(future, "_condition"):
            raise ConfigError(
                "wait and as_completed take futures of publish_async, of request_async and of "
                f"concurrent.futures, not {type(future).__name__}"
            )
    return futures
