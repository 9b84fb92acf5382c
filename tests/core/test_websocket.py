"""WebSocket frames as a filter: cut anywhere, compressed or not, and hostile ones."""

from __future__ import annotations

import random
import zlib

import pytest

from jetsync._core.websocket import WebSocket
from jetsync.errors import ProtocolError
from tests.harness.websockets import BINARY, CLOSE, PING, PONG, TEXT, frame

RSV1, RSV2, RSV3 = 0x40, 0x20, 0x10


def packed(data: bytes, level: int = 6) -> bytes:
    """One compressed message as RFC 7692 has it."""
    packer = zlib.compressobj(level, zlib.DEFLATED, -15)
    return (packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]


def decoded(ws, *pieces):
    plain = b""
    for piece in pieces:
        plain += b"".join(ws.decode(piece))
        while ws.more:
            plain += b"".join(ws.decode(b""))
    return plain


def frames(data: bytes):
    """Take the frames of a client apart: first byte and plain payload of each."""
    found = []
    while data:
        first, size, at = data[0], data[1] & 0x7F, 2
        assert data[1] & 0x80, "a client masks"
        if size > 125:
            at += 2 if size == 126 else 8
            size = int.from_bytes(data[2:at], "big")
        key, body = data[at : at + 4], data[at + 4 : at + 4 + size]
        found.append((first, bytes(b ^ key[i & 3] for i, b in enumerate(body))))
        data = data[at + 4 + size :]
    return found


PLAIN = b"MSG a 1 300\r\n" + bytes(range(256)) + b"x" * 44 + b"\r\nPING\r\n"


@pytest.mark.parametrize("deflate", [False, True])
def test_a_link_may_be_cut_anywhere_by_frames_and_by_the_network(deflate):
    rng = random.Random(4)
    for _ in range(60):
        message = packed(PLAIN) if deflate else PLAIN
        cuts = sorted(rng.randrange(len(message) + 1) for _ in range(3))
        parts = [message[a:b] for a, b in zip([0, *cuts], [*cuts, len(message)], strict=True)]
        data = b""
        for number, part in enumerate(parts):
            data += frame(
                part,
                0 if number else BINARY,
                final=number == len(parts) - 1,
                bits=RSV1 if deflate and not number else 0,
            )
            data += frame(b"%d" % number, rng.choice([PING, PONG]))
        data += frame(b"+OK\r\n")  # without compression, on either kind of link
        at = sorted(rng.randrange(len(data)) for _ in range(rng.randrange(8)))
        pieces = [data[a:b] for a, b in zip([0, *at], [*at, len(data)], strict=True)]
        assert decoded(WebSocket(deflate), *pieces) == PLAIN + b"+OK\r\n"
    ws = WebSocket(deflate)
    assert decoded(ws, *(data[n : n + 1] for n in range(len(data)))) == PLAIN + b"+OK\r\n"


@pytest.mark.parametrize("size", [0, 1, 3, 31, 32, 33, 125, 126, 65535, 65536, 300_001])
def test_what_leaves_is_one_masked_frame_of_the_shortest_form(size):
    data = random.Random(size).randbytes(size)
    sent = WebSocket().encode(data)
    assert frames(sent) == ([(0x82, data)] if size else [])
    assert len(sent) in (size, size + 6, size + 8, size + 14)


def test_no_two_frames_have_the_same_mask():
    ws, other = WebSocket(), WebSocket()
    keys = {one.encode(b"x")[2:6] for one in (ws, other) for _ in range(500)}
    assert len(keys) > 990


def test_compressed_messages_hold_no_more_than_the_server_inflates():
    ws = WebSocket(True)
    ws.most = 1000
    data = b"abc" * 2000
    got = [
        (first, zlib.decompressobj(-15).decompress(body + b"\0\0\xff\xff"))
        for first, body in frames(ws.encode(data))
    ]
    assert [first for first, _ in got] == [0xC2] * 6
    assert b"".join(body for _, body in got) == data
    noise = random.Random(1).randbytes(500)
    assert frames(ws.encode(noise)) == [(0x82, noise)], "what does not get shorter goes as it is"
    assert frames(ws.encode(b"PING\r\n")) == [(0x82, b"PING\r\n")]


