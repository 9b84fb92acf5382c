"""Request and reply over one shared inbox: every request has a token no other ever had."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jetsync._core.encoding import encode_headers
from jetsync._core.mailbox import Mailbox
from jetsync._core.message import Msg
from jetsync._deadline import Deadline
from jetsync.errors import (
    ConnectionClosedError,
    DisconnectedError,
    NoRespondersError,
    PermissionsError,
    TimeoutError,
)
from jetsync.headers import HeaderInput

if TYPE_CHECKING:
    from jetsync.client.connection import Connection

__all__ = ["Exchange", "Requests"]


class Requests:
    """The pending requests of a connection. Thread-safe.

    A reply goes to ``<inbox>.<token>``; the reader finds the waiting mailbox by the token alone.
    A token is never used twice, so a late reply finds nobody and is counted, never delivered to
    another caller. It cannot be guessed from others (``csrc/jet_token.h``), so an answer counts
    only when whoever sends it was shown the question.
    """

    def __init__(self, nc: Connection) -> None:
        self._nc = nc
        self._lock = threading.Lock()
        self._prefix: str | None = None
        self._sid = 0
        self._refused: PermissionsError | None = None
        self._subjects: dict[int, tuple[str, Mailbox]] = {}

    def _reply_prefix(self) -> str:
        """The subject before the token; subscribes the inbox at first use."""
        with self._lock:
            if self._prefix is None:
                prefix = self._nc.new_inbox() + "."
                sid = self._nc._open_route(prefix + "*", None, Mailbox())
                self._nc._inbound.set_reply_route(prefix.encode(), sid)
                self._sid = sid
                self._prefix = prefix
            return self._prefix

    def open(self, subject: str) -> tuple[int, str, Mailbox]:
        """Return a token, its reply subject and the mailbox that gets what is sent there.

        ``-`` and anything may follow the reply subject, to tell several replies apart. To be given
        back with :meth:`end`. ``subject`` is what is asked, for permission errors.
        """
        prefix = self._reply_prefix()
        mailbox = Mailbox(owner=self._nc)
        token = self._nc._inbound.add_reply(mailbox)
        self._subjects[token] = (subject, mailbox)
        if self._prefix is not prefix and self._refused is not None:
            # The server refused the inbox before this request was among the pending ones.
            self.end(token)
            raise self._refused
        return token, prefix + self._nc._inbound.reply_token(token), mailbox

    def end(self, token: int) -> None:
        """Forget a token: what still comes for it is dropped and counted."""
        self._nc._inbound.remove_reply(token)
        self._subjects.pop(token, None)

    def _begin(
        self, subject: str, data: bytes, headers: HeaderInput | None, deadline: Deadline
    ) -> tuple[int, Mailbox]:
        token, reply, mailbox = self.open(subject)
        try:
            outbound = self._nc._outbound
            header = encode_headers(headers)
            outbound.publish(subject, data, reply, header, False, deadline.remaining())
            outbound.send_now()
        except BaseException:
            self.end(token)
            raise
        return token, mailbox

    def request(
        self,
        subject: str,
        data: bytes,
        timeout: float,
        headers: HeaderInput | None = None,
        *,
        wild: bool = False,
    ) -> Msg:
        """See ``Connection.request``, and :meth:`exchange` for ``wild``."""
        with self.exchange(subject, data, headers, wild=wild) as exchange:
            return exchange.ask(timeout)

    def exchange(
        self, subject: str, data: bytes, headers: HeaderInput | None = None, *, wild: bool = False
    ) -> Exchange:
        """Return a question that has not been asked yet, to be closed by ``with``. ``wild``: the
        subject may hold wildcards, and no headers go with it; some subjects of the server's own API
        are so."""
        return Exchange(self, subject, data, None if wild else encode_headers(headers))

    def request_many(
        self,
        subject: str,
        data: bytes,
        timeout: float,
        headers: HeaderInput | None,
        max_messages: int | None,
        stall: float | None,
        sentinel: object,
    ) -> Iterator[Msg]:
        deadline = Deadline(timeout)
        token, mailbox = self._begin(subject, data, headers, deadline)
        try:
            count = 0
            while max_messages is None or count < max_messages:
                wait = deadline.remaining()
                if stall is not None and count and wait is not None:
                    wait = min(wait, stall)
                msg = mailbox.get(wait)
                if msg is None:
                    if mailbox.error is not None:
                        raise mailbox.error
                    return
                if msg.status == 503 and not msg.data:
                    if count == 0:
                        raise NoRespondersError(f"nobody listens on {subject!r}", subject=subject)
                    return
                if sentinel is not None and self._is_sentinel(sentinel, msg):
                    return
                count += 1
                yield msg
        finally:
            self.end(token)

    @staticmethod
    def _is_sentinel(sentinel: object, msg: Msg) -> bool:
        return bool(sentinel(msg)) if callable(sentinel) else not msg.data

    def fail_all(self, reason: str, *, closed: bool = False) -> None:
        """End every pending request: its answer may be lost with the link."""
        kind = ConnectionClosedError if closed else DisconnectedError
        for mailbox in self._nc._inbound.pending_replies():
            mailbox.finish(kind(reason))

    def on_permission_error(self, error: PermissionsError) -> None:
        """Fail the requests that a permission violation is about."""
        if error.operation == "publish":
            for subject, mailbox in list(self._subjects.values()):
                if subject == error.subject:
                    mailbox.finish(error)
        elif self._forget_inbox(error):
            for mailbox in self._nc._inbound.pending_replies():
                mailbox.finish(error)

    def _forget_inbox(self, error: PermissionsError) -> bool:
        """Whether it is the inbox that was refused; the next request tries a new one then."""
        with self._lock:
            if self._prefix is None or error.subject != self._prefix + "*":
                return False
            self._nc._close_route(self._sid)
            self._refused = error
            self._prefix = None
            return True


class Exchange:
    """A question that may be asked several times, always with the same reply subject: the first
    answer counts, whichever asking it is to. For one thread; a context manager."""

    __slots__ = ("_data", "_header", "_mailbox", "_reply", "_requests", "_subject", "_token")

    def __init__(self, requests: Requests, subject: str, data: bytes, header: bytes | None) -> None:
        self._requests = requests
        self._subject = subject
        self._data = data
        self._header = header  # None: the subject may hold wildcards
        self._token = 0
        self._reply = ""
        self._mailbox: Mailbox | None = None

    def ask(self, seconds: float) -> Msg:
        """Ask (again) and return the first answer. Blocks up to ``seconds``.

        Raises TimeoutError, OutboundFullError (nothing was sent), NoRespondersError,
        DisconnectedError, PermissionsError.
        """
        deadline = Deadline(seconds)
        mailbox = self._mailbox
        if mailbox is None or not mailbox.pending_messages:
            mailbox = self._send(deadline)
        msg = mailbox.get(deadline.remaining())
        if msg is None:
            raise mailbox.error or TimeoutError(
                f"no reply to the request on {self._subject!r} within {seconds:g} s",
                operation="request",
            )
        if msg.status == 503 and not msg.data:
            raise NoRespondersError(f"nobody listens on {self._subject!r}", subject=self._subject)
        return msg

    @property
    def answered(self) -> bool:
        """Whether an answer came after the last asking; the next one returns it at once."""
        return self._mailbox is not None and self._mailbox.pending_messages > 0

    def _send(self, deadline: Deadline) -> Mailbox:
        requests, mailbox = self._requests, self._mailbox
        if mailbox is None or mailbox.finished:
            # The first time; or the link broke, and no answer comes to the old place any more.
            self.close()
            self._token, self._reply, mailbox = requests.open(self._subject)
            self._mailbox = mailbox
        outbound = requests._nc._outbound
        if self._header is None:
            outbound.ask(self._subject, self._reply, self._data, deadline.remaining())
        else:
            outbound.publish(
                *(self._subject, self._data, self._reply, self._header),
                wake=False,
                seconds=deadline.remaining(),
            )
        outbound.send_now()
        return mailbox

    def close(self) -> None:
        """Expect no answer any more."""
        if self._token:
            self._requests.end(self._token)
            self._token, self._mailbox = 0, None

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
