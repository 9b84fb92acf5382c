"""Ordered consumers leave nothing behind on the server, however often the answer to a request is
lost with the link."""

from __future__ import annotations

import threading
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import jetsync
from jetsync.jetstream.api import API
from jetsync.jetstream.ordered.orphans import Orphans
from jetsync.server import NatsServer
from tests.harness.conditioner import Link
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

PATIENCE = 60.0


def are(got: list[bytes], count: int) -> bool:
    return len(got) == count


def test_a_server_consumer_whose_creation_was_not_answered_is_deleted():
    rounds = scaled(5, 60)
    with NatsServer() as server, jetsync.connect(server.url) as near, Link(server.url) as link:
        js = near.jetstream()
        stream = js.create_stream(name="S", subjects=["S.>"], storage="memory")
        creations = near.subscribe("$JS.API.CONSUMER.CREATE.>")
        near.flush()
        with jetsync.connect(link.url, reconnect_wait=0.01) as far:
            ordered = far.jetstream().ordered_consumer("S", inactive_threshold=600)
            creations.next(timeout=PATIENCE)
            got: list[bytes] = []
            messages = ordered.messages(heartbeat=0.2)
            reader = threading.Thread(target=lambda: got.extend(msg.data for msg in messages))
            reader.start()
            for n in range(rounds):
                js.publish("S.a", b"%d" % n)
                wait_until(partial(are, got, n + 1), timeout=PATIENCE)
                # Nothing comes back: the silence makes a new consumer, whose answer is lost.
                link.stall(way="to_client")
                creations.next(timeout=PATIENCE)
                link.cut()
                link.resume()
                wait_until(lambda: far.is_connected, timeout=PATIENCE)
            js.publish("S.a", b"%d" % rounds)
            wait_until(lambda: len(got) == rounds + 1, timeout=PATIENCE)
            assert got == [b"%d" % n for n in range(rounds + 1)]
            wait_until(lambda: len(list(stream.consumer_names())) == 1, timeout=PATIENCE)
            messages.stop()
            reader.join(PATIENCE)
            ordered.close()
            far.flush(timeout=PATIENCE)
            wait_until(lambda: list(stream.consumer_names()) == [], timeout=PATIENCE)
            far.close()


def test_a_deletion_that_goes_down_with_the_link_is_sent_again():
    with NatsServer() as server, jetsync.connect(server.url) as near, Link(server.url) as link:
        js = near.jetstream()
        stream = js.create_stream(name="S", subjects=["S.>"], storage="memory")
        stream.create_consumer(name="left", inactive_threshold=600)
        with jetsync.connect(link.url, reconnect_wait=0.01) as far:
            orphans = Orphans(API(far, domain=None, api_prefix=None, timeout=5.0), "S")
            orphans.add("left")
            link.stall(way="to_server")
            orphans.delete()
            link.cut()
            wait_until(lambda: not far.is_connected, timeout=PATIENCE)
            link.resume()
            wait_until(lambda: far.is_connected, timeout=PATIENCE)
            far.flush(timeout=PATIENCE)
            assert list(stream.consumer_names()) == ["left"]
            orphans.delete()
            wait_until(lambda: list(stream.consumer_names()) == [], timeout=PATIENCE)
            far.close()


def test_a_full_buffer_delays_no_close_and_the_deletion_is_sent_when_there_is_room():
    """G25: ``close()`` does not block; it waited ten seconds for room to send the deletion."""
    later: list[Any] = []
    sent: list[str] = []
    room = False

    def send(subject, seconds=None):
        assert seconds == 0.0, "may wait for room"
        if not room:
            raise jetsync.OutboundFullError("full")
        sent.append(subject)

    port = SimpleNamespace(
        epoch=1,
        linked=True,
        send=send,
        later=lambda seconds, function: later.append(function),
        after_pong=lambda function: None,
    )
    orphans = Orphans(
        cast("Any", SimpleNamespace(port=port, subject=lambda name: f"API.{name}")), "S"
    )
    orphans.add("one")
    orphans.delete()
    assert (len(later), sent) == (1, [])
    room = True
    later.pop()()
    assert (later, sent) == ([], ["API.CONSUMER.DELETE.S.one"])
