"""Nothing that could break the framing of a line, or that a server would refuse, is ever put in."""

from __future__ import annotations

import array

import pytest

from jetsync._core.encoding import encode_headers
from jetsync._core.outbound import Outbound
from jetsync.errors import ConfigError, ConnectionClosedError, MaxPayloadError
from jetsync.headers import Headers
from tests.core.kit import Sent, attached, client_frames

INJECTIONS = ["\r\n", "\r", "\n", " ", "\0", "\x7f", "\t", "\x01", "\x1f"]
PLACES = [lambda bad: bad, lambda bad: bad + "a", lambda bad: "a" + bad, lambda bad: f"a{bad}b"]
HOSTILE = [place(bad) for bad in INJECTIONS for place in PLACES]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_subject_reply_or_queue_with_a_framing_byte_gets_out(text):
    outbound = Outbound()
    for attempt in (
        lambda: outbound.publish(text),
        lambda: outbound.publish("a", b"", text),
        lambda: outbound.subscribe(text, None, 1),
        lambda: outbound.subscribe("a", text, 1),
    ):
        with pytest.raises(ConfigError):
            attempt()
    assert outbound.peek() == b""
    assert outbound.messages == outbound.bytes == 0


@pytest.mark.parametrize("text", [*HOSTILE, "", "a:", "é"], ids=ascii)
def test_no_header_name_with_a_framing_byte_gets_out(text):
    with pytest.raises(ConfigError):
        encode_headers({text: "v"})


@pytest.mark.parametrize("bad", ["\r", "\n", "\0", "\r\n"], ids=ascii)
@pytest.mark.parametrize("place", range(4))
def test_no_header_value_with_a_framing_byte_gets_out(bad, place):
    text = PLACES[place](bad)
    for value in (text, text.encode(), ["fine", text]):
        with pytest.raises(ConfigError):
            encode_headers({"Name": value})


@pytest.mark.parametrize("subject", ["", "*", "a.*", ">", "a.>", "a.>.b"])
def test_publishing_to_nothing_or_to_a_wildcard_is_refused(subject):
    outbound = Outbound()
    with pytest.raises(ConfigError):
        outbound.publish(subject)
    if subject:
        with pytest.raises(ConfigError):
            outbound.publish("a", b"", subject)
    assert outbound.peek() == b""


def test_the_error_says_which_argument_is_not_valid():
    outbound = Outbound()
    with pytest.raises(ConfigError, match=r"^subject 'a b' is not valid"):
        outbound.publish("a b")
    with pytest.raises(ConfigError, match=r"^the reply or queue beside subject 'a' is not valid"):
        outbound.publish("a", b"", "b c")
    with pytest.raises(ConfigError, match=r"^the reply or queue beside subject 'a' is not valid"):
        outbound.subscribe("a", "b c", 1)
    with pytest.raises(ConfigError, match=r"^subject 'a.>' has a wildcard"):
        outbound.publish("a.>")


@pytest.mark.parametrize("subject", ["", ".", "a.", ".a", "a..b", ">.a", "a.>.b"])
def test_subscribing_to_a_malformed_subject_is_refused(subject):
    outbound = Outbound()
    with pytest.raises(ConfigError):
        outbound.subscribe(subject, None, 1)
    assert outbound.peek() == b""


def test_subjects_that_a_server_takes_are_not_refused():
    """A wildcard is a whole token; empty tokens are the server's business when publishing."""
    outbound = attached()
    for subject in ("a", "a.b", "a*", "a.b>", "a..b", "é.ü", "$JS.API.INFO", "a:b,c=d"):
        outbound.publish(subject)
    for subject in ("a", "a.*.b", "a.>", ">", "*"):
        outbound.subscribe(subject, None, 1)
    assert len(client_frames(outbound.peek())) == 13


def test_bytes_that_came_from_the_wire_go_back_unchanged():
    outbound = Outbound()
    outbound.publish(b"a.\xff".decode("utf-8", "surrogateescape"))
    assert outbound.peek() == b"PUB a.\xff 0\r\n\r\n"


def test_a_lone_surrogate_is_a_config_error():
    outbound = Outbound()
    with pytest.raises(ConfigError, match="surrogate"):
        outbound.publish("a\ud800")
    with pytest.raises(ConfigError, match="surrogate"):
        encode_headers({"K": "\ud800"})


@pytest.mark.parametrize("value", [None, 1, b"a", ["a"]], ids=repr)
def test_a_subject_must_be_text(value):
    outbound = Outbound()
    with pytest.raises(ConfigError, match="must be a str"):
        outbound.publish(value)
    with pytest.raises(ConfigError, match="must be a str"):
        outbound.subscribe(value, None, 1)


