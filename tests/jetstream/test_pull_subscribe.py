"""The older pull API: fetch(n, timeout) as its users know it, on the shared pull engine."""

from __future__ import annotations

import threading
import time

import pytest

import jetsync
from jetsync.errors import ConfigError, ConsumerDeletedError, PullTerminatedError
from tests.harness.waiting import wait_until
from tests.jetstream.messages import fill


def test_a_durable_is_made_and_pulled(js, stream, subject):
    fill(js, subject, 5)
    with js.pull_subscribe(subject, durable="d") as sub:
        assert sub.created_consumer
        assert (sub.stream_name, sub.name) == (stream.name, "d")
        config = sub.cached_info.config
        assert (config.ack_policy, config.filter_subject) == ("explicit", subject)
        assert config.deliver_subject is None
        msgs = sub.fetch(5, 2)
        assert [int(msg.data) for msg in msgs] == list(range(5))
        for msg in msgs:
            msg.ack()
        wait_until(lambda: sub.info().ack_floor.stream_seq == 5, timeout=20)


def test_a_pull_consumer_needs_no_name(js, stream, subject):
    fill(js, subject, 1)
    with js.pull_subscribe(subject) as sub:
        assert sub.fetch()[0].data == b"0"
        assert sub.cached_info.config.durable_name is None


def test_what_is_there_comes_at_once(js, stream, subject):
    """No waiting for the rest: as with a no-wait request first."""
    fill(js, subject, 3)
    with js.pull_subscribe(subject, durable="d") as sub:
        start = time.monotonic()
        assert len(sub.fetch(10, timeout=20)) == 3
        assert time.monotonic() - start < 10


def test_without_messages_it_waits_for_the_first(js, stream, subject):
    with js.pull_subscribe(subject, durable="d") as sub:
        timer = threading.Timer(0.3, fill, (js, subject, 1))
        timer.start()
        assert [int(msg.data) for msg in sub.fetch(1, timeout=20)] == [0]
        timer.join()


@pytest.mark.timed
def test_no_message_is_a_timeout_in_time(js, stream, subject, in_time):
    with js.pull_subscribe(subject, durable="d") as sub:
        for n in (1, 5):
            with in_time(0.3, least=0.2), pytest.raises(jetsync.TimeoutError):
                sub.fetch(n, timeout=0.3)


def test_statuses_are_neither_handed_out_nor_counted(js, stream, subject):
    with js.pull_subscribe(subject, durable="d") as sub:
        for n in range(6):
            with pytest.raises(jetsync.TimeoutError):
                sub.fetch(2, timeout=0.05)
            fill(js, subject, 2, start=2 * n)
            got = sub.fetch(2, timeout=10)
            assert [msg.status for msg in got] == [0] * len(got)
            assert int(got[0].data) == 2 * n
            if len(got) < 2:
                got = sub.fetch(1, timeout=10)
            assert int(got[-1].data) == 2 * n + 1


def test_an_abandoned_fetch_leaves_no_pull_that_swallows_messages(js, stream, subject):
    with js.pull_subscribe(subject, durable="d", ack_wait=120) as sub:
        for _ in range(20):
            with pytest.raises(jetsync.TimeoutError):
                sub.fetch(5, timeout=0.03)
        fill(js, subject, 20)
        got: list[int] = []
        while len(got) < 20:
            got += [int(msg.data) for msg in sub.fetch(20, timeout=10)]
        assert sorted(got) == list(range(20))
        wait_until(lambda: sub.info().num_waiting == 0, timeout=20)


def test_next_is_one_message(js, stream, subject):
    fill(js, subject, 2)
    with js.pull_subscribe(subject, durable="d") as sub:
        assert [sub.next(timeout=5).data, sub.next(timeout=5).data] == [b"0", b"1"]


def test_a_deleted_consumer_is_an_error(js, stream, subject):
    sub = js.pull_subscribe(subject, durable="d")
    js.delete_consumer(stream.name, "d")
    with pytest.raises(ConsumerDeletedError):
        sub.fetch(1, timeout=10)


def test_a_refused_pull_is_an_error(js, stream, subject):
    fill(js, subject, 5)
    with js.pull_subscribe(subject, durable="d", max_batch=2) as sub:
        with pytest.raises(PullTerminatedError, match="MaxRequestBatch"):
            sub.fetch(3, timeout=5)
        assert len(sub.fetch(2, timeout=5)) == 2


@pytest.mark.parametrize("n", [0, -1, True, 1.5])
def test_n_is_a_number_of_messages(js, stream, subject, n):
    with js.pull_subscribe(subject, durable="d") as sub, pytest.raises(ConfigError):
        sub.fetch(n, timeout=1)


def test_after_the_end_nothing_can_be_fetched(js, stream, subject):
    sub = js.pull_subscribe(subject, durable="d")
    sub.unsubscribe()
    assert not sub.is_active
    with pytest.raises(jetsync.ConnectionClosedError):
        sub.fetch(1, timeout=1)


def test_several_members_share_one_durable(js, stream, subject):
    fill(js, subject, 200)
    made = js.pull_subscribe(subject, durable="d", delete_consumer=False)
    got: list[int] = []
    lock = threading.Lock()

    def work():
        sub = js.pull_subscribe(subject, durable="d")
        while True:
            try:
                msgs = sub.fetch(10, timeout=1)
            except jetsync.TimeoutError:
                break
            msgs.ack()
            with lock:
                got.extend(int(msg.data) for msg in msgs)
        sub.unsubscribe()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(got) == list(range(200))
    assert list(js.consumer_names(stream.name)) == ["d"]
    made.unsubscribe()
