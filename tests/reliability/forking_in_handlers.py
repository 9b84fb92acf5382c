"""Fork inside a signal handler that interrupts a call: ``python -m ... URL``.

In the child the call that was interrupted ends with an error of jetsync at once; in the parent it
goes on as if nothing had happened.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable

import jetsync
from tests.harness.fakeserver import FakeServer

AT = 0.1  # seconds after which the signal comes
TIMEOUT = 1.5


def deaf(peer):
    """Accept the client, then read and answer nothing, until the test is over."""
    peer.handshake()
    peer.hold()


def fill(nc: jetsync.Connection) -> None:
    while True:
        nc.publish("a", b"x" * 100_000)


def interrupted(name: str, call: Callable[[], object]) -> str:
    """What went wrong with one call; "" when nothing did."""
    child = 0

    def handler(*_: object) -> None:
        nonlocal child
        child = os.fork()

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, AT)
    began = time.monotonic()
    try:
        call()
        error = None
    except jetsync.Error as caught:
        error = caught
    passed = time.monotonic() - began
    if child == 0:
        fine = error is not None and passed < AT + 1.0
        if not fine:
            print(f"child of {name}: {error!r} after {passed:.2f} s", file=sys.stderr, flush=True)
        os._exit(0 if fine else 1)
    code = os.waitpid(child, 0)[1]
    if code:
        return f"{name}: the child ended with {code}\n"
    if error is None or passed < TIMEOUT - 0.05:
        return f"{name}: the parent's call ended with {error!r} after {passed:.2f} s\n"
    return ""


def main() -> None:
    warnings.simplefilter("ignore", DeprecationWarning)
    wrong = ""
    with jetsync.connect(sys.argv[1]) as nc, FakeServer(deaf) as fake:
        sub = nc.subscribe("nothing")
        nc.subscribe("silent")  # a request to it is heard and not answered
        frozen = jetsync.connect(fake.url, write_timeout=TIMEOUT)
        calls = {
            "next": lambda: sub.next(timeout=TIMEOUT),
            "request": lambda: nc.request("silent", timeout=TIMEOUT),
            "flush": lambda: frozen.flush(timeout=TIMEOUT),
            "publish": lambda: fill(frozen),
        }
        for name, call in calls.items():
            wrong += interrupted(name, call)
        nc.flush()
        frozen.close()
    print(wrong, end="")


if __name__ == "__main__":
    main()
