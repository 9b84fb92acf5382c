"""A program whose signal handlers use the connection that the interrupted code is using.

``python -m tests.reliability.signal_handlers URL COUNT``: prints how many handlers ran. It hangs
(and the test's limit ends it) when one of them waits for what it interrupted.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
from collections.abc import Callable
from typing import Any

import jetsync

PERIOD = 0.0013
PATIENCE = 5.0
# What a call raises that a handler ends.
CUT_SHORT = (jetsync.TimeoutError, jetsync.DisconnectedError)


def in_handlers(nc: jetsync.Connection, count: int) -> int:
    """Make every core call in handlers, which interrupt the same calls of the main thread."""
    calls: list[Callable[[], Any]] = [
        lambda: nc.flush(timeout=PATIENCE),
        lambda: nc.publish("x", b"data"),
        lambda: nc.request("echo", b"data", timeout=PATIENCE),
        lambda: nc.subscribe("y").unsubscribe(),
        lambda: nc.rtt(timeout=PATIENCE),
        lambda: repr((nc, nc.stats, nc.status, nc.last_error)),
    ]
    turns = itertools.cycle(calls)
    ran, inside = [0], [False]

    def handler(*_: object) -> None:
        if not inside[0]:
            inside[0] = True
            try:
                next(turns)()
                ran[0] += 1
            finally:
                inside[0] = False

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, PERIOD, PERIOD)
    try:
        while ran[0] < count:
            for call in calls:
                call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return ran[0]


def ended_by_handlers(url: str, rounds: int) -> None:
    """Close or drain in a handler that interrupts anything, the same call included."""
    ends: list[Callable[[jetsync.Connection], None]] = [
        lambda nc: nc.close(),
        lambda nc: nc.drain(timeout=PATIENCE),
    ]
    for number in range(rounds):
        end = ends[number % 2]
        nc = jetsync.connect(url)

        def handler(
            *_: object,
            end: Callable[[jetsync.Connection], None] = end,
            nc: jetsync.Connection = nc,
        ) -> None:
            with contextlib.suppress(jetsync.TimeoutError):  # it waits for what it interrupts
                end(nc)

        signal.signal(signal.SIGTERM, handler)
        signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGTERM))
        signal.setitimer(signal.ITIMER_REAL, 0.0003 + 0.0007 * (number % 7))
        with contextlib.suppress(jetsync.ConnectionClosedError, jetsync.DrainingError, *CUT_SHORT):
            while True:
                nc.publish("x")
                nc.flush(timeout=PATIENCE)
                nc.request("echo", b"", timeout=PATIENCE)
                if number % 3 == 0:
                    end(nc)
                    break
        signal.setitimer(signal.ITIMER_REAL, 0)
        nc.close()
        assert nc.is_closed, nc


def main(url: str, count: int) -> None:
    with jetsync.connect(url) as responder:
        responder.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
        responder.flush()
        with jetsync.connect(url) as nc:
            print(in_handlers(nc, count))
        ended_by_handlers(url, max(10, count // 20))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
