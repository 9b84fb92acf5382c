"""What was said about each message of a batch, and what is told when acknowledgements are late."""

from __future__ import annotations

import time

import pytest

import jetsync
from tests.harness.waiting import wait_until
from tests.jetstream.messages import fill, sequences

LONG = 20.0


@pytest.fixture
def patient(stream):
    with stream.create_consumer(durable_name="patient", ack_wait=60) as made:
        yield made


@pytest.fixture
def told(url):
    """A connection of its own, and the warnings that came over it."""
    events: list[jetsync.Event] = []
    with jetsync.connect(url, on_error=events.append) as nc:
        yield nc, lambda: [e.error for e in events if isinstance(e.error, jetsync.SlowAckWarning)]


# -- one message of a batch ------------------------------------------------------------------------


@pytest.mark.parametrize("positive", ["ack", "ack_sync"])
def test_acknowledging_a_batch_leaves_out_what_was_settled_alone(js, stream, patient, positive):
    """Work that failed for one message is not undone by acknowledging the rest."""
    fill(js, stream, 10)
    batch = patient.fetch(10, timeout=LONG)
    batch[2].nak()
    batch[5].term()
    batch[7].ack()
    getattr(batch, positive)()
    again = patient.fetch(10, timeout=1.0)
    assert sequences(again) == [3]
    again.ack_sync(timeout=LONG)
    assert patient.info().num_ack_pending == 0
    assert patient.info().ack_floor.stream_seq == 10


def test_a_batch_sends_nothing_twice(js, nc, stream, patient):
    fill(js, stream, 10)
    batch = patient.fetch(10, timeout=LONG)
    for msg in batch[:4]:
        msg.ack()
    before = nc.stats.out_messages
    batch.in_progress()
    assert nc.stats.out_messages == before + 6
    batch.ack()
    assert nc.stats.out_messages == before + 12
    batch.ack_sync(timeout=LONG)  # confirms all ten, also those acknowledged one by one
    assert nc.stats.out_messages == before + 22
    batch.ack_sync(timeout=LONG)
    batch[0].ack_sync(timeout=LONG)
    assert nc.stats.out_messages == before + 22


def test_every_object_of_a_message_knows_what_was_said(js, nc, stream, patient):
    """Iterating builds new objects; what they stand for is one delivery."""
    fill(js, stream, 3)
    batch = patient.fetch(3, timeout=LONG)
    for msg in batch:
        msg.ack()
    before = nc.stats.out_messages
    for msg in batch:
        assert msg.is_acked
        msg.ack()
        msg.nak()
    assert batch[1].is_acked
    batch.ack()
    batch.nak()
    assert nc.stats.out_messages == before


@pytest.mark.parametrize("settle", ["ack", "nak"])
def test_messages_know_what_was_said_about_their_batch(js, nc, stream, patient, settle):
    fill(js, stream, 3)
    batch = patient.fetch(3, timeout=LONG)
    looked_at = batch[0]
    getattr(batch, settle)()
    before = nc.stats.out_messages
    for msg in (looked_at, batch[1], *batch):
        assert msg.is_acked
        msg.ack()
        msg.term()
    assert nc.stats.out_messages == before


def test_a_refused_message_of_a_batch_is_refused(js, nc, stream, patient):
    """nak() of a whole batch leaves out what was acknowledged alone."""
    fill(js, stream, 4)
    batch = patient.fetch(4, timeout=LONG)
    batch[1].ack_sync(timeout=LONG)
    batch.nak()
    batch.ack_sync(timeout=LONG)  # ignored: it cannot undo the nak
    assert sorted(sequences(patient.fetch(4, timeout=1.0))) == [1, 3, 4]


# -- too late --------------------------------------------------------------------------------------


@pytest.fixture
def hasty(stream):
    stream.create_consumer(durable_name="hasty", ack_wait=1.5)


def later(seconds):
    begun = time.monotonic()
    wait_until(lambda: time.monotonic() - begun > seconds, timeout=LONG)


@pytest.mark.parametrize("positive", ["ack", "ack_sync"])
@pytest.mark.parametrize("whole", [True, False])
def test_late_acknowledgements_are_told_once_for_a_consumer(
    js, stream, hasty, told, positive, whole
):
    """Without a word they look like messages that come again for no reason."""
    nc, warnings = told
    fill(js, stream, 6)
    consumer = nc.jetstream().consumer(stream.name, "hasty")
    batches = [consumer.fetch(3, timeout=LONG), consumer.fetch(3, timeout=LONG)]
    later(1.6)  # longer than ack_wait
    for batch in batches:
        for thing in [batch] if whole else batch:
            getattr(thing, positive)()
    wait_until(warnings, timeout=LONG)
    nc.flush()
    (warning,) = warnings()
    assert warning.ack_wait == 1.5
    assert warning.held > 1.5
    assert "keep_alive" in str(warning)


def test_a_slow_reader_of_a_buffer_is_told(js, stream, hasty, told):
    """The usual case: the buffer holds more than can be worked on within ack_wait."""
    nc, warnings = told
    fill(js, stream, 3)
    with nc.jetstream().consumer(stream.name, "hasty").messages() as messages:
        messages.next(timeout=LONG).ack()
        wait_until(lambda: messages.pending == 2, timeout=LONG)
        later(1.6)  # longer than ack_wait
        messages.next(timeout=LONG).ack()
        wait_until(warnings, timeout=LONG)


def test_who_says_that_work_goes_on_is_not_late(js, stream, told):
    nc, warnings = told
    stream.create_consumer(durable_name="kept", ack_wait=1.5)
    fill(js, stream, 6)
    consumer = nc.jetstream().consumer(stream.name, "kept")
    batch, single = consumer.fetch(5, timeout=LONG), consumer.next(timeout=LONG)
    with batch.keep_alive(), single.keep_alive():
        early = batch[0]
        later(2.5)  # longer than ack_wait, while keep_alive says that work goes on
        early.ack()
        for msg in batch:
            msg.ack()
        single.ack_sync(timeout=LONG)
    nc.flush()
    assert consumer.info().num_redelivered == 0
    assert warnings() == []
