"""Routes: the mailbox of each subscription id, and the SUB and UNSUB lines for the server.

Every subscription of a connection is a route here: those of the user, of the rooms above, and the
shared inbox of requests. No lock is taken: callers run in signal handlers and finalizers too, and
the reader must never wait for one of them. A route is in the table before its SUB line is sent and
leaves it before its UNSUB line, so that the table is what the server has to know; a new link keeps
lines from before the table is read for it, so that what changes meanwhile is told in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from jetsync._core.encoding import encode_sub, encode_unsub
from jetsync._core.inbound import Inbound
from jetsync._core.index import Index
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from jetsync.client.unconfirmed import Unconfirmed
from jetsync.errors import Error, PermissionsError, ServerError

__all__ = ["Inbox", "Routes"]


class Inbox:
    """One subscription on the server and the mailbox of what it delivers. Thread-safe.

    Dropping the object closes it soon, so neither an interrupt nor a forgotten handle leaves a
    subscription behind. Made by ``Port.open_inbox``.
    """

    __slots__ = ("__weakref__", "_routes", "answers", "asks", "mailbox", "queue", "sid", "subject")

    def __init__(
        self,
        routes: Routes,
        subject: str,
        queue: str | None,
        mailbox: Mailbox,
        *,
        answers: bool,
        asks: str | None,
    ) -> None:
        self._routes = routes
        self.subject: str = subject
        self.queue: str | None = queue
        self.mailbox: Mailbox = mailbox
        self.answers: bool = answers
        """It gets answers to messages of this connection, so a drain leaves it open for them."""
        self.asks: str | None = asks
        """The subject on which its messages are asked for."""
        self.sid: int = 0

    def stop(self, after: int = 0) -> None:
        """Tell the server to send nothing more, or nothing after ``after`` messages in all. What it
        had sent before still arrives. Does not block."""
        self._routes.outbound.unsubscribe(self.sid, after)

    def close(self, error: Exception | None = None) -> None:
        """Take nothing more in. What waits in the mailbox can still be taken; a thread that waits
        for more gets ``error``, or learns that it has ended. Safe to repeat. Does not block."""
        self._routes.remove(self.mailbox)
        self.mailbox.finish(error)

    def release(self) -> None:
        """Take nothing more in, and leave the mailbox as it is. Safe to repeat."""
        self._routes.remove(self.mailbox)


class Ending(Protocol):
    """An object that ends with an error when its question is refused, such as a mailbox."""

    def finish(self, error: Exception | None = None) -> None: ...

    def __hash__(self) -> int: ...


class _Route:
    """The table's entry for an inbox, which it does not hold."""

    __slots__ = ("answers", "asks", "mailbox", "queue", "subject")

    def __init__(self, inbox: Inbox) -> None:
        self.subject = inbox.subject
        self.queue = inbox.queue
        self.mailbox = inbox.mailbox
        self.answers = inbox.answers
        self.asks = inbox.asks


