"""Consuming in a cluster: leaders step down, die, and say goodbye (G7, G7b, G20)."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time

import pytest

import jetsync
from jetsync.server import NatsCluster
from tests.harness.soak import scaled
from tests.harness.stalls import Stalls
from tests.harness.waiting import wait_until
from tests.reliability.leaderless import times_without

pytestmark = pytest.mark.timed

STEPDOWNS = scaled(8, 300)
KILLS = scaled(1, 20)
BACKLOG = scaled(10_000, 60_000)  # for five milliseconds each, over all kills
ROLLS = scaled(1, 20)
GOODBYE = {"lame_duck_duration": "30s", "lame_duck_grace_period": "1s"}


class Reader:
    """Takes messages one by one all the time and notes when each came."""

    def __init__(self, js, consumer, *, pause=0.0, **options):
        self.times: list[float] = []
        self.seen: set[int] = set()
        self.error: Exception | None = None
        self._pause = pause
        self._consumer = consumer
        self.stream = js.stream(consumer.stream_name)
        self._stop = threading.Event()
        self._messages = consumer.messages(**options)
        self._thread = threading.Thread(target=self._run, name="reader")
        self._thread.start()

    def _run(self):
        try:
            while not self._stop.is_set():
                with contextlib.suppress(jetsync.TimeoutError):
                    msg = self._messages.next(timeout=1)
                    self.times.append(time.monotonic())
                    self.seen.add(msg.metadata.stream_seq)
                    msg.ack()
                    if self._pause:
                        self._stop.wait(self._pause)
        except Exception as error:
            self.error = error

    def state(self):
        """What both sides believe, for a failure."""
        engine = self._messages._inbox
        lines = [
            f"{len(self.times)} came, {len(self.seen)} different, error {self.error!r}",
            f"pulls {engine.state.outstanding}, waiting {engine.waiting}",
            f"mailbox {engine.mailbox.pending_messages}, linked {engine.link.is_up}",
            f"look in {engine.check_in():.3f} s",
            f"{time.monotonic()} now, connection {self._messages._nc!r}",
        ]
        for ask in (self._consumer.explain_stall, self._consumer.info, self.stream.info):
            try:
                lines.append(f"{ask(timeout=10)!r}")
            except Exception as error:
                lines.append(f"{error!r}")
        return "\n".join(lines)

    def gap(self, start, end, stalls):
        """The longest time without a message between two moments, without the machine's own."""
        inside = [at for at in self.times if start <= at <= end]
        points = [start, *inside, end]
        return max(b - a - stalls.during(a, b) for a, b in itertools.pairwise(points))

    def end(self):
        self._stop.set()
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._messages.stop()
        assert self.error is None


class Writer:
    """Publishes all the time with confirmation and notes what was not stored."""

    def __init__(self, js, subject, pause):
        self.stored = 0
        self.failed: list[Exception] = []
        self._stop = threading.Event()
        self._work = (js, subject, pause)
        self._thread = threading.Thread(target=self._run, name="writer")
        self._thread.start()

    def _run(self):
        js, subject, pause = self._work
        while not self._stop.wait(pause):
            try:
                js.publish(subject, b"x", timeout=15)
                self.stored += 1
            except Exception as error:
                self.failed.append(error)

    def end(self):
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()


def step_down(nc):
    try:
        answer = nc.request("$JS.API.CONSUMER.LEADER.STEPDOWN.G7.c", timeout=1)
    except jetsync.Error:
        return False
    return json.loads(answer.data).get("success")


def settled(reader):
    """Wait until messages come again one after another."""
    mark = len(reader.times)
    try:
        wait_until(lambda: len(reader.times) > mark + 20, timeout=60)
    except AssertionError:
        raise AssertionError(f"no 21 messages in 60 s: {reader.state()}") from None


def test_a_leader_that_steps_down_makes_no_long_gap(cluster, keeps_promise):
    """G7: consumer leader stepdown, the gap in delivery."""
    gaps = []
    with (
        jetsync.connect(cluster.urls) as nc,
        jetsync.connect(cluster.urls) as other,
        Stalls() as stalls,
    ):
        js = nc.jetstream(timeout=20)
        stream = js.create_stream(name="G7", subjects=["G7.>"], num_replicas=3, storage="memory")
        consumer = stream.create_consumer(durable_name="c", ack_wait=5, max_ack_pending=100_000)
        other.jetstream(timeout=60).publish_many(
            (("G7.a", b"x") for _ in range(STEPDOWNS * 1_000)), timeout=600
        )
        # A leader can swallow a pull in silence as it steps down: heartbeats are what tells.
        reader = Reader(js, consumer, pause=0.002, max_messages=100, heartbeat=0.4, expires=10)
        try:
            for _ in range(STEPDOWNS):
                settled(reader)
                start = time.monotonic()
                # No server answers while the election before it is not over yet.
                wait_until(lambda: step_down(other), timeout=60)
                settled(reader)
                gaps.append(reader.gap(start, time.monotonic(), stalls))
        finally:
            reader.end()
        stream.delete()
    keeps_promise("G7 gap by a stepdown, heartbeat 0.4 s", gaps, 1.0, slack=3.0)


