"""Direct get (ADR-31): stored messages without a consumer, from any server that has them."""

from __future__ import annotations

import pickle
import sys

import pyarrow as pa
import pytest

import jetsync
from tests.harness.raw import RawClient
from tests.harness.waiting import wait_until
from tests.jetstream.messages import sequences
from tests.jetstream.stored import COLUMNS, fill

# -- what comes ------------------------------------------------------------------------------------


def test_get_msgs_gives_exactly_what_was_published(js, open_stream):
    fill(js, open_stream)
    batch = open_stream.get_msgs(1, max_messages=100)
    assert (len(batch), batch.first_seq, batch.last_seq) == (10, 1, 10)
    assert (batch.num_pending, batch.error, batch.up_to_seq) == (0, None, None)
    for n, msg in enumerate(batch):
        stored = open_stream.get_msg(n + 1)
        assert (
            (msg.subject, msg.data)
            == (stored.subject, stored.data)
            == (
                f"{open_stream.name}.{n % 3}",
                b"%d" % n,
            )
        )
        assert (msg.raw_headers, msg.headers) == (stored.raw_headers, stored.headers)
        about = msg.metadata
        assert (about.stream, about.stream_seq) == (open_stream.name, n + 1)
        assert (about.timestamp_ns, about.num_pending) == (stored.time_ns, 9 - n)
        assert (about.consumer, about.consumer_seq, about.num_delivered) == ("", 0, 0)
    assert batch[1].headers == {"N": ["1", "again"], "Only": "odd"}
    assert batch[0].raw_headers == b""


def test_a_batch_is_a_sequence(js, open_stream):
    fill(js, open_stream, 5)
    batch = open_stream.get_msgs(1, max_messages=5)
    assert sequences(batch[1:3]) == [2, 3]
    assert sequences(reversed(batch)) == [5, 4, 3, 2, 1]
    assert batch[-1].metadata.stream_seq == 5
    with pytest.raises(IndexError):
        batch[5]


def test_removed_messages_are_stepped_over(js, open_stream):
    fill(js, open_stream)
    for seq in (1, 4, 5, 10):
        open_stream.delete_msg(seq)
    batch = open_stream.get_msgs(1, max_messages=4)
    assert (sequences(batch), batch.num_pending) == ([2, 3, 6, 7], 2)
    assert sequences(open_stream.get_msgs(8, max_messages=9)) == [8, 9]


def test_one_subject_with_or_without_wildcards(js, open_stream):
    name = open_stream.name
    fill(js, open_stream)
    batch = open_stream.get_msgs(2, max_messages=2, subject=f"{name}.0")
    assert (sequences(batch), batch.num_pending) == ([4, 7], 1)
    assert sequences(open_stream.get_msgs(8, max_messages=9, subject=f"{name}.*")) == [8, 9, 10]


def test_nothing_there_is_an_empty_batch(js, open_stream):
    for _ in range(2):
        batch = open_stream.get_msgs(1, max_messages=5)
        assert (len(batch), batch.first_seq, batch.last_seq) == (0, None, None)
        assert (batch.num_pending, batch.error) == (0, None)
        assert batch.to_arrow().num_rows == 0
        assert len(open_stream.get_last_msgs(f"{open_stream.name}.x")) == 0
        js.publish(f"{open_stream.name}.y")
        open_stream.delete_msg(open_stream.info().state.last_seq)


def test_published_headers_that_look_like_the_servers_are_kept(js, open_stream):
    own = {"Nats-Sequence": ["77", "78"], "Nats-Stream": "OTHER", "Nats-Num-Pending": "5", "A": "b"}
    js.publish(f"{open_stream.name}.a", b"x", headers=own, msg_id=None)
    batch = open_stream.get_msgs(1, max_messages=1)
    assert batch[0].headers == own
    assert (batch[0].metadata.stream, batch[0].metadata.stream_seq) == (open_stream.name, 1)
    row = batch.to_arrow(text_headers=True).to_pylist()[0]
    assert (row["stream_seq"], row["num_pending"]) == (1, 0)
    assert dict(row["headers"]) == batch[0].headers.to_dict()
    assert open_stream.get_msg(1, direct=True).headers == own


def test_a_stored_status_line_does_not_end_the_reading(js, open_stream, url):
    block = b"NATS/1.0 404 Not Here\r\nX: y\r\n\r\n"
    with RawClient(url) as raw:
        raw.handshake()
        subject = f"{open_stream.name}.a".encode()
        raw.send(b"HPUB %s %d %d\r\n%s\r\n" % (subject, len(block), len(block), block))
        wait_until(lambda: open_stream.info().state.messages == 1, timeout=20)
    js.publish(f"{open_stream.name}.b", b"behind")
    assert sequences(open_stream.get_msgs(1, max_messages=5)) == [1, 2]


