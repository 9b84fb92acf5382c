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
    server_name: str = ""
    version: str = ""
    git_commit: str = ""
    go: str = ""
    host: str = ""
    ip: str = ""
    client_ip: str = ""
    cluster: str = ""
    domain: str = ""
    nonce: str = ""
    xkey: str = ""
    remote_account: str = ""
    port: int = 0
    proto: int = 0
    max_payload: int = DEFAULT_MAX_PAYLOAD
    client_id: int = 0
    api_lvl: int = 0
    headers: bool = False
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    tls_available: bool = False
    jetstream: bool = False
    ldm: bool = False
    connect_info: bool = False
    acc_is_sys: bool = False
    cluster_dynamic: bool = False
    connect_urls: tuple[str, ...] = ()
    ws_connect_urls: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

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
