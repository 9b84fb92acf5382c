"""A message, or its answer, that a leader loses as it steps down is told from a slow one (P3)."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

import jetsync
from jetsync.jetstream.publish import one, window_keeper
from jetsync.jetstream.publish.outcome import PERSISTENCE
from jetsync.jetstream.publish.unanswered import Unanswered
from tests.harness.waiting import wait_until
from tests.jetstream.test_publish_outcomes import (
    COPY,
    IN_PROCESS,
    NO_STREAM,
    NOTHING,
    STORED,
    playing,
    sync,
    with_future,
)

LONG = 60.0


def test_a_message_is_sent_again_after_half_a_second_then_after_twice_as_long(monkeypatch):
    waits: list[float] = []
    real = jetsync.client.requests.Exchange.ask

    def ask(exchange, deadline, link=0):
        if exchange._subject == "s":
            waits.append(deadline.timeout)
        return real(exchange, deadline, link)

    assert PERSISTENCE.silence == 0.5
    with playing(NOTHING, NOTHING, COPY) as (js, stream):
        monkeypatch.setattr(jetsync.client.requests.Exchange, "ask", ask)
        js.publish("s", b"x", timeout=LONG)
    assert waits == [0.5, 1.0, 2.0]
    assert len(stream.published) == 3


@pytest.mark.parametrize(
    ("publish", "module", "name"),
    [(sync, one, "ask_streams_on"), (with_future, window_keeper, "streams_on")],
    ids=["sync", "with_future"],
)
def test_a_question_that_an_election_swallows_holds_up_the_next_copy_briefly(
    publish, module, name, monkeypatch
):
    """G20: after "no responders" the stream is looked up; two seconds were waited for that."""
    waits: list[float] = []

    def never_answered(api, subject, deadline):
        waits.append(deadline.timeout)
        if module is one:
            raise jetsync.TimeoutError("no answer", operation="request")

    monkeypatch.setattr(module, name, never_answered)
    with playing(NO_STREAM, NO_STREAM, COPY) as (js, stream):
        publish(js, timeout=LONG)
    assert waits
    assert max(waits) <= PERSISTENCE.silence
    assert len(stream.published) == 3


def test_copies_of_a_message_that_a_server_works_on_become_rare():
    with playing(IN_PROCESS) as (js, stream), pytest.raises(jetsync.PublishUnknownError):
        sync(js, timeout=3.5)
    # After 0.25 s, 0.5 s, 1 s; then the time is over.
    assert 2 <= len(stream.published) <= 4


def test_a_lost_message_is_sent_again_although_later_ones_are_answered():
    """It was given up as unknown when its time was over: the later answers hid the silence."""
    with playing(STORED, NOTHING, STORED) as (js, stream):
        with_future(js)
        lost = js.publish_async("s", b"lost", timeout=LONG)
        wait_until(
            lambda: js.publish_async("s", b"later", timeout=LONG).result() and lost.done(),
            timeout=LONG / 2,
        )
        assert lost.result().seq == 7
        assert len(set(stream.published)) < len(stream.published)  # one id came twice


# -- the rule of windows, with a clock of its own --------------------------------------------------


class World:
    """A window, a port, and what was asked of them; PONGs come when the test says so."""

    def __init__(self) -> None:
        self.overtaken = False
        self.window: Any = cast(
            "Any",
            SimpleNamespace(oldest=0, handed_over=10, is_overtaken=lambda number: self.overtaken),
        )
        self.pings: list[Callable[[], object]] = []
        self.woken = 0
        port: Any = SimpleNamespace(rtt=0.01, after_pong=self.pings.append)
        self.unanswered = Unanswered(port, self.window, self._wake)
        self.now = time.monotonic()
        self.unanswered.restart(self.now)

    def _wake(self) -> None:
        self.woken += 1

    def after(self, seconds: float) -> int:
        """Let time pass, and return the number below which messages are lost then."""
        self.now += seconds
        return self.unanswered.lost_below(self.now)

    def pong(self) -> None:
        self.pings.pop()()


PATIENCE = PERSISTENCE.window_silence


def test_silence_means_a_loss_when_a_pong_came_behind_the_messages():
    world = World()
    assert world.after(0.9 * PATIENCE) == 0
    assert not world.pings
    assert world.after(0.2 * PATIENCE) == 0
    assert len(world.pings) == 1
    # The messages are still on a slow link.
    assert world.after(30.0) == 0
    assert len(world.pings) == 1
    world.pong()
    assert world.woken == 1
    assert world.after(1.0) == 10
    # The copies get more time.
    assert world.after(1.9 * PATIENCE) == 0
    assert not world.pings
    world.after(0.2 * PATIENCE)
    assert len(world.pings) == 1


def test_a_slow_pong_gives_the_answers_behind_it_as_long_again(monkeypatch):
    world = World()
    world.after(1.1 * PATIENCE)
    took = 0.4 * PATIENCE
    monkeypatch.setattr(time, "monotonic", lambda: world.now + took)
    world.pong()
    assert world.after(1.9 * took) == 0
    assert world.after(0.2 * took) == 10


def test_a_message_that_a_later_one_overtook_is_lost():
    world = World()
    world.window.handed_over, world.overtaken = 20, True
    world.after(1.1 * PATIENCE)
    world.unanswered.heard(world.now)  # answers come all the time
    world.pong()
    world.unanswered.heard(world.now)
    assert world.after(0.1) == 10  # what left later is not


def test_a_slow_stream_that_answers_in_turn_is_given_its_time():
    world = World()
    for _ in range(20):
        world.unanswered.heard(world.now)
        assert world.after(PATIENCE / 2) == 0
    assert not world.pings


def test_the_patience_begins_anew_when_all_is_settled():
    world = World()
    world.after(1.1 * PATIENCE)
    world.pong()
    assert world.after(0.5) == 10
    world.window.oldest = world.window.handed_over = 10
    assert world.after(0.1) == 0
    world.window.handed_over = 11
    assert world.after(0.1) == 0
    world.after(1.1 * PATIENCE)
    assert len(world.pings) == 1
