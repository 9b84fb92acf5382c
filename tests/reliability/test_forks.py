"""A forked child never hangs and never writes to its parent's socket; the parent goes on (G12)."""

from __future__ import annotations

import json

import pytest

from tests.harness.soak import scaled
from tests.harness.watchdog import run_module

pytestmark = pytest.mark.timed

FORKS = scaled(25, 500)
PATIENCE = scaled(280, 3_000)


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
