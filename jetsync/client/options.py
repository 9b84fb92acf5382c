"""ConnectOptions: everything ``connect`` takes, as one validated object that pickles."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict

from jetsync._deadline import to_seconds
from jetsync._numbers import check_whole
from jetsync._signatures import check_options, spells_out
from jetsync.client.callbacks import check_callback
from jetsync.client.contexts import (
    fields_of_context,
    fields_of_environment,
    find_context,
    overridden,
)
from jetsync.client.events import Handler
from jetsync.client.tls_config import TLS, TLSConfig, is_context
from jetsync.errors import ConfigError, ConnectError
from jetsync.protocol.auth import Credentials, CredsSource, Signer
from jetsync.protocol.inboxes import check_inbox_prefix
from jetsync.protocol.proxy import ProxyURL, proxy_from_environment
from jetsync.protocol.serverpool import ReconnectAttempt
from jetsync.protocol.url import ServerURL, parse_servers

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync.observe import Hooks

__all__ = [
    "LARGEST_MESSAGE",
    "ConnectFields",
    "ConnectOptions",
    "ReconnectDelay",
    "Secret",
    "WebSocketHeaders",
    "options_of_context",
]

ReconnectDelay = Callable[[ReconnectAttempt], float]
"""Returns the seconds to wait before an attempt to reconnect."""

Secret = str | Callable[[], str]
"""A secret, or a function that is asked for it again at every connection attempt."""

WebSocketHeaders = Mapping[str, str] | Callable[[], Mapping[str, str]]
"""More headers of the request for a WebSocket, or a function that is asked for them each time."""

LARGEST_MESSAGE = 1 << 30
"""The largest message, in bytes, that any option or server can make this client receive."""

_LONGEST_LINE = 65_000
"""A line that comes back to a subscriber is a few bytes longer, and the parser takes 65,535."""

_SECRETS = ("password", "token", "nkey_seed", "jwt", "sign", "user", "ws_headers")
_DURATIONS = (
    "connect_timeout",
    "timeout",
    "reconnect_wait",
    "reconnect_jitter",
    "write_timeout",
    "ping_interval",
)
_LEAST = {
    "reconnect_buffer_size": 0,
    "pending_bytes_limit": 0,
    "pending_messages_limit": 0,
    "abort_on_auth_error": 0,
    "max_pings_outstanding": 1,
    "dispatch_threads": 1,
}
_FLAGS = (
    "tls_handshake_first",
    "reconnect",
    "retry_on_initial_connect",
    "echo",
    "ws_compression",
    "randomize_servers",
    "ignore_discovered_servers",
)
_HANDLERS = (
    "on_error",
    "on_connected",
    "on_disconnected",
    "on_reconnect_attempt",
    "on_reconnected",
    "on_closed",
    "on_discovered_servers",
    "on_lame_duck",
    "on_event",
)


def _is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike))


class ConnectFields(TypedDict, total=False):
    """The fields of ``ConnectOptions``, as keywords of the calls that take them."""

    servers: str | Sequence[str]
    name: str | None
    user: Secret | None
    password: Secret | None
    token: Secret | None
    credentials: CredsSource | None
    nkey_seed: Secret | None
    jwt: Secret | None
    nkey: str | None
    sign: Signer | None
    tls: TLS | None
    tls_hostname: str | None
    tls_handshake_first: bool
    connect_timeout: float | timedelta
    timeout: float | timedelta
    reconnect: bool
    max_reconnects: int
    reconnect_wait: float | timedelta
    reconnect_jitter: float | timedelta | None
    reconnect_delay: ReconnectDelay | None
    retry_on_initial_connect: bool
    reconnect_buffer_size: int
    pending_bytes_limit: int
    pending_messages_limit: int
    dispatch_threads: int
    max_message_size: int | None
    max_control_line: int
    write_timeout: float | timedelta
    ping_interval: float | timedelta
    max_pings_outstanding: int
    echo: bool
    inbox_prefix: str
    jetstream_domain: str | None
    jetstream_api_prefix: str | None
    proxy: str | None
    ws_path: str | None
    ws_headers: WebSocketHeaders | None
    ws_compression: bool
    randomize_servers: bool
    ignore_discovered_servers: bool
    abort_on_auth_error: int
    on_error: Handler | None
    on_connected: Handler | None
    on_disconnected: Handler | None
    on_reconnect_attempt: Handler | None
    on_reconnected: Handler | None
    on_closed: Handler | None
    on_discovered_servers: Handler | None
    on_lame_duck: Handler | None
    on_event: Handler | None
    hooks: Hooks | None


@dataclass(frozen=True)
class ConnectOptions:
    """The options of a connection: the keywords of :func:`jetsync.connect`, picklable.

    Everything is checked when the object is made (``ConfigError``). ``repr`` hides secrets. Share
    it between processes and connect in each of them; a connection itself cannot be shared.

    Durations are seconds (or ``timedelta``; they read back as ``float`` seconds):
    ``connect_timeout`` is the budget for one server (name lookup, TCP, handshake), ``timeout`` the
    default budget of every other blocking call, ``write_timeout`` how long a publish waits for
    room in the outbound buffer. ``tls`` is True, an ``ssl.SSLContext`` or a TLSConfig; with it, or
    with a ``tls://`` URL, a server without TLS is always refused. ``tls_hostname`` is the name that
    certificates have to show instead of the host of the URL; ``tls_handshake_first`` is for servers
    that speak TLS before their INFO line. ``reconnect_wait`` grows from pass to pass over the
    servers; ``reconnect_jitter`` is a random part added to it (None: all of the wait is random).
    ``reconnect_delay`` replaces both: it gets a ReconnectAttempt and returns seconds; it runs on a
    thread of the connection and must not call it. ``nkey`` (a public key, ``U...``) or ``jwt`` with
    ``sign`` logs in with a key that stays elsewhere: ``sign`` gets the bytes to sign and returns
    the 64 bytes of the signature, at each attempt. ``proxy`` is ``http://`` or ``https://``
    (CONNECT), ``socks5://`` or ``socks5h://`` (which looks names up itself), or "env" for
    ``ALL_PROXY`` and ``NO_PROXY``; every server is reached through it, never around it.
    ``ws_path``, ``ws_headers`` and ``ws_compression`` are for ``ws://`` and ``wss://`` servers: the
    path of the request (None: that of the URL), more headers of it (a mapping, or a function that
    returns one and is called at each attempt), and whether to offer compression, which costs much
    CPU.
    ``jetstream_domain`` or ``jetstream_api_prefix`` is what ``nc.jetstream()`` uses when it is
    given neither. ``pending_*_limit`` bound what waits in one subscription,
    ``reconnect_buffer_size`` what is kept while there is no connection. ``max_message_size`` is the
    largest message, headers included, that a server may send, in bytes; a larger one ends the link
    (ProtocolError) before its bytes are kept. None: 64 MiB, or twice the server's ``max_payload``
    up to 1 GiB. ``max_control_line`` is the longest line, in bytes, that the server takes (its own
    setting of that name): a message or subscription whose subject, reply subject and queue make a
    longer one is refused with a ConfigError before anything is sent. ``dispatch_threads`` is the
    largest number of threads that call callbacks: up to that number each subscription with a
    callback has its own, beyond it they share (see ``subscribe``). ``hooks``
    (``jetsync.observe.Hooks``) are told of the operations of the connection; a pickle leaves them
    out.
    """

    servers: str | Sequence[str] = "nats://127.0.0.1:4222"
    name: str | None = None
    user: Secret | None = None
    password: Secret | None = None
    token: Secret | None = None
    credentials: CredsSource | None = None
    nkey_seed: Secret | None = None
    jwt: Secret | None = None
    nkey: str | None = None
    sign: Signer | None = None
    tls: TLS | None = None
    tls_hostname: str | None = None
    tls_handshake_first: bool = False
    connect_timeout: float | timedelta = 2.0
    timeout: float | timedelta = 5.0
    reconnect: bool = True
    max_reconnects: int = -1
    reconnect_wait: float | timedelta = 0.05
    reconnect_jitter: float | timedelta | None = None
    reconnect_delay: ReconnectDelay | None = None
    retry_on_initial_connect: bool = False
    reconnect_buffer_size: int = 8 * 2**20
    pending_bytes_limit: int = 64 * 2**20
    pending_messages_limit: int = 512 * 1024
    max_message_size: int | None = None
    max_control_line: int = 4096
    dispatch_threads: int = 64
    write_timeout: float | timedelta = 10.0
    ping_interval: float | timedelta = 20.0
    max_pings_outstanding: int = 2
    echo: bool = True
    inbox_prefix: str = "_INBOX"
    jetstream_domain: str | None = None
    jetstream_api_prefix: str | None = None
    proxy: str | None = None
    ws_path: str | None = None
    ws_headers: WebSocketHeaders | None = None
    ws_compression: bool = False
    randomize_servers: bool = True
    ignore_discovered_servers: bool = False
    abort_on_auth_error: int = 0
    on_error: Handler | None = None
    on_connected: Handler | None = None
    on_disconnected: Handler | None = None
    on_reconnect_attempt: Handler | None = None
    on_reconnected: Handler | None = None
    on_closed: Handler | None = None
    on_discovered_servers: Handler | None = None
    on_lame_duck: Handler | None = None
    on_event: Handler | None = None
    hooks: Hooks | None = None

    def __post_init__(self) -> None:
        self._check_servers()
        for field in _DURATIONS:
            if field != "reconnect_jitter" or self.reconnect_jitter is not None:
                object.__setattr__(self, field, to_seconds(getattr(self, field), field))
        for field in ("connect_timeout", "ping_interval", "write_timeout"):
            if getattr(self, field) <= 0:
                raise ConfigError(f"{field} must be above 0 seconds")
        for field, least in _LEAST.items():
            check_whole(field, getattr(self, field), least)
        if isinstance(self.max_reconnects, bool) or not isinstance(self.max_reconnects, int):
            raise ConfigError(
                f"max_reconnects must be an int (-1: for ever), not {self.max_reconnects!r}"
            )
        for field in _FLAGS:
            if not isinstance(getattr(self, field), bool):
                raise ConfigError(f"{field} must be True or False, not {getattr(self, field)!r}")
        for field in _HANDLERS:
            if getattr(self, field) is not None:
                check_callback(getattr(self, field), field)
        if self.reconnect_delay is not None:
            check_callback(self.reconnect_delay, "reconnect_delay")
        size = self.max_message_size
        if size is not None and not (isinstance(size, int) and 1 <= size <= LARGEST_MESSAGE):
            raise ConfigError(
                f"max_message_size must be a number of bytes from 1 to {LARGEST_MESSAGE}, "
                f"not {size!r}"
            )
        line = self.max_control_line
        if not (isinstance(line, int) and 64 <= line <= _LONGEST_LINE):
            raise ConfigError(
                f"max_control_line must be a number of bytes from 64 to {_LONGEST_LINE}, "
                f"not {line!r}"
            )
        if self.name is not None and not isinstance(self.name, str):
            raise ConfigError("name must be a str")
        check_inbox_prefix(self.inbox_prefix)
        if self.jetstream_domain is not None and self.jetstream_api_prefix is not None:
            raise ConfigError("give either jetstream_domain or jetstream_api_prefix, not both")
        self._proxy_to("")
        self._check_websocket()
        self._check_tls()
        self._make_credentials()

    def _check_servers(self) -> None:
        """Keep what is no single str as a tuple."""
        servers: object = self.servers
        if isinstance(servers, ConnectOptions):
            raise ConfigError("give a ConnectOptions as a keyword: options=...")
        if isinstance(servers, str):
            return
        if isinstance(servers, bytes) or not isinstance(servers, Iterable):
            raise ConfigError(
                f"servers must be a str or a sequence of str, not {type(servers).__name__}"
            )
        object.__setattr__(self, "servers", tuple(servers))

    def _check_websocket(self) -> None:
        headers = self.ws_headers
        if self.ws_path is None and headers is None:
            return
        from jetsync.protocol.upgrade import check_headers, check_path

        if self.ws_path is not None:
            check_path(self.ws_path)
        if headers is not None and not callable(headers):
            object.__setattr__(self, "ws_headers", dict(check_headers(headers)))

    def _check_tls(self) -> None:
        if not (
            self.tls is None or isinstance(self.tls, (bool, TLSConfig)) or is_context(self.tls)
        ):
            raise ConfigError(
                "tls must be True, an ssl.SSLContext or a jetsync.TLSConfig, not "
                f"{type(self.tls).__name__}"
            )
        self._parse_servers(self.servers)
        if self.tls is False and self.tls_handshake_first:
            raise ConfigError("tls=False contradicts tls_handshake_first")
        name = self.tls_hostname
        if name is not None and not (isinstance(name, str) and name and name.isprintable()):
            raise ConfigError("tls_hostname must be the name that the certificates show")
        if isinstance(self.tls, TLSConfig):
            from jetsync.client.tls import make_context

            make_context(self.tls)  # a wrong file is found now, not at the first connection

    def server_urls(self) -> list[ServerURL]:
        """Return the parsed server URLs. Raises ConfigError for a bad one."""
        return self._parse_servers(self.servers)

    def _parse_servers(self, servers: str | Sequence[str]) -> list[ServerURL]:
        """Return these URLs parsed, for a connection with these options. Reads no file. Raises
        ConfigError for a bad one, and for one that asks for TLS where ``tls`` is False."""
        urls = parse_servers(servers if isinstance(servers, str) else tuple(servers))
        secure = [url for url in urls if url.requires_tls]
        if self.tls is False and secure:
            raise ConfigError(f"tls=False contradicts {secure[0]}")
        return urls

    def _make_credentials(self) -> Credentials:
        """Return what signs in. Raises ConfigError when several kinds are given."""
        return Credentials(
            user=self.user,
            password=self.password,
            token=self.token,
            credentials=self.credentials,
            nkey_seed=self.nkey_seed,
            jwt=self.jwt,
            nkey=self.nkey,
            sign=self.sign,
        )

    def _proxy_to(self, host: str) -> ProxyURL | None:
        """Return the proxy that leads to a host, or None. Raises ConfigError for a bad one."""
        proxy = self.proxy
        if proxy == "env":
            proxy = proxy_from_environment(os.environ, host)
        return None if proxy is None else ProxyURL.parse(proxy)

    def _make_ws_headers(self) -> Mapping[str, str]:
        """Return the headers that go with the request for a WebSocket. Raises ConfigError for bad
        ones, ConnectError when a function does not return any."""
        headers = self.ws_headers
        if callable(headers):
            try:
                headers = headers()
            except Exception as error:
                raise ConnectError(f"ws_headers raised {type(error).__name__}") from error
        if headers is None:
            return {}
        from jetsync.protocol.upgrade import check_headers

        return check_headers(headers)

    @classmethod
    def from_context(  # type: ignore[misc]  # overrides: every field but name
        cls,
        name: str | os.PathLike[str] | None = None,
        *,
        run_commands: bool = False,
        **overrides: Unpack[ConnectFields],
    ) -> ConnectOptions:
        """Return the options of a context, as the ``nats`` command keeps them (ADR-21).

        ``name`` is a name, or with a slash or ``.json`` in it the path of a file; None: the
        selected context. ``overrides`` win over it; one that signs in replaces all that signs in.
        Contexts that start a program for their secrets (``op://``, ``nsc``) need ``run_commands``.
        Reads files and does not connect; blocks only while such a program runs. Raises ConfigError
        for what is missing or means nothing here.
        """
        check_options("from_context", overrides, ConnectFields)
        return options_of_context(name, overrides, run_commands=run_commands)

    @classmethod
    def from_env(
        cls,
        environ: Mapping[str, str] | None = None,
        *,
        run_commands: bool = False,
        **overrides: Unpack[ConnectFields],
    ) -> ConnectOptions:
        """Return the options of environment variables, those that the ``nats`` command reads.

        ``NATS_URL``, ``NATS_USER``, ``NATS_PASSWORD``, ``NATS_TOKEN``, ``NATS_CREDS``,
        ``NATS_NKEY`` (a file with a seed), ``NATS_JWT`` and ``NATS_SEED``, ``NATS_CERT``,
        ``NATS_KEY``, ``NATS_CA``, ``NATS_TIMEOUT`` ("5s" or seconds), ``NATS_SOCKS_PROXY``, and
        below them ``NATS_CONTEXT``, the name of a context. ``overrides`` win over all of them.
        ``environ`` is read in place of ``os.environ``. Reads files and does not connect; blocks
        only while a program of a context runs, which ``run_commands`` has to allow. Raises
        ConfigError for what is missing or means nothing here.
        """
        check_options("from_env", overrides, ConnectFields)
        environ = os.environ if environ is None else environ
        found = fields_of_environment(environ, run_commands=run_commands)
        return cls(**overridden(found, overrides))

    def __getstate__(self) -> dict[str, object]:
        if is_context(self.tls):
            raise TypeError(
                "an ssl.SSLContext cannot be pickled: give tls=jetsync.TLSConfig(ca_file=..., "
                "cert_file=..., key_file=...) instead, which names the files"
            )
        return {**self.__dict__, "hooks": None}  # they observe the connections of one process

    def __repr__(self) -> str:
        shown = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            if field.name == "servers":
                text = repr(",".join(str(url) for url in self.server_urls()))
            elif field.name == "proxy" and value != "env":
                text = repr(str(self._proxy_to("")))
            elif field.name in _SECRETS or (field.name == "credentials" and not _is_path(value)):
                text = "'***'"
            else:
                text = repr(value)
            shown.append(f"{field.name}={text}")
        return f"ConnectOptions({', '.join(shown)})"


spells_out(ConnectOptions, without=("name",))(ConnectOptions.from_context.__func__)  # type: ignore[attr-defined]
spells_out(ConnectOptions)(ConnectOptions.from_env.__func__)  # type: ignore[attr-defined]


def options_of_context(
    name: str | os.PathLike[str] | None,
    overrides: Mapping[str, object],
    *,
    run_commands: bool = False,
) -> ConnectOptions:
    """See ``ConnectOptions.from_context``; here ``overrides`` may hold every field."""
    found = fields_of_context(find_context(name), run_commands=run_commands)
    return ConnectOptions(**overridden(found, overrides))