class Routes:
    """The subscriptions of one connection. Thread-safe; takes no lock and never waits."""

    def __init__(
        self,
        inbound: Inbound,
        outbound: Outbound,
        guard: Callable[[object, Callable[[], object]], object],
    ) -> None:
        self.inbound = inbound
        self.outbound = outbound
        self._guard = guard
        self.table: dict[int, _Route] = {}
        # One for every inbox that is not wholly removed: it removes the inbox when that is dropped.
        self._guards: dict[Mailbox, object] = {}
        # By what a permission violation names: (subject, queue) of subscriptions, and subjects.
        self._by_subject: Index[tuple[str, str | None], int] = Index()
        self.by_asked: Index[str, Ending] = Index()
        """Mailboxes and questions that end with the PermissionsError when publishing to the subject
        is refused."""
        self._dropped_by_ended = 0
        self._unconfirmed = Unconfirmed()
        self.ping: Callable[[], object] | None = None
        """Sends a PING that confirms what was subscribed to before it."""

    def open(
        self,
        subject: str,
        queue: str | None,
        mailbox: Mailbox,
        *,
        answers: bool = False,
        asks: str | None = None,
    ) -> Inbox:
        """Subscribe, and return the inbox. Does not wait for the server.

        Raises ConfigError for a bad subject or queue, ConnectionClosedError.
        """
        inbox = Inbox(self, subject, queue, mailbox, answers=answers, asks=asks)
        try:
            self._add(inbox)
            self._subscribe(subject, queue, inbox.sid)
        except BaseException:
            self.remove(mailbox)
            raise
        return inbox

    def _add(self, inbox: Inbox) -> None:
        # The guard or `remove` undoes everything below, at any step where an interrupt comes. They
        # ask the mailbox for the id, since an interrupt may come before it is stored here.
        mailbox = inbox.mailbox
        self._guards[mailbox] = self._guard(inbox, lambda: self.remove(mailbox))
        self.inbound.add(mailbox)
        inbox.sid = sid = mailbox.sid
        self._by_subject.add((inbox.subject, inbox.queue), sid)
        if inbox.asks is not None:
            self.by_asked.add(inbox.asks, inbox.mailbox)
        self.table[sid] = _Route(inbox)

    def _subscribe(self, subject: str, queue: str | None, sid: int) -> None:
        if self._unconfirmed.wants_ping() and self.ping is not None:
            self.ping()
        unconfirmed = self._unconfirmed
        self.outbound.subscribe(subject, queue, sid, unconfirmed.lines, unconfirmed.numbers)

    def remove(self, mailbox: Mailbox) -> None:
        """Take nothing more in for a mailbox, and tell the server. Safe to repeat, also when an
        interrupt broke it off."""
        if mailbox not in self._guards:
            return
        sid = mailbox.sid
        self.inbound.remove(sid)
        route = self.table.get(sid)
        if route is not None:
            self._by_subject.discard((route.subject, route.queue), sid)
            if route.asks is not None:
                self.by_asked.discard(route.asks, mailbox)
            if self.table.pop(sid, None) is not None:
                self._dropped_by_ended += mailbox.dropped
        # After the table, so that a link that is taken over at this moment hears of it.
        self._unconfirmed.made_room()
        self.outbound.unsubscribe(sid)
        self._unconfirmed.made_room()  # another thread may have read it between the two lines
        self._guards.pop(mailbox, None)

    def ended(self, sid: int) -> None:
        """The server has sent the last message that was wanted of a subscription."""
        route = self.table.get(sid)
        if route is not None:
            self.remove(route.mailbox)

    # -- a new link ------------------------------------------------------------------------------

    def replay(self) -> bytes:
        """Return the SUB lines of all routes, for `attach`. What changes from here on is told by
        lines of its own, behind these. A line that the server gets twice does no harm."""
        self.outbound.expect()
        self._unconfirmed = unconfirmed = Unconfirmed()
        lines: list[bytes] = []
        for sid, route in list(self.table.items()):
            mailbox = route.mailbox
            if mailbox.finished:
                self.remove(mailbox)  # its last message came before the link broke
                continue
            lines.append(
                encode_sub(route.subject, route.queue, sid, self.outbound.max_control_line)
            )
            unconfirmed.replayed(sid)
            if mailbox.stops_after:
                lines.append(encode_unsub(sid, mailbox.stops_after - mailbox.received))
        return b"".join(lines)

    # -- the end ---------------------------------------------------------------------------------

    def stop_all(self) -> list[int]:
        """Ask the server for the end of every inbox that is not for answers; returns their ids."""
        sids = [sid for sid, route in list(self.table.items()) if not route.answers]
        for sid in sids:
            self.outbound.unsubscribe(sid)
        return sids

    def close_all(self, sids: list[int], error: Exception | None = None) -> None:
        """End these inboxes: see ``Inbox.close``."""
        for sid in sids:
            route = self.table.get(sid)
            if route is not None:
                self.remove(route.mailbox)
                route.mailbox.finish(error)

    def finish_all(self, error: Exception | None) -> None:
        """The connection has ended: end every mailbox that is not for answers."""
        for route in list(self.table.values()):
            if not route.answers:
                route.mailbox.finish(error)

    # -- refused by the server -------------------------------------------------------------------

    def refused(self, error: PermissionsError) -> None:
        """End what a permission violation is about."""
        if error.operation == "publish":
            for mailbox in self.by_asked.get(error.subject or ""):
                mailbox.finish(error)
        elif error.operation == "subscribe":
            self.close_all(self._by_subject.get((error.subject or "", error.queue)), error)

    def position(self) -> int:
        """The position of a PING that is sent next, among the SUB lines; for ``confirmed``."""
        return self._unconfirmed.position()

    def confirmed(self, position: int) -> None:
        """Note that the server has taken every SUB line before the PING at this position. For the
        reader."""
        self._unconfirmed.confirmed(position)

    def limit_reached(self, error: Error, positions: Iterable[int]) -> tuple[str | None, Error]:
        """End the subscription beyond the server's limit; returns its subject and its error, which
        names it. ``positions``: see ``Unconfirmed.refused``. Called by the reader."""
        route = self.table.get(self._unconfirmed.refused(positions))
        if route is None:
            return None, error  # it was closed meanwhile
        error = ServerError(f"the server refused the subscription to {route.subject!r}: {error}")
        self.remove(route.mailbox)
        route.mailbox.finish(error)
        return route.subject, error

    # -- state -----------------------------------------------------------------------------------

    def subject_of(self, sid: int) -> str:
        """The subject of a subscription id."""
        route = self.table.get(sid)
        return route.subject if route is not None else "?"

    def mailboxes(self) -> list[Mailbox]:
        """The mailbox of every route."""
        return [route.mailbox for route in list(self.table.values())]

    @property
    def dropped(self) -> int:
        """Messages dropped because a pending limit was hit, over all subscriptions so far."""
        return self._dropped_by_ended + sum(mailbox.dropped for mailbox in self.mailboxes())
