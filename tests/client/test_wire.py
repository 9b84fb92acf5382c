"""The socket during the handshake: what is read by when, and in whose name it ends."""

from __future__ import annotations

from typing import Any

import pytest

from jetsync._deadline import Deadline
from jetsync.client import tls
from jetsync.client.wire import Nested, Step, Wire
from jetsync.errors import ConnectError, ProtocolError
from jetsync.protocol.proxy import ProxyURL
from jetsync.protocol.url import ServerURL
from tests.harness.websockets import CLOSE, answer, frame

SERVER = ServerURL(host="near", port=4222)
LONG = 60.0
DEFLATE = b"permessage-deflate; server_no_context_takeover; client_no_context_takeover"


class Socket:
    """Gives the test's pieces one after another, then ends; None: no bytes in time."""

    def __init__(self, *pieces: bytes | None) -> None:
        self._pieces = list(pieces)
        self.sent = b""
        self.ended = False
        self.timeouts: list[float] = []

    def settimeout(self, seconds: float) -> None:
        self.timeouts.append(seconds)

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def recv(self, size: int) -> bytes:
        assert not self.ended, "it has ended"
        piece = self._pieces.pop(0) if self._pieces else b""
        if piece is None:
            raise TimeoutError
        self.ended = not piece
        assert len(piece) <= size
        return piece


class Marks:
    """A filter that puts its mark around what it encodes, and takes it off again."""

    def __init__(self, mark: bytes, owes: bool = False, more: bool = False, ended: bool = False):
        self._mark = mark
        self.owes, self.more, self.ended = owes, more, ended

    def encode(self, data: bytes | memoryview) -> bytes:
        return self._mark + bytes(data) + self._mark

    def decode(self, data: bytes | memoryview) -> list[bytes]:
        text = bytes(data)
        assert text.startswith(self._mark)
        assert text.endswith(self._mark)
        return [text[1:3], text[3:-1]]


def wire(*pieces: bytes | None, seconds: float = LONG) -> Wire:
    sock: Any = Socket(*pieces)
    return Wire(sock, Deadline(seconds), SERVER)


def upgraded(*pieces: bytes | None, asks: bool = False, agrees: bool = False) -> Wire:
    """A wire that speaks in the frames of a WebSocket. The first piece stands behind the answer.

    ``asks``, ``agrees``: for and on compression."""
    behind, *later = pieces
    more = [b"Sec-WebSocket-Extensions: " + DEFLATE] if agrees else []

    class Server(Socket):
        def sendall(self, data: bytes) -> None:
            super().sendall(data)
            if data.startswith(b"GET"):
                self._pieces.insert(0, answer(data, *more) + (behind or b""))

    sock: Any = Server(*later)
    one = Wire(sock, Deadline(LONG), SERVER)
    one.start_websocket("/", {}, deflate=asks)
    return one


# -- filters ---------------------------------------------------------------------------------------


def test_of_two_filters_the_outer_one_meets_the_network():
    both = Nested(Marks(b"i"), Marks(b"o"))
    assert both.encode(b"PING\r\n") == b"oiPING\r\nio"
    assert b"".join(both.decode(b"oiPING\r\nio")) == b"PING\r\n"


@pytest.mark.parametrize("word", ["owes", "more", "ended"])
@pytest.mark.parametrize(("inner", "outer"), [(False, False), (True, False), (False, True)])
def test_two_filters_have_what_one_of_them_has(word, inner, outer):
    both = Nested(Marks(b"i", **{word: inner}), Marks(b"o", **{word: outer}))
    assert getattr(both, word) == (inner or outer)


# -- lines -----------------------------------------------------------------------------------------


def test_lines_are_read_in_whatever_pieces_they_come():
    one = wire(b"INF", b"O {}\r", b"\nPONG\r\nMSG")
    assert [one.line(), one.line()] == [b"INFO {}", b"PONG"]
    assert one.rest() == b"MSG"


def test_a_server_that_sends_lines_without_end_is_left_in_time():
    one = wire(b"+OK\r\n" * 100)
    one.line()
    one._deadline = Deadline(0.0)
    with pytest.raises(ConnectError, match="did not send its INFO in time"):
        one.line()


