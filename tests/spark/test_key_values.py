"""Key-value buckets as tables: changes as rows, rows as changes, many look-ups in one request."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import jetsync
from jetsync.spark import kv_lookup
from jetsync.spark.connection import link_of, shared
from jetsync.spark.datasource import JetStreamDataSource
from jetsync.spark.errors import SparkOptionError, SparkSourceError
from jetsync.spark.publishing import RowPublisher, make_ids
from jetsync.spark.sink_columns import SinkColumns
from jetsync.spark.write_options import WriteOptions
from tests.harness.waiting import wait_until


@pytest.fixture
def bucket(js):
    name = "b" + uuid.uuid4().hex[:10]
    made = js.create_key_value(bucket=name, history=10, limit_marker_ttl=60)
    yield made
    js.delete_key_value(name)


@pytest.fixture
def where(server):
    return {"servers": server.url}


def schema_of(ddl):
    """A schema of plain columns; Spark's own parser needs a session."""
    schema = StructType()
    for part in ddl.split(", "):
        name, kind = part.split(" ")
        schema.add(name, {"bigint": "long"}.get(kind, kind))
    return schema


def changes(bucket, where, **options):
    """Read a bucket as Spark does, but in this process."""
    source = JetStreamDataSource({**where, "bucket": bucket.bucket, **options})
    schema = schema_of(source.schema())
    reader = source.reader(schema)
    return [
        row
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def write(bucket, where, columns, **options):
    batch = pa.RecordBatch.from_pydict(columns)
    given = WriteOptions.parse({**where, "bucket": bucket.bucket, **options})
    names = {"string": "string", "binary": "binary", "int64": "bigint"}
    ddl = ", ".join(f"{field.name} {names[str(field.type)]}" for field in batch.schema)
    sink = SinkColumns.check(schema_of(ddl), given)
    return RowPublisher(given, sink, make_ids(given, uuid.uuid4().hex, "0", 0)).publish(batch)


def test_each_change_of_a_key_is_a_row(bucket, where):
    bucket.put("one", b"1")
    bucket.put("two.x", b"2")
    bucket.put("one", b"11")
    bucket.delete("two.x")
    bucket.purge("one")
    # With a header that says nothing of a deletion.
    nc = shared(link_of(where))
    nc.jetstream().publish(f"$KV.{bucket.bucket}.three", b"3", headers={"K": "v"})
    rows = changes(bucket, where)
    found = [(row["key"], row["value"], row["operation"], row["revision"]) for row in rows]
    assert found == [
        ("two.x", b"2", "PUT", 2),
        ("two.x", None, "DEL", 4),
        ("one", None, "PURGE", 5),
        ("three", b"3", "PUT", 6),
    ]


def test_an_operation_is_the_one_that_the_bucket_tells(bucket, where):
    """Words and markers of deletions mean the same in a table as in a watch (ADR-8, ADR-48)."""
    js = shared(link_of(where)).jetstream()
    for key, headers in (
        ("a", {"KV-Operation": "SOMETHING"}),
        ("b", {"Nats-Marker-Reason": "MaxAge"}),
        ("c", {"Nats-Marker-Reason": "Purge"}),
        ("d", {"Nats-Marker-Reason": "Remove"}),
        ("e", {"KV-Operation": ""}),
    ):
        js.publish(f"$KV.{bucket.bucket}.{key}", b"", headers=headers)
    rows = {row["key"]: row["operation"] for row in changes(bucket, where)}
    assert rows == {"a": "DEL", "b": "PURGE", "c": "PURGE", "d": "DEL", "e": "PUT"}
    assert rows == {entry.key: entry.operation for entry in bucket.iter_history()}
    assert kv_lookup(bucket.bucket, rows, where) == {"e": b""}


def test_a_mirror_is_read_like_its_origin(js, bucket, where):
    """Its entries keep the subjects of the origin, whose name may have another length."""
    bucket.put("one.x", b"1")
    bucket.put("two", b"2")
    copy = js.create_key_value(bucket=bucket.bucket + "-copy", mirror={"name": bucket.bucket})
    try:
        wait_until(lambda: copy.status().values == 2)
        found = [(row["key"], row["value"]) for row in changes(copy, where)]
        assert found == [("one.x", b"1"), ("two", b"2")]
        assert kv_lookup(copy.bucket, ["two", "three"], where) == {"two": b"2"}
        with pytest.raises(SparkSourceError, match="instead of keys") as caught:
            changes(copy, where, keys="one.*")
        wanted = f"$KV.{bucket.bucket}.one.*"
        assert f"filterSubjects={wanted} instead" in str(caught.value)
        assert [row["key"] for row in changes(copy, where, filterSubjects=wanted)] == ["one.x"]
    finally:
        js.delete_key_value(copy.bucket)


def test_keys_that_ran_out_are_deletions(js, bucket, where):
    # The shortest time that a marker lives is the shortest that a key may live.
    short = js.create_key_value(bucket=bucket.bucket + "x", limit_marker_ttl=4)
    try:
        short.create("short", b"1", ttl=4)
        short.put("long", b"2")

        def kinds():
            return [row["operation"] for row in changes(short, where, keys="short")]

        assert kinds() == ["PUT"]
        wait_until(lambda: kinds() == ["PURGE"], timeout=30)
        assert [row["key"] for row in changes(short, where, keys="long")] == ["long"]
    finally:
        js.delete_key_value(short.bucket)


def test_only_wanted_columns_and_keys_are_read(bucket, where):
    for key in ("a.1", "a.2", "b.1"):
        bucket.put(key, b"")
    rows = changes(bucket, where, keys="a.*", columns="key,seq,subject")
    prefix = f"$KV.{bucket.bucket}."
    assert rows == [
        {"key": "a.1", "seq": 1, "subject": f"{prefix}a.1"},
        {"key": "a.2", "seq": 2, "subject": f"{prefix}a.2"},
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"stream": "S", "bucket": "b"},
        {"bucket": "b.c"},
        {"stream": "S", "keys": "x", "columns": "seq"},
        {"bucket": "b", "keys": "x", "filterSubjects": "$KV.b.y"},
        {"stream": "S", "columns": "key"},
    ],
)
def test_what_does_not_fit_together_is_refused(options):
    with pytest.raises(SparkOptionError):
        source = JetStreamDataSource(options)
        source.reader(schema_of(source.schema()))