def test_a_compressed_message_is_as_short_as_it_can_be():
    """It leaves out the end that all have (RFC 7692, section 7.2.1); little is not compressed."""
    ws = WebSocket(True)
    ((first, body),) = frames(ws.encode(b"a" * 64))
    assert first == 0xC2
    assert not body.endswith(b"\0\0\xff\xff")
    assert frames(ws.encode(b"a" * 63)) == [(0x82, b"a" * 63)]


def test_a_ping_is_answered_with_what_leaves_next():
    for deflate in (False, True):
        ws = WebSocket(deflate)
        assert not ws.owes
        assert decoded(ws, frame(b"one", PING) + frame(b"two", PING)) == b""
        assert ws.owes
        assert frames(ws.encode(b"+OK\r\n")) == [(0x8A, b"two"), (0x82, b"+OK\r\n")]
        assert not ws.owes
        assert not ws.ended


@pytest.mark.parametrize("deflate", [False, True])
def test_a_close_frame_is_answered_and_nothing_follows(deflate):
    ws = WebSocket(deflate)
    data = (
        frame(b"-ERR 'x'\r\n") + frame(b"\x03\xe9going \xff", CLOSE) + frame(b"more") + b"\xff\xff"
    )
    assert ws.goodbye is None
    assert decoded(ws, data, b"more") == b"-ERR 'x'\r\n"
    assert ws.goodbye == "1001 going \ufffd"
    assert ws.owes
    assert frames(ws.encode(b"PUB")) == [(0x88, b"\x03\xe9")]
    assert ws.ended
    with pytest.raises(ConnectionResetError):
        ws.encode(b"PUB")


@pytest.mark.parametrize(
    ("payload", "goodbye"), [(b"", "1005"), (b"\x03\xe8", "1000"), (b"\x03\xe8 ", "1000")]
)
def test_a_close_frame_without_a_reason_has_a_code(payload, goodbye):
    ws = WebSocket()
    decoded(ws, frame(payload, CLOSE))
    assert ws.goodbye == goodbye


BAD = {
    "reserved": [frame(b"x", bits=RSV2), frame(b"x", bits=RSV3), frame(b"x", PING, bits=RSV1)],
    "kind": [frame(b"x", TEXT), frame(b"x", 3), frame(b"x", 15)],
    "masked": [b"\x82\x81abcdx"],
    "control": [frame(b"x", PING, final=False), frame(b"x" * 126, CLOSE), b"\x89\x7f" + b"\0" * 8],
    "order": [frame(b"x", 0), frame(b"x", final=False) + frame(b"x")],
    "length": [
        b"\x82\x7e\0\x05hello",
        b"\x82\x7f" + b"\xff" * 8,
        b"\x82\x7f" + b"\0" * 6 + b"\xff\xff",
    ],
    "code": [frame(b"\x03", CLOSE), frame(b"\x03\xee", CLOSE), frame(b"\x13\x88", CLOSE)],
}


@pytest.mark.parametrize(("word", "data"), [(w, d) for w, all_ in BAD.items() for d in all_])
def test_what_no_server_may_send_is_refused_by_name(word, data):
    for deflate in (False, True):
        ws = WebSocket(deflate)
        with pytest.raises(ProtocolError, match=word):
            decoded(ws, *(data[n : n + 1] for n in range(len(data))))


def test_compression_that_was_not_agreed_on_is_refused():
    with pytest.raises(ProtocolError, match="reserved"):
        WebSocket(False).decode(frame(packed(b"x"), bits=RSV1))
    with pytest.raises(ProtocolError, match="inflated"):
        WebSocket(True).decode(frame(b"\xff\xff\xff", bits=RSV1))


