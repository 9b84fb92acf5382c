"""A program that forks while its connection works: ``python -m tests.reliability.forking``.

Arguments: the server's URL and the number of forks. Prints what it counted as JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial

import jetsync
from tests.harness.fakeserver import FakeServer, Peer
from tests.harness.processor import waited_for_processor
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

CHILD_WITHIN = 20.0
CALL_WITHIN = 0.25
SLACK = scaled(0.75, 0.0)  # for a busy machine


def every_call(
    nc: jetsync.Connection, sub: jetsync.Subscription, inside: jetsync.Subscription
) -> dict[str, Callable[[], object]]:
    iterator = iter(nc.subscribe("unused"))
    return {
        "an iterator of the parent": lambda: next(iterator),
        "publish": lambda: nc.publish("a", b"from the child"),
        "request": lambda: nc.request("echo", timeout=60),
        "request_many": lambda: list(nc.request_many("echo", timeout=60)),
        "subscribe": lambda: nc.subscribe("b"),
        "flush": lambda: nc.flush(timeout=60),
        "rtt": lambda: nc.rtt(timeout=60),
        "drain": lambda: nc.drain(timeout=60),
        "force_reconnect": nc.force_reconnect,
        "next": lambda: sub.next(timeout=60),
        "iter": lambda: iter(sub),
        "unsubscribe": sub.unsubscribe,
        "sub.drain": lambda: inside.drain(timeout=60),
    }


def child(calls: dict[str, Callable[[], object]], nc: jetsync.Connection) -> None:
    """Every call says at once that this is another process; ending is as usual."""
    for name, call in calls.items():
        begun, waited = time.monotonic(), waited_for_processor()
        try:
            call()
        except jetsync.ForkedError:
            pass
        else:
            raise AssertionError(f"{name} worked in the child")
        took = time.monotonic() - begun - (waited_for_processor() - waited)
        assert took <= CALL_WITHIN + SLACK, (name, took)
    nc.close()
    repr(nc)
    sys.exit(0)


def wait_for(pid: int) -> None:
    end = time.monotonic() + CHILD_WITHIN
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            assert os.waitstatus_to_exitcode(status) == 0, status
            return
        if time.monotonic() > end:
            raise AssertionError("a child hangs")
        time.sleep(0.002)  # between two looks


def fork_under_load(url: str, forks: int) -> dict[str, float]:
    """Threads publish, request, subscribe; the main thread forks."""
    counted = {"published": 0, "requests": 0}
    with jetsync.connect(url) as other, jetsync.connect(url) as nc:
        arrived = other.subscribe("load", pending_messages_limit=0, pending_bytes_limit=0)
        other.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
        other.flush()
        sub, inside = nc.subscribe("a"), nc.subscribe("a", callback=lambda msg: None)
        calls = every_call(nc, sub, inside)
        stop = threading.Event()
        failed: list[BaseException] = []

        def repeat(call: Callable[[], None]) -> None:
            try:
                while not stop.wait(0.0005):
                    call()
            except BaseException as error:
                failed.append(error)

        def publish() -> None:
            for _ in range(10):
                nc.publish("load", b"x" * 100)
                counted["published"] += 1

        def request() -> None:
            text = b"%d" % counted["requests"]
            assert nc.request("echo", text, timeout=30).data == text
            counted["requests"] += 1

        def churn() -> None:
            with nc.subscribe("c"):
                nc.flush(timeout=30)

        def has_gone_on(enough: int) -> bool:
            return bool(failed) or counted["requests"] > enough

        threads = [threading.Thread(target=repeat, args=(c,)) for c in (publish, request, churn)]
        for thread in threads:
            thread.start()
        for _ in range(forks):
            enough = counted["requests"] + 5
            wait_until(partial(has_gone_on, enough), timeout=30)
            pid = os.fork()
            if pid == 0:
                child(calls, nc)
            wait_for(pid)
        stop.set()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        assert not failed, failed
        nc.flush(timeout=30)
        other.flush(timeout=30)
        assert nc.stats.reconnects == 0
        lost = counted["published"] - arrived.pending_messages

    return {"lost": lost, **counted}


def fork_in_silence(forks: int) -> dict[str, int]:
    """Nothing is going on: every byte that the server sees would be a child's."""

    def answer(peer: Peer) -> None:
        peer.handshake()
        peer.serve()

    fake = FakeServer(answer).start()  # no context manager: a child would leave it too
    with jetsync.connect(fake.url, ping_interval=3600) as nc:
        sub, inside = nc.subscribe("a"), nc.subscribe("a", callback=lambda msg: None)
        calls = every_call(nc, sub, inside)
        nc.flush(timeout=30)
        (peer,) = fake.peers
        expected = peer.received
        for _ in range(forks):
            pid = os.fork()
            if pid == 0:
                child(calls, nc)
            wait_for(pid)
            nc.flush(timeout=30)
            expected += b"PING\r\n"
        stray = len(peer.received) - len(expected)
        assert peer.received == expected
    fake.stop()
    return {"stray": stray}


def worker(options: jetsync.ConnectOptions, text: bytes) -> tuple[int, bytes]:
    """What runs in the pools: a connection of the process's own, from options."""
    return os.getpid(), jetsync.shared_connection(options).request("echo", text, timeout=30).data


def pools(url: str) -> dict[str, int]:
    """Every way to start processes, with a connection open in the parent."""
    found = {}
    options = jetsync.ConnectOptions(servers=url)
    with jetsync.connect(options=options) as nc:
        nc.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
        nc.flush()  # the server knows of it before another connection asks
        assert jetsync.shared_connection(options).request("echo", b"p", timeout=30).data == b"p"
        for method in ("fork", "spawn", "forkserver"):
            texts = [b"%d" % n for n in range(40)]
            with multiprocessing.get_context(method).Pool(2) as pool:
                answers = pool.starmap(worker, [(options, text) for text in texts], 5)
                pool.close()
                pool.join()
            assert [data for _, data in answers] == texts
            assert os.getpid() not in {pid for pid, _ in answers}
            found[method] = len(answers)
        assert nc.stats.reconnects == 0
        jetsync.shared_connection(options).close()
    return found


if __name__ == "__main__":
    # Newer Pythons warn about forking with threads, which is the very thing to be shown here.
    warnings.simplefilter("ignore", DeprecationWarning)
    if sys.argv[2] == "pools":
        result: dict = pools(sys.argv[1])
    else:
        result = {
            **fork_under_load(sys.argv[1], int(sys.argv[2])),
            **fork_in_silence(int(sys.argv[2]) // 5),
        }
    print(json.dumps(result), flush=True)
