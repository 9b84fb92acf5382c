"""Writers before they run."""

from __future__ import annotations

import pickle

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import StructType

from jetsync.spark.errors import SparkSourceError
from jetsync.spark.publishing import Published
from jetsync.spark.write_options import WriteOptions
from jetsync.spark.writer import JetStreamStreamWriter, JetStreamWriter, PublishedMessage

ROWS = StructType().add("subject", "string").add("data", "binary")


def test_every_batch_write_is_a_job_of_its_own_and_stays_it_when_pickled():
    one, two = (JetStreamWriter(WriteOptions.parse({}), ROWS, False) for _ in range(2))
    assert one.job != two.job
    assert pickle.loads(cloudpickle.dumps(one)).job == one.job


def test_a_given_query_id_makes_repeated_writes_the_same_job():
    made = JetStreamWriter(WriteOptions.parse({"queryId": "night-1"}), ROWS, False)
    assert made.job == "night-1"


@pytest.mark.parametrize("dedup", ["content", "position"])
def test_outside_of_a_streaming_task_no_ids_can_be_made(dedup):
    writer = JetStreamStreamWriter(WriteOptions.parse({"dedup": dedup}), ROWS, False)
    with pytest.raises(SparkSourceError) as caught:
        writer.write(iter(()))
    assert caught.value.code == "JETSYNC_NO_QUERY_ID"


def test_an_empty_partition_needs_no_server():
    writer = JetStreamWriter(WriteOptions.parse({"servers": "nats://127.0.0.1:1"}), ROWS, False)
    message = writer.write(iter(()))
    assert isinstance(message, PublishedMessage)
    assert message.published == Published()


def test_commit_and_abort_take_the_messages_of_lost_tasks_too():
    messages = [PublishedMessage(Published(3, 1, 7), "q"), None]
    batch = JetStreamWriter(WriteOptions.parse({}), ROWS, False)
    batch.commit(messages)
    batch.abort(messages)
    stream = JetStreamStreamWriter(WriteOptions.parse({}), ROWS, False)
    stream.commit(messages, 7)
    stream.abort(messages, 7)
