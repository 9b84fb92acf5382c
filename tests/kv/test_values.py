"""Keys and values: putting, getting, conditions, deletions (ADR-8)."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone

import pytest

import jetsync
from tests.harness.tap import Tap
from tests.harness.waiting import wait_until

GOOD = ["a", "a.b.c", "A-Z/0_9=x", "-", "_kv", "a/b.c=d"]
BAD = ["", ".", ".a", "a.", "a..b", "a b", "a*", "*", ">", "a.>", "a\n", "a\0", 7, None]


def is_nowhere(kv, key):
    """Whether not even a deletion of the key is there."""
    try:
        kv.get(key)
    except jetsync.KeyDeletedError:
        return False
    except jetsync.KeyNotFoundError:
        return True
    return False


def test_put_and_get(kv, bucket):
    before = datetime.now(timezone.utc)
    assert kv.put("a.b", b"one") == 1
    assert kv.put("a.b", b"") == 2
    assert kv.put("c", b"\x00\xff") == 3
    first, last, other = kv.get("a.b", revision=1), kv.get("a.b"), kv.get("c")
    assert (first.value, last.value, other.value) == (b"one", b"", b"\x00\xff")
    assert (first.revision, last.revision, other.revision) == (1, 2, 3)
    assert (last.bucket, last.key, last.delta, last.operation) == (bucket, "a.b", 0, "PUT")
    assert before - timedelta(seconds=2) < last.created < before + timedelta(seconds=60)
    assert abs(last.created.timestamp() * 1e9 - last.created_ns) < 2000
    assert kv.bucket == bucket


def test_the_leader_can_be_asked(kv):
    kv.put("a", b"1")
    kv.put("a", b"2")
    assert kv.get("a", direct=False).value == b"2"
    assert kv.get("a", revision=1, direct=False).value == b"1"
    with pytest.raises(jetsync.KeyNotFoundError):
        kv.get("b", direct=False)


def test_a_bucket_without_direct_gets_is_read_too(js, kv, bucket):
    """Buckets of old clients have none; and another client can turn them off while it is open."""
    kv.put("a", b"1")
    js.update_stream(name=f"KV_{bucket}", allow_direct=False)
    assert kv.get("a").value == b"1"
    again = js.key_value(bucket)
    assert again.get("a").value == b"1"
    assert again.get("a", revision=1).value == b"1"
    with pytest.raises(jetsync.KeyNotFoundError):
        again.get("b")


def test_what_is_not_there(kv, bucket):
    kv.put("other", b"x")
    for revision in (None, 1, 99):
        with pytest.raises(jetsync.KeyNotFoundError, match="'a'") as caught:
            kv.get("a", revision=revision)
        assert not isinstance(caught.value, jetsync.KeyDeletedError)
        assert (caught.value.bucket, caught.value.key) == (bucket, "a")
    with pytest.raises(jetsync.KeyNotFoundError):
        kv.history("a")


@pytest.mark.parametrize("key", GOOD)
def test_good_keys(kv, key):
    kv.put(key, b"x")
    assert kv.get(key).key == key
    assert kv.keys() == kv.keys(key) == [key]


@pytest.mark.parametrize("key", BAD)
def test_bad_keys_are_refused_before_anything_is_sent(kv, nc, key):
    sent = nc.stats.out_bytes
    for call in (
        lambda: kv.get(key),
        lambda: kv.put(key, b""),
        lambda: kv.create(key, b""),
        lambda: kv.update(key, b"", 1),
        lambda: kv.delete(key),
        lambda: kv.purge(key),
        lambda: kv.history(key),
    ):
        with pytest.raises(jetsync.ConfigError, match="key"):
            call()
    assert nc.stats.out_bytes == sent


def test_other_bad_input_is_refused_before_anything_is_sent(kv, nc):
    sent = nc.stats.out_bytes
    for call in (
        lambda: kv.get("a", revision=0),
        lambda: kv.get("a", revision=2**64),
        lambda: kv.get("a", revision="1"),
        lambda: kv.update("a", b"", -1),
        lambda: kv.update("a", b"", True),
        lambda: kv.delete("a", revision=0),
        lambda: kv.purge("a", revision=-3),
        lambda: kv.put("a", "text"),
        lambda: kv.put("a", 7),
        lambda: kv.create("a", b"", ttl=0.5),
        lambda: kv.purge("a", ttl=-1),
        lambda: kv.purge_deletes(older_than=-1),
        lambda: kv.put("a", b"", timeout=-1),
    ):
        with pytest.raises(jetsync.ConfigError):
            call()
    assert nc.stats.out_bytes == sent


def test_create_wants_no_value(kv, bucket):
    assert kv.create("a", b"1") == 1
    with pytest.raises(jetsync.KeyExistsError, match="revision 1") as caught:
        kv.create("a", b"2")
    assert (caught.value.bucket, caught.value.key, caught.value.revision) == (bucket, "a", 1)
    assert isinstance(caught.value, jetsync.NotStoredError)
    assert kv.get("a").value == b"1"


@pytest.mark.parametrize("remove", ["delete", "purge"])
def test_create_after_a_deletion(kv, remove):
    kv.put("a", b"1")
    kv.put("a", b"2")
    assert getattr(kv, remove)("a") == 3
    assert kv.create("a", b"4") == 4
    assert kv.get("a").value == b"4"
    with pytest.raises(jetsync.KeyExistsError):
        kv.create("a", b"5")


def test_create_after_every_trace_was_removed(kv):
    kv.put("a", b"1")
    kv.delete("a")
    assert kv.purge_deletes(older_than=0) == 2
    assert kv.create("a", b"2") == 3


def test_update_wants_the_last_revision(kv, bucket):
    assert kv.update("a", b"1", 0) == 1
    kv.put("other", b"x")
    assert kv.update("a", b"2", 1) == 3
    for wrong in (0, 1, 2, 4):
        with pytest.raises(jetsync.KeyWrongRevisionError, match="at 3") as caught:
            kv.update("a", b"3", wrong)
        error = caught.value
        assert (error.bucket, error.key, error.expected, error.actual) == (bucket, "a", wrong, 3)
        assert isinstance(error, jetsync.NotStoredError)
        assert isinstance(error.__cause__, jetsync.WrongLastSequenceError)
    assert kv.get("a").value == b"2"


def test_delete_keeps_the_history_and_purge_does_not(kv):
    kv.put("a", b"1")
    kv.put("a", b"2")
    assert kv.delete("a") == 3
    with pytest.raises(jetsync.KeyDeletedError) as caught:
        kv.get("a")
    assert caught.value.revision == 3
    assert kv.get("a", revision=2).value == b"2"
    seen = [(one.revision, one.value, one.operation, one.delta) for one in kv.history("a")]
    assert seen == [(1, b"1", "PUT", 2), (2, b"2", "PUT", 1), (3, b"", "DEL", 0)]
    assert kv.purge("a") == 4
    assert [(one.revision, one.operation) for one in kv.history("a")] == [(4, "PURGE")]
    with pytest.raises(jetsync.KeyDeletedError):
        kv.get("a")
    with pytest.raises(jetsync.KeyNotFoundError):
        kv.get("a", revision=2)


def test_deletions_on_a_condition(kv):
    kv.put("a", b"1")
    kv.put("a", b"2")
    for remove in (kv.delete, kv.purge):
        with pytest.raises(jetsync.KeyWrongRevisionError):
            remove("a", revision=1)
    assert kv.delete("a", revision=2) == 3
    assert kv.purge("a", revision=3) == 4
    assert kv.keys() == []


def test_a_key_that_never_was_can_be_deleted(kv):
    assert kv.delete("a") == 1
    assert kv.purge("b") == 2
    assert kv.keys() == []


def test_other_words_of_deletion_and_markers(js, kv, bucket):
    """Any other word than PURGE deletes (ADR-8); the server's own markers say why (ADR-48)."""
    for key, headers, wanted in (
        ("a", {"KV-Operation": "SOMETHING"}, "DEL"),
        ("b", {"Nats-Marker-Reason": "MaxAge"}, "PURGE"),
        ("c", {"Nats-Marker-Reason": "Purge"}, "PURGE"),
        ("d", {"Nats-Marker-Reason": "Remove"}, "DEL"),
        ("e", {"Note": "about KV-Operation"}, "PUT"),
    ):
        js.publish(f"$KV.{bucket}.{key}", b"", headers=headers)
        assert kv.history(key)[0].operation == wanted
    assert kv.keys() == ["e"]


