"""The CONNECT line: the client's options and credentials for the server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jetsync._version import __version__
from jetsync.errors import ConfigError

__all__ = ["connect_payload"]

_AUTH_FIELDS = ("user", "pass", "auth_token", "nkey", "sig", "jwt")


def connect_payload(
    *,
    auth: Mapping[str, str] | None = None,
    name: str | None = None,
    echo: bool = True,
    tls_required: bool = False,
) -> bytes:
    """Build the whole ``CONNECT {...}`` line with its CRLF.

    ``auth`` holds the fields that ``Credentials.resolve`` gave. Nothing reaches the line but the
    fields named here, so no option can leak into it. Raises ``ConfigError`` for an unknown or
    wrong field; secrets never appear in the text. The server limits its length
    (``max_control_line``, 4,096 bytes unless configured). Does not block; thread-safe.
    """
    fields: dict[str, Any] = {
        # The server's defaults for the first three are true, so they are always sent.
        "verbose": False,
        "pedantic": False,
        "echo": echo,
        "tls_required": tls_required,
        "headers": True,
        "no_responders": True,
        "protocol": 1,
        "lang": "python",
        "version": __version__,
    }
    if name is not None:
        fields["name"] = _text("name", name)
    for key, value in (auth or {}).items():
        if key not in _AUTH_FIELDS:
            raise ConfigError(f"{key!r} is not a field of CONNECT that carries credentials")
        fields[key] = _text(key, value)
    # JSON escapes CR and LF, so no value can end the line early.
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    line = b"CONNECT " + text.encode("utf-8")
    return line + b"\r\n"


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{key} must be a str, not {type(value).__name__}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError(f"{key} is not valid text (half of a surrogate pair)") from None
    return value
