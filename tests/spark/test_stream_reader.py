"""The driver's side of a streaming read, called as Spark calls it, against a real server."""

from __future__ import annotations

import itertools
import json
import time

import pytest
from pyspark.sql.types import StructType

from jetsync.spark import lag
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.offsets import Offset
from jetsync.spark.older import OlderStreamReader
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.stream_reader import JetStreamStreamReader
from jetsync.spark.versions import ReadAllAvailable, ReadMaxRows

ALL = ReadAllAvailable()
SCHEMA = StructType().add("seq", "long")


def reader(source, **options):
    """A reader as a fresh process would have it."""
    given = {**source.read_options, "pollInterval": "0s", **options}
    return JetStreamStreamReader(ReadOptions.parse(given, streaming=True), SCHEMA)


def travel(offset):
    """An offset as it comes back from Spark's log."""
    return json.loads(json.dumps(offset))


def planned(made, start, end):
    return [
        seq
        for part in made.partitions(travel(start), travel(end))
        for seq in range(part.range.first, part.range.last + 1)
    ]


def seq_of(offset, stream):
    return Offset.from_dict(offset).streams[stream.name].seq


def test_nothing_new_gives_back_exactly_the_start(new_stream):
    stream = new_stream(3)
    made = reader(stream)
    end = made.latestOffset(travel(made.initialOffset()), ALL)
    assert json.dumps(made.latestOffset(travel(end), ALL)) == json.dumps(end)


def test_a_second_process_repeats_the_first_batch_from_the_pinned_start(new_stream):
    stream = new_stream(100)
    first = reader(stream, startingOffsets="latest")
    start = travel(first.initialOffset())
    stream.fill(12)
    end = first.latestOffset(start, ALL)
    stream.fill(5)
    second = reader(stream, startingOffsets="latest")
    moved = second.initialOffset()
    assert seq_of(moved, stream) == 117
    assert planned(second, moved, end) == list(range(101, 113))


def test_earliest_is_pinned_too_so_trimming_before_the_first_batch_is_noticed(js, new_stream):
    stream = new_stream(10)
    first = reader(stream)
    end = first.latestOffset(travel(first.initialOffset()), ALL)
    js.stream(stream.name).purge(seq=5)
    second = reader(stream)
    with pytest.raises(SparkSourceError) as caught:
        second.partitions(second.initialOffset(), travel(end))
    assert caught.value.code == "JETSYNC_DATA_LOSS"


def test_the_initial_offset_does_not_move_in_one_process(new_stream):
    stream = new_stream(3)
    made = reader(stream, startingOffsets="latest")
    before = made.initialOffset()
    stream.fill(3)
    assert made.initialOffset() == before


def test_available_now_reads_no_further_than_the_head_at_its_start(new_stream):
    stream = new_stream(5)
    made = reader(stream)
    start = made.initialOffset()
    made.prepareForTriggerAvailableNow()
    stream.fill(5)
    end = made.latestOffset(travel(start), ALL)
    assert seq_of(end, stream) == 5
    assert made.latestOffset(travel(end), ALL) == end


def test_available_now_prepared_before_a_later_start_goes_nowhere(new_stream):
    stream = new_stream(5)
    made = reader(stream, startingOffsets="latest")
    made.prepareForTriggerAvailableNow()
    stream.fill(5)
    start = made.initialOffset()
    assert made.latestOffset(travel(start), ALL) == start


def test_limits_count_sequences_and_are_lifted_when_spark_asks_for_everything(new_stream):
    stream = new_stream(10)
    made = reader(stream, maxOffsetsPerTrigger="4")
    start = travel(made.initialOffset())
    assert seq_of(made.latestOffset(start, ReadMaxRows(4)), stream) == 4
    assert seq_of(made.latestOffset(start, ALL), stream) == 10