def test_history_is_as_long_as_it_was_made(kv):
    for number in range(8):
        kv.put("a", b"%d" % number)
    kv.put("b", b"x")
    assert [one.value for one in kv.history("a")] == [b"3", b"4", b"5", b"6", b"7"]


def test_keys(kv):
    for key in ("x.1", "x.2", "y.1", "y.2.3", "z"):
        kv.put(key, b"v" * 100)
    kv.delete("x.2")
    kv.put("x.1", b"again")
    assert kv.keys() == ["y.1", "y.2.3", "z", "x.1"]
    assert kv.keys("x.*") == ["x.1"]
    assert kv.keys("y.>") == ["y.1", "y.2.3"]
    assert kv.keys(["z", "*.1"]) == ["y.1", "z", "x.1"]
    assert kv.keys("nothing") == []
    for bad in ([], "", ["x", "x y"], "a.>.b", "x*", ["x.*", "x.1"], ["x", 7]):
        with pytest.raises(jetsync.ConfigError):
            kv.keys(bad)


def test_a_value_of_just_the_largest_size_fits(js, bucket):
    """Other clients send no header with a put; ours has a message id when there is room."""
    kv = js.create_key_value(bucket=bucket, storage="memory", max_value_size=100)
    assert kv.put("a", b"x" * 100) == 1
    assert kv.get("a").value == b"x" * 100
    with pytest.raises(jetsync.MessageTooLargeError):
        kv.put("a", b"x" * 101)
    assert kv.delete("a") == 2
    js.delete_key_value(bucket)


