"""What a query skips is no loss, and what is gone unseen is never skipped in silence.

What a process has looked through is known to the next one as far as the checkpoint says; so what
was skipped is written into it, by an empty batch where there are no rows.
"""

from __future__ import annotations

import pytest

from jetsync.spark import positions, stream_reader
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.offsets import Offset
from jetsync.spark.range_read import read_range
from jetsync.spark.ranges import SequenceRange
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.schema import Layout
from jetsync.spark.versions import ReadMinRows
from tests.harness.waiting import wait_until
from tests.spark.streaming import (
    Collected,
    going,
    needs_limits,
    offset_log,
    read_stream,
    run_available,
)
from tests.spark.test_stream_reader import ALL, SCHEMA, planned, reader, seq_of, travel


def wanting(source, **options):
    """A reader of the wanted messages, as a fresh process would have it."""
    return reader(source, filterSubjects=f"{source.name}.want", **options)


def begun(source, **options):
    """A process that has read five wanted messages, and the checkpoint that it left."""
    source.fill(5, "want")
    made = wanting(source, **options)
    return made, travel(made.latestOffset(travel(made.initialOffset()), ALL))


def is_loss(made, offset):
    with pytest.raises(SparkSourceError) as caught:
        made.latestOffset(offset, ALL)
    assert caught.value.code == "JETSYNC_DATA_LOSS"
    return str(caught.value)


# -- when it is noted ----------------------------------------------------------------------------


def test_the_end_of_a_run_that_ends_is_noted(new_stream):
    stream = new_stream(max_msgs=400)
    _, end = begun(stream)
    stream.fill(30, "other")
    made = wanting(stream)
    made.prepareForTriggerAvailableNow()
    stream.fill(2, "other")
    stream.fill(1, "want")
    noted = travel(made.latestOffset(end, ALL))
    assert seq_of(noted, stream) == noted["base"][stream.name] == 35
    assert planned(made, end, noted) == []
    rows = travel(wanting(stream).latestOffset(noted, ALL))
    assert planned(wanting(stream), noted, rows) == [38]


def test_a_stream_that_keeps_few_messages_has_it_noted_at_a_tenth_of_them(new_stream):
    """So a restart finds it if the outage did not replace nine tenths of what the stream keeps."""
    stream = new_stream(max_msgs=400)
    made, end = begun(stream)
    stream.fill(395, "other")
    noted = travel(made.latestOffset(end, ALL))
    assert seq_of(noted, stream) == 400
    stream.fill(39, "other")
    assert made.latestOffset(noted, ALL) == noted
    stream.fill(361, "other")
    assert seq_of(wanting(stream).latestOffset(noted, ALL), stream) == 800
    stream.fill(1, "other")
    said = is_loss(wanting(stream), noted)
    assert "wanted 401, but the first available message is 402" in said
    assert "whether one of them passed filterSubjects cannot be known now" in said


def test_a_stream_that_keeps_few_bytes_has_it_noted_at_a_tenth_of_them(js, new_stream):
    stream = new_stream(max_bytes=20_000)
    made, end = begun(stream)
    state = js.stream(stream.name).info().state
    tenth = 2_000 * state.messages // state.bytes
    stream.fill(tenth - 5, "other")
    assert made.latestOffset(end, ALL) == end
    stream.fill(10, "other")
    assert seq_of(made.latestOffset(end, ALL), stream) == stream.last_seq


def test_a_stream_that_keeps_messages_for_a_short_time_has_it_noted_soon(new_stream):
    lasting, fleeting = new_stream(max_age=3600), new_stream(max_age=5)
    for stream in (lasting, fleeting):
        stream.made, stream.end = begun(stream)
        stream.fill(1, "other")
    wait_until(lambda: fleeting.made.latestOffset(fleeting.end, ALL) != fleeting.end)
    assert lasting.made.latestOffset(lasting.end, ALL) == lasting.end


def test_a_stream_whose_limits_refuse_new_messages_loses_none_by_them(new_stream):
    stream = new_stream(max_msgs=20, discard="new")
    made, end = begun(stream)
    stream.fill(15, "other")
    assert made.latestOffset(end, ALL) == end


def test_a_query_that_goes_on_notes_long_parts(new_stream):
    stream = new_stream()
    made, end = begun(stream)
    stream.fill(stream_reader.NOTED_AFTER_SEQUENCES - 1, "other")
    assert made.latestOffset(end, ALL) == end
    stream.fill(1, "other")
    noted = made.latestOffset(end, ALL)
    assert seq_of(noted, stream) == stream_reader.NOTED_AFTER_SEQUENCES + 5
    stream.fill(1, "other")
    assert made.latestOffset(noted, ALL) == noted