@pytest.mark.parametrize("fault", scaled(["kill"], ["kill", "pause"]))
def test_a_leader_that_dies_costs_little_more_than_the_election(
    fault, record_figure, keeps_promise
):
    """G7b: kill -9 (or SIGSTOP) of the consumer's leader: the gap, less the time without one."""
    gaps, without = [], 0.0
    with NatsCluster(3) as cluster, Stalls() as stalls:
        alive = {server.name: server for server in cluster.servers}
        with jetsync.connect(cluster.urls, ping_interval=1.0) as nc:
            js = nc.jetstream(timeout=30)
            # On disk: what is only in memory is lost when two of three nodes are killed before
            # the first one has caught up.
            stream = js.create_stream(name="G7B", subjects=["G7B.>"], num_replicas=3)
            consumer = stream.create_consumer(durable_name="c", ack_wait=5)
            js.publish_many((("G7B.a", b"x") for _ in range(BACKLOG)), timeout=300)
            reader = Reader(js, consumer, pause=0.005, max_messages=20, heartbeat=0.5, expires=10)
            try:
                for _ in range(KILLS if fault == "kill" else 1):
                    settled(reader)
                    info = consumer.info(timeout=20)
                    assert info.cluster is not None
                    leader = alive[info.cluster.leader or ""]
                    rest = [s.url for s in cluster.servers if s is not leader]
                    start = time.monotonic()
                    leader.kill() if fault == "kill" else leader.pause()
                    asked = {"c": "CONSUMER.INFO.G7B.c"}
                    found = times_without(rest, asked, leader.name)["c"]
                    settled(reader)
                    gaps.append(reader.gap(start, time.monotonic(), stalls) - found)
                    without = max(without, found)
                    leader.start() if fault == "kill" else leader.resume()
                    cluster.start(timeout=60)
            finally:
                reader.end()
                nc.close()
    record_figure(f"G7b {fault} of the leader: without a leader", without, "s")
    keeps_promise(f"G7b {fault} of the leader: gap less that", gaps, 1.0, slack=4.0)


def test_a_rolling_restart_by_lame_duck_loses_nothing(record_figure, keeps_promise):
    """G20: three nodes say goodbye one after another: no failed publish, no long gap."""
    with NatsCluster(3, config=GOODBYE) as cluster, Stalls() as stalls:
        nc, other = jetsync.connect(cluster.urls), jetsync.connect(cluster.urls)
        js = nc.jetstream(timeout=30)
        stream = js.create_stream(name="G20", subjects=["G20.>"], num_replicas=3)
        consumer = stream.create_consumer(durable_name="c", ack_wait=5, max_ack_pending=100_000)
        writer = Writer(other.jetstream(timeout=20), "G20.a", 0.005)
        reader = Reader(js, consumer, max_messages=100, heartbeat=0.5, expires=10)
        gaps = []
        try:
            settled(reader)
            for _ in range(ROLLS):
                for server in cluster.servers:
                    start = time.monotonic()
                    server.lame_duck()
                    assert server.wait(60)
                    settled(reader)
                    server.start()
                    cluster.start(timeout=60)
                    settled(reader)
                    gaps.append(reader.gap(start, time.monotonic(), stalls))
        finally:
            writer.end()
            with contextlib.suppress(AssertionError):
                wait_until(
                    lambda: len(reader.seen) >= stream.info(timeout=20).state.last_seq, timeout=30
                )
            reader.end()
            last = stream.info(timeout=20).state.last_seq
            nc.close()
            other.close()
    record_figure(f"G20 failed publishes of {writer.stored}", len(writer.failed), goal="0")
    assert writer.failed == []
    assert reader.seen == set(range(1, last + 1))
    keeps_promise("G20 gap in delivery by a lame duck", gaps, 1.5, slack=4.0)
