"""A program that ends without close(): silent, its own exit code, within a second (G13)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.harness.fakeserver import FakeServer
from tests.harness.soak import scaled
from tests.harness.watchdog import run_code

RUNS = scaled(2, 50)
BOUND = 1.0
SLACK = 0.5  # the interpreter's own end on a busy machine

BEGIN = """
import sys, threading, time, jetsync
url, deaf = sys.argv[1], sys.argv[2]
"""
END = """
print(time.monotonic(), flush=True)
sys.exit(7)
"""

PROGRAMS = {
    "idle": "nc = jetsync.connect(url)",
    "callbacks": """
nc = jetsync.connect(url, on_closed=lambda event: None, on_error=lambda event: None)
for n in range(3):
    nc.subscribe("a", callback=lambda msg: nc.publish("b", msg.data))
for n in range(1000):
    nc.publish("a", b"x" * 100)
""",
    "threads that wait": """
nc = jetsync.connect(url)
sub = nc.subscribe("a")
silent = nc.subscribe("silent")
for call in (lambda: sub.next(timeout=3600), lambda: next(iter(sub)),
             lambda: nc.request("silent", timeout=3600)):
    threading.Thread(target=lambda call=call: jetsync and call(), daemon=True).start()
threading.excepthook = lambda args: None
nc.flush()
""",
    "threads that work": """
nc = jetsync.connect(url)
nc.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
threading.excepthook = lambda args: None
def work():
    while True:
        nc.publish("a", b"x" * 100)
        nc.request("echo", b"x")
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
nc.flush()
""",
    "a deaf server": """
nc = jetsync.connect(deaf)
nc.subscribe("a", callback=print)
nc.publish("a")
""",
    "many deaf servers": """
several = [jetsync.connect(deaf) for _ in range(6)]
for nc in several:
    nc.publish("a")
""",
    "a full buffer": """
nc = jetsync.connect(deaf, write_timeout=0.1)
try:
    while True:
        nc.publish("a", b"x" * 900_000)
except jetsync.OutboundFullError:
    pass
""",
    "no server": """
nc = jetsync.connect("nats://127.0.0.1:1", retry_on_initial_connect=True)
nc.publish("a")
""",
    "a callback that hangs": """
inside = threading.Event()
nc = jetsync.connect(url)
nc.subscribe("a", callback=lambda msg: (inside.set(), time.sleep(3600)))  # hangs
nc.publish("a")
inside.wait(10)
""",
    "a callback that publishes too late": """
inside = threading.Event()
nc = jetsync.connect(url)
def late(msg):
    inside.set()
    while not nc.is_closed:
        time.sleep(0.01)  # until the exit has closed it
    nc.publish("b")
nc.subscribe("a", callback=late)
nc.publish("a")
inside.wait(10)
""",
    "forgotten": """
def forget():
    nc = jetsync.connect(url)
    nc.subscribe("a")
forget()
""",
    "shared": """
nc = jetsync.shared_connection(url)
nc.publish("a")
""",
    "closed": """
nc = jetsync.connect(url)
nc.close()
""",
}


@pytest.mark.timed
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_ends_without_close_is_silent_and_quick(name, server, keeps_promise):
    took = []
    with FakeServer(deaf) as fake:
        for _ in range(RUNS):
            code = BEGIN + PROGRAMS[name] + END
            done = run_code(code, server.url, fake.url, limit=60)
            assert (done.code, done.errors) == (7, ""), done
            took.append(done.took_since(float(done.output)))
    keeps_promise(f"G13 exit, {name}", took, BOUND, slack=SLACK)


def deaf(peer):
    peer.handshake()
    peer.hold()


ENDINGS: dict[str, tuple[str, int, Callable[[str], bool]]] = {
    "the end": ("", 0, lambda errors: errors == ""),
    "an exception": ("1 / 0", 1, lambda errors: errors.count("Traceback") == 1),
    "sys.exit in a thread": (
        "threading.Thread(target=sys.exit, args=(3,)).start()",
        0,
        lambda errors: errors == "",
    ),
    "Ctrl-C": (
        "import os, signal; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)",  # ends by it
        -2,
        lambda errors: errors.count("Traceback") == 1 and "KeyboardInterrupt" in errors,
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_exit_code_and_the_words_are_the_programs_own(ending, server):
    statement, code, right = ENDINGS[ending]
    program = BEGIN + PROGRAMS["callbacks"] + statement
    done = run_code(program, server.url, "", limit=60)
    assert done.code == code, done
    assert right(done.errors), done


def test_warnings_tell_of_a_connection_that_was_never_closed(server):
    """Off by default like every ResourceWarning; a shared connection is meant to stay open."""
    options = ("-W", "always::ResourceWarning")
    for name, times in (("idle", 1), ("forgotten", 1), ("shared", 0), ("closed", 0)):
        program = BEGIN + PROGRAMS[name] + END
        done = run_code(program, server.url, "", limit=60, options=options)
        assert done.code == 7
        assert done.errors.count("ResourceWarning: not closed: Connection(127.0.0.1:") == times
