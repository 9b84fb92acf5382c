"""Batched direct gets: pages, limits and last messages (ADR-31)."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone

import pytest

import jetsync
from jetsync.jetstream.streams import direct
from tests.harness.waiting import wait_until
from tests.jetstream.messages import sequences
from tests.jetstream.stored import fill


def test_pages_follow_each_other_without_hole_or_repetition(js, nc, open_stream, monkeypatch):
    fill(js, open_stream, 100)
    monkeypatch.setattr(direct, "PAGE_BYTES", 200)
    asked = nc.stats.out_messages
    batch = open_stream.get_msgs(1, max_messages=95)
    assert nc.stats.out_messages - asked > 3
    assert (sequences(batch), batch.num_pending) == (list(range(1, 96)), 5)
    filtered = open_stream.get_msgs(1, max_messages=500, subject=f"{open_stream.name}.1")
    assert sequences(filtered) == list(range(2, 101, 3))


def test_max_bytes_ends_a_batch_after_the_message_that_reaches_it(js, open_stream):
    for _ in range(10):
        js.publish(f"{open_stream.name}.a", b"x" * 1000, msg_id=None)
    assert len(open_stream.get_msgs(1, max_messages=10, max_bytes=1)) == 1
    batch = open_stream.get_msgs(1, max_messages=10, max_bytes=3000)
    assert (len(batch), batch.num_pending) == (3, 7)
    assert len(open_stream.get_msgs(1, max_messages=10, max_bytes=10**6)) == 10


def test_max_bytes_above_one_page(js, open_stream, monkeypatch):
    for _ in range(10):
        js.publish(f"{open_stream.name}.a", b"x" * 1000, msg_id=None)
    monkeypatch.setattr(direct, "PAGE_BYTES", 2000)
    assert 4 <= len(open_stream.get_msgs(1, max_messages=10, max_bytes=5000)) <= 6
    assert len(open_stream.get_msgs(1, max_messages=10, max_bytes=10**6)) == 10


@pytest.mark.parametrize(
    "wrong",
    [
        {"start_seq": 0, "max_messages": 1},
        {"start_seq": True, "max_messages": 1},
        {"start_seq": 2**64, "max_messages": 1},
        {"start_seq": 1, "max_messages": 0},
        {"start_seq": 1, "max_messages": 1, "max_bytes": 0},
        {"start_seq": 1, "max_messages": 1, "subject": "a b"},
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(nc, open_stream, wrong):
    nc.flush()
    sent = nc.stats.out_messages
    with pytest.raises(jetsync.ConfigError):
        open_stream.get_msgs(wrong.pop("start_seq"), **wrong)
    assert nc.stats.out_messages == sent


def test_last_messages_of_many_subjects_in_order(js, open_stream):
    name = open_stream.name
    fill(js, open_stream, 9)
    batch = open_stream.get_last_msgs(f"{name}.*")
    assert (sequences(batch), batch.up_to_seq, batch.num_pending) == ([7, 8, 9], 9, 0)
    batch = open_stream.get_last_msgs([f"{name}.0", f"{name}.2", f"{name}.none"])
    assert sequences(batch) == [7, 9]
    assert batch.to_arrow(["subject"]).column(0).to_pylist() == [f"{name}.0", f"{name}.2"]


def test_last_messages_as_of_a_sequence_or_a_time(js, open_stream):
    name = open_stream.name
    fill(js, open_stream, 9)
    batch = open_stream.get_last_msgs(f"{name}.*", up_to_seq=5)
    assert (sequences(batch), batch.up_to_seq) == ([3, 4, 5], 5)
    moment = open_stream.get_msg(6).time + timedelta(microseconds=1)
    wait_until(lambda: datetime.now(timezone.utc) > moment)
    js.publish(f"{name}.0")
    later = open_stream.get_last_msgs(f"{name}.*", up_to_time=moment)
    assert 6 <= later.up_to_seq < 10
    assert max(sequences(later)) == later.up_to_seq
    assert (
        len(
            open_stream.get_last_msgs(
                f"{name}.*", up_to_time=datetime(2020, 1, 1, tzinfo=timezone.utc)
            )
        )
        == 0
    )


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_last_messages_as_of_a_sequence_that_is_still_to_come_are_those_of_now(js, storage):
    name = f"beyond-{storage}"
    stream = js.create_stream(name=name, subjects=[name], storage=storage, allow_direct=True)
    try:
        assert len(stream.get_last_msgs(name, up_to_seq=100)) == 0
        js.publish(name, b"1")
        js.publish(name, b"2")
        batch = stream.get_last_msgs(name, up_to_seq=100)
        assert [msg.data for msg in batch] == [b"2"]
        assert len(stream.get_last_msgs("other", up_to_seq=100)) == 0
    finally:
        js.delete_stream(name)


def test_pages_of_last_messages_are_of_one_moment(js, open_stream, monkeypatch):
    name = open_stream.name
    for n in range(300):
        js.publish(f"{name}.{n}", b"old", msg_id=None)
    monkeypatch.setattr(direct, "PAGE_BYTES", 100)
    stop = threading.Event()

    def overwrite():
        while not stop.is_set():
            for n in range(0, 300, 7):
                js.publish(f"{name}.{n}", b"new", msg_id=None)

    writer = threading.Thread(target=overwrite)
    writer.start()
    try:
        for _ in range(5):
            batch = open_stream.get_last_msgs(f"{name}.*", timeout=30)
            # A message that is no longer the last one now was the last one then, or is left out;
            # nothing newer than that moment may be there.
            assert sequences(batch) == sorted(set(sequences(batch)))
            assert max(sequences(batch)) <= batch.up_to_seq
            assert len({msg.subject for msg in batch}) == len(batch)
    finally:
        stop.set()
        writer.join()
    quiet = open_stream.get_last_msgs(f"{name}.*", timeout=30)
    assert len(quiet) == 300


def test_more_than_1024_subjects_are_too_many(js, open_stream):
    js.publish_many((f"{open_stream.name}.{n}", b"") for n in range(1025))
    with pytest.raises(jetsync.LimitsExceededError, match="1024") as caught:
        open_stream.get_last_msgs(f"{open_stream.name}.*")
    assert caught.value.code == 413
    open_stream.purge(subject=f"{open_stream.name}.7")
    assert len(open_stream.get_last_msgs(f"{open_stream.name}.*")) == 1024


def test_wrong_arguments_for_last_messages_are_refused(open_stream):
    now = datetime.now(timezone.utc)
    for subjects, options in (
        ([], {}),
        ("a b", {}),
        ("a", {"up_to_seq": 0}),
        ("a", {"up_to_seq": 1, "up_to_time": now}),
        ("a", {"up_to_time": datetime(2026, 1, 1)}),
    ):
        with pytest.raises(jetsync.ConfigError):
            open_stream.get_last_msgs(subjects, **options)
