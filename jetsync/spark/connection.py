"""From options to a live connection, and patience while no server answers.

Nothing here is made in a constructor or travels between processes: every task asks for the shared
connection of its own process, which is made when it is first needed and survives between tasks.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from jetsync._deadline import Deadline
from jetsync.errors import (
    APIError,
    AuthorizationError,
    ConfigError,
    ConnectError,
    ConnectionClosedError,
    DisconnectedError,
    NoRespondersError,
    OutboundFullError,
    PermissionsError,
    TimeoutError,
    TLSRequiredError,
)
from jetsync.spark.errors import SparkOptionError, SparkSourceError
from jetsync.spark.options import LinkOptions, Values

if TYPE_CHECKING:
    from jetsync import Connection, ConnectOptions, JetStream

__all__ = ["connect_options", "connection", "is_transient", "jetstream", "with_patience"]

T = TypeVar("T")
log = logging.getLogger("jetsync.spark")

_TRANSIENT = (
    ConnectError,
    ConnectionClosedError,
    DisconnectedError,
    NoRespondersError,
    OutboundFullError,
    TimeoutError,
)
_REFUSED = (AuthorizationError, PermissionsError, TLSRequiredError)


def is_transient(error: BaseException) -> bool:
    """Tell whether the same request may succeed once servers are back."""
    if isinstance(error, _REFUSED):
        return False
    if isinstance(error, APIError):
        # No leader, a server that is starting, or nobody serving the API (yet).
        unserved = isinstance(error.__cause__, NoRespondersError)
        return unserved or error.code == 503 or bool(getattr(error, "retryable", False))
    return isinstance(error, _TRANSIENT)


def _secret(text: str | None, variable: str | None, option: str) -> str | None:
    if variable is None:
        return text
    value = os.environ.get(variable)
    if value is None:
        raise SparkOptionError(
            f"option '{option}': there is no environment variable {variable} in this process (it "
            "must be set on the driver and on every executor)",
            code="JETSYNC_MISSING_OPTION",
        )
    return value


@functools.lru_cache(maxsize=64)
def connect_options(link: LinkOptions) -> ConnectOptions:
    """Return the connection options of this process: files and environment are read here.

    Kept, so that they are read once. Raises ``SparkOptionError`` for a missing file or variable,
    or a wrong value.
    """
    import jetsync

    try:
        seed = None
        if link.nkey_seed_file is not None:
            with open(link.nkey_seed_file, encoding="ascii") as file:
                seed = file.read().strip()
        tls = None
        if link.tls_ca is not None or link.tls_cert is not None:
            tls = jetsync.TLSConfig(
                ca_file=link.tls_ca, cert_file=link.tls_cert, key_file=link.tls_key
            )
        return jetsync.ConnectOptions(
            servers=link.servers,
            name=link.connection_name,
            user=link.user,
            password=_secret(link.password, link.password_env, "passwordEnv"),
            token=_secret(link.token, link.token_env, "tokenEnv"),
            credentials=link.creds_file,
            nkey_seed=seed,
            tls=tls,
            tls_handshake_first=link.tls_handshake_first,
            connect_timeout=link.connect_timeout,
            timeout=link.request_timeout,
        )
    except OSError as error:
        raise SparkOptionError(
            f"a file of the connection options cannot be read here: {error}",
            code="JETSYNC_FILE_NOT_FOUND",
        ) from error
    except ConfigError as error:
        if isinstance(error, SparkOptionError):
            raise
        missing = isinstance(error.__cause__, FileNotFoundError)
        raise SparkOptionError(
            str(error), code="JETSYNC_FILE_NOT_FOUND" if missing else "JETSYNC_INVALID_OPTION"
        ) from error


def jetstream(link: LinkOptions, *, max_pending: int = 4096) -> JetStream:
    """Return a JetStream context on this process's shared connection; connects if needed."""
    import jetsync

    return jetsync.shared_connection(connect_options(link)).jetstream(
        domain=link.domain, api_prefix=link.api_prefix, max_pending=max_pending
    )


def with_patience(
    link: LinkOptions, what: str, action: Callable[[JetStream], T], *, max_pending: int = 4096
) -> T:
    """Run ``action``; repeat it while no server answers, up to ``server_unavailable_timeout``.

    Spark gives a streaming query up on the first exception that a source raises on the driver, so
    outages are waited for here. Blocks. Raises ``SparkSourceError`` with
    ``JETSYNC_SERVER_UNAVAILABLE``, ``JETSYNC_ACCESS_DENIED`` or ``JETSYNC_API_ERROR``; errors that
    already carry a code pass through.
    """
    deadline = Deadline(link.server_unavailable_timeout)
    pause = 0.05
    while True:
        try:
            return action(jetstream(link, max_pending=max_pending))
        except (SparkSourceError, SparkOptionError):
            raise
        except Exception as error:
            if not is_transient(error):
                raise _coded(error, what) from error
            if deadline.expired:
                raise SparkSourceError(
                    f"{what}: no usable answer for {link.server_unavailable_timeout:g} s "
                    f"(serverUnavailableTimeout); last: {type(error).__name__}: {error}",
                    code="JETSYNC_SERVER_UNAVAILABLE",
                ) from error
            log.warning("%s: %s: %s; trying again", what, type(error).__name__, error)
            time.sleep(deadline.within(pause))
            pause = min(pause * 2, 1.0)


def _coded(error: Exception, what: str) -> Exception:
    text = f"{what}: {type(error).__name__}: {error}"
    if isinstance(error, _REFUSED):
        return SparkSourceError(text, code="JETSYNC_ACCESS_DENIED")
    if isinstance(error, APIError):
        return SparkSourceError(text, code="JETSYNC_API_ERROR")
    return error


@contextlib.contextmanager
def connection(options: Mapping[str, str] | None = None) -> Iterator[Connection]:
    """Give this process's shared connection for the time of a ``with`` block.

    Takes the connection options of the ``jetstream`` format. The connection is made when first
    needed, kept for later tasks of the same Python worker, and never shared across a fork; leaving
    the block returns it without closing. Workers end without running exit handlers, so wait for
    the acknowledgements of what you publish before the task ends. Raises ``ConfigError`` for wrong
    options, ``ConnectError`` if no server answers. Safe in several threads.
    """
    import jetsync

    link = LinkOptions.from_values(Values(options or {}, (), "connections"))
    yield jetsync.shared_connection(connect_options(link))
