"""What users give by mistake is refused at once, with words that help."""

from __future__ import annotations

from datetime import timedelta

import pytest

import jetsync

LONG = 20.0


async def from_elsewhere(msg):
    """A callback as libraries with an event loop want it."""


@pytest.fixture
def consumer(stream):
    return stream.create_consumer(durable_name="c")


@pytest.mark.parametrize("count", [0, -1, "10", 1.5, True])
def test_counts_are_whole_numbers_of_one_or_more(js, nc, stream, consumer, count):
    ordered = js.ordered_consumer(stream.name)
    js.publish(f"{stream.name}.a")
    msg = consumer.next(timeout=LONG)
    before = nc.stats.out_messages
    for call in (
        lambda: consumer.fetch(count),
        lambda: consumer.fetch(max_bytes=count),
        lambda: consumer.fetch_no_wait(count),
        lambda: consumer.messages(max_messages=count),
        lambda: consumer.messages(max_bytes=count),
        lambda: consumer.messages(stop_after=count),
        lambda: next(consumer.messages().batches(count)),
        lambda: ordered.fetch(count),
        lambda: ordered.fetch(max_bytes=count),
        lambda: ordered.fetch_no_wait(count),
        lambda: ordered.messages(max_messages=count),
        lambda: ordered.messages(stop_after=count),
        lambda: msg.ack_next(count),
        lambda: msg.ack_next(max_bytes=count),
    ):
        with pytest.raises(jetsync.ConfigError, match="must be 1 or more"):
            call()
    assert nc.stats.out_messages == before


@pytest.mark.parametrize(
    ("callback", "words"),
    [("print", "a function, not str"), (from_elsewhere, "no event loop"), (7, "a function")],
)
def test_callbacks_are_ordinary_functions(js, nc, stream, consumer, callback, words):
    before = nc.stats.out_messages
    for call in (
        lambda: nc.subscribe("a", callback=callback),
        lambda: js.subscribe(f"{stream.name}.a", callback=callback),
        lambda: consumer.consume(callback),
    ):
        with pytest.raises(jetsync.ConfigError, match=words):
            call()
    assert nc.stats.out_messages == before
    with pytest.raises(jetsync.ConfigError, match=words):
        js.ordered_consumer(stream.name).consume(callback)


def test_a_name_in_the_place_of_a_configuration_is_told_where_it_belongs(js, stream):
    for call in (
        lambda: js.create_stream("ORDERS"),
        lambda: stream.create_consumer("ORDERS"),
        lambda: js.update_stream("ORDERS"),
    ):
        with pytest.raises(jetsync.ConfigError, match="name='ORDERS'"):
            call()


def test_a_subject_that_no_stream_takes_is_named(js):
    with pytest.raises(jetsync.NotStoredError, match=r"'nothing\.takes\.this'.* no stream takes"):
        js.publish("nothing.takes.this", timeout=0.3)


@pytest.mark.parametrize(
    ("option", "values", "words"),
    [
        ("expected_stream", ("", 5, "a b"), "stream name"),
        ("expected_last_msg_id", ("", 5), "expected_last_msg_id must be"),
        ("expected_last_seq", (-1, "1", 1.5, True, 10**30), "expected_last_seq must be"),
        ("expected_last_subject_seq", (-1, 10**30), "expected_last_subject_seq must be"),
    ],
)
def test_what_a_message_expects_is_checked_before_it_is_sent(js, nc, stream, option, values, words):
    subject, before = f"{stream.name}.a", nc.stats.out_messages
    for value in values:
        for publish in (js.publish, js.publish_async, js.batch().add):
            with pytest.raises(jetsync.ConfigError, match=words):
                publish(subject, b"", **{option: value})
        if option == "expected_stream":
            with pytest.raises(jetsync.ConfigError, match=words):
                js.publish_many([(subject, b"")], expected_stream=value)
    with pytest.raises(jetsync.ConfigError, match="subject"):
        js.publish(subject, expected_last_subject_seq=0, expected_last_subject_filter="a b")
    assert nc.stats.out_messages == before


@pytest.mark.parametrize("delay", [-1, "1", float("nan"), float("inf"), 1e12])
def test_a_delay_that_the_wire_does_not_hold_leaves_the_message_open(js, stream, consumer, delay):
    js.publish_many([(f"{stream.name}.a", b"")] * 2)
    batch = consumer.fetch(2, timeout=LONG)
    with pytest.raises(jetsync.ConfigError, match="delay must"):
        batch[0].nak(delay)
    with pytest.raises(jetsync.ConfigError, match="delay must"):
        batch.nak(delay)
    assert not batch[0].is_acked


def test_a_reason_is_one_line_of_text(js, stream, consumer):
    js.publish(f"{stream.name}.a")
    msg = consumer.next(timeout=LONG)
    for reason in (5, b"no", "one\ntwo"):
        with pytest.raises(jetsync.ConfigError, match=r"the reason of term\(\)"):
            msg.term(reason)
    assert not msg.is_acked


def test_the_end_of_a_pause_is_a_point_in_time(stream, consumer):
    for until in (60, timedelta(seconds=60), "tomorrow", None):
        with pytest.raises(jetsync.ConfigError, match="a time must be a datetime"):
            consumer.pause(until)


@pytest.mark.parametrize("number", [-2, 1.5, "1", True])
def test_the_resets_of_an_ordered_consumer_are_a_number(js, stream, number):
    with pytest.raises(jetsync.ConfigError, match="max_reset_attempts must be -1 or more"):
        js.ordered_consumer(stream.name, max_reset_attempts=number)
