"""Request and reply over one shared inbox: every request has a token that is never used again."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, cast

from jetsync._core.encoding import encode_headers
from jetsync._core.mailbox import Mailbox
from jetsync._core.message import Msg
from jetsync._core.reply import Reply
from jetsync._deadline import Deadline
from jetsync.errors import (
    ConnectionClosedError,
    DisconnectedError,
    Error,
    NoRespondersError,
    OutboundFullError,
    TimeoutError,
)
from jetsync.headers import HeaderInput

if TYPE_CHECKING:
    from jetsync.client.connection import Connection
    from jetsync.client.routes import Inbox, Routes

__all__ = ["Exchange", "Reply", "Requests"]

_LINK_WAIT = 0.01
"""Seconds after which a request that found the buffer full tries again."""
_GONE = "the link was lost before the request could leave on it; try again"


class Requests:
    """The pending requests of a connection. Thread-safe; takes no lock, so that a request in a
    signal handler never waits for the one that it interrupted.

    A reply goes to ``<inbox>.<token>``; the reader finds the waiting mailbox by the token alone.
    A token is never used twice, so a late reply finds nothing and is counted, never delivered to
    another caller. It cannot be guessed from others (``csrc/jet_token.h``), so an answer counts
    only when its sender has seen the request.
    """

    def __init__(self, nc: Connection) -> None:
        self._nc = nc
        self.routes: Routes = nc._routes
        self._inbound = nc._inbound
        self._outbound = nc._outbound
        # One of them is current. The next request replaces one that the server refused.
        self._inboxes: dict[str, _ReplyInbox] = {}

    @property
    def link(self) -> int:
        """The number of the link over which a question that is asked now will leave."""
        return self._outbound.link_to_leave_on

    def _subscribe(self) -> _ReplyInbox:
        """Make an inbox the current one and subscribe, unless another thread has begun to."""
        current = self._inboxes.get("current")
        if current is None:
            prefix = self._nc.new_inbox() + "."
            inbox = self.routes.open(prefix + "*", None, Mailbox(), answers=True)
            # Another thread, or the code that a signal handler interrupted, may be first.
            current = self._inboxes.setdefault("current", _ReplyInbox(prefix, inbox))
            if current.inbox is not inbox:
                inbox.close()
        self._inbound.set_reply_route(current.prefix.encode(), current.inbox.sid)
        # A request whose link broke is not sent on the next link.
        self._outbound.enter_window(current.prefix.encode(), None)
        current.ready = True
        return current

    def open(self, subject: str | None) -> Reply:
        """Return a new reply subject. ``subject`` is what is asked, for permission errors; None:
        the caller watches what it asks."""
        inbox = self._inboxes.get("current")
        if inbox is None or not inbox.ready:
            inbox = self._subscribe()
        asked = self.routes.by_asked
        reply = Reply(self._inbound, self._outbound, asked, inbox.prefix, subject, self._nc)
        if inbox.refused is not None:
            # The server refused the inbox before this request was among the pending ones.
            reply.close()
            raise inbox.refused
        return reply

    def put(
        self,
        subject: str,
        data: bytes,
        reply: Reply,
        header: bytes | None,
        deadline: Deadline,
        link: int = 0,
        suffix: str = "",
    ) -> None:
        """Send a question from this thread. Without a header block the subject may hold
        wildcards. It leaves on the link of ``reply``, and waits for that link up to the deadline
        when the buffer for the time without one is full. With ``link`` it leaves on the link of
        that number only. The answer goes to the subject of ``reply`` with ``suffix`` behind it.

        Raises the error of a reply that was ended meanwhile, DisconnectedError when its link is
        gone: nothing was sent.
        """
        address = reply.subject + suffix
        number = link or reply.link
        while True:
            if reply.mailbox.error is not None:
                raise reply.mailbox.error
            seconds = deadline.remaining()
            linked = self._outbound.is_linked  # read first: the link may come back meanwhile
            try:
                if header is None:
                    self._outbound.ask(subject, address, data, seconds, number)
                else:
                    self._outbound.publish(subject, data, address, header, False, seconds, number)
                break
            except OutboundFullError:
                if link or deadline.expired:
                    raise
                if self.link != number:
                    raise reply.mailbox.error or DisconnectedError(_GONE) from None
                if linked:
                    raise
            self._nc._lifecycle.wait_closed(deadline.within(_LINK_WAIT))
        self._outbound.send_now()

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
        header = None if wild else encode_headers(headers)
        with Exchange(self, subject, data, header) as exchange:
            return exchange.ask(Deadline(timeout))

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
        """Send it and return an iterator over the replies, which holds their subscription."""
        replies = self._replies(subject, data, timeout, headers, max_messages, stall, sentinel)
        next(replies)  # to where it has been sent
        return cast("Iterator[Msg]", replies)

    def _replies(
        self,
        subject: str,
        data: bytes,
        timeout: float,
        headers: HeaderInput | None,
        max_messages: int | None,
        stall: float | None,
        sentinel: object,
    ) -> Iterator[Msg | None]:
        """Send the request, then yield None once, then every reply."""
        deadline = Deadline(timeout)
        with self.open(subject) as reply:
            self.put(subject, data, reply, encode_headers(headers), deadline)
            yield None
            mailbox = reply.mailbox
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
                        raise NoRespondersError(
                            f"no subscriber listens on {subject!r}", subject=subject
                        )
                    return
                if sentinel is not None and self._is_sentinel(sentinel, msg):
                    return
                count += 1
                yield msg

    @staticmethod
    def _is_sentinel(sentinel: object, msg: Msg) -> bool:
        return bool(sentinel(msg)) if callable(sentinel) else not msg.data

    def fail_all(self, reason: str, *, link: int | None = None, closed: bool = False) -> None:
        """End the pending requests of the links up to that number, None: all. Their answers may be
        lost with the link."""
        kind = ConnectionClosedError if closed else DisconnectedError
        for mailbox in self._inbound.pending_replies(link):
            mailbox.finish(kind(reason))

    def inbox_refused(self, subject: str | None, error: Error) -> None:
        """If the subscription that the server refused is the inbox: fail what waits; the next
        request tries a new one."""
        current = self._inboxes.get("current")
        if current is None or subject != current.prefix + "*":
            return
        current.refused = error
        self._inboxes.pop("current", None)
        self._outbound.leave_window(current.prefix.encode(), None)
        current.inbox.close()
        for mailbox in self._inbound.pending_replies():
            mailbox.finish(error)


class _ReplyInbox:
    """The subscription that all replies come by."""

    __slots__ = ("inbox", "prefix", "ready", "refused")

    def __init__(self, prefix: str, inbox: Inbox) -> None:
        self.prefix = prefix
        self.inbox = inbox
        self.ready = False
        """Whether the reader looks for tokens in what it gets."""
        self.refused: Error | None = None


class Exchange:
    """A question that may be asked several times, always with the same reply subject: the first
    answer counts, whichever asking it is to. For one thread; a context manager."""

    __slots__ = ("_data", "_header", "_is_asked", "_reply", "_requests", "_subject")

    def __init__(self, requests: Requests, subject: str, data: bytes, header: bytes | None) -> None:
        self._requests = requests
        self._subject = subject
        self._data = data
        self._header = header  # None: the subject may hold wildcards
        self._reply: Reply | None = None
        self._is_asked = False

    def change(self, subject: str, data: bytes) -> None:
        """Let the next asking be of something else; answers to what was asked before count too."""
        self._subject, self._data = subject, data

    def ask_ahead(self, deadline: Deadline) -> None:
        """Ask without waiting: the next :meth:`ask` waits for the answer and does not ask again.
        Blocks only while the buffer is full. Raises OutboundFullError, DisconnectedError."""
        self._send(deadline, 0)
        self._is_asked = True

    def ask(self, deadline: Deadline, link: int = 0) -> Msg:
        """Ask (again) and return the first answer. Blocks up to the deadline. With ``link`` the
        question leaves on the link of that number only, else OutboundFullError is raised.

        Raises TimeoutError, OutboundFullError (nothing was sent), NoRespondersError,
        DisconnectedError, PermissionsError.
        """
        reply = self._reply
        is_asked, self._is_asked = self._is_asked, False
        if reply is None or not (is_asked or reply.mailbox.pending_messages):
            reply = self._send(deadline, link)
        msg = reply.mailbox.get(deadline.remaining())
        if msg is None:
            raise reply.mailbox.error or TimeoutError(
                f"no reply to the request on {self._subject!r} within {deadline.timeout:g} s",
                operation="request",
            )
        if msg.status == 503 and not msg.data:
            raise NoRespondersError(
                f"no subscriber listens on {self._subject!r}", subject=self._subject
            )
        return msg

    def another(self, deadline: Deadline) -> Msg:
        """Wait for one more answer, without asking again. Blocks and raises like :meth:`ask`."""
        self._is_asked = True
        return self.ask(deadline)

    def wake(self) -> None:
        """Have a wait for an answer end with TimeoutError now. Any thread may call this."""
        reply = self._reply
        if reply is not None:
            reply.mailbox.wake()

    @property
    def answered(self) -> bool:
        """Whether an answer came after the last asking; the next one returns it at once."""
        return self._reply is not None and self._reply.mailbox.pending_messages > 0

    def _send(self, deadline: Deadline, link: int) -> Reply:
        requests, reply = self._requests, self._reply
        if reply is not None and reply.is_over:
            reply.close()  # the link broke: no answer comes to the old subject any more
            reply = None
        if reply is None:
            self._reply = reply = requests.open(self._subject)
        requests.put(self._subject, self._data, reply, self._header, deadline, link)
        return reply

    def __enter__(self) -> Exchange:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        value: BaseException | None = None,
        tb: TracebackType | None = None,
    ) -> None:
        """Expect no answer any more."""
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.close()

    close = __exit__
