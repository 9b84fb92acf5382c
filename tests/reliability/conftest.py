"""Servers without JetStream, to be harmed as a test likes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jetsync.server import NatsServer
from tests.harness.conditioner import LinkProcess
from tests.harness.proxy import Proxy
from tests.harness.stalls import Stalls


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer(jetstream=False) as one:
        yield one


@pytest.fixture
def second() -> Iterator[NatsServer]:
    with NatsServer(jetstream=False) as one:
        yield one


@pytest.fixture
def proxy(server: NatsServer) -> Iterator[Proxy]:
    """A network in front of the server."""
    with Proxy(server.url) as one:
        yield one


@pytest.fixture
def stalls() -> Iterator[Stalls]:
    with Stalls() as one:
        yield one


@pytest.fixture(scope="module")
def far_server() -> Iterator[NatsServer]:
    """A server with JetStream that takes large messages, for the end of a link."""
    with NatsServer(config={"max_payload": 8 * 2**20}) as one:
        yield one


@pytest.fixture(scope="module")
def link_process() -> Iterator[LinkProcess]:
    """The process in which the links of a module run."""
    with LinkProcess() as one:
        yield one
