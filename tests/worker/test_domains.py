"""A worker on a leaf node, with jobs of the hub's domain."""

from __future__ import annotations

import threading

import pytest

import jetsync
from jetsync.worker import Backoff, Reject, Worker, WorkSource
from tests.harness.domains import two_domains
from tests.harness.waiting import wait_until


@pytest.fixture(scope="module")
def domains():
    with two_domains() as (there, here):
        yield there, here


def source_by_consumer(here):
    return here.jetstream(domain="hub").consumer("JOBS", "w")


def source_of_its_own(here):
    options = jetsync.ConnectOptions(servers=[here.connected_url], jetstream_domain="hub")
    return WorkSource("JOBS", "w", options=options)


@pytest.mark.parametrize("source", [source_by_consumer, source_of_its_own])
def test_a_dead_letter_is_that_of_the_domain_which_has_the_job(domains, source):
    """Both domains have a stream for it. While that of the hub is full, the confirmation of the
    leaf node does not end the job; when it has room, the letter is there, and the job is over."""
    there, here = domains
    hub, edge = there.jetstream(), here.jetstream()
    full = {"name": "DEAD", "subjects": ["dead.>"], "discard": "new", "storage": "memory"}
    letters = hub.create_stream(**full, max_msgs=1)
    edge.create_stream(name="RIVAL", subjects=["dead.>"], storage="memory")
    try:
        hub.create_stream(name="JOBS", subjects=["jobs.>"], storage="memory")
        consumer = hub.create_consumer("JOBS", durable_name="w")
        hub.publish("dead.other", b"")
        hub.publish("jobs.a", b"1")
        outcomes, refused = [], threading.Event()

        def noted(outcome):
            outcomes.append(outcome.kind)
            if outcome.kind == "retried":
                refused.set()

        def handle(_msg):
            raise Reject("no")

        worker = Worker(
            source(here),
            handle,
            dead_letter="dead.{subject}",
            retry=Backoff(0.05, limit=0.1),
            on_outcome=noted,
        )
        with worker:
            assert refused.wait(30)
            assert "dead" not in outcomes
            assert consumer.info().num_ack_pending == 1
            hub.update_stream(**full, max_msgs=10)
            wait_until(lambda: "dead" in outcomes, timeout=30)
        assert letters.get_last_msg("dead.jobs.a").headers["Dead-Letter-Stream"] == "JOBS"
        wait_until(lambda: consumer.info().num_ack_pending == 0)
    finally:
        edge.delete_stream("RIVAL")
        for name in ("DEAD", "JOBS"):
            hub.delete_stream(name)
