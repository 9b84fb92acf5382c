"""Streams of the test's own, and a consumer whose server is a script."""

from __future__ import annotations

import pytest

import jetsync
from tests.jetstream.scripted import scripted_consumer


@pytest.fixture
def errors():
    """What ``on_error`` of the connection was told."""
    return []


@pytest.fixture
def nc(url, errors):
    connection = jetsync.connect(url, on_error=lambda event: errors.append(event.error))
    yield connection
    connection.close()


@pytest.fixture
def stream(js, request):
    """A fresh memory stream of its own; its subjects begin with its name."""
    name = f"S{abs(hash(request.node.nodeid)) % 10**9}"
    made = js.create_stream(name=name, subjects=[f"{name}.>"], storage="memory")
    yield made
    made.delete()


@pytest.fixture
def subject(stream):
    return f"{stream.name}.a"


@pytest.fixture
def open_stream(js, request):
    """A fresh memory stream that answers direct gets."""
    name = f"D{abs(hash(request.node.nodeid)) % 10**9}"
    made = js.create_stream(name=name, subjects=[f"{name}.>"], storage="memory", allow_direct=True)
    yield made
    made.delete()


@pytest.fixture
def scripted():
    """A consumer whose server says what the test wants."""
    with scripted_consumer() as one:
        yield one
