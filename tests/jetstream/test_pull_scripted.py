"""The pull engine against a scripted server: what cannot be provoked, and random orders."""

from __future__ import annotations

import json
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jetsync
from jetsync._core.message import Msg
from jetsync.jetstream.pull.engine import Fate, PullEngine, PullOptions
from jetsync.jetstream.pull.statuses import STATUSES
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


def test_a_status_nobody_knows_is_told_and_pulled_again(scripted):
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


def test_one_pull_can_get_two_last_words(scripted):
    """Finding 5 of the fault tests: 409 Server Shutdown and later 409 Leadership Change for the
    same pull: the second one must not touch the pull that replaced it."""
    engine = PullEngine(scripted.consumer)
    engine.pull(PullOptions(batch=10, expires=5))
    engine.delivered(2)
    ended = engine.on_status(status(engine, 1, "409 Server Shutdown", 10))
    assert ended is not None
    assert ended.fate is Fate.VOID
    engine.pull(PullOptions(batch=8, expires=5))
    assert engine.on_status(status(engine, 1, "409 Leadership Change")) is None
    assert engine.outstanding == 8
    engine.close()


def status(engine, number, line, pending=None):
    counts = (
        "" if pending is None else f"Nats-Pending-Messages: {pending}\r\nNats-Pending-Bytes: 0\r\n"
    )
    return Msg.build(
        f"{engine._inbox}.{number}",
        raw_headers=f"NATS/1.0 {line}\r\n{counts}\r\n".encode(),
        status=int(line.split()[0]),
    )


@pytest.mark.parametrize("row", [row for row in STATUSES if row[2] is not Fate.ALIVE], ids=str)
def test_every_status_that_ends_a_pull_frees_exactly_its_remainder(scripted, row):
    """simplified-jetstream-api, "Buffering messages", corrected: the accounting is per pull."""
    code, text, fate = row
    engine = PullEngine(scripted.consumer)
    engine.pull(PullOptions(batch=10, expires=5, max_bytes=1000))
    engine.pull(PullOptions(batch=20, expires=5, max_bytes=2000))
    engine.delivered(4, 400)
    assert (engine.outstanding, engine.outstanding_bytes) == (26, 2600)
    ended = engine.on_status(status(engine, 1, f"{code} {text}".rstrip()))
    assert ended is not None
    assert ended.fate is fate
    assert (ended.error is not None) == (fate in (Fate.WARN, Fate.FATAL))
    if fate in (Fate.VOID, Fate.FATAL):
        assert engine.outstanding == 0
    else:
        assert (engine.outstanding, engine.outstanding_bytes) == (20, 2000)
    engine.close()


def test_the_accounting_follows_a_server_that_serves_pulls_in_turns(scripted):
    """B13: with counts in its statuses, what is outstanding equals what the server still owes, in
    whatever order it serves, ends and repeats itself. And it is never below zero."""

    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def run(data):
        engine = PullEngine(scripted.consumer)
        owed: dict[int, int] = {}
        said: list[int] = []
        for _ in range(data.draw(st.integers(1, 40))):
            action = data.draw(
                st.sampled_from(["pull", "serve", "end", "again", "void", "negative"])
            )
            if action == "pull" and len(owed) < 4:
                batch = data.draw(st.integers(1, 8))
                engine.pull(PullOptions(batch=batch, expires=60))
                owed[engine._number] = batch
            elif action == "serve" and owed:
                number = data.draw(st.sampled_from(sorted(owed)))
                owed[number] -= 1
                if not owed[number]:
                    del owed[number]
                engine.delivered(1)
            elif action == "end" and owed:
                number = data.draw(st.sampled_from(sorted(owed)))
                engine.on_status(status(engine, number, "408 Request Timeout", owed.pop(number)))
                said.append(number)
            elif action == "void" and owed:
                engine.on_status(status(engine, max(owed), "409 Leadership Change"))
                owed.clear()
            elif action == "negative" and said:
                engine.on_status(status(engine, said[-1], "409 Batch Completed", -1))
            elif action == "again" and said:
                engine.on_status(status(engine, said[-1], "409 Leadership Change"))
            assert engine.outstanding == sum(owed.values())
        engine.close()

    run()


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


def test_memory_is_bounded_while_nobody_takes(scripted):
    """A server that sends what was asked for fills the buffer and no more: nothing else is asked
    for until somebody takes."""
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
