"""Offsets: what Spark stores and compares as text."""

from __future__ import annotations

import json

import pytest

from jetsync.spark.errors import SparkSourceError
from jetsync.spark.offsets import Offset, StreamOffset

A = StreamOffset(7, "2026-01-01T00:00:00+00:00")
B = StreamOffset(9, "2026-01-02T00:00:00+00:00")


def test_the_text_is_the_documented_one():
    assert json.dumps(Offset({"ORDERS": A}).to_dict()) == (
        '{"streams": {"ORDERS": {"created": "2026-01-01T00:00:00+00:00", "seq": 7}}, "v": 1}'
    )


def test_equal_offsets_give_equal_text_whatever_order_they_were_made_in():
    one = Offset({"X": A, "Y": B}, {"X": 1, "Y": 2})
    two = Offset({"Y": B, "X": A}, {"Y": 2, "X": 1})
    assert json.dumps(one.to_dict()) == json.dumps(two.to_dict())


def test_reading_back_what_was_written_gives_the_same_text():
    text = json.dumps(Offset({"X": A}, {"X": 1}).to_dict())
    assert json.dumps(Offset.from_dict(json.loads(text)).to_dict()) == text


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        {},
        {"v": 1},
        {"v": 1, "streams": 3},
        {"v": 1, "streams": {"S": {}}},
        {"v": 1, "streams": {"S": {"seq": "x", "created": ""}}},
    ],
)
def test_a_foreign_checkpoint_is_refused_with_its_code(value):
    with pytest.raises(SparkSourceError) as caught:
        Offset.from_dict(value)
    assert caught.value.code == "JETSYNC_INVALID_OFFSET"


def test_an_offset_of_a_later_version_is_refused():
    with pytest.raises(SparkSourceError, match="version 2"):
        Offset.from_dict({"v": 2, "streams": {}})


def test_the_end_of_the_first_batch_pins_where_it_began():
    start = Offset.initial({"S": A})
    end = start.advanced({"S": StreamOffset(20, A.created)}, {})
    assert dict(end.base) == {"S": 7}


def test_later_ends_are_not_pinned():
    first_end = Offset.initial({"S": A}).advanced({"S": StreamOffset(20, A.created)}, {})
    second_end = first_end.advanced({"S": StreamOffset(30, A.created)}, {})
    assert dict(second_end.base) == {}


def test_a_first_batch_that_read_nothing_keeps_its_pin():
    start = Offset.initial({"S": A})
    empty_end = start.advanced({"S": A}, {})
    assert empty_end.to_dict() == start.to_dict()
    assert dict(empty_end.advanced({"S": StreamOffset(20, A.created)}, {}).base) == {"S": 7}


def test_one_of_several_streams_moving_ends_the_beginning():
    start = Offset.initial({"S": A, "T": B})
    end = start.advanced({"S": StreamOffset(20, A.created), "T": B}, {})
    assert dict(end.base) == {"S": 7, "T": 9}
    assert not end.is_beginning


def test_a_jump_moves_the_beginning_of_one_stream_only():
    end = Offset({"S": A, "T": B}).advanced(
        {"S": StreamOffset(20, "c"), "T": StreamOffset(30, "d")}, {"S": 15}
    )
    assert dict(end.base) == {"S": 15}