def test_rows_are_upserts_and_deletions(bucket, where):
    done = write(bucket, where, {"key": ["one", "two", "one"], "value": [b"1", b"2", b"3"]})
    assert (done.stored, bucket.get("one").value, bucket.get("two").value) == (3, b"3", b"2")
    write(
        bucket,
        where,
        {
            "key": ["one", "two", "three"],
            "value": pa.array([None, None, "x"], pa.string()),
            "operation": ["DEL", "PURGE", "PUT"],
        },
    )
    for key in ("one", "two"):
        with pytest.raises(jetsync.KeyNotFoundError):
            bucket.get(key)
    assert len(bucket.history("two")) == 1
    assert bucket.get("three").value == b"x"


def test_what_was_read_of_one_bucket_can_be_written_to_another(js, bucket, where):
    other = js.create_key_value(bucket=bucket.bucket + "x")
    try:
        for number in range(20):
            bucket.put(f"k.{number}", b"%d" % number)
        bucket.delete("k.7")
        rows = changes(bucket, where, columns="key,value,operation,revision")
        write(other, where, {name: [row[name] for row in rows] for name in rows[0]})
        assert {key: other.get(key).value for key in sorted(other.keys())} == {
            f"k.{number}": b"%d" % number for number in range(20) if number != 7
        }
    finally:
        js.delete_key_value(other.bucket)


@pytest.mark.parametrize(
    "columns", [{"key": ["a b"]}, {"key": ["a.*"]}, {"key": ["a"], "operation": ["X"]}]
)
def test_a_row_that_is_no_change_is_refused_before_any_is_stored(bucket, where, columns):
    names = {"key": ["good", *columns["key"]], "value": [b"", b""]}
    if "operation" in columns:
        names["operation"] = ["PUT", *columns["operation"]]
    with pytest.raises(SparkSourceError) as caught:
        write(bucket, where, names)
    assert caught.value.code == "JETSYNC_INVALID_SUBJECT"
    assert bucket.keys() == []


def test_many_keys_are_looked_up_with_a_request_for_a_thousand(bucket, where):
    count = 2_500
    write(
        bucket,
        where,
        {
            "key": [f"k.{number}" for number in range(count)],
            "value": [b"%d" % number for number in range(count)],
        },
    )
    bucket.delete("k.5")
    keys = [f"k.{number}" for number in range(count)] + ["missing", "k.1", None]
    nc = shared(link_of(where))
    before = nc.stats.out_messages
    found = kv_lookup(bucket.bucket, keys, where)
    requests = nc.stats.out_messages - before
    assert found == {f"k.{number}": b"%d" % number for number in range(count) if number != 5}
    # A key by itself takes one request each: these are a hundred times fewer.
    assert requests * 100 <= count
    assert kv_lookup(bucket.bucket, [], where) == {}
    with pytest.raises(SparkOptionError, match="not a key"):
        kv_lookup(bucket.bucket, ["a.>"], where)


def test_a_bucket_that_is_not_there_is_called_a_bucket(where):
    source = JetStreamDataSource({**where, "bucket": "nowhere"})
    said = r"there is no bucket 'nowhere' \(stream KV_nowhere\).* correct option 'bucket'"
    with pytest.raises(SparkSourceError, match=said):
        source.reader(schema_of("key string")).partitions()
    with pytest.raises(SparkSourceError, match=said):
        source.writer(schema_of("key string, value binary"), overwrite=False)
