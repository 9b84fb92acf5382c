"""Dialer: the attempts to connect, one server after another, until one accepts the connection."""

from __future__ import annotations

import socket
import weakref
from typing import TYPE_CHECKING

from jetsync._deadline import Deadline, to_seconds
from jetsync._latch import Latch
from jetsync._log import Log
from jetsync.client.dial import Link, dial
from jetsync.client.dialling import DIALS, DialTurn, NoTurnError
from jetsync.client.last_error import without_traceback
from jetsync.client.options import ConnectOptions
from jetsync.client.sockets import Sockets
from jetsync.errors import (
    AuthorizationError,
    ConfigError,
    ConnectError,
    Error,
    NoServersError,
    TLSRequiredError,
)
from jetsync.protocol.serverpool import Attempt, ReconnectAttempt, ServerPool
from jetsync.protocol.url import ServerURL

if TYPE_CHECKING:
    from jetsync.client.connection import Connection

__all__ = ["Dialer", "Forgotten", "as_exception", "follow"]

logger: Log = Log("jetsync.connection")

_SLACK = 0.2


class Forgotten(Error):
    """The connection was garbage collected without having been closed."""


def follow(connection: weakref.ref[Connection]) -> Connection:
    """Return the connection of a weak reference. Raises :class:`Forgotten` when it is gone."""
    nc = connection()
    if nc is None:
        raise Forgotten("the connection was garbage collected")
    return nc


