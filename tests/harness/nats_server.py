"""Fixtures: the real nats-server. Without it the suite fails, unless --no-server is given."""

from __future__ import annotations

import pytest

from jetsync.errors import ServerUnavailableError
from jetsync.server import NatsCluster, NatsServer
from jetsync.server.binary import find_binary


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-server", action="store_true", help="leave out the tests that need a nats-server"
    )


def pytest_report_header() -> str:
    try:
        return f"nats-server: {find_binary()}"
    except ServerUnavailableError as error:
        return f"nats-server: {error}"


def _needed(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--no-server"):
        pytest.skip("--no-server was given")


@pytest.fixture(scope="session")
def server(request):
    """One JetStream server for the whole session; tests use names of their own."""
    _needed(request)
    with NatsServer() as one:
        yield one


@pytest.fixture
def url(server):
    return server.url


@pytest.fixture
def fresh_server(request):
    """A server that the test may harm."""
    _needed(request)
    with NatsServer() as one:
        yield one


@pytest.fixture(scope="session")
def cluster(request):
    """Three servers; a test that harms one brings it back."""
    _needed(request)
    with NatsCluster(3) as three:
        yield three
