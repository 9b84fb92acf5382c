"""Leaders change and die: push subscriptions go on by themselves and lose nothing (G7, G7b)."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

import jetsync
from jetsync import Placement
from jetsync.jetstream.push.watch import ALARM_INTERVALS
from jetsync.server import NatsCluster, NatsServer
from tests.harness.insides import api_of
from tests.harness.soak import scaled
from tests.harness.stalls import Stalls
from tests.harness.waiting import wait_until
from tests.reliability.leaderless import times_without

ROUNDS = scaled(3, 30)
KILLS = scaled(1, 20)
STALL = 1.0
SLACK = 4.0  # for a busy machine
HEARTBEAT = 0.5
SILENCE = ALARM_INTERVALS * HEARTBEAT
LONG = 60.0


class Stream:
    """Publishes numbers, and takes them from three kinds of push subscriptions."""

    def __init__(self, cluster: NatsCluster, nc: jetsync.Connection) -> None:
        self.js = nc.jetstream(timeout=20)
        self.js.create_stream(name="S", subjects=["s"], num_replicas=3)
        self.subs = {
            "durable": self.js.subscribe("s", durable="d", heartbeat=HEARTBEAT, ack_wait=3),
            "queue": self.js.subscribe("s", queue="q", ack_wait=3),
            "ordered": self.js.subscribe("s", ordered=True, heartbeat=HEARTBEAT),
        }
        self.came: dict[str, list[tuple[float, int]]] = {name: [] for name in self.subs}
        self.failed: list[Exception] = []
        self.stored: list[float] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._take, args=(name,)) for name in self.subs]
        self._threads.append(threading.Thread(target=self._publish))
        for thread in self._threads:
            thread.start()

    @property
    def published(self) -> int:
        return len(self.stored)

    def _publish(self) -> None:
        try:
            while not self._stop.wait(0.005):
                self.js.publish("s", b"%d" % self.published, timeout=60)
                self.stored.append(time.monotonic())
        except Exception as error:
            self.failed.append(error)

    def _take(self, name: str) -> None:
        try:
            for msg in self.subs[name]:
                self.came[name].append((time.monotonic(), int(msg.data)))
                msg.ack()
        except Exception as error:
            self.failed.append(error)

    def goes_on(self) -> None:
        """Wait until all three have got something that was published from now on."""
        target = self.published + 20
        wait_until(
            lambda: (
                self.failed
                or (
                    self.published >= target
                    and all(came[-1:] and came[-1][1] >= target - 1 for came in self.came.values())
                )
            ),
            timeout=60,
        )
        assert not self.failed

    def _complete(self, came: list[tuple[float, int]]) -> bool:
        return len({number for _, number in list(came)}) == self.published

    def _missing(self, name: str) -> str:
        missing = set(range(self.published)) - {number for _, number in self.came[name]}
        state = self.subs[name].info(timeout=20)
        return (
            f"{name}: {sorted(missing)} of {self.published} did not come; the server says {state}"
        )

    def lags(self, name: str) -> list[float]:
        """The times between the confirmation of a publish and the message. A publish that an
        election swallowed has a time of its own, which is none of a subscription's."""
        first: dict[int, float] = {}
        for at, number in self.came[name]:
            first.setdefault(number, at)
        return [first[number] - stored for number, stored in enumerate(self.stored)]

    def longest_gap(self, name: str, start: float, end: float, stalls: Stalls) -> float:
        """The longest time between two moments in which a message was stored and none came,
        without the machine's own."""
        longest, before = 0.0, start
        for at, number in list(self.came[name]):
            if start <= at <= end:
                # A message may come before its publisher has the confirmation.
                since = max(before, *self.stored[number : number + 1])
                if at - since > longest:
                    longest = max(longest, at - since - stalls.during(since, at))
                before = at
        return longest

    def leader(self, name: str) -> str | None:
        """The server that leads a subscription's consumer; None while there is none."""
        cluster = self.subs[name].info(timeout=20).cluster
        return cluster.leader if cluster is not None else None

    def led_by_one(self, cluster: NatsCluster) -> NatsServer:
        """Let the server of the ordered consumer, which has no replicas, lead the others too, and
        another one lead the stream; return the first."""
        wait_until(lambda: self.leader("ordered"), timeout=LONG)
        one = cluster.server(self.leader("ordered") or "")
        other = next(server for server in cluster.servers if server is not one)
        js = self.js

        def stream_leader() -> str | None:
            found = js.stream("S").info(timeout=20).cluster
            return found.leader if found is not None else None

        def lead(server: NatsServer, who: Callable[[], str | None], step: Callable[..., None]):
            def leads() -> bool:
                if who() == server.name:
                    return True
                with contextlib.suppress(jetsync.Error):  # no answer while one is elected
                    step(placement=Placement(preferred=server.name), timeout=2)
                with contextlib.suppress(AssertionError):
                    wait_until(lambda: who() == server.name, timeout=2)
                return False

            wait_until(leads, timeout=LONG)

        lead(other, stream_leader, partial(js.step_down_stream_leader, "S"))
        for name in ("durable", "queue"):
            consumer = self.subs[name].info(timeout=20).name
            step = partial(js.step_down_consumer_leader, "S", consumer)
            lead(one, partial(self.leader, name), step)
        return one

    def end(self) -> None:
        self._stop.set()
        self._threads[-1].join(60)
        for name, came in self.came.items():
            try:
                wait_until(partial(self._complete, came), timeout=60)
            except AssertionError:
                raise AssertionError(self._missing(name)) from None
        for sub in self.subs.values():
            sub.unsubscribe()
        for thread in self._threads:
            thread.join(60)
        assert not self.failed
        assert [n for _, n in self.came["ordered"]] == list(range(self.published))


