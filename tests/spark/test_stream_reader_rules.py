"""Streaming reader: the parts that need no server."""

from __future__ import annotations

import inspect

import pytest
from pyspark.sql.types import StructType

from jetsync.spark.errors import SparkSourceError
from jetsync.spark.offsets import Offset, StreamOffset
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.stream_reader import JetStreamStreamReader, batch_begin
from jetsync.spark.versions import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)


def reader(**options: str) -> JetStreamStreamReader:
    given = {"stream": "S", "servers": "nats://127.0.0.1:1", **options}
    return JetStreamStreamReader(
        ReadOptions.parse(given, streaming=True), StructType().add("seq", "long")
    )


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "5"}, ReadMaxRows(5)),
        ({"maxBytesPerTrigger": "1k"}, ReadMaxBytes(1024)),
        ({"minOffsetsPerTrigger": "5"}, ReadMinRows(5)),
        ({"maxOffsetsPerTrigger": "9", "minOffsetsPerTrigger": "5"}, ReadMaxRows(9)),
    ],
)
def test_the_limit_that_spark_hands_back_comes_from_the_options(options, limit):
    assert reader(**options).getDefaultReadLimit() == limit


def test_spark_recognises_admission_control_and_available_now():
    made = reader()
    assert len(inspect.signature(made.latestOffset).parameters) == 2
    assert isinstance(made, SupportsTriggerAvailableNow)


def test_nothing_is_reported_before_the_head_was_seen():
    assert reader().reportLatestOffset() is None


def test_committing_and_stopping_need_no_server():
    made = reader()
    made.commit(Offset({"S": StreamOffset(1, "c")}).to_dict())
    made.stop()


def test_a_pinned_beginning_wins_over_what_spark_says_the_start_was():
    moved = Offset.initial({"S": StreamOffset(112, "c")})
    end = Offset({"S": StreamOffset(120, "c")}, {"S": 101})
    assert batch_begin(moved, end, "S") == 101


def test_without_a_pin_the_start_counts():
    before, after = Offset({"S": StreamOffset(5, "c")}), Offset({"S": StreamOffset(9, "c")})
    assert batch_begin(before, after, "S") == 5


@pytest.mark.parametrize("before", [Offset({}), Offset({"S": StreamOffset(5, "other")})])
def test_offsets_that_do_not_fit_together_are_refused(before):
    with pytest.raises(SparkSourceError) as caught:
        batch_begin(before, Offset({"S": StreamOffset(9, "c")}), "S")
    assert caught.value.code == "JETSYNC_INVALID_OFFSET"


def test_an_empty_batch_is_planned_without_asking_any_server():
    offset = Offset({"S": StreamOffset(5, "c")}).to_dict()
    assert list(reader().partitions(offset, offset)) == []
