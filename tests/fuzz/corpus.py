"""What fuzzing starts from: captured frames and test vectors, cut into what each target reads."""

from __future__ import annotations

from collections.abc import Callable

from tests.harness import websockets
from tests.harness.websockets import CLOSE, PING, PONG
from tests.wire import golden, reference, tables, vectors


def streams() -> list[bytes]:
    """What servers send: single frames, a few in a row, and broken ones."""
    captured = [sample.data for sample in golden.samples()]
    rows = [b"".join(captured[at : at + 4]) for at in range(0, len(captured), 4)]
    return captured + rows + [vector.data for vector in vectors.load()]


def frames() -> list[reference.Frame]:
    found = []
    for data in streams():
        parser = reference.Parser()
        try:
            found += parser.feed(data)
        except reference.Malformed:
            continue
    return found


def headers() -> list[bytes]:
    ends = [b"", b" ", b" 5", b" 50", b" 503", b" 503x", b" 503\rx", b" 0x1", b"\t404\t\tText \r\n"]
    odd = [b"A\x7f: b", b"A B: c", b"\xe9: d", b"A: \0", b"A: a\nb", b"A: a\rb", b":", b"::", b"\r"]
    found = [b"NATS/1.0" + end for end in ends] + [b"NATS/1.0\r\n" + line for line in odd]
    return found + [frame.header for frame in frames() if frame.header]


def replies() -> list[bytes]:
    return [case.text for case in tables.jsacks()] + [f.reply for f in frames() if f.reply]


def answers() -> list[bytes]:
    found = [case.text for case in tables.pubacks()]
    return found + [f.payload for f in frames() if f.payload[:1] == b"{"]


def texts() -> list[bytes]:
    bad = b"\xff \xc3\x28 \xe2\x82 \xed\xa0\x80 \xf4\x90\x80\x80 \xc0\xaf"
    good = b"\xf0\x9f\x98\x80 \xe2\x82\xac \xc3\xa9 \x7f"
    return [
        bad,
        good,
        *bad.split(b" "),
        *good.split(b" "),
        *(frame.subject for frame in frames()),
        *headers(),
    ]


def sendings() -> list[bytes]:
    """What to encode, two lengths, and the parts; as the target cuts them."""
    found = []
    for number, frame in enumerate(frames()):
        first, second, third = frame.subject[:250], frame.reply[:255], frame.payload
        if number % 5 == 1:
            third = frame.header
        found.append(bytes([number % 5, len(first), len(second)]) + first + second + third)
    for case in tables.encodings():
        if case.verb in ("pub", "sub") and len(case.subject) <= 250 and len(case.second) <= 255:
            what = 3 if case.verb == "sub" else 1 if case.header else 0
            sizes = bytes([what, len(case.subject), len(case.second)])
            found.append(sizes + case.subject + case.second + (case.header or case.payload))
    for size in range(0, 300, 7):  # lines about as long as a line may be
        found += [bytes([what, 255, 9]) + b"q" * size for what in range(4)]
    return found


def calls() -> list[bytes]:
    """Orders of calls: fill and take in turns, fill all and take all, with small and large."""
    put, take, move, drop = 0, 2, 4, 5
    return [
        bytes([put, 9, move, 0, take, 0] * 20),
        bytes([put, 200] * 40 + [move, 0] + [take, 0] * 40),
        bytes([250, 255] * 10 + [put, 3] * 10 + [move, 0] + [take, 0] * 30),
        bytes([put, 7] * 5 + [drop, 1] + [put, 8] * 5 + [3, 0] * 6),
        bytes(range(256)),
    ]


def waiting() -> list[bytes]:
    """A limit, then frames of every kind, some on either side of it."""
    every = bytes(
        value for size in (0, 7, 49, 50, 51, 255) for kind in range(7) for value in (kind, size)
    )
    return [bytes([limit]) + every for limit in (0, 50, 255)] + [b"\0", bytes([9, 5, 0, 6, 0])]


