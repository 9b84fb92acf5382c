"""What counts as loss, and what is a stream's normal life."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jetsync.spark.errors import SparkSourceError
from jetsync.spark.positions import Head, check_available
from jetsync.spark.read_options import ReadOptions

HEAD = Head(
    stream="S",
    created="c",
    first_seq=50,
    last_seq=99,
    messages=50,
    bytes=500,
    trims_unread=True,
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


def test_messages_that_were_replaced_or_acknowledged_are_no_loss_but_are_told(caplog):
    head = replace(HEAD, trims_unread=False)
    assert check_available(head, "c", 20, options("true")) == 50
    assert "30 sequences were removed unread" in caplog.text


def test_strict_takes_everything_that_is_gone_for_loss():
    with pytest.raises(SparkSourceError):
        check_available(replace(HEAD, trims_unread=False), "c", 20, options("strict"))


def test_what_an_anchor_holds_back_is_lost_when_it_is_gone():
    chosen = ReadOptions.parse(
        {"stream": "S", "onCommit": "ack", "anchorConsumer": "a"}, streaming=True
    )
    with pytest.raises(SparkSourceError):
        check_available(replace(HEAD, trims_unread=False), "c", 20, chosen)


def test_a_stream_made_again_is_another_stream():
    with pytest.raises(SparkSourceError) as caught:
        check_available(HEAD, "before", 60, options("true"))
    assert caught.value.code == "JETSYNC_STREAM_RECREATED"
    assert check_available(HEAD, "before", 60, options("false")) == 50
