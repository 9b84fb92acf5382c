"""The life of the reader thread: connect, replay, receive, wait, reconnect."""

from __future__ import annotations

import os
import socket
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
from jetsync._deadline import Deadline, to_seconds
from jetsync._latch import Latch
from jetsync._log import Log
from jetsync._threads import start_thread
from jetsync.client.dial import Link, dial
from jetsync.client.dialling import DIALS, DialTurn
from jetsync.client.options import LARGEST_MESSAGE
from jetsync.client.pongs import Pong, PongCall, Pongs, RoundTrip
from jetsync.client.sockets import Sockets
from jetsync.client.vitals import Vitals
from jetsync.errors import (
    AuthorizationError,
    ConfigError,
    ConnectError,
    DisconnectedError,
    Error,
    MaxPayloadError,
    NoServersError,
    PermissionsError,
    ProtocolError,
    SlowConsumerError,
    StaleConnectionError,
    TLSRequiredError,
)
from jetsync.protocol.info import ServerInfo
from jetsync.protocol.server_errors import ServerErrorInfo
from jetsync.protocol.serverpool import Attempt, ReconnectAttempt, ServerPool
from jetsync.protocol.states import Status
from jetsync.protocol.url import ServerURL

if TYPE_CHECKING:
    from jetsync.client.connection import Connection

__all__ = ["Session"]

logger = Log("jetsync.connection")

_SLACK = 0.2


class _Forgotten(Error):
    """The connection was garbage collected without having been closed."""


