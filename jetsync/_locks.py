"""The locks of Python code, in the order in which a thread may take them.

``lock(name)`` is a plain ``threading.Lock``. With JETSYNC_DEBUG=1 in the environment at the import
it knows its place in ``ORDER``: a thread that takes one while it holds a later one, or another one
of the same place, gets a RuntimeError. docs/internals/threads.md says what each lock guards.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, cast

from jetsync._native import original

__all__ = ["ORDER", "CheckedLock", "lock", "native_rlock", "rlock"]

ORDER = (
    "testing/collecting.py _lock",
    "spark/monitoring.py _lock",
    "spark/destinations.py _lock",
    "worker/jobs.py turn",
    "worker/lanes.py _lock",
    "services/service.py _lock",
    "services/answering.py _lock",
    "jetstream/buckets/watcher.py _busy",
    "jetstream/push/receiver.py _turn",
    "jetstream/push/receiver.py _routes",
    "jetstream/ordered/consumer.py _turn",
    "jetstream/consumers/shared.py _lock",
    "jetstream/pull/alarm.py _lock",
    "jetstream/acks/keep_alive.py _lock",
    "jetstream/publish/batch.py _lock",
    "jetstream/publish/publisher.py _making",
    "jetstream/publish/futures.py _room",
    "jetstream/publish/counting.py _lock",
    "otel/totals.py _making",
    "otel/totals.py _lock",
    "client/shared.py _locks",
    "client/dialling.py _lock",
    "client/tls.py _lock",
    "client/sockets.py _guard",
    "_futures.py _lock",
    "server/server.py _lock",
    "server/process.py _guard_lock",
)
"""File and attribute of every lock; a thread takes them from the top to the bottom."""

_CHECKED = os.environ.get("JETSYNC_DEBUG") == "1"


class _Held(threading.local):
    def __init__(self) -> None:
        self.locks: list[CheckedLock] = []


_held = _Held()


class CheckedLock:
    """A lock that raises RuntimeError when it is taken out of order, or left by a wrong thread."""

    def __init__(self, name: str, inner: Any, *, is_reentrant: bool) -> None:
        self.name = name
        self._place = ORDER.index(name)
        self._inner = inner
        self._is_reentrant = is_reentrant

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """See ``threading.Lock.acquire``. An attempt that does not wait may come in any order."""
        if blocking and not (self._is_reentrant and self in _held.locks):
            for other in _held.locks:
                if other._place >= self._place:
                    raise RuntimeError(f"{self.name} is taken while {other.name} is held")
        if not self._inner.acquire(blocking, timeout):
            return False
        _held.locks.append(self)
        return True

    def release(self) -> None:
        """See ``threading.Lock.release``."""
        if self not in _held.locks:
            raise RuntimeError(f"{self.name} is released by a thread that does not hold it")
        _held.locks.reverse()
        _held.locks.remove(self)
        _held.locks.reverse()
        self._inner.release()

    def locked(self) -> bool:
        """Whether some thread holds it."""
        return bool(self._inner.locked())

    def _is_owned(self) -> bool:
        """For ``threading.Condition``, like the next two."""
        return self in _held.locks

    def _release_save(self) -> tuple[Any, int]:
        times = _held.locks.count(self)
        _held.locks[:] = [one for one in _held.locks if one is not self]
        return self._inner._release_save(), times

    def _acquire_restore(self, saved: tuple[Any, int]) -> None:
        self._inner._acquire_restore(saved[0])
        _held.locks.extend([self] * saved[1])

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.release()


def _make(name: str, make: Callable[[], Any], *, is_reentrant: bool) -> Any:
    return CheckedLock(name, make(), is_reentrant=is_reentrant) if _CHECKED else make()


def lock(name: str) -> threading.Lock:
    """Make the lock of this name (a row of ``ORDER``)."""
    return cast("threading.Lock", _make(name, threading.Lock, is_reentrant=False))


def rlock(name: str) -> threading.RLock:
    """Make the lock of this name, which its holder may take again."""
    return cast("threading.RLock", _make(name, threading.RLock, is_reentrant=True))


def native_rlock(name: str) -> threading.RLock:
    """Make the reentrant lock of this name for native threads, under gevent too."""
    return cast("threading.RLock", _make(name, original("_thread", "RLock"), is_reentrant=True))
