"""The NATS wire in plain Python, written to be read: parser, encoder, headers, acknowledgements.

The compiled core has to agree with this file byte for byte. It is slow on purpose: nothing is
kept between calls but the bytes that did not make a whole frame yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_LINE = 65535  # longest line from a server, its CR included, its LF not
MAX_INFO = 1 << 20  # INFO may grow with the cluster
MAX_SIZE = 64 << 20  # largest message taken from a server
MAX_CONTROL_LINE = 4096  # longest line a server takes from a client, without CRLF
MAX_U64 = 2**64 - 1

BLANKS = b" \t"


class Malformed(Exception):
    """The peer broke the protocol. The text is the kind: op, args, size, line or crlf."""


class Invalid(Exception):
    """Bytes that must not be sent. The text is the kind: subject, header or line."""


class NotAnAck(Exception):
    """A reply subject that is not an acknowledgement subject."""


# -- from the server -----------------------------------------------------------------------------


# How the block of a message ends that a direct get brought.
_READ = re.compile(
    rb"Nats-Stream: [^ \r\n]*\r\nNats-Subject: [^\r\n]*\r\nNats-Sequence: \d+\r\n"
    rb"Nats-Time-Stamp: \d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([zZ]|[+-]\d\d:\d\d)\r\n"
    rb"(Nats-Num-Pending: \d+\r\n)?(Nats-Last-Sequence: \d+\r\n)?(Nats-UpTo-Sequence: \d+\r\n)?"
    rb"\r\n\Z"
)


@dataclass(frozen=True)
class Frame:
    """One line of the server, with the payload that follows it."""

    op: str  # MSG (HMSG too), PING, PONG, +OK, -ERR, INFO
    subject: bytes = b""
    sid: int = 0
    reply: bytes = b""
    header: bytes = b""  # the whole block with its blank line
    payload: bytes = b""  # INFO and -ERR: the text of the line

    @property
    def status(self) -> int:
        """0 for whatever has a payload or comes from a stream, whatever its block begins with."""
        delivered = self.reply.startswith(b"$JS.ACK.") and len(self.reply) > len(b"$JS.ACK.")
        if self.payload or delivered or _READ.search(self.header):
            return 0
        return header_status(self.header)

    @property
    def description(self) -> bytes:
        return header_description(self.header) if self.status else b""


class Parser:
    """Bytes in, frames out, in whatever pieces the bytes come."""

    def __init__(self, max_size: int = MAX_SIZE) -> None:
        self.max_size = max_size
        self.left = b""

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that are whole by now. Raises Malformed for good: see `drain`."""
        return list(self.drain(data))

    def drain(self, data: bytes) -> Iterator[Frame]:
        self.left += data
        while (taken := take_frame(self.left, self.max_size)) is not None:
            frame, length = taken
            self.left = self.left[length:]
            yield frame


def take_frame(data: bytes, max_size: int) -> tuple[Frame, int] | None:
    """Cut the first frame off: (frame, its length), or None while it is not whole."""
    end = data.find(b"\n")
    seen = len(data) if end < 0 else end
    if seen > (MAX_INFO if data[:1] == b"I" else MAX_LINE):
        raise Malformed("line")
    if end < 0:
        return None
    if data[end - 1 : end] != b"\r":
        raise Malformed("line")
    line, length = data[: end - 1], end + 1

    verb, rest = line, b""
    for blank in BLANKS:
        head, _, tail = line.partition(bytes([blank]))
        if len(head) < len(verb):
            verb, rest = head, tail
    if verb in (b"PING", b"PONG", b"+OK", b"-ERR", b"INFO"):
        return Frame(verb.decode(), payload=rest.strip(BLANKS)), length
    if verb in (b"MSG", b"HMSG"):
        return take_message(verb == b"HMSG", rest, data, length, max_size)
    raise Malformed("op")


