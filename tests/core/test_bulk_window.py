"""Bulk publishing: frames as expected, every confirmation matched by its number, nothing twice."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from jetsync._core.arrow_rows import ArrowRows
from jetsync._core.outbound import Outbound
from jetsync.errors import ConfigError, MaxPayloadError
from jetsync.headers import Headers
from tests.core.bench import PREFIX, Bench
from tests.core.kit import Thread, block, client_frames, message, pair


def rows_of(count, size=1):
    return [("s", b"%d" % (i % 10) * size) for i in range(count)]


# -- frames --------------------------------------------------------------------------------------


def test_each_message_asks_for_an_answer_under_its_number():
    bench = Bench()
    assert bench.add(("a", b"x"), ("b", b"y", {"K": "v"}), ["c", bytearray(b"z"), None]) == 3
    assert [(f.verb, f.subject, f.reply, f.header, f.payload) for f in bench.frames()] == [
        (b"PUB", b"a", PREFIX + b"0", b"", b"x"),
        (b"HPUB", b"b", PREFIX + b"1", block(b"K: v"), b"y"),
        (b"PUB", b"c", PREFIX + b"2", b"", b"z"),
    ]
    assert (bench.window.in_flight, bench.window.added) == (3, 3)
    assert bench.outbound.messages == 3


def test_automatic_ids_and_fixed_lines_go_into_every_message():
    bench = Bench(ids=b"run7.", fixed=b"Nats-Expected-Stream: S\r\n")
    bench.add(("a", b"x"), ("a", b"y", {"K": "v"}), ("a", b"z", {"Nats-Msg-Id": "mine"}))
    expected = b"Nats-Expected-Stream: S"
    assert [f.header for f in bench.frames()] == [
        block(expected, b"Nats-Msg-Id: run7.0"),
        block(expected, b"K: v", b"Nats-Msg-Id: run7.1"),
        block(expected, b"Nats-Msg-Id: mine"),
    ]


def test_ids_of_a_column_win_over_automatic_ones():
    bench = Bench(ids=b"auto.")
    batch = pa.record_batch(
        {
            "data": [b"x"],
            "id": ["mine"],
            "h": pa.array([[("K", "v")]], pa.map_(pa.string(), pa.string())),
        }
    )
    assert bench.window.add_arrow(ArrowRows(batch), None, b"s", "data", "h", "id", 0) == 1
    (frame,) = bench.frames()
    assert Headers.parse(frame.header).to_dict() == {"K": ["v"], "Nats-Msg-Id": ["mine"]}


def test_a_long_reply_prefix_is_fine_until_the_control_line_is_too_long():
    bench = Bench(prefix=b"p" * 3000 + b".")
    bench.add(("a", b"x"))
    assert bench.frames()[0].reply == b"p" * 3000 + b".0"
    bench = Bench(prefix=b"p" * 4090 + b".")
    bench.add(("a", b"x"))
    assert bench.frames() == []
    assert "max_control_line" in str(bench.window.rejected[0][1])


# -- settling ------------------------------------------------------------------------------------


def test_confirmations_settle_in_any_order():
    bench = Bench()
    bench.add(*rows_of(100))
    numbers = list(range(100))
    random.Random(3).shuffle(numbers)
    for done, number in enumerate(numbers, 1):
        bench.confirm(number, 1000 + number)
        assert bench.window.collect(0) == []
        assert bench.window.stored == done
        assert bench.window.open_numbers() == sorted(numbers[done:])
    assert bench.window.in_flight == 0
    assert (bench.window.first_seq, bench.window.last_seq) == (1000, 1099)


def test_in_flight_counts_from_the_oldest_open_message():
    bench = Bench()
    bench.add(*rows_of(5))
    bench.confirm(3, 1)
    bench.window.collect(0)
    assert bench.window.in_flight == 5
    bench.confirm(0, 2)
    bench.window.collect(0)
    assert bench.window.in_flight == 4


def test_a_second_confirmation_counts_once():
    bench = Bench()
    bench.add(*rows_of(2))
    for _ in range(3):
        bench.confirm(1, 7)
    bench.window.collect(0)
    assert (bench.window.stored, bench.window.duplicates) == (1, 0)


def test_duplicates_that_the_stream_dropped_are_told_apart():
    bench = Bench()
    bench.add(*rows_of(2))
    bench.confirm(0, 7, duplicate=True)
    bench.confirm(1, 8)
    bench.window.collect(0)
    assert (bench.window.stored, bench.window.duplicates) == (2, 1)


@pytest.mark.parametrize(
    "tail", [b"", b"x", b"1x", b"-1", b"0.1", b"9" * 25, b"5", b"18446744073709551615"]
)
def test_answers_without_a_message_are_ignored(tail):
    bench = Bench()
    bench.add(*rows_of(2))
    bench.inbound.feed(message(PREFIX + tail, bench.sid, b'{"stream":"S","seq":1}'))
    bench.inbound.feed(message(b"_INBOX.you.0", bench.sid, b'{"stream":"S","seq":1}'))
    assert bench.window.collect(0) == []
    assert bench.window.open_numbers() == [0, 1]
    assert bench.window.stored == 0
    assert bench.box.pending_messages == 0


def test_odd_answers_are_handed_over_and_settle_nothing():
    bench = Bench()
    bench.add(*rows_of(4))
    error = b'{"error":{"code":400,"err_code":10071,"description":"wrong"},"stream":"S","seq":0}'
    bench.answer(0, error)
    bench.answer(1, b"", block(b"Nats-Subject: s", status=b"503"))
    bench.confirm(2, 9)
    unusual = b'{"stream":"a\\u003eb","seq":3}'
    bench.answer(3, unusual)
    assert bench.window.collect(0) == [(0, 0, error), (1, 503, b""), (3, 0, unusual)]
    assert bench.window.open_numbers() == [0, 1, 3]
    assert bench.window.settle(0)
    assert not bench.window.settle(0)
    assert not bench.window.settle(2)
    assert not bench.window.settle(99)
    bench.window.confirm(3, 3, False)
    bench.window.confirm(3, 3, False)
    assert bench.window.open_numbers() == [1]
    assert bench.window.stored == 2
    assert (bench.window.first_seq, bench.window.last_seq) == (3, 9)


def test_collect_waits_for_the_first_answer_and_keeps_its_timeout():
    bench = Bench()
    bench.add(*rows_of(1))
    assert bench.window.collect(0.05) == []
    collector = Thread(bench.window.collect, 30.0)
    bench.confirm(0, 1)
    assert collector.finish() == []
    assert bench.window.in_flight == 0


# -- limits --------------------------------------------------------------------------------------


def test_the_window_takes_no_more_than_its_capacity():
    bench = Bench(capacity=10)
    assert bench.add(*rows_of(25)) == 10
    assert bench.window.full
    assert bench.window.add_rows(rows_of(1), 0) == 0
    bench.confirm(4, 1)
    bench.window.collect(0)
    assert bench.window.full  # the oldest is what counts
    for number in range(5):
        bench.confirm(number, 1)
    bench.window.collect(0)
    assert not bench.window.full
    assert bench.add(*rows_of(25)) == 5


def test_the_window_takes_no_more_than_its_bytes_and_one_message_always():
    bench = Bench(capacity_bytes=10_000)
    taken = bench.add(*rows_of(100, size=1000))
    assert 8 <= taken <= 10
    assert bench.window.full
    bench = Bench(capacity_bytes=10)
    assert bench.add(*rows_of(100, size=1000)) == 1
    bench.confirm(0, 1)
    bench.window.collect(0)
    assert bench.add(*rows_of(100, size=1000)) == 1


def test_the_window_goes_round_many_times():
    bench = Bench(capacity=7)
    sent, dice = 0, random.Random(11)
    while sent < 5000:
        sent += bench.add(*rows_of(dice.randint(1, 9)))
        numbers = bench.window.open_numbers()
        for number in dice.sample(numbers, dice.randint(0, len(numbers))):
            bench.confirm(number, number + 1)
        assert bench.window.collect(0) == []
    for number in bench.window.open_numbers():
        bench.confirm(number, number + 1)
    bench.window.collect(0)
    assert bench.window.in_flight == 0
    assert bench.window.stored == bench.window.added == sent
    frames = bench.frames()
    assert [f.reply for f in frames] == [PREFIX + b"%d" % i for i in range(sent)]


# -- what cannot be sent -------------------------------------------------------------------------


class Bad:
    """A mapping whose reading fails in an unexpected way."""

    def items(self):
        raise RuntimeError("boom")


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (("a b", b"x"), ConfigError),
        (("*", b"x"), ConfigError),
        (("", b"x"), ConfigError),
        ((b"a", b"x"), ConfigError),
        (("a\ud800", b"x"), ConfigError),
        (("a", "text"), ConfigError),
        (("a", None), ConfigError),
        (("a", b"x", {"K": "a\r\nb"}), ConfigError),
        (("a", b"x", {"K": 1}), ConfigError),
        (("a", b"x", "text"), ConfigError),
        (("a",), ConfigError),
        (("a", b"x", {}, 1), ConfigError),
        ("ab", ConfigError),
        (None, ConfigError),
        (("a", b"x" * 2000), MaxPayloadError),
    ],
    ids=lambda v: ascii(v)[:30],
)
def test_a_message_that_cannot_be_sent_is_rejected_and_its_neighbours_are_sent(row, error):
    bench = Bench()
    bench.outbound.max_payload = 1000
    assert bench.add(("s", b"0"), row, ("s", b"2")) == 3
    assert [f.reply for f in bench.frames()] == [PREFIX + b"0", PREFIX + b"2"]
    ((number, found),) = bench.window.rejected
    assert number == 1
    assert isinstance(found, error)
    assert bench.window.open_numbers() == [0, 2]
    bench.confirm(0, 1)
    bench.window.collect(0)
    assert bench.window.in_flight == 1  # the rejected one is over with


def test_nothing_but_rejected_messages():
    bench = Bench(capacity=10)
    assert bench.add(*[("bad subject", b"")] * 95) == 95
    assert [number for number, _ in bench.window.rejected] == list(range(95))
    assert bench.window.in_flight == 0
    assert bench.frames() == []


def test_after_an_unexpected_error_the_window_still_adds_up():
    """What was added before it has been sent and can be settled."""
    bench = Bench()
    with pytest.raises(RuntimeError, match="boom"):
        bench.window.add_rows([("s", b"0"), ("s", b"1"), ("s", b"2", Bad())], 0)
    assert bench.window.added == 2
    assert len(bench.frames()) == 2
    bench.add(("s", b"2"))
    for number in range(3):
        bench.confirm(number, number + 1)
    bench.window.collect(0)
    assert (bench.window.in_flight, bench.window.stored) == (0, 3)


# -- sending again -------------------------------------------------------------------------------


def test_resend_repeats_the_open_messages_byte_by_byte():
    bench = Bench(ids=b"run.", capacity=2000)
    bench.add(*rows_of(1200, size=50))
    first = bench.frames()
    for number in range(0, 1200, 2):
        bench.confirm(number, number + 1)
    bench.window.collect(0)
    assert bench.window.resend(60.0) == 0  # nothing says that they were lost
    assert bench.window.mark_lost() == []
    assert bench.window.resend(60.0) == 600
    again = bench.frames()[1200:]
    assert again == [frame for i, frame in enumerate(first) if i % 2]
    for number in bench.window.open_numbers():
        bench.confirm(number, number + 1, duplicate=True)
    bench.window.collect(0)
    assert (bench.window.stored, bench.window.duplicates) == (1200, 600)
    assert bench.window.resend(60.0) == 0


def test_resend_leaves_out_what_was_first_sent_too_long_ago():
    """Outside of the duplicate window a copy would be stored twice."""
    bench = Bench(ids=b"run.")
    bench.add(*rows_of(10))
    bench.window.mark_lost()
    assert bench.window.resend(-1.0) == 0
    assert bench.window.resend(60.0) == 10


def test_a_chunk_that_the_outbound_buffer_refused_goes_out_when_there_is_room():
    outbound = Outbound(offline_limit=100)
    bench = Bench(outbound=outbound)
    outbound.publish("filler", b"x" * 80)
    assert bench.add(*rows_of(5)) == 5
    assert bench.window.full
    assert bench.window.open_numbers() == [0, 1, 2, 3, 4]
    with pair() as (ours, theirs):
        outbound.attach(ours.fileno(), b"", 1 << 20)
        assert bench.window.flush()
        outbound.send_now()
        frames = client_frames(theirs.recv(1 << 16))
        assert [f.reply for f in frames[1:]] == [PREFIX + b"%d" % i for i in range(5)]
        outbound.close()


def test_a_closed_connection_takes_nothing():
    bench = Bench()
    bench.outbound.close()
    bench.add(*rows_of(5))
    assert not bench.window.flush()
    assert all(bench.window.is_refused(n) for n in range(5))
