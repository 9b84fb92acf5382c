"""Fixtures: the real nats-server. Without it the suite fails, unless --no-server is given."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import pytest

import jetsync
from jetsync import ApiLevelRequiredError, ClusterError
from jetsync.errors import ServerUnavailableError
from jetsync.server import NatsCluster, NatsServer, find_binary
from jetsync.server.binary import ENVIRONMENT_VARIABLE
from tests.harness.older import OLDER_VARIABLE
from tests.harness.waiting import wait_until


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-server",
        action="store_true",
        help="skip what needs a nats-server; without this option a missing one is a failure",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--no-server"):
        # Tests start servers of their own too: none may be found then, not even an installed one.
        os.environ[ENVIRONMENT_VARIABLE] = "none, because of --no-server"


def pytest_report_header() -> str:
    try:
        return f"nats-server: {find_binary()}"
    except ServerUnavailableError as error:
        return f"nats-server: {error}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    try:
        return (yield)
    except ServerUnavailableError:
        skip_if_unwanted(item.config)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    try:
        return (yield)
    except ApiLevelRequiredError as error:
        if os.environ.get(OLDER_VARIABLE):
            pytest.skip(f"{error}; the other tests run")
        raise
    except ServerUnavailableError:
        skip_if_unwanted(item.config)
        raise


def skip_if_unwanted(config: pytest.Config) -> None:
    if config.getoption("--no-server"):
        pytest.skip("needs a nats-server, and --no-server was given; the other tests run")


@pytest.fixture(scope="session")
def server() -> Iterator[NatsServer]:
    """One JetStream server for the whole session; tests use names of their own, and no force."""
    with NatsServer() as one:
        yield one


@pytest.fixture
def url(server: NatsServer) -> str:
    """The URL of the session's server."""
    return server.url


@pytest.fixture(scope="session")
def never_empty(server: NatsServer) -> None:
    """A file stream that stays: a server that loses its last one may refuse the next one."""
    with jetsync.connect(server.url) as nc:
        nc.jetstream().create_stream(name="NEVER_EMPTY")


@pytest.fixture
def fresh_server() -> Iterator[NatsServer]:
    """A JetStream server of the test's own, to be harmed as it likes."""
    with NatsServer() as one:
        yield one


def await_placement(cluster: NatsCluster) -> None:
    """Wait until a stream finds a server for each replica, on a server older than the newest.

    For up to a second after the start the leader of such a cluster may have no statistics of
    another server, and refuses to use it; no monitoring endpoint shows that.
    """
    if not os.environ.get(OLDER_VARIABLE):
        return
    with jetsync.connect(cluster.urls) as nc:
        js = nc.jetstream()

        def is_placed() -> bool:
            try:
                js.create_stream(name="PLACED", storage="memory", num_replicas=len(cluster.servers))
            except ClusterError:
                return False
            js.delete_stream("PLACED")
            return True

        wait_until(is_placed, timeout=20, message="no stream found its servers")


@pytest.fixture(scope="session")
def cluster() -> Iterator[NatsCluster]:
    """Three servers for the whole session; a test that harms one takes ``fresh_cluster``."""
    with NatsCluster(3) as three:
        await_placement(three)
        yield three


@pytest.fixture
def fresh_cluster() -> Iterator[NatsCluster]:
    """Three servers of the test's own, to be harmed as it likes (quicker than healing them)."""
    with NatsCluster(3) as three:
        await_placement(three)
        yield three
