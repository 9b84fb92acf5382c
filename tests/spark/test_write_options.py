"""Options of the sink."""

from __future__ import annotations

import pickle

import pytest

from jetsync.spark.errors import SparkOptionError
from jetsync.spark.write_options import WriteOptions


def parse(**options: str) -> WriteOptions:
    return WriteOptions.parse(options)


def refusal(**options: str) -> SparkOptionError:
    with pytest.raises(SparkOptionError) as caught:
        parse(**options)
    return caught.value


def test_defaults_are_the_documented_ones():
    options = parse()
    assert options.dedup == "content"
    assert (options.min_duplicate_window, options.small_window_fails) == (120.0, False)
    assert options.max_inflight == 4096
    assert (options.publish_timeout, options.publish_retries) == (5.0, 5)
    assert options.subject is None
    assert pickle.loads(pickle.dumps(options)) == options


def test_what_spark_adds_by_itself_is_ignored():
    assert parse(path="x", checkpointlocation="y")


@pytest.mark.parametrize("subject", ["a.*", "a.>", "a..b", "a b", ".", "$JS.API.INFO"])
def test_the_fixed_subject_is_one_that_a_message_can_have(subject):
    assert refusal(subject=subject).code == "JETSYNC_INVALID_OPTION"


def test_ways_to_recognise_repeated_rows():
    assert [parse(dedup=name).dedup for name in ("content", "Column", "position", "none")] == [
        "content",
        "column",
        "position",
        "none",
    ]
    assert refusal(dedup="uuid").code == "JETSYNC_INVALID_OPTION"


def test_the_duplicate_window_may_warn_or_fail():
    assert parse(minDuplicateWindow="10m").min_duplicate_window == 600.0
    strict = parse(minDuplicateWindow="error:10m")
    assert (strict.min_duplicate_window, strict.small_window_fails) == (600.0, True)
    assert refusal(minDuplicateWindow="error:long").code == "JETSYNC_INVALID_OPTION"


def test_what_a_write_may_do_besides():
    assert parse(atomic="chunk").atomic
    assert parse(commitMarker="true").commit_marker
    assert parse(maxInflightBytes="16MiB").max_inflight_bytes == 16 << 20
    assert parse(onOverwrite="purge", subject="a").purge_on_overwrite
    assert refusal(onOverwrite="purge").code == "JETSYNC_MISSING_OPTION"
    assert refusal(atomic="all").code == "JETSYNC_INVALID_OPTION"
    assert refusal(commitMarker="true", queryId="a b").code == "JETSYNC_INVALID_OPTION"


def test_options_of_the_source_are_unknown_here():
    assert refusal(startingOffsets="earliest").code == "JETSYNC_UNKNOWN_OPTION"


def test_wrong_numbers_are_refused():
    assert refusal(maxInflight="0").code == "JETSYNC_INVALID_OPTION"
    assert refusal(publishTimeout="0").code == "JETSYNC_INVALID_OPTION"
    assert refusal(publishRetries="-1").code == "JETSYNC_INVALID_OPTION"
