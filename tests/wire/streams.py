"""Hypothesis strategies: server streams, valid and hostile, and the parts they are made of."""

from __future__ import annotations

from hypothesis import strategies as st

SIDS = 4  # subscriptions 1..4 exist in the tests; others are unmatched
MAX_SIZE = 300  # small, so that sizes around it are tried

# Bytes of a subject as a server may send it: anything but blanks and line ends.
_SUBJECT_BYTE = st.integers(1, 255).filter(lambda c: c not in b" \t\r\n")
words = st.lists(_SUBJECT_BYTE, min_size=1, max_size=12).map(bytes)
subjects = st.one_of(
    st.sampled_from([b"a", b"a.b", b"$JS.ACK.S.C.1.2.3.4.5", b"_INBOX.x.1", b"INFO", b"\xff\xc3"]),
    words,
)
blanks = st.sampled_from([b" ", b"  ", b"\t", b" \t "])
payloads = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b"\r\n", b"a\r\nMSG x 1 1\r\n\r\n", b"PING\r\n", b"\r", b"\n"]),
)

_HEADER_TEXT = st.text("AbZ-: \tx\xe9\x00\r\n", max_size=8).map(
    lambda s: s.encode("utf-8", "surrogateescape")
)
header_lines = st.one_of(
    st.tuples(_HEADER_TEXT, st.sampled_from([b":", b": ", b" :", b"", b"::"]), _HEADER_TEXT).map(
        b"".join
    ),
    st.sampled_from(
        [b"A: b", b"A:c", b"a: b", b"Empty:", b":no name", b"GARBAGE", b"", b"K: \xff"]
    ),
    st.binary(max_size=10),
)
first_lines = st.sampled_from(
    [
        b"NATS/1.0",
        b"NATS/1.0 503",
        b"NATS/1.0 404 No Messages",
        b"NATS/1.0 100\tIdle Heartbeat ",
        b"NATS/1.0  409  Two  Blanks",
        b"NATS/1.0 5033",
        b"NATS/1.0 50",
        b"NATS/1.0 099",
        b"NATS/1.0503",
        b"NATS/1.0 503\rX",
        b"NATS/2.0 503",
        b"NATS/1.0 4\xb204",
        b"GARBAGE",
        b"",
    ]
)
header_blocks = st.one_of(
    st.builds(
        lambda first, lines, end: b"\r\n".join([first, *lines]) + end,
        first_lines,
        st.lists(header_lines, max_size=6),
        st.sampled_from([b"\r\n\r\n", b"\r\n", b"", b"\r"]),
    ),
    st.binary(max_size=30),
)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    subject, payload = draw(subjects), draw(payloads)
    sid = b"%d" % draw(st.sampled_from([1, 1, 1, 2, 3, 4, 5, 0, 2**64 - 1]))
    fields = [subject, sid]
    reply = draw(st.one_of(st.none(), subjects))
    if reply is not None:
        fields.append(reply)
    header = b""
    verb = b"MSG"
    if draw(st.booleans()):
        verb, header = b"HMSG", draw(header_blocks)
        fields.append(b"%d" % len(header))
    fields.append(b"%d" % (len(header) + len(payload)))
    line = verb
    for item in fields:
        line += draw(blanks) + item
    line += draw(st.sampled_from([b"", b"", b" ", b"\t"]))
    return line + b"\r\n" + header + payload + b"\r\n"


frames = st.one_of(
    messages(),
    messages(),
    st.sampled_from(
        [
            b"PING\r\n",
            b"PONG\r\n",
            b"PING \r\n",
            b"+OK\r\n",
            b"-ERR 'Unknown Protocol Operation'\r\n",
            b"-ERR\r\n",
            b'INFO {"server_id":"X","max_payload":1048576} \r\n',
            b"INFO\t{}\r\n",
        ]
    ),
)
valid_streams = st.lists(frames, max_size=8).map(b"".join)

_broken = st.sampled_from(
    [
        b"MSG\r\n",
        b"MSG a\r\n",
        b"MSG a 1\r\n",
        b"MSG a x 1\r\n",
        b"MSG a 1 b c 1\r\n",
        b"MSG a 1 -1\r\n",
        b"MSG a 1 301\r\n",
        b"MSG a 1 18446744073709551616\r\n",
        b"MSG a 1 99999999999999999999999\r\n",
        b"MSG a 18446744073709551616 1\r\nx\r\n",
        b"MSG a 1 1\r\nxy\r\n",
        b"MSG a 1 1\r\nx\n\r",
        b"HMSG a 1 5\r\nhello\r\n",
        b"HMSG a 1 6 5\r\nhello\r\n",
        b"HMSG a 1 x 5\r\nhello\r\n",
        b"HMSG a 1 b c 5 5\r\nhello\r\n",
        b"PING\n",
        b"\r\n",
        b"\n",
        b"pong\r\n",
        b"PINGS\r\n",
        b"MSGa 1 1\r\n",
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\x16\x03\x01\x02\x00",
    ]
)


@st.composite
def hostile_streams(draw: st.DrawFn) -> bytes:
    """A valid stream with broken frames in it and a few bytes changed, removed or inserted."""
    data = bytearray(b"".join(draw(st.lists(st.one_of(frames, frames, _broken), max_size=8))))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        removed = draw(st.integers(0, 2))
        data[at : at + removed] = draw(
            st.one_of(st.binary(max_size=2), st.sampled_from(b" \r\n0:").map(lambda c: bytes([c])))
        )
    return bytes(data)


cuts = st.lists(st.integers(0, 600), max_size=12)
