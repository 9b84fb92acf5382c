"""close() within a second and drain(t) within t + 0.5 s, whatever the state; nothing stays (G9)."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jetsync
from tests.harness.insides import outbound_of
from tests.harness.leaks import library_threads
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.timed

ROUNDS = scaled(1, 60)
CLOSE_BOUND = 1.0
DRAIN_BOUND = 0.5
DRAIN_TIMEOUT = 0.3
SLACK = scaled(0.1, 0.0)  # of the machine, not of the library

State = Callable[..., contextlib.AbstractContextManager[jetsync.Connection]]


@contextlib.contextmanager
def idle(server, proxy) -> Iterator[jetsync.Connection]:
    yield jetsync.connect(proxy.url)


@contextlib.contextmanager
def working(server, proxy) -> Iterator[jetsync.Connection]:
    """Every thread of it is busy."""
    nc = jetsync.connect(proxy.url, on_error=lambda event: None)
    nc.subscribe("a", callback=lambda msg: None)
    nc.subscribe("echo", callback=lambda msg: msg.respond(b""))
    stop = threading.Event()

    def work(call):
        with contextlib.suppress(jetsync.Error):
            while not stop.is_set():
                call()

    calls = (
        lambda: nc.publish("a", b"x" * 1000),
        lambda: nc.request("echo", timeout=20),
        lambda: nc.flush(timeout=20),
    )
    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    wait_until(lambda: nc.stats.in_messages > 100, timeout=20)
    yield nc
    stop.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive(), "a call outlived its connection"


@contextlib.contextmanager
def frozen(server, proxy) -> Iterator[jetsync.Connection]:
    nc = jetsync.connect(server.url)
    nc.subscribe("a", callback=lambda msg: None)
    nc.flush()
    server.pause()
    nc.publish("a", b"never answered")
    yield nc
    server.resume()


@contextlib.contextmanager
def full(server, proxy) -> Iterator[jetsync.Connection]:
    """The outbound buffer is full, and a publisher waits for room."""
    nc = jetsync.connect(proxy.url, write_timeout=60)
    proxy.blackhole()
    ended = threading.Event()

    def publish():
        with contextlib.suppress(jetsync.ConnectionClosedError):
            while True:
                nc.publish("flood", b"x" * 500_000)
        ended.set()

    thread = threading.Thread(target=publish)
    thread.start()
    wait_until(lambda: outbound_of(nc).pending_bytes > 1.5 * 2**20, timeout=20)
    yield nc
    assert ended.wait(10), "the waiting publisher was not told"
    thread.join()
    proxy.heal()


@contextlib.contextmanager
def away(server, proxy) -> Iterator[jetsync.Connection]:
    """Reconnecting: no server listens."""
    nc = jetsync.connect(proxy.url)
    sub = nc.subscribe("a")
    proxy.stop()
    wait_until(lambda: not nc.is_connected, timeout=20)
    nc.publish("a", b"kept")
    yield nc
    assert not sub.is_active
    proxy.start()


@contextlib.contextmanager
def redialling(server, proxy) -> Iterator[jetsync.Connection]:
    """Reconnecting: a peer accepts and says nothing, and the connect timeout is long."""
    nc = jetsync.connect(proxy.url, connect_timeout=30, reconnect_wait=0.001)
    proxy.blackhole()
    links = proxy.accepted
    proxy.cut()
    wait_until(lambda: proxy.accepted > links, timeout=20)
    yield nc
    proxy.heal()


@contextlib.contextmanager
def never_connected(server, proxy) -> Iterator[jetsync.Connection]:
    """The first connection did not work out, and it is tried again in the background."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"nats://127.0.0.1:{silent.getsockname()[1]}"
        yield jetsync.connect(address, connect_timeout=0.4, retry_on_initial_connect=True)


@contextlib.contextmanager
def slow_callback(server, proxy) -> Iterator[jetsync.Connection]:
    """A callback that does not come back before it is let go."""
    nc = jetsync.connect(server.url)
    go, inside = threading.Event(), threading.Event()

    def callback(msg):
        inside.set()
        go.wait(60)

    nc.subscribe("a", callback=callback)
    for _ in range(3):
        nc.publish("a")
    assert inside.wait(20)
    yield nc
    go.set()


STATES: list[State] = [
    idle,
    working,
    frozen,
    full,
    away,
    redialling,
    never_connected,
    slow_callback,
]


def client_threads() -> set[threading.Thread]:
    """The threads of connections; the proxy in front of the server has its own, and goes on."""
    return {t for t in library_threads() if "-proxy-" not in t.name}