def take_message(
    has_header: bool, rest: bytes, data: bytes, at: int, max_size: int
) -> tuple[Frame, int] | None:
    """MSG <subject> <sid> [reply] <size>, HMSG <subject> <sid> [reply] <header size> <size>.

    Any run of blanks separates two fields: servers write two where an absent reply would be.
    """
    fields = rest.replace(b"\t", b" ").split(b" ")
    fields = [field for field in fields if field]
    sizes = 2 if has_header else 1
    if len(fields) - sizes not in (2, 3):
        raise Malformed("args")
    subject, sid = fields[0], read_u64(fields[1])
    if sid is None:
        raise Malformed("args")
    reply = fields[2] if len(fields) - sizes == 3 else b""
    total = read_u64(fields[-1])
    if total is None or total > max_size:
        raise Malformed("size")
    header_size = read_u64(fields[-2]) if has_header else 0
    if header_size is None or header_size > total:
        raise Malformed("size")
    end = at + total
    if len(data) < end + 2:
        return None
    if data[end : end + 2] != b"\r\n":
        raise Malformed("crlf")
    header, payload = data[at : at + header_size], data[at + header_size : end]
    return Frame("MSG", subject, sid, reply, header, payload), end + 2


def read_u64(digits: bytes) -> int | None:
    """A decimal without sign, of at most 20 digits and 64 bits."""
    if not 1 <= len(digits) <= 20 or any(c not in b"0123456789" for c in digits):
        return None
    return value if (value := int(digits)) <= MAX_U64 else None


# -- headers -------------------------------------------------------------------------------------


def header_status(block: bytes) -> int:
    """The three digits after the version, 0 without them: "NATS/1.0 503" is all a server sends."""
    line = block.split(b"\r", 1)[0]
    if line[:8] != b"NATS/1.0" or line[8:9] not in (b" ", b"\t"):
        return 0
    text = line[8:].strip(BLANKS).replace(b"\t", b" ").split(b" ")[0]
    value = read_u64(text) if len(text) == 3 else None
    return value if value is not None and value >= 100 else 0


def header_description(block: bytes) -> bytes:
    """What follows the status on the first line."""
    if not header_status(block):
        return b""
    text = block.split(b"\r\n", 1)[0][8:].strip(BLANKS)
    status = text.replace(b"\t", b" ").split(b" ")[0]
    return text[len(status) :].strip(BLANKS)


def header_lines(block: bytes) -> tuple[list[tuple[bytes, bytes]], int]:
    """Every (name, value) in order, and how many lines were neither. Reading never fails."""
    lines = block.split(b"\r\n")
    if block.startswith(b"NATS/1.0"):
        lines = lines[1:]
    found, malformed = [], 0
    for line in lines:
        name, colon, value = line.partition(b":")
        if colon and name:
            found.append((name, value.strip(BLANKS)))
        elif line:
            malformed += 1
    return found, malformed


def header_columns(block: bytes) -> list[tuple[bytes, list[bytes]]]:
    """Names in the order they first occur, each with all of its values: a row of the map column."""
    gathered: dict[bytes, list[bytes]] = {}
    for name, value in header_lines(block)[0]:
        gathered.setdefault(name, []).append(value)
    return list(gathered.items())


def lossy(raw: bytes) -> str:
    """Text for a column: every byte that is no part of valid UTF-8 becomes one U+FFFD."""
    out = []
    for c in raw.decode("utf-8", "surrogateescape"):
        out.append("\ufffd" if "\udc80" <= c <= "\udcff" else c)
    return "".join(out)


# -- to the server -------------------------------------------------------------------------------


def check_safe(token: bytes) -> None:
    """No byte may break the framing of a line."""
    if not token or any(c <= 0x20 or c == 0x7F for c in token):
        raise Invalid("subject")


def check_publishable(subject: bytes) -> None:
    """A publish has no wildcards: for the server they are letters, which match no subscription."""
    check_safe(subject)
    if any(token in (b"*", b">") for token in subject.split(b".")):
        raise Invalid("subject")


def check_subscribable(subject: bytes) -> None:
    """A subscription has no empty token, and ">" only at the end."""
    check_safe(subject)
    tokens = subject.split(b".")
    if b"" in tokens or b">" in tokens[:-1]:
        raise Invalid("subject")


def control_line(*fields: bytes | int) -> bytes:
    line = b" ".join(f if isinstance(f, bytes) else b"%d" % f for f in fields if f != b"")
    if len(line) > MAX_CONTROL_LINE:
        raise Invalid("line")
    return line + b"\r\n"


