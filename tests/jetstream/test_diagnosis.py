"""lag() and explain_stall(): every reason for silence, provoked on a real server."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.proxy import Proxy
from tests.harness.waiting import wait_until

LONG = 20.0


def fill(js, stream, count, subject="a"):
    js.publish_many((f"{stream.name}.{subject}", b"x") for _ in range(count))


def why_not(consumer, timeout=None) -> str:
    return consumer.explain_stall(timeout=timeout) or ""


def test_lag_counts_what_is_where(js, stream):
    consumer = stream.create_consumer(durable_name="c", ack_wait=0.5)
    fill(js, stream, 10)
    batch = consumer.fetch(4, timeout=LONG)
    batch[0].ack_sync()
    lag = consumer.lag()
    assert (lag.num_pending, lag.num_ack_pending, lag.num_redelivered) == (6, 3, 0)
    assert (lag.delivered_stream_seq, lag.ack_floor_stream_seq) == (4, 1)
    assert (lag.num_waiting, lag.paused) == (0, False)
    assert lag.ts is not None
    with consumer.messages(max_messages=50) as messages:
        for _ in range(9):  # six new ones, and three again
            messages.next(timeout=LONG)
        wait_until(lambda: consumer.lag().num_waiting == 1, timeout=LONG)
        assert consumer.lag().num_redelivered >= 3


def test_nothing_in_the_way_says_nothing(js, stream):
    consumer = stream.create_consumer(durable_name="c", max_ack_pending=100)
    fill(js, stream, 5)
    wait_until(lambda: consumer.info().num_pending == 5, timeout=LONG)  # counted after the store
    assert "pull waits" in why_not(consumer)


def test_everything_delivered(js, stream):
    consumer = stream.create_consumer(durable_name="c", ack_wait=30)
    assert "nothing new" in why_not(consumer)
    fill(js, stream, 2)
    batch = consumer.fetch(2, timeout=LONG)
    assert "2 messages wait for acknowledgement and come again 30 s" in why_not(consumer)
    batch.ack_sync()
    assert "nothing new" in why_not(consumer)


def test_too_many_messages_are_not_acknowledged(js, stream):
    consumer = stream.create_consumer(durable_name="c", max_ack_pending=3)
    fill(js, stream, 10)
    batch = consumer.fetch(3, timeout=LONG)
    assert len(consumer.fetch(1, timeout=0.2)) == 0
    why = why_not(consumer)
    assert "3 messages were delivered and not acknowledged, max_ack_pending is 3" in why
    batch.ack_sync()
    assert "waits for acknowledgements" not in why_not(consumer)


def test_paused(js, stream):
    consumer = stream.create_consumer(durable_name="c")
    fill(js, stream, 1)
    consumer.pause(datetime.now(timezone.utc) + timedelta(minutes=5))
    why = why_not(consumer)
    assert "is paused until" in why
    assert "s more" in why
    consumer.resume()
    assert "paused" not in why_not(consumer)


def test_pinned_to_another_client(url, js, stream):
    fields = {
        "durable_name": "c",
        "priority_groups": ["g"],
        "priority_policy": "pinned_client",
        "priority_timeout": 30,
    }
    consumer = stream.create_consumer(**fields)
    fill(js, stream, 3)
    with jetsync.connect(url) as other:
        theirs = other.jetstream().consumer(stream.name, "c")
        with theirs.messages(group="g", max_messages=1) as messages:
            messages.next(timeout=LONG)
            why = why_not(consumer)
            assert "pinned to another client" in why
            assert consumer.info().priority_groups[0].pinned_client_id in why
            assert "pinned" not in why_not(theirs)
    consumer.unpin("g")
    assert "pinned" not in why_not(consumer)


def test_overflow_holds_pulls_back(js, stream):
    consumer = stream.create_consumer(
        durable_name="c", priority_groups=["g"], priority_policy="overflow"
    )
    fill(js, stream, 3)
    with consumer.messages(group="g", min_pending=1000) as messages:
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=0.3)
        why = why_not(consumer)
        assert "overflow" in why
        assert "min_pending (now 3)" in why


def test_a_filter_that_matches_nothing(js, stream):
    fill(js, stream, 4)
    consumer = stream.create_consumer(durable_name="c", filter_subject=f"{stream.name}.b")
    assert "has 4 messages, and none matches" in why_not(consumer)
    fill(js, stream, 1, subject="b")
    consumer.fetch(1, timeout=LONG)[0].ack_sync()
    assert "delivered everything that matches" in why_not(consumer)
    several = stream.create_consumer(
        durable_name="d", filter_subjects=[f"{stream.name}.x", f"{stream.name}.y"]
    )
    assert "has 5 messages, and none matches" in why_not(several)


def test_a_push_consumer(js, stream):
    consumer = stream.create_consumer(durable_name="c", deliver_subject="somewhere.else")
    assert "push consumer" in why_not(consumer)
    assert "somewhere.else" in why_not(consumer)


def test_the_consumer_or_the_stream_is_gone(js, stream):
    consumer = stream.create_consumer(durable_name="c")
    js.delete_consumer(stream.name, "c")
    assert "consumer 'c' of stream" in why_not(consumer)
    assert "does not exist" in why_not(consumer)
    other = js.create_stream(name="OTHER", subjects=["OTHER.>"], storage="memory")
    lost = other.create_consumer(durable_name="c")
    other.delete()
    assert "stream 'OTHER' does not exist" in why_not(lost)


def test_the_link_is_down(server, js, stream):
    stream.create_consumer(durable_name="c")
    with Proxy(server.url) as proxy, jetsync.connect(proxy.url) as nc:
        consumer = nc.jetstream().consumer(stream.name, "c")
        proxy.stop()
        wait_until(lambda: not nc.is_connected, timeout=LONG)
        assert "connection is down" in why_not(consumer)
        nc.close()
        with pytest.raises(jetsync.ConnectionClosedError):
            why_not(consumer)


def test_no_server_leads():
    """A server that stands still answers nothing, as one without a leader does."""
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        stream = nc.jetstream().create_stream(name="S", subjects=["S.>"])
        consumer = stream.create_consumer(durable_name="c")
        server.pause()
        assert "no leader" in why_not(consumer, timeout=0.5)
        server.resume()
        wait_until(lambda: "nothing new" in why_not(consumer), timeout=LONG)


@pytest.mark.timeout(120)
def test_a_consumer_whose_node_is_dead_has_no_leader(fresh_cluster):
    with jetsync.connect(fresh_cluster.urls) as nc:
        js = nc.jetstream(timeout=20)
        stream = js.create_stream(name="R3", subjects=["R3.>"], num_replicas=3)
        consumer = stream.create_consumer(durable_name="c", num_replicas=1)
        home = consumer.info().cluster
        assert home is not None
        fresh_cluster.server(home.leader or "").kill()
        wait_until(lambda: nc.is_connected, timeout=LONG)
        assert "no leader" in why_not(consumer, timeout=1.0)


def test_reset_delivers_again(js, stream):
    consumer = stream.create_consumer(durable_name="c")
    fill(js, stream, 5)
    consumer.fetch(5, timeout=LONG).ack_sync()
    consumer.reset(2)
    again = consumer.fetch(4, timeout=LONG)
    assert (again.first_seq, again.last_seq) == (2, 5)
    consumer.reset()  # back to what is not acknowledged
    assert consumer.fetch(4, timeout=LONG).first_seq == 2


def test_an_ordered_consumer_says_it_too(js, stream):
    with stream.ordered_consumer(filter_subjects=f"{stream.name}.b") as ordered:
        fill(js, stream, 2)
        assert "has 2 messages, and none matches" in why_not(ordered)
        js.delete_consumer(stream.name, ordered.name)
        assert "does not exist" in why_not(ordered)
        assert len(ordered.fetch_no_wait(1)) == 0
        assert "match" in why_not(ordered)
        assert ordered.lag().num_pending == 0
    with pytest.raises(jetsync.ConfigError, match="closed"):
        ordered.info()
