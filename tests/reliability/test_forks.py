"""A forked child never hangs and never writes to its parent's socket; the parent goes on (G12)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.harness.soak import scaled
from tests.harness.watchdog import run_module

FORKS = scaled(25, 500)
PATIENCE = scaled(280, 3_000)


@pytest.mark.timed
def test_forks_in_the_middle_of_traffic(server, record_figure):
    """Every call in the child is a ForkedError at once, and it ends as usual."""
    done = run_module("tests.reliability.forking", server.url, str(FORKS), limit=PATIENCE)
    assert (done.code, done.errors) == (0, ""), done
    counted = json.loads(done.output)
    record_figure("G12 forks under load, none hung", FORKS)
    record_figure("G12 messages lost by the parent", counted["lost"], goal="0")
    record_figure("G12 bytes of children on its socket", counted["stray"], goal="0")
    assert counted["lost"] == counted["stray"] == 0
    assert counted["requests"] > FORKS


def test_every_way_of_multiprocessing_gets_connections_of_its_own(server):
    """fork, spawn and forkserver pools: the options travel, each process connects once."""
    done = run_module("tests.reliability.forking", server.url, "pools", limit=120)
    assert (done.code, done.errors) == (0, ""), done
    assert json.loads(done.output) == {"fork": 40, "spawn": 40, "forkserver": 40}


def test_a_fork_inside_a_signal_handler_ends_the_call_in_the_child_only(server):
    """The handler interrupts a thread that waits: for a message, an answer, a PONG, or for room."""
    done = run_module("tests.reliability.forking_in_handlers", server.url, limit=60)
    assert (done.code, done.output, done.errors) == (0, "", ""), done


def test_a_fork_in_the_middle_of_traffic_of_the_core_alone_disturbs_nothing():
    """The child can exit, and the parent goes on: without a server or a connection."""
    done = run_module("tests.reliability.forked", limit=60)
    assert (done.code, done.output, done.errors) == (0, "fine\n", ""), done


HALF_MADE = """
import os, sys, threading, warnings
import jetsync
from jetsync.client import connection

warnings.simplefilter("ignore", DeprecationWarning)
url, step = sys.argv[1:]
open_ones = [jetsync.connect(url) for _ in range(20)]
part = getattr(connection, step)
inside, go_on = threading.Event(), threading.Event()

def slow(*arguments, **options):
    if threading.current_thread() is not threading.main_thread():
        inside.set()
        go_on.wait()
    return part(*arguments, **options)

setattr(connection, step, slow)
connecting = threading.Thread(target=lambda: jetsync.connect(url).close())
connecting.start()
inside.wait()
child = os.fork()
if not child:
    refused = 0
    for nc in open_ones:
        try:
            nc.publish("a", b"from the child")
        except jetsync.ForkedError:
            refused += 1
    os._exit(refused)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
go_on.set()
connecting.join()
for nc in open_ones:
    nc.publish("a", b"from the parent")
    nc.close()
"""


@pytest.mark.parametrize("step", ["Lifecycle", "Session", "Repeats"])
def test_a_fork_while_another_thread_makes_a_connection(server, step):
    """However far that one is: the child is refused on all the others."""
    done = subprocess.run(
        [sys.executable, "-c", HALF_MADE, server.url, step],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "20\n", "")
