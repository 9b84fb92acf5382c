"""Server URLs, read without asking DNS.

``[nats://|tls://][user:password@|token@]host[:port]``, or with ``ws://`` or ``wss://`` for a
WebSocket, where a path may follow. Options do not travel in URLs: ADR-18 asked
for that and was withdrawn, not least because URLs end up in logs.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from jetsync.errors import ConfigError

__all__ = ["DEFAULT_PORT", "ServerURL", "parse_server", "parse_servers"]

DEFAULT_PORT = 4222
_PORTS = {"nats": DEFAULT_PORT, "tls": DEFAULT_PORT, "ws": 80, "wss": 443}
_HOST = re.compile(r"[\w-]{1,63}(\.[\w-]{1,63})*\.?")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_MASK = "***"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ServerURL:
    """The address of a server and its sign-in. Immutable, picklable; ``str`` and ``repr`` mask
    secrets.

    ``path`` is that of a WebSocket, "" where the URL has none. ``tls_name`` is set on servers that
    were discovered under a bare address: the name that their certificate has to show.
    """

    scheme: str = "nats"
    host: str
    port: int = DEFAULT_PORT
    user: str | None = None
    password: str | None = None
    token: str | None = None
    path: str = ""
    tls_name: str | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host (an IPv6 address without brackets) and port, as a socket takes them."""
        return self.host, self.port

    @property
    def netloc(self) -> str:
        """Host and port as text, without secrets: ``host:4222`` or ``[::1]:4222``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def hostname(self) -> str:
        """The name that the server's certificate is checked against."""
        return self.tls_name or self.host

    @property
    def requires_tls(self) -> bool:
        """Whether a server without TLS has to be refused (``tls://``, ``wss://``)."""
        return self.scheme in ("tls", "wss")

    @property
    def is_websocket(self) -> bool:
        """Whether it is reached by a WebSocket (``ws://``, ``wss://``)."""
        return self.scheme in ("ws", "wss")

    @property
    def is_ip(self) -> bool:
        """Whether the host is an address and not a name."""
        return _is_ip(self.host)

    def __str__(self) -> str:
        if self.token is not None:
            entry = f"{_MASK}@"
        elif self.user is not None:
            entry = f"{quote(self.user, safe='')}:{_MASK}@"
        else:
            entry = ""
        return f"{self.scheme}://{entry}{self.netloc}{self.path}"

    def __repr__(self) -> str:
        name = f", tls_name={self.tls_name!r}" if self.tls_name else ""
        return f"ServerURL({str(self)!r}{name})"


def parse_servers(servers: str | Sequence[str]) -> list[ServerURL]:
    """Read server URLs from a comma-separated string, or from a sequence with one URL each.

    Scheme and port are optional (``nats``; 4222, 80 for ``ws`` and 443 for ``wss``), IPv6 addresses
    stand in brackets, special characters in user, password and token are percent-encoded. Raises
    ``ConfigError`` for anything else, and for WebSockets beside other servers; what may be a secret
    is not repeated in the text. Does not block (no DNS).
    """
    if isinstance(servers, str):
        items: list[str] = [item.strip(" ") for item in servers.split(",")]
    elif isinstance(servers, Sequence) and not isinstance(servers, (bytes, bytearray)):
        items = list(servers)
    else:
        raise ConfigError(
            f"servers must be a str or a sequence of str, not {type(servers).__name__}"
        )
    if not items:
        raise ConfigError("servers is empty; give at least one URL such as nats://127.0.0.1:4222")
    for item in items:
        if not isinstance(item, str):
            raise ConfigError(f"servers must hold str, not {type(item).__name__}")
    # A comma in a password cuts a URL in two, so one "@" anywhere makes every part suspect.
    secret = any("@" in item for item in items)
    found = []
    for number, item in enumerate(items, start=1):
        what = f"server URL {number}" if secret else f"server URL {item!r}"
        found.append(_parse(item, what))
    if len({url.is_websocket for url in found}) > 1:
        raise ConfigError(
            "servers has ws:// or wss:// beside nats:// or tls://: give one kind, since servers "
            "tell of each other's addresses of one kind only"
        )
    return found


