"""A publisher may put anything into the header block of a message: it is a message all the same.

Each block is stored by a plain socket, with ordinary messages between, and read in every way that
there is. Each message comes once, in order, with its bytes; no reader ends, none raises.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.older import OLDER_VERSIONS, older_server
from tests.harness.raw import RawClient
from tests.harness.soak import SOAKING, scaled
from tests.harness.waiting import wait_until
from tests.reliability.hostile_blocks import Block, corpus

EVERY = scaled(5, 1)
NEIGHBOUR = 10  # one message in so many is an ordinary one
VERSIONS = ["newest", *OLDER_VERSIONS] if SOAKING else ["newest"]

Row = tuple[int, bytes, bytes]  # sequence, payload, header block


@contextlib.contextmanager
def running(version: str) -> Iterator[str]:
    with NatsServer() if version == "newest" else older_server(version) as server:
        yield server.url


@pytest.fixture(scope="module", params=VERSIONS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with (
        running(request.param) as url,
        RawClient(url, timeout=30) as raw,
        jetsync.connect(url) as nc,
    ):
        raw.handshake()
        yield Place(url, raw, nc)


class Place:
    """A server with the corpus in a stream, a bucket and an object store."""

    def __init__(self, url: str, raw: RawClient, nc: jetsync.Connection) -> None:
        self.url = url
        self.js = nc.jetstream(timeout=30)
        self.version = nc.server_info.version if nc.server_info else ""
        self.blocks = corpus(EVERY)
        self.stream: Any = self.js.create_stream(
            name="H", subjects=["h.>"], storage="memory", allow_direct=True
        )
        self.raw = raw
        self.sent: list[bytes] = []
        for number, block in enumerate(self.blocks):
            self.send(block.frame("h.odd"), block.payload)
            if number % NEIGHBOUR == 0:
                self.send(
                    Block(b"NATS/1.0\r\nA: b\r\n\r\n", b"").frame("h.plain", b"plain"), b"plain"
                )
        self.flush()
        # The server stores behind its PONG.
        wait_until(lambda: self.stream.info().state.last_seq >= len(self.sent))
        assert self.stream.info().state.messages == len(self.sent)

    def send(self, frame: bytes, payload: bytes) -> None:
        self.raw.send(frame)
        self.sent.append(payload)

    def flush(self) -> None:
        self.raw.send(b"PING\r\n")
        assert b"-ERR" not in self.raw.read_until(b"PONG\r\n")

    @property
    def count(self) -> int:
        return len(self.sent)


def row(msg: Any) -> Row:
    """Everything about a message is asked for; nothing of it raises."""
    headers = msg.headers
    assert dict(headers.items()).keys() == headers.to_dict().keys()
    assert headers.malformed >= 0
    assert (msg.status, msg.description) == (0, "")
    repr(msg)
    repr(headers)
    return msg.metadata.stream_seq, msg.data, msg.raw_headers


def by_fetch(place: Place) -> Iterator[Row]:
    consumer = place.stream.create_consumer(ack_policy="explicit")
    left = place.count
    while left:
        for msg in consumer.fetch(min(left, 500), timeout=10):
            msg.ack()
            left -= 1
            yield row(msg)


def by_next(place: Place) -> Iterator[Row]:
    consumer = place.stream.create_consumer(ack_policy="none")
    for _ in range(place.count):
        yield row(consumer.next(timeout=10))


def by_messages(place: Place) -> Iterator[Row]:
    consumer = place.stream.create_consumer(ack_policy="explicit")
    with consumer.messages(max_messages=100) as messages:
        for _ in range(place.count):
            msg = messages.next(timeout=10)
            msg.ack()
            yield row(msg)


def by_consume(place: Place) -> Iterator[Row]:
    consumer = place.stream.create_consumer(ack_policy="explicit")
    found: list[Row] = []
    errors: list[BaseException] = []
    enough = threading.Event()

    def take(msg: Any) -> None:
        try:
            found.append(row(msg))
            msg.ack()
        except BaseException as error:
            errors.append(error)
        if len(found) == place.count or errors:
            enough.set()

    with consumer.consume(take):
        assert enough.wait(60), len(found)
    assert not errors
    yield from found


def by_ordered(place: Place) -> Iterator[Row]:
    with place.stream.ordered_consumer().messages() as messages:
        for _ in range(place.count):
            yield row(messages.next(timeout=10))


def by_push(place: Place) -> Iterator[Row]:
    with place.js.subscribe("h.>", flow_control=True, heartbeat=2) as sub:
        for _ in range(place.count):
            msg = sub.next(timeout=10)
            msg.ack()
            yield row(msg)


def by_ordered_push(place: Place) -> Iterator[Row]:
    with place.js.subscribe("h.>", ordered=True) as sub:
        for _ in range(place.count):
            yield row(sub.next(timeout=10))


def by_pull_subscribe(place: Place) -> Iterator[Row]:
    with place.js.pull_subscribe("h.>", durable="old") as sub:
        left = place.count
        while left:
            for msg in sub.fetch(min(left, 300), timeout=10):
                msg.ack()
                left -= 1
                yield row(msg)


def by_get_msg(place: Place) -> Iterator[Row]:
    for seq in range(1, place.count + 1):
        msg = place.stream.get_msg(seq)
        dict(msg.headers.items())
        yield msg.seq, msg.data, msg.raw_headers


def by_direct_get(place: Place) -> Iterator[Row]:
    for seq in range(1, place.count + 1):
        msg = place.stream.get_msg(seq, direct=True)
        assert msg.subject in ("h.odd", "h.plain")
        yield msg.seq, msg.data, msg.raw_headers


def by_range(place: Place) -> Iterator[Row]:
    at = 1
    while at <= place.count:
        batch = place.stream.get_msgs(at, max_messages=700)
        for msg in batch:
            at += 1
            yield row(msg)


def by_arrow(place: Place) -> Iterator[Row]:
    consumer = place.stream.create_consumer(ack_policy="none")
    yield from table(place, consumer.fetch(place.count, timeout=10))


def by_arrow_range(place: Place) -> Iterator[Row]:
    yield from table(place, place.stream.get_msgs(1, max_messages=place.count))


def table(place: Place, batch: Any) -> Iterator[Row]:
    columns = pa.record_batch(batch)
    columns.validate(full=True)
    assert len(columns) == place.count
    for one in columns.select(["stream_seq", "data"]).to_pylist():
        yield one["stream_seq"], one["data"], b""


CONSUMING = [by_next, by_messages, by_consume, by_ordered, by_push, by_ordered_push]
CONSUMING += [by_pull_subscribe, by_get_msg]
DIRECT = [by_direct_get, by_range]
ARROW = [by_arrow, by_arrow_range]
NEWER = {by_range, by_arrow_range}  # servers before 2.11 do not answer such questions


@pytest.fixture(scope="module")
def stored(place: Place) -> list[Row]:
    """What the stream holds, as one reader tells."""
    return list(by_fetch(place))


def test_the_corpus_is_large_and_nothing_of_it_is_refused(place, stored, record_figure):
    assert len(corpus()) >= 2000
    assert [seq for seq, _, _ in stored] == list(range(1, place.count + 1))
    assert [data for _, data, _ in stored] == place.sent
    record_figure(
        "G24 hostile header blocks read in every way",
        len(place.blocks),
        goal="all; >= 2,000 by night",
    )


@pytest.mark.parametrize("reader", [*CONSUMING, *DIRECT, *ARROW], ids=lambda one: one.__name__)
def test_every_message_comes_once_whatever_its_header_block_says(
    place: Place, stored: list[Row], reader: Callable[[Place], Iterator[Row]]
) -> None:
    if reader in NEWER and place.version.startswith("2.10."):
        return
    found = list(itertools.islice(reader(place), place.count + 1))
    assert [seq for seq, _, _ in found] == list(range(1, place.count + 1))
    assert [data for _, data, _ in found] == place.sent
    if reader in CONSUMING:
        assert found == stored
    if reader in DIRECT:
        # The server replaces the last two bytes of a block, which belong to the blank line.
        for (_, _, direct), (_, _, whole) in zip(found, stored, strict=True):
            assert direct[:-2] == whole[:-2] or (direct == b"" and len(whole) <= 12)


def test_keys_are_read_whatever_stands_before_their_values(place: Place) -> None:
    kv: Any = place.js.create_key_value(bucket="B", history=3, storage="memory")
    first = kv.put("first", b"first")
    names = []
    for number, block in enumerate(place.blocks):
        names.append(f"k{number}")
        place.raw.send(block.frame(f"$KV.B.k{number}"))
    place.flush()
    kv.put("later", b"later")
    wanted = {"first": b"first", "later": b"later"}
    wanted |= dict(zip(names, (block.payload for block in place.blocks), strict=True))

    assert {name: kv.get(name).value for name in wanted} == wanted
    assert kv.get("first", revision=first).value == b"first"
    assert set(kv.keys()) == set(wanted)
    for name in [*names[:50], "first", "later"]:
        assert [entry.value for entry in kv.history(name)] == [wanted[name]]
    seen: dict[str, bytes] = {}
    with kv.watch() as watcher:
        while len(seen) < len(wanted):
            entry = watcher.next(timeout=10)
            if entry is not None:
                assert entry.key not in seen
                seen[entry.key] = entry.value
    assert seen == wanted


def test_objects_are_read_whatever_stands_before_their_description(place: Place) -> None:
    with jetsync.connect(place.url) as nc:
        read_objects(place, nc.jetstream(timeout=30))


def read_objects(place: Place, js: jetsync.JetStream) -> None:
    store: Any = js.create_object_store(bucket="O", storage="memory")
    content = bytes(range(256)) * 1000
    for name in ("first", "odd", "later"):
        store.put(name, content)
    stream: Any = js.stream("OBJ_O")
    described = stream.get_last_msg(f"$O.O.M.{base64.urlsafe_b64encode(b'odd').decode()}")
    for block in place.blocks[:: max(1, len(place.blocks) // 100)]:
        place.raw.send(block.frame(described.subject, described.data))
        place.flush()
        assert store.get_bytes("odd") == content
        assert {info.name for info in store.list()} == {"first", "odd", "later"}
        assert store.info("odd").size == len(content)
    place.raw.send(b"".join(block.frame("$O.O.C.unheard") for block in place.blocks))
    place.flush()
    for name in ("first", "odd", "later"):
        assert store.get_bytes(name) == content
