"""Asking: requests that no thread waits for, and the thread that settles their futures."""

from __future__ import annotations

import base64
import os
from functools import partial
from typing import TYPE_CHECKING

from jetsync._core.encoding import encode_headers
from jetsync._core.message import Msg
from jetsync._deadline import Deadline
from jetsync._futures import DoneCallbacks, forked
from jetsync._latch import Turn
from jetsync.client.futures import RequestFuture
from jetsync.client.members import Member
from jetsync.client.requests import Reply
from jetsync.errors import (
    ConnectionClosedError,
    DisconnectedError,
    NoRespondersError,
    TimeoutError,
)
from jetsync.headers import HeaderInput

if TYPE_CHECKING:
    from jetsync.client.connection import Connection
    from jetsync.client.timer import TimerHandle

__all__ = ["Asking"]

_IDLE = 0.5
"""Seconds without a request under way after which the thread ends."""


class _Line:
    """The reply subject of one link, the keys of its requests, and the turn to read it.

    The first one of a connection has no reply subject: it only leads to the next.
    """

    __slots__ = ("following", "keys", "reply", "turn")

    def __init__(self, reply: Reply | None) -> None:
        self.reply = reply
        self.keys: set[str] = set()
        self.turn = Turn()
        self.following: dict[str, _Line] = {}
        """The line that came after it, which several threads may offer: the first one counts."""

    @property
    def finished(self) -> bool:
        """Whether no request can be answered on it any more."""
        return self.reply is None or self.reply.is_over


class _Asked:
    """A request under way. The routes end it like a mailbox when its subject is refused."""

    __slots__ = ("__weakref__", "_asking", "future", "key", "line", "subject", "timer")

    def __init__(self, asking: Asking, line: _Line, key: str, subject: str) -> None:
        self._asking = asking
        self.line = line
        self.key = key
        self.subject = subject
        self.future = RequestFuture(asking, subject)
        self.timer: TimerHandle | None = None

    def finish(self, error: Exception | None = None) -> None:
        """It ends without a reply."""
        self._asking.settle(self.key, error or ConnectionClosedError("the connection is closed"))


class Asking(Member):
    """The asynchronous requests of one connection. Thread-safe; takes no lock.

    Those of one link share one reply subject, a token that no other request has. Each adds a key of
    its own that cannot be guessed, so a client that answers one of them can answer no other one.
    """

    def __init__(self, nc: Connection) -> None:
        self._nc = nc
        self._process = os.getpid()
        self._open: dict[str, _Asked] = {}
        self._line = _Line(None)
        self._callbacks = DoneCallbacks("answered", nc._threads.start, nc._reports.future_failed)
        nc._members.attach(self, sends=True, hold=False)

    # -- asking ------------------------------------------------------------------------------------

    def ask(
        self, subject: str, data: bytes, seconds: float, headers: HeaderInput | None
    ) -> RequestFuture:
        """See ``Connection.request_async``."""
        header = encode_headers(headers)
        deadline = Deadline(seconds)
        line = self._current()
        assert line.reply is not None
        key = base64.urlsafe_b64encode(os.urandom(12)).decode()  # 16 characters
        asked = _Asked(self, line, key, subject)
        try:
            self._open[key] = asked
            line.keys.add(key)
            self._nc._routes.by_asked.add(subject, asked)
            try:
                suffix = f"-{key}"
                self._nc._requests.put(subject, data, line.reply, header, deadline, suffix=suffix)
            except DisconnectedError as lost:  # the line ended meanwhile
                asked.finish(lost)
                return asked.future
            asked.timer = self._nc._timer.call_later(
                deadline.within(seconds), partial(self._late, key, seconds)
            )
            self._read(line)
        except BaseException:
            self._forget(key)
            raise
        return asked.future

    def _current(self) -> _Line:
        """The line of this link. Threads that open one at the same time get the same one."""
        line = self._line
        while line.finished:
            following = line.following.get("line")
            if following is None:
                reply = self._nc._requests.open(None)
                following = line.following.setdefault("line", _Line(reply))
                if following.reply is reply:
                    self._line = following
                    return following
                reply.close()
            # A thread that was slow may put an older line here: the next request goes on from it.
            self._line = line = following
        return line

    def _read(self, line: _Line) -> None:
        """Have a thread read the line that has a new key, unless one does."""
        token = object()
        if not line.turn.take(token):
            return  # its thread looks for keys after it has given back the turn
        try:
            self._nc._threads.start("replies", partial(self._run, line, token))
        except BaseException:
            line.turn.give_back(token)
            raise

    # -- settling ----------------------------------------------------------------------------------

    def _run(self, line: _Line, token: object) -> None:
        """Settle what is answered, until the link is gone or nothing was under way for a while."""
        reply = line.reply
        assert reply is not None
        mailbox = reply.mailbox
        while line.turn.take(token):
            if mailbox.ended:
                self._end(line, reply)
            else:
                msg = mailbox.get(_IDLE)
                if msg is not None:
                    self._answered(msg, msg.subject[len(reply.subject) + 1 :])
                if msg is not None or line.keys or mailbox.ended:
                    continue
            line.turn.give_back(token)
            if not line.keys:  # else its thread may have seen this one reading
                return

    def _answered(self, msg: Msg, key: str) -> None:
        asked = self._open.get(key)
        if asked is None:
            return  # it came late, or is a second answer
        if msg.status == 503 and not msg.data:
            text = f"no subscriber listens on {asked.subject!r}"
            self.settle(key, NoRespondersError(text, subject=asked.subject))
        else:
            self.settle(key, msg)

    def _late(self, key: str, seconds: float) -> None:
        asked = self._open.get(key)
        if asked is not None:
            text = f"no reply to the request on {asked.subject!r} within {seconds:g} s"
            self.settle(key, TimeoutError(text, operation="request_async"))

    def _end(self, line: _Line, reply: Reply) -> None:
        """No answer comes to this reply subject any more."""
        reply.close()
        error = reply.mailbox.error or ConnectionClosedError("the connection is closed")
        for key in list(line.keys):
            self.settle(key, error)

    def settle(self, key: str, outcome: Msg | Exception) -> None:
        """Settle a request, unless it is settled. Does not block."""
        asked = self._forget(key)
        if asked is None:
            return
        future = asked.future
        future._outcome = outcome
        future._waiters.settle(future)
        if future._callbacks:
            self._callbacks.put(future)

    def _forget(self, key: str) -> _Asked | None:
        asked = self._open.get(key)
        if asked is None:
            return None
        asked.line.keys.discard(key)
        if self._open.pop(key, None) is None:
            return None  # another thread settles it
        self._nc._routes.by_asked.discard(asked.subject, asked)
        if asked.timer is not None:
            asked.timer.cancel()
        return asked

    def check_process(self) -> None:
        """Raise ForkedError in a forked child."""
        if os.getpid() != self._process:
            raise forked()

    # -- the life of the connection ----------------------------------------------------------------

    def drain(self, deadline: Deadline) -> None:
        """Wait for the replies under way, each for its own time at most."""
        for asked in list(self._open.values()):
            if not asked.future._waiters.wait(deadline.remaining()):
                raise TimeoutError(
                    "asynchronous requests were not answered in time", operation="drain"
                )

    def close(self) -> None:
        """Settle what is under way. The thread ends with the reply subject of its link, the one for
        callbacks when all have run."""
        for asked in list(self._open.values()):
            asked.finish(self._nc._refusal() if self._nc._refusal is not None else None)
        self._callbacks.end()
