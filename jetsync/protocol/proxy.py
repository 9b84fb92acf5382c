"""Proxies: the handshake that asks a proxy for a connection to a server. Bytes in, bytes out.

HTTP CONNECT (RFC 9110, section 9.3.6; Basic sign-in, RFC 7617) and SOCKS 5 (RFC 1928, sign-in by
RFC 1929). ``socks5`` is told the address of the server, ``socks5h`` its name.
"""

from __future__ import annotations

import base64
import dataclasses
import ipaddress
from collections.abc import Generator, Mapping
from urllib.parse import unquote, urlsplit

from jetsync.errors import ConfigError, ConnectError

__all__ = ["ProxyURL", "ask_proxy", "proxy_from_environment"]

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
_MOST_HEAD = 1 << 16
_SOCKS_HEAD = 5
"""Bytes of an answer until its length is known."""
_BY_PASSWORD = 2
_REPLIES = {
    1: "general failure",
    2: "its rules do not allow it",
    3: "the network is unreachable",
    4: "the host is unreachable",
    5: "the connection was refused",
    6: "it took too long",
    7: "it cannot do CONNECT",
    8: "it does not know this kind of address",
}


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class ProxyURL:
    """The address of a proxy and its sign-in. Immutable; ``str`` and ``repr`` mask secrets."""

    scheme: str
    host: str
    port: int
    user: str | None = None
    password: str | None = None

    @classmethod
    def parse(cls, text: str) -> ProxyURL:
        """Read ``scheme://[user:password@]host[:port]``. Raises ConfigError, without secrets."""
        if not isinstance(text, str):
            raise ConfigError(f"proxy must be a URL or 'env', not {type(text).__name__}")
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ConfigError("proxy is no URL such as socks5://host:1080") from None
        if parts.scheme not in _PORTS:
            given = f"with {parts.scheme}://" if "://" in text else "with the host"
            raise ConfigError(
                f"proxy must begin with http://, https://, socks5:// or socks5h://, not {given}"
            )
        if not host or parts.path.strip("/") or parts.query or parts.fragment:
            raise ConfigError("proxy must be scheme://[user:password@]host[:port] and no more")
        user = None if parts.username is None else unquote(parts.username)
        password = None if parts.password is None else unquote(parts.password)
        for part in (user, password):
            if parts.scheme.startswith("socks") and part is not None and len(part.encode()) > 255:
                raise ConfigError("user and password of a SOCKS proxy have 255 bytes at most")
        return cls(
            scheme=parts.scheme,
            host=host,
            port=port or _PORTS[parts.scheme],
            user=user,
            password=password,
        )

    @property
    def finds_servers(self) -> bool:
        """Whether it is given the name of a server, and looks it up itself."""
        return self.scheme != "socks5"

    @property
    def netloc(self) -> str:
        """Host and port as text."""
        return _netloc(self.host, self.port)

    def __str__(self) -> str:
        entry = "" if self.user is None else "***@"
        return f"{self.scheme}://{entry}{self.netloc}"

    def __repr__(self) -> str:
        return f"ProxyURL({str(self)!r})"


def proxy_from_environment(environ: Mapping[str, str], host: str) -> str | None:
    """Return the proxy that ``ALL_PROXY`` names, unless ``NO_PROXY`` excepts this host.

    Both also in lower case. ``NO_PROXY`` is a list of names, with their subdomains, addresses,
    networks such as ``10.0.0.0/8``, or ``*``.
    """
    proxy = environ.get("ALL_PROXY") or environ.get("all_proxy")
    if not proxy:
        return None
    excepted = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if any(_covers(item.strip().lower(), host.lower()) for item in excepted.split(",")):
        return None
    return proxy


def ask_proxy(proxy: ProxyURL, host: str, port: int) -> Generator[bytes, bytes, bytes]:
    """Ask for a connection to a server: yields what to send, is sent what arrived, returns what
    arrived behind the proxy's answer. Raises ConnectError with the text of the proxy."""
    if proxy.scheme in ("http", "https"):
        return _http_connect(proxy, host, port)
    return _socks5(proxy, host, port)


def _http_connect(proxy: ProxyURL, host: str, port: int) -> Generator[bytes, bytes, bytes]:
    target = _netloc(host, port)
    head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"
    if proxy.user is not None:
        entry = base64.b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()
        head += f"Proxy-Authorization: Basic {entry}\r\n"
    arrived = yield head.encode() + b"\r\n"
    while b"\r\n\r\n" not in arrived:
        if len(arrived) > _MOST_HEAD:
            raise ConnectError(f"proxy {proxy.netloc} sent an endless answer")
        arrived += yield b""
    answer, _, behind = arrived.partition(b"\r\n\r\n")
    status = answer.split(b"\r\n", 1)[0].decode("latin-1")
    words = status.split(" ", 2)
    if not words[0].startswith("HTTP/1.") or len(words) < 2:
        raise ConnectError(f"proxy {proxy.netloc} does not speak HTTP")
    if not (len(words[1]) == 3 and words[1].startswith("2")):
        raise ConnectError(f"proxy {proxy.netloc} did not connect us to {target}: {status}")
    return behind


def _socks5(proxy: ProxyURL, host: str, port: int) -> Generator[bytes, bytes, bytes]:
    by_password = proxy.user is not None
    arrived = yield b"\x05\x02\x00\x02" if by_password else b"\x05\x01\x00"
    while len(arrived) < 2:
        arrived += yield b""
    if arrived[0] != 5:
        raise ConnectError(f"proxy {proxy.netloc} does not speak SOCKS 5")
    method, arrived = arrived[1], arrived[2:]
    if method == _BY_PASSWORD and by_password:
        user, password = (proxy.user or "").encode(), (proxy.password or "").encode()
        words = bytes((1, len(user))) + user + bytes((len(password),)) + password
        while words or len(arrived) < 2:
            arrived += yield words
            words = b""
        if arrived[1] != 0:
            raise ConnectError(f"proxy {proxy.netloc} refused its user or password")
        arrived = arrived[2:]
    elif method != 0:
        raise ConnectError(
            f"proxy {proxy.netloc} takes none of the ways to sign in that were offered: give user "
            "and password as socks5://user:password@host"
        )
    words = b"\x05\x01\x00" + _socks_address(host) + port.to_bytes(2, "big")
    while words or len(arrived) < _SOCKS_HEAD:
        arrived += yield words
        words = b""
    if arrived[0] != 5:
        raise ConnectError(f"proxy {proxy.netloc} does not speak SOCKS 5")
    if arrived[1] != 0:
        why = _REPLIES.get(arrived[1], f"code {arrived[1]}")
        raise ConnectError(
            f"proxy {proxy.netloc} did not connect us to {_netloc(host, port)}: {why}"
        )
    sizes = {1: 10, 4: 22, 3: 7 + arrived[4]}
    if arrived[3] not in sizes:
        raise ConnectError(f"proxy {proxy.netloc} does not speak SOCKS 5")
    size = sizes[arrived[3]]
    while len(arrived) < size:
        arrived += yield b""
    return arrived[size:]


def _socks_address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        name = host.encode("idna")
        return b"\x03" + bytes((len(name),)) + name
    return (b"\x01" if address.version == 4 else b"\x04") + address.packed


def _covers(item: str, host: str) -> bool:
    if item == "*":
        return True
    if not item:
        return False
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = item.removeprefix("*").removeprefix(".")
        return host == name or host.endswith(f".{name}")
    try:
        return address in ipaddress.ip_network(item, strict=False)
    except ValueError:
        return False


def _netloc(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
