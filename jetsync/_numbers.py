"""Whole numbers that users give: how many, how large, how often."""

from __future__ import annotations

from jetsync.errors import ConfigError

__all__ = ["check_whole"]

_LARGEST = 2**63 - 1
"""The largest number that the core and the wire hold."""


def check_whole(name: str, value: object, least: int = 1) -> int:
    """Return an ``int`` of ``least`` or more, else raise ConfigError. Never blocks."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} must be {least} or more (int), not {value!r}")
    if value > _LARGEST:
        raise ConfigError(f"{name} must be at most {_LARGEST}, not {value!r}")
    return value
