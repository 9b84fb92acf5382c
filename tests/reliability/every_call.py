"""A program that puts every public call under a promise (``python -m`` this module).

Arguments: ``interrupt``, ``fork`` or ``exit``, and the URL of a server with JetStream. Which calls
there are is found by reflection (tests/harness/public_calls.py).
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
import warnings

import jetsync
from tests.harness.conditioner import Link
from tests.harness.processor import waited_for_processor
from tests.harness.public_calls import CALLS, World
from tests.harness.soak import scaled
from tests.harness.stalls import Stalls

LONG = 60.0
AGAIN = scaled(0.3, 1.0)
AFTER = 0.02  # seconds after which a call is interrupted
AT_ONCE = scaled(1.0, 0.25)  # seconds for a call that says it is in a forked child


def interrupted(name: str, world: World, stalls: Stalls) -> float | None:
    """Make a call and press Ctrl-C meanwhile; return how late the interrupt came.

    None: the call had nothing to wait for and was over before.
    """
    try:
        begun = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, AFTER)
        try:
            CALLS[name](world, LONG)
        except jetsync.Error:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        now = time.monotonic()
        return now - begun - AFTER - stalls.during(begun, now)
    return None


def interrupt(url: str) -> dict[str, float]:
    """Interrupt every call at a server that answers nothing; return how late each interrupt came.

    Afterwards the same connection works, and every call can be made again.
    """
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    late = {}
    with Link(url) as link, Stalls() as stalls:
        logging.getLogger("jetsync").addHandler(logging.NullHandler())  # heartbeats are missed
        nc = jetsync.connect(link.url, ping_interval=3600, timeout=LONG)
        nc.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
        silent = nc.subscribe("silent")
        world = World.open(nc)
        CALLS["JetStream.publish_arrow"](world, LONG)  # imports what it needs
        link.stall(way="to_client")
        for name in CALLS:
            waited = interrupted(name, world, stalls)
            if waited is not None:
                late[name] = waited
        link.resume()
        nc.flush(timeout=LONG)
        assert nc.request("echo", b"still here", timeout=LONG).data == b"still here"
        again = World.open(nc)
        for name, call in CALLS.items():
            try:
                call(again, AGAIN if "silent" not in name else 0.01)
            except jetsync.Error:
                pass
            except BaseException as error:
                raise AssertionError(f"{name} after all the interrupts: {error!r}") from error
        assert silent.is_active
        assert nc.stats.reconnects == 0
        for one in (world, again):
            one.close()
        nc.close()
    return late


def fork(url: str) -> dict[str, str]:
    """Make every call in a forked child; return what each one raised."""
    nc = jetsync.connect(url, ping_interval=3600, timeout=LONG)
    nc.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
    world = World.open(nc)
    CALLS["JetStream.publish_arrow"](world, LONG)  # imports what it needs
    nc.flush(timeout=LONG)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        raised = {}
        for name, call in CALLS.items():
            begun, waited = time.monotonic(), waited_for_processor()
            try:
                call(world, LONG)
                raised[name] = "nothing"
            except Exception as error:
                raised[name] = type(error).__name__
            took = time.monotonic() - begun - (waited_for_processor() - waited)
            if took > AT_ONCE:
                raised[name] += f" after {took:.2f} s"
        os.write(writing, json.dumps(raised).encode())
        sys.exit(0)  # as a program ends, with whatever runs at its end
    os.close(writing)
    with os.fdopen(reading) as pipe:
        raised = json.loads(pipe.read())
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
    # The parent has not noticed: the same link, and its own answers.
    assert nc.request("echo", b"parent", timeout=LONG).data == b"parent"
    assert world.consumer.fetch(1, timeout=LONG)
    assert nc.stats.reconnects == 0
    world.close()
    nc.close()
    return raised


def leave(url: str) -> None:
    """End without close, with every kind of handle open and at work."""
    nc = jetsync.connect(url)
    World.open(nc).file.unlink()
    print(time.monotonic(), flush=True)
    sys.exit(7)


if __name__ == "__main__":
    # Newer Pythons warn about forking with threads, which is the very thing to be shown here.
    warnings.simplefilter("ignore", DeprecationWarning)
    if sys.argv[1] == "exit":
        leave(sys.argv[2])
    made = {"interrupt": interrupt, "fork": fork}[sys.argv[1]](sys.argv[2])
    print(json.dumps(made), flush=True)