def stored() -> list[bytes]:
    """Header blocks of stored messages and of others, and times."""
    lines = [
        b"Nats-Stream: S",
        b"Nats-Subject: a.b",
        b"Nats-Sequence: 18446744073709551615",
        b"Nats-Time-Stamp: 2026-11-21T02:53:06.547204964Z",
        b"Nats-Num-Pending: 3",
        b"Nats-Last-Sequence: 9",
        b"Nats-UpTo-Sequence: 9",
    ]
    fronts = [b"NATS/1.0", b"NATS/1.0 404 None", b"NATS/1.0\r\nNats-Sequence: 1\r\nA: b", b""]
    blocks = [
        b"\r\n".join([front, *lines[first:last], b"", b""])
        for front in fronts
        for first, last in ((0, 4), (0, 6), (0, 7), (1, 7), (0, 3), (2, 4), (0, 5))
    ]
    times = [
        b"2000-02-29T23:59:59Z",
        b"1969-12-31T23:59:59.000000001z",
        b"2261-12-31t00:00:00.123-99:59",
        b"1678-01-01T00:00:00+23:30",
        b"2100-02-29T00:00:00Z",
        b"2026-11-21T02:53:06.Z",
        b"2026-11-21T02:53:60Z",
        b"0001-01-01T00:00:00Z",
    ]
    return blocks + times + headers()


def answered() -> list[bytes]:
    """Streams, and answers to direct gets."""
    return streams() + [
        b"HMSG _INBOX.a 1 %d %d\r\n%s\r\n" % (len(block), len(block), block)
        for block in stored()
        if block.endswith(b"\r\n\r\n")
    ]


def tokens() -> list[bytes]:
    """A key, a number, which byte to change, and tokens: good, long and cut ones."""
    found = []
    for number in (0, 1, 16777217, 2**64 - 1):
        texts = [b"%d_%s" % (number, b"0123456789abcdef"), b"%d_-7" % number, b"0%d_" % number]
        front = bytes(range(16)) + number.to_bytes(8, "little") + bytes([number % 251])
        found += [front + text for text in texts]
    # The token of the number 7 under the key 0 to 15.
    return [*found, bytes(range(16)) + bytes(9) + b"7_6402f5e4f7829905-9"]


def framed() -> list[bytes]:
    """Whether compression was agreed on, then frames: of all lengths, in pieces, broken."""
    frame = websockets.frame
    texts = [frame(b"x" * n) for n in (0, 1, 125, 126, 127, 65535, 65536)]
    pings = [frame(b"hi", PING), frame(b"", PONG), frame(b"\x03\xe9bye", CLOSE)]
    split = frame(b"PI", final=False) + pings[0] + frame(b"NG\r\n", 0)
    packed = frame(b"\x0b\xf0\xf3\xe7\xe5\x02\x00", bits=0x40)
    broken = [
        *(frame(b"x", bits=bits) for bits in (0x20, 0x10, 0x70)),
        *(frame(b"x", op) for op in (0, 1, 3, 7, 11, 15)),
        frame(b"x" * 126, PING),
        frame(b"", PING, final=False),
        *(frame(code, CLOSE) for code in (b"\x03", b"\x03\xed", b"\x03\xe7")),
        b"\x82\x81abcd",
        b"\x82\x7e\x00\x01x",
        b"\x82\x7f" + b"\xff" * 8,
    ]
    ways = [*texts, *pings, split, packed, *broken, split + packed + pings[2], b""]
    return [bytes([deflate]) + way for deflate in (0, 1) for way in ways]


TARGETS: dict[str, Callable[[], list[bytes]]] = {
    "parser": streams,
    "header": headers,
    "stored": stored,
    "token": tokens,
    "jsack": replies,
    "puback": answers,
    "utf8": texts,
    "digest": texts,
    "columns": answered,
    "encode": sendings,
    "queues": calls,
    "sift": waiting,
    "websocket": framed,
}
"""The name of each target's C file, and its seeds."""


def seeds(target: str, longest: int = 1 << 30) -> list[bytes]:
    return sorted({seed for seed in TARGETS[target]() if len(seed) <= longest})