def test_a_line_without_end_is_refused():
    with pytest.raises(ProtocolError, match="endless first line"):
        wire(*[b"x" * 65536] * 17).line()


@pytest.mark.parametrize(("seconds", "pieces"), [(0.0, [b"INFO {}\r\n"]), (LONG, [None])])
def test_a_server_that_says_nothing_is_left_with_a_hint(seconds, pieces):
    """A server that expects TLS first says nothing before."""
    with pytest.raises(ConnectError, match=r"near:4222: .*INFO in time; .*tls_handshake_first"):
        wire(*pieces, seconds=seconds).line()


def test_the_hint_is_for_a_plain_server_that_has_said_nothing():
    encrypted, signed_in, framed = wire(None), wire(None), upgraded(b"", None)
    encrypted.tls = True
    signed_in.step = Step.LOGIN
    for one, why in ((encrypted, "INFO"), (signed_in, "credentials"), (framed, "INFO")):
        with pytest.raises(ConnectError, match=f"{why}.* in time") as caught:
            one.line()
        assert "tls_handshake_first" not in str(caught.value)


@pytest.mark.parametrize(("step", "who"), [(Step.PROXY, "proxy"), (Step.INFO, "server")])
def test_who_closes_the_connection_is_named(step, who):
    one = wire()
    one.step = step
    with pytest.raises(ConnectError, match=f"the {who} closed the connection"):
        one.line()


def test_a_send_takes_no_longer_than_there_is_time():
    for seconds, longest in ((0.5, 0.5), (0.0, 0.001), (1000.0, 60.0)):
        one = wire(seconds=seconds)
        one.send(b"PING\r\n")
        sock: Any = one.sock
        assert sock.sent == b"PING\r\n"
        assert 0 < sock.timeouts[-1] <= longest


# -- a line that may come --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "found"),
    [
        ([b"-E", b"RR 'x'\r\nPING"], True),
        ([b"-ERR 'x'", b"\r\n"], True),
        ([b"PING\r\n", b"-ERR 'x'\r\n"], False),  # another line came
        ([b"-EX", b"-ERR 'x'\r\n"], False),
        ([None, b"-ERR 'x'\r\n"], False),  # none came in time
        ([b"-ERR"], False),  # the connection ended
        ([b"-ERR" + b"x" * 65532, *[b"x" * 65536] * 17, b"\r\n"], False),  # it has no end
    ],
)
def test_a_line_is_waited_for_while_what_comes_may_be_it(pieces, found):
    one = wire(*pieces)
    assert one.has_line(b"-ERR", LONG) == found
    if found:
        assert one.peek_line() == b"-ERR 'x'"
        assert one.line() == b"-ERR 'x'", "it was left there"


def test_a_line_is_waited_for_no_longer_than_there_is_time():
    """Pieces that keep coming do not lengthen it."""
    assert not wire(b"-", b"ERR 'x'\r\n").has_line(b"-ERR", 0.0)
    assert not wire(b"-", b"ERR 'x'\r\n", seconds=0.0).has_line(b"-ERR", LONG)


def test_a_line_that_may_come_comes_in_frames_too():
    assert upgraded(b"", frame(b"-ERR"), frame(b" 'x'\r\n")).has_line(b"-ERR", LONG)


# -- the change to TLS and to frames ---------------------------------------------------------------


def secured(one: Wire, monkeypatch: pytest.MonkeyPatch, words: int = 0) -> list[bytes]:
    """Start TLS, whose handshake reads so many words; return them. Nothing is encrypted."""
    heard: list[bytes] = []

    class Filter(Marks):
        def __init__(self, context: object, hostname: str) -> None:
            super().__init__(b"t")

        def handshake(self, sock: Any, deadline: Deadline) -> None:
            heard.extend(sock.recv(100) for _ in range(words))

    monkeypatch.setattr(tls, "TLSFilter", Filter)
    one.start_tls(None, "near")
    return heard


def test_what_came_in_plain_is_not_taken_for_what_tls_brings(monkeypatch):
    """An attacker on the network path may have written it behind INFO."""
    one = wire(b'INFO {}\r\nINFO {"connect_urls":["evil:4222"]}\r\n')
    assert one.line() == b"INFO {}"
    secured(one, monkeypatch)
    assert one.tls
    assert one.rest() == b""


