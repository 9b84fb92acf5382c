"""Options of the source."""

from __future__ import annotations

import pickle

import pytest

from jetsync.spark.errors import SparkOptionError
from jetsync.spark.read_options import READ_OPTIONS, Position, ReadOptions


def batch(**options: str) -> ReadOptions:
    return ReadOptions.parse({"stream": "S", **options}, streaming=False)


def stream(**options: str) -> ReadOptions:
    return ReadOptions.parse({"stream": "S", **options}, streaming=True)


def refusal(parse, **options: str) -> SparkOptionError:
    with pytest.raises(SparkOptionError) as caught:
        parse(**options)
    return caught.value


def test_a_stream_is_required():
    with pytest.raises(SparkOptionError) as caught:
        ReadOptions.parse({}, streaming=False)
    assert str(caught.value) == (
        "[JETSYNC_MISSING_OPTION] option 'stream' is required for batch reads"
    )


def test_defaults_are_the_documented_ones():
    options = stream()
    assert options.streams == ("S",)
    assert options.starting == {"S": Position(word="earliest")}
    assert (options.min_partitions, options.max_records_per_partition) == (None, None)
    assert (options.fetch_batch, options.fetch_max_bytes) == (50_000, 16 << 20)
    assert (options.poll_interval, options.max_trigger_delay) == (0.2, 900.0)
    assert options.fail_on_data_loss
    assert options.include_headers
    assert options.link.server_unavailable_timeout == 60.0
    assert batch().ending == {"S": Position(word="latest")}


def test_options_travel_by_pickle():
    options = batch(startingOffsets='{"S": 5}')
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize("name", ["a.b", "a b", "a*", ">", "a/b"])
def test_names_that_no_stream_can_have_are_refused(name):
    assert refusal(batch, stream=name).code == "JETSYNC_INVALID_OPTION"


def test_several_streams_are_a_comma_list():
    assert batch(stream="A, B,A").streams == ("A", "B")


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Position(word="earliest")),
        ("EARLIEST", Position(word="earliest")),
        ("latest", Position(word="latest")),
        ("17", Position(seq=17)),
        ('{"S": 17}', Position(seq=17)),
        ('{"S": "latest"}', Position(word="latest")),
        ('{"S": -2}', Position(word="earliest")),
        ('{"S": -1}', Position(word="latest")),
        ("{}", Position(word="earliest")),
    ],
)
def test_starting_offsets_of_a_streaming_read(text, position):
    assert stream(startingOffsets=text).starting == {"S": position}


@pytest.mark.parametrize(
    "text", ["newest", "1.5", '{"S": 1.5}', '{"S": true}', '{"S"', "-7", "{1}"]
)
def test_other_starting_offsets_are_refused(text):
    assert refusal(stream, startingOffsets=text).code == "JETSYNC_INVALID_OPTION"


def test_offsets_of_another_stream_are_refused():
    assert refusal(batch, startingOffsets='{"T": 1}').code == "JETSYNC_INVALID_OPTION"


def test_a_batch_read_neither_starts_at_latest_nor_ends_at_earliest():
    assert refusal(batch, startingOffsets="latest").code == "JETSYNC_INVALID_OPTION"
    assert refusal(batch, startingOffsets='{"S": -1}').code == "JETSYNC_INVALID_OPTION"
    assert refusal(batch, endingOffsets="earliest").code == "JETSYNC_INVALID_OPTION"


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1700000000000", 1_700_000_000_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000_000_000),
        ("2023-11-14 22:13:20", 1_700_000_000_000_000_000),
        ("2023-11-14T23:13:20.000000001+01:00", 1_700_000_000_000_000_001),
        ("2023-11-14T22:13:20.5Z", 1_700_000_000_500_000_000),
    ],
)
def test_timestamps_win_over_offsets_and_keep_nanoseconds(text, nanoseconds):
    options = stream(startingTimestamp=text, startingOffsets="latest")
    assert options.starting == {"S": Position(time_ns=nanoseconds)}


@pytest.mark.parametrize("text", ["yesterday", "2023-11-14", "2023-13-14T00:00:00Z"])
def test_other_timestamps_are_refused(text):
    assert refusal(stream, startingTimestamp=text).code == "JETSYNC_INVALID_OPTION"


def test_filters_must_be_subjects_that_do_not_overlap():
    assert batch(filterSubjects="a.>, b.*").filter_subjects == ("a.>", "b.*")
    for text in ("a.>,a.b", "a..b", ">.a", ".a", "a b"):
        assert refusal(batch, filterSubjects=text).code == "JETSYNC_INVALID_OPTION"


