"""Consuming: fetch, next, messages, consume, acknowledgements, columns, faults."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timezone

import pytest

import jetsync
from tests.harness.waiting import wait_until
from tests.jetstream.messages import fill, numbers


@pytest.fixture
def consumer(stream):
    with stream.create_consumer(durable_name="c", ack_wait=30) as made:
        yield made


def test_fetch_returns_what_is_there_with_metadata(js, stream, consumer):
    fill(js, stream, 10)
    batch = consumer.fetch(10, timeout=5)
    assert numbers(batch) == list(range(10))
    assert (batch.first_seq, batch.last_seq, batch.error) == (1, 10, None)
    metadata = batch[3].metadata
    assert (metadata.stream, metadata.consumer) == (stream.name, "c")
    assert (metadata.stream_seq, metadata.consumer_seq, metadata.num_delivered) == (4, 4, 1)
    assert abs((datetime.now(timezone.utc) - metadata.timestamp).total_seconds()) < 60
    assert batch[0].is_acked is False


@pytest.mark.timed
def test_an_empty_fetch_takes_its_time_and_is_no_error(consumer, in_time):
    with in_time(0.4, least=0.3):
        assert len(consumer.fetch(5, timeout=0.4)) == 0


def test_fetch_no_wait_takes_what_is_there(js, stream, consumer):
    assert len(consumer.fetch_no_wait(10)) == 0
    fill(js, stream, 4)
    wait_until(lambda: consumer.info().num_pending == 4)
    assert numbers(consumer.fetch_no_wait(10)) == [0, 1, 2, 3]
    assert len(consumer.fetch_no_wait(10)) == 0


def test_next_is_one_message_or_a_timeout(js, stream, consumer):
    with pytest.raises(jetsync.TimeoutError):
        consumer.next(timeout=0.2)
    fill(js, stream, 1)
    assert consumer.next(timeout=2).data == b"0"


def test_a_batch_becomes_columns_without_objects(js, stream, consumer):
    js.publish(f"{stream.name}.a", b"1", headers={"K": ["v", "w"]})
    js.publish(f"{stream.name}.b", b"\xff", msg_id=None)
    table = consumer.fetch(2, timeout=2).to_arrow()
    table.validate(full=True)
    assert table["data"].to_pylist() == [b"1", b"\xff"]
    assert table["stream_seq"].to_pylist() == [1, 2]
    assert ("K", [b"v", b"w"]) in table["headers"].to_pylist()[0]
    assert table["headers"].to_pylist()[1] is None


def test_several_threads_fetch_from_one_consumer(js, stream, consumer):
    fill(js, stream, 2_000)
    got = []

    def work():
        while batch := consumer.fetch(50, timeout=1):
            got.extend(numbers(batch))
            batch.ack()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(got) == list(range(2_000))


def test_a_deleted_consumer_is_told_at_once(js, stream, consumer):
    threading.Timer(0.3, lambda: js.delete_consumer(stream.name, "c")).start()
    start = time.monotonic()
    with pytest.raises(jetsync.ConsumerDeletedError):
        consumer.fetch(1, timeout=20)
    assert time.monotonic() - start < 5
    with pytest.raises(jetsync.ConsumerDeletedError):
        consumer.fetch(1, timeout=20)


def test_messages_refill_themselves_and_stop_after(js, stream, consumer):
    fill(js, stream, 5_000)
    with consumer.messages(max_messages=100, stop_after=4_000) as messages:
        got = []
        for msg in messages:
            got.append(int(msg.data))
            msg.ack()
            assert messages.pending <= 100
    assert got == list(range(4_000))
    wait_until(lambda: consumer.info().num_ack_pending == 0, timeout=5)


def test_a_message_over_max_bytes_is_told_and_not_asked_for_in_a_loop(js, stream, consumer, nc):
    js.publish(f"{stream.name}.a", b"x" * 10_000)
    warnings: list[Exception] = []
    with consumer.messages(max_bytes=1_000, on_warning=warnings.append) as messages:
        before = nc.stats.out_messages
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=0.5)
        assert 1 <= len(warnings) <= 4
        assert nc.stats.out_messages - before <= 5
    assert "max_bytes" in str(warnings[0])


def test_message_streams_time_out_stop_and_drain(js, stream, consumer):
    messages = consumer.messages(max_messages=10)
    with pytest.raises(jetsync.TimeoutError):
        messages.next(timeout=0.1)
    fill(js, stream, 5)
    first = messages.next(timeout=2)
    wait_until(lambda: messages.pending == 4, timeout=5)
    messages.drain()
    assert numbers([first, *messages]) == [0, 1, 2, 3, 4]
    messages.stop()
    with pytest.raises(jetsync.ConnectionClosedError):
        messages.next(timeout=0.1)


def test_leaving_a_loop_hands_the_rest_back(js, stream, consumer):
    fill(js, stream, 5)
    for msg in consumer.messages(max_messages=10):
        msg.ack()
        break
    assert sorted(numbers(consumer.fetch(4, timeout=5))) == [1, 2, 3, 4]
    wait_until(lambda: consumer.info().num_waiting == 0, timeout=5)


def test_consume_ends_with_an_error_when_the_consumer_is_deleted(js, stream, consumer):
    # The server can swallow a pull that races with the deletion: only heartbeats tell then.
    with consumer.consume(lambda msg: None, heartbeat=0.5) as context:
        js.delete_consumer(stream.name, "c")
        assert context.wait(10)
    assert isinstance(context.error, jetsync.ConsumerDeletedError)


def test_ack_subjects_of_both_forms_are_read():
    v1 = jetsync.parse_ack_subject("$JS.ACK.S.C.1.2.3.1795229586547204964.5")
    v2 = jetsync.parse_ack_subject("$JS.ACK.hub.hash.S.C.1.2.3.1795229586547204964.5.more")
    assert (v1.stream, v1.stream_seq, v1.domain) == ("S", 2, None)
    assert (v2.consumer, v2.num_pending, v2.domain, v2.account_hash) == ("C", 5, "hub", "hash")
    for bad in ("", "a.b", "$JS.ACK.S.C.1.2.3.4", "$JS.ACK.S.C.1.2.3.4.5.6"):
        with pytest.raises(jetsync.NotJetStreamMessageError):
            jetsync.parse_ack_subject(bad)


@pytest.mark.parametrize("call", ["fetch", "fetch_no_wait"])
def test_a_consumer_that_waits_for_acknowledgements_is_told(url, js, stream, call):
    """At max_ack_pending an empty batch is not the end of the messages."""
    told: list[object] = []
    with jetsync.connect(url, on_error=lambda event: told.append(event.error)) as nc:
        theirs = nc.jetstream().stream(stream.name)
        consumer = theirs.create_consumer(durable_name="full", max_ack_pending=5)
        fill(js, stream, 10)
        assert len(consumer.fetch(5, timeout=5)) == 5
        for _ in range(2):
            if call == "fetch":
                assert len(consumer.fetch(5, timeout=2)) == 0
            else:
                assert len(consumer.fetch_no_wait(5)) == 0
        wait_until(lambda: told, timeout=20)
    assert [type(error) for error in told] == [jetsync.SlowAckWarning]
    assert "5 messages are not acknowledged" in str(told[0])
