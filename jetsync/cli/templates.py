"""Templates: what ``pub`` and ``reply`` fill into the texts of each message, as ``nats`` does."""

from __future__ import annotations

import os
import re
import string
import time
from datetime import datetime, timezone

from jetsync.cli.failure import UsageError

__all__ = ["HELP", "check", "fill", "fill_command", "has_places", "in_one_word"]

HELP = (
    "{{Count}} (the number of the message), {{ID}}, {{UUID}}, {{Time}}, {{TimeStamp}} (RFC 3339), "
    "{{Unix}}, {{UnixNano}} and {{Random 10 100}} (so many letters and digits)"
)
_PLACE = re.compile(
    r"\{\{\s*(?:\.?(Count|Cnt|ID|UUID|TimeStamp|Time|UnixNano|Unix|Request)|"
    r"Random\s+(\d+)\s+(\d+))\s*\}\}"
)
_TOKEN = re.compile(r"\{\{(\d+)\}\}")
_MOST_RANDOM = 64 * 1024 * 1024
"""No server takes a larger message."""
_LETTERS = bytes(
    (string.ascii_letters + string.digits).encode()[number % 62] for number in range(256)
)


def has_places(text: str) -> bool:
    """Whether something is filled into a text."""
    return _PLACE.search(text) is not None


def check(*texts: str) -> None:
    """Raise UsageError for a text that cannot be filled in."""
    for text in texts:
        for found in _PLACE.finditer(text):
            if found[2] and max(int(found[2]), int(found[3])) > _MOST_RANDOM:
                raise UsageError(f"{found[0]} is longer than any message (64 MiB).")


def fill(text: str, number: int, request: bytes | None = None) -> str:
    """Return a text for message ``number`` with all places filled in; those that mean nothing stay
    as they are, and so does {{Request}} where there is none. Its bytes that are no UTF-8 are
    surrogates, to be encoded with "surrogateescape"."""
    now = time.time_ns()
    return _PLACE.sub(lambda found: _value(found, number, now, request), text)


def _value(found: re.Match[str], number: int, now: int, request: bytes | None) -> str:
    if found[2]:
        return _random(int(found[2]), int(found[3]))
    name = found[1]
    if name == "Request":
        return found[0] if request is None else request.decode("utf-8", "surrogateescape")
    if name == "ID":
        from jetsync.client import next_nuid

        return next_nuid()
    if name == "UUID":
        import uuid

        return str(uuid.uuid4())
    if name == "TimeStamp":
        moment = datetime.fromtimestamp(now / 1e9, timezone.utc)
        return moment.isoformat().replace("+00:00", "Z")
    if name == "Time":  # such as 3:04PM
        return time.strftime("%I:%M%p", time.localtime(now / 1e9)).lstrip("0")
    return str({"Unix": now // 10**9, "UnixNano": now}.get(name, number))


def _random(one: int, other: int) -> str:
    shortest, longest = sorted((one, other))
    length = shortest + int.from_bytes(os.urandom(8), "big") % (longest - shortest + 1)
    return os.urandom(length).translate(_LETTERS).decode("ascii")


def in_one_word(command: str) -> str:
    """Return a command line in which no place is cut in two when it is split into its words."""
    return _PLACE.sub(lambda found: re.sub(r"\s+", "\N{NO-BREAK SPACE}", found[0]), command)


def fill_command(words: list[str], number: int, subject: str, request: bytes) -> list[str]:
    """Return the words of a command for a request: as :func:`fill` does it, and {{0}}, {{1}} and so
    on are the tokens of its subject. What a request says stays within its word."""
    tokens = subject.split(".")

    def token(found: re.Match[str]) -> str:
        at = int(found[1])
        return tokens[at] if at < len(tokens) else found[0]

    # The words of the user first: what is filled in is not looked at again.
    return [
        "".join(
            _TOKEN.sub(token, part) if at % 2 == 0 else fill(part, number, request)
            for at, part in enumerate(_parts(word))
        )
        for word in words
    ]


def _parts(text: str) -> list[str]:
    """Cut a text: what is not a place and what is one, in turn."""
    parts, end = [], 0
    for found in _PLACE.finditer(text):
        parts += [text[end : found.start()], found[0]]
        end = found.end()
    return [*parts, text[end:]]
