"""The general promises hold for every public call: Ctrl-C, forks, exits, leaks (P7, P8, G8 to G13).

The calls are read from the library itself (tests/harness/public_calls.py), so a new one is under
these promises as soon as it exists.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import math
import threading
import time
import weakref
from collections.abc import Iterator
from functools import partial

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.conditioner import Link
from tests.harness.memory import Holdings, settled
from tests.harness.public_calls import CALLS, World
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until
from tests.harness.watchdog import run_module

PROGRAM = "tests.reliability.every_call"
PROGRAMS = scaled(1, 20)
ROUNDS = scaled(3, 60)
GROWTH = 8.0  # MiB
LONG = 60.0
DRAIN = 0.3
AT_HAND = {
    "JetStream.publish_async",
    "PubAckFuture.exception, settled",
    "Watcher.initial",
    "ObjectWatcher.initial",
}
"""Calls that find what they ask for in the process, or leave it to others to wait."""
MAYBE = {"JetStream.publish_async_wait", "ConsumeContext.drain"}
"""Calls that wait for what is under way, of which there may be nothing."""
ENDLESS = (math.inf, 1e10, 10**300)


@pytest.fixture
def server() -> Iterator[NatsServer]:
    """A server with JetStream, unlike that of this folder's other tests."""
    with NatsServer() as one:
        yield one


@pytest.mark.timed
def test_every_call_that_waits_is_interrupted_at_once_and_all_goes_on(server, keeps_promise):
    late: list[float] = []
    for _ in range(PROGRAMS):
        done = run_module(PROGRAM, "interrupt", server.url, limit=120)
        assert (done.code, done.errors) == (0, ""), done
        found = json.loads(done.output)
        assert AT_HAND <= set(CALLS) - set(found) <= AT_HAND | MAYBE
        late += found.values()
    keeps_promise("G11 Ctrl-C in every public call", late, 0.1, slack=0.25)


@contextlib.contextmanager
def all_calls_under_way(url: str) -> Iterator[tuple[jetsync.Connection, dict[str, list[object]]]]:
    """Every call is made, each in its thread, at a server whose answers do not arrive.

    Gives the connection, and how each call ended when that has happened. The timeouts have no end.
    """
    ended: dict[str, list[object]] = {name: [] for name in CALLS}
    begun = {name: threading.Event() for name in CALLS}

    def make(name: str, world: World, timeout: float) -> None:
        begun[name].set()
        try:
            CALLS[name](world, timeout)
        except jetsync.Error as error:
            ended[name].append(error)
        except BaseException as error:
            ended[name].append(f"{error!r}")
        else:
            ended[name].append(None)

    with Link(url) as link:
        nc = jetsync.connect(link.url, ping_interval=3600, timeout=LONG)
        nc.subscribe("silent")
        nc.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
        worlds = World.open(nc), World.open(nc)
        CALLS["JetStream.publish_arrow"](worlds[0], LONG)  # imports what it needs
        link.stall(way="to_client")
        threads = [
            # Calls on one handle would refuse each other: neighbours have other ones.
            threading.Thread(
                target=make, args=(name, worlds[number % 2], ENDLESS[number % 3]), name=name
            )
            for number, name in enumerate(CALLS)
        ]
        for thread in threads:
            thread.start()
        try:
            for event in begun.values():
                assert event.wait(LONG)
            yield nc, ended
        finally:
            nc.close()
            for thread in threads:
                thread.join(10)
            assert [thread.name for thread in threads if thread.is_alive()] == []
            for world in worlds:
                world.file.unlink(missing_ok=True)


@pytest.mark.timed
@pytest.mark.parametrize("how", ["close", "drain"])
def test_every_call_ends_with_its_connection(server, stalls, how, keeps_promise):
    """P7: close() within a second and drain(t) within t + 0.5 s, whatever is under way."""
    took = []
    for _ in range(scaled(1, 20)):
        with all_calls_under_way(server.url) as (nc, ended):
            assert {name for name, how in ended.items() if how} <= AT_HAND | MAYBE
            begun = time.monotonic()
            if how == "close":
                nc.close()
            else:
                with contextlib.suppress(jetsync.TimeoutError):
                    nc.drain(timeout=DRAIN)
            over = time.monotonic()
            took.append(over - begun - stalls.during(begun, over))
            wait_until(partial(all, ended.values()), timeout=10)
        forgotten(server.url)
        wrong = {name: how for name, (how,) in ended.items() if isinstance(how, str)}
        assert wrong == {}
    bound = 1.0 if how == "close" else DRAIN + 0.5
    keeps_promise(f"G9 {how}() beside every public call", took, bound, slack=0.5)


LOCAL = {"JetStream.publish_async_wait", "Watcher.initial", "ObjectWatcher.initial"}
"""Calls that only look at what the process has: a child may."""


def test_every_call_in_a_forked_child_is_refused_at_once(server):
    done = run_module(PROGRAM, "fork", server.url, limit=120)
    assert (done.code, done.errors) == (0, ""), done
    raised = json.loads(done.output)
    assert set(raised) == set(CALLS)
    others = {name: how for name, how in raised.items() if how != "ForkedError"}
    assert set(others) == LOCAL, others


@pytest.mark.timed
def test_a_program_that_ends_with_every_kind_of_handle_open_is_silent_and_quick(
    server, keeps_promise
):
    took = []
    for _ in range(scaled(3, 50)):
        done = run_module(PROGRAM, "exit", server.url, limit=60)
        assert (done.code, done.errors) == (7, ""), done
        took.append(done.took_since(float(done.output)))
    keeps_promise("G13 exit, every kind of handle", took, 1.0, slack=0.5)


def make_every_call(url: str) -> weakref.ref[jetsync.Connection]:
    """Make every call on a connection that is closed then; return a weak reference to it."""
    nc = jetsync.connect(url)
    nc.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
    world = World.open(nc)
    for call in CALLS.values():
        with contextlib.suppress(jetsync.Error):
            call(world, 0.02)
    world.close()
    nc.close()
    forgotten(url)
    return weakref.ref(nc)


def forgotten(url: str) -> None:
    """Delete the stream of the calls, with the consumers of one round."""
    with contextlib.suppress(jetsync.Error), jetsync.connect(url) as other:
        other.jetstream().delete_stream(World.STREAM)


def is_gone(closed: weakref.ref[jetsync.Connection]) -> bool:
    gc.collect()
    return closed() is None


@pytest.fixture
def nothing_logged() -> Iterator[None]:
    """pytest keeps what is logged, and an error keeps the frames that it came through."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def test_all_calls_together_leave_nothing_behind(server, nothing_logged, record_figure):
    make_every_call(server.url)
    before, held = settled(), Holdings.now()
    for _ in range(ROUNDS):
        closed = make_every_call(server.url)
        # Not at once: removing the chunks of an interrupted put is given up after a moment.
        wait_until(partial(is_gone, closed), timeout=20)
    grown = settled() - before
    record_figure(f"G8 growth over {ROUNDS} times every call", grown, "MiB", goal=f"<= {GROWTH}")
    assert Holdings.now() == held
    assert grown <= GROWTH
