"""One real Spark session and one real nats-server for the tests of this folder that take them."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jetsync
from jetsync.client import shared
from tests.harness.places import SEARCH_PATH
from tests.spark import quick_start

HERE = Path(__file__).parent
LIVE = {"spark", "js", "new_stream", "server", "fresh_server", "cluster", "fresh_cluster"}


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents and LIVE.intersection(item.fixturenames):
            item.add_marker(pytest.mark.spark)
            # Sockets to the JVM are pyspark's own business.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local session with two slots that repeats failed tasks (``local[2]`` would not)."""
    from pyspark.sql import SparkSession

    # Spark's Python workers must find the jetsync under test, the format's entry, and these tests.
    seen = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([SEARCH_PATH, seen])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # A machine with much else to do is slow to answer; Spark gives its own processes 15 seconds.
    os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] = "120"
    os.environ.update(quick_start.environment())
    builder = SparkSession.builder.config(map=quick_start.SETTINGS)
    session = (
        builder.master("local[2,4]")
        .appName("jetsync tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        # Many tiny queries: starting quickly matters, peak speed does not.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    # For this Spark only: the programs that tests start have their own.
    del os.environ["SPARK_HOME"]
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def no_shared_connections_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close what would try to reach the servers of a finished test for ever.

    What runs beside the session's server keeps its shared connections for the next test, as users'
    processes do; the others are checked for what they leave behind, so theirs end with them.
    """
    yield
    keeps = request.node.get_closest_marker("spark") is not None
    for connection in list(shared._connections.values()):
        if not (keeps and connection.is_connected):
            connection.close()


@pytest.fixture(scope="session")
def js(server) -> Iterator[Any]:
    with jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        # nats-server tidies the folder of an account away, a moment later, when its last stream
        # goes; a stream made at that moment fails with 10049. So one stream always stays.
        js.create_stream(name="SPARK_TESTS_KEEPER", subjects=["spark_tests_keeper"])
        yield js
        js.delete_stream("SPARK_TESTS_KEEPER")


class NewStream:
    """A stream of one test, with subjects ``<name>.>``, and how Spark options name it."""

    def __init__(self, js: Any, url: str, **config: Any) -> None:
        self.name = "T" + uuid.uuid4().hex[:10]
        self.js = js
        self.url = url
        self.config = config
        self.create()

    def create(self) -> None:
        self.js.create_stream(name=self.name, subjects=[f"{self.name}.>"], **self.config)

    @property
    def read_options(self) -> dict[str, str]:
        return {"servers": self.url, "stream": self.name}

    @property
    def write_options(self) -> dict[str, str]:
        return {"servers": self.url}

    def fill(self, count: int, token: str = "x") -> None:
        """Publish ``count`` messages whose payload is their position in the stream."""
        before = self.last_seq
        report = self.js.publish_many(
            [(f"{self.name}.{token}", b"%d" % (before + i + 1)) for i in range(count)]
        )
        assert not report.failed

    @property
    def last_seq(self) -> int:
        return int(self.js.stream(self.name).info().state.last_seq)

    @property
    def messages(self) -> int:
        return int(self.js.stream(self.name).info().state.messages)


@pytest.fixture
def new_stream(js, server):
    """Make streams; they are gone after the test."""
    made: list[NewStream] = []

    def make(count: int = 0, token: str = "x", **config: Any) -> NewStream:
        stream = NewStream(js, server.url, **config)
        made.append(stream)
        if count:
            stream.fill(count, token)
        return stream

    yield make
    for stream in made:
        try:
            js.delete_stream(stream.name)
        except jetsync.StreamNotFoundError:
            pass  # a test deleted it
