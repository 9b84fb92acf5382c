"""Streams and stored messages: create, update, look up, list, read, purge, delete."""

from __future__ import annotations

import pytest

import jetsync
from jetsync import StreamConfig


def test_create_is_repeatable_and_a_different_one_is_refused(js, stream):
    name = stream.name
    again = js.create_stream(StreamConfig(name=name, subjects=[f"{name}.>"], storage="memory"))
    assert again.name == name
    with pytest.raises(jetsync.StreamNameInUseError, match="update_stream changes it"):
        js.create_stream(name=name, subjects=[f"{name}.other"], storage="memory")
    js.create_consumer(name, durable_name="c")
    with pytest.raises(jetsync.ConsumerExistsError, match="update_consumer changes it"):
        js.create_consumer(name, durable_name="c", ack_wait=5)


def test_unknown_streams_have_their_own_error(js):
    for call in (js.stream, js.delete_stream):
        with pytest.raises(jetsync.StreamNotFoundError) as caught:
            call("NOSUCH")
        assert caught.value.err_code == 10059


@pytest.mark.parametrize("bad", ["", "a.b", "a b", "a*", ">", "x" * 256])
def test_bad_stream_names_are_refused_before_anything_is_sent(js, nc, bad):
    before = nc.stats.out_messages
    with pytest.raises(jetsync.ConfigError):
        js.stream(bad)
    assert nc.stats.out_messages == before


def test_listing_and_finding_by_subject(js, stream):
    assert stream.name in set(js.stream_names())
    assert stream.name in {info.config.name for info in js.streams()}
    assert js.stream_name_by_subject(f"{stream.name}.x") == stream.name
    with pytest.raises(jetsync.StreamNotFoundError):
        js.stream_name_by_subject("nothing.stores.this")


def test_stored_messages_can_be_read_by_sequence_and_subject(js, stream):
    name = stream.name
    for n in range(5):
        js.publish(f"{name}.{n % 2}", b"%d" % n, headers={"N": str(n)})
    third = stream.get_msg(3)
    assert (third.seq, third.subject, third.data) == (3, f"{name}.0", b"2")
    assert third.headers["N"] == "2"
    assert third.time is not None
    assert stream.get_msg(3, next_by_subject=f"{name}.1").seq == 4
    assert stream.get_last_msg(f"{name}.0").seq == 5
    with pytest.raises(jetsync.MessageNotFoundError):
        stream.get_msg(99)
    stream.delete_msg(3)
    with pytest.raises(jetsync.MessageNotFoundError):
        stream.get_msg(3)