def test_each_look_is_noted_if_that_is_asked_for(new_stream):
    """So nothing that a process has seen is taken for lost, however long the next one takes."""
    stream = new_stream()
    made, end = begun(stream, noteSkippedAfter="0s")
    assert made.latestOffset(end, ALL) == end
    for _ in range(3):
        stream.fill(1, "other")
        end = travel(made.latestOffset(end, ALL))
        assert seq_of(end, stream) == stream.last_seq


def test_a_long_time_is_counted_from_what_was_noted_last(new_stream):
    stream = new_stream()
    made, end = begun(stream, noteSkippedAfter="300ms")
    stream.fill(1, "other")
    noted = []
    wait_until(lambda: noted.append(made.latestOffset(end, ALL)) or noted[-1] != end)
    stream.fill(1, "other")
    assert made.latestOffset(travel(noted[-1]), ALL) == noted[-1]


def test_rows_of_one_stream_note_what_was_skipped_of_another(new_stream):
    busy, sparse = new_stream(), new_stream()
    sparse.fill(5, "want")
    filters = f"{busy.name}.want,{sparse.name}.want"
    made = reader(busy, stream=f"{busy.name},{sparse.name}", filterSubjects=filters)
    end = travel(made.latestOffset(travel(made.initialOffset()), ALL))
    sparse.fill(7, "other")
    assert made.latestOffset(end, ALL) == end
    busy.fill(1, "want")
    noted = travel(made.latestOffset(end, ALL))
    assert (seq_of(noted, busy), seq_of(noted, sparse)) == (1, 12)
    ranges = [part.range for part in made.partitions(end, noted)]
    assert [(r.stream, r.first, r.last) for r in ranges] == [(busy.name, 1, 1)]


def test_what_is_skipped_while_too_few_rows_wait_is_noted(new_stream):
    stream = new_stream(max_msgs=400)
    made, end = begun(stream, minOffsetsPerTrigger="50", maxTriggerDelay="0s")
    patient = wanting(stream, minOffsetsPerTrigger="50", maxTriggerDelay="1h")
    stream.fill(60, "other")
    stream.fill(1, "want")
    noted = travel(patient.latestOffset(end, ReadMinRows(50)))
    assert seq_of(noted, stream) == 65
    assert planned(patient, end, noted) == []
    stream.fill(1, "other")
    assert patient.latestOffset(noted, ReadMinRows(50)) == noted
    rows = travel(made.latestOffset(noted, ReadMinRows(50)))
    assert planned(made, noted, rows) == [66, 67]


def test_noting_what_was_skipped_postpones_no_rows(new_stream):
    waits, skips = new_stream(1, "want"), new_stream(1, "want")
    made = reader(
        waits,
        stream=f"{waits.name},{skips.name}",
        filterSubjects=f"{waits.name}.want,{skips.name}.want",
        minOffsetsPerTrigger="50",
        maxTriggerDelay="500ms",
        noteSkippedAfter="0s",
    )
    ends = [travel(made.latestOffset(travel(made.initialOffset()), ALL))]
    waits.fill(1, "want")

    def comes():
        skips.fill(1, "other")
        ends.append(travel(made.latestOffset(ends[-1], ReadMinRows(50))))
        assert seq_of(ends[-1], skips) == skips.last_seq
        return seq_of(ends[-1], waits) == 2

    wait_until(comes)
    assert len(ends) > 2


def test_what_was_skipped_before_rows_that_wait_for_more_may_go(js, new_stream):
    stream = new_stream()
    _, end = begun(stream)
    patient = wanting(stream, minOffsetsPerTrigger="50")
    stream.fill(20, "other")
    stream.fill(1, "want")
    assert patient.latestOffset(end, ReadMinRows(50)) == end
    js.stream(stream.name).purge(seq=26)
    assert seq_of(patient.latestOffset(end, ReadMinRows(50)), stream) == 25


# -- what is never left out in silence -------------------------------------------------------------


