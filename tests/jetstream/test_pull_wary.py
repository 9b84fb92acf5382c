"""Pulls after a change of leader, and of an inbox that is no more: against a scripted server."""

from __future__ import annotations

import json
import threading
import time

import pytest

import jetsync
from jetsync.jetstream.pull.options import IDLE_HEARTBEAT, WARY_HEARTBEAT
from tests.harness.waiting import wait_until
from tests.jetstream.scripted import PATIENCE, scripted_consumer


def heartbeat(pull):
    return json.loads(pull.payload).get("idle_heartbeat", 0) / 1e9


def expires(pull):
    return json.loads(pull.payload)["expires"] / 1e9


def taken(messages):
    """Take until one comes; returns it."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            return messages.next(timeout=0.02)
        except jetsync.TimeoutError:
            continue
    raise AssertionError("no message came")


def poll_until(messages, condition):
    """Take, in vain, until the condition holds: a stream is at work while it is read."""

    def look():
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=0.02)
        return condition()

    return wait_until(look, timeout=PATIENCE)


def pulls_of(scripted, count):
    return lambda: len(scripted.pulls()) >= count


@pytest.fixture
def watched():
    """A scripted consumer, and the errors that were told."""
    errors: list[Exception | None] = []
    with scripted_consumer(on_error=lambda event: errors.append(event.error)) as one:
        yield one, errors


def test_a_pull_that_a_stepping_down_leader_swallows_is_sent_again(watched):
    """The pull behind a 409 Leadership Change gets neither message nor heartbeat: it is replaced
    after two short heartbeats, and no warning is given."""
    scripted, errors = watched
    warnings: list[Exception] = []
    with scripted.consumer.messages(on_warning=warnings.append) as messages:
        poll_until(messages, pulls_of(scripted, 1))
        assert heartbeat(scripted.pulls()[0]) == IDLE_HEARTBEAT

        def stepping_down():
            """The two pulls after it, and seconds until the second of them was there."""
            pulls = scripted.pulls()
            said = time.monotonic()
            scripted.say(pulls[-1], 409, "Leadership Change")
            poll_until(messages, pulls_of(scripted, len(pulls) + 2))
            wary, again = scripted.pulls()[len(pulls) :][:2]
            return wary, again, time.monotonic() - said

        # Short heartbeats last for a second; a machine that paused that long shows nothing of them.
        attempts = (stepping_down() for _ in range(10))
        wary, again = next((one, two) for one, two, seconds in attempts if seconds < 1.0)
        assert heartbeat(wary) == heartbeat(again) == WARY_HEARTBEAT
        # The server ends it soon, so the usual pulls are back after a moment.
        assert expires(wary) <= 2
        scripted.deliver(again, b"x")
        assert taken(messages).data == b"x"
    assert warnings == []
    scripted.nc.flush(PATIENCE)
    assert errors == []


def test_pulls_are_as_usual_again_after_a_moment(watched):
    scripted, _ = watched
    with scripted.consumer.messages() as messages:
        poll_until(messages, pulls_of(scripted, 1))
        scripted.say(scripted.pulls()[0], 409, "Server Shutdown")
        poll_until(messages, pulls_of(scripted, 2))
        assert heartbeat(scripted.pulls()[1]) == WARY_HEARTBEAT
        begun = time.monotonic()
        while heartbeat(scripted.pulls()[-1]) == WARY_HEARTBEAT:
            assert time.monotonic() - begun < PATIENCE
            count = len(scripted.pulls())
            scripted.say(scripted.pulls()[-1], 408, "Request Timeout")
            poll_until(messages, pulls_of(scripted, count + 1))
        assert heartbeat(scripted.pulls()[-1]) == IDLE_HEARTBEAT


def test_a_fetch_whose_pull_is_swallowed_asks_again(watched):
    scripted, errors = watched
    result = []
    thread = threading.Thread(
        target=lambda: result.extend(scripted.consumer.fetch(1, timeout=PATIENCE))
    )
    thread.start()
    (usual,) = scripted.wait_for_pulls(1)
    assert heartbeat(usual) == IDLE_HEARTBEAT
    scripted.say(usual, 409, "Leadership Change")
    pulls = scripted.wait_for_pulls(3)
    assert [heartbeat(pull) for pull in pulls[1:3]] == [WARY_HEARTBEAT] * 2
    scripted.deliver(scripted.pulls()[-1], b"x")
    thread.join(PATIENCE)
    assert [msg.data for msg in result] == [b"x"]
    assert errors == []


# -- an inbox that is no more ----------------------------------------------------------------------


def outcome(call, results):
    try:
        results.append(call())
    except jetsync.Error as error:
        results.append(error)


def refuse_inbox(scripted):
    """The server may not let us have what the pull is to be answered on."""
    inbox = scripted.frames(b"SUB")[-1].subject.split(b" ")[0]
    scripted.tell(b"-ERR 'Permissions Violation for Subscription to \"" + inbox + b"\"'\r\n")


@pytest.mark.parametrize("kind", ["fetch", "messages"])
def test_a_refused_inbox_is_told_at_once(watched, kind):
    """Nothing can ever come: waiting for the end of the time, busily at that, would be no help."""
    scripted, _ = watched
    results: list[object] = []
    if kind == "fetch":
        call = lambda: scripted.consumer.fetch(1, timeout=600)  # noqa: E731
    else:
        call = lambda: scripted.consumer.messages().next(timeout=600)  # noqa: E731
    thread = threading.Thread(target=outcome, args=(call, results))
    thread.start()
    scripted.wait_for_pulls(1)
    refuse_inbox(scripted)
    thread.join(PATIENCE)
    assert [type(one) for one in results] == [jetsync.PermissionsError]


@pytest.mark.parametrize("came", [0, 1])
def test_a_fetch_ends_when_its_connection_drains(watched, came):
    """While callbacks of other subscriptions finish it must not wait busily."""
    scripted, _ = watched
    results: list[object] = []
    thread = threading.Thread(
        target=outcome, args=(lambda: scripted.consumer.fetch(5, timeout=600), results)
    )
    thread.start()
    (pull,) = scripted.wait_for_pulls(1)
    scripted.deliver(pull, *[b"x"] * came)
    entered, leave = threading.Event(), threading.Event()

    def callback(msg):
        entered.set()
        leave.wait(PATIENCE)

    slow = scripted.nc.subscribe("slow", callback=callback)
    scripted.nc.flush(PATIENCE)
    scripted.send_to(slow, b"slow")
    assert entered.wait(PATIENCE)
    drainer = threading.Thread(target=scripted.nc.drain, args=(PATIENCE,))
    drainer.start()
    thread.join(PATIENCE)  # the callback is still at work
    leave.set()
    drainer.join(PATIENCE)
    errors = [one.error if isinstance(one, jetsync.MsgBatch) else one for one in results]
    assert [type(error) for error in errors] == [jetsync.DrainingError]
