"""Which names of queues, exchanges and tasks can stand in subjects, consumer names and keys."""

from __future__ import annotations

import base64
import re

__all__ = ["bucket_token", "from_token", "to_token"]

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_ENCODED = "="


def to_token(name: str) -> str:
    """Return ``name`` as one token: itself where it can be one, else ``=`` and base64url."""
    if _PLAIN.fullmatch(name):
        return name
    return _ENCODED + base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def from_token(token: str) -> str:
    """Return the name that :func:`to_token` made ``token`` of."""
    if not token.startswith(_ENCODED):
        return token
    text = token[1:]
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()


def bucket_token(name: str) -> str:
    """Return ``name`` as a part of a bucket's name, which may have no ``=``."""
    return to_token(name).replace(_ENCODED, "--")
