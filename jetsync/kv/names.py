"""Valid names of buckets, keys and patterns of keys, and the streams and subjects made of them.

A server takes more than these rules (ADR-8) allow; other clients would not find such keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from jetsync.errors import ConfigError
from jetsync.jetstream.config.stream_rules import check_overlap

__all__ = [
    "STREAM_PREFIX",
    "check_any_key",
    "check_bucket",
    "check_key",
    "check_patterns",
    "stream_of",
    "subjects",
]

STREAM_PREFIX = "KV_"

_BUCKET = re.compile(r"[a-zA-Z0-9_-]+")
_KEY = re.compile(r"[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*")
_FOREIGN_KEY = re.compile(r"[^\s.*>\x00-\x20\x7f]+(\.[^\s.*>\x00-\x20\x7f]+)*")
_PATTERN = re.compile(r"(?:(?:[^\s.*>\x00-\x20\x7f]+|\*)\.)*(?:[^\s.*>\x00-\x20\x7f]+|\*|>)")
_LONGEST_KEY = 4000
"""Characters: a subject with the key has to fit into one line of the protocol."""


def check_bucket(bucket: str) -> str:
    """Return ``bucket`` if it can name one, else raise ConfigError."""
    return _check(_BUCKET, "bucket name", bucket, "letters, digits, - and _")


def check_key(key: str) -> str:
    """Return ``key`` if it can be one, else raise ConfigError."""
    rule = "letters, digits and -/_= in one or more tokens with single dots between them"
    _check(_KEY, "key", key, rule)
    if len(key) > _LONGEST_KEY:
        raise ConfigError(f"a key has at most {_LONGEST_KEY} characters, not {len(key)}")
    return key


def check_any_key(key: str) -> str:
    """Return ``key`` if some client can have written it, else raise ConfigError.

    Some clients write keys that these rules do not allow, such as ``user@example.com``. They are
    listed, so they can be read and removed too.
    """
    if isinstance(key, str) and (not _FOREIGN_KEY.fullmatch(key) or len(key) > _LONGEST_KEY):
        return check_key(key)  # raises with the reason
    return _check(_FOREIGN_KEY, "key", key, "tokens of visible characters without * and >")


def check_patterns(keys: str | Sequence[str]) -> list[str]:
    """Return the patterns of keys as a list if all can be watched, else raise ConfigError."""
    if not isinstance(keys, Iterable):
        raise ConfigError(f"keys must be a pattern or several, not {type(keys).__name__}")
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
    """The prefix of the subjects of a bucket's keys."""
    return f"$KV.{bucket}."
