"""A server that is away for a moment: every kind of waiting goes on by itself afterwards."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from functools import partial

import pytest

import jetsync
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.timed

ROUNDS = scaled(8, 200)
AWAY = 0.2
LIVES = 0.6  # a link that breaks sooner again is a flapping one, which is backed off from
PAUSE = 0.003


class Waiters:
    """One thread for each way to wait, each noting the moments at which it got something."""

    def __init__(self, nc: jetsync.Connection) -> None:
        self._nc = nc
        self._stop = threading.Event()
        self.beats: dict[str, list[float]] = {}
        self.errors: dict[str, set[type[Exception]]] = {}
        self._threads: list[threading.Thread] = []
        nc.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
        nc.subscribe("tick", callback=self._beat_of("callback"))
        one, two = nc.subscribe("tick"), nc.subscribe("tick")
        self._loop("publish", lambda: nc.publish("tick", b"x"))
        self._loop("next", lambda: one.next(timeout=60))
        self._loop("request", lambda: nc.request("echo", b"r", timeout=60))
        self._loop("request_many", self._request_many)
        self._loop("flush", lambda: nc.flush(timeout=60))
        self._loop("rtt", lambda: nc.rtt(timeout=60))
        self._start("iteration", lambda: self._iterate(two))

    def _beat_of(self, name):
        times = self.beats.setdefault(name, [])
        return lambda *_: times.append(time.monotonic())

    def _request_many(self):
        assert len(list(self._nc.request_many("echo", max_messages=1, timeout=60))) == 1

    def _iterate(self, sub):
        beat = self._beat_of("iteration")
        for _ in sub:
            beat()

    def _loop(self, name, call):
        beat, errors = self._beat_of(name), self.errors.setdefault(name, set())

        def run():
            while not self._stop.wait(PAUSE):
                try:
                    call()
                except jetsync.ConnectionClosedError:
                    return
                except Exception as error:
                    errors.add(type(error))
                else:
                    beat()

        self._start(name, run)

    def _start(self, name, run):
        self._threads.append(threading.Thread(target=run, name=name))
        self._threads[-1].start()

    def first_after(self, name, moment):
        # From the end, as the lists grow long.
        times = self.beats[name]
        found = None
        for at in reversed(times):
            if at < moment:
                break
            found = at
        return found

    def all_after(self, moment):
        return all(self.first_after(name, moment) for name in self.beats)

    def end(self):
        self._stop.set()
        self._nc.close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive(), thread.name


def when_it_accepts(port: int, found: list[float]) -> None:
    """Note the moment at which a server listens on the port again."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with (
            contextlib.suppress(ConnectionRefusedError),
            socket.create_connection(("127.0.0.1", port), 5),
        ):
            found.append(time.monotonic())
            return
        time.sleep(0.001)  # between two looks


def test_every_kind_of_waiter_goes_on_after_a_restart(server, record_figure, keeps_promise):
    """G4/G6: server killed, away for 0.2 s: no call waits long, or gets a wrong error."""
    nc = jetsync.connect(server.url)
    waiters = Waiters(nc)
    took: dict[str, list[float]] = {}
    try:
        for number in range(ROUNDS):
            begun = time.monotonic()
            wait_until(partial(waiters.all_after, begun), timeout=20)
            time.sleep(LIVES)  # how long a server lives
            server.kill()
            time.sleep(AWAY)  # the fault itself, not a wait for luck
            accepts: list[float] = []
            watcher = threading.Thread(target=when_it_accepts, args=(server.port, accepts))
            watcher.start()
            server.start()
            watcher.join()
            for name in waiters.beats:
                if name == "publish":
                    continue  # goes on all the time, into the buffer
                back = wait_until(
                    partial(waiters.first_after, name, accepts[0]),
                    timeout=20,
                    message=f"{name} did not go on in round {number}",
                )
                took.setdefault(name, []).append(back - accepts[0])
    finally:
        waiters.end()
    assert waiters.errors["next"] == waiters.errors["publish"] == set()
    for name in ("request", "request_many", "flush", "rtt"):
        assert waiters.errors[name] <= {jetsync.DisconnectedError}, name
    every = sorted(value for values in took.values() for value in values)
    assert len(every) == ROUNDS * 7
    for name, values in took.items():
        record_figure(f"restart, {name} goes on: max", max(values), "s")
    keeps_promise("G6 core, first message after a restart", every, 1.5, slack=2.0, p95=0.5)


def test_a_request_that_was_under_way_fails_at_once_with_its_type(server, record_figure):
    """Not after its own timeout: the answer may be lost with the link."""
    worst = 0.0
    for _ in range(scaled(3, 50)):
        with jetsync.connect(server.url) as nc:
            silent = nc.subscribe("silent")
            failed: dict[str, float] = {}

            def ask(name, call, failed=failed):
                with pytest.raises(jetsync.DisconnectedError):
                    call()
                failed[name] = time.monotonic()

            calls = {
                "request": lambda nc=nc: nc.request("silent", timeout=60),
                "request_many": lambda nc=nc: list(nc.request_many("silent", timeout=60)),
            }
            threads = [threading.Thread(target=ask, args=pair) for pair in calls.items()]
            for thread in threads:
                thread.start()
            for _ in calls:
                silent.next(timeout=10)
            killed = time.monotonic()
            server.kill()
            for thread in threads:
                thread.join(20)
            assert set(failed) == set(calls)
            worst = max(worst, max(failed.values()) - killed)
            server.start()
            nc.subscribe("echo", callback=lambda msg: msg.respond(b"yes"))
            assert nc.request("echo", timeout=20).data == b"yes"
    record_figure("restart, pending request fails after", worst, "s", goal="<= 5 s")
    assert worst <= 5
