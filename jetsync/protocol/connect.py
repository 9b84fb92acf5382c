"""The CONNECT line: what a client says about itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jetsync._version import __version__
from jetsync.errors import ConfigError

__all__ = ["MAX_CONTROL_LINE", "connect_payload"]

MAX_CONTROL_LINE = 4096
"""The longest line a server takes unless configured otherwise (``max_control_line``)."""

_AUTH_FIELDS = ("user", "pass", "auth_token", "nkey", "sig", "jwt")


def connect_payload(
    *,
    auth: Mapping[str, str] | None = None,
    name: str | None = None,
    echo: bool = True,
    tls_required: bool = False,
    max_control_line: int = MAX_CONTROL_LINE,
) -> bytes:
    """Build the whole ``CONNECT {...}`` line with its CRLF.

    ``auth`` holds the fields that ``Credentials.resolve`` gave. Nothing reaches the line but the
    fields named here, so no option can leak into it. Raises ``ConfigError`` for an unknown or
    wrong field and for a line longer than ``max_control_line`` bytes, which a server would answer
    by closing; secrets never appear in the text. Does not block; thread-safe.
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
    if len(line) > max_control_line:
        raise _too_long(len(line), max_control_line, fields)
    return line + b"\r\n"


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{key} must be a str, not {type(value).__name__}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError(f"{key} is not valid text (half of a surrogate pair)") from None
    return value


def _too_long(size: int, limit: int, fields: Mapping[str, Any]) -> ConfigError:
    sizes = {k: len(v.encode("utf-8")) for k, v in fields.items() if isinstance(v, str)}
    largest = max(sizes, key=lambda key: sizes[key])
    return ConfigError(
        f"the CONNECT line would be {size} bytes and the server takes {limit}: "
        f"{largest!r} is too large ({sizes[largest]} bytes); make it shorter"
    )
