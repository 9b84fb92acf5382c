"""The bytes of an object store on the wire, and what others may have left there."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

import jetsync
from tests.harness.raw import RawClient

LONG = 20


@pytest.fixture
def raw(url):
    with RawClient(url) as client:
        client.handshake()
        yield client


def meta_subject(bucket, name):
    return f"$O.{bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


def digest(data):
    return "SHA-256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()


def stored(raw, bucket, subject):
    answer = raw.api(f"STREAM.MSG.GET.OBJ_{bucket}", last_by_subj=subject)
    return answer["message"], base64.b64decode(answer["message"].get("data", ""))


def test_the_stream_of_a_bucket(js, raw, bucket):
    """Its configuration is the one of ADR-20."""
    js.create_object_store(
        bucket=bucket,
        description="d",
        ttl=60,
        max_bytes=10**7,
        metadata={"a": "b"},
        compression=True,
    )
    try:
        config = raw.api(f"STREAM.INFO.OBJ_{bucket}")["config"]
    finally:
        js.delete_object_store(bucket)
    assert config["subjects"] == [f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"]
    assert config["discard"] == "new"
    assert config["allow_rollup_hdrs"] is True
    assert config["allow_direct"] is True
    assert config["max_age"] == 60 * 10**9
    assert config["max_bytes"] == 10**7
    assert (config["storage"], config["num_replicas"]) == ("file", 1)
    assert (config["compression"], config["description"]) == ("s2", "d")
    assert config["metadata"]["a"] == "b"
    assert not config.get("deny_delete")
    assert not config.get("deny_purge")


def test_an_object_as_others_read_it(store, raw, bucket):
    """One chunk after another under the id, the description under the name in base64url."""
    name = "ü?>/name"
    meta = jetsync.ObjectMeta(
        name=name, description="d", headers={"h": ["1", "2"]}, metadata={"m": "n"}, chunk_size=4
    )
    nuid = store.put(meta, b"0123456789").nuid
    message, data = stored(raw, bucket, meta_subject(bucket, name))
    assert json.loads(data) == {
        "mtime": json.loads(data)["mtime"],
        "name": name,
        "description": "d",
        "headers": {"h": ["1", "2"]},
        "metadata": {"m": "n"},
        "options": {"max_chunk_size": 4},
        "bucket": bucket,
        "nuid": nuid,
        "size": 10,
        "chunks": 3,
        "digest": digest(b"0123456789"),
    }
    assert b"Nats-Rollup: sub\r\n" in base64.b64decode(message["hdrs"])
    found = [
        base64.b64decode(raw.api(f"STREAM.MSG.GET.OBJ_{bucket}", seq=seq)["message"]["data"])
        for seq in (1, 2, 3)
    ]
    assert found == [b"0123", b"4567", b"89"]
    assert raw.api(f"STREAM.MSG.GET.OBJ_{bucket}", seq=1)["message"]["subject"] == (
        f"$O.{bucket}.C.{nuid}"
    )
    store.delete(name)
    _, data = stored(raw, bucket, meta_subject(bucket, name))
    assert json.loads(data)["deleted"] is True


def test_links_as_others_read_them(store, raw, bucket):
    store.put("x", b"x")
    store.add_link("link", store.info("x"))
    store.add_bucket_link("all", "other")
    for name, link in (("link", {"bucket": bucket, "name": "x"}), ("all", {"bucket": "other"})):
        _, data = stored(raw, bucket, meta_subject(bucket, name))
        assert json.loads(data)["options"] == {"link": link}
        assert (json.loads(data)["size"], json.loads(data)["chunks"]) == (0, 0)


def leave(raw, bucket, name, wire, chunks=(), nuid="N"):
    """Store an object as some other program would."""
    for chunk in chunks:
        raw.request(f"$O.{bucket}.C.{nuid}", chunk)
    data = wire if isinstance(wire, bytes) else json.dumps(wire).encode()
    assert b"seq" in raw.request(meta_subject(bucket, name), data)


GOOD = {"name": "x", "nuid": "N", "size": 6, "chunks": 2, "digest": digest(b"abcdef")}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"bucket": "whatever", "mtime": "0001-01-01T00:00:00Z", "more": [1]},
        {"digest": digest(b"abcdef").rstrip("=")},
        {"digest": None},
        {"chunks": 0},
        {"options": None, "headers": None, "metadata": None, "description": None},
    ],
    ids=str,
)
def test_an_object_of_another_client_library(store, raw, bucket, change):
    """What other clients leave out, or say beyond what is needed, does not matter."""
    leave(raw, bucket, "x", GOOD | change, [b"abc", b"def"])
    assert store.get_bytes("x") == b"abcdef"
    assert [one.name for one in store.list()] == ["x"]


@pytest.mark.parametrize(
    ("change", "chunks"),
    [
        ({"digest": digest(b"abcdeg")}, [b"abc", b"def"]),
        ({"digest": "SHA-256="}, []),
        ({"size": 5}, [b"abc", b"def"]),
        ({"size": 7}, [b"abc", b"def"]),
        ({"size": 2**63}, [b"abc", b"def"]),
        ({"size": 2**63, "chunks": 2**62}, [b"abc", b"def"]),
        ({}, [b"abc"]),
        ({}, []),
        ({"nuid": "other"}, [b"abc", b"def"]),
    ],
    ids=str,
)
def test_bytes_that_are_not_those_described(store, raw, bucket, change, chunks):
    """Damage is found at the latest with the last byte, and nothing waits for what never comes."""
    leave(raw, bucket, "x", GOOD | change, chunks)
    for _ in range(2):
        with pytest.raises(jetsync.ObjectIntegrityError):
            store.get_bytes("x")


@pytest.mark.parametrize(
    "wire",
    [
        b"",
        b"nonsense",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"size": ' + b"9" * 5000 + b"}",
        {},
        GOOD | {"name": ""},
        GOOD | {"name": 1},
        GOOD | {"nuid": ""},
        GOOD | {"nuid": ">"},
        GOOD | {"nuid": "a.b"},
        GOOD | {"nuid": "a\r\nb"},
        GOOD | {"size": -1},
        GOOD | {"size": 1.5},
        GOOD | {"size": True},
        GOOD | {"size": 2**64},
        GOOD | {"chunks": "2"},
        GOOD | {"digest": "MD5=x"},
        GOOD | {"digest": 5},
        GOOD | {"headers": {"a": 1}},
        GOOD | {"metadata": [1]},
        GOOD | {"options": []},
        GOOD | {"options": {"link": "x"}},
        GOOD | {"options": {"link": {"bucket": "a.>"}}},
        GOOD | {"options": {"link": {"name": "x"}}},
        GOOD | {"options": {"link": {"bucket": "b", "name": "\ud800"}}},
    ],
    ids=lambda wire: str(wire)[:60],
)
def test_a_description_that_makes_no_sense(store, raw, bucket, wire):
    """Typed errors; the rest of the bucket is there; it can be deleted and put again."""
    store.put("good", b"good")
    leave(raw, bucket, "x", wire, [b"abc", b"def"])
    for call in (store.info, store.get, lambda name: store.update_meta(name, description="d")):
        with pytest.raises(jetsync.ObjectMetaError):
            call("x")
    assert [one.name for one in store.list()] == ["good"]
    assert store.delete("x").deleted
    leave(raw, bucket, "x", wire)
    store.put("x", b"new")
    assert store.get_bytes("x") == b"new"
    assert store.get_bytes("good") == b"good"


def test_links_in_a_circle(store, raw, bucket):
    for name, target in (("a", "b"), ("b", "c"), ("c", "a")):
        link = {"bucket": bucket, "name": target}
        leave(raw, bucket, name, {"name": name, "nuid": "N", "options": {"link": link}})
    with pytest.raises(jetsync.ObjectLinkError):
        store.get("a")


def test_an_object_that_is_removed_while_it_is_read(store, raw, bucket):
    """The reader ends with an error instead of waiting."""
    store.put(jetsync.ObjectMeta(name="x", chunk_size=100_000), bytes(60 * 10**6))
    reader = store.get("x")
    reader.read(10)
    store.delete("x")
    with pytest.raises(jetsync.ObjectIntegrityError):
        reader.read()
    with pytest.raises(jetsync.ObjectIntegrityError):
        reader.read()
    reader.close()
