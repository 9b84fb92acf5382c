"""A bucket as a container: what dict-like stores are used for, and buckets of many keys."""

from __future__ import annotations

import pickle
import threading
import time

import pytest

import jetsync
from tests.harness.frames import frames
from tests.harness.insides import connection_of
from tests.harness.memory import resident, settled
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

LONG = 30


def test_keys_and_values_as_in_a_dict(kv):
    kv["a"] = b"1"
    kv["b.c"] = b"2"
    assert kv["a"] == b"1"
    assert "a" in kv
    assert "x" not in kv
    assert 7 not in kv
    assert kv.exists("b.c")
    assert list(kv) == ["a", "b.c"]
    assert dict(kv.items()) == {"a": b"1", "b.c": b"2"}
    assert [(one.key, one.revision) for one in kv.entries("b.*")] == [("b.c", 2)]
    del kv["a"]
    assert "a" not in kv
    assert list(kv) == list(kv.iter_keys()) == kv.keys() == ["b.c"]
    with pytest.raises(jetsync.KeyNotFoundError):
        kv["a"]
    with pytest.raises(jetsync.KeyNotFoundError):
        kv["x"]


def test_a_missing_key_is_a_key_error_as_of_any_mapping(kv):
    with pytest.raises(KeyError) as missing:
        kv["x"]
    assert str(missing.value) == f"key 'x' of bucket {kv.bucket!r} has no value"
    kv["a"] = b"1"
    del kv["a"]
    with pytest.raises(KeyError) as deleted:
        kv["a"]
    again = pickle.loads(pickle.dumps(deleted.value))
    assert (type(again), str(again), again.key) == (
        jetsync.KeyDeletedError,
        str(deleted.value),
        "a",
    )


def test_listing_keys_looks_only_at_the_subject_and_the_headers(kv, nc):
    """So a million keys are a matter of seconds: no entry is made of a key."""
    count = 3000
    nc.jetstream(timeout=LONG).publish_many(
        (f"$KV.{kv.bucket}.k.{number}", b"") for number in range(count)
    )
    for listing, wanted in (
        (lambda: len(kv.keys()), count),
        (lambda: sum(1 for _ in kv.iter_keys()), count),
        (kv.purge_deletes, 0),
    ):
        calls = frames(listing)
        assert listing() == wanted
        assert calls["operation_of"] == count
        assert calls["from_delivery"] == 0
        assert calls["metadata"] < count / 10


def test_a_default_in_place_of_an_error(kv):
    kv.put("a", b"1")
    kv.delete("a")
    assert kv.get("a", default=None) is None
    assert kv.get("x", default=b"d") == b"d"
    assert kv.get("a", default=7, revision=1) != 7
    assert kv.get("a", default=7, revision=9) == 7


@pytest.mark.parametrize("filters", [[], "x*", ["a", "a"], 7])
def test_bad_filters_are_refused_at_once(kv, filters):
    for call in (kv.iter_keys, kv.entries, kv.items, kv.iter_history, kv.keys):
        with pytest.raises(jetsync.ConfigError):
            call(filters)


def test_many_keys_at_once(kv, nc):
    wanted = {f"k.{number}": b"%d" % number for number in range(2500)}
    for key, value in wanted.items():
        kv.put(key, value)
    kv.delete("k.7")
    before = nc.stats.out_messages
    found = kv.get_many([*wanted, "never", "k.1"])
    after = nc.stats.out_messages
    del wanted["k.7"]
    assert {key: entry.value for key, entry in found.items()} == wanted
    assert list(found) == list(wanted)
    assert all(entry.created_ns and entry.operation == "PUT" for entry in found.values())
    assert after - before <= 3
    assert kv.get_many([]) == kv.get_many(["never", "k.7"]) == {}
    with pytest.raises(jetsync.ConfigError):
        kv.get_many(["a b"])


def test_many_keys_where_they_cannot_be_had_at_once(js, bucket):
    """A stream without direct gets: one by one."""
    kv = js.create_key_value(bucket=bucket, storage="memory")
    js.update_stream(name=f"KV_{bucket}", allow_direct=False)
    try:
        kv.put("a", b"1")
        for handle in (kv, js.key_value(bucket)):
            assert {key: one.value for key, one in handle.get_many("ab").items()} == {"a": b"1"}
    finally:
        js.delete_key_value(bucket)


