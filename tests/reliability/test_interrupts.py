"""Ctrl-C: KeyboardInterrupt within 100 ms in every blocking call, and nothing lost (G11).

First the waits of the core alone, in programs without a server; then every call, with one.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from jetsync.server import NatsServer
from tests.harness.fakeserver import FakeServer
from tests.harness.places import ROOT
from tests.harness.signals import is_waiting
from tests.harness.soak import scaled
from tests.harness.watchdog import run_module
from tests.reliability.interrupted import PROGRAMS

INTERRUPTS = scaled(54, 1_400)
LIMIT = 30.0  # the programs wait for an hour
PATIENCE = scaled(250, 3_000)
BOUND = 100.0
SLACK = 150.0  # milliseconds that a busy machine may take to run the thread


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_interrupt_ends_the_wait_and_loses_nothing(name):
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.reliability.interrupted", name],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n", process.communicate()
        end = time.monotonic() + LIMIT
        while process.poll() is None:
            assert time.monotonic() < end, "the interrupt did not end the wait"
            if is_waiting(process.pid):
                process.send_signal(signal.SIGINT)
            try:
                process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
        said, complained = process.communicate()
    finally:
        process.kill()
        process.communicate()
    assert (said, process.returncode) == ("fine\n", 0), complained


def deaf(peer):
    """Accept the client, then read and answer nothing, until the test is over."""
    peer.handshake()
    peer.hold()


@pytest.mark.timed
def test_every_blocking_call_is_interrupted_at_once_and_nothing_is_lost(
    server, record_figure, keeps_promise
):
    with FakeServer(deaf) as fake:
        done = run_module(
            "tests.reliability.interrupting", server.url, fake.url, str(INTERRUPTS), limit=PATIENCE
        )
    assert (done.code, done.errors) == (0, ""), done
    late = json.loads(done.output)
    every = sorted(value for values in late.values() for value in values)
    assert len(every) == INTERRUPTS
    for name, values in late.items():
        record_figure(f"G11 {name}: max", max(values), "ms")
    keeps_promise("G11 Ctrl-C to KeyboardInterrupt", every, BOUND, "ms", slack=SLACK)


@pytest.mark.timed
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_an_interrupt_at_any_moment_ends_one_call_and_leaves_the_link_whole(
    encrypted, certificates
):
    """Also where it meets Python code below the call, as that which encrypts."""
    config = certificates.server_config() if encrypted else None
    with NatsServer(jetstream=False, config=config) as server:
        done = run_module(
            "tests.reliability.interrupting_anywhere",
            f"{'tls' if encrypted else 'nats'}://127.0.0.1:{server.port}",
            str(certificates.ca) if encrypted else "",
            str(scaled(300, 3_000)),
            limit=PATIENCE,
        )
    assert (done.code, done.output, done.errors) == (0, "", ""), done
