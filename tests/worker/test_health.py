"""Health of a worker: the sentences about its keys."""

from __future__ import annotations

import threading

from jetsync.testing import wait_until
from jetsync.worker import Backoff, Worker
from tests.worker.sources import MadeSource

LONG = 20.0
FULL = "prefetch is full of messages that wait for their keys: raise prefetch"


def test_a_prefetch_full_of_one_key_is_a_problem_until_another_job_can_begin(
    made_source: MadeSource,
):
    go_on = threading.Event()
    keys = {1: "a", 2: "a", 3: "b"}

    def handle(_: object) -> None:
        assert go_on.wait(LONG)

    with Worker(
        None,
        handle,
        threads=2,
        prefetch=2,
        key=lambda msg: keys[msg.metadata.stream_seq],
    ) as worker:
        made_source.deliver(1, 1)
        wait_until(lambda: worker.health().in_flight == 1)
        assert FULL not in worker.health().problems
        made_source.deliver(2, 2)
        wait_until(lambda: FULL in worker.health().problems)
        go_on.set()
        wait_until(lambda: worker.stats.done == 2)
        assert FULL not in worker.health().problems


def test_a_refused_dead_letter_is_a_problem_until_one_is_stored(made_source: MadeSource):
    with Worker(
        None,
        lambda msg: 1 / 0,
        key="subject",
        dead_letter="dead",
        retry=Backoff(0, tries=1, limit=0.01),
    ) as worker:
        made_source.deliver(1, 1)
        wait_until(lambda: worker.health().problems)
        (problem,) = worker.health().problems
        assert (
            problem
            == "a dead letter is refused, and its message is kept: Error: no stream takes it"
        )
        assert worker.health().ready
        made_source.is_refusing = False
        wait_until(lambda: worker.stats.dead == 1)
        assert worker.health().problems == []
