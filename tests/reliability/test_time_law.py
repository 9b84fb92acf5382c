"""Every public call with a timeout ends within it and 250 ms, whatever else happens.

The calls are those that the public surface itself shows (``tests/harness/public_calls.py``): a new
one cannot be forgotten. What the machine itself stood still is measured by a thread beside and
taken off.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.conditioner import Link
from tests.harness.insides import outbound_of
from tests.harness.public_calls import CALLS, Call, World
from tests.harness.soak import SOAKING, scaled
from tests.harness.waiting import alongside, wait_until

GRACE = 0.25
TIMEOUTS = (0.0, 1e-9, 0.15)
ENDLESS = (math.inf, 1e10, 10**300)
SLOW = 200_000  # bytes a second that a slow server takes


@contextlib.contextmanager
def flooded(nc: jetsync.Connection, size: int) -> Iterator[None]:
    """Another thread publishes without an end."""

    def flood(over: threading.Event) -> None:
        payload = b"f" * size
        with contextlib.suppress(jetsync.Error):
            while not over.is_set():
                with contextlib.suppress(jetsync.OutboundFullError):
                    nc.publish("flood", payload)

    with alongside(flood):
        try:
            yield
        finally:
            nc.close()


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as one:
        yield one


@pytest.fixture
def responders(server):
    with jetsync.connect(server.url) as nc:
        nc.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
        nc.subscribe("silent")
        nc.flush()
        yield


MORE = {"drain": 0.25, "restore_stream": 5.0}
"""What P7 allows a drain, and P2 a restore that deletes what it has made; in seconds."""


def lateness(stalls, call: Callable[[], object], timeout: float) -> tuple[float, str]:
    """Seconds beyond what the call may take, and how it ended."""
    outcome = "done"
    begun = time.monotonic()
    try:
        call()
    except jetsync.Error as error:
        outcome = type(error).__name__
    ended = time.monotonic()
    return ended - begun - timeout - GRACE - stalls.during(begun, ended), outcome


def hold(held: threading.Semaphore, nc: jetsync.Connection, msg: jetsync.JetStreamMsg) -> None:
    """A handler that is not done before the connection has ended."""
    held.release()
    wait_until(lambda: nc.is_closed, timeout=300)


def prepared(world: World) -> dict[str, Call]:
    """The calls, with what is no part of them done before: it has no timeout of its own."""
    batch = world.consumer.fetch(2, timeout=10)
    CALLS["JetStream.publish_arrow"](world, 10)  # imports what it needs
    calls = dict(CALLS)
    calls["MsgBatch.ack_sync"] = lambda w, t: batch.ack_sync(timeout=t)
    services = [world.nc.add_service("short", "1.0.0") for _ in TIMEOUTS]
    held = threading.Semaphore(0)
    workers = [world.new_worker(partial(hold, held, world.nc)) for _ in TIMEOUTS]
    for _ in workers:
        assert held.acquire(timeout=10)
    calls["Service.stop"] = lambda w, t: services.pop().stop(timeout=t)
    calls["Worker.drain"] = lambda w, t: workers.pop().drain(timeout=t)
    return calls


def check_all(world: World, calls: dict[str, Call], stalls, record_figure, what: str) -> None:
    over = []
    for number, (name, call) in enumerate(calls.items()):
        # Once a night each call with each timeout; after each change each call with one of them.
        for timeout in scaled((TIMEOUTS[number % len(TIMEOUTS)],), TIMEOUTS):
            allowed = timeout + MORE.get(name.partition(".")[2], 0.0)
            late, outcome = lateness(stalls, partial(call, world, timeout), allowed)
            over.append((late, name, timeout, outcome))
    over.sort(reverse=True)
    record_figure(f"{what}: worst, over timeout + 250 ms", over[0][0], "s", goal="<= 0")
    assert [each for each in over if each[0] > 0] == []


def full(nc: jetsync.Connection) -> bool:
    return outbound_of(nc).pending_bytes > outbound_of(nc).high_water - 100_000


@pytest.mark.timed
@pytest.mark.timeout(scaled(200, 900))
def test_a_server_that_takes_nothing_more_delays_no_call(server, responders, stalls, record_figure):
    with Link(server.url) as link:
        nc = jetsync.connect(link.url, ping_interval=3600, timeout=60)
        world = World.open(nc)
        calls = prepared(world)
        with flooded(nc, 16_000):
            link.stall(way="to_server")
            wait_until(lambda: full(nc), timeout=30)
            check_all(world, calls, stalls, record_figure, "G25 full buffer")


@pytest.mark.timed
@pytest.mark.skipif(not SOAKING, reason="make soak; each commit, a server that takes nothing more")
@pytest.mark.timeout(scaled(200, 900))
def test_a_server_that_reads_slowly_delays_no_call(server, responders, stalls, record_figure):
    with Link(server.url) as link:
        nc = jetsync.connect(link.url, ping_interval=3600, timeout=60)
        world = World.open(nc)
        calls = prepared(world)
        with flooded(nc, 16_000):
            link.set(way="to_server", bandwidth=SLOW)
            wait_until(lambda: full(nc), timeout=30)
            check_all(world, calls, stalls, record_figure, "G25 slow server")


@pytest.mark.timed
@pytest.mark.timeout(scaled(200, 900))
def test_another_thread_that_publishes_without_an_end_delays_no_call(
    server, responders, stalls, record_figure
):
    nc = jetsync.connect(server.url, timeout=60)
    world = World.open(nc)
    calls = prepared(world)
    with flooded(nc, 65_536):
        check_all(world, calls, stalls, record_figure, "G25 gigabytes beside it")


def forget_the_consumers(server: NatsServer) -> None:
    """A connection that is closed under its calls leaves its consumers; a stream takes 1,000."""
    with jetsync.connect(server.url) as nc, contextlib.suppress(jetsync.StreamNotFoundError):
        nc.jetstream().delete_stream(World.STREAM)


@pytest.mark.skipif(not SOAKING, reason="make soak; each commit, all calls at once")
@pytest.mark.timeout(900)
def test_a_timeout_without_an_end_is_one_for_every_call(server, responders):
    """A call that has nothing to wait for ends as ever; one that waits ends with its connection."""
    refused = []
    for name, call in CALLS.items():
        for timeout in ENDLESS:
            forget_the_consumers(server)
            nc = jetsync.connect(server.url)
            world = World.open(nc)
            wrong: list[BaseException] = []

            def made(call=call, world=world, timeout=timeout, wrong=wrong) -> None:
                try:
                    call(world, timeout)
                except jetsync.Error:
                    pass
                except BaseException as error:
                    wrong.append(error)

            thread = threading.Thread(target=made)
            thread.start()
            thread.join(0.5)
            nc.close()
            thread.join(10)
            if thread.is_alive() or wrong:
                refused.append((name, timeout, wrong or "hangs"))
    assert refused == []
