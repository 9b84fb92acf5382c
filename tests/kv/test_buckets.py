"""Buckets: making, finding, changing, listing, deleting them; what their streams look like."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys

import pytest

import jetsync
from jetsync.kv.config import KeyValueFields

BAD = ["", "a.b", "a b", "a*", ">", "ä", "a\n", "a/b", 7, None]


@pytest.fixture
def made(js, bucket):
    """Deletes the bucket of the test at its end, if there is one."""
    yield bucket
    try:
        js.delete_key_value(bucket)
    except jetsync.BucketNotFoundError:
        pass


def test_the_stream_of_a_bucket(js, made):
    """ADR-8 says what it looks like."""
    js.create_key_value(bucket=made)
    found = js.stream(f"KV_{made}").cached_info.config
    wanted = jetsync.StreamConfig(
        name=f"KV_{made}",
        subjects=[f"$KV.{made}.>"],
        max_msgs_per_subject=1,
        discard="new",
        allow_rollup_hdrs=True,
        deny_delete=True,
        allow_direct=True,
        duplicate_window=120,
        metadata=found.metadata,
    )
    assert found == wanted


def test_every_setting_reaches_the_stream_and_reads_back(js, made):
    config = jetsync.KeyValueConfig(
        bucket=made,
        description="what for",
        history=64,
        ttl=60,
        max_value_size=1000,
        max_bytes=100_000,
        storage="file",
        replicas=1,
        republish=jetsync.RePublish(src=f"$KV.{made}.>", dest=f"copy.{made}.>"),
        compression=True,
        limit_marker_ttl=5,
        metadata={"owner": "me"},
    )
    status = js.create_key_value(config).status()
    stream = status.stream_info.config
    assert (stream.max_age, stream.duplicate_window, stream.compression) == (60, 60, "s2")
    assert (stream.allow_msg_ttl, stream.subject_delete_marker_ttl) == (True, 5)
    read = status.config
    assert dict(read.metadata)["owner"] == "me"
    assert dataclasses.replace(read, metadata=config.metadata) == config


def test_status(js, made):
    kv = js.create_key_value(bucket=made, history=3, ttl=3600, storage="memory")
    kv.put("a", b"1")
    kv.put("a", b"2")
    kv.delete("b")
    status = kv.status()
    assert (status.bucket, status.values, status.history, status.ttl) == (made, 3, 3, 3600)
    assert (status.is_compressed, status.backing_store, status.limit_marker_ttl) == (
        False,
        "JetStream",
        0,
    )
    assert status.bytes == status.stream_info.state.bytes > 0
    assert "_nats.level" in status.metadata
    assert pickle.loads(pickle.dumps(status)) == status


def test_creating_twice(js, made):
    first = js.create_key_value(bucket=made, history=2)
    first.put("a", b"1")
    assert js.create_key_value(bucket=made, history=2).get("a").value == b"1"
    with pytest.raises(jetsync.BucketExistsError) as caught:
        js.create_key_value(bucket=made, history=3)
    assert caught.value.bucket == made
    assert js.key_value(made).status().history == 2


def test_update_changes_what_is_given(js, made):
    js.create_key_value(bucket=made, history=2, ttl=60, description="old", metadata={"k": "v"})
    js.update_stream(name=f"KV_{made}", allow_direct=False, max_consumers=50)
    config = js.update_key_value(bucket=made, ttl=600, limit_marker_ttl=2).status().config
    assert (config.history, config.ttl, config.description) == (2, 600, "old")
    assert (config.limit_marker_ttl, config.metadata["k"]) == (2, "v")
    stream = js.stream(f"KV_{made}").cached_info.config
    assert (stream.allow_direct, stream.max_consumers, stream.duplicate_window) == (False, 50, 120)
    # A whole configuration sets the rest to its defaults; markers cannot be turned off (ADR-48).
    config = js.update_key_value(jetsync.KeyValueConfig(bucket=made, history=5)).status().config
    assert (config.history, config.ttl, config.description) == (5, 0, None)
    assert config.limit_marker_ttl == 2


def test_create_or_update(js, made):
    assert js.create_or_update_key_value(bucket=made, history=2).status().history == 2
    assert js.create_or_update_key_value(bucket=made, history=2).put("a", b"1") == 1
    changed = js.create_or_update_key_value(bucket=made, history=4)
    assert (changed.status().history, changed.get("a").value) == (4, b"1")


def test_what_is_not_there(js, bucket):
    for call in (
        lambda: js.key_value(bucket),
        lambda: js.delete_key_value(bucket),
        lambda: js.update_key_value(bucket=bucket, history=2),
    ):
        with pytest.raises(jetsync.BucketNotFoundError) as caught:
            call()
        assert caught.value.bucket == bucket
        assert isinstance(caught.value, jetsync.KeyValueError)


def test_a_stream_that_only_looks_like_a_bucket(js, bucket):
    js.create_stream(name=f"KV_{bucket}", subjects=[f"{bucket}.>"], storage="memory")
    with pytest.raises(jetsync.KeyValueError, match="no bucket"):
        js.key_value(bucket)
    assert bucket not in [one.bucket for one in js.key_value_buckets()]
    js.delete_key_value(bucket)


def test_listing(js, made):
    js.create_key_value(bucket=made, history=7, storage="memory")
    (found,) = [one for one in js.key_value_buckets() if one.bucket == made]
    assert made in js.key_value_names()
    assert (found.history, found.values) == (7, 0)


def test_listing_buckets_reads_no_other_streams(js, nc, made):
    """But for mirrors, which have no subjects by which a server could find them."""
    js.create_key_value(bucket=made, storage="memory")
    copy = f"{made}-copy"
    js.create_key_value(bucket=copy, mirror={"name": made}, storage="memory")
    js.create_stream(name=f"other-{made}", subjects=[f"other.{made}"], storage="memory")
    try:
        with (
            nc.subscribe("$JS.API.STREAM.*") as lists,
            nc.subscribe("$JS.API.STREAM.INFO.*") as one,
        ):
            nc.flush()
            found = [status.bucket for status in js.key_value_buckets()]
            nc.flush()
            asked = [lists.next(timeout=5) for _ in range(lists.pending_messages)]
            looked = [one.next(timeout=5).subject for _ in range(one.pending_messages)]
        assert {made, copy} <= {*found}
        assert len({*found}) == len(found)
        for msg in asked:
            if msg.subject.endswith(".LIST"):
                assert json.loads(msg.data)["subject"] == "$KV.*.>"
        assert f"$JS.API.STREAM.INFO.KV_{copy}" in looked
        assert f"$JS.API.STREAM.INFO.KV_{made}" not in looked
        assert all(".INFO.KV_" in subject for subject in looked)
        assert len(asked) >= 2
    finally:
        js.delete_key_value(copy)
        js.delete_stream(f"other-{made}")


def test_a_bucket_of_another_client_is_used_as_it_is(js, made):
    """Its settings may be others; binding changes nothing."""
    js.create_stream(
        name=f"KV_{made}",
        subjects=[f"$KV.{made}.>"],
        max_msgs_per_subject=2,
        discard="old",
        allow_rollup_hdrs=True,
        storage="memory",
    )
    kv = js.key_value(made)
    assert kv.create("a", b"1") == 1
    assert kv.update("a", b"2", 1) == 2
    assert kv.get("a").value == b"2"
    assert kv.purge("a") == 3
    assert kv.keys() == []


@pytest.mark.parametrize("name", BAD)
def test_bad_names_are_refused_before_anything_is_sent(js, nc, name):
    sent = nc.stats.out_bytes
    for call in (
        lambda: js.key_value(name),
        lambda: js.delete_key_value(name),
        lambda: js.create_key_value(bucket=name),
        lambda: js.update_key_value(bucket=name),
        lambda: js.create_or_update_key_value(bucket=name),
    ):
        with pytest.raises(jetsync.ConfigError, match="bucket"):
            call()
    assert nc.stats.out_bytes == sent


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "bucket is missing"),
        ({"bucket": "b", "history": 0}, "history"),
        ({"bucket": "b", "history": 65}, "history"),
        ({"bucket": "b", "ttl": 0.01}, "ttl"),
        ({"bucket": "b", "ttl": -1}, "ttl"),
        ({"bucket": "b", "limit_marker_ttl": 0.5}, "limit_marker_ttl"),
        ({"bucket": "b", "replicas": 7}, "replicas"),
        ({"bucket": "b", "storage": "paper"}, "storage"),
        ({"bucket": "b", "mirror": {"name": "a"}, "sources": [{"name": "c"}]}, "mirror"),
        ({"bucket": "b", "mirror": {"name": "a"}, "limit_marker_ttl": 5}, "mirror"),
        ({"bucket": "b", "histroy": 5}, "did you mean 'history'"),
        ({"bucket": "b", "mirror": {"name": "KV_b"}}, "itself"),
    ],
    ids=str,
)
def test_bad_configurations_are_refused_before_anything_is_sent(js, nc, fields, said):
    sent = nc.stats.out_bytes
    with pytest.raises(jetsync.ConfigError, match=said):
        js.create_key_value(**fields)
    assert nc.stats.out_bytes == sent


def test_the_keywords_are_the_fields():
    names = {field.name for field in dataclasses.fields(jetsync.KeyValueConfig)}
    assert {name for name in names if not name.startswith("_")} - {"extra"} == set(
        KeyValueFields.__annotations__
    )


def test_errors_and_entries_pickle():
    for error in (
        jetsync.KeyValueError("x", bucket="b"),
        jetsync.KeyDeletedError("x", bucket="b", key="k", revision=3),
        jetsync.KeyExistsError("x", bucket="b", key="k", revision=3),
        jetsync.KeyWrongRevisionError("x", bucket="b", key="k", expected=1, actual=2),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), "x", vars(error))
    entry = jetsync.Entry(bucket="b", key="k", value=b"v", revision=1, created_ns=5)
    assert pickle.loads(pickle.dumps(entry)) == entry


def test_the_room_is_entered_only_when_it_is_asked_for():
    code = (
        "import sys, jetsync; before = 'jetsync.kv' in sys.modules;"
        "assert 'KeyValue' in dir(jetsync); assert jetsync.KeyValue.__name__ == 'KeyValue';"
        "assert not before and 'jetsync.kv' in sys.modules;"
        "from jetsync import *; assert Watcher is jetsync.Watcher"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = jetsync.nothing_of_this_name
