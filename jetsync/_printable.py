"""Text that comes from a peer, made fit for log lines, error texts and terminals."""

from __future__ import annotations

import re

__all__ = ["printable"]

# Control characters (C0, DEL, C1), line and paragraph separators, and the marks that reorder text.
_ODD = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def printable(text: str) -> str:
    """Return the text with control characters escaped, so that it stays one line and can neither
    steer a terminal nor forge a line of a log. Everything else, umlauts included, stays."""
    return _ODD.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
