"""The life of the reader thread: connect, replay, receive, wait, reconnect."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING

from jetsync._core.inbound import (
    EVENT_BAD,
    EVENT_EOF,
    EVENT_ERR,
    EVENT_INFO,
    EVENT_LAST,
    EVENT_PONG,
    EVENT_SLOW,
)
from jetsync._core.outbound import Outbound
from jetsync._core.websocket import is_native
from jetsync._counted import counted
from jetsync._deadline import Deadline, to_seconds
from jetsync._latch import Latch
from jetsync._log import Log
from jetsync._printable import printable
from jetsync._threads import start_thread
from jetsync.client.dial import Link
from jetsync.client.dialer import Dialer, Forgotten, as_exception, follow
from jetsync.client.options import LARGEST_MESSAGE
from jetsync.client.pongs import Pong, PongCall, Pongs, RoundTrip
from jetsync.client.vitals import Vitals
from jetsync.errors import (
    DisconnectedError,
    MaxPayloadError,
    PermissionsError,
    ProtocolError,
    SlowConsumerError,
    StaleConnectionError,
)
from jetsync.protocol.info import ServerInfo
from jetsync.protocol.server_errors import ServerErrorInfo
from jetsync.protocol.states import Status

if TYPE_CHECKING:
    from jetsync.client.connection import Connection
    from jetsync.client.sockets import Sockets
    from jetsync.protocol.serverpool import ServerPool

__all__ = ["Session"]

logger: Log = Log("jetsync.connection")


def _too_large_now(count: int, link: Link) -> MaxPayloadError:
    return MaxPayloadError(
        counted(
            count,
            "message that waited for a connection was",
            "messages that waited for a connection were",
        )
        + f" dropped: {link.server.netloc} takes {counted(link.info.max_payload, 'byte')} at "
        "most, less than the server before"
    )


class Session:
    """Keeps a connection linked to some server. Owns the reader and the writer thread.

    Only the reader declares a link dead: a thread that suspects it shuts the socket down and lets
    the reader find out. So there is one way into reconnecting and no race between two of them.

    No lock is taken. What other threads change here is one attribute at a time; what belongs to one
    link is kept with the link, so nothing of an old link can be taken for the new one's.

    It refers to its connection weakly, so that a connection without other references is collected.
    """

    def __init__(self, nc: Connection) -> None:
        self._connection = weakref.ref(nc)
        self._label = nc._label
        self._inbound = nc._inbound
        self._outbound: Outbound = nc._outbound
        self._routes = nc._routes
        self._timer = nc._timer
        self._events = nc._reports.events
        self._options = options = nc.options
        self._routes.ping = self._confirm_subscriptions
        self._stop = Latch()
        self._link: Link | None = None
        self.round_trip: RoundTrip = RoundTrip()
        self._vitals = Vitals(self._inbound, options.max_pings_outstanding)
        self.dialer: Dialer = Dialer(self._connection, options, self._stop)
        self.pool: ServerPool = self.dialer.pool
        self.sockets: Sockets = self.dialer.sockets
        self.info: ServerInfo | None = None
        self.reconnects: int = 0
        self.epoch: int = 0
        """How many links there have been; a changed value tells that answers may be lost."""
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start both threads. The reader may have given up, and closed the connection, before this
        returns: all that closing needs has to be in place before."""
        self._schedule_ping()
        self._threads.append(start_thread("writer", self._outbound.pump, self._label))
        self._threads.append(start_thread("reader", self._run, self._label))

    @property
    def _nc(self) -> Connection:
        return follow(self._connection)

    # -- the loop --------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._live()
        except Forgotten:
            self._leave_quietly()
        except BaseException as caught:  # a bug of this library must not leave callers waiting
            logger.exception("the reader thread failed")
            error = as_exception(caught)
            self.dialer.give_up(error)
            nc = self._connection()
            if nc is None:
                self._leave_quietly()
            else:
                self._leave(self._link, error)
                nc._lifecycle.give_up(error)

    def _leave_quietly(self) -> None:
        """End all threads of a connection that was garbage collected without being closed."""
        self._stop.set()
        self._outbound.detach()
        self.sockets.close()
        self._outbound.close()
        self._timer.close(0)
        self._events.close(0)

    def _live(self) -> None:
        reason: Exception | None = None
        while (link := self.dialer.next_link()) is not None:
            try:
                self._take_over(link)
                reason = self._pump(link)
            except MemoryError:  # a line or a message of the link may be lost: connect anew
                reason = DisconnectedError(f"{link.server.netloc}: no memory for what it sent")
            self._on_disconnect(link, reason)
            if not self._options.reconnect:
                break
        if not self._stop.is_set():
            self._nc._lifecycle.give_up(self.dialer.error or reason)

    def _take_over(self, link: Link) -> None:
        """Make a fresh link the current one: it sends the subscriptions first, then waiting
        messages."""
        self.epoch += 1
        # The server chooses its limit: bound it, or it could make this client wait for terabytes.
        usual = min(max(64 << 20, 2 * link.info.max_payload), LARGEST_MESSAGE)
        self._inbound.reset(self._options.max_message_size or usual)
        routes = self._nc._routes
        lines = routes.replay()
        fd = link.sock.fileno()
        link.pongs = Pongs(self.round_trip)
        self.round_trip.measured(link.round_trip)
        self._vitals.restart()
        self.info = link.info
        self._link, self._nc._port.url = link, link.url
        # From here on there is a link. What is said of it was set above: no thread finds the round
        # trip, the PONGs or the server of the link before.
        refused = self._outbound.attach(fd, lines, link.info.max_payload, link.filter)
        if link.filter is None or is_native(link.filter):
            # Other filters are Python code, which Ctrl-C may break off in the thread of a caller.
            self._inbound.link(fd)
        self._learn(link.info)
        if refused:
            self._nc._reports.post("error", _too_large_now(refused, link), link.server.netloc)
        self._nc._life.link(Status.CONNECTED)
        again = self.dialer.linked()
        if self.epoch == 1:
            self._nc._reports.post("connected", None, link.server.netloc, duration=link.round_trip)
        if again:
            self.reconnects = self.epoch - 1
            self._nc._reports.post(
                "reconnected", None, link.server.netloc, duration=link.round_trip
            )
        self._nc._members.link_changed()
        if self._stop.is_set():
            self.suspect(None)

    def _pump(self, link: Link) -> Exception | None:
        """Receive until the link is dead; returns why."""
        fd = link.sock.fileno()
        early = self._inbound.feed(link.leftover)
        while True:
            kind, detail = early.pop(0) if early else self._inbound.pump(fd, link.filter)
            if kind == EVENT_PONG:
                self._on_pong()
            elif kind == EVENT_INFO:
                try:
                    self._learn(ServerInfo.parse(detail))
                except ProtocolError as error:
                    return error
            elif kind == EVENT_ERR:
                self._on_err(detail)
            elif kind == EVENT_SLOW:
                self._on_slow(detail)
            elif kind == EVENT_LAST:
                self._nc._routes.ended(detail)
            elif kind == EVENT_BAD:
                return ProtocolError(f"{link.server.netloc} sent {detail}")
            elif kind == EVENT_EOF:
                return self._end_of(link, detail)

    def _end_of(self, link: Link, errno: int) -> Exception | None:
        if link.suspicion is not None:
            return link.suspicion
        text = os.strerror(errno) if errno else "the server closed the connection"
        goodbye = link.websocket.goodbye if link.websocket is not None else None
        if goodbye is not None:
            text = f"the server closed the WebSocket: {printable(goodbye)}"
        return DisconnectedError(f"{link.server.netloc}: {text}")

    def _leave(self, link: Link | None, reason: Exception | None) -> None:
        """Leave a dead link: no thread may use its descriptor once it is closed. Requests and
        messages that come after ``detach`` wait for the next link."""
        self.sockets.cut()
        self._outbound.detach()
        self._link = self._nc._port.url = None
        self._inbound.unlink()
        self.sockets.close()
        if link is None:
            return
        lost = DisconnectedError(f"the connection to {link.server.netloc} was lost: {reason}")
        link.pongs.fail(lost)
        self._nc._requests.fail_all(str(lost), link=self._outbound.links)

    def _on_disconnect(self, link: Link, reason: Exception | None) -> None:
        """Leave a dead link, and report that to handlers and members."""
        self._leave(link, reason)
        if self._stop.is_set():
            return
        if reason is not None:
            self._nc._reports.keep(reason)
        if self._options.reconnect:
            self._nc._life.link(Status.RECONNECTING)
        self._nc._reports.post("disconnected", reason, link.server.netloc)
        self._nc._members.link_changed()

    # -- what the server says --------------------------------------------------------------------

    def _learn(self, info: ServerInfo) -> None:
        self.info = info
        self._outbound.max_payload = info.max_payload
        link = self._link
        if link is None:
            return
        if link.websocket is not None:
            link.websocket.hold_to(info.max_payload)
        named, proven = (info.connect_urls, True) if info.connect_urls else (link.hearsay, False)
        new = self.pool.update_discovered(
            named,
            current=link.server,
            tls=link.tls,
            proven=proven,
            near=link.is_near,
        )
        if new:
            self._nc._reports.post("discovered_servers", None, ", ".join(str(url) for url in new))
        if info.ldm and link.leaves.first():
            self._nc._reports.post("lame_duck", None, link.server.netloc)
            if self.pool.prefer_other(link.server):
                # Once the server has read everything sent to it, or after a second.
                self.ping(PongCall(lambda: self._leave_lame_duck(link)))
                self._timer.call_later(1.0, lambda: self._leave_lame_duck(link))

    def _leave_lame_duck(self, link: Link) -> None:
        if self._link is link:
            self.suspect(DisconnectedError("the server is shutting down (lame duck)"))

    def _on_pong(self) -> None:
        self._vitals.ponged()
        if self._link is not None:
            self._routes.confirmed(self._link.pongs.answered(self._outbound.pongs))

    def _on_err(self, detail: bytes) -> None:
        problem = ServerErrorInfo.parse(detail)
        error = problem.error
        self._nc._reports.keep(error)
        if problem.closes and self._link is not None:
            self._link.suspicion = error
        if isinstance(error, PermissionsError):
            self._nc._routes.refused(error)
            if error.operation == "subscribe":
                self._nc._requests.inbox_refused(error.subject, error)
        elif problem.is_limit:
            positions = self._link.pongs.positions if self._link is not None else ()
            subject, error = self._routes.limit_reached(error, positions)
            self._nc._requests.inbox_refused(subject, error)
        self._nc._reports.post("error", error)

    def _on_slow(self, sid: int) -> None:
        mailbox = self._inbound.get(sid)
        if mailbox is None:
            return
        subject = self._nc._routes.subject_of(sid)
        self._nc._reports.post(
            "error",
            SlowConsumerError(
                f"subscription {subject!r} is too slow: "
                + counted(mailbox.pending_messages, "message waits", "messages wait")
                + ", new ones are dropped; consume faster or raise its pending limits",
                subject=subject,
                dropped=mailbox.dropped,
            ),
            subject=subject,
        )

    # -- asked for by others ---------------------------------------------------------------------

    def ping(self, pong: Pong | None, *, now: bool = True) -> bool:
        """Send a PING; ``pong`` is finished by its PONG, or with an error when the link dies. With
        ``now=False`` the writer thread sends it. False: there is no link to send it over."""
        while (link := self._link) is not None:
            position = self._routes.position()
            number = self._outbound.ping(wake=not now)
            if not number:
                break
            if link is self._link:
                link.pongs.add(number, pong, position)
                if now:
                    self._outbound.send_now()
                return True
            # Another link came meanwhile and the number may belong to either: send another PING.
        if pong is not None:
            pong.finish(DisconnectedError("not connected at the moment; try again"))
        return False

    def _confirm_subscriptions(self) -> None:
        if self._link is not None:
            self.ping(None, now=False)

    def _schedule_ping(self) -> None:
        def tick() -> None:
            if not self._stop.is_set():
                self.check_alive()
                self._schedule_ping()

        self._timer.call_later(to_seconds(self._options.ping_interval), tick)

    def check_alive(self) -> None:
        """Called every ping interval: give the link up when too many pings went unanswered."""
        if self._link is None:
            return
        stale = self._vitals.check()
        if stale:
            self.suspect(StaleConnectionError(stale))
        else:
            self.ping(None)

    def suspect(self, reason: Exception | None) -> None:
        """Shut the link down; the reader finds out and decides."""
        link = self._link
        if link is None:
            return
        if link.suspicion is None:
            link.suspicion = reason
        self.sockets.cut()

    @property
    def rtt(self) -> float:
        """The round trip in seconds with its spread on top; 0.0 before it was measured."""
        return self.round_trip.seconds

    @property
    def linked(self) -> bool:
        """Whether there is a link right now."""
        return self._outbound.is_linked

    @property
    def server(self) -> str | None:
        """The address of the current server, or None."""
        link = self._link
        return link.server.netloc if link is not None else None

    def close(self, timeout: float) -> None:
        """End both threads and join them (but not the calling one). Blocks up to ``timeout``."""
        self._stop.set()
        self.dialer.close()
        self.sockets.cut()
        self.suspect(None)
        self._outbound.close()
        self.join(timeout)

    def join(self, timeout: float) -> None:
        """Wait for the end of both threads, but not of the calling one. Blocks up to ``timeout``
        seconds."""
        deadline = Deadline(timeout)
        for thread in reversed(self._threads):
            thread.join(deadline.remaining())
