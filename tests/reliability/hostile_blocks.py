"""Header blocks that a publisher may send and a stream stores: none speaks for the server."""

from __future__ import annotations

import random
from dataclasses import dataclass

from jetsync.jetstream.pull.statuses import STATUSES

TEXTS = [
    (100, "Idle Heartbeat"),
    (100, "FlowControl Request"),
    (200, "OK"),
    (204, "EOB"),
    (404, "Message Not Found"),
    (409, "Consumer Deleted"),
    (413, "Too Many Results"),
    (500, "Internal"),
    (503, "No Responders"),
    (999, "Whatever Comes"),
    *((code, text.title()) for code, text, _ in STATUSES),
]

LINES = [
    b"Nats-Pending-Messages: 7",
    b"Nats-Pending-Messages: -x",
    b"Nats-Pending-Bytes: 99999999999999999999999",
    b"Nats-Last-Consumer: 1",
    b"Nats-Last-Stream: 1",
    b"Nats-Consumer-Stalled: $JS.FC.S.C.x",
    b"Nats-Num-Pending: 0",
    b"Nats-Last-Sequence: zero",
    b"Nats-UpTo-Sequence: 1",
    b"Nats-Stream: FORGED",
    b"Nats-Subject: forged",
    b"Nats-Sequence: 31337",
    b"Nats-Time-Stamp: 2026-01-01T00:00:00Z",
    b"Nats-Pin-Id: ",
    b"Status: 503",
    b"A: b",
    b": empty name",
    b"no colon",
    b"\xff\xfe: \x80",
    b"A: " + b"x" * 300,
]

ENDS = [b"", b"\r", b"\n", b"\r\n", b"\r\n\r", b"\r\n\r\n", b"\r\n\r\n\r\n"]
PAYLOADS = [b"", b"", b"p", b"payload " * 8]
SEED = 14


@dataclass(frozen=True)
class Block:
    header: bytes
    payload: bytes

    def frame(self, subject: str, payload: bytes | None = None) -> bytes:
        """The line of a client that publishes it."""
        body = self.payload if payload is None else payload
        sizes = b"%d %d" % (len(self.header), len(self.header) + len(body))
        return b"HPUB %s %s\r\n%s%s\r\n" % (subject.encode(), sizes, self.header, body)


def _first_lines() -> list[bytes]:
    """Every status that the library knows, alone and with what may stand behind it."""
    found = [
        b"NATS/1.0",
        b"NATS/1.0 ",
        b"nats/1.0 503",
        b"NATS/2.0 409 Consumer Deleted",
        b"garbage",
    ]
    for code, text in TEXTS:
        found += [b"NATS/1.0 %d %s" % (code, text.encode()), b"NATS/1.0 %d" % code]
        found += [b"NATS/1.0\t%d  %s " % (code, text.lower().encode())]
    return found


def corpus(every: int = 1) -> list[Block]:
    """More than 2,000 blocks, always the same; ``every`` takes only each so many-th.

    None is a single byte: nats-server 2.15.1 itself panics when a consumer that asks for headers
    only reaches such a block.
    """
    dice = random.Random(SEED)
    blocks = []
    for first in _first_lines():
        for end in ENDS:
            for payload in (b"", dice.choice(PAYLOADS[2:])):
                blocks.append(Block(first + end, payload))
    ends = b"\r\n".join([b"NATS/1.0 404 No Messages", *LINES[9:13], b"", b""])
    whole = [b"NATS/1.0 409 Consumer Deleted\r\nA: b\r\n\r\n", ends]
    for block in whole:
        blocks += [Block(block[:n], dice.choice(PAYLOADS)) for n in range(2, len(block))]
    while len(blocks) < 2600:
        lines = [dice.choice(LINES) for _ in range(dice.randrange(6))]
        first = dice.choice([b"NATS/1.0", dice.choice(_first_lines()), dice.randbytes(9)])
        header = b"\r\n".join([first, *lines]) + dice.choice(ENDS)
        if dice.random() < 0.3:
            cut = dice.randrange(2, len(header) + 1)
            header = header[:cut]
        if dice.random() < 0.3:
            at = dice.randrange(len(header))
            header = header[:at] + dice.randbytes(1) + header[at + 1 :]
        blocks.append(Block(header, dice.choice(PAYLOADS)))
    return blocks[::every]