def as_exception(error: BaseException) -> Exception:
    """Return what a function of the user raised as an error that a caller may get: one that ends a
    program does not end this thread."""
    if isinstance(error, Exception):
        return error
    wrapped = ConnectError(f"a function of the options raised {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


class Dialer:
    """Chooses servers, waits between attempts and dials. Used by the reader; any thread may close.

    ``stop`` ends the attempts.
    """

    def __init__(
        self, connection: weakref.ref[Connection], options: ConnectOptions, stop: Latch
    ) -> None:
        self._connection = connection
        self._options = options
        self._stop = stop
        self._credentials = options._make_credentials()
        self.pool: ServerPool = ServerPool(
            options.server_urls(),
            randomize=options.randomize_servers,
            reconnect_wait=options.reconnect_wait,
            reconnect_jitter=options.reconnect_jitter,
            max_reconnects=options.max_reconnects,
            ignore_discovered=options.ignore_discovered_servers,
        )
        self.sockets: Sockets = Sockets()
        self.error: Exception | None = None
        """Why there is no link and will be none, or None."""
        self._first = Latch()
        self._turn: DialTurn | None = None
        self._links = 0
        self._auth_failures = 0
        self._had_tls = False
        self._late_start = False  # the first connect failed and goes on in the background
        self._last_failure: Exception | None = None

    def next_link(self) -> Link | None:
        """Try servers until one accepts the connection. None: closed, or no server left to try."""
        tried_first_round = number = 0
        while not self._stop.is_set():
            attempt = self.pool.next()
            if attempt is None:
                self.give_up(self._exhausted(self.error or self._last_failure))
                return None
            number += 1
            if self._stop.wait(self._delay(attempt, number)):
                return None
            try:
                link = self._dial(attempt.server)
            except NoTurnError as late:
                self.pool.pass_over(attempt.server)
                self._on_error(attempt.server.netloc, late)
            except Forgotten:
                raise
            except BaseException as caught:  # noqa: BLE001 - the user's functions raise anything
                error = as_exception(caught)
                self.pool.failed(attempt.server, without_traceback(error))
                if self._on_error(attempt.server.netloc, error):
                    return None
                tried_first_round += 1
                if not self._first.is_set() and tried_first_round >= len(self.pool.servers):
                    if not self._options.retry_on_initial_connect:
                        self.give_up(self._exhausted(error))
                        return None
                    self._late_start = True
                    self._first.set()
            else:
                self.pool.succeeded(attempt.server)
                # From now on every link needs TLS: a server that offers none is refused.
                self._had_tls = self._had_tls or link.tls
                self._auth_failures = 0
                return link
        return None

    def linked(self) -> bool:
        """Note that the last link is in use; returns whether it counts as a reconnect.

        A first link that was made in the background does.
        """
        self._links += 1
        again = self._links > 1 or self._late_start
        self._late_start = False
        self.error = None
        self._first.set()
        return again

    def give_up(self, error: Exception) -> None:
        """Note why there is no link, and let :meth:`wait_first` return."""
        self.error = error
        self._first.set()

    def wait_first(self) -> Exception | None:
        """Wait for the first connection; returns why there is none. Ctrl-C interrupts.

        Bounded by the connect timeout of each server: a name lookup that takes longer than that is
        not waited for. With ``retry_on_initial_connect`` the attempts go on then, and this returns
        None.
        """
        limit = to_seconds(self._options.connect_timeout) * len(self.pool.servers)
        if self._first.wait(limit + _SLACK):
            return self.error
        if self._options.retry_on_initial_connect:
            # Before the error is checked again: the first link may come at this moment, and later
            # ones count as reconnects anyway.
            self._late_start = True
            return self.error
        return self._exhausted(ConnectError(f"no connection within {limit:g} s"))

    def close(self) -> None:
        """Let :meth:`wait_first`, and a dial that waits for its turn, return. Any thread."""
        self._first.set()
        if (turn := self._turn) is not None:
            turn.withdraw()

    @property
    def _is_reconnecting(self) -> bool:
        return self._links > 0 or self._late_start

    def _dial(self, server: ServerURL) -> Link:
        """Connect to a server. A reconnect waits for its turn among those of the process.

        The first connect does not: its caller waits for it. Where there are other servers, the
        next one is tried when the turn does not come within ``connect_timeout``.
        """
        turn = self._turn = DIALS.turn(
            server.netloc if self._is_reconnecting else None,
            to_seconds(self._options.connect_timeout) if len(self.pool.servers) > 1 else None,
        )
        if self._stop.is_set():
            turn.withdraw()
        with turn:
            if self._stop.is_set():  # the turn was withdrawn: do not begin to look names up
                raise ConnectError("the connection is being closed")
            return dial(
                server,
                self._options,
                self._credentials,
                Deadline(self._options.connect_timeout),  # begins with the turn
                self._watch,
                require_tls=self._had_tls,
            )

    def _watch(self, sock: socket.socket) -> None:
        """Keep hold of a socket before the reader waits for it, so that closing can end that."""
        self.sockets.hold(sock)
        if self._stop.is_set():
            raise ConnectError("the connection is being closed")

    def _delay(self, attempt: Attempt, number: int) -> float:
        """Return the seconds to wait before an attempt, and post the event of a reconnect attempt.

        ``reconnect_delay`` decides where it is set; when it raises, the error is reported and the
        default rule decides.
        """
        if not self._is_reconnecting:
            return attempt.delay
        nc = follow(self._connection)
        delay, rule = attempt.delay, self._options.reconnect_delay
        if rule is not None:
            try:
                facts = ReconnectAttempt(number, attempt.round, str(attempt.server), nc.last_error)
                delay = to_seconds(rule(facts), "what reconnect_delay returns")
            except BaseException as error:  # noqa: BLE001 - user code may raise anything
                nc._reports.post("error", as_exception(error), attempt.server.netloc)
        nc._reports.post(
            "reconnecting", nc.last_error, attempt.server.netloc, attempt=number, delay=delay
        )
        return delay

    def _on_error(self, address: str, error: Exception) -> bool:
        """Note a failed attempt; returns whether to stop trying altogether."""
        about = {"nats_server": address}
        if self._options.name is not None:
            about["nats_connection"] = self._options.name
        logger.debug("cannot connect to %s: %s", address, error, extra=about)
        self._last_failure = error
        nc = follow(self._connection)
        nc._reports.keep(error)
        if isinstance(error, (AuthorizationError, TLSRequiredError)):
            nc._reports.post("error", error, address)
        if not isinstance(error, AuthorizationError):
            return False
        self._auth_failures += 1
        limit = self._options.abort_on_auth_error
        if limit and self._auth_failures >= limit:
            self.give_up(error)
            return True
        return False

    def _exhausted(self, last: Exception | None) -> Exception:
        """Return the error to raise when no server is left to try."""
        if isinstance(last, (AuthorizationError, ConfigError, NoServersError, TLSRequiredError)):
            return last
        names = ", ".join(server.netloc for server in self.pool.servers)
        error = NoServersError(f"could not connect to any server (tried {names}); last: {last}")
        error.__cause__ = last
        return error
