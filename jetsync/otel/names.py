"""Names of destinations: few of them, whatever ids the subjects hold."""

from __future__ import annotations

import re

__all__ = ["template_of"]

_ID = re.compile(
    r"\d+|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32}|(?=\w*\d)[0-9A-Za-z]{22}"
)


def template_of(subject: str) -> str:
    """Return a subject with ``{id}`` in the place of tokens that are numbers, UUIDs or NUIDs."""
    return ".".join("{id}" if _ID.fullmatch(token) else token for token in subject.split("."))
