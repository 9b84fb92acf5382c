"""ServerInfo: the JSON of an INFO line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn

from jetsync.errors import ProtocolError

__all__ = ["ServerInfo"]

DEFAULT_MAX_PAYLOAD = 1024 * 1024
"""The largest message, in bytes, of a server that names no limit."""

_UINT64_MAX = 2**64 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerInfo:
    """One INFO of a server; fields have their names on the wire, absent ones their defaults.

    Immutable and picklable, hence safe to share. Keys that this version does not know are kept in
    ``extra``. Source: NATS client protocol, nats-server 2.15.
    """

    server_id: str = ""
    """The server's public key; another one after a restart."""
    server_name: str = ""
    """The name of its configuration, or its id."""
    version: str = ""
    """Of nats-server, such as "2.15.1"."""
    git_commit: str = ""
    """The commit that the server was built from."""
    go: str = ""
    """The version of Go that it was built with."""
    host: str = ""
    """The address that it listens at for clients."""
    ip: str = ""
    """Its address, where it announces one."""
    client_ip: str = ""
    """The address of this client, as the server sees it."""
    cluster: str = ""
    """The name of its cluster, or empty."""
    domain: str = ""
    """The JetStream domain, or empty."""
    nonce: str = ""
    """The bytes that an NKey signs to sign in; empty where the server asks for no NKey."""
    xkey: str = ""
    """The server's curve key, for encrypted auth callouts."""
    remote_account: str = ""
    """The account at the other side of a leaf node."""
    port: int = 0
    """The port that it listens at for clients."""
    proto: int = 0
    """The version of the protocol: 1 means that INFO may come again."""
    max_payload: int = DEFAULT_MAX_PAYLOAD
    """The most bytes of headers and payload of a message."""
    client_id: int = 0
    """The number of this connection at the server."""
    api_lvl: int = 0
    """The level of the JetStream API (ADR-44), 0 where it says none."""
    headers: bool = False
    """Whether messages may have headers."""
    auth_required: bool = False
    """Whether a client has to sign in."""
    tls_required: bool = False
    """Whether TLS has to be used."""
    tls_verify: bool = False
    """Whether the client has to show a certificate."""
    tls_available: bool = False
    """Whether TLS may be used."""
    jetstream: bool = False
    """Whether JetStream is enabled."""
    ldm: bool = False
    """Whether the server is in lame duck mode: it will shut down."""
    connect_info: bool = False
    """Whether this INFO is about the account: it came after the sign-in."""
    acc_is_sys: bool = False
    """Whether the account is the system account."""
    cluster_dynamic: bool = False
    """Whether the cluster's name was made up by its servers."""
    connect_urls: tuple[str, ...] = ()
    """Addresses of the cluster's servers, host:port."""
    ws_connect_urls: tuple[str, ...] = ()
    """The same for WebSocket."""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Keys that this version does not know."""

    @classmethod
    def parse(cls, raw: bytes) -> ServerInfo:
        """Read the JSON of an INFO line (the line without its verb; white space around it is fine).

        Does not block. Raises ``ProtocolError`` for anything that is not a usable INFO: the link
        it came over has to be replaced.
        """
        known: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for key, value in _object(raw).items():
            check = _CHECKS.get(key)
            if check is None:
                extra[key] = value
            elif value is not None:  # null means the same as leaving the key out
                known[key] = check(key, value)
        info = cls(**known, extra=extra)
        if info.max_payload <= 0:
            raise ProtocolError(f"INFO has max_payload {info.max_payload}, which allows no message")
        return info

    @property
    def version_tuple(self) -> tuple[int, int, int]:
        """The release as three numbers, without suffixes such as ``-dev``; zeros if unreadable."""
        found = re.match(r"v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})", self.version, re.ASCII)
        if found is None:
            return (0, 0, 0)
        return (int(found[1]), int(found[2]), int(found[3]))


def _object(raw: bytes) -> dict[str, Any]:
    try:
        document = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise ProtocolError("INFO is nested too deeply") from None
    except ValueError as error:  # not UTF-8, not JSON, or a number of absurd length
        raise ProtocolError(f"INFO is not JSON: {type(error).__name__}") from None
    if not isinstance(document, dict):
        raise ProtocolError(f"INFO is a JSON {type(document).__name__}, not an object")
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _wrong(key: str, wanted: str, value: object) -> ProtocolError:
    return ProtocolError(f"INFO field {key!r} must be {wanted}, not {type(value).__name__}")


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(key, "a string", value)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair: could be neither signed nor sent back
        raise ProtocolError(f"INFO field {key!r} is not valid text") from None
    return value


def _number(key: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(key, "a whole number", value)
    if not -_UINT64_MAX <= value <= _UINT64_MAX:
        raise ProtocolError(f"INFO field {key!r} is larger than 64 bits")
    return value


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(key, "true or false", value)
    return value


def _texts(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _wrong(key, "a list of strings", value)
    return tuple(_text(key, item) for item in value)


_CHECK_OF_TYPE: dict[str, Callable[[str, object], Any]] = {
    "str": _text,
    "int": _number,
    "bool": _flag,
    "tuple[str, ...]": _texts,
}
_CHECKS = {
    # Annotations are strings in this module, so the declared type is its own key.
    f.name: _CHECK_OF_TYPE[str(f.type)]
    for f in fields(ServerInfo)
    if f.name != "extra"
}
