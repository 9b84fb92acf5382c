"""A message whose last delivery dies with its process becomes a dead letter all the same: the
server's ``max_deliver`` drops nothing that a worker with dead letters has to deal with."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import jetsync
from jetsync.server import NatsServer
from jetsync.worker import Backoff, Reject, Worker, WorkSource, task
from tests.harness.older import OLDER_VERSIONS, older_server
from tests.harness.waiting import wait_until
from tests.worker.conftest import Place

ROOT = Path(__file__).parents[2]
LONG = 60


@task(
    stream="LAST",
    consumer="w",
    dead_letter="dead.{subject}",
    retry=lambda _msg, _error: None,
    crash_tries=1,
)
def ends_its_process(msg: jetsync.JetStreamMsg) -> None:
    """What a job does that crashes."""
    os._exit(3)


def test_a_job_whose_last_delivery_dies_with_its_process_becomes_a_dead_letter():
    """It ends its first process; the second is killed before the dead letter is stored. A third
    delivery is above ``max_deliver``: the server would drop the job."""
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="LAST", subjects=["last.>"], storage="memory")
        consumer = js.create_consumer("LAST", durable_name="w", ack_wait=0.5, max_deliver=2)
        js.publish("last.job", b"job")
        assert _worker(server.url).wait(LONG) == 3
        second = _worker(server.url)  # no stream takes the dead letter yet
        try:
            wait_until(lambda: _deliveries(consumer) == 2, timeout=LONG)
        finally:
            second.kill()
            second.wait()
        letters = js.create_stream(name="DEAD", subjects=["dead.>"], storage="memory")
        third = _worker(server.url)
        try:
            wait_until(lambda: letters.info().state.messages, timeout=LONG)
        finally:
            third.terminate()
            code = third.wait(LONG)
        assert code == 0
        headers = letters.get_msg(1).headers
        assert headers is not None
        assert headers["Dead-Letter-Reason"] == "crashed"
        assert headers["Dead-Letter-Deliveries"] == "3"


def _worker(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "jetsync.worker", "--no-context"),
            "tests.worker.test_last_delivery:ends_its_process",
        ],
        cwd=ROOT,
        env={**os.environ, "NATS_URL": url},
    )


def _deliveries(consumer: jetsync.Consumer) -> int:
    delivered = consumer.info().delivered
    return 0 if delivered is None else delivered.consumer_seq


@pytest.mark.parametrize("version", [None, *OLDER_VERSIONS])
def test_a_dead_letter_that_was_refused_at_the_last_delivery_is_stored_later(version: str | None):
    with (
        NatsServer() if version is None else older_server(version) as server,
        jetsync.connect(server.url) as nc,
    ):
        js = nc.jetstream()
        js.create_stream(name="JOBS", subjects=["jobs.>"], storage="memory")
        consumer = js.create_consumer("JOBS", durable_name="w", max_deliver=3)
        js.publish("jobs.a", b"job")

        def handle(msg: jetsync.JetStreamMsg) -> None:
            raise Reject("never")

        with Worker(
            consumer,
            handle,
            dead_letter="dead.{subject}",
            crash_tries=2,
            retry=Backoff(0.05, limit=0.1, tries=1),
        ) as worker:
            wait_until(lambda: worker.stats.retried > 3, timeout=LONG)
            letters = js.create_stream(name="DEAD", subjects=["dead.>"], storage="memory")
            wait_until(lambda: worker.stats.dead, timeout=LONG)
        assert letters.get_msg(1).data == b"job"


@pytest.mark.parametrize("is_made", [False, True])
def test_the_limit_is_lifted_where_dead_letters_are_stored_and_the_user_is_told(
    place: Place, caplog: pytest.LogCaptureFixture, is_made: bool
):
    """Also of a consumer that the worker makes, and nothing else of it is changed."""
    config = jetsync.ConsumerConfig(
        durable_name="w", ack_wait=7.0, max_deliver=50, metadata={"owner": "us"}
    )
    place.js.create_consumer(place.name, config)
    source = WorkSource(
        place.name, "w", options=place.nc.options, create=config if is_made else None
    )
    with caplog.at_level(logging.INFO, "jetsync.worker"):
        with Worker(source, print):
            pass
        found = place.js.consumer(place.name, "w").info().config
        assert found is not None
        assert found.max_deliver == 50  # nothing is promised without dead letters
        with Worker(source, print, dead_letter=place.dead):
            pass
    after = place.js.consumer(place.name, "w").info().config
    assert after == replace(found, max_deliver=-1)
    assert is_made or "max_deliver" in caplog.text


def test_a_worker_that_may_not_lift_the_limit_says_what_follows(
    caplog: pytest.LogCaptureFixture,
):
    """It works all the same."""
    deny = "$JS.API.CONSUMER.CREATE.LIMITED.>"
    config = {
        "authorization": {
            "users": [
                {"user": "admin", "password": "a"},
                {"user": "w", "password": "w", "permissions": {"publish": {"deny": [deny]}}},
            ]
        }
    }
    with (
        NatsServer(config=config) as server,
        jetsync.connect(server.url, user="admin", password="a") as nc,
    ):
        js = nc.jetstream()
        js.create_stream(name="LIMITED", subjects=["limited.>"], storage="memory")
        js.create_consumer("LIMITED", durable_name="w", max_deliver=50)
        js.publish("limited.a", b"1")
        source = WorkSource(
            "LIMITED",
            "w",
            options=jetsync.ConnectOptions(servers=server.url, user="w", password="w"),
        )
        with Worker(source, lambda msg: None, dead_letter="dead.{subject}") as worker:
            wait_until(lambda: worker.stats.done == 1)
        assert "max_deliver" in caplog.text
        assert "max_deliver=-1" in caplog.text