def test_bytes_are_estimated_by_the_average(new_stream, js):
    stream = new_stream(100)
    size = js.stream(stream.name).info().state.bytes
    made = reader(stream, maxBytesPerTrigger=str(size // 4))
    end = made.latestOffset(travel(made.initialOffset()), made.getDefaultReadLimit())
    assert 20 <= seq_of(end, stream) <= 26


def test_too_few_messages_wait_for_more_but_not_longer_than_allowed(new_stream):
    stream = new_stream(3)
    patient = reader(stream, minOffsetsPerTrigger="5")
    start = travel(patient.initialOffset())
    limit = patient.getDefaultReadLimit()
    assert patient.latestOffset(start, limit) == start
    hasty = reader(stream, minOffsetsPerTrigger="5", maxTriggerDelay="0s")
    assert seq_of(hasty.latestOffset(start, limit), stream) == 3
    stream.fill(2)
    assert seq_of(patient.latestOffset(start, limit), stream) == 5


def test_asked_too_soon_it_waits_for_the_poll_interval(new_stream):
    stream = new_stream(1)
    made = reader(stream, pollInterval="300ms")
    start = travel(made.initialOffset())
    began = time.monotonic()
    made.latestOffset(start, ALL)
    assert time.monotonic() - began > 0.2


def test_a_filtered_query_survives_that_unwanted_messages_are_trimmed(js, new_stream):
    stream = new_stream(50)
    made = reader(stream, filterSubjects=f"{stream.name}.wanted")
    start = travel(made.initialOffset())
    assert made.latestOffset(start, ALL) == start
    js.stream(stream.name).purge(seq=41)
    end = made.latestOffset(start, ALL)
    assert seq_of(end, stream) == 50
    assert planned(reader(stream), start, end) == []


def test_a_filtered_query_begins_at_the_first_wanted_message(new_stream):
    stream = new_stream(50)
    stream.fill(1, "wanted")
    made = reader(stream, filterSubjects=f"{stream.name}.wanted", maxOffsetsPerTrigger="10")
    start = travel(made.initialOffset())
    end = made.latestOffset(start, ReadMaxRows(10))
    assert planned(made, start, end) == [51]


def test_a_stream_that_went_backwards_is_loss(new_stream):
    stream = new_stream(10)
    made = reader(stream)
    end = travel(made.latestOffset(travel(made.initialOffset()), ALL))
    end["streams"][stream.name]["seq"] = 500
    end.pop("base")
    with pytest.raises(SparkSourceError) as caught:
        made.latestOffset(end, ALL)
    assert caught.value.code == "JETSYNC_DATA_LOSS"
    lossy = reader(stream, failOnDataLoss="false")
    assert lossy.latestOffset(end, ALL) == end


def test_a_new_query_may_start_at_a_sequence_that_is_yet_to_come(new_stream):
    stream = new_stream(3)
    made = reader(stream, startingOffsets="6")
    start = travel(made.initialOffset())
    assert made.latestOffset(start, ALL) == start
    stream.fill(5)
    end = made.latestOffset(start, ALL)
    assert planned(made, start, end) == [6, 7, 8]


def test_a_stream_added_to_a_query_begins_where_the_options_say(new_stream):
    one, two = new_stream(3), new_stream(4)
    before = reader(one)
    end = before.latestOffset(travel(before.initialOffset()), ALL)
    both = reader(one, stream=f"{one.name},{two.name}")
    next_end = both.latestOffset(travel(end), ALL)
    ranges = [part.range for part in both.partitions(travel(end), travel(next_end))]
    assert [(r.stream, r.first, r.last) for r in ranges] == [(two.name, 1, 4)]


def test_a_stream_that_is_left_out_for_a_while_goes_on_where_it_was_left(new_stream):
    one, two = new_stream(3), new_stream(4)
    names = {"stream": f"{one.name},{two.name}"}
    both = reader(one, **names)
    end = both.latestOffset(travel(both.initialOffset()), ALL)
    one.fill(1)
    two.fill(1)
    alone = reader(one)
    nothing_of_two = alone.latestOffset(travel(end), ALL)
    assert planned(alone, end, nothing_of_two) == [4]
    assert alone.latestOffset(travel(nothing_of_two), ALL) == nothing_of_two
    again = reader(one, **names)
    rest = again.latestOffset(travel(nothing_of_two), ALL)
    ranges = [part.range for part in again.partitions(travel(nothing_of_two), travel(rest))]
    assert [(r.stream, r.first, r.last) for r in ranges] == [(two.name, 5, 5)]


def test_a_commit_releases_nothing_of_a_stream_that_is_left_out(js, new_stream):
    one, two = (new_stream(3, retention="workqueue", allow_direct=True) for _ in range(2))
    names = {"stream": f"{one.name},{two.name}", "onCommit": "purge"}
    both = reader(one, **names)
    end = both.latestOffset(travel(both.initialOffset()), ALL)
    reader(one, onCommit="purge").commit(travel(end))
    assert (one.messages, two.messages) == (0, 3)


def test_the_head_is_reported_without_asking_again(new_stream):
    stream = new_stream(4)
    made = reader(stream)
    made.initialOffset()
    stream.fill(3)
    assert seq_of(made.reportLatestOffset(), stream) == 4


LIMITS = {
    "a number per subject beside a limit": {"max_msgs_per_subject": 1000, "max_msgs": 10},
    "a number per subject beside an age": {"max_msgs_per_subject": 6, "max_age": 3600},
    "an interest stream that is full": {"retention": "interest", "max_msgs": 10},
    "one per subject in a full stream": {"max_msgs_per_subject": 1, "max_msgs": 10},
}


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS.keys())
def test_unread_messages_that_limits_remove_are_loss(js, new_stream, limits):
    stream = new_stream(**limits)
    if limits.get("retention") == "interest":
        js.create_consumer(stream.name, durable_name="wants_all")
    one_each = limits.get("max_msgs_per_subject") == 1
    for number in range(5):
        stream.fill(1, f"x{number}" if one_each else "x")
    made = reader(stream)
    end = travel(made.latestOffset(travel(made.initialOffset()), ALL))
    for number in range(100):
        stream.fill(1, f"y{number}" if one_each else "x")
    with pytest.raises(SparkSourceError) as caught:
        reader(stream).latestOffset(end, ALL)
    assert caught.value.code == "JETSYNC_DATA_LOSS"
    lossy = reader(stream, failOnDataLoss="false")
    assert seq_of(lossy.latestOffset(end, ALL), stream) == 105


def test_values_that_newer_ones_replaced_are_no_loss_but_are_told(new_stream, caplog):
    stream = new_stream(5, max_msgs_per_subject=1, max_msgs=1000)
    made = reader(stream)
    end = travel(made.latestOffset(travel(made.initialOffset()), ALL))
    stream.fill(100)
    assert seq_of(reader(stream).latestOffset(end, ALL), stream) == 105
    assert "99 sequences were removed unread" in caplog.text
    with pytest.raises(SparkSourceError):
        reader(stream, failOnDataLoss="strict").latestOffset(end, ALL)


def test_what_filters_skip_is_not_behind(new_stream):
    stream = new_stream()
    stream.fill(5, "want")
    made = reader(stream, filterSubjects=f"{stream.name}.want")
    end = travel(made.latestOffset(travel(made.initialOffset()), ALL))
    stream.fill(9_000, "other")
    assert made.latestOffset(end, ALL) == end
    assert lag_of(made, end) == {stream.name: {"latest": 5, "end": 5, "behind": 0}}
    stream.fill(1, "want")
    made.latestOffset(end, ALL)
    assert lag_of(made, end)[stream.name]["behind"] == 9_001


def lag_of(made, end):
    """The lag that a progress with this end would show."""
    return lag({"sources": [{"endOffset": end, "latestOffset": made.reportLatestOffset()}]})


def test_a_hole_makes_no_empty_batches(js, new_stream):
    stream = new_stream(1, "keep")
    stream.fill(20_000, "hole")
    stream.fill(2, "keep")
    js.stream(stream.name).purge(subject=f"{stream.name}.hole")
    made = reader(stream, maxOffsetsPerTrigger="1000")
    start = travel(made.initialOffset())
    ends = [start]
    while (end := travel(made.latestOffset(ends[-1], ReadMaxRows(1000)))) != ends[-1]:
        ends.append(end)
    rows = [planned(made, one, two) for one, two in itertools.pairwise(ends)]
    assert [row[-1] for row in rows] == [1000, stream.last_seq]


def test_other_filters_than_those_of_the_checkpoint_are_told(new_stream, caplog):
    stream = new_stream(5)
    made = reader(stream, filterSubjects=f"{stream.name}.x")
    end = travel(made.latestOffset(travel(made.initialOffset()), ALL))
    reader(stream, filterSubjects=f"{stream.name}.x").latestOffset(end, ALL)
    assert "not those of the checkpoint" not in caplog.text
    reader(stream, filterSubjects=f"{stream.name}.x,{stream.name}.y").latestOffset(end, ALL)
    assert "not those of the checkpoint" in caplog.text
    caplog.clear()
    reader(stream).latestOffset(end, ALL)
    assert "not those of the checkpoint" in caplog.text


def test_filters_that_match_no_subject_of_the_stream_are_told(new_stream, caplog):
    stream = new_stream(5)
    reader(stream, filterSubjects=f"{stream.name}.x,elsewhere.>").initialOffset()
    assert "'elsewhere.>' matches no subject" in caplog.text
    assert f"{stream.name}.x' matches no" not in caplog.text


def test_without_a_start_a_process_goes_on_from_what_it_knows(new_stream):
    """PySpark 4.0 and 4.1 ask for the latest offset without saying where a batch begins."""
    stream = new_stream(10)

    def older():
        given = {**stream.read_options, "pollInterval": "0s", "maxOffsetsPerTrigger": "4"}
        return OlderStreamReader(ReadOptions.parse(given, streaming=True), SCHEMA)

    made = older()
    ends = [travel(made.initialOffset())]
    # A run that reads what is available asks only once.
    ends.append(travel(made.latestOffset()))
    stream.fill(10)
    while (end := travel(made.latestOffset())) != ends[-1]:
        ends.append(end)
    assert [planned(made, one, two) for one, two in itertools.pairwise(ends)] == [
        list(range(1, 11)),
        [11, 12, 13, 14],
        [15, 16, 17, 18],
        [19, 20],
    ]
    stream.fill(7)
    # A restart: the checkpoint stands at 20, which this process is not told.
    again = older()
    late = travel(again.latestOffset())
    assert planned(again, ends[-1], late) == list(range(21, 28))
    stream.fill(1)
    assert planned(again, late, travel(again.latestOffset())) == [28]
    # Another restart, in the middle of a batch: Spark plans that one first.
    third = older()
    assert planned(third, ends[1], ends[2]) == [11, 12, 13, 14]
    first = travel(third.latestOffset())
    assert planned(third, ends[2], first) == list(range(15, 29))
    stream.fill(9)
    assert planned(third, first, travel(third.latestOffset())) == [29, 30, 31, 32]
