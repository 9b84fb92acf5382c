"""Upgrade: the HTTP words with which a WebSocket begins (RFC 6455, section 4). Bytes in, bytes out.

The only extension that is offered is permessage-deflate (RFC 7692) without context takeover, since
that is what nats-server has. Redirects are not followed, and cookies not kept.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Generator, Iterable, Mapping

from jetsync.errors import ConfigError, ConnectError

__all__ = ["ask_websocket", "check_headers", "check_path"]

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MOST_HEAD = 1 << 16
_LONGEST_TEXT = 200
"""Characters of a refusal that an error repeats."""
_OFFER = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
_OURS = ("host", "upgrade", "connection", "content-length", "transfer-encoding", "expect")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_PATH = re.compile(r"/[\x21\x24-\x7e]*")


def check_path(path: str) -> str:
    """Return the path of a request, which may have a query. Raises ConfigError for any other text:
    what is no printable ASCII is percent-encoded."""
    if not isinstance(path, str) or _PATH.fullmatch(path) is None:
        raise ConfigError(
            "ws_path must begin with / and hold printable ASCII only: percent-encode the rest"
        )
    return path


def check_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers of a request. Raises ConfigError, without their values, for names or
    values that HTTP does not allow and for those that the upgrade itself sends."""
    if not isinstance(headers, Mapping):
        raise ConfigError(f"ws_headers must be a mapping, not {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise ConfigError(f"ws_headers has {name!r}, which is no name of a header")
        if name.lower() in _OURS or name.lower().startswith("sec-websocket-"):
            raise ConfigError(f"ws_headers has {name!r}, which the upgrade itself sends")
        if not isinstance(value, str) or _VALUE.fullmatch(value) is None:
            raise ConfigError(f"ws_headers[{name!r}] must be one line of Latin-1 text")
    return headers


def ask_websocket(
    netloc: str, path: str, headers: Mapping[str, str], *, deflate: bool
) -> Generator[bytes, bytes, tuple[bool, bytes]]:
    """Ask for a WebSocket: yields what to send, is sent what arrived, returns whether messages are
    compressed and what arrived behind the answer. Raises ConnectError with the server's answer."""
    key = base64.b64encode(os.urandom(16))
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {_in_ascii(netloc)}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key.decode()}",
        "Sec-WebSocket-Version: 13",
    ]
    if deflate:
        lines.append(f"Sec-WebSocket-Extensions: {_OFFER}")
    lines += [f"{name}: {value.strip()}" for name, value in headers.items()]
    arrived = yield "\r\n".join([*lines, "", ""]).encode("latin-1")
    while b"\r\n\r\n" not in arrived:
        if len(arrived) > _MOST_HEAD:
            raise ConnectError(f"{netloc} answered the WebSocket upgrade without an end")
        if not arrived.startswith(b"HTTP/1."[: len(arrived)]):
            break  # what this is ends with no empty line
        arrived += yield b""
    head, _, behind = arrived.partition(b"\r\n\r\n")
    return _read_answer(netloc, head, key, deflate=deflate), behind


def _in_ascii(netloc: str) -> str:
    if netloc.isascii():
        return netloc
    host, _, port = netloc.rpartition(":")
    try:
        return f"{host.encode('idna').decode()}:{port}"
    except UnicodeError as error:
        raise ConnectError(f"{netloc} is no name of a host: {error}") from None


def _read_answer(netloc: str, head: bytes, key: bytes, *, deflate: bool) -> bool:
    status, *lines = head.decode("latin-1").split("\r\n")
    words = status.split(" ", 2)
    if not re.fullmatch(r"HTTP/1\.[01] \d{3}( .*)?", status) or status.startswith("HTTP/1.0 101"):
        hint = "; it speaks NATS itself: use nats://" if status.startswith("INFO ") else ""
        raise ConnectError(f"{netloc} does not speak HTTP, which a WebSocket begins with{hint}")
    if words[1] != "101":
        shown = ascii(status[:_LONGEST_TEXT])[1:-1]
        raise ConnectError(f"{netloc} refused the WebSocket upgrade: {shown}")
    fields = _fields(netloc, lines)
    accept = base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode()  # noqa: S324
    wrong = None
    if "websocket" not in _tokens(fields.get("upgrade", ())):
        wrong = "no Upgrade: websocket"
    elif "upgrade" not in _tokens(fields.get("connection", ())):
        wrong = "no Connection: Upgrade"
    elif fields.get("sec-websocket-accept") != [accept]:
        wrong = "a wrong Sec-WebSocket-Accept"
    elif "sec-websocket-protocol" in fields:
        wrong = "a subprotocol that was not asked for"
    if wrong is not None:
        raise ConnectError(f"{netloc} answered the WebSocket upgrade with {wrong}")
    return _read_extensions(netloc, fields.get("sec-websocket-extensions", []), deflate=deflate)


def _fields(netloc: str, lines: Iterable[str]) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
            raise ConnectError(f"{netloc} answered the WebSocket upgrade with broken headers")
        fields.setdefault(name.lower(), []).append(value.strip(" \t"))
    return fields


def _tokens(values: Iterable[str]) -> set[str]:
    return {token.strip().lower() for value in values for token in value.split(",")}


def _read_extensions(netloc: str, values: list[str], *, deflate: bool) -> bool:
    """Return whether compression was agreed on; anything else that the server wants is refused."""
    if not values:
        return False
    name, *parameters = [part.strip().lower() for part in ", ".join(values).split(";")]
    needed = {"server_no_context_takeover", "client_no_context_takeover"}
    windows = {f"{side}_max_window_bits=15" for side in ("server", "client")}
    if (
        not deflate
        or name != "permessage-deflate"
        or not needed <= set(parameters) <= needed | windows
    ):
        raise ConnectError(
            f"{netloc} answered the WebSocket upgrade with an extension that was not offered"
        )
    return True
