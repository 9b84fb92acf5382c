"""ServerPool: which server is tried next, and after which delay (ADR-40).

Pure: the answer follows from the history, a clock and a random generator, so backoff is tested
without sockets and without sleeping.
"""

from __future__ import annotations

import ipaddress
import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from jetsync._deadline import Seconds, to_seconds
from jetsync.errors import ConfigError
from jetsync.protocol.url import ServerURL, parse_server

__all__ = ["Attempt", "ReconnectAttempt", "ServerPool", "ServerState"]

DEFAULT_RECONNECT_WAIT = 0.05
DEFAULT_MAX_WAIT = 2.0
GROWTH = 1.5
"""The growth of the wait from pass to pass. With it, and not with 2, a client is back 0.5 s after a
restart of 0.2 s in 95 of 100 cases."""

MOST_DISCOVERED = 64
"""Servers learnt from INFO at most: it bounds what a hostile INFO makes the client dial."""

OWN_EVERY = 4
"""One of this many attempts goes to a server of the user's own, however many were learnt."""

STABLE_AFTER = 0.5
"""Seconds: after a link that lived shorter than this the backoff goes on where it was."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """Connect to ``server`` after ``delay`` seconds; ``round`` counts passes over the pool."""

    server: ServerURL
    delay: float
    round: int


@dataclass(frozen=True)
class ReconnectAttempt:
    """An attempt to reconnect, for ``ConnectOptions.reconnect_delay``.

    ``number`` counts the attempts since the link was lost, from 1; ``pass_number`` the passes over
    all servers, from 0; ``error`` is why the link, or the last attempt, failed.
    """

    number: int
    pass_number: int
    server: str
    """Its address, without secrets, as in :attr:`ServerState.url`."""
    error: BaseException | None


@dataclass(frozen=True)
class ServerState:
    """The state of one server, as a connection knows it.

    ``attempts`` are those that failed since the last
    success at any server; ``last_error`` belongs to the last of them. ``last_connected_at`` is on
    the wall clock (UTC), None when it never accepted this client.
    """

    url: str
    """Its address, such as ``nats://host:4222``; secrets are masked."""
    discovered: bool
    """Whether another server announced it."""
    is_current: bool
    """Whether the connection is to this server now."""
    attempts: int
    """Attempts that failed since the last success at any server."""
    last_error: BaseException | None
    """Why the last of them failed."""
    last_connected_at: datetime | None
    """When it last accepted this client (UTC); None: never."""


@dataclass(slots=True, eq=False)
class _Entry:
    server: ServerURL
    discovered: bool
    tries: int = 0
    passed_over: int = 0
    last_error: BaseException | None = None
    last_connected_at: datetime | None = None


