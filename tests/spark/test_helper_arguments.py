"""Helpers that need no server."""

from __future__ import annotations

import json
import pickle

import pytest

from jetsync.spark import lag, publish_partition
from jetsync.spark.errors import SparkOptionError
from jetsync.spark.offsets import Offset, StreamOffset


def text(**seqs: int) -> str:
    return json.dumps(
        Offset({name: StreamOffset(seq, "c") for name, seq in seqs.items()}).to_dict()
    )


def progress(*sources: dict[str, object]) -> dict[str, object]:
    return {"sources": list(sources)}


def test_lag_is_the_distance_to_the_head_per_stream():
    found = lag(progress({"endOffset": text(A=300, B=5), "latestOffset": text(A=336, B=5)}))
    assert found == {
        "A": {"latest": 336, "end": 300, "behind": 36},
        "B": {"latest": 5, "end": 5, "behind": 0},
    }


def test_offsets_may_come_parsed():
    source = {"endOffset": json.loads(text(A=3)), "latestOffset": json.loads(text(A=4))}
    assert lag(progress(source))["A"]["behind"] == 1


def test_lag_is_never_negative():
    assert lag(progress({"endOffset": text(A=9), "latestOffset": text(A=7)}))["A"]["behind"] == 0


def test_a_stream_that_is_read_no_more_has_no_lag():
    """The checkpoint keeps its place, but its head is not looked at: 0 would be a guess."""
    assert list(lag(progress({"endOffset": text(A=3, B=5), "latestOffset": text(A=4)}))) == ["A"]


def test_other_sources_and_missing_progress_are_left_out():
    assert lag(progress({"endOffset": '{"topic": {"0": 5}}', "latestOffset": None})) == {}
    assert lag(progress({"endOffset": None, "latestOffset": None})) == {}

    class Fresh:
        lastProgress = None

    assert lag(Fresh()) == {}


def test_the_partition_publisher_checks_its_options_at_once():
    with pytest.raises(SparkOptionError):
        publish_partition(msg_id="guess")
    with pytest.raises(SparkOptionError):
        publish_partition(msg_id="column")
    with pytest.raises(SparkOptionError, match="servers"):
        publish_partition(server="nats://x")


def test_the_partition_publisher_travels_to_executors():
    from pyspark import cloudpickle

    publish = publish_partition(subject="a", servers="nats://x:1")
    assert callable(pickle.loads(cloudpickle.dumps(publish)))
