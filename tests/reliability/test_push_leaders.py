"""Leaders change and one dies: push subscriptions go on by themselves and lose nothing (G7)."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

import jetsync
from jetsync.server import NatsCluster
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

ROUNDS = scaled(3, 30)
STALL = 1.0
SLACK = 4.0  # for a busy machine
ELECTION = 30.0


class Stream:
    """Publishes numbers, and takes them from three kinds of push subscriptions."""

    def __init__(self, cluster: NatsCluster, nc: jetsync.Connection) -> None:
        self.js = nc.jetstream(timeout=20)
        self.js.create_stream(name="S", subjects=["s"], num_replicas=3)
        self.subs = {
            "durable": self.js.subscribe("s", durable="d", heartbeat=0.5, ack_wait=3),
            "queue": self.js.subscribe("s", queue="q", ack_wait=3),
            "ordered": self.js.subscribe("s", ordered=True, heartbeat=0.5),
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


@pytest.mark.slow
@pytest.mark.timed
def test_leader_changes_are_hardly_seen(fresh_cluster, keeps_promise):
    with jetsync.connect(fresh_cluster.url, reconnect_wait=0.02) as nc:
        stream = Stream(fresh_cluster, nc)
        stream.goes_on()
        for _ in range(ROUNDS):
            for what in ("CONSUMER.LEADER.STEPDOWN.S.d", "STREAM.LEADER.STEPDOWN.S"):
                stream.js._api.request(what)
                stream.goes_on()
        stream.end()
        for name in stream.subs:
            keeps_promise(f"G7 push {name}: lag", stream.lags(name), STALL, slack=SLACK)


@pytest.mark.slow
def test_the_leader_is_killed(fresh_cluster, record_figure):
    with jetsync.connect(fresh_cluster.url, reconnect_wait=0.02) as nc:
        stream = Stream(fresh_cluster, nc)
        stream.goes_on()
        info = stream.js.consumer("S", "d").cached_info
        assert info.cluster is not None
        leader = next(one for one in fresh_cluster.servers if one.name == info.cluster.leader)
        leader.kill()
        stream.goes_on()
        leader.start()
        stream.end()
        for name in stream.subs:
            lag = max(stream.lags(name))
            record_figure(f"G7b push {name}: lag with a dead leader", lag, "s")
            assert lag <= ELECTION
