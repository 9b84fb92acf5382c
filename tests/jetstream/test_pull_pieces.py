"""A pull that is taken in pieces: what came first is there before the rest."""

from __future__ import annotations

from contextlib import closing

import pytest

import jetsync
from jetsync.jetstream.access import begin_fetch
from tests.harness.waiting import wait_until
from tests.jetstream.messages import fill, numbers

PATIENCE = 30.0
SIZE = 1 << 20


@pytest.fixture
def consumer(stream):
    return stream.create_consumer(durable_name="c", ack_policy="none")


def begin(consumer, count, *, size=SIZE, timeout=PATIENCE):
    return closing(begin_fetch(consumer, count, max_bytes=size, timeout=timeout))


def test_the_first_messages_are_given_while_the_rest_is_still_to_come(
    js, stream, consumer, monkeypatch
):
    """Nothing else ends the wait for them: there are no heartbeats."""
    monkeypatch.setattr("jetsync.jetstream.consumers.consumer.heartbeat_for", lambda *_: None)
    fill(js, stream, 5)
    with begin(consumer, 10) as pull:
        assert numbers(pull.take(5)) == [0, 1, 2, 3, 4]
        assert not pull.is_over
        fill(js, stream, 5, start=5)
        assert numbers(pull.take(10)) == [5, 6, 7, 8, 9]
        assert pull.is_over


def test_a_pull_is_sent_when_it_begins_and_fills_the_inbox_by_itself(js, stream, consumer):
    fill(js, stream, 10)
    with begin(consumer, 10) as pull:
        wait_until(lambda: consumer.info().num_pending == 0, message="all is delivered")
        assert numbers(pull.take(1)) == list(range(10))
        assert pull.is_over


def test_a_pull_whose_time_went_by_between_two_pieces_is_asked_for_again(js, stream, consumer):
    """The client may work for longer on a piece than the server keeps a pull."""
    fill(js, stream, 5)
    with begin(consumer, 10, timeout=1.0) as pull:
        assert numbers(pull.take(5)) == [0, 1, 2, 3, 4]
        wait_until(lambda: consumer.info().num_waiting == 0, message="the pull has ended")
        fill(js, stream, 5, start=5)
        assert numbers(pull.take(5)) == [5, 6, 7, 8, 9]


def test_a_pull_that_its_bytes_have_ended_gives_an_empty_last_piece(js, stream, consumer):
    for n in range(4):
        js.publish(f"{stream.name}.a", b"%d" % n * 1000)
    with begin(consumer, 4, size=3000) as pull:
        given = [len(pull.take(1))]
        while not pull.is_over:
            given.append(len(pull.take(1)))
    assert sum(given) == 2
    assert consumer.info().num_pending == 2


def test_a_pull_that_brings_nothing_in_time_ends_empty(consumer):
    with begin(consumer, 4, timeout=0.3) as pull:
        assert len(pull.take(1)) == 0
        assert pull.is_over


def test_what_a_given_up_pull_brings_is_there_for_the_next_one(js, stream, consumer):
    fill(js, stream, 5)
    with begin(consumer, 10) as pull:
        assert numbers(pull.take(5)) == [0, 1, 2, 3, 4]
    fill(js, stream, 5, start=5)
    with begin(consumer, 5) as pull:
        assert numbers(pull.take(5)) == [5, 6, 7, 8, 9]


def test_a_piece_of_what_is_there_already_waits_for_nothing_more(js, stream, consumer, monkeypatch):
    monkeypatch.setattr("jetsync.jetstream.consumers.consumer.heartbeat_for", lambda *_: None)
    fill(js, stream, 5)
    with begin(consumer, 5):
        wait_until(lambda: consumer.info().num_pending == 0, message="all is delivered")
    with begin(consumer, 10) as pull:
        assert numbers(pull.take(5)) == [0, 1, 2, 3, 4]
        assert not pull.is_over


def test_a_consumer_that_is_deleted_between_two_pieces_is_told(js, stream, consumer):
    fill(js, stream, 5)
    with begin(consumer, 10) as pull:
        pull.take(5)
        js.delete_consumer(stream.name, "c")
        with pytest.raises(jetsync.ConsumerDeletedError):
            pull.take(5)
        assert pull.is_over