def note_time(times: list[float], msg: jetsync.Msg) -> None:
    times.append(time.monotonic())


@pytest.mark.slow
@pytest.mark.timed
def test_leader_changes_are_hardly_seen(fresh_cluster, keeps_promise):
    with jetsync.connect(fresh_cluster.url, reconnect_wait=0.02) as nc:
        stream = Stream(fresh_cluster, nc)
        stream.goes_on()
        for _ in range(ROUNDS):
            for what in ("CONSUMER.LEADER.STEPDOWN.S.d", "STREAM.LEADER.STEPDOWN.S"):
                api_of(stream.js).request(what)
                stream.goes_on()
        stream.end()
        for name in stream.subs:
            keeps_promise(f"G7 push {name}: lag", stream.lags(name), STALL, slack=SLACK)


@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.timeout(scaled(300, 3600))
def test_a_leader_that_dies_costs_little_more_than_the_election(
    fresh_cluster, record_figure, keeps_promise
):
    """G7b: kill -9 of the server that leads all consumers: the gap, less the time without one.

    The ordered subscription's consumer dies with its server. It is made again by the leader of all
    when its silence is told from a pause: the later of the two is its time without a leader. That
    leader gives one new consumer in three to the dead server, which makes none: the time between
    the requests for them counts apart. test_any_consumer holds how soon the next one is sent.
    """
    gaps: dict[str, list[float]] = {}
    with (
        Stalls() as stalls,
        jetsync.connect(fresh_cluster.url, reconnect_wait=0.02) as nc,
    ):
        stream = Stream(fresh_cluster, nc)
        for _ in range(KILLS):
            stream.goes_on()
            leader = stream.led_by_one(fresh_cluster)
            queue = stream.subs["queue"].info(timeout=20).name
            stream.goes_on()
            rest = [one.url for one in fresh_cluster.servers if one is not leader]
            requests: list[float] = []
            witness = jetsync.connect(rest)
            witness.subscribe("$JS.API.CONSUMER.CREATE.S.>", callback=partial(note_time, requests))
            witness.flush()
            start = time.monotonic()
            leader.kill()
            asked = {
                "durable": "CONSUMER.INFO.S.d",
                "queue": f"CONSUMER.INFO.S.{queue}",
                "ordered": "CONSUMER.NAMES.S",
            }
            without = times_without(rest, asked, leader.name)
            without["ordered"] = max(without["ordered"], SILENCE)
            stream.goes_on()
            end = time.monotonic()
            witness.close()
            back = start + without["ordered"]
            in_vain = max(0.0, requests[-1] - max(back, requests[0])) if requests else 0.0
            record_figure("G7b push ordered: consumers given to the dead server", in_vain, "s")
            without["ordered"] += in_vain
            for name in stream.subs:
                record_figure(f"G7b push {name}: without a leader", without[name], "s")
                gap = stream.longest_gap(name, start, end, stalls)
                gaps.setdefault(name, []).append(gap - without[name])
            leader.start()
            fresh_cluster.start(timeout=LONG)
        stream.end()
    for name, found in gaps.items():
        keeps_promise(f"G7b push {name}: gap less the election", found, STALL, slack=SLACK)
