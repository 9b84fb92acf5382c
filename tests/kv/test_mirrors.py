"""Copies of buckets and buckets fed by others (ADR-57), here and in other domains (ADR-19)."""

from __future__ import annotations

import pytest

import jetsync
from tests.harness.domains import two_domains
from tests.harness.insides import connection_of
from tests.harness.waiting import wait_until

LONG = 20


def holds(kv, key, value):
    """Whether a copy has caught up."""
    try:
        return kv.get(key).value == value
    except jetsync.KeyNotFoundError:
        return False


@pytest.fixture
def copy(js, kv, bucket):
    """A mirror of the bucket in the same account."""
    name = f"{bucket}-copy"
    yield js.create_key_value(bucket=name, mirror={"name": bucket}, history=5, storage="memory")
    js.delete_key_value(name)


def test_a_mirror_is_read_here_and_written_there(js, kv, copy):
    assert kv.put("a.b", b"1") == 1
    wait_until(lambda: holds(copy, "a.b", b"1"), timeout=LONG)
    assert copy.put("a.b", b"2") == 2
    assert kv.get("a.b").value == b"2"
    wait_until(lambda: holds(copy, "a.b", b"2"), timeout=LONG)
    assert copy.keys() == ["a.b"]
    assert [one.revision for one in copy.history("a.b")] == [1, 2]
    assert copy.get("a.b", revision=1).value == b"1"
    assert copy.status().config.mirror.name == f"KV_{kv.bucket}"
    again = js.key_value(copy.bucket)
    assert again.get("a.b").value == b"2"
    assert copy.bucket in [one.bucket for one in js.key_value_buckets()]


def test_conditions_are_decided_where_it_is_written(kv, copy):
    """Also when the copy has not heard of the last write yet: the leader of the origin is asked."""
    assert copy.create("a", b"1") == 1
    with pytest.raises(jetsync.KeyExistsError):
        copy.create("a", b"2")
    assert copy.get("a", direct=False).value == b"1"
    assert copy.update("a", b"2", 1) == 2
    with pytest.raises(jetsync.KeyWrongRevisionError):
        copy.update("a", b"3", 1)
    assert copy.delete("a") == 3
    assert copy.create("a", b"4") == 4
    assert kv.get("a").value == b"4"
    assert copy.purge("a") == 5
    assert kv.keys() == []


def test_a_mirror_of_a_mirror_is_refused(js, kv, copy, bucket):
    """Nothing would be found in it, without a word."""
    name = f"{bucket}-far"
    with pytest.raises(jetsync.KeyValueError, match="is a mirror itself"):
        js.create_key_value(bucket=name, mirror={"name": copy.bucket}, storage="memory")
    # Nor is one opened that another client has made.
    js.create_stream(
        name=f"KV_{name}", mirror={"name": f"KV_{copy.bucket}"}, max_msgs_per_subject=1
    )
    with pytest.raises(jetsync.KeyValueError, match=f"KV_{bucket}"):
        js.key_value(name)
    js.delete_key_value(name)


def test_a_mirror_is_watched_here(kv, copy):
    with copy.watch() as watcher:
        kv.put("a", b"1")
        kv.delete("a")
        assert [watcher.next(timeout=LONG).operation for _ in range(2)] == ["PUT", "DEL"]
    assert copy.purge_deletes(older_than=0) == 2
    with pytest.raises(jetsync.KeyNotFoundError):
        kv.history("a")


def test_sources_are_taken_in_under_their_keys(js, kv, bucket):
    """ADR-57: keys of a bucket keep their names; a rule of your own makes keys of any stream."""
    events, name = f"EVENTS{bucket}", f"{bucket}-all"
    js.create_stream(name=events, subjects=[f"{events}.>"], storage="memory")
    rule = {"src": f"{events}.*.done", "dest": f"$KV.{name}.done.{{{{wildcard(1)}}}}"}
    everything = js.create_key_value(
        bucket=name,
        storage="memory",
        sources=[{"name": bucket}, {"name": events, "subject_transforms": [rule]}],
    )
    kv.put("a.b", b"1")
    js.publish(f"{events}.x.done", b"2")
    everything.put("own", b"3")
    wanted = ["a.b", "done.x", "own"]
    wait_until(lambda: sorted(everything.keys()) == wanted, timeout=LONG)
    assert everything.get("a.b").value == b"1"
    assert everything.get("done.x").value == b"2"
    js.delete_key_value(name)
    js.delete_stream(events)


