"""Every public call that takes a timeout can be put under the general promises."""

from __future__ import annotations

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.public_calls import CALLS, NOT_A_CALL, World, surface


def test_every_public_call_with_a_timeout_is_in_the_registry():
    known = {name.split(",")[0] for name in CALLS} | set(NOT_A_CALL)
    found = set(surface())
    assert sorted(found - known) == [], "say in tests/harness/public_calls.py how to make these"
    assert sorted(known - found) == [], "no such calls"


@pytest.fixture(scope="module")
def world():
    # A server of its own: the calls make, purge and delete streams and buckets as they like.
    with (
        NatsServer() as server,
        jetsync.connect(server.url) as nc,
        jetsync.connect(server.url) as other,
    ):
        other.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
        _silent = other.subscribe("silent")  # it lasts as long as it is held
        other.flush()
        one = World.open(nc)
        yield one
        one.close()


@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_the_registry_works_or_says_a_jetsync_error(name, world):
    """The registry means what it says: a wrong argument would be a ConfigError or a TypeError."""
    try:
        CALLS[name](world, 0.5)
    except jetsync.ConfigError:
        raise
    except jetsync.Error:
        pass
