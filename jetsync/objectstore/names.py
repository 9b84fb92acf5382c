"""Valid names of buckets and objects and valid ids, and the subjects made of them (ADR-20)."""

from __future__ import annotations

import base64
import re
import secrets

from jetsync.errors import ConfigError

__all__ = [
    "STREAM_PREFIX",
    "check_bucket",
    "check_name",
    "encode",
    "is_term",
    "new_nuid",
    "stream_of",
    "subjects",
]

STREAM_PREFIX = "OBJ_"

_TERM = re.compile(r"[a-zA-Z0-9_-]+")
_LONGEST_NAME = 1024
"""Bytes: a subject with the encoded name has to fit into one line of the protocol."""


def is_term(text: object) -> bool:
    """Whether it is a str of letters, digits, ``-`` and ``_``: it cannot change a subject."""
    return isinstance(text, str) and _TERM.fullmatch(text) is not None


def check_bucket(bucket: str) -> str:
    """Return ``bucket`` if it can name one, else raise ConfigError."""
    if not is_term(bucket):
        raise ConfigError(f"{bucket!r} cannot be a bucket name: that has letters, digits, - and _")
    return bucket


def check_name(name: str) -> str:
    """Return ``name`` if an object can have it, else raise ConfigError."""
    if not isinstance(name, str):
        raise ConfigError(f"an object's name must be a str, not {type(name).__name__}")
    if not name:
        raise ConfigError("an object needs a name")
    try:
        length = len(name.encode())
    except UnicodeEncodeError as error:
        raise ConfigError(f"{name!r} cannot be an object's name: {error}") from None
    if length > _LONGEST_NAME:
        raise ConfigError(f"an object's name has at most {_LONGEST_NAME} bytes, not {length}")
    return name


def encode(name: str) -> str:
    """The token of a subject that stands for a name."""
    return base64.urlsafe_b64encode(name.encode()).decode()


def stream_of(bucket: str) -> str:
    """The name of the stream that holds a bucket."""
    return STREAM_PREFIX + bucket


def subjects(bucket: str) -> str:
    """The prefix of the subjects of a bucket."""
    return f"$O.{bucket}."


def new_nuid() -> str:
    """A unique id."""
    return secrets.token_hex(11)
