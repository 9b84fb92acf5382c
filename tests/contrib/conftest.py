"""Connections of kombu, each test with a virtual host of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import kombu
import pytest

from jetsync import Connection
from jetsync.contrib.kombu import Transport
from jetsync.server import NatsServer

_numbers = itertools.count(1)

Connect = Callable[..., kombu.Connection]


@pytest.fixture
def connect(server: NatsServer) -> Iterator[Connect]:
    """Make a connected kombu.Connection to the virtual host of the test; options go to it."""
    vhost = f"v{next(_numbers)}"
    made: list[tuple[kombu.Connection, Connection]] = []

    def new(url: str | None = None, **options: Any) -> kombu.Connection:
        connection = kombu.Connection(
            url or f"{server.url}/{vhost}",
            transport="jetsync.contrib.kombu:Transport",
            transport_options={"storage": "memory", **options},
        )
        transport = connection.connect() and connection.transport
        assert isinstance(transport, Transport)
        made.append((connection, transport.broker.nc))
        return connection

    yield new
    for connection, nc in made:
        connection.release()
        nc.close()