def test_what_was_skipped_of_a_stream_counts_for_no_later_one_of_its_name(js, new_stream):
    stream = new_stream()
    made, end = begun(stream, failOnDataLoss="false")
    stream.fill(50, "other")
    assert made.latestOffset(end, ALL) == end
    js.delete_stream(stream.name)
    stream.create()
    stream.fill(3, "want")
    again = travel(wanting(stream, failOnDataLoss="false").latestOffset(end, ALL))
    assert seq_of(again, stream) == 3
    stream.fill(1, "want")
    assert planned(made, again, made.latestOffset(again, ALL)) == [4]


@pytest.fixture
def purge_before_a_look(js, monkeypatch):
    """Have messages removed after the stream's state was told, and before they are looked for."""

    def arrange(name, seq):
        def look(stream, *arguments):
            js.stream(name).purge(seq=seq)
            return asked(stream, *arguments)

        asked = positions.message_at_or_after
        monkeypatch.setattr(positions, "message_at_or_after", look)

    return arrange


def test_what_goes_while_it_is_looked_for_is_loss(new_stream, purge_before_a_look):
    stream = new_stream()
    made, end = begun(stream)
    stream.fill(1, "want")
    stream.fill(10, "other")
    purge_before_a_look(stream.name, 10)
    is_loss(made, end)


def test_the_end_of_a_range_that_goes_while_it_is_looked_for_is_loss(
    js, new_stream, purge_before_a_look
):
    stream = new_stream(200)
    options = ReadOptions.parse({**stream.read_options, "readMethod": "consumer"}, streaming=True)
    handle = js.stream(stream.name)
    created = handle.cached_info.created.isoformat()
    handle.purge(seq=101)
    batches = read_range(options, Layout(SCHEMA), SequenceRange(stream.name, created, 101, 300))
    assert next(batches).num_rows
    purge_before_a_look(stream.name, 301)
    with pytest.raises(SparkSourceError, match="removed unread"):
        list(batches)


def test_a_stream_that_went_backwards_behind_a_noted_part_is_loss(new_stream):
    stream = new_stream()
    made, end = begun(stream, noteSkippedAfter="0s")
    stream.fill(20, "other")
    noted = travel(made.latestOffset(end, ALL))
    ahead = Offset.from_dict(noted).streams[stream.name]
    noted["streams"][stream.name]["seq"] = noted["base"][stream.name] = ahead.seq + 100
    assert "now ends at 25" in is_loss(made, noted)


def test_a_stream_made_again_and_still_empty_is_read_from_its_first_message(js, new_stream):
    stream = new_stream(5)
    made = reader(stream, failOnDataLoss="false")
    end = travel(made.latestOffset(travel(made.initialOffset()), ALL))
    js.delete_stream(stream.name)
    stream.create()
    again = travel(made.latestOffset(end, ALL))
    assert seq_of(again, stream) == 0
    stream.fill(3)
    strict = reader(stream)
    assert planned(strict, again, strict.latestOffset(again, ALL)) == [1, 2, 3]


def test_a_full_bucket_whose_values_are_replaced_loses_nothing(new_stream):
    """When it is full it refuses new keys; a new value of a key takes the place of the old one."""
    stream = new_stream(max_msgs_per_subject=1, discard="new", max_msgs=5)
    for number in range(5):
        stream.fill(1, f"key{number}")
    made = reader(stream)
    end = travel(made.latestOffset(travel(made.initialOffset()), ALL))
    for number in (0, 1, 2, 3, 4, 0):
        stream.fill(1, f"key{number}")
    assert seq_of(reader(stream).latestOffset(end, ALL), stream) == 11


# -- in Spark --------------------------------------------------------------------------------------


@needs_limits
def test_a_query_that_is_killed_goes_on_behind_what_it_had_skipped(spark, new_stream, tmp_path):
    stream = new_stream(max_msgs=100)
    stream.fill(5, "want")
    frame = read_stream(spark, stream, filterSubjects=f"{stream.name}.want")
    first, again = Collected(), Collected()
    writer = frame.writeStream.foreachBatch(first).option("checkpointLocation", str(tmp_path))
    query = going(writer.start)
    wait_until(lambda: first.rows == [1, 2, 3, 4, 5], timeout=60)
    stream.fill(95, "other")
    wait_until(lambda: 1 in first.batches, timeout=30)
    query.stop()
    assert offset_log(tmp_path, 1)["streams"][stream.name]["seq"] == 100
    stream.fill(89, "other")
    stream.fill(1, "want")
    run_available(frame, again, tmp_path)
    assert (first.rows, again.rows) == ([1, 2, 3, 4, 5], [190])