def parse_server(text: str) -> ServerURL:
    """Read one server URL; see ``parse_servers``."""
    return parse_servers([text])[0]


def _parse(text: str, what: str) -> ServerURL:
    if any(ch <= " " or ch == "\x7f" for ch in text):
        raise ConfigError(f"{what} holds a space or a control character")
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "nats", text
    scheme = scheme.lower()
    if scheme not in _PORTS:
        raise ConfigError(f"{what} does not start with nats://, tls://, ws:// or wss://")
    path = ""
    if scheme in ("ws", "wss") and "/" in rest.rpartition("@")[2]:
        start = rest.index("/", rest.rfind("@") + 1)
        rest, path = rest[:start], rest[start:]
        if "?" in path or "#" in path or not path.isascii():
            raise ConfigError(
                f"{what} has a path with ? or #, or with characters to percent-encode: give a path "
                "with a query as ws_path"
            )
    entry, at, place = rest.rpartition("@")
    if "/" in entry or "?" in entry or "#" in entry:
        raise ConfigError(
            f"{what} has one of / ? # before the last @: percent-encode it if it belongs to a "
            "password (%2F %3F %23)"
        )
    if place.endswith("/"):
        place = place[:-1]
    if "/" in place:
        raise ConfigError(f"{what} has a path, which means nothing to NATS")
    if "?" in place or "#" in place:
        raise ConfigError(f"{what} has ? or #: give options as keywords, not in the URL")
    host, port = _place(place, what, _PORTS[scheme])
    user, password, token = _entry(entry, what) if at else (None, None, None)
    return ServerURL(
        scheme=scheme,
        host=host,
        port=port,
        user=user,
        password=password,
        token=token,
        path="" if path == "/" else path,
    )


def _entry(entry: str, what: str) -> tuple[str | None, str | None, str | None]:
    first, colon, second = entry.partition(":")
    if not first:
        raise ConfigError(f"{what} has nothing in front of " + ("':'" if colon else "'@'"))
    if not colon:
        return None, None, _unquote(first, what)
    return _unquote(first, what), _unquote(second, what), None


def _unquote(text: str, what: str) -> str:
    # A stray "%" is an unencoded password; guessing would end as a refused login.
    if _BAD_ESCAPE.search(text):
        raise ConfigError(f"{what} has a '%' that starts no escape: write it as %25")
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ConfigError(f"{what} has percent escapes that are not UTF-8") from None


def _place(place: str, what: str, default: int) -> tuple[str, int]:
    if place.startswith("["):
        host, bracket, after = place[1:].partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise ConfigError(f"{what} has unmatched brackets")
        # RFC 6874 writes the "%" of a zone as %25.
        address = _ipv6(host.replace("%25", "%", 1), what)
        return address, _port(after[1:], what) if after else default
    if place.count(":") > 1:
        raise ConfigError(
            f"{what} has more than one ':' behind the user: put an IPv6 address in brackets, as "
            "in nats://[::1]:4222"
        )
    host, colon, port = place.partition(":")
    return _host(host, what), _port(port, what) if colon else default


def _ipv6(text: str, what: str) -> str:
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        raise ConfigError(f"{what} has brackets around something that is no IPv6 address") from None


def _host(host: str, what: str) -> str:
    if not host:
        raise ConfigError(f"{what} has no host")
    good = len(host) <= 253 and _HOST.fullmatch(host) is not None
    if good and not host.isascii():
        try:
            host.encode("idna")
        except UnicodeError:
            good = False
    if not good:
        raise ConfigError(f"{what} has a host that can be neither a name nor an address")
    return host.lower()


def _port(text: str, what: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 0
    if not 1 <= number <= 65535:
        raise ConfigError(f"{what} has a port that is not a number from 1 to 65535")
    return number


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
