"""The helpers of the reliability tests do what they say."""

from __future__ import annotations

import json
import random
import socket
import time

import pytest

from jetsync.server import NatsServer
from tests.harness import figures
from tests.harness.chaos import Chaos
from tests.harness.memory import Holdings, resident, settled
from tests.harness.proxy import Proxy
from tests.harness.waiting import wait_until
from tests.harness.watchdog import run_code


def test_a_program_that_ends_tells_how():
    done = run_code(
        "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", limit=60
    )
    assert (done.code, done.output, done.errors) == (3, "out\n", "err\n")


BUSY = """
import os, sys, time
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    parent = os.getpid()
    for _ in range(3):  # on the same processor, until the parent is gone
        if not os.fork():
            while os.getppid() == parent:
                pass
            os._exit(0)
begun = time.monotonic()
while time.thread_time() < 0.5:
    pass
print(begun, time.monotonic() - begun, flush=True)
"""


@pytest.mark.timed
def test_the_time_for_which_a_program_waits_for_a_processor_is_not_charged_to_it():
    done = run_code(BUSY, limit=60)
    begun, passed = map(float, done.output.split())
    assert passed > 1.0, "the others took no processor from it"
    assert 0.3 < done.took_since(begun) < passed / 2


def test_the_time_for_which_a_program_waits_for_anything_else_is_charged_to_it():
    code = """
    import time
    print(time.monotonic(), flush=True)
    time.sleep(0.5)  # the wait itself
    """
    done = run_code(code, limit=60)
    assert done.took_since(float(done.output)) > 0.4


def test_a_program_that_hangs_fails_with_the_stacks_of_its_threads():
    code = """
    import threading, time
    def hangs_here():
        time.sleep(3600)  # hangs, as the watchdog expects
    threading.Thread(target=hangs_here, daemon=True).start()
    print("begun", flush=True)
    time.sleep(3600)  # hangs, as the watchdog expects
    """
    with pytest.raises(AssertionError, match=r"(?s)did not end within 2 s.*begun.*hangs_here"):
        run_code(code, limit=2)


def test_figures_are_kept_as_json_lines(record_figure, tmp_path, monkeypatch):
    path = tmp_path / "figures"
    monkeypatch.setenv(figures.ENVIRONMENT_VARIABLE, str(path))
    record_figure("figures kept by this test", 1.23456, "s", goal="<= 2 s")
    (line,) = path.read_text().splitlines()
    kept = json.loads(line)
    assert (kept["figure"], kept["value"], kept["goal"]) == (
        "figures kept by this test",
        1.2346,
        "<= 2 s",
    )


def test_chaos_harms_a_proxy_and_heals_it():
    with NatsServer(jetstream=False) as server, Proxy(server.url) as proxy:
        with Chaos(proxy, random.Random(3), hold=(0.0, 0.001)) as chaos:
            wait_until(lambda: chaos.faults > 30, timeout=30)
        with socket.create_connection(("127.0.0.1", proxy.port), 10) as link:
            link.settimeout(10)
            assert link.recv(4) == b"INFO"


def test_memory_and_descriptors_are_those_of_this_process():
    # Unused memory goes back to the system first: what is allocated below could be made of it.
    before, held = settled(), Holdings.now()
    kept = bytearray(64 * 2**20)
    kept[::4096] = b"x" * len(kept[::4096])
    assert resident() - before > 48
    with socket.socket():
        assert Holdings.now().descriptors == held.descriptors + 1
    assert time.monotonic()
