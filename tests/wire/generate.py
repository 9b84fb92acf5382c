"""Random server streams and user input by the hundred thousand, each made from its number alone.

The strategies of streams.py find small counterexamples; this finds out whether there are any.
"""

from __future__ import annotations

import random

from tests.wire.streams import MAX_SIZE

SEED = 2026
SUBJECTS = (b"a", b"a.b", b"$JS.ACK.S.C.1.2.3.4.5", b"_INBOX.x.1", b"INFO", b"\xff\xc3", b"PING")
BLANKS = (b" ", b" ", b" ", b"  ", b"\t", b" \t ")
PAYLOADS = (b"", b"x", b"hello", b"\r\n", b"a\r\nMSG x 1 1\r\n\r\n", b"PING\r\n", b"\r", b"\n")
FIRST_LINES = (
    b"NATS/1.0",
    b"NATS/1.0",
    b"NATS/1.0 503",
    b"NATS/1.0 404 No Messages",
    b"NATS/1.0 100\tIdle ",
    b"NATS/1.0 5033",
    b"NATS/1.0 50",
    b"NATS/1.0503",
    b"NATS/1.0 503\rX",
    b"NATS/2.0 503",
    b"GARBAGE",
    b"",
)
HEADER_LINES = (b"A: b", b"A:c", b"a:  b ", b"E:", b":no", b"GARBAGE", b"", b"K: \xff", b"A: \rb")
SIMPLE = (
    b"PING\r\n",
    b"PONG\r\n",
    b"+OK\r\n",
    b"-ERR 'Stale Connection'\r\n",
    b"-ERR\r\n",
    b'INFO {"server_id":"X"} \r\n',
    b"INFO\t{}\r\n",
)
BROKEN = (
    b"MSG\r\n",
    b"MSG a 1\r\n",
    b"MSG a x 1\r\n",
    b"MSG a 1 b c 1\r\n",
    b"MSG a 1 -1\r\n",
    b"MSG a 1 %d\r\n" % (MAX_SIZE + 1),
    b"MSG a 1 18446744073709551616\r\n",
    b"MSG a 18446744073709551616 1\r\nx\r\n",
    b"MSG a 1 1\r\nxy\r\n",
    b"HMSG a 1 6 5\r\nhello\r\n",
    b"HMSG a 1 b c 5 5\r\nhello\r\n",
    b"PING\n",
    b"\r\n",
    b"\n",
    b"pong\r\n",
    b"PINGS\r\n",
    b"HTTP/1.1 400 Bad Request\r\n",
    b"\x16\x03\x01\x02\x00",
)
NOISE = b" \t\r\n0123456789:.\x00\xffAMSGH"


def of(number: int) -> random.Random:
    """The source of everything in one case."""
    return random.Random(SEED * 1_000_003 + number)


def message(r: random.Random) -> bytes:
    payload = r.choice(PAYLOADS) if r.random() < 0.8 else r.randbytes(r.randrange(40))
    fields = [r.choice(SUBJECTS), b"%d" % r.choice((1, 1, 1, 2, 3, 4, 5, 0, 2**64 - 1))]
    if r.random() < 0.5:
        fields.append(r.choice(SUBJECTS))
    header, verb = b"", b"MSG"
    if r.random() < 0.5:
        verb = b"HMSG"
        lines = r.choices(HEADER_LINES, k=r.randrange(4))
        header = b"\r\n".join([r.choice(FIRST_LINES), *lines])
        header += r.choice((b"\r\n\r\n", b"\r\n\r\n", b"\r\n", b"", b"\r"))
        fields.append(b"%d" % len(header))
    fields.append(b"%d" % (len(header) + len(payload)))
    line = verb + b"".join(r.choice(BLANKS) + field for field in fields)
    return line + r.choice((b"", b"", b" ")) + b"\r\n" + header + payload + b"\r\n"


def frame(r: random.Random) -> bytes:
    return message(r) if r.random() < 0.75 else r.choice(SIMPLE)


def valid(r: random.Random, most: int = 6) -> bytes:
    """What a server may send."""
    return b"".join(frame(r) for _ in range(r.randint(1, most)))


def hostile(r: random.Random, most: int = 6) -> bytes:
    """The same with broken frames in it, and a few bytes changed, removed or inserted."""
    parts = [r.choice(BROKEN) if r.random() < 0.15 else frame(r) for _ in range(r.randint(1, most))]
    data = bytearray(b"".join(parts))
    for _ in range(r.randrange(4)):
        at = r.randrange(len(data) + 1)
        data[at : at + r.randrange(3)] = bytes(r.choices(NOISE, k=r.randrange(3)))
    return bytes(data)


def stream(r: random.Random) -> bytes:
    """Valid, hostile or no NATS at all."""
    kind = r.random()
    if kind < 0.3:
        return valid(r)
    return hostile(r) if kind < 0.95 else r.randbytes(r.randrange(60))


def pieces(r: random.Random, data: bytes) -> list[bytes]:
    """Data in a few pieces, or byte by byte."""
    if r.random() < 0.1:
        return [data[i : i + 1] for i in range(len(data))]
    cuts = sorted(r.randrange(len(data) + 1) for _ in range(r.randrange(4)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


# -- what a user, or a web form of a user's program, passes to publishing calls -------------------

INJECTED = (
    "\r\n",
    "\n",
    "\r",
    " ",
    "\t",
    "\0",
    "\x7f",
    "\x0b",
    "\x0c",
    "\x1b",
    "\u0085",
    "\u2028",
    "\u00a0",
    "\ud800",
    "\r\nPUB x 0\r\n\r\n",
    "\r\nPING\r\n",
    " 0\r\n\r\nSUB > 9\r\n",
    "\r\nNats-Rollup: all",
    "\r\n\r\n",
    ": ",
    ":",
    "*",
    ">",
    ".",
    "..",
    "%0d%0a",
    "\\r\\n",
    "é",
    "\u0100\u010d\u010a",
    "😀",
)
PLAIN = ("a", "orders", "a.b", "Nats-Msg-Id", "_INBOX.x", "$JS.ACK.S.C.1.2.3.4.5", "7", "")
LONG = ("s" * 4085, "s" * 4096, "s" * 70000)


def text(r: random.Random) -> str:
    """Something a user might pass: nearly always with a byte that must not reach a line."""
    if r.random() < 0.002:
        return r.choice(LONG) + r.choice(INJECTED)
    parts = [r.choice(PLAIN)]
    for _ in range(r.choice((0, 1, 1, 1, 2, 3))):
        parts.append(r.choice(INJECTED) if r.random() < 0.8 else chr(r.randrange(0x250)))
        parts.append(r.choice(PLAIN))
    if r.random() < 0.5:
        r.shuffle(parts)
    return "".join(parts)