def nothing_is_left(threads: set[threading.Thread]) -> None:
    wait_until(
        lambda: not client_threads() - threads,
        timeout=5,
        message=lambda: f"left: {sorted(t.name for t in client_threads() - threads)}",
    )


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_close_keeps_its_second(state, server, proxy, stalls, record_figure):
    threads, worst = client_threads(), 0.0
    for _ in range(ROUNDS):
        with state(server, proxy) as nc:
            begun = time.monotonic()
            nc.close()
            ended = time.monotonic()
            assert nc.is_closed
            if state is not slow_callback:  # user code that does not come back keeps its thread
                assert client_threads() <= threads, "close() joins the threads"
            with pytest.raises(jetsync.ConnectionClosedError):
                nc.publish("a")
            begun_again = time.monotonic()
            nc.close()
            nc.drain(timeout=0)
            assert time.monotonic() - begun_again < CLOSE_BOUND
        nothing_is_left(threads)
        worst = max(worst, ended - begun - stalls.during(begun, ended))
    record_figure(f"G9 close(), {state.__name__}", worst, "s", goal="<= 1.0 s")
    assert worst <= CLOSE_BOUND + SLACK


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_drain_keeps_its_time(state, server, proxy, stalls, record_figure):
    """P7: however it ends, in time and with the connection closed."""
    threads, worst = client_threads(), 0.0
    for _ in range(ROUNDS):
        with state(server, proxy) as nc:
            begun = time.monotonic()
            if state in (idle, working):
                with contextlib.suppress(jetsync.TimeoutError):  # a busy machine
                    nc.drain(timeout=DRAIN_TIMEOUT)
            else:
                with pytest.raises(jetsync.TimeoutError):
                    nc.drain(timeout=DRAIN_TIMEOUT)
            ended = time.monotonic()
            assert nc.is_closed
            with pytest.raises(jetsync.ConnectionClosedError):
                nc.publish("a")
        nothing_is_left(threads)
        worst = max(worst, ended - begun - DRAIN_TIMEOUT - stalls.during(begun, ended))
    record_figure(f"P7 drain(t), {state.__name__}: over t", worst, "s", goal="<= 0.5 s")
    assert worst <= DRAIN_BOUND + SLACK


def closing(how: str, nc: jetsync.Connection) -> None:
    if how == "close":
        nc.close()
    else:
        with contextlib.suppress(jetsync.TimeoutError):
            nc.drain(timeout=DRAIN_TIMEOUT)


def ended_from_inside(place: str, how: str, proxy) -> tuple[float, float]:
    """Let a callback end its own connection; return when it began and was back."""
    took: list[tuple[float, float]] = []
    done = threading.Event()

    def end(what):
        if not done.is_set():
            begun = time.monotonic()
            closing(how, nc)
            took.append((begun, time.monotonic()))
            done.set()

    events: dict[str, Any] = {}
    if place in ("error", "disconnected", "closed"):
        events[f"on_{place}"] = end
    nc = jetsync.connect(proxy.url, **events)
    try:
        nc.subscribe("b", callback=lambda msg: None)
        nc.subscribe("a", callback=end if place == "message" else lambda msg: 1 / 0)
        for _ in range(5):
            nc.publish("a")
            nc.publish("b")
        if place == "disconnected":
            proxy.cut()
        elif place == "closed":
            nc.close()
        elif place == "timer":
            nc._timer.call_later(0, lambda: end(None))
        assert done.wait(20)
        wait_until(lambda: nc.is_closed, timeout=5)
    finally:
        nc.close()
    (times,) = took
    return times


@pytest.mark.parametrize("how", ["close", "drain"])
@pytest.mark.parametrize("place", ["message", "error", "disconnected", "closed", "timer"])
def test_a_callback_may_end_its_own_connection(place, how, server, proxy, stalls, record_figure):
    threads, worst = client_threads(), 0.0
    bound = CLOSE_BOUND if how == "close" else DRAIN_TIMEOUT + DRAIN_BOUND
    for _ in range(ROUNDS):
        begun, ended = ended_from_inside(place, how, proxy)
        nothing_is_left(threads)
        worst = max(worst, ended - begun - stalls.during(begun, ended))
    record_figure(f"G9 {how}() from a callback ({place})", worst, "s", goal=f"<= {bound} s")
    assert worst <= bound + SLACK


@pytest.mark.parametrize("state", [working, frozen, full], ids=lambda state: state.__name__)
def test_eight_threads_close_at_once(state, server, proxy, stalls, record_figure):
    threads, worst = client_threads(), 0.0
    for _ in range(ROUNDS):
        with state(server, proxy) as nc:
            took: list[tuple[float, float]] = []
            barrier = threading.Barrier(8)

            def end(number, nc=nc, took=took, barrier=barrier):
                barrier.wait()
                begun = time.monotonic()
                closing("drain" if number % 4 == 3 else "close", nc)
                took.append((begun, time.monotonic()))

            closers = [threading.Thread(target=end, args=(n,)) for n in range(8)]
            for closer in closers:
                closer.start()
            for closer in closers:
                closer.join(20)
                assert not closer.is_alive()
        nothing_is_left(threads)
        worst = max(worst, *(e - b - stalls.during(b, e) for b, e in took))
    record_figure(f"G9 8 closers, {state.__name__}", worst, "s", goal="<= 1.0 s")
    assert worst <= CLOSE_BOUND + SLACK
