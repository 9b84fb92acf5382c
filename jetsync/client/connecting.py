"""connect: make a connection and wait until it is there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from jetsync._native import refuse_green_threads
from jetsync.client.connection import Connection
from jetsync.client.events import Handler
from jetsync.client.options import (
    ConnectOptions,
    ReconnectDelay,
    Secret,
    WebSocketHeaders,
    options_of_context,
)
from jetsync.client.tls_config import TLS
from jetsync.errors import ConfigError
from jetsync.protocol.auth import CredsSource, Signer

if TYPE_CHECKING:
    from jetsync.observe import Hooks

__all__ = ["connect"]


def connect(
    servers: str | Sequence[str] = "nats://127.0.0.1:4222",
    *,
    options: ConnectOptions | None = None,
    context: str | os.PathLike[str] | None = None,
    name: str | None = None,
    user: Secret | None = None,
    password: Secret | None = None,
    token: Secret | None = None,
    credentials: CredsSource | None = None,
    nkey_seed: Secret | None = None,
    jwt: Secret | None = None,
    nkey: str | None = None,
    sign: Signer | None = None,
    tls: TLS | None = None,
    tls_hostname: str | None = None,
    tls_handshake_first: bool = False,
    connect_timeout: float | timedelta = 2.0,
    timeout: float | timedelta = 5.0,
    reconnect: bool = True,
    max_reconnects: int = -1,
    reconnect_wait: float | timedelta = 0.05,
    reconnect_jitter: float | timedelta | None = None,
    reconnect_delay: ReconnectDelay | None = None,
    retry_on_initial_connect: bool = False,
    reconnect_buffer_size: int = 8 * 2**20,
    pending_bytes_limit: int = 64 * 2**20,
    pending_messages_limit: int = 512 * 1024,
    max_message_size: int | None = None,
    max_control_line: int = 4096,
    dispatch_threads: int = 64,
    write_timeout: float | timedelta = 10.0,
    ping_interval: float | timedelta = 20.0,
    max_pings_outstanding: int = 2,
    echo: bool = True,
    inbox_prefix: str = "_INBOX",
    jetstream_domain: str | None = None,
    jetstream_api_prefix: str | None = None,
    proxy: str | None = None,
    ws_path: str | None = None,
    ws_headers: WebSocketHeaders | None = None,
    ws_compression: bool = False,
    randomize_servers: bool = True,
    ignore_discovered_servers: bool = False,
    abort_on_auth_error: int = 0,
    on_error: Handler | None = None,
    on_connected: Handler | None = None,
    on_disconnected: Handler | None = None,
    on_reconnect_attempt: Handler | None = None,
    on_reconnected: Handler | None = None,
    on_closed: Handler | None = None,
    on_discovered_servers: Handler | None = None,
    on_lame_duck: Handler | None = None,
    on_event: Handler | None = None,
    hooks: Hooks | None = None,
) -> Connection:
    """Connect to a NATS system and return the connection.

    The keywords are the fields of :class:`ConnectOptions` and mean what they mean there;
    ``options`` is such an object instead of them (give one or the other). ``context`` is the name
    or path of a context of the ``nats`` command, which keywords win over: see
    :meth:`ConnectOptions.from_context`. No environment variable is read. Blocks until a server has
    accepted the connection: at most ``connect_timeout`` seconds for each server. Ctrl-C interrupts.
    ``hooks`` (``jetsync.observe.Hooks``) are told of the operations of this connection.

    Raises ConfigError for wrong options, AuthorizationError when the credentials are refused,
    TLSRequiredError when TLS is asked for and not offered,
    NoServersError when no server answered. With ``retry_on_initial_connect`` it returns after the
    first round instead and goes on trying in the background.
    """
    given = dict(locals())
    del given["options"], given["context"]
    refuse_green_threads()
    if options is not None and not isinstance(options, ConnectOptions):
        raise ConfigError(f"options must be a ConnectOptions, not {type(options).__name__}")
    if options is None and context is None:
        options = ConnectOptions(**given)
    else:
        said = {key: value for key, value in given.items() if value != getattr(ConnectOptions, key)}
        if options is None:
            options = options_of_context(context, said)
        elif said.keys() - {"hooks"} or context is not None:
            raise ConfigError("give either options= or single options, not both")
    nc = _make(options, hooks or options.hooks or observer)
    try:
        error = nc._session.dialer.wait_first()
    except BaseException:
        nc.close()
        raise
    if error is not None:
        nc.close()
        raise error
    return nc


def _make(options: ConnectOptions, hooks: Hooks | None) -> Connection:
    if hooks is None:
        return Connection(options)
    from jetsync.observe.connection import ObservedConnection

    return ObservedConnection(options, hooks)


observer: Hooks | None = None
"""The hooks of connections that are made without any; ``jetsync.observe.install`` sets them."""