@pytest.mark.parametrize("value", ["text", None, 1, [1], memoryview(b"abcd")[::2]], ids=type)
def test_data_must_be_a_contiguous_buffer(value):
    with pytest.raises(ConfigError, match="data must be"):
        Outbound().publish("a", value)


@pytest.mark.parametrize(
    "value", [b"ab", bytearray(b"ab"), memoryview(b"xabx")[1:3], array.array("B", b"ab")], ids=type
)
def test_any_contiguous_buffer_is_taken_as_it_is(value):
    outbound = Outbound()
    outbound.publish("s", value)
    assert outbound.peek() == b"PUB s 2\r\nab\r\n"


def test_frames_look_as_the_protocol_says():
    outbound = attached()
    outbound.publish("s", b"hello")
    outbound.publish("s", b"", "r")
    outbound.publish("s", b"x", "r", encode_headers({"A": "b"}))
    outbound.subscribe("s.*", None, 7)
    outbound.subscribe("s.>", "workers", 8)
    outbound.unsubscribe(7)
    outbound.unsubscribe(8, 5)
    outbound.ping()
    assert outbound.peek() == (
        b"PUB s 5\r\nhello\r\n"
        b"PUB s r 0\r\n\r\n"
        b"HPUB s r 18 19\r\nNATS/1.0\r\nA: b\r\n\r\nx\r\n"
        b"SUB s.* 7\r\n"
        b"SUB s.> workers 8\r\n"
        b"UNSUB 7\r\n"
        b"UNSUB 8 5\r\n"
        b"PING\r\n"
    )
    assert outbound.messages == 3
    assert outbound.bytes == len(outbound.peek().split(b"SUB", 1)[0])
    assert outbound.pending_bytes == len(outbound.peek())


# -- limits --------------------------------------------------------------------------------------


def test_a_control_line_over_4096_bytes_is_refused_before_the_server_hangs_up():
    outbound = Outbound()
    outbound.publish("s" * 4090)
    with pytest.raises(ConfigError, match="max_control_line"):
        outbound.publish("s" * 4091)
    with pytest.raises(ConfigError, match="max_control_line"):
        outbound.publish("s" * 2045, b"", "r" * 2045)
    with pytest.raises(ConfigError, match="max_control_line"):
        outbound.subscribe("s" * 2045, "q" * 2045, 1)
    assert client_frames(outbound.peek()) == [Sent(b"PUB", b"s" * 4090)]


def test_headers_and_payload_together_are_held_against_max_payload():
    outbound = Outbound()
    outbound.max_payload = 100
    header = encode_headers({"A": "b"})
    outbound.publish("s", b"x" * 100)
    outbound.publish("s", b"x" * (100 - len(header)), None, header)
    before = outbound.peek()
    for data, block in ((b"x" * 101, b""), (b"x" * (101 - len(header)), header)):
        with pytest.raises(MaxPayloadError, match="101 bytes"):
            outbound.publish("s", data, None, block)
    assert outbound.peek() == before


def test_a_closed_outbound_refuses_everything():
    outbound = Outbound()
    outbound.publish("s")
    outbound.close()
    outbound.close()
    with pytest.raises(ConnectionClosedError):
        outbound.publish("s")
    with pytest.raises(ConnectionClosedError):
        outbound.subscribe("s", None, 1)
    outbound.unsubscribe(1)
    outbound.ping()
    assert outbound.peek() == b""


# -- header input --------------------------------------------------------------------------------


def test_header_values_are_text_bytes_or_lists_of_them():
    assert encode_headers({"A": "b", "C": b"\xff", "D": ["1", b"2"], "E": ()}) == (
        b"NATS/1.0\r\nA: b\r\nC: \xff\r\nD: 1\r\nD: 2\r\n\r\n"
    )
    assert encode_headers({}) == encode_headers(None) == b""


def test_received_headers_can_be_sent_on():
    raw = b"NATS/1.0\r\nA: 1\r\nB: \xc3\xa9\xff\r\nA: 2\r\n\r\n"
    assert encode_headers(Headers.parse(raw)) == (
        b"NATS/1.0\r\nA: 1\r\nA: 2\r\nB: \xc3\xa9\xff\r\n\r\n"
    )


@pytest.mark.parametrize("value", [1, None, [1], [None], 1.5, {"a": 1}.values()], ids=repr)
def test_other_header_values_are_config_errors(value):
    with pytest.raises(ConfigError, match="header 'A' must be"):
        encode_headers({"A": value})


@pytest.mark.parametrize("headers", [[("A", "b")], "A: b", 5], ids=repr)
def test_headers_must_be_a_mapping(headers):
    with pytest.raises(ConfigError, match="mapping"):
        encode_headers(headers)


def test_header_names_must_be_text():
    with pytest.raises(ConfigError, match="header name"):
        encode_headers({1: "a"})  # type: ignore[dict-item]
