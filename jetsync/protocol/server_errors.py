"""Reads an ``-ERR`` line: its error class, its subject, and whether the link ends."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from jetsync.errors import (
    AuthorizationError,
    Error,
    MaxPayloadError,
    PermissionsError,
    ServerError,
    StaleConnectionError,
    TLSRequiredError,
)

__all__ = ["ServerErrorInfo"]

# Texts (in lower case) after which the server closes the link, and the error each one is.
_CLOSING: dict[str, type[Error]] = {
    "account authentication expired": AuthorizationError,
    "authentication timeout": AuthorizationError,
    "authorization violation": AuthorizationError,
    "connection throttling is active. please try again later.": ServerError,
    "failed account registration": ServerError,
    "invalid client protocol": ServerError,
    "maximum account active connections exceeded": ServerError,
    "maximum connections exceeded": ServerError,
    "maximum control line exceeded": ServerError,
    "maximum payload violation": MaxPayloadError,
    "no responders requires headers support": ServerError,
    "secure connection - tls required": TLSRequiredError,
    "stale connection": StaleConnectionError,
    "unknown protocol operation": ServerError,
    "user authentication expired": AuthorizationError,
    "user authentication revoked": AuthorizationError,
}

# Advice for texts (in lower case) that do not say what to do.
_ADVICE = {
    "maximum control line exceeded": "; connect(max_control_line=) with the server's own "
    "number refuses a longer line before it is sent"
}

# The server writes the quoted parts as Go's %q does; a subject holds no spaces, so the end of one
# can be told even where quotes inside of it are not escaped.
_PERMISSIONS = re.compile(
    r"permissions violation for (?P<what>publish to|publish with reply of|subscription to)"
    r' "(?P<subject>\S*?)"(?=,?\s|$)'
    r'(?: using queue "(?P<queue>\S*?)"(?=,?\s|$))?'
    r'(?:.*?\(sid "(?P<sid>\d{1,20})"\))?',
    re.IGNORECASE | re.ASCII,
)
_OPERATIONS = {
    "publish to": "publish",
    "publish with reply of": "reply",
    "subscription to": "subscribe",
}
_ESCAPE = re.compile(r'\\(?:([abfnrtv\\"\'])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))')
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerErrorInfo:
    """One ``-ERR`` line, understood. Immutable and picklable.

    ``closes`` is True when the server is known to close the link after this text; for a text that
    is not known it is False, and the end of the link will tell. ``operation`` is ``"publish"``,
    ``"reply"`` (``subject`` is then the reply subject of a publish) or ``"subscribe"`` when a
    permission is missing, else None, and so are ``subject``, ``queue`` and ``sid``.
    """

    text: str
    closes: bool
    error: Error = field(compare=False)
    operation: str | None = None
    subject: str | None = None
    queue: str | None = None
    sid: int | None = None

    @property
    def is_limit(self) -> bool:
        """Whether a subscription was refused because there are too many."""
        return self.text.lower() == "maximum subscriptions exceeded"

    @classmethod
    def parse(cls, raw: bytes | str) -> ServerErrorInfo:
        """Read the text of an ``-ERR`` line, with or without the verb and the quotes around it.

        Does not block and never raises: a text that is not known becomes a ``ServerError``.
        """
        text = _strip(raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw)
        found = _PERMISSIONS.match(text)
        if found is not None:
            operation = _OPERATIONS[found["what"].lower()]
            subject = _unescape(found["subject"])
            queue = None if found["queue"] is None else _unescape(found["queue"])
            return cls(
                text=text,
                closes=False,
                error=PermissionsError(text, subject=subject, queue=queue, operation=operation),
                operation=operation,
                subject=subject,
                queue=queue,
                sid=None if found["sid"] is None else int(found["sid"]),
            )
        if text.lower().startswith("permissions violation"):
            return cls(text=text, closes=False, error=PermissionsError(text))
        kind = _CLOSING.get(text.lower())
        error = (kind or ServerError)(text + _ADVICE.get(text.lower(), ""))
        return cls(text=text, closes=kind is not None, error=error)


def _strip(text: str) -> str:
    text = text.strip()
    if text[:4].upper() == "-ERR":
        text = text[4:].lstrip()
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] == "'" else text


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_one, text)


def _one(found: re.Match[str]) -> str:
    char, byte, short, long = found.groups()
    if char:
        return _ESCAPED.get(char, char)
    if byte:  # a control character, or a byte that is not UTF-8
        number = int(byte, 16)
        return chr(number) if number < 0x80 else chr(0xDC00 + number)
    number = int(short or long, 16)
    return chr(number) if number <= 0x10FFFF else found[0]
