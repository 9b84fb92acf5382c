"""Interpreters that are not the usual one: gevent's patches, subinterpreters."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.watchdog import run_code

ROOT = Path(__file__).parents[2]

GEVENT = """
from gevent import monkey
monkey.patch_all()
import logging, sys, threading, gevent, jetsync
from jetsync.client.port import port_of
logging.getLogger("jetsync").setLevel(logging.CRITICAL)

answered = []
with jetsync.connect(sys.argv[1], on_error=lambda event: None) as nc:
    nc.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
    ran = []
    gevent.spawn(ran.append, "another greenlet")
    port_of(nc).has_unread()
    assert not ran
    sub = nc.subscribe("a")
    nc.publish("a", b"1")
    assert sub.next(timeout=20).data == b"1"
    nc.flush(timeout=20)
    assert nc.rtt(timeout=20) < 20

    def ask(number):
        answered.append(nc.request("echo", b"%d" % number, timeout=20).data)

    jobs = [gevent.spawn(ask, number) for number in range(20)]
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20, 40)]
    for thread in threads:
        thread.start()
    gevent.joinall(jobs, raise_error=True)
    for thread in threads:
        thread.join()
    nc.force_reconnect()
    while nc.stats.reconnects == 0:
        gevent.sleep(0.01)  # between two looks
    nc.publish("a", b"2")
    assert sub.next(timeout=20).data == b"2"
assert sorted(map(int, answered)) == list(range(40))
nc = jetsync.connect(sys.argv[1])
nc.close()
print("fine")
left_open = jetsync.connect(sys.argv[1])
"""

SUBINTERPRETER = """
import sys
from importlib import import_module
try:
    interpreters = import_module("_xxsubinterpreters")
except ImportError:
    interpreters = import_module("_interpreters")
if sys.argv[2] == "main first":
    import jetsync
inside = interpreters.create()
code = '''
import sys
sys.path.insert(0, {path!r})
try:
    import jetsync
    with jetsync.connect({url!r}) as nc:
        nc.flush(timeout=20)
except (ImportError, RuntimeError) as error:  # some interpreters may start no threads either
    print("refused:", error)
else:
    print("works")
'''.format(path=sys.path[0], url=sys.argv[1])
interpreters.run_string(inside, code)
interpreters.destroy(inside)
if sys.argv[2] == "main first":
    with jetsync.connect(sys.argv[1]) as nc:
        nc.flush(timeout=20)
    print("main works")
"""


def test_everything_works_with_gevents_patches(server):
    """Blocking calls block: they do not switch greenlets. But nothing hangs or breaks."""
    done = run_code(GEVENT, server.url, limit=60)
    assert (done.code, done.output, done.errors) == (0, "fine\n", ""), done


def test_a_subinterpreter_behind_main_is_refused_in_words_and_main_goes_on(server):
    done = run_code(SUBINTERPRETER, server.url, "main first", limit=60)
    assert (done.code, done.errors) == (0, ""), done
    first, *rest = done.output.splitlines()
    assert first.startswith("refused: ")
    assert "interpreter" in first
    assert rest == ["main works"]


def test_a_subinterpreter_that_is_the_first_to_import(server):
    done = run_code(SUBINTERPRETER, server.url, "alone", limit=60)
    assert (done.code, done.errors) == (0, ""), done
    (first,) = done.output.splitlines()
    # It may start no threads, or, since Python 3.12, share no module.
    assert re.match("refused: .*(thread|interpreter)", first)


EVENTLET = """
import sys
sys.path.insert(0, sys.argv[2])
import eventlet
eventlet.monkey_patch()
import jetsync
try:
    jetsync.connect(sys.argv[1])
except jetsync.ConfigError as error:
    print(error)
"""


@pytest.fixture
def eventlet(tmp_path: Path) -> str:
    """A folder with eventlet, which other packages would import if it were beside them."""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tmp_path)]
    constraints = ["--constraint", str(ROOT / ".ci/constraints.txt")]
    done = subprocess.run(
        [*install, *constraints, "eventlet"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no package index here; gevent runs: {done.stderr[-500:]}")
    return str(tmp_path)


def test_eventlet_is_refused_with_the_reason(server, eventlet):
    done = run_code(EVENTLET, server.url, eventlet, limit=60)
    assert "eventlet has replaced the threads" in done.output