@pytest.mark.parametrize("keys", ["a.>,a.b", "a..b", "a b"])
def test_keys_are_refused_under_their_own_name(keys):
    with pytest.raises(SparkOptionError, match=f"'keys' .*'{keys}'"):
        ReadOptions.parse({"bucket": "B", "keys": keys}, streaming=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxOffsetsPerTrigger", "0"),
        ("maxOffsetsPerTrigger", "many"),
        ("maxBytesPerTrigger", "0"),
        ("maxRecordsPerPartition", "0"),
        ("minPartitions", "-1"),
        ("fetchBatch", "0"),
        ("fetchMaxBytes", "none"),
        ("failOnDataLoss", "yes"),
        ("includeHeaders", "1"),
        ("pollInterval", "often"),
        ("startingTimestampStrategy", "guess"),
    ],
)
def test_a_wrong_value_is_refused_by_name(name, value):
    error = refusal(stream, **{name: value})
    assert error.code == "JETSYNC_INVALID_OPTION"
    assert name in str(error)


def test_the_least_rows_of_a_batch_may_not_exceed_the_most():
    error = refusal(stream, minOffsetsPerTrigger="10", maxOffsetsPerTrigger="5")
    assert error.code == "JETSYNC_INVALID_OPTION"


@pytest.mark.parametrize("method", ["auto", "direct", "consumer"])
def test_the_read_method_is_one_of_three(method):
    assert batch(readMethod=method.upper()).read_method == method
    assert refusal(batch, readMethod="push").code == "JETSYNC_INVALID_OPTION"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"onCommit": "ack"}, "JETSYNC_MISSING_OPTION"),
        ({"anchorConsumer": "a"}, "JETSYNC_OPTION_CONFLICT"),
        ({"anchorConsumer": "a", "onCommit": "purge"}, "JETSYNC_OPTION_CONFLICT"),
        ({"anchorConsumer": "a.b", "onCommit": "ack"}, "JETSYNC_INVALID_OPTION"),
        ({"onCommit": "delete"}, "JETSYNC_INVALID_OPTION"),
        ({"onCommit": "purge", "startingOffsets": "latest"}, "JETSYNC_OPTION_CONFLICT"),
        ({"onCommit": "purge", "startingOffsets": "5"}, "JETSYNC_OPTION_CONFLICT"),
        ({"onCommit": "purge", "startingTimestamp": "5"}, "JETSYNC_OPTION_CONFLICT"),
    ],
)
def test_what_on_commit_cannot_do_is_refused(given, code):
    assert refusal(stream, **given).code == code


def test_on_commit_and_its_anchor():
    assert stream(onCommit="purge").on_commit == "purge"
    assert stream(onCommit="ack", anchorConsumer="a").anchor_consumer == "a"
    assert stream().on_commit == "none"


def test_pushing_filters_down_is_for_batches_only():
    assert batch(pushFilters="true").push_filters
    assert refusal(stream, pushFilters="true").code == "JETSYNC_UNKNOWN_OPTION"


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "9", "endingOffsets": "8"},
        {"startingOffsets": '{"S": 9}', "endingOffsets": '{"S": 8}'},
        {"startingTimestamp": "2000", "endingTimestamp": "1999"},
    ],
)
def test_an_end_before_the_start_is_a_conflict(given):
    assert refusal(batch, **given).code == "JETSYNC_OPTION_CONFLICT"
    assert batch(startingOffsets="9", endingOffsets="9")


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp"])
def test_a_streaming_read_has_no_end(name):
    assert refusal(stream, **{name: "5"}).code == "JETSYNC_UNKNOWN_OPTION"


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "pollInterval", "onCommit"])
def test_a_batch_read_has_no_triggers(name):
    assert refusal(batch, **{name: "5"}).code == "JETSYNC_UNKNOWN_OPTION"


def test_misspelled_options_are_refused_with_the_nearest_one():
    assert "did you mean 'maxOffsetsPerTrigger'?" in str(refusal(stream, maxOffsetPerTrigger="5"))


@pytest.mark.parametrize("name", READ_OPTIONS)
def test_an_empty_value_counts_as_not_given(name):
    parse = batch if name.startswith(("ending", "push")) else stream
    if name == "stream":
        assert refusal(parse, stream=" ").code == "JETSYNC_MISSING_OPTION"
    else:
        assert parse(**{name: " "}) == parse()
