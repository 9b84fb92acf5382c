"""Every public call that takes a timeout can be put under the general promises."""

from __future__ import annotations

import builtins
import inspect
import re

import pytest

import jetsync
import jetsync.errors
from jetsync.server import NatsServer
from tests.harness.public_calls import CALLS, World
from tests.harness.public_surface import BUDGETS, NOT_A_CALL, surface

SURFACE = surface()
PLACES = (jetsync, jetsync.errors, builtins)


def test_every_public_call_with_a_timeout_is_in_the_registry():
    known = {name.split(",")[0] for name in CALLS} | set(NOT_A_CALL)
    found = set(SURFACE)
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


@pytest.mark.parametrize("call", SURFACE.values(), ids=SURFACE)
def test_help_of_a_call_says_by_itself_whether_it_blocks_and_what_it_raises(call):
    """A reader of ``help(kv.put)`` has no other docstring at hand."""
    text = " ".join((inspect.getdoc(call) or "").split())
    assert re.search(r"\b[Bb]locks?\b", text), "say whether it blocks, and how long"
    errors = set(re.findall(r"\b[A-Z]\w+Error\b", text))
    assert errors, "name the errors that it raises"
    unknown = {error for error in errors if not any(hasattr(place, error) for place in PLACES)}
    assert not unknown, "no such errors"
    for budget in BUDGETS:
        parameter = inspect.signature(call).parameters.get(budget)
        if parameter is not None and parameter.default is None:
            assert re.search(r"\(default: |\bNone: ", text), f"say what {budget}=None means"


def test_help_shows_no_address_of_an_object():
    """An object without a repr as a default shows its address, which tells a reader nothing."""
    shown = {
        f"{kind.__name__}.{name}": str(inspect.signature(function))
        for kind in (getattr(jetsync, name) for name in jetsync.__all__)
        if inspect.isclass(kind)
        for name in dir(kind)
        if not name.startswith("_")
        and inspect.isroutine(function := getattr(kind, name))
        and has_signature(function)
    }
    assert len(shown) > 300
    assert [name for name, text in shown.items() if " at 0x" in text] == []


def has_signature(function: object) -> bool:
    try:
        inspect.signature(function)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return False
    return True
