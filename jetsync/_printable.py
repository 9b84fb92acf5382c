"""Text that comes from a peer, made fit for log lines, error texts and terminals."""

from __future__ import annotations

import re

__all__ = ["printable", "printable_json"]

# Control characters (C0, DEL, C1), line and paragraph separators, the marks that reorder text, and
# surrogates: bytes that are no UTF-8 arrive as such, and no output in UTF-8 takes them.
_ODD = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Return the text with control characters escaped, so that it stays one line and can neither
    steer a terminal nor forge a line of a log. Everything else, umlauts included, stays."""
    return _ODD.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def printable_json(text: str) -> str:
    """Return a JSON document with the same characters as escapes of JSON. Its values and its layout
    stay as they are."""
    return _ODD.sub(
        lambda match: "\n" if match[0] == "\n" else f"\\u{ord(match[0]):04x}",
        text,
    )
