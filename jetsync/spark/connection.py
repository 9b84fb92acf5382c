"""From options to a live connection, and patience while no server answers.

Nothing here is made in a constructor or travels between processes: every task asks for the shared
connection of its own process, which is made when it is first needed and survives between tasks.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from jetsync._deadline import Deadline
from jetsync._log import Log
from jetsync._threads import ThreadPool
from jetsync.client.options import options_of_context
from jetsync.errors import (
    APIError,
    AuthorizationError,
    ConfigError,
    ConnectError,
    ConnectionClosedError,
    DisconnectedError,
    Error,
    NoRespondersError,
    NotStoredError,
    OutboundFullError,
    PermissionsError,
    TimeoutError,
    TLSRequiredError,
)
from jetsync.spark.errors import SparkOptionError, SparkSourceError
from jetsync.spark.options import LinkOptions, Values, connection_name
from jetsync.spark.secrets import read_file, secret_file, secret_source

if TYPE_CHECKING:
    from jetsync import Connection, ConnectOptions, JetStream

__all__ = [
    "coded",
    "connect_options",
    "connection",
    "heard_from",
    "is_transient",
    "jetstream",
    "link_of",
    "shared",
    "together",
    "with_each",
    "with_patience",
]

T = TypeVar("T")
log: Log = Log("jetsync.spark")

_TRANSIENT = (
    ConnectError,
    ConnectionClosedError,
    DisconnectedError,
    NoRespondersError,
    OutboundFullError,
    TimeoutError,
)
# Seconds: a connection that was not used for _REST has to answer within _SIGN_OF_LIFE before use.
_REST = 1.0
_SIGN_OF_LIFE = 2.0
# How many requests of one process run at a time.
_AT_A_TIME = 32
_connections: weakref.WeakValueDictionary[tuple[int, LinkOptions], Connection] = (
    weakref.WeakValueDictionary()
)
_last_used: weakref.WeakKeyDictionary[Connection, float] = weakref.WeakKeyDictionary()

_REFUSED = (AuthorizationError, PermissionsError, TLSRequiredError)


def is_transient(error: BaseException) -> bool:
    """Tell whether the same request may succeed once servers are back."""
    if isinstance(error, _REFUSED):
        return False
    if isinstance(error, APIError):
        # No leader, a server that is starting, or no server for the API (yet).
        unserved = isinstance(error.__cause__, NoRespondersError)
        return unserved or error.code == 503 or bool(getattr(error, "retryable", False))
    if isinstance(error, NotStoredError):
        # Without a cause: no stream took the message.
        return error.__cause__ is None or is_transient(error.__cause__)
    return isinstance(error, _TRANSIENT)


def _as_bytes(source: Callable[[], str]) -> bytes:
    return source().encode()


@functools.lru_cache(maxsize=64)
def connect_options(link: LinkOptions) -> ConnectOptions:
    """Return the connection options of this process, with what it finds in its environment.

    One object for equal options, as there is one connection. Secrets are looked up whenever a
    connection is made, so a file that was replaced counts at the next reconnect. Raises
    ``SparkOptionError`` for a missing file or variable, or a wrong value.
    """
    import jetsync

    try:
        creds = secret_source(link.creds, link.creds_env, "credsEnv")
        seed = secret_source(link.nkey_seed, link.nkey_seed_env, "nkeySeedEnv")
        if link.nkey_seed_file is not None:
            seed = partial(read_file, link.nkey_seed_file)
            seed()
        credentials: Any = link.creds_file
        if creds is not None:
            credentials = partial(_as_bytes, creds)
        tls = None
        ca = link.tls_ca or secret_file(link.tls_ca_env, "tlsCaEnv")
        cert = link.tls_cert or secret_file(link.tls_cert_env, "tlsCertEnv")
        if ca is not None or cert is not None:
            key = link.tls_key or secret_file(link.tls_key_env, "tlsKeyEnv")
            tls = jetsync.TLSConfig(ca_file=ca, cert_file=cert, key_file=key)
        found: dict[str, Any] = {
            "servers": link.servers or None,
            "user": link.user,
            "password": link.password or secret_source(None, link.password_env, "passwordEnv"),
            "token": link.token or secret_source(None, link.token_env, "tokenEnv"),
            "credentials": credentials,
            "nkey_seed": seed,
            "tls": tls,
            "tls_handshake_first": link.tls_handshake_first or None,
        }
        given: Any = {key: value for key, value in found.items() if value is not None}
        given["name"] = link.connection_name or connection_name() or "jetsync-spark"
        given["connect_timeout"] = link.connect_timeout
        given["timeout"] = link.request_timeout
        if link.context is not None:
            return options_of_context(link.context, given)
        return jetsync.ConnectOptions(**given)
    except OSError as error:
        raise SparkOptionError(
            f"a file of the connection options cannot be read here: {error}",
            code="JETSYNC_FILE_NOT_FOUND",
        ) from None
    except ConfigError as error:
        if isinstance(error, SparkOptionError):
            raise
        missing = isinstance(error.__cause__, FileNotFoundError)
        raise SparkOptionError(
            str(error), code="JETSYNC_FILE_NOT_FOUND" if missing else "JETSYNC_INVALID_OPTION"
        ) from None


def shared(link: LinkOptions) -> Connection:
    """Return this process's connection for these options; connects if there is none.

    A connection that was idle for a second or more is checked first; when the server does not
    answer, its link is dropped and it reconnects in the background. Raises like
    ``jetsync.connect``.
    """
    import jetsync

    key = os.getpid(), link
    nc = _connections.get(key)
    if nc is None or nc.is_closed:
        # shared_connection() compares all options, which takes long; each range asks several times.
        nc = _connections[key] = jetsync.shared_connection(connect_options(link))
    now = time.monotonic()
    rested = now - _last_used.get(nc, now)
    _last_used[nc] = now
    if rested > _REST and nc.is_connected:
        heard = nc.stats.in_bytes
        try:
            nc.flush(_SIGN_OF_LIFE)
        except TimeoutError:
            # Answers to other threads are a sign of life, too.
            if nc.stats.in_bytes == heard:
                nc.force_reconnect()
        except Error as error:
            log.debug("a shared connection has trouble: %s", error)
    return nc


def heard_from(link: LinkOptions) -> None:
    """Note that a server has just sent something: it need not show again that it is there."""
    nc = _connections.get((os.getpid(), link))
    if nc is not None:
        _last_used[nc] = time.monotonic()


def jetstream(link: LinkOptions, *, max_pending: int = 4096) -> JetStream:
    """Return a JetStream context on this process's shared connection; connects if needed."""
    return shared(link).jetstream(
        domain=link.domain, api_prefix=link.api_prefix, max_pending=max_pending
    )


