"""G5: an ordered consumer shows every message once and in order, however often it is reset.

Each message's body is its place in the stream, so any gap, repetition or change of order is seen.
``JETSYNC_SOAK=1`` makes it a thousand resets instead of fifty.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.proxy import Proxy
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until
from tests.reliability.test_restart import LIVES

FAULTS = scaled(56, 1100)
RESETS = scaled(50, 1000)
"""What the faults have to amount to. One that hits a consumer that is being made anew adds none."""
BETWEEN = 60
LONG = 60.0


def fill(js, stream, count, start=0):
    js.publish_many((f"{stream.name}.{n % 3}", b"%d" % n) for n in range(start, start + count))


class Faults:
    """What can happen to a reader; each is called in its thread, between two messages."""

    def __init__(self, js, proxy, nc, ordered):
        self._js, self._proxy, self._nc, self._ordered = js, proxy, nc, ordered
        # New links are the smaller part: each is waited for a little longer than the one before.
        often = [self.steal, self.delete, self.steal, self.delete]
        self._kinds = itertools.cycle([*often, self.reconnect, *often, self.cut])

    def __call__(self):
        next(self._kinds)()

    def steal(self):
        """Another client takes messages of the same server consumer: a real gap."""
        with contextlib.suppress(jetsync.ConsumerNotFoundError, jetsync.ConsumerDeletedError):
            consumer = self._js.consumer(self._ordered.stream_name, self._ordered.name)
            if len(consumer.fetch(5, timeout=0.2)):
                return
        self.delete()  # nothing was left to steal, which resets nothing

    def delete(self):
        with contextlib.suppress(jetsync.ConsumerNotFoundError):
            self._js.delete_consumer(self._ordered.stream_name, self._ordered.name)

    def reconnect(self):
        self._nc.force_reconnect()

    def cut(self):
        self._proxy.cut()


@pytest.fixture
def world(fresh_server):
    """A stream with enough in it, and an ordered consumer behind a proxy."""
    with (
        jetsync.connect(fresh_server.url) as aside,
        Proxy(fresh_server.url) as proxy,
        jetsync.connect(proxy.url, reconnect_wait=0.01, reconnect_jitter=0.0) as nc,
    ):
        js = aside.jetstream()
        stream = js.create_stream(name="RESETS", subjects=["RESETS.>"], storage="memory")
        fill(js, stream, (FAULTS + 1) * BETWEEN)
        with nc.jetstream().ordered_consumer("RESETS") as ordered:
            yield ordered, Faults(js, proxy, nc, ordered)
        stream.delete()


def by_messages(ordered):
    with ordered.messages(max_messages=40) as messages:
        yield from messages


def by_batches(ordered):
    with ordered.messages(max_messages=40) as messages:
        for batch in messages.batches(max_messages=20):
            yield from batch


def by_fetch(ordered):
    while True:
        yield from ordered.fetch(20, timeout=LONG, eager=True)


def by_next(ordered):
    while True:
        yield ordered.next(timeout=LONG)


@pytest.mark.timeout(scaled(120, 3600))
@pytest.mark.parametrize("way", [by_messages, by_batches, by_fetch, by_next])
def test_every_message_once_and_in_order_over_forced_resets(world, record_figure, way):
    ordered, fault = world
    reader = way(ordered)
    wrong, total = 0, (FAULTS + 1) * BETWEEN
    for place in range(total):
        msg = next(reader)
        wrong += int(msg.data) != place or msg.metadata.stream_seq != place + 1
        if place % BETWEEN == BETWEEN - 1 and place + 1 < total:
            fault()
    reader.close()
    record_figure(f"G5 ordered, wrong messages ({way.__name__})", wrong, goal="0")
    record_figure(f"G5 ordered, resets ({way.__name__})", ordered.resets, goal=f">= {RESETS}")
    assert wrong == 0
    assert ordered.resets >= RESETS


@pytest.mark.timed
@pytest.mark.timeout(scaled(300, 3600))
def test_consume_goes_on_over_restarts_of_the_server(keeps_promise):
    """P5 and G6: killed and started again under a callback, on a stream in files."""
    rounds, between = scaled(5, 100), 300
    got: list[int] = []
    with (
        NatsServer() as server,
        jetsync.connect(server.url, reconnect_wait=0.02, reconnect_jitter=0.0) as nc,
        jetsync.connect(server.url, reconnect_wait=0.02, reconnect_jitter=0.0) as aside,
    ):
        stream = aside.jetstream().create_stream(name="S", subjects=["S.>"])
        took = []
        with nc.jetstream().ordered_consumer("S") as ordered:
            context = ordered.consume(lambda msg: got.append(int(msg.data)), max_messages=100)
            for turn in range(rounds):
                fill(aside.jetstream(), stream, between, start=turn * between)
                wait_until(lambda: len(got) == (turn + 1) * between, timeout=LONG)  # noqa: B023
                time.sleep(LIVES)  # how long a link lives
                server.kill()
                server.start()
                accepted = time.monotonic()
                aside.jetstream().publish("S.1", b"%d" % ((turn + 1) * between), timeout=LONG)
                wait_until(lambda: len(got) > (turn + 1) * between, timeout=LONG)  # noqa: B023
                took.append(time.monotonic() - accepted)
                got.pop()  # the next round begins with the same number
            context.stop()
            assert context.wait(LONG)
            assert context.error is None
    keeps_promise("G6 ordered, restart to first message", took, 1.5, slack=2.0, p95=0.5)
    assert got == list(range(rounds * between))


def stepped_down(nc):
    try:
        answer = nc.request("$JS.API.STREAM.LEADER.STEPDOWN.R3", timeout=2)
    except (jetsync.TimeoutError, jetsync.NoRespondersError, jetsync.DisconnectedError):
        return False
    return b'"success":true' in answer.data


@pytest.mark.timeout(scaled(300, 3600))
def test_a_dead_node_costs_a_pause_and_no_message(fresh_cluster):
    """The one server consumer of an ordered one lives on one node: that node is killed, then the
    leader of the stream steps down."""
    with (
        jetsync.connect(fresh_cluster.urls) as nc,
        jetsync.connect(fresh_cluster.urls) as aside,
    ):
        js = aside.jetstream(timeout=20)
        stream = js.create_stream(name="R3", subjects=["R3.>"], num_replicas=3)
        fill(js, stream, 500)
        got: list[int] = []
        with nc.jetstream(timeout=5).ordered_consumer("R3") as ordered:
            messages = ordered.messages(max_messages=50, heartbeat=1.0)

            def read(until):
                while len(got) < until:
                    got.append(messages.next(timeout=LONG).metadata.stream_seq)

            read(200)
            home = ordered.info(timeout=LONG).cluster
            assert home is not None
            fresh_cluster.server(home.leader or "").kill()
            read(350)
            # An election may swallow a request: it is asked again.
            wait_until(lambda: stepped_down(aside), timeout=LONG)
            read(500)
            publisher = threading.Thread(target=lambda: js.publish("R3.a", b"500", timeout=LONG))
            publisher.start()
            read(501)
            publisher.join()
            messages.stop()
        assert got == list(range(1, 502))
