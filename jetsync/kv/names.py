"""Which text can be a bucket, a key or a pattern of keys, and how they become streams and subjects.

A server takes more than these rules (ADR-8) allow; other clients would not find such keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from jetsync.errors import ConfigError
from jetsync.jetstream.streams.rules import check_overlap

__all__ = ["STREAM_PREFIX", "check_bucket", "check_key", "check_patterns", "stream_of", "subjects"]

STREAM_PREFIX = "KV_"

_BUCKET = re.compile(r"[a-zA-Z0-9_-]+")
_KEY = re.compile(r"[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*")
_PATTERN = re.compile(r"(?:(?:[-/_=a-zA-Z0-9]+|\*)\.)*(?:[-/_=a-zA-Z0-9]+|\*|>)")


def check_bucket(bucket: str) -> str:
    """Return ``bucket`` if it can name one, else raise ConfigError."""
    return _check(_BUCKET, "bucket name", bucket, "letters, digits, - and _")


def check_key(key: str) -> str:
    """Return ``key`` if it can be one, else raise ConfigError."""
    rule = "letters, digits and -/_= in one or more tokens with single dots between them"
    return _check(_KEY, "key", key, rule)


def check_patterns(keys: str | Sequence[str]) -> list[str]:
    """Return the patterns of keys as a list if all can be watched, else raise ConfigError."""
    patterns = [keys] if isinstance(keys, str) else list(keys)
    if not patterns:
        raise ConfigError('no keys are given: ">" means all of them')
    rule = "tokens as in keys, * for any one token, > at the end for one or more"
    for pattern in patterns:
        _check(_PATTERN, "pattern of keys", pattern, rule)
    check_overlap("keys", patterns)
    return patterns


def _check(allowed: re.Pattern[str], what: str, text: str, rule: str) -> str:
    if not isinstance(text, str):
        raise ConfigError(f"a {what} must be a str, not {type(text).__name__}")
    if not allowed.fullmatch(text):
        raise ConfigError(f"{text!r} cannot be a {what}: that has {rule}")
    return text


def stream_of(bucket: str) -> str:
    """The name of the stream that holds a bucket."""
    return STREAM_PREFIX + bucket


def subjects(bucket: str) -> str:
    """What the subjects of a bucket's keys begin with."""
    return f"$KV.{bucket}."
