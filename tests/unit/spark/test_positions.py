"""What counts as loss, and what is a stream's normal life."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jetsync.errors import APIError, TimeoutError
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.positions import Head, check_available, is_not_found
from jetsync.spark.read_options import ReadOptions

HEAD = Head(
    stream="S",
    created="c",
    first_seq=50,
    last_seq=99,
    messages=50,
    bytes=500,
    trims_only_old=True,
    retention="limits",
    allow_direct=True,
)


def options(fail: str) -> ReadOptions:
    return ReadOptions.parse({"stream": "S", "failOnDataLoss": fail}, streaming=True)


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("wanted", [50, 51, 99, 100])
def test_what_is_still_there_is_read_from_where_it_was_wanted(fail, wanted):
    assert check_available(HEAD, "c", wanted, options(fail)) == wanted


def test_a_trimmed_head_is_loss():
    with pytest.raises(SparkSourceError, match="wanted 20, but") as caught:
        check_available(HEAD, "c", 20, options("true"))
    assert caught.value.code == "JETSYNC_DATA_LOSS"


def test_loss_may_be_accepted():
    assert check_available(HEAD, "c", 20, options("false")) == 50


def test_streams_that_keep_a_number_per_subject_or_remove_on_ack_lose_nothing_by_trimming():
    assert check_available(replace(HEAD, trims_only_old=False), "c", 20, options("true")) == 50


def test_a_stream_made_again_is_another_stream():
    with pytest.raises(SparkSourceError) as caught:
        check_available(HEAD, "before", 60, options("true"))
    assert caught.value.code == "JETSYNC_STREAM_RECREATED"
    assert check_available(HEAD, "before", 60, options("false")) == 50


def test_not_found_is_told_by_number_not_by_text():
    assert is_not_found(APIError("x", code=404, err_code=10059), 10059)
    assert not is_not_found(APIError("stream not found", code=404, err_code=10014), 10059)
    assert not is_not_found(TimeoutError("x"), 10059)
