"""A program that interrupts itself in every blocking call.

``python -m tests.reliability.interrupting``; arguments: the server's URL, the URL of a peer that
accepts and never reads or answers, and how
many interrupts. Prints the milliseconds from each signal to its KeyboardInterrupt, as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable

import jetsync
from tests.harness.insides import label_of, outbound_of
from tests.harness.signals import is_waiting
from tests.harness.stalls import Stalls
from tests.harness.waiting import wait_until

FOREVER = 3600.0


class Interrupter:
    """Sends SIGINT to this process when the main thread has been waiting for a moment."""

    def __init__(self) -> None:
        self.sent = 0.0
        self._go = threading.Semaphore(0)
        self._rng = random.Random(1)
        self._stalls = Stalls()
        self._stalls.__enter__()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self._go.acquire()
            waits = 0
            while waits < 3:  # it may sleep for a moment in between, in a lock
                time.sleep(self._rng.uniform(0.001, 0.004))  # the moment varies
                waits = waits + 1 if is_waiting(os.getpid()) else 0
            self.sent = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)

    def interrupt(self, name: str, call: Callable[[], object]) -> float:
        """Run a call that does not end by itself; return how late its interrupt came."""
        self._go.release()
        try:
            call()
        except KeyboardInterrupt:
            now = time.monotonic()
            return now - self.sent - self._stalls.during(self.sent, now)
        raise AssertionError(f"{name}: the call ended without an interrupt")


def again_and_again(call: Callable[[], object]) -> None:
    while True:
        call()


def threads_of_others(*living: jetsync.Connection) -> list[str]:
    """The library's threads that belong to none of these connections."""
    labels = {label_of(nc) for nc in living}
    names = [t.name for t in threading.enumerate() if t.name.startswith("jetsync-")]
    return [name for name in names if name.split("-")[2] not in labels]


def main(url: str, deaf: str, count: int) -> None:
    nc = jetsync.connect(url)
    nc.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
    # What answers no ping is left after a minute, and a publish with it: not here.
    stuck = jetsync.connect(deaf, write_timeout=FOREVER, ping_interval=3600)
    try:
        while True:  # until there is no room
            outbound_of(stuck).write_timeout = 0.2
            stuck.publish("flood", b"x" * 900_000)
    except jetsync.OutboundFullError:
        outbound_of(stuck).write_timeout = FOREVER
    one, two, three = (nc.subscribe("numbers") for _ in range(3))
    _silent = nc.subscribe("silent")  # it lasts as long as it is held
    js = nc.jetstream(max_pending=1, timeout=FOREVER)
    unanswered = js.publish_async("silent")
    iterator = iter(two)
    idle = nc.subscribe("unread", callback=lambda msg: time.sleep(FOREVER))  # for ever
    nc.publish("unread")
    doomed: list[jetsync.Connection] = []
    interrupter = Interrupter()
    calls: dict[str, Callable[[], object]] = {
        "next": lambda: one.next(timeout=FOREVER),
        "iterate": lambda: next(iterator),
        "loop": lambda: list(three),
        "request": lambda: nc.request("silent", timeout=FOREVER),
        "request_many": lambda: list(nc.request_many("silent", timeout=FOREVER)),
        "flush": lambda: stuck.flush(timeout=FOREVER),
        "rtt": lambda: stuck.rtt(timeout=FOREVER),
        "publish": lambda: stuck.publish("flood", b"x" * 900_000),
        "drain a subscription": lambda: idle.drain(timeout=FOREVER),
        "close": lambda: doomed[-1].close(),
        "drain": lambda: doomed[-1].drain(timeout=FOREVER),
        "result": unanswered.result,
        "exception": unanswered.exception,
        "publish_async_wait": js.publish_async_wait,
        "publish_async": lambda: js.publish_async("silent"),
        "busy requests": lambda: again_and_again(lambda: nc.request("echo", b"x", timeout=20)),
        "busy flushes": lambda: again_and_again(lambda: nc.flush(timeout=20)),
    }
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, by the system, and is silent
        silent_url = f"nats://127.0.0.1:{silent.getsockname()[1]}"
        calls["connect"] = lambda: jetsync.connect(silent_url, connect_timeout=FOREVER)
        late: dict[str, list[float]] = {name: [] for name in calls}
        names = list(calls)
        for number in range(count):
            name = names[number % len(names)]
            if name in ("close", "drain"):
                doomed.append(jetsync.connect(deaf))
            late[name].append(1000 * interrupter.interrupt(name, calls[name]))
            assert all(each.is_closed for each in doomed)
            try:
                wait_until(lambda: not threads_of_others(nc, stuck), timeout=20)
            except AssertionError:
                raise AssertionError(f"{name} left {threads_of_others(nc, stuck)}") from None
            # Nothing was lost, doubled or crossed: each gets this number, and its own answer.
            text = b"%d" % number
            nc.publish("numbers", text)
            assert nc.request("echo", text, timeout=20).data == text
            assert one.next(timeout=20).data == text
            assert next(iterator).data == text
            assert three.next(timeout=20).data == text
    assert nc.stats.reconnects == 0
    assert not unanswered.done()
    nc.close()
    assert isinstance(unanswered.exception(20), jetsync.PublishError)
    stuck.close()
    print(json.dumps(late))
    sys.stdout.flush()
    os._exit(0)  # the callback that sleeps for an hour is not what is shown here


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
