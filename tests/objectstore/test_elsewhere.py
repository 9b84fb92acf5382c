"""Objects in a bucket of three replicas, and in the bucket of another JetStream domain."""

from __future__ import annotations

import threading

import pytest

import jetsync
from tests.harness.domains import parted_domains, two_domains
from tests.kv.test_cluster import step_down

LONG = 60
PIECE = bytes(range(256)) * 1024  # two chunks
PIECES = 20


def test_a_bucket_of_three_replicas_whose_leaders_change(cluster):
    """In the middle of a put and of a get; what was said about objects is found afterwards."""
    with jetsync.connect(cluster.urls, reconnect_wait=0.05) as nc:
        js = nc.jetstream(timeout=LONG)
        store = js.create_object_store(bucket="replicated", replicas=3, timeout=LONG)

        def source():
            for number in range(PIECES):
                if number == PIECES // 2:
                    step_down(js, "OBJ_replicated")
                yield PIECE

        try:
            store.put("small", b"1", timeout=LONG)
            assert store.put("large", source(), timeout=LONG).chunks == 2 * PIECES
            with store.get("large", timeout=LONG, read_timeout=LONG) as reader:
                first = reader.read(len(PIECE))
                step_down(js, "OBJ_replicated")
                assert first + reader.read() == PIECE * PIECES
            store.put("small", b"22", timeout=LONG)
            found = {one.name: one.size for one in store.list(timeout=LONG)}
            assert found == {"small": 2, "large": len(PIECE) * PIECES}
            store.delete("large", timeout=LONG)
            with pytest.raises(jetsync.ObjectNotFoundError):
                store.get_bytes("large", timeout=LONG)
            assert store.status(timeout=LONG).replicas == 3
        finally:
            js.delete_object_store("replicated", timeout=LONG)


@pytest.fixture(scope="module")
def urls():
    """Of a hub, and of a leaf node with a domain of its own."""
    with two_domains() as connections:
        yield [nc.connected_url for nc in connections]


@pytest.fixture
def worlds(urls):
    hub, edge = urls
    with jetsync.connect(hub) as there, jetsync.connect(edge) as here:
        yield there.jetstream(timeout=LONG), here


def test_a_bucket_of_another_domain(worlds):
    """Everything that can be done with one near."""
    there, here = worlds
    far = here.jetstream(domain="hub", timeout=LONG).create_object_store(bucket="far")
    far.put("a", PIECE)
    assert there.object_store("far").get_bytes("a") == far.get_bytes("a") == PIECE
    with far.watch(updates_only=True) as watcher:
        far.update_meta("a", new_name="b")
        assert watcher.next(LONG).name == "b"
    far.add_link("link", far.info("b"))
    assert far.get_bytes("link") == PIECE
    far.put("b", b"")
    far.delete("b")
    assert [one.name for one in far.list()] == ["link"]
    left = there.stream("OBJ_far").info(subjects_filter="$O.far.C.>").state.subjects
    assert not left, "no chunks without an object"


def test_an_object_is_read_and_written_while_the_link_to_its_domain_is_away_for_a_moment():
    """No server answers for the domain meanwhile, which is no reason to give up."""
    with parted_domains() as (there, here, link):
        far = here.jetstream(domain="hub", timeout=LONG).create_object_store(bucket="far")

        def away():
            link.stop()
            threading.Timer(0.5, link.restart).start()

        def source():
            for number in range(PIECES):
                if number == PIECES // 2:
                    away()
                yield PIECE

        assert far.put("a", source(), timeout=LONG).chunks == 2 * PIECES
        assert there.jetstream().object_store("far").get_bytes("a") == PIECE * PIECES
        far.put("large", PIECE * 3 * PIECES, timeout=LONG)
        with far.get("large", timeout=LONG, read_timeout=LONG) as reader:
            first = reader.read(len(PIECE))
            away()
            assert first + reader.read() == PIECE * 3 * PIECES
        away()
        assert far.info("large", timeout=LONG).size == len(PIECE) * 3 * PIECES
        far.delete("large", timeout=LONG)


def test_the_domain_of_the_server_can_be_named(worlds):
    there, _ = worlds
    there.create_object_store(bucket="named")
    named = there._nc.jetstream(domain="hub", timeout=LONG).object_store("named")
    named.put("a", b"1")
    assert there.object_store("named").get_bytes("a") == b"1"


def test_what_two_domains_would_store_is_refused(worlds):
    """Servers pass objects on to every stream that stores them: buckets of one name would mix."""
    there, here = worlds
    there.create_object_store(bucket="both").put("a", b"far")
    here.jetstream(timeout=LONG).create_object_store(bucket="both")
    far = here.jetstream(domain="hub", timeout=LONG).object_store("both")
    assert far.get_bytes("a") == b"far"
    for write in (
        lambda: far.put("a", b"x"),
        lambda: far.delete("a"),
        lambda: far.update_meta("a", description="x"),
        lambda: far.update_meta("a", new_name="b"),
        lambda: far.add_bucket_link("l", "other"),
    ):
        with pytest.raises(jetsync.ObjectStoreError, match="both have a bucket 'both'"):
            write()
    assert [one.name for one in far.list()] == ["a"]
