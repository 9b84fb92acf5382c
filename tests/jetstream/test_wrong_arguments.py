"""What users give by mistake is refused at once, with words that help."""

from __future__ import annotations

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
