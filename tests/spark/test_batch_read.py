"""spark.read.format("jetstream"): the rows are exactly what the stream holds."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from tests.spark.raw_nats import publish_raw


def read(spark, stream, **options):
    return spark.read.format("jetstream").options(**stream.read_options, **options).load()


def seqs(frame):
    return [row.seq for row in frame.select("seq").orderBy("seq").collect()]


def failure(action):
    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value)


def test_a_batch_read_equals_what_was_published(spark, js, new_stream):
    stream = new_stream()
    js.publish(f"{stream.name}.a", b"one", headers={"K": ["v1", "v2"], "Empty": ""})
    js.publish(f"{stream.name}.b", b"\x00\xff", msg_id=None)
    js.publish(f"{stream.name}.c", b"", msg_id=None)
    rows = read(spark, stream).orderBy("seq").collect()
    assert [row.subject for row in rows] == [f"{stream.name}.{token}" for token in "abc"]
    assert [bytes(row.data) for row in rows] == [b"one", b"\x00\xff", b""]
    assert rows[0].headers["K"] == ["v1", "v2"]
    assert rows[0].headers["Empty"] == [""]
    assert [row.headers for row in rows[1:]] == [None, None]
    assert [row.seq for row in rows] == [1, 2, 3]
    assert {row.stream for row in rows} == {stream.name}
    stored = js.stream(stream.name).get_msg(1)
    micros = stored.time_ns // 1000
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    seen = rows[0].timestamp.astimezone(timezone.utc)
    assert (seen - epoch) // timedelta(microseconds=1) == micros


def test_many_partitions_and_small_fetches_give_every_message_once(spark, new_stream):
    stream = new_stream(5000)
    frame = read(spark, stream, minPartitions=4, fetchBatch=300, fetchMaxBytes="16k")
    assert frame.select(F.spark_partition_id()).distinct().count() == 4
    assert seqs(frame) == list(range(1, 5001))
    assert frame.where("cast(cast(data as string) as bigint) = seq").count() == 5000


def test_every_column_can_be_chosen_with_its_exact_type(spark, new_stream):
    stream = new_stream(3)
    frame = read(spark, stream, columns="size,timestamp_ns,seq")
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema] == [
        ("size", "int"),
        ("timestamp_ns", "bigint"),
        ("seq", "bigint"),
    ]
    rows = frame.orderBy("seq").collect()
    assert [row["size"] for row in rows] == [1, 1, 1]
    assert rows[0].timestamp_ns == stream.js.stream(stream.name).get_msg(1).time_ns


def test_a_schema_of_the_user_is_a_projection(spark, new_stream):
    stream = new_stream(3)
    frame = (
        spark.read.format("jetstream")
        .options(**stream.read_options)
        .schema("seq bigint, data binary")
        .load()
    )
    assert frame.orderBy("seq").first().asDict() == {"seq": 1, "data": bytearray(b"1")}


def test_an_empty_stream_gives_no_rows(spark, new_stream):
    assert read(spark, new_stream()).collect() == []


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("earliest", "latest", range(1, 11)),
        ("4", "7", range(4, 8)),
        ("4", "4", range(4, 5)),
        ("0", "99", range(1, 11)),
        ("11", "latest", range(0)),
        ("30", "latest", range(0)),
    ],
)
def test_sequences_choose_the_range(spark, new_stream, start, end, expected):
    stream = new_stream(10)
    frame = read(spark, stream, startingOffsets=start, endingOffsets=end)
    assert seqs(frame) == list(expected)


def test_timestamps_choose_the_range(spark, js, new_stream):
    stream = new_stream(10)
    when = js.stream(stream.name).get_msg(4).time_ns
    first = next(s for s in range(1, 11) if js.stream(stream.name).get_msg(s).time_ns >= when)
    last = max(s for s in range(1, 11) if js.stream(stream.name).get_msg(s).time_ns <= when)
    text = f"{datetime.fromtimestamp(when // 10**9, timezone.utc):%Y-%m-%dT%H:%M:%S}"
    text += f".{when % 10**9:09d}Z"
    assert seqs(read(spark, stream, startingTimestamp=text)) == list(range(first, 11))
    assert seqs(read(spark, stream, endingTimestamp=text)) == list(range(1, last + 1))


def test_a_start_later_than_everything_reads_nothing_or_fails_as_asked(spark, new_stream):
    stream = new_stream(3)
    late = {"startingTimestamp": "2100-01-01T00:00:00Z"}
    assert seqs(read(spark, stream, **late)) == []
    text = failure(lambda: read(spark, stream, **late, startingTimestampStrategy="error").collect())
    assert "[JETSYNC_INVALID_OPTION]" in text


def test_filters_select_subjects(spark, new_stream):
    stream = new_stream()
    for token in ("a", "b", "a", "c", "b"):
        stream.fill(3, token)
    frame = read(spark, stream, filterSubjects=f"{stream.name}.a,{stream.name}.c", minPartitions=3)
    assert seqs(frame) == [1, 2, 3, 7, 8, 9, 10, 11, 12]
    nothing = read(spark, stream, filterSubjects=f"{stream.name}.none", minPartitions=2)
    assert seqs(nothing) == []


def test_holes_by_deleting_and_purging_are_no_loss_and_no_endless_wait(spark, js, new_stream):
    stream = new_stream()
    for token in ("a", "b", "a"):
        stream.fill(10, token)
    handle = js.stream(stream.name)
    for seq in (5, 6, 29, 30):
        handle.delete_msg(seq)
    handle.purge(subject=f"{stream.name}.b")
    expected = [s for s in range(1, 31) if s not in (5, 6, 29, 30) and not 11 <= s <= 20]
    assert seqs(read(spark, stream, minPartitions=3)) == expected


def test_several_streams_are_read_together(spark, new_stream):
    one, two = new_stream(3), new_stream(4)
    frame = (
        spark.read.format("jetstream")
        .option("servers", one.url)
        .option("stream", f"{one.name},{two.name}")
        .load()
    )
    counts = {row["stream"]: row["count"] for row in frame.groupBy("stream").count().collect()}
    assert counts == {one.name: 3, two.name: 4}


HOSTILE = {
    "invalid utf-8 value": b"NATS/1.0\r\nK: \xff\xfe\r\n\r\n",
    "invalid utf-8 name": b"NATS/1.0\r\n\xff\xfe: v\r\n\r\n",
    "no colon": b"NATS/1.0\r\nnothing here\r\nK: v\r\n\r\n",
    "empty name": b"NATS/1.0\r\n: v\r\nK: v\r\n\r\n",
    "no version": b"K: v\r\n\r\n",
    "nul byte": b"NATS/1.0\r\nK: a\x00b\r\n\r\n",
    "bare line feeds": b"NATS/1.0\r\nK: v\nL: w\r\n\r\n",
    "not closed": b"NATS/1.0\r\nK: v",
    "only the version": b"NATS/1.0\r\n\r\n",
    "repeated names": b"NATS/1.0\r\n" + b"K: v\r\n" * 700 + b"\r\n",
    "many names": b"NATS/1.0\r\n" + b"".join(b"K%d: v\r\n" % i for i in range(700)) + b"\r\n",
}


def test_hostile_header_bytes_do_not_fail_a_query(spark, js, new_stream):
    stream = new_stream()
    sent = 0
    for header in HOSTILE.values():
        publish_raw(stream.url, stream.name.encode() + b".h", header, b"body")
        sent += stream.last_seq - sent
    assert sent == len(HOSTILE)  # the server stores whatever is as long as its frame says
    rows = read(spark, stream, minPartitions=2).orderBy("seq").collect()
    assert len(rows) == sent
    assert {bytes(row.data) for row in rows} == {b"body"}
    values = {value for row in rows for value in (row.headers or {}).get("K", ())}
    assert "\ufffd\ufffd" in values
    assert "v" in values
    exact = (
        spark.read.format("jetstream")
        .options(**stream.read_options)
        .schema("headers map<string,array<binary>>")
        .load()
        .collect()
    )
    assert b"\xff\xfe" in {
        bytes(value) for row in exact for value in (row.headers or {}).get("K", ())
    }


def test_hostile_subject_bytes_do_not_fail_a_query(spark, new_stream):
    stream = new_stream()
    publish_raw(stream.url, stream.name.encode() + b".\xff\xfe", b"NATS/1.0\r\n\r\n", b"x")
    assert stream.messages == 1
    (row,) = read(spark, stream).collect()
    assert row.subject.startswith(f"{stream.name}.")


def test_headers_can_be_left_out(spark, js, new_stream):
    stream = new_stream()
    js.publish(f"{stream.name}.a", b"x", headers={"K": "v"})
    (row,) = read(spark, stream, includeHeaders="false").collect()
    assert row.headers is None


def test_a_message_larger_than_the_fetch_limit_still_comes(spark, js, new_stream):
    stream = new_stream(2)
    js.publish(f"{stream.name}.big", b"x" * 200_000)
    stream.fill(2)
    frame = read(spark, stream, fetchMaxBytes="10k")
    assert [
        row["size"]
        for row in frame.select(F.length("data").alias("size"), "seq").orderBy("seq").collect()
    ] == [1, 1, 200_000, 1, 1]


def test_a_trimmed_head_is_data_loss_unless_accepted(spark, js, new_stream):
    stream = new_stream(10)
    js.stream(stream.name).purge(seq=6)
    text = failure(lambda: read(spark, stream, startingOffsets="2").collect())
    assert "[JETSYNC_DATA_LOSS]" in text
    assert "wanted 2, but the first available message is 6" in text
    lossy = read(spark, stream, startingOffsets="2", failOnDataLoss="false")
    assert seqs(lossy) == [6, 7, 8, 9, 10]
    assert seqs(read(spark, stream)) == [6, 7, 8, 9, 10]


def test_values_replaced_per_subject_are_no_loss(spark, new_stream):
    stream = new_stream(5, max_msgs_per_subject=1)
    assert seqs(read(spark, stream, startingOffsets="1")) == [5]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"stream": "NO_SUCH_STREAM"}, "JETSYNC_STREAM_NOT_FOUND"),
        ({"stream": ""}, "JETSYNC_MISSING_OPTION"),
        ({"steam": "x"}, "JETSYNC_UNKNOWN_OPTION"),
        ({"fetchBatch": "none"}, "JETSYNC_INVALID_OPTION"),
        ({"readMethod": "direct"}, "JETSYNC_UNSUPPORTED_STREAM"),
        ({"startingOffsets": "latest"}, "JETSYNC_INVALID_OPTION"),
        ({"startingOffsets": "9", "endingOffsets": "3"}, "JETSYNC_OPTION_CONFLICT"),
        ({"maxOffsetsPerTrigger": "3"}, "JETSYNC_UNKNOWN_OPTION"),
        ({"token": "t", "user": "u"}, "JETSYNC_AUTH_CONFLICT"),
        ({"domain": "d", "apiPrefix": "p"}, "JETSYNC_OPTION_CONFLICT"),
        ({"credsFile": "/nowhere"}, "JETSYNC_FILE_NOT_FOUND"),
        ({"columns": "body"}, "JETSYNC_UNKNOWN_COLUMN"),
        (
            {"servers": "nats://127.0.0.1:1", "serverUnavailableTimeout": "200ms"},
            "JETSYNC_SERVER_UNAVAILABLE",
        ),
    ],
)
def test_errors_reach_the_driver_with_their_code(spark, new_stream, options, code):
    stream = new_stream()
    given = {**stream.read_options, **options}
    text = failure(lambda: spark.read.format("jetstream").options(**given).load().collect())
    assert f"[{code}]" in text
