r"""Test vectors: wire text and what it means, as text files that can be read and edited.

A file holds cases::

    == What the case shows
    > MSG a 1 5\r\n                                  bytes from the server, lines joined as they are
    > hello\r\n
    msg 1 subject="a" payload="hello"                what comes out of them, in order
      "Name" = "value"                               headers of the message above
      malformed 1                                    header lines of it that could not be read

Other things that come out: ``ping`` (answered by us), ``pong``, ``info "text"``, ``err "text"``,
``unmatched`` (no queue waits for that message), ``bad KIND`` (the stream is broken and ends there)
and ``nothing`` (no whole frame). ``\{300*x}`` stands for 300 times x, other escapes are Python's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.wire.outcome import Message, Outcome

FOLDER = Path(__file__).parent / "vectors"
SIDS = 100


@dataclass
class Expected:
    """The headers that a message of the case must show."""

    block: bytes
    lines: list[tuple[bytes, bytes]] = field(default_factory=list)
    malformed: int = 0


@dataclass
class Vector:
    title: str
    data: bytes = b""
    outcome: Outcome = field(default_factory=Outcome)
    headers: list[Expected] = field(default_factory=list)


def unescape(text: str) -> bytes:
    text = re.sub(r"\\\{(\d+)\*(.)\}", lambda m: m[2] * int(m[1]), text)
    return text.encode("latin-1").decode("unicode_escape").encode("latin-1")


_STRING = r'"((?:[^"\\]|\\.)*)"'


def load() -> list[Vector]:
    vectors = []
    for path in sorted(FOLDER.glob("*.txt")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("== "):
                vectors.append(Vector(f"{path.stem}: {line[3:]}"))
            elif line and not line.startswith("#"):
                try:
                    _read(vectors[-1], line)
                except (AttributeError, ValueError) as error:
                    raise ValueError(f"{path.name}:{number}: {error}") from error
    return vectors


def _read(vector: Vector, line: str) -> None:
    outcome = vector.outcome
    kind, _, rest = line.partition(" ")
    if kind == ">":
        vector.data += unescape(rest)
    elif kind == "msg":
        sid, _, rest = rest.partition(" ")
        message = _message(rest)
        outcome.messages.setdefault(int(sid), []).append(message)
        vector.headers.append(Expected(message[2]))
    elif line.startswith("  malformed"):
        vector.headers[-1].malformed = int(line.split()[1])
    elif line.startswith("  "):
        match = re.fullmatch(rf"  {_STRING} = {_STRING}", line)
        if match is None:
            raise ValueError("not a header line")
        vector.headers[-1].lines.append((unescape(match[1]), unescape(match[2])))
    elif kind == "unmatched":
        outcome.unmatched += 1
    elif kind == "ping":
        outcome.pings += 1
    elif kind == "pong":
        outcome.events.append(("PONG", b""))
    elif kind in ("info", "err"):
        op = "INFO" if kind == "info" else "-ERR"
        outcome.events.append((op, unescape(rest[1:-1])))
    elif kind == "bad":
        outcome.bad = rest
    elif kind != "nothing":
        raise ValueError(f"unknown line {line!r}")


def _message(rest: str) -> Message:
    found = {m[1]: unescape(m[2]) for m in re.finditer(rf"(\w+)={_STRING}", rest)}
    status = re.search(r"\bstatus=(\d+)", rest)
    return (
        found.pop("subject"),
        found.pop("reply", b""),
        found.pop("header", b""),
        found.pop("payload"),
        int(status[1]) if status else 0,
        found.pop("description", b""),
    )
