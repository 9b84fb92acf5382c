"""consume_partition: tasks share a durable, and a message is gone only after its work is done."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from jetsync.spark import SparkOptionError, SparkSourceError, connection, consume_partition
from tests.harness.waiting import wait_until

COUNTS = "done bigint, failed bigint"


@pytest.fixture
def queue(new_stream):
    """Make a work queue with so many messages and a durable ``worker``."""

    def make(count, **config):
        stream = new_stream(retention="workqueue")
        given = {"ack_policy": "explicit", "ack_wait": 30, **config}
        stream.js.create_consumer(stream.name, durable_name="worker", **given)
        stream.fill(count)
        return stream

    return make


def consume(stream, work, **more):
    given = {"idle_timeout": 0.5, "max_failures": 5, "servers": stream.url, **more}
    return consume_partition(stream=stream.name, consumer="worker", work=work, **given)


def test_tasks_share_one_durable_and_every_message_is_worked_on_once(spark, queue, tmp_path):
    stream = queue(300)
    folder = str(tmp_path)

    def work(message):
        path = os.path.join(folder, message.data.decode())
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))  # twice is an error

    frame = spark.range(0, 4, 1, 4)
    counts = frame.mapInArrow(consume(stream, work, batch_size=20), COUNTS).collect()
    assert (sum(row.done for row in counts), sum(row.failed for row in counts)) == (300, 0)
    assert sorted(map(int, os.listdir(folder))) == list(range(1, 301))
    wait_until(lambda: stream.messages == 0, timeout=20)


def test_a_killed_worker_loses_nothing(spark, queue, tmp_path):
    stream = queue(60, ack_wait=2)
    folder = str(tmp_path)

    def work(message):
        number = int(message.data)
        if number == 30:
            flag = Path(folder, "killed")
            if not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        with open(os.path.join(folder, f"{os.getpid()}"), "a") as file:
            file.write(f"{number}\n")

    spark.range(0, 2, 1, 2).foreachPartition(consume(stream, work, batch_size=10, idle_timeout=4))
    done: Counter[int] = Counter()
    for path in tmp_path.iterdir():
        done.update(map(int, path.read_text().split()))
    assert set(done) == set(range(1, 61))
    # Acknowledgements wait in the process for a moment: the last batch may be worked on twice.
    assert sum(done.values()) <= 60 + 10
    wait_until(lambda: stream.messages == 0, timeout=20)


def test_work_that_raises_gives_its_message_back(queue):
    stream = queue(10)
    seen: Counter[bytes] = Counter()

    def work(message):
        seen[message.data] += 1
        if message.data == b"5" and seen[message.data] < 3:
            raise ValueError("not yet")

    consume(stream, work)([])
    assert seen == {b"%d" % i: 3 if i == 5 else 1 for i in range(1, 11)}
    wait_until(lambda: stream.messages == 0, timeout=20)


def test_work_that_always_raises_fails_the_task(queue):
    stream = queue(3)
    with pytest.raises(SparkSourceError, match="ZeroDivisionError") as caught:
        consume(stream, lambda message: 1 / 0, max_failures=7)([])
    assert caught.value.code == "JETSYNC_WORK_FAILED"
    assert stream.messages == 3


def test_work_may_settle_a_message_itself(queue):
    stream = queue(3)
    seen = []

    def work(message):
        seen.append(message.data)
        message.term()

    consume(stream, work)([])
    assert len(seen) == 3
    wait_until(lambda: stream.messages == 0, timeout=20)


def test_long_work_keeps_its_messages(queue):
    stream = queue(3, ack_wait=0.4)
    seen = []

    def work(message):
        seen.append((message.data, message.metadata.num_delivered))
        if len(seen) == 1:
            # Long enough for two redeliveries, if nothing told the server that work goes on.
            info = stream.js.consumer(stream.name, "worker")
            started = message.metadata.timestamp
            wait_until(lambda: _seconds_since(started) > 1.5, timeout=20)
            assert info.info().num_redelivered == 0

    consume(stream, work)([])
    assert seen == [(b"1", 1), (b"2", 1), (b"3", 1)]


def _seconds_since(moment):
    from datetime import datetime, timezone

    return (datetime.now(timezone.utc) - moment).total_seconds()


def test_no_more_than_max_messages_are_taken(queue):
    stream = queue(10)
    seen = []
    consume(stream, lambda message: seen.append(message.data), max_messages=4, batch_size=3)([])
    assert seen == [b"1", b"2", b"3", b"4"]
    wait_until(lambda: stream.messages == 6, timeout=20)


def test_a_broken_link_in_the_middle_is_survived(queue):
    stream = queue(50)
    seen: Counter[bytes] = Counter()

    def work(message):
        seen[message.data] += 1
        if len(seen) in (10, 30):
            with connection({"servers": stream.url}) as nc:
                nc.force_reconnect()

    consume(stream, work, batch_size=20, idle_timeout=2)([])
    assert set(seen) == {b"%d" % i for i in range(1, 51)}
    wait_until(lambda: stream.messages == 0, timeout=20)


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({}, {"consumer": "another"}),
        ({}, {"stream": "NONE"}),
        ({"ack_policy": "all"}, {}),
    ],
)
def test_a_consumer_that_does_not_fit_is_told(new_stream, config, names):
    stream = new_stream(1)
    given = {"ack_policy": "explicit", **config}
    stream.js.create_consumer(stream.name, durable_name="worker", **given)
    given = {"stream": stream.name, "consumer": "worker", **names}
    with pytest.raises(SparkSourceError) as caught:
        consume_partition(work=print, servers=stream.url, **given)([])
    assert caught.value.code == "JETSYNC_CONSUMER_NOT_FOUND"


def test_wrong_numbers_are_told_before_any_task_runs():
    for wrong in ({"max_messages": 0}, {"batch_size": 0}, {"max_failures": -1}, {"server": "x"}):
        with pytest.raises(SparkOptionError):
            consume_partition(stream="S", consumer="c", work=print, **wrong)
