"""Pulling from a scripted server: what cannot be provoked on a real one."""

from __future__ import annotations

import json
import threading
import time
from queue import SimpleQueue

import pytest

import jetsync
from jetsync.jetstream.pull.batch import BatchPull
from jetsync.jetstream.pull.options import PullOptions
from tests.harness.waiting import wait_until
from tests.jetstream.scripted import PATIENCE


def test_interest_expired_ends_a_fetch_quietly(scripted):
    """408 Interest Expired: a pull whose reply was mapped through an account import."""
    result = []
    thread = threading.Thread(
        target=lambda: result.append(scripted.consumer.fetch(5, timeout=PATIENCE))
    )
    thread.start()
    (pull,) = scripted.wait_for_pulls(1)
    scripted.deliver(pull, b"x", b"y")
    scripted.say(pull, 408, "Interest Expired", Nats_Pending_Messages=3, Nats_Pending_Bytes=0)
    thread.join(PATIENCE)
    assert [msg.data for msg in result[0]] == [b"x", b"y"]
    assert result[0].error is None


def test_an_unknown_status_is_told_and_pulled_again(scripted):
    warnings: list[Exception] = []
    with scripted.consumer.messages(on_warning=warnings.append) as messages:
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=0.1)
        scripted.say(scripted.wait_for_pulls(1)[0], 418, "Teapot")
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=0.5)
        pulls = scripted.wait_for_pulls(2)
        scripted.deliver(pulls[-1], b"x")
        assert messages.next(timeout=PATIENCE).data == b"x"
    assert "418 Teapot" in str(warnings[0])


def test_refusals_are_not_answered_with_a_flood(scripted):
    """Whatever refuses now refuses in a millisecond: pulls back off."""
    with scripted.consumer.messages() as messages:
        for answered in range(1, 6):
            while len(scripted.pulls()) < answered:
                _poll(messages)
            scripted.say(scripted.pulls()[-1], 409, "Exceeded MaxWaiting")
        before = len(scripted.pulls())
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=0.5)
        assert len(scripted.pulls()) - before <= 1


def _poll(messages):
    with pytest.raises(jetsync.TimeoutError):
        messages.next(timeout=0.02)


def test_the_body_of_a_pull_has_what_was_asked_for_and_no_more():
    body = json.loads(PullOptions(batch=5, expires=4.99).body())
    assert body == {"batch": 5, "expires": 4_990_000_000}
    body = json.loads(
        PullOptions(
            batch=1,
            expires=0,
            max_bytes=9,
            heartbeat=0.5,
            no_wait=True,
            group="g",
            priority=0,
            id="p",
        ).body()
    )
    assert body == {
        "batch": 1,
        "max_bytes": 9,
        "idle_heartbeat": 500_000_000,
        "no_wait": True,
        "group": "g",
        "priority": 0,
        "id": "p",
    }


def test_memory_is_bounded_while_no_thread_takes(scripted):
    """A server that sends what was asked for fills the buffer and no more: nothing else is asked
    for until messages are taken."""
    with scripted.consumer.messages(max_messages=20) as messages:
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=0.05)
        (pull,) = scripted.wait_for_pulls(1)
        assert json.loads(pull.payload)["batch"] == 20
        scripted.deliver(pull, *[b"x"] * 20)
        wait_until(lambda: messages.pending == 20, timeout=PATIENCE)
        for left in range(19, 10, -1):
            messages.next(timeout=1)
            assert messages.pending == left
            assert len(scripted.pulls()) == 1
        messages.next(timeout=1)
        assert json.loads(scripted.wait_for_pulls(2)[1].payload)["batch"] == 10


def test_a_server_that_falls_silent_after_messages_came_one_by_one_is_asked_again(scripted):
    """A turn that gave its message and changed nothing leaves the next check as it was set."""
    got: SimpleQueue[bytes] = SimpleQueue()
    with scripted.consumer.consume(lambda msg: got.put(msg.data), heartbeat=0.5):
        (pull,) = scripted.wait_for_pulls(1)
        for number in range(1, 6):
            scripted.deliver(pull, b"%d" % number, seq=number)
            assert got.get(timeout=PATIENCE) == b"%d" % number
        again = scripted.wait_for_pulls(2)[1]  # two heartbeats later
        scripted.deliver(again, b"6", seq=6)
        assert got.get(timeout=PATIENCE) == b"6"


def test_a_fetch_that_had_no_time_to_ask_again_is_answered(scripted, monkeypatch):
    """The system stops the thread between the end of a pull, before that of the call, and the next
    one."""
    asks_again = BatchPull._asks_again

    def stopped(self, inbox, ended):
        again = asks_again(self, inbox, ended)
        time.sleep(max(0.0, self._ends_at - time.monotonic()))  # the stop itself
        return again

    monkeypatch.setattr(BatchPull, "_asks_again", stopped)
    batches = []
    thread = threading.Thread(
        target=lambda: batches.append(scripted.consumer.fetch(1, timeout=PATIENCE / 10))
    )
    thread.start()
    scripted.say(scripted.wait_for_pulls(1)[0], 408, "Request Timeout")
    thread.join(PATIENCE)
    (batch,) = batches
    assert (len(batch), batch.error, len(scripted.pulls())) == (0, None, 1)
