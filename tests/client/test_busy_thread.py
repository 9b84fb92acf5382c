"""A call that waits for an answer beside a thread that computes: it does not pay a switch interval
each time, and the thread that computes keeps its half of the time."""

from __future__ import annotations

import threading
import time

import pytest

import jetsync
from jetsync._core.gil import kept
from jetsync.testing import Faults
from tests.harness.computing import INTERVAL, computing
from tests.harness.links import straight
from tests.harness.waiting import wait_until

CALLS = 300


@pytest.fixture
def stored(js):
    js.create_stream(name="BUSY", subjects=["busy"], allow_direct=True)
    js.publish("busy", b"1")
    yield js.stream("BUSY")
    js.delete_stream("BUSY")


@pytest.mark.straight  # a wait over TLS gives the GIL up
@pytest.mark.timed
def test_many_calls_cost_few_switch_intervals(stored):
    """One interval each is what a wait costs that gives the GIL up every time. Counted in the
    processor time of the thread that computes; where the processors are busy with other programs,
    answers may be too slow for a while."""
    with computing() as thread:

        def calls_are_cheap() -> bool:
            before, had = kept(), thread.seconds
            for _ in range(CALLS):
                stored.get_msg(1, direct=True)
            return kept() > before and thread.seconds - had < CALLS * INTERVAL / 4

        wait_until(calls_are_cheap, timeout=30)


@pytest.mark.straight  # a wait over TLS gives the GIL up
@pytest.mark.timed
def test_a_thread_that_computes_keeps_its_half_of_the_time(stored):
    with computing():
        for _ in range(CALLS):  # by now waits keep the GIL
            stored.get_msg(1, direct=True)
        before, begun, longest = kept(), time.monotonic(), 0.0
        for _ in range(CALLS * 10):
            called = time.monotonic()
            stored.get_msg(1, direct=True)
            longest = max(longest, time.monotonic() - called)
        took = time.monotonic() - begun
    # Waits keep the GIL for no longer than what they have saved up, an interval at most. Where the
    # system stops this program within one, that one keeps it for longer, and the next ones keep
    # nothing until that is paid back; at the end it may still be owed.
    assert 0 < kept() - before < took * 0.5 + INTERVAL + longest


@pytest.mark.straight  # a wait over TLS gives the GIL up
def test_columns_of_a_few_mebibytes_are_made_with_the_gil(js, stored):
    """Counted by a thread that comes to run only where the GIL is given up."""
    js.publish_many(("busy", bytes(500)) for _ in range(5000)).raise_for_failed()
    batch = stored.get_msgs(2, max_messages=5000)
    assert 2 << 20 < batch.nbytes < 4 << 20
    with computing() as thread:

        def they_are() -> bool:
            for _ in range(CALLS):  # by now it is known that a thread computes
                stored.get_msg(1, direct=True)
            return not thread.runs_during(lambda: [batch.__arrow_c_array__() for _ in range(20)])

        wait_until(they_are, timeout=30)


@pytest.mark.timed
def test_where_no_thread_computes_waits_give_the_gil_up(stored):
    def call() -> None:
        for _ in range(CALLS):
            stored.get_msg(1, direct=True)

    def keeps_nothing() -> bool:
        before = kept()
        call()
        return kept() == before

    with computing():
        call()
    wait_until(keeps_nothing, timeout=20)  # soon after the thread has ended
    # Threads that only call are not taken for one that computes, however many they are.
    threads = [threading.Thread(target=call) for _ in range(8)]
    before, begun = kept(), time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept() - before < (time.monotonic() - begun) * 0.1


def test_a_wait_for_a_far_server_gives_the_gil_up(server):
    """The first one may try; the next ones know that nothing comes that soon."""
    with Faults(straight(server.url)) as far, computing():
        far.delay(0.01)
        with jetsync.connect(far.url) as nc:
            stream = nc.jetstream()
            before = kept()
            for _ in range(20):
                stream.account_info()
            assert kept() - before <= 2 * INTERVAL