@pytest.fixture(scope="module")
def worlds():
    """A hub and a leaf node, each with a JetStream domain; a connection to each."""
    with two_domains() as (there, here):
        yield there.jetstream(timeout=LONG), here


def test_buckets_of_one_name_in_two_domains(worlds):
    """A write goes to the domain asked for, although the near one takes the subject too."""
    there, here = worlds
    near = here.jetstream(timeout=LONG).create_key_value(bucket="both")
    far = here.jetstream(domain="hub", timeout=LONG).create_key_value(bucket="both")
    assert (near.put("a", b"near"), near.put("b", b"near")) == (1, 2)
    assert far.create("a", b"far") == 1
    assert (near.get("a").value, far.get("a").value) == (b"near", b"far")
    assert there.key_value("both").get("a").value == b"far"
    with pytest.raises(jetsync.KeyExistsError):
        far.create("a", b"x")
    assert far.update("a", b"again", 1) == 2
    assert (far.keys(), near.keys()) == (["a"], ["a", "b"])
    assert [one.value for one in far.history("a")] == [b"again"]
    with far.watch(updates_only=True) as watcher:
        far.delete("a")
        assert watcher.next(timeout=LONG).operation == "DEL"
    assert far.create("a", b"new") == 4
    assert near.get("a").revision == 1


def test_a_mirror_of_another_domain(worlds):
    """Reads come from the leaf, writes go to the hub and come back."""
    there, here = worlds
    origin = there.create_key_value(bucket="settings", history=5)
    copy = here.jetstream(timeout=LONG).create_key_value(
        bucket="near",
        history=5,
        mirror={"name": "settings", "external": {"api": "$JS.hub.API", "deliver": ""}},
    )
    origin.put("a", b"1")
    wait_until(lambda: holds(copy, "a", b"1"), timeout=LONG)
    assert copy.put("a", b"2") == 2
    wait_until(lambda: holds(copy, "a", b"2"), timeout=LONG)
    assert origin.get("a").value == b"2"
    with pytest.raises(jetsync.KeyExistsError):
        copy.create("a", b"x")
    assert copy.delete("a") == 3
    assert copy.create("a", b"3") == 4
    with copy.watch(include_history=True) as watcher:
        revisions: list[int] = []
        while len(revisions) < 4:
            revisions.append(watcher.next(timeout=LONG).revision)
    assert revisions == [1, 2, 3, 4]
    assert [one.value for one in copy.history("a")] == [b"1", b"2", b"", b"3"]
    bound = here.jetstream(timeout=LONG).key_value("near")
    assert bound.get("a").value == b"3"


def test_a_mirror_goes_on_when_its_origin_is_away(worlds):
    """Reading needs the near domain only."""
    there, here = worlds
    there.create_key_value(bucket="away").put("a", b"1")
    copy = here.jetstream(timeout=LONG).create_key_value(
        bucket="kept",
        mirror={"name": "away", "external": {"api": "$JS.hub.API", "deliver": ""}},
    )
    wait_until(lambda: holds(copy, "a", b"1"), timeout=LONG)
    there.delete_key_value("away")
    for found in (copy, here.jetstream(timeout=LONG).key_value("kept")):
        assert found.get("a").value == b"1"
        assert found.keys() == ["a"]
    with pytest.raises(jetsync.PublishError):
        copy.put("a", b"2", timeout=1)