class ServerPool:
    """The known servers and what was learnt of them. One thread at a time may use it; only
    ``states``, ``servers`` and ``replace_own`` may be called from any other beside it.

    The caller asks ``next()``, waits and connects, and then reports ``succeeded`` (after PONG, not
    before) or ``failed``. The first ``next()`` after a success begins a reconnect: it goes to the
    next server at once, and the server that was lost comes last.

    Waiting: within one pass over the pool there is none; before the second pass up to
    ``reconnect_wait`` seconds, half as much again with each further pass, up to ``max_wait`` (or
    ``reconnect_wait``, if that is longer). With ``reconnect_jitter=None`` the wait is random
    between nothing and that ("full jitter", so that many clients do not come back together);
    a number of seconds makes it exactly that plus a random part of up to ``reconnect_jitter``.
    Links that break at once again (see ``STABLE_AFTER``) do not set the wait back to nothing.

    ``max_reconnects`` is per server; negative means for ever.
    """

    def __init__(
        self,
        urls: Iterable[ServerURL],
        *,
        randomize: bool = True,
        reconnect_wait: Seconds = DEFAULT_RECONNECT_WAIT,
        reconnect_jitter: Seconds | None = None,
        max_wait: Seconds = DEFAULT_MAX_WAIT,
        max_reconnects: int = -1,
        ignore_discovered: bool = False,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raise ``ConfigError`` for no servers, unusable waits or a wrong ``max_reconnects``."""
        self._entries = [_Entry(server, discovered=False) for server in dict.fromkeys(urls)]
        if not self._entries:
            raise ConfigError("servers is empty; give at least one URL")
        if not isinstance(max_reconnects, int) or isinstance(max_reconnects, bool):
            raise ConfigError("max_reconnects must be an int; -1 means for ever")
        self._wait = _finite(reconnect_wait, "reconnect_wait")
        self._max_wait = max(_finite(max_wait, "max_wait"), self._wait)
        self._jitter = (
            None if reconnect_jitter is None else _finite(reconnect_jitter, "reconnect_jitter")
        )
        self._randomize = randomize
        self._ignore_discovered = ignore_discovered
        # Not for secrets: it only spreads clients over servers and time.
        self._rng = rng if rng is not None else random.Random()  # noqa: S311
        self._clock = clock
        self._max_reconnects = max_reconnects
        self._allowed = max_reconnects + 1  # the very first attempt at a server is no reconnect
        self._linked: ServerURL | None = None
        self._replacement: tuple[ServerURL, ...] | None = None
        self._linked_at = 0.0
        self._short_links = 0
        self._waited_level = 0
        self._learnt_in_row = 0
        if randomize:
            self._rng.shuffle(self._entries)

    @property
    def servers(self) -> tuple[ServerURL, ...]:
        """Every known server, in the order in which they would be tried."""
        return tuple(entry.server for entry in self._entries)

    @property
    def discovered(self) -> tuple[ServerURL, ...]:
        """The servers learnt from INFO."""
        return tuple(entry.server for entry in self._entries if entry.discovered)

    def states(self) -> tuple[ServerState, ...]:
        """Return what is known of every server, in the order in which they would be tried; last
        the one of the link, where it is none of them any more."""
        entries, linked, replacement = self._entries, self._linked, self._replacement
        if replacement is not None:
            following = _replaced(entries, replacement)
            there = {entry.server for entry in following}
            entries = following + [
                entry for entry in entries if entry.server == linked and linked not in there
            ]
        return tuple(
            ServerState(
                url=str(entry.server),
                discovered=entry.discovered,
                is_current=entry.server == linked,
                attempts=entry.tries,
                last_error=entry.last_error,
                last_connected_at=entry.last_connected_at,
            )
            for entry in entries
        )

    def replace_own(self, urls: Iterable[ServerURL]) -> None:
        """Put these servers in place of the user's own, from the next attempt on. Any thread."""
        self._replacement = tuple(dict.fromkeys(urls))

    def next(self) -> Attempt | None:
        """Return what to try next, or None when every server had its ``max_reconnects``."""
        replacement, self._replacement = self._replacement, None
        if replacement is not None:
            self._entries = _replaced(self._entries, replacement)
            # The waits begin anew: a server that is new has not been waited for.
            self._waited_level = min(e.tries for e in self._entries) + self._short_links
        if self._linked is not None:
            self._begin_reconnect()
        left = [e for e in self._entries if self._max_reconnects < 0 or e.tries < self._allowed]
        if not left:
            return None
        entry = min(left, key=_times_chosen)
        own = [e for e in left if not e.discovered]
        if entry.discovered and own and self._learnt_in_row >= OWN_EVERY - 1:
            entry = min(own, key=_times_chosen)
        self._learnt_in_row = self._learnt_in_row + 1 if entry.discovered else 0
        level = entry.tries + self._short_links
        delay = 0.0
        if level > self._waited_level:  # once per pass
            self._waited_level = level
            delay = self._delay(level)
        return Attempt(server=entry.server, delay=delay, round=entry.tries)

    def failed(self, server: ServerURL, error: BaseException | None = None) -> None:
        """Note that an attempt at ``server`` failed; the server goes to the end of the pool.

        An established link that broke needs no call and does not count as an attempt.
        """
        if self._linked is not None:
            self._begin_reconnect()
            return
        entry = self._find(server)
        if entry is not None:
            entry.tries += 1
            entry.last_error = error
            self._to_end(entry)

    def pass_over(self, server: ServerURL) -> None:
        """Note that ``server`` was not tried after all; the others come first. That is no attempt
        of its ``max_reconnects``."""
        entry = self._find(server)
        if entry is not None:
            entry.passed_over += 1
            self._to_end(entry)

    def succeeded(self, server: ServerURL) -> None:
        """Note that ``server`` answered PONG. This alone sets the attempt counters to zero."""
        for entry in self._entries:
            entry.tries = entry.passed_over = 0
        accepted = self._find(server)
        if accepted is not None:
            accepted.last_connected_at = datetime.now(timezone.utc)
        self._linked = server
        self._linked_at = self._clock()

    def prefer_other(self, current: ServerURL) -> bool:
        """Put ``current`` last (it is shutting down, lame duck); returns whether there is another
        one."""
        entry = self._find(current)
        if entry is not None:
            self._to_end(entry)
        return any(server != current for server in self.servers)

    def update_discovered(
        self,
        urls: Sequence[str],
        *,
        current: ServerURL,
        tls: bool = False,
        proven: bool = True,
        near: bool = True,
    ) -> tuple[ServerURL, ...]:
        """Take over ``connect_urls`` of the newest INFO; return the servers that are new.

        New servers are entered like ``current``, the one that told us: same user or token, ``tls``
        if that link has it (no downgrade by gossip), and a bare address has to show a certificate
        for the name of ``current``. Discovered servers that are no longer listed are forgotten,
        except ``current``; the user's own never are. An empty list says nothing and changes
        nothing, and what cannot be read is left out. At most ``MOST_DISCOVERED`` are kept, chosen
        at random. Never raises.

        Not ``proven``: the list came before there was TLS, so each server of it has to show a
        certificate for the name of ``current``. Not ``near``: the server that told us is neither on
        this machine nor on its network link, so addresses that are so are left out.
        """
        if self._ignore_discovered:
            return ()
        announced: dict[tuple[str, int], ServerURL] = {}
        for url in urls:
            server = _discovered(url, current, tls, proven)
            if server is not None and (near or not _is_local(server.host)):
                announced.setdefault(server.address, server)
        if not announced:
            return ()
        if len(announced) > MOST_DISCOVERED:
            # Known servers stay, so that a repeated list changes nothing.
            known = [address for address in map(_address, self._entries) if address in announced]
            others = list(announced.keys() - known)
            known = known[:MOST_DISCOVERED]
            room = min(len(others), MOST_DISCOVERED - len(known))
            chosen = known + self._rng.sample(others, room)
            announced = {address: announced[address] for address in chosen}
        self._entries = [
            entry
            for entry in self._entries
            if not entry.discovered or entry.server.address in announced or entry.server == current
        ]
        there = {entry.server.address for entry in self._entries}
        new = [server for address, server in announced.items() if address not in there]
        for server in new:
            end = len(self._entries)
            place = self._rng.randint(0, end) if self._randomize else end
            self._entries.insert(place, _Entry(server, discovered=True))
        return tuple(new)

    def _begin_reconnect(self) -> None:
        lived = self._clock() - self._linked_at
        self._short_links = self._short_links + 1 if lived < STABLE_AFTER else 0
        self._waited_level = 0
        self._allowed = self._max_reconnects
        lost = None if self._linked is None else self._find(self._linked)
        if lost is not None:
            self._to_end(lost)
        self._linked = None

    def _delay(self, level: int) -> float:
        longest = min(self._max_wait, self._wait * GROWTH ** min(level - 1, 100))
        if self._jitter is None:
            return self._rng.uniform(0.0, longest)
        return longest + self._rng.uniform(0.0, self._jitter)

    def _find(self, server: ServerURL) -> _Entry | None:
        return next((entry for entry in self._entries if entry.server == server), None)

    def _to_end(self, entry: _Entry) -> None:
        # In one step: another thread may be reading the list.
        self._entries = [other for other in self._entries if other is not entry] + [entry]


def _replaced(entries: list[_Entry], urls: Sequence[ServerURL]) -> list[_Entry]:
    """Return the entries with these as the user's own; what is known of a server is kept."""
    known = {entry.server: entry for entry in entries}
    own = [replace(known.get(url) or _Entry(url, False), discovered=False) for url in urls]
    kinds = {url.is_websocket for url in urls}
    return own + [
        entry
        for entry in entries
        if entry.discovered and entry.server not in urls and entry.server.is_websocket in kinds
    ]


def _times_chosen(entry: _Entry) -> int:
    return entry.tries + entry.passed_over


def _address(entry: _Entry) -> tuple[str, int]:
    return entry.server.address


def _is_local(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_link_local or address.is_unspecified


def _discovered(url: str, current: ServerURL, tls: bool, proven: bool) -> ServerURL | None:
    if "@" in url or "://" in url:
        return None  # servers tell host:port and nothing else
    try:
        place = parse_server(url)
    except ConfigError:
        return None
    borrow = not proven or (place.is_ip and not _is_bare(current))
    kinds = ("ws", "wss") if current.is_websocket else ("nats", "tls")
    return ServerURL(
        scheme=kinds[tls or current.requires_tls],
        host=place.host,
        port=place.port,
        user=current.user,
        password=current.password,
        token=current.token,
        path=current.path,
        tls_name=current.hostname if borrow else None,
    )


def _is_bare(server: ServerURL) -> bool:
    return server.is_ip and server.tls_name is None


def _finite(value: Seconds, name: str) -> float:
    seconds = to_seconds(value, name)
    if math.isinf(seconds):
        raise ConfigError(f"{name} must be finite")
    return seconds
