"""After the server was away push subscriptions go on by themselves, and soon (G6)."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.raw import RawClient
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until
from tests.reliability.test_restart import LIVES

pytestmark = pytest.mark.timed

ROUNDS = scaled(5, 200)
AWAY = 0.2
P95, MOST = 0.5, 1.5
SLACK = 2.0  # for a busy machine


class Watcher:
    """Takes from one subscription and notes when which number came."""

    def __init__(self, sub: jetsync.PushSubscription) -> None:
        self.sub = sub
        self.seen: dict[int, float] = {}
        self.order: list[int] = []
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            for msg in self.sub:
                number = int(msg.data)
                self.seen.setdefault(number, time.monotonic())
                self.order.append(number)
                msg.ack()
        except Exception as error:
            self.error = error


def seen_or_failed(watcher: Watcher, number: int) -> bool:
    return number in watcher.seen or watcher.error is not None


def is_past(moment: float) -> bool:
    return time.monotonic() > moment


def accepts(url: str) -> float:
    """When the server takes connections again."""

    def try_once() -> bool:
        try:
            with RawClient(url, timeout=1) as raw:
                raw.handshake()
                return True
        except (OSError, AssertionError):
            return False

    wait_until(try_once, timeout=30)
    return time.monotonic()


def test_push_subscriptions_go_on_after_every_restart(tmp_path, keeps_promise):
    gaps: dict[str, list[float]] = {"durable": [], "queue": [], "ordered": []}
    with (
        NatsServer(store_dir=tmp_path) as server,
        jetsync.connect(server.url, reconnect_wait=0.02) as nc,
    ):
        js = nc.jetstream()
        js.create_stream(name="R", subjects=["r"])
        watchers = {
            "durable": Watcher(js.subscribe("r", durable="d", heartbeat=1, ack_wait=1)),
            "queue": Watcher(js.subscribe("r", queue="q", ack_wait=1)),
            "ordered": Watcher(js.subscribe("r", ordered=True)),
        }
        number = 0
        for _ in range(ROUNDS):
            js.publish("r", b"%d" % number, timeout=30)
            for watcher in watchers.values():
                wait_until(partial(seen_or_failed, watcher, number), timeout=30)
                assert watcher.error is None
            settled_at = time.monotonic() + LIVES
            wait_until(partial(is_past, settled_at), timeout=10)
            server.stop()
            stopped = time.monotonic()
            wait_until(partial(is_past, stopped + AWAY), timeout=10)
            server.start()
            back = accepts(server.url)
            number += 1
            js.publish("r", b"%d" % number, timeout=30)
            for name, watcher in watchers.items():
                wait_until(partial(seen_or_failed, watcher, number), timeout=30)
                assert watcher.error is None
                gaps[name].append(watcher.seen[number] - back)
            number += 1
        for watcher in watchers.values():
            watcher.sub.unsubscribe()
            watcher.thread.join(30)
            assert set(watcher.seen) == set(range(number)), "nothing is lost"
        assert watchers["ordered"].order == list(range(number)), "nor repeated, nor out of order"
    for name, values in gaps.items():
        keeps_promise(f"G6 push {name}", values, MOST, slack=SLACK, p95=P95)