@pytest.fixture
def behind(js, kv, bucket):
    """A mirror of the bucket that another program has made, with answers for reads of the bucket:
    of key ``a`` it has an old revision, and nothing of key ``b``."""
    kv.put("a", b"old")
    name = f"KV_{bucket}-other"
    stream = js.create_stream(
        name=name,
        mirror=jetsync.StreamSource(name=f"KV_{bucket}"),
        allow_direct=True,
        mirror_direct=True,
        max_msgs_per_subject=5,
        storage="memory",
    )
    kv.put("a", b"new")
    kv.put("b", b"new")
    wait_until(lambda: stream.info().state.last_seq == 3, timeout=LONG)
    stream.delete_msg(2)
    stream.delete_msg(3)
    # Now it does answer in the place of the bucket.
    subject = f"$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.a"
    answering = lambda: connection_of(js).request(subject).headers.get("Nats-Stream") == name  # noqa: E731
    wait_until(answering, timeout=LONG)
    yield stream
    js.delete_stream(name)


def test_a_mirror_that_others_made_changes_no_read_of_its_origin(kv, behind):
    """Half of the questions reach the mirror: its answers do not count, and neither does its "not
    found"."""
    for _ in range(60):
        assert kv.get("a").value == b"new"
        assert kv.get("b").value == b"new"
        assert kv.get("a", revision=2).value == b"new"
        found = kv.get_many(["a", "b"])
        assert {key: one.value for key, one in found.items()} == {"a": b"new", "b": b"new"}


def test_a_revision_that_has_to_be_seen(kv, copy, js, bucket):
    """A copy that is behind is not enough then: the leader of the origin is asked."""
    kv.put("a", b"1")
    wait_until(lambda: holds(copy, "a", b"1"), timeout=LONG)
    kv.put("a", b"2")
    wait_until(lambda: holds(copy, "a", b"2"), timeout=LONG)
    js.stream(f"KV_{copy.bucket}").purge()
    with pytest.raises(jetsync.KeyNotFoundError):
        copy.get("a")
    assert copy.get("a", at_least=2).value == b"2"
    assert kv.get("a", at_least=2).value == kv.get("a", at_least=1).value == b"2"
    assert kv.get("b", at_least=2, default=None) is None


def test_a_mirror_that_answers_no_reads_of_its_origin(worlds):
    """As its configuration says. For an origin of the same account the server decides it."""
    there, here = worlds
    there.create_key_value(bucket="quiet")
    far = jetsync.StreamSource(name="quiet", external=jetsync.ExternalStream(api="$JS.hub.API"))
    js = here.jetstream(timeout=LONG)
    for direct in (False, True):
        js.create_key_value(bucket=f"near-{direct}", mirror=far, mirror_direct=direct)
        for _ in range(2):
            assert js.stream(f"KV_near-{direct}").cached_info.config.mirror_direct is direct
            assert js.key_value(f"near-{direct}").status().config.mirror_direct is direct
            js.update_key_value(bucket=f"near-{direct}", description="d")


def test_a_frozen_server_with_a_mirror_stops_no_read_of_the_origin(fresh_cluster):
    """The leader of the origin is well, and is asked in time."""
    cluster = fresh_cluster
    with jetsync.connect(cluster.servers[0].url) as any_server:
        js = any_server.jetstream(timeout=60)
        js.create_key_value(bucket="origin").put("a", b"1")
        placed = js.stream("KV_origin").info().cluster
        assert placed is not None
        assert placed.leader
        home = cluster.server(placed.leader)
        js.create_key_value(bucket="mirror", mirror={"name": "origin"}, replicas=3)
        away = next(one for one in cluster.servers if one is not home)
        with jetsync.connect(home.url, ignore_discovered_servers=True) as nc:
            origin = nc.jetstream(timeout=60).key_value("origin")
            subject = "$JS.API.DIRECT.GET.KV_origin.$KV.origin.a"
            wait_until(
                lambda: nc.request(subject).headers.get("Nats-Stream") == "KV_mirror",
                timeout=LONG,
            )
            away.pause()
            try:
                for _ in range(12):
                    assert origin.get("a", timeout=2).value == b"1"
            finally:
                away.resume()