def _too_large_now(count: int, link: Link) -> MaxPayloadError:
    return MaxPayloadError(
        f"{count} messages that waited for a connection were dropped: {link.server.netloc} takes "
        f"{link.info.max_payload} bytes at most, less than the server before"
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
        self._events = nc._events
        self._options = options = nc.options
        self._credentials = options.make_credentials()
        self.pool = ServerPool(
            options.server_urls(),
            randomize=options.randomize_servers,
            reconnect_wait=options.reconnect_wait,
            reconnect_jitter=options.reconnect_jitter,
            max_reconnects=options.max_reconnects,
            ignore_discovered=options.ignore_discovered_servers,
        )
        self._routes.ping = self._confirm_subscriptions
        self._stop = Latch()
        self._first = Latch()
        self._dial_turn: DialTurn | None = None
        self._first_error: Exception | None = None
        self._link: Link | None = None
        self.round_trip = RoundTrip()
        self._vitals = Vitals(self._inbound, options.max_pings_outstanding)
        self.sockets = Sockets()
        self._auth_failures = 0
        self._had_tls = False
        self._late_start = False  # the first connect failed and goes on in the background
        self._last_failure: Exception | None = None
        self.info: ServerInfo | None = None
        self.reconnects = 0
        self.epoch = 0
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
        nc = self._connection()
        if nc is None:
            raise _Forgotten("the connection was garbage collected")
        return nc

    # -- the loop --------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._live()
        except _Forgotten:
            self._leave_quietly()
        except Exception as error:  # a bug of this library must not leave callers waiting
            logger.exception("the reader thread failed")
            self._first_error = error
            self._first.set()
            self._nc._lifecycle.give_up(error)

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
        while (link := self._dial_until_connected()) is not None:
            self._take_over(link)
            try:
                reason = self._pump(link)
            except MemoryError:  # a message of the link may be lost: connect anew
                reason = DisconnectedError(f"{link.server.netloc}: no memory for what it sent")
            self._on_disconnect(link, reason)
            if not self._options.reconnect:
                break
        if not self._stop.is_set():
            self._nc._lifecycle.give_up(self._first_error or reason)

    def _dial_until_connected(self) -> Link | None:
        """Try servers until one accepts the connection. None: closed, or no server left to try."""
        options = self._options
        tried_first_round = number = 0
        while not self._stop.is_set():
            attempt = self.pool.next()
            if attempt is None:
                self._first_error = self._exhausted(self._first_error or self._last_failure)
                self._first.set()
                return None
            number += 1
            if self._stop.wait(self._delay(attempt, number)):
                return None
            try:
                link = self._dial(attempt.server)
            except (OSError, Error) as error:
                self.pool.failed(attempt.server, error)
                if self._on_dial_error(attempt.server.netloc, error):
                    return None
                tried_first_round += 1
                if not self._first.is_set() and tried_first_round >= len(self.pool.servers):
                    self._first_error = self._exhausted(error)
                    self._first.set()
                    if not options.retry_on_initial_connect:
                        return None
                    self._first_error = None
                    self._late_start = True
            else:
                self.pool.succeeded(attempt.server)
                # From now on every link needs TLS: a server that offers none is refused.
                self._had_tls = self._had_tls or link.tls
                self._auth_failures = 0
                return link
        return None

    def _dial(self, server: ServerURL) -> Link:
        """Connect to a server. A reconnect waits for its turn among those of the process.

        The first connect does not: its caller waits for it.
        """
        comes_back = self.epoch > 0 or self._late_start
        turn = self._dial_turn = DIALS.turn(server.netloc if comes_back else None)
        if self._stop.is_set():
            turn.withdraw()
        with turn:
            return dial(
                server,
                self._options,
                self._credentials,
                Deadline(self._options.connect_timeout),  # begins with the turn
                self._watch,
                require_tls=self._had_tls,
            )

    def _delay(self, attempt: Attempt, number: int) -> float:
        """Return the seconds to wait before an attempt, and post the event of a reconnect attempt.

        ``reconnect_delay`` decides where it is set; when it raises, the error is reported and the
        default rule decides.
        """
        if not self.epoch and not self._late_start:
            return attempt.delay  # a caller of connect() waits for the first link
        delay, rule = attempt.delay, self._options.reconnect_delay
        if rule is not None:
            try:
                error = self._nc.last_error
                told = ReconnectAttempt(number, attempt.round, attempt.server, error)
                delay = to_seconds(rule(told), "what reconnect_delay returns")
            except Exception as error:  # noqa: BLE001 - user code may raise anything
                self._nc._post("error", error, attempt.server.netloc)
        self._nc._post(
            "reconnecting", self._nc.last_error, attempt.server.netloc, attempt=number, delay=delay
        )
        return delay

    def _watch(self, sock: socket.socket) -> None:
        """Keep hold of a socket before the reader waits for it, so that closing can end that."""
        self.sockets.hold(sock)
        if self._stop.is_set():
            raise ConnectError("the connection is being closed")

    def _exhausted(self, last: Exception | None) -> Exception:
        """Return the error to raise when no server is left to try."""
        if isinstance(last, (AuthorizationError, ConfigError, NoServersError, TLSRequiredError)):
            return last
        names = ", ".join(server.netloc for server in self.pool.servers)
        error = NoServersError(f"could not connect to any server (tried {names}); last: {last}")
        error.__cause__ = last
        return error

    def _on_dial_error(self, address: str, error: Exception) -> bool:
        """Note a failed attempt; returns whether to stop trying altogether."""
        logger.debug("cannot connect to %s: %s", address, error)
        self._last_failure = error
        self._nc._set_last_error(error)
        if isinstance(error, (AuthorizationError, TLSRequiredError)):
            self._nc._post("error", error, address)
        if not isinstance(error, AuthorizationError):
            return False
        self._auth_failures += 1
        limit = self._options.abort_on_auth_error
        if limit and self._auth_failures >= limit:
            self._first_error = error
            self._first.set()
            return True
        return False

    def _take_over(self, link: Link) -> None:
        """Make a fresh link the current one: it sends the subscriptions first, then waiting
        messages."""
        self.epoch += 1
        # The server chooses its limit: bound it, or it could make this client wait for terabytes.
        usual = min(max(64 << 20, 2 * link.info.max_payload), LARGEST_MESSAGE)
        self._inbound.reset(self._options.max_message_size or usual)
        routes = self._nc._routes
        lines, covered = routes.replay()
        fd = link.sock.fileno()
        refused = self._outbound.attach(fd, lines, link.info.max_payload, link.filter)
        routes.catch_up(covered)
        link.pongs = Pongs(self.round_trip)
        self.round_trip.measured(link.round_trip)
        self._vitals.restart()
        self._link = link  # from here on PINGs are this link's
        if link.filter is None:
            # Decrypting is Python code, which Ctrl-C may break off in the thread of a caller.
            self._inbound.link(fd)
        self._learn(link.info)
        if refused:
            self._nc._post("error", _too_large_now(refused, link), link.server.netloc)
        # A first link that was made in the background counts as a reconnect for the handlers.
        again = self.epoch > 1 or self._late_start
        self._late_start = False
        self._nc._life.link(Status.CONNECTED)
        self._first_error = None
        self._first.set()
        if self.epoch == 1:
            self._nc._post("connected", None, link.server.netloc)
        if again:
            self.reconnects = self.epoch - 1
            self._nc._post("reconnected", None, link.server.netloc)
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
        return DisconnectedError(f"{link.server.netloc}: {text}")

    def _on_disconnect(self, link: Link, reason: Exception | None) -> None:
        """Leave a dead link: no thread may use its descriptor once it is closed."""
        self._link = None
        self.sockets.cut()
        self._outbound.detach()
        self._inbound.unlink()
        self.sockets.close()
        lost = DisconnectedError(f"the connection to {link.server.netloc} was lost: {reason}")
        link.pongs.fail(lost)
        self._nc._requests.fail_all(str(lost))
        if self._stop.is_set():
            return
        if reason is not None:
            self._nc._set_last_error(reason)
        if self._options.reconnect:
            self._nc._life.link(Status.RECONNECTING)
        self._nc._post("disconnected", reason, link.server.netloc)
        self._nc._members.link_changed()

    # -- what the server says --------------------------------------------------------------------

    def _learn(self, info: ServerInfo) -> None:
        self.info = info
        self._outbound.max_payload = info.max_payload
        link = self._link
        if link is None:
            return
        named, proven = (info.connect_urls, True) if info.connect_urls else (link.hearsay, False)
        new = self.pool.update_discovered(
            named,
            current=link.server,
            tls=link.tls,
            proven=proven,
            near=link.is_near,
        )
        if new:
            self._nc._post("discovered_servers", None, ", ".join(str(url) for url in new))
        if info.ldm and link.leaves.first():
            self._nc._post("lame_duck", None, link.server.netloc)
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
            self._routes.confirmed(self._link.pongs.answered(self._outbound.pings))

    def _on_err(self, detail: bytes) -> None:
        problem = ServerErrorInfo.parse(detail)
        error = problem.error
        self._nc._set_last_error(error)
        if problem.closes and self._link is not None:
            self._link.suspicion = error
        if isinstance(error, PermissionsError):
            self._nc._routes.refused(error)
            if error.operation == "subscribe":
                self._nc._requests.inbox_refused(error.subject, error)
        elif problem.is_limit:
            marks = self._link.pongs.marks if self._link is not None else ()
            subject, error = self._routes.limit_reached(error, marks)
            self._nc._requests.inbox_refused(subject, error)
        self._nc._post("error", error)

    def _on_slow(self, sid: int) -> None:
        mailbox = self._inbound.get(sid)
        if mailbox is None:
            return
        subject = self._nc._routes.subject_of(sid)
        self._nc._post(
            "error",
            SlowConsumerError(
                f"subscription {subject!r} is too slow: {mailbox.pending_messages} messages wait, "
                "new ones are dropped; consume faster or raise its pending limits",
                subject=subject,
                dropped=mailbox.dropped,
            ),
            subject=subject,
        )

    # -- asked for by others ---------------------------------------------------------------------

    def wait_first(self) -> Exception | None:
        """Wait for the first connection; returns why there is none. Ctrl-C interrupts.

        Bounded by the connect timeout of each server: a name lookup that takes longer than that is
        not waited for.
        """
        servers = self.pool.servers
        limit = to_seconds(self._options.connect_timeout) * len(servers)
        if self._first.wait(limit + _SLACK):
            return self._first_error
        return self._exhausted(ConnectError(f"no connection within {limit:g} s"))

    def ping(self, pong: Pong | None, *, now: bool = True) -> None:
        """Send a PING; ``pong`` is finished by its PONG, or with an error when the link dies. With
        ``now=False`` the writer thread sends it."""
        while (link := self._link) is not None:
            mark = self._routes.newest
            number = self._outbound.ping()
            if not number:
                break
            if link is self._link:
                link.pongs.add(number, pong, mark)
                if now:
                    self._outbound.send_now()
                return
            # Another link came meanwhile and the number may belong to either: send another PING.
        if pong is not None:
            pong.finish(DisconnectedError("not connected at the moment; try again"))

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
        return self._link is not None

    @property
    def server(self) -> str | None:
        """The address of the current server, or None."""
        link = self._link
        return link.server.netloc if link is not None else None

    def close(self, timeout: float) -> None:
        """End both threads and join them (but not the calling one). Blocks up to ``timeout``."""
        self._stop.set()
        self._first.set()
        if (turn := self._dial_turn) is not None:
            turn.withdraw()
        self.sockets.cut()
        self.suspect(None)
        self._outbound.close()
        deadline = Deadline(timeout)
        for thread in reversed(self._threads):
            if thread is not threading.current_thread():
                thread.join(deadline.remaining())
