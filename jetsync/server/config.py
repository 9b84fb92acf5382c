"""The configuration file of a nats-server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jetsync.errors import ConfigError

__all__ = ["Config", "check_name", "render"]

Config = str | Mapping[str, Any]
"""The user's configuration: text in the server's own format, or the same as nested mappings."""


def check_name(name: str) -> str:
    """Return ``name`` if nats-server takes it as a server or cluster name, else ConfigError."""
    if not isinstance(name, str) or not name or any(c.isspace() or c in '"\\' for c in name):
        raise ConfigError(f"name must be a word without spaces or quotes, got {name!r}")
    return name


def render(config: Config | None, name: str) -> str:
    """Return the text of the configuration file.

    The user's part comes first, so that the line numbers in the server's complaints are the
    user's. The name follows, as the server refuses a file that sets nothing.
    Raises ``ConfigError`` for a value that the format cannot express.
    """
    if config is None:
        text = ""
    elif isinstance(config, str):
        text = config
    elif isinstance(config, Mapping):
        text = "\n".join(_pairs(config))
    else:
        raise ConfigError(f"config must be text or a mapping, not {type(config).__name__}")
    return f"{text}\nserver_name: {_value(name, 'name')}\n"


def _pairs(config: Mapping[str, Any]) -> list[str]:
    return [f"{_value(str(key), 'key')}: {_value(value, key)}" for key, value in config.items()]


def _value(value: Any, where: object) -> str:
    """Return a value in the server's format, which takes JSON except null and \\u escapes."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(_pairs(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item, where) for item in value) + "]"
    if isinstance(value, (str, bool, int, float)):
        text = json.dumps(value, ensure_ascii=False)
        if "\\u" not in text:
            return text
        raise ConfigError(f"config value of {where!r} has a control character: {value!r}")
    raise ConfigError(
        f"config value of {where!r} must be text, a number, a bool, a list or a mapping, "
        f"not {type(value).__name__}"
    )
