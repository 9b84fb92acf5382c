"""A pull that is taken in pieces: what came first is there before the rest."""

from __future__ import annotations

from contextlib import closing

import pytest

import jetsync
from jetsync.jetstream.access import begin_fetch
from tests.harness.tap import Tap
from tests.harness.waiting import wait_until
from tests.jetstream.messages import fill, numbers

PATIENCE = 30.0
SIZE = 1 << 20


@pytest.fixture
def consumer(stream):
    return stream.create_consumer(durable_name="c", ack_policy="none")


@pytest.fixture
def held(stream):
    """A consumer that delivers five messages, and five more when those are acknowledged."""
    return stream.create_consumer(durable_name="held", max_ack_pending=5)


def begin(consumer, count, *, size=SIZE):
    return closing(begin_fetch(consumer, count, max_bytes=size, timeout=PATIENCE))


def test_the_first_messages_are_given_while_the_rest_is_still_to_come(js, stream, held):
    fill(js, stream, 10)
    with begin(held, 10) as pull:
        piece = pull.take(5)
        assert numbers(piece) == [0, 1, 2, 3, 4]
        assert not pull.is_over
        piece.ack()
        assert numbers(pull.take(10)) == [5, 6, 7, 8, 9]
        assert pull.is_over


def test_a_pull_is_sent_when_it_begins_and_fills_the_inbox_by_itself(js, stream, consumer):
    fill(js, stream, 10)
    with begin(consumer, 10) as pull:
        wait_until(lambda: consumer.info().num_pending == 0, message="all is delivered")
        assert numbers(pull.take(1)) == list(range(10))
        assert pull.is_over


def test_a_pull_has_no_time_for_the_server_to_look_at(js, stream, url):
    """With an expiry or heartbeats it would ask the clock for each message."""
    asked = []

    def note(frame):
        if b".CONSUMER.MSG.NEXT." in frame.subject:
            asked.append(frame.body)
        return frame.raw

    stream.create_consumer(durable_name="c", ack_policy="none")
    fill(js, stream, 5)
    with Tap(url) as tap:
        tap.to_server = note
        with jetsync.connect(tap.url) as nc:
            consumer = nc.jetstream().consumer(stream.name, "c")
            with begin(consumer, 5) as pull:
                assert len(pull.take(5)) == 5
    assert asked == [b'{"batch":5,"max_bytes":%d,"no_wait":true}' % SIZE]


def test_a_pull_ends_where_the_consumer_has_nothing_more(js, stream, consumer):
    """It waits for no messages that are stored later."""
    fill(js, stream, 5)
    with begin(consumer, 10) as pull:
        assert numbers(pull.take(10)) == [0, 1, 2, 3, 4]
        assert pull.is_over


def test_a_pull_of_nothing_ends_empty(consumer):
    with begin(consumer, 4) as pull:
        assert len(pull.take(1)) == 0
        assert pull.is_over


def test_a_pull_that_its_bytes_have_ended_gives_an_empty_last_piece(js, stream, consumer):
    for n in range(4):
        js.publish(f"{stream.name}.a", b"%d" % n * 1000)
    with begin(consumer, 4, size=3000) as pull:
        given = [len(pull.take(1))]
        while not pull.is_over:
            given.append(len(pull.take(1)))
    assert sum(given) == 2
    assert consumer.info().num_pending == 2


def test_what_a_given_up_pull_brings_is_there_for_the_next_one(js, stream, held):
    fill(js, stream, 10)
    with begin(held, 10) as pull:
        piece = pull.take(5)
        assert numbers(piece) == [0, 1, 2, 3, 4]
    piece.ack()
    with begin(held, 5) as pull:
        assert numbers(pull.take(5)) == [5, 6, 7, 8, 9]


def test_a_piece_of_what_is_there_already_waits_for_nothing_more(js, stream, consumer):
    fill(js, stream, 5)
    with begin(consumer, 5):
        wait_until(lambda: consumer.info().num_pending == 0, message="all is delivered")
    with begin(consumer, 10) as pull:
        assert numbers(pull.take(5)) == [0, 1, 2, 3, 4]
        assert not pull.is_over


def test_a_consumer_that_is_deleted_between_two_pieces_is_told(js, stream, held):
    fill(js, stream, 10)
    with begin(held, 10) as pull:
        pull.take(5)
        js.delete_consumer(stream.name, "held")
        with pytest.raises(jetsync.ConsumerDeletedError):
            pull.take(5)
        assert pull.is_over
