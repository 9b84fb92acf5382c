"""What a stream of server bytes comes to: by the reference, by the C library, by the extension."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from jetsync._core.inbound import (
    EVENT_BAD,
    EVENT_ERR,
    EVENT_INFO,
    EVENT_PONG,
    Inbound,
)
from jetsync._core.mailbox import Mailbox
from jetsync._core.message import Msg
from jetsync._core.outbound import Outbound
from tests.csrc import library
from tests.wire import reference

BAD_KINDS = {
    "a line with an unknown verb": "op",
    "a message line with wrong arguments": "args",
    "a message with an impossible size": "size",
    "a line that is too long or not ended by CRLF": "line",
    "a payload not followed by CRLF": "crlf",
}

# subject, reply, header block, payload, status, description
Message = tuple[bytes, bytes, bytes, bytes, int, bytes]


@dataclass
class Outcome:
    """Everything the upper floors could notice."""

    messages: dict[int, list[Message]] = field(default_factory=dict)  # by subscription id
    unmatched: int = 0
    events: list[tuple[str, bytes]] = field(default_factory=list)
    pings: int = 0
    bad: str = ""  # what was wrong with the stream; it ends there


def by_reference(pieces: Iterable[bytes], sids: int, max_size: int = reference.MAX_SIZE) -> Outcome:
    """`sids`: subscriptions 1 to this number exist."""
    outcome = Outcome()
    parser = reference.Parser(max_size)
    try:
        for piece in pieces:
            for frame in parser.drain(piece):
                _note(outcome, frame, sids)
    except reference.Malformed as error:
        outcome.bad = str(error)
    return outcome


def _note(outcome: Outcome, frame: reference.Frame, sids: int) -> None:
    if frame.op == "MSG":
        message = (
            frame.subject,
            frame.reply,
            frame.header,
            frame.payload,
            frame.status,
            frame.description.decode("utf-8", "replace").encode(),
        )
        if 1 <= frame.sid <= sids:
            outcome.messages.setdefault(frame.sid, []).append(message)
        else:
            outcome.unmatched += 1
    elif frame.op == "PING":
        outcome.pings += 1
    elif frame.op in ("PONG", "INFO", "-ERR"):
        outcome.events.append((frame.op, b"" if frame.op == "PONG" else frame.payload))


def by_library(pieces: Iterable[bytes], sids: int, max_size: int = reference.MAX_SIZE) -> Outcome:
    """The C library alone, called from here as the extension calls it."""
    outcome = Outcome()
    stream = library.Stream(max_size)
    for piece in pieces:
        for op, status, sid, subject, reply, header, payload in stream.feed(piece):
            if op == "MSG" and 1 <= sid <= sids:
                text = library.description(header) if status else b""
                text = text.decode("utf-8", "replace").encode()
                message = (subject, reply, header, payload, status, text)
                outcome.messages.setdefault(sid, []).append(message)
            elif op == "MSG":
                outcome.unmatched += 1
            elif op == "PING":
                outcome.pings += 1
            elif op != "+OK":
                outcome.events.append((op, b"" if op == "PONG" else payload))
        if stream.refusal:
            outcome.bad = stream.refusal
            break
    return outcome


def by_core(pieces: Iterable[bytes], sids: int, max_size: int = reference.MAX_SIZE) -> Outcome:
    outbound = Outbound()
    inbound = Inbound(outbound, max_size)
    boxes = [Mailbox() for _ in range(sids)]
    assert [inbound.add(box) for box in boxes] == list(range(1, sids + 1))
    outcome = Outcome()
    for piece in pieces:
        for kind, detail in inbound.feed(piece):
            if kind == EVENT_BAD:
                outcome.bad = BAD_KINDS[detail]
            elif kind == EVENT_PONG:
                outcome.events.append(("PONG", b""))
            else:
                outcome.events.append(({EVENT_INFO: "INFO", EVENT_ERR: "-ERR"}[kind], detail))
        if outcome.bad:
            break
    for sid, box in enumerate(boxes, 1):
        if box.pending_messages:
            outcome.messages[sid] = [_message(msg) for msg in drained(box)]
    outcome.unmatched = inbound.unmatched
    pongs = outbound.peek()
    assert pongs == b"PONG\r\n" * (len(pongs) // 6)
    outcome.pings = len(pongs) // 6
    assert inbound.messages == outcome.unmatched + sum(map(len, outcome.messages.values()))
    return outcome


def drained(box: Mailbox) -> list[Msg]:
    """Everything that waits in a mailbox."""
    found = []
    while (msg := box.get(0)) is not None:
        found.append(msg)
    return found


def _message(msg: Msg) -> Message:
    reply = b"" if msg.reply is None else raw(msg.reply)
    description = msg.description.encode()
    return (raw(msg.subject), reply, msg.raw_headers, msg.data, msg.status, description)


def raw(text: str) -> bytes:
    """The bytes as they came: what is not UTF-8 travels as surrogate escapes."""
    return text.encode("utf-8", "surrogateescape")


def split(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """Cut data at the given positions; positions outside are moved to the nearest end."""
    at = sorted({min(max(cut, 0), len(data)) for cut in cuts} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(at)]