def test_a_handshake_within_a_filter_does_not_end_where_a_part_is_awaited(monkeypatch):
    """A record of TLS may come in several pieces, and the first ones say nothing."""

    class Halves(Marks):
        def decode(self, data: bytes | memoryview) -> list[bytes]:
            text = bytes(data)
            return [] if text == b"half" else [text]

    one = wire(b"half", b"hello", b"half")
    one.filter = Halves(b"")
    assert secured(one, monkeypatch, words=2) == [b"hello", b""]


@pytest.mark.parametrize(("asks", "agrees", "first"), [(1, 0, 0x82), (1, 1, 0xC2), (0, 0, 0x82)])
def test_messages_are_compressed_where_both_want_it(asks, agrees, first):
    one = upgraded(b"", asks=bool(asks), agrees=bool(agrees))
    sock: Any = one.sock
    before = len(sock.sent)
    one.send(b"a" * 200)
    assert sock.sent[before] == first


def test_a_line_is_found_behind_much_that_says_nothing():
    """The filter gives what it has in parts, some of them empty, and is asked for all of them."""
    empty = frame(b"\x03\0" * 200, bits=0x40) * 4
    one = upgraded(empty + frame(b"INFO {}\r\n"), asks=True, agrees=True)
    assert one.rest() == b"INFO {}\r\n"


def test_what_comes_behind_the_answer_to_an_upgrade_is_in_frames():
    one = upgraded(frame(b"INFO {}\r\nPO"), frame(b"NG\r\n"))
    assert [one.line(), one.line()] == [b"INFO {}", b"PONG"]


def test_frames_within_another_filter_leave_through_both():
    """What stands behind the answer went through the outer filter with it."""

    class Turned(Marks):
        def encode(self, data: bytes | memoryview) -> bytes:
            return bytes(data)[::-1]

        def decode(self, data: bytes | memoryview) -> list[bytes]:
            return [bytes(data)[::-1]]

    class Server(Socket):
        def sendall(self, data: bytes) -> None:
            super().sendall(data)
            if data.endswith(b" TEG"):
                self._pieces.append((answer(data[::-1]) + frame(b"INFO {}\r\n"))[::-1])

    sock: Any = Server()
    one = Wire(sock, Deadline(LONG), SERVER)
    one.filter = Turned(b"")
    one.start_websocket("/", {}, deflate=False)
    assert one.line() == b"INFO {}"
    before = len(sock.sent)
    one.send(b"PING\r\n")
    framed = sock.sent[before:][::-1]
    assert (framed[0], len(framed)) == (0x82, 2 + 4 + 6)


def test_the_end_of_a_websocket_is_told_with_its_reason():
    one = upgraded(b"", frame(b"INFO {}\r\n") + frame(b"\x03\xf0go away", CLOSE))
    assert one.line() == b"INFO {}"
    with pytest.raises(ConnectError, match="near:4222 closed the WebSocket: 1008 go away"):
        one.line()


def test_frames_against_the_rules_are_told_with_the_name_of_the_server():
    with pytest.raises(ProtocolError, match="near:4222 sent a masked WebSocket frame"):
        upgraded(b"", b"\x82\x81abcdx").line()


def test_an_upgrade_that_is_not_answered_is_named():
    with pytest.raises(ConnectError, match="did not answer the WebSocket upgrade in time"):
        wire(None).start_websocket("/", {}, deflate=False)


def test_an_answer_that_comes_bit_by_bit_is_left_in_time():
    with pytest.raises(ConnectError, match="did not answer the WebSocket upgrade in time"):
        wire(b"HTTP/1.1 ", seconds=0.0).start_websocket("/", {}, deflate=False)


def test_behind_a_proxy_it_is_the_server_that_is_waited_for():
    one = wire(b"HTTP/1.1 200 OK\r\n\r\nINF", b"O {}\r\n", None)
    one.pass_proxy(ProxyURL.parse("http://proxy:3128"), "far")
    assert one.line() == b"INFO {}"
    with pytest.raises(ConnectError, match="did not send its INFO in time"):
        one.line()
