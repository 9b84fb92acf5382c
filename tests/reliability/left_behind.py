"""A program that is interrupted at any moment of its calls, and then looks what they left behind.

``python -m tests.reliability.left_behind URL COUNT``; exits with an error when a subscription, a
reply token or a member stays, or when the connection does not work any more.
"""

from __future__ import annotations

import gc
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import jetsync
from tests.harness.insides import left_open


class Interrupted(Exception):
    """What the handler raises."""


def interrupt(*_: object) -> None:
    raise Interrupted


def run(call: Callable[[], Any], rng: random.Random) -> bool:
    """Make a call that is interrupted after some microseconds; whether it was."""
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(20e-6, 600e-6))
            for _ in range(50):
                call()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupted:
        return True
    except jetsync.Error:
        return False
    return False


def main(url: str, count: int) -> None:
    rng = random.Random(3)
    signal.signal(signal.SIGALRM, interrupt)
    with jetsync.connect(url) as responder, jetsync.connect(url) as nc:
        responder.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
        responder.flush()
        js = nc.jetstream(timeout=10)
        js.create_stream(name="S", subjects=["s"], storage="memory", allow_direct=True)
        kv = js.create_key_value(bucket="b", storage="memory")
        kv.put("key", b"value")
        nc.request("echo", b"", timeout=10)
        before = left_open(nc)
        calls: list[Callable[[], Any]] = [
            lambda: nc.request("echo", b"data", timeout=10),
            lambda: nc.subscribe("a.b").unsubscribe(),
            lambda: nc.subscribe("a.b"),
            lambda: nc.flush(timeout=10),
            lambda: list(nc.request_many("echo", b"", timeout=10, max_messages=1)),
            lambda: nc.publish("unheard", b"data"),
            lambda: js.publish("s", b"data", timeout=10),
            lambda: js.stream("S", timeout=10),
            lambda: kv.get("key", timeout=10),
            lambda: kv.put("key", b"value", timeout=10),
        ]
        done = 0
        while done < count:
            for call in calls:
                done += run(call, rng)
        gc.collect()
        deadline = time.monotonic() + 20
        while left_open(nc) != before and time.monotonic() < deadline:
            time.sleep(0.01)  # between two looks
        assert left_open(nc) == before, (before, left_open(nc))
        assert nc.request("echo", b"still", timeout=10).data == b"still"
        js.publish("s", b"still", timeout=10)
        assert kv.get("key").value == b"value"
        assert nc.stats.reconnects == 0, nc.last_error


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