def with_patience(
    link: LinkOptions, what: str, action: Callable[[JetStream], T], *, max_pending: int = 4096
) -> T:
    """Run ``action``; repeat it while no server answers, up to ``server_unavailable_timeout``.

    Spark ends a streaming query on the first exception that a source raises on the driver, so this
    call waits for the end of an outage. Blocks. Raises ``SparkSourceError`` with
    ``JETSYNC_SERVER_UNAVAILABLE``, ``JETSYNC_ACCESS_DENIED`` or ``JETSYNC_API_ERROR``; errors that
    already carry a code pass through.
    """
    deadline = Deadline(link.server_unavailable_timeout)
    delay = 0.05
    while True:
        try:
            return action(jetstream(link, max_pending=max_pending))
        except (SparkSourceError, SparkOptionError):
            raise
        except Exception as error:  # noqa: BLE001 - each one is raised again, with its sentence
            if not is_transient(error):
                raise coded(error, what) from None
            if deadline.expired:
                raise SparkSourceError(
                    f"{what}: no usable answer for {link.server_unavailable_timeout:g} s "
                    f"(serverUnavailableTimeout); last: {type(error).__name__}: {error}",
                    code="JETSYNC_SERVER_UNAVAILABLE",
                ) from None
            log.warning("%s: %s: %s; trying again", what, type(error).__name__, error)
            time.sleep(deadline.within(delay))
            delay = min(delay * 2, 1.0)


def with_each(
    link: LinkOptions, what: str, names: Iterable[str], action: Callable[[str, JetStream], T]
) -> dict[str, T]:
    """Run ``action`` for each name like :func:`with_patience`, all :func:`together`. Blocks."""
    return together(
        names, lambda name: with_patience(link, f"{what} {name}", partial(action, name))
    )


def together(names: Iterable[str], action: Callable[[str], T]) -> dict[str, T]:
    """Run ``action`` for each name, many at a time, and return what it returned. Blocks.

    So the questions to a hundred streams take a few round trips, not a hundred. Raises the first
    error in the order of the names, when all have ended.
    """
    asked = list(names)
    if len(asked) <= 1:
        return {name: action(name) for name in asked}
    with ThreadPool("spark-ask", min(len(asked), _AT_A_TIME)) as threads:
        coming = [threads.submit(action, name) for name in asked]
        return {name: one.result() for name, one in zip(asked, coming, strict=True)}


def coded(error: Exception, what: str) -> Exception:
    """Return the same error with a code, where one exists for it."""
    text = f"{what}: {type(error).__name__}: {error}"
    if isinstance(error, _REFUSED):
        return SparkSourceError(text, code="JETSYNC_ACCESS_DENIED")
    if isinstance(error, APIError):
        return SparkSourceError(text, code="JETSYNC_API_ERROR")
    return error


def link_of(options: Mapping[str, str] | None) -> LinkOptions:
    """Check connection options. Keeps what it found, so that helpers may ask for each row."""
    given = tuple(sorted((options or {}).items()))
    return _link(given, os.environ.get("NATS_URL"), connection_name())


@functools.lru_cache(maxsize=64)
def _link(options: tuple[tuple[str, str], ...], *_: str | None) -> LinkOptions:
    return LinkOptions.from_values(Values(dict(options), (), "connections"))


@contextlib.contextmanager
def connection(options: Mapping[str, str] | None = None) -> Iterator[Connection]:
    """Give this process's shared connection for the time of a ``with`` block.

    Takes the connection options of the ``jetstream`` format. There is one connection per process
    and options: made when first needed, kept for later tasks of the same Python worker, never
    shared across a fork. One that rested for a second has to answer before it is given out. Leaving
    the block returns it without closing: others in this process use it, too. After an exception in
    the block it has to answer before it is given out again.

    Workers end without running exit handlers, so wait for the acknowledgements of what you publish
    before the task ends. Raises ``ConfigError`` for wrong options, ``ConnectError`` if no server
    answers. Safe in several threads.
    """
    nc = shared(link_of(options))
    try:
        yield nc
    except GeneratorExit:
        raise  # Spark wants no more rows: nothing failed
    except BaseException:
        _last_used[nc] = float("-inf")
        raise
