"""No byte of a user's input reaches the wire as anything but what it was meant as.

Every string is put everywhere a string can go. What comes out is read back as liberally as a
server reads: either nothing came out and the caller was told, or exactly one frame whose parts are
the ones that went in.
"""

from __future__ import annotations

import json

import pytest

import jetsync
from jetsync._core.encoding import encode_headers
from jetsync.errors import ConfigError, Error
from tests.core.kit import attached
from tests.harness.fakeserver import ClientGone, FakeServer
from tests.harness.soak import scaled
from tests.wire import generate, reference
from tests.wire.outcome import raw

STRINGS = scaled(12_000, 1_000_000)
NAMES = scaled(2_500, 200_000)
PLACES = ("subject", "reply", "subscription", "queue", "header name", "header value", "api subject")
NEIGHBOUR = reference.Sent(b"PING", ())


def sent_by(place, text, outbound):
    """Put a string in one place; returns the frame that should come out of it."""
    value = raw(text) if not has_lone_surrogate(text) else b""
    if place == "subject":
        outbound.publish(text, b"x")
        return reference.Sent(b"PUB", (value,), payload=b"x")
    if place == "reply":
        outbound.publish("a", b"x", text)
        return reference.Sent(b"PUB", (b"a", value) if text else (b"a",), payload=b"x")
    if place == "subscription":
        outbound.subscribe(text, None, 7)
        return reference.Sent(b"SUB", (value, b"7"))
    if place == "queue":
        outbound.subscribe("a", text, 7)
        return reference.Sent(b"SUB", (b"a", value, b"7") if text else (b"a", b"7"))
    if place == "api subject":
        outbound.ask(text, "r", b"{}")
        return reference.Sent(b"PUB", (value, b"r"), payload=b"{}")
    name, content = (text, "v") if place == "header name" else ("K", text)
    block = encode_headers({name: content})
    outbound.publish("a", b"x", None, block)
    lines, malformed = reference.header_lines(block)
    # One line, and no status: nothing of it was taken for structure.
    assert malformed == 0
    assert lines == [(raw(name), raw(content).strip(b" \t"))]
    assert block == b"NATS/1.0\r\n%s: %s\r\n\r\n" % (raw(name), raw(content))
    return reference.Sent(b"HPUB", (b"a",), block, b"x")


def has_lone_surrogate(text):
    return any("\ud800" <= c <= "\udfff" and not "\udc80" <= c <= "\udcff" for c in text)


@pytest.mark.timeout(scaled(300, 7200))
def test_no_string_changes_framing(record_figure):
    tried = 0
    accepted = dict.fromkeys(PLACES, 0)
    for number in range(STRINGS):
        text = generate.text(generate.of(number))
        for place in PLACES:
            outbound = attached()
            outbound.ping()
            expected = []
            try:
                expected = [sent_by(place, text, outbound)]
                accepted[place] += 1
            except ConfigError:
                pass
            outbound.ping()
            # A frame too many, or another one, is what an injection looks like.
            alike = reference.read_sent(outbound.peek()) == [NEIGHBOUR, *expected, NEIGHBOUR]
            assert alike, f"string {number}, {place}: {text!r}"
            tried += 1
    record_figure(
        f"G15 strings in {len(PLACES)} places that kept the framing",
        tried,
    )
    # Most are refused, and some are not: both ways are tried everywhere.
    assert min(accepted.values()) > STRINGS / 50
    assert max(accepted.values()) < STRINGS * 0.8


def no_such_thing(peer):
    """A server that has no streams at all, whatever is asked."""
    answer = json.dumps(
        {"type": "x", "error": {"code": 404, "err_code": 10059, "description": "stream not found"}}
    ).encode()
    peer.handshake(jetstream=True, api_lvl=5, version="2.15.1")
    while True:
        line = peer.read_line()
        if line == b"PING":
            peer.send(b"PONG\r\n")
        elif line.startswith((b"PUB ", b"HPUB ")):
            peer.read_exactly(int(line.split()[-1]) + 2)
            fields = line.split(b" ")
            has_headers = fields[0] == b"HPUB"
            if len(fields) == (5 if has_headers else 4):
                peer.send_message(fields[2], b"1", answer)


@pytest.mark.timeout(scaled(300, 7200))
def test_no_name_of_a_stream_or_consumer_changes_framing(record_figure):
    """Through the real calls, down to the socket: what they send is read at its other end."""
    asked = 0

    def script(peer):
        with pytest.raises(ClientGone):
            no_such_thing(peer)

    with FakeServer(script) as fake, jetsync.connect(fake.url) as nc:
        js = nc.jetstream(timeout=10)
        calls = (
            lambda text: js.stream(text),
            lambda text: js.consumer("S", text),
            lambda text: js.delete_consumer(text, "C"),
            lambda text: js.create_stream(name=text, subjects=["a"]),
            lambda text: js.publish("a", b"x", msg_id=text, expected_stream=text),
        )
        for number in range(NAMES):
            text = generate.text(generate.of(number))
            try:
                calls[number % len(calls)](text)
            except ConfigError:
                continue
            except Error:
                asked += 1
        nc.flush(timeout=10)
        received = fake.peers[0].received
    allowed = {b"CONNECT", b"PING", b"PONG", b"SUB", b"PUB", b"HPUB"}
    frames = reference.read_sent(received)
    assert {frame.verb for frame in frames} <= allowed
    published = [frame for frame in frames if frame.verb in (b"PUB", b"HPUB")]
    assert len(published) == asked > NAMES / 50
    for frame in published:
        subject, _reply = frame.fields
        assert subject == b"a" or subject.startswith(b"$JS.API.")
    record_figure("G15 names that were sent and kept the framing", len(published))
