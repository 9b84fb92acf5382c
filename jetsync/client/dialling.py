"""DialQueue: how many connections of this process dial one server at the same time."""

from __future__ import annotations

import collections
from types import TracebackType

from jetsync._latch import Latch
from jetsync._locks import lock
from jetsync.errors import ConnectError

__all__ = ["DIALS", "DialQueue", "DialTurn", "NoTurnError"]

_MOST = 32
"""How many handshakes with one server run at a time: enough to fill a slow link, few enough that
their threads get the interpreter before their timeouts are over."""


class NoTurnError(ConnectError):
    """The turn to dial did not come in time: the server itself was not tried."""


class DialTurn:
    """The turn of one connection to dial, as a context manager: its body has the turn.

    Entering it blocks until the turn comes, or until :meth:`withdraw` is called. After
    ``patience`` seconds in line (None: no limit) it leaves the line and raises NoTurnError.
    """

    __slots__ = ("_patience", "_queue", "_server", "_there")

    def __init__(self, queue: DialQueue, server: str | None, patience: float | None) -> None:
        self._queue = queue
        self._server = server
        self._patience = patience
        self._there = Latch()

    def __enter__(self) -> DialTurn:
        server = self._server
        if (
            server is not None
            and not self._queue.join(server, self._there)
            and not self._there.wait(self._patience)
        ):
            self._queue.leave(server, self._there)
            raise NoTurnError(
                f"{server}: so many connections of this process dial it that the turn of this one "
                f"did not come within {self._patience:g} s"
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._queue.leave(self._server, self._there)

    def withdraw(self) -> None:
        """Release the waiting thread: its connection ends and will not dial. Any thread may call
        it."""
        self._there.set()


class DialQueue:
    """At most ``most`` turns at a time for each server, in the order of asking. Thread-safe."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        # Taken by reader threads only, which no signal handler interrupts.
        self._lock = lock("client/dialling.py _lock")
        self._under_way: dict[str, set[Latch]] = {}
        self._waiting: dict[str, collections.deque[Latch]] = {}

    def turn(self, server: str | None, patience: float | None = None) -> DialTurn:
        """Return the turn of one dial to a server (None: a turn without waiting). Does not
        block. ``patience``: see :class:`DialTurn`."""
        return DialTurn(self, server, patience)

    def join(self, server: str, there: Latch) -> bool:
        """Stand in line; returns whether the turn is there at once."""
        with self._lock:
            under_way = self._under_way.setdefault(server, set())
            if len(under_way) < self._most:
                under_way.add(there)
                return True
            self._waiting.setdefault(server, collections.deque()).append(there)
            return False

    def leave(self, server: str, there: Latch) -> None:
        """Give up the turn, or the place in the line; the next one has its turn."""
        with self._lock:
            under_way, waiting = self._under_way.get(server), self._waiting.get(server)
            if waiting is not None and there in waiting:  # it did not wait for its turn
                waiting.remove(there)
            elif under_way is not None:
                under_way.discard(there)
                if waiting:
                    following = waiting.popleft()
                    under_way.add(following)
                    following.set()
            if not under_way:
                self._under_way.pop(server, None)
            if not waiting:
                self._waiting.pop(server, None)

    def forget(self) -> None:
        """Start anew in a forked child, where the threads that had turns or the lock do not
        exist."""
        self._lock = lock("client/dialling.py _lock")
        self._under_way, self._waiting = {}, {}

    def __len__(self) -> int:
        return len(self._under_way) + len(self._waiting)


DIALS = DialQueue()
"""The turns of this process."""
