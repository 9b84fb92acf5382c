"""A connection to the session's server and its JetStream, closed after the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import jetsync
from jetsync import Connection, JetStream


@pytest.fixture
def nc(url: str) -> Iterator[Connection]:
    connection = jetsync.connect(url)
    yield connection
    connection.close()


@pytest.fixture
def js(nc: Connection) -> JetStream:
    return nc.jetstream()
