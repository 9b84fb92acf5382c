"""Watching a bucket: what comes, where the initial entries end, and how a watch ends (ADR-8)."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading

import pytest

import jetsync
from tests.harness.soak import scaled
from tests.harness.tap import Tap
from tests.harness.waiting import wait_until

LONG = 20


def seen(entries):
    return [(one.key, one.value, one.revision, str(one.operation)) for one in entries]


@pytest.fixture
def filled(kv):
    """a: 1, 4; b: 2, deleted in 5; c: 3."""
    for key, value in (("a", b"1"), ("b", b"2"), ("c", b"3"), ("a", b"4")):
        kv.put(key, value)
    kv.delete("b")
    return kv


LAST = [("c", b"3", 3, "PUT"), ("a", b"4", 4, "PUT"), ("b", b"", 5, "DEL")]
ALL = [("a", b"1", 1, "PUT"), ("b", b"2", 2, "PUT"), *LAST]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, LAST),
        ({"keys": "a"}, LAST[1:2]),
        ({"keys": ["b", "c"]}, [LAST[0], LAST[2]]),
        ({"keys": "*"}, LAST),
        ({"keys": "nothing.>"}, []),
        ({"ignore_deletes": True}, LAST[:2]),
        ({"include_history": True}, ALL),
        ({"include_history": True, "ignore_deletes": True, "keys": "b"}, ALL[1:2]),
        ({"meta_only": True}, [(key, b"", *rest) for key, _, *rest in LAST]),
        ({"updates_only": True}, []),
        ({"resume_from_revision": 1}, ALL),
        ({"resume_from_revision": 4}, ALL[3:]),
        ({"resume_from_revision": 6}, []),
    ],
    ids=str,
)
def test_what_comes_first_and_then(filled, options, wanted):
    """Every option: the initial entries end, also when there are none, then updates come."""
    with filled.watch(**options) as watcher:
        assert watcher.initial_done == (not wanted)
        assert seen(watcher.initial(LONG)) == [tuple(one) for one in wanted]
        assert watcher.initial_done
        assert list(watcher.initial(LONG)) == []
        for key in ("a", "b", "c", "nothing.1"):
            filled.put(key, b"new")
        keys = options.get("keys", "a")
        first = {"*": "a", "nothing.>": "nothing.1"}.get(str(keys), keys[0])
        update = watcher.next(timeout=LONG)
        assert (update.key, update.operation) == (first, "PUT")
        assert update.value == (b"" if options.get("meta_only") else b"new")
        assert update.bucket == filled.bucket


def test_the_end_of_the_initial_entries_is_seen_while_iterating(filled):
    with filled.watch() as watcher:
        done = [watcher.initial_done for _, _ in zip(range(3), watcher, strict=False)]
    assert done == [False, False, True]


def test_delta_counts_what_is_behind(filled):
    with filled.watch(include_history=True) as watcher:
        assert [one.delta for one in watcher.initial(LONG)] == [4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    "options",
    [
        {"include_history": True, "updates_only": True},
        {"updates_only": True, "resume_from_revision": 1},
        {"include_history": True, "resume_from_revision": 1},
        {"resume_from_revision": 0},
        {"resume_from_revision": "1"},
        {"keys": []},
        {"keys": "a b"},
        {"keys": "a*"},
        {"keys": ["a.>", "a.b"]},
    ],
    ids=str,
)
def test_options_that_cannot_be(kv, nc, options):
    sent = nc.stats.out_bytes
    with pytest.raises(jetsync.ConfigError):
        kv.watch(**options)
    assert nc.stats.out_bytes == sent


def test_next_keeps_its_time(filled):
    with filled.watch() as watcher:
        assert len(list(watcher.initial(LONG))) == 3
        for timeout in (0, 0.05):
            with pytest.raises(jetsync.TimeoutError):
                watcher.next(timeout=timeout)
        filled.put("d", b"1")
        assert watcher.next(timeout=LONG).key == "d"


def test_an_entry_that_is_replaced_before_its_turn_is_not_missed(js, bucket):
    """A listing begins, a key is written: it was there all the time, so it has to be listed."""
    kv = js.create_key_value(bucket=bucket, storage="memory")
    for number in range(6):
        kv.put(f"k{number}", b"old")
    with kv.watch() as watcher:
        kv.put("k2", b"new")
        kv.put("k9", b"new")
        found = {one.key: one.value for one in watcher.initial(LONG)}
    assert {f"k{number}" for number in range(6)} <= set(found)
    assert found["k2"] == b"new"
    js.delete_key_value(bucket)


def test_keys_are_complete_while_one_is_written_all_the_time(js, bucket):
    """The key that is replaced before its turn, again and again, is listed, and all the others."""
    kv = js.create_key_value(bucket=bucket, storage="memory")
    wanted = {f"k.{number}" for number in range(300)}
    js.publish_many((f"$KV.{bucket}.{key}", b"x") for key in wanted)
    stop = threading.Event()

    def write():
        while not stop.is_set():
            js.publish_many((f"$KV.{bucket}.k.0", b"y") for _ in range(300))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            assert set(kv.keys(timeout=LONG)) == wanted
    finally:
        stop.set()
        writer.join(LONG)
    js.delete_key_value(bucket)


@pytest.mark.parametrize("left", [0, 3])
def test_initial_entries_that_are_removed_before_their_turn(js, kv, bucket, left):
    """The end of the initial entries is seen although the last of them never come."""
    for number in range(5):
        kv.put(f"k{number}", b"x")
    with kv.watch() as watcher:
        assert not watcher.initial_done
        for number in range(left, 5):
            js.stream(f"KV_{bucket}").purge(subject=f"$KV.{bucket}.k{number}")
        assert len(list(watcher.initial(LONG))) == left
        assert watcher.initial_done


@pytest.mark.parametrize("trouble", ["a cut link", "Ctrl-C"])
def test_trouble_while_looking_for_the_end_loses_nothing(server, filled, trouble):
    """The question at the end of the initial entries fails or is interrupted: asked again."""
    asked = []

    def fail_once(frame):
        if b"last_by_subj" not in frame.body:
            return frame.raw
        asked.append(frame.body)
        if len(asked) > 1:
            return frame.raw
        if trouble == "Ctrl-C":
            os.kill(os.getpid(), signal.SIGINT)
        else:
            tap.cut()
        return b""

    with Tap(server.url) as tap, jetsync.connect(tap.url, reconnect_wait=0.01) as nc:
        far = nc.jetstream(timeout=LONG).key_value(filled.bucket)
        with far.watch() as watcher:
            tap.to_server = fail_once
            entries = []
            while not watcher.initial_done:
                with contextlib.suppress(KeyboardInterrupt):
                    entries.extend(watcher.initial(LONG))
    assert seen(entries) == LAST
    assert len(asked) == 2


def test_a_revision_that_the_bucket_never_had_cannot_be_resumed_from(filled):
    """Waiting for it would leave out everything below, without a word."""
    with pytest.raises(jetsync.KeyValueError, match="no revision above 5"):
        filled.watch(resume_from_revision=7)


def lose_its_consumer(js, bucket, watcher):
    with contextlib.suppress(jetsync.ConsumerNotFoundError):
        js.delete_consumer(f"KV_{bucket}", watcher._ordered.name)


@pytest.mark.timeout(scaled(120, 3600))
def test_a_watch_goes_on_when_its_server_consumer_is_lost(js, kv, bucket, record_figure):
    """P5 and G5: nothing is left out and nothing comes twice, also in the middle of the initial
    entries."""
    resets, before = scaled(50, 1000), 4000
    js.publish_many((f"$KV.{bucket}.k{number}", b"x") for number in range(before))
    revisions = []
    with kv.watch() as watcher:
        for entry in watcher.initial(60):
            revisions.append(entry.revision)
            if entry.revision in (10, 700, 1900, 3990):
                lose_its_consumer(js, bucket, watcher)
        for number in range(resets):
            lose_its_consumer(js, bucket, watcher)
            kv.put(f"k{number % before}", b"again")
            revisions.append(watcher.next(timeout=LONG).revision)
        made_again = watcher._ordered.resets
    wrong = sum(found != right for right, found in enumerate(revisions, 1))
    record_figure("G5 watch, wrong entries", wrong, goal="0")
    record_figure("G5 watch, resets", made_again, goal=f">= {resets}")
    assert revisions == [*range(1, before + resets + 1)]
    assert made_again >= resets


def test_a_link_that_breaks_is_not_seen(nc, kv):
    with kv.watch() as watcher:
        for number in range(5):
            nc.force_reconnect()
            kv.put("a", b"%d" % number, timeout=LONG)
            assert watcher.next(timeout=LONG).value == b"%d" % number


def test_stopping_ends_the_iteration_and_the_server_consumer(js, kv, bucket):
    kv.put("a", b"1")
    watcher = kv.watch()
    assert [one.key for _, one in zip(range(1), watcher, strict=False)] == ["a"]
    watcher.stop()
    watcher.stop()
    assert list(watcher) == []
    with pytest.raises(jetsync.ConnectionClosedError, match="stopped"):
        watcher.next(timeout=1)
    wait_until(lambda: not list(js.consumer_names(f"KV_{bucket}")), timeout=LONG)


def test_stopping_wakes_another_thread(kv):
    watcher = kv.watch()
    ended = []
    thread = threading.Thread(target=lambda: ended.append(list(watcher)))
    thread.start()
    wait_until(lambda: watcher._busy.locked(), timeout=LONG)
    watcher.stop()
    thread.join(LONG)
    assert ended == [[]]


def test_one_thread_at_a_time(kv):
    with kv.watch() as watcher:
        thread = threading.Thread(target=lambda: list(watcher))
        thread.start()
        wait_until(lambda: watcher._busy.locked(), timeout=LONG)
        with pytest.raises(jetsync.ConfigError, match="one thread"):
            watcher.next(timeout=1)
        watcher.stop()
        thread.join(LONG)
        assert not thread.is_alive()


def test_a_forgotten_watcher_leaves_nothing(js, kv, bucket):
    kv.put("a", b"1")
    watcher = kv.watch()
    watcher.next(timeout=LONG)
    assert len(list(js.consumer_names(f"KV_{bucket}"))) == 1
    del watcher
    gc.collect()
    wait_until(lambda: not list(js.consumer_names(f"KV_{bucket}")), timeout=LONG)


def test_listing_leaves_no_consumer(js, kv, bucket):
    kv.put("a", b"1")
    kv.keys()
    kv.history("a")
    kv.purge_deletes()
    wait_until(lambda: not list(js.consumer_names(f"KV_{bucket}")), timeout=LONG)


def test_a_bucket_that_is_deleted_ends_its_watch(js, bucket):
    kv = js.create_key_value(bucket=bucket, storage="memory")
    with kv.watch() as watcher:
        js.delete_key_value(bucket)
        with pytest.raises(jetsync.BucketNotFoundError):
            watcher.next(timeout=60)


def test_closing_the_connection_ends_a_watch(url, kv):
    with jetsync.connect(url) as other:
        watcher = other.jetstream().key_value(kv.bucket).watch()
        other.close()
        with pytest.raises(jetsync.ConnectionClosedError):
            watcher.next(timeout=LONG)
        with pytest.raises(jetsync.ConnectionClosedError):
            next(watcher)
