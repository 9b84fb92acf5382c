"""Messages that a direct get brought: as they were published, and what the server says of them."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest

from jetsync._core.batch import MsgBatch, last_of
from jetsync._core.message import Msg
from jetsync._core.stored import StoredFactory, parse_stored
from jetsync.errors import ProtocolError
from jetsync.jetstream._wire import format_time, parse_time_ns
from tests.core.kit import Capsules, message, receiver


class Stored(Msg):
    __slots__ = ("_lines",)


def lines(seq: int, time: str, subject: str = "a.b") -> bytes:
    text = f"Nats-Stream: S\r\nNats-Subject: {subject}\r\nNats-Sequence: {seq}\r\n"
    text += f"Nats-Time-Stamp: {time}\r\nNats-Num-Pending: 5\r\nNats-Last-Sequence: 9\r\n\r\n"
    return text.encode()


def batch_of(*blocks):
    inbound, box = receiver()
    for block in blocks:
        assert inbound.feed(message(b"_INBOX.x", payload=b"p", header=block)) == []
    batch = box.new_batch(MsgBatch, None, StoredFactory(Stored))
    box.take_into(batch, len(blocks))
    return batch


def random_times():
    chosen = random.Random(7)
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    for _ in range(3000):
        moment = epoch + timedelta(days=chosen.randrange(-106_000, 106_000))
        moment += timedelta(microseconds=chosen.randrange(86_400_000_000))
        yield format_time(moment, chosen.randrange(10 ** chosen.randrange(10)))


def test_times_are_what_the_calendar_says():
    """Any time between 1680 and 2260 is the one that Python reads, to the nanosecond."""
    for time in random_times():
        stored = parse_stored(lines(1, time))
        assert stored is not None
        assert stored[3] == parse_time_ns(time), time


def test_a_message_is_made_as_it_was_published():
    published = b"NATS/1.0\r\nA: b\r\n"
    batch = batch_of(
        published + lines(3, "1970-01-01T00:00:01Z"),
        b"NATS/1.0\r\n" + lines(4, "1970-01-01T00:00:02Z"),
    )
    first, second = batch
    assert (first.subject, first.data, first.reply) == ("a.b", b"p", None)
    assert first.raw_headers == published + b"\r\n"
    assert first.headers == {"A": "b"}
    assert parse_stored(first._lines) == ("S", "a.b", 3, 10**9, 5, b"")
    assert (second.raw_headers, second._lines) == (b"", lines(4, "1970-01-01T00:00:02Z"))
    assert last_of(batch).subject == "a.b"


def test_a_block_that_the_server_cut_within_a_line_is_read_like_its_neighbours():
    """A server puts its lines in place of the last two bytes of a block, blank line or not."""
    odd = [
        b"NATS/1.0\r\nA:",
        b"garba",
        b"NATS/1.0",
        b"NATS/1.0 409 Consumer Delet",
        b"Nats-Stream: x",
    ]
    batch = batch_of(
        *(front + lines(seq, "1970-01-01T00:00:01Z") for seq, front in enumerate(odd, 1)),
        b"NATS/1.0\r\nA: b\r\n" + lines(9, "1970-01-01T00:00:02Z"),
    )
    assert [m.raw_headers for m in batch][:-1] == [front + b"\r\n" for front in odd]
    seqs = [(parse_stored(m._lines) or ())[2:3] for m in batch]
    assert seqs == [(1,), (2,), (3,), (4,), (5,), (9,)]
    columns = pa.record_batch(Capsules(*batch._arrow_capsules(None, True)))
    assert columns.column("stream_seq").to_pylist() == [1, 2, 3, 4, 5, 9]
    assert columns.column("headers").to_pylist()[0] == [("A", [""])]


def test_columns_come_from_the_servers_lines():
    batch = batch_of(
        b"NATS/1.0\r\n" + lines(3, "1970-01-01T00:00:01Z"),
        b"NATS/1.0\r\nA: b\r\n" + lines(4, "1970-01-01T00:00:02Z", "é"),
    )
    columns = pa.record_batch(Capsules(*batch._arrow_capsules(None, True)))
    columns.validate(full=True)
    first, second = columns.to_pylist()
    assert (first["subject"], first["headers"], first["stream_seq"]) == ("a.b", None, 3)
    assert (second["subject"], second["headers"]) == ("é", [("A", ["b"])])
    assert columns.column("timestamp")[1].value == 2 * 10**9
    for name in ("reply", "consumer_seq", "num_delivered"):
        assert columns.column(name).null_count == 2


@pytest.mark.parametrize("block", [b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nNats-Sequence: 1\r\n\r\n"])
def test_a_message_without_the_servers_lines_is_an_error(block):
    batch = batch_of(block)
    assert parse_stored(block) is None
    with pytest.raises(ProtocolError):
        batch[0]
    with pytest.raises(ProtocolError):
        batch._arrow_capsules()