def test_a_message_that_inflates_to_very_much_comes_in_parts():
    """A few bytes must not become gigabytes before the link is parsed."""
    ws = WebSocket(True)
    bomb = frame(packed(b"\0" * (64 << 20), 9), bits=RSV1)
    assert len(bomb) < 80_000
    size = len(b"".join(ws.decode(bomb)))
    total = size
    while ws.more:
        part = len(b"".join(ws.decode(b"")))
        size, total = max(size, part), total + part
    assert size <= 4 << 20
    assert total == 64 << 20


def test_much_that_is_not_compressed_comes_in_parts_too():
    ws = WebSocket(True)
    assert len(b"".join(ws.decode(frame(bytes(1 << 20)) * 8))) == 4 << 20
    assert ws.more
    assert decoded(ws, b"") == bytes(4 << 20)


def held_back(room: int) -> tuple[int, bytes, bytes]:
    """A message in two parts: from the first, an inflater gives `room` bytes, wants no more, and
    has some left all the same. Its size comes first."""
    for size in range(room + 1, room + 260):
        message = packed(bytes(size), 9)
        for cut in range(len(message) - 6, len(message)):
            inflater = zlib.decompressobj(-15)
            inflater.decompress(message[:cut], room)
            if not inflater.unconsumed_tail and inflater.decompress(b""):
                return size, message[:cut], message[cut:]
    raise AssertionError("no message is like that")


def test_what_the_inflater_holds_back_is_not_forgotten():
    size, first, second = held_back(4 << 20)
    ws = WebSocket(True)
    assert len(b"".join(ws.decode(frame(first, final=False, bits=RSV1)))) == 4 << 20
    assert ws.more
    rest = decoded(ws, b"")
    assert rest, "it came with no further frame"
    assert len(rest + decoded(ws, frame(second, 0))) == size - (4 << 20)


def test_blocks_that_say_they_are_the_last_are_followed_by_others():
    """A sender may end a message with a final block (RFC 7692, section 7.2.3.4)."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = packer.compress(b"one") + packer.flush(zlib.Z_FINISH) + b"\0"
    ws = WebSocket(True)
    assert decoded(ws, frame(body, bits=RSV1) + frame(packed(b"two"), bits=RSV1)) == b"onetwo"


def test_a_message_of_final_blocks_only_is_refused():
    """Each of them needs an inflater of its own and brings nothing."""
    with pytest.raises(ProtocolError, match="final blocks"):
        decoded(WebSocket(True), frame(b"\x03\0" * 1000, bits=RSV1))
    assert decoded(WebSocket(True), frame(b"\x03\0" * 256, bits=RSV1)) == b""
    several = frame(b"\x03\0" * 200, bits=RSV1) * 3 + frame(packed(b"two"), bits=RSV1)
    assert decoded(WebSocket(True), several) == b"two"
    ws = WebSocket(True)
    assert ws.decode(several) != [b"two"]
    assert ws.more, "so many inflaters in a row would hold up the link"


def test_what_a_server_inflates_may_change():
    ws = WebSocket(True)
    for limit, most in ((1000, 1000), (1 << 40, 256 * 1024), (0, 1)):
        ws.hold_to(limit)
        assert ws.most == most


def test_random_bytes_end_in_parts_or_in_a_refusal():
    rng = random.Random(7)
    for number in range(3000):
        ws = WebSocket(bool(number & 1))
        data = bytes(
            rng.choice((0x82, 0xC2, 0x89, 0x88, 0, 2, 5, 126, rng.randrange(256)))
            for _ in range(30)
        )
        try:
            decoded(ws, *(data[n : n + 7] for n in range(0, 30, 7)))
            ws.encode(b"x")
        except (ProtocolError, ConnectionResetError):
            pass
