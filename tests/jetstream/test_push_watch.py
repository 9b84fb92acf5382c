"""The alarm of a push subscription, with counts of bytes and a clock: no server."""

from __future__ import annotations

import heapq
import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from jetsync.jetstream.push.watch import HeartbeatWatch

BEAT, ALARM = 1.0, 3.0


class World:
    """A port with a clock, without heartbeats. ``unread``: whether bytes of others come."""

    def __init__(self) -> None:
        self.now = 100.0
        self.closed = False
        self.linked = True
        self.rtt = 0.01
        self.unread = False
        self.reads = 0
        self.sign = (self.now, 0)
        self.pong_takes = 0.1
        self.alarms: list[float] = []
        self._due: list[tuple[float, int, Any]] = []
        self._number = itertools.count()
        self.later(0.5, self._receive)

    def has_unread(self) -> bool:
        return self.unread

    def later(self, seconds: float, function: Any) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._number), function))

    def after_pong(self, function: Any) -> None:
        self.later(self.pong_takes, function)

    def _receive(self) -> None:
        """Something for another subscription comes twice a second."""
        if self.unread:
            self.reads += 1
        self.later(0.5, self._receive)

    def beat(self) -> None:
        self.reads += 1
        self.sign = (self.now, self.reads)

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self._due[0][0] <= until:
            self.now, _, function = heapq.heappop(self._due)
            function()
        self.now = until


@pytest.fixture
def world(monkeypatch):
    world = World()
    clock = SimpleNamespace(monotonic=lambda: world.now)
    monkeypatch.setattr("jetsync.jetstream.push.watch.time", clock)
    port: Any = world
    HeartbeatWatch(
        port,
        BEAT,
        ALARM,
        last_sign=lambda: world.sign,
        on_silence=lambda: world.alarms.append(world.now),
        on_tick=lambda: None,
    ).tick()
    return world


def test_a_lost_consumer_is_told_on_a_link_that_always_has_unread_bytes(world):
    world.unread = True
    world.run(2 * ALARM)
    assert len(world.alarms) == 1
    world.run(10 * ALARM)
    assert len(world.alarms) == 1


def test_heartbeats_behind_a_large_message_are_not_missed(world):
    """The PONG comes behind the message too."""
    world.unread = True
    world.pong_takes = 20.0
    world.run(20.0)
    world.beat()
    world.unread = False
    world.run(ALARM - 0.1)
    assert world.alarms == []
    # The PONG of then says nothing about the silence that begins now.
    world.unread = True
    world.run(4.0)
    assert world.alarms == []
    world.run(20.0)
    assert len(world.alarms) == 1


def test_a_link_on_which_nothing_comes_needs_no_ping(world):
    world.pong_takes = 1000.0
    world.run(ALARM + 0.1)
    assert len(world.alarms) == 1


def test_a_link_that_falls_silent_while_the_pong_is_awaited_is_silent(world):
    world.pong_takes = 1000.0
    world.unread = True
    world.run(ALARM + 1)
    world.unread = False
    world.run(3 * BEAT)
    assert len(world.alarms) == 1