def encode_pub(subject: bytes, reply: bytes, header: bytes, payload: bytes) -> bytes:
    check_publishable(subject)
    if reply:
        check_publishable(reply)
    return _message(subject, reply, header, payload)


def encode_answer(subject: bytes, reply: bytes, payload: bytes) -> bytes:
    """To a reply subject that came from the server: it may hold anything that frames well."""
    check_safe(subject)
    if reply:
        check_safe(reply)
    return _message(subject, reply, b"", payload)


def _message(subject: bytes, reply: bytes, header: bytes, payload: bytes) -> bytes:
    total = len(header) + len(payload)
    if header:
        line = control_line(b"HPUB", subject, reply, len(header), total)
    else:
        line = control_line(b"PUB", subject, reply, total)
    return line + header + payload + b"\r\n"


def encode_sub(subject: bytes, queue: bytes, sid: int) -> bytes:
    check_subscribable(subject)
    if queue:
        check_safe(queue)
    return control_line(b"SUB", subject, queue, sid)


def encode_unsub(sid: int, max_messages: int = 0) -> bytes:
    return control_line(b"UNSUB", sid, max_messages or b"")


def encode_header_block(lines: list[tuple[bytes, bytes]]) -> bytes:
    """A name is visible ASCII without colon, a value has no CR, LF or NUL."""
    block = b"NATS/1.0\r\n"
    for name, value in lines:
        if not name or any(not 0x20 < c < 0x7F or c == ord(":") for c in name):
            raise Invalid("header")
        if any(c in b"\r\n\0" for c in value):
            raise Invalid("header")
        block += name + b": " + value + b"\r\n"
    return block + b"\r\n"


@dataclass(frozen=True)
class Sent:
    """One line of a client as a server reads it, with the payload that follows it."""

    verb: bytes
    fields: tuple[bytes, ...]  # without sizes
    header: bytes = b""
    payload: bytes = b""


def read_sent(data: bytes) -> list[Sent]:
    """Everything in `data`, read as liberally as a server does: any run of blanks separates, LF
    alone ends a line. Whatever broke framing shows. Raises Malformed for what no server takes."""
    found = []
    while data:
        line, ended, data = data.partition(b"\n")
        if not ended:
            raise Malformed("line")
        words = [w for w in line.rstrip(b"\r").replace(b"\t", b" ").split(b" ") if w]
        if not words:
            raise Malformed("op")
        verb, *fields = words
        header = payload = b""
        if verb in (b"PUB", b"HPUB"):
            total = read_u64(fields.pop())
            header_size = read_u64(fields.pop()) if verb == b"HPUB" else 0
            if total is None or header_size is None or header_size > total:
                raise Malformed("size")
            header, payload = data[:header_size], data[header_size:total]
            if data[total : total + 2] != b"\r\n":
                raise Malformed("crlf")
            data = data[total + 2 :]
        found.append(Sent(verb, tuple(fields), header, payload))
    return found


# -- acknowledgement subjects (ADR-15) -----------------------------------------------------------

JsAck = tuple[bytes, bytes, bytes, bytes, int, int, int, int, int]


def parse_jsack(reply: bytes) -> JsAck:
    """(domain, account hash, stream, consumer, delivered, stream seq, consumer seq, ns, pending).

    Nine tokens are the old form; eleven or more the new one, where "_" stands for no domain and
    whatever follows the eleventh token is ignored.
    """
    tokens = reply.split(b".")
    if tokens[:2] != [b"$JS", b"ACK"] or b"" in tokens:
        raise NotAnAck
    domain = account = b""
    if len(tokens) >= 11:
        domain, account = tokens[2:4]
        domain = b"" if domain == b"_" else domain
        tokens = tokens[4:11]
    elif len(tokens) == 9:
        tokens = tokens[2:]
    else:
        raise NotAnAck
    numbers = [read_u64(token) for token in tokens[2:]]
    if None in numbers or numbers[3] > 2**63 - 1:  # type: ignore[operator]
        raise NotAnAck
    return (domain, account, tokens[0], tokens[1], *numbers)  # type: ignore[return-value]
