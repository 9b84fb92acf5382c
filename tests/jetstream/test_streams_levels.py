"""A feature that the server is too old for is refused before anything is sent."""

from __future__ import annotations

import threading
from datetime import datetime, timezone

import pytest

import jetsync
from jetsync.jetstream.config.stream_info import StreamInfo
from jetsync.jetstream.streams.stream import Stream
from tests.harness.fakeserver import FakeServer
from tests.harness.insides import api_of, connection_of


@pytest.fixture
def old():
    """JetStream on a server of 2.10 that would answer nothing, and what it received."""
    seen = []

    def script(peer):
        seen.append(peer)
        peer.handshake(version="2.10.20", jetstream=True)
        peer.serve()

    with FakeServer(script) as fake, jetsync.connect(fake.url) as nc:
        yield nc.jetstream(timeout=20), seen[0]


FUTURE = datetime(2100, 1, 1, tzinfo=timezone.utc)
BLANK = StreamInfo.from_wire({"config": {"name": "S"}})
CALLS = {
    "allow_msg_ttl needs nats-server 2.11": lambda js: js.create_stream(
        name="S", allow_msg_ttl=True
    ),
    "allow_atomic needs nats-server 2.12": lambda js: js.create_or_update_stream(
        name="S", allow_atomic=True
    ),
    "allow_batched needs nats-server 2.14": lambda js: js.create_stream(
        name="S", allow_batched=True
    ),
    "priority_groups needs nats-server 2.11": lambda js: js.create_consumer(
        "S", priority_groups=["g"], priority_policy="overflow"
    ),
    "pause_until needs nats-server 2.11": lambda js: js.create_consumer("S", pause_until=FUTURE),
    "pausing a consumer needs nats-server 2.11": lambda js: js.pause_consumer("S", "C", FUTURE),
    "unpinning a client needs nats-server 2.11": lambda js: js.unpin_consumer("S", "C", "g"),
    "resetting a consumer needs nats-server 2.14": lambda js: js.reset_consumer("S", "C"),
    "get_msgs needs nats-server 2.11": lambda js: Stream(js, api_of(js), BLANK).get_msgs(
        1, max_messages=1
    ),
    "get_last_msgs needs nats-server 2.11": lambda js: Stream(js, api_of(js), BLANK).get_last_msgs(
        "a"
    ),
    "pedantic needs nats-server 2.11": lambda js: js.create_stream(name="S", pedantic=True),
    "placement of a leader needs nats-server 2.11": lambda js: js.step_down_stream_leader(
        "S", placement=jetsync.Placement(preferred="x")
    ),
    "removing a consumer's peer needs nats-server 2.15": lambda js: js.remove_consumer_peer(
        "S", "C", "x"
    ),
}


@pytest.mark.parametrize("words", CALLS)
def test_it_is_told_which_server_is_needed_and_nothing_is_sent(old, words):
    js, peer = old
    with pytest.raises(jetsync.ApiLevelRequiredError, match=words) as caught:
        CALLS[words](js)
    assert "2.10.20" in str(caught.value)
    connection_of(js).flush()
    assert b"$JS.API" not in peer.received


def test_what_an_old_server_has_is_sent(old):
    js, peer = old
    waiting = threading.Event()

    def create():
        waiting.set()
        with pytest.raises(jetsync.TimeoutError):
            js.create_stream(name="S", compression="s2", allow_direct=True, timeout=0.2)

    create()
    assert waiting.is_set()
    connection_of(js).flush()
    assert b"$JS.API.STREAM.CREATE.S" in peer.received