def test_a_full_bucket_refuses(js, bucket):
    kv = js.create_key_value(bucket=bucket, storage="memory", max_bytes=1000)
    with pytest.raises(jetsync.NotStoredError):
        for number in range(20):
            kv.put(f"k.{number}", b"x" * 200)
    js.delete_key_value(bucket)


def test_values_age_out(js, bucket):
    kv = js.create_key_value(bucket=bucket, storage="memory", ttl=1)
    kv.put("a", b"x")
    wait_until(lambda: is_nowhere(kv, "a"), timeout=20)
    assert kv.keys() == []
    js.delete_key_value(bucket)


def test_a_key_of_its_own_age(js, bucket):
    """ADR-48: create with a TTL; watchers hear of the end, and the key can be created again."""
    kv = js.create_key_value(bucket=bucket, storage="memory", limit_marker_ttl=30)
    with kv.watch() as watcher:
        assert kv.create("a", b"x", ttl=1) == 1
        marker = next(one for one in watcher if one.operation != "PUT")
    assert (marker.key, marker.revision, marker.value, marker.operation) == ("a", 2, b"", "PURGE")
    with pytest.raises(jetsync.KeyDeletedError):
        kv.get("a")
    assert kv.keys() == []
    assert kv.create("a", b"y") == 3
    assert kv.purge("a", ttl=1) == 4
    wait_until(lambda: is_nowhere(kv, "a"), timeout=20)
    js.delete_key_value(bucket)


def test_an_entry_shows_the_time_that_its_key_was_given(js, bucket):
    kv = js.create_key_value(bucket=bucket, storage="memory", limit_marker_ttl=5)
    kv.create("a", b"x", ttl=100)
    kv.put("b", b"x")
    assert [(one.key, one.ttl) for one in kv.entries()] == [("a", 100.0), ("b", None)]
    with kv.watch("a", meta_only=True) as watcher:
        assert watcher.next(30).ttl == 100.0
    found = kv.get("a")
    assert found.ttl == 100.0
    assert found.remaining is not None
    assert found.remaining > 50
    assert kv.get_many(["a", "b"])["a"].ttl == 100.0
    assert kv.history("a")[0].ttl == 100.0
    js.delete_key_value(bucket)


def test_a_ttl_needs_a_bucket_with_markers(kv):
    with pytest.raises(jetsync.TTLError, match="limit_marker_ttl"):
        kv.create("a", b"x", ttl=5)
    with pytest.raises(jetsync.TTLError):
        kv.purge("a", ttl=5)
    assert kv.keys() == []


def test_purge_deletes_leaves_values_and_young_deletions(kv):
    for key in ("kept", "gone", "back"):
        kv.put(key, b"1")
        kv.put(key, b"2")
    kv.delete("gone")
    kv.delete("back")
    kv.put("back", b"3")
    assert kv.purge_deletes() == 2
    assert [one.operation for one in kv.history("gone")] == ["DEL"]
    assert kv.purge_deletes(older_than=0) == 1
    with pytest.raises(jetsync.KeyNotFoundError):
        kv.history("gone")
    assert len(kv.history("kept")) == 2
    assert len(kv.history("back")) == 4


def test_purge_deletes_does_not_take_a_value_that_came_meanwhile(server, kv):
    kv.put("a", b"1")
    kv.delete("a")

    def write_first(frame):
        if b".STREAM.PURGE." in frame.subject:
            kv.put("a", b"new")
        return frame.raw

    with Tap(server.url) as tap, jetsync.connect(tap.url) as nc:
        far = nc.jetstream(timeout=20).key_value(kv.bucket)
        tap.to_server = write_first
        assert far.purge_deletes(older_than=0) == 2
    assert kv.get("a").value == b"new"


def test_threads_share_a_bucket(kv):
    """Any thread may use it: of many that count with updates, no count is lost."""
    kv.put("count", b"0")
    each, failures = 20, []

    def count():
        try:
            for _ in range(each):
                while True:
                    found = kv.get("count", direct=False)
                    try:
                        kv.update("count", b"%d" % (int(found.value) + 1), found.revision)
                        break
                    except jetsync.KeyWrongRevisionError:
                        continue
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert kv.get("count", direct=False).value == b"%d" % (4 * each)


def test_one_of_many_creates_a_key(kv):
    won, lost = [], []

    def create(number):
        try:
            won.append(kv.create("leader", b"%d" % number))
        except jetsync.KeyExistsError:
            lost.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(won), len(lost)) == (1, 7)


def test_a_bucket_that_is_gone(js, bucket):
    kv = js.create_key_value(bucket=bucket, storage="memory")
    kv.put("a", b"1")
    js.delete_key_value(bucket)
    for call in (
        lambda: kv.get("a"),
        lambda: kv.get("a", direct=False),
        lambda: kv.keys(),
        lambda: kv.history("a"),
        lambda: kv.watch(),
        lambda: kv.status(),
        lambda: kv.purge_deletes(),
    ):
        with pytest.raises(jetsync.BucketNotFoundError) as caught:
            call()
        assert caught.value.bucket == bucket
    with pytest.raises(jetsync.BucketNotFoundError):
        kv.put("a", b"2", timeout=0.5)