def test_threads_that_modify_one_key_lose_no_change(kv):
    def add(value):
        return b"%d" % (int(value or b"0") + 1)

    threads = [
        threading.Thread(target=lambda: [kv.modify("n", add) for _ in range(20)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert kv["n"] == b"80"
    assert kv.modify("n", lambda value: None) == kv.get("n").revision
    assert kv.modify("never", lambda value: None) == 0
    kv.delete("n")
    revision = kv.modify("n", lambda value: b"x" if value is None else b"wrong")
    assert (kv["n"], kv.get("n").revision) == (b"x", revision)
    with pytest.raises(ZeroDivisionError):
        kv.modify("n", lambda value: 1 // 0)
    assert kv["n"] == b"x"


@pytest.mark.timed
def test_modify_ends_in_time_when_others_are_always_faster(kv):
    def overtaken(value):
        kv.put("n", b"other")
        return b"mine"

    begin = time.monotonic()
    with pytest.raises((jetsync.KeyWrongRevisionError, jetsync.TimeoutError)):
        kv.modify("n", overtaken, timeout=0.5)
    assert time.monotonic() - begin < 2
    assert kv["n"] == b"other"


@pytest.fixture
def large(js, bucket):
    """A bucket of many keys; every hundredth is deleted."""
    count = scaled(20_000, 1_000_000)
    kv = js.create_key_value(bucket=bucket, storage="memory")
    prefix = f"$KV.{bucket}."
    rows = (
        (f"{prefix}k.{n}", b"", {"KV-Operation": "DEL"})
        if n % 100 == 0
        else (f"{prefix}k.{n}", b"value")
        for n in range(count)
    )
    report = js.publish_many(rows, timeout=600)
    assert report.stored == count
    yield kv, count
    js.delete_key_value(bucket)


def test_listing_a_bucket_of_many_keys(large, js, record_figure):
    """Nothing is kept while it is listed, and the time is one for each step."""
    kv, count = large
    hasty = connection_of(js).jetstream(timeout=2).key_value(kv.bucket)
    before, found = settled(), 0
    for number, _ in enumerate(hasty.iter_keys(), 1):
        found = number
        if number == 10:
            assert next(iter(hasty)) == "k.1"
    assert found == count - count // 100
    growth = resident() - before
    record_figure(f"G38 growth, {count} keys", growth, "MiB", goal="<= 60 MiB")
    assert growth <= 60
    assert len(hasty.keys()) == found
    assert len(list(hasty.iter_history())) == count


def test_deletions_in_a_bucket_of_many_keys_are_removed_as_they_are_found(large, js):
    """A call that runs out of time has removed what it has found."""
    kv, count = large
    hasty = connection_of(js).jetstream(timeout=2).key_value(kv.bucket)
    removed = 0
    while removed < count // 100:
        try:
            removed += hasty.purge_deletes(older_than=0)
        except jetsync.TimeoutError:
            continue
    assert removed == count // 100
    assert hasty.status().values == count - count // 100


def test_a_listing_that_is_left_ends_its_consumer(kv, js, bucket):
    for number in range(100):
        kv.put(f"k.{number}", b"")
    for key in kv:
        assert key == "k.0"
        break
    stream = js.stream(f"KV_{bucket}")
    wait_until(lambda: not list(stream.consumer_names()), timeout=LONG)


def test_a_watch_goes_on_where_another_one_ended(kv):
    for number in range(4):
        kv.put(f"k.{number}", b"")
    with kv.watch() as watcher:
        start = watcher.resume_token
        assert watcher.next(LONG).key == "k.0"
        assert watcher.next(LONG).key == "k.1"
        token = watcher.resume_token
    kv.put("k.0", b"again")
    for resumed, keys in ((token, ["k.2", "k.3", "k.0"]), (start, ["k.0", "k.1", "k.2", "k.3"])):
        with kv.watch(resume_token=resumed) as watcher:
            assert [watcher.next(LONG).key for _ in keys] == keys


def test_a_watch_does_not_go_on_in_another_bucket_of_the_same_name(js, bucket):
    """However many revisions that one has."""
    kv = js.create_key_value(bucket=bucket, storage="memory")
    for number in range(3):
        kv.put(f"k.{number}", b"")
    with kv.watch() as watcher:
        assert [watcher.next(LONG).revision for _ in range(3)] == [1, 2, 3]
        token = watcher.resume_token
    js.delete_key_value(bucket)
    js.create_key_value(bucket=bucket, storage="memory")
    try:
        for number in range(6):
            kv.put(f"k.{number}", b"")
        with pytest.raises(jetsync.KeyValueError, match="made again"):
            kv.watch(resume_token=token)
        with pytest.raises(jetsync.ConfigError, match="token"):
            kv.watch(resume_token="3")
    finally:
        js.delete_key_value(bucket)


@pytest.mark.parametrize("less", [0, 1, 48, 49, 50])
def test_a_value_as_large_as_a_message_can_be_is_stored(kv, nc, less):
    value = bytes(nc.max_payload - less)
    assert kv.put("k", value) == 1
    assert kv["k"] == value


def test_a_foreign_bucket_with_a_long_history(js, bucket):
    """It can be described and updated; only a new bucket cannot have it."""
    subjects = [f"$KV.{bucket}.>"]
    js.create_stream(
        name=f"KV_{bucket}", subjects=subjects, max_msgs_per_subject=100, duplicate_window=5
    )
    try:
        assert js.key_value(bucket).status().config.history == 100
        assert bucket in [one.bucket for one in js.key_value_buckets() if one.config.history > 64]
        js.update_key_value(bucket=bucket, description="d")
        config = js.stream(f"KV_{bucket}").cached_info.config
        assert (config.max_msgs_per_subject, config.description) == (100, "d")
        assert config.duplicate_window == 5
        with pytest.raises(jetsync.ConfigError, match="history"):
            js.update_key_value(bucket=bucket, history=101)
    finally:
        js.delete_key_value(bucket)
    with pytest.raises(jetsync.ConfigError, match="history"):
        js.create_key_value(bucket=bucket, history=65)