def test_messages_of_a_direct_get_need_no_acknowledgement(js, nc, open_stream):
    fill(js, open_stream, 3)
    batch = open_stream.get_msgs(1, max_messages=3)
    nc.flush()
    sent = nc.stats.out_messages
    for answer in ("ack", "nak", "term", "in_progress", "ack_sync"):
        getattr(batch[0], answer)()
    for answer in ("ack", "nak", "in_progress", "ack_sync"):
        getattr(batch, answer)()
    assert nc.stats.out_messages == sent
    assert batch[0].reply is None


def test_a_message_survives_pickling(js, open_stream):
    fill(js, open_stream, 2)
    msg = open_stream.get_msgs(2, max_messages=1)[0]
    copy = pickle.loads(pickle.dumps(msg))
    assert (copy.subject, copy.data, copy.headers, copy.metadata) == (
        msg.subject,
        msg.data,
        msg.headers,
        msg.metadata,
    )


# -- columns ---------------------------------------------------------------------------------------


def test_columns_have_what_the_messages_have(js, open_stream):
    fill(js, open_stream, 20)
    batch = open_stream.get_msgs(1, max_messages=20)
    table = batch.to_arrow()
    table.validate(full=True)
    assert table.schema.names == COLUMNS.split()
    for row, msg in zip(table.to_pylist(), batch, strict=True):
        assert (row["subject"], row["data"]) == (msg.subject, msg.data)
        assert row["stream_seq"] == msg.metadata.stream_seq
        assert row["num_pending"] == msg.metadata.num_pending
        assert row["timestamp"].value == msg.metadata.timestamp_ns
        published = msg.headers.to_dict()
        given = {k: [v.decode() for v in values] for k, values in row["headers"] or []}
        assert given == published
        assert (row["headers"] is None) == (not published)
        assert [row[name] for name in ("consumer_seq", "num_delivered", "reply")] == [None] * 3


def test_columns_have_the_types_of_every_batch(js, open_stream):
    fill(js, open_stream, 4)
    consumer = open_stream.create_consumer(ack_policy="none", inactive_threshold=60)
    consumed = consumer.fetch(4, timeout=20)
    read = open_stream.get_msgs(1, max_messages=4)
    for text_headers in (False, True):
        wanted = consumed.to_arrow(text_headers=text_headers)
        got = read.to_arrow(text_headers=text_headers)
        assert got.schema == wanted.schema
        same = ["subject", "data", "headers", "stream_seq", "num_pending", "timestamp"]
        assert got.select(same).equals(wanted.select(same))


def test_columns_can_be_chosen(js, open_stream):
    fill(js, open_stream, 3)
    batch = open_stream.get_msgs(1, max_messages=3)
    assert batch.to_arrow(["stream_seq", "data"]).schema.names == ["stream_seq", "data"]
    assert pa.record_batch(batch).equals(batch.to_arrow())
    for wrong in (["nothing"], ["data", "data"]):
        with pytest.raises(jetsync.ConfigError):
            batch.to_arrow(wrong)


def test_text_that_is_not_utf8_is_replaced(js, open_stream):
    js.publish(f"{open_stream.name}.a", headers={"K": b"\xff\xfe"}, msg_id=None)
    table = open_stream.get_msgs(1, max_messages=1).to_arrow(text_headers=True)
    assert table.to_pylist()[0]["headers"] == [("K", ["��"])]


def test_many_messages_make_no_objects(js, open_stream):
    js.publish_many((f"{open_stream.name}.a", b"x" * 64) for _ in range(20_000))
    open_stream.get_msgs(1, max_messages=10).to_arrow(["stream_seq"])
    before = sys.getallocatedblocks()
    batch = open_stream.get_msgs(1, max_messages=20_000, timeout=60)
    columns = batch.to_arrow(["stream_seq", "timestamp", "data"])
    assert sys.getallocatedblocks() - before < 2_000
    assert columns.column("stream_seq").to_pylist() == list(range(1, 20_001))


# -- one message -----------------------------------------------------------------------------------


def test_one_message_is_the_same_from_the_leader_and_directly(js, open_stream):
    name = open_stream.name
    fill(js, open_stream, 6)
    for direct_ in (True, None):
        assert open_stream.get_msg(4, direct=direct_) == open_stream.get_msg(4)
        assert open_stream.get_msg(
            2, next_by_subject=f"{name}.0", direct=direct_
        ) == open_stream.get_msg(4)
        assert open_stream.get_last_msg(f"{name}.1", direct=direct_) == open_stream.get_msg(5)
        with pytest.raises(jetsync.MessageNotFoundError) as caught:
            open_stream.get_msg(99, direct=direct_)
        assert caught.value.code == 404
        assert str(caught.value).endswith("at sequence 99")
        with pytest.raises(jetsync.MessageNotFoundError, match=rf"at subject '{name}\.none'$"):
            open_stream.get_last_msg(f"{name}.none", direct=direct_)
        with pytest.raises(jetsync.MessageNotFoundError, match=r"9 or behind it on subject 'x'$"):
            open_stream.get_msg(9, next_by_subject="x", direct=direct_)
